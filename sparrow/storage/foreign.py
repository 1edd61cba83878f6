"""Delta tables of other tools, read as tables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sparrow.storage.filesystem import absolute, of
from sparrow.storage.log import Log

if TYPE_CHECKING:
    import polars as pl

__all__ = ["delta_table"]


def delta_table(path: str | os.PathLike[str], version: int | None = None) -> pl.LazyFrame:
    """Return a Delta table, whoever wrote it, as a lazy frame of one version.

    Raises
    ------
    NotFoundError
        If there is no table, or no such version.
    CorruptionError
        If its log cannot be read.
    """
    import polars as pl

    where = absolute(path)
    found = Log.open(where, version)
    return pl.scan_delta(where, version=found.version, storage_options=of(where).delta_options())
