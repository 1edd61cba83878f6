"""Conversions of tensors to arrays and containers of other libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from sparrow import engines, formats
from sparrow.core.storage_types import check_stype
from sparrow.errors import SharingError, UnsupportedError
from sparrow.formats.container import check_scipy, scipy_array
from sparrow.interop import binsparse, interchange
from sparrow.interop.lazyframes import lazy_frame
from sparrow.interop.scipy_operators import is_called_by_operator, is_called_by_stack, wrap_operand
from sparrow.plan import Scan
from sparrow.relations.arrow import arrow_schema, labelled_table
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from sparrow.runtime.dependencies import missing_dependency
from sparrow.runtime.events import emit
from sparrow.runtime.validation import check_flag
from sparrow.tensor.base import Base, read_labels
from sparrow.tensor.foreign_callers import reject_pandas_caller

if TYPE_CHECKING:
    import os

    import cupyx.scipy.sparse
    import pandas
    import polars
    import scipy.sparse
    import sparse
    import torch

__all__ = ["ExportMethods"]


class ExportMethods(Base):
    """Conversions to other libraries, and the protocols by which they convert."""

    __slots__ = ()

    def to_numpy(self) -> NDArray[Any]:
        """Return all elements as a dense NumPy array.

        Returns
        -------
        ndarray

        Raises
        ------
        TooLargeError
            If the array would exceed the memory limit.
        UnsupportedError
            If there are more than 64 dimensions.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.from_coords([[0, 1], [1, 0]], [2, 3]).to_numpy()
        array([[0, 2],
               [3, 0]])
        """
        emit("tensor.to_numpy")
        scan = self.__sparrow_scan__()
        interchange.check_dense(scan.schema)
        return interchange.dense_array(scan.schema, engines.evaluate(scan, own=False))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise SharingError("copy=False is not possible: a sparse tensor has no dense memory to share")
        caller = sys._getframe(1)
        if (dtype is None and is_called_by_operator(caller)) or is_called_by_stack(caller):
            return wrap_operand(self)
        reject_pandas_caller(self, caller)
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
            raise SharingError("copy=False is not possible: a sparse tensor has no dense memory to share")
        return np.asarray(self).__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def to_scipy(self, format: str | None = None) -> scipy.sparse.sparray:
        """Return a SciPy sparse array; requires fill value 0.

        Parameters
        ----------
        format
            "coo" for any number of dimensions; "csr" and "dok" for one or two; "csc", "bsr", "dia" and "lil" for two.
            By default "csr" for one or two, "coo" for more.

        Returns
        -------
        scipy.sparse.sparray

        Raises
        ------
        UnsupportedError
            If the fill value is not 0, or SciPy does not support the dtype or the format.
        TooLargeError
            If row or column pointers, or diagonals, would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> rows = sp.asarray([[0, 2], [3, 0]]).to_scipy()
        >>> rows.format, rows.indptr, rows.data
        ('csr', array([0, 1, 2]...), array([2, 3]))
        """
        default = "csr" if self.ndim <= 2 else "coo"
        return _scipy_array(self.__sparrow_scan__(), default if format is None else format)

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
        """Return the arrays of a storage format: a container of :mod:`sparrow.formats`.

        Parameters
        ----------
        format
            "coo", which keeps the fill value; "csr", "csc" or "row_sparse", which store every non-zero element; or
            "dense" for a NumPy array.

        Returns
        -------
        COO, CSR, CSC, RowSparse or ndarray

        Raises
        ------
        InvalidValueError, ShapeError
            If the format is unknown, or does not support the number of dimensions.
        TooLargeError
            If the arrays would exceed the memory limit.

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
        """Return the stored elements as a sorted Arrow table.

        It has a column for each dimension, then ``value``.

        Parameters
        ----------
        labels
            Return labels instead of coordinates for dimensions that have some.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        TooLargeError
            If the stored elements would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.from_coords([[2, 0], [0, 1]], [6, 5], dims=("i", "j")).to_arrow().to_pylist()
        [{'i': 0, 'j': 1, 'value': 5}, {'i': 2, 'j': 0, 'value': 6}]
        """
        scan = self.__sparrow_scan__()
        names = read_labels(scan) if check_flag("labels", labels) else {}
        return labelled_table(scan.schema, engines.evaluate(scan), names)

    def to_batches(self, labels: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the stored elements as sorted Arrow record batches, streamed.

        Parameters
        ----------
        labels
            Return labels instead of coordinates for dimensions that have some.

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
        names = read_labels(scan) if check_flag("labels", labels) else {}
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
        """Return the stored elements as a Polars frame.

        It has a column for each dimension, then ``value``.

        Parameters
        ----------
        lazy
            Return a lazy frame of the current elements. Collecting it reads only the columns that the query uses, and
            only the chunks that its coordinate ranges meet; the streaming engine handles more than memory. Rows come in
            no particular order.
        labels
            Return labels instead of coordinates for dimensions that have some.

        Returns
        -------
        polars.DataFrame or polars.LazyFrame

        Raises
        ------
        TooLargeError
            If the stored elements would exceed the memory limit, unless ``lazy``.

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
            return lazy_frame(scan, read_labels(scan) if check_flag("labels", labels) else {})
        frame = polars.from_arrow(self.to_arrow(labels))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pandas(self, labels: bool = True) -> pandas.DataFrame:
        """Return the stored elements as a sorted pandas frame.

        It has a column for each dimension, then ``value``.

        Parameters
        ----------
        labels
            Return labels instead of coordinates for dimensions that have some.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        TooLargeError
            If the stored elements would exceed the memory limit.

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
            raise missing_dependency("to_pandas()", "pandas") from error

    def to_torch(self, layout: Literal["coo", "csr"] = "coo") -> torch.Tensor:
        """Return a sparse PyTorch tensor on the CPU; ``.to("cuda")`` moves it to a GPU.

        Parameters
        ----------
        layout
            "coo" for any number of dimensions, coalesced, with int64 coordinates; "csr" for two.

        Returns
        -------
        torch.Tensor

        Raises
        ------
        MissingDependencyError
            If PyTorch is not installed.
        UnsupportedError
            If the fill value is not 0.
        ShapeError
            If "csr" is asked of other than two dimensions.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(3).to_torch(layout="csr").to("cuda")  # doctest: +SKIP
        """
        scan = self.__sparrow_scan__()
        tensor: torch.Tensor = interchange.torch_tensor(scan.schema, engines.evaluate(scan), layout)
        return tensor

    def to_cupy(self, format: Literal["csr", "csc", "coo"] = "csr") -> cupyx.scipy.sparse.spmatrix:
        """Return a matrix of ``cupyx.scipy.sparse`` in the memory of the current GPU.

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
            If the fill value is not 0, the tensor is not a matrix, or CuPy does not support the format or the dtype.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(3).to_cupy("csc")  # doctest: +SKIP
        """
        if self.ndim != 2:
            raise UnsupportedError(
                f"to_cupy: the tensor must be a matrix, got {self.ndim} dimensions: reshape() it, or take one"
            )
        if format not in ("csr", "csc", "coo"):
            raise UnsupportedError(f"to_cupy: format must be 'csr', 'csc' or 'coo', got {format!r}")
        return interchange.cupy_array(self.to_scipy(format), format)

    def to_pydata_sparse(self) -> sparse.COO:
        """Return a ``sparse.COO`` of pydata/sparse with the same fill value.

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
        """Write the stored elements to a .npz file, replacing an existing one at the end.

        ``sp.asarray(path)`` reads it. So does ``scipy.sparse.load_npz`` if the fill value is 0, as CSR, or as COO if
        there are more rows than stored elements or not two dimensions. ``sparse.load_npz`` of pydata/sparse reads what
        SciPy does not support: another fill value, float16, no dimensions. Names and labels are dropped.

        Parameters
        ----------
        path
            Full name of the file.
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
    """Return the stored elements of a scan as a SciPy sparse array."""
    schema = scan.schema
    check_scipy(schema)
    known = {1: ("coo", "csr", "dok"), 2: ("coo", "csr", "csc", "bsr", "dia", "dok", "lil")}.get(schema.ndim, ("coo",))
    if format not in known:
        names = ", ".join(map(repr, known))
        raise UnsupportedError(f"to_scipy: format of {schema.ndim} dimensions must be one of {names}, got {format!r}")
    through = "coo" if schema.ndim != 2 or format in ("coo", "dok") else "csc" if format == "csc" else "csr"
    in_memory = isinstance(scan.source, MemoryRelation) and scan.view.is_identity
    block = engines.evaluate(scan, own=not in_memory)
    if in_memory:
        memory.check(block.nbytes, f"the stored elements of shape {schema.shape}", "take a smaller view")
    array = scipy_array(through, schema, block, own=not in_memory)
    if format == "dia":
        rows, columns = array.nonzero()
        width = int(columns.max(initial=-1)) + 1
        memory.check(len(np.unique(columns - rows)) * width * schema.dtype.itemsize, "the diagonals")
    return array.asformat(format)
