from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sparrow as sp

MODULES = ["sparrow"] + [
    found.name for found in pkgutil.walk_packages(sp.__path__, "sparrow.") if not found.name.endswith("__main__")
]
DOCUMENTED = [
    "sparrow", "sparrow.blas", "sparrow.datasets", "sparrow.fft", "sparrow.formats", "sparrow.graph", "sparrow.ingest",
    "sparrow.linalg", "sparrow.models", "sparrow.models.evaluation", "sparrow.optim", "sparrow.training",
]  # fmt: skip
PROMISED = "Tensor Bundle open from_coords asarray zeros from_relation matmul sql config formats ingest datasets errors"


def _own(module: ModuleType) -> set[str]:
    """Return the public functions and classes of sparrow in a module."""
    return {
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__.startswith("sparrow")
    }


@pytest.mark.parametrize("name", MODULES)
def test_all_is_complete(name: str) -> None:
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    if listed is None:
        assert _own(module) == set(), f"{name} has no __all__"
        return
    assert len(set(listed)) == len(listed)
    assert [word for word in listed if not hasattr(module, word)] == []


@pytest.mark.parametrize("name", MODULES)
def test_public_names_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for word in getattr(module, "__all__", ()):
        thing = getattr(module, word)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name}.{word}"


def _public() -> Iterator[tuple[str, Any]]:
    """Yield public functions, classes and methods with their names."""
    for name in DOCUMENTED:
        module = importlib.import_module(name)
        for word in module.__all__:
            thing = getattr(module, word)
            if inspect.isclass(thing) and thing.__module__.startswith("sparrow"):
                yield f"{name}.{word}", thing
                for own in (cls for cls in thing.__mro__ if cls.__module__.startswith("sparrow")):
                    for called, method in vars(own).items():
                        if not called.startswith("_") and (
                            inspect.isfunction(method) or isinstance(method, classmethod)
                        ):
                            yield (
                                f"{name}.{word}.{called}",
                                method.__func__ if isinstance(method, classmethod) else method,
                            )
            elif inspect.isfunction(thing):
                yield f"{name}.{word}", thing


PUBLIC = dict(_public())
_ENTRY = re.compile(r"^(?=\S)(.+?)(?: :.*)?$", re.MULTILINE)


def _sections(thing: Any) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by their titles."""
    parts = re.split(r"^([A-Z][a-z ]+)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_sections(name: str) -> None:
    thing = PUBLIC[name]
    sections = _sections(thing)
    assert ">>> " in sections.get("Examples", "")
    if inspect.isclass(thing):
        return
    signature = inspect.signature(thing)
    told = [entry.lstrip("*") for line in _ENTRY.findall(sections.get("Parameters", "")) for entry in line.split(", ")]
    taken = [word for word in signature.parameters if word not in ("self", "cls")]
    assert told == taken
    assert [word for word in taken if word.startswith("_")] == []
    if signature.return_annotation not in (None, "None"):
        assert sections.keys() & {"Returns", "Yields"}


def test_dir_lists_public_names() -> None:
    assert {name for name in dir(sp) if not name.startswith("__")} == {n for n in sp.__all__ if not n.startswith("__")}
    assert set(sp.__all__) <= set(dir(sp))
    assert {"__version__", "__array_api_version__", "__array_namespace_info__"} <= set(dir(sp))


@pytest.mark.parametrize("name", [*DOCUMENTED[1:], "sparrow.errors"])
def test_dir_of_modules(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)


def test_promised_names_exist() -> None:
    assert set(PROMISED.split()) <= set(sp.__all__)
    assert {"libsvm", "edges", "columns"} <= set(sp.ingest.__all__)
    assert {"load", "names", "path"} <= set(sp.datasets.__all__)


def test_no_other_public_names() -> None:
    assert _own(sp) <= set(sp.__all__)


def test_import_is_light() -> None:
    script = (
        "import sys, sparrow; dir(sparrow)\n"
        "heavy = 'duckdb', 'pyarrow.compute', 'polars', 'numba', 'rich', 'typer', 'sparrow.ingest', 'sparrow.models'\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_completion_is_light() -> None:
    script = (
        "import sys, rlcompleter, sparrow as sp\n"
        "complete = rlcompleter.Completer({'sp': sp}).complete\n"
        "print(complete('sp.', 0), complete('sp.models', 0))\n"  # asks for every one
        "heavy = 'duckdb', 'polars', 'numba', 'rich', 'typer', 'scipy.sparse.linalg', 'sparrow.models.als'\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "sp.Bundle( sp.models\n[]\n"


def test_tensor_completion_skips_numpy_stubs() -> None:
    script = (
        "import jedi, parso.cache, sparrow as sp\n"
        "found = jedi.Interpreter('A.t', [{'A': sp.eye(3)}]).complete()\n"  # as a notebook does
        "print([name.name for name in found if name.type == 'function'])\n"
        "read = [str(path) for files in parso.cache.parser_cache.values() for path in files]\n"
        "print([path for path in read if 'numpy' in path.rpartition('site-packages')[2]])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    methods = [name for name in dir(sp.Tensor) if name.startswith("t")]
    assert run.stdout == f"{[name for name in methods if callable(getattr(sp.Tensor, name))]}\n[]\n"


def test_first_product_without_numba() -> None:
    script = (
        "import sys, numpy as np, sparrow as sp\n"
        "A = sp.eye(100_000)\n"
        "y = A @ np.arange(100_000)\n"
        "print('numba' in sys.modules, y.sum())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False 4999950000.0\n"


def test_graph_and_blas_import_no_solvers() -> None:
    script = "import sys, sparrow as sp; sp.graph, sp.blas\nprint('scipy.sparse' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_commands_import_no_pandas(tmp_path: Path) -> None:
    sp.from_coords([[0, 1], [1, 2]], [1, 1]).save(tmp_path / "web")
    script = """
import sys
from sparrow.cli import main
for words in (
    "show web", "info web", "multiply web --vector ones", "export web web.mtx", "append web web --duplicates last"
):
    try: main(words.split())
    except SystemExit as end: assert end.code == 0, words
try: main(["sql", "select count(*) from web", "web=web"])
finally: print('pandas' in sys.modules, file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stderr.endswith("False\n")


def test_commands_import_no_numba() -> None:
    script = (
        "import sys; from sparrow.cli import main\n"
        "try: main(['ingest', '--list'])\n"
        "finally: print('numba' in sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stderr == "False\n"


def test_site_covers_all_functions(repository: Path) -> None:
    """The site generator fails for a module without a subject."""
    tree = ast.parse((repository / "docs" / "site.py").read_text(encoding="utf-8"))
    (subjects,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SUBJECTS"
    ]
    public = {name: getattr(sp, name) for name in sp.__all__ if name not in {"Tensor", "Bundle"}}
    modules = {name: getattr(thing, "__module__", None) or "" for name, thing in public.items()}
    ours = {name: module.rpartition(".")[2] for name, module in modules.items() if module.startswith("sparrow.")}
    assert {name for name, module in ours.items() if module not in subjects} == set()
    assert len(ours) > 100
