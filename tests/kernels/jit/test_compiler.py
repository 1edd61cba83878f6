"""Cache keys of kernels cover the kernels that they call."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from sparrow import kernels
from sparrow.kernels.jit import compiler
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.parse import libsvm, numbers

FOLDER = Path(kernels.__file__).parent


@pytest.fixture
def loops(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("import x\nfrom sparrow.kernels.b import (\n    f,\n)\n")
    (tmp_path / "b.py").write_text("from sparrow.kernels.c import g\n")
    (tmp_path / "c.py").write_text("def g(): ...\n")
    (tmp_path / "d.py").write_text("def h(): ...\n")
    return tmp_path


def test_stamp_covers_imported_kernels(loops: Path) -> None:
    def stamps() -> list[bytes]:
        compiler.source_stamp.cache_clear()
        return [compiler.source_stamp(str(loops / f"{name}.py")) for name in "abcd"]

    before = stamps()
    assert stamps() == before
    (loops / "c.py").write_text("def g(x): ...\n")
    assert [one == other for one, other in zip(stamps(), before, strict=True)] == [False, False, False, True]


def test_kernels_are_cached_by_stamp() -> None:
    loops: tuple[Any, ...] = (libsvm._parse, numbers.scan_float)
    for loop in loops:
        locator = loop._cache._impl.locator
        assert locator.get_source_stamp() == compiler.source_stamp(locator._py_file)
        assert Path(locator._py_file).is_relative_to(FOLDER)


def test_other_packages_keep_their_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text("def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import theirs  # type: ignore[import-not-found]

    assert "Stamped" not in type(numba.njit(theirs.f, cache=True)._cache._impl.locator).__name__


def test_kernel_files_import_kernels_absolutely() -> None:
    for path in sorted(FOLDER.rglob("*.py")):
        source = path.read_text(encoding="utf-8").replace("from sparrow.kernels.tuning import tuning\n", "")
        if path.name != "compiler.py" and re.search(r"^ *@(njit|kernel)", source, re.MULTILINE):
            assert not re.search(r"^import sparrow|^ +from sparrow", source, re.MULTILINE)
            for folder, name in re.findall(
                r"^from sparrow\.kernels\.?([a-z]*) import ([a-z_]+)$", source, re.MULTILINE
            ):
                assert not (FOLDER / folder / f"{name}.py").exists(), f"{path} imports the module {name}"
            assert not re.search(r"numba import .*\bnjit\b|numba\.njit", source), path


def test_ctrl_c_during_import_of_numba() -> None:
    code = """
import os, signal, sys
import numpy as np, sparrow as sp, sparrow.kernels.tuning, sparrow.testing

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "numba.core.types" and asked.append(name) is None and len(asked) == 1:
            os.kill(os.getpid(), signal.SIGINT)

asked = []
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
forced = sparrow.testing.tune("dispatch", forced="numba")
forced.__enter__()
A = sp.asarray(np.tri(30))
try:
    (A @ A).nnz
except KeyboardInterrupt:
    print("interrupted", (A @ A).nnz)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted 465\n"


_raise_signal = ctypes.CDLL(None)["raise"]
_raise_signal.argtypes, _raise_signal.restype = [ctypes.c_int], ctypes.c_int

RESULTS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda a: None,
    "number": lambda a: a[0] + 1,
    "array": lambda a: a + 1,
    "matrix": lambda a: np.zeros((2, 3), np.float32),
    "argument": lambda a: a,
    "view": lambda a: a[1:],
    "tuple": lambda a: (a + 1, a * 2, len(a)),
    "nested": lambda a: ((a + 1, True), 2.5),
}


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("name", RESULTS)
def test_ctrl_c_in_a_kernel_is_keyboard_interrupt(name: str) -> None:
    result = compiler.njit(RESULTS[name])

    @compiler.njit(nogil=True)
    def loop(a: Any, interrupts: bool) -> Any:
        if interrupts:
            _raise_signal(2)
        return result(a)

    values = np.arange(4)
    for array in (values, values[::2], as_readonly(values)):
        with pytest.raises(KeyboardInterrupt):  # when it is compiled
            loop(array, True)
        with pytest.raises(KeyboardInterrupt):
            loop(array, True)
        found, expected = loop(array, False), RESULTS[name](array)
        np.testing.assert_equal(found, expected)
        assert type(found) is type(expected) or not isinstance(expected, np.ndarray)


def test_arrays_of_kernels_are_numpys() -> None:
    for dtype in ("bool", "int8", "uint64", "float32", "complex128"):
        loop = compiler.njit(lambda a: (a.copy(), a))
        given = np.arange(6).reshape(2, 3).astype(dtype)
        copy, same = loop(given)
        assert same is given
        assert (copy.dtype, copy.shape, copy.flags.writeable, copy.flags.owndata) == (given.dtype, (2, 3), True, False)
        assert not loop(as_readonly(given))[1].flags.writeable
