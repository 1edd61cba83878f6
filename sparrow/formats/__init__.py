"""Containers of arrays, as other libraries lay out sparse arrays: coordinates, compressed rows or columns, whole rows.

They carry arrays in and out: ``sp.asarray(CSR(data, indices, indptr, shape))`` is a tensor of that storage type, and
``A.to_format("csr")`` gives the arrays of a tensor. COO takes entries as they come, CSR is what arithmetic libraries
work on, RowSparse is how gradients of embeddings come.

Examples
--------
>>> import sparrow as sp
>>> A = sp.asarray(sp.formats.CSR([7, 8, 9], [0, 2, 1], [0, 2, 2, 3], shape=(3, 3)))
>>> (A * 2).to_format("csc").data
array([14, 18, 16])
"""

from __future__ import annotations

from sparrow.formats.compressed import CSC, CSR
from sparrow.formats.container import Container, from_entries
from sparrow.formats.coo import COO
from sparrow.formats.row_sparse import RowSparse

__all__ = ["COO", "CSC", "CSR", "Container", "RowSparse", "from_entries"]


def __dir__() -> list[str]:
    return sorted(__all__)
