"""Products of tensors, with tensors and with arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow import engines
from sparrow.core.indexing import View
from sparrow.core.schema import Schema, check_array, check_dtype
from sparrow.engines import EngineName
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError, UnsupportedError
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.kernels.coo import Block
from sparrow.plan import (
    Dense,
    DenseContraction,
    MatMulDense,
    Scan,
    Semiring,
    align_contraction,
    as_elementwise,
    as_semiring,
    freeze_array,
    make_dense_contraction,
    make_product,
    make_with_fill,
)
from sparrow.relations.base import MemoryRelation
from sparrow.runtime.validation import check_flag, check_unmasked
from sparrow.tensor.base import Base, as_scan

__all__ = ["Engine", "LinearOperatorMethods", "as_dense_contraction", "as_explicit_scan", "contract", "matmul"]

Engine: TypeAlias = EngineName


def matmul(
    A: Any,
    B: Any,
    *,
    semiring: str | Semiring = "plus_times",
    mask: Any = None,
    complement: bool = False,
    stype: str | None = None,
    engine: Engine = "auto",
) -> Any:
    """Return the matrix product of two tensors, or of a tensor and an array: what ``A @ B`` does.

    Of two tensors it is lazy and sparse. With an array it is computed at once and is an array, unless a storage type is
    asked for.

    Parameters
    ----------
    A, B
        At least one of them a tensor; of shapes (M, K) or (K,), and (K, N) or (K,). Further leading dimensions
        broadcast, as in ``numpy.matmul``. Of two tensors both have fill 0, unless there is another semiring.
    semiring
        What is added and multiplied with: "plus_times", "min_plus", "max_plus", "max_times", "min_max", "or_and",
        "any_pair", "plus_first", "plus_second", "plus_pair", or an :class:`sparrow.Semiring`. Under another one than
        "plus_times" absent cells take no part, and the fill of the result is what adding leaves as it is.
    mask
        A tensor of the shape of the result: only cells at which it has an entry are computed. ``M != 0`` is a mask by
        values, and so is ``M == 0``, whose entries are the cells at which it is False. An array of booleans is one too.
        Named dimensions and labels are those of the result, whatever their order: at labels that it lacks it has no
        entry.
    complement
        Compute the cells at which the mask has no entry instead.
    stype
        The storage type of the result, inferred by default.
    engine
        "stream" runs row groups through kernels on several threads without loading the tensor and gives
        the same bits on any number of threads; "duckdb" runs a join in SQL where that gives what NumPy
        does, and streams what it does not; "cupy" multiplies on a GPU; "auto" is the engine of the settings, "stream"
        by default. A product of two tensors is computed at once by an engine that is named.

    Returns
    -------
    Tensor, ndarray or scalar
        Of shape (M, N), (M,), (N,) or (); a number without dimensions is computed at once.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    UnsupportedError
        If neither is a tensor, or the fill of one of two tensors is not 0 under "plus_times".
    InvalidValueError
        If there is no such semiring, engine or storage type, or a complement of no mask.
    LabelError
        If labels of matched dimensions are of types that do not fit, or repeat where they differ.
    TooLargeError
        If a result that is an array passes the memory limit.
    MissingDependencyError
        If the engine is "cupy" and there is no CuPy, or no GPU.

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
    """
    tensor = next((each for each in (A, B) if isinstance(each, Base)), None)
    if tensor is None:
        raise UnsupportedError("matmul needs a tensor: for two dense arrays use NumPy")
    left, right = (_factor(tensor, each) for each in (A, B))
    both = isinstance(left, Base) and isinstance(right, Base)
    chosen = as_semiring(semiring)
    if not both and chosen.plain and mask is stype is None and max(left.ndim, right.ndim) <= 2:
        nodes: Any = (each.__sparrow_scan__() if isinstance(each, Base) else Dense(each) for each in (left, right))
        return engines.evaluate_dense(MatMulDense(*nodes), engine)
    left, right, letters, out = _lettered(left, right)
    return contract(
        (left, right), letters, out, semiring=chosen, mask=mask, complement=complement, stype=stype, engine=engine
    )


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
        return self._multiply(check_array(x, "x"), self)

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
        if self.dtype.kind == "c":  # conj(A^T conj(x)) reads the matrix as it is stored
            return self._multiply(np.conj(check_array(x, "x")), tensor.T).conj()
        return self._multiply(check_array(x, "x"), tensor.T)

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

    def _multiply(self, x: NDArray[Any], matrix: Any) -> NDArray[Any]:
        if self.ndim != 2:
            raise ShapeError(f"matvec: the tensor must be a matrix, got shape {self.shape}")
        found: NDArray[Any] = matmul(matrix, x)
        return found


def _factor(tensor: Base, obj: Any) -> Any:
    """Return an operand as a tensor, which sparse arrays of other libraries become, or as an array."""
    found = tensor._taken_in(obj)
    if isinstance(found, Base):
        return found
    check_unmasked(found)
    try:
        return np.asarray(found)
    except ValueError as error:
        raise UnsupportedError(f"matmul: {obj!r} is no operand: {error}") from None


def _lettered(left: Any, right: Any) -> tuple[Any, Any, tuple[Sequence[int], Sequence[int]], list[int]]:
    """Return the operands of a matrix product with axes that broadcast left out, their letters, those of the result."""
    for name, side in (("left", left), ("right", right)):
        if side.ndim == 0:
            raise ShapeError(f"matmul: the {name} operand has no dimensions, it needs one or two; scale with '*'")
    shapes = left.shape, right.shape
    own = ["k"] if left.ndim == 1 else [*_before(left.ndim - 2), "i", "k"]
    other = ["k"] if right.ndim == 1 else [*_before(right.ndim - 2), "k", "j"]
    batch = _before(max(left.ndim, right.ndim, 2) - 2)
    sizes: dict[str, set[int]] = {}
    for shape, along in zip(shapes, (own, other), strict=True):
        for size, letter in zip(shape, along, strict=True):
            sizes.setdefault(letter, set()).add(size)
    for name in batch:
        if len(sizes[name] - {1}) > 1:
            axes = own.index(name), other.index(name)
            raise ShapeError(
                f"matmul: shapes {shapes[0]} and {shapes[1]} do not broadcast along leading dimensions: axis {axes[0]} "
                f"of the left operand has {shapes[0][axes[0]]} cells, axis {axes[1]} of the right one "
                f"{shapes[1][axes[1]]}"
            )
    number = {letter: k for k, letter in enumerate([*batch, "i", "j", "k"])}
    operands, letters = [], []
    for side, along in ((left, own), (right, other)):
        thin = [
            size == 1 and letter in batch and sizes[letter] != {1}
            for size, letter in zip(side.shape, along, strict=True)
        ]
        operands.append(side[tuple(0 if gone else slice(None) for gone in thin)] if any(thin) else side)
        letters.append([number[letter] for letter, gone in zip(along, thin, strict=True) if not gone])
    out = [number[letter] for letter in (*batch, *(each for each in "ij" if each in own or each in other))]
    return operands[0], operands[1], (letters[0], letters[1]), out


def _before(count: int) -> list[str]:
    """Return the letters of leading dimensions, the last always the same."""
    return [f"b{k}" for k in range(count, 0, -1)]


def contract(
    operands: tuple[Any, Any],
    letters: tuple[Sequence[int], Sequence[int]],
    out: Sequence[int],
    *,
    semiring: Semiring,
    mask: Any = None,
    complement: bool = False,
    stype: str | None = None,
    engine: Engine = "auto",
    free: bool = False,
    keeps: bool = False,
    result: Literal["any", "array", "tensor"] = "any",
) -> Any:
    """Return the product of two operands by the letters of their axes.

    Parameters
    ----------
    operands
        Tensors or arrays, at least one a tensor.
    letters, out
        The letter of each axis of both, and of the result.
    semiring, mask, complement, stype, engine
        As in :func:`matmul`.
    free
        Whether it is a step of several that may be put in another order.
    keeps
        Whether a cell that comes out as the fill is an entry all the same, for the product that it is an operand of.
    result
        "any" is an array where an operand is one and something is summed, a scalar without letters, else a tensor. A
        step whose absent cells take no part in the next one stays a "tensor" then too, and the last is an "array".

    Returns
    -------
    Tensor, ndarray or scalar
    """
    complement = check_flag("complement", complement)
    if complement and mask is None:
        raise InvalidValueError("complement=True needs mask=: without one every cell is computed")
    tensor = next(each for each in operands if isinstance(each, Base))
    if semiring.plain and mask is stype is None:
        plain = _plain(operands, letters, out) or as_dense_contraction(operands, letters, out)
        if plain is not None:
            return engines.evaluate_dense(plain, engine)
    arrays = any(isinstance(each, np.ndarray) for each in operands)
    sides = [each.__sparrow_scan__() if isinstance(each, Base) else as_explicit_scan(each) for each in operands]
    if semiring.plain and set(letters[0]) | set(letters[1]) > set(out):
        sides = [_every_fill(side) if arrays or not out else side for side in sides]
    left, right = align_contraction(sides, letters)
    pattern, false = (None, False) if mask is None else _pattern(mask)
    multiplication = make_product(left, right, letters, out, semiring, pattern, complement != false, stype, free, keeps)
    node = (None if free else as_elementwise(multiplication)) or multiplication
    if not node.schema.ndim and result != "tensor":
        return engines.evaluate_element(node, View.identity(()), engine)
    found: Any = tensor._of(node)
    if engine != "auto":
        found = found.compute(engine)
    array = result == "array" or (result == "any" and multiplication.contracted_indices and arrays)
    return found.to_numpy() if array and stype is None else found


def as_dense_contraction(
    operands: Sequence[Any], letters: Sequence[Sequence[int]], out: Sequence[int]
) -> DenseContraction | None:
    """Return the product of one tensor and arrays as one node, None if there is none.

    A scalar is the product of tensors that have no letter left, which makes no array of others.
    """
    tensors = [k for k, each in enumerate(operands) if isinstance(each, Base)]
    if len(tensors) != 1 or len(operands) < 2 or any(isinstance(each, np.generic) for each in operands):
        return None
    (at,) = tensors
    others = [k for k in range(len(operands)) if k != at]
    scan = operands[at].__sparrow_scan__()
    return make_dense_contraction(scan, letters[at], [operands[k] for k in others], [letters[k] for k in others], out)


def _plain(
    operands: tuple[Any, Any], letters: tuple[Sequence[int], Sequence[int]], out: Sequence[int]
) -> MatMulDense | None:
    """Return the product of a matrix and an array as one without letters, None where it is none."""
    sides: list[Any] = []
    own, other = map(list, letters)
    shared = set(own) & set(other)
    if isinstance(operands[0], Base) == isinstance(operands[1], Base) or len(shared) != 1 or shared & set(out):
        return None
    if any(len(set(each)) < len(each) or len(each) > 2 for each in (own, other)):
        return None
    (matched,) = shared
    free = [[letter for letter in each if letter != matched] for each in (own, other)]
    turned = list(out) == [*free[1], *free[0]] and list(out) != [*free[0], *free[1]]
    if not turned and list(out) != [*free[0], *free[1]]:
        return None
    for k, (each, along) in enumerate(zip(operands, (own, other), strict=True)):
        last = (k == 0) != turned
        order = [along.index(letter) for letter in ((*free[k], matched) if last else (matched, *free[k]))]
        if isinstance(each, Base):
            scan = each.__sparrow_scan__()
            sides.append(scan.then(scan.view.permute(order)))
        else:
            sides.append(Dense(each.transpose(order)))
    return MatMulDense(*(reversed(sides) if turned else sides))


def _pattern(mask: Any) -> tuple[Scan, bool]:
    """Return a mask as a scan, and whether its entries are the cells at which it is False, as those of ``M == 0`` are.

    It is a tensor, a sparse array of another library or an array of booleans.
    """
    if isinstance(mask, Base) and mask.dtype == bool and mask.fill_value:
        turned: Any = mask
        return as_scan(~turned), True
    if isinstance(mask, Base) or is_foreign_sparse(mask):
        return as_scan(mask), False
    if isinstance(mask, np.ndarray | np.bool_) and mask.dtype == bool:
        return as_scan(np.asarray(mask)), False
    raise UnsupportedError(
        f"mask={type(mask).__name__}: a mask is a tensor or has booleans, of another array make one with sp.asarray"
    )


def _every_fill(scan: Scan) -> Scan:
    """Return a scan with its fill as entries, where the result is an array or a number; as it is if they do not fit."""
    if scan.schema.has_zero_fill:
        return scan
    try:
        stored = make_with_fill(scan, 0, scan.schema.stype)
    except TooLargeError:
        return scan
    return Scan(stored, View.identity(stored.schema.shape), stored.schema)


def as_explicit_scan(array: NDArray[Any]) -> Scan:
    """Return an array as a scan in which each cell is an entry, 0 too."""
    check_dtype(array.dtype)
    schema = Schema(array.shape, (), array.dtype, stype="dense")
    coords = [column.reshape(-1) for column in np.indices(array.shape, np.int32, sparse=False)] if array.ndim else []
    columns = tuple(column.astype(schema.coordinate_dtype(k), copy=False) for k, column in enumerate(coords))
    relation = MemoryRelation(schema, Block(columns, freeze_array(array).reshape(-1)))
    return Scan(relation, View.identity(array.shape), schema)
