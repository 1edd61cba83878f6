"""Command ``demo``: two real data sets, ingested, sliced, queried and multiplied."""

from __future__ import annotations

import os
import shlex
import shutil
import textwrap
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sparrow as sp
from sparrow import engines
from sparrow.errors import InvalidValueError
from sparrow.tensor import Tensor
from sparrow.tensor.display import human_bytes, table
from sparrow.tensor.pictures import density_png

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run"]

PICTURE_PIXELS = 800

QUESTION = """\
select attribute, trait.value, count(*) as people,
       round(100 * avg((y.value > 0)::int), 1) as percent_over_50k
from X
join y using ("row")
join read_csv('{names}') as trait using (col)
group by all having people >= 100
order by percent_over_50k desc, people desc limit 6"""


def run(folder: str | os.PathLike[str]) -> None:
    """Store a9a and cnr-2000 in a folder and show what can be done with them.

    Parameters
    ----------
    folder
        Where the tensors are stored; tensors of the same names are replaced.
    """
    from rich.console import Console

    home = Path(folder)
    if home.is_file():
        raise InvalidValueError(f"FOLDER must be a folder, got the file {os.fspath(folder)!r}: choose another name")
    home.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False, soft_wrap=True)
    census, web = _ingest(console, home)
    _slice(console, home, web)
    _query(console, home, census)
    _multiply(console, web)
    picture = _draw(console, home, web)
    _show_next_steps(console, home)
    _print(console, f"And look at the picture: {picture}")


def _ingest(console: Console, home: Path) -> tuple[Any, Tensor]:
    _print_title(console, 1, "Ingest files as tensors")
    stored: list[Any] = []
    rows = []
    for name, what in (("a9a", "people x traits"), ("cnr-2000", "page x page")):
        about = sp.datasets.describe(name)
        source = sp.datasets.path(name)
        target = home / f"{name}.sparrow"
        _print_code(console, f'sp.ingest.{about["format"]}("{source.name}", "{target}")')
        opened, seconds = _measure(
            partial(getattr(sp.ingest, about["format"]), source, target, overwrite=True, **about["options"])
        )
        stored.append(opened)
        tensors = [opened] if isinstance(opened, Tensor) else list(opened.values())
        rows.append(
            (
                what,
                f"{tensors[0].shape[0]:,} x {tensors[0].shape[1]:,}",
                f"{tensors[0].nnz:,}",
                human_bytes(about["text_bytes"]),
                human_bytes(sum(tensor.nbytes for tensor in tensors)),
                f"{seconds:.1f} s",
            )
        )
    console.print()
    _print(console, table(rows, ("", "shape", "entries", "text", "stored", "time")))
    _print(console, "(the first run on a machine also compiles kernels)")
    return stored[0], stored[1]


def _slice(console: Console, home: Path, web: Tensor) -> None:
    _print_title(console, 2, "A slice reads only the row groups it needs")
    _print_code(console, f'web = sp.open("{home / "cnr-2000.sparrow"}")')
    _print_code(console, "web[5:9]")
    part = web[5:9]
    _print(console, repr(part))
    _print_code(console, "print(web[5:9].explain(analyze=True))")
    _print(console, part.explain(analyze=True))


def _query(console: Console, home: Path, census: Any) -> None:
    _print_title(console, 3, "SQL: which traits go with a high income?")
    names = home / "a9a-features.csv"
    shutil.copyfile(sp.datasets.path("a9a").with_name("features.csv"), names)
    query = QUESTION.format(names=str(names).replace("'", "''"))
    for line in query.split("\n"):
        _print_code(console, line, prompt="sql> " if line.startswith("select") else "     ")
    relation = sp.sql(query, X=census["X"], y=census["y"])
    _print(console, table(relation.fetchall(), relation.columns))


def _multiply(console: Console, web: Tensor) -> None:
    import numpy as np

    _print_title(console, 4, "A product on two engines: where do random clicks lead?")
    out = sp.matmul(web, np.ones(web.shape[1]))
    surfer = np.divide(1.0, out, out=np.zeros_like(out), where=out > 0)
    _print_code(console, "out = web @ np.ones(web.shape[1])             # links on each page")
    _print_code(console, "x = np.divide(1, out, out=np.zeros_like(out), where=out > 0)")
    _print_code(console, "y = web.T @ x                                 # clicks that arrive")
    products, rows = [], []
    engines: dict[Literal["stream", "duckdb"], str] = {
        "stream": "row groups through compiled kernels",
        "duckdb": "SQL: join and group by",
    }
    for engine, how in engines.items():
        times = []
        for _ in range(3):
            product, seconds = _measure(partial(sp.matmul, web.T, surfer, engine=engine))
            times.append(seconds)
        products.append(product)
        rows.append((engine, how, f"{1000 * min(times):.0f} ms"))
    console.print()
    _print(console, table(rows, ("engine", "method", "best of 3")))
    difference = float(np.abs(products[0] - products[1]).max())
    top = np.argsort(-products[0], kind="stable")[:3]
    pages = ", ".join(f"{page} ({products[0][page]:,.0f})" for page in top.tolist())
    console.print()
    _print(console, f"The results differ by at most {difference:.1e}.")
    _print(console, f"One random click on every page: most arrive at page {pages}.")


def _draw(console: Console, home: Path, web: Tensor) -> Path:
    """Write a density map of the graph, without Matplotlib."""
    _print_title(console, 5, "A picture: most links stay on their site")
    picture = home / "cnr-2000.png"
    picture.write_bytes(
        density_png(engines.density(web.__sparrow_scan__(), (0, 1), PICTURE_PIXELS, sample=False), True)
    )
    _print(console, f"Links of page 0 at the top to page {web.shape[0] - 1:,}; blue: few links, red: many.")
    _print(console, f"Open {picture}")
    return picture


def _show_next_steps(console: Console, home: Path) -> None:
    _print_title(console, 6, "What to try next")
    census, web, named = (
        shlex.quote(text)
        for text in (f"{home}/a9a.sparrow", f"{home}/cnr-2000.sparrow", f"web={home}/cnr-2000.sparrow")
    )
    _print(console, f"The tensors are Delta tables in {home}{os.sep}, which other tools can read.")
    _print_code(console, f"sparrow info {census}", prompt="$ ")
    _print_code(console, f"sparrow show {web} 324812 --head 5", prompt="$ ")
    _print_code(console, f"sparrow view {web}", prompt="$ ")
    _print_code(console, 'sparrow sql "select dst, count(*) from web group by 1 order by 2 desc" \\', prompt="$ ")
    _print_code(console, f"{named} --head 5", prompt="      ")
    _print_code(console, f"sparrow verify {web}", prompt="$ ")


def _measure(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _print_title(console: Console, number: int, text: str) -> None:
    console.print()
    console.print(f"{number}  {text}", style="bold", markup=False)


def _print_code(console: Console, text: str, prompt: str = ">>> ") -> None:
    console.print(f"   {prompt}{text}", style="cyan", markup=False)


def _print(console: Console, text: str) -> None:
    for line in text.split("\n"):
        indent = "   " + " " * (len(line) - len(line.lstrip()))
        wrapped = textwrap.wrap(line.strip(), 80, initial_indent=indent, subsequent_indent=indent + "  ")
        for part in wrapped if len(line) > 77 else [f"   {line}"]:
            console.print(part, markup=False)
