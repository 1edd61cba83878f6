"""Results too large for memory: found out before they are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparrow import settings
from sparrow.errors import TooLargeError

__all__ = ["check_output"]


def check_output(shape: tuple[int, ...], dtype: np.dtype[Any], further: int = 0) -> None:
    """Raise ``TooLargeError`` if a dense result, and ``further`` bytes beside it, would pass the memory limit."""
    nbytes = math.prod(shape) * dtype.itemsize + further
    limit = settings.current().memory_limit
    if nbytes > limit:
        raise TooLargeError(
            f"the dense result of shape {shape} and type {dtype} takes {nbytes} bytes, beyond the memory limit of "
            f"{limit}: multiply a part of the tensor, or raise the limit with sp.config(memory_limit=...)"
        )
