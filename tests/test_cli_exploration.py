"""The command line covers ApproximateMDP and R-max: solve, plan, list, options and refusals."""

from __future__ import annotations

import json

import pytest

import replicable_rl as rr
from replicable_rl.cli import main

PROMISE = ["--epsilon", "0.1", "--delta", "0.001"]
COMMANDS: dict[str, tuple[list[str], rr.RMax | rr.ReplicableRMax | rr.ApproximateMDP | rr.ReplicableApproximateMDP]] = {
    "approximate-mdp-v1": (PROMISE, rr.ApproximateMDP(0.1, 0.001)),
    "replicable-approximate-mdp-v1": ([*PROMISE, "--rho", "0.2"], rr.ReplicableApproximateMDP(0.1, 0.001, 0.2)),
    "rmax-v1": ([*PROMISE, "--horizon", "60"], rr.RMax(0.1, 0.001, 60)),
    "replicable-rmax-v1": ([*PROMISE, "--rho", "0.2", "--horizon", "60"], rr.ReplicableRMax(0.1, 0.001, 0.2, 60)),
}


@pytest.mark.parametrize("id", COMMANDS)
def test_solve_and_plan(id: str, capsys: pytest.CaptureFixture[str]) -> None:
    options, algorithm = COMMANDS[id]
    mdp = rr.make("two-goals-v1")
    assert main(["solve", "two-goals-v1", id, *options, "--shared-seed", "3", "--sample-seed", "4", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = rr.solve(mdp, algorithm, shared_seed=3, sample_seed=4)
    assert printed["fingerprints"]["model"] == expected.fingerprints.model
    assert set(printed["history"]) == set(expected.history)
    assert main(["plan", "two-goals-v1", id, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["samples"] == str(algorithm.plan(mdp).samples)
    for command in (["plan", "two-goals-v1", id, *options], ["list"]):
        assert main(command) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
    assert any(id in line for line in lines)


def test_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    options, _ = COMMANDS["replicable-rmax-v1"]
    assert main(["plan", "two-goals-v1", "replicable-rmax-v1", *options, "--episodes", "1e9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["episodes"] == str(10**9)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--episodes", "1e20", "--shared-seed", "1"], "episodes=1e+20 is asked for"),
        (["--calls", "5", "--shared-seed", "1"], "there is no parameter 'calls'"),
    ],
)
def test_refusals_are_one_sentence_and_exit_2(
    extra: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, _ = COMMANDS["replicable-rmax-v1"]
    assert main(["solve", "two-goals-v1", "replicable-rmax-v1", *options, *extra]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
