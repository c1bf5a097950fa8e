"""Plug-in policies: every rule on every kind of problem, published cuts, and what is refused."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import read_audits
from replicable_rl.cli.main import main
from replicable_rl.errors import InvalidFile, InvalidInput, SampleSizeTooLarge
from replicable_rl.files import Parts
from replicable_rl.planning import optimal_values
from replicable_rl.problem import greedy
from replicable_rl.randomness import SharedRandomness
from replicable_rl.registry import build
from replicable_rl.rules import SHIPPED, Decision, EmpiricalModel
from replicable_rl.runs import CERTIFICATE, THIS_SEED, ObjectSpec
from replicable_rl.runs.specs import algorithm_spec
from replicable_rl.testing import check_algorithm
from tests.documents import store_text

GRID = rr.make("two-goals-v1")
PROMISE: dict[str, Any] = {"epsilon": 0.02, "delta": 0.01, "rho": 0.2}
RULES = [id for id in SHIPPED if id != "published"]
CUTS = rr.publish(GRID, rr.PlugInPolicy(**PROMISE, samples=1000), sample_seed=1)


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


# --- every rule on every kind of problem -----------------------------------------------------------


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


def test_the_initial_distribution_of_a_simulator_counts() -> None:
    """With all weight on the second room, what the first one does is hardly worth a tolerance."""
    everywhere, second = simulator(), simulator(initial=[0.0, 1.0])
    plans = {problem.spec.text: rr.plan(problem, plug_in(samples=9)) for problem in (everywhere, second)}
    assert len(plans) == 2
    model = EmpiricalModel(second, second.draw(10, np.random.default_rng(1)))
    assert model.table.initial.tolist() == [0.0, 1.0]
    model = EmpiricalModel(everywhere, everywhere.draw(10, np.random.default_rng(1)))
    assert model.table.initial.tolist() == [0.5, 0.5]


def test_values_are_those_of_the_user() -> None:
    mdp = rr.make("machine-repair-v1")
    run = rr.solve(mdp, plug_in(rule="rounded", samples=10**6), shared_seed=1, sample_seed=1)
    assert abs(run.q - optimal_values(mdp).q).max() < 0.5
    low, high = mdp.reward_range
    assert run.q.min() >= low / (1.0 - mdp.gamma)
    assert run.q.max() <= high / (1.0 - mdp.gamma)


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


# --- sizes -----------------------------------------------------------------------------------------


def test_a_budget_is_shared_by_the_pairs() -> None:
    for budget, each in ((32, 1), (95, 2), (10**6, 31250)):
        algorithm = plug_in(budget=budget)
        assert algorithm.plan(GRID).numbers.per_pair == each
        assert rr.solve(GRID, algorithm, shared_seed=1, sample_seed=1).samples == 32 * each


def test_without_a_size_it_is_what_the_proof_needs() -> None:
    algorithm = rr.PlugInPolicy(0.1, 0.001, 0.2, rule="rounded")
    plan = algorithm.plan(GRID)
    assert plan.numbers.per_pair == plan.numbers.per_pair_needed
    assert plan.samples == 32 * plan.numbers.per_pair
    run = rr.solve(GRID, algorithm, shared_seed=1, sample_seed=1)
    assert run.samples == plan.samples
    assert {claim.about for claim in run.claims} == {"accuracy", "replicability"}
    assert run.claims.replicability == plan.claims().replicability
    assert "two runs have the same Q, except with probability 0.2" in str(run.claims.replicability)


def test_what_may_be_claimed_is_said_before_and_after() -> None:
    for rule in RULES:
        few, enough = plug_in(rule=rule, samples=10), plug_in(rule=rule)
        for algorithm in (few, enough):
            before = rr.plan(GRID, algorithm).claims()
            after = rr.solve(GRID, algorithm, shared_seed=1, sample_seed=1).claims
            assert (after.accuracy, after.replicability) == (before.accuracy, before.replicability)
            assert after.missing == before.missing
        assert rr.plan(GRID, few).claims().accuracy is None
        assert rr.plan(GRID, enough).claims().accuracy is not None
    assert rr.plan(GRID, plug_in(rule="greedy")).claims().replicability is None


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


# --- records ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES, rr.rules.PublishedCuts(CUTS)], ids=str)
def test_a_run_is_saved_and_loaded(rule: Any, tmp_path: Path) -> None:
    run = rr.solve(GRID, plug_in(rule=rule, samples=50), shared_seed=1, sample_seed=1)
    rr.save(run, tmp_path / "run")
    again = rr.load(tmp_path / "run")
    assert again.to_json() == run.to_json()
    assert again.fingerprints == run.fingerprints


def test_runs_are_stored_resumed_and_shown(tmp_path: Path) -> None:
    path, results = tmp_path / "runs.sqlite", {}
    for rule in (*RULES, rr.rules.PublishedCuts(CUTS)):
        first = rr.audit(GRID, plug_in(rule=rule, samples=30), shared_seeds=3, store=path)
        again = rr.audit(GRID, plug_in(rule=rule, samples=30), shared_seeds=5, store=path)  # three of five are there
        whole = rr.audit(GRID, plug_in(rule=rule, samples=30), shared_seeds=5)
        assert [run.fingerprints for run in again.runs] == [run.fingerprints for run in whole.runs]
        assert [run.fingerprints for run in first.runs] == [run.fingerprints for run in whole.runs[:6]]
        results[str(rule)] = again
    page = store_text(path)
    assert "plug-in-policy-v1" in page
    assert CUTS.digest[:12] not in page
    with rr.RunStore(path) as store:
        assert len(read_audits(store)) == len(results)


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
    assert algorithm_spec(plug_in(rule=rr.rules.RandomTolerance(0.01))).params["rule"] == {
        "id": "tolerance",
        "tolerance": 0.01,
    }
    with pytest.raises(InvalidInput, match=r"^PlugInPolicy: published cuts must be given"):
        build(algorithm_spec(plug_in(rule=rr.rules.PublishedCuts(CUTS))))


def test_identities_differ_with_everything_that_decides() -> None:
    other = rr.publish(GRID, plug_in(samples=1000), sample_seed=2)
    algorithms = [
        plug_in(samples=100),
        plug_in(samples=100, over="worst"),
        plug_in(budget=3200),
        plug_in(budget=3200, horizon=10),
        plug_in(samples=100, rule="tolerance"),
        plug_in(samples=100, rule=rr.rules.AffordableTolerance((1, 0, 2, 3))),
        plug_in(samples=100, rule=rr.rules.PublishedCuts(CUTS)),
        plug_in(samples=100, rule=rr.rules.PublishedCuts(other)),
    ]
    digests = {rr.solve(GRID, one, shared_seed=1, sample_seed=1).spec.digest for one in algorithms}  # type: ignore[union-attr]
    assert len(digests) == len(algorithms)
    same = plug_in(samples=100, rule=rr.rules.PublishedCuts(rr.rules.Cuts.from_parts(CUTS.parts())))
    assert algorithm_spec(same) == algorithm_spec(algorithms[6])


@pytest.mark.parametrize("size", [{"samples": 100}, {"budget": 3000, "horizon": 30}], ids=["drawn", "explored"])
def test_serial_threads_and_processes_are_the_same(size: dict[str, Any]) -> None:
    for rule in ("affordable", rr.rules.PublishedCuts(CUTS)):
        algorithm = plug_in(rule=rule, **size)
        serial = rr.audit(GRID, algorithm, shared_seeds=3)
        for backend in ("threading", "loky"):
            with joblib.parallel_config(backend, n_jobs=2):
                other = rr.audit(GRID, algorithm, shared_seeds=3)
            assert [run.fingerprints for run in other.runs] == [run.fingerprints for run in serial.runs]


@pytest.mark.parametrize(
    "algorithm",
    [
        plug_in(samples=100),
        rr.PlugInPolicy(0.1, 0.01, 0.2, rule="rounded"),
        rr.PlugInPolicy(0.1, 0.01, 0.2, rule="tolerance"),
        plug_in(budget=2000, horizon=20),
    ],
    ids=lambda algorithm: algorithm_spec(algorithm).text,
)
@pytest.mark.usefixtures("one_worker")
def test_the_conformance_suite_passes(algorithm: Any) -> None:
    check_algorithm(algorithm, problems=[GRID])  # the default rule on others: test_conformance.py


# --- a rule of one's own ---------------------------------------------------------------------------


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
    assert not list(run.claims)
    assert set(run.claims.missing.values()) == {"rule=last-nearly-best is unknown to the proofs"}
    assert rr.audit(GRID, algorithm, shared_seeds=5).agreement("policy").estimate == 1.0
    assert algorithm_spec(algorithm).params["rule"] == "last-nearly-best"
    check_algorithm(algorithm, problems=[GRID])
    with pytest.raises(InvalidInput, match=r"^PlugInPolicy: of rule='last-nearly-best' nothing is proved, so samples"):
        plug_in(rule=LastNearlyBest())

    class Impostor(LastNearlyBest):
        id: ClassVar[str] = "affordable"

    with pytest.raises(InvalidInput, match=r"must have an id of its own, got 'affordable'"):
        plug_in(rule=Impostor())


@dataclass(frozen=True)
class Returns(rr.rules.Rule):
    """A rule that returns what it is told to."""

    answer: Any = None
    id: ClassVar[str] = "returns"

    def decide(self, model: EmpiricalModel, shared: SharedRandomness, tuning: rr.rules.Tuning) -> Any:
        return self.answer


def test_a_rule_of_ones_own_that_calls_itself_sure_proves_nothing() -> None:
    class Boasts(LastNearlyBest):
        id: ClassVar[str] = "boasts"

        def decide(self, *given: Any) -> rr.rules.Decision:
            return super().decide(*given)._replace(sure=lambda margin: True)

    algorithm = plug_in(rule=Boasts(), samples=1000)
    assert not list(rr.solve(GRID, algorithm, shared_seed=1, sample_seed=1).claims)
    assert not list(algorithm.plan(rr.make("two-goals-v1")).claims(good_seed=True))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [0] * 8,
        rr.rules.Decision([0] * 8),  # type: ignore[arg-type]
        rr.rules.Decision({"policy": np.full(8, 4)}),
        rr.rules.Decision({"policy": np.full((8, 4), 0.25)}),
    ],
)
def test_a_rule_of_ones_own_that_decides_nothing(answer: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^PlugInPolicy: "):
        rr.solve(GRID, plug_in(rule=Returns(answer), samples=10), shared_seed=1, sample_seed=1)


def test_a_rule_of_ones_own_refuses_a_problem_before_a_sample_is_drawn() -> None:
    drawn: list[int] = []

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        drawn.append(state)
        return two_rooms(state, action, rng)

    @dataclass(frozen=True)
    class ForThreeActions(LastNearlyBest):
        def check_problem(self, problem: Any) -> None:
            if problem.n_actions != 3:
                raise InvalidInput(f"ForThreeActions: there are {problem.n_actions}.")

    problem = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0))
    with pytest.raises(InvalidInput, match=r"^ForThreeActions: there are 2\.$"):
        rr.solve(problem, plug_in(rule=ForThreeActions(), samples=10), shared_seed=1, sample_seed=1)
    assert not drawn


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


# --- exploration -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["4x4", "8x8"])
def test_a_lake_is_solved_in_a_million_steps(size: str) -> None:
    mdp = rr.from_gymnasium("FrozenLake-v1", gamma=0.95, map_name=size)
    best = float(mdp.initial @ optimal_values(mdp).value)
    allowed = 0.05 * best * (1.0 - mdp.gamma)  # epsilon is in values normalised to [0, 1]

    def worth(run: rr.Run) -> float:
        return float(mdp.initial @ rr.evaluate_policy(mdp, run.policy).value) / best

    algorithm = rr.PlugInPolicy(allowed, 0.01, 0.2, budget=10**6, horizon=100)
    for seed in range(5):
        run = rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=seed)
        assert run.samples is not None
        assert run.samples <= 10**6
        assert worth(run) >= 0.9


def test_what_exploration_did_not_reach_is_said_and_left_at_action_0() -> None:
    mdp = rr.from_gymnasium("FrozenLake-v1", gamma=0.9)
    for rule in ("affordable", "rounded", "greedy"):
        run = rr.solve(mdp, plug_in(rule=rule, budget=10**5, horizon=50), shared_seed=1, sample_seed=1)
        said = str(run.status)
        pairs = re.search(r"(\d+) pairs of 68 never tried, taken for the worst", said)
        states = re.search(r"(\d+) states hardly ever reached and left at action 0, .* loses ([\d.e-]+)", said)
        assert pairs is not None
        assert states is not None
        assert int(pairs[1]) >= 16  # the four holes
        assert int(states[1]) >= 4
        assert float(states[2]) < 0.02
        holes = [5, 7, 11, 12]
        assert run.policy[holes].tolist() == [0] * 4
    claims = run.claims
    assert not list(claims)
    assert claims.missing["accuracy"].startswith("samples were collected by exploring")


def test_a_state_below_the_shared_threshold_costs_what_is_said() -> None:
    """One state in a thousand episodes: it is left at its default, and the cost is in the status."""
    P = np.zeros((3, 2, 3))
    P[0, :, 1], P[0, :, 2] = 0.9999, 0.0001
    P[1, :, 0], P[2, :, 0] = 1.0, 1.0
    R = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # action 1 is right, also in the third state
    mdp = rr.TabularMDP.from_dense(P, R, gamma=0.9, initial=[1.0, 0.0, 0.0])
    run = rr.solve(mdp, plug_in(epsilon=0.1, budget=10**5, horizon=20), shared_seed=1, sample_seed=1)
    assert run.policy[1] == 1
    assert run.policy[2] == 0
    said = re.search(r"1 state hardly ever reached and left at action 0, .* loses ([\d.e-]+)", str(run.status))
    assert said is not None
    one_in_ten_thousand = 0.0001 * 0.9 * 0.1 / (1.0 - 0.9**2)  # of an episode's first steps, as of every second one
    assert float(said[1]) == pytest.approx(one_in_ten_thousand, rel=0.6)  # about ten times in these data
    worst = plug_in(epsilon=1e-5, budget=10**6, horizon=20, rule="greedy")
    assert rr.solve(mdp, worst, shared_seed=1, sample_seed=1).policy[2] == 1


# --- published cuts --------------------------------------------------------------------------------


def test_margins_from_few_samples_are_said_to_say_little() -> None:
    """With one sample nothing varies, and every margin is the largest there is."""
    for samples in (1, 49, 50):
        cuts = rr.publish(GRID, plug_in(samples=samples), sample_seed=1)
        assert ("hardly known: a pair has fewer than 50 samples" in repr(cuts)) == (samples < 50)


def test_cuts_go_from_one_lab_to_another(tmp_path: Path) -> None:
    rr.save(CUTS, tmp_path / "cuts.npz")
    theirs = plug_in(samples=1000, rule=str(tmp_path / "cuts.npz"))
    for seed in range(20):
        run = rr.solve(GRID, theirs, shared_seed=seed, sample_seed=100 + seed)
        assert run.policy.tolist() == CUTS.policy.tolist()
    assert rr.load(tmp_path / "cuts.npz") == CUTS
    assert hash(rr.load(tmp_path / "cuts.npz")) == hash(CUTS)
    assert repr(CUTS).startswith("Cuts(two-goals-v1: 8 states, least margin ")


@pytest.mark.parametrize(
    "problem", [simulator, lambda: simulator(initial=[0.0, 1.0], version="1"), lake], ids=["simulator", "named", "lake"]
)
def test_cuts_of_what_is_no_table(problem: Callable[[], Any], tmp_path: Path) -> None:
    size = {"budget": 5000} if isinstance(problem(), rr.EpisodicEnv) else {"samples": 200}
    cuts = rr.publish(problem(), plug_in(**size), sample_seed=1)
    rr.save(cuts, tmp_path / "cuts.npz")
    again = rr.load(tmp_path / "cuts.npz")
    run = rr.solve(problem(), plug_in(**size, rule=rr.rules.PublishedCuts(again)), shared_seed=1, sample_seed=2)
    assert "published cuts" in str(run.status)


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


# --- what is refused, in one sentence --------------------------------------------------------------


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
    (lambda: plug_in(rule="published"), "published cuts must be given"),
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


def test_an_epsilon_that_asks_for_nothing_is_said() -> None:
    """FrozenLake is worth 0.009 of the largest value: any policy is within 0.02, also one that never arrives."""
    for epsilon, said in ((0.02, True), (0.002, False)):
        run = rr.solve(lake(), plug_in(epsilon=epsilon, budget=20_000, horizon=50), shared_seed=1, sample_seed=1)
        assert ("asks for nothing here: the best policy gains 0.00" in str(run.status)) == said


def test_a_run_that_would_not_end_names_what_fits() -> None:
    text = refused(solved(simulator(budget=1000)), SampleSizeTooLarge)
    assert "With samples=250 it would fit" in text
    rr.solve(simulator(budget=1000), plug_in(samples=250), shared_seed=1, sample_seed=1)
    assert "With samples=250 it would fit" in refused(solved(simulator(budget=1000), samples=251), SampleSizeTooLarge)
    assert "With budget=1000 it" in refused(solved(simulator(budget=1000), budget=5000), SampleSizeTooLarge)
    assert "With budget=1000 it" in refused(solved(lake(budget=1000), budget=5000), SampleSizeTooLarge)
    assert "With budget=1000 it" in refused(
        lambda: rr.publish(lake(budget=1000), plug_in(budget=5000)), SampleSizeTooLarge
    )
    assert "samples=1e+30 is asked for" in refused(solved(samples=10**30), SampleSizeTooLarge)
    assert "budget=1e+30 is asked for" in refused(solved(budget=10**30, horizon=9), SampleSizeTooLarge)


def changed(path: Path, **changes: Any) -> None:
    """Write a file of cuts with other content and a digest that fits it, as a stranger would write it."""
    values, arrays = CUTS.parts()
    parts = Parts(
        {name: changes.get(name, value) for name, value in values.items()},
        {name: np.asarray(changes.get(name, array)) for name, array in arrays.items()},
    )
    stranger = object.__new__(rr.rules.Cuts)
    stranger.__dict__["parts"] = lambda: parts
    rr.save(stranger, path)


FILES: dict[str, tuple[dict[str, Any], str]] = {
    "NaN": ({"tolerances": [math.nan] * 8}, "tolerances"),
    "another size": ({"policy": [0]}, "one tolerance, action and margin"),
    "no such action": ({"policy": [4] * 8}, "policy"),
    "an order with a gap": ({"order": [0, 1, 2, 10**6]}, "order"),
    "no problem": ({"problem": 3}, "ObjectSpec"),
    "epsilon": ({"epsilon": 2.0}, "epsilon"),
    "samples": ({"samples": -1.0}, "samples"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_holds_no_cuts(name: str, tmp_path: Path) -> None:
    changes, said = FILES[name]
    path = tmp_path / "cuts.npz"
    changed(path, **changes)
    for call in (lambda: rr.load(path), lambda: plug_in(rule=str(path))):
        with pytest.raises(InvalidFile, match=rf"cuts\.npz: .*{said}"):
            call()


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.npz")
    assert "is not a regular file" in refused(lambda: plug_in(rule=str(tmp_path / "fifo.npz")), InvalidFile)
    assert "no such file" in refused(lambda: plug_in(rule=str(tmp_path / "gone.npz")), InvalidFile)
    assert "is a directory" in refused(lambda: rr.load(tmp_path), InvalidFile)
    rr.save(GRID, tmp_path / "table.npz")
    assert "holds a table" in refused(lambda: plug_in(rule=str(tmp_path / "table.npz")), InvalidFile)


# --- the command line ------------------------------------------------------------------------------

OPTIONS = ["--epsilon", "0.02", "--delta", "0.01", "--rho", "0.2", "--samples", "1000"]


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problem = ["two-goals-v1", "plug-in-policy-v1", *OPTIONS]
    assert main(["publish", *problem, "--sample-seed", "1", "--output", "cuts.npz"]) == 0
    assert rr.load("cuts.npz") == CUTS
    capsys.readouterr()
    assert main(["publish", *problem, "--sample-seed", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == CUTS.to_json()
    assert main(["publish", *problem, "--sample-seed", "1"]) == 0
    assert "Nothing was written" in capsys.readouterr().out
    assert main(["solve", *problem, "--shared-seed", "0", "--rule", "cuts.npz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == {"policy": CUTS.policy.tolist()}
    assert main(["audit", *problem, "--rule", "cuts.npz", "--shared-seeds", "30", "--require", "0.8"]) == 0
    assert "Same policy in 30 of 30 pairs" in capsys.readouterr().out
    for name in ("/nowhere/cuts.npz", "mycuts", "cuts.csv"):  # `--rule` takes .json alone
        assert main(["publish", *problem, "--output", name]) == 2
        assert not Path(name).exists()
    explored = ["chain-v1", "plug-in-policy-v1", *OPTIONS[:6], "--budget", "1e5", "--horizon", "50"]
    assert main(["publish", *explored, "--sample-seed", "1"]) == 0
    assert main(["publish", "chain-v1", "phased-vi-v1", "--epsilon", "0.1", "--delta", "0.01"]) == 2


def test_a_rule_with_settings_is_told_by_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["chain-v1", "plug-in-policy-v1", *OPTIONS, "--rule"]
    assert main(["audit", *problem, "tolerance:tolerance=0.01", "--shared-seeds", "2"]) == 0
    assert "rule=tolerance(tolerance=0.01)" in " ".join(capsys.readouterr().out.split())
    assert main(["solve", *problem, "tolerance:width=0.01", "--shared-seed", "1"]) == 2
    assert "tolerance has no setting width. It has: tolerance, order." in capsys.readouterr().err


def test_a_parameter_that_costs_too_much_is_never_proved() -> None:
    run = rr.solve(rr.make("two-goals-v1"), plug_in(rule=rr.rules.RandomTolerance(0.1), samples=9), shared_seed=1)
    assert run.claims.missing["accuracy"] == (
        "no number of samples proves a loss of 0.02 for rule=tolerance with parameter 0.1"
    )
    assert run.claims.missing["replicability"] == run.claims.missing["accuracy"]


def test_commands_show_runs_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["two-goals-v1", "plug-in-policy-v1", *OPTIONS]
    for rule in ("affordable", "rounded"):
        assert main(["solve", *problem, "--shared-seed", "1", "--sample-seed", "1", "--rule", rule]) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 80
        assert "…" not in out
        assert ("q left" in out) == (rule == "rounded")
