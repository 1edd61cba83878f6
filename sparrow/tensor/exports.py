"""Out of sparrow: entries as what other libraries hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from sparrow import engines, formats
from sparrow.core.storage_types import check_stype
from sparrow.errors import MissingDependencyError, SharingError, UnsupportedError
from sparrow.formats.container import check_scipy, scipy_array
from sparrow.interop import binsparse, interchange
from sparrow.interop.lazyframes import lazy_frame
from sparrow.interop.scipy_operators import is_called_by_operator, wrap_operand
from sparrow.plan import Scan
from sparrow.relations.base import MemoryRelation, arrow_schema, labelled_table
from sparrow.runtime import memory
from sparrow.runtime.validation import check_flag
from sparrow.tensor.base import Base, labelled

if TYPE_CHECKING:
    import os

    import cupyx.scipy.sparse
    import pandas
    import polars
    import scipy.sparse
    import sparse
    import torch

__all__ = ["Exports"]


class Exports(Base):
    """What other libraries take tensors as."""

    __slots__ = ()

    def to_numpy(self) -> NDArray[Any]:
        """Return all cells as a NumPy array.

        Returns
        -------
        ndarray

        Raises
        ------
        TooLargeError
            If the array would pass the memory limit.
        UnsupportedError
            If there are more than 64 dimensions, which no array has.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.from_coords([[0, 1], [1, 0]], [2, 3]).to_numpy()
        array([[0, 2],
               [3, 0]])
        """
        scan = self.__sparrow_scan__()
        interchange.check_dense(scan.schema)
        return interchange.dense_array(scan.schema, engines.evaluate(scan, own=False))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise SharingError("a sparse tensor has no dense array to share: copy=False is not possible")
        if dtype is None and is_called_by_operator(sys._getframe(1)):
            return wrap_operand(self)
        dense = interchange.implicit_dense_array(
            self._schema, lambda: engines.evaluate(self.__sparrow_scan__(), own=False)
        )
        return dense if dtype is None else dense.astype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.empty(0).__dlpack_device__()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if copy is False:
            raise SharingError("a sparse tensor has no dense array to share: copy=False is not possible")
        return np.asarray(self).__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def to_scipy(self, format: str = "csr") -> scipy.sparse.sparray:
        """Return a SciPy sparse array, the fill being 0.

        Parameters
        ----------
        format
            "coo", "csr" or "dok" of one dimension; of two also "csc", "bsr", "dia" and "lil"; "coo" of any number.

        Returns
        -------
        scipy.sparse.sparray

        Raises
        ------
        UnsupportedError
            If the fill is not 0, or SciPy has no such values or no such format of as many dimensions.
        TooLargeError
            If the pointers to rows or columns, or the diagonals, would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> rows = sp.asarray([[0, 2], [3, 0]]).to_scipy()
        >>> rows.format, rows.indptr, rows.data
        ('csr', array([0, 1, 2]...), array([2, 3]))
        """
        return _scipy_array(self.__sparrow_scan__(), format)

    @overload
    def to_format(self, format: Literal["coo"]) -> formats.COO: ...
    @overload
    def to_format(self, format: Literal["csr"]) -> formats.CSR: ...
    @overload
    def to_format(self, format: Literal["csc"]) -> formats.CSC: ...
    @overload
    def to_format(self, format: Literal["row_sparse"]) -> formats.RowSparse: ...
    @overload
    def to_format(self, format: Literal["dense"]) -> NDArray[Any]: ...
    @overload
    def to_format(self, format: str) -> Any: ...
    def to_format(self, format: str) -> Any:
        """Return the arrays of a format: a container of :mod:`sparrow.formats`, or a NumPy array for "dense".

        Parameters
        ----------
        format
            "coo", which keeps the fill, "csr", "csc", "row_sparse" or "dense". In the compressed ones every cell that
            is not 0 is stored.

        Returns
        -------
        COO, CSR, CSC, RowSparse or ndarray

        Raises
        ------
        InvalidValueError, ShapeError
            If there is no such format, or it is not for as many dimensions.
        TooLargeError
            If the arrays would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> rows = sp.asarray([[7, 0, 8], [0, 0, 0], [0, 9, 0]]).to_format("csr")
        >>> rows.data, rows.indices, rows.indptr
        (array([7, 8, 9]), array([0, 2, 1], dtype=int32), array([0, 2, 2, 3]))
        """
        check_stype(format, self.ndim)
        if format == "dense":
            return self.to_numpy()
        scan = self.__sparrow_scan__()
        return formats.from_entries(format, scan.schema, engines.evaluate(scan))

    def to_arrow(self, labels: bool = False) -> pa.Table:
        """Return the entries as an Arrow table: a column for each dimension, then ``value``; sorted.

        Parameters
        ----------
        labels
            Labels instead of coordinates, where a dimension has some.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        TooLargeError
            If the entries would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.from_coords([[2, 0], [0, 1]], [6, 5], dims=("i", "j")).to_arrow().to_pylist()
        [{'i': 0, 'j': 1, 'value': 5}, {'i': 2, 'j': 0, 'value': 6}]
        """
        scan = self.__sparrow_scan__()
        names = labelled(scan) if check_flag("labels", labels) else {}
        return labelled_table(scan.schema, engines.evaluate(scan), names)

    def to_batches(self, labels: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the entries as Arrow record batches, sorted by the dimensions, without holding all of them.

        Parameters
        ----------
        labels
            As of :meth:`to_arrow`.

        Yields
        ------
        pyarrow.RecordBatch
            A column for each dimension, then ``value``.

        Examples
        --------
        >>> import sparrow as sp
        >>> [batch.num_rows for batch in sp.eye(3).to_batches()]
        [3]
        """
        scan = self.__sparrow_scan__()
        names = labelled(scan) if check_flag("labels", labels) else {}
        for block in engines.iter_sorted_blocks(scan):
            yield from labelled_table(scan.schema, block, names).to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(arrow_schema(self._schema), self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    @overload
    def to_polars(self, lazy: Literal[False] = False, labels: bool = False) -> polars.DataFrame: ...
    @overload
    def to_polars(self, lazy: Literal[True], labels: bool = False) -> polars.LazyFrame: ...
    def to_polars(self, lazy: bool = False, labels: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """Return the entries as a Polars frame: a column for each dimension, then ``value``.

        Parameters
        ----------
        lazy
            Return a lazy frame of the entries as they are now, which reads when it is collected: only the columns that
            the query uses, and of files and expressions only the parts that its ranges of coordinates meet. Larger
            than memory with the streaming engine; the rows come in no particular order.
        labels
            As of :meth:`to_arrow`.

        Returns
        -------
        polars.DataFrame or polars.LazyFrame

        Raises
        ------
        TooLargeError
            If the entries would pass the memory limit, unless ``lazy``.

        Examples
        --------
        >>> import polars as pl, sparrow as sp
        >>> A = sp.from_coords([[0, 2, 2], [1, 0, 3]], [5, 6, 7], dims=("i", "j"))
        >>> A.to_polars(lazy=True).filter(pl.col("i") == 2).select(pl.col("value").sum()).collect().item()
        13
        """
        import polars

        if check_flag("lazy", lazy):
            scan = self.__sparrow_scan__()
            return lazy_frame(scan, labelled(scan) if check_flag("labels", labels) else {})
        frame = polars.from_arrow(self.to_arrow(labels))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pandas(self, labels: bool = True) -> pandas.DataFrame:
        """Return the entries as a pandas frame: a column for each dimension, then ``value``; sorted.

        Parameters
        ----------
        labels
            As of :meth:`to_arrow`.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        TooLargeError
            If the entries would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[1, 0]], [2, 3], dims=["user"], labels={"user": ["ann", "bob"]})
        >>> A.to_pandas()  # doctest: +SKIP
          user  value
        0  ann      3
        1  bob      2
        """
        table = self.to_arrow(labels)
        try:
            return table.to_pandas()
        except ModuleNotFoundError as error:
            raise MissingDependencyError("to_pandas() needs pandas: pip install pandas") from error

    def to_torch(self, layout: Literal["coo", "csr"] = "coo") -> torch.Tensor:
        """Return a sparse PyTorch tensor on the CPU; ``.to("cuda")`` takes it to a GPU.

        Parameters
        ----------
        layout
            "coo" for any number of dimensions (PyTorch keeps its coordinates as int64), coalesced; or "csr" for two.

        Returns
        -------
        torch.Tensor

        Raises
        ------
        MissingDependencyError
            If PyTorch is not installed.
        UnsupportedError
            If the fill is not 0.
        ShapeError
            If "csr" is asked for and there are not two dimensions.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(3).to_torch(layout="csr").to("cuda")  # doctest: +SKIP
        """
        scan = self.__sparrow_scan__()
        tensor: torch.Tensor = interchange.torch_tensor(scan.schema, engines.evaluate(scan), layout)
        return tensor

    def to_cupy(self, format: Literal["csr", "csc", "coo"] = "csr") -> cupyx.scipy.sparse.spmatrix:
        """Return a matrix of ``cupyx.scipy.sparse``, in the memory of the current GPU.

        Parameters
        ----------
        format
            "csr", "csc" or "coo".

        Returns
        -------
        cupyx.scipy.sparse.spmatrix

        Raises
        ------
        MissingDependencyError
            If CuPy is not installed.
        UnsupportedError
            If the fill is not 0, there are not two dimensions, or CuPy has no such format or values.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(3).to_cupy("csc")  # doctest: +SKIP
        """
        if self.ndim != 2 or format not in ("csr", "csc", "coo"):
            raise UnsupportedError(f"CuPy has no {format!r} of {self.ndim} dimensions: csr, csc and coo of two")
        return interchange.cupy_array(self.to_scipy(format), format)

    def to_pydata_sparse(self) -> sparse.COO:
        """Return a ``sparse.COO`` of pydata/sparse, with the fill value.

        Returns
        -------
        sparse.COO

        Raises
        ------
        MissingDependencyError
            If pydata/sparse is not installed.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(3).to_pydata_sparse().nnz  # doctest: +SKIP
        3
        """
        scan = self.__sparrow_scan__()
        return interchange.pydata_array(scan.schema, engines.evaluate(scan))

    def to_npz(self, path: str | os.PathLike[str], compressed: bool = True) -> None:
        """Write the entries to a .npz file, which ``sp.asarray(path)`` reads; what was there is replaced at the end.

        ``scipy.sparse.load_npz`` reads it where the fill is 0: as CSR, or as COO where there are more rows than
        entries or not two dimensions. ``sparse.load_npz`` of pydata/sparse reads what SciPy cannot hold: another fill,
        float16, no dimensions. Names and labels are not kept.

        Parameters
        ----------
        path
            The file, by its full name.
        compressed
            Compress the arrays.

        Examples
        --------
        >>> import scipy.sparse, sparrow as sp
        >>> A = sp.from_coords([[0, 2, 2], [1, 0, 3]], [5, 6, 7])
        >>> A.to_npz("A.npz")
        >>> scipy.sparse.load_npz("A.npz").sum(), sp.asarray("A.npz").nnz
        (np.int64(18), 3)
        """
        scan = self.__sparrow_scan__()
        interchange.to_npz(path, scan.schema, engines.evaluate(scan), compressed)

    def __binsparse_descriptor__(self) -> dict[str, Any]:
        scan = self.__sparrow_scan__()
        return binsparse.descriptor_of(scan.schema, engines.count_nnz(scan), "sparrow")

    def __binsparse__(self) -> dict[str, Any]:
        scan = self.__sparrow_scan__()
        return binsparse.arrays_of(scan.schema, engines.evaluate(scan))


def _scipy_array(scan: Scan, format: str) -> scipy.sparse.sparray:
    """Return the entries of a scan as a SciPy sparse array; raises ``UnsupportedError`` where SciPy has none such."""
    schema = scan.schema
    check_scipy(schema)
    known = {1: ("coo", "csr", "dok"), 2: ("coo", "csr", "csc", "bsr", "dia", "dok", "lil")}.get(schema.ndim, ("coo",))
    if format not in known:
        names = ", ".join(map(repr, known))
        raise UnsupportedError(f"SciPy has no {format!r} of {schema.ndim} dimensions: there are {names}")
    through = "coo" if schema.ndim != 2 or format in ("coo", "dok") else "csc" if format == "csc" else "csr"
    held = isinstance(scan.source, MemoryRelation) and scan.view.is_identity
    block = engines.evaluate(scan, own=not held)
    if held:
        memory.check(block.nbytes, f"the arrays of the entries of shape {schema.shape}", "take a smaller view")
    array = scipy_array(through, schema, block, own=not held)
    if format == "dia":
        rows, columns = array.nonzero()
        width = int(columns.max(initial=-1)) + 1
        memory.check(len(np.unique(columns - rows)) * width * schema.dtype.itemsize, "the diagonals")
    return array.asformat(format)
