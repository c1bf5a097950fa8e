"""Proofs of decisions attacked at their edges: plans, bounds, masks, many states of which one decides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dev.benchmarks import decision_edges as edges
from dev.benchmarks import proofs_decisions as bench
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.problem.table import Rows
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules import AffordableTolerance, EmpiricalModel, Tuning
from replicable_rl.theory import decisions, plug_in_policy
from replicable_rl.theory.decisions import Sizes, disagreement_bound, loss_bound
from tests.statistics import SEED
from tests.test_rules import bandit, estimate

RULES = ("affordable", "tolerance", "rounded", "gumbel", "greedy", "published")
shares = st.floats(1e-3, 0.9)
problems = st.tuples(st.sampled_from([1, 2, 7, 50, 1000]), st.sampled_from([1, 2, 5, 20]), st.floats(0.0, 0.99))


# --- plans -----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(problems, shares, shares, shares, st.sampled_from(RULES), st.booleans(), st.sampled_from(["initial", "worst"]))
def test_a_plan_keeps_its_promises(
    problem: tuple[int, int, float], epsilon: float, delta: float, rho: float, rule: str, known: bool, over: str
) -> None:
    plan = plug_in_policy(*problem, epsilon, delta, rho, rule=rule, known_rewards=known, over=over)
    assume(plan.per_pair < 2**190)  # beyond, planning itself is not exact enough for any n
    assert plan.accuracy_proved
    assert plan.replicability_proved or rule in ("greedy", "published")
    again = plug_in_policy(
        *problem, epsilon, delta, rho, rule=rule, known_rewards=known, over=over, samples=plan.per_pair
    )
    assert (again.spent, again.parameter, again.error_proved) == (plan.spent, plan.parameter, plan.error_proved)
    less = replace(plan, per_pair=int(plan.per_pair * 0.99))
    if plan.per_pair > 200:  # and fewer would not do
        kept = less.error_proved <= epsilon and (less.rho_proved or 0.0) <= rho
        assert not kept or rule in ("greedy", "published")


@settings(max_examples=100, deadline=None)
@given(
    problems,
    shares,
    shares,
    shares,
    st.sampled_from(RULES),
    st.booleans(),
    st.integers(0, 60).map(lambda k: 2**k),
    st.sampled_from(["initial", "worst"]),
)
def test_nothing_is_claimed_that_the_bounds_do_not_say(
    problem: tuple[int, int, float], epsilon: float, delta: float, rho: float, rule: str, known: bool, n: int, over: str
) -> None:
    plan = plug_in_policy(*problem, epsilon, delta, rho, rule=rule, known_rewards=known, samples=n, over=over)
    sizes = Sizes(*problem, known, over == "initial")
    if plan.accuracy_proved:
        assert loss_bound(rule, sizes, n, plan.parameter, plan.spent, delta) <= epsilon * (1 + 1e-12)
    if plan.replicability_proved:
        assert disagreement_bound(rule, sizes, n, plan.parameter, plan.spent) <= rho * (1 + 1e-12)
    if rule in ("greedy", "published"):
        assert not plan.replicability_proved
    more = replace(plan, per_pair=2 * n)
    assert more.error_proved <= plan.error_proved
    assert (more.rho_proved or 0.0) <= (plan.rho_proved or 0.0)


def test_plans_are_monotone() -> None:
    def n(S: int = 8, A: int = 4, gamma: float = 0.9, epsilon: float = 0.1, rho: float = 0.2, **more: Any) -> int:
        return plug_in_policy(S, A, gamma, epsilon, 0.001, rho, **more).per_pair

    for rule in RULES[:4]:
        base = n(rule=rule)
        assert base < n(S=16, rule=rule)
        assert base < n(A=8, rule=rule)
        assert base < n(gamma=0.95, rule=rule)
        assert base < n(epsilon=0.05, rule=rule)
        assert base < n(rho=0.1, rule=rule)
        assert base <= n(known_rewards=False, rule=rule)
    assert n(over="worst") < n()  # no weights
    assert plug_in_policy(8, 1, 0.9, 0.1, 0.001, 0.2).rho_proved == 0.0  # one action, one policy


def test_the_bounds_by_hand() -> None:
    """The formulas of docs/proofs.md, written out once more."""
    S, A, gamma, n, delta = 8, 4, 0.9, 1e6, 0.001
    sizes, h, N = Sizes(S, A, gamma, known_rewards=True), 10.0, 32
    e = gamma * h * math.sqrt(math.log(2 * N / delta) / (2 * n))
    assert sizes.value_error(n, delta) == pytest.approx(e, rel=1e-5)
    L = math.log(2 * S / delta)
    ell = gamma * h * (math.sqrt(L) + math.sqrt(S * math.log(A) + L)) / math.sqrt(2 * n)
    assert sizes.policy_error(n, delta) == pytest.approx(ell)
    few = math.sqrt(math.log(2 * N) / (2 * n))
    M = 8 * gamma * h * few + 4 * gamma * h / n + 2 * few + (math.log(2 * N) + 1) / (2 * n)
    d = math.sqrt(2 * gamma**2 * h**2 / n * ((1 + gamma) / (4 * h) + M))
    assert sizes.value_distance(n) == pytest.approx(d, rel=1e-5)
    assert disagreement_bound("tolerance", sizes, n, 0.01, 0.1) == pytest.approx(2 * 24 * d / 0.01, rel=1e-5)
    assert disagreement_bound("rounded", sizes, n, 0.01, 0.1) == pytest.approx(32 * d / 0.01, rel=1e-5)
    D = math.sqrt(2 * (S - 1) / n) + 2 * math.sqrt(math.log(N) / n)
    assert sizes.row_distance(n) == pytest.approx(D)
    assert sizes.row_error(n, delta) == pytest.approx(math.sqrt(2 * (S * math.log(2) + math.log(N / delta)) / n))
    m, spent, F = sizes.worst_distance(n), 0.1, 1 / 16
    tried = decisions.tolerances(sizes, spent)
    total = 24 * (2 * sizes.value_distance(n) / tried[-1] + gamma * h * (0.2 * m / spent + D) / F)
    P = gamma * h * math.sqrt((S * math.log(A) + math.log(2 * S)) / (2 * n))
    for x in tried:
        G = min(1.0, 2 * x / math.sqrt(F / (1 + F)))
        total += (min(h * (2 * m + G * gamma * h * D / 2), m + 2 * P) + 2e-9) / (0.2 * spent)
    assert decisions.affordable_disagreement(sizes, n, spent) == pytest.approx(total)


# --- at the edge -----------------------------------------------------------------------------------------------------


def test_no_bound_is_exceeded() -> None:
    """The instances of `make bench`, fewer samples of them."""
    rng = np.random.default_rng(SEED)
    for one in edges.instances():
        found = edges.measure(one, 1500, rng)
        assert found.excess <= 5.5, one.name  # 5.5 standard errors: below 1e-6 for all of them together


def check_affordable() -> None:
    """The affordable rule of the benchmark and of the package decide alike."""
    rng = np.random.default_rng(3)
    for worst in (True, False):
        spent = edges.last_spent(6, worst=worst)
        coins = edges.affordable_coins(200, spent, 6, worst=worst)
        for seed in range(40):
            q, shared = coins.q(1, rng), SharedRandomness(seed)
            numbers = shared.uniform("decide/affordable", shape=2)[None]
            tuning = Tuning(spent, 0.0, "worst" if worst else "initial")
            decision = AffordableTolerance().decide(bandit(q[0]), shared, tuning)
            assert decision.outputs["policy"].tolist() == edges.affordable(q, spent, numbers, worst=worst)[0].tolist()


def test_arrays_decide_as_the_package_does() -> None:
    """The rule, and the error of a run, of the benchmark and of the package."""
    check_affordable()
    for seed in range(5):
        walk = edges.mixing_walk(3, 2, 0.8, 500, seed)
        model = estimate(rr.TabularMDP.from_dense(walk.P, walk.r, gamma=0.8, reward_range=(0.0, 0.2)), 500, seed)
        P = dense(model)[None]
        q = walk.plan(P)
        w, second = walk.error(P, q, 0.1)
        assert np.abs(model.q - q[0]).max() < 1e-8
        theirs, other = model.value_error(0.1)
        assert np.abs(theirs - w[0]).max() < 1e-7
        assert abs(other - float(second[0])) < 1e-7


def dense(model: EmpiricalModel) -> Any:
    """Return the transitions of a model, (S, A, S)."""
    P = np.zeros((model.visits.size, model.n_states))
    rows = model.table.rows
    np.add.at(P, (np.repeat(np.arange(len(P)), np.diff(rows.indptr)), rows.next_state), rows.probability)
    return P.reshape(model.n_states, model.n_actions, -1)


def test_hostile_cuts_cost_what_is_allowed() -> None:
    found, spent, bound = bench.hostile(200, np.random.default_rng(SEED))
    assert not bench.failures([], found, spent, bound)
    assert {one.kind for one in found if one.followed < one.runs} >= {"all huge"}  # and some are refused


@pytest.mark.parametrize("rule", RULES[:4])
def test_two_runs_at_the_size_of_the_plan(rule: str) -> None:
    mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.2, 0.05, 0.5, rule=rule)
    plan = algorithm.plan(mdp).numbers
    assert plan.accuracy_proved
    assert plan.replicability_proved
    best, differ = rr.optimal_values(mdp), 0
    for seed in range(20):
        one, two = (rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=2 * seed + k) for k in range(2))
        differ += one.fingerprints.policy != two.fingerprints.policy
        lost = best.value - rr.evaluate_policy(mdp, one.policy).value
        assert float(lost.max()) * (1.0 - mdp.gamma) / (mdp.reward_range[1] - mdp.reward_range[0]) <= 0.2
    assert differ < 20  # 0.5 is promised: all of them differ with a probability below 1e-6 then


# --- masks -----------------------------------------------------------------------------------------------------------


def one_choice(p: list[float], n_states: int) -> rr.TabularMDP:
    """Coins in the first state, nothing to choose in the others, and nothing follows."""
    A, forced = len(p), np.arange(1, n_states)
    indptr = np.concatenate([2 * np.arange(A + 1), 2 * A + np.repeat(forced, A)])  # one outcome in a forced state
    successors = np.concatenate([np.zeros(2 * A), forced]).astype(np.int32)
    chances = np.concatenate([np.ravel([(1.0 - x, x) for x in p]), np.ones(n_states - 1)])
    rewards = np.concatenate([np.tile([0.0, 1.0], A), np.zeros(n_states - 1)])
    allowed = np.zeros((n_states, A), dtype=bool)
    allowed[:, 0] = allowed[0] = True
    first = np.zeros(n_states)
    first[0] = 1.0
    rows = Rows(indptr, successors, chances, rewards)
    return rr.TabularMDP(rows, n_actions=A, gamma=0.0, initial=first, reward_range=(0.0, 1.0), allowed=allowed)


@pytest.mark.parametrize("n_actions", [2, 5])
@pytest.mark.parametrize("n_states", [10**3, 10**5, 10**6])
def test_few_samples_for_many_masked_states_prove_nothing(n_states: int, n_actions: int) -> None:
    """With three samples a state two runs differ in a third of the pairs, where one state has all the weight."""
    problem = one_choice([0.5] * n_actions, n_states)
    plan = rr.PlugInPolicy(0.9, 0.01, 0.2, samples=3 * n_states).plan(problem)
    assert plan.claims().replicability is None
    assert plan.numbers.rho_proved == 1.0


@pytest.mark.parametrize("n_states", [2, 8, 1000, 10**5])
def test_a_masked_plan_of_its_own_is_proved(n_states: int) -> None:
    plan = rr.PlugInPolicy(0.9, 0.01, 0.2).plan(one_choice([0.4, 0.6], n_states))
    assert plan.claims().accuracy is not None
    assert plan.claims().replicability is not None
    less = rr.PlugInPolicy(0.9, 0.01, 0.2, samples=int(0.9 * plan.numbers.per_pair)).plan(
        one_choice([0.4, 0.6], n_states)
    )
    assert less.claims().replicability is None


def test_arrays_decide_as_the_package_does_with_masks() -> None:
    rng = np.random.default_rng(SEED)
    n_states, n, decided = 400, 200, set()
    for seed in range(60):
        gap = rng.uniform(0.5, 2.5) / math.sqrt(n_states)
        one = edges.OneChoice([0.5 - gap / 2, 0.5 - gap / 3, 0.5 + gap / 2], n_states, n)
        model = estimate(one_choice(one.coins.p[0].tolist(), n_states), n, seed)
        numbers = SharedRandomness(seed).uniform("decide/affordable", shape=2)
        decision = AffordableTolerance().decide(model, SharedRandomness(seed), Tuning(0.9, 0.0, "initial"))
        theirs = one.decide(model.q.reshape(n_states, -1)[None, :1], 0.9, numbers[None])
        assert decision.outputs["policy"][0] == theirs[0, 0]
        decided.add(int(theirs[0, 0]))
    assert len(decided) > 1


def test_two_masked_runs_differ_seldom_at_the_size_of_the_plan() -> None:
    """One of 3000 states decides, and its gap is where the window of the first tolerance is."""
    n_states = 3000
    weight = edges.OneChoice([0.5, 0.5], n_states, 1).weight
    problem, differ = one_choice([0.5 - 0.75 / weight, 0.5 + 0.75 / weight], n_states), 0
    algorithm = rr.PlugInPolicy(0.9, 0.01, 0.2)
    assert rr.plan(problem, algorithm).claims().replicability is not None
    for seed in range(40):
        one, two = (rr.solve(problem, algorithm, shared_seed=seed, sample_seed=2 * seed + i) for i in (0, 1))
        differ += one.fingerprints.policy != two.fingerprints.policy
    assert differ <= 20  # of 40 at 0.2: more with probability below 1e-5
