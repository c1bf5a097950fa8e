"""Which actions each state has, as a list of pairs: a file or columns with a row for every pair that is allowed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.data.columns import Columns, check_columns
from replicable_rl.data.counting import index_of
from replicable_rl.data.numbering import labels_of, number_groups
from replicable_rl.data.source import opened
from replicable_rl.errors import InvalidInput, speaking_as

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.data.labels import Declared, Label


class Pairs(NamedTuple):
    """The names of all states and actions, and which actions each state has, (S, A)."""

    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    allowed: NDArray[np.bool_]


def are_pairs(allowed: Any) -> bool:
    """Whether this names a file of pairs, or holds columns of them, as frames do; else it is a table of truth values.

    >>> are_pairs({"state": [0], "action": [1]}), are_pairs([[False, True]])
    (True, False)
    """
    names_columns = any(hasattr(type(allowed), name) for name in ("columns", "column_names"))  # frames, Arrow tables
    return names_columns or isinstance(allowed, (str, os.PathLike, Mapping))


@speaking_as("from_transitions, allowed", "from_transitions")
def read_pairs(source: Any, columns: Columns, declared: Declared) -> Pairs:
    """Read the pairs that are allowed, from the columns that a log has for its states and actions.

    Names are read as those of a log. States and actions that are not declared are those of the list, in order.
    """
    # A pair is a row whose next state is its state: all that is said of names of logs is said of these.
    here = dataclasses.replace(columns, next_state=columns.state, reward=columns.state[0])
    here = dataclasses.replace(here, done=None, episode=None, order=None)
    with opened(source, here, declared) as rows:
        check_columns(rows.engine.name, here, rows.kinds)
        facts = rows.facts(here)
        if facts.rows == 0:
            raise InvalidInput(f"{rows.engine.name}: lists no pairs. Name a state and an action in every row.")
        rows.group(here, dataclasses.replace(facts, adds=False))
        number_groups(rows, here)
        found = rows.engine.arrays(
            "SELECT DISTINCT x.id AS s, y.id AS a FROM counts c JOIN states x ON c.s = x.label "
            "JOIN actions y ON c.a = y.label"
        )
        name = rows.engine.name
        names = (labels_of(rows.engine, here, use) for use in ("state", "action"))
        kinds = zip(names, declared, ("states", "actions"), strict=True)
        (states, state_at), (actions, action_at) = (index_of(*one, lambda kind, label: name) for one in kinds)
    allowed = np.zeros((len(states), len(actions)), dtype=np.bool_)
    allowed[state_at[found["s"].astype(np.int64)], action_at[found["a"].astype(np.int64)]] = True
    return Pairs(states, actions, allowed)
