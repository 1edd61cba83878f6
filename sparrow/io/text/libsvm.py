"""libsvm (svmlight) text to a bundle of stored tensors: ``X``, ``y`` and, where it occurs, ``qid``.

Blocks of text are parsed on several threads and come back in order. Rows never span blocks, so the
entries arrive sorted and go straight to the writers: memory is bounded by a few blocks. Two things
are known only at the end of the input and cost a second pass where they turn out the rare way:

* ``index_base="auto"``: once the first block holds no index 0 the base is taken to be 1; where a 0
  comes later, the files written so far are written again, one column further.
* Whether there are several labels in a row: label texts go to a temporary file as they come.
"""

from __future__ import annotations

import operator
import os
import re
import shutil
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, ClassVar, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import MAX_DIMENSION_SIZE, Schema, check_dtype
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, StorageError, UnsupportedError
from sparrow.io.base.coo_writer import MAX_STORED_INTEGER, cast_checked, find_unrepresentable, misfit_message
from sparrow.io.base.registry import DType, Duplicates, Format, Option, Reader, Writer
from sparrow.io.base.source import Source, TextBlock, open_sources, read_blocks, total_size
from sparrow.io.text.libsvm_labels import LabelSpill, booleans_as_integers, join_per_row, label_texts, multilabel_texts
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Block, canonicalize
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

__all__ = ["FORMATS", "Libsvm", "LibsvmWriter"]


@dataclass
class Libsvm(Reader):
    r"""Store libsvm text as a bundle.

    The bundle holds ``X`` (rows x features, dimensions ``row, col``), ``y`` (the labels, one
    dimension ``row``, float64) and, where ``qid:`` occurs, ``qid`` (``row``, int64). Where a row has
    several labels (``1,2``) ``y`` is bool, rows x labels (``row, label``), and the sorted label texts
    name its columns. Zeros are not stored. Blank lines and lines of comment only are no rows; a line
    with nothing but a label is an empty one.

    Parameters
    ----------
    src
        A path, a glob pattern, ``"-"`` for standard input, or a list of these: their rows follow one
        another. gzip, zstd and bz2 are told from the content.
    dst
        The folder to create.
    index_base
        What the first feature's index is: 0, 1, or ``"auto"``, which is 0 if any index of the whole
        input is 0, else 1; it is said on standard error and recorded with ``X``.
    n_features
        The number of columns; the default is what the largest index needs.
    dtype
        Type of the values of ``X``.
    duplicates
        What becomes of an index that comes twice in a row: ``"error"``, ``"sum"``, ``"last"``,
        ``"first"``, ``"min"`` or ``"max"``.
    overwrite
        Replace what is at ``dst``.
    if_exists
        Where a tensor or bundle is at ``dst`` already: ``"error"``, ``"open"`` to open it and read nothing, or
        ``"replace"``, which is ``overwrite=True``.
    profile
        ``"fast"`` or ``"small"``.

    Returns
    -------
    Bundle
        What ``sp.open(dst)`` does: a mapping of ``"X"``, ``"y"`` and, where it occurs, ``"qid"`` to stored tensors.

    Raises
    ------
    IngestError
        If the text is no libsvm text, an index is out of range, or a value does not fit ``dtype``:
        with file, line and token.
    NotFoundError
        If a file is missing or a pattern matches none.
    ExistsError
        If something is at ``dst`` and ``overwrite`` is not set.
    StorageError
        If the disk is too small.
    InvalidValueError
        If an argument is not one of those above.

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
    index_base: Annotated[Literal["auto", 0, 1], Option("The first index; auto: 0 if any index is 0, else 1.")] = "auto"
    n_features: Annotated[int | None, Option("Columns of X. [default: the largest index]", least=0)] = None
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
        self.kind = check_dtype("float64" if self.dtype is None else self.dtype)

    def _no_width(self) -> InvalidValueError:
        return InvalidValueError(f"n_features={self.n_features!r}: use a whole number from 0 to 2^63 - 1")

    @property
    def limit(self) -> int:
        """The largest index allowed, for base 1 while the base is open."""
        width = MAX_DIMENSION_SIZE if self.n_features is None else self.n_features
        return width - 1 if self.base == 0 else width

    def read(self) -> str:
        """Store the text and return the folder of the bundle."""
        sources = open_sources(self.src)
        with storage.stage_folder(self.dst, self.overwrite) as folder, ExitStack() as stack:
            ingest = _Ingest(folder, self, stack)
            for piece in stack.enter_context(closing(_pieces(sources, self))):
                ingest.take(piece, total_size(sources))
            if ingest.labels_alone and self.n_features is None:
                raise IngestError(
                    "lines are numbers parted by commas, and none has a feature index:value: sparrow ingest columns "
                    "reads CSV; say n_features= for rows of several labels alone",
                    sources[0].name,
                )
            ingest.finish()
        if not ingest.rows:
            warnings.warn(f"{', '.join(source.name for source in sources)}: there is no row", stacklevel=2)
        progress.write_note(ingest.summary())
        return os.fspath(self.dst)


class _Place(NamedTuple):
    """Where something stands: for an error that only the end of the input decides."""

    file: str
    line: int
    token: str


@dataclass(slots=True)
class _Piece:
    """What a block of text held; r rows, e entries sorted by row and column."""

    rows: NDArray[Any]
    """Shape (e,), counted from 0 in the block."""
    indices: NDArray[Any]
    """Shape (e,), as written."""
    values: NDArray[Any]
    labels: NDArray[np.float64]
    """Shape (r,)."""
    texts: pa.Array
    """Shape (r,): label texts, ``""`` for a row without."""
    qids: NDArray[np.int64] | None
    """Shape (r,), None where no row has one."""
    smallest: int
    largest: int
    several: bool
    unlabelled: _Place | None
    at_limit: _Place | None
    advance: int


def _pieces(sources: list[Source], options: Libsvm) -> Generator[_Piece]:
    """Yield the parsed blocks of all sources, in order."""
    from sparrow.kernels.parse import libsvm as kernels

    threads = max(1, min(settings.current().threads, memory.available() // tuning().libsvm_thread_bytes))
    least = options.base or 0
    whole = options.kind.kind in "iu"

    def work(block: TextBlock) -> _Piece:
        return _piece(block, kernels.parse(block.data, block.lines, least, options.limit, whole), options)

    with (
        bar("reading libsvm text", total_size(sources)) as advance,
        closing(read_blocks(sources, tuning().libsvm_block_bytes)) as text,
    ):
        parsed = cast("Generator[_Piece]", ordered_map(work, text, threads))
        with closing(parsed):
            for piece in parsed:
                yield piece
                advance(piece.advance)


def _piece(block: TextBlock, parsed: Parsed, options: Libsvm) -> _Piece:
    """Sort, reduce and cast what a block held, or raise for its first bad token."""
    values, unfit = _cast(parsed, options.kind, block)
    indices = parsed.indices.astype(np.int32) if parsed.largest < 2**31 else parsed.indices
    entries = Block((parsed.rows[:unfit], indices[:unfit]), values[:unfit])
    if not parsed.sorted:
        shape = (len(parsed.at), min(parsed.largest, MAX_DIMENSION_SIZE - 1) + 1)
        try:
            entries = canonicalize(entries, shape, 0, options.duplicates)
        except DuplicateError:
            problem = "the index comes twice in its row: say duplicates='sum', 'last', 'first', 'min' or 'max'"
            raise _error_at(block, parsed, _first_repeat(entries), problem) from None
    elif parsed.zeros or options.kind != np.float64:
        kept = entries.values != 0
        if not kept.all():
            entries = entries.take(kept)
    if unfit is not None:
        raise _error_at(block, parsed, unfit, f"the value {misfit_message(parsed.values[unfit], options.kind)}")
    if parsed.fault is not None:
        code, start, stop = parsed.fault
        problem = _problem(code, parsed, options)
        raise IngestError(problem, block.source.name, block.line_at(start), block.text(start, stop))
    texts = pa.StringArray.from_buffers(
        len(parsed.labels), pa.py_buffer(parsed.label_ends), pa.py_buffer(parsed.label_text)
    )
    at = parsed.at[parsed.unlabelled] if parsed.unlabelled >= 0 else -1
    return _Piece(
        entries.coords[0],
        entries.coords[1],
        entries.values,
        parsed.labels,
        texts,
        parsed.qids if parsed.qid else None,
        parsed.smallest,
        parsed.largest,
        parsed.several,
        _place(block, int(at)),
        _place(block, parsed.at_limit),
        block.advance,
    )


def _place(block: TextBlock, at: int) -> _Place | None:
    """Return the place of the token at a position; None for -1."""
    if at < 0:
        return None
    token = re.match(rb"[^\s#]*", bytes(block.data[at : at + 200]))
    assert token is not None
    return _Place(block.source.name, block.line_at(at), token[0].decode(errors="backslashreplace"))


def _error_at(block: TextBlock, parsed: Parsed, entry: int, problem: str) -> IngestError:
    """Return the error about an entry, counted in the order of the text."""
    row = parsed.rows[entry]
    start = int(parsed.at[row])
    line = bytes(block.data[start:]).split(b"\n", 1)[0].split(b"#", 1)[0]
    tokens = [token for token in line.split() if b":" in token and not token.startswith(b"qid:")]
    token = tokens[entry - int(np.searchsorted(parsed.rows, row))]
    return IngestError(problem, block.source.name, block.line_at(start), token.decode(errors="backslashreplace"))


def _first_repeat(entries: Block) -> int:
    """Return the first entry whose cell has come before."""
    rows, indices = entries.coords
    order = np.lexsort((indices, rows))
    again = (rows[order[1:]] == rows[order[:-1]]) & (indices[order[1:]] == indices[order[:-1]])
    return int(order[1:][again].min())


def _cast(parsed: Parsed, dtype: np.dtype[Any], block: TextBlock) -> tuple[NDArray[Any], int | None]:
    """Return the values in a dtype, and the first entry whose value it does not hold."""
    values, unfit = cast_checked(parsed.values, dtype)
    if dtype.kind not in "iu" or not len(parsed.exact):
        return values, unfit
    # Whole numbers that a float does not hold are read again from the text.
    info = np.iinfo(dtype)
    wrong = find_unrepresentable(parsed.values, values)
    for entry, start, stop in parsed.exact:
        exact = _whole(block.text(start, stop))
        wrong[entry] = exact is None or not info.min <= exact <= min(info.max, MAX_STORED_INTEGER)
        if not wrong[entry]:
            values[entry] = exact
    return values, int(np.argmax(wrong)) if wrong.any() else None


def _whole(token: str) -> int | None:
    """Return the integer that a decimal number is exactly, or None."""
    number = Decimal(token)
    if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
        return None
    return int(number)


def _problem(code: int, parsed: Parsed, options: Libsvm) -> str:
    """Return what is wrong with a token, and the way out."""
    from sparrow.kernels.parse import libsvm as kernels

    if code == kernels.BEYOND and options.n_features is not None:
        return f"the index is beyond n_features={options.n_features}"
    return {
        kernels.BAD_LABEL: "a label must be a number, or several with commas and no blanks between them",
        kernels.BAD_QID: "'qid:' must be followed by an integer",
        kernels.QID_RANGE: "the qid is beyond 2^63 - 1",
        kernels.LATE_QID: "'qid:' must stand before the features, once",
        kernels.NO_COLON: "a feature must be index:value",
        kernels.BAD_INDEX: "the index must be an integer",
        kernels.NEGATIVE: "the index is negative",
        kernels.BELOW: "the index is below index_base=1: say index_base=0 if indices count from 0",
        kernels.BEYOND: "the index is beyond the largest, 2^63 - 1 columns",
        kernels.INDEX_RANGE: "the index is beyond 2^63 - 1",
        kernels.BAD_VALUE: "the value must be a number",
    }[code]


class _Ingest:
    """Takes parsed blocks in order and writes the members of the bundle."""

    def __init__(self, folder: storage.Folder, options: Libsvm, stack: ExitStack) -> None:
        self._folder = folder
        self._options = options
        self._stack = stack
        self._texts = stack.enter_context(closing(LabelSpill(settings.current().temp_directory)))
        self._base = options.base
        self.rows = 0
        self._entries = 0
        self._largest = -1
        self._several = False
        self._unlabelled: _Place | None = None
        self._at_limit: _Place | None = None
        self._shifted: list[storage.DataFile] = []
        self._x = self._writer("X", ("row", "col"), options.kind)
        self._y = self._writer("y", ("row",), np.dtype(np.float64))
        self._qid: storage.TensorWriter | None = None

    def _writer(self, name: str, dims: tuple[str, ...], dtype: np.dtype[Any]) -> storage.TensorWriter:
        folder = self._folder / name
        get_filesystem(folder).make_folder(os.fspath(folder))
        writer = storage.TensorWriter(folder, dims=dims, dtype=dtype, profile=self._options.profile)
        return self._stack.enter_context(writer)

    def take(self, piece: _Piece, size: int | None) -> None:
        """Write a block; ``size`` is that of the whole input, if it is known."""
        if self.rows == 0 and size is not None:
            self._check_disk(piece, size)
        self._settle_base(piece)
        self._several |= piece.several
        self._unlabelled = self._unlabelled or piece.unlabelled
        self._texts.write(piece.texts)
        count = len(piece.labels)
        offset = np.int64(self.rows)
        wide = self.rows + count > 2**31
        rows = piece.rows + (offset if wide else np.int32(offset))
        cols = piece.indices if self._base != 1 else piece.indices - piece.indices.dtype.type(1)
        self._x.write(Block((rows, cols), piece.values))
        if not self._several:
            self._y.write(_nonzero(piece.labels, self.rows))
        if piece.qids is not None:
            if self._qid is None:
                self._qid = self._writer("qid", ("row",), np.dtype(np.int64))
            self._qid.write(_nonzero(piece.qids, self.rows))
        self.rows += count
        self._entries += len(piece.values)
        self._largest = max(self._largest, piece.largest)
        emit("io.libsvm_block", rows=count)

    def _settle_base(self, piece: _Piece) -> None:
        """Decide the base, or change the mind about it."""
        if self._options.base is not None or piece.largest < 0:
            return
        self._at_limit = self._at_limit or piece.at_limit
        if piece.smallest == 0 and self._base == 1:
            self._shifted = self._x.finish()
            self._x = self._writer("X", ("row", "col"), self._options.kind)
        if self._base != 0:
            self._base = 0 if piece.smallest == 0 else 1
        if self._base == 0 and self._at_limit is not None:
            what = "2^63 - 1 columns" if self._options.n_features is None else f"n_features={self._options.n_features}"
            raise IngestError(f"the index is beyond {what}: indices count from 0, for the input has an index 0",
                              *self._at_limit)  # fmt: skip

    def _check_disk(self, piece: _Piece, size: int) -> None:
        """Scale what the first block needs to the whole input: say so, or raise if the disk is clearly too small."""
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
                f"at {disk!r}: free some space, or store it elsewhere"
            )
        progress.write_line(f"libsvm: about {need:,} bytes on disk, {free:,} are free")

    @property
    def labels_alone(self) -> bool:
        """Whether rows have several labels, and none a feature."""
        return self._several and self._largest < 0

    def finish(self) -> None:
        """Write what is left, and the bundle last."""
        if not self._several and self._unlabelled is not None:
            raise IngestError("a row must start with a label: a number", *self._unlabelled)
        self._base = 1 if self._base is None else self._base
        self._width = self._largest + 1 - self._base if self._largest >= 0 else 0
        if self._options.n_features is not None:
            self._width = self._options.n_features
        x = Schema((self.rows, self._width), ("row", "col"), self._options.kind)
        self._create("X", x, self._shift(self._x.finish()), extra={"index_base": self._base})
        if self._several:
            self._finish_labels()
        else:
            self._create("y", Schema((self.rows,), ("row",), np.dtype(np.float64)), self._y.finish())
        if self._qid is not None:
            self._create("qid", Schema((self.rows,), ("row",), np.dtype(np.int64)), self._qid.finish())
        members = {"X": {"index_base": self._base}, "y": {}} | ({"qid": {}} if self._qid is not None else {})
        storage.write_bundle(self._folder, members, {"format": "libsvm"})

    def _create(self, name: str, schema: Schema, files: list[storage.DataFile], **more: Any) -> None:
        storage.create(
            self._folder / name,
            schema,
            files,
            profile=self._options.profile,
            operation="ingest libsvm",
            **more,
        )

    def _finish_labels(self) -> None:
        """Write ``y`` for several labels a row, from the texts."""
        self._y.abort()
        names = self._texts.distinct()
        y = self._writer("y", ("row", "label"), np.dtype(np.bool_))
        schema = Schema((self.rows, len(names)), ("row", "label"), np.dtype(np.bool_))
        done = 0
        for texts in self._texts.batches():
            lists = pc.split_pattern(texts, ",")
            numbers = pc.index_in(pc.list_flatten(lists), value_set=names)
            present = np.asarray(numbers.is_valid())
            rows = np.asarray(pc.list_parent_indices(lists))[present].astype(np.int64) + done
            columns = np.asarray(numbers.drop_null())
            entries = Block((rows, columns), np.ones(len(rows), np.bool_))
            y.write(canonicalize(entries, schema.shape, False, "last"))
            done += len(texts)
        self._create("y", schema, y.finish(), labels={1: names})

    def _shift(self, files: list[storage.DataFile]) -> list[storage.DataFile]:
        """Return all files of ``X``, those written for base 1 written again for base 0."""
        if not self._shifted:
            return files
        again = self._writer("X", ("row", "col"), self._options.kind)
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
        """Return a line that says what was stored."""
        base = "" if self._options.base is not None else " (auto)"
        return (
            f"libsvm: {self.rows:,} rows, {self._width:,} columns, {self._entries:,} entries, "
            f"index_base={self._base}{base}"
        )


def _nonzero(values: NDArray[Any], offset: int) -> Block:
    """Return the values that are not 0 as entries of one dimension."""
    rows = np.flatnonzero(values)
    return Block((rows + offset,), values[rows])


# -- writing ---------------------------------------------------------------------------------------


@dataclass
class LibsvmWriter(Writer):
    """Write a bundle of ``X`` and ``y`` as lines ``label index:value ...``, one for each row."""

    _: KW_ONLY
    index_base: Annotated[Literal[0, 1], Option("libsvm: the number of the first column.")] = 1

    def write(self) -> int:
        """Write the file and return the number of rows."""
        data = _Samples(self.source, self.index_base)
        with self.sink() as file, bar("exporting", data.X.nnz, "entries") as advance:
            return data.write(file, advance)


class _Samples:
    """A bundle as lines of text."""

    def __init__(self, source: Tensor | Bundle, index_base: int) -> None:
        found: Mapping[str, Tensor] = source if isinstance(source, Bundle) else {}
        if "X" not in found or "y" not in found or found["X"].ndim != 2 or found["X"].dtype.kind == "c":
            raise UnsupportedError(
                "libsvm is written of a bundle with a matrix X and labels y, such as sp.ingest.libsvm makes"
            )
        self.X = found["X"]
        if self.X.fill_value != 0:
            raise UnsupportedError(f"libsvm leaves out zeros, and the absent cells of X are {self.X.fill_value}")
        self._base = index_base
        rows, y = self.X.shape[0], found["y"]
        self._heads = multilabel_texts(y, rows) if y.ndim == 2 else label_texts(y, rows, "y")
        if "qid" in found:
            if found["qid"].dtype.kind not in "iu":
                raise UnsupportedError(f"numbers of queries are integers, and qid is {found['qid'].dtype}")
            numbers = label_texts(found["qid"], rows, "qid")
            self._heads = pc.binary_join_element_wise(self._heads, numbers, " qid:")
        if others := sorted(set(found) - {"X", "y", "qid"}):
            progress.write_note(f"libsvm holds X, y and qid: without {', '.join(others)}")

    def write(self, file: BinaryIO, advance: Callable[[int], None]) -> int:
        """Write the lines and return their number."""
        done = 0
        held: list[pa.RecordBatch] = []
        for batch in self.X.to_batches():
            rows = batch.column(0).to_numpy()
            cut = int(np.searchsorted(rows, rows[-1], "left"))  # the last row may go on in the next batch
            held.append(batch.slice(0, cut))
            if cut:
                done = self._lines(file, held, done, int(rows[-1]))
                held = []
            held.append(batch.slice(cut))
            advance(batch.num_rows)
        return self._lines(file, held, done, self.X.shape[0])

    def _lines(self, file: BinaryIO, batches: list[pa.RecordBatch], start: int, stop: int) -> int:
        """Write the rows from ``start`` up to ``stop``, whose entries are in the batches, and return ``stop``."""
        rows = np.concatenate([batch.column(0).to_numpy() for batch in batches] or [np.zeros(0, np.int64)])
        tokens = [
            pc.binary_join_element_wise(
                pc.add(batch.column(1).cast(pa.int64()), self._base).cast(pa.string()),
                booleans_as_integers(batch.column(2)).cast(pa.string()),
                ":",
            )
            for batch in batches
        ]
        texts = pa.concat_arrays(tokens) if tokens else pa.array([], pa.string())
        lines = join_per_row(rows, texts, start, stop, " ")
        heads = self._heads.slice(start, stop - start)
        text = pc.binary_join_element_wise(heads, lines, " ").to_pylist()
        if text:
            nothing = f"{self._base}:0"  # a blank line would be no row
            file.write("\n".join(line.strip() or nothing for line in text).encode() + b"\n")
        return stop


FORMATS = (
    Format(
        "libsvm",
        "libsvm / svmlight text.",
        reader=Libsvm,
        writer=LibsvmWriter,
        suffixes=(".libsvm", ".svm"),
    ),
)
