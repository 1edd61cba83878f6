"""Ingest of several files in tasks: the same tensor, labels, counts and errors."""

from __future__ import annotations

import os
import re
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines


@pytest.fixture(scope="module", autouse=True)
def in_processes() -> Iterator[None]:
    with (
        sparrow.testing.strategy("tiny_tasks"),
        sparrow.testing.tune("cluster", batch_elements=50, sample_elements=20),
        sp.config(engine="processes", cluster=2),
    ):
        yield


def write_parts(folder: Path, suffix: str, texts: list[str]) -> str:
    """Write texts as the files of a folder, and return a pattern for them."""
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"shard-{number}{suffix}").write_text(text)
    return str(folder / f"*{suffix}")


def facts(A: Any) -> list[Any]:
    """Return everything about a stored tensor that an ingest decides."""
    if isinstance(A, sp.Bundle):
        return [facts(A[name]) for name in A]
    block = engines.evaluate(A.__sparrow_scan__(), "stream")
    (commit,) = A.history()
    labels = [None if A.labels(dim) is None else A.labels(dim).to_pylist() for dim in A.dims]
    return [
        A.shape, A.dims, A.dtype, A.fill_value, labels, *(array.tobytes() for array in (*block.coords, block.values)),
        commit["report"], commit["operation"], A._handle.current.extra, A.verify(),
    ]  # fmt: skip


def outcome(ingest: Any) -> Any:
    """Return facts about what a call stores, or its error and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = facts(ingest())
        except Exception as error:  # noqa: BLE001 - compared
            found = [type(error), re.sub(r"\S+\.sparrow", "DST", str(error))]
    return found, [str(each.message) for each in caught]


def check(tmp_path: Path, ingest: Any, works: list[str]) -> Any:
    """Compare an ingest in tasks, whose rounds have names, with one here."""
    with sparrow.testing.observe("cluster.round") as rounds:
        found = outcome(lambda: ingest(tmp_path / "tasks.sparrow"))
    with sp.config(engine="stream"):
        assert found == outcome(lambda: ingest(tmp_path / "here.sparrow"))
    assert [type(details["work"]).__name__ for _, details in rounds] == works
    assert {name.partition(".")[0] for name in os.listdir(tmp_path)} <= {"parts", "tasks", "here", "vertices"}
    return found[0]


WORKS = ["ParsedFiles", "MergedRows"]


def edge_lines(rng: np.random.Generator, count: int, weights: bool, names: bool) -> str:
    ends = rng.integers(0, 60, (count, 2)) ** 2
    form = "v{}" if names else "{}"
    lines = []
    for (src, dst), weight in zip(ends.tolist(), rng.normal(size=count).round(3).tolist(), strict=True):
        lines.append(f"{form.format(src)}\t{form.format(dst)}" + (f"\t{weight}" if weights else ""))
    return "\n".join(["# Nodes: 5000 Edges: 7", *lines, ""])


@pytest.mark.parametrize("options", [
    {}, {"weights": True}, {"weights": True, "names": True}, {"names": True, "self_loops": "drop"},
    {"relabel": True, "weights": True, "directed": False}, {"duplicates": "last", "weights": True},
    {"weights": True, "duplicates": "error", "names": True}, {"duplicates": "error", "relabel": True},
    {"dtype": "float32", "weights": True, "fill_value": 1}, {"shape": (4000, 3600)}, {"shape": (4000, 3000)},
])  # fmt: skip
def test_edges(tmp_path: Path, options: dict[str, Any]) -> None:
    options = dict(options)
    rng = np.random.default_rng(len(options))
    weights, names = options.pop("weights", False), options.pop("names", False)
    texts = [edge_lines(rng, count, weights, names) for count in (400, 1, 300, 700, 90)]
    pattern = write_parts(tmp_path / "parts", ".txt", texts)
    fails = options.get("shape") == (4000, 3000)
    found = check(tmp_path, lambda dst: sp.ingest.edges(pattern, dst, **options), WORKS[:1] if fails else WORKS)
    assert (found[0] in (sp.errors.DuplicateError, sp.errors.IngestError)) == (
        fails or options.get("duplicates") == "error"
    )


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (sp.eye(30) * 2).compute().nnz == 30  # the processes are in another folder
    monkeypatch.chdir(tmp_path)
    write_parts(tmp_path / "parts", ".txt", ["0 1\n2 3\n", "4 5\n6 49\n", "7 8\n"])
    check(tmp_path, lambda dst: sp.ingest.edges("parts/*.txt", dst), WORKS)
    write_parts(tmp_path / "parts" / "more", ".csv", ["a,b\n0,1\n2,3\n", "a,b\n4,5\n6,49\n", "a,b\n7,8\n"])
    check(tmp_path, lambda dst: sp.ingest.columns("parts/more", dst, coords=["a", "b"], overwrite=True), [])
    check(tmp_path, lambda dst: sp.ingest.columns("parts/more/*", dst, coords=["a"], value="b", overwrite=True), WORKS)
    write_parts(tmp_path / "parts" / "rows", ".svm", ["1 1:2\n", "0 3:4\n", "1 5:6\n"])
    check(tmp_path, lambda dst: sp.ingest.libsvm("parts/rows/*", dst, overwrite=True), ["ParsedFiles", "ShiftedBlocks"])


def test_edges_with_vertices_and_errors(tmp_path: Path) -> None:
    (tmp_path / "vertices.txt").write_text("".join(f"{k} name{k}\n" for k in range(50)))
    texts = ["0 1\n2 3\n", "4 5\n6 49\n", "7 8\n"]
    pattern = write_parts(tmp_path / "parts", ".txt", texts)
    check(tmp_path, lambda dst: sp.ingest.edges(pattern, dst, vertices=tmp_path / "vertices.txt"), WORKS)
    for number, text in enumerate(("1 50\n", "1 2 3\n", "1\n", "x y\n", "-1 2\n")):
        Path(tmp_path, "parts", f"shard-{1 + number % 2}.txt").write_text(texts[1] + text)
        ingest = lambda dst: sp.ingest.edges(pattern, dst, vertices=tmp_path / "vertices.txt", overwrite=True)  # noqa: E731
        assert check(tmp_path, ingest, WORKS[:1])[0] is sp.errors.IngestError


def table_lines(rng: np.random.Generator, count: int) -> str:
    rows = zip(
        rng.integers(0, 50, count), rng.integers(0, 30, count), rng.normal(size=count).round(2),
        rng.integers(0, 9, count), strict=True,
    )  # fmt: skip
    lines = [f"{user**2},film {film},{stars},{2000 + year}-01-0{1 + year}" for user, film, stars, year in rows]
    return "\n".join(["user,film,stars,day", *lines, ""])


@pytest.mark.parametrize("options", [
    {"coords": ["user", "film"], "value": "stars", "duplicates": "sum"},
    {"coords": ["film", "user"], "value": "stars", "duplicates": "mean", "relabel": ["user"]},
    {"coords": ["day", "film", "user"], "duplicates": "count", "relabel": True, "dims": ("d", "f", "u")},
    {"coords": ["user", "film"], "value": "stars", "duplicates": "error"},
    {"coords": ["user", "film", "day"], "value": "stars", "duplicates": "min", "shape": (2500, None, None)},
    {"coords": ["user", "film"], "value": "stars", "duplicates": "last", "dtype": "float32", "fill_value": 0.5},
    {"coords": ["user", "film"], "value": "stars", "duplicates": "first", "shape": (2000, None)},
])  # fmt: skip
def test_csv(tmp_path: Path, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    pattern = write_parts(tmp_path / "parts", ".csv", [table_lines(rng, count) for count in (300, 500, 2, 600)])
    fails = options.get("shape") == (2000, None)
    found = check(tmp_path, lambda dst: sp.ingest.columns(pattern, dst, **options), WORKS[:1] if fails else WORKS)
    assert (found[0] in (sp.errors.DuplicateError, sp.errors.IngestError)) == (
        fails or options["duplicates"] == "error"
    )


@pytest.mark.parametrize(
    ("dtype", "value", "names"), [("int64", 2**62, False), ("int8", 100, True), ("uint8", 200, False)]
)
def test_sums_beyond_the_dtype(tmp_path: Path, dtype: str, value: int, names: bool) -> None:
    key = "film {}" if names else "{}"
    texts = [f"id,n\n{key.format(1)},{value}\n{key.format(2)},1\n", f"id,n\n{key.format(3)},{value}\n"]
    pattern = write_parts(tmp_path / "parts", ".csv", [*texts, f"id,n\n{key.format(3)},{value}\n"])
    options: dict[str, Any] = {"coords": ["id"], "value": "n", "dtype": dtype, "duplicates": "sum", "overwrite": True}
    found = check(tmp_path, lambda dst: sp.ingest.columns(pattern, dst, **options), WORKS)
    assert issubclass(found[0], sp.errors.NumberRangeError)
    assert re.search(rf"element .*3.* have the sum {2 * value}, .*pass dtype=", found[1])
    Path(tmp_path, "parts", "shard-2.csv").write_text(f"id,n\n{key.format(3)},-1\n")
    wide = options | {"dtype": "int64"}
    assert not isinstance(check(tmp_path, lambda dst: sp.ingest.columns(pattern, dst, **wide), WORKS)[0], type)


def test_parquet_json_and_folders(tmp_path: Path) -> None:
    import polars as pl

    rng = np.random.default_rng(0)
    folder = tmp_path / "parts"
    for year in range(3):
        (folder / f"year={year}").mkdir(parents=True)
        for part in range(2):
            frame = pl.DataFrame(
                {
                    "user": rng.integers(0, 900, 300),
                    "tag": rng.choice(["a", "b", f"t{year}{part}"], 300),
                    "n": rng.normal(size=300),
                }
            )
            frame.write_parquet(folder / f"year={year}" / f"{part}.parquet")
    options: dict[str, Any] = {
        "coords": ["year", "tag", "user"],
        "value": "n",
        "duplicates": "sum",
        "relabel": ["user"],
    }
    check(tmp_path, lambda dst: sp.ingest.columns(folder, dst, **options), WORKS)
    lines = [frame.with_columns(pl.lit(None).alias("x")).write_ndjson().splitlines(keepends=True) for _ in range(3)]
    lines[1].insert(50, '{"user": null, "tag": "c", "n": 1.5}\n')
    pattern = write_parts(tmp_path / "parts" / "json", ".jsonl", ["".join(each) for each in lines])
    options = {"coords": ["tag", "user"], "value": "n", "duplicates": "max", "overwrite": True}
    check(tmp_path, lambda dst: sp.ingest.columns(pattern, dst, **options), WORKS[:1])
    check(tmp_path, lambda dst: sp.ingest.columns(pattern, dst, **options, nulls="drop"), WORKS)
    several = options | {"value": ["n", "user"], "nulls": "drop"}
    check(tmp_path, lambda dst: sp.ingest.columns(pattern, dst, **several), [])  # a bundle is parsed here


def test_texts_that_come_late(tmp_path: Path) -> None:
    texts = ["id,n\n1,2\n3,4\n", "id,n\n5,6\nseven,8\n", "id,n\n9,1\n"]
    pattern = write_parts(tmp_path / "parts", ".csv", texts)
    found = check(tmp_path, lambda dst: sp.ingest.columns(pattern, dst, coords=["id"], value="n"), [WORKS[0], *WORKS])
    assert found[4] == [["1", "3", "5", "9", "seven"]]
    Path(tmp_path, "parts", "shard-2.csv").write_text("id,n\n-9,1\n")
    ingest: Any = lambda dst: sp.ingest.columns(  # noqa: E731
        pattern, dst, coords=["id"], value="n", relabel=True, overwrite=True
    )
    check(tmp_path, ingest, WORKS[:1])  # numbers that are texts are read again here
    big = ["id,n\n1,2\n", f"id,n\n{2**63 + 5},4\n", "id,n\n7,1\n"]
    for number, text in enumerate(big):
        Path(tmp_path, "parts", f"shard-{number}.csv").write_text(text)
    with sparrow.testing.observe("cluster.round"):
        assert facts(ingest(tmp_path / "tasks.sparrow"))[4] == [[1, 7, 2**63 + 5]]


def libsvm_lines(rng: np.random.Generator, count: int, first: int, labels: str = "") -> str:
    lines = ["# made up"]
    for _ in range(count):
        features = np.flatnonzero(rng.random(30) < 0.3) + first
        values = rng.normal(size=len(features)).round(2).tolist()
        label = labels or str(rng.integers(-1, 2))
        lines.append(" ".join([label, *(f"{k}:{value}" for k, value in zip(features.tolist(), values, strict=True))]))
    return "\n".join([*lines, "", ""])


@pytest.mark.parametrize(
    ("texts", "options", "works"),
    [
        ([1, 1, 1], {}, 2),
        ([1, 0, 1], {}, 2),
        ([1, 1, 1], {"index_base": 0, "dtype": "float32", "n_features": 70, "profile": "small"}, 2),
        (["1,5,2", 1, "3"], {}, 2),
        ([1, "qid:7", 1], {}, 1),
        (["1 qid:7", 1, "2 qid:1"], {}, 2),
        ([1, "", 1], {}, 2),
        ([1, "1 3:4 3:5\n", 1], {}, 1),
        ([1, "1 3:4 3:5\n", 1], {"duplicates": "sum"}, 2),
        ([1, "1 3:x\n", "1 y:2\n"], {}, 1),
        ([1, "1 40:1\n", "1 0:2\n"], {"n_features": 40}, 1),
        (["2 40 3\n0 1:2\n1 0:1\n", "1 40 3\n2 39:1\n"], {}, 1),
        (["0 1:2\n1 0:1\n2 4:3\n", "1 40 3\n2 39:1\n"], {}, 1),
    ],
)
def test_libsvm(tmp_path: Path, texts: list[Any], options: dict[str, Any], works: int) -> None:
    rng = np.random.default_rng(0)
    made = [
        libsvm_lines(rng, 40, text if isinstance(text, int) else 1, "" if isinstance(text, int) else text)
        if isinstance(text, int) or "\n" not in text
        else text
        for text in texts
    ]
    pattern = write_parts(tmp_path / "parts", ".svm", made)
    with sparrow.testing.tune("io", libsvm_block_bytes=500):
        check(tmp_path, lambda dst: sp.ingest.libsvm(pattern, dst, **options), ["ParsedFiles", "ShiftedBlocks"][:works])


def test_worker_killed_in_mid_ingest(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pattern = write_parts(tmp_path / "parts", ".txt", [edge_lines(rng, 300, True, True) for _ in range(5)])
    with sp.config(engine="stream"):
        expected = facts(sp.ingest.edges(pattern, tmp_path / "here.sparrow"))
    due: list[int] = []

    def kill(task: int, pid: int) -> None:
        if task == 1 and due == [len(rounds)]:
            due.clear()
            os.kill(pid, signal.SIGKILL)

    for number in (1, 2):
        due.append(number)
        with (
            sparrow.testing.observe("cluster.round") as rounds,
            sparrow.testing.observe("cluster.death") as deaths,
            sparrow.testing.on("cluster.task", kill),
        ):
            A = sp.ingest.edges(pattern, tmp_path / f"tasks{number}.sparrow")
        assert len(deaths) == 1
        assert facts(A) == expected
        there = {name for name in os.listdir(A.path) if not name.startswith("_")}
        assert there == {Path(file.path).name for file in A.files()}
