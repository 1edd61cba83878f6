"""Tuning parameters of conversions from and to other libraries."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["InteropTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class InteropTuning:
    """Limits on implicit dense arrays, and batch sizes."""

    silent_dense_bytes: int = parameter(100_000_000, "bytes", "Implicit dense arrays up to this size raise no warning.")
    max_dense_bytes: int = parameter(1_000_000_000, "bytes", "Implicit dense arrays beyond it raise TooLargeError.")
    warn_expansion: int = parameter(10, "ratio", "Dense to sparse size from which an implicit dense array warns.")
    max_expansion: int = parameter(100, "ratio", "Dense to sparse size from which a large one raises TooLargeError.")
    search_row_elements: int = parameter(
        4, "elements", "Elements per row from which NumPy finds row pointers faster by binary search than by counting."
    )
    search_row_elements_compiled: int = parameter(400, "elements", "The same where the compiled loop is loaded.")
    batch_rows: int = parameter(1 << 18, "rows", "Rows of a batch read from DuckDB or Polars.")
    table_copies: int = parameter(3, "copies", "Copies of a table held while it becomes elements.")


tuning = Tunable("interop", InteropTuning())
