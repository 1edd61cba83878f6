"""The screenshots of the documents: checked in, small, and taken by a script."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from docs.screenshots import IMAGES, PICTURES

PICTURE_BYTES_MAX = 150_000


def count_colors(path: Path) -> int:
    """Return the number of colors in the palette of a PNG."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + length]
        at += 12 + length
    zlib.decompress(chunks[b"IDAT"])
    return len(chunks[b"PLTE"]) // 3


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_small_and_shown(name: str, repository: Path) -> None:
    picture = IMAGES / f"{name}.png"
    assert picture.stat().st_size < PICTURE_BYTES_MAX
    assert count_colors(picture) > 8
    pages = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    assert any(f"images/{name}.png" in page.read_text() for page in pages)


@pytest.mark.slow
def test_the_script_takes_all_pictures(tmp_path: Path, repository: Path) -> None:
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"requires {program}: apt-get install chromium chromium-driver")
    for library in ("selenium", "PIL", "ipykernel"):
        pytest.importorskip(library, reason="takes screenshots")
    run = subprocess.run(
        [sys.executable, str(repository / "docs" / "screenshots.py"), "--out", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert {path.stem for path in tmp_path.iterdir()} == set(PICTURES)
    for picture in tmp_path.iterdir():
        assert picture.stat().st_size < PICTURE_BYTES_MAX, picture.name
        assert count_colors(picture) > 8, picture.name
