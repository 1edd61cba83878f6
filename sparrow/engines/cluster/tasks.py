"""Tasks: the stream engine on a range of a plan, in other processes."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import socket
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np

from sparrow.core.indexing import View
from sparrow.engines.cluster.marks import mark_end, mark_start
from sparrow.engines.cluster.scratch import array_result, block_result, check_visible, store_array
from sparrow.engines.portable_plan import PortablePlan
from sparrow.engines.round_profile import TaskProfile
from sparrow.engines.stream import Stream, lower
from sparrow.engines.stream.groupby import DenseState, GroupBy, GroupState
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.reductions import FusedReductions
from sparrow.errors import SparrowError, StorageError, WorkerError
from sparrow.kernels.coo import Block
from sparrow.plan import Contraction, Dense, Map, Scan
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory, settings
from sparrow.runtime.events import emit
from sparrow.runtime.tuning import get_tunables
from sparrow.runtime.versions import package_version
from sparrow.storage import DataFile, TensorWriter, count_traffic

__all__ = [
    "Answer", "Arrays", "Count", "Elements", "FileTarget", "Files", "Fold", "Groups", "Job", "Products", "States",
    "Sums", "collect_overrides", "cut_range", "run_task", "shift_range",
]  # fmt: skip

_stream = Stream()


class Work(Protocol):
    """A function of the scans of a plan, a range of it, and a scratch folder."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Any:
        """Return the result of a range."""


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that the tasks of a round share."""

    plan: PortablePlan
    work: Work
    bounds: tuple[int, ...]
    folder: str
    """Scratch folder of the job."""
    memory_limit: int
    threads: int
    overrides: Mapping[str, Mapping[str, Any]]
    """Tuning parameters in force, by subsystem, other than the defaults."""
    version: str = field(default_factory=package_version)
    """Version of sparrow that made it."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    """Name of the round in the scratch folder, which may have several."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a task, with its measurements."""

    result: Any
    profile: TaskProfile


def run_task(job: Job, number: int) -> Answer:
    """Run one task of a job, and measure it.

    Raises
    ------
    WorkerError
        If this process has another version of sparrow, does not see the scratch folder, or has too little memory; and
        in place of an error that does not travel.
    """
    try:
        return _run(job, number)
    except Exception as error:
        portable = _portable(error)
        if portable is error:
            raise
        raise portable from None


def _portable(error: Exception) -> Exception:
    """Return an error that other processes can raise."""
    where = socket.gethostname()
    if isinstance(error, MemoryError) and not isinstance(error, SparrowError):
        return WorkerError(
            f"tasks must fit into the memory of their worker, got {type(error).__name__} on {where}: {error}: a lower "
            "memory_limit= makes tasks use less"
        )
    with contextlib.suppress(Exception):  # of a class that does not pickle
        pickle.dumps(error)
        if type(copy.copy(error)) is type(error):  # as unpickling makes it
            return error
    return WorkerError(f"a task on {where} raised {type(error).__name__}: {error}")


def _run(job: Job, number: int) -> Answer:
    emit("cluster.run", number=number, folder=job.folder)
    if job.version != package_version():
        raise WorkerError(
            f"sparrow must be {job.version} on every worker, got {package_version()} on {socket.gethostname()}: "
            "install the same version everywhere"
        )
    check_visible(job.folder)
    start, attempts = time.perf_counter(), mark_start(job.folder, job.name, number)
    with count_traffic() as traffic, ExitStack() as stack:
        tunables = get_tunables()
        for name, changes in job.overrides.items():
            stack.enter_context(tunables[name].override(**changes))
        stack.enter_context(memory.reuse_freed_memory())
        stack.enter_context(settings.config(memory_limit=job.memory_limit, threads=job.threads, engine="stream"))
        result = job.work(job.plan.scans, job.bounds[number], job.bounds[number + 1], job.folder)
    seconds = time.perf_counter() - start
    mark_end(job.folder, job.name, number)
    nbytes = traffic.bytes_read, traffic.bytes_written
    return Answer(result, TaskProfile(seconds, *nbytes, socket.gethostname(), os.getpid(), attempts))


def collect_overrides() -> dict[str, dict[str, Any]]:
    """Return the tuning parameters that differ from their defaults."""
    found = {}
    for name, tunable in get_tunables().items():
        now, default = tunable(), tunable.default
        if now is not default:
            pairs = ((each.name, getattr(now, each.name)) for each in fields(default))
            found[name] = {key: value for key, value in pairs if value != getattr(default, key)}
    return found


def cut_range(scan: Scan, start: int, stop: int, axis: int = 0) -> Scan:
    """Return the scan of positions [start, stop) along an axis."""
    key = (*[slice(None)] * axis, slice(start, stop))
    return scan.then(scan.view.then(key))


def shift_range(block: Block, scan: Scan, start: int) -> Block:
    """Return the elements of a range at coordinates of the whole."""
    dtypes = scan.schema.coordinate_dtypes
    coords = [column.astype(dtype, copy=False) for column, dtype in zip(block.coords, dtypes, strict=True)]
    return Block((coords[0] + dtypes[0].type(start), *coords[1:]), block.values)


@dataclass(frozen=True, slots=True)
class Elements:
    """Return elements, as files if they are many."""

    max_bytes: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Block:
        """Return the elements of rows [start, stop)."""
        (scan,) = scans
        block = shift_range(_stream.evaluate(cut_range(scan, start, stop), own=False), scan, start)
        return block_result(folder, block, self.max_bytes)


@dataclass(frozen=True, slots=True)
class Count:
    """Count elements."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> int:
        """Return the number of stored elements of rows [start, stop)."""
        return _stream.count_nnz(cut_range(scans[0], start, stop))


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Data files of a tensor, or of a derived sort order, to be written."""

    path: str
    profile: str
    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    coordinate_dtypes: tuple[np.dtype[Any], ...]
    order: tuple[int, ...]
    """Dimension of each axis of the elements, primary sort key first."""

    def write(self, blocks: Iterable[Block]) -> list[DataFile]:
        """Write sorted blocks to files.

        Raises
        ------
        StorageError
            If this process does not see the folder.
        """
        if "://" not in self.path and not os.path.isdir(self.path):
            raise StorageError(
                f"the destination must be a folder that every worker sees, got {self.path!r}, which does not exist on "
                f"{socket.gethostname()}"
            )
        axes = [self.order.index(dim) for dim in range(len(self.order))]
        with TensorWriter(
            self.path, self.dims, self.dtype, profile=self.profile, order=self.order,
            coordinate_dtypes=self.coordinate_dtypes,
        ) as writer:  # fmt: skip
            for block in blocks:
                emit("cluster.save", path=self.path)
                writer.write(Block(tuple(block.coords[axis] for axis in axes), block.values))
            return writer.finish()


@dataclass(frozen=True, slots=True)
class Files:
    """Write data files."""

    target: FileTarget

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> list[DataFile]:
        """Write the elements of rows [start, stop); return the files."""
        (scan,) = scans
        blocks = _stream.iter_blocks(cut_range(scan, start, stop))
        return self.target.write(shift_range(block, scan, start) for block in blocks)


@dataclass(frozen=True, slots=True)
class Fold:
    """Call a function with the elements of ranges, in blocks of any order."""

    function: Callable[[Iterator[Block]], tuple[Any, ...]]
    max_bytes: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> tuple[Any, ...]:
        """Return the arrays that the function makes of rows [start, stop)."""
        (scan,) = scans
        blocks = _stream.iter_unsorted(cut_range(scan, start, stop))
        found = self.function(shift_range(block, scan, start) for block in blocks)
        is_large = sum(array.nbytes for array in found) > self.max_bytes
        return tuple(store_array(folder, array) for array in found) if is_large else found


@dataclass(frozen=True, slots=True)
class Products:
    """Contract ranges of a tensor with arrays."""

    axis: int
    """Axis of the tensor that is cut."""
    output_axis: int
    """The same axis in the result."""
    max_bytes: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Any:
        """Return positions [start, stop) of the result along its axis."""
        node = scans[0].source
        assert isinstance(node, Contraction)
        shape = list(node.schema.shape)
        shape[self.output_axis] = stop - start
        cut = node.with_inputs([cut_range(node.scans[0], start, stop, self.axis)])
        found = _stream.evaluate_dense(replace(cut, schema=replace(cut.schema, shape=tuple(shape))))
        return array_result(folder, found, self.max_bytes)


@dataclass(frozen=True, slots=True)
class Sums:
    """Contract ranges along an axis that is summed, of integers."""

    axis: int
    """Axis of the tensor that is cut."""
    max_bytes: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Any:
        """Return the sums over positions [start, stop) of the axis."""
        node = scans[0].source
        assert isinstance(node, Contraction)
        number = next(k for k, each in enumerate(node.operands) if isinstance(each, Scan))
        index = node.indices[number][self.axis]
        operands: list[Scan | Dense] = []
        for each, own in zip(node.operands, node.indices, strict=True):
            if isinstance(each, Scan):
                operands.append(cut_range(each, start, stop, self.axis))
            else:
                key = tuple(slice(start, stop) if k == index else slice(None) for k in own)
                operands.append(Dense(each.array[key]))
        found = np.asarray(_stream.evaluate_dense(replace(node, operands=tuple(operands))))
        return array_result(folder, found, self.max_bytes)


@dataclass(frozen=True, slots=True)
class Arrays:
    """Compute ranges of an element-wise function of tensors and arrays."""

    max_bytes: int
    output_axis: int = 0

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Any:
        """Return positions [start, stop) of the result along its leading axis."""
        node = scans[0].source
        assert isinstance(node, Map)
        shape = (stop - start, *node.schema.shape[1:])
        cut = node.with_inputs([cut_range(scan, start, stop) for scan in node.scans])
        operands = tuple(
            Dense(np.broadcast_to(each.array, node.schema.shape)[start:stop]) if isinstance(each, Dense) else each
            for each in cut.operands
        )
        found = _stream.evaluate_dense(replace(cut, operands=operands, schema=replace(cut.schema, shape=shape)))
        return array_result(folder, found, self.max_bytes)


@dataclass(frozen=True, slots=True)
class States:
    """Aggregate the chunks of a scan one by one, for reductions over all axes."""

    partitions: tuple[int, ...] | None
    """Bounds of the partitions of the operator that is read, None for a relation."""
    checksum: int
    """Checksum of the numbers of rows of the chunks."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> list[GroupState]:
        """Return the states of chunks [start, stop)."""
        groups = _open_groups(scans, self.partitions)
        chunks = check_chunks(groups.scalar_chunks(), self.checksum)
        return list(groups.chunk_states(chunks[start:stop]))


@dataclass(frozen=True, slots=True)
class Groups:
    """Add up chunks of a scan in dense arrays, for a reduction that keeps some axes."""

    partitions: tuple[int, ...] | None
    """Bounds of the partitions of the operator that is read, None for a relation."""
    checksum: int
    """Checksum of the numbers of rows of the chunks."""
    max_bytes: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> DenseState:
        """Return the sums of chunks [start, stop)."""
        groups = _open_groups(scans, self.partitions)
        chunks = check_chunks(groups.unordered_chunks(), self.checksum)
        counts, states = groups.add_chunks(chunks[start:stop])
        arrays = [array for state in states for array in state] + ([] if counts is None else [counts])
        if sum(array.nbytes for array in arrays) <= self.max_bytes:
            return counts, states
        kept = None if counts is None else store_array(folder, counts)
        return kept, tuple(tuple(store_array(folder, array) for array in state) for state in states)


def _open_groups(scans: list[Scan], partitions: tuple[int, ...] | None) -> GroupBy:
    """Return the groups of reductions of one scan, which reads the given partitions."""
    nodes: Any = [scan.source for scan in scans]
    (operand,) = lower(nodes[0].scans)
    if partitions is not None and isinstance(operand.relation, PhysicalOperator):
        operand.relation.set_partitions(partitions)
    return FusedReductions(nodes, operand).groups


def check_chunks(chunks: list[Chunk] | None, checksum: int) -> list[Chunk]:
    """Return chunks, which must be those that were divided among tasks.

    Raises
    ------
    WorkerError
        If they are others.
    """
    if chunks is None or chunk_checksum(chunks) != checksum:
        raise WorkerError(f"a worker on {socket.gethostname()} divides the input into other chunks")
    return chunks


def chunk_checksum(chunks: list[Chunk]) -> int:
    """Return a checksum of the numbers of rows of chunks."""
    return zlib.crc32(np.array([chunk.rows for chunk in chunks], np.int64).tobytes())


def root_scan(node: Any) -> Scan:
    """Return the scan of all of a node."""
    return Scan(node, View.identity(node.schema.shape), node.schema)
