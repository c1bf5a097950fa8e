"""Episodes by count propagation: the law of per-trajectory play, for every m, at a cost that does not depend on m."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import replicable_rl as rr
from replicable_rl.problem.source import Episodic
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import EpisodeCounts
from replicable_rl.testing import PerSample
from replicable_rl.theory import MAX_CALLS
from tests.statistics import ALPHA, SEED, goodness_of_fit, same_law

Floats = NDArray[np.float64]


def forked() -> rr.TabularMDP:
    """Every corner in one: a random start, two rewards on one successor, a sure row, a state nobody reaches."""
    return rr.TabularMDP.from_outcomes(
        [
            [[(0.3, 1, 0.0), (0.2, 1, 1.0), (0.5, 2, 0.25)], [(1.0, 0, -1.0)]],
            [[(0.9, 0, 0.0), (0.1, 1, 0.5)], [(0.5, 2, 0.0), (0.5, 2, 1.0)]],
            [[(1.0, 2, 0.0)], [(0.25, 0, 0.0), (0.25, 1, 0.0), (0.5, 2, 0.0)]],
            [[(1.0, 3, 1.0)], [(1.0, 0, 1.0)]],
        ],
        gamma=0.9,
        initial=[0.5, 0.3, 0.2, 0.0],
    )


PROBLEMS: dict[str, Callable[[], rr.TabularMDP]] = {
    "two-goals": lambda: rr.make("two-goals-v1"),
    "chain": lambda: rr.make("chain-v1"),
    "riverswim": lambda: rr.make("riverswim-v1"),
    "frozen-lake": lambda: rr.from_gymnasium("FrozenLake-v1", gamma=0.95),
    "forked": forked,
}


def deterministic(mdp: rr.TabularMDP) -> NDArray[np.int64]:
    """An action for every state, all of them used where there are enough states."""
    return np.arange(mdp.n_states) * 3 % mdp.n_actions


def stochastic(mdp: rr.TabularMDP) -> Floats:
    """Rows of action probabilities, with some zeros and some sure actions."""
    weights = np.random.default_rng(5).dirichlet(np.ones(mdp.n_actions), size=mdp.n_states)
    weights[1, 0] = 0.0
    weights[2] = np.eye(mdp.n_actions)[-1]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


POLICIES: dict[str, Callable[[rr.TabularMDP], NDArray[Any]]] = {
    "deterministic": deterministic,
    "stochastic": stochastic,
}


def table_of(policy: NDArray[Any], mdp: rr.TabularMDP) -> Floats:
    return policy if policy.ndim == 2 else np.eye(mdp.n_actions)[policy]


def dense(mdp: rr.TabularMDP) -> Floats:
    """P of shape (S*A, S), summed over rewards."""
    P = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    row = np.repeat(np.arange(P.shape[0]), np.diff(mdp.rows.indptr))
    np.add.at(P, (row, mdp.rows.next_state), mdp.rows.probability)
    return P


def pair_distributions(mdp: rr.TabularMDP, policy: NDArray[Any], horizon: int) -> tuple[Floats, Floats]:
    """The law of the pair at steps 0 ... H-1, one row a step, and the transition matrix of pairs."""
    weights, P = table_of(policy, mdp), dense(mdp)
    step = (P[:, :, None] * weights[None]).reshape(P.shape[0], -1)
    rows = [(mdp.initial[:, None] * weights).reshape(-1)]
    for _ in range(horizon - 1):
        rows.append(rows[-1] @ step)
    return np.array(rows), step


def dense_counts(seen: EpisodeCounts) -> Floats:
    """Counts of every transition (s, a, s'), seen or not."""
    full = np.zeros(seen.n_states**2 * seen.n_actions)
    full[seen.key] = seen.count
    return full


# --- the law, at small m -------------------------------------------------------------------------------


def compare_laws(first: Episodic, second: Episodic, policy: NDArray[Any], m: int, H: int, repeats: int) -> None:
    """Chi-square on whole vectors of counts, and on the count and the reward sum of every transition."""
    vectors: list[list[tuple[float, ...]]] = []
    for seed, sampler in ((SEED, first), (SEED + 1, second)):
        rng = sample_stream(seed)
        drawn = [sampler.play(policy, m, H, rng) for _ in range(repeats)]
        vectors.append([tuple(np.concatenate([x.visits, x.count, x.reward_sum.round(9)]).tolist()) for x in drawn])
    columns = len(vectors[0][0])
    assert same_law(vectors[0], vectors[1]) > ALPHA / 2
    for j in range(columns):
        assert same_law([v[j] for v in vectors[0]], [v[j] for v in vectors[1]]) > ALPHA / 2 / columns


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("m", "H"), [(1, 4), (3, 1), (3, 3), (20, 1), (20, 6)])
def test_counts_have_the_law_of_trajectories(problem: str, policy: str, m: int, H: int) -> None:
    mdp = PROBLEMS[problem]()
    compare_laws(mdp, PerSample(mdp), POLICIES[policy](mdp), m, H, repeats=600)


def test_whole_trajectories_of_a_tiny_problem() -> None:
    """m = 1 on two states: the few possible vectors of counts with their probabilities by hand."""
    mdp = rr.TabularMDP.from_outcomes([[[(0.3, 0, 0.0), (0.7, 1, 0.0)]], [[(1.0, 1, 0.0)]]], gamma=0.5, initial=[1, 0])
    table, rng = mdp, sample_stream(SEED)
    draws = [tuple(table.play([0, 0], 1, 3, rng).count.tolist()) for _ in range(4000)]
    expected = {(0, 1, 2): 0.7, (1, 1, 1): 0.21, (2, 1, 0): 0.063, (3, 0, 0): 0.027}  # 0->0, 0->1, 1->1
    assert set(draws) <= set(expected)
    observed = np.array([draws.count(vector) for vector in expected])
    assert stats.chisquare(observed, np.array(list(expected.values())) * 4000).pvalue > ALPHA


# --- the law, at large m -------------------------------------------------------------------------------


def check_expectations(sampler: Episodic, mdp: rr.TabularMDP, policy: NDArray[Any], m: int, H: int) -> None:
    """Every count within Bernstein's bound of its exact mean: fails a right sampler with probability <= ALPHA."""
    visits = pair_distributions(mdp, policy, H)[0].sum(axis=0)
    expected = (visits[:, None] * dense(mdp)).reshape(-1)
    log_term = math.log(2.0 * expected.size / ALPHA)
    drawn = dense_counts(sampler.play(policy, m, H, sample_stream(SEED)))
    # m terms in [0, H] with mean mu have variance at most H mu; the last term is for sums in floats
    bound = np.sqrt(2 * m * H * expected * log_term) + 2 * H * log_term / 3 + 1e-12 * m
    assert (np.abs(drawn - m * expected)[expected > 0] <= bound[expected > 0]).all()
    assert (drawn[expected == 0] == 0).all()
    assert drawn.sum() == m * H


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("H", [1, 2, 25])
def test_expected_counts_are_those_of_linear_algebra(problem: str, policy: str, H: int) -> None:
    mdp = PROBLEMS[problem]()
    check_expectations(mdp, mdp, POLICIES[policy](mdp), 10**12, H)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_reference_has_the_expected_counts_too(policy: str) -> None:
    for problem in PROBLEMS.values():
        mdp = problem()
        check_expectations(PerSample(mdp), mdp, POLICIES[policy](mdp), 20_000, 8)


@pytest.mark.parametrize("m", [10**4, 10**9, 10**15])
@pytest.mark.parametrize("policy", POLICIES)
def test_visits_have_the_covariance_of_trajectories(policy: str, m: int) -> None:
    """Visits at different steps of one episode are dependent; a sampler that forgot it would have the same means."""
    mdp, H, repeats = forked(), 6, 1500
    rows, step = pair_distributions(mdp, POLICIES[policy](mdp), H)
    mean = rows.sum(axis=0)
    second = np.zeros((mean.size, mean.size))
    for h in range(H):
        reach = np.eye(mean.size)
        for later in range(h, H):
            both = rows[h][:, None] * reach
            second += both if later == h else both + both.T
            reach = reach @ step
    covariance = second - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    keep = values > 1e-9
    assert keep.sum() >= 2
    whiten = vectors[:, keep] / np.sqrt(m * values[keep])
    table, rng = mdp, sample_stream(SEED)
    z = np.array([table.play(POLICIES[policy](mdp), m, H, rng).visits - m * mean for _ in range(repeats)]) @ whiten
    # Normal up to 1/sqrt(m): sums of squares by eigenvector, and products of different ones.
    cells = keep.sum() * (keep.sum() + 1) / 2
    squares = stats.chi2.cdf((z**2).sum(axis=0), repeats)
    assert (np.minimum(squares, 1 - squares) > ALPHA / 2 / cells).all()
    for i in range(int(keep.sum())):
        for j in range(i):
            assert stats.pearsonr(z[:, i], z[:, j]).pvalue > ALPHA / cells


# --- rewards ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 1000, 10**12])
def test_rewards_of_the_chain(m: int) -> None:
    """On the chain, the reward of a transition follows from its successor."""
    mdp = rr.make("chain-v1")
    seen = mdp.play([0, 1, 0, 0, 0], m, 9, sample_stream(SEED))
    assert seen.count.sum() == 9 * m
    for key, count, reward in zip(seen.key.tolist(), seen.count.tolist(), seen.reward_sum.tolist(), strict=True):
        s, successor = key // 10, key % 5
        home = successor == 0
        assert reward == pytest.approx(count * (0.2 if home else float(s == 4)))
    assert seen.rewards_above(0.0).tolist() == [seen.reward_sum[seen.row == row].sum() for row in range(10)]


def test_stochastic_rewards_are_summed() -> None:
    """Two rewards on one transition: their sum is a multiple of a binomial."""
    table, rng = forked(), sample_stream(SEED)
    sums = []
    for _ in range(3000):
        seen = table.play([0, 1, 0, 0], 40, 1, rng)
        where = int(np.flatnonzero(seen.key == (1 * 2 + 1) * 4 + 2)[0])  # (1, 1) -> 2 pays 0 or 1
        sums.append(int(seen.reward_sum[where]))
        assert seen.reward_sum[where] <= seen.count[where]
    expected = stats.binom.pmf(np.arange(41), 40, 0.3 * 0.5) * 3000
    assert goodness_of_fit(np.bincount(sums, minlength=41), expected) > ALPHA


@pytest.mark.parametrize("sampler", [lambda mdp: mdp, PerSample])
def test_how_far_rewards_are_apart_is_kept_where_a_transition_has_several(sampler: Any) -> None:
    """The rewards are 0 and 1 of a range from -1 to 1."""
    rng = sample_stream(SEED)
    one, two = (sampler(forked()).play([0, 1, 0, 0], 40, 3, rng) for _ in range(2))
    for seen in (one, two, one + two):
        assert seen.squares is not None
        where = int(np.flatnonzero(seen.key == (1 * 2 + 1) * 4 + 2)[0])
        paid, count = seen.reward_sum[where], seen.count[where]
        assert 0.0 < paid < count
        assert seen.squares[where] == pytest.approx(paid * (count - paid) / count / 4.0)
    assert sampler(rr.make("chain-v1")).play([0] * 5, 40, 3, rng).squares is None


# --- sizes and corners -----------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS)
def test_visits_add_up(problem: str) -> None:
    mdp = PROBLEMS[problem]()
    table = mdp
    for H in (1, 7, 64):
        for m in (1, 2, 1000, 10**9, 2**53 // H - 1):
            seen = table.play(stochastic(mdp), m, H, sample_stream(SEED))
            assert seen.visits.sum() == m * H
            assert seen.count.sum() == m * H
            assert (seen.count == np.floor(seen.count)).all()
            assert (seen.count >= 0).all()
            assert (seen.episodes, seen.steps) == (m, m * H)


@pytest.mark.parametrize("m", [2**53 + 1, 10**18, MAX_CALLS])
def test_up_to_the_last_64_bit_number(m: int) -> None:
    mdp = rr.make("riverswim-v1")
    seen = mdp.play(stochastic(mdp), m, 40, sample_stream(SEED))
    assert seen.visits.sum() == pytest.approx(40 * m, rel=1e-13)
    assert (seen.count >= 0).all()
    assert seen.steps == 40 * m  # a Python integer, beyond 2**63
    expected = pair_distributions(mdp, stochastic(mdp), 40)[0].sum(axis=0)
    assert seen.visits / m == pytest.approx(expected, rel=1e-4)


def test_unreachable_states_are_never_visited() -> None:
    mdp = forked()
    for m in (1, 10**15):
        seen = mdp.play(stochastic(mdp), m, 30, sample_stream(SEED))
        assert (seen.visits[6:] == 0).all()
        assert (seen.visits[:6] > 0).any()
    river = rr.make("riverswim-v1").play([1] * 6, 10**18, 3, sample_stream(SEED))
    assert (river.visits > 0).tolist() == [False, True, False, True, False, True, *[False] * 6]  # three states reached


def test_an_absorbing_start() -> None:
    mdp = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.5)]], [[(1.0, 0, 0.0)]]], gamma=0.9, initial=[1.0, 0.0])
    seen = mdp.play([0, 0], MAX_CALLS, 3, sample_stream(1))
    assert seen.visits.tolist() == [3.0 * MAX_CALLS, 0.0]
    assert seen.rewards_above(0.0).tolist() == [1.5 * MAX_CALLS, 0.0]


def test_one_state_and_one_action() -> None:
    one = rr.TabularMDP.from_outcomes([[[(1.0, 0, 1.0)]]], gamma=0.0)
    seen = one.play([0], 5, 1, sample_stream(1))
    assert (seen.key.tolist(), seen.count.tolist(), seen.reward_sum.tolist()) == ([0], [5.0], [5.0])
    ring = rr.TabularMDP.from_outcomes([[[(1.0, 1, 0.0)]], [[(1.0, 2, 0.0)]], [[(1.0, 0, 0.0)]]], gamma=0.5)
    seen = ring.play(np.ones((3, 1)), 999, 4, sample_stream(SEED))
    assert seen.visits.sum() == 4 * 999
    twice = seen.visits - 999  # the state an episode starts in is visited twice, the others once
    assert twice.sum() == 999
    assert (twice > 0).all()


def test_deterministic_policies_in_both_forms_are_one() -> None:
    mdp = rr.make("two-goals-v1")
    policy = deterministic(mdp)
    table = mdp
    as_actions, as_table = (
        table.play(p, 10**6, 9, sample_stream(SEED)) for p in (policy, table_of(policy, mdp).astype(int))
    )
    assert as_actions.count.tolist() == as_table.count.tolist()
    taken = np.zeros(32, dtype=bool)
    taken[np.arange(8) * 4 + policy] = True
    assert (as_actions.visits[~taken] == 0).all()


# --- randomness --------------------------------------------------------------------------------------------


def fingerprint(problem: str) -> str:
    """SHA-256 of the bits of three rounds."""
    mdp = rr.make(problem)
    table, rng = mdp, sample_stream(7)
    digest = hashlib.sha256()
    for policy in (np.zeros(mdp.n_states, dtype=int), np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)):
        seen = table.play(policy, 10**15, 30, rng)
        for array in (seen.key, seen.count, seen.reward_sum):
            digest.update(array.tobytes())
    return digest.hexdigest()


def test_same_seed_same_bits_in_another_process() -> None:
    code = "from tests.test_episodes import fingerprint; print(fingerprint('garnet-v1'), fingerprint('chain-v1'))"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.split() == [fingerprint("garnet-v1"), fingerprint("chain-v1")]
    assert len(set(printed.split())) == 2


def test_counts_depend_on_the_generator_alone() -> None:
    mdp = rr.make("garnet-v1")
    used = mdp
    for m in (1, 10**6, MAX_CALLS):
        used.play(stochastic(mdp), m, 11, sample_stream(m % 97))
    fresh = rr.make("garnet-v1")
    policy = deterministic(mdp)
    first, second = (table.play(policy, 10**9, 20, sample_stream(SEED)) for table in (used, fresh))
    assert first.count.tobytes() == second.count.tobytes()
    other = fresh.play(policy, 10**9, 20, sample_stream(SEED + 1))
    assert first.count.tobytes() != other.count.tobytes()


def test_rounds_are_independent() -> None:
    """Consecutive plays from one generator are fresh; the counts of one say nothing about the next."""
    table, rng = rr.make("riverswim-v1"), sample_stream(SEED)
    visits = np.array([table.play([1] * 6, 500, 12, rng).visits for _ in range(1500)])
    for pair in (1, 5, 7):
        assert visits[:, pair].std() > 0
        assert stats.pearsonr(visits[:-1, pair], visits[1:, pair]).pvalue > ALPHA / 3


# --- merging -----------------------------------------------------------------------------------------------


@st.composite
def counts_by_hand(draw: st.DrawFn) -> EpisodeCounts:
    keys = draw(st.lists(st.integers(0, 17), unique=True, max_size=12).map(sorted))
    counts = [draw(st.integers(0, 2**40)) for _ in keys]
    rewards = [draw(st.integers(-1000, 1000)) / 8 for _ in keys]
    episodes = draw(st.integers(1, 2**62))
    return EpisodeCounts(
        3, 2, np.array(keys, dtype=np.int64), np.array(counts, float), np.array(rewards, float), episodes, sum(counts)
    )


def as_dict(seen: EpisodeCounts) -> dict[int, tuple[float, float]]:
    rows = zip(seen.key.tolist(), seen.count.tolist(), seen.reward_sum.tolist(), strict=True)
    return {key: (count, reward) for key, count, reward in rows}


@settings(deadline=None)
@given(counts_by_hand(), counts_by_hand(), counts_by_hand())
def test_counts_add_up_like_dictionaries(a: EpisodeCounts, b: EpisodeCounts, c: EpisodeCounts) -> None:
    total = a + b + c
    parts = [as_dict(x) for x in (a, b, c)]
    keys = sorted(set().union(*parts))
    assert total.key.tolist() == keys  # sorted, and no repetition
    zero = (0.0, 0.0)
    assert as_dict(total) == {
        key: (sum(p.get(key, zero)[0] for p in parts), sum(p.get(key, zero)[1] for p in parts)) for key in keys
    }
    assert (total.episodes, total.steps) == (a.episodes + b.episodes + c.episodes, a.steps + b.steps + c.steps)
    assert as_dict(a + (b + c)) == as_dict(total) == as_dict(c + b + a)


def test_rounds_on_one_table_add_up() -> None:
    mdp = rr.make("chain-v1")
    table, rng = mdp, sample_stream(SEED)
    one, two = (table.play(policy, 100, 5, rng) for policy in ([0] * 5, [1] * 5))
    total = one + two
    other = mdp.play([0] * 5, 100, 5, sample_stream(1))  # keys that are equal, but not the same array
    for x, y in ((one, two), (one, other)):
        both = x + y
        assert both.key.tolist() == x.key.tolist()
        assert both.count.tolist() == (x.count + y.count).tolist()
        assert both.reward_sum == pytest.approx(x.reward_sum + y.reward_sum)
    assert (total.visits == one.visits + two.visits).all()
    assert (total.episodes, total.steps) == (200, 1000)
    assert one.visits.sum() == 500  # and the parts are left alone


@pytest.mark.parametrize("problem", ["chain", "forked", "two-goals"])
def test_outcomes_merged_by_successor(problem: str) -> None:
    mdp = PROBLEMS[problem]()
    S, A = mdp.n_states, mdp.n_actions
    counts = mdp.draw(1000, sample_stream(SEED))
    merged = counts.transitions(S, A)
    expected: dict[int, tuple[int, float]] = {}
    for row in range(S * A):
        for k in range(counts.indptr[row], counts.indptr[row + 1]):
            key = row * S + int(counts.next_state[k])
            count, reward = expected.get(key, (0, 0.0))
            n = int(counts.count[k])
            expected[key] = (count + n, reward + n * float(counts.reward[k]))
    assert merged.key.tolist() == sorted(expected)
    assert merged.count.tolist() == [expected[key][0] for key in sorted(expected)]
    assert merged.reward_sum.tolist() == pytest.approx([expected[key][1] for key in sorted(expected)])
    assert merged.visits.tolist() == [1000.0] * (S * A)
    assert (merged.row * S + merged.next_state == merged.key).all()
    if problem == "forked":
        assert merged.key.size == counts.count.size - 2  # two pairs of outcomes share their successor


def test_keys_are_sorted_and_unique() -> None:
    for make in PROBLEMS.values():
        mdp = make()
        for sampler in (mdp, PerSample(mdp)):
            seen = sampler.play(deterministic(mdp), 3, 2, sample_stream(1))
            assert (np.diff(seen.key) > 0).all()
            assert (seen.n_states, seen.n_actions) == (mdp.n_states, mdp.n_actions)
            assert seen.key.max() < mdp.n_states**2 * mdp.n_actions


# --- the interface -----------------------------------------------------------------------------------------
BAD: dict[str, tuple[dict[str, Any], str]] = {  # of policies, `evaluate_policy` knows more
    "too few states": ({"policy": [0] * 4}, r"\(5, 2\), got \(4,\)"),
    "an action too large": ({"policy": [0, 0, 0, 0, 2]}, r"0\.\.1"),
    "more than everything": ({"policy": np.ones((5, 2))}, "sum to 1"),
    "no step": ({"horizon": 0}, "horizon .* got 0"),
    "endless": ({"horizon": 2**31}, "horizon .* got 2147483648"),
    "no episode": ({"episodes": 0}, "episodes .* got 0"),
    "some episodes": ({"episodes": 2.5}, "episodes"),
    "too many episodes": ({"episodes": 2**63}, r"2\*\*63 - 1"),
}


@pytest.mark.parametrize("sampler", [lambda mdp: mdp, PerSample])
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, sampler: Any) -> None:
    change, message = BAD[name]
    with pytest.raises(rr.InvalidInput, match=message):
        sampler(rr.make("chain-v1")).play(
            rng=sample_stream(1), **{"policy": [0] * 5, "episodes": 1, "horizon": 1, **change}
        )
