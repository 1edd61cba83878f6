"""Answers to the requests of a page, as plain values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.engines import scan_chunks
from sparrow.engines.sort_orders import scan_order
from sparrow.errors import InvalidValueError
from sparrow.explorer.binning import WindowCounts
from sparrow.explorer.catalog import Catalog, Subject, as_json, cut
from sparrow.explorer.queries import Queries
from sparrow.explorer.tuning import tuning
from sparrow.explorer.window import Window
from sparrow.runtime import memory
from sparrow.runtime.events import emit
from sparrow.storage.delta.file_table import FileTable, select_row_groups
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.tensor import Tensor

__all__ = ["Answers", "Arrays"]


@dataclass(frozen=True)
class Arrays:
    """An answer with arrays, which are sent as 32-bit floats behind the rest."""

    header: dict[str, Any]
    arrays: tuple[NDArray[np.float32], ...]


@dataclass(frozen=True)
class _Asked:
    """Tensor and window of a request."""

    subject: Subject
    version: Any
    tensor: Tensor
    window: Window


class Answers:
    """Answers of one explorer.

    Parameters
    ----------
    catalog
        The tensors.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.queries = Queries()
        self._windows: OrderedDict[Hashable, WindowCounts] = OrderedDict()
        self._turn = threading.Lock()
        """Pictures are computed one at a time: two at once would each take twice as long."""
        self._newest: dict[str, int] = {}
        self.by_name: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any] | Arrays]] = {
            "meta": self.meta,
            "describe": self.describe,
            "bins": self.bins,
            "distributions": self.distributions,
            "elements": self.elements,
            "groups": self.groups,
            "plan": self.plan,
            "search": self.search,
            "versions": self.versions,
            "sql": self.sql,
            "cancel": self.cancel,
        }

    # -- tensors ----------------------------------------------------------------------------------

    def meta(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors of the page."""
        subjects = self.catalog.subjects.values()
        return {"title": self.catalog.title, "tensors": [subject.describe(None) for subject in subjects]}

    def describe(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tensor at a version."""
        return self.catalog[asked.get("tensor")].describe(asked.get("version"))

    def versions(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the versions of a tensor, newest first."""
        subject = self.catalog[asked.get("tensor")]
        return {"versions": subject.versions(), "current": subject.tensor.version}

    def _parse(self, asked: Mapping[str, Any]) -> _Asked:
        subject, version = self.catalog[asked.get("tensor")], asked.get("version")
        tensor = subject.at(version)
        return _Asked(subject, version, tensor, Window.parse(asked.get("window"), tensor.shape))

    # -- pictures ---------------------------------------------------------------------------------

    def bins(self, asked: Mapping[str, Any]) -> dict[str, Any] | Arrays:
        """Return the picture of a window, after reading some more of it.

        ``read`` is the number of chunks that must have been read, or "more". A request that a newer one of the same
        page overtook while it waited has the answer ``{"superseded": True}``.
        """
        found = self._parse(asked)
        page, number = str(asked.get("page", "")), int(asked.get("number", 0))
        self._newest[page] = max(self._newest.get(page, 0), number)
        emit("explorer.asked", page=page, number=number)
        with self._turn:
            if self._newest[page] > number:
                return {"superseded": True}
            counts = self._counts(found, asked)
            limits = tuning()
            wanted = asked.get("read", limits.first_chunks)
            if wanted == "more":
                counts.read(limits.refine_chunks)
            elif isinstance(wanted, int) and counts.num_read < min(wanted, limits.first_chunks):
                counts.read(min(wanted, limits.first_chunks) - counts.num_read)
            picture = counts.picture()
        total = float(picture.counts.sum())
        header = {
            "window": {"axes": found.window.axes, "ranges": found.window.ranges, "fixed": dict(found.window.fixed)},
            "steps": picture.steps,
            "cells": picture.counts.shape,
            "read": picture.read,
            "chunks": picture.chunks,
            "exact": picture.is_exact,
            "total": total,
            "order": [found.tensor._base.schema.dims[dim] for dim in counts.order],
            "code": found.window.code(found.subject.name, found.tensor.shape),
            "arrays": ["counts"] if picture.sums is None else ["counts", "sums"],
        }
        if asked.get("labels", True):
            header["labels"] = [self._bin_labels(found, k, picture.steps[k]) for k in range(len(found.window.axes))]
        arrays = [picture.counts] if picture.sums is None else [picture.counts, picture.sums]
        return Arrays(header, tuple(np.ascontiguousarray(array, np.float32) for array in arrays))

    def _counts(self, found: _Asked, asked: Mapping[str, Any]) -> WindowCounts:
        """Return the counts of a window, cached."""
        limits = tuning()
        bins = asked.get("bins") or [512] * len(found.window.axes)
        if not isinstance(bins, list) or len(bins) != len(found.window.axes):
            raise InvalidValueError(f"bins must be a number for each of {len(found.window.axes)} axes, got {bins!r}")
        bins = tuple(min(max(int(n), 1), limits.max_bins) for n in bins)
        with_sums = bool(asked.get("sums")) or len(bins) == 1
        scan = found.window.scan(found.tensor)
        key = found.subject.name, scan.source.token, found.window, bins, with_sums
        counts = self._windows.get(key)
        if counts is None:
            counts = self._windows[key] = WindowCounts(scan, found.window.places, bins, with_sums)
            room = memory.share(limits.window_parts)
            while len(self._windows) > 1 and (
                len(self._windows) > limits.cached_windows or sum(each.nbytes for each in self._windows.values()) > room
            ):
                self._windows.popitem(last=False)
            emit("explorer.window", chunks=counts.num_chunks, cached=len(self._windows))
        self._windows.move_to_end(key)
        return counts

    def _bin_labels(self, found: _Asked, place: int, step: int) -> list[str] | None:
        """Return the label of the first position of each bin along an axis."""
        labels = found.subject.labels(found.version, found.window.axes[place])
        if labels is None:
            return None
        start, stop = found.window.ranges[place]
        return _texts(labels.take(pa.array(np.arange(start, stop, step))))

    def distributions(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return degrees and values of the part of a window that was read.

        A window that was not read yet is read as for its first picture.
        """
        found = self._parse(asked)
        with self._turn:
            counts = self._counts(found, asked)
            if not counts.num_read:
                counts.read(tuning().first_chunks)
            scale = counts.scale()
            degrees = []
            for place, counter in enumerate(counts.degrees):
                # Rows are whole where chunks are sorted by them; columns are spread over all chunks.
                is_whole = counts.is_exact or counts.is_sorted_by(place)
                degrees.append({**counter.summary(scale if is_whole else 1.0), "whole": is_whole})
            return {
                "degrees": degrees,
                "values": counts.values.summary(scale),
                "read": counts.num_read,
                "chunks": counts.num_chunks,
                "exact": counts.is_exact,
            }

    def elements(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first elements of a window, in a sort order that takes few reads."""
        found, limits = self._parse(asked), tuning()
        part = found.window.part(found.tensor)
        rows: list[tuple[Any, ...]] = []
        done = 0
        with self._turn:
            source = scan_chunks(part.__sparrow_scan__(), is_sorted=True)
            for chunk in source.chunks[: limits.listing_chunks]:
                block, done = source.read(chunk), done + 1
                columns = [column[: limits.listed_elements - len(rows)].tolist() for column in block.coords]
                values = block.values[: limits.listed_elements - len(rows)].tolist()
                rows += zip(*columns, values, strict=True)
                if len(rows) >= limits.listed_elements:
                    break
        axes = [axis for axis in range(found.tensor.ndim) if axis not in dict(found.window.fixed)]
        starts = {axis: start for axis, (start, _) in zip(found.window.axes, found.window.ranges, strict=True)}
        columns = []
        for place, axis in enumerate(axes):
            positions = [row[place] + starts.get(axis, 0) for row in rows]
            labels = found.subject.labels(found.version, axis)
            texts = None if labels is None else _texts(labels.take(pa.array(positions, pa.int64())))
            columns.append({"name": found.tensor.dims[axis], "positions": positions, "labels": texts})
        return {
            "columns": columns,
            "values": [as_json(row[-1]) for row in rows],
            "complete": done == len(source.chunks) and len(rows) < limits.listed_elements,
            "read": done,
            "chunks": len(source.chunks),
        }

    # -- files and plans --------------------------------------------------------------------------

    def groups(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row groups of a stored tensor, and which of them a window reads."""
        found = self._parse(asked)
        scan = found.window.scan(found.tensor)
        relation = scan.relation
        if not isinstance(relation, Snapshot):
            return {"cells": [], "reason": f"{found.subject.name} is {found.subject.kind}: it has no row groups"}
        order = scan_order(scan) if scan.view.size else relation.orders[0]
        box = scan.view.box()
        rows: list[NDArray[np.int64]] = []
        nbytes: list[NDArray[np.int64]] = []
        read: list[NDArray[np.bool_]] = []
        names: list[tuple[str, int, NDArray[np.int64], NDArray[np.int64]]] = []
        tables = relation.tables if order == relation.base.order else (relation.table(order),)
        for table in tables:
            selected = set(table.select_files(box).tolist())
            for at in range(len(table)):
                footer = table.footer(at)
                meets = np.zeros(len(footer.rows), bool)
                if at in selected:
                    meets[select_row_groups(footer, box)] = True
                rows.append(footer.rows)
                nbytes.append(footer.nbytes)
                read.append(meets & bool(scan.view.size))
                names += [(_file_name(table, at), k, footer.low[k], footer.high[k]) for k in range(len(footer.rows))]
        if not names:
            return {"cells": [], "reason": f"{found.subject.name} has no elements"}
        counts, sizes, is_read = np.concatenate(rows), np.concatenate(nbytes), np.concatenate(read)
        lead = order[0]
        each = -(-len(names) // tuning().map_cells)
        starts = np.arange(0, len(names), each)
        low = np.minimum.reduceat(np.array([name[2][lead] for name in names]), starts)
        high = np.maximum.reduceat(np.array([name[3][lead] for name in names]), starts)
        columns = [np.add.reduceat(column, starts).tolist() for column in (counts, sizes, is_read.astype(np.int64))]
        dims = relation.schema.dims
        return {
            "order": [dims[dim] for dim in order],
            "orders": [[dims[dim] for dim in known] for known in relation.orders],
            "each": each,
            "total": len(names),
            "read": int(is_read.sum()),
            "bytes": int(sizes.sum()),
            "bytes_read": int(sizes[is_read].sum()),
            "rows": int(counts.sum()),
            "rows_read": int(counts[is_read].sum()),
            "files": sum(map(len, tables)),
            "cells": [
                {"file": names[k][0], "number": names[k][1], "low": int(lo), "high": int(hi), "rows": n, "bytes": size,
                 "read": met}
                for k, lo, hi, n, size, met in zip(starts.tolist(), low, high, *columns, strict=True)
            ],
        }  # fmt: skip

    def plan(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan of the window, as ``explain()`` has it."""
        found = self._parse(asked)
        plan = found.window.part(found.tensor).explain()
        return {
            "plan": plan.to_json(),
            "text": str(plan),
            "code": f"{found.window.code(found.subject.name, found.tensor.shape)}.explain()",
        }

    # -- search and SQL ---------------------------------------------------------------------------

    def search(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return positions that a text names: labels, numbers or a range of them."""
        subject, version = self.catalog[asked.get("tensor")], asked.get("version")
        tensor, text = subject.at(version), str(asked.get("text", "")).strip()
        axes = asked.get("axes") or list(range(tensor.ndim))
        found: list[dict[str, Any]] = []
        for axis in axes if text else ():
            if not isinstance(axis, int) or not 0 <= axis < tensor.ndim:
                raise InvalidValueError(f"axes must be numbers of axes, got {axes!r}")
            labels = subject.labels(version, axis)
            hits = _search_numbers(text, tensor.shape[axis]) if labels is None else _search_labels(text, labels)
            found += [{"axis": axis, "dim": tensor.dims[axis], **hit} for hit in hits]
        return {"text": text, "found": found}

    def sql(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Run a query over the tensors; the selected one at the selected version."""
        chosen = self.catalog[asked.get("tensor")]
        tables = {
            name: subject.at(asked.get("version") if subject is chosen else None)
            for name, subject in self.catalog.subjects.items()
        }
        return self.queries.run(str(asked.get("query", "")), tables, str(asked.get("ident", "")))

    def cancel(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a query."""
        return {"cancelled": self.queries.cancel(str(asked.get("ident", "")))}


def _file_name(table: FileTable, at: int) -> str:
    return f"{table.names[at][:8]}\N{HORIZONTAL ELLIPSIS}"


def _texts(labels: pa.Array) -> list[str]:
    return [cut(str(label)) for label in labels.to_pylist()]


def _search_numbers(text: str, size: int) -> list[dict[str, Any]]:
    """Return the position, or the range of positions, that a text is."""
    first, colon, last = text.replace(",", "").replace("_", "").partition(":")
    if not (first or colon) or not all(part.strip().isdecimal() for part in (first, last) if part.strip()):
        return []
    start = int(first or 0)
    stop = (int(last) if last.strip() else size) if colon else start + 1
    if not 0 <= start < min(stop, size):
        return []
    return [{"start": start, "stop": min(stop, size), "label": None}]


def _search_labels(text: str, labels: pa.Array) -> list[dict[str, Any]]:
    """Return labels equal to a text, that begin with it, or that contain it."""
    import pyarrow.compute as pc

    limits = tuning()
    found: dict[int, str] = {}

    def add(positions: NDArray[np.int64]) -> None:
        for at in positions[: limits.search_results].tolist():
            if len(found) < limits.search_results:
                found.setdefault(at, cut(str(labels[at].as_py())))

    try:
        own = labels.type if not pa.types.is_dictionary(labels.type) else labels.type.value_type
        wanted = pa.scalar(text).cast(own)
        add(np.flatnonzero(pc.equal(labels, wanted).to_numpy(zero_copy_only=False)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # the text is no number, or no date
    if len(labels) <= limits.search_text_labels:
        texts = labels.cast(pa.string()) if not pa.types.is_large_string(labels.type) else labels
        for matches in (partial(pc.starts_with, texts), partial(pc.match_substring, texts)):
            if len(found) < limits.search_results:
                hits = matches(pattern=text, ignore_case=True).fill_null(False)
                add(np.flatnonzero(hits.to_numpy(zero_copy_only=False)))
    return [{"start": at, "stop": at + 1, "label": label} for at, label in found.items()]
