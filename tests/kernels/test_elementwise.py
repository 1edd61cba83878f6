"""Element-wise merge of two operands: compiled loops against the sort-based path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparrow.kernels import keys
from sparrow.kernels.coo import Block, canonicalize, filter_block, sort_order
from sparrow.kernels.elementwise import align, apply, combine
from sparrow.kernels.keys import unpack
from sparrow.kernels.merge import as_words, compress, intersection, lookup, union
from sparrow.testing import strategy

DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128"]
ODD = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]


def block_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, count: int) -> Block:
    """Return at most ``count`` canonical elements, but with values equal to fill."""
    kind = np.dtype(dtype)
    coords = tuple(rng.integers(0, max(n, 1), count if all(shape) else 0) for n in shape)
    with np.errstate(all="ignore"):
        values = rng.choice(ODD if kind.kind in "fc" else [0, 1, 2, 100], len(coords[0])).astype(kind)
        if kind.kind == "c":
            values += (1j * rng.choice(ODD, len(values))).astype(kind)
    found = canonicalize(Block(coords, values), shape, None, "last", keep_fill=True)
    return Block(tuple(column.astype(np.int32) for column in found.coords), found.values)


def together(coords: tuple[NDArray[Any], ...], columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return a result that depends on operand order and coordinates."""
    total = columns[0].astype(np.complex128) * 3 + columns[1].astype(np.complex128)
    return np.asarray(total.real + coords[0])


def assert_same(found: Block, wanted: Block) -> None:
    assert [column.dtype for column in found.coords] == [column.dtype for column in wanted.coords]
    for a, b in zip(found.coords, wanted.coords, strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.values.dtype == wanted.values.dtype
    for a, b in ((found.values.real, wanted.values.real), (found.values.imag, wanted.values.imag)):
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":  # -0.0 differs from 0.0; the sign of NaN is irrelevant
            np.testing.assert_array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))


@pytest.fixture(autouse=True)
def always_compiled() -> Iterator[None]:
    with strategy("compiled"):
        yield


@given(
    st.sampled_from(DTYPES),
    st.sampled_from(DTYPES),
    st.sampled_from([(40,), (5, 8), (3, 1, 9), (7, 0), (2**31 - 1, 2**20)]),
    st.sampled_from([(False, False), (True, False), (False, True), (True, True)]),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 2**16),
)
def test_combine_equals_align(
    one: str, two: str, shape: tuple[int, ...], required: tuple[bool, bool], n: int, m: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    blocks = [block_of(rng, shape, one, n), block_of(rng, shape, two, m)]
    if seed % 4 == 0:
        blocks[1] = Block(blocks[0].coords, blocks[0].values[::-1].copy())
    fills = [block.values.dtype.type(fill) for block, fill in zip(blocks, rng.integers(0, 2, 2), strict=True)]
    fill = float(rng.choice([0.0, 3.0, np.nan]))
    coords, columns = align(blocks, fills, shape, required)
    assert_same(combine(together, blocks, fills, shape, required, fill), apply(together, coords, columns, fill))


@given(st.lists(st.integers(0, 60), unique=True), st.lists(st.integers(0, 60), unique=True))
def test_union_intersection_lookup(one: list[int], two: list[int]) -> None:
    a, b = np.array(sorted(one), np.int64), np.array(sorted(two), np.int64)
    x, y = as_words(a * 2), as_words(b * 3)
    found = union(a, b, x, y, x.dtype.type(7), y.dtype.type(9))
    expected = sorted({*one, *two})
    assert found[0].tolist() == expected
    assert found[1].tolist() == [2 * k if k in one else 7 for k in expected]
    assert found[2].tolist() == [3 * k if k in two else 9 for k in expected]
    found = intersection(a, b, x, y)
    expected = sorted({*one} & {*two})
    assert [array.tolist() for array in found] == [expected, [2 * k for k in expected], [3 * k for k in expected]]
    assert lookup(a, b, y, y.dtype.type(9)).tolist() == [3 * k if k in two else 9 for k in sorted(one)]


@given(st.lists(st.booleans(), max_size=40), st.sampled_from(DTYPES))
def test_compress_equals_mask_indexing(mask: list[bool], dtype: str) -> None:
    keep = np.array(mask, bool)
    values = np.arange(len(keep)).astype(dtype)
    nothing = np.broadcast_to(np.zeros(1, np.int32), len(keep))
    block = Block((np.arange(len(keep), dtype=np.int32), nothing), values)
    assert_same(filter_block(block, keep), block.take(keep))
    assert compress(as_words(values), keep, int(keep.sum())).view(values.dtype).tolist() == values[keep].tolist()


def test_unpack_inverts_pack() -> None:
    rng = np.random.default_rng(1)
    layout = keys.choose_layout((2**40, 5, 1000))
    assert layout is not None
    coords: list[NDArray[Any]] = [rng.integers(0, n, 50) for n in (2**40, 6, 1000)]
    coords[1] = coords[1].astype(np.int32)
    found = unpack(keys.pack(coords, layout), layout, [column.dtype for column in coords])
    for a, b in zip(found, coords, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@given(st.integers(0, 60), st.integers(0, 2**16), st.sampled_from([(4, 9), (2**20, 2**20)]))
def test_radix_sort_equals_numpy(count: int, seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    coords = tuple(rng.integers(0, n, count) for n in shape)
    found = sort_order(coords, shape)
    expected = np.lexsort(tuple(reversed(coords)))
    np.testing.assert_array_equal(np.arange(count) if found is None else found, expected)


@given(st.integers(0, 60), st.integers(0, 2**16))
def test_radix_sort_skips_sorted_bits(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = block_of(rng, (6, 7, 8), "float64", count)
    turned = Block((block.coords[2], block.coords[0], block.coords[1]), block.values)
    assert_same(
        canonicalize(turned, (8, 6, 7), None, keep_fill=True, leading=1),
        canonicalize(turned, (8, 6, 7), None, keep_fill=True),
    )
