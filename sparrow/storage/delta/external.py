"""Delta tables of other tools, read as tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from sparrow.errors import CorruptionError, SparrowError, UnsupportedError
from sparrow.runtime.foreign_errors import find_errno
from sparrow.storage.delta.log import Log
from sparrow.storage.fs.failures import damage_error, read_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.paths import absolute_path

if TYPE_CHECKING:
    import polars as pl

__all__ = ["delta_table"]

_PART = re.compile(r"part-([0-9]+)-[^/]*$")
"""Number of a file within its write."""


@contextmanager
def delta_table(path: str | os.PathLike[str], version: int | None = None) -> Iterator[pl.LazyFrame]:
    """Yield one version of any Delta table as a lazy frame, in a block.

    Rows are in the order in which their files were written.

    Raises
    ------
    NotFoundError
        If there is no table, or no such version.
    UnsupportedError
        If it uses features of Delta Lake that deltalake or Polars does not support.
    CorruptionError
        If its log cannot be read or names files outside the folder, or a file is a link, missing or damaged when the
        block reads it.
    """
    import polars as pl
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    class OrderedTable(DeltaTable):
        """Delta table whose files are in the order in which they were written.

        Polars pairs its statistics with files by position.
        """

        def file_uris(self, *args: Any, **options: Any) -> list[str]:
            """Return paths of files."""
            found = pa.array(super().file_uris(*args, **options), pa.string())
            paths: list[str] = found.take(_oldest_first(_read_facts(super().get_add_actions()))).to_pylist()
            return paths

        def get_add_actions(self, flatten: bool = False) -> Any:
            """Return facts about the files."""
            found = _read_facts(super().get_add_actions(flatten))
            return found.take(_oldest_first(found))

    class PlainTable(OrderedTable):
        """Delta table in a local folder, whose name is a path and not a URL."""

        @property
        def table_uri(self) -> str:
            return unquote(super().table_uri)

        def file_uris(self, *args: Any, **options: Any) -> list[str]:
            """Return paths of files: Polars opens them as they are, with %20 for a blank."""
            start = len(super().table_uri.removeprefix("file://"))
            root = self.table_uri.removeprefix("file://")
            return [root + each[start:] for each in super().file_uris(*args, **options)]

    where = absolute_path(path)
    found = Log.open(where, version)
    files = found.sizes()
    _check_files(where, files)
    try:
        options = get_filesystem(where).delta_options()
        if get_filesystem(where).is_remote:
            table = OrderedTable(where, version=found.version, storage_options=options)
            yield pl.scan_delta(table, storage_options=options)
        else:
            yield pl.scan_delta(PlainTable(where, version=found.version, storage_options=options))
    except SparrowError:
        raise
    except DeltaError as error:
        reason = " ".join(str(error).split())
        raise UnsupportedError(f"the Delta table {where!r} cannot be read by Polars: {reason}") from None
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        damage = _find_damage(where, files)
        raise CorruptionError(damage) if damage else damage_error(repr(where), error) from None


def _oldest_first(facts: pa.Table) -> pa.Array:
    """Return the positions of files in the order in which they were written.

    The log lists the newest commit first, but the files of one write, whose numbers ascend, in order.
    """
    numbers = [int(found[1]) if (found := _PART.search(path)) else 0 for path in facts["path"].to_pylist()]
    writes = np.cumsum(np.diff(numbers, prepend=0) <= 0, dtype=np.int64)
    order = np.lexsort((np.arange(len(writes)), -writes, facts["modification_time"].to_numpy()))
    return pa.array(order, pa.int64())


def _read_facts(stream: Any) -> pa.Table:
    return pa.RecordBatchReader.from_stream(stream).read_all()  # not pa.table(), which imports pandas


def _check_files(where: str, files: Mapping[str, int]) -> None:
    """Raise ``CorruptionError`` for links and for files of a wrong size.

    Polars returns no rows and no error for a truncated file.
    """
    store = get_filesystem(where)
    steps = {step for file in files for step in accumulate(file.split("/"), os.path.join)}
    for path in (os.path.join(where, step) for step in sorted(steps)):
        if store.is_link(path):
            raise CorruptionError(f"{path!r} is a link, which may lead anywhere and is not followed")
    for file, size in files.items():
        path = os.path.join(where, file)
        if not store.is_remote and store.exists(path) and store.size(path) != size:
            raise CorruptionError(f"{path!r} is damaged: it has {store.size(path)} bytes, the log says {size}")


def _find_damage(where: str, files: Iterable[str]) -> str | None:
    """Return a message about the missing or damaged file, None if there is none."""
    import pyarrow.parquet as pq

    for path in (os.path.join(where, file) for file in files):
        if not get_filesystem(where).exists(path):
            return f"{path!r}, which the log names, is missing"
        try:
            with (
                get_filesystem(where).open(path, immutable=True) as raw,
                pq.ParquetFile(raw, page_checksum_verification=True) as file,
            ):
                for _ in file.iter_batches():
                    pass
        except (OSError, pa.ArrowException) as error:
            if find_errno(error) is not None:
                raise read_error(error, path) from error
            return f"{path!r} is damaged: {error}"
    return None
