"""Permutations of dimensions."""

from __future__ import annotations

import pytest

from sparrow.core.indexing import check_permutation
from sparrow.errors import ShapeError


def test_check_permutation() -> None:
    assert check_permutation((-1, 0), 2) == (1, 0)
    with pytest.raises(ShapeError, match="each of 2 dimensions once"):
        check_permutation((0, 0), 2)
