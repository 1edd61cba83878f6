"""Checkpoints of a fit: a folder with all arrays after the last step.

``state.json``, written last, holds the SHA-256 of each file by name, and its own: damaged, cut, missing and swapped
files are found before a fit continues from them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import CorruptionError, InvalidValueError, StorageError
from sparrow.storage.fs.local import fsync_path

__all__ = ["Checkpoints"]

_STATE = "state.json"
_OWN_KEYS = ("identity", "number", "files")
"""Keys beside the metadata: settings and data of the fit, number of the step, and digest of each file by name."""
_CHECKSUM_KEY = "checksum"


class Checkpoints:
    """Checkpoint folder of one fit.

    Parameters
    ----------
    folder
        Path, created if missing.
    identity
        Settings and data of the fit, as JSON. A folder of another fit is rejected.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: dict[str, Any]) -> None:
        self._folder = Path(folder)
        self._identity = identity
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write checkpoints to {os.fspath(folder)!r}: {error.strerror}") from error

    def _list_steps(self) -> list[Path]:
        """Return the checkpoints, oldest first; all but the newest may be incomplete."""
        return sorted(self._folder.glob("step-*"), key=lambda step: (len(step.name), step.name))

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Fill arrays from the newest checkpoint and return its metadata, or {}.

        Raises
        ------
        InvalidValueError
            If the folder belongs to another fit.
        CorruptionError
            If a file of the checkpoint is missing, or differs from what was written.
        """
        steps = self._list_steps()
        if not steps:
            return {}
        state = self._read_state(steps[-1] / _STATE)
        theirs = state["identity"]
        differs = [name for name in {**self._identity, **theirs} if theirs.get(name) != self._identity.get(name)]
        if differs:
            raise InvalidValueError(
                f"checkpoint {os.fspath(self._folder)!r} belongs to a fit with different {', '.join(differs)}: pass "
                "another folder, or remove it"
            )
        for name, array in arrays.items():
            path = steps[-1] / f"{name}.npy"
            digest = state["files"].get(path.name)
            if digest is None:
                raise _damage_error(path, f"{_STATE} does not list it")
            _read_array(path, array, digest)
        return {name: value for name, value in state.items() if name not in (*_OWN_KEYS, _CHECKSUM_KEY)}

    def _read_state(self, path: Path) -> dict[str, Any]:
        """Return the verified state of a checkpoint."""
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise _damage_error(path, str(error) or type(error).__name__) from None
        if not isinstance(state, dict) or state.get(_CHECKSUM_KEY) != _checksum(state):
            raise _damage_error(path, "its checksum does not match")
        if path.parent.name != _step_name(state["number"]):
            raise _damage_error(path, f"it belongs to {_step_name(state['number'])}")
        return state

    def save(self, arrays: Mapping[str, NDArray[Any]], number: int, metadata: Mapping[str, Any]) -> None:
        """Write a checkpoint, then remove the previous one; one is complete at any time.

        Parameters
        ----------
        arrays
            Arrays by name.
        number
            Number of completed steps.
        metadata
            Stored as JSON.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        before = self._list_steps()
        target = self._folder / _step_name(number)
        hidden = self._folder / f".{target.name}"
        try:
            shutil.rmtree(hidden, ignore_errors=True)
            if target.exists():  # renamed first: a folder that is half removed would be taken for a damaged one
                target.rename(hidden)
                shutil.rmtree(hidden)
            hidden.mkdir()
            files = {}
            for name, array in arrays.items():
                with open(hidden / f"{name}.npy", "w+b") as file:
                    np.save(file, array)
                    file.flush()
                    os.fsync(file.fileno())
                    file.seek(0)
                    files[f"{name}.npy"] = hashlib.file_digest(file, "sha256").hexdigest()
            state: dict[str, Any] = {"identity": self._identity, "number": number, "files": files, **metadata}
            state[_CHECKSUM_KEY] = _checksum(state)
            with open(hidden / _STATE, "w", encoding="utf-8") as text:
                json.dump(state, text)
                text.flush()
                os.fsync(text.fileno())
            hidden.rename(target)
            fsync_path(self._folder)
        except OSError as error:
            raise StorageError(
                f"cannot write a checkpoint to {os.fspath(self._folder)!r}: {error.strerror or error}"
            ) from error
        for old in before:
            if old != target:
                shutil.rmtree(old, ignore_errors=True)


def _step_name(number: int) -> str:
    return f"step-{number:06d}"


def _checksum(state: Mapping[str, Any]) -> str:
    """Return the checksum of a state, itself left out."""
    rest = {key: value for key, value in state.items() if key != _CHECKSUM_KEY}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _damage_error(path: Path, problem: str) -> CorruptionError:
    step = os.fspath(path.parent)
    return CorruptionError(f"checkpoint {step!r} is damaged, remove it to start over: {path.name!r}, {problem}")


def _read_array(path: Path, array: NDArray[Any], digest: str) -> None:
    """Fill an array from a file, after comparing its digest."""
    try:
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise _damage_error(path, "its digest is not the one in state.json")
        found = np.load(path, mmap_mode="r" if array.size else None, allow_pickle=False)
    except (OSError, ValueError) as error:
        if isinstance(error, CorruptionError):
            raise
        raise _damage_error(path, str(error)) from None
    if (found.shape, found.dtype) != (array.shape, array.dtype):
        raise _damage_error(path, f"it must hold {array.dtype} of shape {array.shape}, got {found.dtype} {found.shape}")
    array[...] = found
