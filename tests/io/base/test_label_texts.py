"""Labels of any text: written and read back, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import export
from sparrow.errors import UnsupportedError
from sparrow.io.base.registry import formats

WRITERS = sorted(name for name, each in formats().items() if each.writer is not None and each.writer.writes_labels)
TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=2, max_size=4, unique=True)


def read(name: str, path: Path) -> Any:
    """Read a file back, its ids as texts."""
    dst = path.with_suffix(".sparrow")
    if name == "edges":
        return sp.ingest.edges(path, dst, ids="str", overwrite=True)
    if name == "h5ad":
        return sp.ingest.h5ad(path, dst, overwrite=True)
    coords = ["u", "i"]
    texts: dict[str, Any] = {"text": coords} if name in ("csv", "tsv") else {}
    return sp.ingest.columns(path, dst, coords=coords, value="value", overwrite=True, **texts)


def by_label(A: Any) -> dict[tuple[Any, Any], float]:
    rows, cols = (A.labels(axis).to_pylist() for axis in range(2))
    table = A.to_arrow()
    triples = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {(rows[i], cols[j]): value for i, j, value in triples}


@pytest.mark.parametrize("name", WRITERS)
@given(TEXTS)
@example(["a\0b", "c"])
@example(["\0", "c"])
@example(["c", "\0a"])
def test_labels_are_read_back_or_refused(
    name: str, tmp_path_factory: pytest.TempPathFactory, labels: list[str]
) -> None:
    n = len(labels)
    places = list(range(n))
    A = sp.from_coords([places, places[::-1]], [k + 0.5 for k in places], shape=(n, n), dims=("u", "i"),
                       labels={"u": labels, "i": labels})  # fmt: skip
    path = tmp_path_factory.mktemp("labels") / "a.file"
    try:
        export(A, path, name)
    except UnsupportedError as error:
        assert "cannot be written to" in str(error)  # noqa: PT017 - either is right
        assert not path.exists()
        return
    assert by_label(read(name, path)) == by_label(A)


def test_formats_that_hold_no_nul_name_the_ways_out(tmp_path: Path) -> None:
    A = sp.from_coords([[0, 1], [1, 0]], [1.0, 2.0], dims=("u", "i"), labels={"u": ["a\0b", "c"]})
    for name in WRITERS:
        if name in ("parquet", "arrow"):
            assert export(A, tmp_path / name, name) == 2
            continue
        with pytest.raises(UnsupportedError, match=r"label 'a\\x00b' of 'u' .* no NUL: write .*parquet"):
            export(A, tmp_path / name, name)
        if name != "h5ad":
            assert export(A, tmp_path / name, name, labels=False) == 2
