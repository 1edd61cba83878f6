"""The label texts of libsvm's rows, put aside until all are known."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from sparrow.errors import StorageError

__all__ = ["LabelTexts"]

_LABEL_BYTES = 2_000_000
"""Bytes of label texts that are looked at together."""


class LabelTexts:
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
                if sum(texts.nbytes for texts in waiting) >= _LABEL_BYTES:
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
