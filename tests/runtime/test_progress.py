"""Progress bars: output, and streams that disappear."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from sparrow.runtime import progress, settings
from sparrow.runtime.progress_views import BarState, _Line, fit_line
from sparrow.testing import observe, tune


class Terminal(io.StringIO):
    """Standard error of a terminal that may disappear."""

    is_gone = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.is_gone:
            raise BrokenPipeError
        return super().write(text)


@pytest.fixture(autouse=True)
def immediate_bars() -> Iterator[None]:
    """Draw bars without delay."""
    with tune("runtime", progress_delay_seconds=0.0, progress_interval_seconds=0.0):
        yield


def patch_stderr(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal until the test ends.

    Not a fixture: pytest replaces standard error after the set-up.
    """
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return found


def test_line_is_written_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("reading a9a", 4_000_000) as advance:
        advance(1_000_000)
        assert progress.write_line("a message")
        advance(1_000_000)
    assert "a message\n" in terminal.getvalue()
    with settings.config(progress=False):
        assert not progress.write_line("never seen")
    assert "never seen" not in terminal.getvalue()


def test_bar_shows_description_total_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("reading a9a", 4_000_000) as advance:
        advance(1_000_000)
        advance(1_000_000)
    text = terminal.getvalue()
    assert "reading a9a" in text
    assert "2.00 MB of 4.00 MB" in text
    assert "/s" in text


def test_bar_without_total_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("sorting", None, "entries") as advance:
        advance(2_500)
    assert "2.50k entries" in terminal.getvalue()
    assert " of " not in terminal.getvalue()


def test_description_is_not_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("part[0].txt [red]", 10) as advance:
        advance(10)
    assert "part[0].txt [red]" in terminal.getvalue()


def test_no_bar_before_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with tune("runtime", progress_delay_seconds=1000.0), progress.bar("reading", 10) as advance:
        advance(10)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("enabled", [False, None])
def test_disabled_bar_writes_nothing(enabled: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    with settings.config(progress=enabled), progress.bar("reading", 10) as advance:
        advance(10)
    assert plain.getvalue() == ""


def test_broken_pipe_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    done = 0
    with progress.bar("reading", 100) as advance:
        for step in range(10):
            terminal.is_gone = step >= 3
            advance(10)
            done += 10
    assert done == 100


def test_closed_stream_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    done = 0
    with observe("progress.write") as writes, progress.bar("reading", 100) as advance:
        for step in range(10):
            if step == 3:
                shown = terminal.getvalue()
                terminal.close()
            advance(10)
            done += 10
    assert done == 100
    assert "reading" in shown
    assert not writes[0][1]["closed"]
    assert writes[-1][1]["closed"], "the bar must be drawn until it is closed"


def test_note_respects_disabled_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    progress.write_note("index_base=1")
    with settings.config(progress=False):
        progress.write_note("never seen")
    assert plain.getvalue() == "index_base=1\n"
    plain.close()
    progress.write_note("nowhere")


def test_error_in_block_propagates(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)

    def fail() -> None:
        with progress.bar("first", 10) as advance:
            advance(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with progress.bar("second", 10) as advance:
        advance(1)
    assert "second" in terminal.getvalue()


def test_nested_bar_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("outer", 10) as advance:
        advance(1)
        with progress.bar("inner", 10) as advance_inner:
            advance_inner(5)
        advance(1)
    assert "outer" in terminal.getvalue()
    assert "inner" not in terminal.getvalue()


def test_advance_is_thread_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with (
        tune("runtime", progress_interval_seconds=0.01),
        progress.bar("reading", 4000, "lines") as advance,
    ):

        def work() -> None:
            for _ in range(1000):
                advance(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "100%  4.00k lines" in terminal.getvalue()


# -- what a line holds -----------------------------------------------------------------------------


def state(
    description: str, done: int, total: float | None, status: str = "running", unit: str = "elements"
) -> BarState:
    return BarState(description, unit, done, total, 100.0, status)


@given(
    st.text(max_size=60),
    st.integers(0, 10**12),
    st.one_of(st.none(), st.integers(0, 10**12), st.just(float("inf"))),
    st.sampled_from(["running", "complete", "stopped"]),
    st.sampled_from(["bytes", "elements", "ratings"]),
    st.sampled_from([40, 79, 99, 120]),
)
def test_lines_never_wrap(text: str, done: int, total: Any, status: str, unit: str, width: int) -> None:
    shown = state(text, done, total, status, unit)
    description, length, figures = fit_line(shown, width)
    assert cell_len(description) + (length + 2 if length else 0) + 2 + cell_len(figures) <= width
    assert (shown.percent == "100%") == (status == "complete")
    assert shown.percent in figures
    console = Console(width=width + 1, file=io.StringIO(), color_system=None)
    console.print(_Line(shown))
    line = console.file.getvalue()  # type: ignore[attr-defined]
    assert line.count("\n") == 1


def test_what_does_not_fit_is_left_out() -> None:
    shown = state("writing", 19_100_000, 20_000_000)
    assert fit_line(shown, 100) == ("writing", 20, "95%  19.1M of 20.0M elements, 191k/s, 0:05 left")
    assert fit_line(shown, 60) == ("writing", 10, "95%  19.1M of 20.0M elements, 0:05 left")
    assert fit_line(shown, 30) == ("writing", 0, "95%  0:05 left")
    assert fit_line(shown, 18) == ("w\N{HORIZONTAL ELLIPSIS}", 0, "95%  0:05 left")


@pytest.mark.parametrize(
    ("shown", "figures"),
    [
        (state("a", 19_100_000, 20_000_000, "complete"), "100%  19.1M elements, 191k/s, in 1:40"),
        (state("a", 50, 100, "stopped"), "50%  50 of 100 elements, 2 s each, stopped after 1:40"),
        (state("a", 5_000, None), "5.00k elements, 50/s, 1:40"),
        (state("a", 5_000, float("inf")), "5.00k elements, 50/s, 1:40"),
        (state("a", 5_000, 4_000), "5.00k elements, 50/s, 1:40"),  # a total that was estimated too low
        (state("a", 0, 4_000), "0%  0 of 4.00k elements, 1:40"),
        (state("a", 4_000, 4_000), "99%  4.00k of 4.00k elements, 40/s, 0:00 left"),
        (state("a", 10, 1000, unit="bytes"), "1%  10 bytes of 1.00 kB, 0 bytes/s, 2:45:00 left"),
    ],
)
def test_figures(shown: BarState, figures: str) -> None:
    assert next(shown.figures()) == figures


# -- the end of a bar ------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [None, 10, 4, 1000])
def test_a_bar_ends_complete_whatever_its_total(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    steps = ["step 0"]
    with observe("progress.finish") as ends, progress.bar(lambda: steps[-1], total, "rows") as advance:
        for number in (1, 2):
            advance(2)
            steps.append(f"step {number}")
    last = terminal.getvalue().split("\r")[-1]
    assert "step 2" in last
    assert "100%" in last
    assert "4 rows" in last
    assert [(end["done"], end["total"], end["is_complete"]) for _, end in ends] == [(4, 4, True)]


def test_a_bar_that_fails_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)

    def fail() -> None:
        with progress.bar("reading", 10) as advance:
            advance(5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "50%  5 bytes of 10 bytes, " in terminal.getvalue().split("\r")[-1]
    assert "stopped after" in terminal.getvalue()


def test_the_outer_bar_is_drawn_while_inner_ones_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("outer", 2) as advance:
        with progress.bar("inner", 10) as advance_inner:
            advance_inner(5)
        assert "outer" in terminal.getvalue()
        assert "inner" not in terminal.getvalue()
        advance(2)


def test_a_full_bar_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("reading", 10) as advance:
        advance(10)
        with progress.bar("writing", 4) as advance_inner:
            advance_inner(1)
            assert "writing" in terminal.getvalue()
            advance_inner(3)
    drawn = [line.split("\r")[-1] for line in terminal.getvalue().split("\n")[:2]]
    assert ["reading" in drawn[0], "writing" in drawn[1]] == [True, True]
    assert all("100%" in line for line in drawn)
    assert terminal.getvalue().count("\n") == 2


def test_a_child_process_forgets_the_bars_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_stderr(monkeypatch)
    with progress.bar("reading", 10) as advance:
        advance(1)
        assert len(progress._open_bars) == 1
        progress._after_fork()
        with progress.bar("reading in the child", 10) as advance_inner:
            advance_inner(1)
            assert len(progress._open_bars) == 1
    assert not progress._open_bars


def test_totals_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = patch_stderr(monkeypatch)
    with progress.bar("reading", None, "rows") as advance:
        advance.set_total(100)
        advance(20)
        assert "20%  20 of 100 rows" in terminal.getvalue()
        advance.set_left(20)
        advance(5)
        assert "62%  25 of 40 rows" in terminal.getvalue()
    with settings.config(progress=False), progress.bar("reading", None, "rows") as advance:
        advance.set_total(100)
        advance.set_left(100)
        advance(1)


@given(st.floats(0.05, 0.9), st.integers(5, 60))
def test_rounds_of_geometric_convergence_are_foreseen(rate: float, count: int) -> None:
    tol = rate**count
    rounds = progress.Convergence(tol, 1000)
    found = [rounds.expect(rate**k) for k in range(1, count + 1)]
    assert found[0] == (1000 if count > 1 else 1)
    assert all(abs(expected - count) <= 1 for expected in found[1:])
    assert found[-1] == count
    assert progress.Convergence(1e-9, 50).expect(float("nan")) == 50
