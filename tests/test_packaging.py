"""The wheel is complete, and the project declares its dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sessions import share_compiled_kernels


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def unpacked_wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=repository, check=True, capture_output=True)
    (wheel,) = folder.glob("sparrow_tensor-*.whl")
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    return unpacked


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_package_sql_and_datasets(unpacked_wheel: Path, repository: Path) -> None:
    found = _files(unpacked_wheel / "sparrow")
    code = {name for name in _files(repository / "sparrow") if name.endswith((".py", ".typed", ".html", ".js", ".css"))}
    assert code <= found
    for folder in ("sql", "ingest", "datasets"):
        expected = {f"_{folder}/{name}" for name in _files(repository / folder)}
        assert {name for name in found if name.startswith(f"_{folder}/")} == expected
    licence = list(unpacked_wheel.glob("*.dist-info/licenses/LICENSE"))
    assert [path.read_text() for path in licence] == [(repository / "LICENSE").read_text()]


def test_the_wheel_works_elsewhere(unpacked_wheel: Path, repository: Path, tmp_path: Path) -> None:
    share_compiled_kernels(repository, unpacked_wheel)
    script = """
import pathlib, sys
import sparrow as sp
assert pathlib.Path(sp.__file__).is_relative_to(sys.argv[1]), sp.__file__
from sparrow.runtime.resources import data_folder
assert (data_folder("sql") / "duckdb").is_dir()
heart = sp.datasets.load("heart_scale", cache="cache")
print(heart["X"].nnz)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(unpacked_wheel)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(unpacked_wheel), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "3378\n"


def _statements(nodes: list[Any]) -> Iterator[Any]:
    """Yield all statements, without descending into expressions."""
    for node in nodes:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, field, []))


def _find_imports(folder: Path) -> set[str]:
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in _statements(ast.parse(path.read_text()).body):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"sparrow", "__future__"}


def _names(requirements: list[str]) -> set[str]:
    """Return the names of requirements, without versions and extras."""
    return {re.split(r"[<>=!~\[ ]", text)[0] for text in requirements}


def test_imports_match_dependencies(repository: Path, project: dict[str, Any]) -> None:
    declared = _names(project["project"]["dependencies"])
    extras = project["project"]["optional-dependencies"]
    used = "notebook gpu torch sparse pandas sklearn cloud hdf5 dask ray spark"
    optional = set().union(*(_names(extras[name]) for name in used.split()))
    optional |= {"sklearn"} if "scikit-learn" in optional else set()
    optional |= {"IPython"} if "ipython" in optional else set()
    optional |= {"cupy", "cupyx"} if "cupy-cuda12x" in optional else set()  # one wheel, named after what it needs
    optional |= {"py4j"} if "pyspark" in optional else set()
    optional |= {"cloudpickle"}  # Dask and joblib bring it along; an error suggests it
    imported = {name.replace("_", "-") for name in _find_imports(repository / "sparrow")}
    declared, optional = ({name.replace("_", "-") for name in names} for names in (declared, optional))
    assert declared <= imported <= declared | optional


def test_every_requirement_is_pinned(repository: Path, project: dict[str, Any]) -> None:
    lines = (repository / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+==[A-Za-z0-9_.]+", line) for line in lines)
    pinned = {line.split("==")[0].lower() for line in lines}
    extras = project["project"]["optional-dependencies"]
    assert _names([*project["project"]["dependencies"], *extras["dev"]]) <= pinned


def test_the_changelog_has_the_version(repository: Path) -> None:
    import sparrow

    assert f"## {sparrow.__version__}" in (repository / "CHANGELOG.md").read_text()
