"""Deletion of files that no recent version uses."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import timedelta

from sparrow.errors import InvalidValueError, NotFoundError
from sparrow.storage.delta.labels import LABEL_FILE, LABELS
from sparrow.storage.delta.log import Log
from sparrow.storage.delta.snapshot import ORDERS, Snapshot, check_not_link, list_orders, order_folder
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.local import TEMPORARY_FILE
from sparrow.storage.parquet.reader import DATA_FILE, evict_footer

__all__ = ["parse_age", "vacuum"]

_LOG_TEMPORARY_FILE = re.compile(r"_commit_[0-9a-f-]+\.json(\.tmp)?(#[0-9]+)?|.*\.json#[0-9]+|.*\.parquet#[0-9]+")
_UNFINISHED_ORDER = re.compile(r"\..+\.partial(\.old)?")
_SECONDS_PER_UNIT = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def parse_age(age: str | timedelta) -> timedelta:
    """Return an age such as ``"7 days"``, ``"12 hours"`` or ``"0 seconds"``.

    Raises
    ------
    InvalidValueError
        If it is not an age, or negative.

    Examples
    --------
    >>> parse_age("36 hours")
    datetime.timedelta(days=1, seconds=43200)
    """
    if isinstance(age, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", age)
        if match is None or match[2] not in _SECONDS_PER_UNIT:
            raise InvalidValueError(
                f"an age must be a number and a unit, such as '7 days', '12 hours' or '0 seconds', got {age!r}"
            )
        return timedelta(seconds=float(match[1]) * _SECONDS_PER_UNIT[match[2]])
    if not isinstance(age, timedelta):
        raise InvalidValueError(f"an age must be a string such as '7 days' or a datetime.timedelta, got {age!r}")
    if age < timedelta(0):
        raise InvalidValueError(f"an age must not be negative, got {age}")
    return age


def vacuum(path: str, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
    """Delete data files that only old versions use, and what killed processes left.

    Versions that were current at the horizon or later stay complete. Only files named
    by sparrow are deleted.

    Parameters
    ----------
    path
        The folder of the tensor.
    older_than
        Distance of the horizon. Younger files are never deleted: a running writer has files that no version references
        yet, so an age shorter than its commit takes may delete them.
    dry_run
        Only return what would be deleted.

    Returns
    -------
    list of str
        What was (or would be) deleted, relative to the folder, sorted.
    """
    horizon = time.time() - parse_age(older_than).total_seconds()
    snapshot = Snapshot(Log.open(path))
    unused = list(_unused_files(path, "", horizon))
    for order in list_orders(path, snapshot.schema.ndim):
        unused += _vacuum_order(path, order, snapshot, horizon)
    unused += _unfinished_orders(path, horizon)
    labels = set(map(os.path.basename, snapshot.label_files()))
    for commit in Log.open(path).iter_commits_backward(snapshot.version):
        if commit.timestamp.timestamp() < horizon:
            break
        labels.update(map(os.path.basename, (commit.notes or {}).get("labels", ())))
    for name in get_filesystem(path).names(check_not_link(os.path.join(path, LABELS))):
        old = os.path.join(path, LABELS, name)
        if (
            TEMPORARY_FILE.fullmatch(name) or (LABEL_FILE.fullmatch(f"{LABELS}/{name}") and name not in labels)
        ) and _is_older(old, horizon):
            unused.append(os.path.join(LABELS, name))
    if not dry_run:
        for name in unused:
            full = os.path.join(path, name)
            evict_footer(full)
            get_filesystem(full).delete(full)
    return sorted(unused)


def _unused_files(path: str, prefix: str, horizon: float) -> Iterator[str]:
    """Yield the data files and leftovers of a table that may be deleted."""
    log = Log.open(path)
    used = set(Snapshot(log).active.paths)
    version = log.version
    # A file that a commit after the horizon added or removed was current after the horizon.
    for commit in log.iter_commits_backward(version):
        if commit.timestamp.timestamp() < horizon:
            break
        used.update(commit.added, commit.removed)
    for name in get_filesystem(path).names(path):
        if (TEMPORARY_FILE.fullmatch(name) or (DATA_FILE.fullmatch(name) and name not in used)) and _is_older(
            os.path.join(path, name), horizon
        ):
            yield os.path.join(prefix, name)
    for name in get_filesystem(path).names(os.path.join(path, "_delta_log")):
        if _LOG_TEMPORARY_FILE.fullmatch(name) and _is_older(os.path.join(path, "_delta_log", name), horizon):
            yield os.path.join(prefix, "_delta_log", name)


def _vacuum_order(path: str, order: tuple[int, ...], snapshot: Snapshot, horizon: float) -> list[str]:
    """Return the files to delete of a derived order, all if it is stale and old."""
    folder = check_not_link(order_folder(path, order))
    prefix = folder[len(path) + 1 :]
    try:
        log = Log.open(folder)
    except NotFoundError:
        return [prefix] if _is_older(folder, horizon) else []
    commit = next(log.iter_commits_backward(log.version), None)
    stale = log.read_metadata().built_from != snapshot.digest
    if stale and (commit is None or commit.timestamp.timestamp() < horizon):
        return [prefix]
    return list(_unused_files(folder, prefix, horizon))


def _unfinished_orders(path: str, horizon: float) -> Iterator[str]:
    """Yield the folders of derived orders that were never finished."""
    for name in get_filesystem(path).names(os.path.join(path, ORDERS)):
        if _UNFINISHED_ORDER.fullmatch(name) and _is_older(os.path.join(path, ORDERS, name), horizon):
            yield os.path.join(ORDERS, name)


def _is_older(path: str, horizon: float) -> bool:
    try:
        return get_filesystem(path).modified_time(path) <= horizon
    except NotFoundError:
        return False
