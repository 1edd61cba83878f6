"""The binsparse protocol: a sparse array as a descriptor and named arrays.

The descriptor is that of the Binary Sparse Format Specification 0.1 (https://graphblas.org/binsparse-specification), a
dictionary, exchanged as proposed for the array API (data-apis/array-api, pull request 912): the method
``__binsparse_descriptor__`` returns it, ``__binsparse__`` the arrays by name; a list of them, in the order of the
descriptor's ``data_types``, is accepted too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.array_validation import as_index, as_row_numbers, check_indices, check_pointers
from sparrow.core.schema import Schema, check_shape
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.interop.interchange import Coordinates, row_pointers
from sparrow.kernels.coo import Block

__all__ = ["arrays_of", "descriptor_of", "format_of", "from_binsparse"]

_ELEMENT: dict[str, Any] = {"level_desc": "element"}


def _levels(*kinds: tuple[str, int]) -> dict[str, Any]:
    level = _ELEMENT
    for kind, rank in reversed(kinds):
        level = {"level_desc": kind, "rank": rank, "level": level}
    return level


_ALIASES: dict[str, tuple[list[int], dict[str, Any]]] = {
    "DVEC": ([0], _levels(("dense", 1))),
    "DMATR": ([0, 1], _levels(("dense", 2))),
    "DMAT": ([0, 1], _levels(("dense", 2))),
    "DMATC": ([1, 0], _levels(("dense", 2))),
    "CVEC": ([0], _levels(("sparse", 1))),
    "VEC": ([0], _levels(("sparse", 1))),
    "CSR": ([0, 1], _levels(("dense", 1), ("sparse", 1))),
    "CSC": ([1, 0], _levels(("dense", 1), ("sparse", 1))),
    "DCSR": ([0, 1], _levels(("sparse", 1), ("sparse", 1))),
    "DCSC": ([1, 0], _levels(("sparse", 1), ("sparse", 1))),
    "COO": ([0, 1], _levels(("sparse", 2))),
    "COOR": ([0, 1], _levels(("sparse", 2))),
    "COOC": ([1, 0], _levels(("sparse", 2))),
}
"""Named formats: order of the dimensions, and levels."""


def arrays_of(schema: Schema, block: Block) -> dict[str, NDArray[Any]]:
    """Return the named arrays of canonical elements, as :func:`descriptor_of` says."""
    values = block.values.view(np.uint8) if block.values.dtype == bool else block.values
    if schema.stype in ("csr", "csc"):
        height = schema.shape[0 if schema.stype == "csr" else 1]
        if schema.stype == "csc":
            order = np.argsort(block.coords[1], kind="stable")
            block, values = Block(block.coords[::-1], values).take(order), values[order]
        arrays = {"pointers_to_1": row_pointers(block, height), "indices_1": block.column(1), "values": values}
    else:
        arrays = {f"indices_{dim}": column for dim, column in enumerate(block.coords)}
        if not schema.ndim and not block.count:
            values = np.full(1, schema.fill_value).view(values.dtype)
        arrays["values"] = values
    if not schema.has_zero_fill:
        arrays["fill_value"] = np.full(1, schema.fill_value).view(values.dtype)
    return arrays


def descriptor_of(schema: Schema, count: int, source: str) -> dict[str, Any]:
    """Return the descriptor of ``count`` elements.

    The format is "CSR" or "CSC" for these storage types, else "CVEC" for one dimension, "COOR" for two, and "custom"
    for any other number: one sparse level of all dimensions.

    Raises
    ------
    UnsupportedError
        If the specification has no such values, which is so of float16.
    """
    coordinates = {f"indices_{dim}": schema.coordinate_dtype(dim).name for dim in range(schema.ndim)}
    out: dict[str, Any] = {"version": "0.1"}
    if schema.stype in ("csr", "csc"):
        out["format"] = schema.stype.upper()
        inner = schema.coordinate_dtype(1 if schema.stype == "csr" else 0)
        coordinates = {"pointers_to_1": "int64", "indices_1": inner.name}
    elif schema.ndim in (1, 2):
        out["format"] = ("CVEC", "COOR")[schema.ndim - 1]
    else:
        out["format"] = "custom"
        out["custom"] = {"level": _levels(("sparse", schema.ndim)) if schema.ndim else _ELEMENT}
    out["shape"] = list(schema.shape)
    out["number_of_stored_values"] = count if schema.ndim else 1
    kind = _name_of(schema.dtype)
    out["data_types"] = {**coordinates, "values": kind}
    if not schema.has_zero_fill:
        out["fill"] = True
        out["data_types"]["fill_value"] = kind
    return {"binsparse": out, "original_source": source}


def _name_of(dtype: np.dtype[Any]) -> str:
    if dtype == np.float16:
        raise UnsupportedError("binsparse has no float16: use astype('float32') first")
    if dtype.kind == "c":
        return f"complex[float{4 * dtype.itemsize}]"
    return "bint8" if dtype.kind == "b" else dtype.name


def from_binsparse(obj: Any) -> Coordinates:
    """Return the elements of an object that implements the protocol, in any format.

    Raises
    ------
    UnsupportedError
        If the version is another, or only one triangle is stored.
    InvalidValueError
        If the descriptor is incomplete, a format or level is unknown, or an array is missing.
    ShapeError
        If arrays do not fit the descriptor.
    """
    try:
        return _entries(obj.__binsparse_descriptor__()["binsparse"], obj.__binsparse__())
    except KeyError as error:
        raise InvalidValueError(f"binsparse: {error} is missing from the descriptor or the arrays") from None


def _entries(found: dict[str, Any], given: Any) -> Coordinates:
    if not isinstance(given, Mapping):
        if len(given) != len(found["data_types"]):
            names = ", ".join(found["data_types"])
            raise ShapeError(f"binsparse must have {len(found['data_types'])} arrays, got {len(given)}: {names}")
        given = dict(zip(found["data_types"], given, strict=True))
    arrays = {name: _numpy(array) for name, array in given.items()}
    version = str(found["version"])
    if not version.startswith("0."):
        raise UnsupportedError(f"binsparse version must be 0.1, got {version}")
    if "structure" in found:
        raise UnsupportedError(f"binsparse structure {found['structure']!r} is not supported: store both triangles")
    shape = check_shape(found["shape"])
    order, level = format_of(found, len(shape))
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(f"the binsparse format describes {len(order)} dimensions, the shape {shape} has {len(shape)}")
    columns, values = _expand_levels(level, [shape[dim] for dim in order], arrays, int(found.get("index_base", 0)))
    if len(columns) != len(shape):
        raise ShapeError(f"the binsparse levels describe {len(columns)} dimensions, the shape {shape} has {len(shape)}")
    kind = str(found["data_types"]["values"])
    if "complex[" in kind and values.dtype.kind != "c":
        values = np.ascontiguousarray(values).view(np.result_type(values.dtype, np.complex64))
    if kind.startswith("iso["):
        values = np.repeat(values[:1], len(columns[0]) if columns else 1)
    if columns and len(values) != len(columns[0]):
        raise ShapeError(f"the binsparse array 'values' has {len(values)} elements, expected {len(columns[0])}")
    fill = arrays["fill_value"].reshape(-1)[0] if found.get("fill") else values.dtype.type(0)
    if "bint8" in kind:
        values, fill = values.astype(bool), bool(fill)
    coords = dict(zip(order, columns, strict=True))
    return Coordinates([coords[dim] for dim in range(len(shape))], values, shape, fill)


def format_of(found: dict[str, Any], ndim: int) -> tuple[list[int], dict[str, Any]]:
    """Return the order of dimensions and the levels of a descriptor's format.

    Raises
    ------
    InvalidValueError
        If the format is unknown.
    KeyError
        If it is missing.
    """
    name = found["format"]
    custom = name.get("custom", name) if isinstance(name, dict) else found.get("custom")
    if custom is not None:
        return [int(dim) for dim in custom.get("transpose", range(ndim))], custom["level"]
    if name not in _ALIASES:
        raise InvalidValueError(f"binsparse format must be one of {', '.join(_ALIASES)}, 'custom', got {name!r}")
    return _ALIASES[name]


def _numpy(array: Any) -> NDArray[Any]:
    return array if isinstance(array, np.ndarray) else np.from_dlpack(array)


def _expand_levels(
    level: dict[str, Any], sizes: list[int], arrays: dict[str, NDArray[Any]], base: int
) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """Return a column per dimension, outermost first, and the values.

    A level maps positions of the level above to more positions, each with coordinates along its own dimensions.
    """
    columns: list[NDArray[Any]] = []
    positions = 1
    while level["level_desc"] != "element":
        kind, rank, depth = level["level_desc"], int(level.get("rank", 1)), len(columns)
        if kind == "dense":
            grid = np.indices(sizes[depth : depth + rank]).reshape(rank, -1)
            columns = [np.repeat(column, grid.shape[1]) for column in columns]
            columns += [np.tile(column, positions) for column in grid]
            positions *= grid.shape[1]
        elif kind == "sparse":
            names = [f"indices_{depth + k}" for k in range(rank)]
            own = [as_index(name, arrays[name]) - base for name in names]
            for name, column, size in zip(names, own, sizes[depth:], strict=False):
                check_indices(column, size, name)
                if len(column) != len(own[0]):
                    raise ShapeError(f"{name} must have {len(own[0])} elements, as {names[0]} has, got {len(column)}")
            if depth:
                name = f"pointers_to_{depth}"
                pointers = as_index(name, arrays[name])
                if len(pointers) != positions + 1:
                    raise ShapeError(f"{name} must have {positions + 1} elements, got {len(pointers)}")
                rows = as_row_numbers(check_pointers(pointers - pointers[0], len(own[0]), name))
                columns = [column[rows] for column in columns]
            columns += own
            positions = len(own[0])
        else:
            raise InvalidValueError(f"binsparse level must be 'dense', 'sparse' or 'element', got {kind!r}")
        level = level["level"]
    return columns, arrays["values"]
