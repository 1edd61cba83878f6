"""What a process puts on an object store before it is visible, and the marker that tells whose it is."""

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
    "is_gone",
    "is_marker",
    "making",
    "new_marker",
    "note",
    "turn",
    "visible",
]

LOG, LISTING, LABELS = "_delta_log", "bundle.json", "_labels"
_MARKER = re.compile(r"_creating-(?P<host>.{0,40})-(?P<pid>[0-9]+)-[0-9a-f]{12}")


def is_marker(name: str) -> bool:
    """Return whether a name is that of a marker."""
    return _MARKER.fullmatch(name) is not None


def new_marker() -> str:
    """Return a name that tells host and process."""
    return f"_creating-{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(6).hex()}"


def is_gone(marker: str) -> bool | None:
    """Return whether the process that put a marker is gone; None where it is one of another machine."""
    found = _MARKER.fullmatch(marker)
    assert found is not None
    return not is_process_alive(int(found["pid"])) if found["host"] == socket.gethostname()[:40] else None


class Staging:
    """What a process puts below a path that is not published yet."""

    def __init__(self, path: str, marker: str | None) -> None:
        self.path, self.marker = path, marker
        self.is_replacement = marker is None
        self.written: set[str] = set()
        self.published = False
        self.guard = threading.Lock()


making: ContextVar[tuple[Staging, ...]] = ContextVar("sparrow_staging", default=())


def note(path: str) -> None:
    """Take note that a file was put, for all that is being made here."""
    for each in making.get():
        if path.startswith(f"{each.path}/"):
            with each.guard:
                each.written.add(path)


def visible(names: Sequence[str]) -> bool:
    """Return whether the names in a folder are those of a tensor or bundle."""
    return LOG in names or LISTING in names


def turn(path: str) -> int:
    """Return when a file is deleted: nothing incomplete is visible, and the marker tells to the end whose it was."""
    name = path.rpartition("/")[2]
    if f"/{LOG}/" in path or name == LISTING:
        return 0
    return 2 if is_marker(name) else 1
