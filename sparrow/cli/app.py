"""The program: its commands, general options and exit codes."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, NoReturn

import typer

from sparrow.cli.arguments import QUERY_THREAD
from sparrow.cli.lazy import LazyCommand, LazyGroup
from sparrow.cli.spelling import Program, respelled_errors
from sparrow.cli.tables import terminal_width, wrap_line
from sparrow.runtime.events import emit
from sparrow.runtime.foreign_errors import is_interrupt

__all__ = ["VERBS", "program", "report", "run"]

VERBS = {
    "demo": ("reading", "Store, slice, query and multiply two real data sets."),
    "ingest": ("ingesting", "Store files as tensors."),
    "export": ("exporting", "Write a tensor to Parquet, CSV, .npz, libsvm."),
    "info": ("reading", "Shape, entries, bytes, files and version of a tensor."),
    "show": ("reading", "Entries of a tensor or of a part of it."),
    "view": ("viewing", "Explore a tensor in the browser: zoom, degrees, values, SQL."),
    "sql": ("querying", "Query stored tensors in SQL."),
    "shell": ("querying", "Query stored tensors in SQL at a prompt."),
    "explain": ("reading", "Show how a part would be read and what is skipped."),
    "multiply": ("reading", "Multiply a stored matrix and a vector or matrix."),
    "graph": ("graphs", "Algorithms on a stored graph."),
    "pagerank": ("graphs", "The PageRank of the nodes of a graph."),
    "als": ("als", "Factors of a matrix by alternating least squares."),
    "recommend": ("als", "Recommendations of a saved ALS model."),
    "train": ("training", "A linear model or factorization machine by gradient descent."),
    "predict": ("training", "Predictions of a trained model."),
    "datasets": ("datasets", "Published data sets: sources, licences, how to fetch them."),
    "append": ("upkeep", "Add the entries of a table or tensor."),
    "resize": ("upkeep", "Grow or cut dimensions."),
    "files": ("upkeep", "Data files: rows, bytes, first and last entry."),
    "orders": ("upkeep", "List sort orders, or add one."),
    "compact": ("upkeep", "Rewrite small files as full ones."),
    "verify": ("upkeep", "Read every file and report damage."),
    "history": ("upkeep", "Versions of a tensor."),
    "restore": ("upkeep", "Make an old version the newest."),
    "vacuum": ("upkeep", "Delete files that no recent version uses."),
}
"""Commands from first steps to maintenance: the module of ``sparrow.cli`` that adds them, and their line of help."""


class _Verbs(LazyGroup):
    """Commands of the program."""

    @property
    def lazy_commands(self) -> dict[str, LazyCommand]:
        return {name: LazyCommand(summary, partial(_add, module)) for name, (module, summary) in VERBS.items()}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; completion options may be followed by the name of a shell."""
        if len(args) == 2 and args[0] in ("--show-completion", "--install-completion"):
            _complete(args[1], args[0] == "--install-completion")
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments of the program."""
        with _wrapped_usage():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _wrapped_usage():
            return super().invoke(ctx)


@contextmanager
def _wrapped_usage() -> Iterator[None]:
    """Wrap messages on wrong usage on a terminal."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):
            prefix = "Error: "
            text = _wrap(prefix + error.format_message()).removeprefix(prefix)
            vars(error)["format_message"] = lambda: text
        raise


def _add(module: str, app: typer.Typer) -> None:
    """Add the commands of a module to a program."""
    importlib.import_module(f"sparrow.cli.{module}").add_to(app)


def _complete(shell: str, install: bool) -> NoReturn:
    """Print or install the completion script of a shell, and exit."""
    from typer import completion

    shells: Any = completion.Shells  # type: ignore[attr-defined]
    if shell not in list(shells):
        raise typer.BadParameter(f"shell must be one of {', '.join(shells)}, got {shell!r}")
    if install:
        _, path = completion.install(shell, "sparrow")  # type: ignore[attr-defined]
        typer.echo(f"{path} completes words from the next {shell} on")
    else:
        named = {"prog_name": "sparrow", "complete_var": "_SPARROW_COMPLETE", "shell": shell}
        typer.echo(completion.get_completion_script(**named))  # type: ignore[attr-defined]
    raise typer.Exit


def _version(wanted: bool) -> None:
    if wanted:
        from sparrow import __version__

        typer.echo(f"sparrow {__version__}")
        raise typer.Exit


def general(
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit, such as 2GB (10^9). [default: 60 %]")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads. [default: one a processor]")] = None,
    temp_directory: Annotated[str | None, typer.Option(metavar="FOLDER", help="Folder of spill files.")] = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Progress bars. [default: in a terminal]")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="NAME", help="Engine, such as stream, processes or dask. [default: auto]")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS|N", help="Scheduler of dask, ray or spark; number of processes.")
    ] = None,
    scratch: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder that all machines of a cluster share.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Write the version.")
    ] = False,
    *,
    context: typer.Context,
) -> None:
    """Sparse tensors on disk: slice, query and multiply without loading them.

    PATH is the folder of a stored tensor; a tensor of a bundle is PATH/NAME, such as a9a.sparrow/X.

    \b
    Examples:
      sparrow demo
      sparrow ingest libsvm a9a.gz a9a.sparrow
      sparrow info a9a.sparrow
      sparrow show a9a.sparrow/X "5:9"
      sparrow sql "select col, count(*) from X group by col" X=a9a.sparrow/X
    """
    if any(each is not None for each in (memory_limit, threads, temp_directory, progress, engine, cluster, scratch)):
        from sparrow.runtime import settings

        if engine is not None:
            import sparrow.engines  # noqa: F401 - the names

        with respelled_errors(context.command.params):
            settings.config(
                memory_limit=memory_limit, threads=threads, temp_directory=temp_directory, progress=progress,
                engine=engine, cluster=cluster, scratch=scratch,
            )  # fmt: skip


def program() -> typer.Typer:
    """Return the program."""
    return Program(
        name="sparrow",
        cls=_Verbs,
        callback=general,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Parameters
    ----------
    args
        Arguments after the program name; those of the process by default.
    """
    with _interruptible() as signals, warnings.catch_warnings():
        warnings.filterwarnings("default", category=UserWarning)
        warnings.showwarning = _show_warning
        try:
            emit("cli.run")
            command: Any = typer.main.get_command(program())
            with _plain_completion():
                command(args=None if args is None else list(args), prog_name="sparrow")
        except SystemExit as end:
            if end.code == 130:
                _exit_interrupted(signals)
            raise
        except KeyboardInterrupt:
            _exit_interrupted(signals)
        except Exception as error:
            # A signal that arrives while a lock is taken or an extension is imported becomes another error.
            if signals or is_interrupt(error):
                _exit_interrupted(signals)
            if not report(error):
                raise
    sys.exit(1)


@contextmanager
def _plain_completion() -> Iterator[None]:
    """Hide rich from completion: typer would import it to strip markup from help."""
    if "_SPARROW_COMPLETE" not in os.environ:
        yield
        return
    hidden = sys.modules.get("rich")
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["rich"]
        if hidden is not None:
            sys.modules["rich"] = hidden


def report(error: Exception) -> bool:
    """Print an error that is no fault of the program; return whether it is one."""
    from sparrow.errors import SparrowError

    if isinstance(error, SparrowError | OSError):
        _print_error(f"error: {_format_error(error)}")
        for text in getattr(error, "__notes__", ()):
            print(text, file=sys.stderr)
    elif isinstance(error, MemoryError):
        _print_error("error: out of memory: set --memory-limit below the memory of the machine, or read a smaller part")
    else:
        return False
    return True


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Make SIGTERM clean up as Ctrl-C does; yield a list that records both."""
    signals: list[int] = []

    def end(number: int, frame: Any) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number, handler in before.items():
        if number == signal.SIGTERM or handler is signal.default_int_handler:  # a job in the background ignores Ctrl-C
            signal.signal(number, end)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_interrupted(signals: Sequence[int]) -> NoReturn:
    """Report the interrupt and exit, at once if a query is still running."""
    number = signal.SIGTERM if signal.SIGTERM in signals else signal.SIGINT
    _print_error("terminated" if number == signal.SIGTERM else "interrupted")
    code = 128 + number
    if any(thread.name == QUERY_THREAD for thread in threading.enumerate()):
        os._exit(code)
    sys.exit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    _print_error(f"warning: {message}")


def _format_error(error: Exception) -> str:
    """Return an error in one line; indented commands in it stay lines."""
    from sparrow.errors import SparrowError
    from sparrow.storage.fs.failures import DISK_FULL_ERRNOS

    if isinstance(error, OSError) and not isinstance(error, SparrowError) and error.strerror:
        if error.filename is not None:
            return f"{error.filename}: {error.strerror}"
        return f"standard output: {error.strerror}" if error.errno in DISK_FULL_ERRNOS else error.strerror
    parts = re.split(r"\n((?:  \S.*(?:\n|$))+)", str(error))  # odd parts are commands, indented by two
    lines = [part.rstrip() if at % 2 else " ".join(part.split()) for at, part in enumerate(parts)]
    return "\n".join(filter(None, lines)) or type(error).__name__


def _print_error(text: str) -> None:
    try:
        print(_wrap(f"sparrow: {text}"), file=sys.stderr)
    except OSError:
        return


def _wrap(text: str) -> str:
    """Wrap lines for standard error; indented ones are commands and stay as they are."""
    width = terminal_width(sys.stderr)
    return "\n".join(line if line.startswith("  ") else wrap_line(line, width) for line in text.split("\n"))
