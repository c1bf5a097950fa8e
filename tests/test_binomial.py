"""The binomial sampler: its generator, its bounds, and its law to a thousandth of what each branch does."""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats

from replicable_rl.sampling import _kernels as module
from tests.statistics import ALPHA, SEED, goodness_of_fit

HUGE = 2**63 - 1


def test_generator_is_philox_4x32_10() -> None:
    """Against the known answers of the authors' Random123."""
    ones, some = 2**32 - 1, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    answers = {
        ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ((ones,) * 4, (ones,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        (some, (0xA4093822, 0x299F31D0)): (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    }
    for (counter, key), words in answers.items():
        stream: Any = tuple(np.uint64(word) for word in (*key, *counter[1:]))
        expected = tuple((((high << 32 | low) >> 12) + 0.5) * 2.0**-52 for high, low in (words[:2], words[2:]))
        assert module.uniforms(stream, counter[0]) == expected


def test_streams_are_the_words_and_the_block() -> None:
    words = np.array([2**40 + 7, 2**50 + 9], dtype=np.uint64)
    assert list(map(int, module.stream_of(words, 5))) == [7, 2**8, 5, 9, 2**18]


# --- what decides a candidate: bounds against exact arithmetic ---------------------------------------------


def exact_log_ratio(n: int, r: float, offset: int) -> float:
    """Ln f(mode + offset)/f(mode) for the rounded mean that the sampler works with, in exact fractions."""
    mean = Fraction(n * r)
    p, mode = mean / n, math.floor(n * r + r)
    steps = range(1, offset + 1) if offset > 0 else range(offset + 1, 1)
    total = 0.0
    for i in steps:  # f(k)/f(k - 1) for k = mode + i
        k = mode + i
        total += math.log((n - k + 1) * p / (k * (1 - p)))
    return total if offset > 0 else -total


CASES = [(20, 0.5), (21, 0.49), (40, 0.25), (100, 0.3), (1000, 0.01001), (1000, 0.5), (13_000, 0.1), (10**6, 0.2)]


def bounds(offset: int, n: int, r: float) -> tuple[float, float, float]:
    mean, mode, spread, *_ = module._hat(float(n), r)
    return module.ratio_to_mode(float(offset), float(n), mean, mode, spread)


def check_ratio(bounds: Callable[[int, int, float], tuple[float, float, float]]) -> None:
    for n, r in CASES:
        mode = math.floor(n * r + r)
        reach = int(bounds(0, n, r)[2])
        assert 0 < reach <= min(mode, n - mode)
        farthest = min(reach + 3, mode, n - mode)
        for offset in sorted({*range(-min(farthest, 60), min(farthest, 60) + 1), -farthest, farthest, -reach, reach}):
            ratio, error, _ = bounds(offset, n, r)
            true = math.exp(exact_log_ratio(n, r, offset))
            assert true <= ratio * (1.0 + 2.0 * error)
            if abs(offset) <= reach:
                assert true >= ratio * (1.0 - error)


def test_the_ratio_to_the_mode_is_within_its_error() -> None:
    check_ratio(bounds)


def test_a_bias_of_a_thousandth_in_the_ratio_is_caught() -> None:
    for factor in (0.999, 1.001):

        def biased(offset: int, n: int, r: float, factor: float = factor) -> tuple[float, float, float]:
            ratio, error, reach = bounds(offset, n, r)
            return factor * ratio, error, reach

        with pytest.raises(AssertionError):
            check_ratio(biased)


def test_exponential() -> None:
    x = np.linspace(-40.0, 1.0, 5001)
    error = [module.exponential(y) / math.exp(y) - 1.0 for y in x.tolist()]
    assert max(map(abs, error)) < 1.5e-4


def test_exponents_stay_in_its_range() -> None:
    """The logarithm at the reach, where it is smallest, for every size of n and r."""
    for n in (20, 100, 10**4, 10**9, 10**15, HUGE):
        for r in (10.5 / n, 0.01, 0.1, 0.3, 0.5):
            if n * r >= 10.0:
                mean, mode, spread, *_ = module._hat(float(n), r)
                for side in (-1.0, 1.0):
                    ratio, _, _ = module.ratio_to_mode(side * 1e18, float(n), mean, mode, spread)
                    assert ratio > math.exp(-40.0)


def test_log_pmf() -> None:
    for n, r in CASES:
        mode = math.floor(n * r + r)
        for offset in (-7, -1, 1, 5, 9):
            log_ratio = module.log_pmf(n, r, mode + offset, offset + (mode - n * r)) - module.log_pmf(
                n, r, mode, mode - n * r
            )
            assert log_ratio == pytest.approx(exact_log_ratio(n, r, offset), abs=1e-9)


@pytest.mark.parametrize("r", [0.0, 1e-300, 1e-18, 1e-9, 1e-3, 0.1, 1.0 / 3.0, 0.49999, 0.5])
def test_powers_are_exact_up_to_rounding(r: float) -> None:
    with decimal.localcontext(prec=50):
        for part in (0.0, 1e-3, 0.1, 0.5, 0.9, 1.0):
            n = int(min(part * 10.0 / r, 2.0**63 - 1024.0)) if r > 0.0 else int(part * 1e18)
            exact = (n * (1 - decimal.Decimal(r)).ln()).exp()
            assert abs(decimal.Decimal(module.chance_of_none(r, float(n))) / exact - 1) < 1e-14


def check_inversion(sampler: dict[str, Any], size: int = 4096) -> None:
    """Also at its ends: no draw beyond n, and r = 0 on either side."""
    rows, more = (len(table) for table in module.workspace())
    rng = np.random.default_rng(SEED)
    for n, p in [(0, 0.3), (1, 0.5), (3, -0.2), (12, 1.0 / 3.0), (19, -0.5), (10**6, 9e-6), (7, 0.0), (7, -0.0)]:
        u = np.concatenate([[2.0**-53, 1.0 - 2.0**-53], rng.random(size - 2)])
        integers, floats = np.full((rows, size), n), np.full((more, size), p)
        floats[module._SMALL_U], integers[module._WHICH_SMALL] = u, np.arange(size)[::-1]
        sampler["_invert"](np.uint64(size), integers, floats)
        drawn = integers[module.DRAWN][::-1]
        k = n - drawn if math.copysign(1.0, p) < 0.0 else drawn
        assert (k >= 0).all()
        assert (k <= n).all()
        inner = slice(2, None)  # at 1 - 2**-53, rounding decides among values that are equally out of the way
        assert stats.binom.isf(1e-14, n, abs(p)) <= k[1]
        assert np.array_equal(k[inner], stats.binom.ppf(u[inner], n, abs(p)).clip(0))


def test_small_draws_are_the_inverse_of_the_distribution_function() -> None:
    check_inversion(vars(module))


def test_small_draws_end_where_chances_do() -> None:
    """The probabilities may sum up to less than the largest u: no draw runs on for that."""
    integers, floats = module.workspace()
    u = 1.0 - np.arange(1, 65) * 2.0**-53
    integers[module._WHICH_SMALL, :64] = np.arange(64)
    for r in np.linspace(1e-3, 9.9e-3, 100):
        integers[module.N, :64], floats[module.P, :64], floats[module._SMALL_U, :64] = 1000, r, u
        module._invert(np.uint64(64), integers, floats)
        assert stats.binom.sf(integers[module.DRAWN, :64].max() - 1, 1000, r) > 1e-20


def check_decisions(sampler: dict[str, Any], n: int, signed: float, size: int = 100_000) -> None:
    """Every candidate is Hörmann's, and is accepted or rejected as his rule without the squeezes says."""
    r = abs(signed)
    mean, spread = n * r, math.sqrt(n * r * (1.0 - r))
    mode, b = math.floor(mean + r), 1.15 + 2.53 * spread
    a, alpha = -0.0873 + 0.0248 * b + 0.01 * r, (2.83 + 5.1 / b) * spread
    stream: Any = tuple(np.uint64(word) for word in (SEED % 2**32, 5, 0, 6, 7))
    rows, more = (len(table) for table in module.workspace())
    integers, floats = np.full((rows, size), n), np.full((more, size), signed)
    module._fill_uniforms(stream, 0, size, floats)
    us, vs = floats[module._U], floats[module._V]
    assert (us[7], vs[7]) == module.uniforms(stream, 7)
    sampler["_easy_candidates"](size, integers, floats)
    candidate, easy_verdict = integers[[module.DRAWN, module._VERDICT]]
    sampler["_candidates"](size, module._U, 0, integers, floats)
    verdict = integers[module._VERDICT]
    assert np.array_equal(np.where(verdict == module._REJECTED, -1, candidate), integers[module._TRIAL])
    assert (verdict[easy_verdict == module._ACCEPTED] == module._ACCEPTED).all()
    assert 0.3 < (easy_verdict == module._ACCEPTED).mean() < 0.9
    log_mode = module.log_pmf(n, r, mode, mode - mean)
    for i in range(size):
        u, v = us[i] - 0.5, vs[i]
        edge = 0.5 - abs(u)
        exact = (2.0 * a / edge + b) * u + (mean - mode + 0.5)
        k = mode + math.floor(exact)
        possible = 0 <= k <= n
        if possible and abs(exact - round(exact)) > 1e-7 * max(abs(exact), 1.0):
            assert candidate[i] == (n - k if signed < 0.0 else k)
        if verdict[i] in (module._ACCEPTED, module._REJECTED):
            kept = possible and math.log(v * alpha / (a / (edge * edge) + b)) <= (
                module.log_pmf(n, r, k, (k - mode) + (mode - mean)) - log_mode
            )
            assert kept == (verdict[i] == module._ACCEPTED)
    assert (verdict == module._CLOSE).mean() < (0.02 if mean > 50 else 0.15)  # the bounds decide nearly all
    assert 0.6 < (verdict == module._ACCEPTED).mean() < 0.95


@pytest.mark.parametrize(("n", "p"), [(100, 0.3), (40, -0.5), (10_000, 0.01), (13_000, -0.2), (10**9, 0.4)])
def test_candidates_are_decided_exactly(n: int, p: float) -> None:
    check_decisions(vars(module), n, p)


# --- the law, with the power to see a thousandth ---------------------------------------------------------------


@functools.cache
def sums_of(binomials: Any, stream_of: Any, workspace: Any) -> Any:
    """Return a compiled loop that draws and keeps the first two moments around a centre, and a histogram."""
    N, DRAWN, P = module.N, module.DRAWN, module.P

    @numba.njit(nogil=True)
    def draw(n: int, p: float, centre: int, scale: float, words: Any, blocks: int, cells: int) -> Any:
        size = 512
        integers, floats = workspace()
        histogram = np.zeros(cells, dtype=np.int64)
        first = second = 0.0
        for block in range(blocks):
            integers[N, :size], floats[P, :size] = n, p
            binomials(np.int64(size), stream_of(words, block), np.int64(0), integers, floats)
            for j in range(size):
                k = integers[DRAWN, j]
                z = (k - centre) / scale
                first += z
                second += z * z
                cell = k - centre + cells // 2
                histogram[0 if cell < 0 else cells - 1 if cell >= cells else cell] += 1
        return first, second, histogram

    return draw


# A binomial for every branch, and blocks of 512 draws: inversion; rejection with many close cases; ordinary; and
# beyond all tables.
LAWS = {
    "inversion": (100, 0.05, 40_000),
    "small": (100, 0.3, 100_000),
    "ordinary": (10_000, -0.2, 100_000),
    "huge": (10**15, 0.3, 100_000),
}


def check_law(sampler: dict[str, Any], name: str) -> None:
    """Mean and variance within a few 1e-4 of a standard deviation, and every cell of the histogram."""
    n, signed, blocks = LAWS[name]
    p = signed if signed > 0 else 1.0 + signed
    centre, scale = round(n * p), math.sqrt(n * p * (1 - p))
    cells = 1024 if n <= 10_000 else 2
    words = np.array([SEED, len(name)], dtype=np.uint64)
    draw = sums_of(sampler["binomials"], sampler["stream_of"], sampler["workspace"])
    first, second, histogram = draw(n, signed, centre, scale, words, blocks, cells)
    draws = 512 * blocks
    shift = float(Fraction(n) * Fraction(p) - centre) / scale
    assert 2.0 * stats.norm.sf(abs(first - draws * shift) / math.sqrt(draws)) > ALPHA
    excess = (1.0 - 6.0 * p * (1.0 - p)) / (scale * scale)  # kurtosis: the variance of a squared deviation
    deviation = second - 2.0 * shift * first + draws * shift * shift - draws
    assert 2.0 * stats.norm.sf(abs(deviation) / math.sqrt((2.0 + excess) * draws)) > ALPHA
    if n <= 10_000:
        expected = stats.binom.pmf(np.arange(cells) + centre - cells // 2, n, p) * draws
        assert goodness_of_fit(histogram, expected) > ALPHA


@pytest.mark.parametrize("name", LAWS)
def test_law(name: str) -> None:
    check_law(vars(module), name)


def law(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda sampler: check_law(sampler, name)
