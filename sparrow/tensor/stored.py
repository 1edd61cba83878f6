"""What tensors offer as files: save, versions, sort orders, upkeep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from sparrow import engines, storage
from sparrow.core.indexing import check_permutation
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.runtime.validation import check_flag
from sparrow.tensor.base import labelled
from sparrow.tensor.naming import Naming

if TYPE_CHECKING:
    import os

__all__ = ["Stored"]


class Stored(Naming):
    """Tensors as files: to save one, and what a stored one has to offer."""

    __slots__ = ()

    def save(
        self,
        path: str | os.PathLike[str],
        orders: Sequence[Sequence[int | str]] = (),
        overwrite: bool = False,
        profile: Literal["fast", "small"] = "fast",
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Store the tensor, in one atomic step, and return the stored one, which keeps the storage type.

        Parameters
        ----------
        path
            A folder that does not exist yet, of this machine or of an object store (``s3://bucket/name``).
        orders
            Further sort orders to keep, such as ``[(1, 0)]`` for fast column slices.
        overwrite
            Replace a tensor or bundle that stands there.
        profile
            "fast" to read, or "small" on disk.
        storage_options
            Options of an object store, as :func:`sparrow.open` takes them.

        Returns
        -------
        Tensor

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        ShapeError
            If an order does not name each dimension once.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("eye.sparrow", orders=[(1, 0)])
        >>> A.version, sp.open("eye.sparrow").nnz
        (0, 3)
        """
        scan = self.__sparrow_scan__()
        handle = storage.save(
            path,
            scan.schema,
            engines.iter_sorted_blocks(scan),
            profile=profile,
            overwrite=overwrite,
            labels=labelled(scan),
            orders=[check_permutation(self._numbers(order), self.ndim) for order in self._listed(orders)],
            storage_options=storage_options,
        )
        return type(self)(handle)

    def _listed(self, orders: Any) -> Sequence[Any]:
        """Return orders as a list, which one by itself is not."""
        found = list(orders) if isinstance(orders, Iterable) else [orders]
        if not all(isinstance(order, Iterable) for order in found):
            raise ShapeError(f"orders={orders!r}: give a list of orders, such as [(1, 0)]")
        return found

    def _stored(self) -> storage.StoredHandle:
        if not isinstance(self._handle, storage.StoredHandle):
            raise UnsupportedError("this tensor is not a stored one: save(path) it, or open the tensor it came from")
        return self._handle

    def refresh(self) -> None:
        """Take in the commits of other processes; in memory there is nothing to do.

        Raises
        ------
        ConflictError
            If another tensor was saved over this one.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("shared.sparrow")
        >>> sp.open("shared.sparrow")[0, 1] = 5
        >>> A.refresh()
        >>> A.nnz
        4
        """
        if self._handle is not None:
            self._handle.refresh()

    def history(self) -> list[dict[str, Any]]:
        """Return the versions, newest first, up to that of the tensor.

        Returns
        -------
        list of dict
            Of each ``version``, ``timestamp`` (UTC), ``operation``, ``nonce``, ``nnz`` and ``shape`` after it,
            ``files_added`` and ``files_removed``.

        Raises
        ------
        UnsupportedError
            If the tensor is not a stored one.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("told.sparrow")
        >>> A[0, 1] = 5
        >>> [(commit["version"], commit["nnz"]) for commit in A.history()]
        [(1, 4), (0, 3)]
        """
        return self._stored().history()

    def add_order(self, order: Sequence[int | str]) -> None:
        """Keep the entries in a further sort order, such as ``(1, 0)`` for fast column slices.

        An order that is there and stale is built anew. Sorts under the memory limit.

        Parameters
        ----------
        order
            The dimensions, by number or name, that to sort by first in front.

        Raises
        ------
        ShapeError
            If ``order`` does not name each dimension once.
        UnsupportedError
            If the tensor is not a stored one.
        ReadOnlyError
            If this is an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("ordered.sparrow")
        >>> A.add_order((1, 0))
        >>> A.files(order=(1, 0))[0].rows
        3
        """
        self._stored().add_order(check_permutation(self._numbers(order), self._base.schema.ndim))

    def files(self, order: Sequence[int | str] | None = None) -> list[storage.FileRecord]:
        """Return the data files of the version.

        Parameters
        ----------
        order
            Of which sort order; that of the dimensions by default.

        Returns
        -------
        list of FileRecord
            Of each ``path``, ``rows``, ``bytes``, and the coordinates of its ``first`` and ``last`` entry.

        Raises
        ------
        ShapeError
            If ``order`` does not name each dimension once.
        UnsupportedError
            If the tensor is not a stored one.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("filed.sparrow")
        >>> [(file.rows, file.first, file.last) for file in A.files()]
        [(3, (0, 0), (2, 2))]
        """
        return self._stored().files(
            None if order is None else check_permutation(self._numbers(order), self._base.schema.ndim)
        )

    def verify(self) -> list[storage.Finding]:
        """Read every file that this version references, and return what is wrong.

        Returns
        -------
        list of Finding
            Of each the ``file`` and the ``problem``; empty when all is sound.

        Raises
        ------
        UnsupportedError
            If the tensor is not a stored one.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("sound.sparrow")
        >>> A.verify()
        []
        """
        return self._stored().verify()

    def restore(self, version: int) -> None:
        """Make a new version whose entries and shape are those of an old one, in one atomic commit.

        No data is written: the files of the old version are still there, unless :meth:`vacuum` deleted them.

        Parameters
        ----------
        version
            The number of the old one.

        Raises
        ------
        NotFoundError
            If there is no such version, or its files are gone.
        UnsupportedError
            If the tensor is in memory, which keeps no versions.
        ReadOnlyError
            If this is an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("undone.sparrow")
        >>> A[0] = 7
        >>> A.restore(0)
        >>> A.nnz, A.version
        (3, 2)
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

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("compacted.sparrow")
        >>> A.compact("small")
        >>> A.nnz, len(A.files())
        (3, 1)
        """
        if profile not in (None, "fast", "small"):
            raise InvalidValueError(f"profile={profile!r}: use 'fast' or 'small'")
        handle = self._writable()
        if isinstance(handle, storage.StoredHandle):
            handle.compact(profile)

    def vacuum(self, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
        """Delete files that no version younger than ``older_than`` uses, and return their paths.

        A horizon shorter than the longest write may take files that a live writer is about to commit.

        Parameters
        ----------
        older_than
            The horizon: a length of time, or one in words.
        dry_run
            Only say what would go.

        Returns
        -------
        list of str
            Paths relative to the folder, sorted.

        Raises
        ------
        UnsupportedError
            If the tensor is not a stored one.
        ReadOnlyError
            If this is an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("cleaned.sparrow")
        >>> A[0] = 7
        >>> A.vacuum()
        []
        """
        return self._stored().vacuum(older_than, check_flag("dry_run", dry_run))
