"""Command ``export``: stored tensors as files for other programs."""

from __future__ import annotations

import inspect
import time
from typing import Annotated, Any, Literal

import typer

from sparrow.cli.arguments import AsJson, At, StoredPath, open_any, parse_index, write_json
from sparrow.cli.formats import command, declarations, given, list_option, parameter

__all__ = ["add_to"]

HELP = """Write the entries of a tensor to a file, or a bundle as libsvm; DST appears when it is whole.

A table has a column for each dimension, then value. Text may be compressed: .csv.gz, .svm.zst.

\b
Examples:
  sparrow export web.sparrow web.parquet
  sparrow export web.sparrow web.edges.zst
  sparrow export a9a.sparrow a9a.svm.gz
  sparrow export a9a.sparrow/X top.csv --index ":100"
  sparrow export web.sparrow - --format csv | head
"""


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    written = {each.name: each.writer for each in declarations().formats if each.writer is not None}
    names: Any = Literal[tuple(written)]
    options = {each.name: each for writer in written.values() for each in writer}
    first: list[tuple[str, Any, Any]] = [
        ("context", typer.Context, inspect.Parameter.empty),
        ("path", StoredPath, inspect.Parameter.empty),
        (
            "target",
            Annotated[str, typer.Argument(metavar="DST", help="The file to make, or - for standard output.")],
            inspect.Parameter.empty,
        ),
        (
            "format",
            Annotated[
                names | None,
                typer.Option(metavar="FORMAT", help=f"{', '.join(written)}. [default: by the suffix]"),
            ],
            None,
        ),
        (
            "index",
            Annotated[str, typer.Option("--index", metavar="INDEX", help="A part of it, such as '5:9, ...'.")],
            "...",
        ),
        ("at", At, None),
    ]
    last: list[tuple[str, Any, Any]] = [
        ("overwrite", Annotated[bool, typer.Option("--overwrite", help="Replace an existing DST.")], False),
        ("as_json", AsJson, False),
        ("list", Annotated[bool, list_option("writer")], False),
    ]

    def keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    parameters = [
        *(keyword(*each) for each in first),
        *map(parameter, options.values()),
        *(keyword(*each) for each in last),
    ]
    app.command("export")(command(_export, parameters, HELP))


def _export(
    *,
    context: typer.Context,
    path: str,
    target: str,
    format: str | None,
    index: str,
    at: str | None,
    overwrite: bool,
    as_json: bool,
    **words: Any,
) -> None:
    from sparrow.io.base.export import export as written
    from sparrow.io.base.registry import formats, options_of
    from sparrow.tensor import Tensor

    source = open_any(path, at)
    if index != "...":
        if not isinstance(source, Tensor):
            raise typer.BadParameter(f"{path} is a bundle: --index takes a part of one tensor")
        source = source[parse_index(index)]
        if not isinstance(source, Tensor):
            raise typer.BadParameter(f"{index!r} is one element: pass a slice, such as '5:6'")
    started = time.perf_counter()
    every = (each for known in formats().values() if known.writer for each in options_of(known.writer))
    options = list({each.name: each for each in every}.values())
    rows = written(source, target, format, overwrite=overwrite, **given(context, options, words))
    seconds = time.perf_counter() - started
    if as_json and target != "-":
        write_json({"path": target, "rows": rows, "seconds": seconds})
    elif target != "-":
        typer.echo(f"{rows:,} rows to {target}, {seconds:.2f} s", err=True)
