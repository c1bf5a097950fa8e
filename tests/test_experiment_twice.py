"""The experiment of ``make reproduce``: rPVI gives the same answer twice, Phased Q-learning does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import theory
from replicable_rl.cli import main
from replicable_rl.experiments import twice
from replicable_rl.records import ObjectSpec

RPVI, PLAIN = "Replicable Phased Value Iteration", "Phased Q-learning"
RUN = twice.run


@pytest.fixture(scope="module")
def solutions() -> dict[str, list[rr.Solution]]:
    return twice.run()


def rigged(replicable: tuple[int, int], plain: tuple[int, int]) -> dict[str, tuple[rr.RunSpec, rr.RunSpec]]:
    """A small plan whose runs differ in their samples as told."""
    algorithm = ObjectSpec("phased-vi-v1", {"epsilon": 0.2, "delta": 0.05, "calls": 5, "iterations": 20})
    problem = ObjectSpec("two-goals-v1")

    def pair(seeds: tuple[int, int]) -> tuple[rr.RunSpec, rr.RunSpec]:
        return rr.RunSpec(problem, algorithm, 1, seeds[0]), rr.RunSpec(problem, algorithm, 1, seeds[1])

    return {RPVI: pair(replicable), PLAIN: pair(plain)}


# --- the plan ----------------------------------------------------------------------------------


def test_plan_is_one_shared_seed_and_two_samples() -> None:
    assert list(twice.PLAN) == [RPVI, PLAIN]
    for one, two in twice.PLAN.values():
        assert one.problem == two.problem == ObjectSpec("two-goals-v1")
        assert one.algorithm == two.algorithm
        assert one.shared_seed == two.shared_seed
        assert one.sample_seed != two.sample_seed
    assert [specs[0].algorithm.id for specs in twice.PLAN.values()] == ["rpvi-v1", "phased-vi-v1"]
    seeds = {(one.shared_seed, one.sample_seed, two.sample_seed) for one, two in twice.PLAN.values()}
    assert len(seeds) == 1, "both algorithms see the same seeds"


def test_plan_takes_exactly_the_calls_of_the_theorem() -> None:
    replicable, plain = (specs[0].algorithm.params for specs in twice.PLAN.values())
    mdp = rr.make("two-goals-v1")
    needed = theory.phased_vi(
        mdp.n_states * mdp.n_actions, mdp.gamma, replicable["epsilon"], replicable["delta"], replicable["rho"]
    )
    assert replicable["calls"] == needed.calls == needed.calls_needed
    assert needed.accuracy_proved
    assert needed.replicability_proved
    assert {name: value for name, value in replicable.items() if name != "rho"} == plain
    fewer = theory.phased_vi(32, 0.9, replicable["epsilon"], replicable["delta"], replicable["rho"], calls=10**15)
    assert not fewer.replicability_proved, "the theorem's number matters"


# --- the answer --------------------------------------------------------------------------------


def test_rpvi_is_the_same_and_phased_q_learning_is_not(solutions: dict[str, list[rr.Solution]]) -> None:
    replicable, plain = twice.analyse(solutions)
    assert (replicable.name, plain.name) == (RPVI, PLAIN)
    assert replicable.same_value
    assert replicable.same_policy
    assert not plain.same_value
    assert not plain.same_policy
    one, two = replicable.runs
    assert one.q.tobytes() == two.q.tobytes()
    one, two = plain.runs
    assert (one.policy != two.policy).any()


def test_runs_are_what_the_plan_says(solutions: dict[str, list[rr.Solution]]) -> None:
    for name, specs in twice.PLAN.items():
        assert [solution.spec for solution in solutions[name]] == list(specs)
        for solution in solutions[name]:
            assert solution.guarantee.kind == "proved"
            assert solution.samples == 8_187_898_146_367_124 * 32 * 100


def test_all_four_policies_are_good(solutions: dict[str, list[rr.Solution]]) -> None:
    mdp = rr.make("two-goals-v1")
    best = rr.optimal_values(mdp).value
    for runs in solutions.values():
        for solution in runs:
            loss = np.abs(best - rr.evaluate_policy(mdp, solution.policy).value).max() * (1 - mdp.gamma)
            assert loss <= 0.1


def test_differences_are_seen(solutions: dict[str, list[rr.Solution]]) -> None:
    """The analysis compares: one bit of Q, or one action, makes a difference."""
    one = solutions[RPVI][0]
    q, policy = one.q.copy(), one.policy.copy()
    q[3, 0] = np.nextafter(q[3, 0], 0)
    parts: dict[str, Any] = {"samples": one.samples, "status": one.status, "guarantee": one.guarantee}
    other_q = rr.Solution.from_q(q, policy, **parts)
    policy[3] = 1
    other_both = rr.Solution.from_q(q, policy, **parts)
    same, value, both = twice.analyse({"a": [one, one], "b": [one, other_q], "c": [one, other_both]})
    assert (same.same_value, same.same_policy) == (True, True)
    assert (value.same_value, value.same_policy) == (False, True)
    assert (both.same_value, both.same_policy) == (False, False)


# --- the command -------------------------------------------------------------------------------


def test_reproduce_writes_the_runs(
    solutions: dict[str, list[rr.Solution]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reproduce", "--output", str(tmp_path / "a/b")]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["twice.json"], "nothing temporary is left"
    record = json.loads((tmp_path / "a/b/twice.json").read_text(encoding="utf-8"))
    assert [(r["algorithm"], r["same_value"], r["same_policy"]) for r in record] == [
        (RPVI, True, True),
        (PLAIN, False, False),
    ]
    for entry in record:
        assert entry["runs"] == [solution.to_json() for solution in solutions[entry["algorithm"]]]
    assert printed.out.count("the same\n") == 2
    assert printed.out.count("different\n") == 2
    for runs in solutions.values():
        for solution in runs:
            assert solution.fingerprints.value[:16] in printed.out
            assert solution.fingerprints.policy[:16] in printed.out


def test_reproduce_replaces_an_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twice, "run", lambda: RUN(rigged((1, 1), (1, 2))))
    target = tmp_path / "twice.json"
    target.write_text("old")
    (tmp_path / "other.json").write_text("mine")
    assert main(["reproduce", "--output", str(tmp_path)]) == 0
    assert json.loads(target.read_text(encoding="utf-8"))[0]["algorithm"] == RPVI
    assert (tmp_path / "other.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("replicable", "plain", "code"),
    [((1, 1), (1, 2), 0), ((1, 2), (1, 2), 1), ((1, 1), (1, 1), 1), ((1, 2), (1, 1), 1)],
)
def test_exit_code_says_whether_the_claim_is_met(
    replicable: tuple[int, int],
    plain: tuple[int, int],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(twice, "run", lambda: RUN(rigged(replicable, plain)))
    assert main(["reproduce", "--output", str(tmp_path)]) == code
    record = json.loads((tmp_path / "twice.json").read_text(encoding="utf-8"))
    assert [entry["same_value"] for entry in record] == [replicable[0] == replicable[1], plain[0] == plain[1]]
    assert ("different\n" in capsys.readouterr().out) is (replicable != (1, 1) or plain != (1, 1))


def test_a_failed_write_leaves_the_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even half of the new file: the data cannot be written, and the old one is as it was."""

    def unwritable(self: twice.Comparison) -> dict[str, Any]:
        return {"value": float("nan")}

    monkeypatch.setattr(twice, "run", lambda: RUN(rigged((1, 1), (1, 2))))
    monkeypatch.setattr(twice.Comparison, "to_json", unwritable)
    (tmp_path / "twice.json").write_text("old")
    with pytest.raises(ValueError, match="Out of range float values"):
        main(["reproduce", "--output", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["twice.json"]
    assert (tmp_path / "twice.json").read_text() == "old"
    assert capsys.readouterr().out == ""


def test_an_output_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/sub"):
        assert main(["reproduce", "--output", str(tmp_path / place)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"replicable-rl: {tmp_path}/file")
        assert printed.err.count("\n") == 1
