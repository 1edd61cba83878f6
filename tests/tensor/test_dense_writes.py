"""Writes that would store every element of a sparse tensor warn, or raise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import PerformanceWarning, TooLargeError
from sparrow.testing import tune

DENSE = np.diag(np.arange(1.0, 101))


def add(a: Any) -> None:
    a += 1


def subtract(a: Any) -> None:
    a -= 3


def logical_not(a: Any) -> None:
    np.logical_not(a, out=a)


def exp_out(a: Any) -> None:
    np.exp(a, out=a)


def add_row(a: Any) -> None:
    a += np.ones(100)


def assign(a: Any) -> None:
    a[...] = a + 1


def assign_part(a: Any) -> None:
    a[10:] = np.exp(a[10:])


def assign_row(a: Any) -> None:
    a[:] = a[0] + 1


def assign_lists(a: Any) -> None:
    a[list(range(100))] = a + 1


def assign_pydata(a: Any) -> None:
    sparse = pytest.importorskip("sparse")
    a[...] = sparse.COO.from_numpy(DENSE) + 1


def edit(a: Any) -> None:
    with a.edit() as e:
        e[:] = a + 1


WRITES: list[Callable[[Any], None]] = [
    add, subtract, logical_not, exp_out, add_row, assign, assign_part, assign_row, assign_lists, assign_pydata, edit,
]  # fmt: skip


@pytest.fixture(params=["memory", "stored"])
def tensor(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    found = sp.asarray(DENSE)
    return found if request.param == "memory" else found.save(tmp_path / "a.sparrow")


def expected_of(write: Callable[[Any], None]) -> Any:
    dense: Any = DENSE.copy()
    if write in (edit, assign_pydata, assign):
        return dense + 1
    write(dense)
    return dense


@pytest.mark.parametrize("write", WRITES)
def test_dense_write_warns_at_the_line_of_the_user(write: Callable[[Any], None], tensor: Any) -> None:
    with tune("interop", silent_dense_bytes=10_000), pytest.warns(PerformanceWarning) as found:
        write(tensor)
    assert [each.filename for each in found] == [__file__]
    assert "its stored elements" in str(found[0].message)
    assert "written to a tensor of fill 0.0 as" in str(found[0].message)
    np.testing.assert_allclose(tensor.to_numpy(), expected_of(write))


@pytest.mark.parametrize("write", WRITES)
def test_large_dense_write_raises(write: Callable[[Any], None], tensor: Any) -> None:
    limits = {"silent_dense_bytes": 10_000, "max_dense_bytes": 20_000, "max_expansion": 20}
    with tune("interop", **limits), pytest.raises(TooLargeError, match=r"A != 0\.0\) changes stored elements only"):
        write(tensor)
    np.testing.assert_array_equal(tensor.to_numpy(), DENSE)


def test_ways_out_of_a_dense_write(tensor: Any, tmp_path: Path) -> None:
    limits = {"silent_dense_bytes": 1000, "max_dense_bytes": 2000, "max_expansion": 20}
    with tune("interop", **limits), warnings.catch_warnings():
        warnings.simplefilter("error")
        b = (tensor + 1).save(tmp_path / "b.sparrow")
        assert (b.fill_value, b.nnz) == (1, 100)
        value = tensor + 1
        tensor[...] = value * (tensor != 0.0)
        assert tensor.nnz == 100
        tensor += tensor != 0
        np.testing.assert_array_equal(tensor.to_numpy(), DENSE + 2 * np.eye(100))
        tensor += np.ones(100) * (tensor != 0.0)
        assert tensor.nnz == 100
        tensor[...] = tensor + np.ones(100)
        tensor[...] = value.refill(0.0)
        assert tensor.nnz == DENSE.size
        np.testing.assert_array_equal(tensor.to_numpy(), DENSE + 1)


def test_writes_that_stay_silent(tensor: Any) -> None:
    with tune("interop", silent_dense_bytes=10_000, warn_expansion=2), warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor *= 2
        tensor *= np.ones(100)
        tensor += np.eye(100)  # as large as what it writes
        tensor[...] = scipy.sparse.csr_array(DENSE)
        tensor[:3] = tensor[:3] + 1  # small
        tensor[...] = 5
        tensor += 1  # all of it is stored already
    assert (tensor == 6).all()


def add_to_diagonal(a: Any) -> None:
    for k in range(3):
        view = a[k, k : k + 1]
        view += 1


def edit_elements(a: Any) -> None:
    for k in range(3):
        with a.edit() as e:
            e[k, k] = 5


@pytest.mark.parametrize("write", [add_to_diagonal, edit_elements])
def test_single_element_commits_warn_at_the_line(write: Callable[[Any], None], tensor: Any) -> None:
    with tune("tensor", small_commits_before_warning=3), pytest.warns(PerformanceWarning) as found:
        write(tensor)
    assert [each.filename for each in found] == [__file__]
