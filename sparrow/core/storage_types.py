"""Storage types: which one the result of an operation has, as pure rules, and what is said of a fallback.

A storage type says how a tensor's entries are laid out where they leave sparrow, and what an operation makes of
that layout. ``coo`` takes any fill and any number of dimensions and never falls back. ``csr``, ``csc`` and
``row_sparse``, the *compressed* ones, have fill 0, and a result keeps them where it has the same layout. Where
the rules know no better it is ``dense``: a *fallback*, of which a
:class:`~sparrow.errors.StorageFallbackWarning` tells once for each operation and types. Values do not depend on
storage types, and no array is made for one: a tensor of type ``dense`` stays lazy, and keeps its fill.

The rules are those of MXNet (operator sources of version 1.9), where ``dense`` is called ``default``; ``csc`` is
``csr`` with its axes swapped. At level DEBUG the logger ``sparrow.core.storage_types`` shows every inference::

    logging.getLogger("sparrow.core.storage_types").setLevel(logging.DEBUG)
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from sparrow.core.indexing import Listed, Range, View
from sparrow.errors import InvalidValueError, ShapeError, StorageFallbackWarning

__all__ = [
    "COMPRESSED",
    "STORAGE_TYPES",
    "Inference",
    "check_stype",
    "of_concat",
    "of_dot",
    "of_function",
    "of_other",
    "of_reduction",
    "of_view",
    "settled",
]

STORAGE_TYPES = ("coo", "csr", "csc", "row_sparse", "dense")
"""The storage types."""

COMPRESSED = ("csr", "csc", "row_sparse")
"""Those of fill 0."""

_SWAPPED = {"csr": "csc", "csc": "csr"}
_PLAINLY_DENSE = ("add", "subtract", "divide")
_DOT: dict[tuple[str, str, bool, bool], tuple[str | None, tuple[str, ...]]] = {
    ("csr", "dense", False, False): ("dense", ("dense",)),
    ("csr", "row_sparse", False, False): ("dense", ("dense",)),
    ("csr", "dense", True, False): ("row_sparse", ("row_sparse", "dense")),
    ("csr", "row_sparse", True, False): ("row_sparse", ("row_sparse", "dense")),
    ("dense", "csr", False, False): ("csr", ("csr", "dense")),
    ("dense", "csr", False, True): (None, ("dense",)),
}
"""By operands, and whether each is transposed: the type of a product unless one is asked for, and those to ask for."""

_log = logging.getLogger("sparrow.core.storage_types")
_told: set[tuple[str, ...]] = set()


@dataclass(frozen=True, slots=True)
class Inference:
    """The storage type of a result."""

    stype: str
    fallback: bool = False
    """Whether it is ``dense`` for want of a rule."""


_KNOWN = {stype: Inference(stype) for stype in STORAGE_TYPES}
_DENSE = _KNOWN["dense"]
_FALLBACK = Inference("dense", fallback=True)


def check_stype(stype: str, ndim: int | None = None) -> str:
    """Return a storage type.

    Raises
    ------
    InvalidValueError
        If there is none such.
    ShapeError
        If tensors of ``ndim`` dimensions cannot have it.

    Examples
    --------
    >>> check_stype("csr", ndim=3)
    Traceback (most recent call last):
    sparrow.errors.ShapeError: csr is for two dimensions, got 3: take a slice of two, or use 'coo'
    """
    given: object = stype
    if not isinstance(given, str) or given not in STORAGE_TYPES:
        raise InvalidValueError(f"no storage type {stype!r}: there are {', '.join(map(repr, STORAGE_TYPES))}")
    if ndim is not None:
        if stype in ("csr", "csc") and ndim != 2:
            raise ShapeError(f"{stype} is for two dimensions, got {ndim}: take a slice of two, or use 'coo'")
        if stype == "row_sparse" and ndim < 2:
            raise ShapeError(f"row_sparse is for two dimensions or more, got {ndim}: use 'coo'")
    return stype


def of_function(
    name: str, operands: Sequence[str | None], keeps_zero: bool, broadcast: bool = False, stretched: bool = False
) -> Inference:
    """Return the storage type of a function of cells.

    Parameters
    ----------
    name
        NumPy's name of the function.
    operands
        The storage type of each operand, None for a scalar; an array is "dense".
    keeps_zero
        Whether the result has fill 0: what the function gives where all compressed operands are 0.
    broadcast
        Whether an operand has not the shape of the result.
    stretched
        Whether a compressed operand has not.

    Examples
    --------
    >>> of_function("add", ["csr", "csr"], keeps_zero=True)
    Inference(stype='csr', fallback=False)
    >>> of_function("add", ["csr", "row_sparse"], keeps_zero=True)
    Inference(stype='dense', fallback=True)
    >>> of_function("greater", ["csr", None], keeps_zero=True)
    Inference(stype='csr', fallback=False)
    """
    types = [operand for operand in operands if operand is not None]
    compressed = {stype for stype in types if stype in COMPRESSED}
    if "coo" in types:
        return _KNOWN["coo"]
    if not compressed:
        return _DENSE
    (stype, *others) = sorted(compressed)
    if others:
        return _FALLBACK
    if "dense" in types:
        divided = name == "divide" and broadcast and operands[0] == stype
        if (name == "multiply" or divided) and keeps_zero and not stretched:
            return Inference(stype)
        return _DENSE if name in _PLAINLY_DENSE else _FALLBACK
    if stretched:
        return _FALLBACK
    if keeps_zero:
        return Inference(stype)
    with_scalars = len(types) == 1 and len(operands) > 1
    return _DENSE if with_scalars or name in _PLAINLY_DENSE else _FALLBACK


def of_reduction(stype: str, gone: int) -> Inference:
    """Return the storage type of a reduction that leaves a tensor, ``gone`` being the axes that it lacks.

    Along one axis ``csr`` and ``csc`` plainly give ``dense``; where axes are kept, and of ``row_sparse``, it is a
    fallback.
    """
    if stype not in COMPRESSED:
        return _KNOWN[stype]
    return _DENSE if stype in _SWAPPED and gone == 1 else _FALLBACK


def of_concat(operands: Sequence[str], axis: int) -> Inference:
    """Return the storage type of tensors joined along an axis: ``csr`` stays along axis 0, ``csc`` along axis 1."""
    if "coo" in operands:
        return _KNOWN["coo"]
    if set(operands) == {"dense"}:
        return _DENSE
    for stype, kept in (("csr", 0), ("csc", 1)):
        if set(operands) == {stype} and axis == kept:
            return Inference(stype)
    return _FALLBACK


def of_other(stype: str) -> Inference:
    """Return the storage type of the result of an operation of which there is no rule."""
    return _FALLBACK if stype in COMPRESSED else _KNOWN[stype]


def of_dot(
    left: str, right: str, transpose_left: bool = False, transpose_right: bool = False, wanted: str | None = None
) -> Inference:
    """Return the storage type of the product of two matrices, ``wanted`` being the one asked for.

    What was asked for is the type whether there is a rule or not. A ``csc`` operand is ``csr`` with its flag turned
    round. A product with a NumPy array is an array whatever the type.

    Examples
    --------
    >>> of_dot("csr", "dense", transpose_left=True)
    Inference(stype='row_sparse', fallback=False)
    """
    if left == "csc":
        left, transpose_left = "csr", not transpose_left
    if right == "csc":
        right, transpose_right = "csr", not transpose_right
    rule: tuple[str | None, tuple[str, ...]]
    if "coo" in (left, right):
        rule = ("coo", STORAGE_TYPES)
    elif left == right == "dense":
        rule = ("dense", ("dense",))
    else:
        rule = _DOT.get((left, right, transpose_left, transpose_right), (None, ()))
    unasked, asked = rule
    if wanted is None:
        return _FALLBACK if unasked is None else Inference(unasked)
    return Inference(wanted, fallback=wanted not in asked)


def of_view(stype: str, view: View) -> Inference:
    """Return the storage type of a view of a tensor.

    Slices of step 1 keep it, a list of rows keeps ``csr``, one of columns ``csc``, and swapped axes turn the one into
    the other. Fewer dimensions give ``coo``: a row or a column is a sparse vector. All else is a fallback.

    Examples
    --------
    >>> whole = View.identity((3, 4))
    >>> of_view("csr", whole.then(slice(1, 3))).stype, of_view("csr", whole.permute((1, 0))).stype
    ('csr', 'csc')
    >>> of_view("csr", whole.then(0)).stype, of_view("csr", whole.then(slice(None, None, 2))).stype
    ('coo', 'dense')
    """
    if stype not in COMPRESSED:
        return _KNOWN[stype]
    if view.ndim < len(view.base_shape):
        return Inference("coo")
    dims = []
    for axis in view.axes:
        if isinstance(axis, Range) and axis.step == 1:
            dims.append(axis.dim)
        elif isinstance(axis, Listed) and stype in _SWAPPED:
            group = view.points[axis.group]
            if len(group.shape) != 1 or group.dims != (("csr", "csc").index(stype),):
                return _FALLBACK
            dims.append(group.dims[0])
        else:
            return _FALLBACK
    if dims == sorted(dims):
        return Inference(stype)
    return Inference(_SWAPPED[stype]) if stype in _SWAPPED else _FALLBACK


def settled(operation: str, operands: Sequence[str | None], found: Inference) -> str:
    """Return the storage type that was inferred, having logged it and told of a fallback, once for each of its kind."""
    if found.fallback or _log.isEnabledFor(logging.DEBUG):
        case = (operation, *("scalar" if operand is None else operand for operand in operands))
        _log.debug("%s(%s) -> %s%s", operation, ", ".join(case[1:]), found.stype, " by fallback" * found.fallback)
        if found.fallback and case not in _told:
            warnings.warn(
                f"{operation} of {', '.join(case[1:])} has no rule that keeps a storage type: the result is 'dense', "
                "right in value and still lazy. asformat(...) gives it another type, and tensors of type 'coo' never "
                "fall back",
                StorageFallbackWarning,
                stacklevel=_depth_of_caller(),
            )
            _told.add(case)
    return found.stype


def _depth_of_caller() -> int:
    """Return how many calls up the code is that called sparrow, through NumPy or not."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("sparrow", "numpy"):
        depth, frame = depth + 1, frame.f_back
    return depth
