"""Models that stochastic gradient descent fits to streamed rows: what linear ones and factorisation machines share."""

from __future__ import annotations

import hashlib
import math
import os
import zlib
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, ShapeError
from sparrow.functions.creation import asarray
from sparrow.kernels.jit import warmup
from sparrow.kernels.ml import linear
from sparrow.models.checking import (
    as_numbers,
    check_labels,
    check_names,
    check_numbers,
    check_share,
    class_numbers,
    distinct,
    held_out,
    not_fitted,
    tell_names,
)
from sparrow.models.checkpoints import Checkpoints
from sparrow.models.descent import OPTIMIZERS, Descent, Weights, initial, is_init, optimizer_of
from sparrow.models.metrics import Classification, Metrics, Regression
from sparrow.models.parameters import Parameters
from sparrow.models.rows import Chunk, Features, Rows, features, given_labels, label_array, row_weights
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Schedule
from sparrow.runtime import memory, progress
from sparrow.runtime.validation import check_flag, check_integer, check_number
from sparrow.tensor import Tensor

__all__ = ["Estimator"]


class Estimator(Parameters, ABC):
    """A model with scores that are linear in its weights, or nearly so.

    A derived class says how many outputs there are, which loss they have, and what is predicted from them.
    """

    optimizer: str | Optimizer
    lr: Any
    l1: float
    l2: float
    epochs: int
    batch_size: int
    fit_intercept: bool
    shuffle: bool
    seed: int
    init: Any
    dtype: str
    validation: Any
    patience: int | None
    checkpoint: str | os.PathLike[str] | None

    _weights: Weights
    _descent: Descent | None
    _by_class: NDArray[np.float64] | None
    _dim: str
    classes_: NDArray[Any]

    # -- what derived classes say ---------------------------------------------------------------

    def _width(self, outputs: int) -> int:
        """Return the numbers that a column has."""
        return outputs

    def _factors(self) -> int:
        return 0

    @abstractmethod
    def _loss(self, outputs: int) -> int:
        """Return a loss of :mod:`sparrow.kernels.ml.linear`."""

    def _is_classifier(self) -> bool:
        return False

    def _gives_chances(self) -> bool:
        return False

    def _class_weights(self, counts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return a weight for each class, None for 1."""
        return None

    # -- settings -------------------------------------------------------------------------------

    def _check(self) -> None:
        """Raise ``InvalidValueError`` where a setting is outside what it may be."""
        if isinstance(self.optimizer, str):
            if self.optimizer not in OPTIMIZERS:
                names = ", ".join(map(repr, OPTIMIZERS))
                raise InvalidValueError(f"optimizer={self.optimizer!r}: use one of {names}, or one of sp.optim")
            if self.lr is not None and not callable(self.lr):
                check_number("lr", self.lr)
        elif not isinstance(self.optimizer, Optimizer):
            raise InvalidValueError(f"optimizer={self.optimizer!r}: name one, or give one of sp.optim")
        elif self.lr is not None:
            raise InvalidValueError(f"lr={self.lr!r} beside optimizer={self.optimizer!r}: say lr there")
        check_number("l1", self.l1)
        check_number("l2", self.l2)
        for name in ("fit_intercept", "shuffle"):
            check_flag(name, getattr(self, name))
        check_integer("epochs", self.epochs, 1)
        check_integer("batch_size", self.batch_size, 1)
        check_integer("seed", self.seed, 0)
        if not is_init(self.init):
            raise InvalidValueError(
                f"init={self.init!r}: use 'zeros', 'ones', 'normal', 'uniform', a number, or a function of (shape, rng)"
            )
        if self.dtype not in ("float32", "float64"):
            raise InvalidValueError(f"dtype={self.dtype!r}: use 'float32' or 'float64'")
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
            if self.validation is None:
                raise InvalidValueError(f"patience={self.patience} without validation=: there is nothing to stop by")
        if _is_share(self.validation) and not 0 < self.validation < 1:
            raise InvalidValueError(f"validation={self.validation!r}: give a share between 0 and 1, or (X, y)")

    # -- fitting --------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to rows, streamed once an epoch, and return it.

        Parameters
        ----------
        X
            Examples by features: a tensor, stored, in memory or lazy, the path of one, what :func:`sparrow.asarray`
            takes, or a frame of pandas. A bundle, or its path, brings ``y`` along.
        y
            A label for each row: an array, a tensor of one dimension or its path.
        sample_weight
            A weight for each row. One of weight 0 is as if it was not there.

        Returns
        -------
        the model itself

        Raises
        ------
        InvalidValueError
            If a parameter is outside what it may be, a value or label is not finite or cannot be a class, or the
            checkpoint is of another fit.
        ShapeError
            If ``X`` is no matrix, or there are not as many labels as rows.
        ConvergenceError
            If the loss or weights are not finite.
        TooLargeError
            If the weights pass the memory limit.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> X = sp.random((1000, 20), density=0.2, seed=0)
        >>> model = sp.models.LinearRegression("sgd", lr=0.1, batch_size=8, epochs=20).fit(X, X @ np.arange(20.0))
        >>> model.coef_.round(1)[:4] + 0.0, model.evaluate(X, X @ np.arange(20.0))["mse"] < 0.01
        (array([0., 1., 2., 3.]), True)
        """
        warmup.warn_compiling()
        self._check()
        rows = self._opened(X, y, sample_weight)
        other = self._validating(rows.found.shape[1])
        rows.shuffle = bool(self.shuffle)
        if _is_share(self.validation):
            check_share(rows.height, self.seed, self.validation)
        descent = self._begin(rows, None)
        for each in (rows, other):
            if each is not None:
                self._encode(each)
        self._epochs(descent, rows, other)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on with rows, once and in their order; the first call begins the model.

        Parameters
        ----------
        X, y
            As of :meth:`fit`.
        classes
            All classes there will be, of a classifier: wanted by the first call where its labels are not all.
        sample_weight
            As of :meth:`fit`.

        Returns
        -------
        the model itself

        Raises
        ------
        InvalidValueError
            If a label is of no known class, and as of :meth:`fit`.
        ShapeError
            If there are columns beyond the model's, and as of :meth:`fit`.
        ConvergenceError
            If the loss is not finite.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> model = sp.models.LogisticRegression()
        >>> for batch in sp.batches(np.eye(6), [0, 1, 0, 1, 0, 1], batch_size=2):
        ...     model = model.partial_fit(batch.X, batch.y, classes=[0, 1])
        >>> model.predict(np.eye(6)[:2])
        array([0, 1])
        """
        self._check()
        begun = hasattr(self, "_weights")
        rows = self._opened(X, y, sample_weight, again=begun)
        if begun and classes is not None and self._is_classifier():
            given = np.unique(np.asarray(classes))
            if not np.array_equal(given, self.classes_):
                raise InvalidValueError(f"classes={given.tolist()}, and the first call had {self.classes_.tolist()}")
        descent = self._resumed() if begun else self._begin(rows, classes)
        self._encode(rows)
        for chunk in rows.chunks():
            descent.run(self._weighted(chunk), np.zeros(2), lambda: "partial_fit")
        self.t_ = descent.state.step
        return self

    def _opened(self, X: Any, y: Any, sample_weight: Any, again: bool = False) -> Rows:
        """Return rows with labels, whose columns have to be those of the model if there is one (``again``)."""
        X, y = given_labels(X, y)
        if y is None:
            raise InvalidValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        found = features(X)
        height, width = found.shape
        if not width:
            raise ShapeError(f"0 feature(s) (shape={found.shape}) while a minimum of 1 is required: X has no columns")
        if not height:
            raise ShapeError(f"0 sample(s) (shape={found.shape}) while a minimum of 1 is required: X has no rows")
        if again:
            self._check_width(found)
        labels = label_array(y, height)
        if labels.dtype.kind == "O" and not self._is_classifier():
            labels = as_numbers(labels)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            at = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise InvalidValueError(f"Input y contains NaN or infinity: row {at} has the label {labels[at]}")
        weights, dtype = row_weights(sample_weight, height), np.dtype(self.dtype)
        return Rows(found, labels, weights, dtype, int(self.batch_size), seed=int(self.seed))

    def _validating(self, width: int) -> Rows | None:
        """Return the rows to validate with, where they are others than those of a training matrix of ``width``."""
        if self.validation is None or _is_share(self.validation):
            return None
        X, y = given_labels(*(self.validation if isinstance(self.validation, tuple) else (self.validation, None)))
        if y is None:
            raise InvalidValueError("validation= has no labels: give (X, y), or a bundle with both")
        found = features(X)
        if found.shape[1] > width:
            raise ShapeError(f"validation= has {found.shape[1]} columns, X has {width}: columns beyond the model's")
        return Rows(found, label_array(y, found.shape[0]), None, np.dtype(self.dtype))

    def _begin(self, rows: Rows, classes: Any) -> Descent:
        """Return weights at their start; set what is known of features and classes."""
        width = rows.found.shape[1]
        outputs = self._known_classes(rows, classes) if self._is_classifier() else 1
        if not self._is_classifier():
            check_numbers(rows.y)
        dtype, columns = np.dtype(self.dtype), self._width(outputs)
        remedy = "hash the columns into fewer, or take dtype='float32'"
        memory.check(4 * width * columns * dtype.itemsize, f"weights of {width} columns", remedy)
        self._weights = Weights(self._initial((width, columns), dtype), np.zeros((1, outputs), dtype), self._factors())
        self.n_features_in_ = width
        if rows.found.names is not None:
            self.feature_names_in_ = rows.found.names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._dim = rows.found.dim
        self._descent = None
        return self._resumed()

    def _resumed(self) -> Descent:
        """Return the weights on their way; of a model that was loaded the optimiser begins anew."""
        if getattr(self, "_descent", None) is None:
            optimizer = optimizer_of(self.optimizer, self.lr, float(self.l1), float(self.l2))
            loss = self._loss(self._weights.bias.shape[1])
            self._descent = Descent(self._weights, optimizer, loss, int(self.batch_size), bool(self.fit_intercept))
        assert self._descent is not None
        return self._descent

    def _initial(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        return initial(self.init, shape, dtype, self.seed)

    def _known_classes(self, rows: Rows, classes: Any) -> int:
        """Set the classes and their weights; return the number of outputs."""
        assert rows.y is not None
        check_labels(rows.y)
        whole = rows.weights is None or bool(rows.weights.all())
        seen = rows.y if whole else rows.y[rows.weights != 0]
        found, counted = distinct(seen)
        if classes is not None:
            self.classes_ = np.unique(np.asarray(classes))
            unseen = np.setdiff1d(found, self.classes_)
            if len(unseen):
                raise InvalidValueError(
                    f"y has the class {unseen[0].item()!r}, which is not in classes={self.classes_.tolist()}"
                )
            counts = np.zeros(len(self.classes_))
            counts[np.searchsorted(self.classes_, found)] = counted
        else:
            self.classes_, counts = found, counted
        if len(self.classes_) < 2:
            raise InvalidValueError(
                f"y holds one class, {self.classes_.tolist()}: a classifier needs examples of two classes or more"
            )
        self._by_class = self._class_weights(counts)
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _encode(self, rows: Rows) -> None:
        """Replace labels by what the kernels take: numbers, or the numbers of classes.

        Raises
        ------
        InvalidValueError
            If a label is of no known class.
        """
        assert rows.y is not None
        if self._is_classifier():
            rows.y = class_numbers(rows.y, self.classes_)
        else:
            check_numbers(rows.y)

    def _weighted(self, chunk: Chunk, aside: bool | None = None) -> Chunk:
        """Return a chunk with the weights of its rows in training (False), validation (True) or as they are (None)."""
        weights = chunk.weights
        if self._is_classifier() and self._by_class is not None:
            weights = weights * self._by_class[chunk.targets.astype(np.intp)]
        if aside is not None and _is_share(self.validation):
            weights = np.where(held_out(chunk.rows, self.seed, float(self.validation)) == aside, weights, 0.0)
        return chunk if weights is chunk.weights else replace(chunk, weights=warmup.as_readonly(weights))

    def _epochs(self, descent: Descent, rows: Rows, other: Rows | None) -> None:
        """Train for all epochs, or until validation says that it is enough."""
        losses: list[float] = []
        checks: list[float] = []
        best = descent.weights.copy() if self.patience is not None else None
        arrays = descent.arrays()
        if best is not None:
            arrays |= {"best-weights": best.rows, "best-bias": best.bias}
        saved = None
        if self.checkpoint is not None:
            saved = Checkpoints(self.checkpoint, self._identity(rows))
            kept = saved.load(arrays)
            losses, checks = ([float.fromhex(x) for x in kept.get(name, ())] for name in ("losses", "checks"))
            descent.state.step = descent.of_bias.step = kept.get("step", 0)
            if len(losses) > self.epochs:
                raise InvalidValueError(
                    f"the checkpoint in {os.fspath(self.checkpoint)!r} has come to epochs={len(losses)} already, "
                    f"beyond epochs={self.epochs}: ask for as many, or name another folder"
                )

        def text() -> str:
            now = f"epoch {min(len(losses) + 1, self.epochs)} of {self.epochs}"
            seen = f", validation {checks[-1]:.6g}" if checks else ""
            return f"{now}, loss {losses[-1]:.6g}{seen}" if losses else now

        with progress.bar(text, (self.epochs - len(losses)) * rows.height, "rows") as advance:
            while len(losses) < self.epochs and not self._enough(checks):
                losses.append(self._epoch(descent, rows, len(losses), advance))
                if self.validation is not None:
                    checks.append(self._validated(rows if other is None else other, descent))
                    if best is not None and checks[-1] <= min(checks):
                        best.rows[...], best.bias[...] = descent.weights.rows, descent.weights.bias
                if saved is not None:
                    kept = {name: [x.hex() for x in each] for name, each in (("losses", losses), ("checks", checks))}
                    saved.save(arrays, len(losses), {**kept, "step": descent.state.step})
        if best is not None:
            descent.weights.rows[...], descent.weights.bias[...] = best.rows, best.bias
        self.loss_ = np.array(losses)
        if self.validation is not None:
            self.validation_loss_ = np.array(checks)
        self.n_iter_ = len(losses)
        self.t_ = descent.state.step

    def _enough(self, checks: list[float]) -> bool:
        return self.patience is not None and len(checks) - 1 - int(np.argmin(checks or [0])) >= self.patience

    def _epoch(self, descent: Descent, rows: Rows, epoch: int, advance: Any) -> float:
        """Go through all rows; return the mean loss of rows before their updates."""
        totals = np.zeros(2)
        for chunk in rows.chunks(epoch, epoch + 1 if epoch + 1 < self.epochs else None):
            descent.run(self._weighted(chunk, False), totals, lambda: f"epoch {epoch + 1}")
            advance(len(chunk.rows))
        descent.check_finite()
        return _mean(totals)

    def _validated(self, rows: Rows, descent: Descent) -> float:
        """Return the mean loss of the rows that are held out."""
        totals = np.zeros(2)
        for chunk in rows.chunks():
            weights = self._weighted(chunk, True).weights
            linear.losses(descent.loss, descent.weights.scores(chunk), chunk.targets, weights, totals)
        return _mean(totals)

    def _identity(self, rows: Rows) -> dict[str, Any]:
        """Return what a fit is, for its checkpoints: everything but the number of epochs."""
        given = {name: value for name, value in self.get_params().items() if name not in ("epochs", "checkpoint")}
        for name, value in given.items():
            if callable(value) and not isinstance(value, Schedule):
                given[name] = getattr(value, "__qualname__", type(value).__name__)
            elif isinstance(value, np.generic):
                given[name] = value.item()
            elif value is not None and not isinstance(value, bool | int | float | str):
                given[name] = repr(value) if isinstance(value, Optimizer | Schedule | dict) else type(value).__name__
        digest = zlib.crc32(np.ascontiguousarray(rows.y).tobytes() if rows.y is not None else b"")
        if rows.weights is not None:
            digest = zlib.crc32(rows.weights.tobytes(), digest)
        with closing(replace(rows, shuffle=False).chunks()) as chunks:  # type: ignore[type-var]
            first = next(chunks)
        sample = hashlib.sha256(first.data.tobytes() + first.indices.tobytes()).hexdigest()[:16]
        return {**given, "model": type(self).__name__, "data": [*rows.found.shape, digest, sample]}

    # -- what is fitted -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_weights")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        classifier = self._is_classifier()
        return Tags(
            estimator_type="classifier" if classifier else "regressor",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if classifier else None,
            regressor_tags=None if classifier else RegressorTags(),
            input_tags=InputTags(sparse=True),
        )

    def _check_fitted(self) -> None:
        """Raise ``UnsupportedError`` unless there are weights."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"this {type(self).__name__} is not fitted yet: call fit(X, y) first")

    def _check_width(self, found: Features) -> None:
        """Raise unless the columns are those of the model."""
        width, wanted, name = found.shape[1], self.n_features_in_, type(self).__name__
        if width > wanted or (found.dense and width != wanted):
            raise ShapeError(f"X has {width} features, but {name} is expecting {wanted} features as input")
        known = getattr(self, "feature_names_in_", None)
        if found.names is not None and known is not None:
            check_names(found.names, known[: len(found.names)] if not found.dense else known)
        elif found.dense and (found.names is None) != (known is None):
            tell_names(known is not None, name)

    def _asked(self, X: Any) -> Rows:
        """Return rows that are asked about."""
        self._check_fitted()
        X, _ = given_labels(X, None)
        found = features(X)
        if not found.shape[0] and found.dense:
            raise ShapeError(f"0 sample(s) (shape={found.shape}) while a minimum of 1 is required: X has no rows")
        self._check_width(found)
        return Rows(found, None, None, self._weights.rows.dtype)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows, shape (rows, outputs)."""
        rows = self._asked(X)
        outputs = self._weights.bias.shape[1]
        memory.check(8 * rows.height * outputs, f"the scores of {rows.height} rows")
        out = np.empty((rows.height, outputs))
        for chunk in rows.chunks():
            out[chunk.rows] = self._weights.scores(chunk)
        return out

    def evaluate(self, X: Any, y: Any = None, sample_weight: Any = None) -> dict[str, float]:
        """Return how well the model does on rows, in one pass over them.

        Parameters
        ----------
        X, y, sample_weight
            As of :meth:`fit`.

        Returns
        -------
        dict
            For numbers "mse" and "r2"; for classes "accuracy", of two classes "auc", and "log_loss" where the model
            gives chances.

        Raises
        ------
        UnsupportedError
            If the model is not fitted.
        ShapeError, InvalidValueError
            As of :meth:`partial_fit`.

        Examples
        --------
        >>> import sparrow as sp
        >>> model = sp.models.LogisticRegression(epochs=2).fit(sp.datasets.load("a9a"))
        >>> found = model.evaluate(sp.datasets.load("a9a.t"))
        >>> {name: round(value, 2) for name, value in found.items()}
        {'accuracy': 0.85, 'log_loss': 0.32, 'auc': 0.9}
        """
        self._check_fitted()
        rows = self._opened(X, y, sample_weight, again=True)
        self._encode(rows)
        counts: Metrics = Classification(self._gives_chances()) if self._is_classifier() else Regression()
        for chunk in rows.chunks():
            counts.add(self._weights.scores(chunk), chunk.targets, chunk.weights)
        return counts.result()

    def coefficients(self) -> Tensor:
        """Return the weights as a tensor, with the names of the features as labels, that SQL can join.

        Returns
        -------
        Tensor
            Of the features, and of the classes if there are more than two; weights that are 0 are absent.

        Raises
        ------
        UnsupportedError
            If the model is not fitted.

        Examples
        --------
        >>> import pandas as pd, sparrow as sp
        >>> frame = pd.DataFrame({"age": [0.1, 0.9, 0.2, 0.8], "size": [1.0, 0.0, 0.0, 1.0]})
        >>> model = sp.models.LogisticRegression(epochs=50, batch_size=1).fit(frame, [0, 1, 0, 1])
        >>> w = model.coefficients()
        >>> sp.sql("select label from w join w_feature using (feature) order by value desc limit 1").fetchall()
        [('age',)]
        """
        self._check_fitted()
        rows = self._linear()
        names = getattr(self, "feature_names_in_", None)
        labels: dict[str, Any] = {} if names is None else {self._dim: list(names)}
        if rows.shape[1] == 1:
            return asarray(rows[:, 0], dims=(self._dim,), labels=labels)
        name = "class" if self._dim != "class" else "label"
        labels[name] = [str(each) for each in self.classes_]
        return asarray(rows, dims=(self._dim, name), labels=labels)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model as a bundle of tensors, in one atomic step; :func:`sparrow.models.load` opens it.

        Parameters
        ----------
        path
            A folder that does not exist yet.
        overwrite
            Replace what stands there.

        Raises
        ------
        ExistsError
            If something is there and ``overwrite`` is False.
        UnsupportedError
            If the model is not fitted, or a parameter is a function.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.LinearRegression().fit(np.eye(2), [1.0, 2.0]).save("line.sparrow")
        >>> sp.open("line.sparrow")["coefficients"].shape
        (2,)
        """
        from sparrow.models.saving import save

        self._check_fitted()
        save(self, path, overwrite)

    def _linear(self) -> NDArray[Any]:
        """Return the linear weights, shape (features, outputs)."""
        return self._weights.rows


def _is_share(validation: Any) -> bool:
    return isinstance(validation, int | float | np.integer | np.floating)


def _mean(totals: NDArray[np.float64]) -> float:
    return float(totals[0] / totals[1]) if totals[1] else math.nan
