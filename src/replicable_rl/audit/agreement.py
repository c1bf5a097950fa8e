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
  :func:`~replicable_rl.audit.intervals.mean_at_every_look`. It is wider, and it is the one that judges.

The paper's figure shows the **modal share** (largest class / R) and the **unique share**
(classes / R), as means over seeds. They are given by these names and never called agreement: a modal share of
0.80 is an agreement of 0.60 if R = 2, of 0.64 to 0.68 under *one* shared seed with many runs, and of 0.64
to 0.80 as a mean over seeds with many runs.

A failed run agrees with nothing, not with another failure. What it would have found is unknown, so it counts against
either verdict: the interval of every look reaches up to where it agrees with the most common output under its seed.

**Logs.** Under each of J shared seeds every one of K logs decides. All K(K-1)/2 pairs under all J seeds go into the
estimate, but they are not independent: a log takes part in K - 1 pairs, and every pair comes back under every seed.
*Logs are the evidence*: two logs are one comparison, under however many seeds it is made. The intervals rest on
disjoint pairs of logs, the first with the second, the third with the fourth, and so on, each under shared seeds of its
own. These n = min(floor(K/2), J) values are independent, because no two of them have a log or a seed in common, and
the mean of each is the agreement. *One look*: the seeds are dealt out to the n pairs in turn; a value is the share of
its seeds under which the pair agrees. *Every look*: the i-th pair under the i-th seed. More logs, or more seeds, add
values and change none of those before, so that the interval holds however often logs are added at the end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.intervals import bounded_mean, clopper_pearson, mean_at_every_look
from replicable_rl.wording import Displayed, described, interval, share, short_repr, with_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

Outputs = Sequence[str | None]  # a fingerprint for every run, those of one shared seed together; None: it failed


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
        ends = interval(self.every_look.low, self.every_look.high)
        return f"same {self.level} in {self.same} of {self.pairs} pairs: agreement {share(self.estimate)} ({ends})"


@dataclass(frozen=True)
class OutputClass:
    """Runs with identical outputs: the fingerprint, how many runs, under how many shared seeds."""

    fingerprint: str
    runs: int
    shared_seeds: int

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class StateAgreement:
    """Pairwise agreement of the action in every state.

    Attributes
    ----------
    per_state : (S,) floats
        In which share of the pairs of runs with one shared seed the action of a state is the same.
    overall : Estimate
        Its mean over states: how often two runs act alike in a state drawn at random, with its interval for one look.
    every_look : Estimate
        The same with the interval that holds however often more shared seeds are added.
    differing : (k,) integers
        The states in which some pair of runs differs, least agreement first.
    """

    per_state: NDArray[np.float64]
    overall: Estimate
    every_look: Estimate
    differing: NDArray[np.int64]

    __repr__ = short_repr


# --- two runs with one shared seed --------------------------------------------------------------------------------


def measure(level: str, outputs: Outputs, runs_per_seed: int, confidence: float) -> Agreement:
    """Return the agreement of outputs.

    >>> print(measure("policy", ["a", "a", "a", "b", "c", "c"], 2, 0.95))
    same policy in 2 of 3 pairs: agreement 0.667 (0.043–0.998)
    """
    seeds, pairs = len(outputs) // runs_per_seed, math.comb(runs_per_seed, 2)
    numbers: dict[object, int] = {}
    labels = np.array([numbers.setdefault(i if out is None else out, len(numbers)) for i, out in enumerate(outputs)])
    seed_and_label = np.repeat(np.arange(seeds), runs_per_seed) * (len(numbers) + 1) + labels
    cells, sizes = np.unique(seed_and_label, return_counts=True)
    seed = cells // (len(numbers) + 1)
    same = np.bincount(seed, weights=sizes * (sizes - 1) // 2, minlength=seeds)
    largest = np.zeros(seeds)
    np.maximum.at(largest, seed, sizes)
    shares = largest / runs_per_seed, np.bincount(seed, minlength=seeds) / runs_per_seed
    modal, unique = (one_look(values, 1.0 / runs_per_seed, runs_per_seed == 2, confidence) for values in shares)
    per_seed = same / pairs
    value = one_look(per_seed, 0.0, runs_per_seed == 2, confidence)
    always = every_look(per_seed, confidence, _at_most(per_seed, outputs, runs_per_seed))
    return Agreement(level, value, always, int(same.sum()), seeds * pairs, modal, unique, per_seed, seeds)


def _at_most(per_seed: NDArray[np.float64], outputs: Outputs, runs_per_seed: int) -> NDArray[np.float64]:
    """Return what the values would be if every failed run had returned the most common output under its seed."""
    highest = per_seed.copy()
    for j in {i // runs_per_seed for i, output in enumerate(outputs) if output is None}:
        sizes = Counter(outputs[j * runs_per_seed : (j + 1) * runs_per_seed])
        failed, largest = sizes.pop(None), max(sizes.values(), default=0)
        highest[j] += (math.comb(largest + failed, 2) - math.comb(largest, 2)) / math.comb(runs_per_seed, 2)
    return highest


def measure_states(
    policies: Mapping[str, NDArray[Any]], outputs: Outputs, runs_per_seed: int, confidence: float
) -> StateAgreement:
    """Compare policies state by state; ``policies`` holds the actions of every distinct fingerprint.

    A failed run (None) agrees with nothing in any state.
    """
    # Seeds whose runs fell into the same classes agree in the same states: each kind is compared once.
    groups = [tuple(sorted(Counter(filter(None, group)).items())) for group in by_seed(outputs, runs_per_seed)]
    pairs = math.comb(runs_per_seed, 2)
    total = np.zeros(len(next(iter(policies.values()))))
    shares: dict[object, float] = {}
    for kind, seeds in Counter(groups).items():
        agreement = _same_action([(policies[policy], size) for policy, size in kind], total.size) / pairs
        shares[kind] = float(agreement.mean())
        total += seeds * agreement
    per_state = total / len(groups)
    differing = np.flatnonzero(per_state < 1.0)
    per_seed = np.array([shares[kind] for kind in groups])
    rising = differing[np.argsort(per_state[differing], kind="stable")]
    overall = one_look(per_seed, 0.0, False, confidence)
    return StateAgreement(per_state, overall, every_look(per_seed, confidence), rising)


def _same_action(classes: Sequence[tuple[NDArray[Any], int]], n_states: int) -> NDArray[np.float64]:
    """Return, for every state, how many pairs of runs take the same action; classes are (policy, runs)."""
    same = np.zeros(n_states)
    sizes = np.array([size for _, size in classes], dtype=np.float64)
    actions = np.stack([policy.reshape(n_states, -1) for policy, _ in classes]) if classes else np.empty((0, 0, 0))
    for i, size in enumerate(sizes):
        alike = (actions[:i] == actions[i]).all(axis=2)
        same += size * (size - 1.0) / 2.0 + size * (sizes[:i] @ alike)
    return same


# --- logs ---------------------------------------------------------------------------------------------------------


def measure_logs(level: str, outputs: Outputs, logs: int, confidence: float) -> Agreement:
    """Return the agreement of logs; ``outputs`` are those of all logs under one shared seed, then the next.

    >>> print(measure_logs("policy", ["a", "a"] * 60, 2, 0.95))  # one pair of logs, however many seeds
    same policy in 60 of 60 pairs: agreement 1.000 (0.013–1.000)
    """
    agreement = measure(level, outputs, logs, confidence)
    table = np.array([f"?{i}" if output is None else output for i, output in enumerate(outputs)]).reshape(-1, logs)
    failed = np.array([output is None for output in outputs]).reshape(-1, logs)
    n = min(logs // 2, len(table))
    pairs = range(0, 2 * n, 2)
    same = np.stack([table[:, i] == table[:, i + 1] for i in pairs], axis=1).astype(np.float64)
    highest = np.maximum(same, np.stack([failed[:, i] | failed[:, i + 1] for i in pairs], axis=1))
    value, always = _of_disjoint_pairs(same, agreement.estimate, len(same) == n, confidence, highest)
    # All shares are of the same logs: one value, whatever the number of seeds.
    modal, unique = (
        one_look(np.array([float(mean)]), 1.0 / logs, False, confidence)
        for mean in (agreement.modal_share, agreement.unique_share)
    )
    return replace(agreement, value=value, every_look=always, modal_share=modal, unique_share=unique, independent=n)


def measure_states_of_logs(
    policies: Mapping[str, NDArray[Any]], outputs: Outputs, logs: int, confidence: float
) -> StateAgreement:
    """Compare the policies of logs state by state."""
    agreement = measure_states(policies, outputs, logs, confidence)
    seeds = len(outputs) // logs
    alike = np.zeros((seeds, min(logs // 2, seeds)))
    for (j, i), _ in np.ndenumerate(alike):
        first, second = outputs[j * logs + 2 * i], outputs[j * logs + 2 * i + 1]
        if first is not None and second is not None:
            same = policies[first] == policies[second]
            alike[j, i] = same.reshape(same.shape[0], -1).all(axis=1).mean()
    overall, always = _of_disjoint_pairs(alike, float(agreement.overall), False, confidence, alike)
    return replace(agreement, overall=overall, every_look=always)


def _of_disjoint_pairs(
    values: NDArray[np.float64], mean: float, binary: bool, confidence: float, highest: NDArray[np.float64]
) -> tuple[Estimate, Estimate]:
    """Return the mean over all pairs and seeds with both intervals; (J, n) ``values`` are of disjoint pairs of logs."""
    n = values.shape[1]
    dealt, diagonal = np.array([values[i::n, i].mean() for i in range(n)]), (range(n), range(n))
    looks = one_look(dealt, 0.0, binary, confidence), every_look(values[diagonal], confidence, highest[diagonal])
    once, always = (Estimate(mean, min(look.low, mean), max(look.high, mean)) for look in looks)
    return once, always


# --- classes of identical outputs ---------------------------------------------------------------------------------


def by_seed(outputs: Outputs, runs_per_seed: int) -> Iterator[tuple[str | None, ...]]:
    """Yield the outputs of every shared seed.

    >>> list(by_seed(["a", "a", "b", None], 2))
    [('a', 'a'), ('b', None)]
    """
    return zip(*[iter(outputs)] * runs_per_seed, strict=True)


def classes_of(outputs: Outputs, runs_per_seed: int) -> tuple[OutputClass, ...]:
    """Return the classes of identical outputs, largest first."""
    sizes: Counter[str | None] = Counter()
    seeds: Counter[str | None] = Counter()
    for group, times in Counter(by_seed(outputs, runs_per_seed)).items():  # most seeds are like many others
        for output, size in Counter(group).items():
            sizes[output] += times * size
            seeds[output] += times
    classes = [OutputClass(name, size, seeds[name]) for name, size in sizes.items() if name is not None]
    return tuple(sorted(classes, key=lambda same: (-same.runs, same.fingerprint)))


# --- intervals ----------------------------------------------------------------------------------------------------


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
