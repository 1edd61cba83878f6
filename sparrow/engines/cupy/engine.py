"""CuPy engine: lowers a plan to tiles on a device and reads them.

The modules that compute are imported on first use, since most processes never use a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparrow.engines.cupy.tuning import tuning
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import (
    Accumulate,
    Concat,
    Contraction,
    Dense,
    Diagonal,
    Map,
    Node,
    Reduce,
    Reshape,
    Root,
    Scan,
    Sort,
    TopK,
    Triangle,
    WithFill,
    matrix_form,
    nodes_below,
    scans_of,
)
from sparrow.runtime import settings

if TYPE_CHECKING:
    from sparrow.engines.cupy.device import Device

__all__ = ["CuPy"]

_SUPPORTED = (Contraction, Map, Reduce)

_STRUCTURAL = ("never", "it moves elements only, before they reach the device")

_UNSUPPORTED: dict[type[Any], tuple[str, str]] = {
    Accumulate: ("notyet", "cumulative sums on the device"),
    Concat: _STRUCTURAL,
    Diagonal: _STRUCTURAL,
    WithFill: ("never", "every absent element becomes a stored one"),
    Reshape: _STRUCTURAL,
    Sort: ("notyet", "segmented sorts on the device"),
    TopK: ("notyet", "selecting from segments on the device"),
    Triangle: _STRUCTURAL,
}


class CuPy:
    """Engine that computes on a GPU.

    Parameters
    ----------
    device
        Returns the device for each evaluation; by default the current CUDA device.
    """

    name = "cupy"
    reads_chunks = True
    max_operands: int | None = 2
    max_scans: int | None = None

    def __init__(self, device: Callable[[], Device] | None = None) -> None:
        self._given = device

    @property
    def max_depth(self) -> int | None:
        """Nesting whose tiles are held on the device together."""
        return tuning().max_nested_nodes

    def check(self) -> None:
        """Raise ``MissingDependencyError`` if CuPy or a device is missing."""
        self.device()

    def unsupported_reason(self, node: Root) -> str | None:
        """Return why a node is not supported, whatever its operands; None if it is."""
        if isinstance(node, Scan | Dense):
            return None
        if type(node) not in _SUPPORTED:
            return self.support(type(node))[1]
        sizes = [node.schema.size, *(scan.schema.size for scan in scans_of(node))]
        if max(sizes) >= 2**63 and not (isinstance(node, Contraction) and node.is_dense):
            return "flat positions have 64 bits, and a shape has 2^63 elements or more"
        from sparrow.engines.cupy.nodes import UNSUPPORTED_REASONS

        return UNSUPPORTED_REASONS[type(node)](node)

    def support(self, node_type: type[Any]) -> tuple[str, str]:
        """Return the support for a type of nodes, and a reason."""
        if node_type in _UNSUPPORTED:
            return _UNSUPPORTED[node_type]
        return ("partly", "by dtype and function") if node_type in _SUPPORTED else ("notimpl", "no builder")

    def evaluate(self, scan: Scan) -> Block:
        """Return all elements of a scan, canonical, in memory."""
        return scan_reader.read_block(self._lower([scan])[0])

    def iter_blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield the elements of a scan in canonical blocks, in the order of its axes."""
        yield from scan_reader.iter_sorted_blocks(*self._lower([scan]))

    def count_nnz(self, scan: Scan) -> int:
        """Return the number of stored elements of a scan."""
        return scan_reader.count_nnz(*self._lower([scan]))

    def reduce_all(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes of one scan."""
        from sparrow.engines.cupy.reductions import reduce_all

        return reduce_all(self.device(), nodes, *self._lower(nodes[0].scans))

    def evaluate_dense(self, node: Node) -> Any:
        """Return the product of a tensor and a dense array."""
        reason = self.unsupported_reason(node)
        if reason is not None or not isinstance(node, Contraction):
            raise UnsupportedError(f"engine='cupy': {reason}: use engine='stream'")
        from sparrow.engines.cupy.products import accumulate_matmul

        form = matrix_form(node.with_inputs(self._lower(node.scans)))
        assert form is not None
        return matmul_dense(form, node.schema.dtype, partial(accumulate_matmul, self.device()))

    def describe(self, node: Root) -> str:
        """Return the physical strategy for a node."""
        threads = settings.current().threads
        is_product = isinstance(node, Contraction)
        return f"decoded on {threads} threads, multiplied on the device" if is_product else ""

    def device(self) -> Device:
        """Return the device.

        Raises
        ------
        MissingDependencyError
            If CuPy or a device is missing.
        """
        from sparrow.engines.cupy.device import current_gpu

        return (self._given or current_gpu)()

    def _lower(self, scans: Sequence[Scan]) -> list[Scan]:
        from sparrow.engines.cupy.nodes import BUILDERS
        from sparrow.engines.cupy.tiles import lower

        return lower(self.device(), BUILDERS, scans, nodes_below(scans))
