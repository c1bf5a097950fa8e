"""Textbook problems: RiverSwim, the chain, and Garnets (random MDPs).

The first two punish an algorithm that explores too little: the small reward is near, the
large one far. Garnets have no structure at all, and come in every size.
"""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import MAX_JSON_INTEGER
from replicable_rl.errors import InvalidInput, check_integer
from replicable_rl.problem._shipped_checks import check_probability
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.source import check_gamma
from replicable_rl.problem.table import TabularMDP
from replicable_rl.randomness import SharedRandomness

_MAX_LENGTH = 100_000  # of a river or a chain
_MAX_OUTCOMES = 500_000_000
_MAX_COMPARISONS = 20_000_000_000  # of a Garnet's draws with each other: some tens of seconds


def riverswim(n_states: int = 6, gamma: float = 0.95, small_reward: float = 0.005) -> TabularMDP:
    """Build RiverSwim (Strehl and Littman 2008): swim against the current, or drift.

    Going left always succeeds and pays ``small_reward`` in the first state. Going right
    against the current moves right with probability 0.35, stays with 0.6 and is carried back
    with 0.05 (0.6 right and 0.4 stay in the first state; 0.6 stay and 0.4 back in the last),
    and pays 1 in the last state. Swimming starts in the first state.

    >>> from replicable_rl.planning import optimal_values
    >>> optimal_values(riverswim()).policy.tolist()  # it pays to swim
    [1, 1, 1, 1, 1, 1]
    """
    owner = "riverswim-v1"
    n_states = check_integer(owner, "n_states", n_states, low=2, high=_MAX_LENGTH)
    gamma = check_gamma(owner, gamma)
    small_reward = check_probability(owner, "small_reward", small_reward)
    last = n_states - 1
    left = [[(1.0, max(s - 1, 0), small_reward if s == 0 else 0.0)] for s in range(n_states)]
    right = [
        [(0.4, 0, 0.0), (0.6, 1, 0.0)],
        *([(0.05, s - 1, 0.0), (0.6, s, 0.0), (0.35, s + 1, 0.0)] for s in range(1, last)),
        [(0.4, last - 1, 1.0), (0.6, last, 1.0)],
    ]
    return _from_first_state(list(zip(left, right, strict=True)), gamma, ("left", "right"))


def chain(n_states: int = 5, slip: float = 0.2, gamma: float = 0.95, small_reward: float = 0.2) -> TabularMDP:
    """Build the chain (Dearden, Friedman and Russell 1998; Strens 2000).

    Forward moves one state on, and pays 1 in the last state, where it stays. Back returns to
    the first state and pays ``small_reward``. With probability ``slip`` the other action
    happens, its reward included: rewards are random given the state and the action.

    >>> chain().rows.of_row(0)  # forward in the first state: two outcomes with two rewards
    slice(0, 2, None)
    >>> chain().rows.reward[:2].tolist(), chain().rows.probability[:2].tolist()
    ([0.2, 0.0], [0.2, 0.8])
    """
    owner = "chain-v1"
    n_states = check_integer(owner, "n_states", n_states, low=2, high=_MAX_LENGTH)
    slip = check_probability(owner, "slip", slip)
    gamma = check_gamma(owner, gamma)
    small_reward = check_probability(owner, "small_reward", small_reward)
    last = n_states - 1
    outcomes = []
    for s in range(n_states):
        on, home = (min(s + 1, last), 1.0 if s == last else 0.0), (0, small_reward)
        outcomes.append(([(1.0 - slip, *on), (slip, *home)], [(1.0 - slip, *home), (slip, *on)]))
    return _from_first_state(outcomes, gamma, ("forward", "back"))


def garnet(n_states: int = 20, n_actions: int = 4, branching: int = 3, gamma: float = 0.9, seed: int = 0) -> TabularMDP:
    """Build a Garnet (Archibald, McKinnon and Thomas 1995): a random MDP, one for every seed.

    Every pair (s, a) has ``branching`` different successors, all sets of them equally likely,
    with the lengths between sorted uniform cut points of [0, 1] as probabilities, and one
    reward uniform on [0, 1]. The numbers come from :class:`SharedRandomness`, so a seed
    names the same process on every machine, for ever.

    >>> garnet(seed=1)
    TabularMDP(S=20, A=4, outcomes=240, gamma=0.9)
    >>> garnet(seed=1) == garnet(seed=1), garnet(seed=1) == garnet(seed=2)
    (True, False)
    """
    owner = "garnet-v1"
    n_states = check_integer(owner, "n_states", n_states, low=1, high=_MAX_OUTCOMES)
    n_actions = check_integer(owner, "n_actions", n_actions, low=1, high=_MAX_OUTCOMES)
    branching = check_integer(owner, "branching", branching, low=1, high=n_states)
    gamma = check_gamma(owner, gamma)
    shared = SharedRandomness(check_integer(owner, "seed", seed, low=0, high=MAX_JSON_INTEGER))
    n_rows = n_states * n_actions
    _check_size(owner, n_rows, branching)
    rows = Rows(
        indptr=np.arange(0, n_rows * branching + 1, branching, dtype=np.int64),
        next_state=_distinct(shared, n_states, n_rows, branching).reshape(-1),
        probability=_lengths(shared, n_rows, branching).reshape(-1),
        reward=np.repeat(shared.uniform("garnet/reward", shape=n_rows), branching),
    )
    return TabularMDP(rows, n_actions=n_actions, gamma=gamma, reward_range=(0.0, 1.0))


def _distinct(shared: SharedRandomness, n_states: int, n_rows: int, count: int) -> NDArray[np.int32]:
    """Return ``count`` distinct states per row, sorted: Floyd's algorithm on all rows at once.

    Step i draws from 0..last with last = S - count + i; a state already chosen is replaced by
    ``last``, which cannot have been. Every set comes out with the same probability.
    """
    chosen = np.empty((n_rows, count), dtype=np.int32)
    for i in range(count):
        last = n_states - count + i
        drawn = (shared.uniform("garnet/successor", i, shape=n_rows) * (last + 1)).astype(np.int32)
        taken = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, last, drawn)
    chosen.sort(axis=1)
    return chosen


def _lengths(shared: SharedRandomness, n_rows: int, count: int) -> NDArray[np.float64]:
    """Return the ``count`` lengths per row between ``count - 1`` sorted cut points of [0, 1]."""
    ends = np.empty((n_rows, count + 1))
    ends[:, 0], ends[:, count] = 0.0, 1.0
    for i in range(1, count):
        ends[:, i] = shared.uniform("garnet/cut", i - 1, shape=n_rows)
    ends.sort(axis=1)
    return np.diff(ends, axis=1)


def _check_size(owner: str, n_rows: int, branching: int) -> None:
    if n_rows * branching > _MAX_OUTCOMES:
        raise InvalidInput(
            f"{owner}: n_states*n_actions*branching must be at most {_MAX_OUTCOMES} outcomes, got "
            f"{n_rows * branching}. Lower one of them."
        )
    if n_rows * branching**2 > _MAX_COMPARISONS:
        raise InvalidInput(
            f"{owner}: n_states*n_actions*branching**2 must be at most {_MAX_COMPARISONS}, got "
            f"{n_rows * branching**2}. Lower branching."
        )


def _from_first_state(
    outcomes: list[tuple[list[tuple[float, int, float]], list[tuple[float, int, float]]]],
    gamma: float,
    actions: tuple[str, str],
) -> TabularMDP:
    """Build a process on a line that starts in its first state and pays at most 1."""
    n_states = len(outcomes)
    return TabularMDP.from_outcomes(
        outcomes,
        gamma=gamma,
        initial=np.arange(n_states) == 0,
        reward_range=(0.0, 1.0),
        labels=Labels(states=tuple(f"s{s}" for s in range(n_states)), actions=actions),
    )
