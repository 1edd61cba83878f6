"""Operands of NumPy's dense functions, matched by label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparrow.errors import LabelError
from sparrow.functions.labels import check_same_labels
from sparrow.plan import align_columns, axis_labels
from sparrow.tensor import Tensor
from sparrow.tensor.matching import match_axes

__all__ = ["DENSE_OPERANDS", "check_square_labels", "check_unlabelled"]

_ORDERED_FUNCTIONS = ("cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "slogdet")
"""Functions whose results change if the rows of a matrix are put in another order."""


def _covariance(**given: Any) -> dict[str, Any]:
    """Match the observations of variables, and weights, with those of the first."""
    name = "m" if "m" in given else "x"
    first, is_rows = given[name], given.get("rowvar", True)

    def observations(of: Any) -> int:
        return int(bool(is_rows)) if np.ndim(of) == 2 else 0

    return {
        key: match_axes(one, first, {observations(one): observations(first)}, f"{key} of a covariance", "values")
        for key, one in given.items()
        if key in ("y", "fweights", "aweights") and np.ndim(one)
    }


def _cross(**given: Any) -> dict[str, Any]:
    first, second = [name for name in ("a", "b", "x1", "x2") if name in given]
    pair = align_columns([given[first], given[second]], [f"cross: {first}", f"cross: {second}"])
    return dict(zip((first, second), pair, strict=True))


def _solve(a: Any, b: Any, **_: Any) -> dict[str, Any]:
    """Match right-hand sides with the rows of matrices."""
    rows = np.ndim(a) - 2
    if np.ndim(b) == 1:
        axes = {0: rows}
    else:
        shift = np.ndim(b) - np.ndim(a)
        axes = {axis: axis - shift for axis in range(np.ndim(b) - 1) if axis >= shift}
    return {"b": match_axes(b, a, axes, "solve: b", "vector" if rows == 0 else "values", "a")}


def _least_squares(a: Any, b: Any, **_: Any) -> dict[str, Any]:
    return {"b": match_axes(b, a, {0: 0}, "lstsq: b", "vector", "a")}


def _tensor_solve(a: Any, b: Any, axes: Any = None) -> dict[str, Any]:
    kept = [k for k in range(np.ndim(a)) if axes is None or k not in [axis % np.ndim(a) for axis in axes]]
    matched = dict(zip(range(np.ndim(b)), kept, strict=False))
    return {"b": match_axes(b, a, matched, "tensorsolve: b", "values", "a")}


def check_square_labels(function: str, a: Any) -> None:
    """Check the labels of square matrices for a function of ordered rows.

    Determinants are also those of equations and unknowns, which have no label in common.

    Raises
    ------
    LabelError
        If the function depends on the order of rows, and rows and columns have labels that differ.
    """
    if function in _ORDERED_FUNCTIONS and np.ndim(a) >= 2:
        axes = np.ndim(a) - 2, np.ndim(a) - 1
        check_same_labels(a, function, function in ("det", "slogdet"), axes)


def _square(name: str) -> Callable[..., dict[str, Any]]:
    def check(a: Any, **_: Any) -> dict[str, Any]:
        check_square_labels(name, a)
        return {}

    return check


DENSE_OPERANDS: Mapping[Any, Callable[..., dict[str, Any]]] = {
    np.corrcoef: _covariance,
    np.cov: _covariance,
    np.cross: _cross,
    np.linalg.cross: _cross,
    **{getattr(np.linalg, name): _square(name) for name in _ORDERED_FUNCTIONS},
    np.linalg.lstsq: _least_squares,
    np.linalg.solve: _solve,
    np.linalg.tensorsolve: _tensor_solve,
}
"""Functions of several arrays, with what matches their operands and returns those that change."""


def check_unlabelled(function: str, tensors: Mapping[str, Tensor]) -> None:
    """Raise ``LabelError`` if two operands that meet by position have labels."""
    labelled = [name for name, tensor in tensors.items() if axis_labels(tensor.__sparrow_scan__())]
    if len(labelled) > 1:
        raise LabelError(
            f"{function}: {' and '.join(labelled)} have labels, which NumPy ignores: pass arrays to go by position"
        )
