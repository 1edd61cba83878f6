"""Training next to scikit-learn and PyTorch; data beyond memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import DATA, Row, alternate, fresh, in_process

import sparrow as sp
from sparrow.models import LogisticRegression

BATCH = 1000
"""Rows of a batch that partial_fit is given."""

# Limit and data; the first fit compiles.
FIT = """
import sparrow as sp
path, tiny, limit = args
sp.config(progress=False, memory_limit=limit)
sp.models.LogisticRegression(epochs=1).fit(tiny)
begin()
sp.models.LogisticRegression(epochs=1).fit(path)
"""


def run(small: bool) -> list[Row]:
    rounds = 1 if small else 3
    # One epoch of a9a is as long as opening it: five.
    out = _beside_sklearn("a9a", str(sp.datasets.load("a9a").path), rounds, epochs=5)
    path = clicks(20_000 if small else 300_000, 100_000, 30)
    out += _beside_sklearn("clicks", str(path), rounds)
    out += _beside_torch(path, rounds)
    out += _beyond_memory(50_000 if small else 4_300_000, "400MB")
    return out + _lazy_and_standard(rounds)


def clicks(height: int, width: int, links: int) -> Path:
    """Return a bundle of sparse binary rows with learnable labels."""
    path = DATA / f"clicks-{height}-{width}-{links}.sparrow"
    if path.exists():
        return path
    block = 100_000
    heaviness = np.random.default_rng(1).normal(size=width)
    parts = DATA / "clicks-part.sparrow"
    fresh(parts)
    stored: Any = None
    labels = []
    for start in range(0, height, block):
        rng = np.random.default_rng((2, start))
        count = min(block, height - start)
        cols = np.sort((width * rng.random((count, links)) ** 3).astype(np.int64), axis=1)
        new = np.ones(cols.shape, bool)
        new[:, 1:] = cols[:, 1:] != cols[:, :-1]
        rows = np.broadcast_to(np.arange(start, start + count)[:, None], cols.shape)
        score = (heaviness[cols] * new).sum(axis=1)
        labels.append(np.where(score + rng.normal(size=count) > 0, 1.0, -1.0))
        piece = sp.from_coords(
            [rows[new], cols[new]], np.ones(int(new.sum())), shape=(height, width), dims=("row", "col")
        )
        if stored is None:
            stored = piece.save(parts)
        else:
            stored.append(piece)
    sp.Bundle({"X": stored, "y": np.concatenate(labels)}).save(path)
    fresh(parts)
    return path


def _fit(path: Any, threads: int, **settings: Any) -> Callable[[], Any]:
    def fit() -> Any:
        with sp.config(threads=threads):
            return LogisticRegression(**{"epochs": 1, **settings}).fit(str(path))

    return fit


def _beside_sklearn(name: str, path: str, rounds: int, epochs: int = 1) -> list[Row]:
    """Compare rows per second with ``partial_fit`` on batches in RAM."""
    from sklearn.linear_model import SGDClassifier

    bundle = sp.open(path)
    X, y = bundle["X"].to_scipy("csr"), bundle["y"].to_numpy()
    height = X.shape[0]
    given = [(X[at : at + BATCH], y[at : at + BATCH]) for at in range(0, height, BATCH)]

    def theirs() -> None:
        model = SGDClassifier(loss="log_loss", alpha=1e-6)
        for rows, labels in given * epochs:
            model.partial_fit(rows, labels, classes=[-1.0, 1.0])

    cases: dict[str, Callable[[], Any]] = {"theirs": theirs}
    cases |= {str(threads): _fit(path, threads, optimizer="sgd", epochs=epochs) for threads in (1, 2)}
    took = alternate(cases, rounds)
    out = []
    for threads, goal in (("1", 1.0), ("2", 1.5)):
        mine, other = (epochs * height / took[case] / 1e3 for case in (threads, "theirs"))
        detail = f"{mine:,.0f} k : {other:,.0f} k rows a second"
        many = "epoch" if epochs == 1 else f"{epochs} epochs"
        what = f"{many} of {name} from disk, {threads} thread{'s' * (threads != '1')}"
        against = f"SGDClassifier.partial_fit, {BATCH} rows in RAM"
        out.append(Row(what, against, took["theirs"] / took[threads], goal, detail, True))
    return out


def _beside_torch(path: Path, rounds: int) -> list[Row]:
    """Compare rows per second of lazy Adam with PyTorch SparseAdam."""
    try:
        import torch
    except ImportError:
        print("torch is not installed: no row beside it", file=sys.stderr)
        return []
    bundle = sp.open(path)
    part = 50_000
    X, y = bundle["X"][:part].to_scipy("csr"), bundle["y"].to_numpy()[:part]
    height, size = X.shape[0], 128
    batches = []
    for at in range(0, height, size):
        rows = X[at : at + size]
        columns, begins = (
            torch.from_numpy(rows.indices.astype(np.int64)),
            torch.from_numpy(rows.indptr[:-1].astype(np.int64)),
        )
        batches.append((columns, begins, torch.from_numpy((y[at : at + size] > 0).astype(np.float32))))

    def theirs() -> None:
        torch.set_num_threads(1)  # as sparrow has here
        weights = torch.nn.EmbeddingBag(X.shape[1], 1, mode="sum", sparse=True)
        optimizer = torch.optim.SparseAdam(list(weights.parameters()), lr=0.01)
        for columns, begins, labels in batches:
            optimizer.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(weights(columns, begins)[:, 0], labels)
            loss.backward()
            optimizer.step()

    stored = DATA / "clicks-head.sparrow"
    sp.Bundle({"X": X, "y": y}).save(stored, overwrite=True)
    took = alternate({"theirs": theirs, "ours": _fit(stored, 1, optimizer="adam", batch_size=size)}, rounds)
    detail = f"{height / took['ours'] / 1e3:,.0f} k : {height / took['theirs'] / 1e3:,.0f} k rows a second"
    against = f"torch {torch.__version__}, EmbeddingBag and SparseAdam, rows in RAM"
    return [
        Row("epoch of clicks from disk, lazy Adam, 1 thread", against, took["theirs"] / took["ours"], 3.0, detail, True)
    ]


def _beyond_memory(height: int, limit: str) -> list[Row]:
    """Measure peak memory of a fit to data five times the memory limit."""
    path = clicks(height, 100_000, 40)
    tiny = DATA / "clicks-tiny.sparrow"
    bundle = sp.open(path)
    sp.Bundle({"X": bundle["X"][:2000], "y": bundle["y"][:2000]}).save(tiny, overwrite=True)
    nbytes = 12 * bundle["X"].nnz
    took, peak = in_process(FIT, path, tiny, limit)
    room = float(limit.removesuffix("MB")) * 1e6
    detail = (
        f"{nbytes / 1e9:.2f} GB as CSR, {nbytes / room:.1f} times the limit of {limit}: peak {peak / 1e6:.0f} MB, "
        f"{height / took / 1e3:,.0f} k rows a second"
    )
    return [Row("epoch beyond memory, peak memory", "limit + 200 MB", peak / (room + 200e6), 1.0, detail)]


def _lazy_and_standard(rounds: int) -> list[Row]:
    """Compare standard and lazy updates as unused columns are added."""
    rng = np.random.default_rng(0)
    rows, cols = np.repeat(np.arange(2000), 20), rng.integers(0, 1000, 40_000)
    y = rng.integers(0, 2, 2000)
    out = []
    for width in (10_000, 100_000, 1_000_000):
        X = sp.from_coords([rows, cols * (width // 1000)], np.ones(40_000), shape=(2000, width), duplicates="last")
        cases: dict[str, Callable[[], Any]] = {}
        for name, lazy in (("lazy", True), ("standard", False)):
            optimizer = sp.optim.SGD(0.1, momentum=0.9, lazy=lazy)
            cases[name] = lambda X=X, optimizer=optimizer: LogisticRegression(optimizer, epochs=1).fit(X, y)
        took = alternate(cases, rounds)
        detail = f"{took['standard'] * 1e3:,.1f} ms : {took['lazy'] * 1e3:,.1f} ms for 63 updates"
        ratio, bound = took["standard"] / took["lazy"], 1.0
        out.append(Row(f"standard updates, momentum, {width:,} columns", "lazy updates", ratio, bound, detail, True))
    return out


def draw(folder: Path) -> None:
    """Write ``lazy.svg``: microseconds per update by number of columns."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "training", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    found = _updates([1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000])
    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for name, points in found.items():
        style = "-o" if "lazy" in name else "--o"
        axes.loglog([width for width, _ in points], [1e6 * took for _, took in points], style, ms=3, label=name)
    axes.set(xlabel="columns", ylabel="microseconds of an update")
    axes.legend(frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "lazy.svg", metadata={"Date": None})
    plt.close(figure)


def _updates(widths: list[int]) -> dict[str, list[tuple[int, float]]]:
    """Return widths and seconds of an update, lazy and standard, by optimiser."""
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[int, float]]] = {}
    for width in widths:
        columns = np.sort(rng.choice(width, 640, replace=False))
        gradient = sp.formats.RowSparse(rng.normal(size=(640, 1)), columns, shape=(width, 1))
        cases: dict[str, Callable[[], Any]] = {}
        for lazy, kind in ((True, "lazy"), (False, "standard")):
            for optimizer in (sp.optim.SGD(0.1, momentum=0.9, lazy=lazy), sp.optim.Adam(0.001, lazy=lazy)):
                w = np.zeros((width, 1))
                state = optimizer.create_state(w)
                name = f"{'momentum' if isinstance(optimizer, sp.optim.SGD) else 'Adam'}, {kind}"
                given = w, gradient, state
                cases[name] = lambda o=optimizer, given=given: [o.update(*given) for _ in range(10)]
        for name, took in alternate(cases, rounds=7).items():
            found.setdefault(name, []).append((width, took / 10))
    return found
