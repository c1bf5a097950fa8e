"""Counts have the law of samples drawn one by one, for every m, at one cost; a stranger's counts are checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import replicable_rl as rr
from replicable_rl.problem.source import Episodic, Generative, Recorded, Source, Support, Wrapped, as_source
from replicable_rl.problem.table import n_blocks, stream_words
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts
from replicable_rl.sampling import _kernels as kernels
from replicable_rl.testing import PerSample
from replicable_rl.theory import MAX_CALLS
from tests.statistics import ALPHA, SEED, goodness_of_fit, same_law

Floats = NDArray[np.float64]

# --- binomials -----------------------------------------------------------------------------------------------------


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
        assert kernels.uniforms(stream, counter[0]) == expected


def exact_log_ratio(n: int, r: float, distance: int) -> float:
    """Ln f(mode + distance)/f(mode) for the rounded mean that the sampler works with, in exact fractions."""
    mean = Fraction(n * r)
    p, mode = mean / n, math.floor(n * r + r)
    steps = range(1, distance + 1) if distance > 0 else range(distance + 1, 1)
    total = 0.0
    for i in steps:  # f(k)/f(k - 1) for k = mode + i
        k = mode + i
        total += math.log((n - k + 1) * p / (k * (1 - p)))
    return total if distance > 0 else -total


CASES = [(20, 0.5), (21, 0.49), (40, 0.25), (100, 0.3), (1000, 0.01001), (13_000, 0.1), (10**6, 0.2)]


def test_the_ratio_to_the_mode_is_within_its_error() -> None:
    for n, r in CASES:
        mean, mode, spread, *_ = kernels._hat(float(n), r)
        reach = int(kernels.ratio_to_mode(0.0, float(n), mean, mode, spread)[2])
        assert 0 < reach <= min(mode, n - mode)
        farthest = int(min(reach + 3, mode, n - mode))
        for d in sorted({*range(-min(farthest, 60), min(farthest, 60) + 1), -farthest, farthest, -reach, reach}):
            ratio, error, _ = kernels.ratio_to_mode(float(d), float(n), mean, mode, spread)
            true, k = math.exp(exact_log_ratio(n, r, d)), int(mode)
            assert true <= ratio * (1.0 + 2.0 * error)
            assert true >= ratio * (1.0 - error) or abs(d) > reach
            log_ratio = kernels.log_pmf(n, r, k + d, d + (k - n * r)) - kernels.log_pmf(n, r, k, k - n * r)
            assert log_ratio == pytest.approx(exact_log_ratio(n, r, d), abs=1e-9)


@pytest.mark.parametrize(("n", "signed"), [(100, 0.3), (40, -0.5), (13_000, -0.2), (10**9, 0.4)])
def test_candidates_are_decided_exactly(n: int, signed: float) -> None:
    """Every candidate is Hörmann's, and is accepted or rejected as his rule without the squeezes says."""
    r, size = abs(signed), 50_000
    mean, spread = n * r, math.sqrt(n * r * (1.0 - r))
    mode, b = math.floor(mean + r), 1.15 + 2.53 * spread
    a, alpha = -0.0873 + 0.0248 * b + 0.01 * r, (2.83 + 5.1 / b) * spread
    stream: Any = tuple(np.uint64(word) for word in (SEED % 2**32, 5, 0, 6, 7))
    rows, columns = (len(table) for table in kernels.workspace())
    integers, floats = np.full((rows, size), n), np.full((columns, size), signed)
    kernels._fill_uniforms(stream, 0, size, floats)
    us, vs = floats[kernels._U], floats[kernels._V]
    assert (us[7], vs[7]) == kernels.uniforms(stream, 7)
    kernels._easy_candidates(size, integers, floats)
    candidate, easy_verdict = integers[[kernels.DRAWN, kernels._VERDICT]]
    kernels._candidates(size, kernels._U, 0, integers, floats)
    verdict = integers[kernels._VERDICT]
    assert np.array_equal(np.where(verdict == kernels._REJECTED, -1, candidate), integers[kernels._TRIAL])
    assert (verdict[easy_verdict == kernels._ACCEPTED] == kernels._ACCEPTED).all()
    assert 0.3 < (easy_verdict == kernels._ACCEPTED).mean() < 0.9
    log_mode = kernels.log_pmf(n, r, mode, mode - mean)
    for i in range(size):
        u, v = us[i] - 0.5, vs[i]
        edge = 0.5 - abs(u)
        exact = (2.0 * a / edge + b) * u + (mean - mode + 0.5)
        k = mode + math.floor(exact)
        possible = 0 <= k <= n
        if possible and abs(exact - round(exact)) > 1e-7 * max(abs(exact), 1.0):
            assert candidate[i] == (n - k if signed < 0.0 else k)
        if verdict[i] in (kernels._ACCEPTED, kernels._REJECTED):
            kept = possible and math.log(v * alpha / (a / (edge * edge) + b)) <= (
                kernels.log_pmf(n, r, k, (k - mode) + (mode - mean)) - log_mode
            )
            assert kept == (verdict[i] == kernels._ACCEPTED)
    assert (verdict == kernels._CLOSE).mean() < (0.02 if mean > 50 else 0.15)  # the bounds decide nearly all
    assert 0.6 < (verdict == kernels._ACCEPTED).mean() < 0.95


@pytest.mark.parametrize("n", [1, 7, 20, 100, 10**4, 10**9, 10**16, 2**62, MAX_CALLS])
@pytest.mark.parametrize("p", [1e-12, 0.003, 0.3, 0.5])
@pytest.mark.parametrize("flip", [False, True])
def test_rows_of_two_outcomes_have_the_binomial_law(n: int, p: float, flip: bool) -> None:
    draws = 20_000
    indptr, out = np.arange(0, 2 * draws + 1, 2), np.empty(2 * draws, dtype=np.int64)
    conditional, words = np.tile([-p if flip else p, -0.0], draws), stream_words(sample_stream(SEED), 1)[0]
    kernels.multinomial_blocks(indptr, conditional, n, words, out, 0, n_blocks(indptr))
    assert (out[::2] + out[1::2] == n).all()
    assert out.min() >= 0
    drawn = out[1::2] if flip else out[::2]
    if n * p < 1e5:
        low, high = int(stats.binom.ppf(1e-12, n, p)), int(stats.binom.ppf(1 - 1e-12, n, p)) + 1
        expected = stats.binom.pmf(np.arange(low, high + 1), n, p) * draws
        assert drawn.min() >= low
        assert drawn.max() <= high
        assert goodness_of_fit(np.bincount(drawn - low, minlength=high - low + 1), expected) > ALPHA
        return
    # Deviations from the mean in exact integers, then in standard deviations: normal up to 1/sqrt(npq).
    z = (drawn - round(n * p)).astype(float) / math.sqrt(n * p * (1 - p))
    assert stats.kstest(z, "norm").pvalue > ALPHA
    assert ALPHA < stats.chi2.cdf((z**2).sum(), draws) < 1.0 - ALPHA  # the variance: an overflow in the tails shows
    assert np.abs(z).max() < 8


# --- pairs of a table ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["two-goals-v1", "chain-v1", "inventory-v1"])
@pytest.mark.parametrize("calls", [1, 50])
def test_counts_have_the_law_of_samples(problem: str, calls: int) -> None:
    """The whole vector of a row's counts, against the per-sample sampler."""
    mdp = rr.make(problem)
    row = mdp.rows.of_row(int(np.argmax(np.diff(mdp.rows.indptr))))
    samplers: list[tuple[Generative, Any]] = [(mdp, sample_stream(SEED)), (PerSample(mdp), sample_stream(SEED + 1))]
    repeats = 300 if problem == "inventory-v1" else 1500
    drawn = [[tuple(s.draw(calls, rng).count[row].tolist()) for _ in range(repeats)] for s, rng in samplers]
    assert same_law(*drawn) > ALPHA


def test_counts_add_up_for_every_m_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = rr.make("garnet-v1", n_states=3000, n_actions=3, branching=4, seed=1)
    assert n_blocks(mdp.rows.indptr) == 18
    for calls in (1, 10**9, MAX_CALLS):
        whole = mdp.draw(calls, sample_stream(SEED))
        assert (np.add.reduceat(whole.count, whole.indptr[:-1]) == calls).all()
        assert (whole.count >= 0).all()
        for threads in (1, 2, 7):
            with monkeypatch.context() as patch:
                patch.setattr("replicable_rl.compiled.THREADS", threads)
                patch.setattr("replicable_rl.problem.table.MANY_BLOCKS", 1)
                assert np.array_equal(whole.count, mdp.draw(calls, sample_stream(SEED)).count)


def test_means_take_one_number_for_each_outcome() -> None:
    counts = rr.make("chain-v1").draw(1000, sample_stream(SEED))
    x = np.linspace(0.0, 1.0, counts.count.size)
    rows = [range(counts.indptr[r], counts.indptr[r + 1]) for r in range(10)]
    means = [sum(int(counts.count[k]) * x[k] for k in row) / 1000 for row in rows]
    assert counts.mean(x).tolist() == means
    squares = [sum(int(counts.count[k]) * (x[k] - m) ** 2 for k in row) for row, m in zip(rows, means, strict=True)]
    assert counts.variance(x, np.array(means)) == pytest.approx(np.array(squares) / 999)
    for wrong in (x[1:], x[:1], np.array(1.0), x[:, None]):
        with pytest.raises(rr.InvalidInput, match="outcome_values"):
            counts.mean(wrong)
    for change in ({"indptr": counts.indptr * 1000}, {"indptr": counts.indptr + 1}, {"count": counts.count[:5]}):
        with pytest.raises(rr.InvalidInput, match="indptr"):
            replace(counts, **change).mean(x)  # a compiled loop would read beyond the arrays


@pytest.mark.parametrize("calls", [0, 1.5, True, "many", 10**19])
def test_bad_calls(calls: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"TabularMDP: .*calls"):
        rr.make("chain-v1").draw(calls, sample_stream(1))


# --- episodes of a table -------------------------------------------------------------------------------------------


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


def deterministic(mdp: rr.TabularMDP) -> NDArray[np.int64]:
    return np.arange(mdp.n_states) * 3 % mdp.n_actions


def stochastic(mdp: rr.TabularMDP) -> Floats:
    """Action probabilities, with some zeros and some sure actions."""
    weights = np.random.default_rng(5).dirichlet(np.ones(mdp.n_actions), size=mdp.n_states)
    weights[1, 0], weights[2] = 0.0, np.eye(mdp.n_actions)[-1]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


PROBLEMS: dict[str, Callable[[], rr.TabularMDP]] = {"two-goals": lambda: rr.make("two-goals-v1"), "forked": forked}
TABLES = pytest.mark.parametrize("problem", PROBLEMS)
POLICIES = pytest.mark.parametrize("make_policy", [deterministic, stochastic])


def pair_laws(mdp: rr.TabularMDP, policy: NDArray[Any], horizon: int) -> tuple[Floats, Floats, Floats]:
    """The law of the pair at steps 0 ... H-1, one row a step; P of pairs to pairs; P of pairs to states."""
    weights = policy if policy.ndim == 2 else np.eye(mdp.n_actions)[policy]
    P = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    np.add.at(P, (mdp.rows.row, mdp.rows.next_state), mdp.rows.probability)
    step = (P[:, :, None] * weights[None]).reshape(P.shape[0], -1)
    laws = [(mdp.initial[:, None] * weights).reshape(-1)]
    for _ in range(horizon - 1):
        laws.append(laws[-1] @ step)
    return np.array(laws), step, P


@TABLES
@POLICIES
@pytest.mark.parametrize(("m", "H"), [(1, 4), (20, 1), (20, 6)])
def test_episodes_have_the_law_of_trajectories(problem: str, make_policy: Any, m: int, H: int) -> None:
    """Chi-square on whole vectors of counts, and on the count and the reward sum of every transition."""
    mdp, vectors = PROBLEMS[problem](), []
    for seed, sampler in ((SEED, mdp), (SEED + 1, PerSample(mdp))):
        rng = sample_stream(seed)
        drawn = [sampler.play(make_policy(mdp), m, H, rng) for _ in range(600)]
        vectors.append([tuple(np.concatenate([x.visits, x.count, x.reward_sum.round(9)]).tolist()) for x in drawn])
    assert same_law(*vectors) > ALPHA / 2
    for j in range(columns := len(vectors[0][0])):
        assert same_law(*([v[j] for v in sample] for sample in vectors)) > ALPHA / 2 / columns


@TABLES
@POLICIES
@pytest.mark.parametrize(("m", "H"), [(10**12, 1), (10**12, 25), (MAX_CALLS, 40)])
def test_expected_counts_are_those_of_linear_algebra(problem: str, make_policy: Any, m: int, H: int) -> None:
    """Every count within Bernstein's bound of its exact mean: fails a right sampler with probability <= ALPHA."""
    mdp = PROBLEMS[problem]()
    laws, _, P = pair_laws(mdp, make_policy(mdp), H)
    expected, log_term = (laws.sum(axis=0)[:, None] * P).reshape(-1), math.log(2.0 * P.size / ALPHA)
    seen, counts = mdp.play(make_policy(mdp), m, H, sample_stream(SEED)), np.zeros(P.size)
    counts[seen.key] = seen.count
    # m terms in [0, H] with mean mu have variance at most H mu; the last term is for sums in floats
    bound = np.sqrt(2 * H * expected / m * log_term) + (2 * H * log_term / 3) / m + 1e-12
    assert (np.abs(counts / m - expected)[expected > 0] <= bound[expected > 0]).all()
    assert (counts[expected == 0] == 0).all()  # nobody reaches what cannot be reached
    assert counts.sum() == pytest.approx(m * H, rel=1e-13)
    assert (seen.episodes, seen.steps) == (m, m * H)  # Python integers, beyond 2**63
    assert (np.diff(seen.key) > 0).all()


@pytest.mark.parametrize("sampler", [lambda mdp: mdp, PerSample])
def test_rewards_of_a_transition_with_several_are_summed_and_their_spread_is_kept(sampler: Any) -> None:
    """(1, 1) -> 2 pays 0 or 1, of a range from -1 to 1."""
    rng, key, sums = sample_stream(SEED), (1 * 2 + 1) * 4 + 2, []
    rounds = [sampler(forked()).play([0, 1, 0, 0], 40, 1, rng) for _ in range(1000)]
    for seen in (*rounds, rounds[0] + rounds[1]):
        k = int(np.flatnonzero(seen.key == key)[0])
        paid, count = seen.reward_sum[k], seen.count[k]
        sums.append(int(paid))
        assert seen.squares[k] == pytest.approx(paid * (count - paid) / max(count, 1.0) / 4.0)
    expected = stats.binom.pmf(np.arange(41), 40, 0.3 * 0.5) * 1000
    assert goodness_of_fit(np.bincount(sums[:-1], minlength=41), expected) > ALPHA
    assert sampler(rr.make("chain-v1")).play([0] * 5, 40, 3, rng).squares is None


@st.composite
def counts_by_hand(draw: st.DrawFn) -> EpisodeCounts:
    keys = draw(st.lists(st.integers(0, 17), unique=True, max_size=12).map(sorted))
    counts = [draw(st.integers(0, 2**40)) for _ in keys]
    rewards = [draw(st.integers(-1000, 1000)) / 8 for _ in keys]
    arrays = np.array(keys, dtype=np.int64), np.array(counts, float), np.array(rewards, float)
    return EpisodeCounts(3, 2, *arrays, draw(st.integers(1, 2**62)), sum(counts))


@settings(deadline=None)
@given(counts_by_hand(), counts_by_hand(), counts_by_hand())
def test_counts_add_up_like_dictionaries(a: EpisodeCounts, b: EpisodeCounts, c: EpisodeCounts) -> None:
    def as_dict(seen: EpisodeCounts) -> dict[int, tuple[float, float]]:
        numbers = zip(seen.count.tolist(), seen.reward_sum.tolist(), strict=True)
        return dict(zip(seen.key.tolist(), numbers, strict=True))

    total, parts = a + b + c, [as_dict(x) for x in (a, b, c)]
    keys = sorted(set().union(*parts))
    assert total.key.tolist() == keys  # sorted, and no repetition
    assert as_dict(total) == {key: tuple(np.sum([p[key] for p in parts if key in p], axis=0)) for key in keys}
    assert (total.episodes, total.steps) == (a.episodes + b.episodes + c.episodes, a.steps + b.steps + c.steps)
    assert as_dict(a + (b + c)) == as_dict(total) == as_dict(c + b + a)


@pytest.mark.parametrize("sampler", [lambda mdp: mdp, PerSample])
@pytest.mark.parametrize(
    "change",
    [
        {"policy": [0] * 4},
        {"policy": [0, 0, 0, 0, 2]},
        {"policy": np.ones((5, 2))},
        {"horizon": 0},
        {"horizon": 2**31},
        {"episodes": 0},
        {"episodes": 2.5},
        {"episodes": 2**63},
    ],
    ids=str,
)
def test_bad_plays(change: dict[str, Any], sampler: Any) -> None:
    play = {"policy": [0] * 5, "episodes": 1, "horizon": 1, "rng": sample_stream(1), **change}
    with pytest.raises(rr.InvalidInput, match="polic|sum to 1|2\\*\\*63" if "policy" in change else next(iter(change))):
        sampler(rr.make("chain-v1")).play(**play)


# --- sources -------------------------------------------------------------------------------------------------------


def test_a_source_says_how_its_samples_are_had() -> None:
    table = rr.make("riverswim-v1")
    columns = {"state": [0, 1], "action": [0, 0], "reward": [0.0, 1.0], "next_state": [1, 0]}
    simulator = rr.Simulator(lambda s, a, rng: (0, 0.0), n_states=1, n_actions=1, gamma=0.9, reward_range=(0.0, 1.0))
    lake = rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0))
    problems: list[Source] = [table, PerSample(table), simulator, lake, rr.from_transitions(columns, gamma=0.9)]
    assert [as_source(problem) is problem for problem in problems] == [True] * 5
    kinds = [[isinstance(problem, kind) for kind in (Generative, Episodic, Recorded)] for problem in problems]
    both, draws, plays, log = [True, True, False], [True, False, False], [False, True, False], [False, False, True]
    assert kinds == [both, both, draws, plays, log]
    for problem in (3, None, "chain-v1"):
        with pytest.raises(rr.InvalidInput, match=f"^problem must be .* got {type(problem).__name__}"):
            as_source(problem)


class Changed(Wrapped):
    """Somebody's own: changes what it drew before it returns it."""

    def __init__(self, mdp: rr.TabularMDP, **changes: Callable[[Any], Any]) -> None:
        super().__init__(mdp)
        self.changes, self.ours = changes, mdp

    def changed(self, drawn: Any) -> Any:
        return replace(drawn, **{name: change(vars(drawn)[name]) for name, change in self.changes.items()})


class Own(Changed, Generative):
    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        return self.changed(self.ours.draw(calls, rng))  # type: ignore[no-any-return]


class Game(Changed, Episodic):
    def play(self, policy: Any, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        return self.changed(self.ours.play(policy, episodes, horizon, rng))  # type: ignore[no-any-return]


def start(value: float) -> Callable[[Any], Any]:
    """Return a change of the first number of an array."""
    return lambda array: np.concatenate([np.array([value]).astype(array.dtype), array[1:]])


CHAIN = rr.make("chain-v1", gamma=0.5)
DRAWING: list[Any] = [
    rr.ReplicablePhasedVI(0.4, 0.1, 0.4, calls=100),
    rr.ReplicableApproximateMDP(0.4, 0.1, 0.4),
    rr.PlugInPolicy(0.4, 0.1, 0.4),
]
PLAYING: list[Any] = [rr.ReplicableRMax(0.4, 0.1, 0.4, 9), rr.PlugInPolicy(0.4, 0.1, 0.4, budget=9000, horizon=9)]


@pytest.mark.parametrize(
    ("own", "algorithm"), [*((Own, a) for a in DRAWING), *((Game, a) for a in PLAYING)], ids=lambda x: str(x)[:20]
)
def test_an_honest_stranger_gets_the_same_run(own: Any, algorithm: Any) -> None:
    honest, ours = (rr.solve(source, algorithm, shared_seed=1, sample_seed=1) for source in (own(CHAIN), CHAIN))
    assert honest.fingerprints == ours.fingerprints
    claims = [[(claim.about, claim.kind, claim.bound) for claim in run.claims] for run in (honest, ours)]
    assert claims[0] == claims[1]


@pytest.mark.parametrize("algorithm", DRAWING, ids=lambda algorithm: algorithm.id)
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("count", lambda count: 2 * count, r"\d+ successors of state 0, action 0, got \d+"),
        ("count", start(0), r"\d+ successors of state 0, action 0, got \d+"),
        ("count", lambda count: -count, "counts"),
        ("count", lambda count: count / 3.0 + 0.01, "counts"),
        ("count", lambda count: count[1:], "count of draw"),
        ("count", list, "count of draw"),
        ("calls", lambda calls: calls - 1, r"OutcomeCounts of \d+ calls"),
        ("next_state", start(5), "got 5 of state 0, action 0"),
        ("next_state", lambda states: states > 0, "next_state"),
        ("reward", start(11.0), "got 11 of state 0, action 0"),
        ("reward", start(math.nan), "got nan of state 0, action 0"),
        ("indptr", lambda ends: ends[:-1], "indptr"),
        ("indptr", lambda ends: ends[::-1].copy(), "indptr"),
    ],
)
def test_draws_that_cannot_be_are_refused(algorithm: Any, name: str, change: Any, message: str) -> None:
    """A claim is about the samples that were asked for."""
    with pytest.raises(rr.InvalidInput, match=rf"^Own: .*{message}"):
        rr.solve(Own(CHAIN, **{name: change}), algorithm, shared_seed=1, sample_seed=1)


@pytest.mark.parametrize("algorithm", PLAYING, ids=lambda algorithm: algorithm.id)
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("count", lambda count: -count, "counts"),
        ("count", lambda count: 3 * count, "at most .* steps"),
        ("steps", lambda steps: 2 * steps, "at most .* steps"),
        ("steps", lambda steps: -steps, "at most .* steps"),
        ("episodes", lambda episodes: episodes - 1, "EpisodeCounts of .* episodes"),
        ("starts", lambda _: np.ones(4), "starts"),
        ("key", lambda key: key[::-1].copy(), "keys"),
        ("key", lambda key: key + 50, "keys"),
        ("excess", lambda excess: excess + 1e30, "reward_range"),
        ("excess", lambda excess: excess[1:], "reward of play"),
    ],
)
def test_episodes_that_cannot_be_are_refused(algorithm: Any, name: str, change: Any, message: str) -> None:
    with pytest.raises(rr.InvalidInput, match=rf"^Game: .*{message}"):
        rr.solve(Game(CHAIN, **{name: change}), algorithm, shared_seed=1, sample_seed=1)


def test_samples_of_what_is_not_allowed_are_refused() -> None:
    P, R, allowed = np.full((2, 2, 2), 0.5), np.zeros((2, 2)), np.array([[True, False], [True, True]])
    every = rr.TabularMDP.from_dense(P, R, gamma=0.5, layout="sas", reward_range=(0, 1))
    own, game = Own(every), Game(every)
    own.support = game.support = Support(allowed)
    with pytest.raises(rr.InvalidInput, match=r"Own: .* 0 successors of state 0, action 1"):
        rr.solve(own, DRAWING[0], shared_seed=1, sample_seed=1)
    game.ours = PerSample(every)  # type: ignore[assignment]
    game.ours.play = lambda policy, *rest: every.play([1, 1], *rest)  # type: ignore[method-assign]
    with pytest.raises(rr.InvalidInput, match=r"^Game: .* not allowed"):
        rr.solve(game, PLAYING[0], shared_seed=1, sample_seed=1)


def test_counts_beyond_the_bits_of_floats_are_not_refused() -> None:
    many = rr.ReplicablePhasedVI(0.4, 0.1, 0.4, calls=MAX_CALLS, iterations=2)
    assert rr.solve(Own(CHAIN), many, shared_seed=1, sample_seed=1).samples == 20 * MAX_CALLS
