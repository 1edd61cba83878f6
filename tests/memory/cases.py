"""Calls of all public functions and commands on large tensors.

``CASES`` has the calls, ``EXEMPT`` the reason why a function has none. A function that is in neither fails
``test_memory_limit.py``: add it here. ``measure.py`` runs the calls.
"""

# NumPy's types know no tensors, and lambdas in a table have no types.
# mypy: disable-error-code="arg-type,attr-defined,call-overload,func-returns-value,misc,no-any-return,type-var"

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sparrow as sp
from tests.properties.label_calls import COMPARISONS, ELEMENTWISE, OPERATORS, REDUCTIONS, public_names

linalg, graph, blas, training, models = sp.linalg, sp.graph, sp.blas, sp.training, sp.models
evaluation = models.evaluation

# -- tensors -------------------------------------------------------------------------------------------

TENSORS = {
    "A": "square matrix",
    "B": "another one",
    "K": "square matrix of integers",
    "R": "tall matrix with 1,000 columns",
    "V": "vector",
    "T": "tensor of three dimensions",
}
COLUMNS = 1000
"""Columns of the tall matrix, and sizes of the last two dimensions of the tensor."""
NNZ_PER_ROW = 30


class Data:
    """Stored tensors of one size.

    They are opened on each access, so that no case profits from the cache of another.

    Parameters
    ----------
    folder
        Where they are stored; created on first use.
    nnz
        Elements of each.
    """

    def __init__(self, folder: Path, nnz: int) -> None:
        self.folder, self.nnz = folder, nnz
        self.n = max(nnz // NNZ_PER_ROW, 20)
        self._names = itertools.count()
        self.used: set[str] = set()
        """Tensors that cases opened."""

    def _create(self, name: str) -> Any:
        n, nnz = self.n, self.nnz
        if name in "AB":
            return sp.random((n, n), nnz=nnz, seed=ord(name))
        if name == "K":
            return np.ceil(sp.random((n, n), nnz=nnz, seed=2) * 99).astype(np.int64)
        if name == "R":
            return sp.random((max(nnz // 15, 20), COLUMNS), nnz=nnz, seed=3) * 4
        if name == "V":
            return sp.random((20 * nnz,), nnz=nnz, seed=4)
        return sp.random((max(nnz // 10_000, 4), COLUMNS, COLUMNS), nnz=nnz, seed=5)

    def __getattr__(self, name: str) -> Any:
        if name not in TENSORS:
            raise AttributeError(name)
        return sp.open(self.path_of(name))

    def path_of(self, name: str) -> Path:
        """Return the path of a tensor, which is stored on first use."""
        path = self.folder / name
        self.used.add(name)
        if not path.exists():
            self._create(name).save(path)
        return path

    @property
    def symmetric(self) -> Any:
        """A symmetric, positive definite matrix, lazily."""
        return self.A + self.A.T + 100 * sp.eye(self.n)

    @property
    def writable(self) -> Any:
        """A copy of ``A`` that may be written to."""
        return self.copy_of("A")

    def copy_of(self, name: str) -> Any:
        """Return a copy of a tensor that may be written to."""
        path = self.path()
        shutil.copytree(self.path_of(name), path)
        return sp.open(path)

    @property
    def x(self) -> Any:
        """A dense vector for ``A``."""
        return np.linspace(1, 2, self.n)

    @property
    def mask(self) -> Any:
        """A dense mask of the rows of ``A``: every other."""
        return np.arange(self.n) % 2 == 0

    @property
    def rows(self) -> Any:
        """Numbers of a tenth of the rows of ``A``, unsorted, a few of them repeated."""
        return np.random.default_rng(0).integers(0, self.n, max(self.n // 10, 4))

    @property
    def y(self) -> Any:
        """Two classes for the rows of ``R``."""
        return np.arange(self.R.shape[0]) % 2

    def path(self, suffix: str = "") -> Path:
        """Return a path that does not exist yet."""
        (self.folder / "scratch").mkdir(exist_ok=True)
        return self.folder / "scratch" / f"{next(self._names)}{suffix}"


Case = Callable[[Data], Any]


def consume(result: Any) -> int:
    """Read a result to its end; return the bytes of its arrays, the caller's."""
    if isinstance(result, sp.Tensor):
        is_in_memory = result.path is None and type(result._base).__name__ == "MemoryRelation"
        for _ in result.to_batches():
            pass
        return result.nbytes if is_in_memory else 0
    if isinstance(result, dict):
        return sum(map(consume, result.values()))
    if isinstance(result, list | tuple | Iterator):
        return sum(map(consume, result))
    if type(result).__module__.startswith("pandas"):
        return int(result.memory_usage().sum())
    if type(result).__module__.startswith("scipy.sparse"):
        return sum(getattr(result, name).nbytes for name in ("data", "indices", "indptr") if hasattr(result, name))
    if hasattr(result, "to_arrow_reader"):
        return consume(result.to_arrow_reader(100_000)) and 0
    if isinstance(result, sp.formats.Container):
        return sum(consume(getattr(result, name, 0)) for name in ("data", "indices", "indptr", "coords"))
    nbytes = getattr(result, "nbytes", 0)
    return int(nbytes) if isinstance(nbytes, int) else 0


def all_public_names() -> set[str]:
    """Return the names of all public functions and commands that take a tensor."""
    import typer

    from sparrow.cli.app import program

    names = set(public_names(minimum=1))
    names |= {f"np.{name}" for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
    commands: Any = typer.main.get_command(program())
    for name, command in commands.commands.items():
        inner = getattr(command, "commands", None)
        names |= {f"cli.{name}"} if inner is None else {f"cli.{name}.{one}" for one in inner}
    return {name for name in names if not name.startswith("cli.ingest.")}


# -- how they are called -------------------------------------------------------------------------------


def method(name: str, *args: Any, **options: Any) -> Case:
    """Return a call of a method of the matrix."""
    return lambda d: getattr(d.A, name)(*args, **options)


def of_matrix(function: Callable[..., Any], *args: Any, **options: Any) -> Case:
    """Return a call with the matrix first."""
    return lambda d: function(d.A, *args, **options)


def of_two(name: str, function: Callable[..., Any]) -> Case:
    """Return a call of an element-wise function with two matrices."""
    if "shift" in name or name in ("lcm", "gcd", "ldexp"):
        return lambda d: function(d.K, d.K % 4)
    is_integer = any(part in name for part in ("bitwise", "and", "or", "xor", "invert")) and "logical" not in name
    return lambda d: function(d.K, d.K[::-1]) if is_integer else function(d.A, d.B)


def of_one(name: str, function: Callable[..., Any]) -> Case:
    """Return a call of an element-wise function with a matrix."""
    integer = "bitwise" in name or "invert" in name or name == "bitwise_count"
    return lambda d: function(d.K if integer else d.A)


def in_place(name: str) -> Case:
    """Return a call of an operator in place, of a tensor in a file."""

    def run(d: Data) -> None:
        changed = d.writable
        getattr(changed, f"__i{name}__")(d.B)

    return run


def write(change: Callable[[sp.Tensor, Data], Any]) -> Case:
    """Return a call that changes a stored tensor."""
    return lambda d: change(d.writable, d)


def set_item(key: Callable[[Data], Any], value: Any = 0) -> Case:
    """Return an assignment to a stored tensor."""

    def run(d: Data) -> None:
        d.writable[key(d)] = value(d) if callable(value) else value

    return run


def command(*words: Any) -> Case:
    """Return a call of the command line."""

    def run(d: Data) -> None:
        from sparrow.cli import main

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                main([str(word(d)) if callable(word) else str(word) for word in words])
            except SystemExit as end:
                text = errors.getvalue().strip()
                if end.code:
                    raise (sp.errors.TooLargeError if "memory limit" in text else sp.errors.SparrowError)(
                        text
                    ) from None

    return run


def path_word(name: str) -> Callable[[Data], Path]:
    """Return the path of a stored tensor as a word of a command."""
    return lambda d: d.path_of(name)


def fit(kind: str, **options: Any) -> Callable[[Data], Any]:
    """Return a function that fits a linear model."""
    return lambda d: getattr(models, kind)(epochs=1, batch_size=4096, **options).fit(d.R, d.y)


def fit_als(d: Data) -> Any:
    """Return fitted factors."""
    return models.ALS(factors=4, epochs=1, engine="stream").fit(d.R)


def fit_some(kind: str, d: Data) -> Any:
    """Return a linear model fitted to some rows, to apply to all."""
    options = {"loss": "logistic"} if kind == "FactorizationMachine" else {}
    return getattr(models, kind)(epochs=1, **options).fit(d.R[:100].to_numpy(), d.y[:100])


def apply_model(kind: str, name: str) -> Case:
    """Return a call of a method of a linear model with all rows."""
    is_scoring = name in ("evaluate", "score")
    return lambda d: getattr(fit_some(kind, d), name)(d.R, *([d.y] if is_scoring else []))


def push(d: Data) -> Any:
    """Run the stores of parameters with a gradient of some rows."""
    with training.ParameterStore() as store:
        store.init("w", np.zeros((d.n, 4)))
        store.push("w", sp.formats.RowSparse(np.ones((4, 4)), [0, 1, 2, 3], (d.n, 4)))
        return store.pull("w")


def query(text: str) -> Case:
    """Return an SQL query over ``A`` and ``B``."""
    return lambda d: sp.sql(text, A=d.A, B=d.B)


def table_rows(d: Data) -> Any:
    """Return a DuckDB relation of as many rows as a tensor has elements."""
    import duckdb

    return duckdb.sql(f"select (range * 7919) % {d.n} as i, range // {NNZ_PER_ROW} as j, 1.5 as v from range({d.nnz})")


def repeat_rows(d: Data) -> sp.Tensor:
    """Return rows of a small matrix, repeated to as many elements as ``A`` has."""
    row = sp.from_coords([np.zeros(COLUMNS, int), np.arange(COLUMNS)], 1.0, shape=(2, COLUMNS))
    return row[np.zeros(max(d.nnz // COLUMNS, 2), int)]


def first_batches(d: Data, **options: Any) -> None:
    """Read batches of rows to the end of the first 50."""
    for _ in itertools.islice(training.batches(d.R, d.y, batch_size=1024, **options), 50):
        pass


def _open_labelled(d: Data) -> sp.Tensor:
    path = d.path()
    shutil.copytree(d.path_of("R"), path)
    A = sp.open(path)
    A.set_labels(1, [f"c{k}" for k in range(COLUMNS)])
    return A.rename(d1="item")


def _add_labelled(d: Data) -> Any:
    """Return sums of two matrices by labels of rows, of which half are in common."""
    found = []
    for name, first in (("A", 0), ("B", d.n // 2)):
        T = d.copy_of(name)
        T.set_labels(0, [f"label {k}" for k in range(first, first + d.n)])
        found.append(T.rename(d0="item"))
    return (found[0] + found[1]).sum(axis="item")


def _scale_rows(R: sp.Tensor) -> Any:
    """Return rows that sum to 1."""
    return R / np.maximum(R.sum(axis=1, keepdims=True), 1)


def _append_runs(W: sp.Tensor, d: Data) -> None:
    """Append six runs to a matrix and merge them."""
    size = -(-d.n // 6)
    for start in range(0, d.n, size):
        rows = d.B[start : start + size]
        W.append(sp.pad(rows, ((start, d.n - start - len(rows)), (0, 0))), duplicates="last")
    W.compact()


def _store_classes(d: Data) -> Path:
    path = d.path()
    sp.asarray(d.y * 1.0).save(path)
    return path


def _explore(d: Data) -> None:
    """Explore a matrix, views and an expression until pictures are exact."""
    for tensor in (d.A, d.A.T, d.A[: d.n // 3], d.A + d.B):
        with sp.explore(tensor) as page:
            asked: dict[str, Any] = {"bins": [500, 700], "sums": True, "read": "more"}
            answers = page._answers.by_name
            found: Any = answers["bins"](asked)
            while not found.header["exact"]:
                found = answers["bins"](asked)
            answers["distributions"](asked)
            answers["elements"]({})


def _predict(d: Data) -> None:
    path = d.path()
    fit_some("LinearRegression", d).save(path)
    command("predict", path, d.path_of("R"))(d)


def _edit(W: sp.Tensor, d: Data) -> None:
    with W.edit() as e:
        e[d.n // 2 :] = 0
        e[np.unique(d.rows)] = 0
        e[:10, :10] = 5.0


_MODELS = ("LinearRegression", "LogisticRegression", "FactorizationMachine")
_UNARY = sorted(
    name
    for name, member in inspect.getmembers(sp, inspect.isfunction)
    if member.__module__ == "sparrow.functions.elementwise" and name not in ELEMENTWISE
)
_UFUNCS = {name: value for name in dir(np) if isinstance(value := getattr(np, name), np.ufunc)}
_KRYLOV = ("bicgstab", "cg", "gmres", "minres")

CASES: dict[str, Case | list[Case]] = {
    # element-wise
    **{f"sp.{name}": of_two(name, getattr(sp, name)) for name in ELEMENTWISE},
    **{f"sp.{name}": of_one(name, getattr(sp, name)) for name in _UNARY if name not in ("clip", "where")},
    **{
        f"np.{name}": of_one(name, f)
        for name, f in _UFUNCS.items()
        if f.nin == 1 and name not in ("isnat", "bitwise_count")
    },
    **{f"np.{name}": of_two(name, f) for name, f in _UFUNCS.items() if f.nin == 2 and f.signature is None},
    **{
        f"sp.Tensor.__{prefix}{name}__": of_two(name, lambda a, b, name=f"__{prefix}{name}__": getattr(a, name)(b))
        for name in (*OPERATORS, "divmod")
        for prefix in ("", "r")
        if name != "matmul"
    },
    **{
        f"sp.Tensor.__{name}__": of_two(name, lambda a, b, name=f"__{name}__": getattr(a, name)(b))
        for name in COMPARISONS
    },
    **{f"sp.Tensor.__i{name}__": in_place(name) for name in ("add", "sub", "mul", "truediv", "pow")},
    "sp.clip": lambda d: sp.clip(d.A, 0.2, 0.7),
    "sp.where": lambda d: sp.where(d.A > 0.5, d.A, d.B),
    "sp.Tensor.clip": lambda d: d.A.clip(d.A * 0.5, d.B),
    "sp.Tensor.round": method("round", 1),
    "sp.Tensor.astype": method("astype", np.float32),
    "sp.Tensor.conj": method("conj"),
    "sp.Tensor.conjugate": method("conjugate"),
    "sp.Tensor.refill": method("refill", 2.0),
    # reductions
    **{f"sp.Tensor.{name}": [method(name, axis=axis) for axis in (None, 0, 1)] for name in REDUCTIONS},
    **{
        f"sp.{name}": [of_matrix(getattr(sp, name), axis=axis) for axis in (None, 0)]
        for name in (
            "all",
            "any",
            "max",
            "mean",
            "min",
            "prod",
            "sum",
            "std",
            "var",
            "argmax",
            "argmin",
            "count_nonzero",
        )
    },
    **{f"np.{name}": [of_matrix(getattr(np, name), axis=axis) for axis in (None, 0)] for name in REDUCTIONS},
    **{
        f"sp.Tensor.{name}": method(name, axis=0)
        for name in ("argmax", "argmin", "nanargmax", "nanargmin", "count", "norm")
    },
    "sp.Tensor.describe": method("describe"),
    "sp.Tensor.head": [
        method("head", 1000),
        lambda d: d.A.T.head(1000),
        lambda d: (d.A + d.B).head(1000),
        lambda d: d.A.head(d.nnz // 40),
    ],
    "sp.Tensor.tail": [method("tail", 1000), lambda d: d.A.T.tail(1000), lambda d: (d.A + d.B).tail(1000)],
    "sp.Tensor.sample": [
        method("sample", 1000, seed=0),
        lambda d: d.A.sample(d.nnz // 45, seed=0),
        lambda d: (d.A + d.B).sample(1000, seed=0),
    ],
    "sp.Tensor.topk": [
        method("topk", 1000),
        method("topk", 1000, largest=False),
        lambda d: d.K.T.topk(1000),
        lambda d: d.V.topk(1000),
        lambda d: d.V.topk(1000, axis=0).compute(),
        lambda d: d.A.topk(1, axis=1).save(d.path()),
        lambda d: d.R.topk(3, axis=0).compute(),
        lambda d: d.T.topk(1, axis=0).save(d.path()),
    ],
    "sp.Tensor.value_counts": [method("value_counts"), lambda d: d.K.value_counts("all")],
    "sp.Tensor.hist": [method("hist"), lambda d: (d.A + d.B).hist([0.0, 1.0, 2.0], "all")],
    "sp.Tensor.trace": method("trace"),
    "sp.Tensor.argsort": method("argsort"),
    "sp.Tensor.searchsorted": lambda d: sp.sort(d.V).searchsorted([0.0, 0.5]),
    "sp.Tensor.nnz": lambda d: (d.A * d.B).nnz,
    "sp.Tensor.__matmul__": [
        lambda d: d.A @ d.x,
        lambda d: d.A.T @ d.x,
        lambda d: d.A[:2000] @ d.B,
        lambda d: d.R.T @ d.R,
    ],
    "sp.Tensor.__rmatmul__": lambda d: d.x @ d.A,
    "sp.Tensor.dot": lambda d: d.A.dot(d.x),
    "sp.Tensor.matvec": lambda d: d.A.matvec(d.x),
    "sp.Tensor.rmatvec": lambda d: d.A.rmatvec(d.x),
    "sp.Tensor.rmatmat": lambda d: d.A.rmatmat(np.ones((d.n, 2))),
    "sp.Tensor.groups": [
        lambda d: (d.A * d.B).sum(axis=0),
        lambda d: d.T.sum(axis=2),
        lambda d: d.T.max(axis=0),
        lambda d: d.T.sum(axis=1),
        lambda d: (d.V * 2).reshape(-1, 20).sum(axis=1),
    ],
    # contractions
    "sp.matmul": [
        lambda d: sp.matmul(d.A, d.B[:, : d.n // 200]),
        lambda d: sp.matmul(d.A[: d.n // 100], d.B, topk=5),
        lambda d: sp.matmul(d.A, d.x, semiring="min_plus"),
        lambda d: sp.matmul(d.A, d.B, mask=d.A[:, :] > 0.999),
        lambda d: d.R.T @ _scale_rows(d.R),
    ],
    "sp.einsum": [
        lambda d: sp.einsum("ij,ij,j->i", d.A, d.B, d.x),
        lambda d: sp.einsum("ij,ij->i", d.A, d.B),
        lambda d: sp.einsum("ij,ij,ij->", d.A, d.B, d.K),
        lambda d: sp.einsum("ij,j,i->j", d.A, d.x, d.x),
        lambda d: sp.einsum("ij,j,ik->k", d.A, d.x, np.ones((d.n, 3))),
        lambda d: sp.einsum("ij,ij,ij->ij", d.A, d.B, d.K),
        lambda d: sp.einsum("ij->ji", d.A),
        lambda d: sp.einsum("aij,jk,ik->ak", d.T, np.ones((COLUMNS, 3)), np.ones((COLUMNS, 3))),
    ],
    "sp.sddmm": [
        lambda d: sp.sddmm(d.A, np.ones((d.n, 4)), np.ones((4, d.n))),
        lambda d: sp.sddmm(d.A, np.ones((d.n, 4)), np.ones((4, d.n))).sum(axis=0),
    ],
    "sp.tensordot": lambda d: sp.tensordot(d.A, d.x, axes=1),
    "sp.vecdot": lambda d: sp.vecdot(d.A, d.B),
    "sp.neighbors": lambda d: sp.neighbors(d.A[: d.n // 100], 3, data=d.A),
    "sp.kron": lambda d: sp.kron(d.A, [[1, 2]]),
    "sp.einsum_sql": lambda d: sp.sql(sp.einsum_sql("ij,j->i", A=d.A, x=sp.asarray(d.x)), A=d.A, x=sp.asarray(d.x)),
    # order and values
    "sp.sort": [lambda d: sp.sort(d.A), lambda d: sp.sort(d.A, axis=0), lambda d: sp.sort(d.V)],
    "sp.unique": lambda d: sp.unique(d.A),
    "sp.unique_all": lambda d: sp.unique_all(d.V),
    "sp.unique_counts": [lambda d: sp.unique_counts(d.A), lambda d: sp.unique_counts(d.K)],
    "sp.unique_inverse": lambda d: sp.unique_inverse(d.V),
    "sp.unique_values": lambda d: sp.unique_values(d.A),
    "sp.argsort": lambda d: sp.argsort(d.A),
    "sp.searchsorted": lambda d: sp.searchsorted(np.arange(10.0), d.A),
    "sp.isin": lambda d: sp.isin(d.K, [3, 5, 7]),
    "sp.nonzero": of_matrix(sp.nonzero),
    "sp.cumulative_sum": [
        lambda d: sp.cumulative_sum(d.A, axis=1),
        lambda d: sp.cumulative_sum(d.A[:100].sum(axis=1), axis=0),
    ],
    "sp.cumulative_prod": lambda d: sp.cumulative_prod(d.A, axis=1),
    "sp.Tensor.cumsum": method("cumsum", axis=0),
    "sp.Tensor.cumprod": method("cumprod", axis=0),
    # views and shapes
    "sp.Tensor.__getitem__": [
        lambda d: d.A[:, ::3],
        lambda d: d.A[::-1],
        lambda d: d.A[d.rows],
        lambda d: d.A[:, d.rows],
        lambda d: d.A[d.mask],
        lambda d: d.A[:, d.mask],
        lambda d: d.A[d.mask][:, d.mask].sum(axis=0),
        lambda d: d.A[d.A > 0.5],
        lambda d: d.A[d.A > 0.999],
        lambda d: d.A[d.K > 90],
        lambda d: d.A[d.A.sum(axis=1) > 15],
        lambda d: d.A.oindex[d.rows, d.rows],
        lambda d: d.A.vindex[d.rows, d.rows],
        lambda d: d.A[np.sort(d.rows)],
        lambda d: d.T[:, d.rows[:500] % COLUMNS],
        lambda d: (d.A + d.B).vindex[*np.random.default_rng(0).integers(0, d.n, (2, d.nnz // 10))],
    ],
    "sp.Tensor.repeated": [
        repeat_rows,
        lambda d: repeat_rows(d).sum(),
        lambda d: repeat_rows(d).max(),
        lambda d: repeat_rows(d).sum(axis=0),
        lambda d: repeat_rows(d).sum(axis=1),
        lambda d: repeat_rows(d) @ np.ones(COLUMNS),
        lambda d: (repeat_rows(d) * 2).nnz,
        lambda d: repeat_rows(d)[:, ::2].max(axis=0),
        lambda d: d.A[np.zeros(d.n, int)].sum(axis=1),
        lambda d: d.A[np.repeat(np.arange(d.n), 3)].sum(),
        lambda d: d.A[np.repeat(np.arange(d.n), 3)].max(axis=1),
        lambda d: np.concatenate([d.A] * 10, axis=1).nnz,
        lambda d: (np.concatenate([d.A] * 3, axis=1) * 2).sum(axis=0),
        lambda d: (np.concatenate([d.A] * 3, axis=1) * 2).sum(axis=1),
    ],
    "sp.Tensor.isel": lambda d: d.A.isel(d0=d.rows),
    "sp.Tensor.sel": lambda d: _open_labelled(d).sel(item=[f"c{k}" for k in range(0, COLUMNS, 3)]),
    "sp.Tensor.take": lambda d: d.A.take(d.rows, axis=0),
    "sp.take": lambda d: sp.take(d.A, d.rows, axis=1),
    "sp.take_along_axis": lambda d: sp.take_along_axis(d.A, np.zeros((d.n, 1), int), 1),
    "sp.concat": [lambda d: sp.concat([d.A, d.B]), lambda d: sp.concat([d.A, d.B], axis=1)],
    "sp.stack": [
        lambda d: sp.stack([d.A, d.B]),
        lambda d: sp.stack([d.A, d.B], axis=1),
        lambda d: sp.stack([d.A, d.B], axis=2),
        lambda d: sp.stack([d.A, d.B]).save(d.path()),
    ],
    "sp.unstack": lambda d: sp.unstack(d.T[:4]),
    "sp.split": lambda d: sp.split(d.A, 2),
    "sp.tile": lambda d: sp.tile(d.A, (2, 2)),
    "sp.repeat": [
        lambda d: [sp.repeat(d.A, 2, axis=0), sp.repeat(d.A, 2, axis=1)],
        lambda d: (sp.repeat(d.A, 3, axis=0) * sp.repeat(d.B, 3, axis=0)).sum(axis=1),
    ],
    "sp.roll": lambda d: [sp.roll(d.A, 5, axis=0), sp.roll(d.A, 5, axis=1), sp.roll(d.A, 5)],
    "sp.flip": lambda d: [sp.flip(d.A), sp.flip(d.A, 1)],
    "sp.pad": lambda d: sp.pad(d.A, 2),
    "sp.diff": [
        lambda d: sp.diff(d.A, axis=0),
        lambda d: sp.diff(d.A, axis=1),
        lambda d: sp.diff(d.A + d.B, axis=0).max(axis=1),
    ],
    "sp.tril": of_matrix(sp.tril),
    "sp.triu": of_matrix(sp.triu),
    "sp.diagonal": of_matrix(sp.diagonal),
    "sp.reshape": lambda d: [sp.reshape(d.A, (-1,)), sp.reshape(d.A.T, (-1,)), sp.reshape(d.A, (-1, 2))],
    "sp.broadcast_to": lambda d: sp.broadcast_to(d.A, (2, d.n, d.n)),
    "sp.broadcast_arrays": lambda d: sp.broadcast_arrays(d.A, d.x),
    "sp.meshgrid": lambda d: sp.meshgrid(d.V, [1.0, 2.0]),
    "sp.align": [lambda d: sp.align(d.A, d.B), _add_labelled],
    "sp.transpose": of_matrix(sp.transpose),
    "sp.matrix_transpose": of_matrix(sp.matrix_transpose),
    "sp.permute_dims": lambda d: [sp.permute_dims(d.T, order) for order in itertools.permutations(range(3))],
    "sp.moveaxis": lambda d: sp.moveaxis(d.T, 0, 2),
    "sp.expand_dims": of_matrix(sp.expand_dims, 1),
    "sp.squeeze": lambda d: sp.squeeze(sp.expand_dims(d.A, 1)),
    "sp.Tensor.diagonal": method("diagonal"),
    "sp.Tensor.flatten": [method("flatten"), method("flatten", order="F")],
    "sp.Tensor.ravel": method("ravel"),
    "sp.Tensor.reshape": method("reshape", -1),
    "sp.Tensor.squeeze": method("squeeze"),
    "sp.Tensor.swapaxes": method("swapaxes", 0, 1),
    "sp.Tensor.transpose": method("transpose"),
    "sp.astype": of_matrix(sp.astype, np.int8),
    "sp.full_like": of_matrix(sp.full_like, 2.0),
    # leaving sparrow
    "sp.Tensor.to_batches": method("to_batches"),
    **{
        f"sp.Tensor.{name}": [method(name), lambda d, name=name: getattr(d.A[: d.n // 40], name)()]
        for name in (
            "to_arrow",
            "to_pandas",
            "to_polars",
            "to_scipy",
            "to_pydata_sparse",
            "nonzero",
            "compute",
            "persist",
            "copy",
        )
    },
    "sp.Tensor.to_torch": method("to_torch"),
    "sp.Tensor.to_numpy": [method("to_numpy"), lambda d: d.T[0].to_numpy()],
    "sp.Tensor.tolist": [method("tolist"), lambda d: d.T[0, :100].tolist() and None],
    "sp.Tensor.to_format": [
        lambda d, f=f: d.A[: d.n // 40].to_format(f) for f in ("coo", "csr", "csc", "row_sparse")[:3]
    ],
    "sp.Tensor.to_npz": lambda d: d.A.to_npz(d.path(".npz"), compressed=False),
    "sp.Tensor.asformat": [lambda d, f=f: d.A[: d.n // 40].asformat(f) for f in ("csr", "csc")],
    "sp.Tensor.item": lambda d: d.A[3, 4].item() if isinstance(d.A[3, 4], sp.Tensor) else d.A.item(3, 4),
    "sp.Tensor.spy": lambda d: d.A.spy() and None,
    "sp.explore": _explore,
    "sp.Tensor.labels": method("labels", 0),
    "sp.Tensor.__repr__": [
        lambda d: [repr(d.A) and None, repr(d.A * 2) and None, repr(d.A.T) and None],
        lambda d: [tensor._repr_html_() and None for tensor in (d.A, d.A * 2, d.A.T, d.V, d.T, d.A[d.rows])],
    ],
    "sp.Tensor.__iter__": lambda d: list(itertools.islice(iter(d.A), 5)),
    "sp.compute": lambda d: sp.compute(d.A.sum(axis=0), d.A.max(axis=1), d.A @ d.x),
    **{
        f"sp.export.{suffix.strip('.')}": lambda d, suffix=suffix: sp.export(d.A, d.path(suffix))
        for suffix in (".parquet", ".csv", ".npz", ".mtx", ".tns", ".arrow", ".h5ad", ".edges", ".bsp.h5", ".npy")
    },
    "sp.export": lambda d: sp.export(d.A.T, d.path(".parquet")),
    "sp.asarray": lambda d: sp.asarray(table_rows(d), coords=["i", "j"], value="v"),
    "sp.from_relation": lambda d: sp.from_relation(table_rows(d), coords=["i", "j"], value="v"),
    "ingest.columns": [
        lambda d: sp.ingest.columns(table_rows(d), d.path(), coords=["i", "j"], value="v"),
        lambda d: sp.ingest.columns(d.A, d.path(), coords=["d1", "d0"], value="value"),
    ],
    "sp.sql": [
        query("select count(*), sum(value) from A"),
        query("select d0, sum(value) from A group by d0"),
        query("select d1, max(value) from A group by d1"),
        query("select A.d0, sum(A.value * B.value) from A, B where A.d0 = B.d0 and A.d1 = B.d1 group by A.d0"),
        query("select * from A order by value"),
        lambda d: sp.sql("select d0, d1, value from M where value > 1", M=d.A + d.B),
    ],
    # writing
    "sp.Tensor.save": [
        lambda d: d.A.save(d.path()),
        lambda d: d.A.T.save(d.path()),
        lambda d: (d.A + d.B).save(d.path(), orders=[(1, 0)]),
        lambda d: d.A[d.rows].save(d.path()),
    ],
    "sp.Tensor.__setitem__": [
        set_item(lambda d: d.rows),
        set_item(lambda d: d.mask),
        set_item(lambda d: (slice(None), d.rows)),
        set_item(lambda d: d.A > 0.5),
        set_item(lambda d: d.A > 0.999, 3.0),
        set_item(lambda d: d.K > 90),
        set_item(lambda d: slice(None), lambda d: d.B),
        set_item(lambda d: slice(0, d.n // 2), lambda d: d.B[: d.n // 2]),
        set_item(lambda d: np.unique(d.rows), lambda d: d.B[np.unique(d.rows)]),
        set_item(lambda d: d.A.sum(axis=1) > 15),
        set_item(lambda d: slice(None), 0),
        write(lambda W, d: W.__setitem__(np.unique(d.rows), W[np.unique(d.rows)] * 2)),
        write(lambda W, d: W.__setitem__(d.mask, W[d.mask] * 2)),
        write(lambda W, d: W.__setitem__((slice(None), 3), 1.0)),
        lambda d: (W := d.copy_of("V")).__setitem__(W > 0.5, 0),
    ],
    "sp.Tensor.put": write(lambda W, d: W.put([d.rows, d.rows], 1.0)),
    "sp.Tensor.append": [
        write(lambda W, d: W.append(d.B, duplicates="last")),
        write(lambda W, d: (W.append(d.B, duplicates="last"), W.verify(), W.vacuum("0 seconds"))),
    ],
    "sp.Tensor.edit": write(_edit),
    "sp.Tensor.resize": write(lambda W, d: W.resize(d.n // 2, d.n // 2)),
    "sp.Tensor.add_order": write(lambda W, d: W.add_order((1, 0))),
    "sp.Tensor.compact": [
        write(lambda W, d: (W.append(sp.where(d.B > 0.7, d.B, 0), duplicates="sum"), W.compact())[1]),
        write(_append_runs),
    ],
    "sp.Tensor.verify": method("verify"),
    "sp.Tensor.set_labels": write(lambda W, d: W.set_labels(0, [f"label {k}" for k in range(d.n)])),
    "np.copyto": write(lambda W, d: np.copyto(W, d.B)),
    # linear algebra
    **{f"linalg.{name}": (lambda d, name=name: getattr(linalg, name)(d.symmetric, d.x, maxiter=2)) for name in _KRYLOV},
    "linalg.gmres": lambda d: linalg.gmres(d.A, d.x, maxiter=1, restart=5),
    "linalg.lsmr": lambda d: linalg.lsmr(d.A, d.x, maxiter=2),
    "linalg.lsqr": lambda d: linalg.lsqr(d.A, d.x, iter_lim=2),
    "linalg.eigsh": lambda d: linalg.eigsh(d.A + d.A.T, k=2, maxiter=20, tol=0.1),
    "linalg.svds": [
        lambda d: linalg.svds(d.A, k=3, maxiter=20, tol=0.1),
        lambda d: linalg.svds(d.R, k=3, maxiter=20, tol=0.1),
    ],
    "linalg.pca": lambda d: linalg.pca(d.R, 2, scale=True, tol=0.1),
    "linalg.lobpcg": lambda d: linalg.lobpcg(d.A + d.A.T, np.random.default_rng(0).random((d.n, 2)), maxiter=2),
    "linalg.expm_multiply": lambda d: linalg.expm_multiply(d.A * 1e-3, d.x),
    "linalg.power_iteration": lambda d: linalg.power_iteration(d.A, max_iter=100, tol=0.1),
    "linalg.pagerank": lambda d: linalg.pagerank(d.A, tol=0.1),
    "linalg.norm": [of_matrix(linalg.norm), of_matrix(linalg.norm, axis=1), of_matrix(linalg.norm, 1)],
    "linalg.matrix_norm": of_matrix(linalg.matrix_norm),
    "linalg.vector_norm": of_matrix(linalg.vector_norm, axis=0),
    "linalg.trace": of_matrix(linalg.trace),
    "linalg.diagonal": of_matrix(linalg.diagonal),
    "linalg.matmul": lambda d: linalg.matmul(d.A, d.x),
    "linalg.tensordot": lambda d: linalg.tensordot(d.A, d.x, axes=1),
    "linalg.vecdot": lambda d: linalg.vecdot(d.A, d.B),
    "linalg.outer": lambda d: linalg.outer(d.V[:100], d.V[: d.nnz // 5]),
    "linalg.cross": lambda d: linalg.cross(d.A[:, :3], d.B[:, :3]),
    "linalg.matrix_transpose": of_matrix(linalg.matrix_transpose),
    "linalg.matrix_power": of_matrix(linalg.matrix_power, 2),
    "linalg.aslinearoperator": lambda d: linalg.aslinearoperator(d.A).matvec(d.x),
    "linalg.Operator": lambda d: linalg.Operator(d.A).matvec(d.x),
    "linalg.Operator.matmat": lambda d: linalg.aslinearoperator(d.A).matmat(np.ones((d.n, 2))),
    "linalg.Operator.rmatmat": lambda d: linalg.aslinearoperator(d.A).rmatmat(np.ones((d.n, 2))),
    "linalg.Operator.matvec": lambda d: linalg.aslinearoperator(d.A).matvec(d.x),
    "linalg.Operator.rmatvec": lambda d: linalg.aslinearoperator(d.A).rmatvec(d.x),
    "linalg.Operator.dot": lambda d: linalg.aslinearoperator(d.A).dot(d.x),
    "linalg.Operator.multiply_transposed": lambda d: linalg.aslinearoperator(d.A).multiply_transposed(d.x),
    "linalg.spsolve_triangular": lambda d: linalg.spsolve_triangular(sp.tril(d.A) + sp.eye(d.n), d.x),
    **{f"linalg.{name}": (lambda d, name=name: getattr(linalg, name)(d.A, d.x)) for name in ("solve", "spsolve")},
    **{
        f"linalg.{name}": of_matrix(getattr(linalg, name))
        for name in (
            "cholesky",
            "det",
            "eig",
            "eigh",
            "eigvals",
            "eigvalsh",
            "inv",
            "matrix_rank",
            "pinv",
            "qr",
            "slogdet",
            "spilu",
            "splu",
            "svd",
            "svdvals",
        )
    },
    **{f"fft.{name}": of_matrix(getattr(sp.fft, name)) for name in sp.fft.__all__ if "freq" not in name},
    # BLAS
    **{
        f"blas.{name}": (lambda d, name=name: getattr(blas, name)(d.V))
        for name in ("asum", "copy", "iamax", "iamin", "nrm2")
    },
    "blas.axpy": lambda d: blas.axpy(d.V, d.V * 2, 2.0),
    "blas.dot": lambda d: blas.dot(d.V, d.V * 2),
    "blas.dotc": lambda d: blas.dotc(d.V, d.V * 2),
    "blas.gather": lambda d: blas.gather(d.V, d.rows),
    "blas.gather_zero": lambda d: blas.gather_zero(d.V, d.rows),
    "blas.scatter": lambda d: blas.scatter(np.ones(len(d.rows)), d.rows, d.V),
    "blas.scal": lambda d: blas.scal(2.0, d.V),
    "blas.rot": lambda d: blas.rot(d.V, d.V * 2, 0.6, 0.8),
    "blas.swap": lambda d: blas.swap(d.V, d.V * 2),
    "blas.gemv": lambda d: blas.gemv(2.0, d.A, d.x),
    "blas.hemv": lambda d: blas.hemv(2.0, d.A + d.A.T, d.x),
    "blas.symv": lambda d: blas.symv(2.0, d.A + d.A.T, d.x),
    "blas.ger": lambda d: blas.ger(2.0, d.A[0], d.A[1], d.A),
    "blas.gerc": lambda d: blas.gerc(2.0, d.A[0], d.A[1], d.A),
    "blas.gemm": lambda d: blas.gemm(2.0, d.A, np.ones((d.n, 2))),
    "blas.symm": lambda d: blas.symm(2.0, d.A + d.A.T, np.ones((d.n, 2))),
    "blas.syrk": lambda d: blas.syrk(2.0, d.R, trans=True),
    "blas.trsv": lambda d: blas.trsv(sp.tril(d.A) + sp.eye(d.n), d.x, lower=True),
    "blas.trsm": lambda d: blas.trsm(1.0, sp.tril(d.A) + sp.eye(d.n), np.ones((d.n, 2)), lower=True),
    # graphs
    **{
        f"graph.{name}": of_matrix(getattr(graph, name))
        for name in (
            "clustering",
            "connected_components",
            "degrees",
            "kcore",
            "largest_component",
            "strongly_connected_components",
            "symmetrize",
            "triangles",
        )
    },
    "graph.label_propagation": of_matrix(graph.label_propagation, max_iter=2),
    "graph.hits": lambda d: graph.hits(d.A, tol=0.5),
    "graph.pagerank": lambda d: graph.pagerank(d.A, tol=0.1),
    "graph.bfs": lambda d: graph.bfs(d.A, 0),
    "graph.shortest_paths": lambda d: graph.shortest_paths(d.A, 0),
    "graph.random_walks": lambda d: graph.random_walks(d.A, d.rows, 5),
    "graph.induced_subgraph": lambda d: graph.induced_subgraph(d.A, np.unique(d.rows)),
    "graph.common_neighbors": lambda d: graph.common_neighbors(d.A, np.column_stack([d.rows[:-1], d.rows[1:]])),
    "graph.adamic_adar": lambda d: graph.adamic_adar(d.A, np.column_stack([d.rows[:-1], d.rows[1:]])),
    # models and training
    "sp.batches": [first_batches, lambda d: first_batches(d, shuffle=True)],
    "training.train_test_split": [
        lambda d: training.train_test_split(d.R),
        lambda d: training.train_test_split(d.R, d.y, 0.5),
        lambda d: training.train_test_split(d.R, d.y, stratify=d.y),
        lambda d: [part.sum(axis=0) for part in training.train_test_split(d.R)],
        lambda d: training.train_test_split(d.R)[0].save(d.path()),
    ],
    "training.hashed": lambda d: training.hashed(d.A, 64),
    "training.one_hot": lambda d: training.one_hot(table_rows(d), ["j"]),
    "training.idf": lambda d: training.idf(d.R),
    "training.scales": lambda d: [training.scales(d.R, by) for by in ("std", "max")],
    "training.ParameterStore.push": push,
    "models.ALS.fit": fit_als,
    "models.ALS.predict": lambda d: fit_als(d).predict(d.rows, d.rows % COLUMNS),
    "models.ALS.recommend": lambda d: fit_als(d).recommend(d.rows[:1000]),
    "models.ALS.recommend_all": lambda d: fit_als(d).recommend_all(d.path(".parquet"), 3),
    "models.ALS.similar": lambda d: fit_als(d).similar([1, 2, 3]),
    "models.ALS.save_factors": lambda d: fit_als(d).save_factors(d.path()),
    "models.ALS.fold_in": lambda d: fit_als(d).fold_in(d.R[:1000]),
    "evaluation.Popularity.fit": lambda d: evaluation.Popularity().fit(d.R).recommend([1, 2, 3]),
    "evaluation.Popularity.recommend_all": lambda d: (
        evaluation.Popularity().fit(d.R).recommend_all(d.path(".parquet"), 3)
    ),
    "evaluation.evaluate": lambda d: evaluation.evaluate(evaluation.Popularity().fit(d.R), evaluation.hold_out(d.R)),
    "evaluation.hold_out": lambda d: evaluation.hold_out(d.R).truth,
    "evaluation.hold_out_entries": lambda d: evaluation.hold_out_entries(d.R).train,
    "evaluation.split": lambda d: evaluation.split(d.R).train,
    "evaluation.min_links": lambda d: evaluation.min_links(d.A, 25),
    "evaluation.rmse": lambda d: evaluation.rmse(fit_als(d), d.R),
    **{f"models.{kind}.fit": fit(kind) for kind in _MODELS},
    **{
        f"models.{kind}.partial_fit": lambda d, kind=kind: getattr(models, kind)(
            optimizer="sgd", batch_size=4096
        ).partial_fit(d.R, d.y, classes=[0, 1])
        for kind in _MODELS
    },
    **{
        f"models.{kind}.{name}": apply_model(kind, name)
        for kind in _MODELS
        for name in ("evaluate", "predict", "score", "decision_function", "predict_proba")
        if hasattr(getattr(models, kind), name)
    },
    # NumPy's functions
    **{
        f"np.{name}": [of_matrix(getattr(np, name)), of_matrix(getattr(np, name), axis=0)]
        for name in ("median", "nanmedian")
    },
    **{
        f"np.{name}": [
            of_matrix(getattr(np, name), share * scale, axis=axis) for share in (0.5, 1.0) for axis in (None, 0)
        ]
        for name, scale in (("quantile", 1), ("percentile", 100), ("nanquantile", 1), ("nanpercentile", 100))
    },
    **{
        f"np.{name}": of_matrix(getattr(np, name))
        for name in (
            "angle",
            "amax",
            "amin",
            "argmax",
            "argmin",
            "argsort",
            "argwhere",
            "around",
            "atleast_1d",
            "atleast_2d",
            "atleast_3d",
            "copy",
            "count_nonzero",
            "cumprod",
            "cumsum",
            "diag",
            "diagflat",
            "diagonal",
            "fix",
            "flatnonzero",
            "flip",
            "fliplr",
            "flipud",
            "imag",
            "iscomplex",
            "isneginf",
            "isposinf",
            "isreal",
            "matrix_transpose",
            "nan_to_num",
            "nanargmax",
            "nanargmin",
            "nancumprod",
            "nancumsum",
            "nonzero",
            "ptp",
            "ravel",
            "real",
            "rot90",
            "round",
            "sort",
            "squeeze",
            "trace",
            "transpose",
            "tril",
            "triu",
            "unique",
            "unique_counts",
            "unique_values",
        )
    },
    "np.cumulative_sum": lambda d: np.cumulative_sum(d.A, axis=1),
    "np.cumulative_prod": lambda d: np.cumulative_prod(d.A, axis=1),
    **{f"np.{name}": (lambda d, name=name: getattr(np, name)(d.V)) for name in ("unique_all", "unique_inverse")},
    **{
        f"np.linalg.{name}": of_matrix(getattr(np.linalg, name))
        for name in (
            "cholesky",
            "cond",
            "det",
            "diagonal",
            "eig",
            "eigh",
            "eigvals",
            "eigvalsh",
            "inv",
            "matrix_norm",
            "matrix_rank",
            "matrix_transpose",
            "norm",
            "pinv",
            "qr",
            "slogdet",
            "svd",
            "svdvals",
            "tensorinv",
            "trace",
            "vector_norm",
        )
    },
    **{
        f"np.fft.{name}": of_matrix(getattr(np.fft, name))
        for name in (
            "fft",
            "fft2",
            "fftn",
            "fftshift",
            "hfft",
            "ifft",
            "ifft2",
            "ifftn",
            "ifftshift",
            "ihfft",
            "irfft",
            "irfft2",
            "irfftn",
            "rfft",
            "rfft2",
            "rfftn",
        )
    },
    "np.allclose": lambda d: np.allclose(d.A, d.B),
    "np.array_equal": lambda d: np.array_equal(d.A, d.A * 1),
    "np.append": lambda d: [np.append(d.A, d.B, axis=0), np.append(d.A, d.B)],
    "np.array_split": lambda d: np.array_split(d.A, 3),
    "np.astype": lambda d: np.astype(d.A, np.float32),
    "np.average": lambda d: [np.average(d.A), np.average(d.A, axis=0, weights=d.x)],
    "np.bincount": lambda d: np.bincount(d.K[:, 0].astype(np.int64)),
    "np.block": lambda d: np.block([[d.A, d.B], [d.B, d.A]]),
    "np.broadcast_arrays": lambda d: np.broadcast_arrays(d.A, d.x),
    "np.broadcast_to": lambda d: np.broadcast_to(d.A, (2, d.n, d.n)),
    "np.clip": lambda d: np.clip(d.A, 0.2, 0.7),
    "np.column_stack": lambda d: np.column_stack([d.A, d.B]),
    "np.compress": lambda d: np.compress(d.mask, d.A, axis=0),
    "np.concatenate": lambda d: np.concatenate([d.A, d.B]),
    "np.corrcoef": lambda d: np.corrcoef(d.R, rowvar=False),
    "np.cov": lambda d: np.cov(d.R, rowvar=False),
    "np.cross": lambda d: np.cross(d.A[:, :3], d.B[:, :3]),
    "np.cumulative_sum_of_rows": lambda d: np.cumsum(d.A[:10], axis=0),
    "np.delete": lambda d: np.delete(d.A, d.rows, axis=0),
    "np.diff": lambda d: np.diff(d.A),
    "np.digitize": lambda d: np.digitize(d.A, [0.0, 0.5, 1.0]),
    "np.dot": lambda d: np.dot(d.A, d.x),
    "np.dsplit": lambda d: np.dsplit(d.T, 2),
    "np.dstack": lambda d: np.dstack([d.A, d.B]),
    "np.ediff1d": lambda d: np.ediff1d(d.V),
    "np.gradient": lambda d: np.gradient(d.A, axis=0),
    "np.i0": lambda d: np.i0(d.A),
    "np.insert": lambda d: np.insert(d.A, [3, 5], 1.0, axis=0),
    "np.polyval": lambda d: np.polyval([1.0, 2.0, 0.0], d.A),
    "np.sinc": lambda d: np.sinc(d.A),
    "np.trapezoid": lambda d: np.trapezoid(d.A, axis=0),
    "np.einsum": lambda d: np.einsum("ij,ij,j->i", d.A, d.B, d.x),
    "np.expand_dims": lambda d: np.expand_dims(d.A, 0),
    "np.extract": lambda d: np.extract(d.A > 0.999, d.A),
    "np.full_like": lambda d: np.full_like(d.A, 2.0),
    "np.histogram": lambda d: np.histogram(d.A, bins=20),
    "np.hsplit": lambda d: np.hsplit(d.R, 2),
    "np.hstack": lambda d: np.hstack([d.A, d.B]),
    "np.inner": lambda d: np.inner(d.A, d.x),
    "np.interp": lambda d: np.interp(d.V, [0.0, 1.0], [0.0, 2.0]),
    "np.intersect1d": lambda d: np.intersect1d(d.A, d.B),
    "np.isclose": lambda d: np.isclose(d.A, d.B),
    "np.isin": lambda d: np.isin(d.K, [3, 5, 7]),
    "np.kron": lambda d: np.kron(d.A, [[1, 2]]),
    "np.linalg.cross": lambda d: np.linalg.cross(d.A[:, :3], d.B[:, :3]),
    "np.linalg.lstsq": lambda d: np.linalg.lstsq(d.A, d.x),
    "np.linalg.matmul": lambda d: np.linalg.matmul(d.A, d.x),
    "np.linalg.matrix_power": lambda d: np.linalg.matrix_power(d.A, 2),
    "np.linalg.multi_dot": lambda d: np.linalg.multi_dot([d.A, d.B, d.x]),
    "np.linalg.outer": lambda d: np.linalg.outer(d.V[:100], d.V[: d.nnz // 5]),
    "np.linalg.solve": lambda d: np.linalg.solve(d.A, d.x),
    "np.linalg.tensordot": lambda d: np.linalg.tensordot(d.A, d.x, axes=1),
    "np.linalg.tensorsolve": lambda d: np.linalg.tensorsolve(d.A, d.x),
    "np.linalg.vecdot": lambda d: np.linalg.vecdot(d.A, d.B),
    "np.matmul": lambda d: np.matmul(d.A, d.x),
    "np.matvec": lambda d: np.matvec(d.A, d.x),
    "np.vecmat": lambda d: np.vecmat(d.x, d.A),
    "np.vecdot": lambda d: np.vecdot(d.A, d.B),
    "np.meshgrid": lambda d: np.meshgrid(d.V, [1.0, 2.0]),
    "np.moveaxis": lambda d: np.moveaxis(d.T, 0, 2),
    "np.outer": lambda d: np.outer(d.V[:100], d.V[: d.nnz // 5]),
    "np.pad": lambda d: np.pad(d.A, 2),
    "np.repeat": lambda d: np.repeat(d.A, 2, axis=0),
    "np.reshape": lambda d: np.reshape(d.A, -1),
    "np.roll": lambda d: np.roll(d.A, 5),
    "np.rollaxis": lambda d: np.rollaxis(d.T, 2),
    "np.searchsorted": lambda d: np.searchsorted(np.arange(10.0), d.A),
    "np.select": lambda d: np.select([d.A > 0.5], [d.A], d.B),
    "np.setdiff1d": lambda d: np.setdiff1d(d.A, d.B),
    "np.setxor1d": lambda d: np.setxor1d(d.A, d.B),
    "np.split": lambda d: np.split(d.A, 2),
    "np.stack": lambda d: np.stack([d.A, d.B]),
    "np.swapaxes": lambda d: np.swapaxes(d.A, 0, 1),
    "np.take": lambda d: np.take(d.A, d.rows, axis=0),
    "np.take_along_axis": lambda d: np.take_along_axis(d.A, np.zeros((d.n, 1), int), 1),
    "np.tensordot": lambda d: np.tensordot(d.A, d.x, 1),
    "np.tile": lambda d: np.tile(d.A, (2, 2)),
    "np.union1d": lambda d: np.union1d(d.A, d.B),
    "np.unstack": lambda d: np.unstack(d.T[:4]),
    "np.vdot": lambda d: np.vdot(d.V, d.V * 2),
    "np.vsplit": lambda d: np.vsplit(d.A, 2),
    "np.vstack": lambda d: np.vstack([d.A, d.B]),
    "np.where": lambda d: np.where(d.A > 0.5, d.A, d.B),
    # the command line
    "cli.export": command("export", path_word("A"), lambda d: d.path(".csv")),
    "cli.show": [command("show", path_word("A")), command("show", path_word("A"), "::2, 3")],
    "cli.sql": command(
        "sql", "select d0, sum(value) as s from A group by d0 order by s limit 5", lambda d: f"A={d.path_of('A')}"
    ),
    "cli.multiply": [
        command("multiply", path_word("A"), "--vector", "ones"),
        command("multiply", path_word("A"), "--vector", "ones", "--transpose"),
    ],
    "cli.pagerank": command("pagerank", path_word("A"), "--tol", "0.1"),
    **{
        f"cli.graph.{name}": command("graph", name, path_word("A"), *options)
        for name, options in {
            "degrees": (),
            "bfs": (0,),
            "paths": (0,),
            "components": (),
            "triangles": (),
            "clustering": (),
            "kcore": (),
            "communities": (),
            "hits": ("--tol", "0.5"),
            "pagerank": ("--tol", "0.1"),
        }.items()
    },
    "cli.als": command("als", path_word("R"), "--factors", 4, "--epochs", 1),
    "cli.train": lambda d: command("train", "linear", d.path_of("R"), "--labels", _store_classes(d), "--epochs", 1)(d),
    "cli.predict": _predict,
    "cli.append": lambda d: command("append", d.writable.path, path_word("B"), "--duplicates", "last")(d),
    "cli.resize": lambda d: command("resize", d.writable.path, f"{d.n // 2},{d.n // 2}")(d),
    "cli.orders": lambda d: command("orders", d.writable.path, "--add", "1,0")(d),
    "cli.compact": lambda d: command("compact", d.writable.path)(d),
    "cli.verify": command("verify", path_word("A")),
    "cli.explain": command("explain", path_word("A"), "5:9"),
    "cli.info": command("info", path_word("A")),
    "cli.files": command("files", path_word("A")),
    "cli.history": command("history", path_word("A")),
}


EXEMPT: dict[str, str] = {
    name: reason
    for reason, names in {
        "takes a path, scalars, dtypes or settings": """
            sp.Semiring sp.Bundle sp.Bundle.get sp.config sp.full evaluation.Model evaluation.Recommending
            evaluation.Recommending.recommend evaluation.Model.fit evaluation.Model.recommend
            models.ALS.set_params models.FactorizationMachine models.FactorizationMachine.set_params
            models.LinearRegression models.LinearRegression.set_params models.LogisticRegression
            models.LogisticRegression.set_params cli.demo
        """,
        "arguments and results are arrays of the caller": """
            sp.from_coords sp.from_dlpack formats.COO formats.COO.from_array formats.COO.from_coords formats.CSC
            formats.CSC.from_array formats.CSC.from_begin_end formats.CSC.from_coords formats.CSR formats.CSR.from_array
            formats.CSR.from_begin_end formats.CSR.from_coords formats.Container.from_array
            formats.Container.from_coords formats.RowSparse formats.RowSparse.from_array formats.RowSparse.from_coords
            formats.RowSparse.put formats.RowSparse.retain optim.AdaGrad.create_state optim.AdaGrad.update
            optim.Adam.create_state optim.Adam.update optim.FTRL.create_state optim.FTRL.update
            optim.Optimizer.create_state optim.Optimizer.update optim.SGD.create_state optim.SGD.update optim.State
            training.Batch training.ParameterStore.init training.ParameterStore.row_sparse_pull
            training.ParameterStore.run evaluation.HeldOut evaluation.HeldOutEntries evaluation.Split
            evaluation.metrics
        """,
        "the same as another function": """
            training.batches training.Batches cli.shell cli.view cli.recommend evaluation.Popularity.recommend
            evaluation.Popularity.fold_in
            evaluation.Popularity.predict evaluation.Popularity.save_factors evaluation.Popularity.similar
            sp.Tensor.__iand__ sp.Tensor.__ifloordiv__ sp.Tensor.__ilshift__ sp.Tensor.__imatmul__ sp.Tensor.__imod__
            sp.Tensor.__ior__ sp.Tensor.__irshift__ sp.Tensor.__ixor__
        """,
        "fits the factors many times": "evaluation.search",
        "needs a CUDA device": "sp.Tensor.to_cupy",
        "not supported": "np.bitwise_count",
        "reads metadata only": """
            sp.Tensor.explain sp.Tensor.files sp.Tensor.history sp.Tensor.refresh sp.Tensor.rename sp.Tensor.restore
            sp.Tensor.vacuum sp.Tensor.to_device sp.can_cast sp.einsum_path np.einsum_path sp.empty_like sp.ones_like
            sp.zeros_like sp.finfo sp.iinfo sp.isdtype sp.result_type np.can_cast np.common_type np.empty_like
            np.iscomplexobj np.isrealobj np.may_share_memory np.ndim np.ones_like np.result_type np.shape
            np.shares_memory np.size np.zeros_like cli.restore cli.vacuum cli.datasets np.isnat
        """,
    }.items()
    for name in names.split()
}

VARIANTS = {
    *(f"sp.Tensor.{name}" for name in ("nnz", "groups", "repeated", "__repr__", "__iter__", "__rdivmod__")),
    *(name for name in CASES if name.startswith("sp.export.")),
    "np.cumulative_sum_of_rows",
}
"""Cases that are no public names: properties, protocols, and further ways to call a function."""
