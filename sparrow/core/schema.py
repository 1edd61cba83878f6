"""Schema of a tensor: shape, dimension names, dtype, fill value, storage type."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow.core.indexing import View
from sparrow.core.storage_types import COMPRESSED, infer_view
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError

__all__ = [
    "DTYPES",
    "MAX_DIMENSION_SIZE",
    "Schema",
    "as_integer",
    "as_integers",
    "check_array",
    "check_array_ndim",
    "check_dims",
    "check_dtype",
    "check_shape",
    "default_dims",
    "is_custom_name",
    "is_fill",
    "normalize_dims",
    "unchecked_schema",
]

MAX_DIMENSION_SIZE = 2**63 - 1

DTYPES = tuple(
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
)  # fmt: skip
"""Supported value types."""

_NUMPY_MAX_NDIM = 64
_DTYPE_SET = frozenset(DTYPES)
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a supported dtype in native byte order; raise ``UnsupportedError`` for any other."""
    if isinstance(dtype, np.dtype) and dtype in _DTYPE_SET:
        return dtype
    try:
        given = np.dtype(dtype)
    except (TypeError, ValueError):
        names = ", ".join(map(str, DTYPES))
        raise UnsupportedError(f"dtype={dtype!r} is not a dtype: cast to one of {names}") from None
    found = given if given.isbuiltin == 1 else np.dtype(given.type) if given.kind in "biufc" else given
    if found not in DTYPES:
        names = ", ".join(map(str, DTYPES))
        raise UnsupportedError(f"dtype {found} is not supported: cast to one of {names}")
    return found


def as_integer(value: Any, name: str) -> int:
    """Return an argument as a Python integer; raise ``UnsupportedError`` if it is not an integer."""
    try:
        return operator.index(value)
    except TypeError:
        raise UnsupportedError(f"{name}={value!r} must be an integer") from None


def check_array(given: Any, name: str) -> NDArray[Any]:
    """Return an argument as a NumPy array; raise ``InvalidValueError`` for ragged lists."""
    try:
        return np.asarray(given)
    except ValueError as error:
        raise InvalidValueError(f"{name}={given!r} cannot be converted to an array: {error}") from None


def check_array_ndim(ndim: int, remedy: str = "") -> None:
    """Raise ``UnsupportedError``, with a remedy, if NumPy arrays cannot have so many dimensions."""
    if ndim > _NUMPY_MAX_NDIM:
        way = f": {remedy}" if remedy else ""
        raise UnsupportedError(f"NumPy arrays have up to {_NUMPY_MAX_NDIM} dimensions, and this tensor has {ndim}{way}")


def as_integers(given: Any, name: str) -> list[int]:
    """Return an integer or a sequence of integers as a list."""
    several = type(given) in (tuple, list) or (isinstance(given, np.ndarray) and given.ndim)
    several = several or (isinstance(given, Sequence) and not isinstance(given, str | bytes))
    numbers = given if several else (given,)
    try:
        return list(map(operator.index, numbers))
    except TypeError:
        return [as_integer(n, name) for n in numbers]


def check_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple of Python integers.

    Raises
    ------
    ShapeError
        If a size is negative or above 2^63 - 1. The number of elements may be larger.
    """
    try:
        several = type(shape) is tuple or isinstance(shape, Sequence | np.ndarray)
        sizes = tuple(map(operator.index, shape)) if several else (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        raise ShapeError(f"shape must be a tuple of integers, got {shape!r}") from None
    if not sizes or 0 <= min(sizes) <= max(sizes) <= MAX_DIMENSION_SIZE:
        return sizes
    for dim, n in enumerate(sizes):
        if n < 0:
            raise ShapeError(f"size of dimension {dim} must not be negative, got {n}")
        if n > MAX_DIMENSION_SIZE:
            raise ShapeError(f"size of dimension {dim} must be at most 2^63 - 1, got {n}")
    return sizes


@lru_cache(128)
def default_dims(ndim: int) -> tuple[str, ...]:
    """Return the default dimension names ``d0, d1, ...``."""
    return tuple(f"d{k}" for k in range(ndim))


@lru_cache(1024)
def is_custom_name(name: str) -> bool:
    """Return whether a dimension name was chosen by the user: default names are ``d0``, ``d1_2``."""
    return re.fullmatch(r"d\d+(_\d+)?", name) is None


def normalize_dims(dims: Sequence[str] | None) -> tuple[str, ...]:
    """Return dimension names as a tuple, empty for None; ``InvalidValueError`` unless they are a sequence."""
    if dims is None:
        return ()
    if not isinstance(dims, Iterable):
        raise InvalidValueError(f"dims must be a sequence of names, got {dims!r}")
    return tuple(str(name) for name in dims or ())


def check_dims(dims: Sequence[str] | None, ndim: int) -> tuple[str, ...]:
    """Check dimension names; None gives the default ones.

    Raises
    ------
    ShapeError
        If their number is not ``ndim``.
    InvalidValueError
        If a name is empty, reserved (``value``, ``value_im``), or equals another one ignoring case.
    """
    if dims is None:
        return default_dims(ndim)
    names = normalize_dims(dims)
    if len(names) != ndim:
        raise ShapeError(f"dims must have {ndim} names, got {len(names)}: {names}")
    seen: set[str] = set()
    for name in names:
        if not name or "\0" in name:
            raise InvalidValueError(f"dimension name must be a non-empty string, got {name!r}")
        if name.casefold() in ("value", "value_im"):
            raise InvalidValueError(f"dimension name {name!r} is reserved for the column of values")
        if name.casefold() in seen:
            raise InvalidValueError(f"dimension names must be unique ignoring case, got {names}")
        seen.add(name.casefold())
    return names


_known_dims = lru_cache(1024)(check_dims)


def is_fill(values: NDArray[Any], fill_value: Any) -> NDArray[np.bool_]:
    """Return which values equal the fill value; NaN equals NaN, and -0.0 equals 0."""
    if fill_value != fill_value:
        return np.asarray(np.isnan(values))
    return np.asarray(values == fill_value)


@dataclass(frozen=True, slots=True)
class Schema:
    """Shape, dimension names, dtype, fill value and storage type of a tensor.

    Raises
    ------
    SparrowError
        If the shape, the names, the dtype or the fill value are invalid.

    Examples
    --------
    >>> Schema((3, 4), dims=("src", "dst"), dtype="int64").size
    12
    """

    shape: tuple[int, ...]
    dims: tuple[str, ...] = ()
    dtype: np.dtype[Any] = field(default=np.dtype(np.float64))
    fill_value: Any = 0
    """NumPy scalar of the dtype."""
    stype: str = "coo"

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        dtype = check_dtype(self.dtype)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        dims = self.dims
        known = type(dims) is tuple and (not dims or type(dims[0]) is str)
        object.__setattr__(self, "dims", (_known_dims if known else check_dims)(dims or None, len(shape)))
        if type(self.fill_value) is not dtype.type:
            object.__setattr__(self, "fill_value", _fill(self.fill_value, dtype))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, stored or not; may exceed 2^63."""
        return math.prod(self.shape)

    @property
    def has_zero_fill(self) -> bool:
        """Whether the fill value is 0."""
        return bool(self.fill_value == 0)

    @property
    def coordinate_dtypes(self) -> tuple[np.dtype[Any], ...]:
        """Coordinate dtype of each dimension."""
        return _coordinate_dtypes(self.shape)

    def coordinate_dtype(self, dim: int) -> np.dtype[Any]:
        """Return the coordinate dtype of a dimension: int32, or int64 for sizes above 2^31."""
        return _INT32 if self.shape[dim] <= 2**31 else _INT64

    def element_bytes(self, wide: bool = False) -> int:
        """Return the bytes of one stored element in memory: coordinates and value.

        Parameters
        ----------
        wide
            Whether coordinates are int64 whatever the shape.

        Examples
        --------
        >>> Schema((3, 2**40)).element_bytes()
        20
        """
        coordinates = 8 * len(self.shape) if wide else _coordinate_bytes(self.shape)
        return coordinates + self.dtype.itemsize

    def with_view(self, view: View, stype: str | None = None) -> Schema:
        """Return the schema of a view: axes keep the names of their dimensions.

        The storage type is inferred unless ``stype`` is passed.
        """
        if stype is None:
            stype = infer_view(self.stype, view).stype if self.stype in COMPRESSED else self.stype
        if view.is_identity:
            if stype == self.stype:
                return self
            return unchecked_schema(self.shape, self.dims, self.dtype, self.fill_value, stype)
        return unchecked_schema(view.shape, _view_dims(self.dims, view.sources), self.dtype, self.fill_value, stype)


@lru_cache(1024)
def _coordinate_bytes(shape: tuple[int, ...]) -> int:
    return sum([4 if size <= 2**31 else 8 for size in shape])


@lru_cache(1024)
def _coordinate_dtypes(shape: tuple[int, ...]) -> tuple[np.dtype[Any], ...]:
    return tuple(_INT32 if size <= 2**31 else _INT64 for size in shape)


def unchecked_schema(
    shape: tuple[int, ...], dims: tuple[str, ...], dtype: np.dtype[Any], fill: Any, stype: str
) -> Schema:
    """Return a schema of components that are known to be valid, without checks."""
    schema = object.__new__(Schema)
    _put_shape(schema, shape)
    _put_dims(schema, dims)
    _put_dtype(schema, dtype)
    _put_fill(schema, fill)
    _put_stype(schema, stype)
    return schema


_put_shape, _put_dims, _put_dtype, _put_fill, _put_stype = (
    vars(Schema)[name].__set__ for name in ("shape", "dims", "dtype", "fill_value", "stype")
)


@lru_cache(1024)
def _view_dims(dims: tuple[str, ...], sources: tuple[int | None, ...]) -> tuple[str, ...]:
    """Return axis names: that of the dimension if there is one, else a default made unique by a suffix."""
    taken = {dims[source].casefold() for source in sources if source is not None and source >= 0}
    names: list[str] = []
    for number, source in enumerate(sources):
        if source is not None and source >= 0:
            names.append(dims[source])
            continue
        wish = f"d{number}" if source is None else dims[~source]
        name, k = wish, 1
        while name.casefold() in taken:
            name, k = f"{wish}_{k}", k + 1
        taken.add(name.casefold())
        names.append(name)
    return tuple(names)


def _fill(given: Any, dtype: np.dtype[Any]) -> Any:
    if type(given) is int and given == 0:
        return dtype.type(0)
    try:
        with np.errstate(all="ignore"):
            fill = np.asarray(given).astype(dtype)
    except (TypeError, ValueError):
        raise InvalidValueError(f"fill_value must be a number of dtype {dtype}, got {given!r}") from None
    if fill.ndim:
        raise InvalidValueError(f"fill_value must be a scalar, got {given!r}")
    return fill[()]
