"""Tensor, the class that people hold, put together from what it can do: each subject is one module."""

from __future__ import annotations

from sparrow.tensor.tensor import Tensor

__all__ = ["Tensor"]
