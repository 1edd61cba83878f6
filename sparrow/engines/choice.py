"""Choice of the engine of an evaluation, by cost.

``engine="auto"`` compares what engines would do with the root of a plan, from metadata: the number of stored elements
and multiplications, what is in memory, and how often the process has asked before. Only engines with the same bits take
part, except a device that the settings name. ``engine=`` of a call and of :class:`sparrow.config` force one instead.

``docs/engines.md`` has the measurements.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparrow.engines.cluster import Cluster, RepeatedRounds
from sparrow.engines.protocol import DeviceEngine, Engine
from sparrow.engines.registry import STREAM, engine_for
from sparrow.engines.repeats import RepeatedProduct, RepeatedProducts, repeats_of, rows_bytes
from sparrow.engines.stream import Stream
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.engines.tuning import tuning
from sparrow.errors import InvalidValueError
from sparrow.kernels.coo import accumulator_dtype
from sparrow.plan import Contraction, Node, Root, Scan, matrix_form
from sparrow.plan.estimates import estimate_contraction, estimate_nnz
from sparrow.relations.csr import CSRRelation
from sparrow.runtime import settings
from sparrow.runtime.progress import format_quantity

__all__ = ["Choice", "PersistedProduct", "choose", "given_engine", "runs_tasks"]


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
    estimates: Mapping[str, float] = field(default_factory=dict)
    """Estimates compared: "elements" read, "products", milliseconds by engine."""


class PersistedProduct(Stream):
    """The stream engine for a product of persisted rows of a matrix.

    Parameters
    ----------
    repeats
        Products of that matrix, which keep the rows.
    """

    def __init__(self, repeats: RepeatedProducts) -> None:
        self._repeats = repeats

    def evaluate_dense(self, node: Node) -> Any:
        """Return the product, of the rows if they fit in memory."""
        scan = matrix_operand(node)
        assert isinstance(node, Contraction)
        assert scan is not None
        rows = self._repeats.persist(scan, accumulator_dtype(node.schema.dtype))
        form = None if rows is None else matrix_form(node)
        if rows is None or form is None:
            return super().evaluate_dense(node)
        return matmul_dense(form, node.schema.dtype, rows.accumulate)

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


def given_engine(engine: str) -> Engine | None:
    """Return the engine that a call or the settings force, None for "auto".

    Raises
    ------
    InvalidValueError, UnsupportedError, MissingDependencyError
        If there is no such engine, or it is not available.
    """
    found = engine_for(engine)
    return found if engine != "auto" or settings.current().engine != "auto" else None


def runs_tasks() -> bool:
    """Return whether the settings name a cluster."""
    return isinstance(given_engine("auto"), Cluster)


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
    given = given_engine(engine)
    if given is not None:
        return _choose_rounds(given, root, repeats) if isinstance(given, Cluster) else Choice(given)
    node = root if isinstance(root, Node) else root.step if isinstance(root, Scan) else None
    if node is None:
        return _READ
    if not isinstance(node, Contraction):
        return _FASTEST
    if repeats is None and all(scan.step is None and scan.relation.is_small for scan in node.tensors):
        return _SMALL
    return _choose_device(node) or (_choose_for_array(node, repeats) if node.is_dense else _choose_for_tensors(node))


def _choose_rounds(given: Cluster, root: Root, repeats: RepeatedProducts | None) -> Choice:
    """Return the engine of a root where the settings name a cluster.

    Repeated products of a matrix whose rows fit in the memory of this process run here.
    """
    node = root if isinstance(root, Contraction) and root.is_dense else None
    scan = None if node is None else matrix_operand(node)
    if node is None or scan is None:
        return Choice(given)
    if scan.step is None:
        if given.repeats_here(scan):
            local = _choose_for_array(node, repeats)
            if local is _PERSISTED or type(local.engine) is PersistedProduct:
                return local
        repeats = repeats or repeats_of(scan.relation)
    if repeats is None:
        return Choice(given)
    return Choice(RepeatedRounds(given, repeats), "", repeats.find(scan.view, accumulator_dtype(node.schema.dtype)))


def _choose_device(node: Contraction) -> Choice | None:
    """Return the device of the settings if a contraction is large enough for it."""
    name, limits = settings.current().device, tuning()
    if name == "none":
        return None
    elements = sum(map(estimate_nnz, node.tensors))
    products = estimate_contraction(node)[0]
    if products < max(limits.device_min_products, limits.device_products_per_element * elements):
        return None
    found = engine_for(name)
    if not isinstance(found, DeviceEngine):
        raise InvalidValueError(f"device must be an engine with a device, such as 'cupy', got {name!r}")
    if found.unsupported_reason(node) is not None:
        return None
    reason = f"{name}: {products / max(elements, 1):.3g} products per element pay for the transfer"
    return Choice(found, reason, estimates={"elements": elements, "products": products})


def _choose_for_array(node: Contraction, repeats: RepeatedProducts | None) -> Choice:
    """Return the engine of a contraction with arrays."""
    scan = matrix_operand(node)
    if scan is None:
        return _FASTEST
    if scan.step is not None:
        return _COMPUTED
    if repeats is None:
        if isinstance(scan.relation, CSRRelation):
            return _PERSISTED
        repeats = repeats_of(scan.relation)
    dtype = accumulator_dtype(node.schema.dtype)
    product = repeats.find(scan.view, dtype)
    number = f"product {product.count + 1} of this matrix"
    if product.rows is not None:
        size = format_quantity(product.nbytes, "bytes")
        return Choice(PersistedProduct(repeats), f"persisted rows: {number}, {size} in memory", product)
    if not repeats.is_due(product, scan):
        return Choice(STREAM, f"stream: {number}, repeated ones persist its rows", product)
    product.refusal = product.find_refusal(scan, dtype)
    if product.refusal:
        return Choice(STREAM, f"stream: {number}, whose rows of {product.refusal}", product)
    nbytes = rows_bytes(scan, dtype)
    reason = f"persisted rows: {number}, at most {format_quantity(nbytes, 'bytes')} in memory"
    return Choice(PersistedProduct(repeats), reason, product, {"bytes": nbytes})


def _choose_for_tensors(node: Contraction) -> Choice:
    """Return the engine of a contraction of tensors.

    A join skips the elements of a large stored tensor that meet none of a small one before it decodes them; its hash
    tables make each product expensive.
    """
    scans, limits = node.tensors, tuning()
    if len(scans) != 2 or len(node.operands) != 2 or node.mask is not None or not _is_exact(node):
        return _FASTEST
    if not all(scan.is_stored for scan in scans) or not settings.current().has_ample_memory:
        return _FASTEST
    if max(scan.relation.nnz for scan in scans) < limits.duckdb_min_elements:
        return _FASTEST
    elements, small = _elements_to_read(scans)
    products = estimate_contraction(node)[0]
    start = limits.duckdb_query_ms if "duckdb" in sys.modules else limits.duckdb_load_ms
    estimates = {
        "elements": elements,
        "products": products,
        "stream": 1e-6 * limits.stream_element_ns * elements,
        "duckdb": start + 1e-6 * (limits.duckdb_element_ns * elements + limits.duckdb_product_ns * products),
    }
    other = engine_for("duckdb")
    if estimates["stream"] < limits.min_gain * estimates["duckdb"] or other.unsupported_reason(node) is not None:
        return Choice(STREAM, _FASTEST.reason, estimates=estimates)
    reason = f"duckdb: a join of {elements:.3g} elements with {small:.3g}, {products:.3g} products expected"
    return Choice(other, reason, estimates=estimates)


def _elements_to_read(scans: tuple[Scan, ...]) -> tuple[float, float]:
    """Return the elements that a product reads of the larger of two relations.

    And the number of elements of the smaller one.
    """
    stats = [scan.relation.stats(scan.view.box()) for scan in scans]
    large = int(stats[1].rows > stats[0].rows)
    rows, small = float(stats[large].rows), float(stats[1 - large].rows)
    if large:  # of the right operand, the stream engine reads row groups with the rows that the left one has
        rows = min(rows, small * rows / max(stats[large].row_groups_read, 1))
    return rows, small


def _is_exact(node: Contraction) -> bool:
    """Return whether the bits of a result do not depend on the order of its products."""
    add = node.semiring.add
    if add == "plus":
        return node.schema.dtype.kind in "biu"
    return add in ("min", "max", "or") or (add == "any" and node.semiring.multiply == "pair")
