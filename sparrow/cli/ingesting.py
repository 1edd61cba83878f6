"""``sparrow ingest FORMAT SRC... DST``: one command a format, options named as in :mod:`sparrow.ingest`."""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import typer

from sparrow.cli.arguments import AsJson, open_all, write_json
from sparrow.resources import data_folder

__all__ = ["add_to"]

Sources: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="SRC", help="Files, globs in quotes, or - for standard input.")
]
Target: TypeAlias = Annotated[str, typer.Argument(metavar="DST", help="The folder to make.")]
Duplicates: TypeAlias = Annotated[
    Literal["error", "sum", "last", "first", "min", "max"],
    typer.Option(help="What becomes of several values for one cell."),
]
DType: TypeAlias = Annotated[str | None, typer.Option(help="Type of the values, such as float32.")]
Overwrite: TypeAlias = Annotated[bool, typer.Option("--overwrite", help="Replace what stands at DST.")]
Profile: TypeAlias = Annotated[Literal["fast", "small"], typer.Option(help="Fast to read, or small on disk.")]


ingest = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Store files as tensors, within the memory limit, whatever their size.

    A command is a format, or a recipe for a published source. SRC may be compressed (gzip, zstd, bz2: told
    from the content). A failed or interrupted ingest leaves nothing.

    \b
    Examples:
      sparrow ingest libsvm a9a.gz a9a.sparrow
      sparrow ingest edges cnr-2000.edges.txt.zst web.sparrow
      sparrow ingest columns ratings.csv ratings.sparrow \\
          --coords userId,movieId --value rating --relabel
    """,
)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program: the formats, and the scripts of ``ingest/``, which take words of their own."""
    own = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    for script in sorted(data_folder("ingest").iterdir(), key=lambda entry: entry.name):
        if script.name.endswith(".py"):
            title = script.read_text(encoding="utf-8").split("\n", 1)[0].strip('"')
            name = script.name.removesuffix(".py")
            ingest.command(name, short_help=f"Recipe: {title}", context_settings=own)(_recipe(str(script), name))
    app.add_typer(ingest, name="ingest", short_help="Store files as tensors.")


def _recipe(script: str, name: str) -> Callable[[typer.Context], None]:
    def run(ctx: typer.Context) -> None:
        before, sys.argv = sys.argv, [f"sparrow ingest {name}", *ctx.args]
        try:
            runpy.run_path(script, run_name="__main__")
        finally:
            sys.argv = before

    return run


@ingest.command(short_help="libsvm / svmlight text.")
def libsvm(
    sources: Sources,
    target: Target,
    index_base: Annotated[
        Literal["auto", "0", "1"], typer.Option(help="The first index; auto: 0 if any index is 0, else 1.")
    ] = "auto",
    n_features: Annotated[int | None, typer.Option(min=0, help="Columns of X. [default: the largest index]")] = None,
    dtype: DType = "float64",
    duplicates: Duplicates = "error",
    overwrite: Overwrite = False,
    profile: Profile = "fast",
    as_json: AsJson = False,
) -> None:
    """Store libsvm / svmlight text as a bundle: X, y and, where there are any, qid.

    \b
    Examples:
      sparrow ingest libsvm a9a.gz a9a.sparrow
      sparrow ingest libsvm "part-*.txt.zst" big.sparrow --index-base 0
      zcat a9a.gz | sparrow ingest libsvm - a9a.sparrow
    """
    _run(
        "libsvm",
        sources,
        target,
        as_json,
        index_base=index_base if index_base == "auto" else int(index_base),
        n_features=n_features,
        dtype=dtype,
        duplicates=duplicates,
        overwrite=overwrite,
        profile=profile,
    )


@ingest.command(short_help="Edge lists: SNAP, KONECT, Common Crawl, CSV.")
def edges(
    sources: Sources,
    target: Target,
    vertices: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file that lists the vertices: number and name.")
    ] = None,
    ids: Annotated[Literal["auto", "int", "str"], typer.Option(help="What vertices are called by.")] = "auto",
    relabel: Annotated[bool, typer.Option("--relabel", help="Number the vertices anew, without gaps.")] = False,
    self_loops: Annotated[Literal["keep", "drop"], typer.Option(help="Links from a vertex to itself.")] = "keep",
    directed: Annotated[
        bool, typer.Option("--directed/--undirected", help="Undirected stores each edge both ways.")
    ] = True,
    duplicates: Duplicates = "sum",
    dtype: DType = None,
    header: Annotated[bool, typer.Option("--header", help="Skip a first line of column names.")] = False,
    overwrite: Overwrite = False,
    profile: Profile = "fast",
    as_json: AsJson = False,
) -> None:
    """Store an edge list as a square tensor (src, dst): SNAP, KONECT, Common Crawl, CSV.

    Columns are parted by tabs, blanks or commas; a third one is the weight, without it every edge counts 1.

    \b
    Examples:
      sparrow ingest edges wiki-Vote.txt.gz votes.sparrow
      sparrow ingest edges edges.txt.gz web.sparrow --vertices vertices.txt.gz
    """
    _run(
        "edges",
        sources,
        target,
        as_json,
        vertices=vertices,
        ids=ids,
        relabel=relabel,
        self_loops=self_loops,
        directed=directed,
        duplicates=duplicates,
        dtype=dtype,
        header=header,
        overwrite=overwrite,
        profile=profile,
    )


@ingest.command(short_help="Tables: CSV, Parquet, Arrow.")
def columns(
    sources: Sources,
    target: Target,
    coords: Annotated[str, typer.Option(metavar="A,B,...", help="The columns that hold the coordinates.")],
    value: Annotated[str | None, typer.Option(help="The column that holds the values. [default: all are 1]")] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="M,N,...", help="Sizes, ? for what fits. [default: ?,?,...]")
    ] = None,
    dims: Annotated[str | None, typer.Option(metavar="A,B,...", help="Names. [default: those of the columns]")] = None,
    relabel: Annotated[bool, typer.Option("--relabel", help="Number the coordinates anew, without gaps.")] = False,
    duplicates: Duplicates = "error",
    fill_value: Annotated[float, typer.Option(help="The value of absent cells.")] = 0,
    dtype: DType = None,
    header: Annotated[bool, typer.Option("--header/--no-header", help="CSV: the first line has names.")] = True,
    delimiter: Annotated[str | None, typer.Option(help="CSV: what parts columns. [default: tab or comma]")] = None,
    format: Annotated[
        Literal["csv", "parquet", "arrow"] | None, typer.Option(help="Of the files. [default: told from the content]")
    ] = None,
    overwrite: Overwrite = False,
    profile: Profile = "fast",
    as_json: AsJson = False,
) -> None:
    """Store a table (CSV, Parquet or Arrow) with columns of coordinates and one of values, or none.

    \b
    Example:
      sparrow ingest columns ratings.csv ratings.sparrow \\
          --coords userId,movieId --value rating --relabel
    """
    _run(
        "columns",
        sources,
        target,
        as_json,
        coords=_names(coords),
        value=value,
        shape=None if shape is None else _sizes(shape),
        dims=None if dims is None else _names(dims),
        relabel=relabel,
        duplicates=duplicates,
        fill_value=int(fill_value) if fill_value.is_integer() else fill_value,
        dtype=dtype,
        header=header,
        delimiter=delimiter,
        format=format,
        overwrite=overwrite,
        profile=profile,
    )


@ingest.command(short_help="Sparse arrays of SciPy and pydata/sparse.")
def npz(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The .npz file.")],
    target: Target,
    dims: Annotated[str | None, typer.Option(metavar="A,B,...", help="Names. [default: d0,d1,...]")] = None,
    overwrite: Overwrite = False,
    profile: Profile = "fast",
    as_json: AsJson = False,
) -> None:
    """Store a sparse array that SciPy's or pydata/sparse's save_npz wrote; it must fit in memory.

    \b
    Example:
      sparrow ingest npz matrix.npz matrix.sparrow --dims row,col
    """
    _run(
        "npz",
        [source],
        target,
        as_json,
        dims=None if dims is None else _names(dims),
        overwrite=overwrite,
        profile=profile,
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise typer.BadParameter(f"{text!r} is no list of names: give them as A,B,...")
    return names


def _sizes(text: str) -> tuple[int | None, ...]:
    try:
        return tuple(None if size.strip() == "?" else int(size) for size in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no shape: give sizes as M,N,... with ? for what fits") from None


def _check_dtype(text: str) -> None:
    from sparrow.errors import UnsupportedError
    from sparrow.schema import check_dtype

    try:
        check_dtype(text)
    except (TypeError, UnsupportedError):
        raise typer.BadParameter(f"{text!r} is no type of values: say for example float32, int64 or bool") from None


def _run(name: str, sources: list[str], target: str, as_json: bool, **options: Any) -> None:
    """Ingest, and say what was stored."""
    from sparrow import ingest as formats
    from sparrow.display import human_bytes

    if options.get("dtype") is not None:
        _check_dtype(options["dtype"])

    started = time.perf_counter()
    getattr(formats, name)(sources[0] if len(sources) == 1 else sources, target, **options)
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
        write_json({"path": target, "seconds": seconds, "tensors": members})
        return
    for path, tensor in stored.items():
        sizes = ", ".join(f"{dim}: {n:,}" for dim, n in zip(tensor.dims, tensor.shape, strict=True))
        print(f"{path}: ({sizes}) {tensor.dtype}, {tensor.nnz:,} entries in {human_bytes(tensor.nbytes)}")
    typer.echo(f"stored in {seconds:.1f} s", err=True)
