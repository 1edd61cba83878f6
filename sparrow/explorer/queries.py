"""SQL of the page: read-only, with a time limit, cancellation and few rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sparrow.errors import SparrowError
from sparrow.explorer.catalog import as_json
from sparrow.explorer.tuning import tuning
from sparrow.functions.sql import run_query
from sparrow.runtime import duckdb_connection
from sparrow.runtime.events import emit
from sparrow.tensor import Tensor

__all__ = ["Queries"]


class _Query:
    """A query that can be stopped from another thread."""

    def __init__(self) -> None:
        self.con = duckdb_connection.connect()
        self.reason = ""
        """Reason why it was stopped, empty while it was not."""
        self.ended = threading.Event()

    def stop(self, reason: str) -> None:
        """Stop the query; returns at once."""
        self.reason = self.reason or reason
        threading.Thread(target=self._interrupt, name="sparrow-explorer-stop", daemon=True).start()

    def _interrupt(self) -> None:
        """Interrupt until the query has ended.

        DuckDB forgets interrupts that come before it runs.
        """
        import duckdb

        while not self.ended.wait(tuning().interrupt_seconds):
            with suppress(duckdb.Error):  # closed in the meantime
                self.con.interrupt()


class Queries:
    """Running queries of a page, by an id that the page chose."""

    def __init__(self) -> None:
        self._running: dict[str, _Query] = {}
        self._lock = threading.Lock()

    def cancel(self, ident: str) -> bool:
        """Stop a query; return whether it was running."""
        with self._lock:
            found = self._running.get(ident)
        if found is not None:
            found.stop("cancelled")
        return found is not None

    def cancel_all(self) -> None:
        """Stop all queries."""
        for ident in list(self._running):
            self.cancel(ident)

    def run(self, text: str, tables: Mapping[str, Tensor], ident: str) -> dict[str, Any]:
        """Run a query that only reads, and return its first rows.

        Returns
        -------
        dict
            ``columns``, ``types``, ``rows``, ``more`` and ``seconds``; or ``error``.
        """
        import duckdb

        limits, query, start = tuning(), _Query(), time.monotonic()
        with self._lock:
            self._running[ident] = query
        timer = threading.Timer(
            limits.sql_seconds, query.stop, [f"stopped: the query took more than {limits.sql_seconds:g} s"]
        )
        timer.daemon = True
        timer.start()
        try:
            emit("explorer.sql", ident=ident)
            return {**self._fetch(text, tables, query), "seconds": time.monotonic() - start}
        except (SparrowError, duckdb.Error, KeyboardInterrupt) as error:
            return {"error": query.reason or str(error) or type(error).__name__}
        finally:
            timer.cancel()
            query.ended.set()
            with self._lock:
                self._running.pop(ident, None)
            query.con.close()

    def _fetch(self, text: str, tables: Mapping[str, Tensor], query: _Query) -> dict[str, Any]:
        limit = tuning().sql_rows
        found = run_query(text, None, False, tables, (), query.con).relation
        if query.reason:
            raise KeyboardInterrupt
        if found is None:
            return {"columns": [], "types": [], "rows": [], "more": False}
        rows: list[list[Any]] = []
        reader = found.to_arrow_reader(limit + 1)
        for batch in reader:
            columns = [column.to_pylist() for column in batch.slice(0, limit + 1 - len(rows)).columns]
            rows += [[as_json(value) for value in row] for row in zip(*columns, strict=True)]
            if len(rows) > limit:
                break
            if query.reason:
                raise KeyboardInterrupt
        return {
            "columns": list(found.columns),
            "types": [str(kind) for kind in found.types],
            "rows": rows[:limit],
            "more": len(rows) > limit,
        }
