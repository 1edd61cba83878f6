"""Workers of killed and racing processes; free of pytest imports."""

from __future__ import annotations

import itertools
import threading
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np

from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, canonicalize, concat_blocks
from sparrow.relations.edits import Edit
from sparrow.relations.protocol import scan
from tests.faults.dying import Events

_counting = ExitStack()

SIZES = storage.Sizes(file_rows=60, group_rows=20)
SCHEMA = Schema((80, 40), dtype=np.dtype(np.int64))


def start(seed: int) -> Block:
    """Return the entries that a tensor is created with."""
    rng = np.random.default_rng(seed)
    coords = tuple(rng.integers(0, n, 800) for n in SCHEMA.shape)
    return canonicalize(Block(coords, np.full(800, seed + 1, np.int64)), SCHEMA.shape, 0, "last")


def edit(version: int) -> Edit:
    """Return the edit that makes a version; it always changes something."""
    rng = np.random.default_rng(version)
    row = int(rng.integers(0, 70))
    coords = (np.append(rng.integers(row, row + 10, 20), 0), np.append(rng.integers(0, 40, 20), 0))
    values = np.append(rng.integers(0, 50, 20), version + 1000)
    upsert = canonicalize(Block(coords, values), SCHEMA.shape, None, "last", keep_fill=True)
    row = int(rng.integers(0, 70))
    if version % 3 == 1:  # several edits of one append
        return Edit("append", upsert=upsert.take(upsert.values != 0))
    return Edit("edit", (Box((range(row, row + 3), range(0, 40, 2))),) if version % 3 == 0 else (), upsert)


def commit(handle: storage.StoredHandle, change: Edit) -> storage.Snapshot:
    """Commit an edit; an append as three, in one commit."""
    block = change.upsert
    if change.operation != "append" or block is None:
        return handle.commit(change)
    cuts = [0, block.count // 3, block.count // 2, block.count]
    edits = [replace(change, upsert=block.take(slice(*ends))) for ends in itertools.pairwise(cuts)]
    return handle.append(lambda: iter(edits), Box.from_shape(SCHEMA.shape))


def read_all(snapshot: storage.Snapshot) -> Block:
    """Return all entries of a snapshot."""
    box = Box.from_shape(snapshot.schema.shape)
    return concat_blocks(list(scan(snapshot, box)), snapshot.schema.ndim, snapshot.schema.dtype)


def announce(ready: Connection, event: int, stop: bool) -> None:
    """Tell the parent, which then kills, when the n-th change of files begins.

    With ``stop`` this process waits there; without, it goes on into what is not counted, such as writes of the log.
    """
    told = threading.Lock()

    def reach() -> None:
        if told.acquire(blocking=False):
            ready.send(event)
        if stop:
            threading.Event().wait()

    _counting.enter_context(Events(event, reach).count_calls())


def edit_forever(path: str, ready: Connection, event: int, stop: bool) -> None:
    """Commit edit after edit, now and then with an order, until killed."""
    announce(ready, event, stop)
    handle = storage.open(path, sizes=SIZES)
    while True:
        version = commit(handle, edit(handle.current.version + 1)).version
        if version % 5 == 0:
            handle.add_order((1, 0))


def create_forever(folder: str, ready: Connection, event: int, stop: bool) -> None:
    """Save tensors side by side, and one over itself, until killed."""
    announce(ready, event, stop)
    first = max((int(path.name[1:]) for path in Path(folder).glob("t*")), default=-1) + 1
    for seed in itertools.count(first):
        storage.save(Path(folder, f"t{seed}"), SCHEMA, [start(seed)], sizes=SIZES)
        storage.save(Path(folder, "same"), SCHEMA, [start(seed)], sizes=SIZES, overwrite=True, orders=[(1, 0)])


def race(folder: str, who: int, count: int, line: Barrier, results: Connection) -> None:
    """Run the three races, each begun by all at once, and report what each gave."""
    given = []
    for name, run in (("append", append), ("increment", increment), ("claim", claim_cells)):
        line.wait(300)
        given.append(run(f"{folder}/{name}", who, count))
    results.send(tuple(given))


def append(path: str, who: int, count: int) -> str:
    """Append rows that no other process writes; a conflict would be wrong."""
    handle = storage.open(path, sizes=SIZES)
    for k in range(count):
        cells = (np.full(3, 10 * k + who), np.arange(3))
        handle.commit(Edit("append", upsert=Block(cells, np.full(3, who + 1, np.int64)), existing="error"))
    return "done"


def increment(path: str, seed: int, count: int) -> int:
    """Add 1 to elements that others write too; retry after conflicts."""
    rng = np.random.default_rng(seed)
    handle = storage.open(path, sizes=SIZES)
    conflicts = 0
    for _ in range(count):
        row = int(rng.integers(0, 4))
        while True:
            block = read_all(handle.refresh())
            at = np.flatnonzero((block.coords[0] == row) & (block.coords[1] == 0))
            value = int(block.values[at[0]]) if len(at) else 0
            try:
                upsert = Block((np.array([row]), np.array([0])), np.array([value + 1]))
                handle.commit(Edit("increment", upsert=upsert))
                break
            except errors.ConflictError:
                conflicts += 1
    return conflicts


def claim_cells(path: str, who: int, count: int) -> list[int]:
    """Insert cells that everybody wants; report those won."""
    handle = storage.open(path, sizes=SIZES)
    won = []
    for k in range(count):
        handle.refresh()
        try:
            upsert = Block((np.array([k]), np.array([0])), np.array([who + 1]))
            handle.commit(Edit("claim", upsert=upsert, existing="error"))
            won.append(k)
        except (errors.ConflictError, errors.DuplicateError):
            pass
    return won
