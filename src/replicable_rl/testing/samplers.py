"""``check_sampler``: whether what a sampler of somebody's own draws has the law of the table.

Chance decides what is drawn, so the law is tested: each count against its exact binomial law, each sum of rewards
against Hoeffding's inequality, with a bound on all false alarms of a check together.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.mdp import TabularMDP, action_probabilities, allowed_of, uniform_policy
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import EpisodeCounts, OutcomeCounts, TransitionCounts, check_source
from replicable_rl.sampling.asked import check_drawn, check_played
from replicable_rl.sampling.counts import sums
from replicable_rl.solve import SAMPLERS
from replicable_rl.solve.run import sampler_of
from replicable_rl.testing.cases import DoesNotApply, Failed, short
from replicable_rl.testing.checks import FALSE_ALARM, Check
from replicable_rl.testing.conformance import Conformance, conclude, default_problems, examine

Floats = NDArray[np.float64]

_CALLS = 20_000  # successors of every pair, or episodes, that the law is tested on
_DRAWS = 8  # draws that they come in
_HORIZON = 5
_TOLD = ("n_states", "n_actions", "gamma", "reward_range", "known_rewards", "initial", "allowed")


@dataclass(frozen=True)
class SamplerCase:
    """A sampler on a table."""

    sampler: Callable[[TabularMDP], Any]
    problem: TabularMDP

    @cached_property
    def source(self) -> Any:
        """What the sampler makes of the table."""
        return self.sampler(self.problem)

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw, if there is a way to, and see that it is what was asked for."""
        if not hasattr(self.source, "draw"):
            raise DoesNotApply("it has no draw")
        counts: OutcomeCounts = self.source.draw(calls, rng)
        check_drawn(self.source, counts, calls)
        return counts

    def play(self, policy: NDArray[Any], episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play, if there is a way to, and see that it is what was asked for."""
        if not hasattr(self.source, "play"):
            raise DoesNotApply("it has no play")
        seen: EpisodeCounts = self.source.play(policy, episodes, horizon, rng)
        check_played(self.source, seen, episodes, horizon)
        return seen


def check_sampler(sampler: Any, *, problems: Iterable[TabularMDP] | None = None) -> Conformance:
    """Run every check on a sampler of tables; raise `ConformanceError` with all that fail.

    - *interface*: does it make a source of a table, which says what the table says?
    - *counts*: are there as many as were asked for, of every pair that is allowed and of no other?
    - *same seeds*: does the same generator give the same counts?
    - *fresh samples*: do other generators give other counts, and does one generator give others in every draw?
    - *law of draws*: do 20 000 successors of every pair fit the probabilities and rewards of the table?
    - *law of episodes*: do 20 000 episodes of one step, and of five, fit them?

    Seeds are fixed, so the answer is the same every time. The last three are statistical tests: over the choice of
    seeds, each fails a sampler that keeps the rule with probability at most 1e-6 on a problem. What is off by less than
    chance is, about one in a hundred, is not found.

    Parameters
    ----------
    sampler : str or callable
        An id, or what is registered under one: called with a `TabularMDP`, it returns a source with ``draw``, ``play``,
        or both.
    problems : iterable of TabularMDP, optional
        What to sample from. By default six small tables, in one of which some actions are not allowed.

    Raises
    ------
    ConformanceError
        With a sentence for each check that failed: what was seen and what to do.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> from replicable_rl.sampling import Counts, OutcomeCounts
    >>> print(rr.testing.check_sampler("counts-v1", problems=[rr.make("chain-v1")]))
    counts-v1 conforms
    chain-v1
      passed: interface, counts, same seeds, fresh samples, law of draws, law of episodes

    A mistake is named together with its remedy:

    >>> class FirstOutcomes(Counts):
    ...     id = "first-outcomes-v1"
    ...     def draw(self, calls, rng):
    ...         rows = self.mdp.rows
    ...         count = np.zeros(rows.reward.size, dtype=np.int64)
    ...         count[rows.indptr[:-1]] = calls
    ...         return OutcomeCounts(rows.indptr, rows.next_state, rows.reward, count, calls)
    >>> rr.testing.check_sampler(FirstOutcomes, problems=[rr.make("chain-v1")])
    Traceback (most recent call last):
    ...
    replicable_rl.testing.conformance.ConformanceError: first-outcomes-v1 does not conform:
      fresh samples (chain-v1): 8 draws of 2500 successors with sample seeds 1 to 8 are all the same. Draw every sample
      from rng.
      law of draws (chain-v1): state 0, action 0 to state 0 was seen 20000 times in 20000 successors of every pair, and
      4000 are expected. Draw each successor with its probability.
    """
    name = _check_sampler(sampler)
    made = SAMPLERS[sampler] if isinstance(sampler, str) else sampler
    chosen = (*default_problems(), _some_allowed()) if problems is None else _check_tables(problems)
    findings = [found for table in chosen for found in examine(SamplerCase(made, table), CHECKS)]
    return conclude(name, findings)


def interface(case: SamplerCase) -> None:
    """The source is one, and says what the table says."""
    try:
        source, table = check_source(case.source, "given"), case.problem
    except InvalidInput as error:
        raise Failed(short(str(error))) from error
    for name in _TOLD:
        said: list[Any] = [allowed_of(one) if name == "allowed" else getattr(one, name) for one in (source, table)]
        if not np.array_equal(*said):
            raise Failed(f"the {name} of the source is not that of the table. Take it from the table, as Table does.")


def counts(case: SamplerCase) -> None:
    """What is drawn is what was asked for, where it is little and where it is more."""
    policy = uniform_policy(case.problem)
    for many in (1, 1000):
        try:
            if hasattr(case.source, "draw"):
                case.draw(many, sample_stream(1))
            if hasattr(case.source, "play"):
                case.play(policy, many, _HORIZON, sample_stream(1))
        except InvalidInput as error:
            raise Failed(str(error)) from error


def same_seeds(case: SamplerCase) -> None:
    """The same generator gives the same counts."""
    for way in _ways(case):
        if way.digest(sample_stream(1)) != way.digest(sample_stream(1)):
            raise Failed(f"two draws of {way.name} with sample seed 1 differ. Draw every sample from rng.")


def fresh_samples(case: SamplerCase) -> None:
    """Other generators give other counts; so does one generator, in every draw."""
    ways = [way for way in _ways(case) if (_DRAWS - 1) * way.log_most_likely < math.log(FALSE_ALARM / 4.0)]
    if not ways:
        raise DoesNotApply("on this problem samples often look the same")
    for way in ways:
        one, seeds = sample_stream(1), range(1, _DRAWS + 1)
        for how, rngs in (
            (f"with sample seeds 1 to {_DRAWS}", map(sample_stream, seeds)),
            ("from one generator", (one for _ in seeds)),
        ):
            if len(set(map(way.digest, rngs))) == 1:
                raise Failed(f"{_DRAWS} draws of {way.name} {how} are all the same. Draw every sample from rng.")


def law_of_draws(case: SamplerCase) -> None:
    """Successors and rewards of every pair have the law of the table."""
    table, rng = case.problem, sample_stream(1)
    drawn = [case.draw(_CALLS // _DRAWS, rng) for _ in range(_DRAWS)]
    seen = [one.transitions(table.n_states, table.n_actions, table.reward_range[0]) for one in drawn]
    _check_law(table, seen, np.ones(table.n_states * table.n_actions), "successors of every pair")


def law_of_episodes(case: SamplerCase) -> None:
    """Transitions and rewards of episodes have the law of the table."""
    table, rng, uniform = case.problem, sample_stream(1), uniform_policy(case.problem)
    for policy, horizon in ((uniform, 1), (uniform.argmax(axis=1), _HORIZON)):  # the first action that is allowed
        seen = [case.play(policy, _CALLS // _DRAWS, horizon, rng) for _ in range(_DRAWS)]
        _check_law(table, seen, _visits(table, policy, horizon), f"episodes of {horizon} steps", horizon)


@dataclass(frozen=True)
class _Way:
    """A way to sample: what is drawn, the digest of such a draw, and how likely the likeliest one is, at most."""

    name: str
    digest: Callable[[np.random.Generator], str]
    log_most_likely: float


def _ways(case: SamplerCase) -> Iterator[_Way]:
    many, table, policy = _CALLS // _DRAWS, case.problem, uniform_policy(case.problem)

    def drawn(rng: np.random.Generator) -> str:
        one = case.draw(many, rng)
        return array_digest("draw", one.indptr, one.next_state, one.reward, one.count)

    def played(rng: np.random.Generator) -> str:
        seen = case.play(policy, many, 1, rng)
        return array_digest("play", seen.key, seen.count, seen.excess)

    if hasattr(case.source, "draw"):
        key, share, _ = _expected(table, np.ones(table.n_states * table.n_actions))
        likely = np.zeros(table.n_states * table.n_actions)
        np.minimum.at(likely, key // table.n_states, _log_mode(many, share))
        yield _Way(f"{many} successors", drawn, float(likely.sum()))  # pairs are independent
    if hasattr(case.source, "play"):
        _, share, _ = _expected(table, _visits(table, policy, 1))
        yield _Way(f"{many} episodes", played, float(_log_mode(many, share).min()))


def _log_mode(n: int, p: Floats) -> Floats:
    """Return the logarithm of the probability of the likeliest of n trials that succeed with probability p."""
    from scipy.special import gammaln, xlog1py, xlogy

    p = np.minimum(p, 1.0)
    k = np.minimum(np.floor((n + 1) * p), n)
    found: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)
    return found


def _expected(table: TabularMDP, visits: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the transitions of a table, how often each is made, and their rewards above the lowest in its widths."""
    rows, low = table.rows, table.reward_range[0]
    row = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))
    key, place = np.unique(row * table.n_states + rows.next_state, return_inverse=True)
    share = visits[row] * rows.probability
    return key, sums(place, share, key.size), sums(place, share * (rows.reward - low), key.size)


def _visits(table: TabularMDP, policy: NDArray[Any], horizon: int) -> Floats:
    """Return how often an episode visits each pair, on average."""
    weights = action_probabilities("check_sampler", policy, table.n_states, table.n_actions, table.allowed)
    state, visits = np.asarray(table.initial, dtype=np.float64), np.zeros(weights.size)
    for _ in range(horizon):
        now = (state[:, None] * weights).reshape(-1)
        visits += now
        key, share, _ = _expected(table, now)
        state = sums(key % table.n_states, share, table.n_states)
    return visits


def _check_law(
    table: TabularMDP, seen: Sequence[TransitionCounts], visits: Floats, what: str, longest: int = 1
) -> None:
    """Hold transitions and rewards against the table; a sample visits a pair so often on average, ``longest`` at most.

    Where that is once at most, a count is binomial.
    """
    (key, share, rewards), (low, high) = _expected(table, visits), table.reward_range
    count, excess = np.zeros(key.size), np.zeros(key.size)
    for one in seen:
        there = one.count > 0
        place = np.searchsorted(key, one.key[there]).clip(max=key.size - 1)
        if (key[place] != one.key[there]).any():
            wrong = int(one.key[there][np.argmax(key[place] != one.key[there])])
            raise Failed(f"{_named(table, wrong)} was seen, and never happens. Draw from the rows of the table.")
        count[place] += one.count[there]
        excess[place] += (one.excess + (one.low - low) * one.count)[there]
    level = FALSE_ALARM / (8.0 * key.size)  # of a count or a reward, on one side, in one of two laws
    radius = longest * math.sqrt(math.log(1.0 / level) / (2.0 * _CALLS))
    off = np.abs(count / _CALLS - share) > radius if longest > 1 else _is_rare(count, share, level)
    if off.any():
        i = int(np.argmax(off))
        raise Failed(
            f"{_named(table, int(key[i]))} was seen {count[i]:.0f} times in {_CALLS} {what}, and "
            f"{share[i] * _CALLS:.6g} are expected. Draw each successor with its probability."
        )
    off = np.abs(excess / _CALLS - rewards) > radius * (high - low)
    if table.known_rewards is None and off.any():
        i = int(np.argmax(off))
        mean, right = (low + total[i] / max(many[i], 1e-300) for total, many in ((excess, count), (rewards, share)))
        raise Failed(
            f"{_named(table, int(key[i]))} has the mean reward {mean:.4g} in {_CALLS} {what}, and {right:.4g} in the "
            "table. Return the reward of each outcome with its count."
        )


def _is_rare(count: Floats, share: Floats, level: float) -> NDArray[np.bool_]:
    """Whether so many, or more, or so few, or fewer, have a probability below the level."""
    from scipy.special import bdtr, bdtrc

    share = np.minimum(share, 1.0)
    few = np.where(count < _CALLS, bdtr(count, _CALLS, share), 1.0)
    many = np.where(count > 0.0, bdtrc(np.maximum(count - 1.0, 0.0), _CALLS, share), 1.0)
    rare: NDArray[np.bool_] = (few < level) | (many < level)
    return rare


def _named(table: TabularMDP, key: int) -> str:
    row, successor = divmod(key, table.n_states)
    return f"state {row // table.n_actions}, action {row % table.n_actions} to state {successor}"


def _some_allowed() -> TabularMDP:
    """Return a table in which some actions are not allowed."""
    step = np.array([[0.5, 0.3, 0.2], [0.0, 0.1, 0.9], [1.0, 0.0, 0.0]])
    allowed = [[True, False], [True, True], [False, True]]
    return TabularMDP.from_dense(
        np.stack([step, step[::-1]], axis=1), np.eye(3, 2), gamma=0.8, layout="sas", allowed=allowed
    )


def _check_sampler(sampler: Any) -> str:
    """Return what a sampler is called; refuse what is none."""
    if isinstance(sampler, str):
        sampler_of(_some_allowed(), None, sampler)
        return sampler
    if not callable(sampler):
        raise InvalidInput(
            f"check_sampler: sampler must be an id such as 'counts-v1', or be called with a table; got "
            f"{shown(sampler)}."
        )
    return str(getattr(sampler, "id", getattr(sampler, "__name__", type(sampler).__name__)))


def _check_tables(problems: object) -> tuple[TabularMDP, ...]:
    chosen = tuple(problems) if isinstance(problems, Iterable) and not isinstance(problems, str) else ()
    if not chosen or not all(isinstance(table, TabularMDP) for table in chosen):
        raise InvalidInput(
            f"check_sampler: problems must be a list of tables, such as [rr.make('chain-v1')], got {shown(problems)}."
        )
    return chosen


CHECKS = (
    Check("interface", interface, needs=()),
    Check("counts", counts),
    Check("same seeds", same_seeds, needs=("interface", "counts")),
    Check("fresh samples", fresh_samples, needs=("interface", "counts", "same seeds")),
    Check("law of draws", law_of_draws, needs=("interface", "counts")),
    Check("law of episodes", law_of_episodes, needs=("interface", "counts")),
)
