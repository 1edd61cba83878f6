"""Column layout of a tensor in Parquet and Delta, and its metadata in the log.

One integer column for each dimension, then ``value`` (``value`` and ``value_im`` for complex numbers). Dtypes that
Delta does not have are stored in the next wider one; the logical dtype is in the metadata, a JSON string on the field
``value``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.schema import AssignedName, Schema
from sparrow.errors import CorruptionError, InvalidValueError, UnsupportedError
from sparrow.relations.arrow import as_arrow
from sparrow.relations.protocol import StoredColumn
from sparrow.storage.tuning import tuning

__all__ = [
    "FORMAT_VERSION",
    "METADATA_KEY",
    "PROFILE_READERS",
    "Metadata",
    "Profile",
    "Sizes",
    "StoredColumn",
    "accepts_row_group",
    "arrow_schema",
    "check_profile",
    "decode_values",
    "encode_values",
    "parquet_options",
    "stored_columns",
]

FORMAT_VERSION = 1
METADATA_KEY = "sparrow"

Profile: TypeAlias = Literal["fast", "small", "portable"]
"""``"fast"`` decodes fastest; ``"small"`` takes the fewest bytes and longer to write; ``"portable"`` has encodings that
older readers of Parquet know."""

_SPLIT_INTEGERS = "DuckDB 2, Polars, pyarrow 16, Spark 4.3; older: portable"
PROFILE_READERS: dict[Profile, str] = {
    "fast": _SPLIT_INTEGERS,
    "small": _SPLIT_INTEGERS,
    "portable": "DuckDB 1.3, fastparquet, Polars, pyarrow 15, Spark 3.5",
}
"""Oldest readers of the files of each profile; ``make readers`` tries them."""

_STORED_DTYPES: dict[str, np.dtype[Any]] = {
    "uint8": np.dtype(np.int16),
    "uint16": np.dtype(np.int32),
    "uint32": np.dtype(np.int64),
    "uint64": np.dtype(np.int64),
    "float16": np.dtype(np.float32),
    "complex64": np.dtype(np.float32),
    "complex128": np.dtype(np.float64),
}

_ZSTD_LEVEL = 15
"""Compression level of the profile ``"small"``."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Encoding, codec and level of an integer column."""

    encoding: str
    """Name in Parquet; ``"DICTIONARY"`` for dictionary pages."""
    codec: str
    level: int | None = None
    gain: float = 0.05
    """Share of bytes that it must save over the candidates before it."""
    gain_of_row: float = 0.0
    """The same as a share of the column together with the values that are stored plain."""


# BYTE_STREAM_SPLIT with a codec beats deltas on sorted coordinates, whose high bytes repeat, and decodes twice as fast;
# deltas win on regular runs only.
_ENCODINGS: dict[str, tuple[Encoding, ...]] = {
    "fast": (
        Encoding("BYTE_STREAM_SPLIT", "NONE"),
        Encoding("BYTE_STREAM_SPLIT", "LZ4", 1),
        Encoding("BYTE_STREAM_SPLIT", "LZ4", 3, gain=0.1, gain_of_row=0.05),  # writes ten times slower
        Encoding("DELTA_BINARY_PACKED", "LZ4", 1, gain=0.6, gain_of_row=0.05),
    ),
    "small": (Encoding("BYTE_STREAM_SPLIT", "ZSTD", _ZSTD_LEVEL), Encoding("DELTA_BINARY_PACKED", "ZSTD", _ZSTD_LEVEL)),
    "portable": (
        Encoding("PLAIN", "NONE"),
        Encoding("PLAIN", "LZ4", 3),
        Encoding("DICTIONARY", "LZ4", 3, gain=0.1),
        Encoding("DELTA_BINARY_PACKED", "NONE", gain=0.3),
        Encoding("DELTA_BINARY_PACKED", "LZ4", 9, gain=0.25),
    ),
}

_PORTABLE_DELTA_SPAN = 1 << 27
"""Span of integers from which on fastparquet decodes deltas, of more than 28 bits then, to wrong numbers."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Target sizes of files and row groups.

    The defaults are those of :mod:`sparrow.storage.tuning`.
    """

    file_bytes: int = field(default_factory=lambda: tuning().file_bytes)
    """A file ends at the first row group that reaches this size; a rewritten one may grow to twice as much."""
    file_rows: int = field(default_factory=lambda: tuning().file_rows)
    """The same bound in rows."""
    group_rows: int = field(default_factory=lambda: tuning().group_rows)
    """Rows of a row group."""

    def is_small(self, nbytes: int, rows: int) -> bool:
        """Return whether an append had better rewrite a file of this size."""
        divisor = tuning().small_file_divisor
        return divisor * nbytes < self.file_bytes and divisor * rows < self.file_rows

    def for_changing_files(self) -> Sizes:
        """Return smaller sizes, for files that are rewritten again and again."""
        divisor = tuning().changing_file_divisor
        rows = max(self.file_rows // divisor, self.group_rows)
        return Sizes(max(self.file_bytes // divisor, 1), rows, self.group_rows)

    def for_total(self, nbytes: int, rows: int) -> Sizes:
        """Return sizes that divide a total into equal files near the target."""
        parts = max(-(-nbytes // (2 * self.file_bytes)), -(-rows // (2 * self.file_rows)), 1)
        return Sizes(
            max(self.file_bytes, 11 * nbytes // (10 * parts)),
            max(self.file_rows, -(-rows // parts)),
            self.group_rows,
        )


def check_profile(profile: str) -> Profile:
    """Return the profile; raise ``InvalidValueError`` if there is no such one."""
    if profile not in get_args(Profile):
        raise InvalidValueError(f"profile must be 'fast', 'small' or 'portable', got {profile!r}")
    return profile  # type: ignore[return-value]


def stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the column that stores values of a dtype."""
    return _STORED_DTYPES.get(dtype.name, dtype)


def arrow_schema(
    dims: Sequence[str],
    dtype: np.dtype[Any],
    coordinate_dtypes: Sequence[np.dtype[Any]],
    metadata: Mapping[str, str] | None = None,
) -> pa.Schema:
    """Return the schema of data files.

    ``metadata`` is attached to the field ``value``.
    """
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
    """Return the columns that store values: one, or two for complex numbers.

    Raises
    ------
    UnsupportedError
        If a uint64 value exceeds 2^63 - 1.
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
    """Return the values of columns, without a copy if the dtypes agree."""
    if dtype.kind == "c":
        out = np.empty(len(columns[0]), dtype=dtype)
        out.real, out.imag = columns
        return out
    return columns[0].astype(dtype, copy=False)


def stored_columns(schema: Schema, coordinate_dtypes: Sequence[np.dtype[Any]]) -> tuple[StoredColumn, ...]:
    """Return the stored form of the logical columns of a schema.

    Examples
    --------
    >>> schema = Schema((3, 2**40), dtype=np.dtype("complex64"))
    >>> for column in stored_columns(schema, [np.dtype(np.int32)] * 2):
    ...     print(column.name, column.stored, column.kind, column.dtype, column.is_plain)
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
    """Choose the options of a Parquet writer from the first elements of a file.

    Coordinates, and integer values with many distinct ones, take the encoding that pays in a trial. Values with few
    distinct ones are dictionary encoded. Other floats are plain or, if smaller under the profile ``"small"``, byte
    stream split.
    """
    import pyarrow.parquet as pq

    codec, level = ("ZSTD", _ZSTD_LEVEL) if profile == "small" else ("LZ4", 1)
    dictionary: list[str] = []
    encoding: dict[str, str] = {}
    compression: dict[str, str] = {}
    levels: dict[str, int] = {}

    def apply(name: str, candidate: Encoding) -> None:
        compression[name] = candidate.codec
        if candidate.encoding == "DICTIONARY":
            dictionary.append(name)
        else:
            encoding[name] = candidate.encoding
        if candidate.level is not None:
            levels[name] = candidate.level

    plain_bytes = 0
    for name, values in zip(("value", "value_im"), columns, strict=False):
        sample = values[:: max(1, len(values) // tuning().encoding_sample_values)]
        compression[name], levels[name] = codec, level
        if values.dtype.kind == "b":
            encoding[name] = "PLAIN"
        elif 4 * len(np.unique(sample)) <= len(sample) or len(sample) <= 4:
            dictionary.append(name)
        elif values.dtype.kind == "i":
            del levels[name]
            apply(name, _choose_encoding(values, _candidates(profile, values)))
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
                plain_bytes += values.dtype.itemsize
    for name, column in zip(dims, coords, strict=True):
        apply(name, _choose_encoding(column, _candidates(profile, column), plain_bytes))
    return {
        "use_dictionary": dictionary or False,
        "column_encoding": encoding,
        "compression": compression,
        "compression_level": levels,
        "write_page_index": True,
        "write_page_checksum": True,
        "max_rows_per_page": tuning().page_rows,
        "store_schema": False,
        # Bounds of floats ignore NaN, but DuckDB prunes by them as if they covered it.
        "write_statistics": [*dims] if columns and columns[0].dtype.kind == "f" else True,
        "sorting_columns": [pq.SortingColumn(dim) for dim in order] or None,
    }


def accepts_row_group(
    options: Mapping[str, Any], profile: Profile, names: Sequence[str], columns: Sequence[NDArray[Any]]
) -> bool:
    """Return whether another row group fits the options chosen from the first one."""
    return profile != "portable" or not any(
        options["column_encoding"].get(name) == "DELTA_BINARY_PACKED" and _is_wide(column)
        for name, column in zip(names, columns, strict=True)
    )


def _is_wide(column: NDArray[Any]) -> bool:
    return len(column) > 0 and int(column.max()) - int(column.min()) >= _PORTABLE_DELTA_SPAN


def _candidates(profile: Profile, column: NDArray[Any]) -> Sequence[Encoding]:
    """Return the encodings of an integer column, by cost."""
    found = _ENCODINGS[profile]
    if profile == "portable" and _is_wide(column):
        return [candidate for candidate in found if candidate.encoding != "DELTA_BINARY_PACKED"]
    return found


def _choose_encoding(column: NDArray[Any], candidates: Sequence[Encoding], plain_bytes: int = 0) -> Encoding:
    """Return the last candidate, by cost, that saves enough on the first page.

    ``plain_bytes`` is the size of the values of a row that are stored plain.
    """
    import pyarrow.parquet as pq

    if len(column) < tuning().encoding_trial_min_rows:
        return candidates[1]
    table = pa.table({"c": as_arrow(column[: tuning().page_rows])})
    best, smallest = candidates[0], 0
    for candidate in candidates:
        trial: list[pq.FileMetaData] = []
        with pq.ParquetWriter(
            pa.BufferOutputStream(),
            table.schema,
            use_dictionary=candidate.encoding == "DICTIONARY",
            column_encoding=None if candidate.encoding == "DICTIONARY" else candidate.encoding,
            compression=candidate.codec,
            compression_level=candidate.level,
            write_statistics=False,
            metadata_collector=trial,
        ) as writer:
            writer.write_table(table)
        size = trial[0].row_group(0).column(0).total_compressed_size
        least = max(candidate.gain * smallest, candidate.gain_of_row * (smallest + plain_bytes * len(table)))
        if not smallest or size < smallest - least:
            best, smallest = candidate, size
    return best


# -- metadata ------------------------------------------------------------------------------------


_USUALLY_ASSIGNED = frozenset(("src", "dst", "row", "col", "head", "relation", "tail", "field"))
"""Names taken as assigned by a reader where the metadata, of an older version, does not say it."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of a tensor in the log, apart from its files."""

    schema: Schema
    profile: Profile = "fast"
    order: tuple[int, ...] = ()
    """Sort order of the files; empty for the base order."""
    labels: Mapping[int, str] = field(default_factory=dict)
    """Label files relative to the folder, by dimension number."""
    built_from: str | None = None
    """Digest of the files of the base order, for a derived order."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Values kept for the creator of the tensor, such as the options of an ingest."""
    replaced: str | None = None
    """Nonce of a tensor that replaced another one by a commit."""

    def to_json(self) -> str:
        """Serialize to JSON; scalars survive to the bit."""
        schema = self.schema
        out: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "shape": list(schema.shape),
            "dims": list(schema.dims),
            "assigned_dims": [dim for dim in schema.dims if type(dim) is AssignedName],
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
        """Deserialize the output of :meth:`to_json`.

        ``where`` names the tensor in errors.
        """
        try:
            data = json.loads(text)
            version = data["format_version"]
            if version > FORMAT_VERSION:
                raise UnsupportedError(
                    f"{where} has format version {version}, this sparrow reads up to {FORMAT_VERSION}: update sparrow"
                )
            assigned = data.get("assigned_dims", _USUALLY_ASSIGNED)
            dims = tuple(AssignedName(dim) if dim in assigned else dim for dim in data["dims"])
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
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            if isinstance(error, UnsupportedError):
                raise
            raise CorruptionError(f"the metadata of {where} cannot be read: {error}") from None


def _scalar_to_json(value: Any) -> Any:
    """Return a scalar as JSON that keeps NaN, infinities and large integers."""
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
