"""Which claims the runs of an audit refute, whoever made them.

A claim says that something happens with at most some probability: that a run loses more than epsilon, or that two runs
differ. It is refuted where the interval that holds at every look lies above that. Losses are exact, so this asks for a
table; a run that failed, or claims nothing, is not held against a claim. What is asymptotic says nothing of any run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.audit.accuracy import loss_of_algorithm
from replicable_rl.audit.agreement import Estimate, every_look
from replicable_rl.planning import optimal_values
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import CERTIFICATE, FIXED_SEED, THIS_SEED, Claim

if TYPE_CHECKING:
    from replicable_rl.audit.result import AuditResult

_JUDGED = ("proved", "stated")


def refutes(claims: Collection[Claim], happened: Estimate) -> bool:
    """Whether a claim that runs made is refuted by how often happened what it says is rare.

    >>> claim = Claim("replicability", "stated", "two runs have the same policy", 0.1, "my proof")
    >>> refutes([claim], Estimate(0.2, 0.11, 0.3)), refutes([claim], Estimate(0.2, 0.09, 0.3))
    (True, False)
    """
    return all(claim.kind in _JUDGED for claim in claims) and happened.low > _allowed(claims)


def _allowed(claims: Collection[Claim]) -> float:
    """Return how often may happen what runs say is rare: their mean, where one says more than another."""
    return float(np.mean([claim.failure if claim.about == "accuracy" else claim.bound for claim in claims]))


def refutations(result: AuditResult) -> Iterator[str]:
    """Yield a sentence for every claim that the runs refute; of one that differs by run, the most cautious is shown."""
    claims: dict[tuple[str, str, str | None], dict[int, Claim]] = defaultdict(dict)
    for i, run in enumerate(result.runs):
        for claim in run.claims:
            level = claim.level or ("policy" if claim.about == "accuracy" else result.level)
            claims[claim.about, level, claim.definition][i] = claim
    for (about, level, definition), of in claims.items():
        if about == "accuracy":
            happened = _lose(result, level, of)
        else:
            happened = _differ(result, level, of if definition in (THIS_SEED, CERTIFICATE) else None)
        if happened is not None and refutes(of.values(), happened):
            cautious = max(of.values(), key=lambda claim: (claim.failure, claim.bound))
            what = "Runs are further off" if about == "accuracy" else "Two runs differ"
            fails = ", or its condition fails" if set(cautious.conditions) - {FIXED_SEED} else ""
            allowed = f"it allows {_allowed(of.values()):g}."
            yield f"This claim is refuted{fails}: {cautious} {what} in {happened} of the cases; {allowed}"


def _differ(result: AuditResult, level: str, claims: Mapping[int, Claim] | None) -> Estimate | None:
    """Return how often two runs differ at a level, and the first has claimed that they do not; None if nobody knows."""
    if level not in result.levels or (result.logs is not None and result.logs.differ):
        return None
    if claims is None:
        same = result.agreement(level).every_look
        return Estimate(1.0 - same, 1.0 - same.high, 1.0 - same.low)
    prints, R = [run.fingerprints.get(level) for run in result.runs], result.spec.runs_per_seed
    wrong = np.zeros(len(prints) // R)
    for i in claims:
        others = [prints[k] for k in range(i - i % R, i - i % R + R) if prints[k] is not None]
        wrong[i // R] += sum(one != prints[i] for one in others) / (R * (R - 1))
    return every_look(wrong, result.spec.confidence)


def _lose(result: AuditResult, level: str, claims: Mapping[int, Claim]) -> Estimate | None:
    """Return how often a run is further off than it claims; None where nobody knows."""
    if result.mdp is None or result.logs is not None or level not in result.levels:
        return None
    if level == "policy" and result.policies is not None:
        promised = loss_of_algorithm(result.spec)
        worst = promised is not None and promised.over == "worst"
        off = {
            one.fingerprint: (one.worst_loss if worst else one.loss / result.span) - one.normalised_error
            for one in result.policies
        }
    elif level == "value":
        off = {print: _error(result.mdp, q) / result.span for print, q in result.outputs("value").items()}
    else:
        return None
    prints = (run.fingerprints.get(level, "") for run in result.runs)
    further = [i in claims and off.get(one, 0.0) > claims[i].bound for i, one in enumerate(prints)]
    per_seed = np.array(further, dtype=np.float64).reshape(-1, result.spec.runs_per_seed).mean(axis=1)
    return every_look(per_seed, result.spec.confidence)


def _error(mdp: TabularMDP, q: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Return how far off action values are at least, where an action is allowed; 0 for those of another problem."""
    best = optimal_values(mdp)
    if q.shape != best.q.shape:
        return 0.0
    return float(np.abs(q - best.q)[mdp.allowed].max()) - best.error
