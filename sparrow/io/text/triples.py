"""Knowledge graphs as text: a head, a relation and a tail per line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import MAX_DIMENSION_SIZE, Schema, assigned_dims, check_dims
from sparrow.errors import IngestError, InvalidValueError, NotFoundError
from sparrow.io.base.coo_writer import LabelEncoder, SpillQueue, WrittenFiles, write_coo
from sparrow.io.base.detect import detect_format
from sparrow.io.base.foreign import NTRIPLES
from sparrow.io.base.layout import is_number
from sparrow.io.base.registry import Duplicates, Format, Option, Reader, parse_names, shared
from sparrow.io.base.sample import Sample, Stage, read_sample
from sparrow.io.base.source import (
    Source,
    SourceLike,
    TextBlock,
    compression_of,
    folder_path,
    open_sources,
    read_blocks,
    total_size,
)
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.text.edge_parser import pairs_of_lists
from sparrow.io.text.number_lines import counted_lists_in
from sparrow.io.text.vocabulary import read_vocabulary
from sparrow.runtime import settings
from sparrow.runtime.progress import bar
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Rows
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "Triples", "find_splits"]

_DIMS = assigned_dims("head", "relation", "tail")
_VALUES = np.dtype(np.int64)
_SPLIT = re.compile(
    r"(?:.*[-_.])?(train|valid|validation|dev|test)(?:2id)?\.(?:txt|tsv|csv|del|triples)(?:\.(?:gz|zst|bz2|xz))?"
)
_HEADER = re.compile(r"(head|subject)(\s+(relation|predicate|tail|object)){2}", re.IGNORECASE)
_PROBED = 1000
"""Lines in which ids that look like numbers are counted."""
_CALLED = {"validation": "valid", "dev": "valid"}
_VOCABULARIES = {
    "entities": ("entity2id.txt", "entities.dict", "entity_ids.del", "entities.txt"),
    "relations": ("relation2id.txt", "relations.dict", "relation_ids.del", "relations.txt"),
}


@shared
@dataclass
class Triples(Reader):
    r"""Store knowledge-graph triples as a tensor ``head, relation, tail`` of ones.

    Heads and tails share their ids. Lines hold three names or numbers, separated by a tab, or else by blanks. Their
    count may come first. Several files, or a folder of ``train``, ``valid`` and ``test``, become a bundle of tensors
    with one vocabulary.

    Parameters
    ----------
    src
        File, ``"-"`` for standard input, several files, or a folder. gzip, zstd and bz2 are detected from the content.
    %(dst)s
    order
        ``"hrt"``: head, relation, tail; ``"htr"``: head, tail, relation. ``"auto"`` is the latter if the first line is
        a count, as OpenKE writes it.
    ids
        ``"int"``: numbers are coordinates, from 0. ``"str"``: names, which become labels. ``"auto"``: numbers if the
        first lines (4 MB) of the first file hold nothing else, and no leading zeros.
    entities
        Vocabulary file of heads and tails: a name per line, or a name and its number. In a folder ``entity2id.txt``,
        ``entities.dict`` and the like are found. Without one names are sorted.
    relations
        Vocabulary file of relations, likewise.
    duplicates
        Rule for triples given more than once: ``"error"``, ``"sum"``, ``"last"``, ``"first"``, ``"min"`` or ``"max"``.
    dims
        Names of the dimensions, ``head, relation, tail`` by default.
    header
        Skip the first line of each file.
    %(storing)s

    Returns
    -------
    Tensor or Bundle
        ``sp.open(dst)``: the stored tensor, int64; for several files a bundle of tensors of one shape, named after the
        files.

    Raises
    ------
    IngestError
        If a line is not a triple, the count of the first line is wrong, or a name is not in the vocabulary: with file,
        line and token.
    %(duplicate_error)s
    NotFoundError
        If a file is missing, or the folder has no triples.
    %(exists)s
    TooLargeError
        If the names exceed their share of the memory limit.
    InvalidValueError, ShapeError
        If an argument has none of the values above.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("family.txt").write_text("ann\tmother\tbob\nbob\tfather\teve\n")
    >>> family = sp.ingest.triples("family.txt", "family.sparrow")
    >>> family.shape, family.labels("head").to_pylist()
    ((3, 2, 3), ['ann', 'bob', 'eve'])
    """

    _: KW_ONLY
    order: Annotated[Literal["auto", "hrt", "htr"], Option("Order of the columns.")] = "auto"
    ids: Annotated[Literal["auto", "int", "str"], Option("Numbers or names.")] = "auto"
    entities: Annotated[SourceLike | None, Option("Vocabulary file of heads and tails.", metavar="FILE", parse=str)] = (
        None
    )
    relations: Annotated[SourceLike | None, Option("Vocabulary file of relations.", metavar="FILE", parse=str)] = None
    duplicates: Duplicates = "sum"
    dims: Annotated[
        Sequence[str] | None, Option("Names. [default: head,relation,tail]", metavar="A,B,C", parse=parse_names)
    ] = None
    header: Annotated[bool, Option("Skip a first line of column names.")] = False

    examples: ClassVar[str] = """\
sparrow ingest triples FB15k-237 fb.sparrow
sparrow ingest triples train.txt graph.sparrow --entities entity2id.txt"""

    def read(self) -> str:
        """Store the triples and return the folder."""
        dims = check_dims(_DIMS if self.dims is None else self.dims, 3)
        sources = self._sources()
        known = [None if each is None else open_sources(each) for each in (self.entities, self.relations)]
        with storage.stage_folder(self.dst, self.overwrite) as folder, ExitStack() as stack:
            words = [None if named is None else read_vocabulary(named[0]) for named in known]
            reading = _TripleReader(self, dims, words[0], words[1], stack)
            total = total_size(list(sources.values()))
            with bar("reading triples", total) as advance:
                queues = {name: reading.read(source, advance) for name, source in sources.items()}
            labels = reading.finish()
            alone = list(sources) == [""]
            members = {name: folder if alone else folder / name for name in sources}
            written = {name: reading.write(member, queues[name]) for name, member in members.items()}
            shape = reading.shape()
            for name, member in members.items():
                storage.create(
                    member,
                    Schema(shape, dims, _VALUES, 0),
                    written[name].files,
                    labels=labels,
                    profile=self.profile,
                    operation="ingest triples",
                    report=self.report.counts,
                    extra={"sources": [sources[name].name]},
                )
            if not alone:
                storage.write_bundle(folder, dict.fromkeys(sources), {"format": "triples"})
        return os.fspath(self.dst)

    def _sources(self) -> dict[str, Source]:
        """Return the files by the names of their tensors; ``""`` for a single one."""
        folder = folder_path(self.src)
        if folder is not None:
            found = find_splits(folder)
            if not found:
                raise NotFoundError(f"folder {folder!r} has no train.txt, valid.txt or test.txt: name the files")
            for name, called in _VOCABULARIES.items():
                there = [path for each in called if get_filesystem(folder).exists(path := os.path.join(folder, each))]
                if getattr(self, name) is None and there:
                    setattr(self, name, there[0])
            return {name: open_sources(path)[0] for name, path in found.items()}
        sources = open_sources(self.src)
        if len(sources) == 1:
            return {"": sources[0]}
        names = [_split_name(source.name) or Path(source.name).name.split(".")[0] for source in sources]
        if len(set(names)) < len(names):
            raise InvalidValueError(f"names of the files must differ, got {', '.join(names)}")
        storage.check_member_names(names)
        return dict(zip(names, sources, strict=True))


def _split_name(path: str) -> str | None:
    found = _SPLIT.fullmatch(os.path.basename(path))
    return None if found is None else _CALLED.get(found[1], found[1])


def find_splits(folder: str) -> dict[str, str]:
    """Return the files of train, valid and test in a folder; none if ambiguous."""
    files = get_filesystem(folder)
    named = [(_split_name(name), os.path.join(folder, name)) for name in files.names(folder)]
    found = [(name, path) for name, path in named if name is not None and not files.is_folder(path)]
    names = [name for name, _ in found]
    if "train" not in names or len(set(names)) < len(names):
        return {}
    return {name: dict(found)[name] for name in ("train", "valid", "test") if name in names}


class _Tokens(NamedTuple):
    """Tokens of a block: bounds of shape (n, 3), and the numbers if they are some."""

    block: TextBlock
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    numbers: NDArray[np.int64] | None


@dataclass
class _TripleReader:
    """Reader of files that share their vocabularies."""

    options: Triples
    dims: tuple[str, ...]
    entities: pa.Array | None
    relations: pa.Array | None
    stack: ExitStack
    largest: list[int] = field(default_factory=lambda: [-1, -1])
    """Largest id of entities and of relations."""
    _named: bool | None = None
    _names: list[LabelEncoder] = field(default_factory=list)
    _ranks: list[NDArray[np.int32] | None] = field(default_factory=lambda: [None, None])
    _words: list[pa.Array | None] = field(default_factory=list)

    def read(self, source: Source, advance: Callable[[int], Any]) -> SpillQueue:
        """Queue the triples of a file."""
        queue = self.stack.enter_context(closing(SpillQueue()))
        count = 0
        with closing(read_blocks(source)) as text:
            first = next((block for block in text if bytes(block.data).strip()), None)
            if first is None:
                return queue
            head = first.text(0, 1 << 16).lstrip().split("\n", 1)[0].strip()
            expected = int(head) if head.isascii() and head.isdigit() and len(head) < 19 else None
            swapped = self.options.order == "htr" or (self.options.order == "auto" and expected is not None)
            if expected is not None:
                first = _skip_first_line(first)
            line, *below = first.text(0, 1 << 16).lstrip("\n\r ").split("\n", 2)[:2]
            delimiter = 9 if line.count("\t") == 2 else -1
            if line.lower().startswith("%%matrixmarket"):
                way = TypedSource.of(first.source.name).command("mtx")
                raise IngestError("this is a Matrix Market file", first.source.name, commands=[way])
            if self.options.header:
                first = _skip_first_line(first)
            elif _HEADER.fullmatch(line.strip()) or (self.options.ids != "str" and _is_above_numbers(line, below)):
                problem = "the first line names columns: pass header=True to skip it"
                raise IngestError(problem, source.name, first.line_at(int(np.argmax(first.data > 32))), line.strip())
            self._decide_ids(first, delimiter)

            def find(block: TextBlock) -> _Tokens:
                return self._tokenize(block, delimiter)

            def count_blocks() -> Iterator[TextBlock]:
                for block in chain([first], text):
                    yield block
                    advance(block.advance)

            parsed = cast("Generator[_Tokens]", ordered_map(find, count_blocks(), settings.current().threads))
            with closing(parsed) as found:
                for each in found:
                    queue.add(self._rows(each, swapped))
                    count += len(each.starts)
        if expected not in (None, count):
            raise IngestError(f"expected {expected} triples by the first line, got {count}", source.name)
        return queue

    def _decide_ids(self, block: TextBlock, delimiter: int) -> None:
        """Decide whether the tokens are names."""
        if self._named is not None:
            return
        self._named = False
        if self.options.ids != "int":
            self._named = self.options.ids == "str" or self._tokenize(block, delimiter, probing=True).numbers is None
            if self._named and self.options.ids == "auto":
                self._note_names(block, delimiter)
        if self._named:
            self._names = [LabelEncoder(), LabelEncoder()]
            for names, known in zip(self._names, (self.entities, self.relations), strict=True):
                if known is not None:
                    names.codes(known)  # so that the code of a name is its position

    def _tokenize(self, block: TextBlock, delimiter: int, probing: bool = False) -> _Tokens:
        from sparrow.kernels.parse import tokens as kernels

        starts, ends = np.empty((block.lines, 3), np.int64), np.empty((block.lines, 3), np.int64)
        count, status, at = kernels.split_tokens(block.data, delimiter, starts, ends)
        if status != kernels.GOOD:
            problem = "too few columns" if status == kernels.TOO_FEW else "too many columns"
            line = block.line_text(at)
            ways, hint = [], ""
            if line.endswith(" .") and line[0] in "<_":
                hint = "; this looks like N-Triples"
                typed = TypedSource.of(self.options.src, compression_of(block.source))
                ways = [typed.pipe(NTRIPLES, "triples")]
            raise IngestError(f"{problem}: a triple must be a head, a relation and a tail{hint}", block.source.name,
                              block.line_at(at), line, ways)  # fmt: skip
        starts, ends = starts[:count], ends[:count]
        if self._named and not probing:
            block.check_utf8()
            return _Tokens(block, starts, ends, None)
        numbers = np.empty(3 * count, np.int64)
        read = kernels.parse_integers(block.data, starts.reshape(-1), ends.reshape(-1), numbers)
        if self.options.ids == "auto" and (padded := _find_padded(block, starts, ends)) is not None and padded < read:
            if probing:
                return _Tokens(block, starts, ends, None)
            start, end = int(starts.reshape(-1)[padded]), int(ends.reshape(-1)[padded])
            problem = "the id begins with a zero: pass ids='str' to take ids as names, or ids='int' as numbers"
            raise IngestError(problem, block.source.name, block.line_at(start), block.text(start, end))
        if read == 3 * count:
            return _Tokens(block, starts, ends, numbers.reshape(-1, 3))
        if probing:
            return _Tokens(block, starts, ends, None)
        start, end = int(starts.reshape(-1)[read]), int(ends.reshape(-1)[read])
        problem = "the id must be an integer from 0 to 2^63 - 1: pass ids='str' if ids are names"
        raise IngestError(problem, block.source.name, block.line_at(start), block.text(start, end))

    def _note_names(self, block: TextBlock, delimiter: int) -> None:
        """Note that ids are names if most look like numbers."""
        found = self._tokenize(block, delimiter, probing=True)
        tokens = zip(
            found.starts[:_PROBED].reshape(-1).tolist(), found.ends[:_PROBED].reshape(-1).tolist(), strict=True
        )
        numeric = [block.text(start, end).isdigit() for start, end in tokens]
        if 2 * sum(numeric) > len(numeric):
            self.options.report.note(
                f"{block.source.name}: the ids are names, which become labels: pass ids='int' if they are numbers"
            )

    def _rows(self, found: _Tokens, swapped: bool) -> Rows:
        head, relation, tail = (0, 2, 1) if swapped else (0, 1, 2)
        out: list[NDArray[Any]] = []
        for column, which in ((head, 0), (relation, 1), (tail, 0)):
            known = self.relations if which else self.entities
            starts, ends = found.starts[:, column].copy(), found.ends[:, column].copy()
            if found.numbers is None:
                codes = self._names[which].codes_of(found.block.data, starts, ends)
            else:
                codes = found.numbers[:, column]
            limit = MAX_DIMENSION_SIZE if known is None else len(known)
            if len(codes) and int(codes.max()) >= limit:
                at = int(starts[np.argmax(codes >= limit)])
                token = found.block.text(at, int(ends[np.argmax(codes >= limit)]))
                what = "relations" if which else "entities"
                problem = f"the id is not one of the {limit} {what} of the vocabulary"
                if known is None:
                    problem = "the id is beyond 2^63 - 2, the largest coordinate"
                elif found.numbers is not None:
                    other, place = ("hrt", "second") if swapped else ("htr", "last")
                    problem += f": pass order={other!r} if the relation comes {place}"
                raise IngestError(problem, found.block.source.name, found.block.line_at(at), token)
            self.largest[which] = max(self.largest[which], int(codes.max(initial=-1)))
            out.append(codes.astype(np.int32) if found.numbers is None else codes)
        return Rows(tuple(out), None)

    def finish(self) -> dict[int, pa.Array]:
        """Return the labels by dimension, once all triples are known."""
        words = [self.entities, self.relations]
        for which, names in enumerate(self._names):
            if words[which] is None:
                words[which], self._ranks[which] = names.finish()
        self._words = words
        return {dim: words[which] for dim, which in ((0, 0), (1, 1), (2, 0)) if words[which] is not None}

    def shape(self) -> tuple[int, int, int]:
        """Return the shape of all tensors."""
        entities, relations = (
            top + 1 if words is None else len(words) for top, words in zip(self.largest, self._words, strict=True)
        )
        return entities, relations, entities

    def write(self, folder: storage.Folder, queue: Iterable[Rows]) -> WrittenFiles:
        """Write the triples of a file."""

        def rows_of(rows: Rows) -> Rows:
            ranks = (self._ranks[0], self._ranks[1], self._ranks[0])
            return Rows(tuple(c if r is None else r[c] for c, r in zip(rows.coords, ranks, strict=True)), None)

        return write_coo(
            folder,
            queue,
            rows_of,
            dims=self.dims,
            dtype=_VALUES,
            weighted=False,
            duplicates=self.options.duplicates,
            fill_value=0,
            profile=self.options.profile,
            report=self.options.report,
            describe=self._describe,
        )

    def _describe(self, element: tuple[int, ...]) -> str:
        words = [self._words[which] for which in (0, 1, 0)]
        return str(tuple(c if each is None else each[c].as_py() for c, each in zip(element, words, strict=True)))


def _find_padded(block: TextBlock, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int | None:
    """Return the first of the longer tokens that begins with a zero, if any."""
    wide = np.flatnonzero(ends.reshape(-1) - starts.reshape(-1) > 1)
    found = wide[block.data[starts.reshape(-1)[wide]] == ord("0")]
    return int(found[0]) if len(found) else None


def _is_above_numbers(line: str, below: Sequence[str]) -> bool:
    """Return whether a line has no number, and the next one nothing else."""
    following = "".join(below).split()
    return bool(following) and all(map(str.isdigit, following)) and not any(map(str.isdigit, line.split()))


def _skip_first_line(block: TextBlock) -> TextBlock:
    """Return a block with its first non-blank line blanked out."""
    data = block.data.copy()
    start = int(np.argmax((data != 10) & (data != 13) & (data != 32) & (data != 9)))
    end = start + int(np.argmax(data[start:] == 10))
    data[start:end] = 32
    return replace(block, data=data)


def _detect_folder(sample: Sample) -> str | None:
    """Accept a folder of splits of triples; raise with commands for others."""
    if sample.folder is None or not (splits := find_splits(sample.src)):
        return None
    names = " and ".join(filter(None, (", ".join([*splits][:-1]), [*splits][-1])))
    files = get_filesystem(sample.folder)
    has_words = any(
        files.exists(os.path.join(sample.folder, each)) for called in _VOCABULARIES.values() for each in called
    )
    inner = read_sample(splits["train"])
    data = inner.data[1:] if inner.data and inner.data[0].isdigit() and len(inner.data) > 1 else inner.data
    rows = [line.split("\t") if line.count("\t") == 2 else line.split() for line in data]
    are_triples = bool(rows) and all(len(row) == 3 for row in rows) and not _HEADER.fullmatch(data[0])
    are_numbers = all(is_number(token) for row in rows for token in row)
    if are_triples and (has_words or len(data) < len(inner.data) or not any(map(is_number, (row[2] for row in rows)))):
        return f"the folder holds {names} of triples"
    commands: tuple[str, ...] = ()
    try:
        commands = (TypedSource.of(inner.name).command(detect_format(inner.name).format),)
        table = [] if inner.layout is None else inner.layout.table()
    except IngestError as error:
        commands, table = error.commands, [*error.table]
        if any(pairs_of_lists(data) in each for each in commands):  # users and items are no square
            typed = TypedSource.of(inner.name, compression_of(open_sources(inner.name)[0]))
            way = typed.pipe(pairs_of_lists(data), "columns", header=False, delimiter=" ", coords=["c0", "c1"])
            commands = (way,)
    if are_triples and are_numbers:
        layout = inner.layout
        commands = (
            sample.typed.command("triples"),
            *([] if layout is None else [TypedSource.of(inner.name).command("columns", **layout.options())]),
        )
    what = "may be triples, or ratings and the like" if are_triples else "are no triples"
    problem = f"the folder holds {names}, whose lines {what}: ingest its files one by one"
    raise IngestError(problem, sample.src, commands=commands, table=table)


def _detect_lists(sample: Sample) -> str | None:
    found = counted_lists_in(sample)
    are_triples = found is not None and bool(found[1]) and all(len(each) == 3 for each in found[1])
    return "a line with a count, then lines of three numbers" if are_triples else None


FORMATS = (
    Format(
        "triples",
        "Knowledge graphs: head, relation, tail.",
        reader=Triples,
        detectors={Stage.PATH: _detect_folder, Stage.LISTS: _detect_lists},
    ),
)
