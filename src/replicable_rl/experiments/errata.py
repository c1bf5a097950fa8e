"""What the paper's text gets wrong, where a number of ours shows it.

The numbers are those of ``docs/paper.md``. Evidence is computed when this runs: from the formulas of
:mod:`replicable_rl.theory`, from the exact model of the two-goals grid, and from the data of experiments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from replicable_rl.experiments.catalogue.theorem import MODEL
from replicable_rl.experiments.estimates import transition_probabilities, where
from replicable_rl.experiments.experiment import Data
from replicable_rl.paper import cited
from replicable_rl.queries import rstat
from replicable_rl.randomness import SharedRandomness
from replicable_rl.registry import make
from replicable_rl.theory import paper_phased_vi, paper_rmax, phased_vi, rmax

_GRID, _PAIRS, _GAMMA = "two-goals-v1", 32, 0.9
_EPSILON, _DELTA, _RHO = 0.1, 0.001, 0.2
Texts = tuple[int, str, str, str]  # the number in docs/paper.md, what the text says, what is right, evidence


def errata(data: Mapping[str, Data]) -> list[Texts]:
    """Return the errata in order; ``data`` is that of the experiments by name."""
    texts = sorted([*_of_formulas(), *_of_measurements(data)])
    return [(number, cited(says), right, evidence) for number, says, right, evidence in texts]


def _of_formulas() -> Iterator[Texts]:
    promise = _PAIRS, _GAMMA, _EPSILON, _DELTA, _RHO
    value = phased_vi(*promise, target="value", **paper_phased_vi(*promise, target="value"))
    policy = phased_vi(*promise, target="policy", **paper_phased_vi(*promise, target="policy"))
    yield (
        1,
        "thm:rpvi: the policy is epsilon-optimal; its proof bounds the error of Q",
        "a greedy policy loses up to 2/(1-gamma) times the error of Q, so tau needs another factor 1-gamma",
        f"{_GRID}, epsilon = {_EPSILON:g}: with the proof's tau the loss is bounded by {value.policy_loss:.2f}, with "
        f"(1-gamma)^2 epsilon/2 by {policy.policy_loss:.3f}",
    )
    sharp = phased_vi(_PAIRS, _GAMMA, _EPSILON, 0.15, _RHO)
    yield (
        4,
        "any delta in (0, 1) is allowed, delta_SQ is never set, and estimates replicate 'with probability rho'",
        "delta_SQ = delta/(NT), with probability 1-rho; the proof needs 2 delta < rho, the theorem does not",
        f"at delta = 0.15, rho = 0.2 the factor rho - 2 delta of the sample size is {_RHO - 0.3:.1f}; by the mean "
        f"distance {sharp.samples:.2g} samples prove rho = {sharp.rho_proved:.2g}",
    )

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
    promises = [(8, 4, _GAMMA, _EPSILON, _DELTA, _RHO, H) for H in (20, 60)]
    losses = [rmax(*promise, **paper_rmax(*promise)).error_proved for promise in promises]
    yield (
        11,
        "RepRMAX: H is free; lem:rmax-progress takes it that nothing of worth comes after H steps",
        "gamma^H must be of the order of epsilon: what comes later is never seen, and no m repairs it",
        f"{_GRID}, epsilon = {_EPSILON:g}, the paper's own parameters: the loss is bounded by {losses[0]:.2f} at "
        f"H = 20 and by {losses[1]:.2f} at H = 60; gamma^H is {_GAMMA**20:.2f} and {_GAMMA**60:.4f}",
    )


def _of_measurements(data: Mapping[str, Data]) -> Iterator[Texts]:
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
