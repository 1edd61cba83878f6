"""Files of tables as lazy frames, for what is small enough to be gathered in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparrow.errors import NotFoundError, UnsupportedError
from sparrow.storage.filesystem import of

if TYPE_CHECKING:
    import polars

__all__ = ["frame_of"]

_PARTED = {".csv": ",", ".tsv": "\t"}
_COMPRESSED = (".gz", ".zst")


def frame_of(path: str | os.PathLike[str], kinds: Mapping[str, pa.DataType]) -> polars.LazyFrame:
    """Return a file of a table as a lazy frame.

    Parameters
    ----------
    path
        Of CSV, with tabs or commas, Parquet or Arrow, told by the end of its name.
    kinds
        The types of columns of CSV that are labels: texts that look like numbers stay texts.

    Raises
    ------
    NotFoundError
        If there is no such file.
    UnsupportedError
        If its name ends otherwise.
    """
    import polars

    name = os.fspath(path)
    if of(name).fetches:
        raise UnsupportedError(f"{name!r} is a URL: download the table, or ingest it and append the tensor")
    if not os.path.isfile(name):
        raise NotFoundError(f"no file at {name!r}")
    stem, end = os.path.splitext(name.lower())
    if end in _COMPRESSED:
        end = os.path.splitext(stem)[1]
    if end == ".parquet":
        return polars.scan_parquet(name)
    if end in (".arrow", ".feather"):
        return polars.scan_ipc(name)
    if end not in _PARTED:
        raise UnsupportedError(f"{name!r} is no .csv, .tsv, .parquet or .arrow: read it as a frame, and append that")
    types: Any = {column: polars.Series(pa.array([], kind)).dtype for column, kind in kinds.items()}
    known = polars.scan_csv(name, separator=_PARTED[end]).collect_schema().names()
    return polars.scan_csv(
        name,
        separator=_PARTED[end],
        schema_overrides={column: kind for column, kind in types.items() if column in known},
    )
