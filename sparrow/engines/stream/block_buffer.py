"""Concatenation of blocks into one, by the threads that produce them."""

from __future__ import annotations

import threading
from typing import Any

from numpy.typing import NDArray

from sparrow.core.schema import Schema
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, CSRBlock, RowIndex
from sparrow.runtime import buffer_pool, memory
from sparrow.runtime.threads import Waiters

__all__ = ["BlockBuffer"]


class BlockBuffer:
    """Concatenation of blocks, each copied by the thread that produced it.

    Parameters
    ----------
    schema
        Shape and dtypes of the tensor whose elements the blocks are.
    rows
        Estimate of their number.
    room
        Reservation that accounts for them.
    """

    def __init__(self, schema: Schema, rows: int, room: memory.Reservation) -> None:
        self._width, self._room = schema.element_bytes(), room
        dtypes = [*(schema.coordinate_dtype(axis) for axis in range(schema.ndim)), schema.dtype]
        self._arrays = [buffer_pool.Buffer(min(rows, memory.limit() // self._width), dtype) for dtype in dtypes]
        self._heads: list[tuple[int, RowIndex]] = []
        """Row indices that are not expanded to coordinates, and their offsets."""
        self._early: dict[int, Block] = {}
        """Blocks that arrived before their turn, by number."""
        self._count = self._turn = self._writing = 0
        self._is_growing = False
        """True while a thread waits to move the arrays; it copies what comes meanwhile."""
        self._lock, self._waiters = threading.Lock(), Waiters()

    def put(self, number: int, block: Block) -> None:
        """Add a block, and copy all blocks whose turn has come."""
        with self._lock:
            self._early[number] = block
        while True:
            with self._lock:
                own = None if self._is_growing else self._early.get(self._turn)
                if own is None:
                    return
                must_wait = self._writing > 0 and self._count + own.count > self._arrays[-1].count
                if must_wait:
                    self._is_growing = True
                else:
                    del self._early[self._turn]
                    arrays, start = self._allocate(own)
                    self._turn += 1
                    self._writing += 1
            if must_wait:
                self._waiters.wait_until(lambda: not self._writing)
                self._is_growing = False
                continue
            try:
                rest = own.rest if isinstance(own, CSRBlock) and len(arrays) < len(self._arrays) else own
                rest.write(arrays, start, start + own.count)
            finally:
                with self._lock:
                    self._writing -= 1
                self._waiters.notify()

    def _allocate(self, block: Block) -> tuple[list[NDArray[Any]], int]:
        """Return the arrays for the next block, and its offset in them.

        Arrays of row coordinates are missing if the block stays in CSR form.
        """
        self._room.grow(block.count * self._width)
        start, stop = self._count, self._count + block.count
        if stop > self._arrays[-1].count:
            self._arrays = [cells.grow(max(stop, 2 * start), start) for cells in self._arrays]
        cells = self._arrays
        if isinstance(block, CSRBlock) and block.heads.saves_memory:
            self._heads.append((start, block.heads))
            cells = cells[len(block.heads.coords) :]
        self._count = stop
        return [each.array for each in cells], start

    def block(self) -> Block:
        """Return all elements; call it once."""
        cells, heads = self._arrays, [part for _, part in self._heads]
        is_csr = tuning().csr_min_elements <= self._count == sum(part.count for part in heads)
        if is_csr:
            cells = cells[len(heads[0].coords) :]
        for start, part in () if is_csr else self._heads:
            part.write([each.array for each in cells[: len(part.coords)]], start)
        *coords, values = (each.truncate(self._count) for each in cells)
        block = Block(tuple(coords), values)
        return CSRBlock(RowIndex.concat(heads), block) if is_csr else block
