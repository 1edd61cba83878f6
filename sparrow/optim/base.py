"""What optimisers have in common: their settings, the states of weights, and one update in place."""

from __future__ import annotations

import functools
import math
import os
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import ConvergenceError, InvalidValueError, LazyUpdateWarning, ShapeError, UnsupportedError
from sparrow.formats import RowSparse
from sparrow.kernels.jit import warmup
from sparrow.kernels.ml import optim
from sparrow.optim.schedules import Rate
from sparrow.runtime import memory
from sparrow.runtime.validation import check_flag, check_number
from sparrow.tensor import Tensor

__all__ = ["Optimizer", "State"]

Weights: TypeAlias = "NDArray[Any] | RowSparse"
_NONE = {kind: np.zeros((0, 0), kind) for kind in (np.float32, np.float64)}


@dataclass
class State:
    """What an optimiser remembers of the weights between updates.

    Parameters
    ----------
    arrays
        By name: arrays of the weights' shape, dense or of the rows that were updated.
    step
        Updates that were made.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.optim.SGD(0.1, momentum=0.9).create_state(np.ones((2, 2)))
    State(arrays={'momentum': array([[0., 0.],
           [0., 0.]])}, step=0)
    """

    arrays: dict[str, Weights]
    step: int = 0


@dataclass
class Optimizer(ABC):
    """Settings that all optimisers have; a gradient is rescaled, then clipped.

    Parameters
    ----------
    lr
        The learning rate: a number, a :class:`Schedule`, or a function from the number of updates made before.
    weight_decay
        Of every weight that is updated so much is added to its gradient.
    rescale_grad
        What gradients are multiplied by, such as 1 / batch.
    clip_gradient
        What a gradient is cut to, on both sides, after it was rescaled; None leaves it as it is.
    l1
        Weights are drawn towards 0, and kept there, by so much of the learning rate (a proximal step); Adam and AdaGrad
        draw each by so much of its own step, which is large where gradients were small: a weight that had none is 0.
    lazy
        Whether a row-sparse gradient updates the rows that it lists and no others, so that an update costs as much as
        the gradient has rows. False updates all rows, as a dense gradient does: momenta go on and weights decay
        where the gradient is 0. None is True, and a :class:`~sparrow.errors.LazyUpdateWarning` says so once where
        that makes a difference.

    Examples
    --------
    >>> import sparrow as sp
    >>> isinstance(sp.optim.Adam(), sp.optim.Optimizer)
    True
    """

    lr: Rate = 0.1
    weight_decay: float = field(default=0.0, kw_only=True)
    rescale_grad: float = field(default=1.0, kw_only=True)
    clip_gradient: float | None = field(default=None, kw_only=True)
    l1: float = field(default=0.0, kw_only=True)
    lazy: bool | None = field(default=None, kw_only=True)

    names: ClassVar[tuple[str, ...]] = ()
    """The arrays of a state."""

    def __post_init__(self) -> None:
        if not callable(self.lr):
            check_number("lr", self.lr, above=0)
        for name in ("weight_decay", "l1"):
            check_number(name, getattr(self, name))
        check_number("rescale_grad", self.rescale_grad, minimum=-math.inf)
        if self.clip_gradient is not None:
            check_number("clip_gradient", self.clip_gradient, above=0)
        if self.lazy is not None:
            self.lazy = check_flag("lazy", self.lazy)

    # -- what kernels are told ------------------------------------------------------------------

    @property
    @abstractmethod
    def kind(self) -> int:
        """The number of the optimiser in :mod:`sparrow.kernels.ml.optim`."""

    @property
    def is_local(self) -> bool:
        """Whether weights stay as they are where the gradient is 0: lazy and standard updates are the same then."""
        return False

    def rate(self, step: int) -> float:
        """Return the learning rate of the update after ``step`` others.

        Parameters
        ----------
        step
            Updates that were made.

        Returns
        -------
        float

        Raises
        ------
        InvalidValueError
            If a schedule gives no finite number of at least 0.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.optim.SGD(sp.optim.Steps(0.4, every=10)).rate(10)
        0.04000000000000001
        """
        if not callable(self.lr):
            return float(self.lr)
        given = self.lr(step)
        try:
            rate = float(given)
        except (TypeError, ValueError):
            rate = math.nan
        if not 0 <= rate < math.inf:
            raise InvalidValueError(f"the schedule {self.lr!r} gives the learning rate {given!r} after {step} updates")
        return rate

    def rates(self, step: int, count: int) -> NDArray[np.float64]:
        """Return the learning rates of several updates.

        Parameters
        ----------
        step
            Updates that were made.
        count
            How many follow.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.optim.SGD(sp.optim.Steps(0.4, every=2, factor=0.5)).rates(0, 4)
        array([0.4, 0.4, 0.2, 0.2])
        """
        if not callable(self.lr) and type(self).rate is Optimizer.rate:
            return np.full(count, float(self.lr))
        return np.array([self.rate(step + k) for k in range(count)], np.float64)

    def constants(self) -> NDArray[np.float64]:
        """Return the settings in the order that :func:`sparrow.kernels.ml.optim.step` wants.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.optim.SGD(0.1, momentum=0.9).constants()
        array([1. , inf, 0. , 0. , 0.9, 0. , 0. ])
        """
        clip = math.inf if self.clip_gradient is None else self.clip_gradient
        return np.array([self.rescale_grad, clip, self.weight_decay, self.l1, *self._own()], np.float64)

    def _own(self) -> tuple[float, float, float]:
        return (0.0, 0.0, 0.0)

    # -- updates --------------------------------------------------------------------------------

    def create_state(self, w: Weights, memory_map: str | os.PathLike[str] | None = None) -> State:
        """Return a state of zeros for weights.

        It is row-sparse, without rows at first, if the weights are and updates are lazy; else dense.

        Parameters
        ----------
        w
            The weights: an array of float32 or float64, memory-mapped or not, or :class:`~sparrow.formats.RowSparse`.
        memory_map
            A folder for dense arrays of the state, ``momentum.npy`` and the like, memory-mapped.

        Returns
        -------
        State

        Raises
        ------
        UnsupportedError
            If the weights are of another type.
        TooLargeError
            If dense arrays pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> w = sp.formats.RowSparse([[1.0, 1.0]], [2], shape=(4, 2))
        >>> sp.optim.Adam(lazy=True).create_state(w).arrays["mean"]
        <RowSparse (4, 2) float64 nnz=0 rows=0>
        """
        _check_weights(w)
        made: dict[str, Weights] = {}
        sparse = isinstance(w, RowSparse) and self.lazy is not False
        for name in self.names:
            if sparse:
                made[name] = RowSparse(np.zeros((0, *w.shape[1:]), w.dtype), np.zeros(0, np.int64), w.shape)
            elif memory_map is not None:
                folder = Path(memory_map)
                folder.mkdir(parents=True, exist_ok=True)
                made[name] = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", w.dtype, w.shape)
            else:
                nbytes = math.prod(w.shape) * w.dtype.itemsize
                memory.check(nbytes, f"the state {name!r} of the weights", "name a folder with memory_map=")
                made[name] = np.zeros(w.shape, w.dtype)
        return State(made)

    def update(self, w: Weights, grad: Weights | Tensor, state: State) -> None:
        """Update weights and their state in place.

        A row that a row-sparse gradient lists counts even if it is all zeros. Rows that row-sparse weights do not
        store are zeros, and are stored once they are updated; a standard update of such weights stores all rows.

        Parameters
        ----------
        w
            The weights.
        grad
            Their gradient, an array or :class:`~sparrow.formats.RowSparse`, or a tensor, of the storage type
            "row_sparse" for the rows with entries. Updates are lazy, if ``lazy`` says so, where it is row-sparse,
            unless the weights are too and the state is dense.
        state
            What :meth:`create_state` returned for the weights.

        Raises
        ------
        ShapeError
            If gradient or state have another shape than the weights.
        UnsupportedError
            If weights, gradient or state are of a type that is not known here.
        ConvergenceError
            If the gradient is not finite; weights and state are then as they were.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> w = np.ones((4, 2))
        >>> optimizer = sp.optim.SGD(0.01, momentum=0.01, lazy=True)
        >>> state = optimizer.create_state(w)
        >>> optimizer.update(w, sp.formats.RowSparse([[1.0, 2.0], [4.0, 5.0]], [1, 2], shape=(4, 2)), state)
        >>> w
        array([[1.  , 1.  ],
               [0.99, 0.98],
               [0.96, 0.95],
               [1.  , 1.  ]])
        """
        _check_weights(w)
        self._check_state(w, state)
        if isinstance(grad, Tensor):
            grad = grad.to_format("row_sparse") if grad.stype == "row_sparse" else grad.to_numpy()
        rows, cells = _gradient(w, grad)
        sparse = isinstance(grad, RowSparse)
        mixed = isinstance(w, RowSparse) and any(isinstance(a, np.ndarray) for a in state.arrays.values())
        lazy = sparse and self.lazy is not False and not mixed
        if lazy and self.lazy is None and not self.is_local:
            _tell_lazy()
        only = lazy or (sparse and self.is_local)
        mode = optim.LISTED if only else optim.EVERYWHERE if sparse else optim.DENSE
        arrays = [w, *(state.arrays[name] for name in self.names)]
        if isinstance(w, RowSparse):
            touched = rows if only else np.arange(w.shape[0])
            held = [a.retain(touched).data.copy() if isinstance(a, RowSparse) else a[touched] for a in arrays]
            rows = np.arange(len(touched)) if only else rows
        else:
            held = [array for array in arrays if isinstance(array, np.ndarray)]
        flat = [_flat(array) for array in held]
        flat += [_NONE[w.dtype.type]] * (3 - len(flat))
        seen = warmup.as_readonly(rows), warmup.as_readonly(cells)
        optim.update(mode, self.kind, *flat[:3], *seen, self.rate(state.step), self.constants())  # type: ignore[call-arg]
        if isinstance(w, RowSparse):
            for array, new in zip(arrays, held, strict=True):
                if isinstance(array, RowSparse):
                    array.put(touched, new)
                else:
                    array[touched] = new
        state.step += 1

    def _check_state(self, w: Weights, state: State) -> None:
        if not isinstance(state, State):
            raise UnsupportedError(f"state={state!r} is no state: make it with create_state(w)")
        if set(state.arrays) != set(self.names):
            raise UnsupportedError(
                f"the state has {sorted(state.arrays)}, {type(self).__name__} wants {sorted(self.names)}: "
                "make it with create_state(w)"
            )
        for name, array in state.arrays.items():
            if array.shape != w.shape or array.dtype != w.dtype:
                raise ShapeError(
                    f"the state {name!r} is {array.dtype} of shape {array.shape}, the weights {w.dtype} of {w.shape}: "
                    "make it with create_state(w)"
                )
            if isinstance(array, RowSparse) and not isinstance(w, RowSparse):
                raise UnsupportedError(f"the state {name!r} is row-sparse and the weights are not: use create_state(w)")


def _check_weights(w: Weights) -> None:
    if not isinstance(w, np.ndarray | RowSparse):
        raise UnsupportedError(f"weights are {type(w).__name__}: give a NumPy array or sp.formats.RowSparse")
    if w.dtype not in (np.float32, np.float64):
        raise UnsupportedError(f"weights are {w.dtype}: optimisers update float32 and float64")
    if not w.ndim:
        raise ShapeError("weights have no dimension: give shape (1,) for one number")
    if isinstance(w, np.ndarray) and not (w.flags.c_contiguous and w.flags.writeable):
        raise UnsupportedError("weights are updated in place: give a writable array in C order, such as w.copy()")


def _gradient(w: Weights, grad: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the rows and the cells, shape (rows, k), of a gradient, in the weights' type."""
    if not isinstance(grad, np.ndarray | RowSparse):
        raise UnsupportedError(f"the gradient is {type(grad).__name__}: give a NumPy array or sp.formats.RowSparse")
    if grad.shape != w.shape:
        raise ShapeError(f"the gradient has the shape {grad.shape}, the weights have {w.shape}")
    data = grad.data if isinstance(grad, RowSparse) else grad
    if data.dtype.kind not in "fiub":
        raise UnsupportedError(f"the gradient is {data.dtype}, the weights are {w.dtype}: give real numbers")
    rows = grad.indices.astype(np.int64) if isinstance(grad, RowSparse) else np.zeros(0, np.int64)
    cells = data.astype(w.dtype, copy=False).reshape(len(data), math.prod(w.shape[1:]))
    finite = np.isfinite(cells)
    if not finite.all():
        p = int(np.flatnonzero(~finite.all(axis=1))[0])
        row = int(rows[p]) if isinstance(grad, RowSparse) else p
        raise ConvergenceError(
            f"the gradient of row {row} of the weights is not finite ({cells[p][~finite[p]][0]}): lower lr"
        )
    return rows, cells


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(np.ndarray).reshape(len(array), math.prod(array.shape[1:]))


@functools.cache
def _tell_lazy() -> None:
    """Say once in a process that lazy updates are not what the textbook has."""
    warnings.warn(
        "a row-sparse gradient updates only the rows that it lists: momenta and decay stand still elsewhere, which "
        "differs from the standard update. lazy=True says that this is wanted, lazy=False updates all rows",
        LazyUpdateWarning,
        stacklevel=3,
    )
