"""Parameters are refused when an algorithm is made, by rules that know no problem; sizes are those of the problem."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.algorithms.plan import Promise
from replicable_rl.errors import InvalidInput

PROMISE: dict[str, Any] = {"epsilon": 0.1, "delta": 0.01}
BOTH = {**PROMISE, "rho": 0.2}
MADE: dict[type[Any], dict[str, Any]] = {
    rr.PhasedVI: PROMISE,
    rr.ReplicablePhasedVI: BOTH,
    rr.ApproximateMDP: PROMISE,
    rr.ReplicableApproximateMDP: BOTH,
    rr.RMax: {**PROMISE, "horizon": 20},
    rr.ReplicableRMax: {**BOTH, "horizon": 20},
    rr.PlugInPolicy: BOTH,
}
SHARES: tuple[Any, ...] = (0, 1, -0.1, 1e-31, math.nan, math.inf, "x", True)
WHOLE: tuple[Any, ...] = (0, -1, 1.5, math.nan, math.inf, "x", 2**201, True)
WORDS: tuple[Any, ...] = ("X", 1, ("policy",))
BAD = {
    **dict.fromkeys(("epsilon", "delta", "rho", "tolerance", "rho_sq"), SHARES),
    **dict.fromkeys(("calls", "iterations", "episodes", "budget", "rounds", "support", "horizon", "samples"), WHOLE),
    **dict.fromkeys(("known", "window"), (0, -1, 1e31, math.nan, math.inf, "x")),
    **dict.fromkeys(("target", "norm", "form", "over", "rule", "threshold", "estimate"), WORDS),
}


@pytest.fixture
def nobody_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a plan was made")

    for kind in {base for made in MADE for base in made.__mro__ if issubclass(base, Promise)}:
        for name in ("_numbers", "plan"):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, refuse)


@pytest.mark.usefixtures("nobody_plans")
@pytest.mark.parametrize("made", MADE)
def test_bad_parameters_are_refused_before_anything_is_planned(made: type[Any]) -> None:
    given = MADE[made]
    made(**given)
    fields = {field.name for field in dataclasses.fields(made)}
    assert fields <= set(BAD)
    for name in fields:
        for value in BAD[name]:
            with pytest.raises(InvalidInput, match=rf"^{made.__name__}: .*{name}") as refused:
                made(**{**given, name: value})
            assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("nobody_plans")
def test_parameters_that_do_not_go_together() -> None:
    late: dict[str, Any] = {**BOTH, "delta": 0.1}
    cases: tuple[tuple[type[Any], dict[str, Any]], ...] = (
        *((rr.ReplicablePhasedVI, {name: 0.5}) for name in ("tolerance", "rho_sq")),
        *((rr.ReplicablePhasedVI, {name: 5}) for name in ("calls", "iterations")),
    )
    for made, more in cases:
        with pytest.raises(InvalidInput, match=rf"^{made.__name__}: .*2\*delta < rho.* got delta=0\.1, rho=0\.2"):
            made(**late, **more)
        made(**{**late, "delta": 0.0999}, **more)
    for made in (rr.ReplicablePhasedVI, rr.ReplicableApproximateMDP, rr.PlugInPolicy):
        made(**late)  # the sharp forms do without
    with pytest.raises(InvalidInput, match=r"samples is .* and budget"):
        rr.PlugInPolicy(**BOTH, samples=3, budget=3)
    for made, many in (
        (rr.ReplicableRMax, {"support": 2**30, "rounds": 2**61}),
        (rr.ReplicablePhasedVI, {"rho_sq": 1e-28}),
    ):
        made(**MADE[made], **many)  # some problem may be so large


def chain(S: int, A: int, allowed: int | None = None) -> rr.TabularMDP:
    """A ring of states; of the last one only so many actions are allowed."""
    P = np.zeros((S, A, S))
    P[np.arange(S), :, (np.arange(S) + 1) % S] = 1.0
    mask = np.ones((S, A), dtype=bool)
    mask[-1, allowed:] = allowed is None
    reward = np.broadcast_to(np.arange(S)[:, None], (S, A)).astype(float)
    return rr.TabularMDP.from_dense(P, reward, gamma=0.9, layout="sas", reward_range=(0.0, float(S)), allowed=mask)


@pytest.mark.parametrize(
    ("problem", "pairs"),
    [
        *((chain(S, A), S * A) for S, A in ((1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (2, 3), (5, 4))),
        (chain(2, 2, allowed=1), 3),
        (chain(2, 3, allowed=2), 5),
    ],
)
@pytest.mark.parametrize("rule", ["affordable", "rounded", "greedy"])
def test_a_budget_is_for_the_pairs_of_the_problem(problem: rr.TabularMDP, pairs: int, rule: str) -> None:
    for budget in range(1, 2 * pairs + 2):
        algorithm = rr.PlugInPolicy(**BOTH, budget=budget, rule=rule)
        if budget < pairs:
            for ask in (rr.plan, lambda *given: rr.solve(*given, shared_seed=1, sample_seed=1)):
                with pytest.raises(InvalidInput, match=rf"^PlugInPolicy: budget .* {pairs} pairs, got {budget}\."):
                    ask(problem, algorithm)
        else:
            taken = rr.solve(problem, algorithm, shared_seed=1, sample_seed=1).samples
            assert rr.plan(problem, algorithm).samples in (budget, taken)
            assert taken == budget // pairs * pairs
