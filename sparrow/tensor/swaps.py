"""Swaps of parts of a tensor, ``A[i], A[j] = A[j], A[i]``, as shuffles do them.

Python takes both views, then writes one after the other. Views are live, so the second one shows what the first write
left, and its elements would be lost. Here they are what they were when the view was taken: only then does the second
write change anything.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sparrow.core.indexing import View
from sparrow.relations.protocol import Handle
from sparrow.tensor.base import Base

__all__ = ["Overwrite", "begin_write", "end_write"]


@dataclass(slots=True)
class Overwrite:
    """Part of a tensor that was overwritten with another part."""

    target: View
    source: View
    elements: Base
    """Elements of the target before."""
    before: Hashable
    """Token of the relation before the write, and after it."""
    after: Hashable = None


_overwrites: WeakKeyDictionary[Handle, Overwrite] = WeakKeyDictionary()
"""Last write of each handle, if it was of a part of the tensor to another."""


def begin_write(handle: Handle, target: View, value: Any) -> tuple[Any, Overwrite | None]:
    """Return the value to write to a view, and what to pass to :func:`end_write`.

    The value is another one if it is a view that an earlier write of this view overwrote.
    """
    last = _overwrites.pop(handle, None)
    if not isinstance(value, Base) or value._handle is not handle or target.points:
        return value, None
    source, current = value._view, handle.current
    is_second = last is not None and (last.target, last.source, last.after) == (source, target, current.token)
    if last is not None and is_second and value._taken_at == last.before:
        return last.elements, None
    if source.points or source.shape != target.shape or not _are_apart(source, target):
        return value, None
    elements: Any = type(value)(current, target)
    return value, Overwrite(target, source, elements.compute(), current.token)


def end_write(handle: Handle, write: Overwrite | None) -> None:
    """Remember a write that has been committed."""
    if write is not None:
        write.after = handle.current.token
        _overwrites[handle] = write


def _are_apart(one: View, other: View) -> bool:
    """Return whether the bounds of two views do not overlap."""
    mine, theirs = one.box().ranges, other.box().ranges
    return any(r and s and (r[-1] < s[0] or s[-1] < r[0]) for r, s in zip(mine, theirs, strict=True))
