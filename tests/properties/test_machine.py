"""State machine of a tensor, in memory and stored, against NumPy."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sparrow as sp
from sparrow import storage
from sparrow.errors import DuplicateError, ShapeError
from sparrow.testing import tune
from tests.core.indexing.test_view import assume_valid, keys

Array = np.ndarray[Any, Any]
SEEDS = st.integers(0, 2**16)
VALUES = st.sampled_from([0, 0, 1, 2, -3])


def some(shape: tuple[int, ...], seed: int, density: float = 0.5) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.integers(-4, 5, shape) * (rng.random(shape) < density))


class Machine(RuleBasedStateMachine):
    """Operations on a tensor and an array; views are kept by their keys."""

    stored = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(shape=st.lists(st.integers(2, 6), min_size=1, max_size=3).map(tuple), seed=SEEDS)
    def make(self, shape: tuple[int, ...], seed: int) -> None:
        self.dense = some(shape, seed)
        self.views: list[tuple[sp.Tensor, tuple[int, ...], list[Any]]] = []
        self.versions: dict[int, Array] = {}
        A = sp.asarray(self.dense)
        if self.stored:
            A.save(self.folder / "A")
            self.reopen()
        else:
            self.A = A
        self.note()

    def reopen(self) -> None:
        self.A = sp.Tensor(storage.open(self.folder / "A", sizes=storage.Sizes(file_rows=16, group_rows=5)))
        self.views = []

    def note(self) -> None:
        if self.stored:
            assert self.A.version is not None
            self.versions[self.A.version] = self.dense.copy()

    def to_array(self, base: Array, made: list[Any]) -> Array:
        for key in made:
            base = base[key]
        return base

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        base, shape, made = self.A, self.dense.shape, []
        if self.views and bool(data.draw(SEEDS) % 2):
            base, shape, made = data.draw(st.sampled_from(self.views))
            if shape != self.dense.shape:
                return
        before = self.to_array(self.dense, made)
        starts = st.tuples(*(st.integers(0, max(n - 1, 0)).map(lambda at: slice(at, None)) for n in before.shape))
        key = assume_valid(before, data.draw(keys(before.shape, lists=False) | starts))
        view = base[key]
        if isinstance(view, sp.Tensor) and isinstance(before[key], np.ndarray) and view.ndim < 6:
            self.views.append((view, shape, [*made, key]))

    @rule(data=st.data(), seed=SEEDS)
    def write(self, data: st.DataObject, seed: int) -> None:
        A, dense = self.target(data)
        self.assign(A, dense, data, seed)
        self.note()

    @rule(data=st.data(), seed=SEEDS, count=st.integers(0, 4), fail=st.booleans())
    def edit(self, data: st.DataObject, seed: int, count: int, fail: bool) -> None:
        A, dense = self.target(data)
        before, version = self.dense.copy(), self.A.version
        try:
            with A.edit() as e:
                for k in range(count):
                    self.assign(e, dense, data, seed + k)
                assert np.array_equal(self.A.to_numpy(), before)
                if fail:
                    raise KeyError("stop")
        except KeyError:
            self.dense[...] = before
            assert self.A.version == version
        if version is not None:
            assert self.A.version in (version, version + 1)
        self.note()

    def target(self, data: st.DataObject) -> tuple[sp.Tensor, Array]:
        fitting = [found for found in self.views if found[1] == self.dense.shape]
        if fitting and bool(data.draw(SEEDS) % 2):
            view, _, made = data.draw(st.sampled_from(fitting))
            return view, self.to_array(self.dense, made)
        return self.A, self.dense

    def assign(self, A: Any, dense: Array, data: st.DataObject, seed: int) -> None:
        if dense.ndim and dense.size and data.draw(st.booleans()):
            n = data.draw(st.integers(0, 6))
            coords = [data.draw(st.lists(st.integers(-size, size - 1), min_size=n, max_size=n)) for size in dense.shape]
            values = some((n,), seed)
            A.put(coords, values)
            for *cell, number in zip(*coords, values, strict=True):
                dense[tuple(cell)] = number
            return
        key = assume_valid(dense, data.draw(keys(dense.shape)))
        target = np.shape(dense[key])
        kind = data.draw(st.sampled_from(["scalar", "array", "row", "sparse"]))
        value: Any = data.draw(VALUES) if kind == "scalar" else some(target if kind != "row" else target[-1:], seed)
        dense[key] = value
        A[key] = sp.asarray(value) if kind == "sparse" else value

    @rule(seed=SEEDS, how=st.sampled_from(["error", "sum", "first", "last", "min", "max"]))
    def append(self, seed: int, how: str) -> None:
        other = some(self.dense.shape, seed, 0.2)
        both, old = (self.dense != 0) & (other != 0), self.dense
        if how == "error" and both.any():
            with pytest.raises(DuplicateError):
                self.A.append(other)
            return
        with sp.config(memory_limit="1GB"):
            self.A.append(sp.asarray(other), duplicates=how)
        combined = {
            "error": old, "sum": old + other, "first": old, "last": other,
            "min": np.minimum(old, other), "max": np.maximum(old, other),
        }[how]  # fmt: skip
        self.dense[...] = np.where(both, combined, old + other)
        self.note()

    @rule(data=st.data())
    def resize(self, data: st.DataObject) -> None:
        shape = tuple(data.draw(st.integers(max(n - 2, 0), n + 2)) for n in self.dense.shape)
        self.A.resize(shape)
        new = np.zeros(shape, dtype=self.dense.dtype)
        both = tuple(slice(min(a, b)) for a, b in zip(shape, self.dense.shape, strict=True))
        new[both] = self.dense[both]
        self.dense = new
        if new.size < 500 and data.draw(SEEDS) % 4:
            self.dense[...] = self.A[...] = some(shape, 0)
        self.note()

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.A.restore(version)
        self.dense = self.versions[version].copy()
        self.note()

    @rule(profile=st.sampled_from([None, "fast", "small", "portable"]))
    def compact(self, profile: Any) -> None:
        self.A.compact(profile)
        self.note()

    @precondition(lambda self: self.stored)
    @rule(order=st.booleans())
    def again(self, order: bool) -> None:
        if order and self.dense.ndim > 1:
            self.A.add_order(tuple(reversed(range(self.dense.ndim))))
        self.reopen()

    @precondition(lambda self: not self.stored)
    @rule()
    def pickle_roundtrip(self) -> None:
        self.A, self.views = pickle.loads(pickle.dumps(self.A)), []

    @invariant()
    def same(self) -> None:
        assert self.A.shape == self.dense.shape
        assert np.array_equal(self.A.to_numpy(), self.dense)
        assert self.A.nnz == np.count_nonzero(self.dense)
        for view, shape, made in self.views[-4:]:
            if shape == self.dense.shape:
                wanted = self.to_array(self.dense, made)
                assert np.array_equal(view.to_numpy(), wanted)
                assert view.nnz == np.count_nonzero(wanted)
                continue
            if view._initial_view.is_identity:
                assert view.shape == self.dense.shape
                continue
            reach = self.to_array(np.arange(int(np.prod(shape))).reshape(shape), made)
            cells = np.unravel_index(reach, shape)
            if all((column < n).all() for column, n in zip(cells, self.dense.shape, strict=True)):
                assert np.array_equal(view.to_numpy(), self.dense[cells] if self.dense.size else np.zeros(reach.shape))
            else:
                repr(view)
                with pytest.raises(ShapeError, match="resized"):
                    view.to_numpy()


class StoredMachine(Machine):
    """The same with files, versions and sort orders."""

    stored = True

    @invariant()
    def sound(self) -> None:
        there = sp.open(self.folder / "A")
        assert there.version == self.A.version
        assert there.nnz == self.A.nnz

    @rule()
    def check(self) -> None:
        assert self.A.verify() == []


def run(machine: type[Machine], examples: int, steps: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


@pytest.fixture(autouse=True)
def small_batches() -> Iterator[None]:
    """Let edits clear boxes and appends stream in batches at the size of the test."""
    with tune("tensor", clear_box_max_elements=2, append_memory_parts=3 * 10**6):
        yield


def test_in_memory() -> None:
    run(Machine, 30, 25)


def test_stored() -> None:
    run(StoredMachine, 8, 25)
