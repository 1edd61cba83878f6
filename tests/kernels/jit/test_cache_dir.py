"""Cache directory of kernels if no regular one is writable."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sparrow.kernels.jit import cache_dir


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make only the temporary directory writable; return the cache directory."""
    import numba.core.config

    monkeypatch.setattr(os, "access", lambda path, mode: str(path).startswith(str(tmp_path)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", "")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # registers the variable for restoration
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    return tmp_path / f"sparrow-loops-{os.getuid()}"


def test_temporary_directory_with_one_notice(container: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache_dir.ensure_cache_dir()
    assert os.environ["NUMBA_CACHE_DIR"] == sys.modules["numba.core.config"].CACHE_DIR == str(container)
    assert f"compiled kernels are cached in {container}; set NUMBA_CACHE_DIR" in capsys.readouterr().err
    assert container.stat().st_mode & 0o777 == 0o700
    cache_dir.ensure_cache_dir()  # as in a child process
    del os.environ["NUMBA_CACHE_DIR"]
    cache_dir.ensure_cache_dir()  # as in the next process
    assert os.environ["NUMBA_CACHE_DIR"] == str(container)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("made", ["open to all", "a link", "a file"])
def test_directory_writable_by_others_is_rejected(container: Path, made: str) -> None:
    if made == "open to all":
        container.mkdir()
        container.chmod(0o777)
    elif made == "a link":
        (container.parent / "elsewhere").mkdir(mode=0o700)
        container.symlink_to(container.parent / "elsewhere")
    else:
        container.touch()
    cache_dir.ensure_cache_dir()
    kept = Path(os.environ["NUMBA_CACHE_DIR"])
    assert kept != container
    assert kept.parent == container.parent
    assert kept.stat().st_mode & 0o777 == 0o700


def test_writable_directory_changes_nothing(
    container: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(container.parent / "given" / "below"))
    cache_dir.ensure_cache_dir()
    assert os.environ["NUMBA_CACHE_DIR"] == str(container.parent / "given" / "below")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(container.parent / "home"))
    cache_dir.ensure_cache_dir()
    assert "NUMBA_CACHE_DIR" not in os.environ
    assert not container.exists()
    assert not capsys.readouterr().err


def test_nothing_is_set_without_any_directory(container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    cache_dir.ensure_cache_dir()
    assert "NUMBA_CACHE_DIR" not in os.environ


@pytest.mark.parametrize("is_full", [True, False], ids=["full disk", "no directory"])
def test_kernels_run_without_a_cache(tmp_path: Path, is_full: bool) -> None:
    """The disk takes no file of more than 100 bytes, or none at all."""
    script = (
        "import os, resource, tempfile\n"
        f"if {is_full}:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "else:\n"
        "    def refuse(*args, **options):\n"
        "        raise OSError(28, 'No space left on device')\n"
        "    os.makedirs = tempfile.TemporaryFile = refuse\n"
        "import numpy as np\n"
        "from sparrow.kernels.keys import sortedness\n"
        "for dtype in (np.int64, np.int32):\n"
        "    assert sortedness(np.arange(5, dtype=dtype), 3) == (True, True, True)\n"
    )
    run = subprocess.run(
        [sys.executable, "-B", "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    reason = "File too large" if is_full else "No space left on device"
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("compiled kernels cannot be cached in ") == run.stderr.count("\n") == 1
    assert f"({reason}): every process compiles them; free space, or set NUMBA_CACHE_DIR" in run.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
