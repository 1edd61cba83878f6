"""Public functions give equal results, or raise, whatever the order of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import LabelError, SparrowError
from tests.properties.label_calls import (
    ALONE,
    CALLS,
    OPERATORS,
    SIZES,
    SQUARE,
    Call,
    Operand,
    dimension,
    public_names,
    vocabulary,
)

LIBRARIES = ("pandas", "xarray")
CASES = [(name, number) for name, calls in CALLS.items() for number in range(len(calls))]

PARTIAL_CASES = [(name, number, operand) for name, number in CASES for operand in CALLS[name][number].partial]


def make_operand(spec: str, number: int, orders: dict[str, Any], labelled: bool = True) -> sp.Tensor:
    """Return an operand whose dimensions are in given orders of their labels."""
    operand = Operand(spec)
    dense = operand.dense(number)
    labels: dict[str, list[str]] = {}
    for axis, dim in enumerate(operand.dims):
        order = orders.get(vocabulary(dim), range(SIZES[vocabulary(dim)]))
        dense = dense.take(list(order), axis)
        labels[dimension(dim)] = [f"{vocabulary(dim)}{at}" for at in order]
    return sp.asarray(dense, dims=list(labels), labels=labels if labelled else None)


def run(one: Call, orders: dict[int, dict[str, Any]], unlabelled: int | None = None) -> Any:
    """Return the result of a call with some operands in other orders."""
    given_operands = [
        make_operand(spec, number, orders.get(number, {}), number != unlabelled)
        for number, spec in enumerate(one.specs)
    ]
    with np.errstate(all="ignore"):
        return to_canonical(one.function(*given_operands))


def to_canonical(found: Any) -> Any:
    """Return elements as nested lists, labelled axes in ascending order."""
    if isinstance(found, sp.Tensor):
        for axis in range(found.ndim):
            labels = found.labels(axis)
            if labels is not None and len(set(labels.to_pylist())) == len(labels):
                found = sp.take(found, np.argsort(labels.to_pylist()), axis)
        return found.to_numpy().tolist()
    if isinstance(found, np.ndarray | np.generic):
        return found.tolist()
    if isinstance(found, sp.formats.Container if hasattr(sp.formats, "Container") else ()):
        return sp.asarray(found).to_numpy().tolist()
    if isinstance(found, list | tuple):
        return [to_canonical(one) for one in found]
    return {name: to_canonical(one) for name, one in found.items()} if isinstance(found, dict) else found


def are_equal(one: Any, other: Any) -> bool:
    """Return whether nested results are equal up to rounding."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(are_equal(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, str) or one is None or isinstance(other, str | list | dict) or other is None:
        return bool(one == other)
    return bool(np.isclose(one, other, rtol=1e-5, atol=1e-8, equal_nan=True))


def shared_vocabularies(one: Call, number: int) -> list[str]:
    """Return the vocabularies that an operand shares with another one."""
    others = {vocabulary(dim) for k, spec in enumerate(one.specs) if k != number for dim in Operand(spec).dims}
    return [name for name in dict.fromkeys(map(vocabulary, Operand(one.specs[number]).dims)) if name in others]


def test_every_public_function_is_known() -> None:
    names = set(public_names())
    unknown = sorted(names - CALLS.keys() - ALONE.keys())
    assert not unknown, f"functions that can take two tensors are in neither CALLS nor ALONE: {unknown}"
    assert not sorted((CALLS.keys() | ALONE.keys()) - names - {"sp.Tensor.__rmatmul__"})
    assert not CALLS.keys() & ALONE.keys()


@pytest.mark.parametrize(("name", "number"), CASES)
def test_inputs_of_calls_depend_on_positions(name: str, number: int) -> None:
    one = CALLS[name][number]
    expected = run(one, {})
    for operand in one.varied:
        for shared in shared_vocabularies(one, operand):
            orders = {operand: {shared: np.roll(np.arange(SIZES[shared]), 1)}}
            try:
                found = run(one, orders, unlabelled=operand)
            except SparrowError:
                continue
            assert not are_equal(found, expected), f"operand {operand} of {name} may have its {shared} in any order"


@pytest.mark.parametrize(("name", "number"), CASES)
@settings(max_examples=4)
@given(data=st.data())
def test_results_do_not_depend_on_the_order_of_labels(name: str, number: int, data: st.DataObject) -> None:
    one = CALLS[name][number]
    expected = run(one, {})
    orders: dict[int, dict[str, Any]] = {}
    for operand in one.varied:
        for shared in shared_vocabularies(one, operand):
            order = data.draw(st.permutations(range(SIZES[shared])), label=f"{shared} of operand {operand}")
            orders.setdefault(operand, {})[shared] = order
    is_reordered = any(sorted(order) != list(order) for each in orders.values() for order in each.values())
    if one.raises and is_reordered:
        with pytest.raises(SparrowError, match=r"label|order"):
            run(one, orders)
    else:
        assert are_equal(run(one, orders), expected)


def to_foreign(tensor: sp.Tensor, library: str) -> Any:
    """Return a tensor as an object of another library with its labels."""
    axes: list[Any] = [tensor.labels(axis) for axis in range(tensor.ndim)]
    labels = [axis.to_pylist() for axis in axes]
    if library == "xarray":
        module = pytest.importorskip("xarray")
        return module.DataArray(tensor.to_numpy(), dims=tensor.dims, coords=dict(zip(tensor.dims, labels, strict=True)))
    kind = pytest.importorskip("pandas")
    return kind.Series(tensor.to_numpy(), *labels) if tensor.ndim == 1 else kind.DataFrame(tensor.to_numpy(), *labels)


BY_LIBRARY = {
    **{f"sp.Tensor.__r{name}__": ["xarray"] for name in OPERATORS},  # their own operator comes first
    "np.vecmat": ["xarray"],
    # the call itself uses the object
    **dict.fromkeys(("sp.Tensor.__setitem__ 3", "sp.Tensor.__setitem__ 4", "sp.Tensor.round", "sp.sql"), LIBRARIES),
    **{name: LIBRARIES for name in CALLS if name.startswith("formats.")},  # of arrays
}
"""Calls that another library computes, by name, or name and number."""


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("name", "number"), CASES)
def test_labelled_objects_never_go_by_position(name: str, number: int, library: str) -> None:
    one = CALLS[name][number]
    has_more_axes = library == "pandas" and any(len(Operand(spec).dims) > 2 for spec in one.specs)
    if has_more_axes or library in BY_LIBRARY.get(name, BY_LIBRARY.get(f"{name} {number}", ())):
        return
    expected = run(one, {})
    for operand in one.varied:
        for shared in shared_vocabularies(one, operand):
            order = {shared: np.roll(np.arange(SIZES[shared]), 1)}
            given_operands = [make_operand(spec, k, order if k == operand else {}) for k, spec in enumerate(one.specs)]
            given_operands[operand] = to_foreign(given_operands[operand], library)
            try:
                with np.errstate(all="ignore"):
                    found = one.function(*given_operands)
            except SparrowError:
                continue
            assert are_equal(to_canonical(found), expected), f"operand {operand} of {name} goes by position in {shared}"


def make_partial(spec: str, number: int, kept: dict[str, list[int]], more: bool, is_full: bool) -> sp.Tensor:
    """Return an operand at some labels, or at all, absent at the others.

    With ``more`` labels that no other operand has, a mask is True there.
    """
    operand = Operand(spec)
    dense, labels = operand.dense(number), {}
    for axis, dim in enumerate(operand.dims):
        of, chosen = vocabulary(dim), kept[vocabulary(dim)]
        names = [f"{of}{at}" for at in range(SIZES[of])]
        if is_full:
            absent = np.isin(np.arange(SIZES[of]), chosen, invert=True)
            dense = np.where(absent.reshape([-1 if k == axis else 1 for k in range(dense.ndim)]), 0, dense)
        else:
            dense = dense.take(chosen, axis)
            names = [names[at] for at in chosen]
            if more:
                names.append(f"{of}9")
                dense = np.insert(dense, len(chosen), True, axis)
        labels[dimension(dim)] = names
    return sp.asarray(dense.astype(operand.dense(number).dtype), dims=list(labels), labels=labels)


@pytest.mark.parametrize(("name", "number", "operand"), PARTIAL_CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_labels_that_masks_and_values_lack_are_absent(
    name: str, number: int, operand: int, data: st.DataObject
) -> None:
    one = CALLS[name][number]
    spec, is_mask = one.specs[operand], one.specs[operand].endswith("?")
    kept = {
        of: data.draw(st.lists(st.integers(0, SIZES[of] - 1), min_size=1, unique=True), label=of)
        for of in map(vocabulary, Operand(spec).dims)
    }
    more = is_mask and data.draw(st.booleans(), label="more labels")
    partial, full = (make_partial(spec, operand, kept, more, is_full) for is_full in (False, True))
    others = [make_operand(each, k, {}) for k, each in enumerate(one.specs)]
    found, expected = (
        to_canonical(one.function(*others[:operand], each, *others[operand + 1 :])) for each in (partial, full)
    )
    assert are_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "number", "operand"), [each for each in PARTIAL_CASES if CALLS[each[0]][each[1]].specs[each[2]][-1] == "?"]
)
def test_masks_without_a_common_label_raise(name: str, number: int, operand: int) -> None:
    one = CALLS[name][number]
    given_operands = [make_operand(each, k, {}) for k, each in enumerate(one.specs)]
    mask = given_operands[operand]
    others = {dim: [f"z{at}" for at in range(size)] for dim, size in zip(mask.dims, mask.shape, strict=True)}
    given_operands[operand] = sp.asarray(mask.to_numpy(), dims=mask.dims, labels=others)
    with pytest.raises(LabelError, match="in common"):
        one.function(*given_operands)


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("order", [(1, 2, 3, 0), (0, 2, 1, 3)])
def test_square_matrices_match_columns_or_raise(name: str, order: tuple[int, ...]) -> None:
    straight = make_operand("nms", 0, {})
    expected = to_canonical(SQUARE[name](straight)) if "splu" not in name and "spilu" not in name else None
    turned = straight[:, list(order)]
    try:
        found = to_canonical(SQUARE[name](turned))
    except LabelError:
        return
    assert are_equal(found, expected)
