"""Episodes by stepping: the law of the table, without the table, in every way an environment can be given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv
from gymnasium.spaces import Discrete, MultiDiscrete, Space
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray
from scipy import stats

import replicable_rl as rr
from replicable_rl.errors import SampleSizeTooLarge
from replicable_rl.problem.environments import EpisodicEnv
from replicable_rl.problem.source import Episodic
from replicable_rl.progress import listening
from replicable_rl.randomness import sample_stream
from replicable_rl.rules import EmpiricalModel
from replicable_rl.sampling import EpisodeCounts
from tests.statistics import ALPHA, SEED, goodness_of_fit, same_law

GymEnv = gymnasium.Env[Any, Any]
LAKE: dict[str, Any] = {"gamma": 0.95, "reward_range": (0.0, 1.0)}


class Walk(gymnasium.Env[Any, Any]):
    """States 5, 6, 7; action -1 stays, action 0 moves on with probability 0.7, and from state 7 to the end for 1."""

    def __init__(self) -> None:
        self.observation_space = Discrete(3, start=5)
        self.action_space = Discrete(2, start=-1)
        self.seeds: list[int | None] = []
        self.steps = 0
        self._state = 5

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self._state = 5 + int(self.np_random.random() < 0.25)
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.steps += 1
        moves = action == 0 and self.np_random.random() < 0.7
        if moves and self._state == 7:
            return 7, 1.0, True, False, {}
        self._state += moves
        return self._state, -0.5 if moves else 0.0, False, False, {}


def walk_table() -> rr.TabularMDP:
    stay: list[list[list[tuple[float, int, float]]]] = [
        [[(1.0, s, 0.0)], [(0.3, s, 0.0), (0.7, s + 1, 1.0 if s == 2 else -0.5)]] for s in range(3)
    ]
    return rr.TabularMDP.from_outcomes(
        [*stay, [[(1.0, 3, 0.0)], [(1.0, 3, 0.0)]]], gamma=0.9, initial=[0.75, 0.25, 0.0, 0.0]
    )


class Stairs(gymnasium.Env[Any, Any]):
    """From step i to step i + 1 for reward i/10, for sure; ``ends`` says where it terminates or truncates."""

    def __init__(self, terminates_at: int | None = None, truncates_at: int | None = None, n: int = 10) -> None:
        self.observation_space, self.action_space = Discrete(n), Discrete(1)
        self._ends = terminates_at, truncates_at
        self._i = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._i = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert not self._ended(), "stepped after the end"
        reward = self._i / 10
        self._i += 1
        return self._i, reward, self._i == self._ends[0], self._i == self._ends[1], {}

    def _ended(self) -> bool:
        return self._i != 0 and self._i in self._ends


class Scripted(gymnasium.Env[Any, Any]):
    """Gives what it is told to, once a step."""

    def __init__(self, observations: list[Any], reward: float = 0.0, actions: Space[Any] | None = None) -> None:
        self.observation_space = Discrete(3)
        self.action_space = actions or Discrete(2)
        self._observations, self._reward, self._at = observations, reward, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._at = 0
        return self._observations[0], {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._at = min(self._at + 1, len(self._observations) - 1)
        return self._observations[self._at], self._reward, False, False, {}


class NothingButSteps(gymnasium.Env[Any, Any]):
    """FrozenLake behind a wall: spaces, reset and step, and nothing else that could be read."""

    def __init__(self) -> None:
        self.__lake: Any = FrozenLakeEnv()
        self.observation_space, self.action_space = self.__lake.observation_space, self.__lake.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        return self.__lake.reset(seed=seed)[0], {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = self.__lake.step(action)
        return observation, float(reward), terminated, truncated, {}

    @property
    def unwrapped(self) -> GymEnv:
        return self

    @property
    def P(self) -> Any:  # noqa: N802
        raise AssertionError("the table was read")

    @property
    def initial_state_distrib(self) -> Any:
        raise AssertionError("the start was read")


FORMS: dict[str, Callable[[], Any]] = {
    "id": lambda: "FrozenLake-v1",
    "environment": lambda: gymnasium.make("FrozenLake-v1"),
    "callable": lambda: NothingButSteps,
    "function": lambda: lambda: gymnasium.make("FrozenLake-v1"),
    "class": lambda: FrozenLakeEnv,
    "hidden": NothingButSteps,
}


def down_and_right() -> NDArray[np.float64]:
    """Falls into holes soon, and does something of everything."""
    weights = np.tile([0.05, 0.5, 0.4, 0.05], (17, 1))
    weights[4] = [0.0, 0.0, 1.0, 0.0]
    return weights


def dense(seen: EpisodeCounts) -> NDArray[np.float64]:
    """Counts and rewards of every transition, seen or not."""
    full = np.zeros((2, seen.n_states**2 * seen.n_actions))
    full[:, seen.key] = seen.count, seen.reward_sum
    return full.reshape(-1)


def compare_laws(stepped: Episodic, table: rr.TabularMDP, policy: Any, m: int, H: int, repeats: int) -> None:
    """Chi-square on whole vectors of visits, on each pair's visits, and on counts and rewards of transitions."""
    samples = []
    for seed, model in ((SEED, stepped), (SEED + 1, table)):
        rng = sample_stream(seed)
        drawn = [model.play(policy, m, H, rng) for _ in range(repeats)]
        assert all(x.count.sum() == m * H for x in drawn)
        samples.append(([x.visits for x in drawn], np.array([dense(x) for x in drawn])))
    (visits_1, dense_1), (visits_2, dense_2) = samples
    assert same_law([tuple(v) for v in visits_1], [tuple(v) for v in visits_2]) > ALPHA / 2
    columns = np.flatnonzero((dense_1 != 0).any(axis=0) | (dense_2 != 0).any(axis=0))
    for j in columns:
        assert same_law(dense_1[:, j].tolist(), dense_2[:, j].tolist()) > ALPHA / 2 / columns.size


def check_expectations(stepped: Episodic, table: rr.TabularMDP, policy: Any, m: int, H: int) -> None:
    """The visits of one long play within Bernstein's bound of their exact means."""
    expected = table.play(policy, 10**15, H, sample_stream(1)).visits / 1e15  # exact to 1e-6
    log_term = math.log(2.0 * expected.size / ALPHA)
    seen = stepped.play(policy, m, H, sample_stream(SEED))
    bound = np.sqrt(2 * m * H * expected * log_term) + 2 * H * log_term / 3 + 1e-5 * m * H
    assert seen.count.sum() == m * H
    assert (np.abs(seen.visits - m * expected) <= bound).all()


# --- the law ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_law_of_the_table(form: str) -> None:
    """No table is read: one form hides it, and none gives another law."""
    lake = EpisodicEnv(FORMS[form](), **LAKE)
    assert (lake.n_states, lake.n_actions) == (17, 4)
    compare_laws(lake, rr.from_gymnasium("FrozenLake-v1", gamma=0.95), down_and_right(), 5, 6, repeats=500)


@pytest.mark.parametrize("m", [1, 3])
def test_single_episodes_have_the_law_of_the_table(m: int) -> None:
    lake = EpisodicEnv("FrozenLake-v1", **LAKE)
    compare_laws(lake, rr.from_gymnasium("FrozenLake-v1", gamma=0.95), [2] * 17, m, 5, repeats=1200)


def test_long_plays_have_the_expected_visits() -> None:
    table = rr.from_gymnasium("FrozenLake-v1", gamma=0.95)
    check_expectations(EpisodicEnv(NothingButSteps(), **LAKE), table, down_and_right(), 3000, 20)


def test_deterministic_lake_is_exact() -> None:
    table = rr.from_gymnasium("FrozenLake-v1", gamma=0.9, is_slippery=False)
    stepped = EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0), is_slippery=False)
    policy = rr.optimal_values(table).policy
    one, two = (model.play(policy, 7, 9, sample_stream(1)) for model in (stepped, table))
    assert (dense(one) == dense(two)).all()
    assert one.rewards_above(0.0).sum() == 7  # every episode reaches the goal


def test_spaces_that_do_not_start_at_0() -> None:
    """States 5, 6, 7 and actions -1, 0 are counted as states 0, 1, 2 and actions 0, 1."""
    walk = EpisodicEnv(Walk(), gamma=0.9, reward_range=(-0.5, 1.0))
    assert (walk.n_states, walk.n_actions) == (4, 2)
    compare_laws(walk, walk_table(), [[0.2, 0.8], [0.0, 1.0], [0.4, 0.6], [0.5, 0.5]], 4, 5, repeats=500)


# --- ends ------------------------------------------------------------------------------------------------


def test_terminated_absorbs() -> None:
    stairs = EpisodicEnv(Stairs(terminates_at=3), gamma=0.9, reward_range=(0.0, 1.0))
    seen = stairs.play([0] * 11, episodes=5, horizon=7, rng=sample_stream(1))
    transitions = list(zip((seen.row).tolist(), seen.next_state.tolist(), seen.count.tolist(), strict=True))
    assert transitions == [(0, 1, 5.0), (1, 2, 5.0), (2, 10, 5.0), (10, 10, 20.0)]  # 10 is the extra state
    assert seen.reward_sum == pytest.approx([0.0, 0.5, 1.0, 0.0])
    assert seen.visits.sum() == 35
    assert (seen.episodes, seen.steps) == (5, 15)  # steps made, not steps counted


@pytest.mark.parametrize("horizon", [3, 2])
def test_nothing_is_left_over_at_the_horizon(horizon: int) -> None:
    stairs = EpisodicEnv(Stairs(terminates_at=3), gamma=0.9, reward_range=(0.0, 1.0))
    seen = stairs.play([0] * 11, episodes=5, horizon=horizon, rng=sample_stream(1))
    assert seen.visits.tolist() == [5.0] * horizon + [0.0] * (11 - horizon)


@pytest.mark.parametrize("by", ["wrapper", "itself"])
def test_truncated_does_not_absorb(by: str) -> None:
    """The transition at the time limit is counted with its true successor, and nothing after it is."""
    made = TimeLimit(Stairs(), 3) if by == "wrapper" else Stairs(truncates_at=3)
    stairs = EpisodicEnv(made, gamma=0.9, reward_range=(0.0, 1.0))
    seen = stairs.play([0] * 11, episodes=5, horizon=8, rng=sample_stream(1))
    transitions = list(zip((seen.row).tolist(), seen.next_state.tolist(), seen.count.tolist(), strict=True))
    assert transitions == [(0, 1, 5.0), (1, 2, 5.0), (2, 3, 5.0)]
    assert seen.reward_sum == pytest.approx([0.0, 0.5, 1.0])
    assert (seen.episodes, seen.steps) == (5, 15)


def test_terminated_goes_before_truncated() -> None:
    stairs = EpisodicEnv(TimeLimit(Stairs(terminates_at=3), 3), gamma=0.9, reward_range=(0.0, 1.0))
    seen = stairs.play([0] * 11, episodes=4, horizon=8, rng=sample_stream(1))
    assert seen.next_state.tolist() == [1, 2, 10, 10]
    assert seen.visits[10] == 20


def test_an_environment_given_by_id_has_no_time_limit() -> None:
    """FrozenLake-v1 is registered with 100 steps; the horizon is the algorithm's."""
    still = np.zeros(17, dtype=int)
    by_id = EpisodicEnv("FrozenLake-v1", is_slippery=False, **LAKE)  # left of the start is a wall
    assert by_id.play(still, 2, 150, sample_stream(1)).visits.sum() == 300
    made = EpisodicEnv(gymnasium.make("FrozenLake-v1", is_slippery=False), **LAKE)
    assert made.play(still, 2, 150, sample_stream(1)).visits.sum() == 200


def test_actions_after_the_end_follow_the_policy() -> None:
    stairs = EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0), is_slippery=False, desc=["SH", "FG"])
    weights = np.tile([0.0, 0.0, 1.0, 0.0], (5, 1))  # into the hole at once
    weights[4] = [0.1, 0.2, 0.3, 0.4]
    draws, rng = [], sample_stream(SEED)
    for _ in range(800):
        seen = stairs.play(weights, 2, 11, rng)
        draws.append(seen.visits[16:])
        assert seen.visits[16:].sum() == 20
    drawn = np.array(draws)
    for action, p in enumerate(weights[4]):
        expected = stats.binom.pmf(np.arange(21), 20, p) * 800
        assert goodness_of_fit(np.bincount(drawn[:, action].astype(int), minlength=21), expected) > ALPHA / 4


# --- randomness ------------------------------------------------------------------------------------------


def test_same_generator_same_counts() -> None:
    lake = EpisodicEnv("FrozenLake-v1", **LAKE)
    policy = down_and_right()
    first = dense(lake.play(policy, 30, 10, sample_stream(1)))
    lake.play(policy, 3, 4, sample_stream(5))  # what was played before changes nothing
    assert (first == dense(lake.play(policy, 30, 10, sample_stream(1)))).all()
    assert (first != dense(lake.play(policy, 30, 10, sample_stream(2)))).any()
    rng = sample_stream(1)
    one, two = (dense(lake.play(policy, 30, 10, rng)) for _ in range(2))
    assert (one == first).all()
    assert (two != first).any()  # the next round is fresh


def test_an_environment_is_seeded_once_a_round_and_never_twice_alike() -> None:
    walk = Walk()
    model, rng = EpisodicEnv(walk, gamma=0.9, reward_range=(-0.5, 1.0)), sample_stream(SEED)
    for _ in range(40):
        model.play([1] * 4, 3, 2, rng)
    given = walk.seeds
    assert all(seed is None for i, seed in enumerate(given) if i % 3)
    seeds = [seed for seed in given if seed is not None]
    assert len(seeds) == len(set(seeds)) == 40
    # They fit 32 bits, for many environments take no more, and use them all. Fails with probability 2**-40.
    assert 2**31 < max(seeds) < 2**32


def test_rounds_are_independent() -> None:
    lake, rng = EpisodicEnv("FrozenLake-v1", **LAKE), sample_stream(SEED)
    visits = np.array([lake.play([1] * 17, 5, 6, rng).visits for _ in range(600)])
    for pair in (1, 17, 65):  # down in the start, in the cell below, and after the end
        assert visits[:, pair].std() > 0
        assert stats.pearsonr(visits[:-1, pair], visits[1:, pair]).pvalue > ALPHA / 3


# --- steps, batches, progress -----------------------------------------------------------------------------


@pytest.mark.parametrize("episodes", [1, 7, 2500])
def test_steps_reported_are_steps_made(episodes: int) -> None:
    """2500 episodes are flushed three times on the way."""
    walk = Walk()
    seen = EpisodicEnv(walk, gamma=0.9, reward_range=(-0.5, 1.0)).play([1] * 4, episodes, 6, sample_stream(SEED))
    assert seen.steps == walk.steps
    assert len(walk.seeds) == seen.episodes == episodes
    assert seen.count.sum() == 6 * episodes
    assert seen.count[seen.row < 6].sum() == walk.steps  # all but those after the end
    assert seen.steps < 6 * episodes or episodes == 1
    assert (np.diff(seen.key) > 0).all()


def test_progress_is_reported() -> None:
    heard: list[tuple[str, int, int]] = []
    model = EpisodicEnv("FrozenLake-v1", **LAKE)
    with listening(lambda what, done, total: heard.append((what, done, total))):
        model.play([1] * 17, 7, 3, sample_stream(1))
    assert heard == [("episodes", i, 7) for i in range(8)]
    model.play([1] * 17, 7, 3, sample_stream(1))
    assert len(heard) == 8  # nobody listens any more


# --- the interface ----------------------------------------------------------------------------------------


def test_an_environment_is_an_episodic_model() -> None:
    lake = EpisodicEnv("FrozenLake-v1", gamma=0.95, reward_range=(0, 2), map_name="8x8")
    assert isinstance(lake, Episodic)
    assert (lake.known_rewards, lake.initial, lake.trust.estimated, lake.budget) == (None, None, False, 10**9)
    assert (lake.n_states, lake.n_actions, lake.gamma, lake.reward_range) == (65, 4, 0.95, (0.0, 2.0))
    assert lake.spec.id == "episodes/FrozenLake-v1"
    assert lake.spec.params == {"gamma": 0.95, "reward_range": [0, 2], "map_name": "8x8"}
    assert EpisodicEnv(gymnasium.make("FrozenLake-v1"), **LAKE).spec.id == "episodes/FrozenLake-v1"
    assert EpisodicEnv(Walk, gamma=0.5, reward_range=(-1, 1)).spec.id == "episodes/Walk"


def test_counts_of_rounds_with_different_keys_merge() -> None:
    lake, rng = EpisodicEnv("FrozenLake-v1", **LAKE), sample_stream(SEED)
    one, two = lake.play([1] * 17, 5, 6, rng), lake.play([2] * 17, 5, 6, rng)
    assert one.key.tolist() != two.key.tolist()
    total = one + two
    assert (dense(total) == dense(one) + dense(two)).all()
    assert (total.episodes, total.steps) == (10, one.steps + two.steps)


@pytest.mark.parametrize(
    "env",
    ["CartPole-v1", Scripted([0], actions=MultiDiscrete([2, 2])), object()],
    ids=["observations", "actions", "none"],
)
def test_spaces_must_be_discrete(env: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"Discrete spaces|gymnasium.Env"):
        EpisodicEnv(env, **LAKE)


class Lottery(gymnasium.Env[Any, Any]):
    """One place; a ticket pays 0 or 4, and one in ten ends the game."""

    observation_space, action_space = Discrete(1), Discrete(1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 4.0 * float(self.np_random.random() < 0.5), bool(self.np_random.random() < 0.1), False, {}


def test_the_noise_of_rewards_belongs_to_what_was_seen() -> None:
    """The rewards are 0 and 4 of a range of 8."""
    lottery = EpisodicEnv(Lottery(), gamma=0.9, reward_range=(-2.0, 6.0))
    one, two = (lottery.play([0, 0], 200, 5, sample_stream(seed)) for seed in (1, 2))
    for seen in (one, two, one + two):
        assert seen.squares is not None
        paid = seen.reward_sum / 4.0
        assert seen.squares == pytest.approx(paid * (seen.count - paid) / seen.count / 4.0)
    model = EmpiricalModel(lottery, one + two)
    of_rewards = np.sqrt(model.spread**2 - model.spread_between**2)
    assert of_rewards[:, 0] == pytest.approx([0.1 * 4.0 / 8.0 * 0.5, 0.0], rel=0.02)  # nothing after the end


@pytest.mark.parametrize("reward", [1.5, -0.1, math.nan, math.inf])
def test_rewards_outside_their_range(reward: float) -> None:
    model = EpisodicEnv(Scripted([0, 1], reward), **LAKE)
    with pytest.raises(rr.InvalidInput, match=rf"reward_range \[0, 1\], got {reward}"):
        model.play([0] * 4, 2, 2, sample_stream(1))


@pytest.mark.parametrize("observations", [[3], [0, 3], [-1], [1, -1], [0, 1, 400], [0, 0, -7], [0.5], [None]])
def test_observations_outside_their_space(observations: list[Any]) -> None:
    """One past the last would be the extra state, and one before the first would wrap around: both are refused."""
    model = EpisodicEnv(Scripted(observations), **LAKE)
    with pytest.raises(rr.InvalidInput, match=rf"space, 0 to 2, got {observations[-1]}"):
        model.play([0] * 4, 2, 3, sample_stream(1))


def test_an_observation_after_termination_does_not_matter() -> None:
    stairs = EpisodicEnv(Stairs(terminates_at=3, n=3), gamma=0.9, reward_range=(0.0, 1.0))  # says 3, beyond its space
    assert stairs.play([0] * 4, 2, 3, sample_stream(1)).next_state.tolist() == [1, 2, 3]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "gamma 1": ({"gamma": 1.0}, "gamma"),
    "no end": ({"reward_range": (0.5, 1.0)}, "reward_range must contain 0"),
    "upside down": ({"reward_range": (1.0, -1.0)}, "reward_range"),
    "unknown id": ({"env": "FrozenLak-v1"}, r"Did you mean 'FrozenLake-v1'\?"),
    "not even close": ({"env": "xyzzy"}, "'xyzzy'"),
    "bad keyword": ({"map_name": "9x9"}, "9x9"),
    "a time limit": ({"max_episode_steps": 5}, "time limit"),
    "keyword for an environment": ({"env": Walk(), "map_name": "8x8"}, "without keywords"),
    "a vector environment": ({"env": lambda: gymnasium.make_vec("FrozenLake-v1", 2, "sync")}, "gymnasium.Env"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters(name: str) -> None:
    change, message = BAD[name]
    with pytest.raises(rr.InvalidInput, match=message):
        EpisodicEnv(**{"env": "FrozenLake-v1", **LAKE, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": [0] * 16}, r"\(17, 4\), got \(16,\)"),
        ({"policy": [4] * 17}, r"0\.\.3"),
        ({"horizon": 0}, "horizon"),
        ({"episodes": 0}, "episodes"),
    ],
)
def test_bad_plays(change: dict[str, Any], message: str) -> None:
    with pytest.raises(rr.InvalidInput, match=message):
        EpisodicEnv("FrozenLake-v1", **LAKE).play(
            rng=sample_stream(1), **{"policy": [0] * 17, "episodes": 1, "horizon": 1, **change}
        )


def test_too_many_episodes_to_step() -> None:
    with pytest.raises(SampleSizeTooLarge, match=r"more than budget=1e\+09"):
        EpisodicEnv("FrozenLake-v1", **LAKE).play([0] * 17, 2 * 10**9, 1, sample_stream(1))
    small = EpisodicEnv("FrozenLake-v1", budget=60, **LAKE)
    assert small.budget == 60
    assert small.play([0] * 17, 12, 5, sample_stream(1)).episodes == 12
    with pytest.raises(SampleSizeTooLarge, match=r"^EpisodicEnv FrozenLake-v1: 65 steps"):
        small.play([0] * 17, 13, 5, sample_stream(1))


# --- identity ---------------------------------------------------------------------------------------------


class Coin(Walk):
    """Another environment for every p, which nothing but its author can tell."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p


@pytest.fixture
def lake_of_our_own() -> Iterator[str]:
    """An id of our own for code of Gymnasium, with arguments of our own."""
    gymnasium.register("OurLake-v0", "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv", kwargs={"map_name": "8x8"})
    gymnasium.register("OurWalk-v0", Walk)  # type: ignore[arg-type]  # a class makes environments
    yield "OurLake-v0"
    for id in ("OurLake-v0", "OurWalk-v0"):
        del gymnasium.registry[id]


def test_environments_of_gymnasium_are_known_by_their_ids(lake_of_our_own: str) -> None:
    plain = EpisodicEnv("FrozenLake-v1", is_slippery=False, **LAKE)
    assert plain.identity is None
    assert plain.spec.params == {**LAKE, "reward_range": [0.0, 1.0], "map_name": "4x4", "is_slippery": False}
    assert EpisodicEnv("FrozenLake-v1", desc=["SF", "FG"], **LAKE).identity is None
    ours = EpisodicEnv(lake_of_our_own, **LAKE)
    assert ours.identity is None
    assert ours.spec.params["map_name"] == "8x8"  # what it was registered with is part of what it is


@pytest.mark.parametrize(
    "make",
    [
        lambda: EpisodicEnv(Coin(0.1), gamma=0.9, reward_range=(-0.5, 1.0)),
        lambda: EpisodicEnv(Coin(0.9), gamma=0.9, reward_range=(-0.5, 1.0)),
        lambda: EpisodicEnv(Walk, gamma=0.9, reward_range=(-0.5, 1.0)),
        lambda: EpisodicEnv("OurWalk-v0", gamma=0.9, reward_range=(-0.5, 1.0)),
        lambda: EpisodicEnv(gymnasium.make("FrozenLake-v1"), **LAKE),  # who knows what was done to it
        lambda: EpisodicEnv("FrozenLake-v1", desc=np.array([list("SF"), list("FG")]), **LAKE),
    ],
)
@pytest.mark.usefixtures("lake_of_our_own")
def test_somebodys_own_environment_is_known_by_its_version_alone(make: Callable[[], EpisodicEnv]) -> None:
    env = make()
    assert env.identity is not None
    assert "version" in env.identity


def test_a_version_makes_an_identity() -> None:
    one, two = (EpisodicEnv(Coin(p), gamma=0.9, reward_range=(-0.5, 1.0), version=f"p={p}") for p in (0.1, 0.9))
    assert one.identity is two.identity is None
    assert one.spec != two.spec
    assert one.spec.params == {"gamma": 0.9, "reward_range": [-0.5, 1.0], "version": "p=0.1"}
    with pytest.raises(rr.InvalidInput, match="version"):
        EpisodicEnv(Walk, gamma=0.9, reward_range=(-0.5, 1.0), version="")
