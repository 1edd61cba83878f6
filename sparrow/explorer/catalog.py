"""Catalog of an explorer: tensors by name, and their stored versions."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from sparrow import storage
from sparrow.errors import InvalidValueError
from sparrow.explorer.tuning import tuning
from sparrow.plan import Node, axis_labels
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["Catalog", "Subject", "as_json", "cut", "table_name"]


def table_name(path: str | None, default: str = "tensor") -> str:
    """Return a name for SQL and Python, of the folder of a tensor if it has one.

    Examples
    --------
    >>> table_name("data/cnr-2000.sparrow"), table_name(None)
    ('cnr_2000', 'tensor')
    """
    name = re.sub(r"\W+", "_", PurePath(path).stem if path else "").strip("_") or default
    return f"t{name}" if name[0].isdigit() else name


class Subject:
    """A tensor, and the stored versions of it.

    Parameters
    ----------
    name
        Name in SQL and on the page.
    tensor
        A tensor with at least one dimension.
    """

    def __init__(self, name: str, tensor: Tensor) -> None:
        if not tensor.ndim:
            raise InvalidValueError(f"{name} must have at least one dimension to be explored, got a scalar")
        self.name, self.tensor = name, tensor
        is_whole = tensor._view.is_identity
        self.path = tensor.path if is_whole else None
        """Folder of a tensor that is stored as it is; None for views, expressions and tensors in memory."""
        self._versions: dict[int, Tensor] = {}
        self._labels: dict[tuple[int | None, int], pa.Array | None] = {}
        self._lock = threading.Lock()

    @property
    def kind(self) -> str:
        """Place of the elements: "stored", "in memory", or "lazy" if computed."""
        base = self.tensor._base
        if isinstance(base, Node):
            return "lazy"
        return "in memory" if base.version is None else "stored"

    def at(self, version: Any) -> Tensor:
        """Return the tensor at a version, the one that was given for None.

        Raises
        ------
        NotFoundError
            If there is no such version.
        InvalidValueError
            If the tensor has no versions.
        """
        if version is None or version == self.tensor.version:
            return self.tensor
        if self.path is None or not isinstance(version, int):
            raise InvalidValueError(f"version must be one of {self.name}, got {version!r}")
        with self._lock:
            if version not in self._versions:
                self._versions[version] = Tensor(storage.open(self.path, version))
            return self._versions[version]

    def labels(self, version: Any, axis: int) -> pa.Array | None:
        """Return the labels of an axis at a version, or None."""
        tensor = self.at(version)
        key = tensor.version, axis
        with self._lock:
            if key not in self._labels:
                self._labels[key] = tensor.labels(axis)
            return self._labels[key]

    def versions(self) -> list[dict[str, Any]]:
        """Return the versions in the log, newest first, those of other writers too."""
        if self.path is None:
            return []
        commits = storage.open(self.path).history()[: tuning().versions_listed]
        return [
            {
                "version": commit["version"],
                "time": None if commit.get("timestamp") is None else commit["timestamp"].isoformat(),
                "operation": commit["operation"],
                "nnz": commit.get("nnz"),
            }
            for commit in commits
        ]

    def describe(self, version: Any) -> dict[str, Any]:
        """Return shape, types and sizes at a version; reads no data."""
        tensor = self.at(version)
        nnz = tensor._known_nnz()
        size = tensor.size
        return {
            "name": self.name,
            "kind": self.kind,
            "path": tensor.path,
            "version": tensor.version,
            "is_latest": tensor is self.tensor,
            "has_versions": self.path is not None,
            "shape": list(tensor.shape),
            "dims": list(tensor.dims),
            "dtype": str(tensor.dtype),
            "fill": str(tensor.fill_value),
            "stype": tensor.stype,
            "nnz": nnz,
            "size": size if size < 2**53 else float(size),
            "density": None if nnz is None or not size else nnz / size,
            "bytes": None if self.kind == "lazy" else tensor.nbytes,
            "labelled": sorted(axis_labels(tensor.__sparrow_scan__())),
            "unit": "row group" if self.kind == "stored" else "chunk",
        }


class Catalog:
    """Tensors that a page shows, by name.

    Parameters
    ----------
    given
        A tensor or a bundle.
    name
        Name of a tensor.

    Raises
    ------
    InvalidValueError
        If a tensor has no dimension.
    """

    def __init__(self, given: Tensor | Bundle, name: str | None = None) -> None:
        tensors: Mapping[str, Tensor]
        if isinstance(given, Bundle):
            self.title = table_name(given.path, "bundle") if name is None else name
            tensors = {key: tensor for key, tensor in given.items() if tensor.ndim}
            if not tensors:
                raise InvalidValueError(f"{self.title} must have a tensor with a dimension to be explored")
        else:
            self.title = name or table_name(given.path)
            tensors = {self.title: given}
        self.subjects = {key: Subject(key, tensor) for key, tensor in tensors.items()}

    def __getitem__(self, name: Any) -> Subject:
        if name is None:
            return next(iter(self.subjects.values()))
        found = self.subjects.get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidValueError(f"tensor must be one of {', '.join(self.subjects)}, got {name!r}")
        return found


def cut(text: str) -> str:
    """Return a text cut to the length of a cell."""
    limit = tuning().label_characters
    return text if len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def as_json(value: Any) -> Any:
    """Return a value of a cell as JSON: numbers that it can hold, or text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return cut(value[:1000].hex())
    return cut(str(value))
