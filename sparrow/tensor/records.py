"""Lists of records that render as tables: versions, files, labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex, TypeVar, overload

import pyarrow as pa

from sparrow.storage import FileRecord
from sparrow.tensor import display

if TYPE_CHECKING:
    import polars

__all__ = ["Files", "History", "LabelsByDim", "Records"]

T = TypeVar("T")

_SHOWN_LABELS = 3


class Records(list[T]):
    """List of records that renders as a table, in terminals and notebooks.

    Slices render, too. :meth:`to_polars` returns all fields as a frame.
    """

    headers: ClassVar[Sequence[str]] = ()

    def _row(self, record: T) -> Sequence[Any]:
        """Return the cells of a record."""
        raise NotImplementedError

    def to_polars(self) -> polars.DataFrame:
        """Return the records as a Polars frame, with all fields."""
        import polars

        return polars.DataFrame(list(self), infer_schema_length=None)

    @overload
    def __getitem__(self, key: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, key: slice) -> Records[T]: ...
    def __getitem__(self, key: SupportsIndex | slice) -> T | Records[T]:
        found = super().__getitem__(key)
        return type(self)(found) if isinstance(key, slice) else found  # type: ignore[return-value,arg-type]

    def __repr__(self) -> str:
        return display.table(map(self._row, self), self.headers, width=100)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        return display.html_table(map(self._row, self), self.headers)


class History(Records["dict[str, Any]"]):
    """Versions of a tensor, newest first, as dictionaries."""

    headers = ("version", "timestamp", "operation", "nnz", "shape", "files")

    def _row(self, record: dict[str, Any]) -> Sequence[Any]:
        when, added = record["timestamp"], record["files_added"]
        shape = record["shape"]
        return (
            record["version"],
            None if when is None else f"{when:%Y-%m-%d %H:%M:%S}",
            record["operation"],
            record["nnz"],
            None if shape is None else " x ".join(map(str, shape)),
            None if added is None else f"+{added} -{record['files_removed']}",
        )


class Files(Records[FileRecord]):
    """Data files of a tensor, as records."""

    headers = ("file", "rows", "size", "first", "last")

    def _row(self, record: FileRecord) -> Sequence[Any]:
        name = os.path.basename(record.path)
        short = name if len(name) <= 20 else f"{name[:8]}\N{HORIZONTAL ELLIPSIS}{name[-11:]}"
        ends = (", ".join(map(str, end)) for end in (record.first, record.last))
        return (short, record.rows, display.human_bytes(record.bytes), *ends)


class LabelsByDim(dict[str, pa.Array]):
    """Labels of each labelled dimension, as Arrow arrays; renders as a table.

    Parameters
    ----------
    found
        Labels by dimension name.
    shape
        Sizes of all dimensions by name.
    """

    def __init__(self, found: dict[str, pa.Array], shape: dict[str, int]) -> None:
        super().__init__(found)
        self._shape = shape

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self._shape)

    def _rows(self) -> Iterable[Sequence[Any]]:
        for dim, size in self._shape.items():
            labels = self.get(dim)
            yield (
                (dim, size, None, f"0 to {size - 1}, not labelled" if size else "not labelled")
                if labels is None
                else (dim, size, str(labels.type), _summarize(labels))
            )

    def __repr__(self) -> str:
        return display.table(self._rows(), ("dimension", "size", "type", "labels"), width=100)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        return display.html_table(self._rows(), ("dimension", "size", "type", "labels"))


def _summarize(labels: pa.Array) -> str:
    """Return the first labels and the last one."""
    first = [str(label) for label in labels.slice(0, _SHOWN_LABELS).to_pylist()]
    if len(labels) > _SHOWN_LABELS:
        first += ["\N{HORIZONTAL ELLIPSIS}"] * (len(labels) > _SHOWN_LABELS + 1) + [str(labels[-1].as_py())]
    return ", ".join(first)
