"""Arrays of another length never reach a compiled loop, which would read the memory behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.queries import RStat
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.rules import EmpiricalModel, RandomTolerance, Tuning
from replicable_rl.sampling import OutcomeCounts

GRID = rr.make("two-goals-v1")
S, A = GRID.n_states, GRID.n_actions
N = S * A


def toss(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.integers(S)), float(rng.integers(2))


def of_a_simulator() -> OutcomeCounts:
    simulator = rr.Simulator(toss, n_states=S, n_actions=A, gamma=0.9, reward_range=(0.0, 1.0))
    return simulator.draw(20, sample_stream(1))


def of_a_table() -> OutcomeCounts:
    return GRID.draw(100, sample_stream(1))


SIZES: dict[
    str, Callable[[Any], tuple[int, ...]]
] = {  # of arrays that hold one number for each outcome, each row, or each state: never another
    "outcome": lambda counts: (0, 1, S, N, counts.next_state.size - 1, counts.next_state.size + 1),
    "row": lambda counts: (0, 1, S, N - 1, N + 1, counts.next_state.size),
    "state": lambda counts: (0, 1, S - 1, S + 1, N),
}


@pytest.mark.parametrize("draw", [of_a_table, of_a_simulator])
def test_counts_take_one_number_for_each_outcome(draw: Callable[[], OutcomeCounts]) -> None:
    counts = draw()
    whole, means = np.ones(counts.next_state.size), np.ones(N)
    for size in SIZES["outcome"](counts):
        with pytest.raises(InvalidInput, match=rf"outcome_values .* \({size},\)"):
            counts.mean(np.ones(size))
    for wrong in (1.0, whole[:, None], whole[None]):
        with pytest.raises(InvalidInput, match="outcome_values"):
            counts.mean(wrong)  # type: ignore[arg-type]
    V: Any = np.arange(S)
    assert (counts.mean(V[counts.next_state]) == counts.mean(V[counts.next_state].astype(float))).all()
    assert (counts.variance(whole, means) == 0.0).all()


def test_counts_whose_slices_are_not_those_of_their_outcomes() -> None:
    counts = of_a_table()
    long, rises = counts.next_state.size, counts.indptr
    broken: list[dict[str, Any]] = [
        {"indptr": rises * 1000},
        {"indptr": rises + 1},
        {"indptr": np.where(np.arange(rises.size) == 3, 10**9, rises)},
        {"indptr": np.where(np.arange(rises.size) == 3, -(10**9), rises)},
        {"count": counts.count[:5]},
        {"next_state": counts.next_state[:5]},
    ]
    for change in broken:
        for size in (5, long):
            with pytest.raises(InvalidInput, match=r"indptr must rise from 0|outcome_values"):
                replace(counts, **change).mean(np.ones(size))
    with pytest.raises(InvalidInput, match="indptr must rise from 0"):
        replace(counts, indptr=rises * 1000).mean(np.ones(long))


def test_a_query_takes_one_place_for_each_mean() -> None:
    query, means = RStat(SharedRandomness(1), "rpvi/offset", 0.2), np.full(5, 0.5)
    for index in (np.arange(4), np.arange(6), np.arange(1), np.arange(5)[:, None], np.array(3), np.arange(0)):
        for ask in (query.answer, query.room):
            with pytest.raises(InvalidInput, match="index must have one element for each mean"):
                ask(means, 0, index=index)
    bad: Any
    for bad in (np.linspace(0.5, 4.5, 5), np.full(5, np.nan), np.array(list("abcde")), np.ones(5, dtype=bool)):
        with pytest.raises(InvalidInput, match="index must hold whole numbers"):
            query.answer(means, 0, index=bad)
    with pytest.raises(InvalidInput, match="index must hold whole numbers >= 0"):
        query.answer(means, 0, index=np.arange(-1, 4))
    assert (query.answer(means, 0, index=np.arange(5, dtype=np.uint8)) == query.answer(means, 0)).all()
    assert not query.answer(means[:0], 0, index=np.arange(0)).size


def model() -> EmpiricalModel:
    return EmpiricalModel(GRID, of_a_table())


@pytest.mark.parametrize(
    "policy",
    [
        *(np.zeros(size, dtype=np.int64) for size in SIZES["state"](None)),
        np.full(S, A),
        np.full(S, -1),
        np.full(S, 10**12),
        np.zeros(S),
        np.full((S, A), 0.25),
        np.zeros((S, 1), dtype=np.int64),
    ],
)
def test_a_rule_may_ask_the_model_about_policies_alone(policy: np.ndarray) -> None:
    asked: list[Callable[[EmpiricalModel], object]] = [
        lambda model: model.gap_of(policy),
        lambda model: model.loses_at_most(policy, 0.1),
        lambda model: model.loses_at_most(policy, 0.1, "worst"),
        lambda model: model.loss_deviation(policy),
        lambda model: model.loss_deviation(policy, "worst"),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput, match="polic"):
            ask(model())


def test_other_rewards_and_policies_of_tables() -> None:
    for rewards in (np.ones(N), np.ones((A, S)), np.ones((S, 1)), np.ones((1, A)), np.ones((S + 1, A))):
        with pytest.raises(InvalidInput, match="rewards must be"):
            rr.optimal_values(GRID, rewards=rewards)
    for policy in (np.zeros(S - 1, int), np.zeros(S + 1, int), np.full(S, A), np.ones((S, A - 1)), np.ones((A, S))):
        with pytest.raises(InvalidInput, match="polic"):
            rr.evaluate_policy(GRID, policy)
        with pytest.raises(InvalidInput, match="polic"):
            GRID.play(policy, episodes=10, horizon=5, rng=sample_stream(1))


def test_cuts_of_another_size_are_refused_whoever_follows_them() -> None:
    cuts = rr.publish(rr.make("chain-v1"), rr.PlugInPolicy(0.1, 0.01, 0.2, samples=100), sample_seed=1)
    rule = rr.rules.PublishedCuts(cuts)
    with pytest.raises(InvalidInput, match="the cuts are for 5 states and 2 actions"):
        rule.decide(model(), SharedRandomness(1), Tuning(0.1, 0.1))
    with pytest.raises(InvalidInput, match="order must name each of the actions"):
        RandomTolerance(0.1, order=(1, 0)).decide(model(), SharedRandomness(1), Tuning(0.1, 0.1))
