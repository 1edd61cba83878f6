"""State machine of a labelled tensor with two writers, against a dict."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import sparrow as sp
from sparrow.errors import ConflictError, DuplicateError, SparrowError

USERS = [f"u{k}" for k in range(9)]
ITEMS = ["x", "y", "z", "w"]
RULES: dict[str, Callable[[int, int], int]] = {
    "error": lambda old, new: new,
    "sum": lambda old, new: old + new,
    "first": lambda old, new: old,
    "last": lambda old, new: new,
    "min": min,
    "max": max,
}
Cells = dict[tuple[str, str], int]


@dataclass
class Model:
    """Stored state: labels in order, and elements by label."""

    users: list[str]
    items: list[str]
    cells: Cells = field(default_factory=dict)

    def copy(self) -> Model:
        return Model(list(self.users), list(self.items), dict(self.cells))

    def append(self, users: list[str], items: list[str], cells: Cells, how: str) -> None:
        self.users += [user for user in users if user not in self.users]
        self.items += [item for item in items if item not in self.items]
        for cell, value in cells.items():
            self.cells[cell] = RULES[how](self.cells[cell], value) if cell in self.cells else value


def check(tensor: sp.Tensor, model: Model) -> None:
    """Compare a tensor with a model: labels, their order, every element."""
    assert tensor.dims == ("user", "item")
    users, items = tensor.labels("user"), tensor.labels("item")
    assert users is not None
    assert items is not None
    assert users.to_pylist() == model.users
    assert items.to_pylist() == model.items
    found = {(u, i): v for u, i, v in tensor.to_polars(labels=True).select("user", "item", "value").rows()}
    assert found == model.cells


tables = st.dictionaries(
    st.tuples(st.sampled_from(USERS), st.sampled_from(ITEMS)), st.integers(1, 5), min_size=1, max_size=5
)
writers = st.integers(0, 1)


class Writers(RuleBasedStateMachine):
    """Two writers of one tensor; each sees the version it last refreshed to."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(table=tables)
    def make(self, table: Cells) -> None:
        users, items = (list(dict.fromkeys(cell[axis] for cell in table)) for axis in (0, 1))
        self.path = str(tensor_of(table, users, items).save(self.folder / "A").path)
        self.latest = 0
        self.versions = {0: Model(users, items, dict(table))}
        self.writers = [sp.open(self.path) for _ in range(2)]

    @property
    def model(self) -> Model:
        return self.versions[self.latest]

    def record_write(self, writer: sp.Tensor, model: Model) -> None:
        """Record a write: a new version, or none if nothing changed."""
        assert writer.version is not None
        if writer.version < self.latest:  # a writer with nothing to write does not refresh
            assert model.cells == self.model.cells
            model = self.versions[writer.version]
        elif writer.version != self.latest:
            assert writer.version == self.latest + 1
            self.latest = writer.version
            self.versions[self.latest] = model
        check(writer, model)

    @rule(who=writers, table=tables, how=st.sampled_from(sorted(RULES)), framed=st.booleans(), seed=st.integers(0, 9))
    def append(self, who: int, table: Cells, how: str, framed: bool, seed: int) -> None:
        writer, stale = self.writers[who], self.writers[who].version != self.latest
        if framed:  # labels of tables come in ascending order, in which columns of any order name them
            users, items = (sorted({cell[axis] for cell in table}) for axis in (0, 1))
            rows = [{"item": item, "value": value, "user": user} for (user, item), value in table.items()]
            given: Any = pl.DataFrame(rows)
        else:
            users, items = (list(np.random.default_rng(seed).permutation(USERS)[:4]), ITEMS[seed % 3 :])
            table = {(u, i): v for (u, i), v in table.items() if u in users and i in items}
            given = tensor_of(table, users, items)
            given = given.T if seed % 2 else given
        twice = [cell for cell in table if cell in self.model.cells]
        try:
            writer.append(given, duplicates=how)
        except (ConflictError, DuplicateError) as error:
            self.check_error(error, how, stale, bool(twice))
            check(sp.open(self.path), self.model)
            writer.refresh()
            return
        assert how != "error" or not twice
        model = self.model.copy()
        model.append(users, items, table, how)
        self.record_write(writer, model)

    def check_error(self, error: SparrowError, how: str, stale: bool, twice: bool) -> None:
        """Check why an append failed: another commit, or duplicate elements."""
        assert isinstance(error, DuplicateError) or stale
        assert isinstance(error, ConflictError) or how == "error"
        assert stale or twice

    @rule(who=writers, user=st.sampled_from(USERS), item=st.sampled_from(ITEMS), value=st.integers(0, 5))
    def assign(self, who: int, user: str, item: str, value: int) -> None:
        writer, stale = self.writers[who], self.writers[who].version != self.latest
        mine = self.versions[writer.version or 0]
        if user not in mine.users or item not in mine.items:
            return
        try:
            writer[mine.users.index(user), mine.items.index(item)] = value
        except SparrowError:
            assert stale
            check(sp.open(self.path), self.model)
            writer.refresh()
            return
        if writer.version == self.latest and self.versions[self.latest].cells == mine.cells and not stale:
            assert mine.cells.get((user, item), 0) == value  # nothing to change
            return
        if writer.version in self.versions and stale:
            return  # nothing to change in what it saw
        model = self.model.copy()
        model.cells = {cell: v for cell, v in model.cells.items() if cell != (user, item)}
        if value:
            model.cells[user, item] = value
        self.record_write(writer, model)

    @rule(who=writers)
    def refresh(self, who: int) -> None:
        self.writers[who].refresh()
        check(self.writers[who], self.model)

    @rule(who=writers)
    def compact(self, who: int) -> None:
        self.writers[who].compact()
        self.record_write(self.writers[who], self.model.copy())

    @rule(who=writers, data=st.data())
    def restore(self, who: int, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.writers[who].refresh()
        self.writers[who].restore(version)
        self.record_write(self.writers[who], self.versions[version].copy())

    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        check(sp.open(self.path, version=version), self.versions[version])

    @rule(who=writers, data=st.data())
    def select(self, who: int, data: st.DataObject) -> None:
        writer = self.writers[who]
        mine = self.versions[writer.version or 0]
        users = data.draw(st.lists(st.sampled_from(mine.users), max_size=4))
        found = writer.sel(user=users).to_numpy().tolist()
        assert found == [[mine.cells.get((user, item), 0) for item in mine.items] for user in users]

    @rule()
    def verify(self) -> None:
        assert sp.open(self.path).verify() == []

    @invariant()
    def each_sees_a_version(self) -> None:
        for writer in self.writers:
            assert writer.version is not None
            assert writer.shape == (
                len(self.versions[writer.version].users),
                len(self.versions[writer.version].items),
            )


def tensor_of(cells: Cells, users: list[str], items: list[str]) -> sp.Tensor:
    at = [[users.index(u) for u, _ in cells], [items.index(i) for _, i in cells]]
    return sp.from_coords(
        np.array(at, np.int64).reshape(2, len(cells)), np.array(list(cells.values()), np.int64),
        (len(users), len(items)), dims=("user", "item"), labels={"user": users, "item": items},
    )  # fmt: skip


def test_two_writers() -> None:
    run_state_machine_as_test(Writers, settings=settings(max_examples=4, stateful_step_count=12))
