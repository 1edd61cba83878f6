"""Stored tensors: sorted Parquet files under a Delta log.

:func:`save` and :func:`open` return a :class:`StoredHandle`: its snapshots are relations, its commits apply edits.
``stage_folder``, ``TensorWriter`` and ``create`` are the steps of :func:`save`, for readers of files. A *bundle* is a
folder of tensors that belong together.
"""

from __future__ import annotations

from sparrow.storage.bundle import (
    bundle_info,
    check_member_names,
    check_members,
    is_bundle,
    is_tensor,
    open_bundle,
    write_bundle,
)
from sparrow.storage.creation import can_share, create, has_own_options, share_folder, stage_folder
from sparrow.storage.delta.external import delta_table
from sparrow.storage.delta.snapshot import FileRecord, Snapshot
from sparrow.storage.fs.credentials import use_storage_options
from sparrow.storage.fs.protocols import Folder
from sparrow.storage.fs.traffic import Traffic, count_files, count_traffic
from sparrow.storage.handle import StoredHandle, iter_commits, open, reopen, save  # noqa: A004
from sparrow.storage.parquet.layout import PROFILE_READERS, Profile, Sizes
from sparrow.storage.parquet.writer import DataFile, TensorWriter
from sparrow.storage.verify import Finding

__all__ = [
    "PROFILE_READERS",
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
    "can_share",
    "check_member_names",
    "check_members",
    "count_files",
    "count_traffic",
    "create",
    "delta_table",
    "has_own_options",
    "is_bundle",
    "is_tensor",
    "iter_commits",
    "open",
    "open_bundle",
    "reopen",
    "save",
    "share_folder",
    "stage_folder",
    "use_storage_options",
    "write_bundle",
]
