"""How many samples are enough: sizes, error rates, losses, advice, stores, and bad input."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import replicable_rl as rr
from replicable_rl.audit.agreement import Estimate, clopper_pearson, mean_at_every_look
from replicable_rl.diagnose import Calibration, Comparison, Point, calibrate
from replicable_rl.diagnose.search import (
    Losses,
    Sized,
    Verdict,
    _advice,
    grid,
    look_at,
    search,
    smallest,
    verdict_of,
)
from replicable_rl.theory import Units
from tests.statistics import ALPHA, SEED

MDP = rr.TabularMDP.from_dense(
    [[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], [[0.0, 1.0], [0.0, 0.0]], gamma=0.5, layout="sas"
)
FEW: dict[str, Any] = {"start": 256, "most": 512, "shared_seeds": 200}


@dataclass(frozen=True)
class Coin(rr.Algorithm):
    """Takes action 1 in every state, but action 0 in the second one with probability min(1/2, odd/samples).

    Two runs agree with probability 1 - 2d(1 - d), and no policy of it loses anything.
    """

    samples: int | None = None
    odd: float = 50.0
    rho: float = 0.2
    epsilon: float = 0.1
    fails: float = 0.0  # the probability of action 0 in the first state, which loses
    reads: bool = True

    version: ClassVar[str] = "1"
    made: ClassVar[list[int]] = []

    def solve(self, source: Any, shared: Any, rng: np.random.Generator) -> rr.Run:
        assert self.samples is not None
        self.made.append(self.samples)
        one, two = rng.random(2) if self.reads else (0.0, 0.0)
        policy = [0 if self.reads and two < self.fails else 1, 0 if one < min(0.5, self.odd / self.samples) else 1]
        return rr.Run.of({"policy": policy}, samples=2 * self.samples if self.reads else 0)


def agreement(size: float, odd: float = 50.0) -> float:
    d = min(0.5, odd / size)
    return 1.0 - 2.0 * d * (1.0 - d)


# --- the search -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "most"), [(1, 1), (1, 2), (1, 1000), (7, 7), (100, 10**6), (3, 2**40)])
def test_sizes_grow_by_a_small_factor_and_end_at_the_largest(start: int, most: int) -> None:
    sizes = grid(start, most)
    assert (sizes[0], sizes[-1]) == (start, most)
    assert all(below < above <= max(below + 1, 1.25 * below) for below, above in itertools.pairwise(sizes))
    assert len(sizes) <= 4 * np.log2(most / start) + 2


def points(verdicts: dict[int, Verdict]) -> list[Point]:
    estimate = Estimate(0.5, 0.0, 1.0)
    return [Point(n, n, 1, estimate, verdict=verdict) for n, verdict in sorted(verdicts.items())]


def tried(met: Callable[[int], bool], most: int = 1000) -> tuple[int | None, list[int]]:
    """Search sizes of which it is known whether they are met."""
    looked = search(grid(1, most), lambda n: points({n: "met" if met(n) else "not met"})[0])
    found = smallest(looked)
    return None if found is None else found.size, [point.size for point in looked]


def test_a_size_counts_only_if_all_larger_ones_tried_are_met() -> None:
    found = smallest(points({1: "met", 2: "not met", 4: "met", 8: "met"}))
    assert found is not None
    assert found.size == 4
    assert smallest(points({1: "met", 2: "met", 4: "undecided"})) is None
    assert tried(lambda n: n > 500, most=500)[0] is None
    size, sizes = tried(lambda n: n == 4 or n >= 300)  # for instance nothing is learned at 4
    assert size is not None
    assert 300 <= size <= 360
    assert 4 in sizes


@pytest.mark.parametrize("threshold", [1, 2, 3, 10, 64, 65, 100, 999, 1000])
def test_the_search_finds_a_threshold_to_a_fifth(threshold: int) -> None:
    found, sizes = tried(lambda n: n >= threshold)
    assert found is not None
    assert threshold <= found <= max(threshold + 1, 1.2 * threshold)
    assert len(sizes) <= 15  # ten doublings, one more, and two halvings


def simulated(
    true: Callable[[int], float], rng: np.random.Generator, interval: Any, each: float
) -> tuple[int | None, bool]:
    """Search with simulated pairs; return what is found, and whether every interval at every look held the truth."""
    drawn, held = dict[int, tuple[int, int]](), []

    def measure(size: int, pairs: int) -> Point:
        same, before = drawn.get(size, (0, 0))
        drawn[size] = same + int(rng.binomial(pairs - before, true(size))), pairs
        low, high = interval(*drawn[size], each)
        held.append(low <= true(size) <= high)
        point = Point(size, size, pairs, Estimate(drawn[size][0] / pairs, low, high))
        return replace(point, verdict=verdict_of(point, 0.2, None))

    found = smallest(search(grid(1, 256), lambda n: look_at(n, 256, measure)))
    return None if found is None else found.size, all(held)


@functools.cache
def every_look(same: int, pairs: int, confidence: float) -> tuple[float, float]:
    return mean_at_every_look(np.arange(pairs) < same, confidence)


EACH = 1.0 - 0.05 / len(grid(1, 256))


def test_the_search_keeps_its_error_rate_and_a_naive_one_does_not() -> None:
    repetitions, rng = 400, np.random.default_rng(SEED)

    def too_many(interval: Any, each: float) -> float:
        """Return the p-value of no more than one search in twenty being wrong."""
        seen = [simulated(lambda n: 0.795, rng, interval, each) for _ in range(repetitions)]
        assert sum(found is not None for found, _ in seen) <= sum(not held for _, held in seen)  # one needs the other
        wrong = sum(not held for _, held in seen)
        return float(stats.binomtest(wrong, repetitions, 0.05, alternative="greater").pvalue)

    assert too_many(every_look, EACH) > ALPHA
    assert too_many(clopper_pearson, 0.95) < ALPHA  # a planted bug: intervals for one look, and nothing is split
    found = [simulated(lambda n: 0.5 if n < 20 else 0.97, rng, every_look, EACH)[0] for _ in range(20)]
    assert all(n in (20, 22, 23, 24) for n in found), found  # and it has power


# --- one algorithm --------------------------------------------------------------------------------------------------


def test_a_known_agreement_is_met_where_it_should_be() -> None:
    found = calibrate(MDP, Coin(), start=50, most=6400, shared_seeds=400)
    assert found.met is True
    assert found.size is not None
    assert 440 <= found.size <= 1000  # it is 0.8 at 444, and seen with an interval
    assert agreement(found.size) >= 0.8
    assert found.samples == 2 * found.size
    for point in found.points:
        assert point.agreement.low <= agreement(point.size) <= point.agreement.high
        assert point.loss is not None
        assert (float(point.loss), point.loss.low) == (0.0, 0.0)
        assert (point.verdict == "met") <= (agreement(point.size) >= 0.8)
    assert found.theory is None
    told = json.loads(json.dumps(found.to_json()))
    assert told["size"] == str(found.size)
    assert told["points"][0]["agreement"]["low"] == found.points[0].agreement.low
    assert f"Met from samples = {found.size} on: {found.samples} samples in all" in " ".join(str(found).split())


@pytest.mark.parametrize(
    ("coin", "asked", "met"),
    [
        (Coin(odd=0.0, fails=0.5), {"start": 8, "most": 16, "shared_seeds": 200}, False),
        (Coin(odd=0.0, fails=0.01), {"epsilon": 0.1, "start": 8, "most": 16, "shared_seeds": 400}, True),
        (Coin(odd=0.0, reads=False), {"start": 8, "most": 8, "shared_seeds": 200}, None),  # nothing fresh shows nothing
        (Coin(), {"start": 1000, "most": 1000, "shared_seeds": 5}, None),
    ],
)
def test_losses_and_agreement_are_shown_refuted_or_left_open(coin: Coin, asked: dict[str, Any], met: Any) -> None:
    found = calibrate(MDP, coin, **asked)
    assert found.met is met
    if met is None:
        assert (found.size, found.samples, found.point) == (None, None, None)


def test_rho_and_epsilon_are_those_of_the_algorithm_unless_given() -> None:
    one: dict[str, Any] = {"start": 8, "most": 8, "shared_seeds": 5}
    found = calibrate(MDP, Coin(rho=0.3, epsilon=0.2), **one)
    assert (found.rho, found.epsilon) == (0.3, 0.2)
    found = calibrate(MDP, Coin(rho=0.3, epsilon=0.2), 0.4, 0.5, **one)
    assert (found.rho, found.epsilon) == (0.4, 0.5)
    assert calibrate(MDP, rr.ApproximateMDP(0.1, 0.01), 0.4, **one).epsilon is None  # its epsilon is about the model


@pytest.mark.parametrize("over", ["initial", "worst"])
def test_no_policy_loses_more_than_the_largest_loss(over: str) -> None:
    mdp = rr.make("garnet-v1", n_states=4, n_actions=3)
    losses = Losses(mdp, over)
    each = [losses.of(np.array(policy)) for policy in itertools.product(range(3), repeat=4)]
    assert max(each) <= losses.largest
    assert min(each) == pytest.approx(0.0, abs=1e-8)
    lost = rr.optimal_values(mdp).value - rr.evaluate_policy(mdp, np.full((4, 3), 1 / 3)).value
    gain = (float(lost.max()) if over == "worst" else float(mdp.initial @ lost)) / Units.of(mdp).span
    assert losses.uniform == pytest.approx(gain)


def test_the_default_rule_on_the_grid() -> None:
    mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2)
    found = calibrate(mdp, algorithm, start=16, most=1024, shared_seeds=256)
    assert found.size is not None
    assert 32 < found.size <= 256
    assert found.samples == 32 * found.size
    assert found.theory == rr.plan(mdp, algorithm).samples
    never = calibrate(mdp, replace(algorithm, rule="greedy"), start=16, most=64, shared_seeds=64)
    assert (never.met, never.theory) == (False, None)  # left and right are equally good


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        (rr.PlugInPolicy(0.1, 0.01, 0.2), "samples"),
        (rr.PlugInPolicy(0.1, 0.01, 0.2, budget=10**6), "budget"),
        (rr.PlugInPolicy(0.1, 0.01, 0.2, horizon=20), "budget"),
        (rr.PhasedVI(0.1, 0.01), "calls"),
        (rr.ReplicableApproximateMDP(0.1, 0.01, 0.2), "calls"),
        (rr.ReplicableRMax(0.1, 0.01, 0.2, 20), "episodes"),
        (Coin(), "samples"),
    ],
)
def test_the_parameter_is_found_by_its_name(algorithm: Any, name: str) -> None:
    sized = Sized(rr.make("chain-v1"), algorithm)
    assert sized.name == name
    first = sized.sizes(None, None)[0]
    assert vars(sized.at(first))[name] == first


def test_a_simulator_has_no_loss_and_ends_at_its_budget() -> None:
    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return int(rng.random() < 0.5), float(action == state)

    problem = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0), budget=400)
    found = calibrate(problem, rr.PlugInPolicy(0.2, 0.01, 0.2), start=32, shared_seeds=64)
    assert found.points[-1].size <= 100
    assert (found.points[-1].loss, found.epsilon, found.met) == (None, None, True)


def test_a_store_resumes_and_workers_change_nothing(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"start": 50, "most": 1600}
    fresh = calibrate(MDP, Coin(), shared_seeds=128, **asked)
    store = tmp_path / "runs.sqlite"
    calibrate(MDP, Coin(), shared_seeds=32, store=store, **asked)
    Coin.made.clear()
    assert calibrate(MDP, Coin(), shared_seeds=128, store=store, **asked) == fresh
    assert Coin.made
    Coin.made.clear()
    assert calibrate(MDP, Coin(), shared_seeds=128, store=store, **asked) == fresh
    assert not Coin.made
    two: dict[str, Any] = {"start": 64, "most": 76, "shared_seeds": 32}
    problem, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2)
    one = calibrate(problem, algorithm, n_jobs=1, **two)
    assert calibrate(problem, algorithm, n_jobs=2, store=store, **two) == one
    assert calibrate(problem, algorithm, seed=1, **two).points != one.points


# --- all of them ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid_found() -> Comparison:
    return rr.compare(rr.make("two-goals-v1"), algorithms=["greedy", "affordable", "tolerance"], **FEW)


def test_the_default_rule_is_recommended_where_actions_tie_and_the_plain_model_elsewhere(
    grid_found: Comparison, tmp_path: Path
) -> None:
    assert (grid_found.recommended, grid_found.met) == ("affordable", True)
    assert [row.met for row in grid_found.rows][:2] == [False, True]
    assert grid_found["affordable"].theory is not None
    told = json.loads(json.dumps(grid_found.to_json()))
    assert [row["name"] for row in told["rows"]] == ["greedy", "affordable", "tolerance"]
    asked: dict[str, Any] = {"algorithms": ["greedy", "affordable", "tolerance"], **FEW}
    assert rr.compare(rr.make("two-goals-v1"), store=tmp_path / "runs.sqlite", **asked) == grid_found
    chain = rr.compare(rr.make("chain-v1"), algorithms=["greedy", "affordable"], **FEW)
    assert chain.recommended == "greedy"
    with pytest.raises(rr.InvalidInput, match="there is no 'rpvi'"):
        grid_found["rpvi"]


def test_algorithms_of_all_kinds_are_compared_and_share_the_confidence() -> None:
    mdp = rr.make("chain-v1", n_states=2)
    found = rr.compare(mdp, epsilon=0.9, algorithms=[Coin(odd=0.0), Coin(odd=1.0)], **FEW)
    assert [row.name for row in found.rows] == ["Coin", "Coin'"]
    assert found["Coin"].confidence == pytest.approx(0.975)
    found = rr.compare(rr.make("chain-v1"), algorithms=["rpvi"], start=512, most=512, shared_seeds=8)
    assert found["rpvi"].algorithm.id == "rpvi-v1"


def test_the_advice_weighs_simplicity_and_samples(grid_found: Comparison) -> None:
    def row(name: str, samples: int, verdict: Verdict = "met") -> Calibration:
        return replace(grid_found["affordable"], name=name, points=tuple(points({samples: verdict})))

    def chosen(**samples: int) -> str | None:
        return _advice([row(name, n) for name, n in samples.items()])[0]

    assert chosen(greedy=150, affordable=100) == "greedy"
    assert chosen(greedy=1000, affordable=100) == "affordable"
    assert chosen(tolerance=90, affordable=100) == "affordable"  # as good as equal
    assert chosen(tolerance=10, affordable=100) == "tolerance"
    name, why = _advice([row("greedy", 10, "not met"), row("affordable", 10, "undecided")])
    assert name is None
    assert "Of affordable it cannot be told" in why


# --- bad input ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizeless(rr.Algorithm):
    rho: float = 0.2

    def solve(self, source: Any, shared: Any, rng: Any) -> Any: ...


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"rho": 0.0}, "rho must"),
        ({"confidence": 1.0}, "confidence must"),
        ({"shared_seeds": 0}, "shared_seeds must"),
        ({"start": 10, "most": 5}, "most must be at least the smallest size, 10, got 5"),
        ({"problem": "two-goals-v1"}, "problem must be a TabularMDP or a source, got 'two-goals-v1'"),
        ({"algorithm": Sizeless()}, "algorithm must be a dataclass with a parameter of samples, calls"),
        ({"algorithm": rr.PhasedVI(0.1, 0.01)}, "rho must"),
    ],
)
def test_bad_input_of_calibrate_is_refused_in_a_sentence(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(rr.InvalidInput) as refusal:
        calibrate(**{"problem": MDP, "algorithm": Coin(), **asked})
    assert str(refusal.value).startswith("calibrate: ")
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"epsilon": 2}, "epsilon must"),
        ({"algorithms": ["affordabel"]}, "got 'affordabel'"),
        ({"algorithms": []}, "algorithms must"),
        ({"algorithms": [7]}, "algorithms must"),
        ({"problem": "chain-v1"}, "problem must be a TabularMDP or a source, got 'chain-v1'"),
    ],
)
def test_bad_input_of_compare_is_refused_in_a_sentence(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(rr.InvalidInput) as refusal:
        rr.compare(**{"problem": rr.make("chain-v1"), **asked})
    assert str(refusal.value).startswith("compare: ")
    assert told in str(refusal.value)
