"""How well a model recommends to rows that it never saw: strong generalisation.

The protocol is that of ALX (Mehta et al. 2021, arXiv:2112.02194), made exact where the text is silent:

* a tenth of the rows are test rows; training sees no link of them;
* of the n links of a test row, floor(n / 4) drawn at random are held out and the others are its history; rows with
  fewer than 4 links are not evaluated;
* a row is folded in from its history, all items are scored exactly in float32 and those of the history left out;
* Recall@K is the number of held-out items among the first K, divided by min(K, number held out), averaged over rows.
  NDCG@K (Järvelin and Kekäläinen 2002) counts a hit at rank r as 1 / log2(r + 1), divided by what the best order gives;
* settings are chosen on a second tenth of the rows, trained on the rest; the model to test is trained on all but the
  test rows.

The program released with that paper rounds scores to bfloat16 before it ranks them, counts test rows without held-out
links as 0 and searches approximately; none of these is done here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.functions.creation import asarray
from sparrow.models.als_data import check_matrix
from sparrow.models.ranking import Pattern, pattern_of
from sparrow.models.recommending import Recommender
from sparrow.models.splits import HeldOut, HeldOutEntries, Split, hold_out, hold_out_entries, min_links, split
from sparrow.runtime import progress
from sparrow.tensor import Tensor

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
    """What can be evaluated.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import Recommending
    >>> model: Recommending = sp.models.ALS(factors=8)
    """

    def recommend(self, rows: Tensor, k: int, /) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return what is recommended for histories.

        Parameters
        ----------
        rows
            Histories (m, items); what is in one is not recommended for it.
        k
            How many items for each.

        Returns
        -------
        ids, scores : ndarray, shape (m, k)
            The best first; -1 where none is left.

        Examples
        --------
        >>> import sparrow as sp
        >>> from sparrow.models.evaluation import Popularity
        >>> A = sp.asarray([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
        >>> Popularity().fit(A).recommend(A, 1)[0].tolist()
        [[2], [0], [0]]
        """


class Model(Recommending, Protocol):
    """What can be searched for: an estimator by scikit-learn's protocol.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import Model
    >>> model: Model = sp.models.ALS(factors=8)
    """

    def get_params(self) -> dict[str, Any]:
        """Return the arguments of the constructor.

        Returns
        -------
        dict
            By their names.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.models.ALS(factors=8).get_params()["factors"]
        8
        """

    def fit(self, A: Tensor, /) -> Self:
        """Fit to links.

        Parameters
        ----------
        A
            The links (rows, items).

        Returns
        -------
        Model
            Itself.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.ALS(factors=2, epochs=1).fit(sp.asarray(np.eye(4))).item_factors.shape
        (4, 2)
        """


def metrics(
    ids: NDArray[np.int64], truth: Tensor, recall: Sequence[int] = (20, 50), ndcg: Sequence[int] = (100,)
) -> dict[str, float]:
    """Return mean Recall@K and NDCG@K of rankings.

    Parameters
    ----------
    ids
        Shape (m, k), the best first; -1 is no item. No item comes twice in a row.
    truth
        Shape (m, items): the items to find, at least one a row.
    recall, ndcg
        The numbers K of items to look at, from 1 to k.

    Returns
    -------
    dict
        ``"recall@K"`` and ``"ndcg@K"`` for each K.

    Raises
    ------
    ShapeError
        If there are not as many rankings as rows, or fewer than K items in them.
    InvalidValueError
        If a row has no items to find, there is no K, or one is below 1.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import metrics
    >>> truth = sp.from_coords([[0, 0, 0], [4, 5, 6]], 1, shape=(1, 9))
    >>> metrics(np.array([[5, 1, 4]]), truth, recall=[2, 3], ndcg=[3])
    {'recall@2': 0.5, 'recall@3': 0.6666666666666666, 'ndcg@3': 0.7039180890341347}
    """
    wanted = pattern_of(truth)
    degrees = wanted.degrees
    deepest = _deepest(recall, ndcg)
    if ids.shape[0] != len(degrees) or ids.shape[1] < deepest:
        raise ShapeError(f"{deepest} items are looked at of each of {len(degrees)} rows, got ids of shape {ids.shape}")
    if not (degrees > 0).all():
        raise InvalidValueError(f"row {np.flatnonzero(degrees == 0)[0]} has no items to find: leave it out")
    hits = _hits(ids[:, :deepest], wanted, truth.shape[1])
    found = {f"recall@{k}": float(np.mean(hits[:, :k].sum(axis=1) / np.minimum(k, degrees))) for k in recall}
    gains = 1 / np.log2(np.arange(2, deepest + 2))
    highest = np.cumsum(gains)
    for k in ndcg:
        gained = hits[:, :k] @ gains[:k]
        found[f"ndcg@{k}"] = float(np.mean(gained / highest[np.minimum(k, degrees) - 1]))
    return found


def _deepest(recall: Sequence[int], ndcg: Sequence[int]) -> int:
    numbers = [*recall, *ndcg]
    if not numbers or min(numbers) < 1:
        raise InvalidValueError(f"recall={recall!r} and ndcg={ndcg!r}: say how many items to look at, each at least 1")
    return max(numbers)


def _hits(ids: NDArray[np.int64], wanted: Pattern, items: int) -> NDArray[np.bool_]:
    """Return where ids are among the wanted ones of their row."""
    hits = np.zeros(ids.shape, bool)
    mark = np.zeros(items, bool)
    for row, line in enumerate(ids):
        truth = wanted.indices[wanted.indptr[row] : wanted.indptr[row + 1]]
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
    """Return mean Recall@K and NDCG@K of a fitted model on rows that it did not see.

    What popularity alone gets is written beside, to standard error, and where it wins that is said.

    Parameters
    ----------
    model
        A model fitted to other rows.
    held_out
        What :func:`split` or :func:`hold_out` returns.
    recall, ndcg
        The numbers K of items to look at.
    baseline
        Evaluate :class:`Popularity` too, fitted to what the model was, where the model kept that.

    Returns
    -------
    dict
        As of :func:`metrics`, of the model.

    Raises
    ------
    InvalidValueError
        As of :func:`metrics`.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import Popularity, evaluate, split
    >>> A = sp.asarray(np.random.default_rng(0).random((200, 500)) < np.linspace(0, 0.2, 500))
    >>> parts = split(A)
    >>> found = evaluate(Popularity().fit(parts.train), parts.test)
    >>> {name: round(value, 2) for name, value in found.items()}
    {'recall@20': 0.06, 'recall@50': 0.19, 'ndcg@100': 0.17}
    """
    ids, _ = model.recommend(held_out.history, _deepest(recall, ndcg))
    found = metrics(ids, held_out.truth, recall, ndcg)
    training = getattr(model, "_training", None)
    if baseline and training is not None and not isinstance(model, Popularity):
        popular = evaluate(Popularity().fit(training), held_out, recall, ndcg)
        told = [f"{name} {value:.3f} (popularity alone {popular[name]:.3f})" for name, value in found.items()]
        progress.write_note(", ".join(told) + beaten(found, popular))
    return found


def beaten(found: Mapping[str, float], popular: Mapping[str, float]) -> str:
    """Return what to say where popularity is better than a model by some figure, and nothing elsewhere.

    Parameters
    ----------
    found, popular
        The figures of the model and of :class:`Popularity`.

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
    return "; popularity wins: let absent links weigh more, unobserved_weight=1, or search() (docs/choosing-als.md)"


def rmse(model: Recommender, test: Any) -> float:
    """Return the root of the mean squared error of what a model predicts for entries: for explicit ratings.

    Parameters
    ----------
    model
        A model fitted to other entries of the same rows and items.
    test
        The entries (rows, items), such as :func:`hold_out_entries` returns: a tensor, or what
        :func:`sparrow.asarray` takes.

    Returns
    -------
    float
        NaN where there are no entries.

    Raises
    ------
    IndexingError
        If the model knows fewer rows or items.
    ShapeError, UnsupportedError
        If this is no matrix of real numbers and fill 0.
    TooLargeError
        If the entries would pass the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import hold_out_entries, rmse
    >>> parts = hold_out_entries(np.add.outer(np.linspace(1, 2, 30), np.linspace(0, 3, 40)))
    >>> model = sp.models.ALS(1, 0.1, unobserved_weight=0, biases=True).fit(parts.train)
    >>> rmse(model, parts.test) < 0.1
    True
    """
    scan = asarray(test).__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    if not block.count:
        return float("nan")
    errors = model.predict(*block.coords).astype(np.float64) - block.values
    return float(np.sqrt(np.mean(errors**2)))


class Popularity(Recommender):
    """Recommend what has most links, whatever the history: the baseline every model has to beat.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import Popularity
    >>> A = sp.asarray([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
    >>> Popularity().fit(A).recommend(A, 1)[0].tolist()
    [[2], [0], [0]]
    """

    user_factors: NDArray[np.float32]
    item_factors: NDArray[np.float32]
    _training: Tensor

    def fit(self, A: Any) -> Self:
        """Count the links of each item. Counts above 2^24 are compared in float32.

        Parameters
        ----------
        A
            The links (rows, items): a tensor, or what :func:`sparrow.asarray` takes.

        Returns
        -------
        Popularity
            Itself.

        Examples
        --------
        >>> from sparrow.models.evaluation import Popularity
        >>> Popularity().fit([[1, 1, 0], [0, 1, 0]]).item_factors.ravel()
        array([1., 2., 0.], dtype=float32)
        """
        A = asarray(A)
        self.item_factors = np.asarray(A.count(axis=0), dtype=np.float32)[:, None]
        self.user_factors = np.ones((A.shape[0], 1), np.float32)
        self._training = A
        return self

    def fold_in(self, rows: Tensor) -> NDArray[np.float32]:
        """Return the same factor for every history.

        Parameters
        ----------
        rows
            Histories (m, items).

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
    """Return how well each setting of a grid does on validation rows, the best first.

    Test rows take no part: :func:`split` with the same seed and ``test`` gives them.

    Parameters
    ----------
    A
        Links (rows, items), fill 0.
    model
        The model with all other settings; it is not fitted itself.
    grid
        The values to try, by parameter; every combination is.
    seed
        As of :func:`split`.
    by
        What to order by: ``"recall@20"``, ``"recall@50"`` or ``"ndcg@100"``.
    test, validation
        As of :func:`split`.

    Returns
    -------
    list of dict
        The parameters of the grid and the figures of :func:`evaluate`.

    Raises
    ------
    InvalidValueError
        If a figure or a parameter of this name does not exist, there is nothing to try, or the model has a folder for
        checkpoints.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import search
    >>> import numpy as np
    >>> A = sp.asarray(np.kron(np.eye(5), np.ones((8, 8))))
    >>> found = search(A, sp.models.ALS(factors=8, epochs=2), {"regularization": [0.01, 0.1]})
    >>> [sorted(setting) for setting in found]
    [['ndcg@100', 'recall@20', 'recall@50', 'regularization'], ['ndcg@100', 'recall@20', 'recall@50', 'regularization']]
    """
    known = ("recall@20", "recall@50", "ndcg@100")
    if by not in known:
        raise InvalidValueError(f"by={by!r}: say one of {', '.join(map(repr, known))}")
    params = model.get_params()
    if params.get("checkpoint") is not None:
        raise InvalidValueError("a checkpoint is of one setting and a search tries many: set checkpoint=None")
    for name in grid:
        if name not in params:
            raise InvalidValueError(f"the model has no parameter {name!r}: there are {', '.join(params)}")
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if not settings:
        raise InvalidValueError("the grid is empty: give each parameter at least one value")
    parts = split(A, seed, test, validation)
    if parts.validation is None:
        raise InvalidValueError("validation=0 leaves no rows to compare settings with")
    found = []
    with progress.bar("searching", len(settings), "fits") as advance:
        for setting in settings:
            fitted = type(model)(**{**params, **setting}).fit(parts.train)
            found.append({**setting, **evaluate(fitted, parts.validation, baseline=False)})
            advance(1)
    return sorted(found, key=lambda each: -each[by])
