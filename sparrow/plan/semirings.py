"""Semirings: operations of products, their result dtypes and fill values."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np

from sparrow.core.schema import check_dtype
from sparrow.errors import InvalidValueError, UnsupportedError

__all__ = [
    "PLUS_TIMES",
    "SEMIRINGS",
    "NonzeroProduct",
    "Semiring",
    "as_semiring",
    "for_dtypes",
    "or_as_max",
    "product_dtype",
    "result_fill",
]  # fmt: skip

_Operation: TypeAlias = "str | Callable[[Any, Any], Any]"

_ADD = ("plus", "min", "max", "or", "any")
_MULTIPLY = ("times", "plus", "min", "max", "and", "first", "second", "pair")
_ORDERED = ("min", "max")


@dataclass(frozen=True, slots=True)
class NonzeroProduct:
    """Operand of "or": 1 where the product of two numbers differs from 0."""

    of: _Operation

    def __call__(self, a: Any, b: Any) -> Any:
        """Return the truth of products of numbers or arrays."""
        return (self.of if callable(self.of) else _UFUNCS[self.of])(a, b) != 0


_UFUNCS: dict[str, Callable[[Any, Any], Any]] = {
    "times": np.multiply, "plus": np.add, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
"""Operations whose truth does not follow from the truth of both numbers."""


@dataclass(frozen=True, slots=True)
class Semiring:
    """Addition and multiplication of a product in place of plus and times.

    Parameters
    ----------
    add
        "plus", "min", "max", "or", "any" (an arbitrary operand), or a function of two numbers.
    multiply
        "times", "plus", "min", "max", "and", "first", "second", "pair" (always 1), or a function of two numbers.
    identity
        The identity of ``add``: the fill of results. None for the identity of a named ``add``.
    name
        A name for messages and plans.
    associative
        Whether products of several tensors may be reordered: ``multiply`` must be associative and commutative and
        distribute over ``add``. Ignored with "first" and "second", which distinguish their operands.

    Raises
    ------
    InvalidValueError
        If an operation is unknown, or the identity is not a number.

    Notes
    -----
    A function is compiled by Numba when it is first used in a process, and called for each product; named operations
    are compiled into the kernels. Absent elements of an operand are ignored, whatever its fill.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> widest = sp.Semiring(max, min, identity=0, name="widest path")
    >>> pipes = sp.asarray(np.array([[0, 5, 2], [0, 0, 4], [0, 0, 0]]))
    >>> sp.matmul(pipes, pipes, semiring=widest).to_numpy()
    array([[0, 0, 4],
           [0, 0, 0],
           [0, 0, 0]])
    """

    add: _Operation
    multiply: _Operation
    identity: Any
    name: str | None = None
    associative: bool = False

    def __post_init__(self) -> None:
        if self.identity is not None and not isinstance(self.identity, Number | np.bool_):
            raise InvalidValueError(f"Semiring: identity must be a number, got {self.identity!r}")
        for what, given, known in (("add", self.add, _ADD), ("multiply", self.multiply, _MULTIPLY)):
            if not callable(given) and given not in known:
                raise InvalidValueError(
                    f"Semiring: {what} must be a function of two numbers or one of {', '.join(known)}, got {given!r}"
                )
            if isinstance(given, FunctionType) and given.__module__ is None:
                object.__setattr__(self, what, _of_a_module(given))

    def __str__(self) -> str:
        return self.name or f"{_operation_name(self.add)}_{_operation_name(self.multiply)}"

    @property
    def plain(self) -> bool:
        """True if it is plus and times: absent elements then count as 0."""
        ordinary = self.identity is None or self.identity == 0
        return self.add == "plus" and self.multiply == "times" and ordinary

    @property
    def reorderable(self) -> bool:
        """True if products of several tensors may be reordered."""
        return self.associative and self.multiply not in ("first", "second")

    @property
    def mixes(self) -> bool:
        """True if products have the promoted dtype of both operands."""
        return self.add != "or" and (callable(self.multiply) or self.multiply in ("times", "plus", "min", "max"))


@functools.lru_cache(maxsize=64)
def _of_a_module(function: FunctionType) -> FunctionType:
    """Return a function made by ``eval`` with a module, which Numba needs."""
    found = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    found.__module__ = "__main__"
    return found


def or_as_max(semiring: Semiring) -> Semiring:
    """Replace "or" of products by "max" of their truth, if necessary."""
    if semiring.add != "or" or not (callable(semiring.multiply) or semiring.multiply in _UFUNCS):
        return semiring
    identity = False if semiring.identity is None else semiring.identity
    return Semiring("max", NonzeroProduct(semiring.multiply), identity, str(semiring), semiring.associative)


def for_dtypes(semiring: Semiring, dtypes: Sequence[np.dtype[Any]]) -> Semiring:
    """Return a semiring for dtypes; unsigned max_plus cannot be reordered."""
    if (semiring.add, semiring.multiply) == ("max", "plus") and np.result_type(*dtypes).kind in "bu":
        return replace(semiring, associative=False)
    return semiring


def product_dtype(semiring: Semiring, left: np.dtype[Any], right: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of products of two dtypes.

    Raises
    ------
    UnsupportedError
        If the semiring is not defined for them.
    """
    add, multiply = semiring.add, semiring.multiply
    both = np.result_type(left, right)
    if callable(add) or callable(multiply):
        return _probe_dtype(semiring, left, right)
    if both.kind == "c" and (add in _ORDERED or multiply in _ORDERED):
        raise UnsupportedError(f"semiring {semiring}: complex numbers have no order")
    if add == "or" or multiply == "and":
        return np.dtype(bool)
    if multiply == "pair":
        return np.dtype(np.int64) if add == "plus" else both
    return {"first": left, "second": right}.get(multiply, both)


def _probe_dtype(semiring: Semiring, left: np.dtype[Any], right: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a user's functions, called with ones."""
    add, multiply = semiring.add, semiring.multiply
    try:
        with np.errstate(all="ignore"):
            if callable(multiply):
                product = np.asarray(multiply(left.type(1), right.type(1))).dtype
            else:
                product = product_dtype(Semiring("plus", multiply, 0), left, right)
            if callable(add):
                one = product.type(1)
                product = np.result_type(product, np.asarray(add(one, one)).dtype)
            return check_dtype(product)
    except (TypeError, ValueError, AttributeError) as error:
        raise UnsupportedError(f"semiring {semiring} does not take {left} and {right}: {error}") from error


def result_fill(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return the fill value of results of a dtype.

    Raises
    ------
    InvalidValueError
        If the additive identity is unknown, or not a value of the dtype.
    """
    if semiring.identity is not None:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the imaginary part, which is checked below
            try:
                found = np.asarray(semiring.identity).astype(dtype)[()]
            except (OverflowError, TypeError):
                found = None
        if found is None or not _is_same_number(found, semiring.identity):
            raise InvalidValueError(
                f"semiring {semiring}: identity must be a value of {dtype}, got {semiring.identity!r}"
            )
        return found
    if callable(semiring.add):
        raise InvalidValueError(
            f"semiring {semiring} has no identity, the fill value of results: pass "
            "Semiring(add, multiply, identity=...)"
        )
    if semiring.add not in _ORDERED:
        return dtype.type(0)
    least = semiring.add == "max"
    if dtype.kind == "b":
        return np.bool_(not least)
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min if least else np.iinfo(dtype).max)
    return dtype.type(-np.inf if least else np.inf)


def _is_same_number(found: Any, given: Any) -> bool:
    """Return whether a number survived a cast, for floats up to rounding."""
    if given != given:
        return bool(found != found)
    if found.dtype.kind in "fc" and np.isfinite(found):
        return bool(found.dtype.kind == "c" or np.imag(given) == 0)
    return bool(found.item() == given)


def _operation_name(operation: _Operation) -> str:
    return operation if isinstance(operation, str) else getattr(operation, "__name__", "a function")


PLUS_TIMES = Semiring("plus", "times", None, "plus_times", associative=True)
"""The semiring of ordinary products."""

_NAMES = {
    "min_plus": ("min", "plus"), "max_plus": ("max", "plus"), "max_times": ("max", "times"),
    "min_max": ("min", "max"), "or_and": ("or", "and"), "any_pair": ("any", "pair"),
    "plus_first": ("plus", "first"), "plus_second": ("plus", "second"), "plus_pair": ("plus", "pair"),
}  # fmt: skip

SEMIRINGS = {"plus_times": PLUS_TIMES} | {
    name: Semiring(add, multiply, None, name, associative=name in ("min_plus", "max_plus", "min_max", "or_and"))
    for name, (add, multiply) in _NAMES.items()
}
"""The semirings by name."""


def as_semiring(given: Any) -> Semiring:
    """Return a semiring by name, or a ``Semiring`` as it is.

    Raises
    ------
    InvalidValueError
        If the name is unknown.
    """
    if isinstance(given, Semiring):
        return given
    if not isinstance(given, str) or given not in SEMIRINGS:
        raise InvalidValueError(
            f"semiring must be one of {', '.join(map(repr, SEMIRINGS))} or an sp.Semiring, got {given!r}"
        )
    return SEMIRINGS[given]
