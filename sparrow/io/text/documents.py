"""Documents to counts of their terms."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import Schema
from sparrow.errors import IngestError, InvalidValueError, NotFoundError
from sparrow.io.base.coo_writer import LabelEncoder, SpillQueue, write_coo
from sparrow.io.base.registry import Format, Option, Reader
from sparrow.io.base.source import (
    Source,
    SourceLike,
    TextBlock,
    check_encoding,
    folder_path,
    open_sources,
    read_blocks,
    total_size,
)
from sparrow.io.text.vocabulary import read_vocabulary
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "Text"]

_DIMS = ("document", "term")
_VALUES = np.dtype(np.int64)


@dataclass
class Text(Reader):
    r"""Store how often each term is in each document, as a matrix ``document, term`` whose labels are the terms.

    In a folder each file is a document, called by its path; in one file each line is, blank ones too.

    Parameters
    ----------
    src
        A folder, which is read with those in it, a file, a glob pattern, ``"-"`` for standard input, or a list of
        these. gzip, zstd and bz2 are told from the content.
    dst
        The folder to create.
    documents
        ``"file"`` or ``"line"``; by default a line where there is one file, and a file where there are several.
    pattern
        A regular expression of the terms; by default words of two characters and more, as scikit-learn has it.
    lower
        Whether terms are taken in small letters.
    vocabulary
        A file of the terms that are counted, a term in each line, perhaps with its number; others are left out. By
        default all, sorted.
    encoding
        How the text is written where that is not UTF-8, such as ``"latin-1"``.
    overwrite
        Replace what is at ``dst``.
    if_exists
        Where a tensor or bundle is at ``dst`` already: ``"error"``, ``"open"`` to open it and read nothing, or
        ``"replace"``, which is ``overwrite=True``.
    profile
        ``"fast"`` or ``"small"``.

    Returns
    -------
    Tensor
        What ``sp.open(dst)`` does: int64 counts.

    Raises
    ------
    IngestError
        If a file is no text of the encoding: with the line.
    NotFoundError
        If a file is missing or there is none in the folder.
    ExistsError
        If something is at ``dst`` and ``overwrite`` is not set.
    TooLargeError
        If the terms take too much of the memory limit.
    InvalidValueError
        If the pattern is none, or an argument is not one of those above.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np, sparrow as sp
    >>> size = Path("sayings.txt").write_text("no pain no gain\nno smoke without fire\n")
    >>> counts = sp.ingest.text("sayings.txt", "sayings.sparrow")
    >>> counts.labels("term").to_pylist()
    ['fire', 'gain', 'no', 'pain', 'smoke', 'without']
    >>> counts[0].sel(term="no")
    np.int64(2)

    Weights by how rare a term is are an expression:

    >>> rare = np.log(counts.shape[0] / (counts != 0).sum(axis=0).to_numpy()) + 1
    >>> weighted = counts * rare
    >>> round(float(weighted[0].sel(term="gain")), 3)
    1.693
    """

    _: KW_ONLY
    documents: Annotated[Literal["file", "line"] | None, Option("What a document is. [default: by the source]")] = None
    pattern: Annotated[str, Option("A regular expression of the terms.")] = r"\b\w\w+\b"
    lower: Annotated[bool, Option("Take terms in small letters.", flag="--lower/--as-written")] = True
    read_vocabulary: Annotated[SourceLike | None, Option("The terms that are counted.", metavar="FILE", parse=str)] = (
        None
    )
    encoding: Annotated[str, Option("How the text is written.")] = "utf-8"

    examples: ClassVar[str] = "sparrow ingest text 20_newsgroups news.sparrow"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            self._terms = re.compile(self.pattern)
        except re.error as error:
            raise InvalidValueError(f"pattern={self.pattern!r} is no regular expression: {error}") from None
        check_encoding(self.encoding)

    def read(self) -> str:
        """Store the counts and return their folder."""
        sources, called = self._sources()
        by_line = self.documents == "line" or (self.documents is None and len(sources) == 1 and called is None)
        known = None if self.vocabulary is None else read_vocabulary(open_sources(self.vocabulary)[0])
        names, count = LabelEncoder(), 0
        if known is not None:
            names.codes(known)  # so that the number of a term is its place
        with storage.stage_folder(self.dst, self.overwrite) as folder, closing(SpillQueue()) as shelf:
            with bar("reading documents", total_size(sources)) as advance, closing(read_blocks(sources)) as text:
                before: Source | None = None
                for block in text:
                    if before is not block.source and not by_line:
                        while count < len(sources) and sources[count] is not block.source:
                            count += 1  # those that hold nothing
                    before = block.source
                    found, lines = self._found(block)
                    codes = names.codes(pa.array(found, pa.string()))
                    rows = np.full(len(codes), count) if not by_line else lines + count
                    if known is not None:
                        kept = codes < len(known)
                        rows, codes = rows[kept], codes[kept]
                    shelf.add(Rows((rows, codes.astype(np.int32)), None))
                    if by_line:
                        count += block.lines
                    advance(block.advance)
            count = count if by_line else len(sources)
            terms, rank = (known, None) if known is not None else names.finish()

            def rows_of(rows: Rows) -> Rows:
                return rows if rank is None else Rows((rows.coords[0], rank[rows.coords[1]]), None)

            written = write_coo(
                folder,
                shelf,
                rows_of,
                dims=_DIMS,
                dtype=_VALUES,
                weighted=False,
                duplicates="sum",
                fill_value=0,
                profile=self.profile,
            )
            labels = {1: terms}
            if not by_line and called is not None:
                labels[0] = pa.array(called, pa.string())
            storage.create(
                folder,
                Schema((count, len(terms)), _DIMS, _VALUES, 0),
                written.files,
                labels=labels,
                profile=self.profile,
                operation="ingest text",
                extra={"sources": [source.name for source in sources[:1000]]},
            )
        return os.fspath(self.dst)

    def _sources(self) -> tuple[list[Source], list[str] | None]:
        """Return the files, and what they are called where there are several or a folder."""
        root = folder_path(self.src)
        if root is not None:
            paths = sorted(path for path in _below(root) if not os.path.basename(path).startswith("."))
            if not paths:
                raise NotFoundError(f"there is no file in the folder {root!r}")
            return open_sources(paths), [os.path.relpath(path, root) for path in paths]
        sources = open_sources(self.src)
        several = len(sources) > 1 or self.documents == "file"
        called = [source.name for source in sources]
        return sources, called if several and len(set(called)) == len(called) else None

    def _found(self, block: TextBlock) -> tuple[list[str], NDArray[np.int64]]:
        """Return the terms of a block, and the line of each, counted from 0."""
        data = bytes(block.data)
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError as error:
            line = block.line_at(error.start)
            raise IngestError(f"the text is not in {self.encoding}: say encoding=", block.source.name, line) from None
        text = text.lower() if self.lower else text
        whole = self._terms.groups == 0
        terms: list[str] = []
        lengths = []
        for each in text.split("\n")[:-1]:
            found = self._terms.findall(each) if whole else [match[1] or "" for match in self._terms.finditer(each)]
            terms += found
            lengths.append(len(found))
        return terms, np.repeat(np.arange(len(lengths)), lengths)


def _below(root: str) -> Iterable[str]:
    """Return the files in a folder and in those below it."""
    files = get_filesystem(root)
    if files.is_remote:
        return files.glob(f"{root}/**")
    return (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)


FORMATS = (Format("text", "Documents, to counts of their terms.", reader=Text),)
