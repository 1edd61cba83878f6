"""Tensors: the class ``Tensor`` and its base classes, one per subject."""

from __future__ import annotations

from sparrow.tensor.tensor import Tensor

__all__ = ["Tensor"]
