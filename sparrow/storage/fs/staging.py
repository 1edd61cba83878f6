"""Unpublished tensors on object stores, and the markers of their owners."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Sequence
from contextvars import ContextVar

from sparrow.storage.fs.local import is_process_alive

__all__ = [
    "LABELS",
    "LISTING",
    "LOG",
    "Staging",
    "current",
    "deletion_rank",
    "is_marker",
    "is_owner_dead",
    "is_visible",
    "new_marker",
    "note_written",
]

LOG, LISTING, LABELS = "_delta_log", "bundle.json", "_labels"
_MARKER = re.compile(r"_creating-(?P<host>.{0,40})-(?P<pid>[0-9]+)-[0-9a-f]{12}")


class Staging:
    """A tensor or bundle that this process writes below a path and has not published.

    Parameters
    ----------
    path
        The folder.
    marker
        File that names this process as the owner; None where a visible tensor is replaced.
    """

    def __init__(self, path: str, marker: str | None) -> None:
        self.path, self.marker = path, marker
        self.is_replacement = marker is None
        self.written: set[str] = set()
        self.published = False
        self.guard = threading.Lock()


current: ContextVar[tuple[Staging, ...]] = ContextVar("sparrow_staging", default=())


def is_marker(name: str) -> bool:
    """Return whether a file is a marker."""
    return _MARKER.fullmatch(name) is not None


def new_marker() -> str:
    """Return a new marker name with host and process id."""
    return f"_creating-{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(6).hex()}"


def is_owner_dead(marker: str) -> bool | None:
    """Return whether the owner of a marker has ended, None on other machines."""
    found = _MARKER.fullmatch(marker)
    assert found is not None
    return not is_process_alive(int(found["pid"])) if found["host"] == socket.gethostname()[:40] else None


def note_written(path: str) -> None:
    """Note a file for every staging that contains it."""
    for each in current.get():
        if path.startswith(f"{each.path}/"):
            with each.guard:
                each.written.add(path)


def is_visible(names: Sequence[str]) -> bool:
    """Return whether the names in a folder are those of a published tensor or bundle."""
    return LOG in names or LISTING in names


def deletion_rank(path: str) -> int:
    """Return when a file is deleted: log and listing first, the marker last."""
    name = path.rpartition("/")[2]
    if f"/{LOG}/" in path or name == LISTING:
        return 0
    return 2 if is_marker(name) else 1
