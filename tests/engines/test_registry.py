"""Registry of engines: support of every node, fallbacks, entry points."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow import engines, plan
from sparrow.engines.registry import names
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.plan import Dense, Node, Scan, make_matmul
from tests.engines.conftest import ENGINES
from tests.engines.helpers import memory, random_array, scan_of
from tests.engines.toy import Toy

KINDS: tuple[type[Any], ...] = tuple(
    sorted(
        (found for name in plan.__all__ if isinstance(found := getattr(plan, name), type)
         and issubclass(found, Node) and found is not Node),
        key=lambda kind: kind.__name__,
    )
)  # fmt: skip
MARKS = ("yes", "partly", "notimpl", "notyet", "never")


class Unknown(Node):
    """A node without an implementation."""

    def __init__(self, operand: Scan) -> None:
        self.operand, self.schema = operand, operand.schema

    @property
    def scans(self) -> tuple[Scan, ...]:
        return (self.operand,)

    def with_inputs(self, scans: Any) -> Unknown:
        return Unknown(*scans)

    def key(self) -> Any:
        return ()


def test_docs_list_the_support_of_every_node() -> None:
    columns = ("cupy", "duckdb", "processes", "stream")
    rows = [f"| Node | {' | '.join(columns)} |", "|---|---|---|---|---|"]
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for kind in KINDS:
        marks = []
        for name in columns:
            mark, reason = engines.engine_for(name).support(kind)
            assert mark in MARKS
            assert mark == "yes" or reason
            assert (name, mark) not in [("stream", other) for other in MARKS[1:]]
            marks.append(mark)
            if reason:
                reasons.setdefault((name, mark, reason), []).append(f"`{kind.__name__}`")
        rows.append(f"| `{kind.__name__}` | {' | '.join(marks)} |")
    text = (Path(__file__).parent.parent.parent / "docs" / "engines.md").read_text()
    table = "\n".join(rows)
    assert table in text, f"docs/engines.md must contain:\n{table}"
    items = [f"- {name}, {mark}: {', '.join(kinds)}: {reason}." for (name, mark, reason), kinds in reasons.items()]
    missing = [item for item in items if item not in " ".join(text.split())]
    assert missing == [], "docs/engines.md must contain:\n" + "\n".join(missing)


def test_unknown_node_is_named(engine: str) -> None:
    node = Unknown(scan_of(memory(random_array((3, 4)))))
    with pytest.raises(UnsupportedError, match="Unknown"):
        engines.evaluate(scan_of(node), engine)


def test_register_by_name() -> None:
    assert names() == ("auto", "cupy", "dask", "duckdb", "processes", "ray", "spark", "stream", "toy")
    with pytest.raises(InvalidValueError, match="registered already"):
        engines.register(Toy())
    with pytest.raises(
        InvalidValueError,
        match="use one of 'auto', 'cupy', 'dask', 'duckdb', 'processes', 'ray', 'spark', 'stream', 'toy'",
    ):
        engines.engine_for("gpu")


def test_engine_of_the_settings() -> None:
    dense = random_array((5, 6), seed=3)
    A: Any = sp.asarray(dense)
    B = A * 2 + A.T[:5, :1]
    wide = dense * 2 + dense.T[:5, :1]
    for engine in ENGINES:
        with sp.config(engine=engine), engines.explained() as plans:
            np.testing.assert_array_equal(B.to_numpy(), wide)
            assert B[1:].nnz == np.count_nonzero(wide[1:])
            assert B.sum() == wide.sum()
            np.testing.assert_array_equal(A @ np.ones(6), dense.sum(axis=1))
            np.testing.assert_array_equal(B.to_scipy("coo").toarray(), wide)
            assert (B[1, 2], B[0].to_numpy().tolist()) == (wide[1, 2], wide[0].tolist())
        assert len(plans) >= 5
        assert all(f"engine      {engine}" in text for text in plans)


def test_dense_map(engine: str) -> None:
    dense = random_array((3, 4))
    node = plan.make_map(np.add, [scan_of(memory(dense)), np.ones((3, 4))])
    assert node.is_dense
    np.testing.assert_array_equal(engines.evaluate_dense(node, engine), dense + 1)


def test_products_of_expressions(engine: str) -> None:
    dense = random_array((4, 5))
    A: Any = sp.asarray(dense)
    contract = make_matmul((A + A * 2).__sparrow_scan__(), Dense(np.arange(5.0)))
    np.testing.assert_allclose(engines.evaluate_dense(contract, engine), 3 * dense @ np.arange(5.0))


def test_engines_of_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = """
import time
from tests.engines.toy import Toy

class Third(Toy):
    name = "third"

    def __init__(self):
        time.sleep(0.05)
"""
    (tmp_path / "third_engine.py").write_text(module)
    folder = tmp_path / "third_engine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: third-engine\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[sparrow.engines]\nthird = third_engine:Third\n")
    A: Any = sp.asarray(np.eye(3))
    with pytest.raises(InvalidValueError, match="'third'"):
        A.compute("third")
    monkeypatch.syspath_prepend(tmp_path)
    assert "third" in names()
    with pytest.raises(InvalidValueError, match="'third'"), sp.config(engine="fourth"):
        pass
    try:
        with ThreadPoolExecutor(4) as pool:
            assert len(set(pool.map(engines.engine_for, ["third"] * 4))) == 1
        assert "  engine      third" in A.explain(engine="third")
        with sp.config(engine="third"), sp.explained() as plans:
            np.testing.assert_array_equal((A + A).to_numpy(), 2 * np.eye(3))
        assert "  engine      third" in plans[0]
        assert engines.engine_for("third") is engines.engine_for("third")
    finally:
        engines.unregister("third")
