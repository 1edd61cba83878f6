"""How a tensor lies in Parquet and Delta columns, and what is said about it in the log.

One integer column for each dimension, then ``value`` (complex numbers: ``value`` and ``value_im``).
Types that Delta does not know are held in the next wider one; the logical type is in the metadata,
which is one JSON text on the field ``value``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.schema import Schema
from sparrow.errors import CorruptionError, InvalidValueError, UnsupportedError
from sparrow.relations.base import StoredColumn, as_arrow

__all__ = [
    "FORMAT_VERSION",
    "METADATA_KEY",
    "Metadata",
    "Profile",
    "Sizes",
    "StoredColumn",
    "arrow_schema",
    "check_profile",
    "decode_values",
    "encode_values",
    "parquet_options",
    "stored_columns",
]

FORMAT_VERSION = 1
METADATA_KEY = "sparrow"

Profile: TypeAlias = Literal["fast", "small"]
"""``"fast"`` decodes fastest, ``"small"`` takes the fewest bytes and longer to write."""

_STORED: dict[str, np.dtype[Any]] = {
    "uint8": np.dtype(np.int16),
    "uint16": np.dtype(np.int32),
    "uint32": np.dtype(np.int64),
    "uint64": np.dtype(np.int64),
    "float16": np.dtype(np.float32),
    "complex64": np.dtype(np.float32),
    "complex128": np.dtype(np.float64),
}


_SAMPLE = 16384
_PAGE_ROWS = 65536
_ZSTD_LEVEL = 15
_WORTH_A_TRIAL = 4096
_OFTEN = 8
"""How many times smaller files are that appends change than others."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How a column of integers is written: an encoding, a codec and its level."""

    encoding: str
    codec: str
    level: int | None = None
    gain: float = 0.05
    """The share of bytes that it has to save over a coding before it."""
    of_all: float = 0.0
    """The same of what the column takes together with values that are written plain."""


# Streams of bytes take fewer bits than deltas wherever a codec follows, since sorted coordinates repeat their high
# bytes and lists of neighbours repeat each other, and they decode twice as fast; deltas are for regular runs.
_CODINGS: dict[str, tuple[Coding, ...]] = {
    "fast": (
        Coding("BYTE_STREAM_SPLIT", "NONE"),
        Coding("BYTE_STREAM_SPLIT", "LZ4", 1),
        Coding("BYTE_STREAM_SPLIT", "LZ4", 3, gain=0.1, of_all=0.05),  # takes ten times as long to write
        Coding("DELTA_BINARY_PACKED", "LZ4", 1, gain=0.6, of_all=0.05),
    ),
    "small": (Coding("BYTE_STREAM_SPLIT", "ZSTD", _ZSTD_LEVEL), Coding("DELTA_BINARY_PACKED", "ZSTD", _ZSTD_LEVEL)),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large files and row groups become."""

    file_bytes: int = 64 << 20
    """A file ends at the first row group that reaches this; an edited one may grow to twice as much."""
    file_rows: int = 1 << 62
    """The same in entries."""
    group_rows: int = 1 << 18
    """Entries of a row group."""

    def small(self, nbytes: int, rows: int) -> bool:
        """Return whether a file is so small that an append had better rewrite it than stand beside it."""
        return 8 * nbytes < self.file_bytes and 8 * rows < self.file_rows

    def smaller(self) -> Sizes:
        """Return the sizes of files that change here and there, and so are written again and again."""
        return Sizes(max(self.file_bytes // _OFTEN, 1), max(self.file_rows // _OFTEN, self.group_rows), self.group_rows)

    def for_total(self, nbytes: int, rows: int) -> Sizes:
        """Return the sizes that divide so much into equal files of at most about twice the usual size."""
        parts = max(-(-nbytes // (2 * self.file_bytes)), -(-rows // (2 * self.file_rows)), 1)
        return Sizes(
            max(self.file_bytes, 11 * nbytes // (10 * parts)),
            max(self.file_rows, -(-rows // parts)),
            self.group_rows,
        )


def check_profile(profile: str) -> Profile:
    """Return the profile, or raise ``InvalidValueError`` naming those there are."""
    if profile not in get_args(Profile):
        raise InvalidValueError(f"profile={profile!r}: use 'fast' or 'small'")
    return profile  # type: ignore[return-value]


def stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the column that holds values of a dtype."""
    return _STORED.get(dtype.name, dtype)


def arrow_schema(
    dims: Sequence[str],
    dtype: np.dtype[Any],
    coordinate_dtypes: Sequence[np.dtype[Any]],
    metadata: Mapping[str, str] | None = None,
) -> pa.Schema:
    """Return the schema of the files; ``metadata`` goes on the field ``value``."""
    fields = [
        pa.field(name, pa.from_numpy_dtype(kind), nullable=False)
        for name, kind in zip(dims, coordinate_dtypes, strict=True)
    ]
    kind = pa.from_numpy_dtype(stored_dtype(dtype))
    fields.append(pa.field("value", kind, nullable=False, metadata=metadata))
    if dtype.kind == "c":
        fields.append(pa.field("value_im", kind, nullable=False))
    return pa.schema(fields)


def encode_values(values: NDArray[Any], dtype: np.dtype[Any]) -> list[NDArray[Any]]:
    """Return the columns that hold values: one, or two for complex numbers.

    Raises
    ------
    UnsupportedError
        If a uint64 is past 2^63 - 1.
    """
    values = np.asarray(values, dtype=dtype)
    if dtype.kind == "c":
        return [np.ascontiguousarray(values.real), np.ascontiguousarray(values.imag)]
    if dtype == np.uint64 and values.size and int(values.max()) >= 2**63:
        raise UnsupportedError(
            f"the value {int(values.max())} does not fit a stored uint64, which ends at 2^63 - 1: "
            "cast to float64 before saving"
        )
    return [np.ascontiguousarray(values, dtype=stored_dtype(dtype))]


def decode_values(columns: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the values that columns hold, without a copy where the types agree."""
    if dtype.kind == "c":
        out = np.empty(len(columns[0]), dtype=dtype)
        out.real, out.imag = columns
        return out
    return columns[0].astype(dtype, copy=False)


def stored_columns(schema: Schema, coordinate_dtypes: Sequence[np.dtype[Any]]) -> tuple[StoredColumn, ...]:
    """Return how the logical columns of a schema lie in files with such coordinates, in their order.

    Examples
    --------
    >>> schema = Schema((3, 2**40), dtype=np.dtype("complex64"))
    >>> for column in stored_columns(schema, [np.dtype(np.int32)] * 2):
    ...     print(column.name, column.stored, column.kind, column.dtype, column.plain)
    d0 ('d0',) int32 int32 True
    d1 ('d1',) int32 int64 False
    value ('value', 'value_im') float complex64 False
    """
    out = [
        StoredColumn(name, (name,), pa.from_numpy_dtype(stored), schema.coordinate_dtype(dim))
        for dim, (name, stored) in enumerate(zip(schema.dims, coordinate_dtypes, strict=True))
    ]
    parts = ("value", "value_im") if schema.dtype.kind == "c" else ("value",)
    return (*out, StoredColumn("value", parts, pa.from_numpy_dtype(stored_dtype(schema.dtype)), schema.dtype))


# -- encodings -----------------------------------------------------------------------------------


def parquet_options(
    dims: Sequence[str],
    coords: Sequence[NDArray[Any]],
    columns: Sequence[NDArray[Any]],
    profile: Profile,
    order: Sequence[int],
) -> dict[str, Any]:
    """Return the options of a Parquet writer, chosen from a sample of the entries that come first.

    Coordinates, and integers that are no small set, take the coding that a trial finds worth it. Values are
    dictionary encoded where few of them are distinct; other floats are plain or, where it is smaller and the profile
    is ``"small"``, split into streams of bytes.
    """
    import pyarrow.parquet as pq

    codec, level = ("LZ4", 1) if profile == "fast" else ("ZSTD", _ZSTD_LEVEL)
    encoding: dict[str, str] = {}
    compression: dict[str, str] = {}
    levels: dict[str, int] = {}

    def take(name: str, coding: Coding) -> None:
        encoding[name], compression[name] = coding.encoding, coding.codec
        if coding.level is not None:
            levels[name] = coding.level

    dictionary: list[str] = []
    beside = 0
    for name, values in zip(("value", "value_im"), columns, strict=False):
        sample = values[:: max(1, len(values) // _SAMPLE)]
        compression[name], levels[name] = codec, level if profile == "small" else 1
        if values.dtype.kind == "b":
            encoding[name] = "PLAIN"
        elif 4 * len(np.unique(sample)) <= len(sample) or len(sample) <= 4:
            dictionary.append(name)
        elif values.dtype.kind == "i":
            del levels[name]
            take(name, _worth_it(values, _CODINGS[profile]))
        else:
            encoding[name] = "PLAIN"
            plain = sample.tobytes()
            size = pa.Codec(codec.lower() if codec == "ZSTD" else "lz4_raw").compress(plain, asbytes=True)
            if profile == "small":
                split = np.ascontiguousarray(sample).view(np.uint8).reshape(len(sample), -1).T.tobytes()
                if len(pa.Codec("zstd").compress(split, asbytes=True)) < len(size):
                    encoding[name] = "BYTE_STREAM_SPLIT"
            elif 5 * len(size) > 4 * len(plain):
                compression[name] = "NONE"
                del levels[name]
                beside += values.dtype.itemsize
    for name, column in zip(dims, coords, strict=True):
        take(name, _worth_it(column, _CODINGS[profile], beside))
    return {
        "use_dictionary": dictionary or False,
        "column_encoding": encoding,
        "compression": compression,
        "compression_level": levels,
        "write_page_index": True,
        "write_page_checksum": True,
        "max_rows_per_page": _PAGE_ROWS,
        "store_schema": False,
        # Bounds of floats leave NaN out, and DuckDB takes them for bounds of all values.
        "write_statistics": [*dims] if columns and columns[0].dtype.kind == "f" else True,
        "sorting_columns": [pq.SortingColumn(dim) for dim in order] or None,
    }


def _worth_it(column: NDArray[Any], codings: Sequence[Coding], beside: int = 0) -> Coding:
    """Return the coding to use: of those in order of their cost the last that saves enough, tried on the beginning.

    An entry takes ``beside`` bytes in values that are written plain.
    """
    import pyarrow.parquet as pq

    if len(column) < _WORTH_A_TRIAL:
        return codings[1]
    table = pa.table({"c": as_arrow(column[:_PAGE_ROWS])})
    best, smallest = codings[0], 0
    for coding in codings:
        trial: list[pq.FileMetaData] = []
        with pq.ParquetWriter(
            pa.BufferOutputStream(),
            table.schema,
            use_dictionary=False,
            column_encoding=coding.encoding,
            compression=coding.codec,
            compression_level=coding.level,
            write_statistics=False,
            metadata_collector=trial,
        ) as writer:
            writer.write_table(table)
        size = trial[0].row_group(0).column(0).total_compressed_size
        least = max(coding.gain * smallest, coding.of_all * (smallest + beside * len(table)))
        if not smallest or size < smallest - least:
            best, smallest = coding, size
    return best


# -- metadata ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the log says about a tensor, apart from its files."""

    schema: Schema
    profile: Profile = "fast"
    order: tuple[int, ...] = ()
    """The sort order of the files; empty means the base order."""
    labels: Mapping[int, str] = field(default_factory=dict)
    """Files of labels, relative to the folder, by dimension number."""
    built_from: str | None = None
    """Of a derived order: the digest of the base's files."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What the maker of the tensor wanted to be kept, such as the options of an ingest."""
    replaced: str | None = None
    """Of a tensor that took the place of another by a commit: what tells the two apart."""

    def to_json(self) -> str:
        """Return the text that :meth:`from_json` takes apart; scalars survive to the bit."""
        schema = self.schema
        out: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "shape": list(schema.shape),
            "dims": list(schema.dims),
            "dtype": schema.dtype.name,
            "fill_value": _scalar_to_json(schema.fill_value),
            "stype": schema.stype,
            "profile": self.profile,
            "labels": {schema.dims[dim]: path for dim, path in sorted(self.labels.items())},
        }
        if self.order:
            out["order"] = list(self.order)
        if self.built_from is not None:
            out["built_from"] = self.built_from
        if self.extra:
            out["extra"] = dict(self.extra)
        if self.replaced is not None:
            out["replaced"] = self.replaced
        return json.dumps(out, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> Metadata:
        """Read what :meth:`to_json` wrote; ``where`` names the tensor in errors."""
        try:
            data = json.loads(text)
            version = data["format_version"]
            if version > FORMAT_VERSION:
                raise UnsupportedError(
                    f"{where} has format version {version}, this sparrow reads up to {FORMAT_VERSION}: update sparrow"
                )
            dims = tuple(data["dims"])
            dtype = np.dtype(data["dtype"])
            schema = Schema(
                tuple(data["shape"]), dims, dtype, _scalar_from_json(data["fill_value"], dtype), data["stype"]
            )
            labels = {dims.index(name): path for name, path in data["labels"].items()}
            return cls(
                schema,
                check_profile(data["profile"]),
                tuple(data.get("order", ())),
                labels,
                data.get("built_from"),
                data.get("extra", {}),
                data.get("replaced"),
            )
        except (KeyError, ValueError, TypeError) as error:
            if isinstance(error, UnsupportedError):
                raise
            raise CorruptionError(f"the metadata of {where} cannot be read: {error}") from None


def _scalar_to_json(value: Any) -> Any:
    """Return a NumPy scalar as JSON that keeps NaN, infinities and integers past 2^53."""
    kind = np.asarray(value).dtype.kind
    if kind == "b":
        return bool(value)
    if kind in "iu":
        return str(int(value))
    if kind == "c":
        return [float(value.real).hex(), float(value.imag).hex()]
    return float(value).hex()


def _scalar_from_json(data: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return dtype.type(data)
    if dtype.kind in "iu":
        return dtype.type(int(data))
    if dtype.kind == "c":
        return dtype.type(complex(*map(float.fromhex, data)))
    return dtype.type(float.fromhex(data))
