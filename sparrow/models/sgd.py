"""Stochastic gradient descent over streamed rows: weights, optimizer, epochs."""

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
from sparrow.models.examples import ExampleChunk
from sparrow.optim import FTRL, SGD, AdaGrad, Adam, Optimizer, State
from sparrow.runtime import events, memory

__all__ = ["OPTIMIZERS", "Trainer", "Weights", "initial_weights", "is_valid_init", "resolve_optimizer"]

OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adagrad": AdaGrad, "ftrl": FTRL}


def resolve_optimizer(optimizer: str | Optimizer, lr: Any, l1: float, l2: float) -> Optimizer:
    """Return the optimizer of a model, with the model's penalties added.

    Parameters
    ----------
    optimizer
        Name or optimizer.
    lr
        Learning rate of a named one, or None.
    l1, l2
        Penalties.
    """
    if isinstance(optimizer, str):
        optimizer = OPTIMIZERS[optimizer]() if lr is None else OPTIMIZERS[optimizer](lr)
    lazy = True if optimizer.lazy is None else optimizer.lazy
    l1, weight_decay = optimizer.l1 + l1, optimizer.weight_decay + l2
    return dataclasses.replace(optimizer, l1=l1, weight_decay=weight_decay, lazy=lazy)


@dataclass
class Weights:
    """Weights of a model.

    Parameters
    ----------
    rows
        Shape (features, outputs); of a factorization machine (features, 1 + factors), the linear weight first.
    bias
        Shape (1, outputs).
    factors
        Number of factors of a factorization machine; 0 for a linear model.
    """

    rows: NDArray[Any]
    bias: NDArray[Any]
    factors: int = 0

    def copy(self) -> Weights:
        """Return a copy."""
        return Weights(self.rows.copy(), self.bias.copy(), self.factors)

    def scores(self, chunk: ExampleChunk) -> NDArray[np.float64]:
        """Return the scores of a chunk, shape (rows, outputs)."""
        scores = np.empty((len(chunk.indptr) - 1, self.bias.shape[1]))
        rows, bias = warmup.as_readonly(self.rows), warmup.as_readonly(self.bias)
        linear.scores(chunk.data, chunk.indices, chunk.indptr, rows, bias, self.factors, scores)
        return scores


@dataclass
class Trainer:
    """Training state: weights, optimizer state and work arrays.

    Parameters
    ----------
    weights
        Updated in place.
    optimizer
        Optimizer of the weights; the bias uses it without penalties.
    loss
        Loss constant of :mod:`sparrow.kernels.ml.linear`.
    batch
        Rows of a mini-batch.
    with_bias
        Whether to train the bias.
    """

    weights: Weights
    optimizer: Optimizer
    loss: int
    batch: int
    with_bias: bool
    state: State = field(init=False)
    bias_state: State = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.optimizer.create_state(self.weights.rows)
        self.bias_state = self.optimizer.create_state(self.weights.bias)
        self._slots: NDArray[np.uint32] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_slots": None}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays that training changes, by name."""
        result: dict[str, Any] = {"weights": self.weights.rows, "bias": self.weights.bias}
        for prefix, state in (("weights", self.state), ("bias", self.bias_state)):
            result |= {f"{prefix}-{name}": array for name, array in state.arrays.items()}
        return result

    def train(self, chunk: ExampleChunk, totals: NDArray[np.float64], describe: Callable[[], str]) -> None:
        """Update the weights with the rows of a chunk.

        Parameters
        ----------
        chunk
            Rows.
        totals
            Sums of losses and row weights, updated in place.
        describe
            Returns the position, such as "epoch 3", for an error.

        Raises
        ------
        ConvergenceError
            If a loss is not finite.
        """
        rows, bias = self.weights.rows, self.weights.bias
        count = -(-len(chunk.targets) // self.batch)
        states = [_state_pair(state, self.optimizer.names, rows.dtype) for state in (self.state, self.bias_state)]
        everywhere = self.optimizer.lazy is False and not self.optimizer.is_local
        if self._slots is None:
            active = len(rows) if everywhere else min(len(rows), len(chunk.data))
            row_bytes = 4 * rows[:1].nbytes  # weights, two states and the gradient
            memory.check(4 * len(rows) + active * row_bytes, "the gradient of a mini-batch", "hash columns into fewer")
            self._slots = np.zeros(len(rows), np.uint32)
        plain = dataclasses.replace(self.optimizer, l1=0.0, weight_decay=0.0)
        step = self.state.step
        events.emit("models.train_chunk")
        done = linear.train(  # type: ignore[call-arg]
            chunk.data, chunk.indices, chunk.indptr, chunk.targets, chunk.weights,
            self.batch, self.loss, self.weights.factors, rows, *states[0], bias, *states[1], self.with_bias,
            self.optimizer.kind, everywhere, self.optimizer.rates(step, count), self.optimizer.constants(),
            plain.constants(), self._slots, totals,
        )  # fmt: skip
        self.state.step += done
        self.bias_state.step += done
        if done < count:
            raise ConvergenceError(
                f"loss is not finite after {self.state.step} updates, in {describe()}: lower lr (now "
                f"{self.optimizer.rate(step):g}), set clip_gradient of the optimizer, or scale the columns of X"
            )

    def check_finite(self) -> None:
        """Raise ``ConvergenceError`` unless all weights are finite."""
        if not (np.isfinite(self.weights.rows).all() and np.isfinite(self.weights.bias).all()):
            raise ConvergenceError(
                f"weights are not finite after {self.state.step} updates: lower lr (now "
                f"{self.optimizer.rate(self.state.step):g}), or scale the columns of X"
            )


def _state_pair(state: State, names: tuple[str, ...], dtype: Any) -> list[Any]:
    """Return the arrays of a state, padded with empty ones to two."""
    arrays: list[Any] = [state.arrays[name] for name in names]
    return arrays + [np.zeros((0, 0), dtype)] * (2 - len(arrays))


def initial_weights(init: Any, shape: tuple[int, int], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """Return initial weights.

    Parameters
    ----------
    init
        "zeros", "ones", "normal", "uniform", a number, or a function of (shape, rng).
    shape, dtype
        Shape and type.
    seed
        Seed of the generator.

    Raises
    ------
    ShapeError
        If the function returns another shape.
    InvalidValueError
        If it returns values that are not finite.
    """
    if init == "zeros":
        return np.zeros(shape, dtype)
    rng = np.random.default_rng(seed)
    if init == "normal":
        return (0.01 * rng.standard_normal(shape, np.float32)).astype(dtype)
    if init == "uniform":
        return rng.uniform(-0.07, 0.07, shape).astype(dtype)
    if callable(init):
        values = np.asarray(init(shape, rng), dtype)
        try:
            weights = np.array(np.broadcast_to(values, shape), order="C")
        except ValueError:
            raise ShapeError(f"init must return weights of shape {shape}, got {values.shape}") from None
        if not np.isfinite(weights).all():
            raise InvalidValueError("init must return finite weights")
        return weights
    return np.full(shape, 1.0 if init == "ones" else init, dtype)


def is_valid_init(init: Any) -> bool:
    """Return whether ``init`` is valid for :func:`initial_weights`."""
    if isinstance(init, str):
        return init in ("zeros", "ones", "normal", "uniform")
    return callable(init) or (isinstance(init, int | float) and not isinstance(init, bool) and math.isfinite(init))
