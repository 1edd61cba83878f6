"""Progress bars on standard error, terminal or notebook: description, how much is done, rate, time left.

A bar is drawn when :meth:`sparrow.runtime.settings.Settings.show_progress` says so and the work has taken
longer than a second. Off, it costs one call that does nothing for each step. It never breaks the
work: a terminal that goes away is written to no more.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, TYPE_CHECKING

from sparrow.runtime import settings

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["bar", "write_line", "write_note"]

DELAY = 1.0
"""Seconds of work before a bar is drawn."""
INTERVAL = 0.1
"""Seconds between two drawings."""
WIDTH = 100
"""Columns of a bar in a notebook."""

_drawing = threading.Lock()


def bar(
    description: str | Callable[[], str], total: int | None, unit: str = "bytes"
) -> AbstractContextManager[Callable[[int], None]]:
    """Show the progress of the work in the block.

    Parameters
    ----------
    description
        What is being done, a few words; a function where they change.
    total
        The whole, in ``unit``; None where it is not known, which shows no time left.
    unit
        What is counted: ``"bytes"``, or a plural noun such as ``"entries"``.

    Yields
    ------
    function of one integer
        Says that so much more is done. May be called from several threads.

    Examples
    --------
    >>> with bar("reading", 300) as advance:
    ...     for block in (100, 200):
    ...         advance(block)
    """
    return _shown(_Bar(description, total, unit)) if settings.current().show_progress() else _SILENT


@contextmanager
def _shown(drawn: _Bar) -> Iterator[Callable[[int], None]]:
    try:
        yield drawn.advance
    finally:
        drawn.close()


def write_line(text: str) -> bool:
    """Write a line where bars are drawn, above one that is; return whether it was written."""
    if not settings.current().show_progress():
        return False
    over = f"\r{text:<{WIDTH}}" if settings.is_notebook() and _drawing.locked() else text
    _Lasting(sys.stderr).write(f"{over}\n")
    return True


def write_note(text: str) -> None:
    """Write a line to standard error, terminal or not, unless progress is switched off."""
    if settings.current().progress is not False:
        _Lasting(sys.stderr).write(f"{text}\n")


def _nothing(n: int) -> None:
    """Take a step that nobody sees."""


_SILENT = nullcontext(_nothing)


class _Bar:
    """Counts, and draws after a while unless another bar is being drawn."""

    def __init__(self, description: str | Callable[[], str], total: int | None, unit: str) -> None:
        self._describe = description if callable(description) else lambda: description
        self._total, self._unit = total, unit
        self._lock = threading.Lock()
        self._done = 0
        self._started = time.monotonic()
        self._next = self._started + DELAY
        self._drawn: tuple[Progress, TaskID] | None = None

    def advance(self, n: int) -> None:
        with self._lock:
            self._done += n
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + INTERVAL
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


class _Lasting:
    """Standard error that may go away: what cannot be written is dropped."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.encoding = getattr(file, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
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
    """Return a bar that is on the screen, as if it had been there for ``elapsed`` seconds."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Amount(ProgressColumn):
        """What is done of the whole, and how fast."""

        def render(self, task: Task) -> Text:
            done = format_quantity(task.completed, unit)
            whole = "" if task.total is None else f" of {format_quantity(task.total, unit)}"
            spent = task.elapsed or 0.0
            rate = f", {format_quantity(task.completed / spent, unit)}/s" if spent > 0 and task.completed else ""
            return Text(f"{done}{whole}{rate}")

    class InCell(Progress):
        """A bar in the output of a notebook's cell, which knows how to return to the start of a line and no more."""

        def start(self) -> None:
            self.refresh()

        def refresh(self) -> None:
            with self.console.capture() as drawn:
                self.console.print(self.get_renderable())
            _Lasting(sys.stderr).write(f"\r{drawn.get().rstrip():<{WIDTH}}")

        def stop(self) -> None:
            self.refresh()
            _Lasting(sys.stderr).write("\n")

    if settings.is_notebook():
        kind: type[Progress] = InCell
        console = Console(file=io.StringIO(), width=WIDTH, no_color=True, force_terminal=False, force_jupyter=False)
    else:
        kind, console = Progress, Console(file=_Lasting(sys.stderr))  # type: ignore[arg-type]
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
    """Return an amount in three digits with its unit.

    Examples
    --------
    >>> quantity(12_345_678, "bytes"), quantity(999, "bytes"), quantity(2_500, "entries")
    ('12.3 MB', '999 bytes', '2.50k entries')
    """
    prefixes = ("", "k", "M", "G", "T", "P", "E")
    step = 0
    while n >= 999.5 and step < len(prefixes) - 1:
        n, step = n / 1000, step + 1
    number = f"{n:.0f}" if step == 0 or n >= 99.95 else f"{n:.1f}" if n >= 9.995 else f"{n:.2f}"
    if unit == "bytes":
        return f"{number} bytes" if step == 0 else f"{number} {prefixes[step]}B"
    return f"{number}{prefixes[step]} {unit}"
