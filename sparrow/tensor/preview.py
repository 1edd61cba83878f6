"""Representations of tensors that show values: as text and as HTML."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import engines
from sparrow.engines import Survey
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import Node, Scan, axis_labels
from sparrow.tensor import display, pictures
from sparrow.tensor.tuning import tuning

__all__ = ["Preview", "Table", "compose_html", "compose_text", "read_preview"]

_MORE, _ABSENT = "\N{HORIZONTAL ELLIPSIS}", "\N{MIDDLE DOT}"


@dataclass(frozen=True)
class Table:
    """Values to show, in columns."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_number: tuple[bool, ...]
    """For each column, whether it is aligned to the right."""
    title: str = ""


@dataclass(frozen=True)
class Histogram:
    """Counts of values in bins between the smallest and the largest."""

    counts: list[int]
    low: str
    high: str
    is_log: bool
    """True if the bins are of equal width on a log scale."""


class Preview:
    """Elements of a tensor that were read for its representation.

    Parameters
    ----------
    scan
        Scan of a relation.
    found
        What was read of it.
    """

    def __init__(self, scan: Scan, found: Survey) -> None:
        self.scan, self.found = scan, found
        self._labels: dict[int, pa.Array] = {}
        found_labels = axis_labels(scan)
        sizes = scan.view.base_shape if scan.relation.version is not None and found_labels else ()
        self.is_by_position = max(sizes, default=0) > tuning().labels_read  # large vocabularies take long to read
        if not self.is_by_position:
            self._labels = {axis: names.array() for axis, names in found_labels.items()}

    @property
    def is_small(self) -> bool:
        """True if all elements fit a table of positions, absent ones included."""
        shape = self.scan.schema.shape
        limit = tuning().table_side
        return len(shape) in (1, 2) and self.found.is_complete and 0 < max(shape) <= limit and min(shape) > 0

    def tables(self, rows: int) -> list[Table]:
        """Return the values to show: all, the largest, or the first and the last."""
        ndim = self.scan.schema.ndim
        if not ndim:
            return []
        if self.is_small:
            return [self._positions()]
        if not self.found.count:
            return []
        if ndim == 1 and self.found.is_complete and self.found.count > 2 * rows and self._has_order:
            assert self.found.largest is not None
            return [self.elements([self.found.largest.take(slice(rows))], "largest")]
        first, last = self.found.first.take(slice(rows)), self.found.last
        if not last.count and self.found.first.count > rows:
            whole = self.found.first
            last = whole.take(slice(max(whole.count - rows, rows), None))
            if whole.count <= 2 * rows:
                return [self.elements([whole])]
        return [self.elements([first, last.take(slice(max(last.count - rows, 0), None))])]

    @property
    def _has_order(self) -> bool:
        """True if some values are larger than others."""
        values = self.found.values
        return values.dtype.kind in "iuf" and len(values) > 1 and not (values == values[0]).all()

    def _names(self, axis: int, positions: NDArray[Any]) -> list[str]:
        found = self._labels.get(axis)
        if found is None:
            return [str(at) for at in positions.tolist()]
        return [_text(label) for label in found.take(pa.array(positions)).to_pylist()]

    def elements(self, parts: Sequence[Block], title: str = "") -> Table:
        """Return elements as rows, with an ellipsis between two parts."""
        schema = self.scan.schema
        rows: list[tuple[str, ...]] = []
        for part in (part for part in parts if part.count):
            if rows:
                rows.append((_MORE,) * (schema.ndim + 1))
            columns = [self._names(axis, column) for axis, column in enumerate(part.coords)]
            rows.extend(zip(*columns, map(_text, part.values.tolist()), strict=True))
        numeric = [axis not in self._labels for axis in range(schema.ndim)]
        return Table((*schema.dims, "value"), tuple(rows), (*numeric, True), title)

    def _positions(self) -> Table:
        """Return a vector or matrix with a cell for each position."""
        schema, block = self.scan.schema, self.found.first
        cells = np.full(schema.shape, _ABSENT, dtype=object)
        cells[block.coords] = np.array([*map(_text, block.values.tolist()), None], dtype=object)[:-1]
        names = [self._names(axis, np.arange(n)) for axis, n in enumerate(schema.shape)]
        if schema.ndim == 1:
            rows = zip(names[0], cells.tolist(), strict=True)
            return Table((schema.dims[0], "value"), tuple(rows), (0 not in self._labels, True))
        corner = " / ".join(schema.dims)
        matrix = tuple((name, *row) for name, row in zip(names[0], cells.tolist(), strict=True))
        return Table((corner, *names[1]), matrix, (0 not in self._labels, *(True,) * len(names[1])))

    def histogram(self, bins: int) -> Histogram | None:
        """Return a histogram of the values read; None if they tell nothing.

        Bins are of equal width on a log scale if the values are positive and span orders of magnitude.
        """
        values = self.found.values
        if values.dtype.kind not in "iuf":
            return None
        values = values[np.isfinite(values)].astype(np.float64)
        if len(values) <= 2 * tuning().repr_rows or values.min() == values.max():
            return None
        low, high = float(values.min()), float(values.max())
        is_log = low > 0 and high / low >= tuning().log_scale_ratio
        edges = np.geomspace(low, high, bins + 1) if is_log else np.linspace(low, high, bins + 1)
        edges[0], edges[-1] = low, high  # rounding would exclude the extremes
        counts = np.histogram(values, edges)[0]
        return Histogram(counts.tolist(), _text(low), _text(high), is_log)

    @property
    def note(self) -> str:
        """Note about what was read, if not all in order."""
        notes = ["by position, labels are not read"] if self.is_by_position else []
        if not self.found.is_sorted:
            notes.append(f"in the order of the files; {self.found.count:,} elements read")
        return "; ".join(notes)


def read_preview(scan: Scan, rows: int, with_picture: bool = False) -> Preview:
    """Read a few chunks of a tensor for its representation.

    See :func:`sparrow.engines.survey`.

    Parameters
    ----------
    scan
        Scan of a relation; nodes are not computed.
    rows
        Number of first and of last elements.
    with_picture
        Count elements for a density map.
    """
    assert not isinstance(scan.source, Node)
    ndim, shape = scan.schema.ndim, scan.schema.shape
    if scan.view.repeats > 1 and scan.view.repeats * scan.relation.nnz > tuning().repeated_elements:
        raise UnsupportedError(f"broadcasting repeats each element {scan.view.repeats:,} times: take a slice")
    limit = tuning().table_side
    is_small = ndim in (1, 2) and max(shape) <= limit
    axes = (0, ndim - 1) if with_picture and ndim > 1 and not is_small else None
    most = max(rows, -(-(limit * limit) // 2)) if is_small else rows
    return Preview(scan, engines.survey(scan, most, with_picture, axes, tuning().picture_cells, ndim == 1))


def compose_text(head: str, nnz: int | None, preview: Preview | None, problem: str) -> str:
    """Return the representation of a tensor as text.

    Parameters
    ----------
    head
        First line.
    nnz
        Number of stored elements, None if unknown.
    preview
        What was read; None if nothing could be.
    problem
        Why nothing could be read.
    """
    if preview is None:
        return f"{head}\nvalues are not shown: {problem}"
    schema, limits = preview.scan.schema, tuning()
    lines = [head]
    if not schema.ndim:
        value = preview.found.first.values.tolist() or [schema.fill_value.item()]
        return f"{head}\n{_text(value[0])}"
    if nnz is not None and schema.size:
        is_zero = schema.fill_value == 0
        lines.append(f"density {display.percent(nnz / schema.size)}{'' if is_zero else _fill_note(schema.fill_value)}")
    for table in preview.tables(limits.repr_rows):
        lines += _render(table, limits.repr_width) or _render_narrow(preview, limits.repr_rows)
        if table.title:
            lines.append(f"{table.title} of {preview.found.count:,} elements")
    if schema.ndim == 1 and not preview.is_small and preview.found.is_complete:
        bars = preview.histogram(2 * limits.table_side)
        if bars is not None:
            scale = ", log scale" if bars.is_log else ""
            lines.append(f"values {bars.low} {pictures.spark_line(bars.counts)} {bars.high}{scale}")
    if preview.note:
        lines.append(preview.note)
    return "\n".join(lines)


def _fill_note(fill: Any) -> str:
    return f", fill value {_text(fill.item())}"


def _render_narrow(preview: Preview, rows: int) -> list[str]:
    """Return the lines of elements in place of a table that is too wide."""
    block = preview.found.first
    parts = [block] if block.count <= 2 * rows else [block.take(slice(rows)), block.take(slice(-rows, None))]
    return _render(preview.elements(parts), 1 << 16) or []


def compose_html(preview: Preview) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the parts of HTML beside the facts about a tensor, and notes about them."""
    parts: list[str] = []
    notes: list[tuple[str, str]] = []
    schema, found, limits = preview.scan.schema, preview.found, tuning()
    if not schema.ndim:
        value = found.first.values.tolist() or [schema.fill_value.item()]
        return [], [("value", _text(value[0]))]
    for table in preview.tables(limits.html_rows):
        caption = table.title or ("" if preview.is_small or found.count <= 2 * limits.html_rows else "first and last")
        parts.append(_html_table(table, f"{caption} elements" if caption else "elements"))
    if schema.ndim == 1 and not preview.is_small:
        bars = preview.histogram(limits.histogram_bins)
        if bars is not None:
            what = f"histogram of {'' if found.is_complete else 'a sample of '}the values"
            what += ", log scale" if bars.is_log else ""
            parts.append(pictures.figure(pictures.bar_chart(bars.counts, bars.low, bars.high, what), what))
    if found.density is not None and found.count:
        if found.density.is_even:
            notes.append(("pattern", "spread evenly, as at random"))
        else:
            parts.append(_density_figure(found.density, schema.dims))
    if preview.note:
        notes.append(("elements", preview.note))
    return parts, notes


def _density_figure(found: engines.DensityMap, dims: Sequence[str]) -> str:
    height, width = found.counts.shape
    scale = _PICTURE_PIXELS / max(height, width)
    sizes = [max(round(scale * n), _PICTURE_PIXELS // 6) for n in (height, width)]
    names = f"{dims[0]} \N{DOWNWARDS ARROW}, {dims[-1]} \N{RIGHTWARDS ARROW}"
    top = found.counts.max()
    note = f", up to {display.human_count(round(top))} per pixel" if top > 1 else ""
    image = (
        f'<img src="{pictures.density_url(found)}" alt="density of stored elements" style="height:{sizes[0]}px;'
        f'width:{sizes[1]}px;max-width:none;image-rendering:pixelated;border:1px solid rgba(128,128,128,.5)">'
    )
    return pictures.figure(image, f"{names}{note}{', estimated' if found.sampled else ''}")


_PICTURE_PIXELS = 180


def _html_table(table: Table, caption: str) -> str:
    def row(cells: Sequence[str], kind: str) -> str:
        content = "".join(
            f'<{kind} style="text-align:{"right" if right else "left"}">{markup.escape(text)}</{kind}>'
            for text, right in zip(cells, table.is_number, strict=True)
        )
        return f"<tr>{content}</tr>"

    body = "".join(row(cells, "td") for cells in table.rows)
    caption = f'<caption style="font-size:85%;opacity:.75">{markup.escape(caption)}</caption>'
    return f"<table>{caption}<thead>{row(table.headers, 'th')}</thead><tbody>{body}</tbody></table>"


def _render(table: Table, width: int) -> list[str] | None:
    """Return the lines of a table; None if it is wider than ``width``."""
    from rich.cells import cell_len

    columns = list(zip(table.headers, *table.rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    if sum(widths) + 2 * (len(widths) - 1) > width:
        return None
    lines = []
    for row in (table.headers, *table.rows):
        cells = [
            " " * (n - cell_len(text)) + text if right else text + " " * (n - cell_len(text))
            for text, n, right in zip(row, widths, table.is_number, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _text(value: Any) -> str:
    """Return a value in few characters."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, complex):
        return f"{value:.4g}"
    text = display.escape_controls(str(value))
    return text if len(text) <= 40 else text[:39] + _MORE
