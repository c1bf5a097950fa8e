"""An undecided audit may be extended, and looked at again: its verdict errs as rarely as it says, however often.

Where counts are all that matters, the probability of ever erring is summed exactly, look by look.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats

import replicable_rl as rr
from replicable_rl.audit import every_look as module
from replicable_rl.audit.agreement import measure
from replicable_rl.audit.every_look import mean_at_every_look
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.errors import InvalidInput
from tests.statistics import ALPHA, SEED

Floats = NDArray[np.float64]
Rejects = Callable[[int, int], bool]  # successes, trials -> whether the truth is excluded


def zeros_and_ones(ones: int, n: int) -> Floats:
    return np.repeat([1.0, 0.0], [ones, n - ones])


# --- the way people use it -----------------------------------------------------------------------


def chance_of_ever(rejects: Rejects, p: float, looks: Iterable[int], *, above: bool = True) -> Floats:
    """Return the probability of having been rejected by each look, if every trial succeeds with probability p.

    ``above`` says that many successes reject, otherwise few do. The fewest that do, or that do not, rise by at most
    one with every trial, so they are looked for just above those of the last look.
    """

    def found(look: int, successes: int) -> bool:
        return successes > look or rejects(successes, look) is above

    alive, trials, bar, lost = np.ones(1), 0, 0, []
    for look in looks:
        for _ in range(look - trials):
            alive = np.append(alive * (1.0 - p), 0.0) + np.insert(alive * p, 0, 0.0)
        near = range(bar, bar + look - trials + (trials == 0))
        bar += bisect_left(near, True, key=partial(found, look))
        assert found(look, bar)
        assert bar == 0 or not found(look, bar - 1)
        alive[slice(bar, None) if above else slice(0, bar)] = 0.0
        trials = look
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

    def once(same: int, pairs: int) -> bool:
        return clopper_pearson(same, pairs)[0] >= 0.8

    def always(same: int, pairs: int) -> bool:
        return excluded(np.array([1.0, 0.0]), [same, pairs - same], 0.8, above=True)

    after = [0, 6, 25]  # 1, 7 and 26 looks: the table of docs/intervals.md
    assert chance_of_ever(once, 0.8, EVERY_FORTY)[after] == pytest.approx([0.0121, 0.0611, 0.1093], abs=5e-5)
    assert chance_of_ever(always, 0.8, EVERY_FORTY)[after] == pytest.approx([0.0010, 0.0029, 0.0042], abs=5e-5)
    assert chance_of_ever(once, 0.8, range(1, 3001))[-1] == pytest.approx(0.2313, abs=5e-5)
    assert chance_of_ever(always, 0.8, range(1, 3001))[-1] == pytest.approx(0.0214, abs=5e-5)


@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_verdicts_of_an_audit_that_is_extended(p: float) -> None:
    verdict = judged(p)
    assert chance_of_ever(lambda *seen: verdict(*seen) is True, p, EVERY_FORTY)[-1] <= 0.025
    assert chance_of_ever(lambda *seen: verdict(*seen) is False, p, EVERY_FORTY, above=False)[-1] <= 0.025


# --- values 0 and 1: exact -----------------------------------------------------------------------

SPARSE = [*range(1, 21), *range(30, 1001, 10)]


def check_every_look(p: float = 0.8) -> None:
    """The interval ever lies above p with probability at most 0.025, and ever below it, too."""
    above = chance_of_ever(lambda s, n: mean_at_every_look(zeros_and_ones(s, n))[0] > p, p, SPARSE)
    below = chance_of_ever(lambda s, n: mean_at_every_look(zeros_and_ones(s, n))[1] < p, p, SPARSE, above=False)
    assert above[-1] <= 0.025
    assert below[-1] <= 0.025


@pytest.mark.parametrize("p", [0.05, 0.5, 0.8])
def test_covers_at_every_look_exactly(p: float) -> None:
    check_every_look(p)


def excluded(values: Floats, times: Iterable[int], mean: float, *, above: bool) -> bool:
    """Whether the interval of values, each so many times, lies above the mean, or else below it."""
    x, m = (values, mean) if above else (1.0 - values, 1.0 - mean)
    return module._log_capital(x, np.array(times, dtype=np.float64), m) >= math.log(40.0)


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.8, 0.99])
def test_covers_at_each_of_three_thousand_looks(p: float, above: bool) -> None:
    values = np.array([1.0, 0.0])
    errs = chance_of_ever(lambda s, n: excluded(values, [s, n - s], p, above=above), p, range(1, 3001), above=above)
    assert errs[-1] <= 0.025
    assert errs[-1] > 0.002  # and it does not waste all of what it may err


def closed_form(ones: int, n: int, alpha: float = 0.05) -> float:
    """The low end by the incomplete beta function: Jeffreys' law of q, restricted to q >= m, against m."""
    a, b = ones + 0.5, n - ones + 0.5

    def excess(m: float) -> float:
        mixed = special.betaln(a, b) + math.log(special.betaincc(a, b, m))
        law = special.betaln(0.5, 0.5) + math.log(special.betaincc(0.5, 0.5, m))
        return float(mixed - law - special.xlogy(ones, m) - special.xlogy(n - ones, 1.0 - m) - math.log(2.0 / alpha))

    return float(optimize.brentq(excess, 1e-9, min(ones / n, 1.0 - 1e-9), xtol=1e-13))


@pytest.mark.parametrize("n", [5, 20, 60, 1000, 50_000])
def test_is_the_mixture_over_jeffreys_law(n: int) -> None:
    for ones in sorted({n // 5, n // 2, round(0.8 * n), n - 1, n}):
        low, _ = mean_at_every_look(zeros_and_ones(ones, n))
        _, high = mean_at_every_look(zeros_and_ones(n - ones, n))
        assert (low, 1.0 - high) == pytest.approx((closed_form(ones, n),) * 2, abs=1e-6)


def test_every_look_costs_little() -> None:
    """It contains the interval of one look, and is at most this many times as wide (docs/intervals.md)."""
    for n, times in ((20, 1.4), (60, 1.6), (200, 1.7), (1000, 1.9)):
        for ones in range(0, n + 1, max(1, n // 40)):
            once, always = clopper_pearson(ones, n), mean_at_every_look(zeros_and_ones(ones, n))
            assert always[0] <= once[0]
            assert once[1] <= always[1]
            assert always[1] - always[0] <= times * (once[1] - once[0])
    two_sided = (math.exp(special.betaln(60.5, 0.5) - special.betaln(0.5, 0.5)) / 20.0) ** (1.0 / 60.0)
    assert mean_at_every_look(np.ones(60))[0] > two_sided + 0.015  # what one mixture for both ends would give: 0.911


# --- values in between ---------------------------------------------------------------------------


THREE_RUNS = np.array([0.0, 1.0 / 3.0, 1.0])  # all differ, two agree, all agree


@pytest.mark.parametrize("law", [(0.2, 0.2, 0.6), (0.0, 0.3, 0.7), (0.1, 0.8, 0.1), (0.0, 0.05, 0.95), (0.5, 0.5, 0.0)])
def test_three_runs_at_every_look_exactly(law: tuple[float, float, float]) -> None:
    """The probability that the mean is ever missed, in audits of 1 to 30 shared seeds × 3 runs."""
    mean = law[1] / 3.0 + law[2]
    alive, missed = {(0, 0, 0): 1.0}, 0.0
    for _ in range(30):
        after: dict[tuple[int, int, int], float] = {}
        for (a, b, c), chance in alive.items():
            for seen, p in zip([(a + 1, b, c), (a, b + 1, c), (a, b, c + 1)], law, strict=True):
                if p > 0.0:
                    after[seen] = after.get(seen, 0.0) + chance * p
        out = {seen for seen in after if any(excluded(THREE_RUNS, seen, mean, above=side) for side in (True, False))}
        missed += sum(after[seen] for seen in out)
        alive = {seen: p for seen, p in after.items() if seen not in out}
    assert missed <= 0.05


def five_runs(rng: np.random.Generator, n: int) -> Floats:
    """Return the agreeing share of the 10 pairs of five runs; 15 % of the seeds make each run toss a coin."""
    heads = rng.binomial(5, 0.5, size=n) * (rng.random(n) < 0.15)
    return 1.0 - heads * (5 - heads) / 10.0


LAWS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float]] = {
    "five runs": (five_runs, 0.925),
    "all or nothing": (lambda rng, n: (rng.random(n) < 0.9).astype(np.float64), 0.9),
    "three values": (lambda rng, n: rng.choice([0.6, 0.8, 1.0], size=n, p=[0.25, 0.5, 0.25]), 0.8),
}


@pytest.mark.parametrize("law", LAWS)
def test_covers_at_many_looks(law: str) -> None:
    """Of 300 audits, those that ever miss the mean in 60 looks are few, but for a false alarm of probability ALPHA."""
    draw, mean = LAWS[law]
    rng = np.random.default_rng([SEED, len(law)])
    missed = 0
    for _ in range(300):
        x = draw(rng, 600)
        looks = (np.unique(x[:n], return_counts=True) for n in range(10, 601, 10))
        missed += any(excluded(*look, mean, above=side) for look in looks for side in (True, False))
    assert stats.binom.sf(missed - 1, 300, 0.05) > ALPHA, missed


def log_capital(x: Floats, m: float) -> float:
    """The log of the average capital from the definition, one value and one v at a time."""
    points, weights = np.polynomial.legendre.leggauss(128)
    phi, total = math.acos(math.sqrt(m)), 0.0
    for v, weight in zip((points + 1.0) / 2.0, weights / 2.0, strict=True):
        capital = 1.0
        for value in x.tolist():
            won, lost = math.cos(v * phi) ** 2 / math.cos(phi) ** 2, math.sin(v * phi) ** 2 / math.sin(phi) ** 2
            capital *= value * won + (1.0 - value) * lost
        total += weight * capital
    return math.log(total)


def test_ends_by_definition() -> None:
    """An end is rejected, and what lies a hair inside it is not."""
    rng = np.random.default_rng(SEED)
    for confidence in (0.5, 0.95, 0.999):
        for n in (8, 20, 60):
            x = rng.choice([0.3, 0.9, 1.0], size=n)
            low, high = mean_at_every_look(x, confidence)
            for end, data in ((low, x), (1.0 - high, 1.0 - x)):
                assert log_capital(data, end) >= math.log(2.0 / (1.0 - confidence))
                assert log_capital(data, end + 1e-6) < math.log(2.0 / (1.0 - confidence))


def test_small_variance_makes_it_short() -> None:
    low, high = mean_at_every_look(np.tile([0.6, 0.8, 1.0], 20))
    assert high - low < 0.6 * float(np.diff(mean_at_every_look(zeros_and_ones(48, 60)))[0])


def test_many_different_values() -> None:
    """On the grid the interval is wider than without it, but only by a trifle."""
    x = np.random.default_rng(SEED).random(3000) ** 0.1
    assert np.unique(x).size > module._GRID + 1
    values, times = module._counted(x)
    assert (values.size, times.sum(), values @ times) == pytest.approx((module._GRID + 1, x.size, x.sum()))
    (low, high), whole = mean_at_every_look(x), np.ones(x.size)
    assert 0.0 <= module._low_end(x, whole, 0.05) - low < 1e-6
    assert 0.0 <= high - (1.0 - module._low_end(1.0 - x, whole, 0.05)) < 1e-6


def test_long_samples_shrink_and_do_not_overflow() -> None:
    x = np.random.default_rng(SEED).random(1_000_000)
    low, high = mean_at_every_look(x)
    assert low < 0.5 < high < low + 0.004
    assert mean_at_every_look(np.ones(1_000_000))[0] > 1.0 - 1e-5
    assert mean_at_every_look(np.zeros(1_000_000)) == pytest.approx((0.0, 0.0), abs=1e-5)


SAMPLES = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=40)
CONFIDENCES = st.floats(0.01, 0.9999)


@given(SAMPLES, CONFIDENCES)
def test_contains_the_sample_mean_within_bounds(values: list[float], confidence: float) -> None:
    low, high = mean_at_every_look(values, confidence)
    assert 0.0 <= low <= np.mean(values) + 1e-15
    assert np.mean(values) - 1e-15 <= high <= 1.0
    mirrored = mean_at_every_look(1.0 - np.array(values), confidence)
    assert mirrored == pytest.approx((1.0 - high, 1.0 - low), abs=1e-9)


@given(SAMPLES, CONFIDENCES, CONFIDENCES)
def test_nested_in_confidence(values: list[float], one: float, two: float) -> None:
    inner, outer = (mean_at_every_look(values, confidence) for confidence in sorted((one, two)))
    assert outer[0] <= inner[0] + 1e-9
    assert inner[1] <= outer[1] + 1e-9


@given(SAMPLES, st.randoms(use_true_random=False))
def test_order_does_not_matter(values: list[float], rng: Any) -> None:
    shuffled = rng.sample(values, len(values))
    assert mean_at_every_look(shuffled) == mean_at_every_look(values)


@given(SAMPLES, st.floats(1e-6, 1.0 - 1e-6), st.floats(1e-6, 1.0 - 1e-6))
def test_what_lies_below_a_rejected_mean_is_rejected(values: list[float], one: float, two: float) -> None:
    x, times = module._counted(np.array(values))
    low, high = sorted((one, two))
    assert module._log_capital(x, times, high) <= module._log_capital(x, times, low) + 1e-9


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[], [0.5, 1.5], [math.nan], [[0.5]], ["0.5"], None])
def test_values_are_checked(values: Any) -> None:
    with pytest.raises(InvalidInput, match=r"audit\.mean_at_every_look: values must be a non-empty .*, got "):
        mean_at_every_look(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan, "0.95"])
def test_confidence_is_checked(confidence: Any) -> None:
    with pytest.raises(InvalidInput, match=r"audit\.mean_at_every_look: confidence must lie strictly between 0 and 1"):
        mean_at_every_look([0.5], confidence)
