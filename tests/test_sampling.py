"""Counts have the law of per-sample draws, for every m, and cost the same for every m."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import replicable_rl as rr
from replicable_rl.problem import source as asked
from replicable_rl.problem.source import Episodic, Generative, Recorded, Source, Support, Wrapped, as_source
from replicable_rl.problem.table import n_blocks, stream_words
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts
from replicable_rl.sampling import _kernels as kernels
from replicable_rl.testing import PerSample
from replicable_rl.theory import MAX_CALLS
from tests.statistics import ALPHA, SEED, goodness_of_fit, same_law

DRAWS = 20_000


def draw_binomials(n: int, signed_p: float, seed: int = SEED, draws: int = DRAWS) -> np.ndarray:
    """Draw through the compiled multinomial: rows of two outcomes, one binomial a row."""
    indptr = np.arange(0, 2 * draws + 1, 2)
    conditional = np.tile([signed_p, -0.0], draws)
    out = np.empty(2 * draws, dtype=np.int64)
    words = stream_words(sample_stream(seed), 1)[0]
    kernels.multinomial_blocks(indptr, conditional, n, words, out, 0, n_blocks(indptr))
    assert (out[::2] + out[1::2] == n).all()
    assert out.min() >= 0
    return out[::2]


# n*p below and above the switch from inversion to rejection (10), both sides of 1/2
SMALL = [(n, p) for n in (1, 2, 7, 19, 20, 30, 100, 1000) for p in (1e-12, 0.003, 0.1, 0.3, 0.5)]


@pytest.mark.parametrize(("n", "p"), SMALL)
@pytest.mark.parametrize("flip", [False, True])
def test_binomial_law_small(n: int, p: float, flip: bool) -> None:
    drawn = draw_binomials(n, -p if flip else p)
    drawn = n - drawn if flip else drawn
    expected = stats.binom.pmf(np.arange(n + 1), n, p) * DRAWS
    assert goodness_of_fit(np.bincount(drawn, minlength=n + 1), expected) > ALPHA


@pytest.mark.parametrize("n", [10**4, 10**6, 10**9, 10**13, 10**16, 10**18, 2**62, MAX_CALLS])
@pytest.mark.parametrize("p", [1e-12, 1e-3, 0.3, 0.5])
@pytest.mark.parametrize("flip", [False, True])
def test_binomial_law_large(n: int, p: float, flip: bool) -> None:
    """Quantile cells of the exact law; at these n a cell is where the exact CDF steps past a tenth."""
    drawn = draw_binomials(n, -p if flip else p)
    drawn = n - drawn if flip else drawn
    if n * p < 1e5:
        low, high = int(stats.binom.ppf(1e-12, n, p)), int(stats.binom.ppf(1 - 1e-12, n, p)) + 1
        expected = stats.binom.pmf(np.arange(low, high + 1), n, p) * DRAWS
        assert drawn.min() >= low
        assert drawn.max() <= high
        assert goodness_of_fit(np.bincount(drawn - low, minlength=high - low + 1), expected) > ALPHA
        return
    # Deviations from the mean in exact integers, then in standard deviations: normal up to 1/sqrt(npq).
    mean = round(n * p)
    z = (drawn - mean).astype(float) / math.sqrt(n * p * (1 - p))
    assert stats.kstest(z, "norm").pvalue > ALPHA
    assert stats.chi2.cdf((z**2).sum(), DRAWS) > ALPHA  # the variance, where an overflow in the tails shows
    assert stats.chi2.sf((z**2).sum(), DRAWS) > ALPHA
    assert np.abs(z).max() < 8


def test_conditional_probabilities_keep_small_tails() -> None:
    p = 1e-12
    mdp = rr.TabularMDP.from_outcomes([[[(1.0 - p, 0, 0.0), (p, 1, 0.0)]], [[(1.0, 1, 0.0)]]], gamma=0.5)
    counts = np.array([mdp.draw(10**12, sample_stream(SEED + i)).count[1] for i in range(4000)])
    assert goodness_of_fit(np.bincount(counts, minlength=20)[:20], stats.poisson.pmf(np.arange(20), 1.0) * 4000) > ALPHA


@pytest.mark.parametrize("problem", ["two-goals-v1", "chain-v1", "garnet-v1", "inventory-v1"])
@pytest.mark.parametrize("calls", [1, 3, 50])
def test_counts_have_the_law_of_samples(problem: str, calls: int) -> None:
    """The whole vector of a row's counts, against the per-sample sampler."""
    mdp = rr.make(problem)
    row = mdp.rows.of_row(int(np.argmax(np.diff(mdp.rows.indptr))))
    samplers: list[Generative] = [mdp, PerSample(mdp)]
    repeats = 300 if problem == "inventory-v1" else 1500
    vectors = [
        [tuple(sampler.draw(calls, rng).count[row].tolist()) for _ in range(repeats)]
        for sampler, rng in zip(samplers, (sample_stream(SEED), sample_stream(SEED + 1)), strict=True)
    ]
    assert same_law(vectors[0], vectors[1]) > ALPHA


def test_pairs_are_independent() -> None:
    """Counts of different rows are uncorrelated."""
    mdp = rr.make("riverswim-v1")
    rng = sample_stream(SEED)
    sampler = mdp
    first = np.array([sampler.draw(100, rng).count for _ in range(2000)])
    a, b = mdp.rows.indptr[3], mdp.rows.indptr[5]
    assert first[:, a].std() > 0
    assert first[:, b].std() > 0
    assert stats.pearsonr(first[:, a], first[:, b]).pvalue > ALPHA
    assert stats.pearsonr(first[:-1, a], first[1:, a]).pvalue > ALPHA  # and successive draws are fresh


def test_counts_add_up_for_every_m() -> None:
    mdp = rr.make("garnet-v1")
    sampler = mdp
    for calls in (1, 10, 10**9, 10**16, MAX_CALLS):
        counts = sampler.draw(calls, sample_stream(SEED))
        sums = np.add.reduceat(counts.count, counts.indptr[:-1])
        assert (sums == calls).all()
        assert (counts.count >= 0).all()


@pytest.mark.parametrize("calls", [0, 1.5, True, "many", 10**19])
def test_bad_calls(calls: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"TabularMDP: .*calls"):
        rr.make("chain-v1").draw(calls, sample_stream(1))


def test_single_outcomes_cost_no_randomness() -> None:
    mdp = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.5)]]], gamma=0.5)
    assert mdp.draw(MAX_CALLS, sample_stream(1)).count.tolist() == [MAX_CALLS]


def test_mean_over_outcomes() -> None:
    mdp = rr.make("chain-v1")
    counts = mdp.draw(1000, sample_stream(SEED))
    x = np.linspace(0.0, 1.0, counts.count.size)
    by_hand = [
        sum(int(counts.count[k]) * x[k] for k in range(counts.indptr[r], counts.indptr[r + 1])) / 1000
        for r in range(10)
    ]
    assert counts.mean(x).tolist() == by_hand


def test_same_seed_same_counts_in_another_process() -> None:
    code = (
        "import replicable_rl as rr;"
        "from replicable_rl.randomness import sample_stream;"
        "print(rr.make('garnet-v1').draw(10**15, sample_stream(7)).count.tolist())"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    here = rr.make("garnet-v1").draw(10**15, sample_stream(7)).count.tolist()
    assert printed.strip() == str(here)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_same_counts_on_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = rr.make("garnet-v1", n_states=3000, n_actions=3, branching=4, seed=1)
    sampler = mdp
    assert n_blocks(mdp.rows.indptr) == 18
    whole = sampler.draw(10**9, sample_stream(SEED)).count
    monkeypatch.setattr("replicable_rl.compiled.THREADS", threads)
    monkeypatch.setattr("replicable_rl.problem.table.MANY_BLOCKS", 1)
    assert np.array_equal(whole, sampler.draw(10**9, sample_stream(SEED)).count)


def test_blocks_have_streams_of_their_own() -> None:
    """Equal rows in different blocks, under different words and different draws, get different counts."""
    drawn = draw_binomials(10**15, 0.3, draws=4 * kernels.ROWS_PER_BLOCK)
    assert len(set(drawn.tolist())) == drawn.size
    again = draw_binomials(10**15, 0.3, seed=SEED + 1, draws=kernels.ROWS_PER_BLOCK)
    assert not set(drawn.tolist()) & set(again.tolist())


# --- sources --------------------------------------------------------------------------------------------------


def test_a_table_becomes_a_source_that_draws_and_plays() -> None:
    mdp = rr.make("riverswim-v1")
    assert isinstance(mdp, Source)
    assert as_source(mdp) is mdp
    for source in (mdp, PerSample(mdp)):
        assert isinstance(source, Generative)
        assert isinstance(source, Episodic)
        assert as_source(source) is source
        told = source.n_states, source.n_actions, source.gamma, source.reward_range, source.spec
        assert told == (6, 2, 0.95, (0.0, 1.0), mdp.spec)
        assert source.initial is not None
        assert source.initial.tolist() == mdp.initial.tolist()
        assert source.known_rewards is mdp.known_rewards
    assert rr.make("chain-v1").known_rewards is None  # stochastic


def test_a_sampler_prepares_what_is_asked_for_and_nothing_else() -> None:
    source = rr.make("riverswim-v1")
    assert not {"conditional", "_start", "transitions"} & set(vars(source))
    source.draw(10, sample_stream(1))
    assert {"conditional", "_start", "transitions"} & set(vars(source)) == {"conditional"}
    source.play([0] * 6, 1, 1, sample_stream(1))
    assert {"conditional", "_start", "transitions"} <= set(vars(source))


@pytest.mark.parametrize("problem", [3, None, "chain-v1"])
def test_what_is_no_problem(problem: object) -> None:
    with pytest.raises(rr.InvalidInput, match=f"^problem must be .* got {type(problem).__name__}"):
        as_source(problem)


def test_a_source_says_how_its_samples_are_had() -> None:
    table = rr.make("chain-v1")
    pytest.importorskip("gymnasium")
    log = rr.from_transitions(
        {"state": [0, 1], "action": [0, 0], "reward": [0.0, 1.0], "next_state": [1, 0]}, gamma=0.9
    )
    simulator = rr.Simulator(
        lambda state, action, rng: (0, 0.0), n_states=1, n_actions=1, gamma=0.9, reward_range=(0.0, 1.0)
    )
    lake = rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0))
    sources = [as_source(one) for one in (table, simulator, lake, log)]
    kinds = [[isinstance(one, kind) for kind in (Generative, Episodic, Recorded)] for one in sources]
    assert kinds == [[True, True, False], [True, False, False], [False, True, False], [False, False, True]]


# --- what somebody's own source returns ------------------------------------------------------------------------


class Changed(Wrapped):
    """Somebody's own: changes what it drew before it returns it."""

    def __init__(self, mdp: rr.TabularMDP, **changes: Callable[[Any], Any]) -> None:
        super().__init__(mdp)
        self.changes = changes
        self.ours: Any = mdp

    def changed(self, drawn: Any) -> Any:
        return replace(drawn, **{name: change(getattr(drawn, name)) for name, change in self.changes.items()})


class Own(Changed, Generative):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        return self.changed(self.ours.draw(calls, rng))  # type: ignore[no-any-return]


class Game(Changed, Episodic):
    def play(self, policy: Any, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        return self.changed(self.ours.play(policy, episodes, horizon, rng))  # type: ignore[no-any-return]


def first(value: float) -> Callable[[Any], Any]:
    """Return a change of the first number of an array."""
    return lambda array: np.concatenate([np.array([value]).astype(array.dtype), array[1:]])


CHAIN = rr.make("chain-v1", gamma=0.5)
MISCOUNTED = r"^Own: draw must return \d+ successors of state 0, action 0, got \d+"
DRAWING: list[Any] = [
    rr.ReplicablePhasedVI(0.4, 0.1, 0.4),
    rr.ReplicableApproximateMDP(0.4, 0.1, 0.4),
    rr.PlugInPolicy(0.4, 0.1, 0.4),
]
PLAYING: list[Any] = [rr.ReplicableRMax(0.4, 0.1, 0.4, 9), rr.PlugInPolicy(0.4, 0.1, 0.4, budget=9000, horizon=9)]


@pytest.mark.parametrize("algorithm", DRAWING, ids=lambda algorithm: algorithm.id)
def test_draws_that_were_not_asked_for_are_refused(algorithm: Any) -> None:
    """A claim is about the samples that were asked for."""
    honest, ours = (rr.solve(one, algorithm, shared_seed=1, sample_seed=1) for one in (Own(CHAIN), CHAIN))
    assert honest.fingerprints == ours.fingerprints
    made = [[(claim.about, claim.kind, claim.bound, claim.failure) for claim in run.claims] for run in (honest, ours)]
    assert made[0] == made[1]
    assert honest.claims.accuracy is not None
    for change in (lambda count: np.minimum(count, 3), lambda count: 2 * count, first(0), lambda count: 0 * count):
        with pytest.raises(rr.InvalidInput, match=MISCOUNTED):
            rr.solve(Own(CHAIN, count=change), algorithm, shared_seed=1, sample_seed=1)
    with pytest.raises(rr.InvalidInput, match=r"^Own: counts"):
        rr.solve(Own(CHAIN, count=lambda count: -count), algorithm, shared_seed=1, sample_seed=1)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("count", lambda count: count / 3.0 + 0.01, "counts must be whole"),
        ("count", lambda count: np.where(count > 50, np.nan, count), "counts must be whole"),
        ("count", lambda count: count[1:], "count of draw must hold 20"),
        ("count", list, "count of draw must hold 20"),
        ("calls", lambda calls: calls - 1, "OutcomeCounts of 100 calls"),
        ("next_state", first(-1), "got -1 of state 0, action 0"),
        ("next_state", first(5), "got 5 of state 0, action 0"),
        ("reward", first(11.0), "got 11 of state 0, action 0"),
        ("reward", first(math.nan), "got nan of state 0, action 0"),
        ("indptr", lambda ends: ends[:-1], "indptr"),
        ("indptr", lambda ends: ends[::-1].copy(), "indptr"),
        ("indptr", lambda ends: ends * 1.0, "indptr"),
        ("indptr", lambda ends: ends.astype(np.uint64), "indptr"),
        ("next_state", lambda states: states * 1.0, "next_state"),
        ("next_state", lambda states: states > 0, "next_state"),
    ],
)
def test_draws_that_cannot_be_are_refused(name: str, change: Callable[[Any], Any], message: str) -> None:
    few = rr.ReplicablePhasedVI(0.4, 0.1, 0.4, calls=100)  # which plans on no table that would look again
    with pytest.raises(rr.InvalidInput, match=rf"^Own: .*{message}"):
        rr.solve(Own(CHAIN, **{name: change}), few, shared_seed=1, sample_seed=1)


@pytest.mark.parametrize("algorithm", PLAYING, ids=lambda algorithm: algorithm.id)
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("count", lambda count: -count, "counts must be whole"),
        ("count", lambda count: 3 * count, "at most .* steps"),
        ("steps", lambda steps: 2 * steps, "at most .* steps"),
        ("steps", lambda steps: -steps, "at most .* steps"),
        ("episodes", lambda episodes: episodes - 1, "EpisodeCounts of .* episodes"),
        ("starts", lambda _: np.ones(5), "starts"),
        ("starts", lambda _: np.ones(4), "starts"),
        ("key", lambda key: key[::-1].copy(), "keys"),
        ("key", lambda key: key + 50, "keys"),
        ("n_states", lambda n_states: n_states + 1, "keys"),
        ("excess", lambda excess: excess + 1e30, "reward_range"),
        ("excess", lambda excess: excess[1:], "reward of play must hold"),
    ],
)
def test_episodes_that_cannot_be_are_refused(
    algorithm: Any, name: str, change: Callable[[Any], Any], message: str
) -> None:
    honest, ours = (rr.solve(one, algorithm, shared_seed=1, sample_seed=1) for one in (Game(CHAIN), CHAIN))
    assert [claim.kind for claim in honest.claims] == [claim.kind for claim in ours.claims]
    assert honest.fingerprints == ours.fingerprints
    with pytest.raises(rr.InvalidInput, match=rf"^Game: .*{message}"):
        rr.solve(Game(CHAIN, **{name: change}), algorithm, shared_seed=1, sample_seed=1)


def test_draws_of_what_is_not_allowed_are_refused() -> None:
    P, R, allowed = np.full((2, 2, 2), 0.5), np.zeros((2, 2)), np.array([[True, False], [True, True]])
    every = rr.TabularMDP.from_dense(P, R, gamma=0.5, layout="sas", reward_range=(0, 1))
    own, game = Own(every), Game(every)
    own.support = game.support = Support(allowed)
    for algorithm in DRAWING:
        with pytest.raises(
            rr.InvalidInput, match=r"Own: draw must return 0 successors of state 0, action 1, got \d+\."
        ):
            rr.solve(own, algorithm, shared_seed=1, sample_seed=1)
    game.ours = PerSample(every)
    game.ours.play = lambda policy, *rest: every.play([1, 1], *rest)
    with pytest.raises(rr.InvalidInput, match=r"^Game: play must take no action that is not allowed"):
        rr.solve(game, PLAYING[0], shared_seed=1, sample_seed=1)


def test_counts_beyond_the_bits_of_floats_are_not_refused() -> None:
    many = rr.ReplicablePhasedVI(0.4, 0.1, 0.4, calls=MAX_CALLS, iterations=2)
    assert rr.solve(Own(CHAIN), many, shared_seed=1, sample_seed=1).samples == 20 * MAX_CALLS


def test_our_own_samplers_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is why they take no longer."""
    monkeypatch.setattr(asked, "check_drawn", None)
    monkeypatch.setattr(asked, "check_played", None)
    for algorithm in (*DRAWING, *PLAYING):
        rr.solve(CHAIN, algorithm, shared_seed=1, sample_seed=1)
    with pytest.raises(TypeError):
        rr.solve(Own(CHAIN), DRAWING[0], shared_seed=1, sample_seed=1)
