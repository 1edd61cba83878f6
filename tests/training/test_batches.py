from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import SGDClassifier

import sparrow as sp
from sparrow import storage
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError, UnsupportedError
from sparrow.interop.conversion import from_object
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from sparrow.testing import observe, tune

MODES = ["discard", "pad", "roll_over"]
NINE = """1 0:1 2:2
1 0:3 5:4
1 2:5 8:6 9:7
1 3:8
-1
-2 0:0.5 9:1.5
-3 0:-0.6 1:2.25 2:1.25
-3 1:2 2:-1.25
4 2:-1.2
"""


@pytest.fixture
def small_partitions() -> Iterator[None]:
    """Divide small matrices into many partitions."""
    with tune("stream", partition_rows=40):
        yield


def save_tensor(path: Path, tensor: Any, entries: int = 40) -> sp.Tensor:
    """Return a stored tensor with small row groups."""
    relation = MemoryRelation(*from_object(tensor))
    storage.save(
        path, relation.schema, iter([relation.block]), sizes=storage.Sizes(file_rows=10 * entries, group_rows=entries)
    )
    result = sp.open(path)
    assert isinstance(result, sp.Tensor)
    return result


# -- the worked examples -------------------------------------------------------------------------


def test_csr_in_memory() -> None:
    X = scipy.sparse.csr_array(np.arange(36).reshape(9, 4))
    result = list(sp.batches(X, np.arange(9), 3))
    assert [(batch.X.shape, batch.X.nnz) for batch in result] == [((3, 4), 11), ((3, 4), 12), ((3, 4), 12)]
    assert all(isinstance(batch.X, sp.formats.CSR) for batch in result)
    assert [batch.y.tolist() for batch in result] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize(("mode", "count", "of_0", "of_8"), [("discard", 7, 100, 96), ("pad", 8, 124, 100)])
def test_last_batch_modes(mode: Any, count: int, of_0: int, of_8: int) -> None:
    X, y = sp.random((1000, 6), density=0.3, seed=4), np.repeat(np.arange(10), 100)
    train = sp.batches(X, y, 128, mode)
    result = list(train)
    assert len(train) == len(result) == count
    labels = np.concatenate([batch.y for batch in result])
    assert (np.sum(labels == 0), np.sum(labels == 8)) == (of_0, of_8)
    assert [batch.pad for batch in result] == [0] * 7 + [24] * (mode == "pad")


def test_roll_over() -> None:
    X, y = sp.random((1000, 6), density=0.3, seed=4), np.repeat(np.arange(10), 100)
    rolling = sp.batches(X, y, 128, "roll_over")
    assert len(rolling) == len(list(rolling)) == 7
    last = list(sp.batches(X, y, 128, "pad"))[-1]
    assert len(rolling) == 8
    first = next(iter(rolling))
    assert first.X == last.X
    assert first.rows.tolist() == last.rows.tolist() == [*range(896, 1000), *range(24)]
    assert first.pad == 0


@pytest.mark.parametrize(("mode", "counts"), [("pad", [4, 4, 4]), ("discard", [3, 3, 3]), ("roll_over", [3, 3, 4])])
def test_ten_rows_by_three(mode: Any, counts: list[int]) -> None:
    train = sp.batches(np.eye(10), np.arange(10), 3, mode)
    for count in counts:
        assert len(train) == count
        assert len(list(train)) == count


def test_pad_repeats_few_rows() -> None:
    (batch,) = sp.batches(np.eye(10), np.arange(10), 205, "pad")
    assert np.bincount(batch.y).tolist() == [21] * 5 + [20] * 5
    assert (batch.size, batch.pad, batch.X.shape) == (205, 195, (205, 10))
    assert list(sp.batches(np.eye(10), batch_size=205)) == []
    rolling = sp.batches(np.eye(10), batch_size=25, last_batch="roll_over")
    assert [[batch.rows.tolist() for batch in rolling] for _ in range(3)] == [
        [], [], [[*range(10), *range(10), *range(5)]],
    ]  # fmt: skip
    assert [batch.rows.tolist() for batch in rolling] == []
    assert [batch.rows.tolist() for batch in rolling] == [[*range(5, 10), *range(10), *range(10)]]


def test_multiple_inputs_and_labels() -> None:
    a, b = np.arange(20).reshape(10, 2), sp.random((10, 5), density=0.5, seed=2)
    y, z = np.arange(10), np.arange(20).reshape(10, 2)
    rows = 0
    for batch in sp.batches({"a": a, "b": b}, {"y": y, "z": z}, 4, "pad", shuffle=True):
        assert list(batch.data) == ["a", "b"]
        assert batch.X is batch.data["a"]
        np.testing.assert_array_equal(batch.data["a"].to_numpy(), a[batch.rows])
        np.testing.assert_array_equal(batch.data["b"].to_numpy(), b.to_numpy()[batch.rows])
        np.testing.assert_array_equal(batch.y, y[batch.rows])
        np.testing.assert_array_equal(batch.label["z"], z[batch.rows])
        rows += batch.size - batch.pad
    assert rows == 10


@pytest.mark.parametrize("y", [None, {}, {"y": None}])
def test_no_labels(y: Any) -> None:
    batch = next(iter(sp.batches(np.eye(3), y, 2)))
    assert batch.label == {}
    assert batch.y is None


def test_iterators_restart() -> None:
    train = sp.batches(np.eye(4), batch_size=3)
    rows = iter(train)
    next(rows)
    with pytest.raises(StopIteration):
        next(rows)
    assert len(list(train)) == 1


def test_libsvm_nine_rows(tmp_path: Path) -> None:
    (tmp_path / "nine.svm").write_text(NINE)
    nine = sp.ingest.libsvm(tmp_path / "nine.svm", tmp_path / "nine.sparrow", index_base=0, n_features=10)
    result = [
        (b.X.data.tolist(), b.X.indices.tolist(), b.X.indptr.tolist(), b.y.tolist())
        for b in sp.batches(nine, batch_size=3)
    ]
    assert result == [
        ([1, 2, 3, 4, 5, 6, 7], [0, 2, 0, 5, 2, 8, 9], [0, 2, 4, 7], [1, 1, 1]),
        ([8, 0.5, 1.5], [3, 0, 9], [0, 1, 1, 3], [1, -1, -2]),
        ([-0.6, 2.25, 1.25, 2, -1.25, -1.2], [0, 1, 2, 1, 2, 2], [0, 3, 5, 6], [-3, -3, 4]),
    ]


def test_libsvm_four_rows(tmp_path: Path) -> None:
    (tmp_path / "four.svm").write_text("1 0:.5 2:1.2\n-2\n-3 0:.6 1:2.4 2:1.2\n4 2:-1.2\n")
    sp.ingest.libsvm(tmp_path / "four.svm", tmp_path / "four.sparrow", index_base=0)
    second = list(sp.batches(tmp_path / "four.sparrow", batch_size=3, last_batch="pad"))[1]
    assert second.X.to_numpy().tolist() == [[0, 0, -1.2], [0.5, 0, 1.2], [0, 0, 0]]
    assert (second.y.tolist(), second.pad, second.rows.tolist()) == ([4, 1, -2], 2, [3, 0, 1])


def test_labels_from_second_file(tmp_path: Path) -> None:
    (tmp_path / "X.svm").write_text("9 0:.5 2:1.2\n9\n9 0:.6 1:2.4 2:1.2\n9 2:-1.2\n")
    (tmp_path / "y.svm").write_text("1\n-2 0:0.125\n-3 2:1.2\n4 1:1.0 2:-1.2\n")
    X, y = (
        sp.ingest.libsvm(tmp_path / f"{name}.svm", tmp_path / f"{name}.sparrow", index_base=0, n_features=3)
        for name in "Xy"
    )
    batch = next(iter(sp.batches(X["X"], y["X"], 3)))
    assert isinstance(batch.y, sp.formats.CSR)
    assert batch.y.to_numpy().tolist() == [[0, 0, 0], [0.125, 0, 0], [0, 0, 1.2]]
    assert batch.X.to_numpy().tolist() == [[0.5, 0, 1.2], [0, 0, 0], [0.6, 2.4, 1.2]]
    again = next(iter(sp.batches(X["X"], y["y"], 3)))
    assert again.y.tolist() == [1, -2, -3]


# -- against NumPy -------------------------------------------------------------------------------


def check_epoch(train: Any, dense: Any, y: Any) -> list[int]:
    """Return the rows of an epoch, having compared the batches with the matrix."""
    result: list[int] = []
    for batch in train:
        batch.X.check_format()
        np.testing.assert_array_equal(batch.X.to_numpy(), dense[batch.rows])
        np.testing.assert_array_equal(batch.y, y[batch.rows])
        assert batch.size == train.batch_size
        result += batch.rows[: batch.size - batch.pad].tolist()
    return result


@pytest.mark.parametrize("where", ["memory", "stored", "view", "list", "expression", "transposed", "csr"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_row_once(where: str, shuffle: bool, tmp_path: Path, small_partitions: None) -> None:
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((230, 9)) < 0.3, rng.integers(1, 9, (230, 9)), 0)
    dense[50:120] = 0
    dense[120:130] = 1
    A = save_tensor(tmp_path / "a.sparrow", dense)
    X: Any
    if where == "memory":
        X = sp.asarray(dense)
    elif where == "stored":
        X = A
    elif where == "view":
        X, dense = A[3:220:2, 1:], dense[3:220:2, 1:]
    elif where == "list":
        keep = rng.permutation(230)[:150]
        X, dense = A[keep], dense[keep]
    elif where == "expression":
        X, dense = (A + 2 * A)[::-1], 3 * dense[::-1]
    elif where == "transposed":
        X = save_tensor(tmp_path / "t.sparrow", np.ascontiguousarray(dense.T)).T
    else:
        X = scipy.sparse.csr_array(dense)
    y = rng.random(len(dense))
    train = sp.batches(X, sp.asarray(y), 16, "pad", shuffle, seed=5)
    first, second = (check_epoch(train, dense, y) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(len(dense)))
    assert (first == sorted(first)) is not shuffle
    assert (first == second) is not shuffle


@given(data=st.data())
def test_random_sizes(data: st.DataObject) -> None:
    height, size = data.draw(st.integers(0, 40)), data.draw(st.integers(1, 50))
    mode: Any = data.draw(st.sampled_from(MODES))
    shuffle, parts = data.draw(st.booleans()), data.draw(st.integers(1, 4))
    dense = np.arange(3 * height).reshape(height, 3) % 5
    part = data.draw(st.integers(0, parts - 1))
    train = sp.batches(dense, dense[:, 0], size, mode, shuffle, 1, parts, part, prefetch=data.draw(st.integers(0, 3)))
    with tune("stream", partition_rows=7):
        own = range(height * part // parts, height * (part + 1) // parts)
        stream: list[int] = []
        for epoch in range(3):
            count = len(train)
            batches = list(train)
            assert len(batches) == count
            rows = [row for batch in batches for row in batch.rows[: batch.size - batch.pad].tolist()]
            for batch in batches:
                np.testing.assert_array_equal(batch.X.to_numpy(), dense[batch.rows])
                assert batch.size == size
            if mode == "pad":
                assert sorted(rows) == list(own)
                assert all(batch.pad == 0 for batch in batches[:-1])
                if batches:
                    expected = list(np.resize([row for b in batches for row in b.rows][: len(own)], size * count))
                    assert [row for b in batches for row in b.rows] == expected
            elif mode == "discard":
                assert len(set(rows)) == len(rows) == len(own) // size * size
                assert set(rows) <= set(own)
            else:
                stream += rows
                assert len(stream) == (epoch + 1) * len(own) // size * size
        if mode == "roll_over" and own:
            for epoch in range(len(stream) // len(own)):
                assert sorted(stream[epoch * len(own) : (epoch + 1) * len(own)]) == list(own)


# -- shuffling -----------------------------------------------------------------------------------


def rows_of(train: Any) -> list[int]:
    return [int(row) for batch in train for row in batch.rows]


def test_order_depends_on_seed_and_epoch(tmp_path: Path, small_partitions: None) -> None:
    X = save_tensor(tmp_path / "x.sparrow", sp.random((300, 20), density=0.2, seed=1))
    orders = []
    for threads, prefetch in [(1, 2), (2, 0), (4, 5)]:
        with sp.config(threads=threads):
            train = sp.batches(X, batch_size=7, shuffle=True, seed=11, last_batch="roll_over", prefetch=prefetch)
            orders.append([rows_of(train) for _ in range(3)])
            again = sp.batches(X, batch_size=7, shuffle=True, seed=11, last_batch="roll_over")
            again.epoch = 2  # like after a restart
            assert rows_of(again) == orders[-1][2]
    assert orders[0] == orders[1] == orders[2]
    assert orders[0][0] != orders[0][1]
    assert rows_of(sp.batches(X, batch_size=7, shuffle=True, seed=12)) != orders[0][0]


def test_small_data_is_shuffled_uniformly() -> None:
    """Each row is at each position equally often."""
    train = sp.batches(np.eye(6), batch_size=6, shuffle=True, seed=3)
    counts = np.zeros((6, 6))
    for _ in range(600):
        counts[np.arange(6), next(iter(train)).rows] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 52.6  # the 0.999 quantile of chi-squared with 25 degrees of freedom


def test_shuffle_quality_of_large_data(tmp_path: Path, small_partitions: None) -> None:
    """Label shares deviate as documented if rows are sorted by label."""
    X = save_tensor(tmp_path / "x.sparrow", np.ones((2560, 2)))  # 128 partitions of 20 rows, 16 windows
    y = np.arange(2560) >= 1280
    shares, places = [], []
    train = sp.batches(X, y, 80, shuffle=True, seed=1)
    for _ in range(8):
        result = list(train)
        shares += [batch.y.mean() for batch in result]
        places.append(np.concatenate([batch.rows for batch in result]))
    assert abs(np.mean(shares) - 0.5) < 0.01
    assert np.std(shares) < 1.1 * np.sqrt(0.25 / 8 + 0.25 / 80)
    for rows in places:
        assert abs(np.corrcoef(rows, np.arange(2560))[0, 1]) < 0.3
        assert np.median(np.abs(np.diff(rows))) > 2560 / 8


# -- parts, processes, libraries -----------------------------------------------------------------


def test_parts_cover_rows() -> None:
    parts = [rows_of(sp.batches(np.eye(11), batch_size=1, num_parts=3, part_index=k)) for k in range(3)]
    assert parts == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10]]
    assert rows_of(sp.batches(np.eye(2), batch_size=1, num_parts=3, part_index=0)) == []


def test_pickle(tmp_path: Path) -> None:
    X = save_tensor(tmp_path / "x.sparrow", np.eye(30))
    train = sp.batches(X, sp.asarray(np.arange(30)), 4, shuffle=True)
    next(iter(train))
    again = pickle.loads(pickle.dumps(train))
    assert again.epoch == 1
    assert [batch.y.tolist() for batch in again] == [batch.y.tolist() for batch in train]
    batch = next(iter(train))
    same = pickle.loads(pickle.dumps(batch))
    assert same.X == batch.X
    assert same.rows.tolist() == batch.rows.tolist()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("entries", "times"), [(40, 1), (7, 2)], ids=["ends where rows do", "rows go on"])
def test_row_groups_are_decoded_once(tmp_path: Path, shuffle: bool, entries: int, times: int) -> None:
    X = save_tensor(tmp_path / "x.sparrow", sp.random((300, 20), density=0.1, seed=1), entries)
    with tune("stream", partition_rows=entries), observe("storage.read_row_group") as observed:
        assert sum(len(batch) for batch in sp.batches(X, batch_size=7, shuffle=shuffle)) == 300 // 7 * 7
    decoded = [tuple(details.values()) for _, details in observed]
    assert len(set(decoded)) > 10
    assert max(map(decoded.count, decoded)) == (times if shuffle else 1)


def test_inputs_are_pinned(tmp_path: Path) -> None:
    X = save_tensor(tmp_path / "x.sparrow", np.eye(6))
    train = sp.batches(X, batch_size=6)
    X[0, 0] = 9
    assert next(iter(train)).X.to_numpy()[0, 0] == 1


def test_batches_own_their_arrays() -> None:
    dense = np.eye(4)
    X, y = sp.asarray(dense), np.arange(4)
    for batch in sp.batches(X, y, 3, "pad"):
        batch.to_scipy().data[:] = 7
        batch.y[:] = 7
    np.testing.assert_array_equal(X.to_numpy(), dense)
    np.testing.assert_array_equal(y, range(4))


def test_to_scipy_shares_arrays() -> None:
    for dtype in ("float64", "float32", "bool", "complex128", "int8"):
        # 40 rows, because SciPy's constructor copies small parts of large arrays.
        batch = next(iter(sp.batches(np.eye(40, dtype=dtype), batch_size=3, shuffle=True)))
        rows = batch.to_scipy()
        assert rows.has_canonical_format
        assert rows.dtype == dtype
        assert np.shares_memory(rows.data, batch.X.data)
        assert np.shares_memory(rows.indices, batch.X.indices)
        np.testing.assert_array_equal(rows.toarray(), np.eye(40)[batch.rows])
        rows.check_format()


def test_pandas_frames() -> None:
    frame = pd.DataFrame({"a": [1.0, 0, 2], "b": [0.0, 3, 0]}, index=[7, 8, 9])
    for X in (frame, frame.astype(pd.SparseDtype("float64", 0))):
        batch = next(iter(sp.batches(X, pd.Series([1, 2, 3], index=[7, 8, 9]), 3)))
        assert batch.X.to_numpy().tolist() == frame.to_numpy().tolist()
        assert batch.y.tolist() == [1, 2, 3]


def test_large_labels_are_memory_mapped() -> None:
    y = sp.asarray(np.arange(60_000.0))
    with sp.config(memory_limit=2_000_000):
        train = sp.batches(sp.zeros((60_000, 2)), y, 10_000)
        assert np.concatenate([batch.y for batch in train]).tolist() == list(range(60_000))
        assert isinstance(train._columns["y"], np.memmap)


def test_sklearn_partial_fit() -> None:
    """scikit-learn learns from batches of SciPy arrays."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((1500, 40), density=0.2, rng=rng, format="csr")
    y = np.where(X @ rng.normal(size=40) > 0, "yes", "no")
    model = SGDClassifier(loss="log_loss", random_state=0)
    train = sp.batches(X, y, 50, "pad", shuffle=True)
    for _ in range(4):
        for batch in train:
            model.partial_fit(batch.to_scipy(), batch.y, classes=["no", "yes"])
    assert model.score(X, y) > 0.93


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Rows read ahead stay within the memory limit."""
    X = sp.random((40_000, 1000), nnz=1_600_000, seed=1).save(tmp_path / "x.sparrow")
    for shuffle in (False, True):
        with sp.config(memory_limit=80_000_000, threads=2):
            rows = 0
            for batch in sp.batches(X, batch_size=500, shuffle=shuffle, prefetch=50):
                rows += batch.size
                assert memory.available() > 5_000_000
            assert rows == 40_000
            del batch
            assert memory.available() == 80_000_000
    with sp.config(memory_limit=2_000_000), pytest.raises(TooLargeError, match="partitions of rows would take"):
        next(iter(sp.batches(X, batch_size=500, shuffle=True)))


def test_error_of_large_windows_suggests_order(tmp_path: Path) -> None:
    X = sp.random((40_000, 1000), nnz=1_600_000, seed=1).save(tmp_path / "x.sparrow")
    y = np.ones(40_000)
    with sp.config(memory_limit=15_000_000):
        with pytest.raises(TooLargeError, match=r"pass shuffle=False"):
            sp.models.LinearRegression(epochs=1).fit(X, y)
        assert sp.models.LinearRegression(epochs=1, shuffle=False, batch_size=500).fit(X, y).predict(X[:5]).shape == (
            5,
        )


def test_break_releases_memory(tmp_path: Path, small_partitions: None) -> None:
    X = save_tensor(tmp_path / "x.sparrow", np.ones((400, 4)))
    for _ in range(5):
        for _batch in sp.batches(X, batch_size=3, shuffle=True):
            break
    assert memory.available() == memory.limit()


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"batch_size": 2.5}, "batch_size must be an integer of at least 1, got 2.5"),
        ({"last_batch": "keep"}, "last_batch must be one of 'discard', 'pad', 'roll_over', got 'keep'"),
        ({"num_parts": 0}, "num_parts must be an integer of at least 1, got 0"),
        ({"num_parts": 2, "part_index": 2}, "part_index must be from 0 to 1, got 2"),
        ({"part_index": -1}, "part_index must be an integer of at least 0, got -1"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"prefetch": -1}, "prefetch must be an integer of at least 0, got -1"),
    ],
)
def test_option_errors(options: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        sp.batches(np.eye(3), **options)


def test_input_errors() -> None:
    with pytest.raises(ShapeError, match=r"labels 'y' must have .*, 9 rows, got shape \(5,\)"):
        sp.batches(np.eye(9), np.arange(5))
    with pytest.raises(ShapeError, match="got 5 for 'b' and 9 for 'a'"):
        sp.batches({"a": np.eye(9), "b": np.eye(5)})
    with pytest.raises(ShapeError, match=r"labels 'y' must have .*, got shape \(\)"):
        sp.batches(np.eye(9), 5)
    with pytest.raises(ShapeError, match=r"input 'X' must be a matrix, got shape \(3,\)"):
        sp.batches(np.arange(3))
    with pytest.raises(InvalidValueError, match="inputs must not be empty"):
        sp.batches({})
    with pytest.raises(UnsupportedError, match="fill value of input 'X' must be 0, got 1"):
        sp.batches(np.exp(sp.eye(3)))
    with pytest.raises(UnsupportedError, match="iterate over them"):
        sp.batches(np.eye(3))[0]


def test_batch_unpacks() -> None:
    X = np.arange(1.0, 13).reshape(4, 3)
    for k, (rows, labels) in enumerate(sp.batches(X, [5, 6, 7, 8], batch_size=2)):
        assert np.array_equal(rows.to_numpy(), X[2 * k : 2 * k + 2])
        assert labels.tolist() == [5 + 2 * k, 6 + 2 * k]
    assert [y for _, y in sp.batches(X, batch_size=4)] == [None]
