"""Parallel sampling as counts: one call draws a successor of every state-action pair.

m i.i.d. outcomes of a row, counted, have exactly the law of one multinomial draw. So m calls
cost a few random numbers per outcome, whatever m is: the binomial of the first outcome, then
of the second among what is left, and so on. Rows are drawn in blocks with a stream each, so the
counts of a seed are the same on any number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP
from replicable_rl.sampling.counts import OutcomeCounts, check_calls
from replicable_rl.sampling.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp.rows import Rows
    from replicable_rl.records import ObjectSpec

__all__ = ["CountSampler", "GenerativeModel", "as_generative"]

MANY_BLOCKS = 100  # blocks of rows that are worth several threads


@runtime_checkable
class GenerativeModel(Problem, Protocol):
    """What an algorithm in the parallel sampling setting needs of a problem."""

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        ...


class FromTable:
    """The parts of a generative model that a `TabularMDP` answers."""

    def __init__(self, mdp: TabularMDP) -> None:
        self._mdp = mdp

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return self._mdp.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return self._mdp.n_actions

    @property
    def gamma(self) -> float:
        """Discount."""
        return self._mdp.gamma

    @property
    def reward_range(self) -> tuple[float, float]:
        """Declared bounds of every reward."""
        return self._mdp.reward_range

    @property
    def known_rewards(self) -> NDArray[np.float64] | None:
        """The (S, A) table of rewards if each pair has one reward, else None."""
        return self._mdp.deterministic_rewards

    @property
    def initial(self) -> NDArray[np.float64]:
        """Distribution of the first state."""
        return self._mdp.initial

    @property
    def spec(self) -> ObjectSpec:
        """The identity of the table."""
        return self._mdp.spec

    def _counts(self, count: NDArray[np.int64], calls: int) -> OutcomeCounts:
        rows = self._mdp.rows
        return OutcomeCounts(rows.indptr, rows.next_state, rows.reward, count, calls)


class CountSampler(FromTable):
    """Draws counts of a `TabularMDP`; exact in law, at a cost that does not depend on ``calls``.

    >>> from replicable_rl.envs import riverswim
    >>> from replicable_rl.randomness import sample_stream
    >>> counts = CountSampler(riverswim()).draw(10**16, sample_stream(1))
    >>> int(counts.count[counts.indptr[0] : counts.indptr[1]].sum())
    10000000000000000
    """

    def __init__(self, mdp: TabularMDP) -> None:
        super().__init__(mdp)
        self._conditional = conditional_probabilities(mdp.rows.indptr, mdp.rows.probability)

    @property
    def table(self) -> tuple[Rows, NDArray[np.float64]]:
        """The outcomes, and the conditional probabilities that their counts are drawn with: for compiled loops."""
        return self._mdp.rows, self._conditional

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        from replicable_rl.compiled import Team
        from replicable_rl.sampling import _kernels

        calls = check_calls("CountSampler", calls)
        indptr = self._mdp.rows.indptr
        count = np.empty(self._conditional.size, dtype=np.int64)
        arguments = (indptr, self._conditional, calls, stream_words(rng, 1)[0], count)
        with Team(n_blocks(indptr), whole_below=MANY_BLOCKS) as each:
            each(_kernels.multinomial_blocks, *arguments)
        return self._counts(count, calls)


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


def as_generative(problem: TabularMDP | GenerativeModel) -> GenerativeModel:
    """Return the problem as a generative model; a `TabularMDP` is sampled by counts."""
    if isinstance(problem, TabularMDP):
        return CountSampler(problem)
    if type(problem) is CountSampler:  # nothing is left to check
        return problem
    if isinstance(problem, GenerativeModel):
        _check_known_rewards(problem)
        return problem
    hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
    raise InvalidInput(
        "problem must be a TabularMDP, a Simulator or another object with the methods of GenerativeModel, "
        f"got {type(problem).__name__}.{hint}"
    )


def _check_known_rewards(model: GenerativeModel) -> None:
    """Refuse a table of rewards that breaks the promise of ``reward_range``."""
    rewards, (low, high) = model.known_rewards, model.reward_range
    if rewards is not None and not (
        rewards.shape == (model.n_states, model.n_actions) and ((rewards >= low) & (rewards <= high)).all()
    ):
        raise InvalidInput(f"{type(model).__name__}: known_rewards must be (S, A) and lie in [{low:g}, {high:g}].")
