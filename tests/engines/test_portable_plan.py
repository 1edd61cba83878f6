"""Lazy tensors pickle as plans: the same bits, in this process and another."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines import PortablePlan
from sparrow.errors import InvalidValueError, NotFoundError, UnsupportedError
from sparrow.plan import nodes_below
from tests.engines.plans import expressions
from tests.engines.test_parity import Maker, cells


def bits(tensor: Any) -> list[bytes]:
    """Return the bytes of the elements of a tensor."""
    block = engines.evaluate(tensor.__sparrow_scan__(), "stream")
    return [array.tobytes() for array in (*block.coords, block.values)]


def sent(tensor: Any) -> Any:
    return pickle.loads(pickle.dumps(tensor))


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("portable"))


def operands(make: Maker, dtype: str, place: str, seed: int) -> tuple[Any, Any]:
    a, b = (np.where(np.isfinite(x := cells((12, 12), dtype, 0, seed + k)), x, 0) for k in (0, 1))
    small = [np.where(np.abs(x.astype(float)) < 1e6, x, 1).astype(dtype) for x in (a, b)]
    return make(small[0], 0, place), make(small[1], 0, "memory" if place == "stored" else "stored")


@settings(max_examples=8)
@given(st.sampled_from(["int8", "uint32", "float32", "float64"]), st.sampled_from(["memory", "stored", "view"]),
       st.integers(0, 2**16))  # fmt: skip
def test_pickled_plans_have_the_same_bits(make: Maker, dtype: str, place: str, seed: int) -> None:
    for name, expression in expressions(*operands(make, dtype, place, seed)).items():
        with sparrow.testing.observe("relations.read") as reads:
            text = pickle.dumps(expression)
        found = pickle.loads(text)
        assert reads == [], name
        assert (found.shape, found.dtype, found.dims, found.stype) == (
            expression.shape, expression.dtype, expression.dims, expression.stype
        ), name  # fmt: skip
        with np.errstate(all="ignore"):
            assert bits(found) == bits(expression), name


def test_another_process_computes_the_same_bits(make: Maker, tmp_path: Path) -> None:
    found = expressions(*operands(make, "float64", "stored", 3))
    with open(tmp_path / "plans", "wb") as file:
        pickle.dump(list(found.values()), file)
    program = (
        "import pickle, sys, numpy as np\n"
        "from tests.engines.test_portable_plan import bits\n"
        "np.seterr(all='ignore')\n"
        "there = pickle.load(open(sys.argv[1], 'rb'))\n"
        "pickle.dump([bits(each) for each in there], open(sys.argv[2], 'wb'))\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", program, tmp_path / "plans", tmp_path / "bits"], check=True, cwd=root)
    with open(tmp_path / "bits", "rb") as file, np.errstate(all="ignore"):
        there = pickle.load(file)
        assert dict(zip(found, there, strict=True)) == {name: bits(each) for name, each in found.items()}


def test_stored_operands_travel_as_paths(tmp_path: Path) -> None:
    A = sp.random((20_000, 20_000), nnz=100_000, seed=0).save(tmp_path / "A.sparrow")
    B = A.T.save(tmp_path / "B.sparrow")
    with sparrow.testing.observe("storage.read_row_group") as reads:
        text = pickle.dumps((A @ B)[5:9] + 1)
    assert reads == []
    assert len(text) < 4096
    A[0, 0] = 7  # the plan has pinned version 0
    assert (
        pickle.loads(text).to_numpy().tobytes()
        == ((sp.open(tmp_path / "A.sparrow", version=0) @ B)[5:9] + 1).to_numpy().tobytes()
    )


def test_shared_nodes_stay_shared() -> None:
    A = sp.eye(3)
    deep = A
    for _ in range(60):
        deep = deep * 0.5 + deep * 0.5  # 2^60 paths
    found = sent(deep)
    assert len(nodes_below([found.__sparrow_scan__()])) == len(nodes_below([deep.__sparrow_scan__()]))
    assert np.array_equal(found.to_numpy(), np.eye(3))
    long = A
    for _ in range(3000):  # a pickle that recursed would end here
        long = -long
    assert np.array_equal(sent(long).to_numpy(), np.eye(3))


def test_copies_keep_functions_of_this_process() -> None:
    lock = threading.Lock()

    def multiply_alone(a: Any, b: Any) -> Any:
        return a * b if lock.locked() else a

    A = sp.asarray([[0, 2], [3, 0]])
    product = sp.matmul(A, A, semiring=sp.Semiring("max", multiply_alone, identity=0))
    for same in (copy.copy(product), copy.deepcopy(product)):
        assert nodes_below([same.__sparrow_scan__()]) == nodes_below([product.__sparrow_scan__()])
    with pytest.raises(UnsupportedError, match=r"multiply_alone must be a picklable .*lock.*define it in a module"):
        pickle.dumps(product)


def test_functions_travel_by_value() -> None:
    pytest.importorskip("cloudpickle")
    A = sp.asarray([[0, 2], [3, 0]])
    product = sp.matmul(A, A, semiring=sp.Semiring(lambda a, b: a + b, lambda a, b: a * b, identity=0))
    assert np.array_equal(sent(product).to_numpy(), [[6, 0], [0, 6]])


def test_labels_travel_by_reference(tmp_path: Path) -> None:
    names = [f"user {k}" for k in range(5000)]
    coords = [np.arange(5000), np.arange(5000)]
    A = sp.from_coords(coords, np.ones(5000), shape=(5000, 5000), labels={0: names}, dims=("user", "item"))
    stored = A.save(tmp_path / "A.sparrow")
    text = pickle.dumps(stored[::-2] * 2)
    assert len(text) < 4096
    assert pickle.loads(text).labels("user").to_pylist() == names[::-2]
    assert sent(A[3:5] * 2).labels("user").to_pylist() == names[3:5]
    assert sent((stored * 2)[[7, 1]]).labels("user").to_pylist() == ["user 7", "user 1"]


def test_missing_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    A = sp.eye(3).save(tmp_path / "t")
    text = pickle.dumps(A @ A)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(NotFoundError, match=str(tmp_path)):
        pickle.loads(text)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "another")
    there = pickle.loads(text)  # an OSError here would end a worker of a pool silently
    with pytest.raises(NotFoundError, match=str(tmp_path)):
        there.compute()


def test_damaged_plans_are_refused() -> None:
    A = sp.from_coords([[0, 1, 3], [4, 2, 1]], [2.0, 3.0, 4.0], shape=(4, 5))
    make, ((entries, roots, labels),) = PortablePlan([(A * 2).__sparrow_scan__()]).__reduce__()
    entries[0].coords[1][0] = 5
    with pytest.raises(IndexError):
        assert make((entries, roots, labels)).scans
    entries[0].coords[1][0] = 4
    entries[0].coords[0][0] = 2
    with pytest.raises(InvalidValueError, match="ascend"):
        assert make((entries, roots, labels)).scans
