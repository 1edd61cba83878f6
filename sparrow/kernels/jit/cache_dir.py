"""Where compiled loops are kept: beside their source, in the home of the user, or else in a temporary folder."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile

from sparrow.runtime import progress

__all__ = ["ensure_cache_dir"]

_WANTED = "NUMBA_CACHE_DIR"


def ensure_cache_dir() -> None:
    """Have Numba keep loops in a temporary folder where it can keep them nowhere else, and say so once.

    It refuses to define a loop that it cannot keep, as where the installation is read-only and the user has no home
    to write to: in containers.
    """
    caches = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME", "~/.cache")
    beside = os.path.join(os.path.dirname(__file__), "__pycache__")
    for folder in (os.environ.get(_WANTED, ""), beside, os.path.join(os.path.expanduser(caches), "numba")):
        if _can_be_written(folder):
            return
    try:
        kept = _own_folder()
    except OSError:  # then nothing can be kept, and Numba says so where a loop is needed
        return
    os.environ[_WANTED] = kept
    loaded = sys.modules.get("numba.core.config")
    if loaded is not None:
        loaded.CACHE_DIR = kept  # type: ignore[attr-defined]


def _can_be_written(folder: str) -> bool:
    """Return whether files can be put into a folder, which need not be there yet."""
    while folder and not os.path.lexists(folder):
        above = os.path.dirname(folder)
        folder = "" if above == folder else above
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _own_folder() -> str:
    """Return a temporary folder that nobody else can write to, since what lies there is run.

    It is the same for every process, or one of this process alone where somebody else has made that one.
    """
    folder = os.path.join(tempfile.gettempdir(), f"sparrow-loops-{os.getuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
        folder = tempfile.mkdtemp(prefix="sparrow-loops-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    progress.write_note(
        f"sparrow: neither its own folder nor the home can be written to: compiled loops are kept in {folder}, "
        f"set {_WANTED} to keep them elsewhere"
    )
    return folder
