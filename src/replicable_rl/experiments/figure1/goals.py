"""In which goal a policy ends: computed, not simulated.

Goals absorb. So with Q the moves among the other states under the policy and R those into the goals,

    (I - Q) B = R,        B[s, g] = the probability of ending in goal g from s.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from replicable_rl.problem.table import TabularMDP


def goal_states(problem: TabularMDP) -> list[int]:
    """Return the states that nothing leaves, in the order of their columns on the map: left before right."""
    rows, A = problem.rows, problem.n_actions
    own = np.repeat(np.arange(problem.n_states * A) // A, np.diff(rows.indptr))
    leaves = np.zeros(problem.n_states, dtype=bool)
    leaves[own[(rows.next_state != own) & (rows.probability > 0.0)]] = True
    return [int(state) for state in np.flatnonzero(~leaves)]


def goal_probabilities(problem: TabularMDP, policy: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, from the problem's first states, the probability of ending in each goal; exact up to rounding.

    >>> from replicable_rl.problem import gridworld
    >>> corridor = gridworld("G.S.G", slip=0.0)
    >>> goal_probabilities(corridor, np.array([0, 2, 2, 2, 0])).tolist()
    [1.0, 0.0]
    """
    S, rows = problem.n_states, problem.rows
    moves = np.zeros((S, S))
    for s in range(S):
        row = slice(*rows.indptr[s * problem.n_actions + int(policy[s]) :][:2])
        np.add.at(moves[s], rows.next_state[row], rows.probability[row])
    goals = goal_states(problem)
    absorbed = np.zeros((S, len(goals)))
    absorbed[goals, range(len(goals))] = 1.0
    inner = np.setdiff1d(_leading_to(goals, moves), goals)  # who walks in circles for ever ends in no goal
    system = np.eye(inner.size) - moves[np.ix_(inner, inner)]
    absorbed[inner] = np.linalg.solve(system, moves[inner][:, goals]) + 0.0
    ends: NDArray[np.float64] = problem.initial @ absorbed
    return ends


def _leading_to(goals: Sequence[int], moves: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the states from which some goal can be reached."""
    leads = np.zeros(len(moves), dtype=bool)
    leads[list(goals)] = True
    for _ in range(len(moves)):
        leads |= (moves[:, leads] > 0.0).any(axis=1)
    return np.flatnonzero(leads)
