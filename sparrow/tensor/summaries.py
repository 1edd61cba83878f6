"""Summaries of tensors as frames: some elements, counts, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.indexing import View
from sparrow.core.schema import as_integer, check_array
from sparrow.errors import InvalidValueError, NumberRangeError, UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import Cast, Scan, Where, axis_labels, make_map, make_reduce, make_topk, normalize_axis
from sparrow.relations.arrow import arrow_table, labelled_table
from sparrow.runtime.validation import check_choice, check_flag, check_integer
from sparrow.tensor.base import Base, read_labels

if TYPE_CHECKING:
    import polars

__all__ = ["SummaryMethods"]

_STATISTICS = ("count", "density", "mean", "std", "min", "max", "sum")


class SummaryMethods(Base):
    """A few elements or statistics of a tensor, as Polars frames with labels."""

    __slots__ = ()

    def head(self, n: int = 5) -> polars.DataFrame:
        """Return the first stored elements in the order of their coordinates.

        Of a stored tensor only the row groups that contain them are read, unless this is a view, such as a transpose,
        whose order none of its sort orders has: then one scan selects them. Of an expression only the partitions that
        contain them are computed.

        Parameters
        ----------
        n
            Number of elements, at most.

        Returns
        -------
        polars.DataFrame
            A column for each dimension, with labels where it has some, then ``value``.

        Raises
        ------
        InvalidValueError
            If ``n`` is negative.
        TooLargeError
            If the elements would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords(
        ...     [[0, 1, 1], [2, 0, 1]], [4, 5, 3], dims=["user", "film"], labels={"user": ["ann", "bob"]}
        ... )
        >>> A.head(2).rows()
        [('ann', 2, 4), ('bob', 0, 5)]
        """
        scan = self._unrepeated_scan()
        return _to_frame(scan, engines.first_elements(scan, _count("n", n)))

    def tail(self, n: int = 5) -> polars.DataFrame:
        """Return the last stored elements in the order of their coordinates.

        Parameters
        ----------
        n
            Number of elements, at most.

        Returns
        -------
        polars.DataFrame
            A column for each dimension, then ``value``; the order is still ascending.

        Raises
        ------
        InvalidValueError
            If ``n`` is negative.
        TooLargeError
            If the elements would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(1000).tail(2).rows()
        [(998, 998, 1.0), (999, 999, 1.0)]
        """
        scan = self._unrepeated_scan()
        return _to_frame(scan, engines.first_elements(scan, _count("n", n), last=True))

    def sample(self, n: int = 5, seed: int | None = None) -> polars.DataFrame:
        """Return stored elements chosen at random, without repeats.

        Each is equally likely. A seed selects the same elements wherever they are stored, for any number of threads.

        Parameters
        ----------
        n
            Number of elements, at most.
        seed
            Seed of the choice; a new one each time by default.

        Returns
        -------
        polars.DataFrame
            A column for each dimension, then ``value``, in the order of coordinates.

        Raises
        ------
        InvalidValueError
            If ``n`` or ``seed`` is negative.
        TooLargeError
            If the elements would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.random((1000, 1000), density=0.01, seed=0)
        >>> A.sample(3, seed=1).height, A.sample(3, seed=1).equals(A.sample(3, seed=1))
        (3, True)
        """
        scan = self._unrepeated_scan()
        rng = np.random.default_rng(None if seed is None else _count("seed", seed))
        return _to_frame(scan, engines.sample_elements(scan, _count("n", n), rng))

    def _unrepeated_scan(self) -> Scan:
        """Return the scan, or one of a node if broadcasting repeats elements.

        A chunk of a broadcast view has all repeats of its elements, which may exceed memory; a node repeats them by
        partition.
        """
        scan = self.__sparrow_scan__()
        if scan.view.repeats <= 1:
            return scan
        node = make_map(Cast(scan.schema.dtype), [scan]).with_labels(axis_labels(scan))
        return Scan(node, View.identity(scan.schema.shape), node.schema)

    @overload
    def topk(self, k: int, axis: None = None, largest: bool = True) -> polars.DataFrame: ...
    @overload
    def topk(self, k: int, axis: int | str, largest: bool = True) -> Self: ...
    def topk(self, k: int, axis: int | str | None = None, largest: bool = True) -> polars.DataFrame | Self:
        """Return the largest stored elements of the tensor, or of each line.

        Of equal values those at the lowest coordinates are taken; NaN only where nothing else is left. Absent elements
        are not among them, whatever the fill value.

        Parameters
        ----------
        k
            Number of elements, at most.
        axis
            Axis of the lines, such as 1 for the largest of each row; by default all elements are compared.
        largest
            False for the smallest.

        Returns
        -------
        polars.DataFrame or Tensor
            Without an axis a frame, the best first: a column for each dimension, then ``value``. One scan selects them.
            With an axis a lazy tensor of the same shape, labels and fill value that keeps the best of each line.

        Raises
        ------
        InvalidValueError
            If ``k`` is negative.
        ShapeError
            If there is no such axis.
        UnsupportedError
            If the values are complex, which have no order.
        TooLargeError
            If the elements would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 0, 1, 1], [0, 2, 0, 1]], [4, 9, 5, 3], dims=["user", "film"])
        >>> A.topk(2).rows()
        [(0, 2, 9), (1, 0, 5)]
        >>> A.topk(1, axis="film").to_numpy()
        array([[0, 0, 9],
               [5, 0, 0]])
        """
        if self.dtype.kind == "c":
            raise UnsupportedError(f"topk requires a real dtype, got {self.dtype}: take abs(A), A.real or A.imag")
        count, largest = _count("k", k), check_flag("largest", largest)
        if axis is None:
            scan = self._unrepeated_scan()
            return _to_frame(scan, engines.best_elements(scan, count, largest))
        along, last = normalize_axis(axis, self.ndim, self.dims), self.ndim - 1
        order = [k for k in range(self.ndim) if k != along] + [along]
        tensor: Any = self
        moved = tensor if along == last else tensor.transpose(*order)
        found = self._from_node(make_topk(moved.__sparrow_scan__(), count, largest))
        return found if along == last else found.transpose(*np.argsort(order).tolist())  # type: ignore[attr-defined]

    def value_counts(self, where: Literal["all", "stored"] = "stored") -> polars.DataFrame:
        """Return the number of occurrences of each value, the most frequent first.

        Parameters
        ----------
        where
            ``"stored"`` counts stored elements; ``"all"`` absent ones too, whose value is the fill value.

        Returns
        -------
        polars.DataFrame
            Columns ``value`` and ``count``; equal counts by ascending value, NaN last. Complex values have a column
            ``value_im`` too.

        Raises
        ------
        InvalidValueError
            If ``where`` is another word.
        NumberRangeError
            If there are 2^63 absent elements or more.
        TooLargeError
            If the distinct values exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[4, 0, 5], [0, 4, 0]])
        >>> A.value_counts().rows(), A.value_counts(where="all").rows()
        ([(4, 2), (5, 1)], [(0, 3), (4, 2), (5, 1)])
        """
        check_choice("where", where, ("all", "stored"))
        scan = self._unrepeated_scan()
        values, counts = engines.count_values(scan)
        absent = self._count_absent(int(counts.sum())) if where == "all" else 0
        if absent:
            fill = np.asarray([self.fill_value], values.dtype)
            values, counts = np.append(values, fill), np.append(counts, absent)
            ascending = np.argsort(values, kind="stable")
            values, counts = values[ascending], counts[ascending]
        order = np.argsort(-counts, kind="stable")
        schema = type(scan.schema)((), (), values.dtype, 0)
        table = arrow_table(schema, Block((), values[order]))
        frame = _from_arrow(table)
        return frame.with_columns(count=counts[order])

    def _count_absent(self, stored: int) -> int:
        absent = self.size - stored
        if absent > np.iinfo(np.int64).max:
            raise NumberRangeError(
                f"{absent} absent elements of shape {self.shape} exceed the largest count, 2^63 - 1: pass "
                "where='stored', or take a smaller view"
            )
        return absent

    def hist(self, bins: int | Sequence[float] = 10, where: Literal["all", "stored"] = "stored") -> polars.DataFrame:
        """Return a histogram of the values, as :func:`numpy.histogram` counts them.

        NaN and infinite values are in no bin.

        Parameters
        ----------
        bins
            Number of bins of equal width from the smallest to the largest finite value, which takes a scan of its own;
            or their edges, ascending.
        where
            ``"stored"`` counts stored elements; ``"all"`` absent ones too, whose value is the fill value.

        Returns
        -------
        polars.DataFrame
            Columns ``left``, ``right`` and ``count``. Bins are half-open, ``left <= value < right``, except for the
            last one, which includes its right edge.

        Raises
        ------
        InvalidValueError
            If ``bins`` is neither a positive number nor ascending edges, or ``where`` is another word.
        NumberRangeError
            If there are 2^63 absent elements or more.
        UnsupportedError
            If the values are complex.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 0, 2], [0, 4, 4]]).hist(3).rows()
        [(1.0, 2.0, 1), (2.0, 3.0, 1), (3.0, 4.0, 2)]
        >>> sp.asarray([[1, 0, 2], [0, 4, 4]]).hist([0, 2, 4], where="all")["count"].to_list()
        [3, 3]
        """
        import polars

        if self.dtype.kind == "c":
            raise UnsupportedError(f"hist requires a real dtype, got {self.dtype}: take abs(A), A.real or A.imag")
        check_choice("where", where, ("all", "stored"))
        scan = self._unrepeated_scan()
        absent = self._count_absent(engines.count_nnz(scan)) if where == "all" else 0
        edges = self._bin_edges(scan, bins, absent > 0)
        counts = engines.histogram(scan, edges)
        if absent and np.isfinite(self.fill_value):
            counts += absent * np.histogram(np.asarray([self.fill_value], np.float64), edges)[0]
        return polars.DataFrame({"left": edges[:-1], "right": edges[1:], "count": counts})

    def _bin_edges(self, scan: Scan, bins: Any, has_absent: bool) -> NDArray[Any]:
        """Return the edges of bins, shape (bins + 1,)."""
        if np.ndim(bins):
            edges = check_array(bins, "bins")
            if edges.ndim != 1 or len(edges) < 2 or edges.dtype.kind not in "iuf" or not (np.diff(edges) >= 0).all():
                raise InvalidValueError(f"bins must be a number of bins, or at least two ascending edges, got {bins!r}")
            return edges
        count = as_integer(bins, "bins")
        if count < 1:
            raise InvalidValueError(f"bins must be at least 1, got {bins!r}")
        found = engines.value_range(scan)
        ends = [] if found is None else [float(end) for end in found]
        if has_absent and np.isfinite(self.fill_value):
            ends.append(float(self.fill_value))
        return np.histogram_bin_edges(np.array([min(ends), max(ends)] if ends else []), count)

    def describe(self) -> polars.DataFrame:
        """Return statistics of all elements and of the stored ones, in one scan.

        Returns
        -------
        polars.DataFrame
            Columns ``statistic``, ``all`` and ``stored``, with the rows count, density, mean, std, min, max and sum.
            Numbers are float64, those of complex tensors text; null stands for statistics of no elements.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.describe().rows_by_key("statistic", unique=True)["mean"]
        (1.1666666666666667, 3.5)
        """
        import polars

        scan = self._unrepeated_scan()
        size, is_complex = scan.schema.size, self.dtype.kind == "c"
        places: tuple[Where, Where] = ("all", "stored")
        names = [
            (name, where)
            for where in places
            for name in _STATISTICS
            if name not in ("count", "density") and (size or name == "sum")
        ]
        nodes = [make_reduce(scan, "count"), *(make_reduce(scan, name, where=where) for name, where in names)]
        nnz, *results = engines.reduce_all(nodes)
        found: dict[tuple[str, str], Any] = dict(zip(names, results, strict=True))
        found["count", "all"], found["count", "stored"] = size, nnz
        if size:
            found["density", "all"] = nnz / size
        if not nnz:
            found = {key: value for key, value in found.items() if key[1] == "all" or key[0] in ("count", "sum")}

        def column(where: str) -> list[Any]:
            values = [found.get((name, where)) for name in _STATISTICS]
            convert: Any = (lambda value: str(getattr(value, "item", lambda: value)())) if is_complex else float
            return [None if value is None else convert(value) for value in values]

        kind = polars.String if is_complex else polars.Float64
        columns: dict[str, Any] = {"statistic": _STATISTICS}
        columns |= {where: polars.Series(column(where), dtype=kind) for where in places}
        return polars.DataFrame(columns)


def _count(name: str, value: Any) -> int:
    """Return a parameter that is an integer of at least 0."""
    check_integer(name, value, 0)
    return int(value)


def _to_frame(scan: Scan, block: Block) -> polars.DataFrame:
    """Return elements as a frame with labels in place of coordinates."""
    return _from_arrow(labelled_table(scan.schema, block, read_labels(scan)))


def _from_arrow(table: Any) -> polars.DataFrame:
    import polars

    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame
