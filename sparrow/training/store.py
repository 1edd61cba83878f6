"""Parameters that several processes of one machine read and update by rows, in shared memory.

Every parameter is a block of shared memory (:mod:`sparrow.training.blocks`), its rows divided into shards. Who reads or
changes rows holds the lock of their shard: a byte of a file, locked by the operating system, which takes locks from
processes that end, however they do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.errors import (
    ExistsError,
    IndexingError,
    InvalidValueError,
    LabelError,
    ShapeError,
    UnsupportedError,
)
from sparrow.formats import RowSparse
from sparrow.functions.creation import open as opened
from sparrow.runtime import settings
from sparrow.runtime.validation import check_integer
from sparrow.storage import check_member_names
from sparrow.tensor.bundle import Bundle
from sparrow.training.blocks import Block, Entry, finish, shared
from sparrow.training.processes import run

__all__ = ["Optimizer", "ParameterStore"]

T = TypeVar("T")


class Optimizer(Protocol):
    """What updates rows, such as those of :mod:`sparrow.optim`."""

    def create_state(self, w: NDArray[Any], /) -> Any:
        """Return what it remembers of weights: nothing, arrays of their shape, or an object with such ``arrays``.

        Its ``step``, if it has one, counts the updates before.
        """

    def update(self, w: NDArray[Any], grad: NDArray[Any], state: Any, /) -> None:
        """Update weights and state in place."""


class ParameterStore:
    """Arrays that several processes of one machine pull by rows and push gradients to.

    Make it, :meth:`init` the parameters, then hand it to processes: :meth:`run` starts some, and any process started
    with ``multiprocessing`` takes it as an argument. Every push is applied at once, in the order of arrival; what is
    pulled has no half-written row. End it with :meth:`close`, or use it as a context manager.

    Parameters
    ----------
    optimizer
        What updates rows with gradients, such as ``sp.optim.SGD(0.1)``: lazily, the rows pushed and no others. Without
        one, what is pushed is added.
    shards
        Into how many ranges of rows a parameter is divided. Processes wait for each other where they touch one shard.

    Raises
    ------
    InvalidValueError
        If ``shards`` is below 1.
    UnsupportedError
        If the optimiser has ``lazy=False``: an update of all rows for each push is no use of a store.

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
            raise UnsupportedError(f"{optimizer!r} is no optimiser: give one of sp.optim")
        if getattr(optimizer, "lazy", None) is False:
            raise UnsupportedError("lazy=False updates all rows for every push: use lazy=True on a store")
        self._optimizer, self._shards = optimizer, shards
        self._entries: dict[int | str, Entry] = {}
        handle, self._path = tempfile.mkstemp(prefix="sparrow-store-", dir=settings.current().temp_directory)
        os.close(handle)
        self._owner = os.getpid()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._blocks: dict[int | str, Block] = {}
        self._file = os.open(self._path, os.O_RDWR)
        self._end = weakref.finalize(self, finish, self._blocks, self._file, self._path, self._entries, self._owner)

    def __getstate__(self) -> dict[str, Any]:
        left = ("_lock", "_blocks", "_file", "_end")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._owner = 0  # who made it takes it away
        self._begin()

    def __repr__(self) -> str:
        held = ", ".join(f"{key}: {entry.shape} {entry.dtype}" for key, entry in self._entries.items())
        return f"<ParameterStore {held or 'without parameters'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the parameters; in the process that made the store this ends it for all.

        Examples
        --------
        >>> from sparrow.training import ParameterStore
        >>> ParameterStore().close()
        """
        with self._lock:
            self._end()

    # -- parameters -----------------------------------------------------------------------------

    @property
    def keys(self) -> list[int | str]:
        """The names of the parameters."""
        return list(self._entries)

    def init(self, key: int | str, value: ArrayLike) -> None:
        """Add a parameter. To be done before the store is handed to other processes.

        Parameters
        ----------
        key
            Its name: text or an integer, of one kind for all parameters.
        value
            Shape (rows, ...), of float32 or float64.

        Raises
        ------
        ExistsError
            If there is one of that name.
        InvalidValueError
            If texts and integers are mixed, or a bundle that is saved could have no tensor of that name.
        ShapeError
            If the value has fewer than two dimensions.
        UnsupportedError
            If its numbers are of another type, or the optimiser's state is not made of arrays of the same shape.
        TooLargeError
            If it does not fit, with the state, in what is free of the memory limit.

        Examples
        --------
        >>> import numpy as np
        >>> from sparrow.training import ParameterStore
        >>> with ParameterStore() as store:
        ...     store.init("w", np.zeros((10, 3)))
        ...     store
        <ParameterStore w: (10, 3) float64>
        """
        array: NDArray[Any] = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
        self._check_kind(key)
        if key in self._entries:
            raise ExistsError(f"there is a parameter {key!r} already")
        if isinstance(key, str):
            check_member_names([key])
        if array.ndim < 2:
            raise ShapeError(f"parameter {key!r} has the shape {array.shape}: give a column as w[:, None]")
        if array.dtype not in (np.float32, np.float64):
            raise UnsupportedError(f"parameter {key!r} holds {array.dtype}: use float32 or float64")
        place = 1 + sum(1 + entry.shards for entry in self._entries.values())
        kinds = len(_arrays(self._state(array[:1], 0), array[:1]))
        shards = max(min(self._shards, len(array)), 1)
        entry = Entry("", array.shape, array.dtype, kinds, shards, place)
        memory = shared(entry.nbytes, f"parameter {key!r} of shape {array.shape} with its state")
        entry = Entry(memory.name, array.shape, array.dtype, kinds, shards, place)
        block = Block(entry, memory)
        self._entries[key], self._blocks[key] = entry, block
        for start in range(0, len(array), entry.journal):
            piece = array[start : start + entry.journal]
            block.rows[start : start + len(piece), 0] = piece.reshape(len(piece), -1)
            for number, state in enumerate(_arrays(self._state(piece, 0), piece)):
                block.rows[start : start + len(piece), 1 + number] = state.reshape(len(piece), -1)

    def pull(self, key: int | str) -> NDArray[Any]:
        """Return a parameter.

        Parameters
        ----------
        key
            Its name.

        Returns
        -------
        numpy.ndarray

        Raises
        ------
        LabelError
            If there is none of that name.

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
        out = np.empty((block.entry.shape[0], block.entry.width), block.entry.dtype)
        for shard in range(block.entry.shards):
            start, stop = block.entry.bounds(shard)
            with self._locked(block, shard, shared=True):
                out[start:stop] = block.rows[start:stop, 0]
        return out.reshape(block.entry.shape)

    def row_sparse_pull(self, key: int | str, ids: ArrayLike) -> RowSparse:
        """Return some rows of a parameter.

        Parameters
        ----------
        key
            Its name.
        ids
            Numbers of rows, of any shape: they may repeat, come in any order, or be none.

        Returns
        -------
        RowSparse
            Each row once, ascending.

        Raises
        ------
        LabelError
            If there is no parameter of that name.
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
        wanted = _row_ids(np.unique(np.asarray(ids)), block.entry, key)
        out = np.empty((len(wanted), block.entry.width), block.entry.dtype)
        for shard, at in _by_shard(wanted, block.entry):
            with self._locked(block, shard, shared=True):
                out[at] = block.rows[wanted[at], 0]
        return RowSparse(out.reshape(-1, *block.entry.shape[1:]), wanted, block.entry.shape)

    def push(self, key: int | str, grads: Any) -> None:
        """Update a parameter with a gradient; without an optimiser, add it.

        Of a process that dies meanwhile some rows are updated and others not, each with its state; up to a megabyte of
        rows of one shard at a time.

        Parameters
        ----------
        key
            Its name.
        grads
            A :class:`sparrow.formats.RowSparse`, whose rows are updated, those of zeros too; an array of the
            parameter's shape, which updates all rows; or a list of such, which are summed first.

        Raises
        ------
        LabelError
            If there is no parameter of that name.
        ShapeError
            If a gradient has another shape.
        InvalidValueError
            If it holds a number that is not finite, or the list is empty. Nothing is updated then.

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
        entry = block.entry
        ids, rows = _summed(grads, entry, key)
        with self._held(entry.place - 1):
            step = int(block.pushes[0])
            block.pushes[0] = step + 1
        for shard, at in _by_shard(ids, entry):
            for start in range(at.start, at.stop, entry.journal):
                stop = min(start + entry.journal, at.stop)
                with self._locked(block, shard):
                    block.commit(shard, ids[start:stop], self._updated(block, ids[start:stop], rows[start:stop], step))

    def _updated(self, block: Block, ids: NDArray[np.int64], grad: NDArray[Any], step: int) -> NDArray[Any]:
        """Return rows and their states after an update."""
        found: NDArray[Any] = block.rows[ids]
        if self._optimizer is None:
            found[:, 0] += grad
            return found
        weights = np.ascontiguousarray(found[:, 0])
        state = self._state(weights, step)
        arrays = _arrays(state, weights)
        for number, array in enumerate(arrays):
            array[:] = found[:, 1 + number]
        self._optimizer.update(weights, grad, state)
        for number, array in enumerate([weights, *_arrays(state, weights)]):
            found[:, number] = array
        return found

    def _state(self, weights: NDArray[Any], step: int) -> Any:
        if self._optimizer is None:
            return None
        state = self._optimizer.create_state(weights)
        if hasattr(state, "step"):
            state.step = step
        return state

    # -- processes ------------------------------------------------------------------------------

    def run(self, work: Callable[..., T], workers: int, *args: Any) -> list[T]:
        """Return what a function gives in several processes, started anew, that share the store.

        Parameters
        ----------
        work
            Called as ``work(store, rank, workers, *args)`` in each, ``rank`` from 0; a function of a module, as
            ``multiprocessing`` wants it.
        workers
            How many.
        *args
            What else it is given; what pickles.

        Returns
        -------
        list

        Raises
        ------
        WorkerError
            If one raises an error or dies, naming it. The others are ended. The store stays whole: each of its rows
            is as before or after a push.
        InvalidValueError
            If ``workers`` is below 1.
        UnsupportedError
            If the function, or what it is given, does not pickle.

        Examples
        --------
        >>> store.run(train, 2, "a9a.sparrow")  # doctest: +SKIP
        """
        return run(work, workers, (self, *args))

    @contextlib.contextmanager
    def _held(self, place: int, shared: bool = False) -> Iterator[None]:
        """Hold the lock of a byte of the file."""
        with self._lock:  # locks of the system are those of processes, not of threads
            fcntl.lockf(self._file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, 1, place)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    @contextlib.contextmanager
    def _locked(self, block: Block, shard: int, shared: bool = False) -> Iterator[None]:
        """Hold a shard, its rows whole."""
        place = block.entry.place + shard
        with self._held(place, shared):
            if shared and block.pending[shard]:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)  # two that only raised theirs would wait for ever
                fcntl.lockf(self._file, fcntl.LOCK_EX, 1, place)
            block.settle(shard)
            yield

    def _block(self, key: int | str) -> Block:
        self._check_kind(key)
        if key not in self._entries:
            raise LabelError(
                f"there is no parameter {key!r}: there are {', '.join(map(repr, self._entries)) or 'none'}"
            )
        with self._lock:
            if key not in self._blocks:
                entry = self._entries[key]
                self._blocks[key] = Block(entry, SharedMemory(entry.name))
            return self._blocks[key]

    def _check_kind(self, key: int | str) -> None:
        if not isinstance(key, int | str):
            raise InvalidValueError(f"a parameter is called by text or an integer, not {key!r}")
        for other in self._entries:
            if isinstance(other, str) is not isinstance(key, str):
                raise InvalidValueError(
                    f"parameters are called by text or by integers, not both: {other!r} and {key!r}"
                )

    # -- checkpoints ----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Bundle:
        """Store all parameters and the optimiser's states as a bundle of tensors.

        Each shard is stored as it is when its turn comes: to have all at one moment, let nobody push meanwhile.

        Parameters
        ----------
        path
            A folder that does not exist yet.
        overwrite
            Replace what stands there.

        Returns
        -------
        Bundle
            The parameters by their names; beside each ``<name>.state0`` and so on, and ``<name>.pushes``.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        InvalidValueError
            If a name does not begin with a letter or digit, or holds a slash.

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
        check_member_names([str(key) for key in self._entries])
        for key in self._entries:
            block = self._block(key)
            entry, rows = block.entry, np.empty_like(block.rows)
            for shard in range(entry.shards):
                start, stop = entry.bounds(shard)
                with self._locked(block, shard, shared=True):
                    rows[start:stop] = block.rows[start:stop]
            members[str(key)] = rows[:, 0].reshape(entry.shape)
            for number in range(entry.states):
                members[f"{key}.state{number}"] = rows[:, 1 + number].reshape(entry.shape)
            members[f"{key}.pushes"] = block.pushes.copy()
        return Bundle(members).save(path, overwrite)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Bring all parameters and states back to what :meth:`save` stored.

        Parameters
        ----------
        path
            The bundle.

        Raises
        ------
        LabelError
            If it lacks a parameter, or a state of the optimiser.
        ShapeError
            If one has another shape.
        InvalidValueError
            If this is no bundle.

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
        bundle = opened(path)
        if not isinstance(bundle, Bundle):
            raise InvalidValueError(f"{os.fspath(path)!r} is no checkpoint of a store: it was not written by save")
        found: dict[int | str, tuple[list[NDArray[Any]], int]] = {}
        for key, entry in self._entries.items():
            names = [str(key), *(f"{key}.state{number}" for number in range(entry.states))]
            for name in names:
                if bundle[name].shape != entry.shape:
                    raise ShapeError(f"{name!r} of {os.fspath(path)!r} has the shape {bundle[name].shape}, {key!r} has "
                                     f"{entry.shape}")  # fmt: skip
            arrays = [bundle[name].to_numpy().reshape(entry.shape[0], -1) for name in names]
            found[key] = arrays, int(bundle[f"{key}.pushes"].to_numpy()[0])
        for key, (arrays, pushes) in found.items():
            block = self._block(key)
            with self._held(block.entry.place - 1):
                block.pushes[0] = pushes
            for shard in range(block.entry.shards):
                start, stop = block.entry.bounds(shard)
                with self._locked(block, shard):
                    for number, array in enumerate(arrays):
                        block.rows[start:stop, number] = array[start:stop]


def _arrays(state: Any, weights: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the arrays of an optimiser's state, always in one order."""
    if state is None:
        return []
    if hasattr(state, "arrays"):
        state = state.arrays
    if isinstance(state, Mapping):
        state = list(state.values())
    found = [state] if isinstance(state, np.ndarray) else list(state) if isinstance(state, Sequence) else [state]
    for array in found:
        if not isinstance(array, np.ndarray) or array.shape != weights.shape or array.dtype != weights.dtype:
            raise UnsupportedError(
                f"the optimiser's state holds {type(array).__name__}: on a store it has to be arrays of the weights' "
                "shape and type"
            )
    return found


def _row_ids(ids: NDArray[Any], entry: Entry, key: int | str) -> NDArray[np.int64]:
    """Return ascending numbers of rows, checked."""
    if ids.size and ids.dtype.kind not in "iu":
        raise UnsupportedError(f"numbers of rows must be integers, not {ids.dtype}")
    if ids.size and (ids[0] < 0 or ids[-1] >= entry.shape[0]):
        wrong = ids[0] if ids[0] < 0 else ids[-1]
        raise IndexingError(f"row {wrong} is out of range: parameter {key!r} has {entry.shape[0]} rows")
    return ids.astype(np.int64)


def _by_shard(ids: NDArray[np.int64], entry: Entry) -> Iterator[tuple[int, slice]]:
    """Yield the shards that ascending rows lie in, and where those of each are."""
    ends = np.searchsorted(ids, [entry.bounds(shard)[1] for shard in range(entry.shards)])
    start = 0
    for shard, stop in enumerate(ends.tolist()):
        if start < stop:
            yield shard, slice(start, stop)
        start = stop


def _summed(grads: Any, entry: Entry, key: int | str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the sum of gradients: the rows that any of them has, ascending, and their numbers."""
    given = grads if isinstance(grads, list | tuple) else [grads]
    if not given:
        raise InvalidValueError(f"there is no gradient to push to {key!r}")
    parts = [_rows_of(grad, entry, key) for grad in given]
    if len(parts) == 1:
        return parts[0]
    ids, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    out = np.zeros((len(ids), entry.width), entry.dtype)
    np.add.at(out, places, np.concatenate([part[1] for part in parts]))
    return ids, out


def _rows_of(grad: Any, entry: Entry, key: int | str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    if hasattr(grad, "to_format"):
        grad = grad.to_format("row_sparse")
    if not isinstance(grad, RowSparse):
        grad = np.asarray(grad)
    if grad.shape != entry.shape:
        raise ShapeError(f"the gradient has the shape {grad.shape}, parameter {key!r} has {entry.shape}")
    ids = grad.indices if isinstance(grad, RowSparse) else np.arange(entry.shape[0])
    data = np.asarray(grad.data if isinstance(grad, RowSparse) else grad, entry.dtype).reshape(len(ids), entry.width)
    finite = np.isfinite(data).all(axis=1)
    if not finite.all():
        row = int(ids[np.argmin(finite)])
        raise InvalidValueError(
            f"the gradient of row {row} of parameter {key!r} is not finite: lower the learning rate, or clip gradients"
        )
    return ids.astype(np.int64), data
