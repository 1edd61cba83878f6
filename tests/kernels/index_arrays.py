"""Public calls that lead wrong indices to every kernel that takes some.

Run in a process of its own, which a wrong index may end: ``python -m tests.kernels.index_arrays SCENARIO SEED CASES
FOLDER`` prints the compiled functions that were called. Every call with sound indices is right; every other one is
right, or raises an error of sparrow.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray

import sparrow as sp
from sparrow import errors
from sparrow.testing import strategy, tune
from tests.interop.damaged import Compressed, scipy_array

Array = NDArray[Any]
WILD = (-1, -7, 2**20, 2**31 - 1, -(2**31))


class Arguments:
    """Random arguments of a call, with sound index arrays, or damaged ones."""

    def __init__(self, rng: np.random.Generator, sound: bool, folder: Path) -> None:
        self.rng, self.sound, self.folder = rng, sound, folder
        self.n = int(rng.integers(6, 14))
        self.is_valid = True
        """Whether all index arrays that were made are valid."""

    def matrix(self, rows: int | None = None, cols: int | None = None, density: float = 0.4) -> Any:
        """Return a SciPy array, and the same dense, None if its arrays are no matrix."""
        shape = (rows or self.n, cols or self.n)
        dense = self.rng.integers(1, 6, shape) * (self.rng.random(shape) < density).astype(float)
        csr = scipy.sparse.csr_array(dense)
        given = Compressed(csr.data, csr.indices, csr.indptr, shape)
        if not self.sound and self.rng.random() < 0.7:
            given = self._damage(given)
        found = given.to_dense()
        self.is_valid &= found is not None
        return scipy_array(given, "csr"), found

    def _damage(self, given: Compressed) -> Compressed:
        name = str(self.rng.choice(["indices", "indptr"]))
        array = getattr(given, name).copy()
        how = self.rng.integers(5)
        if how == 0 and len(array):
            array[self.rng.integers(len(array))] = self.rng.choice(WILD)
        elif how == 1 and len(array):
            array[self.rng.integers(len(array))] += given.shape[1]
        elif how == 2:
            array = array[::-1].copy()
        elif how == 3:
            array = np.append(array, array[-1:])
        else:
            array = array[:-1]
        parts = {"data": given.data, "indices": given.indices, "indptr": given.indptr, name: array}
        return Compressed(**parts, shape=given.shape)

    def coords(self, ndim: int) -> tuple[Array, Array]:
        """Return distinct coordinates in an order of their own, and values."""
        count = int(self.rng.integers(3, 2 * self.n))
        flat = self.rng.choice(self.n**ndim, count, replace=False)
        found = np.array(np.unravel_index(flat, (self.n,) * ndim))
        if not self.sound and self.rng.random() < 0.7:
            found[self.rng.integers(ndim), self.rng.integers(count)] = self.rng.choice([self.n, self.n + 3, *WILD])
            self.is_valid = False
        return found, np.arange(1.0, count + 1)

    def positions(self, size: int, count: int = 4) -> Array:
        """Return positions in an axis, for a call that counts from 0."""
        found = self.rng.integers(0, size, count)
        if not self.sound and self.rng.random() < 0.5:
            found[self.rng.integers(count)] = self.rng.choice([size, size + 5, *WILD[2:]])
            self.is_valid = False
        return found


def dense(found: Any) -> Any:
    """Return a result as an array."""
    return found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found)


SCENARIOS: dict[str, Callable[[Arguments], tuple[Callable[[], Any], Callable[[], Any]]]] = {}
"""Return a call, and the reference array of sound arguments."""


def scenario(function: Any) -> Any:
    SCENARIOS[function.__name__] = function
    return function


def expect(call: Callable[[], Any], reference: Callable[[], Any]) -> Any:
    return call, reference


# -- products ----------------------------------------------------------------------------------------


@scenario
def matvec(given: Arguments) -> Any:
    S, D = given.matrix()
    x, X = given.rng.random(given.n), given.rng.random((given.n, 3))

    def call() -> Any:
        A = sp.asarray(S)
        kept = A.persist()
        with strategy("numba"):
            ones = sp.linalg.aslinearoperator((A != 0).compute(), persist=True)
            last = [[ones @ x, ones @ X] for _ in range(4)][-1]
        return [A @ x, A.T @ x, kept @ x, kept.T @ x, A @ X, A.T @ X, kept @ X, kept.T @ X, *last]

    return expect(call, lambda: [D @ x, D.T @ x] * 2 + [D @ X, D.T @ X] * 2 + [(D != 0) @ x, (D != 0) @ X])


@scenario
def spgemm(given: Arguments) -> Any:
    (S, D), (T, E) = given.matrix(), given.matrix()

    def call() -> Any:
        A, B = sp.asarray(S), sp.asarray(T)
        sp.matmul(A, B, semiring="min_plus").compute()
        sp.matmul(A, B, topk=2).compute()
        with strategy("topk_rows"):
            sp.matmul(A, B, topk=2).compute()
        return [A @ B, S @ B, A.astype("bool") @ B, (A @ B @ A).sum(axis=0)]

    return expect(call, lambda: [D @ E, D @ E, (D != 0) @ E, (D @ E @ D).sum(axis=0)])


@scenario
def mask_products(given: Arguments) -> Any:
    (S, D), (T, E), (M, F) = given.matrix(), given.matrix(), given.matrix()
    complement = bool(given.rng.random() < 0.3)

    def call() -> Any:
        A, B, mask = sp.asarray(S), sp.asarray(T), sp.asarray(M)
        C = sp.matmul(A, B, mask=mask, complement=complement)
        with strategy("masked_rows"):
            by_rows = dense(sp.matmul(A, B, mask=mask, complement=complement))
        with strategy("masked_dot"):
            by_dots = dense(sp.matmul(A, B, mask=mask))
        return [C.sum(), C.nnz, C, by_rows, by_dots]

    def reference() -> Any:
        C = (D @ E) * ((F == 0) if complement else (F != 0))
        return [C.sum(), np.count_nonzero(C), C, C, (D @ E) * (F != 0)]

    return expect(call, reference)


@scenario
def sample_products(given: Arguments) -> Any:
    S, D = given.matrix()
    x, y = given.rng.random((given.n, 3)), given.rng.random((3, given.n))
    return expect(lambda: [sp.sddmm(sp.asarray(S), x, y)], lambda: [D * (x @ y)])


@scenario
def tilings(given: Arguments) -> Any:
    (S, D), (T, E) = given.matrix(), given.matrix()

    def call() -> Any:
        A = sp.asarray(S).save(given.folder / "A", overwrite=True)
        B = sp.asarray(T).save(given.folder / "B", overwrite=True)
        found = []
        for name in ("streamed_lhs", "row_subset", "row_sections", "k_panels", "external_sum"):
            with strategy(name, "compiled", "numba"):
                found.append(dense(A @ B))
        parts = {"part_share": 1e12, "min_part_bytes": 128, "panel_share": 1e12, "min_panel_elements": 8}
        for name in ("row_sections", "k_panels"):
            with strategy(name), tune("product", section_elements=5, max_batch_elements=5, **parts):
                found.append(dense(A @ B))
        return found

    return expect(call, lambda: [D @ E] * 7)


@scenario
def contraction_of_two_axes(given: Arguments) -> Any:
    coords, values = given.coords(3)
    cells = np.zeros((given.n,) * 3)
    u, v = given.rng.random((given.n, 2)), given.rng.random((given.n, 2))

    def call() -> Any:
        A = sp.from_coords(coords, values, shape=cells.shape)
        with tune("product", hash_min_values=1, dense_codes_min=0, dense_codes_ratio=0):
            square = dense(sp.tensordot(A, A, ([1, 2], [1, 2])))
        return [square, sp.einsum("ijk,jr,kr->ir", A, u, v)]

    def reference() -> Any:
        cells[tuple(coords)] = values
        return [np.tensordot(cells, cells, ([1, 2], [1, 2])), np.einsum("ijk,jr,kr->ir", cells, u, v)]

    return expect(call, reference)


# -- element-wise functions, sorts, reductions, writes ------------------------------------------------


@scenario
def elementwise(given: Arguments) -> Any:
    (S, D), (T, E) = given.matrix(), given.matrix()

    def call() -> Any:
        A, B = sp.asarray(S), sp.asarray(T)
        filled = A + 0.5
        return [A + B, A * B, A - B, np.minimum(A, B), A > B, sp.where(A > 1, B, A), A[A > 2].sum(), filled * B]

    def reference() -> Any:
        return [D + E, D * E, D - E, np.minimum(D, E), D > E, np.where(D > 1, E, D), D[D > 2].sum(), (D + 0.5) * E]

    return expect(call, reference)


@scenario
def sorts(given: Arguments) -> Any:
    coords, values = given.coords(2)
    out = np.zeros((given.n,) * 2)

    def call() -> Any:
        A = sp.from_coords(coords, values, shape=out.shape)
        with strategy("spill", "small_ranges"):
            transposed = A.T.compute()
        return [A, transposed, sp.formats.CSC.from_coords(coords, values, out.shape), A.reshape(-1)]

    def reference() -> Any:
        out[tuple(coords)] = values
        return [out, out.T, out, out.reshape(-1)]

    return expect(call, reference)


@scenario
def reductions(given: Arguments) -> Any:
    S, D = given.matrix()
    ways = [str(given.rng.choice(["partitioned", "sorted", "single_lane"]))]

    def call() -> Any:
        A = sp.asarray(S)
        with strategy(*ways):
            return [A.sum(axis=axis) for axis in (0, 1)] + [
                A.max(axis=0),
                A.argmax(axis=0),
                A.var(axis=0),
                A.mean(axis=1),
            ]

    def reference() -> Any:
        return [D.sum(axis=0), D.sum(axis=1), D.max(axis=0), D.argmax(axis=0), D.var(axis=0), D.mean(axis=1)]

    return expect(call, reference)


@scenario
def rows(given: Arguments) -> Any:
    S, D = given.matrix()
    at, other = given.positions(given.n), given.positions(given.n)

    def call() -> Any:
        A = sp.asarray(S)
        kept = A.persist()
        return [
            A[at],
            kept[at],
            A[:, at],
            A.oindex[at, other],
            A.vindex[at, other],
            np.take(A, at, axis=1),
            A[at, other],
        ]

    def reference() -> Any:
        return [D[at], D[at], D[:, at], D[np.ix_(at, other)], D[at, other], D[:, at], D[at, other]]

    return expect(call, reference)


@scenario
def writes(given: Arguments) -> Any:
    S, D = given.matrix()
    at, other = given.positions(given.n, 6), given.positions(given.n, 6)

    def call() -> Any:
        A, B = sp.asarray(S), sp.asarray(S).save(given.folder / "W", overwrite=True)
        for each in (A, B):
            each.put([at, other], np.arange(6.0) + 10)
            each[at, 0] = 3
            each.append(
                sp.from_coords([at, other], np.arange(6.0) + 20, shape=each.shape, duplicates="last"), duplicates="last"
            )
        return [A, B]

    def reference() -> Any:
        out = D.copy()
        for k in range(6):
            out[at[k], other[k]] = k + 10
        out[at, 0] = 3
        for k in range(6):
            out[at[k], other[k]] = k + 20
        return [out, out]

    return expect(call, reference)


@scenario
def append_runs(given: Arguments) -> Any:
    S, D = given.matrix(density=0.8)
    at, other = given.positions(given.n, 2), given.positions(given.n, 2)

    def call() -> Any:
        with tune("storage", append_run_factor=1, group_rows=8, file_rows=64, fold_factor=1000):
            A = sp.asarray(S).save(given.folder / "R", overwrite=True)
            for k in range(2):
                more = sp.from_coords([at[k : k + 1], other[k : k + 1]], [k + 1.0], shape=A.shape)
                A.append(more, duplicates="last")
            return [dense(A)]

    def reference() -> Any:
        out = D.copy()
        for k in range(2):
            out[at[k], other[k]] = k + 1
        return [out]

    return expect(call, reference)


# -- graphs ----------------------------------------------------------------------------------------


def graph_call(
    given: Arguments, call: Callable[[Any, Any], Any], reference: Callable[[Any, Any], Any], from_node: bool = False
) -> Any:
    """Return a call of a graph function, in memory and spilled."""
    S, D = given.matrix(density=0.2)
    at = given.positions(given.n, 1)[0] if from_node else 0

    def run() -> Any:
        A = sp.asarray(S)
        found = [call(A, at)]
        small = {"seek_ratio": 3, "read_edges": 5, "read_gap_edges": 2, "passes_before_cycle_check": 1}
        with strategy("edges_on_disk"), tune("graph", component_share=1 << 60, triangle_share=1 << 60, **small):
            found.append(call(A, at))
        return found

    return expect(run, lambda: [reference(D, at)] * 2)


def _csgraph(D: Any) -> Any:
    return scipy.sparse.csr_array(D)


@scenario
def breadth_first(given: Arguments) -> Any:
    def reference(D: Any, at: int) -> Any:
        return scipy.sparse.csgraph.shortest_path(_csgraph(D), unweighted=True, indices=at)

    def call(A: Any, at: Any) -> Any:
        return dense(sp.graph.bfs(A, at).refill(-1)).astype(float)

    def with_fill(D: Any, at: int) -> Any:
        found = reference(D, at)
        return np.where(np.isinf(found), -1, found)

    return graph_call(given, call, with_fill, from_node=True)


@scenario
def weighted_paths(given: Arguments) -> Any:
    def reference(D: Any, at: int) -> Any:
        return scipy.sparse.csgraph.dijkstra(_csgraph(D), indices=at)

    return graph_call(given, sp.graph.shortest_paths, reference, from_node=True)


@scenario
def negative_cycles(given: Arguments) -> Any:
    def call(A: Any, at: Any) -> Any:
        with contextlib.suppress(errors.InvalidValueError, errors.ConvergenceError):
            sp.graph.shortest_paths(-1.0 * A, at)
        return 0

    return graph_call(given, call, lambda D, at: 0)


def _partition(groups: Any) -> Any:
    """Return the first member of the group of each node."""
    groups = dense(groups)
    return np.array([np.flatnonzero(groups == each)[0] for each in groups])


@scenario
def components(given: Arguments) -> Any:
    def reference(D: Any, at: int) -> Any:
        return _partition(scipy.sparse.csgraph.connected_components(_csgraph(D), directed=False)[1])

    return graph_call(given, lambda A, at: _partition(sp.graph.connected_components(A)), reference)


@scenario
def strong_components(given: Arguments) -> Any:
    def reference(D: Any, at: int) -> Any:
        return _partition(scipy.sparse.csgraph.connected_components(_csgraph(D), connection="strong")[1])

    return graph_call(given, lambda A, at: _partition(sp.graph.strongly_connected_components(A)), reference)


def _simple_links(D: Any) -> Any:
    links = ((D != 0) | (D.T != 0)).astype(float)
    np.fill_diagonal(links, 0)
    return links


@scenario
def triangles(given: Arguments) -> Any:
    def reference(D: Any, at: int) -> Any:
        links = _simple_links(D)
        return np.diag(links @ links @ links) / 2

    return graph_call(given, lambda A, at: sp.graph.triangles(A), reference)


@scenario
def cores(given: Arguments) -> Any:
    def reference(D: Any, at: int) -> Any:
        links, out, k = _simple_links(D), np.zeros(len(D)), 0
        alive = np.ones(len(D), bool)
        while alive.any():
            degrees = links[:, alive].sum(axis=1)
            weak = alive & (degrees <= k)
            if not weak.any():
                k += 1
                continue
            out[weak] = k
            alive &= ~weak
        return out

    return graph_call(given, lambda A, at: sp.graph.kcore(A), reference)


@scenario
def communities(given: Arguments) -> Any:
    def call(A: Any, at: Any) -> Any:
        sp.graph.label_propagation(A)
        sp.graph.random_walks(A, [at], 4)
        sp.graph.clustering(A)
        return 0

    return graph_call(given, call, lambda D, at: 0)


@scenario
def pagerank(given: Arguments) -> Any:
    def call(A: Any, at: Any) -> Any:
        ranks = dense(sp.graph.pagerank(A))
        operator = sp.linalg.aslinearoperator(A != 0, persist=True)
        sp.linalg.pagerank(operator, max_iter=200)
        return ranks.sum()

    return graph_call(given, call, lambda D, at: 1)


# -- models ----------------------------------------------------------------------------------------


@scenario
def als(given: Arguments) -> Any:
    S, _ = given.matrix()
    at, items = given.positions(given.n), given.positions(given.n)
    E, _ = given.matrix(4)
    dtype: Any = str(given.rng.choice(["float32", "bfloat16"]))

    def call() -> Any:
        A = sp.asarray(S)
        with tune("models", als_mixed_condition=0.0):
            sp.models.ALS(4, epochs=1, solver="exact", dtype=dtype).fit(A)
        for solver in ("exact", "cg", "subspace"):
            model = sp.models.ALS(4, epochs=1, solver=solver, dtype=dtype).fit(A)
        model.recommend(at, k=2, exclude=sp.asarray(E))
        model.recommend_all(given.folder / "all.parquet", k=2, overwrite=True)
        model.similar(at, k=2)
        model.predict(at, items)
        return [0]

    return expect(call, lambda: [0])


@scenario
def linear_models(given: Arguments) -> Any:
    S, _ = given.matrix()
    y = np.arange(given.n) % 2
    T, _ = given.matrix()

    def call() -> Any:
        for model in (sp.models.LogisticRegression("adam", epochs=1), sp.models.FactorizationMachine(2, epochs=1)):
            model.fit(S, y).predict(T)
        return [0]

    return expect(call, lambda: [0])


@scenario
def row_updates(given: Arguments) -> Any:
    at = np.unique(given.positions(given.n))
    choices = [sp.optim.SGD(0.5, lazy=True), sp.optim.Adam(0.5, lazy=True), sp.optim.SGD(0.5, lazy=False)]
    optimizer = choices[given.rng.integers(3)]

    def call() -> Any:
        own = np.arange(len(at))
        gradient = sp.formats.RowSparse(np.ones((len(at), 2)), own, shape=(given.n, 2))
        own[:] = at  # the container shares the array
        weights = np.zeros((given.n, 2))
        optimizer.update(weights, gradient, optimizer.create_state(weights))
        return [weights[:, 0] != 0]

    return expect(call, lambda: [np.isin(np.arange(given.n), at)])


# -- one run ---------------------------------------------------------------------------------------


def run_case(name: str, seed: int, case: int, folder: Path, sound: bool) -> None:
    """Run one call, and compare or expect an error."""
    given = Arguments(np.random.default_rng([seed, case]), sound, folder)
    call, reference = SCENARIOS[name](given)
    with strategy("compiled", "numba"), tune("kernels", thread_min_elements=1):
        try:
            found = call()
        except errors.SparrowError:
            if given.is_valid:
                raise
            return
        assert given.is_valid, f"{found!r} of damaged indices"
        for one, other in zip(found, reference(), strict=True):
            np.testing.assert_allclose(np.asarray(dense(one), float), np.asarray(other, float), rtol=1e-5, atol=1e-8)


def called_functions() -> set[str]:
    """Return the compiled functions that were called in this process."""
    from numba.core.dispatcher import Dispatcher

    prefix = "sparrow.kernels."
    found = [each.py_func for each in gc.get_objects() if issubclass(type(each), Dispatcher) and each.overloads]
    names = {f"{each.__module__}.{each.__qualname__.replace('<locals>.', '')}" for each in found}
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


def main(names: str, seed: int, cases: int, folder: Path) -> None:
    """Run scenarios, every other case with sound arguments; print what was called."""
    warnings.simplefilter("ignore")
    for name in names.split(","):
        for case in range(cases):
            try:
                run_case(name, seed, case, folder, sound=case % 2 == 0)
            except BaseException as error:
                error.add_note(f"{name}, seed {seed}, case {case}")
                raise
    sys.stdout.write(json.dumps(sorted(called_functions())))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
