"""``sparrow export PATH DST``: what is stored, as files that other programs read."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import typer

from sparrow.cli.arguments import AsJson, StoredPath, open_any, parse_index, write_json

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(short_help="Write a tensor to Parquet, CSV, .npz, libsvm.")(export)


def export(
    path: StoredPath,
    target: Annotated[str, typer.Argument(metavar="DST", help="The file to make, or - for standard output.")],
    format: Annotated[
        Literal["parquet", "arrow", "csv", "tsv", "edges", "npz", "libsvm"] | None,
        typer.Option(help="Of the file. [default: what its name ends in]"),
    ] = None,
    index: Annotated[str, typer.Option("--index", metavar="INDEX", help="A part of it, such as '5:9, ...'.")] = "...",
    labels: Annotated[bool, typer.Option("--labels/--numbers", help="Labels or numbers, where there are both.")] = True,
    index_base: Annotated[int, typer.Option(min=0, max=1, help="libsvm: the number of the first column.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands at DST.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the entries of a tensor to a file, or a bundle as libsvm; DST appears when it is whole.

    A table has a column for each dimension, then value. Text may be compressed: .csv.gz, .svm.zst.

    \b
    Examples:
      sparrow export web.sparrow web.parquet
      sparrow export web.sparrow web.edges.zst
      sparrow export a9a.sparrow a9a.svm.gz
      sparrow export a9a.sparrow/X top.csv --index ":100"
      sparrow export web.sparrow - --format csv | head
    """
    from sparrow.files.exporting import export as written
    from sparrow.tensor import Tensor

    source = open_any(path)
    if index != "...":
        if not isinstance(source, Tensor):
            raise typer.BadParameter(f"{path} is a bundle: --index takes a part of one tensor")
        source = source[parse_index(index)]
        if not isinstance(source, Tensor):
            raise typer.BadParameter(f"{index!r} is one cell: ask for a part, such as '5:6'")
    started = time.perf_counter()
    rows = written(source, target, format=format, labels=labels, index_base=index_base, overwrite=overwrite)
    seconds = time.perf_counter() - started
    if as_json and target != "-":
        write_json({"path": target, "rows": rows, "seconds": seconds})
    elif target != "-":
        typer.echo(f"{rows:,} rows to {target}, {seconds:.2f} s", err=True)
