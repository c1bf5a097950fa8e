"""One log: what it decides, and what another one would have decided."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import compiled
from replicable_rl.diagnose import Diagnosis, calibrate, diagnosis
from replicable_rl.diagnose.diagnosis import Forecast, again, halves
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Dataset, Process
from replicable_rl.randomness import sample_stream
from replicable_rl.rules import EmpiricalModel
from tests.statistics import sampled_log
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
    assert "how many samples a pair has" in run.claims.missing["replicability"]


def test_pairs_without_data_are_the_worst_and_told() -> None:
    data = rr.from_transitions(LOG, gamma=0.9, states=["home", "road", "sea"], actions=["go", "wait", "swim"])
    run = rr.solve(data, DECIDE, shared_seed=1)
    assert run.status is not None
    assert "5 pairs of 9 never tried, taken for the worst" in run.status.sentence
    assert 2 not in run.policy[:2]


def said_of(run: rr.Run) -> str:
    assert run.status is not None
    return run.status.sentence


def test_new_logs_have_the_law_of_the_rows() -> None:
    data = data_of(2_000)
    rng, times = sample_stream(3), 4000
    rows = data.count, data.starts
    drawn = np.array([data.counts_of(*again(rows, rng)).count for _ in range(times)])
    expected = data.counts.count
    assert (np.abs(drawn.mean(axis=0) - expected) <= 5.5 * np.sqrt(expected / times)).all()  # 75 of them: 3e-6 in all
    # The variance of a Poisson number is its mean; that of its sample variance is mean/times + 2 mean^2/(times - 1).
    spread = np.sqrt(expected / times + 2.0 * expected**2 / (times - 1))
    assert (np.abs(drawn.var(axis=0, ddof=1) - expected) <= 6.5 * spread).all()  # skewed, so a little more room
    twice = np.array([again(rows, rng, 2.0)[0].sum() for _ in range(100)])
    assert abs(float(twice.mean()) - 2.0 * data.rows) <= 5.5 * math.sqrt(2.0 * data.rows / 100)
    (one, _), (two, _) = halves(rows, rng)
    assert (one + two == data.count).all()


def test_pairs_with_few_rows_count_by_a_shared_threshold() -> None:
    """A pair that was seen three times is the worst for some shared seeds, and told; two logs then still agree."""
    log = {"state": [0] * 403, "action": [0] * 200 + [1] * 200 + [2] * 3, "next_state": [0] * 403}
    data = rr.from_transitions({**log, "reward": [0.5] * 200 + [0.25] * 200 + [1.0] * 3}, gamma=0.5)
    runs = [rr.solve(data, rr.PlugInPolicy(0.02, 0.05, 0.2, rule="greedy"), shared_seed=i) for i in range(200)]
    taken = np.array([run.policy[0] for run in runs])
    told = ["1 pair of 3 with fewer than" in said_of(run) for run in runs]
    assert set(taken.tolist()) == {0, 2}
    assert ((taken == 0) == np.array(told)).all()
    left_out = 1.0 - math.log10(3.0)  # the share of thresholds from 1 to 10, in logarithms, that are above 3
    assert abs((taken == 0).mean() - left_out) <= 4.9 * math.sqrt(0.25 / 200)  # 1e-6
    # Cuts are published before anybody's seed: all who use them take the highest threshold.
    algorithm = rr.PlugInPolicy(0.02, 0.05, 0.2)
    cuts = rr.publish(data, algorithm)
    theirs = rr.PlugInPolicy(0.02, 0.05, 0.2, rule=rr.rules.PublishedCuts(cuts))
    assert {int(rr.solve(data, theirs, shared_seed=i).policy[0]) for i in range(20)} == {0} == {int(cuts.policy[0])}


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
    assert "how many samples" in claims.missing["accuracy"]
    planned = rr.plan(data, algorithm)
    assert len(planned.claims()) == 0
    assert not planned.numbers.accuracy_proved
    assert not planned.numbers.replicability_proved


def test_noise_of_rewards_of_many_values_is_forecast() -> None:
    """Four actions that are nearly as good, and rewards that are all different: logs disagree, and one log knows it."""
    data = many_rewards(0)
    assert data.width > 0.0
    found = rr.diagnose(data, rr.PlugInPolicy(0.001, 0.05, 0.2), resamples=60)
    assert found.agreement.high < 0.7  # 0.22 of pairs of fresh logs agree
    assert float(found.halves) < 0.7


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


def test_a_run_says_where_it_takes_what_nobody_tried() -> None:
    rows, wide = 1000, rr.rules.RandomTolerance(0.3)
    log = {"state": ["s"] * rows, "action": ["tried"] * rows, "reward": [1.0] * rows, "next_state": ["s"] * rows}
    names: dict[str, Any] = {"states": ["s", "unknown"], "actions": ["never", "tried"], "reward_range": (0.0, 1.0)}
    data = rr.from_transitions(log, gamma=0.99, **names)
    for rule, taken in ((wide, 2), ("greedy", 1)):
        run = rr.solve(data, rr.PlugInPolicy(0.3, 0.05, 0.2, rule=rule), shared_seed=0)
        assert str(run.status).endswith(f"; {taken} of them taken all the same")
    only = rr.from_transitions(log, gamma=0.99, **names, allowed=[[False, True], [True, True]])
    run = rr.solve(only, rr.PlugInPolicy(0.3, 0.05, 0.2, rule=wide), shared_seed=0)
    assert run.policy[0] == 1


def test_what_draws_fresh_samples_names_what_a_log_can_be_asked() -> None:
    data = clicks(1, 20)
    with pytest.raises(InvalidInput, match=r"^compare: draws fresh samples.*diagnose\(data\)"):
        rr.compare(data)
    with pytest.raises(InvalidInput, match=r"^calibrate: draws fresh samples.*diagnose\(data\)"):
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
    assert "state decided otherwise" in str(rr.solve(clicks(2), follow, shared_seed=0).status)


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


# --- what people and programs read --------------------------------------------------------------------------------

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\n=cmd|' /C calc'!A1"


@pytest.fixture(scope="module")
def found(database: Any) -> Diagnosis:
    return rr.diagnose(data_of(300), DECIDE, resamples=30, seed=2)


def test_a_diagnosis_says_where_and_how_much(found: Diagnosis, tmp_path: Path) -> None:
    assert found.states[0].share >= found.states[-1].share
    assert found.states[0].action != found.states[0].rival
    before = " ".join(str(found).split())
    assert "Another log of this size gives the same policy with probability" in before
    assert "which may lose 0.02" in before
    needed = found.data_needed(0.75)
    assert needed is not None
    assert needed > found.data.rows
    assert found.data_needed(0.01) == found.data.rows
    after = " ".join(str(found).split())
    assert "rows like these" not in before
    assert f"takes about {needed} rows like these" in after
    again = rr.diagnose(data_of(300), DECIDE, resamples=30, seed=2)
    again.data_needed(0.75), again.data_needed(0.01)
    told = json.loads(json.dumps(found.to_json()))
    assert told == json.loads(json.dumps(again.to_json()))
    assert told["rows_needed"]["0.75"] == needed
    for width in (40, 60, 100):
        assert max(map(len, found.text(width).splitlines())) <= width
    found.save_page(tmp_path / "page.html", "replicable-rl diagnose shop.csv")
    assert "replicable-rl diagnose shop.csv" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_names_of_a_log_command_nobody(tmp_path: Path) -> None:
    log = long_log(300, seed=3)
    named = {name: [f"{EVIL} {value}" for value in log[name]] for name in ("state", "action", "next_state")}
    hostile = rr.diagnose(rr.from_transitions(log | named, gamma=0.9), DECIDE, resamples=5)
    hostile.save_page(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (page, str(hostile)):
        assert "\x1b" not in text
    assert "<img src=x" not in page
    assert "<script>alert" not in page


def test_threads_and_the_time_at_which_one_looks_do_not_change_a_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    one, decided = rr.diagnose(clicks(3), resamples=12), list[int]()
    monkeypatch.setattr(diagnosis, "_MANY", 1)
    monkeypatch.setattr(compiled, "THREADS", 3)
    assert one.to_json() == rr.diagnose(clicks(3), resamples=12).to_json()
    decide = Forecast.decide

    def counted(*given: Any) -> Any:
        decided.append(1)
        return decide(*given)

    monkeypatch.setattr(Forecast, "decide", counted)
    assert not Forecast(data_of(300), DECIDE, 200, 1).reaches(0.999999, 0.01)
    assert 4 * 20 <= len(decided) < 4 * 200  # no more are drawn than tell


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"data": 3}, "data"),
        ({"algorithm": rr.PlugInPolicy}, "algorithm"),
        ({"resamples": 1}, "resamples"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_wrong_values_of_diagnose(change: dict[str, Any], parameter: str) -> None:
    with pytest.raises(rr.InvalidInput, match=f"diagnose: {parameter} must"):
        rr.diagnose(**{"data": rr.from_transitions(LOG, gamma=0.9), **change})
