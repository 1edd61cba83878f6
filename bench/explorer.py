"""First picture and zooms of the explorer on a stored power-law graph.

Processor seconds of one answer of the server, all threads together: they bound the wall time from above on a machine
that is idle, and hardly change on one that is not. The peer is a goal in seconds, and ratios are seconds over it.
"""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import DATA, Row, alternate, in_process

import sparrow as sp
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block
from sparrow.storage import save
from sparrow.testing import tune

OPENING_GOAL, ZOOM_GOAL = 2.0, 0.5
"""Seconds."""
BINS = [540, 740]
"""Pixels of the picture on a usual screen."""

OPENING = """
import json, urllib.request
begin()
import sparrow as sp
from sparrow.testing import tune
with tune("explorer", step_seconds=1e9), sp.explore(args[0]) as page:
    body = json.dumps({"bins": [540, 740]}).encode()
    request = urllib.request.Request(page.url + "api/bins", body, {"Content-Type": "application/json"})
    size = len(urllib.request.urlopen(request).read())
"""


def run(elements: int, rounds: int) -> list[Row]:
    """Return the rows: opening a store, and zooms of several sizes."""
    path, side = DATA / f"explorer-{elements}", max(elements // 20, 1000)
    if not path.exists():
        generate(path, elements, side)
    nnz = sp.open(path).nnz
    opening = min(in_process(OPENING, path, cpu=True)[0] for _ in range(rounds))
    detail = f"{nnz:,} elements, {opening:.2f} s of the processor, import included"
    out = [Row("first picture", f"a goal of {OPENING_GOAL:g} s", opening / OPENING_GOAL, 1.0, detail)]
    for name, height, width in (
        ("everything, estimated", 1.0, 1.0),
        ("a quarter of the rows", 0.25, 1.0),
        ("1 % of the rows", 0.01, 1.0),
        ("1 % of rows and columns", 0.01, 0.01),
        ("1 % of the columns, estimated", 1.0, 0.01),
    ):
        seconds, read, chunks = measure(path, side, height, width, rounds)
        detail = f"{read} of {chunks} row groups read, {1000 * seconds:.0f} ms of the processor"
        out.append(Row(f"zoom to {name}", f"a goal of {ZOOM_GOAL:g} s", seconds / ZOOM_GOAL, 1.0, detail))
    return out


def measure(path: Path, side: int, height: float, width: float, rounds: int) -> tuple[float, int, int]:
    """Measure the first picture of windows of a size.

    Returns its median seconds, the row groups read, and those that it may have elements in.
    """
    spans = [max(round(share * side), 1) for share in (height, width)]
    starts = iter(np.linspace(0.1, 0.6, rounds + 1))
    found: dict[str, Any] = {}
    with tune("explorer", step_seconds=1e9), sp.explore(str(path)) as page:

        def zoom() -> None:
            start = next(starts)
            ranges = [[low := int(start * (side - span)), low + span] for span in spans]
            found.update(ask(page.url, {"bins": BINS, "window": {"ranges": ranges}}))

        if height == width == 1.0:  # one window, cached after its first picture
            seconds = first_of_several(path, rounds, found)
        else:
            seconds = alternate({"zoom": zoom}, rounds, clock=time.process_time)["zoom"]
    return seconds, found["read"], found["chunks"]


def first_of_several(path: Path, rounds: int, found: dict[str, Any]) -> float:
    """Return the median seconds to the picture of everything in new explorers."""
    seconds = []
    for _ in range(rounds):
        with sp.explore(str(path)) as page:
            start = time.process_time()
            found.update(ask(page.url, {"bins": BINS}))
            seconds.append(time.process_time() - start)
    return float(np.median(seconds))


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the header of an answer with bins."""
    request = urllib.request.Request(f"{url}api/bins", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    length = int.from_bytes(text[:4], "little")
    header: dict[str, Any] = json.loads(text[4 : 4 + length])
    return header


def generate(path: Path, elements: int, side: int) -> None:
    """Store a graph with a band along the diagonal and popular columns."""
    shutil.rmtree(path, ignore_errors=True)
    rng = np.random.default_rng(0)
    degrees = np.minimum(rng.zipf(1.6, side), 50_000).astype(float)
    degrees = np.floor(degrees * elements / degrees.sum() + rng.random(side)).astype(np.int64)

    def blocks() -> Iterator[Block]:
        for first in range(0, side, step):
            rows = np.repeat(np.arange(first, min(first + step, side)), degrees[first : first + step])
            near = rng.random(len(rows)) < 0.6
            columns = (side * rng.random(len(rows)) ** 3).astype(np.int64)
            columns[near] = (rows[near] + rng.standard_normal(int(near.sum())) * side * 0.02).astype(np.int64) % side
            keys = np.unique(rows * side + columns)
            values = rng.lognormal(0, 1, len(keys)).astype(np.float32)
            yield Block(((keys // side).astype(np.int32), (keys % side).astype(np.int32)), values)

    step = max(side // 50, 1)
    save(path, Schema((side, side), ("src", "dst"), np.dtype(np.float32)), blocks())
