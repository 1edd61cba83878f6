"""Optimizers with a learning rate per weight: Adam, AdaGrad, FTRL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sparrow.kernels.ml import optim
from sparrow.optim.base import Optimizer
from sparrow.optim.schedules import Rate
from sparrow.runtime.validation import check_number

__all__ = ["FTRL", "AdaGrad", "Adam"]


@dataclass
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015).

    Weight decay is clipped with the gradient; epsilon is outside of the root::

        g = clip(rescale_grad * g + weight_decay * w)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ^ 2
        w = w - lr * sqrt(1 - beta2 ^ t) / (1 - beta1 ^ t) * m / (sqrt(v) + epsilon)

    t counts the updates of the weights as a whole, for rows that lazy updates skipped too.

    Parameters
    ----------
    lr, weight_decay, rescale_grad, clip_gradient, l1, lazy
        As in :class:`Optimizer`.
    beta1, beta2
        Decay rates of the moving averages, in [0, 1).
    epsilon
        Added to the denominator.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> w = np.ones((1, 2))
    >>> optimizer = sp.optim.Adam(0.1)
    >>> optimizer.update(w, np.array([[1.0, 5.0]]), optimizer.create_state(w))
    >>> w.round(6)
    array([[0.9, 0.9]])
    """

    lr: Rate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    names: ClassVar[tuple[str, ...]] = ("mean", "square")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta1", self.beta1, below=1)
        check_number("beta2", self.beta2, below=1)
        check_number("epsilon", self.epsilon, above=0)

    @property
    def kind(self) -> int:
        """Constant of the optimizer in :mod:`sparrow.kernels.ml.optim`."""
        return optim.ADAM

    def rate(self, step: int) -> float:
        """Return the learning rate after ``step`` updates, with bias correction.

        Parameters
        ----------
        step
            Number of earlier updates.

        Returns
        -------
        float

        Examples
        --------
        >>> import sparrow as sp
        >>> round(sp.optim.Adam(0.1).rate(0), 6)
        0.031623
        """
        t = step + 1
        return super().rate(step) * math.sqrt(1.0 - self.beta2**t) / (1.0 - self.beta1**t)

    def _constants(self) -> tuple[float, float, float]:
        return (self.beta1, self.beta2, self.epsilon)


@dataclass
class AdaGrad(Optimizer):
    """AdaGrad (Duchi, Hazan and Singer 2011).

    Epsilon is inside the root::

        g = clip(rescale_grad * g)
        h = h + g ^ 2
        w = w - lr * (g / sqrt(h + epsilon) + weight_decay * w)

    Without weight decay and l1, lazy and standard updates are equal.

    Parameters
    ----------
    lr, weight_decay, rescale_grad, clip_gradient, l1, lazy
        As in :class:`Optimizer`.
    epsilon
        Added to the sum of squares.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> w = np.ones((1, 2))
    >>> optimizer = sp.optim.AdaGrad(0.1)
    >>> optimizer.update(w, np.array([[4.0, 5.0]]), optimizer.create_state(w))
    >>> w.round(6)
    array([[0.9, 0.9]])
    """

    lr: Rate = 0.1
    epsilon: float = 1e-7

    names: ClassVar[tuple[str, ...]] = ("squares",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("epsilon", self.epsilon, above=0)

    @property
    def kind(self) -> int:
        """Constant of the optimizer in :mod:`sparrow.kernels.ml.optim`."""
        return optim.ADAGRAD

    @property
    def is_local(self) -> bool:
        """True if weights with gradient 0 stay unchanged."""
        return not (self.weight_decay or self.l1)

    def _constants(self) -> tuple[float, float, float]:
        return (0.0, 0.0, self.epsilon)


@dataclass
class FTRL(Optimizer):
    """Follow the regularized leader, proximal (McMahan et al. 2013).

    It has AdaGrad's learning rates, and weights that are exactly 0::

        g = clip(rescale_grad * g)
        z = z + g - (sqrt(n + g^2) - sqrt(n)) / lr * w
        n = n + g^2
        w = 0 where |z| <= l1, else (sign(z) * l1 - z) / ((beta + sqrt(n)) / lr + weight_decay)

    Weights depend on z and n alone: an initial weight is forgotten at its first update, which a standard update applies
    to every row.

    Parameters
    ----------
    lr, weight_decay, rescale_grad, clip_gradient, l1, lazy
        As in :class:`Optimizer`.
    beta
        Larger values make the first steps smaller.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> w = np.zeros((1, 2))
    >>> optimizer = sp.optim.FTRL(0.1, l1=1.0)
    >>> optimizer.update(w, np.array([[0.5, 3.0]]), optimizer.create_state(w))
    >>> w
    array([[ 0.  , -0.05]])
    """

    lr: Rate = 0.1
    beta: float = 1.0

    names: ClassVar[tuple[str, ...]] = ("z", "squares")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta, above=0)

    @property
    def kind(self) -> int:
        """Constant of the optimizer in :mod:`sparrow.kernels.ml.optim`."""
        return optim.FTRL

    def _constants(self) -> tuple[float, float, float]:
        return (self.beta, 0.0, 0.0)
