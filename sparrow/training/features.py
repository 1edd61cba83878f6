"""Preprocessing: train/test split, scaling, tf-idf, hashing, one-hot encoding.

Statistics of columns take one pass over the data; applying them is a lazy expression such as ``X / s``, computed batch
by batch. Statistics of training rows thus apply to any other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.array_validation import check_arrow
from sparrow.core.schema import check_array
from sparrow.errors import InvalidValueError, LabelError, ShapeError, UnsupportedError
from sparrow.functions.creation import from_coords
from sparrow.functions.views import as_tensor
from sparrow.runtime import memory
from sparrow.runtime.validation import as_names, check_flag, check_seed
from sparrow.tensor import Tensor
from sparrow.tensor.matching import match_rows
from sparrow.training.inputs import unpack_bundle
from sparrow.training.tuning import tuning

__all__ = ["hash_integers", "hashed", "idf", "one_hot", "scales", "train_test_split"]

Scale = Literal["std", "max", "l1", "l2"]


def train_test_split(
    X: Any, y: Any = None, test_size: float = 0.25, seed: int = 0, stratify: Any = None
) -> tuple[Any, ...]:
    """Split rows at random into training and test rows, as views.

    Only ``stratify`` is read. Rows keep their order, which is that of the files.

    Parameters
    ----------
    X
        Tensor, its path, or what :func:`sparrow.asarray` accepts, with rows as the first dimension; or a bundle, or its
        path, with ``X`` and ``y``.
    y
        Labels with equal number of rows; a tensor, whose labelled rows are matched with those of ``X``, or an array.
    test_size
        Fraction of the rows to test, or their number as an integer.
    seed
        Seed of the draw.
    stratify
        Classes of the rows, a 1-D array or tensor, or True for ``y``: both parts keep the class proportions.

    Returns
    -------
    tuple
        Training rows and test rows of ``X``, then of ``y`` if given.

    Raises
    ------
    InvalidValueError
        If a part would be empty, or ``seed`` is negative.
    ShapeError
        If ``X`` has no rows, or the length of ``y`` or ``stratify`` differs.
    LabelError
        If labels of rows are not the same, in any order.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> X, y = sp.eye(10), np.arange(10) % 2
    >>> train, test, y_train, y_test = sp.training.train_test_split(X, y, test_size=0.4, stratify=True)
    >>> train.shape, test.shape, y_train.sum(), y_test.sum()
    ((6, 10), (4, 10), np.int64(3), np.int64(2))
    """
    X, y = unpack_bundle(X, y)
    X = as_tensor(X)
    if not X.ndim:
        raise ShapeError("X must have rows to split, got a scalar")
    height = len(X)
    if y is not None:
        y = match_rows(y, X, "y", "X")
        y = y if isinstance(y, Tensor) else check_array(y, "y")
        _check_length("y", y, height)
    number: Any = test_size
    if not isinstance(number, int | float | np.integer | np.floating) or not np.isfinite(number):
        raise InvalidValueError(f"test_size must be a fraction or a number of rows, got {test_size!r}")
    check_seed(seed)
    count = int(test_size) if isinstance(test_size, int | np.integer) else int(np.ceil(test_size * height))
    if not 0 < count < height:
        raise InvalidValueError(
            f"test_size must leave rows in both parts, got test_size={test_size}, {count} of {height} rows"
        )
    rng = np.random.default_rng(seed)
    if stratify is None:
        test_rows = _permutation(height, rng)[:count]
    else:
        classes = (
            np.asarray(y) if stratify is True else check_array(match_rows(stratify, X, "stratify", "X"), "stratify")
        )
        _check_length("stratify", classes, height)
        test_rows = _stratified_sample(classes, count, rng)
    is_test = np.zeros(height, np.bool_)
    is_test[test_rows] = True
    del test_rows
    rows = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    parts = [part[at] for part in ([X] if y is None else [X, y]) for at in rows]
    return tuple(parts)


def _check_length(name: str, given: Any, height: int) -> None:
    if not given.shape or given.shape[0] != height:
        raise ShapeError(f"{name} must have one value per row, {height} rows, got shape {given.shape}")


def _permutation(count: int, rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """Return ``rng.permutation(count)`` in the smallest dtype."""
    order = np.arange(count, dtype=np.min_scalar_type(count))
    rng.shuffle(order)
    return order


def _stratified_sample(classes: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """Return a sample with class proportions, rounded by largest remainder."""
    distinct, sizes = np.unique(classes, return_counts=True)
    order = _permutation(len(classes), rng)
    codes = np.empty(len(classes), np.min_scalar_type(len(distinct)))
    step = tuning().coded_rows
    for start in range(0, len(classes), step):
        part = slice(start, start + step)
        codes[part] = np.searchsorted(distinct, classes[order[part]])
    exact = sizes * count / len(classes)
    sizes_drawn = exact.astype(np.int64)
    largest = np.argsort(sizes_drawn - exact, kind="stable")[: count - int(sizes_drawn.sum())]
    sizes_drawn[largest] += 1
    by_class, starts = np.argsort(codes, kind="stable"), np.cumsum(sizes) - sizes
    drawn = [by_class[start : start + size] for start, size in zip(starts, sizes_drawn, strict=True)]
    return order[np.concatenate(drawn)]


def scales(X: Any, by: Scale = "std", axis: int = 0) -> NDArray[np.float64]:
    """Return divisors that bring columns, or rows, to one scale.

    ``X / scales(X)`` stays sparse and lazy. Absent elements count; values are not centered, which would make X dense.

    Parameters
    ----------
    X
        Matrix: a tensor, its path, or what :func:`sparrow.asarray` accepts; or a bundle, whose ``X`` is used.
    by
        "std": standard deviation; "max": largest magnitude; "l1": sum of magnitudes; "l2": root of the sum of squares.
    axis
        0 for one number per column, 1 per row.

    Returns
    -------
    numpy.ndarray
        Shape (columns,), or (rows, 1), float64; 1 where the measure is 0.

    Raises
    ------
    InvalidValueError
        If ``by`` or ``axis`` is unknown.
    ShapeError
        If ``X`` is not a matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> X = sp.asarray([[3.0, 0, 2], [0, 0, 4]])
    >>> (X / sp.training.scales(X, "max")).to_numpy()
    array([[1. , 0. , 0.5],
           [0. , 0. , 1. ]])
    """
    X = _matrix(X)
    if axis not in (0, 1):
        raise InvalidValueError(f"axis must be 0 (columns) or 1 (rows), got {axis!r}")
    if by not in get_args(Scale):
        raise InvalidValueError(f"by must be 'std', 'max', 'l1' or 'l2', got {by!r}")
    if not X.shape[axis]:  # an empty axis has no maximum
        result = X.sum(axis=axis)
    elif by == "std":
        result = X.std(axis=axis)
    elif by == "max":
        result = np.abs(_to_float(X)).max(axis=axis)
    elif by == "l1":
        result = np.abs(_to_float(X)).sum(axis=axis)
    else:
        result = np.sqrt(np.square(np.abs(_to_float(X))).sum(axis=axis))
    out: NDArray[np.float64] = result.to_numpy().astype(np.float64)
    out[out == 0] = 1
    return out if axis == 0 else out[:, None]


def _matrix(X: Any) -> Tensor:
    result = as_tensor(unpack_bundle(X, None)[0])
    if result.ndim != 2:
        raise ShapeError(f"X must be a matrix whose rows are examples, got shape {result.shape}")
    return result


def _to_float(X: Tensor) -> Tensor:
    """Return real values as float64, whose magnitudes do not overflow."""
    return X if X.dtype.kind == "c" else X.astype(np.float64)


def idf(X: Any, smooth: bool = True) -> NDArray[np.float64]:
    """Return the inverse document frequency of each column; rows are documents.

    ``X * idf(X)`` weighs term counts. ``T = X * idf(X)`` and ``T / scales(T, "l2", axis=1)`` equal scikit-learn's
    ``TfidfTransformer``.

    Parameters
    ----------
    X
        Matrix: a tensor, its path, or what :func:`sparrow.asarray` accepts; or a bundle, whose ``X`` is used.
    smooth
        Count one more document with every term: log((1 + n) / (1 + df)) + 1. Without, log(n / df) + 1, and 1 for terms
        in no document.

    Returns
    -------
    numpy.ndarray
        Shape (columns,), float64.

    Raises
    ------
    ShapeError
        If ``X`` is not a matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.training.idf([[1, 2], [0, 1], [0, 3]]).round(3)
    array([1.693, 1.   ])
    """
    X = _matrix(X)
    document_counts = X.count(axis=0).to_numpy()
    if check_flag("smooth", smooth):
        return np.asarray(np.log((1 + len(X)) / (1 + document_counts)) + 1)
    return np.asarray(np.log(max(len(X), 1) / np.where(document_counts, document_counts, max(len(X), 1))) + 1)


def hashed(X: Any, columns: int, signed: bool = True, seed: int = 0) -> Tensor:
    """Hash columns into fewer, adding up those that collide, lazily.

    Parameters
    ----------
    X
        Matrix: a tensor, its path, or what :func:`sparrow.asarray` accepts; or a bundle, whose ``X`` is used.
    columns
        Number of columns of the result.
    signed
        Flip the sign of half of the columns, so that collisions cancel and products of rows are unbiased.
    seed
        Seed of the hash function.

    Returns
    -------
    Tensor
        Shape (rows, columns).

    Raises
    ------
    InvalidValueError
        If ``columns`` is not a positive integer.
    ShapeError
        If ``X`` is not a matrix.
    TooLargeError
        If one number per column of ``X`` exceeds the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.training.hashed(sp.eye(1000), 16)
    <Tensor (d0: 1000, d1: 16) float64 nnz=? coo lazy>
    """
    X = _matrix(X)
    number: Any = columns
    if not isinstance(number, int | np.integer) or number < 1:
        raise InvalidValueError(f"columns must be a positive integer, got {columns}")
    width = X.shape[1]
    memory.check(40 * width, f"hashing {width} columns", "select the columns that have values first")
    hashes = hash_integers(np.arange(width, dtype=np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64))
    signs = np.where(hashes >> np.uint64(63), -1, 1) if check_flag("signed", signed) else np.ones(width, np.int64)
    kind = X.dtype if X.dtype.kind in "fc" or (X.dtype.kind == "i" and X.dtype.itemsize >= 4) else np.dtype(np.int64)
    coords = [np.arange(width), (hashes % np.uint64(columns)).astype(np.int64)]
    out: Tensor = X @ from_coords(coords, signs.astype(kind), (width, columns))
    return out


def hash_integers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each integer: the finalizer of SplitMix64.

    Source: Steele et al. 2014.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers


def one_hot(table: Any, columns: Sequence[str]) -> Tensor:
    """Return the one-hot encoding of columns of a table.

    The table is streamed; the codes of its values and the matrix are in memory.

    Parameters
    ----------
    table
        pandas or Polars frame, Arrow table, DuckDB relation, or any object with ``__arrow_c_stream__``.
    columns
        Columns to encode.

    Returns
    -------
    Tensor
        Dimensions ``row`` and ``feature``. Features are labelled ``column=value``, values of a column ascending. A null
        has no 1.

    Raises
    ------
    LabelError
        If a column is unknown or repeated.
    InvalidValueError
        If ``columns`` is no list.
    UnsupportedError
        If ``table`` is not a table, ``columns`` is empty, or a column is nested.
    TooLargeError
        If the codes exceed the memory limit.

    Examples
    --------
    >>> import pandas as pd, sparrow as sp
    >>> people = pd.DataFrame({"city": ["Rome", "Bern", "Rome"], "age": [30, 41, 30]})
    >>> X = sp.training.one_hot(people, ["city", "age"])
    >>> X.labels("feature").to_pylist()
    ['city=Bern', 'city=Rome', 'age=30', 'age=41']
    >>> X.to_numpy()
    array([[0., 1., 1., 0.],
           [1., 0., 0., 1.],
           [0., 1., 1., 0.]])
    """
    columns = as_names("columns", columns)
    source = table.to_arrow_reader() if hasattr(table, "to_arrow_reader") else table
    if not hasattr(source, "__arrow_c_stream__") or not columns:
        raise UnsupportedError(f"one_hot requires a table and columns, got {type(table).__name__} and {columns!r}")
    reader = pa.RecordBatchReader.from_stream(source)
    missing = [name for name in columns if name not in reader.schema.names]
    if missing:
        raise LabelError(f"columns must be among {', '.join(map(repr, reader.schema.names))}, got {missing[0]!r}")
    if len(set(columns)) < len(columns):
        raise LabelError(f"columns must be unique, got {list(columns)!r}")
    for name in columns:
        kind = reader.schema.field(name).type
        if pa.types.is_nested(kind):
            raise UnsupportedError(f"column {name!r} must have scalar values, got {kind}")
    codes_by_column: list[dict[Any, int]] = [{} for _ in columns]
    parts: list[NDArray[np.int32]] = []
    with memory.reserve(0, "codes of a table", "encode fewer columns") as reservation:
        for batch in reader:
            check_arrow(batch, "the table")
            part = np.column_stack(
                [_encode(batch[name], codes_of) for name, codes_of in zip(columns, codes_by_column, strict=True)]
            )
            reservation.grow(part.nbytes + 28 * part.size)  # the matrix built from them included
            parts.append(part)
        codes = np.concatenate(parts) if parts else np.zeros((0, len(columns)), np.int32)
        names: list[str] = []
        for number, (name, codes_of) in enumerate(zip(columns, codes_by_column, strict=True)):
            values = sorted(codes_of)
            places = np.full(len(values) + 1, -1, np.int32)  # the last one is for nulls
            places[[codes_of[value] for value in values]] = len(names) + np.arange(len(values))
            codes[:, number] = places[codes[:, number]]
            names += [f"{name}={value}" for value in values]
        rows, at = np.nonzero(codes >= 0)
        coords = [rows, codes[rows, at]]
        return from_coords(
            coords, np.ones(len(rows)), (len(codes), len(names)), dims=["row", "feature"], labels={"feature": names}
        )


def _encode(column: pa.Array, codes_of: dict[Any, int]) -> NDArray[np.int32]:
    """Return the codes of values, -1 for null; new values extend ``codes_of``."""
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int32)
    encoded = pc.dictionary_encode(column) if not pa.types.is_dictionary(column.type) else column
    numbers = [
        -1 if value is None else codes_of.setdefault(value, len(codes_of)) for value in encoded.dictionary.to_pylist()
    ]
    indices = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*numbers, -1], np.int32)[indices])
