"""How the samples of a table are drawn: as counts, exact in law, at a cost that does not depend on how many there are.

*Pairs.* m i.i.d. outcomes of a row, counted, have exactly the law of one multinomial draw: the binomial of the first
outcome, then of the second among what is left, and so on. Rows are drawn in blocks with a stream each, so the counts
of a seed are the same on any number of threads.

*Episodes.* Under a fixed policy the number of episodes in each state after h steps is a Markov chain of multinomials,

    N_{h+1} = sum over s of multinomial(N_h(s), P(.|s, policy(s))),

so m episodes are played by pushing counts along, in H * reached states * outcomes. What learning needs of a transition
is the pair it left, the state it reached and the reward, so that is what is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.problem.support import Support

MANY_BLOCKS = 100  # blocks of rows that are worth several threads


def decisions(policy: ArrayLike, support: Support) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the action of every state, -1 where it is left to chance, and the conditional probabilities if any is."""
    actions = support.actions("TabularMDP", policy)
    if actions is not None:
        return actions, np.empty(0)
    weights = support.probabilities("TabularMDP", policy)
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
