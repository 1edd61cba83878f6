"""Tuning parameters of the CuPy engine."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["CuPyTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CuPyTuning:
    """Sizes of tiles on the device."""

    max_nested_nodes: int = parameter(24, "nodes", "Nested nodes whose tiles are on the device together.")
    element_device_bytes: int = parameter(
        256, "bytes", "Device memory per element of a tile: keys and values, sorted copies and results."
    )
    element_host_bytes: int = parameter(128, "bytes", "Host memory per element of a tile, on its way in and out.")
    tile_rows: int = parameter(
        1 << 22, "elements", "Largest tile: busies a device, and leaves others to be decoded meanwhile."
    )
    product_bytes: int = parameter(64, "bytes", "Device memory per multiplication until it is added up.")
    batch_length_ratio: float = parameter(
        8.0, "ratio", "Longest row of a batch over its shortest, slack aside: launches cost more than padding."
    )
    batch_length_slack: int = parameter(4, "elements", "Elements by which the longest row may exceed that ratio.")
    resident_element_bytes: int = parameter(64, "bytes", "Device memory per element of the operand that is resident.")


tuning = Tunable("cupy", CuPyTuning())
