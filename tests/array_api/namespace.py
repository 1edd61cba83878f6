"""The functions of the array API standard that tensors claim, under the standard's names.

What sparrow has by that name is sparrow's; the rest are NumPy's, which find sparrow's when a tensor is given.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import sparrow as sp

FUNCTIONS: dict[str, Any] = json.loads((Path(__file__).parent / "functions.json").read_text(encoding="utf-8"))

linalg = SimpleNamespace(
    **{
        name.partition(".")[2]: getattr(np.linalg, name.partition(".")[2])
        for name in FUNCTIONS["claimed"]
        if name.startswith("linalg.")
    }
)


def __getattr__(name: str) -> Any:
    if name in ("bool", "int8", "int64", "float32", "float64", "complex64"):
        return getattr(np, name)
    if name not in FUNCTIONS["claimed"]:
        raise AttributeError(f"{name} is not claimed")
    return getattr(sp, name, None) or getattr(np, name)
