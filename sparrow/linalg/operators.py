"""Tensors as SciPy linear operators: products from disk, or from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from sparrow import engines
from sparrow.core.array_validation import check_scipy_array
from sparrow.core.schema import check_array
from sparrow.engines.repeats import RepeatedProducts, persisted_budget
from sparrow.errors import ConvergenceError, ShapeError, TooLargeError, UnsupportedError
from sparrow.functions.labels import align_to_axis
from sparrow.functions.views import as_tensor
from sparrow.interop.conversion import is_foreign_sparse, is_pydata
from sparrow.plan import Contraction, Dense, make_matmul, multiply_arrays, split_sum
from sparrow.plan.estimates import estimate_nnz
from sparrow.runtime import memory
from sparrow.runtime.docs import SharedText
from sparrow.runtime.progress import format_quantity
from sparrow.tensor import Tensor

__all__ = [
    "Operator", "align_vectors", "aslinearoperator", "check_matrix", "check_square", "shared", "to_numeric_array",
    "unwrap_tensor",
]  # fmt: skip

shared = SharedText(
    square="""
    A
        Square tensor, which may stay on disk, operator, or what SciPy accepts.
    """,
    matrix="""
    A
        Tensor of shape (m, n), which may stay on disk, operator, or what SciPy accepts.
    """,
    direct_matrix="""
    A
        Square tensor or operator, or what SciPy accepts. It is loaded into memory; factors may grow beyond the memory
        limit.
    """,
    side="""
    b
        Right-hand side, one value per row; a labelled tensor is aligned with the rows.
    """,
    sides="""
    b
        Right-hand side, a vector or matrix. A labelled tensor is aligned with the rows; missing labels take its fill
        value.
    """,
    x0="""
    x0
        Initial guess, one value per column; a labelled tensor is aligned with the columns. 0 by default.
    """,
    solution="""
    x
        Solution, in the order of the columns.
    info
        0 if it converged.
    """,
    solver_errors="""
    ShapeError
        If A is not square, or the shape of a vector or matrix does not match.
    LabelError
        If one has labels that A lacks, or rows and columns of A have labels in common, and not all in one order.
    InvalidValueError
        If b or x0 is not finite, or A is not symmetric where it must be.
    ConvergenceError
        If a product with A is not finite.
    """,
    vector_errors="""
    ShapeError
        If the length of a vector does not match.
    LabelError
        If one has labels that A lacks.
    """,
    space_errors="""
    ShapeError
        If A is not square, or the shape of a vector or matrix does not match.
    LabelError
        If rows and columns of A have different labels, or a vector or matrix has others.
    """,
    side_errors="""
    ShapeError
        If A is not square, or b has a different number of rows.
    LabelError
        If b has labels that the rows of A lack.
    """,
    factor_errors="""
    SingularError
        If A is singular.
    TooLargeError
        If the matrix and factors of four times its size exceed the free memory; iterative solvers read it from disk.
    """,
    column_vector="""
    x
        Vector, one value per column; a labelled tensor is aligned.
    """,
    row_vector="""
    x
        Vector, one value per row; a labelled tensor is aligned.
    """,
    size_error="""
    ShapeError
        If the sizes do not match.
    """,
    demo="""
    >>> import sparrow as sp
    >>> A = sp.linalg.aslinearoperator(sp.asarray([[0, 2], [3, 0], [0, 1]]))
    """,
)


def check_square(A: Any, function: str) -> None:
    """Raise ``ShapeError`` if a matrix is not square."""
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"{function} requires a square matrix, got shape {A.shape}")


def check_matrix(A: Any, function: str) -> Any:
    """Return a solver's matrix: unchanged if it has a shape, else as an array.

    Raises
    ------
    ShapeError
        If it is not 2-D.
    UnsupportedError
        If its dtype is not numeric.
    """
    A = A if hasattr(A, "shape") else check_array(A, "A")
    if is_pydata(A):
        A = as_tensor(A)
    if is_foreign_sparse(A):
        A = check_scipy_array(A)
    if A.dtype is not None and np.dtype(A.dtype).kind not in "biufc":
        raise UnsupportedError(f"{function} requires a matrix of numbers, got dtype {A.dtype}")
    if len(A.shape) != 2:
        raise ShapeError(f"{function} requires a matrix, got shape {A.shape}")
    return A


def to_numeric_array(given: Any, name: str) -> NDArray[Any]:
    """Return an argument as an array; raise ``UnsupportedError`` if not numeric."""
    result = given.to_numpy() if isinstance(given, Tensor) else check_array(given, name)
    if result.dtype.kind not in "biufc":
        raise UnsupportedError(f"{name} must be an array of numbers, got {name}={given!r}")
    return result


def align_vectors(given: Any, name: str, A: Any, axis: int, function: str, several: bool = True) -> Any:
    """Return vectors along an axis of a matrix, in the order of its labels.

    Parameters
    ----------
    given, name
        Vector, or several as the columns of a matrix, and the argument name. Foreign sparse matrices stay sparse.
    A, axis
        Matrix; 0 for its rows, 1 for its columns.
    function
        Name of the calling function.
    several
        Whether several vectors are allowed.

    Raises
    ------
    LabelError
        If the vectors have labels that the matrix lacks.
    ShapeError
        If their length is not that of the axis, or there are several where one is required.
    """
    if is_pydata(given):
        given = as_tensor(given)
    if is_foreign_sparse(given):
        result = check_scipy_array(given)
    else:
        result = to_numeric_array(align_to_axis(given, unwrap_tensor(A), axis, name, function), name)
    size, side = A.shape[axis], ("row", "column")[axis]
    if result.ndim not in (1, 2) or result.shape[0] != size:
        raise ShapeError(
            f"{function}: {name} must have one value per {side} of A, {size} {side}s, got shape {result.shape}"
        )
    if not several and result.ndim == 2 and result.shape[1] != 1:
        raise ShapeError(
            f"{function}: {name} must have shape ({size},), got shape {result.shape}: pass one vector at a time"
        )
    return result


def unwrap_tensor(A: Any) -> Any:
    """Return the tensor of an operator; anything else is returned as it is."""
    return A.tensor if isinstance(A, Operator) else A


def aslinearoperator(A: Any, persist: bool | None = None) -> Operator:
    """Return a matrix as a ``scipy.sparse.linalg.LinearOperator``.

    Products are those of ``A @ x``, to the bit. The first one reads the tensor; the second one persists its rows in
    memory if they take at most a quarter of the memory limit, and an expression is computed once. ``A.T`` has rows of
    its own. :meth:`Operator.explain` shows the choice.

    The operator pins the tensor as it is now; later writes do not affect it. Vectors that are labelled tensors are
    aligned, as in ``A @ x``. Composite operators built by SciPy work by position.

    Parameters
    ----------
    A
        2-D tensor, or what :func:`sparrow.asarray` accepts.
    persist
        True to persist its rows before the first product if they fit; False never to.

    Returns
    -------
    Operator

    Raises
    ------
    ShapeError
        If A is not 2-D.

    Examples
    --------
    >>> import numpy as np, scipy.sparse.linalg, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = scipy.sparse.linalg.cg(sp.linalg.aslinearoperator(A), [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2])
    True
    """
    return A if isinstance(A, Operator) else Operator(as_tensor(A), persist)


@shared
class _LabelledOperator(LinearOperator):  # type: ignore[misc]
    """Linear operator that aligns labelled vectors and checks sizes."""

    _tensor: Tensor
    """Tensor that vectors are aligned with."""

    def matvec(self, x: Any) -> Any:
        """Return the matrix-vector product ``A @ x``.

        Parameters
        ----------
        %(column_vector)s

        Returns
        -------
        ndarray
            With as many dimensions as ``x``.

        Raises
        ------
        %(size_error)s

        Examples
        --------
        %(demo)s
        >>> A.matvec([1, 10])
        array([20.,  3., 10.])
        """
        return super().matvec(self._align(x, 1))

    def rmatvec(self, x: Any) -> Any:
        """Return the product ``A.H @ x`` with the conjugate transpose.

        Parameters
        ----------
        %(row_vector)s

        Returns
        -------
        ndarray
            With as many dimensions as ``x``.

        Raises
        ------
        %(size_error)s

        Examples
        --------
        %(demo)s
        >>> A.rmatvec([1, 1, 1])
        array([3., 3.])
        """
        return super().rmatvec(self._align(x, 0))

    def matmat(self, X: Any) -> Any:
        """Return the matrix product ``A @ X``.

        Parameters
        ----------
        X
            Matrix, one row per column of A; a labelled tensor is aligned.

        Returns
        -------
        ndarray

        Raises
        ------
        %(size_error)s

        Examples
        --------
        %(demo)s
        >>> A.matmat([[1], [10]])
        array([[20.],
               [ 3.],
               [10.]])
        """
        return super().matmat(self._align(X, 1))

    def rmatmat(self, X: Any) -> Any:
        """Return the matrix product ``A.H @ X`` with the conjugate transpose.

        Parameters
        ----------
        X
            Matrix, one row per row of A; a labelled tensor is aligned.

        Returns
        -------
        ndarray

        Raises
        ------
        %(size_error)s

        Examples
        --------
        %(demo)s
        >>> A.rmatmat([[1], [1], [1]])
        array([[3.],
               [3.]])
        """
        return super().rmatmat(self._align(X, 0))

    def dot(self, x: Any) -> Any:
        """Return the product with vectors, a scalar or another operator.

        Parameters
        ----------
        x
            Vector, or matrix of column vectors; a labelled tensor is aligned. Or a scalar, or an operator.

        Returns
        -------
        ndarray, LinearOperator
            An operator for a scalar or an operator.

        Raises
        ------
        %(size_error)s

        Examples
        --------
        %(demo)s
        >>> A.dot([1, 10])
        array([20.,  3., 10.])
        """
        return super().dot(x if _is_scipy_operand(x) else self._align(x, 1))

    def __matmul__(self, other: Any) -> Any:
        return super().__matmul__(_reject_text(other))

    def __rmatmul__(self, other: Any) -> Any:
        return super().__rmatmul__(_reject_text(other))

    def __rmul__(self, x: Any) -> Any:
        return super().__rmul__(_reject_text(x))

    def _rdot(self, x: Any) -> Any:
        if _is_scipy_operand(x):
            return super()._rdot(x)
        transposed = x.T if isinstance(x, Tensor) else np.asarray(x).T
        return super()._rdot(self._align(transposed, 0).T)

    def _align(self, x: Any, axis: int) -> Any:
        """Return a factor as an array with one value per row (axis 0) or column (1)."""
        if _is_scipy_operand(x):
            return x
        result = x if isinstance(x, np.ndarray) else to_numeric_array(align_to_axis(x, self._tensor, axis), "x")
        if result.ndim not in (1, 2) or result.shape[0] != self.shape[axis]:
            side = ("row", "column")[axis]
            raise ShapeError(
                f"x must have one value per {side} of the operator of shape {self.shape}, {self.shape[axis]} {side}s, "
                f"got shape {result.shape}"
            )
        return result

    def _adjoint(self) -> LinearOperator:
        return _TransposedOperator(super()._adjoint(), self._tensor.T)

    def _transpose(self) -> LinearOperator:
        return _TransposedOperator(super()._transpose(), self._tensor.T)


class _TransposedOperator(_LabelledOperator):
    """Transpose or adjoint of an operator, computed by SciPy's."""

    def __init__(self, operator: LinearOperator, tensor: Tensor) -> None:
        super().__init__(operator.dtype, operator.shape)
        self._operator, self._tensor = operator, tensor

    def _matvec(self, x: NDArray[Any]) -> Any:
        return self._operator._matvec(x)

    def _matmat(self, X: NDArray[Any]) -> Any:
        return self._operator._matmat(X)

    def _rmatvec(self, x: NDArray[Any]) -> Any:
        return self._operator._rmatvec(x)

    def _rmatmat(self, X: NDArray[Any]) -> Any:
        return self._operator._rmatmat(X)


def _is_scipy_operand(x: Any) -> bool:
    """Return whether SciPy handles or rejects a factor by itself."""
    if is_foreign_sparse(x) and not is_pydata(x):
        check_scipy_array(x)
        return True
    return isinstance(x, LinearOperator) or np.isscalar(_reject_text(x))


def _reject_text(x: Any) -> Any:
    """Raise ``UnsupportedError`` for a string, which NumPy calls a scalar."""
    if isinstance(x, str | bytes):
        raise UnsupportedError(f"x must be an array of numbers, got x={x!r}")
    return x


@shared
class Operator(_LabelledOperator):
    """SciPy ``LinearOperator`` over a tensor, returned by :func:`aslinearoperator`.

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
            raise ShapeError(f"a linear operator must have two dimensions, got shape {tensor.shape}: take a slice")
        dtype = tensor.dtype if tensor.dtype.kind in "fc" and tensor.dtype != np.float16 else np.dtype(np.float64)
        super().__init__(dtype, tensor.shape)
        height, width = tensor.shape
        remedy = "renumber the rows and columns that have stored elements"
        memory.check(8 * (height + width), f"vectors of a matrix of shape {tensor.shape}", remedy)
        scan = tensor.__sparrow_scan__()
        self._tensor = Tensor(scan.source, scan.view, tensor.stype)  # pins the current version
        found = split_sum(self._tensor.__sparrow_scan__())
        self._core = self._tensor if found is None else Tensor(found.core.source, found.core.view)
        """Tensor that is read for products, less the broadcast terms of a sum such as ``H - H.mean(axis=0)``."""
        self._terms = () if found is None else found.terms
        self._term_arrays: list[tuple[NDArray[Any], tuple[int, ...]]] | None = None
        self._repeats = RepeatedProducts(after=1 if persist is None else 0 if persist else None)
        self._computed: Tensor | None = None
        self._reservation = memory.Reservation("a tensor computed for products", "")
        self._refusal = ""
        """Why an expression is computed for each product."""
        self._calls = 0
        self._persisted_after: int | None = None
        """Number of vectors multiplied before rows were persisted."""
        self.on_product: Callable[[int], None] = _ignore
        """Called after each product with its number of vectors, for progress bars."""
        self._requires_finite = ""
        """Name of the solver that ends when a product is not finite, or ""."""

    @contextmanager
    def report_products(self, advance: Callable[[int], None]) -> Iterator[None]:
        """Replace ``on_product`` for the length of a block.

        Parameters
        ----------
        advance
            Called after each product with its number of vectors.

        Yields
        ------
        None

        Examples
        --------
        >>> import sparrow as sp
        >>> A, counts = sp.linalg.aslinearoperator(sp.asarray([[1.0, 2.0]])), []
        >>> with A.report_products(counts.append):
        ...     A @ [1, 1]
        array([3.])
        >>> counts
        [1]
        """
        before, self.on_product = self.on_product, advance
        try:
            yield
        finally:
            self.on_product = before

    @contextmanager
    def require_finite(self, solver: str) -> Iterator[None]:
        """Raise ``ConvergenceError`` for products of finite vectors that are not finite.

        Parameters
        ----------
        solver
            Name for the error.

        Yields
        ------
        None

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.linalg.aslinearoperator(sp.asarray([[1.0, float("nan")]]))
        >>> with A.require_finite("cg"):
        ...     A @ [1, 1]
        Traceback (most recent call last):
            ...
        sparrow.errors.ConvergenceError: cg: a product with A is not finite: A has NaN or infinity, or it overflows
        """
        before, self._requires_finite = self._requires_finite, solver
        try:
            yield
        finally:
            self._requires_finite = before

    telling = report_products
    """Former name of :meth:`report_products`."""

    @property
    def products(self) -> int:
        """Number of vectors multiplied so far."""
        return self._calls

    @property
    def tensor(self) -> Tensor:
        """Tensor that products read: the pinned version.

        An expression that fits in memory is computed.
        """
        return self._tensor if self._computed is None or self._terms else self._computed

    def explain(self) -> engines.Plan:
        """Return the plan of the next product and the location of the tensor.

        Returns
        -------
        Plan

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.linalg.aslinearoperator(sp.eye(3))
        >>> y = A @ [1, 2, 3], A @ [1, 2, 3]
        >>> print(A.explain().splitlines()[-1])
        operator      2 products; persisted after 1, 40 bytes
        """
        x = np.broadcast_to(self.dtype.type(0), (self.shape[1],))
        plan = engines.explain(self._node(x, transposed=False), repeats=self._repeats)
        status = f"operator      {format_quantity(self._calls, 'products')}; {self._status()}"
        return engines.Plan(plan.entries, (*plan.summary, status), plan.totals, plan.queries)

    def _status(self) -> str:
        """Return the location of the tensor."""
        if self._persisted_after is not None and self._repeats.is_persisted:
            nbytes = self._repeats.nbytes + self._reservation.nbytes
            where = " in files of tasks" if self._repeats.files else ""
            return f"persisted after {self._persisted_after}, {format_quantity(nbytes, 'bytes')}{where}"
        scan = self._core.__sparrow_scan__()
        where = "recomputed" if scan.step is not None else "read from disk" if scan.is_stored else "read from memory"
        refusal = self._refusal or self._repeats.refusal
        return f"{where} for each product{f': {refusal}' if refusal else ''}"

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._product(x.reshape(-1), transposed=False)

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._product(X, transposed=False)

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._adjoint_product(x.reshape(-1))

    def _rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._adjoint_product(X)

    def _adjoint_product(self, x: NDArray[Any]) -> NDArray[Any]:
        if self.dtype.kind != "c":
            return self._product(x, transposed=True)
        product: NDArray[Any] = np.conj(self._product(np.conj(x), transposed=True))
        return product

    def multiply_transposed(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return ``A.T @ x``, without conjugation.

        Parameters
        ----------
        x
            Array of shape (m,) or (m, k); a labelled tensor is aligned with the rows.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.linalg.aslinearoperator(sp.asarray([[0, 1j]])).multiply_transposed(np.array([2.0]))
        array([0.+0.j, 0.+2.j])
        """
        return self._product(np.asarray(self._align(x, 0)), transposed=True)

    def _product(self, x: NDArray[Any], transposed: bool) -> NDArray[Any]:
        if not np.result_type(x.dtype, np.float64).isbuiltin:
            raise UnsupportedError(f"dtype {x.dtype} is not numeric")
        if self._repeats.after is not None and self._calls >= self._repeats.after:
            self._try_compute()
        dtype = np.result_type(self.dtype, x.dtype)
        given = np.ascontiguousarray(x, dtype=dtype)
        y = engines.evaluate_dense(self._node(given, transposed), repeats=self._repeats)
        if self._terms:
            y = y + self._multiply_terms(given, transposed)
        if self._persisted_after is None and self._repeats.is_persisted:
            self._persisted_after = self._calls
        if self._requires_finite and not np.isfinite(y).all() and np.isfinite(given).all():
            raise ConvergenceError(
                f"{self._requires_finite}: a product with A is not finite: A has NaN or infinity, or it overflows"
            )
        self._calls += 1 if x.ndim == 1 else x.shape[1]
        self.on_product(1 if x.ndim == 1 else x.shape[1])
        product: NDArray[Any] = y.astype(dtype, copy=False)
        return product

    def _node(self, x: NDArray[Any], transposed: bool) -> Contraction:
        """Return the plan node of a product."""
        scan = (self._core if self._computed is None else self._computed).__sparrow_scan__()
        return make_matmul(scan.transpose() if transposed else scan, Dense(x))

    def _multiply_terms(self, x: NDArray[Any], transposed: bool) -> NDArray[Any]:
        """Return the product of the broadcast terms, which are computed once."""
        if self._term_arrays is None:
            self._term_arrays = [(engines.evaluate_array(term.scan), term.axes) for term in self._terms]
        across, down = (0, 1) if transposed else (1, 0)
        sizes = {0: self.shape[0], 1: self.shape[1]} | ({2: x.shape[1]} if x.ndim == 2 else {})
        own, output = ((across, 2), (down, 2)) if x.ndim == 2 else ((across,), (down,))
        total = np.zeros((1,) * x.ndim, x.dtype)
        for array, axes in self._term_arrays:
            total = total + multiply_arrays((array, x), (axes, own), output, sizes)
        return total

    def _try_compute(self) -> None:
        """Compute an expression if it fits; later calls do nothing."""
        scan = self._core.__sparrow_scan__()
        if self._computed is not None or self._refusal or scan.step is None:
            return
        if engines.runs_tasks() and estimate_nnz(scan) * scan.schema.element_bytes() > persisted_budget():
            return  # tasks would compute all of it to find that it does not fit here
        try:
            computed = self._core.astype(self.dtype).compute()
        except TooLargeError:
            self._refusal = "it exceeds the free memory"
            return
        budget = persisted_budget()
        if computed.nbytes > budget:
            sizes = (format_quantity(n, "bytes") for n in (computed.nbytes, budget))
            self._refusal = "{} exceed a quarter of the memory limit, {}".format(*sizes)
            return
        self._reservation.resize(computed.nbytes)
        self._computed, self._repeats = computed, RepeatedProducts(after=0)


def _ignore(n: int) -> None:
    """Ignore a product."""
