"""Base class of models that are fitted by SGD to streamed rows."""

from __future__ import annotations

import hashlib
import math
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import check_array
from sparrow.errors import InvalidValueError, NotFoundError, ShapeError, StorageError
from sparrow.functions.creation import asarray
from sparrow.kernels.jit import warmup
from sparrow.kernels.ml import linear
from sparrow.models.checkpoints import Checkpoints
from sparrow.models.examples import (
    ExampleChunk,
    ExampleStream,
    FeatureMatrix,
    resolve_inputs,
    to_feature_matrix,
    to_label_array,
    to_sample_weights,
)
from sparrow.models.metrics import Classification, Metrics, Regression
from sparrow.models.parameters import Parameters
from sparrow.models.rendering import ModelSummary
from sparrow.models.serialization import (
    Persistent,
    labels_from_json,
    labels_to_json,
    params_to_json,
    read_weights,
    write_model,
)
from sparrow.models.sgd import OPTIMIZERS, Trainer, Weights, initial_weights, is_valid_init, resolve_optimizer
from sparrow.models.targets import (
    check_classes,
    check_feature_names,
    check_numbers,
    check_validation_share,
    count_classes,
    encode_classes,
    is_held_out,
    not_fitted_error,
    to_numbers,
    warn_feature_names,
)
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Schedule
from sparrow.runtime import memory, progress
from sparrow.runtime.hints import HintedAttributes
from sparrow.runtime.validation import check_flag, check_integer, check_number
from sparrow.tensor import Tensor, display

__all__ = ["Estimator"]


class Estimator(HintedAttributes, Parameters, Persistent, ABC):
    """Model trained by stochastic gradient descent.

    Derived classes define the number of outputs, the loss and the predictions.
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
    _trainer: Trainer | None
    _class_weight_values: NDArray[np.float64] | None
    _feature_dim: str
    classes_: NDArray[Any]

    def _weights_per_feature(self, outputs: int) -> int:
        """Return the number of weights of a feature."""
        return outputs

    def _n_factors(self) -> int:
        return 0

    @abstractmethod
    def _loss_kind(self, outputs: int) -> int:
        """Return a loss constant of :mod:`sparrow.kernels.ml.linear`."""

    def _is_classifier(self) -> bool:
        return False

    def _has_probabilities(self) -> bool:
        return False

    def _compute_class_weights(self, counts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return a weight per class, None for 1."""
        return None

    def _check_params(self) -> None:
        """Raise ``InvalidValueError`` if a parameter is invalid."""
        names = ", ".join(map(repr, OPTIMIZERS))
        if isinstance(self.optimizer, str) and self.optimizer in OPTIMIZERS:
            if self.lr is not None and not callable(self.lr):
                check_number("lr", self.lr)
        elif not isinstance(self.optimizer, Optimizer):
            raise InvalidValueError(
                f"optimizer must be one of {names}, or an optimizer of sp.optim, got {self.optimizer!r}"
            )
        elif self.lr is not None:
            raise InvalidValueError(
                f"lr must be None beside optimizer={self.optimizer!r}, got {self.lr!r}: set it there"
            )
        check_number("l1", self.l1)
        check_number("l2", self.l2)
        for name in ("fit_intercept", "shuffle"):
            check_flag(name, getattr(self, name))
        check_integer("epochs", self.epochs, 1)
        check_integer("batch_size", self.batch_size, 1)
        check_integer("seed", self.seed, 0)
        if not is_valid_init(self.init):
            raise InvalidValueError(
                "init must be 'zeros', 'ones', 'normal', 'uniform', a number, or a function of (shape, rng), got "
                f"{self.init!r}"
            )
        if self.dtype not in ("float32", "float64"):
            raise InvalidValueError(f"dtype must be 'float32' or 'float64', got {self.dtype!r}")
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
            if self.validation is None:
                raise InvalidValueError(f"patience={self.patience} requires validation, got None")
        if _is_share(self.validation) and not 0 < self.validation < 1:
            raise InvalidValueError(
                f"validation must be a fraction between 0 and 1, or (X, y), got {self.validation!r}"
            )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to rows, which are streamed once per epoch.

        Parameters
        ----------
        X
            Examples by features: a tensor (stored, in memory or lazy), its path, what :func:`sparrow.asarray` accepts,
            or a pandas frame. A bundle, or its path, provides ``y`` too.
        y
            Label of each row: an array, a 1-D tensor or its path. If its rows and those of ``X`` have labels, they are
            matched by label, as those of weights are.
        sample_weight
            Weight of each row; rows of weight 0 are ignored.

        Returns
        -------
        Self
            The fitted model itself.

        Raises
        ------
        InvalidValueError
            If a parameter is invalid, a value or label is not finite or not a class, or the checkpoint belongs to
            another fit.
        ShapeError
            If ``X`` is not a matrix, or the numbers of labels and rows differ.
        LabelError
            If labels of rows are not the same, in any order.
        ConvergenceError
            If the loss or the weights are not finite.
        TooLargeError
            If the weights exceed the memory limit.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> X = sp.random((1000, 20), density=0.2, seed=0)
        >>> model = sp.models.LinearRegression("sgd", lr=0.1, batch_size=8, epochs=20).fit(X, X @ np.arange(20.0))
        >>> model.coef_.round(1)[:4] + 0.0, model.evaluate(X, X @ np.arange(20.0))["mse"] < 0.01
        (array([0., 1., 2., 3.]), True)
        """
        self._check_params()
        rows = self._load_training(X, y, sample_weight)
        validation_rows = self._load_validation(rows.matrix)
        rows.shuffle = bool(self.shuffle)
        if _is_share(self.validation):
            check_validation_share(rows.height, self.seed, self.validation)
        trainer = self._initialize(rows, None)
        for stream in (rows, validation_rows):
            if stream is not None:
                self._encode_targets(stream)
        self._train(trainer, rows, validation_rows)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on rows once, in order; the first call creates the model.

        Parameters
        ----------
        X, y
            As in :meth:`fit`.
        classes
            All classes of a classifier; required by the first call unless its labels include all.
        sample_weight
            As in :meth:`fit`.

        Returns
        -------
        Self
            The model itself.

        Raises
        ------
        InvalidValueError
            If a label has an unknown class, and as in :meth:`fit`.
        ShapeError
            If there are more columns than in the model, and as in :meth:`fit`.
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
        self._check_params()
        is_started = hasattr(self, "_weights")
        rows = self._load_training(X, y, sample_weight, is_started=is_started)
        if is_started and classes is not None and self._is_classifier():
            given = np.unique(check_array(classes, "classes"))
            if not np.array_equal(given, self.classes_):
                raise InvalidValueError(
                    f"classes must be those of the first call, {self.classes_.tolist()}, got {given.tolist()}"
                )
        trainer = self._get_trainer() if is_started else self._initialize(rows, classes)
        self._encode_targets(rows)
        for chunk in rows.chunks():
            trainer.train(self._apply_weights(chunk), np.zeros(2), lambda: "partial_fit")
        self.t_ = trainer.state.step
        return self

    def _load_training(self, X: Any, y: Any, sample_weight: Any, is_started: bool = False) -> ExampleStream:
        """Return labelled rows; if ``is_started``, their columns must match the model."""
        X, y = resolve_inputs(X, y)
        if y is None:
            raise InvalidValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        features = to_feature_matrix(X)
        height, width = features.shape
        if not width:
            raise ShapeError(
                f"0 feature(s) (shape={features.shape}) while a minimum of 1 is required: X has no columns"
            )
        if not height:
            raise ShapeError(f"0 sample(s) (shape={features.shape}) while a minimum of 1 is required: X has no rows")
        if is_started:
            self._check_width(features)
        labels = to_label_array(y, height, features.X)
        if labels.dtype.kind == "O" and not self._is_classifier():
            labels = to_numbers(labels)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            at = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise InvalidValueError(f"Input y contains NaN or infinity: row {at} has the label {labels[at]}")
        weights, dtype = to_sample_weights(sample_weight, height, features.X), np.dtype(self.dtype)
        return ExampleStream(features, labels, weights, dtype, int(self.batch_size), seed=int(self.seed))

    def _load_validation(self, training: FeatureMatrix) -> ExampleStream | None:
        """Return separate validation rows with the features of the training, or None."""
        if self.validation is None or _is_share(self.validation):
            return None
        if isinstance(self.validation, _MissingData):
            raise NotFoundError(f"validation data was missing when the model was unpickled: {self.validation.problem}")
        X, y = resolve_inputs(*(self.validation if isinstance(self.validation, tuple) else (self.validation, None)))
        if y is None:
            raise InvalidValueError("validation must have labels: pass (X, y), or a bundle with both")
        features = to_feature_matrix(X)
        width = training.shape[1]
        if features.shape[1] > width:
            raise ShapeError(f"validation must have at most {width} columns, as X, got {features.shape[1]}")
        self._check_names(features, training.names)
        return ExampleStream(features, to_label_array(y, features.shape[0], features.X), None, np.dtype(self.dtype))

    def _initialize(self, rows: ExampleStream, classes: Any) -> Trainer:
        """Create the weights, set the features and classes, and return the trainer."""
        width = rows.matrix.shape[1]
        outputs = self._set_classes(rows, classes) if self._is_classifier() else 1
        if not self._is_classifier():
            check_numbers(rows.y)
        dtype, columns = np.dtype(self.dtype), self._weights_per_feature(outputs)
        remedy = "hash the columns into fewer, or use dtype='float32'"
        memory.check(4 * width * columns * dtype.itemsize, f"weights of {width} columns", remedy)
        initial, bias = self._initial_weights((width, columns), dtype), np.zeros((1, outputs), dtype)
        self._weights = Weights(initial, bias, self._n_factors())
        self.n_features_in_ = width
        if rows.matrix.names is not None:
            self.feature_names_in_ = rows.matrix.names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._feature_dim = rows.matrix.dim
        self._trainer = None
        return self._get_trainer()

    def _get_trainer(self) -> Trainer:
        """Return the trainer; that of a loaded model starts with a new optimizer state."""
        if getattr(self, "_trainer", None) is None:
            optimizer = resolve_optimizer(self.optimizer, self.lr, float(self.l1), float(self.l2))
            loss = self._loss_kind(self._weights.bias.shape[1])
            self._trainer = Trainer(self._weights, optimizer, loss, int(self.batch_size), bool(self.fit_intercept))
        assert self._trainer is not None
        return self._trainer

    def _initial_weights(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        return initial_weights(self.init, shape, dtype, self.seed)

    def _set_classes(self, rows: ExampleStream, classes: Any) -> int:
        """Set the classes and their weights, and return the number of outputs."""
        assert rows.y is not None
        check_classes(rows.y)
        all_weighted = rows.weights is None or bool(rows.weights.all())
        labels = rows.y if all_weighted else rows.y[rows.weights != 0]
        present, present_counts = count_classes(labels)
        if classes is not None:
            self.classes_ = np.unique(check_array(classes, "classes"))
            unseen = np.setdiff1d(present, self.classes_)
            if len(unseen):
                raise InvalidValueError(
                    f"class {unseen[0].item()!r} of y must be one of classes={self.classes_.tolist()}"
                )
            counts = np.zeros(len(self.classes_))
            counts[np.searchsorted(self.classes_, present)] = present_counts
        else:
            self.classes_, counts = present, present_counts
        if len(self.classes_) < 2:
            raise InvalidValueError(f"y must have at least two classes, got one class, {self.classes_.tolist()}")
        self._class_weight_values = self._compute_class_weights(counts)
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _encode_targets(self, rows: ExampleStream) -> None:
        """Replace labels by numbers, or class numbers.

        Raises
        ------
        InvalidValueError
            If a class is unknown.
        """
        assert rows.y is not None
        if self._is_classifier():
            rows.y = encode_classes(rows.y, self.classes_)
        else:
            check_numbers(rows.y)

    def _apply_weights(self, chunk: ExampleChunk, is_validation: bool | None = None) -> ExampleChunk:
        """Return a chunk with class weights applied and held-out rows masked.

        ``is_validation`` selects the held-out rows (True), the others (False) or all (None).
        """
        weights = chunk.weights
        if self._is_classifier() and self._class_weight_values is not None:
            weights = weights * self._class_weight_values[chunk.targets.astype(np.intp)]
        if is_validation is not None and _is_share(self.validation):
            weights = np.where(
                is_held_out(chunk.rows, self.seed, float(self.validation)) == is_validation, weights, 0.0
            )
        return chunk if weights is chunk.weights else replace(chunk, weights=warmup.as_readonly(weights))

    def _train(self, trainer: Trainer, rows: ExampleStream, validation_rows: ExampleStream | None) -> None:
        """Train for all epochs, or until validation stops the fit."""
        losses: list[float] = []
        validation_losses: list[float] = []
        best = trainer.weights.copy() if self.patience is not None else None
        arrays = trainer.arrays()
        if best is not None:
            arrays |= {"best-weights": best.rows, "best-bias": best.bias}
        metrics: Metrics | None = None  # of the weights that are kept
        scores: dict[str, float] = {}
        checkpoints = None
        if self.checkpoint is not None:
            checkpoints = Checkpoints(self.checkpoint, self._identity(rows))
            metadata = checkpoints.load(arrays)
            losses, validation_losses = (
                [float.fromhex(x) for x in metadata.get(name, ())] for name in ("losses", "checks")
            )
            trainer.state.step = trainer.bias_state.step = metadata.get("step", 0)
            scores = metadata.get("scores", {})
            if len(losses) > self.epochs:
                raise InvalidValueError(
                    f"epochs must be at least {len(losses)}, the epochs of the checkpoint in "
                    f"{os.fspath(self.checkpoint)!r}, got {self.epochs}: raise it, or pass another folder"
                )

        epoch = len(losses)

        def text() -> str:
            now = f"epoch {epoch} of {self.epochs}"
            checked = f", validation {validation_losses[-1]:.6g}" if validation_losses else ""
            return f"{now}, loss {losses[-1]:.6g}{checked}" if losses else now

        with progress.bar(text, (self.epochs - len(losses)) * rows.height, "rows") as advance:
            while len(losses) < self.epochs and not self._should_stop(validation_losses):
                epoch = len(losses) + 1
                losses.append(self._train_epoch(trainer, rows, len(losses), advance))
                if self.validation is not None:
                    loss, found = self._validate(rows if validation_rows is None else validation_rows, trainer)
                    validation_losses.append(loss)
                    if best is None or loss <= min(validation_losses):
                        metrics = found
                        if best is not None:
                            best.rows[...], best.bias[...] = trainer.weights.rows, trainer.weights.bias
                if checkpoints is not None:
                    metadata = {
                        name: [x.hex() for x in values]
                        for name, values in (("losses", losses), ("checks", validation_losses))
                    }
                    scores = scores if metrics is None else metrics.result()
                    checkpoints.save(arrays, len(losses), {**metadata, "step": trainer.state.step, "scores": scores})
        if best is not None:
            trainer.weights.rows[...], trainer.weights.bias[...] = best.rows, best.bias
        self.loss_ = np.array(losses)
        for name in ("validation_loss_", "validation_scores_"):
            vars(self).pop(name, None)
        if self.validation is not None:
            self.validation_loss_ = np.array(validation_losses)
            self.validation_scores_ = scores if metrics is None else metrics.result()
        self.n_iter_ = len(losses)
        self.t_ = trainer.state.step

    def _should_stop(self, validation_losses: list[float]) -> bool:
        return (
            self.patience is not None
            and len(validation_losses) - 1 - int(np.argmin(validation_losses or [0])) >= self.patience
        )

    def _train_epoch(self, trainer: Trainer, rows: ExampleStream, epoch: int, advance: Any) -> float:
        """Train on all rows and return the mean loss of rows before their updates."""
        totals = np.zeros(2)
        for chunk in rows.chunks(epoch, epoch + 1 if epoch + 1 < self.epochs else None):
            trainer.train(self._apply_weights(chunk, False), totals, lambda: f"epoch {epoch + 1}")
            advance(len(chunk.rows))
        trainer.check_finite()
        return _mean(totals)

    def _validate(self, rows: ExampleStream, trainer: Trainer) -> tuple[float, Metrics]:
        """Return the mean loss and the metrics of the held-out rows."""
        totals, metrics = np.zeros(2), self._create_metrics()
        for chunk in rows.chunks():
            scores, weights = trainer.weights.scores(chunk), self._apply_weights(chunk, True).weights
            metrics.add(scores, chunk.targets, chunk.weights * (weights != 0))  # not weighted by class, as evaluate
            linear.losses(trainer.loss, scores, chunk.targets, weights, totals)  # overwrites the scores
        return _mean(totals), metrics

    def _create_metrics(self) -> Metrics:
        return Classification(self._has_probabilities()) if self._is_classifier() else Regression()

    def _identity(self, rows: ExampleStream) -> dict[str, Any]:
        """Return the settings and data that identify the fit in checkpoints."""
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
        return {**given, "model": type(self).__name__, "data": [*rows.matrix.shape, digest, sample]}

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
        """Raise ``UnsupportedError`` unless the model is fitted."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted_error(f"{type(self).__name__} must be fitted: call fit(X, y) first")

    def _check_width(self, features: FeatureMatrix) -> None:
        """Raise an error unless the columns match those of the model."""
        width, expected, name = features.shape[1], self.n_features_in_, type(self).__name__
        if width > expected or (features.dense and width != expected):
            raise ShapeError(f"X has {width} features, but {name} is expecting {expected} features as input")
        self._check_names(features, getattr(self, "feature_names_in_", None))

    def _check_names(self, features: FeatureMatrix, known: NDArray[Any] | None) -> None:
        """Raise ``InvalidValueError`` if both have feature names, and they differ."""
        if features.names is not None and known is not None:
            check_feature_names(features.names, known[: len(features.names)] if not features.dense else known)
        elif features.dense and (features.names is None) != (known is None):
            warn_feature_names(known is not None, type(self).__name__)

    def _load_features(self, X: Any) -> ExampleStream:
        """Return the rows of an input for prediction."""
        self._check_fitted()
        X, _ = resolve_inputs(X, None)
        features = to_feature_matrix(X)
        if not features.shape[0] and features.dense:
            raise ShapeError(f"0 sample(s) (shape={features.shape}) while a minimum of 1 is required: X has no rows")
        self._check_width(features)
        return ExampleStream(features, None, None, self._weights.rows.dtype)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows, shape (rows, outputs)."""
        rows = self._load_features(X)
        outputs = self._weights.bias.shape[1]
        memory.check(8 * rows.height * outputs, f"scores of {rows.height} rows")
        out = np.empty((rows.height, outputs))
        for chunk in rows.chunks():
            out[chunk.rows] = self._weights.scores(chunk)
        return out

    def evaluate(self, X: Any, y: Any = None, sample_weight: Any = None) -> dict[str, float]:
        """Return metrics of the model on rows, in one pass.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        dict
            "mse" and "r2" of a regression. "accuracy" of a classifier, "auc" for two classes, and "log_loss" if the
            model has probabilities.

        Raises
        ------
        UnsupportedError
            If the model is not fitted.
        ShapeError, InvalidValueError
            As in :meth:`partial_fit`.

        Examples
        --------
        >>> import sparrow as sp
        >>> model = sp.models.LogisticRegression(epochs=2).fit(sp.datasets.load("a9a"))
        >>> result = model.evaluate(sp.datasets.load("a9a.t"))
        >>> {name: round(value, 2) for name, value in result.items()}
        {'accuracy': 0.85, 'log_loss': 0.32, 'auc': 0.9}
        """
        self._check_fitted()
        rows = self._load_training(X, y, sample_weight, is_started=True)
        self._encode_targets(rows)
        metrics = self._create_metrics()
        for chunk in rows.chunks():
            metrics.add(self._weights.scores(chunk), chunk.targets, chunk.weights)
        return metrics.result()

    def coefficients(self) -> Tensor:
        """Return the linear weights as a tensor with feature names as labels, for SQL.

        Returns
        -------
        Tensor
            Shape (features,), or (features, classes) for more than two classes. Weights of 0 are not stored.

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
        rows = self._linear_weights()
        names = getattr(self, "feature_names_in_", None)
        labels: dict[str, Any] = {} if names is None else {self._feature_dim: list(names)}
        if rows.shape[1] == 1:
            return asarray(rows[:, 0], dims=(self._feature_dim,), labels=labels)
        name = "class" if self._feature_dim != "class" else "label"
        labels[name] = [str(label) for label in self.classes_]
        return asarray(rows, dims=(self._feature_dim, name), labels=labels)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model as a bundle of tensors, in one atomic step.

        :func:`sparrow.models.load` opens it.

        Parameters
        ----------
        path
            New folder.
        overwrite
            Replace an existing model.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        UnsupportedError
            If the model is not fitted, or a parameter is a function.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.LinearRegression().fit(np.eye(2), [1.0, 2.0]).save("line.sparrow")
        >>> sp.open("line.sparrow")["coefficients"].shape
        (2,)
        """
        self._check_fitted()
        params = params_to_json(self.get_params())
        metadata: dict[str, Any] = {"class": type(self).__name__, "parameters": params, "dim": self._feature_dim}
        metadata["training"] = {name: _to_json(getattr(self, name)) for name in _TRAINING if hasattr(self, name)}
        if hasattr(self, "classes_"):
            weights = self._class_weight_values
            metadata["classes"] = {
                **labels_to_json(self.classes_),
                "weights": None if weights is None else weights.tolist(),
            }
        names = getattr(self, "feature_names_in_", None)
        write_model(path, overwrite, self._weights, self.coefficients(), names, metadata)

    def _restore(
        self, bundle: Mapping[str, Tensor], metadata: Mapping[str, Any], memory_map: str | os.PathLike[str] | None
    ) -> None:
        """Become the model that was saved."""
        saved = read_weights(bundle)
        self._weights = Weights(saved.rows, saved.bias, self._n_factors())
        self._feature_dim, self.n_features_in_ = metadata["dim"], len(saved.rows)
        if saved.feature_names is not None:
            self.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        if "classes" in metadata:
            self.classes_ = labels_from_json(metadata["classes"])
            weights = metadata["classes"].get("weights")
            self._class_weight_values = None if weights is None else np.array(weights)
        for name, value in metadata.get("training", {}).items():  # models of earlier versions have none
            setattr(self, name, _from_json(name, value))

    def _summarize(self) -> ModelSummary | None:
        """Return sizes, losses and scores for HTML, None if the model is not fitted."""
        if not self.__sklearn_is_fitted__():
            return None
        weights = self._weights.rows
        summary = ModelSummary()
        named = " with names" if hasattr(self, "feature_names_in_") else ""
        summary.facts.append(("features", f"{self.n_features_in_:,}{named}"))
        if self._is_classifier():
            first = self.classes_[:_SHOWN].tolist()
            shown = [f"{label:.6g}" if isinstance(label, float) else str(label) for label in first]
            more = f", ... {len(self.classes_):,} in all" if len(self.classes_) > _SHOWN else ""
            summary.facts.append(("classes", ", ".join(shown) + more))
        summary.facts.append(("weights", f"{weights.dtype}, {display.human_bytes(weights.nbytes)}"))
        losses: Any = getattr(self, "loss_", ())
        checks: Any = getattr(self, "validation_loss_", ())
        if len(losses):
            early = ", stopped by validation" if len(losses) < self.epochs else ""
            summary.facts.append(("epochs", f"{len(losses)} of {self.epochs}{early}"))
            summary.facts.append(("loss", f"{losses[-1]:.6g}"))
            summary.curves.append(("loss", list(losses)))
        if len(checks):
            best = int(np.argmin(checks))
            summary.facts.append(
                ("validation loss", f"{checks[-1]:.6g}, lowest {checks[best]:.6g} in epoch {best + 1}")
            )
            summary.curves.append(("validation loss", list(checks)))
        scores = getattr(self, "validation_scores_", {})
        if scores:
            text = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items())
            summary.facts.append(("validation", text))
        linear_weights = self._linear_weights()
        if linear_weights.shape[1] == 1 and linear_weights.any():
            column = linear_weights[:, 0]
            top = np.argsort(-np.abs(column), kind="stable")[:_SHOWN]
            names = getattr(self, "feature_names_in_", None)
            rows = [(str(at if names is None else names[at]), float(column[at])) for at in top.tolist() if column[at]]
            summary.tables.append(("largest weights", ("feature", "weight"), rows))
        return summary

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes; tensors of validation data are opened afterwards.

        The data may be missing where the model is unpickled.
        """
        state = self.__dict__.copy()
        if state["validation"] is not None and not _is_share(state["validation"]):
            state["validation"] = _DeferredData(_defer_tensors(state["validation"]))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(self.validation, _DeferredData):
            self.validation = self.validation.load()

    def _linear_weights(self) -> NDArray[Any]:
        """Return the linear weights, shape (features, outputs)."""
        return self._weights.rows


_TRAINING = ("loss_", "validation_loss_", "validation_scores_", "n_iter_", "t_")
"""Attributes that tell how the training went."""
_SHOWN = 5


def _to_json(value: Any) -> Any:
    """Return losses, scores or a count as JSON; numbers that are not finite are null."""
    if isinstance(value, dict):
        return {name: _to_json(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [_to_json(each) for each in value.tolist()]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _from_json(name: str, value: Any) -> Any:
    """Return an attribute from the JSON of ``_to_json``."""
    if isinstance(value, dict):
        return {key: math.nan if each is None else float(each) for key, each in value.items()}
    return np.array([math.nan if each is None else each for each in value], float) if name.endswith("loss_") else value


@dataclass(frozen=True, slots=True)
class _DeferredTensor:
    """A tensor as the function that opens it, and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _DeferredData:
    """Data of a parameter, whose tensors are opened if they can be."""

    data: Any

    def load(self) -> Any:
        """Return the data, or what raises the error when it is used."""
        try:
            return _open_tensors(self.data)
        except StorageError as error:
            return _MissingData(str(error))


def _defer_tensors(data: Any) -> Any:
    if isinstance(data, Tensor):
        return _DeferredTensor(*data.__reduce__()[:2])
    return type(data)(map(_defer_tensors, data)) if type(data) in (tuple, list) else data


def _open_tensors(data: Any) -> Any:
    if isinstance(data, _DeferredTensor):
        return data.function(*data.arguments)
    return type(data)(map(_open_tensors, data)) if type(data) in (tuple, list) else data


@dataclass(frozen=True, slots=True)
class _MissingData:
    """Data of a parameter that was missing where the model was unpickled."""

    problem: str


def _is_share(validation: Any) -> bool:
    return isinstance(validation, int | float | np.integer | np.floating)


def _mean(totals: NDArray[np.float64]) -> float:
    return float(totals[0] / totals[1]) if totals[1] else math.nan
