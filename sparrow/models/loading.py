"""Open saved models."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sparrow.errors import CorruptionError, SparrowError
from sparrow.models.als import ALS
from sparrow.models.factorization import FactorizationMachine
from sparrow.models.linear import LinearRegression, LogisticRegression
from sparrow.models.serialization import labels_from_json, open_model, params_from_json, read_weights
from sparrow.models.sgd import Weights

__all__ = ["load"]

_CLASSES: dict[str, type] = {
    kind.__name__: kind for kind in (ALS, FactorizationMachine, LinearRegression, LogisticRegression)
}


def load(path: str | os.PathLike[str], memory_map: str | os.PathLike[str] | None = None) -> Any:
    """Open a saved model.

    The optimizer state is not saved: ``partial_fit`` continues from the weights with a new state. The data that the
    model was trained on is not needed: an ALS model contains which items each row has rated.

    Parameters
    ----------
    path
        Folder.
    memory_map
        Folder for memory-mapped factor tables, as in :class:`ALS`; other models ignore it.

    Returns
    -------
    ALS, LinearRegression, LogisticRegression or FactorizationMachine

    Raises
    ------
    NotFoundError
        If ``path`` does not exist.
    InvalidValueError
        If it is not a model.
    CorruptionError
        If it cannot be read.
    TooLargeError
        If factor tables exceed the memory limit and are not memory-mapped.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.models.LogisticRegression().fit(np.eye(2), ["no", "yes"]).save("model.sparrow")
    >>> sp.models.load("model.sparrow").predict(np.eye(2))
    array(['no', 'yes'], dtype='<U3')
    >>> sp.open("model.sparrow")
    <Bundle model.sparrow: weights, bias, coefficients>
    """
    bundle, metadata = open_model(path)
    try:
        model: Any = _CLASSES[metadata["class"]](**params_from_json(metadata["parameters"]))
        if isinstance(model, ALS):
            model.memory_map = memory_map
            model._restore(bundle, metadata)
            return model
        saved = read_weights(bundle)
        model._weights = Weights(saved.rows, saved.bias, model._n_factors())
        model._feature_dim, model.n_features_in_ = metadata["dim"], len(saved.rows)
        if saved.feature_names is not None:
            model.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        if "classes" in metadata:
            model.classes_ = labels_from_json(metadata["classes"])
            weights = metadata["classes"].get("weights")
            model._class_weight_values = None if weights is None else np.array(weights)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SparrowError):
            raise
        raise CorruptionError(f"the model at {os.fspath(path)!r} cannot be read: {error}") from error
    return model
