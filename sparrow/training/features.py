"""What is done with matrices before training: parts for training and testing, scales, weights of terms, new columns.

Numbers for each column come from one pass over the data; what is done with them is an expression such as ``X / s``,
which is computed batch by batch when it is read. So what was found in training rows is applied to any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, LabelError, ShapeError, UnsupportedError
from sparrow.functions.creation import from_coords
from sparrow.functions.views import as_tensor
from sparrow.runtime import memory
from sparrow.runtime.validation import check_flag, check_seed
from sparrow.tensor import Tensor
from sparrow.training.inputs import with_labels

__all__ = ["hashed", "idf", "one_hot", "scales", "scattered", "train_test_split"]

Scale = Literal["std", "max", "l1", "l2"]


def train_test_split(
    X: Any, y: Any = None, test_size: float = 0.25, seed: int = 0, stratify: Any = None
) -> tuple[Any, ...]:
    """Return rows drawn at random for training, and the others for testing, as views.

    Nothing is read but what is stratified by. Rows stay in their order, which is that of the files.

    Parameters
    ----------
    X
        A tensor, its path, or what :func:`sparrow.asarray` takes: its first dimension is rows. Or a bundle, or its
        path, with ``X`` and ``y``.
    y
        Labels, of as many rows; a tensor, or an array.
    test_size
        The share of rows for testing, or, as an integer, how many.
    seed
        What decides which.
    stratify
        Classes of the rows, an array or tensor of one dimension, or True for ``y``: each has its share in both parts.

    Returns
    -------
    tuple
        Training rows and testing rows of ``X``, then of ``y`` if there is one.

    Raises
    ------
    InvalidValueError
        If one of the parts would be empty, or ``seed`` is below 0.
    ShapeError
        If ``X`` has no rows, or ``y`` or ``stratify`` is for more rows or fewer.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> X, y = sp.eye(10), np.arange(10) % 2
    >>> train, test, y_train, y_test = sp.training.train_test_split(X, y, test_size=0.4, stratify=True)
    >>> train.shape, test.shape, y_train.sum(), y_test.sum()
    ((6, 10), (4, 10), np.int64(3), np.int64(2))
    """
    X, y = with_labels(X, y)
    X = as_tensor(X)
    if not X.ndim:
        raise ShapeError("X is one number: there are no rows to split")
    height = len(X)
    if y is not None:
        y = y if isinstance(y, Tensor) else np.asarray(y)
        _check_length("y", y, height)
    number: Any = test_size
    if not isinstance(number, int | float | np.integer | np.floating) or not np.isfinite(number):
        raise InvalidValueError(f"test_size={test_size!r}: give a share of the rows, or how many")
    check_seed(seed)
    count = int(test_size) if isinstance(test_size, int | np.integer) else int(np.ceil(test_size * height))
    if not 0 < count < height:
        raise InvalidValueError(
            f"test_size={test_size} takes {count} of {height} rows for testing: both parts need some"
        )
    rng = np.random.default_rng(seed)
    if stratify is None:
        tested = rng.permutation(height)[:count]
    else:
        classes = np.asarray(y if stratify is True else stratify)
        _check_length("stratify", classes, height)
        tested = _stratified(classes, count, rng)
    chosen = np.zeros(height, np.bool_)
    chosen[tested] = True
    rows = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    parts = [part[at] for part in ([X] if y is None else [X, y]) for at in rows]
    return tuple(parts)


def _check_length(name: str, given: Any, height: int) -> None:
    if not given.shape or given.shape[0] != height:
        raise ShapeError(f"{name} has the shape {given.shape}, there are {height} rows: there must be one for each")


def _stratified(classes: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return rows so that each class has its share, what is left over going to the largest remainders."""
    _, codes = np.unique(classes, return_inverse=True)
    sizes = np.bincount(codes)
    exact = sizes * count / len(codes)
    each = exact.astype(np.int64)
    over = np.argsort(each - exact, kind="stable")[: count - int(each.sum())]
    each[over] += 1
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[place < np.repeat(each, sizes)]


def scales(X: Any, by: Scale = "std", axis: int = 0) -> NDArray[np.float64]:
    """Return what to divide columns by, or rows, so that they are of one size: ``X / scales(X)`` stays sparse and lazy.

    Absent cells count. Values are not centred, which would leave no absent cells.

    Parameters
    ----------
    X
        A matrix: a tensor, its path, or what :func:`sparrow.asarray` takes; or a bundle, of which it is ``X``.
    by
        The standard deviation, the largest absolute value ("max"), the sum of absolute values ("l1") or the root of
        the sum of squares ("l2").
    axis
        0 for a number for each column, 1 for each row.

    Returns
    -------
    numpy.ndarray
        Shape (columns,), or (rows, 1); 1 where there is nothing but zeros, or all cells are equal.

    Raises
    ------
    InvalidValueError
        If there is no such ``by`` or ``axis``.
    ShapeError
        If this is no matrix.

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
        raise InvalidValueError(f"axis={axis!r}: use 0 for columns or 1 for rows")
    if by not in get_args(Scale):
        raise InvalidValueError(f"by={by!r}: use 'std', 'max', 'l1' or 'l2'")
    if not X.shape[axis]:  # no cells, of which there is no largest
        found = X.sum(axis=axis)
    elif by == "std":
        found = X.std(axis=axis)
    elif by == "max":
        found = np.abs(_wide(X)).max(axis=axis)
    elif by == "l1":
        found = np.abs(_wide(X)).sum(axis=axis)
    else:
        found = np.sqrt(np.square(np.abs(_wide(X))).sum(axis=axis))
    out: NDArray[np.float64] = found.to_numpy().astype(np.float64)
    out[out == 0] = 1
    return out if axis == 0 else out[:, None]


def _matrix(X: Any) -> Tensor:
    found = as_tensor(with_labels(X, None)[0])
    if found.ndim != 2:
        raise ShapeError(f"X has the shape {found.shape}: expected a matrix, whose rows are examples")
    return found


def _wide(X: Tensor) -> Tensor:
    """Return a matrix whose values have a magnitude of their own type: of the least int8, -128, that is no int8."""
    return X if X.dtype.kind == "c" else X.astype(np.float64)


def idf(X: Any, smooth: bool = True) -> NDArray[np.float64]:
    """Return the inverse document frequency of columns: ``X * idf(X)`` weighs counts of terms (rows are documents).

    ``T = X * idf(X)`` and ``T / scales(T, "l2", axis=1)`` are what scikit-learn's ``TfidfTransformer`` computes.

    Parameters
    ----------
    X
        A matrix: a tensor, its path, or what :func:`sparrow.asarray` takes; or a bundle, of which it is ``X``.
    smooth
        Whether to count one more document, with every term: log((1 + n) / (1 + df)) + 1. Without, log(n / df) + 1, and
        1 for terms in no document.

    Returns
    -------
    numpy.ndarray
        Shape (columns,).

    Raises
    ------
    ShapeError
        If this is no matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.training.idf([[1, 2], [0, 1], [0, 3]]).round(3)
    array([1.693, 1.   ])
    """
    X = _matrix(X)
    have = X.count(axis=0).to_numpy()
    if check_flag("smooth", smooth):
        return np.asarray(np.log((1 + len(X)) / (1 + have)) + 1)
    return np.asarray(np.log(max(len(X), 1) / np.where(have, have, max(len(X), 1))) + 1)


def hashed(X: Any, columns: int, signed: bool = True, seed: int = 0) -> Tensor:
    """Return a matrix with fewer columns, into which the columns of another are hashed and added up, lazily.

    Parameters
    ----------
    X
        A matrix: a tensor, its path, or what :func:`sparrow.asarray` takes; or a bundle, of which it is ``X``.
    columns
        How many columns there are to be.
    signed
        Whether half of the columns change sign, so that those that meet do not add up to something: products of rows
        then are right on average.
    seed
        Another one hashes otherwise.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``columns`` is no integer of at least 1.
    ShapeError
        If this is no matrix.
    TooLargeError
        If a number for each column of ``X`` would not fit in the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.training.hashed(sp.eye(1000), 16)
    <Tensor (d0: 1000, d1: 16) float64 nnz=? coo lazy>
    """
    X = _matrix(X)
    number: Any = columns
    if not isinstance(number, int | np.integer) or number < 1:
        raise InvalidValueError(f"columns={columns} must be an integer of at least 1")
    width = X.shape[1]
    memory.check(40 * width, f"hashing {width} columns", "index the columns that matter first")
    hashes = scattered(np.arange(width, dtype=np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64))
    signs = np.where(hashes >> np.uint64(63), -1, 1) if check_flag("signed", signed) else np.ones(width, np.int64)
    kind = X.dtype if X.dtype.kind in "fc" or (X.dtype.kind == "i" and X.dtype.itemsize >= 4) else np.dtype(np.int64)
    coords = [np.arange(width), (hashes % np.uint64(columns)).astype(np.int64)]
    out: Tensor = X @ from_coords(coords, signs.astype(kind), (width, columns))
    return out


def scattered(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each number: the finish of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers


def one_hot(table: Any, columns: Sequence[str]) -> Tensor:
    """Return a matrix with a column for each value that columns of a table have, 1 where a row has it.

    The table is read as a stream; a code of each of its cells, and the matrix, are held in memory.

    Parameters
    ----------
    table
        A frame of pandas or Polars, an Arrow table, a DuckDB relation, or anything with ``__arrow_c_stream__``.
    columns
        Its columns to take.

    Returns
    -------
    Tensor
        Of dimensions ``row`` and ``feature``, the latter labelled ``column=value``: of each column the values ascend.
        A row with a null has no 1 there.

    Raises
    ------
    LabelError
        If there is no such column, or one is named twice.
    UnsupportedError
        If this is no table, no columns are named, or one holds lists or other tables.
    TooLargeError
        If the codes would pass the memory limit.

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
    source = table.to_arrow_reader() if hasattr(table, "to_arrow_reader") else table
    if not hasattr(source, "__arrow_c_stream__") or not columns:
        raise UnsupportedError(f"{type(table).__name__} is no table, or no columns are named")
    reader = pa.RecordBatchReader.from_stream(source)
    missing = [name for name in columns if name not in reader.schema.names]
    if missing:
        raise LabelError(f"no column {missing[0]!r}: there are {', '.join(map(repr, reader.schema.names))}")
    if len(set(columns)) < len(columns):
        raise LabelError(f"columns={list(columns)!r}: each can be named once")
    for name in columns:
        kind = reader.schema.field(name).type
        if pa.types.is_nested(kind):
            raise UnsupportedError(f"column {name!r} holds {kind}: one-hot columns are made of single values")
    known: list[dict[Any, int]] = [{} for _ in columns]
    parts: list[NDArray[np.int32]] = []
    with memory.reserve(0, "the codes of a table", "take fewer columns") as room:
        for batch in reader:
            part = np.column_stack([_codes(batch[name], seen) for name, seen in zip(columns, known, strict=True)])
            room.grow(part.nbytes + 28 * part.size)  # and what the matrix takes of them
            parts.append(part)
        codes = np.concatenate(parts) if parts else np.zeros((0, len(columns)), np.int32)
        names: list[str] = []
        for number, (name, seen) in enumerate(zip(columns, known, strict=True)):
            values = sorted(seen)
            places = np.full(len(values) + 1, -1, np.int32)  # the last stands for nulls
            places[[seen[value] for value in values]] = len(names) + np.arange(len(values))
            codes[:, number] = places[codes[:, number]]
            names += [f"{name}={value}" for value in values]
        rows, at = np.nonzero(codes >= 0)
        coords = [rows, codes[rows, at]]
        return from_coords(
            coords, np.ones(len(rows)), (len(codes), len(names)), dims=["row", "feature"], labels={"feature": names}
        )


def _codes(column: pa.Array, seen: dict[Any, int]) -> NDArray[np.int32]:
    """Return for each value of a column the number that it has in ``seen``, where new ones get one; -1 for nulls."""
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int32)
    encoded = pc.dictionary_encode(column) if not pa.types.is_dictionary(column.type) else column
    numbers = [-1 if value is None else seen.setdefault(value, len(seen)) for value in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*numbers, -1], np.int32)[indices])
