"""How much an absent link weighs, on data of three kinds: the table of docs/choosing-als.md.

``python bench/als_choosing.py FOLDER``, where FOLDER has ``ml-latest-small/ratings.csv.gz`` (MovieLens, grouplens.org)
and ``wiki-Vote/wiki-Vote.txt.gz`` (SNAP); cnr-2000 comes with sparrow.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sparrow as sp
from sparrow.models import evaluation

WEIGHTS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def data(folder: Path, home: Path) -> Iterator[tuple[str, sp.Tensor]]:
    ratings = folder / "ml-latest-small" / "ratings.csv.gz"
    yield (
        "ratings: MovieLens small",
        sp.ingest.columns(ratings, home / "ml", coords=["userId", "movieId"], value="rating", relabel=True),
    )
    votes = sp.ingest.edges(folder / "wiki-Vote" / "wiki-Vote.txt.gz", home / "votes", relabel=True)
    yield "votes: wiki-Vote, 4 links each way", evaluation.min_links(votes, 4)[0]
    web = sp.ingest.edges(sp.datasets.path("cnr-2000"), home / "web")
    yield "web: cnr-2000, 10 links each way", evaluation.min_links(web, 10)[0]


def main(folder: str) -> None:
    weights = " | ".join(f"{weight:g}" for weight in WEIGHTS)
    print(f"| data | rows x items | links a row | density | popularity | {weights} |")
    print("| --- |" + " ---: |" * (4 + len(WEIGHTS)))
    with tempfile.TemporaryDirectory() as home:
        for name, links in data(Path(folder), Path(home)):
            parts = evaluation.split(links, seed=0)
            figures = [evaluation.evaluate(evaluation.Popularity().fit(parts.train), parts.test)["recall@20"]]
            for weight in WEIGHTS:
                model = sp.models.ALS(factors=64, unobserved_weight=weight).fit(parts.train)
                figures.append(evaluation.evaluate(model, parts.test, baseline=False)["recall@20"])
            best = max(figures)
            shown = " | ".join(f"**{each:.2f}**" if each == best else f"{each:.2f}" for each in figures)
            rows, items = links.shape
            print(
                f"| {name} | {rows:,} x {items:,} | {links.nnz / rows:.0f} | {100 * links.density:.2f} % | {shown} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
