"""Recommendations, similar items and exported factors of factor models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.labels import check_found_once, describe_mismatch, find_labels
from sparrow.core.schema import check_array, is_given_name
from sparrow.errors import IndexingError, InvalidValueError, LabelError, ShapeError
from sparrow.models import parquet_files
from sparrow.models.ranking_rounds import iter_rankings
from sparrow.models.ratings import as_ratings
from sparrow.models.topk import (
    ColumnSlice,
    Directions,
    Factors,
    Pattern,
    load_pattern,
    to_pattern,
    top_k,
    unit_vectors,
)
from sparrow.models.tuning import tuning
from sparrow.plan import align_columns
from sparrow.runtime import events, progress
from sparrow.runtime.hints import HintedAttributes
from sparrow.runtime.validation import check_choice, check_unmasked

if TYPE_CHECKING:
    import os

    from sparrow.tensor import Tensor
from sparrow.tensor.matching import label_operands, match_axes

__all__ = ["Recommender", "align_items", "orient"]


class Recommender(HintedAttributes):
    """Mixin of factor models: the score of a row and an item is an inner product.

    A derived class provides the factors below, ``fold_in`` and the tensor that it was fitted to.
    """

    if TYPE_CHECKING:

        @property
        def user_factors_(self) -> Any:
            """Shape (rows, d)."""

        @property
        def item_factors_(self) -> Any:
            """Shape (items, d)."""

        def fold_in(self, rows: Tensor) -> NDArray[np.float32]:
            """Return the factors of other rows, shape (m, d), from their ratings (m, items)."""

        _training: Tensor
        """Training tensor, shape (rows, items)."""

    @property
    def user_factors(self) -> Any:
        """The attribute ``user_factors_`` under its earlier name."""
        return self.user_factors_

    @user_factors.setter
    def user_factors(self, factors: Any) -> None:
        self.user_factors_ = factors  # type: ignore[misc]

    @property
    def item_factors(self) -> Any:
        """The attribute ``item_factors_`` under its earlier name."""
        return self.item_factors_

    @item_factors.setter
    def item_factors(self, factors: Any) -> None:
        self.item_factors_ = factors  # type: ignore[misc]

    @property
    def _labels_from(self) -> Tensor | None:
        """Tensor whose labels name rows and items, or None."""
        return getattr(self, "_training", None)

    def labels(self, side: Literal["row", "item"]) -> pa.Array | None:
        """Return the labels of rows or items in the order of the factors, or None.

        Parameters
        ----------
        side
            "row" or "item".

        Returns
        -------
        pyarrow.Array or None

        Raises
        ------
        InvalidValueError
            If ``side`` is neither.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 1], [0, 1]], 1, dims=["user", "film"], labels={"film": ["Alien", "Dune"]})
        >>> model = sp.models.ALS(factors=2, epochs=1).fit(A)
        >>> model.labels("item").to_pylist(), model.labels("row")
        (['Alien', 'Dune'], None)
        """
        check_choice("side", side, ("row", "item"))
        training = self._labels_from
        return None if training is None else training.labels(0 if side == "row" else 1)

    def _factors(self) -> tuple[Factors, Factors]:
        """Return the factor tables of rows and items."""
        return self.user_factors_, self.item_factors_

    def _candidates(self) -> Factors:
        """Return the factor table of items to rank; rows of NaN are never recommended."""
        return self._factors()[1]

    _similarity_columns = slice(None)
    """Columns of the factors that define the similarity of items."""

    def _directions(self) -> Factors:
        """Return the normalized factors of items; rows of NaN are similar to none."""
        return Directions(ColumnSlice(self._factors()[1], self._similarity_columns))

    def _read_rated(self, rows: NDArray[np.int64]) -> Pattern:
        """Return the items that rows of the training tensor have rated."""
        return to_pattern(self._training[rows])

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, the training tensor replaced by its pattern.

        The data may be missing where the model is unpickled.
        """
        state = self.__dict__.copy()
        if state.get("_training") is not None:
            state["_training"] = load_pattern(self._training)
        return state

    def recommend(
        self, rows: Any, k: int = 10, exclude: Any = True, labels: bool | None = None, *, positions: bool = False
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the k items with the highest scores for each row.

        Parameters
        ----------
        rows
            Rows of the training tensor, shape (m,): labels where it has labels, integers included, else positions,
            negative ones from the end. Integers are positions, too, where labels are texts or dates. Or the histories
            of new rows, which are folded in: a tensor of shape (m, items), whose items are aligned by label if both
            have labels, or a 2-D array.
        k
            Number of items per row.
        exclude
            True excludes the items that a row has rated, in the training tensor or in the given history. False excludes
            none. A tensor or array of shape (m, items) excludes its stored elements and nothing else; labelled rows and
            items are matched by label.
        labels
            Return labels of items as ids; by default if items have labels, unless labelled rows are given by position.
        positions
            Integers are positions, whatever the labels, and so are the ids by default.

        Returns
        -------
        ids : ndarray of int64, or of labels, shape (m, k)
            By descending score, ties by ascending id; missing items are -1, or None.
        scores : ndarray of float32, shape (m, k)
            -inf where the id is missing.

        Raises
        ------
        IndexingError
            If a position is out of range.
        LabelError
            If a label is unknown, or ``labels=True`` and items have no labels.
        InvalidValueError
            If ``k`` is less than 1, or ``exclude`` has another type.
        ShapeError
            If histories or ``exclude`` have a wrong shape.
        TooLargeError
            If the result exceeds the memory limit; :meth:`recommend_all` streams it to a file.

        Notes
        -----
        A row whose factors are all 0, such as one without ratings, gets no recommendations; with biases, it gets those
        of the item biases, and items without ratings are not recommended. Scores are summed in float32 and exact: all
        items are scored.

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
        history = _as_matrix(rows)
        names = self.labels("row")
        by_label = history is not None or names is None or _are_labels(rows, names)
        pattern: Pattern | None = None
        if history is not None:
            history = align_items(history, self._labels_from).compute()  # read once for both uses
            factors = self.fold_in(history)
        else:
            at = _to_positions(rows, users.shape[0], "row", names, positions)
            factors = users[at]
        if history is None and exclude is True:
            pattern = self._read_rated(at)
        elif exclude is not False:
            training = self._labels_from
            targets = history if history is not None or training is None else training[at]
            excluded = _exclusion(exclude, targets, (len(factors), items.shape[0]), training)
            pattern = None if excluded is None else to_pattern(excluded)
        ids, scores = top_k(factors, self._candidates(), k, pattern, iter_rankings)
        empty = ~factors.any(axis=1)
        ids[empty], scores[empty] = -1, -np.inf
        return _to_labels(ids, labels, by_label and not positions, self.labels("item")), scores

    def predict(self, rows: Any, items: Any, *, positions: bool = False) -> NDArray[np.float32]:
        """Return the scores of pairs of rows and items.

        For a model of explicit ratings (``unobserved_weight=0``) these are the predicted ratings.

        Parameters
        ----------
        rows, items
            Pairs: labels or positions, as in :meth:`recommend`, shape (m,) each. A single row or item is broadcast.
        positions
            Integers are positions, whatever the labels.

        Returns
        -------
        ndarray of float32, shape (m,)

        Raises
        ------
        IndexingError
            If a position is out of range.
        LabelError
            If a label is unknown.
        ShapeError
            If the numbers of rows and items differ.

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
        pair = align_columns(label_operands((rows, items)), ["rows", "items"])
        given = [[one] if isinstance(one, str | bytes) or np.ndim(one) == 0 else one for one in pair]
        left = _to_positions(given[0], users.shape[0], "row", self.labels("row"), positions)
        right = _to_positions(given[1], table.shape[0], "item", self.labels("item"), positions)
        if len(left) != len(right) and 1 not in (len(left), len(right)):
            raise ShapeError(f"rows and items must have equal length, or length 1, got {len(left)} and {len(right)}")
        left, right = np.broadcast_arrays(left, right)
        out = np.empty(len(left), np.float32)
        step = tuning().predict_pairs
        for start in range(0, len(left), step):
            part = slice(start, start + step)
            np.einsum("md,md->m", users[left[part]], table[right[part]], out=out[part], dtype=np.float32)
        return out

    def recommend_all(
        self,
        path: str | os.PathLike[str],
        k: int = 10,
        exclude: Any = True,
        overwrite: bool = False,
        labels: bool | None = None,
        *,
        positions: bool = False,
    ) -> None:
        """Write the k best items of every row to a Parquet file, in bounded memory.

        The columns are ``row`` and ``item``, labels or positions from 0, ``rank``, from 1, and ``score``, in the order
        of rows and ranks. Rows without factors, or that have rated every item, are omitted.

        Parameters
        ----------
        path
            File; it appears when it is complete.
        k
            Number of items per row.
        exclude
            As in :meth:`recommend`; a tensor has shape (rows, items).
        overwrite
            Replace an existing file.
        labels
            Write the labels of rows and items, where the training tensor has them; the default.
        positions
            Write positions instead, as ``labels=False`` does.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False, or another process is writing it.
        InvalidValueError, ShapeError
            As in :meth:`recommend`.
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
        excluded = _exclusion(exclude, self._training, (rows.shape[0], items.shape[0]), self._training)
        by_label = _writes_labels(labels, positions)
        names = {"row": self.labels("row"), "item": self.labels("item")} if by_label else {}
        _write_rankings(path, rows, self._candidates(), k, excluded, overwrite, names)

    def similar(
        self, items: Any, k: int = 10, labels: bool | None = None, *, positions: bool = False
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the k items with the most similar factors, by cosine.

        Parameters
        ----------
        items
            Labels or positions, as the rows of :meth:`recommend`, shape (m,); an item is excluded from its own result.
            Or factor vectors, float, shape (m, d).
        k
            Number of similar items.
        labels
            Return labels as ids; by default if items have labels and are not given by position.
        positions
            Integers are positions, whatever the labels, and so are the ids by default.

        Returns
        -------
        ids : ndarray of int64, or of labels, shape (m, k)
            By descending cosine, ties by ascending id; missing items are -1, or None. Items whose factors are all 0 are
            similar to none.
        cosines : ndarray of float32, shape (m, k)
            -inf where the id is missing.

        Raises
        ------
        IndexingError
            If a position is out of range.
        LabelError
            If a label is unknown, or ``labels=True`` and items have no labels.
        InvalidValueError
            If ``k`` is less than 1.
        ShapeError
            If vectors do not have d factors.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
        >>> model = sp.models.ALS(factors=4, epochs=8, regularization=0.01).fit(A)
        >>> model.similar([0, 3], k=1)[0]
        array([[1],
               [2]])
        """
        directions = self._directions()
        names, given = self.labels("item"), check_array(items, "items")
        is_vectors = given.ndim == 2 and given.dtype.kind == "f"
        if is_vectors:
            ids, cosines = top_k(unit_vectors(given[:, self._similarity_columns]), directions, k, None, iter_rankings)
        else:
            at = _to_positions(items, directions.shape[0], "item", names, positions)
            ids, cosines = top_k(directions[at], directions, k, Pattern(np.arange(len(at) + 1), at), iter_rankings)
        return _to_labels(ids, labels, not positions and (is_vectors or _are_labels(items, names)), names), cosines

    def save_factors(
        self,
        path: str | os.PathLike[str],
        rows: Any = None,
        items: Any = None,
        labels: bool | None = None,
        *,
        positions: bool = False,
    ) -> None:
        """Write ``user_factors.parquet`` and ``item_factors.parquet`` to a new folder.

        The columns are ``row`` or ``item``, int64 or labels, and ``factors``, lists of d float32 values, which Arrow
        reads as a fixed-size list.

        Parameters
        ----------
        path
            Folder; it appears with both files. An existing one is never replaced, as it may hold other files.
        rows, items
            Numbers of rows, shape (rows,), and items, shape (items,), such as their positions in a larger tensor; by
            default their labels, where the training tensor has some, or from 0.
        labels
            Write labels where no numbers are given; the default.
        positions
            Write positions instead, as ``labels=False`` does.

        Raises
        ------
        ExistsError
            If ``path`` exists.
        ShapeError
            If the lengths of numbers and factors differ.
        InvalidValueError
            If numbers are not integers.
        StorageError
            If the folder cannot be written.

        Examples
        --------
        Recommendations for row 2, in SQL:

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
        parquet_files.check_absent(path, "choose another folder")
        user_factors, item_factors = self._factors()
        if _writes_labels(labels, positions):
            rows = self.labels("row") if rows is None else rows
            items = self.labels("item") if items is None else items
        with storage.stage_folder(path) as staged:
            folder = parquet_files.local_path(staged)
            parquet_files.write_factors(folder / "user_factors.parquet", "row", user_factors, rows)
            parquet_files.write_factors(folder / "item_factors.parquet", "item", item_factors, items)


def _writes_labels(labels: bool | None, positions: bool) -> bool:
    """Return whether files have labels, where there are some."""
    if labels and positions:
        raise InvalidValueError("labels=True and positions=True exclude each other")
    return not positions if labels is None else bool(labels)


def _write_rankings(
    path: str | os.PathLike[str],
    rows: Factors,
    items: Factors,
    k: int,
    exclude: Tensor | None,
    overwrite: bool,
    names: Mapping[str, pa.Array | None],
) -> None:
    """Write the k best items of all rows to a Parquet file."""
    buffered: list[pa.Table] = []
    first = 0
    with (
        parquet_files.open_ranking_file(path, overwrite, names) as writer,
        progress.bar("recommending", rows.shape[0], "rows") as advance,
    ):
        for ids, scores in iter_rankings(rows, items, k, exclude):
            ids[~np.asarray(rows[first : first + len(ids)]).any(axis=1)] = -1
            events.emit("models.write_ranking")
            buffered.append(parquet_files.ranking_table(first, ids, scores, names))
            first += len(ids)
            if sum(map(len, buffered)) >= tuning().ranking_row_group_rows:
                writer.write_table(pa.concat_tables(buffered))
                buffered.clear()
            advance(len(ids))
        if buffered:
            writer.write_table(pa.concat_tables(buffered))


def _as_matrix(given: Any) -> Tensor | None:
    """Return a 2-D object as a tensor, None for anything else."""
    return as_ratings(given) if getattr(given, "ndim", None) == 2 else None


def align_items(history: Tensor, training: Tensor | None, what: str = "the histories") -> Tensor:
    """Return histories with the items of the training tensor, aligned by label.

    Dimensions are matched by name. Unknown items have no factors and are dropped; some must be known.
    """
    history = orient(history, training)
    aligned: Tensor = match_axes(history, training, {1: 1}, what, "mask", "the training tensor")
    return aligned


def orient(ratings: Tensor, training: Tensor | None) -> Tensor:
    """Return ratings with the dimensions of the training tensor, matched by name."""
    dims = ratings.dims
    if training is None or dims == training.dims or set(dims) != set(training.dims):
        return ratings
    return ratings.transpose(training.dims) if all(map(is_given_name, dims)) else ratings


def _are_labels(given: Any, names: pa.Array | None) -> bool:
    """Return whether ids are labels: integers are, unless labels are texts or dates."""
    if names is None:
        return False
    if pa.types.is_integer(names.type):
        return True
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return not pa.types.is_integer(given.type)
    return getattr(given, "ndim", 1) == 1 and np.asarray(given).dtype.kind in "UOMT"


def _to_labels(ids: NDArray[np.int64], labels: bool | None, default: bool, names: pa.Array | None) -> NDArray[Any]:
    """Return item ids, or their labels with None for -1."""
    if labels is False or (labels is None and not default):
        return ids
    if names is None:
        if labels is None:
            return ids
        raise LabelError("labels=True requires a training tensor with labels of items")
    flat = ids.reshape(-1)
    result = names.take(pa.array(flat, mask=flat < 0)).to_pylist()
    out = np.empty(len(result), object)
    out[:] = result
    return out.reshape(ids.shape)


def _to_positions(given: Any, size: int, kind: str, names: pa.Array | None, positions: bool) -> NDArray[np.int64]:
    """Return the positions of rows or items, given by label or position.

    Raises
    ------
    IndexingError
        If they are not integers or labels, not 1-D, or out of range.
    LabelError
        If a label is unknown.
    """
    check_unmasked(given, f"{kind}s")
    given = np.asarray(given) if hasattr(given, "__sparrow_scan__") else given
    if isinstance(given, str | bytes) or np.ndim(given) == 0:
        one = given.item() if isinstance(given, np.generic | np.ndarray) else given
        method = "recommend" if kind == "row" else "similar"
        raise IndexingError(f"{kind}s must be a list, got {one!r}: pass [{one!r}], as in {method}([{one!r}])")
    if names is not None and not positions and np.ndim(given) == 1 and len(given) and _are_labels(given, names):
        found = find_labels(names, given).fill_null(-1)
        places: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
        if places.min() < 0:
            way = ", pass positions=True for positions" if pa.types.is_integer(names.type) else ""
            unknown = given[int(places.argmin())]
            raise LabelError(
                f"unknown label {unknown!r}: no {kind} of the training tensor has it{way}"
                f"{describe_mismatch(names, unknown)}"
            )
        check_found_once(names, places, kind, "pass positions=True for positions")
        return places
    numbers = np.asarray(given)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise IndexingError(
            f"{kind}s must be a list of integers, of labels if the training tensor has some, or a matrix of histories, "
            f"got {numbers.dtype} of shape {numbers.shape}"
        )
    at = numbers.astype(np.int64)
    at = np.where(at < 0, at + size, at)
    wrong = (at < 0) | (at >= size)
    if wrong.any():
        raise IndexingError(f"{kind} {numbers[wrong][0]} is out of range for {size} {kind}s")
    return at


def _exclusion(exclude: Any, targets: Tensor | None, shape: tuple[int, int], training: Tensor | None) -> Tensor | None:
    """Return the items to exclude, a tensor of the given shape, or None.

    Its rows are matched with the rows to recommend for, ``targets``, its items with those of the training tensor.
    """
    if exclude is False:
        return None
    mask = targets if exclude is True else _as_matrix(exclude)
    if mask is None:
        raise InvalidValueError(
            f"exclude must be True, False or a matrix of items to exclude, got {type(exclude).__name__}"
        )
    mask = align_items(mask, training, "exclude")
    aligned: Tensor = match_axes(mask, targets, {0: 0}, "exclude", "pattern", "the rows to recommend for")
    if aligned.shape != shape:
        raise ShapeError(f"exclude has shape {aligned.shape}, expected {shape}")
    return aligned
