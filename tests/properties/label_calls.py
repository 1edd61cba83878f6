"""Calls of all public functions that take several tensors.

``CALLS`` has calls with labelled tensors, ``ALONE`` the reason why the others take one at most. A function that is in
neither fails ``test_label_orders.py``: add it here.
"""

from __future__ import annotations

import inspect
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sparrow as sp
from sparrow.tensor.ufuncs import NUMPY_FUNCTIONS

evaluation = sp.models.evaluation
linalg, graph, blas, training, models, formats = sp.linalg, sp.graph, sp.blas, sp.training, sp.models, sp.formats

SIZES = {"u": 4, "i": 3, "n": 4, "k": 3, "p": 16, "o": 1}
"""Vocabularies of labels with their sizes.

Dimensions "m" and "q" have the labels of "n" and "p"; "j" and "w" have the names of "i" and "u".
"""


@dataclass(frozen=True)
class Operand:
    """Labelled tensor to draw: a letter per dimension, then the kind of elements.

    Kinds are "?" for booleans, "#" for integers from 0 to 2, "+" for positive numbers, ">" for ascending ones, "s" for
    a symmetric and positive definite matrix, "^" for a lower triangular one, "g" for a graph with a node without edges,
    "=" for the elements of the first operand.
    """

    spec: str

    @property
    def dims(self) -> str:
        """Letters of the dimensions."""
        return self.spec.rstrip("?#+>s^g=")

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(SIZES[vocabulary(dim)] for dim in self.dims)

    def dense(self, number: int) -> np.ndarray[Any, Any]:
        """Return the elements of operand ``number``, of which no two slices are equal."""
        kind, shape = self.spec[len(self.dims) :], self.shape
        rng = np.random.default_rng(0 if kind == "=" else number)
        values = rng.permutation(np.arange(1.0, 1 + np.prod(shape))).reshape(shape)
        made: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
            "?": lambda: values <= values.size // 2,
            "#": lambda: values.astype(np.int64) % 3,
            "+": lambda: values,
            ">": lambda: np.arange(1, 1 + shape[0]),
            "s": lambda: values + values.T + 100 * np.diag(np.arange(1.0, 1 + shape[0])),
            "^": lambda: np.tril(values) + 20 * np.eye(shape[0]),
            "g": lambda: np.where(np.arange(shape[0])[:, None] == 1, 0, values),
        }
        return made.get(kind, lambda: np.where(values % 4 == 0, 0, np.where(values % 3 == 0, -values, values)))()


def vocabulary(dim: str) -> str:
    """Return the vocabulary of a dimension."""
    return {"m": "n", "q": "p", "j": "k", "w": "k"}.get(dim, dim)


def dimension(dim: str) -> str:
    """Return the name of a dimension."""
    return {"j": "i", "w": "u"}.get(dim, dim)


@dataclass(frozen=True)
class Call:
    """Call of a function with labelled tensors.

    Parameters
    ----------
    function
        Takes the operands.
    specs
        Operands, see ``Operand``.
    vary
        Operands to put in other orders, along dimensions that another operand has too; by default all but the first,
        whose order the result has.
    raises
        Whether it raises for other orders instead.
    partial
        Operands, masks and values, that may lack labels of another one: they have no elements there. Masks may also
        have more.
    """

    function: Callable[..., Any]
    specs: tuple[str, ...]
    vary: tuple[int, ...] | None = None
    raises: bool = False
    partial: tuple[int, ...] = ()

    @property
    def varied(self) -> tuple[int, ...]:
        """Numbers of the operands to put in other orders."""
        return tuple(range(1, len(self.specs))) if self.vary is None else self.vary


def call(
    function: Callable[..., Any],
    *specs: str,
    vary: tuple[int, ...] | None = None,
    raises: bool = False,
    partial: tuple[int, ...] = (),
) -> Call:
    """Return a call with operands by specification."""
    return Call(function, specs, vary, raises, partial)


# -- what all public functions are ------------------------------------------------------------------

MODULES: dict[str, Any] = {
    "sp": sp, "linalg": linalg, "graph": graph, "blas": blas, "fft": sp.fft, "training": training, "models": models,
    "evaluation": evaluation, "optim": sp.optim, "formats": formats, "datasets": sp.datasets, "ingest": sp.ingest,
}  # fmt: skip
_TENSOR_LIKE = (
    "Tensor", "Any", "ArrayLike", "Weights", "Self", "Mask", "NDArray", "HeldOut", "Recommend", "Model",
)  # fmt: skip
"""Parts of annotations of parameters that may be tensors."""

OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")


def count_tensor_parameters(function: Any) -> int:
    """Return the number of tensors that a signature can take, without ``self``."""
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        text = str(parameter.annotation)
        is_bare = parameter.annotation is inspect.Parameter.empty
        if parameter.name in ("self", "cls") or not (is_bare or any(part in text for part in _TENSOR_LIKE)):
            continue
        is_variadic = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_several = is_variadic or "Sequence[" in text or "Mapping[" in text
        count += 2 if is_several else 1
    return count


def public_names(minimum: int = 2) -> Iterator[str]:
    """Yield the names of all public functions that can take some tensors."""
    for title, module in MODULES.items():
        names = module.__all__ if hasattr(module, "__all__") else [name for name in dir(module) if name[0] != "_"]
        for name in names:
            member = getattr(module, name)
            if isinstance(member, types.ModuleType) or not callable(member):
                continue
            if inspect.isclass(member):
                if not issubclass(member, np.generic | BaseException) and member is not bool:
                    yield from _class_names(f"{title}.{name}", member, minimum)
            elif count_tensor_parameters(member) >= minimum:
                yield f"{title}.{name}"
    yield from (f"np.{function.__name__}" for function in NUMPY_FUNCTIONS if function.__module__ == "numpy")
    for part in ("linalg", "fft"):
        found = (function.__name__ for function in NUMPY_FUNCTIONS if function.__module__ == f"numpy.{part}")
        yield from (f"np.{part}.{name}" for name in found)
    ufuncs = {name: value for name in dir(np) if isinstance(value := getattr(np, name), np.ufunc) and value.nin > 1}
    yield from (f"np.{value.__name__}" for value in ufuncs.values())


def _class_names(title: str, kind: type, minimum: int) -> Iterator[str]:
    if count_tensor_parameters(kind) >= minimum:
        yield title
    own = [name for name in dir(kind) if name[0] != "_"]
    if kind is sp.Tensor:
        arithmetic = [f"__{prefix}{name}__" for name in OPERATORS for prefix in ("", "r", "i")]
        own += ["__getitem__", "__setitem__", *arithmetic, *(f"__{name}__" for name in COMPARISONS), "__divmod__"]
    for name in own:
        method = getattr(kind, name)
        others = minimum - 1 if kind is sp.Tensor else 1
        if callable(method) and (name.startswith("__") or count_tensor_parameters(method) >= others):
            yield f"{title}.{name}"


# -- how they are called -------------------------------------------------------------------------------


def write(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that changes a copy of its first operand and returns that."""

    def run(first: Any, *others: Any) -> Any:
        changed = first.compute()
        function(changed, *others)
        return changed

    return run


def set_item(changed: Any, key: Any, value: Any) -> None:
    """Assign to an index."""
    changed[key] = value


def edit(changed: Any, key: Any, value: Any) -> None:
    """Assign within an edit."""
    with changed.edit() as e:
        e[key] = value


def apply(method: str) -> Callable[..., Any]:
    """Return a function that calls a method of its first operand."""
    return lambda first, *others: getattr(first, method)(*others)


def in_place(name: str) -> Callable[..., Any]:
    """Return an operator in place."""
    return write(lambda a, b: getattr(a, f"__i{name}__")(b))


def with_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that writes to the last of its operands, and returns that."""

    def run(*operands: Any) -> Any:
        out = operands[-1].compute()
        function(*operands[:-1], out=out)
        return out

    return run


def _initial(name: str) -> dict[str, Any]:
    return {"initial": 0} if name.removeprefix("nan") in ("max", "min") else {}


def fit(kind: Any) -> Any:
    """Return a function that fits a model and returns its weights."""
    return lambda X, y, weights: kind(epochs=2).fit(X, y, weights).coef_


def validate(kind: Any) -> Any:
    """Return a function that fits a model and returns its validation losses."""
    return lambda X, y, V, w: kind(epochs=2, validation=(V, w)).fit(X, y).validation_loss_


def apply_fitted(kind: Any, method: str) -> Any:
    """Return a function that calls a method of a fitted model with rows."""

    def run(X: Any, *others: Any) -> Any:
        fitted = kind(epochs=1).fit(X.to_numpy(), [0, 1, 1, 0])
        return getattr(fitted, method)(X, *others)

    return run


def predict(kind: Any, method: str) -> Any:
    """Return a function that fits a model to labelled rows and applies it to others."""
    options = {"loss": "logistic"} if kind is models.FactorizationMachine and method != "predict" else {}
    return lambda A, X: getattr(kind(epochs=1, **options).fit(A, [0, 1, 1, 0]), method)(X)


def als() -> Any:
    """Return a model without epochs to speak of."""
    return models.ALS(factors=2, epochs=2, unobserved_weight=0.1)


def recommend_to_file(A: Any, exclude: Any, model: Any = None) -> Any:
    """Return the rows of the file that ``recommend_all`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        (als() if model is None else model).fit(A).recommend_all(Path(folder) / "best", 2, exclude=exclude)
        return pq.read_table(Path(folder) / "best").to_pandas().to_numpy()


def held_out(A: Any, history: Any, truth: Any, model: Any = None) -> Any:
    """Return metrics of a model on held-out rows."""
    parts = evaluation.HeldOut(np.arange(len(history)), history, truth)
    return evaluation.evaluate((als() if model is None else model).fit(A), parts, [1, 2], [2], baseline=False)


def first_batch(X: Any, y: Any = None) -> Any:
    """Return the arrays of the first batch."""
    batch = next(iter(training.Batches(X, y, batch_size=3)))
    data = {name: sp.asarray(one).to_numpy() for name, one in batch.data.items()}
    return data, {name: np.asarray(one) for name, one in batch.label.items()}


def put_rows(container: Any, rows: Any, data: Any) -> Any:
    """Return a container with other rows."""
    container.put(rows, data)
    return container


def store_sum(first: Any, second: Any) -> Any:
    """Return the parameters after a push of two gradients."""
    with training.ParameterStore() as store:
        store.init("w", np.zeros(first.shape))
        store.push("w", [first, second])
        return store.pull("w")


def krylov(name: str) -> Call:
    """Return a call of a solver with initial vector and preconditioner."""
    solver, options = getattr(linalg, name), {"restart": 1} if name == "gmres" else {}
    return call(lambda A, b, x0, M: solver(A, b, x0, M=M, maxiter=1, **options)[0], "nms", "n", "n", "nms")


ELEMENTWISE = (
    "add", "subtract", "multiply", "divide", "pow", "remainder", "floor_divide", "atan2", "copysign", "hypot",
    "logaddexp", "maximum", "minimum", "nextafter", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_left_shift", "bitwise_right_shift",
)  # fmt: skip
REDUCTIONS = (
    "all", "any", "max", "mean", "min", "prod", "sum", "std", "var", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar",
)  # fmt: skip
_INTEGERS = ("shift", "gcd", "lcm", "ldexp", "bitwise", "and", "or", "xor")
_MODELS = ("LinearRegression", "LogisticRegression", "FactorizationMachine")


def binary(name: str, function: Callable[..., Any]) -> Call:
    """Return a call of an element-wise function of two operands."""
    kind = "?" if name.startswith("logical") else "#" if any(part in name for part in _INTEGERS) else ""
    if name == "nextafter":  # differences are smaller than the tolerance
        return call(lambda a, b: np.sign(function(a, b) - a), "ui", "ui")
    return call(function, f"ui{kind}", f"ui{kind}")


_JOIN = """
    select a.u, a.i, a.value * b.value from a, b where a.u::varchar = b.u::varchar and a.i::varchar = b.i::varchar
"""

CALLS: dict[str, list[Call]] = {
    **{f"sp.{name}": [binary(name, getattr(sp, name))] for name in ELEMENTWISE},
    **{
        f"np.{value.__name__}": [binary(value.__name__, value)]
        for value in map(np.__dict__.get, dir(np))
        if isinstance(value, np.ufunc) and value.nin == 2 and value.signature is None
    },
    # the class Tensor
    **{
        f"sp.Tensor.__{prefix}{name}__": [
            binary(name, in_place(name) if prefix == "i" else apply(f"__{prefix}{name}__"))
        ]
        for name in OPERATORS
        for prefix in ("", "r", "i")
        if name != "matmul"
    },
    **{f"sp.Tensor.__{name}__": [binary(name, apply(f"__{name}__"))] for name in (*COMPARISONS, "divmod")},
    "sp.Tensor.__matmul__": [call(lambda a, b: a @ b, "ui", "ik"), call(lambda a, b: a @ b, "ui", "i")],
    "sp.Tensor.__rmatmul__": [call(lambda a, b: a.__rmatmul__(b), "ik", "ui")],
    "sp.Tensor.__imatmul__": [call(in_place("matmul"), "nm", "nm")],
    "sp.Tensor.__getitem__": [
        call(lambda a, m: a[m], "ui", "u?", partial=(1,)),
        call(lambda a, m: a[:, m], "ui", "i?", partial=(1,)),
        call(lambda a, m: a[m], "ui", "ui?", partial=(1,)),
        call(lambda a, m: a.oindex[m], "ui", "u?", partial=(1,)),
        call(lambda a, m: a.vindex[m], "ui", "u?", partial=(1,)),
        call(lambda a, i, j: a[i, j], "ui", "k#", "k#", vary=(2,)),
        call(lambda a, i, j: a.vindex[i, j], "ui", "k#", "k#", vary=(2,)),
    ],
    "sp.Tensor.__setitem__": [
        call(write(lambda a, m: set_item(a, m, 5)), "ui", "u?", partial=(1,)),
        call(write(lambda a, m: set_item(a, m, 5)), "ui", "ui?", partial=(1,)),
        call(write(lambda a, b: set_item(a, slice(None), b)), "ui", "ui", partial=(1,)),
        call(write(lambda a, m, b: set_item(a, m, b[m])), "ui", "u?", "ui"),
        call(write(lambda a, m, b: edit(a, m, b[m])), "ui", "u?", "ui"),
    ],
    "sp.Tensor.append": [call(write(lambda a, b: a.append(b, duplicates="last")), "ui", "ui")],
    "sp.Tensor.clip": [call(lambda a, low, high: a.clip(low, high), "ui", "ui", "ui")],
    "sp.Tensor.dot": [call(lambda a, b: a.dot(b), "ui", "ik")],
    "sp.Tensor.isel": [call(lambda a, m: a.isel(u=m), "ui", "u?", partial=(1,))],
    "sp.Tensor.take": [
        call(lambda a, m: a.take(m, 0), "ui", "u?", partial=(1,)),
        call(lambda a, m: a.take(m), "u", "u?", partial=(1,)),
    ],
    "sp.Tensor.matvec": [call(lambda a, x: a.matvec(x), "ui", "i")],
    "sp.Tensor.rmatvec": [call(lambda a, x: a.rmatvec(x), "ui", "u")],
    "sp.Tensor.rmatmat": [call(lambda a, x: a.rmatmat(x), "ui", "uk")],
    "sp.Tensor.put": [call(write(lambda a, i, j, v: a.put([i, j], v)), "ui", "k#", "k#", "k", vary=(2, 3))],
    "sp.Tensor.round": [call(with_out(lambda a, out: a.round(out=out)), "ui", "ui", vary=(0,))],
    **{
        f"sp.Tensor.{name}": [
            call(
                lambda a, m, name=name, axis=axis: getattr(a, name)(axis=axis, where=m, **_initial(name)),
                "ui",
                spec,
                partial=(1,),
            )
            for axis, spec in (((1, "ui?"), (None, "u?"), (0, "i?")) if name in ("sum", "var") else ((1, "ui?"),))
        ]
        for name in (*REDUCTIONS, "count")
    },
    # functions
    "sp.align": [call(lambda a, b: sp.align(a, b)[1], "ui", "ui")],
    "sp.batches": [call(first_batch, "ui", "u")],
    "sp.clip": [call(sp.clip, "ui", "ui", "ui")],
    "sp.concat": [call(lambda a, b: sp.concat([a, b], axis=1), "ui", "uj")],
    "sp.diff": [call(lambda a, b: sp.diff(a, axis=1, prepend=b), "ui", "uj")],
    "sp.einsum": [
        call(lambda a, b: sp.einsum("ui,ik->uk", a, b), "ui", "ik"),
        call(lambda a, b: sp.einsum("ui,ui->u", a, b), "ui", "ui"),
        call(lambda a, b, m: sp.einsum("ui,ik->uk", a, b, mask=m), "ui", "ik", "uk?"),
    ],
    "sp.einsum_sql": [
        call(lambda a, b: sorted(sp.sql(sp.einsum_sql("ui,ik->uk", A=a, B=b), A=a, B=b).fetchall()), "ui", "ik")
    ],
    "sp.sql": [
        call(
            lambda a, b: sorted(
                sp.sql(
                    _JOIN,
                    a=a,
                    b=b,
                ).fetchall()
            ),
            "ui",
            "ui",
        )
    ],
    "sp.from_coords": [call(lambda i, j, v: sp.from_coords([i, j], v, (3, 3), duplicates="sum"), "k#", "k#", "k")],
    "sp.matmul": [
        call(sp.matmul, "ui", "ik"),
        call(lambda a, b, m: sp.matmul(a, b, mask=m), "ui", "ik", "uk?"),
        call(lambda a, b, m: sp.matmul(a, b, mask=m, complement=True), "ui", "ik", "uk?"),
    ],
    "sp.neighbors": [
        call(lambda a, b, metric=metric: sp.neighbors(a, 2, metric=metric, data=b), "ui", "ki")
        for metric in ("cosine", "dot", "jaccard", "euclidean")
    ],
    "sp.sddmm": [call(sp.sddmm, "ui", "uk", "ki")],
    "sp.stack": [call(lambda a, b: sp.stack([a, b]), "ui", "ui")],
    "sp.take": [call(lambda a, m: sp.take(a, m, axis=1), "ui", "i?", partial=(1,))],
    "sp.take_along_axis": [call(lambda a, at: sp.take_along_axis(a, at, 1), "uk", "ui#")],
    "sp.tensordot": [call(lambda a, b: sp.tensordot(a, b, axes=1), "ui", "ik")],
    "sp.vecdot": [call(sp.vecdot, "ui", "ui")],
    "sp.where": [call(sp.where, "ui?", "ui", "ui")],
    # linear algebra
    **{
        f"linalg.Operator.{name}": [
            call(lambda A, x, name=name: getattr(linalg.aslinearoperator(A), name)(x), "ui", spec)
        ]
        for name, spec in (
            ("dot", "i"),
            ("matvec", "i"),
            ("matmat", "ik"),
            ("rmatvec", "u"),
            ("rmatmat", "uk"),
            ("multiply_transposed", "u"),
        )
    },
    **{f"linalg.{name}": [krylov(name)] for name in ("cg", "gmres", "minres", "bicgstab")},
    "linalg.cross": [call(linalg.cross, "uk", "uk")],
    "linalg.eigsh": [
        call(lambda A, v0: linalg.eigsh(A, 1, v0=v0)[0], "nms", "n", vary=()),
        call(lambda A, M: linalg.eigsh(A, 1, M=M, Minv=np.linalg.inv(M.to_numpy()))[0] * 0, "nms", "nms", vary=()),
    ],
    "linalg.expm_multiply": [call(lambda A, B: linalg.expm_multiply(A / 1000, B), "nms", "nk")],
    "linalg.lobpcg": [call(lambda A, X: linalg.lobpcg(A, X, maxiter=20, tol=1e9)[1], "pqs", "po")],
    "linalg.lsmr": [call(lambda A, b, x: linalg.lsmr(A, b, x0=x, maxiter=1)[0], "ui", "u", "i")],
    "linalg.lsqr": [call(lambda A, b, x: linalg.lsqr(A, b, x0=x, iter_lim=1)[0], "ui", "u", "i")],
    "linalg.matmul": [call(linalg.matmul, "ui", "ik")],
    "linalg.pagerank": [call(lambda A, p, d: linalg.pagerank(A, personalization=p, dangling=d), "nmg", "n+", "n+")],
    "linalg.power_iteration": [call(lambda A, v: linalg.power_iteration(A, v, tol=9.0)[1], "nms", "n")],
    "linalg.solve": [call(linalg.solve, "nms", "n")],
    "linalg.spsolve": [call(linalg.spsolve, "nms", "n")],
    "linalg.spsolve_triangular": [call(linalg.spsolve_triangular, "nm^", "n")],
    "linalg.svds": [call(lambda A, v0: linalg.svds(A, 1, v0=v0, maxiter=20)[1], "ui", "i", vary=())],
    "linalg.tensordot": [call(lambda a, b: linalg.tensordot(a, b, axes=1), "ui", "ik")],
    "linalg.vecdot": [call(linalg.vecdot, "ui", "ui")],
    # graphs
    "graph.adamic_adar": [call(graph.adamic_adar, "nm", "nm?")],
    "graph.common_neighbors": [call(graph.common_neighbors, "nm", "nm?")],
    "graph.induced_subgraph": [call(graph.induced_subgraph, "nm", "n?", raises=True)],
    "graph.pagerank": [call(lambda A, p, d: graph.pagerank(A, personalization=p, dangling=d), "nmg", "n+", "n+")],
    "graph.bfs": [call(graph.bfs, "nm", "n?", raises=True)],
    "graph.random_walks": [call(lambda A, m: graph.random_walks(A, m, 3), "nm", "n?", raises=True)],
    "graph.shortest_paths": [call(graph.shortest_paths, "nm+", "n?", raises=True)],
    # BLAS
    "blas.axpy": [call(lambda x, y: blas.axpy(x, y, 2.0), "u", "u")],
    "blas.dot": [call(blas.dot, "u", "u")],
    "blas.dotc": [call(blas.dotc, "u", "u")],
    "blas.gather": [call(blas.gather, "u", "u?", partial=(1,))],
    "blas.gather_zero": [call(blas.gather_zero, "u", "u?", partial=(1,))],
    "blas.scatter": [
        call(lambda x, i, y: blas.scatter(x, i, y.to_numpy()), "k", "k#", "u", vary=(1,)),
        call(lambda y, m: blas.scatter([7.0, 8.0], m, y), "u", "u?"),
    ],
    "blas.rot": [call(lambda x, y: blas.rot(x, y, 0.6, 0.8), "u", "u")],
    "blas.swap": [call(blas.swap, "u", "u")],
    "blas.gemv": [call(lambda A, x, y: blas.gemv(2.0, A, x, 3.0, y), "ui", "i", "u")],
    "blas.ger": [call(lambda A, x, y: blas.ger(2.0, x, y, A), "ui", "u", "i")],
    "blas.gerc": [call(lambda A, x, y: blas.gerc(2.0, x, y, A), "ui", "u", "i")],
    "blas.hemv": [call(lambda A, x, y: blas.hemv(2.0, A, x, 3.0, y), "nms", "n", "n")],
    "blas.symv": [call(lambda A, x, y: blas.symv(2.0, A, x, 3.0, y), "nms", "n", "n")],
    "blas.trsv": [call(lambda A, b: blas.trsv(A, b, lower=True), "nm^", "n")],
    "blas.gemm": [call(lambda A, B, C: blas.gemm(2.0, A, B, 3.0, C), "ui", "ik", "uk")],
    "blas.symm": [call(lambda A, B, C: blas.symm(2.0, A, B, 3.0, C), "nms", "nk", "nk")],
    "blas.syrk": [call(lambda A, C: blas.syrk(2.0, A, beta=3.0, C=C), "ni", "nms")],
    "blas.trsm": [call(lambda A, B: blas.trsm(2.0, A, B, lower=True), "nm^", "nk")],
    # containers
    **{
        f"formats.{name}.from_coords": [
            call(lambda i, j, v, name=name: getattr(formats, name).from_coords([i, j], v, (3, 3)), "k#", "k#", "k")
        ]
        for name in ("COO", "CSR", "CSC", "RowSparse")
    },
    "formats.COO": [call(lambda i, j, v: formats.COO(v, [i, j], (3, 3), "sum"), "k#", "k#", "k")],
    **{
        f"formats.{name}": [
            call(lambda i, v, name=name: getattr(formats, name)(v, i, [0, 1, 2, 3], (3, 3)), "k#", "k", raises=True)
        ]
        for name in ("CSR", "CSC")
    },
    **{
        f"formats.{name}.from_begin_end": [
            call(
                lambda i, v, b, e, name=name: getattr(formats, name).from_begin_end(v, i, b - 1, e, (3, 3)),
                "k#",
                "k",
                "i>",
                "i>",
                raises=True,
            )
        ]
        for name in ("CSR", "CSC")
    },
    "formats.RowSparse": [call(lambda i, v: formats.RowSparse(v, i, (4, 3)), "k>", "ki")],
    "formats.RowSparse.put": [
        call(lambda i, v: put_rows(formats.RowSparse([[0, 0, 0]], [0], (4, 3)), i, v), "k>", "ki")
    ],
    # training and models
    "training.Batches": [
        call(lambda X, Z, y: first_batch({"X": X, "Z": Z}, {"y": y}), "ui", "uk", "u"),
        call(first_batch, "ui", "uk"),
    ],
    "training.batches": [call(first_batch, "ui", "u")],
    "training.ParameterStore.push": [call(store_sum, "ui", "ui")],
    "training.train_test_split": [
        call(lambda X, y: training.train_test_split(X, y, 0.5), "ui", "u"),
        call(lambda X, s: training.train_test_split(X, test_size=0.5, stratify=s), "pi", "p?"),
    ],
    "models.ALS.fold_in": [call(lambda A, rows: als().fit(A).fold_in(rows[:1]), "ui", "ki")],
    "models.ALS.predict": [call(lambda A, r, c: als().fit(A).predict(r, c), "ui", "k#", "k#", vary=(2,))],
    "models.ALS.recommend": [
        call(lambda A, E: als().fit(A).recommend(["u0", "u2"], 2, exclude=E)[0], "ui", "ui?"),
        call(lambda A, H, E: als().fit(A).recommend(H, 2, exclude=E)[0], "ui", "ki", "ki?", vary=(2,)),
    ],
    "models.ALS.recommend_all": [call(recommend_to_file, "ui", "ui?")],
    "evaluation.Popularity.predict": [
        call(lambda A, r, c: evaluation.Popularity().fit(A).predict(r, c), "ui", "k#", "k#", vary=(2,))
    ],
    "evaluation.Popularity.recommend": [
        call(lambda A, E: evaluation.Popularity().fit(A).recommend(["u0", "u2"], 2, exclude=E)[0], "ui", "ui?")
    ],
    "evaluation.Popularity.recommend_all": [
        call(lambda A, E: recommend_to_file(A, E, evaluation.Popularity()), "ui", "ui?")
    ],
    "evaluation.HeldOut": [call(held_out, "ui", "ui?", "ui")],
    "evaluation.evaluate": [
        call(held_out, "ui", "ui?", "ui"),
        call(lambda A, H, T: held_out(A, H, T, evaluation.Popularity()), "ui", "ui?", "ui"),
    ],
    "evaluation.rmse": [call(lambda A, T: evaluation.rmse(als().fit(A), T), "ui", "ui")],
    **{
        f"models.{name}": [call(validate(getattr(models, name)), "ui", "u?", "ki", "k?", vary=(3,))] for name in _MODELS
    },
    **{f"models.{name}.fit": [call(fit(getattr(models, name)), "ui", "u?", "u+")] for name in _MODELS},
    **{
        f"models.{name}.partial_fit": [
            call(
                lambda X, y, w, name=name: (
                    getattr(models, name)(optimizer="sgd").partial_fit(X, y, classes=[0, 1], sample_weight=w).coef_
                ),
                "ui",
                "u?",
                "u+",
            )
        ]
        for name in _MODELS
    },
    **{
        f"models.{name}.{method}": [call(apply_fitted(getattr(models, name), method), "ui", "u?", "u+")]
        for name in _MODELS
        for method in ("evaluate", "score")
    },
    **{
        f"models.{name}.{method}": [call(predict(getattr(models, name), method), "ui", "ki", raises=True)]
        for name, method in (
            ("LinearRegression", "predict"),
            ("LogisticRegression", "predict"),
            ("FactorizationMachine", "predict"),
            ("LogisticRegression", "predict_proba"),
            ("LogisticRegression", "decision_function"),
            ("FactorizationMachine", "predict_proba"),
            ("FactorizationMachine", "decision_function"),
        )
    },
    # NumPy's functions
    **{
        f"np.{name}": [
            call(
                lambda a, m, name=name: getattr(np, name)(a, axis=1, where=m, **_initial(name)),
                "ui",
                "ui?",
                partial=(1,),
            )
        ]
        for name in REDUCTIONS
    },
    "np.append": [call(lambda a, b: np.append(a, b, axis=1), "ui", "uj")],
    "np.array_equal": [call(np.array_equal, "ui", "ui=")],
    "np.allclose": [call(np.allclose, "ui", "ui=")],
    "np.average": [
        call(lambda a, w: np.average(a, axis=0, weights=w), "ui", "u+"),
        call(lambda a, w: np.average(a, axis=0, weights=w), "ui", "ui+"),
        call(lambda a, w: np.average(a, axis=(0, 1), weights=w), "ui", "ui+"),
    ],
    "np.block": [call(lambda a, b: np.block([[a, b]]), "ui", "uj")],
    "np.clip": [call(np.clip, "ui", "ui", "ui")],
    "np.column_stack": [call(lambda a, b: np.column_stack([a, b]), "u", "u")],
    "np.compress": [call(lambda m, a: np.compress(m, a, axis=0), "u?", "ui", vary=(0,), partial=(0,))],
    "np.concatenate": [call(lambda a, b: np.concatenate([a, b], axis=1), "ui", "uj")],
    "np.copyto": [call(write(np.copyto), "ui", "ui", partial=(1,))],
    "np.corrcoef": [call(np.corrcoef, "ui", "ki")],
    "np.cov": [
        call(np.cov, "ui", "ki"),
        call(lambda a, f, w: np.cov(a, fweights=f, aweights=w), "ui", "i#", "i+"),
    ],
    "np.cross": [call(np.cross, "uk", "uk")],
    "np.delete": [call(lambda a, m: np.delete(a, m, axis=0), "ui", "u?", partial=(1,))],
    "np.diff": [call(lambda a, b: np.diff(a, axis=1, prepend=b), "ui", "uj")],
    "np.dot": [call(np.dot, "ui", "ik")],
    "np.dstack": [call(lambda a, b: np.dstack([a, b]), "ui", "ui")],
    "np.einsum": [call(lambda a, b: np.einsum("ui,ik->uk", a, b), "ui", "ik")],
    "np.extract": [
        call(np.extract, "ui?", "ui", vary=(0,), partial=(0,)),
        call(np.extract, "u?", "u", vary=(0,), partial=(0,)),
    ],
    "np.gradient": [call(lambda a, x: np.gradient(a, x, axis=0), "uk", "u>")],
    "np.hstack": [call(lambda a, b: np.hstack([a, b]), "ui", "uj")],
    "np.inner": [call(np.inner, "ui", "ki")],
    "np.insert": [
        call(lambda a, v: np.insert(a, 1, v, axis=0), "ui", "i", partial=(1,)),
        call(lambda a, v: np.insert(a, 1, v, axis=1), "ui", "u", partial=(1,)),
        call(lambda a, v: np.insert(a, [0, 2], v, axis=1).to_numpy(), "ui", "uo"),
        call(lambda a, m: np.insert(a, m, 9.0, axis=0), "ui", "u?", partial=(1,)),
        call(lambda a, m: np.insert(a, m, 9.0), "u", "u?", partial=(1,)),
        call(np.insert, "u", "k#", "k", vary=(2,)),
    ],
    "np.interp": [call(np.interp, "u", "k>", "k", vary=(2,))],
    "np.isclose": [call(np.isclose, "ui", "ui")],
    "np.matvec": [call(np.matvec, "ui", "i")],
    "np.vecmat": [call(np.vecmat, "u", "ui", vary=(0,))],
    "np.repeat": [call(lambda a, n: np.repeat(a, n, axis=0), "ui", "u#")],
    "np.select": [call(lambda m, a, b: np.select([m], [a], b), "ui?", "ui", "ui")],
    "np.stack": [call(lambda a, b: np.stack([a, b]), "ui", "ui")],
    "np.take": [
        call(lambda a, m: np.take(a, m, axis=0), "ui", "u?", partial=(1,)),
        call(lambda a, m: np.take(a, m, axis=0, mode="clip"), "ui", "u?", partial=(1,)),
    ],
    "np.take_along_axis": [call(lambda a, at: np.take_along_axis(a, at, 1), "uk", "ui#")],
    "np.tensordot": [call(lambda a, b: np.tensordot(a, b, 1), "ui", "ik")],
    "np.trapezoid": [
        call(lambda y, x: np.trapezoid(y, x, axis=0), "uk", "u>"),
        call(lambda y, x: np.trapezoid(y, x, axis=0), "uk", "uk"),
        call(lambda y, x: np.trapezoid(y, x, axis=1), "uk", "uk"),
    ],
    "np.vdot": [call(np.vdot, "u", "u"), call(np.vdot, "ui", "ui"), call(np.vdot, "uik", "uik")],
    "np.vecdot": [call(np.vecdot, "ui", "ui")],
    "np.matmul": [call(np.matmul, "ui", "ik")],
    "np.vstack": [call(lambda a, b: np.vstack([a, b]), "ui", "wi")],
    "np.where": [call(np.where, "ui?", "ui", "ui")],
    "np.linalg.cross": [call(np.linalg.cross, "uk", "uk")],
    "np.linalg.lstsq": [call(lambda a, b: np.linalg.lstsq(a, b)[0], "ui", "u")],
    "np.linalg.matmul": [call(np.linalg.matmul, "ui", "ik")],
    "np.linalg.multi_dot": [call(lambda a, b, c: np.linalg.multi_dot([a, b, c]), "ui", "ik", "ku")],
    "np.linalg.solve": [call(np.linalg.solve, "nms", "n")],
    "np.linalg.tensordot": [call(lambda a, b: np.linalg.tensordot(a, b, axes=1), "ui", "ik")],
    "np.linalg.tensorsolve": [call(np.linalg.tensorsolve, "nms", "n")],
    "np.linalg.vecdot": [call(np.linalg.vecdot, "ui", "ui")],
}

SQUARE: dict[str, Callable[[Any], Any]] = {
    **{
        f"{title}.{name}": getattr(module, name)
        for title, module, names in (
            ("np.linalg", np.linalg, "cond det eig eigh eigvals eigvalsh cholesky slogdet svdvals matrix_rank trace"),
            ("linalg", linalg, "det eig eigh eigvals eigvalsh cholesky slogdet svdvals trace diagonal splu spilu"),
            ("np", np, "diagonal diag trace"),
        )
        for name in names.split()
    },
    "np.diagonal(offset)": lambda A: np.diagonal(A, 1),
    "np.trace(offset)": lambda A: np.trace(A, -1),
    "np.diagonal(stack)": lambda A: np.diagonal(sp.stack([A, 2 * A]), 0, 1, 2),
    "sp.Tensor.diagonal": lambda A: A.diagonal(),
    "np.linalg.eigvals(stack)": lambda A: np.linalg.eigvals(sp.stack([A, 2 * A])),
    "np.linalg.matrix_power": lambda A: np.linalg.matrix_power(A, 2),
    "sp.einsum": lambda A: sp.einsum("ii->i", A),
    "linalg.eigsh": lambda A: linalg.eigsh(A, 1)[0],
    "linalg.cg": lambda A: linalg.cg(A, np.arange(len(A)))[0],
    "linalg.power_iteration": lambda A: linalg.power_iteration(A)[0],
    "graph.pagerank": graph.pagerank,
    "graph.bfs": lambda A: graph.bfs(A, ["n0"]),
}
"""Functions of a square matrix whose rows and columns have the same labels."""

ALONE: dict[str, str] = {
    name: reason
    for reason, names in {
        "arguments other than the first are numbers, dtypes, axes, names or settings": """
            blas.scal linalg.matrix_rank linalg.pca linalg.pinv linalg.spilu linalg.splu sp.asarray sp.export
            sp.all sp.any sp.full_like sp.pad sp.result_type sp.Bundle.get sp.Tensor.argmax sp.Tensor.argmin
            sp.Tensor.argsort sp.Tensor.astype
            sp.Tensor.cumprod sp.Tensor.cumsum sp.Tensor.item sp.Tensor.refill sp.Tensor.set_labels
            sp.Tensor.spy evaluation.search evaluation.Model evaluation.Model.fit evaluation.Popularity.fit
            evaluation.Recommending ingest.columns models.ALS.fit models.ALS.set_params
            models.FactorizationMachine.set_params models.LinearRegression.set_params
            models.LogisticRegression.set_params np.amax np.amin np.angle np.argmax np.argmin np.argsort np.argwhere
            np.around np.array_split np.astype np.atleast_1d np.atleast_2d np.atleast_3d np.bincount np.broadcast_to
            np.can_cast np.common_type np.copy np.count_nonzero np.cumprod np.cumsum np.cumulative_prod
            np.cumulative_sum np.diag np.diagflat np.diagonal np.dsplit np.empty_like np.expand_dims np.fft.fft
            np.fft.fft2 np.fft.fftn np.fft.fftshift np.fft.hfft np.fft.ifft np.fft.ifft2 np.fft.ifftn
            np.fft.ifftshift np.fft.ihfft np.fft.irfft np.fft.irfft2 np.fft.irfftn np.fft.rfft np.fft.rfft2
            np.fft.rfftn np.fix np.flatnonzero np.flip np.fliplr np.flipud np.full_like np.hsplit np.i0 np.imag
            np.iscomplex np.iscomplexobj np.isneginf np.isposinf np.isreal np.isrealobj np.linalg.cholesky
            np.linalg.cond np.linalg.det np.linalg.diagonal np.linalg.eig np.linalg.eigh np.linalg.eigvals
            np.linalg.eigvalsh np.linalg.inv np.linalg.matrix_norm np.linalg.matrix_power np.linalg.matrix_rank
            np.linalg.matrix_transpose np.linalg.norm np.linalg.pinv np.linalg.qr np.linalg.slogdet np.linalg.svd
            np.linalg.svdvals np.linalg.tensorinv np.linalg.trace np.linalg.vector_norm np.matrix_transpose
            np.median np.nanmedian np.nanpercentile np.nanquantile np.moveaxis np.nan_to_num np.nanargmax
            np.nanargmin np.nancumprod np.nancumsum np.ndim np.nonzero np.ones_like np.pad np.percentile np.ptp
            np.quantile np.ravel np.real np.reshape np.result_type np.roll np.rollaxis np.rot90 np.round np.shape
            np.sinc np.size np.sort np.split np.squeeze np.swapaxes np.tile np.trace np.transpose np.tril np.triu
            np.unique np.unique_all np.unique_counts np.unique_inverse np.unique_values np.unstack np.vsplit
            np.zeros_like
        """,
        "operands do not meet: each keeps its own axes, or results are separate": """
            sp.broadcast_arrays sp.compute sp.kron sp.meshgrid linalg.outer np.broadcast_arrays np.kron np.ediff1d
            np.linalg.outer np.meshgrid np.outer np.polyval sp.einsum_path np.einsum_path np.may_share_memory
            np.shares_memory sp.Bundle
        """,
        "the other argument is a set of values or positions, or edges of bins, of any order": """
            sp.isin sp.searchsorted sp.Tensor.searchsorted sp.Tensor.sel np.isin np.intersect1d np.setdiff1d
            np.setxor1d np.union1d np.searchsorted np.digitize np.histogram evaluation.Popularity.similar
            models.ALS.similar
        """,
        "weights, factors, rankings and row numbers are arrays": """
            optim.AdaGrad.create_state optim.AdaGrad.update optim.Adam.create_state optim.Adam.update
            optim.FTRL.create_state optim.FTRL.update optim.Optimizer.create_state optim.Optimizer.update
            optim.SGD.create_state optim.SGD.update training.Batch training.ParameterStore.init
            training.ParameterStore.row_sparse_pull training.ParameterStore.run evaluation.metrics
            evaluation.Popularity.save_factors models.ALS.save_factors
        """,
        "it constructs a record, or is a protocol": """
            evaluation.HeldOutEntries evaluation.Split evaluation.Model.recommend evaluation.Recommending.recommend
        """,
        "popularity is the same for all rows": "evaluation.Popularity.fold_in",
        "a container of arrays is made of one array": """
            formats.COO.from_array formats.CSC.from_array formats.CSR.from_array formats.Container.from_array
            formats.RowSparse.from_array formats.RowSparse.retain formats.Container.from_coords
        """,
    }.items()
    for name in names.split()
}
"""Functions whose signature could take several tensors, but do not, with the reason."""
