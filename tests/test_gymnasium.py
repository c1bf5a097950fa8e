"""Converted Gymnasium environments against value iteration on their own ``P``, and known values."""

from __future__ import annotations

import warnings
from collections import deque
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

from replicable_rl.errors import InvalidInput, UnknownId
from replicable_rl.planning import optimal_values
from replicable_rl.problem.environments import from_gymnasium

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def newest(name: str) -> str:
    """The newest registered version of an environment; Gymnasium's releases differ."""
    return max((i for i in gymnasium.registry if i.startswith(f"{name}-v")), key=lambda i: int(i.rpartition("-v")[2]))


CLIFF, TAXI = newest("CliffWalking"), newest("Taxi")


def bare(env_id: str, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.make(env_id, **kwargs).unwrapped


def value_iteration(env: Any, gamma: float, sweeps: int) -> NDArray[np.float64]:
    """V* straight from P: no future after a terminated outcome."""
    states, actions = range(env.observation_space.n), range(env.action_space.n)
    value = [0.0] * len(states)
    for _ in range(sweeps):
        value = [
            max(sum(p * (r + gamma * value[t] * (not end)) for p, t, r, end in env.P[s][a]) for a in actions)
            for s in states
        ]
    return np.array(value)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "gamma", "sweeps"),
    [
        ("FrozenLake-v1", {}, 0.99, 1500),
        ("FrozenLake-v1", {"map_name": "8x8"}, 0.99, 1500),
        ("FrozenLake8x8-v1", {}, 0.9, 200),
        ("FrozenLake-v1", {"is_slippery": False}, 0.95, 50),
        (CLIFF, {}, 0.9, 100),
        (CLIFF, {"is_slippery": True}, 0.9, 250),
        (TAXI, {}, 0.9, 60),
        (TAXI, {"is_rainy": True}, 0.8, 80),
    ],
)
def test_values_are_those_of_the_environment(env_id: str, kwargs: dict[str, Any], gamma: float, sweeps: int) -> None:
    env = bare(env_id, **kwargs)
    mdp = from_gymnasium(env_id, gamma=gamma, **kwargs)
    expected = value_iteration(env, gamma, sweeps)
    best = optimal_values(mdp)
    assert mdp.n_states == expected.size + 1
    assert best.value[-1] == pytest.approx(0.0, abs=best.error)
    np.testing.assert_allclose(best.value[:-1], expected, atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(mdp.initial[:-1], env.initial_state_distrib)
    assert mdp.initial[-1] == 0.0


def test_frozen_lake_has_its_well_known_value() -> None:
    assert optimal_values(from_gymnasium("FrozenLake-v1")).value[0] == pytest.approx(0.542, abs=5e-4)


def test_frozen_lake_is_crossed_14_times_in_17() -> None:
    best = optimal_values(from_gymnasium("FrozenLake-v1", gamma=0.99999))
    assert best.value[0] == pytest.approx(14 / 17, abs=1e-3)


def test_frozen_lake_without_slip_takes_six_steps() -> None:
    best = optimal_values(from_gymnasium("FrozenLake-v1", gamma=0.9, is_slippery=False))
    assert best.value[0] == pytest.approx(0.9**5)  # the sixth step pays


def test_cliff_walking_takes_thirteen_steps() -> None:
    mdp = from_gymnasium(CLIFF, gamma=0.95)
    start = int(np.argmax(mdp.initial))
    assert start == 36
    assert optimal_values(mdp).value[start] == pytest.approx(-sum(0.95**k for k in range(13)))


def test_taxi_drives_the_shortest_way() -> None:
    env, gamma = bare(TAXI), 0.99
    # Steps of cost 1 to the successful dropoff, by breadth-first search backwards from it.
    before: dict[int, set[int]] = {}
    distance: dict[int, int] = {}
    for s, a in ((s, a) for s in range(500) for a in range(6)):
        ((_, t, r, end),) = env.P[s][a]
        if end:
            assert r == 20
            distance[s] = 0
        elif r == -1:
            before.setdefault(t, set()).add(s)
    queue = deque(distance)
    while queue:
        t = queue.popleft()
        for s in before.get(t, ()):
            if s not in distance:
                distance[s] = distance[t] + 1
                queue.append(s)
    assert len(distance) == 500
    steps = np.array([distance[s] for s in range(500)])
    expected = 20 * gamma**steps - (1 - gamma**steps) / (1 - gamma)
    np.testing.assert_allclose(optimal_values(from_gymnasium(TAXI, gamma=gamma)).value[:-1], expected, atol=1e-7)


# --- form ------------------------------------------------------------------------------------


def test_terminated_outcomes_lead_to_one_absorbing_state() -> None:
    mdp = from_gymnasium("FrozenLake-v1")
    end = mdp.n_states - 1
    for a in range(4):
        part = mdp.rows.of_row(end * 4 + a)
        assert mdp.rows.next_state[part].tolist() == [end]
        assert mdp.rows.reward[part].tolist() == [0.0]
    holes_and_goal = [5, 7, 11, 12, 15]
    elsewhere = mdp.rows.next_state[: mdp.rows.indptr[end * 4]]
    assert not np.isin(elsewhere, holes_and_goal).any()


def test_the_source_is_the_id_with_its_keywords() -> None:
    spec = from_gymnasium("FrozenLake-v1", gamma=0.95, map_name="8x8", is_slippery=False).spec
    assert spec.id == "gymnasium/FrozenLake-v1"
    assert dict(spec.params) == {"gamma": 0.95, "map_name": "8x8", "is_slippery": False}
    assert from_gymnasium("FrozenLake").spec.id == "gymnasium/FrozenLake-v1"  # never without a version
    assert from_gymnasium("FrozenLake-v1", desc=["SF", "FG"]).spec.id == "mdp"
    assert from_gymnasium("FrozenLake-v1", success_rate=float("nan"), is_slippery=False).spec.id == "mdp"
    assert from_gymnasium(gymnasium.make("FrozenLake-v1")).spec.id == "mdp"


def test_an_environment_and_its_id_are_one_process() -> None:
    assert from_gymnasium(gymnasium.make("FrozenLake-v1")).digest == from_gymnasium("FrozenLake-v1").digest


def test_no_warning_surfaces() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_gymnasium("FrozenLake")  # Gymnasium warns that it takes the latest version


def test_an_environment_made_here_is_closed_and_a_foreign_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    monkeypatch.setattr("gymnasium.envs.toy_text.FrozenLakeEnv.close", lambda self: closed.append(self))
    from_gymnasium(gymnasium.make("FrozenLake-v1"))
    assert closed == []
    from_gymnasium("FrozenLake-v1")
    assert len(closed) == 1


class Loop(gymnasium.Env[int, int]):
    """Two states, two actions, no end; P as lists, without an initial distribution."""

    observation_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]
    action_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]
    P: Any = [[[(1.0, 0, 1.0, False)], [(0.5, 1, 0.0, False), (0.5, 0, 0.0, False), (0.0, 0, 9.0, True)]]] * 2


def test_no_state_is_added_without_an_end() -> None:
    mdp = from_gymnasium(Loop(), gamma=0.5)
    assert mdp.n_states == 2
    assert mdp.initial.tolist() == [0.5, 0.5]
    assert mdp.reward_range == (0.0, 1.0)
    assert mdp.labels.states is None
    assert optimal_values(mdp).value.tolist() == pytest.approx([2.0, 2.0])


def with_table(table: Any) -> Loop:
    env = Loop()
    env.P = table
    return env


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: from_gymnasium("FrozenLak-v1"), r"registered as 'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"),
        (lambda: from_gymnasium("FrozenLake-v77"), r"Did you mean 'FrozenLake-v1'\?"),
        (lambda: from_gymnasium("zzzzzz-v0"), r"no environment is registered as 'zzzzzz-v0'\.$"),
        (lambda: from_gymnasium("no_such_module:Foo-v0"), r"cannot be made .*no_such_module"),
        (lambda: from_gymnasium(""), r"cannot be made"),
        (lambda: from_gymnasium("FrozenLake-v1", colour=3), r"cannot be made \(TypeError: .*colour"),
        (lambda: from_gymnasium("FrozenLake-v1", map_name="9x9"), r"cannot be made \(KeyError: '9x9'\)"),
        (lambda: from_gymnasium("FrozenLake-v1", desc=["FF", "FG"]), r"initial must hold 5 probabilities"),
        (lambda: from_gymnasium("CartPole-v1"), r"CartPoleEnv must have a discrete observation_space .* got Box"),
        (lambda: from_gymnasium("Blackjack-v1"), r"BlackjackEnv must have a discrete observation_space .* got Tuple"),
        (lambda: from_gymnasium(with_table(None)), r"Loop has no table of transitions 'P'"),
        (lambda: from_gymnasium(with_table({0: {}})), r"Loop.P\[0\]\[0\] must be a list of \(probability, next state"),
        (
            lambda: from_gymnasium(with_table([[[(1.0, 0.5, 0.0, False)]] * 2] * 2)),
            r"row \(state 0, action 0\) has 0.5",
        ),
        (lambda: from_gymnasium(with_table([[[(0.5, 0, 0.0, False)]] * 2] * 2)), r"sum to 1"),
        (lambda: from_gymnasium(TAXI, fickle_passenger=True), r"Set fickle_passenger=False"),
        (lambda: from_gymnasium(Loop(), map_name="8x8"), r"env must be an id, or a gymnasium.Env without keywords"),
        (lambda: from_gymnasium(17), r"env must be an id, or a gymnasium.Env without keywords, got 17"),  # type: ignore[arg-type]
        (lambda: from_gymnasium("FrozenLake-v1", gamma=1.0), r"from_gymnasium: gamma must be a discount"),
    ],
)
def test_bad_input_is_one_clear_sentence(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        build()


def test_an_unknown_id_has_its_own_exception() -> None:
    with pytest.raises(UnknownId):
        from_gymnasium("Taxy-v4")
