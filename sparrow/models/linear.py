"""Linear regression and logistic regression, fitted by stochastic gradient descent."""

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
    r"""Least squares by stochastic gradient descent, for matrices that may be larger than memory.

    Minimises the mean of :math:`(x_i \cdot w + b - y_i)^2 / 2` over the rows, plus ``l2`` halves of the squares and
    ``l1`` times the magnitudes of the weights; both make an elastic net. The gradient of a batch has the rows of the
    columns that occur in it and no others, and so has an update, if it is lazy: penalties then reach a weight as often
    as its column occurs.

    The same seed gives the same bits, whatever the threads. How rows are mixed depends on how they are stored; without
    ``shuffle`` that does not matter either.

    Parameters
    ----------
    optimizer
        ``"adagrad"``, ``"sgd"``, ``"adam"`` or ``"ftrl"``, with lazy updates, or an optimiser of :mod:`sparrow.optim`.
    lr
        The learning rate of one that is named: a number, or a schedule of :mod:`sparrow.optim`.
    l1, l2
        The penalties. Those of ``"ftrl"`` are on the sum of all updates, so that they count less and less.
    epochs
        How many times the rows are read.
    batch_size
        Rows of an update, whose gradient is the mean over them.
    fit_intercept
        Whether there is a bias b. It has no penalty.
    shuffle
        Whether rows come in a new order every epoch, as :func:`sparrow.batches` has it.
    seed
        Of the order, of the start, and of the rows that are held out.
    init
        The weights at the start: ``"zeros"``, ``"ones"``, ``"normal"`` with a standard deviation of 0.01,
        ``"uniform"`` from -0.07 to 0.07, a number, or a function of shape and generator.
    dtype
        Of the weights: ``"float64"``, or ``"float32"`` in half the memory.
    validation
        A share of the rows to hold out, such as 0.1, or (X, y), or a bundle: its loss is taken after each epoch.
    patience
        Ends the fit when so many epochs on end have not lowered the validation loss, and keeps the weights of the best.
    checkpoint
        A folder for a copy of everything after each epoch. A fit of the same data with the same settings goes on from
        there, and gives the same bits as one that was never cut short; ``epochs`` may be another number.

    Attributes
    ----------
    coef_, intercept_
        w, shape (features,), and b.
    loss_
        The mean loss of each epoch, of every row before its update, without penalties.
    validation_loss_
        That of the rows held out, after each epoch.
    n_features_in_, feature_names_in_, n_iter_, t_
        Columns, their names where the matrix has labels, epochs, and updates.

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

    def _loss(self, outputs: int) -> int:
        return linear.SQUARED

    @property
    def coef_(self) -> NDArray[Any]:
        """The weights, shape (features,)."""
        self._check_fitted()
        return self._weights.rows[:, 0]

    @property
    def intercept_(self) -> Any:
        """The bias."""
        self._check_fitted()
        return self._weights.bias[0, 0]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return a number for each row.

        Parameters
        ----------
        X
            As of :meth:`fit`. A sparse matrix may have fewer columns than the model: what is absent is 0.

        Returns
        -------
        numpy.ndarray

        Raises
        ------
        ShapeError
            If there are columns beyond the model's.
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
            As of :meth:`fit`.

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


def _no_chances(model: Any) -> str | None:
    return None if model.loss == "logistic" else f"loss={model.loss!r} gives no chances: fit with loss='logistic'"


class LogisticRegression(Estimator):
    r"""Classification by a linear model and stochastic gradient descent, for matrices that may be larger than memory.

    Minimises the mean loss over the rows plus penalties, as :class:`LinearRegression` does. Of two classes the loss is
    the logistic one, of more that of the softmax; or the hinge loss of a support vector machine, of more than two
    classes one against the rest.

    Parameters
    ----------
    optimizer, lr, l1, l2, epochs, batch_size, fit_intercept, shuffle, seed, init, dtype, validation, patience
        As of :class:`LinearRegression`.
    checkpoint
        As of :class:`LinearRegression`.
    loss
        ``"logistic"``, which gives chances, or ``"hinge"``.
    class_weight
        What rows count by their class: a dictionary, or ``"balanced"`` for as much in sum by each class.

    Attributes
    ----------
    classes_
        The classes, ascending.
    coef_, intercept_
        Shapes (1, features) and (1,) for two classes, else a row for each class.
    loss_, validation_loss_, n_features_in_, feature_names_in_, n_iter_, t_
        As of :class:`LinearRegression`.

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

    def _check(self) -> None:
        super()._check()
        check_choice("loss", self.loss, ("logistic", "hinge"))
        if self.class_weight not in (None, "balanced") and not isinstance(self.class_weight, Mapping):
            raise InvalidValueError(f"class_weight={self.class_weight!r}: give a dictionary, 'balanced' or None")

    def _loss(self, outputs: int) -> int:
        if self.loss == "hinge":
            return linear.HINGE
        return linear.LOGISTIC if outputs == 1 else linear.SOFTMAX

    def _is_classifier(self) -> bool:
        return True

    def _gives_chances(self) -> bool:
        return self.loss == "logistic"

    def _class_weights(self, counts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str):
            return np.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1.0)))
        beyond = [name for name in self.class_weight if name not in self.classes_]
        if beyond:
            raise InvalidValueError(f"class_weight has {beyond[0]!r}, the classes are {self.classes_.tolist()}")
        for name, weight in self.class_weight.items():
            check_number(f"class_weight[{name!r}]", weight)
        return np.array([float(self.class_weight.get(each, 1.0)) for each in self.classes_.tolist()])

    @property
    def coef_(self) -> NDArray[Any]:
        """The weights, shape (1, features) for two classes, else (classes, features)."""
        self._check_fitted()
        return self._weights.rows.T

    @property
    def intercept_(self) -> NDArray[Any]:
        """The biases, shape (1,) for two classes, else (classes,)."""
        self._check_fitted()
        found: NDArray[Any] = self._weights.bias[0]
        return found

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows.

        Parameters
        ----------
        X
            As of :meth:`fit`. A sparse matrix may have fewer columns than the model: what is absent is 0.

        Returns
        -------
        numpy.ndarray
            Shape (rows,) for two classes, where more than 0 stands for the second, else (rows, classes).

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
            As of :meth:`decision_function`.

        Returns
        -------
        numpy.ndarray

        Raises
        ------
        ShapeError
            If there are columns beyond the model's.
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
        found: NDArray[Any] = self.classes_[at]
        return found

    @available_if(_no_chances)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the chance of each class for each row.

        Parameters
        ----------
        X
            As of :meth:`decision_function`.

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
        return chances(self._scores(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is right.

        Parameters
        ----------
        X, y, sample_weight
            As of :meth:`fit`.

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


def chances(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the chance of each class, shape (rows, classes), by scores of one output or of several."""
    if scores.shape[1] == 1:
        small = np.exp(-np.abs(scores[:, 0]))
        second = np.where(scores[:, 0] > 0, 1.0, small) / (1.0 + small)
        first = np.where(scores[:, 0] > 0, small, 1.0) / (1.0 + small)
        return np.stack([first, second], axis=1)
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return found
