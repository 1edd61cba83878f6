"""Picture of a query plan: a box per operator, as SVG.

An operator stands above its operands; scalars are in its box. The bar of a scan shows the bytes that it reads, and in
grey those it skips.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from sparrow.engines.plan_entry import PlanEntry, format_schema
from sparrow.engines.plan_html import READ_COLOR, SKIPPED_COLOR, counters, read_share, read_sizes, total_counters
from sparrow.errors import InvalidValueError
from sparrow.runtime.validation import check_path

__all__ = ["PlanPicture"]

_WIDTH, _GAP, _LINE, _MARGIN, _BAR = 240, 24, 16, 10, 10
"""Pixels: width of a box, gap between boxes, height of a line, margin, and height of the bar of a scan."""
_MAX_CHARACTERS = 36
_STANDALONE_STYLE = "svg{color:#222}@media(prefers-color-scheme:dark){svg{color:#ddd}}"


class PlanPicture:
    """Picture of a query plan, which notebooks show.

    Parameters
    ----------
    entries
        The nodes of a plan, each before its operands.
    totals
        Counters of the evaluation, for the first node of an engine that does not count operators.

    Examples
    --------
    >>> import sparrow as sp
    >>> picture = (sp.eye(3) @ sp.eye(3)).explain().plot()
    >>> picture.svg.count("<rect class='box'")
    3
    >>> picture
    PlanPicture of 3 operators, 524 x 246 pixels
    """

    def __init__(self, entries: Sequence[PlanEntry], totals: Mapping[str, Any] | None = None) -> None:
        boxes = _boxes(entries, totals)
        self._size = _place(boxes)
        self._count = len(boxes)
        self._content = "".join([*map(_edge, boxes), *map(_draw, boxes)])

    @property
    def svg(self) -> str:
        """The picture as an SVG file; its text is dark or light as the viewer prefers."""
        return self._render(f"<style>{_STANDALONE_STYLE}</style>")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file.

        Parameters
        ----------
        path
            Path of an SVG file.

        Raises
        ------
        InvalidValueError
            If ``path`` does not end in ``.svg``.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(3).explain().plot().save("plan.svg")  # doctest: +SKIP
        """
        target = Path(check_path(path, "path"))
        if target.suffix.lower() != ".svg":
            raise InvalidValueError(f"path must end in '.svg', got {os.fspath(path)!r}")
        target.write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        plural = "s" * (self._count != 1)
        return f"PlanPicture of {self._count} operator{plural}, {self._size[0]} x {self._size[1]} pixels"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{self._render()}</div>'

    def _render(self, style: str = "") -> str:
        """Return the picture, whose text inherits its color if there is no style."""
        width, height = self._size
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        font = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>{style}{self._content}</svg>'


class _Box:
    """Operator of the picture, and its place."""

    def __init__(self, entry: PlanEntry, measured: Sequence[tuple[str, str]], scalars: Sequence[str]) -> None:
        self.entry = entry
        self.lines = [*_lines(entry, dict(measured)), *scalars]
        self.height = 2 * _MARGIN + _LINE * len(self.lines) + (_BAR if entry.reads else 0)
        self.below: list[_Box] = []
        self.x, self.y = 0.0, 0


def _boxes(entries: Sequence[PlanEntry], totals: Mapping[str, Any] | None) -> list[_Box]:
    """Return the operators of a plan in order, scalar operands in their boxes."""
    scalars: dict[int, list[str]] = {}
    above: list[int] = []
    for number, entry in enumerate(entries):
        del above[entry.depth :]
        if entry.schema is None and above:
            scalars.setdefault(above[-1], []).append(entry.operation)
        above.append(number)
    return [
        _Box(
            entry, counters(entry) or (total_counters(totals) if totals and not number else []), scalars.get(number, [])
        )
        for number, entry in enumerate(entries)
        if entry.schema is not None or not entry.depth
    ]


def _lines(entry: PlanEntry, measured: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of text in the box of an operator, the first as its title."""
    details = dict(entry.details)
    yield entry.operation
    if entry.schema is not None:
        yield format_schema(entry.schema)
    if entry.note.strip(" ,"):
        yield entry.note.strip(" ,")
    if "engine" in details:
        yield details["engine"]
    if entry.reads:
        yield read_sizes(entry)
        if "row_groups_read" in entry.reads:
            read, skipped = entry.reads["row_groups_read"], entry.reads["row_groups_skipped"]
            yield f"{read:,} of {read + skipped:,} row groups"
    for names in (("rows", "seconds"), ("strategy", "spilled_bytes")):
        found = [measured[name] for name in names if name in measured]
        if found:
            yield ", ".join(found)


def _place(boxes: list[_Box]) -> tuple[int, int]:
    """Place boxes, each centered above its operands; return the size of the picture."""
    above: list[_Box] = []
    heights: list[int] = []
    columns = 0
    for box in boxes:
        depth = box.entry.depth
        del above[depth:]
        if above:
            above[-1].below.append(box)
        above.append(box)
        heights += [0] * (depth + 1 - len(heights))
        heights[depth] = max(heights[depth], box.height)
    tops = [_MARGIN]
    for height in heights:
        tops.append(tops[-1] + height + 2 * _GAP)
    for box in boxes:
        box.y = tops[box.entry.depth]
        if not box.below:
            box.x = _MARGIN + columns * (_WIDTH + _GAP)
            columns += 1
    for box in reversed(boxes):  # operands follow what they belong to
        if box.below:
            box.x = (box.below[0].x + box.below[-1].x) / 2
    return 2 * _MARGIN + columns * (_WIDTH + _GAP) - _GAP, tops[-1] - 2 * _GAP + _MARGIN


def _edge(box: _Box) -> str:
    """Return the lines from the operands of a box up to it."""
    out = []
    for other in box.below:
        x, y, to_x, to_y = other.x + _WIDTH / 2, other.y, box.x + _WIDTH / 2, box.y + box.height
        bend = to_y + _GAP
        path = f"M{x:g} {y}C{x:g} {bend} {to_x:g} {y - _GAP} {to_x:g} {to_y}"
        out.append(f"<path d='{path}' fill='none' stroke='{SKIPPED_COLOR}'/>")
    return "".join(out)


def _draw(box: _Box) -> str:
    """Return a box with its text, and the bar of a scan."""
    entry, x, y = box.entry, box.x, box.y
    is_skipped = bool(entry.reads) and not entry.reads["bytes_read"]
    color = SKIPPED_COLOR if is_skipped or entry.schema is None else READ_COLOR
    place = f"x='{x:g}' y='{y}' width='{_WIDTH}' height='{box.height}'"
    out = [f"<g><title>{escape(chr(10).join(box.lines))}</title>"]
    out.append(f"<rect class='box' {place} rx='5' fill='{color}' fill-opacity='.12' stroke='{color}'/>")
    for number, line in enumerate(box.lines):
        text = line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
        weight = "font-weight='bold'" if number == 0 else "fill-opacity='.8'"
        at = f"x='{x + _MARGIN:g}' y='{y + _MARGIN + _LINE * number + 12}'"
        out.append(f"<text {at} {weight}>{escape(text)}</text>")
    if entry.reads:
        width, top = _WIDTH - 2 * _MARGIN, y + box.height - _MARGIN - _BAR // 2
        bar = f"x='{x + _MARGIN:g}' y='{top}' height='{_BAR // 2 + 2}' rx='2'"
        out.append(f"<rect class='skipped' {bar} width='{width}' fill='{SKIPPED_COLOR}' fill-opacity='.4'/>")
        share = width * read_share(entry)
        out.append(f"<rect class='read' {bar} width='{share:.1f}' fill='{READ_COLOR}'/>" if share else "")
    return "".join([*out, "</g>"])
