"""Format on disk: types, fill values, names, encodings, and other tools."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import DTYPES, Schema
from sparrow.engines.duckdb import register_select
from sparrow.kernels.coo import Block
from sparrow.runtime.duckdb_connection import quote_name
from sparrow.storage.parquet.layout import Metadata, Sizes, StoredColumn, arrow_schema, parquet_options, stored_columns
from tests.engines.helpers import scan_of
from tests.storage.helpers import TINY, assert_same, entries, files_of, random_entries, read_all

NAMES = ('say "hi"', "x.y", "Größe 1", "a;b,c=d{}", "s p a c e", "'; drop table t; --")


def extremes(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return np.array([True, True])
    if dtype == np.uint64:
        return np.array([1, 2**63 - 1], dtype)
    if dtype.kind in "iu":
        return np.array([np.iinfo(dtype).max, 1] + ([np.iinfo(dtype).min] if dtype.kind == "i" else []), dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        return np.array([info.max, info.tiny, info.smallest_subnormal, np.nan, np.inf, -np.inf, 0.1], dtype)
    info = np.finfo(dtype)
    return np.array([complex(info.max, -info.tiny), complex(np.nan, np.inf), complex(0, 1)], dtype)


@pytest.mark.parametrize("profile", ["fast", "small", "portable"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_round_trip(tmp_path: Path, dtype: np.dtype[Any], profile: str) -> None:
    values = np.tile(extremes(dtype), 20)
    schema = Schema((len(values),), dtype=dtype)
    block = Block((np.arange(len(values), dtype=np.int32),), values)
    handle = storage.save(tmp_path / "t", schema, [block], profile=profile)
    assert_same(read_all(handle.current), block)
    assert handle.verify() == []
    sql = files_of(handle.current, Box.from_shape(schema.shape))
    assert list(sql.paths)
    con = duckdb.connect()
    table = con.sql(f"select * from ({register_select(scan_of(handle.current), con)}) order by d0").to_arrow_table()
    if dtype.kind == "c":
        assert table["value"].to_numpy().tobytes() == np.ascontiguousarray(values.real).tobytes()
        assert table["value_im"].to_numpy().tobytes() == np.ascontiguousarray(values.imag).tobytes()
        return
    assert table["value"].to_numpy(zero_copy_only=False).astype(dtype).tobytes() == values.tobytes()
    if dtype != np.float16:
        assert table["value"].type == pa.from_numpy_dtype(dtype)


STORED_TYPES = {
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": pa.int64(),
    "float16": pa.float32(),
    "complex64": pa.float32(),
    "complex128": pa.float64(),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_stored_columns(tmp_path: Path, dtype: np.dtype[Any]) -> None:
    schema = Schema((5, 2**40), ("a", "b"), dtype)
    block = entries([(1, 2)], [1], dtype)
    handle = storage.save(tmp_path / "t", schema, [block])
    columns = stored_columns(schema, handle.current.base.coordinate_dtypes)
    kind = STORED_TYPES[dtype.name] if dtype.name in STORED_TYPES else pa.from_numpy_dtype(dtype)
    parts = ("value", "value_im") if dtype.kind == "c" else ("value",)
    assert columns == (
        StoredColumn("a", ("a",), pa.int32(), np.dtype(np.int32)),
        StoredColumn("b", ("b",), pa.int64(), np.dtype(np.int64)),
        StoredColumn("value", parts, kind, dtype),
    )
    assert [column.is_plain for column in columns] == [True, True, dtype.name not in STORED_TYPES]
    (path,) = (tmp_path / "t").glob("*.parquet")
    found = pq.read_schema(path)
    assert [(name, column.kind) for column in columns for name in column.stored] == [
        (field.name, field.type) for field in found
    ]
    assert found.names == arrow_schema(schema.dims, dtype, [np.dtype(np.int32), np.dtype(np.int64)]).names


def test_uint64_past_int64_raises(tmp_path: Path) -> None:
    block = Block((np.array([0]),), np.array([2**63], np.uint64))
    with pytest.raises(errors.UnsupportedError, match="9223372036854775808 does not fit"):
        storage.save(tmp_path / "t", Schema((1,), dtype=np.dtype(np.uint64)), [block])
    assert not list(tmp_path.iterdir())


FILLS: list[tuple[str, Any]] = [
    ("float64", np.nan),
    ("float64", np.inf),
    ("float64", -np.inf),
    ("float64", 0.1),
    ("float64", 5e-324),
    ("float32", np.float32(0.1)),
    ("float16", np.float16(0.1)),
    ("int64", 2**63 - 1),
    ("int64", -(2**53) - 1),
    ("uint64", 2**64 - 1),
    ("complex128", complex(np.nan, -np.inf)),
    ("complex64", 1 + 0.1j),
    ("bool", True),
]


@pytest.mark.parametrize(("dtype", "fill"), FILLS)
def test_fill_values_round_trip(tmp_path: Path, dtype: str, fill: Any) -> None:
    schema = Schema((3,), dtype=np.dtype(dtype), fill_value=fill)
    handle = storage.save(tmp_path / "t", schema, [])
    found = storage.open(tmp_path / "t").current.schema.fill_value
    assert np.asarray(found).tobytes() == np.asarray(schema.fill_value).tobytes()
    assert np.asarray(found).dtype == np.dtype(dtype)
    assert handle.current.nnz == 0


def test_later_format_version_raises() -> None:
    text = json.loads(Metadata(Schema((3,))).to_json())
    with pytest.raises(errors.UnsupportedError, match="format version 2"):
        Metadata.from_json(json.dumps(text | {"format_version": 2}), "'t'")
    for broken in ("{", "[]", json.dumps({"format_version": 1})):
        with pytest.raises(errors.CorruptionError, match="metadata of 't'"):
            Metadata.from_json(broken, "'t'")


def test_tensor_without_dimensions(tmp_path: Path) -> None:
    schema = Schema((), dtype=np.dtype(np.float32))
    empty = storage.save(tmp_path / "empty", schema, [])
    assert read_all(empty.current).count == 0
    handle = storage.save(tmp_path / "t", schema, [Block((), np.array([2.5], np.float32))])
    assert read_all(handle.current).values.tolist() == [2.5]
    assert handle.files()[0].first == ()
    assert handle.verify() == empty.verify() == []
    assert pl.scan_delta(tmp_path / "t").collect().to_dicts() == [{"value": 2.5}]
    assert handle.current.orders == ((),)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (2**62, 2**62)])
def test_empty_tensors(tmp_path: Path, shape: tuple[int, ...]) -> None:
    handle = storage.save(tmp_path / "t", Schema(shape), [])
    found = storage.open(tmp_path / "t").current
    assert found.schema == Schema(shape)
    assert (found.nnz, found.nbytes, found.version) == (0, 0, 0)
    assert found.chunks(Box.from_shape(shape)) == []
    assert handle.verify() == []
    assert handle.history()[0]["nnz"] == 0
    assert pl.scan_delta(tmp_path / "t").collect().height == 0


@pytest.mark.parametrize("folder", ["plain", "with space", "ünïcode #1", "q?x=y&z"])
def test_dimension_names_in_other_tools(tmp_path: Path, folder: str) -> None:
    schema = Schema((4,) * len(NAMES), NAMES, np.dtype(np.int64))
    block = random_entries(schema, 200)
    path = tmp_path / folder
    handle = storage.save(path, schema, [block], sizes=TINY)
    handle.commit(storage_put(block, 77))
    wanted = read_all(handle.current)
    assert wanted.count == block.count
    assert set(wanted.values.tolist()) == {77}
    rows = sorted(zip(*(column.tolist() for column in (*wanted.coords, wanted.values)), strict=True))

    if folder == "plain":  # Polars does not decode the paths that delta-rs gives it, its own tables' neither
        table = pl.scan_delta(str(path)).collect()
        assert table.columns == [*NAMES, "value"]
        assert sorted(table.rows()) == rows
    names = handle.current.base.names
    arrow = pa.dataset.dataset([str(path / name) for name in names]).to_table()
    assert sorted(zip(*arrow.to_pydict().values(), strict=True)) == rows
    from deltalake import DeltaTable

    delta = DeltaTable(str(path)).to_pyarrow_dataset()
    assert sorted(zip(*delta.to_table().to_pydict().values(), strict=True)) == rows
    assert delta.to_table(filter=pa.dataset.field(NAMES[0]) == 2).num_rows == sum(row[0] == 2 for row in rows)
    source = files_of(handle.current, Box.from_shape(schema.shape))
    columns = ", ".join(quote_name(part) for column in source.columns for part in column.stored)
    assert sorted(duckdb.connect().sql(f"select {columns} from read_parquet({list(source.paths)})").fetchall()) == rows


def storage_put(block: Block, value: int) -> Any:
    from sparrow.relations.edits import Edit

    return Edit("put", upsert=Block(block.coords, np.full_like(block.values, value)))


def test_wide_coordinates(tmp_path: Path) -> None:
    schema = Schema((2**31, 2**31 + 1), dtype=np.dtype(np.int8))
    block = entries([(0, 2**31), (2**31 - 1, 0)], [1, -1], np.int8)
    handle = storage.save(tmp_path / "t", schema, [block])
    found = read_all(handle.current)
    assert [c.dtype.name for c in found.coords] == ["int32", "int64"]
    assert_same(found, block)
    assert pl.scan_delta(tmp_path / "t").collect().schema == {"d0": pl.Int32, "d1": pl.Int64, "value": pl.Int8}
    far = Schema((2**63 - 1,))
    handle = storage.save(tmp_path / "far", far, [entries([(2**53 + 1,), (2**63 - 2,)], [1, 2])])
    assert storage.open(tmp_path / "far").current.base.low.tolist() == [[2**53 + 1]]
    assert storage.open(tmp_path / "far").current.base.high.tolist() == [[2**63 - 2]]


def test_log_statistics_survive_checkpoints(tmp_path: Path) -> None:
    schema = Schema((2**60, 5), ("x.y", "b"))
    handle = storage.save(tmp_path / "t", schema, [entries([(2**53 + 1, 4)], [1])])
    for k in range(25):
        handle.commit(storage_put(entries([(2**53 + 1, 4)], [1]), k + 2))
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    found = storage.open(tmp_path / "t").current
    assert (found.base.low.tolist(), found.base.high.tolist()) == ([[2**53 + 1, 4]], [[2**53 + 1, 4]])
    assert found.version == 25
    assert storage.open(tmp_path / "t", 3).current.version == 3


def test_files_have_checksums_and_indexes(tmp_path: Path) -> None:
    schema = Schema((100, 50))
    handle = storage.save(tmp_path / "t", schema, [random_entries(schema, 500)], sizes=TINY)
    for record in handle.files():
        metadata = pq.read_metadata(record.path)
        assert json.loads(metadata.metadata[b"sparrow.first"]) == list(record.first)
        assert metadata.num_rows == record.rows <= 9
        for group in range(metadata.num_row_groups):
            assert metadata.row_group(group).num_rows <= 3
            for dim in range(2):
                column = metadata.row_group(group).column(dim)
                assert "BYTE_STREAM_SPLIT" in column.encodings
                assert column.compression == "LZ4"
                assert column.has_offset_index
                assert column.has_column_index
        assert os.path.getsize(record.path) == record.bytes
    assert sum(f.rows for f in handle.files()) == handle.current.nnz
    assert sum(f.bytes for f in handle.files()) == handle.current.nbytes


@pytest.mark.parametrize(
    ("values", "profile", "encoding"),
    [
        (np.ones(5000), "fast", "RLE_DICTIONARY"),
        (np.arange(5000) % 10 / 2, "small", "RLE_DICTIONARY"),
        (np.arange(5000), "fast", "DELTA_BINARY_PACKED"),
        (np.random.default_rng(0).standard_normal(5000), "fast", "PLAIN"),
        (np.random.default_rng(0).standard_normal(5000), "small", "BYTE_STREAM_SPLIT"),
    ],
)
def test_value_encoding_follows_a_sample(tmp_path: Path, values: Any, profile: str, encoding: str) -> None:
    schema = Schema((5000,), dtype=values.dtype)
    keep = values != 0
    block = Block((np.flatnonzero(keep),), values[keep])
    handle = storage.save(tmp_path / "t", schema, [block], profile=profile)
    column = pq.read_metadata(handle.files()[0].path).row_group(0).column(1)
    assert encoding in column.encodings
    assert_same(read_all(handle.current), block)


def test_distinct_values_are_stored_small(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random(40_000)
    block = Block((np.arange(len(values)),), values)
    handle = storage.save(tmp_path / "t", Schema((len(values),)), [block], profile="small")
    assert_same(read_all(handle.current), block)


def test_web_graph_is_stored_small(tmp_path: Path, shared_data: Path) -> None:
    with gzip.open(shared_data / "cnr-2000" / "cnr-2000.edges.txt.gz", "rb") as file:
        lines = [line for line in file.read().split(b"\n") if line and not line.startswith(b"#")]
    links = np.array(b" ".join(lines).split(), dtype=np.int32).reshape(-1, 2)
    n = 325557
    block = Block((np.ascontiguousarray(links[:, 0]), np.ascontiguousarray(links[:, 1])), np.ones(len(links), np.int64))
    assert len(links) == 3216152
    schema = Schema((n, n), ("src", "dst"), np.dtype(np.int64))
    bits = {
        profile: storage.save(tmp_path / profile, schema, [block], profile=profile).current.nbytes * 8 / len(links)
        for profile in ("fast", "small")
    }
    assert bits["fast"] <= 4.7
    assert bits["small"] <= 2.8


def test_sizes_for_total() -> None:
    sizes = Sizes(file_bytes=100, file_rows=10)
    assert sizes.for_total(150, 5).file_bytes >= 150
    assert sizes.for_total(0, 45).file_rows == 15
    assert sizes.is_small(12, 1)
    assert not sizes.is_small(13, 1)
    assert not sizes.is_small(1, 2)


def test_useless_codec_is_skipped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    schema = Schema((2**20, 2**20), dtype=np.dtype(np.int64))
    coords = (np.sort(rng.choice(2**20, 50_000, replace=False)), rng.integers(0, 2**20, 50_000))
    wide = Schema((2**20, 2**31), dtype=np.dtype(np.int64))
    spread = (coords[0], rng.integers(0, 2**31, 50_000))
    handle = storage.save(tmp_path / "t", wide, [Block(spread, np.ones(50_000, np.int64))])
    group = pq.read_metadata(handle.files()[0].path).row_group(0)
    assert group.column(1).compression == "UNCOMPRESSED"
    handle = storage.save(tmp_path / "s", schema, [Block(coords, np.ones(50_000, np.int64))])
    group = pq.read_metadata(handle.files()[0].path).row_group(0)
    assert group.column(1).compression == "LZ4"
    regular = (np.repeat(np.arange(500), 100), np.tile(np.arange(100), 500))
    handle = storage.save(tmp_path / "u", schema, [Block(regular, np.ones(50_000, np.int64))])
    group = pq.read_metadata(handle.files()[0].path).row_group(0)
    assert group.column(1).compression == "LZ4"
    assert handle.verify() == []


def test_slow_encoding_is_skipped_beside_plain_values() -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, 5000, 60_000)).astype(np.int32)
    few, drawn = np.ones(60_000), rng.random(60_000)
    levels = [
        parquet_options(["d0"], [rows], [values], "fast", [0])["compression_level"]["d0"] for values in (few, drawn)
    ]
    assert levels == [3, 1]
