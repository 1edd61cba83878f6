"""Models as bundles of tensors, which SQL can read, and back: no pickle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from sparrow import storage
from sparrow.errors import CorruptionError, InvalidValueError, UnsupportedError
from sparrow.functions.creation import asarray
from sparrow.functions.creation import open as opened
from sparrow.models.descent import Weights
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Schedule

if TYPE_CHECKING:
    from sparrow.models.estimator import Estimator

__all__ = ["load", "save"]

_MODEL = "model"


def save(model: Estimator, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write a fitted model as a bundle: weights, factors and bias, and what they are of."""
    weights, names = model._weights, getattr(model, "feature_names_in_", None)
    labels: dict[str, Any] = {} if names is None else {model._dim: list(names)}
    with storage.stage_folder(path, overwrite) as folder:
        asarray(weights.rows, dims=(model._dim, "number"), labels=labels).save(folder / "weights")
        asarray(weights.bias, dims=("one", "output")).save(folder / "bias")
        model.coefficients().save(folder / "coefficients")
        about = {"class": type(model).__name__, "parameters": _plain(model.get_params()), "dim": model._dim}
        if hasattr(model, "classes_"):
            about["classes"] = {"dtype": model.classes_.dtype.str, "values": model.classes_.tolist()}
        storage.write_bundle(folder, dict.fromkeys(("weights", "bias", "coefficients")), {_MODEL: about})


def load(path: str | os.PathLike[str]) -> Any:
    """Open a model that was saved.

    Its optimiser remembers nothing: ``partial_fit`` goes on from the weights with a state of zeros.

    Parameters
    ----------
    path
        The folder.

    Returns
    -------
    LinearRegression, LogisticRegression or FactorizationMachine

    Raises
    ------
    NotFoundError
        If there is nothing.
    InvalidValueError
        If it is no model.
    CorruptionError
        If what is there cannot be read.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.models.LogisticRegression().fit(np.eye(2), ["no", "yes"]).save("model.sparrow")
    >>> sp.models.load("model.sparrow").predict(np.eye(2))
    array(['no', 'yes'], dtype='<U3')
    >>> sp.open("model.sparrow")
    <Bundle model.sparrow: weights, bias, coefficients>
    """
    from sparrow import models

    bundle = opened(path)
    about = storage.bundle_info(path)["extra"].get(_MODEL) if storage.is_bundle(path) else None
    if about is None:
        raise InvalidValueError(f"{os.fspath(path)!r} is no model: it was not written by save of one")
    try:
        kind = getattr(models, about["class"])
        model = kind(**{name: _given(value) for name, value in about["parameters"].items()})
        weights = bundle["weights"]
        rows = np.ascontiguousarray(weights.to_numpy())
        model._weights = Weights(rows, np.ascontiguousarray(bundle["bias"].to_numpy()), model._factors())
        model._dim, model.n_features_in_ = about["dim"], len(rows)
        labels = weights.labels(0)
        if labels is not None:
            model.feature_names_in_ = np.array(labels.to_pylist(), dtype=object)
        if "classes" in about:
            classes = about["classes"]
            model.classes_ = np.array(classes["values"], np.dtype(classes["dtype"]))
            model._by_class = None
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"the model at {os.fspath(path)!r} cannot be read: {error}") from error
    return model


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON has them; what belongs to the fit alone is left out."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Optimizer | Schedule):
            found[name] = _described(value)
        elif isinstance(value, np.generic):
            found[name] = value.item()
        elif value is None or isinstance(value, bool | int | float | str):
            found[name] = value
        elif name == "class_weight":
            found[name] = {"items": [[_item(key), float(weight)] for key, weight in value.items()]}
        elif name not in ("validation", "checkpoint", "init"):
            raise UnsupportedError(f"{name}={value!r} cannot be saved: give a number, a text or a schedule of sp.optim")
    found.pop("checkpoint", None)
    return found


def _item(key: Any) -> Any:
    return key.item() if isinstance(key, np.generic) else key


def _described(value: Optimizer | Schedule) -> dict[str, Any]:
    fields = {name: _described(each) if isinstance(each, Schedule) else each for name, each in vars(value).items()}
    unknown = [name for name, each in fields.items() if callable(each)]
    if unknown:
        raise UnsupportedError(f"{unknown[0]}={fields[unknown[0]]!r} cannot be saved: use a schedule of sp.optim")
    return {"optim": type(value).__name__, "fields": fields}


def _given(value: Any) -> Any:
    """Return a parameter as it was before :func:`_plain`."""
    from sparrow import optim

    if isinstance(value, dict) and "optim" in value:
        kind = getattr(optim, value["optim"])
        return kind(**{name: _given(each) for name, each in value["fields"].items()})
    return dict(value["items"]) if isinstance(value, dict) else value
