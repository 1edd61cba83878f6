"""Coordinate format (COO)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import NDArray

from sparrow.core.array_validation import check_coordinates
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import InvalidValueError
from sparrow.formats.container import Container, readonly
from sparrow.interop.conversion import from_coordinates
from sparrow.kernels.coo import Block, is_sorted

__all__ = ["COO"]


class COO(Container):
    """Coordinates and values, of any number of dimensions.

    ``dense[coords[0][k], coords[1][k], ...] = data[k]``. Elements are sorted by coordinates, the first dimension first,
    unique, and differ from the fill value.

    Parameters
    ----------
    data
        Shape (nnz,), copied.
    coords
        Shape (ndim, nnz), or a list of ``ndim`` arrays of shape (nnz,), from 0, in any order.
    shape
        Sizes of the dimensions; by default the largest coordinate + 1 of each.
    duplicates
        Rule for elements given more than once: "error", "sum", "last", "first", "min" or "max".
    fill_value
        Value of the elements that are not stored.

    Raises
    ------
    ShapeError, IndexingError, DuplicateError
        As :func:`sparrow.from_coords`.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.formats.COO([2, 3, 1, 4], [[0, 1, 2, 2], [1, 2, 0, 2]], shape=(4, 3))
    >>> A
    <COO (4, 3) int64 nnz=4>
    >>> A.asformat("csc").indptr
    array([0, 1, 2, 4])
    """

    __slots__ = ("_coords", "_fill")
    stype = "coo"
    _coords: tuple[NDArray[Any], ...]
    _fill: Any

    def __init__(
        self,
        data: Any,
        coords: Any,
        shape: Sequence[int] | None = None,
        duplicates: str = "error",
        fill_value: Any = 0,
    ) -> None:
        schema, block = from_coordinates(coords, data, shape, None, duplicates, fill_value)
        self._put(schema, block)

    def _put(self, schema: Schema, block: Block) -> None:
        self._shape, self._fill = schema.shape, schema.fill_value
        self._coords, self._data = block.coords, block.values

    @property
    def coords(self) -> tuple[NDArray[Any], ...]:
        """Coordinates, an array of shape (nnz,) per dimension, read-only."""
        return tuple(readonly(column) for column in self._coords)

    @property
    def fill_value(self) -> Any:
        """Value of the elements that are not stored, a NumPy scalar."""
        return self._fill

    def check_format(self, full: bool = True) -> None:
        """Raise if the arrays violate the format.

        Parameters
        ----------
        full
            Check every coordinate; else lengths and dimensions only.

        Raises
        ------
        ShapeError
            If lengths or dimensions differ.
        IndexingError
            If a coordinate is out of range.
        InvalidValueError
            If coordinates do not ascend, or are repeated.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.COO([7, 8], [[0, 2]], shape=(3,)).check_format()
        """
        check_coordinates(self._coords, self._shape, len(self._data), full)
        if not full:
            return
        if not is_sorted(self._coords, strict=True):
            raise InvalidValueError("coords must ascend, without repeated elements")

    @classmethod
    def _from_entries(cls, schema: Schema, block: Block) -> Self:
        made = cls.__new__(cls)
        made._put(schema, block)
        return made

    def _entries(self) -> Block:
        return Block(self._coords, self._data)

    def _with_data(self, data: NDArray[Any]) -> Self:
        schema = Schema(self._shape, (), data.dtype, self._fill)
        kept = ~is_fill(data, schema.fill_value)
        block = Block(self._coords, data)
        return self._from_entries(schema, block if kept.all() else block.take(kept))

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return (*self._coords, self._data)
