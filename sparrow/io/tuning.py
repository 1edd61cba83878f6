"""Tuning parameters of readers and writers: block sizes, batches, limits."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["IoTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class IoTuning:
    """Sizes of what is read, parsed and written at once."""

    # Text
    block_bytes: int = parameter(1 << 22, "bytes", "Text parsed by one thread at a time; smaller blocks wait for I/O.")
    libsvm_block_bytes: int = parameter(
        1 << 20, "bytes", "Smaller than block_bytes: the arrays of a block take several times its text."
    )
    libsvm_thread_bytes: int = parameter(
        30_000_000, "bytes", "Memory of the blocks that one thread has in flight, from text to elements."
    )
    read_ahead_blocks: int = parameter(
        2, "blocks", "Blocks the reader thread is ahead; one hides the latency of disks."
    )
    max_line_bytes: int = parameter(1 << 30, "bytes", "A longer line is taken for binary data.")
    line_memory_parts: int = memory_share(4, "Longest line of text, or record of CSV.")
    bomb_min_bytes: int = parameter(
        10**9, "bytes", "Text that unpacks to less is never taken for a decompression bomb."
    )
    bomb_ratio: int = parameter(500, "ratio", "Unpacked to packed size of text; real files stay below 100.")
    pipe_join_seconds: float = parameter(
        0.2, "seconds", "Wait for the reader thread of a pipe, which may never answer."
    )
    detection_bytes: int = parameter(1 << 16, "bytes", "Text examined to detect a format.")
    peek_bytes: int = parameter(1 << 20, "bytes", "Start of an open file examined; bzip2 packs 900 kB at once.")
    detection_lines: int = parameter(1000, "lines", "Lines examined to tell an edge list from other text.")
    delimiter_sample_bytes: int = parameter(1 << 20, "bytes", "Start of CSV, whose first line tells the delimiter.")
    json_max_depth: int = parameter(200, "levels", "Nesting left to pyarrow, whose parser recurses on the C stack.")

    # Tables
    batch_rows: int = parameter(1 << 18, "rows", "Rows of a batch read from Parquet, DuckDB or Polars.")
    append_copies: int = parameter(3, "copies", "Copies of a table held while it becomes elements to append.")
    min_compression: int = parameter(
        50, "ratio", "A table of this many bytes takes at least one byte as a tensor; checks the disk beforehand."
    )

    # Binary files
    hdf5_rows: int = parameter(1 << 18, "rows", "Entries of indptr read at once.")
    hdf5_elements: int = parameter(1 << 19, "elements", "Elements read at once.")
    hdf5_dense_elements: int = parameter(1 << 21, "elements", "Elements of a dense dataset read at once.")
    hdf5_bomb_ratio: int = parameter(2000, "ratio", "Unpacked to stored size of a dataset; zlib reaches 1000.")
    hdf5_label_batch: int = parameter(1 << 16, "labels", "Labels written at once, as Python strings.")
    npy_block_bytes: int = parameter(1 << 22, "bytes", "Bytes of a dense array read or written at once.")
    tfrecord_block_bytes: int = parameter(1 << 22, "bytes", "Bytes of TFRecord frames read at once.")
    bvgraph_block_bytes: int = parameter(1 << 22, "bytes", "Bytes of a bit stream read at once.")
    bvgraph_lists: int = parameter(1 << 18, "lists", "Successor lists decoded at once.")
    bvgraph_links: int = parameter(1 << 19, "links", "Links decoded at once, unless one list is longer.")

    counted_ids: int = parameter(1 << 24, "ids", "Ids below this are counted with a byte each, to find gaps.")
    sparse_ids: int = parameter(
        4, "ratio", "Size over ids that occur, from which ids are sparse; isolated nodes of graphs make it 2."
    )
    min_id_gaps: int = parameter(100, "ids", "Fewer gaps between ids are not worth a warning, whatever their share.")
    max_first_id: int = parameter(10_000, "ids", "Ids that begin below, such as years, are an offset and no gap.")

    # Writing elements
    id_merge_min: int = parameter(1 << 20, "ids", "New ids of a column gathered before they are merged and sorted.")
    label_memory_parts: float = memory_share(2.5, "Distinct labels of one ingest.")
    spill_queue_divisor: int = parameter(2, "ratio", "Part of the sort budget for rows that wait for their labels.")
    label_batch_bytes: int = parameter(2_000_000, "bytes", "Label texts of libsvm handled at once.")
    edge_bytes: float = parameter(2.5, "bytes", "Estimate of an element of libsvm on disk, its value apart.")
    disk_margin: float = parameter(0.7, "ratio", "Part of the estimated size of libsvm that must fit the disk.")
    gzip_level: int = parameter(1, "level", "Fastest: higher levels save few bytes for several times the seconds.")
    blank_lines: int = parameter(1 << 20, "lines", "Blank lines of isolated nodes written at once.")


tuning = Tunable(
    "io", IoTuning(), strategies={"small_blocks": {"block_bytes": 64, "libsvm_block_bytes": 64, "hdf5_elements": 2}}
)
