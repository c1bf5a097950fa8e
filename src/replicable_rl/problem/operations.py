"""Problems of operations research: a store that orders stock, a machine that wears out, a queue that admits."""

import decimal

import numpy as np
from numpy.typing import NDArray

from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer
from replicable_rl.problem._shipped_checks import check_amount, check_probability
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.source import check_gamma
from replicable_rl.problem.table import TabularMDP

_MAX_CAPACITY = 200  # about capacity**3 outcomes: 6.8 million
_MAX_WEAR_LEVELS = 100_000
_MAX_DEMAND = 1e6


def inventory(
    capacity: int = 20,
    demand: float = 6.0,
    price: float = 2.0,
    unit_cost: float = 1.0,
    order_cost: float = 2.0,
    holding_cost: float = 0.1,
    gamma: float = 0.95,
    lot: int = 1,
) -> TabularMDP:
    """Build a store: order in the evening, sell the next day, lose what cannot be served.

    The state is the stock s, the action the quantity a that is ordered. Of an order only
    a' = min(a, capacity - s) fits, arrives and is paid. Then D ~ Poisson(demand) customers
    come; min(D, s + a') units are sold and left = s + a' - sold is the next state. The reward

        price * sold - unit_cost * a' - order_cost * [a' > 0] - holding_cost * left

    is random given the state and the action. The store opens empty. With a ``lot`` of several units action a orders
    a lots.

    Examples
    --------
    A fixed cost per order makes it worth waiting: order up to a level, but only when low.

    >>> from replicable_rl.planning import optimal_values
    >>> optimal_values(inventory(capacity=10, demand=3.0)).policy.tolist()
    [10, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    """
    owner = "inventory-v1"
    capacity = check_integer(owner, "capacity", capacity, low=1, high=_MAX_CAPACITY)
    demand = check_in_open_interval(owner, "demand", demand, 0.0, _MAX_DEMAND)
    price = check_amount(owner, "price", price)
    unit_cost = check_amount(owner, "unit_cost", unit_cost)
    order_cost = check_amount(owner, "order_cost", order_cost)
    holding_cost = check_amount(owner, "holding_cost", holding_cost)
    gamma = check_gamma(owner, gamma)
    lot = check_integer(owner, "lot", lot, low=1, high=capacity)

    levels = np.arange(capacity + 1)
    orders = levels[: -(-capacity // lot) + 1] * lot
    arrived = np.minimum(orders, capacity - levels[:, None])  # (S, A)
    offered = levels[:, None] + arrived
    sold = offered[:, :, None] - levels  # (S, A, S); negative where the next state is impossible
    paid = unit_cost * arrived + order_cost * (arrived > 0)
    return TabularMDP.from_dense(
        _left_over(capacity, demand)[offered],
        price * sold - holding_cost * levels - paid[:, :, None],
        gamma=gamma,
        layout="sas",
        initial=levels == 0,
        labels=Labels(
            states=tuple(f"stock {n}" for n in levels.tolist()), actions=tuple(f"order {n}" for n in orders.tolist())
        ),
    )


def machine_repair(
    n_states: int = 10, wear: float = 0.4, breakdown: float = 0.05, repair_cost: float = 1.0, gamma: float = 0.95
) -> TabularMDP:
    """Build a machine that earns less the more it is worn, until someone pays for its repair.

    The state is the wear w = 0 (new), ..., n_states - 1 (broken). Operating earns
    1 - w/(n_states - 1), so nothing when broken; then the machine breaks with probability
    ``breakdown``, wears by one step with probability ``wear``, and otherwise stays as it is.
    Repairing costs ``repair_cost`` and returns the machine to new. It starts new.

    Examples
    --------
    The best policy repairs from some wear on (Derman 1963):

    >>> from replicable_rl.planning import optimal_values
    >>> optimal_values(machine_repair()).policy.tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    owner = "machine-repair-v1"
    n_states = check_integer(owner, "n_states", n_states, low=2, high=_MAX_WEAR_LEVELS)
    wear = check_probability(owner, "wear", wear)
    breakdown = check_probability(owner, "breakdown", breakdown)
    repair_cost = check_amount(owner, "repair_cost", repair_cost)
    gamma = check_gamma(owner, gamma)
    stay = 1.0 - (wear + breakdown)
    if stay < 0.0:
        raise InvalidInput(
            f"{owner}: wear + breakdown must be at most 1, got wear={wear:g}, breakdown={breakdown:g}. "
            "Lower one of them."
        )
    broken = n_states - 1
    repair = [(1.0, 0, -repair_cost)]
    outcomes = []
    for w in range(n_states):
        earned = 1.0 - w / broken
        ends = ((stay, w), (wear, min(w + 1, broken)), (breakdown, broken))
        outcomes.append(([(chance, end, earned) for chance, end in ends], repair))
    return TabularMDP.from_outcomes(
        outcomes,
        gamma=gamma,
        initial=np.arange(n_states) == 0,
        reward_range=(-repair_cost, 1.0),
        labels=Labels(
            states=("new", *(f"wear {w}" for w in range(1, broken)), "broken"), actions=("operate", "repair")
        ),
    )


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

    Examples
    --------
    The best policy admits up to some length (Naor 1969):

    >>> from replicable_rl.planning import optimal_values
    >>> policy = optimal_values(admission(capacity=20)).policy
    >>> int(policy.sum()), bool((policy[:-1] >= policy[1:]).all())
    (10, True)
    """
    owner = "admission-v1"
    capacity = check_integer(owner, "capacity", capacity, low=1, high=_MAX_WEAR_LEVELS)
    arrival = check_probability(owner, "arrival", arrival)
    service = check_probability(owner, "service", service)
    reward = check_amount(owner, "reward", reward)
    waiting_cost = check_amount(owner, "waiting_cost", waiting_cost)
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
    return TabularMDP.from_outcomes(
        outcomes,
        gamma=gamma,
        initial=np.arange(capacity + 1) == 0,
        labels=Labels(states=tuple(f"{n} waiting" for n in range(capacity + 1)), actions=("reject", "admit")),
    )


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
