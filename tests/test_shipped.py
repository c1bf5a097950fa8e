"""The shipped problems against facts worked out without them: by hand, by brute force, by symmetry."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.planning import optimal_values
from replicable_rl.problem.shipped import (
    chain,
    garnet,
    gridworld,
    inventory,
    machine_repair,
    riverswim,
    two_goals,
    two_goals_wide,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from replicable_rl.problem.table import TabularMDP

UP, DOWN, LEFT, RIGHT = range(4)


def row_of(mdp: TabularMDP, state: int, action: int) -> dict[tuple[int, float], float]:
    """The outcomes of a pair: (next state, reward) -> probability."""
    part = mdp.rows.of_row(state * mdp.n_actions + action)
    outcomes = zip(mdp.rows.next_state[part].tolist(), mdp.rows.reward[part].tolist(), strict=True)
    return dict(zip(outcomes, mdp.rows.probability[part].tolist(), strict=True))


def successors(mdp: TabularMDP, state: int, action: int) -> dict[int, float]:
    return {successor: p for (successor, _), p in row_of(mdp, state, action).items()}


# --- grids -----------------------------------------------------------------------------------


def test_two_goals_is_the_grid_of_the_paper() -> None:
    #  0 1 2      G . G
    #  3 # 4      . # .
    #  5 6 7      . S .
    mdp = two_goals()
    assert (mdp.n_states, mdp.n_actions, mdp.gamma) == (8, 4, 0.9)
    assert mdp.n_states * mdp.n_actions == 32
    assert mdp.initial.tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert mdp.reward_range == (0.0, 1.0)
    assert mdp.labels.actions == ("up", "down", "left", "right")
    assert mdp.labels.states == ("(0,0)", "(0,1)", "(0,2)", "(1,0)", "(1,2)", "(2,0)", "(2,1)", "(2,2)")
    assert mdp.labels.layout == ("G.G", ".#.", ".S.")
    rewards = mdp.known_rewards
    assert rewards is not None
    assert rewards[[0, 2]].tolist() == [[1.0] * 4] * 2
    assert not np.delete(rewards, [0, 2], axis=0).any()


@pytest.mark.parametrize(
    ("state", "action", "expected"),
    [
        (0, DOWN, {0: 1.0}),  # a goal absorbs
        (2, LEFT, {2: 1.0}),
        (6, UP, {6: 0.7, 5: 0.15, 7: 0.15}),  # into the wall, slipping left or right
        (6, DOWN, {6: 0.7, 5: 0.15, 7: 0.15}),  # over the border
        (6, LEFT, {5: 0.7, 6: 0.3}),  # slipping up (wall) or down (border) stays
        (6, RIGHT, {7: 0.7, 6: 0.3}),
        (5, UP, {3: 0.7, 5: 0.15, 6: 0.15}),
        (5, LEFT, {5: 0.85, 3: 0.15}),
        (3, UP, {0: 0.7, 3: 0.3}),
        (4, RIGHT, {4: 0.7, 2: 0.15, 7: 0.15}),
        (1, DOWN, {1: 0.7, 0: 0.15, 2: 0.15}),
    ],
)
def test_slip_law_of_two_goals(state: int, action: int, expected: dict[int, float]) -> None:
    assert successors(two_goals(), state, action) == pytest.approx(expected, abs=1e-15)


def mirrored(mdp: TabularMDP) -> NDArray[np.int64]:
    """The state that each state becomes when the map is turned left to right."""
    assert mdp.labels.states is not None
    assert mdp.labels.layout is not None
    width = len(mdp.labels.layout[0])
    cells = [tuple(map(int, name.strip("()").split(","))) for name in mdp.labels.states]
    index = {cell: s for s, cell in enumerate(cells)}
    return np.array([index[row, width - 1 - column] for row, column in cells])


@pytest.mark.parametrize("make", [two_goals, two_goals_wide])
def test_the_two_goals_are_tied(make: Callable[[], TabularMDP]) -> None:
    mdp = make()
    best = optimal_values(mdp)
    mirror = mirrored(mdp)
    start = int(np.argmax(mdp.initial))
    assert mdp.initial[start] == 1.0
    assert mirror[start] == start
    np.testing.assert_allclose(best.q[mirror][:, [UP, DOWN, RIGHT, LEFT]], best.q, atol=2 * best.error)
    assert best.q[start, LEFT] == pytest.approx(best.q[start, RIGHT], abs=2 * best.error)
    # ... and going sideways is strictly best there, so the first decision is the tie.
    assert best.q[start, LEFT] > max(best.q[start, UP], best.q[start, DOWN]) + 1e-3


def test_without_slip_values_are_powers_of_gamma() -> None:
    mdp = gridworld(["S#G", "...", "#.#"], slip=0.0, gamma=0.5)
    # S down right right up: 4 steps, then 1 + 1/2 + ... = 2 at the goal.
    assert optimal_values(mdp).value.tolist() == pytest.approx([2 / 16, 2, 2 / 8, 2 / 4, 2 / 2, 2 / 8])


# --- classics --------------------------------------------------------------------------------


def test_riverswim_rows() -> None:
    mdp = riverswim()
    assert (mdp.n_states, mdp.n_actions, mdp.gamma, mdp.labels.actions) == (6, 2, 0.95, ("left", "right"))
    assert mdp.initial.tolist() == [1, 0, 0, 0, 0, 0]
    assert row_of(mdp, 0, 0) == {(0, 0.005): 1.0}
    assert row_of(mdp, 3, 0) == {(2, 0.0): 1.0}
    assert row_of(mdp, 0, 1) == {(0, 0.0): 0.4, (1, 0.0): 0.6}
    for s in range(1, 5):
        assert row_of(mdp, s, 1) == {(s - 1, 0.0): 0.05, (s, 0.0): 0.6, (s + 1, 0.0): 0.35}
    assert row_of(mdp, 5, 1) == {(4, 1.0): 0.4, (5, 1.0): 0.6}
    assert riverswim(n_states=2).n_states == 2


def test_chain_swaps_effect_and_reward_when_it_slips() -> None:
    mdp = chain()
    assert (mdp.n_states, mdp.gamma, mdp.labels.actions) == (5, 0.95, ("forward", "back"))
    assert row_of(mdp, 0, 0) == pytest.approx({(1, 0.0): 0.8, (0, 0.2): 0.2})
    assert row_of(mdp, 2, 1) == pytest.approx({(3, 0.0): 0.2, (0, 0.2): 0.8})
    assert row_of(mdp, 4, 0) == pytest.approx({(4, 1.0): 0.8, (0, 0.2): 0.2})
    assert row_of(mdp, 4, 1) == pytest.approx({(4, 1.0): 0.2, (0, 0.2): 0.8})
    assert mdp.known_rewards is None
    assert chain(slip=0.0).rows.probability.tolist() == [1.0] * 10
    assert optimal_values(mdp).policy.tolist() == [0] * 5  # Strens 2000: always forward


def test_garnet_is_frozen_for_ever() -> None:
    assert garnet().digest == "148b4fc5dd0d644cb537068783005a4211d444d2b9606b54126fef53a71579fa"
    assert len({garnet(seed=seed).digest for seed in range(20)}) == 20


# --- operations ------------------------------------------------------------------------------


def brute_force_store(
    capacity: int, demand: float, price: float, unit: float, order: float, holding: float, s: int, a: int
) -> dict[int, tuple[float, float]]:
    """Next stock -> (probability, reward), by walking through the demands 0, 1, 2, ... one by one."""
    arrived = a if s + a <= capacity else capacity - s
    result: dict[int, tuple[float, float]] = {}
    weights: defaultdict[int, list[float]] = defaultdict(list)
    for customers in range(150):
        weight = math.exp(-demand) * demand**customers / math.factorial(customers)
        stock = s + arrived
        sold = 0
        for _ in range(customers):
            if stock > 0:
                stock, sold = stock - 1, sold + 1
        weights[stock].append(weight)
        cost = unit * arrived + (order if arrived > 0 else 0.0) + holding * stock
        result[stock] = (math.fsum(weights[stock]), price * sold - cost)
    return result


@pytest.mark.parametrize("parameters", [(4, 1.5, 2.0, 1.0, 2.0, 0.1), (7, 6.0, 3.5, 0.25, 0.0, 0.7)])
def test_inventory_against_every_demand(parameters: tuple[int, float, float, float, float, float]) -> None:
    mdp = inventory(*parameters)
    capacity = parameters[0]
    assert mdp.n_states == mdp.n_actions == capacity + 1
    for s, a in itertools.product(range(capacity + 1), repeat=2):
        expected = brute_force_store(*parameters, s, a)
        row = row_of(mdp, s, a)
        assert {t: p for (t, _), p in row.items()} == pytest.approx({t: p for t, (p, _) in expected.items()}, rel=1e-12)
        assert dict(row.keys()) == pytest.approx({t: r for t, (_, r) in expected.items()}, rel=1e-12)


def test_machine_repair_rows() -> None:
    mdp = machine_repair(n_states=4, wear=0.3, breakdown=0.1, repair_cost=2.0)
    assert mdp.labels.actions == ("operate", "repair")
    assert row_of(mdp, 0, 0) == pytest.approx({(0, 1.0): 0.6, (1, 1.0): 0.3, (3, 1.0): 0.1})
    third = mdp.rows.reward[mdp.rows.of_row(4)][0]
    assert third == pytest.approx(1 / 3)
    assert successors(mdp, 2, 0) == pytest.approx({2: 0.6, 3: 0.4})
    assert row_of(mdp, 3, 0) == {(3, 0.0): 1.0}
    assert all(row_of(mdp, s, 1) == {(0, -2.0): 1.0} for s in range(4))
    assert mdp.reward_range == (-2.0, 1.0)
    assert successors(machine_repair(wear=0.7, breakdown=0.3), 0, 0) == pytest.approx({1: 0.7, 9: 0.3})


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: gridworld("S.G/.x."), "'x' at row 1, column 1"),
        (lambda: gridworld(["S.G", ".."]), "one length"),
        (lambda: gridworld("##/##"), "start"),
        (lambda: gridworld(3), "layout"),  # type: ignore[arg-type]
        (lambda: gridworld("S.G", slip=1.5), "gridworld: slip"),
        (lambda: gridworld("S.G", goals={}), "goals"),
        (lambda: gridworld("S.G", goals={"S": 1.0}), "'S'"),
        (lambda: gridworld("S.G", goals={"GG": 1.0}), "'GG'"),
        (lambda: gridworld("S.G", goals={"G": math.nan}), "nan"),
        (lambda: two_goals_wide(gamma=2), "two-goals-wide-v1: gamma"),
        (lambda: riverswim(n_states=1), "riverswim-v1: n_states"),
        (lambda: chain(n_states=2.5), "chain-v1: n_states"),  # type: ignore[arg-type]
        (lambda: garnet(branching=21), "garnet-v1: branching"),
        (lambda: inventory(capacity=6000), "inventory-v1: capacity"),
        (lambda: inventory(demand=0.0), "inventory-v1: demand"),
        (lambda: machine_repair(wear=0.8, breakdown=0.3), "wear=0.8"),
        (lambda: machine_repair(repair_cost=math.inf), "machine-repair-v1: repair_cost"),
    ],
)
def test_bad_input(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        build()


BUILT = {
    "two-goals-v1": "c64d547cb6a891c1",
    "two-goals-wide-v1": "20c582e46387fa5a",
    "riverswim-v1": "a1f97afaa244a885",
    "chain-v1": "8c8446fc9bbbca00",
    "garnet-v1": "148b4fc5dd0d644c",
    "inventory-v1": "d40af78101707eea",
    "machine-repair-v1": "d9b8c304216b569e",
    "admission-v1": "15972e2b628a758a",
}


@pytest.mark.parametrize("id", BUILT)
def test_what_an_id_builds_never_changes(id: str) -> None:
    assert rr.make(id).digest[:16] == BUILT[id]
