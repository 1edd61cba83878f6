"""What nodes and pairs of nodes are worth: PageRank, hubs and authorities, neighbours in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import check_array
from sparrow.errors import ConvergenceError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.creation import from_coords
from sparrow.functions.elementwise import logical_and, logical_not
from sparrow.functions.generation import eye
from sparrow.functions.labels import at_labels, space_axis
from sparrow.graph.adjacency import Adjacency, edge_mask, edge_weights, fits_in_memory, undirected_edge_mask
from sparrow.graph.nodes import check_graph, node_labels, node_positions, per_node, reserve_per_node
from sparrow.runtime import progress
from sparrow.runtime.validation import check_integer, check_number
from sparrow.tensor import Tensor
from sparrow.tensor.products import matmul

__all__ = ["adamic_adar", "common_neighbors", "hits", "pagerank"]


def pagerank(
    A: Tensor,
    damping: float = 0.85,
    *,
    personalization: Any = None,
    dangling: Any = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> Tensor:
    """Return the PageRank of the nodes: :func:`sparrow.linalg.pagerank`, with labels.

    Parameters
    ----------
    A
        Links from rows to columns. A link is followed in proportion to its value, which is not negative.
    damping
        How likely one follows a link rather than jumps.
    personalization
        How likely one jumps to each node: an array of weights, a mapping from nodes, where weights of one node add up,
        or a list of nodes that are as likely; nodes by label where there are labels, else by position. An array,
        tensor or series with one number for each node is weights, of integers too, and so is a list of floats; a list
        of integers is nodes, however long. A tensor with labels is weights by label where the graph has labels, those
        of nodes that it lacks being its fill. Equally by default.
    dangling
        Where one goes from a node without links, in the same forms; where one jumps by default.
    tol
        It is done when a round changes all ranks together by less.
    max_iter
        The most rounds.

    Returns
    -------
    Tensor
        The rank of each node; they sum to 1.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix, or weights have another length.
    LabelError, IndexingError
        If there is no such node.
    InvalidValueError
        If ``damping`` is not between 0 and 1, a link or a weight is negative, or weights are all 0.
    ConvergenceError
        If ``max_iter`` rounds are not enough.
    UnsupportedError
        If values are complex.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2, 2], [2, 2, 0, 1]], [1, 1, 1, 1], dims=("src", "dst"))
    >>> links.set_labels(["src", "dst"], ["ann", "bob", "eve"])
    >>> ranks = sp.graph.pagerank(links, personalization=["eve"])
    >>> ranks.labels("src")[ranks.argmax()].as_py(), round(float(ranks.sel(src="eve")), 3)
    ('eve', 0.541)
    """
    from sparrow import linalg

    A = check_graph(A)
    ranks = linalg.pagerank(
        edge_weights(A),
        damping,
        personalization=_placed(A, personalization, "personalization"),
        dangling=_placed(A, dangling, "dangling"),
        tol=tol,
        max_iter=max_iter,
    )
    return per_node(A, ranks)


def _placed(A: Tensor, given: Any, name: str) -> Any:
    """Return weights of nodes by position."""
    from sparrow.linalg.iterations import added_up

    if isinstance(given, Mapping):
        return added_up(given, node_positions(A, list(given)).tolist(), A.shape[0], name)
    if isinstance(given, Tensor) and given.ndim == 1 and not (given.labels(0) is None or node_labels(A) is None):
        return given  # which goes by label
    if given is None or _weighs(given, A.shape[0], name):
        return given
    return dict.fromkeys(node_positions(A, given).tolist(), 1.0)


def _weighs(given: Any, n: int, name: str) -> bool:
    """Return whether what is given weighs n nodes, rather than names some."""
    listed = isinstance(given, list | tuple)
    if not listed and not hasattr(given, "dtype"):
        return False
    found = given if isinstance(given, Tensor) else check_array(given, name)
    if found.shape == (n,):
        return found.dtype.kind in ("f" if listed else "biufc")
    return not listed and found.ndim > 0 and found.dtype.kind in "fc"


def hits(A: Tensor, *, tol: float = 1e-8, max_iter: int = 1000) -> tuple[Tensor, Tensor]:
    """Return how much each node is a hub, which links to authorities, and an authority, which hubs link to.

    Parameters
    ----------
    A
        Links from rows to columns, weighted by their values.
    tol
        It is done when a round changes all numbers together by less.
    max_iter
        The most rounds.

    Returns
    -------
    hubs, authorities
        A number for each node; they sum to 1.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError
        If rows and columns have labels that differ.
    UnsupportedError
        If values are complex.
    InvalidValueError
        If a link weighs less than 0, NaN or infinity.
    ConvergenceError
        If ``max_iter`` rounds are not enough.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 0, 1], [1, 2, 2]], [1, 1, 1], shape=(3, 3))
    >>> hubs, authorities = sp.graph.hits(links)
    >>> hubs.to_numpy().round(3), authorities.to_numpy().round(3)
    (array([0.618, 0.382, 0.   ]), array([0.   , 0.382, 0.618]))
    """
    from sparrow.linalg.operators import Operator

    A = check_graph(A)
    if A.dtype.kind == "c":
        raise UnsupportedError("hits: links of complex values make no hubs; take their magnitude")
    check_integer("max_iter", max_iter, 1)
    check_number("tol", tol)
    n = A.shape[0]
    weighed = edge_weights(A)
    if A.dtype.kind in "if" and A.size and weighed.min() < 0:
        raise InvalidValueError("hits: a link weighs less than 0, which makes no hubs: take the magnitude of weights")
    operator = Operator(weighed, persist=True)
    with reserve_per_node(A, 24, "hits"), progress.bar("hits", None, "rounds") as advance:
        hubs: NDArray[np.float64] = np.full(n, 1 / max(n, 1))
        for _ in range(max_iter):
            before = hubs
            authorities = _summing_to_one(operator.multiply_transposed(hubs))
            hubs = _summing_to_one(operator.matvec(authorities))
            if not np.isfinite(hubs.sum()):
                raise InvalidValueError("hits: links weigh NaN or infinity: weights must be finite")
            advance(1)
            if float(np.abs(hubs - before).sum()) <= tol:
                return per_node(A, hubs), per_node(A, authorities)
    raise ConvergenceError(f"hits: {max_iter} rounds do not reach tol={tol}: give a larger max_iter, or tol")


def _summing_to_one(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    total = numbers.sum()
    return numbers / total if total else numbers


def common_neighbors(A: Tensor, pairs: Any = None) -> Tensor:
    """Return how many neighbours two nodes have in common, lazily: links taken both ways.

    Parameters
    ----------
    A
        Links from rows to columns; their direction, values, and links of a node to itself do not matter.
    pairs
        The pairs of nodes that are asked for, shape (m, 2), by label where there are labels, else by position; or a
        tensor that has entries there. All pairs by default. A node and itself are no pair.

    Returns
    -------
    Tensor
        Square, the number at each pair.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix, or pairs are no pairs.
    LabelError, IndexingError
        If there is no such node.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.common_neighbors(links, [(0, 1), (0, 3), (1, 1)]).to_numpy()
    array([[0, 1, 0, 1],
           [0, 0, 0, 0],
           [0, 0, 0, 0],
           [0, 0, 0, 0]])
    """
    A = check_graph(A)
    both = _neighbours(A)
    mask, complement = _pairs(A, pairs)
    found: Tensor = matmul(both, both, semiring="plus_pair", mask=mask, complement=complement)
    return found


def adamic_adar(A: Tensor, pairs: Any = None) -> Tensor:
    """Return how close two nodes are by the neighbours in common, each worth 1 / log(its neighbours), lazily.

    Parameters
    ----------
    A
        Links from rows to columns; their direction, values, and links of a node to itself do not matter.
    pairs
        The pairs of nodes that are asked for, shape (m, 2), by label where there are labels, else by position; or a
        tensor that has entries there. All pairs by default. A node and itself are no pair.

    Returns
    -------
    Tensor
        Square, the number at each pair.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix, or pairs are no pairs.
    LabelError, IndexingError
        If there is no such node.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.adamic_adar(links, [(0, 1)])[0, 1].round(6)
    np.float64(0.910239)
    """
    A = check_graph(A)
    both = _neighbours(A)
    neighbours = both.count(axis=1).to_numpy()
    worth = np.zeros(len(neighbours))
    worth[neighbours > 1] = 1 / np.log(neighbours[neighbours > 1])
    mask, complement = _pairs(A, pairs)
    found: Tensor = matmul(both * worth, both.astype(np.float64), mask=mask, complement=complement)
    return found


def _neighbours(A: Tensor) -> Tensor:
    """Return where there is a link either way between two nodes: in memory where it fits, else lazily."""
    if not fits_in_memory(A, undirected=True):
        return undirected_edge_mask(A)
    with Adjacency(A, undirected=True) as links:
        return links.as_tensor()


def _pairs(A: Tensor, pairs: Any) -> tuple[Tensor, bool]:
    """Return pairs as a mask, and whether it says which are not wanted; no node is paired with itself."""
    if pairs is None:
        return eye(A.shape[0], dtype=np.bool_), True
    if isinstance(pairs, Tensor):
        axis = space_axis(A)
        turned = at_labels(pairs, A, axis, "pairs", "common neighbors").T
        asked = at_labels(turned, A, axis, "pairs", "common neighbors").T
        if asked.shape != A.shape:
            raise ShapeError(f"pairs of shape {pairs.shape} are none of a graph of shape {A.shape}")
        mask: Tensor = logical_and(edge_mask(asked), logical_not(eye(A.shape[0], dtype=np.bool_)))
        return mask, False
    try:
        ends = list(zip(*pairs, strict=True))
    except (TypeError, ValueError):
        raise ShapeError(f"pairs={pairs!r}: pairs are two nodes each, give shape (m, 2)") from None
    if len(ends) not in (0, 2):
        raise ShapeError(f"pairs are two nodes each, not {len(ends)}: give shape (m, 2)")
    one, other = (node_positions(A, list(side)) for side in ends) if ends else (np.empty(0, np.int64),) * 2
    apart = one != other
    coords = np.stack([one[apart], other[apart]])
    values = np.ones(coords.shape[1], np.bool_)
    return from_coords(coords, values, shape=A.shape, dims=A.dims, duplicates="last"), False
