"""Semirings: what a product adds and multiplies with, and the types and the fill that come of it."""

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
    """Whether the product of two numbers is not 0: what "or" adds up."""

    of: _Operation

    def __call__(self, a: Any, b: Any) -> Any:
        """Return it of numbers or arrays of NumPy."""
        return (self.of if callable(self.of) else _PRODUCTS[self.of])(a, b) != 0


_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "times": np.multiply, "plus": np.add, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
"""Those whose truth does not come of the truth of both numbers."""


@dataclass(frozen=True, slots=True)
class Semiring:
    """What a product adds and multiplies with in place of plus and times.

    Parameters
    ----------
    add
        "plus", "min", "max", "or", "any" (one of them, whichever), or a function of two numbers.
    multiply
        "times", "plus", "min", "max", "and", "first", "second", "pair" (1, whatever the two are), or a function.
    identity
        What ``add`` leaves as it is: the fill of results. None where a named ``add`` has one.
    name
        What people call it.
    associative
        Whether products of several tensors may be done in any order, which needs ``multiply`` to be associative and
        commutative and to distribute over ``add``. With "first" and "second" they never are: these tell their operands
        apart.

    Raises
    ------
    InvalidValueError
        If an operation is none, or the identity no number.

    Notes
    -----
    A function is compiled by Numba when it is first used in a process, and called for each product; named operations
    are part of the loops. An absent cell of an operand is no entry, whatever its fill, and takes no part.

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
            raise InvalidValueError(f"Semiring: identity={self.identity!r} must be a number")
        for what, given, known in (("add", self.add, _ADD), ("multiply", self.multiply, _MULTIPLY)):
            if not callable(given) and given not in known:
                raise InvalidValueError(
                    f"Semiring: {what}={given!r} must be a function of two numbers or one of {', '.join(known)}"
                )
            if isinstance(given, FunctionType) and given.__module__ is None:
                object.__setattr__(self, what, _of_a_module(given))

    def __str__(self) -> str:
        return self.name or f"{_called(self.add)}_{_called(self.multiply)}"

    @property
    def plain(self) -> bool:
        """Whether it is plus and times: absent cells then are cells that hold 0."""
        ordinary = self.identity is None or self.identity == 0
        return self.add == "plus" and self.multiply == "times" and ordinary

    @property
    def reorderable(self) -> bool:
        """Whether products of several tensors may be done in any order."""
        return self.associative and self.multiply not in ("first", "second")

    @property
    def mixes(self) -> bool:
        """Whether the type of products is that of both operands, not of one of them or a type of its own."""
        return self.add != "or" and (callable(self.multiply) or self.multiply in ("times", "plus", "min", "max"))


@functools.lru_cache(maxsize=64)
def _of_a_module(function: FunctionType) -> FunctionType:
    """Return a function made by ``eval`` or ``exec`` in a module, which compiling looks for."""
    found = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    found.__module__ = "__main__"
    return found


def or_as_max(semiring: Semiring) -> Semiring:
    """Return what loops add up: the truth of products in place of "or" of them, where it does not come of operands'."""
    if semiring.add != "or" or not (callable(semiring.multiply) or semiring.multiply in _PRODUCTS):
        return semiring
    identity = False if semiring.identity is None else semiring.identity
    return Semiring("max", NonzeroProduct(semiring.multiply), identity, str(semiring), semiring.associative)


def for_dtypes(semiring: Semiring, dtypes: Sequence[np.dtype[Any]]) -> Semiring:
    """Return a semiring for types: "max" of sums, of which 0 is the least, loses paths of 0 between two steps."""
    if (semiring.add, semiring.multiply) == ("max", "plus") and np.result_type(*dtypes).kind in "bu":
        return replace(semiring, associative=False)
    return semiring


def product_dtype(semiring: Semiring, left: np.dtype[Any], right: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of products of two types.

    Raises
    ------
    UnsupportedError
        If there is none.
    """
    add, multiply = semiring.add, semiring.multiply
    both = np.result_type(left, right)
    if callable(add) or callable(multiply):
        return _tried(semiring, left, right)
    if both.kind == "c" and (add in _ORDERED or multiply in _ORDERED):
        raise UnsupportedError(f"semiring {semiring}: complex numbers have no order")
    if add == "or" or multiply == "and":
        return np.dtype(bool)
    if multiply == "pair":
        return np.dtype(np.int64) if add == "plus" else both
    return {"first": left, "second": right}.get(multiply, both)


def _tried(semiring: Semiring, left: np.dtype[Any], right: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that a user's functions give of ones."""
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
    """Return the fill of results of a type.

    Raises
    ------
    InvalidValueError
        If the additive identity is not known.
    """
    if semiring.identity is not None:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the imaginary part, which is looked at below
            try:
                found = np.asarray(semiring.identity).astype(dtype)[()]
            except (OverflowError, TypeError):
                found = None
        if found is None or not _stands_for(found, semiring.identity):
            raise InvalidValueError(f"semiring {semiring}: identity={semiring.identity!r} is no value of {dtype}")
        return found
    if callable(semiring.add):
        raise InvalidValueError(
            f"semiring {semiring} has no identity, which absent cells of the result hold: say "
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


def _stands_for(found: Any, given: Any) -> bool:
    """Return whether a number cast to a type is still that number, of floats to rounding."""
    if given != given:
        return bool(found != found)
    if found.dtype.kind in "fc" and np.isfinite(found):
        return bool(found.dtype.kind == "c" or np.imag(given) == 0)
    return bool(found.item() == given)


def _called(operation: _Operation) -> str:
    return operation if isinstance(operation, str) else getattr(operation, "__name__", "a function")


PLUS_TIMES = Semiring("plus", "times", None, "plus_times", associative=True)
"""The products of arrays."""

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
    """Return a semiring by its name, or as it is given.

    Raises
    ------
    InvalidValueError
        If there is none of that name.
    """
    if isinstance(given, Semiring):
        return given
    if not isinstance(given, str) or given not in SEMIRINGS:
        raise InvalidValueError(
            f"semiring={given!r}: use one of {', '.join(map(repr, SEMIRINGS))} or an sp.Semiring of your own"
        )
    return SEMIRINGS[given]
