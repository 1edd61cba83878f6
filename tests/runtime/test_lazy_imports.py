"""Lazy imports: completion, errors, installations without sources."""

from __future__ import annotations

import ast
import compileall
import importlib
import os
import pickle
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


def test_import_of_the_package_imports_no_library() -> None:
    code = """
import sys
import sparrow as sp
assert sp.__version__ and "Tensor" in dir(sp)
assert sp.float32 is not None and "numpy" in sys.modules  # NumPy's own
assert not [name for name in sys.modules if name.startswith("sparrow.")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_names_import_no_library() -> None:
    code = """
import sys
import sparrow as sp
assert not hasattr(sp, "no_such_name")
heavy = ("numpy", "pyarrow", "duckdb", "polars", "numba", "scipy")
assert not [name for name in heavy if name in sys.modules]
assert sp.float32 is __import__("numpy").float32
assert sp.config(engine="duckdb") is not None  # a name of the registry of engines
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# Imports each module in a process of its own; prints those that fail.
ALONE = """
import os, sys
import numpy, pyarrow  # which take the longest
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        __import__(name)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


def test_public_modules_import_alone() -> None:
    """In whatever order: no module relies on others that the package imported before."""
    names = [
        "blas",
        "datasets",
        "fft",
        "formats",
        "graph",
        "ingest",
        "linalg",
        "models",
        "optim",
        "testing",
        "training",
    ]
    more = [
        "engines",
        "functions.sql",
        "io.base.registry",
        "plan",
        "runtime.settings",
        "storage",
        "tensor",
        "cli.shell",
    ]
    modules = [f"sparrow.{name}" for name in names + more]
    done = subprocess.run([sys.executable, "-c", ALONE, *modules], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_lazy_names_are_those_of_type_checkers() -> None:
    if not (sp.__file__ or "").endswith(".py"):
        pytest.skip("needs the sources")
    (block,) = (
        node
        for node in ast.parse(Path(sp.__file__ or "").read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported.keys() == set(sp.__all__)
    for name, path in imported.items():
        module, _, attribute = path.rpartition(".")
        found = importlib.import_module(path) if module == "sparrow" else importlib.import_module(module)
        if module != "sparrow" and attribute != "module":
            found = getattr(found, attribute)
        assert getattr(sp, name) is found or name == "nan", name


@pytest.mark.parametrize(
    ("call", "result"),
    [("np.concatenate([A, A]).shape", "(8, 4)"), ("np.vecdot(A, A).sum()", "4.0"), ("np.linalg.norm(A)", "2.0")],
)
def test_numpy_functions_of_unpickled_tensors(tmp_path: Path, call: str, result: str) -> None:
    """No name of the package is used in the new process."""
    (tmp_path / "A.pickle").write_bytes(pickle.dumps(sp.eye(4)))
    code = f"import pickle, numpy as np; A = pickle.load(open('A.pickle', 'rb')); print({call})"
    environment = {**os.environ, "PYTHONPATH": str(Path(sp.__file__ or "").parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.stdout == f"{result}\n", done.stderr


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
