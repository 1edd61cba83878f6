"""Integers that a dtype does not hold: the dtypes in errors read the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.core.casting import cast_checked, misfit_message, parse_digits
from sparrow.errors import IngestError

BIG = (2**63 - 1, 2**64 - 1, -(2**63) - 1)

TEXTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "csv": ("columns", "k,v\n0,1\n1,{}\n", {"coords": ["k"], "value": "v"}),
    "csv-with-more": ("columns", f"k,v\n0,{2**53 + 1}\n1,{{}}\n", {"coords": ["k"], "value": "v"}),
    "jsonl": ("columns", '{{"k": 0, "v": 1}}\n{{"k": 1, "v": {}}}\n', {"coords": ["k"], "value": "v"}),
    "mtx": ("mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 1\n2 2 {}\n", {}),
    "mtx-unsigned": ("mtx", "%%MatrixMarket matrix coordinate unsigned-integer general\n2 2 1\n2 2 {}\n", {}),
    "mtx-real": ("mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2 {}\n", {}),
    "edges": ("edges", "0 1 1\n1 2 {}\n", {}),
    "tns": ("tns", "1 1 1\n2 2 {}\n", {}),
    "libsvm": ("libsvm", "1 1:1\n1 2:{}\n", {}),
    "libffm": ("libffm", "1 0:1:1\n1 0:2:{}\n", {}),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("dtype", [None, "uint64"])
def test_dtype_in_hint_reads_the_file(tmp_path: Path, kind: str, dtype: str | None) -> None:
    name, text, options = TEXTS[kind]
    ingest, given = getattr(sp.ingest, name), {} if dtype is None else {"dtype": dtype}
    for number, value in enumerate(BIG):
        (tmp_path / "a").write_text(text.format(value))
        problem = ""
        try:
            ingest(tmp_path / "a", tmp_path / f"{number}.sparrow", **options, **given)
        except IngestError as error:
            problem = str(error)
        hints = set(re.findall(r"dtype='(\w+)'", problem))
        assert bool(hints) == bool(problem)
        for hint in hints:
            ingest(tmp_path / "a", tmp_path / f"{number}-{hint}.sparrow", **options, dtype=hint)


@pytest.mark.parametrize(("kind", "text"), [("libsvm", "{0} 1:{1}\n"), ("libffm", "{0} 0:1:{1}\n")])
@pytest.mark.parametrize(("label", "value", "count"), [(2**53 + 1, 2**53 + 1, 2), (2**53 + 1, 2**54, 1), (2**54, 1, 0)])
def test_rounded_samples_are_counted(tmp_path: Path, kind: str, text: str, label: int, value: int, count: int) -> None:
    (tmp_path / "a").write_text("# one\n\n0 # none\n" + text.format(label, value))
    found = getattr(sp.ingest, kind)(tmp_path / "a", tmp_path / "A", dtype="float64")
    assert found["X"].history()[-1]["report"]["rounded"] == count
    assert found["y"].to_numpy().tolist() == [0, float(label)]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("kind", ["mtx", "tns", "edges", "jsonl"])
def test_integers_beyond_storage_are_named_so(tmp_path: Path, kind: str, dtype: str) -> None:
    name, text, options = TEXTS[kind]
    (tmp_path / "a").write_text(text.format(2**64 - 1))
    reason = "does not fit int64" if dtype == "int64" and kind != "jsonl" else r"2\^63 - 1, the largest stored integer"
    with pytest.raises(IngestError, match=f"{reason}: pass dtype='float64'"):
        getattr(sp.ingest, name)(tmp_path / "a", tmp_path / "A.sparrow", **options, dtype=dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("value", [-1, 0.5, 300, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**39, 1e300, np.inf])
def test_misfit_names_a_dtype_that_fits(dtype: str, value: Any) -> None:
    given = np.array([value], np.float64 if isinstance(value, float) or abs(value) >= 2**63 else np.int64)
    for hint in re.findall(r"dtype='(\w+)'", misfit_message(value, np.dtype(dtype))):
        assert cast_checked(given, np.dtype(hint))[1] is None


def test_parsed_digits() -> None:
    assert [parse_digits(token) for token in ("7", " -07 ", "+1")] == [7, -7, 1]
    assert {parse_digits(token) for token in ("1.5", "1e3", "", "x", "\N{ARABIC-INDIC DIGIT ONE}")} == {None}
    assert (parse_digits("-" + "9" * 5000) or 0) < -(2**64)
