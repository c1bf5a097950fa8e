"""Figure 1 of the paper: two samples, two policies, two goals; and rPVI, which gives one policy.

Phased Q-learning and rPVI run under one shared seed with the same sample seeds and the same number of samples, the one
that Theorem 4.1 (``thm:rpvi``) asks for. Among Phased Q-learning's runs we look, in the order of their sample seeds,
for the first whose policy more often ends in the left goal and the first whose policy more often ends in the right one;
rPVI's two runs are those with the same two sample seeds. In which goal a policy ends is computed from the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from replicable_rl.audit import AuditResult
from replicable_rl.experiments.estimates import shares
from replicable_rl.experiments.experiment import (
    SHARED_SEED,
    Data,
    Experiment,
    Row,
    Scale,
    Study,
    Verdict,
    shown,
    transition_probabilities,
    where,
)
from replicable_rl.plotting import BLUE, GREY, ORANGE, Axes, Figure, grid, panels
from replicable_rl.problem.table import Labels, TabularMDP
from replicable_rl.registry import build, make
from replicable_rl.report import Block, Cell, Facts, Heading, Policy
from replicable_rl.runs import ObjectSpec, Run
from replicable_rl.theory import paper_phased_vi
from replicable_rl.wording import number, share

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
EPSILON, DELTA, RHO = 0.1, 0.001, 0.2
SURE = 0.8  # the probability of the likeliest output that is called one answer
RPVI, PLAIN = "rPVI", "Phased Q-learning"
SEARCHED = 32  # each goal is as likely as the other: one of them is missed once in 2**31 searches
_GOALS = {"left": BLUE, "right": ORANGE}


def design(scale: Scale) -> list[Study]:
    """Return, for every grid, the runs of Phased Q-learning and those of rPVI."""
    studies = []
    for problem in GRIDS:
        mdp = make(problem)
        calls = paper_phased_vi(mdp.n_states * mdp.n_actions, mdp.gamma, EPSILON, DELTA, RHO)["calls"]
        for name, id, params in ((PLAIN, "phased-vi-v1", {}), (RPVI, "rpvi-v1", {"rho": RHO})):
            algorithm = ObjectSpec(id, {"epsilon": EPSILON, "delta": DELTA, **params, "calls": calls})
            point = {"problem": problem, "algorithm": name}
            studies.append(Study.of(point, problem, algorithm, (SHARED_SEED,), SEARCHED))
    return studies


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
    """Return the two runs of every algorithm on every grid, their states, and how many answers all runs gave."""
    runs: list[Row] = []
    states: list[Row] = []
    answers: list[Row] = []
    maps = {}
    samples = (0, 1)
    for study, result in zip(studies, results, strict=True):
        mdp = build(study.audit.problem)
        maps[study.point["problem"]] = list(mdp.labels.layout or ())
        if study.point["algorithm"] == PLAIN:
            samples = first_left_and_right([goal_probabilities(mdp, run.policy) for run in result.runs])
        for sample, i in enumerate(samples, start=1):
            point = {**study.point, "sample": sample}
            runs.append(point | _run(mdp, result.runs[i]))
            states += [point | row for row in _states(mdp, result.runs[i])]
        answers.append(_answers(study, result))
    details = {"maps": maps, "shared_seed": SHARED_SEED, "searched": SEARCHED}
    return Data({"runs": runs, "states": states, "answers": answers}, details)


def first_left_and_right(ends: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """Return the first run for each goal; the first two runs where a goal is never preferred."""
    left = next((i for i, (left, right) in enumerate(ends) if left > right + 1e-9), None)
    right = next((i for i, (left, right) in enumerate(ends) if right > left + 1e-9), None)
    return (0, 1) if left is None or right is None else (left, right)


def goal_probabilities(mdp: TabularMDP, policy: NDArray[np.int64]) -> tuple[float, float]:
    """Return, from the problem's first states, the probability to be in the left and right goal after 2^20 steps.

    >>> from replicable_rl.problem import gridworld
    >>> goal_probabilities(gridworld("G.S.G", slip=0.0), np.array([0, 2, 2, 2, 0]))
    (1.0, 0.0)
    """
    P = transition_probabilities(mdp)
    own = np.arange(mdp.n_states)
    goals = np.flatnonzero((P[own, :, own] == 1.0).all(axis=1))  # nothing leaves them
    ends = mdp.initial @ np.linalg.matrix_power(P[own, policy], 2**20)
    return float(ends[goals[0]]), float(ends[goals[-1]])


def _run(mdp: TabularMDP, run: Run) -> Row:
    left, right = goal_probabilities(mdp, run.policy)
    return {
        "sample_seed": str(run.sample_seed),
        "samples": run.samples,
        "left": left,
        "right": right,
        "value": run.fingerprints.value,
        "policy": run.fingerprints.policy,
        "claims": str(run.claims),
    }


def _states(mdp: TabularMDP, run: Run) -> list[Row]:
    names, actions = mdp.labels.states or (), mdp.labels.actions or ()
    return [{"state": name, "action": actions[action]} for name, action in zip(names, run.policy.tolist(), strict=True)]


def _answers(study: Study, result: AuditResult) -> Row:
    """Return how many different answers all the searched runs gave."""
    values = shares([str(run.fingerprints.value) for run in result.runs], SEARCHED)
    policies = {run.fingerprints.policy for run in result.runs}
    return {**study.point, "policies": len(policies)} | values


def verdicts(data: Data) -> list[Verdict]:
    """Judge that Phased Q-learning's policies differ, and that rPVI's do not."""
    plain, rpvi = (where(data.tables["answers"], problem=GRIDS[0], algorithm=name)[0] for name in (PLAIN, RPVI))
    left, right = where(data.tables["runs"], problem=GRIDS[0], algorithm=PLAIN)
    differ = left["left"] > left["right"] and right["right"] > right["left"]
    return [
        Verdict.judged(
            "Phased Q-learning returns different policies from different samples, and they prefer different goals",
            "fig:policy_difference",
            f"{plain['policies']} policies in {plain['runs']} runs; two of them end in the left goal with "
            f"probability {share(left['left'])} and {share(right['left'])} (exact)",
            yes=differ,
            no=not differ,
        ),
        Verdict.judged(
            "rPVI, with one shared seed, returns one policy and one value function",
            "thm:rpvi",
            f"{rpvi['classes']} value function in {rpvi['runs']} runs; probability of the likeliest "
            f"{shown(rpvi, 'modal_share')}",
            yes=rpvi["modal_share_low"] >= SURE,
            no=rpvi["modal_share_high"] < SURE,
            rests_on=[rpvi],
        ),
    ]


def draw(data: Data) -> Figure:
    """Draw one row for each grid: its map, then both runs of both algorithms."""
    maps = data.details["maps"]
    figure, axes = panels((13.0, 5.5), len(maps), 5, room=0.96, gridspec_kw={"height_ratios": [1.15, 1.0]})
    for line, (problem, layout) in zip(axes, maps.items(), strict=True):
        labels, runs = Labels(layout=tuple(layout)), where(data.tables["runs"], problem=problem)
        _map(line[0], labels, problem, "30 % slip sideways", GREY)
        for panel, run in zip(line[1:], runs, strict=True):
            mine, other = (actions_of(data, run, sample) for sample in (run["sample"], 3 - run["sample"]))
            ends = f"ends left {_percent(run['left'])}, right {_percent(run['right'])}"
            colour = _GOALS[max(_GOALS, key=lambda side: float(run[side]))]
            _map(panel, labels, f"{run['algorithm']}, sample {run['sample']}", ends, colour, mine, other)
    return figure


def actions_of(data: Data, run: Row, sample: int) -> list[str]:
    """Return the names of the actions of a run, or of the run with the other sample, state by state."""
    about = {"problem": run["problem"], "algorithm": run["algorithm"], "sample": sample}
    return [row["action"] for row in where(data.tables["states"], **about)]


def _map(
    panel: Axes,
    labels: Labels,
    title: str,
    below: str,
    colour: str,
    mine: Sequence[str] = (),
    other: Sequence[str] = (),
) -> None:
    """Draw the cells; with actions, an arrow in each open one, framed where the other run acts differently."""
    differing = {s for s, actions in enumerate(zip(mine, other, strict=True)) if len(set(actions)) > 1}
    grid(panel, labels, dict(enumerate(mine)), differing, goals=tuple(_GOALS.values()))
    panel.set_title(title, fontsize=10)
    panel.text(0.5, -0.03, below, transform=panel.transAxes, ha="center", va="top", color=colour, fontsize=10.5)


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %" if 0.0005 < part < 0.9995 else f"{100 * part:.0f} %"


def blocks(data: Data) -> list[Block]:
    """Return both runs of both algorithms on the first grid, side by side."""
    parts: list[Block] = []
    for algorithm in (RPVI, PLAIN):
        first, second = where(data.tables["runs"], problem=GRIDS[0], algorithm=algorithm)
        states = [row["state"] for row in where(data.tables["states"], problem=GRIDS[0], algorithm=algorithm, sample=1)]
        runs = [(f"sample {sample}", actions_of(data, first, sample)) for sample in (1, 2)]
        same = {level: "the same" if first[level] == second[level] else "different" for level in ("value", "policy")}
        facts: list[tuple[str, Cell]] = [
            ("Q", f"{first['value'][:16]}, {second['value'][:16]}: {same['value']}"),
            ("policy", f"{first['policy'][:16]}, {second['policy'][:16]}: {same['policy']}"),
            ("ends in the left goal", f"with probability {number(first['left'], 3)} and {number(second['left'], 3)}"),
            ("samples of a run", number(first["samples"], 3)),
            ("claims", first["claims"]),
        ]
        parts += [Heading(f"{algorithm} on {GRIDS[0]}, two samples", 3)]
        parts += [Policy(states, runs, data.details["maps"][GRIDS[0]]), Facts(facts)]
    return parts


EXPERIMENT = Experiment(
    "figure1",
    10,
    title="Figure 1: two samples, two policies",
    reading=[
        "Both goals are equally good from the start, so a learner that is not replicable lets its samples decide. Two "
        "runs differ in nothing but their samples: they have the same shared seed and the same number of samples, the "
        "one that the theorem for rPVI asks for. We searched the runs of Phased Q-learning in the order of their "
        "sample seeds for one that prefers each goal; rPVI's two runs have the same two sample seeds. The probability "
        "of ending in a goal is computed from the model, not simulated."
    ],
    caption="Arrows are the policy. Framed cells are those in which the two runs of an algorithm differ. Below: the "
    "exact probability of ending in each goal from the start S.",
    alternative="Maps of two grids, two policies of Phased Q-learning that differ at the start, and two policies of "
    "rPVI that are the same.",
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
    blocks=blocks,
    headline=True,
)
