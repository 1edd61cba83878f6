"""Commands that read stored tensors: ``demo info show explain multiply``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparrow.cli.arguments import (
    AsJson,
    At,
    Engine,
    Head,
    Index,
    StoredPath,
    format_shape,
    open_all,
    open_one,
    parse_index,
    write_json,
)
from sparrow.cli.tables import terminal_width, wrap_line, write_explained, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparrow.tensor import Tensor

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (demo, info, show, explain, multiply):
        # An index such as -1 or -5: is not an option.
        app.command(context_settings={"ignore_unknown_options": command in (show, explain)})(command)


def demo(
    folder: Annotated[str, typer.Argument(metavar="[FOLDER]", help="Where to store the tensors.")] = "sparrow-demo",
) -> None:
    """Store two real data sets, slice them, query and multiply them.

    \b
    Example:
      sparrow demo
    """
    from sparrow.cli import demo as shown

    shown.run(folder)


def info(path: StoredPath, as_json: AsJson = False) -> None:
    """Show shape, entries, bytes, profile, orders and version; reads the log only.

    \b
    Examples:
      sparrow info a9a.sparrow
      sparrow info a9a.sparrow/X --json
    """
    from sparrow.storage import PROFILE_READERS
    from sparrow.tensor.display import human_bytes

    facts = {where: _describe(tensor) for where, tensor in open_all(path).items()}
    if as_json:
        write_json({"path": path, "tensors": [{"path": where, **fact} for where, fact in facts.items()]})
        return
    for number, (where, fact) in enumerate(facts.items()):
        if number:
            print()
        per_entry = fact["bits_per_entry"]
        lines = {
            "path": where,
            "shape": format_shape(fact["dims"], fact["shape"]),
            "values": f"{fact['dtype']}, {fact['fill_value']} where nothing is stored",
            "entries": f"{fact['nnz']:,}"
            + ("" if fact["density"] is None else f" ({fact['density']:.3g} of the cells)"),
            "size": human_bytes(fact["bytes"]) + ("" if per_entry is None else f", {per_entry:.2f} bits an entry"),
            "files": str(fact["files"]),
            "profile": f"{fact['profile']}, for {PROFILE_READERS[fact['profile']]}",
            "sorted by": "; ".join(", ".join(fact["dims"][k] for k in order) for order in fact["orders"]),
            "labels": ", ".join(fact["labelled"]) or "none",
            "matched": _format_matching(fact["dims"], fact["matched_by_name"]),
            "version": str(fact["version"]),
        }
        for name, text in lines.items():
            print(wrap_line(f"{name:<11}{text}", terminal_width(), 11))


def _format_matching(dims: Sequence[str], by_name: Sequence[str]) -> str:
    """Return the rule by which operands are matched, as a line."""
    if not by_name:
        return "by position: the dimension names are assigned ones"
    others = [dim for dim in dims if dim not in by_name]
    return "by dimension name" + (f", except {', '.join(others)}" if others else "")


def _describe(tensor: Tensor) -> dict[str, Any]:
    relation = tensor.__sparrow_scan__().relation
    from sparrow.core.schema import is_given_name

    nnz, nbytes = tensor.nnz, tensor.nbytes
    return {
        "shape": list(tensor.shape),
        "dims": list(tensor.dims),
        "dtype": str(tensor.dtype),
        "fill_value": tensor.fill_value.item(),
        "stype": tensor.stype,
        "nnz": nnz,
        "density": tensor.density if tensor.size else None,
        "bytes": nbytes,
        "bits_per_entry": 8 * nbytes / nnz if nnz else None,
        "files": len(tensor.files()),
        "profile": tensor._stored_handle().current.metadata.profile,
        "orders": [list(order) for order in relation.orders],
        "matched_by_name": [name for name in tensor.dims if is_given_name(name)],
        "labelled": [name for name in tensor.dims if tensor.labels(name) is not None],
        "version": tensor.version,
    }


def show(
    path: StoredPath,
    index: Index = "...",
    sel: Annotated[list[str] | None, typer.Option(metavar="DIM=LABEL", help="Select a label; may be repeated.")] = None,
    at: At = None,
    head: Head = 20,
    dense: Annotated[bool, typer.Option("--dense", help="Write a dense array, as NumPy does.")] = False,
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="FILE", help="Plot the positions of entries to FILE. Needs Matplotlib."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the entries of a tensor, or of a part of it; or draw them.

    A table has labels in place of coordinates where there are any, JSON has the numbers.

    \b
    Examples:
      sparrow show web.sparrow 5:9
      sparrow show a9a.sparrow/X "::1000, [0, 72]" --head 0
      sparrow show a9a.sparrow/X ":4, :12" --dense
      sparrow show ratings.sparrow --sel user=u005
      sparrow show web.sparrow "12, 342" --at 3
      sparrow show web.sparrow -1 --json
      sparrow show web.sparrow --png web.png
    """
    import numpy as np

    from sparrow.tensor import Tensor

    tensor = open_one(path, at)
    if sel and index != "...":
        raise typer.BadParameter("pass INDEX or --sel, not both")
    part = tensor.sel(_parse_labels(sel)) if sel else tensor[parse_index(index)]
    if not isinstance(part, Tensor):
        if as_json:
            write_json({"value": part})
        else:
            print(part)
        return
    if png is not None:
        from sparrow.storage.fs.filesystem import atomic_write
        from sparrow.tensor import spy

        with atomic_write(png) as picture:
            picture.write(spy.png(part.spy()))
        print(png)
        return
    if dense:
        cells = part.to_numpy()
        if as_json:
            write_json({"shape": list(cells.shape), "cells": cells})
        else:
            print(np.array2string(cells, max_line_width=80, threshold=2000))
        return
    rows, more = _read_elements(part, head)
    if as_json:
        write_json([dict(zip((*tensor.dims, "value"), row, strict=True)) for row in rows])
    else:
        labels = [tensor.labels(name) for name in tensor.dims]
        named = [
            (*(at if names is None else names[at].as_py() for at, names in zip(row, labels, strict=False)), row[-1])
            for row in rows
        ]
        write_table(named, (*tensor.dims, "value"), empty="no entries")
    if more:
        typer.echo(f"the first {head} of {part.nnz:,} entries; --head 0 writes all", err=True)


def _parse_labels(texts: list[str]) -> dict[str, Any]:
    """Return labels by dimension; a list if a dimension is named several times."""
    found: dict[str, list[str]] = {}
    for text in texts:
        dim, equals, label = text.partition("=")
        if not (dim and equals):
            raise typer.BadParameter(f"must be DIM=LABEL, got {text!r}", param_hint="--sel")
        found.setdefault(dim, []).append(label)
    return {dim: labels if len(labels) > 1 else labels[0] for dim, labels in found.items()}


def _read_elements(part: Tensor, head: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return elements with their coordinates in the base, and whether there are more."""
    import numpy as np

    from sparrow.relations.arrow import as_numpy
    from sparrow.storage.parquet.layout import decode_values

    view = part.__sparrow_scan__().view
    rows: list[tuple[Any, ...]] = []
    for batch in part.to_batches():
        columns = [as_numpy(column) for column in batch.columns]
        coords = columns[: part.ndim]
        values = decode_values(columns[part.ndim :], part.dtype)
        placed = view.to_base(coords) if part.ndim else [np.full(len(values), at) for _, at in view.fixed]
        rows.extend(zip(*(column.tolist() for column in placed), values.tolist(), strict=True))
        if head and len(rows) > head:
            return rows[:head], True
    return rows, False


def explain(
    path: StoredPath,
    index: Index = "...",
    analyze: Annotated[bool, typer.Option("--analyze", help="Run it, and count rows and bytes.")] = False,
) -> None:
    """Show how a part would be read, and what is skipped.

    \b
    Example:
      sparrow explain web.sparrow "5:9" --analyze
    """
    from sparrow.tensor import Tensor

    part = open_one(path)[parse_index(index)]
    if not isinstance(part, Tensor):
        raise typer.BadParameter(f"{index!r} is one element, which is read at once: pass a slice, such as '5:6'")
    write_explained(part.explain(analyze))


def multiply(
    path: StoredPath,
    vector: Annotated[str, typer.Option(metavar="FILE.npy|PATH|ones", help="A dense or stored vector or matrix.")],
    transpose: Annotated[bool, typer.Option("--transpose", help="Multiply the transposed tensor.")] = False,
    engine: Annotated[Engine, typer.Option(help="Engine; auto chooses the faster one.")] = "auto",
    out: Annotated[str | None, typer.Option(metavar="FILE.npy", help="Where to write the product.")] = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Multiply a stored matrix and a vector or matrix, without loading the first.

    \b
    Examples:
      sparrow multiply web.sparrow --vector ones --transpose
      sparrow multiply web.sparrow --vector x.npy --out y.npy
      sparrow multiply web.sparrow --vector ranks.sparrow
    """
    import numpy as np

    import sparrow as sp
    from sparrow.errors import UnsupportedError
    from sparrow.runtime import memory
    from sparrow.storage.fs.filesystem import atomic_write
    from sparrow.tensor import Tensor

    tensor = open_one(path)
    tensor = tensor.T if transpose else tensor
    width = tensor.shape[-1] if tensor.ndim else 1
    if vector == "ones":
        memory.check(8 * width, f"--vector ones, {width:,} values,", "multiply a part that has fewer columns")
    x = np.ones(width) if vector == "ones" else _load_operand(vector)
    started = time.perf_counter()
    product = sp.matmul(tensor, x, engine=engine)
    y = product.to_numpy() if isinstance(product, Tensor) else np.asarray(product)
    seconds = time.perf_counter() - started
    if out is not None:
        with atomic_write(out) as file:
            np.save(file, y)
    if as_json:
        shown: dict[str, Any] = {"shape": list(y.shape), "dtype": str(y.dtype), "seconds": seconds, "out": out}
        write_json(shown if out is not None else {**shown, "product": y})
    elif out is None:
        if y.ndim > 2:
            raise UnsupportedError(f"the product of shape {y.shape} cannot be shown as a table: --out y.npy writes it")
        rows = y[:head] if head and y.ndim else y
        own = tensor.ndim == 2  # the product has the rows of a matrix
        names = _row_names(tensor if own else None, len(rows) if y.ndim else 1)
        first = tensor.dims[0] if own else "row"
        if y.ndim < 2:
            write_table(list(zip(names, rows.reshape(-1).tolist(), strict=True)), (first, "value"))
        else:
            write_table(
                [(name, *row) for name, row in zip(names, rows.tolist(), strict=True)],
                (first, *(f"value {k}" for k in range(y.shape[1]))),
            )
        if y.ndim and head and len(y) > head:
            typer.echo(f"the first {head} of {len(y):,}; --out y.npy writes all", err=True)
    typer.echo(f"shape {y.shape}, sum {y.sum():.10g}, {seconds:.3f} s", err=True)


def _row_names(tensor: Tensor | None, count: int) -> list[Any]:
    """Return the labels of the first rows of a product, or their positions."""
    labels = None if tensor is None else tensor.labels(0)
    return list(range(count)) if labels is None else labels[:count].to_pylist()


def _load_operand(path: str) -> Any:
    """Return a stored tensor, or the array of a file."""
    import numpy as np

    from sparrow.errors import InvalidValueError
    from sparrow.storage import is_tensor

    if os.path.isdir(path) or is_tensor(path):
        return open_one(path)
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        why = "it may be pickled, or something else" if "allow_pickle" in str(error) else error
        raise InvalidValueError(f"{path} is not a .npy file of numbers: {why}") from None
    if not isinstance(found, np.ndarray):
        raise InvalidValueError(f"{path} holds several arrays: save the one to multiply with numpy.save")
    return found
