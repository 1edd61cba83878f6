"""Adjacency lists of a graph, in memory where they fit, else spilled to disk.

The spill files store the neighbor of each edge, and its weight if weights are used. The index of the lists stays in
memory, so lists can be read one by one: a round with a small frontier reads little.
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
from sparrow.functions.generation import tensor_from_block
from sparrow.functions.searching import where
from sparrow.graph.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.plan import Scan
from sparrow.plan.estimates import max_nnz
from sparrow.relations.csr import csr_rows
from sparrow.runtime import events, memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.validation import check_flag
from sparrow.sorting import Rows, Segment, SpillFile
from sparrow.tensor import Tensor

__all__ = [
    "Adjacency", "NeighborLists", "edge_mask", "edge_weights", "fits_in_memory", "reverse_edges", "sort_by_degree",
    "to_neighbor_lists", "undirected_edge_mask",
]  # fmt: skip

_NO_WEIGHTS = np.empty(0)
_SPILLED_DTYPES: tuple[np.dtype[Any], ...] = np.dtype(np.int32), np.dtype(np.float64)
"""Types of the spilled columns: neighbors and weights."""

CSRArrays = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
"""``indptr``, ``indices`` and weights of a graph in CSR form."""


@dataclass(frozen=True, slots=True)
class NeighborLists:
    """Neighbor lists: ``cols[starts[k]:stops[k]]`` are those of ``nodes[k]``."""

    nodes: NDArray[np.int32]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    cols: NDArray[np.int32]
    weights: NDArray[np.float64]
    """Edge weights, parallel to ``cols``; empty if weights are not used."""

    @property
    def count(self) -> int:
        """Number of edges."""
        return int((self.stops - self.starts).sum())

    @property
    def arrays(self) -> Any:
        """``nodes``, ``starts``, ``stops`` and ``cols`` as the arguments of a kernel."""
        return as_readonly(self.nodes), as_readonly(self.starts), as_readonly(self.stops), as_readonly(self.cols)


class Adjacency:
    """Adjacency lists of a graph, open for the length of a block.

    Parameters
    ----------
    A
        Square tensor; each stored element is an edge.
    weighted
        Whether to keep the values.
    undirected
        Add the reverse of each edge, merge duplicates and drop self-loops. With weights, the lighter of an edge and its
        reverse remains, and self-loops; edges of weight NaN are dropped.

    Raises
    ------
    UnsupportedError
        If ``weighted`` and the values are complex.

    Examples
    --------
    >>> import sparrow as sp
    >>> with Adjacency(sp.asarray([[0, 1], [1, 1]]), undirected=True) as graph:
    ...     [lists.cols.tolist() for lists in graph.neighbor_lists()]
    [[1, 0]]
    """

    def __init__(self, A: Tensor, weighted: bool = False, undirected: bool = False) -> None:
        weighted = check_flag("weighted", weighted)
        if weighted and A.dtype.kind == "c":
            raise UnsupportedError(
                "edge weights must be real, got complex values: take the real part, or the magnitude"
            )
        self.size = A.shape[0]
        self._weighted = weighted
        self._csr: CSRArrays | None = None
        self._spills: tuple[SpillFile, ...] = ()
        self._tensor = A
        self._reservation = memory.Reservation("adjacency lists in memory", "")
        bound = _edge_bound(A)
        if fits_in_memory(A, weighted, undirected, bound):
            self._csr = (self._collect_undirected if undirected else self._collect)(bound)
            self._indptr = self._csr[0]
            self._reservation.resize(sum(array.nbytes for array in self._csr))
        else:
            self._reservation.grow(8 * (self.size + 1))
            self._spills = (SpillFile(), SpillFile())[: 1 + weighted]
            try:
                scan = A.__sparrow_scan__()
                blocks = _undirected_blocks(scan, weighted) if undirected else engines.iter_sorted_blocks(scan)
                self._indptr = self._spill(blocks)
            except BaseException:
                self.__exit__(None, None, None)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reservation.release()
        self._csr = None
        for spill in self._spills:
            spill.close()

    @property
    def csr(self) -> CSRArrays | None:
        """CSR arrays of the graph, or None if it is spilled."""
        if self._csr is None:
            return None
        indptr, cols, weights = self._csr
        return as_readonly(indptr), as_readonly(cols), as_readonly(weights)

    def to_tensor(self) -> Tensor:
        """Return a graph in memory as a boolean tensor with its names and labels."""
        assert self._csr is not None
        indptr, cols, _ = self._csr
        rows = np.repeat(np.arange(self.size, dtype=np.int32), np.diff(indptr))
        schema = Schema(self._tensor.shape, self._tensor.dims, np.dtype(np.bool_))
        labels = {axis: names for axis in (0, 1) if (names := self._tensor.labels(axis)) is not None}
        block = Block((rows, cols), np.ones(len(cols), np.bool_))
        return tensor_from_block(schema, block, labels)

    def degrees(self) -> NDArray[np.int64]:
        """Return the out-degree of each node."""
        return np.diff(self._indptr)

    def count_edges(self, active: NDArray[np.bool_]) -> int:
        """Return the number of edges that leave active nodes."""
        stops, starts = (np.sum(part, where=active) for part in (self._indptr[1:], self._indptr[:-1]))
        return int(stops - starts)

    def frontier_lists(self, active: NDArray[np.bool_], others: bool = False) -> Iterator[NeighborLists]:
        """Yield the lists of active nodes, then deactivate nodes without a list.

        Parameters
        ----------
        active
            Frontier, shape (n,). The caller deactivates the nodes of each list it has processed; nodes that become
            active ahead of the current position of a spilled graph are yielded too.
        others
            Yield the lists of inactive nodes too, unless the graph is spilled and the frontier small.
        """
        if not others or (self._csr is None and np.count_nonzero(active) * tuning().seek_ratio <= self.size):
            yield from self.neighbor_lists(active)
            return
        rest = active.copy()
        for lists in self.neighbor_lists():
            rest[lists.nodes] = False
            yield lists
        active[rest] = False

    def neighbor_lists(self, active: NDArray[np.bool_] | None = None) -> Iterator[NeighborLists]:
        """Yield adjacency lists in the order of nodes.

        Parameters
        ----------
        active
            Nodes to yield, shape (n,), read as iteration proceeds; by default all that have edges.
        """
        indptr, at = self._indptr, 0
        if self._csr is not None:
            _, cols, weights = self._csr
            nodes = np.flatnonzero(indptr[1:] > indptr[:-1] if active is None else active)
            yield NeighborLists(nodes.astype(np.int32), indptr[nodes], indptr[nodes + 1], cols, weights)
            return
        while at < self.size:
            if active is not None:
                at += int(active[at:].argmax())
                if not active[at]:
                    return
            stop = max(int(np.searchsorted(indptr, indptr[at] + tuning().read_edges, "right")) - 1, at + 1)
            selected = indptr[at + 1 : stop + 1] > indptr[at:stop] if active is None else active[at:stop]
            nodes = at + np.flatnonzero(selected)
            if len(nodes):
                yield self._read(nodes)
            at = stop

    def _read(self, nodes: NDArray[np.int64]) -> NeighborLists:
        """Return spilled lists of ascending nodes; nearby lists are read together."""
        starts, stops = self._indptr[nodes], self._indptr[nodes + 1]
        cuts = (starts[1:] - stops[:-1] > tuning().read_gap_edges).nonzero()[0] + 1
        if len(cuts):
            low, high = starts[[0, *cuts]], stops[[*(cuts - 1), -1]]
            offsets = np.append(0, np.cumsum(high - low))
            shift: Any = np.repeat(offsets[:-1] - low, np.diff([0, *cuts, len(nodes)]))
            spans = list(zip(low.tolist(), high.tolist(), offsets.tolist(), strict=False))
        else:
            spans, shift = [(int(starts[0]), int(stops[-1]), 0)], -starts[0]
        start, stop, at = spans[-1]
        size = at + stop - start
        events.emit("graph.read_edges", count=size)
        columns = []
        for spill, dtype in zip(self._spills, _SPILLED_DTYPES, strict=False):
            segment, out = Segment(0, int(self._indptr[-1]), dtype), np.empty(size, dtype)
            for first, last, to in spans:
                spill.read(segment, first, last, out[to : to + last - first])
            columns.append(out)
        weights = columns[1] if self._weighted else _NO_WEIGHTS
        return NeighborLists(nodes.astype(np.int32), starts + shift, stops + shift, columns[0], weights)

    def _spill(self, blocks: Iterator[Block]) -> NDArray[np.int64]:
        """Write the edges of sorted blocks to disk and return ``indptr``."""
        from sparrow.kernels.rows import indptr_from_sorted

        indptr = np.zeros(self.size + 1, np.int64)
        for block in blocks:
            if not block.count:
                continue
            first, last = int(block.coords[0][0]), int(block.coords[0][-1]) + 1
            indptr[first + 1 : last + 1] += np.diff(indptr_from_sorted(block.coords[0], first, last))
            self._spills[0].append(block.coords[1].astype(np.int32, copy=False))
            if self._weighted:
                self._spills[1].append(block.values.astype(np.float64))
        memory.trim()
        return np.cumsum(indptr, out=indptr)

    def _collect(self, bound: int) -> CSRArrays:
        scan = self._tensor.__sparrow_scan__()
        persisted = csr_rows(scan.relation, scan.view) if scan.step is None else None
        if persisted is not None:  # nothing is copied
            weights = persisted.values.astype(np.float64, copy=False) if self._weighted else _NO_WEIGHTS
            return persisted.indptr - persisted.indptr[0], persisted.indices.astype(np.int32, copy=False), weights
        return self._collect_blocks(engines.iter_sorted_blocks(scan), bound)

    def _collect_blocks(self, blocks: Iterator[Block], bound: int) -> CSRArrays:
        from sparrow.kernels.rows import indptr_from_sorted

        counts, at = np.zeros(self.size + 1, np.int64), 0
        cols, weights = np.empty(bound, np.int32), np.empty(bound) if self._weighted else _NO_WEIGHTS
        for block in blocks:
            if not block.count:
                continue
            rows = block.coords[0]
            first, last = int(rows[0]), int(rows[-1]) + 1
            counts[first + 1 : last + 1] += np.diff(indptr_from_sorted(rows, first, last))
            part = slice(at, at + block.count)
            cols[part] = block.coords[1]
            if self._weighted:
                weights[part] = block.values
            at += block.count
        memory.trim()
        return np.cumsum(counts), cols[:at], weights[:at]

    def _collect_undirected(self, bound: int) -> CSRArrays:
        from sparrow.kernels.graph import traversal

        if self._weighted:
            return self._collect_blocks(_undirected_blocks(self._tensor.__sparrow_scan__(), True), 2 * bound)
        pointers, heads, _ = self._collect(bound)
        indptr, cols = as_readonly(pointers), as_readonly(heads)
        reverse_indptr, reverse_cols = np.zeros(self.size + 2, np.int64), np.empty_like(cols)
        traversal.transpose_edges(indptr, cols, reverse_indptr, reverse_cols)
        starts, both = np.empty_like(indptr), np.empty(2 * len(cols), np.int32)
        traversal.symmetrize(indptr, cols, as_readonly(reverse_indptr), as_readonly(reverse_cols), starts, both)
        both.resize(starts[-1], refcheck=False)
        return starts, both, _NO_WEIGHTS


def fits_in_memory(A: Tensor, weighted: bool = False, undirected: bool = False, bound: int | None = None) -> bool:
    """Return whether adjacency lists of at most ``bound`` edges stay in memory."""
    # The lists of an undirected graph exist twice while they are built.
    edge_bytes = (24 if weighted else 16) if undirected else 12 if weighted else 4
    n_edges = _edge_bound(A) if bound is None else bound
    return edge_bytes * n_edges + 8 * A.shape[0] <= memory.limit() // tuning().adjacency_share


def _edge_bound(A: Tensor) -> int:
    """Return an upper bound on the number of edges, exact for an expression."""
    scan = A.__sparrow_scan__()
    bound = max_nnz(scan)
    return engines.count_nnz(scan) if bound is None else bound


def sort_by_degree(degrees: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Sort nodes by degree.

    Returns
    -------
    begin
        Position of the first node of each degree in ``order``.
    order
        Nodes, ascending by degree.
    rank
        Position of each node in ``order``.
    """
    from sparrow.kernels.graph import traversal

    begin = np.zeros(int(degrees.max(initial=0)) + 2, np.int64)
    order, rank = np.empty(len(degrees), np.int32), np.empty(len(degrees), np.int32)
    traversal.bucket_by_degree(degrees, begin, order, rank)
    return begin, order, rank


def to_neighbor_lists(block: Block) -> NeighborLists:
    """Return the edges of a sorted block as lists.

    The first and the last list may continue in the neighboring blocks.
    """
    rows, cols = block.coords
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    ends = np.append(starts[1:], len(rows))
    return NeighborLists(rows[starts].astype(np.int32), starts, ends, np.ascontiguousarray(cols, np.int32), _NO_WEIGHTS)


def _undirected_blocks(scan: Scan, weighted: bool) -> Iterator[Block]:
    """Yield the edges and their reverses, sorted, each once.

    Of the weights of an edge and its reverse the smaller remains. Without weights, self-loops are dropped.
    """
    from sparrow.sorting.sorter import Sorter

    def both_directions(block: Block) -> Any:
        weights = None
        if weighted:
            weights = block.values.astype(np.float64, copy=False)
            kept = ~np.isnan(weights)
            weights = np.tile(weights[kept], 2)
        else:
            kept = block.coords[0] != block.coords[1]
        rows, cols = (column[kept] for column in block.coords)
        return sorter.prepare(Rows((np.concatenate([rows, cols]), np.concatenate([cols, rows])), weights))

    dtype, rule, fill = (np.float64, "min", np.nan) if weighted else (np.bool_, "first", np.False_)
    sorter = Sorter(2, np.dtype(dtype), weighted=weighted, duplicates=rule)  # type: ignore[arg-type]
    try:
        sorter.consume(ordered_map(both_directions, engines.iter_blocks(scan), settings.current().threads))
        yield from sorter.blocks([np.dtype(np.int32)] * 2, fill)
    finally:
        sorter.close()


def edge_mask(A: Tensor) -> Tensor:
    """Return the lazy mask of edges: all stored elements, whatever the fill value."""
    fill = A.fill_value
    result: Tensor = not_equal(A, fill) if fill == fill else logical_not(isnan(A))
    return result


def edge_weights(A: Tensor) -> Tensor:
    """Return the lazy matrix of edge weights with fill 0."""
    result: Tensor = A if A.fill_value == 0 else where(edge_mask(A), A, A.dtype.type(0))
    return result


def reverse_edges(A: Tensor) -> Tensor:
    """Return the lazy transpose with dimension names in their original order."""
    return A.T.rename(dict(zip(A.dims, A.dims[::-1], strict=True)))


def undirected_edge_mask(A: Tensor) -> Tensor:
    """Return the lazy symmetric edge mask, without self-loops."""
    from sparrow.functions.manipulation import tril, triu

    mask = edge_mask(A)
    either: Tensor = logical_or(mask, reverse_edges(mask))
    result: Tensor = logical_or(tril(either, -1), triu(either, 1))
    return result
