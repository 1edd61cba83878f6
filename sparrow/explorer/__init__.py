"""Explorer: a page in the browser that shows tensors."""

from __future__ import annotations

from sparrow.explorer.session import Explorer, explore

__all__ = ["Explorer", "explore"]
