"""One log: what it decides, and what another one would have decided."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import replicable_rl as rr
from replicable_rl import compiled
from replicable_rl.diagnose import calibrate, forecast
from replicable_rl.diagnose.forecast import Forecast
from replicable_rl.diagnose.resampling import Rows
from replicable_rl.diagnose.tail import times_for_the_next
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Dataset, Process
from replicable_rl.logs.samples import homogeneity
from replicable_rl.randomness import sample_stream
from replicable_rl.rules import EmpiricalModel
from tests.statistics import ALPHA, SEED, sampled_log
from tests.test_logs import LOG, NAMES, long_log

pytestmark = pytest.mark.usefixtures("one_database")

DECIDE = rr.PlugInPolicy(0.02, 0.05, 0.2)


def data_of(rows: int = 5_000, seed: int = 1) -> Dataset:
    log = long_log(rows, seed=seed)
    log["reward"] = (log["next_state"] + log["action"]) / 6.0  # few values, which depend on where one goes
    return rr.from_transitions(log, **NAMES)


def test_a_log_is_solved_like_a_problem() -> None:
    data = data_of()
    run = rr.solve(data, DECIDE, shared_seed=7)
    assert list(run.fingerprints) == ["policy"]
    assert run.samples == data.rows
    assert run.spec is not None
    assert run.spec.sample == data.sample
    assert run == rr.solve(data, DECIDE, shared_seed=7)
    assert run.claims.accuracy is None
    assert run.claims.replicability is None
    assert "the log" in run.claims.missing["replicability"]


def test_two_logs_of_one_process_decide_alike() -> None:
    policies = {rr.solve(data_of(200_000, seed), DECIDE, shared_seed=7).fingerprints.policy for seed in range(4)}
    assert len(policies) == 1


def test_pairs_without_data_are_the_worst_and_told() -> None:
    data = rr.from_transitions(LOG, gamma=0.9, states=["home", "road", "sea"], actions=["go", "wait", "swim"])
    run = rr.solve(data, DECIDE, shared_seed=1)
    assert run.status is not None
    assert "5 pairs of 9 with no rows, taken for the worst: swim in home, swim in road" in run.status.sentence
    assert 2 not in run.policy[:2]


def test_what_comes_after_the_end_is_known() -> None:
    log: dict[str, Any] = {**LOG, "done": [False, False, True, False, False, False]}
    run = rr.solve(rr.from_transitions(log, gamma=0.9, done="done"), DECIDE, shared_seed=1)
    assert run.status is not None
    assert "never tried" not in run.status.sentence


def said_of(run: rr.Run) -> str:
    assert run.status is not None
    return run.status.sentence


def test_new_logs_have_the_law_of_the_rows() -> None:
    data = data_of(2_000)
    rng, times = sample_stream(3), 4000
    drawn = np.array([Rows.of(data).again(rng).counts(data).count for _ in range(times)])
    expected = data.counts.count
    assert (np.abs(drawn.mean(axis=0) - expected) <= 5.5 * np.sqrt(expected / times)).all()  # 75 of them: 3e-6 in all
    # The variance of a Poisson number is its mean; that of its sample variance is mean/times + 2 mean^2/(times - 1).
    spread = np.sqrt(expected / times + 2.0 * expected**2 / (times - 1))
    assert (np.abs(drawn.var(axis=0, ddof=1) - expected) <= 6.5 * spread).all()  # skewed, so a little more room
    twice = np.array([Rows.of(data).again(rng, 2.0).count.sum() for _ in range(100)])
    assert abs(float(twice.mean()) - 2.0 * data.rows) <= 5.5 * math.sqrt(2.0 * data.rows / 100)
    one, two = Rows.of(data).halves(rng)
    assert (one.count + two.count == data.count).all()
    assert (one.counts(data).count + two.counts(data).count == data.counts.count).all()


def test_pairs_with_few_rows_count_by_a_shared_threshold() -> None:
    """A pair that was seen three times is the worst for some shared seeds, and told; two logs then still agree."""
    log = {"state": [0] * 403, "action": [0] * 200 + [1] * 200 + [2] * 3, "next_state": [0] * 403}
    data = rr.from_transitions({**log, "reward": [0.5] * 200 + [0.25] * 200 + [1.0] * 3}, gamma=0.5)
    runs = [rr.solve(data, rr.PlugInPolicy(0.02, 0.05, 0.2, rule="greedy"), shared_seed=i) for i in range(200)]
    taken = np.array([run.policy[0] for run in runs])
    told = ["taken for the worst: 2 in 0" in said_of(run) for run in runs]
    assert set(taken.tolist()) == {0, 2}
    assert ((taken == 0) == np.array(told)).all()
    left_out = 1.0 - math.log10(3.0)  # the share of thresholds from 1 to 10, in logarithms, that are above 3
    assert abs((taken == 0).mean() - left_out) <= 4.9 * math.sqrt(0.25 / 200)  # 1e-6
    # Cuts are published before anybody's seed: all who use them take the highest threshold.
    algorithm = rr.PlugInPolicy(0.02, 0.05, 0.2)
    cuts = rr.publish(data, algorithm)
    theirs = rr.PlugInPolicy(0.02, 0.05, 0.2, rule=rr.rules.PublishedCuts(cuts))
    assert {int(rr.solve(data, theirs, shared_seed=i).policy[0]) for i in range(20)} == {0} == {int(cuts.policy[0])}


def test_a_pair_of_which_all_have_few_is_not_left_out() -> None:
    data = rr.from_transitions(LOG, gamma=0.9)
    assert all("no rows" not in said_of(rr.solve(data, DECIDE, shared_seed=i)) for i in range(20))
    assert all("taken for the worst" not in said_of(rr.solve(data, DECIDE, shared_seed=i)) for i in range(20))


def test_the_forecast_takes_out_what_one_more_round_of_noise_does() -> None:
    """2 A_1 - A_2, from the same draws that decide; and the interval holds it."""
    data = data_of(300)
    found = rr.diagnose(data, DECIDE, resamples=50, seed=4)
    drawn = list(Forecast(data, DECIDE, 50, 4).policies("logs"))
    first = np.mean([np.array_equal(one, two) for one, two, *_ in drawn])
    second = np.mean([np.array_equal(one, two) for *_, one, two in drawn])
    assert 0.0 < second < 1.0
    assert float(found.agreement) == pytest.approx(min(1.0, max(0.0, 2.0 * first - second)))
    assert 0.0 <= found.agreement.low <= float(found.agreement) <= found.agreement.high <= 1.0


def test_ties_of_the_plain_best_action_are_not_forecast_away() -> None:
    """Two actions that are exactly as good: two logs agree in half of the cases, and forecasts say so on average.

    The bootstrap alone says 2/3 on average (two signs with correlation 1/2), 1/6 too much.
    """
    rng, logs, resamples = sample_stream(5), 100, 12
    process = Process((0,), (0, 1), 0.5, (0.0, 1.0))
    plain = rr.PlugInPolicy(0.02, 0.05, 0.2, rule="greedy")
    forecasts = []
    for i in range(logs):
        won = rng.binomial(200, 0.5, size=2)
        count = np.column_stack([won, 200 - won]).reshape(-1)
        data = Dataset(process, [0] * 4, [0, 0, 1, 1], [0] * 4, [1.0, 0.0, 1.0, 0.0], count)
        found = rr.diagnose(data, plain, resamples=resamples, seed=i)
        assert float(found.agreement) <= float(found.halves)
        forecasts.append(float(found.agreement))
    # What halves say is uniform on [0, 1], nearly, and measured by 12 splits: a variance of 1/12 + 1/6/12 or less.
    assert float(np.mean(forecasts)) <= 0.5 + 3.1 * math.sqrt((1.0 / 12.0 + 1.0 / 72.0) / logs)  # 1e-3


def test_the_forecast_is_near_the_truth_on_average() -> None:
    """How often two fresh logs agree, against what one log forecasts: within 0.25, for one process and size."""
    pairs = 40
    same = 0
    for i in range(pairs):
        one, two = (rr.solve(data_of(3_000, 10_000 + 2 * i + j), DECIDE, shared_seed=i).policy for j in (0, 1))
        same += bool(np.array_equal(one, two))
    forecasts = [float(rr.diagnose(data_of(3_000, seed), DECIDE, resamples=25).agreement) for seed in range(8)]
    assert abs(float(np.mean(forecasts)) - same / pairs) < 0.25


def tail_of(rows: list[int], states: int) -> Dataset:
    """Return a log that left its states so often; from each one goes to the first. The other states were never seen."""
    state = np.repeat(np.arange(len(rows)), rows)
    log = {"state": state, "action": np.arange(state.size) % 2, "reward": state % 2, "next_state": 0 * state}
    return rr.from_transitions(log, gamma=0.9, states=list(range(states)), reward_range=(0.0, 1.0))


@pytest.mark.parametrize(
    ("rows", "states", "times"),
    [
        ([400, 100, 20, 5], 5, 1000 * (1 + 1.118) / 1.118),  # 5 sqrt(5/100) rows are next
        ([400, 100, 20, 5], 4, 1.0),  # all states were reached
        ([400, 300, 200, 100], 5, 1.0),  # after so many rows, nothing is beyond
        ([40, 4], 5, 1000 * (1 + 0.4) / 0.4),
        ([6], 2, 1000 * (1 + 3) / 3),
        ([10**5, 10**4, 1], 4, 1.0),  # what is next is too rare to matter
    ],
)
def test_the_tail_of_a_log_tells_what_the_next_state_takes(rows: list[int], states: int, times: float) -> None:
    assert times_for_the_next(tail_of(rows, states)) == pytest.approx(times, rel=1e-3)


def test_what_is_probably_out_of_reach_does_not_count() -> None:
    """The next state has 1.118 rows, if any: it is out of reach with probability 1 - 1/3.118."""
    data = tail_of([400, 100, 20, 5], 5)
    assert times_for_the_next(data, 0.67) == 1.0
    assert times_for_the_next(data, 0.69) > 1000.0
    allowed = np.ones((5, 2), dtype=bool)
    allowed[4, 1] = False  # where there is nothing to decide
    state = np.repeat(np.arange(4), [400, 100, 20, 5])
    log = {"state": state, "action": np.arange(state.size) % 2, "reward": 0 * state, "next_state": 0 * state}
    named: dict[str, Any] = {"states": list(range(5)), "actions": [0, 1], "reward_range": (0.0, 1.0)}
    assert times_for_the_next(rr.from_transitions(log, gamma=0.9, **named, allowed=allowed)) == 1.0
    assert times_for_the_next(rr.from_transitions(log, gamma=0.9, **named)) > 1000.0


def test_a_log_that_agrees_may_still_be_too_small() -> None:
    data = tail_of([400, 100, 20, 5], 5)
    found = rr.diagnose(data, rr.PlugInPolicy(0.5, 0.05, 0.2), resamples=20, seed=1)
    assert float(found.agreement) >= 0.95
    assert (found.data_needed(0.95) or 0) >= 1000 * data.rows
    assert found.data_needed(0.5) == data.rows


def test_samples_of_a_log_have_no_seed_and_no_number() -> None:
    data = data_of()
    with pytest.raises(rr.InvalidInput, match="sample_seed"):
        rr.solve(data, DECIDE, shared_seed=1, sample_seed=1)
    with pytest.raises(rr.InvalidInput, match="samples and budget"):
        rr.solve(data, rr.PlugInPolicy(0.02, 0.05, 0.2, samples=10), shared_seed=1)


def test_nothing_is_proved_for_a_log() -> None:
    """However many rows it has, and however little is promised: a table with as many samples has a proof."""
    data = rr.from_transitions(sampled_log(rr.make("riverswim-v1", gamma=0.5), 10**5, 1), gamma=0.5)
    algorithm, samples = rr.PlugInPolicy(0.9, 0.5, 0.99), rr.PlugInPolicy(0.9, 0.5, 0.99, samples=10**5)
    claims = rr.solve(data, algorithm, shared_seed=1).claims
    assert len(rr.solve(rr.make("riverswim-v1", gamma=0.5), samples, shared_seed=1, sample_seed=1).claims) > 0
    assert len(claims) == 0
    assert "log" in claims.missing["accuracy"]
    planned = rr.plan(data, algorithm)
    assert len(planned.claims()) == 0
    assert not planned.numbers.accuracy_proved
    assert not planned.numbers.replicability_proved


def test_a_diagnosis_says_where_and_how_much() -> None:
    data = data_of(300)
    found = rr.diagnose(data, DECIDE, resamples=30, seed=2)
    assert found.agreement.low <= float(found.agreement) <= found.agreement.high
    assert len(found.states) > 0
    assert found.states[0].share >= found.states[-1].share
    assert found.states[0].action != found.states[0].rival
    needed = found.data_needed(0.9)
    assert needed is not None
    assert needed > data.rows
    assert found.data_needed(0.01) == data.rows
    assert set(found.rules()) == {"affordable", "tolerance", "rounded", "gumbel", "greedy"}
    again = rr.diagnose(data, DECIDE, resamples=30, seed=2)
    assert again.to_json() == found.to_json()
    assert "Another log of this size gives the same policy with probability" in str(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": 3}, "data must be a Dataset"),
        ({"algorithm": 3}, "algorithm must be a PlugInPolicy"),
        ({"algorithm": rr.PlugInPolicy}, "algorithm must be a PlugInPolicy"),
        ({"resamples": 1}, "resamples must be an integer from 2"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
    ],
)
def test_wrong_values_of_diagnose(change: dict[str, Any], said: str) -> None:
    with pytest.raises(rr.InvalidInput, match=said):
        rr.diagnose(**{"data": rr.from_transitions(LOG, gamma=0.9), **change})


def test_noise_of_rewards_of_many_values_is_forecast() -> None:
    """Four actions that are nearly as good, and rewards that are all different: logs disagree, and one log knows it."""
    data = many_rewards(0)
    assert data.added_up
    found = rr.diagnose(data, rr.PlugInPolicy(0.001, 0.05, 0.2), resamples=60)
    assert found.agreement.high < 0.7  # 0.22 of pairs of fresh logs agree
    assert float(found.halves) < 0.7
    one, two = data.split(2, seed=1)
    assert one.rows + two.rows == data.rows
    assert one.reward.tolist() != two.reward.tolist()


def test_rewards_of_many_values_keep_their_range_and_their_sums() -> None:
    data = many_rewards(1, reward_range=None)
    rewards = np.clip(np.random.default_rng(1).normal(0.5, 0.15, 2000), 0, 1)
    assert data.reward_range == (rewards.min(), rewards.max())
    assert float((data.reward * data.count).sum()) == pytest.approx(rewards.sum(), abs=1e-9)


def many_rewards(seed: int, mean: float = 0.5, reward_range: tuple[float, float] | None = (0.0, 1.0)) -> Dataset:
    rng = np.random.default_rng(seed)
    nowhere, reward = np.zeros(2000, dtype=int), np.clip(rng.normal(mean, 0.15, 2000), 0, 1)
    log = {"state": nowhere, "action": rng.integers(0, 4, 2000), "reward": reward, "next_state": nowhere}
    return rr.from_transitions(log, gamma=0.9, reward_range=reward_range)


def test_what_is_at_stake_is_what_the_rival_costs() -> None:
    """Going on is worth 0.55 for ever, staying 0.5: by hand, the cost of staying is 0.05, whatever gamma is."""
    for gamma in (0.9, 0.99):
        goes, stays, there = 22, 20, 44
        process = Process((0, 1), (0, 1), gamma, (0.0, 1.0), (1.0, 0.0))
        outcomes = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1], [1, 1, 0, 0, 1, 1, 1, 1], [1.0, 0.0] * 4
        data = Dataset(process, *outcomes, [goes, 40 - goes, stays, 40 - stays] + [there, 80 - there] * 2)
        found = rr.diagnose(data, rr.PlugInPolicy(0.001, 0.05, 0.2, rule="greedy"), resamples=200)
        one = next(state for state in found.states if state.state == "0")
        assert one.at_stake == pytest.approx(0.05, abs=1e-6)


def test_a_false_alarm_is_as_rare_as_declared_for_logs_of_unequal_size() -> None:
    """400 pairs of rare outcomes, 60 rows against 6000: chi-square tails alone raised nine times as many alarms."""
    rng, alarms, times = np.random.default_rng(5), 0, 400
    pair = np.repeat(np.arange(400), 2)
    for _ in range(times):
        few, many = rng.binomial(60, 0.1, 400), rng.binomial(6000, 0.1, 400)
        one, two = (np.stack([x, n - x], axis=1).reshape(-1) for x, n in ((few, 60), (many, 6000)))
        found = homogeneity(pair, one, two)
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
        found = homogeneity(pair, one, two)
        assert found is not None
        assert found.groups == pairs
        alarms += found.p_value < 0.05
    assert binom.sf(alarms - 1, times, 0.05) > ALPHA


def test_parts_share_the_first_states() -> None:
    log = {"state": [0, 1] * 500, "action": [0] * 1000, "reward": [0.5] * 1000, "next_state": [1, 0] * 500}
    data = rr.from_transitions({**log, "game": np.repeat(np.arange(500), 2)}, gamma=0.9, episode="game")
    one, two = data.split(2)
    assert data.starts is not None
    assert one.starts is not None
    assert two.starts is not None
    assert (one.starts + two.starts == data.starts).all()
    assert (one.visits + two.visits == data.visits).all()


def test_it_is_said_that_states_never_left_may_take_more() -> None:
    log, said = long_log(300, seed=1), "It takes more if larger logs leave the 1 state that this one never left."
    for states, expected in (([*range(5), 99], True), (list(range(5)), False)):
        found = rr.diagnose(rr.from_transitions(log, **NAMES | {"states": states}), DECIDE, resamples=20)
        assert found.summary.never_left == int(expected)
        assert (found.data_needed(0.95) or 0) > 300
        assert (said in " ".join(found.text(target=0.95).split())) == expected


def test_larger_logs_must_agree_on_processes_near_the_estimate_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A_1 = 1 and A_2 = 0.8: the forecast is above 1, but on one process in five larger logs would differ."""
    forecast = Forecast(data_of(300), DECIDE, 100, 1)
    same, other = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)

    def policies(what: str, scale: float = 1.0) -> Any:
        return ((same, same, same, other if i % 5 == 0 else same) for i in range(100))

    monkeypatch.setattr(forecast, "policies", policies)
    assert not forecast.reaches(0.95, 4.0)
    assert forecast.reaches(0.75, 4.0)


# --- what nobody tried, what rewards do, and what a run says ----------------------------------------------------


def clicks(seed: int, rows: int = 2000) -> Dataset:
    """One page and two offers, of which one pays a little more often."""
    rng = np.random.default_rng(seed)
    offer = rng.integers(2, size=rows)
    paid = (rng.random(rows) < np.where(offer == 0, 0.50, 0.52)).astype(float)
    log = {"state": ["page"] * rows, "action": offer, "reward": paid, "next_state": ["page"] * rows}
    return rr.from_transitions(log, gamma=0.9, reward_range=(0.0, 1.0))


def test_published_margins_know_of_the_noise_of_rewards() -> None:
    """A log adds up the rewards of a transition; how far they are apart counts as well."""
    log = clicks(1)
    spread = EmpiricalModel(log, log.counts).spread[0]
    by_hand = [0.1 * float(np.sqrt(p * (1.0 - p))) for p in (0.50, 0.52)]  # rewards are normalised by 1 - gamma
    assert spread == pytest.approx(by_hand, rel=0.02)
    cuts = rr.publish(log, rr.PlugInPolicy(0.01, 0.05, 0.2))
    assert cuts.margins.max() < 100.0
    follow = rr.PlugInPolicy(0.01, 0.05, 0.2, rule=rr.rules.PublishedCuts(cuts))
    runs = [rr.solve(clicks(seed), follow, shared_seed=0) for seed in range(2, 62)]
    assert sum(not np.array_equal(run.policy, cuts.policy) for run in runs) <= 3  # it was a fifth


def test_a_run_says_where_it_takes_what_nobody_tried() -> None:
    rows, wide = 1000, rr.rules.RandomTolerance(0.3)
    log = {"state": ["s"] * rows, "action": ["tried"] * rows, "reward": [1.0] * rows, "next_state": ["s"] * rows}
    names: dict[str, Any] = {"states": ["s", "unknown"], "actions": ["never", "tried"], "reward_range": (0.0, 1.0)}
    data = rr.from_transitions(log, gamma=0.99, **names)
    for rule, taken in ((wide, "never in s, never in unknown"), ("greedy", "never in unknown")):
        run = rr.solve(data, rr.PlugInPolicy(0.3, 0.05, 0.2, rule=rule), shared_seed=0)
        assert str(run.status).endswith(f"; taken all the same: {taken}")
    only = rr.from_transitions(log, gamma=0.99, **names, allowed=[[False, True], [True, True]])
    run = rr.solve(only, rr.PlugInPolicy(0.3, 0.05, 0.2, rule=wide), shared_seed=0)
    assert run.policy[0] == 1


def test_a_diagnosis_says_what_the_run_says() -> None:
    data = clicks(1)
    found = rr.diagnose(data, rr.PlugInPolicy(0.9, 0.05, 0.2), resamples=4)
    said = "epsilon=0.9 asks for nothing"
    assert found.status is not None
    assert said in found.status.sentence
    for text in (" ".join(found.text().split()), json.dumps(found.to_json())):
        assert said in text
    assert "the rule affordable, which may lose 0.9" in " ".join(str(found).split())


def test_threads_do_not_change_a_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    data = clicks(3)
    one = rr.diagnose(data, resamples=12)
    monkeypatch.setattr(forecast, "_MANY", 1)
    monkeypatch.setattr(compiled, "THREADS", 3)
    two = rr.diagnose(data, resamples=12)
    assert one.to_json(target=0.9, rules=True) == two.to_json(target=0.9, rules=True)


def test_who_has_seen_enough_does_not_wait_for_the_rest() -> None:
    made: list[int] = []

    def compute(i: int) -> int:
        made.append(i)
        return i

    results = forecast.in_order(compute, range(1000), threads=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(made) < 20

    def fails(i: int) -> int:
        return 1 // (i - 2)

    with pytest.raises(ZeroDivisionError):
        list(forecast.in_order(fails, range(5), threads=2))


def test_what_draws_fresh_samples_names_what_a_log_can_be_asked() -> None:
    data = clicks(1, 20)
    with pytest.raises(InvalidInput, match=r"^compare: draws fresh samples.*diagnose\(data\) says .*rules\(\)"):
        rr.compare(data)
    with pytest.raises(InvalidInput, match=r"^calibrate: draws fresh samples.*diagnose\(data\) says .*data_needed"):
        calibrate(data, rr.PlugInPolicy(0.1, 0.1, 0.2))
    other = dataclasses.replace(data.process, gamma=0.5)
    with pytest.raises(InvalidInput, match=r"^audit: logs of one process have one discount"):
        rr.audit([data, Dataset(other, *data.columns())], rr.PlugInPolicy(0.1, 0.1, 0.2))


def test_who_follows_cuts_says_whether_the_policy_is_the_published_one() -> None:
    cuts = rr.publish(clicks(1), rr.PlugInPolicy(0.01, 0.05, 0.2))
    follow = rr.PlugInPolicy(0.01, 0.05, 0.2, rule=rr.rules.PublishedCuts(cuts))
    assert "; the published policy;" in f"{rr.solve(clicks(2), follow, shared_seed=0).status};"
    other = dataclasses.replace(cuts, policy=1 - cuts.policy)
    follow = rr.PlugInPolicy(0.01, 0.05, 0.2, rule=rr.rules.PublishedCuts(other))
    assert "1 state decided otherwise than published" in str(rr.solve(clicks(2), follow, shared_seed=0).status)
