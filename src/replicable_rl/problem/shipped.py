"""The problems that are shipped; what an id builds never changes.

    grids                 walk, slip, bump into walls, and stay at a goal for ever
    RiverSwim, chain      the small reward is near and the large one far: they punish who explores too little
    Garnets               random MDPs without structure, in every size
    inventory, machine,   operations research: a store that orders stock, a machine that wears out, a queue that admits
    admission

A grid is drawn as text. Its map is read line by line; the cells that are no wall are the states 0, 1, 2, ...

    #  wall       .  free       S  start       G  goal (or any character of goals)

With probability 1 - slip a step goes where it was aimed, with probability slip/2 to the left of that and with slip/2 to
the right; a step into a wall or over the border stays. A goal absorbs and pays its reward at every step; elsewhere the
reward is 0.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import MAX_JSON_INTEGER
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, check_real, shown, speaking_as
from replicable_rl.problem.source import check_gamma
from replicable_rl.problem.table import Bounds, Labels, Outcomes, Rows, TabularMDP
from replicable_rl.randomness import SharedRandomness

_WALL, _FREE, _START = "#.S"
_ACTIONS = ("up", "down", "left", "right")
_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # (row, column) of each action
_SIDEWAYS = ((2, 3), (3, 2), (1, 0), (0, 1))  # the actions to the left and to the right of each
_ONE_GOAL: Mapping[str, float] = MappingProxyType({"G": 1.0})

_TWO_GOALS = ("G.G", ".#.", ".S.")
_TWO_GOALS_WIDE = ("G.......G", ".##.#.##.", "....#....", ".##.#.##.", "....S....")


def gridworld(
    layout: str | Sequence[str], *, slip: float = 0.3, gamma: float = 0.9, goals: Mapping[str, float] = _ONE_GOAL
) -> TabularMDP:
    """Build a grid from a text map: a list of lines, or one string with the lines separated by ``/`` or line ends.

    ``goals`` says which characters are goals, and what each pays per step. It starts uniformly on the cells ``S``, or
    on all cells but the goals if there is no ``S``. The declared reward range spans 0 and the rewards of ``goals``.

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
    (slip,) = _probabilities("gridworld", slip=slip)
    gamma = check_gamma("gridworld", gamma)
    rewards = _check_goals(goals)
    lines = _read_lines(layout)
    cells = np.array([list(line) for line in lines])
    for row, column in np.argwhere(~np.isin(cells, [_WALL, _FREE, _START, *rewards])).tolist():
        raise InvalidInput(
            f"gridworld: {lines[row][column]!r} at row {row}, column {column} is not one of '{_WALL}', '{_FREE}', "
            f"'{_START}' and the goals {', '.join(map(repr, rewards))}."
        )
    inside = cells != _WALL
    letters = cells[inside]
    is_goal = np.isin(letters, list(rewards))
    starts = letters == _START if (letters == _START).any() else ~is_goal
    if not starts.any():
        raise InvalidInput("gridworld: the map needs a cell to start from. Add an 'S' or a '.'.")
    return TabularMDP(
        _rows(_targets(inside), is_goal, np.array([rewards.get(letter, 0.0) for letter in letters.tolist()]), slip),
        n_actions=len(_ACTIONS),
        gamma=gamma,
        initial=starts / np.count_nonzero(starts),
        reward_range=(min(0.0, *rewards.values()), max(0.0, *rewards.values())),
        labels=Labels(
            states=tuple(f"({row},{column})" for row, column in np.argwhere(inside).tolist()),
            actions=_ACTIONS,
            layout=lines,
        ),
    )


@speaking_as("two-goals-v1")
def two_goals(slip: float = 0.3, gamma: float = 0.9) -> TabularMDP:
    """Build the 3 x 3 grid with a wall in its centre and goals in the two upper corners.

    The start is the lower middle: both goals are equally good from there, so an algorithm
    that is not replicable picks one by the noise of its samples.

    >>> two_goals()
    TabularMDP(S=8, A=4, outcomes=68, gamma=0.9)
    """
    return gridworld(_TWO_GOALS, slip=slip, gamma=gamma)


@speaking_as("two-goals-wide-v1")
def two_goals_wide(slip: float = 0.3, gamma: float = 0.9) -> TabularMDP:
    """Build the 5 x 9 mirror-symmetric grid: more walls, longer ways, the same dilemma."""
    return gridworld(_TWO_GOALS_WIDE, slip=slip, gamma=gamma)


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


def _read_lines(layout: object) -> tuple[str, ...]:
    if isinstance(layout, str):
        layout = layout.strip().replace("/", "\n").splitlines()
    if not (isinstance(layout, Sequence) and layout and all(isinstance(line, str) for line in layout)):
        raise InvalidInput(f"gridworld: layout must be a string or a list of strings, got {shown(layout)}.")
    lines = tuple(line.strip() for line in layout)
    if len({len(line) for line in lines}) > 1:
        raise InvalidInput(f"gridworld: the lines of a map must have one length, got {shown(lines)}.")
    return lines


def _check_goals(goals: Any) -> dict[str, float]:
    letters = list(goals) if isinstance(goals, Mapping) else []
    if not letters or any(not isinstance(x, str) or len(x) != 1 or x in " /#.S" for x in letters):
        form = "characters, no space and none of '#', '.', 'S' and '/', to rewards, as in {'G': 1.0}"
        raise InvalidInput(f"gridworld: goals must map {form}, got {shown(goals)}.")
    return {x: check_real("gridworld", "goals", goals[x], low=-np.inf, high=np.inf, rule="finite") for x in letters}


# --- textbook problems ------------------------------------------------------------------------------------------

_MAX_LENGTH = 100_000  # of a river or a chain


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
    (small_reward,) = _probabilities(owner, small_reward=small_reward)
    last = n_states - 1
    drift = [[(1.0, max(s - 1, 0), small_reward if s == 0 else 0.0)] for s in range(n_states)]
    swim = [
        [(0.4, 0, 0.0), (0.6, 1, 0.0)],
        *([(0.05, s - 1, 0.0), (0.6, s, 0.0), (0.35, s + 1, 0.0)] for s in range(1, last)),
        [(0.4, last - 1, 1.0), (0.6, last, 1.0)],
    ]
    return _from_first_state(list(zip(drift, swim, strict=True)), gamma, ("left", "right"))


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
    slip, small_reward = _probabilities(owner, slip=slip, small_reward=small_reward)
    gamma = check_gamma(owner, gamma)
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
    n_states = check_integer(owner, "n_states", n_states, low=1, high=10**7)
    n_actions = check_integer(owner, "n_actions", n_actions, low=1, high=10**5)
    branching = check_integer(owner, "branching", branching, low=1, high=n_states)
    gamma = check_gamma(owner, gamma)
    shared = SharedRandomness(check_integer(owner, "seed", seed, low=0, high=MAX_JSON_INTEGER))
    n_rows = n_states * n_actions
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


def _from_first_state(
    outcomes: Outcomes, gamma: float, actions: tuple[str, str], reward_range: Bounds | None = (0.0, 1.0)
) -> TabularMDP:
    """Build a process that starts in its first state."""
    labels, initial = Labels(actions=actions), np.arange(len(outcomes)) == 0
    return TabularMDP.from_outcomes(outcomes, gamma=gamma, initial=initial, reward_range=reward_range, labels=labels)


# --- operations research ----------------------------------------------------------------------------------------

_MAX_CAPACITY = 200  # about capacity**3 outcomes: 6.8 million
_LARGEST = 1e6  # of a price or a cost: far beyond any use, far below what rounding would spoil


def inventory(
    capacity: int = 20,
    demand: float = 6.0,
    price: float = 2.0,
    unit_cost: float = 1.0,
    order_cost: float = 2.0,
    holding_cost: float = 0.1,
    gamma: float = 0.95,
) -> TabularMDP:
    """Build a store: order in the evening, sell the next day, lose what cannot be served.

    The state is the stock s, the action the quantity a that is ordered. Of an order only
    a' = min(a, capacity - s) fits, arrives and is paid. Then D ~ Poisson(demand) customers
    come; min(D, s + a') units are sold and left = s + a' - sold is the next state. The reward

        price * sold - unit_cost * a' - order_cost * [a' > 0] - holding_cost * left

    is random given the state and the action. The store opens empty.

    A fixed cost per order makes it worth waiting: order up to a level, but only when low.

    >>> from replicable_rl.planning import optimal_values
    >>> optimal_values(inventory(capacity=10, demand=3.0)).policy.tolist()
    [10, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    """
    owner = "inventory-v1"
    capacity = check_integer(owner, "capacity", capacity, low=1, high=_MAX_CAPACITY)
    demand = check_in_open_interval(owner, "demand", demand, 0.0, _LARGEST)
    price, unit_cost = _amounts(owner, price=price, unit_cost=unit_cost)
    order_cost, holding_cost = _amounts(owner, order_cost=order_cost, holding_cost=holding_cost)
    gamma = check_gamma(owner, gamma)
    levels = np.arange(capacity + 1)
    arrived = np.minimum(levels, capacity - levels[:, None])  # (S, A)
    offered = levels[:, None] + arrived
    sold = offered[:, :, None] - levels  # (S, A, S); negative where the next state is impossible
    paid = unit_cost * arrived + order_cost * (arrived > 0)
    return TabularMDP.from_dense(
        _left_over(capacity, demand)[offered],
        price * sold - holding_cost * levels - paid[:, :, None],
        gamma=gamma,
        layout="sas",
        initial=levels == 0,
    )


def machine_repair(
    n_states: int = 10, wear: float = 0.4, breakdown: float = 0.05, repair_cost: float = 1.0, gamma: float = 0.95
) -> TabularMDP:
    """Build a machine that earns less the more it is worn, until someone pays for its repair.

    The state is the wear w = 0 (new), ..., n_states - 1 (broken). Operating earns
    1 - w/(n_states - 1), so nothing when broken; then the machine breaks with probability
    ``breakdown``, wears by one step with probability ``wear``, and otherwise stays as it is.
    Repairing costs ``repair_cost`` and returns the machine to new. It starts new.

    The best policy repairs from some wear on (Derman 1963):

    >>> from replicable_rl.planning import optimal_values
    >>> optimal_values(machine_repair()).policy.tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    owner = "machine-repair-v1"
    n_states = check_integer(owner, "n_states", n_states, low=2, high=_MAX_LENGTH)
    wear, breakdown = _probabilities(owner, wear=wear, breakdown=breakdown)
    (repair_cost,) = _amounts(owner, repair_cost=repair_cost)
    gamma = check_gamma(owner, gamma)
    stay = 1.0 - (wear + breakdown)
    if stay < 0.0:
        raise InvalidInput(f"{owner}: wear + breakdown must be at most 1, got wear={wear:g}, breakdown={breakdown:g}.")
    broken = n_states - 1
    repair = [(1.0, 0, -repair_cost)]
    outcomes = []
    for w in range(n_states):
        earned = 1.0 - w / broken
        ends = ((stay, w), (wear, min(w + 1, broken)), (breakdown, broken))
        outcomes.append(([(chance, end, earned) for chance, end in ends], repair))
    return _from_first_state(outcomes, gamma, ("operate", "repair"), (-repair_cost, 1.0))


def admission(
    capacity: int = 49,
    arrival: float = 0.45,
    service: float = 0.5,
    reward: float = 4.0,
    waiting_cost: float = 0.1,
    gamma: float = 0.98,
) -> TabularMDP:
    """Build a queue that may turn customers away.

    The state is the number of customers n = 0, ..., capacity; the action is to reject or to admit who comes next. In
    a step somebody comes with probability ``arrival``, and independently the service of one who waited is finished
    with probability ``service``. A customer who is admitted pays ``reward``, which is known as its mean; everybody
    who waits costs ``waiting_cost``. A full queue admits nobody. It starts empty.

    The best policy admits up to some length (Naor 1969):

    >>> from replicable_rl.planning import optimal_values
    >>> policy = optimal_values(admission(capacity=20)).policy
    >>> int(policy.sum()), bool((policy[:-1] >= policy[1:]).all())
    (10, True)
    """
    owner = "admission-v1"
    capacity = check_integer(owner, "capacity", capacity, low=1, high=_MAX_LENGTH)
    arrival, service = _probabilities(owner, arrival=arrival, service=service)
    reward, waiting_cost = _amounts(owner, reward=reward, waiting_cost=waiting_cost)
    gamma = check_gamma(owner, gamma)
    outcomes = []
    for n in range(capacity + 1):
        done = service if n else 0.0
        rows = []
        for admits in (False, n < capacity):
            comes = arrival if admits else 0.0
            ends = ((1.0 - done) * comes, n + 1), (done * (1.0 - comes), n - 1)
            moving = [(chance, end) for chance, end in ends if chance > 0.0]
            stay = (1.0 - done) * (1.0 - comes) + done * comes
            earned = reward * comes - waiting_cost * n
            rows.append([(chance, end, earned) for chance, end in [*moving, (stay, n)] if chance > 0.0])
        outcomes.append(rows)
    return _from_first_state(outcomes, gamma, ("reject", "admit"), None)


def _left_over(capacity: int, demand: float) -> NDArray[np.float64]:
    """Return the table P[y, left] for y units offered to a Poisson demand.

    left = y - D for D < y, and all that is beyond is "everything is sold". Decimal
    arithmetic is correctly rounded everywhere, unlike a C library's exp: the table has the
    same bits on every machine, and its tails have no cancellation.
    """
    table = np.zeros((capacity + 1, capacity + 1))
    with decimal.localcontext(decimal.Context(prec=40)):
        mean = decimal.Decimal(demand)
        chance, beyond = (-mean).exp(), decimal.Decimal(1)
        chances: list[float] = []
        for y in range(capacity + 1):
            table[y, 0] = float(max(beyond, decimal.Decimal(0)))
            table[y, 1 : y + 1] = chances[::-1]
            chances.append(float(chance))
            beyond -= chance
            chance *= mean / (y + 1)
    return table


def _probabilities(owner: str, **values: object) -> list[float]:
    return [check_real(owner, name, x, low=0.0, high=1.0, rule="a number in [0, 1]") for name, x in values.items()]


def _amounts(owner: str, **values: object) -> list[float]:
    """Return prices, costs or other amounts: 0 or more."""
    rule = f"a number from 0 to {_LARGEST:.0f}"
    return [check_real(owner, name, x, low=0.0, high=_LARGEST, rule=rule) for name, x in values.items()]
