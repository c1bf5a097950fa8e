"""The formulas of queries, of phased value iteration and of models: promises recomputed, and each step at its edge."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import replicable_rl as rr
from replicable_rl.algorithms.plan import Plan
from replicable_rl.runs import OURS, Claims
from replicable_rl.sampling import OutcomeCounts
from replicable_rl.theory import approximate_mdp, paper_phased_vi, phased_vi, rmax, rstat
from replicable_rl.theory.approximate_mdp import ApproximateMDPNumbers, row_distance
from replicable_rl.theory.phased_vi import Schedule, rising_schedule
from replicable_rl.theory.rstat import ARITHMETIC, Form, few_bits, mean_distance, seed_margin
from tests.statistics import ALPHA, SEED

shares = st.floats(1e-4, 0.99)
probabilities = st.tuples(st.floats(1e-6, 0.99), st.floats(1e-6, 0.49)).map(lambda x: (x[0], x[0] * x[1]))  # rho, delta
forms: st.SearchStrategy[Form] = st.sampled_from(["midpoint", "zero-preserving"])
norms: st.SearchStrategy[Any] = st.sampled_from(["entry", "l1"])
PIECES = {"midpoint": 1, "zero-preserving": 2}
PROMISE = (0.1, 0.001, 0.2)


# --- one query -------------------------------------------------------------------------------------------------------


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


@given(shares, shares, st.floats(1e-4, 0.9), forms)
def test_a_query_keeps_its_promises_and_no_more(rho: float, delta: float, tau: float, form: Form) -> None:
    """Both hold at n, one sample fewer is too few, and 2 delta < rho is not needed."""
    query, pieces = rstat(rho, delta, tolerance=tau, form=form), PIECES[form]
    assert query.error_proved <= tau * (1 + 1e-12)
    assert query.rho_proved <= rho * (1 + 1e-12)
    if 1 < query.samples < 10**9:
        n = query.samples - 1
        room = 2 * (tau - math.sqrt(math.log(2 / delta) / (2 * n))) / pieces
        assert room <= 0 or mean_distance(n) / room > rho
    few = replace(query, samples=max(1, query.samples // 8))
    error = math.sqrt(math.log(2 / delta) / (2 * few.samples)) + query.width * pieces / 2
    assert few.error_proved == pytest.approx(error)
    assert few.rho_proved == pytest.approx(min(1.0, 1 / (query.width * math.sqrt(math.pi * few.samples))))


def test_two_answers_differ_with_the_probability_that_is_promised() -> None:
    """Bernoulli(1/2) at exactly n: the bound is met, and within a factor of two. False alarm: ALPHA."""
    rng = np.random.default_rng(SEED)
    plan, trials = rstat(0.2, 0.01, tolerance=0.1), 100_000
    v = rng.binomial(plan.samples, 0.5, (2, trials)) / plan.samples
    bins = np.floor((v - plan.width * rng.random(trials)) / plan.width)
    differ = int((bins[0] != bins[1]).sum())
    assert binom.sf(differ - 1, trials, plan.rho) > ALPHA
    assert differ > 0.9 * plan.rho * trials


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


def test_arithmetic_loses_less_than_the_margins_allow() -> None:
    rng, S, worst = np.random.default_rng(SEED), 20_000, 0.0
    for _ in range(50):
        count = rng.multinomial(10**15, rng.dirichlet(np.ones(S)))
        value = 0.9999 * (1.0 - 0.1 * rng.random())
        counts = OutcomeCounts(np.array([0, S]), np.arange(S, dtype=np.int32), np.zeros(S), count, int(count.sum()))
        worst = max(worst, abs(float(counts.mean(np.full(S, value))[0]) - value))
    assert 2.0 * worst < ARITHMETIC


# --- phased value iteration ------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(
    st.floats(0.0, 0.9999),
    st.floats(1e-6, 0.999),
    probabilities,
    st.integers(1, 10**6),
    st.sampled_from(["policy", "value"]),
    st.booleans(),
)
def test_the_theorems_own_parameters_prove_it(
    gamma: float, epsilon: float, rho_delta: tuple[float, float], pairs: int, target: str, known: bool
) -> None:
    """Contraction and union bound, recomputed from the paper's listing: both promises hold, for every input."""
    rho, delta = rho_delta
    kind: dict[str, Any] = {"target": target, "known_rewards": known}
    paper = paper_phased_vi(pairs, gamma, epsilon, delta, rho, **kind)
    assume(paper["calls"] < 2**200)
    plan = phased_vi(pairs, gamma, epsilon, delta, rho, **kind, **paper)
    assert plan.accuracy_proved
    assert plan.replicability_proved
    # The recursion of the proof: error' = (gamma tau if rewards known else tau) + gamma error, from error 1 at t=0.
    step = (gamma if known else 1.0) * plan.tolerance
    error = step * (1 - gamma**plan.iterations) / (1 - gamma) + gamma**plan.iterations
    promised = epsilon / 2 if target == "value" else (1 - gamma) * epsilon / 2
    assert error <= promised * (1 + 1e-9)
    whole_calls = max(1e-6, 1 / plan.calls)  # m is rounded up, which shows where m is small
    assert plan.value_error == pytest.approx(step / (1 - gamma) + gamma**plan.iterations, rel=whole_calls)
    assert plan.policy_loss == pytest.approx(2 * plan.value_error / (1 - gamma))
    plain = phased_vi(pairs, gamma, epsilon, delta, **kind)
    assert plain.accuracy_proved
    assert plain.calls <= plan.calls


def test_table_of_the_paper() -> None:
    """T, tau, m of section 3 for the two-goals grid, by the printed formulas."""
    N, gamma, eps, delta, rho = 32, 0.9, 0.1, 0.001, 0.2
    policy = paper_phased_vi(N, gamma, eps, delta, rho)
    assert policy["iterations"] == math.ceil(math.log(2 / (0.1**3 * eps)) / 0.1) == 100
    assert policy["tolerance"] == pytest.approx(0.01 * eps / 2)
    value = paper_phased_vi(N, gamma, eps, delta, rho, target="value")
    assert value["iterations"] == math.ceil(math.log(2 / (0.1**2 * eps)) / 0.1) == 77
    assert value["tolerance"] == pytest.approx(0.1 * eps / 2)
    printed = paper_phased_vi(N, gamma, eps, delta, rho, target="value", printed=True)
    NT, tau = N * value["iterations"], value["tolerance"]
    gap = (rho - 2 * delta) / NT
    assert value["calls"] == pytest.approx((1 + gap) ** 2 / (2 * tau**2 * gap**2) * math.log(2 * NT / delta))
    assert printed["calls"] == pytest.approx(2 * NT**2 / (tau**2 * (rho - 2 * delta) ** 2) * math.log(2 * NT / delta))
    plan = phased_vi(N, gamma, eps, delta, rho, target="value", **value)
    assert plan.rho_sq == pytest.approx(rho / NT)
    assert plan.delta_sq == pytest.approx(delta / NT)
    assert plan.width == pytest.approx(2 * tau / (1 + gap))
    assert plan.samples == value["calls"] * NT


def test_overrides_lose_the_proof_only_where_they_should() -> None:
    """The bounds are those of the run and not of the theorem."""
    calls = paper_phased_vi(32, 0.9, *PROMISE)["calls"]
    cases: list[tuple[dict[str, Any], bool, bool]] = [
        ({"calls": calls + 1}, True, True),
        ({"calls": calls // 100}, True, True),  # by the mean distance
        ({"calls": calls // 200}, True, False),
        ({"tolerance": 0.05}, False, True),
        ({"iterations": 10}, False, True),
    ]
    for given_, accurate, replicable in cases:
        plan = phased_vi(32, 0.9, *PROMISE, **given_)
        assert plan.replicability_proved is replicable
        assert plan.accuracy_proved is accurate or given_.get("calls") == calls // 200
    for known, damping in ((True, 0.9), (False, 1.0)):
        plan = phased_vi(32, 0.9, *PROMISE, tolerance=0.005, calls=2**63 - 1, known_rewards=known)
        assert plan.value_error == pytest.approx(damping * 0.005 / 0.1 + 0.9**100, rel=1e-3)
        assert plan.policy_loss == pytest.approx(20 * plan.value_error)
        assert plan.rho_proved == pytest.approx(3200 / (plan.width * math.sqrt(math.pi * plan.calls)))


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


def test_numbers_have_few_bits() -> None:
    """The last bits of pow and log differ between machines; those of a schedule must not."""
    one = rising_schedule(32, 0.9, *PROMISE)
    for numbers in (one.calls.astype(float), one.widths, one.lowered, one.reach):
        mantissa = np.frexp(numbers)[0] * 2.0**24
        assert (mantissa == np.floor(mantissa)).all()
    middle = phased_vi(32, 0.9, *PROMISE).value_error * 2.0**40  # which is added to Q
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
    least = phased_vi(2**62, 0.999, 1e-30, 1e-30, 1e-30)
    assert least.accuracy_proved
    assert least.replicability_proved
    assert least.calls > 2**63
    with pytest.raises(rr.InvalidInput, match=r"gamma=0.9999999 takes more than 1e\+06 iterations"):
        phased_vi(32, 0.9999999, *PROMISE)
    assert paper_phased_vi(32, 0.9999999, *PROMISE)["iterations"] > 10**6


@given(st.floats(0.0, 0.99), st.floats(-100, 100), st.just(0.0) | st.floats(1e-3, 100), st.floats(0.0, 1.0))
def test_units_round_trip(gamma: float, low: float, width: float, share: float) -> None:
    """A constant reward r for ever is worth r/(1-gamma), through the normalised scale and back."""
    units = rr.theory.Units(gamma, low, low + width)
    r = min(low + share * width, low + width)
    normalised = units.reward(np.array([r]))
    assert 0.0 <= normalised[0] <= (1 - gamma) * (1 + 1e-12)
    value = units.value_to_user(normalised / (1 - gamma))
    assert value[0] == pytest.approx(r / (1 - gamma), abs=1e-9 * (1 + abs(low) + width) / (1 - gamma))


# --- models ----------------------------------------------------------------------------------------------------------


def check_approximate_mdp(plan: ApproximateMDPNumbers) -> None:
    """Hoeffding for every query and a union bound, from the numbers a run uses."""
    S = plan.n_states
    Q = plan.pairs * (S + (not plan.known_rewards))
    radius = math.sqrt(math.log(2 * Q / plan.delta) / (2 * plan.calls))  # each query fails with delta/Q, or less
    entry = radius + (0.0 if plan.rho is None else PIECES[plan.form] * plan.width / 2)
    error = entry if plan.norm == "entry" else S * entry
    assert plan.entry_error == pytest.approx(entry)
    if plan.accuracy_proved:
        assert error <= plan.epsilon * (1 + 1e-8)
    else:
        assert error > plan.epsilon
    if plan.rho is None:
        assert plan.rho_proved is None
        assert not plan.replicability_proved
        return
    n = plan.calls
    row = 2 * math.sqrt((S - 1) / (math.pi * n)) + S * math.sqrt(2 / math.pi) / n if S > 1 else 0.0
    differ = plan.pairs * (row + (0.0 if plan.known_rewards else 1 / math.sqrt(math.pi * n))) / plan.width
    assert plan.rho_proved == pytest.approx(min(1.0, differ))
    if plan.replicability_proved:
        assert differ <= plan.rho * (1 + 1e-8)
    else:
        assert differ > plan.rho


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 1000),
    st.integers(1, 50),
    st.floats(1e-5, 0.999),
    probabilities,
    norms,
    forms,
    st.booleans(),
    st.booleans(),
    st.integers(1, 10**20),
    st.none() | st.floats(1e-5, 0.99),
)
def test_numbers_of_models(
    S: int,
    A: int,
    eps: float,
    rho_delta: tuple[float, float],
    norm: Any,
    form: Form,
    known: bool,
    plain: bool,
    calls: int,
    tau: float | None,
) -> None:
    """The theorem's parameters prove the promises, and others are judged by their numbers."""
    rho, kind = (None if plain else rho_delta[0]), dict[str, Any](norm=norm, form=form, known_rewards=known)
    plan = approximate_mdp(S, A, eps, rho_delta[1], rho, **kind)
    check_approximate_mdp(plan)
    assert plan.accuracy_proved
    assert plan.replicability_proved is not plain
    assert plan.calls >= approximate_mdp(S, A, eps, rho_delta[1], **kind).calls
    given_, more = (
        approximate_mdp(S, A, eps, rho_delta[1], rho, calls=n, tolerance=tau, **kind) for n in (calls, 10 * calls)
    )
    check_approximate_mdp(given_)
    assert given_.calls == calls
    assert more.entry_error <= given_.entry_error
    assert (more.rho_proved or 0.0) <= (given_.rho_proved or 0.0)


def test_a_row_at_its_edge() -> None:
    """Uniform rows, the worst ones: the sum of the distances is below the bound, and within 20 % of it."""
    rng = np.random.default_rng(SEED)
    for S, n in ((2, 10), (8, 1000), (40, 400)):
        counts = rng.multinomial(n, np.full(S, 1 / S), (2, 4000))
        distance = np.abs(counts[0] - counts[1]).sum(axis=1).mean() / n
        assert distance <= row_distance(S, n, known_rewards=True)
        assert distance >= 0.5 * row_distance(S, n, known_rewards=True)
    assert row_distance(1, 5, known_rewards=True) == 0.0


# --- plans -----------------------------------------------------------------------------------------------------------


def plans() -> dict[str, Plan[Any]]:
    mdp, learned, promise = rr.make("two-goals-v1"), rr.make("chain-v1"), (0.1, 0.001, 0.2)
    algorithms: dict[str, Any] = {
        "rpvi": rr.ReplicablePhasedVI(*promise),
        "listing": rr.ReplicablePhasedVI(*promise, **paper_phased_vi(32, 0.9, *promise)),
        "phased": rr.PhasedVI(0.1, 0.001),
        "model": rr.ReplicableApproximateMDP(*promise),
        "plain model": rr.ApproximateMDP(0.1, 0.001, norm="l1"),
        "few": rr.ReplicableApproximateMDP(*promise, calls=100),
        "rmax": rr.ReplicableRMax(*promise, 60, support=3),
        "plain rmax": rr.RMax(0.1, 0.001, 60),
    }
    found = {name: algorithm.plan(mdp) for name, algorithm in algorithms.items()}
    return found | {"value": rr.ReplicablePhasedVI(*promise, target="value").plan(learned)}


@pytest.mark.parametrize("name", plans())
def test_a_plan_claims_what_its_bounds_prove_and_is_json(name: str) -> None:
    plan = plans()[name]
    numbers, claims = plan.numbers, plan.claims()
    assert {claim.kind for claim in claims} <= {"proved"}
    assert set(claims.missing) == {"accuracy", "replicability"} - {claim.about for claim in claims}
    assert (claims.replicability is not None) == numbers.replicability_proved
    assert (claims.accuracy is not None) == numbers.accuracy_proved
    data = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert Claims.from_json(data["claims"], OURS) == claims
    assert data["samples"] == plan.samples
    for key in ("epsilon", "delta", "rho", "known_rewards", "rho_proved", "error_proved"):
        assert data[key] == getattr(numbers, key)


BAD: list[tuple[Any, dict[str, Any], str]] = [  # of problems, and together; `test_parameters` has the others
    (phased_vi, {"gamma": 1.0}, "gamma"),
    (phased_vi, {"delta": 0.15, "calls": 5}, r"2\*delta < rho, got delta=0.15, rho=0.2"),
    (phased_vi, {"rho_sq": 1e-12}, "rho_sq"),
    (phased_vi, {"pairs": 0}, "pairs"),
    *((approximate_mdp, {name: 0}, name) for name in ("n_states", "n_actions", "allowed_pairs")),
    *((rmax, {name: 0}, name) for name in ("n_states", "n_actions", "support")),
    (rmax, {"gamma": 1.0}, "gamma"),
]
GOOD: dict[Any, dict[str, Any]] = {
    phased_vi: {"pairs": 32, "gamma": 0.9, "epsilon": 0.1, "delta": 0.001, "rho": 0.2},
    approximate_mdp: {"n_states": 3, "n_actions": 2, "epsilon": 0.1, "delta": 0.01, "rho": 0.2},
    rmax: {"n_states": 3, "n_actions": 2, "gamma": 0.9, "epsilon": 0.1, "delta": 0.01, "rho": 0.2, "horizon": 20},
}


@pytest.mark.parametrize(("function", "change", "named"), BAD)
def test_bad_parameters(function: Any, change: dict[str, Any], named: str) -> None:
    with pytest.raises(rr.InvalidInput, match=rf"^theory\..*{named}"):
        function(**GOOD[function] | change)
