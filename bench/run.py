"""Print the table of ``bench/RESULTS.md``: sparrow side by side with its peers, as ratios.

``python bench/run.py`` takes about half an hour and 12 GB of disk; ``--small`` a minute, on data too small to judge by;
``--write`` puts the table into ``bench/RESULTS.md``, and draws the figures of ``docs/training.md`` and of the
decision on products.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import DATA, FOLDER, Row, machine, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="data too small to judge by, to see that it runs")
    parser.add_argument("--write", action="store_true", help="write bench/RESULTS.md")
    parser.add_argument(
        "--only",
        default="",
        help="parts, with commas: size, products, rows, spgemm, contractions, solvers, cells, tiny, labels, batches, "
        "text, files, memory, als, training, stores, gpu; files.mtx is one reader of files",
    )
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    every = "size,products,rows,spgemm,contractions,solvers,cells,tiny,labels,batches,text,files,memory,als"
    every += ",training,stores,gpu"
    parts = (options.only or every).split(",")
    rows: list[Row] = []
    if "size" in parts:
        import size

        rows += size.run()
    if "products" in parts:
        import products

        rows += products.run(1_000_000 if options.small else 24_000_000, rounds=3 if options.small else 7)
    if "rows" in parts:
        import rows as lists

        rows += lists.run(100_000 if options.small else 1_000_000, rounds=3 if options.small else 15)
    if "spgemm" in parts:
        import spgemm

        rows += spgemm.run(options.small, rounds=3 if options.small else 5)
        if options.write:
            spgemm.draw(FOLDER.parent / "docs" / "decisions", [spgemm.grown(size) for size in spgemm.SIZES])
    if "contractions" in parts:
        import contractions

        rows += contractions.run(options.small, rounds=3 if options.small else 5)
    if "solvers" in parts:
        import solvers

        rows += solvers.run(options.small, rounds=3)
    if "cells" in parts:
        import cells

        large = 1_000_000 if options.small else 20_000_000
        rows += cells.run(1_000_000, large, rounds=3 if options.small else 5) + cells.on_disk(large)
    if "tiny" in parts:
        import tiny

        rows += tiny.run(rounds=5 if options.small else 100)
    if "batches" in parts:
        import batches

        rows += batches.run(options.small, rounds=3 if options.small else 5)
    if "labels" in parts:
        import labels

        rows += labels.run(options.small, rounds=3 if options.small else 5)
    if "text" in parts:
        import text

        rows += text.run(10, 500_000, 1) if options.small else text.run(300, 60_000_000, 2)
    if "files" in parts:
        import files

        rows += files.run(100_000, 1) if options.small else files.run(4_000_000, 2)
    elif readers := [part.removeprefix("files.") for part in parts if part.startswith("files.")]:
        import files

        rows += files.run(100_000, 1, readers) if options.small else files.run(4_000_000, 3, readers)
    if "memory" in parts:
        import text

        rows += text.memory(300, 1_000_000) if options.small else text.memory(500, 180_000_000)
    if "als" in parts:
        import als

        rows += als.run(options.small)
    if "training" in parts:
        import training

        rows += training.run(options.small)
        if options.write:
            training.draw(FOLDER.parent / "docs" / "training")
    if "stores" in parts:
        import stores

        rows += stores.run(1_000_000 if options.small else 24_000_000, rounds=3 if options.small else 5)
    if "gpu" in parts:
        import gpu

        rows += gpu.run(options.small, rounds=3 if options.small else 5)
    found = table(rows)
    print(f"{found}\n\n{machine()}")
    if options.write:
        note = "Medians of alternating runs, page cache warm, default settings; only ratios travel."
        (FOLDER / "RESULTS.md").write_text(f"# What `make bench` printed\n\n{machine()}. {note}\n\n{found}\n")


if __name__ == "__main__":
    main()
