"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparrow.errors import InvalidValueError
from sparrow.kernels.ml import optim
from sparrow.optim.base import Optimizer
from sparrow.optim.schedules import Rate
from sparrow.runtime.validation import check_flag, check_number

__all__ = ["SGD"]


@dataclass
class SGD(Optimizer):
    """Stochastic gradient descent with optional momentum.

    ::

        u = lr * (clip(rescale_grad * g) + weight_decay * w)
        s = momentum * s + u
        w = w - s  # nesterov: w - (momentum * s + u)

    This is the form of MXNet's kernels. Its tutorial prints another one, ``lr * rescale_grad * clip(g) + weight_decay *
    w``, which clips before it rescales and does not scale the decay by the rate; divide ``clip_gradient`` and
    ``weight_decay`` accordingly to reproduce it.

    Parameters
    ----------
    lr, weight_decay, rescale_grad, clip_gradient, l1, lazy
        As in :class:`Optimizer`.
    momentum
        In [0, 1); 0 keeps no state.
    nesterov
        Use Nesterov momentum.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> w = np.array([1.0, 1.0])
    >>> optimizer = sp.optim.SGD(0.1, rescale_grad=0.5, clip_gradient=1.5)
    >>> optimizer.update(w, np.array([4.0, 2.0]), optimizer.create_state(w))
    >>> w
    array([0.85, 0.9 ])
    """

    lr: Rate = 0.01
    momentum: float = 0.0
    nesterov: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("momentum", self.momentum, below=1)
        if check_flag("nesterov", self.nesterov) and not self.momentum:
            raise InvalidValueError("nesterov=True requires a positive momentum, such as 0.9, got 0")

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the state arrays: none without momentum."""
        return ("momentum",) if self.momentum else ()

    @property
    def kind(self) -> int:
        """Constant of the optimizer in :mod:`sparrow.kernels.ml.optim`."""
        return optim.NESTEROV if self.nesterov else optim.MOMENTUM if self.momentum else optim.SGD

    @property
    def is_local(self) -> bool:
        """True if weights with gradient 0 stay unchanged."""
        return not (self.momentum or self.weight_decay or self.l1)

    def _constants(self) -> tuple[float, float, float]:
        return (self.momentum, 0.0, 0.0)
