"""Intervals: they cover as often as they say, exactly where that can be summed, and are not wider than they need be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats

from replicable_rl.audit.agreement import clopper_pearson, mean_at_every_look
from replicable_rl.errors import InvalidInput

Floats = NDArray[np.float64]
Interval = Callable[[Floats], tuple[float, float]]
Law = tuple[str, int, Callable[[np.random.Generator, tuple[int, int]], Floats], float]
REPETITIONS = 2000
GRID = np.linspace(0.0, 1.0, 101)


# --- Clopper and Pearson -------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 2, 7, 60, 1000])
def test_clopper_pearson_is_scipys(trials: int, confidence: float) -> None:
    for successes in sorted({0, 1, trials // 3, trials // 2, trials - 1, trials}):
        want = stats.binomtest(successes, trials).proportion_ci(confidence, method="exact")
        assert clopper_pearson(successes, trials, confidence) == pytest.approx((want.low, want.high), rel=1e-9)


@pytest.mark.parametrize("trials", [1, 5, 60, 10**6])
def test_clopper_pearson_at_the_ends(trials: int) -> None:
    edge = 0.025 ** (1.0 / trials)
    low, high = clopper_pearson(trials, trials)
    assert (low, high) == pytest.approx((edge, 1.0), rel=1e-12)
    assert high == 1.0
    low, high = clopper_pearson(0, trials)
    assert (low, high) == pytest.approx((0.0, 1.0 - edge), rel=1e-9)
    assert low == 0.0


@pytest.mark.parametrize("trials", [1, 2, 5, 20, 60])
def test_clopper_pearson_covers_exactly(trials: int) -> None:
    ends = np.array([clopper_pearson(k, trials) for k in range(trials + 1)])
    p = worst_means(ends)[:, None]
    covered = (ends[:, 0] <= p) & (p <= ends[:, 1])
    coverage = (stats.binom.pmf(np.arange(trials + 1), trials, p) * covered).sum(axis=1)
    assert coverage.min() >= 0.95 - 1e-12


def worst_means(ends: Floats) -> Floats:
    """Return a grid and both sides of every end: between ends the intervals that cover are the same ones."""
    return np.unique(np.clip(np.concatenate([GRID, (ends - 1e-9).ravel(), (ends + 1e-9).ravel()]), 0.0, 1.0))


SAMPLES = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=40)
CONFIDENCES = st.floats(0.01, 0.9999)


# --- every look --------------------------------------------------------------------------------------


def zeros_and_ones(ones: int, n: int) -> Floats:
    return np.repeat([1.0, 0.0], [ones, n - ones])


@pytest.mark.parametrize("p", [0.05, 0.5, 0.8, 0.95])
def test_an_interval_at_every_look_ever_errs_as_rarely_as_it_says(p: float) -> None:
    """The probability of ever lying above p, or ever below it, summed exactly over looks at 1 to 400 values."""
    looks = [*range(1, 21), *range(30, 401, 10)]
    ends = {n: np.array([mean_at_every_look(zeros_and_ones(ones, n)) for ones in range(n + 1)]) for n in looks}
    for side in (0, 1):
        alive = np.ones(1)  # the probability of each number of ones, of paths that never erred
        for n in range(1, looks[-1] + 1):
            alive = np.append(alive * (1.0 - p), 0.0) + np.insert(alive * p, 0, 0.0)
            if n in ends:
                alive[ends[n][:, 0] > p if side == 0 else ends[n][:, 1] < p] = 0.0
        assert 0.002 < 1.0 - alive.sum() <= 0.025


def test_one_look_does_not_hold_at_many() -> None:
    """Why there are two intervals: a mean of exactly 0.8 is called above 0.8 more and more often."""
    alive = np.ones(1)
    for n in range(1, 401):
        alive = np.append(alive * 0.2, 0.0) + np.insert(alive * 0.8, 0, 0.0)
        if n >= 60 and n % 20 == 0:
            alive[[clopper_pearson(ones, n)[0] > 0.8 for ones in range(n + 1)]] = 0.0
    assert 1.0 - alive.sum() > 0.05


def closed_form(ones: int, n: int) -> float:
    """The low end by the incomplete beta function: Jeffreys' law of q, restricted to q >= m, against m."""
    a, b = ones + 0.5, n - ones + 0.5

    def excess(m: float) -> float:
        mixed = special.betaln(a, b) + math.log(special.betaincc(a, b, m))
        law = special.betaln(0.5, 0.5) + math.log(special.betaincc(0.5, 0.5, m))
        return float(mixed - law - special.xlogy(ones, m) - special.xlogy(n - ones, 1.0 - m) - math.log(40.0))

    return float(optimize.brentq(excess, 1e-9, min(ones / n, 1.0 - 1e-9), xtol=1e-13))


@pytest.mark.parametrize("n", [5, 60, 1000, 50_000])
def test_every_look_is_the_mixture_over_jeffreys_law(n: int) -> None:
    for ones in sorted({n // 5, n // 2, n - 1, n}):
        low, _ = mean_at_every_look(zeros_and_ones(ones, n))
        _, high = mean_at_every_look(zeros_and_ones(n - ones, n))
        assert (low, 1.0 - high) == pytest.approx((closed_form(ones, n),) * 2, abs=1e-6)


@given(SAMPLES, CONFIDENCES)
def test_every_look_contains_the_mean_and_asks_for_no_order(values: list[float], confidence: float) -> None:
    low, high = mean_at_every_look(values, confidence)
    assert 0.0 <= low <= np.mean(values) + 1e-12
    assert np.mean(values) - 1e-12 <= high <= 1.0
    assert mean_at_every_look(values[::-1], confidence) == (low, high)


@given(SAMPLES, CONFIDENCES, CONFIDENCES)
def test_a_higher_confidence_contains_a_lower_one(values: list[float], x: float, y: float) -> None:
    inner, outer = (mean_at_every_look(values, confidence) for confidence in sorted((x, y)))
    assert outer[0] <= inner[0] + 1e-9
    assert inner[1] <= outer[1] + 1e-9


def test_small_variance_makes_it_short() -> None:
    low, high = mean_at_every_look(np.tile([0.6, 0.8, 1.0], 67))
    wide = mean_at_every_look(zeros_and_ones(161, 201))
    assert high - low < 0.6 * (wide[1] - wide[0])


# --- Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[], [0.5, 1.5], [-1e-9], [1.0, math.nan], [[0.5]], 0.5])
def test_values_are_checked(values: Any) -> None:
    with pytest.raises(InvalidInput, match="values must be"):
        mean_at_every_look(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan, "0.95"])
def test_confidence_is_checked(confidence: Any) -> None:
    with pytest.raises(InvalidInput, match="confidence must lie strictly between 0 and 1"):
        mean_at_every_look([0.5], confidence)
    with pytest.raises(InvalidInput, match=r"audit\.clopper_pearson: confidence must lie strictly between 0 and 1"):
        clopper_pearson(1, 2, confidence)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (-1, 5), (6, 5), (1.5, 5), (True, 5), (1, 2.5)])
def test_counts_are_checked(successes: Any, trials: Any) -> None:
    with pytest.raises(InvalidInput, match=r"audit\.clopper_pearson: (successes|trials) must be an integer"):
        clopper_pearson(successes, trials)
