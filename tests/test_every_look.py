"""An undecided audit may be extended, and looked at again: its verdict errs as rarely as it says, however often.

Where the number of successes is all that matters, the probability of ever erring is summed exactly, look by look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

import replicable_rl as rr
from replicable_rl.audit.agreement import measure
from replicable_rl.audit.intervals import clopper_pearson

Floats = NDArray[np.float64]
Rejects = Callable[[int, int], bool]  # successes, trials -> whether the truth is excluded


def chance_of_ever(rejects: Rejects, p: float, looks: Iterable[int], *, above: bool = True) -> Floats:
    """Return the probability of having been rejected by each look, if every trial succeeds with probability p.

    ``above`` says that many successes reject, otherwise few do. The fewest that reject (or the most) only rises with
    the trials, so it is found by going on from the last look.
    """
    alive, trials, bar, lost = np.ones(1), 0, 0 if above else -1, []
    for look in looks:
        for _ in range(look - trials):
            alive = np.append(alive * (1.0 - p), 0.0) + np.insert(alive * p, 0, 0.0)
        trials = look
        if above:
            while bar <= trials and not rejects(bar, trials):
                bar += 1
            alive[bar:] = 0.0
        else:
            while bar < trials and rejects(bar + 1, trials):
                bar += 1
            alive[: bar + 1] = 0.0
        lost.append(1.0 - float(alive.sum()))
    return np.array(lost)


def judged(required: float) -> Callable[[int, int], bool | None]:
    """Return what an audit says of so many equal pairs, whether the agreement is as required."""
    result = rr.audit_callable(lambda shared_seed, sample_seed: [0], shared_seeds=1)

    def verdict(same: int, pairs: int) -> bool | None:
        found = measure("policy", ["a", "a"] * same + ["a", "b"] * (pairs - same), 2, 0.95)
        result.__dict__["agreements"] = {"policy": found}
        return result.meets(required)

    return verdict


EVERY_FORTY = range(60, 1061, 40)  # 26 looks: at the default size, and at every 40 shared seeds more


def test_one_look_does_not_hold_at_many() -> None:
    """Why there are two intervals: an agreement of exactly 0.8 is called above 0.8 more and more often."""
    errs = chance_of_ever(lambda same, pairs: clopper_pearson(same, pairs)[0] >= 0.8, 0.8, EVERY_FORTY)
    assert errs[[0, 6, 25]] == pytest.approx([0.0121, 0.0611, 0.1093], abs=5e-5)  # after 1, 7 and 26 looks


@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_verdicts_of_an_audit_that_is_extended(p: float) -> None:
    verdict = judged(p)
    assert chance_of_ever(lambda *seen: verdict(*seen) is True, p, EVERY_FORTY)[-1] <= 0.025
    assert chance_of_ever(lambda *seen: verdict(*seen) is False, p, EVERY_FORTY, above=False)[-1] <= 0.025
