"""Training and prediction inputs of any kind, streamed as CSR chunks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import check_array
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.formats import CSR, Container
from sparrow.functions.creation import open as open_tensor
from sparrow.functions.views import as_tensor
from sparrow.interop.conversion import dense_of_sparse, is_foreign_sparse
from sparrow.interop.labelled_objects import is_xarray, object_labels
from sparrow.kernels.jit import warmup
from sparrow.models.tuning import tuning
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle
from sparrow.tensor.matching import match_rows
from sparrow.training.batches import Batches
from sparrow.training.inputs import load_column, unpack_bundle

__all__ = [
    "ExampleChunk", "ExampleStream", "FeatureMatrix", "resolve_inputs", "to_feature_matrix", "to_label_array",
    "to_sample_weights",
]  # fmt: skip


@dataclass
class FeatureMatrix:
    """Matrix whose rows are examples and columns are features."""

    X: Any
    """Tensor or array."""
    shape: tuple[int, int]
    dense: bool
    """True if the width is exact; a sparse input may lack trailing columns without stored elements."""
    names: NDArray[Any] | None
    """Feature names, or None."""
    dim: str
    """Name of the column dimension."""


@dataclass
class ExampleChunk:
    """Rows in CSR form, with targets and weights, as kernels take them."""

    data: NDArray[Any]
    indices: NDArray[np.uint32]
    indptr: NDArray[np.int64]
    targets: NDArray[np.float64]
    """Numbers, or class numbers; 0 if there are no targets."""
    weights: NDArray[np.float64]
    rows: NDArray[np.int64]
    """Row numbers."""


def resolve_inputs(X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y, opened if they are paths and taken from a bundle if X is one."""
    X, y = unpack_bundle(X, y)
    if isinstance(y, str | os.PathLike):
        y = open_tensor(y)
    if isinstance(y, Bundle):
        y = y["y"]
    return X, y


def to_feature_matrix(X: Any) -> FeatureMatrix:
    """Return an input as a matrix of features.

    Raises
    ------
    ShapeError
        If it is not 2-D.
    UnsupportedError, InvalidValueError
        If its values are not real numbers.
    """
    names, dim = None, "feature"
    dense = False
    if is_xarray(X) and X.ndim == 2 and object_labels(X, [1]):
        X = as_tensor(X)
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
        X, dense = _to_dense_array(X), True
    shape = tuple(X.shape)
    if len(shape) != 2:
        raise ShapeError(
            f"X has shape {shape}, expected 2D array with one row per example. Reshape your data: X.reshape(1, -1) for "
            "one example, X.reshape(-1, 1) for one feature"
        )
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind == "c":
        raise InvalidValueError("X must be real. Complex data not supported: use its real part or magnitude")
    return FeatureMatrix(X, shape, dense, names, dim)


def _to_dense_array(X: Any) -> NDArray[Any]:
    array = check_array(X, "X")
    if array.dtype.kind in "OUS":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise UnsupportedError(
                f"X must be numeric, got {array.dtype}, where each argument must be a string or a number: {error}"
            ) from error
    return array


def to_label_array(y: Any, height: int, X: Any = None) -> NDArray[Any]:
    """Return labels as an array, shape (height,), memory-mapped if they are large.

    A tensor is matched with the rows of the tensor ``X`` by label.

    Raises
    ------
    ShapeError
        If the number of labels differs from the number of rows.
    """
    if isinstance(y, Tensor):
        if y.ndim != 1:
            raise ShapeError(f"y has shape {y.shape}, expected ({height},): one label per row")
        y = match_rows(y, X, "y", "X")
        if y.shape[0] != height:
            raise _length_error(y.shape[0], height)
        return load_column(y)
    array = check_array(dense_of_sparse(y) if is_foreign_sparse(y) else match_rows(y, X, "y", "X"), "y")
    if array.ndim == 2 and array.shape[1] == 1:
        _warn_column_vector()
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"y has shape {array.shape}, expected ({height},): y should be a 1d array")
    if len(array) != height:
        raise _length_error(len(array), height)
    return array


def _length_error(labels: int, height: int) -> ShapeError:
    return ShapeError(f"y must have one label per row of X, {height} rows, got {labels} labels")


def _warn_column_vector() -> None:
    """Warn that labels are a column vector, as scikit-learn does."""
    import sys
    import warnings

    sklearn_errors = sys.modules.get("sklearn.exceptions")
    kind = UserWarning if sklearn_errors is None else sklearn_errors.DataConversionWarning
    warnings.warn("A column-vector y was passed when a 1d array was expected: pass y.ravel()", kind, stacklevel=4)


def to_sample_weights(sample_weight: Any, height: int, X: Any = None) -> NDArray[np.float64] | None:
    """Return row weights as an array, or None.

    A tensor is matched with the rows of the tensor ``X`` by label.

    Raises
    ------
    ShapeError
        If the number of weights differs from the number of rows.
    InvalidValueError
        If a weight is negative or not finite, or all are 0.
    """
    if sample_weight is None:
        return None
    is_scalar = np.isscalar(sample_weight) or getattr(sample_weight, "ndim", 1) == 0
    given = sample_weight if is_scalar else match_rows(sample_weight, X, "sample_weight", "X")
    weights = (
        load_column(given) if isinstance(given, Tensor) and given.ndim == 1 else check_array(given, "sample_weight")
    )
    weights = weights.astype(np.float64, copy=False)
    if weights.ndim == 0:
        weights = np.full(height, float(weights))
    if weights.shape != (height,):
        raise ShapeError(f"sample_weight has shape {weights.shape}, expected ({height},): one weight per row of X")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        at = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise InvalidValueError(f"sample_weight must be finite and not negative, got {weights[at]} for row {at}")
    if not weights.any():
        raise InvalidValueError("sample_weight must not be zero for all rows")
    return weights


@dataclass
class ExampleStream:
    """Examples with their labels, streamed chunk by chunk.

    Parameters
    ----------
    matrix
        Features.
    y
        Labels, shape (rows,), or None; encoded as numbers or class numbers before chunks are read.
    weights
        Row weights, or None for 1.
    dtype
        Type of the values.
    batch
        Mini-batch size; chunks hold a multiple of it, except the last.
    shuffle, seed
        As in :func:`sparrow.batches`.
    """

    matrix: FeatureMatrix
    y: NDArray[Any] | None
    weights: NDArray[np.float64] | None
    dtype: np.dtype[Any]
    batch: int = 1
    shuffle: bool = False
    seed: int = 0
    _batches: Batches | None = field(default=None, init=False, repr=False)

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.matrix.shape[0]

    def chunks(self, epoch: int = 0, following: int | None = None) -> Iterator[ExampleChunk]:
        """Yield all rows in the order of an epoch, reading ahead for the following one.

        Raises
        ------
        InvalidValueError
            If a value is not finite.
        """
        with closing(self._get_batches().of_epoch(epoch, following)) as source:  # type: ignore[type-var]
            for batch in source:
                yield self._chunk(batch.X, batch.label, batch.rows, batch.size - batch.pad)

    def _get_batches(self) -> Batches:
        if self._batches is None:
            labels = {name: array for name, array in (("y", self.y), ("weights", self.weights)) if array is not None}
            size = min(self._chunk_rows(), max(self.height, 1))
            self._batches = Batches({"X": self.matrix.X}, labels, size, "pad", self.shuffle, self.seed)
        return self._batches

    def _chunk_rows(self) -> int:
        height, X, sizes = self.height, self.matrix.X, tuning()
        if isinstance(X, Tensor) and X._is_lazy:
            count = sizes.lazy_row_elements * height
        else:
            count = int(getattr(X, "nnz", math.prod(X.shape)))
        rows = sizes.chunk_elements * height // max(count, 1)
        return max(1, min(rows, sizes.chunk_rows) // self.batch) * self.batch

    def _chunk(self, X: CSR, labels: dict[str, Any], rows: NDArray[np.int64], count: int) -> ExampleChunk:
        indptr = X.indptr[: count + 1].astype(np.int64, copy=False)
        end = int(indptr[-1])
        data = X.data[:end].astype(self.dtype, copy=False)
        finite = np.isfinite(data)
        if not finite.all():
            at = int(np.flatnonzero(~finite)[0])
            row = int(rows[int(np.searchsorted(indptr, at, "right")) - 1])
            value = "NaN" if np.isnan(data[at]) else "infinity"
            raise InvalidValueError(
                f"Input X contains {value} (inf or NaN) at row {row}, column {int(X.indices[at])}: replace it"
            )
        indices = X.indices[:end]
        columns = indices.view(np.uint32) if indices.dtype == np.int32 else indices.astype(np.uint32)
        weights = labels["weights"][:count] if "weights" in labels else np.ones(count)
        return ExampleChunk(
            warmup.as_readonly(data),
            warmup.as_readonly(columns),
            warmup.as_readonly(indptr),
            warmup.as_readonly(labels["y"][:count].astype(np.float64) if "y" in labels else np.zeros(count)),
            warmup.as_readonly(weights.astype(np.float64, copy=False)),
            rows[:count],
        )
