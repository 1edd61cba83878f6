"""Damage of every kind is found, and said where."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow import storage
from sparrow.core.schema import Schema
from sparrow.errors import CorruptionError
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit
from sparrow.storage.delta.log import Log
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.storage.parquet.writer import DataFile
from tests.storage.helpers import TINY, entries, random_entries

SCHEMA = Schema((50, 40), dtype=np.dtype(np.int64))


@pytest.fixture
def handle(tmp_path: Path) -> storage.StoredHandle:
    labels = {1: pa.array([f"n{k}" for k in range(40)])}
    return storage.save(
        tmp_path / "t", SCHEMA, [random_entries(SCHEMA, 100)], orders=[(1, 0)], labels=labels, sizes=TINY
    )


def problems(handle: storage.StoredHandle) -> list[str]:
    return [str(finding) for finding in storage.open(handle.path).verify()]


@pytest.mark.parametrize("where", [4, 30, 60, 120, -60, -3])
@pytest.mark.parametrize("order", [None, (1, 0)])
def test_flipped_bit(handle: storage.StoredHandle, order: tuple[int, int] | None, where: int) -> None:
    path = Path(handle.files(order)[2].path)
    data = bytearray(path.read_bytes())
    data[where] ^= 4
    path.write_bytes(data)
    found = problems(handle)
    assert found
    name = os.path.relpath(path, handle.path)
    assert f"{name}: the content does not match the hash in the name: bytes were changed" in found
    assert all(text.startswith((name, "_orders/1-0: the order")) for text in found)


def test_flipped_bit_names_the_row_group(handle: storage.StoredHandle) -> None:
    path = Path(handle.files()[0].path)
    metadata = pq.read_metadata(path)
    column = metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(data)
    assert any("row group 1 cannot be read" in text for text in problems(handle))


def test_wrong_file_sizes(handle: storage.StoredHandle) -> None:
    one, two, three = (Path(record.path) for record in handle.files()[:3])
    one.write_bytes(one.read_bytes()[:-20])
    two.write_bytes(two.read_bytes() + b"x")
    three.unlink()
    found = problems(handle)
    assert any(one.name in text and "bytes, the log says" in text for text in found)
    assert any(one.name in text and "footer cannot be read" in text for text in found)
    assert any(two.name in text and "bytes, the log says" in text for text in found)
    assert f"{three.name}: the file is missing" in found


def test_empty_file(handle: storage.StoredHandle) -> None:
    Path(handle.files()[0].path).write_bytes(b"")
    assert any("footer cannot be read" in text for text in problems(handle))


def test_labels_are_verified(handle: storage.StoredHandle) -> None:
    (path,) = Path(handle.path, "_labels").iterdir()
    good = path.read_bytes()
    data = bytearray(good)
    data[10] ^= 1
    path.write_bytes(data)
    assert any("_labels/" in text and "hash" in text for text in problems(handle))
    path.unlink()
    assert problems(handle) == [f"_labels/{path.name}: the file is missing"]
    other = handle.path + "2"
    storage.save(other, Schema((3,)), [], labels={0: pa.array(["a", "b", "c"])})
    (short,) = Path(other, "_labels").iterdir()
    path.write_bytes(short.read_bytes())
    assert any("3 labels for dimension 'd1' of size 40" in text for text in problems(handle))


def forge(folder: Path, cells: list[tuple[int, int]], values: list[int], **claims: Any) -> DataFile:
    """Write a file with a valid name as another program might."""
    table = pa.table(
        {
            "d0": pa.array([c[0] for c in cells], pa.int32()),
            "d1": pa.array([c[1] for c in cells], pa.int32()),
            "value": pa.array(values, pa.int64()),
        }
    )
    keys = {"sparrow.first": json.dumps(cells[0]), "sparrow.last": json.dumps(cells[-1])}
    made = folder / "forged"
    with pq.ParquetWriter(made, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(keys)
    data = made.read_bytes()
    name = f"{hashlib.sha256(data).hexdigest()}-{len(list(folder.iterdir())):08x}.parquet"
    made.rename(folder / name)
    low, high = (tuple(f(c[k] for c in cells) for k in range(2)) for f in (min, max))
    known: dict[str, Any] = {"name": name, "rows": len(cells), "nbytes": len(data), "low": low, "high": high}
    known |= {"first": cells[0], "last": cells[-1], "coordinate_dtypes": ("int32", "int32")}
    return DataFile(**(known | claims))


FORGED: list[tuple[list[tuple[int, int]], list[int], dict[str, Any], str]] = [
    ([(0, 1), (0, 0)], [1, 1], {}, "row 1 (row group 0): element (0, 0) is out of order"),
    ([(0, 1), (0, 1)], [1, 1], {}, "row 1 (row group 0): element (0, 1) is stored twice"),
    ([(0, 1), (0, 40)], [1, 1], {}, "coordinate 40 is out of range for dimension 'd1' of size 40"),
    ([(-1, 1), (0, 4)], [1, 1], {}, "coordinate -1 is out of range for dimension 'd0' of size 50"),
    ([(0, 1), (0, 2)], [1, 0], {}, "row 1 (row group 0): element (0, 2) has the fill value 0"),
    ([(0, 1), (0, 2)], [1, 1], {"rows": 3}, "it has 2 rows, the log says 3"),
    ([(0, 1), (0, 2)], [1, 1], {"high": (0, 9)}, "the log says from (0, 1) to (0, 9)"),
    ([(0, 1), (0, 2)], [1, 1], {"low": (0, 0)}, "the log says from (0, 0) to (0, 2)"),
]


@pytest.mark.parametrize(("cells", "values", "claims", "problem"), FORGED)
def test_elements_not_canonical(
    tmp_path: Path, cells: list[tuple[int, int]], values: list[int], claims: dict[str, Any], problem: str
) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [])
    file = forge(tmp_path / "t", cells, values, **claims)
    Log.open(handle.path).commit([file], [], {"operation": "forge", "nonce": "x"})
    found = problems(handle)
    assert len(found) == 1
    assert found[0].startswith(file.name)
    assert problem in found[0]


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ([(0, 5), (1, 1)], "element (0, 5) is stored twice: it is also the last of"),
        ([(0, 4), (1, 1)], "it begins at (0, 4), before the end of"),
    ],
)
def test_overlapping_files(tmp_path: Path, second: list[tuple[int, int]], problem: str) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [])
    one = forge(tmp_path / "t", [(0, 1), (0, 5)], [1, 1])
    two = forge(tmp_path / "t", second, [1, 1])
    Log.open(handle.path).commit([one, two], [], {"operation": "forge", "nonce": "x"})
    found = problems(handle)
    assert len(found) == 1
    assert found[0].startswith(two.name)
    assert problem in found[0]
    assert one.name in found[0]


def test_order_with_other_elements(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [random_entries(SCHEMA, 50)], orders=[(1, 0)])
    other = storage.save(tmp_path / "u", SCHEMA, [random_entries(SCHEMA, 50, seed=1)], orders=[(1, 0)])
    (name,) = other.current.table((1, 0)).names
    record = other.files((1, 0))[0]
    folder = Path(handle.path, "_orders", "1-0")
    (folder / name).write_bytes(Path(record.path).read_bytes())
    table = other.current.table((1, 0))
    file = DataFile(
        name, record.rows, record.bytes, tuple(table.low[0].tolist()), tuple(table.high[0].tolist()),
        record.first, record.last, ("int32", "int32"),
    )  # fmt: skip
    old = handle.current.table((1, 0))
    Log.open(str(folder)).commit([file], [(old.names[0], int(old.nbytes[0]))], {"operation": "forge", "nonce": "x"})
    assert problems(handle) == ["_orders/1-0: the order (1, 0) does not hold the elements of the base order"]


def test_verify_an_old_version(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [entries([(0, 0)], [1], np.int64)])
    (old,) = handle.files()
    handle.commit(Edit("put", upsert=Block((np.array([0]), np.array([0])), np.array([2]))))
    Path(old.path).unlink()
    assert handle.verify() == []
    (finding,) = storage.open(handle.path, 0).verify()
    assert finding.problem == "the file is missing"
    assert isinstance(Snapshot(Log.open(handle.path)), Snapshot)


READS: dict[str, Any] = {
    "to_numpy": lambda A: A.to_numpy(),
    "matvec": lambda A: A @ np.ones(40),
    "product": lambda A: (A @ A.T).compute(),
    "transpose": lambda A: A.T.compute(),
    "sum": lambda A: A.sum(axis=1).compute(),
    "add": lambda A: (A + 1).compute(),
    "persist": lambda A: A.persist(),
    "rows": lambda A: A[[3, 1]].compute(),
    "scipy": lambda A: A.to_scipy("csc"),
    "add_order": lambda A: A.add_order((1, 0)),
}
FILES: dict[str, list[tuple[list[tuple[int, int]], dict[str, Any]]]] = {
    "rows out of order": [([(3, 1), (1, 2), (2, 0)], {})],
    "overlapping files": [([(1, 1), (9, 2)], {}), ([(3, 4), (5, 1)], {})],
    "rows outside the footer": [([(1, 1), (9, 2)], {"low": (2, 1), "high": (9, 2)})],
    "outside the shape": [([(1, 1), (70, 2)], {})],
    "negative": [([(-5, 1), (3, 2)], {})],
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("name", READS)
def test_forged_files_reach_no_kernel(tmp_path: Path, kind: str, name: str) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [])
    files = [forge(tmp_path / "t", cells, [1] * len(cells), **claims) for cells, claims in FILES[kind]]
    Log.open(handle.path).commit(files, [], {"operation": "forge", "nonce": "x"})
    assert problems(handle)
    with pytest.raises(CorruptionError):
        READS[name](sp.open(tmp_path / "t"))
