"""libffm text to and from a bundle: samples of features that belong to fields.

Y. Juan, Y. Zhuang, W.-S. Chin and C.-J. Lin, Field-aware Factorization Machines for CTR Prediction, 2016.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparrow import storage
from sparrow.core.casting import is_rounded_integer
from sparrow.core.schema import MAX_DIMENSION_SIZE, Schema, assigned_dims, check_dtype
from sparrow.errors import IngestError, UnsupportedError
from sparrow.io.base.coo_writer import write_coo
from sparrow.io.base.magic import split_words
from sparrow.io.base.registry import DType, Duplicates, Format, Reader, Writer, shared
from sparrow.io.base.report import Report
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import TextBlock, open_sources, read_blocks, total_size
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.text.libsvm import feature_tokens, label_texts
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["FORMATS", "Libffm", "LibffmWriter"]

_DIMS = assigned_dims("row", "field", "col")


@shared
@dataclass
class Libffm(Reader):
    r"""Store libffm text as a bundle of ``X`` (row, field, col) and ``y`` (row).

    Lines hold a label, then ``field:index:value`` for each feature. Fields and indices are coordinates, from 0. Text
    after a ``#`` and blank lines are ignored. Zeros are not stored.

    Parameters
    ----------
    %(src)s
    %(dst)s
    %(duplicates)s
    dtype
        Type of the values of ``X``; float64 by default.
    %(storing)s

    Returns
    -------
    Bundle
        ``sp.open(dst)``: the stored ``X`` and ``y``.

    Raises
    ------
    IngestError
        If a line is malformed, or a value does not fit ``dtype``: with file, line and token.
    %(duplicate_error)s
    %(store_errors)s

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("clicks.ffm").write_text("1 0:3:1 1:5:0.5\n0 0:2:1\n")
    >>> clicks = sp.ingest.libffm("clicks.ffm", "clicks.sparrow")
    >>> clicks["X"].shape, clicks["y"].to_numpy()
    ((2, 2, 6), array([1., 0.]))
    """

    _: KW_ONLY
    duplicates: Duplicates = "error"
    dtype: DType = None

    examples: ClassVar[str] = "sparrow ingest libffm train.ffm.gz clicks.sparrow"

    def read(self) -> str:
        """Store the text and return the folder of the bundle."""
        sources = open_sources(self.src)
        names = [source.name for source in sources]
        with storage.stage_folder(self.dst, self.overwrite) as folder, closing(read_blocks(sources)) as text:
            dtype = check_dtype("float64" if self.dtype is None else self.dtype)
            samples = _Samples(ValueCast(dtype, self.dtype is not None, self.report, keep=None))
            with bar("reading libffm text", total_size(sources)) as advance:

                def items() -> Iterator[tuple[TextBlock, int]]:
                    for item in samples.items(text):
                        yield item
                        advance(item[0].advance)

                written = write_coo(
                    folder / "X",
                    items(),
                    samples.rows,
                    dims=_DIMS,
                    dtype=samples.dtype,
                    weighted=True,
                    duplicates=self.duplicates,
                    fill_value=0,
                    profile=self.profile,
                    report=self.report,
                )
            about: dict[str, Any] = {
                "profile": self.profile, "operation": "ingest libffm", "extra": {"sources": names},
                "report": self.report.counts,
            }  # fmt: skip
            shape = (samples.count, *(top + 1 for top in samples.largest))
            storage.create(folder / "X", Schema(shape, _DIMS, samples.dtype, 0), written.files, **about)
            labels = write_coo(
                folder / "y",
                [samples.labels[first] for first in sorted(samples.labels)],
                lambda rows: rows,
                dims=_DIMS[:1],
                dtype=np.dtype(np.float64),
                weighted=True,
                duplicates="error",
                fill_value=0,
                profile=self.profile,
                report=Report(),
            )
            y = Schema((samples.count,), _DIMS[:1], np.dtype(np.float64), 0)
            storage.create(folder / "y", y, labels.files, **about)
            storage.write_bundle(folder, {"X": None, "y": None}, {"format": "libffm"})
        return os.fspath(self.dst)


class _Samples:
    """Samples of a text, parsed block by block on several threads."""

    def __init__(self, cast: ValueCast) -> None:
        self.dtype, self._cast = cast.dtype, cast
        self.count = 0
        self.largest = (-1, -1)
        self.labels: dict[int, Rows] = {}
        self._lock = threading.Lock()

    def items(self, text: Iterator[TextBlock]) -> Iterator[tuple[TextBlock, int]]:
        """Yield blocks, each with the number of samples before it."""
        from sparrow.kernels.parse.libffm import count_samples

        for block in text:
            yield block, self.count
            self.count += int(count_samples(block.data))

    def rows(self, item: tuple[TextBlock, int]) -> Rows:
        """Return the features of a block."""
        from sparrow.kernels.parse import libffm as kernels

        block, before = item
        max_count = int(np.count_nonzero(block.data == 58)) // 2 + 1
        labels, rows, values = np.empty(block.lines), np.empty(max_count, np.int64), np.empty(max_count)
        pairs, hard = np.empty((max_count, 2), np.int64), np.empty(2 * (max_count + block.lines), np.int64)
        facts = np.zeros(3, np.int64)
        lines, count, hards, status, at = kernels.parse_fields(block.data, labels, rows, pairs, values, hard, facts)
        comments, rounded, first_rounded = facts.tolist()
        if status != kernels.GOOD:
            problem = {
                kernels.BAD_LABEL: "the label must be a number",
                kernels.BAD_INTEGER: "a feature must be field:index:value, with an integer field and index",
                kernels.NO_COLON: "a feature must be field:index:value",
                kernels.BAD_VALUE: "the value must be a number",
                kernels.NEGATIVE: "a field or index is negative",
                kernels.LARGE: "a field or index is beyond 2^63 - 1",
            }[status]
            raise IngestError(problem, block.source.name, block.line_at(at), split_words(block.text(at, at + 1000))[0])
        for k, start in hard[: 2 * hards].reshape(-1, 2).tolist():
            token = split_words(block.text(start, start + 1000))[0]
            if k < 0:
                labels[-1 - k] = float(token)
                continue
            values[k] = float(token)
            if is_rounded_integer(token):
                first_rounded, rounded = min(k, first_rounded) if rounded else k, rounded + 1
        self._cast.report.add(comments=comments, rounded=_count_rounded_labels(block, labels[:lines]))
        if not self._cast.accepts_rounded(rounded):
            error = _feature_error(block, first_rounded, "the value")
            error.problem += f" {self._cast.problem_of((error.token or '').rpartition(':')[2])}"
            raise error
        found, unfit = self._cast(values[:count])
        if unfit is not None:
            raise _feature_error(block, unfit, f"the value {self._cast.problem(values[unfit])}")
        field, col = pairs[:count].T.copy()
        largest = (int(field.max(initial=-1)), int(col.max(initial=-1)))
        if max(largest) >= MAX_DIMENSION_SIZE:
            at = int(np.argmax(np.maximum(field, col) >= MAX_DIMENSION_SIZE))
            raise _feature_error(block, at, "a field or index is beyond 2^63 - 2, the largest coordinate")
        own = np.flatnonzero(labels[:lines])
        with self._lock:
            self.largest = (max(self.largest[0], largest[0]), max(self.largest[1], largest[1]))
            if len(own):  # a block of comments begins at the same sample as the next one
                self.labels[before] = Rows((own + before,), labels[own])
        return Rows((rows[:count] + before, field, col), found)


def _count_rounded_labels(block: TextBlock, labels: np.ndarray[Any, Any]) -> int:
    """Count the labels that are integers which float64 does not hold."""
    large = np.flatnonzero(np.abs(labels) >= 2.0**53)
    if not len(large):
        return 0
    lines = (
        split_words(line.split("#")[0]) for line in bytes(block.data).decode(errors="backslashreplace").split("\n")
    )
    tokens = [words[0] for words in lines if words]
    return sum(is_rounded_integer(tokens[row]) for row in large.tolist())


def _feature_error(block: TextBlock, number: int, problem: str) -> IngestError:
    """Return the error about a feature, counted from 0 in a block."""
    lines = enumerate(bytes(block.data).decode(errors="backslashreplace").split("\n"), block.first_line)
    features = ((at, token) for at, line in lines for token in split_words(line.split("#")[0])[1:])
    line, token = next(islice(features, number, None))
    return IngestError(problem, block.source.name, line, token)


@dataclass
class LibffmWriter(Writer):
    """Write a bundle of ``X`` and ``y`` as lines ``label field:index:value ...``."""

    def write(self) -> int:
        """Write the file and return the number of rows."""
        found: Mapping[str, Tensor] = self.source if isinstance(self.source, Bundle) else {}
        if set(found) < {"X", "y"} or found["X"].ndim != 3 or found["y"].ndim != 1 or found["X"].dtype.kind == "c":
            raise UnsupportedError("libffm needs a bundle of X (row, field, col) and y, as sp.ingest.libffm returns")
        X, y = found["X"], found["y"]
        if X.fill_value != 0:
            raise UnsupportedError(f"libffm needs fill 0, X has {X.fill_value}")
        labels = label_texts(y, X.shape[0], "y").to_pylist()
        row, line = -1, ""
        with self.sink() as file, bar("exporting", X.nnz, "elements") as advance:

            def upto(stop: int) -> None:
                nonlocal row, line
                if row >= 0:
                    file.write(f"{labels[row]}{line}\n".encode())
                file.write("".join(f"{label}\n" for label in labels[row + 1 : stop]).encode())
                row, line = stop, ""

            for batch in X.to_batches():
                narrow = {pa.bool_(): pa.int8(), pa.float16(): pa.float32()}
                columns = [
                    column.cast(narrow.get(column.type, column.type)).cast(pa.string()) for column in batch.columns
                ]
                tokens = pc.binary_join_element_wise(*columns[1:], ":")
                src = batch.column(0).to_numpy()
                starts = np.flatnonzero(np.diff(src, prepend=-1))
                joined = pc.binary_join(
                    pa.ListArray.from_arrays(pa.array(np.append(starts, len(src)), pa.int32()), tokens), " "
                )
                for own, text in zip(src[starts].tolist(), joined.to_pylist(), strict=True):
                    if own != row:
                        upto(own)
                    line += " " + text
                advance(batch.num_rows)
            upto(len(labels))
        return len(labels)


_TRIPLE = re.compile(r"\d+:\d+:[^:\s]+")


def _detect(sample: Sample) -> str | None:
    tokens = feature_tokens(sample)
    is_ffm = bool(tokens) and all(map(_TRIPLE.fullmatch, tokens))
    return "lines are a label and field:index:value triples" if is_ffm else None


FORMATS = (
    Format(
        "libffm",
        "libffm text: fields and features.",
        reader=Libffm,
        writer=LibffmWriter,
        suffixes=(".ffm", ".libffm"),
        detectors={Stage.LINES: _detect},
    ),
)
