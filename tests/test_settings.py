from __future__ import annotations

from pathlib import Path

import pytest

from sparrow.errors import InvalidValueError
from sparrow.settings import config, current, parse_bytes


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, 1),
        (2.5e3, 2500),
        ("700", 700),
        ("1GB", 10**9),
        ("1.5 gb", 1_500_000_000),
        ("512MiB", 512 * 2**20),
        (" 2 TiB ", 2 * 2**40),
        ("64kb", 64_000),
    ],
)
def test_sizes(size: int | float | str, expected: int) -> None:
    assert parse_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "GB", "1XB", "-1GB", "1 2", "1e9", 0, -5, "0", float("nan")])
def test_what_is_no_size_is_refused(size: int | float | str) -> None:
    with pytest.raises(InvalidValueError, match="size"):
        parse_bytes(size)


def test_config_sets_at_once_and_a_block_sets_back() -> None:
    before = current()
    with config(memory_limit="1GB", threads=3, deterministic=True) as inside:
        assert inside is current()
        assert (inside.memory_limit, inside.threads, inside.deterministic) == (10**9, 3, True)
        assert inside.temp_directory == before.temp_directory
        config(threads=1)
        assert current().threads == 1
    assert current() == before


def test_a_block_sets_back_after_an_error() -> None:
    before = current()
    with pytest.raises(ZeroDivisionError), config(threads=7):
        _ = 1 // 0
    assert current() == before


def test_a_refused_setting_changes_nothing(tmp_path: Path) -> None:
    before = current()
    with pytest.raises(InvalidValueError, match="threads must be at least 1"):
        config(memory_limit="1GB", threads=0)
    with pytest.raises(InvalidValueError, match="is not a folder"):
        config(temp_directory=tmp_path / "absent")
    assert current() == before


def test_defaults() -> None:
    now = current()
    assert now.memory_limit >= 700_000_000
    assert now.threads >= 1
    assert Path(now.temp_directory).is_dir()


@pytest.mark.parametrize("wanted", [True, False])
def test_progress_can_be_forced(wanted: bool) -> None:
    with config(progress=wanted):
        assert current().show_progress() is wanted
