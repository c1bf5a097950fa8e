"""Ids, what they build, and that a record of a run is enough to run it again."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.cli.objects import parse_object
from replicable_rl.cli.options import whole
from replicable_rl.cli.problems import resolve_problem
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.problem import greedy
from replicable_rl.registry import (
    PROBLEMS,
    build,
    make,
    unshipped_levels,
)
from replicable_rl.runs import Drawn, ObjectSpec, RunSpec

NEEDED: dict[str, dict[str, Any]] = {"gridworld-v1": {"layout": "S.#/..G"}}  # what has no default
QUICK = rr.PhasedVI(0.2, 0.05, calls=100, iterations=3)


def rebuild(spec: RunSpec) -> rr.Run:
    """Run again from nothing but the text of a spec."""
    read = RunSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert read == spec
    assert read.digest == spec.digest
    return rr.solve(
        make(read.problem.id, **read.problem.params),
        build(read.algorithm),
        shared_seed=read.shared_seed,
        sample_seed=read.sample_seed,
    )


# --- every id ----------------------------------------------------------------------------------


@pytest.mark.parametrize("id", PROBLEMS)
def test_every_problem_is_built_and_solved_and_named(id: str) -> None:
    mdp = make(id, **NEEDED.get(id, {}))
    assert mdp.spec == ObjectSpec(id, NEEDED.get(id, {}))
    run = rr.solve(mdp, QUICK, shared_seed=5, sample_seed=6)
    assert run.q.shape == (mdp.n_states, mdp.n_actions)
    assert run.samples == 100 * 3 * mdp.n_states * mdp.n_actions
    assert run.spec is not None
    assert run.spec.problem.id == id
    again = rebuild(run.spec)
    assert again.q.tobytes() == run.q.tobytes()
    assert again.fingerprints == run.fingerprints
    assert again.spec == run.spec


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
        rr.ReplicablePhasedVI(0.2, 0.05, 0.3, calls=2**63 - 1, iterations=4),
        rr.ReplicablePhasedVI(0.2, 0.001, 0.3, iterations=4, tolerance=0.01, rho_sq=0.3, calls=1000),
    ],
    ids=["1e16", "2**63-1", "overridden"],
)
def test_a_run_is_rebuilt_from_its_spec_alone(id: str, params: dict[str, Any], algorithm: Any) -> None:
    run = rr.solve(make(id, **params), algorithm, shared_seed=2**64 - 1, sample_seed=2**63 + 1)
    assert run.spec is not None
    assert run.spec.problem.id == id
    again = rebuild(run.spec)
    assert again.q.tobytes() == run.q.tobytes()
    assert again.policy.tobytes() == run.policy.tobytes()
    assert again.to_json() == run.to_json()


def test_different_runs_have_different_specs() -> None:
    def digest(problem: str, algorithm: Any, shared: int, sample: int) -> str:
        spec = rr.solve(make(problem), algorithm, shared_seed=shared, sample_seed=sample).spec
        assert spec is not None
        return spec.digest

    digests = {
        digest("chain-v1", QUICK, 1, 2),
        digest("chain-v1", QUICK, 2, 1),
        digest("riverswim-v1", QUICK, 1, 2),
        digest("chain-v1", rr.PhasedVI(0.2, 0.05, calls=101, iterations=3), 1, 2),
        digest("chain-v1", rr.PhasedVI(0.2, 0.05, calls=100, iterations=3, target="value"), 1, 2),
    }
    assert len(digests) == 5


# --- what a spec holds -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "default"),
    [
        ("two-goals-v1", {"slip": 0.3, "gamma": 0.9}),
        ("garnet-v1", {"n_states": 20, "seed": 0}),
        ("garnet-v1", {"n_states": np.int64(20), "gamma": np.float64(0.9)}),
    ],
)
def test_parameters_equal_to_the_default_are_no_part_of_the_spec(id: str, default: dict[str, Any]) -> None:
    assert make(id, **default).spec == make(id).spec == ObjectSpec(id)
    assert make(id, **default).spec.to_json() == {"id": id, "params": {}}
    assert make(id, gamma=0.5, **{k: v for k, v in default.items() if k != "gamma"}).spec.text == f"{id}:gamma=0.5"


@pytest.mark.parametrize("calls", [1, 2**53 - 1, 2**53 + 1, -(2**70)])
def test_big_integers_survive_json(calls: int) -> None:
    spec = RunSpec(
        ObjectSpec("chain-v1"), ObjectSpec("rpvi-v1", {"calls": calls, "other": [calls]}), 2**64 - 1, Drawn(0)
    )
    text = json.dumps(spec.to_json())
    read = RunSpec.from_json(json.loads(text))
    assert read == spec
    assert read.algorithm.params["calls"] == calls
    assert type(read.algorithm.params["calls"]) is int
    assert read.algorithm.params["other"] == [calls]
    assert read.digest == spec.digest
    assert len(spec.digest) == 64
    # A reader that only knows doubles, as JavaScript does, reads the same bytes.
    assert RunSpec.from_json(json.loads(text, parse_int=lambda digits: int(float(digits)))) == spec
    neighbour = RunSpec(
        spec.problem, ObjectSpec("rpvi-v1", {"calls": calls + 1, "other": [calls]}), 2**64 - 1, Drawn(0)
    )
    assert neighbour.digest != spec.digest


# --- id:key=value ------------------------------------------------------------------------------


def test_reading_an_object() -> None:
    assert parse_object("two-goals-v1") == ObjectSpec("two-goals-v1")
    read = parse_object("x-v1:a=1,b=1.5,c=1e3,d=TRUE,e=false,f=8x8,g=,h=a=b,i=-3,j=1e-3,k=13_000").params
    expected = {"a": 1, "b": 1.5, "c": 1000, "d": True, "e": False, "f": "8x8", "g": "", "h": "a=b", "i": -3}
    assert read == {**expected, "j": 1e-3, "k": 13_000}
    assert type(read["c"]) is int
    assert math.isnan(parse_object("x-v1:a=nan").params["a"])


@pytest.mark.parametrize(
    "text", ["x-v1:a", "x-v1:=1", "x-v1:1a=1", "x-v1:a=1,b", "x-v1:a b=1", "x-v1:a=1 ,=2", "x-v1:a=1,a=1"]
)
def test_malformed_parameters(text: str) -> None:
    with pytest.raises(InvalidInput, match="parameters are written key=value"):
        parse_object(text)


# --- whole numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        ("13_000", 13_000),
        ("1e16", 10**16),
        ("1E3", 1000),
        ("1.3e7", 13_000_000),
        ("8.188e+15", 8_188_000_000_000_000),
        ("1.50e1", 15),
        (".5e1", 5),
        ("-2e2", -200),
        ("0e0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("9.223372036854775807e18", 2**63 - 1),  # a float could not
        ("123456789012345678901234567890123e2", 12345678901234567890123456789012300),
    ],
)
def test_whole_numbers(text: str, number: int) -> None:
    assert whole("--calls", text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1.5", "1e", "e3", "1e-3", "1.25e1", "1e1000", "nan", "²e3", "1..5e3"),
    ],
)
def test_no_whole_numbers(text: str) -> None:
    with pytest.raises(InvalidInput, match="--calls must be a whole number"):
        whole("--calls", text)


# --- wrong names -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("two-goal-v1", r"^No problem .* is called 'two-goal-v1'\. Did you mean 'two-goals-v1'\?"),
        ("rpvi", r"^No problem .* is called 'rpvi'\. Did you mean 'rpvi-v1'\?"),
        ("", "^No problem .* is called ''"),
        ("rpvi-v1", "parameter 'epsilon' is needed"),
    ],
)
def test_unknown_ids(id: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make(id)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: make("garnet-v1", n_state=3),
            r"^garnet-v1: there is no parameter 'n_state'\. Did you mean 'n_states'",
        ),
        (lambda: make("chain-v1", id=3), r"^chain-v1: there is no parameter 'id'\. It has: n_states, slip"),
        (lambda: make("gridworld-v1"), r"^gridworld-v1: parameter 'layout' is needed and was not given\.$"),
        (lambda: make("gridworld-v1", layout=np.array(["S.G"])), r"^gridworld-v1: parameter 'layout' must be"),
        (lambda: make("gymnasium/FrozenLake-v1", env=3), r"^FrozenLake-v1: there is no parameter 'env'"),
        (lambda: build(ObjectSpec("rpvi-v1", {"id": "x"})), r"^rpvi-v1: there is no parameter 'id'"),
        (
            lambda: build(ObjectSpec("rpvi-v1", {"epsilon": 0.1, "delta": 0.01})),
            r"^rpvi-v1: parameter 'rho' is needed",
        ),
        (
            lambda: build(ObjectSpec("phased-vi-v1", {"rho": 1})),
            r"^phased-vi-v1: there is no parameter 'rho'\. It has: epsilon",
        ),
    ],
)
def test_wrong_parameters(build: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()


# --- what the command line names ---------------------------------------------------------------


def test_resolving_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_problem("garnet-v1:n_states=7").spec == ObjectSpec("garnet-v1", {"n_states": 7})
    lake = rr.from_gymnasium("FrozenLake-v1", gamma=0.95, map_name="8x8")
    for text in ("FrozenLake-v1:gamma=0.95,map_name=8x8", "gymnasium/FrozenLake-v1:gamma=0.95,map_name=8x8"):
        assert resolve_problem(text) == lake
        assert resolve_problem(text).spec == lake.spec
    assert resolve_problem(lake.spec.text).spec == lake.spec
    rr.save(make("chain-v1"), tmp_path / "my.npz")
    rr.save(make("riverswim-v1"), tmp_path / "chain-v1")  # a file goes before an id, by any name
    monkeypatch.chdir(tmp_path)
    assert resolve_problem("my.npz") == make("chain-v1")
    assert resolve_problem(str(tmp_path / "my.npz")).spec.id == "mdp"
    assert resolve_problem("chain-v1") == make("riverswim-v1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("two-goal-v1", r"^No problem .* is called 'two-goal-v1'\. Did you mean 'two-goals-v1'\?"),
        ("FrozenLak-v1", r"^No problem .* is called 'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"),
        ("gymnasium/FrozenLak-v1", r"no environment is registered as 'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"),
        ("qqqq", r"^No problem .* is called 'qqqq'"),
        ("rpvi-v1:epsilon=0.1,delta=0.01,rho=0.2", "^rpvi-v1 is an algorithm"),
        ("FrozenLake-v1:env=3", r"^FrozenLake-v1: there is no parameter 'env'"),
        ("a\0b", "^No problem"),
    ],
)
def test_problems_that_cannot_be_resolved(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        resolve_problem(text)


def test_a_missing_file() -> None:
    with pytest.raises(InvalidFile, match=r"^nowhere\.npz: no such file\.$"):
        resolve_problem("nowhere.npz")


# --- ids of your own ---------------------------------------------------------------------------


def tiny(p: float = 0.5) -> rr.TabularMDP:
    return rr.TabularMDP.from_dense([[[1 - p, p]], [[0.0, 1.0]]], [[0.0], [1.0]], gamma=0.9)


@dataclass(frozen=True)
class Mine(rr.Algorithm):
    m: int = 3
    id: ClassVar[str] = "mine-v1"

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        policy = greedy(source.draw(self.m, rng).count[:4].reshape(2, 2))
        return rr.Run.of({"policy": policy}, samples=self.m * 2)


def test_an_id_of_your_own_builds_runs_and_reads_back() -> None:
    rr.register("tiny-v1", tiny)
    assert rr.register(Mine) is Mine
    mdp = make("tiny-v1", p=0.25)
    assert mdp.spec == ObjectSpec("tiny-v1", {"p": 0.25})
    assert make("tiny-v1", p=0.5).spec.text == "tiny-v1"
    assert build(mdp.spec) == mdp == resolve_problem("tiny-v1:p=0.25")
    assert build(ObjectSpec("mine-v1", {"m": 5})) == Mine(5)
    run = rr.solve(make("tiny-v1"), QUICK, shared_seed=1, sample_seed=2)
    assert run.spec is not None
    assert rebuild(run.spec) == run
    with pytest.raises(InvalidInput, match=r"^tiny-v1: there is no parameter 'q'\. Did you mean|It has: p\.$"):
        make("tiny-v1", q=1)


CELL = """
import dataclasses
import replicable_rl as rr

def problem(n=3):
    return rr.make("chain-v1", n_states=n)

rr.register("noted-v1", problem)
rr.register("nameless-v1", lambda n=3: rr.make("chain-v1", n_states=n))

@rr.register
@dataclasses.dataclass(frozen=True)
class Noted:
    id = "noted-algorithm-v1"
"""


def test_a_cell_of_a_notebook_may_be_run_again() -> None:
    for _ in range(2):
        exec(CELL, {"__name__": "notebook"})
    exec(CELL.replace("def problem(n=3)", "def problem(n=4)"), {"__name__": "notebook"})  # it was mended
    assert make("noted-v1").n_states == 4
    with pytest.raises(InvalidInput, match=r"^register: 'noted-v1' is taken, and an id never changes its mean"):
        exec(CELL, {"__name__": "another"})


def test_an_id_never_changes_its_meaning() -> None:
    class Impostor(Mine):
        id: ClassVar[str] = "mine-v1"

    rr.register("tiny-v1", tiny)
    rr.register(Mine)
    rr.register("partial-v1", functools.partial(tiny, p=0.1))
    taken: list[tuple[Any, ...]] = [
        ("tiny-v1", lambda: tiny()),
        ("chain-v1", tiny),
        ("rpvi-v1", tiny),
        ("mine-v1", Mine),
        ("partial-v1", functools.partial(tiny, p=0.9)),
        (Impostor,),
        (type("Copy", (), {"id": "phased-vi-v1"}),),
    ]
    for arguments in taken:
        with pytest.raises(InvalidInput, match=r"^register: '.*' is taken, and an id never changes its"):
            rr.register(*arguments)
    assert make("partial-v1") == tiny(0.1)


@pytest.mark.parametrize("id", ["", "mine", "Mine-v1", "mine v1", "m/i-v1", None], ids=repr)
def test_ids_end_in_their_version(id: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^register: the id of an algorithm is lower-case and ends in"):
        rr.register(type("Nameless", (), {"id": id}))
    with pytest.raises(InvalidInput, match=r"^register: the id of a problem is lower-case .*such as 'my-problem-v1'; "):
        rr.register(id, tiny)


def test_an_id_that_is_inherited_is_the_id_of_another() -> None:
    class Heir(Mine):
        pass

    for thing in (Heir, type("Bare", (), {})):
        with pytest.raises(InvalidInput, match=r"^register: the id of an algorithm is lower-case"):
            rr.register(thing)
    with pytest.raises(InvalidInput, match=r"^register: x-v1 must be made by something callable, got 5\.$"):
        rr.register("x-v1", 5)  # type: ignore[call-overload]  # the refusal is the point


def test_another_process_is_told_of_levels_that_do_not_ship() -> None:
    assert unshipped_levels() == {}
    level = rr.register(rr.Level("weights"))
    assert unshipped_levels() == {"weights": level}
