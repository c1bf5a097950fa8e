"""A ``TabularMDP`` in the forms that other libraries read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_choice, check_integer
from replicable_rl.problem.arrays import LAYOUTS, Layout

if TYPE_CHECKING:
    from replicable_rl.problem.table import TabularMDP

_MOST_ENTRIES = 2**28  # of a dense array: 2 GiB
_MOST_ROWS = 2**31  # of a log


class Dense(NamedTuple):
    """A process as arrays; see :meth:`TabularMDP.to_dense`."""

    P: NDArray[np.float64]
    R: NDArray[np.float64]
    allowed: NDArray[np.bool_]


def to_dense(mdp: TabularMDP, layout: Layout = "sas") -> Dense:
    """Return P and R as arrays, and which actions are allowed."""
    layout = check_choice("TabularMDP.to_dense", "layout", layout, LAYOUTS)
    S, A, rows = mdp.n_states, mdp.n_actions, mdp.rows
    if S * A * S > _MOST_ENTRIES:
        raise InvalidInput(
            f"TabularMDP.to_dense: P would have {S * A * S:.3g} entries, more than {_MOST_ENTRIES:.3g}. Use "
            "to_transitions."
        )
    place, size = _row_of_outcomes(mdp) * S + rows.next_state, S * A * S
    P, R = _sums(place, rows.probability, size), mdp.known_rewards
    if R is None:  # the mean over the outcomes of a transition; of one alone it is the reward itself, to the last bit
        alone = np.bincount(place, minlength=size)[place] == 1
        total = _sums(place, np.where(alone, 0.0, rows.probability * rows.reward), size)
        mean = np.divide(total, P, out=np.zeros(size), where=P > 0.0)
        mean[place[alone]] = rows.reward[alone]
        R = mean.reshape(S, A, S)
    P = P.reshape(S, A, S)
    flags = mdp.allowed if R.ndim == 2 else mdp.allowed[:, :, None]
    R = np.where(flags, R, -np.inf)
    if layout == "ass":
        P, R = (np.ascontiguousarray(x.transpose(1, 0, 2)) if x.ndim == 3 else x for x in (P, R))
    return Dense(P, R, mdp.allowed.copy())


def to_transitions(mdp: TabularMDP, samples: int | None = None, seed: int | None = None) -> dict[str, NDArray[Any]]:
    """Return columns: of all outcomes, or of a log with so many samples of every pair."""
    if samples is not None:
        return _log(mdp, samples, seed)
    if seed is not None:
        raise InvalidInput("TabularMDP.to_transitions: seed is for a log. Give samples=..., or leave seed out.")
    row, rows = _row_of_outcomes(mdp), mdp.rows
    return {
        "state": row // mdp.n_actions,
        "action": row % mdp.n_actions,
        "next_state": rows.next_state.astype(np.int64),
        "reward": rows.reward.copy(),
        "probability": rows.probability.copy(),
    }


def _log(mdp: TabularMDP, samples: int, seed: int | None) -> dict[str, NDArray[Any]]:
    owner, rows = "TabularMDP.to_transitions", mdp.rows
    pairs = np.flatnonzero(mdp.allowed)
    samples = check_integer(owner, "samples", samples, low=1, high=_MOST_ROWS // pairs.size)
    rng = np.random.Generator(np.random.PCG64DXSM(check_integer(owner, "seed", seed, low=0, high=2**64 - 1)))
    count = np.zeros(rows.probability.size, dtype=np.int64)
    for pair in pairs.tolist():
        outcomes = rows.of_row(pair)
        share = rows.probability[outcomes]
        count[outcomes] = rng.multinomial(samples, share / share.sum())
    drawn = rng.permutation(np.repeat(np.arange(count.size), count))
    row = _row_of_outcomes(mdp)[drawn]
    state, action = row // mdp.n_actions, row % mdp.n_actions
    successor = rows.next_state[drawn].astype(np.int64)
    return {"state": state, "action": action, "reward": rows.reward[drawn], "next_state": successor}


def _row_of_outcomes(mdp: TabularMDP) -> NDArray[np.int64]:
    return np.repeat(np.arange(mdp.rows.indptr.size - 1), np.diff(mdp.rows.indptr))


def _sums(index: NDArray[np.int64], weights: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return np.bincount(index, weights=weights, minlength=size).astype(np.float64, copy=False)
