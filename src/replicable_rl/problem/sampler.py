"""Tables as sources of samples: fresh counts, exact in law, at a cost that does not depend on how many are drawn.

*Pairs.* m i.i.d. outcomes of a row, counted, have exactly the law of one multinomial draw: the binomial of the first
outcome, then of the second among what is left, and so on. Rows are drawn in blocks with a stream each, so the counts
of a seed are the same on any number of threads.

*Episodes.* Under a fixed policy the number of episodes in each state after h steps is a Markov chain of multinomials,

    N_{h+1} = sum over s of multinomial(N_h(s), P(.|s, policy(s))),

so m episodes are played by pushing counts along, in H * reached states * outcomes. What learning needs of a transition
is the pair it left, the state it reached and the reward, so that is what is kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.problem.source import Episodic, Generative, Source, as_ours, check_source
from replicable_rl.problem.support import Support
from replicable_rl.problem.table import TabularMDP
from replicable_rl.sampling.counts import EpisodeCounts, OutcomeCounts, check_calls, check_horizon, width_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.runs import ObjectSpec

MANY_BLOCKS = 100  # blocks of rows that are worth several threads


class Table(Source):
    """What every source made of a `TabularMDP` says about it, and how it returns counts."""

    initial: NDArray[np.float64]

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.n_states, self.n_actions, self.gamma = mdp.n_states, mdp.n_actions, mdp.gamma
        self.reward_range, self.initial, self.support = mdp.reward_range, mdp.initial, mdp.support
        self.known_rewards, self.trust = mdp.known_rewards, mdp.trust

    @property
    def spec(self) -> ObjectSpec:
        """The identity of the table."""
        return self.mdp.spec

    @cached_property
    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The keys of the table's transitions, and the transition that each outcome belongs to."""
        rows = self.mdp.rows
        return np.unique(rows.row * self.n_states + rows.next_state, return_inverse=True)

    def drawn(self, count: NDArray[np.int64], calls: int) -> OutcomeCounts:
        """Return the counts of every outcome of the table."""
        rows = self.mdp.rows
        return OutcomeCounts(rows.indptr, rows.next_state, rows.reward, count, calls, trust=self.trust)

    def nothing_yet(self, episodes: int, horizon: int) -> EpisodeCounts:
        """Return the counts of no transition, to add to."""
        key, steps, low = self.transitions[0], episodes * horizon, self.reward_range[0]
        more: dict[str, Any] = {"low": low, "width": width_of(self.reward_range), "trust": self.trust}
        more |= {"squares": np.zeros(key.size) if self._several_rewards else None}
        count, excess = np.zeros(key.size), np.zeros(key.size)
        return EpisodeCounts(self.n_states, self.n_actions, key, count, excess, episodes, steps, **more)

    @cached_property
    def _several_rewards(self) -> bool:
        """Whether some transition has rewards of several sizes, which are outcomes of their own."""
        (key, transition), reward = self.transitions, self.mdp.rows.reward
        last = np.empty(key.size)
        last[transition] = reward
        return bool((last[transition] != reward).any())


class Counts(Table, Generative, Episodic):
    """A table as a source of samples: counts of fresh ones, drawn as counts.

    Parameters
    ----------
    mdp : TabularMDP
        The table.

    Examples
    --------
    >>> from replicable_rl.problem import riverswim
    >>> from replicable_rl.randomness import sample_stream
    >>> river = Counts(riverswim())
    >>> counts = river.draw(10**16, sample_stream(1))
    >>> int(counts.count[counts.indptr[0] : counts.indptr[1]].sum())
    10000000000000000
    >>> int(river.play([1] * 6, episodes=10**15, horizon=20, rng=sample_stream(1)).visits.sum())
    20000000000000000
    """

    id: ClassVar[str] = "counts-v1"

    @cached_property
    def conditional(self) -> NDArray[np.float64]:
        """The conditional probability of every outcome, given that none of the pair before it happened."""
        return conditional_probabilities(self.mdp.rows.indptr, self.mdp.rows.probability)

    @cached_property
    def _start(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The states that an episode may start in, and their conditional probabilities."""
        first = np.flatnonzero(self.initial)
        return first, conditional_probabilities(np.array([0, first.size]), self.initial[first])

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        from replicable_rl.compiled import Team
        from replicable_rl.sampling import _kernels

        calls = check_calls("Counts", calls)
        indptr = self.mdp.rows.indptr
        count = np.empty(self.conditional.size, dtype=np.int64)
        arguments = (indptr, self.conditional, calls, stream_words(rng, 1)[0], count)
        with Team(n_blocks(indptr), whole_below=MANY_BLOCKS) as each:
            each(_kernels.multinomial_blocks, *arguments)
        return self.drawn(count, calls)

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        from replicable_rl.sampling import _kernels

        episodes, horizon = check_calls("Counts", episodes, "episodes"), check_horizon(horizon)
        rows, seen = self.mdp.rows, self.nothing_yet(episodes, horizon)
        table = (*self._start, rows.indptr, rows.next_state, self.conditional)
        decisions = _decisions(policy, self.support)
        played = *table, *decisions, episodes, horizon, stream_words(rng, 1)[0]
        _kernels.propagate(*played, self.transitions[1], rows.reward, *to_add_to(seen))
        return seen


def as_source(problem: object) -> Source:
    """Return what an algorithm samples from: of a table counts are drawn, and a stranger's answers are looked at.

    >>> import replicable_rl as rr
    >>> as_source(rr.make("chain-v1")).trust.conditions  # none: the numbers of the table are the law
    ()
    >>> def step(state, action, rng):
    ...     return state, rng.random()
    >>> coin = rr.Simulator(step, n_states=1, n_actions=2, gamma=0.9, reward_range=(0.0, 1.0))
    >>> print(*as_source(coin).trust.conditions)
    the source's draws are independent and of one law for each pair, with rewards in the declared range
    """
    return Counts(problem) if isinstance(problem, TabularMDP) else as_ours(check_source(problem))


_NONE = np.empty(0)


def to_add_to(
    seen: EpisodeCounts,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64], float]:
    """Return what a kernel adds to."""
    return seen.count, seen.excess, seen.low, _NONE if seen.squares is None else seen.squares, seen.width


def _decisions(policy: ArrayLike, support: Support) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the action of every state, -1 where it is left to chance, and the conditional probabilities if any is."""
    actions = support.actions("Counts", policy)
    if actions is not None:
        return actions, np.empty(0)
    weights = support.probabilities("Counts", policy)
    sure = weights.max(axis=1) == 1.0
    first = np.arange(0, weights.size + 1, weights.shape[1])
    return np.where(sure, weights.argmax(axis=1), -1), conditional_probabilities(first, weights.reshape(-1))


def n_blocks(indptr: NDArray[np.int64]) -> int:
    """Return the number of blocks that the rows are drawn in."""
    from replicable_rl.sampling import _kernels

    return -(-(indptr.size - 1) // _kernels.ROWS_PER_BLOCK)


def stream_words(rng: np.random.Generator, how_many: int) -> NDArray[np.uint64]:
    """Return fresh words for so many calls of the kernels, two each, from which their own streams follow.

    Draws are then the same under every version of numpy, whose Generator methods promise no such thing.
    """
    return rng.bit_generator.random_raw(2 * how_many).astype(np.uint64, copy=False).reshape(how_many, 2)


def conditional_probabilities(indptr: NDArray[np.int64], probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for every outcome, its probability given that no earlier one of its row occurred.

    Where that probability p exceeds 1/2 the entry is -(1 - p), so that probabilities near 1
    keep their full precision.
    """
    from replicable_rl.sampling import _kernels

    conditional = np.empty(probability.size)
    _kernels.conditional_rows(indptr, probability, conditional)
    return conditional
