"""A published data set by its name, from files as their owner publishes them.

    python ingest/published.py wiki-Vote votes.sparrow --files downloads
    python ingest/published.py a9a a9a.sparrow

``sparrow datasets`` lists the names. The readers and their options are in the descriptions of ``datasets/``: graphs of
LAW, SNAP and Common Crawl, ALX's WebGraph, the LIBSVM site, FROSTT, SuiteSparse, MovieLens, WordNet and Freebase.
Nothing is downloaded: if a file is missing, the error names it and the folder to put it in.
"""

from __future__ import annotations

import argparse

import sparrow as sp


def main() -> None:
    """Store the set and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name")
    parser.add_argument("target")
    parser.add_argument("--files", metavar="FOLDER", help="where its files are")
    parser.add_argument("--overwrite", action="store_true")
    chosen = parser.parse_args()
    found = sp.datasets.ingest(chosen.name, chosen.target, chosen.files, overwrite=chosen.overwrite)
    print(repr(found).splitlines()[0])


if __name__ == "__main__":
    main()
