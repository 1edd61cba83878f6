"""Worked numbers as data: the files of tests/conformance, in memory and stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
from sparrow import errors
from tests.core.indexing.test_view import parse_key

FOLDER = Path(__file__).parent / "conformance"
FILES = ("creation", "inspection", "writing", "ops", "blas")
BUILTINS: dict[str, Any] = {kind.__name__: kind for kind in (IndexError, OverflowError, TypeError, ValueError)}


def cases_of(name: str, part: str = "cases") -> list[Any]:
    cases = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))[part]
    return [pytest.param(case, id=f"{name}: {case['name']}") for case in cases]


def plain(found: Any) -> Any:
    """Return a result as NumPy has it."""
    if isinstance(found, np.dtype):
        return np.asarray(str(found))
    return found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found)


@pytest.fixture(params=["memory", "stored"])
def is_stored(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "stored")


def tensor(given: Any, names: dict[str, Any], folder: Path | None) -> sp.Tensor:
    made = sp.asarray(eval(given, names) if isinstance(given, str) else given)
    return made if folder is None else made.save(folder / f"{len(names)}.sparrow")


@pytest.mark.parametrize("case", [case for name in FILES for case in cases_of(name)])
def test_worked_numbers(case: dict[str, Any], is_stored: bool, tmp_path: Path) -> None:
    names: dict[str, Any] = {"np": np, "sp": sp, "scipy": scipy}
    for name, given in case.get("given", {}).items():
        names[name] = tensor(given, names, tmp_path if is_stored else None)
    lines = case.get("do", [])
    for line in lines[: -1 if "error" in case else None]:
        exec(line, names)
    if "error" in case:
        with pytest.raises(BUILTINS.get(case["error"]) or getattr(errors, case["error"])) as caught:
            exec(lines[-1], names)
        assert isinstance(caught.value, errors.SparrowError)
        assert [words for words in case["says"] if words not in str(caught.value)] == []
    for expression, wanted in case.get("then", {}).items():
        found = plain(eval(expression, names))
        assert found.shape == np.shape(wanted), expression
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-7, err_msg=expression)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=expression)


@pytest.mark.parametrize("case", cases_of("index"))
def test_indexes_of_tensors(case: dict[str, Any], is_stored: bool, tmp_path: Path) -> None:
    dense = np.array(case["dense"]) if "dense" in case else np.arange(np.prod(case["shape"])).reshape(case["shape"])
    found: Any = tensor(dense.tolist(), {}, tmp_path if is_stored else None)
    for parts in case["keys"]:
        found = (found.oindex if case.get("mode") == "oindex" else found)[parse_key(parts)]
    if "result" in case:
        assert plain(found).tolist() == case["result"]
        assert found.nnz == np.count_nonzero(case["result"])
    if "result_shape" in case:
        assert list(np.shape(found)) == case["result_shape"]
    for of_view, of_base in case.get("to_base", []):
        assert found[(*of_view, ...)].to_numpy() == dense[tuple(of_base)]


@pytest.mark.parametrize("case", cases_of("index", "errors"))
def test_indexes_that_are_refused(case: dict[str, Any], is_stored: bool, tmp_path: Path) -> None:
    found: Any = tensor(np.ones(case["shape"], int).tolist(), {}, tmp_path if is_stored else None)
    for parts in case["keys"][:-1]:
        found = found[parse_key(parts)]
    with pytest.raises(IndexError) as caught:
        found[parse_key(case["keys"][-1])]
    assert isinstance(caught.value, errors.IndexingError)
