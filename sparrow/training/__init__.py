"""Training data: preprocessing, mini-batches, and parameters shared by processes."""

from __future__ import annotations

from sparrow.runtime.hints import hinted_getattr
from sparrow.training.batch import Batch
from sparrow.training.batches import Batches, batches
from sparrow.training.features import hashed, idf, one_hot, scales, train_test_split
from sparrow.training.store import ParameterStore

__all__ = [
    "Batch", "Batches", "ParameterStore", "batches", "hashed", "idf", "one_hot", "scales", "train_test_split",
]  # fmt: skip

__getattr__ = hinted_getattr(__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
