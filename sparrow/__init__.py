"""sparrow: a sparse tensor store and query engine.

A tensor is a relation, one integer column for each dimension and one column of values, kept as
Parquet under a Delta log. Open it like an array, query it like a table, multiply it without loading it.

* :func:`open`, :func:`from_coords`, :func:`asarray`, :func:`random`, :mod:`sparrow.ingest` and
  :mod:`sparrow.datasets` make tensors;
* :class:`Tensor` is what they are: ``A[5:9]``, ``A.T``, ``A @ x``, ``A.explain()``, ``A.save(path)``;
* :func:`where`, :func:`concat`, :func:`reshape` and their kin, and NumPy's own functions, make lazy expressions;
* ``A.compute()`` and ``A.persist()`` bring one of them into memory, :func:`compute` several together;
* :func:`export` writes them to files of other programs;
* :func:`sql` asks questions of them; :func:`from_relation` makes a tensor of the answer;
* :mod:`sparrow.models` fits models to them: :class:`sparrow.models.ALS`;
* :mod:`sparrow.formats` are containers of arrays, such as compressed rows: ``asarray`` takes them, ``A.to_format(...)``
  gives them, and a tensor's storage type, ``A.asformat(...)``, says what operations make of it;
* :func:`config` sets memory limit, threads and temporary folder; :mod:`sparrow.errors` is the tree of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparrow import errors, formats
from sparrow.functions import numpy as _dispatch  # noqa: F401 - NumPy's functions find sparrow's
from sparrow.functions.creation import asarray, from_coords, from_relation, open, zeros  # noqa: A004 - sp.open is its name
from sparrow.functions.generation import eye, full, full_like, ones, ones_like, random, zeros_like
from sparrow.functions.manipulation import (
    broadcast_to,
    concat,
    diagonal,
    expand_dims,
    flip,
    kron,
    moveaxis,
    nonzero,
    repeat,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    tile,
    tril,
    triu,
    unique,
)  # fmt: skip
from sparrow.functions.sorting import cumulative_prod, cumulative_sum, sort
from sparrow.functions.sql import sql
from sparrow.settings import config
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle
from sparrow.tensor.computing import compute
from sparrow.tensor.operators import where
from sparrow.tensor.products import matmul

if TYPE_CHECKING:
    from sparrow import datasets, ingest, models
    from sparrow.files.exporting import export

__version__ = "0.1.0"

__all__ = [
    "Bundle",
    "Tensor",
    "asarray",
    "broadcast_to",
    "compute",
    "concat",
    "config",
    "cumulative_prod",
    "cumulative_sum",
    "datasets",
    "diagonal",
    "errors",
    "expand_dims",
    "export",
    "eye",
    "flip",
    "formats",
    "from_coords",
    "from_relation",
    "full",
    "full_like",
    "ingest",
    "kron",
    "matmul",
    "models",
    "moveaxis",
    "nonzero",
    "ones",
    "ones_like",
    "open",
    "random",
    "repeat",
    "reshape",
    "roll",
    "sort",
    "split",
    "sql",
    "squeeze",
    "stack",
    "tile",
    "tril",
    "triu",
    "unique",
    "where",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name in ("datasets", "ingest", "models"):
        import importlib

        return importlib.import_module(f"sparrow.{name}")
    if name == "export":
        from sparrow.files.exporting import export

        return export
    raise AttributeError(f"module 'sparrow' has no attribute {name!r}")
