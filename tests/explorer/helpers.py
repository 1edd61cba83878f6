"""Stored tensors of many small row groups, and requests to a server."""

from __future__ import annotations

import http.client
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sparrow as sp
from sparrow import storage
from sparrow.engines import iter_sorted_blocks

SIZES = storage.Sizes(file_rows=400, group_rows=40)


def save(tensor: sp.Tensor, path: Path, labels: Mapping[int, Any] | None = None, **options: Any) -> sp.Tensor:
    """Store a tensor in row groups of 40 elements."""
    scan = tensor.__sparrow_scan__()
    own = {dim: pa.array(found) for dim, found in (labels or {}).items()}
    storage.save(path, scan.schema, iter_sorted_blocks(scan), labels=own, sizes=SIZES, **options)
    found: sp.Tensor = sp.open(path)
    return found


def make_sparse(shape: tuple[int, ...], nnz: int, seed: int = 0, dims: tuple[str, ...] | None = None) -> sp.Tensor:
    """Return a tensor that is denser near the origin, with values from 1 to 5."""
    rng = np.random.default_rng(seed)
    coords = [(rng.random(nnz) ** 2 * n).astype(np.int64) for n in shape]
    unique = np.unique(np.stack(coords), axis=1)
    values = rng.integers(1, 6, unique.shape[1]).astype(float)
    return sp.from_coords(list(unique), values, shape=shape, dims=dims)


def expected_counts(
    dense: NDArray[Any], ranges: list[tuple[int, int]], steps: tuple[int, ...], weights: bool = False
) -> NDArray[Any]:
    """Return counts, or sums, in bins of a dense array by NumPy's histograms."""
    at = np.nonzero(dense)
    edges = [
        np.append(np.arange(start, stop, step), -(-(stop - start) // step) * step + start)
        for (start, stop), step in zip(ranges, steps, strict=True)
    ]
    inside = [(column >= start) & (column < stop) for column, (start, stop) in zip(at, ranges, strict=True)]
    kept = np.logical_and.reduce(inside)
    points = np.stack([column[kept] for column in at], axis=1)
    values = dense[at][kept] if weights else None
    return np.atleast_2d(np.histogramdd(points, edges, weights=values)[0])


class Client:
    """Requests as the page sends them."""

    def __init__(self, url: str) -> None:
        found = urlsplit(url)
        assert found.hostname
        assert found.port
        self.host, self.port, self.path = found.hostname, found.port, found.path

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the answer to a request."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): text for name, text in answer.getheaders()}
        finally:
            connection.close()

    def ask(self, name: str, **asked: Any) -> Any:
        """Return the answer to a request for data; arrays are in it by their names."""
        status, body, headers = self.request(
            "POST", f"{self.path}api/{name}", json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        assert status == 200
        if headers["content-type"] == "application/json":
            return json.loads(body)
        (length,) = struct.unpack_from("<I", body)
        found = json.loads(body[4 : 4 + length])
        arrays = np.frombuffer(body[4 + length :], "<f4").reshape(len(found["arrays"]), *found["cells"])
        return found | dict(zip(found["arrays"], arrays, strict=True))
