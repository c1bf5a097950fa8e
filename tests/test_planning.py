"""Planning against direct solves, and its certificate against exact rational arithmetic."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.planning import Optimum, _sweeps, evaluate_policy, optimal_values
from replicable_rl.problem.shipped import gridworld
from replicable_rl.problem.source import greedy
from replicable_rl.problem.table import TabularMDP

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# --- exact planning by enumeration -----------------------------------------------------------

Vector = list[Fraction]
Pair = tuple[list[tuple[int, Fraction]], Fraction]  # successors with their probabilities, and the expected reward
Weights = Sequence[Sequence[float]]


def exact_pairs(mdp: TabularMDP, *, normalise: bool) -> list[list[Pair]]:
    """The process in rational numbers.

    64-bit probabilities do not sum to 1 exactly. A row is a distribution: it stands for the stored numbers divided by
    their sum, and that is what samplers draw from. The certificate also covers the stored numbers as they are, for
    rewards above the bottom of their range; what the `bottom` is worth, nobody reads off rows that do not sum to 1.
    """
    low = Fraction() if normalise else Fraction(mdp.reward_range[0])
    pairs: list[list[Pair]] = []
    for s in range(mdp.n_states):
        pairs.append([])
        for a in range(mdp.n_actions):
            part = mdp.rows.of_row(s * mdp.n_actions + a)
            p = [Fraction(float(x)) for x in mdp.rows.probability[part]]
            total = sum(p, Fraction()) if normalise else Fraction(1)
            p = [x / total for x in p]
            successors = [int(n) for n in mdp.rows.next_state[part]]
            rewards = [Fraction(float(r)) - low for r in mdp.rows.reward[part]]
            expected = sum((x * r for x, r in zip(p, rewards, strict=True)), Fraction())
            pairs[s].append((list(zip(successors, p, strict=True)), expected))
    return pairs


def bottom(mdp: TabularMDP, *, normalise: bool) -> Fraction:
    """What `exact_pairs` leaves out: the bottom of the range, for ever."""
    return Fraction() if normalise else Fraction(mdp.reward_range[0]) / (1 - Fraction(mdp.gamma))


def solve(matrix: list[Vector], right: Vector) -> Vector:
    """Gauss elimination in rational numbers."""
    n = len(right)
    rows = [[*matrix[i], right[i]] for i in range(n)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[n] for row in rows]


def exact_value(mdp: TabularMDP, pairs: list[list[Pair]], weights: Sequence[Vector]) -> Vector:
    """The value of the policy that takes action a in state s with probability weights[s][a]."""
    n, gamma = mdp.n_states, Fraction(mdp.gamma)
    matrix = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    right = [Fraction() for _ in range(n)]
    for s in range(n):
        for a, weight in enumerate(weights[s]):
            successors, reward = pairs[s][a]
            right[s] += weight * reward
            for successor, p in successors:
                matrix[s][successor] -= gamma * weight * p
    return solve(matrix, right)


def one_hot(policy: Sequence[int], n_actions: int) -> list[Vector]:
    return [[Fraction(int(a == chosen)) for a in range(n_actions)] for chosen in policy]


def exact_q(mdp: TabularMDP, *, normalise: bool) -> list[Vector]:
    """Q*: the best of all deterministic policies, state by state, backed up once."""
    pairs = exact_pairs(mdp, normalise=normalise)
    policies = itertools.product(range(mdp.n_actions), repeat=mdp.n_states)
    values = [exact_value(mdp, pairs, one_hot(policy, mdp.n_actions)) for policy in policies]
    best = [max(column) for column in zip(*values, strict=True)]
    gamma = Fraction(mdp.gamma)
    return [
        [reward + gamma * sum((p * best[n] for n, p in successors), Fraction()) for successors, reward in row]
        for row in pairs
    ]


def true_error(mdp: TabularMDP, q: NDArray[np.float64]) -> Fraction:
    """The largest difference to Q*, under the worse of the two readings."""
    return max(
        abs(Fraction(float(mine)) - theirs - bottom(mdp, normalise=normalise))
        for normalise in (False, True)
        for row, exact in zip(q, exact_q(mdp, normalise=normalise), strict=True)
        for mine, theirs in zip(row, exact, strict=True)
    )


def is_certified(mdp: TabularMDP, best: Optimum) -> bool:
    return true_error(mdp, best.q) <= Fraction(best.error)


def asked_tolerance(mdp: TabularMDP, tolerance: float | None) -> float:
    low, high = mdp.reward_range
    return 1e-10 * ((high - low) or abs(high)) / (1.0 - mdp.gamma) if tolerance is None else tolerance


def rounding_scale(mdp: TabularMDP) -> float:
    """An error that 64-bit arithmetic can always certify for rows of at most ten outcomes."""
    return 1e-13 * max(map(abs, mdp.reward_range)) / (1.0 - mdp.gamma) ** 2 + 1e-300  # where numbers underflow


# --- processes -------------------------------------------------------------------------------

gammas = st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.999]) | st.floats(0.0, 0.999)
scales = st.sampled_from([1e-6, 1.0, 1e6])


@st.composite
def processes(draw: st.DrawFn) -> TabularMDP:
    n_states, n_actions = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    scale, gamma, constant = draw(scales), draw(gammas), draw(st.booleans())
    reward = st.just(1.0) if constant else st.floats(-1.0, 1.0, allow_subnormal=False) | st.integers(-1, 1).map(float)

    def row() -> list[tuple[float, int, float]]:
        weights = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
        return [
            (w / sum(weights), draw(st.integers(0, n_states - 1)), scale * draw(reward))
            for w in weights
        ]  # fmt: skip

    outcomes = [[row() for _ in range(n_actions)] for _ in range(n_states)]
    declared = draw(st.sampled_from([None, (-scale, scale), (-3.0 * scale, 10.0 * scale)]))
    return TabularMDP.from_outcomes(outcomes, gamma=gamma, reward_range=declared)


def two_loops(gamma: float, first: float = 0.0, second: float = 1.0) -> TabularMDP:
    """Two absorbing states: the ends of MacQueen's interval are attained."""
    return TabularMDP.from_outcomes([[[(1.0, 0, first)]], [[(1.0, 1, second)]]], gamma=gamma)


def cycle(gamma: float, reward: float = 1.0) -> TabularMDP:
    """Two states that follow each other: the slowest there is for value iteration."""
    return TabularMDP.from_outcomes([[[(1.0, 1, 0.0)]], [[(1.0, 0, reward)]]], gamma=gamma)


def tenths(gamma: float, reward: float, low: float | None = None) -> TabularMDP:
    """Ten outcomes of probability 0.1, which sum to 1 + 2**-54, and one reward everywhere.

    The outcomes of a row differ in the last bits of their rewards, or they would be merged.
    """
    rewards = reward * (1.0 + np.arange(10) * 2.0**-52)
    outcomes = [[[(0.1, s, float(r)) for r in rewards]] for s in range(2)]
    return TabularMDP.from_outcomes(
        outcomes, gamma=gamma, reward_range=None if low is None else (low, float(rewards.max()))
    )


# --- optimal values --------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(processes(), st.sampled_from([None, 1e-3, 10.0]))
@example(two_loops(0.999), None)
@example(two_loops(0.999, -1e6, 1e6), 1.0)
@example(two_loops(0.0), None)
@example(cycle(0.999), None)
@example(cycle(0.999, 1e6), 1e-3)
@example(tenths(0.999, 1.0), None)
@example(tenths(0.999, 1.0, low=0.0), None)
@example(tenths(0.999, 1e6, low=0.0), None)
@example(tenths(0.0, 1e6), None)
def test_the_certified_error_bounds_the_true_error(mdp: TabularMDP, tolerance: float | None) -> None:
    best = optimal_values(mdp, tolerance=tolerance)
    assert is_certified(mdp, best)
    assert best.q.shape == (mdp.n_states, mdp.n_actions)
    # A certificate that is true because it is vast would be worth nothing.
    assert best.error <= max(asked_tolerance(mdp, tolerance), rounding_scale(mdp))
    assert best.converged == (best.error <= asked_tolerance(mdp, tolerance))
    assert best.policy.tolist() == [row.index(max(row)) for row in best.q.tolist()]
    assert best.value.tolist() == [max(row) for row in best.q.tolist()]
    assert not np.shares_memory(best.value, best.q)


@pytest.mark.parametrize(
    "mdp",
    [two_loops(0.9), cycle(0.999), cycle(0.0), tenths(0.999, 1e6), two_loops(0.99, -1e6, 1.0), tenths(0.999, 1.0, 0.0)],
    ids=["loops", "cycle", "no future", "tenths", "large", "constant"],
)
@pytest.mark.parametrize("tolerance", [1e-300, 5e-324])
def test_a_tolerance_out_of_reach_ends_with_the_best_certificate_and_says_so(mdp: TabularMDP, tolerance: float) -> None:
    best = optimal_values(mdp, tolerance=tolerance)
    assert not best.converged
    assert is_certified(mdp, best)
    assert tolerance < best.error <= rounding_scale(mdp)
    value = evaluate_policy(mdp, np.zeros(mdp.n_states, dtype=int), tolerance=tolerance)
    assert not value.converged
    assert tolerance < value.error <= rounding_scale(mdp)


def test_rewards_whose_values_overflow_are_refused() -> None:
    for first, second, gamma in ((-1e308, 1e308, 0.9), (0.0, 1e307, 0.999), (-1.7e308, -1.7e308, 0.5)):
        with pytest.raises(rr.InvalidInput, match="reward"):
            optimal_values(two_loops(gamma, first, second))
        with pytest.raises(rr.InvalidInput, match="reward"):
            evaluate_policy(two_loops(gamma, first, second), [0, 0])


# --- policies --------------------------------------------------------------------------------


@st.composite
def processes_with_policies(draw: st.DrawFn) -> tuple[TabularMDP, NDArray[Any]]:
    mdp = draw(processes())
    if draw(st.booleans()):
        actions = st.integers(0, mdp.n_actions - 1)
        return mdp, np.array(draw(st.lists(actions, min_size=mdp.n_states, max_size=mdp.n_states)))
    size = mdp.n_states * mdp.n_actions
    weights = np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))) + 0.1
    table = weights.reshape(mdp.n_states, mdp.n_actions)
    return mdp, table / table.sum(axis=1, keepdims=True)


@settings(max_examples=100, deadline=None)
@given(processes_with_policies(), st.sampled_from([None, 1e-2]))
def test_the_value_of_a_policy_is_within_its_certified_error(
    case: tuple[TabularMDP, NDArray[Any]], tolerance: float | None
) -> None:
    mdp, policy = case
    found = evaluate_policy(mdp, policy, tolerance=tolerance)
    assert found.error <= max(asked_tolerance(mdp, tolerance), rounding_scale(mdp))
    assert found.converged == (found.error <= asked_tolerance(mdp, tolerance))
    if policy.ndim == 1:
        weights = one_hot(policy.tolist(), mdp.n_actions)
    else:
        rows = [[Fraction(float(w)) for w in row] for row in policy]
        weights = [[w / sum(row, Fraction()) for w in row] for row in rows]
    for normalise in (False, True):
        above = exact_value(mdp, exact_pairs(mdp, normalise=normalise), weights)
        exact = [value + bottom(mdp, normalise=normalise) for value in above]
        for mine, theirs in zip(found.value.tolist(), exact, strict=True):
            assert abs(Fraction(mine) - theirs) <= Fraction(found.error)
        start = [Fraction(float(p)) for p in mdp.initial]
        exact_return = sum((p * v for p, v in zip(start, exact, strict=True)), Fraction())
        largest = max(map(abs, exact))
        assert abs(Fraction(found.expected_return) - exact_return) <= Fraction(found.error) + largest / 2**50


NAN = float("nan")


@pytest.mark.parametrize(
    "policy",
    [*([0], [0, 1, 0], [[0, 1]], [0, 2], [0.5, 1.0], ["a", "b"]), [[0.5, 0.5], [1.5, -0.5]], [[0.5, 0.5], [NAN, 0.5]]],
    ids=repr,
)
def test_bad_policies_and_rewards_are_refused(policy: Any) -> None:
    loop = [[(1.0, 0, 0.0)], [(1.0, 1, 1.0)]]
    mdp = TabularMDP.from_outcomes([loop, loop], gamma=0.5)
    with pytest.raises(rr.InvalidInput, match=r"^evaluate_policy: "):
        evaluate_policy(mdp, policy)
    for rewards in (np.ones(4), np.ones((2, 3)), -np.ones((2, 2)), np.full((2, 2), NAN)):
        with pytest.raises(rr.InvalidInput, match="rewards"):
            optimal_values(mdp, rewards=rewards)


# --- ties ------------------------------------------------------------------------------------


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=1)))
@settings(deadline=None)
def test_the_lowest_index_of_the_maxima_wins(q: list[list[int]]) -> None:
    assert greedy(q).tolist() == [row.index(max(row)) for row in q]
    n, A = len(q), len(q[0])
    table = _sweeps.PlanningTable(
        np.zeros(n * A + 1, dtype=np.int64),
        np.empty(0, dtype=np.int32),
        np.empty(0),
        np.array(q, float).reshape(-1),
        gamma=0.5,
        n_actions=A,
    )
    value, best, row_of = np.zeros(n), np.empty(n), np.empty(n, dtype=np.int32)
    _sweeps.backup(table, value, best, row_of, 0, n)
    assert (row_of % A).tolist() == [row.index(max(row)) for row in q]
    assert best.tolist() == [max(row) for row in q]
    for width, backward in ((1, False), (n, True)):
        _sweeps.relax(table, value, best, row_of, width, backward, 0, n)
        assert (row_of % A).tolist() == [row.index(max(row)) for row in q]
        assert best.tolist() == [max(row) for row in q]


@pytest.mark.parametrize("q", [[1.0, 2.0], [[NAN, 1.0]], [[]], [["a"]], [[1.0], [1.0, 2.0]]], ids=repr)
def test_bad_tables_have_no_greedy_policy(q: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^greedy: "):
        greedy(q)


# --- the same bits everywhere ----------------------------------------------------------------

PROGRAM = """
import hashlib
import os
import numpy as np
from replicable_rl import compiled
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.problem import Rows, TabularMDP

compiled.SMALL, compiled.Kernel._is_compiled = int(os.environ.get("SMALL", "-1")), False
S, A, K = 40, 3, 4
k = np.arange(S * A * K)
weight = ((k * 7919 + 13) % 101 + 1.0).reshape(-1, K)
rows = Rows(
    np.arange(0, S * A * K + 1, K),
    (k * 31 + k // 5) % S,
    (weight / weight.sum(axis=1, keepdims=True)).reshape(-1),
    np.sqrt(k % 17) / 3.0,
)
mdp = TabularMDP(rows, n_actions=A, gamma=0.95)
best = optimal_values(mdp)
mixed = evaluate_policy(mdp, np.full((S, A), 1.0 / A))
for array in (best.q, best.policy, mixed.value, np.array([best.error, mixed.error, mixed.expected_return])):
    print(hashlib.sha256(array.tobytes()).hexdigest())
print(best.sweeps, mixed.sweeps)
"""


def test_the_same_bits_in_every_process_compiled_or_not(tmp_path: Path) -> None:
    environments = [
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        # The plain Python loops are the IEEE operations in the order they are spelled ...
        {"SMALL": "1000000"},
        # ... and so is machine code for a processor without vector units beyond the basic ones.
        {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)},
    ]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | extra,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for extra in environments
    ]
    results = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0] * len(started), [error for _, error in results]
    outputs = [output for output, _ in results]
    assert len(outputs[0].split()) == 6
    assert len(set(outputs)) == 1, outputs


# --- large -----------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks_from", [1, 10**9], ids=["blocks", "plain"])
def test_threads_do_not_change_a_bit(blocks_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [rr.make(id) for id in ("two-goals-wide-v1", "garnet-v1", "inventory-v1")] + [grid(40, 0.97)]
    monkeypatch.setattr(_sweeps, "_BLOCKS_FROM", blocks_from)
    monkeypatch.setattr(_sweeps, "_SHARED_FROM", blocks_from)
    monkeypatch.setattr(_sweeps, "MANY_STATES", 10**9)
    alone = [(optimal_values(problem), evaluate_policy(problem, uniform(problem))) for problem in problems]
    monkeypatch.setattr(_sweeps, "MANY_STATES", 1)
    for threads in (1, 2, 3, 7, 100):
        monkeypatch.setattr("replicable_rl.compiled.THREADS", threads)
        for problem, (best, mixed) in zip(problems, alone, strict=True):
            found, value = optimal_values(problem), evaluate_policy(problem, uniform(problem))
            assert found.q.tobytes() == best.q.tobytes()
            assert value.value.tobytes() == mixed.value.tobytes()
            assert (found.error, found.sweeps) == (best.error, best.sweeps)
            assert (value.error, value.sweeps) == (mixed.error, mixed.sweeps)


# --- Gauss-Seidel sweeps in blocks -------------------------------------------------------------


def uniform(mdp: TabularMDP) -> NDArray[np.float64]:
    return np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)


def grid(side: int, gamma: float) -> TabularMDP:
    """An open grid with a goal near its centre, so that news travel in all directions."""
    lines = ["." * side] * side
    lines[side // 2] = "." * (side // 3) + "G" + "." * (side - side // 3 - 1)
    return gridworld(lines, gamma=gamma)


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep small processes the way large ones are, whether that pays or not."""
    monkeypatch.setattr(_sweeps, "have_near_successors", lambda table: True)
    monkeypatch.setattr(_sweeps, "_BLOCKS", 2)
    monkeypatch.setattr(_sweeps, "_SHARED_FROM", 1)


@pytest.mark.usefixtures("in_blocks")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(processes(), st.sampled_from([None, 1e-3, 10.0, 1e-300]))
@example(two_loops(0.999), None)
@example(two_loops(0.999, -1e6, 1e6), 1.0)
@example(cycle(0.999), None)
@example(cycle(0.999, 1e6), 1e-3)
@example(tenths(0.999, 1e6, low=0.0), None)
def test_values_found_in_blocks_are_certified_too(mdp: TabularMDP, tolerance: float | None) -> None:
    best = optimal_values(mdp, tolerance=tolerance)
    assert is_certified(mdp, best)
    assert best.converged == (best.error <= asked_tolerance(mdp, tolerance))  # tiny ones may go in circles
    assert best.policy.tolist() == [row.index(max(row)) for row in best.q.tolist()]
    found = evaluate_policy(mdp, best.policy, tolerance=tolerance)
    assert found.error <= max(asked_tolerance(mdp, tolerance), rounding_scale(mdp))
    exact = exact_value(mdp, exact_pairs(mdp, normalise=True), one_hot(best.policy.tolist(), mdp.n_actions))
    assert max(abs(Fraction(v) - e) for v, e in zip(found.value.tolist(), exact, strict=True)) <= found.error
