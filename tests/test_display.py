"""Results at a prompt and in a notebook: short, safe, and what people want to know."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, AuditSpec
from replicable_rl.logs import Dataset
from replicable_rl.problem import Labels, Rows
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import Displayed

HOSTILE = "<script>alert(1)</script>&\x1b[2J $x$"
GRID = rr.make("two-goals-v1")
LONGEST = 600


@cache
def log(rows: int = 60) -> Dataset:
    rng = np.random.default_rng(1)
    state, action = rng.integers(4, size=rows), rng.integers(2, size=rows)
    names = np.array([f"{HOSTILE} {s}" for s in range(4)])
    columns = {"state": names[state], "action": action, "reward": rng.random(rows)}
    return rr.from_transitions(columns | {"next_state": names[(state + 1) % 4]}, gamma=0.5, reward_range=(0.0, 1.0))


def trained(shared_seeds: int, runs: int = 2) -> AuditResult:
    return rr.audit_callable(
        lambda shared, sample: [sample % 2] * 3,
        shared_seeds=shared_seeds,
        runs_per_seed=runs,
        name=HOSTILE,
        evaluate=lambda policy, seed: 2.5,
    )


@cache
def things() -> dict[str, Any]:
    """One of everything that people hold in their hands, many of them large."""
    chain = np.arange(200_000)
    rows = Rows(np.arange(chain.size + 1), chain.astype(np.int32), np.ones(chain.size), np.zeros(chain.size))
    large = rr.TabularMDP(rows, n_actions=1, gamma=0.9, labels=Labels(states=tuple(map(str, chain))))
    algorithm, audit, store = rr.ReplicablePhasedVI(0.1, 0.001, 0.2), trained(250, 4), rr.RunStore()
    run, cuts = (
        rr.solve(GRID, algorithm, shared_seed=1, sample_seed=2),
        rr.publish(GRID, rr.PlugInPolicy(0.02, 0.01, 0.2, samples=100), sample_seed=1),
    )
    return {
        "algorithm": algorithm,
        "plan": rr.plan(GRID, algorithm),
        "problem": GRID,
        "large problem": large,
        "rows": large.rows,
        "labels": large.labels,
        "run": run,
        "large run": rr.Run.of({"policy": np.zeros(chain.size, dtype=np.int64)}),
        "failed run": rr.Run.failed(None, HOSTILE * 100),
        "run spec": run.spec,
        "claims": run.claims,
        "no claims": rr.Claims(missing={"accuracy": HOSTILE * 100}),
        "fingerprints": run.fingerprints,
        "object spec": ObjectSpec("a", {"b": list(range(1000)), "c": HOSTILE * 100}),
        "audit": audit,
        "audit with losses": rr.audit(GRID, rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store),
        "audit spec of many seeds": AuditSpec(ObjectSpec("a"), ObjectSpec("b"), tuple(range(10_000))),
        "agreement": audit.agreement("policy"),
        "states": audit.states,
        "returns": audit.returns,
        "store": store,
        "cuts": cuts,
        "comparison": rr.compare(GRID, algorithms=["greedy", "affordable"], start=64, most=128, shared_seeds=40),
        "data": log(),
        "summary": log().summary(),
        "diagnosis": rr.diagnose(log(), resamples=10),
        "optimum": rr.optimal_values(large),
        "bins": rr.Bins(np.linspace(0, 1, 1000).tolist()),
        "shared": rr.SharedRandomness(3),
        "drawing": rr.draw(run),
    }


def test_every_result_is_short_and_safe_at_a_prompt_and_in_a_notebook() -> None:
    for name, thing in things().items():
        line = repr(thing)
        assert len(line) <= LONGEST, f"{name}: {len(line)} characters"
        assert " at 0x" not in line, name
        assert "\x1b" not in line, name
        if isinstance(thing, (Displayed, AuditResult)):
            html = thing._repr_html_()
            assert html.startswith(("<pre", "<div")), name
            assert "<script" not in html, name
            assert "\x1b" not in html, name


def test_a_whole_number_may_be_written_as_a_float() -> None:
    plain, other = (
        rr.solve(GRID, rr.PhasedVI(0.1, 0.01, calls=calls), shared_seed=seed, sample_seed=seed)  # type: ignore[arg-type]
        for calls, seed in ((10**6, 3), (1e6, 3.0))
    )
    assert json.dumps(plain.to_json()) == json.dumps(other.to_json())
    assert plain == other
    with pytest.raises(rr.InvalidInput, match="calls must be an integer"):
        rr.PhasedVI(0.1, 0.01, calls=1.5)  # type: ignore[arg-type]


def test_an_audit_is_judged_by_the_rho_that_is_asked_for() -> None:
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2)
    promised, asked = (rr.audit(GRID, algorithm, shared_seeds=30, rho=rho) for rho in (None, 0.01))
    assert (promised.rho, asked.rho) == (0.2, 0.01)
    assert "Met: it is at least 1 − ρ = 0.8" in " ".join(str(promised).split())
    assert "Undecided" in str(asked)
    assert [run.key for run in promised.runs] == [run.key for run in asked.runs]  # the same runs, another question
    with pytest.raises(rr.InvalidInput, match="rho must lie strictly between 0 and 1, got 1"):
        rr.audit(GRID, algorithm, rho=1)
