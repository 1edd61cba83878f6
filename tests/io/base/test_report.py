"""Reports of ingests: counts that add up, lines, headers that differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.io.base.report import Report
from sparrow.testing import observe, tune


def report(A: Any) -> dict[str, int]:
    found: dict[str, int] = A.history()[-1]["report"]
    return found


def adds_up(counts: dict[str, int]) -> bool:
    left = counts["read"] + counts["mirrored"]
    return left == sum(counts[name] for name in ("stored", "merged", "fill", "loops", "skipped"))


EDGE = st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from([0.0, 1.0, 2.5]))
NOISE = st.sampled_from(["# a comment\n", "\n", "%\n", ""])


@given(
    st.lists(st.tuples(EDGE, NOISE), min_size=1),
    st.sampled_from(["keep", "drop"]),
    st.booleans(),
    st.sampled_from(["sum", "last"]),
    st.sampled_from([7, 1 << 22]),
    st.booleans(),
)
def test_counts_of_edges_add_up(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[tuple[int, int, float], str]],
    self_loops: str,
    directed: bool,
    rule: str,
    block: int,
    spill: bool,
) -> None:
    folder = tmp_path_factory.mktemp("counts")
    (folder / "e.txt").write_text("".join(f"{noise}{a} {b} {w}\n" for (a, b, w), noise in rows))
    options: Any = {"self_loops": self_loops, "directed": directed, "duplicates": rule, "dtype": "float64"}
    with tune("io", block_bytes=block), tune("sorting", budget_bytes=200 if spill else None):
        A = sp.ingest.edges(folder / "e.txt", folder / "A.sparrow", **options)
    counts = report(A)
    assert adds_up(counts)
    assert counts["read"] == len(rows)
    assert counts["stored"] == A.nnz
    assert counts["loops"] == (sum(a == b for (a, b, _), _ in rows) if self_loops == "drop" else 0)
    assert counts["comments"] == sum(noise.strip() != "" for _, noise in rows)


SOURCES = {
    "mtx": ("a.mtx", "%%MatrixMarket matrix coordinate real symmetric\n% c\n2 2 3\n1 1 5\n2 1 0\n2 1 1\n"),
    "tns": ("a.tns", "# c\n1 1 5\n\n# d\n1 1 1\n2 1 0\n"),
    "libsvm": ("a.svm", "# c\n1 1:0 2:3\n\n0 3:1\n# d\n"),
    "libffm": ("a.ffm", "# c\n1 0:1:0 0:2:3\n0 1:3:1\n"),
    "metis": ("a.graph", "% c\n2 1\n2\n% d\n1\n"),
    "triples": ("a.txt", "a\tr\tb\na\tr\tb\n"),
}


@pytest.mark.parametrize("format", SOURCES)
@pytest.mark.parametrize("block", [8, 1 << 22])
def test_every_format_has_counts(tmp_path: Path, format: str, block: int) -> None:
    name, text = SOURCES[format]
    (tmp_path / name).write_text(text)
    with tune("io", block_bytes=block, libsvm_block_bytes=block), observe("io.report") as events:
        made = getattr(sp.ingest, format)(tmp_path / name, tmp_path / "A.sparrow")
    A = made if isinstance(made, sp.Tensor) else made["X"]
    counts = report(A)
    assert [details["counts"] for _, details in events] == [counts]
    assert adds_up(counts)
    assert counts["stored"] == A.nnz
    assert counts["comments"] == text.count("# ") + text.count("% ")
    if format != "triples":
        assert counts["fill"] == {"mtx": 0, "metis": 0}.get(format, 1)


def test_comment_lines_of_csv_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# one\ni,v\n0,1\n# two\n1,\n")
    with tune("io", block_bytes=8):
        A = sp.ingest.columns(
            tmp_path / "a.csv", tmp_path / "A.sparrow", coords=["i"], value="v", comment="#", nulls="drop"
        )
    assert (report(A)["comments"], report(A)["skipped"], report(A)["read"]) == (2, 1, 2)
    assert adds_up(report(A))


def test_members_of_a_bundle_share_a_report(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("i,v,w\n0,1,2\n1,0,3\n")
    made = sp.ingest.columns(tmp_path / "a.csv", tmp_path / "A.sparrow", coords=["i"], value=["v", "w"])
    assert report(made["v"]) == report(made["w"])
    assert adds_up(report(made["v"]))


def test_command_line_reports_every_ingest(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("# SNAP\n0 1\n0 1\n1 2\n")
    done = cli("ingest", "edges", tmp_path / "e.txt", tmp_path / "A.sparrow")
    told = f"{tmp_path / 'e.txt'}: 3 edges read, 2 stored: 1 comment line passed over, 1 merged as a duplicate"
    assert (done.code, told in done.err) == (0, True)
    done = cli("ingest", "edges", tmp_path / "e.txt", tmp_path / "A.sparrow", "--overwrite", "--json")
    assert done.json["report"] == report(sp.open(tmp_path / "A.sparrow"))
    done = cli("history", tmp_path / "A.sparrow", "--json")
    assert json.loads(done.out)[0]["report"]["merged"] == 1


def test_losses_are_told_in_python_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.txt").write_text("# a comment\n0 1 1\n1 2 1\n0 1 1\n")
    sp.ingest.edges(tmp_path / "e.txt", tmp_path / "A.sparrow")
    assert not capsys.readouterr().err
    (tmp_path / "e.txt").write_text("0 1 1\n1 2 0\n")
    sp.ingest.edges(tmp_path / "e.txt", tmp_path / "A.sparrow", overwrite=True)
    assert capsys.readouterr().err == f"{tmp_path / 'e.txt'}: 2 edges read, 1 stored: 1 of value 0 dropped\n"
    with sp.config(progress=False):
        sp.ingest.edges(tmp_path / "e.txt", tmp_path / "A.sparrow", overwrite=True)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("# Nodes: 3 Edges: 3\n", ""),
        ("# Nodes: 3 Edges: 4\n", "the header declares 4 edges; {}: 3 edges read, 2 stored"),
        ("# Edges: 3\n", ""),
        ("# Nodes: 2 Edges: 3\n", "the header declares 2 nodes, ids go up to 2: pass relabel=True"),
    ],
)
def test_header_is_compared(tmp_path: Path, header: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "e.txt"
    last = "0 1" if "4 edges" in told else "2 0"
    path.write_text(f"{header}0 1\n1 2\n{last}\n")
    sp.ingest.edges(path, tmp_path / "A.sparrow")
    err = capsys.readouterr().err
    assert told.format(path) in err
    assert bool(err) == bool(told)


def test_header_explains_dropped_edges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "caida.txt"
    path.write_text("# Nodes: 4 Edges: 3\n1 2 -1\n2 3 0\n3 2 0\n")
    sp.ingest.edges(path, tmp_path / "A.sparrow")
    assert capsys.readouterr().err == (
        f"the header declares 3 edges; {path}: 3 edges read, 1 stored: 1 comment line passed over, "
        "2 of value 0 dropped\n"
    )


def test_real_headers_agree(shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("wiki-Vote/wiki-Vote.txt.gz", "p2p-Gnutella08/p2p-Gnutella08.txt"):
        sp.ingest.edges(shared_data / name, tmp_path / "A.sparrow", overwrite=True)
    told = capsys.readouterr().err
    assert "wiki-Vote.txt.gz: the header declares 7,115 nodes, ids go up to 8,297" in told
    assert "edges" not in told


def test_report_is_thread_safe() -> None:
    from concurrent.futures import ThreadPoolExecutor

    found = Report()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: found.add(read=1, stored=1), range(2000)))
    assert found.counts["read"] == found.counts["stored"] == 2000
