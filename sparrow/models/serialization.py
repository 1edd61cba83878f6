"""Models as bundles of tensors and JSON metadata, without pickle."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import storage
from sparrow.errors import CorruptionError, InvalidValueError, UnsupportedError
from sparrow.functions.creation import asarray
from sparrow.functions.creation import open as open_tensor
from sparrow.models.sgd import Weights
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Schedule
from sparrow.tensor import Tensor

__all__ = ["SavedModel", "params_from_json", "params_to_json", "read_model", "write_model"]

_MODEL = "model"


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Content of a model bundle."""

    rows: NDArray[Any]
    bias: NDArray[Any]
    feature_names: list[Any] | None
    metadata: dict[str, Any]
    """Class name, parameters and classes, as JSON."""


def write_model(
    path: str | os.PathLike[str],
    overwrite: bool,
    weights: Weights,
    coefficients: Tensor,
    feature_names: Any,
    metadata: dict[str, Any],
) -> None:
    """Write weights, bias and coefficients as a bundle, in one atomic step."""
    dim = metadata["dim"]
    labels: dict[str, Any] = {} if feature_names is None else {dim: list(feature_names)}
    with storage.stage_folder(path, overwrite) as folder:
        asarray(weights.rows, dims=(dim, "number"), labels=labels).save(folder / "weights")
        asarray(weights.bias, dims=("one", "output")).save(folder / "bias")
        coefficients.save(folder / "coefficients")
        storage.write_bundle(folder, dict.fromkeys(("weights", "bias", "coefficients")), {_MODEL: metadata})


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model bundle.

    Raises
    ------
    NotFoundError
        If ``path`` does not exist.
    InvalidValueError
        If it is not a model.
    CorruptionError
        If it cannot be read.
    """
    bundle = open_tensor(path)
    metadata = storage.bundle_info(path)["extra"].get(_MODEL) if storage.is_bundle(path) else None
    if metadata is None:
        raise InvalidValueError(f"{os.fspath(path)!r} is not a model: it was not written by a model's save method")
    try:
        weights = bundle["weights"]
        labels = weights.labels(0)
        return SavedModel(
            np.ascontiguousarray(weights.to_numpy()),
            np.ascontiguousarray(bundle["bias"].to_numpy()),
            None if labels is None else labels.to_pylist(),
            metadata,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"the model at {os.fspath(path)!r} cannot be read: {error}") from error


def params_to_json(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON, without those that concern the fit only."""
    values: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Optimizer | Schedule):
            values[name] = _describe(value)
        elif isinstance(value, np.generic):
            values[name] = value.item()
        elif value is None or isinstance(value, bool | int | float | str):
            values[name] = value
        elif name == "class_weight":
            values[name] = {"items": [[_to_python(key), float(weight)] for key, weight in value.items()]}
        elif name not in ("validation", "checkpoint", "init"):
            raise UnsupportedError(
                f"{name} must be a number, a string or a schedule of sp.optim to save, got {value!r}"
            )
    values.pop("checkpoint", None)
    return values


def _to_python(key: Any) -> Any:
    return key.item() if isinstance(key, np.generic) else key


def _describe(value: Optimizer | Schedule) -> dict[str, Any]:
    fields = {name: _describe(field) if isinstance(field, Schedule) else field for name, field in vars(value).items()}
    functions = [name for name, field in fields.items() if callable(field)]
    if functions:
        name = functions[0]
        raise UnsupportedError(f"{name} must be a number or a schedule of sp.optim to save, got {fields[name]!r}")
    return {"optim": type(value).__name__, "fields": fields}


def params_from_json(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters from the JSON of :func:`params_to_json`."""
    return {name: _from_json(value) for name, value in params.items()}


def _from_json(value: Any) -> Any:
    from sparrow import optim

    if isinstance(value, dict) and "optim" in value:
        return getattr(optim, value["optim"])(**params_from_json(value["fields"]))
    return dict(value["items"]) if isinstance(value, dict) else value
