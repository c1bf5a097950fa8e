r"""How often two runs agree, from classes of identical outputs.

Under one shared seed, R runs fall into classes of n_1, n_2, ... identical outputs. Of the
R(R-1)/2 pairs of runs,

    u = sum_c n_c (n_c - 1) / (R (R - 1))

agree: an unbiased estimate of the probability that two runs with this shared seed do. Its mean
over J shared seeds is the **pairwise agreement**, an unbiased estimate of 1 - rho in
Definition 2.3 (``def:replicability``). It has two intervals, both proved for every J:

* **one look**, if J was fixed beforehand. R = 2: the number of seeds whose pair agrees is
  Binomial(J, agreement): Clopper-Pearson. R > 2: pairs under one shared seed are *not* independent (a
  seed whose grid cuts between two answers spoils all of them), so only the J values u are. They lie in [0, 1]:
  :func:`~replicable_rl.audit.intervals.bounded_mean`.
* **every look**, all J at once: for an audit that is looked at, extended and looked at again,
  :func:`~replicable_rl.audit.every_look.mean_at_every_look`. It is wider, and it is the one that judges.

The paper's figure shows the **modal share** (largest class / R) and the **unique share**
(classes / R), as means over seeds. They are given by these names and never called agreement: a modal share of
0.80 is an agreement of 0.60 if R = 2, of 0.64 to 0.68 under *one* shared seed with many runs, and of 0.64
to 0.80 as a mean over seeds with many runs.

A failed run agrees with nothing, not with another failure. What it would have found is unknown, so it counts against
either verdict: the interval of every look reaches up to where it agrees with the most common output under its seed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.audit.every_look import mean_at_every_look
from replicable_rl.audit.intervals import bounded_mean, clopper_pearson
from replicable_rl.display import Displayed, described
from replicable_rl.wording import interval, share, with_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Estimate(float, Displayed):
    """A number that is never without its interval.

    It is a float, and like an :class:`Agreement` it has ``.estimate``, ``.low`` and ``.high``.

    >>> share = Estimate(0.9, 0.8, 0.95)
    >>> print(share)
    0.900 (0.800–0.950)
    >>> share > 0.85, share.estimate, share.low, share.high
    (True, 0.9, 0.8, 0.95)
    """

    low: float
    high: float

    def __new__(cls, estimate: float, low: float, high: float) -> Estimate:
        """Build from the estimate and the ends of its interval."""
        self = super().__new__(cls, estimate)
        self.low, self.high = low, high
        return self

    @property
    def estimate(self) -> float:
        """The estimate without its interval."""
        return float(self)

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float]]:
        return Estimate, (float(self), self.low, self.high)

    def __str__(self) -> str:
        return with_interval(self, self.low, self.high)

    def __repr__(self) -> str:
        return f"Estimate({float(self)!r}, {self.low!r}, {self.high!r})"

    def to_json(self) -> dict[str, float]:
        """Return the JSON form."""
        return {"estimate": float(self), "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class Agreement(Displayed):
    """Pairwise agreement at one level, with exact intervals, and the shares of the paper's figure.

    Attributes
    ----------
    estimate, low, high : float
        Pairwise agreement over shared seeds, and its interval if their number was fixed beforehand.
    every_look : Estimate
        The same with the interval that holds however often more shared seeds are added. Verdicts and claims use it.
    same, pairs : int
        Pairs of runs with one shared seed that gave identical outputs, of how many.
    modal_share, unique_share : Estimate
        Largest class and number of classes under one shared seed, divided by the runs; means over seeds. Their
        intervals are for one look.
    per_seed : (J,) floats
        The agreement under each shared seed.
    independent : int
        How many independent values the intervals rest on: shared seeds, or disjoint pairs of logs.
    """

    level: str
    value: Estimate
    every_look: Estimate
    same: int
    pairs: int
    modal_share: Estimate
    unique_share: Estimate
    per_seed: NDArray[np.float64]
    independent: int

    @property
    def estimate(self) -> float:
        """The estimate without its interval."""
        return float(self.value)

    @property
    def low(self) -> float:
        """Lower end of the interval for one look."""
        return self.value.low

    @property
    def high(self) -> float:
        """Upper end of the interval for one look."""
        return self.value.high

    def __repr__(self) -> str:
        return described(self, f"{self.level}: {self.every_look}, {self.same} of {self.pairs} pairs the same")

    def __str__(self) -> str:
        always, once = (interval(one.low, one.high) for one in (self.every_look, self.value))
        said = f"same {self.level} in {self.same} of {self.pairs} pairs: agreement {share(self.estimate)}"
        return f"{said} ({always}; at one look {once})"


def measure(level: str, outputs: Sequence[str | None], runs_per_seed: int, confidence: float) -> Agreement:
    """Return the agreement of outputs, those of one shared seed together; None is a failed run.

    >>> print(measure("policy", ["a", "a", "a", "b", "c", "c"], 2, 0.95))
    same policy in 2 of 3 pairs: agreement 0.667 (0.043–0.998; at one look 0.094–0.992)
    """
    seeds = len(outputs) // runs_per_seed
    numbers: dict[object, int] = {}
    labels = np.array([numbers.setdefault(i if out is None else out, len(numbers)) for i, out in enumerate(outputs)])
    seed_and_label = np.repeat(np.arange(seeds), runs_per_seed) * (len(numbers) + 1) + labels
    cells, sizes = np.unique(seed_and_label, return_counts=True)
    seed = cells // (len(numbers) + 1)
    same = np.bincount(seed, weights=sizes * (sizes - 1) // 2, minlength=seeds)
    per_seed = same / (runs_per_seed * (runs_per_seed - 1) // 2)
    largest = np.zeros(seeds)
    np.maximum.at(largest, seed, sizes)
    shares = largest / runs_per_seed, np.bincount(seed, minlength=seeds) / runs_per_seed
    modal, unique = (one_look(share, 1.0 / runs_per_seed, runs_per_seed == 2, confidence) for share in shares)
    agreement = one_look(per_seed, 0.0, runs_per_seed == 2, confidence)
    pairs = seeds * (runs_per_seed * (runs_per_seed - 1) // 2)
    always = every_look(per_seed, confidence, _at_most(per_seed, outputs, runs_per_seed))
    return Agreement(level, agreement, always, int(same.sum()), pairs, modal, unique, per_seed, seeds)


def _at_most(per_seed: NDArray[np.float64], outputs: Sequence[str | None], runs_per_seed: int) -> NDArray[np.float64]:
    """Return what the values would be if every run that failed had found what most others under its seed did."""
    most = per_seed.copy()
    for j in {i // runs_per_seed for i, out in enumerate(outputs) if out is None}:
        sizes = Counter(outputs[j * runs_per_seed : (j + 1) * runs_per_seed])
        failed, largest = sizes.pop(None), max(sizes.values(), default=0)
        most[j] += (math.comb(largest + failed, 2) - math.comb(largest, 2)) / math.comb(runs_per_seed, 2)
    return most


def action_agreement(per_seed: NDArray[np.float64], confidence: float) -> tuple[Estimate, Estimate]:
    """Return the mean of per-seed shares of observations on which two runs act alike: for one look, and for every."""
    return one_look(per_seed, 0.0, False, confidence), every_look(per_seed, confidence)


def one_look(values: NDArray[np.float64], least: float, binary: bool, confidence: float) -> Estimate:
    """Return the mean of i.i.d. values in [least, 1], with an exact interval for one look.

    ``binary`` says that the values can only be ``least`` and 1. It follows from the design (R = 2) and is
    not read off the data, for that would choose the kind of interval by its outcome.
    """
    scaled = (values - least) / (1.0 - least)
    if binary:
        ends = clopper_pearson(round(float(scaled.sum())), scaled.size, confidence)
    else:
        ends = bounded_mean(np.clip(scaled, 0.0, 1.0), confidence)
    low, high = (least + (1.0 - least) * end for end in ends)
    mean = float(values.mean())
    return Estimate(mean, min(low, mean), max(high, mean))  # scaling back may be off by the last bit


def every_look(values: NDArray[np.float64], confidence: float, at_most: NDArray[np.float64] | None = None) -> Estimate:
    """Return the mean of i.i.d. values in [0, 1], with an interval that holds at every look.

    Where runs failed, the values count them as different, and ``at_most`` as agreeing: the interval holds for both.
    """
    low, high = mean_at_every_look(np.clip(values, 0.0, 1.0), confidence)
    if at_most is not None and not np.array_equal(at_most, values):
        _, high = mean_at_every_look(np.clip(at_most, 0.0, 1.0), confidence)
    mean = float(values.mean())
    return Estimate(mean, min(low, mean), max(high, mean))
