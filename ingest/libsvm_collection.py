"""A classification set of the LIBSVM collection, training and test part, as downloaded (``.bz2`` or plain).

    python ingest/libsvm_collection.py a9a a9a.t a9a.sparrow

Indices count from 1 there. A test part often lacks the last features: both parts get as many columns
as the wider one, so that a model of one fits the other. Makes the bundles ``TARGET/train`` and ``TARGET/test``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import sparrow as sp


def main() -> None:
    """Store both parts with the same columns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("target", type=Path)
    chosen = parser.parse_args()
    parts = {"train": chosen.train, "test": chosen.test}
    chosen.target.mkdir(parents=True, exist_ok=True)
    widths = {
        part: sp.ingest.libsvm(source, chosen.target / part, index_base=1)["X"].shape[1]
        for part, source in parts.items()
    }
    width = max(widths.values())
    for part, source in parts.items():
        if widths[part] < width:
            sp.ingest.libsvm(source, chosen.target / part, index_base=1, n_features=width, overwrite=True)
        print(part, sp.open(chosen.target / part)["X"])


if __name__ == "__main__":
    main()
