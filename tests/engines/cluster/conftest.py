"""A stored matrix of several tasks, for the tests of all schedulers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Any:
    values = np.arange(1.0, 601)
    A = sp.from_coords([np.arange(600) // 3, np.arange(600) % 7], values, shape=(200, 7))
    with sp.config(engine="stream"):
        return A.save(tmp_path_factory.mktemp("matrix") / "A.sparrow")
