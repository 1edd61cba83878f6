"""Warnings at the line of the caller outside the package."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["warn_caller"]

_PACKAGE = str(Path(__file__).parents[1])


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning that names the first line outside the package.

    ``stacklevel`` would be another number for every public function that comes here.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
