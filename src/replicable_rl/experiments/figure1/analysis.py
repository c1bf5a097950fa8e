"""Both algorithms on the same samples: find two samples that matter, and lay out what each made of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.canonical import Json
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import (
    CONFIDENCE,
    HELD,
    NOT_HELD,
    SHARED_SEED,
    Scale,
    Study,
    Verdict,
    judged,
    shown,
    study,
)
from replicable_rl.experiments.figure1.goals import goal_probabilities
from replicable_rl.experiments.shares import modal_share
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import build, make
from replicable_rl.runs import ObjectSpec, Run
from replicable_rl.theory import paper_phased_vi
from replicable_rl.wording import share

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
EPSILON, DELTA, RHO = 0.1, 0.001, 0.2
RPVI, PLAIN = "Replicable Phased Value Iteration", "Phased Q-learning"
SEARCHED = 32  # each goal is as likely as the other: one of them is missed once in 2**31 searches


def design(scale: Scale) -> list[Study]:
    """Return, for every grid, the runs of Phased Q-learning and those of rPVI."""
    studies = []
    for grid in GRIDS:
        problem = make(grid)
        pairs = problem.n_states * problem.n_actions
        calls = paper_phased_vi(pairs, problem.gamma, EPSILON, DELTA, RHO)["calls"]
        for name, id, params in ((PLAIN, "phased-vi-v1", {}), (RPVI, "rpvi-v1", {"rho": RHO})):
            algorithm = ObjectSpec(id, {"epsilon": EPSILON, "delta": DELTA, **params, "calls": calls})
            point = {"problem": grid, "algorithm": name}
            studies.append(study(point, grid, algorithm, (SHARED_SEED,), SEARCHED))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return the two runs of every algorithm on every grid, their states, and how many answers all runs gave."""
    runs: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    maps: dict[str, Json] = {}
    both = list(zip(studies, results, strict=True))
    for plain, rpvi in zip(both[::2], both[1::2], strict=True):
        problem = build(plain[0].audit.problem)
        chosen = first_left_and_right([_ends(problem, run) for run in plain[1].runs])
        for one, result in (plain, rpvi):
            for number, j in enumerate(chosen, start=1):
                point = {**one.point, "sample": number}
                runs.append(point | _run(problem, result.runs[j]))
                cells += [point | cell for cell in _cells(problem, result.runs[j])]
        labels = problem.labels
        maps[plain[0].point["problem"]] = {"layout": list(labels.layout or ()), "actions": list(labels.actions or ())}
    details = {"maps": maps, "shared_seed": str(SHARED_SEED), "searched": SEARCHED, "confidence": CONFIDENCE}
    details |= {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "headline": _headline(runs)}
    summary = [_summary(one.point, result) for one, result in both]
    return Dataset({"runs": Table.of(runs), "states": Table.of(cells), "all": Table.of(summary)}, details)


def _ends(problem: TabularMDP, run: Run) -> tuple[float, float]:
    left, right = goal_probabilities(problem, run.policy)
    return float(left), float(right)


def first_left_and_right(ends: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """Return the first run for each goal; the first two runs where a goal is never preferred."""
    left = next((i for i, (one, two) in enumerate(ends) if one > two + 1e-9), None)
    right = next((i for i, (one, two) in enumerate(ends) if two > one + 1e-9), None)
    return (0, 1) if left is None or right is None else (left, right)


def _run(problem: TabularMDP, run: Run) -> dict[str, Any]:
    left, right = _ends(problem, run)
    return {
        "sample_seed": str(run.sample_seed),
        "samples": str(run.samples),
        "left": left,
        "right": right,
        "value": run.fingerprints.value,
        "policy": run.fingerprints.policy,
        "claims": str(run.claims),
        "run": run.key,
    }


def _cells(problem: TabularMDP, run: Run) -> list[dict[str, Any]]:
    q, policy = run.q, run.policy
    actions, states = problem.labels.actions or (), problem.labels.states or ()
    return [
        {"state": s, "cell": states[s], "action": actions[int(policy[s])]}
        | {f"q_{action}": float(q[s, a]) for a, action in enumerate(actions)}
        for s in range(problem.n_states)
    ]


def _summary(point: Mapping[str, Any], result: AuditResult) -> dict[str, Any]:
    """How many different answers all the searched runs gave."""
    row: dict[str, Any] = {**point, "runs": len(result.runs)}
    for level in ("value", "policy"):
        (sizes,) = result.class_sizes(level).values()
        share = modal_share(sizes, CONFIDENCE)
        row |= {f"{level}_classes": len(sizes)} | estimate_columns(f"{level}_modal_share", share)
    return row


def _headline(runs: Sequence[Mapping[str, Any]]) -> dict[str, Json]:
    """Whether, on the first grid, rPVI gave the same answer twice and Phased Q-learning did not."""
    pairs = {name: [run for run in runs if run["algorithm"] == name][:2] for name in (PLAIN, RPVI)}
    same = {
        name: {level: one[level] == two[level] for level in ("value", "policy")} for name, (one, two) in pairs.items()
    }
    first, second = pairs[PLAIN]
    return {
        "same": same,
        "other_goal": first["left"] > first["right"] and second["right"] > second["left"],
        "holds": same[RPVI]["value"] and same[RPVI]["policy"] and not same[PLAIN]["policy"],
    }


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Judge that Phased Q-learning's policies differ, and that rPVI's do not."""
    grid = dataset.tables["runs"].distinct("problem")[0]
    plain, rpvi = (dataset.tables["all"].where(problem=grid, algorithm=name)[0] for name in (PLAIN, RPVI))
    left, right = dataset.tables["runs"].where(problem=grid, algorithm=PLAIN)
    return [
        Verdict(
            "Phased Q-learning returns different policies from different samples, and they prefer different goals",
            "fig:policy_difference",
            f"{plain['policy_classes']} policies in {plain['runs']} runs; two of them end in the left goal with "
            f"probability {share(left['left'])} and {share(right['left'])} (exact)",
            HELD if dataset.details["headline"]["other_goal"] else NOT_HELD,
        ),
        Verdict(
            "rPVI, with one shared seed, returns one policy and one value function",
            "thm:rpvi",
            f"{rpvi['value_classes']} value function in {rpvi['runs']} runs; probability of the likeliest "
            f"{shown(rpvi, 'value_modal_share')}",
            judged(rpvi["value_modal_share_low"] >= 0.8, rpvi["value_modal_share_high"] < 0.8),
        ),
    ]
