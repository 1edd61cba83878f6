"""Wrong shapes, axes, dtypes and indices raise an error that names them.

Details of each function are tested with it; here all functions meet the same few mistakes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, SparrowError

REDUCTIONS = [
    "sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "norm", "count", "argmin", "argmax", "nansum",
    "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax", "cumsum", "cumprod",
]  # fmt: skip
ALONG = [
    "sp.expand_dims(A, {})", "sp.squeeze(A, {})", "sp.flip(A, {})", "sp.sort(A, {})", "sp.cumulative_sum(A, {})",
    "sp.moveaxis(A, {}, 0)", "sp.moveaxis(A, 0, {})", "sp.concat([A, A], {})", "sp.stack([A, A], {})",
    "sp.split(A, 1, {})", "sp.repeat(A, 2, {})", "sp.roll(A, 1, {})", "np.swapaxes(A, 0, {})", "np.take(A, [0], {})",
    *(f"A.{name}(axis={{}})" for name in REDUCTIONS),
]  # fmt: skip
NO_TENSOR = [
    f"sp.{name}(x)" for name in ("tril", "triu", "diagonal", "unique", "nonzero", "sort", "zeros_like", "squeeze")
] + ["sp.reshape(x, (1,))", "sp.kron(A, x)", "sp.concat([A, x])", "A + x", "x * A", "A == x", "A @ x", "np.hypot(A, x)"]

# What is asked, the builtin that it is too, and words of the message.
CASES: list[tuple[str, type[Exception], list[str]]] = [
    ("A + np.ones((2, 2))", ValueError, ["(3, 4)", "(2, 2)"]),
    ("A @ np.ones(3)", ValueError, ["(3, 4)", "(3,)"]),
    ("A @ np.ones((3, 2))", ValueError, ["(3, 4)", "(3, 2)"]),
    ("np.ones(4) @ A", ValueError, ["(4,)", "(3, 4)"]),
    ("sp.reshape(A, (5, 2))", ValueError, ["(3, 4)", "(5, 2)"]),
    ("sp.reshape(A, (-1, -1))", ValueError, ["-1"]),
    ("sp.reshape(A, 'ab')", TypeError, ["'ab'"]),
    ("sp.broadcast_to(A, (3, 5))", ValueError, ["(3, 4)", "(3, 5)"]),
    ("sp.broadcast_to(A, None)", ValueError, ["None"]),
    ("sp.concat([A, A[:, 1:]])", ValueError, ["(3, 4)", "(3, 3)"]),
    ("sp.concat(5)", TypeError, ["5"]),
    ("sp.stack([A, A[0]])", ValueError, ["(3, 4)", "(4,)"]),
    ("sp.split(A, 2)", ValueError, ["size 3", "2 equal sections"]),
    ("sp.split(A, [1.5])", TypeError, ["1.5"]),
    ("sp.repeat(A, [1, 2], 0)", ValueError, ["(2,)", "one number or 3"]),
    ("sp.repeat(A, -1, 0)", ValueError, ["-1"]),
    ("sp.roll(A, (1, 2), (0,))", ValueError, ["got 2", "1 axes"]),
    ("sp.moveaxis(A, (0, 1), 0)", ValueError, ["2 axes", "got 0"]),
    ("sp.tile(A, 'a')", TypeError, ["'a'"]),
    ("A.transpose(0, 0)", ValueError, ["(0, 0)"]),
    ("sp.permute_dims(A, 1)", ValueError, ["(1,)"]),
    ("A.isel('x')", TypeError, ["isel(row=5)", "'x'"]),
    ("A.rename('x')", TypeError, ["rename(d0='row')", "'x'"]),
    ("A.compute(engine=np.ones(2))", ValueError, ["engine=array"]),
    ("A.asformat(np.ones(2))", ValueError, ["storage type must be one of"]),
    ("A.append(A, duplicates=np.ones(2))", ValueError, ["duplicates must be one of", "got array"]),
    ("np.matvec(A, 2)", ValueError, ["right operand has no dimensions"]),
    ("np.matvec(A, [[0], [1, 2]])", ValueError, ["x2=[[0], [1, 2]] cannot be converted to an array"]),
    ("np.vecmat([[0], [1, 2]], A)", ValueError, ["x1=[[0], [1, 2]] cannot be converted to an array"]),
    ("sp.linalg.norm(A, 1, 1.5)", TypeError, ["axis must be an integer, got 1.5"]),
    ("np.vecmat(2, A)", ValueError, ["left operand has no dimensions"]),
    ("A.transpose('x')", ValueError, ["'x'"]),
    ("A.sum(axis=(0, 0))", ValueError, ["(0, 0)", "twice"]),
    ("A.sum(where=np.ones(3))", ValueError, ["'stored'"]),
    ("A.mean(dtype=int)", TypeError, ["int64", "floating type"]),
    ("(A * 1j).sum(dtype=float)", TypeError, ["float64", "imaginary"]),
    ("A.astype('nonsense')", TypeError, ["'nonsense'"]),
    ("A.astype('U3')", TypeError, ["<U3", "float64"]),
    ("A.norm(ord='fro')", ValueError, ["'fro'"]),
    ("A[5]", IndexError, ["index 5", "dimension 0", "size 3"]),
    ("A[0, 0, 0]", IndexError, ["3", "2 dimensions"]),
    ("A[[0, 3]]", IndexError, ["index 3", "size 3"]),
    ("A[1.5]", IndexError, ["1.5"]),
    ("A['x']", IndexError, ["'x'"]),
    ("A[np.ones((2, 2), bool)]", IndexError, ["2", "3"]),
    ("A.put([[0, 1], [0]], 1)", ValueError, ["(2,)", "(1,)"]),
    ("A.put(np.zeros((5, 2), int), 1)", ValueError, ["(ndim, n) = (2, n)", "(5, 2)", "transpose"]),
    ("A.put([[0], [4]], 1)", IndexError, ["index 4", "size 4"]),
    ("A.put([[0.5], [0]], 1)", IndexError, ["float64"]),
    ("A.put([[0, 1], [0, 1]], [1, 2, 3])", ValueError, ["(3,)", "shape (2,)"]),
    ("A.put([[0], [0]], 'a')", TypeError, ["str"]),
    ("A.put([[0], [0]], 1j)", TypeError, ["complex128", "float64"]),
    ("sp.from_coords(None, 1)", ValueError, ["(ndim, nnz)"]),
    ("sp.from_coords([[0, 1], [0, 1]], [[1], [1, 2]])", ValueError, ["ragged"]),
    ("sp.from_coords([[0], [2**70]], [1])", TypeError, ["dimension 1", "object"]),
    ("sp.from_coords([[0], [0]], [1], dims=['a', 'A'])", ValueError, ["'a'", "'A'"]),
    ("B + 300", OverflowError, ["300", "uint8"]),
    ("B.put([[0]], [300])", OverflowError, ["300", "uint8"]),
    ("B ** -1", ValueError, ["-1"]),
    ("sp.asarray([1, 0]) ** -1", ValueError, ["negative integer powers"]),
    ("A[[0, 1]].put([[0], [0]], 1)", ValueError, ["read-only"]),
    ("(A + A).put([[0], [0]], 1)", ValueError, ["read-only"]),
    ("sp.broadcast_to(A, (2, 3, 4)).put([[0], [0], [0]], 1)", ValueError, ["read-only"]),
    ("A.resize(3)", ValueError, ["(3, 4)", "(3,)"]),
    ("A.append(A[0])", ValueError, ["(3, 4)", "(4,)"]),
    ("float(A)", TypeError, ["(3, 4)"]),
    ("bool(A)", ValueError, ["(3, 4)"]),
    ("np.sum(A, out='x')", TypeError, ["out=", "str"]),
    ("np.unwrap(A)", TypeError, ["np.unwrap"]),
    ("sp.linalg.cg(S, None)", TypeError, ["b=None", "numbers"]),
    ("sp.linalg.cg('x', [1, 2])", TypeError, ["cg", "numbers"]),
    ("sp.linalg.cg(S, [1, 2], x0='x')", TypeError, ["x0='x'"]),
    ("sp.linalg.eigsh(None)", TypeError, ["eigsh", "numbers"]),
    ("sp.linalg.eigsh(S, k=1.5)", TypeError, ["k must be an integer, got 1.5"]),
    ("sp.linalg.lobpcg(S, None)", TypeError, ["X=None"]),
    ("sp.linalg.spsolve(S, 3)", ValueError, ["spsolve", "()", "2 rows"]),
    ("sp.linalg.spsolve(S, [1, 2, 3])", ValueError, ["(3,)", "2 rows"]),
    ("sp.linalg.splu(5)", ValueError, ["splu", "()"]),
    ("sp.linalg.pagerank(S, tol='x')", ValueError, ["tol must be", "got 'x'"]),
    ("sp.linalg.pagerank(S, damping=float('nan'))", ValueError, ["damping must be", "got nan"]),
    ("sp.linalg.pagerank(S, max_iter=None)", ValueError, ["max_iter must be", "got None"]),
    ("sp.linalg.pagerank(S, personalization={'x': 1})", ValueError, ["personalization", "'x'"]),
    ("sp.linalg.power_iteration(S, seed=None)", ValueError, ["seed must be", "got None"]),
    ("sp.graph.bfs(S, None)", KeyError, ["None"]),
    ("sp.graph.bfs(S, [[0, 1]])", ValueError, ["(1, 2)"]),
    ("sp.graph.hits(S, tol=None)", ValueError, ["tol must be", "got None"]),
    ("sp.graph.label_propagation(S, seed='x')", ValueError, ["seed must be", "got 'x'"]),
    ("sp.graph.random_walks(S, [0], 2, seed=-1)", ValueError, ["seed must be", "got -1"]),
    ("sp.graph.adamic_adar(S, 3)", ValueError, ["pairs=3"]),
    ("sp.graph.symmetrize(S, [])", ValueError, ["combine=[]"]),
    ("sp.einsum('ij,jk', A, 'x')", TypeError, ["operand 2 must be a tensor or a numeric array, got str 'x'"]),
    ("sp.einsum('ij,jk', None, A)", TypeError, ["operand 1 must be a tensor or a numeric array, got NoneType None"]),
    ("sp.einsum(A, [0, 1], {}, [1])", TypeError, ["operand 2 must be a tensor or a numeric array, got dict {}"]),
    ("sp.einsum('ij', A, optimize='foo')", ValueError, ["'foo'", "'auto', 'greedy', 'optimal', True, False"]),
    ("sp.tensordot(A, 'x', 1)", TypeError, ["x2 must be a tensor or a numeric array, got str 'x'"]),
    ("sp.tensordot(None, A, 1)", TypeError, ["x1 must be a tensor or a numeric array, got NoneType None"]),
    ("sp.sddmm(A, 'x', A)", TypeError, ["sddmm: X must be a tensor or a numeric array, got str 'x'"]),
    ("sp.vecdot(5, A)", IndexError, ["vecdot: x1 has shape ()", "axis -1"]),
    ("sp.vecdot(A, 5)", IndexError, ["vecdot: x2 has shape ()", "axis -1"]),
    ("sp.vecdot(A, 'x')", TypeError, ["vecdot: x2 must be a tensor or a numeric array, got str 'x'"]),
    ("sp.linalg.aslinearoperator(S) @ 'x'", TypeError, ["x='x'"]),
    ("b'x' @ sp.linalg.aslinearoperator(S)", TypeError, ["x=b'x'"]),
    ("sp.linalg.aslinearoperator(S) * 'x'", TypeError, ["x='x'"]),
    ("sp.linalg.aslinearoperator(S).matvec('x')", TypeError, ["x='x'"]),
    ("sp.linalg.matrix_norm(5)", IndexError, ["matrix_norm", "()"]),
    ("sp.linalg.matrix_norm(A[0])", IndexError, ["matrix_norm", "(4,)"]),
    ("sp.linalg.pinv(S, rtol='x')", ValueError, ["pinv: rtol", "'x'"]),
    ("sp.linalg.pinv(S, rtol=[[1], [1, 2]])", ValueError, ["pinv: rtol", "[[1], [1, 2]]"]),
    ("sp.linalg.matrix_rank(S, rtol={})", ValueError, ["matrix_rank: rtol", "{}"]),
    ("sp.linalg.cross(A[:, :3], A[:, :2])", ValueError, ["cross: x2", "(3, 2)", "size 3 along axis -1"]),
    ("sp.linalg.cross(A[:, :3], 5)", IndexError, ["cross: x2", "()"]),
    ("sp.linalg.expm_multiply(S, [1, 2], start=0)", ValueError, ["start=0 alone", "start, stop and num go together"]),
    ("sp.linalg.expm_multiply(S, [1, 2], stop=1, num=3)", ValueError, ["stop=1, num=3 alone"]),
    ("A.save(None)", TypeError, ["path must be", "got None"]),
    ("A.save(b'x')", TypeError, ["os.fsdecode"]),
    ("A.save('a\\\\b')", ValueError, ["Delta logs", "another name"]),
    ("A.save('a\\nb')", ValueError, ["Delta logs", "another name"]),
    ("A.save('a\\0b')", ValueError, ["null"]),
    ("A.save('a', orders=(1, 0))", ValueError, ["orders", "(1, 0)", "[(1, 0)]"]),
    ("A.set_labels(1.5, ['a'])", TypeError, ["1.5"]),
    ("A.to_npz(5)", TypeError, ["path must be", "got 5"]),
    ("sp.open(None)", TypeError, ["path must be", "got None"]),
    ("sp.export(A, None)", TypeError, ["dst must be", "got None"]),
    ("sp.ingest.edges(None, 'x')", TypeError, ["src must be", "got None"]),
    ("sp.tile(A, 2**70)", ValueError, ["dimension", "2^63 - 1"]),
    ("sp.repeat(A, 10**12)", MemoryError, ["12000000000000 slices"]),
    ("sp.Semiring('plus', 'times', {})", ValueError, ["identity must be a number, got {}"]),
    ("sp.sql(None)", TypeError, ["query", "got None"]),
    ("sp.Bundle('x')", ValueError, ["{'X': X, 'y': y}"]),
    ("sp.config(memory_limit=[])", ValueError, ["[]"]),
    ("sp.config(progress=np.ones(2))", ValueError, ["progress must be", "got array([1., 1.])", "True or False"]),
    ("A.save('a', overwrite=np.ones(2))", ValueError, ["overwrite must be", "got array([1., 1.])"]),
    ("A.save('a', overwrite='no')", ValueError, ["overwrite must be", "got 'no'"]),
    ("sp.export(A, 'a.mtx', overwrite='no')", ValueError, ["overwrite must be", "got 'no'"]),
    ("sp.sort(A, descending=np.ones(2))", ValueError, ["descending must be", "got array([1., 1.])"]),
    ("sp.argsort(A, stable=np.ones(2))", ValueError, ["stable must be", "got array([1., 1.])"]),
    ("sp.matmul(S, S, mask=S, complement=np.ones(2))", ValueError, ["complement must be", "got array([1., 1.])"]),
    ("sp.asarray(A, copy=np.ones(2))", ValueError, ["copy must be", "got array([1., 1.])"]),
    ("A.reshape(12, copy='never')", ValueError, ["copy must be", "got 'never'"]),
    ("A.explain(analyze=np.ones(2))", ValueError, ["analyze must be", "got array([1., 1.])"]),
    ("A.to_polars(lazy=np.ones(2))", ValueError, ["lazy must be", "got array([1., 1.])"]),
    ("A.to_arrow(labels=np.ones(2))", ValueError, ["labels must be", "got array([1., 1.])"]),
    ("sp.isin(A, [1], invert=np.ones(2))", ValueError, ["invert must be", "got array([1., 1.])"]),
    ("sp.linalg.svd(A, full_matrices=np.ones(2))", ValueError, ["full_matrices must be", "got array([1., 1.])"]),
    ("sp.linalg.cholesky(S, upper=np.ones(2))", ValueError, ["upper must be", "got array([1., 1.])"]),
    ("sp.graph.bfs(S, 0, directed='no')", ValueError, ["directed must be", "got 'no'"]),
    ("sp.graph.degrees(S, weighted=np.ones(2))", ValueError, ["weighted must be", "got array([1., 1.])"]),
    ("sp.batches(A, shuffle=np.ones(2))", ValueError, ["shuffle must be", "got array([1., 1.])"]),
    ("sp.models.LinearRegression(fit_intercept=np.ones(2)).fit(A, [0, 1, 1])", ValueError,
     ["fit_intercept must be", "got array"]),
    ("sp.optim.SGD(0.1, momentum=0.5, nesterov=np.ones(2))", ValueError, ["nesterov must be", "got array([1., 1.])"]),
    ("sp.config(memory_limit=float('inf'))", ValueError, ["inf"]),
    ("sp.config(temp_directory=3.5)", TypeError, ["temp_directory must be", "got 3.5"]),
    ("sp.config(engine='foo')", ValueError, ["engine must be", "got 'foo'", "'auto', 'cupy', 'dask'"]),
    ("sp.config(storage_options='x')", ValueError, ["AWS_REGION"]),
    ("sp.config(deterministic='no')", ValueError, ["deterministic must be", "got 'no'", "True or False"]),
    ("sp.config(progress='maybe')", ValueError, ["progress must be", "got 'maybe'"]),
    ("sp.training.train_test_split(A, seed=None)", ValueError, ["seed must be", "got None"]),
    ("sp.training.ParameterStore(shards=None)", ValueError, ["shards must be", "got None"]),
    ("sp.models.evaluation.split(A, seed='x')", ValueError, ["seed must be", "got 'x'"]),
    ("sp.models.evaluation.split(A, test=None)", ValueError, ["test=None"]),
    ("sp.models.evaluation.hold_out_entries(A, None)", ValueError, ["share=None"]),
    ("sp.models.evaluation.min_links(S, None)", ValueError, ["least must be", "got None"]),
    ("sp.models.LogisticRegression(class_weight={0: -1}).fit(A, [0, 1, 1])", ValueError,
     ["class_weight[0] must be", "got -1"]),
    ("sp.optim.Cosine('x', steps=3)", ValueError, ["lr must be", "got 'x'"]),
    ("sp.optim.SGD(0.1).update(np.ones(3), np.ones(3), None)", TypeError, ["create_state"]),
]  # fmt: skip


def catch_error(expression: str, **names: Any) -> SparrowError:
    """Return the error an expression raises; its operands stay unchanged."""
    dense = np.array([[0, 2.0, 0, 0], [0, 0, 3.0, 0], [1.0, 0, 0, 0]])
    A, B = sp.asarray(dense), sp.asarray(np.array([1, 0], np.uint8))
    with pytest.raises(SparrowError) as caught:
        eval(expression, {"np": np, "sp": sp, "A": A, "B": B, "S": sp.eye(2), **names})
    assert np.array_equal(A.to_numpy(), dense)
    assert B.to_numpy().tolist() == [1, 0]
    return caught.value


@pytest.mark.parametrize(("expression", "kind", "words"), CASES, ids=[case[0] for case in CASES])
def test_error_names_the_mistake(expression: str, kind: type[Exception], words: list[str]) -> None:
    error = catch_error(expression)
    assert isinstance(error, kind)
    assert [word for word in words if word not in str(error)] == []


@pytest.mark.parametrize("call", ALONG)
def test_axes(call: str) -> None:
    for axis in ("5", "-4"):
        error = catch_error(call.format(axis))
        assert isinstance(error, np.exceptions.AxisError)
        assert axis in str(error)
    assert isinstance(catch_error(call.format("'x'")), np.exceptions.AxisError | TypeError)
    assert isinstance(catch_error(call.format("1.5")), TypeError)


@pytest.mark.parametrize(
    ("call", "thing"),
    [each for each in itertools.product(NO_TENSOR, [None, "text", {}, object()]) if each != ("A == x", None)],
)
def test_what_is_no_tensor(call: str, thing: Any) -> None:
    assert isinstance(catch_error(call, x=thing), TypeError | ValueError)


@pytest.mark.parametrize("dims", [5, 3.5, object(), True])
def test_dims_that_are_no_names(dims: Any) -> None:
    makes: list[Callable[[], Any]] = [
        lambda: sp.zeros((2,), dims=dims),
        lambda: sp.full((2,), 1, dims=dims),
        lambda: sp.asarray([1], dims=dims),
    ]
    for make in makes:
        with pytest.raises(InvalidValueError, match=r"dims must be a sequence of names"):
            make()


def test_labels_that_are_no_dictionary() -> None:
    for labels in (5, "x", [["a", "b"]], np.arange(2)):
        with pytest.raises(InvalidValueError, match=r"labels must be a dictionary .*, got "):
            sp.from_coords([[0, 1]], [1, 2], dims=("a",), labels=labels)  # type: ignore[arg-type]
    empty = sp.asarray(np.empty((0,)), dims=("a",), labels={"a": []})
    found = empty.labels("a")
    assert found is not None
    assert len(found) == 0
