"""A folder of tensors that belong together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from sparrow import storage
from sparrow.errors import InvalidValueError, LabelError
from sparrow.interop.conversion import from_object
from sparrow.relations.base import MemoryHandle, MemoryRelation
from sparrow.tensor import Tensor

__all__ = ["Bundle"]


class Bundle(Mapping[str, Tensor]):
    r"""Tensors that belong together, by name: a folder, opened like a mapping, or what is to become one.

    ``sp.open("a9a")["X"]`` is a tensor of a bundle. One of tensors in hand can be stored by :meth:`save`, and given to
    :func:`sparrow.export`, which writes ``X`` and ``y`` as libsvm.

    Parameters
    ----------
    tensors
        Tensors by their names, or what :func:`sparrow.asarray` takes.

    Raises
    ------
    InvalidValueError
        If there are none.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("two.svm").write_text("1 3:0.5\n-1 1:2\n")
    >>> two = sp.ingest.libsvm("two.svm", "two.sparrow")
    >>> two
    <Bundle two.sparrow: X, y>
    >>> sp.open("two.sparrow")["y"].to_numpy()
    array([ 1., -1.])
    >>> halves = sp.Bundle({"X": two["X"] / 2, "y": two["y"]}).save("halves.sparrow")
    >>> sp.export(halves, "halves.svm", "libsvm"), Path("halves.svm").read_text().splitlines()
    (2, ['1 3:0.25', '-1 1:1'])
    """

    path: str | None
    """The folder, None where the tensors are in hand."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        if not hasattr(tensors, "keys") or not len(tensors):
            raise InvalidValueError("a bundle holds at least one tensor: give them by name, as in {'X': X, 'y': y}")
        self.path = None
        self._members: dict[str, str] = {}
        self._version: int | None = None
        self._opened = {name: _tensor(given) for name, given in tensors.items()}
        self._names = tuple(tensors)

    @classmethod
    def _stored(cls, path: str, members: Mapping[str, str], version: int | None = None) -> Self:
        """Return what a folder holds: the folders of the tensors by their names, each opened at a version."""
        bundle = cls.__new__(cls)
        bundle.path, bundle._members, bundle._version = path, dict(members), version
        bundle._opened, bundle._names = {}, tuple(members)
        return bundle

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise LabelError(f"{self.path or 'the bundle'} has no tensor {name!r}: it holds {', '.join(self._names)}")
        if name not in self._opened:
            self._opened[name] = Tensor(storage.open(self._members[name], self._version))
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Bundle {self.path or 'in hand'}: {', '.join(self._names)}>"

    def save(
        self,
        path: str | os.PathLike[str],
        overwrite: bool = False,
        profile: Literal["fast", "small"] = "fast",
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Store all tensors in one folder, in one atomic step, and return the stored bundle.

        Parameters
        ----------
        path
            A folder that does not exist yet.
        overwrite
            Replace a tensor or bundle that stands there.
        profile
            "fast" to read, or "small" on disk.
        storage_options
            Options of an object store, as :func:`sparrow.open` takes them.

        Returns
        -------
        Bundle

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        InvalidValueError
            If a name does not begin with a letter or digit, or holds a slash.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.Bundle({"X": sp.eye(2), "y": [1, -1]}).save("eye.sparrow")
        <Bundle eye.sparrow: X, y>
        """
        storage.check_member_names(self._names)
        with storage.stage_folder(path, overwrite, storage_options) as folder:
            for name in self:
                self[name].save(folder / name, profile=profile)
            storage.write_bundle(folder, dict.fromkeys(self))
        return type(self)._stored(os.fspath(path), storage.open_bundle(path))


def _tensor(given: Any) -> Tensor:
    return given if isinstance(given, Tensor) else Tensor(MemoryHandle(MemoryRelation(*from_object(given))))
