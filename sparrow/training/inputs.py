"""What batches are cut from: matrices that are read stretch by stretch, and arrays with something for each row."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.creation import open as opened
from sparrow.functions.views import as_tensor
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.plan import Scan
from sparrow.runtime import events, memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage import Snapshot
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle
from sparrow.training.batch import Rows, Slab, joined, mixed
from sparrow.training.shuffling import Window

__all__ = ["Labels", "Source", "column", "named_inputs", "named_labels", "with_labels"]

Labels = Tensor | NDArray[Any]
"""A matrix of labels, or an array with a first axis of rows."""


def with_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """Return inputs and labels, those of a bundle, or of a path to one, as its tensors ``X`` and ``y``."""
    if isinstance(X, str | os.PathLike):
        X = opened(X)
    if isinstance(X, Bundle):
        return X["X"], X["y"] if y is None and "y" in X else y
    return X, y


def named_inputs(X: Any) -> dict[str, Tensor]:
    """Return inputs by name, each pinned to the version in force; a single one is "X".

    Raises
    ------
    InvalidValueError
        If there are none.
    ShapeError
        If one is no matrix, or they differ in their number of rows.
    UnsupportedError
        If absent cells of one are not 0.
    """
    given = X if isinstance(X, Mapping) else {"X": X}
    if not given:
        raise InvalidValueError("there are no inputs: give at least one matrix, as in {'X': X}")
    found = {name: _matrix(name, one) for name, one in given.items()}
    first = next(iter(found))
    for name, tensor in found.items():
        if len(tensor) != len(found[first]):
            raise ShapeError(f"{name!r} has {len(tensor)} rows, {first!r} has {len(found[first])}")
    return found


def _matrix(name: str, given: Any) -> Tensor:
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):  # a frame, its rows being rows
        sparse = getattr(given, "sparse", None) if all(map(_is_sparse, getattr(given, "dtypes", ()))) else None
        given = given.to_numpy() if sparse is None else sparse.to_coo()
    scan = as_tensor(given).__sparrow_scan__()
    if scan.schema.ndim != 2:
        raise ShapeError(f"{name!r} has the shape {scan.schema.shape}: batches are rows of matrices")
    if not scan.schema.has_zero_fill:
        raise UnsupportedError(
            f"absent cells of {name!r} are {scan.schema.fill_value}, in a batch they are 0: subtract the fill first"
        )
    return Tensor(scan.source, scan.view, scan.schema.stype)


def _is_sparse(dtype: Any) -> bool:
    return hasattr(dtype, "subtype") and hasattr(dtype, "fill_value")


def named_labels(y: Any, height: int, of: str) -> dict[str, Labels]:
    """Return labels by name, for as many rows as there are; single ones are "y".

    Raises
    ------
    ShapeError
        If there are labels for more rows or fewer.
    """
    given = y if isinstance(y, Mapping) else {} if y is None else {"y": y}
    found = {name: _label(one) for name, one in given.items() if one is not None}
    for name, one in found.items():
        length = one.shape[0] if one.ndim else None
        if length != height:
            has = "is one number" if length is None else f"has {length} labels"
            raise ShapeError(f"{name!r} {has}, {of!r} has {height} rows: there must be one for each")
    return found


def _label(given: Any) -> Labels:
    if isinstance(given, str | os.PathLike):
        given = opened(given)
    if is_foreign_sparse(given):
        given = as_tensor(given)
    if not isinstance(given, Tensor):
        return np.asarray(given)
    scan = given.__sparrow_scan__()
    if scan.schema.ndim > 2:
        raise ShapeError(f"labels of shape {scan.schema.shape}: expected one for each row, or a matrix")
    return Tensor(scan.source, scan.view, scan.schema.stype)


def column(tensor: Tensor) -> NDArray[Any]:
    """Return all cells of a tensor of one dimension, in a temporary file where they are many for the memory limit."""
    scan = tensor.__sparrow_scan__()
    schema = scan.schema
    nbytes = schema.shape[0] * schema.dtype.itemsize
    if nbytes <= memory.share(8):
        out = np.empty(schema.shape, schema.dtype)
    else:
        with tempfile.TemporaryFile(dir=settings.current().temp_directory) as file:
            out = np.memmap(file, schema.dtype, "w+", shape=schema.shape)  # the mapping keeps the unnamed file
    out[:] = schema.fill_value
    for block in engines.iter_blocks(scan):
        out[block.coords[0]] = block.values
    return out


class Source:
    """Matrices of one height, read window by window. Several threads may read.

    Parameters
    ----------
    tensors
        The matrices by name.
    start, stop
        Bounds of the rows that are wanted.
    """

    def __init__(self, tensors: Mapping[str, Tensor], start: int, stop: int) -> None:
        scans = [tensor.__sparrow_scan__() for tensor in tensors.values()]
        self.bounds, evaluates = engines.open_partitions(scans, start, stop)
        # Files are decoded into arrays that nobody else has.
        own = len(scans) == 1 and isinstance(scans[0].source, Snapshot)
        self._inputs = [
            (name, evaluate, own, _column_type(scan))
            for name, evaluate, scan in zip(tensors, evaluates, scans, strict=True)
        ]

    def slab(self, window: Window) -> Slab:
        """Return the rows of a window in their order.

        Raises
        ------
        TooLargeError
            If they do not fit in what is free of the memory limit.
        """
        from sparrow.kernels.rows import indptr_from_sorted

        events.emit("training.read_window")
        what = f"{len(window.stretches)} stretches of rows" if len(window.stretches) > 1 else "a stretch of rows"
        room = memory.reserve(0, what, "give fewer rows ahead by prefetch=0")
        order, inputs = window.mixed(), {}
        for name, evaluate, own, kind in self._inputs:

            def part_of(stretch: tuple[int, int], evaluate: Any = evaluate, kind: np.dtype[Any] = kind) -> Rows:
                block = evaluate(*stretch)
                rows, cols = block.coords
                return Rows(indptr_from_sorted(rows, *stretch), cols.astype(kind, copy=False), block.values)

            parts = []
            # On threads for the first window, which is waited for; the others are read by one thread each.
            for part in ordered_map(part_of, window.stretches, settings.current().threads):
                room.grow(part.nbytes)
                parts.append(part)
            if order is not None:
                room.grow(room.nbytes)
                found = mixed(parts, order)
            else:
                found = parts[0] if len(parts) == 1 else joined(parts)
                if not own or not (_of_its_own(found.cols) and _of_its_own(found.values)):
                    found = found.copied()
            inputs[name] = found
        room.resize(sum(found.nbytes for found in inputs.values()))
        numbers = window.rows()
        return Slab(numbers if order is None else numbers[order], inputs, room)


def _of_its_own(array: NDArray[Any]) -> bool:
    """Return whether an array may be written to, and is no part of another one."""
    return array.flags.writeable and not isinstance(array.base, np.ndarray)


def _column_type(scan: Scan) -> np.dtype[Any]:
    return np.dtype(scan.schema.coordinate_dtype(1))
