"""``sp.explore``: show tensors on a local page."""

from __future__ import annotations

import html
import os
import sys
from types import FrameType, TracebackType
from typing import Any, Self

from sparrow.errors import InvalidValueError
from sparrow.explorer.answers import Answers
from sparrow.explorer.catalog import Catalog
from sparrow.explorer.server import Server
from sparrow.functions.creation import asarray
from sparrow.functions.creation import open as open_stored
from sparrow.runtime.validation import check_integer
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["Explorer", "explore"]

_open: set[Explorer] = set()
"""Explorers that are not closed: a notebook may show one without keeping it."""


class Explorer:
    """A page that shows tensors, served by this process until it is closed.

    Returned by :func:`explore`; a context manager that closes it.
    """

    def __init__(self, given: Tensor | Bundle, name: str | None, port: int, height: int, in_frames: bool) -> None:
        catalog = Catalog(given, name)
        self._answers = Answers(catalog)
        self._server = Server(self._answers, port, in_frames)
        self._height = height
        self.name = catalog.title
        """Name on the page, and of the table in its SQL box."""
        self.url = self._server.url
        """Address of the page, its secret token included."""
        _open.add(self)

    @property
    def is_closed(self) -> bool:
        """True after :meth:`close`."""
        return self._server.is_closed

    def launch_url(self) -> str:
        """Return an address that leads to the page once.

        For the command line of a browser, which other users of the machine can read.
        """
        return self._server.launch_url()

    def close(self) -> None:
        """Stop the page and its queries; idempotent."""
        self._answers.queries.cancel_all()
        self._server.close()
        _open.discard(self)

    def wait(self) -> None:
        """Wait until the explorer is closed, or for Ctrl-C."""
        while not self._server.wait(0.5):  # Ctrl-C arrives between two waits
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"at {self.url}, close() ends it"
        return f"<Explorer of {self.name} {state}>"

    def _repr_html_(self) -> str:
        """Return a frame with the page, and a link to it."""
        if self.is_closed:
            return html.escape(repr(self))
        url, name = html.escape(self.url), html.escape(self.name)
        return (
            f'<iframe src="{url}" title="Explorer of {name}" width="100%" height="{self._height}" '
            'style="border:1px solid #8884;border-radius:8px" allow="clipboard-write; fullscreen"></iframe>'
            f'<div><small><a href="{url}" target="_blank" rel="noopener">open in a tab of its own</a>; if the kernel '
            f"runs on another machine, forward port {self._server.port} of it first</small></div>"
        )


def explore(A: Any, /, *, name: str | None = None, port: int = 0, height: int = 720) -> Explorer:
    """Explore a tensor in the browser: pictures that zoom, degrees, values, SQL.

    The page draws elements counted in bins, from the key ranges of row groups and a bounded sample of them at first,
    and counts on until it is exact. It shows degrees, values, versions, and the row groups and the plan of the part in
    view. A notebook shows it below the cell. It is served by this process to this machine only, under a secret address,
    loads nothing from elsewhere, and changes nothing.

    Parameters
    ----------
    A
        A tensor, stored, in memory or lazy; a bundle; the path of a stored one; or anything :func:`sparrow.asarray`
        accepts. A lazy tensor is computed part by part as it is looked at: ``persist()`` one that takes long.
    name
        Name of the tensor on the page and in SQL; by default that of your variable, or of its folder.
    port
        Port on 127.0.0.1; a free one by default.
    height
        Height of the page in a notebook, in pixels.

    Returns
    -------
    Explorer
        Has the ``url``, and ``close()``, which ends it; otherwise it ends with the process.

    Raises
    ------
    InvalidValueError
        If the tensor has no dimensions, or the port is in use.

    Examples
    --------
    >>> import sparrow as sp
    >>> page = sp.explore(sp.eye(1000))
    >>> page.url.startswith("http://127.0.0.1:")
    True
    >>> page.close()
    """
    if not isinstance(port, int) or not 0 <= port < 65536:  # type: ignore[redundant-expr]
        raise InvalidValueError(f"port must be from 0 to 65535, got {port!r}")
    check_integer("height", height, 1)
    given = open_stored(A) if isinstance(A, str | os.PathLike) else A
    if not isinstance(given, Tensor | Bundle):
        given = asarray(given)
    if name is None and given is A:
        name = _variable_name(A, sys._getframe(1))
    return Explorer(given, name, port, height, in_frames=True)


def _variable_name(thing: Any, frame: FrameType) -> str | None:
    """Return a variable of a caller that is a thing, or None."""
    found = [name for name, value in {**frame.f_globals, **frame.f_locals}.items() if value is thing]
    return next((name for name in reversed(found) if not name.startswith("_")), None)
