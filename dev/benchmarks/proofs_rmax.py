"""The bounds of R-max, each at the instance that comes closest to it: whether it is exceeded, and how loose it is.

Every instance draws numbers whose mean a bound of ``docs/proofs.md`` says is at most so much: distances of two
runs, or events, as 0 and 1. The instances are what the proofs fear most: counts that gather at a threshold, rows with
equal probabilities and exactly n0 visits, visits that stop when they look worst.

    .venv/bin/python -m dev.benchmarks.proofs_rmax 100000
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.theory import rmax

Floats = NDArray[np.float64]
Sampler = Callable[[int, np.random.Generator], Floats]
H, M, SMALL, LARGE = 10, 0.05, 4_000, 1_000_000  # steps, k + w, episodes of a round


class Instance(NamedTuple):
    """A bound, and draws whose mean it bounds; ``sampler(size, rng)`` returns ``size`` of them."""

    name: str
    bound: float
    sampler: Sampler


class Finding(NamedTuple):
    """What many draws of an instance say."""

    name: str
    bound: float
    mean: float
    error: float  # standard error of the mean

    @property
    def excess(self) -> float:
        """By how many standard errors the mean exceeds the bound; negative where it does not."""
        return (
            (self.mean - self.bound) / self.error
            if self.error > 0.0
            else math.copysign(math.inf, self.mean - self.bound)
        )

    @property
    def looseness(self) -> float:
        """The bound as a multiple of the mean."""
        return self.bound / self.mean if self.mean > 0.0 else math.inf


def measure(instance: Instance, size: int, rng: np.random.Generator) -> Finding:
    """Draw an instance ``size`` times."""
    drawn = instance.sampler(size, rng)
    return Finding(instance.name, instance.bound, float(drawn.mean()), float(drawn.std() / math.sqrt(size)))


def instances() -> list[Instance]:
    """Return all instances: queries, rows, the known set, stopping, and the largest deviations."""
    return [*_queries(), *_rows(), *_known_set(), *_stopping(), *_deviations()]


# --- queries: E|v1 - v2| <= c sigma/sqrt(n0), whenever the visits stop ----------------------------------------


def _queries() -> list[Instance]:
    n0, out = 50, []
    for n, c in ((n0, 2.0), (50_000, 1.63)):  # the second holds where sigma^2 n0 >= 10^4
        for p in (0.5, 0.1) if n == n0 else (0.5, 0.3):
            bound = c * math.sqrt(p * (1.0 - p) / n)
            out.append(Instance(f"query: p={p:g}, exactly n0={n} visits", bound, _exactly(n, p)))
            for factor in (0.84, 1.5):
                name = f"query: p={p:g}, stops {factor:g} sd off, n0={n}"
                out.append(Instance(name, bound, _stopped(n, p, factor)))
            out.append(Instance(f"query: p={p:g}, n0={n} visits or more, by chance", bound, _random_visits(n, p)))
    width = 0.4
    out.append(Instance("query: answers on a shared grid", 1.0 / math.sqrt(n0) / width, _answers(n0, 0.5, width)))
    return out


def _exactly(n: int, p: float) -> Sampler:
    return lambda size, rng: np.abs(rng.binomial(n, p, size) - rng.binomial(n, p, size)) / n


def _stopped(n0: int, p: float, factor: float) -> Sampler:
    """Two runs that stop, from n0 on, where their own mean is off by this many standard errors."""

    def one(size: int, rng: np.random.Generator) -> Floats:
        total, stopped, mean = rng.binomial(n0, p, size).astype(np.float64), np.zeros(size, dtype=bool), np.zeros(size)
        n, step = n0, 1
        while n < 40 * n0:
            due = ~stopped & (np.abs(total / n - p) >= factor * math.sqrt(p * (1.0 - p) / n))
            mean[due], stopped = total[due] / n, stopped | due
            total, n, step = total + rng.binomial(step, p, size), n + step, max(1, n // 50)
        return np.where(stopped, mean, total / n)

    return lambda size, rng: np.abs(one(size, rng) - one(size, rng))


def _random_visits(n0: int, p: float) -> Sampler:
    """Two runs with visits of their own, n0 to 3 n0, by chance."""

    def one(size: int, rng: np.random.Generator) -> Floats:
        n = rng.integers(n0, 3 * n0, size)
        return np.asarray(rng.binomial(n, p) / n)

    return lambda size, rng: np.abs(one(size, rng) - one(size, rng))


def _answers(n: int, p: float, width: float) -> Sampler:
    def differ(size: int, rng: np.random.Generator) -> Floats:
        offset = rng.random(size) * width
        bins = [np.floor((rng.binomial(n, p, size) / n - offset) / width) for _ in range(2)]
        return np.asarray(bins[0] != bins[1], dtype=np.float64)

    return differ


# --- rows: the sum over entries, and every set of successors at once ------------------------------------------


def _rows() -> list[Instance]:
    n0, out = 60, []
    for K in (2, 3, 8):
        bound = 2.0 * math.sqrt((K - 1.0) / n0)
        out.append(Instance(f"row: {K} equal successors, exactly n0 visits", bound, _row_distance(n0, K)))
    numbers = rmax(3, 1, 0.5, 0.1, 0.4, 0.3, H)
    radius, share = math.sqrt(numbers.events_log / (2.0 * n0)), numbers.delta / 2.0 / numbers.pairs
    out.append(Instance("row: total variation beyond r at any n >= n0", share, _any_row(n0, radius)))
    return out


def _row_distance(n: int, K: int) -> Sampler:
    def distance(size: int, rng: np.random.Generator) -> Floats:
        one, two = (rng.multinomial(n, np.full(K, 1.0 / K), size) for _ in range(2))
        return np.asarray(np.abs(one - two).sum(axis=1) / n)

    return distance


def _any_row(n0: int, radius: float) -> Sampler:
    """Whether some n >= n0 has a row that is off by more than the radius."""

    def broken(size: int, rng: np.random.Generator) -> Floats:
        total, n, off = rng.multinomial(n0, np.full(3, 1 / 3), size), n0, np.zeros(size, dtype=bool)
        while n < 20 * n0:
            off |= np.abs(total / n - 1 / 3).sum(axis=1) / 2.0 > radius
            total, n = total + rng.multinomial(1, np.full(3, 1 / 3), size), n + 1
        return off.astype(np.float64)

    return broken


# --- the known set: counts that gather at the threshold, and policies that follow them ------------------------


def known_distance(edge: float, window: float, b: float, eta: float) -> float:
    """Bound E|kappa(C1) - kappa(C2)|, kappa the cut to the window below ``edge``."""
    return math.sqrt(2.0 * b * (1.0 + eta) * edge) + 2.0 * window * math.exp(
        -eta * eta * edge / (2.0 * b * (1.0 + eta))
    )


def _known_set() -> list[Instance]:
    out = []
    for m, eta in ((SMALL, 1.0), (LARGE, 0.2)):
        bound = known_distance(M, M / 2, H / m, eta)
        for share in (0.75, 1.0, 1.1):
            out.append(Instance(f"known set: mean {share:g} M, m={m:.0e}", bound, _counts(m, [share * M])))
        out.append(Instance(f"known set: ten rounds, m={m:.0e}", bound, _counts(m, [M / 10] * 10)))
        out.append(Instance(f"known set: the policy follows the counts, m={m:.0e}", bound, _followed(m)))
    eta, b = 1.0, H / SMALL
    tail = math.exp(-eta * eta * M / (2.0 * b * (1.0 + eta)))
    out.append(Instance("known set: a mean of 2 M seen below M", tail, _below(SMALL, (1.0 + eta) * M, M)))
    return out


def _rates(m: int, c: float | Floats, size: int, rng: np.random.Generator) -> Floats:
    """Return visits per episode, mean c, all H of them in one episode: the largest variance that there is."""
    return np.asarray(rng.binomial(m, np.asarray(c) / H, size) * (H / m))


def _cut(counts: Floats) -> Floats:
    return np.clip(counts, M / 2, M)


def _counts(m: int, means: list[float]) -> Sampler:
    def distance(size: int, rng: np.random.Generator) -> Floats:
        one, two = (sum((_rates(m, c, size, rng) for c in means), np.zeros(size)) for _ in range(2))
        return np.abs(_cut(one) - _cut(two))

    return distance


def _followed(m: int) -> Sampler:
    """Ten rounds of M/8 each; once the two runs are far apart and near the edge, the pair is not visited again."""

    def distance(size: int, rng: np.random.Generator) -> Floats:
        one, two = np.zeros(size), np.zeros(size)
        far = 0.7 * math.sqrt(2.0 * H / m * M)
        for _ in range(10):
            c = np.where((np.abs(one - two) > far) & (np.minimum(one, two) > M / 2), 0.0, M / 8)
            one, two = (count + _rates(m, c, size, rng) for count in (one, two))
        return np.abs(_cut(one) - _cut(two))

    return distance


def _below(m: int, mean: float, edge: float) -> Sampler:
    return lambda size, rng: (_rates(m, mean, size, rng) <= edge).astype(np.float64)


# --- stopping ---------------------------------------------------------------------------------------------------


def _stopping() -> list[Instance]:
    epsilon, out = 2.0 * M, []
    for m in (SMALL, LARGE):
        bound = math.sqrt(H / m * epsilon)
        for share in (0.75, 1.0, 1.05):
            out.append(Instance(f"stopping: rate {share:g} eps/2, m={m:.0e}", bound, _counts(m, [share * M])))
    rate = rmax(2, 1, 0.5, epsilon, 0.4, 0.3, H, rounds=2, episodes=SMALL, known=0.1, window=0.1).unknown_rate
    out.append(Instance("stopping: a rate beyond u seen below eps/2", 0.4 / 2 / 2, _below(SMALL, rate, epsilon / 2)))
    return out


# --- the tight form: the largest deviation of a count that is at risk ---------------------------------------------


def _deviations() -> list[Instance]:
    out = []
    for log_term in (1.0, 2.0):
        b = H / LARGE
        t = math.sqrt(4.0 * b * M * log_term) + 2.0 * b * log_term / 3.0
        for mean in (M, M + 1.05 * t):
            name = f"tight: off by t, L={log_term:g}, mean {mean / M:.3g} M"
            out.append(Instance(name, 2.0 * math.exp(-log_term), _off(LARGE, mean, t)))
    return out


def _off(m: int, mean: float, t: float) -> Sampler:
    """Whether a count is at risk, cut at M, and further than t from its mean."""

    def broken(size: int, rng: np.random.Generator) -> Floats:
        count = _rates(m, mean, size, rng)
        low = (count <= M) & (mean - count >= t)
        return (low | (np.minimum(count, M) - mean >= t)).astype(np.float64)

    return broken


def main(size: int) -> None:
    """Measure every instance and print a table."""
    rng = np.random.default_rng(2023)
    print(f"{'instance':<58} {'bound':>9} {'measured':>9} {'loose':>6}  excess in standard errors")
    for instance in instances():
        found = measure(instance, size, rng)
        print(f"{found.name:<58} {found.bound:>9.3g} {found.mean:>9.3g} {found.looseness:>6.2f}  {found.excess:+.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
