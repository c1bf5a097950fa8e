"""The benchmark of stable decisions: exact play, intervals, and a page that says what was found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import stable, stable_agents, stable_page
from benchmarks.stable_agents import Trained, q_function
from benchmarks.stable_games import Finite, Game, games

import replicable_rl as rr


def test_exact_play_is_what_episodes_do() -> None:
    import gymnasium

    lake = Finite("FrozenLake-v1", 100)
    mdp = rr.from_gymnasium("FrozenLake-v1", gamma=0.99)
    policy = rr.optimal_values(mdp).policy
    played = lake.play(lambda states: policy[states])
    assert played.share.sum() == pytest.approx(1.0)
    assert set(played.visited.tolist()) <= {0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14}
    env, rng, earned = gymnasium.make("FrozenLake-v1"), 600, 0.0
    for seed in range(rng):
        state, _ = env.reset(seed=seed)
        over = False
        while not over:
            state, reward, terminated, truncated, _ = env.step(int(policy[state]))
            earned, over = earned + float(reward), terminated or truncated
    assert abs(earned / rng - played.earned) < 5 * 0.5 / rng**0.5  # five standard deviations
    assert lake.play(None).earned < 0.02


def test_networks_are_those_of_the_library() -> None:
    pytest.importorskip("stable_baselines3")
    game = games()["FrozenLake"]._replace(steps=20)
    learner = rr.StableBaselines3("DQN", "FrozenLake-v1", 20, share=(), algorithm_options=game.options)
    model = learner(0, 3)
    weights = [one.detach().numpy().astype(np.float64) for one in model.model.q_net.q_net.parameters()]
    table = np.asarray(q_function(game, weights))
    assert np.abs(table - rr.StableDecisions(model, 0.0, shared_seed=0).values(np.arange(16))).max() < 1e-5


def test_intervals_hold_for_means_of_pairs() -> None:
    covered = 0
    for seed in range(200):
        unit = np.random.default_rng(seed).normal(size=8)
        pairs = [(i, j) for i in range(8) for j in range(i)]
        values = np.array([unit[i] + unit[j] for i, j in pairs])
        found = stable.jackknifed(values, [frozenset(pair) for pair in pairs], -np.inf, np.inf)
        assert found.low < found.estimate < found.high
        covered += found.low < 0.0 < found.high
    assert 180 <= covered <= 199  # of 200, at 95 %; the seeds are fixed
    same = stable.jackknifed(np.array([1.0]), [frozenset({0, 1})], 0.0, 1.0)
    assert same == (1.0, 0.0, 1.0)  # one pair says nothing about others


def test_arms_pair_agents_that_were_trained_apart() -> None:
    arms = stable.arms("Taxi", stable.Extent(8, 4, (3,), 1, 20))
    assert list(arms) == ["plain", "shared", "plain × 3", "shared × 3"]
    for name, pairs in arms.items():
        assert 4 <= len(pairs) <= (28 if name == "plain" else 20)
        for pair in pairs:
            assert not set(pair.one) & set(pair.two)
            shares = name.startswith("shared")
            assert [one.shares for one in pair.one + pair.two] == [shares] * (2 * len(pair.one))
            if shares:
                assert [one.shared_seed for one in pair.one] == [two.shared_seed for two in pair.two]
    assert Trained("Taxi", True, 1, 2).file == "Taxi-shared-1-2.npz"


def test_agents_are_compared_where_they_go() -> None:
    game = games()["FrozenLake"]
    left, right, mixed = np.zeros((3, 16, 4))
    left[:, 0] = right[:, 2] = mixed[:, 0] = 1.0
    mixed[15] = [0.0, 0.0, 1.0, 0.0]  # the goal, where nobody acts
    one, two, three = (Trained("FrozenLake", False, 0, i) for i in range(3))
    agents = {one: left, two: right, three: mixed}
    table = stable.Table(game, agents, stable.deciding(0.0, 0))
    assert table.compare(stable.Pair((one,), (two,), frozenset({0, 1})))[:3] == (0.0, 0.0, 0.0)
    states, steps, everywhere, _ = table.compare(stable.Pair((one,), (three,), frozenset({0, 2})))
    assert (states, everywhere) == (1.0, 1.0)
    assert steps == pytest.approx(1.0)


def test_the_page_says_what_was_found() -> None:
    found, text = json.loads(stable.FOUND.read_text()), stable.PAGE.read_text(encoding="utf-8")
    assert stable_page.page(text, found) == text
    assert text.count("| FrozenLake | plain | 0 |") >= 1
    said, tables = text.partition("**What was found**")[2].split("### All agents")
    numbers = re.findall(r"[+-]?\d\.\d{3}|\b\d{3}\b", said)
    assert len(numbers) > 20
    assert not [number for number in numbers if number not in tables], "the text says what no table does"
    changed = json.loads(json.dumps(found))
    changed["Taxi"]["arms"]["plain"][0]["alike"][0] = 0.123
    assert stable_page.page(text, changed) != text


def test_a_quick_run_prints_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def untrained(folder: Path, game: Game, agent: Trained) -> list[Any]:
        rng = np.random.default_rng(agent.sample_seed)
        return [rng.normal(size=(4, 16)), rng.normal(size=4)]

    monkeypatch.setattr(stable, "kept", untrained)
    monkeypatch.setattr(stable, "installed", lambda package: True)
    for name in ("FOUND", "PAGE", "PICTURE"):
        monkeypatch.setattr(stable, name, tmp_path / name)
    stable.main(["--quick"])
    printed = capsys.readouterr().out
    assert "| FrozenLake | shared | 0 |" in printed
    assert "| FrozenLake | bins | 0.005 |" in printed
    monkeypatch.setattr(stable, "installed", lambda package: False)
    stable.main([])
    assert capsys.readouterr().out == "Stable-Baselines3 is not installed here. docs/stable.md is left as it is.\n"
    assert not list(tmp_path.iterdir())


def test_agents_are_trained_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trained = []

    def train(game: Game, agent: Trained) -> list[Any]:
        trained.append(agent)
        return [np.eye(2), np.zeros(2)]

    monkeypatch.setattr(stable_agents, "train", train)
    agent = Trained("Taxi", True, 1, 2)
    one, two = (stable_agents.kept(tmp_path / "new", games()["Taxi"], agent) for _ in range(2))
    assert trained == [agent]
    assert [each.tolist() for each in one] == [each.tolist() for each in two] == [[[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]]
