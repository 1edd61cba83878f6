"""Open saved models."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sparrow.errors import CorruptionError
from sparrow.models.estimator import Estimator
from sparrow.models.factorization import FactorizationMachine
from sparrow.models.linear import LinearRegression, LogisticRegression
from sparrow.models.serialization import params_from_json, read_model
from sparrow.models.sgd import Weights

__all__ = ["load"]

_CLASSES: dict[str, type[Estimator]] = {
    kind.__name__: kind for kind in (FactorizationMachine, LinearRegression, LogisticRegression)
}


def load(path: str | os.PathLike[str]) -> Any:
    """Open a saved model.

    The optimizer state is not saved: ``partial_fit`` continues from the weights with a new state.

    Parameters
    ----------
    path
        Folder.

    Returns
    -------
    LinearRegression, LogisticRegression or FactorizationMachine

    Raises
    ------
    NotFoundError
        If ``path`` does not exist.
    InvalidValueError
        If it is not a model.
    CorruptionError
        If it cannot be read.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.models.LogisticRegression().fit(np.eye(2), ["no", "yes"]).save("model.sparrow")
    >>> sp.models.load("model.sparrow").predict(np.eye(2))
    array(['no', 'yes'], dtype='<U3')
    >>> sp.open("model.sparrow")
    <Bundle model.sparrow: weights, bias, coefficients>
    """
    saved = read_model(path)
    metadata = saved.metadata
    try:
        model: Any = _CLASSES[metadata["class"]](**params_from_json(metadata["parameters"]))
        model._weights = Weights(saved.rows, saved.bias, model._n_factors())
        model._feature_dim, model.n_features_in_ = metadata["dim"], len(saved.rows)
        if saved.feature_names is not None:
            model.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        if "classes" in metadata:
            classes = metadata["classes"]
            model.classes_ = np.array(classes["values"], np.dtype(classes["dtype"]))
            model._class_weight_values = None
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"the model at {os.fspath(path)!r} cannot be read: {error}") from error
    return model
