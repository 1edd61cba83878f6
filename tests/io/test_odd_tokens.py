"""Tokens that Python and the parsers understand differently.

They are read, or an error of sparrow names the file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
from sparrow.errors import SparrowError

TOKENS = {
    "separator after": "7\x1c",  # a space to str.strip(), not to int()
    "separator before": "\x1f7",
    "vertical tab": "7\x0b",
    "no-break space": "7\u00a0",
    "byte order mark": "\ufeff7",
    "zero byte": "7\x00",
    "superscript": "\u00b2",  # str.isdigit(), but no number
    "Arabic digit": "\u0663",  # int() reads it
    "full-width digit": "\uff17",
    "underscore": "1_000",
    "5000 digits": "9" * 5000,  # int() refuses more than 4300
    "5000 zeros": "0" * 5000 + "7",
    "long fraction": "1." + "0" * 5000,
    "beyond float64": "1e400",
    "beyond 64 bits": "18446744073709551616",
}

FILES: dict[str, tuple[str, Callable[[str], str], dict[str, Any]]] = {
    "column ids": (
        "columns",
        lambda t: f"user,film,stars\nada,{t},4.5\nb,12,3\nc,0,1\nc,5,1\n",
        {"coords": ["user", "film"]},
    ),
    "column int ids": (
        "columns",
        lambda t: f"user,film,stars\nada,{t},4.5\nb,12,3\nc,5,1\n",
        {"coords": ["user", "film"], "ids": {"film": "int"}},
    ),
    "column values": ("columns", lambda t: f"user,film,stars\nada,1,{t}\nb,12,3\n", {"coords": ["user", "film"]}),
    "column float values": (
        "columns",
        lambda t: f"user,film,stars\nada,1,{t}\nb,12,3\n",
        {"coords": ["user", "film"], "dtype": "float64"},
    ),
    "JSON values": ("columns", lambda t: f'{{"u":1,"v":{t}}}\n{{"u":2,"v":2}}\n', {"coords": ["u"], "format": "json"}),
    "edge ids": ("edges", lambda t: f"0 1\n3 2\n3 4\n{t} 5\n", {}),
    "first edge id": ("edges", lambda t: f"{t} 1\n3 2\n3 4\n5 5\n", {}),
    "edge weights": ("edges", lambda t: f"0 1 2\n3 2 {t}\n3 4 1\n", {}),
    "libsvm values": ("libsvm", lambda t: f"1 1:2 3:{t}\n-1 2:1\n", {}),
    "libsvm indices": ("libsvm", lambda t: f"1 1:2 {t}:3\n-1 2:1\n", {}),
    "libsvm targets": ("libsvm", lambda t: f"{t} 1:2 3:3\n-1 2:1\n", {}),
    "libffm values": ("libffm", lambda t: f"1 1:2:3 3:4:{t}\n-1 2:1:1\n", {}),
    "libffm fields": ("libffm", lambda t: f"1 1:2:3 {t}:4:5\n-1 2:1:1\n", {}),
    "mtx values": ("mtx", lambda t: f"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 {t}\n", {}),
    "mtx integers": ("mtx", lambda t: f"%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 1 {t}\n", {}),
    "mtx sizes": ("mtx", lambda t: f"%%MatrixMarket matrix coordinate real general\n3 {t} 1\n1 1 1\n", {}),
    "tns values": ("tns", lambda t: f"1 1 1 {t}\n2 2 2 1\n", {}),
    "tns indices": ("tns", lambda t: f"1 1 {t} 5\n2 2 2 1\n", {}),
    "triples": ("triples", lambda t: f"{t}\n1 2 3\n2 3 4\n", {}),
    "metis": ("metis", lambda t: f"3 {t}\n2\n1 3\n2\n", {}),
    "any format, words": ("", lambda t: f"2 {t}\n1 3\n4 5\n", {}),
    "any format, commas": ("", lambda t: f"user,film,stars\nada,{t},4.5\nb,12,3\nc,0,1\n", {}),
}


@pytest.mark.parametrize("kind", FILES)
def test_odd_tokens_are_read_or_named(tmp_path: Path, kind: str) -> None:
    name, text, options = FILES[kind]
    reader = getattr(sp.ingest, name) if name else sp.ingest
    errors = dict[str, str]()
    for number, token in enumerate(TOKENS.values()):
        source = tmp_path / f"{number}.txt"
        source.write_text(text(token), newline="")
        try:
            reader(source, tmp_path / f"{number}", **options)
        except SparrowError as error:
            errors[source.name] = str(error)
    assert all(file in error for file, error in errors.items())
    assert all((tmp_path / file[:-4]).exists() != (file in errors) for file in [p.name for p in tmp_path.glob("*.txt")])
