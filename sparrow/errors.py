"""Exceptions and warnings of sparrow.

::

    SparrowError
    |-- IngestError            (ValueError)         malformed input text or table: file, line, token
    |-- IndexingError          (IndexError)         index out of range or of an unsupported type
    |-- LabelError             (KeyError)           unknown label or dimension name
    |-- ShapeError             (ValueError)         shapes, axes or coordinates that do not match
    |   `-- AxisError          (IndexError)         axis out of range; also NumPy's AxisError
    |-- DuplicateError         (ValueError)         repeated coordinates with duplicates="error"
    |-- InvalidValueError      (ValueError)         argument outside the accepted values
    |   |-- NumberRangeError   (OverflowError)      number outside the range of the dtype
    |   |-- SingularError      (RuntimeError)       singular matrix; also NumPy's LinAlgError
    |   `-- SharingError       (BufferError)        memory that cannot be shared without a copy
    |-- UnsupportedError       (TypeError)          unsupported type or operation
    |-- ReadOnlyError          (ValueError)         write to a read-only tensor
    |-- TooLargeError          (MemoryError)        result above the memory limit
    |-- ConvergenceError       (ArithmeticError)    iteration that leads to NaN or infinity
    |-- MissingDependencyError (ImportError)        optional package that is not installed
    |-- WorkerError            (ChildProcessError)  worker process that failed or died
    `-- StorageError           (OSError)            files of a stored tensor
        |-- NotFoundError      (FileNotFoundError)  no tensor, file or version at the location
        |-- ExistsError        (FileExistsError)    destination that already exists
        |-- CorruptionError                         files that differ from the log
        `-- ConflictError      (RuntimeError)       concurrent change of the same elements

    LazyUpdateWarning          (UserWarning)        optimizer that updates the rows of the gradient only
    PerformanceWarning         (UserWarning)        slow call with a much faster alternative
    StorageFallbackWarning     (UserWarning)        result of storage type "dense" for want of a rule

Errors are grouped by what a handler does about them. Each also derives from the
builtin exception for the same condition, so that code unaware of sparrow can
catch it. Messages name the problem, its location and the way out.
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
    """Base class of all errors that sparrow raises."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        # tblib, which Dask installs, cannot rebuild exceptions of several bases that do not define it.
        return super().__reduce__()


class IngestError(SparrowError, ValueError):
    """Malformed input text or table.

    Parameters
    ----------
    problem
        Description of the problem and the way out.
    file
        Name of the source.
    line
        Line number, from 1.
    token
        Offending text.
    commands
        Command lines that read the input, with ``DST`` for the folder to create.
    table
        Lines on what the input holds.
    """

    def __init__(
        self,
        problem: str,
        file: str | None = None,
        line: int | None = None,
        token: str | None = None,
        commands: Sequence[str] = (),
        table: Sequence[str] = (),
    ) -> None:
        super().__init__(problem, file, line, token, *((tuple(commands), tuple(table)) if commands or table else ()))
        self.problem = problem
        self.file = file
        self.line = line
        self.token = token
        self.commands = tuple(commands)
        self.table = tuple(table)

    def __str__(self) -> str:
        location = ""
        if self.file is not None:
            location = self.file if self.line is None else f"{self.file}, line {self.line}"
            location += ": "
        elif self.line is not None:
            location = f"line {self.line}: "
        token = "" if self.token is None else f" (at {self.token!r})"
        if len(self.commands) == 1 and not self.table and not token:
            return f"{location}{self.problem}: {self.commands[0]}"
        lines = [f"{location}{self.problem}{token}", *(f"  {line}" for line in self.table)]
        if self.table and self.commands:
            lines.append("likely:" if len(self.commands) == 1 else "one of these is likely:")
        return "\n".join([*lines, *(f"  {each}" for each in self.commands)])


class IndexingError(SparrowError, IndexError):
    """Index out of range, of an unsupported type, or with too many items."""


class LabelError(SparrowError, KeyError):
    """Unknown label or dimension name."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ShapeError(SparrowError, ValueError):
    """Shapes, axes or coordinates that do not match."""


class AxisError(ShapeError, IndexingError, np.exceptions.AxisError):
    """Axis out of range; also an ``IndexError`` and NumPy's ``AxisError``."""


class DuplicateError(SparrowError, ValueError):
    """Repeated coordinates where ``duplicates="error"``.

    Parameters
    ----------
    problem
        Description of the problem and the way out.
    cell
        Coordinates of the element if ``problem`` contains them as a tuple.

    Examples
    --------
    >>> from sparrow.errors import DuplicateError
    >>> str(DuplicateError("element (0, 1) is repeated", (0, 1)).by_label([["ann", "bob"], None]))
    "element ('ann', 1) is repeated"
    """

    def __init__(self, problem: str, cell: tuple[int, ...] | None = None) -> None:
        super().__init__(problem)
        self.cell = cell

    def by_label(self, labels: Sequence[Sequence[Any] | None]) -> DuplicateError:
        """Return the error with labels in place of coordinates.

        Parameters
        ----------
        labels
            Labels of each dimension by coordinate, or None for a dimension without labels.

        Returns
        -------
        DuplicateError

        Examples
        --------
        >>> from sparrow.errors import DuplicateError
        >>> DuplicateError("repeated row").by_label([])
        DuplicateError('repeated row')
        """
        if self.cell is None:
            return self
        labelled = tuple(at if names is None else names[at] for names, at in zip(labels, self.cell, strict=True))
        return DuplicateError(str(self).replace(repr(self.cell), repr(labelled), 1))


class InvalidValueError(SparrowError, ValueError):
    """Argument outside the accepted values."""


class NumberRangeError(InvalidValueError, OverflowError):
    """Python number outside the range of the dtype; also an ``OverflowError``."""


class SharingError(InvalidValueError, BufferError):
    """Memory that cannot be shared without a copy."""


class SingularError(InvalidValueError, np.linalg.LinAlgError, RuntimeError):
    """Singular matrix; also NumPy's ``LinAlgError`` and SciPy's ``RuntimeError``."""


class UnsupportedError(SparrowError, TypeError):
    """Unsupported type or operation; the message names an alternative."""


class ReadOnlyError(SparrowError, ValueError):
    """Write to a read-only tensor: pinned, copied or opened at a version."""


class TooLargeError(SparrowError, MemoryError):
    """Result above the memory limit; the message names its size and a way out."""


class ConvergenceError(SparrowError, ArithmeticError):
    """Iteration that leads to NaN or infinity; the message names the parameter."""


class MissingDependencyError(SparrowError, ImportError):
    """Optional package that is not installed; the message names the pip command."""


class WorkerError(SparrowError, ChildProcessError):
    """Worker process that failed or died; the message names it."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StorageError(SparrowError, OSError):
    """Failure to read or write the files of a stored tensor."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NotFoundError(StorageError, FileNotFoundError):
    """No tensor, bundle, file or version at the location."""


class ExistsError(StorageError, FileExistsError):
    """Destination of a new tensor that already exists."""


class CorruptionError(StorageError):
    """File that is missing or differs from the log."""


class ConflictError(StorageError, RuntimeError):
    """Concurrent change of the same elements; reload and try again."""


class LazyUpdateWarning(UserWarning):
    """Row-sparse gradient that updates its own rows only by default; warned once.

    Pass ``lazy`` to silence it.
    """


class PerformanceWarning(UserWarning):
    """Slow call with a much faster alternative, which the message names."""


class StorageFallbackWarning(UserWarning):
    """Result of storage type "dense" for want of a rule; warned once per case."""
