from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparrow.errors import CorruptionError, InvalidValueError, StorageError
from sparrow.models import ALS
from sparrow.testing import observe, on
from tests.models import als_reference as reference

DENSE = reference.matrix(400, 300, 8, seed=4)
OPTIONS: dict[str, Any] = {"factors": 8, "epochs": 6, "unobserved_weight": 0.01}


def bits(model: ALS) -> tuple[bytes, ...]:
    return model.user_factors.tobytes(), model.item_factors.tobytes(), model.loss_.tobytes()


def stop_after(steps: int) -> AbstractContextManager[None]:
    """Interrupt a fit in the middle of a half step."""
    calls = iter(range(steps))

    def stop() -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    return on("models.half_step", stop)


@pytest.mark.parametrize("steps", [0, 1, 4, 11])
@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_interrupted_fit_resumes(steps: int, solver: Any, dtype: Any, tmp_path: Path) -> None:
    options = {**OPTIONS, "solver": solver, "dtype": dtype}
    expected = ALS(**options).fit(DENSE)
    with stop_after(steps), pytest.raises(KeyboardInterrupt):
        ALS(**options, checkpoint=tmp_path).fit(DENSE)
    assert len(list(tmp_path.iterdir())) == (steps > 0)
    resumed = ALS(**options, checkpoint=tmp_path).fit(DENSE)
    assert bits(resumed) == bits(expected)


def test_more_epochs_continue_a_fit(tmp_path: Path) -> None:
    ALS(**{**OPTIONS, "epochs": 2}, checkpoint=tmp_path).fit(DENSE)
    expected = bits(ALS(**OPTIONS).fit(DENSE))
    assert bits(ALS(**OPTIONS, checkpoint=tmp_path).fit(DENSE)) == expected
    assert [folder.name for folder in tmp_path.iterdir()] == ["step-000012"]
    with observe("models.half_step") as steps:
        assert bits(ALS(**OPTIONS, checkpoint=tmp_path).fit(DENSE)) == expected
    assert steps == []  # a complete fit is not repeated
    with pytest.raises(InvalidValueError, match=r"epochs must be at least 6, .* got 4"):
        ALS(**{**OPTIONS, "epochs": 4}, checkpoint=tmp_path).fit(DENSE)


def test_killed_fit_resumes(tmp_path: Path) -> None:
    np.save(tmp_path / "links.npy", DENSE)
    script = (
        "import sys, numpy as np, sparrow as sp\n"
        "A = np.load(sys.argv[1] + '/links.npy')\n"
        "sp.models.ALS(factors=8, epochs=100_000, unobserved_weight=0.01, checkpoint=sys.argv[1] + '/check').fit(A)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, os.fspath(tmp_path)])
    try:
        while child.poll() is None and not list((tmp_path / "check").glob("step-*")):
            time.sleep(0.005)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == -signal.SIGKILL
    steps = [int(folder.name[5:]) for folder in (tmp_path / "check").glob("step-*")]
    assert 0 < max(steps) < 200_000
    epochs = max(steps) // 2 + 3
    options = {**OPTIONS, "epochs": epochs}
    assert bits(ALS(**options, checkpoint=tmp_path / "check").fit(DENSE)) == bits(ALS(**options).fit(DENSE))


@pytest.mark.parametrize("left", ["hidden", "both", "half"])
def test_incomplete_checkpoint_is_ignored(left: str, tmp_path: Path) -> None:
    ALS(**{**OPTIONS, "epochs": 2}, checkpoint=tmp_path).fit(DENSE)
    if left == "hidden":  # killed while writing
        (tmp_path / ".step-000005").mkdir()
        (tmp_path / ".step-000005" / "0.npy").write_bytes(b"half")
    if left == "both":  # killed before removing the old one
        (tmp_path / "step-000001").mkdir()
        (tmp_path / "step-000001" / "state.json").write_text((tmp_path / "step-000004" / "state.json").read_text())
    if left == "half":  # killed while removing the old one
        (tmp_path / "step-000003").mkdir()
        (tmp_path / "step-000003" / "0.npy").write_bytes(b"")
    assert bits(ALS(**OPTIONS, checkpoint=tmp_path).fit(DENSE)) == bits(ALS(**OPTIONS).fit(DENSE))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"factors": 9}, "factors"),
        ({"regularization": 0.3}, "regularization"),
        ({"seed": 1}, "seed"),
        ({"solver": "exact"}, "solver"),
        ({"cg_steps": 4}, "cg_steps"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({}, "data"),
    ],
)
def test_checkpoint_of_other_fit_is_rejected(change: dict[str, Any], name: str, tmp_path: Path) -> None:
    ALS(**OPTIONS, checkpoint=tmp_path).fit(DENSE)
    other = DENSE.copy()
    if not change:
        at = np.argwhere(DENSE)[0]
        other[tuple(at)] = 2
    with pytest.raises(InvalidValueError, match=f"different.* {name}"):
        ALS(**{**OPTIONS, **change}, checkpoint=tmp_path).fit(other)


def test_numpy_scalars_as_settings(tmp_path: Path) -> None:
    options = {**OPTIONS, "factors": np.int64(8), "regularization": np.float32(0.25), "seed": np.uint8(3)}
    first = bits(ALS(**options, checkpoint=tmp_path).fit(DENSE))
    same = {**OPTIONS, "regularization": 0.25, "seed": 3}
    assert bits(ALS(**same, checkpoint=tmp_path).fit(DENSE)) == first == bits(ALS(**same).fit(DENSE))


def test_checkpoint_metadata(tmp_path: Path) -> None:
    model = ALS(**OPTIONS, checkpoint=tmp_path).fit(DENSE)
    state = json.loads((tmp_path / "step-000012" / "state.json").read_text())
    assert [float.fromhex(loss) for loss in state["losses"]] == model.loss_.tolist()
    assert state["identity"]["factors"] == 8
    assert (np.load(tmp_path / "step-000012" / "1.npy") == model.item_factors).all()


@pytest.mark.parametrize("name", ["state.json", "0.npy", "1.npy"])
def test_damaged_checkpoint_error(name: str, tmp_path: Path) -> None:
    ALS(**OPTIONS, checkpoint=tmp_path).fit(DENSE)
    (damaged,) = tmp_path.glob(f"step-*/{name}")
    os.truncate(damaged, damaged.stat().st_size // 2)
    with pytest.raises(CorruptionError, match=r"step-000012.* remove it"):
        ALS(**OPTIONS, checkpoint=tmp_path).fit(DENSE)


def test_unwritable_folder_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write checkpoints"):
        ALS(**OPTIONS, checkpoint=tmp_path / "file").fit(DENSE)


@pytest.mark.usefixtures("ctrl_c")
def test_interrupt_long_fit(tmp_path: Path) -> None:
    script = (
        "import sys, sparrow as sp; from tests.models import als_reference as reference\n"
        "dense = reference.matrix(3000, 3000, 30, seed=6)\n"
        "with sp.config(threads=2):\n"
        "    sp.models.ALS(32, epochs=100_000, checkpoint=sys.argv[1]).fit(dense)\n"
    )
    root = Path(__file__).parent.parent.parent
    child = subprocess.Popen([sys.executable, "-c", script, os.fspath(tmp_path)], cwd=root, stderr=subprocess.PIPE)
    while child.poll() is None and not list(tmp_path.glob("step-*/state.json")):
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    output = child.communicate(timeout=60)[1]
    assert b"KeyboardInterrupt" in output
    assert child.returncode != 0
    assert (
        len(list(tmp_path.glob("step-*/state.json"))) < 10
    )  # of 100,000: the signal comes some steps after it is sent
