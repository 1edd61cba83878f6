"""A bundle: a folder of tensors that belong together, listed in a ``bundle.json`` written last."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparrow.errors import CorruptionError, InvalidValueError, NotFoundError
from sparrow.storage.writer import disk_full, fsync_folder

__all__ = ["bundle_info", "is_bundle", "is_tensor", "open_bundle", "write_bundle"]

LISTING = "bundle.json"
_FORMAT_VERSION = 1
_MEMBER = re.compile(r"[^\W_][^/\\\0%]*")


def is_tensor(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a Delta log, as every stored tensor does."""
    return os.path.isdir(os.path.join(path, "_delta_log"))


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a bundle."""
    return os.path.isfile(os.path.join(path, LISTING))


def write_bundle(
    folder: str | os.PathLike[str],
    members: Mapping[str, Mapping[str, Any] | None],
    extra: Mapping[str, Any] | None = None,
) -> None:
    """List the tensors of a folder, which makes it a bundle.

    Parameters
    ----------
    folder
        Holds a tensor for each member, in a folder of that name.
    members
        Names, and what to record of each (JSON values) or None.
    extra
        What to record of the bundle, such as the options of an ingest.

    Raises
    ------
    InvalidValueError
        If a name is no name of a folder, or begins with ``_`` or ``.``.
    NotFoundError
        If a member is not there.
    """
    for name in members:
        if not _MEMBER.fullmatch(name):
            raise InvalidValueError(
                f"{name!r} cannot name a tensor of a bundle: begin with a letter or digit, no '/', '%'"
            )
        if not is_tensor(os.path.join(folder, name)):
            raise NotFoundError(f"the bundle {os.fspath(folder)!r} has no tensor {name!r}")
    listing = {
        "format_version": _FORMAT_VERSION,
        "members": {name: dict(info or {}) for name, info in members.items()},
        "extra": dict(extra or {}),
    }
    temporary = Path(folder, f".{LISTING}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            json.dump(listing, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, Path(folder, LISTING))
        fsync_folder(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_full(error, folder) from error


def _listing(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with open(os.path.join(path, LISTING), encoding="utf-8") as file:
            listing = json.load(file)
    except FileNotFoundError:
        raise NotFoundError(f"no bundle at {os.fspath(path)!r}: it has no {LISTING}") from None
    except ValueError as error:
        raise CorruptionError(f"the {LISTING} of {os.fspath(path)!r} cannot be read: {error}") from None
    if not isinstance(listing, dict) or not isinstance(listing.get("members"), dict):
        raise CorruptionError(f"the {LISTING} of {os.fspath(path)!r} lists no members")
    return listing


def open_bundle(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the path of each member, in the order they were listed.

    Raises
    ------
    NotFoundError
        If there is no bundle.
    CorruptionError
        If its listing cannot be read.
    """
    return {name: os.path.join(path, name) for name in _listing(path)["members"]}


def bundle_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what was recorded: ``{"members": {name: {...}}, "extra": {...}}``. Raises as :func:`open_bundle`."""
    listing = _listing(path)
    return {"members": listing["members"], "extra": listing.get("extra", {})}
