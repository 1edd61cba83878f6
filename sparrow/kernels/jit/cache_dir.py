"""Cache directory of compiled kernels.

Numba caches beside the sources, or in the user's cache directory. It refuses to define cached functions if neither is
writable, as in read-only containers; sparrow then falls back to a temporary directory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile

from sparrow.runtime import progress

__all__ = ["ensure_cache_dir"]

_CACHE_VARIABLE = "NUMBA_CACHE_DIR"


def ensure_cache_dir() -> None:
    """Fall back to a temporary cache directory, with a notice, if none is writable."""
    caches = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME", "~/.cache")
    beside = os.path.join(os.path.dirname(__file__), "__pycache__")
    for folder in (os.environ.get(_CACHE_VARIABLE, ""), beside, os.path.join(os.path.expanduser(caches), "numba")):
        if _is_writable(folder):
            return
    try:
        kept = _private_directory()
    except OSError:  # every process compiles its kernels
        return
    os.environ[_CACHE_VARIABLE] = kept
    loaded = sys.modules.get("numba.core.config")
    if loaded is not None:
        loaded.CACHE_DIR = kept  # type: ignore[attr-defined]


def _is_writable(folder: str) -> bool:
    """Return whether files can be created in a directory, which need not exist yet."""
    while folder and not os.path.lexists(folder):
        above = os.path.dirname(folder)
        folder = "" if above == folder else above
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _private_directory() -> str:
    """Return a temporary directory that only this user can write to.

    Its content is executed. All processes of the user share it; if another user owns it, this process uses its own.
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
        f"sparrow: neither the package directory nor the user cache is writable: compiled kernels are cached in "
        f"{folder}; set {_CACHE_VARIABLE} to choose another directory"
    )
    return folder
