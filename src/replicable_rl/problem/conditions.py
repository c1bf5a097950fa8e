"""What must be true of a source, and nobody can check: every claim about a run on it says so."""

from __future__ import annotations

from typing import Any

from replicable_rl.problem.sampler import Table
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import OURS, provider

DRAWS = "the source's draws are independent and of one law for each pair, with rewards in the declared range"
STARTS = "the first states of its episodes are independent and of one law"


def conditions(source: Any) -> tuple[str, ...]:
    """Return the conditions of a source: none of a table that we draw from, for its numbers are its law.

    >>> import replicable_rl as rr
    >>> conditions(rr.make("chain-v1"))
    ()
    >>> def step(state, action, rng):
    ...     return state, rng.random()
    >>> print(*conditions(rr.Simulator(step, n_states=1, n_actions=2, gamma=0.9, reward_range=(0.0, 1.0))))
    the source's draws are independent and of one law for each pair, with rewards in the declared range
    """
    table = source.mdp if isinstance(source, Table) else source
    if isinstance(table, TabularMDP) and provider(source) == provider(table) == OURS:
        return ()
    return (DRAWS, STARTS) if hasattr(source, "play") else (DRAWS,)
