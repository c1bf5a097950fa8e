"""Learned rows: distributions, as sparse as the data, the same bits whenever and with whatever they are learned."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import replicable_rl as rr
from replicable_rl.algorithms.approximate_mdp import LearnedModel, RowQueries
from replicable_rl.problem.source import Support
from replicable_rl.queries import Means
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import TransitionCounts
from replicable_rl.theory.rstat import Form
from tests.statistics import SEED

Floats = NDArray[np.float64]
SHARED = rr.SharedRandomness(2023)
FORMS: list[Form] = ["zero-preserving", "midpoint"]
S, A = 4, 2
PLAIN = RowQueries(Means(), Means())


def rounded(width: float, form: Form = "zero-preserving", seed: int = 2023, label: str = "rmax") -> RowQueries:
    return RowQueries.rounded(rr.SharedRandomness(seed), label, width, form)


def counts(rows: dict[int, dict[int, float]], rewards: dict[int, float] | None = None) -> TransitionCounts:
    """Counts of a problem with S states and A actions: rows[pair][successor], and the sum of a pair's rewards."""
    key = sorted(pair * S + successor for pair, row in rows.items() for successor in row)
    count = [float(rows[k // S][k % S]) for k in key]
    given, sums = set(), []
    for k in key:  # all of a pair's rewards on its first transition: only their sum matters
        sums.append(0.0 if k // S in given else (rewards or {}).get(k // S, 0.0))
        given.add(k // S)
    return TransitionCounts(S, A, np.array(key, dtype=np.int64), np.array(count), np.array(sums))


def new_model(known_rewards: Floats | None = None, initial: Floats | None = None, **changes: Any) -> LearnedModel:
    sizes = {"n_states": S, "n_actions": A, "gamma": 0.9, "reward_range": (0.0, 1.0), **changes}
    every = Support.of("", None, S, A)
    problem: Any = SimpleNamespace(known_rewards=known_rewards, initial=initial, support=every, **sizes)
    return LearnedModel.empty(problem)


def learn(query: RowQueries, seen: TransitionCounts, pairs: Any, **options: Any) -> LearnedModel:
    return new_model(**options).learned(np.asarray(pairs, dtype=np.int64), seen, query)


def row_of(model: LearnedModel, pair: int) -> dict[int, float]:
    """A row of the model as it is handed on."""
    rows = model.table.rows
    of = rows.of_row(pair)
    return dict(zip(rows.next_state[of].tolist(), rows.probability[of].tolist(), strict=True))


def rewards_of(model: LearnedModel) -> list[float]:
    rows = model.table.rows
    return [float(rows.reward[rows.indptr[pair]]) for pair in range(S * A)]


def offset_by_words(label: str, position: int, seed: int = 2023) -> float:
    """The offset at a position, from the raw words: the upper 53 bits of word i, times 2**-53."""
    word = int(rr.SharedRandomness(seed).words(label, count=position + 1)[position])
    return (word >> 11) * 2.0**-53


def round_by_hand(mean: float, offset: float, width: float, form: Form) -> float:
    """Section 2 of ALGORITHMS: the middle of the bin, or 0 for the bin at 0."""
    off = offset * width
    k = math.floor((mean - off) / width)
    low, high = max(0.0, off + k * width), min(1.0, off + (k + 1) * width)
    return 0.0 if form == "zero-preserving" and low == 0.0 else (low + high) / 2


# --- rows ------------------------------------------------------------------------------------------------

rows_seen = st.dictionaries(
    st.integers(0, S * A - 1),
    st.dictionaries(st.integers(0, S - 1), st.integers(1, 2**50), min_size=1),
    min_size=1,
)
queries = st.one_of(
    st.just(PLAIN),
    st.builds(
        lambda seed, width, form: rounded(width, form, seed),
        st.integers(0, 2**32),
        st.floats(1e-6, 1.5),
        st.sampled_from(FORMS),
    ),
)


@settings(max_examples=150, deadline=None)
@given(rows_seen, st.floats(1e-4, 1.5), st.sampled_from(FORMS), st.integers(0, 1000))
def test_rows_against_an_independent_computation(
    seen: dict[int, dict[int, float]], width: float, form: Form, seed: int
) -> None:
    """Offsets addressed by (s, a, s') and nothing else, rounding and division by the sum, by hand."""
    query = rounded(width, form, seed)
    model = learn(query, counts(seen), sorted(seen))
    for pair, row in seen.items():
        visits = sum(row.values())
        asked = range(S) if form == "midpoint" else sorted(row)
        answers = {
            s: round_by_hand(row.get(s, 0) / visits, offset_by_words("rmax/offset", pair * S + s, seed), width, form)
            for s in asked
        }
        total = sum(answers.values())
        expected = {s: x / total for s, x in answers.items() if x > 0.0} if total else {pair // A: 1.0}
        assert row_of(model, pair) == pytest.approx(expected, abs=1e-12)


# --- the order of learning does not matter ------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_different_rounds_and_different_data_give_the_same_bits(form: Form) -> None:
    """A pair learned early from few samples and late from many, next to others or alone: one row, bit by bit."""
    mdp = rr.TabularMDP.from_dense(
        np.random.default_rng(3).dirichlet(np.ones(S), (S, A)), np.random.default_rng(4).random((S, A)), gamma=0.9
    )
    table, rng = mdp, sample_stream(SEED)
    either_way = np.full((S, A), 0.5)
    early = table.play(either_way, 10**15, 5, rng)
    late = early + table.play(either_way, 10**16, 30, rng)
    assert (late.count / late.visits[late.row] != early.count / early.visits[early.row]).any()
    query = rounded(0.01, form)
    found = set()
    for first, then in ((early, late), (late, early), (late, late)):
        model = new_model(reward_range=mdp.reward_range, initial=mdp.initial)
        model = model.learned(np.array([1, 6]), first, query)
        model = model.learned(np.array([7, 0, 2]), then, query)
        model = model.learned(np.array([5, 3, 4]), late, query)
        found.add(model.table.digest)
    assert len(found) == 1


# --- rewards ------------------------------------------------------------------------------------------------


def test_learned_rewards_are_the_means() -> None:
    model = learn(PLAIN, counts({3: {0: 1, 2: 3}, 6: {1: 10}}, {3: 1.0, 6: 7.5}), [6, 3])
    assert rewards_of(model) == pytest.approx([1.0, 1.0, 1.0, 0.25, 1.0, 1.0, 0.75, 1.0])


@settings(max_examples=150, deadline=None)
@given(
    st.floats(-100.0, 100.0),
    st.floats(0.0, 50.0),
    st.floats(0.0, 1.0),
    st.floats(1e-4, 1.5),
    st.integers(1, 2**50),
    st.integers(0, 100),
)
def test_learned_rewards_stay_within_their_range(
    low: float, span: float, where: float, width: float, visits: int, seed: int
) -> None:
    """Rounded on the grid of the pair, in units of the range, in the midpoint form; never outside the range."""
    high = low + span
    seen = counts({5: {1: visits}}, {5: visits * (low + where * span)})
    for query in (PLAIN, rounded(width, seed=seed)):
        model = new_model(reward_range=(low, high))
        model = model.learned(np.array([5]), seen, query)
        mdp = model.table
        learned = float(mdp.rows.reward[mdp.rows.indptr[5]])
        assert low <= learned <= high
        assert mdp.reward_range == (low, high)
        if query is PLAIN:
            assert learned == pytest.approx(low + where * span, rel=1e-9, abs=1e-9)
        elif span > 1e-3:
            mean = min(max((seen.rewards_above(0.0)[5] / visits - low) / span, 0.0), 1.0)
            offset = offset_by_words("rmax/reward", 5, seed)
            expected = low + span * round_by_hand(mean, offset, width, "midpoint")
            assert learned == pytest.approx(expected, abs=1e-9 * max(1.0, abs(low) + span))
            assert abs(learned - (low + where * span)) <= span * width / 2 + 1e-9 * max(1.0, abs(low) + span)


def test_what_is_unknown_is_a_self_loop_with_the_highest_reward() -> None:
    model = new_model(reward_range=(0.0, 3.0), initial=np.array([0.0, 1.0, 0.0, 0.0]))
    mdp = model.table
    assert mdp.estimated
    assert mdp.rows.next_state.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert mdp.rows.probability.tolist() == [1.0] * 8
    assert mdp.rows.reward.tolist() == [3.0] * 8
    assert mdp.reward_range == (0.0, 3.0)
    assert (mdp.gamma, mdp.initial.tolist()) == (0.9, [0.0, 1.0, 0.0, 0.0])
    model = model.learned(np.array([2]), counts({2: {3: 1}}), PLAIN)
    assert rewards_of(model) == [3.0, 3.0, 0.0, *[3.0] * 5]


# --- addresses ------------------------------------------------------------------------------------------------
