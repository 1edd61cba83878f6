"""Bytes on disk of the shipped web graph."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import scipy.sparse
from harness import DATA, Row, fresh

import sparrow as sp


def run() -> list[Row]:
    source = sp.datasets.path("cnr-2000")
    fast = sp.ingest.edges(source, fresh(DATA / "cnr-fast.sparrow"))
    small = sp.ingest.edges(source, fresh(DATA / "cnr-small.sparrow"), profile="small")
    links = fast.nnz
    npz = io.BytesIO()
    scipy.sparse.save_npz(npz, fast.to_scipy("csr"))
    plain = DATA / "plain.parquet"
    pq.write_table(fast.to_arrow(), plain)
    bits = {
        "fast": fast.nbytes * 8 / links,
        "small": small.nbytes * 8 / links,
        "npz": npz.getbuffer().nbytes * 8 / links,
        "pyarrow": plain.stat().st_size * 8 / links,
    }
    plain.unlink()
    detail = f"{links} links, {bits['fast']:.2f} bits a link; first floor 7.5, goal 7.3"
    out = [
        Row("cnr-2000, bits a link", "the floor of 7.5", bits["fast"], 7.5, detail),
        Row('cnr-2000, profile="small"', "the goal of 5.6", bits["small"], 5.6, f"{bits['small']:.2f} bits a link"),
    ]
    for name, label in [("npz", "SciPy npz (CSR, zipped)"), ("pyarrow", "pyarrow's default Parquet")]:
        out.append(Row("cnr-2000, bytes", label, bits["fast"] / bits[name], 1.0, f"{bits[name]:.2f} bits a link there"))
    return out
