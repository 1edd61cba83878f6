"""Blank and comment lines are passed over a block at a time, and counted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
from sparrow.errors import IngestError
from sparrow.runtime import settings
from sparrow.testing import tune

BODIES = {
    "tns": ("", "1 1 2.5\n2 3 1\n", "#"),
    "mtx": ("%%MatrixMarket matrix coordinate real general\n", "2 3 2\n1 1 2.5\n2 3 1\n", "%"),
    "metis": ("", "2 1\n2\n1\n", "%"),
    "edges": ("", "0 0 2.5\n1 2 1\n", "#"),
    "libffm": ("", "1 0:0:2.5\n0 1:2:1\n", "#"),
    "libsvm": ("", "1 1:2.5\n0 3:1\n", "#"),
}


@pytest.mark.parametrize("format", BODIES)
@pytest.mark.parametrize("where", ["above", "below"])
@pytest.mark.parametrize("block", [1 << 14, 1 << 22])
def test_noise_costs_no_python_per_line(tmp_path: Path, format: str, where: str, block: int) -> None:
    banner, body, mark = BODIES[format]
    noise = "\n" * 20_000 + f"{mark} a comment\n" * 20_000 + " \t\n" * 20_000
    if format == "metis" and where == "below":
        noise = noise.replace("\t", " ")
    text = banner + (noise + body if where == "above" else body + noise)
    (tmp_path / "a.txt").write_text(text)
    calls = 0

    def trace(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    with settings.config(threads=1), tune("io", block_bytes=block, libsvm_block_bytes=block):
        ingest = getattr(sp.ingest, format)
        ingest(tmp_path / "a.txt", tmp_path / "warm.sparrow")
        sys.setprofile(trace)
        try:
            made = ingest(tmp_path / "a.txt", tmp_path / "A.sparrow")
        finally:
            sys.setprofile(None)
    A = made if isinstance(made, sp.Tensor) else made["X"]
    assert A.nnz == 2
    assert A.history()[-1]["report"]["comments"] == 20_000
    assert calls < 20_000


def test_lines_after_the_header_keep_their_numbers(tmp_path: Path) -> None:
    for kind, bad in (("tns", "x 1 2\n"), ("mtx", "x\n"), ("metis", "x\n")):
        banner, _, mark = BODIES[kind]
        (tmp_path / "a.txt").write_text(f"{banner}\n{mark} c\n \t\n{mark}\n{bad}")
        for block in (4, 1 << 22):
            with tune("io", block_bytes=block), pytest.raises(IngestError) as caught:
                getattr(sp.ingest, kind)(tmp_path / "a.txt", tmp_path / "A.sparrow")
            assert caught.value.line == 5 + bool(banner)


def test_sizes_among_comments(tmp_path: Path) -> None:
    (tmp_path / "a.tns").write_text("# by hand\n\n# sizes: 4 5\n1 1 2\n")
    assert sp.ingest.tns(tmp_path / "a.tns", tmp_path / "A.sparrow").shape == (4, 5)
