"""Opening and scanning: pruning, orders, labels, history, threads."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.relations.edits import Edit
from sparrow.relations.protocol import Relation, scan
from tests.storage.helpers import TINY, assert_same, entries, files_of, random_entries, read_all

SCHEMA = Schema((60, 40))


@pytest.fixture(scope="module", name="stored")
def saved_tensor(tmp_path_factory: pytest.TempPathFactory) -> storage.StoredHandle:
    path = tmp_path_factory.mktemp("stored") / "t"
    return storage.save(path, SCHEMA, [random_entries(SCHEMA, 600)], orders=[(1, 0)], sizes=TINY)


def test_a_snapshot_is_a_relation(stored: storage.StoredHandle) -> None:
    relation: Relation = stored.current
    assert relation.schema == SCHEMA
    assert relation.version == 0
    assert relation.labels(0) is None
    assert relation.orders == ((0, 1), (1, 0))


@given(st.data())
def test_scan_covers_the_box(stored: storage.StoredHandle, data: st.DataObject) -> None:
    ranges = []
    for n in SCHEMA.shape:
        start, stop = sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))
        ranges.append(range(start, stop)[:: data.draw(st.sampled_from([1, 1, 2, 7]))])
    box, order = Box(tuple(ranges)), data.draw(st.sampled_from([None, (0, 1), (1, 0)]))
    snapshot = stored.current
    whole = read_all(snapshot)
    chunks = snapshot.chunks(box, order)
    found = concat_blocks(list(scan(snapshot, box, order)), 2, SCHEMA.dtype)
    assert found.count == sum(chunk.rows for chunk in chunks)
    for chunk in chunks:
        block = snapshot.read(chunk)
        assert tuple(int(c.min()) for c in block.coords) == chunk.low
        assert tuple(int(c.max()) for c in block.coords) == chunk.high
    inside = found.take(box.contains(found.coords))
    if order == (1, 0):
        assert np.array_equal(np.lexsort(found.coords[::1]), np.arange(found.count))
        inside = inside.take(np.lexsort(inside.coords[::-1]))
    assert_same(inside, whole.take(box.contains(whole.coords)))
    stats = snapshot.stats(box, order)
    assert (stats.rows, stats.row_groups_read) == (found.count, len(chunks))
    assert stats.files_read <= stats.files
    source = files_of(snapshot, box, order)
    assert {chunk.ref.path for chunk in chunks} <= set(source.paths)


def test_scan_prunes_files_and_row_groups(stored: storage.StoredHandle) -> None:
    snapshot = stored.current
    row, column = Box((range(7, 8), range(40))), Box((range(60), range(9, 10)))
    everything = snapshot.stats(Box.from_shape(SCHEMA.shape))
    assert everything.files_read == everything.files == len(stored.files())
    assert everything.rows == snapshot.nnz
    assert snapshot.stats(row).files_read <= 4
    assert snapshot.stats(row).row_groups == everything.row_groups == everything.row_groups_read
    assert snapshot.stats(Box((range(0), range(0)))).row_groups == everything.row_groups
    assert snapshot.stats(column, (1, 0)).files_read <= 4 < snapshot.stats(column).files_read
    assert len(files_of(snapshot, row).paths) <= 4


def test_snapshot_reads_no_data_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    handle = storage.save(path, SCHEMA, [random_entries(SCHEMA, 100)], sizes=TINY)
    nbytes = sum(file.stat().st_size for file in path.glob("*.parquet"))
    for file in path.glob("*.parquet"):
        file.unlink()
    found = storage.open(path).current
    assert (found.nnz, found.nbytes) == (handle.current.nnz, nbytes)
    assert found.orders == ((0, 1),)
    box = Box.from_shape(SCHEMA.shape)
    for read in (lambda: list(scan(found, box)), lambda: found.source(box), found.files):
        with pytest.raises(errors.NotFoundError, match="vacuum"):
            read()


def test_reads_are_zero_copy(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(1000)
    handle = storage.save(tmp_path / "t", Schema((1000,)), [Block((np.arange(1000, dtype=np.int32),), values)])
    (chunk,) = handle.current.chunks(Box((range(1000),)))
    block = handle.current.read(chunk)
    assert not block.values.flags.owndata
    assert not block.coords[0].flags.owndata
    assert block.coords[0].dtype == np.int32


def test_concurrent_reads(stored: storage.StoredHandle) -> None:
    box = Box.from_shape(SCHEMA.shape)
    wanted = read_all(stored.current)

    def read(_: int) -> Block:
        snapshot = storage.open(stored.path).current
        return concat_blocks([snapshot.read(chunk) for chunk in snapshot.chunks(box)], 2, SCHEMA.dtype)

    with ThreadPoolExecutor(8) as pool:
        for block in pool.map(read, range(24)):
            assert_same(block, wanted)


def test_footers_are_read_once(stored: storage.StoredHandle) -> None:
    box = Box.from_shape(SCHEMA.shape)
    stored.current.chunks(box)
    with sparrow.testing.observe("storage.load_footer") as seen:
        assert storage.open(stored.path).current.chunks(box)
    assert seen == []


# -- orders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "uint8", "complex64"])
def test_orders_hold_the_same_elements(tmp_path: Path, dtype: str) -> None:
    schema = Schema((20, 30, 10), ('a "b"', "x y", "c"), np.dtype(dtype))
    handle = storage.save(tmp_path / "t", schema, [random_entries(schema, 150)], sizes=TINY)
    handle.add_order((2, 0, 1))
    handle.add_order((-1, -2, -3))
    assert handle.current.orders == ((0, 1, 2), (2, 0, 1), (2, 1, 0))
    whole = read_all(handle.current)
    for order in handle.current.orders:
        block = read_all(handle.current, order)
        ranked = np.lexsort(tuple(block.coords[dim] for dim in reversed(order)))
        assert np.array_equal(ranked, np.arange(block.count))
        assert_same(block.take(np.lexsort(block.coords[::-1])), whole)
        firsts = [tuple(record.first[dim] for dim in order) for record in handle.files(order)]
        assert firsts == sorted(firsts)
        assert len(firsts) > 10
    assert handle.verify() == []


@pytest.mark.parametrize("dtype", ["uint16", "float16", "complex128", "bool"])
def test_add_order_spills(tmp_path: Path, dtype: str) -> None:
    schema = Schema((50, 40), ('say "a"', "b'c"), np.dtype(dtype))
    handle = storage.save(tmp_path / "t's", schema, [random_entries(schema, 300)], sizes=TINY)
    with sparrow.testing.tune("sorting", budget_bytes=400), sparrow.testing.observe("sorting.spill") as spills:
        handle.add_order((1, 0))
    assert len(spills) > 1
    block, whole = read_all(handle.current, (1, 0)), read_all(handle.current)
    assert_same(block.take(np.lexsort(block.coords[::-1])), whole)
    assert handle.verify() == []


def test_orders_become_stale_and_are_rebuilt(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [random_entries(SCHEMA, 100)], orders=[(1, 0)], sizes=TINY)
    old = handle.current
    assert old.orders == ((0, 1), (1, 0))
    handle.commit(Edit("put", upsert=entries([(0, 0)], [1000])))
    assert (1, 0) not in handle.current.orders
    with pytest.raises(errors.InvalidValueError, match="add_order"):
        handle.current.chunks(Box.from_shape(SCHEMA.shape), (1, 0))
    other = storage.open(handle.path)
    assert (1, 0) not in other.current.orders
    handle.add_order((1, 0))
    assert handle.current.orders == ((0, 1), (1, 0))
    assert other.refresh().orders == ((0, 1), (1, 0))
    assert storage.open(handle.path, 0).current.orders == ((0, 1),)
    assert read_all(handle.current, (1, 0)).count == handle.current.nnz
    assert read_all(old, (1, 0)).count == old.nnz
    assert handle.verify() == []
    handle.commit(Edit("resize", shape=(70, 40)))
    assert handle.current.orders == ((0, 1), (1, 0))


def test_invalid_orders_raise(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [])
    for wrong in ((0,), (0, 0), (0, 2)):
        with pytest.raises(errors.ShapeError, match="each of 2 dimensions"):
            handle.add_order(wrong)
    handle.add_order((0, 1))
    assert not (tmp_path / "t" / "_orders").exists()
    handle.add_order((1, 0))
    assert handle.current.orders == ((0, 1), (1, 0))


# -- versions ------------------------------------------------------------------------------------


def test_history(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [random_entries(SCHEMA, 100)], operation="ingest edges")
    handle.commit(Edit("put", upsert=entries([(0, 0)], [1000])))
    handle.commit(Edit("clear", (Box((range(60), range(40))),)))
    records = handle.history()
    assert [r["version"] for r in records] == [2, 1, 0]
    assert [r["operation"] for r in records] == ["clear", "put", "ingest edges"]
    assert records[0]["nnz"] == 0
    assert (records[0]["files_added"], records[0]["files_removed"]) == (0, 1)
    assert len({r["nonce"] for r in records}) == 3
    assert records[0]["timestamp"] >= records[2]["timestamp"]
    assert len(storage.open(tmp_path / "t", 1).history()) == 2


def test_tokens(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [random_entries(SCHEMA, 100)])
    first = handle.current.token
    assert hash(first) == hash(storage.open(tmp_path / "t").current.token)
    handle.commit(Edit("put", upsert=entries([(0, 0)], [1000])))
    assert handle.current.token != first
    handle.commit(Edit("resize", shape=(100, 100)))
    assert len({first, handle.current.token, storage.open(tmp_path / "t", 1).current.token}) == 3


def test_refresh(tmp_path: Path) -> None:
    one = storage.save(tmp_path / "t", SCHEMA, [])
    two = storage.open(tmp_path / "t")
    one.commit(Edit("put", upsert=entries([(0, 0)], [1])))
    before = two.current
    assert before.version == 0
    assert two.refresh().version == 1
    assert before.nnz == 0
    assert two.refresh() is two.current


def test_pickle_handle(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", SCHEMA, [random_entries(SCHEMA, 100)])
    text = pickle.dumps(handle)
    handle.commit(Edit("clear", (Box((range(60), range(40))),)))
    found = pickle.loads(text)
    assert (found.path, found.current.version, found.current.nnz) == (handle.path, 0, random_entries(SCHEMA, 100).count)
    assert found.read_only


def test_extra_and_labels_are_kept(tmp_path: Path) -> None:
    labels = pa.array([f"näme {k}" for k in range(60)])
    handle = storage.save(
        tmp_path / "t",
        SCHEMA,
        [entries([(0, 0)], [1])],
        labels={0: labels, 1: pa.array(range(40))},
        extra={"index_base": 1},
    )
    found = storage.open(tmp_path / "t").current
    assert pa.array(found.labels(0)).equals(labels)
    assert pa.array(found.labels(1)).to_pylist() == list(range(40))
    assert found.labels(0) is found.labels(0)
    assert found.extra == {"index_base": 1}
    handle.commit(Edit("put", upsert=entries([(1, 1)], [1])))
    assert pa.array(handle.current.labels(0)).equals(labels)
    assert handle.verify() == []
    square = storage.save(tmp_path / "square", Schema((60, 60)), [], labels={0: labels, 1: labels})
    assert len(list((tmp_path / "square" / "_labels").iterdir())) == 1
    assert pa.array(square.current.labels(1)).equals(labels)
    with pytest.raises(errors.ShapeError, match="3 labels for dimension 'd0' of size 60"):
        storage.save(tmp_path / "u", SCHEMA, [], labels={0: pa.array(["a", "b", "c"])})
    assert not (tmp_path / "u").exists()


# -- what is not there ---------------------------------------------------------------------------


def test_open_without_tensor(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="nothing is there"):
        storage.open(tmp_path / "none")
    with pytest.raises(errors.NotFoundError, match="it is something else"):
        storage.open(tmp_path)
    storage.save(tmp_path / "b" / "x", SCHEMA, [])
    storage.write_bundle(tmp_path / "b", {"x": None})
    with pytest.raises(errors.NotFoundError, match="is a bundle, not a tensor: open one of its members 'x'"):
        storage.open(tmp_path / "b")
    for version in (5, -1, 10**9):
        with pytest.raises(errors.NotFoundError, match=f"no version {version}: versions go from 0 to 0"):
            storage.open(tmp_path / "b" / "x", version)
    with pytest.raises(errors.UnsupportedError, match="is a URL"):
        storage.open("ftp://bucket/t")
    with pytest.raises(errors.UnsupportedError, match="storage_options"):
        storage.open(tmp_path / "b" / "x", storage_options={"a": "b"})
    with pytest.raises(errors.InvalidValueError, match="contains '%'"):
        storage.open(tmp_path / "a%20b")
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "foreign", pa.table({"value": [1]}))
    with pytest.raises(errors.NotFoundError, match="sparrow did not write"):
        storage.open(tmp_path / "foreign")


def test_broken_log(tmp_path: Path) -> None:
    storage.save(tmp_path / "t", SCHEMA, [])
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").write_text("{")
    with pytest.raises(errors.CorruptionError, match="log"):
        storage.open(tmp_path / "t")


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    handle = storage.save("t", SCHEMA, [entries([(0, 0)], [1])])
    monkeypatch.chdir(os.sep)
    assert read_all(handle.current).count == 1


@pytest.mark.parametrize("damage", ["missing", "cut off", "no log"])
def test_damaged_order_is_rebuilt(tmp_path: Path, damage: str) -> None:
    A = sp.asarray(np.eye(20)).save(tmp_path / "a", orders=[(1, 0)])
    order = tmp_path / "a" / "_orders" / "1-0"
    (file,) = order.glob("*.parquet")
    if damage == "missing":
        file.unlink()
    elif damage == "cut off":
        file.write_bytes(file.read_bytes()[:50])
    else:
        (order / "_delta_log" / f"{0:020d}.json").write_text("{")
    assert A.verify() != []
    A = sp.open(tmp_path / "a")
    assert A[:, 3].to_numpy().tolist() == np.eye(20)[3].tolist()
    with pytest.raises(errors.CorruptionError, match="add_order"):
        A.files((1, 0))
    assert all("_orders" in finding.file for finding in A.verify())
    A.add_order((1, 0))
    assert A.verify() == []
    assert len(A.files((1, 0))) == 1


def test_verify_reports_unreadable_files(tmp_path: Path) -> None:
    A = sp.asarray(np.eye(3)).save(tmp_path / "a")
    (file,) = (tmp_path / "a").glob("*.parquet")
    file.unlink()
    file.mkdir()
    assert any("cannot be read" in finding.problem for finding in A.verify())


def test_open_version_without_log_entry(tmp_path: Path) -> None:
    A = sp.asarray([[1.0, 0.0], [0.0, 2.0]]).save(tmp_path / "a")
    for value in (3.0, 4.0):
        A[0, 1] = value
        deltalake.DeltaTable(tmp_path / "a").create_checkpoint()
    os.remove(tmp_path / "a" / "_delta_log" / f"{1:020d}.json")
    with sparrow.testing.tune("storage", direct_open_versions=0):
        assert sp.open(tmp_path / "a", version=1)[0, 1] == 3
        with pytest.raises(errors.NotFoundError, match="no version 3: versions go from 0 to 2"):
            sp.open(tmp_path / "a", version=3)
