"""Batches of rows of matrices that may be larger than memory, in a new order every epoch."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.formats import CSR
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.validation import check_flag, check_integer
from sparrow.tensor import Tensor
from sparrow.training.batch import Batch, Slab, Slice, cut
from sparrow.training.inputs import Labels, Source, column, named_inputs, named_labels, with_labels
from sparrow.training.shuffling import Order, Window, epoch_order

__all__ = ["Batches", "LastBatch", "batches"]

LastBatch = Literal["discard", "pad", "roll_over"]


def batches(
    X: Any,
    y: Any = None,
    batch_size: int = 128,
    last_batch: LastBatch = "discard",
    shuffle: bool = False,
    seed: int = 0,
    num_parts: int = 1,
    part_index: int = 0,
    prefetch: int = 4,
) -> Batches:
    """Return the rows of a matrix in batches, with their labels: what models are trained on, epoch after epoch.

    Rows are read stretch by stretch, on threads, while earlier ones are worked on: the matrix may be larger than
    memory. Each iteration is an epoch. The same arguments give the same batches, whatever the threads.

    Parameters
    ----------
    X
        A matrix: a tensor (stored, a view, an expression), what :func:`sparrow.asarray` takes, or a frame of pandas or
        Polars whose rows are rows. Or a dictionary of several, by name, with equally many rows; or a bundle with
        ``X`` and ``y``, or the path of one.
    y
        Labels: one for each row, as an array, a tensor of one dimension or its path; or a matrix, whose rows are cut as
        those of ``X``. Or a dictionary of several.
    batch_size
        Rows in a batch.
    last_batch
        What becomes of rows at the end that do not fill a batch. "discard" leaves them out; "pad" fills the batch with
        rows from the beginning of the epoch, again and again where they are too few; "roll_over" puts them first in
        the next epoch.
    shuffle
        Whether rows come in a random order, another one in every epoch. Stretches of about 262,144 entries, whole row
        groups of files, are drawn at random and mixed row by row, eight at a time: a row group is decoded once or,
        where a row goes on in the next one, twice. What fits in eight stretches is mixed perfectly. Of more, a batch
        holds rows of eight stretches from anywhere in the matrix: where labels are sorted in the file, the share of a
        label in a batch is off by about sqrt(share * (1 - share) / 8), beside what drawing rows one by one gives.
    seed
        Of the order. The same seed and epoch give the same order.
    num_parts, part_index
        Into how many parts of consecutive rows to divide the matrix, and which of them this is, from 0: for several
        processes that train on one data set. Parts differ by at most one row.
    prefetch
        How many stretches (of shuffled rows, how many times eight) to read ahead, on the threads of the settings; fewer
        where there is no memory for them, and 0 to read when batches are asked for.

    Returns
    -------
    Batches

    Raises
    ------
    InvalidValueError
        If a size, part or ``last_batch`` is none of those above, or there are no inputs.
    ShapeError
        If inputs are no matrices, or inputs and labels are not equally long.
    UnsupportedError
        If absent cells are not 0.

    Notes
    -----
    ``torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2)`` takes them as they are, if torch was
    imported before they were made. Each worker gives the batches of a part of the rows. Workers that are started anew
    for every epoch begin with ``epoch`` as it is set here: raise it between epochs, or pass
    ``persistent_workers=True``.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> X = sp.random((1000, 50), density=0.1, seed=1)
    >>> y = np.arange(1000) % 10
    >>> train = sp.batches(X, y, batch_size=128, shuffle=True, seed=7)
    >>> train
    <Batches X: (1000, 50) with y, 7 of 128 rows, shuffled>
    >>> [batch.X.shape for batch in train][0], next(iter(train)).y[:5]
    ((128, 50), array([...]))
    """
    return Batches(X, y, batch_size, last_batch, shuffle, seed, num_parts, part_index, prefetch)


class Batches:
    """What :func:`sparrow.batches` returns, where the parameters are described: iterate over it for an epoch.

    Attributes
    ----------
    epoch
        The number of the next epoch, from 0. Set it to go on where another process ended: the order of an epoch, and
        what rolls over into it, are determined by its number.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> train = sp.batches(np.eye(10), batch_size=3, last_batch="roll_over")
    >>> [len([batch.rows for batch in train]) for epoch in range(3)], train.epoch
    ([3, 3, 4], 3)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        batch_size: int = 128,
        last_batch: LastBatch = "discard",
        shuffle: bool = False,
        seed: int = 0,
        num_parts: int = 1,
        part_index: int = 0,
        prefetch: int = 4,
    ) -> None:
        counts = {"batch_size": batch_size, "num_parts": num_parts}
        for name, given in (counts | {"seed": seed, "part_index": part_index, "prefetch": prefetch}).items():
            check_integer(name, given, int(name in counts))
        self.batch_size = int(batch_size)
        if last_batch not in get_args(LastBatch):
            raise InvalidValueError(f"last_batch={last_batch!r}: use {', '.join(map(repr, get_args(LastBatch)))}")
        self.last_batch = last_batch
        self.shuffle = check_flag("shuffle", shuffle)
        self.seed = int(seed)
        self.num_parts = int(num_parts)
        self.part_index = int(part_index)
        if self.part_index >= self.num_parts:
            raise InvalidValueError(f"part_index={part_index} is out of range: there are {num_parts} parts, from 0")
        self.prefetch = int(prefetch)
        self.epoch = 0
        X, y = with_labels(X, y)
        self._data = named_inputs(X)
        first = next(iter(self._data))
        height = len(self._data[first])
        self._label = named_labels(y, height, first)
        self._start, self._stop = (height * k // self.num_parts for k in (self.part_index, self.part_index + 1))
        self._columns: dict[str, NDArray[Any]] = {}
        self._begun: tuple[Window, Slab] | None = None
        """The first window of an epoch to come, read while the last of another was in use."""
        _known_to_torch()

    @property
    def rows(self) -> int:
        """The number of rows of an epoch."""
        return self._stop - self._start

    def __len__(self) -> int:
        """Return the number of batches of the next epoch."""
        if self.last_batch == "pad":
            return (self.rows + self.batch_size - 1) // self.batch_size
        return (self._carried(self.epoch, self.rows) + self.rows) // self.batch_size

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {tensor.shape}" for name, tensor in self._data.items())
        labels = f" with {', '.join(self._label)}" if self._label else ""
        part = f", part {self.part_index} of {self.num_parts}" if self.num_parts > 1 else ""
        mixed = ", shuffled" if self.shuffle else ""
        return f"<Batches {inputs}{labels}, {len(self)} of {self.batch_size} rows{part}{mixed}>"

    def __iter__(self) -> Iterator[Batch]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return self.of_epoch(epoch)

    def of_epoch(self, epoch: int, following: int | None = None) -> Iterator[Batch]:
        """Return the batches of one epoch, whichever came before.

        Parameters
        ----------
        epoch
            Its number, from 0.
        following
            The epoch that is asked for next: its first rows are read while the last ones of this are in use.

        Returns
        -------
        iterator of Batch

        Raises
        ------
        InvalidValueError
            If a number is no integer of at least 0.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> train = sp.batches(np.eye(6), batch_size=3, shuffle=True)
        >>> [batch.rows.tolist() for batch in train.of_epoch(1)] == [batch.rows.tolist() for batch in train.of_epoch(1)]
        True
        >>> train.epoch
        0
        """
        check_integer("epoch", epoch, 0)
        if following is not None:
            check_integer("following", following, 0)
        return self._batches(epoch, following, *self._part_of_worker())

    def __getitem__(self, key: Any) -> Any:
        raise UnsupportedError(
            "batches come one after the other: iterate over them. For a DataLoader of PyTorch, import torch before "
            "sp.batches makes them"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": {}, "_begun": None}  # read anew where they are wanted

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _known_to_torch()

    # -- an epoch -------------------------------------------------------------------------------

    def _batches(self, epoch: int, following: int | None, start: int, stop: int) -> Iterator[Batch]:
        """Yield the batches of an epoch over the rows between two bounds."""
        size, height = self.batch_size, stop - start
        sparse = {name: one for name, one in self._label.items() if isinstance(one, Tensor) and one.ndim == 2}
        source = Source(_together(self._data, sparse), start, stop)
        order = self._order(source, epoch)
        waiting = self._tail(source, epoch - 1, self._carried(epoch, height))
        have = _height(waiting)
        lacking = -height % size if self.last_batch == "pad" else 0
        head: list[Slice] = []
        with closing(self._slabs(source, order, following)) as slabs:
            for slab in slabs:
                at, end = 0, len(slab.rows)
                few = min(lacking - _height(head), end)
                if few > 0:
                    head.append((slab.copied(0, few), 0, few))
                while have + end - at >= size:
                    upto = at + size - have
                    yield self._batch([*waiting, (slab, at, upto)])
                    waiting, have, at = [], 0, upto
                if at < end:
                    waiting.append((slab, at, end))
                    have += end - at
                del slab
        if head and waiting:
            for begun, _, end in itertools.cycle(head):
                few = min(end, size - _height(waiting))
                if not few:
                    break
                waiting.append((begun, 0, few))
            yield self._batch(waiting, size - have)

    def _slabs(self, source: Source, order: Order, following: int | None) -> Generator[Slab]:
        """Yield the rows of the windows, read ahead as far as there is memory for it."""
        if not order.windows:
            return
        first = self._first(source, order.windows[0])
        ahead = min(self.prefetch, memory.share(4) // max(first.nbytes, 1))
        threads = settings.current().threads if ahead else 1
        further = [] if following is None or threads == 1 else [*self._order(source, following).windows[:1]]
        read = [first]
        del first

        def slab(numbered: tuple[int, Window]) -> Slab:
            number, window = numbered
            return source.slab(window) if number else read.pop()

        # The first goes through as well, so that those behind it are read while it is in use.
        slabs = ordered_map(slab, enumerate([*order.windows, *further]), threads, ahead + 1, busy=True)
        with closing(slabs):  # type: ignore[type-var]
            yield from itertools.islice(slabs, len(order.windows))
            for window, found in zip(further, slabs, strict=True):
                self._begun = window, found

    def _first(self, source: Source, window: Window) -> Slab:
        """Return the rows of a window, if it was read ahead those; what was read for another epoch waits for that."""
        if self._begun is not None and self._begun[0] == window:
            (_, found), self._begun = self._begun, None
            return found
        return source.slab(window)

    def _order(self, source: Source, epoch: int) -> Order:
        return epoch_order(source.bounds, self.shuffle, self.seed, epoch)

    def _carried(self, epoch: int, height: int) -> int:
        """Return how many rows of the epochs before come first in an epoch of so many rows."""
        return epoch * height % self.batch_size if self.last_batch == "roll_over" else 0

    def _tail(self, source: Source, epoch: int, count: int) -> list[Slice]:
        """Return the last rows of an epoch, and of those before where it has not as many."""
        found: list[Slice] = []
        while count:
            for window in reversed(self._order(source, epoch).windows):
                few = min(count, window.height)
                slab = source.slab(window)
                found.append((slab.copied(window.height - few, window.height), 0, few))
                count -= few
                if not count:
                    break
            epoch -= 1
        return found[::-1]

    def _batch(self, slices: Sequence[Slice], pad: int = 0) -> Batch:
        numbers = [slab.rows[start:stop] for slab, start, stop in slices]
        rows = numbers[0] if len(numbers) == 1 else np.concatenate(numbers)
        data = {name: self._cut(slices, name, tensor) for name, tensor in self._data.items()}
        label: dict[str, Any] = {}
        for name, one in self._label.items():
            if isinstance(one, Tensor) and one.ndim == 2:
                label[name] = self._cut(slices, _LABEL + name, one)
            else:
                label[name] = self._column(name, one)[rows]
        return Batch(data, label, rows, pad)

    def _cut(self, slices: Sequence[Slice], name: str, tensor: Tensor) -> CSR:
        rows = cut(slices, name)
        return CSR._trusted(rows.values, rows.cols, rows.indptr, (len(rows.indptr) - 1, tensor.shape[1]))

    def _column(self, name: str, given: Labels) -> NDArray[Any]:
        if not isinstance(given, Tensor):
            return given
        if name not in self._columns:
            self._columns[name] = column(given)
        return self._columns[name]

    # -- PyTorch --------------------------------------------------------------------------------

    def _part_of_worker(self) -> tuple[int, int]:
        """Return the rows for this process: all, or in a worker of a DataLoader its whole batches of them."""
        torch = sys.modules.get("torch")
        worker = torch.utils.data.get_worker_info() if torch is not None else None
        if worker is None:
            return self._start, self._stop
        whole = self.rows // self.batch_size
        first, last = (whole * k // worker.num_workers * self.batch_size for k in (worker.id, worker.id + 1))
        return self._start + first, self._stop if worker.id == worker.num_workers - 1 else self._start + last


_LABEL = "label "


def _together(data: dict[str, Tensor], labels: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**data, **{_LABEL + name: one for name, one in labels.items()}}


def _height(slices: Sequence[Slice]) -> int:
    return sum(stop - start for _, start, stop in slices)


def _known_to_torch() -> None:
    """Have PyTorch take batches for what they are, a data set that is iterated over, if it is there."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "utils"):
        torch.utils.data.IterableDataset.register(Batches)
