"""Tables: boxes with types and colour on a terminal, plain text elsewhere.

:func:`render` returns objects of rich, so that a console that records can export them as SVG or HTML.
"""

from __future__ import annotations

import decimal
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["is_terminal", "make_console", "render", "render_plan", "write_plan", "write_table"]

_MIN_WIDTH = 8
"""Width down to which columns are cut before some in the middle are left out."""
_TYPE_WIDTH = 12
"""Characters of a type for which a column is made wider."""
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def make_console() -> Console:
    """Return a console on standard output; ``NO_COLOR`` turns colour off."""
    from rich.console import Console

    return Console(highlight=False, markup=False)


def write_table(
    rows: Iterable[Sequence[Any]], headers: Sequence[str], types: Sequence[str] = (), caption: str | None = None
) -> None:
    """Write a table to standard output: a box on a terminal, else plain text.

    Parameters
    ----------
    rows
        Sequences of values.
    headers
        Names of the columns.
    types
        Types of the columns, below their names on a terminal.
    caption
        Line below the box, on a terminal.
    """
    if is_terminal():
        console = make_console()
        console.print(render(list(rows), headers, types, caption, console.width))
        return
    from sparrow.tensor.display import table

    print(table(rows, headers, sys.maxsize))


def render(
    rows: Sequence[Sequence[Any]],
    headers: Sequence[str],
    types: Sequence[str] = (),
    caption: str | None = None,
    width: int = 80,
) -> RenderableType:
    """Return a table in a box, as wide as its cells but at most ``width``.

    Cells that are too long end in an ellipsis; if there are too many columns, some in the middle are left out.

    Examples
    --------
    >>> from rich.console import Console
    >>> Console(width=30).print(render([("rome", 3), (None, 12)], ("city", "links"), ("varchar", "bigint")))
    ╭─────────┬────────╮
    │ city    │  links │
    │ varchar │ bigint │
    ├─────────┼────────┤
    │ rome    │      3 │
    │ NULL    │     12 │
    ╰─────────┴────────╯
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    texts = [[_format(value) for value in row] for row in rows]
    heads = [[_escape(name), *([types[k]] if types else [])] for k, name in enumerate(headers)]
    columns = [[head[0], *(kind[:_TYPE_WIDTH] for kind in head[1:]), *(row[k] for row in texts)]
               for k, head in enumerate(heads)]  # fmt: skip
    widths = _fit([max(_cell_width(text) for text in column) for column in columns], width)
    shown = Table(box=box.ROUNDED, header_style="", border_style="dim")
    for k in widths:
        if k is None:
            shown.add_column(Text(_ELLIPSIS, "dim"), width=1, no_wrap=True)
            continue
        name, *kind = heads[k]
        head = Text(name, "bold", no_wrap=True, overflow="ellipsis")
        for each in kind:
            head = Text("\n").join([head, Text(each, "dim")])
        right = _is_numeric([row[k] for row in rows], types[k] if types else "")
        shown.add_column(head, width=widths[k], no_wrap=True, overflow="ellipsis", justify="right" if right else "left")
    for row, values in zip(texts, rows, strict=True):
        shown.add_row(*(
            Text(_ELLIPSIS, "dim") if k is None else Text(row[k], "dim" if values[k] is None else "") for k in widths
        ))  # fmt: skip
    return shown if caption is None else Group(shown, Text(caption, "dim"))


def _fit(natural: Sequence[int], width: int) -> dict[int | None, int]:
    """Return the widths of the columns that fit, by number; None for the others."""
    least = [min(each, _MIN_WIDTH) + 3 for each in natural]
    left, right = list(range((len(natural) + 1) // 2)), list(range((len(natural) + 1) // 2, len(natural)))
    room = width - 1
    while sum(least[k] for k in (*left, *right)) > room and len(left) + len(right) > 2:
        if len(left) + len(right) == len(natural):
            room -= 4  # for the ellipsis
        del (left if len(left) > len(right) else right)[-1 if len(left) > len(right) else 0]
    widths = {k: natural[k] for k in (*left, *right)}
    while sum(each + 3 for each in widths.values()) > room and max(widths.values()) > 1:
        widths[max(widths, key=lambda k: widths[k])] -= 1
    gap: dict[int | None, int] = {None: 1} if len(widths) < len(natural) else {}
    return {k: widths[k] for k in left} | gap | {k: widths[k] for k in right}


def _cell_width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _is_numeric(values: Sequence[Any], kind: str) -> bool:
    """Return whether a column holds numbers."""
    found = [value for value in values if value is not None]
    if not found:
        return re.fullmatch(r"u?\w*int(eger)?|float|double|decimal.*", kind) is not None
    return all(isinstance(value, int | float | decimal.Decimal) for value in found)


def _format(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else _escape(str(value))


def _escape(text: str) -> str:
    r"""Escape characters that would move the cursor, as in ``\n``."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def write_plan(texts: Iterable[str]) -> None:
    """Write the trees of ``EXPLAIN`` to standard output."""
    for text in texts:
        if is_terminal():
            console = make_console()
            console.print(render_plan(text, console.width), overflow="ellipsis", no_wrap=True, crop=True)
        else:
            print(text.rstrip("\n"))


def render_plan(text: str, width: int = 80) -> Text:
    """Return the tree of ``EXPLAIN`` with dim lines and bold operators.

    If it is wider than ``width``, names of data files are cut and room in boxes that no line uses is removed.
    """
    from rich.text import Text

    lines = text.rstrip("\n").split("\n")
    if max(map(len, lines)) > width:
        lines = _narrow([_DATA_FILE.sub(_cut_name, line) for line in lines])
    text = "\n".join(lines)
    plan = Text(text)
    plan.highlight_regex(r"[\u2500-\u257f]+", "dim")
    for found in re.finditer(r"\u256d\u2500 ([^\u2500-\u257f\n]+) [\u2500-\u257f]", text):
        plan.stylize("bold cyan", found.start(1), found.end(1))
    return plan


_DATA_FILE = re.compile(r"[^ \u2502]*/([0-9a-f]{8})[0-9a-f]{56}-[0-9a-f]+(-\w+)?\.parquet")


def _cut_name(found: re.Match[str]) -> str:
    """Return the beginning of the name of a data file, and blanks."""
    return f"{found[1]}{_ELLIPSIS}.parquet".ljust(len(found[0]))


def _narrow(lines: Sequence[str]) -> list[str]:
    """Remove columns of blanks and horizontal lines, except two of neighbours."""
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    kept, run = [], 0
    for k in range(width):
        run = run + 1 if all(line[k] in " \u2500\u2501" for line in padded) else 0
        if run <= 2:
            kept.append(k)
    return ["".join(line[k] for k in kept).rstrip() for line in padded]
