"""Columns that the names of folders tell: ``year=2026/month=11/part.parquet``, as Hive and Spark write tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from sparrow.io.base.source import Source

__all__ = ["partitions"]

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def partitions(
    sources: Sequence[Source], columns: Collection[str] | None, texts: Collection[str] = ()
) -> list[dict[str, pa.Scalar]]:
    """Return, for each file, the values of those columns that folders on its path tell.

    A column is of integers where all of its values are (``month=01`` is 1), of dates where all are, else of texts.

    Parameters
    ----------
    sources
        The files.
    columns
        The columns that are asked for, None for all.
    texts
        Those that are texts whatever they look like.
    """
    found = [_folders(source.path, columns) for source in sources]
    out: list[dict[str, pa.Scalar]] = [{} for _ in sources]
    for name in {name: None for each in found for name in each}:
        given = [each[name] for each in found if name in each]
        values = iter(_typed(given, name in texts))
        for told, each in zip(out, found, strict=True):
            if name in each:
                told[name] = next(values)
    return out


def _folders(path: str | None, columns: Collection[str] | None) -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    for folder in PurePath(path or "").parts[:-1]:
        name, sign, value = folder.partition("=")
        if sign and (columns is None or unquote(name) in columns):
            out[unquote(name)] = None if value == _NULL else unquote(value)
    return out


def _typed(values: Sequence[str | None], text: bool) -> pa.Array:
    there = [value for value in values if value is not None]
    if not text and there and all(map(_INTEGER.fullmatch, there)):
        numbers: list[Any] = [None if value is None else int(value) for value in values]
        return pa.array(numbers, pa.int64())
    array = pa.array(values, pa.string())
    if text or not there:
        return array
    try:
        return array.cast(pa.date32())
    except pa.ArrowInvalid:
        return array
