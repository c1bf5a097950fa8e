"""Stints of an environment: each has a seed of its own, so that the next one can be played without those before.

A stint is ``horizon`` steps, side by side in a vector environment, episode after episode. Without a policy of yours
the environment is explored as `PlugInPolicy` explores it: a policy is planned on what was seen so far, with a bonus for
what is little known, and followed until there is an eighth more. When that is depends on the steps made and not on how
many there will be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.algorithms.exploring import COVERAGE, curious
from replicable_rl.canonical import array_digest
from replicable_rl.collect.draws import WITHIN, mask_of
from replicable_rl.collect.gathered import Gathered
from replicable_rl.collect.stage import Options, Stage, asked
from replicable_rl.data import Process
from replicable_rl.data.process import END
from replicable_rl.errors import InvalidInput, check_integer
from replicable_rl.mdp import action_probabilities, allowed_of, uniform_policy
from replicable_rl.queries.empirical import EmpiricalModel
from replicable_rl.randomness import sample_stream
from replicable_rl.records import derived_seed
from replicable_rl.sampling import EpisodicEnv, Stint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.canonical import Json

_GROWTH = 8  # a new policy after an eighth more steps
_LOSS = 0.05  # what may happen after the horizon is worth less, in values normalised to [0, 1]
_LONGEST = 2**31 - 1


class EnvStints:
    """Stints of an environment, one after the other.

    Parameters
    ----------
    source : EpisodicEnv
        What is stepped.
    seed : int
        The sample seed.
    options : Options
        The steps of a stint, and what to do; without a policy the environment is explored.
    """

    def __init__(self, source: EpisodicEnv, seed: int, options: Options) -> None:
        horizon, policy = options.horizon, options.policy
        far = math.ceil(math.log(1.0 / (_LOSS * (1.0 - source.gamma))) / (1.0 - source.gamma))
        steps = far if horizon is None else check_integer("collect", "horizon", horizon, low=1, high=_LONGEST)
        self.source, self._seed, self._horizon = source, seed, min(steps, _LONGEST)
        self._given: NDArray[np.float64] | None = None
        if policy is not None:
            self._given = action_probabilities("collect", policy, source.n_states, source.n_actions, allowed_of(source))
        states = range(source.first_state, source.first_state + source.n_states - 1)
        actions = range(source.first_action, source.first_action + source.n_actions)
        known = source.gamma, source.reward_range, None, True
        self.process = Process((*states, END), tuple(actions), *known, allowed=mask_of(source))
        self.now = self.begin()

    @staticmethod
    def total(source: EpisodicEnv, samples: int | None, budget: int | None) -> int:
        """Return how many steps there will be, within the budget of the environment."""
        if samples is not None:
            raise InvalidInput(
                "collect: nobody chooses the pairs that an environment visits. Give budget=... in place of samples=...."
            )
        total = asked(1, None, budget)
        source.refuse_beyond_budget(total, WITHIN)
        if total < source.width:
            raise InvalidInput(
                f"collect: budget must allow a step of each of the {source.width} environments, got {budget}."
            )
        return total

    @property
    def unit(self) -> int:
        """How many are stepped side by side."""
        return self.source.width

    @property
    def way(self) -> dict[str, Json]:
        """How long a stint is, how many are stepped side by side, and what is done."""
        policy = "exploring" if self._given is None else array_digest("policy", self._given)
        return {"by": "stints", "horizon": self._horizon, "side by side": self.source.width, "policy": policy}

    def begin(self) -> Stage:
        """Return the stage before the first step."""
        starts = np.zeros(self.source.n_states, dtype=np.int64)
        place = {"next": 0, "round": 0, "until": self._horizon * self.source.width}
        return Stage(Gathered.nothing(self.process), starts=starts, place=place)

    def advance(self, total: int, pause: Callable[[Stage], None]) -> None:
        """Play one stint; where it is interrupted, what was seen until then is kept, and it ends there."""
        if self._given is None and self.now.steps >= self.now.place["until"]:
            self.now = self._planned()
        before, stint = self.now, Stint(self.source, lambda: pause(self._after(before, stint)))
        rng = sample_stream(derived_seed("collect", self._seed, before.place["next"]))
        try:
            stint.play(self._weights(), self._horizon, total - before.steps, rng)
        finally:
            self.now = self._after(before, stint)

    def _after(self, before: Stage, stint: Stint) -> Stage:
        key, reward = stint.seen()
        if not key.size or before.starts is None:
            return before
        place = {**before.place, "next": before.place["next"] + 1}
        gathered, starts = before.gathered.after(key, reward), before.starts + stint.starts()
        return replace(before, gathered=gathered, steps=before.steps + key.size, starts=starts, place=place)

    def _weights(self) -> NDArray[np.float64]:
        """Return the probabilities of actions in the present round."""
        n_states, n_actions = self.source.n_states, self.source.n_actions
        if self._given is not None:
            return self._given
        if self.now.policy is None:
            return uniform_policy(self.source)
        return action_probabilities("collect", self.now.policy, n_states, n_actions)

    def _planned(self) -> Stage:
        """Return the same stage with a policy for the next round, planned on what was seen."""
        now = replace(self.now, gathered=self.now.gathered.settled())
        data, number = now.dataset(), int(now.place["round"]) + 1
        policy = curious(EmpiricalModel(data, data.counts), rewarded=number % COVERAGE != 0)
        most = max(self._horizon * self.source.width, now.steps // _GROWTH)
        place: dict[str, Any] = {**now.place, "round": number, "until": now.steps + most}
        return replace(now, policy=policy, place=place)
