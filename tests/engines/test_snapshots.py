"""Snapshots of the SQL of expressions, so that changes are reviewed.

``SPARROW_SNAPSHOTS=write`` writes the file anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.engines.duckdb import compile_query

FILE = Path(__file__).parent / "snapshots.json"

EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda A, B: A,
    "view": lambda A, B: A[::-2, 3],
    "list": lambda A, B: A[[2, 0, 2]],
    "scalar": lambda A, B: A * 2 + 1,
    "union": lambda A, B: A + B,
    "intersection": lambda A, B: A * B,
    "divide": lambda A, B: A / B,
    "broadcast": lambda A, B: A * B[:1],
    "dense": lambda A, B: A * np.arange(4.0),
    "where": lambda A, B: sp.where(A > B, A, 0),
    "cast": lambda A, B: A.astype("float32"),
    "sum": lambda A, B: A.sum(axis=0),
    "mean of stored": lambda A, B: A.mean(axis=1, where="stored"),
    "std": lambda A, B: A.std(axis=0, ddof=1),
    "max kept": lambda A, B: A.max(axis=1, keepdims=True),
    "concat": lambda A, B: sp.concat([A, B], 1),
    "reshape": lambda A, B: sp.reshape(A, (2, 6)),
    "triangle": lambda A, B: sp.triu(A, 1),
    "diagonal": lambda A, B: sp.diagonal(A, -1),
    "twice": lambda A, B: (A + B).sum(axis=0) + (A + B)[0],
    "pushed": lambda A, B: (A + B).sum(axis=1)[1:],
    "product": lambda A, B: A @ B.T,
    "product of ints": lambda A, B: A.astype("int64") @ B.astype("int32").T,
    "masked product": lambda A, B: sp.matmul(A, B.T, semiring="min_plus", mask=A[:, :3], complement=True),
    "mask of a product": lambda A, B: (A @ B.T) * A[:, :3],
    "turned": lambda A, B: (A + B).T[:, 1],
}


def sql_of(expression: Any) -> str:
    """Return the query of an expression."""
    return re.sub(r"\s+", " ", compile_query(expression.__sparrow_scan__()).text)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_sql_equals_snapshot(name: str) -> None:
    A: Any = sp.from_coords([[0, 2], [1, 3]], [1.5, 2.0], shape=(3, 4), dims=("row", "col"))
    B: Any = sp.from_coords([[0, 1], [1, 2]], [4.0, -1.0], shape=(3, 4), dims=("row", "col"))
    found = sql_of(EXPRESSIONS[name](A, B))
    if os.environ.get("SPARROW_SNAPSHOTS") == "write":
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}
        FILE.write_text(json.dumps(kept | {name: found}, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(FILE.read_text())[name]


def test_snapshots_have_no_leftovers() -> None:
    assert set(json.loads(FILE.read_text())) == set(EXPRESSIONS)
