"""Shared docstring text, inserted at import as SciPy's ``doccer`` does.

A module declares its texts and decorates functions, or a class for all of its methods::

    shared = SharedText(
        axis='''
        axis
            Axes to reduce, by number or name; all by default.
        ''',
    )


    @shared
    def total(x, axis=None):
        '''Return the sum of elements.

        %(axis)s
        '''

:func:`document_as` copies the docstring of a method to an equivalent function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from textwrap import indent
from typing import Any, TypeVar

__all__ = ["SharedText", "document_as"]

T = TypeVar("T")
_PLACEHOLDER = re.compile(r"^([ \t]*)%\((\w+)\)s$", re.MULTILINE)
_PARAMETERS = re.compile(r"(?<=^Parameters\n-{10}\n).*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


class SharedText:
    """Texts by name, and a decorator that inserts them into docstrings.

    A placeholder ``%(name)s`` is a line of its own. The inserted text takes its indentation.

    Parameters
    ----------
    *bases
        Shared texts of other modules to include.
    **texts
        Texts of any indentation. Each may contain placeholders of earlier ones.

    Examples
    --------
    >>> shared = SharedText(
    ...     axis='''
    ...     axis
    ...         Axes to reduce.
    ... '''
    ... )
    >>> @shared
    ... def total(x, axis=None):
    ...     '''Return the sum.
    ...
    ...     %(axis)s
    ...     '''
    >>> print(inspect.getdoc(total))
    Return the sum.
    <BLANKLINE>
    axis
        Axes to reduce.
    """

    def __init__(self, *bases: SharedText, **texts: str) -> None:
        self._texts: dict[str, str] = {}
        for base in bases:
            self._texts.update(base._texts)
        for name, text in texts.items():
            self._texts[name] = self.fill(inspect.cleandoc(text))

    def __call__(self, thing: T) -> T:
        """Fill the docstring of a function, or of a class and its members."""
        members = list(vars(thing).values()) if isinstance(thing, type) else []
        for member in (thing, *members):
            target = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            document = getattr(target, "__doc__", None)
            if document is not None and "%(" in document:
                target.__doc__ = self.fill(document)
        return thing

    def fill(self, document: str) -> str:
        """Return a docstring with its placeholders replaced.

        Raises
        ------
        KeyError
            If there is no text of that name.
        """
        return _PLACEHOLDER.sub(lambda found: indent(self._texts[found[2]], found[1]), document)


def document_as(source: Any, **parameters: str) -> Callable[[T], T]:
    """Return a decorator that copies the docstring of an equivalent function.

    The copy documents the parameters of the decorated function, in the order of its signature.

    Parameters
    ----------
    source
        Function whose docstring is copied.
    **parameters
        Descriptions of parameters that ``source`` lacks or documents differently.

    Examples
    --------
    >>> def method(self, axis=None, out=None):
    ...     '''Return the sum.
    ...
    ...     Parameters
    ...     ----------
    ...     axis
    ...         Axes to reduce.
    ...     out
    ...         Array to write to.
    ...     '''
    >>> @document_as(method, x="Tensor or array.")
    ... def function(x, axis=None): ...
    >>> function.__doc__.splitlines()[4:]
    ['x', '    Tensor or array.', 'axis', '    Axes to reduce.']
    """

    def decorate(target: T) -> T:
        function: Any = target
        if source.__doc__ is None:  # python -OO
            return target
        document = inspect.cleandoc(source.__doc__)
        found = _PARAMETERS.search(document)
        entries = [] if found is None else re.split(r"\n(?=\S)", found[0])
        known = {name: entry for entry in entries for name in entry.partition("\n")[0].split(", ")}
        known |= {name: f"{name}\n{indent(inspect.cleandoc(text), '    ')}" for name, text in parameters.items()}
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        text = "\n".join(dict.fromkeys(known[name] for name in names))
        if found is not None:
            function.__doc__ = document[: found.start()] + text + document[found.end() :]
        else:
            summary, sections = re.split(r"^(?=[A-Z][A-Za-z ]+\n-{3})", document, maxsplit=1, flags=re.MULTILINE)
            function.__doc__ = f"{summary}Parameters\n----------\n{text}\n\n{sections}"
        return target

    return decorate
