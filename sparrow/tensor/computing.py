"""From expressions to tensors in memory: one, one laid out for repeated products, or several at once."""

from __future__ import annotations

from typing import Any, Self

from sparrow import engines
from sparrow.relations.base import MemoryHandle, MemoryRelation
from sparrow.relations.csr import CSRRelation
from sparrow.tensor.base import Base, labelled
from sparrow.tensor.products import Engine

__all__ = ["Computing", "compute"]


class Computing(Base):
    """Tensors as what is computed."""

    __slots__ = ()

    def compute(self, engine: Engine = "auto") -> Self:
        """Return the tensor in memory, as a base of its own.

        Parameters
        ----------
        engine
            "stream", "duckdb", "cupy" on a GPU, or "auto" for that of the settings.

        Returns
        -------
        Tensor

        Raises
        ------
        TooLargeError
            If its entries would pass the memory limit.
        InvalidValueError
            If there is no such engine.
        MissingDependencyError
            If the engine is "cupy" and there is no CuPy, or no GPU.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2], [3, 0]])
        >>> (A * 10).compute()
        <Tensor (d0: 2, d1: 2) int64 nnz=2 coo in memory>
        """
        scan = self.__sparrow_scan__()
        block = engines.evaluate(scan, engine)
        return type(self)(MemoryHandle(MemoryRelation(scan.schema, block, labelled(scan))))

    def persist(self) -> Self:
        """Return the tensor in memory, laid out for repeated products; otherwise as :meth:`compute` does.

        A matrix keeps where each of its rows begins, so that ``A @ x`` reads columns and values alone and threads share
        the rows; ``A.T @ x`` lays the entries out by columns when first asked for, which takes their memory once more.
        Contiguous rows ``A[i:j]`` are used as they lie. The bits of a product do not depend on the number of threads.

        Returns
        -------
        Tensor

        Raises
        ------
        TooLargeError
            If its entries would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 1, 1], [1, 0, 2]], [2.0, 3.0, 4.0], shape=(2, 3)).persist()
        >>> A @ [1, 10, 100], [5, 7] @ A
        (array([ 20., 403.]), array([21., 10., 28.]))
        """
        scan = self.__sparrow_scan__()
        relation = CSRRelation(scan.schema, engines.evaluate(scan, own=False), labelled(scan))
        if scan.schema.ndim == 2:
            relation.rows(0)
        return type(self)(MemoryHandle(relation))


def compute(*expressions: Any, engine: Engine = "auto") -> tuple[Any, ...]:
    """Return several tensors in memory, computed together: what they share is read and computed once.

    Shared are the files and expressions that occur in several of them or several times in one, as long as the memory
    for it allows (an eighth of the limit), and the scan under reductions of one tensor over the same axes.

    Parameters
    ----------
    *expressions
        Tensors; whatever else is given, such as the scalar of a reduction over all axes, is returned as it is.
    engine
        As of :meth:`sparrow.Tensor.compute`.

    Returns
    -------
    tuple
        A tensor in memory for each tensor, in the order given.

    Raises
    ------
    TooLargeError
        If the entries of one of them would pass the memory limit.

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
        type(tensor)(MemoryHandle(MemoryRelation(scan.schema, block, labelled(scan))))
        for tensor, scan, block in zip(tensors, scans, engines.evaluate_many(scans, engine), strict=True)
    )
    return tuple(next(done) if isinstance(each, Base) else each for each in expressions)
