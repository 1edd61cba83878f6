"""Text documents to a matrix of term counts."""

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
from sparrow.io.base.registry import Format, Option, Reader, shared
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


@shared
@dataclass
class Text(Reader):
    r"""Count the terms of documents: a matrix ``document, term`` labelled by terms.

    In a folder each file is a document, labelled by its path; in a file each line is, blank ones too.

    Parameters
    ----------
    src
        Folder, with its subfolders, file, glob pattern, ``"-"`` for standard input, or a list of these. gzip, zstd and
        bz2 are detected from the content.
    %(dst)s
    documents
        ``"file"`` or ``"line"``; by default lines of a single file, and files otherwise.
    pattern
        Regular expression of a term; by default words of two or more characters, as in scikit-learn.
    lower
        Convert the text to lower case.
    vocabulary
        File of the terms to count, one per line, optionally with its number; other terms are ignored. By default all
        terms, sorted.
    encoding
        Encoding of the text, such as ``"latin-1"``.
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored counts, int64.

    Raises
    ------
    IngestError
        If a file is not text in the encoding: with the line.
    NotFoundError
        If a file is missing or the folder has none.
    %(exists)s
    TooLargeError
        If the terms exceed their share of the memory limit.
    InvalidValueError
        If the pattern is not a regular expression, or an argument has none of the values above.

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

    TF-IDF weights are an expression:

    >>> idf = np.log(counts.shape[0] / (counts != 0).sum(axis=0).to_numpy()) + 1
    >>> weighted = counts * idf
    >>> round(float(weighted[0].sel(term="gain")), 3)
    1.693
    """

    _: KW_ONLY
    documents: Annotated[
        Literal["file", "line"] | None, Option("Unit of a document. [default: line of one file, else file]")
    ] = None
    pattern: Annotated[str, Option("Regular expression of a term.")] = r"\b\w\w+\b"
    lower: Annotated[bool, Option("Convert text to lower case.", flag="--lower/--as-written")] = True
    vocabulary: Annotated[SourceLike | None, Option("File of the terms to count.", metavar="FILE", parse=str)] = None
    encoding: Annotated[str, Option("Encoding of the text.")] = "utf-8"

    examples: ClassVar[str] = "sparrow ingest text 20_newsgroups news.sparrow"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            self._terms = re.compile(self.pattern)
        except re.error as error:
            raise InvalidValueError(f"pattern must be a regular expression, got {self.pattern!r}: {error}") from None
        check_encoding(self.encoding)

    def read(self) -> str:
        """Store the counts and return their folder."""
        sources, called = self._sources()
        by_line = self.documents == "line" or (self.documents is None and len(sources) == 1 and called is None)
        known = None if self.vocabulary is None else read_vocabulary(open_sources(self.vocabulary)[0])
        names, count = LabelEncoder(), 0
        if known is not None:
            names.codes(known)  # so that the code of a term is its position
        with storage.stage_folder(self.dst, self.overwrite) as folder, closing(SpillQueue()) as queue:
            with bar("reading documents", total_size(sources)) as advance, closing(read_blocks(sources)) as text:
                before: Source | None = None
                for block in text:
                    if before is not block.source and not by_line:
                        while count < len(sources) and sources[count] is not block.source:
                            count += 1  # empty files
                    before = block.source
                    found, lines = self._tokenize(block)
                    codes = names.codes(pa.array(found, pa.string()))
                    rows = np.full(len(codes), count) if not by_line else lines + count
                    if known is not None:
                        kept = codes < len(known)
                        rows, codes = rows[kept], codes[kept]
                    queue.add(Rows((rows, codes.astype(np.int32)), None))
                    if by_line:
                        count += block.lines
                    advance(block.advance)
            count = count if by_line else len(sources)
            terms, rank = (known, None) if known is not None else names.finish()

            def rows_of(rows: Rows) -> Rows:
                return rows if rank is None else Rows((rows.coords[0], rank[rows.coords[1]]), None)

            written = write_coo(
                folder,
                queue,
                rows_of,
                dims=_DIMS,
                dtype=_VALUES,
                weighted=False,
                duplicates="sum",
                fill_value=0,
                profile=self.profile,
                report=self.report,
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
                report=self.report.counts,
                extra={"sources": [source.name for source in sources[:1000]]},
            )
        return os.fspath(self.dst)

    def _sources(self) -> tuple[list[Source], list[str] | None]:
        """Return the files, and their names if they label documents."""
        root = folder_path(self.src)
        if root is not None:
            paths = sorted(path for path in _walk(root) if not os.path.basename(path).startswith("."))
            if not paths:
                raise NotFoundError(f"folder {root!r} has no files")
            return open_sources(paths), [os.path.relpath(path, root) for path in paths]
        sources = open_sources(self.src)
        several = len(sources) > 1 or self.documents == "file"
        called = [source.name for source in sources]
        return sources, called if several and len(set(called)) == len(called) else None

    def _tokenize(self, block: TextBlock) -> tuple[list[str], NDArray[np.int64]]:
        """Return the terms of a block, and the line of each, from 0."""
        data = bytes(block.data)
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError as error:
            line = block.line_at(error.start)
            raise IngestError(f"the text is not {self.encoding}: pass its encoding=", block.source.name, line) from None
        text = text.lower() if self.lower else text
        has_no_group = self._terms.groups == 0
        terms: list[str] = []
        lengths = []
        for each in text.split("\n")[:-1]:
            found = (
                self._terms.findall(each) if has_no_group else [match[1] or "" for match in self._terms.finditer(each)]
            )
            terms += found
            lengths.append(len(found))
        return terms, np.repeat(np.arange(len(lengths)), lengths)


def _walk(root: str) -> Iterable[str]:
    """Return the files of a folder and its subfolders."""
    files = get_filesystem(root)
    if files.is_remote:
        return files.glob(f"{root}/**")
    return (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)


FORMATS = (Format("text", "Term counts of documents.", reader=Text),)
