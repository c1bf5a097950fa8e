"""What the paper's text gets wrong, each with a number that shows it.

The list is that of ``docs/errata.md``, as far as a number shows it. Evidence is computed when this runs: from the
formulas of :mod:`replicable_rl.theory`, from the exact model of the two-goals grid, or from the data of experiments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from replicable_rl.experiments.catalogue.theorem import MODEL
from replicable_rl.experiments.experiment import Data, Row, distinct, transition_probabilities, where
from replicable_rl.paper import cited
from replicable_rl.planning import optimal_values
from replicable_rl.queries import rstat
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.registry import make
from replicable_rl.theory import paper_phased_vi, paper_rmax, phased_vi, rmax

_GRID, _PAIRS, _GAMMA = "two-goals-v1", 32, 0.9
_EPSILON, _DELTA, _RHO, _H = 0.1, 0.001, 0.2, 20
_PROMISE = _PAIRS, _GAMMA, _EPSILON, _DELTA, _RHO
Texts = tuple[int, str, str, str]  # the number in docs/errata.md, what the text says, what is right, evidence


def errata(data: Mapping[str, Data]) -> list[Row]:
    """Return what the text says, what is right, and the evidence; ``data`` is that of the experiments by name."""
    texts = sorted([*_of_values(), *_of_exploration(data), *_of_measurements(data)])
    return [
        {"number": number, "text_says": cited(says), "right_is": right, "evidence": evidence}
        for number, says, right, evidence in texts
    ]


def _of_values() -> Iterator[Texts]:
    """Yield the errata about rPVI, from its formulas."""
    target_value = phased_vi(*_PROMISE, target="value", **paper_phased_vi(*_PROMISE, target="value"))
    target_policy = phased_vi(*_PROMISE, target="policy", **paper_phased_vi(*_PROMISE, target="policy"))
    yield (
        1,
        "thm:rpvi: the policy is epsilon-optimal; its proof bounds the error of Q",
        "a greedy policy loses up to 2/(1-gamma) times the error of Q, so tau needs another factor 1-gamma",
        f"{_GRID}, epsilon = {_EPSILON:g}: with the proof's tau the loss is bounded by {target_value.policy_loss:.2f}, "
        f"with (1-gamma)^2 epsilon/2 by {target_policy.policy_loss:.3f}",
    )
    best = float(optimal_values(make(_GRID)).value.max())
    yield (
        2,
        "values are normalised to [0, 1] for rSTAT, and bounded by 1/(1-gamma) in the proof",
        "one scale: rewards times 1-gamma, values in [0, 1]",
        f"{_GRID}: the largest value is {best:.3f} in the user's units and {(1 - _GAMMA) * best:.3f} normalised",
    )
    T = target_policy.iterations
    yield (
        3,
        "the induction step of the proof of thm:rpvi leaves gamma out and uses run 1's value in run 2",
        "Q_{t+1} = r + gamma V_t, each run with its own V_t, equal by induction",
        f"without gamma a goal of normalised reward {1 - _GAMMA:.1f} is worth {T * (1 - _GAMMA):.1f} after T = {T} "
        "iterations; no value exceeds 1",
    )
    sharp = phased_vi(_PAIRS, _GAMMA, _EPSILON, 0.15, _RHO)
    yield (
        4,
        "any delta in (0, 1) is allowed, delta_SQ is never set, and estimates replicate 'with probability rho'",
        "delta_SQ = delta/(NT), with probability 1-rho; the proof needs 2 delta < rho, the theorem does not",
        f"at delta = 0.15, rho = 0.2 the factor rho - 2 delta of the sample size is {_RHO - 0.3:.1f}; by the mean "
        f"distance {sharp.samples:.2g} samples prove rho = {sharp.rho_proved:.2g}",
    )


def _of_exploration(data: Mapping[str, Data]) -> Iterator[Texts]:
    """Yield the errata about RepRMAX."""

    def samples(H: int, rho: float) -> float:
        paper = paper_rmax(8, 4, _GAMMA, _EPSILON, _DELTA, rho, H)
        return math.log(paper["rounds"]) + math.log(paper["episodes"]) + math.log(H)

    far = 10**9  # where the second term of T dominates
    in_H = (samples(2 * far, _RHO) - samples(far, _RHO)) / math.log(2.0)
    in_rho = (samples(far, 0.02) - samples(far, 0.04) - math.log(math.log(50) / math.log(25))) / math.log(2.0)
    yield (
        5,
        "thm:repmax-replicable: the second term grows as H^10 and without 1/rho^2; m once has 1/rho",
        "T m H with the paper's own T and m: H^11/rho^2",
        f"measured on the formulas: the power of H is {in_H:.2f}, that of 1/rho is {in_rho:.2f} (its logarithm aside)",
    )
    stories = where(data["exploration"].tables["stories"], variant="RepRMAX")
    ends = [where(stories, run=run)[-1]["known"] for run in distinct(stories, "run")]
    yield (
        6,
        "RepRMAX loops while its policy is not epsilon-optimal, until all pairs are known",
        "nobody can evaluate that; pairs that are never reached stay unknown; stop by the unknown-visit rate",
        f"{_GRID}: {len(ends)} runs stopped by the rule with {min(ends)} to {max(ends)} of {_PAIRS} pairs known",
    )
    mdp, episodes = make(_GRID), 1000
    played = mdp.play(np.zeros(mdp.n_states, dtype=np.int64), episodes, _H, sample_stream(1))
    yield (
        8,
        "visits are counted over h = 1 ... H, and step H has no successor",
        "steps 0 ... H-1, each with its successor",
        f"{episodes} episodes of {_H} steps: {int(played.visits.sum())} visits, {int(played.count.sum())} successors",
    )
    N, log = 441, math.log(1.0 / _DELTA)  # inventory-v1
    T = _H * N / _EPSILON + _H**2 * log / _EPSILON**2
    yield (
        9,
        "lem:repmax-convergence: Azuma's inequality gives delta",
        "not when HN/epsilon dominates T; the m episodes of a round are i.i.d., which repairs it",
        f"N = {N}, H = {_H}, epsilon = {_EPSILON:g}, constants 1: the step gives "
        f"{math.exp(-((_H * log / _EPSILON) ** 2) / T):.2g} where delta = {_DELTA:g}",
    )
    promises = [(8, 4, _GAMMA, _EPSILON, _DELTA, _RHO, H) for H in (_H, 3 * _H)]
    short, long = (rmax(*promise, **paper_rmax(*promise)) for promise in promises)
    yield (
        11,
        "RepRMAX: H is free; lem:rmax-progress takes it that nothing of worth comes after H steps",
        "gamma^H must be of the order of epsilon: what comes later is never seen, and no m repairs it",
        f"{_GRID}, epsilon = {_EPSILON:g}, the paper's own parameters: the loss is bounded by "
        f"{short.error_proved:.2f} at H = 20 and by {long.error_proved:.2f} at H = 60; gamma^H is {_GAMMA**20:.2f} and "
        f"{_GAMMA**60:.4f}",
    )


def _of_measurements(data: Mapping[str, Data]) -> Iterator[Texts]:
    """Yield the errata that the data of other experiments show."""
    truth = transition_probabilities(make(_GRID)).reshape(_PAIRS, -1)
    offsets = SharedRandomness(2023).uniform("errata/rows", shape=truth.shape)
    sums = np.where(truth > 0, rstat(truth, offsets, 0.1).answer, 0.0).sum(axis=1)
    models = where(data["theorem"].tables["theorems"], algorithm=MODEL)
    worst = max(models, key=lambda row: float(row["worst_error"] / row["epsilon"]))
    yield (
        7,
        "rSTAT for each successor gives a model; the indicator's arguments are swapped, each triple is sampled anew",
        "answers do not sum to 1: divide a row by its sum; one sample of a pair serves all its queries",
        f"{_GRID}, bins of width 0.1: rows sum to {sums.min():.3f} up to {sums.max():.3f}. After division the worst "
        f"entry is off by {worst['worst_error']:.3f} on {worst['problem']}, epsilon = {worst['epsilon']:g}",
    )
    points, target = data["figure2"].tables["points"], 1 - data["figure2"].details["rho"]
    above = [row for row in points if row["modal_share"] >= target]
    whole, estimate = (sum(row[name] < target for row in above) for name in ("agreement_high", "agreement"))
    yield (
        10,
        "Figure 2 compares the modal share under one r with 1 − rho",
        "1 − rho bounds the probability that two runs agree, over r: pairwise agreement over shared seeds",
        f"of {len(points)} points {len(above)} have a modal share of at least {target:g}; in {whole} of them the "
        f"pairwise agreement is below {target:g} (whole interval), in {estimate} its estimate",
    )
