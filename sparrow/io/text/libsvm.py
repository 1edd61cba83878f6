"""libsvm (svmlight) text to and from a bundle of ``X``, ``y`` and ``qid``.

Blocks of text are parsed on several threads and come back in order. Rows never span blocks, so elements arrive sorted
and go straight to the writers: memory is bounded by a few blocks. Two facts are known only at the end of the input:

* ``index_base="auto"``: after a first block without index 0 the base is assumed to be 1; if a 0 comes later, the files
  written so far are rewritten, one column further.
* Whether rows have several labels: label texts go to a temporary file as they come.
"""

from __future__ import annotations

import itertools
import operator
import os
import re
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.casting import MAX_STORED_INTEGER, find_unrepresentable
from sparrow.core.schema import MAX_DIMENSION_SIZE, Schema, assigned_dims, check_dtype
from sparrow.engines.task_rounds import FileTarget, Rounds, StoredRun, cut_chunks
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, StorageError, UnsupportedError
from sparrow.io.base.layout import is_number
from sparrow.io.base.registry import DType, Duplicates, Format, Option, Reader, Writer, shared
from sparrow.io.base.run_sink import RunSink
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.shards import parse_shards, read_labels
from sparrow.io.base.source import Source, TextBlock, compression_of, open_sources, read_blocks, total_size
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.text.extreme_header import HeaderLines, find_bad_label
from sparrow.io.text.libsvm_blocks import Location, ParsedBlock, ShiftedBlocks, StoredBlock, store_blocks
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Block, canonicalize
from sparrow.kernels.sums import SumRangeError
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.events import emit
from sparrow.runtime.progress import bar
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.reader import evict_footer, read_footer, read_row_group
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

if TYPE_CHECKING:
    from sparrow.kernels.parse.libsvm import Parsed

__all__ = ["FORMATS", "Libsvm", "LibsvmWriter", "feature_tokens", "label_texts"]

_DIMS = assigned_dims("row", "col")

_LABEL = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
"""Labels that are numbers."""


@shared
@dataclass
class Libsvm(Reader):
    r"""Store libsvm text as a bundle.

    The bundle holds ``X`` (rows x features, dimensions ``row, col``), ``y`` (labels, dimension ``row``, float64) and,
    if ``qid:`` occurs, ``qid`` (``row``, int64). If rows have several labels (``1,2``), ``y`` is bool, rows x labels
    (``row, label``), with the sorted label texts as labels of its columns. Zeros are not stored. Blank lines and lines
    of comment only are not rows; a line with only a label is an empty one.

    A first line of three numbers is the header of Extreme Classification files: points, features and labels. ``X`` and
    ``y``, whose columns are then the labels by number, have these sizes, and indices count from 0.

    Parameters
    ----------
    %(src)s
    %(dst)s
    index_base
        Index of the first feature: 0, 1, or ``"auto"``, which is 0 if any index of the input is 0, else 1; it is
        printed to standard error and recorded with ``X``.
    n_features
        Number of columns; by default it follows from the largest index.
    dtype
        Type of the values of ``X``. Integers that it rounds are counted in the report.
    %(duplicates)s
    %(storing)s

    Returns
    -------
    Bundle
        ``sp.open(dst)``: the stored ``"X"``, ``"y"`` and, if it occurs, ``"qid"``.

    Raises
    ------
    IngestError
        If the text is not libsvm text, an index is out of range, a value does not fit ``dtype``, or a header declares
        other sizes: with file, line and token.
    %(not_found)s
    %(exists)s
    StorageError
        If the disk is too small.
    %(invalid)s

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("two.svm").write_text("1 3:0.5\n-1 1:2 4:1 # a comment\n")
    >>> data = sp.ingest.libsvm("two.svm", "two.sparrow")
    >>> data["X"].shape, data["y"].to_numpy()
    ((2, 4), array([ 1., -1.]))
    """

    _: KW_ONLY
    index_base: Annotated[
        Literal["auto", 0, 1], Option("Index of the first feature; auto: 0 if any index is 0, else 1.")
    ] = "auto"
    n_features: Annotated[int | None, Option("Number of columns of X. [default: the largest index]", minimum=0)] = None
    dtype: DType = "float64"
    duplicates: Duplicates = "error"

    examples: ClassVar[str] = """\
sparrow ingest libsvm a9a.gz a9a.sparrow
sparrow ingest libsvm "part-*.txt.zst" big.sparrow --index-base 0
zcat a9a.gz | sparrow ingest libsvm - a9a.sparrow"""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            self.n_features = None if self.n_features is None else operator.index(self.n_features)
        except TypeError:
            raise self._no_width() from None
        if self.n_features is not None and not 0 <= self.n_features <= MAX_DIMENSION_SIZE:
            raise self._no_width()
        self.base = None if self.index_base == "auto" else self.index_base
        self.headers = HeaderLines(self.src)
        self.kind = check_dtype("float64" if self.dtype is None else self.dtype)

    @property
    def cast(self) -> ValueCast:
        """Cast of the values."""
        return ValueCast(self.kind, True, self.report)

    def _no_width(self) -> InvalidValueError:
        return InvalidValueError(f"n_features must be an integer from 0 to 2^63 - 1, got {self.n_features!r}")

    @property
    def limit(self) -> int:
        """The largest index allowed; for base 1 as long as the base is open."""
        width = MAX_DIMENSION_SIZE if self.n_features is None else self.n_features
        return width - 1 if self.base == 0 else width

    def read(self) -> str:
        """Store the text and return the folder of the bundle."""
        sources = open_sources(self.src)
        with storage.stage_folder(self.dst, self.overwrite) as folder, ExitStack() as stack:
            ingest = _Ingest(folder, self, stack)
            shards = stack.enter_context(parse_shards(self, sources, folder, lambda: None))
            if shards is None or None in shards.facts:  # files with a header must all have the same
                self.report.clear()
                for piece in stack.enter_context(closing(_parse_blocks(sources, self))):
                    ingest.write(piece, total_size(sources))
            else:
                ingest.rounds = shards.rounds
                for stored in itertools.chain.from_iterable(shards.facts):
                    ingest.write(stored, None)
            self._take_sizes()  # of a header without rows
            if ingest.labels_alone and self.n_features is None:
                raise IngestError(
                    "lines are numbers separated by commas, without a feature index:value: sparrow ingest columns "
                    "reads CSV; pass n_features= if rows have several labels and no features",
                    sources[0].name,
                )
            self.headers.check_rows(ingest.rows, self.source_name)
            ingest.finish()
        if not ingest.rows:
            warnings.warn(f"{', '.join(source.name for source in sources)}: there are no rows", stacklevel=2)
        progress.write_note(ingest.summary())
        return os.fspath(self.dst)

    def parse_shard(self, sources: Sequence[Source], state: None, sink: RunSink) -> list[StoredBlock] | None:
        """Return the blocks of some of the files; None if they have a header."""
        out, waiting, nbytes = list[StoredBlock](), list[ParsedBlock](), 0
        with closing(_parse_blocks(list(sources), self)) as found:
            for block in found:
                if self.headers.header is not None:
                    return None
                waiting.append(block)
                nbytes += block.rows.nbytes + block.indices.nbytes + block.values.nbytes + block.texts.nbytes
                if nbytes > sink.budget:
                    out.append(store_blocks(waiting, sink.folder))
                    waiting, nbytes = [], 0
        return [*out, store_blocks(waiting, sink.folder)] if waiting else out

    def _take_sizes(self) -> None:
        """Use the sizes of a header."""
        if self.headers.header is not None:
            self.n_features = self.headers.header.features if self.n_features is None else self.n_features
            self.base = 0 if self.base is None else self.base

    def without_headers(self, blocks: Iterable[TextBlock]) -> Iterator[TextBlock]:
        """Yield blocks with the headers of files taken and blanked out."""
        for block in blocks:
            below = self.headers.take(block)
            self._take_sizes()
            yield below


class _LabelSpill:
    """Label texts of all rows, in an unnamed temporary file."""

    _SCHEMA = pa.schema([pa.field("label", pa.string())])

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - close() does
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_stream(self._file, self._SCHEMA, options=options)

    def write(self, texts: pa.Array) -> None:
        """Append the label texts of the next rows."""
        with self._writing():
            self._writer.write_batch(pa.record_batch([texts], schema=self._SCHEMA))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot write labels to the temporary folder {self._folder!r}: {error}") from error

    def batches(self) -> Iterator[pa.Array]:
        """Yield the texts that were written, a batch of rows at a time."""
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
        """Return the sorted distinct labels."""
        names = pa.array([], pa.string())
        for texts in self.batches():
            names = pc.unique(pa.concat_arrays([names, pc.list_flatten(pc.split_pattern(texts, ","))]))
        names = names.filter(pc.not_equal(names, ""))
        return names.take(pc.sort_indices(names))

    def close(self) -> None:
        """Release the disk space."""
        self._file.close()


def _parse_blocks(sources: list[Source], options: Libsvm) -> Generator[ParsedBlock]:
    """Yield the parsed blocks of all sources, in order."""
    from sparrow.kernels.parse import libsvm as kernels

    threads = max(1, min(settings.current().threads, memory.available() // tuning().libsvm_thread_bytes))
    is_integer = options.kind.kind in "iu"

    def work(block: TextBlock) -> ParsedBlock:
        min_index = options.base or 0
        return _parse_block(
            block, kernels.parse(block.data, block.lines, min_index, options.limit, is_integer), options
        )

    with (
        bar("reading libsvm text", total_size(sources)) as advance,
        closing(read_blocks(sources, tuning().libsvm_block_bytes)) as text,
    ):
        parsed = cast("Generator[ParsedBlock]", ordered_map(work, options.without_headers(text), threads))
        with closing(parsed):
            for piece in parsed:
                yield piece
                advance(piece.advance)


def _parse_block(block: TextBlock, parsed: Parsed, options: Libsvm) -> ParsedBlock:
    """Sort, reduce and cast the elements of a block; raise for a bad token."""
    values, unfit = _cast(parsed, options.cast, block)
    options.report.add(comments=parsed.comments, rounded=parsed.rounded_labels)
    indices = parsed.indices.astype(np.int32) if parsed.largest < 2**31 else parsed.indices
    elements = Block((parsed.rows[:unfit], indices[:unfit]), values[:unfit])
    if not parsed.sorted:
        shape = (len(parsed.at), min(parsed.largest, MAX_DIMENSION_SIZE - 1) + 1)
        try:
            elements = canonicalize(elements, shape, 0, options.duplicates, keep_fill=True)
        except DuplicateError:
            problem = "the index is repeated in its row: pass duplicates='sum', 'last', 'first', 'min' or 'max'"
            error = _error_at(block, parsed, _first_repeat(elements), problem)
            at = parsed.at[parsed.unlabelled] if parsed.unlabelled >= 0 else -1
            raise _weights_error(_locate(block, int(at)), options) or error from None
        except SumRangeError as error:
            at = (elements.coords[0] == error.cell[0]) & (elements.coords[1] == error.cell[1])
            problem = f"the values of the index have the sum {error.total}, which {options.cast.problem(error.total)}"
            raise _error_at(block, parsed, int(np.argmax(at)), problem) from None
    merged, zeros = len(parsed.values[:unfit]) - elements.count, 0
    if merged or parsed.zeros or options.kind != np.float64:
        kept = elements.values != 0
        zeros = len(kept) - int(np.count_nonzero(kept))
        if zeros:
            elements = elements.take(kept)
    options.report.add(read=elements.count + merged + zeros, stored=elements.count, merged=merged, fill=zeros)
    if unfit is not None:
        raise _error_at(block, parsed, unfit, f"the value {options.cast.problem(parsed.values[unfit])}")
    if parsed.rounded and options.kind.kind in "fc":
        options.report.add(rounded=parsed.rounded)
    if parsed.fault is not None:
        code, start, stop = parsed.fault
        problem = _describe_fault(code, parsed, options)
        raise IngestError(problem, block.source.name, block.line_at(start), block.text(start, stop))
    texts = pa.StringArray.from_buffers(
        len(parsed.labels), pa.py_buffer(parsed.label_ends), pa.py_buffer(parsed.label_text)
    )
    header = options.headers.header
    if header is not None and (bad := find_bad_label(texts, header.labels)) is not None:
        line = block.line_at(int(parsed.at[bad[0]]))
        problem = f"the label must be an integer below {header.labels}, the number of labels in the header"
        raise IngestError(problem, block.source.name, line, bad[1])
    at = parsed.at[parsed.unlabelled] if parsed.unlabelled >= 0 else -1
    return ParsedBlock(
        elements.coords[0],
        elements.coords[1],
        elements.values,
        parsed.labels,
        texts,
        parsed.qids if parsed.qid else None,
        parsed.smallest,
        parsed.largest,
        parsed.several,
        _locate(block, int(at)),
        _locate(block, parsed.at_limit),
        block.advance,
    )


def _locate(block: TextBlock, at: int) -> Location | None:
    """Return the place of the token at a position; None for -1."""
    if at < 0:
        return None
    token = re.match(rb"[^\s#]*", bytes(block.data[at : at + 200]))
    assert token is not None
    return Location(block.source.name, block.line_at(at), token[0].decode(errors="backslashreplace"))


def _error_at(block: TextBlock, parsed: Parsed, element: int, problem: str) -> IngestError:
    """Return the error about an element, counted in the order of the text."""
    row = parsed.rows[element]
    start = int(parsed.at[row])
    line = bytes(block.data[start:]).split(b"\n", 1)[0].split(b"#", 1)[0]
    tokens = [token for token in line.split() if b":" in token and not token.startswith(b"qid:")]
    token = tokens[element - int(np.searchsorted(parsed.rows, row))]
    return IngestError(problem, block.source.name, block.line_at(start), token.decode(errors="backslashreplace"))


def _weights_error(place: Location | None, options: Libsvm) -> IngestError | None:
    """Return the error about a row without a label, which may begin with a weight."""
    if place is None:
        return None
    script = shlex.quote("s/^([^[:blank:]:]+):[^[:blank:]]+/\\1/")
    typed = TypedSource.of(options.src, compression_of(open_sources(options.src)[0]))
    return IngestError(
        "a row must start with a label: a number; if rows begin with label:weight, as xgboost has it, weights are "
        "not read, and are dropped by",
        *place,
        [typed.pipe(f"sed -E {script}", "libsvm")],
    )


def _first_repeat(elements: Block) -> int:
    """Return the position of the first repeated element."""
    rows, indices = elements.coords
    order = np.lexsort((indices, rows))
    again = (rows[order[1:]] == rows[order[:-1]]) & (indices[order[1:]] == indices[order[:-1]])
    return int(order[1:][again].min())


def _cast(parsed: Parsed, cast: ValueCast, block: TextBlock) -> tuple[NDArray[Any], int | None]:
    """Return the values in the dtype, and the first element that it cannot hold."""
    dtype = cast.dtype
    values, unfit = cast(parsed.values)
    if dtype.kind not in "iu" or not len(parsed.exact):
        return values, unfit
    # Integers that a float does not hold are parsed again from the text.
    info = np.iinfo(dtype)
    wrong = find_unrepresentable(parsed.values, values)
    for element, start, stop in parsed.exact:
        exact = _exact_integer(block.text(start, stop))
        wrong[element] = exact is None or not info.min <= exact <= min(info.max, MAX_STORED_INTEGER)
        if not wrong[element]:
            values[element] = exact
    return values, int(np.argmax(wrong)) if wrong.any() else None


def _exact_integer(token: str) -> int | None:
    """Return the integer that a decimal number is exactly, or None."""
    number = Decimal(token)
    if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
        return None
    return int(number)


def _describe_fault(code: int, parsed: Parsed, options: Libsvm) -> str:
    """Return the error message for a token, with the way out."""
    from sparrow.kernels.parse import libsvm as kernels

    if code == kernels.BEYOND and options.headers.header is not None and options.base == 0:
        way = "pass index_base=1 if indices count from 1"
        return f"the index must be below {options.n_features}, the number of features in the header: {way}"
    if code == kernels.BEYOND and options.n_features is not None:
        return f"the index exceeds n_features={options.n_features}"
    return {
        kernels.BAD_LABEL: "a label must be a number, or numbers separated by commas without blanks",
        kernels.BAD_QID: "'qid:' must be followed by an integer",
        kernels.QID_RANGE: "the qid is beyond 2^63 - 1",
        kernels.LATE_QID: "'qid:' must come once, before the features",
        kernels.NO_COLON: "a feature must be index:value",
        kernels.BAD_INDEX: "the index must be an integer",
        kernels.NEGATIVE: "the index is negative",
        kernels.BELOW: "the index is below index_base=1: pass index_base=0 if indices count from 0",
        kernels.BEYOND: "the index is beyond the largest, 2^63 - 1 columns",
        kernels.INDEX_RANGE: "the index is beyond 2^63 - 1",
        kernels.BAD_VALUE: "the value must be a number",
    }[code]


class _Ingest:
    """Writer of the members of the bundle, which takes parsed blocks in order."""

    def __init__(self, folder: storage.Folder, options: Libsvm, stack: ExitStack) -> None:
        self._folder = folder
        self._options = options
        self._stack = stack
        self._texts = stack.enter_context(closing(_LabelSpill(settings.current().temp_directory)))
        self._base = options.base
        self.rows = 0
        self._count = 0
        self._largest = -1
        self._several = False
        self._unlabelled: Location | None = None
        self._at_limit: Location | None = None
        self._shifted: list[storage.DataFile] = []
        self._x = self._writer("X", _DIMS, options.kind)
        self._y = self._writer("y", _DIMS[:1], np.dtype(np.float64))
        self._qid: storage.TensorWriter | None = None
        self.rounds: Rounds | None = None
        """Runs the tasks that write what tasks have parsed."""
        self._stored: list[tuple[StoredRun, int]] = []
        """Elements that tasks have parsed, and the row of the first one of each block."""

    def _writer(self, name: str, dims: tuple[str, ...], dtype: np.dtype[Any]) -> storage.TensorWriter:
        folder = self._folder / name
        get_filesystem(folder).make_folder(os.fspath(folder))
        writer = storage.TensorWriter(folder, dims=dims, dtype=dtype, profile=self._options.profile)
        return self._stack.enter_context(writer)

    def write(self, piece: ParsedBlock | StoredBlock, size: int | None) -> None:
        """Write a block; ``size`` is the size of the whole input, if known."""
        if self.rows == 0 and size is not None and isinstance(piece, ParsedBlock):
            self._check_disk(piece, size)
        self._base = self._options.base if self._base is None else self._base
        self._settle_base(piece)
        self._several |= piece.several or self._options.headers.header is not None
        self._unlabelled = self._unlabelled or piece.unlabelled
        self._texts.write(piece.texts if isinstance(piece, ParsedBlock) else read_labels(piece.texts))
        count = len(piece.labels)
        if isinstance(piece, ParsedBlock):
            offset = np.int64(self.rows)
            wide = self.rows + count > 2**31
            rows = piece.rows + (offset if wide else np.int32(offset))
            cols = piece.indices if self._base != 1 else piece.indices - piece.indices.dtype.type(1)
            self._x.write(Block((rows, cols), piece.values))
            self._count += len(piece.values)
        elif piece.run is not None:
            self._stored.append((piece.run, self.rows))
            self._count += piece.run.count
        if not self._several:
            self._y.write(_nonzero(piece.labels, self.rows))
        if piece.qids is not None:
            if self._qid is None:
                self._qid = self._writer("qid", _DIMS[:1], np.dtype(np.int64))
            self._qid.write(_nonzero(piece.qids, self.rows))
        self.rows += count
        self._largest = max(self._largest, piece.largest)
        emit("io.libsvm_block", rows=count)

    def _settle_base(self, piece: ParsedBlock | StoredBlock) -> None:
        """Decide the base, or revise it."""
        if self._options.base is not None or piece.largest < 0:
            return
        self._at_limit = self._at_limit or piece.at_limit
        if piece.smallest == 0 and self._base == 1:
            self._shifted = self._x.finish()
            self._x = self._writer("X", _DIMS, self._options.kind)
        if self._base != 0:
            self._base = 0 if piece.smallest == 0 else 1
        if self._base == 0 and self._at_limit is not None:
            what = "2^63 - 1 columns" if self._options.n_features is None else f"n_features={self._options.n_features}"
            raise IngestError(f"the index exceeds {what}: indices count from 0, since the input has an index 0",
                              *self._at_limit)  # fmt: skip

    def _check_disk(self, piece: ParsedBlock, size: int) -> None:
        """Estimate the output from the first block; raise if the disk is too small."""
        sample = piece.values[:10_000]
        varied = len(np.unique(sample)) > len(sample) // 2
        each = tuning().edge_bytes + (0.8 * self._options.kind.itemsize if varied else 0)
        need = int(len(piece.values) * each * max(size / max(piece.advance, 1), 1))
        disk = get_filesystem(self._folder).local_disk(os.fspath(self._folder))
        if disk is None:
            return
        free = shutil.disk_usage(disk).free
        if tuning().disk_margin * need > free:
            raise StorageError(
                f"the input of {size:,} bytes needs about {need:,} bytes on disk, and {free:,} are free "
                f"at {disk!r}: free space, or store it elsewhere"
            )

    @property
    def labels_alone(self) -> bool:
        """True if rows have several labels, and none a feature."""
        return self._several and self._largest < 0

    def finish(self) -> None:
        """Write the remaining members, and the bundle last."""
        if not self._several and self._unlabelled is not None:
            error = _weights_error(self._unlabelled, self._options)
            assert error is not None
            raise error
        self._several |= self._options.headers.header is not None
        self._base = self._options.base if self._base is None else self._base
        self._base = 1 if self._base is None else self._base
        self._width = self._largest + 1 - self._base if self._largest >= 0 else 0
        if self._options.n_features is not None:
            self._width = self._options.n_features
        x = Schema((self.rows, self._width), _DIMS, self._options.kind)
        files = self._rewrite_shifted(self._x.finish()) if self.rounds is None else self._write_stored(x)
        self._create("X", x, files, extra={"index_base": self._base})
        if self._several:
            self._finish_labels()
        else:
            self._create("y", Schema((self.rows,), _DIMS[:1], np.dtype(np.float64)), self._y.finish())
        if self._qid is not None:
            self._create("qid", Schema((self.rows,), _DIMS[:1], np.dtype(np.int64)), self._qid.finish())
        members = {"X": {"index_base": self._base}, "y": {}} | ({"qid": {}} if self._qid is not None else {})
        storage.write_bundle(self._folder, members, {"format": "libsvm"})

    def _write_stored(self, x: Schema) -> list[storage.DataFile]:
        """Write the elements that tasks have parsed in tasks."""
        assert self.rounds is not None
        assert self._base is not None
        if not self._stored:
            return []
        runs, offsets = zip(*self._stored, strict=True)
        folder = os.fspath(self._folder / "X")
        target = FileTarget(folder, self._options.profile, _DIMS, x.dtype, x.coordinate_dtypes, (0, 1))
        bounds = cut_chunks([run.count for run in runs], self.rounds.slots)
        with storage.share_folder(folder) as files:
            for found in self.rounds.run([], ShiftedBlocks(runs, offsets, self._base, target), bounds):
                files += found
        return files

    def _create(self, name: str, schema: Schema, files: list[storage.DataFile], **more: Any) -> None:
        storage.create(
            self._folder / name,
            schema,
            files,
            profile=self._options.profile,
            operation="ingest libsvm",
            report=self._options.report.counts,
            **more,
        )

    def _finish_labels(self) -> None:
        """Write ``y`` of several labels per row, from the texts."""
        self._y.abort()
        header = self._options.headers.header
        names: Any = self._texts.distinct() if header is None else None
        y = self._writer("y", assigned_dims("row", "label"), np.dtype(np.bool_))
        width = header.labels if header is not None else len(names)
        schema = Schema((self.rows, width), assigned_dims("row", "label"), np.dtype(np.bool_))
        done = 0
        for texts in self._texts.batches():
            lists = pc.split_pattern(texts, ",")
            tokens = pc.list_flatten(lists)
            if names is None:
                numbers = pc.if_else(pc.equal(tokens, ""), None, tokens).cast(pa.int64())
            else:
                numbers = pc.index_in(tokens, value_set=names)
            present = np.asarray(numbers.is_valid())
            rows = np.asarray(pc.list_parent_indices(lists))[present].astype(np.int64) + done
            columns = np.asarray(numbers.drop_null())
            elements = Block((rows, columns), np.ones(len(rows), np.bool_))
            y.write(canonicalize(elements, schema.shape, False, "last"))
            done += len(texts)
        self._create("y", schema, y.finish(), labels={} if names is None else {1: names})

    def _rewrite_shifted(self, files: list[storage.DataFile]) -> list[storage.DataFile]:
        """Return all files of ``X``; those written for base 1 are rewritten for base 0."""
        if not self._shifted:
            return files
        again = self._writer("X", _DIMS, self._options.kind)
        for old in self._shifted:
            path = os.fspath(self._folder / "X" / old.name)
            for group in range(len(read_footer(path, 2).rows)):
                block = read_row_group(path, group, 2, self._options.kind)
                rows, cols = block.coords
                again.write(Block((rows, cols.astype(np.int64) + 1), block.values))
            evict_footer(path)
            get_filesystem(path).delete(path)
        return again.finish() + files

    def summary(self) -> str:
        """Return one line on what was stored."""
        base = "" if self._options.base is not None else " (auto)"
        return (
            f"libsvm: {self.rows:,} rows, {self._width:,} columns, {self._count:,} elements, "
            f"index_base={self._base}{base}"
        )


def _nonzero(values: NDArray[Any], offset: int) -> Block:
    """Return the nonzero values as elements of one dimension."""
    rows = np.flatnonzero(values)
    return Block((rows + offset,), values[rows])


# -- writing ---------------------------------------------------------------------------------------


@dataclass
class LibsvmWriter(Writer):
    """Write a bundle of ``X`` and ``y`` as lines ``label index:value ...``."""

    _: KW_ONLY
    index_base: Annotated[Literal[0, 1], Option("libsvm: index of the first feature.")] = 1

    def write(self) -> int:
        """Write the file and return the number of rows."""
        data = _Samples(self.source, self.index_base)
        with self.sink() as file, bar("exporting", data.X.nnz, "elements") as advance:
            return data.write(file, advance)


class _Samples:
    """A bundle as lines of text."""

    def __init__(self, source: Tensor | Bundle, index_base: int) -> None:
        found: Mapping[str, Tensor] = source if isinstance(source, Bundle) else {}
        if "X" not in found or "y" not in found or found["X"].ndim != 2 or found["X"].dtype.kind == "c":
            raise UnsupportedError("libsvm needs a bundle of a matrix X and labels y, as sp.ingest.libsvm returns")
        self.X = found["X"]
        if self.X.fill_value != 0:
            raise UnsupportedError(f"libsvm needs fill 0, X has {self.X.fill_value}")
        self._base = index_base
        rows, y = self.X.shape[0], found["y"]
        self._heads = _multilabel_texts(y, rows) if y.ndim == 2 else label_texts(y, rows, "y")
        if "qid" in found:
            if found["qid"].dtype.kind not in "iu":
                raise UnsupportedError(f"qid must be integers, got {found['qid'].dtype}")
            numbers = label_texts(found["qid"], rows, "qid")
            self._heads = pc.binary_join_element_wise(self._heads, numbers, " qid:")
        if others := sorted(set(found) - {"X", "y", "qid"}):
            progress.write_note(f"libsvm holds X, y and qid: {', '.join(others)} not written")

    def write(self, file: BinaryIO, advance: Callable[[int], None]) -> int:
        """Write the lines and return their number."""
        done = 0
        pending: list[pa.RecordBatch] = []
        for batch in self.X.to_batches():
            rows = batch.column(0).to_numpy()
            cut = int(np.searchsorted(rows, rows[-1], "left"))  # the last row may continue in the next batch
            pending.append(batch.slice(0, cut))
            if cut:
                done = self._lines(file, pending, done, int(rows[-1]))
                pending = []
            pending.append(batch.slice(cut))
            advance(batch.num_rows)
        return self._lines(file, pending, done, self.X.shape[0])

    def _lines(self, file: BinaryIO, batches: list[pa.RecordBatch], start: int, stop: int) -> int:
        """Write the rows from ``start`` to ``stop`` and return ``stop``."""
        rows = np.concatenate([batch.column(0).to_numpy() for batch in batches] or [np.zeros(0, np.int64)])
        tokens = [
            pc.binary_join_element_wise(
                pc.add(batch.column(1).cast(pa.int64()), self._base).cast(pa.string()),
                _booleans_as_integers(batch.column(2)).cast(pa.string()),
                ":",
            )
            for batch in batches
        ]
        texts = pa.concat_arrays(tokens) if tokens else pa.array([], pa.string())
        lines = _join_per_row(rows, texts, start, stop, " ")
        heads = self._heads.slice(start, stop - start)
        text = pc.binary_join_element_wise(heads, lines, " ").to_pylist()
        if text:
            nothing = f"{self._base}:0"  # a blank line would not be a row
            file.write("\n".join(line.strip() or nothing for line in text).encode() + b"\n")
        return stop


def label_texts(y: Tensor, rows: int, name: str) -> pa.Array:
    """Return the label of each row as text.

    Raises
    ------
    UnsupportedError
        If labels are not real numbers, one per row.
    """
    if y.shape != (rows,) or y.dtype.kind == "c":
        raise UnsupportedError(f"{name} must be real numbers of shape ({rows},), got {y.dtype} of shape {y.shape}")
    return _booleans_as_integers(pa.array(y.to_numpy())).cast(pa.string())


def _multilabel_texts(y: Tensor, rows: int) -> pa.Array:
    """Return the labels of each row as text, joined by commas.

    Raises
    ------
    UnsupportedError
        If ``y`` holds values other than ones, or a label is not a number.
    """
    elements = y.to_arrow()
    if y.shape[0] != rows or y.fill_value != 0 or y.dtype.kind == "c" or (elements.column(2).to_numpy() != 1).any():
        raise UnsupportedError(
            f"y must hold ones for the labels of each of {rows} rows, got {y.dtype} of shape {y.shape}"
        )
    names = y.labels(1)
    which = elements.column(1).combine_chunks()
    texts = (which if names is None else names.take(which)).cast(pa.string())
    wrong = pc.index(pc.match_substring_regex(texts, _LABEL), False).as_py()
    if wrong >= 0:
        raise UnsupportedError(f"labels in libsvm text must be numbers, got {texts[wrong].as_py()!r}: number them")
    return _join_per_row(elements.column(0).to_numpy(), texts, 0, rows, ",")


def _booleans_as_integers(values: pa.Array) -> pa.Array:
    """Return booleans as 0 and 1, other values as they are."""
    return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values


def _join_per_row(rows: NDArray[Any], texts: pa.Array, start: int, stop: int, separator: str) -> pa.Array:
    """Return the joined texts of the rows ``start`` to ``stop``."""
    offsets = np.searchsorted(rows, np.arange(start, stop + 1))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts), separator)


_PAIR = re.compile(r"(\d+|qid):\S+")
_SIZES = re.compile(r"\d+\s+\d+(\s+\d+)?")
"""Header of Extreme Classification files, or of rows without labels."""


def feature_tokens(sample: Sample) -> list[str]:
    """Return the tokens after the labels, if lines begin with labels or features."""
    rows = sample.rows
    if len(rows) > 1 and len(rows[0]) in (2, 3) and _SIZES.fullmatch(sample.data[0]):
        rows = rows[1:]
    if not rows or not rows[0]:
        return []
    first = rows[0][0]
    is_label = all(map(is_number, first.strip(",").split(","))) or _PAIR.fullmatch(first) is not None
    return [token for row in rows for token in row[1:]] if is_label else []


def _detect(sample: Sample) -> str | None:
    tokens = feature_tokens(sample)
    pairs = sum(_PAIR.fullmatch(token) is not None for token in tokens)
    # The reader will name the token that is not a pair.
    return "lines are a label and index:value pairs" if tokens and 2 * pairs >= len(tokens) else None


FORMATS = (
    Format(
        "libsvm",
        "libsvm / svmlight text.",
        reader=Libsvm,
        writer=LibsvmWriter,
        suffixes=(".libsvm", ".svm"),
        detectors={Stage.LINES: _detect},
    ),
)
