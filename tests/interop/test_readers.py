"""Stores of each profile, opened by other readers in their own environments.

``make readers`` runs it, and builds the environments, which takes minutes; the other targets leave it out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import sparrow as sp
from tests.interop.readers import PROFILES, READERS, Reader

SHAPE = (2000, 3000)


class Stores(NamedTuple):
    """Stored tensors by ``profile name``."""

    listing: Path
    """JSON of folder and data files of each, for the programs."""
    sums: dict[str, list[float]]
    """Rows and sums that a reader must find; they are exact in float64."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    home = tmp_path_factory.mktemp("stores")
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, SHAPE[0] * SHAPE[1], 400_000))
    coords = divmod(cells, SHAPE[1])
    many = rng.integers(1, 90_000, len(cells))
    tensors: dict[str, tuple[Any, Any, tuple[int, int]]] = {
        "float64": (coords, many / 4, SHAPE),
        "float32": (coords, (many / 4).astype(np.float32), SHAPE),
        "int64": (coords, many, SHAPE),
        "uint8": (coords, (many % 200 + 1).astype(np.uint8), SHAPE),
        "bool": (coords, np.ones(len(cells), bool), SHAPE),
        "few values": (coords, (many % 9 + 1) / 2, SHAPE),
        "far ids": ([coords[0][:9000], coords[1][:9000] << 30], many[:9000], (2000, 2**42)),
        "regular": ([np.arange(9000) // 5, np.arange(9000) % 5 * 7], np.arange(9000.0) + 1, SHAPE),
        "short, far ids": ([coords[0][:100], coords[1][:100] << 30], many[:100], (2000, 2**42)),
        "short": ([c[:100] for c in coords], many[:100], SHAPE),
    }
    listing: dict[str, Any] = {}
    sums = {}
    for profile in PROFILES:
        for name, (at, values, shape) in tensors.items():
            tensor = sp.from_coords(at, values, shape=shape, dims=("row", "col"))
            stored = tensor.save(home / f"{profile}-{name}", orders=[(1, 0)], profile=profile)
            stored.put([[3, 1900], [2990, 7]], [1, 1])  # files of later commits are of the profile too
            files = [str(file.path) for file in stored.files()]
            listing[f"{profile} {name}"] = (str(home / f"{profile}-{name}"), files)
            row, col, value = (np.asarray(column, np.float64) for column in stored.to_arrow().columns)
            totals = (len(row), row.sum(), col.sum(), value.sum(), (row * value).sum(), (col * value).sum())
            sums[f"{profile} {name}"] = [float(total) for total in totals]
    (home / "stores.json").write_text(json.dumps(listing))
    return Stores(home / "stores.json", sums)


def install(reader: Reader, folder: Path) -> Path:
    """Return the Python of an environment with the reader; skip if pip fails."""
    if reader.needs and shutil.which(reader.needs) is None:
        pytest.skip(f"{reader.name} needs {reader.needs}, which is not installed")
    home = folder / reader.name.replace(" ", "-")
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *reader.requirements]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip does not install {' '.join(reader.requirements)}: {done.stderr.strip()[-300:]}")
    return python


@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_reader(reader: Reader, stores: Stores, pytestconfig: pytest.Config) -> None:
    python = install(reader, Path(pytestconfig.getoption("--readers")).absolute())
    command = [str(python), "-c", reader.program, str(stores.listing)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=stores.listing.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[float] | str] = json.loads(done.stdout.splitlines()[-1])
    assert list(found) == list(stores.sums)
    refused = set()
    for name, outcome in found.items():
        profile = name.split()[0]
        if isinstance(outcome, str):
            assert reader.refused.get(profile, "no error") in outcome, (name, outcome)  # type: ignore[call-overload]
            refused.add(profile)
        else:
            assert (outcome == stores.sums[name]) == (name not in reader.misread), name
    assert refused == set(reader.refused)  # of short columns some are readable
