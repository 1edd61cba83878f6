"""Term counts of documents, against counters and scikit-learn."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import IngestError, InvalidValueError, NotFoundError
from sparrow.testing import tune

WORDS = st.text("abÄé1_ .,'-\t", max_size=30)


@settings(max_examples=20)
@given(st.lists(WORDS, max_size=8), st.booleans(), st.booleans(), st.sampled_from([7, 1 << 22]))
def test_any_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], lower: bool, files: bool, block: int
) -> None:
    folder = tmp_path_factory.mktemp("text")
    if files:
        (folder / "docs" / "sub").mkdir(parents=True)
        (folder / "docs" / "sub" / "x").write_bytes(b"")
        for k, line in enumerate(lines):
            (folder / "docs" / f"{k}.txt").write_text(line.replace(".", "\n"), encoding="utf-8")
    else:
        (folder / "docs").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with tune("io", block_bytes=block):
        A = sp.ingest.text(folder / "docs", folder / "A.sparrow", lower=lower)
    want = [Counter(re.findall(r"\b\w\w+\b", line.lower() if lower else line)) for line in lines]
    if files:
        want.append(Counter())
        assert A.labels("document").to_pylist() == [*(f"{k}.txt" for k in range(len(lines))), "sub/x"]
    terms = A.labels("term").to_pylist()
    assert terms == sorted({term for count in want for term in count}, key=str.encode)
    assert A.shape == (len(want), len(terms))
    dense = [[count[term] for term in terms] for count in want]
    np.testing.assert_array_equal(A.to_numpy(), np.array(dense, int).reshape(A.shape))


def test_as_scikit_learn_does(tmp_path: Path) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="needs scikit-learn")
    lines = ["The cat sat on the mat.", "", "A dog; the dog's mat!", "naïve Ærø 12 3 x_y"]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    A = sp.ingest.text(tmp_path / "a.txt.gz", tmp_path / "A.sparrow")
    model = text.CountVectorizer()
    np.testing.assert_array_equal(A.to_numpy(), model.fit_transform(lines).toarray())
    assert A.labels("term").to_pylist() == model.get_feature_names_out().tolist()


def test_options(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Ort Köln\nort\n".encode("latin-1"))
    with pytest.raises(IngestError, match="not utf-8") as caught:
        sp.ingest.text(tmp_path / "a.txt", tmp_path / "A.sparrow")
    assert caught.value.line == 1
    A = sp.ingest.text(tmp_path / "a.txt", tmp_path / "A.sparrow", encoding="latin-1", documents="file", lower=False)
    assert (A.shape, A.labels("term").to_pylist()) == ((1, 3), ["Köln", "Ort", "ort"])
    (tmp_path / "terms").write_text("ort\nx\n")
    B = sp.ingest.text(tmp_path / "a.txt", tmp_path / "B.sparrow", encoding="latin-1", vocabulary=tmp_path / "terms")
    np.testing.assert_array_equal(B.to_numpy(), [[1, 0], [1, 0]])
    C = sp.ingest.text(tmp_path / "a.txt", tmp_path / "C.sparrow", encoding="latin-1", pattern="(o)r")
    np.testing.assert_array_equal(C.to_numpy(), [[1], [1]])
    with pytest.raises(InvalidValueError, match="must be a regular expression"):
        sp.ingest.text(tmp_path / "a.txt", tmp_path / "D.sparrow", pattern="(")
    with pytest.raises(InvalidValueError, match="a superset of ASCII"):
        sp.ingest.text(tmp_path / "a.txt", tmp_path / "D.sparrow", encoding="utf-16")
    (tmp_path / "none").mkdir()
    with pytest.raises(NotFoundError, match="has no files"):
        sp.ingest.text(tmp_path / "none", tmp_path / "D.sparrow")
