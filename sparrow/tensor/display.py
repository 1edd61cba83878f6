"""Text and HTML representations of tensors and tables, from plain values.

Sizes in bytes are decimal, as in settings: 1 MB is 10^6 bytes.
"""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from sparrow.runtime.progress import format_quantity

__all__ = [
    "beside", "escape_controls", "html", "html_table", "human_bytes", "human_count", "one_line", "percent", "table",
]  # fmt: skip


def human_bytes(n: int) -> str:
    """Return a size in bytes with three digits.

    Examples
    --------
    >>> human_bytes(0), human_bytes(999), human_bytes(3_186_244), human_bytes(700_000_000)
    ('0 bytes', '999 bytes', '3.19 MB', '700 MB')
    """
    return format_quantity(n, "bytes")


def human_count(n: int) -> str:
    """Return a count: in full up to six digits, then with three digits.

    Examples
    --------
    >>> human_count(325557), human_count(3216152), human_count(2**62)
    ('325,557', '3.22 million', '4.61e+18')
    """
    if abs(n) < 1_000_000:
        return f"{n:,}"
    for unit, name in ((10**6, "million"), (10**9, "billion"), (10**12, "trillion")):
        if abs(n) < 999.5 * unit:
            return f"{n / unit:.3g} {name}"
    return f"{n:.3g}"


def _shape(shape: Sequence[int], dims: Sequence[str]) -> str:
    return ", ".join(f"{name}: {n}" for name, n in zip(dims, shape, strict=True))


def _location(where: str | None, version: int | None, lazy: bool) -> str:
    if lazy:
        return "lazy"
    if version is not None:
        return f"v{version}"
    return "in memory" if where is None else "stored"


def one_line(
    shape: Sequence[int],
    dims: Sequence[str],
    dtype: object,
    nnz: int | None,
    stype: str,
    where: str | None = None,
    version: int | None = None,
    lazy: bool = False,
) -> str:
    """Return the repr of a tensor.

    Parameters
    ----------
    shape, dims
        Sizes and names of the dimensions.
    dtype, stype
        Dtype and storage type.
    nnz
        Number of stored elements, None if unknown.
    where
        Path of a stored tensor; its last part is shown.
    version
        Version of a stored tensor.
    lazy
        Whether it is an expression.

    Examples
    --------
    >>> one_line((325557, 325557), ("src", "dst"), "int64", 3216152, "coo", "web.sparrow", 0)
    '<Tensor web.sparrow (src: 325557, dst: 325557) int64 nnz=3216152 coo v0>'
    >>> one_line((4, 3), ("d0", "d1"), "float64", None, "coo")
    '<Tensor (d0: 4, d1: 3) float64 nnz=? coo in memory>'
    """
    name = "" if where is None else f"{PurePath(where).name} "
    count = "?" if nnz is None else nnz
    return f"<Tensor {name}({_shape(shape, dims)}) {dtype} nnz={count} {stype} {_location(where, version, lazy)}>"


def html(
    shape: Sequence[int],
    dims: Sequence[str],
    dtype: object,
    nnz: int | None,
    stype: str,
    where: str | None = None,
    version: int | None = None,
    nbytes: int | None = None,
    fill_value: object = 0,
    lazy: bool = False,
    labelled: Sequence[str] = (),
    plan: str | None = None,
    notes: Sequence[tuple[str, str]] = (),
    parts: Sequence[str] = (),
) -> str:
    """Return a tensor as HTML: a table of facts, and what is shown beside it.

    See :func:`one_line` for the other parameters.

    Parameters
    ----------
    nbytes
        Bytes of the data files or of the arrays.
    fill_value
        Value of absent elements.
    labelled
        Dimensions that have labels.
    plan
        Operation of an expression.
    notes
        Further rows: names and texts.
    parts
        HTML of what is shown beside the table, such as elements and a picture.

    Examples
    --------
    >>> "<td>2 of 12 elements</td>" in html((4, 3), ("d0", "d1"), "float64", 2, "coo")
    True
    """
    size = 1
    for n in shape:
        size *= n
    rows = [
        ("shape", f"({_shape(shape, dims)})"),
        ("values", f"{dtype}, fill value {_cell(getattr(fill_value, 'item', lambda: fill_value)())}"),
        ("stored", f"{'?' if nnz is None else format(nnz, ',')} of {human_count(size)} elements"),
    ]
    if nnz is not None and size:
        rows.append(("density", percent(nnz / size)))
    rows.append(("storage", f"{stype}, {_location(where, version, lazy)}"))
    if plan is not None:
        rows.append(("plan", f"{plan}; compute() evaluates it, head() its first elements"))
    if labelled:
        rows.insert(1, ("labels", f"of {', '.join(labelled)}"))
    if nbytes is not None:
        rows.append(("size", human_bytes(nbytes)))
    if where is not None:
        rows.append(("path", where))
    rows.extend(notes)
    body = "".join(
        f'<tr><th style="text-align:left">{name}</th><td>{markup.escape(text)}</td></tr>' for name, text in rows
    )
    table = f"<table><caption>sparrow.Tensor</caption><tbody>{body}</tbody></table>"
    return beside([table, *parts])


def beside(parts: Sequence[str]) -> str:
    """Return HTML parts side by side, as far as the page is wide.

    Examples
    --------
    >>> beside(["<p>a</p>"])
    '<p>a</p>'
    """
    if len(parts) == 1:
        return parts[0]
    content = "".join(f"<div>{part}</div>" for part in parts)
    return f'<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">{content}</div>'


def percent(share: float) -> str:
    """Return a share as a percentage of three digits.

    Examples
    --------
    >>> percent(0.25), percent(3.034e-05), percent(1)
    ('25 %', '0.00303 %', '100 %')
    """
    text = f"{100 * share:.3g}"
    return f"{float(text):.10f}".rstrip("0").rstrip(".") + " %" if share > 1e-10 else f"{text} %"


def table(rows: Iterable[Sequence[Any]], headers: Sequence[str], width: int = 80) -> str:
    """Return a table as plain text, numbers right-aligned.

    Parameters
    ----------
    rows
        Sequences of values; None is shown as an empty cell.
    headers
        Names of the columns.
    width
        Maximal number of characters in a line; longer texts are cut.

    Examples
    --------
    >>> print(table([("cnr-2000", 3216152)], ("name", "links")))
    name        links
    --------  -------
    cnr-2000  3216152
    """
    from rich.cells import cell_len, set_cell_size

    values = [list(row) for row in rows]
    texts = [[escape_controls(name) for name in headers], *([_cell(value) for value in row] for row in values)]
    numeric = [
        bool(values) and all(value is None or isinstance(value, int | float) for value in column)
        for column in (zip(*values, strict=True) if values else [()] * len(headers))
    ]
    widths = [min(width, max(map(cell_len, column))) for column in zip(*texts, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > 3:
        widths[widths.index(max(widths))] -= 1
    lines: list[str] = []
    for row in [texts[0], ["-" * n for n in widths], *texts[1:]]:
        cells = []
        for text, n, right in zip(row, widths, numeric, strict=True):
            spare = n - cell_len(text)
            if spare < 0:
                cells.append(set_cell_size(text, n - 1) + "\N{HORIZONTAL ELLIPSIS}")
            else:
                cells.append(" " * spare + text if right else text + " " * spare)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(rows: Iterable[Sequence[Any]], headers: Sequence[str]) -> str:
    """Return a table as HTML; see :func:`table`.

    Examples
    --------
    >>> html_table([("a<b", 1)], ("name", "links")).partition("<tbody>")[2]
    '<tr><td>a&lt;b</td><td>1</td></tr></tbody></table>'
    """

    def row(values: Sequence[Any], kind: str) -> str:
        return f"<tr>{''.join(f'<{kind}>{markup.escape(_cell(value))}</{kind}>' for value in values)}</tr>"

    body = "".join(row(each, "td") for each in rows)
    return f"<table><thead>{row(headers, 'th')}</thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return escape_controls(str(value))


def escape_controls(text: str) -> str:
    """Replace characters that would move the cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
