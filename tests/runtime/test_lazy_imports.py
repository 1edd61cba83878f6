"""Lazy imports: completion, errors, installations without sources."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparrow as sp

PACKAGES = ("sparrow", "sparrow.linalg", "sparrow.models", "sparrow.optim")


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_lists_public_names_that_resolve(name: str) -> None:
    package = sys.modules[name] if name in sys.modules else __import__(name, fromlist=["_"])
    assert set(package.__all__) <= set(dir(package))
    for attribute in package.__all__:
        getattr(package, attribute)


@pytest.mark.parametrize("name", PACKAGES)
def test_unknown_attribute_raises(name: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sys.modules[name].no_such_name


def test_subpackages_are_imported_on_first_use() -> None:
    code = """
import sys
import sparrow as sp
dir(sp)
lazy = ("linalg", "models", "graph", "fft", "blas", "optim", "training")
assert not [name for name in lazy if f"sparrow.{name}" in sys.modules]
assert sp.linalg.norm.__module__ == "sparrow.linalg.arrays"
assert "sparrow.linalg.solvers" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_package_works_without_sources(tmp_path: Path) -> None:
    """A frozen application contains byte code only."""
    package = tmp_path / "sparrow"
    shutil.copytree(Path(sp.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(package, quiet=1, legacy=True)
    for source in package.rglob("*.py"):
        source.unlink()
    code = """
import numpy as np
import sparrow as sp
assert sp.__file__.endswith(".pyc"), sp.__file__
A = sp.random((20, 20), density=0.5, seed=1)
assert np.isclose(float(sp.linalg.norm(A)), np.linalg.norm(A.to_numpy()))
assert (sp.eye(20) @ A).nnz == A.nnz
assert (A.save("A.sparrow") + 1).sum() == A.sum() + 400
assert sp.graph.degrees and sp.fft.fft and sp.optim.SGD and sp.linalg.cg
assert all(getattr(sp.models, name) for name in sp.models.__all__)
assert len(sp.graph.bfs(A, 0)) == 20
"""
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=tmp_path, env=environment)
