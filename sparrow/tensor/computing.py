"""Evaluation of tensors: compute, persist, and compute of several in one pass."""

from __future__ import annotations

from typing import Any, Self

from sparrow import engines
from sparrow.engines import EngineName
from sparrow.plan import named_origin
from sparrow.relations.csr import CSRRelation
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.tensor.base import Base, read_labels

__all__ = ["ComputeMethods", "compute"]


class ComputeMethods(Base):
    """Evaluation into memory."""

    __slots__ = ()

    def compute(self, engine: EngineName = "auto") -> Self:
        """Evaluate into a tensor in memory, independent of its operands.

        Parameters
        ----------
        engine
            "stream", "duckdb", "cupy" (on a GPU), "processes", "dask", "ray" or "spark" (tasks elsewhere), or "auto"
            for the configured engine, or the one of least cost with the same bits.

        Returns
        -------
        Tensor

        Raises
        ------
        TooLargeError
            If the stored elements would exceed the memory limit.
        InvalidValueError
            If the engine is unknown.
        MissingDependencyError
            If the engine is "cupy" and CuPy or a GPU is missing.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2], [3, 0]])
        >>> (A * 10).compute()
        <Tensor (d0: 2, d1: 2) int64 nnz=2 coo in memory>
        density 50 %
        d0 / d1   0   1
              0   ·  20
              1  30   ·
        """
        scan = self.__sparrow_scan__()
        block = engines.evaluate(scan, engine)
        return type(self)(MemoryHandle(MemoryRelation(scan.schema, block, read_labels(scan), named_origin(scan))))

    def persist(self) -> Self:
        """Evaluate into memory, laid out for repeated products; see :meth:`compute`.

        A matrix is kept as CSR, so that ``A @ x`` reads columns and values only and threads share the rows. The first
        ``A.T @ x`` adds the CSC layout, which takes the same memory again. Contiguous rows ``A[i:j]`` are used in
        place. The bits of a product do not depend on the number of threads.

        Returns
        -------
        Tensor

        Raises
        ------
        TooLargeError
            If the stored elements would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 1, 1], [1, 0, 2]], [2.0, 3.0, 4.0], shape=(2, 3)).persist()
        >>> A @ [1, 10, 100], [5, 7] @ A
        (array([ 20., 403.]), array([21., 10., 28.]))
        """
        scan = self.__sparrow_scan__()
        relation = CSRRelation(scan.schema, engines.evaluate(scan, own=False), read_labels(scan), named_origin(scan))
        if scan.schema.ndim == 2:
            relation.rows(0)
        return type(self)(MemoryHandle(relation))


def compute(*expressions: Any, engine: EngineName = "auto") -> tuple[Any, ...]:
    """Evaluate several tensors together: shared inputs are read and computed once.

    Files and sub-expressions that occur more than once are shared as long as memory allows (an eighth of the limit),
    and so is the scan of reductions of one tensor over the same axes.

    Parameters
    ----------
    *expressions
        Tensors; other objects, such as the scalar of a reduction over all axes, are returned as they are.
    engine
        See :meth:`sparrow.Tensor.compute`.

    Returns
    -------
    tuple
        A tensor in memory for each tensor, in the given order.

    Raises
    ------
    TooLargeError
        If the stored elements of a result would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 1], [1, 0, 2]], [2.0, 3.0, 4.0], shape=(2, 3))
    >>> total, mean, largest = sp.compute(A.sum(axis=0), A.mean(axis=0), A.max())
    >>> total.to_numpy(), mean.to_numpy(), largest
    (array([3., 2., 4.]), array([1.5, 1. , 2. ]), np.float64(4.0))
    """
    tensors = [tensor for tensor in expressions if isinstance(tensor, Base)]
    scans = [tensor.__sparrow_scan__() for tensor in tensors]
    done = iter(
        type(tensor)(MemoryHandle(MemoryRelation(scan.schema, block, read_labels(scan), named_origin(scan))))
        for tensor, scan, block in zip(tensors, scans, engines.evaluate_many(scans, engine), strict=True)
    )
    return tuple(next(done) if isinstance(each, Base) else each for each in expressions)
