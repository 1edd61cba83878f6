"""Extension of Griffe: docstrings as Markdown, annotations as written."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Convert docstrings and annotations."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Convert the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = split_parameters(convert_math(obj.docstring.value))

    def on_function_instance(self, *, node: Any, func: griffe.Function, **kwargs: Any) -> None:
        """Show annotations as written; inspection resolves DTypeLike to Union."""
        function = inspect.unwrap(node.obj)
        for parameter in func.parameters:
            parameter.annotation = _find_annotation(function, parameter.name, func) or parameter.annotation
        func.returns = _find_annotation(function, "return", func) or func.returns

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Show the type of a property."""
        getter = getattr(node.obj, "fget", None)
        if getter is not None:
            attr.annotation = _find_annotation(getter, "return", attr) or attr.annotation


def _find_annotation(function: Any, name: str, owner: Any) -> Any:
    """Return an annotation, aliases of Literal expanded; None if there is none."""
    text = getattr(function, "__annotations__", {}).get(name)
    if not isinstance(text, str):
        return None
    alias = getattr(function, "__globals__", {}).get(text)
    if typing.get_origin(alias) is typing.Literal:
        text = repr(alias).removeprefix("typing.")
    return griffe.safe_get_expression(ast.parse(text, mode="eval").body, owner.parent, parse_strings=False)


def convert_math(text: str) -> str:
    r"""Write ``.. math::`` and ``:math:`` as arithmatex reads them.

    >>> print(convert_math("The loss is :math:`a + b`."))
    The loss is \(a + b\).
    """
    text = re.sub(r":math:`([^`]+)`", lambda found: rf"\({found[1]}\)", text)

    def display(found: re.Match[str]) -> str:
        lines = textwrap.dedent(found[2]).strip().split("\n")
        return textwrap.indent("\n".join(["", "\\[", *lines, "\\]", ""]), found[1])

    return re.sub(r"^( *)\.\. math::\n((?:\1 +\S.*\n?|\n(?=\1 ))+)", display, text, flags=re.MULTILINE)


def split_parameters(text: str) -> str:
    r"""Give parameters that share a description an entry each, with a type each.

    >>> print(split_parameters("a, b\n    Sizes."))
    a
        Sizes.
    b
        Sizes.
    """

    def split(found: re.Match[str]) -> str:
        return "".join(f"{found[1]}{name}\n{found[3]}" for name in found[2].split(", "))

    text += "" if text.endswith("\n") else "\n"
    text = re.sub(r"^( *)(\w+(?:, \w+)+)\n((?:\1    +\S.*\n)+)", split, text, flags=re.MULTILINE)
    return text.rstrip("\n")
