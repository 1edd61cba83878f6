"""Expressions with every kind of node, for tests of how plans travel and are cut."""

from __future__ import annotations

from typing import Any

import numpy as np

import sparrow as sp


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two numbers: a function that is found by name."""
    return max(a, b)


def least(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers."""
    return min(a, b)


WIDEST = sp.Semiring(larger, least, identity=0, name="widest path")


def expressions(A: Any, B: Any) -> dict[str, Any]:
    """Return lazy tensors of two square matrices of 12 rows, by name."""
    dense = np.arange(1.0, 1 + A.shape[1])
    shared = A * 3 + B
    found = {
        "add": A + B,
        "multiply": A * B,
        "dense": A * dense,
        "where": sp.where(A > B, A, 0),
        "cast": (A / 2).astype("float32"),
        "clip": A.clip(1, 3),
        "fill": np.cos(A) + 1,
        "refill": (A + 1).refill(0),
        "quotient": A / A.sum(axis=1, keepdims=True),
        "concat": sp.concat([A, B])[::-3, 1:3],
        "concat across": sp.concat([A, B], 1),
        "stack": sp.stack([A, B], 1),
        "reshape": sp.reshape(A, (4, -1)),
        "reshape more": sp.reshape(A, (2, 6, 2, -1))[1, ::-1],
        "triangle": sp.tril(A, 1)[::-1],
        "triangle above": sp.triu(B, -1)[1:4, 2:],
        "diagonal": sp.diagonal(A, 1),
        "diagonal below": sp.diagonal(B, -2)[1:],
        "roll": sp.roll(A, 2, 1),
        "sort": sp.sort(A, axis=1),
        "sort across": sp.sort(A, axis=0),
        "topk": A.topk(2, axis=1),
        "transposed": (A + B.T * 2)[1:, ::-2],
        "broadcast": (A.T + B.sum(axis=0, keepdims=True))[3:0:-1],
        "row and column": np.maximum(A, B)[2] + A[:, 1],
        "list": (A > B)[[4, 1, 1]].sum(axis=0),
        "pairs": (A + B)[[0, 2, 3], [1, 1, 4]] * 2,
        "cube": ((A + B)[..., None] * (A - 1)[:, None, :]).sum(axis=(0, 2)),
        "variance": (A + 0.5).var(axis=0, keepdims=True) * (B + A),
        "shared": shared @ shared.T + shared,
        "matmul": A @ B,
        "matmul of views": A[1:, ::2] @ B[::2],
        "masked": sp.matmul(A, B, mask=A),
        "unmasked": sp.matmul(A, B, mask=A, complement=True),
        "product topk": sp.matmul(A, B, topk=3),
        "shortest": sp.matmul(A, B, semiring="min_plus"),
        "widest": sp.matmul(A, B, semiring=WIDEST),
        "chain": sp.einsum("ij,jk,kl->il", A, B, A),
        "triangles": sp.einsum("ij,jk,ik->i", A, B, A),
        "outer": sp.einsum("ij,kl->ikj", A, B[:2]),
        "sums of a product": (A @ B).sum(axis=1),
        "columns of a product": (A @ B).max(axis=0),
    }
    for name in ("sum", "mean", "std", "min", "argmax", "count", "any", "norm", "nanmax"):
        found[f"{name} of rows"] = getattr(A, name)(axis=1)
        found[f"{name} of columns"] = getattr(A + B, name)(axis=0)
    return found
