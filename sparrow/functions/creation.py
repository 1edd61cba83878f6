"""Where tensors come from: files on disk, coordinates, arrays of other libraries, tables."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from sparrow import storage
from sparrow.core.schema import Schema, check_dtype
from sparrow.errors import (
    InvalidValueError,
    LabelError,
    NotFoundError,
    NumberRangeError,
    SharingError,
    UnsupportedError,
)
from sparrow.functions.generation import tensor_from_block
from sparrow.functions.inspection import check_device
from sparrow.interop.conversion import check_labels, from_coordinates, from_object, from_table
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

if TYPE_CHECKING:
    import os


__all__ = ["asarray", "from_coords", "from_dlpack", "from_relation", "open"]


def open(  # noqa: A001 - what people type is sp.open
    path: str | os.PathLike[str],
    version: int | str | datetime.date | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    coords: Sequence[str] | None = None,
    value: str | None = None,
    duplicates: str = "error",
) -> Any:
    """Open a stored tensor, or a bundle of them as a mapping. Reads the log, no data.

    A Delta table of another tool is read into memory where ``coords`` says which of its columns make a tensor.

    Parameters
    ----------
    path
        The folder of the tensor or bundle.
    version
        A version to open, read-only; the newest by default. A time, as a ``datetime`` or a text such as
        ``"2026-11-22 14:00"``, is the version in force then, and a date that at the end of its day; UTC where they name
        no zone, as in ``history()``.
    storage_options
        Options of an object store by the names that delta-rs gives them, such as ``{"AWS_ENDPOINT_URL": ...}``; what is
        not said is taken from the environment. They hold in this process for what lies at ``path``, and are neither
        shown nor pickled.
    coords, value, duplicates
        Of a Delta table of another tool, as in :func:`from_relation`. What is returned is a copy in memory; one that
        is too large goes from ``polars.scan_delta(path)`` through :func:`sparrow.ingest.columns`.

    Returns
    -------
    Tensor or Bundle

    Raises
    ------
    NotFoundError
        If there is no tensor, or not this version of it, or none yet at this time.
    UnsupportedError
        If there are options and the path is no URL, or it is a URL of another kind than ``s3://``, ``gs://``, ``az://``.
    InvalidValueError
        If a version of a bundle is asked for, as its tensors have versions of their own, or a text is no time; or there
        is a value without coords.
    LabelError
        If a table has no such column.
    CorruptionError
        If a file is missing, damaged or a link, or the log names one outside of the folder.
    TooLargeError
        If a table would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> stored = sp.asarray([[0, 2], [3, 0]]).save("A.sparrow")
    >>> sp.open("A.sparrow")
    <Tensor A.sparrow (d0: 2, d1: 2) int64 nnz=2 coo v0>
    """
    with storage.use_storage_options(path, storage_options):
        if coords is not None:
            if version is not None and not isinstance(version, SupportsIndex):
                raise InvalidValueError(f"version={version!r}: a table of another tool is opened by number")
            with storage.delta_table(path, None if version is None else operator.index(version)) as table:
                return from_relation(table, coords, value, duplicates=duplicates)
        if value is not None:
            raise InvalidValueError(f"value={value!r} without coords: name the columns of coordinates too")
        if storage.is_bundle(path):
            if version is not None:
                raise InvalidValueError(f"{path} is a bundle: open one of its tensors at a version")
            return Bundle._stored(str(path), storage.open_bundle(path))
        if version is None or isinstance(version, SupportsIndex):
            return Tensor(storage.open(path, None if version is None else operator.index(version)))
        return Tensor(storage.open(path, _version_at(path, version)))


def _read_path(src: Any, pick: Any, kinds: Any, reading: Any) -> Any:
    from sparrow.io.tabular.append import read_appended

    return read_appended(src, pick, kinds, reading)


Tensor._read_path = staticmethod(_read_path)


def _version_at(path: str | os.PathLike[str], when: str | datetime.date) -> int:
    """Return the version in force at a time."""
    try:
        at = datetime.datetime.fromisoformat(str(when))
    except ValueError:
        raise InvalidValueError(
            f"version={when!r} is neither a number nor a time such as '2026-11-22' or '2026-11-22 14:00'"
        ) from None
    if len(str(when)) <= len("2026-11-22"):
        at += datetime.timedelta(days=1, microseconds=-1)
    at = at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at
    for commit in storage.iter_commits(path):
        if commit.timestamp <= at:
            return commit.version
    raise NotFoundError(
        f"{str(path)!r} had no version at {when}: the first that is known, {commit.version}, is of "
        f"{commit.timestamp:%Y-%m-%d %H:%M:%S} UTC"
    )


def from_coords(
    coords: Any,
    values: Any,
    shape: Sequence[int] | None = None,
    dims: Sequence[str] | None = None,
    duplicates: str = "error",
    fill_value: Any = 0,
    *,
    labels: Mapping[str, Any] | None = None,
) -> Tensor:
    """Return a tensor in memory from coordinates and values.

    Parameters
    ----------
    coords
        Shape (ndim, nnz), or a list of ``ndim`` arrays of shape (nnz,): integers counted from 0.
    values
        Shape (nnz,), or a scalar for all. Lists take NumPy's dtype. Values that equal ``fill_value`` are not kept,
        and -0.0 equals 0.0: it reads as the fill.
    shape
        The sizes of the dimensions; by default the largest coordinate + 1 of each.
    dims
        The names of the dimensions, ``d0, d1, ...`` by default.
    duplicates
        What becomes of a cell given twice: "error", "sum", "last", "first", "min" or "max".
    fill_value
        The value of absent cells.
    labels
        Labels by name of dimension, as many as it is long and all different.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the lengths differ, ``coords`` is ragged or is (nnz, ndim), or no shape is given and there are no entries.
    IndexingError
        If a coordinate is negative or outside ``shape``.
    DuplicateError
        If a cell is given twice and ``duplicates`` is "error".

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 1], [1, 2, 2]], [2.0, 3.0, 4.0], shape=(2, 3), duplicates="sum")
    >>> A.to_numpy()
    array([[0., 2., 0.],
           [0., 0., 7.]])
    >>> stars = sp.from_coords([[0, 1]], [4.5, 3.0], dims=["user"], labels={"user": ["ada", "bob"]})
    >>> stars.sel(user="bob")
    np.float64(3.0)
    """
    schema, block = from_coordinates(coords, values, _sized(shape, dims, labels), dims, duplicates, fill_value)
    return tensor_from_block(schema, block, _labelled(schema, labels))


def _sized(shape: Any, dims: Sequence[str] | None, labels: Mapping[str, Any] | None) -> Any:
    """Return a shape; where none is given, and all dimensions have labels, as many cells as these."""
    if (
        shape is not None
        or not isinstance(labels, Mapping)
        or not labels
        or dims is None
        or any(dim not in labels for dim in dims)
    ):
        return shape
    return tuple(len(labels[dim]) for dim in dims)


def _labelled(schema: Schema, labels: Mapping[str, Any] | None) -> dict[int, pa.Array]:
    """Return labels by the number of their dimension."""
    if labels is not None and not isinstance(labels, Mapping):
        raise InvalidValueError(f"labels={labels!r}: give a dictionary of the names by dimension")
    made: dict[int, pa.Array] = {}
    out: dict[int, pa.Array] = {}
    for dim, given in (labels or {}).items():
        if dim not in schema.dims:
            raise LabelError(f"labels: no dimension {dim!r}: there are {', '.join(map(repr, schema.dims))}")
        axis = schema.dims.index(dim)
        found = made.setdefault(id(given), check_labels(given, dim))  # one object for several is one vocabulary
        out[axis] = check_labels(found, dim, schema.shape[axis])
    return out


def asarray(
    obj: Any,
    coords: Sequence[str] | None = None,
    value: str | None = None,
    shape: Sequence[int] | None = None,
    dims: Sequence[str] | None = None,
    duplicates: str | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
    labels: Mapping[str, Any] | None = None,
) -> Tensor:
    """Return a tensor in memory from what other libraries hold.

    Parameters
    ----------
    obj
        A tensor (returned as it is), a NumPy array or nested list, a SciPy sparse array or matrix (entries
        for one cell mean their sum), a pydata/sparse array, one of xarray, whose names and labels it keeps, a PyTorch
        or CuPy array, dense or sparse, the path of a .npz file of SciPy or pydata/sparse, an object with
        ``__binsparse_descriptor__``, a container of :mod:`sparrow.formats` (the tensor has its storage type), or a
        table: a Polars lazy frame or anything with ``__arrow_c_stream__``, read as a stream.
    coords
        Of a table: the columns that hold coordinates; by default all but the value's.
    value
        Of a table: the column of the values; by default ``"value"``, or else the one column of numbers beside
        ``coords``. Without one each row is a 1.
    shape
        As in :func:`from_coords`; of a table only.
    dims
        As in :func:`from_coords`.
    duplicates
        As in :func:`from_coords`; of a table only, "error" by default.
    dtype
        The type of the values, by default that of ``obj``.
    device
        "cpu", or None for it.
    copy
        True for entries of its own in memory, of a tensor too; False to refuse to make any: a tensor is returned as it
        is, and of everything else the entries are copied.
    labels
        As in :func:`from_coords`; columns of texts and dates have theirs already, and a tensor gets them by
        :meth:`Tensor.set_labels`.

    Returns
    -------
    Tensor

    Raises
    ------
    UnsupportedError
        If ``obj`` is none of these.
    InvalidValueError
        If a path is none of a .npz file, or the file holds no sparse array, there is no such device, or ``copy`` is
        False and a copy is needed.
    NumberRangeError
        If a number of a list does not fit ``dtype``.
    TooLargeError
        If a table would pass the memory limit: :func:`sparrow.ingest.columns` stores tables of any length.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.asarray(np.eye(3)).nnz
    3
    """
    check_device(device)
    copy = None if copy is None else check_flag("copy", copy)
    kind = None if dtype is None else check_dtype(dtype)
    if isinstance(obj, Tensor):
        if labels is not None:
            raise InvalidValueError("labels= is for what is no tensor yet: A.set_labels(dim, names) gives one labels")
        found: Tensor = obj if kind is None else obj.astype(kind)
        if copy is False and found is not obj:
            raise SharingError(f"copy=False: cells of {obj.dtype} are no cells of {kind}, leave copy out")
        return found.compute() if copy else found
    if copy is False:
        raise SharingError(f"copy=False: a tensor shares no memory with {type(obj).__name__}, leave copy out")
    if kind is not None and isinstance(obj, list | tuple | bool | int | float | complex):
        try:
            obj = np.asarray(obj, kind)
        except OverflowError as error:
            raise NumberRangeError(f"dtype={kind}: {error}") from None
        except (TypeError, ValueError) as error:
            raise UnsupportedError(f"{obj!r} does not become {kind}: {error}") from None
    schema, block, found_labels = from_object(obj, coords, value, shape, dims, duplicates)
    tensor = tensor_from_block(schema, block, {**found_labels, **_labelled(schema, labels)})
    return tensor if kind is None else tensor.astype(kind).compute()


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor of the dense array of another library, given by its DLPack protocol: what is not 0 is an entry.

    Parameters
    ----------
    x
        Whatever has ``__dlpack__`` and lies in the memory of the machine; or a tensor, which is returned as it is.
    device
        "cpu", or None for it.
    copy
        True for a copy of a tensor's entries; False says that there must be none, which holds of tensors alone.

    Returns
    -------
    Tensor

    Raises
    ------
    UnsupportedError
        If it has no such protocol, lies elsewhere or has cells that tensors do not hold.
    InvalidValueError
        If there is no such device.
    SharingError
        If ``copy`` is False and ``x`` is no tensor.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.from_dlpack(np.eye(3)).nnz
    3
    """
    check_device(device)
    copy = None if copy is None else check_flag("copy", copy)
    if isinstance(x, Tensor) or copy is False:
        return asarray(x, copy=copy)
    try:
        cells = np.from_dlpack(x)
    except (AttributeError, TypeError, ValueError, BufferError, RuntimeError) as error:
        raise UnsupportedError(f"from_dlpack of {type(x).__name__}: {error}") from None
    return asarray(cells)


def from_relation(
    rel: Any,
    coords: Sequence[str],
    value: str | None = None,
    shape: Sequence[int] | None = None,
    dims: Sequence[str] | None = None,
    duplicates: str = "error",
) -> Tensor:
    """Return a tensor in memory from a relation or table, such as a DuckDB relation of :func:`sparrow.sql`.

    Parameters
    ----------
    rel
        A DuckDB relation, a Polars lazy frame, or anything with ``__arrow_c_stream__``; read as a stream, and only
        the columns that are named.
    coords
        Its columns that hold the coordinates: integers counted from 0; or texts or dates, which become labels, in
        ascending order.
    value
        Its column of the values; without it each row is a 1.
    shape, dims, duplicates
        As in :func:`from_coords`; dimensions are named after the columns by default.

    Returns
    -------
    Tensor

    Raises
    ------
    LabelError
        If the relation has no such column.
    TooLargeError
        If it would pass the memory limit: :func:`sparrow.ingest.columns` stores relations of any length.
    UnsupportedError
        If a coordinate is neither an integer nor a label.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [3, 4]])
    >>> rel = sp.sql("select d1 as j, sum(value)::bigint as v from A group by d1", A=A)
    >>> sp.from_relation(rel, coords=["j"], value="v").to_numpy()
    array([3, 6])
    """
    return tensor_from_block(*from_table(rel, coords, value, shape, dims, duplicates))
