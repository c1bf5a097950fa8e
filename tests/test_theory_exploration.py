"""Plans of ApproximateMDP and R-max: the formulas written out, and every promise recomputed from its argument."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import replicable_rl as rr
from replicable_rl.queries import RStat
from replicable_rl.theory import MAX_CALLS, ApproximateMDPPlan, RMaxPlan, approximate_mdp, rmax, rmax_practical
from replicable_rl.theory.rstat import Form
from tests.mutants import plant
from tests.statistics import ALPHA, SEED

probabilities = st.tuples(st.floats(1e-3, 0.99), st.floats(1e-4, 0.49)).map(lambda x: (x[0], x[0] * x[1]))  # rho, delta
forms: st.SearchStrategy[Form] = st.sampled_from(["midpoint", "zero-preserving"])
PIECES = {"midpoint": 1, "zero-preserving": 2}
MORE = 1 + 1e-8  # for rounding


# --- ApproximateMDP (section 4) ----------------------------------------------------------------------------


@pytest.mark.parametrize("known_rewards", [True, False])
@pytest.mark.parametrize("form", ["midpoint", "zero-preserving"])
@pytest.mark.parametrize("norm", ["entry", "l1"])
def test_formulas_of_approximate_mdp(norm: Any, form: Form, known_rewards: bool) -> None:
    S, A, eps, delta, rho = 8, 4, 0.02, 0.001, 0.2
    plan = approximate_mdp(S, A, eps, delta, rho, norm=norm, form=form, known_rewards=known_rewards)
    Q = S * S * A + (0 if known_rewards else S * A)
    tau = eps if norm == "entry" else eps / S
    gap = (rho - 2 * delta) / Q
    sampling = tau * gap / (1 + gap) if form == "midpoint" else tau * gap / (2 + gap)
    assert plan.queries == Q
    assert plan.tolerance == pytest.approx(tau)
    assert plan.rho_sq == pytest.approx(rho / Q)
    assert plan.delta_sq == pytest.approx(delta / Q)
    assert plan.width == pytest.approx(2 * tau / (PIECES[form] + gap))
    assert plan.calls == plan.calls_needed == pytest.approx(math.log(2 * Q / delta) / (2 * sampling**2), rel=1e-9)
    assert plan.calls_plain == math.ceil(math.log(2 * Q / delta) / (2 * tau**2))
    assert plan.samples == plan.calls * S * A == plan.total(plan.calls)
    assert plan.entry_error == pytest.approx(tau)
    assert plan.rho_proved == pytest.approx(rho)
    assert plan.accuracy_proved
    assert plan.replicability_proved


def test_sample_size_grows_as_the_paper_says() -> None:
    """O(S^4 A^2/(eps^2 (rho - 2 delta)^2) log(SA/delta)) per pair: constants cancel in ratios."""

    def calls(S: int = 50, A: int = 4, eps: float = 0.01, rho: float = 0.2) -> float:
        plan = approximate_mdp(S, A, eps, 1e-4, rho)
        return plan.calls / math.log(2 * S * S * A / 1e-4)

    assert calls(S=100) / calls() == pytest.approx(2**4, rel=1e-3)
    assert calls(A=8) / calls() == pytest.approx(2**2, rel=1e-3)
    assert calls(eps=0.005) / calls() == pytest.approx(2**2, rel=1e-3)
    assert calls(rho=0.4) / calls() == pytest.approx((0.1998 / 0.3998) ** 2, rel=1e-3)


def check_approximate_mdp(plan: ApproximateMDPPlan) -> None:
    """Hoeffding for every query and a union bound, from the numbers a run uses."""
    S, A = plan.n_states, plan.n_actions
    Q = S * A * (S + (not plan.known_rewards))
    radius = math.sqrt(math.log(2 * Q / plan.delta) / (2 * plan.calls))  # each query fails with delta/Q, or less
    entry = radius + (0.0 if plan.rho is None else PIECES[plan.form] * plan.width / 2)
    error = entry if plan.norm == "entry" else S * entry
    assert plan.entry_error == pytest.approx(entry)
    if plan.accuracy_proved:
        assert error <= plan.epsilon * MORE
    else:
        assert error > plan.epsilon
    if plan.rho is None:
        assert plan.rho_proved is None
        assert not plan.replicability_proved
        return
    disagreement = Q * 2 * radius / plan.width + 2 * plan.delta
    assert plan.rho_proved == pytest.approx(min(1.0, disagreement))
    if plan.replicability_proved:
        assert disagreement <= plan.rho * MORE
    else:
        assert disagreement > plan.rho


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 1000),
    st.integers(1, 50),
    st.floats(1e-5, 0.999),
    probabilities,
    st.sampled_from(["entry", "l1"]),
    forms,
    st.booleans(),
    st.booleans(),
)
def test_theorem_parameters_of_approximate_mdp_prove_it(
    S: int, A: int, eps: float, rho_delta: tuple[float, float], norm: Any, form: Form, known: bool, replicable: bool
) -> None:
    rho, delta = rho_delta
    plan = approximate_mdp(S, A, eps, delta, rho if replicable else None, norm=norm, form=form, known_rewards=known)
    check_approximate_mdp(plan)
    assert plan.accuracy_proved
    assert plan.replicability_proved == replicable
    assert plan.calls >= plan.calls_plain
    assert (plan.calls == plan.calls_plain) == (not replicable) or plan.calls < 10


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 100),
    st.floats(1e-4, 0.9),
    probabilities,
    st.integers(1, 10**20),
    st.none() | st.floats(1e-5, 0.99),
    forms,
    st.sampled_from(["entry", "l1"]),
    st.booleans(),
)
def test_overrides_of_approximate_mdp_are_judged_by_their_numbers(
    S: int,
    eps: float,
    rho_delta: tuple[float, float],
    calls: int,
    tau: float | None,
    form: Form,
    norm: Any,
    plain: bool,
) -> None:
    rho, delta = rho_delta
    plan = approximate_mdp(
        S, 2, eps, delta, None if plain else rho, calls=calls, tolerance=tau, form=form, norm=norm, known_rewards=False
    )
    assert plan.calls == calls
    check_approximate_mdp(plan)
    more = approximate_mdp(
        S, 2, eps, delta, plan.rho, calls=10 * calls, tolerance=tau, form=form, norm=norm, known_rewards=False
    )
    assert more.entry_error <= plan.entry_error
    assert (more.rho_proved or 0.0) <= (plan.rho_proved or 0.0)


@pytest.mark.parametrize(
    ("change", "accurate", "replicable"),
    [
        ({}, True, True),
        ({"calls": 2}, True, True),
        ({"calls": 0.5}, False, False),  # the theorem's tolerance leaves no room
        ({"tolerance": 2}, False, True),  # and the calls that go with it
        ({"tolerance": 0.5}, True, True),
        ({"tolerance": 2, "calls": 1}, False, True),
        ({"tolerance": 0.5, "calls": 1}, True, False),  # finer bins, no more samples
        ({"tolerance": 0.5, "calls": 4}, True, True),
        ({"tolerance": 0.5, "calls": 3.9}, True, False),
    ],
)
def test_overrides_lose_only_what_they_touch(change: dict[str, float], accurate: bool, replicable: bool) -> None:
    """Changes are multiples of the theorem's own values."""
    base = approximate_mdp(6, 2, 0.05, 0.001, 0.2)
    scaled: dict[str, Any] = {}
    if "tolerance" in change:
        scaled["tolerance"] = base.tolerance * change["tolerance"]
    if "calls" in change:
        scaled["calls"] = math.ceil(base.calls * change["calls"])
    plan = approximate_mdp(6, 2, 0.05, 0.001, 0.2, **scaled)
    assert (plan.accuracy_proved, plan.replicability_proved) == (accurate, replicable)
    if replicable and "calls" in change:
        assert plan.rho_proved is not None
        assert plan.rho_proved <= 0.2 * MORE


def test_the_baseline_of_approximate_mdp() -> None:
    plan = approximate_mdp(6, 2, 0.05, 0.001)
    assert (plan.rho, plan.rho_sq, plan.rho_proved, plan.width) == (None, None, None, 0.0)
    assert plan.calls == plan.calls_needed == plan.calls_plain == math.ceil(math.log(2 * 72 / 0.001) / 0.005)
    assert plan.accuracy_proved
    assert not plan.replicability_proved
    assert not approximate_mdp(6, 2, 0.05, 0.001, calls=plan.calls - 1).accuracy_proved
    assert approximate_mdp(6, 2, 0.05, 0.001, norm="l1").calls == pytest.approx(36 * plan.calls, rel=1e-3)


BAD_MODEL: dict[str, tuple[dict[str, Any], str]] = {
    "no state": ({"n_states": 0}, "n_states must be an integer from 1"),
    "half an action": ({"n_actions": 1.5}, "n_actions must be an integer from 1"),
    "epsilon 0": ({"epsilon": 0.0}, "epsilon must lie strictly between 0 and 1, got 0.0."),
    "epsilon in words": ({"epsilon": "0.1"}, "epsilon must lie strictly between 0 and 1, got '0.1'."),
    "epsilon nan": ({"epsilon": math.nan}, "epsilon must lie strictly between 0 and 1, got nan."),
    "delta 1": ({"delta": 1.0}, "delta must lie strictly between 0 and 1, got 1.0."),
    "delta too large": ({"delta": 0.1}, "delta must satisfy 2*delta < rho (thm:rep-sq), got delta=0.1, rho=0.2. Lower"),
    "rho 1": ({"rho": 1.0}, "rho must lie strictly between 0 and 1, got 1.0."),
    "norm": ({"norm": "l2"}, "norm must be 'entry' or 'l1', got 'l2'."),
    "form": ({"form": "middle"}, "form must be one of midpoint, zero-preserving, got 'middle'."),
    "no call": ({"calls": 0}, "calls must be an integer from 1"),
    "tolerance 1": ({"tolerance": 1.0}, "tolerance must lie strictly between 0 and 1, got 1.0."),
    "delta 0 without rho": ({"rho": None, "delta": 0.0}, "delta must lie strictly between 0 and 1, got 0.0."),
}


@pytest.mark.parametrize("name", BAD_MODEL)
def test_bad_parameters_of_approximate_mdp(name: str) -> None:
    change, message = BAD_MODEL[name]
    good: dict[str, Any] = {"n_states": 3, "n_actions": 2, "epsilon": 0.1, "delta": 0.01, "rho": 0.2}
    with pytest.raises(rr.InvalidInput) as caught:
        approximate_mdp(**{**good, **change})
    assert message in str(caught.value)
    assert str(caught.value).startswith("theory.")


# --- R-max, asymptotic and refined -------------------------------------------------------------------------


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("known_rewards", [True, False])
@pytest.mark.parametrize("horizon", [30, 400])
def test_the_papers_parameters_with_every_constant_1(refined: bool, known_rewards: bool, horizon: int) -> None:
    S, A, gamma, eps, delta, rho, H = 8, 4, 0.9, 0.1, 0.001, 0.2, horizon
    plan = rmax(S, A, gamma, eps, delta, rho, H, refined=refined, known_rewards=known_rewards)
    N = S * A
    T = math.ceil(H * N / eps + (0 if refined else H**2 * math.log(1 / delta) / eps**2))
    assert plan.kind == ("refined" if refined else "asymptotic")
    assert plan.rounds == T
    assert plan.episodes == pytest.approx(N**2 * T ** (3 if refined else 4) * math.log(1 / rho) / rho**2)
    assert isinstance(plan.episodes, int)
    assert (plan.known, plan.window) == (H, H)
    assert plan.rho_k == pytest.approx(rho / (T * N))
    Q = S * S * A + (0 if known_rewards else N)
    assert plan.rho_sq == pytest.approx(rho / Q)
    assert plan.delta_sq == pytest.approx(delta / Q)
    assert plan.tolerance == pytest.approx(eps * (1 - gamma) ** 2 / S)
    gap = (rho - 2 * delta) / Q
    assert plan.width == pytest.approx(2 * plan.tolerance / (2 + gap))
    assert plan.visits_needed == pytest.approx(math.log(2 * Q / delta) / 2 * ((2 + gap) / (gap * plan.tolerance)) ** 2)
    assert plan.samples == plan.rounds * plan.episodes * H
    assert plan.support == S
    check_rmax(plan)


def test_refined_is_smaller_and_both_may_pass_64_bits() -> None:
    plain, refined = (rmax(8, 4, 0.9, 0.1, 0.001, 0.2, 30, refined=r) for r in (False, True))
    assert refined.rounds < plain.rounds
    assert refined.episodes < MAX_CALLS < plain.episodes  # reported all the same
    assert plain.samples > 10**30


def test_too_few_rounds_prove_no_accuracy() -> None:
    """T = HN/eps, with constant 1, is less than the N + 4N(k + w)/eps of the progress argument."""
    refined = rmax(8, 4, 0.9, 0.1, 0.001, 0.2, 60, refined=True)
    assert refined.rounds == 19200
    assert refined.rounds_needed == 32 + 8 * 19200
    assert refined.loss <= refined.epsilon
    assert not refined.accuracy_proved
    assert rmax(8, 4, 0.9, 0.1, 0.001, 0.2, 60).accuracy_proved


BAD_RMAX: dict[str, tuple[dict[str, Any], str]] = {
    "no state": ({"n_states": 0}, "n_states must be an integer from 1"),
    "no action": ({"n_actions": 0}, "n_actions must be an integer from 1"),
    "gamma 1": ({"gamma": 1.0}, "gamma must be a discount in [0, 1), got 1.0."),
    "gamma -1": ({"gamma": -1}, "gamma must be a discount in [0, 1), got -1."),
    "epsilon 1": ({"epsilon": 1}, "epsilon must lie strictly between 0 and 1, got 1."),
    "delta too large": ({"delta": 0.1}, "delta must satisfy 2*delta < rho (thm:rep-sq), got delta=0.1, rho=0.2. Lower"),
    "no horizon": ({"horizon": 0}, "horizon must be an integer from 1 to 2147483647, got 0."),
    "half a step": ({"horizon": 2.5}, "horizon must be an integer from 1 to 2147483647, got 2.5."),
}
BAD_PRACTICAL: dict[str, tuple[dict[str, Any], str]] = {
    **BAD_RMAX,
    "delta 0 without rho": ({"rho": None, "delta": 0.0}, "delta must lie strictly between 0 and 1, got 0.0."),
    "both": ({"episodes": 5, "budget": 500}, "give episodes (m) or budget (transitions in all), not both."),
    "no episode": ({"episodes": 0}, "episodes must be an integer from 1"),
    "budget of no episode": ({"budget": 19}, "budget must be an integer from 20 to"),
    "no round": ({"rounds": 0}, "rounds must be an integer from 1"),
    "known 0": ({"known": 0.0}, "known must be a positive number of visits (1e-30 to 1e30), got 0.0."),
    "known -1": ({"known": -1}, "known must be a positive number of visits (1e-30 to 1e30), got -1."),
    "known nan": ({"known": math.nan}, "known must be a positive number of visits (1e-30 to 1e30), got nan."),
    "known in words": ({"known": "H"}, "known must be a positive number of visits (1e-30 to 1e30), got 'H'."),
    "window 0": ({"window": 0}, "window must be a positive number of visits (1e-30 to 1e30), got 0."),
    "window without end": (
        {"window": math.inf},
        "window must be a positive number of visits (1e-30 to 1e30), got inf.",
    ),
    "known beyond floats": ({"known": 1e300}, "known must be a positive number of visits (1e-30 to 1e30), got 1e+300."),
    "tolerance 0": ({"tolerance": 0.0}, "tolerance must lie strictly between 0 and 1, got 0.0."),
    "tolerance in words": ({"tolerance": "fine"}, "tolerance must lie strictly between 0 and 1, got 'fine'."),
    "support 0": ({"support": 0}, "support must be an integer from 1 to 3, got 0."),
    "support beyond S": ({"support": 4}, "support must be an integer from 1 to 3, got 4."),
    "form": ({"form": "middle"}, "form must be one of midpoint, zero-preserving, got 'middle'."),
}
CASES = [(rmax, name, *case) for name, case in BAD_RMAX.items()] + [
    (rmax_practical, name, *case) for name, case in BAD_PRACTICAL.items()
]


@pytest.mark.parametrize(("plan", "name", "change", "message"), CASES)
def test_bad_parameters_of_rmax(plan: Callable[..., RMaxPlan], name: str, change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"n_states": 3, "n_actions": 2, "gamma": 0.9, "epsilon": 0.1, "delta": 0.01, "rho": 0.2}
    with pytest.raises(rr.InvalidInput) as caught:
        plan(**{**good, "horizon": 20, **change})
    assert message in str(caught.value)
    assert str(caught.value).startswith("theory.")


# --- R-max, practical: every bound recomputed --------------------------------------------------------------


def idle_rounds(plan: RMaxPlan) -> int:
    """Rounds that add eps/4 each and together less than N(k + w)."""
    most = 4 * plan.pairs * (plan.known + plan.window) / plan.epsilon / (1 + 1e-13)  # but for rounding
    return max(0, math.ceil(most) - 1)


def check_rmax(plan: RMaxPlan) -> None:
    """The four bounds of the docstring of theory/rmax.py, and the two verdicts, from the numbers a run uses."""
    N, H, T, m, eps = plan.n_states * plan.n_actions, plan.horizon, plan.rounds, plan.episodes, plan.epsilon
    k, w, K = plan.known, plan.window, plan.support
    exact_visits = Fraction(k) * m
    assert abs(plan.visits - exact_visits) <= 1 + abs(exact_visits) * Fraction(1, 10**14)
    n0 = max(1, plan.visits)  # a known pair was seen
    # delta/2 for the queries of one run, delta/2 for its counts
    Q = N * (K if plan.known_rewards else K + 1)
    radius = math.sqrt(math.log(4 * Q / plan.delta) / (2 * n0))
    L = math.log(4 * (N + 1) * T / plan.delta)
    assert Q * 2 * math.exp(-2 * n0 * radius**2) + (N + 1) * T * 2 * math.exp(-L) == pytest.approx(plan.delta)
    # accuracy
    entry = radius if plan.rho is None else radius + PIECES[plan.form] * plan.width / 2
    entries = plan.n_states if plan.form == "midpoint" and plan.rho is not None else K
    simulation = plan.gamma / (1 - plan.gamma) * entries * entry + (0.0 if plan.known_rewards else entry)
    rate = stopped_rate(eps / 2, H, L, m)
    loss = 2 * simulation + rate + plan.gamma**H + 2e-10 / (1 - plan.gamma)
    assert plan.entry_error == pytest.approx(entry)
    assert plan.loss == pytest.approx(loss, rel=1e-6)
    # progress: a round that learns nothing leaves eps/4 in counts that stay below k + w
    idle = idle_rounds(plan)
    enough = N + idle
    accurate = loss <= eps and enough <= T
    assert plan.accuracy_proved == accurate or loss == pytest.approx(eps) or pytest.approx(enough, abs=1.5) == T
    # replicability
    if plan.rho is None:
        assert (plan.rho_queries, plan.rho_known, plan.rho_stop, plan.rho_k, plan.rho_proved) == (None,) * 5
        assert not plan.replicability_proved
        return
    decisions = min(N * T, sum(N - i for i in range(N)) + N * idle)
    t = math.sqrt(4 * H * (k + w) * L / m) + 2 * H * L / (3 * m)
    t_stop = math.sqrt(2 * H * eps * L / m) + 2 * H * L / (3 * m)
    parts = Q * 2 * radius / plan.width, decisions * 2 * t / w, T * 2 * t_stop / (eps / 4)
    assert (plan.rho_queries, plan.rho_known, plan.rho_stop) == pytest.approx(parts, rel=1e-6)
    total = sum(parts) + 2 * plan.delta
    assert plan.rho_proved == pytest.approx(min(1.0, total), rel=1e-6)
    assert plan.replicability_proved == (total <= plan.rho) or total == pytest.approx(plan.rho)
    assert plan.rho_k == pytest.approx(plan.rho / (N * T))


def stopped_rate(seen: float, H: int, L: float, m: int) -> float:
    """The largest u with u - sqrt(2 H u L/m) <= seen, by bisection."""
    low, high = seen, seen + 10.0 * (H * L / m + 1.0)
    for _ in range(200):
        u = (low + high) / 2
        low, high = (u, high) if u - math.sqrt(2 * H * u * L / m) <= seen else (low, u)
    return low


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of rmax_practical, with some overrides."""
    rho, delta = draw(probabilities)
    S = draw(st.integers(1, 60))

    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    size = draw(st.sampled_from(["episodes", "budget", "neither"]))
    horizon = draw(st.integers(1, 3000))
    return {
        "n_states": S,
        "n_actions": draw(st.integers(1, 5)),
        "gamma": draw(st.sampled_from([0.0, 0.5, 0.9, 0.99])),
        "epsilon": draw(st.floats(1e-3, 0.95)),
        "delta": delta,
        "rho": draw(st.sampled_from([rho, rho, None])),
        "horizon": horizon,
        "known_rewards": draw(st.booleans()),
        "support": maybe(st.integers(1, S)),
        "form": draw(forms),
        "rounds": maybe(st.integers(1, 10**6)),
        "known": maybe(st.floats(1e-8, 1e4)),
        "window": maybe(st.floats(1e-8, 1e4)),
        "tolerance": maybe(st.floats(1e-5, 0.9)),
        "episodes": draw(st.integers(1, 10**20)) if size == "episodes" else None,
        "budget": draw(st.integers(horizon, 10**24)) if size == "budget" else None,
    }


@settings(max_examples=300, deadline=None)
@given(arguments())
def test_every_bound_is_what_its_argument_gives(parameters: dict[str, Any]) -> None:
    plan = rmax_practical(**parameters)
    assert plan.kind == "practical"
    for name in ("known", "window", "tolerance", "rounds", "episodes"):
        if parameters[name] is not None:
            assert getattr(plan, name) == parameters[name]
    check_rmax(plan)


@settings(max_examples=200, deadline=None)
@given(arguments())
def test_what_is_chosen_when_nothing_is_given(parameters: dict[str, Any]) -> None:
    plan = rmax_practical(**{**parameters, "known": None, "window": None, "tolerance": None, "rounds": None})
    N, S, K = plan.pairs, plan.n_states, plan.support
    quickest = plan.epsilon / (8 * N)
    assert (parameters["support"] or S) == K
    assert plan.window == plan.known
    assert quickest <= plan.known <= max(quickest, plan.horizon)
    assert plan.tolerance <= 0.01
    # k*m covers the queries, with a k of at most 10 eps, unless that would need answers coarser than 0.01
    covered = plan.visits >= plan.visits_needed * (1 - 1e-9) - 1
    assert covered or plan.tolerance == 0.01
    out_of_reach = plan.visits_needed > min(10 * plan.epsilon, plan.horizon) * plan.episodes
    assert covered or out_of_reach
    # k grows beyond the quickest only for that, or for k*m visits to be accurate
    if plan.known > quickest and not out_of_reach:
        assert plan.visits == pytest.approx(plan.visits_needed, rel=1e-6, abs=2)
    elif quickest < plan.known < plan.horizon * 0.999:
        assert math.sqrt(math.log(2 / plan.delta_sq) / (2 * max(1, plan.visits))) == pytest.approx(0.01, rel=0.05)
    # N + 1 rounds iff every round learns a pair; a budget may cut them
    assert plan.rounds_needed == pytest.approx(N + 1 + idle_rounds(plan))
    if parameters["budget"] is None:
        assert plan.rounds == plan.rounds_needed
    assert plan.episodes <= MAX_CALLS or parameters["episodes"] is not None


@settings(max_examples=200, deadline=None)
@given(arguments(), st.integers(0, 10**24))
def test_a_budget_is_kept(parameters: dict[str, Any], more: int) -> None:
    N, H = parameters["n_states"] * parameters["n_actions"], parameters["horizon"]
    budget = H + more
    parameters = {**parameters, "budget": budget, "episodes": None}
    plan = rmax_practical(**{**parameters, "rounds": None})
    assert plan.samples <= budget
    assert plan.episodes == max(1, min(MAX_CALLS, budget // (H * (N + 1))))
    if plan.rounds < plan.rounds_needed:
        assert not plan.accuracy_proved
        assert plan.samples + plan.episodes * H > budget  # and all of it is used
    given = rmax_practical(**{**parameters, "rounds": 3})
    assert given.rounds == 3
    assert given.samples <= budget or given.episodes == 1


@settings(max_examples=200, deadline=None)
@given(arguments())
def test_default_plans_prove_all_that_64_bits_allow(parameters: dict[str, Any]) -> None:
    """Nothing overridden, and the horizon long enough: both promises hold, and k*m covers the queries."""
    gamma, epsilon = parameters["gamma"], parameters["epsilon"]
    horizon = 2 if gamma == 0.0 else math.ceil(math.log(epsilon * (1 - gamma) / 8) / math.log(gamma))
    names = ("n_states", "n_actions", "gamma", "epsilon", "delta", "rho", "known_rewards", "support", "form")
    plan = rmax_practical(horizon=horizon, **{name: parameters[name] for name in names})
    check_rmax(plan)
    if plan.episodes < MAX_CALLS:
        assert plan.accuracy_proved
        assert plan.replicability_proved == (plan.rho is not None)
        assert plan.visits >= plan.visits_needed
        assert plan.rounds == plan.pairs + 1


@settings(max_examples=200, deadline=None)
@given(arguments(), st.integers(1, 10**18), st.integers(2, 1000))
def test_more_episodes_prove_more(parameters: dict[str, Any], m: int, factor: int) -> None:
    """Bounds fall with m where everything else is fixed."""
    fixed = {"known": 0.3, "window": 0.2, "tolerance": 0.05, "rounds": 100, "budget": None}
    less, more = (rmax_practical(**{**parameters, **fixed, "episodes": n}) for n in (m, factor * m))
    for name in ("entry_error", "loss", "rho_queries", "rho_known", "rho_stop", "rho_proved"):
        low, high = getattr(more, name), getattr(less, name)
        assert (low is None and high is None) or low <= high
    assert more.accuracy_proved >= less.accuracy_proved
    assert more.replicability_proved >= less.replicability_proved


@pytest.mark.parametrize("known", [1e-30, 1e30])
@pytest.mark.parametrize("window", [1e-30, 1e30])
def test_absurd_thresholds_are_planned_and_promise_nothing(known: float, window: float) -> None:
    plan = rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, 30, known=known, window=window)
    assert plan.episodes == MAX_CALLS
    assert plan.rho_proved == 1.0
    assert not plan.accuracy_proved


def test_support_makes_fewer_queries() -> None:
    few, many = (rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, 60, support=K) for K in (3, None))
    assert (few.queries, many.queries) == (96, 256)
    assert few.episodes < many.episodes
    learned = rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, 60, support=3, known_rewards=False)
    assert learned.queries == 128


def test_the_rounds_of_the_progress_argument_are_tight_enough() -> None:
    """Adversarial counts: no run of rates >= eps/4 lasts as long as rounds_needed without knowing every pair."""
    for N, k, w, H, eps in itertools.product((1, 2, 5), (0.01, 0.4), (0.01, 0.3), (1, 3), (0.2, 0.9)):
        plan = rmax_practical(N, 1, 0.5, eps, 0.001, 0.2, H, known=k, window=w, episodes=100)
        counts, rounds = [0.0] * N, 0
        while min(counts) < k + w:  # thresholds as high as they can be; visits as useless as they can be
            unknown = [i for i in range(N) if counts[i] < k + w]
            worst = max(unknown, key=lambda i: counts[i])  # hardly below the threshold, then wasted on
            counts[worst] += eps / 4
            rounds += 1
        assert rounds <= plan.rounds_needed
        even, rounds = 0.0, 0
        while even < k + w:  # or spread over all pairs, so that none is learned for long
            even += eps / 4 / N
            rounds += 1
        assert rounds <= plan.rounds_needed


# --- the mathematics behind the bounds ----------------------------------------------------------------------


def test_hoeffding_holds_for_every_later_mean_at_once() -> None:
    """The reverse martingale: whoever chooses n >= n0 after looking, the radius at n0 is broken with <= delta."""
    delta, n0, n_max, paths = 0.2, 40, 4000, 4000
    rng = np.random.default_rng(SEED)
    for p in (0.5, 0.1):
        sums = np.cumsum(rng.random((paths, n_max)) < p, axis=1, dtype=np.int32)
        n = np.arange(n0, n_max + 1)
        off = np.abs(sums[:, n0 - 1 :] / n - p)
        radius = math.sqrt(math.log(2 / delta) / (2 * n0))
        broken = int((off.max(axis=1) > radius).sum())
        assert stats.binomtest(broken, paths, delta, alternative="greater").pvalue > ALPHA
        if p == 0.5:  # the radius at n, for an n chosen after looking, would be broken far more often
            own = np.sqrt(math.log(2 / delta) / (2 * n))
            often = int((off > own).any(axis=1).sum())
            assert stats.binomtest(often, paths, delta, alternative="greater").pvalue < ALPHA


TINY: dict[str, Any] = {"n_states": 2, "n_actions": 2, "gamma": 0.0, "delta": 0.01, "rho": 0.3, "horizon": 5}


@pytest.mark.parametrize("m", [10, 1000, 10**5, 10**7])
@pytest.mark.parametrize("epsilon", [1e-4, 0.02, 0.5])
def test_a_rate_above_the_bound_is_not_seen_below_the_threshold(m: int, epsilon: float) -> None:
    """With gamma = 0 the loss is the rate alone. The worst law puts all H visits into one episode: a binomial."""
    plan = rmax_practical(**TINY, epsilon=epsilon, episodes=m, known=0.1, rounds=50)
    H, L = plan.horizon, math.log(4 * 5 * 50 / plan.delta)
    rate = plan.loss - 2e-10
    for u in (rate, 1.2 * rate, 3 * rate):
        if u < H:
            seen_below = stats.binom.cdf(math.floor(m * epsilon / 2 / H), m, u / H)
            assert seen_below <= math.exp(-L)


@pytest.mark.parametrize("m", [10**4, 10**6, 10**9])
@pytest.mark.parametrize("known", [0.05, 1.0])
def test_counts_are_within_freedmans_bound(m: int, known: float) -> None:
    """Counts at risk deviate by more than t with probability at most 2 exp(-L); those beyond are not at risk."""
    plan = rmax_practical(**TINY, epsilon=0.2, episodes=m, known=known, window=known / 2, rounds=50)
    H, L = plan.horizon, math.log(4 * 5 * 50 / plan.delta)
    assert plan.rho_known is not None
    assert plan.rho_stop is not None
    edge = plan.known + plan.window
    for bound, largest, at_risk in (
        (plan.rho_known * plan.window / (2 * plan.decisions), 2 * edge, edge),
        (plan.rho_stop * plan.epsilon / 4 / (2 * plan.rounds), plan.epsilon, plan.epsilon / 2),
    ):
        for mean in (largest / 50, largest / 4, largest / 2, largest):
            law = stats.binom(m, mean / H)
            tails = law.cdf(math.ceil(m * (mean - bound) / H) - 1) + law.sf(math.floor(m * (mean + bound) / H))
            assert tails <= 2 * math.exp(-L)
            assert bound > math.sqrt(law.var()) * H / m  # and not absurdly small
        if 2 * bound < at_risk / 2:
            assert stats.binom.cdf(math.floor(m * at_risk / H), m, largest * 1.001 / H) <= 2 * math.exp(-L)


Floats = NDArray[np.float64]


def value(P: Floats, r: Floats, gamma: float, policy: NDArray[np.int64]) -> Floats:
    at = np.arange(P.shape[0])
    return np.asarray(np.linalg.solve(np.eye(at.size) - gamma * P[at, policy], r[at, policy]), dtype=np.float64)


def best_policy(P: Floats, r: Floats, gamma: float) -> NDArray[np.int64]:
    """By policy iteration."""
    policy = np.zeros(P.shape[0], dtype=np.int64)
    for _ in range(100):
        q = r + gamma * P @ value(P, r, gamma, policy)
        better = np.where(q.max(axis=1) > q[np.arange(policy.size), policy] + 1e-12, q.argmax(axis=1), policy)
        if (better == policy).all():
            break
        policy = better
    return policy


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.sampled_from([0.0, 0.5, 0.9, 0.97]),
    st.floats(1e-4, 0.6),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from(["extreme", "uniform", "gone"]),
)
def test_the_loss_of_any_model_that_is_close_is_bounded(
    seed: int, S: int, gamma: float, entry: float, H: int, learned_rewards: bool, how: str
) -> None:
    """Rows wrong by up to ``entry`` in every entry of the support, divided by their sums; unknown pairs optimistic.

    The bound is 2(gamma K entry/(1-gamma) + [entry]) + u + gamma^H, with u the expected visits to unknown pairs.
    """
    rng = np.random.default_rng(seed)
    A, K = 2, int(rng.integers(1, S + 1))
    P, P_hat = np.zeros((S, A, S)), np.zeros((S, A, S))
    r = rng.random((S, A)).round() if rng.random() < 0.5 else rng.random((S, A))
    known = rng.random((S, A)) < 0.7
    r_hat = np.clip(r + (entry * rng.choice([-1, 1], (S, A)) if learned_rewards else 0.0), 0, 1)
    for s, a in itertools.product(range(S), range(A)):
        support = rng.choice(S, K, replace=False)
        P[s, a, support] = rng.dirichlet(np.full(K, 0.5))
        error = {
            "extreme": entry * rng.choice([-1, 1], K),
            "uniform": entry * rng.uniform(-1, 1, K),
            "gone": np.full(K, -entry),
        }[how]
        answer = np.clip(P[s, a, support] + error, 0, 1)
        if answer.sum() > 0:
            P_hat[s, a, support] = answer / answer.sum()
        else:
            P_hat[s, a, s] = 1.0
    P_hat[~known], r_hat[~known] = np.eye(S)[np.nonzero(~known)[0]], 1.0
    initial = rng.dirichlet(np.ones(S))
    policy = best_policy(P_hat, (1 - gamma) * r_hat, gamma)  # normalised: values in [0, 1]
    best = best_policy(P, (1 - gamma) * r, gamma)
    loss = initial @ (value(P, (1 - gamma) * r, gamma, best) - value(P, (1 - gamma) * r, gamma, policy))
    here, u = initial, 0.0
    for _ in range(H):
        u += float(here[~known[np.arange(S), policy]].sum())
        here = here @ P[np.arange(S), policy]
    bound = 2 * (gamma / (1 - gamma) * K * entry + (entry if learned_rewards else 0.0)) + u + gamma**H
    assert loss <= bound + 1e-9


def test_midpoint_rows_are_wrong_in_every_entry() -> None:
    """The midpoint form spreads weight over successors that do not exist: the support does not bound its l1 error."""
    S, K = 200, 1
    plans: dict[str, RMaxPlan] = {
        form: rmax_practical(S, 1, 0.9, 0.5, 0.001, 0.2, 50, support=K, form=form, episodes=10**15, tolerance=0.005)  # type: ignore[arg-type]
        for form in PIECES
    }
    l1 = {}
    for form, plan in plans.items():
        query = RStat(rr.SharedRandomness(SEED), "rmax/offset", plan.width, plan.form)
        answer = query.answer(np.eye(S)[0], index=np.arange(S))
        l1[form] = float(np.abs(answer / answer.sum() - np.eye(S)[0]).sum())
        entries = S if form == "midpoint" else K
        assert l1[form] <= 2 * entries * plan.entry_error
        rows = plan.gamma / (1 - plan.gamma) * entries * plan.entry_error
        assert plan.loss >= 2 * rows + plan.epsilon / 2
    assert l1["midpoint"] > 2 * K * plans["midpoint"].entry_error  # so the bound with K would be wrong
    assert l1["zero-preserving"] == 0.0


# --- planted bugs -------------------------------------------------------------------------------------------

EXAMPLE: dict[str, Any] = {
    "n_states": 8, "n_actions": 2, "gamma": 0.9, "epsilon": 0.1, "delta": 0.01, "rho": 0.2, "horizon": 60, "support": 3,
}  # fmt: skip


def check_examples() -> None:
    for change in ({}, {"form": "midpoint"}, {"known_rewards": False}, {"known": 0.5}, {"episodes": 10**5}):
        check_rmax(rmax_practical(**{**EXAMPLE, **change}))
    check_rmax(rmax(8, 4, 0.9, 0.1, 0.001, 0.2, 60, refined=True))


MUTANTS = {
    "one run's error only": ("self.queries * 2.0 * radius", "self.queries * radius"),
    "window of k and w": ("t_known / self.window", "t_known / (self.known + self.window)"),
    "one stopping decision": ('bounds["rho_stop"] = T * 2.0', 'bounds["rho_stop"] = 2.0'),
    "variance up to k only": ("2.0 * H * (self.known + self.window)", "H * self.known"),
    "all of delta twice": ("self.delta / 2.0 / self.queries", "self.delta / self.queries"),
    "delta of the query": ("self.delta / 2.0 / self.queries", "self.delta_sq"),
    "support of dense rows": ("wrong_entries(self.form, self.n_states, self.support)", "self.support"),
    "rewards for nothing": ("(0.0 if self.known_rewards else entry)", "0.0"),
    "one simulation error": ("2.0 * (row", "(row"),
    "half the rate": ("_largest_mean(self.epsilon / 2.0, H, L, m)", "self.epsilon / 2.0"),
    "endless episodes": ("+ self.gamma**H", ""),
}


def test_examples_hold_before_any_bug() -> None:
    check_examples()


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, RMaxPlan, "__post_init__", *MUTANTS[name])
    with pytest.raises(AssertionError):
        check_examples()


def test_accuracy_without_rounds_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RMaxPlan, "rounds_needed", 1)
    with pytest.raises(AssertionError):
        check_examples()
