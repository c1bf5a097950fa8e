"""(Replicable) phased value iteration: bit-exact reference, theorem, power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.algorithms import phased_vi as compiled_module
from replicable_rl.algorithms import phased_vi as module
from replicable_rl.algorithms.phased_vi import Iterated
from replicable_rl.errors import SampleSizeTooLarge
from replicable_rl.experiments.cost.prediction import predicted_disagreement
from replicable_rl.problem import greedy
from replicable_rl.problem.source import as_source
from replicable_rl.queries import Means, Query, RStat
from replicable_rl.randomness import sample_stream
from replicable_rl.runs import Claims
from replicable_rl.testing import PerSample
from replicable_rl.theory.phased_vi import Schedule, rising_schedule
from tests.statistics import ALPHA, SEED, Like, binomial_p, same_law


def listed(problem: str, epsilon: float, delta: float, rho: float, **kind: Any) -> rr.ReplicablePhasedVI:
    """The paper's own listing; our schedule has tests of its own."""
    mdp = rr.make(problem)
    known, sizes = mdp.known_rewards is not None, (mdp.support.pairs, mdp.gamma)
    paper = rr.theory.paper_phased_vi(*sizes, epsilon, delta, rho, known_rewards=known, **kind)
    return rr.ReplicablePhasedVI(epsilon, delta, rho, **(kind | paper))


THEOREM = listed("two-goals-v1", 0.1, 0.001, 0.2)

# --- the listing, once more, slowly -------------------------------------------------------------


def reference_q(mdp: rr.TabularMDP, algorithm: Any, shared_seed: int, sample_seed: int) -> list[float]:
    """rPVI by scalar arithmetic from ALGORITHMS sections 1-3, one query at a time, in normalised units."""
    plan = algorithm.plan(mdp).numbers
    gamma, beta, m = mdp.gamma, plan.width, plan.calls
    low, high = mdp.reward_range
    rng = sample_stream(sample_seed)
    sampler = mdp
    A = mdp.n_actions
    known = mdp.known_rewards is not None
    Q = [0.0] * (mdp.n_states * A)
    for t in range(plan.iterations):
        counts = sampler.draw(m, rng)
        words = rr.SharedRandomness(shared_seed).words("rpvi/offset", t, count=len(Q))
        V = [max(Q[s * A : (s + 1) * A]) for s in range(mdp.n_states)]
        new = []
        for pair in range(len(Q)):
            total = 0.0
            for k in range(counts.indptr[pair], counts.indptr[pair + 1]):
                reward = (1.0 - gamma) * ((float(counts.reward[k]) - low) / (high - low))
                x = V[counts.next_state[k]]
                total += int(counts.count[k]) * (x if known else reward + gamma * x)
            mean = min(max(total / m, 0.0), 1.0)
            off = beta * ((int(words[pair]) >> 11) * 2.0**-53)
            k = math.floor((mean - off) / beta)
            bottom = min(max(off + k * beta, 0.0), 1.0)
            top = min(max(off + (k + 1) * beta, 0.0), 1.0)
            answer = bottom + (top - bottom) / 2
            first = (1.0 - gamma) * ((float(counts.reward[counts.indptr[pair]]) - low) / (high - low))
            new.append(first + gamma * answer if known else answer)
        Q = new
    return Q


COARSE = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=500, iterations=12, tolerance=0.05, rho_sq=0.3)


def check_against_reference(problem: str = "two-goals-v1") -> None:
    mdp = rr.make(problem)
    for seed in range(5):
        solution = rr.solve(mdp, COARSE, shared_seed=seed, sample_seed=100 + seed)
        expected = np.array(reference_q(mdp, COARSE, seed, 100 + seed)).reshape(solution.q.shape)
        in_user_units = rr.theory.Units(mdp.gamma, *mdp.reward_range).value_to_user(expected)
        assert solution.q.tobytes() == (in_user_units + 0.0).tobytes()
        assert solution.policy.tolist() == [row.index(max(row)) for row in expected.tolist()]


@pytest.mark.parametrize("problem", ["two-goals-v1", "riverswim-v1", "chain-v1", "machine-repair-v1", "inventory-v1"])
def test_bit_for_bit_the_listing(problem: str) -> None:
    check_against_reference(problem)


# --- the theorem at its own sample size ----------------------------------------------------------


def check_theorem(pairs: int = 20, algorithm: rr.ReplicablePhasedVI = THEOREM, problem: str = "two-goals-v1") -> None:
    """Same Q in both runs, and every promise about accuracy kept."""
    mdp = rr.make(problem)
    plan = algorithm.plan(mdp).numbers
    best = rr.optimal_values(mdp)
    span = rr.theory.Units(mdp.gamma, *mdp.reward_range).span
    # Below 1e-3 a pair, more than 2 of 20 have probability < 1e-6.
    assert predicted_disagreement(mdp, plan) < 1e-3
    different = 0
    for seed in range(pairs):
        one = rr.solve(mdp, algorithm, shared_seed=SEED + seed, sample_seed=SEED + 2 * seed)
        two = rr.solve(mdp, algorithm, shared_seed=SEED + seed, sample_seed=SEED + 2 * seed + 1)
        different += one.fingerprints.value != two.fingerprints.value
        for run in (one, two):
            loss = (best.value - rr.evaluate_policy(mdp, run.policy).value).max() / span
            assert loss <= algorithm.epsilon
            assert np.abs(run.q - best.q).max() / span <= plan.value_error
    assert different <= max(2, pairs // 40)


def test_theorem_200_pairs_over_200_shared_seeds() -> None:
    check_theorem(pairs=200)


@pytest.mark.parametrize("problem", ["riverswim-v1", "chain-v1", "machine-repair-v1"])
def test_theorem_on_other_problems(problem: str) -> None:
    """Known and learned rewards; the value target, whose sample size fits 64 bits at gamma 0.95."""
    check_theorem(10, listed(problem, 0.2, 0.001, 0.4, target="value"), problem)


def test_known_rewards_of_a_foreign_model_are_checked() -> None:
    class Rich(Like):
        def __init__(self, mdp: rr.TabularMDP) -> None:
            super().__init__(mdp)
            self.known_rewards = np.full((8, 4), 5.0)

    with pytest.raises(rr.InvalidInput, match=r"Rich: known_rewards must be \(S, A\) and lie in \[0, 1\]"):
        rr.solve(Rich(rr.make("two-goals-v1")), THEOREM, shared_seed=1, sample_seed=1)


def test_same_value_implies_same_policy_whatever_the_units() -> None:
    """Large constants in the rewards swallow bits of q; the policy is that of the q reported."""
    mdp = rr.make("two-goals-v1")
    rows = mdp.rows._replace(reward=mdp.rows.reward + 1e5)
    shifted = rr.TabularMDP(rows, n_actions=4, gamma=0.9)
    for seed in range(20):
        run = rr.solve(shifted, rr.PhasedVI(0.1, 0.001, calls=10**15), shared_seed=1, sample_seed=SEED + seed)
        assert run.policy.tolist() == greedy(run.q).tolist()
    hopeless = rr.TabularMDP(rows._replace(reward=rows.reward + 1e9), n_actions=4, gamma=0.9)
    with pytest.raises(rr.InvalidInput, match="Subtract a constant from the rewards"):
        rr.solve(hopeless, THEOREM, shared_seed=1, sample_seed=1)


# --- power: at small m disagreement is seen, and falls as the paper says -------------------------


def agreement(algorithm: rr.PhasedVI | rr.ReplicablePhasedVI, level: str, seeds: int = 60) -> float:
    mdp = rr.make("two-goals-v1")
    same = 0
    for seed in range(seeds):
        prints = [
            getattr(
                rr.solve(mdp, algorithm, shared_seed=SEED + seed, sample_seed=SEED + 2 * seed + i).fingerprints, level
            )
            for i in (0, 1)
        ]
        same += prints[0] == prints[1]
    return same / seeds


def test_agreement_rises_with_m_and_phased_q_learning_never_agrees() -> None:
    multiples = (1, 10, 100, 1000)
    replicable = [
        agreement(rr.ReplicablePhasedVI(0.02, 0.001, 0.2, calls=13_000 * x, tolerance=0.02), "value") for x in multiples
    ]
    plain = [agreement(rr.PhasedVI(0.02, 0.001, calls=13_000 * x), "policy") for x in multiples]
    # `agreement` with seeds=1000 gives 0.58, 0.83, 0.95, 0.98, with seeds=300 from 0.23 to 0.25 at every m (two fair
    # coins); with 60 pairs each bound below fails a correct library with probability < 1e-6.
    assert replicable[0] < 0.97
    assert replicable[3] > 0.80
    assert replicable[3] > replicable[0]
    assert max(plain) < 0.62


def test_phased_q_learning_breaks_ties_by_chance_at_any_m() -> None:
    """On the tied grid, left or right at the start is a coin even at the theorem's 8e15 calls."""
    mdp = rr.make("two-goals-v1")
    algorithm = rr.PhasedVI(0.1, 0.001, calls=THEOREM.plan(mdp).numbers.calls)
    left = mdp.labels.actions.index("left") if mdp.labels.actions else -1
    chosen = [rr.solve(mdp, algorithm, shared_seed=1, sample_seed=SEED + i).policy[6] == left for i in range(300)]
    assert binomial_p(sum(chosen), 300, 0.5) > ALPHA


def test_prediction_is_not_far_off() -> None:
    mdp = rr.make("two-goals-v1")
    for calls in (130_000, 1_300_000):
        algorithm = rr.ReplicablePhasedVI(0.02, 0.001, 0.2, calls=calls, tolerance=0.02)
        predicted = predicted_disagreement(mdp, algorithm.plan(mdp).numbers)
        seen = 1.0 - agreement(algorithm, "value", seeds=100)
        assert seen < predicted + 0.15
        assert predicted < 0.35


# --- the law of the answer does not depend on the source -----------------------------------------


def test_final_q_has_one_law_with_counts_and_with_samples_one_by_one() -> None:
    mdp = rr.make("two-goals-v1")
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=40, iterations=4, tolerance=0.15)
    prints = [
        [
            rr.solve(source, algorithm, shared_seed=5, sample_seed=SEED + 10_000 * which + i).fingerprints.value
            for i in range(800)
        ]
        for which, source in enumerate((mdp, PerSample(mdp)))
    ]
    assert len(set(prints[0])) > 5  # a law worth comparing
    assert same_law(prints[0], prints[1]) > ALPHA


# --- determinism ----------------------------------------------------------------------------------


def test_shared_and_sample_seed_do_different_things() -> None:
    mdp = rr.make("two-goals-v1")
    base = rr.solve(mdp, THEOREM, shared_seed=1, sample_seed=1).fingerprints
    assert rr.solve(mdp, THEOREM, shared_seed=1, sample_seed=2).fingerprints == base
    assert rr.solve(mdp, THEOREM, shared_seed=2, sample_seed=1).fingerprints.value != base.value
    plain = rr.PhasedVI(0.1, 0.001)
    assert (
        rr.solve(mdp, plain, shared_seed=1, sample_seed=1).fingerprints
        == rr.solve(mdp, plain, shared_seed=2, sample_seed=1).fingerprints
    )


# --- results ---------------------------------------------------------------------------------------


def claims_of(algorithm: rr.PhasedVI | rr.ReplicablePhasedVI) -> Claims:
    """What a run claims: the same that its plan did."""
    mdp = rr.make("two-goals-v1")
    claims = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1).claims
    planned = rr.plan(mdp, algorithm).claims()
    assert (planned.accuracy, planned.replicability) == (claims.accuracy, claims.replicability)
    return planned


def test_claims_of_the_theorem() -> None:
    accuracy, same = claims_of(THEOREM)
    assert (accuracy.about, accuracy.kind, accuracy.source, accuracy.level) == (
        "accuracy",
        "proved",
        "thm:rpvi",
        "policy",
    )
    assert (accuracy.bound, accuracy.failure, accuracy.definition) == (0.1, 0.001, None)
    assert (same.about, same.kind, same.level) == ("replicability", "proved", "value")
    assert same.source == "the sharp form of thm:rpvi"
    assert (same.bound, same.failure, same.definition) == (0.2, 0.0, "def:replicability")
    value = claims_of(listed("two-goals-v1", 0.1, 0.001, 0.2, target="value")).accuracy
    assert value is not None
    assert (value.level, value.bound) == ("value", 0.05)
    plain = claims_of(rr.PhasedVI(0.1, 0.001))
    assert plain.replicability is None
    assert plain.accuracy is not None
    assert plain.accuracy.source == "lem:phasedvi-convergence"
    assert set(plain.missing) == {"replicability"}


@pytest.mark.parametrize(
    ("change", "about", "why"),
    [
        ({"iterations": 1}, "replicability", "iterations=1 where the proof needs 100"),
        ({"tolerance": 0.05}, "replicability", "tolerance=0.05 where the proof needs 0.0005"),
        ({"calls": 10**13}, "accuracy", "calls=1e+13 where the proof needs 8.19e+15"),
        ({"rho_sq": 0.1}, "accuracy", "rho_sq=0.1 where the proof needs 6.25e-05"),
    ],
)
def test_a_claim_is_never_a_mixture(change: dict[str, Any], about: str, why: str) -> None:
    """Accuracy and replicability stand and fall by their own bounds, and each missing one says why."""
    claims = claims_of(rr.ReplicablePhasedVI(0.1, 0.001, 0.2, **change))
    assert [claim.about for claim in claims] == [about]
    (said,) = claims.missing.values()
    assert said.startswith(why)


def test_status() -> None:
    mdp = rr.make("two-goals-v1")
    assert str(rr.solve(mdp, THEOREM, shared_seed=1, sample_seed=1).status) == "completed: ran all 100 iterations"
    short = rr.solve(mdp, rr.PhasedVI(0.1, 0.001, iterations=3), shared_seed=1, sample_seed=1)
    assert short.status is not None
    assert short.status.code is rr.StatusCode.BUDGET_SPENT
    assert "3 of the 100 iterations" in short.status.sentence


def test_too_many_samples_are_refused_before_drawing() -> None:
    algorithm = listed("two-goals-v1", 0.001, 0.0001, 0.01)
    with pytest.raises(SampleSizeTooLarge, match=r"ReplicablePhasedVI: calls=.*e\+22 is asked for"):
        rr.solve(rr.make("two-goals-v1"), algorithm, shared_seed=1, sample_seed=1)
    assert algorithm.plan(rr.make("two-goals-v1")).numbers.calls > 2**63  # but it can be planned


def test_values_come_in_the_users_units() -> None:
    """Scaling and shifting rewards changes Q accordingly and the policy not at all."""
    mdp = rr.make("two-goals-v1")
    R = mdp.known_rewards
    assert R is not None
    P = np.zeros((8, 4, 8))
    for row in range(32):
        outcomes = mdp.rows.of_row(row)
        np.add.at(P[row // 4, row % 4], mdp.rows.next_state[outcomes], mdp.rows.probability[outcomes])
    other = rr.TabularMDP.from_dense(P, 50.0 * R - 7.0, gamma=0.9)
    one = rr.solve(mdp, THEOREM, shared_seed=1, sample_seed=1)
    two = rr.solve(other, THEOREM, shared_seed=1, sample_seed=1)
    assert one.policy.tolist() == two.policy.tolist()
    np.testing.assert_allclose(two.q, 50.0 * one.q - 70.0, rtol=1e-12)


def test_constant_rewards_and_single_state() -> None:
    mdp = rr.TabularMDP.from_dense(np.ones((1, 2, 1)), np.full((1, 2), 3.0), gamma=0.5)
    solution = rr.solve(mdp, THEOREM, shared_seed=1, sample_seed=1)
    assert solution.q.tolist() == [[6.0, 6.0]]
    assert solution.policy.tolist() == [0]


def test_gamma_zero() -> None:
    R = [[0.0, 1.0], [0.5, 0.25]]
    mdp = rr.TabularMDP.from_dense(np.full((2, 2, 2), 0.5), R, gamma=0.0, layout="sas")
    assert rr.solve(mdp, THEOREM, shared_seed=1, sample_seed=1).q.tolist() == R
    noisy = rr.TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 0, 1.0)], [(1.0, 0, 0.6)]]], gamma=0.0)
    assert rr.solve(noisy, THEOREM, shared_seed=1, sample_seed=1).policy.tolist() == [1]


def test_an_algorithm_is_an_object() -> None:
    mdp = rr.make("two-goals-v1")
    for wrong in ("rpvi-v1", rr.ReplicablePhasedVI):
        with pytest.raises(rr.InvalidInput, match="solve: algorithm"):
            rr.solve(mdp, wrong, shared_seed=1)  # type: ignore[arg-type]
        with pytest.raises(rr.InvalidInput, match="plan: algorithm"):
            rr.plan(mdp, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "1"])
def test_bad_seeds(seed: Any) -> None:
    for seeds in ({"shared_seed": seed}, {"shared_seed": 1, "sample_seed": seed}):
        with pytest.raises(rr.InvalidInput, match=list(seeds)[-1]):
            rr.solve(rr.make("two-goals-v1"), THEOREM, **seeds)


def test_a_fresh_sample_seed_is_recorded_and_repeats_the_run() -> None:
    mdp = rr.make("two-goals-v1")
    plain = rr.PhasedVI(0.1, 0.001, calls=1000)
    one, two = rr.solve(mdp, plain, shared_seed=1), rr.solve(mdp, plain, shared_seed=1)
    assert one.spec is not None
    assert two.spec is not None
    assert one.spec.sample_seed != two.spec.sample_seed
    again = rr.solve(mdp, plain, shared_seed=1, sample_seed=one.spec.sample_seed)
    assert again.fingerprints == one.fingerprints
    assert again.spec == one.spec


def test_offsets_are_addressed_by_iteration_state_and_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets the algorithm asks for are one per (t, s, a), and all different."""
    asked: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
    original = rr.SharedRandomness.uniform

    def spy(self: rr.SharedRandomness, label: str, *address: int, shape: tuple[int, ...]) -> np.ndarray:
        asked.append((label, address, shape))
        return original(self, label, *address, shape=shape)

    monkeypatch.setattr(module, "TabularMDP", PerSample)
    monkeypatch.setattr(rr.SharedRandomness, "uniform", spy)
    rr.solve(rr.make("two-goals-v1"), COARSE, shared_seed=1, sample_seed=1)
    answers = [("rpvi/offset", (t,), (8, 4)) for t in range(12)]
    again = [one for one in asked if one not in answers]  # the same numbers, as long as all means are far from edges
    assert [one for one in asked if one in answers] == answers
    assert again == [("rpvi/offset", (t,), (32,)) for t in range(len(again))]
    assert again


# --- any query in the loop ------------------------------------------------------------------------------


def alike(iterations: int, calls: int, width: float = 0.02) -> Schedule:
    return Schedule.constant(iterations, calls, width)


@dataclass(frozen=True)
class Coarse(Query):
    """A query of somebody's own: to the nearest eighth, on a grid that everybody knows."""

    def answer(self, means: np.ndarray, *address: int, index: np.ndarray | None = None) -> np.ndarray:
        assert len(address) == 1
        return np.round(means * 8.0) / 8.0


def test_a_query_of_somebodys_own_runs_in_the_loop() -> None:
    """By hand: draw, average, answer. The compiled loop does not know the query, and leaves it to the listing."""
    mdp = rr.make("two-goals-v1")
    found = module.iterate(mdp, alike(9, 1000), Coarse(), sample_stream(4)).q
    q, sampler, rng = np.zeros((8, 4)), mdp, sample_stream(4)
    rewards = np.asarray(mdp.known_rewards) * (1.0 - 0.9)
    for _ in range(9):
        counts = sampler.draw(1000, rng)
        means = counts.mean(q.max(axis=1)[counts.next_state]).reshape(8, 4)
        q = rewards + 0.9 * np.round(means * 8.0) / 8.0
    assert np.abs(found - q).max() < 1e-15
    plain = module.iterate(mdp, alike(9, 1000), Means(), sample_stream(4)).q
    assert (found != plain).any()


class Halved(Query):
    """One that is nearly rSTAT."""

    def __init__(self, *given: Any) -> None:
        self.inner = RStat(*given)

    def answer(self, means: np.ndarray, *address: int, index: np.ndarray | None = None) -> np.ndarray:
        return self.inner.answer(means, *address, index=index) / 2.0


def wrapped(source: Any) -> Any:
    """Return a source as a run has it."""
    return as_source(source)


def test_what_the_compiled_loop_takes_and_what_not(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, sampler = rr.SharedRandomness(1), rr.make("two-goals-v1")

    class Own(Like):
        """May draw otherwise."""

    def is_compiled(source: Any, query: Query) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(module, "compiled_iterations", lambda *given: None)
            done: object = module.iterate(wrapped(source), alike(5, 10**9, 0.01), query, sample_stream(1))
            return done is None

    for query in (Means(), RStat(shared, "rpvi/offset", 0.01)):
        assert is_compiled(sampler, query)
        assert not is_compiled(Own(sampler), query)
    halved = Halved(shared, "rpvi/offset", 0.01)
    for other in (halved, RStat(shared, "x", 0.1, "zero-preserving"), Coarse()):
        assert not is_compiled(sampler, other)
    half, whole = (
        module.iterate(sampler, alike(5, 10**9, 0.01), query, sample_stream(1)).q
        for query in (halved, RStat(shared, "rpvi/offset", 0.01))
    )
    assert half.max() < whole.max()
    for known in (Means, RStat):
        with pytest.raises(rr.InvalidInput, match="Mine: a compiled loop knows"):
            type("Mine", (known,), {})


# --- the compiled loop -----------------------------------------------------------------------------------


class Unfused(Like):
    """The same sampler without the compiled loop."""


def same_bits(one: Iterated, two: Iterated) -> bool:
    return np.array_equal(one.q, two.q) and one[1:] == two[1:]


def check_compiled(id: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With known rewards and learned ones, rounded and not, in one block of iterations and in several."""
    mdp, known = rr.make(id), rr.make(id).known_rewards is not None
    pairs = mdp.n_states * mdp.n_actions
    rising = rising_schedule(pairs, mdp.gamma, 0.3, 0.1, 0.5, known_rewards=known)
    for schedule in (alike(23, calls), rising) if calls > 1 else (alike(23, calls),):
        for query in (RStat(rr.SharedRandomness(5), "rpvi/offset", schedule.widths), Means()):
            given = schedule, query, sample_stream(SEED % 2**64), 12.0
            listing = module.iterate(wrapped(Unfused(mdp)), *given)
            for rows_at_once in (2**20, 5 * pairs, 1):
                monkeypatch.setattr(compiled_module, "_ROWS_AT_ONCE", rows_at_once)
                given = schedule, query, sample_stream(SEED % 2**64), 12.0
                compiled = module.iterate(mdp, *given)
                if not known:  # nobody knows how far the rewards of somebody's own source spread
                    assert not listing.good_seed
                    compiled = compiled._replace(good_seed=False)
                assert same_bits(listing, compiled)


@pytest.mark.parametrize("id", ["two-goals-v1", "riverswim-v1", "garnet-v1", "inventory-v1", "machine-repair-v1"])
@pytest.mark.parametrize("calls", [1, 13_000, 10**17])
def test_compiled_loop_has_the_bits_of_the_listing(id: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_compiled(id, calls, monkeypatch)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_large_problems_have_the_bits_of_the_listing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows, each iteration on several threads, and all in one compiled loop."""
    mdp = rr.make("garnet-v1", n_states=700, n_actions=3, branching=4, seed=1)
    for schedule in (alike(5, 10**6), rising_schedule(2100, 0.9, 0.5, 0.1, 0.5)):
        query = RStat(rr.SharedRandomness(5), "rpvi/offset", schedule.widths)
        listing = module.iterate(wrapped(Unfused(mdp)), schedule, query, sample_stream(3), 9.0)
        monkeypatch.setattr("replicable_rl.compiled.THREADS", threads)
        for many in (1, 100):
            monkeypatch.setattr(compiled_module, "MANY_BLOCKS", many)
            compiled = module.iterate(mdp, schedule, query, sample_stream(3), 9.0)
            assert same_bits(listing, compiled)
