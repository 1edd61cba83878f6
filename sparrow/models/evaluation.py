"""Evaluation of recommendations for new rows (strong generalization).

The protocol is that of ALX (Mehta et al. 2021, arXiv:2112.02194), with these choices where the paper is silent:

* A tenth of the rows are test rows; none of their ratings is used for training.
* Of the n ratings of a test row, floor(n / 4) are held out at random; the others are its history. Rows with fewer than
  4 ratings are not evaluated.
* A row is folded in from its history. All items are scored exactly in float32, except those of the history.
* Recall@K is the number of held-out items among the first K, divided by min(K, number held out), averaged over rows.
  NDCG@K (Järvelin and Kekäläinen 2002) counts a hit at rank r as 1 / log2(r + 1), divided by the value of the ideal
  order.
* Settings are chosen on a second tenth of the rows, with training on the rest; the model to test is trained on all but
  the test rows.

The program released with the paper instead rounds scores to bfloat16, counts test rows without held-out ratings as 0
and searches approximately.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.label_types import to_label_array
from sparrow.core.schema import check_array
from sparrow.errors import IndexingError, InvalidValueError, LabelError, ShapeError
from sparrow.models.ratings import as_ratings, check_matrix
from sparrow.models.recommender import Recommender, orient
from sparrow.models.splits import HeldOut, HeldOutEntries, Split, hold_out, hold_out_entries, min_links, split
from sparrow.models.topk import Pattern, to_pattern
from sparrow.plan import Scan, axis_labels, positions_of_labels
from sparrow.runtime import progress
from sparrow.tensor import Tensor
from sparrow.tensor.matching import label_operands, match_axes

__all__ = [
    "HeldOut",
    "HeldOutEntries",
    "Model",
    "Popularity",
    "Recommending",
    "Split",
    "beaten",
    "evaluate",
    "hold_out",
    "hold_out_entries",
    "metrics",
    "min_links",
    "rmse",
    "search",
    "split",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class Recommending(Protocol):
    """Protocol of models that can be evaluated.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import Recommending
    >>> model: Recommending = sp.models.ALS(factors=8)
    """

    def recommend(self, rows: Tensor, k: int, /) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return recommendations for histories.

        Parameters
        ----------
        rows
            Histories, shape (m, items); their items are not recommended.
        k
            Number of items per row.

        Returns
        -------
        ids, scores : ndarray, shape (m, k)
            Best first; -1 if no item is left.

        Examples
        --------
        >>> import sparrow as sp
        >>> from sparrow.models.evaluation import Popularity
        >>> A = sp.asarray([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
        >>> Popularity().fit(A).recommend(A, 1)[0].tolist()
        [[2], [0], [0]]
        """


class Model(Recommending, Protocol):
    """Protocol of models that :func:`search` can fit: a scikit-learn estimator.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import Model
    >>> model: Model = sp.models.ALS(factors=8)
    """

    def get_params(self) -> dict[str, Any]:
        """Return the constructor arguments by name.

        Returns
        -------
        dict

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.models.ALS(factors=8).get_params()["factors"]
        8
        """

    def fit(self, A: Tensor, /) -> Self:
        """Fit to ratings.

        Parameters
        ----------
        A
            Ratings, shape (rows, items).

        Returns
        -------
        Model
            The fitted model itself.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.ALS(factors=2, epochs=1).fit(sp.asarray(np.eye(4))).item_factors_.shape
        (4, 2)
        """


def metrics(
    ids: NDArray[Any], truth: Tensor, recall: Sequence[int] = (20, 50), ndcg: Sequence[int] = (100,)
) -> dict[str, float]:
    """Return mean Recall@K and NDCG@K of rankings.

    Parameters
    ----------
    ids
        Item ids or labels, shape (m, k), best first, without repeats in a row; -1 or None is no item. Labels are found
        among those of ``truth``.
    truth
        Relevant items, shape (m, items), at least one per row.
    recall, ndcg
        Cutoffs K, from 1 to k.

    Returns
    -------
    dict
        ``"recall@K"`` and ``"ndcg@K"`` for each K.

    Raises
    ------
    ShapeError
        If the numbers of rows differ, or k is less than a cutoff.
    InvalidValueError
        If a row has no relevant items, or there is no cutoff, or one is no integer of at least 1.
    IndexingError
        If an id is not the position of an item.
    LabelError
        If ids are labels, and the items of ``truth`` have none, or of another type.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import metrics
    >>> truth = sp.from_coords([[0, 0, 0], [4, 5, 6]], 1, shape=(1, 9))
    >>> metrics(np.array([[5, 1, 4]]), truth, recall=[2, 3], ndcg=[3])
    {'recall@2': 0.5, 'recall@3': 0.6666666666666666, 'ndcg@3': 0.7039180890341347}
    """
    truth = as_ratings(truth)
    ids = _item_numbers(ids, truth)
    relevant = to_pattern(truth)
    degrees = relevant.degrees
    deepest = _max_k(recall, ndcg)
    if ids.ndim != 2 or ids.shape[0] != len(degrees) or ids.shape[1] < deepest:
        raise ShapeError(f"ids must have {len(degrees)} rows of at least {deepest} items, got shape {ids.shape}")
    if not (degrees > 0).all():
        raise InvalidValueError(
            f"each row of truth must have an item, got none in row {degrees.argmin()}: drop the row"
        )
    hits = _hits(ids[:, :deepest], relevant, truth.shape[1])
    result = {f"recall@{k}": float(np.mean(hits[:, :k].sum(axis=1) / np.minimum(k, degrees))) for k in recall}
    gains = 1 / np.log2(np.arange(2, deepest + 2))
    highest = np.cumsum(gains)
    for k in ndcg:
        gained = hits[:, :k] @ gains[:k]
        result[f"ndcg@{k}"] = float(np.mean(gained / highest[np.minimum(k, degrees) - 1]))
    return result


def _item_numbers(ids: Any, truth: Tensor) -> NDArray[np.int64]:
    """Return the positions of items, given by position or label; -1 if unknown."""
    ids = check_array(ids, "ids")
    if ids.dtype.kind in "iu":
        items = truth.shape[1] if truth.ndim == 2 else 0
        return _check_positions(ids, items, f"truth of {items} items")
    labels = truth.labels(1) if truth.ndim == 2 else None
    if labels is None:
        raise LabelError(
            "ids are labels, and the items of truth have none: pass positions, recommend(..., labels=False)"
        )
    wanted = to_label_array(ids.reshape(-1).tolist())
    if wanted is None:
        raise LabelError("ids must be labels of one type, got several types")
    if pa.types.is_null(wanted.type):
        return np.full(ids.shape, -1)
    return positions_of_labels(wanted, labels, truth.dims[1]).reshape(ids.shape)


def _check_positions(ids: NDArray[Any], items: int, where: str) -> NDArray[np.int64]:
    """Return positions of items, -1 for none."""
    wrong = (ids < -1) | (ids >= items)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise IndexingError(
            f"ids must be positions from 0 to {items - 1}, or -1 for none, got {ids[at]} at {list(at)}: not in {where}"
        )
    return np.asarray(ids, np.int64)


def _max_k(recall: Sequence[int], ndcg: Sequence[int]) -> int:
    numbers = [*recall, *ndcg]
    if not numbers or not all(isinstance(k, int | np.integer) for k in numbers) or min(numbers) < 1:
        raise InvalidValueError(f"recall and ndcg must be integer cutoffs of at least 1, got {recall!r} and {ndcg!r}")
    return max(numbers)


def _hits(ids: NDArray[np.int64], relevant: Pattern, items: int) -> NDArray[np.bool_]:
    """Return whether each id is among the relevant items of its row."""
    hits = np.zeros(ids.shape, bool)
    mark = np.zeros(items, bool)
    for row, line in enumerate(ids):
        truth = relevant.indices[relevant.indptr[row] : relevant.indptr[row + 1]]
        mark[truth] = True
        hits[row] = mark[line] & (line >= 0)
        mark[truth] = False
    return hits


def evaluate(
    model: Recommending,
    held_out: HeldOut,
    recall: Sequence[int] = (20, 50),
    ndcg: Sequence[int] = (100,),
    baseline: bool = True,
) -> dict[str, float]:
    """Return mean Recall@K and NDCG@K of a fitted model on held-out rows.

    The results of popularity alone are printed to standard error for comparison, with a warning if it wins.

    Parameters
    ----------
    model
        Model fitted to other rows.
    held_out
        Result of :func:`split` or :func:`hold_out`.
    recall, ndcg
        Cutoffs K.
    baseline
        Evaluate :class:`Popularity` too, on the training data, if the model keeps it.

    Returns
    -------
    dict
        Metrics of the model, as in :func:`metrics`.

    Raises
    ------
    InvalidValueError
        As in :func:`metrics`.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import Popularity, evaluate, split
    >>> A = sp.asarray(np.random.default_rng(0).random((200, 500)) < np.linspace(0, 0.2, 500))
    >>> parts = split(A)
    >>> result = evaluate(Popularity().fit(parts.train), parts.test)
    >>> {name: round(value, 2) for name, value in result.items()}
    {'recall@20': 0.06, 'recall@50': 0.19, 'ndcg@100': 0.17}
    """
    k = _max_k(recall, ndcg)
    history, truth = label_operands((held_out.history, held_out.truth))
    held_out = replace(held_out, history=history, truth=truth)
    if isinstance(model, Recommender):
        ids, _ = model.recommend(held_out.history, k, labels=False)
    else:
        ids, _ = model.recommend(held_out.history, k)
    truth = match_axes(held_out.truth, held_out.history, {0: 0}, "the truth", "values", "the history")
    result = metrics(_ids_of_truth(ids, model, held_out), truth, recall, ndcg)
    training = getattr(model, "_training", None)
    if baseline and training is not None and not isinstance(model, Popularity):
        popular = evaluate(Popularity().fit(training), held_out, recall, ndcg)
        lines = [f"{name} {value:.3f} (popularity alone {popular[name]:.3f})" for name, value in result.items()]
        progress.write_note(", ".join(lines) + beaten(result, popular))
    return result


def _ids_of_truth(ids: NDArray[Any], model: Recommending, held_out: HeldOut) -> NDArray[Any]:
    """Return the positions of recommended items among those of the truth, by label.

    -1 is an item that the truth does not have.
    """
    items = model.labels("item") if isinstance(model, Recommender) else held_out.history.labels(1)
    truth = held_out.truth.labels(1)
    if ids.dtype.kind not in "iu" or items is None or truth is None or items.equals(truth):
        return ids
    own = positions_of_labels(items, truth, held_out.truth.dims[1])
    at: NDArray[Any] = np.append(own, -1)  # the last one is that of id -1
    return np.asarray(at[_check_positions(ids, len(items), f"the history of {len(items)} items")])


def beaten(found: Mapping[str, float], popular: Mapping[str, float]) -> str:
    """Return a warning if popularity beats a model by some metric, else "".

    Parameters
    ----------
    found, popular
        Metrics of the model and of :class:`Popularity`.

    Returns
    -------
    str

    Examples
    --------
    >>> from sparrow.models.evaluation import beaten
    >>> beaten({"recall@20": 0.2}, {"recall@20": 0.1}), beaten({"recall@20": 0.2}, {"recall@20": 0.22})[:17]
    ('', '; popularity wins')
    """
    if all(value >= popular[name] for name, value in found.items()):
        return ""
    return "; popularity wins: raise unobserved_weight, to 1 say, or use search() (docs/choosing-als.md)"


def rmse(model: Recommender, test: Any) -> float:
    """Return the root mean squared error of predicted ratings.

    Parameters
    ----------
    model
        Model fitted to other ratings of the same rows and items.
    test
        Ratings, shape (rows, items), such as those of :func:`hold_out_entries`: a tensor, or what
        :func:`sparrow.asarray` accepts.

    Returns
    -------
    float
        NaN if there are no ratings.

    Raises
    ------
    IndexingError
        If the model has fewer rows or items.
    LabelError
        If both have labels, and a rating is at one that the model does not know.
    ShapeError, UnsupportedError
        If ``test`` is not a real matrix with fill 0 or NaN.
    TooLargeError
        If the ratings exceed the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import hold_out_entries, rmse
    >>> parts = hold_out_entries(np.add.outer(np.linspace(1, 2, 30), np.linspace(0, 3, 40)))
    >>> model = sp.models.ALS(1, 0.1, unobserved_weight=0, biases=True).fit(parts.train)
    >>> rmse(model, parts.test) < 0.1
    True
    """
    ratings = orient(as_ratings(test), model._labels_from)
    scan = ratings.__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    if not block.count:
        return float("nan")
    rows, items = (_positions_in_model(model, scan, axis, block.coords[axis]) for axis in (0, 1))
    errors = model.predict(rows, items, positions=True).astype(np.float64) - block.values
    return float(np.sqrt(np.mean(errors**2)))


def _positions_in_model(model: Recommender, scan: Scan, axis: int, coords: NDArray[Any]) -> NDArray[Any]:
    """Return coordinates of ratings as numbers of rows or items of a model, by label.

    Raises
    ------
    LabelError
        If the model has no such label.
    """
    side: Literal["row", "item"] = "item" if axis else "row"
    own, known = axis_labels(scan).get(axis), model.labels(side)
    if own is None or known is None or own.array().equals(known):
        return coords
    positions: NDArray[Any] = positions_of_labels(own.array(), known, side)[coords]
    if (positions < 0).any():
        unknown = own.array()[int(coords[int(positions.argmin())])].as_py()
        raise LabelError(f"unknown label {unknown!r}: no {side} of the training tensor has it, drop it with sel()")
    return positions


class Popularity(Recommender):
    """Baseline that recommends the items with the most ratings to every row.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import Popularity
    >>> A = sp.asarray([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
    >>> Popularity().fit(A).recommend(A, 1)[0].tolist()
    [[2], [0], [0]]
    """

    user_factors_: NDArray[np.float32]
    item_factors_: NDArray[np.float32]
    _training: Tensor

    def fit(self, A: Any) -> Self:
        """Count the ratings of each item, in float32.

        Parameters
        ----------
        A
            Ratings, shape (rows, items): a tensor, or what :func:`sparrow.asarray` accepts.

        Returns
        -------
        Popularity
            The fitted model itself.

        Examples
        --------
        >>> from sparrow.models.evaluation import Popularity
        >>> Popularity().fit([[1, 1, 0], [0, 1, 0]]).item_factors_.ravel()
        array([1., 2., 0.], dtype=float32)
        """
        A = as_ratings(A)
        self.item_factors_ = np.asarray(A.count(axis=0), dtype=np.float32)[:, None]
        self.user_factors_ = np.ones((A.shape[0], 1), np.float32)
        self._training = A
        return self

    def fold_in(self, rows: Tensor) -> NDArray[np.float32]:
        """Return the factor 1 for every history.

        Parameters
        ----------
        rows
            Histories, shape (m, items).

        Returns
        -------
        ndarray of float32, shape (m, 1)

        Examples
        --------
        >>> import sparrow as sp
        >>> from sparrow.models.evaluation import Popularity
        >>> Popularity().fold_in(sp.zeros((2, 3)))
        array([[1.],
               [1.]], dtype=float32)
        """
        return np.ones((rows.shape[0], 1), np.float32)


def search(
    A: Tensor,
    model: Model,
    grid: Mapping[str, Sequence[Any]],
    seed: int = 0,
    by: str = "recall@20",
    test: float = 0.1,
    validation: float = 0.1,
) -> list[dict[str, Any]]:
    """Evaluate every setting of a grid on validation rows, best first.

    Test rows are not used; :func:`split` with the same ``seed`` and ``test`` returns them.

    Parameters
    ----------
    A
        Ratings, shape (rows, items), fill 0.
    model
        Model with the other settings; it is not modified.
    grid
        Values by parameter name; all combinations are tried.
    seed
        As in :func:`split`.
    by
        Metric to sort by: ``"recall@20"``, ``"recall@50"`` or ``"ndcg@100"``.
    test, validation
        As in :func:`split`.

    Returns
    -------
    list of dict
        Parameters of the grid and the metrics of :func:`evaluate`.

    Raises
    ------
    InvalidValueError
        If a metric or parameter is unknown, the grid is empty, or the model has a checkpoint folder.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import search
    >>> import numpy as np
    >>> A = sp.asarray(np.kron(np.eye(5), np.ones((8, 8))))
    >>> result = search(A, sp.models.ALS(factors=8, epochs=2), {"regularization": [0.01, 0.1]})
    >>> [sorted(setting) for setting in result]
    [['ndcg@100', 'recall@20', 'recall@50', 'regularization'], ['ndcg@100', 'recall@20', 'recall@50', 'regularization']]
    """
    known = ("recall@20", "recall@50", "ndcg@100")
    if by not in known:
        raise InvalidValueError(f"by must be one of {', '.join(map(repr, known))}, got {by!r}")
    params = model.get_params()
    if params.get("checkpoint") is not None:
        raise InvalidValueError("checkpoint must be None for a search, whose settings cannot share one")
    for name in grid:
        if name not in params:
            raise InvalidValueError(f"parameter of the grid must be one of {', '.join(params)}, got {name!r}")
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if not settings:
        raise InvalidValueError("grid must have at least one value per parameter")
    parts = split(A, seed, test, validation)
    if parts.validation is None:
        raise InvalidValueError("validation must be positive for a search, got 0")
    result = []
    with progress.bar("searching", len(settings), "fits") as advance:
        for setting in settings:
            fitted = type(model)(**{**params, **setting}).fit(parts.train)
            result.append({**setting, **evaluate(fitted, parts.validation, baseline=False)})
            advance(1)
    return sorted(result, key=lambda setting: -setting[by])
