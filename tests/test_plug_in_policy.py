"""Plug-in policies: rules on all kinds of problems, own rules, exploration, published cuts, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Dataset, Process
from replicable_rl.planning import optimal_values
from replicable_rl.problem.source import greedy
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.registry import build
from replicable_rl.rules import SHIPPED, Decision, EmpiricalModel
from replicable_rl.runs import CERTIFICATE, THIS_SEED, ObjectSpec, algorithm_spec
from replicable_rl.testing import check_algorithm

GRID = rr.make("two-goals-v1")
PROMISE: dict[str, Any] = {"epsilon": 0.02, "delta": 0.01, "rho": 0.2}
RULES = [id for id in SHIPPED if id != "published"]
CUTS = rr.publish(GRID, rr.PlugInPolicy(**PROMISE, samples=1000), sample_seed=1)
BACKWARDS = tuple(range(9, -1, -1))


def plug_in(**given: Any) -> rr.PlugInPolicy:
    return rr.PlugInPolicy(**(PROMISE | given))


def two_rooms(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    """Stay or cross, which mostly works; the second room pays."""
    crosses = rng.random() < (0.9 if action else 0.1)
    return (1 - state if crosses else state), float(state)


def simulator(**given: Any) -> rr.Simulator:
    sizes: dict[str, Any] = {"n_states": 2, "n_actions": 2, "gamma": 0.5, "reward_range": (0.0, 1.0)}
    return rr.Simulator(two_rooms, **sizes | given)


def lake(**given: Any) -> rr.EpisodicEnv:
    settings: dict[str, Any] = {"gamma": 0.9, "reward_range": (0.0, 1.0)}
    return rr.EpisodicEnv("FrozenLake-v1", **settings | given)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("problem", "size", "most"),
    [
        pytest.param(lambda: GRID, {"samples": 50}, 32 * 50, id="table"),
        pytest.param(lambda: GRID, {"budget": 5000, "horizon": 50}, 5000, id="table in episodes"),
        pytest.param(simulator, {"samples": 50}, 4 * 50, id="simulator"),
        pytest.param(lambda: simulator(initial=[0.0, 1.0]), {"samples": 50}, 4 * 50, id="simulator with a first state"),
        pytest.param(lake, {"budget": 2000}, 2000, id="environment"),
    ],
)
def test_a_rule_on_a_problem(rule: str, problem: Callable[[], Any], size: dict[str, Any], most: int) -> None:
    source, algorithm = problem(), plug_in(rule=rule, **size)
    one, again, other = (rr.solve(source, algorithm, shared_seed=1, sample_seed=seed) for seed in (1, 1, 2))
    assert list(one.fingerprints) == (["value", "policy"] if rule == "rounded" else ["policy"])
    assert one.fingerprints == again.fingerprints
    assert one.samples is not None
    assert 0 < one.samples <= most
    assert one.samples == most or "horizon" in size or "budget" in size
    assert f"decided from {one.samples} samples" in str(one.status)
    assert one.fingerprints.keys() == other.fingerprints.keys()
    if "value" in one.fingerprints:
        assert (one.policy == greedy(one.q)).all()
    assert "model" not in one.outputs


@pytest.mark.parametrize("over", ["initial", "worst"])
def test_the_loss_is_that_of_the_first_or_of_the_worst_state(over: str) -> None:
    best = optimal_values(GRID).value
    for seed in range(10):
        run = rr.solve(GRID, plug_in(samples=3000, over=over), shared_seed=seed, sample_seed=seed)
        lost = (best - rr.evaluate_policy(GRID, run.policy).value) * (1.0 - GRID.gamma)  # rewards are in [0, 1]
        assert (lost.max() if over == "worst" else GRID.initial @ lost) <= 0.02
    assert str(rr.plan(GRID, plug_in(over=over)).claims().accuracy).count(
        "from the first state on" if over == "initial" else "in every state"
    )


def test_a_run_whose_numbers_are_clear_says_so() -> None:
    """A second run with this very shared seed is proved to agree; the same holds for cuts, by another definition."""
    algorithm = plug_in(rule="tolerance", samples=10**9)
    claims = [rr.solve(GRID, algorithm, shared_seed=seed, sample_seed=seed).claims.of_this_seed for seed in range(9)]
    sure = [claim for claim in claims if claim is not None]
    assert sure
    assert {claim.definition for claim in sure} == {THIS_SEED}
    cuts = rr.publish(GRID, plug_in(samples=10**9), sample_seed=1)
    run = rr.solve(GRID, plug_in(samples=10**9, rule=rr.rules.PublishedCuts(cuts)), shared_seed=1, sample_seed=2)
    assert run.claims.of_this_seed is not None
    assert run.claims.of_this_seed.definition == CERTIFICATE
    assert run.claims.replicability is None
    assert rr.solve(GRID, plug_in(samples=10), shared_seed=1, sample_seed=1).claims.of_this_seed is None


def test_an_algorithm_is_made_from_its_id_and_from_its_spec() -> None:
    assert build(ObjectSpec("plug-in-policy-v1", {**PROMISE, "rule": "tolerance"})) == plug_in(rule="tolerance")
    rules = (
        *RULES,
        rr.rules.RandomTolerance(0.01),
        rr.rules.RandomTolerance(order=(3, 2, 1, 0)),
        rr.rules.AffordableTolerance((3, 2, 1, 0)),
        rr.rules.RoundedQ(0.01),
        rr.rules.SharedGumbel(100.0),
    )
    specs = set()
    for rule in rules:
        algorithm = plug_in(rule=rule, samples=9)
        spec = algorithm_spec(algorithm)
        assert build(ObjectSpec.from_json(json.loads(json.dumps(spec.to_json())))) == algorithm
        specs.add(spec)
    assert len(specs) == len(rules)
    with pytest.raises(InvalidInput, match="cuts must be Cuts"):
        build(algorithm_spec(plug_in(rule=rr.rules.PublishedCuts(CUTS))))


# --- a rule of one's own ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LastNearlyBest(rr.rules.Rule):
    """The last action that is nearly the best."""

    nearly: float = 0.01
    id: ClassVar[str] = "last-nearly-best"

    def decide(self, model: Any, shared: Any, tuning: Any) -> Decision:
        within = model.gap <= self.nearly * (1.0 + float(shared.uniform("mine", shape=1)[0]))
        return Decision({"policy": model.n_actions - 1 - np.argmax(within[:, ::-1], axis=1)}, said="took the last")


@pytest.mark.usefixtures("one_worker")
def test_a_rule_of_ones_own() -> None:
    algorithm = plug_in(rule=LastNearlyBest(), samples=1000)
    run = rr.solve(GRID, algorithm, shared_seed=1, sample_seed=1)
    assert list(run.fingerprints) == ["policy"]
    assert "took the last" in str(run.status)
    assert set(run.claims.missing.values()) == {"rule=last-nearly-best is unknown to the proofs"}
    assert rr.audit(GRID, algorithm, shared_seeds=5).agreement("policy").estimate == 1.0
    check_algorithm(algorithm, problems=[GRID])
    with pytest.raises(InvalidInput, match=r"^PlugInPolicy: .*samples or budget"):
        plug_in(rule=LastNearlyBest())

    class Impostor(LastNearlyBest):
        id: ClassVar[str] = "affordable"

    with pytest.raises(InvalidInput, match="got 'affordable'"):
        plug_in(rule=Impostor())

    class Boasts(LastNearlyBest):
        """Calls itself sure, which proves nothing."""

        id: ClassVar[str] = "boasts"

        def decide(self, *given: Any) -> Decision:
            return super().decide(*given)._replace(sure=lambda margin: True)

    assert not list(rr.solve(GRID, plug_in(rule=Boasts(), samples=1000), shared_seed=1, sample_seed=1).claims)


@dataclass(frozen=True)
class Returns(rr.rules.Rule):
    """A rule that returns what it is told to."""

    answer: Any = None
    id: ClassVar[str] = "returns"

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: rr.rules.Tuning) -> Any:
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [0] * 8,
        Decision([0] * 8),  # type: ignore[arg-type]
        Decision({"policy": np.full(8, 4)}),
        Decision({"policy": np.full((8, 4), 0.25)}),
    ],
)
def test_a_rule_of_ones_own_that_decides_nothing(answer: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^PlugInPolicy: "):
        rr.solve(GRID, plug_in(rule=Returns(answer), samples=10), shared_seed=1, sample_seed=1)


@pytest.mark.parametrize("published", [False, True])
def test_which_pairs_of_a_log_count_for_published_cuts_follows_from_no_later_seed(
    published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = rr.from_transitions(
        {"state": [0, 1], "action": [0, 0], "reward": [0.0, 1.0], "next_state": [1, 0]}, gamma=0.9
    )
    rule = rr.rules.PublishedCuts(rr.publish(log, plug_in())) if published else rr.rules.AffordableTolerance()
    known: list[Any] = []

    def fewest(visits: Any, shared: SharedRandomness | None) -> float:
        known.append(shared)
        return 0.0

    monkeypatch.setattr("replicable_rl.algorithms.plug_in_policy.threshold", fewest)
    rr.solve(log, plug_in(rule=rule), shared_seed=1)
    assert [one is None for one in known] == [published]


# --- exploration, and states that are ignored ------------------------------------------------------------------------


def corridor(length: int = 30, gamma: float = 0.95) -> rr.TabularMDP:
    """Left and right; only the far end pays. By chance nobody gets there in time, and the best policy does."""
    P, R = np.zeros((length, 2, length)), np.zeros((length, 2))
    for s in range(length):
        P[s, 0, max(s - 1, 0)] = P[s, 1, min(s + 1, length - 1)] = 1.0
    R[-1] = 1.0
    return rr.TabularMDP.from_dense(P, R, gamma=gamma, initial=[1.0] + [0.0] * (length - 1))


def loss_of(mdp: rr.TabularMDP, policy: NDArray[np.int64]) -> float:
    best = rr.optimal_values(mdp).value
    return float((1.0 - mdp.gamma) * mdp.initial @ (best - rr.evaluate_policy(mdp, policy).value))


def log_of(mdp: rr.TabularMDP, calls: int) -> Dataset:
    """Return a log in which every pair was tried so often."""
    drawn = mdp.draw(calls, sample_stream(3))
    some = drawn.count > 0
    row = drawn.row[some]
    states, actions = tuple(range(mdp.n_states)), tuple(range(mdp.n_actions))
    mask = mdp.support.given
    allowed = None if mask is None else tuple(map(tuple, mask.tolist()))
    process = Process(states, actions, mdp.gamma, mdp.reward_range, tuple(mdp.initial.tolist()), allowed=allowed)
    parts = row // mdp.n_actions, row % mdp.n_actions, drawn.next_state[some], drawn.reward[some], drawn.count[some]
    return Dataset(process, *parts)


def test_what_exploration_did_not_reach_is_said_and_left_at_action_0() -> None:
    mdp = rr.from_gymnasium("FrozenLake-v1", gamma=0.9)
    for rule in ("affordable", "rounded", "greedy"):
        run = rr.solve(mdp, plug_in(rule=rule, budget=10**5, horizon=50), shared_seed=1, sample_seed=1)
        said = str(run.status)
        pairs = re.search(r"(\d+) pairs of 68 never tried, taken for the worst", said)
        states = re.search(r"(\d+) states hardly ever reached and left at", said)
        assert pairs is not None
        assert states is not None
        assert int(pairs[1]) >= 16  # the four holes
        assert int(states[1]) >= 4
        holes = [5, 7, 11, 12]
        assert run.policy[holes].tolist() == [0] * 4
    claims = run.claims
    assert not list(claims)
    assert claims.missing["accuracy"].startswith("how many samples a pair has")


def test_what_lies_on_the_way_is_not_ignored() -> None:
    mdp = corridor()
    for rule in ("affordable", "greedy", "tolerance"):
        algorithm = rr.PlugInPolicy(0.05, 0.05, 0.2, rule=rule, budget=3 * 10**5, horizon=100)
        run = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1)
        assert loss_of(mdp, run.policy) < 0.05
    log = rr.solve(log_of(mdp, 500), rr.PlugInPolicy(0.05, 0.05, 0.2), shared_seed=1)
    assert loss_of(mdp, log.policy) < 0.05


def bold(first: str = "other") -> rr.TabularMDP:
    """Four states in a row, and a goal. A bold action leads on, nearly as good; at the end, one action is a trap.

    The best policy goes to the goal at once, so that the last states are hardly ever reached. Where the bold action
    is preferred, they are, and there the trap is what nobody has decided: action 0, or the first that is allowed.
    """
    P, R = np.zeros((6, 10, 6)), np.ones((6, 10))
    trap, goal, allowed = 4, 5, np.ones((6, 10), dtype=np.bool_)
    P[:, :, goal] = 1.0
    P[trap], R[trap] = np.eye(6)[trap], 1.0
    ahead = {"always 0": (0, 0, 0, 0), "mask": (0, 0, 1, 1), "reversed": (9, 9, 0, 0)}[first]
    for s, action in enumerate(ahead):
        P[s, action], R[s, action] = np.eye(6)[s + 1], 0.99
    R[trap, 1 if first == "mask" else 0] = 0.0
    if first == "mask":
        allowed[2:, 0] = False
    P[~allowed] = 0.0
    return rr.TabularMDP.from_dense(P, R, gamma=0.9, initial=np.eye(6)[0], allowed=allowed)


@pytest.mark.parametrize(
    ("first", "rule"),
    [
        ("always 0", "tolerance"),
        ("always 0", "affordable"),
        ("mask", "affordable"),
        ("mask", "tolerance"),
        ("reversed", rr.rules.AffordableTolerance(BACKWARDS)),
        ("reversed", rr.rules.RandomTolerance(None, BACKWARDS)),
    ],
)
def test_a_rule_that_goes_where_the_best_policy_does_not(first: str, rule: Any) -> None:
    """What is ignored is priced for the policy that the rule decides, and not for the best one."""
    mdp = bold(first)
    algorithm = rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule, budget=10**5, horizon=30)
    for seed in range(3):
        run = rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=1)
        assert loss_of(mdp, run.policy) < 0.1
    log = rr.solve(log_of(mdp, 2000), rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule), shared_seed=1)
    assert loss_of(mdp, log.policy) < 0.1


def test_where_the_worst_state_counts_a_state_that_costs_is_not_ignored() -> None:
    """However seldom it is reached: epsilon is then about every state."""
    P, R = np.zeros((3, 2, 3)), np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    P[0, :, 1], P[0, :, 2] = 0.999, 0.001
    P[1, :, 0], P[2, :, 0] = 1.0, 1.0
    mdp = rr.TabularMDP.from_dense(P, R, gamma=0.9, initial=[1.0, 0.0, 0.0])
    for over, action in (("initial", 0), ("worst", 1)):
        algorithm = rr.PlugInPolicy(0.05, 0.05, 0.2, budget=10**5, horizon=20, over=over, rule="tolerance")
        assert rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1).policy[2] == action


@pytest.mark.parametrize("order", [None, (1, 0)])
def test_labs_that_follow_cuts_from_episodes_decide_alike(order: Any) -> None:
    """Who publishes ignores states too, and says so in the cuts; who follows ignores none by a seed of its own."""
    mdp, same = rr.make("machine-repair-v1"), 0
    algorithm = rr.PlugInPolicy(
        0.05, 0.05, 0.2, budget=2 * 10**5, horizon=100, rule=rr.rules.AffordableTolerance(order)
    )
    cuts = rr.publish(mdp, algorithm, sample_seed=1)
    ignored = np.isinf(cuts.margins)
    assert (cuts.policy[ignored] == (order or cuts.order)[0]).all()
    assert ignored.any()
    follow = replace(algorithm, rule=rr.rules.PublishedCuts(cuts))
    for seed in range(8):
        run = rr.solve(mdp, follow, shared_seed=seed, sample_seed=100 + seed)
        alike = bool(np.array_equal(run.policy, cuts.policy))
        same += alike
        assert ("the published policy" in str(run.status)) == alike
        assert run.policy[ignored].tolist() == cuts.policy[ignored].tolist()
    assert same >= 7


# --- published cuts --------------------------------------------------------------------------------------------------


def test_cuts_go_from_one_lab_to_another(tmp_path: Path) -> None:
    rr.save(CUTS, tmp_path / "cuts.npz")
    theirs = plug_in(samples=1000, rule=str(tmp_path / "cuts.npz"))
    for seed in range(20):
        run = rr.solve(GRID, theirs, shared_seed=seed, sample_seed=100 + seed)
        assert run.policy.tolist() == CUTS.policy.tolist()
    assert rr.load(tmp_path / "cuts.npz") == CUTS
    assert hash(rr.load(tmp_path / "cuts.npz")) == hash(CUTS)
    assert repr(CUTS).startswith("Cuts(two-goals-v1: 8 states, least margin ")


def test_cuts_that_cost_too_much_are_not_followed() -> None:
    """A publisher cannot make another lab take bad actions: everything is affordable, or is not taken."""
    hostile = replace(CUTS, tolerances=np.full(8, 1.0))
    run = rr.solve(GRID, plug_in(samples=1000, rule=rr.rules.PublishedCuts(hostile)), shared_seed=1, sample_seed=1)
    own = rr.solve(GRID, plug_in(samples=1000), shared_seed=1, sample_seed=1)
    assert "would cost at least" in str(run.status)
    assert "are not followed" in str(run.status)
    assert run.fingerprints == own.fingerprints


def test_publishing_keeps_the_order_and_depends_on_the_sample_alone() -> None:
    order = (3, 2, 1, 0)
    cuts = rr.publish(GRID, plug_in(samples=100, rule=rr.rules.AffordableTolerance(order)), sample_seed=1)
    assert cuts.order == order
    assert cuts == rr.publish(GRID, plug_in(samples=100, rule=rr.rules.RandomTolerance(order=order)), sample_seed=1)
    assert cuts == rr.publish(GRID, plug_in(samples=100, rule=rr.rules.PublishedCuts(cuts)), sample_seed=1)
    assert cuts != rr.publish(GRID, plug_in(samples=100, rule=rr.rules.AffordableTolerance(order)), sample_seed=2)
    assert cuts.samples == 100.0


# --- what is refused, in one sentence --------------------------------------------------------------------------------


def refused(call: Callable[[], Any], kind: type[Exception] = InvalidInput) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def solved(problem: Any = GRID, **given: Any) -> Callable[[], Any]:
    return lambda: rr.solve(problem, plug_in(**given), shared_seed=1, sample_seed=1)


REFUSALS: list[tuple[Callable[[], Any], str]] = [  # `test_parameters` has the others
    (lambda: plug_in(delta=None), "delta must be given"),
    (lambda: plug_in(samples=1, budget=1), "Give one of them"),
    (lambda: plug_in(rule="greeedy"), "Did you mean 'greedy'"),
    (lambda: plug_in(rule=rr.rules.Greedy), "rule must be one of"),
    (lambda: plug_in(rule={"id": "rounded", "x": 1}), "no setting x"),
    (lambda: plug_in(rule="published"), "cuts must be Cuts"),
    (lambda: rr.rules.RandomTolerance(0.0), "tolerance"),
    (lambda: rr.rules.RandomTolerance(order=(0, 1, 1)), "every action once"),
    (solved(samples=9, rule=rr.rules.AffordableTolerance((1, 0))), "order"),
    (solved(rr.make("chain-v1"), samples=9, rule=rr.rules.PublishedCuts(CUTS)), "for 8 states"),
    (solved(rr.make("two-goals-v1", slip=0.2), samples=9, rule=rr.rules.PublishedCuts(CUTS)), "Use cuts of this"),
    (solved(budget=31), "budget"),
    (solved(lake()), "budget"),
    (solved(horizon=20, budget=19), "budget"),
    (solved(simulator(), horizon=20, budget=100), "Episodic"),
    (lambda: rr.publish(GRID, rr.PhasedVI(0.1, 0.01)), "PlugInPolicy"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "said"), REFUSALS)
def test_refusals(call: Callable[[], Any], said: str) -> None:
    assert said in refused(call)


def test_a_run_that_would_not_end_is_refused() -> None:
    for call in (
        solved(simulator(budget=1000), samples=251),
        solved(lake(budget=1000), budget=5000),
        lambda: rr.publish(lake(budget=1000), plug_in(budget=5000)),
    ):
        assert "raise budget= of the problem" in refused(call, InvalidInput)
    rr.solve(simulator(budget=1000), plug_in(samples=250), shared_seed=1, sample_seed=1)
    assert "samples=1e+30 is asked for" in refused(solved(samples=10**30), InvalidInput)
    assert "budget=1e+30 is asked for" in refused(solved(budget=10**30, horizon=9), InvalidInput)
