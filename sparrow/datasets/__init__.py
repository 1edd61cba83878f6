"""Data sets: shipped ones, ones to fetch, and generated ones of any size.

``sp.datasets.load("cnr-2000")`` opens a shipped one; for the others ``load`` says what to fetch and where to put it.
``datasets/README.md`` has sources, licences and citations.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparrow.datasets.generators import powerlaw_libsvm, powerlaw_tns, rmat
from sparrow.datasets.published import describe, ingest, load, way
from sparrow.datasets.published import list_datasets as list  # noqa: A004 - sp.datasets.list() says what it does
from sparrow.datasets.shipped import names, path

__all__ = ["describe", "ingest", "list", "load", "names", "path", "powerlaw_libsvm", "powerlaw_tns", "rmat", "way"]


def __dir__() -> Iterable[str]:
    return sorted(__all__)
