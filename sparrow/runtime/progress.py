"""Progress bars and notes, for terminals and notebooks.

A bar appears if :meth:`sparrow.runtime.settings.Settings.show_progress` allows it and the operation takes longer than
a second. Disabled bars cost one no-op call per step. Of bars within each other the outermost is shown that has not
reached its total. A bar ends at 100 % with the last description, whatever its total was, unless its block raises.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from sparrow.runtime import events, settings
from sparrow.runtime.quantities import format_quantity
from sparrow.runtime.tuning import tuning

if TYPE_CHECKING:
    from sparrow.runtime.progress_views import BarState, BarView

__all__ = [
    "Advance", "Convergence", "bar", "format_quantity", "respelled_notes", "work_left", "write_line", "write_note",
]  # fmt: skip

_open_bars: list[_Bar] = []
"""Bars of running operations, oldest first; the first that has not reached its total is shown."""
_opening = threading.Lock()


def _after_fork() -> None:
    """Forget the bars of the parent, which draws them."""
    global _opening
    _opening = threading.Lock()
    _open_bars.clear()


os.register_at_fork(after_in_child=_after_fork)


class Advance(Protocol):
    """Function that advances a bar."""

    def __call__(self, n: int, /) -> None:
        """Add ``n`` to the amount done; thread-safe."""

    def set_total(self, total: float) -> None:
        """Replace the total, which may be an estimate; thread-safe."""

    def set_left(self, left: float) -> None:
        """Set the total to the amount done and what is left; thread-safe."""


def bar(
    description: str | Callable[[], str], total: float | None, unit: str = "bytes"
) -> AbstractContextManager[Advance]:
    """Show the progress of the operation in the block.

    Parameters
    ----------
    description
        Short description, or a function that returns the current one.
    total
        Total in ``unit``, exact or estimated; None if unknown, then no remaining time is shown.
    unit
        ``"bytes"``, or a plural noun such as ``"elements"``.

    Yields
    ------
    function of one integer
        Advances the bar; its methods ``set_total`` and ``set_left`` replace the total. Thread-safe.

    Examples
    --------
    >>> with bar("reading", 300) as advance:
    ...     for block in (100, 200):
    ...         advance(block)
    """
    events.emit("progress.start", description=description, total=total, unit=unit)
    return _show(_Bar(description, total, unit)) if settings.current().show_progress() else _DISABLED


@contextmanager
def _show(shown: _Bar) -> Iterator[Advance]:
    is_complete = False
    try:  # Ctrl-C may come at any point, and a bar that stays would hide all others
        with _opening:
            _open_bars.append(shown)
        yield shown
        is_complete = True
    finally:
        with _opening:
            _open_bars[:] = [each for each in _open_bars if each is not shown]
        shown.close(is_complete)


def write_line(text: str) -> bool:
    """Write a line above the current bar; return whether progress is shown."""
    if not settings.current().show_progress():
        return False
    _write(text)
    return True


def write_note(text: str) -> None:
    """Write a line, in a terminal or not, unless progress is disabled.

    It goes to standard error, and in a notebook among the outputs of the cell.
    """
    if settings.current().progress is not False:
        _write(_respell.get()(text))


def _write(text: str) -> None:
    from sparrow.runtime.progress_views import show_note

    show_note(text)


_respell: ContextVar[Callable[[str], str]] = ContextVar("respell", default=str)


@contextmanager
def respelled_notes(respell: Callable[[str], str]) -> Iterator[None]:
    """Write the notes of this block as a function returns them."""
    token = _respell.set(respell)
    try:
        yield
    finally:
        _respell.reset(token)


class _Ignored:
    """Function that advances no bar."""

    def __call__(self, n: int, /) -> None:
        pass

    def set_total(self, total: float) -> None:
        pass

    def set_left(self, left: float) -> None:
        pass


_DISABLED = nullcontext(_Ignored())


class _Bar:
    """Counter that is drawn after a delay, while it is the oldest one."""

    def __init__(self, description: str | Callable[[], str], total: float | None, unit: str) -> None:
        self._description = description
        self._total, self._unit = total, unit
        self._is_exact = total is not None
        self._lock = threading.Lock()
        self._done = 0
        self._started = time.monotonic()
        self._next = self._started + tuning().progress_delay_seconds
        self._view: BarView | None = None

    def __call__(self, n: int, /) -> None:
        events.emit("progress.advance", description=self._description, n=n)
        with self._lock:
            self._done += n
        bars = _open_bars.copy()
        shown = next((k for k, each in enumerate(bars) if each is self or not each.is_full), -1)
        for full in bars[:shown]:
            full.end_view("complete")
        bars[shown].refresh()

    def set_total(self, total: float) -> None:
        with self._lock:
            self._total, self._is_exact = total, False

    def set_left(self, left: float) -> None:
        with self._lock:
            self._total, self._is_exact = self._done + left, False

    @property
    def is_full(self) -> bool:
        """True if nothing is left of a total that was given."""
        return self._is_exact and self._total is not None and self._done >= self._total

    def refresh(self) -> None:
        """Draw the bar if it is due."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + tuning().progress_interval_seconds
            state = self._state("running")
            if self._view is None:
                from sparrow.runtime.progress_views import open_view

                self._view = open_view()
            self._view.draw(state)

    def close(self, is_complete: bool) -> None:
        with self._lock:
            self._next = math.inf
            expected, done = self._total, self._done
        total = done if is_complete else expected
        details = {"done": done, "expected": expected, "total": total, "is_complete": is_complete}
        events.emit("progress.finish", description=self._description, **details)
        self.end_view("complete" if is_complete else "stopped")

    def end_view(self, status: str) -> None:
        """Draw the bar for the last time, if it is on screen."""
        with self._lock:
            self._next = math.inf
            if self._view is not None:
                view, self._view = self._view, None
                view.close(self._state(status))

    def _state(self, status: str) -> BarState:
        from sparrow.runtime.progress_views import BarState

        text = self._description() if callable(self._description) else self._description
        return BarState(text, self._unit, self._done, self._total, time.monotonic() - self._started, status)


class Convergence:
    """Estimate of the rounds of an iteration whose error shrinks geometrically.

    Parameters
    ----------
    tol
        Error at which the iteration ends.
    limit
        Maximum number of rounds; the estimate where the error does not shrink.

    Examples
    --------
    >>> rounds = Convergence(1e-6, limit=100)
    >>> [rounds.expect(error) for error in (1e-1, 1e-2, 1e-3)]
    [100, 6, 6]
    """

    def __init__(self, tol: float, limit: float) -> None:
        self._tol, self._limit = tol, limit
        self._errors: list[float] = []

    def expect(self, error: float) -> float:
        """Return the number of rounds in all, after the error of another one."""
        self._errors.append(float(error))
        count = len(self._errors)
        if error <= self._tol:
            return count
        before = self._errors[(count - 1) // 2]  # the first rounds converge faster
        if not 0 < self._tol < error < before < math.inf:
            return max(self._limit, count)
        rate = math.log(error / before) / (count - 1 - (count - 1) // 2)
        rest = math.log(self._tol / error) / rate
        return min(max(count + math.ceil(rest - 1e-9), count + 1), max(self._limit, count))


def work_left(before: float, now: float) -> float:
    """Return the work of this and all later rounds, if work shrinks geometrically.

    Parameters
    ----------
    before, now
        Work of the last round and of this one.

    Examples
    --------
    >>> work_left(100, 50), work_left(0, 50), work_left(50, 100)
    (100.0, 50, 100)
    """
    return now / (1 - max(now / before, 0.1)) if now < 0.95 * before else now
