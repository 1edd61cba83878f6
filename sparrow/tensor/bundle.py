"""Bundles: named tensors stored in one folder."""

from __future__ import annotations

import html as markup
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from sparrow import storage
from sparrow.errors import InvalidValueError, LabelError, SparrowError
from sparrow.interop.conversion import from_object
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.runtime.hints import HintedAttributes
from sparrow.tensor import Tensor, display

__all__ = ["Bundle"]


class Bundle(HintedAttributes, Mapping[str, Tensor]):
    r"""Named tensors that belong together: a stored folder, or a mapping.

    ``sp.open("a9a")["X"]`` is a tensor of a stored bundle. :meth:`save` stores a bundle in memory, and
    :func:`sparrow.export` writes one of ``X`` and ``y`` as libsvm.

    Parameters
    ----------
    tensors
        Tensors by name, or anything :func:`sparrow.asarray` accepts.

    Raises
    ------
    InvalidValueError
        If there is none.

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
    """The folder, or None for a bundle in memory."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        if not hasattr(tensors, "keys") or not len(tensors):
            raise InvalidValueError("a bundle requires at least one tensor by name, such as {'X': X, 'y': y}")
        self.path = None
        self._members: dict[str, str] = {}
        self._version: int | None = None
        self._opened = {name: _tensor(given) for name, given in tensors.items()}
        self._names = tuple(tensors)

    @classmethod
    def _from_folder(cls, path: str, members: Mapping[str, str], version: int | None = None) -> Self:
        """Return the bundle of a folder, its tensors opened at a version."""
        bundle = cls.__new__(cls)
        bundle.path, bundle._members, bundle._version = path, dict(members), version
        bundle._opened, bundle._names = {}, tuple(members)
        return bundle

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise LabelError(
                f"{self.path or 'the bundle'} has no tensor {name!r}: its tensors are {', '.join(self._names)}"
            )
        if name not in self._opened:
            self._opened[name] = Tensor(storage.open(self._members[name], self._version))
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Bundle {self.path or 'in memory'}: {', '.join(self._names)}>"

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names, which notebooks and IPython complete in ``bundle["``."""
        return list(self._names)

    def _repr_html_(self) -> str:
        """Return a table of the tensors; reads their logs only."""
        rows: list[tuple[Any, ...]] = []
        for name in self._names:
            try:
                tensor = self[name]
                size = display.human_bytes(tensor.nbytes) if tensor.version is not None else None
                nnz = tensor._known_nnz()
                density = None if nnz is None or not tensor.size else display.percent(nnz / tensor.size)
                shape = ", ".join(f"{dim}: {n:,}" for dim, n in zip(tensor.dims, tensor.shape, strict=True))
                rows.append((name, f"({shape})", str(tensor.dtype), None if nnz is None else f"{nnz:,}", density, size))
            except SparrowError as error:  # the others are shown
                rows.append((name, f"cannot be opened: {error}", *(None,) * 4))
        caption = f"<p>sparrow.Bundle, {markup.escape(self.path or 'in memory')}</p>"
        return caption + display.html_table(rows, ("tensor", "shape", "dtype", "stored", "density", "size"))

    def save(
        self,
        path: str | os.PathLike[str],
        overwrite: bool = False,
        profile: Literal["fast", "small", "portable"] = "fast",
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Store all tensors in one folder, in one atomic step.

        Parameters
        ----------
        path
            Folder to create.
        overwrite
            Replace an existing tensor or bundle.
        profile
            "fast" to read, "small" on disk, or "portable" to older readers of Parquet.
        storage_options
            Options of an object store, see :func:`sparrow.open`.

        Returns
        -------
        Bundle
            The stored bundle.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        InvalidValueError
            If a name does not begin with a letter or digit, or contains a slash.

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
        return type(self)._from_folder(os.fspath(path), storage.open_bundle(path))


def _tensor(given: Any) -> Tensor:
    return given if isinstance(given, Tensor) else Tensor(MemoryHandle(MemoryRelation(*from_object(given))))
