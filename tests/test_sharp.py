"""The sharp forms: the same promises from fewer samples, proved; each step at its edge."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import replicable_rl as rr
from replicable_rl.algorithms import phased_vi as module
from replicable_rl.queries import RStat
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.testing import PerSample
from replicable_rl.theory import paper_approximate_mdp, paper_phased_vi
from replicable_rl.theory.approximate_mdp import row_distance
from replicable_rl.theory.phased_vi import Schedule, rising_schedule
from replicable_rl.theory.rstat import few_bits, mean_distance, rstat, seed_margin
from tests.statistics import ALPHA, SEED, Like

theory_rstat = importlib.import_module("replicable_rl.theory.rstat")  # the function hides the module
shares = st.floats(1e-4, 0.99)
PROMISE = (0.1, 0.001, 0.2)


# --- one query ------------------------------------------------------------------------------------------


def exact_distance(n: int, p: float) -> float:
    """E|v1 - v2| of two means of n Bernoulli(p), summed over both laws."""
    k = np.arange(n + 1)
    law = binom.pmf(k, n, p)
    return float(np.abs(np.subtract.outer(k, k)).ravel() @ np.multiply.outer(law, law).ravel()) / n


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 300])
def test_the_mean_distance_is_at_most_one_over_root_pi_n(n: int) -> None:
    worst = exact_distance(n, 0.5)
    assert worst == pytest.approx(math.comb(2 * n, n) / 4**n)
    assert worst <= mean_distance(n) <= worst * (1.0 + 0.3 / n)  # and tight
    for p in (1e-6, 0.01, 0.2, 0.45, 0.9):
        assert exact_distance(n, p) <= worst * (1 + 1e-12)
        # what the rows of a model use
        assert exact_distance(n, p) <= 2 * math.sqrt(p * (1 - p) / (math.pi * n)) + math.sqrt(2 / math.pi) / n


@given(
    st.lists(st.floats(0.0, 1.0).map(lambda x: round(x, 6)), min_size=2, max_size=5),
    st.integers(1, 4),
    st.integers(0, 2**32),
)
def test_bernoulli_is_the_worst_law(values: list[float], n: int, seed: int) -> None:
    """The step of the proof: for any law on [0, 1] the mean distance is at most that of its Bernoulli law."""
    p = np.random.default_rng(seed).dirichlet(np.ones(len(values)))
    law = {0.0: 1.0}
    for _ in range(n):  # the law of a sum of n
        new: dict[float, float] = {}
        for total, chance in law.items():
            for value, q in zip(values, p, strict=True):
                new[total + value] = new.get(total + value, 0.0) + chance * q
        law = new
    x, weight = np.array(list(law)), np.array(list(law.values()))
    distance = float((np.abs(np.subtract.outer(x, x)) * np.multiply.outer(weight, weight)).sum()) / n
    assert distance <= exact_distance(n, min(1.0, float(p @ values))) + 1e-12


@given(shares, shares, st.floats(1e-4, 0.9), st.sampled_from(["midpoint", "zero-preserving"]))
def test_a_sharp_query(rho: float, delta: float, tau: float, form: Any) -> None:
    """Both promises hold at n, one sample fewer is too few, and 2 delta < rho is not needed."""
    plan = rstat(rho, delta, tolerance=tau, form=form)
    pieces = 1 if form == "midpoint" else 2
    assert plan.error_proved <= tau * (1 + 1e-12)
    assert mean_distance(plan.samples) / plan.width <= rho * (1 + 1e-12)
    if 1 < plan.samples < 10**9:
        n = plan.samples - 1
        room = 2 * (tau - math.sqrt(math.log(2 / delta) / (2 * n))) / pieces
        assert room <= 0 or mean_distance(n) / room > rho


def test_two_answers_differ_with_the_probability_that_is_promised() -> None:
    """Bernoulli(1/2) at exactly n: the bound is met, and within a factor of two. False alarm: ALPHA."""
    rng = np.random.default_rng(SEED)
    plan, trials = rstat(0.2, 0.01, tolerance=0.1), 100_000
    v = rng.binomial(plan.samples, 0.5, (2, trials)) / plan.samples
    bins = np.floor((v - plan.width * rng.random(trials)) / plan.width)
    differ = int((bins[0] != bins[1]).sum())
    assert binom.sf(differ - 1, trials, plan.rho) > ALPHA
    assert differ > 0.9 * plan.rho * trials


# --- the schedule -------------------------------------------------------------------------------------------


def check_schedule(gamma: float, epsilon: float, delta: float, rho: float, pairs: int, known: bool) -> None:
    """The recursions of the proof, one iteration after another."""
    one = rising_schedule(pairs, gamma, epsilon, delta, rho, known_rewards=known)
    damped, T = (gamma if known else 1.0), one.iterations
    error, differ, top = (gamma if known else 1.0), 0.0, (1.0 - gamma if known else 0.0)
    for t in range(T):
        reach = top if known else (1.0 - gamma) + gamma * top  # what is averaged
        assert reach <= one.reach[t] * (1 + 1e-9)
        deviation = reach * math.sqrt(math.log(2 * pairs * T / delta) / (2 * int(one.calls[t])))
        assert one.lowered[t] >= (deviation + one.widths[t] / 2) * (1 - 1e-9)
        error = gamma * error + damped * 2 * one.lowered[t]
        differ += pairs * reach / (one.widths[t] * math.sqrt(math.pi * int(one.calls[t])))
        top = (1.0 - gamma) + gamma * top
    assert error <= epsilon
    assert one.loss(gamma, known) == pytest.approx(error, rel=1e-9, abs=1e-300)
    assert differ <= rho
    assert one.disagreement(pairs) == pytest.approx(differ, rel=1e-5)
    plan = rr.theory.phased_vi(pairs, gamma, epsilon, delta, rho, known_rewards=known)
    assert plan.accuracy_proved
    assert plan.replicability_proved
    assert plan.samples == pairs * sum(map(int, one.calls))


@settings(max_examples=200)
@given(
    st.floats(0.0, 0.999) | st.sampled_from([0.0, 0.9, 0.99]),
    shares,
    shares,
    shares,
    st.sampled_from([1, 2, 32, 10**6]),
    st.booleans(),
)
def test_a_schedule_keeps_both_promises(
    gamma: float, epsilon: float, delta: float, rho: float, pairs: int, known: bool
) -> None:
    check_schedule(gamma, epsilon, delta, rho, pairs, known)


def test_numbers_have_few_bits() -> None:
    """The last bits of pow and log differ between machines; those of a schedule must not."""
    one = rising_schedule(32, 0.9, *PROMISE)
    for numbers in (one.calls.astype(float), one.widths, one.lowered, one.reach):
        mantissa = np.frexp(numbers)[0] * 2.0**24
        assert (mantissa == np.floor(mantissa)).all()
    middle = rr.theory.phased_vi(32, 0.9, *PROMISE).value_error * 2.0**40  # which is added to Q
    assert middle == math.floor(middle)
    assert (few_bits([0.1, 1.0, 0.0]) >= [0.1, 1.0, 0.0]).all()


def test_calls_fall_with_the_spread() -> None:
    one = rising_schedule(32, 0.9, *PROMISE)
    full, half = one.calls_at(5, float(one.reach[5])), one.calls_at(5, float(one.reach[5]) / 2)
    assert (full, half) == (one.calls[5], math.ceil(one.calls[5] / 4))
    assert one.calls_at(5, 0.0) == 2
    assert Schedule.constant(7, 10**30, 0.1).total == 7 * 10**30
    assert Schedule.constant(2**53, 1, 0.1).iterations == 2**53  # without memory


def test_extreme_promises() -> None:
    least = rr.theory.phased_vi(2**62, 0.999, 1e-30, 1e-30, 1e-30)
    assert least.accuracy_proved
    assert least.replicability_proved
    assert least.calls > 2**63
    with pytest.raises(rr.InvalidInput, match=r"gamma=0.9999999 takes more than 1e\+06 iterations"):
        rr.theory.phased_vi(32, 0.9999999, *PROMISE)
    assert paper_phased_vi(32, 0.9999999, *PROMISE)["iterations"] > 10**6


# --- the headline ---------------------------------------------------------------------------------------------


def test_what_it_takes_on_two_goals() -> None:
    """m falls by far more than 64 from the paper's listing to ours, and the samples in all even more."""
    sharp = rr.theory.phased_vi(32, 0.9, *PROMISE)
    paper, printed = (paper_phased_vi(32, 0.9, *PROMISE, printed=printed) for printed in (False, True))
    assert paper["calls"] / sharp.calls == pytest.approx(85_000, rel=0.01)
    assert 32 * paper["iterations"] * paper["calls"] / sharp.samples == pytest.approx(516_000, rel=0.01)
    assert printed["calls"] == pytest.approx(4 * paper["calls"], rel=1e-3)
    # the mean distance alone: the paper's listing with a hundredth of its m
    listing = rr.theory.phased_vi(32, 0.9, *PROMISE, calls=paper["calls"] // 100)
    assert listing.replicability_proved
    assert listing.accuracy_proved
    model = rr.theory.approximate_mdp(8, 4, *PROMISE).calls
    assert paper_approximate_mdp(8, 4, *PROMISE)["calls"] > 120 * model


# --- runs -----------------------------------------------------------------------------------------------------


def reference(mdp: rr.TabularMDP, shared_seed: int, sample_seed: int) -> tuple[list[float], int]:
    """The rising listing by scalar arithmetic, one query at a time; Q in normalised units, and the calls."""
    plan = rr.ReplicablePhasedVI(*PROMISE).plan(mdp).numbers
    gamma, one, (low, high), A = mdp.gamma, plan.schedule, mdp.reward_range, mdp.n_actions
    rng, sampler, known = sample_stream(sample_seed), mdp, mdp.known_rewards is not None

    def normal(reward: float) -> float:
        return (1.0 - gamma) * ((reward - low) / (high - low))

    rows = range(mdp.n_states * A)
    Q = [normal(float(mdp.rows.reward[mdp.rows.indptr[row]])) if known else 0.0 for row in rows]
    made = 0
    for t in range(one.iterations):
        V = [max(Q[s * A : (s + 1) * A]) for s in range(mdp.n_states)]
        spread = max(V) - min(V)
        spread = spread if known else (1.0 - gamma) + gamma * spread
        m = max(2, math.ceil(float(one.calls[t]) * ((spread / one.reach[t]) * (spread / one.reach[t]))))
        made += m
        counts = sampler.draw(m, rng)
        words = rr.SharedRandomness(shared_seed).words("rpvi/offset", t, count=len(Q))
        new = []
        for row in rows:
            total = 0.0
            for k in range(counts.indptr[row], counts.indptr[row + 1]):
                x = V[counts.next_state[k]]
                total += int(counts.count[k]) * (x if known else normal(float(counts.reward[k])) + gamma * x)
            width = float(one.widths[t])
            mean, off = min(max(total / m, 0.0), 1.0), width * ((int(words[row]) >> 11) * 2.0**-53)
            k = math.floor((mean - off) / width)
            bottom, top = (min(max(off + j * width, 0.0), 1.0) for j in (k, k + 1))
            lower = bottom + (top - bottom) / 2 - float(one.lowered[t])
            first = normal(float(counts.reward[counts.indptr[row]]))
            new.append(max(Q[row], first + gamma * lower if known else lower))
        Q = new
    return Q, made


def check_reference(problem: str = "two-goals-v1") -> None:
    mdp, algorithm = rr.make(problem), rr.ReplicablePhasedVI(*PROMISE)
    plan, units = algorithm.plan(mdp).numbers, rr.theory.Units(mdp.gamma, *mdp.reward_range)
    for seed in range(2):
        run = rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=9 + seed)
        q, calls = reference(mdp, seed, 9 + seed)
        loop = np.array(q).reshape(run.q.shape)
        expected = units.value_to_user((loop + np.minimum(loop + 2.0 * plan.value_error, 1.0)) / 2.0)
        assert run.q.tobytes() == (expected + 0.0).tobytes()
        assert run.samples == plan.pairs * calls


@pytest.mark.parametrize("problem", ["two-goals-v1", "chain-v1", "machine-repair-v1"])
def test_bit_for_bit_the_rising_listing(problem: str) -> None:
    check_reference(problem)


def test_samples_drawn_are_samples_reported() -> None:
    drawn = []

    class Counting(Like):
        def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
            counts = super().draw(calls, rng)
            drawn.append(int(counts.count.sum()))
            return counts

    mdp, algorithm = rr.make("riverswim-v1"), rr.ReplicablePhasedVI(*PROMISE)
    run = rr.solve(Counting(mdp), algorithm, shared_seed=1, sample_seed=1)
    assert run.samples == sum(drawn) < algorithm.plan(mdp).samples  # values spread over less than they may
    assert run.fingerprints == rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1).fingerprints


PROBLEMS = ["two-goals-v1", "riverswim-v1", "chain-v1", "machine-repair-v1", "garnet-v1"]


@pytest.mark.parametrize("target", ["policy", "value"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_sharp_theorem_at_its_own_sample_size(problem: str, target: Any) -> None:
    """Every run keeps epsilon, Q stays below Q*, and of 40 pairs too many differ with probability below ALPHA only."""
    mdp = rr.make(problem)
    algorithm = rr.ReplicablePhasedVI(0.2, 0.001, 0.1, target=target)
    plan, best = algorithm.plan(mdp).numbers, rr.optimal_values(mdp)
    span, differ = rr.theory.Units(mdp.gamma, *mdp.reward_range).span, 0
    for seed in range(40):
        runs = [rr.solve(mdp, algorithm, shared_seed=SEED + seed, sample_seed=SEED + 2 * seed + i) for i in (0, 1)]
        differ += runs[0].fingerprints.value != runs[1].fingerprints.value
        for run in runs:
            assert (best.value - rr.evaluate_policy(mdp, run.policy).value).max() / span <= 0.2
            assert np.abs(run.q - best.q).max() / span <= plan.value_error <= 0.1
            middle = (run.q - mdp.reward_range[0] / (1.0 - mdp.gamma)) / span
            below = np.where(middle < 1.0 - plan.value_error, middle - plan.value_error, 2.0 * middle - 1.0)
            low = mdp.reward_range[0] / (1.0 - mdp.gamma)
            assert (below <= (best.q - low) / span + 1e-9).all()  # what the loop held
            assert middle.max() <= 1.0
            # worth at least what Q says: the reason why the loss is no more than the error of Q
            worth = (rr.evaluate_policy(mdp, run.policy).value - low) / span
            assert (worth >= below.max(axis=1) - 1e-9).all()
    assert binom.sf(differ - 1, 40, 0.1) > ALPHA


def test_disagreement_is_seen_where_samples_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power: with a ten-thousandth of its calls the sharp form does not replicate."""
    mdp, algorithm = rr.make("two-goals-v1"), rr.ReplicablePhasedVI(*PROMISE)
    original = Schedule.calls_at
    monkeypatch.setattr(Schedule, "calls_at", lambda self, t, spread: max(2, original(self, t, spread) // 10**6))
    monkeypatch.setattr(module, "TabularMDP", PerSample)
    same = sum(
        len({rr.solve(mdp, algorithm, shared_seed=s, sample_seed=2 * s + i).fingerprints.value for i in (0, 1)}) == 1
        for s in range(20)
    )
    assert same < 15


# --- a good shared seed ------------------------------------------------------------------------------------------


def test_a_margin_is_enough_at_the_edge() -> None:
    """A second mean is beyond the margin of the first with probability at most delta. False alarm: ALPHA."""
    rng, trials = np.random.default_rng(SEED), 100_000
    for n, p in ((2, 0.5), (50, 0.5), (1000, 0.03), (1000, 0.5), (10**6, 1e-5)):
        delta = 0.05
        one, two = (rng.binomial(n, p, trials) / n for _ in range(2))
        variance = one * (1.0 - one) * n / (n - 1)
        beyond = int((np.abs(one - two) > seed_margin(variance, float(n), 1.0, math.log(3.0 / delta))).sum())
        assert binom.sf(beyond - 1, trials, delta) > ALPHA
        assert beyond == 0 or n > 2


def test_a_smaller_margin_is_not_enough() -> None:
    rng, trials, n = np.random.default_rng(SEED), 100_000, 1000
    one, two = (rng.binomial(n, 0.5, trials) / n for _ in range(2))
    half = seed_margin(one * (1.0 - one), float(n), 1.0, math.log(3.0 / 1e-3)) / 2.0
    assert (np.abs(one - two) > half).mean() > 5e-3


@pytest.mark.parametrize(
    "algorithm",
    [
        rr.ReplicablePhasedVI(*PROMISE),
        rr.ReplicablePhasedVI(*PROMISE, **paper_phased_vi(32, 0.9, *PROMISE)),
    ],
)
def test_good_seeds_are_good(algorithm: Any) -> None:
    """Some seeds are certified, not all; under those that are a second run has the same output."""
    mdp, wrong, said = rr.make("two-goals-v1"), 0, 0
    level = algorithm.plan(mdp).claims().replicability.level
    for seed in range(60):
        one, two = (rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=2 * seed + i) for i in (0, 1))
        claim = one.claims.of_this_seed
        if claim is not None:
            said += 1
            wrong += one.fingerprints[level] != two.fingerprints[level]
            assert (claim.kind, claim.bound, claim.level) == ("proved", 0.001, level)
            assert claim.definition != "def:replicability"
            assert one.claims.replicability is not claim
    assert 5 < said < 60
    assert wrong <= 1  # of 60 with probability 0.001 each: more than 1 with probability 2e-3 even at the bound


def test_a_run_claims_the_same_with_the_compiled_loop_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outcome of a table has one reward, so nothing hides how far rewards spread."""
    rng, sure = np.random.default_rng(20231), 0
    learned = rr.TabularMDP.from_dense(rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2, 4)), gamma=0.8)
    for mdp in (learned, rr.make("chain-v1", gamma=0.8), rr.make("riverswim-v1", gamma=0.8)):
        for more in ({}, {"iterations": 1}, {"calls": 10**9, "iterations": 3}, {"calls": 100}, {"target": "value"}):
            algorithm = rr.ReplicablePhasedVI(0.2, 0.01, 0.3, **more)
            one = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=3)
            with monkeypatch.context() as patch:
                patch.setattr("replicable_rl.algorithms.phased_vi.TabularMDP", PerSample)
                two = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=3)
            assert one.fingerprints == two.fingerprints
            assert (one.claims, one.status, one.samples) == (two.claims, two.status, two.samples)
            sure += mdp is learned and one.claims.of_this_seed is not None
    assert sure  # the test has power


def test_rewards_that_were_merged_hide_how_far_they_spread() -> None:
    def step(states: Any, actions: Any, rng: np.random.Generator) -> Any:
        return np.zeros_like(states), (rng.random(states.size) < 0.5).astype(float)

    coin = rr.Simulator(step, n_states=1, n_actions=1, gamma=0.5, reward_range=(0, 1), step_many=step)
    algorithm = rr.ReplicablePhasedVI(0.4, 0.1, 0.4, calls=2000, iterations=1, tolerance=0.4)
    claims = [rr.solve(coin, algorithm, shared_seed=seed, sample_seed=1).claims.of_this_seed for seed in range(5)]
    assert claims == [None] * 5
    table = rr.TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 0, 1.0)]]], gamma=0.5)
    claims = [rr.solve(table, algorithm, shared_seed=seed, sample_seed=1).claims.of_this_seed for seed in range(5)]
    assert claims != [None] * 5  # of the same process, where each outcome has its reward

    class Merging(Like):
        """Somebody's own, which says nothing of having merged its rewards."""

        def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
            heads = int(rng.binomial(calls, 0.5))
            one = np.array([0, 1]), np.zeros(1, dtype=np.int32), np.array([heads / calls]), np.array([calls])
            return OutcomeCounts(*one, calls)

    claims = [
        rr.solve(Merging(table), algorithm, shared_seed=seed, sample_seed=1).claims.of_this_seed for seed in range(5)
    ]
    assert claims == [None] * 5


def test_no_margin_is_looked_at_without_rounding() -> None:
    mdp = rr.make("two-goals-v1")
    for algorithm in (rr.PhasedVI(0.1, 0.001), rr.ApproximateMDP(0.1, 0.001)):
        assert rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1).claims.of_this_seed is None
    few = rr.ReplicablePhasedVI(*PROMISE, calls=1)
    assert rr.solve(mdp, few, shared_seed=1, sample_seed=1).claims.of_this_seed is None


def test_room_to_the_next_edge() -> None:
    query = RStat(rr.SharedRandomness(1), "x", 0.25)
    offset = 0.25 * rr.SharedRandomness(1).uniform("x", shape=(1,))[0]
    edges = offset + 0.25 * np.arange(-4, 8)
    edges = edges[(edges > 0.0) & (edges <= 1.0)]
    for v in (0.0, 0.01, 0.3, 0.5, 0.77, 1.0):
        assert query.room(np.array([v]))[0] == pytest.approx(np.abs(edges - v).min(), abs=1e-15)


def test_seed_claims_survive_files(tmp_path: Any) -> None:
    algorithm = rr.ReplicablePhasedVI(*PROMISE, **paper_phased_vi(32, 0.9, *PROMISE))
    run = rr.solve(rr.make("two-goals-v1"), algorithm, shared_seed=2023, sample_seed=1)
    assert run.claims.of_this_seed is not None
    rr.save(run, tmp_path / "run")
    assert rr.load(tmp_path / "run").claims == run.claims


# --- rows of a model -----------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    st.sampled_from([1, 2, 8, 50]),
    shares,
    shares,
    shares,
    st.sampled_from(["entry", "l1"]),
    st.booleans(),
    st.booleans(),
)
def test_a_sharp_model(
    n_states: int, epsilon: float, delta: float, rho: float, norm: Any, known: bool, midpoint: bool
) -> None:
    form: Any = "midpoint" if midpoint else "zero-preserving"
    plan = rr.theory.approximate_mdp(n_states, 3, epsilon, delta, rho, norm=norm, form=form, known_rewards=known)
    assert plan.accuracy_proved
    assert plan.replicability_proved
    n, S = plan.calls, n_states
    row = 2 * math.sqrt((S - 1) / (math.pi * n)) + (S * math.sqrt(2 / math.pi) / n if S > 1 else 0.0)
    row += 0.0 if known else 1 / math.sqrt(math.pi * n)
    assert 3 * S * row / plan.width <= rho * (1 + 1e-9)
    queries = 3 * S * (S if known else S + 1)
    deviation = math.sqrt(math.log(2 * queries / delta) / (2 * n))
    tau = epsilon if norm == "entry" else epsilon / S
    assert deviation + (1 if midpoint else 2) * plan.width / 2 <= tau * (1 + 1e-9)


def test_a_row_at_its_edge() -> None:
    """Uniform rows, the worst ones: the sum of the distances is below the bound, and within 20 % of it."""
    rng = np.random.default_rng(SEED)
    for S, n in ((2, 10), (8, 1000), (40, 400)):
        counts = rng.multinomial(n, np.full(S, 1 / S), (2, 4000))
        distance = np.abs(counts[0] - counts[1]).sum(axis=1).mean() / n
        assert distance <= row_distance(S, n, known_rewards=True)
        assert distance >= 0.5 * row_distance(S, n, known_rewards=True)
    assert row_distance(1, 5, known_rewards=True) == 0.0


def test_constants_of_the_margin_are_those_of_the_theorem() -> None:
    """Maurer and Pontil's bound, and Bernstein's, written out."""
    n, sd, spread, L = 1000.0, 0.2, 0.7, 5.0
    sigma = sd + spread * math.sqrt(2 * L / (n - 1))
    expected = math.sqrt(2 * 2 * sigma**2 * L / n) + spread * L / (3 * n)  # of differences: twice the variance
    assert float(seed_margin(np.array(sd * sd), n, spread, L)) == pytest.approx(expected, rel=1e-9)


# --- what may not be claimed -----------------------------------------------------------------------------------------


def test_what_is_said_of_a_seed_is_a_bound() -> None:
    claims = rr.ReplicablePhasedVI(*PROMISE).plan(rr.make("machine-repair-v1")).claims(good_seed=True)
    assert claims.of_this_seed is not None
    assert claims.of_this_seed.bound == PROMISE[1]


def test_a_remedy_is_not_what_was_given() -> None:
    with pytest.raises(rr.InvalidInput, match=r"belong to the paper's listing, .* Leave them out"):
        rr.ReplicablePhasedVI(0.1, 0.6, 0.2, calls=1000)


def test_the_reported_q_is_a_possible_value() -> None:
    stay = rr.TabularMDP.from_dense(np.eye(2)[:, None, :], np.array([[1.0], [0.0]]), gamma=0.5)
    run = rr.solve(stay, rr.ReplicablePhasedVI(0.01, 0.5, 0.9), shared_seed=1, sample_seed=1)
    assert run.q.max() <= 2.0
    assert np.abs(run.q - [[2.0], [0.0]]).max() <= 2.0 * 0.005


def test_arithmetic_loses_less_than_the_margins_allow() -> None:
    rng, S, worst = np.random.default_rng(SEED), 20_000, 0.0
    for _ in range(50):
        count = rng.multinomial(10**15, rng.dirichlet(np.ones(S)))
        value = 0.9999 * (1.0 - 0.1 * rng.random())
        counts = OutcomeCounts(np.array([0, S]), np.arange(S, dtype=np.int32), np.zeros(S), count, int(count.sum()))
        worst = max(worst, abs(float(counts.mean(np.full(S, value))[0]) - value))
    assert 2.0 * worst < theory_rstat.ARITHMETIC
