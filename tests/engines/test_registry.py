"""What every engine must do: each kind of node is taken, or declined with a mark and a reason; terminals agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow import engines, plan
from sparrow.engines.registry import names
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.plan import Dense, MatMulDense, Node, Scan
from tests.engines.conftest import ENGINES
from tests.engines.helpers import memory, random_array, scan_of
from tests.engines.toy import Toy

KINDS: tuple[type[Any], ...] = tuple(
    sorted(
        (found for name in plan.__all__ if isinstance(found := getattr(plan, name), type)
         and (issubclass(found, Node) or found is MatMulDense) and found is not Node),
        key=lambda kind: kind.__name__,
    )
)  # fmt: skip
MARKS = ("yes", "partly", "notimpl", "notyet", "never")


class Unheard(Node):
    """A step that nobody knows."""

    def __init__(self, operand: Scan) -> None:
        self.operand, self.schema = operand, operand.schema

    @property
    def scans(self) -> tuple[Scan, ...]:
        return (self.operand,)

    def with_inputs(self, scans: Any) -> Unheard:
        return Unheard(*scans)

    def key(self) -> Any:
        return ()


def test_every_pair_of_node_and_engine_has_a_mark_and_the_docs_say_so() -> None:
    rows = ["| node | cupy | duckdb | stream |", "|---|---|---|---|"]
    for kind in KINDS:
        cells = []
        for name in ("cupy", "duckdb", "stream"):
            mark, reason = engines.engine_for(name).support(kind)
            assert mark in MARKS
            assert mark == "yes" or reason
            assert (name, mark) not in [("stream", other) for other in MARKS[1:]]
            cells.append(f"{mark}: {reason}" if reason else mark)
        rows.append(f"| `{kind.__name__}` | {' | '.join(cells)} |")
    table = "\n".join(rows)
    text = (Path(__file__).parent.parent.parent / "docs" / "engines.md").read_text()
    assert table in text, f"docs/engines.md wants this table:\n{table}"


def test_a_node_that_nobody_knows_is_an_error_with_its_name(engine: str) -> None:
    node = Unheard(scan_of(memory(random_array((3, 4)))))
    with pytest.raises(UnsupportedError, match="Unheard"):
        engines.evaluate(scan_of(node), engine)


def test_engines_are_registered_by_name() -> None:
    assert names() == ("auto", "cupy", "duckdb", "stream", "toy")
    with pytest.raises(InvalidValueError, match="registered already"):
        engines.register(Toy())
    with pytest.raises(InvalidValueError, match="use one of 'auto', 'cupy', 'duckdb', 'stream', 'toy'"):
        engines.engine_for("gpu")


def test_the_engine_of_the_settings_is_that_of_every_terminal() -> None:
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


def test_a_dense_map_is_streamed_whatever_the_engine(engine: str) -> None:
    dense = random_array((3, 4))
    node = plan.make_map(np.add, [scan_of(memory(dense)), np.ones((3, 4))])
    assert node.is_dense
    np.testing.assert_array_equal(engines.evaluate_dense(node, engine), dense + 1)


def test_products_of_expressions(engine: str) -> None:
    dense = random_array((4, 5))
    A: Any = sp.asarray(dense)
    contract = MatMulDense((A + A * 2).__sparrow_scan__(), Dense(np.arange(5.0)))
    np.testing.assert_allclose(engines.evaluate_dense(contract, engine), 3 * dense @ np.arange(5.0))


def test_an_engine_of_a_later_version_is_named() -> None:
    with pytest.raises(UnsupportedError, match="engine='spark': the engine for clusters"):
        sp.eye(3).compute("spark")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"engine must be one of 'auto', 'cupy'.*, got 'spark'"):
        sp.config(engine="spark")
