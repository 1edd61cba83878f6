"""Settings of a model as scikit-learn wants them: arguments of the constructor, kept as given, checked by ``fit``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, Self

from sparrow.errors import InvalidValueError, UnsupportedError

__all__ = ["Parameters", "available_if"]


class Parameters:
    """A model whose settings are the arguments of its constructor."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep
            Changes nothing: no parameter is a model itself. For pipelines of scikit-learn.

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
        """Set parameters by name and return the model.

        Parameters
        ----------
        **params
            Values by the names of the constructor's arguments; the others stay as they are.

        Returns
        -------
        the model itself

        Raises
        ------
        InvalidValueError
            If there is no parameter of a name.

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
                    f"{type(self).__name__} has no parameter {name!r}: there are {', '.join(names)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = {name: value for name, value in self.get_params().items() if not _same(value, defaults[name].default)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


class available_if:
    """A method that a model has only if its settings allow it: else ``hasattr`` says no, as scikit-learn asks.

    Parameters
    ----------
    allowed
        From the model to None, or to what to say where there is no such method.
    """

    def __init__(self, allowed: Callable[[Any], str | None]) -> None:
        self._allowed = allowed

    def __call__(self, method: Callable[..., Any]) -> Any:
        """Return the method, as one that may be missing."""
        return _Available(self._allowed, method)


class _Available:
    def __init__(self, allowed: Callable[[Any], str | None], method: Callable[..., Any]) -> None:
        self._allowed, self._method = allowed, method
        self.__doc__, self.__name__, self.__wrapped__ = method.__doc__, method.__name__, method

    def __get__(self, model: Any, kind: type | None = None) -> Any:
        if model is None:
            return self._method
        refused = self._allowed(model)
        if refused is not None:
            raise _Unavailable(refused)
        return MethodType(self._method, model)


class _Unavailable(UnsupportedError, AttributeError):
    """A method that the settings of a model leave out."""


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))
