"""Memory of products: a part for each product of a plan, waiting for others.

The products of a plan are read at the same time, so each gets an equal part of the working memory. That depends on the
plan alone, and so do the bits. Products of plans that other threads evaluate are independent: one that finds too little
memory waits until they release theirs. A plan that holds memory already does not wait, so that no two plans wait for
each other.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from contextvars import ContextVar

from sparrow.engines.stream.product.tuning import tuning
from sparrow.runtime import events, memory

__all__ = ["ProductBudget", "divide_memory"]

_products: ContextVar[int] = ContextVar("sparrow_products_of_plan", default=1)
"""Number of products of the plan that is lowered."""

_rooms: weakref.WeakSet[_Room] = weakref.WeakSet()
_changed = threading.Condition(threading.RLock())


@contextlib.contextmanager
def divide_memory(products: int) -> Iterator[None]:
    """Give each product that is lowered within the block an equal part of the memory."""
    token = _products.set(max(products, 1))
    try:
        yield
    finally:
        _products.reset(token)


class ProductBudget:
    """The part of the working memory that one product may hold.

    The thread that lowers a plan owns the memory of its products.
    """

    __slots__ = ("_owner", "_products")

    def __init__(self) -> None:
        self._owner, self._products = threading.get_ident(), min(_products.get(), tuning().max_divided_products)

    def working_bytes(self) -> int:
        """Return the working memory of the product, given by limit and plan."""
        return memory.working_bytes() // self._products

    def reserve(self, what: str, remedy: str) -> memory.Reservation:
        """Return an empty reservation, which waits for other plans where it grows."""
        return _Room(what, remedy, self._owner)


class _Room(memory.Reservation):
    """A reservation of a product."""

    __slots__ = ("__weakref__", "_owner")

    def __init__(self, what: str, remedy: str, owner: int) -> None:
        super().__init__(what, remedy)
        self._owner = owner
        with _changed:
            _rooms.add(self)

    def grow(self, nbytes: int) -> None:
        """Reserve ``nbytes`` more, waiting while other plans hold too much.

        Raises
        ------
        TooLargeError
            If they are not available; the reservation is unchanged.
        """
        limit, deadline = memory.working_bytes(), None
        with _changed:
            while self._must_wait(nbytes, limit):
                now = time.monotonic()
                deadline = now + tuning().wait_seconds if deadline is None else deadline
                if now >= deadline:
                    break
                events.emit("product.wait", nbytes=nbytes)
                _changed.wait(tuning().wait_poll_seconds)  # reservations that are collected do not notify
            super().grow(nbytes)

    def resize(self, nbytes: int) -> None:
        """Set the size without a check."""
        super().resize(nbytes)
        with _changed:
            _changed.notify_all()

    def _must_wait(self, nbytes: int, limit: int) -> bool:
        """Return whether plans of other threads hold memory that this one could wait for."""
        rooms = list(_rooms)
        if any(room.nbytes for room in rooms if room._owner == self._owner):
            return False
        held = sum(room.nbytes for room in rooms)
        return held > 0 and held + nbytes > limit
