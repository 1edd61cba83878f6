"""Damaged checkpoints: an error that names the file, never a wrong fit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparrow.errors import CorruptionError
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


def bits(model: Any) -> list[bytes]:
    if isinstance(model, ALS):
        return [model.user_factors.tobytes(), model.item_factors.tobytes(), model.loss_.tobytes()]
    return [model._weights.rows.tobytes(), model._weights.bias.tobytes(), model.loss_.tobytes()]


@pytest.mark.parametrize("name", FITS)
def test_flipped_bits_are_found(name: str, tmp_path: Path) -> None:
    FITS[name](1, tmp_path / "sound")
    expected = bits(FITS[name](2, None))
    rng = np.random.default_rng(5)
    for file in sorted((tmp_path / "sound").glob("*/*")):
        for at in {0, file.stat().st_size - 1, *rng.integers(0, file.stat().st_size, 12).tolist()}:
            folder = tmp_path / "damaged"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(tmp_path / "sound", folder)
            damaged = folder / file.relative_to(tmp_path / "sound")
            data = bytearray(damaged.read_bytes())
            data[at] ^= 1 << int(rng.integers(8))
            damaged.write_bytes(data)
            try:
                found = bits(FITS[name](2, folder))
            except CorruptionError as error:
                assert file.name in str(error)  # noqa: PT017 - either outcome is right
            else:
                assert file.name == "state.json"  # JSON that means the same
                assert found == expected


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
