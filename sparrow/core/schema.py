"""What a tensor is, apart from its entries: shape, dimension names, dtype, fill value, storage type."""

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
from sparrow.core.storage_types import COMPRESSED, of_view
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError

__all__ = [
    "DTYPES",
    "LARGEST_DIMENSION",
    "Schema",
    "as_integer",
    "as_integers",
    "check_array",
    "check_array_ndim",
    "check_dims",
    "check_dtype",
    "check_shape",
    "default_dims",
    "given_dims",
    "given_name",
    "is_fill",
    "known_schema",
]

LARGEST_DIMENSION = 2**63 - 1

DTYPES = tuple(
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
)  # fmt: skip
"""The value types of tensors."""

_ARRAY_NDIM = 64
"""The dimensions that an array of NumPy has at most."""
_HELD = frozenset(DTYPES)
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a dtype as one that tensors can hold, in native byte order.

    Raises
    ------
    UnsupportedError
        If tensors cannot hold it.
    """
    if isinstance(dtype, np.dtype) and dtype in _HELD:
        return dtype
    try:
        given = np.dtype(dtype)
    except (TypeError, ValueError):
        raise UnsupportedError(f"dtype={dtype!r} is no type: cast to one of {', '.join(map(str, DTYPES))}") from None
    found = given if given.isbuiltin == 1 else np.dtype(given.type) if given.kind in "biufc" else given
    if found not in DTYPES:
        names = ", ".join(map(str, DTYPES))
        raise UnsupportedError(f"values of type {found} are not supported: cast to one of {names}")
    return found


def as_integer(value: Any, name: str) -> int:
    """Return an argument as a Python integer.

    Raises
    ------
    UnsupportedError
        If it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise UnsupportedError(f"{name}={value!r} must be an integer") from None


def check_array(given: Any, name: str) -> NDArray[Any]:
    """Return an argument as an array; ragged lists are none."""
    try:
        return np.asarray(given)
    except ValueError as error:
        raise InvalidValueError(f"{name}={given!r} is no array: {error}") from None


def check_array_ndim(ndim: int, remedy: str = "") -> None:
    """Refuse a NumPy array of so many dimensions, with the way out.

    Raises
    ------
    UnsupportedError
        If NumPy has none of so many.
    """
    if ndim > _ARRAY_NDIM:
        way = f": {remedy}" if remedy else ""
        raise UnsupportedError(f"NumPy's arrays have up to {_ARRAY_NDIM} dimensions, and this tensor has {ndim}{way}")


def as_integers(given: Any, name: str) -> list[int]:
    """Return an argument that is an integer or several as a list."""
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
        If a size is negative or past 2^63 - 1; the product of the sizes may be larger.
    """
    try:
        several = type(shape) is tuple or isinstance(shape, Sequence | np.ndarray)
        sizes = tuple(map(operator.index, shape)) if several else (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        raise ShapeError(f"a shape is a tuple of integers, got {shape!r}") from None
    if not sizes or 0 <= min(sizes) <= max(sizes) <= LARGEST_DIMENSION:
        return sizes
    for dim, n in enumerate(sizes):
        if n < 0:
            raise ShapeError(f"dimension {dim} has a negative size {n}")
        if n > LARGEST_DIMENSION:
            raise ShapeError(f"dimension {dim} has size {n}, beyond the largest, 2^63 - 1")
    return sizes


@lru_cache(128)
def default_dims(ndim: int) -> tuple[str, ...]:
    """Return the names of dimensions that nobody named: ``d0, d1, ...``."""
    return tuple(f"d{k}" for k in range(ndim))


@lru_cache(1024)
def given_name(name: str) -> bool:
    """Return whether somebody gave a dimension its name: it is none of ``d0``, ``d1_2``, which say where it stands."""
    return re.fullmatch(r"d\d+(_\d+)?", name) is None


def given_dims(dims: Sequence[str] | None) -> tuple[str, ...]:
    """Return names as they were given, none for ``None``; ``InvalidValueError`` where there is no sequence of them."""
    if dims is None:
        return ()
    if not isinstance(dims, Iterable):
        raise InvalidValueError(f"dims={dims!r}: give a sequence of names")
    return tuple(str(name) for name in dims or ())


def check_dims(dims: Sequence[str] | None, ndim: int) -> tuple[str, ...]:
    """Return the dimension names, or the default ones for ``None``.

    Raises
    ------
    ShapeError
        If their number is not ``ndim``.
    InvalidValueError
        If one is empty, no text, ``value`` or ``value_im``, or equals another whatever the case.
    """
    if dims is None:
        return default_dims(ndim)
    names = given_dims(dims)
    if len(names) != ndim:
        raise ShapeError(f"{len(names)} dimension names {names} for {ndim} dimensions")
    seen: set[str] = set()
    for name in names:
        if not name or "\0" in name:
            raise InvalidValueError(f"a dimension name is a text of at least one character, got {name!r}")
        if name.casefold() in ("value", "value_im"):
            raise InvalidValueError(f"a dimension cannot be named {name!r}: that is the column of the values")
        if name.casefold() in seen:
            raise InvalidValueError(f"dimension names must differ in more than case, got {names}")
        seen.add(name.casefold())
    return names


_known_dims = lru_cache(1024)(check_dims)


def is_fill(values: NDArray[Any], fill_value: Any) -> NDArray[np.bool_]:
    """Return which values are absent cells: equal to fill, where NaN is only NaN and -0.0 is 0."""
    if fill_value != fill_value:
        return np.asarray(np.isnan(values))
    return np.asarray(values == fill_value)


@dataclass(frozen=True, slots=True)
class Schema:
    """What a tensor is, apart from its entries.

    Raises
    ------
    SparrowError
        If the shape, the names or the dtype are not allowed.

    Examples
    --------
    >>> Schema((3, 4), dims=("src", "dst"), dtype="int64").size
    12
    """

    shape: tuple[int, ...]
    dims: tuple[str, ...] = ()
    dtype: np.dtype[Any] = field(default=np.dtype(np.float64))
    fill_value: Any = 0
    """A NumPy scalar of the dtype."""
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
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of cells, absent ones included; may pass 2^63."""
        return math.prod(self.shape)

    @property
    def zero_fill(self) -> bool:
        """Whether absent cells are 0."""
        return bool(self.fill_value == 0)

    @property
    def coordinate_dtypes(self) -> tuple[np.dtype[Any], ...]:
        """The integer type of each dimension's coordinates."""
        return _coordinate_dtypes(self.shape)

    def coordinate_dtype(self, dim: int) -> np.dtype[Any]:
        """Return the integer type of a dimension's coordinates: int32, or int64 past 2^31 cells."""
        return _INT32 if self.shape[dim] <= 2**31 else _INT64

    def through(self, view: View, stype: str | None = None) -> Schema:
        """Return what a view of such a tensor is: axes along one dimension keep its name.

        Its storage type is ``stype``, or the one inferred for the view.
        """
        if stype is None:
            stype = of_view(self.stype, view).stype if self.stype in COMPRESSED else self.stype
        if view.is_identity:
            if stype == self.stype:
                return self
            return known_schema(self.shape, self.dims, self.dtype, self.fill_value, stype)
        return known_schema(view.shape, _named_through(self.dims, view.sources), self.dtype, self.fill_value, stype)


@lru_cache(1024)
def _coordinate_dtypes(shape: tuple[int, ...]) -> tuple[np.dtype[Any], ...]:
    return tuple(_INT32 if size <= 2**31 else _INT64 for size in shape)


def known_schema(shape: tuple[int, ...], dims: tuple[str, ...], dtype: np.dtype[Any], fill: Any, stype: str) -> Schema:
    """Return a schema of parts that come of others, and so are known to be allowed."""
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
def _named_through(dims: tuple[str, ...], sources: tuple[int | None, ...]) -> tuple[str, ...]:
    """Return the names of axes: of those along a dimension its own, of others with a number where they are taken."""
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
        raise InvalidValueError(f"fill_value={given!r} is no number of type {dtype}") from None
    if fill.ndim:
        raise InvalidValueError(f"fill_value={given!r}: give one number, which all absent cells have")
    return fill[()]
