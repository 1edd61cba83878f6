"""Checkpoints of a fit: a folder with all arrays after the last step."""

from __future__ import annotations

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
        """Return the complete checkpoints, oldest first."""
        return sorted(state.parent for state in self._folder.glob(f"step-*/{_STATE}"))

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Fill arrays from the newest checkpoint and return its metadata, or {}.

        Raises
        ------
        InvalidValueError
            If the folder belongs to another fit.
        CorruptionError
            If the checkpoint cannot be read.
        """
        steps = self._list_steps()
        if not steps:
            return {}
        try:
            return self._read(steps[-1], arrays)
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            if isinstance(error, InvalidValueError):
                raise
            raise CorruptionError(
                f"checkpoint {os.fspath(steps[-1])!r} cannot be read ({error}): remove it to start over"
            ) from error

    def _read(self, step: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        state = json.loads((step / _STATE).read_text(encoding="utf-8"))
        theirs = state["identity"]
        differs = [name for name in {**self._identity, **theirs} if theirs.get(name) != self._identity.get(name)]
        if differs:
            raise InvalidValueError(
                f"checkpoint {os.fspath(self._folder)!r} belongs to a fit with different {', '.join(differs)}: pass "
                "another folder, or remove it"
            )
        for name, array in arrays.items():
            mode: Any = "r" if array.size else None
            array[...] = np.load(step / f"{name}.npy", mmap_mode=mode, allow_pickle=False)
        return {name: value for name, value in state.items() if name != "identity"}

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
        target = self._folder / f"step-{number:06d}"
        hidden = self._folder / f".step-{number:06d}"
        try:
            for old in (hidden, target):
                shutil.rmtree(old, ignore_errors=True)
            hidden.mkdir()
            for name, array in arrays.items():
                with open(hidden / f"{name}.npy", "wb") as file:
                    np.save(file, array)
                    file.flush()
                    os.fsync(file.fileno())
            state = {"identity": self._identity, **metadata}
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
