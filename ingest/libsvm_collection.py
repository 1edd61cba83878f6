"""A classification set of the LIBSVM collection, training and test part.

    python ingest/libsvm_collection.py a9a a9a.t a9a.sparrow

Files are read as downloaded, ``.bz2`` or plain. Indices count from 1. A test part often lacks the last features: both
parts get as many columns as the wider one, so that a model of one fits the other. The result is the bundles
``TARGET/train`` and ``TARGET/test``, both or none: until both are complete they are in a hidden folder, which the next
run removes if one was killed.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import sparrow as sp


def main() -> None:
    """Store both parts with the same columns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("target", type=Path)
    chosen = parser.parse_args()
    parts, target = {"train": chosen.train, "test": chosen.test}, chosen.target
    if target.exists():
        parser.error(f"{target} exists: choose another name, or remove it")
    made = target.with_name(f".{target.name}.partial")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    try:
        widths = {
            part: sp.ingest.libsvm(source, made / part, index_base=1)["X"].shape[1] for part, source in parts.items()
        }
        width = max(widths.values())
        for part, source in parts.items():
            if widths[part] < width:
                sp.ingest.libsvm(source, made / part, index_base=1, n_features=width, overwrite=True)
        made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    for part in parts:
        print(part, repr(sp.open(target / part)["X"]).splitlines()[0])


if __name__ == "__main__":
    main()
