"""(Replicable) phased value iteration: the listing once more, slowly; the theorems; the compiled loop; good seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import replicable_rl as rr
from replicable_rl.algorithms import phased_vi as module
from replicable_rl.algorithms.phased_vi import Iterated
from replicable_rl.errors import InvalidInput
from replicable_rl.problem.source import as_source, greedy
from replicable_rl.queries import Means, Query, RStat
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.testing import PerSample
from replicable_rl.theory import paper_phased_vi
from replicable_rl.theory.phased_vi import Schedule, rising_schedule
from tests.statistics import ALPHA, SEED, Like

GRID = rr.make("two-goals-v1")
PROMISE = (0.1, 0.001, 0.2)
RPVI = rr.ReplicablePhasedVI(*PROMISE)
PAPERS = rr.ReplicablePhasedVI(*PROMISE, **paper_phased_vi(32, 0.9, *PROMISE))  # the paper's listing with its m
COARSE = rr.ReplicablePhasedVI(*PROMISE, calls=500, iterations=12, tolerance=0.05, rho_sq=0.3)


# --- the listing, once more, slowly ----------------------------------------------------------------------------------


def reference(mdp: rr.TabularMDP, algorithm: Any, shared_seed: int, sample_seed: int) -> tuple[np.ndarray, int]:
    """Algorithm 1 by scalar arithmetic, one query at a time; Q in normalised units, and the calls of a pair."""
    gamma, one, (low, high), A = mdp.gamma, algorithm.plan(mdp).numbers.schedule, mdp.reward_range, mdp.n_actions
    rng, known, rows = sample_stream(sample_seed), mdp.known_rewards is not None, range(mdp.n_states * mdp.n_actions)

    def normal(reward: float) -> float:
        return (1.0 - gamma) * ((float(reward) - low) / (high - low))

    Q = [normal(mdp.rows.reward[mdp.rows.indptr[row]]) if known and one.rising else 0.0 for row in rows]
    drawn = 0
    for t in range(one.iterations):
        V = [max(Q[s * A : (s + 1) * A]) for s in range(mdp.n_states)]
        m, width = int(one.calls[t]), float(one.widths[t])
        if one.rising:
            share = (max(V) - min(V) if known else (1.0 - gamma) + gamma * (max(V) - min(V))) / one.reach[t]
            m = max(2, math.ceil(float(one.calls[t]) * (share * share)))
        drawn += m
        counts, new = mdp.draw(m, rng), []
        words = rr.SharedRandomness(shared_seed).words("rpvi/offset", t, count=len(Q))
        for row in rows:
            total = 0.0
            for k in range(counts.indptr[row], counts.indptr[row + 1]):
                x = V[counts.next_state[k]]
                total += int(counts.count[k]) * (x if known else normal(counts.reward[k]) + gamma * x)
            mean, off = min(max(total / m, 0.0), 1.0), width * ((int(words[row]) >> 11) * 2.0**-53)
            k = math.floor((mean - off) / width)
            bottom, top = (min(max(off + j * width, 0.0), 1.0) for j in (k, k + 1))
            answer = bottom + (top - bottom) / 2 - float(one.lowered[t])
            value = normal(counts.reward[counts.indptr[row]]) + gamma * answer if known else answer
            new.append(max(Q[row], value) if one.rising else value)
        Q = new
    return np.array(Q).reshape(mdp.n_states, A), drawn


@pytest.mark.parametrize("algorithm", [COARSE, RPVI], ids=["the paper's", "rising"])
@pytest.mark.parametrize("problem", ["two-goals-v1", "riverswim-v1", "chain-v1", "machine-repair-v1", "inventory-v1"])
def test_bit_for_bit_the_listing(problem: str, algorithm: Any) -> None:
    mdp = rr.make(problem)
    plan, units = algorithm.plan(mdp).numbers, rr.theory.Units(mdp.gamma, *mdp.reward_range)
    if plan.samples > 2**62:
        return
    for seed in range(2):
        run = rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=100 + seed)
        q, calls = reference(mdp, algorithm, seed, 100 + seed)
        q = (q + np.minimum(q + 2.0 * plan.value_error, 1.0)) / 2.0 if plan.rising else q
        assert run.q.tobytes() == (units.value_to_user(q) + 0.0).tobytes()
        assert run.policy.tolist() == greedy(run.q).tolist()
        assert run.samples == plan.pairs * calls


# --- the theorems at their own sample sizes --------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["policy", "value"])
@pytest.mark.parametrize("problem", ["two-goals-v1", "riverswim-v1", "chain-v1", "machine-repair-v1", "garnet-v1"])
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


@pytest.mark.parametrize("problem", ["two-goals-v1", "riverswim-v1", "chain-v1"])
def test_the_papers_theorem_at_its_own_sample_size(problem: str) -> None:
    """Known and learned rewards; both promises about accuracy are kept, and rho is far from spent."""
    mdp, different = rr.make(problem), 0
    sizes = mdp.support.pairs, mdp.gamma
    promise, kind = (0.2, 0.001, 0.4), {"target": "value", "known_rewards": mdp.known_rewards is not None}
    paper = paper_phased_vi(*sizes, *promise, **kind)  # type: ignore[arg-type]
    algorithm = rr.ReplicablePhasedVI(*promise, target="value", **paper)
    best, error = rr.optimal_values(mdp), algorithm.plan(mdp).numbers.value_error
    for seed in range(40):
        runs = [rr.solve(mdp, algorithm, shared_seed=SEED + seed, sample_seed=SEED + 2 * seed + i) for i in (0, 1)]
        different += runs[0].fingerprints.value != runs[1].fingerprints.value
        for run in runs:
            assert np.abs(run.q - best.q).max() <= error * rr.theory.Units.of(mdp).span
    assert different <= 2


def test_disagreement_is_seen_where_samples_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power: with a ten-thousandth of its calls the sharp form does not replicate."""
    mdp, algorithm = GRID, RPVI
    original = Schedule.calls_at
    monkeypatch.setattr(Schedule, "calls_at", lambda self, t, spread: max(2, original(self, t, spread) // 10**6))
    monkeypatch.setattr(module, "TabularMDP", PerSample)
    same = sum(
        len({rr.solve(mdp, algorithm, shared_seed=s, sample_seed=2 * s + i).fingerprints.value for i in (0, 1)}) == 1
        for s in range(20)
    )
    assert same < 15


def test_shared_and_sample_seed_do_different_things() -> None:
    base = rr.solve(GRID, PAPERS, shared_seed=1, sample_seed=1).fingerprints
    assert rr.solve(GRID, PAPERS, shared_seed=1, sample_seed=2).fingerprints == base
    assert rr.solve(GRID, PAPERS, shared_seed=2, sample_seed=1).fingerprints.value != base.value
    plain = [rr.solve(GRID, rr.PhasedVI(0.1, 0.001), shared_seed=seed, sample_seed=1).fingerprints for seed in (1, 2)]
    assert plain[0] == plain[1]


# --- units, refusals, claims -----------------------------------------------------------------------------------------


def test_values_come_in_the_users_units() -> None:
    """Scaling and shifting rewards changes Q accordingly and the policy not at all, even where bits of q are lost."""
    one = rr.solve(GRID, PAPERS, shared_seed=1, sample_seed=1)
    for factor, offset in ((50.0, -7.0), (1.0, 1e5)):
        rows = GRID.rows._replace(reward=factor * GRID.rows.reward + offset)
        two = rr.solve(rr.TabularMDP(rows, n_actions=4, gamma=0.9), PAPERS, shared_seed=1, sample_seed=1)
        np.testing.assert_allclose(two.q, factor * one.q + 10.0 * offset, rtol=1e-9)
        assert two.policy.tolist() == greedy(two.q).tolist()
    hopeless = GRID.rows._replace(reward=GRID.rows.reward + 1e9)
    with pytest.raises(rr.InvalidInput, match="Subtract a constant"):
        rr.solve(rr.TabularMDP(hopeless, n_actions=4, gamma=0.9), PAPERS, shared_seed=1, sample_seed=1)


def test_tiny_problems() -> None:
    one = rr.TabularMDP.from_dense(np.ones((1, 2, 1)), np.full((1, 2), 3.0), gamma=0.5)
    assert rr.solve(one, PAPERS, shared_seed=1, sample_seed=1).q.tolist() == [[6.0, 6.0]]
    R = [[0.0, 1.0], [0.5, 0.25]]
    now = rr.TabularMDP.from_dense(np.full((2, 2, 2), 0.5), R, gamma=0.0, layout="sas")
    assert rr.solve(now, PAPERS, shared_seed=1, sample_seed=1).q.tolist() == R
    stay = rr.TabularMDP.from_dense(np.eye(2)[:, None, :], np.array([[1.0], [0.0]]), gamma=0.5)
    run = rr.solve(stay, rr.ReplicablePhasedVI(0.01, 0.5, 0.9), shared_seed=1, sample_seed=1)
    assert run.q.max() <= 2.0  # what is reported is a possible value
    assert np.abs(run.q - [[2.0], [0.0]]).max() <= 2.0 * 0.005


def test_too_many_samples_are_refused_before_drawing() -> None:
    algorithm = rr.ReplicablePhasedVI(0.001, 0.0001, 0.01, **paper_phased_vi(32, 0.9, 0.001, 0.0001, 0.01))
    with pytest.raises(InvalidInput, match=r"ReplicablePhasedVI: calls=.*e\+22"):
        rr.solve(GRID, algorithm, shared_seed=1, sample_seed=1)
    assert algorithm.plan(GRID).numbers.calls > 2**63  # but it can be planned


def test_claims_of_the_theorem() -> None:
    for algorithm, source in ((PAPERS, "thm:rpvi"), (RPVI, "the sharp form of thm:rpvi")):
        planned, made = (
            rr.plan(GRID, algorithm).claims(),
            rr.solve(GRID, algorithm, shared_seed=1, sample_seed=1).claims,
        )
        assert (planned.accuracy, planned.replicability) == (made.accuracy, made.replicability)
        accuracy, same = planned
        assert (accuracy.kind, accuracy.source, accuracy.level, accuracy.bound) == ("proved", source, "policy", 0.1)
        assert (accuracy.failure, accuracy.definition) == (0.001, None)
        assert (same.kind, same.source, same.level) == ("proved", "the sharp form of thm:rpvi", "value")
        assert (same.bound, same.failure, same.definition) == (0.2, 0.0, "def:replicability")
    plain = rr.plan(GRID, rr.PhasedVI(0.1, 0.001)).claims()
    assert [claim.source for claim in plain] == ["lem:phasedvi-convergence"]
    assert set(plain.missing) == {"replicability"}
    short = rr.solve(GRID, rr.PhasedVI(0.1, 0.001, iterations=3), shared_seed=1, sample_seed=1).status
    assert short is not None
    assert short.code is rr.StatusCode.BUDGET_SPENT


@pytest.mark.parametrize(
    ("change", "about", "why"),
    [
        ({"iterations": 1}, "replicability", "iterations=1 where the proof needs 100"),
        ({"tolerance": 0.05}, "replicability", "there is no bound"),
        ({"calls": 10**13}, "accuracy", "calls=1e+13 where the proof needs 8.19e+15"),
        ({"rho_sq": 0.1}, "accuracy", "there is no bound"),
    ],
)
def test_a_claim_is_never_a_mixture(change: dict[str, Any], about: str, why: str) -> None:
    """Accuracy and replicability stand and fall by their own bounds, and each missing claim says why."""
    claims = rr.plan(GRID, rr.ReplicablePhasedVI(*PROMISE, **change)).claims()
    assert [claim.about for claim in claims] == [about]
    assert [text.startswith(why) for text in claims.missing.values()] == [True]


# --- any query, and the compiled loop --------------------------------------------------------------------------------


def alike(iterations: int, calls: int, width: float = 0.02) -> Schedule:
    return Schedule.constant(iterations, calls, width)


@dataclass(frozen=True)
class Coarse(Query):
    """A query of somebody's own: to the nearest eighth, on a grid that everybody knows."""

    def answer(self, means: np.ndarray, *address: int, index: np.ndarray | None = None) -> np.ndarray:
        assert len(address) == 1
        return np.round(means * 8.0) / 8.0


def test_a_query_of_somebodys_own_runs_in_the_loop() -> None:
    """By hand: draw, average, answer."""
    q, rng, rewards = np.zeros((8, 4)), sample_stream(4), np.asarray(GRID.known_rewards) * (1.0 - 0.9)
    for _ in range(9):
        counts = GRID.draw(1000, rng)
        q = rewards + 0.9 * np.round(counts.mean(q.max(axis=1)[counts.next_state]).reshape(8, 4) * 8.0) / 8.0
    assert np.abs(module.iterate(GRID, alike(9, 1000), Coarse(), sample_stream(4)).q - q).max() < 1e-15


def given(source: Any) -> Any:
    """Return a source as a run has it."""
    return as_source(source)


def same_bits(one: Iterated, two: Iterated) -> bool:
    return np.array_equal(one.q, two.q) and one[1:] == two[1:]


@pytest.mark.parametrize("id", ["two-goals-v1", "riverswim-v1", "garnet-v1", "inventory-v1", "machine-repair-v1"])
@pytest.mark.parametrize("calls", [1, 13_000, 10**17])
def test_compiled_loop_has_the_bits_of_the_listing(id: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With known rewards and learned ones, rounded and not, in one block of iterations and in several."""
    mdp, known = rr.make(id), rr.make(id).known_rewards is not None
    pairs = mdp.n_states * mdp.n_actions
    rising = rising_schedule(pairs, mdp.gamma, 0.3, 0.1, 0.5, known_rewards=known)
    for schedule in (alike(23, calls), rising) if calls > 1 else (alike(23, calls),):
        for query in (RStat(rr.SharedRandomness(5), "rpvi/offset", schedule.widths), Means()):
            settings = schedule, query, sample_stream(SEED % 2**64), 12.0
            listing = module.iterate(given(Like(mdp)), *settings)
            for rows_at_once in (2**20, 5 * pairs, 1):
                monkeypatch.setattr(module, "_ROWS_AT_ONCE", rows_at_once)
                settings = schedule, query, sample_stream(SEED % 2**64), 12.0
                compiled = module.iterate(mdp, *settings)
                if not known:  # nobody knows how far the rewards of somebody's own source spread
                    assert not listing.good_seed
                    compiled = compiled._replace(good_seed=False)
                assert same_bits(listing, compiled)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_large_problems_have_the_bits_of_the_listing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows, each iteration on several threads, and all in one compiled loop."""
    mdp = rr.make("garnet-v1", n_states=700, n_actions=3, branching=4, seed=1)
    for schedule in (alike(5, 10**6), rising_schedule(2100, 0.9, 0.5, 0.1, 0.5)):
        query = RStat(rr.SharedRandomness(5), "rpvi/offset", schedule.widths)
        listing = module.iterate(given(Like(mdp)), schedule, query, sample_stream(3), 9.0)
        monkeypatch.setattr("replicable_rl.compiled.THREADS", threads)
        for many in (1, 100):
            monkeypatch.setattr(module, "MANY_BLOCKS", many)
            compiled = module.iterate(mdp, schedule, query, sample_stream(3), 9.0)
            assert same_bits(listing, compiled)


# --- a good shared seed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [RPVI, PAPERS], ids=["rising", "the paper's"])
def test_good_seeds_are_good(algorithm: Any) -> None:
    """Some seeds are certified, not all; under those that are a second run has the same output."""
    mdp, wrong, said = GRID, 0, 0
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
    """A coin, as a table, as a simulator, and as somebody's own source that says nothing of having merged rewards."""

    def step(states: Any, actions: Any, rng: np.random.Generator) -> Any:
        return np.zeros_like(states), (rng.random(states.size) < 0.5).astype(float)

    class Merging(Like):
        def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
            heads = int(rng.binomial(calls, 0.5))
            one = np.array([0, 1]), np.zeros(1, dtype=np.int32), np.array([heads / calls]), np.array([calls])
            return OutcomeCounts(*one, calls)

    table = rr.TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 0, 1.0)]]], gamma=0.5)
    coin = rr.Simulator(step, n_states=1, n_actions=1, gamma=0.5, reward_range=(0, 1), step_many=step)
    algorithm = rr.ReplicablePhasedVI(0.4, 0.1, 0.4, calls=2000, iterations=1, tolerance=0.4)
    for source, hides in ((table, False), (coin, True), (Merging(table), True)):
        runs = [rr.solve(source, algorithm, shared_seed=seed, sample_seed=1) for seed in range(5)]
        assert all(run.claims.of_this_seed is None for run in runs) is hides
