from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tensor = sp.from_coords([[0, 0, 1, 2, 3], [1, 2, 2, 0, 0]], [2, 1, 1, 1, 5], shape=(5, 5), dims=("src", "dst"))
    path = tmp_path_factory.mktemp("graphs") / "web.sparrow"
    tensor.save(path)
    return path


@pytest.fixture(scope="module")
def labelled_web(web: Path) -> Path:
    path = web.parent / "named.sparrow"
    tensor: Any = sp.open(web)
    tensor.save(path).set_labels(["src", "dst"], ["ann", "bob", "eve", "dan", "tom"])
    return path


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (["degrees"], [["src", "degree"], ["0", 2], ["1", 1]]),
        (["degrees", "--direction", "in", "--weighted"], [["src", "degree"], ["0", 6], ["1", 2]]),
        (["bfs", "3", "--max-depth", "1"], [["src", "links"], ["3", 0], ["0", 1]]),
        (["bfs", "1", "--undirected"], [["src", "links"], ["1", 0], ["0", 1]]),
        (["paths", "3"], [["src", "length"], ["3", 0], ["0", 5]]),
        (["paths", "1", "--undirected"], [["src", "length"], ["1", 0], ["2", 1]]),
        (["components"], [["component", "nodes", "first"], ["0", 4, 0], ["1", 1, 4]]),
        (["components", "--connection", "strong"], [["component", "nodes", "first"], ["0", 3, 0], ["1", 1, 3]]),
        (["triangles"], [["src", "triangles"], ["0", 1], ["1", 1]]),
        (["clustering"], [["src", "clustering"], ["1", 1], ["2", 1]]),
        (["kcore"], [["src", "kcore"], ["0", 2], ["1", 2]]),
    ],
)
def test_verbs_write_first_values(cli: Any, web: Path, words: list[str], table: list[Any]) -> None:
    verb, *options = words
    done = cli("graph", verb, web, *options, "--head", 2)
    assert done.code == 0, done.err
    header, *rows = done.table
    assert [header, *([name, *map(float, numbers)] for name, *numbers in rows)] == table


def test_labels(cli: Any, labelled_web: Path) -> None:
    assert cli("graph", "bfs", labelled_web, "dan", "--json", "--head", 0).json[-2:] == [
        {"src": "bob", "links": 2},
        {"src": "eve", "links": 2},
    ]
    assert cli("graph", "communities", labelled_web, "--json", "--head", 1).json[0]["first"] == "ann"
    assert cli("pagerank", labelled_web, "--personalization", "tom", "--json", "--head", 1).json == [
        {"src": "tom", "rank": 1.0}
    ]
    assert cli("graph", "hits", labelled_web, "--json", "--head", 1).json[0]["src"] == "ann"
    assert cli("graph", "hits", labelled_web, "--hubs", "--json", "--head", 1).json[0]["src"] == "dan"


def test_ids_with_gaps_are_noted(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("5 70000\n70000 131\n131 5\n")
    for relabel, noted in (((), True), (("--relabel",), False)):
        path = tmp_path / f"web{len(relabel)}"
        assert cli("ingest", "edges", tmp_path / "edges.txt", path, *relabel).code == 0
        done = cli("graph", "components", path, "--head", 1)
        assert ("69,998 of 70,001 nodes stand alone" in done.err, "--relabel" in done.err) == (noted, noted)


def test_typed_edges_error_hints(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("a\tknows\tb\nb\tlikes\tc\nc\tknows\ta\n")
    assert cli("ingest", "triples", tmp_path / "facts.tsv", tmp_path / "facts").code == 0
    done = cli("graph", "degrees", tmp_path / "facts")
    assert done.code == 1
    assert "got shape (3, 2, 3): select one relation with A.isel(relation=0)" in done.err
    assert "A.sum(axis='relation')" in done.err
    facts: Any = sp.open(tmp_path / "facts")
    for kinds, expected in ((facts.sum(axis="relation"), [1, 1, 1]), (facts.isel(relation=0), [1, 0, 1])):
        assert sp.graph.degrees(kinds).to_numpy().tolist() == expected


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_bipartite_error_names_commands(cli: Any, tmp_path: Path, shape: tuple[int, int]) -> None:
    labels = {"u": ["a", "b"], "i": ["x", "y", "z"][: shape[1]]}
    sp.asarray(np.ones(shape), dims=("u", "i"), labels=labels).save(tmp_path / "ratings")
    done = cli("graph", "degrees", tmp_path / "ratings")
    assert done.code == 1
    assert "sparrow export PATH FILE.edges, then sparrow ingest edges FILE.edges DST, makes a graph" in done.err
    assert "sel()" not in done.err
    assert cli("export", tmp_path / "ratings", tmp_path / "r.edges").code == 0
    assert cli("ingest", "edges", tmp_path / "r.edges", tmp_path / "graph").code == 0
    result = cli("graph", "degrees", tmp_path / "graph", "--json", "--head", 1).json
    assert result == [{"src": "a", "degree": shape[1]}]


def test_negative_node(cli: Any, tmp_path: Path) -> None:
    labels = {"src": [-12, 0], "dst": [-12, 0]}
    sp.asarray([[0, 1], [0, 0]], dims=("src", "dst"), labels=labels).save(tmp_path / "links")
    done = cli("graph", "bfs", tmp_path / "links", "-12")
    assert done.code == 2
    assert "No such option: -12: put -- before a negative number, as in -- -12" in done.err
    result = cli("graph", "bfs", tmp_path / "links", "--json", "--", "-12").json
    assert result == [{"src": -12, "links": 0}, {"src": 0, "links": 1}]


def test_column_labels_name_nodes(cli: Any, web: Path, tmp_path: Path) -> None:
    tensor: Any = sp.open(web)
    tensor.save(tmp_path / "web.sparrow").set_labels("dst", ["ann", "bob", "eve", "dan", "tom"])
    result = cli("graph", "bfs", tmp_path / "web.sparrow", "dan", "--json", "--head", 2)
    assert result.json == [{"src": "dan", "links": 0}, {"src": "ann", "links": 1}]


def test_results_are_stored(cli: Any, web: Path, tmp_path: Path) -> None:
    done = cli("graph", "components", web, "--out", tmp_path / "parts.sparrow", "--json")
    assert done.json == {"path": str(tmp_path / "parts.sparrow"), "shape": [5], "nnz": 5}
    stored: Any = sp.open(tmp_path / "parts.sparrow")
    assert stored.to_numpy().tolist() == [0, 0, 0, 0, 1]
    assert "5 of 5 nodes" in cli("pagerank", web, "--out", tmp_path / "ranks.sparrow").err
    ranks: Any = sp.open(tmp_path / "ranks.sparrow")
    np.testing.assert_array_equal(ranks.to_numpy(), sp.linalg.pagerank(sp.open(web)))


def test_isolated_nodes_are_written(cli: Any, web: Path, labelled_web: Path) -> None:
    done = cli("graph", "degrees", web, "--head", 0)
    assert done.table[1:] == [["0", "2"], ["1", "1"], ["2", "1"], ["3", "1"], ["4", "0"]]
    assert done.err == ""
    assert "3 of 5 nodes; --head 0 writes all" in cli("graph", "degrees", web, "--head", 3).err
    ranks = cli("pagerank", labelled_web, "--personalization", "tom", "--json", "--head", 0).json
    assert ranks[0] == {"src": "tom", "rank": 1.0}
    assert sorted(row["src"] for row in ranks) == ["ann", "bob", "dan", "eve", "tom"]


@pytest.mark.parametrize("verb", ["bfs", "paths"])
def test_unreachable_nodes_are_omitted(cli: Any, web: Path, verb: str) -> None:
    done = cli("graph", verb, web, 1, "--head", 0)
    assert (sorted(row[0] for row in done.table[1:]), done.err) == (["0", "1", "2"], "")
    assert "2 of 3 reachable nodes; --head 0 writes all" in cli("graph", verb, web, 1, "--head", 2).err
    assert "every node it reaches" in cli("graph", verb, "--help").out


def test_weights_of_any_dtype(cli: Any, tmp_path: Path) -> None:
    sp.asarray([[0, 1j, 2], [1, 0, 0], [0, 0, 0]]).save(tmp_path / "complex.sparrow")
    assert cli("graph", "degrees", tmp_path / "complex.sparrow", "--weighted").table[1:] == [
        ["0", "(2+1j)"],
        ["1", "(1+0j)"],
        ["2", "0j"],
    ]
    result = cli("graph", "degrees", tmp_path / "complex.sparrow", "--weighted", "--json", "--head", 1).json
    assert result == [{"d0": 0, "degree": [2.0, 1.0]}]
    sp.asarray(np.array([[0, 1], [2, 0]], np.uint64)).save(tmp_path / "whole.sparrow")
    result = cli("graph", "degrees", tmp_path / "whole.sparrow", "--weighted", "--json").json
    assert result == [{"d0": 1, "degree": 2}, {"d0": 0, "degree": 1}]


def test_errors_name_options(cli: Any, web: Path, tmp_path: Path) -> None:
    sp.zeros((2**30, 2**30)).save(tmp_path / "large.sparrow")
    done = cli("--memory-limit", "300MB", "graph", "kcore", tmp_path / "large.sparrow")
    assert done.code == 1
    assert "raise the limit with --memory-limit" in done.err
    for command in (("pagerank",), ("graph", "degrees")):
        done = cli(*command, web, "--out", web)
        assert (done.code, "choose another name, or remove it first" in done.err) == (1, True)


@pytest.mark.parametrize("verb", [["pagerank"], ["graph", "pagerank"], ["graph", "hits"]])
def test_convergence_error_names_options(cli: Any, web: Path, verb: list[str]) -> None:
    done = cli(*verb, web, "--tol", "1e-15", "--max-iter", 2)
    assert (done.code, "did not reach --tol 1e-15 in 2 rounds: increase --max-iter" in done.err) == (1, True), done.err
    assert cli(*verb, web, "--tol", 0.1, "--max-iter", 2000).code == 0
    assert cli(*verb, web, "--max-iter", 0).code == 2


def test_wrong_usage(cli: Any, web: Path, labelled_web: Path) -> None:
    assert (done := cli("graph", "bfs", web, "ann")).code == 2
    assert "a node must be an integer, as nodes of this graph have no text labels, got 'ann'" in done.err
    assert (done := cli("graph", "bfs", labelled_web, "zoe")).code == 1
    assert "no label 'zoe'" in done.err
    assert cli("graph").code == 2
    assert cli("graph", "fly", web).code == 2
