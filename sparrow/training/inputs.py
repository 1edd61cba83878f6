"""Inputs of batches: matrices that are read window by window, and labels."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.schema import check_array
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.creation import open as open_tensor
from sparrow.functions.views import as_tensor
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.runtime import events, memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage import Snapshot
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle
from sparrow.tensor.matching import label_operands, match_axes, match_rows
from sparrow.training.batch import CSRRows, WindowRows, concat_rows, permute_rows
from sparrow.training.shuffling import Window
from sparrow.training.tuning import tuning

__all__ = ["Labels", "WindowReader", "load_column", "to_named_inputs", "to_named_labels", "unpack_bundle"]

Labels = Tensor | NDArray[Any]
"""Matrix of labels, or array whose first axis is the rows."""


def unpack_bundle(X: Any, y: Any) -> tuple[Any, Any]:
    """Return inputs and labels, those of a bundle or its path if given."""
    if isinstance(X, str | os.PathLike):
        X = open_tensor(X)
    if isinstance(X, Bundle):
        return X["X"], X["y"] if y is None and "y" in X else y
    return X, y


def to_named_inputs(X: Any) -> dict[str, Tensor]:
    """Return inputs by name, pinned to their current version; a single one is "X".

    Raises
    ------
    InvalidValueError
        If there are none.
    ShapeError
        If one is not a matrix, or their numbers of rows differ.
    UnsupportedError
        If the fill value of one is not 0.
    """
    given = X if isinstance(X, Mapping) else {"X": X}
    if not given:
        raise InvalidValueError("inputs must not be empty: pass at least one matrix, as in {'X': X}")
    labelled = label_operands(list(given.values()))
    matrices = {name: _to_matrix(name, matrix) for name, matrix in zip(given, labelled, strict=True)}
    first = next(iter(matrices))
    for name, matrix in matrices.items():
        matrices[name] = match_axes(matrix, matrices[first], {0: 0}, f"input {name!r}", "values", f"input {first!r}")
    for name, tensor in matrices.items():
        if len(tensor) != len(matrices[first]):
            raise ShapeError(f"inputs must have equal numbers of rows, got {len(tensor)} for {name!r} and "
                             f"{len(matrices[first])} for {first!r}")  # fmt: skip
    return matrices


def _to_matrix(name: str, matrix: Any) -> Tensor:
    if hasattr(matrix, "columns") and hasattr(matrix, "to_numpy"):  # a data frame
        sparse = getattr(matrix, "sparse", None) if all(map(_is_sparse, getattr(matrix, "dtypes", ()))) else None
        matrix = matrix.to_numpy() if sparse is None else sparse.to_coo()
    scan = as_tensor(matrix).__sparrow_scan__()
    if scan.schema.ndim != 2:
        raise ShapeError(f"input {name!r} must be a matrix, got shape {scan.schema.shape}")
    if not scan.schema.has_zero_fill:
        raise UnsupportedError(
            f"fill value of input {name!r} must be 0, got {scan.schema.fill_value}: subtract it first"
        )
    return Tensor(scan.source, scan.view, scan.schema.stype)


def _is_sparse(dtype: Any) -> bool:
    return hasattr(dtype, "subtype") and hasattr(dtype, "fill_value")


def to_named_labels(y: Any, of: str, X: Tensor) -> dict[str, Labels]:
    """Return labels by name for the rows of input ``of``; a single one is "y".

    Tensors are matched with the rows of the input by label.

    Raises
    ------
    ShapeError
        If the number of labels differs from the number of rows.
    """
    given = y if isinstance(y, Mapping) else {} if y is None else {"y": y}
    height = len(X)
    arrays = {
        name: _to_labels(match_rows(_open(labels), X, f"labels {name!r}", f"input {of!r}"))
        for name, labels in given.items()
        if labels is not None
    }
    for name, labels in arrays.items():
        if not labels.ndim or labels.shape[0] != height:
            raise ShapeError(
                f"labels {name!r} must have one row per row of {of!r}, {height} rows, got shape {labels.shape}"
            )
    return arrays


def _open(labels: Any) -> Any:
    return open_tensor(labels) if isinstance(labels, str | os.PathLike) else labels


def _to_labels(labels: Any) -> Labels:
    if is_foreign_sparse(labels):
        labels = as_tensor(labels)
    if not isinstance(labels, Tensor):
        return check_array(labels, "labels")
    scan = labels.__sparrow_scan__()
    if scan.schema.ndim > 2:
        raise ShapeError(f"labels must be 1-D or a matrix, got shape {scan.schema.shape}")
    return Tensor(scan.source, scan.view, scan.schema.stype)


def load_column(tensor: Tensor) -> NDArray[Any]:
    """Return a 1-D tensor as a dense array, memory-mapped if it is large."""
    scan = tensor.__sparrow_scan__()
    schema = scan.schema
    nbytes = schema.shape[0] * schema.dtype.itemsize
    if nbytes <= memory.share(tuning().label_share):
        out = np.empty(schema.shape, schema.dtype)
    else:
        with tempfile.TemporaryFile(dir=settings.current().temp_directory) as file:
            out = np.memmap(file, schema.dtype, "w+", shape=schema.shape)  # the mapping keeps the unnamed file
    out[:] = schema.fill_value
    for block in engines.iter_blocks(scan):
        out[block.coords[0]] = block.values
    return out


class WindowReader:
    """Reader of matrices of equal height, window by window; thread-safe.

    Parameters
    ----------
    tensors
        Matrices by name.
    start, stop
        Bounds of the rows to read.
    """

    def __init__(self, tensors: Mapping[str, Tensor], start: int, stop: int) -> None:
        scans = [tensor.__sparrow_scan__() for tensor in tensors.values()]
        self.bounds, cursors = engines.open_partitions(scans, start, stop)
        # Files are decoded into arrays that nothing else refers to.
        is_private = len(scans) == 1 and isinstance(scans[0].source, Snapshot)
        self._inputs = [
            (name, cursor, is_private, np.dtype(scan.schema.coordinate_dtype(1)))
            for name, cursor, scan in zip(tensors, cursors, scans, strict=True)
        ]

    def read(self, window: Window) -> WindowRows:
        """Return the rows of a window in their order.

        Raises
        ------
        TooLargeError
            If they exceed the free memory.
        """
        from sparrow.kernels.rows import indptr_from_sorted

        events.emit("training.read_window")
        count = len(window.partitions)
        task = f"a window of {count} partitions of rows" if count > 1 else "a partition of rows"
        reservation = memory.reserve(0, task, "pass shuffle=False, or prefetch=0 to batches")
        order, inputs = window.permutation(), {}
        for name, cursor, is_private, dtype in self._inputs:

            def read_partition(bounds: tuple[int, int], cursor: Any = cursor, dtype: np.dtype[Any] = dtype) -> CSRRows:
                block = cursor.read(*bounds)
                rows, cols = block.coords
                return CSRRows(indptr_from_sorted(rows, *bounds), cols.astype(dtype, copy=False), block.values)

            parts = []
            # The caller waits for the first window, which uses all threads; the others are read by one thread each.
            for part in ordered_map(read_partition, window.partitions, settings.current().threads):
                reservation.grow(part.nbytes)
                parts.append(part)
            if order is not None:
                reservation.grow(reservation.nbytes)
                rows = permute_rows(parts, order)
            else:
                rows = parts[0] if len(parts) == 1 else concat_rows(parts)
                if not is_private or not (_owns_memory(rows.cols) and _owns_memory(rows.values)):
                    rows = rows.copy()
            inputs[name] = rows
        reservation.resize(sum(rows.nbytes for rows in inputs.values()))
        numbers = window.row_numbers()
        return WindowRows(numbers if order is None else numbers[order], inputs, reservation)


def _owns_memory(array: NDArray[Any]) -> bool:
    """Return whether an array is writable and not a view of another one."""
    return array.flags.writeable and not isinstance(array.base, np.ndarray)
