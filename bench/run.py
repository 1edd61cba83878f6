"""Time sparrow beside its peers and write ratios to ``bench/RESULTS.md``.

``python bench/run.py`` takes about half an hour and 12 GB of disk, ``--small`` a minute on data too small to judge by.
``--write`` replaces the sections of the parts that ran in ``bench/RESULTS.md`` and redraws the figures in ``docs/``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import DATA, FOLDER, Row, machine, table
from report import update_results


@dataclass(frozen=True)
class Part:
    """One section of the results.

    Parameters
    ----------
    title
        Heading in ``bench/RESULTS.md``.
    run
        Takes the imported module and whether to use small data; returns the rows.
    module
        Module of this folder, where it is not named like the part.
    """

    title: str
    run: Callable[[Any, bool], list[Row]]
    module: str = ""


PARTS = {
    "size": Part("Bytes on disk", lambda part, small: part.run()),
    "profiles": Part(
        "Storage profiles",
        lambda part, small: part.run(500_000, rounds=5) if small else part.run(4_194_304, rounds=31),
    ),
    "products": Part(
        "Products with dense arrays",
        lambda part, small: part.run(1_000_000, rounds=3) if small else part.run(24_000_000, rounds=7),
    ),
    "rows": Part(
        "Lists of rows", lambda part, small: part.run(100_000, rounds=3) if small else part.run(1_000_000, rounds=15)
    ),
    "spgemm": Part("Products of sparse matrices", lambda part, small: part.run(small, rounds=3 if small else 5)),
    "contractions": Part("Contractions", lambda part, small: part.run(small, rounds=3 if small else 5)),
    "solvers": Part("Graphs and solvers", lambda part, small: part.run(small, rounds=3)),
    "cells": Part(
        "Element-wise functions and reductions",
        lambda part, small: (
            part.run(1_000_000, 1_000_000, rounds=3) + part.on_disk(1_000_000)
            if small
            else part.run(1_000_000, 20_000_000, rounds=5) + part.on_disk(20_000_000)
        ),
    ),
    "tiny": Part("Tiny tensors", lambda part, small: part.run(rounds=5 if small else 100)),
    "startup": Part("Start", lambda part, small: part.run(rounds=3 if small else 10)),
    "labels": Part("Labels", lambda part, small: part.run(small, rounds=3 if small else 5)),
    "batches": Part("Mini-batches", lambda part, small: part.run(small, rounds=3 if small else 5)),
    "text": Part(
        "Ingest of text", lambda part, small: part.run(10, 500_000, 1) if small else part.run(300, 60_000_000, 2)
    ),
    "files": Part("Readers of files", lambda part, small: part.run(100_000, 1) if small else part.run(4_000_000, 2)),
    "memory": Part(
        "Peak memory of ingest",
        lambda part, small: part.memory(300, 1_000_000) if small else part.memory(500, 180_000_000),
        module="text",
    ),
    "als": Part("ALS", lambda part, small: part.run(small)),
    "training": Part("Training of linear models", lambda part, small: part.run(small)),
    "stores": Part(
        "Object stores",
        lambda part, small: part.run(1_000_000, rounds=3) if small else part.run(24_000_000, rounds=5),
    ),
    "engines": Part(
        "Choice of the engine",
        lambda part, small: part.run(200_000, rounds=3) if small else part.run(4_000_000, rounds=5),
    ),
    "cluster": Part("Clusters of two processes, single runs", lambda part, small: part.run(small)),
    "explorer": Part(
        "Explorer",
        lambda part, small: part.run(2_000_000, rounds=3) if small else part.run(100_000_000, rounds=7),
    ),
    "gpu": Part("GPU", lambda part, small: part.run(small, rounds=3 if small else 5)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="use data too small to judge by, as a smoke test")
    parser.add_argument("--write", action="store_true", help="write bench/RESULTS.md and the figures")
    parser.add_argument(
        "--only", default="", metavar="PARTS", help=f"comma-separated: {', '.join(PARTS)}; files.mtx is one reader"
    )
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    names = options.only.split(",") if options.only else list(PARTS)
    readers = [name.removeprefix("files.") for name in names if name.startswith("files.")]
    for name in [name for name in names if not name.startswith("files.")]:
        part = PARTS[name]
        rows = part.run(importlib.import_module(part.module or name), options.small)
        print(f"## {part.title}\n\n{table(rows, details=True)}\n\n{machine()}\n")
        if options.write:
            update_results(FOLDER / "RESULTS.md", part.title, rows, [part.title for part in PARTS.values()])
    if readers:
        import files

        rows = files.run(100_000, 1, readers) if options.small else files.run(4_000_000, 3, readers)
        print(table(rows, details=True))
    if options.write:
        draw_figures(names)


def draw_figures(names: list[str]) -> None:
    """Redraw the figures of the documents that follow from the parts."""
    if "spgemm" in names:
        import spgemm

        spgemm.draw(FOLDER.parent / "docs" / "decisions", [spgemm.measure_growth(size) for size in spgemm.SIZES])
    if "training" in names:
        import training

        training.draw(FOLDER.parent / "docs" / "training")


if __name__ == "__main__":
    main()
