"""Every error sparrow raises on purpose.

::

    SparrowError
    |-- IngestError            (ValueError)         bad input text or table: file, line, token
    |-- IndexingError          (IndexError)         an index that the shape does not allow
    |-- LabelError             (KeyError)           a label or dimension name that does not exist
    |-- ShapeError             (ValueError)         shapes, axes or coordinates that do not fit
    |   `-- AxisError          (IndexError)         an axis out of range; NumPy's AxisError too
    |-- DuplicateError         (ValueError)         two entries for one cell where one is allowed
    |-- InvalidValueError      (ValueError)         an argument outside what is accepted
    |   |-- NumberRangeError   (OverflowError)      a number that the dtype cannot hold
    |   |-- SingularError      (RuntimeError)       a matrix without an inverse; NumPy's LinAlgError too
    |   `-- SharingError       (BufferError)        memory that is to be shared and cannot be
    |-- UnsupportedError       (TypeError)          a type or operation that sparrow does not do
    |-- ReadOnlyError          (ValueError)         a write to a pinned or copied view
    |-- TooLargeError          (MemoryError)        a result that would pass the memory limit
    |-- ConvergenceError       (ArithmeticError)    an iteration that does not lead to finite numbers
    |-- MissingDependencyError (ImportError)        an optional package that is not installed
    |-- WorkerError            (ChildProcessError)  a process that works for this one failed or died
    `-- StorageError           (OSError)            the files of a stored tensor
        |-- NotFoundError      (FileNotFoundError)  no tensor, file or version there
        |-- ExistsError        (FileExistsError)    something is there already
        |-- CorruptionError                         files that are not what the log says
        `-- ConflictError      (RuntimeError)       another writer changed the same cells

    LazyUpdateWarning          (UserWarning)        an optimiser that leaves rows without a gradient alone
    PerformanceWarning         (UserWarning)        work that another call does at a fraction of the cost
    StorageFallbackWarning     (UserWarning)        a result that no rule gives a sparse storage type

Errors are grouped by what a handler would do about them. Each is also the
builtin that a caller would catch without knowing sparrow, and its message says
what was wrong, where, and the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "AxisError",
    "ConflictError",
    "ConvergenceError",
    "CorruptionError",
    "DuplicateError",
    "ExistsError",
    "IndexingError",
    "IngestError",
    "InvalidValueError",
    "LabelError",
    "LazyUpdateWarning",
    "MissingDependencyError",
    "NotFoundError",
    "NumberRangeError",
    "PerformanceWarning",
    "ReadOnlyError",
    "ShapeError",
    "SharingError",
    "SingularError",
    "SparrowError",
    "StorageError",
    "StorageFallbackWarning",
    "TooLargeError",
    "UnsupportedError",
    "WorkerError",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class SparrowError(Exception):
    """Root of the tree: ``except SparrowError`` catches every error sparrow raises on purpose."""


class IngestError(SparrowError, ValueError):
    """Input that cannot be read as what it was said to be.

    Parameters
    ----------
    problem
        What is wrong, and the way out.
    file, line, token
        Where: the source's name, the line counted from 1, and the offending text.
    """

    def __init__(
        self,
        problem: str,
        file: str | None = None,
        line: int | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(problem, file, line, token)
        self.problem = problem
        self.file = file
        self.line = line
        self.token = token

    def __str__(self) -> str:
        where = ""
        if self.file is not None:
            where = self.file if self.line is None else f"{self.file}, line {self.line}"
            where += ": "
        elif self.line is not None:
            where = f"line {self.line}: "
        token = "" if self.token is None else f" (at {self.token!r})"
        return f"{where}{self.problem}{token}"


class IndexingError(SparrowError, IndexError):
    """An index out of range, of a wrong type, or too many of them."""


class LabelError(SparrowError, KeyError):
    """A label or a dimension name that does not exist."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ShapeError(SparrowError, ValueError):
    """Shapes, axes or coordinates that do not fit together."""


class AxisError(ShapeError, IndexingError, np.exceptions.AxisError):
    """An axis that the shape does not have: an ``IndexError`` too, and NumPy's ``AxisError``."""


class DuplicateError(SparrowError, ValueError):
    """Two entries for one cell where ``duplicates="error"``.

    Parameters
    ----------
    problem
        What is wrong, and the way out.
    cell
        Which cell, where that is in the problem as a tuple.

    Examples
    --------
    >>> from sparrow.errors import DuplicateError
    >>> str(DuplicateError("the cell (0, 1) is given twice", (0, 1)).by_label([["ann", "bob"], None]))
    "the cell ('ann', 1) is given twice"
    """

    def __init__(self, problem: str, cell: tuple[int, ...] | None = None) -> None:
        super().__init__(problem)
        self.cell = cell

    def by_label(self, labels: Sequence[Sequence[Any] | None]) -> DuplicateError:
        """Return the error with the cell told by labels.

        Parameters
        ----------
        labels
            Those of each dimension, position = coordinate, or None.

        Returns
        -------
        DuplicateError

        Examples
        --------
        >>> from sparrow.errors import DuplicateError
        >>> DuplicateError("no cell").by_label([])
        DuplicateError('no cell')
        """
        if self.cell is None:
            return self
        told = tuple(at if names is None else names[at] for names, at in zip(labels, self.cell, strict=True))
        return DuplicateError(str(self).replace(repr(self.cell), repr(told), 1))


class InvalidValueError(SparrowError, ValueError):
    """An argument outside what is accepted."""


class NumberRangeError(InvalidValueError, OverflowError):
    """A Python number that the dtype cannot hold, where NumPy raises ``OverflowError``."""


class SharingError(InvalidValueError, BufferError):
    """Memory that is asked for without a copy where a tensor has none of that form."""


class SingularError(InvalidValueError, np.linalg.LinAlgError, RuntimeError):
    """A matrix that is singular: a ``RuntimeError`` as SciPy's factorisations raise, and NumPy's ``LinAlgError``."""


class UnsupportedError(SparrowError, TypeError):
    """A type or an operation that sparrow does not do; the message says what does."""


class ReadOnlyError(SparrowError, ValueError):
    """A write to a pinned, copied or versioned tensor."""


class TooLargeError(SparrowError, MemoryError):
    """A result that would pass the memory limit; the message gives the size and the deliberate call."""


class ConvergenceError(SparrowError, ArithmeticError):
    """An iteration that does not lead to finite numbers; the message names the setting to change."""


class MissingDependencyError(SparrowError, ImportError):
    """An optional package that is not installed; the message gives the pip command."""


class WorkerError(SparrowError, ChildProcessError):
    """A process that works for this one raised an error or died; the message names it."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StorageError(SparrowError, OSError):
    """Something about the files of a stored tensor."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NotFoundError(StorageError, FileNotFoundError):
    """No tensor, bundle, file or version where one was expected."""


class ExistsError(StorageError, FileExistsError):
    """Something stands where a new tensor should go."""


class CorruptionError(StorageError):
    """A file that is missing or is not what the log says."""


class ConflictError(StorageError, RuntimeError):
    """Another writer changed the same cells first; reload and try again."""


class LazyUpdateWarning(UserWarning):
    """A row-sparse gradient that updates its own rows only, where ``lazy`` was not said; given once in a process."""


class PerformanceWarning(UserWarning):
    """Work that another call does at a fraction of the cost; the message names the call."""


class StorageFallbackWarning(UserWarning):
    """A result that is of storage type "dense" for want of a rule; given once for each operation and types."""
