"""Grids drawn as text: walk, slip, bump into walls, and stay at a goal for ever.

A map is read line by line; its cells that are no wall are the states 0, 1, 2, ...

    #  wall       .  free       S  start       G  goal (or any character of goals)

With probability 1 - slip a step goes where it was aimed, with probability slip/2 to the
left of that and with slip/2 to the right; a step into a wall or over the border stays. A
goal absorbs and pays its reward at every step; elsewhere the reward is 0.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_real, shown
from replicable_rl.problem._shipped_checks import check_probability
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.rows import Rows
from replicable_rl.problem.source import check_gamma
from replicable_rl.problem.table import TabularMDP

_WALL, _FREE, _START = "#.S"
_ACTIONS = ("up", "down", "left", "right")
_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # (row, column) of each action
_SIDEWAYS = ((2, 3), (3, 2), (1, 0), (0, 1))  # the actions to the left and to the right of each
_MAX_CELLS = 4_000_000
_ONE_GOAL: Mapping[str, float] = MappingProxyType({"G": 1.0})

_TWO_GOALS = ("G.G", ".#.", ".S.")
_TWO_GOALS_WIDE = ("G.......G", ".##.#.##.", "....#....", ".##.#.##.", "....S....")


def gridworld(
    layout: str | Sequence[str], *, slip: float = 0.3, gamma: float = 0.9, goals: Mapping[str, float] = _ONE_GOAL
) -> TabularMDP:
    """Build a grid from a text map.

    Parameters
    ----------
    layout : str or list of str
        The map: a list of lines, one string of several lines, or one with the lines
        separated by ``/``.
    slip : float
        Probability that a step goes sideways.
    gamma : float
        Discount in [0, 1).
    goals : mapping of character to reward
        Which characters are goals, and what each pays per step.

    Returns
    -------
    TabularMDP
        Starts uniformly on the cells ``S``, or on all cells but the goals if there is no
        ``S``. The declared reward range spans 0 and the rewards of ``goals``.

    Examples
    --------
    >>> from replicable_rl.planning import optimal_values
    >>> corridor = gridworld("S..G", slip=0.0, gamma=0.5)
    >>> optimal_values(corridor).value.round(6).tolist()
    [0.25, 0.5, 1.0, 2.0]
    >>> [corridor.labels.actions[a] for a in optimal_values(corridor).policy[:3]]
    ['right', 'right', 'right']
    >>> gridworld("S.?G")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: gridworld: '?' at row 0, column 2 is not one of '#', '.', 'S' and the goals 'G'.
    """
    slip = check_probability("gridworld", "slip", slip)
    gamma = check_gamma("gridworld", gamma)
    rewards = _check_goals(goals)
    lines = _read_lines(layout)
    cells = _read_cells(lines, rewards)
    inside = cells != _WALL
    letters = cells[inside]
    is_goal = np.isin(letters, list(rewards))
    return TabularMDP(
        _rows(_targets(inside), is_goal, np.array([rewards.get(letter, 0.0) for letter in letters.tolist()]), slip),
        n_actions=len(_ACTIONS),
        gamma=gamma,
        initial=_initial(letters == _START, is_goal),
        reward_range=(min(0.0, *rewards.values()), max(0.0, *rewards.values())),
        labels=Labels(
            states=tuple(f"({row},{column})" for row, column in np.argwhere(inside).tolist()),
            actions=_ACTIONS,
            layout=lines,
        ),
    )


def two_goals(slip: float = 0.3, gamma: float = 0.9) -> TabularMDP:
    """Build the 3 x 3 grid with a wall in its centre and goals in the two upper corners.

    The start is the lower middle: both goals are equally good from there, so an algorithm
    that is not replicable picks one by the noise of its samples.

    >>> two_goals()
    TabularMDP(S=8, A=4, outcomes=68, gamma=0.9)
    """
    owner = "two-goals-v1"
    return gridworld(_TWO_GOALS, slip=check_probability(owner, "slip", slip), gamma=check_gamma(owner, gamma))


def two_goals_wide(slip: float = 0.3, gamma: float = 0.9) -> TabularMDP:
    r"""Build the 5 x 9 mirror-symmetric grid: more walls, longer ways, the same dilemma.

    >>> print(*two_goals_wide().labels.layout, sep="\n")
    G.......G
    .##.#.##.
    ....#....
    .##.#.##.
    ....S....
    """
    owner = "two-goals-wide-v1"
    return gridworld(_TWO_GOALS_WIDE, slip=check_probability(owner, "slip", slip), gamma=check_gamma(owner, gamma))


def _targets(inside: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the (S, 4) table: where each aimed step ends when nothing slips."""
    own = np.arange(np.count_nonzero(inside), dtype=np.int32)
    index = np.full((inside.shape[0] + 2, inside.shape[1] + 2), -1, dtype=np.int32)  # a border of -1 all around
    index[1:-1, 1:-1][inside] = own
    ahead = [np.roll(index, (-down, -right), axis=(0, 1))[1:-1, 1:-1][inside] for down, right in _MOVES]
    return np.stack([np.where(target < 0, own, target) for target in ahead], axis=1)


def _rows(targets: NDArray[np.int32], is_goal: NDArray[np.bool_], rewards: NDArray[np.float64], slip: float) -> Rows:
    """Three outcomes per row: straight on, left of it, right of it; a goal only stays."""
    n_actions = targets.shape[1]
    directions = [(action, *_SIDEWAYS[action]) for action in range(n_actions)]
    next_state = targets[:, directions]  # (S, A, 3)
    probability = np.empty(next_state.shape)
    probability[...] = (1.0 - slip, slip / 2.0, slip / 2.0)
    next_state[is_goal] = np.flatnonzero(is_goal)[:, None, None]
    probability[is_goal] = (1.0, 0.0, 0.0)
    indptr = np.arange(0, next_state.size + 1, 3, dtype=np.int64)
    return Rows(indptr, next_state.reshape(-1), probability.reshape(-1), np.repeat(rewards, 3 * n_actions))


def _initial(is_start: NDArray[np.bool_], is_goal: NDArray[np.bool_]) -> NDArray[np.float64]:
    chosen = is_start if is_start.any() else ~is_goal
    if not chosen.any():
        raise InvalidInput("gridworld: the map needs a cell to start from. Add an 'S' or a '.'.")
    return chosen / np.count_nonzero(chosen)


def _read_lines(layout: object) -> tuple[str, ...]:
    if isinstance(layout, str):
        text = layout.strip()
        layout = text.split("/") if "\n" not in text else text.splitlines()
    elif not (isinstance(layout, Sequence) and all(isinstance(line, str) for line in layout)):
        raise InvalidInput(f"gridworld: layout must be a string or a list of strings, got {shown(layout)}.")
    lines = tuple(line.strip() for line in layout)
    if not any(lines):
        raise InvalidInput("gridworld: the map is empty. Draw at least one cell, for example 'S.G'.")
    for row, line in enumerate(lines):
        if len(line) != len(lines[0]):
            raise InvalidInput(
                f"gridworld: the lines of a map must have one length, line {row} has {len(line)} characters and "
                f"line 0 has {len(lines[0])}. Fill up with '{_WALL}'."
            )
    if len(lines) * len(lines[0]) > _MAX_CELLS:
        raise InvalidInput(
            f"gridworld: a map must have at most {_MAX_CELLS} cells, got {len(lines)} x {len(lines[0])}. "
            "Draw a smaller one."
        )
    return lines


def _read_cells(lines: tuple[str, ...], goals: Mapping[str, float]) -> NDArray[np.str_]:
    cells = np.array([list(line) for line in lines])
    unknown = np.argwhere(~np.isin(cells, [_WALL, _FREE, _START, *goals]))
    if unknown.size:
        row, column = unknown[0].tolist()
        raise InvalidInput(
            f"gridworld: {lines[row][column]!r} at row {row}, column {column} is not one of '{_WALL}', '{_FREE}', "
            f"'{_START}' and the goals {', '.join(map(repr, goals))}."
        )
    return cells


def _check_goals(goals: object) -> dict[str, float]:
    if not (isinstance(goals, Mapping) and goals):
        raise InvalidInput(f"gridworld: goals must map characters to rewards, as in {{'G': 1.0}}, got {shown(goals)}.")
    for letter in goals:
        if (
            not (isinstance(letter, str) and len(letter) == 1)
            or letter in f"{_WALL}{_FREE}{_START}/"
            or letter.isspace()
        ):
            raise InvalidInput(
                f"gridworld: a goal must be one character, no space and none of '{_WALL}', '{_FREE}', '{_START}' "
                f"and '/', got {shown(letter)}."
            )
    rule = "a finite number"
    return {
        letter: check_real("gridworld", f"goals[{letter!r}]", reward, low=-np.inf, high=np.inf, rule=rule)
        for letter, reward in goals.items()
    }
