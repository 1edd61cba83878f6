"""The links of a graph, looked at round after round: in memory where they fit, else put aside on disk.

What is put aside is the node that each link leads to, and its weight if that counts; where those of each node begin
stays in memory, so that lists are read by themselves, and a round that looks at few nodes reads little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.schema import Schema
from sparrow.errors import UnsupportedError
from sparrow.functions.elementwise import isnan, logical_not, logical_or, not_equal
from sparrow.functions.generation import in_memory
from sparrow.functions.searching import where
from sparrow.kernels.entries import Block
from sparrow.kernels.jit.warmup import readonly
from sparrow.plan import Scan
from sparrow.plan.estimates import entries_at_most
from sparrow.relations.csr import rows_of
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.validation import check_flag
from sparrow.sorting import Rows, Segment, Spool
from sparrow.tensor import Tensor

__all__ = [
    "AT_ONCE",
    "Adjacency",
    "NeighborLists",
    "edge_mask",
    "edge_weights",
    "fits_in_memory",
    "reverse_edges",
    "sort_by_degree",
    "to_neighbor_lists",
    "undirected_edge_mask",
]

AT_ONCE = 1 << 25
"""Links that a loop looks at in memory before Ctrl-C may end it."""
_SHARE = 4
"""Links in memory may take one part in so many of the memory limit."""
_FEW = 16
"""Lists of at most one node in so many are read by themselves where a loop would look at others too."""
_LINKS = 1 << 18
"""Links that are read at a time."""
_GAP = 1 << 12
"""Links between two lists that are read with them rather than passed over."""
_NO_WEIGHTS = np.empty(0)
_COLUMNS: tuple[np.dtype[Any], ...] = np.dtype(np.int32), np.dtype(np.float64)
"""What is put aside of a link."""


@dataclass(frozen=True, slots=True)
class NeighborLists:
    """Links by the node that they lead from, each list whole: those of ``nodes[k]`` are at ``starts[k]:stops[k]``."""

    nodes: NDArray[np.int32]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    cols: NDArray[np.int32]
    edge_weights: NDArray[np.float64]
    """The values of the links; none where they do not count."""

    @property
    def count(self) -> int:
        """The number of links."""
        return int((self.stops - self.starts).sum())

    @property
    def arrays(self) -> Any:
        """Nodes, starts, stops and columns, as kernels take them."""
        return readonly(self.nodes), readonly(self.starts), readonly(self.stops), readonly(self.cols)


class Adjacency:
    """The links of a graph as lists, for as long as the block lasts.

    Parameters
    ----------
    A
        A square tensor; each entry is a link.
    weighted
        Whether the values count.
    undirected
        Take each link both ways, once, and none from a node to itself.

    Raises
    ------
    UnsupportedError
        If values that count are complex.

    Examples
    --------
    >>> import sparrow as sp
    >>> with Links(sp.asarray([[0, 1], [1, 1]]), undirected=True) as links:
    ...     [lists.cols.tolist() for lists in links.lists()]
    [[1, 0]]
    """

    def __init__(self, A: Tensor, weighted: bool = False, undirected: bool = False) -> None:
        weighted = check_flag("weighted", weighted)
        if weighted and A.dtype.kind == "c":
            raise UnsupportedError("links of complex values have no lengths: take the real part, or the magnitude")
        self.size = A.shape[0]
        self._weighted = weighted
        self._held: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]] | None = None
        self._aside: tuple[Spool, ...] = ()
        """Where the links lead to, and their weights if those count, one behind the other, on disk."""
        self._tensor = A
        self._room = memory.Reservation("links kept in memory", "")
        most = _at_most(A)
        if fits_in_memory(A, weighted, undirected, most):
            self._held = self._both_ways(most) if undirected else self._gathered(most)
            self._indptr = self._held[0]
            self._room.hold(sum(array.nbytes for array in self._held))
        else:
            self._room.grow(8 * (self.size + 1))
            self._aside = (Spool(), Spool())[: 1 + weighted]
            try:
                scan = A.__sparrow_scan__()
                self._indptr = self._written(_mirrored(scan) if undirected else engines.sorted_blocks(scan))
            except BaseException:
                self.__exit__(None, None, None)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._room.release()
        self._held = None
        for spool in self._aside:
            spool.close()

    @property
    def held(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]] | None:
        """Where the links of each node begin, the nodes that they lead to, and their weights; None out of memory."""
        if self._held is None:
            return None
        indptr, cols, weights = self._held
        return readonly(indptr), readonly(cols), readonly(weights)

    def as_tensor(self) -> Tensor:
        """Return links in memory as a tensor of booleans with names and labels."""
        assert self._held is not None
        indptr, cols, _ = self._held
        rows = np.repeat(np.arange(self.size, dtype=np.int32), np.diff(indptr))
        schema = Schema(self._tensor.shape, self._tensor.dims, np.dtype(np.bool_))
        labels = {axis: names for axis in (0, 1) if (names := self._tensor.labels(axis)) is not None}
        block = Block((rows, cols), np.ones(len(cols), np.bool_))
        return in_memory(schema, block, labels)

    def counts(self) -> NDArray[np.int64]:
        """Return how many links lead from each node."""
        return np.diff(self._indptr)

    def pending(self, active: NDArray[np.bool_], others: bool = False) -> Iterator[NeighborLists]:
        """Yield the lists of active nodes, and of those that become active ahead on disk; take out what has no list.

        Parameters
        ----------
        active
            Changed meanwhile: whoever looks at a list takes its node out.
        others
            Yield the lists of further nodes too, unless few of those on disk are active.
        """
        if not others or (self._held is None and np.count_nonzero(active) * _FEW <= self.size):
            yield from self.lists(active)
            return
        rest = active.copy()
        for lists in self.lists():
            rest[lists.nodes] = False
            yield lists
        active[rest] = False

    def lists(self, active: NDArray[np.bool_] | None = None) -> Iterator[NeighborLists]:
        """Yield the lists in the order of nodes: those of ``active`` ones, or of all that have links.

        Parameters
        ----------
        active
            Looked at as parts are yielded.
        """
        indptr, at = self._indptr, 0
        if self._held is not None:
            _, cols, weights = self._held
            nodes = np.flatnonzero(indptr[1:] > indptr[:-1] if active is None else active)
            yield NeighborLists(nodes.astype(np.int32), indptr[nodes], indptr[nodes + 1], cols, weights)
            return
        while at < self.size:
            if active is not None:
                at += int(active[at:].argmax())
                if not active[at]:
                    return
            stop = max(int(np.searchsorted(indptr, indptr[at] + _LINKS, "right")) - 1, at + 1)
            wanted = indptr[at + 1 : stop + 1] > indptr[at:stop] if active is None else active[at:stop]
            nodes = at + np.flatnonzero(wanted)
            if len(nodes):
                yield self._read(nodes)
            at = stop

    def _read(self, nodes: NDArray[np.int64]) -> NeighborLists:
        """Return the lists of ascending nodes from disk, those that lie near to each other read together."""
        starts, stops = self._indptr[nodes], self._indptr[nodes + 1]
        cuts = (starts[1:] - stops[:-1] > _GAP).nonzero()[0] + 1
        if len(cuts):
            low, high = starts[[0, *cuts]], stops[[*(cuts - 1), -1]]
            begins = np.append(0, np.cumsum(high - low))
            moved: Any = np.repeat(begins[:-1] - low, np.diff([0, *cuts, len(nodes)]))
            spans = list(zip(low.tolist(), high.tolist(), begins.tolist(), strict=False))
        else:
            spans, moved = [(int(starts[0]), int(stops[-1]), 0)], -starts[0]
        start, stop, at = spans[-1]
        found = []
        for spool, dtype in zip(self._aside, _COLUMNS, strict=False):
            segment, out = Segment(0, int(self._indptr[-1]), dtype), np.empty(at + stop - start, dtype)
            for first, last, to in spans:
                spool.read(segment, first, last, out[to : to + last - first])
            found.append(out)
        weights = found[1] if self._weighted else _NO_WEIGHTS
        return NeighborLists(nodes.astype(np.int32), starts + moved, stops + moved, found[0], weights)

    def _written(self, blocks: Iterator[Block]) -> NDArray[np.int64]:
        """Put the links of sorted blocks aside; return where those of each node begin."""
        from sparrow.kernels.rows import pointers

        indptr = np.zeros(self.size + 1, np.int64)
        for block in blocks:
            if not block.count:
                continue
            first, last = int(block.coords[0][0]), int(block.coords[0][-1]) + 1
            indptr[first + 1 : last + 1] += np.diff(pointers(block.coords[0], first, last))
            self._aside[0].append(block.coords[1].astype(np.int32, copy=False))
            if self._weighted:
                self._aside[1].append(block.values.astype(np.float64))
        memory.trim()
        return np.cumsum(indptr, out=indptr)

    def _gathered(self, most: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        from sparrow.kernels.rows import pointers

        scan = self._tensor.__sparrow_scan__()
        laid = rows_of(scan.relation, scan.view) if scan.step is None else None
        if laid is not None:  # persisted: nothing is copied
            lengths = laid.values.astype(np.float64, copy=False) if self._weighted else _NO_WEIGHTS
            return laid.indptr - laid.indptr[0], laid.indices.astype(np.int32, copy=False), lengths
        counts, at = np.zeros(self.size + 1, np.int64), 0
        cols, weights = np.empty(most, np.int32), np.empty(most) if self._weighted else _NO_WEIGHTS
        for block in engines.sorted_blocks(scan):
            if not block.count:
                continue
            rows = block.coords[0]
            first, last = int(rows[0]), int(rows[-1]) + 1
            counts[first + 1 : last + 1] += np.diff(pointers(rows, first, last))
            part = slice(at, at + block.count)
            cols[part] = block.coords[1]
            if self._weighted:
                weights[part] = block.values
            at += block.count
        memory.trim()
        return np.cumsum(counts), cols[:at], weights[:at]

    def _both_ways(self, most: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        from sparrow.kernels.graph import traversal

        pointers, heads, _ = self._gathered(most)
        indptr, cols = readonly(pointers), readonly(heads)
        back, sources = np.zeros(self.size + 2, np.int64), np.empty_like(cols)
        traversal.turn(indptr, cols, back, sources)
        starts, both = np.empty_like(indptr), np.empty(2 * len(cols), np.int32)
        traversal.both_ways(indptr, cols, readonly(back), readonly(sources), starts, both)
        both.resize(starts[-1], refcheck=False)
        return starts, both, _NO_WEIGHTS


def fits_in_memory(A: Tensor, weighted: bool = False, undirected: bool = False, most: int | None = None) -> bool:
    """Return whether the links of a graph, ``most`` of them if that is known, are kept in memory."""
    # While lists are made of links both ways they are there twice.
    width = 16 if undirected else 12 if weighted else 4
    return width * (_at_most(A) if most is None else most) + 8 * A.shape[0] <= memory.limit() // _SHARE


def _at_most(A: Tensor) -> int:
    """Return how many links there may be; of an expression they are counted."""
    scan = A.__sparrow_scan__()
    most = entries_at_most(scan)
    return engines.count(scan) if most is None else most


def sort_by_degree(degrees: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return where each degree begins among the nodes sorted by it, these nodes, and the place of each node there."""
    from sparrow.kernels.graph import traversal

    begin = np.zeros(int(degrees.max(initial=0)) + 2, np.int64)
    order, place = np.empty(len(degrees), np.int32), np.empty(len(degrees), np.int32)
    traversal.by_degree(degrees, begin, order, place)
    return begin, order, place


def to_neighbor_lists(block: Block) -> NeighborLists:
    """Return the links of a block as lists, which are whole only where the block is."""
    rows, cols = block.coords
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    ends = np.append(starts[1:], len(rows))
    return NeighborLists(rows[starts].astype(np.int32), starts, ends, np.ascontiguousarray(cols, np.int32), _NO_WEIGHTS)


def _mirrored(scan: Scan) -> Iterator[Block]:
    """Yield where there is a link either way, but for those from a node to itself, sorted."""
    from sparrow.sorting.sorter import Sorter

    def both(block: Block) -> Any:
        rows, cols = (column[block.coords[0] != block.coords[1]] for column in block.coords)
        return sorter.prepare(Rows((np.concatenate([rows, cols]), np.concatenate([cols, rows])), None))

    sorter = Sorter(2, np.dtype(np.bool_), weighted=False, duplicates="first")
    try:
        sorter.consume(ordered_map(both, engines.blocks(scan), settings.current().threads))
        yield from sorter.blocks([np.dtype(np.int32)] * 2, np.False_)
    finally:
        sorter.close()


def edge_mask(A: Tensor) -> Tensor:
    """Return where there is a link, lazily: entries are links, whatever the fill."""
    fill = A.fill_value
    found: Tensor = not_equal(A, fill) if fill == fill else logical_not(isnan(A))
    return found


def edge_weights(A: Tensor) -> Tensor:
    """Return what links weigh, lazily: 0 where there is none, for sums over all cells."""
    found: Tensor = A if A.fill_value == 0 else where(edge_mask(A), A, A.dtype.type(0))
    return found


def reverse_edges(A: Tensor) -> Tensor:
    """Return the links the other way, lazily, under the names that the dimensions have."""
    return A.T.rename(dict(zip(A.dims, A.dims[::-1], strict=True)))


def undirected_edge_mask(A: Tensor) -> Tensor:
    """Return where there is a link either way, lazily, but for those from a node to itself."""
    from sparrow.functions.manipulation import tril, triu

    links = edge_mask(A)
    either: Tensor = logical_or(links, reverse_edges(links))
    found: Tensor = logical_or(tril(either, -1), triu(either, 1))
    return found
