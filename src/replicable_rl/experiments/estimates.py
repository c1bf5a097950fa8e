r"""Rows of a table, and the estimates in them: agreement, shares, crossings, each with an interval for one look.

*Agreement* of pairs that each have a shared seed of their own: Clopper and Pearson.

*Modal and unique share* are those of the paper's Figure 2, under **one** shared seed. R runs under one shared seed r
are R independent draws from the law p of the output given r. What do the largest class M and the number of classes D
estimate? Both intervals hold for every R, given r. They say nothing about another r: that is pairwise agreement.

The modal share estimates the probability q = max_c p_c of the likeliest output.

* The likeliest output occurs N times, N ~ Bin(R, q), and M >= N. So Pr[M <= k] <= Pr[Bin(R, q) <= k], and Clopper and
  Pearson's upper end for M successes is valid.
* Pr[M >= k] <= sum_c Pr[Bin(R, p_c) >= k]. On p <= (k-1)/(R-1) the tail is convex in p and 0 at 0, so tail/p grows,
  and with all p_c <= q and sum p_c = 1 the sum is at most Pr[Bin(R, q) >= k]/q. Every q with
  Pr[Bin(R, q) >= M]/q < alpha/2 is rejected as too small.

The unique share estimates E[D]/R. It depends on R, so of more runs it is the mean over batches of R. The number D of
different values among independent draws is self-bounding (take one draw away: D falls by at most 1, and by 1 for at
most D of the draws), and so is the sum over batches. Hence (Boucheron, Lugosi and Massart 2000) with E = E[D]

    Pr[D <= E - t] <= exp(-t^2/(2E)),        Pr[D >= E + t] <= exp(-t^2/(2E + 2t/3)).

*Crossing.* Agreement rises with the samples, so counts at a few sizes are made monotone (isotonic regression), and the
crossing is read off between two sizes, on a logarithmic axis. Its interval needs no curve: the low end is the largest
size that is *shown* to be too small, the high end the smallest that is *shown* to be enough, with the error shared out
over the sizes. An end beyond the sizes is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.audit import AuditResult
from replicable_rl.audit.agreement import clopper_pearson
from replicable_rl.experiments.experiment import AT_A_LOOK, Row
from replicable_rl.problem.table import TabularMDP
from replicable_rl.wording import with_interval

SHORT_NAMES = {"rpvi-v1": "rPVI", "replicable-approximate-mdp-v1": "ApproximateMDP"}


def where(rows: Sequence[Row], **equal: Any) -> list[Row]:
    """Return the rows in which the named columns hold these values."""
    return [row for row in rows if equal.items() <= row.items()]


def distinct(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the different values of a column in the order in which they come."""
    return list(dict.fromkeys(row[name] for row in rows))


def written(row: Row, name: str) -> str:
    """Write an estimate with its interval."""
    return with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"])


def transition_probabilities(mdp: TabularMDP) -> NDArray[np.float64]:
    """Return P[s, a, s'] of a problem."""
    P = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    np.add.at(P, (mdp.rows.row, mdp.rows.next_state), mdp.rows.probability)
    return P.reshape(mdp.n_states, mdp.n_actions, mdp.n_states)


def columns(name: str, estimate: float, low: float, high: float) -> Row:
    """Return an estimate as three columns: no number travels without its interval."""
    return {name: estimate, f"{name}_low": low, f"{name}_high": high}


def proportion(name: str, count: int, trials: int, confidence: float = AT_A_LOOK) -> Row:
    """Return the share of independent trials that succeeded."""
    return columns(name, count / trials, *clopper_pearson(count, trials, confidence))


def pairwise(result: AuditResult, level: str) -> Row:
    """Return how many pairs of runs have identical outputs, each pair under a shared seed of its own."""
    same, pairs = result.agreement(level).same, result.agreement(level).pairs
    return {"pairs": pairs, "same": same} | proportion("agreement", same, pairs)


def modal_share(largest: int, runs: int, confidence: float = AT_A_LOOK) -> Row:
    """Return the share of the largest class, with an interval of the probability of the likeliest output.

    >>> round(modal_share(120, 150, 0.95)["modal_share_low"], 3)
    0.722
    """
    from scipy.optimize import brentq
    from scipy.special import betainc

    def tail(q: float) -> Any:
        return betainc(largest, runs - largest + 1, q) / q - (1.0 - confidence) / 2.0

    low = 0.0
    if largest > 1:
        last = (largest - 1) / (runs - 1)  # the bound is proved up to here
        low = last if tail(last) < 0.0 else brentq(tail, 1e-12, last)
    return columns("modal_share", largest / runs, low, clopper_pearson(largest, runs, confidence)[1])


def unique_share(classes: int, runs: int, confidence: float = AT_A_LOOK) -> Row:
    """Return the classes, summed over batches, by the runs of all batches, with an interval of the expectation.

    The ends are the roots of the two bounds in the module's docstring.

    >>> round(unique_share(3, 150, 0.95)["unique_share_high"], 3)
    0.084
    """
    error = math.log(2.0 / (1.0 - confidence))
    low = classes + 2.0 * error / 3.0 - math.sqrt((2.0 * error / 3.0) ** 2 + 2.0 * error * classes)
    high = classes + error + math.sqrt(error**2 + 2.0 * error * classes)
    return columns("unique_share", classes / runs, max(low, 1.0) / runs, min(high / runs, 1.0))


def shares(outputs: Sequence[str], batch: int) -> Row:
    """Return both shares of outputs under one shared seed; those of a batch are looked at together for uniqueness."""
    sizes = [outputs.count(output) for output in set(outputs)]
    classes = sum(len(set(outputs[i : i + batch])) for i in range(0, len(outputs), batch))
    runs = len(outputs)
    counts = {"runs": runs, "largest_class": max(sizes), "classes": len(sizes)}
    return counts | modal_share(max(sizes), runs) | unique_share(classes, runs)


def crossing(
    name: str,
    sizes: Sequence[float],
    counts: Sequence[tuple[int, int]],
    target: float,
    confidence: float = AT_A_LOOK,
) -> Row:
    """Return the size at which the agreement passes a target; sizes rise, ``counts`` are equal pairs and pairs.

    >>> row = crossing("m", [1e2, 1e4, 1e6], [(10, 100), (50, 100), (95, 100)], 0.8, 0.95)
    >>> round(row["m"]), row["m_low"], row["m_high"]
    (215443, 10000.0, 1000000.0)
    """
    from scipy.optimize import isotonic_regression

    shares = [same / pairs for same, pairs in counts]
    curve = isotonic_regression(shares, weights=[pairs for _, pairs in counts]).x.tolist()
    ends = [clopper_pearson(same, pairs, of_each(len(sizes), confidence)) for same, pairs in counts]
    too_few = [size for size, (_, high) in zip(sizes, ends, strict=True) if high < target]
    enough = [size for size, (low, _) in zip(sizes, ends, strict=True) if low >= target]
    passes = None
    if curve[0] < target <= curve[-1]:
        i = next(i for i, share in enumerate(curve) if share >= target)
        part = (target - curve[i - 1]) / (curve[i] - curve[i - 1])
        passes = sizes[i - 1] * (sizes[i] / sizes[i - 1]) ** part
    return {name: passes, f"{name}_low": max(too_few, default=None), f"{name}_high": min(enough, default=None)}


def is_open(row: Row, target: float, confidence: float) -> bool:
    """Whether the interval of an agreement holds a target."""
    low, high = clopper_pearson(row["same"], row["pairs"], confidence)
    return low < target <= high


def of_each(count: int, confidence: float = AT_A_LOOK) -> float:
    """Return the confidence of each of some intervals that are to hold together.

    >>> round(of_each(5, 0.95), 3)
    0.99
    """
    return 1.0 - (1.0 - confidence) / count
