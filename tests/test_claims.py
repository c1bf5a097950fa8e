"""Claims say their conditions: source, shared seed, first state, parameters; and what asks for nothing."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import planning
from replicable_rl.algorithms.plan import Promise
from replicable_rl.errors import InvalidInput
from replicable_rl.paper import cited
from replicable_rl.problem.source import Episodic, as_source
from replicable_rl.runs import FIXED_SEED
from replicable_rl.sampling import DRAWS, STARTS
from replicable_rl.theory import phased_vi
from tests.statistics import Like

GRID = rr.make("two-goals-v1")
PROMISE: dict[str, Any] = {"epsilon": 0.1, "delta": 0.01}
BOTH = {**PROMISE, "rho": 0.2}
RPVI = functools.partial(rr.ReplicablePhasedVI, 0.1, 0.001, 0.2)


# --- parameters are refused when an algorithm is made -----------------------------------------------------------------


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
    "r_max": (math.nan, math.inf, "x"),
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
    for more in ({"tolerance": 0.5}, {"rho_sq": 0.5}, {"calls": 5}, {"iterations": 5}):
        with pytest.raises(InvalidInput, match=r"^ReplicablePhasedVI: .*2\*delta < rho.* got delta=0\.1, rho=0\.2"):
            rr.ReplicablePhasedVI(**late, **more)
        rr.ReplicablePhasedVI(**{**late, "delta": 0.0999}, **more)
    for made in (rr.ReplicablePhasedVI, rr.ReplicableApproximateMDP, rr.PlugInPolicy):
        made(**late)  # the sharp forms do without
    with pytest.raises(InvalidInput, match=r"samples is .* and budget"):
        rr.PlugInPolicy(**BOTH, samples=3, budget=3)
    rr.ReplicableRMax(**BOTH, horizon=20, support=2**30, rounds=2**61)  # some problem may be so large


# --- the source ------------------------------------------------------------------------------------------------------


def stepped(n_states: int = 2, **options: Any) -> rr.Simulator:
    """Return a simulator in which action 1 earns more in state 0, and all are alike in the others."""

    def many(states: Any, actions: Any, rng: Any) -> Any:
        return states, np.where(states == 0, actions == 1, True).astype(float)

    return rr.Simulator(
        lambda state, action, rng: (state, float(state != 0 or action == 1)),
        n_states=n_states,
        n_actions=2,
        gamma=0.0,
        reward_range=(0.0, 1.0),
        step_many=many,
        budget=10**9,
        **options,
    )


class OwnTable(rr.TabularMDP):
    """A table whose numbers are another's to say."""


class OwnCounts(Like):
    """Nothing of its own but the name."""


OWN_TABLE = OwnTable(GRID.rows, n_actions=4, gamma=0.9, initial=GRID.initial, reward_range=GRID.reward_range)


OTHERS: dict[str, Any] = {
    "a table": lambda: OWN_TABLE,
    "counts": lambda: OwnCounts(GRID),
    "a simulator": stepped,
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_table_of_ours_has_conditions(name: str) -> None:
    source = as_source(OTHERS[name]())
    assert DRAWS in source.trust.conditions
    assert (STARTS in source.trust.conditions) is isinstance(source, Episodic)


@pytest.mark.parametrize("source", [GRID, rr.testing.PerSample(GRID)], ids=["table", "samples"])
def test_a_table_has_none(source: Any) -> None:
    assert as_source(source).trust.conditions == ()


@pytest.mark.parametrize(
    "algorithm",
    [
        rr.ReplicablePhasedVI(0.5, 0.1, 0.2),
        rr.PhasedVI(0.5, 0.1),
        rr.PlugInPolicy(0.5, 0.1, 0.2),
        rr.PlugInPolicy(0.5, 0.1, 0.2, rule="rounded"),
        rr.ReplicableApproximateMDP(0.2, 0.1, 0.5),
    ],
    ids=lambda one: str(one.id),
)
@pytest.mark.parametrize("name", ["a table", "counts", "a simulator"])
def test_every_claim_about_a_run_says_them(algorithm: Any, name: str) -> None:
    source = stepped() if name == "a simulator" else OTHERS[name]()
    planned = rr.plan(source, algorithm)
    made = [*algorithm.plan(as_source(source)).claims(), *planned.claims()]
    if planned.samples < 10**9:  # what is stepped one by one ends soon
        made += rr.solve(source, algorithm, shared_seed=1, sample_seed=1).claims
    assert len(made) >= 2
    for claim in made:
        assert DRAWS in claim.conditions
        assert claim.conditions.count(DRAWS) == 1
        assert DRAWS in str(claim)
    for claim in rr.plan(GRID, algorithm).claims():
        assert DRAWS not in claim.conditions


# --- the shared seed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "accuracy"),
    [
        (RPVI(), True),
        (RPVI(target="value"), True),
        (rr.ReplicableRMax(0.1, 0.001, 0.2, 60, support=3), True),
        (rr.RMax(0.1, 0.001, 60, support=3), True),  # its first policy is drawn from the seed
        (rr.PhasedVI(0.1, 0.001), False),
        (rr.ReplicableApproximateMDP(0.05, 0.001, 0.2), False),  # one batch, whatever the seed
        (rr.PlugInPolicy(0.1, 0.001, 0.2), False),
    ],
    ids=lambda one: str(getattr(one, "id", one)),
)
def test_what_hangs_on_the_seed_says_so(algorithm: Any, accuracy: bool) -> None:
    claims = rr.plan(GRID, algorithm).claims()
    assert claims.accuracy is not None
    assert (FIXED_SEED in claims.accuracy.conditions) is accuracy
    if claims.replicability is not None:
        assert FIXED_SEED in claims.replicability.conditions


@pytest.mark.parametrize("rule", ["gumbel", "rounded", "tolerance", "affordable"])
def test_accuracy_by_shared_noise_asks_for_a_seed_that_was_drawn(rule: str) -> None:
    claim = rr.plan(GRID, rr.PlugInPolicy(0.1, 0.001, 0.2, rule=rule)).claims().accuracy
    assert claim is not None
    assert bool(claim.conditions) == (rule == "gumbel")


# --- the first state -------------------------------------------------------------------------------------------------


def uniform_table() -> rr.TabularMDP:
    P = np.eye(4)[:, None, :].repeat(2, axis=1)
    R = np.ones((4, 2))
    R[0, 0] = 0.0
    return rr.TabularMDP.from_dense(P, R, gamma=0.0, layout="sas")


@pytest.mark.parametrize("rule", ["affordable", "tolerance", "rounded"])
@pytest.mark.parametrize("over", ["initial", "worst"])
def test_a_source_without_a_first_state(rule: str, over: str) -> None:
    """An average over all states hides that one of them loses everything: 1 = 4 * 0.25."""
    algorithm = rr.PlugInPolicy(0.5, 0.1, 0.5, rule=rule, over=over)
    average = rule == "affordable" and over == "initial"
    known = rr.TabularMDP.from_dense(
        np.eye(4)[:, None, :].repeat(2, axis=1), np.eye(4, 2), gamma=0.0, layout="sas", initial=[1.0, 0.0, 0.0, 0.0]
    )
    for problem, nowhere in ((stepped(4), True), (uniform_table(), True), (known, False)):
        claim = rr.plan(problem, algorithm).claims().accuracy
        assert claim is not None
        assert ("on average over all states" in claim.statement) is (average and nowhere)
        assert ("from the first state on" in claim.statement) is (average and not nowhere)
    run = rr.solve(stepped(4), algorithm, shared_seed=1, sample_seed=1)
    if average:
        assert run.policy[0] == 0  # loses 1 from state 0 on
        assert "on average over all states" in str(run.claims)
    else:
        assert run.policy[0] == 1 or "in every state" not in str(run.claims)


# --- half of epsilon, and what asks for nothing ----------------------------------------------------------------------


GRIDS = list(
    itertools.product((1, 12, 32, 5000), (0.0, 0.9, 0.99), (0.3, 0.02, 1 / 3), (0.1, 0.001), (0.5, 0.01), (True, False))
)


def test_values_are_claimed_as_close_as_they_are() -> None:
    """The reported Q is the middle of an interval whose half is rounded up: the claim has that number."""
    shape: Any = None  # no claim of rPVI depends on it
    for pairs, gamma, epsilon, delta, rho, known in GRIDS:
        numbers = phased_vi(pairs, gamma, epsilon, delta, rho, target="value", known_rewards=known)
        claim = rr.ReplicablePhasedVI(epsilon, delta, rho, target="value")._promises(shape, numbers).accuracy
        assert numbers.accuracy_proved
        assert numbers.value_error <= claim.bound <= epsilon / 2.0 * (1.0 + 1e-6)
        said = float(claim.statement.partition("within ")[2].partition(" of")[0])
        assert said >= numbers.value_error or claim.bound == epsilon / 2.0
    few = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, target="value", calls=1000)
    assert rr.plan(GRID, few).claims().accuracy is None


def poor(gain: float, **options: Any) -> rr.TabularMDP:
    """Return a table of one state, in which the best policy gains so much over the uniform one."""
    R = np.array([[0.5, 0.5 + 2.0 * gain]])
    return rr.TabularMDP.from_dense(np.ones((1, 2, 1)), R, gamma=0.0, layout="sas", reward_range=(0.0, 1.0), **options)


@pytest.mark.parametrize("gain", [0.0, 0.0999, 0.1001])
@pytest.mark.parametrize(
    "algorithm",
    [RPVI(), rr.PhasedVI(0.1, 0.001), rr.PlugInPolicy(0.1, 0.001, 0.2), rr.ReplicableRMax(0.1, 0.001, 0.2, 10)],
    ids=lambda one: str(one.id),
)
def test_a_loss_of_all_that_can_be_gained_asks_for_nothing(algorithm: Any, gain: float) -> None:
    mdp, empty = poor(gain), gain <= 0.1
    assert planning.gain(mdp) == pytest.approx(gain, abs=1e-8)
    for claim in (
        rr.plan(mdp, algorithm).claims().accuracy,
        rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1).claims.accuracy,
    ):
        assert claim is not None
        assert (claim.gain is not None) is empty
        assert ("asks for nothing here" in str(claim)) is empty
    result = rr.audit(mdp, algorithm, shared_seeds=8)
    assert bool(result.asks_for_nothing) is empty
    assert ("asks for nothing" in str(result)) is empty


def test_logs_say_so_too() -> None:
    """The best of two actions gains 0.01 over a coin: within 0.1 of it is either."""
    rng = np.random.default_rng(1)

    def log(rows: int) -> Any:
        action = rng.integers(2, size=rows)
        columns = {"state": ["s"] * rows, "action": action.astype(str), "next_state": ["s"] * rows}
        columns["reward"] = (0.5 + 0.02 * action).tolist()
        return rr.from_transitions(columns, gamma=0.0, reward_range=(0.0, 1.0), actions=["0", "1"])

    logs = [log(50 + i) for i in range(4)]
    for epsilon, empty in ((0.1, True), (0.02, True), (0.005, False)):
        result = rr.audit(logs, rr.PlugInPolicy(epsilon, 0.05, 0.2), shared_seeds=4)
        assert bool(result.asks_for_nothing) is empty
        assert ("asks for nothing here: the best policy gains 0.01" in " ".join(str(result).split())) is empty


# --- the numbers of the paper stand beside its labels ----------------------------------------------------------------


ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("nothing of the paper", "nothing of the paper"),
        ("thm:rpvi", "Theorem 4.1 (thm:rpvi)"),
        ("thm:rpvi-v1 and xthm:rpvi and thm:", "thm:rpvi-v1 and xthm:rpvi and thm:"),
        ("thm:rpvi; obs:rep-mdp", "Theorem 4.1 (thm:rpvi); Observation B.1 (obs:rep-mdp)"),
        ("(thm:rpvi)", "(Theorem 4.1, thm:rpvi)"),
        ("(a thm:rpvi b) thm:rpvi.", "(a Theorem 4.1, thm:rpvi, b) Theorem 4.1 (thm:rpvi)."),
        (":) thm:rpvi", ":) Theorem 4.1 (thm:rpvi)"),
    ],
)
def test_a_number_stands_beside_its_label(text: str, shown: str) -> None:
    assert cited(text) == shown
