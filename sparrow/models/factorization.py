"""Factorisation machines, fitted by stochastic gradient descent."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import UnsupportedError
from sparrow.kernels.ml import linear
from sparrow.models.descent import initial
from sparrow.models.estimator import Estimator
from sparrow.models.linear import chances
from sparrow.models.parameters import available_if
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Rate
from sparrow.runtime.validation import check_choice, check_integer

__all__ = ["FactorizationMachine"]


def _no_chances(model: Any) -> str | None:
    return None if model.loss == "logistic" else f"loss={model.loss!r} is of numbers, not of classes: use 'logistic'"


class FactorizationMachine(Estimator):
    r"""A linear model and all pairs of features, whose weights are products of factors (Rendle 2010).

    .. math::
        b + \sum_j w_j x_j + \sum_{j < k} (v_j \cdot v_k) x_j x_k

    A score costs as many steps as there are entries times factors. Where the rows are one-hot users and items, this is
    matrix factorisation with biases.

    Parameters
    ----------
    factors
        Numbers in each :math:`v_j`.
    loss
        ``"squared"`` for numbers, ``"logistic"`` for two classes.
    optimizer, lr, l1, l2, epochs, batch_size, fit_intercept, shuffle, seed, dtype, validation, patience
        As of :class:`LinearRegression`. The penalties are on weights and factors.
    checkpoint
        As of :class:`LinearRegression`.
    init
        The factors at the start, as of :class:`LinearRegression`; zeros would stay zeros. Linear weights begin at 0.

    Attributes
    ----------
    coef_, factors_, intercept_
        w, shape (features,), v, shape (features, factors), and b.
    classes_
        The classes of ``"logistic"``.
    loss_, validation_loss_, n_features_in_, feature_names_in_, n_iter_, t_
        As of :class:`LinearRegression`.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> X = np.random.default_rng(0).integers(0, 2, (2000, 4)) * 2.0 - 1
    >>> y = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    >>> sp.models.FactorizationMachine(4, epochs=20).fit(X, y).score(X, y) > 0.99
    True
    >>> sp.models.LinearRegression(epochs=20).fit(X, y).score(X, y) > 0.01
    False
    """

    def __init__(
        self,
        factors: int = 8,
        loss: Literal["squared", "logistic"] = "squared",
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
        init: Any = "normal",
        dtype: Literal["float64", "float32"] = "float64",
        validation: Any = None,
        patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.factors = factors
        self.loss = loss
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

    def _check(self) -> None:
        super()._check()
        check_integer("factors", self.factors, 1)
        check_choice("loss", self.loss, ("squared", "logistic"))

    def _is_classifier(self) -> bool:
        return self.loss == "logistic"

    def _gives_chances(self) -> bool:
        return self.loss == "logistic"

    def _width(self, outputs: int) -> int:
        if outputs > 1:
            raise UnsupportedError(
                f"y has {len(self.classes_)} classes: a factorization machine tells two, fit one for each class"
            )
        return 1 + self.factors

    def _factors(self) -> int:
        return int(self.factors)

    def _loss(self, outputs: int) -> int:
        return linear.LOGISTIC if self._is_classifier() else linear.SQUARED

    def _initial(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        found = np.zeros(shape, dtype)
        found[:, 1:] = initial(self.init, (shape[0], shape[1] - 1), dtype, self.seed)
        return found

    def _linear(self) -> NDArray[Any]:
        return self._weights.rows[:, :1]

    @property
    def coef_(self) -> NDArray[Any]:
        """The linear weights, shape (features,)."""
        self._check_fitted()
        return self._weights.rows[:, 0]

    @property
    def factors_(self) -> NDArray[Any]:
        """The factors, shape (features, factors)."""
        self._check_fitted()
        return self._weights.rows[:, 1:]

    @property
    def intercept_(self) -> Any:
        """The bias."""
        self._check_fitted()
        return self._weights.bias[0, 0]

    @available_if(_no_chances)
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each row, of two classes.

        Parameters
        ----------
        X
            As of :meth:`fit`. A sparse matrix may have fewer columns than the model: what is absent is 0.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.FactorizationMachine(2, "logistic").fit(np.eye(2), [0, 1]).decision_function(np.eye(2)).shape
        (2,)
        """
        return self._scores(X)[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a number, or the class, for each row.

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
        >>> sp.models.FactorizationMachine(2, "logistic").fit(np.eye(2), [0, 1]).predict(np.eye(2))
        array([0, 1])
        """
        scores = self._scores(X)[:, 0]
        if not self._is_classifier():
            return scores
        found: NDArray[Any] = self.classes_[(scores > 0).astype(np.intp)]
        return found

    @available_if(_no_chances)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the chance of both classes for each row.

        Parameters
        ----------
        X
            As of :meth:`decision_function`.

        Returns
        -------
        numpy.ndarray
            Shape (rows, 2).

        Raises
        ------
        UnsupportedError
            If the loss is ``"squared"``, or the model is not fitted.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.FactorizationMachine(2, "logistic").fit(np.eye(2), [0, 1]).predict_proba(np.eye(2)).shape
        (2, 2)
        """
        return chances(self._scores(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 of numbers, of classes the share of rows whose class is right.

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
        >>> sp.models.FactorizationMachine(2, "logistic").fit(np.eye(2), [0, 1]).score(np.eye(2), [0, 1])
        1.0
        """
        return self.evaluate(X, y, sample_weight)["accuracy" if self._is_classifier() else "r2"]
