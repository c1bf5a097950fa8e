"""Gymnasium environments: as tables against value iteration on their own ``P``, and stepped against those tables."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv
from gymnasium.spaces import Discrete, MultiDiscrete
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.randomness import sample_stream
from replicable_rl.sampling import EpisodeCounts
from tests.statistics import ALPHA, SEED, same_law

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")  # Gymnasium's own
Info = dict[str, Any]
LAKE: dict[str, Any] = {"gamma": 0.95, "reward_range": (0.0, 1.0)}


def newest(name: str) -> str:
    """The newest registered version of an environment; Gymnasium's releases differ."""
    return max((i for i in gymnasium.registry if i.startswith(f"{name}-v")), key=lambda i: int(i.rpartition("-v")[2]))


CLIFF, TAXI = newest("CliffWalking"), newest("Taxi")


# --- tables --------------------------------------------------------------------------------------------------------


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
        ("FrozenLake-v1", {}, 0.95, 400),
        ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, 0.9, 50),
        (CLIFF, {"is_slippery": True}, 0.9, 250),
        (TAXI, {}, 0.9, 60),
    ],
)
def test_values_are_those_of_the_environment(env_id: str, kwargs: Info, gamma: float, sweeps: int) -> None:
    with warnings.catch_warnings(action="ignore"):
        env: Any = gymnasium.make(env_id, **kwargs).unwrapped
    mdp = rr.from_gymnasium(env_id, gamma=gamma, **kwargs)
    expected, best = value_iteration(env, gamma, sweeps), rr.optimal_values(mdp)
    np.testing.assert_allclose(best.value, [*expected, 0.0], atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(mdp.initial, [*env.initial_state_distrib, 0.0])


def test_a_table_is_named_by_its_id_and_plain_keywords() -> None:
    spec = rr.from_gymnasium("FrozenLake-v1", gamma=0.95, map_name="8x8", is_slippery=False).spec
    assert (spec.id, spec.params["map_name"]) == ("gymnasium/FrozenLake-v1", "8x8")
    assert rr.make(spec.id, **spec.params).spec == spec
    assert rr.from_gymnasium("FrozenLake").spec.id == "gymnasium/FrozenLake-v1"  # never without a version
    for other in (rr.from_gymnasium("FrozenLake-v1", desc=["SF", "FG"]), rr.from_gymnasium(FrozenLakeEnv())):
        assert other.spec.id == "mdp"
    assert rr.from_gymnasium(gymnasium.make("FrozenLake-v1")) == rr.from_gymnasium("FrozenLake-v1")


class Loop(gymnasium.Env[int, int]):
    """Two states, two actions, no end; P as lists, without an initial distribution."""

    observation_space = Discrete(2)  # type: ignore[assignment]
    action_space = Discrete(2)  # type: ignore[assignment]

    def __init__(self, P: Any = None) -> None:
        self.P = P or [[[(1.0, 0, 1.0, False)], [(0.5, 1, 0.0, False), (0.5, 0, 0.0, False), (0.0, 0, 9.0, True)]]] * 2


def table(outcome: Any) -> Callable[[], rr.TabularMDP]:
    return lambda: rr.from_gymnasium(Loop([[[outcome]] * 2] * 2))


@pytest.mark.parametrize(
    ("build", "fragment"),
    [
        (lambda: rr.from_gymnasium("FrozenLak-v1"), r"'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"),
        (lambda: rr.from_gymnasium("no_such_module:Foo-v0"), "no_such_module"),
        (lambda: rr.from_gymnasium("FrozenLake-v1", map_name="9x9"), "9x9"),
        (lambda: rr.from_gymnasium("CartPole-v1"), "CartPoleEnv .*observation_space"),
        (lambda: rr.from_gymnasium(Answering()), "Answering .*'P'"),
        (lambda: rr.from_gymnasium(TAXI, fickle_passenger=True), "fickle_passenger=False"),
        (lambda: rr.from_gymnasium(Loop(), map_name="8x8"), "keywords"),
        (lambda: rr.from_gymnasium(17), "17"),  # type: ignore[arg-type]
        (lambda: rr.from_gymnasium("FrozenLake-v1", gamma=1.0), "gamma .*1.0"),
        (table((1.0, 0.5, 0.0, False)), r"\(state 0, action 0\).* 0.5"),
        (table((0.5, 0, 0.0, False)), "sum to 1"),
        (table((1.0, 1, 0.0)), r"Loop.P\[0\]\[0\]"),
        (table((1.0, 1, 0.0, "False")), r"Loop.P\[0\]\[0\]"),
        (table((1.0, 1, 0.0, 2)), r"Loop.P\[0\]\[0\]"),
        (table((1.0, 1, math.nan, False)), "nan"),
    ],
)
def test_what_is_no_table_is_refused(build: Callable[[], Any], fragment: str) -> None:
    with pytest.raises(rr.InvalidInput, match=fragment):
        build()


def test_without_gymnasium_tables_work_and_the_rest_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert rr.make("two-goals-v1").n_states == 8
    with pytest.raises(InvalidInput, match="two-goals-v1"):
        rr.make("two-goal-v1")
    for use in (
        lambda: rr.from_gymnasium("FrozenLake-v1"),
        lambda: rr.make("gymnasium/FrozenLake-v1"),
        lambda: rr.EpisodicEnv("FrozenLake-v1", **LAKE),
    ):
        with pytest.raises(rr.InvalidInput, match=r"gymnasium.*pip install 'replicable-rl\[gym\]'"):
            use()


# --- episodes: the law ---------------------------------------------------------------------------------------------


class Walk(gymnasium.Env[Any, Any]):
    """States 5, 6, 7; action -1 stays, action 0 moves on with probability 0.7, and from state 7 to the end for 1."""

    def __init__(self, p: float = 0.7) -> None:
        self.observation_space, self.action_space = Discrete(3, start=5), Discrete(2, start=-1)
        self.p, self.seeds, self.steps, self._state = p, list[int | None](), 0, 5

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[int, Info]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self._state = 5 + int(self.np_random.random() < 0.25)
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, Info]:
        assert self.action_space.contains(action)
        self.steps += 1
        moves = action == 0 and self.np_random.random() < self.p
        if moves and self._state == 7:
            return 7, 1.0, True, False, {}
        self._state += moves
        return self._state, -0.5 if moves else 0.0, False, False, {}


def walk(**options: Any) -> rr.EpisodicEnv:
    return rr.EpisodicEnv(Walk(), **{"gamma": 0.9, "reward_range": (-0.5, 1.0), **options})


def dense(seen: EpisodeCounts) -> NDArray[np.float64]:
    """Counts and rewards of every transition, seen or not."""
    full = np.zeros((2, seen.n_states**2 * seen.n_actions))
    full[:, seen.key] = seen.count, seen.reward_sum
    return full.reshape(-1)


def same_laws(stepped: rr.EpisodicEnv, table: rr.TabularMDP, policy: Any, m: int, H: int, repeats: int) -> None:
    """Chi-square on whole vectors of visits, and on counts and rewards of each transition."""
    samples = []
    for seed, source in ((SEED, stepped), (SEED + 1, table)):
        rng = sample_stream(seed)
        samples.append([source.play(policy, m, H, rng) for _ in range(repeats)])
        assert all(seen.count.sum() == m * H for seen in samples[-1])
    visits = [[tuple(seen.visits) for seen in sample] for sample in samples]
    assert same_law(*visits) > ALPHA / 2
    one, two = (np.array([dense(seen) for seen in sample]) for sample in samples)
    columns = np.flatnonzero((one != 0).any(axis=0) | (two != 0).any(axis=0))
    for j in columns:
        assert same_law(one[:, j].tolist(), two[:, j].tolist()) > ALPHA / 2 / columns.size


@pytest.mark.parametrize("form", [lambda: "FrozenLake-v1", FrozenLakeEnv])
def test_stepping_has_the_law_of_the_table(form: Callable[[], Any]) -> None:
    policy = np.tile([0.05, 0.5, 0.4, 0.05], (17, 1))  # falls into holes soon, and does something of everything
    policy[4] = [0.0, 0.0, 1.0, 0.0]
    lake = rr.EpisodicEnv(form(), **LAKE)
    assert (lake.n_states, lake.n_actions) == (17, 4)
    same_laws(lake, rr.from_gymnasium("FrozenLake-v1", gamma=0.95), policy, 5, 6, repeats=400)


def test_spaces_that_do_not_start_at_0() -> None:
    """States 5, 6, 7 and actions -1, 0 are counted as states 0, 1, 2 and actions 0, 1; the end is state 3."""
    rows: Any = [
        [[(1.0, s, 0.0)], [(0.3, s, 0.0), (0.7, s + 1, 1.0 if s == 2 else -0.5)]] if s < 3 else [[(1.0, 3, 0.0)]] * 2
        for s in range(4)
    ]
    table = rr.TabularMDP.from_outcomes(rows, gamma=0.9, initial=[0.75, 0.25, 0.0, 0.0])
    same_laws(walk(), table, [[0.2, 0.8], [0.0, 1.0], [0.4, 0.6], [0.1, 0.9]], 4, 5, repeats=400)


class Stairs(gymnasium.Env[Any, Any]):
    """From step i to step i + 1 for reward i/10, for sure, to where it terminates or truncates."""

    def __init__(self, terminates_at: int | None = None, truncates_at: int | None = None) -> None:
        self.observation_space, self.action_space = Discrete(10), Discrete(1)
        self._ends, self._i = (terminates_at, truncates_at), 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[int, Info]:
        super().reset(seed=seed)
        self._i = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, Info]:
        assert self._i == 0 or self._i not in self._ends, "stepped after the end"
        self._i += 1
        return self._i, (self._i - 1) / 10, self._i == self._ends[0], self._i == self._ends[1], {}


@pytest.mark.parametrize(
    ("env", "horizon", "transitions", "steps"),
    [
        (Stairs(terminates_at=3), 7, [(0, 1, 5), (1, 2, 5), (2, 10, 5), (10, 10, 20)], 15),  # absorbs in one more state
        (Stairs(terminates_at=3), 2, [(0, 1, 5), (1, 2, 5)], 10),
        (Stairs(truncates_at=3), 8, [(0, 1, 5), (1, 2, 5), (2, 3, 5)], 15),  # only the observation ends
        (TimeLimit(Stairs(), 3), 8, [(0, 1, 5), (1, 2, 5), (2, 3, 5)], 15),
        (TimeLimit(Stairs(terminates_at=3), 3), 4, [(0, 1, 5), (1, 2, 5), (2, 10, 5), (10, 10, 5)], 15),
    ],
)
def test_ends(env: Any, horizon: int, transitions: list[tuple[int, int, int]], steps: int) -> None:
    seen = rr.EpisodicEnv(env, gamma=0.9, reward_range=(0.0, 1.0)).play([0] * 11, 5, horizon, sample_stream(1))
    assert list(zip(seen.row.tolist(), seen.next_state.tolist(), seen.count.tolist(), strict=True)) == transitions
    assert seen.reward_sum == pytest.approx([5 * s / 10 if s < 3 else 0.0 for s, *_ in transitions])
    assert (seen.episodes, seen.steps) == (5, steps)  # steps made, not steps counted


# --- masks ---------------------------------------------------------------------------------------------------------

MASK = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 0]], dtype=np.int8)
MASKED: dict[str, Any] = {"gamma": 0.9, "reward_range": (0.0, 1.0), "version": "1"}


class Corridor(gymnasium.Env[Any, Any]):
    """Four places, three actions; what is not allowed pays best, and is never to be tried."""

    observation_space, action_space = Discrete(4, start=5), Discrete(3)

    def __init__(self) -> None:
        self.place, self.tried = 0, set[tuple[int, int]]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, Info]:
        super().reset(seed=seed)
        self.place = 0
        return 5, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, Info]:
        self.tried.add((self.place, int(action)))
        reward = float(not MASK[self.place, action]) or 0.5 * float(self.place == 3)
        self.place = int(self.np_random.integers(4))
        return 5 + self.place, reward, False, self.np_random.random() < 0.1, {}


def test_actions_that_are_not_allowed_are_never_tried() -> None:
    env, algorithm = Corridor(), rr.PlugInPolicy(0.1, 0.05, 0.2, budget=2000, horizon=20)
    problem = rr.EpisodicEnv(env, allowed=MASK, **MASKED)
    assert problem.allowed.tolist() == [*(MASK == 1).tolist(), [True] * 3]  # after the end, all
    run = rr.solve(problem, algorithm, shared_seed=1, sample_seed=1)
    assert all(MASK[pair] for pair in env.tried)
    assert all(MASK[pair] for pair in enumerate(run.policy[:4]))
    freely = rr.solve(rr.EpisodicEnv(Corridor(), **MASKED), algorithm, shared_seed=1, sample_seed=1)
    assert not all(MASK[pair] for pair in enumerate(freely.policy[:4]))  # the mask is what decides
    assert problem.spec != rr.EpisodicEnv(Corridor(), **MASKED).spec
    with pytest.raises(rr.InvalidInput, match="allowed"):
        rr.EpisodicEnv(Corridor(), allowed=MASK[:2], **MASKED)


# --- identity ------------------------------------------------------------------------------------------------------


class OwnEpisodes(rr.EpisodicEnv):
    """It may play as it likes."""


class OwnLake(FrozenLakeEnv):
    """Its table may change with its code."""


@pytest.fixture
def lake_of_our_own() -> Iterator[str]:
    """An id of our own for code of Gymnasium, with arguments of our own; and an id for code of our own."""
    gymnasium.register("OurLake-v0", "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv", kwargs={"map_name": "8x8"})
    gymnasium.register("OwnLake-v0", OwnLake)  # type: ignore[arg-type]  # as below
    gymnasium.register("OurWalk-v0", Walk)  # type: ignore[arg-type]  # a class makes environments
    yield "OurLake-v0"
    for id in ("OurLake-v0", "OurWalk-v0", "OwnLake-v0"):
        del gymnasium.registry[id]


def test_environments_of_gymnasium_are_known_by_their_ids(lake_of_our_own: str) -> None:
    plain = rr.EpisodicEnv("FrozenLake-v1", is_slippery=False, **LAKE)
    assert plain.spec.id == "episodes/FrozenLake-v1"
    assert plain.spec.params == {**LAKE, "reward_range": [0.0, 1.0], "map_name": "4x4", "is_slippery": False}
    ours = rr.EpisodicEnv(lake_of_our_own, **LAKE)
    assert ours.spec.params["map_name"] == "8x8"  # what it was registered with is part of what it is
    assert plain.identity is ours.identity is None
    assert rr.from_gymnasium("OwnLake-v0").spec.id == "mdp"


@pytest.mark.parametrize(
    "make",
    [
        walk,
        lambda: rr.EpisodicEnv("OurWalk-v0", gamma=0.9, reward_range=(-0.5, 1.0)),
        lambda: rr.EpisodicEnv(gymnasium.make("FrozenLake-v1"), **LAKE),  # who knows what was done to it
        lambda: rr.EpisodicEnv("FrozenLake-v1", map_name=None, **LAKE),  # a map at random
        lambda: OwnEpisodes("FrozenLake-v1", **LAKE),
    ],
)
@pytest.mark.usefixtures("lake_of_our_own")
def test_somebodys_own_environment_is_known_by_its_version_alone(make: Callable[[], rr.EpisodicEnv]) -> None:
    assert "version" in str(make().identity)
    one, two = (walk(version=version) for version in ("1", "2"))
    assert one.identity is two.identity is None
    assert one.spec != two.spec


# --- bad input -----------------------------------------------------------------------------------------------------


class Answering(gymnasium.Env[Any, Any]):
    """Answers as told, whatever is done."""

    observation_space, action_space = Discrete(3), Discrete(2)

    def __init__(self, step: Any = (1, 0.5, True, False, {})) -> None:
        self._step = step

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> Any:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> Any:
        return self._step


STEPS: list[Any] = [
    *((1, 0.0, end, False, {}) for end in ("False", math.nan, 2)),
    *((1, reward, True, False, {}) for reward in (math.nan, 1.5, None)),
    *((place, 0.0, False, False, {}) for place in (-1, 3, "1", 1.5)),
    *((1, 0.0, True, {}), None),
]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_an_answer_of_another_form_is_refused(step: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^EpisodicEnv Answering: "):
        rr.EpisodicEnv(Answering(step), **LAKE).play([0] * 4, 2, 2, sample_stream(1))


class Pair(Answering):
    action_space: Any = MultiDiscrete([2, 2])


BAD: dict[str, tuple[Info, str]] = {
    "gamma": ({"gamma": 1.0}, "gamma"),
    "no 0 after the end": ({"reward_range": (0.5, 1.0)}, "reward_range"),
    "unknown id": ({"env": "FrozenLak-v1"}, r"Did you mean 'FrozenLake-v1'\?"),
    "bad keyword": ({"map_name": "9x9"}, "9x9"),
    "a time limit": ({"max_episode_steps": 5}, "time limit"),
    "keyword for an environment": ({"env": Walk(), "map_name": "8x8"}, "without keywords"),
    "no environment": ({"env": object()}, "gymnasium.Env"),
    "observations": ({"env": "CartPole-v1"}, "Discrete"),
    "actions": ({"env": Pair()}, "Discrete"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters(name: str) -> None:
    change, fragment = BAD[name]
    with pytest.raises(rr.InvalidInput, match=fragment):
        rr.EpisodicEnv(**{"env": "FrozenLake-v1", **LAKE, **change})
