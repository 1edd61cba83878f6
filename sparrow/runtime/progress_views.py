"""Views of progress bars: a line of a terminal, or HTML in a notebook.

A terminal line never wraps: it leaves out what does not fit. In a notebook the bar is a widget while it runs, where
ipywidgets is installed, and plain HTML that is updated in place otherwise. It ends as HTML, so that it is still there
when the notebook is opened again.
"""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import IO, TYPE_CHECKING, Any, Protocol

from sparrow.runtime import events, settings
from sparrow.runtime.quantities import format_quantity
from sparrow.runtime.tuning import tuning

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

__all__ = ["BarState", "BarView", "fit_line", "open_view", "show_note"]

_COLORS = {"running": "#2f7fc1", "complete": "#2e9e5b", "stopped": "#d9822b"}
"""Colors of bars on light and dark backgrounds, by status."""


@dataclass(frozen=True, slots=True)
class BarState:
    """State of a bar at one moment."""

    description: str
    unit: str
    done: int
    total: float | None
    seconds: float
    """Time since the operation began."""
    status: str
    """``"running"``, ``"complete"`` or ``"stopped"``."""

    @property
    def _known_total(self) -> float | None:
        """The total; None if it is unknown, or an estimate that was too low."""
        total = self.total
        return total if total and math.isfinite(total) and total >= self.done else None

    @property
    def fraction(self) -> float | None:
        """Share that is done, below 1 until the bar is complete; None if unknown."""
        if self.status == "complete":
            return 1.0
        total = self._known_total
        return None if total is None else min(self.done / total, 0.99)

    @property
    def percent(self) -> str:
        """Share that is done as text; empty if unknown."""
        return "" if self.fraction is None else f"{int(100 * self.fraction + 1e-9)}%"

    @property
    def time(self) -> str:
        """Remaining time if it is known, else the time so far."""
        if self.status == "complete":
            return f"in {_clock(self.seconds)}"
        if self.status == "stopped":
            return f"stopped after {_clock(self.seconds)}"
        total = self._known_total
        if total is None or not self.done:
            return _clock(self.seconds)
        return f"{_clock(self.seconds * (total / self.done - 1))} left"

    @property
    def amount(self) -> str:
        """Amount done, and the total while it runs."""
        total, done = self._known_total, format_quantity(self.done, self.unit)
        if self.status == "complete" or total is None:
            return done
        return f"{done if self.unit == 'bytes' else done.split()[0]} of {format_quantity(total, self.unit)}"

    @property
    def rate(self) -> str:
        """Amount per second, or seconds for each; empty if nothing is done."""
        if not self.done or self.seconds <= 0:
            return ""
        if self.done < self.seconds and self.unit != "bytes":
            return f"{self.seconds / self.done:.3g} s each"
        rate = format_quantity(self.done / self.seconds, self.unit)
        return f"{rate if self.unit == 'bytes' else rate.split()[0]}/s"

    def figures(self) -> Iterator[str]:
        """Yield texts of the figures, ever shorter."""
        for parts in ((self.amount, self.rate, self.time), (self.amount, self.time), (self.time,)):
            yield "  ".join(filter(None, (self.percent, ", ".join(filter(None, parts)))))


class BarView(Protocol):
    """Place where a bar is drawn."""

    def draw(self, state: BarState) -> None:
        """Draw the current state."""

    def close(self, state: BarState) -> None:
        """Draw the last state."""


def open_view() -> BarView:
    """Return a view for the current output: of a notebook cell, or standard error."""
    return _NotebookView() if settings.is_notebook() else _TerminalView()


def _clock(seconds: float) -> str:
    """Format a duration as minutes and seconds, or hours, minutes and seconds."""
    whole = int(seconds + 0.5)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def fit_line(state: BarState, width: int) -> tuple[str, int, str]:
    """Return the description, the length of the bar and the figures of a line.

    Two spaces separate them. A line without a known total has no bar.

    Parameters
    ----------
    state
        What the bar shows.
    width
        Columns of the line.

    Examples
    --------
    >>> fit_line(BarState("reading", "bytes", 5_000_000, 10_000_000, 10, "running"), 79)
    ('reading', 20, '50%  5.00 MB of 10.0 MB, 500 kB/s, 0:10 left')
    >>> fit_line(BarState("reading", "bytes", 5_000_000, 10_000_000, 10, "running"), 40)
    ('reading', 10, '50%  0:10 left')
    """
    from rich.cells import cell_len, set_cell_size

    description = " ".join(state.description.split())
    bars = (20, 10) if state.fraction is not None else (0,)
    for figures in state.figures():
        for length in bars:
            if cell_len(description) + cell_len(figures) + 2 + (length + 2 if length else 0) <= width:
                return description, length, figures
    room = max(width - cell_len(figures) - 2, 1)
    if cell_len(description) > room:
        description = set_cell_size(description, room - 1) + "\N{HORIZONTAL ELLIPSIS}"
    return description, 0, figures


# -- terminals ------------------------------------------------------------------------------------


class _FaultTolerantStream:
    """Standard error that may disappear: failed writes are dropped."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.encoding = getattr(file, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        events.emit("progress.write", closed=getattr(self._file, "closed", False))
        try:
            return self._file.write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except (OSError, ValueError):
            return

    def isatty(self) -> bool:
        try:
            return self._file.isatty()
        except (OSError, ValueError):
            return False

    def fileno(self) -> int:
        return self._file.fileno()


class _TerminalView:
    """Last line of a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=_FaultTolerantStream(sys.stderr), force_jupyter=False)  # type: ignore[arg-type]
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def draw(self, state: BarState) -> None:
        self._live.update(_Line(state), refresh=True)

    def close(self, state: BarState) -> None:
        self._live.update(_Line(state))
        self._live.stop()


class _Line:
    """Rich renderable of a bar, which fits into one line."""

    def __init__(self, state: BarState) -> None:
        self._state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        state = self._state
        description, length, figures = fit_line(state, options.max_width - 1)
        full = round(length * (state.fraction or 0.0))
        dash = "-" if options.ascii_only else "\N{BOX DRAWINGS HEAVY HORIZONTAL}"
        blank = " " if options.ascii_only or console.no_color else dash
        line = Text(description, no_wrap=True, overflow="crop")
        if length:
            line.append("  ").append(dash * full, _COLORS[state.status]).append(blank * (length - full), "bar.back")
        yield line.append(f"  {figures}")


# -- notebooks ------------------------------------------------------------------------------------


class _NotebookView:
    """Output of a notebook cell that is updated in place."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._widget: Any = None
        self._is_shown = False
        self._next_bundle = 0.0

    def draw(self, state: BarState) -> None:
        html = _bar_html(state)
        if not self._is_shown:
            self._widget = _make_widget(html)
        if self._widget is None:
            self._show(_bundle(state, html))
            return
        self._widget.value = html
        if state.seconds >= self._next_bundle:  # for front ends without widgets, which a kernel cannot tell
            self._next_bundle = state.seconds + tuning().progress_bundle_seconds
            self._show({**self._widget._repr_mimebundle_(), **_bundle(state, html)})

    def close(self, state: BarState) -> None:
        self._show(_bundle(state, _bar_html(state)))
        if self._widget is not None:
            for model in (self._widget, self._widget.layout, self._widget.style):
                model.close()

    def _show(self, data: dict[str, Any]) -> None:
        _display(data, display_id=self._id, update=self._is_shown)
        self._is_shown = True


def _display(data: dict[str, Any], **options: Any) -> None:
    from IPython.display import display

    display(data, raw=True, **options)  # type: ignore[no-untyped-call]


def _make_widget(html: str) -> Any:
    """Return a widget that shows HTML, or None without ipywidgets."""
    try:
        from ipywidgets import HTML
    except ImportError:
        return None
    return HTML(html)


def _bundle(state: BarState, html: str) -> dict[str, Any]:
    """Return the text and the HTML of a bar by their media types."""
    description, _, figures = fit_line(state, tuning().progress_columns)
    return {"text/plain": f"{description}  {figures}", "text/html": html}


def _bar_html(state: BarState) -> str:
    """Return a bar as HTML; colors suit light and dark themes."""
    bar = ""
    if state.fraction is not None:
        percent = 100 * state.fraction
        full = f"display:block;height:100%;width:{percent:.1f}%;background:{_COLORS[state.status]}"
        frame = "flex:0 0 12em;height:.6em;border-radius:3px;overflow:hidden;background:rgba(128,128,128,.3)"
        role = f'role="progressbar" aria-valuenow="{percent:.0f}"'
        bar = f'<span {role} style="{frame}"><span style="{full}"></span></span>'
    figures = f'<span style="opacity:.75">{escape(next(state.figures()))}</span>'
    row = "display:flex;flex-wrap:wrap;align-items:center;gap:0 .8em;line-height:1.6;font-variant-numeric:tabular-nums"
    return f'<div style="{row}"><span>{escape(state.description)}</span>{bar}{figures}</div>'


def show_note(text: str) -> None:
    """Show a line: on standard error, or among the outputs of a notebook cell."""
    if not settings.is_notebook():
        _FaultTolerantStream(sys.stderr).write(f"{text}\n")
        return
    html = f'<div style="opacity:.75;white-space:pre-wrap">{escape(text)}</div>'
    _display({"text/plain": text, "text/html": html})
