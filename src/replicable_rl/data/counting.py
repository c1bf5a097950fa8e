"""From a log to counts of its transitions: one GROUP BY where the rows are, and only its groups are looked at here.

Nothing depends on the order of rows or on threads. Rewards that take few values are counted value by value; where they
take many, those of a stretch (:mod:`~replicable_rl.data.stretches`) are added up as whole numbers of 2**-k, which is
exact, and not as floats, which is not.

Rows make two tables. ``grouped`` has the parts of the names, d (done), r (reward, or the stretch in which it lies), n,
early (how many of the n rows are in the earlier half of the log) and total (of rewards); ``firsts`` has a state s, and
n episodes that began there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from replicable_rl.data.columns import Columns, check_columns, packed, said
from replicable_rl.data.labels import Label, spoken
from replicable_rl.data.numbering import labels_of, number_groups, part_names, refuse
from replicable_rl.data.stretches import scale, stretch, within
from replicable_rl.errors import InvalidInput, did_you_mean, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data.engine import Engine
    from replicable_rl.data.local import LocalRows
    from replicable_rl.data.warehouse import WarehouseRows

    Rows: TypeAlias = LocalRows | WarehouseRows

MANY_REWARDS = 1000  # different values: more are added up


@dataclass(frozen=True)
class Facts:
    """What is known of the rows before they are grouped.

    ``wrong`` says how many rewards are no finite numbers, and how many episodes or places in them are missing.
    """

    rows: int
    wrong: Mapping[str, int]
    lowest: float  # of the rewards
    highest: float
    adds: bool  # whether rewards take so many values that they are added up

    @property
    def width(self) -> float:
        """How long the stretches are whose rewards are added up; 0 where each counts by itself."""
        return stretch(self.lowest, self.highest) if self.adds else 0.0

    @property
    def scale(self) -> float:
        """What a reward is multiplied with to become a whole number of few bits."""
        return scale(self.lowest, self.highest)


class EpisodeFlaws(NamedTuple):
    """What is wrong with the rows of episodes."""

    broken: int  # steps that do not go on where the one before ended
    tied: int  # steps that have no place of their own in the order
    cut: int  # episodes that break off: their last step is not done
    after: int  # steps that come after the end of their episode
    joined: int = 0  # episodes with rows in several files


NO_FLAWS = EpisodeFlaws(0, 0, 0, 0)


@dataclass(frozen=True)
class Counted:
    """What a log says: labels, and counts of (state, action, next state, reward); -1 is the state after the end."""

    states: list[Label]
    actions: list[Label]
    state: NDArray[np.int64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    reward: NDArray[np.float64]
    count: NDArray[np.int64]
    early: NDArray[np.int64] | None  # of these, in the earlier half of the log
    starts: NDArray[np.int64] | None  # episodes that began in each state
    ended: NDArray[np.int64] | None  # ends for which each state is named as the next one
    flaws: EpisodeFlaws
    facts: Facts


def counted(rows: Rows, columns: Columns) -> Counted:
    """Count the transitions of a log."""
    engine = rows.engine
    check_columns(engine.name, columns, rows.kinds)
    facts = rows.facts(columns)
    if facts.rows == 0:
        raise InvalidInput(f"{engine.name}: the log has no rows.")
    refuse(rows, columns, facts.wrong)
    ordered = rows.group(columns, facts)
    many = number_groups(rows, columns)
    found = engine.arrays(
        "SELECT x.id AS s, y.id AS a, COALESCE(z.id, -1) AS t, c.r AS r, CAST(c.n AS BIGINT) AS n, "
        "CAST(c.early AS BIGINT) AS early, CAST(c.total AS DOUBLE) AS total FROM counts c "
        "JOIN states x ON c.s = x.label JOIN actions y ON c.a = y.label LEFT JOIN states z ON c.t = z.label"
    )
    starts, flaws = (None, NO_FLAWS) if columns.episode is None else _episodes(rows, columns, many)
    return Counted(
        labels_of(engine, columns, "state"),
        labels_of(engine, columns, "action"),
        found["s"].astype(np.int64, copy=False),
        found["a"].astype(np.int64, copy=False),
        found["t"].astype(np.int64, copy=False),
        _rewards(found, facts),
        found["n"].astype(np.int64, copy=False),
        found["early"].astype(np.int64, copy=False) if ordered else None,
        starts,
        None if columns.done is None else _ended(engine, columns, many),
        flaws,
        facts,
    )


def _rewards(found: Mapping[str, NDArray[Any]], facts: Facts) -> NDArray[np.float64]:
    """Return the reward of every outcome: the value itself, or the mean of its stretch."""
    r = found["r"].astype(np.float64)
    if not facts.adds:
        return r
    mean = found["total"].astype(np.float64) / found["n"].astype(np.int64)
    return np.clip(within(mean / facts.scale, r, facts.width), facts.lowest, facts.highest)


def _episodes(rows: Rows, columns: Columns, many: int) -> tuple[NDArray[np.int64], EpisodeFlaws]:
    """Return in which states episodes began, and what is wrong with them."""
    flaws = rows.first(columns)
    if flaws.tied:
        raise InvalidInput(
            f"{rows.engine.name}: {said('order')} {columns.order!r} must tell the rows of an episode apart, and "
            f"{flaws.tied} have the place of another one. Name a column that numbers the steps."
        )
    first = rows.engine.arrays(
        "SELECT x.id AS s, CAST(f.n AS BIGINT) AS n FROM firsts f JOIN states x ON f.s = x.label"
    )
    return _by_state(first, many), flaws


def _ended(engine: Engine, columns: Columns, many: int) -> NDArray[np.int64]:
    """Return how often each state is named as the next one where an episode ended; others than these are not asked."""
    named = packed(part_names(columns, "next_state"))
    return _by_state(
        engine.arrays(
            f"SELECT x.id AS s, CAST(SUM(g.n) AS BIGINT) AS n FROM (SELECT {named} AS t, n FROM grouped WHERE d) g "
            "JOIN states x ON g.t = x.label GROUP BY x.id"
        ),
        many,
    )


def _by_state(found: Mapping[str, NDArray[Any]], many: int) -> NDArray[np.int64]:
    each = np.zeros(many, dtype=np.int64)
    np.add.at(each, found["s"].astype(np.int64), found["n"].astype(np.int64))  # groups may have one name
    return each


def index_of(
    labels: list[Label],
    declared: tuple[Label, ...] | None,
    kind: str,
    place_of: Callable[[str, Label], str],
    from_pairs: bool = False,
) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    """Return all labels in order, those that are declared or those that were seen, and where the seen ones are.

    What is declared may be ``from_pairs`` that are allowed: an error then blames their list.
    """
    if declared is None:
        return tuple(labels), np.arange(len(labels))
    place = {label: i for i, label in enumerate(declared)}
    where = np.array([place.get(label, -1) for label in labels], dtype=np.int64)
    if (where < 0).any():
        unknown = labels[int(np.argmax(where < 0))]
        hint = did_you_mean(spoken(unknown), map(spoken, declared))
        if from_pairs:
            raise InvalidInput(
                f"{place_of(kind, unknown)}: the list of allowed pairs does not name {kind[:-1]} {shown(unknown)}, "
                f"which the log has. Add its pairs to the list, or mend the log.{hint}"
            )
        raise InvalidInput(
            f"{place_of(kind, unknown)}: {kind} must name all that occur, and {shown(unknown)} is not among the "
            f"{len(declared)}.{hint}"
        )
    return declared, where
