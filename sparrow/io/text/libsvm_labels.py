"""The label texts of libsvm's rows: put aside until all are known, and made of labels to be written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import StorageError, UnsupportedError
from sparrow.io.tuning import tuning
from sparrow.tensor import Tensor

__all__ = ["LabelSpill", "booleans_as_integers", "join_per_row", "label_texts", "multilabel_texts"]

_LABEL = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"


class LabelSpill:
    """The label texts of all rows, in a temporary file that has no name: nothing of it stays."""

    _SCHEMA = pa.schema([pa.field("label", pa.string())])

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - close() does
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_stream(self._file, self._SCHEMA, options=options)

    def write(self, texts: pa.Array) -> None:
        """Put the texts of the next rows aside."""
        with self._writing():
            self._writer.write_batch(pa.record_batch([texts], schema=self._SCHEMA))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot write label texts to the temporary folder {self._folder!r}: {error}") from error

    def batches(self) -> Iterator[pa.Array]:
        """Yield the texts that were written, some rows at a time."""
        with self._writing():
            self._writer.close()
            self._file.seek(0)
        waiting: list[pa.Array] = []
        with pa.ipc.open_stream(self._file) as reader:
            for batch in reader:
                waiting.append(batch.column(0))
                if sum(texts.nbytes for texts in waiting) >= tuning().label_batch_bytes:
                    yield pa.concat_arrays(waiting)
                    waiting = []
        if waiting:
            yield pa.concat_arrays(waiting)

    def distinct(self) -> pa.Array:
        """Return the sorted texts of single labels."""
        names = pa.array([], pa.string())
        for texts in self.batches():
            names = pc.unique(pa.concat_arrays([names, pc.list_flatten(pc.split_pattern(texts, ","))]))
        names = names.filter(pc.not_equal(names, ""))
        return names.take(pc.sort_indices(names))

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()


def label_texts(y: Tensor, rows: int, name: str) -> pa.Array:
    """Return the text of each row's label.

    Raises
    ------
    UnsupportedError
        If they are no real numbers, or not as many as rows.
    """
    if y.shape != (rows,) or y.dtype.kind == "c":
        raise UnsupportedError(f"{name} of {y.shape} {y.dtype} is to be a real number for each of {rows} rows")
    return booleans_as_integers(pa.array(y.to_numpy())).cast(pa.string())


def multilabel_texts(y: Tensor, rows: int) -> pa.Array:
    """Return the text of each row's labels, joined by commas.

    Raises
    ------
    UnsupportedError
        If ``y`` says more than which labels a row has, or a label is no number.
    """
    entries = y.to_arrow()
    if y.shape[0] != rows or y.fill_value != 0 or y.dtype.kind == "c" or (entries.column(2).to_numpy() != 1).any():
        raise UnsupportedError(f"y of {y.shape} is to say by ones which labels each of {rows} rows has, and no more")
    names = y.labels(1)
    which = entries.column(1).combine_chunks()
    texts = (which if names is None else names.take(which)).cast(pa.string())
    wrong = pc.index(pc.match_substring_regex(texts, _LABEL), False).as_py()
    if wrong >= 0:
        raise UnsupportedError(f"labels in libsvm text are numbers, and {texts[wrong].as_py()!r} is none: number them")
    return join_per_row(entries.column(0).to_numpy(), texts, 0, rows, ",")


def booleans_as_integers(values: pa.Array) -> pa.Array:
    """Return values as numbers: booleans as 0 and 1."""
    return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values


def join_per_row(rows: NDArray[Any], texts: pa.Array, start: int, stop: int, separator: str) -> pa.Array:
    """Return the texts of each row from ``start`` up to ``stop``, joined; ``rows`` ascends."""
    offsets = np.searchsorted(rows, np.arange(start, stop + 1))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts), separator)
