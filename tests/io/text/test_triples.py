"""Knowledge graphs, against dictionaries."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, NotFoundError, SparrowError
from sparrow.testing import tune


def triples_of(A: Any) -> set[tuple[Any, ...]]:
    names = [A.labels(k) for k in range(3)]
    columns = [c.to_pylist() for c in A.to_arrow().columns[:3]]
    cells = zip(*columns, strict=True)
    return {tuple(k if n is None else n[k].as_py() for k, n in zip(cell, names, strict=True)) for cell in cells}


@settings(max_examples=15)
@given(
    st.integers(0, 2**32), st.booleans(), st.sampled_from(["\t", " ", "  "]), st.booleans(), st.booleans(),
    st.booleans(), st.sampled_from([20, 1 << 22]),
)  # fmt: skip
def test_any_splits(
    tmp_path_factory: pytest.TempPathFactory, seed: int, named: bool, parted: str, counted: bool, swapped: bool,
    known: bool, block: int,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("kg")
    rng = np.random.default_rng(seed)
    entities = [f"é{k} of" if parted == "\t" else f"é{k}" for k in range(7)] if named else list(range(7))
    relations = [f"r{k}" for k in rng.permutation(3)] if named else list(range(3))
    splits = {}
    for split in ("train", "valid", "test"):
        chosen = {tuple(cell) for cell in rng.integers(0, (7, 3, 7), (int(rng.integers(1, 9)), 3)).tolist()}
        splits[split] = {(entities[h], relations[r], entities[t]) for h, r, t in chosen}
        lines = [str(len(chosen))] * counted
        lines += [parted.join(map(str, (h, t, r) if swapped else (h, r, t))) for h, r, t in splits[split]]
        (folder / f"{split}2id.txt").write_text("\n".join([*lines, ""]) + "\n" * int(rng.integers(0, 2)))
    if known:
        words = entities if named else [f"e{k}" for k in range(7)]
        text = "".join(f"{word}\t{k}\n" for k, word in enumerate(words))
        (folder / "entity2id.txt").write_text("7\n" * counted + text)
        kinds = relations if named else [f"R{k}" for k in range(3)]
        (folder / "relations.dict").write_text("".join(f"{k}\t{kind}\n" for k, kind in enumerate(kinds)))
    with tune("io", block_bytes=block):
        A = sp.ingest.triples(
            folder, folder / "A.sparrow", order="htr" if swapped else "hrt", ids="str" if named else "auto"
        )
    assert list(A) == ["train", "valid", "test"]
    for split, want in splits.items():
        tensor = A[split]
        assert tensor.dims == ("head", "relation", "tail")
        assert tensor.shape == A["train"].shape
        told = {(f"e{h}", f"R{r}", f"e{t}") for h, r, t in want} if known and not named else want
        assert triples_of(tensor) == told
        if known:
            assert tensor.shape == (7, 3, 7)
            assert tensor.labels("head").to_pylist() == tensor.labels("tail").to_pylist() == list(words)
        elif named:
            used = {e for each in splits.values() for h, _, t in each for e in (h, t)}
            assert tensor.labels("head").to_pylist() == tensor.labels("tail").to_pylist() == sorted(used)


@pytest.mark.parametrize("line", ["head\trelation\ttail", "Subject Predicate Object", "head tail relation", "a b c"])
def test_header_line_is_error_or_skipped(tmp_path: Path, line: str) -> None:
    triples = "0 0 1\n1 0 2\n" if line == "a b c" else "ann mother bob\nbob father eve\n"
    (tmp_path / "kg.txt").write_text(f"\n{line}\n" + triples.replace(" ", "\t" if "\t" in line else " "))
    with pytest.raises(IngestError, match="line 2: the first line names columns: pass header=True") as caught:
        sp.ingest.triples(tmp_path / "kg.txt", tmp_path / "kg.sparrow")
    assert caught.value.token == line
    A = sp.ingest.triples(tmp_path / "kg.txt", tmp_path / "kg.sparrow", header=True)
    want = [tuple(each.split()) for each in triples.splitlines()]
    assert triples_of(A) == {tuple(map(int, each)) for each in want} if line == "a b c" else set(want)


@pytest.mark.parametrize(
    ("name", "entities", "relations", "counts"),
    [
        ("kg-nations", 14, 55, (1592, 199, 201)),
        ("kg-umls", 135, 46, (5216, 652, 661)),
        ("kg-wn18", 40943, 18, (141442, 5000, 5000)),
    ],
)
def test_real_files(
    shared_data: Path, tmp_path: Path, name: str, entities: int, relations: int, counts: tuple[int, ...]
) -> None:
    found = sp.ingest.triples(shared_data / name, tmp_path / "A.sparrow", duplicates="error")
    assert [found[split].nnz for split in ("train", "valid", "test")] == list(counts)
    assert all(found[split].shape == (entities, relations, entities) for split in found)
    path = shared_data / name / "test.txt"
    lines = [line.split() for line in path.read_text().splitlines()]
    if name == "kg-wn18":
        listed = (
            (shared_data / name / f"{what}2id.txt").read_text().splitlines()[1:] for what in ("entity", "relation")
        )
        names, kinds = ({int(line.split()[1]): line.split()[0] for line in each} for each in listed)
        want = {(names[int(h)], kinds[int(r)], names[int(t)]) for h, t, r in lines[1:]}
    else:
        want = {(h, r, t) for h, r, t in lines}
    assert triples_of(found["test"]) == want


@pytest.mark.parametrize(
    ("text", "problem", "line", "token"),
    [
        ("a r b\na r\n", "too few columns", 2, "a r"),
        ("a\tr\tb\na\t\tb\n", "too few columns", 2, "a\t\tb"),
        ("a r b\na r b c\n", "too many columns", 2, "a r b c"),
        ("<a> <r> <b> .\n", "looks like N-Triples", 1, "<a> <r> <b> ."),
        ("3\n0 1 0\n1 0 0\n", "expected 3 triples by the first line, got 2", None, None),
    ],
)
def test_bad_input(tmp_path: Path, text: str, problem: str, line: int | None, token: str | None) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(IngestError, match=problem) as found:
        sp.ingest.triples(tmp_path / "a.txt", tmp_path / "A.sparrow")
    assert (found.value.line, found.value.token) == (line, token)
    assert not (tmp_path / "A.sparrow").exists()


def test_numbers_and_vocabularies(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 0 1\n0 0 x\n")
    A = sp.ingest.triples(tmp_path / "a.txt", tmp_path / "A.sparrow", dims=("s", "p", "o"))
    assert (A.dims, A.labels(0).to_pylist()) == (("s", "p", "o"), ["0", "1", "x"])
    with pytest.raises(IngestError, match=r"must be an integer from 0 .* pass ids='str'") as found:
        sp.ingest.triples(tmp_path / "a.txt", tmp_path / "B.sparrow", ids="int")
    assert (found.value.line, found.value.token) == (2, "x")
    (tmp_path / "names").write_text("x\n0\n")
    with pytest.raises(IngestError, match="not one of the 2 entities of the vocabulary") as found:
        sp.ingest.triples(tmp_path / "a.txt", tmp_path / "B.sparrow", entities=tmp_path / "names")
    assert (found.value.line, found.value.token) == (1, "1")
    (tmp_path / "b.txt").write_text("0 1 0\n")
    known: Any = {"entities": tmp_path / "names", "relations": tmp_path / "one"}
    (tmp_path / "one").write_text("r\n")
    with pytest.raises(IngestError, match="not one of the 1 relations of the vocabulary: pass order='htr' if") as found:
        sp.ingest.triples(tmp_path / "b.txt", tmp_path / "B.sparrow", **known)
    assert (found.value.line, found.value.token) == (1, "1")
    assert sp.ingest.triples(tmp_path / "b.txt", tmp_path / "last.sparrow", order="htr", **known).nnz == 1
    (tmp_path / "b.txt").write_text(f"0 1 0\n0 0 {2**63 - 1}\n")
    with pytest.raises(IngestError, match="beyond 2\\^63 - 2, the largest coordinate") as found:
        sp.ingest.triples(tmp_path / "b.txt", tmp_path / "B.sparrow")
    assert (found.value.line, found.value.token) == (2, str(2**63 - 1))
    for text, problem in [("a\t0\nb\t2\n", "one column must hold the numbers"),
                          ("a\t0\na\t1\n", "a name has two numbers"),
                          ("a\t0\nb\n", "a name, or a name and its number")]:  # fmt: skip
        (tmp_path / "names").write_text(text)
        with pytest.raises(IngestError, match=problem):
            sp.ingest.triples(tmp_path / "a.txt", tmp_path / "B.sparrow", entities=tmp_path / "names")
    (tmp_path / "a.txt").write_text("a r b\na r b\n")
    assert sp.ingest.triples(tmp_path / "a.txt", tmp_path / "C.sparrow")[0, 0, 1] == 2
    with pytest.raises(DuplicateError, match=r"\('a', 'r', 'b'\)"):
        sp.ingest.triples(tmp_path / "a.txt", tmp_path / "D.sparrow", duplicates="error")


def test_splits_of_folders(tmp_path: Path) -> None:
    folder = tmp_path / "kg"
    folder.mkdir()
    with pytest.raises(NotFoundError, match=r"has no train\.txt"):
        sp.ingest.triples(folder, tmp_path / "A.sparrow")
    (folder / "train.txt.gz").write_bytes(gzip.compress(b"a r b\n"))
    (folder / "facts.txt").write_text("b r a\n")
    assert list(sp.ingest.triples(folder, tmp_path / "A.sparrow")) == ["train"]
    found = sp.ingest.triples([folder / "train.txt.gz", folder / "facts.txt"], tmp_path / "B.sparrow")
    assert list(found) == ["train", "facts"]
    with pytest.raises(InvalidValueError, match="must differ, got facts"):
        sp.ingest.triples([folder / "facts.txt", folder / "facts.txt"], tmp_path / "C.sparrow")


@settings(max_examples=20)
@given(st.binary(max_size=60))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "a.txt").write_bytes(data)
    try:
        sp.ingest.triples(folder / "a.txt", folder / "A.sparrow")
    except SparrowError:
        assert not (folder / "A.sparrow").exists()
