"""NumPy's functions called with tensors: their arguments, as NumPy names and orders them, given to our own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from sparrow.errors import UnsupportedError
from sparrow.tensor.results import into

__all__ = ["called_as"]


def called_as(function: Callable[..., Any], own: Callable[..., Any], **renamed: str) -> Callable[..., Any]:
    """Return ``own`` with the signature of one of NumPy's functions, ``out=`` included.

    Parameters
    ----------
    function
        NumPy's.
    own
        Takes NumPy's first argument first, the others by name.
    **renamed
        What ``own`` calls a parameter that NumPy names otherwise.

    Raises
    ------
    UnsupportedError
        Of the result: if an argument is given, other than NumPy's default, that ``own`` does not take.
    """
    signature = inspect.signature(function)
    first = next(iter(signature.parameters))
    taken = inspect.signature(own).parameters

    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        out = None if "out" in taken else given.pop("out", None)
        options = {}
        for name, value in given.items():
            if name == first or value is signature.parameters[name].default:
                continue
            target = renamed.get(name, name)
            if target not in taken:
                raise UnsupportedError(
                    f"np.{function.__name__}({name}=) is not supported on sparse tensors: leave it out, or take "
                    "A.to_numpy() where it fits in memory"
                )
            options[target] = value
        return into(out, own(given[first], **options), f"np.{function.__name__}")

    return call
