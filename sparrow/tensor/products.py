"""Products of tensors: matmul, contractions, matrix-vector methods."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow import engines
from sparrow.core.indexing import View
from sparrow.core.schema import Schema, as_integer, check_array, check_dtype
from sparrow.engines import EngineName
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError, UnsupportedError
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.kernels.coo import Block
from sparrow.plan import (
    Contraction,
    Dense,
    Scan,
    Semiring,
    align_contraction,
    as_semiring,
    freeze_array,
    is_mostly_absent,
    make_contraction,
    make_dense_contraction,
    make_matmul,
    make_with_fill,
)
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime.validation import check_flag, check_unmasked
from sparrow.tensor.base import Base, as_scan
from sparrow.tensor.matching import label_operands, match_axes

__all__ = ["LinearOperatorMethods", "as_dense_contraction", "as_explicit_scan", "contract", "matmul"]

_Side: TypeAlias = "tuple[tuple[int | slice, ...] | None, tuple[int, ...]]"
"""Index of an operand that drops broadcast axes, None for all axes, and the index of each axis."""


def matmul(
    A: Any,
    B: Any,
    *,
    semiring: str | Semiring = "plus_times",
    mask: Any = None,
    complement: bool = False,
    stype: str | None = None,
    topk: int | None = None,
    engine: EngineName = "auto",
) -> Any:
    """Return a matrix product with at least one tensor: ``A @ B``.

    For two tensors the result is lazy and sparse. With an array it is computed at once, as an array unless a storage
    type is requested.

    Parameters
    ----------
    A, B
        At least one tensor; of shapes (..., M, K) or (K,), and (..., K, N) or (K,). Leading dimensions broadcast, as in
        ``numpy.matmul``. Two tensors must have fill value 0, except under other semirings.
    semiring
        Addition and multiplication: "plus_times", "min_plus", "max_plus", "max_times", "min_max", "or_and", "any_pair",
        "plus_first", "plus_second", "plus_pair", or a :class:`sparrow.Semiring`. Semirings other than "plus_times"
        ignore absent elements, and the fill value of the result is the additive identity.
    mask
        Tensor of the shape of the result, or a boolean array: only its stored elements are computed. ``M != 0`` is a
        mask by value; so is ``M == 0``, which selects the elements where it is True. Named dimensions and labels are
        those of the result, in any order; labels that it lacks are not computed.
    complement
        Compute the elements that the mask does not store instead.
    stype
        Storage type of the result, inferred by default.
    topk
        Number of the largest stored elements that are kept of each row of a product of tensors: of equal ones those in
        lower columns, NaN last. The full product is never formed. None keeps all.
    engine
        "stream" runs row groups through kernels on several threads without loading the tensor, with the same bits for
        any number of threads; "duckdb" runs a SQL join where that gives NumPy's result, and streams the rest; "cupy"
        multiplies on a GPU; "auto" is the configured engine, or the one of least cost with the bits of "stream". A
        product of two tensors is computed at once by an explicit engine.

    Returns
    -------
    Tensor, ndarray or scalar
        Of shape (..., M, N), (..., M), (..., N) or (); a result without dimensions is computed at once. Dimensions keep
        their names, but are ``d0, d1, ...`` where two would have the same one, as in ``N.T @ N``; ``rename`` names
        them.

    Raises
    ------
    ShapeError
        If the shapes do not match.
    UnsupportedError
        If neither is a tensor, or a fill value is not 0 under "plus_times".
    InvalidValueError
        If the semiring, the engine or the storage type is unknown, ``complement`` is passed without a mask, or
        ``topk`` is no positive integer or the result has no rows.
    LabelError
        If label types of contracted dimensions do not compare, or labels that differ repeat.
    TooLargeError
        If a result that is an array exceeds the memory limit.
    MissingDependencyError
        If the engine is "cupy" and CuPy or a GPU is missing.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.array([[0, 2], [3, 0], [0, 0]]))
    >>> sp.matmul(A, [10, 1])
    array([ 2, 30,  0])
    >>> sp.matmul(A, A.T).to_numpy()
    array([[4, 0, 0],
           [0, 9, 0],
           [0, 0, 0]])
    >>> sp.matmul(A.T, A, topk=1).nnz
    2
    """
    tensor = next((each for each in (A, B) if isinstance(each, Base)), None)
    if tensor is None:
        raise UnsupportedError("matmul requires at least one tensor: use NumPy for two dense arrays")
    A, B, mask = label_operands((A, B, mask))
    left, right = (_factor(tensor, each) for each in (A, B))
    both = isinstance(left, Base) and isinstance(right, Base)
    chosen = as_semiring(semiring)
    if not both and chosen.plain and mask is stype is None and topk is None and max(left.ndim, right.ndim) <= 2:
        nodes: Any = (each.__sparrow_scan__() if isinstance(each, Base) else Dense(each) for each in (left, right))
        return engines.evaluate_dense(make_matmul(*nodes), engine)
    left, right, indices, output = _matmul_indices(left, right)
    return contract(
        (left, right), indices, output, semiring=chosen, mask=mask, complement=complement, stype=stype,
        topk=_check_topk(topk, len(output)), engine=engine,
    )  # fmt: skip


def _check_topk(topk: Any, ndim: int) -> int | None:
    """Return the number of elements that are kept of each row of a result."""
    if topk is None:
        return None
    count = as_integer(topk, "topk")
    if count < 1 or not ndim:
        raise InvalidValueError(f"matmul: topk must be at least 1, of a result with rows, got {topk!r} and {ndim} axes")
    return count


class LinearOperatorMethods(Base):
    """Products of a matrix with dense vectors and matrices, under SciPy's names.

    ``scipy.sparse.linalg`` accepts objects with ``shape`` and ``matvec``, so that ``aslinearoperator(A)``,
    ``eigsh(A)``, ``svds(A)`` and ``cg(A, b)`` stream a tensor.
    """

    __slots__ = ()

    def matvec(self, x: ArrayLike) -> NDArray[Any]:
        """Return the product of a matrix and a vector: ``A @ x``.

        Parameters
        ----------
        x
            Vector of length n, or matrix of shape (n, 1), for a tensor of shape (m, n).

        Returns
        -------
        ndarray
            With as many dimensions as ``x``.

        Raises
        ------
        ShapeError
            If the tensor is not a matrix, or the sizes differ.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0], [0, 0]]).matvec([10, 1])
        array([ 2, 30,  0])
        """
        return self._multiply(self._vector(x, 1), self)

    def rmatvec(self, x: ArrayLike) -> NDArray[Any]:
        """Return the product of the conjugate transpose and a vector: ``A.conj().T @ x``.

        Parameters
        ----------
        x
            Vector of length m, or matrix of shape (m, 1), for a tensor of shape (m, n).

        Returns
        -------
        ndarray
            With as many dimensions as ``x``.

        Raises
        ------
        ShapeError
            If the tensor is not a matrix, or the sizes differ.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0], [0, 0]]).rmatvec([1, 10, 5])
        array([30,  2])
        """
        tensor: Any = self
        vector = self._vector(x, 0)
        if self.dtype.kind == "c":  # conj(A^T conj(x)) reads the matrix as it is stored
            return self._multiply(np.conj(vector), tensor.T).conj()
        return self._multiply(vector, tensor.T)

    def rmatmat(self, X: ArrayLike) -> NDArray[Any]:
        """Return the product of the conjugate transpose and a matrix: ``A.conj().T @ X``.

        Parameters
        ----------
        X
            Matrix of shape (m, k), for a tensor of shape (m, n).

        Returns
        -------
        ndarray

        Raises
        ------
        ShapeError
            If the tensor is not a matrix, or the sizes differ.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0]]).rmatmat([[1, 0], [0, 1]])
        array([[0, 3],
               [2, 0]])
        """
        return self.rmatvec(X)

    def _vector(self, x: Any, axis: int) -> NDArray[Any]:
        """Return a vector as an array, a tensor in the order of the labels of an axis."""
        return check_array(match_axes(x, self, {0: axis} if self.ndim == 2 else {}, "x", "mask"), "x")

    def _multiply(self, x: NDArray[Any], matrix: Any) -> NDArray[Any]:
        if self.ndim != 2:
            raise ShapeError(f"matvec: the tensor must be a matrix, got shape {self.shape}")
        found: NDArray[Any] = matmul(matrix, x)
        return found


def _factor(tensor: Base, obj: Any) -> Any:
    """Return an operand as a tensor, if it is sparse, or as an array."""
    found = tensor._convert_foreign(obj)
    if isinstance(found, Base):
        return found
    check_unmasked(found)
    try:
        return np.asarray(found)
    except ValueError as error:
        raise UnsupportedError(f"matmul: {obj!r} is not an operand: {error}") from None


def _matmul_indices(left: Any, right: Any) -> tuple[Any, Any, tuple[Sequence[int], Sequence[int]], Sequence[int]]:
    """Return the operands of a contraction, their axis indices and the result's.

    Broadcast axes of length 1 are dropped.
    """
    for name, side in (("left", left), ("right", right)):
        if side.ndim == 0:
            raise ShapeError(f"matmul: the {name} operand must have at least 1 dimension, got a scalar: scale with '*'")
    (one, own), (another, other), output = _broadcast_matmul(left.shape, right.shape)
    operands = [each if at is None else each[at] for each, at in ((left, one), (right, another))]
    return *operands, (own, other), output


@functools.lru_cache(maxsize=256)
def _broadcast_matmul(*shapes: tuple[int, ...]) -> tuple[_Side, _Side, tuple[int, ...]]:
    """Return views without broadcast axes, the axis indices, and the result's."""
    left, right = map(len, shapes)
    own = ["k"] if left == 1 else [*_batch_names(left - 2), "i", "k"]
    other = ["k"] if right == 1 else [*_batch_names(right - 2), "k", "j"]
    batch = _batch_names(max(left, right, 2) - 2)
    sizes: dict[str, set[int]] = {}
    for shape, along in zip(shapes, (own, other), strict=True):
        for size, index in zip(shape, along, strict=True):
            sizes.setdefault(index, set()).add(size)
    for name in batch:
        if len(sizes[name] - {1}) > 1:
            axes = own.index(name), other.index(name)
            raise ShapeError(
                f"matmul: shapes {shapes[0]} and {shapes[1]} do not broadcast along leading dimensions: axis {axes[0]} "
                f"of the left operand has size {shapes[0][axes[0]]}, axis {axes[1]} of the right one "
                f"{shapes[1][axes[1]]}"
            )
    number = {index: k for k, index in enumerate([*batch, "i", "j", "k"])}
    sides: list[_Side] = []
    for shape, along in zip(shapes, (own, other), strict=True):
        broadcast = [
            size == 1 and index in batch and sizes[index] != {1} for size, index in zip(shape, along, strict=True)
        ]
        at = tuple([0 if drop else slice(None) for drop in broadcast]) if any(broadcast) else None
        sides.append((at, tuple([number[index] for index, drop in zip(along, broadcast, strict=True) if not drop])))
    output = tuple([number[index] for index in (*batch, *(each for each in "ij" if each in own or each in other))])
    return sides[0], sides[1], output


def _batch_names(count: int) -> list[str]:
    """Return names of leading dimensions, counted from the last one."""
    return [f"b{k}" for k in range(count, 0, -1)]


def contract(
    operands: Sequence[Any],
    indices: Sequence[Sequence[int]],
    output: Sequence[int],
    *,
    semiring: Semiring,
    mask: Any = None,
    complement: bool = False,
    stype: str | None = None,
    topk: int | None = None,
    engine: EngineName = "auto",
    keep_fill: bool = False,
    result: Literal["any", "array", "tensor"] = "any",
) -> Any:
    """Contract operands by the indices of their axes.

    Parameters
    ----------
    operands
        Tensors or arrays, at least one a tensor. More than two are tensors, and the semiring is one that may be
        reordered.
    indices, output
        Index of each axis of each, and of the result.
    semiring, mask, complement, stype, topk, engine
        See :func:`matmul`.
    keep_fill
        Whether the product stores elements equal to the fill value, for the product that uses it as an operand.
    result
        "any": an array if an operand is one and an index is contracted, a scalar without indices, else a tensor.
        "tensor" and "array" force the kind: a step whose absent elements the next one ignores stays a tensor.

    Returns
    -------
    Tensor, ndarray or scalar
    """
    complement = check_flag("complement", complement)
    if complement and mask is None:
        raise InvalidValueError("complement=True requires mask=")
    tensor = next(each for each in operands if isinstance(each, Base))
    if semiring.plain and mask is stype is None and topk is None:
        dense = as_dense_contraction(operands, indices, output)
        if dense is not None:
            return engines.evaluate_dense(dense, engine)
    arrays = any(isinstance(each, np.ndarray) for each in operands)
    sides = [each.__sparrow_scan__() if isinstance(each, Base) else as_explicit_scan(each) for each in operands]
    if semiring.plain and {index for own in indices for index in own} > set(output):
        sides = [_store_fill(side) if arrays or not output else side for side in sides]
    sides = align_contraction(sides, indices)
    pattern, stores_false = (None, False) if mask is None else _as_mask(mask)
    node = make_contraction(
        sides, indices, output, semiring, pattern, complement != stores_false, stype, keep_fill, topk
    )
    if not node.schema.ndim and result != "tensor":
        return engines.evaluate_element(node, View.identity(()), engine)
    found: Any = tensor._from_node(node)
    if engine != "auto":
        found = found.compute(engine)
    contracts = result == "any" and topk is None and arrays and node.contracted_indices
    is_array = result == "array" or (contracts and not _stays_sparse(operands, indices, node))
    return found.to_numpy() if is_array and stype is None else found


def _stays_sparse(operands: Sequence[Any], indices: Sequence[Sequence[int]], node: Contraction) -> bool:
    """Return whether most of the contraction of one tensor with arrays is absent."""
    at = [k for k, each in enumerate(operands) if isinstance(each, Base)]
    if len(at) != 1 or not node.semiring.plain or node.mask is not None:
        return False
    scan = operands[at[0]].__sparrow_scan__()
    return is_mostly_absent(node.schema, node.output_indices, scan, indices[at[0]])


def as_dense_contraction(
    operands: Sequence[Any], indices: Sequence[Sequence[int]], output: Sequence[int]
) -> Contraction | None:
    """Return a contraction of one tensor and arrays that is an array, or None.

    A scalar tensor among tensors is not supported: a product without indices is not an array.
    """
    is_tensor = [isinstance(each, Base) for each in operands]
    if is_tensor.count(True) != 1 or len(operands) < 2 or any(isinstance(each, np.generic) for each in operands):
        return None
    given = [each.__sparrow_scan__() if isinstance(each, Base) else each for each in operands]
    return make_dense_contraction(given, indices, output)


def _as_mask(mask: Any) -> tuple[Scan, bool]:
    """Return a mask as a scan, and whether it stores where it is False."""
    if isinstance(mask, Base) and mask.dtype == bool and mask.fill_value:
        negated: Any = mask
        return as_scan(~negated), True
    if isinstance(mask, Base) or is_foreign_sparse(mask):
        return as_scan(mask), False
    if isinstance(mask, np.ndarray | np.bool_) and mask.dtype == bool:
        return as_scan(check_array(mask, "mask")), False
    raise UnsupportedError(
        f"mask must be a tensor or a boolean array, got {type(mask).__name__}: convert other arrays with sp.asarray"
    )


def _store_fill(scan: Scan) -> Scan:
    """Return a scan that stores its fill value, if that fits in memory."""
    if scan.schema.has_zero_fill:
        return scan
    try:
        stored = make_with_fill(scan, 0, scan.schema.stype)
    except TooLargeError:
        return scan
    return Scan(stored, View.identity(stored.schema.shape), stored.schema)


def as_explicit_scan(array: NDArray[Any]) -> Scan:
    """Return an array as a scan that stores every element, 0 included."""
    check_dtype(array.dtype)
    schema = Schema(array.shape, (), array.dtype, stype="dense")
    coords = [column.reshape(-1) for column in np.indices(array.shape, np.int32, sparse=False)] if array.ndim else []
    columns = tuple(column.astype(schema.coordinate_dtype(k), copy=False) for k, column in enumerate(coords))
    relation = MemoryRelation(schema, Block(columns, freeze_array(array).reshape(-1)))
    return Scan(relation, View.identity(array.shape), schema)
