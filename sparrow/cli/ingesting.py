"""Command ``ingest``: a subcommand for each format and recipe."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import re
import runpy
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from sparrow.cli.arguments import AsJson, format_shape, open_all, write_json
from sparrow.cli.formats import DeclaredFormat, command, declarations, given, list_option, parameter
from sparrow.cli.lazy import LazyCommand, LazyGroup
from sparrow.cli.parsing import suggest_flags
from sparrow.cli.spelling import Program
from sparrow.runtime.resources import data_folder

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    ingest = Program(no_args_is_help=True, rich_markup_mode=None, callback=_ingest, cls=_Formats)
    app.add_typer(ingest, name="ingest")


def _add_format(known: DeclaredFormat, app: typer.Typer) -> None:
    app.command(known.name)(_command_for(known))


def _add_recipe(script: str, name: str, app: typer.Typer) -> None:
    own = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(name, context_settings=own)(_recipe(script, name))


class _Formats(LazyGroup):
    """Formats and recipes. Their name may be omitted: the format is then detected."""

    @property
    def lazy_commands(self) -> dict[str, LazyCommand]:
        found = {
            known.name: LazyCommand(known.summary, partial(_add_format, known))
            for known in declarations().formats
            if known.reader is not None
        }
        for script in sorted(data_folder("ingest").iterdir(), key=lambda entry: entry.name):
            if script.name.endswith(".py"):
                title = script.read_text(encoding="utf-8").split("\n", 1)[0].strip('"')
                name = script.name.removesuffix(".py")
                found[name] = LazyCommand(f"Recipe: {title}", partial(_add_recipe, str(script), name))
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Insert the detected format if none is named."""
        if self.get_command(ctx, args[0]) is None and (args[0] == "-" or not args[0].startswith("-")):
            from sparrow.errors import IngestError, NotFoundError
            from sparrow.io.base.command_line import option_flags
            from sparrow.io.base.detect import detect_format
            from sparrow.io.base.suggestion import PLACEHOLDER, with_destination

            words = [*itertools.takewhile(lambda word: word == "-" or not word.startswith("-"), args)]
            files, target = (words[:-1], words[-1]) if len(words) > 1 else (words, PLACEHOLDER)
            flags = option_flags()
            options = _group_options(args[len(words) :], flags)
            of_formats = [name for name in options if name not in ("--json", "--help")]
            unknown = [name for name in of_formats if name.startswith("--")]
            if unknown and os.path.exists(files[0]) and (close := suggest_flags(unknown[0], flags)):
                ctx.fail(f"No such option: {unknown[0]} (Possible options: {close[0]})")
            try:
                found = detect_format(files, of_formats)
            except NotFoundError:
                ctx.fail(_unknown(files[0]))
            except IngestError as error:
                for name, typed in options.items():
                    flag = typed[0].partition("=")[0]
                    error.problem = error.problem.replace(f"has no option {name!r};", f"has no option {flag};")
                if "fill_value" in options and "dtype" not in options:
                    options["dtype"] = _fitting_dtype(options["fill_value"])
                error.commands = with_destination((_repeat(each, options, flags) for each in error.commands), target)
                raise
            if len(args) == 1:
                ctx.fail(_missing(args))
            typer.echo(found.describe(files), err=True)
            args = [found.format, *args]
        return super().resolve_command(ctx, args)


def _group_options(words: Sequence[str], flags: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the words of each option by name; unknown ones by spelling."""
    options: dict[str, list[str]] = {}
    own: list[str] = []
    for word in words:
        if word.startswith("--"):
            flag = word.partition("=")[0]
            own = options.setdefault(flags.get(flag, flag), [])
        own.append(word)
    return options


def _fitting_dtype(words: Sequence[str]) -> list[str]:
    """Return the words of a dtype for a fill that integers may not hold."""
    from sparrow.io.base.command_line import dtype_of_fill
    from sparrow.io.base.registry import parse_number

    with contextlib.suppress(ValueError):
        dtype = dtype_of_fill(parse_number(words[-1].rpartition("=")[2]))
        return [] if dtype is None else ["--dtype", dtype]
    return []


def _repeat(command: str, options: Mapping[str, Sequence[str]], flags: Mapping[str, str]) -> str:
    """Return a suggested command with the typed options of its format."""
    from sparrow.io.base.registry import formats, options_of

    found = re.search(r"\bsparrow ingest (\S+) ", command)
    reader = getattr(formats().get("" if found is None else found[1]), "reader", None)
    known = {*options} if reader is None else {each.name for each in options_of(reader)}
    given = {flags.get(word) for word in shlex.split(command)}
    more = [word for name, words in options.items() if name in known and name not in given for word in words]
    return " ".join([command, *map(shlex.quote, more)])


def _missing(words: Sequence[str]) -> str:
    """Return the message for a command without a destination."""
    return f"Missing DST, the folder to create: sparrow ingest {shlex.join(words)} DST"


def _unknown(word: str) -> str:
    """Return the message for a word that is neither a format nor a file."""
    other = {"csv": "columns", "tsv": "columns", "parquet": "columns", "json": "columns", "jsonl": "columns",
             "arrow": "columns", "svmlight": "libsvm", "svm": "libsvm", "matrixmarket": "mtx", "graph": "edges",
             "snap": "edges", "frostt": "tns", "10x": "tenx", "anndata": "h5ad", "mm": "mtx",
             "kg": "triples", "numpy": "npy", "scipy": "npz"}.get(word.lower())  # fmt: skip
    way = f"{word} files are read by 'sparrow ingest {other}'" if other else "sparrow ingest --list shows the formats"
    return f"{word!r} is neither a format nor a file: {way}"


def _detect(file: str | None) -> None:
    if file is not None:
        from sparrow.io.base.detect import detect_format

        found = detect_format(file)
        typer.echo(f"{found.format}: {found.reason}")
        raise typer.Exit


def _ingest(
    list: Annotated[bool, list_option("reader")] = False,
    sniff: Annotated[
        str | None,
        typer.Option("--sniff", metavar="FILE", is_eager=True, callback=_detect, help="Detect the format of a file."),
    ] = None,
) -> None:
    """Store files as tensors, within the memory limit, whatever their size.

    A command is a format, or a recipe for a published source; without one the first bytes and lines of the file tell
    its format. SRC may be compressed (gzip, zstd, bz2, xz: told from the content). A failed or interrupted ingest
    leaves nothing.

    \b
    Examples:
      sparrow ingest west0479.mtx west.sparrow
      sparrow ingest libsvm a9a.gz a9a.sparrow
      sparrow ingest edges cnr-2000.edges.txt.zst web.sparrow
      sparrow ingest columns ratings.csv ratings.sparrow \\
          --coords userId,movieId --value rating --relabel
    """


def _recipe(script: str, name: str) -> Callable[[typer.Context], None]:
    def run(ctx: typer.Context) -> None:
        before, sys.argv = sys.argv, [f"sparrow ingest {name}", *ctx.args]
        try:
            runpy.run_path(script, run_name="__main__")
        finally:
            sys.argv = before

    return run


def _command_for(format: DeclaredFormat) -> Callable[..., None]:
    """Return the command of a format."""
    reader = format.reader
    assert reader is not None
    kind: Any = list[str] | None if reader.accepts_many else str | None
    files = "Files, globs in quotes, or - for standard input." if reader.accepts_many else "The file."
    fixed = {
        "context": typer.Context,
        "source": Annotated[kind, typer.Argument(metavar="SRC", help=files)],
        "target": Annotated[str | None, typer.Argument(metavar="DST", help="Folder to create.")],
    }
    defaults: dict[str, Any] = {name: {"default": None} for name in ("source", "target")}  # _run names what is missing
    parameters = [
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, **defaults.get(name, {}))
            for name, kind in fixed.items()
        ),
        *map(parameter, reader.options),
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson),
    ]
    text = reader.description.replace("``", "")
    if reader.examples:
        lines = reader.examples.split("\n")
        title = "Example" if sum(line.startswith("sparrow ") for line in lines) == 1 else "Examples"
        text += "\n\n\b\n" + f"{title}:\n" + "\n".join(f"  {line}" for line in lines)
    return command(partial(_run, format.name), parameters, text)


def _run(
    name: str,
    /,
    *,
    context: typer.Context,
    source: str | list[str] | None,
    target: str | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Ingest, and report what was stored."""
    from sparrow.errors import IngestError
    from sparrow.io.base.registry import formats, options_of
    from sparrow.io.base.suggestion import with_destination
    from sparrow.tensor.display import human_bytes

    known = formats()[name].reader
    assert known is not None

    given_words = [*([source] if isinstance(source, str) else source or ()), *([] if target is None else [target])]
    if not given_words:
        context.fail("Missing SRC and DST, the files and the folder to create")
    if len(given_words) < 2:
        context.fail(_missing([name, *given_words]))
    *words_before, target = given_words
    source = words_before if known.accepts_many else words_before[0]
    options = options_of(known)
    files = source[0] if isinstance(source, list) and len(source) == 1 else source
    started = time.perf_counter()
    reader = known(files, target, **given(context, options, words))
    try:
        reader.ingest(report=True)
    except IngestError as error:
        error.commands = with_destination(error.commands, target)
        raise
    seconds = time.perf_counter() - started
    stored = open_all(target)
    if as_json:
        members = [
            {
                "path": path,
                "shape": list(tensor.shape),
                "dims": list(tensor.dims),
                "dtype": str(tensor.dtype),
                "nnz": tensor.nnz,
                "bytes": tensor.nbytes,
            }
            for path, tensor in stored.items()
        ]
        write_json({"path": target, "seconds": seconds, "tensors": members, "report": dict(reader.report.counts)})
        return
    for path, tensor in stored.items():
        sizes = format_shape(tensor.dims, tensor.shape)
        print(f"{path}: {sizes} {tensor.dtype}, {tensor.nnz:,} entries in {human_bytes(tensor.nbytes)}")
    typer.echo(f"stored in {seconds:.1f} s", err=True)
