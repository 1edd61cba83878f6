"""Parameters of scikit-learn estimators: constructor arguments, stored unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, Self

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.models.rendering import ModelSummary, render_model

__all__ = ["Parameters", "available_if"]


class Parameters:
    """Mixin of models whose parameters are the arguments of their constructor."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep
            Ignored, as no parameter is a model; for scikit-learn.

        Returns
        -------
        dict

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.models.ALS(factors=8).get_params()["factors"]
        8
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params
            New values; the others are unchanged.

        Returns
        -------
        Self
            The model itself.

        Raises
        ------
        InvalidValueError
            If a parameter does not exist.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.models.ALS().set_params(factors=8)
        ALS(factors=8)
        """
        names = self._names()
        for name, value in params.items():
            if name not in names:
                raise InvalidValueError(
                    f"parameter of {type(self).__name__} must be one of {', '.join(names)}, got {name!r}"
                )
            setattr(self, name, value)
        return self

    def _summarize(self) -> ModelSummary | None:
        """Return facts for HTML, None if the model is not fitted."""
        return None

    def _repr_html_(self) -> str:
        """Return sizes, losses and learning curves as HTML."""
        name = type(self).__name__
        return render_model(name, repr(self).removeprefix(f"{name}(").removesuffix(")"), self._summarize())

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _is_default(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


class available_if:
    """Decorator of a method that exists only if the settings of the model allow it.

    ``hasattr`` is False otherwise, as scikit-learn requires.

    Parameters
    ----------
    check
        Function of the model that returns None, or why the method is not available.
    """

    def __init__(self, check: Callable[[Any], str | None]) -> None:
        self._check = check

    def __call__(self, method: Callable[..., Any]) -> Any:
        """Return a descriptor of the method."""
        return _ConditionalMethod(self._check, method)


class _ConditionalMethod:
    def __init__(self, check: Callable[[Any], str | None], method: Callable[..., Any]) -> None:
        self._check, self._method = check, method
        self.__doc__, self.__name__, self.__wrapped__ = method.__doc__, method.__name__, method

    def __get__(self, model: Any, kind: type | None = None) -> Any:
        if model is None:
            return self._method
        reason = self._check(model)
        if reason is not None:
            raise _UnavailableError(reason)
        return MethodType(self._method, model)


class _UnavailableError(UnsupportedError, AttributeError):
    """Method that the settings of a model exclude."""


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))
