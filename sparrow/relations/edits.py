"""Edits of tensors, and their effect on elements in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, is_fill
from sparrow.kernels.coo import Block, Duplicates, merge_blocks

__all__ = ["Edit", "Growth", "apply_edit", "merge_labels"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Atomic change of a tensor: clear boxes, then write elements.

    ``upsert`` holds base coordinates, sorted and unique; a value equal to the fill value removes the element.
    ``existing`` is the rule for elements that exist: ``"last"`` replaces them.
    """

    operation: str
    clear: tuple[Box, ...] = ()
    upsert: Block | None = None
    existing: Duplicates = "last"
    shape: tuple[int, ...] | None = None
    """New shape, if it changes."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Elements appended together with new labels of dimensions."""

    labels: Mapping[int, pa.Array | None]
    """All labels of growing dimensions, old ones first; None removes the labels of a dimension."""
    shape: tuple[int, ...]
    edits: Callable[[], Iterable[Edit]]
    """Returns an iterator over edits, in coordinates of the new shape, that clear no boxes."""
    n_unchanged: Mapping[int, int] = field(default_factory=dict)
    """Number of unchanged labels of each dimension whose new labels follow them."""


T = TypeVar("T")


def merge_labels(old: Mapping[int, T], new: Mapping[int, T | None]) -> dict[int, T]:
    """Return labels by dimension, updated with ``new``; None removes them."""
    return {dim: found for dim, found in {**old, **new}.items() if found is not None}


def apply_edit(block: Block, edit: Edit, schema: Schema) -> Block:
    """Apply an edit to canonical elements; the reference for stored tensors.

    Raises
    ------
    DuplicateError
        If ``existing`` is ``"error"`` and an element of ``upsert`` exists.
    """
    for box in edit.clear:
        block = block.take(~box.contains(block.coords)) if block.count else block
    if edit.upsert is not None and edit.upsert.count:
        block = merge_blocks(block, edit.upsert, schema.shape, edit.existing)
    absent = is_fill(block.values, schema.fill_value)
    return block.take(~absent) if absent.any() else block
