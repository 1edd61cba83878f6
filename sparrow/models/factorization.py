"""Factorization machines by stochastic gradient descent."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import UnsupportedError
from sparrow.kernels.ml import linear
from sparrow.models.estimator import Estimator
from sparrow.models.linear import to_probabilities
from sparrow.models.parameters import available_if
from sparrow.models.sgd import initial_weights
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Rate
from sparrow.runtime.validation import check_choice, check_integer

__all__ = ["FactorizationMachine"]


def _requires_logistic(model: Any) -> str | None:
    return None if model.loss == "logistic" else f"class scores require loss='logistic', got {model.loss!r}"


class FactorizationMachine(Estimator):
    r"""Linear model with factorized weights of feature pairs (Rendle 2010).

    .. math::
        b + \sum_j w_j x_j + \sum_{j < k} (v_j \cdot v_k) x_j x_k

    A score takes time proportional to stored elements times factors. For one-hot rows of users and items it is matrix
    factorization with biases.

    Parameters
    ----------
    factors
        Length of each :math:`v_j`.
    loss
        ``"squared"`` for regression, ``"logistic"`` for two classes.
    optimizer, lr, l1, l2, epochs, batch_size, fit_intercept, shuffle, seed, dtype, validation, patience
        As in :class:`LinearRegression`. Penalties apply to weights and factors.
    checkpoint
        As in :class:`LinearRegression`.
    init
        Initial factors, as in :class:`LinearRegression`; zeros would stay zeros. Linear weights start at 0.

    Attributes
    ----------
    coef_, factors_, intercept_
        w, shape (features,), v, shape (features, factors), and b.
    classes_
        Classes, with ``"logistic"``.
    loss_, validation_loss_, validation_scores_, n_features_in_, feature_names_in_, n_iter_, t_
        As in :class:`LinearRegression`.

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

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("factors", self.factors, 1)
        check_choice("loss", self.loss, ("squared", "logistic"))

    def _is_classifier(self) -> bool:
        return self.loss == "logistic"

    def _has_probabilities(self) -> bool:
        return self.loss == "logistic"

    def _weights_per_feature(self, outputs: int) -> int:
        if outputs > 1:
            raise UnsupportedError(
                f"y must have two classes, got {len(self.classes_)}: fit one factorization machine per class"
            )
        return 1 + self.factors

    def _n_factors(self) -> int:
        return int(self.factors)

    def _loss_kind(self, outputs: int) -> int:
        return linear.LOGISTIC if self._is_classifier() else linear.SQUARED

    def _initial_weights(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        result = np.zeros(shape, dtype)
        result[:, 1:] = initial_weights(self.init, (shape[0], shape[1] - 1), dtype, self.seed)
        return result

    def _linear_weights(self) -> NDArray[Any]:
        return self._weights.rows[:, :1]

    @property
    def coef_(self) -> NDArray[Any]:
        """Linear weights, shape (features,)."""
        self._check_fitted()
        return self._weights.rows[:, 0]

    @property
    def factors_(self) -> NDArray[Any]:
        """Factors, shape (features, factors)."""
        self._check_fitted()
        return self._weights.rows[:, 1:]

    @property
    def intercept_(self) -> Any:
        """Bias."""
        self._check_fitted()
        return self._weights.bias[0, 0]

    @available_if(_requires_logistic)
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each row; positive for the second class.

        Parameters
        ----------
        X
            As in :meth:`fit`. A sparse matrix may have fewer columns than the model; the missing ones are 0.

        Returns
        -------
        numpy.ndarray
            Shape (rows,).

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.FactorizationMachine(2, "logistic").fit(np.eye(2), [0, 1]).decision_function(np.eye(2)).shape
        (2,)
        """
        return self._scores(X)[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted value, or class, of each row.

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
        >>> sp.models.FactorizationMachine(2, "logistic").fit(np.eye(2), [0, 1]).predict(np.eye(2))
        array([0, 1])
        """
        scores = self._scores(X)[:, 0]
        if not self._is_classifier():
            return scores
        result: NDArray[Any] = self.classes_[(scores > 0).astype(np.intp)]
        return result

    @available_if(_requires_logistic)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of both classes for each row.

        Parameters
        ----------
        X
            As in :meth:`decision_function`.

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
        return to_probabilities(self._scores(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 of a regression, or the accuracy of a classifier.

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
        >>> sp.models.FactorizationMachine(2, "logistic").fit(np.eye(2), [0, 1]).score(np.eye(2), [0, 1])
        1.0
        """
        return self.evaluate(X, y, sample_weight)["accuracy" if self._is_classifier() else "r2"]
