"""Progress bars: output, and streams that disappear."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pytest

from sparrow.runtime import progress, settings
from sparrow.testing import observe, tune, tuning


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
        threads = [threading.Thread(target=lambda: [advance(1) for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "4.00k lines of 4.00k lines" in terminal.getvalue()


class Cell(io.StringIO):
    """Standard error whose type is that of a Jupyter kernel."""


Cell.__module__ = "ipykernel.iostream"


def test_notebook_bar_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell()
    monkeypatch.setattr("sys.stderr", cell)
    with progress.bar("reading a9a", 4_000_000) as advance:
        advance(1_000_000)
        assert progress.write_line("compiling")
        advance(3_000_000)
    text = cell.getvalue()
    assert "\x1b" not in text, "notebooks do not interpret escape codes"
    *drawn, last = text.split("\n")
    assert last == ""
    assert [line.split("\r")[-1].split()[0] for line in drawn] == ["compiling", "reading"]
    assert {len(line) for line in text.replace("\n", "\r").split("\r") if line} == {tuning("runtime").progress_columns}
    assert "4.00 MB of 4.00 MB" in drawn[-1]
    with settings.config(progress=False), progress.bar("reading", 10) as advance:
        advance(10)
    assert cell.getvalue() == text
