"""The CuPy engine as the registry knows it: each terminal lowers a plan to tiles and reads them.

What computes is imported when it is first wanted: most processes never use a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import (
    Accumulate,
    Concat,
    Dense,
    DenseContraction,
    Diagonal,
    Map,
    MatMulDense,
    Product,
    Reduce,
    Reshape,
    Root,
    Scan,
    Sort,
    Triangle,
    WithFill,
    nodes_below,
    scans_of,
)
from sparrow.runtime import settings

if TYPE_CHECKING:
    from sparrow.engines.cupy.device import Device

__all__ = ["CuPy"]

_TAKEN = (MatMulDense, Map, Product, Reduce)

_MOVED = ("never", "it moves entries and computes nothing, which is done before they reach the device")

_DECLINED: dict[type[Any], tuple[str, str]] = {
    Accumulate: ("notyet", "running sums of lines on the device"),
    Concat: _MOVED,
    Diagonal: _MOVED,
    WithFill: ("never", "it lists every absent cell"),
    Reshape: _MOVED,
    Sort: ("notyet", "lines in order by sorts on the device"),
    Triangle: _MOVED,
    DenseContraction: ("notyet", "rows of several arrays gathered on the device"),
}


class CuPy:
    """Plans on a GPU.

    Parameters
    ----------
    device
        Returns what computes, whenever a plan is computed; by default the current CUDA device.
    """

    name = "cupy"
    max_depth: int | None = 24

    def __init__(self, device: Callable[[], Device] | None = None) -> None:
        self._given = device

    def check(self) -> None:
        """Raise ``MissingDependencyError`` where there is no CuPy, or no device."""
        self.device()

    def unsupported_reason(self, node: Root) -> str | None:
        """Return why a node is not computed on a device, whatever stands below; None where it is."""
        if isinstance(node, Scan | Dense):
            return None
        if type(node) not in _TAKEN:
            return self.support(type(node))[1]
        if any(one.schema.size >= 2**63 for one in (node, *scans_of(node))) and not isinstance(node, MatMulDense):
            return "cells are numbered in 64 bits there, and a shape has 2^63 or more"
        from sparrow.engines.cupy.nodes import DECLINES

        return DECLINES[type(node)](node)

    def support(self, kind: type[Any]) -> tuple[str, str]:
        """Return how a device stands to a kind of node."""
        if kind in _DECLINED:
            return _DECLINED[kind]
        return ("partly", "by types and functions") if kind in _TAKEN else ("notimpl", "nothing computes it there")

    def entries(self, scan: Scan) -> Block:
        """Return all entries of a scan, canonical, in memory."""
        return scan_reader.entries(self._lowered([scan])[0])

    def blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield all entries of a scan in canonical blocks, sorted by its axes, within the memory limit."""
        yield from scan_reader.sorted_blocks(*self._lowered([scan]))

    def count(self, scan: Scan) -> int:
        """Return the number of entries of a scan."""
        return scan_reader.count(*self._lowered([scan]))

    def scalars(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes of one scan."""
        from sparrow.engines.cupy.reductions import scalars

        return scalars(self.device(), nodes, *self._lowered(nodes[0].scans))

    def array(self, node: MatMulDense | DenseContraction | Accumulate | Map) -> Any:
        """Return the product of a tensor and a dense array."""
        reason = self.unsupported_reason(node)
        if reason is not None or not isinstance(node, MatMulDense):
            raise UnsupportedError(f"engine='cupy': {reason}: use engine='stream'")
        from sparrow.engines.cupy.products import accumulate

        return matmul_dense(node.with_inputs(self._lowered(node.scans)), partial(accumulate, self.device()))

    def describe(self, node: Root) -> str:
        """Return how it runs a node, in a few words for people."""
        threads = settings.current().threads
        return f"decoded on {threads} threads, multiplied on the device" if isinstance(node, MatMulDense) else ""

    def device(self) -> Device:
        """Return what computes.

        Raises
        ------
        MissingDependencyError
            Where there is no CuPy, or no device.
        """
        from sparrow.engines.cupy.device import current_gpu

        return (self._given or current_gpu)()

    def _lowered(self, scans: Sequence[Scan]) -> list[Scan]:
        from sparrow.engines.cupy.nodes import BUILDERS
        from sparrow.engines.cupy.tiles import lowered

        return lowered(self.device(), BUILDERS, scans, nodes_below(scans))
