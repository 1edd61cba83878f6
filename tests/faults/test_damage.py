"""Changed bytes are detected: reads are right or raise an error naming the file.

``damage(cases, seed)`` is one run; for a longer one call it with more cases from a shell, see its end.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparrow as sp
from sparrow import errors, storage
from sparrow.core.schema import Schema
from sparrow.relations.edits import Edit
from tests.storage.helpers import entries, random_entries

CASES = 60
SCHEMA = Schema((50, 40), ("row", "col"))
SIZES = storage.Sizes(file_rows=200, group_rows=64)


def build(folder: Path) -> None:
    """Store a tensor with labels, an order, versions and a checkpoint; and a bundle."""
    labels = {0: pa.array([f"row {k}" for k in range(50)]), 1: pa.array([f"col {k}" for k in range(40)])}
    handle = storage.save(
        folder / "t", SCHEMA, [random_entries(SCHEMA, 900)], labels=labels, orders=[(1, 0)], sizes=SIZES
    )
    for k in range(3):
        handle.commit(Edit("put", upsert=entries([(10 * k, 1), (10 * k, 2)], [k + 1.5, 0])))
    handle.add_order((1, 0))
    handle = storage.save(folder / "old", SCHEMA, [random_entries(SCHEMA, 100)], sizes=SIZES)
    for k in range(22):
        handle.commit(Edit("put", upsert=entries([(k, k)], [k + 0.5])))
    assert list((folder / "old" / "_delta_log").glob("*.checkpoint.parquet"))
    with storage.stage_folder(folder / "b") as made:
        storage.save(
            made / "X", Schema((9, 9), dtype=np.dtype("complex64")), [entries([(1, 2), (3, 4)], [1j, 2], np.complex64)]
        )
        storage.save(made / "y", Schema((9,), dtype=np.dtype(np.uint8)), [entries([(4,)], [3], np.uint8)])
        storage.write_bundle(made, {"X": {"role": "data"}, "y": None}, {"index_base": 1})


def cells(tensor: Any) -> list[Any]:
    """Return the entries of a tensor in a form that compares to the bit."""
    return [tensor.shape, tensor.to_numpy().tobytes()]


def _sql(query: str, tensor: Any) -> list[Any]:
    return sp.sql(query, t=tensor).fetchall()


def _column(tensor: Any) -> list[Any]:
    number = "col" if tensor.labels("col") is None else "col_code"
    return _sql(f"select row, value from t where {number} = 7 order by row", tensor)


def _history(tensor: Any) -> list[Any]:
    return [{key: value for key, value in commit.items() if key != "timestamp"} for commit in tensor.history()]


OF_A_TENSOR: dict[str, Callable[[Path], Any]] = {
    "read": lambda path: cells(sp.open(path)),
    "slice": lambda path: [sp.open(path)[10:13, 3:30].to_numpy().tolist(), sp.open(path)[20, 1]],
    "columns": lambda path: sp.open(path).sum(axis=0).to_numpy().tolist(),
    "product": lambda path: (sp.open(path) @ np.arange(40.0)).tolist(),
    "transposed": lambda path: (sp.open(path).T @ np.arange(50.0)).tolist(),
    "rows": lambda path: sp.open(path)[[31, 2, 31]].to_numpy().tolist(),
    "table": lambda path: sp.open(path).to_arrow().to_pydict(),
    "squared": lambda path: (sp.open(path).T @ sp.open(path)).to_numpy().tolist(),
    "batches": lambda path: [batch.to_scipy().toarray().tolist() for batch in sp.batches(sp.open(path), batch_size=7)],
    "joined": lambda path: sp.matmul(sp.open(path), np.arange(40.0), engine="duckdb").round(6).tolist(),
    "sql": lambda path: _sql("select row, col, value from t order by row, col", sp.open(path)),
    "sql of a column": lambda path: _column(sp.open(path)),
    "sums": lambda path: _sql("select count(*), sum(value) from t where value > 3", sp.open(path)),
    "labels": lambda path: [str(sp.open(path).labels(dim)) for dim in ("row", "col")],
    "version": lambda path: cells(sp.open(path, version=2)),
    "log": lambda path: [getattr(sp.open(path), name) for name in ("nnz", "version", "dims", "dtype", "shape")],
    "history": lambda path: _history(sp.open(path)),
}
OF_A_BUNDLE: dict[str, Callable[[Path], Any]] = {
    "tensors": lambda path: [(name, cells(tensor)) for name, tensor in sp.open(path).items()],
    "listing": storage.bundle_info,
}


def harm(data: bytes, other: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Return a description of a damage, and the damaged content."""
    kind = draw.choice(["flip", "flip", "flip", "byte", "cut", "swap", "zero"])
    at = draw.randrange(len(data))
    if kind == "flip":
        return f"bit {(bit := draw.randrange(8))} of byte {at}", data[:at] + bytes([data[at] ^ 1 << bit]) + data[
            at + 1 :
        ]
    if kind == "byte":
        return f"byte {at}", data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
    if kind == "cut":
        return f"cut at {at}", data[:at]
    if kind == "zero":
        return f"zeros from {at}", data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :]
    return "swapped", other


def damage(cases: int, seed: int, folder: Path) -> Iterator[str]:
    """Damage one file at a time and read in one way; yield what went wrong."""
    draw = random.Random(seed)
    build(folder / "sound")
    ways = {"t": OF_A_TENSOR, "old": OF_A_TENSOR, "b": OF_A_BUNDLE}
    wanted = {(top, name): repr(way(folder / "sound" / top)) for top in ways for name, way in ways[top].items()}
    home = folder / "copy"
    shutil.copytree(folder / "sound", home)
    files = {top: sorted(path for path in (home / top).rglob("*") if path.is_file()) for top in ways}
    for number in range(cases):
        top = draw.choice(["t", "t", "t", "old", "b"])
        path = draw.choice(files[top])
        alike = [other for other in files[top] if other.suffix == path.suffix and other != path]
        good = path.read_bytes()
        what, data = harm(good, draw.choice(alike).read_bytes() if alike else b"", draw)
        path.write_bytes(data)
        for name in draw.sample(sorted(ways[top]), min(4, len(ways[top]))):
            where = f"case {number}: {name}, {path.relative_to(home)}, {what}"
            try:
                found = ways[top][name](home / top)
            except errors.StorageError as error:
                # The log of another tensor in place of its own is sound: its files are missed.
                foreign = what == "swapped" and path.suffix == ".json" and str(path.parent.parent) in str(error)
                if path.name not in str(error) and not foreign:
                    yield f"{where}: the error does not name the file: {error}"
            except BaseException as error:  # noqa: BLE001 - that there is none is what is tested
                yield f"{where}: {type(error).__name__}: {error}"
            else:
                if repr(found) != wanted[top, name]:
                    yield f"{where}: a wrong answer"
        path.write_bytes(good)


@pytest.mark.parametrize("seed", [0])
def test_damage_is_detected(tmp_path: Path, seed: int) -> None:
    assert list(damage(CASES, seed, tmp_path)) == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for problem in damage(int(sys.argv[1]), int(sys.argv[2]), Path(folder)):
            os.write(1, f"{problem}\n".encode())
