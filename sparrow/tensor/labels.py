"""Dimension names and labels of tensors: selection, renaming, setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from sparrow.core.label_types import check_labels
from sparrow.core.labels import label_position, label_positions, label_range
from sparrow.errors import LabelError, UnsupportedError
from sparrow.plan import Cast, axis_labels, make_map
from sparrow.relations.edits import Growth
from sparrow.relations.protocol import Relation
from sparrow.tensor.writing import WriteMethods

__all__ = ["LabelMethods"]


class LabelMethods(WriteMethods):
    """Selection by name and label, and changes of names and labels."""

    __slots__ = ()

    def sel(self, labels: Mapping[str, Any] | None = None, /, **by_name: Any) -> Any:
        r"""Return the view at labels: ``A.sel(src="example.org")``.

        Lists cross, and slices include their ends.

        Parameters
        ----------
        labels
            Labels by dimension name, for names that are not Python identifiers.
        **by_name
            Labels by dimension name. A single label drops the dimension; several keep it: a list, a NumPy or Arrow
            array such as :meth:`labels` returns, a Polars or pandas series, in the given order; a set, in the order of
            the dimension; or a slice from one label to another, inclusive, if the labels are ascending. Dates and times
            may be given as text.

        Returns
        -------
        Tensor
            A scalar if no dimension is left.

        Raises
        ------
        LabelError
            If a dimension or a label does not exist (the first missing labels are named), a label occurs more than once
            along the dimension, or a slice meets unsorted labels.
        UnsupportedError
            If ``labels`` is not a mapping.

        Examples
        --------
        >>> from pathlib import Path
        >>> import sparrow as sp
        >>> size = Path("ratings.csv").write_text("user,film,stars\nada,7,4.5\nbob,7,3\n")
        >>> ratings = sp.ingest.columns("ratings.csv", "ratings.sparrow", coords=["user", "film"], value="stars")
        >>> ratings.sel(user="ada").nnz, ratings.sel(user=["bob", "ada"])[:, 7].to_numpy()
        (1, array([3. , 4.5]))
        """
        wanted = _by_dimension(labels, by_name, "sel: labels must be given by dimension name, such as sel(row='a')")
        key: list[Any] = [slice(None)] * self.ndim
        for name, label in wanted.items():
            if name not in self.dims:
                raise LabelError(f"no dimension {name!r}: dimensions are {', '.join(map(repr, self.dims))}")
            axis = self.dims.index(name)
            names = self.labels(name)
            if isinstance(label, slice):
                key[axis] = label_range(names, label, name)
                continue
            one = isinstance(label, str | bytes | pa.Scalar) or not isinstance(label, Iterable)
            several = not one and getattr(label, "ndim", 1) > 0
            key[axis] = (label_positions if several else label_position)(names, label, name)
        tensor: Any = self
        return tensor.oindex[tuple(key)]

    def isel(self, indexers: Mapping[str, Any] | None = None, /, **by_name: Any) -> Any:
        """Return the view at positions along named dimensions: ``A.isel(src=5)``.

        Lists cross.

        Parameters
        ----------
        indexers
            Indices by dimension name, for names that are not Python identifiers.
        **by_name
            Indices by dimension name: integers, slices, lists, masks, which are matched by label if they are labelled
            tensors.

        Returns
        -------
        Tensor
            A scalar if no dimension is left.

        Raises
        ------
        LabelError
            If there is no dimension of such a name.
        IndexingError
            If a position is out of range.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 1], [1, 2]], [5, 6], dims=("user", "item"))
        >>> A.isel(item=slice(1, 3)).to_numpy().tolist(), A.isel(user=1, item=-1)
        ([[5, 0], [0, 6]], np.int64(6))
        """
        key: list[Any] = [slice(None)] * self.ndim
        wanted = _by_dimension(
            indexers, by_name, "isel: positions must be given by dimension name, such as isel(row=5)"
        )
        for name, item in wanted.items():
            key[self._axis(name)] = item
        tensor: Any = self
        return tensor.oindex[tuple(key)]

    def rename(self, names: Mapping[str, str] | None = None, /, **by_name: str) -> Self:
        """Return the tensor with renamed dimensions, lazily; labels stay.

        Operands are matched by given names, and this gives them: ``A.rename(src="src")``
        too, where a reader assigned the name. The other way round, ``A + A.T.rename(user="friend", friend="user")``
        adds a transpose by position, since its dimensions have the names of those that they are to meet.

        Parameters
        ----------
        names
            New names by old ones, for old names that are not Python identifiers.
        **by_name
            New names by old ones.

        Returns
        -------
        Tensor

        Raises
        ------
        LabelError
            If there is no dimension of such a name.
        InvalidValueError
            If a new name is not allowed, or two dimensions would share one.

        Examples
        --------
        >>> import sparrow as sp
        >>> knows = sp.from_coords([[0, 1], [1, 2]], [1, 1], shape=(3, 3), dims=("user", "friend"))
        >>> (knows + knows.T.rename(user="friend", friend="user")).nnz
        4
        """
        wanted = _by_dimension(names, by_name, "rename: new names must be given by old name, such as rename(d0='row')")
        scan = self.__sparrow_scan__()
        old = scan.schema
        for name in wanted:
            if name not in old.dims:
                raise LabelError(f"no dimension {name!r}: dimensions are {', '.join(map(repr, old.dims))}")
        schema = replace(old, dims=tuple(wanted.get(dim, dim) for dim in old.dims))
        if schema.dims == old.dims and list(map(type, schema.dims)) == list(map(type, old.dims)):
            return self
        return self._from_node(replace(make_map(Cast(old.dtype), [scan]), schema=schema).with_labels(axis_labels(scan)))

    def set_labels(self, dim: str | int | Sequence[str | int], labels: Any) -> None:
        """Set or remove the labels of a dimension in one atomic commit.

        Parameters
        ----------
        dim
            Dimension by name or number; several for one vocabulary that they share, and that grows for all of them.
        labels
            One distinct label per position: strings, integers or dates, as a list, a NumPy or an Arrow array. None
            removes them.

        Raises
        ------
        LabelError
            If there is no such dimension.
        ShapeError
            If the number of labels differs from the size.
        InvalidValueError
            If labels repeat, or one is null.
        UnsupportedError
            If their type is not supported, or this is a view.
        ReadOnlyError
            If the tensor is a copy, an expression or an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 1], [1, 0]], [2, 3], dims=["src", "dst"])
        >>> A.set_labels(["src", "dst"], ["ann", "bob"])
        >>> A.sel(src="bob", dst="ann")
        np.int64(3)
        >>> A.set_labels("dst", None)
        >>> A.labels("dst") is None
        True
        """
        handle = self._writable()
        if not self._view.is_identity:
            raise UnsupportedError(
                "set_labels: a view has no labels of its own: set those of the tensor it was taken from"
            )
        several = list(dim) if isinstance(dim, Iterable) and not isinstance(dim, str) else [dim]
        axes = [self._axis(one) for one in several]
        found = check_labels(labels, self.dims[axes[0]]) if axes and labels is not None else None

        def growth(relation: Relation) -> Growth:
            schema = relation.schema
            for axis in axes if found is not None else ():
                check_labels(found, schema.dims[axis], schema.shape[axis])
            return Growth(dict.fromkeys(axes, found), schema.shape, lambda: iter(()))

        handle.grow(growth, "set labels")


def _by_dimension(given: Any, by_name: dict[str, Any], expected: str) -> dict[str, Any]:
    """Return arguments by dimension, given as a mapping and as keywords."""
    if given is not None and not isinstance(given, Mapping):
        raise UnsupportedError(f"{expected}, got {given!r}")
    return {**(given or {}), **by_name}
