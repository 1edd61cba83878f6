"""Command ``shell``: SQL at a prompt, or statements of standard input."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

import sparrow as sp
from sparrow.cli.answers import Mode, name_tables, respell, split_statements, write_answer
from sparrow.cli.arguments import format_shape
from sparrow.cli.tables import is_terminal, write_table
from sparrow.errors import InvalidValueError, SparrowError
from sparrow.functions.query_paths import is_path, stored_tables
from sparrow.functions.sql import codes_of, run_query
from sparrow.functions.statements import words_of
from sparrow.plan import axis_labels
from sparrow.runtime.duckdb_connection import connect
from sparrow.runtime.events import emit
from sparrow.storage import is_tensor

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from sparrow.tensor import Tensor

__all__ = ["Shell"]

PROMPT = "sparrow> "
_WAY = "open it, as in .open NAME=PATH"
_CONTINUATION = "   ...> "


class Shell:
    """Reads statements and commands, and runs them.

    Parameters
    ----------
    tables
        Tensors by the names that statements use.
    head
        Rows of a table that are written, 0 for all.
    allow_side_effects
        Run statements of standard input that do more than read; those at the prompt always may.
    """

    def __init__(self, tables: dict[str, Tensor], head: int, allow_side_effects: bool) -> None:
        self.tables = tables
        self.head = head
        self.allow_side_effects = allow_side_effects
        self.is_timed = False
        self.mode: Mode = "table"

    def run(self) -> None:
        """Read standard input to its end, at a prompt if it is a terminal."""
        if sys.stdin.isatty() and is_terminal():
            self.allow_side_effects = True
            self._prompt()
        else:
            self._run_script(sys.stdin)

    # -- reading -------------------------------------------------------------------------------

    def _prompt(self) -> None:
        from sparrow.cli.app import report

        typer.echo(f"sparrow {sp.__version__}: end statements with a semicolon; .help lists commands, .quit leaves")
        session = _make_session(self)

        async def announce() -> None:
            emit("shell.prompt")

        def prepare() -> None:
            session.app.create_background_task(announce())  # runs once the terminal delivers keys

        while True:
            try:
                try:
                    text = session.prompt(PROMPT, pre_run=prepare)
                except KeyboardInterrupt:
                    continue
                self.run_text(text)
            except KeyboardInterrupt:
                typer.echo("interrupted", err=True)
            except (EOFError, SystemExit):
                return
            except typer.BadParameter as error:
                typer.echo(f"sparrow: error: {error.message}", err=True)
            except Exception as error:
                if not report(error):
                    raise

    def _run_script(self, lines: Iterable[str]) -> None:
        """Run lines; the first error ends the program."""
        text = ""
        for line in lines:
            text += line
            if not text.lstrip().startswith(".") and not split_statements(text)[0]:
                continue
            try:
                text = self.run_text(text, is_complete=False)
                if text.startswith("."):  # behind a statement in its line
                    text = self.run_text(text)
            except SystemExit:
                return
        if text.strip():
            self.run_text(text)

    def run_text(self, text: str, is_complete: bool = True) -> str:
        """Run a command, or the statements of a text.

        Parameters
        ----------
        text
            Commands begin with a dot.
        is_complete
            Run what follows the last semicolon too.

        Returns
        -------
        str
            What was not run.
        """
        if text.lstrip().startswith("."):
            self._run_command(text.strip().removesuffix(";"))
            return ""
        statements, rest = split_statements(text)
        if is_complete and rest:
            statements, rest = [*statements, rest], ""
        for statement in statements:
            self._run_statement(statement)
        return f"{rest}\n" if rest else ""

    # -- running -------------------------------------------------------------------------------

    def _run_statement(self, statement: str) -> None:
        import duckdb

        started = time.perf_counter()
        try:
            with connect() as con:
                if not con.extract_statements(statement):  # a comment
                    return
            for name in self.tables.keys() & words_of(statement):
                self.tables[name].refresh()
            answer = run_query(statement, None, self.allow_side_effects, self.tables, ())
            emit("cli.query")
            write_answer(answer, self.head, self.mode, ".head 0 shows all", fetch=_call)
        except (duckdb.Error, InvalidValueError) as error:
            raise respell(error, self.tables, _WAY) from error
        if self.is_timed:
            typer.echo(f"{time.perf_counter() - started:.3f} s", err=True)

    def _run_command(self, line: str) -> None:
        try:
            name, *words = shlex.split(line)
        except ValueError as error:
            raise typer.BadParameter(f"{line} is no command: {str(error).lower()}") from None
        command = _COMMANDS.get(name)
        if command is None:
            raise typer.BadParameter(f"{name} is no command: .help lists them")
        try:
            command[0](self, *words)
        except InvalidValueError as error:
            raise respell(error, self.tables, _WAY) from error
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # not of this call
            raise typer.BadParameter(f"use it as in {name} {command[1]}".rstrip()) from None

    def list_tables(self) -> None:
        """List the open tensors, and those of this folder."""
        rows: list[tuple[str, str, int | None, str]] = []
        for name, tensor in self.tables.items():
            try:
                rows.append((name, _describe(tensor), tensor.nnz, _shorten(tensor.path or "")))
            except SparrowError as error:  # another tool wrote to it
                rows.append((name, str(error), None, _shorten(tensor.path or "")))
        opened = {where for *_, where in rows}
        for path in stored_tables():
            if path not in opened:
                try:
                    tensor = sp.open(path)
                    rows.append((f"'{path}'", _describe(tensor), tensor.nnz, path))
                except SparrowError as error:
                    rows.append((f"'{path}'", str(error), None, path))
        with connect() as con:
            made = con.execute("select table_name, estimated_size from duckdb_tables() where not temporary").fetchall()
        rows += [(name, "table of DuckDB", count, "") for name, count in made]
        write_table(rows, ("table", "shape", "entries", "path"))

    def show_schema(self, *names: str) -> None:
        """Show the columns of tables, of all open ones by default."""
        for name in names or self.tables:
            source = name if name in self.tables else f"'{name}'"
            quoted = f'"{name}"' if name in self.tables else source
            answer = run_query(f"describe from {quoted}", None, False, self.tables, ())
            assert answer.relation is not None
            if len(names or self.tables) > 1:
                print(name)
            rows = [
                (column, kind.lower(), "position of the label" if column.lower() in answer.implied else "")
                for column, kind, *_ in answer.relation.fetchall()
            ]
            write_table(rows, ("column", "type", ""))

    def open_tables(self, *words: str) -> None:
        """Open tensors."""
        if not words:
            raise typer.BadParameter("use it as in .open web.sparrow, or .open web=data/web.sparrow")
        self.tables |= name_tables(words)

    def set_timer(self, state: str) -> None:
        """Show the seconds of each statement or not."""
        if state not in ("on", "off"):
            raise typer.BadParameter(f".timer must be on or off, got {state!r}")
        self.is_timed = state == "on"

    def set_head(self, rows: str) -> None:
        """Set how many rows of a table are shown."""
        if not rows.isdigit():
            raise typer.BadParameter(f".head must be a number of rows, 0 for all, got {rows!r}")
        self.head = int(rows)

    def set_mode(self, mode: str) -> None:
        """Set the format of results."""
        if mode not in get_args(Mode):
            raise typer.BadParameter(f".mode must be one of {', '.join(get_args(Mode))}, got {mode!r}")
        self.mode = mode  # type: ignore[assignment]

    def show_help(self) -> None:
        """List the commands."""
        for name, (_, words, summary) in _COMMANDS.items():
            print(f"{f'{name} {words}':<24}{summary}")

    def quit(self) -> None:
        """Leave."""
        raise SystemExit


_COMMANDS: dict[str, tuple[Callable[..., None], str, str]] = {
    ".tables": (Shell.list_tables, "", "List the open tensors, and those stored in this folder."),
    ".schema": (Shell.show_schema, "[NAME]...", "Show columns and their types."),
    ".open": (Shell.open_tables, "[NAME=]PATH...", "Open tensors as tables; a name replaces one."),
    ".timer": (Shell.set_timer, "on|off", "Show how long each statement takes."),
    ".head": (Shell.set_head, "N", "Show N rows of a table, 0 for all."),
    ".mode": (Shell.set_mode, "table|csv|json", "Set the format of results; csv and json have all rows."),
    ".help": (Shell.show_help, "", "List the commands."),
    ".quit": (Shell.quit, "", "Leave, as Ctrl-D does."),
    ".exit": (Shell.quit, "", "Leave."),
}
"""Commands: method, arguments and summary."""


def _call(work: Callable[[], Any]) -> Any:
    """Run a part of a query; Ctrl-C cancels it, on the main thread."""
    return work()


def _describe(tensor: Tensor) -> str:
    """Return the shape of a tensor and its dtype."""
    return f"{format_shape(tensor.dims, tensor.shape)} {tensor.dtype}"


def _shorten(path: str) -> str:
    """Return a path relative to this folder if it is in there."""
    start = os.path.join(os.getcwd(), "")
    return path.removeprefix(start)


def _codes_in(tensor: Tensor) -> set[str]:
    """Return the names of the columns that hold positions of labels."""
    return set(codes_of(tensor.dims, axis_labels(tensor.__sparrow_scan__())).values())


# -- the prompt ------------------------------------------------------------------------------------


def _history_file() -> Path | None:
    """Return the file of the history, or None if it cannot be written."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sparrow"
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home / "shell_history"
    return None


def _make_session(shell: Shell) -> PromptSession[str]:
    """Return a session with history, completion, colour and multi-line input."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.filters import Condition, completion_is_selected, has_completions
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    keys = KeyBindings()

    @Condition
    def is_complete() -> bool:
        text = session.default_buffer.text.strip()
        return not text or text.startswith(".") or (text.endswith(";") and not split_statements(text)[1])

    @keys.add("enter", filter=is_complete & ~completion_is_selected)
    def _(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=has_completions & completion_is_selected)
    def _(event: Any) -> None:
        event.current_buffer.complete_state = None

    file = _history_file()
    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory() if file is None else FileHistory(str(file)),
        completer=_make_completer(shell),
        complete_while_typing=False,
        key_bindings=keys,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        prompt_continuation=_CONTINUATION,
    )
    return session


def _make_completer(shell: Shell) -> Any:
    """Return the completer of commands, tables, columns, paths and keywords."""
    from prompt_toolkit.completion import Completer, Completion

    class ShellCompleter(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
            for word, start in completions(shell, document.text_before_cursor, document.text_after_cursor):
                yield Completion(word, start_position=start)

    return ShellCompleter()


def completions(shell: Shell, text: str, rest: str = "") -> Iterator[tuple[str, int]]:
    """Yield completions of a text, each with where it starts relative to its end.

    ``rest`` follows the cursor: columns of tables that it names are completed too.

    Examples
    --------
    >>> list(completions(Shell({}, 0, False), ".ti")), list(completions(Shell({}, 0, False), "select 1 lim"))
    ([('.timer', -3)], [('limit', -3)])
    """
    line = text.lstrip()
    if line.startswith("."):
        name, space, rest = line.partition(" ")
        word = rest.rpartition(" ")[2]
        found: Iterable[str] = ()
        if not space:
            word, found = name, _COMMANDS
        elif name == ".schema":
            found = [*shell.tables, *stored_tables()]
        elif name == ".open":
            word = word.rpartition("=")[2]
            found = _paths(word)
        elif name in _COMMANDS and "|" in _COMMANDS[name][1]:
            found = _COMMANDS[name][1].split("|")
    elif text.count("'") % 2:
        word = text.rpartition("'")[2]
        found = (path if os.path.isdir(path) and path.endswith("/") else f"{path}'" for path in _paths(word))
    else:
        word = _last_word(text)
        found = [*_words_of_tables(shell, text + rest), *(_keywords() if word else ())]
    seen = set()
    for each in found:
        if each.lower().startswith(word.lower()) and each != word and each not in seen:
            seen.add(each)
            yield each, -len(word)


def _last_word(text: str) -> str:
    """Return the part of a name that a text ends in."""
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start:]


def _words_of_tables(shell: Shell, text: str) -> list[str]:
    """Return the names of tables and columns, those of paths in a text included."""
    tensors = [*shell.tables.values()]
    paths = [path for path in re.findall(r"""['"]([^'"]+)['"]""", text) if is_path(path) and "://" not in path]
    with contextlib.suppress(SparrowError):
        tensors += [sp.open(path) for path in paths if is_tensor(path)]
    columns = [name for tensor in tensors for name in (*tensor.dims, "value", *sorted(_codes_in(tensor)))]
    return [*shell.tables, *columns]


def _paths(start: str) -> list[str]:
    """Return tensors, tables that DuckDB reads and folders by their first letters."""
    folder, first = os.path.split(start)
    found = [*stored_tables(folder)]
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder or os.curdir):
            path = os.path.join(folder, entry.name)
            if entry.is_dir() and path not in found and not entry.name.startswith("."):
                found.append(f"{path}/")
            elif entry.name.endswith((".parquet", ".csv", ".tsv", ".json", ".jsonl", ".csv.gz")):
                found.append(path)
    return sorted(path for path in found if os.path.basename(path.rstrip("/")).startswith(first))


@functools.cache
def _keywords() -> list[str]:
    """Return DuckDB's keywords and functions."""
    with connect() as con:
        words = con.execute(
            "select keyword_name from duckdb_keywords() union select function_name from duckdb_functions() "
            "where regexp_matches(function_name, '^[a-z][a-z_0-9]*$') order by all"
        ).fetchall()
    return [word for (word,) in words]
