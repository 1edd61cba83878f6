"""Base class of optimizers: settings, states and in-place updates."""

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
_EMPTY = {kind: np.zeros((0, 0), kind) for kind in (np.float32, np.float64)}


@dataclass
class State:
    """Optimizer state of weights between updates.

    Parameters
    ----------
    arrays
        Arrays of the weights' shape by name: dense, or of the updated rows.
    step
        Number of updates.

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
    """Base class of optimizers; gradients are rescaled, then clipped.

    Parameters
    ----------
    lr
        Learning rate: a number, a :class:`Schedule`, or a function of the number of earlier updates.
    weight_decay
        Multiple of every updated weight that is added to its gradient.
    rescale_grad
        Factor of gradients, such as 1 / batch size.
    clip_gradient
        Bound of the magnitude of rescaled gradients; None for no clipping.
    l1
        L1 penalty, a proximal step of ``l1 * lr`` toward 0. Adam and AdaGrad scale it by the step of each weight, which
        is large where gradients were small: a weight without gradients becomes 0.
    lazy
        Whether a row-sparse gradient updates only its rows, at a cost proportional to them. False updates all rows, as
        a dense gradient does: momentum and decay apply where the gradient is 0. None means True, with one
        :class:`~sparrow.errors.LazyUpdateWarning` if the result differs.

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
    """Names of the state arrays."""

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

    @property
    @abstractmethod
    def kind(self) -> int:
        """Constant of the optimizer in :mod:`sparrow.kernels.ml.optim`."""

    @property
    def is_local(self) -> bool:
        """True if weights with gradient 0 stay unchanged, so that lazy is standard."""
        return False

    def rate(self, step: int) -> float:
        """Return the learning rate after ``step`` updates.

        Parameters
        ----------
        step
            Number of earlier updates.

        Returns
        -------
        float

        Raises
        ------
        InvalidValueError
            If a schedule returns a number that is negative or not finite.

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
            raise InvalidValueError(
                f"learning rate must be finite and not negative, got {given!r} of {self.lr!r} after {step} updates"
            )
        return rate

    def rates(self, step: int, count: int) -> NDArray[np.float64]:
        """Return the learning rates of consecutive updates.

        Parameters
        ----------
        step
            Number of earlier updates.
        count
            Number of updates.

        Returns
        -------
        numpy.ndarray
            Shape (count,), float64.

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
        """Return the settings in the order of :func:`sparrow.kernels.ml.optim.step`.

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
        return np.array([self.rescale_grad, clip, self.weight_decay, self.l1, *self._constants()], np.float64)

    def _constants(self) -> tuple[float, float, float]:
        return (0.0, 0.0, 0.0)

    def create_state(self, w: Weights, memory_map: str | os.PathLike[str] | None = None) -> State:
        """Return a state of zeros for weights.

        It is row-sparse and empty if the weights are row-sparse and updates lazy; else dense.

        Parameters
        ----------
        w
            Weights: a float32 or float64 array, possibly memory-mapped, or :class:`~sparrow.formats.RowSparse`.
        memory_map
            Folder for memory-mapped dense arrays of the state, such as ``momentum.npy``.

        Returns
        -------
        State

        Raises
        ------
        UnsupportedError
            If the type of the weights is not supported.
        TooLargeError
            If dense arrays exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> w = sp.formats.RowSparse([[1.0, 1.0]], [2], shape=(4, 2))
        >>> sp.optim.Adam(lazy=True).create_state(w).arrays["mean"]
        <RowSparse (4, 2) float64 nnz=0 rows=0>
        """
        _check_weights(w)
        arrays: dict[str, Weights] = {}
        sparse = isinstance(w, RowSparse) and self.lazy is not False
        for name in self.names:
            if sparse:
                arrays[name] = RowSparse(np.zeros((0, *w.shape[1:]), w.dtype), np.zeros(0, np.int64), w.shape)
            elif memory_map is not None:
                folder = Path(memory_map)
                folder.mkdir(parents=True, exist_ok=True)
                arrays[name] = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", w.dtype, w.shape)
            else:
                nbytes = math.prod(w.shape) * w.dtype.itemsize
                memory.check(nbytes, f"state {name!r} of the weights", "set memory_map to a folder")
                arrays[name] = np.zeros(w.shape, w.dtype)
        return State(arrays)

    def update(self, w: Weights, grad: Weights | Tensor, state: State) -> None:
        """Update weights and their state in place.

        A row that a row-sparse gradient stores counts even if it is all zeros. Rows that row-sparse weights do not
        store are zeros, and are stored once updated; a standard update of such weights stores all rows.

        Parameters
        ----------
        w
            Weights.
        grad
            Gradient: an array, :class:`~sparrow.formats.RowSparse`, or a tensor, which is row-sparse if its storage
            type is. Updates with row-sparse gradients are lazy, unless ``lazy`` is False, or the weights are row-sparse
            and the state is dense.
        state
            Result of :meth:`create_state` for the weights.

        Raises
        ------
        ShapeError
            If the shape of the gradient or state differs from the weights.
        UnsupportedError
            If the type of weights, gradient or state is not supported.
        ConvergenceError
            If the gradient is not finite; weights and state are unchanged then.

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
        rows, values = _gradient(w, grad)
        sparse = isinstance(grad, RowSparse)
        dense_state = isinstance(w, RowSparse) and any(isinstance(a, np.ndarray) for a in state.arrays.values())
        lazy = sparse and self.lazy is not False and not dense_state
        if lazy and self.lazy is None and not self.is_local:
            _warn_lazy()
        listed_only = lazy or (sparse and self.is_local)
        mode = optim.LISTED if listed_only else optim.EVERYWHERE if sparse else optim.DENSE
        arrays = [w, *(state.arrays[name] for name in self.names)]
        if isinstance(w, RowSparse):
            updated_rows = rows if listed_only else np.arange(w.shape[0])
            selected = [
                a.retain(updated_rows).data.copy() if isinstance(a, RowSparse) else a[updated_rows] for a in arrays
            ]
            rows = np.arange(len(updated_rows)) if listed_only else rows
        else:
            selected = [array for array in arrays if isinstance(array, np.ndarray)]
        flat = [_flat(array) for array in selected]
        flat += [_EMPTY[w.dtype.type]] * (3 - len(flat))
        arguments = warmup.as_readonly(rows), warmup.as_readonly(values)
        optim.update(mode, self.kind, *flat[:3], *arguments, self.rate(state.step), self.constants())  # type: ignore[call-arg]
        if isinstance(w, RowSparse):
            for array, new in zip(arrays, selected, strict=True):
                if isinstance(array, RowSparse):
                    array.put(updated_rows, new)
                else:
                    array[updated_rows] = new
        state.step += 1

    def _check_state(self, w: Weights, state: State) -> None:
        if not isinstance(state, State):
            raise UnsupportedError(f"state must be a State returned by create_state(w), got {state!r}")
        if set(state.arrays) != set(self.names):
            raise UnsupportedError(
                f"state of {type(self).__name__} must have arrays {sorted(self.names)}, got {sorted(state.arrays)}: "
                "use create_state(w)"
            )
        for name, array in state.arrays.items():
            if array.shape != w.shape or array.dtype != w.dtype:
                raise ShapeError(
                    f"state {name!r} must be {w.dtype} of shape {w.shape}, as the weights, got {array.dtype} of shape "
                    f"{array.shape}: use create_state(w)"
                )
            if isinstance(array, RowSparse) and not isinstance(w, RowSparse):
                raise UnsupportedError(
                    f"state {name!r} must be dense, as the weights, got row-sparse: use create_state(w)"
                )


def _check_weights(w: Weights) -> None:
    if not isinstance(w, np.ndarray | RowSparse):
        raise UnsupportedError(f"weights must be a NumPy array or sp.formats.RowSparse, got {type(w).__name__}")
    if w.dtype not in (np.float32, np.float64):
        raise UnsupportedError(f"weights must be float32 or float64, got {w.dtype}")
    if not w.ndim:
        raise ShapeError("weights must have at least one dimension, got a scalar: use shape (1,)")
    if isinstance(w, np.ndarray) and not (w.flags.c_contiguous and w.flags.writeable):
        raise UnsupportedError("weights must be writable and in C order, as they are updated in place: use w.copy()")


def _gradient(w: Weights, grad: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return row numbers and values, shape (rows, k), of a gradient."""
    if not isinstance(grad, np.ndarray | RowSparse):
        raise UnsupportedError(f"gradient must be a NumPy array or sp.formats.RowSparse, got {type(grad).__name__}")
    if grad.shape != w.shape:
        raise ShapeError(f"gradient has shape {grad.shape}, expected that of the weights, {w.shape}")
    if isinstance(grad, RowSparse):
        grad.check_format()  # its arrays may be shared with an owner who changes them
    data = grad.data if isinstance(grad, RowSparse) else grad
    if data.dtype.kind not in "fiub":
        raise UnsupportedError(f"gradient must be real, got {data.dtype}")
    rows = grad.indices.astype(np.int64) if isinstance(grad, RowSparse) else np.zeros(0, np.int64)
    values = data.astype(w.dtype, copy=False).reshape(len(data), math.prod(w.shape[1:]))
    finite = np.isfinite(values)
    if not finite.all():
        p = int(np.flatnonzero(~finite.all(axis=1))[0])
        row = int(rows[p]) if isinstance(grad, RowSparse) else p
        raise ConvergenceError(
            f"gradient of row {row} of the weights must be finite, got {values[p][~finite[p]][0]}: lower lr"
        )
    return rows, values


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(np.ndarray).reshape(len(array), math.prod(array.shape[1:]))


@functools.cache
def _warn_lazy() -> None:
    """Warn, once per process, that lazy updates differ from standard ones."""
    warnings.warn(
        "a row-sparse gradient updates only its own rows: momentum and decay do not apply elsewhere, which differs "
        "from the standard update. Pass lazy=True to accept this; lazy=False updates all rows",
        LazyUpdateWarning,
        stacklevel=3,
    )
