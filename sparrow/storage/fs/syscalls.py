"""System calls that change files, each announced by an event.

A listener that raises acts as a failing disk, or as a process killed at that point.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from sparrow.runtime.events import emit
from sparrow.runtime.foreign_errors import is_interrupt

__all__ = [
    "create",
    "fsync",
    "link",
    "make_folder",
    "make_folders",
    "remove_folder",
    "remove_tree",
    "rename",
    "replace",
    "touch",
    "unlink",
]


def create(path: str, buffer_bytes: int = -1) -> Any:
    """Open a new file for writing; ``FileExistsError`` if the path exists."""
    emit("storage.file_operation", call="open", path=path)
    return open(path, "xb", buffering=buffer_bytes)


def fsync(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Flush an open file or folder to the disk."""
    emit("storage.file_operation", call="fsync", path=path)
    os.fsync(descriptor)


def link(source: str, target: str) -> None:
    """Give a file a second name; ``FileExistsError`` if it exists."""
    emit("storage.file_operation", call="link", path=target)
    os.link(source, target)


def make_folder(path: str) -> None:
    """Create a folder; ``FileExistsError`` if the path exists."""
    emit("storage.file_operation", call="mkdir", path=path)
    os.mkdir(path)


def make_folders(path: str) -> None:
    """Create a folder and its parents, unless they exist."""
    emit("storage.file_operation", call="makedirs", path=path)
    os.makedirs(path, exist_ok=True)


def remove_folder(path: str) -> None:
    """Delete a folder; ``OSError`` unless it is empty."""
    emit("storage.file_operation", call="rmdir", path=path)
    os.rmdir(path)


def remove_tree(path: str, ignore_errors: bool = False) -> None:
    """Delete a folder and everything in it."""
    emit("storage.file_operation", call="rmtree", path=path)
    try:
        shutil.rmtree(path, ignore_errors=ignore_errors)
    except OSError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def rename(source: str, target: str) -> None:
    """Rename a file or folder."""
    emit("storage.file_operation", call="rename", path=target)
    os.rename(source, target)


def replace(source: str, target: str) -> None:
    """Rename a file over another one."""
    emit("storage.file_operation", call="replace", path=target)
    os.replace(source, target)


def touch(path: str) -> None:
    """Set the times of a file to now."""
    emit("storage.file_operation", call="utime", path=path)
    os.utime(path)


def unlink(path: str) -> None:
    """Delete a file."""
    emit("storage.file_operation", call="unlink", path=path)
    os.unlink(path)
