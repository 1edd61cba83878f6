"""Named events for tests: points to observe, or to inject faults at.

:func:`emit` marks a point that a test has a reason to see: a chunk read, a run spilled, a strategy chosen, a file
about to be renamed. Without listeners it is a no-op. :mod:`sparrow.testing` listens; a listener that raises makes the
operation fail at that point.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["emit", "listen"]

_listeners: dict[str, tuple[Callable[..., Any], ...]] = {}
_lock = threading.Lock()


def emit(name: str, /, **details: Any) -> None:
    """Call the listeners of an event with its details as keyword arguments.

    Parameters
    ----------
    name
        Subsystem and event, such as ``"sorting.spill"``.
    details
        Description of the event; cheap to compute, since most events have no listener.
    """
    for listener in _listeners.get(name, ()):
        listener(**details)


@contextlib.contextmanager
def listen(name: str, listener: Callable[..., Any]) -> Iterator[None]:
    """Call ``listener`` for every event of that name within the block.

    It runs on the thread that emits the event.
    """
    with _lock:
        _listeners[name] = (*_listeners.get(name, ()), listener)
    try:
        yield
    finally:
        with _lock:
            rest = list(_listeners[name])
            rest.remove(listener)
            if rest:
                _listeners[name] = tuple(rest)
            else:
                del _listeners[name]
