"""The program: its commands, general options and exit codes."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sparrow.cli import als, datasets, exporting, graphs, ingesting, reading, training, upkeep
from sparrow.cli.arguments import QUERY_THREAD
from sparrow.cli.spelling import Program
from sparrow.io.base.registry import Format, formats
from sparrow.runtime.events import emit
from sparrow.runtime.foreign_errors import is_interrupt

__all__ = ["main", "program"]

VERBS = (
    *("demo", "ingest", "export", "info", "show", "sql", "explain", "multiply", "graph", "pagerank"),
    *("als", "recommend", "train", "predict", "datasets"),
    *("append", "resize", "files", "orders", "compact", "verify", "history", "restore", "vacuum"),
)


class _Verbs(TyperGroup):
    """Commands in a fixed order, from first steps to maintenance."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=VERBS.index)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; completion options may be followed by the name of a shell."""
        if len(args) == 2 and args[0] in ("--show-completion", "--install-completion"):
            _complete(args[1], args[0] == "--install-completion")
        return super().parse_args(ctx, args)


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
        str | None, typer.Option(metavar="SIZE", help="What sparrow may use, such as 2GB (10^9). [default: 60 %]")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads. [default: one a processor]")] = None,
    temp_directory: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where large sorts spill.")] = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Progress bars. [default: in a terminal]")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Write the version.")
    ] = False,
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
    from sparrow.runtime import settings

    settings.config(memory_limit=memory_limit, threads=threads, temp_directory=temp_directory, progress=progress)


def program() -> typer.Typer:
    """Return the program, with a command for each registered format."""
    app = Program(
        name="sparrow",
        cls=_Verbs,
        callback=general,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for verbs in (ingesting, exporting, reading, graphs, als, training, datasets, upkeep):
        verbs.add_to(app)
    return app


@functools.lru_cache(maxsize=1)
def _command(known: tuple[Format, ...]) -> Any:
    """Return the program for a set of formats, built once."""
    return typer.main.get_command(program())


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Parameters
    ----------
    args
        Arguments after the program name; those of the process by default.
    """
    from sparrow.errors import SparrowError

    with _terminable() as ended, warnings.catch_warnings():
        warnings.filterwarnings("default", category=UserWarning)
        warnings.showwarning = _show_warning
        try:
            emit("cli.run")
            _command(tuple(formats().values()))(args=None if args is None else list(args), prog_name="sparrow")
        except SystemExit as end:
            if end.code == 130:
                _exit_interrupted(ended)
            raise
        except (SparrowError, OSError) as error:
            _print_error(f"error: {_format_error(error)}")
            for text in getattr(error, "__notes__", ()):
                print(text, file=sys.stderr)
        except MemoryError:
            _print_error(
                "error: out of memory: set --memory-limit below the memory of the machine, or read a smaller part"
            )
        except RuntimeError as error:
            # A signal that arrives while a lock is taken makes Python raise the error of its release instead.
            if not is_interrupt(error):
                raise
            _exit_interrupted(ended)
    sys.exit(1)


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Make SIGTERM clean up as Ctrl-C does; yield a list that records it."""
    ended: list[int] = []

    def end(number: int, frame: Any) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit_interrupted(ended: list[int]) -> NoReturn:
    """Report the interrupt and exit, at once if a query is still running."""
    _print_error("terminated" if ended else "interrupted")
    code = 128 + (ended[0] if ended else signal.SIGINT)
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
        print(f"sparrow: {text}", file=sys.stderr)
    except OSError:
        return
