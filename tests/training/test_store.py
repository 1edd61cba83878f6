from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import (
    CorruptionError,
    ExistsError,
    IndexingError,
    InvalidValueError,
    LabelError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
    WorkerError,
)
from sparrow.formats import RowSparse
from sparrow.testing import tune
from sparrow.training import ParameterStore
from tests.training import store_workers as workers


@pytest.fixture
def store() -> Iterator[ParameterStore]:
    with ParameterStore() as parameters:
        yield parameters


def rows(ids: Any, values: Any, shape: tuple[int, ...]) -> RowSparse:
    return RowSparse(np.asarray(values, np.float64), ids, shape)


# -- the worked examples -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "result"),
    [([0, 2], [0, 2]), ([2, 2], [2]), ([1, 0], [0, 1]), ([], []), ([[2, 1], [1, 2]], [1, 2]), (np.array(1), [1])],
)
def test_pulling_rows(store: ParameterStore, ids: Any, result: list[int]) -> None:
    store.init("w", np.ones((3, 3)))
    pulled = store.row_sparse_pull("w", ids)
    assert pulled.indices.tolist() == result
    expected = np.zeros((3, 3))
    expected[result] = 1
    np.testing.assert_array_equal(pulled.to_numpy(), expected)


def test_pushes_are_summed(store: ParameterStore) -> None:
    store.init(3, np.ones((4, 2)))
    store.push(3, [rows([0, 2], [[1, 1], [2, 2]], (4, 2)), rows([2, 3], [[3, 3], [4, 4]], (4, 2)), np.ones((4, 2))])
    np.testing.assert_array_equal(store.pull(3), [[3, 3], [2, 2], [7, 7], [6, 6]])
    store.push(3, sp.asarray(np.eye(4, 2)))
    np.testing.assert_array_equal(store.pull(3), [[4, 3], [2, 3], [7, 7], [6, 6]])


def test_optimizer_with_two_workers() -> None:
    rate, pushes = -0.5, 30
    with ParameterStore(workers.Momentum(rate), shards=3) as store:
        store.init("w", np.ones((2, 2)))
        store.init("all", np.zeros((50, 1), np.float32))
        pids = store.run(workers.push_one_row, 2, pushes)
        assert len({*pids, os.getpid()}) == 3
        for rank in range(2):
            np.testing.assert_allclose(store.pull("w")[rank], 1.0 + (rank + 1) * -rate * pushes)
        np.testing.assert_allclose(store.pull("all"), 2 * pushes * -rate)
        assert store.pull("all").dtype == np.float32


def test_lazy_momentum_of_rows() -> None:
    """Worked example of the optimizers: gradients of rows 1 and 2, then of row 2."""
    with ParameterStore(workers.Momentum(0.01, 0.01), shards=2) as store:
        store.init("w", np.ones((4, 2)))
        store.push("w", rows([1, 2], [[1, 2], [4, 5]], (4, 2)))
        np.testing.assert_allclose(store.pull("w"), np.array([[1, 1], [0.99, 0.98], [0.96, 0.95], [1, 1]]))
        store.push("w", rows([2], [[1, 1]], (4, 2)))
        np.testing.assert_allclose(store.pull("w"), np.array([[1, 1], [0.99, 0.98], [0.9496, 0.9395], [1, 1]]))


class CountingOptimizer:
    """Optimizer that divides by the number of pushes, like Adam."""

    def create_state(self, w: Any) -> Any:
        return type("State", (), {"arrays": {"sum": np.zeros_like(w)}, "step": 0})()

    def update(self, w: Any, grad: Any, state: Any) -> None:
        state.step += 1
        state.arrays["sum"] += grad
        w[:] = state.arrays["sum"] / state.step


def test_step_counts_pushes() -> None:
    with ParameterStore(CountingOptimizer(), shards=2) as store:
        store.init("w", np.zeros((4, 1)))
        store.push("w", rows([0], [[6]], (4, 1)))
        store.push("w", rows([3], [[6]], (4, 1)))
        store.push("w", rows([0, 3], [[6], [6]], (4, 1)))
        np.testing.assert_allclose(store.pull("w")[:, 0], [4, 0, 0, 4])


# -- against NumPy -------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3, 50])
def test_random_pushes(shards: int) -> None:
    rng = np.random.default_rng(shards)
    twin, state = rng.random((40, 3, 2)), np.zeros((40, 3, 2))
    with tune("training", journal_bytes=500), ParameterStore(workers.Momentum(0.1, 0.9), shards) as store:
        store.init("w", twin)
        for _ in range(20):
            ids = np.flatnonzero(rng.random(40) < rng.random())
            grad = rng.normal(size=(len(ids), 3, 2))
            store.push("w", RowSparse(grad, ids, twin.shape))
            state[ids] = 0.9 * state[ids] + 0.1 * grad
            twin[ids] -= state[ids]
            ids = rng.integers(0, 40, (4, 5))
            pulled = store.row_sparse_pull("w", ids)
            assert pulled.shape == twin.shape
            np.testing.assert_allclose(pulled.data, twin[np.unique(ids)])
        np.testing.assert_allclose(store.pull("w"), twin)


def test_concurrent_threads(store: ParameterStore) -> None:
    store.init("w", np.zeros((10, 1)))

    def work() -> None:
        for _ in range(25):
            store.push("w", np.ones((10, 1)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(store.pull("w"), 100)


# -- killed processes --------------------------------------------------------------------------


def test_killed_worker_leaves_store_consistent() -> None:
    with ParameterStore(workers.Momentum(0.5), shards=1) as store:
        store.init("w", np.zeros((6, 2)))
        with pytest.raises(WorkerError, match=r"worker 0 of 2 \(process \d+\) was killed by SIGKILL"):
            store.run(workers.die, 2)
        np.testing.assert_array_equal(store.pull("w"), -0.5)  # the journal of the killed worker is replayed
        store.push("w", np.ones((6, 2)))
        np.testing.assert_array_equal(store.pull("w"), -1)
        with pytest.raises(WorkerError, match=r"worker 0 of 1 \(process \d+\) failed: ValueError: no such feature"):
            store.run(workers.fail, 1)
        with pytest.raises(InvalidValueError, match="workers must be at least 1, got 0"):
            store.run(workers.fail, 0)


def test_death_before_commit_changes_nothing(store: ParameterStore) -> None:
    store.init("w", np.zeros((4, 2)))
    child = os.fork()
    if not child:
        block = store._block("w")
        with store._lock_shard(block, 0):
            block.journal[0, :2] = 7
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    np.testing.assert_array_equal(store.pull("w"), 0)


def test_resources_are_released(tmp_path: Path) -> None:
    names = []
    with sp.config(temp_directory=tmp_path):
        store = ParameterStore()
        store.init("w", np.ones((4, 2)))
        names.append(store._layouts["w"].name)
        assert len(list(tmp_path.iterdir())) == 1
        again = pickle.loads(pickle.dumps(store))
        np.testing.assert_array_equal(again.pull("w"), 1)
        store.close()
        store.close()
        with pytest.raises(LabelError, match="parameter must be one of none, got 'w'"):
            store.pull("w")
        other = ParameterStore()
        other.init("w", np.ones((4, 2)))
        names.append(other._layouts["w"].name)
        del other, again
    assert not list(tmp_path.iterdir())
    for name in names:
        with pytest.raises(FileNotFoundError):
            SharedMemory(name)
    assert not multiprocessing.active_children()


# -- checkpoints ---------------------------------------------------------------------------------


def test_save_and_load(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    steps = [rng.normal(size=(9, 3)) for _ in range(6)]

    def run(stop: bool) -> Any:
        with ParameterStore(workers.Momentum(0.1, 0.9)) as store:
            store.init("w", np.ones((9, 3)))
            for grad in steps[:3]:
                store.push("w", grad)
            if stop:
                store.save(tmp_path / "store.sparrow")
                return None
            for grad in steps[3:]:
                store.push("w", grad)
            return store.pull("w")

    expected = run(stop=False)
    run(stop=True)
    assert sp.open(tmp_path / "store.sparrow")["w"].shape == (9, 3)
    with ParameterStore(workers.Momentum(0.1, 0.9), shards=3) as store:
        store.init("w", np.zeros((9, 3)))
        store.load(tmp_path / "store.sparrow")
        assert store._block("w").pushes[0] == 3
        for grad in steps[3:]:
            store.push("w", grad)
        np.testing.assert_array_equal(store.pull("w"), expected)
    with ParameterStore(workers.Momentum(0.1)) as store:
        store.init("w", np.zeros((8, 3)))
        with pytest.raises(ShapeError, match=r"has shape \(9, 3\), expected \(8, 3\)"):
            store.load(tmp_path / "store.sparrow")
    with ParameterStore() as store:
        store.init("v", np.zeros((8, 3)))
        with pytest.raises(LabelError, match="'v'"):
            store.load(tmp_path / "store.sparrow")


# -- bad input -----------------------------------------------------------------------------------


def test_errors(store: ParameterStore, tmp_path: Path) -> None:
    store.init("w", np.ones((3, 2)))
    with pytest.raises(InvalidValueError, match="'a/b' cannot name a tensor"):
        store.init("a/b", np.ones((3, 2)))
    with pytest.raises(UnsupportedError, match=r"optimizer must be one of sp.optim, got 3"):
        ParameterStore(3)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="a function of a module"):
        store.run(lambda *given: 1, 2)
    sp.eye(3).save(tmp_path / "eye.sparrow")
    with pytest.raises(InvalidValueError, match="is not a checkpoint"):
        store.load(tmp_path / "eye.sparrow")
    for key, kind in [("v", LabelError), (1, InvalidValueError), (2.5, InvalidValueError)]:
        with pytest.raises(kind):
            store.pull(key)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="must be of one type, got 'w' and 1"):
        store.init(1, np.ones((3, 2)))
    with pytest.raises(ExistsError, match="'w' exists already"):
        store.init("w", np.ones((3, 2)))
    with pytest.raises(ShapeError, match=r"got shape \(3,\): pass w"):
        store.init("v", np.ones(3))
    with pytest.raises(UnsupportedError, match="must be float32 or float64, got int64"):
        store.init("v", np.ones((3, 2), int))
    with pytest.raises(IndexingError, match="row 3 is out of range for parameter 'w' of 3 rows"):
        store.row_sparse_pull("w", [0, 3])
    with pytest.raises(IndexingError, match="row -1 is"):
        store.row_sparse_pull("w", [-1])
    with pytest.raises(UnsupportedError, match="must be integers"):
        store.row_sparse_pull("w", [0.5])
    with pytest.raises(ShapeError, match=r"gradient has shape \(2, 2\), expected that of parameter 'w', \(3, 2\)"):
        store.push("w", np.ones((2, 2)))
    with pytest.raises(InvalidValueError, match="must not be empty"):
        store.push("w", [])
    with pytest.raises(InvalidValueError, match="gradient of row 2 of parameter 'w' must be finite"):
        store.push("w", rows([0, 2], [[1, 1], [np.nan, 1]], (3, 2)))
    np.testing.assert_array_equal(store.pull("w"), 1)
    with pytest.raises(InvalidValueError, match=r"shards must be .*, got 0"):
        ParameterStore(shards=0)
    with sp.config(memory_limit=100), pytest.raises(TooLargeError, match="parameter 'v' of shape"):
        store.init("v", np.ones((3, 2)))

    class Eager(workers.Momentum):
        lazy = False

    with pytest.raises(UnsupportedError, match="lazy=False"):
        ParameterStore(Eager(0.1))

    class Odd(workers.Momentum):
        def create_state(self, w: Any) -> Any:
            return [1, 2]

    with (
        ParameterStore(Odd(0.1)) as odd,
        pytest.raises(UnsupportedError, match=r"optimizer state must be arrays .*, got int"),
    ):
        odd.init("w", np.ones((3, 2)))


# -- training ------------------------------------------------------------------------------------


def test_two_workers_reach_accuracy_of_one(tmp_path: Path) -> None:
    path = tmp_path / "a9a.sparrow"
    a9a = sp.ingest.libsvm("datasets/a9a/a9a.gz", path)
    X, y = a9a["X"], a9a["y"].to_numpy()
    accuracies = []
    for count in (1, 2):
        with ParameterStore(workers.Momentum(0.5), shards=4) as store:
            store.init("w", np.zeros((X.shape[1], 1)))
            if count == 1:
                heights = [workers.fit_logistic(store, 0, 1, str(path), 1)]
            else:
                heights = store.run(workers.fit_logistic, 2, str(path), 1)
            assert sum(heights) == len(y)
            accuracies.append(float(((X @ store.pull("w")[:, 0] > 0) == (y > 0)).mean()))
    assert accuracies[0] > 0.84
    assert accuracies[1] > accuracies[0] - 0.005


def test_swapped_member_is_found(tmp_path: Path) -> None:
    with ParameterStore(sp.optim.SGD(0.1, momentum=0.9)) as store:
        store.init("w", np.ones((4, 2)))
        store.push("w", np.ones((4, 2)))
        store.save(tmp_path / "s")
        store.load(tmp_path / "s")
        (tmp_path / "s" / "w").rename(tmp_path / "s" / "moved")
        (tmp_path / "s" / "w.state0").rename(tmp_path / "s" / "w")
        (tmp_path / "s" / "moved").rename(tmp_path / "s" / "w.state0")
        before = store.pull("w")
        with pytest.raises(CorruptionError, match=r"'w' of .* is not the tensor that was saved there"):
            store.load(tmp_path / "s")
        np.testing.assert_array_equal(store.pull("w"), before)


FEW_FILES = """
import os, resource, sys
import numpy as np
import sparrow as sp
from sparrow.training import ParameterStore

before = set(os.listdir("/dev/shm"))
for extra in range(8):
    first = os.open(os.devnull, os.O_RDONLY)
    os.close(first)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + extra, limits[1]))
    problem = store = None
    try:
        store = ParameterStore()
        store.init("w", np.ones((3, 2)))
    except sp.errors.StorageError as error:
        problem = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        if store is not None:
            store.close()
    assert problem is None or "limit of open files" in problem or "No usable temporary directory" in problem, problem
    assert problem is not None or extra > 1
assert set(os.listdir("/dev/shm")) <= before
assert not [name for name in os.listdir(sys.argv[1]) if name.startswith("sparrow-store-")]
"""


def test_few_open_files(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FEW_FILES, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
