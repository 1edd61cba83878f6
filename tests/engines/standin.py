"""Stand-in device of NumPy and SciPy that behaves like CuPy where the two differ.

Its arrays do not convert to NumPy's, and its functions reject NumPy's arrays, as on a GPU. It has names of CuPy 14
only, and rejects arguments that CuPy rejects.
"""

from __future__ import annotations

import operator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

UFUNCS = [
    "absolute", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "bitwise_and",
    "bitwise_or", "bitwise_xor", "cbrt", "ceil", "copysign", "cos", "cosh", "divide", "equal", "exp", "exp2",
    "expm1", "floor", "fmax", "fmin", "greater", "greater_equal", "hypot", "invert", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "multiply", "negative", "not_equal", "rint", "sign", "sin", "sinh", "sqrt",
    "square", "subtract", "tan", "tanh", "trunc"
]  # fmt: skip
FUNCTIONS = [
    "arange", "argsort", "concatenate", "cumsum", "empty", "flatnonzero", "full", "matmul", "ones", "searchsorted",
    "unique", "where", "zeros"
]  # fmt: skip
ATTRIBUTES = [
    "all", "any", "astype", "dtype", "imag", "max", "min", "ndim", "real", "reshape", "shape", "size", "sum",
    "transpose", "view"
]  # fmt: skip
MATRIX = [
    "data", "indices", "indptr"
]  # fmt: skip
"""CuPy's names that the engine uses: ufuncs, other functions, attributes of arrays and of sparse matrices."""

_ADDED = ("float32", "float64", "int32", "uint32", "uint64")
_SPARSE = ("bool", "float32", "float64", "complex64", "complex128")


class Array:
    """An array that lives elsewhere."""

    __array_ufunc__ = None
    __array_priority__ = 1000.0

    def __init__(self, host: NDArray[Any], most: int | None) -> None:
        if most is not None and host.nbytes > most:
            raise MemoryError(f"out of memory: {host.nbytes} bytes")
        object.__setattr__(self, "_host", host)
        object.__setattr__(self, "_most", most)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __getattr__(self, name: str) -> Any:
        if name not in ATTRIBUTES:
            raise AttributeError(f"{name} is not among the attributes of CuPy's arrays that are looked at")
        found = getattr(self._host, name)
        return _wrap(found, self._most) if isinstance(found, np.ndarray) or callable(found) else found

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in ("real", "imag")
        setattr(self._host, name, _host(value))

    def __getitem__(self, key: Any) -> Any:
        return _wrap(self._host[_host(key)], self._most)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[_host(key)] = _host(value)

    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __invert__(self) -> Any:
        return _wrap(~self._host, self._most)


def _operators() -> None:
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "lt",
        "gt",
        "eq",
        "ne",
        "and_",
        "or_",
        "lshift",
        "rshift",
    ):
        plain = getattr(operator, name)
        spelled = name.rstrip("_")

        def forward(self: Array, other: Any, plain: Any = plain) -> Any:
            with np.errstate(all="ignore"):
                return _wrap(plain(self._host, _host(other)), self._most)

        def backward(self: Array, other: Any, plain: Any = plain) -> Any:
            with np.errstate(all="ignore"):
                return _wrap(plain(_host(other), self._host), self._most)

        setattr(Array, f"__{spelled}__", forward)
        if name not in ("lt", "gt", "eq", "ne"):
            setattr(Array, f"__r{spelled}__", backward)


_operators()


class Matrix:
    """A matrix of compressed rows that lives elsewhere."""

    def __init__(self, parts: Any, shape: tuple[int, int] | None = None, most: int | None = None) -> None:
        self._most = most
        if shape is None:
            self._host: Any = parts
            return
        data, indices, indptr = (_host(part) for part in parts)
        if str(data.dtype) not in _SPARSE:
            raise ValueError(f"Only bool, float32, float64, complex64 and complex128 are supported, not {data.dtype}")
        assert indices.dtype == indptr.dtype == np.int32
        assert max(shape) < 2**31
        self._host = scipy.sparse.csr_matrix((data, indices, indptr), shape=shape)

    def __getattr__(self, name: str) -> Any:
        if name not in MATRIX:
            raise AttributeError(f"{name} is not among the attributes of cupyx's matrices that are looked at")
        return Array(getattr(self._host, name), self._most)

    def __matmul__(self, other: Any) -> Any:
        with np.errstate(all="ignore"):
            if isinstance(other, Matrix):
                assert self._host.dtype == other._host.dtype
                return Matrix(self._host @ other._host, most=self._most)
            assert isinstance(other, Array)
            assert self._host.dtype == other._host.dtype
            return Array(self._host @ other._host, self._most)


def _host(given: Any) -> Any:
    """Return the host array of an argument; NumPy's own arrays are rejected."""
    if isinstance(given, Array):
        return given._host
    if isinstance(given, tuple | list):
        return type(given)(map(_host, given))
    if isinstance(given, np.ndarray):
        raise TypeError(f"Unsupported type {type(given)}")
    return given


def _wrap(found: Any, most: int | None) -> Any:
    if callable(found) and not isinstance(found, type):

        def call(*args: Any, **kwargs: Any) -> Any:
            with np.errstate(all="ignore"):
                return _wrap(found(*map(_host, args), **kwargs), most)

        return call
    if isinstance(found, tuple):
        return tuple(_wrap(one, most) for one in found)
    return Array(np.asarray(found), most) if isinstance(found, np.ndarray | np.generic) else found


class _Add:
    """``cupy.add``, with ``add.at`` for the dtypes of atomic additions."""

    def __init__(self, most: int | None) -> None:
        self._call = _wrap(np.add, most)

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def at(self, array: Array, at: Array, values: Array) -> None:
        if str(array.dtype) not in _ADDED or array.dtype != values.dtype:
            raise TypeError(f"cupy.add.at does not support {array.dtype}")
        with np.errstate(all="ignore"):
            np.add.at(_host(array), _host(at), _host(values))


class Namespace:
    """The names of CuPy that are used, by NumPy."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.add = _Add(most)

    def __getattr__(self, name: str) -> Any:
        if name not in (*UFUNCS, *FUNCTIONS):
            raise AttributeError(f"cupy.{name} is not among the names that are used")
        return _wrap(getattr(np, name), self._most)

    def argsort(self, array: Array) -> Any:
        """Return the stable order, the only one that CuPy has."""
        assert array.ndim == 1
        return Array(np.argsort(_host(array), kind="stable"), self._most)

    def searchsorted(self, among: Array, values: Array, side: str = "left") -> Any:
        """Return places; CuPy wants arrays of one type."""
        assert among.dtype == values.dtype
        return Array(np.searchsorted(_host(among), _host(values), side), self._most)  # type: ignore[call-overload]


class StandIn:
    """A device of the processor.

    Parameters
    ----------
    room
        The bytes of memory that it says are free.
    most
        The bytes of the largest array that it has room for; any by default.
    """

    def __init__(self, room: int = 1 << 30, most: int | None = None) -> None:
        self.bytes, self._most = room, most
        self.xp: Any = Namespace(most)
        self.sparse: Any = SimpleNamespace(csr_matrix=lambda parts, shape: Matrix(parts, shape, most))
        self.puts = self.released = 0

    def put(self, array: NDArray[Any]) -> Array:
        """Return a copy over there."""
        assert isinstance(array, np.ndarray)
        self.puts += 1
        return Array(array.copy(), self._most)

    def get(self, array: Array) -> NDArray[Any]:
        """Return a copy over here."""
        assert isinstance(array, Array)
        found: NDArray[Any] = array._host.copy()
        return found

    def solve(self, matrices: Array, vectors: Array) -> Array:
        """Solve stacks of systems of one dtype, one right-hand side each."""
        assert matrices.dtype == vectors.dtype
        assert (matrices.ndim, vectors.ndim) == (3, 2)
        assert matrices.size
        left, right = _host(matrices), _host(vectors)
        np.linalg.cholesky(left)
        return Array(np.linalg.solve(left, right[:, :, None])[:, :, 0], self._most)

    def room(self) -> int:
        """Return the memory that is free."""
        return self.bytes

    def is_exhausted(self, error: Exception) -> bool:
        """Return whether an error says that there is too little memory."""
        return isinstance(error, MemoryError)

    def release(self) -> None:
        """Count."""
        self.released += 1

    def here(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()
