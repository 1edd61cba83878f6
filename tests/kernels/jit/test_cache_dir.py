"""Cache directory of kernels if no regular one is writable."""

from __future__ import annotations

import os
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


def test_numba_raises_without_any_directory(container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    cache_dir.ensure_cache_dir()
    assert "NUMBA_CACHE_DIR" not in os.environ
