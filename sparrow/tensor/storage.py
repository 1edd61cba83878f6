"""Methods of stored tensors: save, versions, sort orders and maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from sparrow import engines, storage
from sparrow.core.indexing import check_permutation
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.runtime.validation import check_flag
from sparrow.tensor.base import read_labels
from sparrow.tensor.labels import LabelMethods
from sparrow.tensor.records import Files, History

if TYPE_CHECKING:
    import os

__all__ = ["StorageMethods"]


class StorageMethods(LabelMethods):
    """Saving a tensor, and the methods of stored ones."""

    __slots__ = ()

    def save(
        self,
        path: str | os.PathLike[str],
        orders: Sequence[Sequence[int | str]] = (),
        overwrite: bool = False,
        profile: Literal["fast", "small", "portable"] = "fast",
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Store the tensor in one atomic step and return the stored tensor.

        The storage type is kept.

        Parameters
        ----------
        path
            Folder to create, local or in an object store (``s3://bucket/name``).
        orders
            Further sort orders to keep, such as ``[(1, 0)]`` for fast column slices.
        overwrite
            Replace an existing tensor or bundle.
        profile
            "fast" to read, "small" on disk, or "portable" to older readers of Parquet.
        storage_options
            Options of an object store, see :func:`sparrow.open`.

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
            labels=read_labels(scan),
            orders=[check_permutation(self._axis_numbers(order), self.ndim) for order in self._check_orders(orders)],
            storage_options=storage_options,
            write_files=lambda folder: engines.write_files(scan, folder, profile),
            write_order=engines.write_order,
        )
        return type(self)(handle)

    def _check_orders(self, orders: Any) -> Sequence[Any]:
        """Check that orders are a sequence of orders, not a single one."""
        found = list(orders) if isinstance(orders, Iterable) else [orders]
        if not all(isinstance(order, Iterable) for order in found):
            raise ShapeError(f"orders must be a list of orders, such as [(1, 0)], got {orders!r}")
        return found

    def _stored_handle(self) -> storage.StoredHandle:
        if not isinstance(self._handle, storage.StoredHandle):
            raise UnsupportedError("this tensor is not stored: save(path) it, or open the tensor it came from")
        return self._handle

    def refresh(self) -> None:
        """Show the latest commits of other processes; does nothing in memory.

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

    def history(self) -> History:
        """Return the versions up to that of the tensor, newest first.

        Returns
        -------
        History
            A list of dictionaries that renders as a table; ``to_polars()`` makes a frame of it. For each version its
            ``version``, ``timestamp`` (UTC), ``operation`` and ``nonce``, the resulting ``nnz`` and ``shape``, and
            ``files_added`` and ``files_removed``. An ingest has a ``report`` too: how many elements it read, stored,
            merged and dropped, by name. A version whose entry is missing between others has the operation ``"missing
            from the log"``, and None for the rest.

        Raises
        ------
        UnsupportedError
            If the tensor is not stored.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("changed.sparrow")
        >>> A[0, 1] = 5
        >>> [(commit["version"], commit["nnz"]) for commit in A.history()]
        [(1, 4), (0, 3)]
        >>> A.history()
        version  timestamp            operation  nnz  shape  files
        -------  -------------------  ---------  ---  -----  -----
              1  ...  write        4  3 x 3  +1 -1
              0  ...  save         3  3 x 3  +1 -0
        """
        return History(self._stored_handle().history())

    def add_order(self, order: Sequence[int | str]) -> None:
        """Keep a copy in another sort order, such as ``(1, 0)`` for fast column slices.

        An order that exists and is stale is rebuilt. Sorts within the memory limit.

        Parameters
        ----------
        order
            Dimensions by number or name, the primary sort key first.

        Raises
        ------
        ShapeError
            If ``order`` does not name each dimension once.
        UnsupportedError
            If the tensor is not stored.
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
        wanted = check_permutation(self._axis_numbers(order), self._base.schema.ndim)
        self._stored_handle().add_order(wanted, engines.write_order)

    def files(self, order: Sequence[int | str] | None = None) -> Files:
        """Return the data files of the version.

        Parameters
        ----------
        order
            Sort order of the files, the order of the dimensions by default.

        Returns
        -------
        Files
            A list of records that renders as a table; ``to_polars()`` makes a frame of it. For each file its ``path``,
            ``rows`` and ``bytes``, and the coordinates of its ``first`` and ``last`` element.

        Raises
        ------
        ShapeError
            If ``order`` does not name each dimension once.
        UnsupportedError
            If the tensor is not stored.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("filed.sparrow")
        >>> [(file.rows, file.first, file.last) for file in A.files()]
        [(3, (0, 0), (2, 2))]
        """
        found = None if order is None else check_permutation(self._axis_numbers(order), self._base.schema.ndim)
        return Files(self._stored_handle().files(found))

    def verify(self) -> list[storage.Finding]:
        """Read every file of this version and return the defects found.

        Returns
        -------
        list of Finding
            For each the ``file`` and the ``problem``; empty if there is none.

        Raises
        ------
        UnsupportedError
            If the tensor is not stored.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.eye(3).save("sound.sparrow")
        >>> A.verify()
        []
        """
        return self._stored_handle().verify()

    def restore(self, version: int) -> None:
        """Commit a new version with the elements and the shape of an old one.

        No data is written: the files of the old version are referenced again, unless :meth:`vacuum` deleted them.

        Parameters
        ----------
        version
            Number of the old version.

        Raises
        ------
        NotFoundError
            If there is no such version, or its files were deleted.
        UnsupportedError
            If the tensor is in memory and has no versions.
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
        self._stored_handle().restore(version)

    def compact(self, profile: Literal["fast", "small", "portable"] | None = None) -> None:
        """Merge small files and append runs into full files in one atomic commit.

        Elements do not change; sort orders are rebuilt. Does nothing in memory.

        Parameters
        ----------
        profile
            "fast" to read, "small" on disk or "portable" to older readers of Parquet, for all files and later ones;
            unchanged by default.

        Raises
        ------
        InvalidValueError
            If the profile is unknown.
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
        if profile not in (None, "fast", "small", "portable"):
            raise InvalidValueError(f"profile must be 'fast', 'small' or 'portable', got {profile!r}")
        handle = self._writable()
        if isinstance(handle, storage.StoredHandle):
            handle.compact(profile, engines.write_order)

    def vacuum(self, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
        """Delete files that no version younger than ``older_than`` references.

        A horizon shorter than the longest write may delete files that a live writer is about to commit.

        Parameters
        ----------
        older_than
            The horizon: a duration, as a timedelta or in words.
        dry_run
            Only return the paths.

        Returns
        -------
        list of str
            Paths relative to the folder, sorted.

        Raises
        ------
        UnsupportedError
            If the tensor is not stored.
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
        return self._stored_handle().vacuum(older_than, check_flag("dry_run", dry_run))
