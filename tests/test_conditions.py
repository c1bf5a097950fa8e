"""What is proved is said with its conditions: source, shared seed and first state; and what asks for nothing."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import planning
from replicable_rl.problem.shipped import two_goals
from replicable_rl.problem.source import Episodic, as_source
from replicable_rl.runs import FIXED_SEED, THIS_SEED
from replicable_rl.sampling import DRAWS, STARTS
from replicable_rl.theory import phased_vi
from tests.commands import run_here
from tests.statistics import Like

GRID = rr.make("two-goals-v1")
RPVI = functools.partial(rr.ReplicablePhasedVI, 0.1, 0.001, 0.2)


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


class Env(gymnasium.Env[Any, Any]):
    """One state and two actions, in the interface of Gymnasium."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)

    def reset(self, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, float(action), False, False, {}


# --- the source ------------------------------------------------------------------------------------


class OwnTable(rr.TabularMDP):
    """A table whose numbers are another's to say."""


class OwnCounts(Like):
    """Nothing of its own but the name."""


def patched() -> Any:
    source = rr.testing.PerSample(GRID)
    source.draw = lambda calls, rng: GRID.draw(calls, rng)  # type: ignore[method-assign]
    return source


def numpy_counts(table: rr.TabularMDP) -> Any:
    from examples.own import NumpyCounts  # and not above: what it registers would stay

    return NumpyCounts(table)


OWN_TABLE = OwnTable(GRID.rows, n_actions=4, gamma=0.9, initial=GRID.initial, reward_range=GRID.reward_range)
OTHERS: dict[str, Any] = {
    "a source": lambda: numpy_counts(GRID),
    "a table": lambda: OWN_TABLE,
    "counts": lambda: OwnCounts(GRID),
    "patched counts": patched,
    "a simulator": stepped,
    "an environment": lambda: rr.EpisodicEnv(Env, gamma=0.9, reward_range=(0.0, 1.0)),
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
@pytest.mark.parametrize("name", ["a source", "a table", "counts", "patched counts", "a simulator"])
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


def test_r_max_says_them() -> None:
    env = rr.EpisodicEnv(Env, gamma=0.5, reward_range=(0.0, 1.0), budget=2**62)
    for algorithm in (rr.RMax(0.3, 0.1, 10), rr.ReplicableRMax(0.3, 0.1, 0.5, 10)):
        made = list(rr.plan(env, algorithm).claims())
        assert made
        for claim in made:
            assert {DRAWS, STARTS, FIXED_SEED} <= set(claim.conditions)


def test_a_source_with_a_hidden_state_is_not_called_proved_without_a_word() -> None:
    """Two runs differ, and both say what they would need."""

    class Drift:
        drawn = 0

        def many(self, states: Any, actions: Any, rng: Any) -> Any:
            self.drawn += 1
            p = 0.9 if self.drawn % 2 else 0.1
            return np.zeros_like(states), (rng.random(states.size) < np.where(actions == 0, p, 1 - p)).astype(float)

    drift = rr.Simulator(
        lambda state, action, rng: (0, 0.0),
        n_states=1,
        n_actions=2,
        gamma=0.0,
        reward_range=(0.0, 1.0),
        step_many=Drift().many,
        budget=10**8,
    )
    runs = [rr.solve(drift, rr.ReplicablePhasedVI(0.5, 0.1, 0.2), shared_seed=1, sample_seed=i) for i in (1, 2)]
    assert runs[0].policy.tolist() != runs[1].policy.tolist()
    for run in runs:
        assert all(DRAWS in claim.conditions for claim in run.claims)


# --- the shared seed -------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "algorithm", [RPVI(), rr.PlugInPolicy(0.1, 0.001, 0.2, samples=10**13)], ids=lambda one: str(one.id)
)
def test_good_seeds_say_so(algorithm: Any) -> None:
    runs = [rr.solve(GRID, algorithm, shared_seed=seed, sample_seed=1) for seed in range(10)]
    of_seeds = [claim for run in runs for claim in run.claims if claim.definition == THIS_SEED]
    assert of_seeds
    assert all(FIXED_SEED in claim.conditions for claim in of_seeds)


# --- the first state -------------------------------------------------------------------------------


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


# --- half of epsilon -------------------------------------------------------------------------------


GRIDS = list(
    itertools.product(
        (1, 12, 32, 5000),
        (0.0, 0.5, 0.9, 0.99),
        (0.3, 0.1, 0.02, 1 / 3, 0.07),
        (0.1, 0.001),
        (0.5, 0.2, 0.01),
        (True, False),
    )
)


SHAPE: Any = None  # no claim of rPVI depends on it


def test_values_are_claimed_as_close_as_they_are() -> None:
    """The reported Q is the middle of an interval whose half is rounded up: the claim has that number."""
    missing = []
    for pairs, gamma, epsilon, delta, rho, known in GRIDS:
        numbers = phased_vi(pairs, gamma, epsilon, delta, rho, target="value", known_rewards=known)
        algorithm = rr.ReplicablePhasedVI(epsilon, delta, rho, target="value")
        claim = algorithm._promises(SHAPE, numbers).accuracy if numbers.accuracy_proved else None
        if claim is None:
            missing.append(numbers)
            continue
        assert numbers.value_error <= claim.bound <= epsilon / 2.0 * (1.0 + 1e-6)
        said = float(claim.statement.partition("within ")[2].partition(" of")[0])
        assert said >= numbers.value_error or claim.bound == epsilon / 2.0
    assert not missing
    assert len(GRIDS) == 960


def test_a_plan_that_does_not_prove_it_claims_nothing() -> None:
    for calls in (10**3, 10**6):
        algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, target="value", calls=calls)
        assert rr.plan(GRID, algorithm).claims().accuracy is None


# --- what asks for nothing -------------------------------------------------------------------------


def poor(gain: float, **options: Any) -> rr.TabularMDP:
    """Return a table of one state, in which the best policy gains so much over the uniform one."""
    R = np.array([[0.5, 0.5 + 2.0 * gain]])
    return rr.TabularMDP.from_dense(np.ones((1, 2, 1)), R, gamma=0.0, layout="sas", reward_range=(0.0, 1.0), **options)


@pytest.mark.parametrize("gain", [0.0, 0.009, 0.05, 0.0999, 0.1001, 0.2])
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
        assert claim.empty is empty
        assert ("asks for nothing here" in str(claim)) is empty
    result = rr.audit(mdp, algorithm, shared_seeds=8)
    assert bool(result.asks_for_nothing) is empty
    assert ("asks for nothing" in str(result)) is empty


@pytest.mark.parametrize("algorithm", ["rpvi-v1", "plug-in-policy-v1", "phased-vi-v1"])
def test_nothing_is_met_without_saying_so(algorithm: str, tmp_path: Path) -> None:
    """On FrozenLake the best policy gains 0.0053, and one that never wins is within 0.1 of it."""
    lake = "gymnasium/FrozenLake-v1:gamma=0.99"
    rho = [] if algorithm == "phased-vi-v1" else ["--rho", "0.2"]
    promise = ["--epsilon", "0.1", "--delta", "0.001", *rho]
    asked = ["--shared-seeds", "20", "--require", "0.01", *(["--calls", "1e9"] if "vi" in algorithm else [])]
    done = run_here(["audit", lake, algorithm, *promise, *asked], tmp_path)
    assert done.code == 0
    assert "asks for nothing here: the best policy gains 0.0053" in " ".join(done.out.split()).partition("one look")[0]
    planned = run_here(["plan", lake, algorithm, *promise], tmp_path)
    assert "asks for nothing here: the best policy gains 0.0053" in " ".join(planned.out.split())


def test_a_model_that_was_estimated_tells_too() -> None:
    poorly = numpy_counts(poor(0.01))
    run = rr.solve(poorly, rr.PlugInPolicy(0.1, 0.1, 0.5), shared_seed=1, sample_seed=1)
    assert run.claims.accuracy is not None
    assert "asks for nothing here: the best policy gains 0.01;" in str(run.claims.accuracy)
    assert rr.audit(poorly, rr.PlugInPolicy(0.1, 0.1, 0.5), shared_seeds=2).asks_for_nothing
    assert not rr.audit(poorly, rr.PlugInPolicy(0.005, 0.1, 0.5), shared_seeds=2).asks_for_nothing


def test_other_peoples_claims_say_so_first() -> None:
    claim = rr.Claim("accuracy", "stated", "the policy is within 0.1 of optimal", 0.1, "mine", level="policy")

    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        return rr.Run.of({"policy": [0]}, claims=rr.Claims((claim,)))

    for gain, empty in ((0.05, True), (0.2, False)):
        result = rr.audit_callable(train, problem=poor(gain), shared_seeds=2)
        assert bool(result.asks_for_nothing) is empty
        assert result.runs[0].claims.accuracy is not None
        assert result.runs[0].claims.accuracy.empty is empty


def test_the_gain_is_from_the_first_state_on() -> None:
    assert planning.gain(two_goals()) == pytest.approx(planning.gain(GRID))
    best, uniform = rr.optimal_values(GRID), rr.evaluate_policy(GRID, np.full((8, 4), 0.25))
    assert planning.gain(GRID) == pytest.approx(float(GRID.initial @ (best.value - uniform.value)) / 10.0, abs=1e-8)


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
