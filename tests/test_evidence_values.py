"""Every public entry point with wrong values: one sentence, or the answer for the number that the value equals."""

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
import json
import math
import os
import random
import types
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import errors
from replicable_rl.cli.main import main
from replicable_rl.cli.output import print_json
from replicable_rl.errors import shown
from replicable_rl.files import write_csv
from replicable_rl.mdp import _kernels, _sweeps
from replicable_rl.report.blocks import Code, DataTable
from replicable_rl.report.page import Page, Section, write

# --- the values --------------------------------------------------------------------------------


class Fails:
    """An object of a stranger: whatever is asked of it raises."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("no")

    __float__ = __int__ = __index__ = __repr__ = __len__ = __iter__ = __bool__ = __array__ = __fspath__ = _fail


class Pretends:
    """An object that says it is a number, and is none."""

    def __float__(self) -> float:
        return 0.25

    def __index__(self) -> int:
        return 2


EQUAL: list[tuple[Any, Any]] = [  # numbers of other types, and the Python numbers that they equal
    *((kind(0.25), 0.25) for kind in (np.float16, np.float32, np.float64, np.longdouble, Decimal, Fraction)),
    *((kind(0.3), float(kind(0.3))) for kind in (np.float16, np.float32, np.float64)),
    *((kind(3), 3) for kind in (np.int8, np.int64, np.uint8, np.uint64)),
    (np.array(0.25), 0.25),
    (np.array(3), 3),
    (np.array(0.3, dtype=np.float32), float(np.float32(0.3))),
    (Decimal(3), 3.0),
    (Fraction(3), 3.0),
    (np.bool_(True), True),
    (np.str_("policy"), "policy"),
]
PLAIN: list[Any] = [
    *(None, True, False, 0, 1, 2, 3, -1, 2**53 + 1, 2**63, 2**64, 10**30, 10**400, -(10**400), 10**5000),
    *(0.0, -0.0, 0.25, 0.5, 1.0, 1.5, -1.0, 1e-31, 5e-324, 1e300, 1e308, math.nan, math.inf, -math.inf),
    *("", "0.3", "nan", "policy", "x" * 5000, "\x1b[2J", "\ud800", b"", b"0.3"),
    *([], [0.3], [[0.3]], (), (1, 2, 3), {}, {"a": 1}, {1, 2}, range(2)),
    *(np.zeros((2, 0)), np.array([0.25, 0.75]), np.array([1, 0])),
]
NEVER: list[Any] = [  # nowhere a number, a text, an array or whatever else is asked for
    *(Decimal("0.3"), Fraction(3, 10), Decimal("nan"), Decimal("sNaN"), Decimal("1e400"), np.longdouble("0.3")),
    *(0.25j, np.complex128(0.25), np.datetime64("2020-01-01"), np.timedelta64(1, "s"), datetime(2020, 1, 1)),
    *(np.ma.masked, np.ma.array([0.25, 0.75], mask=[True, False]), np.array([0.25, None], dtype=object)),
    *(np.array(["a"]), np.array([0.25j]), np.array(["2020-01-01"], dtype="datetime64[D]")),
    *(Fails(), Pretends(), object(), slice(3), NotImplemented),
]
VALUES = len(EQUAL) + len(PLAIN) + len(NEVER)


# --- the entry points --------------------------------------------------------------------------


class Entry(NamedTuple):
    """A function with a call that is valid."""

    call: Callable[..., Any]
    given: dict[str, Any]


def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.integers(2)), 0.5


def train(shared_seed: int, sample_seed: int) -> Any:
    return np.array([0, 1])


def evaluate(policy: Any) -> float:
    return 0.5


MDP = rr.TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]], [[(1.0, 0, 0.25)]]], gamma=0.5)
P, R = np.array([[[0.5, 0.5]], [[1.0, 0.0]]]), np.array([[0.5], [0.25]])
PROMISE: dict[str, Any] = {"epsilon": 0.25, "delta": 0.0625, "rho": 0.25}
BASELINE: dict[str, Any] = {"epsilon": 0.25, "delta": 0.0625}
QUICK = rr.PhasedVI(0.25, 0.0625, calls=5, iterations=2)
ROUNDED = rr.ReplicablePhasedVI(0.25, 0.0625, 0.25, calls=5, iterations=2)
PROBLEM, ALGORITHM = rr.ObjectSpec("two-goals-v1"), rr.ObjectSpec("phased-vi-v1", {"epsilon": 0.1, "delta": 0.01})
AUDIT: dict[str, Any] = {"shared_seeds": 2, "runs_per_seed": 2, "seed": 0, "confidence": 0.95}
TRAINING: dict[str, Any] = {"evaluate": evaluate, "uniform": 0.25, "tolerance": 0.25, "delta": 0.25, "data": evaluate}
EXPLORE: dict[str, Any] = {"horizon": 3, "episodes": 4, "rounds": 2}
THEORY: dict[str, Any] = {"n_states": 2, "n_actions": 1, "gamma": 0.5}
SEARCH: dict[str, Any] = {"rho": 0.25, "epsilon": 0.25, "confidence": 0.5, "start": 4, "most": 8, "shared_seeds": 2}
PLUG_IN = rr.PlugInPolicy(0.25, 0.0625, 0.25, samples=5)
PLAIN_MODEL = rr.PlugInPolicy(0.25, 0.0625, 0.25, samples=5, rule="greedy")  # decides soonest
LOG = {"state": [0, 0, 1, 1], "action": [0, 1, 0, 1], "reward": [0.0, 1.0, 0.5, 0.5], "next_state": [1, 0, 0, 1]}
OTHER_LOG = LOG | {"reward": [0.0, 1.0, 0.5, 0.25]}
LOGGED = rr.from_transitions(LOG, gamma=0.5)
LOGS = [LOGGED, rr.from_transitions(OTHER_LOG, gamma=0.5)]
PLUG_IN_LOG = rr.PlugInPolicy(0.25, 0.0625, 0.25)
DIAGNOSIS = rr.diagnose(LOGGED, resamples=4)
CUTS = rr.publish(MDP, PLUG_IN, sample_seed=1)


COMPARISON = rr.compare(MDP, 0.25, 0.25, algorithms=[PLUG_IN], confidence=0.5, start=4, most=8, shared_seeds=4)
CALIBRATION = COMPARISON.rows[0].calibration
AGREEMENT = rr.audit(MDP, QUICK, shared_seeds=2)


def closed(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that draws and lets the figure go."""

    def drawn(**given: Any) -> str:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        axes = draw(**given)
        plt.close("all")
        return type(axes).__name__

    return drawn


def made(id: str) -> Callable[..., Any]:
    return lambda **params: rr.make(id, **params)


def entries() -> dict[str, Entry]:
    calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "draw": (rr.draw, {"solution": [0, 0], "other": [0, 0], "problem": MDP}),
        "plot.policy": (closed(rr.plot.policy), {"solution": [0, 0], "other": None, "problem": MDP, "ax": None}),
        "plot.agreement": (
            closed(lambda one, **given: rr.plot.agreement(one, **given)),
            {"one": AGREEMENT, "level": "policy", "names": ["a"], "ax": None},
        ),
        "plot.curve": (closed(rr.plot.curve), {"found": CALIBRATION, "of": "agreement", "ax": None}),
        "plot.frontier": (closed(rr.plot.frontier), {"found": COMPARISON, "ax": None}),
        "plot.fragile_states": (closed(rr.plot.fragile_states), {"found": DIAGNOSIS, "most": 3, "ax": None}),
        "ApproximateMDP": (rr.ApproximateMDP, BASELINE | {"norm": "entry", "calls": 5}),
        "ReplicableApproximateMDP": (
            rr.ReplicableApproximateMDP,
            PROMISE | {"calls": 5, "tolerance": 0.25, "form": "midpoint"},
        ),
        "PhasedVI": (rr.PhasedVI, BASELINE | {"target": "value", "calls": 5, "iterations": 2}),
        "ReplicablePhasedVI": (
            rr.ReplicablePhasedVI,
            PROMISE | {"target": "policy", "calls": 5, "iterations": 2, "tolerance": 0.25},
        ),
        "RMax": (rr.RMax, BASELINE | EXPLORE | {"known": 0.5, "tolerance": 0.25, "r_max": 1.0}),
        "ReplicableRMax": (rr.ReplicableRMax, PROMISE | EXPLORE | {"window": 0.5, "threshold": "fixed"}),
        "PlugInPolicy": (rr.PlugInPolicy, PROMISE | {"rule": "affordable", "samples": 5, "over": "worst"}),
        "PlugInPolicy, in episodes": (rr.PlugInPolicy, PROMISE | {"budget": 50, "horizon": 5}),
        "calibrate": (
            rr.calibrate, {"problem": MDP, "algorithm": PLAIN_MODEL} | SEARCH | {"level": "policy", "size": None}
        ),
        "compare": (
            rr.compare, {"problem": MDP} | SEARCH | {"algorithms": [PLAIN_MODEL], "delta": 0.0625, "share": None}
        ),
        "publish": (rr.publish, {"problem": MDP, "algorithm": PLUG_IN, "sample_seed": 1}),
        "rules.AffordableTolerance": (rr.rules.AffordableTolerance, {"order": (0,)}),
        "rules.PublishedCuts": (rr.rules.PublishedCuts, {"cuts": CUTS}),
        "rules.RandomTolerance": (rr.rules.RandomTolerance, {"tolerance": 0.25, "order": (0,)}),
        "rules.RoundedQ": (rr.rules.RoundedQ, {"width": 0.25}),
        "rules.SharedGumbel": (rr.rules.SharedGumbel, {"rate": 0.25}),
        "rules.Cuts": (
            rr.rules.Cuts,
            {"tolerances": [0.25, 0.5], "policy": [0, 0], "margins": [1.0, 2.0], "order": (0,), "problem": PROBLEM}
            | {"epsilon": 0.25, "samples": 5.0},
        ),
        "rules.Cuts.from_json": (rr.rules.Cuts.from_json, {"data": CUTS.to_json()}),
        "rules.Cuts.from_json, a field": (
            lambda **given: rr.rules.Cuts.from_json(CUTS.to_json() | given), CUTS.to_json()
        ),
        "rules.load_cuts": (rr.rules.load_cuts, {"path": "/nowhere"}),
        "rules.as_rule": (rr.rules.as_rule, {"value": "greedy"}),
        "rules.as_rule, a setting": (
            lambda tolerance, order: rr.rules.as_rule({"id": "tolerance", "tolerance": tolerance, "order": order}),
            {"tolerance": 0.25, "order": [0]},
        ),
        "SharedRandomness": (rr.SharedRandomness, {"seed": 7}),
        "TabularMDP": (rr.TabularMDP, {"rows": MDP.rows, "n_actions": 1, "gamma": 0.5, "estimated": False}),
        "TabularMDP.from_dense": (rr.TabularMDP.from_dense, {"P": P, "R": R, "gamma": 0.5, "layout": "sas"}),
        "TabularMDP.from_dense, more": (
            lambda initial, reward_range, labels: rr.TabularMDP.from_dense(
                P, R, gamma=0.5, initial=initial, reward_range=reward_range, labels=labels
            ),
            {"initial": None, "reward_range": None, "labels": None},
        ),
        "TabularMDP.from_sparse": (rr.TabularMDP.from_sparse, {"P": sparse(), "R": R, "gamma": 0.5}),
        "TabularMDP.from_outcomes": (rr.TabularMDP.from_outcomes, {"outcomes": [[[(1.0, 0, 0.5)]]], "gamma": 0.5}),
        "one outcome": (
            lambda probability, state, reward: rr.TabularMDP.from_outcomes(
                [[[(probability, state, reward)]]], gamma=0.5
            ),
            {"probability": 1.0, "state": 0, "reward": 0.5},
        ),
        "evaluate_policy": (rr.evaluate_policy, {"mdp": MDP, "policy": [0, 0], "tolerance": None}),
        "greedy": (rr.greedy, {"q": [[0.5, 0.25]]}),
        "gridworld": (rr.gridworld, {"layout": "S.G", "slip": 0.25, "gamma": 0.5, "goals": {"G": 1.0}}),
        "gridworld, a goal": (lambda reward: rr.gridworld("S.G", goals={"G": reward}), {"reward": 0.5}),
        "make": (lambda id: rr.make(id), {"id": "chain-v1"}),
        "make_algorithm": (lambda id, **given: rr.make_algorithm(id, **given), {"id": "phased-vi-v1"} | BASELINE),
        "optimal_values": (rr.optimal_values, {"mdp": MDP, "tolerance": 0.25}),
        "plan": (rr.plan, {"problem": MDP, "algorithm": QUICK}),
        "solve": (
            rr.solve,
            {"problem": MDP, "algorithm": QUICK, "shared_seed": 1, "sample_seed": 2},
        ),
        "from_transitions": (
            rr.from_transitions,
            {"source": LOG, "gamma": 0.5, "state": "state", "action": ["action"], "reward": "reward"}
            | {"next_state": "next_state", "reward_range": (0.0, 1.0), "initial": None, "states": None}
            | {"actions": [0, 1], "allowed": None},
        ),
        "from_transitions, episodes": (
            rr.from_transitions,
            {"source": LOG | {"over": [False, False, False, True], "game": [1, 1, 2, 2], "step": [1, 2, 1, 2]}}
            | {"gamma": 0.5, "done": "over"}
            | {"episode": "game", "order": "step"},
        ),
        "from_transitions, bins": (
            rr.from_transitions, {"source": LOG, "gamma": 0.5, "bins": {"state": rr.Bins([0.5])}}
        ),
        "Bins": (rr.Bins, {"edges": [0.5, 1.0]}),
        "from_transitions, a cell": (
            lambda state, reward: rr.from_transitions(
                {"state": [state, 0], "action": [0, 1], "reward": [reward, 0.5], "next_state": [0, 0]}, gamma=0.5
            ),
            {"state": 0, "reward": 0.25},
        ),
        "Dataset": (
            rr.Dataset,
            {"process": LOGGED.process, "state": [0, 1], "action": [1, 0], "successor": [1, 1], "reward": [0.5, 0.25]}
            | {"count": [3, 4], "early": [1, 2], "starts": [1, 0], "broken": 0, "width": 0.5, "cut": 0}
            | {"after": 0, "ended": [1, 0]},
        ),
        "Dataset.split": (LOGGED.split, {"parts": 2, "seed": 1}),
        "load_dataset": (rr.load_dataset, {"path": "/nowhere"}),
        "same_process": (rr.same_process, {"one": LOGGED, "two": LOGGED}),
        "from_logs": (rr.from_logs, {"sources": [LOG, OTHER_LOG], "gamma": 0.5, "reward_range": (0.0, 1.0)}),
        "align": (rr.align, {"logs": LOGS}),
        "compare_logs": (rr.compare_logs, {"logs": LOGS, "alarm": 0.25}),
        "audit, logs": (
            lambda one, shared_seeds: rr.audit([one, LOGS[1]], PLUG_IN_LOG, shared_seeds=shared_seeds).agreements,
            {"one": LOGS[0], "shared_seeds": 1},
        ),
        "AuditResult.table": (rr.audit(MDP, QUICK, **AUDIT).table, {"width": 80}),
        "Calibration.table": (rr.calibrate(MDP, PLUG_IN_LOG, start=4, most=8, shared_seeds=4).table, {"width": 80}),
        "Comparison.table": (rr.compare(MDP, algorithms=["greedy"], most=8, shared_seeds=4).table, {"width": 80}),
        "Diagnosis.text": (DIAGNOSIS.text, {"width": 80, "target": 0.5, "rules": False}),
        "Diagnosis.to_json": (DIAGNOSIS.to_json, {"target": 0.5, "rules": False}),
        "Diagnosis.save_page": (
            lambda target, name: DIAGNOSIS.save_page(os.devnull, target=target, name=name),
            {"target": 0.5, "name": "a log"},
        ),
        "diagnose": (
            rr.diagnose,
            {"data": LOGGED, "algorithm": rr.PlugInPolicy(0.25, 0.0625, 0.25), "shared_seed": 1, "resamples": 4}
            | {"confidence": 0.5, "seed": 1},
        ),
        "Diagnosis.data_needed": (DIAGNOSIS.data_needed, {"target": 0.5}),
        "load_mdp": (rr.load_mdp, {"path": "/nowhere"}),
        "load_run": (rr.load_run, {"directory": "/nowhere"}),
        "audit": (rr.audit, {"problem": MDP, "algorithm": QUICK} | AUDIT | {"rho": 0.25}),
        "theory.approximate_mdp": (
            rr.theory.approximate_mdp,
            {"n_states": 2, "n_actions": 1} | PROMISE | {"norm": "l1", "form": "midpoint", "known_rewards": True}
            | {"calls": 5, "tolerance": 0.25},
        ),
        "theory.phased_vi": (
            rr.theory.phased_vi,
            {"pairs": 2, "gamma": 0.5} | PROMISE | {"target": "value", "known_rewards": True}
            | {"calls": 5, "iterations": 2, "tolerance": 0.25, "rho_sq": 0.125},
        ),
        "theory.phased_vi, sharp": (rr.theory.phased_vi, {"pairs": 2, "gamma": 0.5} | PROMISE),
        "theory.plug_in_policy": (
            rr.theory.plug_in_policy,
            THEORY | PROMISE | {"rule": "tolerance", "known_rewards": True, "over": "initial", "samples": 5}
            | {"parameter": 0.25},
        ),
        "theory.plug_in_policy, budget": (rr.theory.plug_in_policy, THEORY | PROMISE | {"budget": 5}),
        "theory.plug_in_policy_epsilon": (
            rr.theory.plug_in_policy_epsilon,
            {"samples": 10**12} | THEORY | {"delta": 0.0625, "rho": 0.25, "rule": "rounded", "known_rewards": True},
        ),
        "theory.rmax": (
            rr.theory.rmax,
            THEORY | PROMISE | EXPLORE | {"support": 2, "form": "midpoint", "known": 0.5}
            | {"window": 0.5, "tolerance": 0.25, "known_rewards": True},
        ),
        "theory.rstat": (rr.theory.rstat, {"rho": 0.25, "delta": 0.0625, "tolerance": 0.25, "form": "midpoint"}),
        "theory.rstat, samples": (rr.theory.rstat, {"rho": 0.25, "delta": 0.0625, "samples": 9}),
        "theory.paper_phased_vi": (
            rr.theory.paper_phased_vi,
            {"pairs": 2, "gamma": 0.5} | PROMISE | {"target": "value", "known_rewards": True, "tolerance": 0.25},
        ),
        "theory.paper_approximate_mdp": (
            rr.theory.paper_approximate_mdp,
            {"n_states": 2, "n_actions": 1} | PROMISE | {"norm": "l1", "form": "midpoint", "known_rewards": True},
        ),
        "theory.paper_rmax": (rr.theory.paper_rmax, THEORY | PROMISE | {"horizon": 3, "known_rewards": True}),
        "theory.Units": (rr.theory.Units, {"gamma": 0.5, "low": 0.0, "high": 1.0}),
        "theory.Schedule.constant": (rr.theory.Schedule.constant, {"iterations": 2, "calls": 3, "width": 0.25}),
        "queries.rstat": (rr.queries.rstat, {"means": [0.25], "offset": 0.5, "width": 0.25, "form": "midpoint"}),
        "queries.RStat": (
            rr.queries.RStat,
            {"shared": rr.SharedRandomness(1), "label": "a", "width": 0.25, "form": "midpoint"},
        ),
        "queries.ingredient": (rr.queries.ingredient, {"kind": "estimate", "value": "plain"}),
        "ObjectSpec": (rr.ObjectSpec, {"id": "a", "params": {"b": 1}}),
        "ObjectSpec, a parameter": (lambda value: rr.ObjectSpec("a", {"b": value}), {"value": 1}),
        "RunSpec": (
            rr.RunSpec, {"problem": PROBLEM, "algorithm": ALGORITHM, "shared_seed": 1, "sample": rr.Drawn(2)}
        ),
        "build": (rr.build, {"spec": PROBLEM}),
        "Simulator": (
            rr.Simulator,
            {"step": step, "n_states": 2, "n_actions": 1, "gamma": 0.5, "reward_range": (0.0, 1.0), "initial": None}
            | {"vectorized": False, "name": "a", "version": "1", "budget": 100},
        ),
        "EpisodicEnv": (
            rr.EpisodicEnv,
            {"env": "FrozenLake-v1", "gamma": 0.5, "reward_range": (0.0, 1.0), "version": "1", "budget": 100}
            | {"allowed": None},
        ),
        "from_gymnasium": (rr.from_gymnasium, {"env": "FrozenLake-v1", "gamma": 0.5}),
        "audit_callable": (rr.audit_callable, {"train": train} | AUDIT | {"rho": 0.25} | TRAINING),
        "EpisodeReturns": (rr.EpisodeReturns, {"env": "FrozenLake-v1", "episodes": 2, "gamma": 0.25, "max_steps": 3}),
        "visited_observations": (
            rr.visited_observations,
            {"env": "FrozenLake-v1", "policy": [1] * 16, "n": 3, "seed": 0, "distinct": True, "env_options": {}},
        ),
        "AuditSpec": (
            rr.AuditSpec,
            {"problem": PROBLEM, "algorithm": ALGORITHM} | AUDIT | {"rho": 0.25, "require": 0.25, "level": "policy"},
        ),
        "Claim": (
            rr.Claim,
            {"about": "accuracy", "kind": "proved", "statement": "a", "bound": 0.25, "source": "b", "failure": 0.25},
        ),
        "Level": (rr.Level, {"name": "a", "implies": ("policy",)}),
        "register_level": (rr.register_level, {"level": rr.Level("evidence-values")}),
        "register_problem": (rr.register_problem, {"id": "chain-v1", "constructor": rr.envs.chain}),
        "register_algorithm": (rr.register_algorithm, {"algorithm": rr.PhasedVI}),
    }  # fmt: skip
    calls |= {
        id: (made(id), params)
        for id, params in {
            "riverswim-v1": {"n_states": 3, "gamma": 0.5, "small_reward": 0.25},
            "chain-v1": {"n_states": 3, "slip": 0.25, "gamma": 0.5, "small_reward": 0.25},
            "garnet-v1": {"n_states": 3, "n_actions": 2, "branching": 2, "gamma": 0.5, "seed": 1},
            "inventory-v1": {"capacity": 3, "demand": 1.5, "price": 2.0, "unit_cost": 1.0, "holding_cost": 0.25}
            | {"lot": 2},
            "admission-v1": {"capacity": 3, "arrival": 0.25, "service": 0.5, "reward": 2.0, "waiting_cost": 0.25}
            | {"gamma": 0.5},
            "machine-repair-v1": {"n_states": 3, "wear": 0.25, "breakdown": 0.25, "repair_cost": 1.0, "gamma": 0.5},
        }.items()
    }
    return {name: Entry(*one) for name, one in calls.items()}


def sparse() -> list[Any]:
    import scipy.sparse as sp

    return [sp.csr_array(P[:, 0, :])]


# --- what may happen ---------------------------------------------------------------------------

WORDS = {  # by the names that annotations use: which kinds of plain values they allow
    bool: ("bool", "ArrayLike"),
    np.ndarray: ("ArrayLike", "NDArray", "Floats", "Sequence", "tuple"),
    set: ("Sequence", "tuple"),
    int: ("int", "float", "ArrayLike", "Json"),
    float: ("float", "ArrayLike", "Json"),
    str: ("str", "Literal", "Target", "Norm", "Form", "Bound", "Json", "Path"),
    dict: ("Mapping", "dict", "Json"),
    list: ("Sequence", "list", "tuple", "ArrayLike", "Floats", "Json"),
    tuple: ("Sequence", "tuple", "ArrayLike", "Floats", "Json"),
    range: ("Sequence", "tuple", "ArrayLike", "Floats"),
}


def parameters(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a call with what they are annotated with; '' where nothing is said."""
    said = inspect.signature(entry.call).parameters
    for name in entry.given:
        one = said.get(name)
        yield name, "" if one is None or one.annotation is one.empty else str(one.annotation)


def fits(value: object, annotation: str) -> bool:
    """Whether a parameter may take a plain value, going by its annotation."""
    if annotation in ("", "Any"):
        return True
    if value is None:
        return "None" in annotation
    if isinstance(value, float) and value.is_integer() and "int" in annotation:  # 1e6 is a whole number
        return True
    return any(word in annotation for word in WORDS.get(type(value), ()))


def same(one: Any, two: Any) -> bool:
    if isinstance(one, rr.TabularMDP):
        return bool(one == two) and one.spec == two.spec
    if hasattr(one, "to_json"):
        return type(one) is type(two) and bool(one.to_json() == two.to_json())
    if isinstance(one, (rr.Simulator, rr.EpisodicEnv)):
        return repr(one.spec) == repr(two.spec) and one.most_samples == two.most_samples
    return type(one) is type(two) and repr(one) == repr(two)


def outcome(entry: Entry, name: str, value: Any) -> Any:
    """Return what a call returns, or the exception that it raises."""
    np.random.seed(0)  # noqa: NPY002  # nothing may draw from it; if something does, twice the same
    random.seed(0)
    try:
        return entry.call(**(entry.given | {name: value}))
    except Exception as error:
        return error


def wrong(entry: Entry, name: str, annotation: str, value: Any, kind: str, expected: Callable[[], Any]) -> str:
    """Say what is wrong with the outcome of a call; '' if nothing is."""
    got = outcome(entry, name, value)
    if isinstance(got, rr.InvalidInput):
        text = str(got)
        if len(text) > 1000 or not text.isprintable() or "\n" in text:
            return f"refuses in {len(text)} characters: {text[:200]!r}"
        return ""
    if isinstance(got, Exception):
        return f"raises {type(got).__name__}"
    if kind == "equal":
        return "" if same(got, expected()) else f"{shown(got)} and not {shown(expected())}"
    is_right = kind == "plain" and fits(value, annotation)
    return "" if is_right or annotation in ("", "Any") else f"accepts it: {shown(got)}"


def combinations(entry: Entry) -> Iterator[tuple[str, str, Any, Any, str]]:
    for name, annotation in parameters(entry):
        yield from ((name, annotation, value, equal, "equal") for value, equal in EQUAL)
        yield from ((name, annotation, value, value, "plain") for value in PLAIN)
        yield from ((name, annotation, value, value, "never") for value in NEVER)


def faults(entry: Entry) -> list[str]:
    found = []
    answers: dict[tuple[str, type, Any], Any] = {}  # several values equal one number

    def answer(name: str, equal: Any) -> Any:
        key = (name, type(equal), equal)
        if key not in answers:
            answers[key] = outcome(entry, name, equal)
        return answers[key]

    for name, annotation, value, equal, kind in combinations(entry):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = wrong(entry, name, annotation, value, kind, functools.partial(answer, name, equal))
        if said:
            found.append(f"{name}={shown(value)} ({type(value).__name__}) {said}")
    return found


# --- the tests ---------------------------------------------------------------------------------

ENTRIES = entries()

# Nobody calls these with values of their own: results, protocols, exceptions, names of kinds, and what has no values.
NO_ENTRIES = {
    *("Agreement", "AuditResult", "Claims", "Estimate", "Fingerprints", "InvalidInput", "Run", "RunFailed", "Status"),
    *("StatusCode", "quiet", "Drawn", "Recorded", "Labels", "Calibration", "Comparison"),
    *("theory.ApproximateMDPPlan", "theory.PhasedVIPlan", "theory.Plan", "theory.PlanTable", "theory.RMaxPlan"),
    *("theory.RStatPlan", "queries.Estimate", "queries.Fixed", "queries.Means", "queries.Plain", "queries.Query"),
    *("queries.Randomised", "queries.Rounded", "queries.RoundedMeans", "queries.Threshold"),
    *("theory.PlugInPlan", "rules.Decision", "rules.Greedy", "rules.Margin", "rules.Rule", "rules.Tuning"),
    *("rules.choose_cuts",),  # takes an empirical model, which `publish` makes
}
OTHER_TESTS = {  # of stores and files, where a call takes long: test_store.py, test_run_files.py, test_sb3.py
    *("RunStore", "StableBaselines3", "read_audits", "run_audits", "save_run"),
}


def test_every_public_entry_point_is_tried() -> None:
    rooms = {"": rr, "theory.": rr.theory, "queries.": rr.queries, "rules.": rr.rules, "plot.": rr.plot}
    public = {
        f"{room}{name}"
        for room, module in rooms.items()
        for name in module.__all__
        if callable(getattr(module, name)) and not isinstance(getattr(module, name), types.ModuleType)
    }
    tried = {name.partition(",")[0] for name in ENTRIES}
    tried |= {name.rpartition(".")[0] for name in tried}
    assert public - tried - NO_ENTRIES - OTHER_TESTS == set()
    assert public >= NO_ENTRIES | OTHER_TESTS


def test_the_valid_calls_are_valid() -> None:
    missing = {"load_dataset", "load_mdp", "load_run", "rules.load_cuts"}  # their files
    for name, entry in ENTRIES.items():
        with pytest.raises(rr.InvalidInput, match="/nowhere") if name in missing else contextlib.nullcontext():
            entry.call(**entry.given)


@pytest.mark.usefixtures("one_database")
@pytest.mark.parametrize("name", ENTRIES)
def test_a_wrong_value_gets_one_sentence_or_the_answer_of_its_equal(name: str) -> None:
    assert faults(ENTRIES[name]) == []


def test_a_planted_crash_and_a_planted_wrong_answer_are_found() -> None:
    def crashes(share: float) -> float:
        return 1.0 / share if share is not None else 0.0

    def rounds(share: float) -> Any:
        share = errors.check_share("rounds", "share", share)
        return np.float32(share)  # another number than the one that was given

    def normal(share: float) -> float:
        return errors.check_share("normal", "share", share)

    assert any("raises" in fault for fault in faults(Entry(crashes, {"share": 0.5})))
    assert any("accepts" in fault for fault in faults(Entry(crashes, {"share": 0.5})))
    assert faults(Entry(lambda share: share * 1, {"share": 0.5})) != []
    assert faults(Entry(normal, {"share": 0.5})) == []
    assert faults(Entry(rounds, {"share": 0.5})) == []  # the same for equal numbers, however odd


# --- one number, one run -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_a_number_of_another_type_is_the_float_that_it_equals(kind: Any) -> None:
    one = rr.ReplicablePhasedVI(kind(0.25), kind(0.0625), kind(0.3125))
    two = rr.ReplicablePhasedVI(0.25, 0.0625, 0.3125)
    assert one == two
    assert {type(one.epsilon), type(one.delta), type(one.rho)} == {float}
    runs = [rr.solve(MDP, each, shared_seed=1, sample_seed=2) for each in (one, two)]
    assert runs[0].spec == runs[1].spec
    assert runs[0].fingerprints == runs[1].fingerprints
    third = rr.PhasedVI(np.float32(0.3), 0.0625)  # type: ignore[arg-type]  # a number of another type
    assert third.epsilon == 0.30000001192092896 != 0.3


def test_numbers_that_no_float_equals_are_refused() -> None:
    for number in (Decimal("0.3"), Fraction(3, 10), np.longdouble("0.3")):
        with pytest.raises(rr.InvalidInput, match=r"PhasedVI: epsilon must be a number that 64 bits hold exactly, got"):
            rr.PhasedVI(number, 0.0625)  # type: ignore[arg-type]  # the refusal is the point
    with pytest.raises(rr.InvalidInput, match="exactly"):
        rr.TabularMDP.from_dense(P, np.array([[2**53 + 1], [0]]), gamma=0.5)


@pytest.mark.parametrize(
    "rewards",
    [
        np.array([["2020-01-01"], ["2020-01-02"]], dtype="datetime64[D]"),
        np.array([[1], [2]], dtype="timedelta64[s]"),
        [["0.5"], ["0.25"]],
        [[b"0.5"], [b"0.25"]],
        [[0.5j], [0.25]],
        [[None], [0.25]],
    ],
    ids=["dates", "times", "texts", "bytes", "complex", "nothing"],
)
def test_what_is_no_number_is_no_reward(rewards: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^TabularMDP: R must be an array of numbers, got "):
        rr.TabularMDP.from_dense(P, rewards, gamma=0.5)
    with pytest.raises(rr.InvalidInput, match=r"row \(state 0, action 0\) holds something else"):
        rr.TabularMDP.from_outcomes([[[(1.0, 0, np.asarray(rewards)[0, 0])]]], gamma=0.5)


def test_what_is_masked_is_refused_and_not_chosen() -> None:
    q = np.ma.array([[0.25, 0.75]], mask=[[False, True]])
    for call in (lambda: rr.greedy(q), lambda: rr.greedy([q[0]]), lambda: rr.evaluate_policy(MDP, np.ma.array([0, 0]))):
        with pytest.raises(rr.InvalidInput, match="mask"):
            call()
    for masked in (np.ma.array(P, mask=P > 0.9), [np.ma.array(row) for row in P]):
        with pytest.raises(rr.InvalidInput, match="P must be an array of numbers"):
            rr.TabularMDP.from_dense(masked, R, gamma=0.5)


# --- planning ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("power", [4, 6, 7, 9, 12])
def test_planning_ends_where_gamma_is_very_near_one(power: int) -> None:
    """Two states that swap: values by hand, in rational numbers."""
    mdp = rr.TabularMDP.from_outcomes([[[(1.0, 1, 0.0)]], [[(1.0, 0, 1.0)]]], gamma=1.0 - 10.0**-power)
    gamma = Fraction(mdp.gamma)
    exact = [gamma / (1 - gamma**2), 1 / (1 - gamma**2)]
    best, value = rr.optimal_values(mdp), rr.evaluate_policy(mdp, [0, 0])
    for found, error in ((best.value, best.error), (value.value, value.error)):
        assert max(abs(Fraction(float(one)) - two) for one, two in zip(found, exact, strict=True)) <= Fraction(error)
        assert error <= 1e-14 / (1.0 - mdp.gamma) ** 2
    assert best.sweeps <= 20_000_000


@pytest.mark.parametrize("n_states", [3, 40])
def test_planning_directly_finds_what_sweeps_find(n_states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n_states)
    transitions = rng.dirichlet(np.full(n_states, 0.1), size=(n_states, 3))
    mdp = rr.TabularMDP.from_dense(transitions, rng.random((n_states, 3)), gamma=0.999, layout="sas")
    sweeps = rr.optimal_values(mdp)
    monkeypatch.setattr(_sweeps, "_ROUNDS", 0)
    solved = rr.optimal_values(mdp)
    assert solved.converged
    assert solved.sweeps < 50  # backups alone
    assert solved.policy.tolist() == sweeps.policy.tolist()
    assert np.abs(solved.q - sweeps.q).max() <= solved.error + sweeps.error


def test_planning_without_elimination_ends_with_what_it_can_certify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sweeps, "_ROUNDS", 3)
    monkeypatch.setattr(_sweeps, "_FEW_STATES", 1)
    mdp = rr.TabularMDP.from_outcomes([[[(1.0, 1, 0.0)]], [[(1.0, 0, 1.0)]]], gamma=1.0 - 1e-6)
    best = rr.optimal_values(mdp)
    assert not best.converged
    assert best.sweeps <= 4 * 1001
    assert abs(best.value[0] - 499999.75) <= best.error


def test_a_wrong_elimination_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate comes from a backup: whatever elimination returns, the error that is said holds."""
    monkeypatch.setattr(_sweeps, "_ROUNDS", 0)
    monkeypatch.setattr(_kernels, "policy_value", lambda *arguments: arguments[-1].fill(0.0))
    best = rr.optimal_values(MDP)
    monkeypatch.undo()
    true = rr.optimal_values(MDP)
    assert not best.converged
    assert np.abs(best.q - true.q).max() <= best.error + true.error


# --- a stranger's text -------------------------------------------------------------------------

COMMANDS = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_no_text_commands_the_terminal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    labels = rr.Labels(states=(COMMANDS, "b"), actions=(f"go{COMMANDS}",))
    mdp = rr.TabularMDP.from_dense(P, R, gamma=0.5, labels=labels)
    path = tmp_path / f"a{COMMANDS}.npz"
    mdp.save(path)
    promise = ["phased-vi-v1", "--epsilon", "0.25", "--delta", "0.01", "--calls", "5", "--iterations", "2"]
    seeds = ["--shared-seed", "1", "--sample-seed", "2"]
    assert main(["solve", str(path), *promise, *seeds]) == 0
    for wrong_call in (
        ["solve", f"{path}x", *promise, *seeds],
        ["solve", COMMANDS, *promise, *seeds],
        ["solve", "chain-v1", COMMANDS, *seeds],
        [COMMANDS],
        ["list", COMMANDS],
        ["--plugin", COMMANDS, "list"],
        ["report", f"{path}.sqlite"],
    ):
        assert main(wrong_call) == 2, wrong_call
    said = "".join(capfd.readouterr())
    assert "\\x1b" in said  # shown
    assert not [letter for letter in said if not letter.isprintable() and letter != "\n"]


def test_json_on_the_terminal_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = {f"{COMMANDS}\x7f\r": ["\x7f\u2028", 1]}
    print_json(data)
    said = capsys.readouterr().out
    assert json.loads(said) == data
    assert said.removesuffix("\n").isprintable()


def test_a_page_holds_no_commands_and_can_be_written(tmp_path: Path) -> None:
    text = f"{COMMANDS}\ud800<b>"
    page = Page(text, [Code(text)], [Section("a", text, [DataTable(["a"], [[text]], text)])])
    write(page, tmp_path / "a.html")
    html = (tmp_path / "a.html").read_text()
    assert "\\x1b" in html
    assert not [
        letter for letter in html if unicodedata.category(letter) in ("Cc", "Cf", "Cs") and letter not in "\n\t"
    ]


def test_a_text_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    texts = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "a=1", "-0.5", "-inf", "1e5", "\x1b"]
    write_csv(path, [{"=name": text, "number": -0.5} for text in texts] + [{"number": 3}])
    with path.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["'=name", "number"]
    assert [row[0] for row in rows] == [*(f"'{text}" for text in texts[:5]), *texts[5:-1], "\\x1b", ""]
    assert {row[1] for row in rows} == {"-0.5", "3"}


def test_a_file_that_is_no_archive_gets_a_sentence_of_our_own(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for content in (b"", b"text", b"\x80\x04K\x01.", b"PK\x03\x04 and more", b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        with pytest.raises(rr.InvalidInput) as caught:
            rr.load_mdp(path)
        assert "pickle" not in str(caught.value)
        assert "not a replicable-rl mdp file" in str(caught.value)


def test_refusals_are_short_and_printable() -> None:
    for text in ("x" * 10**6, COMMANDS * 10**4):
        for call in (lambda t: rr.make(t), lambda t: rr.PhasedVI(t, 0.1), lambda t: rr.load_mdp(t), errors.InvalidFile):
            try:
                refusal: Any = call(text)
            except rr.InvalidInput as error:
                refusal = error
            assert len(str(refusal)) <= 1000
            assert str(refusal).isprintable()
    with pytest.raises(
        rr.InvalidInput, match=r"^PhasedVI: epsilon must .*, got 'x{39}\.\.\. \(1000002 characters\)\.$"
    ):
        rr.PhasedVI("x" * 10**6, 0.1)  # type: ignore[arg-type]  # the refusal is the point
