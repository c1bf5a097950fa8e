"""Plans of ApproximateMDP: the formulas written out, and every promise recomputed from its argument."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.theory import ApproximateMDPNumbers, approximate_mdp, paper_approximate_mdp
from replicable_rl.theory.rstat import Form

probabilities = st.tuples(st.floats(1e-3, 0.99), st.floats(1e-4, 0.49)).map(lambda x: (x[0], x[0] * x[1]))  # rho, delta
forms: st.SearchStrategy[Form] = st.sampled_from(["midpoint", "zero-preserving"])
PIECES = {"midpoint": 1, "zero-preserving": 2}
MORE = 1 + 1e-8  # for rounding


# --- ApproximateMDP (section 4) ----------------------------------------------------------------------------


def test_sample_size_grows_as_the_paper_says() -> None:
    """O(S^4 A^2/(eps^2 (rho - 2 delta)^2) log(SA/delta)) per pair: constants cancel in ratios."""

    def calls(S: int = 50, A: int = 4, eps: float = 0.01, rho: float = 0.2) -> float:
        return float(paper_approximate_mdp(S, A, eps, 1e-4, rho)["calls"]) / math.log(2 * S * S * A / 1e-4)

    assert calls(S=100) / calls() == pytest.approx(2**4, rel=1e-3)
    assert calls(A=8) / calls() == pytest.approx(2**2, rel=1e-3)
    assert calls(eps=0.005) / calls() == pytest.approx(2**2, rel=1e-3)
    assert calls(rho=0.4) / calls() == pytest.approx((0.1998 / 0.3998) ** 2, rel=1e-3)


def disagreement(plan: ApproximateMDPNumbers) -> float:
    """By the mean distance of two runs over a row."""
    S, n = plan.n_states, plan.calls
    row = 2 * math.sqrt((S - 1) / (math.pi * n)) + S * math.sqrt(2 / math.pi) / n if S > 1 else 0.0
    reward = 0.0 if plan.known_rewards else 1 / math.sqrt(math.pi * n)
    return plan.pairs * (row + reward) / plan.width


def check_approximate_mdp(plan: ApproximateMDPNumbers) -> None:
    """Hoeffding for every query and a union bound, from the numbers a run uses."""
    S = plan.n_states
    Q = plan.pairs * (S + (not plan.known_rewards))
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
    differ = disagreement(plan)
    assert plan.rho_proved == pytest.approx(min(1.0, differ))
    if plan.replicability_proved:
        assert differ <= plan.rho * MORE
    else:
        assert differ > plan.rho


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
    plain = approximate_mdp(S, A, eps, delta, norm=norm, form=form, known_rewards=known).calls
    assert plan.calls >= plain
    assert (plan.calls == plain) == (not replicable) or plan.calls < 10


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


def test_the_baseline_of_approximate_mdp() -> None:
    plan = approximate_mdp(6, 2, 0.05, 0.001)
    assert (plan.rho, plan.rho_sq, plan.rho_proved, plan.width) == (None, None, None, 0.0)
    assert plan.calls == plan.calls_needed == math.ceil(math.log(2 * 72 / 0.001) / 0.005)
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
    "rho 1": ({"rho": 1.0}, "rho must lie strictly between 0 and 1, got 1.0."),
    "norm": ({"norm": "l2"}, "norm must be 'entry' or 'l1', got 'l2'."),
    "form": ({"form": "middle"}, "form must be 'midpoint' or 'zero-preserving', got 'middle'."),
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
