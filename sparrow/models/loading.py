"""Open saved models."""

from __future__ import annotations

import os
from typing import Any

from sparrow.models.als import ALS
from sparrow.models.factorization import FactorizationMachine
from sparrow.models.linear import LinearRegression, LogisticRegression
from sparrow.models.serialization import Persistent, load_model

__all__ = ["load"]

_CLASSES: dict[str, type[Persistent]] = {
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
    return load_model(path, _CLASSES, memory_map)
