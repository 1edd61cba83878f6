"""The short form of ``make trial``: a small round of each kind."""

from __future__ import annotations

import pytest

from tests import trial


@pytest.mark.parametrize(
    "name", ["kills", "interrupts", "faults", "flips", "fits", "fuzz"]
)  # the races have tests of their own, as long
def test_one_round(name: str) -> None:
    (kind,) = (kind for kind in trial.kinds(0.2) if kind.name == name)
    trial.one_round(kind, 7)
    assert kind.wrong == []
    assert kind.happened == kind.events


def test_failures_are_reported_with_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(folder: object, seed: int, events: int) -> tuple[int, list[str]]:
        if seed == 5:
            raise RuntimeError("out of order")
        return events, ["a cell was lost"]

    monkeypatch.setattr(trial, "fuzz", broken)
    for seed, told in (5, "RuntimeError: out of order"), (6, "a cell was lost"):
        assert trial.main(["--minutes", "0", "--kind", "fuzz", "--seed", str(seed)]) == 1
        out, _ = capsys.readouterr()
        assert told in out
        assert f"again: python -m tests.trial --minutes 0 --kind fuzz --seed {seed}\n" in out
        assert "| fuzz | files that are not what readers expect | 1 |" in out
    monkeypatch.setattr(trial, "fuzz", lambda folder, seed, events: (events, []))
    assert trial.main(["--minutes", "0", "--kind", "fuzz"]) == 0
