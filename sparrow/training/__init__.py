"""Training from tensors: batches of rows, and parameters that several processes share."""

from __future__ import annotations

from sparrow.training.batch import Batch
from sparrow.training.batches import Batches, batches
from sparrow.training.store import ParameterStore

__all__ = ["Batch", "Batches", "ParameterStore", "batches"]
