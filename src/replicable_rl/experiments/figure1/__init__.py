"""Figure 1 of the paper: two samples, two policies, two goals; and rPVI, which gives one.

Phased Q-learning and rPVI run under one shared seed with the same sample seeds and the same number of samples, the one
that Theorem 4.1 (``thm:rpvi``) asks for. Among Phased Q-learning's runs we look, in the order of their sample seeds,
for the first whose policy more often ends in the left goal and the first whose policy more often ends in the right one;
rPVI's two runs are those with the same two sample seeds. In which goal a policy ends is computed exactly (see
:mod:`.goals`).
"""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Comparison, Experiment, Finding
from replicable_rl.experiments.figure1.analysis import PLAIN, RPVI, analyse, design, verdicts
from replicable_rl.experiments.figure1.figure import draw
from replicable_rl.registry import make
from replicable_rl.wording import number


def _summary(dataset: Dataset) -> str:
    return "; ".join(
        f"{row['algorithm']} on {row['problem']}: {row['policy_classes']} "
        f"polic{'y' if row['policy_classes'] == 1 else 'ies'} in {row['runs']} runs"
        for row in dataset.tables["all"]
    )


def _finding(dataset: Dataset) -> Finding:
    if dataset.details["headline"]["holds"]:
        return Finding("rPVI gave the same answer twice; Phased Q-learning did not.", True)
    return Finding("The headline did not hold in this data.", False)


def _comparisons(dataset: Dataset) -> list[Comparison]:
    """Both runs of both algorithms on the first grid."""
    return [_comparison(dataset, next(iter(dataset.details["maps"])), name) for name in (RPVI, PLAIN)]


def _comparison(dataset: Dataset, grid: str, algorithm: str) -> Comparison:
    actions, states = dataset.details["maps"][grid]["actions"], dataset.tables["states"]
    runs = [states.where(problem=grid, algorithm=algorithm, sample=sample) for sample in (1, 2)]
    policies = [[actions.index(row["action"]) for row in rows] for rows in runs]
    q = [[[row[f"q_{action}"] for action in actions] for row in rows] for rows in runs]
    one, two = dataset.tables["runs"].where(problem=grid, algorithm=algorithm)
    facts = [
        f"{name:6}  {one[level][:16]}  {two[level][:16]}  {'the same' if one[level] == two[level] else 'different'}"
        for name, level in (("Q", "value"), ("policy", "policy"))
    ]
    facts.append(f"probability of ending in the left goal: {number(one['left'], 3)} and {number(two['left'], 3)}")
    facts += [f"samples a run: {number(int(one['samples']))}", one["claims"]]
    return Comparison(algorithm, make(grid), policies, q, facts)


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
    summary=_summary,
    caption="Arrows are the policy. Framed cells are those in which the two runs of an algorithm differ. Below: the "
    "exact probability of ending in each goal from the start S.",
    alternative="Maps of two grids, two policies of Phased Q-learning that differ at the start, and two policies of "
    "rPVI that are the same.",
    finding=_finding,
    comparisons=_comparisons,
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=verdicts,
)
