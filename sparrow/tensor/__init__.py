"""Tensors: the class ``Tensor`` and its base classes, one per subject."""

from __future__ import annotations

import sys

from sparrow.runtime.hints import HintedModule
from sparrow.tensor.tensor import Tensor

__all__ = ["Tensor"]

sys.modules[__name__].__class__ = HintedModule  # sp.tensor(obj) names sp.asarray
