"""Rules of the architecture that import-linter does not check."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sparrow"
TESTS = ROOT / "tests"

MAX_TOP_LEVEL = 26
"""Number of public packages and modules directly below ``sparrow``."""


@cache
def modules() -> dict[str, Path]:
    """Return the files of the package by module name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def iter_imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, str | None]]:
    """Yield (module, name) of every import, nested ones included.

    The name of ``import module`` is None.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if is_package and node.level == 1 else -node.level + is_package]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                yield base, alias.name


@cache
def import_graph() -> networkx.DiGraph:
    """Return the graph of imports between modules.

    It includes imports in functions and under ``TYPE_CHECKING``.

    ``from package import module`` is an edge to the module, and to the package only if the name is defined there.
    Re-exports of packages are not dependencies between their modules.
    """
    graph: networkx.DiGraph = networkx.DiGraph()
    known = modules()
    for name, path in known.items():
        graph.add_node(name)
        for base, attribute in iter_imports(ast.parse(path.read_text()), name, path.name == "__init__.py"):
            target = f"{base}.{attribute}"
            target = target if target in known else base
            if target in known and target != name:
                graph.add_edge(name, target)
    return graph


def test_top_level_stays_small() -> None:
    names = {name.split(".")[1] for name in modules() if "." in name}
    public = sorted(name for name in names if not name.startswith("_"))
    assert len(public) <= MAX_TOP_LEVEL, public


def test_no_import_cycles() -> None:
    """Imports in functions and under ``TYPE_CHECKING`` count as well."""
    graph = import_graph().copy()
    graph.remove_node("sparrow")
    cycles = [sorted(found) for found in networkx.strongly_connected_components(graph) if len(found) > 1]
    assert not cycles, cycles


@pytest.mark.parametrize("engine", sorted(path.name for path in (PACKAGE / "engines").iterdir() if path.is_dir()))
def test_engines_are_used_through_the_registry(engine: str) -> None:
    inner = f"sparrow.engines.{engine}"
    offenders = [
        f"{source} imports {target}"
        for source, target in import_graph().edges
        if (target == inner or target.startswith(inner + ".")) and not source.startswith("sparrow.engines")
    ]
    assert not offenders, offenders


def module_attributes_set(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of statements that set an attribute of a sparrow module."""
    known = modules()
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module:
            aliases.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})

    def is_module(expression: ast.expr) -> bool:
        text = ast.unparse(expression)
        head, _, rest = text.partition(".")
        full = aliases.get(text) or (f"{aliases[head]}.{rest}" if head in aliases and rest else text)
        return full in known

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            for target in targets:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(part, ast.Attribute) and is_module(part.value):
                        yield node.lineno, ast.unparse(part)
        if isinstance(node, ast.Call) and node.args:
            function = ast.unparse(node.func)
            first = node.args[0]
            if not function.endswith(("setattr", "delattr", "patch", "patch.object", "patch.multiple")):
                continue
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                owner = first.value.rpartition(".")[0]
                if owner in known:
                    yield node.lineno, first.value
            elif is_module(first):
                yield node.lineno, ast.unparse(node)[:100]


def test_tests_do_not_patch_modules() -> None:
    """Tests force strategies through ``sparrow.testing`` and so survive refactorings."""
    offenders: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        name = str(path.relative_to(TESTS))
        for line, text in module_attributes_set(ast.parse(path.read_text())):
            offenders.setdefault(name, []).append(f"{name}:{line}: {text}")
    assert not offenders, [line for lines in offenders.values() for line in lines]


def test_module_attributes_set_finds_patches() -> None:
    source = """
from sparrow.sorting import sorter as s
import sparrow.runtime.memory
monkeypatch.setattr(s, "_CHUNK", 1)
monkeypatch.setattr("sparrow.sorting.sorter._CHUNK", 1)
with mock.patch.object(s, "_CHUNK", 1), mock.patch("sparrow.sorting.sorter._CHUNK", 1):
    sparrow.runtime.memory.limit = None
monkeypatch.setattr(s.Sorter, "close", None)
monkeypatch.setattr(os, "pwrite", None)
"""
    assert len(list(module_attributes_set(ast.parse(source)))) == 5
