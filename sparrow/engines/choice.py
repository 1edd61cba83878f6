"""Choice of the engine of an evaluation, by cost.

``engine="auto"`` compares what engines would do with the root of a plan, from metadata: the number of stored elements
and multiplications, what is in memory, and how often the process has asked before. Only engines with the same result
take part. ``engine=`` of a call and of :class:`sparrow.config` force one instead.

The constants come from ``bench/engines.py``; ``docs/engines.md`` shows its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparrow.engines.protocol import Engine
from sparrow.engines.registry import STREAM, engine_for
from sparrow.engines.repeats import RepeatedProduct, RepeatedProducts, find_refusal, repeats_of, rows_bytes
from sparrow.engines.stream import Stream
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.kernels.coo import accumulator_dtype
from sparrow.plan import Contraction, Node, Root, Scan, matrix_form
from sparrow.relations.csr import CSRRelation
from sparrow.runtime import settings
from sparrow.runtime.progress import format_quantity

__all__ = ["Choice", "PersistedProduct", "choose"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine of an evaluation.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1], [1, 0]], [2.0, 3.0])
    >>> choose(A.__sparrow_scan__(), "duckdb").engine.name
    'duckdb'
    """

    engine: Engine
    reason: str = ""
    """Why it was chosen; empty if it was given, or nothing is computed."""
    product: RepeatedProduct | None = None
    """Products of the same matrix, for a product of a matrix with an array."""


class PersistedProduct(Stream):
    """The stream engine for a product of persisted rows of a matrix.

    Parameters
    ----------
    product
        Products of that matrix, which keeps the rows.
    """

    def __init__(self, product: RepeatedProduct) -> None:
        self._product = product

    def evaluate_dense(self, node: Node) -> Any:
        """Return the product, of the rows if they fit in memory."""
        scan = matrix_operand(node)
        assert isinstance(node, Contraction)
        assert scan is not None
        rows = self._product.persist(scan, accumulator_dtype(node.schema.dtype))
        return super().evaluate_dense(node) if rows is None else matmul_dense(node, rows.accumulate)

    def describe(self, node: Root) -> str:
        """Return the strategy."""
        return f"rows of a persisted matrix, {settings.current().threads} threads"


_SMALL = Choice(STREAM, "stream: the operands are small and in memory")
_PERSISTED = Choice(STREAM, "stream: the matrix is persisted")
_COMPUTED = Choice(STREAM, "stream: the matrix is an expression, computed for each product; persist() computes it once")
_FASTEST = Choice(STREAM, "stream: other engines take longer for this node")
_READ = Choice(STREAM)


def matrix_operand(node: Node) -> Scan | None:
    """Return the scan of a product of a matrix with an array, else None.

    Its contracted axis is the last one.
    """
    form = matrix_form(node) if isinstance(node, Contraction) else None
    return form.scan if form is not None and form.scan.view.ndim == 2 else None


def choose(root: Root, engine: str = "auto", repeats: RepeatedProducts | None = None) -> Choice:
    """Return the engine of a root.

    Reads the log and footers of files, no data.

    Parameters
    ----------
    engine
        Name of an engine; "auto" for that of the settings, or the one of least cost.
    repeats
        What counts the products of the matrix of a product; by default all of the process since it was opened.

    Raises
    ------
    InvalidValueError, UnsupportedError, MissingDependencyError
        If there is no such engine, or it is not available.
    """
    if engine != "auto" or settings.current().engine != "auto":
        return Choice(engine_for(engine))
    if not isinstance(root, Node):
        step = root.step if isinstance(root, Scan) else None
        return _READ if step is None else _FASTEST
    if not isinstance(root, Contraction):
        return _FASTEST
    if repeats is None and all(scan.step is None and scan.relation.is_small for scan in root.tensors):
        return _SMALL
    scan = matrix_operand(root)
    if scan is None:
        return _FASTEST
    if scan.step is not None:
        return _COMPUTED
    if repeats is None:
        if isinstance(scan.relation, CSRRelation):
            return _PERSISTED
        repeats = repeats_of(scan.relation)
    return _choose_of_product(scan, accumulator_dtype(root.schema.dtype), repeats)


def _choose_of_product(scan: Scan, dtype: np.dtype[Any], repeats: RepeatedProducts) -> Choice:
    """Return the engine of a product of a matrix with an array."""
    product = repeats.find(scan.view, dtype)
    number = f"product {product.count + 1} of this matrix"
    if product.rows is not None:
        size = format_quantity(product.nbytes, "bytes")
        return Choice(PersistedProduct(product), f"persisted rows: {number}, {size} in memory", product)
    if not repeats.is_due(product):
        return Choice(STREAM, f"stream: {number}, repeated ones persist its rows", product)
    product.refusal = find_refusal(scan, dtype)
    if product.refusal:
        return Choice(STREAM, f"stream: {number}, whose rows of {product.refusal}", product)
    size = format_quantity(rows_bytes(scan, dtype), "bytes")
    return Choice(PersistedProduct(product), f"persisted rows: {number}, at most {size} in memory", product)
