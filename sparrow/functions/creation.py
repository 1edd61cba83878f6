"""Creation of tensors from files, coordinates, arrays and tables."""

from __future__ import annotations

import datetime
import operator
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from sparrow import storage
from sparrow.core.label_types import check_labels
from sparrow.core.schema import Schema, check_dtype
from sparrow.errors import (
    InvalidValueError,
    LabelError,
    NotFoundError,
    NumberRangeError,
    SharingError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.functions.generation import tensor_from_block
from sparrow.functions.inspection import check_device
from sparrow.interop.conversion import describe_unread, from_coordinates, from_object, from_table
from sparrow.plan import normalize_axis
from sparrow.runtime import progress, settings
from sparrow.runtime.validation import as_names, check_flag
from sparrow.storage.fs.failures import translate_read_errors
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle
from sparrow.tensor.matching import label_operands

if TYPE_CHECKING:
    import os

    from sparrow.kernels.coo import Block


__all__ = ["asarray", "from_coords", "from_dlpack", "from_relation", "open"]


def open(  # noqa: A001 - the public name is sp.open
    path: str | os.PathLike[str],
    version: int | str | datetime.date | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    coords: Sequence[str] | None = None,
    value: str | None = None,
    duplicates: str = "error",
) -> Any:
    """Open a stored tensor, or a bundle as a mapping; reads the log, no data.

    A Delta table of another tool is read into memory; ``coords`` names the columns of its coordinates.

    Parameters
    ----------
    path
        Folder of the tensor or bundle.
    version
        Version to open, read-only; the latest by default. A time, as a ``datetime`` or a string such as
        ``"2026-11-22 14:00"``, means the version at that time, and a date the version at the end of that day; in UTC
        unless a time zone is given, as in ``history()``.
    storage_options
        Options of an object store under delta-rs' names, such as ``{"AWS_ENDPOINT_URL": ...}``; the environment
        supplies the others. They apply to ``path`` in this process, and are neither shown nor pickled.
    coords, value, duplicates
        For a Delta table of another tool, see :func:`from_relation`. Its rows are in the order in which its files were
        written, so ``duplicates="last"`` takes the newest. The result is a copy in memory; stream a larger table from
        ``polars.scan_delta(path)`` through :func:`sparrow.ingest.columns`.

    Returns
    -------
    Tensor or Bundle

    Raises
    ------
    NotFoundError
        If there is no tensor, no such version, or none yet at that time.
    UnsupportedError
        If options are passed for a local path, or the URL is not ``s3://``, ``gs://`` or ``az://``.
    InvalidValueError
        If a version of a bundle is requested (its tensors have versions of their own), a string is not a time, or
        ``value`` is passed without ``coords``.
    LabelError
        If a table has no such column.
    CorruptionError
        If a file is missing, damaged or a link, or the log names a file outside of the folder.
    TooLargeError
        If a table would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> stored = sp.asarray([[0, 2], [3, 0]]).save("A.sparrow")
    >>> sp.open("A.sparrow")
    <Tensor A.sparrow (d0: 2, d1: 2) int64 nnz=2 coo v0>
    density 50 %
    d0 / d1  0  1
          0  ·  2
          1  3  ·
    """
    with storage.use_storage_options(path, storage_options):
        if coords is not None:
            if version is not None and not isinstance(version, SupportsIndex):
                raise InvalidValueError(f"version of a table of another tool must be an integer, got {version!r}")
            with storage.delta_table(path, None if version is None else operator.index(version)) as table:
                return from_relation(table, coords, value, duplicates=duplicates)
        if value is not None:
            raise InvalidValueError(f"value={value!r} requires coords=, the columns of the coordinates")
        if storage.is_bundle(path):
            if version is not None:
                raise InvalidValueError(f"{path} is a bundle: open one of its tensors at a version")
            return Bundle._from_folder(str(path), storage.open_bundle(path))
        if isinstance(version, bool):
            raise InvalidValueError(f"version must be a number or a time, got {version!r}")
        if version is None or isinstance(version, SupportsIndex):
            return Tensor(storage.open(path, None if version is None else operator.index(version)))
        return Tensor(storage.open(path, _version_at(path, version)))


def _read_path(src: Any, pick: Any, kinds: Any, reading: Any, value: Any) -> Any:
    from sparrow.io.tabular.append import read_appended

    with translate_read_errors(str(src)):
        return read_appended(src, pick, kinds, reading, value)


Tensor._read_path = staticmethod(_read_path)


def _version_at(path: str | os.PathLike[str], when: str | datetime.date) -> int:
    """Return the version at a time."""
    try:
        at = datetime.datetime.fromisoformat(str(when))
    except ValueError:
        raise InvalidValueError(
            f"version must be an integer or a time such as '2026-11-22' or '2026-11-22 14:00', got {when!r}"
        ) from None
    if len(str(when)) <= len("2026-11-22"):
        at += datetime.timedelta(days=1, microseconds=-1)
    at = at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at
    for commit in storage.iter_commits(path):
        if commit.timestamp <= at:
            return commit.version
    raise NotFoundError(
        f"{str(path)!r} had no version at {when}: the first known one, {commit.version}, is of "
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
    labels: Mapping[Any, Any] | None = None,
) -> Tensor:
    """Create a tensor in memory from coordinates and values.

    Parameters
    ----------
    coords
        Shape (ndim, nnz), or a list of ``ndim`` arrays of shape (nnz,): integers counted from 0.
    values
        Shape (nnz,), or a scalar for all. Values equal to ``fill_value`` are not stored; -0.0 equals 0.0.
    shape
        Sizes of the dimensions; by default the largest coordinate + 1 of each.
    dims
        Names of the dimensions, by which operands are matched; ``d0, d1, ...``, which go by position, by default.
    duplicates
        Rule for coordinates that repeat: "error", "sum" (floats are added in float64), "last", "first", "min" or "max".
    fill_value
        Value of absent elements.
    labels
        Labels by dimension, its name or number: one distinct label per position.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If lengths differ, ``coords`` is ragged or (nnz, ndim), or there are neither a shape nor stored elements.
    IndexingError
        If a coordinate is negative or outside ``shape``.
    DuplicateError
        If coordinates repeat and ``duplicates`` is "error".
    NumberRangeError
        If ``duplicates="sum"`` adds integers beyond the dtype.

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
    coords, values = label_operands((coords, values))
    given_shape = _infer_shape(shape, coords, dims, labels)
    schema, block = from_coordinates(coords, values, given_shape, dims, duplicates, fill_value)
    return tensor_from_block(schema, block, _check_labels(schema, labels))


def _infer_shape(shape: Any, coords: Any, dims: Sequence[str] | None, labels: Any) -> Any:
    """Return the shape, by default the numbers of labels if all dimensions have some."""
    if shape is not None or not isinstance(labels, Mapping) or not labels:
        return shape
    ndim = len(dims) if dims is not None else len(coords) if hasattr(coords, "__len__") else 0
    known: dict[int, Any] = {}
    for dim, given in labels.items():
        if isinstance(dim, str):
            known |= {list(dims).index(dim): given} if dims is not None and dim in dims else {}
        elif isinstance(dim, SupportsIndex) and -ndim <= operator.index(dim) < ndim:
            known[operator.index(dim) % ndim] = given
    return tuple(len(known[axis]) for axis in range(ndim)) if len(known) == ndim else None


def _check_labels(schema: Schema, labels: Mapping[Any, Any] | None) -> dict[int, pa.Array]:
    """Return labels by dimension number."""
    if labels is not None and not isinstance(labels, Mapping):
        raise InvalidValueError(f"labels must be a dictionary of labels by dimension, got {labels!r}")
    checked: dict[int, pa.Array] = {}
    out: dict[int, pa.Array] = {}
    for dim, given in (labels or {}).items():
        is_number = isinstance(dim, SupportsIndex) and not isinstance(dim, bool)
        if not is_number and dim not in schema.dims:
            raise LabelError(f"labels: no dimension {dim!r}: dimensions are {', '.join(map(repr, schema.dims))}")
        axis = normalize_axis(operator.index(dim), schema.ndim) if is_number else schema.dims.index(dim)
        if axis in out:
            raise LabelError(f"labels: dimension {schema.dims[axis]!r} is given by name and by number")
        name = schema.dims[axis]
        found = checked.setdefault(id(given), check_labels(given, name))  # dimensions may share a vocabulary
        out[axis] = check_labels(found, name, schema.shape[axis])
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
    labels: Mapping[Any, Any] | None = None,
    fill_value: Any = None,
) -> Tensor:
    """Convert an array, sparse array or table to a tensor in memory.

    Parameters
    ----------
    obj
        A tensor (returned as it is); a NumPy array or nested list; a SciPy sparse array or matrix (duplicates are
        summed); an array of pydata/sparse; a graph of networkx or igraph, as its adjacency matrix, with the attribute
        ``weight`` of edges and the names of nodes; an array of xarray, with its names and labels; a dense or sparse
        array of PyTorch or CuPy; the path of a .npz file of SciPy or pydata/sparse; an object with
        ``__binsparse_descriptor__``; a container of :mod:`sparrow.formats`, whose storage type is kept; or a table: a
        Polars lazy frame or any object with ``__arrow_c_stream__``, read as a stream.
    coords
        For a table: columns of the coordinates; by default all but the value column.
    value
        For a table: column of the values; by default ``"value"``, or the only numeric column beside ``coords``. Without
        one each row is a 1, and a note names the numeric columns that are not read. (:func:`from_relation` takes
        ``"value"`` only, :func:`sparrow.ingest.columns` none, :meth:`Tensor.append` the only column left.)
    shape
        See :func:`from_coords`; for a table only.
    dims
        See :func:`from_coords`.
    duplicates
        See :func:`from_coords`; for a table only, "error" by default.
    dtype
        Dtype of the values, by default that of ``obj``.
    device
        "cpu" or None.
    copy
        True to copy a tensor too; False to raise unless ``obj`` is a tensor, since everything else is copied.
    labels
        See :func:`from_coords`. Columns of strings and dates already have theirs; set those of a tensor with
        :meth:`Tensor.set_labels`.
    fill_value
        Value of absent elements: that of ``obj`` by default, 0 if it has none. Elements of a sparse array or table
        that equal it are not stored, and a note says how many: with ``fill_value=inf`` the zeros that SciPy stores
        are kept.

    Returns
    -------
    Tensor

    Raises
    ------
    UnsupportedError
        If ``obj`` is of another kind.
    InvalidValueError
        If a path is not a .npz file, the file holds no sparse array, the device is unknown, or ``copy`` is False and a
        copy is needed.
    NumberRangeError
        If a number of a list does not fit ``dtype``.
    TooLargeError
        If a table would exceed the memory limit: :func:`sparrow.ingest.columns` stores tables of any length.

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
            raise InvalidValueError("asarray: labels= cannot be passed with a tensor: use A.set_labels(dim, labels)")
        if fill_value is not None:
            raise InvalidValueError("asarray: fill_value= cannot be passed with a tensor: use A.refill(value)")
        found: Tensor = obj if kind is None else obj.astype(kind)
        if copy is False and found is not obj:
            raise SharingError(f"copy=False: a cast from {obj.dtype} to {kind} requires a copy")
        return found.compute() if copy else found
    if copy is False:
        raise SharingError(f"copy=False: a tensor cannot share memory with {type(obj).__name__}")
    if kind is not None and isinstance(obj, list | tuple | bool | int | float | complex):
        try:
            obj = np.asarray(obj, kind)
        except OverflowError as error:
            raise NumberRangeError(f"dtype={kind}: {error}") from None
        except (TypeError, ValueError) as error:
            raise UnsupportedError(f"cannot convert {obj!r} to {kind}: {error}") from None
    schema, block, found_labels = from_object(
        obj, coords, value, shape, dims, duplicates, labels or (), fill_value, _note_fill, _note_unread
    )
    tensor = tensor_from_block(schema, block, {**found_labels, **_check_labels(schema, labels)})
    return tensor if kind is None else tensor.astype(kind).compute()


def _note_fill(count: int, way: str = ": pass another fill_value= to keep zeros") -> None:
    """Note that elements of a sparse array or table are not stored."""
    subject, verb = ("1 element equals", "is") if count == 1 else (f"{count:,} elements equal", "are")
    progress.write_note(f"{subject} the fill value and {verb} not stored{way}")


def _note_unread(names: Sequence[str]) -> None:
    """Note that numeric columns of a table are not read, though every value is 1."""
    progress.write_note(describe_unread(names))


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Convert a dense array of another library through DLPack.

    Parameters
    ----------
    x
        Object with ``__dlpack__`` in main memory; a tensor is returned as it is.
    device
        "cpu" or None.
    copy
        True to copy a tensor; False to raise unless ``x`` is a tensor.

    Returns
    -------
    Tensor

    Raises
    ------
    UnsupportedError
        If it does not support DLPack, is on another device, or has an unsupported dtype.
    InvalidValueError
        If the device is unknown.
    SharingError
        If ``copy`` is False and ``x`` is not a tensor.

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
        dense = np.from_dlpack(x)
    except (AttributeError, TypeError, ValueError, BufferError, RuntimeError) as error:
        raise UnsupportedError(f"from_dlpack of {type(x).__name__}: {error}") from None
    return asarray(dense)


def from_relation(
    rel: Any,
    coords: Sequence[str],
    value: str | None = None,
    shape: Sequence[int] | None = None,
    dims: Sequence[str] | None = None,
    duplicates: str = "error",
    *,
    relabel: bool | Sequence[str] = False,
) -> Tensor:
    """Create a tensor in memory from a relation or table.

    For example from a result of :func:`sparrow.sql`.

    Parameters
    ----------
    rel
        DuckDB relation, Polars lazy frame, or any object with ``__arrow_c_stream__``; read as a stream, and only the
        named columns.
    coords
        Columns of the coordinates: integers counted from 0; or strings or dates, which become labels in ascending
        order.
    value
        Column of the values; by default ``"value"``, if there is one, with ``"value_im"`` as its imaginary part.
        Without one each row is a 1, and a note names the numeric columns that are not read: unlike :func:`asarray` it
        takes no column of another name by itself.
    shape, dims, duplicates
        See :func:`from_coords`; dimensions are named after the columns by default.
    relabel
        Number integers without gaps, too, and keep them as labels: in all columns of ``coords``, or in those named.

    Returns
    -------
    Tensor

    Raises
    ------
    LabelError
        If the relation has no such column.
    InvalidValueError
        If ``coords`` is no list, ``relabel`` names another column than those of ``coords``, or ``shape`` differs from
        the number of labels.
    TooLargeError
        If its elements would exceed the memory limit: :func:`sparrow.ingest.columns` stores relations of any length. A
        relation that can be read again may take more than its elements: it is sorted on disk.
    UnsupportedError
        If a coordinate is neither an integer nor a label.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [3, 4]])
    >>> rel = sp.sql("select d1 as j, sum(value)::bigint as v from A group by d1", A=A)
    >>> sp.from_relation(rel, coords=["j"], value="v").to_numpy()
    array([3, 6])
    >>> sales = sp.sql("select * from (values (1007, 3.5), (1001, 5)) as t (customer, value)")
    >>> sp.from_relation(sales, coords=["customer"], relabel=True).sel(customer=1007)
    np.float64(3.5)
    """
    coords = as_names("coords", coords)
    named = [relabel] if isinstance(relabel, str) else relabel
    relabelled = list(coords if named is True else named or ())
    if unknown := [name for name in relabelled if name not in coords]:
        raise InvalidValueError(f"relabel must name columns of coords={list(coords)}, got {unknown[0]!r}")
    try:
        notes: dict[str, Any] = {"on_fill": partial(_note_fill, way=""), "on_unread": _note_unread}
        made = from_table(rel, coords, value, shape, dims, duplicates, relabelled, **notes)
        if shape is None:
            _warn_of_gaps(coords, *made)
        return tensor_from_block(*made)
    except TooLargeError:
        if not hasattr(rel, "to_arrow_reader") and not hasattr(rel, "collect_batches"):
            raise
    return _from_stored_relation(rel, coords, value, shape, dims, duplicates, relabelled)


def _warn_of_gaps(coords: Sequence[str], schema: Schema, block: Block, labels: Mapping[int, Any]) -> None:
    from sparrow.io.base.id_gaps import SeenIds, warn_of_gaps

    for dim, size in enumerate(schema.shape):
        if dim not in labels:
            seen = SeenIds()
            seen.add(block.column(dim))
            warn_of_gaps(coords[dim], seen, size)


def _from_stored_relation(
    rel: Any, coords: Sequence[str], value: str | None, shape: Any, dims: Any, duplicates: Any, relabel: Sequence[str]
) -> Tensor:
    """Return the elements of a relation of many rows, sorted on disk."""
    from sparrow.io.tabular.options import Columns

    names = list(rel.columns) if hasattr(rel, "to_arrow_reader") else rel.collect_schema().names()
    if value is None and "value" in names and "value" not in coords:
        value = "value"
    with tempfile.TemporaryDirectory(prefix="sparrow-relation-", dir=settings.current().temp_directory) as folder:
        path = Columns(
            rel,
            f"{folder}/elements",
            coords=coords,
            value=value,
            shape=shape,
            dims=dims,
            duplicates=duplicates,
            relabel=relabel,
        ).ingest()
        stored: Tensor = open(path)
        return stored.compute()
