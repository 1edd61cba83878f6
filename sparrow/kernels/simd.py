"""LLVM intrinsics for Numba kernels: SIMD vectors of eight lanes, prefetch, bits.

Numba computes eight scalar variables one by one, and moves an array of eight through memory at each step. These
intrinsics keep them in a vector register. ::

    total = broadcast(zero)
    for k in range(start, stop):
        total += broadcast(values[k]) * load(x, cols[k] * columns + panel, columns - panel)
    store(y, row * columns + panel, columns - panel, total)

Each lane rounds as a scalar does, so results have the bits of a scalar loop over columns. Integers wrap around.

Elements that differ from a number are compacted without a branch::

    row = load(dense, at, LANES)
    differs = not_equal_bits(row, broadcast(fill))
    compress_store(out, n, row, differs)
    n += popcount(differs)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import (
    TypingError,
    cgutils,
    intrinsic,
    ir,
    lower_builtin,
    models,
    register_jitable,
    register_model,
    type_callable,
    types,
)

__all__ = [
    "BINARY_SEARCH_RATIO", "FLAGS", "LANES", "broadcast", "call_address", "compress_store", "count_trailing_zeros",
    "exceeding_bits", "lane_range", "less_than", "load", "lower_bound", "maximum", "minimum", "not_equal_bits",
    "popcount", "prefetch", "reduce_add", "store", "store_fence", "store_nontemporal", "take_flags",
]  # fmt: skip

_cgutils: Any = cgutils
_COUNT = 8
LANES = np.uint64(_COUNT)
"""Number of lanes."""
_FLAGS = 16
FLAGS = np.uint64(_FLAGS)
"""Number of byte flags tested together."""
_ONE = np.uint64(1)
BINARY_SEARCH_RATIO = np.uint64(8)
"""Length ratio of two sorted rows from which binary search beats a merge."""


class _Lanes(types.Type):
    """Numba type of eight numbers of one dtype: float, complex or integer."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.complex = isinstance(dtype, types.Complex)
        self.part = dtype.underlying_float if self.complex else dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(_Lanes)
class _Model(models.PrimitiveModel):
    """Data model: one vector, or a vector of real and one of imaginary parts."""

    def __init__(self, manager: Any, kind: _Lanes) -> None:
        vector = ir.VectorType(manager.lookup(kind.part).get_value_type(), _COUNT)
        super().__init__(manager, kind, ir.LiteralStructType([vector] * (1 + kind.complex)))  # type: ignore[no-untyped-call]


def _vectors(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, part) for part in range(len(value.type.elements))]


def _lanes(builder: Any, kind: Any, vectors: list[Any]) -> Any:
    value = ir.Constant(kind, ir.Undefined)
    for part, vector in enumerate(vectors):
        value = builder.insert_value(value, vector, part)
    return value


def _shuffle(builder: Any, one: Any, other: Any, lanes: list[int]) -> Any:
    """Select lanes of two vectors, numbered through both."""
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


def _splat(builder: Any, number: Any, count: int) -> Any:
    none = ir.Constant(ir.VectorType(number.type, count), ir.Undefined)
    return _shuffle(builder, builder.insert_element(none, number, ir.IntType(32)(0)), none, [0] * count)


def _call_llvm(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Call an LLVM intrinsic by name."""
    function = ir.FunctionType(result, [each.type for each in arguments])
    return builder.call(_cgutils.get_or_insert_function(builder.module, function, name), arguments)


class _Address:
    """Memory address of lanes: masked at the end of a row, complex parts interleaved."""

    def __init__(self, target: Any, builder: Any, kind: _Lanes, array: Any, arguments: Any) -> None:
        data, position, left = arguments
        count = _COUNT * (1 + kind.complex)
        self.builder, self.left = builder, left
        self.vector = ir.VectorType(target.get_value_type(kind.part), count)
        first = builder.gep(target.make_array(array)(target, builder, data).data, [position])
        self.first = builder.bitcast(first, self.vector.as_pointer())
        self.align = target.get_abi_sizeof(self.vector.element)
        self.all = builder.icmp_unsigned(">=", left, left.type(_COUNT))
        lanes = ir.Constant(ir.VectorType(left.type, count), [lane // (1 + kind.complex) for lane in range(count)])
        self.mask = builder.icmp_unsigned("<", lanes, _splat(builder, left, count))

    def call_masked(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call a masked operation, which does not access memory past the end of the row."""
        kind = f"v{self.vector.count}{self.vector.element.intrinsic_name}"
        return _call_llvm(self.builder, f"llvm.masked.{name}.{kind}.p0", result, *arguments)


def _broadcast(context: Any, number: Any) -> Any:
    """Return a number in every lane."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        (number,) = arguments
        parts = [builder.extract_value(number, part) for part in (0, 1)] if kind.complex else [number]
        vectors = [_splat(builder, part, _COUNT) for part in parts]
        return _lanes(builder, target.get_value_type(kind), vectors)

    return _Lanes(number)(number), generate


def _check_contiguous(array: Any) -> None:
    if array.layout != "C":
        raise TypingError(f"array must be C-contiguous, got {array}")


def _load(context: Any, array: Any, position: Any, left: Any) -> Any:
    """Load lanes from a flat position; lanes past ``left`` are 0."""
    _check_contiguous(array)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        place = _Address(target, builder, kind, signature.args[0], arguments)
        found = _cgutils.alloca_once(builder, place.vector)
        with builder.if_else(place.all) as (yes, no):
            with yes:
                builder.store(builder.load(place.first, align=place.align), found)
            with no:
                zeros = ir.Constant(place.vector, None)
                align = ir.IntType(32)(place.align)
                builder.store(place.call_masked("load", place.vector, place.first, align, place.mask, zeros), found)
        whole = builder.load(found)
        if not kind.complex:
            return _lanes(builder, target.get_value_type(kind), [whole])
        parts = [_shuffle(builder, whole, whole, list(range(part, 2 * _COUNT, 2))) for part in (0, 1)]
        return _lanes(builder, target.get_value_type(kind), parts)

    return _Lanes(array.dtype)(array, types.uint64, types.uint64), generate


def _store(context: Any, array: Any, position: Any, left: Any, lanes: Any) -> Any:
    """Store lanes at a flat position, except those past ``left``."""
    _check_contiguous(array)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _Address(target, builder, signature.args[3], signature.args[0], arguments[:3])
        whole, *others = _vectors(builder, arguments[3])
        for other in others:
            order = [lane for pair in zip(range(_COUNT), range(_COUNT, 2 * _COUNT), strict=True) for lane in pair]
            whole = _shuffle(builder, whole, other, order)
        with builder.if_else(place.all) as (yes, no):
            with yes:
                builder.store(whole, place.first, align=place.align)
            with no:
                place.call_masked("store", ir.VoidType(), whole, place.first, ir.IntType(32)(place.align), place.mask)
        return target.get_dummy_value()

    return types.void(array, types.uint64, types.uint64, lanes), generate


def _store_nontemporal(context: Any, array: Any, position: Any, lanes: Any) -> Any:
    """Store lanes past the cache, at a position aligned to a vector."""
    _check_contiguous(array)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, position, lanes = arguments
        (vector,) = _vectors(builder, lanes)
        first = builder.gep(target.make_array(signature.args[0])(target, builder, data).data, [position])
        first = builder.bitcast(first, vector.type.as_pointer())
        written = builder.store(vector, first, align=_COUNT * target.get_abi_sizeof(vector.type.element))
        written.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return target.get_dummy_value()

    return types.void(array, types.uint64, lanes), generate


def _store_fence(context: Any) -> Any:
    """Make earlier non-temporal stores visible to other threads before later stores."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return target.get_dummy_value()

    return types.void(), generate


def _reduce_add(context: Any, lanes: Any) -> Any:
    """Return the sum of the lanes, by halving."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums = []
        for vector in _vectors(builder, arguments[0]):
            count, left = _COUNT, vector
            while count > 1:
                count //= 2
                halves = [_shuffle(builder, left, left, list(range(at, at + count))) for at in (0, count)]
                (left,) = _sum(builder, lanes, halves[:1], halves[1:])
            sums.append(builder.extract_element(left, ir.IntType(32)(0)))
        if not lanes.complex:
            return sums[0]
        value = ir.Constant(target.get_value_type(lanes.dtype), ir.Undefined)
        return builder.insert_value(builder.insert_value(value, sums[0], 0), sums[1], 1)

    return lanes.dtype(lanes), generate


def _compress(target: Any, builder: Any, vector: Any, mask: Any, first: Any) -> None:
    """Write the lanes of a mask consecutively; elements after them are undefined."""
    own = kind = vector.type
    if isinstance(own.element, ir.IntType) and own.element.width < 32:  # AVX-512F compresses words, not bytes
        kind = ir.VectorType(ir.IntType(32), own.count)
        vector = builder.zext(vector, kind)
    features = target.codegen().magic_tuple()[2]
    if "+avx2" in features and "+avx512f" not in features:
        _compress_by_table(target, builder, vector, mask, first, own.element)
        return
    name = f"llvm.experimental.vector.compress.v{kind.count}{kind.element.intrinsic_name}"
    packed = _call_llvm(builder, name, kind, vector, mask, ir.Constant(kind, ir.Undefined))
    packed = packed if kind is own else builder.trunc(packed, own)
    align = target.get_abi_sizeof(own.element)
    builder.store(packed, builder.bitcast(first, own.as_pointer()), align=align)


def _compress_by_table(target: Any, builder: Any, vector: Any, mask: Any, first: Any, element: Any) -> None:
    """Compress 32 bytes at a time by a table; LLVM does it lane by lane on AVX2."""
    size, align = 32 // target.get_abi_sizeof(vector.type.element), target.get_abi_sizeof(element)
    words, byte = ir.VectorType(ir.IntType(32), 8), ir.IntType(8)
    table = _permutations(builder, size)
    for start in range(0, vector.type.count, size):
        part = _shuffle(builder, vector, vector, list(range(start, start + size)))
        bits = _shuffle(builder, mask, mask, list(range(start, start + size)))
        bits = builder.bitcast(bits, ir.IntType(size))
        number = builder.zext(bits, ir.IntType(64))
        order = builder.gep(table, [ir.IntType(64)(0), builder.shl(number, ir.IntType(64)(3))])
        order = builder.load(builder.bitcast(order, ir.VectorType(byte, 8).as_pointer()), align=8)
        packed = builder.bitcast(part, words)
        packed = _call_llvm(builder, "llvm.x86.avx2.permd", words, packed, builder.zext(order, words))
        packed = builder.bitcast(packed, part.type)
        if element != vector.type.element:
            packed = builder.trunc(packed, ir.VectorType(element, size))
        builder.store(packed, builder.bitcast(first, packed.type.as_pointer()), align=align)
        first = builder.gep(first, [builder.zext(builder.ctpop(bits), ir.IntType(64))])


def _permutations(builder: Any, size: int) -> Any:
    """Return the table of word permutations that compress masks of ``size`` lanes."""
    name = f"sparrow.compress.{size}"
    if name in builder.module.globals:
        return builder.module.globals[name]
    words = 8 // size
    rows = [[lane for lane in range(size) if bits >> lane & 1] for bits in range(1 << size)]
    numbers = [[lane * words + word for lane in row for word in range(words)] for row in rows]
    flat = bytearray(b"".join(bytes(row).ljust(8, b"\0") for row in numbers))
    kind = ir.ArrayType(ir.IntType(8), len(flat))
    return _cgutils.global_constant(builder.module, name, ir.Constant(kind, flat))


def _lane_range(context: Any, first: Any) -> Any:
    """Return consecutive numbers, one in each lane, from ``first`` on."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = _splat(builder, arguments[0], _COUNT)
        steps = ir.Constant(vector.type, list(range(_COUNT)))
        return _lanes(builder, target.get_value_type(signature.return_type), [builder.add(vector, steps)])

    return _Lanes(first)(first), generate


def _not_equal_bits(context: Any, lanes: Any, others: Any) -> Any:
    """Return a bit mask of the lanes that differ; NaN differs from everything."""
    if lanes != others or lanes.complex:
        return None

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (one,), (other,) = (_vectors(builder, each) for each in arguments)
        is_float = isinstance(lanes.part, types.Float)
        differs = builder.fcmp_unordered("!=", one, other) if is_float else builder.icmp_unsigned("!=", one, other)
        return builder.bitcast(differs, ir.IntType(8))

    return types.uint8(lanes, others), generate


def _exceeding_bits(context: Any, lanes: Any, others: Any) -> Any:
    """Return a bit mask of the lanes that are greater, or not ordered because of NaN."""
    if lanes != others or lanes.complex:
        return None

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (one,), (other,) = (_vectors(builder, each) for each in arguments)
        if isinstance(lanes.part, types.Float):
            greater = builder.fcmp_unordered(">", one, other)
        else:
            compare = builder.icmp_signed if lanes.part in types.signed_domain else builder.icmp_unsigned
            greater = compare(">", one, other)
        return builder.bitcast(greater, ir.IntType(8))

    return types.uint8(lanes, others), generate


def _less_than(context: Any, lanes: Any, others: Any) -> Any:
    """Return 1 in each lane of unsigned integers that is less than the other, else 0."""
    if lanes != others or lanes.part not in types.unsigned_domain:
        return None

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (one,), (other,) = (_vectors(builder, each) for each in arguments)
        less = builder.zext(builder.icmp_unsigned("<", one, other), one.type)
        return _lanes(builder, target.get_value_type(lanes), [less])

    return lanes(lanes, others), generate


def _compress_store(context: Any, array: Any, position: Any, lanes: Any, bits: Any) -> Any:
    """Write the lanes whose bits are set consecutively, from a position on.

    Always writes eight elements.
    """
    _check_contiguous(array)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, position, lanes, bits = arguments
        (vector,) = _vectors(builder, lanes)
        first = builder.gep(target.make_array(signature.args[0])(target, builder, data).data, [position])
        mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), _COUNT))
        _compress(target, builder, vector, mask, first)
        return target.get_dummy_value()

    return types.void(array, types.uint64, lanes, types.uint8), generate


def _popcount(context: Any, bits: Any) -> Any:
    """Return the number of set bits."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.ctpop(arguments[0]), ir.IntType(64))

    return types.uint64(bits), generate


def _take_flags(context: Any, flags: Any, position: Any, out: Any, count: Any) -> Any:
    """Write and clear the positions of set flags; return their number.

    Positions are written as uint32 to ``out`` from ``count`` on, which needs space for sixteen.
    """
    for array in (flags, out):
        _check_contiguous(array)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, position, out, count = arguments
        bytes_of, numbers = ir.VectorType(ir.IntType(8), _FLAGS), ir.VectorType(ir.IntType(32), _FLAGS)
        place = builder.gep(target.make_array(signature.args[0])(target, builder, data).data, [position])
        place = builder.bitcast(place, bytes_of.as_pointer())
        none = ir.Constant(bytes_of, None)
        found = builder.load(place, align=1)
        builder.store(none, place, align=1)
        mask = builder.icmp_unsigned("!=", found, none)
        first = _splat(builder, builder.trunc(position, ir.IntType(32)), _FLAGS)
        positions = builder.add(first, ir.Constant(numbers, list(range(_FLAGS))))
        to = builder.gep(target.make_array(signature.args[2])(target, builder, out).data, [count])
        _compress(target, builder, positions, mask, to)
        bits = builder.bitcast(mask, ir.IntType(_FLAGS))
        return builder.zext(builder.ctpop(bits), ir.IntType(64))

    return types.uint64(flags, types.uint64, out, types.uint64), generate


def _sum(builder: Any, kind: _Lanes, a: list[Any], b: list[Any]) -> list[Any]:
    add = builder.fadd if isinstance(kind.part, types.Float) else builder.add
    return [add(one, other) for one, other in zip(a, b, strict=True)]


def _product(builder: Any, kind: _Lanes, a: list[Any], b: list[Any]) -> list[Any]:
    times = builder.fmul if isinstance(kind.part, types.Float) else builder.mul
    if not kind.complex:
        return [times(a[0], b[0])]
    real = builder.fsub(times(a[0], b[0]), times(a[1], b[1]))
    return [real, builder.fadd(times(a[0], b[1]), times(a[1], b[0]))]


def _overload_operator(operator: Any, compute: Callable[[Any, _Lanes, list[Any], list[Any]], list[Any]]) -> None:
    """Make an operator accept lanes of one dtype."""

    def infer_type(context: Any) -> Any:
        return lambda a, b: a if isinstance(a, _Lanes) and a == b else None

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        vectors = compute(builder, kind, *(_vectors(builder, each) for each in arguments))
        return _lanes(builder, target.get_value_type(kind), vectors)

    type_callable(operator)(infer_type)
    lower_builtin(operator, _Lanes, _Lanes)(generate)  # type: ignore[no-untyped-call]


for each in (operator.add, operator.iadd):
    _overload_operator(each, _sum)
for each in (operator.mul, operator.imul):
    _overload_operator(each, _product)


# -- numbers -------------------------------------------------------------------------------------


def _cttz(context: Any, word: Any) -> Any:
    """Count the trailing zero bits of a word."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _call(context: Any, where: Any, a: Any, b: Any) -> Any:
    """Call a compiled binary function by its address."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention, numbers = target.call_conv, (a, a)
        kind = convention.get_function_type(a, numbers).as_pointer()
        function = builder.inttoptr(arguments[0], kind)
        status, value = convention.call_function(builder, function, a, numbers, arguments[1:])
        unlikely: Any = cgutils.if_unlikely
        with unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return value

    return a(types.uint64, a, a), generate


def _prefetch(context: Any, array: Any, position: Any) -> Any:
    """Prefetch an array element into the cache; the position is not bounds-checked."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        where = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(fetch, [where, *(ir.Constant(number, setting) for setting in (0, 3, 1))])
        return target.get_dummy_value()

    return types.void(array, position), generate


def _select(less: str) -> Callable[..., Any]:
    """Build NumPy's min or max: the second of equals, NaN if either is NaN.

    Selecting the stored value would compile to a masked store, which is many times slower than a plain one on some
    processors, so the mask of a NaN is OR-ed into the bits of the result instead.
    """

    def build(context: Any, number: Any, other: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            number, other = arguments[0], target.cast(builder, arguments[1], signature.args[1], kind)
            if kind not in types.real_domain:
                compare = builder.icmp_signed if kind in types.signed_domain else builder.icmp_unsigned
                return builder.select(compare(less, number, other), number, other)
            word = ir.IntType(kind.bitwidth)
            found = builder.bitcast(builder.select(builder.fcmp_ordered(less, number, other), number, other), word)
            none = builder.sext(builder.fcmp_unordered("uno", number, number), word)
            return builder.bitcast(builder.or_(found, none), number.type)

        return number(number, other), generate

    return build


less_than: Any = intrinsic(_less_than)
lane_range: Any = intrinsic(_lane_range)
take_flags: Any = intrinsic(_take_flags)
load: Any = intrinsic(_load)
popcount: Any = intrinsic(_popcount)
compress_store: Any = intrinsic(_compress_store)
store_fence: Any = intrinsic(_store_fence)
broadcast: Any = intrinsic(_broadcast)
store: Any = intrinsic(_store)
store_nontemporal: Any = intrinsic(_store_nontemporal)
reduce_add: Any = intrinsic(_reduce_add)
not_equal_bits: Any = intrinsic(_not_equal_bits)
exceeding_bits: Any = intrinsic(_exceeding_bits)
count_trailing_zeros: Any = intrinsic(_cttz)
prefetch: Any = intrinsic(_prefetch)
call_address: Any = intrinsic(_call)
minimum: Any = intrinsic(_select("<"))
maximum: Any = intrinsic(_select(">"))


def _lower_bound(number, numbers, low, high):  # type: ignore[no-untyped-def]
    """Return the first position in [low, high) of a number not smaller, else high."""
    while low < high:
        middle = (low + high) >> _ONE
        if numbers[middle] < number:
            low = middle + _ONE
        else:
            high = middle
    return low


lower_bound: Any = register_jitable(_lower_bound)
