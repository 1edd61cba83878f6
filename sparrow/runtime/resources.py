"""Data folders of the installation: ``sql``, ``ingest`` and ``datasets``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ["data_folder", "sql_text"]


def data_folder(name: str) -> Traversable:
    """Return the data folder of that name.

    It is part of the package, or beside it in a checkout.

    Raises
    ------
    NotFoundError
        If the installation lacks it.
    """
    packaged = files("sparrow") / f"_{name}"
    if packaged.is_dir():
        return packaged
    in_checkout = Path(__file__).parents[2] / name
    if in_checkout.is_dir():
        return in_checkout
    from sparrow.errors import NotFoundError  # imports NumPy, which completion does without

    raise NotFoundError(f"the installation lacks the data folder {name!r}: reinstall sparrow-tensor")


@cache
def sql_text(dialect: str, kernel: str) -> str:
    """Return the content of ``sql/<dialect>/<kernel>.sql``."""
    return (data_folder("sql") / dialect / f"{kernel}.sql").read_text(encoding="utf-8")
