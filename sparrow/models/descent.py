"""Stochastic gradient descent over streamed rows: the weights of a model, its optimiser, and the loop of an epoch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import ConvergenceError, InvalidValueError, ShapeError
from sparrow.kernels.jit import warmup
from sparrow.kernels.ml import linear
from sparrow.models.rows import Chunk
from sparrow.optim import FTRL, SGD, AdaGrad, Adam, Optimizer, State
from sparrow.runtime import memory

__all__ = ["OPTIMIZERS", "Descent", "Weights", "initial", "is_init", "optimizer_of"]

OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adagrad": AdaGrad, "ftrl": FTRL}


def optimizer_of(given: str | Optimizer, lr: Any, l1: float, l2: float) -> Optimizer:
    """Return the optimiser of a model: by its name, with the penalties of the model added to its own."""
    if isinstance(given, str):
        given = OPTIMIZERS[given]() if lr is None else OPTIMIZERS[given](lr)
    lazy = True if given.lazy is None else given.lazy
    return dataclasses.replace(given, l1=given.l1 + l1, weight_decay=given.weight_decay + l2, lazy=lazy)


@dataclass
class Weights:
    """What is learnt.

    Parameters
    ----------
    rows
        Shape (columns, outputs); of a factorisation machine (columns, 1 + factors), the linear weight first.
    bias
        Shape (1, outputs).
    factors
        Of a factorisation machine; 0 for a linear model.
    """

    rows: NDArray[Any]
    bias: NDArray[Any]
    factors: int = 0

    def copy(self) -> Weights:
        """Return weights of their own."""
        return Weights(self.rows.copy(), self.bias.copy(), self.factors)

    def scores(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return the scores of rows, shape (rows, outputs)."""
        found = np.empty((len(chunk.indptr) - 1, self.bias.shape[1]))
        rows, bias = warmup.as_readonly(self.rows), warmup.as_readonly(self.bias)
        linear.scores(chunk.data, chunk.indices, chunk.indptr, rows, bias, self.factors, found)
        return found


@dataclass
class Descent:
    """Weights on their way: what the optimiser remembers, and the room that the kernels work in.

    Parameters
    ----------
    weights
        Updated in place.
    optimizer
        Of the weights; the bias has the same without penalties.
    loss
        A number of :mod:`sparrow.kernels.ml.linear`.
    batch
        Rows between two updates.
    with_bias
        Whether the bias is learnt.
    """

    weights: Weights
    optimizer: Optimizer
    loss: int
    batch: int
    with_bias: bool
    state: State = field(init=False)
    of_bias: State = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.optimizer.create_state(self.weights.rows)
        self.of_bias = self.optimizer.create_state(self.weights.bias)
        self._slots: NDArray[np.uint32] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_slots": None}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays that change, by name."""
        found: dict[str, Any] = {"weights": self.weights.rows, "bias": self.weights.bias}
        for prefix, state in (("weights", self.state), ("bias", self.of_bias)):
            found |= {f"{prefix}-{name}": array for name, array in state.arrays.items()}
        return found

    def run(self, chunk: Chunk, totals: NDArray[np.float64], where: Callable[[], str]) -> None:
        """Update the weights with the rows of a chunk.

        Parameters
        ----------
        chunk
            The rows.
        totals
            The sums of their losses and weights are added here.
        where
            Says where this is, for an error.

        Raises
        ------
        ConvergenceError
            If a loss is not finite.
        """
        rows, bias = self.weights.rows, self.weights.bias
        count = -(-len(chunk.targets) // self.batch)
        states = [_two(state, self.optimizer.names, rows.dtype) for state in (self.state, self.of_bias)]
        everywhere = self.optimizer.lazy is False and not self.optimizer.is_local
        if self._slots is None:
            most = len(rows) if everywhere else min(len(rows), len(chunk.data))
            side = 4 * rows[:1].nbytes  # its weights, two states, the gradient
            memory.check(4 * len(rows) + most * side, "the gradient of a batch", "take fewer columns by hashing them")
            self._slots = np.zeros(len(rows), np.uint32)
        plain = dataclasses.replace(self.optimizer, l1=0.0, weight_decay=0.0)
        step = self.state.step
        done = linear.train(  # type: ignore[call-arg]
            chunk.data, chunk.indices, chunk.indptr, chunk.targets, chunk.weights,
            self.batch, self.loss, self.weights.factors, rows, *states[0], bias, *states[1], self.with_bias,
            self.optimizer.kind, everywhere, self.optimizer.rates(step, count), self.optimizer.constants(),
            plain.constants(), self._slots, totals,
        )  # fmt: skip
        self.state.step += done
        self.of_bias.step += done
        if done < count:
            raise ConvergenceError(
                f"the loss is not finite after {self.state.step} updates, in {where()}: lower lr (now "
                f"{self.optimizer.rate(step):g}), set clip_gradient of the optimizer, or scale the columns of X"
            )

    def check_finite(self) -> None:
        """Raise ``ConvergenceError`` unless all weights are finite."""
        if not (np.isfinite(self.weights.rows).all() and np.isfinite(self.weights.bias).all()):
            raise ConvergenceError(
                f"weights are not finite after {self.state.step} updates: lower lr (now "
                f"{self.optimizer.rate(self.state.step):g}), or scale the columns of X"
            )


def _two(state: State, names: tuple[str, ...], dtype: Any) -> list[Any]:
    """Return the arrays of a state, and empty ones in place of those that it has not."""
    found: list[Any] = [state.arrays[name] for name in names]
    return found + [np.zeros((0, 0), dtype)] * (2 - len(found))


def initial(init: Any, shape: tuple[int, int], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """Return weights to begin with: zeros, ones, drawn, of one value, or as a function of shape and generator says.

    Raises
    ------
    ShapeError
        If the function gives others than were asked for.
    InvalidValueError
        If those are not finite.
    """
    if init == "zeros":
        return np.zeros(shape, dtype)
    rng = np.random.default_rng(seed)
    if init == "normal":
        return (0.01 * rng.standard_normal(shape, np.float32)).astype(dtype)
    if init == "uniform":
        return rng.uniform(-0.07, 0.07, shape).astype(dtype)
    if callable(init):
        made = np.asarray(init(shape, rng), dtype)
        try:
            weights = np.array(np.broadcast_to(made, shape), order="C")
        except ValueError:
            raise ShapeError(f"init gives weights of shape {made.shape}, they have the shape {shape}") from None
        if not np.isfinite(weights).all():
            raise InvalidValueError("init gives weights that are not finite")
        return weights
    return np.full(shape, 1.0 if init == "ones" else init, dtype)


def is_init(init: Any) -> bool:
    """Return whether weights can begin so."""
    if isinstance(init, str):
        return init in ("zeros", "ones", "normal", "uniform")
    return callable(init) or (isinstance(init, int | float) and not isinstance(init, bool) and math.isfinite(init))
