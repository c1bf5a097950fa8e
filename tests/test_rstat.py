"""rSTAT: a pure function of (mean, offset), accurate, and separating means with probability d/beta."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.queries import Means, RStat, rstat
from replicable_rl.randomness import SharedRandomness
from tests.statistics import ALPHA, SEED, binomial_p

unit = st.floats(0.0, 1.0)
offsets = st.floats(0.0, 1.0, exclude_max=True)
widths = st.floats(1e-9, 3.0)
forms = st.sampled_from(["midpoint", "zero-preserving"])


@given(unit, offsets, widths)
def test_midpoint_errs_by_half_a_bin(mean: float, offset: float, width: float) -> None:
    answer = float(rstat(mean, offset, width).answer)
    assert 0.0 <= answer <= 1.0
    assert abs(answer - mean) <= width / 2 * (1 + 1e-9) + 1e-15


@given(unit, offsets, widths)
def test_zero_preserving_errs_by_a_bin_and_keeps_zero(mean: float, offset: float, width: float) -> None:
    answer = float(rstat(mean, offset, width, form="zero-preserving").answer)
    assert 0.0 <= answer <= 1.0
    assert abs(answer - mean) <= width * (1 + 1e-9) + 1e-15
    assert float(rstat(0.0, offset, width, form="zero-preserving").answer) == 0.0


@given(unit, unit, offsets, widths, forms)
def test_same_bin_same_bits(one: float, two: float, offset: float, width: float, form: str) -> None:
    a = rstat(one, offset, width, form=form)  # type: ignore[arg-type]
    b = rstat(two, offset, width, form=form)  # type: ignore[arg-type]
    if a.bin == b.bin:
        assert a.answer.tobytes() == b.answer.tobytes()
    else:
        assert abs(one - two) > 0


@given(st.lists(unit, min_size=2, max_size=8), offsets, widths)
def test_answers_rise_with_means(means: list[float], offset: float, width: float) -> None:
    rounded = rstat(sorted(means), offset, width)
    assert (np.diff(rounded.answer) >= 0).all()
    assert (np.diff(rounded.bin) >= 0).all()


@given(st.lists(st.tuples(unit, offsets), min_size=1, max_size=8), widths, forms)
def test_vectorised_is_elementwise(pairs: list[tuple[float, float]], width: float, form: str) -> None:
    means, offs = np.array(pairs).T
    whole = rstat(means, offs, width, form=form)  # type: ignore[arg-type]
    for i, (mean, off) in enumerate(pairs):
        one = rstat(mean, off, width, form=form)  # type: ignore[arg-type]
        assert one.answer == whole.answer[i]
        assert one.bin == whole.bin[i]


@given(st.integers(0, 60), st.integers(1, 59))
def test_by_hand_in_exact_arithmetic(numerator: int, offset_60ths: int) -> None:
    """Width 1/4 and offsets in 60ths: the bin from integer arithmetic."""
    mean, offset, width = numerator / 60 + 1 / 997, offset_60ths / 60, 0.25
    mean = min(mean, 1.0)
    got = rstat(mean, offset, width)
    edges = [offset * width + k * width for k in range(-1, 6)]
    k = max(i for i, edge in enumerate(edges, start=-1) if edge <= mean)
    assert got.bin == k
    low, high = max(0.0, offset * width + k * width), min(1.0, offset * width + (k + 1) * width)
    assert got.answer == pytest.approx((low + high) / 2, abs=1e-15)


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.8, 1.0, 1.7])
@pytest.mark.parametrize("form", ["midpoint", "zero-preserving"])
def test_two_means_are_separated_with_probability_d_over_beta(ratio: float, form: str) -> None:
    """Away from the ends, over fresh shared offsets; exact binomial test."""
    width, trials = 0.07, 20_000
    offset = SharedRandomness(SEED).uniform("test/offset", shape=trials)
    one = rstat(np.full(trials, 0.41), offset, width, form=form).answer  # type: ignore[arg-type]
    two = rstat(np.full(trials, 0.41 + ratio * width), offset, width, form=form).answer  # type: ignore[arg-type]
    differ = int((one != two).sum())
    if ratio >= 1.0:
        assert differ == trials
    else:
        assert binomial_p(differ, trials, ratio) > ALPHA


def test_ends() -> None:
    # bins [0, 0.1875), [0.1875, 0.5625), [0.5625, 0.9375), [0.9375, 1]
    assert rstat([0.0, 0.9, 1.0], 0.5, 0.375).answer.tolist() == [0.09375, 0.75, 0.96875]
    assert rstat(1.0 + 1e-16, 0.0, 0.25).answer <= 1.0
    assert rstat([0.3], 0.9, 5.0).answer.tolist() == [0.5]  # one bin holds everything


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_width(width: float) -> None:
    with pytest.raises(rr.InvalidInput, match="rstat: width"):
        rstat(0.5, 0.5, width)


def test_bad_mean_and_form() -> None:
    with pytest.raises(rr.InvalidInput, match="NaN"):
        rstat([0.5, np.nan], 0.5, 0.1)
    with pytest.raises(rr.InvalidInput, match="form"):
        rstat(0.5, 0.5, 0.1, form="middle")  # type: ignore[arg-type]


# --- queries: one protocol ------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.lists(st.tuples(unit, st.integers(0, 200)), min_size=1, max_size=8), widths, forms)
def test_a_query_is_rstat_at_an_address(seed: int, asked: list[tuple[float, int]], width: float, form: str) -> None:
    """All elements of an address in order, or some by their index: the same grid for the same element."""
    shared = SharedRandomness(seed)
    query = RStat(shared, "test/offset", width, form)  # type: ignore[arg-type]
    means, index = np.array([mean for mean, _ in asked]), np.array([i for _, i in asked])
    offset = shared.uniform("test/offset", 3, shape=201)
    expected = rstat(means, offset[index], width, form=form).answer  # type: ignore[arg-type]
    assert query.answer(means, 3, index=index).tolist() == expected.tolist()
    every = query.answer(np.full(201, means[0]), 3)
    assert every.tolist() == rstat(np.full(201, means[0]), offset, width, form=form).answer.tolist()  # type: ignore[arg-type]
    if query.keeps_zero:
        assert not query.answer(np.zeros(201), 3).any()


def test_queries_that_ship() -> None:
    shared, means = SharedRandomness(1), np.array([0.3, 0.0])
    plain, rounded = Means(), RStat(shared, "x", 0.1, "zero-preserving")
    assert plain.keeps_zero
    assert plain.answer(means, 7, index=np.array([1, 2])).tolist() == means.tolist()
    assert rounded.keeps_zero
    assert not RStat(shared, "x", 0.1).keeps_zero
    for wrong in ({"width": 0.0}, {"form": "middle"}):
        with pytest.raises(rr.InvalidInput, match=next(iter(wrong))):
            RStat(**{"shared": shared, "label": "x", "width": 0.1, **wrong})  # type: ignore[arg-type]
