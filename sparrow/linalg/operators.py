"""A tensor as SciPy's linear operator: products read the files, or memory where they repeat and it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from sparrow.core.schema import check_array
from sparrow.engines import explain
from sparrow.errors import ShapeError, TooLargeError, UnsupportedError
from sparrow.functions.labels import at_labels
from sparrow.functions.views import as_tensor
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.kernels.jit.warmup import readonly
from sparrow.plan import Dense, MatMulDense
from sparrow.plan.estimates import max_nnz
from sparrow.relations import csr
from sparrow.runtime import memory, settings
from sparrow.runtime.progress import quantity
from sparrow.runtime.thread_pool import ordered_map
from sparrow.tensor import Tensor

__all__ = [
    "Operator", "aslinearoperator", "check_matrix", "check_sides", "check_square", "check_vector", "tensor_of",
]  # fmt: skip

_SHARE = 4
"""A tensor kept for products may take one part in so many of the limit: of that, not of what is free just now, since
sums of rows in memory run in another order than those of files. One that finds no room then is read from files."""


def check_square(A: Any, what: str) -> None:
    """Check that a matrix is square.

    Raises
    ------
    ShapeError
        If it is not.
    """
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"{what} takes a square matrix, not shape {A.shape}")


def check_matrix(A: Any, what: str) -> Any:
    """Return what a solver is given as a matrix: as it is if it has a shape, else as an array.

    Raises
    ------
    ShapeError
        If it has not two dimensions.
    UnsupportedError
        If it does not hold numbers.
    """
    A = A if hasattr(A, "shape") else check_array(A, "A")
    if A.dtype is not None and np.dtype(A.dtype).kind not in "biufc":
        raise UnsupportedError(f"{what} takes a matrix of numbers, not of {A.dtype}")
    if len(A.shape) != 2:
        raise ShapeError(f"{what} takes a matrix, not shape {A.shape}")
    return A


def check_vector(given: Any, name: str) -> NDArray[Any]:
    """Return an argument as an array of numbers.

    Raises
    ------
    UnsupportedError
        If it holds anything else.
    """
    found = given.to_numpy() if isinstance(given, Tensor) else check_array(given, name)
    if found.dtype.kind not in "biufc":
        raise UnsupportedError(f"{name}={given!r}: give numbers")
    return found


def check_sides(given: Any, name: str, A: Any, axis: int, what: str, several: bool = True) -> Any:
    """Return vectors along an axis of a matrix as an array in the order of its labels, sparse ones as they are.

    Parameters
    ----------
    given, name
        A vector, or several as a matrix, and the argument that it is.
    A, axis
        The matrix, and 0 for its rows, 1 for its columns.
    what
        The function.
    several
        Whether there may be several.

    Raises
    ------
    LabelError
        If there are labels that the matrix lacks.
    ShapeError
        If there is not a number for each row, or column, or there are several vectors where one is taken.
    """
    found = given if is_foreign_sparse(given) else check_vector(at_labels(given, tensor_of(A), axis, name, what), name)
    size, each = A.shape[axis], ("row", "column")[axis]
    if found.ndim not in (1, 2) or found.shape[0] != size:
        raise ShapeError(
            f"{what}: {name} has the shape {found.shape}, A has {size} {each}s: give a number for each {each}"
        )
    if not several and found.ndim == 2 and found.shape[1] != 1:
        raise ShapeError(
            f"{what}: {name} has the shape {found.shape}, {found.shape[1]} vectors, and A {A.shape}: give one of shape "
            f"({size},) at a time"
        )
    return found


def tensor_of(A: Any) -> Any:
    """Return the tensor of an operator, and anything else as it is."""
    return A.tensor if isinstance(A, Operator) else A


def aslinearoperator(A: Any, persist: bool | None = None) -> Operator:
    """Return a matrix as a ``scipy.sparse.linalg.LinearOperator``, for SciPy's solvers and those of others.

    Each product reads the tensor once, as ``A @ x`` does. From the second product on it is kept in memory, laid out for
    products (:meth:`sparrow.Tensor.persist`), if it takes at most a quarter of the memory limit;
    :meth:`Operator.explain` says which it is.

    As an expression it is pinned: it multiplies by the tensor as it is when the operator is made, whatever is written
    to it afterwards. A vector that is a tensor with labels is multiplied by label, as in ``A @ x``, one of the
    transpose too; what SciPy makes of several operators goes by position.

    Parameters
    ----------
    A
        A tensor of two dimensions, or what :func:`sparrow.asarray` takes.
    persist
        True to keep it in memory from the first product on, if it fits; False never to.

    Returns
    -------
    Operator

    Raises
    ------
    ShapeError
        If it has not two dimensions.

    Examples
    --------
    >>> import numpy as np, scipy.sparse.linalg, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = scipy.sparse.linalg.cg(sp.linalg.aslinearoperator(A), [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2])
    True
    """
    return A if isinstance(A, Operator) else Operator(as_tensor(A), persist)


class _ByLabel(LinearOperator):  # type: ignore[misc]
    """What multiplies tensors by label, and says which sizes do not fit."""

    _tensor: Tensor
    """Whose labels count."""

    def matvec(self, x: Any) -> Any:
        """Return the product with a vector, ``A @ x``.

        Parameters
        ----------
        x
            A number for each column, by label where a tensor has labels.

        Returns
        -------
        ndarray
            Of the dimensions of ``x``.

        Raises
        ------
        ShapeError
            If the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.linalg.aslinearoperator(sp.asarray([[0, 2], [3, 0], [0, 1]])).matvec([1, 10])
        array([20.,  3., 10.])
        """
        return super().matvec(self._array(x, 1))

    def rmatvec(self, x: Any) -> Any:
        """Return the product of the conjugate transpose with a vector, ``A.H @ x``.

        Parameters
        ----------
        x
            A number for each row, by label where a tensor has labels.

        Returns
        -------
        ndarray
            Of the dimensions of ``x``.

        Raises
        ------
        ShapeError
            If the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.linalg.aslinearoperator(sp.asarray([[0, 2], [3, 0], [0, 1]])).rmatvec([1, 1, 1])
        array([3., 3.])
        """
        return super().rmatvec(self._array(x, 0))

    def matmat(self, X: Any) -> Any:
        """Return the product with several vectors, the columns of a matrix, ``A @ X``.

        Parameters
        ----------
        X
            A row for each column, by label where a tensor has labels.

        Returns
        -------
        ndarray

        Raises
        ------
        ShapeError
            If the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.linalg.aslinearoperator(sp.asarray([[0, 2], [3, 0], [0, 1]])).matmat([[1], [10]])
        array([[20.],
               [ 3.],
               [10.]])
        """
        return super().matmat(self._array(X, 1))

    def rmatmat(self, X: Any) -> Any:
        """Return the product of the conjugate transpose with several vectors, ``A.H @ X``.

        Parameters
        ----------
        X
            A row for each row, by label where a tensor has labels.

        Returns
        -------
        ndarray

        Raises
        ------
        ShapeError
            If the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.linalg.aslinearoperator(sp.asarray([[0, 2], [3, 0], [0, 1]])).rmatmat([[1], [1], [1]])
        array([[3.],
               [3.]])
        """
        return super().rmatmat(self._array(X, 0))

    def dot(self, x: Any) -> Any:
        """Return the product with vectors, a number or another operator: what ``A @ x`` and ``A * 2`` do.

        Parameters
        ----------
        x
            A vector, or several as the columns of a matrix, by label where a tensor has labels; a number; an operator.

        Returns
        -------
        ndarray, LinearOperator
            An operator of a number or another one.

        Raises
        ------
        ShapeError
            If the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.linalg.aslinearoperator(sp.asarray([[0, 2], [3, 0], [0, 1]])).dot([1, 10])
        array([20.,  3., 10.])
        """
        return super().dot(x if _is_plain(x) else self._array(x, 1))

    def __matmul__(self, other: Any) -> Any:
        return super().__matmul__(_no_text(other))

    def __rmatmul__(self, other: Any) -> Any:
        return super().__rmatmul__(_no_text(other))

    def __rmul__(self, x: Any) -> Any:
        return super().__rmul__(_no_text(x))

    def _rdot(self, x: Any) -> Any:
        if _is_plain(x):
            return super()._rdot(x)
        turned = x.T if isinstance(x, Tensor) else np.asarray(x).T
        return super()._rdot(self._array(turned, 0).T)

    def _array(self, x: Any, axis: int) -> Any:
        """Return what is multiplied by as an array of a number for each row (axis 0) or column (1)."""
        if _is_plain(x):
            return x
        found = x if isinstance(x, np.ndarray) else check_vector(at_labels(x, self._tensor, axis), "x")
        if found.ndim not in (1, 2) or found.shape[0] != self.shape[axis]:
            each = ("row", "column")[axis]
            raise ShapeError(
                f"x has the shape {found.shape}, the operator {self.shape}: give a number for each {each}, "
                f"{self.shape[axis]}"
            )
        return found

    def _adjoint(self) -> LinearOperator:
        return _Turned(super()._adjoint(), self._tensor.T)

    def _transpose(self) -> LinearOperator:
        return _Turned(super()._transpose(), self._tensor.T)


class _Turned(_ByLabel):
    """The transpose or the adjoint of an operator, as SciPy makes it."""

    def __init__(self, made: LinearOperator, tensor: Tensor) -> None:
        super().__init__(made.dtype, made.shape)
        self._made, self._tensor = made, tensor

    def _matvec(self, x: NDArray[Any]) -> Any:
        return self._made._matvec(x)

    def _matmat(self, X: NDArray[Any]) -> Any:
        return self._made._matmat(X)

    def _rmatvec(self, x: NDArray[Any]) -> Any:
        return self._made._rmatvec(x)

    def _rmatmat(self, X: NDArray[Any]) -> Any:
        return self._made._rmatmat(X)


def _is_plain(x: Any) -> bool:
    """Return whether SciPy knows what to do with a factor: an operator, a number, or what it does not multiply by."""
    return isinstance(x, LinearOperator) or np.isscalar(_no_text(x)) or is_foreign_sparse(x)


def _no_text(x: Any) -> Any:
    """Return a factor as it is; raise ``UnsupportedError`` of a text, which NumPy takes for a number."""
    if isinstance(x, str | bytes):
        raise UnsupportedError(f"x={x!r}: give numbers")
    return x


class Operator(_ByLabel):
    """A matrix that multiplies: SciPy's ``LinearOperator`` over a tensor. Made by :func:`aslinearoperator`.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.linalg.aslinearoperator(sp.asarray([[0, 2], [3, 0], [0, 1]]))
    >>> A.shape, A @ [1, 10], A.T @ [1, 1, 1]
    ((3, 2), array([20.,  3., 10.]), array([3., 3.]))
    """

    def __init__(self, tensor: Tensor, persist: bool | None = None) -> None:
        tensor = as_tensor(tensor)
        if tensor.ndim != 2:
            raise ShapeError(f"a linear operator is a matrix: two dimensions, not shape {tensor.shape}; take a slice")
        dtype = tensor.dtype if tensor.dtype.kind in "fc" and tensor.dtype != np.float16 else np.dtype(np.float64)
        super().__init__(dtype, tensor.shape)
        height, width = tensor.shape
        remedy = "number rows and columns that have entries anew"
        memory.check(8 * (height + width), f"vectors of a matrix of shape {tensor.shape}", remedy)
        scan = tensor.__sparrow_scan__()
        self._tensor = Tensor(scan.source, scan.view, tensor.stype)  # as it is now
        self._persist = persist
        self._kept: Tensor | None = None
        self._room: memory.Reservation | None = None
        self._left = "read from the files each time" if tensor.version is not None else "computed anew each time"
        self._calls = 0
        self._value: Any = None
        """What all entries kept are, if they are alike."""
        self.on_product: Callable[[int], None] = _ignored
        """Called with how many vectors a product multiplies, for bars of progress."""

    @contextmanager
    def telling(self, advance: Callable[[int], None]) -> Iterator[None]:
        """Tell something else of products within a block, as a context manager.

        Parameters
        ----------
        advance
            Called with how many vectors each multiplies, in place of ``on_product``.

        Yields
        ------
        None

        Examples
        --------
        >>> import sparrow as sp
        >>> A, told = sp.linalg.aslinearoperator(sp.asarray([[1.0, 2.0]])), []
        >>> with A.telling(told.append):
        ...     A @ [1, 1]
        array([3.])
        >>> told
        [1]
        """
        before, self.on_product = self.on_product, advance
        try:
            yield
        finally:
            self.on_product = before

    @property
    def products(self) -> int:
        """How many vectors have been multiplied."""
        return self._calls

    @property
    def tensor(self) -> Tensor:
        """The matrix as it was when the operator was made: as it is kept in memory for products, where it is."""
        return self._tensor if self._kept is None else self._kept

    def explain(self) -> str:
        """Return how the next product would be computed, as text: the plan, and where the tensor is.

        Returns
        -------
        str

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.linalg.aslinearoperator(sp.eye(3))
        >>> y = A @ [1, 2, 3], A @ [1, 2, 3]
        >>> print(A.explain().splitlines()[-1])
        operator      2 products; persisted after 1, 48 bytes
        """
        tensor = self.tensor
        x = np.broadcast_to(self.dtype.type(0), (tensor.shape[1],))
        plan = explain(MatMulDense(tensor.__sparrow_scan__(), Dense(x)))
        return f"{plan}\noperator      {quantity(self._calls, 'products')}; {self._left}"

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._product(x.reshape(-1), turned=False)

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._product(X, turned=False)

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._conjugated(x.reshape(-1))

    def _rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._conjugated(X)

    def _conjugated(self, x: NDArray[Any]) -> NDArray[Any]:
        if self.dtype.kind != "c":
            return self._product(x, turned=True)
        turned: NDArray[Any] = np.conj(self._product(np.conj(x), turned=True))
        return turned

    def multiply_transposed(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return ``A.T @ x``, not conjugated.

        Parameters
        ----------
        x
            An array of shape (m,) or (m, k).

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.linalg.aslinearoperator(sp.asarray([[0, 1j]])).multiply_transposed(np.array([2.0]))
        array([0.+0.j, 0.+2.j])
        """
        return self._product(np.asarray(x), turned=True)

    def _product(self, x: NDArray[Any], turned: bool) -> NDArray[Any]:
        if self._calls >= (0 if self._persist else 1):
            self._keep()
        tensor: Any = self.tensor
        if not np.result_type(x.dtype, np.float64).isbuiltin:
            raise UnsupportedError(f"a product with {x.dtype} is none of numbers")
        wanted = np.result_type(self.dtype, x.dtype)
        given = np.ascontiguousarray(x, dtype=wanted)
        y = self._alike(given, turned)
        if y is None:
            y = (tensor.T if turned else tensor) @ given
        self._calls += 1 if x.ndim == 1 else x.shape[1]
        self.on_product(1 if x.ndim == 1 else x.shape[1])
        return y.astype(wanted, copy=False)

    def _alike(self, x: NDArray[Any], turned: bool) -> NDArray[Any] | None:
        """Return the product with a vector where all entries kept are alike: they need not be read, or converted."""
        if self._kept is None or self._value is None or x.ndim > 1:
            return None
        from sparrow.kernels.matmul.matvec import rows_sums

        scan = (self._kept.T if turned else self._kept).__sparrow_scan__()
        rows = csr.rows_of(scan.relation, scan.view)
        if rows is None:
            return None
        y = np.empty(scan.schema.shape[0], x.dtype)
        with np.errstate(all="ignore"):
            given = readonly(x if self._value == 1 else x * x.dtype.type(self._value))
        threads = settings.current().threads
        pieces = rows.pieces(threads)

        def summed(piece: tuple[int, int]) -> None:
            part = rows.between(*piece)
            rows_sums(readonly(part.indptr), readonly(part.indices), given, y[slice(*piece)])

        for _ in ordered_map(summed, pieces, min(threads, len(pieces))):
            pass
        return y

    def _keep(self) -> None:
        """Bring the tensor into memory, if it may be and fits; the first time, later calls do nothing."""
        if self._room is not None or self._persist is False:
            return
        self._room = memory.Reservation("a tensor kept for products", "")
        scan = self._tensor.__sparrow_scan__()
        stays = self._left.partition(":")[0]
        most = max_nnz(scan)
        width = scan.schema.element_bytes() - scan.schema.dtype.itemsize + self.dtype.itemsize
        room = memory.limit() // _SHARE
        if most is not None and most * width > room:
            self._left = f"{stays}: {_bytes(most * width)} would pass a quarter of the memory limit, {_bytes(room)}"
            return
        try:
            kept = self._tensor.astype(self.dtype).persist()
        except TooLargeError:
            self._left = f"{stays}: it does not fit the memory that is free"
            return
        if kept.nbytes > room:
            self._left = f"{stays}: {_bytes(kept.nbytes)} would pass a quarter of the memory limit, {_bytes(room)}"
            return
        self._room.hold(kept.nbytes)
        self._kept = kept
        block = kept.__sparrow_scan__().relation.block  # type: ignore[attr-defined]
        if block.count and kept.fill_value == 0 and (block.values == block.values[0]).all():
            self._value = block.values[0]
        self._left = f"persisted after {self._calls}, {_bytes(kept.nbytes)}"


def _bytes(n: int) -> str:
    return quantity(n, "bytes")


def _ignored(n: int) -> None:
    """Take note of products that nobody watches."""
