"""Figure 1 of the paper: two samples, two policies, two goals; and rPVI, which gives one.

Phased Q-learning and rPVI run under one shared seed with the same sample seeds and the same number of samples,
the one that ``thm:rpvi`` asks for. Among Phased Q-learning's runs we look, in the order of their sample seeds,
for the first whose policy more often ends in the left goal and the first whose policy more often ends in the
right one; rPVI's two runs are those with the same two sample seeds. In which goal a policy ends is not
simulated but computed: goals absorb, so with Q the moves among the other states under the policy and R those
into the goals,

    (I - Q) B = R,        B[s, g] = the probability of ending in goal g from s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit import AuditResult
from replicable_rl.canonical import Json
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.lab import CONFIDENCE, SHARED_SEED, Scale, Study
from replicable_rl.experiments.shares import modal_share
from replicable_rl.records import ObjectSpec, RunRecord
from replicable_rl.registry import make
from replicable_rl.theory import phased_vi

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP

__all__ = ["NAME", "TITLE", "analyse", "goal_probabilities", "plan"]

NAME = "figure1"
TITLE = "Figure 1: two samples, two policies"

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
EPSILON, DELTA, RHO = 0.1, 0.001, 0.2
RPVI, PLAIN = "Replicable Phased Value Iteration", "Phased Q-learning"
_SEARCHED = 32  # each goal is as likely as the other: one of them is missed once in 2**31 searches


def plan(scale: Scale) -> list[Study]:
    """Phased Q-learning and rPVI with the same calls and the same sample seeds, which follow from the shared seed."""
    studies = []
    for grid in GRIDS:
        problem = make(grid)
        calls = phased_vi(problem.n_states * problem.n_actions, problem.gamma, EPSILON, DELTA, RHO).calls_needed
        for name, id, params in ((PLAIN, "phased-vi-v1", {}), (RPVI, "rpvi-v1", {"rho": RHO})):
            algorithm = ObjectSpec(id, {"epsilon": EPSILON, "delta": DELTA, **params, "calls": calls})
            about = ("problem", grid), ("algorithm", name)
            studies.append(Study(ObjectSpec(grid), algorithm, (SHARED_SEED,), _SEARCHED, about=about))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Find the two samples of every grid, and lay out what each algorithm made of them."""
    runs: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    maps: dict[str, Json] = {}
    for i, grid in enumerate(GRIDS):
        problem = make(grid)
        two = list(zip(studies, results, strict=True))[2 * i : 2 * i + 2]
        plain = two[0][1]
        chosen = _first_left_and_right([_ends(problem, plain, record) for record in plain.records])
        for study, result in two:
            for number, j in enumerate(chosen, start=1):
                runs.append(_run(study.point, number, problem, result, result.records[j]))
                cells += _cells(study.point, number, problem, result, result.records[j])
        labels = problem.labels
        maps[grid] = {"layout": list(labels.layout or ()), "actions": list(labels.actions or ())}
    summary = [_summary(study.point, result) for study, result in zip(studies, results, strict=True)]
    details: dict[str, Json] = {
        "maps": maps,
        "shared_seed": str(SHARED_SEED),
        "searched": _SEARCHED,
        "epsilon": EPSILON,
        "delta": DELTA,
        "rho": RHO,
        "confidence": CONFIDENCE,
        "headline": _headline([run for run in runs if run["problem"] == GRIDS[0]]),
    }
    tables = {"runs": Table.of(runs), "states": Table.of(cells), "all": Table.of(summary)}
    return Dataset(NAME, TITLE, tables, details)


def goal_states(problem: TabularMDP) -> list[int]:
    """Return the states that nothing leaves, in the order of their columns on the map: left before right."""
    rows, A = problem.rows, problem.n_actions
    own = np.repeat(np.arange(problem.n_states * A) // A, np.diff(rows.indptr))
    leaves = np.zeros(problem.n_states, dtype=bool)
    leaves[own[(rows.next_state != own) & (rows.probability > 0.0)]] = True
    return [int(state) for state in np.flatnonzero(~leaves)]


def goal_probabilities(problem: TabularMDP, policy: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, from the problem's first states, the probability of ending in each goal; exact up to rounding.

    >>> from replicable_rl.envs import gridworld
    >>> corridor = gridworld("G.S.G", slip=0.0)
    >>> goal_probabilities(corridor, np.array([0, 2, 2, 2, 0])).tolist()
    [1.0, 0.0]
    """
    S, rows = problem.n_states, problem.rows
    moves = np.zeros((S, S))
    for s in range(S):
        row = slice(*rows.indptr[s * problem.n_actions + int(policy[s]) :][:2])
        np.add.at(moves[s], rows.next_state[row], rows.probability[row])
    goals = goal_states(problem)
    absorbed = np.zeros((S, len(goals)))
    absorbed[goals, range(len(goals))] = 1.0
    inner = np.setdiff1d(_leading_to(goals, moves), goals)  # who walks in circles for ever ends in no goal
    system = np.eye(inner.size) - moves[np.ix_(inner, inner)]
    absorbed[inner] = np.linalg.solve(system, moves[inner][:, goals]) + 0.0
    ends: NDArray[np.float64] = problem.initial @ absorbed
    return ends


def _leading_to(goals: Sequence[int], moves: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the states from which some goal can be reached."""
    leads = np.zeros(len(moves), dtype=bool)
    leads[list(goals)] = True
    for _ in range(len(moves)):
        leads |= (moves[:, leads] > 0.0).any(axis=1)
    return np.flatnonzero(leads)


def _ends(problem: TabularMDP, result: AuditResult, record: RunRecord) -> tuple[float, float]:
    left, right = goal_probabilities(problem, result.store.array(record.policy or ""))
    return float(left), float(right)


def _first_left_and_right(ends: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """Return the first run for each goal; the first two runs where a goal is never preferred."""
    left = next((i for i, (one, two) in enumerate(ends) if one > two + 1e-9), None)
    right = next((i for i, (one, two) in enumerate(ends) if two > one + 1e-9), None)
    return (0, 1) if left is None or right is None else (left, right)


def _run(
    about: Mapping[str, Any], number: int, problem: TabularMDP, result: AuditResult, record: RunRecord
) -> dict[str, Any]:
    left, right = _ends(problem, result, record)
    return {
        **about,
        "sample": number,
        "sample_seed": str(record.sample_seed),
        "samples": str(record.samples),
        "left": left,
        "right": right,
        "value": record.value,
        "policy": record.policy,
        "guarantee": str(record.guarantee),
        "run": record.key,
    }


def _cells(
    about: Mapping[str, Any], number: int, problem: TabularMDP, result: AuditResult, record: RunRecord
) -> list[dict[str, Any]]:
    q, policy = result.store.array(record.value or ""), result.store.array(record.policy or "")
    actions, states = problem.labels.actions or (), problem.labels.states or ()
    return [
        {**about, "sample": number, "state": s, "cell": states[s], "action": actions[int(policy[s])]}
        | {f"q_{action}": float(q[s, a]) for a, action in enumerate(actions)}
        for s in range(problem.n_states)
    ]


def _summary(about: Mapping[str, Any], result: AuditResult) -> dict[str, Any]:
    """How many different answers all the searched runs gave."""
    row: dict[str, Any] = {**about, "runs": len(result.records)}
    for level in ("value", "policy"):
        (sizes,) = result.class_sizes(level).values()
        share = modal_share(sizes, CONFIDENCE)
        row |= {f"{level}_classes": len(sizes)} | estimate_columns(f"{level}_modal_share", share)
    return row


def _headline(runs: Sequence[dict[str, Any]]) -> dict[str, Json]:
    """Whether rPVI gave the same answer twice and Phased Q-learning did not."""
    plain, rpvi = ([run for run in runs if run["algorithm"] == name] for name in (PLAIN, RPVI))
    same = {
        name: {level: pair[0][level] == pair[1][level] for level in ("value", "policy")}
        for name, pair in ((PLAIN, plain), (RPVI, rpvi))
    }
    return {
        "same": {name: dict(levels) for name, levels in same.items()},
        "other_goal": plain[0]["left"] > plain[0]["right"] and plain[1]["right"] > plain[1]["left"],
        "holds": same[RPVI]["value"] and same[RPVI]["policy"] and not same[PLAIN]["policy"],
    }
