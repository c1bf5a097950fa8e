"""What a summary warns of: rewards outside the range, rows that contradict each other; and who acted how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.cli import main

pytestmark = pytest.mark.usefixtures("one_database")
LOG: dict[str, Any] = {
    "state": ["home", "home", "road", "road", "home", "road"],
    "action": ["go", "wait", "go", "go", "go", "wait"],
    "reward": [0.0, 0.5, 1.0, 0.0, 7.0, -2.0],
    "next_state": ["road", "home", "home", "road", "road", "road"],
}


def csv_of(log: dict[str, Any], path: Path) -> Path:
    rows = [list(log), *zip(*log.values(), strict=True)]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


# --- rewards outside the range --------------------------------------------------------------------------------------


@pytest.mark.parametrize("many_values", [False, True])
def test_rewards_outside_the_range_are_refused_with_the_place(many_values: bool, tmp_path: Path) -> None:
    log = {name: column * (1 if not many_values else 500) for name, column in LOG.items()}
    if many_values:  # which are added up in stretches
        log["reward"] = [0.5 + i / 10_000 for i in range(2998)] + [7.0, -2.0]
    path = csv_of(log, tmp_path / "log.csv")
    with pytest.raises(rr.InvalidInput) as refusal:
        rr.from_transitions(path, gamma=0.9, reward_range=(0, 1))
    rows = len(log["state"])
    line, said = rows, f"2 of {rows} rewards are outside reward_range [0, 1]: they go from -2 to 7"
    assert str(refusal.value).startswith(f"{path}, line {line}: {said}")
    assert rr.from_transitions(log, gamma=0.9, reward_range=(-2, 7)).rows == rows
    process = rr.data.Process((0,), (0,), 0.9, (0.0, 1.0))
    with pytest.raises(rr.InvalidInput, match="reward must lie in reward_range"):
        rr.Dataset(process, [0], [0], [0], [1.5], [1])


def test_the_command_line_refuses_with_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(csv_of(LOG, tmp_path / "log.csv"))
    assert main(["diagnose", path, "--gamma", "0.9", "--reward-range", "0", "1"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "2 of 6 rewards are outside --reward-range [0, 1]" in said
    assert "log.csv, line 6" in said


# --- rows that contradict each other --------------------------------------------------------------------------------


def warned(log: dict[str, Any], **options: Any) -> str:
    return "\n".join(rr.from_transitions(log, gamma=0.9, **options).summary().warnings)


@pytest.mark.parametrize("kind", ["frame", "text", "database"])
def test_rows_after_the_end_are_counted(kind: str, tmp_path: Path) -> None:
    log = {
        "state": ["a", "b", "c", "d"],
        "action": [0, 0, 0, 0],
        "reward": [0.0, 0.0, 0.0, 1.0],
        "next_state": ["b", "end", "d", "end"],
        "done": [0, 1, 0, 1],
        "game": [1, 1, 1, 1],
        "step": [0, 1, 2, 3],
    }
    source: Any = csv_of(log, tmp_path / "log.csv") if kind == "text" else log
    if kind == "database":
        ibis = pytest.importorskip("ibis")
        backend = ibis.duckdb.connect()
        backend.con.register("frame", {name: np.array(column) for name, column in log.items()})
        source = backend.table("frame")
    options: dict[str, Any] = {"gamma": 0.9, "done": "done", "episode": "game", "order": "step"}
    data = rr.from_transitions(source, **options)
    assert (data.after, data.broken, data.cut) == (1, 0, 0)  # that it goes on elsewhere than it ended is no news then
    assert "1 row of episodes comes after the end: the row before is done" in data.summary().warnings
    rr.save(data, tmp_path / "log.npz")
    assert rr.load(tmp_path / "log.npz").after == 1


@pytest.mark.parametrize("kind", ["frame", "text"])
def test_states_that_end_and_are_left_are_counted(kind: str, tmp_path: Path) -> None:
    log: dict[str, Any] = {
        "state": ["a", "b", "a", "b", "a"],
        "action": [0, 0, 0, 0, 0],
        "reward": [0.0, 1.0, 0.0, 1.0, 0.0],
        "next_state": ["b", "goal", "b", "b", "b"],
        "done": [0, 1, 1, 1, 0],
    }
    source: Any = csv_of(log, tmp_path / "log.csv") if kind == "text" else log
    data = rr.from_transitions(source, gamma=0.9, done="done")
    assert data.ended is not None
    assert data.ended.tolist() == [0, 2, 0]
    said = "1 state both ends episodes (2 rows) and is left in other rows, such as b"
    assert any(warning.startswith(said) for warning in data.summary().warnings)
    rr.save(data, tmp_path / "log.npz")
    assert rr.load(tmp_path / "log.npz").summary().warnings == data.summary().warnings
    unnamed = log | {"next_state": ["b", None, None, None, "b"]}
    assert "ends episodes" not in warned(unnamed, done="done")  # what comes after the end need not be named


def test_ends_of_composite_and_binned_states() -> None:
    log = {"x": [0, 1, 1], "y": [0.5, 2.5, 0.5], "x2": [1, 0, 0], "y2": [2.5, 0.5, 2.5]}
    log |= {"action": [0, 0, 0], "reward": [0, 0, 1], "done": [0, 1, 1]}
    data = rr.from_transitions(
        log, gamma=0.9, state=["x", "y"], next_state=["x2", "y2"], done="done", bins={"y": rr.Bins([1.0, 2.0])}
    )
    assert data.ended is not None
    assert dict(zip(data.process.states, data.ended.tolist(), strict=True))[0, "below 1"] == 1
    assert data.ended.sum() == 1  # of (0, "2 or more") nobody says more


# --- behaviour ------------------------------------------------------------------------------------------------------


def test_a_summary_says_who_acted_how() -> None:
    log = {"state": [0] * 20, "action": [0] * 12 + [1] * 7 + [2], "reward": [0.0] * 20, "next_state": [0] * 20}
    summary = rr.from_transitions(log, gamma=0.9, states=[0, 1]).summary()
    assert "actions taken:\n  0: 0 60 %, 1 35 %, 2 5 %" in str(summary)
    assert summary.to_json()["behaviour"] == [{"state": "0", "actions": {"0": 0.6, "1": 0.35, "2": 0.05}}]
    assert summary.to_json()["behaviour_left_out"] == 0
    json.dumps(summary.to_json())


def test_a_behaviour_of_many_states_and_actions_is_cut() -> None:
    rng = np.random.default_rng(1)
    log = {"state": rng.integers(1500, size=30_000), "action": rng.integers(9, size=30_000), "reward": [0.0] * 30_000}
    summary = rr.from_transitions(log | {"next_state": log["state"]}, gamma=0.9).summary()
    lines = str(summary).splitlines()
    start = lines.index("actions taken:")
    assert lines[start + 6] == "  1495 more states in summary().behaviour"
    assert all("others" in line for line in lines[start + 1 : start + 6])
    behaviour = summary.to_json()["behaviour"]
    assert isinstance(behaviour, list)
    assert (len(behaviour), summary.to_json()["behaviour_left_out"]) == (1000, 500)
