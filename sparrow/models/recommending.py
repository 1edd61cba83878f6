"""What models of factors offer once they are fitted: recommendations, similar items, factors as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.errors import IndexingError, InvalidValueError, LabelError, ShapeError
from sparrow.functions.creation import asarray
from sparrow.models import files
from sparrow.models.ranking import Columns, Factors, Pattern, best, pattern_of, patterns_by_block, ranked, rows_of_block
from sparrow.plan import axis_labels, positions_of_labels, reindex_axis
from sparrow.runtime import progress

if TYPE_CHECKING:
    import os

    from sparrow.tensor import Tensor

__all__ = ["Recommender", "with_items_of"]

_PAIRS = 1 << 16
"""Pairs that are scored together."""
_ROW_GROUP = 1 << 20
"""Rows of a row group of recommendations."""


class Recommender:
    """Recommendations of a model of factors, in which the score of a row and an item is their inner product.

    A model that derives from it has the factors below, ``fold_in`` and the tensor that it was fitted to.
    """

    if TYPE_CHECKING:

        @property
        def user_factors(self) -> Any:
            """Shape (rows, d)."""

        @property
        def item_factors(self) -> Any:
            """Shape (items, d)."""

        def fold_in(self, rows: Tensor) -> NDArray[np.float32]:
            """Return the factors of other rows, shape (m, d), from their links (m, items)."""

        _training: Tensor
        """What the model was fitted to, (rows, items)."""

    @property
    def _named_by(self) -> Tensor | None:
        """The tensor whose labels name rows and items: that of the fit, None of a model that kept none."""
        return getattr(self, "_training", None)

    def _factors(self) -> tuple[Factors, Factors]:
        """Return the factors of rows and of items, to read in pieces."""
        return self.user_factors, self.item_factors

    def _candidates(self) -> Factors:
        """Return the factors of items as they are ranked: NaN for those that are not to be recommended."""
        return self._factors()[1]

    _directions = slice(None)
    """The columns of the factors that say what an item is like."""

    def recommend(
        self, rows: Any, k: int = 10, exclude: Any = True, labels: bool | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the k best items of rows: those with the largest inner products of factors.

        Parameters
        ----------
        rows
            Row numbers of the training tensor, shape (m,), counted from 0, negative from the end; or labels of its
            rows, texts or dates; or the histories of other rows, which are folded in: a tensor (m, items), whose items
            are found by label where both have some, or an array of two dimensions.
        k
            How many.
        exclude
            True leaves out what the rows are linked with: in the training tensor, or in the histories given.
            False leaves out nothing. A tensor (m, items), or an array, leaves out its entries and nothing else.
        labels
            Whether ids are labels of items; by default where rows are given by labels, and items have some. True takes
            integers for labels of rows too, where these are integers.

        Returns
        -------
        ids : ndarray of int64, or of labels, shape (m, k)
            By descending score, the smaller id first where they are equal; -1, or None, where there are no more items.
        scores : ndarray of float32, shape (m, k)
            -inf where there is no item.

        Raises
        ------
        IndexingError
            If a row number is out of range.
        LabelError
            If no row has a label, or items have none.
        InvalidValueError
            If ``k`` is below 1 or ``exclude`` is none of these.
        ShapeError
            If histories or cells to leave out have another shape.
        TooLargeError
            If the result would pass the memory limit; :meth:`recommend_all` streams it.

        Notes
        -----
        A row without factors, all of them 0 as where it has no links, has no recommendations. Of a model with biases,
        it has those of the items' biases; items that nobody rated are not recommended. Scores are summed in
        float32. They are computed exactly for all items, so there is no item that the search could miss.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
        >>> model = sp.models.ALS(factors=2, unobserved_weight=0.1).fit(A)
        >>> ids, scores = model.recommend([2], k=1)
        >>> ids
        array([[1]])
        >>> model.recommend(sp.asarray([[0, 1, 0, 0]]), k=1)[0]
        array([[0]])
        >>> A.set_labels(0, ["ann", "bob", "dan", "eve", "zoe"])
        >>> A.set_labels(1, ["Alien", "Brazil", "Casablanca", "Dune"])
        >>> sp.models.ALS(factors=2, unobserved_weight=0.1).fit(A).recommend(["dan"], k=1)[0]
        array([['Brazil']], dtype=object)
        """
        users, items = self._factors()
        history = _matrix(rows)
        if history is not None:
            history = with_items_of(history, self._named_by)
            factors = self.fold_in(history)
        else:
            at = _positions(rows, users.shape[0], "row", self._named_by, labels)
            factors, history = users[at], self._training[at]
        left_out = _left_out(exclude, history, (len(factors), items.shape[0]), self._named_by)
        ids, scores = best(factors, self._candidates(), k, None if left_out is None else pattern_of(left_out))
        nothing = ~factors.any(axis=1)
        ids[nothing], scores[nothing] = -1, -np.inf
        return _named(ids, labels, _by_label(rows), self._named_by), scores

    def predict(self, rows: Any, items: Any, *, labels: bool = False) -> NDArray[np.float32]:
        """Return the scores of pairs of rows and items: the inner products of their factors.

        For a model of explicit ratings (``unobserved_weight=0``) these are the ratings that it expects.

        Parameters
        ----------
        rows, items
            Numbers or labels, as :meth:`recommend` takes rows, shape (m,) each: pair by pair. One of them may be a
            single one, for all of the other.
        labels
            Whether integers are labels, where these are integers. Texts and dates always are.

        Returns
        -------
        ndarray of float32, shape (m,)

        Raises
        ------
        IndexingError
            If a number is out of range.
        LabelError
            If nothing has a label.
        ShapeError
            If there are not as many rows as items.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray(np.outer([1.0, 2, 3, 4], [5.0, 4, 3, 2, 1]))
        >>> model = sp.models.ALS(factors=1, unobserved_weight=0, regularization=1e-4).fit(A)
        >>> model.predict([0, 3], [0, 4]).round(1)
        array([5., 4.], dtype=float32)
        >>> model.predict(0, [0, 1]).round(1)
        array([5., 4.], dtype=float32)
        """
        users, table = self._factors()
        given = [[one] if isinstance(one, str | bytes) or np.ndim(one) == 0 else one for one in (rows, items)]
        left = _positions(given[0], users.shape[0], "row", self._named_by, labels)
        right = _positions(given[1], table.shape[0], "item", self._named_by, labels)
        if len(left) != len(right) and 1 not in (len(left), len(right)):
            raise ShapeError(f"{len(left)} rows and {len(right)} items are no pairs: give as many of both, or one")
        left, right = np.broadcast_arrays(left, right)
        out = np.empty(len(left), np.float32)
        for start in range(0, len(left), _PAIRS):
            part = slice(start, start + _PAIRS)
            np.einsum("md,md->m", users[left[part]], table[right[part]], out=out[part], dtype=np.float32)
        return out

    def recommend_all(
        self,
        path: str | os.PathLike[str],
        k: int = 10,
        exclude: Any = True,
        overwrite: bool = False,
        labels: bool = False,
    ) -> None:
        """Write the k best items of every row to a Parquet file, in bounded memory.

        The columns are ``row`` and ``item``, counted from 0, ``rank``, counted from 1, and ``score``, sorted by row
        and rank. A row without factors is not in it, nor is one that is linked with every item.

        Parameters
        ----------
        path
            The file; it appears when it is complete.
        k
            How many items a row.
        exclude
            As of :meth:`recommend`; a tensor has the shape (rows, items).
        overwrite
            Replace what is there.
        labels
            Write labels of rows and items, where the training tensor has some.

        Raises
        ------
        ExistsError
            If there is something at ``path`` and ``overwrite`` is False, or another process is writing it.
        InvalidValueError, ShapeError
            As of :meth:`recommend`.
        StorageError
            If the file cannot be written.

        Examples
        --------
        >>> import duckdb, sparrow as sp
        >>> A = sp.asarray([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
        >>> model = sp.models.ALS(factors=2, unobserved_weight=0.1).fit(A)
        >>> model.recommend_all("best.parquet", k=2)
        >>> duckdb.sql("select row, item from 'best.parquet' where rank = 1 order by row").fetchall()
        [(0, 2), (1, 3), (2, 1), (3, 1), (4, 2)]
        """
        rows, items = self._factors()
        left_out = _left_out(exclude, self._training, (rows.shape[0], items.shape[0]), self._training)
        cuts = None if left_out is None else patterns_by_block(left_out, rows_of_block(k, items.shape[0]))
        names = {"row": self._training.labels(0), "item": self._training.labels(1)} if labels else {}
        _write_all(path, rows, self._candidates(), k, cuts, overwrite, names)

    def similar(self, items: Any, k: int = 10, labels: bool | None = None) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the k items whose factors point in the most similar direction, by the cosine.

        Parameters
        ----------
        items
            Item numbers, shape (m,), counted from 0, negative from the end, or labels of items; an item is not
            similar to itself. Or vectors of factors, float, shape (m, d).
        k
            How many.
        labels
            Whether ids are labels; by default where items are given by labels. True takes integers for labels of items
            too, where these are integers.

        Returns
        -------
        ids : ndarray of int64, or of labels, shape (m, k)
            By descending cosine, the smaller id first where they are equal; -1, or None, where there are no more
            items. Items whose factors are all 0 are similar to none.
        cosines : ndarray of float32, shape (m, k)
            -inf where there is no item.

        Raises
        ------
        IndexingError
            If an item number is out of range.
        LabelError
            If no item has a label.
        InvalidValueError
            If ``k`` is below 1.
        ShapeError
            If vectors have not d factors.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
        >>> model = sp.models.ALS(factors=4, epochs=8, regularization=0.01).fit(A)
        >>> model.similar([0, 3], k=1)[0]
        array([[1],
               [2]])
        """
        _, table = self._factors()
        directions = Columns(table, self._directions)
        given = np.asarray(items)
        if given.ndim == 2 and given.dtype.kind == "f":
            ids, cosines = best(given[:, self._directions], directions, k, cosine=True)
        else:
            at = _positions(items, table.shape[0], "item", self._named_by, labels)
            ids, cosines = best(directions[at], directions, k, Pattern(np.arange(len(at) + 1), at), cosine=True)
        return _named(ids, labels, _by_label(items), self._named_by), cosines

    def save_factors(
        self, path: str | os.PathLike[str], rows: Any = None, items: Any = None, labels: bool = False
    ) -> None:
        """Write the factors as two Parquet files, ``user_factors.parquet`` and ``item_factors.parquet``.

        Their columns are ``row`` or ``item``, int64 or labels, and ``factors``, lists of d numbers of type float32,
        which Arrow reads as a fixed-size list.

        Parameters
        ----------
        path
            A folder that does not exist yet; it appears with both files in it. One that does is never replaced, since
            what else it holds would be lost.
        rows, items
            What to write as the numbers of rows, shape (rows,), and of items, shape (items,): such as where they stood
            in the tensor that the training tensor is a part of. By default they are counted from 0.
        labels
            Write labels instead, where the training tensor has some.

        Raises
        ------
        ExistsError
            If there is something at ``path``.
        ShapeError
            If there are not as many numbers as factors.
        InvalidValueError
            If they are no integers.
        StorageError
            If the folder cannot be written.

        Examples
        --------
        What the row 2 would be recommended, in SQL:

        >>> import duckdb, sparrow as sp
        >>> A = sp.asarray([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
        >>> model = sp.models.ALS(factors=2, unobserved_weight=0.1).fit(A)
        >>> model.save_factors("factors")
        >>> duckdb.sql('''
        ...     select item
        ...     from 'factors/user_factors.parquet' as u, 'factors/item_factors.parquet' as i
        ...     where row = 2
        ...     order by array_inner_product(u.factors::float[2], i.factors::float[2]) desc, item
        ...     limit 2
        ... ''').fetchall()
        [(0,), (1,)]
        """
        files.check_absent(path, "choose another folder")
        user_factors, item_factors = self._factors()
        if labels:
            rows = self._training.labels(0) if rows is None else rows
            items = self._training.labels(1) if items is None else items
        with storage.stage_folder(path) as made:
            folder = files.local(made)
            files.write_factors(folder / "user_factors.parquet", "row", user_factors, rows)
            files.write_factors(folder / "item_factors.parquet", "item", item_factors, items)


def _write_all(
    path: str | os.PathLike[str],
    rows: Factors,
    items: Factors,
    k: int,
    cuts: Iterable[Pattern] | None,
    overwrite: bool,
    names: Mapping[str, pa.Array | None],
) -> None:
    """Write the k best items of all rows to a Parquet file."""
    waiting: list[pa.Table] = []
    first = 0
    with (
        files.writing(Path(path), overwrite, names) as writer,
        progress.bar("recommending", rows.shape[0], "rows") as advance,
    ):
        for ids, scores in ranked(rows, items, k, cuts):
            ids[~np.asarray(rows[first : first + len(ids)]).any(axis=1)] = -1
            waiting.append(files.ranking_table(first, ids, scores, names))
            first += len(ids)
            if sum(map(len, waiting)) >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
            advance(len(ids))
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def _matrix(given: Any) -> Tensor | None:
    """Return what has two dimensions as a tensor, and None for anything else."""
    return asarray(given) if getattr(given, "ndim", None) == 2 else None


def with_items_of(history: Tensor, training: Tensor | None) -> Tensor:
    """Return histories with the items of the training tensor, found by label where both have some.

    Items that the model does not know have no factors, and are left out.
    """
    wanted = None if training is None else axis_labels(training.__sparrow_scan__()).get(1)
    scan = history.__sparrow_scan__()
    mine = axis_labels(scan).get(1)
    if wanted is None or mine is None or mine.equals(wanted):
        return history
    scan = reindex_axis(scan, 1, positions_of_labels(wanted.array(), mine.array()))
    return type(history)(scan.source, scan.view)


def _by_label(given: Any) -> bool:
    """Return whether rows or items are given by label: numbers are positions."""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return not pa.types.is_integer(given.type)
    return getattr(given, "ndim", 1) == 1 and np.asarray(given).dtype.kind in "UOMT"


def _named(ids: NDArray[np.int64], labels: bool | None, usual: bool, training: Tensor | None) -> NDArray[Any]:
    """Return ids of items, or their labels: those of -1 are None."""
    if labels is False or (labels is None and not usual):
        return ids
    names = None if training is None else training.labels(1)
    if names is None:
        if labels is None:
            return ids
        raise LabelError("the items of the training tensor have no labels")
    flat = ids.reshape(-1)
    found = names.take(pa.array(flat, mask=flat < 0)).to_pylist()
    out = np.empty(len(found), object)
    out[:] = found
    return out.reshape(ids.shape)


def _positions(
    numbers: Any, size: int, what: str, training: Tensor | None, labels: bool | None = None
) -> NDArray[np.int64]:
    """Return row or item numbers, counted from 0; integers are labels where these are, and it is said.

    Raises
    ------
    IndexingError
        If they are no integers or labels, no list, or out of range.
    LabelError
        If nothing has a label.
    """
    if isinstance(numbers, str | bytes):
        raise IndexingError(f"{what}s come as a list: say [{numbers!r}]")
    if training is not None and (labels or _by_label(numbers)) and len(numbers):
        names = training.labels(0 if what == "row" else 1)
        if names is not None and (_by_label(numbers) or pa.types.is_integer(names.type)):
            places = positions_of_labels(numbers if isinstance(numbers, pa.Array) else pa.array(list(numbers)), names)
            if places.min() < 0:
                raise LabelError(f"no {what} of the training tensor has the label {numbers[int(places.argmin())]!r}")
            return places
    given = np.asarray(numbers)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
        raise IndexingError(
            f"say {what} numbers as a list of integers, or labels where the training tensor has some, "
            f"or give a tensor or an array of two dimensions; this is "
            f"{given.dtype} of shape {given.shape}"
        )
    at = given.astype(np.int64)
    at = np.where(at < 0, at + size, at)
    wrong = (at < 0) | (at >= size)
    if wrong.any():
        raise IndexingError(f"{what} {given[wrong][0]} is out of range: there are {size}")
    return at


def _left_out(exclude: Any, history: Tensor, shape: tuple[int, int], training: Tensor | None) -> Tensor | None:
    """Return the cells to leave out, of the given shape (rows, items), or None."""
    if exclude is False:
        return None
    cells = history if exclude is True else _matrix(exclude)
    if cells is None:
        raise InvalidValueError(
            f"exclude is {type(exclude).__name__}: say True to leave out the history, False, or give a tensor or an "
            "array of two dimensions"
        )
    cells = with_items_of(cells, training)
    if cells.shape != shape:
        raise ShapeError(f"the cells to leave out have the shape {cells.shape} and the scores {shape}")
    return cells
