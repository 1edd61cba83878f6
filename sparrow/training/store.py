"""Parameter store: shared rows that processes of one machine read and update.

Every parameter is a block of shared memory (:mod:`sparrow.training.shared_memory`) whose rows are divided into shards.
A process that reads or updates rows locks their shard: one byte of a file, locked by the operating system, which
releases the locks of a process however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.core.schema import check_array
from sparrow.errors import (
    ExistsError,
    IndexingError,
    InvalidValueError,
    LabelError,
    ShapeError,
    UnsupportedError,
)
from sparrow.formats import RowSparse
from sparrow.functions.creation import open as open_tensor
from sparrow.plan import align_columns
from sparrow.runtime import settings
from sparrow.runtime.validation import check_integer
from sparrow.storage import check_member_names, check_members
from sparrow.tensor.bundle import Bundle
from sparrow.tensor.matching import label_operands
from sparrow.training.shared_memory import (
    ParameterBlock,
    ParameterLayout,
    allocate,
    journal_rows,
    release,
    translate_os_errors,
)
from sparrow.training.workers import run_workers

__all__ = ["Optimizer", "ParameterStore"]

T = TypeVar("T")


class Optimizer(Protocol):
    """Protocol of optimizers, such as those of :mod:`sparrow.optim`."""

    def create_state(self, w: NDArray[Any], /) -> Any:
        """Return the state of weights: None, arrays of their shape, or ``arrays``.

        An object with ``arrays`` may have ``step``, which is set to the number of earlier updates.
        """

    def update(self, w: NDArray[Any], grad: NDArray[Any], state: Any, /) -> None:
        """Update weights and state in place."""


class ParameterStore:
    """Arrays that processes of one machine pull by rows and push gradients to.

    Create it, :meth:`init` the parameters, then pass it to processes: :meth:`run` starts some, and any process started
    with ``multiprocessing`` accepts it as an argument. A push is applied immediately, in order of arrival; a pulled row
    is never half-written. End with :meth:`close`, or use it as a context manager.

    Parameters
    ----------
    optimizer
        Updates rows with gradients, such as ``sp.optim.SGD(0.1)``: lazily, only the rows pushed. Without one, pushes
        are added.
    shards
        Number of row ranges of a parameter, each with its own lock.

    Raises
    ------
    InvalidValueError
        If ``shards`` is less than 1.
    UnsupportedError
        If the optimizer has ``lazy=False``, which would update all rows for every push.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.training import ParameterStore
    >>> with ParameterStore() as store:
    ...     store.init("w", np.ones((3, 2)))
    ...     store.push("w", sp.formats.RowSparse([[1.0, 2.0]], [1], shape=(3, 2)))
    ...     store.row_sparse_pull("w", [1, 0, 1]).to_numpy()
    array([[1., 1.],
           [2., 3.],
           [0., 0.]])
    """

    def __init__(self, optimizer: Optimizer | None = None, shards: int = 8) -> None:
        check_integer("shards", shards, 1)
        if optimizer is not None and not hasattr(optimizer, "update"):
            raise UnsupportedError(f"optimizer must be one of sp.optim, got {optimizer!r}")
        if getattr(optimizer, "lazy", None) is False:
            raise UnsupportedError("optimizer of a store must be lazy, got lazy=False, which updates all rows per push")
        self._optimizer, self._shards = optimizer, shards
        self._layouts: dict[int | str, ParameterLayout] = {}
        with translate_os_errors("create a parameter store"):
            file, self._path = tempfile.mkstemp(prefix="sparrow-store-", dir=settings.current().temp_directory)
        self._owner = os.getpid()
        self._attach(file)

    def _attach(self, file: int) -> None:
        """Use an open file for locks."""
        self._lock = threading.RLock()
        self._blocks: dict[int | str, ParameterBlock] = {}
        self._file = file
        self._finalizer = weakref.finalize(
            self, release, self._blocks, self._file, self._path, self._layouts, self._owner
        )

    def __getstate__(self) -> dict[str, Any]:
        local = ("_lock", "_blocks", "_file", "_finalizer")
        return {name: value for name, value in self.__dict__.items() if name not in local}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._owner = 0  # only the process that created the store deletes it
        with translate_os_errors("open a parameter store"):
            self._attach(os.open(self._path, os.O_RDWR))

    def __repr__(self) -> str:
        parameters = ", ".join(f"{key}: {layout.shape} {layout.dtype}" for key, layout in self._layouts.items())
        return f"<ParameterStore {parameters or 'without parameters'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the parameters; in the process that created the store, delete them.

        Examples
        --------
        >>> from sparrow.training import ParameterStore
        >>> ParameterStore().close()
        """
        with self._lock:
            self._finalizer()

    @property
    def keys(self) -> list[int | str]:
        """Names of the parameters."""
        return list(self._layouts)

    def init(self, key: int | str, value: ArrayLike) -> None:
        """Add a parameter, before the store is passed to other processes.

        Parameters
        ----------
        key
            Name: a string or an integer, the same type for all parameters.
        value
            Initial value, shape (rows, ...), float32 or float64.

        Raises
        ------
        ExistsError
            If the name exists.
        StorageError
            If the process has too many open files, or the system refuses the memory.
        InvalidValueError
            If strings and integers are mixed, or the name is not valid in a bundle.
        ShapeError
            If the value has fewer than two dimensions.
        UnsupportedError
            If its dtype is not supported, or the optimizer state is not made of arrays of its shape.
        TooLargeError
            If the value and its state exceed the free memory.

        Examples
        --------
        >>> import numpy as np
        >>> from sparrow.training import ParameterStore
        >>> with ParameterStore() as store:
        ...     store.init("w", np.zeros((10, 3)))
        ...     store
        <ParameterStore w: (10, 3) float64>
        """
        array: NDArray[Any] = value.to_numpy() if hasattr(value, "to_numpy") else check_array(value, "value")
        self._check_key(key)
        if key in self._layouts:
            raise ExistsError(f"parameter {key!r} exists already")
        if isinstance(key, str):
            check_member_names([key])
        if array.ndim < 2:
            raise ShapeError(
                f"parameter {key!r} must have at least two dimensions, got shape {array.shape}: pass w[:, None]"
            )
        if array.dtype not in (np.float32, np.float64):
            raise UnsupportedError(f"parameter {key!r} must be float32 or float64, got {array.dtype}")
        lock_offset = 1 + sum(1 + layout.shards for layout in self._layouts.values())
        n_states = len(_state_arrays(self._create_state(array[:1], 0), array[:1]))
        shards = max(min(self._shards, len(array)), 1)
        rows = journal_rows(array.shape, array.dtype, n_states, shards)
        layout = ParameterLayout("", array.shape, array.dtype, n_states, shards, lock_offset, rows)
        memory = allocate(layout.nbytes, f"parameter {key!r} of shape {array.shape} with its state")
        layout = replace(layout, name=memory.name)
        block = ParameterBlock(layout, memory)
        self._layouts[key], self._blocks[key] = layout, block
        for start in range(0, len(array), layout.journal_rows):
            values = array[start : start + layout.journal_rows]
            block.rows[start : start + len(values), 0] = values.reshape(len(values), -1)
            for number, state in enumerate(_state_arrays(self._create_state(values, 0), values)):
                block.rows[start : start + len(values), 1 + number] = state.reshape(len(values), -1)

    def pull(self, key: int | str) -> NDArray[Any]:
        """Return a parameter.

        Parameters
        ----------
        key
            Name.

        Returns
        -------
        numpy.ndarray

        Raises
        ------
        LabelError
            If the name is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> from sparrow.training import ParameterStore
        >>> with ParameterStore() as store:
        ...     store.init("w", np.ones((1, 2)))
        ...     store.pull("w")
        array([[1., 1.]])
        """
        block = self._block(key)
        out = np.empty((block.layout.shape[0], block.layout.width), block.layout.dtype)
        for shard in range(block.layout.shards):
            start, stop = block.layout.bounds(shard)
            with self._lock_shard(block, shard, shared=True):
                out[start:stop] = block.rows[start:stop, 0]
        return out.reshape(block.layout.shape)

    def row_sparse_pull(self, key: int | str, ids: ArrayLike) -> RowSparse:
        """Return rows of a parameter.

        Parameters
        ----------
        key
            Name.
        ids
            Row numbers, of any shape, in any order, possibly repeated or empty.

        Returns
        -------
        RowSparse
            Each row once, ascending.

        Raises
        ------
        LabelError
            If the name is unknown.
        IndexingError
            If a row is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from sparrow.training import ParameterStore
        >>> with ParameterStore() as store:
        ...     store.init("w", np.ones((3, 3)))
        ...     store.row_sparse_pull("w", [[2, 2], [0, 2]]).indices
        array([0, 2])
        """
        block = self._block(key)
        row_ids = _check_row_ids(np.unique(check_array(ids, "ids")), block.layout, key)
        out = np.empty((len(row_ids), block.layout.width), block.layout.dtype)
        for shard, at in _split_by_shard(row_ids, block.layout):
            with self._lock_shard(block, shard, shared=True):
                out[at] = block.rows[row_ids[at], 0]
        return RowSparse(out.reshape(-1, *block.layout.shape[1:]), row_ids, block.layout.shape)

    def push(self, key: int | str, grads: Any) -> None:
        """Update a parameter with a gradient; without an optimizer, add it.

        If the process dies meanwhile, some rows are updated and others not, each together with its state; up to one
        journal (1 MB) of rows of a shard is atomic.

        Parameters
        ----------
        key
            Name.
        grads
            :class:`sparrow.formats.RowSparse`, whose rows are updated, zeros included; an array of the parameter's
            shape, which updates all rows; or a list of these, which are summed first.

        Raises
        ------
        LabelError
            If the name is unknown.
        ShapeError
            If a gradient has another shape.
        InvalidValueError
            If a gradient is not finite, or the list is empty. Nothing is updated then.

        Examples
        --------
        >>> import numpy as np
        >>> from sparrow.training import ParameterStore
        >>> with ParameterStore() as store:
        ...     store.init("w", np.zeros((2, 2)))
        ...     store.push("w", [np.ones((2, 2))] * 4)
        ...     store.pull("w")
        array([[4., 4.],
               [4., 4.]])
        """
        block = self._block(key)
        layout = block.layout
        ids, rows = _sum_gradients(grads, layout, key)
        with self._lock_byte(layout.lock_offset - 1):
            step = int(block.pushes[0])
            block.pushes[0] = step + 1
        for shard, at in _split_by_shard(ids, layout):
            for start in range(at.start, at.stop, layout.journal_rows):
                stop = min(start + layout.journal_rows, at.stop)
                with self._lock_shard(block, shard):
                    block.commit(
                        shard, ids[start:stop], self._apply_gradient(block, ids[start:stop], rows[start:stop], step)
                    )

    def _apply_gradient(
        self, block: ParameterBlock, ids: NDArray[np.int64], grad: NDArray[Any], step: int
    ) -> NDArray[Any]:
        """Return updated rows and their states."""
        result: NDArray[Any] = block.rows[ids]
        if self._optimizer is None:
            result[:, 0] += grad
            return result
        weights = np.ascontiguousarray(result[:, 0])
        state = self._create_state(weights, step)
        arrays = _state_arrays(state, weights)
        for number, array in enumerate(arrays):
            array[:] = result[:, 1 + number]
        self._optimizer.update(weights, grad, state)
        for number, array in enumerate([weights, *_state_arrays(state, weights)]):
            result[:, number] = array
        return result

    def _create_state(self, weights: NDArray[Any], step: int) -> Any:
        if self._optimizer is None:
            return None
        state = self._optimizer.create_state(weights)
        if hasattr(state, "step"):
            state.step = step
        return state

    def run(self, work: Callable[..., T], workers: int, *args: Any) -> list[T]:
        """Call a function in several new processes that share the store.

        Parameters
        ----------
        work
            Called as ``work(store, rank, workers, *args)``; a module-level function, which ``multiprocessing`` can
            pickle.
        workers
            Number of processes; ``rank`` counts from 0.
        *args
            Further arguments, picklable.

        Returns
        -------
        list
            Results by rank.

        Raises
        ------
        WorkerError
            If a process raises an error or dies; the message names it. The others are terminated. The store stays
            consistent: each row is as before or after a push.
        InvalidValueError
            If ``workers`` is less than 1.
        UnsupportedError
            If the function or an argument cannot be pickled.

        Examples
        --------
        >>> store.run(train, 2, "a9a.sparrow")  # doctest: +SKIP
        """
        return run_workers(work, workers, (self, *args))

    @contextlib.contextmanager
    def _lock_byte(self, lock_offset: int, shared: bool = False) -> Iterator[None]:
        """Hold the lock of a byte of the file for the length of a block."""
        with self._lock:  # file locks are per process, not per thread
            fcntl.lockf(self._file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, 1, lock_offset)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, lock_offset)

    @contextlib.contextmanager
    def _lock_shard(self, block: ParameterBlock, shard: int, shared: bool = False) -> Iterator[None]:
        """Hold the lock of a shard, after replaying its journal."""
        lock_offset = block.layout.lock_offset + shard
        with self._lock_byte(lock_offset, shared):
            if shared and block.pending[shard]:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, lock_offset)  # upgrading a shared lock may deadlock
                fcntl.lockf(self._file, fcntl.LOCK_EX, 1, lock_offset)
            block.replay_journal(shard)
            yield

    def _block(self, key: int | str) -> ParameterBlock:
        self._check_key(key)
        if key not in self._layouts:
            raise LabelError(f"parameter must be one of {', '.join(map(repr, self._layouts)) or 'none'}, got {key!r}")
        with self._lock:
            if key not in self._blocks:
                layout = self._layouts[key]
                with translate_os_errors(f"open the shared memory of parameter {key!r}"):
                    self._blocks[key] = ParameterBlock(layout, SharedMemory(layout.name))
            return self._blocks[key]

    def _check_key(self, key: int | str) -> None:
        if not isinstance(key, int | str):
            raise InvalidValueError(f"name of a parameter must be a string or an integer, got {key!r}")
        for other in self._layouts:
            if isinstance(other, str) is not isinstance(key, str):
                raise InvalidValueError(f"names of parameters must be of one type, got {other!r} and {key!r}")

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Bundle:
        """Save all parameters and optimizer states as a bundle of tensors.

        Shards are saved one after the other: for a consistent snapshot, do not push meanwhile.

        Parameters
        ----------
        path
            New folder.
        overwrite
            Replace an existing one.

        Returns
        -------
        Bundle
            Parameters by name, with ``<name>.state0`` and so on, and ``<name>.pushes``.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        InvalidValueError
            If a name does not start with a letter or digit, or contains a slash.

        Examples
        --------
        >>> import numpy as np
        >>> from sparrow.training import ParameterStore
        >>> with ParameterStore() as store:
        ...     store.init("w", np.eye(2))
        ...     store.save("store.sparrow")
        <Bundle store.sparrow: w, w.pushes>
        """
        members: dict[str, NDArray[Any]] = {}
        check_member_names([str(key) for key in self._layouts])
        for key in self._layouts:
            block = self._block(key)
            layout, rows = block.layout, np.empty_like(block.rows)
            for shard in range(layout.shards):
                start, stop = layout.bounds(shard)
                with self._lock_shard(block, shard, shared=True):
                    rows[start:stop] = block.rows[start:stop]
            members[str(key)] = rows[:, 0].reshape(layout.shape)
            for number in range(layout.states):
                members[f"{key}.state{number}"] = rows[:, 1 + number].reshape(layout.shape)
            members[f"{key}.pushes"] = block.pushes.copy()
        return Bundle(members).save(path, overwrite)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Restore all parameters and states from a bundle of :meth:`save`.

        Parameters
        ----------
        path
            Bundle.

        Raises
        ------
        LabelError
            If it lacks a parameter, or a state of the optimizer.
        ShapeError
            If a shape differs.
        CorruptionError
            If a file is damaged, or a member was swapped.
        InvalidValueError
            If it is not a bundle.

        Examples
        --------
        >>> import numpy as np
        >>> from sparrow.training import ParameterStore
        >>> with ParameterStore() as store:
        ...     store.init("w", np.eye(2))
        ...     bundle = store.save("store.sparrow")
        ...     store.push("w", np.ones((2, 2)))
        ...     store.load("store.sparrow")
        ...     store.pull("w")
        array([[1., 0.],
               [0., 1.]])
        """
        bundle = open_tensor(path)
        if not isinstance(bundle, Bundle):
            raise InvalidValueError(f"{os.fspath(path)!r} is not a checkpoint written by ParameterStore.save")
        check_members(path)
        result: dict[int | str, tuple[list[NDArray[Any]], int]] = {}
        for key, layout in self._layouts.items():
            names = [str(key), *(f"{key}.state{number}" for number in range(layout.states))]
            for name in names:
                if bundle[name].shape != layout.shape:
                    raise ShapeError(
                        f"{name!r} of {os.fspath(path)!r} has shape {bundle[name].shape}, expected {layout.shape}"
                    )
            arrays = [bundle[name].to_numpy().reshape(layout.shape[0], -1) for name in names]
            result[key] = arrays, int(bundle[f"{key}.pushes"].to_numpy()[0])
        for key, (arrays, pushes) in result.items():
            block = self._block(key)
            with self._lock_byte(block.layout.lock_offset - 1):
                block.pushes[0] = pushes
            for shard in range(block.layout.shards):
                start, stop = block.layout.bounds(shard)
                with self._lock_shard(block, shard):
                    for number, array in enumerate(arrays):
                        block.rows[start:stop, number] = array[start:stop]


def _state_arrays(state: Any, weights: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the arrays of an optimizer state, in a fixed order."""
    if state is None:
        return []
    if hasattr(state, "arrays"):
        state = state.arrays
    if isinstance(state, Mapping):
        state = list(state.values())
    result = [state] if isinstance(state, np.ndarray) else list(state) if isinstance(state, Sequence) else [state]
    for array in result:
        if not isinstance(array, np.ndarray) or array.shape != weights.shape or array.dtype != weights.dtype:
            raise UnsupportedError(
                f"optimizer state must be arrays of the weights' shape and dtype on a store, got {type(array).__name__}"
            )
    return result


def _check_row_ids(ids: NDArray[Any], layout: ParameterLayout, key: int | str) -> NDArray[np.int64]:
    """Return ascending row numbers as int64, checked."""
    if ids.size and ids.dtype.kind not in "iu":
        raise UnsupportedError(f"row numbers must be integers, got {ids.dtype}")
    if ids.size and (ids[0] < 0 or ids[-1] >= layout.shape[0]):
        wrong = ids[0] if ids[0] < 0 else ids[-1]
        raise IndexingError(f"row {wrong} is out of range for parameter {key!r} of {layout.shape[0]} rows")
    return ids.astype(np.int64)


def _split_by_shard(ids: NDArray[np.int64], layout: ParameterLayout) -> Iterator[tuple[int, slice]]:
    """Yield the shards of ascending rows, each with the slice of its rows."""
    ends = np.searchsorted(ids, [layout.bounds(shard)[1] for shard in range(layout.shards)])
    start = 0
    for shard, stop in enumerate(ends.tolist()):
        if start < stop:
            yield shard, slice(start, stop)
        start = stop


def _sum_gradients(grads: Any, layout: ParameterLayout, key: int | str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the rows of a sum of gradients, ascending, and its values."""
    given = grads if isinstance(grads, list | tuple) else [grads]
    if not given:
        raise InvalidValueError(f"gradients to push to {key!r} must not be empty")
    given = align_columns(label_operands(given), [f"gradient {k}" for k in range(len(given))])
    parts = [_gradient_rows(grad, layout, key) for grad in given]
    if len(parts) == 1:
        return parts[0]
    ids, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    out = np.zeros((len(ids), layout.width), layout.dtype)
    np.add.at(out, places, np.concatenate([part[1] for part in parts]))
    return ids, out


def _gradient_rows(grad: Any, layout: ParameterLayout, key: int | str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    if hasattr(grad, "to_format"):
        grad = grad.to_format("row_sparse")
    if not isinstance(grad, RowSparse):
        grad = check_array(grad, "gradient")
    if grad.shape != layout.shape:
        raise ShapeError(f"gradient has shape {grad.shape}, expected that of parameter {key!r}, {layout.shape}")
    if isinstance(grad, RowSparse):
        grad.check_format()  # its arrays may be shared with an owner who changes them
    ids = grad.indices if isinstance(grad, RowSparse) else np.arange(layout.shape[0])
    data = np.asarray(grad.data if isinstance(grad, RowSparse) else grad, layout.dtype).reshape(len(ids), layout.width)
    finite = np.isfinite(data).all(axis=1)
    if not finite.all():
        row = int(ids[np.argmin(finite)])
        raise InvalidValueError(
            f"gradient of row {row} of parameter {key!r} must be finite: lower the learning rate, or clip gradients"
        )
    return ids.astype(np.int64), data
