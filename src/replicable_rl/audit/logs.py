r"""Audits over logs: whether independent logs give one policy.

Under each of J shared seeds every one of K logs decides. How often do two logs agree? All K(K-1)/2 pairs under all J
seeds go into the estimate, but they are not independent: a log takes part in K - 1 pairs, and every pair comes back
under every seed. **Logs are the evidence.** Two logs are one comparison, under however many seeds it is made. The
intervals therefore rest on disjoint pairs of logs, the first with the second, the third with the fourth, and so on,
each under shared seeds of its own. These

    n = min(floor(K/2), J)

values are independent, because no two of them have a log or a seed in common, and the mean of each is the agreement.

* **one look**: the seeds are dealt out to the n pairs in turn; a value is the share of its seeds under which the pair
  agrees.
* **every look**: the i-th pair under the i-th seed, agreed or not. More logs, or more seeds, add values and change none
  of those before, so that the interval holds however often logs are added at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.agreement import Agreement, Estimate, every_look, measure, one_look
from replicable_rl.audit.jobs import Solving
from replicable_rl.audit.states import StateAgreement, measure_states
from replicable_rl.errors import speaking_as
from replicable_rl.logs import Dataset, Logs, align, compare_logs
from replicable_rl.runs import Run, RunSpec
from replicable_rl.solve import solve_as, source_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class LogsJob(Solving):
    """Decide on the log that a run names."""

    logs: Mapping[str, Dataset]  # by their digests
    algorithm: Any
    mdp: None = None
    threads: bool = False

    def run(self, spec: RunSpec) -> Run:
        """Solve once."""
        return solve_as(spec, self.logs[getattr(spec.sample, "digest", "")], self.algorithm)


def opened_logs(logs: Any, algorithm: Any) -> tuple[Dataset, Logs, LogsJob]:
    """Return one of the logs, which stands for their process, what is known of all, and what makes their runs."""
    with speaking_as("audit", "align", "compare_logs"):
        named = align(logs)
        first = next(iter(named.values()))
        source_of(first, algorithm)  # does the algorithm work on logs?
        record = compare_logs(named)
    return first, record, LogsJob({data.sample.digest: data for data in named.values()}, algorithm)


def independent(logs: int, seeds: int) -> int:
    """Return how many independent comparisons so many logs make under so many shared seeds.

    >>> independent(2, 60), independent(9, 60), independent(9, 1)
    (1, 4, 1)
    """
    return min(logs // 2, seeds)


def measure_logs(level: str, outputs: Sequence[str | None], logs: int, confidence: float) -> Agreement:
    """Return the agreement of logs; ``outputs`` are those of all logs under one shared seed, then the next.

    >>> print(measure_logs("policy", ["a", "a"] * 60, 2, 0.95))  # one pair of logs, however many seeds
    same policy in 60 of 60 pairs: agreement 1.000 (0.013–1.000; at one look 0.015–1.000)
    """
    found = measure(level, outputs, logs, confidence)
    prints = np.array([f"?{i}" if one is None else one for i, one in enumerate(outputs)]).reshape(-1, logs)
    n = independent(*reversed(prints.shape))
    failed = np.array([one is None for one in outputs]).reshape(-1, logs)
    pairs = range(0, 2 * n, 2)
    same = np.stack([prints[:, i] == prints[:, i + 1] for i in pairs], axis=1).astype(np.float64)
    at_most = np.maximum(same, np.stack([failed[:, i] | failed[:, i + 1] for i in pairs], axis=1))
    value, always = _intervals(same, found.estimate, same.shape[0] == n, confidence, at_most)
    # All shares are of the same logs: one value, whatever the number of seeds.
    modal, unique = (
        one_look(np.array([float(share)]), 1.0 / logs, False, confidence)
        for share in (found.modal_share, found.unique_share)
    )
    return replace(found, value=value, every_look=always, modal_share=modal, unique_share=unique, independent=n)


def measure_states_of_logs(
    policies: Mapping[str, NDArray[Any]], outputs: Sequence[str | None], logs: int, confidence: float
) -> StateAgreement:
    """Compare the policies of logs state by state."""
    found = measure_states(policies, outputs, logs, confidence)
    seeds = len(outputs) // logs
    alike = np.zeros((seeds, independent(logs, seeds)))
    for (j, i), _ in np.ndenumerate(alike):
        one, two = outputs[j * logs + 2 * i], outputs[j * logs + 2 * i + 1]
        if one is not None and two is not None:
            same = policies[one] == policies[two]
            alike[j, i] = same.reshape(same.shape[0], -1).all(axis=1).mean()
    overall, always = _intervals(alike, float(found.overall), False, confidence)
    return replace(found, overall=overall, every_look=always)


def _intervals(
    values: NDArray[np.float64],
    mean: float,
    binary: bool,
    confidence: float,
    at_most: NDArray[np.float64] | None = None,
) -> tuple[Estimate, Estimate]:
    """Return the mean over all pairs and seeds with both intervals; (J, n) ``values`` are of disjoint pairs of logs."""
    n = values.shape[1]
    dealt, first = np.array([values[i::n, i].mean() for i in range(n)]), (range(n), range(n))
    once = one_look(dealt, 0.0, binary, confidence)
    always = every_look(values[first], confidence, None if at_most is None else at_most[first])
    wide = [Estimate(mean, min(one.low, mean), max(one.high, mean)) for one in (once, always)]
    return wide[0], wide[1]
