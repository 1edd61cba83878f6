"""Report of an ingest: what became of every line, row and element that was read."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from sparrow.runtime import progress
from sparrow.runtime.events import emit

__all__ = ["Report"]

_PHRASES: dict[str, tuple[str, str]] = {
    "comments": ("1 comment line passed over", "{:,} comment lines passed over"),
    "skipped": ("1 row with nulls skipped", "{:,} rows with nulls skipped"),
    "loops": ("1 self-loop dropped", "{:,} self-loops dropped"),
    "mirrored": ("1 mirrored", "{:,} mirrored"),
    "merged": ("1 merged as a duplicate", "{:,} merged as duplicates"),
    "fill": ("1 of value {fill} dropped", "{:,} of value {fill} dropped"),
    "rounded": ("1 integer rounded", "{:,} integers rounded"),
    "rewritten": ("1 id rewritten as an integer", "{:,} ids rewritten as integers"),
    "ignored": ("further columns of 1 line ignored", "further columns of {:,} lines ignored"),
    "labels": ("1 id became a label", "{:,} ids became labels"),
}
"""Phrase for each count, of one and of several, in the order of the line."""

_LOSSES = ("skipped", "fill", "rounded", "rewritten")
"""Counts that are reported in any case."""


def _format_number(value: Any) -> str:
    """Format a fill value: integral floats without a decimal point."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


class Report:
    """Counts of an ingest, which any thread may add to.

    ``read + mirrored`` equals ``stored + merged + fill + loops + skipped``.

    Examples
    --------
    >>> report = Report("elements")
    >>> report.add(read=4, stored=2, merged=1, fill=1)
    >>> report.line("links.txt")
    'links.txt: 4 elements read, 2 stored: 1 merged as a duplicate, 1 of value 0 dropped'
    """

    def __init__(self, unit: str = "elements") -> None:
        self.unit = unit
        self.fill: Any = 0
        """Value of the elements that are not stored."""
        self.notes: list[str] = []
        self._counts = dict.fromkeys(("read", "stored", *_PHRASES), 0)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Report], tuple[str]]:
        """Pickle as an empty report: a task counts by itself."""
        return type(self), (self.unit,)

    def add(self, **counts: int) -> None:
        """Add to counts."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def clear(self) -> None:
        """Set all counts to 0."""
        with self._lock:
            self._counts = dict.fromkeys(self._counts, 0)

    def note(self, text: str) -> None:
        """Write a note to standard error, unless progress is disabled, and keep it."""
        self.notes.append(text)
        progress.write_note(text)

    @property
    def counts(self) -> Mapping[str, int]:
        """All counts by name."""
        with self._lock:
            return dict(self._counts)

    @property
    def has_losses(self) -> bool:
        """True if something that was read is not stored as it was."""
        return any(self.counts[name] for name in _LOSSES)

    def line(self, name: str) -> str:
        """Return one line on an ingest: what was read and stored, and the difference."""
        counts = self.counts
        unit = self.unit.removesuffix("s") if counts["read"] == 1 else self.unit
        text = f"{name}: {counts['read']:,} {unit} read, {counts['stored']:,} stored"
        found = [
            phrases[counts[key] != 1].format(counts[key], fill=_format_number(self.fill))
            for key, phrases in _PHRASES.items()
            if counts[key]
        ]
        return f"{text}: {', '.join(found)}" if found else text

    def publish(self, name: str, *, always: bool = False) -> None:
        """Emit the event ``io.report``, and write the line after a loss, or always."""
        emit("io.report", name=name, counts=self.counts)
        line = self.line(name)
        if (always or self.has_losses) and not any(note.endswith(line) for note in self.notes):
            progress.write_note(line)
