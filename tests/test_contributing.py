"""The worked examples of CONTRIBUTING.md run: a node, an engine and a format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sparrow as sp
from sparrow import testing
from sparrow.engines import registry as engines
from sparrow.engines.stream.planner import BUILDERS
from sparrow.io.base import registry as formats


def load_example(repository: Path, title: str) -> SimpleNamespace:
    """Execute the Python blocks of a section and return their names."""
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.split(r"^#{2,3} ", text[text.index(f"### {title}\n") + 4 :], flags=re.MULTILINE)[0]
    names: dict[str, object] = {"__name__": "example"}
    for code in re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        exec(compile(code, title, "exec"), names)
    return SimpleNamespace(**names)


@pytest.fixture
def node_example(repository: Path) -> Iterator[SimpleNamespace]:
    """The example of a node."""
    example = load_example(repository, "Add a node")
    yield example
    del BUILDERS[example.Threshold]


@pytest.fixture
def engine_example(repository: Path) -> Iterator[SimpleNamespace]:
    """The example of an engine."""
    yield load_example(repository, "Add an engine")
    engines.unregister("counting")


@pytest.fixture
def format_example(repository: Path) -> Iterator[SimpleNamespace]:
    """The example of a format."""
    yield load_example(repository, "Add a file format")
    formats.unregister("coordinates")


def test_add_a_node(node_example: SimpleNamespace, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    dense = rng.integers(-4, 5, (50, 40)).astype(float)
    expected = np.where(np.abs(dense) >= 3, dense, 0)
    A = sp.asarray(dense)
    for tensor in (A, A.save(tmp_path / "a.sparrow")):
        found = node_example.threshold(tensor, 3)
        np.testing.assert_array_equal(found.to_numpy(), expected)
        np.testing.assert_array_equal(found @ np.ones(40), expected.sum(axis=1))
        np.testing.assert_array_equal(found[5:9, ::2].to_numpy(), expected[5:9, ::2])
        np.testing.assert_array_equal((found.T + 1).to_numpy(), expected.T + 1)
        assert found.compute(engine="duckdb").nnz == np.count_nonzero(expected)
        assert "threshold 3" in str(found.explain(analyze=True))


def test_add_a_node_out_of_core(node_example: SimpleNamespace, tmp_path: Path) -> None:
    A = sp.random((3000, 500), nnz=200_000, seed=1).save(tmp_path / "a.sparrow")
    with testing.tune("stream", partition_rows=10_000):
        found = node_example.threshold(A, 0.5).save(tmp_path / "b.sparrow")
    expected = A.to_numpy()
    np.testing.assert_array_equal(found.to_numpy(), np.where(np.abs(expected) >= 0.5, expected, 0))


def test_add_an_engine(engine_example: SimpleNamespace) -> None:
    A = sp.asarray(np.arange(12.0).reshape(3, 4))
    with sp.config(engine="counting"):
        assert A.sum() == 66
        np.testing.assert_array_equal((A + A).to_numpy(), 2 * np.arange(12.0).reshape(3, 4))
    assert engine_example.Counting.calls == 1


def test_add_a_format(format_example: SimpleNamespace, tmp_path: Path) -> None:
    A = sp.from_coords([[0, 1, 4], [2, 0, 3]], [1.5, 2.0, -3.0])
    assert sp.export(A, tmp_path / "a.coo") == 3
    B = sp.ingest.coordinates(tmp_path / "a.coo", tmp_path / "b.sparrow")
    np.testing.assert_array_equal(B.to_numpy(), A.to_numpy())
    assert "coordinates" in formats.formats()
