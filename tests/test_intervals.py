"""Intervals: they cover as often as they say, exactly where that can be summed, and are not wider than they need be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats

from replicable_rl.audit.intervals import BOLD, bounded_mean, clopper_pearson, mean_at_every_look
from replicable_rl.errors import InvalidInput
from tests.statistics import ALPHA, SEED

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


# --- Bounded mean: exact -------------------------------------------------------------------------


def check_exact_coverage(n: int = 8) -> None:
    """Sum the probability of all 2^n samples of 0 and 1 whose interval covers, at the worst p."""
    samples = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    ends = np.array([bounded_mean(x) for x in samples])
    p, ones = worst_means(ends)[:, None], samples.sum(axis=1)
    covered = (ends[:, 0] <= p) & (p <= ends[:, 1])
    assert ((p**ones * (1.0 - p) ** (n - ones)) * covered).sum(axis=1).min() >= 0.95 - 1e-12


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_covers_exactly(n: int) -> None:
    check_exact_coverage(n)


def test_covers_exactly_with_three_values() -> None:
    values, n = np.array([0.0, 0.7, 1.0]), 6
    picks = np.array(list(itertools.product(range(3), repeat=n)))
    ends = np.array([bounded_mean(values[pick]) for pick in picks])
    for law in itertools.product(range(11), repeat=3):
        if sum(law) == 10:
            p = np.array(law) / 10.0
            mean = float(p @ values)
            covered = (ends[:, 0] <= mean + 1e-12) & (mean - 1e-12 <= ends[:, 1])
            assert p[picks].prod(axis=1) @ covered >= 0.95


def log_peak(x: Floats, m: float, confidence: float) -> float:
    """The largest log of the two players' average capital, one value at a time from the definition."""
    bet = math.sqrt(2.0 * math.log(2.0 / (1.0 - confidence)) / (len(x) * m * (1.0 - m)))
    capitals, peak = [1.0, 1.0], 0.0
    for value in x.tolist():
        for i, multiple in enumerate((1.0, BOLD)):
            capitals[i] *= max(0.0, 1.0 + min(multiple * bet, 1.0 / m) * (value - m))
        peak = max(peak, math.log(max(1.0, sum(capitals) / 2.0)))
    return peak


def test_ends_by_definition() -> None:
    """An end is rejected, and what lies a hair inside it is not."""
    rng = np.random.default_rng(SEED)
    for confidence in (0.5, 0.95, 0.999):
        for n in (3, 20, 60):
            x = rng.choice([0.3, 0.9, 1.0], size=n)
            low, high = bounded_mean(x, confidence)
            for end, data in ((low, x), (1.0 - high, 1.0 - x)):
                if end > 0.0 and data.mean() - end > 1e-3:  # else 0, or the mean of the sample
                    target = math.log(2.0 / (1.0 - confidence))
                    assert log_peak(data, end, confidence) >= target
                    assert log_peak(data, end + 2e-10, confidence) < target + 2e-9


@pytest.mark.parametrize("n", [20, 60, 200])
def test_all_ones_as_good_as_clopper_pearson(n: int) -> None:
    assert bounded_mean(np.ones(n)) == pytest.approx(clopper_pearson(n, n), abs=1e-9)
    assert bounded_mean(np.zeros(n)) == pytest.approx(clopper_pearson(0, n), abs=1e-9)
    assert (bounded_mean(np.ones(n))[1], bounded_mean(np.zeros(n))[0]) == (1.0, 0.0)


@pytest.mark.parametrize("n", [60, 201])
def test_small_variance_makes_it_short(n: int) -> None:
    low, high = bounded_mean(np.tile([0.6, 0.8, 1.0], n // 3))
    assert high - low < 0.6 * float(np.diff(clopper_pearson(round(0.8 * n), n))[0])


def test_long_sample_shrinks_and_does_not_overflow() -> None:
    x = np.random.default_rng(SEED).random(100_000)
    low, high = bounded_mean(x)
    assert low < x.mean() < high < low + 0.01
    low, high = bounded_mean(np.sort(x)[::-1])  # the order rejects even the mean of the sample
    assert low <= x.mean() <= high


SAMPLES = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=40)
CONFIDENCES = st.floats(0.01, 0.9999)


@given(SAMPLES, CONFIDENCES)
def test_contains_the_sample_mean_within_bounds(values: list[float], confidence: float) -> None:
    low, high = bounded_mean(values, confidence)
    assert 0.0 <= low <= np.mean(values) <= high <= 1.0
    assert bounded_mean(values, confidence) == (low, high)


@given(SAMPLES, CONFIDENCES, CONFIDENCES)
def test_nested_in_confidence(values: list[float], one: float, two: float) -> None:
    inner, outer = (bounded_mean(values, confidence) for confidence in sorted((one, two)))
    assert outer[0] <= inner[0] + 1e-9
    assert inner[1] <= outer[1] + 1e-9


@given(SAMPLES, CONFIDENCES)
def test_symmetric(values: list[float], confidence: float) -> None:
    low, high = bounded_mean(values, confidence)
    mirrored = bounded_mean(1.0 - np.array(values), confidence)
    assert mirrored == pytest.approx((1.0 - high, 1.0 - low), abs=1e-9)


# --- Bounded mean: coverage of larger samples ----------------------------------------------------


def pick(values: Sequence[float], weights: Sequence[float]) -> Callable[[np.random.Generator, tuple[int, int]], Floats]:
    return lambda rng, shape: rng.choice(np.array(values), size=shape, p=weights)


def audit_of_five_runs(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return the agreeing share of the 10 pairs of runs; 15 % of the seeds make each run toss a coin."""
    heads = rng.binomial(5, 0.5, size=shape) * (rng.random(shape) < 0.15)
    return 1.0 - heads * (5 - heads) / 10.0


LAWS: list[Law] = [
    *((f"0/1, p={p}", n, pick([0, 1], [1 - p, p]), p) for p, n in [(0.05, 20), (0.5, 10), (0.8, 60), (0.95, 20)]),
    ("all ones", 60, pick([1], [1]), 1.0),
    ("audit of five runs", 60, audit_of_five_runs, 0.925),
    ("three values", 20, pick([0.6, 0.8, 1.0], [0.25, 0.5, 0.25]), 0.8),
]


def coverage_p(interval: Interval, law: Law, rotation: int) -> float:
    """Return the p-value of so few intervals that cover if each does with probability 0.95."""
    _, n, draw, mean = law
    samples, times = np.unique(
        draw(np.random.default_rng(SEED + rotation), (REPETITIONS, n)), axis=0, return_counts=True
    )
    ends = np.array([interval(x) for x in samples])
    covered = (ends[:, 0] <= mean) & (mean <= ends[:, 1])
    return float(stats.binom.cdf(times[covered].sum(), REPETITIONS, 0.95))


@pytest.mark.parametrize("i", range(len(LAWS)), ids=[law[0] for law in LAWS])
def test_covers_as_often_as_it_says(i: int) -> None:
    assert coverage_p(bounded_mean, LAWS[i], i) > ALPHA


def test_coverage_test_refutes_the_normal_interval() -> None:
    def normal(x: Floats) -> tuple[float, float]:
        radius = 1.96 * float(x.std(ddof=1)) / math.sqrt(x.size)
        return float(x.mean()) - radius, float(x.mean()) + radius

    assert coverage_p(normal, ("0/1, p=0.95", 20, pick([0, 1], [0.05, 0.95]), 0.95), 0) < ALPHA


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


def test_many_different_values_are_moved_to_a_grid_that_widens_the_interval() -> None:
    x = np.random.default_rng(SEED).random(4000)
    low, high = mean_at_every_look(x)
    fine, top = mean_at_every_look(np.round(x, 3))
    assert abs(low - fine) < 1e-3
    assert abs(high - top) < 1e-3
    assert low < x.mean() < high < low + 0.05


# --- Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], r"shape \(0,\)"),
        ([0.5, 1.5], "1.5 at index 1"),
        ([-1e-9], "-1e-09 at index 0"),
        ([1.0, math.nan], "nan at index 1"),
        ([[0.5]], r"shape \(1, 1\)"),
        ([[0.5], [0.5, 1.0]], "different lengths"),
        (0.5, r"shape \(\)"),
        (["0.5"], "<U3"),
        (None, "object"),
    ],
)
def test_values_are_checked(values: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=rf"audit\.bounded_mean: values must be .* got .*{said}"):
        bounded_mean(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan, "0.95"])
def test_confidence_is_checked(confidence: Any) -> None:
    with pytest.raises(InvalidInput, match=r"audit\.bounded_mean: confidence must lie strictly between 0 and 1"):
        bounded_mean([0.5], confidence)
    with pytest.raises(InvalidInput, match=r"audit\.clopper_pearson: confidence must lie strictly between 0 and 1"):
        clopper_pearson(1, 2, confidence)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (-1, 5), (6, 5), (1.5, 5), (True, 5), (1, 2.5)])
def test_counts_are_checked(successes: Any, trials: Any) -> None:
    with pytest.raises(InvalidInput, match=r"audit\.clopper_pearson: (successes|trials) must be an integer"):
        clopper_pearson(successes, trials)
