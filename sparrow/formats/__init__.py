"""Containers of arrays in the sparse formats of other libraries.

Coordinates, compressed rows or columns, whole rows. ``sp.asarray(CSR(data, indices, indptr, shape))`` is a tensor of
that storage type, and ``A.to_format("csr")`` returns the arrays of a tensor. COO takes elements in any order, CSR is
what numerical libraries work on, RowSparse is the format of gradients of embeddings.

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
