"""A folder of tensors that belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparrow import storage
from sparrow.errors import LabelError
from sparrow.tensor import Tensor

__all__ = ["Bundle"]


class Bundle(Mapping[str, Tensor]):
    r"""A folder of tensors, opened like a mapping: ``sp.open("a9a")["X"]``.

    Parameters
    ----------
    path
        The folder.
    members
        The folders of the tensors by their names.
    version
        The version to open each at, read-only; the newest by default.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("two.svm").write_text("1 3:0.5\n-1 1:2\n")
    >>> sp.ingest.libsvm("two.svm", "two.sparrow")
    <Bundle two.sparrow: X, y>
    >>> sp.open("two.sparrow")["y"].to_numpy()
    array([ 1., -1.])
    """

    def __init__(self, path: str, members: Mapping[str, str], version: int | None = None) -> None:
        self.path = path
        self._members = dict(members)
        self._version = version
        self._opened: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._members:
            raise LabelError(f"{self.path} has no tensor {name!r}: it holds {', '.join(self._members)}")
        if name not in self._opened:
            self._opened[name] = Tensor(storage.open(self._members[name], self._version))
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"<Bundle {self.path}: {', '.join(self._members)}>"
