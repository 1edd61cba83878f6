"""Storage types: rules that infer the type of the result of an operation.

A storage type is the layout in which a tensor leaves sparrow. ``coo`` supports any fill value and number of
dimensions and never falls back. The *compressed* types ``csr``, ``csc`` and ``row_sparse`` have fill 0; results with
the same layout keep them. Without a rule the result is ``dense``: a *fallback*, reported by one
:class:`~sparrow.errors.StorageFallbackWarning` per operation and operand types. Values never depend on storage types,
and nothing is materialized: a tensor of type ``dense`` stays lazy and keeps its fill value.

The rules are those of MXNet 1.9 (operator sources), where ``dense`` is named ``default``; ``csc`` is ``csr`` with
swapped axes. The logger ``sparrow.stypes`` reports every inference at level DEBUG::

    logging.getLogger("sparrow.stypes").setLevel(logging.DEBUG)
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from sparrow.core.indexing import ListAxis, RangeAxis, View
from sparrow.errors import ShapeError, StorageFallbackWarning
from sparrow.runtime.validation import check_choice

__all__ = [
    "COMPRESSED",
    "STORAGE_TYPES",
    "Inference",
    "check_stype",
    "infer_concat",
    "infer_dot",
    "infer_function",
    "infer_other",
    "infer_reduction",
    "infer_view",
    "reset_warnings",
    "resolve_stype",
]

STORAGE_TYPES = ("coo", "csr", "csc", "row_sparse", "dense")
"""All storage types."""

COMPRESSED = ("csr", "csc", "row_sparse")
"""Storage types that require fill 0."""

_SWAPPED = {"csr": "csc", "csc": "csr"}
_DENSE_FUNCTIONS = ("add", "subtract", "divide")
_DOT: dict[tuple[str, str, bool, bool], tuple[str | None, tuple[str, ...]]] = {
    ("csr", "dense", False, False): ("dense", ("dense",)),
    ("csr", "row_sparse", False, False): ("dense", ("dense",)),
    ("csr", "dense", True, False): ("row_sparse", ("row_sparse", "dense")),
    ("csr", "row_sparse", True, False): ("row_sparse", ("row_sparse", "dense")),
    ("dense", "csr", False, False): ("csr", ("csr", "dense")),
    ("dense", "csr", False, True): (None, ("dense",)),
}
"""(lhs, rhs, transpose_lhs, transpose_rhs) -> (default type of the product or None, types that can be requested)."""

_log = logging.getLogger("sparrow.stypes")
_warned: set[tuple[str, ...]] = set()


@dataclass(frozen=True, slots=True)
class Inference:
    """Inferred storage type of a result."""

    stype: str
    fallback: bool = False
    """True if the type is ``dense`` because no rule applies."""


_KNOWN = {stype: Inference(stype) for stype in STORAGE_TYPES}
_DENSE = _KNOWN["dense"]
_FALLBACK = Inference("dense", fallback=True)


def check_stype(stype: str, ndim: int | None = None) -> str:
    """Return a valid storage type.

    Raises
    ------
    InvalidValueError
        If ``stype`` is not one of :data:`STORAGE_TYPES`.
    ShapeError
        If it does not support ``ndim`` dimensions.

    Examples
    --------
    >>> check_stype("csr", ndim=3)
    Traceback (most recent call last):
    sparrow.errors.ShapeError: storage type csr requires 2 dimensions, got 3: use 'coo', or a 2-D slice
    """
    check_choice("storage type", stype, STORAGE_TYPES)
    if ndim is not None:
        if stype in ("csr", "csc") and ndim != 2:
            raise ShapeError(f"storage type {stype} requires 2 dimensions, got {ndim}: use 'coo', or a 2-D slice")
        if stype == "row_sparse" and ndim < 2:
            raise ShapeError(f"storage type row_sparse requires at least 2 dimensions, got {ndim}: use 'coo'")
    return stype


def infer_function(
    name: str,
    operands: Sequence[str | None],
    keeps_zero: bool,
    any_broadcast: bool = False,
    compressed_broadcast: bool = False,
) -> Inference:
    """Infer the storage type of an element-wise function.

    Parameters
    ----------
    name
        NumPy's name of the function.
    operands
        Storage type of each operand; None for a scalar, "dense" for an array.
    keeps_zero
        Whether the function is 0 where all compressed operands are 0.
    any_broadcast
        Whether any operand is broadcast.
    compressed_broadcast
        Whether a compressed operand is broadcast.

    Examples
    --------
    >>> infer_function("add", ["csr", "csr"], keeps_zero=True)
    Inference(stype='csr', fallback=False)
    >>> infer_function("add", ["csr", "row_sparse"], keeps_zero=True)
    Inference(stype='dense', fallback=True)
    >>> infer_function("greater", ["csr", None], keeps_zero=True)
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
        divided = name == "divide" and any_broadcast and operands[0] == stype
        if (name == "multiply" or divided) and keeps_zero and not compressed_broadcast:
            return Inference(stype)
        return _DENSE if name in _DENSE_FUNCTIONS else _FALLBACK
    if compressed_broadcast:
        return _FALLBACK
    if keeps_zero:
        return Inference(stype)
    with_scalars = len(types) == 1 and len(operands) > 1
    return _DENSE if with_scalars or name in _DENSE_FUNCTIONS else _FALLBACK


def infer_reduction(stype: str, num_removed: int) -> Inference:
    """Infer the storage type of a reduction that removes ``num_removed`` axes.

    Removing one axis of ``csr`` or ``csc`` gives ``dense`` by rule; other reductions of compressed types fall back.
    """
    if stype not in COMPRESSED:
        return _KNOWN[stype]
    return _DENSE if stype in _SWAPPED and num_removed == 1 else _FALLBACK


def infer_concat(operands: Sequence[str], axis: int) -> Inference:
    """Infer the storage type of a concatenation.

    ``csr`` stays ``csr`` along axis 0, ``csc`` stays ``csc`` along axis 1.
    """
    if "coo" in operands:
        return _KNOWN["coo"]
    if set(operands) == {"dense"}:
        return _DENSE
    for stype, major_axis in (("csr", 0), ("csc", 1)):
        if set(operands) == {stype} and axis == major_axis:
            return Inference(stype)
    return _FALLBACK


def infer_other(stype: str) -> Inference:
    """Infer the storage type of an operation without a rule: compressed falls back."""
    return _FALLBACK if stype in COMPRESSED else _KNOWN[stype]


def infer_dot(
    left: str, right: str, transpose_left: bool = False, transpose_right: bool = False, requested: str | None = None
) -> Inference:
    """Infer the storage type of a matrix product.

    A ``requested`` type is always the result, as a fallback if there is no rule. ``csc`` counts as transposed ``csr``.

    Examples
    --------
    >>> infer_dot("csr", "dense", transpose_left=True)
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
    default, supported = rule
    if requested is None:
        return _FALLBACK if default is None else Inference(default)
    return Inference(requested, fallback=requested not in supported)


def infer_view(stype: str, view: View) -> Inference:
    """Infer the storage type of a view.

    Slices of step 1 keep the type, lists of rows keep ``csr``, lists of columns ``csc``, and a transpose swaps the two.
    Dropping dimensions gives ``coo``, as a row or column is a sparse vector. Everything else falls back.

    Examples
    --------
    >>> whole = View.identity((3, 4))
    >>> infer_view("csr", whole.then(slice(1, 3))).stype, infer_view("csr", whole.permute((1, 0))).stype
    ('csr', 'csc')
    >>> infer_view("csr", whole.then(0)).stype, infer_view("csr", whole.then(slice(None, None, 2))).stype
    ('coo', 'dense')
    """
    if stype not in COMPRESSED:
        return _KNOWN[stype]
    if view.ndim < len(view.base_shape):
        return Inference("coo")
    dims = []
    for axis in view.axes:
        if isinstance(axis, RangeAxis) and axis.step == 1:
            dims.append(axis.dim)
        elif isinstance(axis, ListAxis) and stype in _SWAPPED:
            group = view.points[axis.group]
            if len(group.shape) != 1 or group.dims != (("csr", "csc").index(stype),):
                return _FALLBACK
            dims.append(group.dims[0])
        else:
            return _FALLBACK
    if dims == sorted(dims):
        return Inference(stype)
    return Inference(_SWAPPED[stype]) if stype in _SWAPPED else _FALLBACK


def resolve_stype(operation: str, operands: Sequence[str | None], inference: Inference) -> str:
    """Return the inferred storage type, log it, and warn of a fallback.

    Each operation and operand types warn once.
    """
    if inference.fallback or _log.isEnabledFor(logging.DEBUG):
        case = (operation, *("scalar" if operand is None else operand for operand in operands))
        suffix = " by fallback" if inference.fallback else ""
        _log.debug("%s(%s) -> %s%s", operation, ", ".join(case[1:]), inference.stype, suffix)
        if inference.fallback and case not in _warned:
            warnings.warn(
                f"{operation} of {', '.join(case[1:])} has no storage type rule: the result is 'dense', with correct "
                "values and still lazy. Convert it with asformat(...), or use tensors of type 'coo', which never "
                "fall back",
                StorageFallbackWarning,
                stacklevel=_caller_stack_level(),
            )
            _warned.add(case)
    return inference.stype


def reset_warnings() -> None:
    """Warn again of fallbacks that already warned."""
    _warned.clear()


def _caller_stack_level() -> int:
    """Return the stack level of the first frame outside sparrow and NumPy."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("sparrow", "numpy"):
        depth, frame = depth + 1, frame.f_back
    return depth
