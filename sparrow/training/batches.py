"""Mini-batches of matrices that may be larger than memory, shuffled per epoch."""

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
from sparrow.runtime.hints import HintedAttributes
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.validation import check_flag, check_integer
from sparrow.tensor import Tensor
from sparrow.training.batch import Batch, RowSlice, WindowRows, gather_slices
from sparrow.training.inputs import Labels, WindowReader, load_column, to_named_inputs, to_named_labels, unpack_bundle
from sparrow.training.shuffling import Window, plan_epoch
from sparrow.training.tuning import tuning

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
    """Return the rows of a matrix in mini-batches, with their labels.

    Rows are read partition by partition, on threads, while earlier ones are in use: the matrix may be larger than
    memory. Each iteration is an epoch. The same arguments give the same batches for any number of threads.

    Parameters
    ----------
    X
        Matrix: a tensor (stored, a view, an expression), what :func:`sparrow.asarray` accepts, or a pandas or Polars
        frame. Or a dictionary of several with equal numbers of rows; or a bundle with ``X`` and ``y``, or its path.
    y
        Labels, one per row: an array, a 1-D tensor or its path; or a matrix with one row per row of ``X``. Or a
        dictionary of several. Labelled rows of tensors are matched with those of the first matrix.
    batch_size
        Rows of a batch.
    last_batch
        Treatment of the rows that do not fill the last batch. "discard" drops them; "pad" fills the batch with rows
        from the beginning of the epoch, repeatedly if needed; "roll_over" moves them to the beginning of the next
        epoch.
    shuffle
        Shuffle rows, differently in every epoch. Partitions of about 262,144 stored elements (whole row groups of
        files) are drawn at random and shuffled eight at a time: a row group is decoded once, or twice if it splits a
        row. Up to eight partitions are shuffled perfectly. Beyond that, a batch mixes eight partitions from anywhere in
        the matrix: if labels are sorted in the file, the share of a label in a batch deviates by about sqrt(share * (1
        - share) / 8) more than with independent rows.
    seed
        Seed of the order, which depends on seed and epoch.
    num_parts, part_index
        Number of contiguous parts of the rows, and the part to use, from 0: for several processes that train on one
        data set. Sizes of parts differ by at most one row.
    prefetch
        Number of windows (one partition, or eight if shuffled) to read ahead on the threads of the settings; fewer if
        memory is short, 0 to read on demand.

    Returns
    -------
    Batches

    Raises
    ------
    InvalidValueError
        If a size, part or ``last_batch`` is invalid, or there are no inputs.
    ShapeError
        If inputs are not matrices, or the numbers of rows and labels differ.
    LabelError
        If labels of rows are not the same, in any order.
    UnsupportedError
        If a fill value is not 0.

    Notes
    -----
    ``torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2)`` accepts them directly, if torch was
    imported before they were created. Each worker yields the batches of a part of the rows. Workers that restart for
    every epoch start with the current ``epoch``: raise it between epochs, or pass ``persistent_workers=True``.

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


class Batches(HintedAttributes):
    """Iterable over the mini-batches of an epoch; see :func:`sparrow.batches`.

    Attributes
    ----------
    epoch
        Number of the next epoch, from 0. Set it to continue the work of another process: the order of an epoch, and the
        rows that roll over into it, depend on its number alone.

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
            choices = ", ".join(map(repr, get_args(LastBatch)))
            raise InvalidValueError(f"last_batch must be one of {choices}, got {last_batch!r}")
        self.last_batch = last_batch
        self.shuffle = check_flag("shuffle", shuffle)
        self.seed = int(seed)
        self.num_parts = int(num_parts)
        self.part_index = int(part_index)
        if self.part_index >= self.num_parts:
            raise InvalidValueError(f"part_index must be from 0 to {num_parts - 1}, got {part_index}")
        self.prefetch = int(prefetch)
        self.epoch = 0
        X, y = unpack_bundle(X, y)
        self._data = to_named_inputs(X)
        first = next(iter(self._data))
        height = len(self._data[first])
        self._label = to_named_labels(y, first, self._data[first])
        self._start, self._stop = (height * k // self.num_parts for k in (self.part_index, self.part_index + 1))
        self._columns: dict[str, NDArray[Any]] = {}
        self._read_ahead: tuple[Window, WindowRows] | None = None
        """First window of a coming epoch, read during the last window of another."""
        _register_with_torch()

    @property
    def rows(self) -> int:
        """Number of rows of an epoch."""
        return self._stop - self._start

    def __len__(self) -> int:
        """Return the number of batches of the next epoch."""
        if self.last_batch == "pad":
            return (self.rows + self.batch_size - 1) // self.batch_size
        return (self._count_carried(self.epoch, self.rows) + self.rows) // self.batch_size

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {tensor.shape}" for name, tensor in self._data.items())
        labels = f" with {', '.join(self._label)}" if self._label else ""
        part = f", part {self.part_index} of {self.num_parts}" if self.num_parts > 1 else ""
        shuffled = ", shuffled" if self.shuffle else ""
        return f"<Batches {inputs}{labels}, {len(self)} of {self.batch_size} rows{part}{shuffled}>"

    def __iter__(self) -> Iterator[Batch]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return self.of_epoch(epoch)

    def of_epoch(self, epoch: int, following: int | None = None) -> Iterator[Batch]:
        """Return the batches of one epoch, independent of :attr:`epoch`.

        Parameters
        ----------
        epoch
            Number of the epoch, from 0.
        following
            Epoch that is requested next; its first rows are read during the last window of this one.

        Returns
        -------
        iterator of Batch

        Raises
        ------
        InvalidValueError
            If a number is not a non-negative integer.

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
        return self._iter_batches(epoch, following, *self._worker_bounds())

    def __getitem__(self, key: Any) -> Any:
        raise UnsupportedError(
            "batches do not support indexing: iterate over them. For a PyTorch DataLoader, import torch before calling "
            "sp.batches"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": {}, "_read_ahead": None}  # caches are not pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _register_with_torch()

    def _iter_batches(self, epoch: int, following: int | None, start: int, stop: int) -> Iterator[Batch]:
        """Yield the batches of an epoch over rows [start, stop)."""
        size, height = self.batch_size, stop - start
        sparse_labels = {name: one for name, one in self._label.items() if isinstance(one, Tensor) and one.ndim == 2}
        reader = WindowReader(_merge_inputs(self._data, sparse_labels), start, stop)
        order = self._plan_epoch(reader, epoch)
        pending = self._carried_rows(reader, epoch - 1, self._count_carried(epoch, height))
        n_pending = _count_rows(pending)
        n_padding = -height % size if self.last_batch == "pad" else 0
        head: list[RowSlice] = []
        with closing(self._iter_windows(reader, order, following)) as windows:
            for window_rows in windows:
                position, end = 0, len(window_rows.rows)
                n_rows = min(n_padding - _count_rows(head), end)
                if n_rows > 0:
                    head.append((window_rows.copy_slice(0, n_rows), 0, n_rows))
                while n_pending + end - position >= size:
                    end_position = position + size - n_pending
                    yield self._make_batch([*pending, (window_rows, position, end_position)])
                    pending, n_pending, position = [], 0, end_position
                if position < end:
                    pending.append((window_rows, position, end))
                    n_pending += end - position
                del window_rows
        if head and pending:
            for head_rows, _, end in itertools.cycle(head):
                n_rows = min(end, size - _count_rows(pending))
                if not n_rows:
                    break
                pending.append((head_rows, 0, n_rows))
            yield self._make_batch(pending, size - n_pending)

    def _iter_windows(
        self, reader: WindowReader, order: tuple[Window, ...], following: int | None
    ) -> Generator[WindowRows]:
        """Yield the rows of the windows, read ahead as memory permits."""
        if not order:
            return
        first = self._read_first(reader, order[0])
        ahead = min(self.prefetch, memory.share(tuning().prefetch_share) // max(first.nbytes, 1))
        threads = settings.current().threads if ahead else 1
        next_windows = [] if following is None or threads == 1 else [*self._plan_epoch(reader, following)[:1]]
        read = [first]
        del first

        def read_window(numbered: tuple[int, Window]) -> WindowRows:
            number, window = numbered
            return reader.read(window) if number else read.pop()

        # The first window passes through the map too, so that the next ones are read while it is in use.
        windows = ordered_map(read_window, enumerate([*order, *next_windows]), threads, ahead + 1, busy=True)
        with closing(windows):  # type: ignore[type-var]
            yield from itertools.islice(windows, len(order))
            for window, result in zip(next_windows, windows, strict=True):
                self._read_ahead = window, result

    def _read_first(self, reader: WindowReader, window: Window) -> WindowRows:
        """Return the rows of the first window, from the read-ahead cache if possible."""
        if self._read_ahead is not None and self._read_ahead[0] == window:
            (_, result), self._read_ahead = self._read_ahead, None
            return result
        return reader.read(window)

    def _plan_epoch(self, reader: WindowReader, epoch: int) -> tuple[Window, ...]:
        return plan_epoch(reader.bounds, self.shuffle, self.seed, epoch)

    def _count_carried(self, epoch: int, height: int) -> int:
        """Return the number of rows that earlier epochs carry over into this one."""
        return epoch * height % self.batch_size if self.last_batch == "roll_over" else 0

    def _carried_rows(self, reader: WindowReader, epoch: int, count: int) -> list[RowSlice]:
        """Return the last ``count`` rows of an epoch, and of earlier ones if needed."""
        result: list[RowSlice] = []
        while count:
            for window in reversed(self._plan_epoch(reader, epoch)):
                n_rows = min(count, window.height)
                window_rows = reader.read(window)
                result.append((window_rows.copy_slice(window.height - n_rows, window.height), 0, n_rows))
                count -= n_rows
                if not count:
                    break
            epoch -= 1
        return result[::-1]

    def _make_batch(self, slices: Sequence[RowSlice], pad: int = 0) -> Batch:
        numbers = [window_rows.rows[start:stop] for window_rows, start, stop in slices]
        rows = numbers[0] if len(numbers) == 1 else np.concatenate(numbers)
        data = {name: self._to_csr(slices, name, tensor) for name, tensor in self._data.items()}
        label: dict[str, Any] = {}
        for name, one in self._label.items():
            if isinstance(one, Tensor) and one.ndim == 2:
                label[name] = self._to_csr(slices, _LABEL + name, one)
            else:
                label[name] = self._label_array(name, one)[rows]
        return Batch(data, label, rows, pad)

    def _to_csr(self, slices: Sequence[RowSlice], name: str, tensor: Tensor) -> CSR:
        rows = gather_slices(slices, name)
        return CSR._from_valid(rows.values, rows.cols, rows.indptr, (len(rows.indptr) - 1, tensor.shape[1]))

    def _label_array(self, name: str, given: Labels) -> NDArray[Any]:
        if not isinstance(given, Tensor):
            return given
        if name not in self._columns:
            self._columns[name] = load_column(given)
        return self._columns[name]

    def _worker_bounds(self) -> tuple[int, int]:
        """Return the row bounds of this process; a DataLoader worker gets whole batches."""
        torch = sys.modules.get("torch")
        worker = torch.utils.data.get_worker_info() if torch is not None else None
        if worker is None:
            return self._start, self._stop
        full_batches = self.rows // self.batch_size
        first, last = (full_batches * k // worker.num_workers * self.batch_size for k in (worker.id, worker.id + 1))
        return self._start + first, self._stop if worker.id == worker.num_workers - 1 else self._start + last


_LABEL = "label "


def _merge_inputs(data: dict[str, Tensor], labels: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**data, **{_LABEL + name: one for name, one in labels.items()}}


def _count_rows(slices: Sequence[RowSlice]) -> int:
    return sum(stop - start for _, start, stop in slices)


def _register_with_torch() -> None:
    """Register the class as an ``IterableDataset`` if PyTorch is imported."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "utils"):
        torch.utils.data.IterableDataset.register(Batches)
