"""Rows that models are trained on or asked about: inputs of any kind, streamed as the kernels take them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.formats import CSR, Container
from sparrow.functions.creation import open as opened
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.kernels.jit import warmup
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle
from sparrow.training.batches import Batches
from sparrow.training.inputs import column, with_labels

__all__ = ["Chunk", "Features", "Rows", "features", "given_labels", "label_array", "row_weights"]

_ENTRIES = 1 << 17
"""Entries of a chunk, about."""


@dataclass
class Features:
    """A matrix whose rows are examples."""

    X: Any
    """A tensor or an array."""
    shape: tuple[int, int]
    dense: bool
    """Whether every column is there: what is sparse may end with a column that has an entry."""
    names: NDArray[Any] | None
    """Of the columns, where they have some."""
    dim: str
    """The name of the dimension of columns."""


@dataclass
class Chunk:
    """Some rows, as the kernels take them."""

    data: NDArray[Any]
    indices: NDArray[np.uint32]
    indptr: NDArray[np.int64]
    targets: NDArray[np.float64]
    """Numbers, or numbers of classes; 0 where there are none."""
    weights: NDArray[np.float64]
    rows: NDArray[np.int64]
    """The numbers of the rows."""


def given_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y, opened where they are paths, and taken from a bundle where X is one."""
    X, y = with_labels(X, y)
    if isinstance(y, str | os.PathLike):
        y = opened(y)
    if isinstance(y, Bundle):
        y = y["y"]
    return X, y


def features(X: Any) -> Features:
    """Return what a matrix of examples is.

    Raises
    ------
    ShapeError
        If it is no matrix.
    UnsupportedError
        If its values are no real numbers.
    """
    names, dim = None, "feature"
    dense = False
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        titles = list(X.columns)
        texts = sum(isinstance(title, str) for title in titles)
        if texts and texts < len(titles):
            raise UnsupportedError(
                "Feature names are only supported if all input features have string names: rename the columns of X"
            )
        names = np.array(titles, dtype=object) if texts else None
        dense = True
    elif isinstance(X, Tensor):
        if X.ndim == 2:
            dim = X.dims[1] if X.dims[1] != "d1" else dim
            labels = X.labels(1)
            names = None if labels is None else np.array(labels.to_pylist(), dtype=object)
    elif not isinstance(X, Container) and not is_foreign_sparse(X):
        X, dense = _array(X), True
    shape = tuple(X.shape)
    if len(shape) != 2:
        raise ShapeError(
            f"X has the shape {shape}, expected 2D array with a row for each example. Reshape your data: "
            "X.reshape(1, -1) of one example, X.reshape(-1, 1) of one feature"
        )
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind == "c":
        raise InvalidValueError("X is complex. Complex data not supported: take its real part, or its absolute")
    return Features(X, shape, dense, names, dim)


def _array(X: Any) -> NDArray[Any]:
    """Return anything as a dense array of numbers."""
    array = np.asarray(X)
    if array.dtype.kind in "OUS":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise UnsupportedError(
                f"X holds {array.dtype} values, where each argument must be a string or a number: {error}"
            ) from error
    return array


def label_array(y: Any, height: int) -> NDArray[Any]:
    """Return labels as an array of shape (height,), memory-mapped where they are many for the memory limit.

    Raises
    ------
    ShapeError
        If there are not as many labels as rows.
    """
    if isinstance(y, Tensor):
        if y.ndim != 1:
            raise ShapeError(f"y has the shape {y.shape}: expected one label for each row, shape ({height},)")
        if y.shape[0] != height:
            raise _lengths(y.shape[0], height)
        return column(y)
    array = np.asarray(y.toarray() if is_foreign_sparse(y) else y)
    if array.ndim == 2 and array.shape[1] == 1:
        _tell_column()
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"y has the shape {array.shape}: y should be a 1d array, one label for each row")
    if len(array) != height:
        raise _lengths(len(array), height)
    return array


def _lengths(labels: int, height: int) -> ShapeError:
    return ShapeError(f"y has {labels} labels and X has {height} rows: there must be one label for each row")


def _tell_column() -> None:
    """Warn as scikit-learn does where labels come as a column; without it, nothing is said."""
    import sys
    import warnings

    found = sys.modules.get("sklearn.exceptions")
    kind = UserWarning if found is None else found.DataConversionWarning
    warnings.warn("A column-vector y was passed when a 1d array was expected: give y.ravel()", kind, stacklevel=4)


def row_weights(sample_weight: Any, height: int) -> NDArray[np.float64] | None:
    """Return weights of rows as an array.

    Raises
    ------
    ShapeError
        If there are not as many weights as rows.
    InvalidValueError
        If one is negative or not finite.
    """
    if sample_weight is None:
        return None
    weights = column(sample_weight) if isinstance(sample_weight, Tensor) else np.asarray(sample_weight)
    weights = weights.astype(np.float64, copy=False)
    if weights.ndim == 0:
        weights = np.full(height, float(weights))
    if weights.shape != (height,):
        raise ShapeError(f"sample_weight has the shape {weights.shape}, X has {height} rows: give one for each row")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        at = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise InvalidValueError(f"sample_weight is {weights[at]} for row {at}: give finite numbers of at least 0")
    if not weights.any():
        raise InvalidValueError("sample_weight is zero for all rows: there is nothing to learn from")
    return weights


@dataclass
class Rows:
    """Examples with their labels, streamed chunk by chunk.

    Parameters
    ----------
    found
        The matrix.
    y
        Labels, shape (rows,), or None. Numbers, or numbers of classes, once chunks are asked for.
    weights
        Of the rows, or None for 1.
    dtype
        Of the values.
    batch
        Chunks hold a multiple of so many rows, but for the last.
    shuffle, seed
        As of :func:`sparrow.batches`.
    """

    found: Features
    y: NDArray[Any] | None
    weights: NDArray[np.float64] | None
    dtype: np.dtype[Any]
    batch: int = 1
    shuffle: bool = False
    seed: int = 0
    _batches: Batches | None = field(default=None, init=False, repr=False)

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.found.shape[0]

    def chunks(self, epoch: int = 0, following: int | None = None) -> Iterator[Chunk]:
        """Yield all rows in the order of an epoch; begin to read those of the epoch that follows, if one does.

        Raises
        ------
        InvalidValueError
            If a value is not finite.
        """
        with closing(self._made().of_epoch(epoch, following)) as source:  # type: ignore[type-var]
            for batch in source:
                yield self._chunk(batch.X, batch.label, batch.rows, batch.size - batch.pad)

    def _made(self) -> Batches:
        if self._batches is None:
            labels = {name: one for name, one in (("y", self.y), ("weights", self.weights)) if one is not None}
            size = min(self._chunk_rows(), max(self.height, 1))
            self._batches = Batches({"X": self.found.X}, labels, size, "pad", self.shuffle, self.seed)
        return self._batches

    def _chunk_rows(self) -> int:
        height, X = self.height, self.found.X
        count = 16 * height if isinstance(X, Tensor) and X._is_lazy else getattr(X, "nnz", math.prod(X.shape))
        rows = _ENTRIES * height // max(int(count), 1)
        return max(1, min(rows, 1 << 16) // self.batch) * self.batch

    def _chunk(self, X: CSR, labels: dict[str, Any], rows: NDArray[np.int64], count: int) -> Chunk:
        indptr = X.indptr[: count + 1].astype(np.int64, copy=False)
        end = int(indptr[-1])
        data = X.data[:end].astype(self.dtype, copy=False)
        finite = np.isfinite(data)
        if not finite.all():
            at = int(np.flatnonzero(~finite)[0])
            row = int(rows[int(np.searchsorted(indptr, at, "right")) - 1])
            what = "NaN" if np.isnan(data[at]) else "infinity"
            raise InvalidValueError(
                f"Input X contains {what} (inf or NaN): row {row}, column {int(X.indices[at])}. Fill or drop such cells"
            )
        indices = X.indices[:end]
        columns = indices.view(np.uint32) if indices.dtype == np.int32 else indices.astype(np.uint32)
        weights = labels["weights"][:count] if "weights" in labels else np.ones(count)
        return Chunk(
            warmup.as_readonly(data),
            warmup.as_readonly(columns),
            warmup.as_readonly(indptr),
            warmup.as_readonly(labels["y"][:count].astype(np.float64) if "y" in labels else np.zeros(count)),
            warmup.as_readonly(weights.astype(np.float64, copy=False)),
            rows[:count],
        )
