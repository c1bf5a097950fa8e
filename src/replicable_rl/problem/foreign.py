"""Samples that an algorithm asks for, and got: what somebody's own source returns is looked at before it counts.

Every proof is about the samples that were asked for. Our own sources return those; of somebody's own, nobody knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.problem.support import allowed_of
from replicable_rl.runs import OURS, provider
from replicable_rl.sampling.counts import EpisodeCounts, OutcomeCounts, sums

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from replicable_rl.problem.source import EpisodicModel, GenerativeModel, Problem

_ROUNDING = 1e-9  # of sums of floats, relative


def draw_from(source: GenerativeModel, calls: int, rng: np.random.Generator) -> OutcomeCounts:
    """Draw fresh successors of every pair, and see that they are as many as were asked for."""
    counts = source.draw(calls, rng)
    if provider(source) != OURS:
        check_drawn(source, counts, calls)
    return counts


def play_from(
    source: EpisodicModel, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator
) -> EpisodeCounts:
    """Play fresh episodes, and see that they are as many as were asked for, and none is longer."""
    seen = source.play(policy, episodes, horizon, rng)
    if provider(source) != OURS:
        check_played(source, seen, episodes, horizon)
    return seen


def check_drawn(source: Problem, counts: OutcomeCounts, calls: int) -> None:
    """Refuse counts that are not those of ``calls`` successors of every pair that is allowed."""
    who, n_rows = type(source).__name__, source.n_states * source.n_actions
    _check_kind(who, "draw", counts, OutcomeCounts)
    if counts.calls != calls:
        raise InvalidInput(f"{who}: {calls} calls were asked for, {counts.calls} were made.")
    ends = _integers(who, "draw", "indptr", counts.indptr)
    if ends.shape != (n_rows + 1,) or ends[0] != 0 or (np.diff(ends) < 0).any():
        raise InvalidInput(f"{who}: the indptr of draw must rise from 0 and have S*A + 1 = {n_rows + 1} entries.")
    successors = _integers(who, "draw", "next_state", counts.next_state)
    columns = {"next_state": successors, "count": counts.count, "reward": counts.reward}
    _check_outcomes(source, "draw", int(ends[-1]), counts.row, columns)
    total, allowed = sums(counts.row, counts.count.astype(np.float64), n_rows), allowed_of(source)
    asked = np.full(n_rows, float(calls)) if allowed is None else np.where(allowed.reshape(-1), float(calls), 0.0)
    bad = np.abs(total - asked) > (_ROUNDING * calls if calls > 2**53 else 0.0)  # up to there, sums are exact
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInput(
            f"{who}: draw must return {asked[row]:.17g} successors of state {row // source.n_actions}, action "
            f"{row % source.n_actions}, got {total[row]:.17g}. Count each call once, and nothing else."
        )


def check_played(source: Problem, seen: EpisodeCounts, episodes: int, horizon: int) -> None:
    """Refuse counts that are not those of so many episodes, none of them longer than the horizon."""
    who, allowed = type(source).__name__, allowed_of(source)
    _check_kind(who, "play", seen, EpisodeCounts)
    if seen.episodes != episodes:
        raise InvalidInput(f"{who}: {episodes} episodes were asked for, {seen.episodes} were played.")
    key, last = _integers(who, "play", "key", seen.key), source.n_states * source.n_actions * source.n_states - 1
    sizes = (seen.n_states, seen.n_actions) == (source.n_states, source.n_actions)
    if not sizes or (np.diff(key) <= 0).any() or (key.size and not 0 <= key[0] <= key[-1] <= last):
        raise InvalidInput(
            f"{who}: the keys of play must be (s*A + a)*S + s', sorted, each once, with S={source.n_states} and "
            f"A={source.n_actions}."
        )
    mean = seen.excess  # where it is not as long as the keys, it is refused
    if np.shape(seen.excess) == np.shape(seen.count) == key.shape:
        mean = seen.low + seen.excess / np.where(seen.count > 0.0, seen.count, 1.0)
    columns = {"next_state": seen.next_state, "count": seen.count, "reward": mean}
    _check_outcomes(source, "play", key.size, seen.row, columns)
    if allowed is not None and (seen.count[~allowed.reshape(-1)[seen.row]] > 0.0).any():
        raise InvalidInput(f"{who}: play must take no action that is not allowed. Follow the policy.")
    most = float(episodes) * horizon
    for what, many in (("transitions", float(seen.count.sum())), ("steps", float(seen.steps))):
        if not 0.0 <= many <= most * (1.0 + _ROUNDING):
            raise InvalidInput(
                f"{who}: {episodes} episodes of {horizon} steps have at most {most:.17g} {what}, got {many:.17g}. "
                "Count each step once, and end an episode at the horizon."
            )
    starts = seen.starts
    if starts is not None and (
        starts.shape != (source.n_states,) or (starts < 0).any() or abs(float(starts.sum()) - episodes) > 0.5
    ):
        raise InvalidInput(
            f"{who}: the starts of play must count the {episodes} episodes by the {source.n_states} states that they "
            f"began in, got {shown(starts)}."
        )


def _check_kind(who: str, method: str, returned: object, kind: type) -> None:
    if not isinstance(returned, kind):
        raise InvalidInput(f"{who}: {method} must return {kind.__name__}, got {shown(returned)}.")


def _integers(who: str, method: str, name: str, array: Any) -> NDArray[np.int64]:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu" or array.dtype == "u8":
        raise InvalidInput(
            f"{who}: the {name} of {method} must be a row of integers of a type that int64 holds, got {shown(array)}."
        )
    return array


def _check_outcomes(
    source: Problem, method: str, size: int, row: NDArray[np.int64], columns: dict[str, NDArray[Any]]
) -> None:
    """Refuse counts, next states and rewards that there cannot be; the reward of what was not seen may be anything."""
    who, (low, high) = type(source).__name__, source.reward_range
    for name, column in columns.items():
        if not isinstance(column, np.ndarray) or column.shape != (size,) or column.dtype.kind not in "iuf":
            raise InvalidInput(
                f"{who}: the {name} of {method} must hold {size} numbers, one for each outcome, got {shown(column)}."
            )
    successor, count, reward = columns["next_state"], columns["count"], columns["reward"]
    slack = _ROUNDING * max(abs(low), abs(high))
    inside = (reward >= low - slack) & (reward <= high + slack) | (count == 0) & np.isfinite(reward)
    nowhere = ~((successor >= 0) & (successor < source.n_states))
    rules: list[tuple[NDArray[np.bool_], NDArray[Any], str]] = [
        (~(count >= 0) | (count != np.rint(count)), count, "counts must be whole numbers, none below 0"),
        (nowhere, successor, f"next states must lie in 0..{source.n_states - 1}"),
    ]
    if source.known_rewards is None:  # else nobody looks at them
        rules.append((~inside, reward, f"rewards must lie in reward_range [{low:g}, {high:g}]"))
    for bad, values, rule in rules:
        if bad.any():
            i = int(np.argmax(bad))
            s, a = divmod(int(row[i]), source.n_actions)
            raise InvalidInput(f"{who}: {rule}, got {values[i]:.17g} of state {s}, action {a}. Mend its {method}.")
