"""Tables: boxes with types and colour on a terminal, plain text elsewhere.

:func:`render` returns objects of rich, so that a console that records can export them as SVG or HTML.
"""

from __future__ import annotations

import decimal
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from sparrow.engines import Plan

__all__ = [
    "is_terminal", "make_console", "render", "render_plan", "terminal_width", "wrap_line", "write_explained",
    "write_plan", "write_table",
]  # fmt: skip

_TEXT_WIDTHS = (24, 12, 8, 8)
"""Widths to which columns of text are cut in turn, before times are folded and columns left out."""
_NAME_WIDTHS = (8, 4, 4, 4)
"""Widths to which names of columns are cut at the same time."""
_MAX_ID_WIDTH = 40
"""Characters of the longest number, time or id that is never cut."""
_TYPE_WIDTH = 12
"""Characters of a type for which a column is made wider."""
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal of a stream, or None elsewhere.

    The default is standard output.
    """
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None


def wrap_line(text: str, width: int | None, indent: int = 0) -> str:
    """Wrap a line between its words, which are never cut.

    Parameters
    ----------
    text
        A line, which keeps its indentation.
    width
        Columns; None leaves the line as it is.
    indent
        Further indentation of all lines but the first.

    Examples
    --------
    >>> print(wrap_line("  order   src, dst, time, value", 22, 8))
      order   src, dst,
              time, value
    """
    if width is None or len(text) <= width:
        return text
    first = " " * (len(text) - len(text.lstrip(" ")))
    head = first + text.strip()[:indent] if text.strip()[:indent].endswith(" ") else first
    lines = textwrap.wrap(
        text[len(head) :], width, initial_indent=head, subsequent_indent=first + " " * indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines)


def make_console() -> Console:
    """Return a console on standard output; ``NO_COLOR`` turns colour off."""
    from rich.console import Console

    return Console(highlight=False, markup=False)


def write_table(
    rows: Iterable[Sequence[Any]],
    headers: Sequence[str],
    types: Sequence[str] = (),
    caption: str | None = None,
    *,
    empty: str = "nothing to list",
    folds: bool = False,
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
    empty
        Line on standard error if there are no rows and no caption.
    folds
        Whether long texts are folded, on a terminal, and not cut.
    """
    rows = list(rows)
    if is_terminal():
        console = make_console()
        console.print(render(rows, headers, types, caption, console.width, folds=folds))
    else:
        from sparrow.tensor.display import table

        print(table(rows, headers, sys.maxsize))
    if not rows and caption is None:
        print(empty, file=sys.stderr)


def render(
    rows: Sequence[Sequence[Any]],
    headers: Sequence[str],
    types: Sequence[str] = (),
    caption: str | None = None,
    width: int = 80,
    *,
    folds: bool = False,
) -> RenderableType:
    """Return a table in a box, as wide as its cells but at most ``width``.

    Names of columns are folded first, then long texts are cut: at their end, paths at their beginning. Numbers, times
    and ids are never cut, and folded between words if all else fails. If there are too many columns, some in the middle
    are left out.

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
    names = [_escape(name) for name in headers]
    kinds = [kind[:_TYPE_WIDTH] for kind in types]
    columns = [[row[k] for row in texts] for k in range(len(names))]
    rigid = [_is_rigid(column) for column in columns]
    folding = [folds or each for each in rigid]
    floors = [
        _floors(name, kinds[k] if kinds else "", column, is_rigid)
        for k, (name, column, is_rigid) in enumerate(zip(names, columns, rigid, strict=True))
    ]
    widths = _fit(floors, width)
    folded = {k: _fold_name(names[k], widths[k]) for k in widths if k is not None}
    height = max(map(len, folded.values()), default=1)
    shown = Table(box=box.ROUNDED, header_style="", border_style="dim")
    for k in widths:
        if k is None:
            shown.add_column(Text(_ELLIPSIS, "dim"), width=1, no_wrap=True)
            continue
        lines = [*folded[k], *[""] * (height - len(folded[k]) if kinds else 0)]
        head = Text("\n".join(lines), "bold", no_wrap=True, overflow="ellipsis")
        if kinds:
            head = Text("\n").join([head, Text(_cut_text(types[k], widths[k]), "dim")])
        right = _is_numeric([row[k] for row in rows], types[k] if types else "")
        shown.add_column(
            head, width=widths[k], no_wrap=not folding[k], overflow="fold" if folding[k] else "ellipsis",
            justify="right" if right else "left",
        )  # fmt: skip
    for row, values in zip(texts, rows, strict=True):
        shown.add_row(*(
            Text(_ELLIPSIS, "dim") if k is None
            else Text(row[k] if folding[k] else _cut_text(row[k], widths[k]), "dim" if values[k] is None else "")
            for k in widths
        ))  # fmt: skip
    return shown if caption is None else Group(shown, Text(caption, "dim"))


def _floors(name: str, kind: str, column: Sequence[str], is_rigid: bool) -> list[int]:
    """Return the width of a column, and those to which it may shrink in turn."""
    cells = max(map(_cell_width, column), default=0)
    words = max((_cell_width(word) for text in column for word in text.split()), default=0)
    head = max(_cell_width(piece) for piece in [kind, *map(str.rstrip, _name_pieces(name))])
    out = [max(_cell_width(name), _cell_width(kind), cells), max(head, cells)]
    for at, (text, least) in enumerate(zip(_TEXT_WIDTHS, _NAME_WIDTHS, strict=True)):
        is_last = at == len(_TEXT_WIDTHS) - 1
        shrunk = max(min(head, least), words if is_last else cells) if is_rigid else min(max(head, cells), text)
        out.append(max(min(out[-1], shrunk), 1))
    return out


def _fit(floors: Sequence[Sequence[int]], width: int) -> dict[int | None, int]:
    """Return the widths of the columns that fit, by number; None for the others."""
    count = len(floors)
    left, right = list(range((count + 1) // 2)), list(range((count + 1) // 2, count))
    room = width - 1
    while sum(floors[k][-1] + 3 for k in (*left, *right)) > room and len(left) + len(right) > 2:
        if len(left) + len(right) == count:
            room -= 4  # for the ellipsis
        del (left if len(left) > len(right) else right)[-1 if len(left) > len(right) else 0]
    widths = {k: floors[k][0] for k in (*left, *right)}
    for level in (*range(1, len(floors[0]) if count else 0), None):
        least = {k: 1 if level is None else floors[k][level] for k in widths}
        while sum(each + 3 for each in widths.values()) > room and any(widths[k] > least[k] for k in widths):
            widths[max(widths, key=lambda k: (widths[k] > least[k], widths[k]))] -= 1
    gap: dict[int | None, int] = {None: 1} if len(widths) < count else {}
    return {k: widths[k] for k in left} | gap | {k: widths[k] for k in right}


def _is_rigid(column: Sequence[str]) -> bool:
    """Return whether a column holds numbers, times or ids: words with digits."""
    words = [word for text in column for word in text.split()]
    return max(map(len, words), default=0) <= _MAX_ID_WIDTH and all(map(_NUMBER_OR_ID.fullmatch, words))


_NUMBER_OR_ID = re.compile(r"[^/]*\d[^/]*|[^A-Za-z]*\d[^A-Za-z]*|\W+|NULL|True|False|-?nan|-?inf|UTC")


def _name_pieces(name: str) -> list[str]:
    """Return the parts between which the name of a column may be folded."""
    return re.findall(r"[^_ ]*[_ ]*", name)


def _fold_name(name: str, width: int) -> list[str]:
    """Return the lines of the name of a column."""
    lines = [""]
    for piece in _name_pieces(name):
        if lines[-1] and _cell_width((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [_cut_text(line.rstrip(), width) for line in lines]


def _cut_text(text: str, width: int) -> str:
    """Cut a text that is too wide: at its end, a path at its beginning."""
    from rich.cells import set_cell_size

    if _cell_width(text) <= width:
        return text
    if "/" not in text or " " in text:
        return set_cell_size(text, max(width - 1, 0)).rstrip() + _ELLIPSIS
    while text and _cell_width(text) >= width:
        text = text[1:]
    return _ELLIPSIS + text


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


def write_explained(plan: Plan) -> None:
    """Write a plan of ``explain()`` to standard output, wrapped on a terminal."""
    width = terminal_width()
    for line in plan.split("\n"):
        detail = re.match(r" *(?:\w+ )?\w+ {2,}(?=\S)", line)  # a name and its text
        indent = 2 if detail is None else len(detail[0]) - len(line) + len(line.lstrip(" "))
        print(wrap_line(line, width, indent))


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
