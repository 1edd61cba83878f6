"""Node rankings and neighborhood similarity: PageRank, HITS, Adamic-Adar."""

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
from sparrow.functions.labels import align_to_axis, find_labelled_axis
from sparrow.graph.adjacency import Adjacency, edge_mask, edge_weights, fits_in_memory, undirected_edge_mask
from sparrow.graph.nodes import check_graph, node_labels, node_positions, per_node, reserve_per_node, shared
from sparrow.runtime import events, progress
from sparrow.runtime.validation import check_integer, check_number
from sparrow.tensor import Tensor
from sparrow.tensor.products import matmul

__all__ = ["adamic_adar", "common_neighbors", "hits", "pagerank"]


@shared
def pagerank(
    A: Tensor,
    damping: float = 0.85,
    *,
    personalization: Any = None,
    dangling: Any = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> Tensor:
    """Return the PageRank of each node.

    :func:`sparrow.linalg.pagerank` with nodes given by label.

    Parameters
    ----------
    A
        Adjacency matrix, shape (n, n). An edge is followed in proportion to its value, which must not be negative.
    damping
        Probability of following an edge rather than jumping.
    personalization
        Distribution of jumps, uniform by default. One of: an array, tensor or series of n weights, or a list of n
        floats; a mapping from nodes to weights, where weights of the same node add up; a list of equally likely nodes,
        which a list of integers always is. Nodes are given by label where there are labels, else by position. A
        labelled tensor is aligned with the nodes; nodes it lacks take its fill value.
    dangling
        Distribution of the jumps from nodes without outgoing edges, in the same forms; ``personalization`` by default.
    %(tol)s

    Returns
    -------
    Tensor
        Ranks, float64, shape (n,). They sum to 1.

    Raises
    ------
    ShapeError
        If A is not square, or weights have a wrong length.
    LabelError, IndexingError
        If a node is unknown.
    InvalidValueError
        If ``damping`` is not in [0, 1), an edge weight or a weight is negative, or all weights are 0.
    ConvergenceError
        If the ranks do not converge in ``max_iter`` rounds.
    UnsupportedError
        If values are complex.
    %(memory_error)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 2], [2, 2, 0, 1]], [1, 1, 1, 1], dims=("src", "dst"))
    >>> A.set_labels(["src", "dst"], ["ann", "bob", "eve"])
    >>> ranks = sp.graph.pagerank(A, personalization=["eve"])
    >>> ranks.labels("src")[ranks.argmax()].as_py(), round(float(ranks.sel(src="eve")), 3)
    ('eve', 0.541)
    """
    from sparrow import linalg

    A = check_graph(A)
    ranks = linalg.pagerank(
        edge_weights(A),
        damping,
        personalization=_to_positions(A, personalization, "personalization"),
        dangling=_to_positions(A, dangling, "dangling"),
        tol=tol,
        max_iter=max_iter,
    )
    return per_node(A, ranks)


def _to_positions(A: Tensor, given: Any, name: str) -> Any:
    """Return a distribution over nodes with labels replaced by positions."""
    from sparrow.linalg.iterations import sum_weights

    if isinstance(given, Mapping):
        return sum_weights(given, node_positions(A, list(given)).tolist(), A.shape[0], name)
    if isinstance(given, Tensor) and given.ndim == 1 and not (given.labels(0) is None or node_labels(A) is None):
        return given  # linalg.pagerank aligns it by label
    if given is None or _is_weights(given, A.shape[0], name):
        return given
    return dict.fromkeys(node_positions(A, given).tolist(), 1.0)


def _is_weights(given: Any, n: int, name: str) -> bool:
    """Return whether an argument is n weights rather than a list of nodes."""
    listed = isinstance(given, list | tuple)
    if not listed and not hasattr(given, "dtype"):
        return False
    result = given if isinstance(given, Tensor) else check_array(given, name)
    if result.shape == (n,):
        return result.dtype.kind in ("f" if listed else "biufc")
    return not listed and result.ndim > 0 and result.dtype.kind in "fc"


@shared
def hits(A: Tensor, *, tol: float = 1e-8, max_iter: int = 1000) -> tuple[Tensor, Tensor]:
    """Return the hub and authority scores of each node.

    A good hub has edges to good authorities, and a good authority has edges from good hubs (Kleinberg 1999).

    Parameters
    ----------
    A
        Adjacency matrix, shape (n, n); values are edge weights.
    %(tol)s

    Returns
    -------
    hubs, authorities
        Scores, float64, shape (n,). Each sums to 1.

    Raises
    ------
    %(square_errors)s
    UnsupportedError
        If values are complex.
    InvalidValueError
        If an edge weight is negative, NaN or infinite.
    ConvergenceError
        If the scores do not converge in ``max_iter`` rounds.
    %(memory_error)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 0, 1], [1, 2, 2]], [1, 1, 1], shape=(3, 3))
    >>> hubs, authorities = sp.graph.hits(A)
    >>> hubs.to_numpy().round(3), authorities.to_numpy().round(3)
    (array([0.618, 0.382, 0.   ]), array([0.   , 0.382, 0.618]))
    """
    from sparrow.linalg.operators import Operator

    A = check_graph(A)
    if A.dtype.kind == "c":
        raise UnsupportedError("hits: edge weights must be real, got complex values: use their magnitude")
    check_integer("max_iter", max_iter, 1)
    check_number("tol", tol)
    n = A.shape[0]
    weights = edge_weights(A)
    if A.dtype.kind in "if" and A.size and (smallest := weights.min()) < 0:
        raise InvalidValueError(f"hits: edge weights must not be negative, got {smallest}: use their magnitude")
    if A.dtype.kind == "f" and A.size and 0 < (largest := float(weights.max())) < np.inf:
        weights = weights / largest if not 1e-100 < largest < 1e100 else weights  # scores do not depend on the scale
    operator = Operator(weights, persist=True)
    with reserve_per_node(A, 24, "hits"), progress.bar("hits", max_iter, "rounds") as advance:
        rounds = progress.Convergence(tol, max_iter)
        hubs: NDArray[np.float64] = np.full(n, 1 / max(n, 1))
        for _ in range(max_iter):
            before = hubs
            authorities = _normalize(operator.multiply_transposed(hubs))
            hubs = _normalize(operator.matvec(authorities))
            if not np.isfinite(hubs.sum()):
                raise InvalidValueError("hits: edge weights must be finite, got NaN or infinity")
            change = float(np.abs(hubs - before).sum())
            advance.set_total(rounds.expect(change))
            advance(1)
            if change <= tol:
                return per_node(A, hubs), per_node(A, authorities)
    raise ConvergenceError(f"hits did not reach tol={tol} in {max_iter} rounds: increase max_iter or tol")


def _normalize(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    total = numbers.sum()
    return numbers / total if total else numbers


@shared
def common_neighbors(A: Tensor, pairs: Any = None) -> Tensor:
    """Return the number of common neighbors of node pairs, lazily.

    Parameters
    ----------
    %(undirected_graph)s
    %(pairs)s

    Returns
    -------
    Tensor
        Counts at the pairs, int64, shape (n, n).

    Raises
    ------
    %(pair_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.common_neighbors(A, [(0, 1), (0, 3), (1, 1)]).to_numpy()
    array([[0, 1, 0, 1],
           [0, 0, 0, 0],
           [0, 0, 0, 0],
           [0, 0, 0, 0]])
    """
    A = check_graph(A)
    both = _undirected_mask(A)
    mask, complement = _pair_mask(A, pairs)
    result: Tensor = matmul(both, both, semiring="plus_pair", mask=mask, complement=complement)
    return result


@shared
def adamic_adar(A: Tensor, pairs: Any = None) -> Tensor:
    """Return the Adamic-Adar index of node pairs, lazily.

    It is the sum of 1 / log(degree) over the common neighbors of a pair.

    Parameters
    ----------
    %(undirected_graph)s
    %(pairs)s

    Returns
    -------
    Tensor
        Scores at the pairs, float64, shape (n, n).

    Raises
    ------
    %(pair_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.adamic_adar(A, [(0, 1)])[0, 1].round(6)
    np.float64(0.910239)
    """
    A = check_graph(A)
    both = _undirected_mask(A)
    degrees = both.count(axis=1).to_numpy()
    score = np.zeros(len(degrees))
    score[degrees > 1] = 1 / np.log(degrees[degrees > 1])
    mask, complement = _pair_mask(A, pairs)
    result: Tensor = matmul(both * score, both.astype(np.float64), mask=mask, complement=complement)
    return result


def _undirected_mask(A: Tensor) -> Tensor:
    """Return the symmetric edge mask, in memory where it fits, else lazily."""
    if not fits_in_memory(A, undirected=True):
        return undirected_edge_mask(A)
    with Adjacency(A, undirected=True) as adjacency:
        return adjacency.to_tensor()


def _pair_mask(A: Tensor, pairs: Any) -> tuple[Tensor, bool]:
    """Return a mask of node pairs, and whether it is a complement."""
    if pairs is None:
        events.emit("graph.all_pairs")
        return eye(A.shape[0], dtype=np.bool_), True
    if isinstance(pairs, Tensor):
        axis = find_labelled_axis(A)
        transposed = align_to_axis(pairs, A, axis, "pairs", "common neighbors").T
        requested = align_to_axis(transposed, A, axis, "pairs", "common neighbors").T
        if requested.shape != A.shape:
            raise ShapeError(f"pairs has shape {pairs.shape}, expected {A.shape}")
        mask: Tensor = logical_and(edge_mask(requested), logical_not(eye(A.shape[0], dtype=np.bool_)))
        return mask, False
    try:
        ends = list(zip(*pairs, strict=True))
    except (TypeError, ValueError):
        raise ShapeError(f"pairs must have shape (m, 2), got pairs={pairs!r}") from None
    if len(ends) not in (0, 2):
        raise ShapeError(f"pairs must have shape (m, 2), got {len(ends)} nodes per pair")
    one, other = (node_positions(A, list(side)) for side in ends) if ends else (np.empty(0, np.int64),) * 2
    apart = one != other
    coords = np.stack([one[apart], other[apart]])
    values = np.ones(coords.shape[1], np.bool_)
    return from_coords(coords, values, shape=A.shape, dims=A.dims, duplicates="last"), False
