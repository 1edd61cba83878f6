"""Tuning of kernels and callers: NumPy or compiled loops, threads, blocks."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["DispatchTuning", "KernelTuning", "dispatch", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DispatchTuning:
    """When NumPy does the work of a compiled loop: :mod:`sparrow.kernels.dispatch`."""

    small_work: int = parameter(1 << 12, "elements", "NumPy processes these as fast as a compiled loop.")
    load_work: int = parameter(
        1 << 21, "elements", "All that NumPy processes in place of one kernel takes as long as loading the kernel."
    )
    forced: str | None = parameter(None, "name", '"numpy" or "numba" for work that both can do; None decides by size.')


dispatch = Tunable(
    "dispatch",
    DispatchTuning(),
    strategies={"numpy": {"forced": "numpy"}, "numba": {"forced": "numba"}, "compiled": {"forced": "numba"}},
)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class KernelTuning:
    """Thresholds that decide how elements are sorted, merged, copied and interned."""

    thread_min_elements: int = parameter(1 << 18, "elements", "Smaller arrays do not repay the start of a thread.")
    merge_chunk_elements: int = parameter(1 << 15, "elements", "Elements merged at a time: they fit the L2 cache.")
    csr_min_row_elements: int = parameter(2, "elements", "Mean row length from which row pointers save memory.")
    counting_sort_max_ratio: int = parameter(4, "ratio", "Rows per element up to which counting sort beats radix sort.")
    stream_copy_min_bytes: int = parameter(1 << 25, "bytes", "Copies larger than the last-level cache bypass it.")
    intern_parallel_min_strings: int = parameter(200_000, "strings", "Fewer strings sort faster on one thread.")
    intern_parallel_memory: float = parameter(2.5, "ratio", "Memory of a parallel sort relative to the string table.")
    seeded_max_columns: int = parameter(
        1 << 20, "columns", "Wider dense rows are filled with a non-zero identity only if the right operand is larger."
    )
    intern_chunk_strings: int = parameter(1 << 17, "strings", "Sorted strings looked up at a time, to bound memory.")


tuning = Tunable("kernels", KernelTuning(), strategies={"compiled": {"merge_chunk_elements": 3}})
