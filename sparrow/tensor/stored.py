"""What tensors offer as files: save, versions, sort orders, upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from sparrow import engines, storage
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.index import check_permutation
from sparrow.tensor.writing import Writing

if TYPE_CHECKING:
    import os

__all__ = ["Stored"]


class Stored(Writing):
    """Tensors as files: to save one, and what a stored one has to offer."""

    __slots__ = ()

    def save(
        self,
        path: str | os.PathLike[str],
        orders: Sequence[Sequence[int]] = (),
        overwrite: bool = False,
        profile: Literal["fast", "small"] = "fast",
    ) -> Self:
        """Store the tensor, in one atomic step, and return the stored one.

        Parameters
        ----------
        path
            A folder that does not exist yet.
        orders
            Further sort orders to keep, such as ``[(1, 0)]`` for fast column slices.
        overwrite
            Replace a tensor or bundle that stands there.
        profile
            "fast" to read, or "small" on disk.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        """
        scan = self.__sparrow_scan__()
        handle = storage.save(
            path,
            replace(scan.schema, stype="coo"),
            engines.sorted_blocks(scan),
            profile=profile,
            overwrite=overwrite,
            labels=self._labelled(),
            orders=[check_permutation(order, self.ndim) for order in orders],
        )
        return type(self)(handle)

    def _stored(self) -> storage.StoredHandle:
        if not isinstance(self._handle, storage.StoredHandle):
            raise UnsupportedError("this tensor is not a stored one: save(path) it, or open the tensor it came from")
        return self._handle

    def refresh(self) -> None:
        """Take in the commits of other processes."""
        if self._handle is not None:
            self._handle.refresh()

    def history(self) -> list[dict[str, Any]]:
        """Return the versions, newest first: number, time, operation."""
        return self._stored().history()

    def add_order(self, order: Sequence[int]) -> None:
        """Keep the entries in a further sort order, such as ``(1, 0)`` for fast column slices."""
        self._stored().add_order(check_permutation(order, self._base.schema.ndim))

    def files(self, order: Sequence[int] | None = None) -> list[storage.FileRecord]:
        """Return the data files of the version: path, rows, bytes, first and last coordinate."""
        return self._stored().files(None if order is None else check_permutation(order, self._base.schema.ndim))

    def verify(self) -> list[storage.Finding]:
        """Return what is wrong with the files that this version references: an empty list when sound."""
        return self._stored().verify()

    def restore(self, version: int) -> None:
        """Make a new version whose entries and shape are those of an old one, in one atomic commit.

        No data is written: the files of the old version are still there, unless :meth:`vacuum` deleted them.

        Raises
        ------
        NotFoundError
            If there is no such version, or its files are gone.
        UnsupportedError
            If the tensor is in memory, which keeps no versions.
        ReadOnlyError
            If this is an opened version.
        """
        self._stored().restore(version)

    def compact(self, profile: Literal["fast", "small"] | None = None) -> None:
        """Rewrite small neighbouring files as full ones in one atomic commit; the entries stay as they are.

        Sort orders are rebuilt. In memory there is nothing to do.

        Parameters
        ----------
        profile
            "fast" to read or "small" on disk, for all files and later ones; by default they keep theirs.

        Raises
        ------
        InvalidValueError
            If there is no such profile.
        ReadOnlyError
            If this is an expression or an opened version.
        """
        if profile not in (None, "fast", "small"):
            raise InvalidValueError(f"profile={profile!r}: use 'fast' or 'small'")
        handle = self._writable()
        if isinstance(handle, storage.StoredHandle):
            handle.compact(profile)

    def vacuum(self, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
        """Delete files that no version younger than ``older_than`` uses, and return their paths.

        A horizon shorter than the longest write may take files that a live writer is about to commit.
        """
        return self._stored().vacuum(older_than, dry_run)
