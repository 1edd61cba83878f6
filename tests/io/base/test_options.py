"""Options of readers: wrong types are named before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError
from sparrow.io.base.registry import formats, options_of

WRONG: list[Any] = [5, -1, "x", [1], {}, {"a": 1}, object(), 3.5, True, [], ""]
COLUMNS = {"coords": ["a", "b"], "value": "v"}


@pytest.mark.parametrize(
    ("option", "given", "wanted"),
    [
        ("ids", "str", r"Mapping\[str, str\] \| None"),
        ("delimiter", 5, r"str \| None"),
        ("header", 2, "bool"),
        ("coords", 7.5, r"Sequence\[str \| int\]"),
    ],
)
def test_option_type_errors(tmp_path: Path, option: str, given: Any, wanted: str) -> None:
    (tmp_path / "a.csv").write_text("a,b,v\n1,2,3\n")
    with pytest.raises(InvalidValueError, match=f"{option} must be {wanted}, got"):
        sp.ingest.columns(tmp_path / "a.csv", tmp_path / "o", **{**COLUMNS, option: given})
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("name", [name for name, each in formats().items() if each.reader is not None])
def test_damaged_files_raise_ingest_errors(tmp_path: Path, name: str) -> None:
    reader: Any = formats()[name].reader
    source = tmp_path / "none.txt"
    for each in options_of(reader):
        if each.name in ("labels_of", "dtype"):  # of any type, as paths and NumPy's types are
            continue
        for given in WRONG:
            options = COLUMNS | {each.name: given} if name == "columns" else {each.name: given}
            with pytest.raises(sp.errors.SparrowError):
                getattr(sp.ingest, name)(source, tmp_path / "o", **options)
            assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("given", ["x", None, [1], {}, object()])
def test_fill_value_must_be_scalar(given: Any) -> None:
    with pytest.raises(InvalidValueError, match="fill_value must"):
        sp.full((2, 2), given, dtype="int64")
