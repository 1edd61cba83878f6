"""Maintenance commands: ``append``, ``compact``, ``vacuum`` and others."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from sparrow.cli.arguments import AsJson, StoredPath, format_shape, open_all, open_one, write_json
from sparrow.cli.formats import command, declarations, given, parameter
from sparrow.cli.tables import write_table

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("append")(_append_command())
    for verb in (resize, files, orders, compact, verify, history, restore, vacuum):
        # A negative size or version is a wrong value, not an option.
        app.command(context_settings={"ignore_unknown_options": verb in (resize, restore)})(verb)


_APPEND = """Add entries in one commit; columns go by the names of dimensions, and new labels make them longer.

\b
Examples:
  sparrow append ratings.sparrow new.csv --value stars --duplicates last
  zcat *.csv.gz | sparrow append ratings.sparrow - --value stars
  sparrow append ratings.sparrow new.dat --format csv --delimiter :: \\
      --no-header --coords c0,c1 --value c2
  sparrow append ratings.sparrow more.sparrow
"""


def _append_command() -> Callable[..., None]:
    """Return the command ``append`` with the options of ``ingest columns``."""
    rule = Literal["error", "sum", "last", "first", "min", "max"]
    source = typer.Argument(metavar="SRC", help="A table, a folder or pattern of some, -, or a stored tensor.")
    cells = typer.Option(help="How to combine entries that both have.")
    column = typer.Option(metavar="NAME", help="The column of the values. [default: value, or the one left]")
    fixed: tuple[tuple[str, Any, Any], ...] = (
        ("context", typer.Context, inspect.Parameter.empty),
        ("path", StoredPath, inspect.Parameter.empty),
        ("source", Annotated[str, source], inspect.Parameter.empty),
        ("duplicates", Annotated[rule, cells], "error"),
        ("value", Annotated[str | None, column], None),
    )
    parameters = [
        *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
          for name, kind, default in fixed),
        *map(parameter, declarations().append),
    ]  # fmt: skip
    return command(_append, parameters, _APPEND)


def _append(
    *, context: typer.Context, path: str, source: str, duplicates: str, value: str | None, **words: Any
) -> None:
    from sparrow.io.tabular.append import is_stored_tensor, reading_options

    tensor = open_one(path)
    before = tensor.nnz
    options = given(context, reading_options(), words)
    counted = ""
    if any(tensor.labels(dim) is None for dim in tensor.dims) and not is_stored_tensor(source):
        counted = f", coordinates counted from {options.get('index_base', 0)}"
    tensor.append(source, duplicates, value, **options)
    more = tensor.nnz - before
    entries = "entry" if more == 1 else "entries"
    sizes = format_shape(tensor.dims, tensor.shape)
    print(f"{path}: {more:,} {entries} more, now {tensor.nnz:,} in {sizes}, version {tensor.version}{counted}")


def resize(
    path: StoredPath,
    shape: Annotated[str, typer.Argument(metavar="SHAPE", help="The new sizes, such as 1000,1000.")],
) -> None:
    """Change the shape in one commit; entries beyond the new shape are deleted.

    Growing writes no data. Dimensions with labels grow by appends.

    \b
    Example:
      sparrow resize web.sparrow 1000000,1000000
    """
    tensor = open_one(path)
    try:
        sizes = [int(size.replace("_", "")) for size in shape.strip("()").split(",") if size.strip()]
    except ValueError:
        raise typer.BadParameter(f"SHAPE must be {tensor.ndim} sizes, such as 1000,1000, got {shape!r}") from None
    before = tensor.nnz
    tensor.resize(sizes)
    gone = f" of {before:,}" if tensor.nnz < before else ""
    print(f"{path}: {format_shape(tensor.dims, tensor.shape)}, {tensor.nnz:,}{gone} entries, version {tensor.version}")


def files(
    path: StoredPath,
    order: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Those of this sort order: names or numbers of dimensions.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the data files: rows, bytes, first and last entry.

    A table has unique prefixes of the file names; JSON has full paths.

    \b
    Examples:
      sparrow files web.sparrow
      sparrow files web.sparrow --order dst,src
    """
    tensor = open_one(path)
    found = tensor.files(None if order is None else _parse_order(order, tensor.dims))
    if as_json:
        write_json([dataclasses.asdict(file) for file in found])
        return
    names = _shorten([os.path.relpath(file.path, tensor.path) for file in found])
    rows = [
        (name, file.rows, file.bytes, ", ".join(map(str, file.first)), ", ".join(map(str, file.last)))
        for name, file in zip(names, found, strict=True)
    ]
    write_table(rows, ("file", "rows", "bytes", "first", "last"), empty="no data files")


def _shorten(names: list[str]) -> list[str]:
    """Return unique prefixes of file names that are hashes."""
    for length in range(12, max(map(len, names), default=0), 4):
        cut = [name[: name.rfind("/") + 1 + length] for name in names]
        if len(set(cut)) == len(names):
            return [f"{short}\N{HORIZONTAL ELLIPSIS}" for short in cut]
    return names


def orders(
    path: StoredPath,
    add: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Keep this order too: names or numbers of dimensions.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the sort orders of a tensor; the first is the one it was stored in.

    \b
    Examples:
      sparrow orders web.sparrow
      sparrow orders web.sparrow --add dst,src
    """
    tensor = open_one(path)
    if add is not None:
        tensor.add_order(_parse_order(add, tensor.dims))
    rows = []
    for order in tensor.__sparrow_scan__().relation.orders:
        files = tensor.files(order)
        rows.append(([tensor.dims[dim] for dim in order], len(files), sum(file.bytes for file in files)))
    if as_json:
        write_json([{"order": dims, "files": files, "bytes": nbytes} for dims, files, nbytes in rows])
        return
    write_table(
        [(", ".join(dims), files, nbytes) for dims, files, nbytes in rows], ("order", "files", "bytes"), folds=True
    )


def _parse_order(text: str, dims: tuple[str, ...]) -> list[int]:
    """Return the numbers of dimensions given by name or number."""
    out = []
    for word in (part.strip() for part in text.split(",")):
        if word in dims:
            out.append(dims.index(word))
        elif word.isdigit():
            out.append(int(word))
        else:
            raise typer.BadParameter(f"sort orders must be of dimensions {', '.join(dims)}, got {word!r}")
    return out


def compact(
    path: StoredPath,
    profile: Annotated[
        Literal["fast", "small", "portable"] | None,
        typer.Option(help="Fast to read, small on disk, or portable to older readers of Parquet. [default: as it is]"),
    ] = None,
) -> None:
    """Merge small adjacent files in one commit; the entries do not change.

    \b
    Examples:
      sparrow compact web.sparrow
      sparrow compact web.sparrow --profile portable
    """
    from sparrow.tensor.display import human_bytes

    for where, tensor in open_all(path).items():
        before = (len(tensor.files()), tensor.nbytes)
        tensor.compact(profile)
        print(
            f"{where}: {before[0]} files of {human_bytes(before[1])}, now {len(tensor.files())} of "
            f"{human_bytes(tensor.nbytes)}, version {tensor.version}"
        )


def restore(
    path: StoredPath,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=0, help="As history names it.")],
) -> None:
    """Make a new version that equals an old one. No data is written.

    \b
    Example:
      sparrow restore web.sparrow 0
    """
    tensor = open_one(path)
    tensor.restore(version)
    print(f"{path}: version {tensor.version} is version {version} again, {tensor.nnz:,} entries")


def verify(path: StoredPath, as_json: AsJson = False) -> None:
    """Read every file and report damage; exit code 1 if there is any.

    \b
    Example:
      sparrow verify a9a.sparrow
    """
    findings = [(where, finding) for where, tensor in open_all(path).items() for finding in tensor.verify()]
    if as_json:
        write_json([{"path": where, "file": found.file, "problem": found.problem} for where, found in findings])
    else:
        for where, found in findings:
            print(f"{where}: {found}")
        if not findings:
            typer.echo("no problems found", err=True)
    if findings:
        raise typer.Exit(1)


def history(path: StoredPath, as_json: AsJson = False) -> None:
    """List the versions of a tensor, newest first.

    \b
    Example:
      sparrow history web.sparrow
    """
    records = [{"path": where, **record} for where, tensor in open_all(path).items() for record in tensor.history()]
    if as_json:
        write_json(records)
        return
    names = ["version", "timestamp", "operation", "nnz", "files_added", "files_removed"]
    if len({record["path"] for record in records}) > 1:
        names.insert(0, "path")
    write_table([[_format(record[name]) for name in names] for record in records], names)


def _format(value: Any) -> Any:
    """Format a time to the second; return other values as they are."""
    return value.strftime("%Y-%m-%d %H:%M:%S") if hasattr(value, "strftime") else value


def vacuum(
    path: StoredPath,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="Keep what younger versions use. Shorter than the longest write, this may take a live writer's files.",
        ),
    ] = "7 days",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete files that no recent version uses, such as those of killed writers.

    \b
    Example:
      sparrow vacuum web.sparrow --older-than "2 days" --dry-run
    """
    gone = [name for tensor in open_all(path).values() for name in tensor.vacuum(older_than, dry_run)]
    if as_json:
        write_json({"dry_run": dry_run, "files": gone})
        return
    for name in gone:
        print(name)
    typer.echo(f"{len(gone)} files {'would be ' if dry_run else ''}deleted", err=True)
