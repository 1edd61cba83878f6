"""sparrow: a sparse tensor store and query engine.

A tensor is a relation, one integer column for each dimension and one column of values, kept as
Parquet under a Delta log. Open it like an array, query it like a table, multiply it without loading it.

* :func:`open`, :func:`from_coords`, :func:`asarray`, :mod:`sparrow.ingest` and :mod:`sparrow.datasets` make tensors;
* :class:`Tensor` is what they are: ``A[5:9]``, ``A.T``, ``A @ x``, ``A.explain()``, ``A.save(path)``;
* :func:`sql` asks questions of them; :func:`from_relation` makes a tensor of the answer;
* :func:`config` sets memory limit, threads and temporary folder; :mod:`sparrow.errors` is the tree of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparrow import errors
from sparrow.bundle import Bundle
from sparrow.creation import asarray, from_coords, from_relation, open, zeros  # noqa: A004 - sp.open is its name
from sparrow.operators import where
from sparrow.query import sql
from sparrow.settings import config
from sparrow.tensor import Tensor, matmul

if TYPE_CHECKING:
    from sparrow import datasets, ingest

__version__ = "0.1.0"

__all__ = [
    "Bundle",
    "Tensor",
    "asarray",
    "config",
    "datasets",
    "errors",
    "from_coords",
    "from_relation",
    "ingest",
    "matmul",
    "open",
    "sql",
    "where",
    "zeros",
]


def __getattr__(name: str) -> Any:
    if name in ("datasets", "ingest"):
        import importlib

        return importlib.import_module(f"sparrow.{name}")
    raise AttributeError(f"module 'sparrow' has no attribute {name!r}")
