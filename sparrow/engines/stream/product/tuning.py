"""Tuning of products: strategy, partition sizes, memory shares, thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["ProductTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ProductTuning:
    """Tuning parameters of products of tensors, and of a tensor with arrays.

    Shares of "working memory" are parts of :func:`sparrow.runtime.memory.working_bytes`, others of what is free.
    """

    tiling: str | None = parameter(
        None,
        "name",
        'Tiling to prefer: "whole", "row_subset", "row_sections" or "k_panels". Where operands do not admit it, the '
        "next one that they do is taken. None decides by cost.",
    )
    lhs_layout: str | None = parameter(
        None, "name", 'Left operand where the right one is held: "csr" or "row_blocks". None decides by size.'
    )
    combine: str | None = parameter(
        None, "name", 'Combination of the preferred tiling: "add" or "external_sort" of k-panels. None takes any.'
    )
    kernel: str | None = parameter(
        None, "name", 'Kernel of products at a mask: "masked" or "dot". None decides by cost.'
    )
    output: str | None = parameter(
        None, "name", '"blocks" where rows in "csr" or a "scalar" sum would do. None takes the cheapest.'
    )

    # Several products at once
    max_divided_products: int = parameter(
        4, "products", "Products of a plan among which memory is divided; more are seldom read at the same time."
    )
    wait_seconds: float = parameter(
        60.0, "seconds", "A product waits so long for memory of other plans before it raises TooLargeError."
    )
    wait_poll_seconds: float = parameter(0.05, "seconds", "A waiting product looks for memory this often.")

    # Partitions of the output
    partition_products: int = parameter(
        1 << 21, "products", "Products that a thread computes at a time where memory is ample; else half as many."
    )
    min_partition_products: int = parameter(
        1 << 17, "products", "Products that a thread computes at a time where memory is scarce, at least."
    )
    product_bytes: int = parameter(
        512, "bytes", "Working memory per product: output, what is computed from it, and what waits for its turn."
    )
    partition_threads: int = parameter(
        4,
        "threads",
        "Threads that multiply at a time where memory is scarce. Partitions do not depend on the actual number, "
        "since reductions round per partition.",
    )
    masked_sum_partitions: int = parameter(
        4, "partitions", "Partitions joined for a sum at a mask, which writes no elements."
    )
    csr_output_partitions: int = parameter(
        2, "partitions", "A partition with several row axes is written as CSR up to this multiple of its usual size."
    )

    # Operands in memory
    lhs_share: float = memory_share(4, "Left operand held in memory; a larger one is read twice, by partition.")
    rhs_share: float = memory_share(3, "Right operand held in working memory; a larger one spills.")
    row_subset_ratio: int = parameter(
        16, "ratio", "Right per left elements from which only the matching rows of the right operand are read."
    )
    mask_rows_ratio: int = parameter(
        4, "ratio", "Left elements per mask element from which only the left rows that the mask has are read."
    )
    counted_rows_ratio: int = parameter(
        4, "ratio", "Coordinates per element up to which row bounds of a mask are counted rather than searched."
    )
    index_bytes: int = parameter(24, "bytes", "Composite code of an element and its hash table entry.")

    # Masked products
    dot_step_products: int = parameter(2, "products", "A step of a dot product costs as much.")
    csc_element_products: int = parameter(8, "products", "Converting an element from CSR to CSC costs as much.")
    dense_rows_share: float = memory_share(4, "Dense rows of all threads; threads without one wait.")

    # Accumulators of rows
    gather_limit: int = parameter(
        128, "products", "Products of a row gathered into slots, at most; 256 slow down web graphs by a fifth."
    )
    topk_columns_ratio: int = parameter(
        16, "ratio", "Columns per product up to which the largest of a row are selected from a dense row."
    )
    topk_columns: int = parameter(
        128, "columns", "Columns of a dense row that are scanned as fast as one of the largest elements is selected."
    )
    count_batch_elements: int = parameter(
        1 << 19, "elements", "Left elements whose products a thread counts at a time."
    )

    # Composite indices
    dense_codes_ratio: int = parameter(
        4, "ratio", "Coordinates per element up to which every coordinate keeps a code of its own."
    )
    dense_codes_min: int = parameter(1 << 16, "codes", "Fewer codes are never factorized.")
    hash_min_values: int = parameter(1 << 14, "values", "A hash table beats a binary search from here on.")
    lookup_batch_values: int = parameter(1 << 18, "values", "Values that a thread looks up at a time.")

    # Spilled operands: panels and left tiles
    part_share: float = memory_share(2, "A panel of the right operand, in working memory.")
    min_part_bytes: int = parameter(1 << 20, "bytes", "A panel takes at least so much.")
    lhs_row_share: float = memory_share(16, "A row of the left operand in working memory; longer rows do not tile.")
    lhs_tile_divisor: int = parameter(1 << 11, "bytes per element", "Memory limit per element of a left tile.")
    min_batch_elements: int = parameter(1 << 14, "elements", "Elements processed at a time, at least.")
    max_batch_elements: int = parameter(1 << 18, "elements", "Elements processed at a time, at most.")
    part_output_divisor: int = parameter(
        1 << 10, "bytes per element", "Memory limit per output element computed, and read back, at a time."
    )

    # Row sections
    section_share: float = memory_share(1.5, "Right rows that a section multiplies, in working memory.")
    section_overhead_share: float = memory_share(
        1.5, "Part of a section's memory that row pointers and per-thread buffers may take."
    )
    section_elements: int | None = parameter(
        None, "elements", "Fixed size of a section for tests; None computes it from the share."
    )
    section_mask_bytes: int = parameter(4_000_000, "bytes", "Mask row group that each thread reads.")
    section_max_reads: float = parameter(
        4, "elements per product", "More reads of the right operand take longer than spilling partial results."
    )
    section_max_rows: int = parameter(2**31 - 1, "rows", "Left rows numbered by int32.")
    section_uneven_ratio: float = parameter(1.5, "ratio", "A section of one row may exceed its size by so much.")
    section_partition_divisor: int = parameter(
        1 << 9, "bytes per product", "Memory limit per product of a partition of a section."
    )
    section_max_partition_products: int = parameter(
        1 << 20, "products", "Products of a partition of a section, at most."
    )
    section_wait_seconds: float = parameter(
        0.02, "seconds", "A thread waits so long for one that got an earlier partition and may not have started."
    )

    # External sums
    panel_share: float = memory_share(4, "A panel of the right operand, in working memory.")
    panel_element_bytes: int = parameter(64, "bytes", "An element takes about so much while it is multiplied.")
    min_panel_elements: int = parameter(1 << 14, "elements", "Elements of a panel or batch, at least.")
    max_panel_batch: int = parameter(1 << 18, "elements", "Left elements multiplied with a panel at a time, at most.")
    max_panel_products: int = parameter(1 << 20, "products", "Products that a thread computes at a time, at most.")
    panel_products_divisor: int = parameter(
        1 << 12, "bytes per product", "Memory limit per product computed at a time, where it is small."
    )

    # Chains of products
    chain_step_share: float = memory_share(4, "Result of a step that is computed into memory.")

    # Products with dense arrays
    sampled_batch_elements: int = parameter(
        1 << 16,
        "elements",
        "Stored elements of a sampled product that a thread processes at a time; enough to hide its dispatch.",
    )


tuning = Tunable(
    "product",
    ProductTuning(),
    strategies={
        "in_memory": {"tiling": "whole", "lhs_layout": "csr"},
        "streamed_lhs": {"tiling": "whole", "lhs_layout": "row_blocks"},
        "row_subset": {"tiling": "row_subset"},
        "row_sections": {"tiling": "row_sections", "section_max_reads": 1e6},
        "k_panels": {"tiling": "k_panels", "combine": "add"},
        "external_sum": {"tiling": "k_panels", "combine": "external_sort"},
        "masked_rows": {"kernel": "masked"},
        "masked_dot": {"kernel": "dot"},
        "topk_rows": {"topk_columns_ratio": 1 << 40},
        "block_output": {"output": "blocks"},
    },
)
