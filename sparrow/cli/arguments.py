"""Shared parts of the commands: opening PATH, parsing an index, writing results."""

from __future__ import annotations

import ast
import datetime
import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import typer

from sparrow.runtime.events import emit

if TYPE_CHECKING:
    from sparrow.tensor import Tensor
    from sparrow.tensor.bundle import Bundle

__all__ = [
    "QUERY_THREAD",
    "AsJson",
    "At",
    "Engine",
    "Head",
    "Index",
    "StoredPath",
    "finite",
    "format_shape",
    "interruptible",
    "open_all",
    "open_one",
    "parse_index",
    "write_json",
]

T = TypeVar("T")

QUERY_THREAD = "sparrow-query"
"""Name of a thread that may still be in DuckDB when the program ends."""

StoredPath: TypeAlias = Annotated[str, typer.Argument(metavar="PATH", help="The folder of a stored tensor or bundle.")]
Index: TypeAlias = Annotated[
    str, typer.Argument(metavar="[INDEX]", help="An index as in NumPy's brackets, such as '5:9, ...'.")
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="A version, as history names it, or a time: 2026-11-22."),
]
Engine: TypeAlias = Literal["auto", "cupy", "dask", "duckdb", "processes", "ray", "spark", "stream"]
Head: TypeAlias = Annotated[int, typer.Option(min=0, metavar="N", help="Rows to write, 0 for all.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]


def finite(value: float | None) -> float | None:
    """Return an option; raise ``typer.BadParameter`` for NaN and infinity."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be finite, got {value}")
    return value


def parse_index(text: str) -> Any:
    """Parse an index without evaluating anything.

    Raises
    ------
    typer.BadParameter
        If the text is not an index.

    Examples
    --------
    >>> parse_index("5:9, ..., -1, None, [0, 2]")
    (slice(5, 9, None), Ellipsis, -1, None, [0, 2])
    """
    try:
        tree = ast.parse(f"_[{text}]", mode="eval").body
        if not isinstance(tree, ast.Subscript) or not isinstance(tree.value, ast.Name):
            raise ValueError(text)
        return _evaluate_index(tree.slice)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise typer.BadParameter(
            "an index must be integers, slices, '...', None and lists, such as '5:9, ...' or '[0, 2], ::-1', "
            f"got {text!r}"
        ) from None


def _evaluate_index(node: ast.expr) -> Any:
    """Return the value of a part of an index, which must be a literal."""
    if isinstance(node, ast.Tuple):
        return tuple(_evaluate_index(part) for part in node.elts)
    if isinstance(node, ast.List):
        return [_evaluate_index(part) for part in node.elts]
    if isinstance(node, ast.Slice):
        return slice(*(None if part is None else _evaluate_index(part) for part in (node.lower, node.upper, node.step)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _evaluate_index(node.operand)
        if type(operand) is int:
            return -operand
    if isinstance(node, ast.Constant) and (node.value in (None, ...) or type(node.value) in (int, bool)):
        return node.value
    raise ValueError(ast.dump(node))


def open_any(path: str, at: str | None = None) -> Tensor | Bundle:
    """Open the tensor or bundle at PATH, at a version or time."""
    import sparrow as sp

    found: Tensor | Bundle = sp.open(path, int(at) if at is not None and at.isdigit() else at)
    return found


def open_one(path: str, at: str | None = None) -> Tensor:
    """Open the tensor at PATH, at a version or time.

    Raises
    ------
    InvalidValueError
        If it is a bundle.
    """
    from sparrow.errors import InvalidValueError
    from sparrow.tensor import Tensor

    found = open_any(path, at)
    if isinstance(found, Tensor):
        return found
    members = " or ".join(os.path.join(path, name) for name in found)
    raise InvalidValueError(f"{path} is a bundle of tensors: name one of them, {members}")


def open_all(path: str) -> dict[str, Tensor]:
    """Open the tensors at PATH, by path: one, or the members of a bundle."""
    from sparrow.tensor import Tensor

    found = open_any(path)
    if isinstance(found, Tensor):
        return {path: found}
    return {os.path.join(path, name): found[name] for name in found}


def format_shape(dims: Iterable[str], shape: Iterable[int]) -> str:
    """Format a shape with dimension names.

    Examples
    --------
    >>> format_shape(("src", "dst"), (1000, 3))
    '(src: 1,000, dst: 3)'
    """
    return f"({', '.join(f'{name}: {size:,}' for name, size in zip(dims, shape, strict=True))})"


def interruptible(work: Callable[[], T]) -> T:
    """Run ``work`` on another thread, so that Ctrl-C works while DuckDB is busy."""
    from sparrow.runtime.threads import DetachedTask

    def run() -> T:
        emit("cli.query")
        return work()

    query = DetachedTask(run, QUERY_THREAD)
    query.start()
    while not query.done:
        query.wait(60)
    return query.result()


def write_json(value: Any) -> None:
    """Write a value as JSON to standard output.

    NumPy scalars become numbers, arrays lists, complex numbers pairs, times ISO 8601, bytes hexadecimal digits, and NaN
    and infinities the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    json.dump(_plain(value), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(float(value))
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return _plain(value.tolist()) if hasattr(value, "tolist") else str(value)
