"""The formulas: the paper's listing and its constants, and the promises that plans make."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.algorithms.plan import Plan
from replicable_rl.errors import SampleSizeTooLarge, speaking_as
from replicable_rl.experiments.cost.prediction import rstat_mismatch
from replicable_rl.runs import OURS, Claims
from replicable_rl.theory import (
    paper_approximate_mdp,
    paper_phased_vi,
    phased_vi,
    rmax,
    rstat,
)
from replicable_rl.theory.rstat import Form

probabilities = st.tuples(st.floats(1e-6, 0.99), st.floats(1e-6, 0.49)).map(lambda x: (x[0], x[0] * x[1]))  # rho, delta
forms: st.SearchStrategy[Form] = st.sampled_from(["midpoint", "zero-preserving"])


@given(probabilities, st.floats(1e-3, 0.9), forms)
def test_the_bounds_of_a_query_are_its_promises_and_no_more(
    rho_delta: tuple[float, float], tau: float, form: Form
) -> None:
    rho, delta = rho_delta
    query = rstat(rho, delta, tolerance=tau, form=form)
    assert query.error_proved <= tau * (1 + 1e-12)
    assert query.rho_proved <= rho * (1 + 1e-12)
    few = replace(query, samples=max(1, query.samples // 8))
    error = math.sqrt(math.log(2 / delta) / (2 * few.samples)) + query.width * (0.5 if form == "midpoint" else 1)
    assert few.error_proved == pytest.approx(error)
    assert few.rho_proved == pytest.approx(min(1.0, 1 / (query.width * math.sqrt(math.pi * few.samples))))


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 5.0])
def test_clt_prediction_is_the_gaussian_expectation(ratio: float) -> None:
    """E min(1, |D|/beta) for D ~ N(0, 2 sigma^2/n), by Monte Carlo of another kind: a fine quadrature."""
    sigma, n = 0.4, 1000
    s = sigma * math.sqrt(2 / n)
    width = s / ratio
    x = np.linspace(-12, 12, 2_000_001)
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    exact = np.trapezoid(np.minimum(1.0, np.abs(x) * s / width) * density, x)
    assert float(rstat_mismatch(np.array(sigma), n, width)) == pytest.approx(exact, rel=1e-6)
    if ratio <= 0.3:
        assert float(rstat_mismatch(np.array(sigma), n, width)) == pytest.approx(
            2 * sigma / (width * math.sqrt(math.pi * n)), rel=1e-2
        )


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
    calls = paper_approximate_mdp(8, 4, eps, delta, rho)["calls"]  # 256 queries
    gap = (rho - 2 * delta) / 256
    assert calls == pytest.approx((2 + gap) ** 2 / (2 * eps**2 * gap**2) * math.log(512 / delta))


def test_overrides_lose_the_proof_only_where_they_should() -> None:
    calls = paper_phased_vi(32, 0.9, 0.1, 0.001, 0.2)["calls"]
    more = phased_vi(32, 0.9, 0.1, 0.001, 0.2, calls=calls + 1)
    assert more.replicability_proved
    assert more.accuracy_proved
    fewer = phased_vi(32, 0.9, 0.1, 0.001, 0.2, calls=calls // 100)
    assert fewer.replicability_proved  # by the mean distance
    fewer = phased_vi(32, 0.9, 0.1, 0.001, 0.2, calls=calls // 200)
    assert not fewer.replicability_proved
    assert fewer.rho_proved == pytest.approx(3200 / (fewer.width * math.sqrt(math.pi * fewer.calls)))
    coarse = phased_vi(32, 0.9, 0.1, 0.001, 0.2, tolerance=0.05)
    assert coarse.replicability_proved
    assert not coarse.accuracy_proved
    short = phased_vi(32, 0.9, 0.1, 0.001, 0.2, iterations=10)
    assert short.replicability_proved
    assert not short.accuracy_proved


def test_bounds_are_those_of_the_run_and_not_of_the_theorem() -> None:
    """A coarse tolerance and all the samples there are: Q errs by beta/2 a step, the policy loses 20 times that."""
    for known, damping in ((True, 0.9), (False, 1.0)):
        plan = phased_vi(32, 0.9, 0.1, 0.001, 0.2, tolerance=0.005, calls=2**63 - 1, known_rewards=known)
        assert plan.value_error == pytest.approx(damping * 0.005 / 0.1 + 0.9**100, rel=1e-3)
        assert plan.policy_loss == pytest.approx(20 * plan.value_error)
        assert not plan.accuracy_proved
        assert plan.replicability_proved
        assert plan.rho_proved == pytest.approx(3200 / (plan.width * math.sqrt(math.pi * plan.calls)))


BAD = [
    ({"gamma": 1.0}, "gamma must be a discount in"),
    ({"epsilon": 0.0}, "epsilon must lie strictly between 0 and 1, got 0"),
    ({"epsilon": 1.0}, "epsilon must lie strictly between"),
    ({"delta": 0.15, "calls": 5}, "2*delta < rho, got delta=0.15, rho=0.2. Leave them out, or lower delta below 0.1."),
    ({"rho": 1.0}, "rho must lie strictly between"),
    ({"target": "q"}, "target must be 'policy' or 'value'"),
    ({"calls": 0}, "calls must be an integer from 1"),
    ({"calls": 1.5}, "calls must be an integer"),
    ({"iterations": 0}, "iterations must be an integer from 1"),
    ({"tolerance": -1.0}, "tolerance must lie strictly between"),
    ({"rho_sq": 1e-12}, "rho_sq must exceed 2*delta/(N*T)"),
    ({"epsilon": float("nan")}, "epsilon must lie strictly between"),
    ({"epsilon": "0.1"}, "epsilon must lie strictly between"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_parameters(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"pairs": 32, "gamma": 0.9, "epsilon": 0.1, "delta": 0.001, "rho": 0.2, **change}
    with pytest.raises(rr.InvalidInput) as caught:
        phased_vi(**arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


@given(st.floats(0.0, 0.99), st.floats(-100, 100), st.just(0.0) | st.floats(1e-3, 100), st.floats(0.0, 1.0))
def test_units_round_trip(gamma: float, low: float, width: float, share: float) -> None:
    """A constant reward r for ever is worth r/(1-gamma), through the normalised scale and back."""
    units = rr.theory.Units(gamma, low, low + width)
    r = min(low + share * width, low + width)
    normalised = units.reward(np.array([r]))
    assert 0.0 <= normalised[0] <= (1 - gamma) * (1 + 1e-12)
    value = units.value_to_user(normalised / (1 - gamma))
    assert value[0] == pytest.approx(r / (1 - gamma), abs=1e-9 * (1 + abs(low) + width) / (1 - gamma))


# --- plans for people and for programs ------------------------------------------------------------------------


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
def test_claims_agree_with_the_bounds(name: str) -> None:
    """A claim is made exactly where its bound holds."""
    plan, claims = plans()[name].numbers, plans()[name].claims()
    assert {claim.kind for claim in claims} <= {"proved"}
    assert set(claims.missing) == {"accuracy", "replicability"} - {claim.about for claim in claims}
    assert (claims.replicability is not None) == plan.replicability_proved
    assert (claims.accuracy is not None) == plan.accuracy_proved
    if claims.replicability is not None:
        assert claims.replicability.bound == plan.rho
    assert Claims.from_json(claims.to_json(), OURS) == claims


@pytest.mark.parametrize("name", plans())
def test_json_of_a_plan(name: str) -> None:
    plan = plans()[name]
    data = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert data["samples"] == str(plan.samples)
    for key in ("epsilon", "delta", "rho", "known_rewards", "rho_proved", "error_proved"):
        assert data[key] == getattr(plan.numbers, key)
    counts = "calls calls_needed episodes episodes_needed rounds"
    for key in counts.split(" "):
        if getattr(plan.numbers, key, None) is not None:
            assert data[key] == str(getattr(plan.numbers, key))
    assert Claims.from_json(data["claims"], OURS) == plan.claims()


def test_algorithms_speak_in_their_own_name() -> None:
    """And `theory` in its own, without being told whose."""
    for make, owner in (
        (lambda: rr.PhasedVI(2.0, 0.1), "PhasedVI"),
        (lambda: rr.ReplicableApproximateMDP(0.1, 1.5, 0.2), "ReplicableApproximateMDP"),
        (lambda: rr.RMax(0.1, 0.1, 0), "RMax"),
        (lambda: phased_vi(32, 0.9, 2.0, 0.1), "theory.phased_vi"),
        (lambda: rmax(8, 4, 0.9, 0.1, 1.5, 0.2, 5), "theory.rmax"),
    ):
        with pytest.raises(rr.InvalidInput) as caught:
            make()
        assert str(caught.value).startswith(f"{owner}: ")


def test_a_speaker_keeps_the_kind_of_the_error() -> None:
    with pytest.raises(SampleSizeTooLarge, match=r"^R-max: too many: really\.$"), speaking_as("R-max"):
        raise SampleSizeTooLarge("theory: too many: really.")
    with pytest.raises(rr.InvalidInput, match=r"^R-max: no owner here\.$"), speaking_as("R-max"):
        raise rr.InvalidInput("no owner here.")
    with pytest.raises(KeyError), speaking_as("R-max"):
        raise KeyError("theory: not ours")
