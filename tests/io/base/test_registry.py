"""The registry of formats, from which the functions and commands are made."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.io.base.registry import (
    Format,
    Option,
    Reader,
    Writer,
    description_of,
    formats,
    options_of,
    parse_names,
    register,
    unregister,
)

# -- registered formats ------------------------------------------------------------------------


@dataclass
class Cells(Reader):
    """Store cells: lines ``i j = value``.

    Parameters
    ----------
    src
        The file.
    dst
        The folder to create.
    names
        Names of the dimensions.
    order
        Which number comes first.
    offset
        What to add to the values.
    skip
        Leave zeros out.
    overwrite
        Replace what is at ``dst``.
    profile
        ``"fast"`` or ``"small"``.

    Returns
    -------
    Tensor
        What ``sp.open(dst)`` does.

    Raises
    ------
    InvalidValueError
        If an argument is not one of those above.
    """

    _: KW_ONLY
    names: Annotated[Sequence[str] | None, Option("Names.", metavar="A,B", parse=parse_names)] = None
    order: Annotated[Literal["row", "column"], Option("What comes first.")] = "row"
    offset: Annotated[int, Option("Added to the values.", minimum=0)] = 0
    skip: Annotated[bool, Option("Leave zeros out.")] = True

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = "sparrow ingest cells some.cells some.sparrow --order column"

    def read(self) -> str:
        lines = [line.replace("=", " ").split() for line in Path(str(self.src)).read_text().splitlines()]
        if any(len(line) != 3 for line in lines):
            raise InvalidValueError("a line is no cell: pass skip=False, order='column', names=['a b'] or offset=1")
        table = np.array(lines, float).reshape(-1, 3)
        coords = table[:, [0, 1] if self.order == "row" else [1, 0]].astype(int).T
        tensor = sp.from_coords(coords, table[:, 2] + self.offset, dims=self.names)
        tensor.save(os.fspath(self.dst), overwrite=self.overwrite, profile=self.profile)
        return os.fspath(self.dst)


@dataclass
class CellsWriter(Writer):
    """Write cells."""

    _: KW_ONLY
    sign: Annotated[Literal["=", ":="], Option("What stands before a value.")] = "="

    def write(self) -> int:
        found = self.tensor.to_arrow().to_pylist()
        with self.sink() as file:
            for row in found:
                i, j, value = row.values()
                file.write(f"{i} {j} {self.sign} {value:g}\n".encode())
        return len(found)


@pytest.fixture
def cells() -> Iterator[None]:
    register(Format("cells", "Cells, one a line.", reader=Cells, writer=CellsWriter, suffixes=(".cells",)))
    yield
    unregister("cells")


@pytest.mark.usefixtures("cells")
def test_registered_format(tmp_path: Path) -> None:
    (tmp_path / "a.cells").write_text("0 2 = 5\n1 0 = -1\n")
    made = sp.ingest.cells(tmp_path / "a.cells", tmp_path / "a.sparrow", names=["i", "j"])
    assert (made.dims, made.to_numpy().tolist()) == (("i", "j"), [[0, 0, 5], [-1, 0, 0]])
    assert sp.ingest.cells(tmp_path / "a.cells", tmp_path / "b.sparrow", order="column").shape == (3, 2)
    assert "cells" in dir(sp.ingest)
    assert "cells" in sp.ingest.__all__
    assert list(inspect.signature(sp.ingest.cells).parameters)[:4] == ["src", "dst", "names", "order"]
    assert sp.export(made, tmp_path / "out.cells") == 2
    assert (tmp_path / "out.cells").read_text() == "0 2 = 5\n1 0 = -1\n"
    assert sp.export(made, tmp_path / "out", "cells", sign=":=") == 2
    assert (tmp_path / "out").read_text().startswith("0 2 := 5")
    sp.export(made, tmp_path / "out.cells.zst")
    assert (tmp_path / "out.cells.zst").read_bytes().startswith(b"\x28\xb5\x2f\xfd")
    with pytest.raises(InvalidValueError, match="order must be 'row' or 'column', got 'up'"):
        sp.ingest.cells(tmp_path / "a.cells", tmp_path / "c.sparrow", order="up")
    with pytest.raises(TypeError, match=r"cells\(\) got an unexpected keyword argument 'ordr'"):
        sp.ingest.cells(tmp_path / "a.cells", tmp_path / "c.sparrow", ordr="row")
    with pytest.raises(InvalidValueError, match="'labels' is not an option of format 'cells': it has 'sign'"):
        sp.export(made, tmp_path / "c.cells", labels=False)
    with pytest.raises(InvalidValueError, match="a format 'cells' already exists"):
        register(Format("cells", "Again."))


@pytest.mark.usefixtures("cells")
def test_registered_format_on_the_command_line(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "a.cells").write_text("0 2 = 5\n1 0 = -1\n")
    target = tmp_path / "a.sparrow"
    done = cli("ingest", "cells", tmp_path / "a.cells", target, "--names", "i,j", "--offset", 1, "--json")
    assert done.code == 0, done.err
    (fact,) = done.json["tensors"]
    assert (fact["dims"], fact["nnz"], fact["shape"]) == (["i", "j"], 1, [2, 3])
    assert cli("export", target, tmp_path / "out.cells", "--sign", ":=").code == 0
    assert (tmp_path / "out.cells").read_text() == "0 2 := 6\n"
    assert "cells" in cli("ingest", "--help").out
    text = cli("ingest", "cells", "--help").out
    assert all(f"--{word}" in text for word in ("names", "order <row|column>", "offset", "skip / --no-skip", "profile"))
    assert "  sparrow ingest cells some.cells some.sparrow --order column" in text
    assert "Store cells: lines i j = value." in text
    assert ["cells", "Cells,", "one", "a", "line", ".cells"] in cli("ingest", "--list").table
    assert ["cells", "Cells,", "one", "a", "line", ".cells"] in cli("export", "--list").table
    assert cli("ingest", "cells", tmp_path / "a.cells", target, "--order", "up").code == 2
    assert cli("ingest", "cells", tmp_path / "a.cells", target, "--offset", "-1").code == 2
    assert cli("ingest", "cells", tmp_path / "a.cells", target, "--names", "i,,j").code == 2
    (tmp_path / "bad.cells").write_text("0 2\n")
    told = cli("ingest", "cells", tmp_path / "bad.cells", tmp_path / "bad.sparrow").err
    assert "pass --no-skip, --order column, names=['a b'] or --offset 1" in told


PLUGIN = """
from dataclasses import dataclass
from sparrow.io.base.registry import Format, Reader
from sparrow.io.base.sample import Stage

@dataclass
class Dots(Reader):
    def read(self):
        raise NotImplementedError

def detect(sample):
    return "it begins with dots" if sample.lines and sample.lines[0].startswith("..") else None

FORMATS = (
    Format("dots", "Dots.", reader=Dots, signatures={b"DOTS": ("a file of dots", "sparrow ingest dots {file} DST")},
           detectors={Stage.HEADER: detect}),
    Format("edges", "Not the built-in one.", reader=Dots),
)
"""

USE = """
import sys, warnings
import sparrow as sp
from sparrow.io.base.detect import detect_format
from sparrow.io.base.registry import formats

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    formats()
assert sorted(str(each.message).partition(" of ")[0] for each in caught) == [
    "file format 'broken'", "file format 'edges'"
], [str(each.message) for each in caught]
assert formats()["edges"].summary != "Not the built-in one."
assert "dots" in sp.ingest.__all__
assert detect_format("a.txt") == ("dots", "it begins with dots")
try:
    sp.ingest.edges("b.txt", "b.sparrow")
except sp.errors.IngestError as error:
    assert "this is a file of dots, not text: sp.ingest.dots('b.txt', 'b.sparrow')" in str(error), error
else:
    raise AssertionError
"""


def test_entry_points_add_formats(tmp_path: Path) -> None:
    """Entry points add formats; one that fails to load warns and is ignored."""
    (tmp_path / "dots.py").write_text(PLUGIN)
    info = tmp_path / "dots-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dots\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sparrow.formats]\ndots = dots\nbroken = dots:missing\n")
    (tmp_path / "a.txt").write_text("..\n")
    (tmp_path / "b.txt").write_text("DOTS\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=True)


# -- built-in formats -------------------------------------------------------------------------

READERS = [each for each in formats().values() if each.reader is not None]


@pytest.mark.parametrize("format", READERS, ids=lambda each: each.name)
def test_docstring_lists_every_option(format: Format) -> None:
    assert format.reader is not None
    document = inspect.getdoc(format.reader) or ""
    section = document.split("Parameters\n----------\n")[1].split("\n\nReturns\n")[0]
    told = re.findall(r"^(\w+)$", section, flags=re.MULTILINE)
    assert told == ["src", "dst", *(each.name for each in options_of(format.reader))]
    assert told == list(inspect.signature(getattr(sp.ingest, format.name)).parameters)
    assert description_of(format.reader)


@pytest.mark.parametrize("format", formats().values(), ids=lambda each: each.name)
def test_every_option_has_help(format: Format) -> None:
    assert format.summary.endswith(".")
    for kind in (format.reader, format.writer):
        assert kind is None or all(each.option.help.endswith((".", "]")) for each in options_of(kind))


PUBLIC = {
    "libsvm": "index_base='auto' n_features=None dtype='float64' duplicates='error' overwrite=False profile='fast'",
    "edges": "vertices=None ids='auto' relabel=False self_loops='keep' directed=True duplicates='sum' dtype=None "
    "header=False overwrite=False profile='fast'",
    "columns": "coords value=None shape=None dims=None relabel=False duplicates='error' fill_value=0 dtype=None "
    "header=True delimiter=None overwrite=False profile='fast' format=None",
    "npz": "dims=None overwrite=False profile='fast'",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_options(name: str) -> None:
    signature = inspect.signature(getattr(sp.ingest, name))
    source, target, *options = signature.parameters.values()
    assert (source.name, target.name) == ("src", "dst")
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in options)
    there = {each.name if each.default is each.empty else f"{each.name}={each.default!r}" for each in options}
    assert set(PUBLIC[name].split()) <= there


def test_choices_accept_strings(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n")
    assert sp.ingest.libsvm(tmp_path / "a.svm", tmp_path / "a.sparrow", index_base="1")["X"].shape == (1, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="index_base must be 'auto', 0 or 1, got 2"):
        sp.ingest.libsvm(tmp_path / "a.svm", tmp_path / "b.sparrow", index_base=2)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="ids must be 'auto', 'int' or 'str', got None"):
        sp.ingest.edges(tmp_path / "a.svm", tmp_path / "b.sparrow", ids=None)  # type: ignore[arg-type]


def test_export_errors_list_formats(tmp_path: Path) -> None:
    A = sp.eye(3)
    there = ", ".join(repr(each.name) for each in formats().values() if each.writer is not None)
    with pytest.raises(InvalidValueError, match=f"'A.xyz' is unknown: pass format=, one of {there}"):
        sp.export(A, "A.xyz")
    with pytest.raises(InvalidValueError, match="format must be one of 'parquet'"):
        sp.export(A, "A", "columns")
    with pytest.raises(InvalidValueError, match="'index_base' is not an option of format 'csv': it has 'labels'"):
        sp.export(A, tmp_path / "A.csv", index_base=0)
    with pytest.raises(InvalidValueError, match="'labels' is not an option of format 'npz': it has none"):
        sp.export(A, tmp_path / "A.npz", labels=False)
    (tmp_path / "a.svm").write_text("1 1:1\n")
    bundle = sp.ingest.libsvm(tmp_path / "a.svm", tmp_path / "a.sparrow")
    with pytest.raises(UnsupportedError, match="got a bundle: export its members 'X', 'y'"):
        sp.export(bundle, tmp_path / "a.csv")


def test_unknown_format() -> None:
    with pytest.raises(
        AttributeError, match=f"no attribute 'edgs': formats are {', '.join(sorted(sp.ingest.__all__))}"
    ):
        _ = sp.ingest.edgs
