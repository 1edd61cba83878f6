"""Tensors on disk: sorted Parquet files under a Delta log.

``save`` and ``open`` give a :class:`StoredHandle`; its snapshots are relations, its ``commit``
applies edits. ``TensorWriter``, ``creating`` and ``create`` are the parts that an ingest puts
together itself; a *bundle* is a folder of tensors that belong together.
"""

from __future__ import annotations

from sparrow.storage.bundle import bundle_info, check_member_names, is_bundle, is_tensor, open_bundle, write_bundle
from sparrow.storage.creation import create, stage_folder
from sparrow.storage.delta.external import delta_table
from sparrow.storage.delta.snapshot import FileRecord, Snapshot
from sparrow.storage.fs.credentials import use_storage_options
from sparrow.storage.fs.filesystem import Folder, Traffic, count_traffic
from sparrow.storage.handle import StoredHandle, iter_commits, open, reopen, save  # noqa: A004
from sparrow.storage.parquet.layout import Profile, Sizes
from sparrow.storage.parquet.writer import DataFile, TensorWriter
from sparrow.storage.verify import Finding

__all__ = [
    "DataFile",
    "FileRecord",
    "Finding",
    "Folder",
    "Profile",
    "Sizes",
    "Snapshot",
    "StoredHandle",
    "TensorWriter",
    "Traffic",
    "bundle_info",
    "check_member_names",
    "count_traffic",
    "create",
    "delta_table",
    "is_bundle",
    "is_tensor",
    "iter_commits",
    "open",
    "open_bundle",
    "reopen",
    "save",
    "stage_folder",
    "use_storage_options",
    "write_bundle",
]
