"""Protocol of an engine: from a plan to its result.

An engine states which nodes it supports and why not others. Unsupported nodes fall back to the stream engine, which
supports all of them: ``engine=`` selects the engine, never the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from sparrow.engines.round_profile import RoundsPlan
from sparrow.kernels.coo import Block
from sparrow.plan import Node, Reduce, Root, Scan
from sparrow.storage import DataFile

__all__ = ["CostEstimator", "DeviceEngine", "Engine", "EngineName", "FoldRange", "TaskEngine", "device_of"]

EngineName: TypeAlias = str
"""Name of a registered engine, or "auto"."""
FoldRange: TypeAlias = "Callable[[Iterator[Block]], tuple[Any, ...]]"
"""Function of the elements of a range, in blocks of any order, that returns arrays. It pickles by name."""


class Engine(Protocol):
    """Evaluates plans.

    Methods are given plans of supported nodes over relations. A view of a node is at the root of a scan, or below a
    node that it cannot be pushed into.
    """

    name: str
    """Value of ``engine=``."""
    reads_chunks: bool
    """True if it reads relations by chunks in this process, so that reads can be profiled."""

    max_operands: int | None
    """Tensors of a contraction: 2 if more are multiplied two at a time, None if it orders any number itself."""

    @property
    def max_depth(self) -> int | None:
        """Nesting beyond which nodes fall back; None for no limit."""

    @property
    def max_scans(self) -> int | None:
        """Scans of a plan beyond which nodes fall back; None for no limit."""

    def check(self) -> None:
        """Raise ``MissingDependencyError`` if a dependency or a device is missing."""

    def unsupported_reason(self, root: Root) -> str | None:
        """Return why a node is not supported, whatever its operands; None if it is."""

    def support(self, node_type: type[Any]) -> tuple[str, str]:
        """Return the support for a type of nodes, and a reason.

        "yes"; "partly", where :meth:`unsupported_reason` decides; "notimpl" without an implementation; "notyet" if one
        is planned; "never" if the engine is not made for it.
        """

    def evaluate(self, scan: Scan) -> Block:
        """Return all elements of a scan, canonical in the order of the view's axes.

        Raises
        ------
        TooLargeError
            If they exceed the memory limit.
        """

    def iter_blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield the elements of a scan in canonical blocks, in the order of its axes."""

    def count_nnz(self, scan: Scan) -> int:
        """Return the number of stored elements of a scan."""

    def reduce_all(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions of one scan over all axes, as NumPy scalars."""

    def evaluate_dense(self, node: Node) -> Any:
        """Return the result of a dense node: an array, or a scalar for ndim 0.

        Raises
        ------
        TooLargeError
            If it exceeds the memory limit.
        """

    def describe(self, root: Root) -> str:
        """Return the physical strategy for a node; empty if there is only one."""


@runtime_checkable
class CostEstimator(Protocol):
    """An engine that estimates what its physical plans cost."""

    def costs(self, root: Root) -> str:
        """Return the estimated costs of a node, for plans; empty if they are unknown."""


@runtime_checkable
class TaskEngine(Protocol):
    """An engine that runs tasks in other processes."""

    def plan_rounds(self, root: Root, saves: bool = False) -> RoundsPlan | None:
        """Return the rounds of a root, for plans; None if it is not computed in tasks.

        Parameters
        ----------
        saves
            Whether its elements are written to data files.
        """

    def write_files(
        self,
        scan: Scan,
        folder: str,
        profile: str,
        order: Sequence[int] = (),
        coordinate_dtypes: Sequence[np.dtype[Any]] = (),
    ) -> list[DataFile] | None:
        """Write the elements of a scan to data files; None if this process should.

        ``order`` is the dimension of each axis, for files of a derived sort order.
        """

    def fold_ranges(self, scan: Scan, function: FoldRange) -> Iterator[tuple[Any, ...]] | None:
        """Apply a function to the elements of ranges; None if this process should.

        The arrays exist until the next ones are asked for.
        """


@runtime_checkable
class DeviceEngine(Protocol):
    """An engine that computes on a device with memory of its own."""

    def device(self) -> Any:
        """Return the device.

        Raises
        ------
        MissingDependencyError
            If a dependency or the device is missing.
        """


def device_of(engine: Engine) -> Any:
    """Return the device of an engine, None if it computes in this process's memory."""
    return engine.device() if isinstance(engine, DeviceEngine) else None
