"""Shared docstring text: placeholders, and docstrings copied to functions."""

from __future__ import annotations

import inspect

import pytest

from sparrow.runtime.docs import SharedText, document_as

SHARED = SharedText(
    axis="""
    axis
        Axes to reduce.
    """,
    both="""
    %(axis)s
    out
        Array to write to.
    """,
)


@SHARED
class Example:
    """An example.

    %(axis)s
    """

    def total(self, axis: object = None, out: object = None) -> None:
        """Return 100 %.

        Parameters
        ----------
        %(both)s

        Returns
        -------
        Tensor
        """

    @property
    def size(self) -> int:
        """%(not a placeholder)s"""
        return 0

    @classmethod
    def create(cls) -> None:
        """Create one.

        %(axis)s
        """


def test_shared_text_fills_class() -> None:
    assert inspect.getdoc(Example) == "An example.\n\naxis\n    Axes to reduce."
    assert inspect.getdoc(Example.create) == "Create one.\n\naxis\n    Axes to reduce."
    assert Example.size.__doc__ == "%(not a placeholder)s"
    assert inspect.getdoc(Example.total) == (
        "Return 100 %.\n\nParameters\n----------\naxis\n    Axes to reduce.\nout\n    Array to write to.\n\n"
        "Returns\n-------\nTensor"
    )


def test_shared_text_requires_known_name() -> None:
    with pytest.raises(KeyError, match="nothing"):
        SHARED.fill("  %(nothing)s")


def test_document_as_follows_signature() -> None:
    @document_as(Example.total, x="Tensor or array.")
    def total(x: object, *, axis: object = None) -> None: ...

    assert total.__doc__ == (
        "Return 100 %.\n\nParameters\n----------\nx\n    Tensor or array.\naxis\n    Axes to reduce.\n\n"
        "Returns\n-------\nTensor"
    )


def test_document_as_adds_parameters() -> None:
    def size(self: object) -> int:
        """Return the size.

        Returns
        -------
        int
        """
        return 0

    @document_as(size, x="Tensor.")
    def size_of(x: object) -> int:
        return 0

    assert size_of.__doc__ == ("Return the size.\n\nParameters\n----------\nx\n    Tensor.\n\nReturns\n-------\nint")


def test_document_as_requires_description() -> None:
    with pytest.raises(KeyError, match="x"):
        document_as(Example.total)(lambda x: x)
