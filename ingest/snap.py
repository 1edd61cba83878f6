"""A graph of the Stanford collection (SNAP), from its ``.txt.gz`` as downloaded.

    python ingest/snap.py wiki-Vote.txt.gz votes.sparrow

Files are ``source<TAB>target`` below a few ``#`` comments. Ids often have gaps: by default vertices keep their ids
(vertex 8297 is row 8297); ``--relabel`` numbers those that occur. Files of undirected graphs have each edge once:
``--undirected`` stores both directions (``directed=False`` in notes), ``--header`` skips a first line
(``header=True``).
"""

from __future__ import annotations

import argparse

import sparrow as sp


def main() -> None:
    """Store the graph and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--relabel", action="store_true")
    parser.add_argument("--undirected", action="store_true", help="directed=False in notes")
    parser.add_argument("--header", action="store_true", help="skip the first line: header=True in notes")
    chosen = parser.parse_args()
    graph = sp.ingest.edges(
        chosen.source,
        chosen.target,
        relabel=chosen.relabel,
        directed=not chosen.undirected,
        header=chosen.header,
        duplicates="first",
    )
    counts = graph.history()[-1]["report"]
    print(f"{counts['read']:,} edges read, {counts['stored']:,} stored, {counts['merged']:,} merged as duplicates")
    print(repr(graph).splitlines()[0])


if __name__ == "__main__":
    main()
