"""Progress bars on standard error, for terminals and notebooks.

A bar appears if :meth:`sparrow.runtime.settings.Settings.show_progress` allows it and the operation takes longer than
a second. Disabled bars cost one no-op call per step. A terminal that disappears never breaks the operation.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING

from sparrow.runtime import events, settings
from sparrow.runtime.tuning import tuning

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["bar", "format_quantity", "respelled_notes", "write_line", "write_note"]

_drawing = threading.Lock()
"""Held by the bar on screen; there is at most one."""


def bar(
    description: str | Callable[[], str], total: int | None, unit: str = "bytes"
) -> AbstractContextManager[Callable[[int], None]]:
    """Show the progress of the operation in the block.

    Parameters
    ----------
    description
        Short description, or a function that returns the current one.
    total
        Total in ``unit``; None if unknown, then no remaining time is shown.
    unit
        ``"bytes"``, or a plural noun such as ``"elements"``.

    Yields
    ------
    function of one integer
        Advances the bar. Thread-safe.

    Examples
    --------
    >>> with bar("reading", 300) as advance:
    ...     for block in (100, 200):
    ...         advance(block)
    """
    events.emit("progress.start", description=description, total=total, unit=unit)
    return _show(_Bar(description, total, unit)) if settings.current().show_progress() else _DISABLED


@contextmanager
def _show(drawn: _Bar) -> Iterator[Callable[[int], None]]:
    try:
        yield drawn.advance
    finally:
        drawn.close()


def write_line(text: str) -> bool:
    """Write a line above the current bar; return whether progress is shown."""
    if not settings.current().show_progress():
        return False
    if settings.is_notebook() and _drawing.locked():
        text = f"\r{text:<{tuning().progress_columns}}"
    _FaultTolerantStream(sys.stderr).write(f"{text}\n")
    return True


def write_note(text: str) -> None:
    """Write a line to standard error, terminal or not, unless progress is disabled."""
    if settings.current().progress is not False:
        _FaultTolerantStream(sys.stderr).write(f"{_respell.get()(text)}\n")


_respell: ContextVar[Callable[[str], str]] = ContextVar("respell", default=str)


@contextmanager
def respelled_notes(respell: Callable[[str], str]) -> Iterator[None]:
    """Write the notes of this block as a function returns them."""
    token = _respell.set(respell)
    try:
        yield
    finally:
        _respell.reset(token)


def _ignore(n: int) -> None:
    pass


_DISABLED = nullcontext(_ignore)


class _Bar:
    """Counter drawn after a delay, unless another bar is on screen."""

    def __init__(self, description: str | Callable[[], str], total: int | None, unit: str) -> None:
        self._description = description
        self._describe = description if callable(description) else lambda: description
        self._total, self._unit = total, unit
        self._lock = threading.Lock()
        self._done = 0
        self._started = time.monotonic()
        self._next = self._started + tuning().progress_delay_seconds
        self._drawn: tuple[Progress, TaskID] | None = None

    def advance(self, n: int) -> None:
        events.emit("progress.advance", description=self._description, n=n)
        with self._lock:
            self._done += n
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + tuning().progress_interval_seconds
            if self._drawn is None:
                if not _drawing.acquire(blocking=False):
                    return
                self._drawn = _open(self._describe(), self._total, self._unit, now - self._started)
            progress, task = self._drawn
            progress.update(task, description=self._describe(), completed=self._done, refresh=True)

    def close(self) -> None:
        with self._lock:
            self._next = float("inf")
            if self._drawn is None:
                return
            progress, task = self._drawn
            self._drawn = None
            try:
                progress.update(task, completed=self._done)
                progress.stop()
            finally:
                _drawing.release()


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


def _open(description: str, total: int | None, unit: str, elapsed: float) -> tuple[Progress, TaskID]:
    """Show a bar that started ``elapsed`` seconds ago."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    width = tuning().progress_columns

    class Amount(ProgressColumn):
        """Amount done, total and rate."""

        def render(self, task: Task) -> Text:
            done = format_quantity(task.completed, unit)
            total = "" if task.total is None else f" of {format_quantity(task.total, unit)}"
            spent = task.elapsed or 0.0
            rate = f", {format_quantity(task.completed / spent, unit)}/s" if spent > 0 and task.completed else ""
            return Text(f"{done}{total}{rate}")

    class NotebookProgress(Progress):
        """Bar in a notebook cell, redrawn after a carriage return."""

        def start(self) -> None:
            self.refresh()

        def refresh(self) -> None:
            with self.console.capture() as drawn:
                self.console.print(self.get_renderable())
            _FaultTolerantStream(sys.stderr).write(f"\r{drawn.get().rstrip():<{width}}")

        def stop(self) -> None:
            self.refresh()
            _FaultTolerantStream(sys.stderr).write("\n")

    if settings.is_notebook():
        kind: type[Progress] = NotebookProgress
        console = Console(file=io.StringIO(), width=width, no_color=True, force_terminal=False, force_jupyter=False)
    else:
        kind, console = Progress, Console(file=_FaultTolerantStream(sys.stderr))  # type: ignore[arg-type]
    progress = kind(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        Amount(),
        TimeRemainingColumn(compact=True),
        console=console,
        auto_refresh=False,
    )
    task = progress.add_task(description, total=total)
    progress.tasks[0].start_time = progress.get_time() - elapsed
    progress.start()
    return progress, task


def format_quantity(n: float, unit: str) -> str:
    """Format an amount with three significant digits and its unit.

    Examples
    --------
    >>> format_quantity(12_345_678, "bytes"), format_quantity(999, "bytes"), format_quantity(2_500, "elements")
    ('12.3 MB', '999 bytes', '2.50k elements')
    """
    prefixes = ("", "k", "M", "G", "T", "P", "E")
    step = 0
    while n >= 999.5 and step < len(prefixes) - 1:
        n, step = n / 1000, step + 1
    number = f"{n:.0f}" if step == 0 or n >= 99.95 else f"{n:.1f}" if n >= 9.995 else f"{n:.2f}"
    if unit == "bytes":
        return f"{number} bytes" if step == 0 else f"{number} {prefixes[step]}B"
    return f"{number}{prefixes[step]} {unit}"
