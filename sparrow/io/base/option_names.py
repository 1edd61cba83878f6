"""Suggestions for misspelt options of formats."""

from __future__ import annotations

import difflib
from collections.abc import Collection

__all__ = ["closest_option", "unknown_option"]

_SYNONYMS = {
    "sep": "delimiter",
    "separator": "delimiter",
    "columns": "coords",
    "weight": "value",
    "quotechar": "quotes",
}
"""Options by the names that other libraries give them."""


def closest_option(name: str, known: Collection[str]) -> str | None:
    """Return the option that is meant by a name, None if none is like it.

    Examples
    --------
    >>> (
    ...     closest_option("relable", ["coords", "relabel"]),
    ...     closest_option("sep", ["delimiter"]),
    ...     closest_option("x", ["y"]),
    ... )
    ('relabel', 'delimiter', None)
    """
    if (meant := _SYNONYMS.get(name.lower())) in known:
        return meant
    return next(iter(difflib.get_close_matches(name.lower(), known, 1)), None)


def unknown_option(function: str, name: str, known: Collection[str]) -> TypeError:
    """Return the error about an option that a function does not have.

    Examples
    --------
    >>> unknown_option("columns", "relable", ["coords", "relabel"])
    TypeError("columns() got an unexpected keyword argument 'relable': did you mean 'relabel'?")
    """
    close = closest_option(name, known)
    way = f": did you mean {close!r}?" if close else f": options are {', '.join(known)}"
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{way}")
