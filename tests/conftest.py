"""What the tests share: folders, settings that do not leak, Hypothesis profiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sparrow import settings as sparrow_settings

# A machine under load is slow, not wrong.
settings.register_profile(
    "default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of further real data sets, beside the checkout; skips where there is none."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the folder shared/data beside the checkout")
    return folder


@pytest.fixture(scope="session")
def shipped() -> Path:
    """The folder of the data sets in the checkout."""
    return REPOSITORY / "datasets"


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    """Give each test the settings as they were before the one before it changed them."""
    with sparrow_settings.config():
        yield
