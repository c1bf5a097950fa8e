"""Ids, what they build, and that a record of a run is enough to run it again."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.registry import PROBLEMS, build, make, unshipped_levels
from replicable_rl.runs import ObjectSpec, RunSpec

NEEDED: dict[str, dict[str, Any]] = {"gridworld-v1": {"layout": "S.#/..G"}}  # what has no default
QUICK = rr.PhasedVI(0.2, 0.05, calls=100, iterations=3)


def rebuilt(run: rr.Run) -> rr.Run:
    """Run again from nothing but the text of a spec."""
    assert run.spec is not None
    read = RunSpec.from_json(json.loads(json.dumps(run.spec.to_json(), allow_nan=False)))
    assert (read, read.digest) == (run.spec, run.spec.digest)
    problem, algorithm = make(read.problem.id, **read.problem.params), build(read.algorithm)
    return rr.solve(problem, algorithm, shared_seed=read.shared_seed, sample_seed=read.sample_seed)


@pytest.mark.parametrize("id", PROBLEMS)
def test_every_problem_is_built_and_solved_and_named(id: str) -> None:
    mdp = make(id, **NEEDED.get(id, {}))
    assert mdp.spec == ObjectSpec(id, NEEDED.get(id, {}))
    run = rr.solve(mdp, QUICK, shared_seed=5, sample_seed=6)
    assert run.samples == 100 * 3 * mdp.n_states * mdp.n_actions
    assert rebuilt(run) == run


@pytest.mark.parametrize(
    ("id", "params"),
    [
        ("two-goals-v1", {"slip": 0.1, "gamma": 0.8}),
        ("gridworld-v1", {"layout": ["S.A", "..B"], "goals": {"A": 1.0, "B": -2.5}, "slip": 0}),
        ("garnet-v1", {"n_states": 7, "seed": 2**53 - 1}),
        ("gymnasium/FrozenLake-v1", {"gamma": 0.9, "is_slippery": False}),
    ],
)
@pytest.mark.parametrize(
    "algorithm",
    [
        rr.PhasedVI(0.2, 0.05, calls=10**16, iterations=4, target="value"),
        rr.ReplicablePhasedVI(0.2, 0.001, 0.3, iterations=4, tolerance=0.01, rho_sq=0.3, calls=2**63 - 1),
    ],
    ids=["plain", "replicable"],
)
def test_a_run_is_rebuilt_from_its_spec_alone(id: str, params: dict[str, Any], algorithm: Any) -> None:
    run = rr.solve(make(id, **params), algorithm, shared_seed=2**64 - 1, sample_seed=2**63 + 1)
    again = rebuilt(run)
    assert (again, again.q.tobytes(), again.to_json()) == (run, run.q.tobytes(), run.to_json())


@pytest.mark.parametrize(
    ("id", "default"),
    [
        ("two-goals-v1", {"slip": 0.3, "gamma": 0.9}),
        ("garnet-v1", {"n_states": np.int64(20), "gamma": np.float64(0.9)}),
    ],
)
def test_parameters_equal_to_the_default_are_no_part_of_the_spec(id: str, default: dict[str, Any]) -> None:
    assert make(id, **default).spec == make(id).spec == ObjectSpec(id)
    assert make(id, **default | {"gamma": 0.5}).spec.text == f"{id}:gamma=0.5"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make("two-goal-v1"), ["'two-goal-v1'", "'two-goals-v1'"]),
        (lambda: make("rpvi"), ["'rpvi'", "'rpvi-v1'"]),
        (lambda: make("FrozenLak-v1"), ["'FrozenLak-v1'", "'FrozenLake-v1'"]),
        (lambda: make("rpvi-v1", epsilon=0.1, delta=0.01, rho=0.2), ["is an algorithm"]),
        (lambda: make("garnet-v1", n_state=3), ["'n_state'", "'n_states'"]),
        (lambda: make("gridworld-v1"), ["'layout'", "needed"]),
        (lambda: make("gymnasium/FrozenLake-v1", env=3), ["'env'"]),
        (lambda: build(ObjectSpec("rpvi-v1", {"epsilon": 0.1, "delta": 0.01})), ["'rho'", "needed"]),
        (lambda: build("rpvi-v1"), ["ObjectSpec"]),  # type: ignore[arg-type]  # the refusal is the point
    ],
)
def test_wrong_names_are_refused_with_the_right_ones(call: Any, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


# --- ids of your own ----------------------------------------------------------------------------------------------


def tiny(p: float = 0.5) -> rr.TabularMDP:
    return rr.TabularMDP.from_dense([[[1 - p, p]], [[0.0, 1.0]]], [[0.0], [1.0]], gamma=0.9)


@dataclass(frozen=True)
class Mine(rr.Algorithm):
    m: int = 3
    id: ClassVar[str] = "mine-v1"

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.Run.of({"policy": [0] * source.n_states}, samples=0)


class Impostor(Mine):
    id: ClassVar[str] = "mine-v1"


class Heir(Mine):
    pass


def test_an_id_of_your_own_builds_runs_and_reads_back() -> None:
    rr.register("tiny-v1", tiny)
    assert rr.register(Mine) is Mine
    mdp = make("tiny-v1", p=0.25)
    assert mdp.spec == ObjectSpec("tiny-v1", {"p": 0.25})
    assert make("tiny-v1", p=0.5).spec.text == "tiny-v1"
    assert (build(mdp.spec), build(ObjectSpec("mine-v1", {"m": 5}))) == (mdp, Mine(5))
    run = rr.solve(mdp, Mine(5), shared_seed=1, sample_seed=2)
    assert rebuilt(run) == run


def test_an_id_never_changes_its_meaning_but_a_cell_of_a_notebook_may_be_run_again() -> None:
    rr.register("tiny-v1", tiny)
    rr.register(Mine)
    rr.register("tiny-v1", tiny)  # the same
    cell = (
        "import replicable_rl as rr\ndef mine(n=3): return rr.make('chain-v1', n_states=n)\nrr.register('a-v1', mine)"
    )
    exec(cell, {"__name__": "notebook"})
    exec(cell.replace("n=3", "n=4"), {"__name__": "notebook"})  # it was mended
    assert make("a-v1").n_states == 4
    taken: list[tuple[Any, ...]] = [
        ("tiny-v1", lambda: tiny()),
        ("tiny-v1", functools.partial(tiny, p=0.9)),
        ("rpvi-v1", tiny),
        ("mine-v1", Mine),
        ("a-v1", tiny),
        (Impostor,),
    ]
    for arguments in taken:
        with pytest.raises(InvalidInput, match="is taken"):
            rr.register(*arguments)


@pytest.mark.parametrize("id", ["", "mine", "Mine-v1", "mine v1", "m/i-v1", None], ids=repr)
def test_ids_end_in_their_version(id: Any) -> None:
    for arguments in ((type("Nameless", (), {"id": id}),), (id, tiny), (Heir,), ("x-v1", 5)):
        with pytest.raises(InvalidInput, match=r"^register: "):
            rr.register(*arguments)  # an id is not inherited, and what makes a problem is callable


def test_another_process_is_told_of_levels_that_do_not_ship() -> None:
    assert unshipped_levels() == {}
    level = rr.register(rr.Level("weights"))
    assert unshipped_levels() == {"weights": level}
