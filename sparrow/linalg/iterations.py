"""PageRank and power iteration: one matrix-vector product per round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.errors import ConvergenceError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.labels import align_to_axis, check_same_labels, find_labelled_axis
from sparrow.functions.views import as_tensor
from sparrow.linalg.operators import Operator, align_vectors, check_square, to_numeric_array, unwrap_tensor
from sparrow.runtime import memory, progress
from sparrow.runtime.validation import check_integer, check_number, check_seed
from sparrow.tensor import Tensor

__all__ = ["pagerank", "power_iteration", "sum_weights"]

_SMALLEST_SUM = 1e-290
"""Sum of weights whose inverse, times a rank, is far from overflow."""


def pagerank(
    A: Tensor | Operator,
    damping: float = 0.85,
    *,
    personalization: ArrayLike | Mapping[int, float] | None = None,
    dangling: ArrayLike | Mapping[int, float] | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> NDArray[np.float64]:
    """Return the PageRank of each node of a graph (Page et al. 1999).

    Parameters
    ----------
    A
        Adjacency matrix, shape (n, n), a tensor or operator. An edge is followed in proportion to its value, which must
        not be negative.
    damping
        Probability of following an edge rather than jumping.
    personalization
        Distribution of jumps, uniform by default: n weights as an array, a tensor, which is aligned by label, or a
        mapping from positions, where weights of the same node add up.
    dangling
        Distribution of the jumps from nodes without outgoing edges, in the same forms; ``personalization`` by default.
    tol
        Stop when the sum of absolute changes of a round is at most ``tol``.
    max_iter
        Maximum number of rounds.

    Returns
    -------
    ndarray
        Ranks, float64, shape (n,). They sum to 1.

    Raises
    ------
    ShapeError
        If A is not square, or weights have a wrong length.
    LabelError
        If rows and columns have different labels, or weights have unknown ones.
    UnsupportedError
        If values are complex.
    InvalidValueError
        If ``damping`` is not in [0, 1), an edge weight or a weight is negative, or all weights are 0.
    ConvergenceError
        If the ranks do not converge in ``max_iter`` rounds.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 2], [2, 2, 0, 1]], [1, 1, 1, 1])
    >>> sp.linalg.pagerank(A).round(3)
    array([0.257, 0.257, 0.486])
    """
    graph = as_tensor(unwrap_tensor(A))
    if graph.dtype.kind == "c":
        raise UnsupportedError("pagerank: edge weights must be real, got complex values: use their magnitude")
    check_number("damping", damping, 1)
    if damping == 1:
        raise InvalidValueError("damping must be less than 1, got 1")
    check_integer("max_iter", max_iter, 1)
    check_number("tol", tol)
    check_square(graph, "pagerank")
    check_same_labels(graph, "pagerank")
    from sparrow.kernels.graph.pagerank import finish_iteration

    operator = A if isinstance(A, Operator) else Operator(graph, persist=True)
    n = operator.shape[0]
    if not n:
        return np.empty(0)
    # Ranks of this round and the last, their scaled copy and the scale; products reserve their own memory.
    with memory.reserve(32 * n, f"pagerank: 32 bytes for each of {n} nodes", ""):
        jump = _distribution(personalization, graph, "personalization")
        dangling_jump = jump if dangling is None else _distribution(dangling, graph, "dangling")
        out_weights = operator.matvec(np.ones(n))
        wrong = ~(out_weights >= 0)  # NaN, too
        if np.isinf(out_weights).any() and not np.isfinite(operator.tensor.max()):
            wrong |= np.isinf(out_weights)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InvalidValueError(
                f"pagerank: edge weights must be finite and not negative, got a sum of {out_weights[at]} at node {at}"
            )
        if graph.dtype.kind not in "bu" and (smallest := operator.tensor.min()) < 0:
            raise InvalidValueError(f"pagerank: edge weights must be finite and not negative, got {smallest}")
        positive = out_weights[out_weights > 0]
        if len(positive) and not (positive.min() > _SMALLEST_SUM and np.isfinite(positive).all()):
            operator = Operator(_scale_rows(operator.tensor), persist=True)
            out_weights = operator.matvec(np.ones(n))
        factors = np.divide(damping, out_weights, out=np.zeros(n), where=out_weights > 0)
        ranks = np.array(np.broadcast_to(jump, n))
        dangling_rank, scaled = float(ranks[out_weights == 0].sum()), ranks * factors
        rounds = progress.Convergence(tol, max_iter)
        with progress.bar("pagerank", max_iter, "rounds") as advance:
            for _ in range(max_iter):
                previous, ranks = ranks, operator.multiply_transposed(scaled)
                change, dangling_rank = finish_iteration(
                    ranks, previous, jump, 1 - damping, dangling_jump, damping * dangling_rank, factors, scaled
                )
                advance.set_total(rounds.expect(change))
                advance(1)
                if change <= tol:
                    ranks /= ranks.sum()
                    return ranks
    raise ConvergenceError(f"pagerank did not reach tol={tol} in {max_iter} rounds: increase max_iter or tol")


def _scale_rows(A: Tensor) -> Tensor:
    """Return a matrix of weights with the largest of each row scaled to 1.

    Sums of rows neither overflow nor are so small that their inverse does.
    """
    largest = np.asarray(A.max(axis=1).to_numpy(), np.float64)
    largest[largest == 0] = 1
    scaled: Tensor = A / largest[:, None]
    return scaled


def power_iteration(
    A: Tensor | Operator, v0: ArrayLike | None = None, *, tol: float = 1e-9, max_iter: int = 10_000, seed: int = 0
) -> tuple[Any, NDArray[Any]]:
    """Return the eigenvalue of largest magnitude and its eigenvector.

    Parameters
    ----------
    A
        Square tensor, which may stay on disk, or operator.
    v0
        Initial vector, shape (n,); a labelled tensor is aligned. Random by default.
    tol
        Stop when the norm of ``A @ v - value * v`` is at most ``tol * abs(value)``.
    max_iter
        Maximum number of rounds.
    seed
        Seed of the random initial vector.

    Returns
    -------
    value
        Scalar.
    vector
        Unit vector, shape (n,).

    Raises
    ------
    ShapeError
        If A is not square, or ``v0`` has a wrong length.
    LabelError
        If rows and columns have different labels, or ``v0`` has unknown ones.
    InvalidValueError
        If ``v0`` is all 0.
    ConvergenceError
        If it does not converge in ``max_iter`` rounds. Several eigenvalues may have the same magnitude: :func:`eigsh`
        computes those of a symmetric matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> value, vector = sp.linalg.power_iteration(sp.asarray([[2.0, 1.0], [1.0, 2.0]]), [1.0, 0.0])
    >>> round(float(value), 9), vector.round(6)
    (3.0, array([0.707107, 0.707107]))
    """
    matrix = as_tensor(unwrap_tensor(A))
    check_square(matrix, "power_iteration")
    check_same_labels(matrix, "power_iteration")
    check_integer("max_iter", max_iter, 1)
    check_number("tol", tol)
    check_seed(seed)
    operator = A if isinstance(A, Operator) else Operator(matrix, persist=True)
    n = operator.shape[0]
    if v0 is None:
        start = np.random.default_rng(seed).standard_normal(n)
    else:
        axis = find_labelled_axis(matrix)
        start = align_vectors(v0, "v0", matrix, axis, "power_iteration", several=False).reshape(-1)
    vector = start.astype(np.result_type(operator.dtype, start.dtype))
    if n and not vector.any():
        raise InvalidValueError("v0 must not be all 0: omit it for a random initial vector")
    vector = vector / (np.linalg.norm(vector) or 1)
    rounds = progress.Convergence(tol, max_iter)
    with progress.bar("power iteration", max_iter, "rounds") as advance:
        for _ in range(max_iter):
            product = operator.matvec(vector)
            value = np.vdot(vector, product)
            error, scale = np.linalg.norm(product - value * vector), abs(value)
            advance.set_total(rounds.expect(float(error / (scale or 1))))
            advance(1)
            if error <= tol * scale:
                return value, vector
            length = np.linalg.norm(product)
            if not np.isfinite(length):
                raise ConvergenceError(
                    "power_iteration: products are not finite: scale A down, or remove its NaN and infinite values"
                )
            vector = product / length
    raise ConvergenceError(
        f"power_iteration did not reach tol={tol} in {max_iter} rounds: increase max_iter or tol; for eigenvalues of "
        "equal magnitude of a symmetric matrix use sp.linalg.eigsh"
    )


def _distribution(given: ArrayLike | Mapping[Any, float] | None, graph: Tensor, name: str) -> NDArray[np.float64]:
    """Return weights that sum to 1, shape (n,), or (1,) if they are equal."""
    n = graph.shape[0]
    if given is None:
        return np.array([1 / n])
    if isinstance(given, Mapping):
        for node in given:
            if not isinstance(node, int | np.integer) or not -n <= node < n:
                raise ShapeError(f"{name}: node must be from 0 to {n - 1}, got {node!r}")
        weights = sum_weights(given, list(given), n, name)
    else:
        weights = _real_array(align_to_axis(given, graph, find_labelled_axis(graph), name, "pagerank"), name)
    if weights.shape != (n,):
        raise ShapeError(f"{name} has shape {weights.shape}, expected ({n},): one weight per node")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise InvalidValueError(f"{name}: weights must be finite, not negative and not all 0")
    weights /= weights.max()  # the sum of large weights may overflow
    total: NDArray[np.float64] = weights / weights.sum()
    return total


def sum_weights(given: Mapping[Any, Any], at: list[int], n: int, name: str) -> NDArray[np.float64]:
    """Return a mapping of weights as an array, summing those of equal nodes.

    Parameters
    ----------
    given
        Mapping from nodes to weights.
    at
        Position of each node of ``given``.
    n, name
        Number of nodes, and argument name for errors.

    Raises
    ------
    ShapeError
        If a weight is not a scalar.
    UnsupportedError
        If a weight is not a real number.
    """
    weights = np.zeros(n)
    for place, (node, weight) in zip(at, given.items(), strict=True):
        number = _real_array(weight, name)
        if number.ndim:
            raise ShapeError(f"{name}: weight of node {node!r} must be a number, got {weight!r}")
        weights[place] += number
    return weights


def _real_array(given: Any, name: str) -> NDArray[np.float64]:
    result = to_numeric_array(given, name)
    if result.dtype.kind == "c":
        raise UnsupportedError(f"{name} must be real, got complex values")
    return result.astype(np.float64)
