"""Versions of sparrow, its dependencies and the system, for bug reports."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["OPTIONAL", "REQUIRED", "package_version", "show_versions", "versions"]

REQUIRED = (
    *("pyarrow", "duckdb", "numpy", "scipy", "polars", "deltalake", "numba", "llvmlite", "threadpoolctl", "rich"),
    *("lazy-loader", "typer", "prompt_toolkit", "pygments"),
)
"""Packages that sparrow depends on."""

OPTIONAL = (
    *("matplotlib", "jupyter", "cupy-cuda12x", "torch", "sparse", "pandas", "scikit-learn", "h5py", "obstore"),
    *("networkx", "distributed", "pyspark", "ray", "jupytext", "ipython", "ipywidgets", "cloudpickle"),
)
"""Packages that some functions use if installed."""


def package_version() -> str:
    """Return the version of sparrow."""
    return str(sys.modules["sparrow"].__version__)  # already imported; an import statement would violate the layers


def versions() -> dict[str, dict[str, Any]]:
    """Return versions by section: ``system``, ``dependencies`` and ``optional``.

    The version of a package that is not installed is None.
    """
    system = {
        "sparrow": package_version(),
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
        "processors": os.cpu_count(),
        "byteorder": sys.byteorder,
    }
    return {"system": system, "dependencies": _find_versions(REQUIRED), "optional": _find_versions(OPTIONAL)}


def _find_versions(names: Iterable[str]) -> dict[str, str | None]:
    from importlib import metadata  # takes 20 ms

    out: dict[str, str | None] = {}
    for name in names:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = None
    return out


def show_versions(as_json: bool = False) -> None:
    """Print the versions of Python, the system, sparrow and its dependencies.

    Include the output in bug reports. No package is imported.

    Parameters
    ----------
    as_json
        Print JSON instead of a table.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.show_versions()  # doctest: +ELLIPSIS
    System:
            sparrow: ...
    """
    found = versions()
    if as_json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return
    titles = {"system": "System", "dependencies": "Dependencies", "optional": "Optional dependencies"}
    sections = (
        "\n".join([f"{titles[section]}:", *(f"{name:>15}: {version}" for name, version in rows.items())])
        for section, rows in found.items()
    )
    sys.stdout.write("\n\n".join(sections) + "\n")
