"""How many samples are enough: closed forms, error rates, honesty about curves that fall, stores, and bad input."""

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
from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.intervals import clopper_pearson, mean_at_every_look
from replicable_rl.diagnose import Calibration, calibrate
from replicable_rl.diagnose.losses import Losses
from replicable_rl.diagnose.published import published_spec
from replicable_rl.diagnose.search import Point, Question, Seen, Verdict, grid, look_at, search, smallest
from replicable_rl.diagnose.sizes import Sized
from tests.statistics import ALPHA, SEED

MDP = rr.TabularMDP.from_dense(
    [[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], [[0.0, 1.0], [0.0, 0.0]], gamma=0.5, layout="sas"
)


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
        return rr.Run.of({"policy": policy}, samples=2 * self.samples)


def agreement(size: float, odd: float = 50.0) -> float:
    d = min(0.5, odd / size)
    return 1.0 - 2.0 * d * (1.0 - d)


# --- the sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "most"), [(1, 1), (1, 2), (1, 1000), (7, 7), (100, 10**6), (3, 2**40)])
def test_sizes_grow_by_a_small_factor_and_end_at_the_largest(start: int, most: int) -> None:
    sizes = grid(start, most)
    assert (sizes[0], sizes[-1]) == (start, most)
    assert all(below < above for below, above in itertools.pairwise(sizes))
    assert all(above <= max(below + 1, 1.25 * below) for below, above in itertools.pairwise(sizes))
    assert len(sizes) <= 4 * np.log2(most / start) + 2


def points(verdicts: dict[int, Verdict]) -> list[Point]:
    return [Point(n, n, 1, Estimate(0.5, 0.0, 1.0), None, None, verdict) for n, verdict in sorted(verdicts.items())]


def test_a_size_counts_only_if_all_larger_ones_tried_are_met() -> None:
    found = smallest(points({1: "met", 2: "not met", 4: "met", 8: "met"}))
    assert found is not None
    assert found.size == 4
    assert smallest(points({1: "met", 2: "met", 4: "undecided"})) is None
    assert smallest(points({1: "not met"})) is None


def tried(met: Callable[[int], bool], start: int = 1, most: int = 1000) -> tuple[int | None, list[int]]:
    """Search sizes of which it is known whether they are met."""
    looked = search(grid(start, most), lambda n: points({n: "met" if met(n) else "not met"})[0])
    found = smallest(looked)
    return None if found is None else found.size, [point.size for point in looked]


@pytest.mark.parametrize("threshold", [1, 2, 3, 10, 64, 65, 100, 999, 1000])
def test_the_search_finds_a_threshold_to_a_fifth(threshold: int) -> None:
    found, sizes = tried(lambda n: n >= threshold)
    assert found is not None
    assert threshold <= found <= max(threshold + 1, 1.2 * threshold)
    assert len(sizes) <= 15  # ten doublings, one more, and two halvings


def test_the_search_says_that_nothing_is_met() -> None:
    assert tried(lambda n: False)[0] is None
    assert tried(lambda n: n > 500, most=500)[0] is None


def test_a_hill_before_the_valley_is_not_taken_for_the_answer() -> None:
    found, sizes = tried(lambda n: n == 4 or n >= 300)  # for instance nothing is learned at 4
    assert found is not None
    assert 300 <= found <= 360
    assert 4 in sizes


# --- the error rate ----------------------------------------------------------------------------------


def simulated(
    true: Callable[[int], float], rng: np.random.Generator, interval: Any, each: float
) -> tuple[int | None, bool]:
    """Search with simulated pairs; return what is found, and whether every interval at every look held the truth."""
    question, drawn, held = Question(0.2, None, each, 256), dict[int, tuple[int, int]](), []

    def measure(size: int, pairs: int) -> Seen:
        same, before = drawn.get(size, (0, 0))
        drawn[size] = same + int(rng.binomial(pairs - before, true(size))), pairs
        low, high = interval(*drawn[size], each)
        held.append(low <= true(size) <= high)
        return Seen(Estimate(drawn[size][0] / pairs, low, high))

    looked = search(grid(1, 256), lambda n: look_at(n, question, lambda pairs: measure(n, pairs)))
    found = smallest(looked)
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
    assert too_many(clopper_pearson, 0.99) < ALPHA  # also where some of it is split


def test_the_search_has_power() -> None:
    rng = np.random.default_rng(SEED)
    found = [simulated(lambda n: 0.5 if n < 20 else 0.97, rng, every_look, EACH)[0] for _ in range(20)]
    assert all(n in (20, 22, 23, 24) for n in found), found


# --- an algorithm of which everything is known ---------------------------------------------------------


def test_a_known_agreement_is_met_where_it_should_be() -> None:
    found = calibrate(MDP, Coin(), start=50, most=6400, shared_seeds=400)
    assert found.met is True
    assert found.size is not None
    assert 440 <= found.size <= 1000  # it is 0.8 at 444, and seen with an interval
    assert agreement(found.size) >= 0.8
    assert found.samples == 2 * found.size
    assert found.per_pair == found.size / 2
    for point in found.points:
        assert point.agreement.low <= agreement(point.size) <= point.agreement.high
        assert point.loss is not None
        assert point.loss.low == 0.0
        assert point.largest_loss == 0.0
        assert (point.verdict == "met") <= (agreement(point.size) >= 0.8)
    assert found.theory is None
    assert found.chosen is not None
    assert found.chosen.params["samples"] == found.size


def test_a_loss_that_is_too_large_is_refuted() -> None:
    # The first state is where it starts half of the time; its wrong action costs 1/4 of all there is.
    always = calibrate(MDP, Coin(odd=0.0, fails=0.5), start=8, most=16, shared_seeds=200)
    assert always.met is False
    assert all(point.agreement.high < 1.0 for point in always.points)
    rarely = calibrate(MDP, Coin(odd=0.0, fails=0.01), epsilon=0.1, start=8, most=16, shared_seeds=400)
    assert rarely.met is True
    strict = calibrate(MDP, Coin(odd=0.0, fails=0.08), epsilon=0.001, start=8, most=8, shared_seeds=400)
    assert strict.met is not True


def test_too_few_pairs_leave_it_undecided() -> None:
    found = calibrate(MDP, Coin(), start=1000, most=1000, shared_seeds=5)
    assert found.met is None
    assert (found.size, found.samples, found.point, found.chosen) == (None, None, None, None)
    assert [point.verdict for point in found.points] == ["undecided"]
    assert "More shared seeds" in found.table()


def test_runs_on_nothing_fresh_show_nothing() -> None:
    found = calibrate(MDP, Coin(reads=False, odd=0.0), start=8, most=8, shared_seeds=200)
    assert float(found.points[0].agreement) == 1.0
    assert found.met is None


def test_rho_and_epsilon_are_those_of_the_algorithm_unless_given() -> None:
    found = calibrate(MDP, Coin(rho=0.3, epsilon=0.2), start=8, most=8, shared_seeds=5)
    assert (found.rho, found.epsilon) == (0.3, 0.2)
    found = calibrate(MDP, Coin(rho=0.3, epsilon=0.2), 0.4, 0.5, start=8, most=8, shared_seeds=5)
    assert (found.rho, found.epsilon) == (0.4, 0.5)
    found = calibrate(MDP, rr.ApproximateMDP(0.1, 0.01), 0.4, start=8, most=8, shared_seeds=5)
    assert found.epsilon is None  # its epsilon is about the model


# --- losses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["initial", "worst"])
def test_the_largest_loss_is_that_of_the_worst_policy(over: str) -> None:
    mdp = rr.make("garnet-v1", n_states=4, n_actions=3)
    losses = Losses(mdp, over)
    each = [losses.of(np.array(policy)) for policy in itertools.product(range(3), repeat=4)]
    assert max(each) == pytest.approx(losses.largest, abs=1e-6)
    assert max(each) <= losses.largest
    assert min(each) == pytest.approx(0.0, abs=1e-8)
    best, uniform = rr.optimal_values(mdp).value, rr.evaluate_policy(mdp, np.full((4, 3), 1 / 3)).value
    lost = best - uniform
    gain = (float(lost.max()) if over == "worst" else float(mdp.initial @ lost)) / losses.units.span
    assert losses.uniform == pytest.approx(gain)


# --- what ships ----------------------------------------------------------------------------------------


def test_the_default_rule_on_the_grid() -> None:
    mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2)
    found = calibrate(mdp, algorithm, start=16, most=1024, shared_seeds=256)
    assert found.met is True
    assert found.size is not None
    assert 32 < found.size <= 256
    assert found.samples == 32 * found.size
    assert found.theory == rr.plan(mdp, algorithm).samples
    never = calibrate(mdp, replace(algorithm, rule="greedy"), start=16, most=64, shared_seeds=64)
    assert never.met is False  # left and right are equally good
    assert never.theory is None


def test_published_cuts_are_read_by_a_second_lab() -> None:
    mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2)
    found = calibrate(mdp, algorithm, start=256, most=256, shared_seeds=128, published=True)
    assert found.published
    assert found.algorithm.id == "published-afresh-v1"
    assert float(found.points[0].agreement) > 0.9
    spec = published_spec(mdp, replace(algorithm, samples=256), in_store=False, seed=0, shared_seeds=3)
    job: Any = spec.job
    first, second = (job.run(one) for one in spec.runs[:2])
    cuts = rr.publish(mdp, job.algorithm, sample_seed=first.sample_seed)
    theirs = replace(job.algorithm, rule=rr.rules.PublishedCuts(cuts))
    assert first.policy.tolist() == cuts.policy.tolist()
    again = rr.solve(mdp, theirs, shared_seed=second.shared_seed, sample_seed=second.sample_seed)
    assert second.fingerprints == again.fingerprints


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        (rr.PlugInPolicy(0.1, 0.01, 0.2), "samples"),
        (rr.PlugInPolicy(0.1, 0.01, 0.2, budget=10**6), "budget"),
        (rr.PlugInPolicy(0.1, 0.01, 0.2, horizon=20), "budget"),
        (rr.ReplicablePhasedVI(0.1, 0.01, 0.2), "calls"),
        (rr.PhasedVI(0.1, 0.01), "calls"),
        (rr.ReplicableApproximateMDP(0.1, 0.01, 0.2), "calls"),
        (rr.ReplicableRMax(0.1, 0.01, 0.2, 20), "episodes"),
        (Coin(), "samples"),
    ],
)
def test_the_parameter_is_found_by_its_name(algorithm: Any, name: str) -> None:
    mdp = rr.make("chain-v1")
    sized = Sized.of(mdp, algorithm, None, "calibrate")
    assert sized.name == name
    sizes = sized.sizes(mdp, None, None, "calibrate")
    assert getattr(sized.at(sizes[0]), name) == sizes[0]


@pytest.mark.parametrize(
    "algorithm",
    [
        rr.PlugInPolicy(0.1, 0.01, 0.2, over="worst"),
        rr.ReplicableApproximateMDP(0.1, 0.01, 0.2),
        rr.ReplicableRMax(0.1, 0.01, 0.2, 20),
    ],
)
def test_every_kind_of_algorithm_can_be_calibrated(algorithm: Any) -> None:
    found = calibrate(rr.make("chain-v1"), algorithm, start=1024, most=2048, shared_seeds=8)
    assert found.points[-1].samples is not None
    assert found.points[-1].loss is not None
    assert found.over == getattr(algorithm, "over", "initial")
    assert found.table()


def test_a_simulator_has_no_loss_and_ends_at_its_budget() -> None:
    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return int(rng.random() < 0.5), float(action == state)

    problem = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0), budget=400)
    found = calibrate(problem, rr.PlugInPolicy(0.2, 0.01, 0.2), start=32, shared_seeds=64)
    assert found.points[-1].size <= 100
    assert found.points[-1].loss is None
    assert found.epsilon is None
    assert found.met is True
    assert "Losses are not known" in found.table()


# --- the same again, and what is kept -----------------------------------------------------------------


def test_a_store_resumes_and_what_it_has_is_not_made_again(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"start": 50, "most": 1600}
    fresh = calibrate(MDP, Coin(), shared_seeds=128, **asked)
    store = tmp_path / "runs.sqlite"
    calibrate(MDP, Coin(), shared_seeds=32, store=store, **asked)
    Coin.made.clear()
    extended = calibrate(MDP, Coin(), shared_seeds=128, store=store, **asked)
    assert Coin.made
    assert extended == fresh
    Coin.made.clear()
    assert calibrate(MDP, Coin(), shared_seeds=128, store=store, **asked) == fresh
    assert not Coin.made


def test_the_same_seed_gives_the_same_result_on_any_number_of_workers(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"start": 64, "most": 76, "shared_seeds": 32}
    problem, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2)
    one = calibrate(problem, algorithm, n_jobs=1, **asked)
    assert calibrate(problem, algorithm, n_jobs=2, **asked).to_json() == one.to_json()
    assert calibrate(problem, algorithm, published=True, n_jobs=2, **asked).to_json() == (
        calibrate(problem, algorithm, published=True, store=tmp_path / "runs.sqlite", **asked).to_json()
    )
    other = calibrate(problem, algorithm, seed=1, **asked)
    assert other.points != one.points


# --- what people and programs read ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> Calibration:
    return calibrate(MDP, Coin(), start=100, most=3200, shared_seeds=256)


def test_the_table_fits_80_columns_and_says_what_was_found(found: Calibration) -> None:
    table = found.table()
    assert max(map(len, table.splitlines())) <= 80
    assert str(found) == table
    assert f"Met from samples = {found.size} on: {found.samples} samples in all." in table
    assert "all larger sizes" in table
    assert "No proof" in table
    assert len(repr(found)) < 160
    with pytest.raises(AttributeError):
        found.rho = 0.1  # type: ignore[misc]


def test_json_has_everything(found: Calibration) -> None:
    data = json.loads(json.dumps(found.to_json()))
    assert data["size"] == {"name": "samples", "value": str(found.size)}
    assert data["samples"] == str(found.samples)
    assert len(data["points"]) == len(found.points)
    assert data["points"][0]["agreement"]["low"] == found.points[0].agreement.low
    assert data["asked"]["rho"] == 0.2


def test_a_figure_is_drawn(found: Calibration, tmp_path: Path) -> None:
    found.plot(tmp_path / "a.svg")
    first = (tmp_path / "a.svg").read_bytes()
    assert first.startswith(b"<?xml")
    found.plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == first


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rho": 0.0}, "calibrate: rho must"),
        ({"confidence": 1.0}, "calibrate: confidence must"),
        ({"shared_seeds": 0}, "calibrate: shared_seeds must"),
        ({"start": 10, "most": 5}, "calibrate: most must be at least the smallest size, 10, got 5"),
        ({"size": "n"}, "calibrate: Coin has no parameter 'n'"),
        ({"published": True}, "calibrate: published=True is for PlugInPolicy"),
        ({"level": "polcy"}, "calibrate: "),
    ],
)
def test_bad_input_is_refused_in_a_sentence(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(rr.InvalidInput) as refusal:
        calibrate(MDP, Coin(), **asked)
    assert str(refusal.value).startswith(said)


def test_bad_problems_and_algorithms_are_refused_in_a_sentence() -> None:
    @dataclass(frozen=True)
    class Sizeless(rr.Algorithm):
        rho: float = 0.2

        def solve(self, source: Any, shared: Any, rng: Any) -> Any: ...

    class Plain(rr.Algorithm):
        rho = 0.2

        def solve(self, source: Any, shared: Any, rng: Any) -> Any: ...

    cases: list[tuple[Any, Any, str]] = [
        ("two-goals-v1", Coin(), "calibrate: problem must be a TabularMDP or a source, got 'two-goals-v1'. Use"),
        (MDP, Plain(), "calibrate: algorithm must be a dataclass such as PlugInPolicy"),
        (MDP, Sizeless(), "calibrate: no parameter of Sizeless is called samples, calls, episodes or budget. Name"),
        (MDP, rr.PhasedVI(0.1, 0.01), "calibrate: PhasedVI promises no rho, so it must be given, such as rho=0.2."),
    ]
    for problem, algorithm, said in cases:
        with pytest.raises(rr.InvalidInput) as refusal:
            calibrate(problem, algorithm)
        assert str(refusal.value).startswith(said)
