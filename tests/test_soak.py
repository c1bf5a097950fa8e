"""A small version of ``make soak``, and that it would notice a loss."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from dev.soak import __main__ as soak


@pytest.mark.slow
def test_a_kill_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(word if word != "500" else "60" for word in soak.SCENARIOS[0].words)
    monkeypatch.setattr(soak, "SCENARIOS", (soak.Scenario("audit", few),))
    ((_, counted),) = soak.soak(2, seed=5)
    assert counted["SIGKILL"] + counted["SIGTERM"] + counted["SIGINT"] + counted["ended before"] == 2
    assert not any(counted[fault] for fault in soak.FAULTS)


@pytest.mark.slow
def test_what_is_lost_or_different_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that vanishes between the kill and the end, and a file that changes."""
    few = tuple(word if word != "500" else "4" for word in soak.SCENARIOS[0].words)
    monkeypatch.setattr(soak, "SCENARIOS", (soak.Scenario("audit", few),))
    calls: Counter[str] = Counter()

    def finished(folder: Path) -> set[bytes]:
        calls["asked"] += 1
        return {b"a", b"b"} if calls["asked"] == 1 else {b"a"}

    def written(folder: Path) -> dict[str, bytes]:
        calls["written"] += 1
        return {"file": bytes(calls["written"])}

    monkeypatch.setattr(soak, "finished", finished)
    monkeypatch.setattr(soak, "written", written)
    ((_, counted),) = soak.soak(1, seed=5)
    assert (counted["runs lost"], counted["other output"]) == (1, 1)
