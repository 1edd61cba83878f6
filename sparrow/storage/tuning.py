"""Tuning parameters of storage: file sizes, prefetching, caches and retries."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["StorageTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StorageTuning:
    """Parameters of :mod:`sparrow.storage`; none changes results or the format."""

    # -- data files
    file_bytes: int = parameter(64 << 20, "bytes", "A file ends at the first row group that reaches this size.")
    file_rows: int = parameter(1 << 62, "rows", "The same bound in rows; none by default.")
    group_rows: int = parameter(1 << 18, "rows", "Rows of a row group, the unit of parallel reads.")
    row_group_slack: int = parameter(
        8, "1/n of a row group", "A row group may end that much earlier, between two rows, so that no row is split."
    )
    page_rows: int = parameter(65536, "rows", "Rows of a Parquet page.")
    encoding_sample_values: int = parameter(16384, "values", "Values sampled to choose an encoding.")
    encoding_trial_min_rows: int = parameter(4096, "rows", "Shorter columns take the default encoding without a trial.")
    changing_file_divisor: int = parameter(
        8, "ratio", "Files that appends rewrite are that much smaller than others, and so cheaper to rewrite."
    )
    small_file_divisor: int = parameter(
        8, "ratio", "A file below 1/n of the full size is small: appends merge into it."
    )
    merge_group_divisor: int = parameter(16, "ratio", "A file below 1/n of a row group is always merged by an append.")
    measured_width_min_nnz: int = parameter(
        1000, "elements", "From here on bytes per element are measured; below, estimated from the schema."
    )

    # -- writing and reading files
    write_buffer_bytes: int = parameter(1 << 20, "bytes", "Buffer of a local file that is written.")
    write_behind_bytes: int = parameter(16 << 20, "bytes", "Encoded bytes that may wait to be hashed and written.")
    write_behind_share: float = memory_share(64, "Encoded bytes that may wait to be hashed and written.")
    hash_block_bytes: int = parameter(1 << 20, "bytes", "Bytes read at a time to hash a file.")
    footer_tail_bytes: int = parameter(1 << 16, "bytes", "First read of a footer; most footers are shorter.")
    cached_footers: int = parameter(4096, "files", "Footers cached by the process.")
    parallel_rewrite_min_rows: int = parameter(1 << 18, "rows", "Files of fewer rows are rewritten by one thread.")

    # -- append runs
    append_run_factor: int = parameter(
        8, "ratio", "Appended rows become a run if a rewrite would touch n times as many, and 1/n of a row group."
    )
    fold_factor: int = parameter(
        2, "ratio", "Runs are folded into the files if these hold at most n times as many rows."
    )
    spilled_part_rows: int = parameter(1 << 16, "rows", "Rows of a large append that are read from disk at a time.")
    spilled_parts_cached: int = parameter(8, "parts", "Parts of a large append that stay in memory.")
    decoded_run_rows: int = parameter(1 << 20, "rows", "Rows of runs that stay decoded, at least.")
    run_chunk_rows: int = parameter(1 << 18, "rows", "Rows of a chunk of merged runs.")
    row_search_max: int = parameter(1 << 12, "rows", "Up to n wanted rows are searched one by one.")

    # -- commits
    commit_attempts: int = parameter(200, "attempts", "Lost races after which a commit raises ConflictError.")
    replaced_attempts: int = parameter(
        20, "attempts", "Times that an opening is repeated while other tensors are saved over the folder."
    )
    backoff_initial_seconds: float = parameter(0.002, "seconds", "Longest wait after the first lost race; doubles.")
    backoff_max_seconds: float = parameter(0.05, "seconds", "Longest wait after any lost race.")
    write_set_ranges: int = parameter(256, "ranges", "Key ranges that a commit notes of the cells it wrote.")
    direct_open_versions: int = parameter(
        10_000, "versions", "Older versions open directly; for later ones delta-rs would list every missing commit."
    )
    suspects_named: int = parameter(
        40, "files", "Log files named if the damaged one is unknown; checkpoints come every 20."
    )

    # -- local file systems
    exchange_folders: bool = parameter(
        True, "flag", "Swap two folders by one system call where the kernel has it; else by three renames."
    )

    # -- object stores
    connections: int = parameter(16, "requests", "Concurrent requests of this process.")
    cached_stores: int = parameter(32, "stores", "Connections kept open, by bucket and options.")
    window_bytes: int = parameter(4 << 20, "bytes", "Range fetched at a time by sequential reads.")
    prefetch_bytes: int = parameter(128 << 20, "bytes", "Prefetched ranges that may wait for their readers.")
    scan_prefetch_groups: int = parameter(16, "row groups", "Row groups that a scan prefetches.")
    scan_prefetch_bytes: int = parameter(32 << 20, "bytes", "Bytes of these row groups.")
    scan_parallel_groups: int = parameter(
        4, "row groups", "Row groups that threads read side by side and that still count as a sequential scan."
    )
    upload_part_bytes: int = parameter(8 << 20, "bytes", "Part of a multipart upload.")
    spool_memory_bytes: int = parameter(1 << 20, "bytes", "Uploads below this size are buffered in memory.")
    abandoned_seconds: float = parameter(
        7 * 86400, "seconds", "Age at which an unpublished tensor of another machine counts as abandoned."
    )
    request_seconds: int = parameter(600, "seconds", "Time limit of a request.")
    cut_attempts: int = parameter(
        40, "attempts", "Times that requests are repeated whose answers end in the middle; opening a log takes several."
    )
    cut_backoff_max_seconds: float = parameter(0.5, "seconds", "Longest wait between two of these.")
    silence_seconds: int = parameter(30, "seconds", "Time limit of a request between two bytes.")
    connect_seconds: int = parameter(10, "seconds", "Time limit of a connection attempt.")


tuning = Tunable("storage", StorageTuning(), strategies={"rename_twice": {"exchange_folders": False}})
