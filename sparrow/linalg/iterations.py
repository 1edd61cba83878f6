"""Iterations that are a product a round: PageRank, and the dominant eigenvector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.errors import ConvergenceError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.labels import at_labels, check_space, space_axis
from sparrow.functions.views import as_tensor
from sparrow.kernels.jit import warmup
from sparrow.linalg.operators import Operator, check_sides, check_square, check_vector, tensor_of
from sparrow.runtime import memory, progress
from sparrow.runtime.validation import check_integer, check_number, check_seed
from sparrow.tensor import Tensor

__all__ = ["added_up", "pagerank", "power_iteration"]

_WEIGHTS = "weights must be finite and not negative"


def pagerank(
    A: Tensor | Operator,
    damping: float = 0.85,
    *,
    personalization: ArrayLike | Mapping[int, float] | None = None,
    dangling: ArrayLike | Mapping[int, float] | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> NDArray[np.float64]:
    """Return the PageRank of the nodes of a graph: where one is who follows links, and jumps now and then.

    Parameters
    ----------
    A
        A square tensor of links from rows to columns, or its operator. A link is followed in proportion to its value,
        which is not negative.
    damping
        How likely one follows a link rather than jumps.
    personalization
        How likely one jumps to each node, as weights, an array, a tensor that goes by the labels that it has, or a
        mapping from positions, where what is given for one node adds up; equally by default.
    dangling
        Where one goes from a node without links; where one jumps by default.
    tol
        It is done when a round changes all ranks together by less.
    max_iter
        The most rounds.

    Returns
    -------
    ndarray
        The ranks, which sum to 1.

    Raises
    ------
    ShapeError
        If the tensor is not square, or weights have another length.
    LabelError
        If rows and columns have labels that differ, or weights have others.
    UnsupportedError
        If values are complex.
    InvalidValueError
        If ``damping`` is not between 0 and 1, a link or a weight is negative, or weights are all 0.
    ConvergenceError
        If ``max_iter`` rounds are not enough.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2, 2], [2, 2, 0, 1]], [1, 1, 1, 1])
    >>> sp.linalg.pagerank(links).round(3)
    array([0.257, 0.257, 0.486])
    """
    links = as_tensor(tensor_of(A))
    if links.dtype.kind == "c":
        raise UnsupportedError("pagerank: links of complex values are not followed in proportion; take their magnitude")
    check_number("damping", damping, 1)
    if damping == 1:
        raise InvalidValueError("damping=1 must be less than 1: some jumps are needed")
    check_integer("max_iter", max_iter, 1)
    check_number("tol", tol)
    check_square(links, "pagerank")
    check_space(links, "pagerank")
    from sparrow.kernels.graph.pagerank import completed

    operator = A if isinstance(A, Operator) else Operator(links, persist=True)
    n = operator.shape[0]
    if not n:
        return np.empty(0)
    # The ranks, those before, what follows links and its share; products say themselves what they take.
    with memory.reserve(32 * n, f"pagerank: 32 bytes for each of {n} nodes", ""):
        jump = _weights(personalization, links, "personalization")
        lost = jump if dangling is None else _weights(dangling, links, "dangling")
        leaving = operator.matvec(np.ones(n))
        if not np.isfinite(leaving).all() or (leaving < 0).any():
            at = int(np.argmin(np.isfinite(leaving) & (leaving >= 0)))
            raise InvalidValueError(f"the links of node {at} weigh {leaving[at]}: {_WEIGHTS}")
        if links.dtype.kind not in "bu" and (least := operator.tensor.min()) < 0:
            raise InvalidValueError(f"a link weighs {least}: {_WEIGHTS}")
        share = np.divide(damping, leaving, out=np.zeros(n), where=leaving > 0)
        ranks = np.array(np.broadcast_to(jump, n))
        stray, given = float(ranks[leaving == 0].sum()), ranks * share
        warmup.announce()
        with progress.bar("pagerank", None, "rounds") as advance:
            for _ in range(max_iter):
                before, ranks = ranks, operator.multiply_transposed(given)
                change, stray = completed(ranks, before, jump, 1 - damping, lost, damping * stray, share, given)
                advance(1)
                if change <= tol:
                    ranks /= ranks.sum()
                    return ranks
    raise ConvergenceError(f"pagerank did not reach tol={tol} in {max_iter} rounds: increase max_iter or tol")


def power_iteration(
    A: Tensor | Operator, v0: ArrayLike | None = None, *, tol: float = 1e-9, max_iter: int = 10_000, seed: int = 0
) -> tuple[Any, NDArray[Any]]:
    """Return the eigenvalue that is largest in magnitude, and its vector.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or its operator.
    v0
        Where to begin, a tensor by the labels that it has; random by default.
    tol
        It is done when ``A @ v - value * v`` is at most so much of the value.
    max_iter
        The most rounds.
    seed
        Of the random start.

    Returns
    -------
    value
        A number.
    vector
        Of length 1.

    Raises
    ------
    ShapeError
        If the tensor is not square, or ``v0`` has another length.
    LabelError
        If rows and columns have labels that differ, or ``v0`` has others.
    InvalidValueError
        If ``v0`` is all 0.
    ConvergenceError
        If ``max_iter`` rounds are not enough: there may be several eigenvalues of one magnitude, and :func:`eigsh`
        finds those of a symmetric matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> value, vector = sp.linalg.power_iteration(sp.asarray([[2.0, 1.0], [1.0, 2.0]]), [1.0, 0.0])
    >>> round(float(value), 9), vector.round(6)
    (3.0, array([0.707107, 0.707107]))
    """
    matrix = as_tensor(tensor_of(A))
    check_square(matrix, "power_iteration")
    check_space(matrix, "power_iteration")
    check_integer("max_iter", max_iter, 1)
    check_number("tol", tol)
    check_seed(seed)
    operator = A if isinstance(A, Operator) else Operator(matrix, persist=True)
    n = operator.shape[0]
    if v0 is None:
        start = np.random.default_rng(seed).standard_normal(n)
    else:
        start = check_sides(v0, "v0", matrix, space_axis(matrix), "power_iteration", several=False).reshape(-1)
    vector = start.astype(np.result_type(operator.dtype, start.dtype))
    if n and not vector.any():
        raise InvalidValueError("v0 is all 0: a start of zeros has no direction, leave it out for a random one")
    vector = vector / (np.linalg.norm(vector) or 1)
    with progress.bar("power iteration", None, "rounds") as advance:
        for _ in range(max_iter):
            product = operator.matvec(vector)
            value = np.vdot(vector, product)
            advance(1)
            if np.linalg.norm(product - value * vector) <= tol * abs(value):
                return value, vector
            length = np.linalg.norm(product)
            if not np.isfinite(length):
                raise ConvergenceError(
                    "power_iteration: products are no finite numbers: scale the matrix down, or leave out its entries "
                    "that are NaN or infinite"
                )
            vector = product / length
    raise ConvergenceError(
        f"power_iteration: {max_iter} rounds do not reach tol={tol}: give a larger max_iter, or tol; if several "
        "eigenvalues are of one magnitude sp.linalg.eigsh finds them of a symmetric matrix"
    )


def _weights(given: ArrayLike | Mapping[Any, float] | None, links: Tensor, name: str) -> NDArray[np.float64]:
    """Return weights of all nodes that sum to 1, shape (n,), or (1,) where they are alike."""
    n = links.shape[0]
    if given is None:
        return np.array([1 / n])
    if isinstance(given, Mapping):
        for node in given:
            if not isinstance(node, int | np.integer) or not -n <= node < n:
                raise ShapeError(f"{name} names node {node!r}, nodes are 0 to {n - 1}")
        weights = added_up(given, list(given), n, name)
    else:
        weights = _real(at_labels(given, links, space_axis(links), name, "pagerank"), name)
    if weights.shape != (n,):
        raise ShapeError(f"{name} has shape {weights.shape}: give a number for each of {n} nodes")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise InvalidValueError(f"{name}: weights must be finite, none negative, not all 0")
    weights /= weights.max()  # whose sum is finite
    total: NDArray[np.float64] = weights / weights.sum()
    return total


def added_up(given: Mapping[Any, Any], at: list[int], n: int, name: str) -> NDArray[np.float64]:
    """Return the weights of all nodes by position, of a mapping from nodes that are ``at`` some: those of one add up.

    Raises
    ------
    ShapeError
        If something else than a number is given for a node.
    UnsupportedError
        If it is no real number.
    """
    weights = np.zeros(n)
    for place, (node, weight) in zip(at, given.items(), strict=True):
        number = _real(weight, name)
        if number.ndim:
            raise ShapeError(f"{name} gives node {node!r} {weight!r}: give one number for each")
        weights[place] += number
    return weights


def _real(given: Any, name: str) -> NDArray[np.float64]:
    """Return weights as an array."""
    found = check_vector(given, name)
    if found.dtype.kind == "c":
        raise UnsupportedError(f"{name} is complex: give real numbers")
    return found.astype(np.float64)
