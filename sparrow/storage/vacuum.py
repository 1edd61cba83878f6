"""Deleting what no version needs any more."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import timedelta

from sparrow.errors import InvalidValueError, NotFoundError
from sparrow.storage.delta.labels import LABEL_FILE, LABELS
from sparrow.storage.delta.log import Log
from sparrow.storage.delta.snapshot import ORDERS, Snapshot, derived_orders, follow, order_folder
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.local import TEMPORARY_FILE
from sparrow.storage.parquet.layout import Metadata
from sparrow.storage.parquet.reader import DATA_FILE, evict_footer

__all__ = ["parse_age", "vacuum"]

_LOG_TEMPORARY = re.compile(r"_commit_[0-9a-f-]+\.json(\.tmp)?(#[0-9]+)?|.*\.json#[0-9]+|.*\.parquet#[0-9]+")
_PARTIAL = re.compile(r"\..+\.partial(\.old)?")
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def parse_age(age: str | timedelta) -> timedelta:
    """Return an age such as ``"7 days"``, ``"12 hours"`` or ``"0 seconds"``.

    Raises
    ------
    InvalidValueError
        If it is no age, or negative.

    Examples
    --------
    >>> parse_age("36 hours")
    datetime.timedelta(days=1, seconds=43200)
    """
    if isinstance(age, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", age)
        if match is None or match[2] not in _UNITS:
            raise InvalidValueError(f"{age!r} is no age: say for example '7 days', '12 hours' or '0 seconds'")
        return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
    if not isinstance(age, timedelta):
        raise InvalidValueError(f"{age!r} is no age: say for example '7 days', or give a datetime.timedelta")
    if age < timedelta(0):
        raise InvalidValueError(f"an age must not be negative, got {age}")
    return age


def vacuum(path: str, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
    """Delete data files that only old versions use, and what killed processes left.

    A version can be opened for as long as its files are there; those that were current at the
    horizon or later stay whole. Only files with names that sparrow gives are touched.

    Parameters
    ----------
    path
        The folder of the tensor.
    older_than
        The horizon lies this far back, and younger files are left alone: a writer at work has files
        that no version references yet, so an age shorter than its commit takes may delete them.
    dry_run
        Only say what would go.

    Returns
    -------
    list of str
        What was (or would be) deleted, relative to the folder, sorted.
    """
    horizon = time.time() - parse_age(older_than).total_seconds()
    snapshot = Snapshot(Log.open(path))
    doomed = list(_unused(path, "", horizon))
    for order in derived_orders(path, snapshot.schema.ndim):
        doomed += _vacuum_order(path, order, snapshot, horizon)
    doomed += _leftovers(path, horizon)
    labels = set(map(os.path.basename, snapshot.label_files()))
    for commit in Log.open(path).iter_commits_backward(snapshot.version):
        if commit.timestamp.timestamp() < horizon:
            break
        labels.update(map(os.path.basename, (commit.notes or {}).get("labels", ())))
    for name in get_filesystem(path).names(follow(os.path.join(path, LABELS))):
        old = os.path.join(path, LABELS, name)
        if (
            TEMPORARY_FILE.fullmatch(name) or (LABEL_FILE.fullmatch(f"{LABELS}/{name}") and name not in labels)
        ) and _older(old, horizon):
            doomed.append(os.path.join(LABELS, name))
    if not dry_run:
        for name in doomed:
            full = os.path.join(path, name)
            evict_footer(full)
            get_filesystem(full).delete(full)
    return sorted(doomed)


def _unused(path: str, prefix: str, horizon: float) -> Iterator[str]:
    """Yield the data files and leftovers in one table's folder that may go."""
    log = Log.open(path)
    used = set(Snapshot(log).active.paths)
    version = log.version
    # A file that a commit after the horizon added or removed was current after the horizon.
    for commit in log.iter_commits_backward(version):
        if commit.timestamp.timestamp() < horizon:
            break
        used.update(commit.added, commit.removed)
    for name in get_filesystem(path).names(path):
        if (TEMPORARY_FILE.fullmatch(name) or (DATA_FILE.fullmatch(name) and name not in used)) and _older(
            os.path.join(path, name), horizon
        ):
            yield os.path.join(prefix, name)
    for name in get_filesystem(path).names(os.path.join(path, "_delta_log")):
        if _LOG_TEMPORARY.fullmatch(name) and _older(os.path.join(path, "_delta_log", name), horizon):
            yield os.path.join(prefix, "_delta_log", name)


def _vacuum_order(path: str, order: tuple[int, ...], snapshot: Snapshot, horizon: float) -> list[str]:
    """Return what goes of a derived order: all of it where it is stale and old."""
    folder = follow(order_folder(path, order))
    prefix = folder[len(path) + 1 :]
    try:
        log = Log.open(folder)
    except NotFoundError:
        return [prefix] if _older(folder, horizon) else []
    commit = next(log.iter_commits_backward(log.version), None)
    stale = Metadata.from_json(log.metadata(), repr(folder)).built_from != snapshot.digest
    if stale and (commit is None or commit.timestamp.timestamp() < horizon):
        return [prefix]
    return list(_unused(folder, prefix, horizon))


def _leftovers(path: str, horizon: float) -> Iterator[str]:
    """Yield the folders of orders that were never finished."""
    for name in get_filesystem(path).names(os.path.join(path, ORDERS)):
        if _PARTIAL.fullmatch(name) and _older(os.path.join(path, ORDERS, name), horizon):
            yield os.path.join(ORDERS, name)


def _older(path: str, horizon: float) -> bool:
    try:
        return get_filesystem(path).modified_time(path) <= horizon
    except NotFoundError:
        return False
