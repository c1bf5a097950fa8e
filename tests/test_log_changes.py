"""Do two logs, or two times of one log, look like one process: what is found, and how often for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import replicable_rl as rr
from replicable_rl.logs import same_process, samples
from tests.statistics import ALPHA, SEED, sampled_log

pytestmark = pytest.mark.usefixtures("one_database")
ROW = np.random.default_rng(1).dirichlet(np.ones(6), size=(6, 3))
NAMES: dict[str, Any] = {"gamma": 0.9, "states": list(range(6)), "actions": list(range(3)), "reward_range": (-9.0, 9.0)}


def log_of(rows: int, seed: int, off: float = 0.0, shift: float | None = None) -> dict[str, Any]:
    """Return a log of one process; ``off`` of one row's probability goes elsewhere; rewards are normal if shifted."""
    rng, shares = np.random.default_rng([SEED, seed]), ROW.copy()
    shares[2, 1] += np.where(np.arange(6) == shares[2, 1].argmax(), -off, off / 5)
    state, action = rng.integers(6, size=rows), rng.integers(3, size=rows)
    successor = (rng.random((rows, 1)) > shares[state, action].cumsum(axis=1)).sum(axis=1).clip(0, 5)
    reward = (successor == 0) * 1.0 if shift is None else rng.normal(shift, 1.0, rows).clip(-9.0, 9.0)
    return {"state": state, "action": action, "reward": reward, "next_state": successor}


def joined(*logs: dict[str, Any]) -> dict[str, Any]:
    return {name: np.concatenate([log[name] for log in logs]) for name in logs[0]}


def change(log: Any, **options: Any) -> rr.logs.Homogeneity:
    found = rr.from_transitions(log, **NAMES, **options).summary().change
    assert found is not None
    return found


# --- over time ------------------------------------------------------------------------------------------------------


def test_a_change_is_found_and_said() -> None:
    """One row is off by 0.1, at 10^6 rows."""
    data = rr.from_transitions(joined(log_of(500_000, 1), log_of(500_000, 2, off=0.1)), **NAMES)
    found = data.summary().change
    assert found is not None
    assert found.p_value < 1e-6
    assert (found.state, found.action) == (2, 1)
    assert any("its halves differ" in one for one in data.summary().warnings)


def test_steps_within_episodes_are_no_time() -> None:
    """Every episode begins at step 0: then the rows are taken in their own order."""
    log = joined(log_of(30_000, 6), log_of(30_000, 7, off=0.3))
    log |= {"step": np.arange(60_000) % 20, "visit": np.arange(60_000) // 20}
    assert change(log, episode="visit", order="step").p_value < 1e-6


def test_a_database_takes_the_order_for_the_time() -> None:
    ibis = pytest.importorskip("ibis")
    log = joined(log_of(20_000, 6), log_of(20_000, 7, off=0.3))
    log |= {"t": np.arange(40_000) // 2, "visit": np.arange(40_000) % 2 + 2 * (np.arange(40_000) // 400)}
    backend = ibis.duckdb.connect()
    backend.con.register("frame", log)
    backend.con.execute("CREATE TABLE log AS SELECT * FROM frame ORDER BY random()")
    there = rr.from_transitions(backend.table("log"), **NAMES, episode="visit", order="t")
    here = rr.from_transitions(log, **NAMES, episode="visit", order="t")
    backend.disconnect()
    assert there == here
    assert there.early is not None
    assert here.early is not None
    assert there.early.tolist() == here.early.tolist()
    assert there.summary().change == here.summary().change


# --- false alarms ---------------------------------------------------------------------------------------------------


def allowed(rate: float, times: int) -> int:
    """Return how many alarms a correct test with this rate passes with probability 1 - ALPHA."""
    return int(stats.binom.isf(ALPHA, times, rate))


def test_false_alarms_over_time_are_as_rare_as_declared() -> None:
    alarms, times = {0.01: 0, 0.2: 0}, 100
    mdp = rr.make("riverswim-v1")
    for seed in range(times):
        data = rr.from_transitions(sampled_log(mdp, 400, SEED + seed), gamma=0.9)
        found = data.summary().change
        assert found is not None
        for rate in alarms:
            alarms[rate] += found.p_value < rate
    for rate, many in alarms.items():
        assert many <= allowed(rate, times)
    assert alarms[0.2] > 0  # it is no test that never says anything


@pytest.mark.parametrize("law", ["normal", "skewed"])
def test_false_alarms_of_rewards_are_as_rare_as_declared(law: str) -> None:
    """Of logs of very different sizes, also where rewards have a long tail."""
    rng, alarms, times = np.random.default_rng([SEED, 3]), 0, 300
    for _ in range(times):
        rewards = rng.normal(size=8_400) if law == "normal" else rng.lognormal(0.0, 2.0, 8_400)
        key = rng.integers(8, size=8_400) * 2
        table = np.zeros((key.size, 2), dtype=np.int64)
        table[:400, 0], table[400:, 1] = 1, 1
        found = samples.difference_of(2, 1, key, rewards, table, 2.0**-5)
        alarms += found is not None and found.p_value < 0.01
    assert alarms <= allowed(0.01, times)


def test_rank_sums_of_rewards_that_are_nearly_all_the_same_are_not_used() -> None:
    """One of 60 against one of 6000 is not 0: by a normal law that would be seven deviations, and it is 1 in 60."""
    pair, one, two = np.zeros(2, dtype=int), np.array([59, 1]), np.array([5_999, 1])
    squares, apart = samples._squared_rank_sums(pair, one, two, 1)
    assert squares[0] > 40.0
    assert apart[0] < 1.0
    assert samples._by_rank(pair, one, two, 1) == 1.0


def test_a_false_alarm_is_as_rare_as_declared_for_logs_of_unequal_size() -> None:
    """400 pairs of rare outcomes, 60 rows against 6000: chi-square tails alone raised nine times as many alarms."""
    rng, alarms, times = np.random.default_rng(5), 0, 400
    pair = np.repeat(np.arange(400), 2)
    for _ in range(times):
        few, many = rng.binomial(60, 0.1, 400), rng.binomial(6000, 0.1, 400)
        one, two = (np.stack([x, n - x], axis=1).reshape(-1) for x, n in ((few, 60), (many, 6000)))
        found = samples.homogeneity(pair, one, two)
        alarms += found is not None and found.p_value < 0.01
    assert alarms <= 12  # 4 are expected at most; more than 12 come with probability 3e-4


@pytest.mark.parametrize(("first", "second"), [(50, 50), (44, 46)])
def test_a_false_alarm_is_as_rare_as_declared_for_very_many_pairs(first: int, second: int) -> None:
    """Where each of 10^5 pairs counts for 1% too much, half of all logs of one process are alarms at 5%."""
    rng, alarms, times, pairs = np.random.default_rng(SEED), 0, 40, 10**5
    pair = np.repeat(np.arange(pairs), 2)
    for _ in range(times):
        one, two = (
            np.stack([heads, n - heads], axis=1).reshape(-1)
            for n, heads in ((n, rng.binomial(n, 0.5, pairs)) for n in (first, second))
        )
        found = samples.homogeneity(pair, one, two)
        assert found is not None
        assert found.groups == pairs
        alarms += found.p_value < 0.05
    assert stats.binom.sf(alarms - 1, times, 0.05) > ALPHA


# --- rewards that are numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "shift", "whole"), [(1_100, 1.0, False), (5_000, 0.2, False), (1_100, 1.0, True)])
def test_shifted_rewards_are_found(rows: int, shift: float, whole: bool) -> None:
    """Means that are 23 and 10 standard deviations apart; also where rewards take fewer than a thousand values."""
    for seed in range(3):
        logs = [log_of(rows, 20 + seed, shift=0.0), log_of(rows, 30 + seed, shift=shift)]
        if whole:
            logs = [log | {"reward": np.round(log["reward"] * 20.0) / 20.0} for log in logs]
        one, two = (rr.from_transitions(log, **NAMES) for log in logs)
        assert (one.width > 0.0) != whole
        found = same_process(one, two)
        assert found is not None
        assert found.p_value < 1e-6


def test_rewards_that_only_spread_more_are_found() -> None:
    one, two = log_of(5_000, 40, shift=0.0), log_of(5_000, 41, shift=0.0)
    found = same_process(*(rr.from_transitions(log, **NAMES) for log in (one, two | {"reward": two["reward"] * 1.5})))
    assert found is not None
    assert found.p_value < 1e-6


def test_rewards_that_change_their_next_states_are_found() -> None:
    """Those of a pair are the same; which next state they come with is not."""
    one, two = log_of(20_000, 42, shift=0.0), log_of(20_000, 43, shift=0.0)
    for log, sign in ((one, 1.0), (two, -1.0)):
        log["next_state"] = (np.arange(20_000) % 2).astype(int)
        log["reward"] += np.where(log["next_state"] == 0, sign, -sign)
    found = same_process(*(rr.from_transitions(log, **NAMES) for log in (one, two)))
    assert found is not None
    assert found.p_value < 1e-6


def test_ranks_have_the_law_of_a_permutation() -> None:
    """The mean of squared rank sums over all ways to choose three of five numbers, two of them equal, is 1."""
    import itertools

    total = []
    numbers = np.array([0, 1, 1, 2, 3])
    for chosen in itertools.combinations(range(5), 3):
        one = np.bincount(numbers[list(chosen)], minlength=4)
        both = np.bincount(numbers, minlength=4)
        total.append(samples._squared_rank_sums(np.zeros(4, dtype=int), one, both - one, 1)[0][0])
    assert np.mean(total) == pytest.approx(1.0)
