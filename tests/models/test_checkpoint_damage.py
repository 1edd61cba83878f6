"""Damaged checkpoints: an error that names the file, never a wrong fit."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import CorruptionError, SparrowError
from sparrow.models import ALS, FactorizationMachine, LinearRegression, LogisticRegression
from sparrow.optim import SGD

RNG = np.random.default_rng(3)
RATINGS = RNG.random((30, 20)) * (RNG.random((30, 20)) < 0.4)
X = RNG.normal(size=(60, 5))
Y = (X[:, 0] > 0).astype(int)

FITS: dict[str, Callable[[int, Path | None], Any]] = {
    "als": lambda epochs, folder: ALS(3, epochs=epochs, checkpoint=folder).fit(RATINGS),
    "biases": lambda epochs, folder: ALS(3, epochs=epochs, biases=True, unobserved_weight=0, checkpoint=folder).fit(
        RATINGS
    ),
    "linear": lambda epochs, folder: LinearRegression(SGD(0.01, momentum=0.9), epochs=epochs, checkpoint=folder).fit(
        X, Y
    ),
    "logistic": lambda epochs, folder: LogisticRegression(
        "adam", epochs=epochs, validation=0.2, patience=2, checkpoint=folder
    ).fit(X, Y),
    "machine": lambda epochs, folder: FactorizationMachine(2, optimizer="ftrl", epochs=epochs, checkpoint=folder).fit(
        X, Y
    ),
}


def weights(model: Any) -> list[bytes]:
    if isinstance(model, ALS):
        return [model.user_factors.tobytes(), model.item_factors.tobytes()]
    return [model._weights.rows.tobytes(), model._weights.bias.tobytes()]


def bits(model: Any) -> list[bytes]:
    return [*weights(model), model.loss_.tobytes()]


def damage_file(path: Path, draw: random.Random) -> None:
    """Flip a bit of a file, cut it, or empty it."""
    data = bytearray(path.read_bytes())
    at = draw.choice([0, len(data) - 1, draw.randrange(len(data))])
    how = draw.random()
    if how < 0.8:
        data[at] ^= 1 << draw.randrange(8)
    path.write_bytes(data if how < 0.8 else data[:at] if how < 0.95 else b"")


def damage_fits(folder: Path, seed: int, events: int) -> Iterator[str]:
    """Damage checkpoints and saved models at random; yield what went wrong."""
    draw = random.Random(seed)
    names = draw.sample(sorted(FITS), min(len(FITS), max(events // 8, 1)))
    for name in names:
        sound, models = folder / name, folder / f"{name}-saved"
        FITS[name](1, sound)
        whole = FITS[name](2, None)
        whole.save(models)
        for number in range(events // len(names)):
            saved = number % 4 == 3
            damaged = folder / "damaged"
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(models if saved else sound, damaged)
            file = draw.choice(sorted(each for each in damaged.rglob("*") if each.is_file()))
            damage_file(file, draw)
            try:
                found = sp.models.load(damaged) if saved else FITS[name](2, damaged)
                same = weights(found) == weights(whole)
            except SparrowError as error:
                same = file.name in str(error) or (saved and str(damaged) in str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not come through
                yield f"{name}, {file.relative_to(damaged)}: {error!r}"
                continue
            if not same:
                yield f"{name}, {file.relative_to(damaged)}: another fit, or an error without the file"


def test_damaged_files_are_found(tmp_path: Path) -> None:
    assert list(damage_fits(tmp_path, 3, 160)) == []


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("how", ["cut", "empty", "missing", "other type", "deep"])
def test_damaged_file_is_named(name: str, how: str, tmp_path: Path) -> None:
    FITS[name](1, tmp_path / "sound")
    for file in sorted((tmp_path / "sound").glob("*/*")):
        folder = tmp_path / f"{file.name}-damaged"
        shutil.copytree(tmp_path / "sound", folder)
        damaged = folder / file.relative_to(tmp_path / "sound")
        if how == "cut":
            os.truncate(damaged, damaged.stat().st_size // 2)
        elif how == "empty":
            os.truncate(damaged, 0)
        elif how == "missing":
            damaged.unlink()
        elif how == "deep":
            damaged.write_text("[" * 100_000 + "]" * 100_000)
        else:
            damaged.unlink()
            damaged.mkdir()
        with pytest.raises(CorruptionError, match=rf"remove it to start over: '{file.name}'"):
            FITS[name](2, folder)


@pytest.mark.parametrize("name", FITS)
def test_swapped_files_are_found(name: str, tmp_path: Path) -> None:
    FITS[name](1, tmp_path / "sound")
    (step,) = (tmp_path / "sound").iterdir()
    files = sorted(step.glob("*.npy"))
    assert len(files) > 1
    for k, first in enumerate(files):
        second = files[k - 1]
        if first.read_bytes() == second.read_bytes():
            continue
        folder = tmp_path / f"swapped-{k}"
        shutil.copytree(step, folder / step.name)
        shutil.copy(first, folder / step.name / second.name)
        shutil.copy(second, folder / step.name / first.name)
        with pytest.raises(CorruptionError, match=r"its digest is not the one in state\.json"):
            FITS[name](2, folder)


def test_files_of_another_step_are_found(tmp_path: Path) -> None:
    FITS["als"](1, tmp_path / "old")
    FITS["als"](2, tmp_path / "new")
    (old,), (new,) = (list((tmp_path / name).iterdir()) for name in ("old", "new"))
    shutil.copy(old / "1.npy", new / "1.npy")
    with pytest.raises(CorruptionError, match=r"1\.npy"):
        FITS["als"](3, tmp_path / "new")
    shutil.rmtree(new)
    old.rename(new)
    with pytest.raises(CorruptionError, match="belongs to step-000002"):
        FITS["als"](3, tmp_path / "new")
