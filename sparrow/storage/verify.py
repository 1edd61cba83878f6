"""Verification of stored tensors: files against the log and their checksums."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import CorruptionError, NotFoundError, StorageError
from sparrow.kernels.coo import Block
from sparrow.relations.protocol import scan
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.file_table import FileTable
from sparrow.storage.delta.history import entry_versions, log_entry, missing_entries, read_commit
from sparrow.storage.delta.labels import label_hash, read_label_file
from sparrow.storage.delta.snapshot import Snapshot, order_folder
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.reader import DATA_FILE, Footer, evict_footer, hash_file, read_footer, to_block

__all__ = ["Finding", "verify"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a stored tensor.

    Examples
    --------
    >>> print(Finding("ab12.parquet", "the file is missing"))
    ab12.parquet: the file is missing
    """

    file: str
    """Path relative to the folder of the tensor."""
    problem: str

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


@dataclass(slots=True)
class _Report:
    """Result of checking one file."""

    findings: list[Finding]
    first: tuple[int, ...] | None = None
    """Key of the first element, in the order."""
    last: tuple[int, ...] | None = None
    content: int = 0
    """Sum of hashes of the elements, independent of their order."""
    is_complete: bool = True


def verify(snapshot: Snapshot) -> list[Finding]:
    """Check every file that a version references.

    Every file is read completely. Checked are its hash (in the name), page checksums, number of rows, bounds in log and
    footer, sort order within and between files, uniqueness, coordinates against the shape, values against the
    fill value, and whether derived orders hold the same elements.

    Returns
    -------
    list of Finding
        Empty if nothing is wrong.
    """
    findings = _verify_log(snapshot, snapshot.path)
    found, content = _verify_table(snapshot, snapshot.base)
    findings += found
    for run in snapshot.runs:
        found, more = _verify_table(snapshot, run)
        findings += found
        content = None if content is None or more is None else (content + more) % 2**64
    if snapshot.runs and content is not None:
        findings += _verify_disjoint(snapshot)
    snapshot.invalidate_orders()
    tables = {order: snapshot.table(order) for order in snapshot.orders[1:]}
    for order, damaged in snapshot.damaged.items():
        if damaged.table is None:
            findings.append(Finding(order_folder(snapshot.path, order)[len(snapshot.path) + 1 :], damaged.problem))
        else:
            tables[order] = damaged.table
    for order, table in tables.items():
        found, other = _verify_table(snapshot, table)
        findings += _verify_log(snapshot, table.folder) + found
        if content is not None and other is not None and content != other:
            where = table.folder[len(snapshot.path) + 1 :]
            findings.append(Finding(where, f"the order {order} does not hold the elements of the base order"))
    for dim, name in sorted(snapshot.metadata.labels.items()):
        findings += [finding for finding in _verify_labels(snapshot, dim, name) if finding not in findings]
    return findings


def _verify_log(snapshot: Snapshot, folder: str) -> list[Finding]:
    """Check the entries of a log.

    The state they add up to was checked when it was opened.
    """
    out: list[Finding] = []
    newest = snapshot.version if folder == snapshot.path else max(entry_versions(folder), default=-1)
    for gap in missing_entries(folder, newest):
        name = log_entry(folder, gap[0])[len(snapshot.path) + 1 :]
        what = f"entries of versions {gap[0]} to {gap[-1]} are" if len(gap) > 1 else f"entry of version {gap[0]} is"
        out.append(Finding(name, f"the {what} missing from the log"))
    for version in range(newest + 1):
        try:
            read_commit(folder, version)
        except CorruptionError as error:
            out.append(Finding(f"{log_entry(folder, version)[len(snapshot.path) + 1 :]}", str(error)))
    return out


def _verify_table(snapshot: Snapshot, table: FileTable) -> tuple[list[Finding], int | None]:
    """Check the files of one order.

    Also return the sum over its elements, None if some are unreadable.
    """
    findings: list[Finding] = []
    content, complete = 0, True
    previous: tuple[tuple[int, ...], str] | None = None

    def check(at: int) -> _Report:
        return _verify_file(snapshot, table, at)

    for at, report in enumerate(ordered_map(check, range(len(table)), settings.current().threads)):
        name = _relative_name(snapshot, table, at)
        findings += report.findings
        content = (content + report.content) % 2**64
        complete &= report.is_complete
        if report.first is None or report.last is None:
            continue
        if previous is not None and report.first <= previous[0]:
            position = _to_dimension_order(report.first, table.order)
            findings.append(
                Finding(name, f"element {position} is stored twice: it is also the last of {previous[1]}")
                if report.first == previous[0]
                else Finding(name, f"it begins at {position}, before the end of {previous[1]}: key ranges overlap")
            )
        previous = max(report.last, previous[0] if previous else report.last), name
    return findings, content if complete else None


def _verify_disjoint(snapshot: Snapshot) -> list[Finding]:
    """Check that no element is in two append runs, or in a run and a base file."""
    for block in scan(snapshot, Box.from_shape(snapshot.schema.shape)):
        same = np.ones(max(block.count - 1, 0), dtype=bool)
        for column in block.coords:
            same &= column[1:] == column[:-1]
        if same.any():
            position = tuple(int(column[same.argmax()]) for column in block.coords)
            names = ", ".join(name for run in snapshot.runs for name in run.names)
            return [
                Finding(names, f"element {position} is stored twice: in two append runs, or in one and a base file")
            ]
    return []


def _verify_file(snapshot: Snapshot, table: FileTable, at: int) -> _Report:
    path, name = table.path(at), _relative_name(snapshot, table, at)
    report = _Report([])

    def problem(text: str) -> None:
        report.findings.append(Finding(name, text))

    try:
        nbytes = get_filesystem(path).size(path)
    except NotFoundError:
        problem("the file is missing")
        report.is_complete = False
        return report
    if nbytes != table.nbytes[at]:
        problem(f"it has {nbytes} bytes, the log says {int(table.nbytes[at])}")
    named = DATA_FILE.fullmatch(table.names[at])
    if named is None:
        low, high = tuple(table.low[at].tolist()), tuple(table.high[at].tolist())
        bounds = f", with coordinates from {low} to {high}" if table.rows[at] >= 0 else ", without statistics"
        problem(f"the name does not follow the pattern of sparrow: another tool added the file{bounds}")
    elif (changed := _hash_mismatch(path, named["sha"])) is not None:
        problem(changed)
    evict_footer(path)
    try:
        found = read_footer(path, len(table.order))
    except (StorageError, pa.ArrowException) as error:
        problem(f"the footer cannot be read: {error}")
        report.is_complete = False
        return report
    rows = 0
    lowest: list[int] = []
    highest: list[int] = []
    schema = snapshot.schema
    for group in range(len(found.rows)):
        try:
            block = _read_checked(path, group, found, schema)
        except CorruptionError as error:
            problem(str(error))
            report.is_complete = False
            continue
        rows += block.count
        for text in _find_problems(block, schema, table.order, report.last, found, group):
            problem(text)
        keys = [block.coords[dim] for dim in table.order]
        if block.count:
            if report.first is None:
                report.first = tuple(int(column[0]) for column in keys)
            report.last = tuple(int(column[-1]) for column in keys)
            bottom, top = [int(c.min()) for c in block.coords], [int(c.max()) for c in block.coords]
            lowest = list(map(min, lowest, bottom)) if lowest else bottom
            highest = list(map(max, highest, top)) if highest else top
        report.content = (report.content + _content_sum(block)) % 2**64
    if not report.is_complete:
        return report
    if rows != table.rows[at]:
        problem(f"it has {rows} rows, the log says {int(table.rows[at])}")
    if rows and (lowest != table.low[at].tolist() or highest != table.high[at].tolist()):
        problem(
            f"coordinates go from {tuple(lowest)} to {tuple(highest)}, the log says from "
            f"{tuple(table.low[at].tolist())} to {tuple(table.high[at].tolist())}"
        )
    if report.first is not None and report.last is not None:
        ends = _to_dimension_order(report.first, table.order), _to_dimension_order(report.last, table.order)
        if ends != (found.first, found.last):
            problem(f"elements go from {ends[0]} to {ends[1]}, the footer says from {found.first} to {found.last}")
    return report


def _find_problems(
    block: Block,
    schema: Schema,
    order: Sequence[int],
    before: tuple[int, ...] | None,
    found: Footer,
    group: int,
) -> Iterator[str]:
    """Yield the problems of a row group, each kind once with its first position."""
    start = int(found.rows[:group].sum())
    if not block.count:
        return

    def position(row: int) -> tuple[int, ...]:
        return tuple(int(column[row]) for column in block.coords)

    keys = [block.coords[dim] for dim in order]
    less, equal = np.zeros(block.count, dtype=bool), np.ones(block.count, dtype=bool)
    for k, column in enumerate(keys):
        earlier = np.empty_like(column)
        earlier[1:] = column[:-1]
        # the first element follows the last one of the row group before
        earlier[0] = -1 if before is None else before[k]
        less |= equal & (column < earlier)
        equal &= column == earlier
    if not keys:
        equal[0] = before is not None
    if less.any():
        row = int(np.flatnonzero(less)[0])
        yield f"row {start + row} (row group {group}): element {position(row)} is out of order"
    if equal.any():
        row = int(np.flatnonzero(equal)[0])
        yield f"row {start + row} (row group {group}): element {position(row)} is stored twice"
    for dim, column in enumerate(block.coords):
        outside = (column < 0) | (column >= schema.shape[dim])
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            yield (
                f"row {start + row} (row group {group}): coordinate {int(column[row])} is out of range for "
                f"dimension {schema.dims[dim]!r} of size {schema.shape[dim]}"
            )
    is_filled = is_fill(block.values, schema.fill_value)
    if is_filled.any():
        row = int(np.flatnonzero(is_filled)[0])
        yield f"row {start + row} (row group {group}): element {position(row)} has the fill value {schema.fill_value}"
    if keys:
        low, high = [int(c.min()) for c in block.coords], [int(c.max()) for c in block.coords]
        if low != found.low[group].tolist() or high != found.high[group].tolist():
            yield f"row group {group}: the statistics of its coordinates are wrong"


def _read_checked(path: str, group: int, found: Footer, schema: Schema) -> Block:
    """Read a row group and verify the checksums of its pages."""
    import pyarrow.parquet as pq

    try:
        with (
            get_filesystem(path).open(path, size=found.size, immutable=True) as raw,
            pq.ParquetFile(raw, metadata=found.metadata, pre_buffer=False, page_checksum_verification=True) as file,
        ):
            return to_block(file.read_row_group(group, use_threads=False), schema.ndim, schema.dtype)
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"row group {group} cannot be read: {' '.join(str(error).split())}") from None


def _content_sum(block: Block) -> int:
    """Return the sum of hashes of the elements, independent of their order."""
    mixed: NDArray[np.uint64] = np.full(block.count, 0x9E3779B97F4A7C15, dtype=np.uint64)
    columns: list[NDArray[Any]] = [column.astype(np.int64) for column in block.coords]
    values = np.ascontiguousarray(block.values)
    if values.dtype.kind == "c":
        columns += [values.real.astype(np.float64), values.imag.astype(np.float64)]
    else:
        columns.append(values.astype(np.float64 if values.dtype.kind == "f" else np.int64))
    for column in columns:
        mixed ^= np.ascontiguousarray(column).view(np.uint64)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(31)
    return int(mixed.sum(dtype=np.uint64))


def _verify_labels(snapshot: Snapshot, dim: int, name: str) -> list[Finding]:
    out: list[Finding] = []
    count, names = 0, [name]
    for at, part in enumerate(names):  # the last file lists those before it
        path = os.path.join(snapshot.path, part)
        if not get_filesystem(path).exists(path):
            return [*out, Finding(part, "the file is missing")]
        changed = _hash_mismatch(path, label_hash(part))
        if changed is not None:
            out.append(Finding(part, changed))
        try:
            array, before = read_label_file(snapshot.path, part, check=False)
        except (CorruptionError, NotFoundError) as error:
            return [*out, Finding(part, str(error))]
        count += len(array)
        names += before if not at else []
    if count < snapshot.schema.shape[dim]:  # shrinking a dimension keeps its labels
        size = snapshot.schema.shape[dim]
        out.append(Finding(name, f"it has {count} labels for dimension {snapshot.schema.dims[dim]!r} of size {size}"))
    return out


def _hash_mismatch(path: str, sha: str) -> str | None:
    """Return a message if the content of a file does not match its hash, or None."""
    try:
        found = hash_file(path)
    except OSError as error:
        return f"the file cannot be read: {error}"
    return None if found.startswith(sha) else "the content does not match the hash in the name: bytes were changed"


def _relative_name(snapshot: Snapshot, table: FileTable, at: int) -> str:
    return table.path(at)[len(snapshot.path) + 1 :]


def _to_dimension_order(key: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    places = dict(zip(order, key, strict=True))
    return tuple(places[dim] for dim in range(len(key)))
