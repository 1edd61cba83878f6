from __future__ import annotations

import io
import threading

import pytest

from sparrow.runtime import progress, settings


class Terminal(io.StringIO):
    """Standard error that is a terminal, until it goes away."""

    gone = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.gone:
            raise BrokenPipeError
        return super().write(text)


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal, with bars that are drawn at once, until the test ends."""
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return found


def test_a_line_stands_above_a_bar_that_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with progress.bar("reading a9a", 4_000_000) as advance:
        advance(1_000_000)
        assert progress.write_line("by the way")
        advance(1_000_000)
    assert "by the way\n" in terminal.getvalue()
    with settings.config(progress=False):
        assert not progress.write_line("never seen")
    assert "never seen" not in terminal.getvalue()


def test_it_shows_description_amount_whole_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with progress.bar("reading a9a", 4_000_000) as advance:
        advance(1_000_000)
        advance(1_000_000)
    text = terminal.getvalue()
    assert "reading a9a" in text
    assert "2.00 MB of 4.00 MB" in text
    assert "/s" in text


def test_without_a_whole_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with progress.bar("sorting", None, "entries") as advance:
        advance(2_500)
    assert "2.50k entries" in terminal.getvalue()
    assert " of " not in terminal.getvalue()


def test_markup_in_a_description_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with progress.bar("part[0].txt [red]", 10) as advance:
        advance(10)
    assert "part[0].txt [red]" in terminal.getvalue()


def test_nothing_is_drawn_in_the_first_second(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 1000.0)
    with progress.bar("reading", 10) as advance:
        advance(10)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("wanted", [False, None])
def test_off_it_does_nothing(wanted: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with settings.config(progress=wanted), progress.bar("reading", 10) as advance:
        advance(10)
    assert plain.getvalue() == ""


def test_a_terminal_that_goes_away_does_not_break_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    done = 0
    with progress.bar("reading", 100) as advance:
        for step in range(10):
            terminal.gone = step >= 3
            advance(10)
            done += 10
    assert done == 100


def test_a_closed_terminal_does_not_break_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    refused = []

    class Closed(progress._Lasting):
        def write(self, text: str) -> int:
            refused.append(terminal.closed)
            return super().write(text)

    monkeypatch.setattr(progress, "_Lasting", Closed)
    done = 0
    with progress.bar("reading", 100) as advance:
        for step in range(10):
            if step == 3:
                shown = terminal.getvalue()
                terminal.close()
            advance(10)
            done += 10
    assert done == 100
    assert "reading" in shown
    assert not refused[0]
    assert refused[-1], "it was drawn to the end, into nothing"


def test_a_note_is_written_unless_progress_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    progress.write_note("index_base=1")
    with settings.config(progress=False):
        progress.write_note("never seen")
    assert plain.getvalue() == "index_base=1\n"
    plain.close()
    progress.write_note("nowhere")


def test_an_error_in_the_block_passes_and_the_next_bar_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)

    def fail() -> None:
        with progress.bar("first", 10) as advance:
            advance(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with progress.bar("second", 10) as advance:
        advance(1)
    assert "second" in terminal.getvalue()


def test_a_bar_within_a_bar_leaves_the_screen_to_the_outer(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with progress.bar("outer", 10) as advance:
        advance(1)
        with progress.bar("inner", 10) as advance_inner:
            advance_inner(5)
        advance(1)
    assert "outer" in terminal.getvalue()
    assert "inner" not in terminal.getvalue()


def test_threads_may_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    with progress.bar("reading", 4000, "lines") as advance:
        threads = [threading.Thread(target=lambda: [advance(1) for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "4.00k lines of 4.00k lines" in terminal.getvalue()


class Cell(io.StringIO):
    """Standard error of a kernel of Jupyter, as far as its type tells."""


Cell.__module__ = "ipykernel.iostream"


def test_a_notebook_shows_bars_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell()
    monkeypatch.setattr("sys.stderr", cell)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    with progress.bar("reading a9a", 4_000_000) as advance:
        advance(1_000_000)
        assert progress.write_line("compiling")
        advance(3_000_000)
    text = cell.getvalue()
    assert "\x1b" not in text, "a cell takes no codes of a terminal"
    *drawn, last = text.split("\n")
    assert last == ""
    assert [line.split("\r")[-1].split()[0] for line in drawn] == ["compiling", "reading"]
    assert {len(line) for line in text.replace("\n", "\r").split("\r") if line} == {progress.WIDTH}
    assert "4.00 MB of 4.00 MB" in drawn[-1]
    with settings.config(progress=False), progress.bar("reading", 10) as advance:
        advance(10)
    assert cell.getvalue() == text
