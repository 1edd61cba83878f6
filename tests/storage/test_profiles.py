"""Storage profiles: encodings, conversion, and who reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow import storage
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block
from tests.interop.readers import PROFILES, READERS, render_table
from tests.storage.helpers import read_all

REPOSITORY = Path(__file__).resolve().parents[2]
KINDS = ("bool", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex128")


def draw(kind: str, top: int, wide: bool = False) -> sp.Tensor:
    """Return random elements; ``wide`` coordinates exceed 32 bits."""
    rng = np.random.default_rng(top)
    cells = np.unique(rng.integers(0, 10**7, 60_000))
    values: Any = rng.integers(1, top, len(cells)).astype(kind)
    coords = [cells // 3000, (cells % 3000) << (30 if wide else 0)]
    return sp.from_coords(coords, values, shape=(4000, 3000 << 30), duplicates="last")


def columns_of(tensor: sp.Tensor) -> list[Any]:
    """Return all column chunks of all files of all orders, and of labels."""
    orders = tensor.__sparrow_scan__().relation.orders
    paths = [file.path for order in orders for file in tensor.files(order=order)]
    paths += [str(path) for path in Path(str(tensor.path)).glob("_labels/*.parquet")]
    groups = [data.row_group(k) for data in map(pq.read_metadata, paths) for k in range(data.num_row_groups)]
    return [group.column(k) for group in groups for k in range(group.num_columns)]


def profile_of(tensor: sp.Tensor) -> str:
    return tensor._stored_handle().current.metadata.profile


def is_portable(tensor: sp.Tensor) -> bool:
    """Return whether files have only encodings and codecs that older readers know."""
    found = columns_of(tensor)
    encodings = {each for column in found for each in column.encodings}
    codecs = {column.compression for column in found}
    return encodings <= {"PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"} and codecs <= {
        "UNCOMPRESSED",
        "LZ4",
        "ZSTD",
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("top", [5, 100_000])
@pytest.mark.parametrize("wide", [False, True])
def test_portable_has_common_encodings(tmp_path: Path, kind: str, top: int, wide: bool) -> None:
    top = min(top, np.iinfo(kind).max) if np.dtype(kind).kind in "iu" else top
    tensor = draw(kind, min(top, 1000) if kind == "float16" else top, wide)
    stored = tensor.save(tmp_path / "t", profile="portable", orders=[(1, 0)])
    assert is_portable(stored)
    assert (stored == tensor).all()
    assert stored.verify() == []
    assert not is_portable(tensor.save(tmp_path / "f"))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("wide_groups", [(), (0,), (1,), (3,), (0, 2), (1, 2, 3)])
def test_portable_deltas_are_narrow(tmp_path: Path, dtype: str, wide_groups: tuple[int, ...]) -> None:
    """fastparquet decodes deltas of more than 28 bits to wrong numbers."""
    rows, span = 5000, 1 << 27
    values = np.random.default_rng(0).integers(1, 1 << 17, (4, rows)).astype(dtype)
    for group in wide_groups:
        values[group, ::2] += np.array(span, dtype)
    block = Block((np.arange(4 * rows, dtype=np.int32),), values.ravel())
    schema = Schema((4 * rows,), dtype=np.dtype(dtype))
    sizes = storage.Sizes(group_rows=rows)
    handle = storage.save(tmp_path / "t", schema, [block], profile="portable", sizes=sizes)
    found = read_all(handle.current)
    assert found.values.tobytes() == block.values.tobytes()
    assert handle.verify() == []
    groups, deltas = 0, 0
    for file in handle.files():
        data = pq.ParquetFile(file.path)
        for group in range(data.num_row_groups):
            groups += 1
            for at, column in enumerate(data.read_row_group(group).columns):
                if "DELTA_BINARY_PACKED" in data.metadata.row_group(group).column(at).encodings:
                    deltas += at
                    assert int(column.to_numpy().max()) - int(column.to_numpy().min()) < span
    assert groups >= 4
    assert bool(deltas) == (0 not in wide_groups)


@pytest.mark.parametrize("count", [0, 1, 100, 5000])
def test_portable_of_any_length(tmp_path: Path, count: int) -> None:
    tensor = sp.from_coords([np.arange(count) * 3], np.arange(count) * 2.0 + 1, shape=(20_000,))
    stored = tensor.save(tmp_path / "t", profile="portable")
    assert is_portable(stored)
    assert stored.to_numpy().tobytes() == tensor.to_numpy().tobytes()


def test_compact_converts_both_ways(tmp_path: Path) -> None:
    labels = {"user": [f"u{k:04}" for k in range(4000)]}
    tensor = sp.from_coords(
        np.divmod(np.unique(np.random.default_rng(0).integers(0, 10**7, 60_000)), 3000),
        1.0,
        shape=(4000, 3000),
        dims=("user", "item"),
        labels=labels,
    )
    stored = tensor.save(tmp_path / "t", orders=[(1, 0)])
    expected = tensor.to_numpy()
    history = [(stored.version, "fast", expected.copy())]
    for step, profile in enumerate(("portable", "small", "portable", "fast"), 1):
        stored.compact(profile)  # type: ignore[arg-type]
        assert is_portable(stored) == (profile == "portable")
        history.append((stored.version, profile, expected.copy()))
        stored[step, step] = expected[step, step] = step
        stored.append(sp.from_coords([[3999 - step], [step]], [2.0], shape=(4000, 3000)), duplicates="last")
        expected[3999 - step, step] = 2
        assert is_portable(stored) == (profile == "portable")  # later files are of the profile
        history.append((stored.version, profile, expected.copy()))
        assert stored.verify() == []
    for version, profile, values in history:
        old = sp.open(tmp_path / "t", version=version)
        assert isinstance(old, sp.Tensor)
        assert np.array_equal(old.to_numpy(), values)
        assert profile_of(old) == profile
        assert is_portable(old) == (profile == "portable")
    assert [entry["operation"] for entry in stored.history()].count("compact") == 4


def test_restore_restores_the_profile(tmp_path: Path) -> None:
    stored = draw("float64", 100).save(tmp_path / "t", orders=[(1, 0)])
    stored.compact("portable")
    stored.restore(0)
    assert (profile_of(stored), is_portable(stored)) == ("fast", False)
    stored.compact("portable")
    assert (profile_of(stored), is_portable(stored)) == ("portable", True)
    stored.compact("fast")
    stored.restore(1)
    assert (profile_of(stored), is_portable(stored)) == ("portable", True)
    stored[0, 0] = 1.0
    assert is_portable(stored)


def test_ingest_and_bundles_take_portable(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(1, 3000, (5000, 3))
    (tmp_path / "e.txt").write_text("".join(f"{i} {j} {w}\n" for i, j, w in rows))
    assert is_portable(sp.ingest.edges(tmp_path / "e.txt", tmp_path / "e", profile="portable", duplicates="sum"))
    (tmp_path / "e.svm").write_text("".join(f"1 {min(i, j)}:{w} {max(i, j) + 1}:2\n" for i, j, w in rows))
    bundle = sp.ingest.libsvm(tmp_path / "e.svm", tmp_path / "svm", profile="portable")
    assert all(is_portable(bundle[name]) for name in bundle)
    again = bundle.save(tmp_path / "again", profile="portable")
    assert all(is_portable(again[name]) for name in again)
    assert not is_portable(bundle.save(tmp_path / "fast")["X"])


def test_unknown_profile(tmp_path: Path) -> None:
    stored = sp.eye(3).save(tmp_path / "t")
    with pytest.raises(sp.errors.InvalidValueError, match="must be 'fast', 'small' or 'portable', got 'tiny'"):
        stored.compact("tiny")  # type: ignore[arg-type]
    with pytest.raises(sp.errors.InvalidValueError, match="must be 'fast', 'small' or 'portable', got 'tiny'"):
        sp.eye(3).save(tmp_path / "u", profile="tiny")  # type: ignore[arg-type]
    assert not (tmp_path / "u").exists()


# -- readers -------------------------------------------------------------------------------------


def test_page_of_readers_has_the_table() -> None:
    assert render_table() in (REPOSITORY / "docs" / "readers.md").read_text(), "python -m tests.interop.readers"


@pytest.mark.parametrize("profile", PROFILES)
def test_info_names_only_readers(profile: Any) -> None:
    """Named products read a profile from the version named, and no other ones do."""
    said = storage.PROFILE_READERS[profile].split(";")[0]
    found = dict(re.findall(r"(DuckDB|Spark|Polars|pyarrow|fastparquet)(?: from)?(?: ([\d.]+))?", said))
    for reader in READERS:
        product, version = reader.name.rsplit(" ", 1)[0], reader.name.split()[-1]
        if product in found:
            first = tuple(int(part) for part in (found[product] or "0").split("."))
            assert (profile not in reader.refused) == (tuple(int(part) for part in version.split(".")) >= first), reader
        elif product in ("DuckDB", "Spark", "Polars", "pyarrow", "fastparquet"):
            assert profile in reader.refused, reader


def test_readme_names_only_readers() -> None:
    text = " ".join((REPOSITORY / "README.md").read_text().split())
    (said,) = re.findall(r"(pyarrow, Polars.*?) read the files", text)
    assert re.findall(r"[A-Za-z]+(?: [\d.]+)?", said.replace(" and ", ", ")) == [
        "pyarrow",
        "Polars",
        "DuckDB 2",
        "Spark 4.3",
    ]
    fast = {reader.name for reader in READERS if "fast" not in reader.refused}
    assert fast >= {"pyarrow 26", "Polars 2", "DuckDB 2.0", "Spark 4.3"}
    assert not any(reader.refused.get("portable") for reader in READERS)


def test_info_states_the_profile(tmp_path: Path, cli: Any) -> None:
    sp.eye(3).save(tmp_path / "t", profile="portable")
    (fact,) = cli("info", tmp_path / "t", "--json").json["tensors"]
    assert fact["profile"] == "portable"
    assert f"profile    portable, for {storage.PROFILE_READERS['portable']}\n" in cli("info", tmp_path / "t").out
    assert cli("compact", tmp_path / "t", "--profile", "fast").code == 0
    assert "profile    fast, for DuckDB 2, " in cli("info", tmp_path / "t").out
    assert cli("compact", tmp_path / "t", "--profile", "tiny").code == 2
