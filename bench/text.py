"""Text to stored tensors next to scikit-learn and DuckDB; peak memory."""

from __future__ import annotations

from generate import edges_text, libsvm_text
from harness import DATA, Row, fresh, in_process, processes_in_turn

# Both sides read a small file first, so that neither pays for imports and compiled code.
OURS = """
import sparrow as sp
import sparrow.ingest
sp.config(threads=2, progress=False, memory_limit=args[3] if len(args) > 3 else None)
sp.ingest.libsvm(sp.datasets.path("heart_scale"), args[2], overwrite=True)
begin()
getattr(sp.ingest, args[0])(args[1], args[2], overwrite=True)
"""
SKLEARN = """
from sklearn.datasets import load_svmlight_file
load_svmlight_file("datasets/heart_scale/heart_scale")
begin()
load_svmlight_file(args[0])
"""
COPY = """
import duckdb
con = duckdb.connect()
con.execute("set threads = 2")
con.execute(f"set memory_limit = '{args[2]}'")
con.execute(f"set temp_directory = '{args[3]}'")
con.execute("set preserve_insertion_order = false")
begin()
con.execute(f'''copy (select * from read_csv('{args[0]}', delim='\\t', header=false, skip=2, auto_detect=false,
    columns={{'s': 'INTEGER', 'd': 'INTEGER'}}) order by s, d)
    to '{args[1]}' (format parquet, compression zstd, row_group_size 262144)''')
"""


def run(libsvm_megabytes: int, edge_count: int, rounds: int) -> list[Row]:
    out: list[Row] = []
    source = libsvm_text(libsvm_megabytes)
    stored = fresh(DATA / "libsvm.sparrow")
    in_process(OURS, "libsvm", "datasets/heart_scale/heart_scale", fresh(DATA / "warm.sparrow"))
    took = processes_in_turn({"sparrow": (OURS, ("libsvm", source, stored)), "sklearn": (SKLEARN, (source,))}, rounds)
    ours, theirs = took["sparrow"], took["sklearn"]
    detail = (
        f"{source.stat().st_size / 1e6:.0f} MB, {ours[0]:.1f} s : {theirs[0]:.1f} s, peak {ours[1] / 1e6:.0f} MB : "
        f"{theirs[1] / 1e6:.0f} MB; first floor 2.5, goal 4"
    )
    out.append(
        Row("libsvm to a stored bundle, times as fast", "load_svmlight_file", theirs[0] / ours[0], 2.5, detail, True)
    )

    edges = edges_text(edge_count)
    target, copied = fresh(DATA / "edges.sparrow"), fresh(DATA / "edges.parquet")
    spill = DATA / "spill"
    spill.mkdir(exist_ok=True)
    limit = "2GB"
    took = processes_in_turn(
        {"sparrow": (OURS, ("edges", edges, target, limit)), "duckdb": (COPY, (edges, copied, limit, spill))}, rounds
    )
    ours, theirs = took["sparrow"], took["duckdb"]
    detail = (
        f"{edge_count / 1e6:.0f} M lines, limit {limit}, {ours[0]:.1f} s : {theirs[0]:.1f} s, "
        f"peak {ours[1] / 1e6:.0f} MB : {theirs[1] / 1e6:.0f} MB; first floor 2, goal 1.2"
    )
    out.append(Row("edges to a stored tensor", "DuckDB COPY ... ORDER BY by hand", ours[0] / theirs[0], 2.0, detail))
    fresh(copied)
    return out


def memory(limit_megabytes: int, edge_count: int) -> list[Row]:
    """Return peak memory over the limit for text five times the limit."""
    out: list[Row] = []
    limit = f"{limit_megabytes}MB"
    for form, source in [("libsvm", libsvm_text(5 * limit_megabytes)), ("edges", edges_text(edge_count))]:
        _, peak = in_process(OURS, form, source, fresh(DATA / "memory.sparrow"), limit)
        size = source.stat().st_size
        detail = f"{size / 1e6:.0f} MB of text, limit {limit}, peak {peak / 1e6:.0f} MB"
        bound = (limit_megabytes + 200) / limit_megabytes
        out.append(Row(f"peak memory, {form}", "the limit", peak / (limit_megabytes * 1e6), bound, detail))
        fresh(DATA / "memory.sparrow")
    return out
