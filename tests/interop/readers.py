"""Other readers of Parquet that pip installs, and what they read.

``python -m tests.interop.readers`` prints the table of ``docs/readers.md``; ``make readers`` tries it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Literal, NamedTuple

__all__ = ["PROFILES", "READERS", "Reader", "render_table"]

Profile = Literal["fast", "small", "portable"]
PROFILES: tuple[Profile, ...] = ("fast", "small", "portable")

_PROGRAM = """
import json, os, sys

def add(table):
    import numpy as np
    row, col, value = (np.asarray(table[name], np.float64) for name in ("row", "col", "value"))
    return len(row), row.sum(), col.sum(), value.sum(), (row * value).sum(), (col * value).sum()

SQL = '''select count(*), sum(r), sum(c), sum(v), sum(r * v), sum(c * v) from
(select cast({quote}row{quote} as double) as r, cast(col as double) as c, cast(value as double) as v from {table}) t'''
%s
found = {}
for name, (folder, files) in json.load(open(sys.argv[1])).items():
    try:
        found[name] = [float(total) for total in read(folder, files)]
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps(found), flush=True)
os._exit(0)  # some readers abort while they shut down
"""


class Reader(NamedTuple):
    """A reader, in an environment of its own."""

    name: str
    """Product and version."""
    requirements: tuple[str, ...]
    """Arguments of pip."""
    code: str
    """Define ``read(folder, files)``, which returns the rows and five sums over them."""
    refused: Mapping[Profile, str] = {}
    """Part of the error for each profile that it does not read."""
    misread: tuple[str, ...] = ()
    """Stores of these profiles that it reads as wrong numbers, as ``profile name``."""
    needs: str = ""
    """Program that it starts."""

    @property
    def program(self) -> str:
        """Python code that prints rows and sums, or errors, of the stores in a file."""
        return _PROGRAM % self.code


def _split_integers(error: str) -> dict[Profile, str]:
    """Return the profiles whose integers are byte stream split, with the error."""
    return {"fast": error, "small": error}


_DUCKDB = """
import duckdb
def read(folder, files):
    return duckdb.execute(SQL.format(quote='"', table="read_parquet(?)"), [files]).fetchone()
"""
_CHDB = """
import chdb
def read(folder, files):
    table = f"file('{{{','.join(files)}}}', Parquet)" if len(files) > 1 else f"file('{files[0]}', Parquet)"
    return str(chdb.query(SQL.format(quote='"', table=table), "CSV")).strip().split(",")
"""
_POLARS = "import polars\ndef read(folder, files):\n    return add(polars.read_parquet(files))\n"
_FASTPARQUET = (
    "import fastparquet\ndef read(folder, files):\n    return add(fastparquet.ParquetFile(files).to_pandas())\n"
)
_PYARROW = (
    "import pyarrow as pa, pyarrow.parquet as pq\ndef read(folder, files):\n"
    "    return add(pa.concat_tables([pq.read_table(file) for file in files]))\n"
)
_DELTALAKE = (
    "import deltalake\ndef read(folder, files):\n    return add(deltalake.DeltaTable(folder).to_pyarrow_table())\n"
)
_DATAFUSION = """
import datafusion, pyarrow as pa
def read(folder, files):
    return add(pa.concat_tables([datafusion.SessionContext().read_parquet(file).to_arrow_table() for file in files]))
"""
_DAFT = "import daft\ndef read(folder, files):\n    return add(daft.read_parquet(files).to_arrow())\n"
_SPARK = """
from pyspark.sql import SparkSession
{session}
def read(folder, files):
    spark.read.parquet(*files).createOrReplaceTempView("files")
    return spark.sql(SQL.format(quote="`", table="files")).first()
"""
_PYSPARK = _SPARK.format(
    session='spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()'
)
_PYSAIL = _SPARK.format(
    session="from pysail.spark import SparkConnectServer\n"
    'server = SparkConnectServer("127.0.0.1", 0)\n'
    "server.start(background=True)\n"
    'spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()'
)
_IN_DUCKDB = _split_integers("BYTE_STREAM_SPLIT encoding is only supported for FLOAT or DOUBLE data")
_IN_PYARROW = _split_integers("BYTE_STREAM_SPLIT only supports FLOAT and DOUBLE")
_IN_FASTPARQUET = _split_integers("NotImplementedError: Encoding 9")
_IN_SPARK = _split_integers("Unsupported encoding: BYTE_STREAM_SPLIT")

READERS = (
    Reader("DuckDB 1.3", ("duckdb==1.3.*",), _DUCKDB, _IN_DUCKDB),
    Reader("DuckDB 1.5", ("duckdb==1.5.*",), _DUCKDB, _IN_DUCKDB),
    Reader("DuckDB 2.0", ("duckdb==2.0.*",), _DUCKDB),
    Reader("pyarrow 15", ("pyarrow==15.*", "numpy<2"), _PYARROW, _IN_PYARROW),
    Reader("pyarrow 16", ("pyarrow==16.*", "numpy<2"), _PYARROW),
    Reader("pyarrow 26", ("pyarrow==26.*", "numpy"), _PYARROW),
    Reader("Polars 1.0", ("polars==1.0.*", "numpy"), _POLARS),
    Reader("Polars 2", ("polars==2.*", "numpy"), _POLARS),
    Reader("fastparquet 2026", ("fastparquet==2026.*",), _FASTPARQUET, _IN_FASTPARQUET, ("small short, far ids",)),
    Reader("deltalake 0.25", ("deltalake==0.25.*", "pyarrow", "numpy"), _DELTALAKE),
    Reader("deltalake 1", ("deltalake==1.*", "pyarrow", "numpy"), _DELTALAKE),
    Reader("DataFusion 55", ("datafusion==55.*", "pyarrow", "numpy"), _DATAFUSION),
    Reader("Daft 0.7", ("daft==0.7.*", "pyarrow", "numpy"), _DAFT),
    Reader("Sail 0.7", ("pysail==0.7.*", "pyspark-client<4.1"), _PYSAIL),
    Reader("chDB 4 (ClickHouse)", ("chdb==4.*",), _CHDB),
    Reader("Spark 3.5", ("pyspark==3.5.*",), _PYSPARK, _IN_SPARK, needs="java"),
    Reader("Spark 4.2", ("pyspark==4.2.*",), _PYSPARK, _IN_SPARK, needs="java"),
    Reader("Spark 4.3", ("pyspark==4.3.*",), _PYSPARK, needs="java"),
)  # fmt: skip


def render_table() -> str:
    """Return who reads which profile, as a Markdown table."""
    lines = [f"| Reader | {' | '.join(f'`{profile}`' for profile in PROFILES)} | Error |", "|---|---|---|---|---|"]
    for reader in READERS:
        cells = ["refuses" if profile in reader.refused else "reads" for profile in PROFILES]
        errors = "; ".join(dict.fromkeys(reader.refused.values()))
        lines.append(f"| {reader.name} | {' | '.join(cells)} | {errors} |".replace("|  |", "| |"))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(render_table() + "\n")
