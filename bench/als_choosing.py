"""Effect of ``unobserved_weight`` and biases: docs/choosing-als.md.

``python bench/als_choosing.py FOLDER``, where FOLDER has ``ml-latest-small/ratings.csv.gz`` (MovieLens, grouplens.org)
and ``wiki-Vote/wiki-Vote.txt.gz`` (SNAP); cnr-2000 comes with sparrow. ``python bench/als_choosing.py FOLDER ratings``
is the second table, of explicit ratings.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sparrow as sp
from sparrow.models import evaluation

WEIGHTS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
STRENGTHS = (0.02, 0.05, 0.1, 0.2)


def movielens(folder: Path, home: Path) -> sp.Tensor:
    ratings = folder / "ml-latest-small" / "ratings.csv.gz"
    return sp.ingest.columns(ratings, home / "ml", coords=["userId", "movieId"], value="rating", relabel=True)


def data(folder: Path, home: Path) -> Iterator[tuple[str, sp.Tensor]]:
    yield "ratings: MovieLens small", movielens(folder, home)
    votes = sp.ingest.edges(folder / "wiki-Vote" / "wiki-Vote.txt.gz", home / "votes", relabel=True)
    yield "votes: wiki-Vote, 4 links each way", evaluation.min_links(votes, 4)[0]
    web = sp.ingest.edges(sp.datasets.path("cnr-2000"), home / "web")
    yield "web: cnr-2000, 10 links each way", evaluation.min_links(web, 10)[0]


def explicit(folder: str) -> None:
    """Print the error of ratings that were held out, without and with biases."""
    print("| factors | biases | " + " | ".join(f"{strength:g}" for strength in STRENGTHS) + " |")
    print("| ---: | --- |" + " ---: |" * len(STRENGTHS))
    with tempfile.TemporaryDirectory() as home:
        parts = evaluation.hold_out_entries(movielens(Path(folder), Path(home)), 0.1, seed=0)
        for factors in (8, 64):
            for biases in (False, True):
                how = {"unobserved_weight": 0, "frequency_scaling": 1, "init": "normal", "biases": biases}
                errors = [
                    evaluation.rmse(sp.models.ALS(factors, strength, **how).fit(parts.train), parts.test)
                    for strength in STRENGTHS
                ]
                shown = " | ".join(f"{error:.3f}" for error in errors)
                print(f"| {factors} | {'yes' if biases else 'no'} | {shown} |", flush=True)


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
    (explicit if sys.argv[2:] == ["ratings"] else main)(sys.argv[1])
