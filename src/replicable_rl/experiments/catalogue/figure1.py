"""Figure 1 of the paper.

Among Phased Q-learning's runs we look, in the order of their sample seeds, for the first whose policy more often ends
in the left goal and the first whose policy more often ends in the right one. rPVI's runs have the same sample seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from replicable_rl import plot
from replicable_rl.audit import AuditResult
from replicable_rl.experiments.estimates import shares, transition_probabilities, where, written
from replicable_rl.experiments.experiment import SHARED_SEED, Data, Experiment, Row, Scale, Study, Verdict
from replicable_rl.problem.table import Labels, TabularMDP
from replicable_rl.registry import build, make
from replicable_rl.report import Block, Heading, Policy
from replicable_rl.runs import ObjectSpec, Run
from replicable_rl.theory import paper_phased_vi
from replicable_rl.wording import percent, share

GRIDS = ("two-goals-v1", "two-goals-wide-v1")
EPSILON, DELTA, RHO = 0.1, 0.001, 0.2
SURE = 0.8  # the probability of the likeliest output that is called one answer
RPVI, PLAIN = "rPVI", "Phased Q-learning"
SEARCHED = 32  # each goal is as likely as the other: one of them is missed once in 2**31 searches
_GOALS = {"left": plot.BLUE, "right": plot.ORANGE}


class Figure1(Experiment):
    """Figure 1: two samples, two policies.

    Both goals are equally good from the start, so a learner that is not replicable lets its samples decide. Two runs
    differ in nothing but their samples: they have the same shared seed and the same number of samples, the one that
    Theorem 4.1 asks for. We searched the runs of Phased Q-learning for one that prefers each goal; rPVI's two runs have
    the same two sample seeds. The probability of ending in a goal is computed from the model, not simulated.
    """

    order = 10
    headline = True
    caption = (
        "Arrows are the policy. Framed cells are those in which the two runs of an algorithm differ. Below: the exact "
        "probability of ending in each goal from the start S."
    )

    def design(self, scale: Scale) -> list[Study]:
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

    def analyse(self, studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
        """Return the two runs of every algorithm on every grid, their states, and how many answers all runs gave."""
        runs: list[Row] = []
        answers: list[Row] = []
        maps, samples = {}, (0, 1)
        for study, result in zip(studies, results, strict=True):
            mdp = build(study.audit.problem)
            maps[study.point["problem"]] = list(mdp.labels.layout or ())
            if study.point["algorithm"] == PLAIN:
                samples = runs_for_either_goal([goal_probabilities(mdp, run.policy) for run in result.runs])
            for sample, i in enumerate(samples, start=1):
                point = {**study.point, "sample": sample}
                runs.append(point | _run(mdp, result.runs[i]))
            values = shares([str(run.fingerprints.value) for run in result.runs], SEARCHED)
            policies = {run.fingerprints.policy for run in result.runs}
            answers.append({**study.point, "policies": len(policies), **values})
        return Data({"runs": runs, "answers": answers}, {"maps": maps})

    def verdicts(self, data: Data) -> list[Verdict]:
        """Judge that Phased Q-learning's policies differ, and that rPVI's do not."""
        plain, rpvi = (where(data.tables["answers"], problem=GRIDS[0], algorithm=name)[0] for name in (PLAIN, RPVI))
        run, run_2 = where(data.tables["runs"], problem=GRIDS[0], algorithm=PLAIN)
        differ = run["left"] > run["right"] and run_2["right"] > run_2["left"]
        return [
            Verdict(
                "Phased Q-learning returns different policies from different samples, and they prefer different goals",
                "fig:policy_difference",
                f"{plain['policies']} policies in {plain['runs']} runs; two of them end in the left goal with "
                f"probability {share(run['left'])} and {share(run_2['left'])} (exact)",
                yes=differ,
                no=not differ,
            ),
            Verdict(
                "rPVI, with one shared seed, returns one policy and one value function",
                "thm:rpvi",
                f"{rpvi['classes']} value function in {rpvi['runs']} runs; probability of the likeliest "
                f"{written(rpvi, 'modal_share')}",
                yes=rpvi["modal_share_low"] >= SURE,
                no=rpvi["modal_share_high"] < SURE,
                rests_on=[rpvi],
            ),
        ]

    def draw(self, data: Data) -> plot.Figure:
        """Draw one row for each grid: its map, then both runs of both algorithms."""
        maps = data.details["maps"]
        ratios = {"height_ratios": [1.15, 1.0]}
        figure, axes = plot.panels((13.0, 5.5), len(maps), 5, room=0.96, gridspec_kw=ratios)
        for line, (problem, layout) in zip(axes, maps.items(), strict=True):
            labels, runs = Labels(layout=tuple(layout)), where(data.tables["runs"], problem=problem)
            plot.draw_map(line[0], labels, {}, goals=tuple(_GOALS.values()))
            texts = [(problem, "30 % slip sideways", plot.GREY)]
            for panel, run in zip(line[1:], runs, strict=True):
                policies = [row["actions"] for row in where(runs, algorithm=run["algorithm"])]
                differing = {s for s, actions in enumerate(zip(*policies, strict=True)) if len(set(actions)) > 1}
                taken, goals = dict(enumerate(run["actions"])), tuple(_GOALS.values())
                plot.draw_map(panel, labels, taken, differing, goals=goals)
                ends = " ".join(f"{side} {percent(round(run[side], 3))}" for side in _GOALS)
                colour = _GOALS[max(_GOALS, key=lambda side: float(run[side]))]
                texts.append((f"{run['algorithm']}, sample {run['sample']}", f"ends {ends}", colour))
            for panel, (title, below, colour) in zip(line, texts, strict=True):
                panel.set_title(title, fontsize=10)
                place = {"transform": panel.transAxes, "ha": "center", "va": "top"}
                panel.text(0.5, -0.03, below, color=colour, fontsize=10.5, **place)
        return figure

    def blocks(self, data: Data) -> list[Block]:
        """Return both runs of both algorithms on the grid of the paper, side by side."""
        parts: list[Block] = []
        for algorithm, title in ((PLAIN, PLAIN), (RPVI, "Replicable Phased Value Iteration")):
            runs = where(data.tables["runs"], problem=GRIDS[0], algorithm=algorithm)
            policies = [(f"{name} sample", run["actions"]) for name, run in zip(("first", "second"), runs, strict=True)]
            parts += [Heading(title, 3), Policy(runs[0]["states"], policies, data.details["maps"][GRIDS[0]])]
        return parts


def runs_for_either_goal(ends: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """Return the first run for each goal; the first two runs where a goal is never preferred."""
    to_left = next((i for i, (p, q) in enumerate(ends) if p > q + 1e-9), None)
    to_right = next((i for i, (p, q) in enumerate(ends) if q > p + 1e-9), None)
    return (0, 1) if to_left is None or to_right is None else (to_left, to_right)


def goal_probabilities(mdp: TabularMDP, policy: NDArray[np.int64]) -> tuple[float, float]:
    """Return, from the problem's first states, the probability to be in the left and right goal after 2^20 steps.

    >>> goal_probabilities(make("gridworld-v1", layout="G.S.G", slip=0.0), np.array([0, 2, 2, 2, 0]))
    (1.0, 0.0)
    """
    P = transition_probabilities(mdp)
    own = np.arange(mdp.n_states)
    goals = np.flatnonzero((P[own, :, own] == 1.0).all(axis=1))  # nothing leaves them
    ends = mdp.initial @ np.linalg.matrix_power(P[own, policy], 2**20)
    return float(ends[goals[0]]), float(ends[goals[-1]])


def _run(mdp: TabularMDP, run: Run) -> Row:
    ends, names = goal_probabilities(mdp, run.policy), mdp.labels.actions or ()
    policy = {"states": list(mdp.labels.states or ()), "actions": [names[action] for action in run.policy]}
    return {"sample_seed": str(run.sample_seed), **dict(zip(_GOALS, ends, strict=True)), **policy}


EXPERIMENT = Figure1()
