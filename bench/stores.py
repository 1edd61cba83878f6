"""Object stores: scans from a local S3 server next to disk and bare reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from harness import DATA, FOLDER, Row, alternate, fresh

import sparrow as sp

sys.path.insert(0, str(FOLDER.parent))


@contextmanager
def _serve() -> Iterator[None]:
    from tests.storage.server import OPTIONS, moto

    with moto() as address:
        os.environ |= {**OPTIONS, "AWS_ENDPOINT_URL": f"http://{address}", "AWS_ALLOW_HTTP": "true"}
        yield


def run(count: int, rounds: int) -> list[Row]:
    """Time the sum of all elements and of one row from an S3 server."""
    import obstore
    from obstore.store import from_url

    size = 1 << 20
    made = sp.random((size, size), nnz=count, seed=0, distribution="powerlaw")
    disk = made.save(fresh(DATA / "store.sparrow"))
    with _serve():
        web = made.save("s3://bucket/store.sparrow")
        client: Any = from_url("s3://bucket")
        pieces = [_piece(chunk) for chunk in web._handle.current.chunks(_everything(web))]
        with ThreadPoolExecutor(16) as threads:

            def bare() -> int:
                return sum(threads.map(lambda p: len(obstore.get_range(client, p[0], start=p[1], length=p[2])), pieces))

            def row(tensor: Any) -> Any:
                return tensor[12345].compute()

            took = alternate({"store": web.sum, "disk": disk.sum, "bare": bare}, rounds)
            one = alternate({"store": lambda: row(web), "bare": lambda: _get(client, pieces[0])}, rounds)
            volume = bare()
    detail = f"{count / 1e6:.0f} M entries, {volume / 1e6:.0f} MB in {len(pieces)} row groups"
    times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in took.items())
    rowed = f"{1000 * one['store']:.0f} ms : {1000 * one['bare']:.0f} ms"
    return [
        Row("sum, S3 on this machine", "range reads of the same bytes", took["store"] / took["bare"], 1.5, detail),
        Row("sum, S3 on this machine", "the same from disk", took["store"] / took["disk"], 100, times),
        Row("a row, S3 on this machine", "one range read", one["store"] / one["bare"], 4, rowed),
    ]


def _everything(tensor: Any) -> Any:
    from sparrow.core.indexing import Box

    return Box.from_shape(tensor.shape)


def _piece(chunk: Any) -> tuple[str, int, int]:
    group = chunk.ref
    path, start, length = group.reading.pieces[group.place]
    return path.removeprefix("s3://bucket/"), start, length


def _get(client: Any, piece: tuple[str, int, int]) -> int:
    import obstore

    path, start, length = piece
    return len(obstore.get_range(client, path, start=start, length=length))
