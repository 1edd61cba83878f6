"""Bundles: folders of tensors with a listing, ``bundle.json``, written last."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sparrow.errors import CorruptionError, ExistsError, InvalidValueError, NotFoundError, UnsupportedError
from sparrow.storage.delta.history import table_id
from sparrow.storage.fs.credentials import use_storage_options
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = [
    "bundle_info",
    "check_member_names",
    "check_members",
    "is_bundle",
    "is_tensor",
    "open_bundle",
    "write_bundle",
]

LISTING = "bundle.json"
_FORMAT_VERSION = 1
_CHECKSUM_KEY = "seal"
_MEMBER = re.compile(r"[^\W_][^/\\\0%]*")


def is_tensor(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder contains a Delta log, as every stored tensor does."""
    get_filesystem(path).recover(os.fspath(path))
    return get_filesystem(path).is_folder(os.path.join(path, "_delta_log"))


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a bundle."""
    get_filesystem(path).recover(os.fspath(path))
    return get_filesystem(path).exists(os.path.join(path, LISTING))


def write_bundle(
    folder: str | os.PathLike[str],
    members: Mapping[str, Mapping[str, Any] | None],
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write the listing of a folder of tensors, which makes it a bundle.

    Parameters
    ----------
    folder
        Contains a tensor for each member, in a folder of that name.
    members
        JSON values to record for each member, or None.
    extra
        JSON values to record for the bundle, such as the options of an ingest.

    Raises
    ------
    InvalidValueError
        If a name cannot be a folder name, or begins with ``_`` or ``.``.
    NotFoundError
        If a member does not exist.
    ExistsError
        If the folder is a bundle already.
    UnsupportedError
        If it is on an object store and would replace a tensor.
    """
    check_member_names(members)
    if get_filesystem(folder).is_replacement(os.fspath(folder)):
        raise UnsupportedError(
            f"{os.fspath(folder)!r} is a tensor, and on an object store a bundle cannot replace it in one step: "
            "choose another name, or delete it first"
        )
    for name in members:
        if not is_tensor(os.path.join(folder, name)):
            raise NotFoundError(f"the bundle {os.fspath(folder)!r} has no tensor {name!r}")
    listing = {
        "format_version": _FORMAT_VERSION,
        "members": {name: dict(info or {}) for name, info in members.items()},
        "extra": dict(extra or {}),
        "tables": {name: table_id(os.path.join(folder, name)) for name in members},
    }
    listing[_CHECKSUM_KEY] = _checksum(listing)
    text = json.dumps(listing, ensure_ascii=False, indent=1)
    if not get_filesystem(folder).put(os.path.join(folder, LISTING), text.encode()):
        raise ExistsError(f"{os.fspath(folder)!r} is a bundle already")


def check_member_names(names: Iterable[str]) -> None:
    """Raise ``InvalidValueError`` for names that no member of a bundle can have."""
    for name in names:
        if not _MEMBER.fullmatch(name):
            raise InvalidValueError(
                f"{name!r} cannot name a tensor of a bundle: begin with a letter or digit, without '/' or '%'"
            )


def _checksum(listing: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in listing.items() if key != _CHECKSUM_KEY}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:32]


def _read_listing(path: str | os.PathLike[str]) -> dict[str, Any]:
    get_filesystem(path).recover(os.fspath(path))
    try:
        listing = json.loads(get_filesystem(path).read(os.path.join(path, LISTING)))
        is_listing = isinstance(listing, dict) and isinstance(listing.get("members"), dict)
        intact = not is_listing or _CHECKSUM_KEY not in listing or listing[_CHECKSUM_KEY] == _checksum(listing)
    except NotFoundError:
        raise NotFoundError(f"no bundle at {os.fspath(path)!r}: it has no {LISTING}") from None
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"the {LISTING} of {os.fspath(path)!r} cannot be read: {error}") from None
    if not is_listing:
        raise CorruptionError(f"the {LISTING} of {os.fspath(path)!r} lists no members")
    if not intact:
        raise CorruptionError(f"the {LISTING} of {os.fspath(path)!r} is damaged: its checksum does not match")
    found: dict[str, Any] = listing
    return found


def open_bundle(path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the paths of the members, in the order of the listing.

    Parameters
    ----------
    path
        The folder.
    storage_options
        Options of an object store, which hold for the members too.

    Raises
    ------
    UnsupportedError
        If there are options and the path is not a URL.
    NotFoundError
        If there is no bundle.
    CorruptionError
        If its listing cannot be read.
    """
    with use_storage_options(path, storage_options):
        members = {name: os.path.join(path, name) for name in _read_listing(path)["members"]}
    for name, member in members.items():
        if not _MEMBER.fullmatch(name) or get_filesystem(member).is_link(member):
            raise CorruptionError(f"the bundle {os.fspath(path)!r} lists {name!r}, which leads out of its folder")
    return members


def check_members(path: str | os.PathLike[str]) -> None:
    """Raise unless every member is the tensor that the bundle was written with.

    Commits to a member are allowed, another tensor in its place is not.

    Raises
    ------
    CorruptionError
        If a member is another tensor. Bundles of earlier versions do not tell.
    """
    listing = _read_listing(path)
    for name, expected in listing.get("tables", {}).items():
        found = table_id(os.path.join(path, name))
        if None not in (expected, found) and found != expected:
            raise CorruptionError(
                f"{name!r} of {os.fspath(path)!r} is not the tensor that was saved there: it was swapped or replaced"
            )


def bundle_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the recorded values: ``{"members": {name: {...}}, "extra": {...}}``.

    Raises as :func:`open_bundle`.
    """
    listing = _read_listing(path)
    return {"members": listing["members"], "extra": listing.get("extra", {})}
