"""Physical plans of products: layouts, tiling, kernel, combination, output.

A plan is a choice in five places that do not depend on each other, except that a tiling determines the layouts that it
reads and the way its results are combined: :data:`SCHEDULES` lists these. The planner orders the schedules of a product
by cost. The first one that its operands admit is used, since whether rows and columns can be cut shows only when they
are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream.product.operands import Operands
from sparrow.engines.stream.product.tuning import tuning
from sparrow.plan import Contraction, Dense, Scan, Semiring, matrix_form
from sparrow.plan.estimates import estimate_contraction, estimate_nnz
from sparrow.relations.csr import csr_rows
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from sparrow.runtime.progress import format_quantity

__all__ = [
    "ARRAY_SCHEDULES", "KERNELS", "OUTPUTS", "SCHEDULES", "Costs", "PhysicalPlan", "Schedule", "can_add_partial_sums",
    "estimate_costs", "estimate_node_costs", "is_valid", "plan_node", "plan_product",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Schedule:
    """Order in which parts of the operands are multiplied."""

    tiling: str
    """"whole", "row_subset" (rows of the right operand that the left one matches), "row_sections" of the left operand,
    or "k_panels" of the right one."""
    lhs_layout: str
    """"csr" in memory, "spilled_csr" in a spill file, or a stream of "row_blocks"."""
    rhs_layout: str
    combine: str
    """"concat" rows, "add" partial rows, or add elements by an "external_sort"."""

    def __str__(self) -> str:
        return f"{self.tiling} of {self.lhs_layout} x {self.rhs_layout}, {self.combine}"


WHOLE = Schedule("whole", "csr", "csr", "concat")
STREAMED = Schedule("whole", "row_blocks", "csr", "concat")
ROW_SUBSET = Schedule("row_subset", "csr", "csr", "concat")
ROW_SECTIONS = Schedule("row_sections", "spilled_csr", "spilled_csr", "concat")
K_PANELS = Schedule("k_panels", "spilled_csr", "spilled_csr", "add")
EXTERNAL_SUM = Schedule("k_panels", "row_blocks", "row_blocks", "external_sort")

SCHEDULES = (WHOLE, STREAMED, ROW_SUBSET, ROW_SECTIONS, K_PANELS, EXTERNAL_SUM)
"""The valid combinations of tiling, layouts and combination for two tensors."""

KERNELS = ("gustavson", "masked", "dot")
"""Rows of the product, rows at the stored elements of a mask, dot products at these."""

OUTPUTS = ("blocks", "csr", "scalar")
"""Elements with coordinates, rows in CSR, the sum of all elements."""

PERSISTED_ARRAY = Schedule("whole", "csr", "array", "concat")
STREAMED_ARRAY = Schedule("whole", "row_blocks", "array", "add")

ARRAY_SCHEDULES = (PERSISTED_ARRAY, STREAMED_ARRAY)
"""Schedules of a tensor and arrays. Their kernels are "runs" of elements of one output row, which threads sum in
parallel, and "scatter", which one thread adds; their output is an "array"."""


def is_valid(schedule: Schedule, kernel: str, output: str) -> bool:
    """Return whether a schedule, a kernel and an output can be combined."""
    is_row_wise = schedule.combine == "concat"
    if output == "scalar":
        return is_row_wise and kernel != "gustavson"
    if output == "csr":
        return is_row_wise and kernel == "gustavson"
    return kernel != "dot" or schedule.tiling in ("whole", "row_subset")


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """A schedule, a kernel and an output."""

    schedule: Schedule
    kernel: str
    output: str
    is_rhs_large: bool = False
    """True if the right operand should not be held in memory as a whole."""

    def __str__(self) -> str:
        return f"{self.schedule}, {self.kernel}, {self.output}"


@dataclass(frozen=True, slots=True)
class Costs:
    """Estimated costs of a plan."""

    flops: float
    """Multiplications."""
    held_bytes: float
    """Bytes of operands held in memory at a time."""
    spilled_bytes: float
    """Bytes written to spill files."""
    elements_read: float
    """Elements of both operands that are read, from their source or from spill files."""

    def __str__(self) -> str:
        held, spilled = (format_quantity(round(n), "bytes") for n in (self.held_bytes, self.spilled_bytes))
        return f"{held} held, {spilled} spilled, {self.elements_read:.3g} elements read"


def can_add_partial_sums(semiring: Semiring) -> bool:
    """Return whether partial sums can be added by the external sort."""
    return semiring.add in ("plus", "min", "max", "or", "any")


def plan_product(operands: Operands) -> list[PhysicalPlan]:
    """Return the plans of a product, the preferred one first. Does no I/O.

    Which of them are tried depends on the memory limit and on metadata alone, so a product has the same bits in each
    run under one limit.
    """
    current = tuning()
    kernel = (current.kernel or "masked") if operands.is_masked else "gustavson"
    is_csr = operands.can_output_csr and kernel == "gustavson"
    lhs_nnz, rhs_nnz = (each.nnz_estimate for each in (operands.lhs, operands.rhs))
    is_large = _is_large(operands, rhs_nnz)
    plans = []
    for schedule in _schedules(operands, lhs_nnz, rhs_nnz, is_large):
        output = "csr" if is_csr and schedule.combine == "concat" else "blocks"
        own = kernel if is_valid(schedule, kernel, output) else "masked"
        plans.append(PhysicalPlan(schedule, own, output, is_large))
    return plans


def _schedules(operands: Operands, lhs_nnz: float, rhs_nnz: float, is_large: bool) -> list[Schedule]:
    """Return the schedules of a product in order of preference."""
    current, roles = tuning(), operands.roles
    lhs_bytes = lhs_nnz * operands.lhs.scan.schema.element_bytes(wide=True)
    same = operands.lhs.same_as(operands.rhs)
    fits = same or lhs_bytes <= memory.share(current.lhs_share)
    fits = fits if current.lhs_layout is None else current.lhs_layout == "csr"
    held = WHOLE if fits or not roles.rows else STREAMED
    is_subset = fits and not same and len(roles.shared) == 1 and lhs_nnz * current.row_subset_ratio <= rhs_nnz
    if current.tiling == "row_subset":
        is_subset = fits and not same and len(roles.shared) == 1
    if not is_large and (fits or roles.rows):
        return [ROW_SUBSET] if is_subset and current.tiling != "whole" else [held]
    spilled = [ROW_SECTIONS, K_PANELS] if roles.rows else []
    if can_add_partial_sums(operands.node.semiring):
        spilled.append(EXTERNAL_SUM)
    forced = [each for each in spilled if each.tiling == current.tiling and current.combine in (None, each.combine)]
    if forced:
        spilled = [*forced, *(each for each in spilled if each not in (*forced, ROW_SECTIONS))]
    return [*([ROW_SUBSET] if is_subset and not forced else []), *spilled, held]


def _is_large(operands: Operands, rhs_nnz: float) -> bool:
    """Return whether the right operand spills rather than being held."""
    rhs, current = operands.rhs, tuning()
    if isinstance(rhs.scan.source, MemoryRelation) and rhs.scan.view.is_identity:
        return False
    if current.tiling is not None:
        return current.tiling not in ("whole", "row_subset")
    return rhs_nnz * operands.rhs_element_bytes > operands.budget.working_bytes() // current.rhs_share


def estimate_costs(operands: Operands, schedule: Schedule) -> Costs:
    """Return the estimated costs of a schedule; may count elements in memory."""
    node, current = operands.node, tuning()
    lhs_nnz, rhs_nnz = (float(each.nnz_estimate) for each in (operands.lhs, operands.rhs))
    flops, nnz = estimate_contraction(node)
    lhs_bytes, rhs_bytes = lhs_nnz * operands.lhs.element_bytes(operands.dtype), rhs_nnz * operands.rhs_element_bytes
    both, out_bytes = lhs_nnz + rhs_nnz, node.schema.element_bytes()
    number = max(rhs_bytes / operands.panel_bytes(), 1)
    part = min(operands.panel_bytes(), rhs_bytes)
    match schedule.tiling, schedule.combine:
        case "whole", _:
            same = operands.lhs.same_as(operands.rhs)
            held = rhs_bytes + (lhs_bytes if schedule.lhs_layout == "csr" and not same else 0)
            return Costs(flops, held, 0, rhs_nnz if same else both)
        case "row_subset", _:
            matched = min(flops, rhs_nnz)
            return Costs(flops, lhs_bytes + matched * operands.rhs_element_bytes, 0, lhs_nnz + matched)
        case "row_sections", _:
            held = min(operands.budget.working_bytes() / current.section_share, rhs_bytes)
            return Costs(flops, held, lhs_bytes + rhs_bytes, both + lhs_nnz + rhs_nnz * number)
        case _, "add":
            partial = min(nnz * number, flops) * out_bytes
            return Costs(flops, part, lhs_bytes + rhs_bytes + partial, 2 * both)
        case _:
            held = min(operands.budget.working_bytes() / current.panel_share, rhs_bytes)
            return Costs(flops, held, flops * out_bytes, both)


# -- rendered plans ------------------------------------------------------------------------------


def plan_node(node: Contraction) -> PhysicalPlan | None:
    """Return the preferred plan of a contraction; None for more than two tensors."""
    if node.is_dense:
        return _plan_arrays(node)
    return plan_product(Operands(node, *node.scans))[0] if len(node.tensors) == len(node.operands) == 2 else None


def estimate_node_costs(node: Contraction) -> Costs | None:
    """Return the estimated costs of a contraction; None for more than two tensors."""
    plan = plan_node(node)
    if plan is None:
        return None
    if not node.is_dense:
        return estimate_costs(Operands(node, *node.scans), plan.schedule)
    arrays = sum(each.array.nbytes for each in node.operands if isinstance(each, Dense))
    out_bytes = node.schema.size * node.schema.dtype.itemsize
    return Costs(estimate_contraction(node)[0], arrays + out_bytes, 0, sum(map(estimate_nnz, node.tensors)))


def _plan_arrays(node: Contraction) -> PhysicalPlan:
    """Return the plan of a contraction of a tensor with arrays."""
    form = matrix_form(node)
    if form is None:
        (scan,), own = (
            node.tensors,
            next(own for each, own in zip(node.operands, node.indices, strict=True) if isinstance(each, Scan)),
        )
        axes = [axis for axis, index in enumerate(own) if index in node.output_indices]
    else:
        scan, axes = form.scan, list(range(form.scan.view.ndim - 1))
        if scan.step is None and csr_rows(scan.relation, scan.view) is not None:
            return PhysicalPlan(PERSISTED_ARRAY, "runs", "array")
    order = tuple(range(scan.source.schema.ndim)) if scan.step is not None else product_order(scan, axes)
    return PhysicalPlan(STREAMED_ARRAY, "runs" if groups_output(scan.view, order, axes) else "scatter", "array")
