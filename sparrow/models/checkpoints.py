"""Fits that go on after a kill: a folder that holds all arrays as they were after some step."""

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

__all__ = ["Checkpoints"]

_STATE = "state.json"


class Checkpoints:
    """The folder of one fit.

    Parameters
    ----------
    folder
        Where it is. Made if it does not exist.
    identity
        What the fit is: settings and data. A folder of another fit is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: dict[str, Any]) -> None:
        self._folder = Path(folder)
        self._identity = identity
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write checkpoints to {os.fspath(folder)!r}: {error.strerror}") from error

    def _steps(self) -> list[Path]:
        """Return the complete checkpoints, the newest last."""
        return sorted(found.parent for found in self._folder.glob(f"step-*/{_STATE}"))

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Fill the arrays from the newest checkpoint; return what else was kept, nothing where there is none.

        Raises
        ------
        InvalidValueError
            If the folder is that of another fit.
        CorruptionError
            If the checkpoint cannot be read.
        """
        steps = self._steps()
        if not steps:
            return {}
        try:
            return self._read(steps[-1], arrays)
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            if isinstance(error, InvalidValueError):
                raise
            raise CorruptionError(
                f"the checkpoint in {os.fspath(steps[-1])!r} cannot be read ({error}): remove it to begin anew"
            ) from error

    def _read(self, step: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        state = json.loads((step / _STATE).read_text(encoding="utf-8"))
        theirs = state["identity"]
        differs = [name for name in {**self._identity, **theirs} if theirs.get(name) != self._identity.get(name)]
        if differs:
            raise InvalidValueError(
                f"the checkpoint in {os.fspath(self._folder)!r} is of a fit with other {', '.join(differs)}: name "
                "another folder, or remove this one"
            )
        for name, array in arrays.items():
            mode: Any = "r" if array.size else None
            array[...] = np.load(step / f"{name}.npy", mmap_mode=mode, allow_pickle=False)
        return {name: value for name, value in state.items() if name != "identity"}

    def save(self, arrays: Mapping[str, NDArray[Any]], number: int, rest: Mapping[str, Any]) -> None:
        """Write a checkpoint beside the one before and then remove that: one of them is complete at any moment.

        Parameters
        ----------
        arrays
            By name.
        number
            How many steps were made.
        rest
            What else to keep, as JSON.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        before = self._steps()
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
            state = {"identity": self._identity, **rest}
            with open(hidden / _STATE, "w", encoding="utf-8") as text:
                json.dump(state, text)
                text.flush()
                os.fsync(text.fileno())
            hidden.rename(target)
            _sync(self._folder)
        except OSError as error:
            raise StorageError(
                f"cannot write a checkpoint to {os.fspath(self._folder)!r}: {error.strerror or error}"
            ) from error
        for old in before:
            if old != target:
                shutil.rmtree(old, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
