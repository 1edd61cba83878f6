"""Models as bundles of tensors and JSON metadata, without pickle."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow import storage
from sparrow.errors import CorruptionError, InvalidValueError, SparrowError, UnsupportedError
from sparrow.functions.creation import asarray
from sparrow.functions.creation import open as open_tensor
from sparrow.models.sgd import Weights
from sparrow.optim import Optimizer
from sparrow.optim.schedules import Schedule
from sparrow.runtime.validation import check_path
from sparrow.tensor import Tensor

__all__ = [
    "Persistent", "SavedModel", "labels_from_json", "labels_to_json", "load_model", "open_model", "params_from_json",
    "params_to_json", "read_weights", "write_model", "write_model_listing",
]  # fmt: skip

_MODEL = "model"

M = TypeVar("M", bound="Persistent")


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Tensors of a model that was trained by SGD."""

    rows: NDArray[Any]
    bias: NDArray[Any]
    feature_names: list[Any] | None


class Persistent:
    """Mixin of models that are saved as bundles of tensors."""

    @classmethod
    def load(cls, path: str | os.PathLike[str], memory_map: str | os.PathLike[str] | None = None) -> Self:
        """Open a saved model of this class; :func:`sparrow.models.load` opens any.

        Parameters
        ----------
        path
            Folder.
        memory_map
            Folder for memory-mapped factor tables, as in :class:`ALS`; other models ignore it.

        Returns
        -------
        Self

        Raises
        ------
        NotFoundError
            If ``path`` does not exist.
        InvalidValueError
            If it is not a model, or one of another class.
        CorruptionError
            If it cannot be read.
        TooLargeError
            If factor tables exceed the memory limit and are not memory-mapped.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> sp.models.LinearRegression().fit(np.eye(2), [1.0, 2.0]).save("loaded.sparrow")
        >>> sp.models.LinearRegression.load("loaded.sparrow").n_features_in_
        2
        """
        return load_model(path, {cls.__name__: cls}, memory_map)

    def _restore(
        self, bundle: Mapping[str, Tensor], metadata: Mapping[str, Any], memory_map: str | os.PathLike[str] | None
    ) -> None:
        """Become the model that was saved."""
        raise NotImplementedError


def load_model(
    path: str | os.PathLike[str], classes: Mapping[str, type[M]], memory_map: str | os.PathLike[str] | None
) -> M:
    """Open a saved model of one of some classes; see :meth:`Persistent.load`."""
    bundle, metadata = open_model(path)
    name = metadata.get("class")
    if isinstance(name, str) and name not in classes and len(classes) == 1:
        raise InvalidValueError(
            f"{os.fspath(path)!r} must be a saved {next(iter(classes))}, got {name}: use sp.models.load"
        )
    try:
        model = classes[metadata["class"]](**params_from_json(metadata["parameters"]))
        model._restore(bundle, metadata, memory_map)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SparrowError):
            raise
        raise CorruptionError(f"the model at {os.fspath(path)!r} cannot be read: {error}") from error
    return model


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
        column = "number" if dim.casefold() != "number" else "weight"
        asarray(weights.rows, dims=(dim, column), labels=labels).save(folder / "weights")
        asarray(weights.bias, dims=("one", "output")).save(folder / "bias")
        coefficients.save(folder / "coefficients")
        write_model_listing(folder, ("weights", "bias", "coefficients"), metadata)


def write_model_listing(folder: Any, members: Iterable[str], metadata: Mapping[str, Any]) -> None:
    """Write the listing of a staged bundle, which makes it a model."""
    storage.write_bundle(folder, dict.fromkeys(members), {_MODEL: dict(metadata)})


def open_model(path: str | os.PathLike[str]) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
    """Open a model bundle: its tensors and its metadata.

    Raises
    ------
    NotFoundError
        If ``path`` does not exist.
    InvalidValueError
        If it is not a model.
    CorruptionError
        If it cannot be read.
    """
    path = check_path(path)
    if all(os.path.isfile(os.path.join(path, f"{side}_factors.parquet")) for side in ("user", "item")):
        raise InvalidValueError(
            f"{os.fspath(path)!r} has the factors of a model only, as save_factors writes them: save the model with "
            "model.save(path)"
        )
    bundle: Any = open_tensor(path)
    metadata = storage.bundle_info(path)["extra"].get(_MODEL) if storage.is_bundle(path) else None
    if metadata is None:
        raise InvalidValueError(f"{os.fspath(path)!r} is not a model: it was not written by a model's save method")
    storage.check_members(path)
    return bundle, metadata


def read_weights(bundle: Mapping[str, Tensor]) -> SavedModel:
    """Read the tensors of a model that was written by :func:`write_model`.

    Raises
    ------
    KeyError, TypeError, AttributeError
        If something is missing.
    """
    weights = bundle["weights"]
    labels = weights.labels(0)
    return SavedModel(
        np.ascontiguousarray(weights.to_numpy()),
        np.ascontiguousarray(bundle["bias"].to_numpy()),
        None if labels is None else labels.to_pylist(),
    )


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
            keys = [_label_to_json(key) for key in value]
            values[name] = {"items": [[key, float(weight)] for key, weight in zip(keys, value.values(), strict=True)]}
        elif name not in ("validation", "checkpoint", "init", "memory_map"):
            raise UnsupportedError(
                f"{name} must be a number, a string or a schedule of sp.optim to save, got {value!r}"
            )
    for name in ("checkpoint", "memory_map"):
        values.pop(name, None)
    return values


def labels_to_json(labels: NDArray[Any]) -> dict[str, Any]:
    """Return class labels as JSON.

    Raises
    ------
    UnsupportedError
        If a label is neither a number nor text, bytes or a date.
    """
    plain = labels.view(np.int64) if labels.dtype.kind in "mM" else labels
    return {"dtype": labels.dtype.str, "values": [_label_to_json(label) for label in plain.tolist()]}


def labels_from_json(saved: Mapping[str, Any]) -> NDArray[Any]:
    """Return class labels from the JSON of :func:`labels_to_json`."""
    dtype, values = np.dtype(saved["dtype"]), [_label_from_json(value) for value in saved["values"]]
    return np.array(values, np.int64).view(dtype) if dtype.kind in "mM" else np.array(values, dtype)


def _label_to_json(label: Any) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, bool | int | float | str):
        return label
    if isinstance(label, bytes):
        return {"bytes": label.hex()}
    if isinstance(label, date):
        return {"datetime" if isinstance(label, datetime) else "date": label.isoformat()}
    raise UnsupportedError(f"class labels must be numbers, text, bytes or dates to save, got {label!r}")


def _label_from_json(saved: Any) -> Any:
    if not isinstance(saved, dict):
        return saved
    ((kind, text),) = saved.items()
    return {"bytes": bytes.fromhex, "date": date.fromisoformat, "datetime": datetime.fromisoformat}[kind](text)


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
    if isinstance(value, dict):
        return {_label_from_json(key): weight for key, weight in value["items"]}
    return value
