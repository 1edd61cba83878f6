"""Nodes of a rendered plan: texts and counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparrow.core.schema import Schema
from sparrow.runtime.quantities import format_quantity

__all__ = ["PlanEntry", "format_schema"]


@dataclass(slots=True)
class PlanEntry:
    """One node of a rendered plan."""

    depth: int
    operation: str
    """Such as "map add" or "scan"."""
    schema: Schema | None
    """Schema of the result; None for a scalar operand."""
    note: str = ""
    """Follows the schema."""
    details: list[tuple[str, str]] = field(default_factory=list)
    """Names and texts: the engine, the predicate, ..."""
    reads: dict[str, int] = field(default_factory=dict)
    """Files, row groups, rows and bytes that a scan reads and skips; bytes of files are compressed."""
    actual: dict[str, Any] = field(default_factory=dict)
    """Counters of the node if the plan was analyzed."""
    rounds: list[dict[str, Any]] = field(default_factory=list)
    """Estimates of the rounds of tasks of a plan, at its first node."""

    @property
    def head(self) -> str:
        """The first line."""
        return f"{self.operation}{'' if self.schema is None else f' {format_schema(self.schema)}'}{self.note}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The details, and the counters as one of them."""
        return [*self.details, ("actual", _format_actual(self.actual))] if self.actual else self.details


def _format_actual(actual: dict[str, Any]) -> str:
    """Return the counters of a node as text."""
    parts = [f"{actual['rows']} elements"]
    if actual["bytes"]:
        parts.append(format_quantity(actual["bytes"], "bytes"))
    plural = "s" * (actual["partitions"] != 1)
    if actual["bytes_read"]:
        nbytes = format_quantity(actual["bytes_read"], "bytes")
        parts.append(f"{nbytes} decoded in {actual['partitions']} chunk{plural}")
    elif actual["partitions"]:
        parts.append(f"{actual['partitions']} partition{plural}")
    parts.append(f"{1000 * actual['seconds']:.1f} ms")
    if actual["flops"] or actual["elements_read"]:
        parts.append(f"{actual['flops']} products, {format_quantity(actual['held_bytes'], 'bytes')} held")
    if actual["flops"] or actual["spilled_bytes"]:
        parts.append(f"{format_quantity(actual['spilled_bytes'], 'bytes')} spilled")
    if actual["elements_read"]:
        parts.append(f"{actual['elements_read']} elements read")
    if actual["strategy"]:
        parts.append(actual["strategy"])
    return ", ".join(parts)


def format_schema(schema: Schema) -> str:
    """Return the names and sizes of dimensions, and the dtype."""
    return f"({', '.join(f'{name}: {n}' for name, n in zip(schema.dims, schema.shape, strict=True))}) {schema.dtype}"
