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
from sparrow.runtime.validation import check_unmasked

__all__ = [
    "DTYPES",
    "MAX_DIMENSION_SIZE",
    "AssignedName",
    "Schema",
    "as_integer",
    "as_integers",
    "assigned_dims",
    "check_array",
    "check_array_ndim",
    "check_dims",
    "check_dtype",
    "check_shape",
    "default_dims",
    "is_custom_name",
    "is_fill",
    "is_given_name",
    "normalize_dims",
    "unchecked_schema",
]

MAX_DIMENSION_SIZE = 2**63 - 1
"""Largest size of a dimension: coordinates are int64."""

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
    """Return a supported dtype in native byte order.

    Raises
    ------
    UnsupportedError
        If ``dtype`` is not a dtype or not one of :data:`DTYPES`.
    """
    if isinstance(dtype, np.dtype) and dtype in _DTYPE_SET:
        return dtype
    try:
        parsed = np.dtype(dtype)
    except (TypeError, ValueError):
        names = ", ".join(map(str, DTYPES))
        raise UnsupportedError(f"dtype must be one of {names}, got {dtype!r}") from None
    native = np.dtype(parsed.type) if parsed.isbuiltin != 1 and parsed.kind in "biufc" else parsed
    if native not in DTYPES:
        names = ", ".join(map(str, DTYPES))
        raise UnsupportedError(f"dtype {native} is not supported: cast to one of {names}")
    return native


def as_integer(value: Any, name: str) -> int:
    """Return an argument as a Python integer, or raise ``UnsupportedError``."""
    try:
        return operator.index(value)
    except TypeError:
        raise UnsupportedError(f"{name} must be an integer, got {value!r}") from None


def check_array(value: Any, name: str) -> NDArray[Any]:
    """Return an argument as a NumPy array.

    Raises
    ------
    InvalidValueError
        If NumPy cannot convert it, as a ragged list.
    UnsupportedError
        If it has masked elements.
    """
    check_unmasked(value, name)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidValueError(f"{name}={value!r} cannot be converted to an array: {error}") from None


def check_array_ndim(ndim: int, remedy: str = "") -> None:
    """Raise ``UnsupportedError`` if a NumPy array cannot have ``ndim`` dimensions.

    ``remedy`` ends the message.
    """
    if ndim > _NUMPY_MAX_NDIM:
        hint = f": {remedy}" if remedy else ""
        raise UnsupportedError(
            f"NumPy arrays have up to {_NUMPY_MAX_NDIM} dimensions, and this tensor has {ndim}{hint}"
        )


def as_integers(value: Any, name: str) -> list[int]:
    """Return an integer or a sequence of integers as a list."""
    is_sequence = type(value) in (tuple, list) or (isinstance(value, np.ndarray) and value.ndim)
    is_sequence = is_sequence or (isinstance(value, Sequence) and not isinstance(value, str | bytes))
    numbers = value if is_sequence else (value,)
    try:
        return list(map(operator.index, numbers))
    except TypeError:
        return [as_integer(n, name) for n in numbers]


def check_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple of Python integers.

    Raises
    ------
    ShapeError
        If a size is negative or above 2^63 - 1. Their product may be larger.
    """
    try:
        is_sequence = type(shape) is tuple or isinstance(shape, Sequence | np.ndarray)
        sizes = tuple(map(operator.index, shape)) if is_sequence else (operator.index(shape),)  # type: ignore[arg-type]
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


class AssignedName(str):
    """Dimension name that a reader assigned, such as ``src`` or ``row``.

    It equals the text, and travels wherever names do: through views, expressions, pickles and files. Only names that a
    caller or a file gave match operands (:func:`is_given_name`).
    """

    __slots__ = ()


def assigned_dims(*names: str) -> tuple[str, ...]:
    """Return dimension names as those that a reader assigns."""
    return tuple(map(AssignedName, names))


def is_given_name(name: str) -> bool:
    """Return whether a dimension name is neither assigned nor a default one.

    Examples
    --------
    >>> [is_given_name(name) for name in ("user", "d0", *assigned_dims("src"))]
    [True, False, False]
    """
    return type(name) is not AssignedName and is_custom_name(name)


@lru_cache(128)
def default_dims(ndim: int) -> tuple[str, ...]:
    """Return the default dimension names ``d0, d1, ...``."""
    return tuple(f"d{k}" for k in range(ndim))


@lru_cache(1024)
def is_custom_name(name: str) -> bool:
    """Return whether a dimension name is not a default one (``d0``, ``d1_2``)."""
    return re.fullmatch(r"d\d+(_\d+)?", name) is None


def normalize_dims(dims: Sequence[str] | None) -> tuple[str, ...]:
    """Return dimension names as a tuple, empty for None."""
    if dims is None:
        return ()
    if not isinstance(dims, Iterable):
        raise InvalidValueError(f"dims must be a sequence of names, got {dims!r}")
    return tuple(name if type(name) is AssignedName else str(name) for name in dims or ())


def check_dims(dims: Sequence[str] | None, ndim: int) -> tuple[str, ...]:
    """Return valid dimension names; the default ones for None.

    Raises
    ------
    ShapeError
        If the number of names is not ``ndim``.
    InvalidValueError
        If a name is empty, reserved (``value``, ``value_im``), or repeated. Case is ignored.
    """
    if dims is None:
        return default_dims(ndim)
    names = normalize_dims(dims)
    if len(names) != ndim:
        raise ShapeError(f"dims must have {ndim} names, got {len(names)}: {names}")
    return _checked_names(names, tuple(map(type, names)))


@lru_cache(1024)
def _checked_names(names: tuple[str, ...], types: tuple[type[str], ...]) -> tuple[str, ...]:
    """Return valid names, equal ones of equal types as one object.

    Raises
    ------
    InvalidValueError
        If a name is empty, reserved or repeated.
    """
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


def is_fill(values: NDArray[Any], fill_value: Any) -> NDArray[np.bool_]:
    """Return a mask of the values that equal the fill; NaN equals NaN, -0.0 equals 0."""
    if fill_value != fill_value:
        return np.asarray(np.isnan(values))
    return np.asarray(values == fill_value)


@dataclass(frozen=True, slots=True)
class Schema:
    """Shape, dimension names, dtype, fill value and storage type of a tensor.

    Raises
    ------
    ShapeError, InvalidValueError, UnsupportedError
        If the shape, a dimension name, the dtype or the fill value is invalid.

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
    is_array: bool = False
    """True if it is that of a NumPy array, without absent elements or a fill value."""

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        dtype = check_dtype(self.dtype)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "dims", check_dims(self.dims or None, len(shape)))
        if type(self.fill_value) is not dtype.type:
            object.__setattr__(self, "fill_value", _cast_fill(self.fill_value, dtype))

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
        """True if the fill value is 0."""
        return bool(self.fill_value == 0)

    @property
    def coordinate_dtypes(self) -> tuple[np.dtype[Any], ...]:
        """Coordinate dtype of each dimension."""
        return _coordinate_dtypes(self.shape)

    def coordinate_dtype(self, dim: int) -> np.dtype[Any]:
        """Return int32 for a dimension of size up to 2^31, else int64."""
        return _INT32 if self.shape[dim] <= 2**31 else _INT64

    def element_bytes(self, wide: bool = False) -> int:
        """Return the bytes of one stored element in memory: coordinates and value.

        Parameters
        ----------
        wide
            Count coordinates as int64 for any shape.

        Examples
        --------
        >>> Schema((3, 2**40)).element_bytes()
        20
        """
        coordinates = 8 * len(self.shape) if wide else _coordinate_bytes(self.shape)
        return coordinates + self.dtype.itemsize

    def with_view(self, view: View, stype: str | None = None) -> Schema:
        """Return the schema of a view; axes keep the names of their dimensions.

        The storage type is inferred unless ``stype`` is passed.
        """
        if stype is None:
            stype = infer_view(self.stype, view).stype if self.stype in COMPRESSED else self.stype
        if view.is_identity:
            if stype == self.stype:
                return self
            return unchecked_schema(self.shape, self.dims, self.dtype, self.fill_value, stype)
        dims = _view_dims(self.dims, view.sources, tuple(map(type, self.dims))) if view.axes else ()
        return unchecked_schema(view.shape, dims, self.dtype, self.fill_value, stype)


@lru_cache(1024)
def _coordinate_bytes(shape: tuple[int, ...]) -> int:
    return sum([4 if size <= 2**31 else 8 for size in shape])


@lru_cache(1024)
def _coordinate_dtypes(shape: tuple[int, ...]) -> tuple[np.dtype[Any], ...]:
    return tuple(_INT32 if size <= 2**31 else _INT64 for size in shape)


def unchecked_schema(
    shape: tuple[int, ...], dims: tuple[str, ...], dtype: np.dtype[Any], fill: Any, stype: str
) -> Schema:
    """Return a schema of valid components without checking them."""
    schema = object.__new__(Schema)
    _set_shape(schema, shape)
    _set_dims(schema, dims)
    _set_dtype(schema, dtype)
    _set_fill(schema, fill)
    _set_stype(schema, stype)
    _set_is_array(schema, False)
    return schema


# Slot descriptors bypass the frozen dataclass, faster than ``object.__setattr__``.
_set_shape, _set_dims, _set_dtype, _set_fill, _set_stype, _set_is_array = (
    vars(Schema)[name].__set__ for name in ("shape", "dims", "dtype", "fill_value", "stype", "is_array")
)


@lru_cache(1024)
def _view_dims(dims: tuple[str, ...], sources: tuple[int | None, ...], types: tuple[type[str], ...]) -> tuple[str, ...]:
    """Return axis names: the name of the source dimension, else a unique default.

    ``types`` are those of the names: an assigned name equals a given one, and would share its place in the cache.
    """
    used = {dims[source].casefold() for source in sources if source is not None and source >= 0}
    names: list[str] = []
    for number, source in enumerate(sources):
        if source is not None and source >= 0:
            names.append(dims[source])
            continue
        stem = f"d{number}" if source is None else dims[~source]
        name, k = stem, 1
        while name.casefold() in used:
            name, k = type(stem)(f"{stem}_{k}"), k + 1
        used.add(name.casefold())
        names.append(name)
    return tuple(names)


def _cast_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as a NumPy scalar of the dtype."""
    if type(value) is int and value == 0:
        return dtype.type(0)
    try:
        with np.errstate(all="ignore"):
            fill = np.asarray(value).astype(dtype)
    except (TypeError, ValueError):
        raise InvalidValueError(f"fill_value must be a number of dtype {dtype}, got {value!r}") from None
    if fill.ndim:
        raise InvalidValueError(f"fill_value must be a scalar, got {value!r}")
    return fill[()]
