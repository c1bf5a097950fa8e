"""Gymnasium environments whose transition table ``P`` is known, as a ``TabularMDP``.

``P[s][a]`` lists (probability, next state, reward, terminated). An episode that terminates
earns nothing more, so all ``terminated`` outcomes lead to one extra state, which absorbs and
pays 0. Time limits and other wrappers are no part of ``P`` and are left out.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.canonical import canonical_json
from replicable_rl.errors import InvalidInput, UnknownId, did_you_mean, shown
from replicable_rl.problem._shipped_checks import as_float, as_truth
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.source import check_gamma
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import ObjectSpec

if TYPE_CHECKING:
    import gymnasium

_OWNER = "from_gymnasium"
_END = "terminated"  # the name of the extra state
_Outcome = tuple[float, int, float, bool]


def from_gymnasium(env: str | gymnasium.Env[Any, Any], *, gamma: float = 0.99, **make_kwargs: Any) -> TabularMDP:
    """Convert a Gymnasium environment whose ``P`` is known.

    Parameters
    ----------
    env : str or gymnasium.Env
        An id such as ``"FrozenLake-v1"``, or an environment.
    gamma : float
        Discount in [0, 1).
    **make_kwargs
        What ``gymnasium.make`` takes besides the id, such as ``map_name="8x8"``.

    Returns
    -------
    TabularMDP
        Named by its id and keywords when these are plain numbers and strings, otherwise
        by its content.

    Examples
    --------
    >>> lake = from_gymnasium("FrozenLake-v1", gamma=0.95, is_slippery=False)
    >>> lake
    TabularMDP(S=17, A=4, outcomes=68, gamma=0.95)
    >>> lake.spec.text
    'gymnasium/FrozenLake-v1:gamma=0.95,is_slippery=False'
    >>> from_gymnasium("FrozenLak-v1")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.UnknownId: from_gymnasium: no environment is registered as 'FrozenLak-v1'. Did you mean
    'FrozenLake-v1'?
    """
    gamma = check_gamma(_OWNER, gamma)
    if not isinstance(env, str):
        from gymnasium import Env

        if not isinstance(env, Env):
            raise InvalidInput(f"{_OWNER}: env must be an id or a gymnasium.Env, got {shown(env)}.")
        if make_kwargs:
            raise InvalidInput(
                f"{_OWNER}: {', '.join(sorted(make_kwargs))} can only be given together with an id, got {shown(env)}. "
                "Give them to gymnasium.make."
            )
        return _convert(env, gamma)
    made = make_env(_OWNER, env, make_kwargs)
    try:
        mdp = _convert(made, gamma)
        source = _source(env, made, {"gamma": gamma, **make_kwargs})
    finally:
        made.close()
    return mdp if source is None else mdp.with_source(source)


def make_env(
    owner: str, env_id: str, make_kwargs: Mapping[str, Any], *, otherwise: str = ""
) -> gymnasium.Env[Any, Any]:
    """Make an environment without warnings, or say why not; ``otherwise`` is the advice where no id is similar."""
    import gymnasium

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made: gymnasium.Env[Any, Any] = gymnasium.make(env_id, **make_kwargs)
    except gymnasium.error.UnregisteredEnv:
        hint = did_you_mean(env_id, gymnasium.registry) or otherwise
        raise UnknownId(f"{owner}: no environment is registered as {env_id!r}.{hint}") from None
    except Exception as error:  # whatever an environment raises, its own sentence says why
        raise InvalidInput(
            f"{owner}: {env_id!r} cannot be made ({type(error).__name__}: {str(error).rstrip('.')})."
        ) from error
    return made


def versioned_id(env_id: str, made: gymnasium.Env[Any, Any]) -> str:
    """Return the id with the version that was made: 'FrozenLake' is 'FrozenLake-v1'."""
    module, colon, _ = env_id.rpartition(":")
    return env_id if made.spec is None else f"{module}{colon}{made.spec.id}"


def _source(env_id: str, made: gymnasium.Env[Any, Any], params: dict[str, Any]) -> ObjectSpec | None:
    """Return what the process can be made from again, or None if keywords cannot be written down."""
    if not all(isinstance(value, (str, int, float, bool)) for value in params.values()):
        return None
    try:
        canonical_json(params)  # refuses NaN, infinity and integers beyond 2**53
    except InvalidInput:
        return None
    return ObjectSpec(f"gymnasium/{versioned_id(env_id, made)}", params)


def _convert(env: gymnasium.Env[Any, Any], gamma: float) -> TabularMDP:
    bare = getattr(env, "unwrapped", env)
    table = _read_table(bare)
    n_states, n_actions = len(table), len(table[0])
    ends = any(terminated for actions in table for row in actions for *_, terminated in row)
    outcomes = [
        [[(p, n_states if terminated else successor, r) for p, successor, r, terminated in row] for row in actions]
        for actions in table
    ]
    if ends:
        outcomes.append([[(1.0, n_states, 0.0)]] * n_actions)
    initial = getattr(bare, "initial_state_distrib", None)
    if initial is None:
        initial = np.full(n_states, 1.0 / n_states)
    labels = _labels(bare, n_states)
    if ends and labels.states is not None:
        labels = Labels((*labels.states, _END), labels.actions, labels.layout)
    return TabularMDP.from_outcomes(
        outcomes, gamma=gamma, initial=np.append(initial, 0.0) if ends else initial, labels=labels
    )


def _read_table(bare: Any) -> list[list[list[_Outcome]]]:
    """Return ``P`` as lists, without impossible outcomes."""
    from gymnasium.spaces import Discrete

    name, table = type(bare).__name__, getattr(bare, "P", None)
    sizes = []
    for kind in ("observation_space", "action_space"):
        space = getattr(bare, kind, None)
        if not (isinstance(space, Discrete) and space.start == 0):
            raise InvalidInput(
                f"{_OWNER}: {name} must have a discrete {kind} that starts at 0, got {shown(space)}. Discretise it, "
                "or describe the process to TabularMDP yourself."
            )
        sizes.append(int(space.n))
    if table is None:
        raise InvalidInput(
            f"{_OWNER}: {name} has no table of transitions 'P'. Sample it as a simulator, or describe the process to "
            "TabularMDP yourself."
        )
    if getattr(bare, "fickle_passenger", False):
        raise InvalidInput(
            f"{_OWNER}: a fickle passenger changes the destination outside {name}.P, so P is not the process. "
            "Set fickle_passenger=False."
        )
    n_states, n_actions = sizes
    return [[_read_row(name, table, s, a) for a in range(n_actions)] for s in range(n_states)]


def _read_row(name: str, table: Any, s: int, a: int) -> list[_Outcome]:
    try:
        row = [(as_float(p), operator.index(t), as_float(r), as_truth(end)) for p, t, r, end in table[s][a]]
    except (LookupError, TypeError, ValueError):
        raise InvalidInput(
            f"{_OWNER}: {name}.P[{s}][{a}] must be a list of (probability, next state, reward, terminated)."
        ) from None
    return [outcome for outcome in row if outcome[0] != 0.0]


def _labels(bare: Any, n_states: int) -> Labels:
    """Return names and a map for the environments that come with Gymnasium."""
    from gymnasium.envs.toy_text import CliffWalkingEnv, FrozenLakeEnv, TaxiEnv

    if isinstance(bare, FrozenLakeEnv):
        lines = ["".join(line) for line in np.asarray(bare.desc).astype(str).tolist()]
        return _grid_labels(lines, n_states, ("left", "down", "right", "up"))
    if isinstance(bare, CliffWalkingEnv):
        shore = ["." * 12] * 3 + ["S" + "C" * 10 + "G"]
        return _grid_labels(shore, n_states, ("up", "right", "down", "left"))
    if isinstance(bare, TaxiEnv):
        places = ("red", "green", "yellow", "blue")
        states = []
        for s in range(n_states):
            row, column, passenger, goal = bare.decode(s)
            where = "in taxi" if passenger == len(places) else f"at {places[passenger]}"
            states.append(f"taxi ({row},{column}), passenger {where}, to {places[goal]}")
        return Labels(tuple(states), ("south", "north", "east", "west", "pickup", "dropoff"))
    return Labels()


def _grid_labels(lines: list[str], n_states: int, actions: tuple[str, ...]) -> Labels:
    """Name the cells by row and column; a map of one's own with a '#' in it is not drawn, as '#' means no state."""
    width = len(lines[0])
    states = tuple(f"({s // width},{s % width})" for s in range(n_states))
    return Labels(states, actions, None if "#" in "".join(lines) else tuple(lines))
