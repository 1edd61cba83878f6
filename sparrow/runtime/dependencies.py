"""Optional packages, and the commands that install them."""

from __future__ import annotations

from typing import NamedTuple

from sparrow.errors import MissingDependencyError

__all__ = ["OPTIONAL", "missing_dependency"]


class Optional(NamedTuple):
    """An optional package: its name in prose and its distribution."""

    title: str
    distribution: str
    note: str = ""


OPTIONAL = {
    "cupy": Optional("CuPy", "cupy-cuda12x", " (cupy-cuda13x for CUDA 13)"),
    "distributed": Optional("Dask", "distributed"),
    "h5py": Optional("h5py", "h5py"),
    "matplotlib": Optional("Matplotlib", "matplotlib"),
    "obstore": Optional("obstore", "obstore"),
    "pandas": Optional("pandas", "pandas"),
    "pyspark": Optional("Spark", "pyspark", " pandas"),
    "ray": Optional("Ray", "ray"),
    "sparse": Optional("pydata/sparse", "sparse"),
    "torch": Optional("PyTorch", "torch"),
}
"""Optional packages by the name of their module. Every distribution is in an extra of pyproject.toml."""


def missing_dependency(feature: str, module: str) -> MissingDependencyError:
    """Return the error of a feature whose optional package is not installed.

    It names the package rather than an extra: that command works wherever sparrow was installed from.

    Parameters
    ----------
    feature
        The subject of the message, such as "to_torch()".
    module
        A key of ``OPTIONAL``.

    Examples
    --------
    >>> print(missing_dependency("to_torch()", "torch"))
    to_torch() requires PyTorch: pip install torch
    """
    title, distribution, note = OPTIONAL[module]
    return MissingDependencyError(f"{feature} requires {title}: pip install {distribution}{note}")
