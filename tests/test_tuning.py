"""Tuning parameters: documentation, strategies, memory shares."""

from __future__ import annotations

import sys
from dataclasses import fields

import pytest

import sparrow.testing
from sparrow.runtime.tuning import Tunable, get_tunables, memory_share, parameter

SUBSYSTEMS = sorted({name for name, *_ in sparrow.testing.parameters()})


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_parameters_have_units_and_reasons(subsystem: str) -> None:
    for field in fields(get_tunables()[subsystem].default):
        unit, reason = field.metadata.get("unit", ""), field.metadata.get("reason", "")
        assert unit, f"{subsystem}.{field.name} has no unit"
        assert reason.endswith("."), f"the reason of {subsystem}.{field.name} must be a sentence, got {reason!r}"


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_strategies_name_existing_parameters(subsystem: str) -> None:
    tunable = get_tunables()[subsystem]
    for changes in tunable.strategies.values():
        with tunable.override(**changes) as forced:
            assert all(getattr(forced, name) == value for name, value in changes.items())
        assert tunable() is tunable.default


def test_memory_shares_are_parts_of_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """Also print the table of shares."""
    shares = sparrow.testing.memory_shares()
    with capsys.disabled():
        width = max(len(f"{share.subsystem}.{share.name}") for share in shares)
        lines = [f"{f'{share.subsystem}.{share.name}':<{width}}  1/{share.parts:<6g}{share.reason}" for share in shares]
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert shares
    assert all(share.parts >= 1 for share in shares)


def test_tune_restores_values_after_errors() -> None:
    before = sparrow.testing.tuning("sorting")

    def fail() -> None:
        with sparrow.testing.tune("sorting", sample_stride=2):
            assert sparrow.testing.tuning("sorting").sample_stride == 2
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert sparrow.testing.tuning("sorting") is before


def test_unknown_names_raise() -> None:
    with pytest.raises(ValueError, match="subsystem must be one of"), sparrow.testing.tune("no_such", x=1):
        pass
    with pytest.raises(TypeError, match="no_such"), sparrow.testing.tune("sorting", no_such=1):
        pass
    with pytest.raises(ValueError, match="strategy must be one of"), sparrow.testing.strategy("no_such"):
        pass


def test_parameter_metadata() -> None:
    assert parameter(3, "rows", "A reason.").metadata == {"unit": "rows", "reason": "A reason."}
    assert memory_share(4, "A reason.").metadata["memory_share"]
    assert isinstance(get_tunables()["sorting"], Tunable)
