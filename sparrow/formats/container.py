"""Base class of the containers of arrays: construction, conversion, comparison."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow.core.array_validation import as_canonical
from sparrow.core.schema import Schema, check_dtype, check_shape, is_fill
from sparrow.core.storage_types import check_stype
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.interop.conversion import from_coordinates, from_object
from sparrow.interop.interchange import check_dense, dense_array, implicit_dense_array
from sparrow.kernels.coo import Block
from sparrow.runtime.validation import check_unmasked

if TYPE_CHECKING:
    import scipy.sparse

__all__ = ["Container", "as_values", "check_scipy", "from_entries", "readonly", "scipy_array"]

_FORMATS: dict[str, type[Container]] = {}


class Container(ABC):
    """Arrays of a storage format: base class of the containers.

    A container is frozen: it returns read-only arrays. Arrays passed to it are shared where possible; later changes by
    their owner show, :meth:`check_format` tells whether it is still valid, and :meth:`copy` returns an independent one.
    Containers have no operations: :func:`sparrow.asarray` makes a tensor of one.

    Examples
    --------
    >>> import sparrow as sp
    >>> rows = sp.asarray([[7, 0, 8], [0, 0, 0]]).to_format("csr")
    >>> isinstance(rows, sp.formats.Container), rows
    (True, <CSR (2, 3) int64 nnz=2>)
    """

    __slots__ = ("_data", "_shape")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]
    stype: ClassVar[str]
    """The storage type that a tensor of this layout has."""
    _data: NDArray[Any]
    _shape: tuple[int, ...]

    def __init_subclass__(cls) -> None:
        if "stype" in cls.__dict__:
            _FORMATS[cls.stype] = cls

    # -- primitives of a format --------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def _from_entries(cls, schema: Schema, block: Block) -> Self:
        """Return the container of canonical elements."""

    @abstractmethod
    def _entries(self) -> Block:
        """Return the canonical elements."""

    @abstractmethod
    def _with_data(self, data: NDArray[Any]) -> Self:
        """Return other values at the same coordinates."""

    @abstractmethod
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays it consists of."""

    @abstractmethod
    def check_format(self, full: bool = True) -> None:
        """Raise if the arrays violate the format.

        Parameters
        ----------
        full
            Check every index; else lengths and ends only, without a pass over the arrays.

        Raises
        ------
        ShapeError
            If lengths, dimensions or pointers contradict each other.
        IndexingError
            If an index is out of range.
        InvalidValueError, DuplicateError
            If indices do not ascend, or one is repeated.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.CSR([7, 8], [2, 0], [0, 1, 2], shape=(2, 3)).check_format()
        """

    # -- construction ---------------------------------------------------------------------------------

    @classmethod
    def from_coords(cls, coords: Any, values: Any, shape: Sequence[int] | None = None, duplicates: str = "sum") -> Self:
        """Return the container of coordinates and values; duplicates are summed.

        Parameters
        ----------
        coords, values, shape, duplicates
            See :func:`sparrow.from_coords`, also for errors.

        Returns
        -------
        Container

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.CSR.from_coords([[0, 1, 0], [2, 0, 2]], [1, 2, 3], shape=(2, 3)).data
        array([4, 2])
        """
        schema, block = from_coordinates(coords, values, shape, None, duplicates)
        check_stype(cls.stype, schema.ndim)
        return cls._from_entries(schema, block)

    @classmethod
    def from_array(cls, obj: Any, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None) -> Self:
        """Return the container of an array: a tensor, container, NumPy or SciPy array.

        Zeros are not stored, and duplicates of SciPy are summed.

        Parameters
        ----------
        obj
            Anything that :func:`sparrow.asarray` takes.
        shape
            Shape that ``obj`` must have.
        dtype
            Type of the values, that of ``obj`` by default.

        Returns
        -------
        Container

        Raises
        ------
        ShapeError
            If ``obj`` has another shape, or a number of dimensions that the format does not support.
        TooLargeError
            If the arrays would exceed the memory limit.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> ones = sp.formats.CSR.from_array(np.ones((2, 2)), dtype="float32")
        >>> ones.indptr, ones.dtype
        (array([0, 2, 4]), dtype('float32'))
        """
        if not isinstance(obj, Container):
            is_tensor = hasattr(obj, "to_format")
            obj = obj.to_format("coo") if is_tensor else _FORMATS["coo"]._from_entries(*from_object(obj)[:2])
        if shape is not None and check_shape(shape) != obj.shape:
            raise ShapeError(f"shape must be that of the array, {obj.shape}, got {tuple(shape)}")
        found: Self = obj.asformat(cls.stype)
        return found if dtype is None else found.astype(dtype, copy=False)

    @classmethod
    def zeros(cls, shape: Sequence[int], dtype: DTypeLike = "float64") -> Self:
        """Return a container without elements.

        Parameters
        ----------
        shape
            Sizes of the dimensions.
        dtype
            Type of the values.

        Returns
        -------
        Container

        Raises
        ------
        ShapeError
            If the format does not support that many dimensions.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.CSR.zeros((2, 3)).indptr
        array([0, 0, 0])
        """
        schema = Schema(check_shape(shape), (), check_dtype(dtype))
        check_stype(cls.stype, schema.ndim)
        return cls._from_entries(
            schema, Block(tuple(np.zeros(0, np.int32) for _ in schema.shape), np.zeros(0, schema.dtype))
        )

    # -- properties -----------------------------------------------------------------------------

    @property
    def data(self) -> NDArray[Any]:
        """Values, read-only."""
        return readonly(self._data)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self._data.dtype

    @property
    def fill_value(self) -> Any:
        """Value of the elements that are not stored, a NumPy scalar; 0 except in COO."""
        return self.dtype.type(0)

    @property
    def nnz(self) -> int:
        """Number of elements that differ from the fill value."""
        return len(self._data)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self._arrays())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape} {self.dtype} nnz={self.nnz}>"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.check_format()

    def __eq__(self, other: object) -> bool:
        """Return whether a container or array has the same shape and equal elements."""
        if isinstance(other, np.ndarray | list):
            return bool(np.array_equal(self.to_numpy(), other))
        if not isinstance(other, Container):
            return NotImplemented
        if self.shape != other.shape:
            return False
        if self.fill_value != other.fill_value:
            return bool(np.array_equal(self.to_numpy(), other.to_numpy()))
        a, b = self._entries(), other._entries()
        return np.array_equal(a.values, b.values) and all(map(np.array_equal, a.coords, b.coords))

    # -- conversion -----------------------------------------------------------------------------

    def _schema(self) -> Schema:
        return Schema(self._shape, (), self.dtype, self.fill_value, self.stype)

    def __sparrow_entries__(self) -> tuple[Schema, Block]:
        """Return schema and elements for a tensor, in arrays of its own."""
        block = self._entries()
        return self._schema(), Block(tuple(column.copy() for column in block.coords), block.values.copy())

    def asformat(self, format: str) -> Any:
        """Return the container in another format, itself if it has that format.

        Parameters
        ----------
        format
            "coo", "csr", "csc", "row_sparse", or "dense" for an array.

        Returns
        -------
        Container or ndarray

        Raises
        ------
        InvalidValueError, ShapeError
            If the format is unknown, or does not support that many dimensions.
        TooLargeError
            If the arrays would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.formats.CSR([7, 8, 9], [0, 2, 1], [0, 2, 2, 3], (3, 3))
        >>> A.asformat("csc").indptr, A.asformat("row_sparse").indices
        (array([0, 1, 2, 3]), array([0, 2], dtype=int32))
        """
        check_stype(format, self.ndim)
        if format == self.stype:
            return self
        if format == "dense":
            return self.to_numpy()
        return from_entries(format, self._schema(), self._entries())

    def astype(self, dtype: DTypeLike, copy: bool = True) -> Self:
        """Return the container with another type of values.

        Parameters
        ----------
        dtype
            Type of the values.
        copy
            False returns the container itself if it has the type.

        Returns
        -------
        Container

        Raises
        ------
        UnsupportedError
            If the type is not supported, or imaginary parts would be lost.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.COO([7, 8], [[0, 2]], shape=(3,)).astype("float32").data
        array([7., 8.], dtype=float32)
        """
        wanted = check_dtype(dtype)
        if wanted == self.dtype:
            return self.copy() if copy else self
        if self.dtype.kind == "c" and wanted.kind != "c":
            raise UnsupportedError(f"cannot cast {self.dtype} to {wanted}: take the real part first")
        with np.errstate(all="ignore"):
            return self._with_data(self._data.astype(wanted))

    def copy(self) -> Self:
        """Return a copy with its own arrays.

        Returns
        -------
        Container

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.formats.COO([7, 8], [[0, 2]], shape=(3,))
        >>> A.copy() == A
        True
        """
        return copy.deepcopy(self)

    def to_numpy(self) -> NDArray[Any]:
        """Return a dense NumPy array.

        Returns
        -------
        ndarray

        Raises
        ------
        TooLargeError
            If the array would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.COO([7, 8], [[0, 2]], shape=(3,)).to_numpy()
        array([7, 0, 8])
        """
        schema = self._schema()
        check_dense(schema)
        return dense_array(schema, self._entries())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise InvalidValueError("copy=False is impossible: a sparse container has no dense array to share")
        dense = implicit_dense_array(self._schema(), self._entries)
        return dense if dtype is None else dense.astype(dtype)

    def to_scipy(self) -> scipy.sparse.sparray:
        """Return a SciPy sparse array of the same or the nearest format, a copy.

        Returns
        -------
        scipy.sparse.sparray

        Raises
        ------
        UnsupportedError
            If SciPy does not support the values, or the fill value is not 0.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.CSR([7, 8], [2, 0], [0, 1, 2], shape=(2, 3)).to_scipy().format
        'csr'
        """
        check_scipy(self._schema())
        self.check_format()
        return self._scipy(copy=True)

    def _scipy(self, copy: bool) -> scipy.sparse.sparray:
        import scipy.sparse

        block = self._entries()
        array = scipy.sparse.coo_array((block.values, block.coords), shape=self._shape, copy=copy)
        array.has_canonical_format = True
        return array


def from_entries(format: str, schema: Schema, block: Block) -> Container:
    """Return canonical elements as the container of a format.

    Formats other than COO store the elements of a nonzero fill value explicitly.

    Parameters
    ----------
    format
        "coo", "csr", "csc" or "row_sparse".
    schema
        Schema of the elements.
    block
        Canonical elements.

    Returns
    -------
    Container

    Raises
    ------
    TooLargeError
        If explicit elements of a nonzero fill value would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> scan = sp.asarray([[0, 2], [3, 0]]).to_format("coo")
    >>> sp.formats.from_entries("csr", *scan.__sparrow_entries__()).indptr
    array([0, 1, 2])
    """
    if format != "coo" and not schema.has_zero_fill:
        check_dense(schema)
        dense = dense_array(schema, block)
        stored = ~is_fill(dense, dense.dtype.type(0))
        schema, block = Schema(schema.shape, (), schema.dtype), Block(stored.nonzero(), dense[stored])
    return _FORMATS[format]._from_entries(schema, block)


def scipy_array(format: str, schema: Schema, block: Block, own: bool = True) -> scipy.sparse.sparray:
    """Return canonical elements, which passed :func:`check_scipy`, as a SciPy array.

    Arrays are shared if they are the caller's ``own``, where SciPy keeps the same layout.
    """
    return from_entries(format, schema, block)._scipy(copy=not own and format != "csc")  # CSC is always built by a copy


def check_scipy(schema: Schema) -> None:
    """Raise ``UnsupportedError`` if SciPy has no sparse array of such a tensor."""
    if not schema.has_zero_fill:
        raise UnsupportedError(
            f"SciPy's sparse arrays need fill 0, the tensor has {schema.fill_value}: use A.refill(0)"
        )
    if schema.dtype == np.float16 or not schema.ndim:
        what = "float16" if schema.ndim else "0-dimensional array"
        raise UnsupportedError(f"SciPy's sparse arrays have no {what}: use to_numpy()")


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_values(values: Any) -> NDArray[Any]:
    """Return the values of a container as an array of a supported dtype."""
    check_unmasked(values)
    try:
        data = np.asarray(values)
    except ValueError:
        raise ShapeError("rows of data must have the same length") from None
    return as_canonical(data.astype(check_dtype(data.dtype), copy=False))
