"""Every kernel that takes indices, led wrong ones by its public caller.

Kernels are compiled with bounds checks if all are (``make test BOUNDSCHECK=1``), since that takes minutes.

A kernel that is not listed in ``KERNELS`` fails the test: name the call that leads to it.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.index_arrays import SCENARIOS

SEED, CASES = 11, 8
GROUPS = {
    "products": ["matvec", "spgemm", "mask_products", "sample_products", "tilings", "contraction_of_two_axes"],
    "arrays": ["elementwise", "sorts", "reductions", "rows", "writes", "append_runs"],
    "graphs": [
        "breadth_first", "weighted_paths", "negative_cycles", "components", "strong_components", "triangles", "cores",
        "communities", "pagerank",
    ],
    "models": ["als", "linear_models", "row_updates"],
}  # fmt: skip
"""Scenarios that share a process."""
DECORATORS = {"njit", "_inline", "register_jitable"}
INDICES = re.compile(
    r"(\w+_)?(indptr|indices|rows?|cols?|columns?|starts?|stops?|begins?|ends?|pointers|places|positions|order|offsets|"
    r"bounds|cuts|nodes|parent|queue|predecessor|needed|wanted|slots|at|keys|path|sources)"
)
"""Names of parameters that hold indices, or bounds of slices."""
KERNELS: dict[str, str] = {
    "graph.adjacency.count_edges": "als",
    "graph.adjacency.part_bounds": "als",
    "graph.adjacency.row_block_bounds": "als",
    "graph.adjacency.transpose": "als",
    "graph.traversal.bfs_levels": "breadth_first",
    "graph.traversal.bucket_by_degree": "cores",
    "graph.traversal.count_triangles": "triangles",
    "graph.traversal.gather_edges": "strong_components",
    "graph.traversal.h_index": "cores",
    "graph.traversal.has_negative_cycle": "negative_cycles",
    "graph.traversal.near_far_paths": "weighted_paths",
    "graph.traversal.number_components": "components",
    "graph.traversal.orient_by_rank": "triangles",
    "graph.traversal.peel_cores": "cores",
    "graph.traversal.propagate_colors": "strong_components",
    "graph.traversal.propagate_labels": "communities",
    "graph.traversal.reach": "strong_components",
    "graph.traversal.relax": "breadth_first",
    "graph.traversal.strong_components": "strong_components",
    "graph.traversal.symmetrize": "triangles",
    "graph.traversal.transpose_edges": "triangles",
    "graph.traversal.union_neighbors": "components",
    "hashtable._probe": "contraction_of_two_axes",
    "hashtable.factorize": "contraction_of_two_axes",
    "hashtable.lookup": "contraction_of_two_axes",
    "keys._gather": "sorts",
    "keys._unpack_column": "elementwise",
    "keys.sort_stable": "sorts",
    "keys.sortedness": "tilings",
    "matmul.count._compress_rows": "mask_products",
    "matmul.count._count_words": "mask_products",
    "matmul.count.count_rows": "mask_products",
    "matmul.dense.coo_matvec": "matvec",
    "matmul.dense.csr_constant_matvec": "matvec",
    "matmul.dense.csr_constant_matvecs": "matvec",
    "matmul.dense.csr_matvec": "matvec",
    "matmul.dense.csr_matvecs": "matvec",
    "matmul.dense.mttkrp": "contraction_of_two_axes",
    "matmul.dense.sddmm": "sample_products",
    "matmul.dense.sorted_coo_matvec": "matvec",
    "matmul.masked.build_masked.masked_rows": "mask_products",
    "matmul.masked.build_masked_dot.masked_dot": "mask_products",
    "matmul.masked.build_masked_sum.masked_sum": "mask_products",
    "matmul.masked.csr_to_csc": "mask_products",
    "matmul.masked.estimate_dot_steps": "mask_products",
    "matmul.select._build_topk.topk_rows": "spgemm",
    "matmul.select._is_before": "spgemm",
    "matmul.select._offer": "spgemm",
    "matmul.select._sort_by_column": "spgemm",
    "matmul.select.select_largest": "spgemm",
    "matmul.spgemm._build_merge_add.merge_add": "tilings",
    "matmul.spgemm._build_rows.rows": "spgemm",
    "matmul.spgemm._column_span": "spgemm",
    "matmul.spgemm._write_seeded": "spgemm",
    "matmul.spgemm._write_slots": "spgemm",
    "matmul.spgemm._write_touched": "spgemm",
    "matmul.symbolic._rank_sort": "spgemm",
    "matmul.symbolic._sort": "spgemm",
    "matmul.symbolic.count_products": "spgemm",
    "matmul.symbolic.plan_rows": "spgemm",
    "ml.als._longest": "als",
    "ml.als._start": "als",
    "ml.als._sweep": "als",
    "ml.als.conjugate_gradient": "als",
    "ml.als.eigenbasis": "als",
    "ml.als.normal_equations": "als",
    "ml.als.subspace": "als",
    "ml.factors.load": "als",
    "ml.linear._gather": "linear_models",
    "ml.linear._gather_all": "linear_models",
    "ml.linear._scatter": "linear_models",
    "ml.linear._scatter_all": "linear_models",
    "ml.linear._score": "linear_models",
    "ml.linear.scores": "linear_models",
    "ml.linear.train": "linear_models",
    "ml.optim.update": "row_updates",
    "ml.systems.copy_targets": "als",
    "ml.systems.refine_cholesky": "als",
    "ml.systems.solve_cholesky": "als",
    "ml.topk._key": "als",
    "ml.topk._select": "als",
    "ml.topk.exclude_columns": "als",
    "ml.topk.update_candidates": "als",
    "rows.find_row_runs": "tilings",
    "rows.find_section_end": "tilings",
    "rows._place": "tilings",
    "rows._places": "append_runs",
    "rows._pointers": "spgemm",
    "rows._repeat": "sorts",
    "rows._scatter": "sorts",
    "rows._splice": "append_runs",
    "rows._tally": "sorts",
    "scatter.run_starts": "reductions",
    "scatter.scatter_add": "reductions",
    "scatter.scatter_best": "reductions",
    "scatter.scatter_moments": "reductions",
}
"""The scenario whose calls reach each kernel."""


def parse_kernels(root: Path) -> Iterator[tuple[str, list[str], set[str]]]:
    """Yield name, parameters and used names of each compiled function.

    Parsers of text are left out: they are led wrong bytes by the tests of formats, and those of WebGraph's bits by
    ``tests/interop/damaged.py``.
    """
    for path in sorted(root.rglob("*.py")):
        if "parse" in path.parts:
            continue
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        stack: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text(encoding="utf-8")), module)]
        while stack:
            node, prefix = stack.pop()
            for child in ast.iter_child_nodes(node):
                name = f"{prefix}.{child.name}" if isinstance(child, ast.FunctionDef) else prefix
                stack.append((child, name))
                if not isinstance(child, ast.FunctionDef):
                    continue
                used = [each.func if isinstance(each, ast.Call) else each for each in child.decorator_list]
                if DECORATORS & {ast.unparse(each) for each in used}:
                    whole = node if isinstance(node, ast.FunctionDef) else child  # what builds it names what it calls
                    names = {each.id for each in ast.walk(whole) if isinstance(each, ast.Name)}
                    yield name, [each.arg for each in child.args.args], names


@pytest.fixture(scope="module")
def kernels(repository: Path) -> dict[str, tuple[list[str], set[str]]]:
    found = parse_kernels(repository / "sparrow" / "kernels")
    return {name: (parameters, used) for name, parameters, used in found}


def test_every_kernel_with_indices_is_listed(kernels: dict[str, tuple[list[str], set[str]]]) -> None:
    taking = {name for name, (parameters, _) in kernels.items() if any(map(INDICES.fullmatch, parameters))}
    assert taking - set(KERNELS) == set(), "name a scenario of tests/kernels/index_arrays.py that leads to them"
    assert set(KERNELS) - set(kernels) == set(), "these are gone"
    assert set(KERNELS.values()) <= set(SCENARIOS)
    assert sorted(itertools.chain.from_iterable(GROUPS.values())) == sorted(SCENARIOS)


@pytest.mark.parametrize("group", GROUPS)
def test_wrong_indices(
    group: str, kernels: dict[str, tuple[list[str], set[str]]], repository: Path, tmp_path: Path
) -> None:
    arguments = [",".join(GROUPS[group]), str(SEED), str(CASES), str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.index_arrays", *arguments],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    reached = set(json.loads(run.stdout)) & set(kernels)
    while more := {
        other for each in reached for other in set(kernels) - reached if other.rpartition(".")[2] in kernels[each][1]
    }:
        reached |= more
    assert {kernel for kernel, scenario in KERNELS.items() if scenario in GROUPS[group]} - reached == set()
