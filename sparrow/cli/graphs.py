"""Commands ``graph`` and ``pagerank``: algorithms on stored graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from sparrow.cli.arguments import AsJson, StoredPath, finite, open_one, write_json
from sparrow.cli.spelling import Program
from sparrow.cli.tables import write_table

if TYPE_CHECKING:
    from sparrow.tensor import Tensor

__all__ = ["add_to"]

_MIN_NODES_TO_NOTE = 1000
"""Size of a graph whose lone nodes are noted."""

Out: TypeAlias = Annotated[
    str | None, typer.Option(metavar="DST", help="Store the result, a tensor of one dimension, instead.")
]
Head: TypeAlias = Annotated[int, typer.Option(min=0, metavar="N", help="Rows to write, 0 for all.")]
Undirected: TypeAlias = Annotated[
    bool, typer.Option("--undirected", help="Follow links both ways; of a link and its reverse the shorter counts.")
]
MaxIter: TypeAlias = Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of iterations.")]
Tolerance: TypeAlias = Annotated[
    float, typer.Option(min=0, callback=finite, help="Stop when an iteration changes the sum by less.")
]
Source: TypeAlias = Annotated[
    str, typer.Argument(metavar="NODE", help="Start node: its label if nodes have labels, else its position.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    verbs = Program(
        name="graph",
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @verbs.callback()
    def graph() -> None:
        """Run algorithms on a stored graph: a square matrix, a link per entry.

        One line per node, the largest values first; bfs and paths list the reachable nodes, the nearest first. --out
        stores all of them.

        \b
        Examples:
          sparrow graph degrees web.sparrow --direction in --head 3
          sparrow graph bfs web.sparrow 0 --out depth.sparrow
          sparrow graph components web.sparrow --connection strong
        """

    for name, command, short in (
        ("degrees", degrees, "Degree of each node."),
        ("bfs", bfs, "Number of links from a node to each other one."),
        ("paths", paths, "Shortest path lengths by the values of links."),
        ("components", components, "Connected components and their sizes."),
        ("triangles", triangles, "Number of triangles of each node."),
        ("clustering", clustering, "Clustering coefficient of each node."),
        ("kcore", kcore, "Core number of each node."),
        ("communities", communities, "Communities by label propagation, and their sizes."),
        ("hits", hits, "Authority or hub score of each node."),
        ("pagerank", pagerank, "PageRank of each node, as sparrow pagerank."),
    ):
        verbs.command(name, short_help=short)(command)
    app.add_typer(verbs)
    app.command()(pagerank)


def degrees(
    path: StoredPath,
    direction: Annotated[Literal["out", "in", "both"], typer.Option(help="Links from a node, to it, or both.")] = "out",
    weighted: Annotated[bool, typer.Option("--weighted", help="Sum the values of links instead.")] = False,
    out: Out = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Count the links of each node.

    \b
    Example:
      sparrow graph degrees web.sparrow --direction in --head 3
    """
    from sparrow import graph

    _write(graph.degrees(open_one(path), direction, weighted=weighted), "degree", out, head, as_json)


def bfs(
    path: StoredPath,
    source: Source,
    undirected: Undirected = False,
    max_depth: Annotated[int | None, typer.Option(min=0, metavar="N", help="Stop after N links.")] = None,
    out: Out = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Count the links from a node to every node it reaches, the nearest first.

    \b
    Example:
      sparrow graph bfs web.sparrow 0 --out depth.sparrow
    """
    from sparrow import graph

    links = open_one(path)
    found = graph.bfs(links, _nodes(links, [source]), directed=not undirected, max_depth=max_depth)
    _write(found, "links", out, head, as_json, reached=True)


def paths(
    path: StoredPath,
    source: Source,
    undirected: Undirected = False,
    out: Out = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Measure the paths from a node to every node it reaches, the nearest first.

    \b
    Example:
      sparrow graph paths roads.sparrow 0 --head 20
    """
    from sparrow import graph

    links = open_one(path)
    found = graph.shortest_paths(links, _nodes(links, [source]), directed=not undirected)
    _write(found, "length", out, head, as_json, reached=True)


def components(
    path: StoredPath,
    connection: Annotated[
        Literal["weak", "strong"], typer.Option(help="Ignore directions, or require paths both ways.")
    ] = "weak",
    out: Out = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Find the connected components; write their sizes, the largest first.

    \b
    Example:
      sparrow graph components web.sparrow --connection strong --head 3
    """
    from sparrow import graph

    find = graph.connected_components if connection == "weak" else graph.strongly_connected_components
    _write_groups(find(open_one(path)), "component", out, head, as_json)


def triangles(path: StoredPath, out: Out = None, head: Head = 10, as_json: AsJson = False) -> None:
    """Count the triangles of each node, ignoring the direction of links.

    \b
    Example:
      sparrow graph triangles web.sparrow --head 3
    """
    _write_per_node("triangles", path, out, head, as_json)


def clustering(path: StoredPath, out: Out = None, head: Head = 10, as_json: AsJson = False) -> None:
    """Compute the share of linked pairs among the neighbors of each node.

    \b
    Example:
      sparrow graph clustering web.sparrow --out clustering.sparrow
    """
    _write_per_node("clustering", path, out, head, as_json)


def kcore(path: StoredPath, out: Out = None, head: Head = 10, as_json: AsJson = False) -> None:
    """Compute the core number of each node, ignoring the direction of links.

    \b
    Example:
      sparrow graph kcore web.sparrow --head 3
    """
    _write_per_node("kcore", path, out, head, as_json)


def communities(
    path: StoredPath,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed of the random choices.")] = 0,
    out: Out = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Find communities by label propagation; write their sizes, the largest first.

    \b
    Example:
      sparrow graph communities web.sparrow --head 3
    """
    from sparrow import graph

    _write_groups(graph.label_propagation(open_one(path), seed=seed), "community", out, head, as_json)


def hits(
    path: StoredPath,
    hubs: Annotated[bool, typer.Option("--hubs", help="Write hubs, not authorities.")] = False,
    tol: Tolerance = 1e-8,
    max_iter: MaxIter = 1000,
    out: Out = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Compute authority scores, of nodes that hubs link to, or hub scores.

    \b
    Example:
      sparrow graph hits web.sparrow --hubs --head 3
    """
    from sparrow import graph

    found = graph.hits(open_one(path), tol=tol, max_iter=max_iter)
    _write(found[0 if hubs else 1], "hub" if hubs else "authority", out, head, as_json)


def pagerank(
    path: StoredPath,
    damping: Annotated[
        float, typer.Option(callback=finite, help="Probability of following a link rather than jumping.")
    ] = 0.85,
    personalization: Annotated[
        str | None, typer.Option(metavar="NODE[,NODE...]", help="Jump to these nodes only.")
    ] = None,
    tol: Tolerance = 1e-6,
    max_iter: MaxIter = 1000,
    out: Out = None,
    head: Head = 10,
    as_json: AsJson = False,
) -> None:
    """Compute the PageRank of the nodes of a stored graph.

    \b
    Examples:
      sparrow pagerank web.sparrow --head 3
      sparrow pagerank web.sparrow --personalization 5,17 --out ranks.sparrow
    """
    from sparrow import graph

    links = open_one(path)
    jump = None if personalization is None else _nodes(links, personalization.split(","))
    ranks = graph.pagerank(links, damping, personalization=jump, tol=tol, max_iter=max_iter)
    _write(ranks, "rank", out, head, as_json)


def _nodes(links: Tensor, words: list[str]) -> list[Any]:
    """Return nodes as their graph identifies them."""
    import pyarrow as pa

    from sparrow.graph.nodes import check_graph, node_labels

    labels = node_labels(check_graph(links))
    if labels is not None and not pa.types.is_integer(labels.type):
        return list(words)
    return [_parse_node(text) for text in words]


def _parse_node(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(
            f"a node must be an integer, as nodes of this graph have no text labels, got {text!r}"
        ) from None


def _write_per_node(name: str, path: str, out: str | None, head: int, as_json: bool) -> None:
    from sparrow import graph

    find: Callable[[Tensor], Tensor] = getattr(graph, name)
    _write(find(open_one(path)), name, out, head, as_json)


def _save(found: Tensor, out: str, as_json: bool) -> None:
    stored = found.save(out)
    if as_json:
        write_json({"path": out, "shape": list(stored.shape), "nnz": stored.nnz})
    else:
        typer.echo(f"{out}: {stored.nnz:,} of {stored.shape[0]:,} nodes", err=True)


def _write(found: Tensor, name: str, out: str | None, head: int, as_json: bool, reached: bool = False) -> None:
    """Store a result per node, or write the largest values, or nearest nodes."""
    import numpy as np

    if out is not None:
        _save(found, out, as_json)
        return
    values = found.to_numpy()
    at = np.flatnonzero(values != found.fill_value) if reached else np.arange(len(values))
    order = values[at] if reached else ~values[at] if values.dtype.kind in "biu" else -values[at]
    first = at[np.argsort(order, kind="stable")[: head or None]]
    rows = list(zip(_names(found, first), values[first].tolist(), strict=True))
    _write_rows(rows, (found.dims[0], name), as_json)
    if not as_json and len(rows) < len(at):
        nodes = "reachable nodes" if reached else "nodes"
        typer.echo(f"{len(rows):,} of {len(at):,} {nodes}; --head 0 writes all, --out DST stores them", err=True)


def _write_groups(found: Tensor, name: str, out: str | None, head: int, as_json: bool) -> None:
    """Store the group of each node, or write the largest groups."""
    import numpy as np

    if out is not None:
        _save(found, out, as_json)
        return
    numbers, first, sizes = np.unique(found.to_numpy(), return_index=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")[: head or None]
    rows = list(zip(numbers[order].tolist(), sizes[order].tolist(), _names(found, first[order]), strict=True))
    _write_rows(rows, (name, "nodes", "first"), as_json)
    if not as_json and len(rows) < len(numbers):
        typer.echo(f"the largest {len(rows):,} of {len(numbers):,}; --head 0 writes all", err=True)
    alone, total = int((sizes == 1).sum()), int(sizes.sum())
    if not as_json and found.labels(0) is None and total < 2 * alone and total > _MIN_NODES_TO_NOTE:
        way = "if ids have gaps, sparrow ingest edges --relabel numbers those that occur"
        typer.echo(f"{alone:,} of {total:,} nodes stand alone: {way}", err=True)


def _names(found: Tensor, at: Any) -> list[Any]:
    """Return the labels of nodes, or their positions if there are none."""
    labels = found.labels(0)
    names: list[Any] = at.tolist() if labels is None else labels.take(at).to_pylist()
    return names


def _write_rows(rows: list[tuple[Any, ...]], headers: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        write_json([dict(zip(headers, row, strict=True)) for row in rows])
    else:
        write_table(rows, headers)
