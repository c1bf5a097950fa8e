"""Two logs as one: what reading both together would have given, as far as their records tell.

Rewards of few values are counted value by value, so those of two logs add up. Where they take many, each log has the
exact sums of its stretches. Stretches of two logs lie within each other, and sums of whole numbers of one scale add up;
where scales differ, means are what is left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.data.counting import MANY_REWARDS, Facts, rewards_of, summed, sums_of
from replicable_rl.data.dataset import Dataset
from replicable_rl.data.engine import Engine, engine
from replicable_rl.data.outside import outside_of_both
from replicable_rl.data.stretches import PIECE, changes, place, scale, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicable_rl.data.stretches import Sums


def added(one: Dataset, two: Dataset) -> Dataset:
    """Return both logs, which are of one process, as one."""
    facts = _facts([part for part in (one, two) if part.key.size])
    return _by_means(one, two) if facts is None else _by_sums(one, two, facts)


def _facts(parts: Sequence[Dataset]) -> Facts | None:
    """Return how the rows of all logs would be added up; None if they would not be, or if that cannot be told."""
    plain = [np.unique(part.reward) for part in parts if not part.added_up]
    if any(part.added_up and part.sums is None for part in parts) or any(one.size > MANY_REWARDS for one in plain):
        return None
    if len(plain) == len(parts) and (not parts or np.unique(np.concatenate(plain)).size <= MANY_REWARDS):
        return None
    known = [part.sums for part in parts if part.sums is not None]
    lowest = min([*(float(one[0]) for one in plain), *(one.lowest for one in known)])
    highest = max([*(float(one[-1]) for one in plain), *(one.highest for one in known)])
    facts = Facts(0, {}, lowest, highest, adds=True)
    return facts if all(scale(one.lowest, one.highest) == facts.scale for one in known) else None


def _by_sums(one: Dataset, two: Dataset, facts: Facts) -> Dataset:
    """Add up what the rewards of every stretch add up to."""
    with engine() as duck:
        parts = [_part(duck, f"part{i}", part, facts) for i, part in enumerate((one, two)) if part.key.size]
        found = duck.arrays(
            f"SELECT key, r, CAST(SUM(n) AS BIGINT) AS n, {summed('SUM(total)')} FROM ({' UNION ALL '.join(parts)}) "
            "GROUP BY key, r"
        )
    S, A, key = one.n_states, one.n_actions, found["key"].astype(np.int64)
    columns = key // (S * A), key // S % A, key % S, rewards_of(found, facts), found["n"]
    return _like(one, two, columns, facts.width, sums=sums_of(found, facts))


def _part(duck: Engine, name: str, data: Dataset, facts: Facts) -> str:
    """Lend the outcomes of a log to an engine; return the query for keys, stretches, counts and sums."""
    columns: dict[str, Any] = {"key": data.key, "n": data.count}
    if data.sums is not None:
        columns |= {"r": np.floor(place(data.reward, data.width) * (data.width / facts.width))}
        columns |= {"high": data.sums.high, "low": data.sums.low}
        total = f"CAST(high AS HUGEINT) * {PIECE} + low"
    else:
        columns |= {"r": place(data.reward, facts.width), "x": np.floor(data.reward * facts.scale).astype(np.int64)}
        total = "CAST(x AS HUGEINT) * n"
    duck.connection.register(name, columns)
    return f"SELECT key, r, n, {total} AS total FROM {name}"


def _by_means(one: Dataset, two: Dataset) -> Dataset:
    """Add up counts, and take the means of means where rewards were added up."""
    state, action, successor, reward, count = (
        np.concatenate(pair) for pair in zip(one.columns(), two.columns(), strict=True)
    )
    width = max(one.width, two.width)
    key = (state * one.n_actions + action) * one.n_states + successor
    where = place(reward, width) if width else reward
    order = np.lexsort((reward, where, key))
    new = np.ones(order.size, dtype=bool)
    new[1:] = changes(key[order]) | changes(where[order])
    first = np.flatnonzero(new)
    merged = np.add.reduceat(count[order], first) if order.size else count
    kept = order[new]
    if width and order.size:
        with np.errstate(over="ignore"):  # a mean that passes 64 bits is put back into its stretch
            mean = np.add.reduceat((reward * count)[order], first) / merged
        mean = mean if math.isinf(width) else within(mean, where[kept], width)
        last = order[np.append(first[1:], order.size) - 1]
        reward[kept] = np.where(reward[kept] == reward[last], reward[kept], mean)  # parts of one log, exactly
    return _like(one, two, (state[kept], action[kept], successor[kept], reward[kept], merged), width)


def _like(one: Dataset, two: Dataset, columns: Sequence[Any], width: float, sums: Sums | None = None) -> Dataset:
    """Return a data set of these outcomes, with the episodes of both logs."""
    state, action, successor, reward, count = columns
    more: dict[str, Any] = {
        name: getattr(one, name) + getattr(two, name) for name in ("broken", "cut", "after", "joined")
    }
    for name in ("starts", "ended"):
        first, second = getattr(one, name), getattr(two, name)
        more[name] = None if first is None or second is None else first + second
    more |= {"width": width, "sums": sums, "outside": outside_of_both(one.outside, two.outside)}
    return Dataset(one.process, state, action, successor, reward, count, **more)
