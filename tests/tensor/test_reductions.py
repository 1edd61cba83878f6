"""Reductions against NumPy: every dtype, fill value, axis and source."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import (
    AxisError,
    InvalidValueError,
    NumberRangeError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.kernels.coo import Block, canonicalize
from sparrow.plan import Node, Reduce, Scan, make_reduce
from sparrow.plan.aggregates import REDUCTIONS
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime.settings import config
from sparrow.testing import tune
from tests.engines.helpers import (
    Counting,
    Unreadable,
    lower_node,
    memory,
    random_array,
    reduce_scan,
    scan_of,
    stored_relation,
    to_dense,
)

DTYPES = ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
ONE_AXIS = ("argmin", "argmax", "nanargmin", "nanargmax")
EXACT = ("min", "max", "nanmin", "nanmax", "any", "all", "count", *ONE_AXIS)
SQUARES = ("var", "nanvar")
ROOTS = ("std", "nanstd")


def steps_of(scan: Scan, names: list[str], axis: Any = None) -> dict[str, Reduce]:
    """Return reductions by name; ``stored_`` means stored elements only."""
    found = {}
    for name in names:
        plain = name.removeprefix("stored_") if name != "nnz" else "count"
        found[name] = make_reduce(scan, plain, axis, where="stored" if name.startswith("stored_") else "all")
    return found


def statistics(scan: Scan, names: list[str]) -> dict[str, Any]:
    """Return reductions over all axes by name."""
    return dict(zip(names, engines.reduce_all(list(steps_of(scan, names).values())), strict=True))


def found(scan: Scan, name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a reduction as NumPy would: a scalar, or an array."""
    result = reduce_scan(scan, name, *args, **kwargs)
    if isinstance(result, Node):
        block = engines.evaluate(scan_of(result))
        assert not is_fill(block.values, result.schema.fill_value).any()
        return to_dense(block, result.schema)
    assert isinstance(result, np.generic)
    return result


def expect(
    dense: NDArray[Any], name: str, axis: Any = None, keepdims: bool = False, fill: Any = 0, **options: Any
) -> Any:
    """Return NumPy's result for all elements, narrow floats summed as wide ones."""
    wide = dense
    if dense.dtype.kind in "fc":
        wide = dense.astype(np.complex128 if dense.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        if name == "count":
            return np.asarray(~is_fill(dense, np.asarray(fill).astype(dense.dtype)[()])).sum(
                axis=axis, keepdims=keepdims
            )
        if name == "norm":
            cells = np.abs(wide if dense.dtype.kind in "fc" else wide.astype(np.float64))
            degree = options.get("ord", 2)
            if degree == np.inf:
                out = cells.max(axis=axis, keepdims=keepdims, initial=0)
            elif degree == -np.inf:
                out = cells.min(axis=axis, keepdims=keepdims) if cells.size else 0 * cells.sum(axis, keepdims=keepdims)
            else:
                out = (cells**degree if degree else cells != 0).sum(axis=axis, keepdims=keepdims, dtype=np.float64)
                out = np.sqrt(out) if degree == 2 else out ** (1 / degree) if degree else out
            return out.astype(np.linalg.norm(np.ones(1, dense.dtype)).dtype)
        if name in ("nanargmin", "nanargmax"):
            return best_number(dense, name == "nanargmax", axis, keepdims)
        function = getattr(np, name)
        kind = function(np.ones(2, dense.dtype)).dtype
        return np.asarray(function(wide, axis=axis, keepdims=keepdims, **options)).astype(kind)


def best_number(dense: NDArray[Any], largest: bool, axis: Any = None, keepdims: bool = False) -> Any:
    """Return nanargmax or nanargmin; NumPy's confuses NaN with infinity."""
    blind = np.isnan(dense)
    if blind.all(axis=axis).any():
        raise ValueError("All-NaN slice encountered")
    ranks = np.unique(dense, return_inverse=True)[1].reshape(dense.shape)  # NaN comes last
    if not largest:
        return np.argmin(ranks, axis=axis, keepdims=keepdims)
    return np.argmax(np.where(blind, -1, ranks), axis=axis, keepdims=keepdims)


def assert_same(result: Any, wanted: Any, name: str, dense: NDArray[Any]) -> None:
    assert result.dtype == wanted.dtype
    assert result.shape == wanted.shape
    if name in EXACT or wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(result, wanted)
        return
    finite = np.abs(dense[np.isfinite(dense)].astype(np.complex128))
    scale = finite.max(initial=1) ** (2 if name in SQUARES else 1) * max(dense.size, 1)
    room = 16 * np.finfo(wanted.dtype).eps
    if name in ROOTS:
        room = np.sqrt(np.finfo(np.float64).eps) + room
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, wanted, rtol=room * dense.ndim * 4 + room, atol=room * scale)


def cells(dtype: str) -> list[Any]:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return [True, False]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return [0, 1, 3, limits.max, limits.min, 7, limits.max - 1]
    if kind.kind == "c":
        return [0, 1, -2.5, 1 + 2j, -1j, 3]
    return [0.0, -0.0, 1.0, -2.5, 3.0, np.inf, -np.inf, np.nan, 100.0]


@st.composite
def arrays(draw: st.DrawFn, largest: int = 4) -> tuple[NDArray[Any], Any]:
    """Return a dense array, and the fill that makes it sparse."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, largest), max_size=3)))
    choice = cells(dtype)
    fill = draw(st.sampled_from([0, 0, *choice]))
    size = int(np.prod(shape))
    values = draw(st.lists(st.sampled_from([fill] * len(choice) + choice), min_size=size, max_size=size))
    return np.array(values, dtype=object).astype(dtype).reshape(shape), fill


@st.composite
def reductions_to_ask(draw: st.DrawFn, ndim: int) -> tuple[str, dict[str, Any]]:
    """Return a reduction and its arguments."""
    name = draw(st.sampled_from(REDUCTIONS))
    axes = list(range(-ndim, ndim))
    choices: list[Any] = [None, *axes]
    if name not in ONE_AXIS:
        choices += [c for n in range(ndim + 1) for c in itertools.combinations(range(ndim), n)]
    options: dict[str, Any] = {"axis": draw(st.sampled_from(choices)), "keepdims": draw(st.booleans())}
    if name in SQUARES + ROOTS:
        options["ddof"] = draw(st.sampled_from([0, 1, 2]))
    if name == "norm":
        options["ord"] = draw(st.sampled_from([0, 1, 2, np.inf, -np.inf, 3, 0.5, -1, -2.5]))
    return name, options


def keys(ndim: int) -> list[Any]:
    """Return indices that make views of each kind."""
    plain: list[Any] = [(), (slice(None, None, -1),), (slice(1, None, 2),), ([0, 0],), (None,)]
    return [*plain, (Ellipsis, slice(None, None, -2)), (Ellipsis, [0])] if ndim else [(), (None,)]


def take_view(relation: Relation, dense: NDArray[Any], data: st.DataObject) -> tuple[Scan, NDArray[Any]]:
    """Return a view of a relation, and of the array."""
    view = View.identity(dense.shape)
    key = data.draw(st.sampled_from(keys(dense.ndim)), "key")
    try:
        shown = dense[key]
    except IndexError:
        key, shown = (), dense
    view = view.then(key)
    order = data.draw(st.permutations(range(shown.ndim)), "order")
    return scan_of(relation, view.permute(tuple(order))), shown.transpose(order)


def check(scan: Scan, dense: NDArray[Any], fill: Any, name: str, options: dict[str, Any]) -> None:
    try:
        wanted = expect(dense, name, fill=fill, **options)
    except ValueError:
        with pytest.raises((ShapeError, InvalidValueError), match=name):
            found(scan, name, **options)
        return
    assert_same(found(scan, name, **options), wanted, name, dense)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of empty slices
@given(arrays(), st.data())
@settings(max_examples=79)
def test_all_elements(case: tuple[NDArray[Any], Any], data: st.DataObject) -> None:
    dense, fill = case
    scan, shown = take_view(memory(dense, fill), dense, data)
    name, options = data.draw(reductions_to_ask(shown.ndim))
    check(scan, shown, fill, name, options)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(arrays(largest=8), st.data(), st.sampled_from([1, 2, 3]))
@settings(max_examples=8)
def test_all_elements_stored(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[NDArray[Any], Any], data: st.DataObject, threads: int
) -> None:
    dense, fill = case
    if dense.dtype == np.uint64:
        dense = dense >> np.uint64(1)
    orders = [tuple(reversed(range(dense.ndim)))] if dense.ndim > 1 and data.draw(st.booleans()) else []
    fill = fill >> 1 if dense.dtype == np.uint64 else fill
    relation = stored_relation(tmp_path_factory.mktemp("tensor") / "t", dense, *orders, fill_value=fill)
    with config(threads=threads):
        for _ in range(6):
            scan, shown = take_view(relation, dense, data)
            name, options = data.draw(reductions_to_ask(shown.ndim))
            check(scan, shown, fill, name, options)


@pytest.mark.parametrize(
    ("dtype", "value", "order"), [("float16", 100, 3), ("float32", 1e20, 3), ("complex64", 1e20 + 1e20j, 3)]
)
def test_norm_of_narrow_types(dtype: str, value: complex, order: float) -> None:
    dense = np.array([value, 0], dtype)
    for fill in (0, value):
        result = found(scan_of(memory(dense, fill)), "norm", ord=order)
        assert result == pytest.approx(abs(complex(np.asarray(value, dtype))), rel=1e-3)


def of_entries(dense: NDArray[Any], name: str, axis: int, fill: Any, options: dict[str, Any]) -> list[Any]:
    """Return a reduction of the stored elements of each group of a matrix."""
    nothing: dict[str, Any] = {"prod": 1, "nanprod": 1, "all": True}
    nothing |= dict.fromkeys(("mean", "nanmean", *SQUARES, *ROOTS), np.nan)
    nothing |= dict.fromkeys(("min", "max", "nanmin", "nanmax"), fill) | dict.fromkeys(ONE_AXIS, -1)
    out = []
    for line in np.moveaxis(dense, axis, 1):
        at = np.flatnonzero(~is_fill(line, np.asarray(fill).astype(dense.dtype)[()]))
        if not len(at):
            out.append(nothing.get(name, 0))
        elif name == "count":
            out.append(len(at))
        elif name.startswith("nanarg") and np.isnan(line[at]).all():
            out.append(-1)
        else:
            result = expect(line[at], name, **options)
            out.append(at[result] if name in ONE_AXIS else result)
    return out


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(arrays(), st.data())
@settings(max_examples=40)
def test_stored_elements(case: tuple[NDArray[Any], Any], data: st.DataObject) -> None:
    dense, fill = case
    if dense.ndim != 2:
        dense = np.resize(dense, (3, 4)).astype(dense.dtype)
    name, options = data.draw(reductions_to_ask(2))
    axis = data.draw(st.sampled_from([0, 1]))
    options |= {"axis": axis, "keepdims": False}
    result = found(scan_of(memory(dense, fill)), name, where="stored", **options)
    del options["axis"], options["keepdims"]
    wanted = np.array(of_entries(dense, name, axis, fill, options), dtype=object).astype(result.dtype)
    assert result.shape == (dense.shape[1 - axis],)
    assert_same(result, wanted, name, dense)


def test_worked_numbers() -> None:
    figure = np.zeros((3, 3, 3), np.int64)
    figure[[0, 1, 1, 2, 2], [1, 1, 2, 0, 2], [0, 2, 0, 1, 0]] = [1, 2, 3, 4, 5]
    scan = scan_of(memory(figure))
    cases: list[tuple[str, Any, Any]] = [
        ("sum", None, 15),
        ("sum", 0, [[0, 4, 0], [1, 0, 2], [8, 0, 0]]),
        ("sum", 1, [[1, 0, 0], [3, 0, 2], [5, 4, 0]]),
        ("sum", 2, [[0, 1, 0], [0, 2, 3], [4, 0, 5]]),
        ("max", 0, [[0, 4, 0], [1, 0, 2], [5, 0, 0]]),
        ("norm", None, 7.41619849),
        ("mean", None, 0.5555556),
        ("argmax", None, 24),
        ("argmax", 0, [[0, 2, 0], [0, 0, 1], [2, 0, 0]]),
    ]
    for name, axis, wanted in cases:
        np.testing.assert_allclose(found(scan, name, axis), wanted, rtol=1e-7)
    line = scan_of(memory(np.array([0, -3, 0, -1])))
    assert [found(line, name) for name in ("max", "argmax", "min", "argmin")] == [0, 0, -3, 1]


def test_results_are_lazy_and_sparse() -> None:
    dense = random_array((6, 5, 4), density=0.2)
    scan = scan_of(Unreadable(memory(dense, dims=("x", "y", "z"))))
    result = reduce_scan(scan, "sum", axis=1)
    assert (result.schema.shape, result.schema.dims, result.schema.fill_value) == ((6, 4), ("x", "z"), 0)
    kept = reduce_scan(scan, "mean", axis=1, keepdims=True)
    assert (kept.schema.shape, kept.schema.dims) == ((6, 1, 4), ("x", "y", "z"))
    ones = reduce_scan(scan_of(memory(np.ones((3, 1000)), fill_value=1)), "sum", axis=1)
    assert (ones.schema.fill_value, engines.count_nnz(scan_of(ones))) == (1000, 0)
    exact = scan_of(memory(np.full((3, 7), 0.1), fill_value=0.1))
    assert reduce_scan(exact, "mean", axis=0).schema.fill_value == 0.1


def test_reduce_broadcast_and_nested() -> None:
    dense = random_array((3, 4))
    relation = memory(dense, fill_value=2)
    view = View.identity(dense.shape).broadcast_to((5, 3, 4))
    wide = np.broadcast_to(dense, (5, 3, 4))
    for name, axis in itertools.product(("sum", "argmax", "var", "prod"), (None, 0, 1, 2)):
        assert_same(found(scan_of(relation, view), name, axis), expect(wide, name, axis), name, wide)
    rows = reduce_scan(scan_of(relation, view), "sum", axis=0)
    np.testing.assert_array_equal(found(scan_of(rows), "max", axis=1), (5 * dense).max(axis=1))
    assert found(scan_of(rows), "mean") == pytest.approx((5 * dense).mean())


def test_reduction_keeps_labels() -> None:
    dense = random_array((3, 4))
    names = {0: pa.array(["a", "b", "c"]), 1: pa.array(["p", "q", "r", "s"])}
    relation = MemoryRelation(Schema(dense.shape), memory(dense).block, names)

    def labels(node: Reduce, axis: int) -> Any:
        found = node.labels.get(axis)
        return None if found is None else found.array()

    assert labels(reduce_scan(scan_of(relation), "sum", 0), 0).to_pylist() == ["p", "q", "r", "s"]
    view = View.identity(dense.shape).then((slice(None, None, -2),))
    assert labels(reduce_scan(scan_of(relation, view), "sum", 1), 0).to_pylist() == ["c", "a"]
    assert labels(reduce_scan(scan_of(relation), "sum", 1, keepdims=True), 1) is None


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
def test_bits_independent_of_threads(tmp_path: Path, axis: Any) -> None:
    rng = np.random.default_rng(5)
    dense = np.where(rng.random((40, 30, 20)) < 0.3, rng.standard_normal((40, 30, 20)), 0)
    relation = stored_relation(tmp_path / "t", dense, sizes=storage.Sizes(file_rows=2000, group_rows=300))
    for name in ("sum", "mean", "var", "prod", "norm", "nanvar", "nanmean"):
        results = []
        for threads in (1, 2, 3):
            with config(threads=threads):
                results.append(found(scan_of(relation), name, axis))
        assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


def test_variance_with_large_mean(tmp_path: Path) -> None:
    dense = 1e8 + np.random.default_rng(1).random((30, 50))
    for relation in (memory(dense), stored_relation(tmp_path / "t", dense)):
        for axis in (None, 0, 1):
            np.testing.assert_allclose(found(scan_of(relation), "var", axis), dense.var(axis=axis), rtol=1e-6)


@pytest.fixture
def huge() -> Scan:
    """Tensor of size 10^12 with a few stored elements, all above 1."""
    shape = (10**5, 10**5, 100)
    coords = tuple(np.array(c) for c in ([0, 0, 7, 99_999], [0, 1, 8, 99_999], [0, 0, 3, 99]))
    values = np.array([2.0, 3.0, 4.0, 5.0])
    return scan_of(MemoryRelation(Schema(shape), canonicalize(Block(coords, values), shape, 0)))


def test_huge_shapes(huge: Scan) -> None:
    n = 10**12
    assert found(huge, "mean") == 14 / n
    assert found(huge, "var") == pytest.approx(54 / n - (14 / n) ** 2, rel=1e-14)
    assert (found(huge, "min"), found(huge, "max"), found(huge, "count")) == (0, 5, 4)
    assert (found(huge, "argmax"), found(huge, "argmin")) == (n - 1, 1)
    assert found(huge.transpose(), "argmax") == n - 1
    columns = reduce_scan(huge, "sum", axis=0)
    assert columns.schema.shape == (10**5, 100)
    assert engines.evaluate(scan_of(columns)).values.tolist() == [2, 3, 4, 5]
    assert engines.count_nnz(scan_of(reduce_scan(huge, "argmax", axis=1))) == 3
    beyond = MemoryRelation(
        Schema((2**40, 2**40), dtype=np.dtype(np.int64)), Block((np.array([1]), np.array([2])), np.array([3]))
    )
    assert found(scan_of(beyond), "sum") == 3
    assert found(scan_of(beyond), "mean") == 3 / 2.0**80
    with pytest.raises(UnsupportedError, match="flat position"):
        reduce_scan(scan_of(beyond), "argmax")
    assert engines.count_nnz(scan_of(reduce_scan(scan_of(beyond), "argmax", axis=0))) == 1


@pytest.mark.parametrize("fill", [1, 2, 3, 255])
def test_integers_wrap_with_absent_elements(fill: int) -> None:
    schema = Schema((2**40, 2**30), dtype=np.dtype(np.uint8), fill_value=fill)
    scan = scan_of(MemoryRelation(schema, Block((np.array([1]), np.array([2])), np.array([7], np.uint8))))
    cells = 2**70 - 1
    assert int(found(scan, "sum")) == (7 + fill * cells) % 2**64
    assert int(found(scan, "prod")) == 7 * pow(fill, cells, 2**64) % 2**64


@tune("stream", max_dense_groups=0, partition_rows=200)
def test_partitions_within_small_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    dense = np.where(rng.random((30, 25, 7)) < 0.3, rng.integers(1, 9, (30, 25, 7)), 0).astype(float)
    relation = stored_relation(tmp_path / "t", dense)
    for axis, names in (
        (0, ("sum", "argmax", "var", "all", "nanvar", "nanargmin")),
        (1, ("sum", "argmax", "nanstd", "nanprod")),
        (2, ("sum", "var", "argmin", "nanargmax")),
        ((0, 2), ("mean",)),
    ):
        for name in names:
            with config(memory_limit=20_000):
                result = reduce_scan(scan_of(relation), name, axis)
                pieces = lower_node(result).chunks(View.identity(result.schema.shape).box())
                parts = [lower_node(result).read(piece) for piece in pieces]
            coords = tuple(np.concatenate(c) for c in zip(*(part.coords for part in parts), strict=True))
            block = Block(coords, np.concatenate([part.values for part in parts]))
            assert_same(to_dense(block, result.schema), expect(dense, name, axis), name, dense)
            assert len(pieces) > 1 or axis == (0, 2)


@pytest.fixture(scope="module")
def wide() -> MemoryRelation:
    """Tensor of more elements than fit a limit of 120 MB, with distinct values."""
    rng = np.random.default_rng(0)
    shape = (4000, 1 << 40)
    n = 3_200_000
    coords = (np.sort(rng.integers(0, 4000, n)), rng.integers(0, 1 << 22, n) << 18)
    return MemoryRelation(Schema(shape), canonicalize(Block(coords, rng.random(n)), shape, 0, "max"))


def test_reduction_spills(wide: MemoryRelation) -> None:
    view = View.identity(wide.schema.shape).then((slice(None), slice(None, None, -1)))
    with config(memory_limit="120MB"):
        result = found(scan_of(wide, view), "argmax", axis=1)
    rows, columns = wide.block.coords
    starts = np.searchsorted(rows, np.arange(4001))
    best = [start + int(np.argmax(wide.block.values[start:stop])) for start, stop in itertools.pairwise(starts)]
    np.testing.assert_array_equal(result, (1 << 40) - 1 - columns[best])


def test_large_result_streams(wide: MemoryRelation) -> None:
    with config(memory_limit="120MB"):
        result = reduce_scan(scan_of(wide), "max", axis=0)
        relation = lower_node(result)
        pieces = relation.chunks(View.identity(result.schema.shape).box())
        assert len(pieces) > 1
        first = relation.read(pieces[0])
    own = wide.block.coords[1] == first.coords[0][0]
    assert first.values[0] == wide.block.values[own].max()
    with config(memory_limit=1000), pytest.raises(TooLargeError, match="memory limit"):
        lower_node(result).read(pieces[-1])


def test_slice_of_result_reads_slice(tmp_path: Path) -> None:
    dense = random_array((40, 30))
    relation = Counting(stored_relation(tmp_path / "t", dense))
    result = reduce_scan(scan_of(relation), "sum", axis=1)
    row = scan_of(result, View.identity((40,)).then((slice(7, 8),)))
    assert engines.evaluate(row).values.tolist() == [dense[7].sum()]
    assert relation.reads <= 4
    whole = scan_of(result)
    np.testing.assert_array_equal(to_dense(engines.evaluate(whole), result.schema), dense.sum(axis=1))
    reads = relation.reads
    np.testing.assert_array_equal(engines.evaluate(whole).values.sum(), dense.sum())
    assert relation.reads == reads


def test_describe_single_scan(tmp_path: Path) -> None:
    dense = random_array((40, 30))
    relation = Counting(stored_relation(tmp_path / "t", dense))
    names = ["nnz", "density", "min", "max", "mean", "std", "sum", "stored_mean", "stored_min", "norm", "argmax"]
    one = statistics(scan_of(relation), names)
    reads = relation.reads
    assert reads == len(relation.chunks(View.identity(dense.shape).box()))
    entries = dense[dense != 0]
    wanted = [
        len(entries), len(entries) / dense.size, dense.min(), dense.max(), dense.mean(), dense.std(), dense.sum(),
        entries.mean(), entries.min(), np.linalg.norm(dense), dense.argmax(),
    ]  # fmt: skip
    np.testing.assert_allclose(list(one.values()), wanted, rtol=1e-12)
    assert list(one) == names
    nodes = steps_of(scan_of(relation), ["sum", "stored_mean", "nnz"], axis=0)
    rows = dict(zip(nodes, engines.evaluate_many(list(map(scan_of, nodes.values()))), strict=True))
    for name, wide in (("sum", dense.sum(0)), ("stored_mean", dense.sum(0) / (dense != 0).sum(0))):
        np.testing.assert_allclose(to_dense(rows[name], nodes[name].schema), wide)
    assert relation.reads == 2 * reads


def test_count_reads_footers_only(tmp_path: Path) -> None:
    dense = random_array((20, 10))
    relation = stored_relation(tmp_path / "t", dense)
    assert found(scan_of(Unreadable(relation)), "count") == np.count_nonzero(dense)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "nanprod", "mean", "var", "nanmean", "nanstd"])
def test_dtype_argument(name: str, dtype: str) -> None:
    inexact = name in ("mean", "nanmean", *SQUARES, *ROOTS)
    for fill in (0, 2):
        dense = np.array([[100.0, 0, 2.5], [0, 100, 0], [2, 2, -1]])
        scan = scan_of(memory(dense, fill))
        if inexact and np.dtype(dtype).kind not in "fc":
            with pytest.raises(UnsupportedError, match="floating type"):
                reduce_scan(scan, name, dtype=dtype)
            continue
        cast = dense.astype(dtype)
        for axis in (None, 0, 1):
            result = found(scan, name, axis, dtype=dtype)
            wanted = getattr(np, name)(cast.astype(_accumulate(dtype)), axis=axis).astype(result.dtype)
            np.testing.assert_allclose(result, wanted, rtol=1e-6)
            assert name in SQUARES + ROOTS or result.dtype == dtype


def _accumulate(dtype: str) -> str:
    return {"f": "float64", "c": "complex128"}.get(np.dtype(dtype).kind, dtype)


def test_dtypes_in_one_scan() -> None:
    dense = np.array([[100.0, 100.5], [27, 0]])
    scan = scan_of(memory(dense))
    nodes = [reduce_scan(scan, "sum", 0, dtype="int8"), reduce_scan(scan, "sum", 0)]
    blocks = engines.evaluate_many([scan_of(node) for node in nodes])
    narrow, wide = (to_dense(block, node.schema) for block, node in zip(blocks, nodes, strict=True))
    assert (str(narrow.dtype), str(wide.dtype)) == ("int8", "float64")
    assert (narrow.tolist(), wide.tolist()) == ([127, 100], [127, 100.5])


def test_nan_reductions(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    dense = np.where(rng.random((50, 8)) < 0.5, rng.integers(-4, 5, (50, 8)), 0).astype(float)
    dense[rng.random((50, 8)) < 0.4] = np.nan
    dense[:, 0], dense[0] = 1, 2
    relation = stored_relation(tmp_path / "t", dense)
    for name, axis in itertools.product(("nanvar", "nanstd", "nanprod", "nanargmin", "nanargmax"), (None, 0, 1)):
        assert_same(found(scan_of(relation), name, axis), expect(dense, name, axis), name, dense)
    blind = scan_of(memory(np.array([[np.nan, np.nan], [1, 0]])))
    with pytest.raises(InvalidValueError, match="nothing but NaN"):
        found(blind, "nanargmax", 1)
    assert found(blind, "nanargmax", 1, where="stored").tolist() == [-1, 0]
    with pytest.raises(InvalidValueError, match="nothing but NaN"):
        found(scan_of(memory(np.full(3, np.nan), np.nan)), "nanargmin")
    numbers = np.array([[np.nan, 2.0, 1.0], [3.0, np.nan, 5.0]])
    # Absent elements are NaN, but each line has a number.
    assert found(scan_of(memory(numbers, np.nan)), "nanargmax", 1).tolist() == [1, 2]
    with pytest.raises(InvalidValueError, match="nothing but NaN"):
        found(scan_of(memory(np.array([[np.nan, np.nan], [1.0, 2.0]]), np.nan)), "nanargmax", 1)


def test_bad_arguments() -> None:
    scan = scan_of(memory(random_array((3, 4))))
    cases: list[tuple[type[Exception], str, str, dict[str, Any]]] = [
        (ShapeError, "axis 2 is out of range", "sum", {"axis": 2}),
        (ShapeError, "twice", "sum", {"axis": (0, -2)}),
        (UnsupportedError, "one axis or None", "argmax", {"axis": (0, 1)}),
        (UnsupportedError, "integer", "sum", {"axis": 0.5}),
        (AxisError, "no dimension 'row': ", "sum", {"axis": "row"}),
        (InvalidValueError, "'all' or 'stored'", "sum", {"where": "some"}),
        (InvalidValueError, "no reduction 'median'", "median", {}),
        (InvalidValueError, "ord must be .*, got nan", "norm", {"ord": np.nan}),
        (InvalidValueError, "ord must be .*, got 'fro'", "norm", {"ord": "fro"}),
        (InvalidValueError, "ddof must be a number, got 'a'", "var", {"ddof": "a"}),
        (UnsupportedError, "dtype must be a floating type, got int64", "mean", {"dtype": "int64"}),
        (UnsupportedError, "not supported", "sum", {"dtype": "U3"}),
        (InvalidValueError, "no option 'ddof'", "sum", {"ddof": 1}),
        (InvalidValueError, "pass one of them", "var", {"ddof": 1, "correction": 1}),
    ]
    for error, message, name, options in cases:
        with pytest.raises(error, match=message):
            reduce_scan(scan, name, **options)
    empty = scan_of(memory(np.zeros((0, 3))))
    for name in ("min", "argmax", "nanmax"):
        with pytest.raises(ValueError, match="no elements"):
            reduce_scan(empty, name, axis=0)
        assert found(empty, name, axis=1).shape == (0,)


def test_reduction_cache_key() -> None:
    cases = [*itertools.product(("int8", "uint64", "float32", "float64"), (0, 1, 3), ("sum", "mean", "var", "max"))]
    for _ in range(2):  # the first result is cached
        for dtype, fill, name in cases:
            dense = np.full((4, 6), fill, dtype)
            dense[1, 2], dense[3, 5] = 2, 5
            A = scan_of(memory(dense, fill))
            options: list[dict[str, Any]] = [{"ddof": 0}, {"ddof": 1}, {"ddof": 0.5}] if name == "var" else [{}]
            for given_ in options:
                found = make_reduce(A, name, axis=1, **given_)
                wanted = getattr(dense, name)(axis=1, **given_)
                nothing = getattr(dense, name)(axis=1, **given_)[0]
                assert found.schema.dtype == wanted.dtype
                np.testing.assert_allclose(found.schema.fill_value, nothing)
                np.testing.assert_allclose(to_dense(engines.evaluate(scan_of(found)), found.schema), wanted, rtol=1e-6)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -0.0, 0.0])
def test_reduction_key_distinguishes_fills(fill: float) -> None:
    A = scan_of(memory(np.array([[1.0, fill], [fill, fill]]), fill))
    found = make_reduce(A, "sum", axis=1)
    np.testing.assert_array_equal(found.schema.fill_value, fill + fill)


def test_count_with_mask() -> None:
    dense = np.array([[0, 2, 1], [1, 5, 0]])
    A = sp.from_coords([[0, 0, 1], [0, 1, 1]], [0, 2, 5], shape=(2, 3), fill_value=1)
    dense = A.to_numpy()
    for axis in (None, 0, 1):
        wanted = np.count_nonzero(dense != 1, axis=axis)
        for where in ("all", "stored", True):
            assert np.array_equal(np.asarray(A.count(axis, where=where)), wanted)
        mask = dense > 1
        assert np.array_equal(np.asarray(A.count(axis, where=mask)), np.count_nonzero((dense != 1) & mask, axis=axis))
    with pytest.raises(InvalidValueError, match="must be 'all' or 'stored', got 'some'"):
        A.count(where="some")


@pytest.mark.parametrize("engine", ["stream", "duckdb"])
def test_counts_beyond_integers_raise(engine: Any) -> None:
    A = sp.from_coords([[0, 5, 5], [0, 7, 8]], [1.0, 2.0, np.nan], shape=(2**32, 2**32))
    counts: list[Callable[[], Any]] = [
        (A == 0).sum, (~(A != 0)).sum, (A < 1).sum, np.isfinite(A).sum, lambda: np.count_nonzero(A == 0),
        lambda: np.sum(A == 0, dtype=np.int64), lambda: np.nansum(A == 0), lambda: sp.count_nonzero(A == 0),
        lambda: (A[None] == 0).sum(axis=(1, 2)), lambda: (A == 0).sum(keepdims=True), lambda: np.count_nonzero(A + 1),
        lambda: (A == 0).sum(dtype=np.uint64),
    ]  # fmt: skip
    with sp.config(engine=engine):
        for count in counts:
            with pytest.raises(NumberRangeError, match=r"groups of 18446744073709551616 elements.* the largest count"):
                count()
        assert (A == 0).sum(dtype=np.float64) == 2.0**64
        assert (A == 0).mean() == 1
        assert (A != 0).sum() == (A == 0).count(where="stored") == 3
        assert (A == 0).sum(axis=0)[:9].to_numpy().tolist() == [2**32 - 1, *[2**32] * 6, 2**32 - 1, 2**32 - 1]
        exactly = sp.from_coords([[3], [4]], [True], shape=(2**32, 2**31 - 1))
        assert (~exactly).sum() == np.count_nonzero(~exactly) == 2**32 * (2**31 - 1) - 1


@pytest.mark.parametrize("name", ["sum", "nansum", "mean"])
def test_masked_counts_of_true_do_not_wrap(name: str) -> None:
    whole = sp.from_coords([[0], [0]], [1], shape=(2**32, 2**32)) == 0
    with pytest.raises(NumberRangeError, match="exceed the largest count"):
        getattr(whole, name)(where=whole)
    small = sp.asarray([[True, True], [False, True]])
    assert getattr(small, name)(where=small) == (1 if name == "mean" else 3)
    assert getattr(small, name)(where=small).dtype == getattr(np, name)(np.ones(2, bool)).dtype


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**31 + 1, 2**33])
def test_reversed_long_dimension_of_listed_rows(tmp_path: Path, size: int) -> None:
    A = sp.from_coords([[0, 1, 1, 3], [5, 0, size - 1, 7]], [1, 2, 3, 4], (4, size)).save(tmp_path / "A")
    found = A[[1, 3], ::-1]
    assert (found.sum(), found.max(), found.nnz) == (9, 4, 3)
    np.testing.assert_array_equal(found.sum(axis=1), [5, 4])
