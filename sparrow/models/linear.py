"""Linear and logistic regression by stochastic gradient descent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError
from sparrow.kernels.ml import linear
from sparrow.models.estimator import Estimator
from sparrow.models.parameters import available_if
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Rate
from sparrow.runtime.validation import check_choice, check_number

__all__ = ["LinearRegression", "LogisticRegression"]


class LinearRegression(Estimator):
    r"""Least-squares regression by SGD, for matrices that may be larger than memory.

    Minimizes the mean of :math:`(x_i \cdot w + b - y_i)^2 / 2` over the rows, plus ``l2 / 2`` times the squares and
    ``l1`` times the magnitudes of the weights; both together are an elastic net. The gradient of a mini-batch, and a
    lazy update, concern only the features that occur in it: a penalty then applies to a weight as often as its feature
    occurs.

    The same seed gives the same bits for any number of threads. The shuffled order depends on how rows are stored.

    Parameters
    ----------
    optimizer
        ``"adagrad"``, ``"sgd"``, ``"adam"`` or ``"ftrl"``, with lazy updates, or an optimizer of :mod:`sparrow.optim`.
    lr
        Learning rate of a named optimizer: a number, or a schedule of :mod:`sparrow.optim`.
    l1, l2
        Penalties. ``"ftrl"`` applies them to the sum of all updates, so their relative weight decreases.
    epochs
        Number of passes over the rows.
    batch_size
        Rows of a mini-batch; the gradient is the mean over them.
    fit_intercept
        Fit a bias b, without penalty.
    shuffle
        Shuffle rows in every epoch, as :func:`sparrow.batches`.
    seed
        Seed of the order, the initial weights and the held-out rows.
    init
        Initial weights: ``"zeros"``, ``"ones"``, ``"normal"`` with standard deviation 0.01, ``"uniform"`` in [-0.07,
        0.07), a number, or a function of (shape, rng).
    dtype
        Type of the weights: ``"float64"``, or ``"float32"`` in half the memory.
    validation
        Fraction of rows to hold out, such as 0.1; or (X, y), or a bundle. Its loss is computed after each epoch.
    patience
        Number of epochs without a lower validation loss after which to stop; the best weights are kept.
    checkpoint
        Folder for a copy of the state after each epoch. A fit with the same data and settings resumes from it,
        bit-identical to an uninterrupted one; ``epochs`` may differ.

    Attributes
    ----------
    coef_, intercept_
        w, shape (features,), and b.
    loss_
        Mean loss of each epoch, of rows before their updates, without penalties.
    validation_loss_
        Mean loss of the held-out rows after each epoch.
    validation_scores_
        Metrics of the held-out rows by name, as :meth:`evaluate` returns them.
    n_features_in_, feature_names_in_, n_iter_, t_
        Number of features, their names if the matrix has labels, number of epochs and of updates.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> X = sp.random((1000, 5), density=0.5, seed=0)
    >>> model = sp.models.LinearRegression("sgd", lr=0.1, batch_size=4).fit(X, X @ np.array([1.0, 2, 3, 4, 5]) + 7)
    >>> model.coef_.round(2), model.intercept_.round(2)
    (array([1., 2., 3., 4., 5.]), np.float64(7.0))
    """

    def __init__(
        self,
        optimizer: Literal["adagrad", "sgd", "adam", "ftrl"] | Optimizer = "adagrad",
        lr: Rate | None = None,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        epochs: int = 10,
        batch_size: int = 32,
        fit_intercept: bool = True,
        shuffle: bool = True,
        seed: int = 0,
        init: Any = "zeros",
        dtype: Literal["float64", "float32"] = "float64",
        validation: Any = None,
        patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.lr = lr
        self.l1 = l1
        self.l2 = l2
        self.epochs = epochs
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.seed = seed
        self.init = init
        self.dtype = dtype
        self.validation = validation
        self.patience = patience
        self.checkpoint = checkpoint

    def _loss_kind(self, outputs: int) -> int:
        return linear.SQUARED

    @property
    def coef_(self) -> NDArray[Any]:
        """Weights, shape (features,)."""
        self._check_fitted()
        return self._weights.rows[:, 0]

    @property
    def intercept_(self) -> Any:
        """Bias."""
        self._check_fitted()
        return self._weights.bias[0, 0]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted value of each row.

        Parameters
        ----------
        X
            As in :meth:`fit`. A sparse matrix may have fewer columns than the model; the missing ones are 0.

        Returns
        -------
        numpy.ndarray
            Shape (rows,), float64.

        Raises
        ------
        ShapeError
            If there are more columns than in the model.
        UnsupportedError
            If the model is not fitted.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> model = sp.models.LinearRegression("sgd", lr=0.1, epochs=100).fit(np.eye(2), [1.0, 3.0])
        >>> model.predict(np.eye(2)).shape
        (2,)
        """
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> X = sp.random((500, 5), density=0.5, seed=0)
        >>> y = X @ np.arange(5.0)
        >>> sp.models.LinearRegression("sgd", lr=0.1, batch_size=4).fit(X, y).score(X, y) > 0.99
        True
        """
        return self.evaluate(X, y, sample_weight)["r2"]


def _requires_logistic(model: Any) -> str | None:
    return None if model.loss == "logistic" else f"probabilities require loss='logistic', got {model.loss!r}"


class LogisticRegression(Estimator):
    """Linear classification by SGD, for matrices that may be larger than memory.

    Minimizes the mean loss over the rows plus penalties, as :class:`LinearRegression`. The loss is the logistic loss
    for two classes and that of the softmax for more; or the hinge loss of a support vector machine, one-vs-rest for
    more than two classes.

    Parameters
    ----------
    optimizer, lr, l1, l2, epochs, batch_size, fit_intercept, shuffle, seed, init, dtype, validation, patience
        As in :class:`LinearRegression`.
    checkpoint
        As in :class:`LinearRegression`.
    loss
        ``"logistic"``, which provides probabilities, or ``"hinge"``.
    class_weight
        Weight of rows by class: a dictionary, or ``"balanced"`` for equal total weight of all classes.

    Attributes
    ----------
    classes_
        Classes, ascending.
    coef_, intercept_
        Shapes (1, features) and (1,) for two classes, else (classes, features) and (classes,).
    loss_, validation_loss_, validation_scores_, n_features_in_, feature_names_in_, n_iter_, t_
        As in :class:`LinearRegression`.

    Examples
    --------
    >>> import sparrow as sp
    >>> model = sp.models.LogisticRegression(epochs=2).fit(sp.datasets.load("a9a"))
    >>> round(model.score(sp.datasets.load("a9a.t")), 2)
    0.85
    """

    def __init__(
        self,
        optimizer: Literal["adagrad", "sgd", "adam", "ftrl"] | Optimizer = "adagrad",
        lr: Rate | None = None,
        *,
        loss: Literal["logistic", "hinge"] = "logistic",
        l1: float = 0.0,
        l2: float = 0.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        epochs: int = 10,
        batch_size: int = 32,
        fit_intercept: bool = True,
        shuffle: bool = True,
        seed: int = 0,
        init: Any = "zeros",
        dtype: Literal["float64", "float32"] = "float64",
        validation: Any = None,
        patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.lr = lr
        self.loss = loss
        self.l1 = l1
        self.l2 = l2
        self.class_weight = class_weight
        self.epochs = epochs
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.seed = seed
        self.init = init
        self.dtype = dtype
        self.validation = validation
        self.patience = patience
        self.checkpoint = checkpoint

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("loss", self.loss, ("logistic", "hinge"))
        if self.class_weight not in (None, "balanced") and not isinstance(self.class_weight, Mapping):
            raise InvalidValueError(f"class_weight must be a dictionary, 'balanced' or None, got {self.class_weight!r}")

    def _loss_kind(self, outputs: int) -> int:
        if self.loss == "hinge":
            return linear.HINGE
        return linear.LOGISTIC if outputs == 1 else linear.SOFTMAX

    def _is_classifier(self) -> bool:
        return True

    def _has_probabilities(self) -> bool:
        return self.loss == "logistic"

    def _compute_class_weights(self, counts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str):
            return np.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1.0)))
        unknown = [name for name in self.class_weight if name not in self.classes_]
        if unknown:
            raise InvalidValueError(
                f"classes of class_weight must be among {self.classes_.tolist()}, got {unknown[0]!r}"
            )
        for name, weight in self.class_weight.items():
            check_number(f"class_weight[{name!r}]", weight)
        return np.array([float(self.class_weight.get(name, 1.0)) for name in self.classes_.tolist()])

    @property
    def coef_(self) -> NDArray[Any]:
        """Weights, shape (1, features) for two classes, else (classes, features)."""
        self._check_fitted()
        return self._weights.rows.T

    @property
    def intercept_(self) -> NDArray[Any]:
        """Biases, shape (1,) for two classes, else (classes,)."""
        self._check_fitted()
        result: NDArray[Any] = self._weights.bias[0]
        return result

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows.

        Parameters
        ----------
        X
            As in :meth:`fit`. A sparse matrix may have fewer columns than the model; the missing ones are 0.

        Returns
        -------
        numpy.ndarray
            Shape (rows,) for two classes, positive for the second class, else (rows, classes).

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> model = sp.models.LogisticRegression().fit(np.eye(2), ["no", "yes"])
        >>> model.decision_function(np.eye(2)) > 0
        array([False,  True])
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        X
            As in :meth:`decision_function`.

        Returns
        -------
        numpy.ndarray
            Shape (rows,).

        Raises
        ------
        ShapeError
            If there are more columns than in the model.
        UnsupportedError
            If the model is not fitted.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.LogisticRegression().fit(np.eye(2), ["no", "yes"]).predict(np.eye(2))
        array(['no', 'yes'], dtype='<U3')
        """
        scores = self._scores(X)
        at = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        result: NDArray[Any] = self.classes_[at]
        return result

    @available_if(_requires_logistic)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X
            As in :meth:`decision_function`.

        Returns
        -------
        numpy.ndarray
            Shape (rows, classes).

        Raises
        ------
        UnsupportedError
            If the loss is ``"hinge"``, or the model is not fitted.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> model = sp.models.LogisticRegression(lr=1.0).fit(np.eye(2), ["no", "yes"])
        >>> model.predict_proba(np.eye(2)).sum(axis=1)
        array([1., 1.])
        """
        return to_probabilities(self._scores(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.LogisticRegression().fit(np.eye(2), [0, 1]).score(np.eye(2), [0, 1])
        1.0
        """
        return self.evaluate(X, y, sample_weight)["accuracy"]


def to_probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return class probabilities, shape (rows, classes), from scores."""
    if scores.shape[1] == 1:
        odds = np.exp(-np.abs(scores[:, 0]))  # at most 1, so it does not overflow
        second = np.where(scores[:, 0] > 0, 1.0, odds) / (1.0 + odds)
        first = np.where(scores[:, 0] > 0, odds, 1.0) / (1.0 + odds)
        return np.stack([first, second], axis=1)
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return result
