"""Values of tensors, computed in this process."""

from __future__ import annotations

from typing import Any

import sparrow as sp

__all__ = ["elements"]


def elements(A: Any) -> list[Any]:
    with sp.config(engine="stream"):
        found: list[Any] = A.to_numpy().tolist()
    return found
