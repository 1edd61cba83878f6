"""Block reader: blocks of whole lines reproduce the text of the sources."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparrow.errors import IngestError, InvalidValueError, NotFoundError, SparrowError
from sparrow.io.base.source import Source, TextBlock, open_sources, read_blocks, total_size
from sparrow.runtime import settings as sparrow_settings
from sparrow.testing import tune


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


COMPRESS: dict[str | None, Callable[[bytes], bytes]] = {
    None: bytes,
    "gzip": gzip.compress,
    "zstd": zstd,
    "bz2": bz2.compress,
}


def store(folder: Path, data: bytes, name: str = "a.txt") -> Source:
    path = folder / name
    path.write_bytes(data)
    return open_sources(path)[0]


def read(source: Source | list[Source], block_size: int = 1 << 22) -> list[TextBlock]:
    return list(read_blocks(source, block_size))


def text(found: list[TextBlock]) -> bytes:
    return b"".join(bytes(block.data) for block in found)


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "sparrow-reader"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text("ab \t#:", max_size=40).map(str.encode), max_size=30),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    final=st.booleans(),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    compression=st.sampled_from(list(COMPRESS)),
    block_size=st.integers(1, 100),
)
def test_blocks_are_the_text(
    tmp_path: Path,
    lines: list[bytes],
    end: bytes,
    final: bool,
    mark: bytes,
    compression: str | None,
    block_size: int,
) -> None:
    body = end.join(lines) + (end if final and lines else b"")
    data = COMPRESS[compression](mark + body)
    source = store(tmp_path, data)
    found = read(source, max(block_size, len(mark)))
    wanted = body.replace(b"\r", b"\n") if end == b"\r" else body
    if wanted and not wanted.endswith(b"\n"):
        wanted += b"\n"
    assert text(found) == wanted
    line = 1
    for block in found:
        assert bytes(block.data).endswith(b"\n")
        assert (block.first_line, block.lines) == (line, bytes(block.data).count(b"\n"))
        line += block.lines
    assert sum(block.advance for block in found) <= len(data)
    if found:
        assert sum(block.advance for block in found) == len(data)
    assert not readers()


def test_a_line_longer_than_a_block(tmp_path: Path) -> None:
    data = b"short\n" + b"x" * 10_000 + b"\nshort\n"
    assert text(read(store(tmp_path, data), 16)) == data


@tune("io", max_line_bytes=1000)
def test_a_line_that_is_too_long(tmp_path: Path) -> None:
    source = store(tmp_path, b"short\n" * 3 + b"x" * 10_000 + b"\n")
    with pytest.raises(IngestError, match="longer than 1000 bytes") as caught:
        read(source, 16)
    assert (caught.value.file, caught.value.line) == (source.name, 4)


def test_blocks_do_not_span_sources(tmp_path: Path) -> None:
    sources = [store(tmp_path, data, f"{k}.txt") for k, data in enumerate([b"a\nb", b"", gzip.compress(b"c\n")])]
    found = read(sources)
    assert [(block.source.name, bytes(block.data), block.first_line) for block in found] == [
        (sources[0].name, b"a\nb\n", 1),
        (sources[2].name, b"c\n", 1),
    ]
    assert total_size(sources) == sum(source.size or 0 for source in sources)


def test_concatenated_gzip_members(tmp_path: Path) -> None:
    for compress in (gzip.compress, zstd, bz2.compress):
        assert text(read(store(tmp_path, compress(b"a\n") + compress(b"b\n")))) == b"a\nb\n"


@pytest.mark.parametrize("padding", [1, 7, 512, 100_000])
@pytest.mark.parametrize("size", [64, 1 << 22])
def test_gzip_padding_is_ignored(tmp_path: Path, padding: int, size: int) -> None:
    data = os.urandom(100_000).hex().encode() + b"\nend\n"
    source = store(tmp_path, gzip.compress(data) + gzip.compress(data) + bytes(padding))
    assert text(read(source, size)) == data + data
    with pytest.raises(IngestError, match="cannot be read"):
        read(store(tmp_path, gzip.compress(data) + bytes(padding) + b"x"))


@pytest.mark.parametrize("compression", ["gzip", "zstd", "bz2"])
@pytest.mark.parametrize("kept", [0.3, 0.7, 0.99])
def test_truncated_input(tmp_path: Path, compression: str, kept: float) -> None:
    data = COMPRESS[compression](os.urandom(100_000).hex().encode() + b"\n")
    source = store(tmp_path, data[: int(kept * len(data))])
    with pytest.raises(IngestError, match="cannot be read") as caught:
        read(source, 1000)
    assert caught.value.file == source.name


@pytest.mark.parametrize("compression", ["gzip", "bz2"])
def test_damaged_input(tmp_path: Path, compression: str) -> None:
    data = bytearray(COMPRESS[compression](os.urandom(50_000).hex().encode() + b"\n"))
    data[len(data) // 2] ^= 0x10
    source = store(tmp_path, bytes(data))
    with pytest.raises(IngestError, match="cannot be read"):
        read(source)


@pytest.mark.parametrize(
    ("start", "kind"),
    [(b"PK\x03\x04", "zip"), (b"\x04\x22\x4d\x18", "lz4"), (b"7z\xbc\xaf\x27\x1c", "7z")],
)
def test_unsupported_compression(tmp_path: Path, start: bytes, kind: str) -> None:
    with pytest.raises(IngestError, match=f"{kind} files are not read"):
        read(store(tmp_path, start + b"whatever"))


def test_nul_bytes(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="NUL byte") as caught:
        read(store(tmp_path, b"1 1:2\n" * 10 + b"a\0b\n"), 16)
    assert caught.value.line == 11


def test_errors_come_in_order(tmp_path: Path) -> None:
    found: list[bytes] = []
    stream = read_blocks(store(tmp_path, b"a\n" * 20 + b"\0\n"), 8)
    with pytest.raises(IngestError):
        found.extend(bytes(block.data) for block in stream)
    assert b"".join(found) == b"a\n" * 20


def test_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.dat", "[x].txt"):
        (tmp_path / name).write_text("1\n")
    (tmp_path / "d.txt").mkdir()

    def names(src: Any) -> list[str]:
        return [Path(source.name).name for source in open_sources(src)]

    assert names(tmp_path / "a.txt") == ["a.txt"]
    assert names(str(tmp_path / "?.txt")) == ["a.txt", "b.txt"]
    assert names(str(tmp_path / "[x].txt")) == ["[x].txt"], "a file of that very name is no pattern"
    assert names([tmp_path / "c.dat", str(tmp_path / "[ab].txt")]) == ["c.dat", "a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("src", "error", "message"),
    [
        ("missing.txt", NotFoundError, "no file 'missing.txt'"),
        ("*.missing", NotFoundError, "no file matches"),
        ([], InvalidValueError, "got an empty list"),
        (["-", "-"], InvalidValueError, "once only"),
        (".", IngestError, "folder"),
    ],
)
def test_bad_src(src: Any, error: type[SparrowError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_sources(src)


@pytest.mark.parametrize("compression", list(COMPRESS))
def test_standard_input(compression: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"0123456789\n" * 1000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COMPRESS[compression](body))))
    sources = open_sources("-")
    assert (sources[0].name, sources[0].size, total_size(sources)) == ("standard input", None, None)
    assert text(read(sources, 100)) == body


@pytest.mark.parametrize("compression", list(COMPRESS))
def test_a_named_pipe(tmp_path: Path, compression: str | None) -> None:
    path, data = tmp_path / "pipe", b"0123456789\n" * 50_000
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(COMPRESS[compression](data),))
    writer.start()
    found = read(open_sources(path), 4096)
    writer.join()
    assert text(found) == data


def test_closing_stops_the_thread(tmp_path: Path) -> None:
    found = read_blocks(store(tmp_path, b"line\n" * 10_000), 8)
    next(found)
    found.close()
    assert not readers()


def test_closing_does_not_wait_for_a_silent_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, send = os.pipe()
    with os.fdopen(receive, "rb") as stdin, os.fdopen(send, "wb", buffering=0) as feed:
        monkeypatch.setattr(sys, "stdin", stdin)
        feed.write(b"line\n" * 10)
        found = read_blocks(open_sources("-"), 10)
        assert bytes(next(found).data) == b"line\nline\n"
        started = time.monotonic()
        found.close()
        assert time.monotonic() - started < 60
        feed.close()
        while readers():
            time.sleep(0.01)


def test_memory_limit_bounds_a_line(tmp_path: Path) -> None:
    with sparrow_settings.config(memory_limit=2000), pytest.raises(IngestError, match="longer than 500 bytes"):
        read(store(tmp_path, b"x" * 10_000), 16)


@pytest.mark.parametrize("compression", ["gzip", "zstd", "bz2"])
@tune("io", bomb_min_bytes=10**6)
def test_a_bomb_stops_at_a_limit(tmp_path: Path, compression: str) -> None:
    source = store(tmp_path, COMPRESS[compression](b"0 1\n" * 10**5) * 100)
    taken: list[int] = []
    with pytest.raises(IngestError, match="unpacks to more than 500 times its size"):
        taken.extend(len(block.data) for block in read_blocks(source))
    assert sum(taken) < 4 * 10**7
    assert len(text(read(store(tmp_path, COMPRESS[compression](b"0 1\n" * 10**5))))) == 4 * 10**5


def test_long_lines_are_whole(tmp_path: Path) -> None:
    row = b"1 " + b" ".join(b"%d:1.5" % k for k in range(1, 300_000))
    for end in (b"\n", b"\r\n", b"\r", b""):
        for before in (b"", b"-1 1:1" + (end or b"\n")):
            source = store(tmp_path, COMPRESS["gzip"](before + row + end))
            found = [line for block in read(source, 1 << 10) for line in bytes(block.data).splitlines()]
            assert found == [*([b"-1 1:1"] if before else []), row]
