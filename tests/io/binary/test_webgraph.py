"""WebGraph's graphs, against a plain encoder and reader."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import DuplicateError, IngestError, NotFoundError, SparrowError, UnsupportedError
from sparrow.testing import tune


def binary(number: int, width: int) -> str:
    return format(number, f"0{width}b") if width else ""


def unary(number: int) -> str:
    return "0" * number + "1"


def gamma(number: int) -> str:
    width = (number + 1).bit_length() - 1
    return unary(width) + binary(number + 1 - (1 << width), width)


def delta(number: int) -> str:
    width = (number + 1).bit_length() - 1
    return gamma(width) + binary(number + 1 - (1 << width), width)


def minimal(number: int, count: int) -> str:
    """Write a number below ``count`` in truncated binary."""
    width = count.bit_length() - 1
    short = (2 << width) - count
    return binary(number, width) if number < short else binary(number + short, width + 1)


def zeta(number: int, k: int) -> str:
    h = ((number + 1).bit_length() - 1) // k
    left = 1 << h * k
    return unary(h) + minimal(number + 1 - left, (1 << h * k + k) - left)


def nibble(number: int) -> str:
    groups = [number >> 3 * i & 7 for i in range((max(number.bit_length(), 1) + 2) // 3)][::-1]
    return "".join(("1" if i == len(groups) - 1 else "0") + binary(group, 3) for i, group in enumerate(groups))


CODES: dict[str, Callable[[int, int], str]] = {
    "UNARY": lambda number, k: unary(number),
    "GAMMA": lambda number, k: gamma(number),
    "DELTA": lambda number, k: delta(number),
    "ZETA": zeta,
    "NIBBLE": lambda number, k: nibble(number),
    "GOLOMB": lambda number, k: unary(number // k) + minimal(number % k, k),
}
USUAL = {"OUTDEGREES": "GAMMA", "REFERENCES": "UNARY", "RESIDUALS": "ZETA", "BLOCK_COUNT": "GAMMA", "BLOCKS": "GAMMA"}


def natural(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def encode_graph(
    graph: Sequence[Sequence[int]], window: int, shortest: int, k: int, codes: dict[str, str], rng: Any
) -> tuple[bytes, str]:
    """Encode a graph as WebGraph does, with random references."""
    out = ""
    codes = USUAL | codes

    def put(part: str, number: int) -> str:
        return CODES[codes[part]](number, k)

    for x, links in enumerate(graph):
        out += put("OUTDEGREES", len(links))
        if not links:
            continue
        left = list(links)
        if window:
            reference = int(rng.integers(0, min(window, x) + 1))
            out += put("REFERENCES", reference)
            if reference:
                other, left = graph[x - reference], [v for v in links if v not in set(graph[x - reference])]
                kept = [v in set(links) for v in other]
                runs: list[int] = []
                for i, keep in enumerate(kept):
                    if i == 0 and not keep:
                        runs.append(0)
                    if i == 0 or keep != kept[i - 1]:
                        runs.append(0)
                    runs[-1] += 1
                runs = runs[:-1]  # how long the last run is follows
                if not kept:
                    runs = []
                out += put("BLOCK_COUNT", len(runs))
                out += "".join(put("BLOCKS", run - (i > 0)) for i, run in enumerate(runs))
        if not left:
            continue
        if shortest:
            groups: list[list[int]] = []
            for v in left:
                if groups and groups[-1][-1] == v - 1:
                    groups[-1].append(v)
                else:
                    groups.append([v])
            intervals = [group for group in groups if len(group) >= shortest]
            out += gamma(len(intervals))
            before = x
            for i, group in enumerate(intervals):
                out += gamma(natural(group[0] - x)) if i == 0 else gamma(group[0] - before - 1)
                out += gamma(len(group) - shortest)
                before = group[-1] + 1
            left = [v for group in groups if len(group) < shortest for v in group]
        for i, v in enumerate(left):
            out += put("RESIDUALS", natural(v - x) if i == 0 else v - left[i - 1] - 1)
    flags = " | ".join(f"{part}_{code}" for part, code in codes.items() if code != USUAL[part])
    told = (
        "#BVGraph properties\ngraphclass=it.unimi.dsi.webgraph.BVGraph\nversion=0\n"
        f"nodes={len(graph)}\narcs={sum(map(len, graph))}\nwindowsize={window}\nmaxrefcount=3\n"
        f"minintervallength={shortest}\nzetak={k}\ncompressionflags={flags}\n"
    )
    bits = out + "0" * (-len(out) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8, "big"), told


def dense_of(graph: Sequence[Sequence[int]]) -> Any:
    out = np.zeros((len(graph), len(graph)), np.int64)
    for x, links in enumerate(graph):
        out[x, list(links)] = 1
    return out


def random_graph(rng: Any, nodes: int) -> list[list[int]]:
    """Return lists with runs, some similar to previous ones."""
    graph: list[list[int]] = []
    for x in range(nodes):
        row = rng.random(nodes) < rng.choice([0, 0.1, 0.5, 1])
        if x and rng.random() < 0.5:
            row ^= np.isin(np.arange(nodes), graph[x - 1])
        graph.append(np.flatnonzero(row).tolist())
    return graph


def store(folder: Path, bits: bytes, told: str) -> Path:
    (folder / "g.graph").write_bytes(bits)
    (folder / "g.properties").write_text(told)
    return folder / "g.graph"


@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.sampled_from([0, 1, 3, 7, 100]),
    st.sampled_from([0, 1, 2, 4]),
    st.sampled_from([1, 2, 3, 5, 7]),
    st.fixed_dictionaries(
        {},
        optional={part: st.sampled_from([*CODES]) for part in USUAL},
    ),
    st.booleans(),
)
def test_any_compressed_graph(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    nodes: int,
    window: int,
    shortest: int,
    k: int,
    codes: dict[str, str],
    small: bool,
) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes)
    folder = tmp_path_factory.mktemp("bv")
    path = store(folder, *encode_graph(graph, window, shortest, k, codes, rng))
    sizes: dict[str, Any] = {"bvgraph_block_bytes": 5, "bvgraph_lists": 3, "bvgraph_links": 4} if small else {}
    with tune("io", **sizes):
        A = sp.ingest.webgraph(path, folder / "A.sparrow")
    assert A.dims == ("src", "dst")
    np.testing.assert_array_equal(A.to_numpy(), dense_of(graph))


@given(st.integers(0, 2**32), st.integers(0, 30), st.booleans(), st.sampled_from(["", ".gz", ".zst"]))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, seed: int, nodes: int, small: bool, packed: str) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes)
    folder = tmp_path_factory.mktemp("text")
    text = "".join(f"{line}\n" for line in [nodes, *(" ".join(map(str, links)) for links in graph)])
    (folder / "a.graph-txt").write_text(text)
    with tune("io", block_bytes=7 if small else 1 << 22):
        A = sp.ingest.webgraph(folder / "a.graph-txt", folder / "A.sparrow")
    np.testing.assert_array_equal(A.to_numpy(), dense_of(graph))
    assert sp.export(A, folder / f"b.graph-txt{packed}") == A.nnz
    if not packed:
        assert (folder / "b.graph-txt").read_text() == text
    again = sp.ingest.webgraph(folder / f"b.graph-txt{packed}", folder / "B.sparrow")
    np.testing.assert_array_equal(again.to_numpy(), A.to_numpy())


def test_real_graphs_agree(shared_data: Path, tmp_path: Path) -> None:
    cnr = shared_data / "cnr-2000"
    A = sp.ingest.webgraph(cnr / "cnr-2000", tmp_path / "A.sparrow")
    assert (A.shape, A.nnz) == ((325557, 325557), 3216152)
    B = sp.ingest.webgraph(cnr / "cnr-2000.graph-txt.gz", tmp_path / "B.sparrow")
    assert A.to_arrow().equals(B.to_arrow())
    with gzip.open(cnr / "cnr-2000.graph-txt.gz", "rt") as file:
        next(file)
        rows = A.sum(axis=1).to_numpy()
        assert rows.tolist() == [len(line.split()) for line in file]


@given(st.integers(0, 2**32), st.sampled_from(["cut", "flip", "numbers"]))
def test_damaged_bvgraph(tmp_path_factory: pytest.TempPathFactory, seed: int, how: str) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 20)
    bits, told = encode_graph(graph, 3, 2, 3, {}, rng)
    folder = tmp_path_factory.mktemp("damage")
    data = bytearray(bits)
    if how == "cut":
        data = data[: int(rng.integers(0, len(data) or 1))]
    elif how == "flip" and data:
        for at in rng.integers(0, len(data), 3):
            data[at] ^= int(rng.integers(1, 256))
    else:
        key = str(rng.choice(["nodes", "arcs", "windowsize", "minintervallength", "zetak"]))
        value = str(rng.choice(["-1", "0", "x", "", str(10**18), str(10**30), "21"]))
        told = "".join(f"{key}={value}\n" if line.startswith(key) else line + "\n" for line in told.splitlines())
    path = store(folder, bytes(data), told)
    try:
        A = sp.ingest.webgraph(path, folder / "A.sparrow")
    except SparrowError:
        assert not (folder / "A.sparrow").exists()
    else:
        assert A.nnz == sum(map(len, graph)) or how != "cut"


@pytest.mark.parametrize(
    ("text", "problem", "line", "token"),
    [
        ("", "the file is empty", None, None),
        ("x\n", "expected the number of nodes", 1, "x"),
        ("2 3\n", "expected the number of nodes", 1, "2 3"),
        ("2\n0 2\n\n", "the successor must be one of the nodes 0 to 1", 2, "2"),
        ("2\n\n0 -1\n", "the successor must be one of the nodes 0 to 1", 3, "-1"),
        ("2\n0 b\n\n", "must be an integer", 2, "b"),
        ("2\n0 1.5\n\n", "must be an integer", 2, "1.5"),
        (f"2\n0 {2**63}\n\n", "beyond 2\\^63 - 1", 2, str(2**63)),
        ("3\n0\n1\n", "expected 3 lists, a line per node, empty or not, got 2", None, None),
        ("3\n", "expected 3 lists, a line per node, empty or not, got 0", None, None),
        ("1\n0\n0\n", "expected 1 lists, one per node, got more", 3, None),
    ],
)
def test_bad_ascii_graph(tmp_path: Path, text: str, problem: str, line: int | None, token: str | None) -> None:
    (tmp_path / "a.graph-txt").write_text(text)
    with pytest.raises(IngestError, match=problem) as found:
        sp.ingest.webgraph(tmp_path / "a.graph-txt", tmp_path / "A.sparrow")
    assert (found.value.line, found.value.token) == (line, token)
    assert not (tmp_path / "A.sparrow").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("=", " : "), ("=", "\t"), ("=", " "), ("\n", "\r\n"), ("\n", "\n \f"), ("nodes=2", "nodes=\\\n   2"),
        ("nodes", "no\\u0064es"), ("it.unimi", "class it.unimi"), ("version", "! creator\\=\x85 x\nversion"),
        ("nodes=2", "nodes=2\\\\\nnodes\\: = 7\nnodes:2"), ("arcs=2", "a\\\\\narcs=2"),
    ],
)  # fmt: skip
def test_properties_syntax_of_java(tmp_path: Path, old: str, new: str) -> None:
    bits, told = encode_graph([[1], [0]], 1, 0, 3, {}, np.random.default_rng(0))
    path = store(tmp_path, bits, told)
    (tmp_path / "g.properties").write_bytes(told.replace(old, new).encode("latin-1"))
    assert sp.ingest.webgraph(path, tmp_path / "A.sparrow").to_numpy().tolist() == [[0, 1], [1, 0]]


def test_bad_properties(tmp_path: Path) -> None:
    bits, told = encode_graph([[1], [0]], 1, 0, 3, {}, np.random.default_rng(0))
    path = store(tmp_path, bits, told)
    for old, new, problem in [
        (
            "graphclass=it.unimi.dsi.webgraph.BVGraph",
            "graphclass=it.unimi.dsi.webgraph.EFGraph",
            "must be BVGraph, got",
        ),
        ("version=0", "version=1", "version=1 of BVGraph is unknown"),
        ("compressionflags=", "compressionflags=RESIDUALS_PI", "the compression flag is unknown"),
        ("nodes=2\n", "", "nodes is missing"),
        ("nodes=2", "nodes=3", "the file ends in|is not ascending|2 arcs|end at bit|3 lists"),
        ("arcs=2", "arcs=3", "expected 3 arcs by the .properties, got 2"),
    ]:
        (tmp_path / "g.properties").write_text(told.replace(old, new))
        with pytest.raises(IngestError, match=problem):
            sp.ingest.webgraph(path, tmp_path / "A.sparrow")
    (tmp_path / "g.properties").unlink()
    with pytest.raises(IngestError, match=r"needs '.*g\.properties' beside it"):
        sp.ingest.webgraph(path, tmp_path / "A.sparrow")
    with pytest.raises(NotFoundError):
        sp.ingest.webgraph(tmp_path / "nothing", tmp_path / "A.sparrow")


def test_ascii_graph_unsupported_tensors(tmp_path: Path) -> None:
    (tmp_path / "a.graph-txt").write_text("2\n1 1\n\n")
    with pytest.raises(DuplicateError):
        sp.ingest.webgraph(tmp_path / "a.graph-txt", tmp_path / "A.sparrow")
    assert sp.ingest.webgraph(tmp_path / "a.graph-txt", tmp_path / "A.sparrow", duplicates="sum")[0, 1] == 2
    for bad, problem in [
        (sp.asarray(np.eye(2) * 2), "no weights"),
        (sp.from_coords([[0], [1]], [2**63 - 1], shape=(2, 2)), "no weights"),
        (sp.asarray(np.eye(2) + 0j), "no weights"),
        (sp.asarray(np.ones((2, 3))), "square"),
        (sp.asarray(np.eye(2)).refill(1), "needs fill 0"),
    ]:
        with pytest.raises(UnsupportedError, match=problem):
            sp.export(bad, tmp_path / "b.graph-txt")
    assert not (tmp_path / "b.graph-txt").exists()
