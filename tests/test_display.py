"""How results look: short at a prompt, tables in a notebook, drawings and figures; and numbers as people write them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import Agreement, AuditResult, AuditSpec, Estimate
from replicable_rl.display import Displayed
from replicable_rl.logs import Dataset, compare_logs
from replicable_rl.problem import Labels, Rows
from replicable_rl.runs import Drawn, ObjectSpec
from replicable_rl.training import EpisodeReturns

HOSTILE = "<script>alert(1)</script>&\x1b[2J $x$"
MDP = rr.make("two-goals-v1")
LONGEST = 600


def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.integers(2)), 0.5


@cache
def log(rows: int = 60) -> Dataset:
    rng = np.random.default_rng(1)
    state, action = rng.integers(4, size=rows), rng.integers(2, size=rows)
    names = np.array([f"{HOSTILE} {s}" for s in range(4)])
    columns = {
        "state": names[state],
        "action": action,
        "reward": rng.random(rows),
        "next_state": names[(state + 1) % 4],
    }
    return rr.from_transitions(columns, gamma=0.5, reward_range=(0.0, 1.0))


def audit_of(runs: int, seeds: int) -> AuditResult:
    """Return an audit of very many runs, without making them: policies of one state, by the sample seed."""
    return rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=seeds, runs_per_seed=runs, name=HOSTILE)


def learned_by(shared_seeds: int) -> AuditResult:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [sample_seed % 2] * 3

    given: Any = {"evaluate": lambda policy: 2.5, "uniform": 3.0}
    return rr.audit_callable(train, shared_seeds=shared_seeds, **given)


@cache
def things() -> dict[str, Any]:
    """Return one of everything that people hold in their hands, many of them large."""
    big = 200_000
    chain = np.arange(big)
    rows = Rows(np.arange(big + 1), chain.astype(np.int32), np.ones(big), np.zeros(big))
    large = rr.TabularMDP(rows, n_actions=1, gamma=0.9, labels=Labels(states=tuple(map(str, chain))))
    plug_in = rr.PlugInPolicy(0.02, 0.01, 0.2, samples=100)
    cuts = rr.publish(MDP, plug_in, sample_seed=1)
    run = rr.solve(MDP, rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seed=1, sample_seed=2)
    large_run = rr.Run.of({"policy": np.zeros(big, dtype=np.int64)})
    audit = audit_of(4, 250)
    store = rr.RunStore()
    short_audit = rr.audit(MDP, rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    compared = rr.compare(MDP, algorithms=["greedy", "affordable"], start=64, most=128, shared_seeds=40)
    found = rr.diagnose(log(), resamples=10)
    algorithms: dict[str, Any] = {
        "phased": rr.ReplicablePhasedVI(0.1, 0.001, 0.2),
        "baseline": rr.PhasedVI(0.1, 0.001),
        "model": rr.ReplicableApproximateMDP(0.1, 0.001, 0.2),
        "rmax": rr.ReplicableRMax(0.1, 0.001, 0.2, horizon=10),
        "plug-in": plug_in,
    }
    return {
        **algorithms,
        **{f"plan of {name}": rr.plan(MDP, one) for name, one in algorithms.items()},
        "rstat": rr.theory.rstat(rho=0.25, delta=0.0625, tolerance=0.25),
        "schedule": rr.theory.Schedule.constant(1000, 3, 0.25),
        "problem": MDP,
        "large problem": large,
        "rows": large.rows,
        "labels": large.labels,
        "simulator": rr.Simulator(step, n_states=2, n_actions=2, gamma=0.9, reward_range=(0, 1), name=HOSTILE),
        "environment": rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0, 1)),
        "run": run,
        "large run": large_run,
        "failed run": rr.Run.failed(None, HOSTILE * 100),
        "run spec": run.spec,
        "family": audit.spec.family,
        "status": run.status,
        "claims": run.claims,
        "claim": run.claims.accuracy,
        "no claims": rr.Claims(missing={"accuracy": HOSTILE * 100}),
        "fingerprints": run.fingerprints,
        "object spec": ObjectSpec("a", {"b": list(range(1000)), "c": HOSTILE * 100}),
        "audit": audit,
        "short audit": short_audit,
        "audit spec": audit.spec,
        "audit spec of many seeds": AuditSpec(ObjectSpec("a"), ObjectSpec("b"), tuple(range(10_000))),
        "agreement": audit.agreement("policy"),
        "estimate": audit.agreement("policy").value,
        "states": audit.states,
        "class": audit.classes()[0],
        "worth": (short_audit.policies or ())[0],
        "store": store,
        "cuts": cuts,
        "rule": rr.rules.PublishedCuts(cuts),
        "comparison": compared,
        "compared": compared.rows[0],
        "calibration": compared.rows[0].calibration,
        "point": (compared.rows[0].calibration or compared).points[0],  # type: ignore[union-attr]
        "data": log(),
        "process": log().process,
        "summary": log().summary(),
        "diagnosis": found,
        "logs": compare_logs([log(), log(80)]),
        "optimum": rr.optimal_values(large),
        "worth of a policy": rr.evaluate_policy(large, np.zeros(big, dtype=np.int64)),
        "bins": rr.Bins(np.linspace(0, 1, 1000).tolist()),
        "shared": rr.SharedRandomness(3),
        "sample": Drawn(3),
        "recorded": log().sample,
        "level": rr.Level("own"),
        "drawing": rr.draw(run),
        "episodes": EpisodeReturns("FrozenLake-v1", env_options={"map_name": "4x4"}),
        "returns": learned_by(1000).returns,
        "accuracy": short_audit.accuracy,
    }


def test_every_result_is_short_at_a_prompt() -> None:
    for name, thing in things().items():
        said = repr(thing)
        assert len(said) <= LONGEST, f"{name}: {len(said)} characters"
        assert " at 0x" not in said, name
        assert "\x1b" not in said, name


def test_notebooks_show_what_print_does() -> None:
    for name, thing in things().items():
        if isinstance(thing, Displayed):
            html = thing._repr_html_()
            assert html.startswith(("<pre", "<div")), name
            assert "<script" not in html, name
            assert "\x1b" not in html, name
    shown = things()["short audit"]._repr_html_()
    assert "Same policy in" in shown


def test_warnings_come_first() -> None:
    result = learned_by(5)
    assert str(result).split("\n")[3].startswith("Warning: Every run takes one action")


def test_reprs_say_what_people_want_to_know() -> None:
    known = things()
    assert repr(known["agreement"]).startswith("Agreement(policy: 0.")
    assert "250 shared seeds × 4 runs; same policy 0." in repr(known["audit"])
    assert repr(known["object spec"]).startswith("ObjectSpec('a', {'b': [0, 1, 2, 3, 4, 5, … 1000 in all]")
    assert "accuracy and replicability claimed" in repr(known["plan of phased"])
    assert repr(known["store"]) == "RunStore(in memory)"
    assert repr(known["returns"]) == "Returns(mean 2.5 (2.5 to 2.5), 2000 episodes)"


# --- numbers -----------------------------------------------------------------------------------------


def test_estimates_and_agreements_are_alike() -> None:
    agreement = things()["agreement"]
    for one in (agreement, agreement.value, agreement.every_look, things()["diagnosis"].agreement):
        assert isinstance(one, (Agreement, Estimate))
        assert type(one.estimate) is float
        assert one.low <= one.estimate <= one.high


def test_a_whole_number_may_be_written_as_a_float() -> None:
    for other in (16.0, np.float32(16.0)):
        assert rr.PhasedVI(0.1, 0.01, calls=other) == rr.PhasedVI(0.1, 0.01, calls=16)  # type: ignore[arg-type]
    with pytest.raises(rr.InvalidInput, match="calls must be an integer"):
        rr.PhasedVI(0.1, 0.01, calls=1.5)  # type: ignore[arg-type]


def test_the_identity_of_1e6_is_that_of_a_million() -> None:
    written: list[tuple[Any, Any]] = [(1e6, 3.0), (10**6, 3)]
    runs = [
        rr.solve(MDP, rr.PhasedVI(0.1, 0.01, calls=calls), shared_seed=seed, sample_seed=seed)
        for calls, seed in written
    ]
    one, two = (run.spec for run in runs)
    assert one is not None
    assert two is not None
    assert one.digest == two.digest
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())
    assert runs[0] == runs[1]


def test_an_audit_is_judged_by_the_rho_that_is_asked_for() -> None:
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2)
    promised, asked = rr.audit(MDP, algorithm, shared_seeds=30), rr.audit(MDP, algorithm, shared_seeds=30, rho=0.01)
    assert (promised.rho, asked.rho) == (0.2, 0.01)
    assert "Met: it is at least 1 − ρ = 0.8" in " ".join(str(promised).split())
    assert "Undecided" in str(asked)
    assert asked.meets(0.99) is None  # 30 pairs cannot tell
    assert [run.key for run in promised.runs] == [run.key for run in asked.runs]  # the same runs, another question
    assert rr.audit(MDP, rr.PhasedVI(0.1, 0.01), shared_seeds=2).rho is None
    with pytest.raises(rr.InvalidInput, match="rho must lie strictly between 0 and 1, got 1"):
        rr.audit(MDP, algorithm, rho=1)
