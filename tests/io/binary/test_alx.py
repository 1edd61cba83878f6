"""Shards of ALX's web graphs, against a plain reader and writer of frames."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import DuplicateError, ExistsError, IngestError, NotFoundError, SparrowError, UnsupportedError
from sparrow.testing import tune


def checksum(data: bytes) -> bytes:
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    rest ^= 0xFFFFFFFF
    return struct.pack("<I", ((rest >> 15 | rest << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number: int) -> bytes:
    number %= 2**64
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(lists: Mapping[str, Sequence[int]], packed: bool = True, swapped: bool = False) -> bytes:
    entries = []
    for name, ids in lists.items():
        values = part(1, b"".join(map(varint, ids))) if packed else b"".join(b"\x08" + varint(i) for i in ids)
        both = [part(1, name.encode()), part(2, part(3, values))]
        entries.append(part(1, b"".join(both[::-1] if swapped else both)))
    return part(1, b"".join(entries[::-1] if swapped else entries))


def frame(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + checksum(length) + message + checksum(message)


def lists_in(data: bytes) -> list[dict[str, list[int]]]:
    """Read frames with plain Python."""

    def read(at: int) -> tuple[int, int]:
        number = shift = 0
        while True:
            number |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return number, at

    def fields(at: int, end: int) -> Any:
        while at < end:
            tag, at = read(at)
            assert tag & 7 == 2
            length, at = read(at)
            yield tag >> 3, at, at + length
            at += length

    out, at = [], 0
    while at < len(data):
        (length,) = struct.unpack("<Q", data[at : at + 8])
        assert data[at + 8 : at + 12] == checksum(data[at : at + 8])
        assert data[at + 12 + length : at + 16 + length] == checksum(data[at + 12 : at + 12 + length])
        found: dict[str, list[int]] = {}
        for _, start, stop in fields(at + 12, at + 12 + length):
            for _, begin, end in fields(start, stop):
                (_, a, b), (_, c, d) = fields(begin, end)
                ((_, e, f),) = fields(c, d)
                ((_, g, h),) = fields(e, f)
                ids = []
                while g < h:
                    number, g = read(g)
                    ids.append(number)
                found[data[a:b].decode()] = ids
        out.append(found)
        at += 16 + length
    return out


@given(
    st.integers(0, 2**32),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([50, 1 << 22]),
)
def test_any_shards(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    packed: bool,
    swapped: bool,
    zipped: bool,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("alx")
    rng = np.random.default_rng(seed)
    n = 12
    train, test, truth = (rng.random((n, n)) < 0.3 for _ in range(3))
    train[n // 2 :], test[: n // 2], truth[: n // 2] = 0, 0, 0
    wide = 10 ** int(rng.integers(0, 12))

    def shards(name: str, messages: list[dict[str, Any]]) -> None:
        for k in range(count):
            own = [messages[i] for i in rng.permutation(len(messages)) if i % count == k]
            data = b"".join(frame(example(lists, packed, swapped)) for lists in own)
            (folder / f"{name}-{k:05d}-of-{count:05d}").write_bytes(gzip.compress(data) if zipped else data)

    def ids(row: Any) -> Any:
        return (np.flatnonzero(row) * wide).tolist()

    shards("train.tfr", [{"row_tag": [i * wide], "col_tag": ids(train[i]), "other": [7]} for i in range(n)])
    shards("train.transpose.tfr", [{"row_tag": [i * wide], "col_tag": ids(train.T[i])} for i in range(n)])
    shards("test.tfr", [{"row_tag": [i * wide], "col_tag": ids(test[i]), "gt_tag": ids(truth[i])} for i in range(n)])
    with tune("io", tfrecord_block_bytes=block):
        found = sp.ingest.alx(folder, folder / "A.sparrow")
    assert list(found) == ["train", "test", "truth"]
    for name, dense in (("train", train), ("test", test), ("truth", truth)):
        assert found[name].shape == ((n - 1) * wide + 1,) * 2
        cells = found[name].to_arrow()
        src, dst, values = (column.to_numpy() for column in cells.columns)
        assert values.dtype == np.int64
        assert (src % wide == 0).all()
        assert (values == 1).all()
        np.testing.assert_array_equal(np.stack([src, dst]) // wide, np.nonzero(dense))


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_export_round_trip(tmp_path_factory: pytest.TempPathFactory, seed: int, count: int) -> None:
    folder = tmp_path_factory.mktemp("written")
    rng = np.random.default_rng(seed)
    arrays = {name: (rng.random((9, 9)) < 0.3).astype(int) for name in ("train", "test", "truth")}
    bundle = sp.Bundle({name: sp.asarray(array) for name, array in arrays.items()})
    written = sp.export(bundle, folder / "shards", format="alx", shards=count)
    assert written == sum(len(lists_in(path.read_bytes())) for path in (folder / "shards").iterdir())
    rows = {}
    for path in (folder / "shards").glob("test*"):
        for lists in lists_in(path.read_bytes()):
            rows[lists["row_tag"][0]] = lists
            assert set(lists) == {"row_tag", "col_tag", "gt_tag"}
    for i, lists in rows.items():
        assert lists["col_tag"] == np.flatnonzero(arrays["test"][i]).tolist()
        assert lists["gt_tag"] == np.flatnonzero(arrays["truth"][i]).tolist()
    again = sp.ingest.alx(str(folder / "shards" / "*"), folder / "A.sparrow")
    for name, array in arrays.items():
        size = again[name].shape[0]
        np.testing.assert_array_equal(again[name].to_numpy(), array[:size, :size])
        assert not array[size:].any()


def test_damage_names_shard_and_offset(tmp_path: Path) -> None:
    frames = [frame(example({"row_tag": [i], "col_tag": [1, 300]})) for i in range(3)]
    path = tmp_path / "train.tfr-00000-of-00001"

    def store(data: bytes) -> None:
        path.write_bytes(data)
        sp.ingest.alx(path, tmp_path / "A.sparrow", overwrite=True)

    whole, second = b"".join(frames), len(frames[0])
    store(whole)
    for at in range(0, len(frames[1]), 3):
        data = bytearray(whole)
        data[second + at] ^= 0x10
        with pytest.raises(IngestError, match=f"the frame at byte {second} is damaged") as found:
            store(bytes(data))
        assert found.value.file == str(path)
        with pytest.raises(IngestError, match=f"the file ends within the frame at byte {second}"):
            store(whole[: second + at + 1 if at + 1 < len(frames[1]) else second + at])
    for message, problem in [
        (b"\xff\xff", "not an Example"),
        (b"", "must have one integer in row_tag"),
        (example({"col_tag": [1]}), "must have one integer in row_tag"),
        (example({"row_tag": [1, 2]}), "must have one integer in row_tag"),
        (example({"row_tag": [1], "col_tag": [-1]}), "a negative id"),
        (example({"row_tag": [2**63 - 1]}), "beyond 2\\^63 - 2"),
        (part(1, part(1, part(1, b"row_tag") + part(2, part(1, part(1, b"x"))))), "not an Example"),
    ]:
        with pytest.raises(IngestError, match=problem):
            store(frames[0] + frame(message))


@given(st.binary(max_size=40))
def test_any_message(tmp_path_factory: pytest.TempPathFactory, message: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "train.tfr").write_bytes(frame(message) + frame(example({"row_tag": [0], "col_tag": [0]})))
    try:
        A = sp.ingest.alx(folder, folder / "A.sparrow")
    except SparrowError:
        assert not (folder / "A.sparrow").exists()
    else:
        assert A["train"].nnz


@pytest.mark.parametrize(
    "name", ["train.tfrecords", "web-train-00000-of-00001.tfrecord", "train.tfr-00000-of-00001.gz"]
)
def test_tensorflow_compression(tmp_path: Path, name: str) -> None:
    for data in (frame(example({"row_tag": [0], "col_tag": [1, 2]})), b""):
        for pack in (bytes, gzip.compress, zlib.compress):
            (tmp_path / name).write_bytes(pack(data))
            found = sp.ingest.alx(tmp_path, tmp_path / "A.sparrow", overwrite=True)["train"]
            assert found.to_numpy().tolist() == ([[0, 1, 1], [0, 0, 0], [0, 0, 0]] if data else [])
    (tmp_path / name).write_bytes(zlib.compress(frame(example({"row_tag": [0]})))[:-7])
    with pytest.raises(IngestError, match="cannot be read after byte 0"):
        sp.ingest.alx(tmp_path, tmp_path / "A.sparrow", overwrite=True)


def test_inconsistent_shards(tmp_path: Path) -> None:
    one, other = (frame(example({"row_tag": [0], "col_tag": [k]})) for k in (1, 2))
    (tmp_path / "train.tfr-00000-of-00002").write_bytes(one)
    with pytest.raises(
        IngestError, match=r"1 of the 2 shards of train are missing, the first is train\.tfr-00001-of-00002:"
    ):
        sp.ingest.alx(tmp_path, tmp_path / "A.sparrow")
    assert list(sp.ingest.alx(tmp_path, tmp_path / "A.sparrow", partial=True)) == ["train"]
    (tmp_path / "train.tfr-00001-of-00002").write_bytes(one)
    assert sp.ingest.alx(tmp_path, tmp_path / "A.sparrow", overwrite=True)["train"].nnz == 1
    with pytest.raises(DuplicateError):
        sp.ingest.alx(tmp_path, tmp_path / "A.sparrow", overwrite=True, duplicates="error")
    (tmp_path / "web_graph-train_t.tfrecord").write_bytes(other)
    with pytest.raises(IngestError, match="hold other links"):
        sp.ingest.alx(tmp_path, tmp_path / "A.sparrow", overwrite=True)
    (tmp_path / "a.bin").write_bytes(one)
    with pytest.raises(IngestError, match="the name of a shard must be"):
        sp.ingest.alx(tmp_path / "a.bin", tmp_path / "A.sparrow", overwrite=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="has no shard"):
        sp.ingest.alx(tmp_path / "empty", tmp_path / "A.sparrow", overwrite=True)


def test_alx_unsupported_bundles(tmp_path: Path) -> None:
    eye = sp.asarray(np.eye(2, dtype=int))
    for bad, problem in [
        (eye * 2, "no weights"),
        (eye.astype("complex64"), "no weights"),
        (sp.asarray(np.ones((2, 3))), "must be square"),
        (sp.Bundle({"X": eye}), "of train, test and truth"),
    ]:
        with pytest.raises(UnsupportedError, match=problem):
            sp.export(bad, tmp_path / "out", format="alx")
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ExistsError, match="holds files other than shards"):
        sp.export(eye, tmp_path / "mine", format="alx", overwrite=True)
    sp.export(eye, tmp_path / "out", format="alx")
    sp.export(eye, tmp_path / "out", format="alx", overwrite=True, shards=2)
    assert len(list((tmp_path / "out").iterdir())) == 4
