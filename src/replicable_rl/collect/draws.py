"""Samples of every pair in turn: from a simulator, in an order that does not depend on how many there will be.

Sample t is of pair t mod (S A), so at any moment every pair has as many as any other, or one more. All of them come
from one generator, whose state is part of the stage: who goes on there draws what would have been drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.collect.gathered import Gathered
from replicable_rl.collect.stage import Options, Stage, asked
from replicable_rl.data import Process
from replicable_rl.data.process import END
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import allowed_of, pairs_of
from replicable_rl.randomness import sample_stream
from replicable_rl.records import derived_seed
from replicable_rl.sampling import Simulator, draw_from
from replicable_rl.solve.run import source_of

if TYPE_CHECKING:
    from replicable_rl.canonical import Json

WITHIN = "Ask for fewer, or raise the budget of the problem."
_MARK = 1e-4  # seconds after which the place of a generator is noted: reading it costs more than many a step
_PIECE = 0.1  # seconds of steps that are counted together
_MOST = 1 << 14  # of them
_WHOLE = (int, np.int64, np.int32)
_REAL = (float, int, np.float64, np.float32)


class SimulatorDraws:
    """Steps of a simulator: many at once where it offers that, else one by one.

    Parameters
    ----------
    source : Simulator
        What is stepped.
    seed : int
        The sample seed.
    options : Options
        How many steps are asked of a vectorised simulator at a time.
    """

    unit = 1

    def __init__(self, source: Simulator, seed: int, options: Options) -> None:
        options.refuse_those_of_environments(source)
        self.source, self._seed, self._batch = source, seed, options.batch
        names: tuple[Any, ...] = tuple(range(source.stepped_states))
        initial = None if source.initial is None else tuple(source.initial.tolist())
        self.process = Process(
            (*names, END) if source.ends else names,
            tuple(range(source.n_actions)),
            source.gamma,
            source.reward_range,
            initial,
            source.ends,
            allowed=mask_of(source),
        )
        self.now = self.begin()

    @staticmethod
    def total(source: Simulator, samples: int | None, budget: int | None) -> int:
        """Return how many samples there will be, within the budget of the simulator."""
        total = asked(source.pairs, samples, budget)
        source.refuse_beyond_budget(total, WITHIN)
        return total

    @property
    def way(self) -> dict[str, Json]:
        """How many are stepped at a time, where that makes a difference."""
        return {"by": "draws", "batch": self._batch if self.source.vectorized else 1}

    def begin(self) -> Stage:
        """Return the stage before the first step."""
        return Stage(Gathered.nothing(self.process), place=_place_of(sample_stream(self._seed)))

    def advance(self, total: int, pause: Callable[[Stage], None]) -> None:
        """Draw one batch, or for a tenth of a second one by one."""
        rng = _generator_at(self._seed, self.now.place)
        if self.source.vectorized:
            self._many(total, rng)
        else:
            self._one_by_one(total, rng)

    def _many(self, total: int, rng: np.random.Generator) -> None:
        start = self.now.steps
        pair = self.source.row_of(np.arange(start, min(total, start + self._batch), dtype=np.int64) % self.source.pairs)
        successor, reward = self.source.steps(pair // self.source.n_actions, pair % self.source.n_actions, rng)
        self._add(pair * self.source.n_states + successor, reward, _place_of(rng))

    def _one_by_one(self, total: int, rng: np.random.Generator) -> None:
        source, answers = self.source, _Answers(rng)
        try:
            until, n = time.monotonic() + _PIECE, source.n_actions
            rows = None if mask_of(source) is None else source.row_of(np.arange(source.pairs)).tolist()
            for t in range(self.now.steps, min(total, self.now.steps + _MOST)):
                clock = answers.mark()
                if clock > until:
                    break
                place = t % source.pairs
                state, action = divmod(place if rows is None else rows[place], n)
                successor, reward = self._read(state, action, source.step(state, action, rng))
                answers.append((state * n + action) * source.n_states + successor, reward)
            answers.mark(now=True)
        finally:  # also where it is interrupted, or an answer is bad
            self._add(*answers.marked())

    def _read(self, state: int, action: int, answer: Any) -> tuple[int, float]:
        """Return next state and reward of a good answer, quickly; all others are looked at closely."""
        source, (low, high) = self.source, self.source.reward_range
        if type(answer) is tuple and len(answer) == 2 and not source.ends:
            successor, reward = answer
            are_numbers = type(successor) in _WHOLE and type(reward) in _REAL
            if are_numbers and 0 <= successor < source.n_states and low <= reward <= high:
                return int(successor), float(reward)
        where, what = np.array([state]), np.array([action])
        found, worth = source.checked(where, what, *source.read([answer]))
        return int(found[0]), float(worth[0])

    def _add(self, key: Any, reward: Any, place: dict[str, Any]) -> None:
        keys, rewards = np.asarray(key, dtype=np.int64), np.asarray(reward, dtype=np.float64)
        if keys.size:
            steps = self.now.steps + keys.size
            self.now = replace(self.now, gathered=self.now.gathered.after(keys, rewards), steps=steps, place=place)


class _Answers:
    """Good answers, and up to which of them the place of the generator is known."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._seen: list[tuple[int, float]] = []
        self._mark, self._next = (0, _place_of(rng)), 0.0

    def append(self, key: int, reward: float) -> None:
        self._seen.append((key, reward))

    def mark(self, now: bool = False) -> float:
        """Note the place between two steps, unless it was noted a moment ago; return the time."""
        clock = time.monotonic()
        if now or clock >= self._next:
            self._mark = len(self._seen), _place_of(self._rng)
            self._next = clock + _MARK
        return clock

    def marked(self) -> tuple[list[int], list[float], dict[str, Any]]:
        many, place = self._mark
        return [key for key, _ in self._seen[:many]], [reward for _, reward in self._seen[:many]], place


class CountDraws:
    """Samples that are counted at once, however many they are: of a table, or by the ``draw`` of any other source.

    Of a table all are drawn at once. What samples itself may take its time, so it is asked for a batch.
    """

    def __init__(self, source: Any, seed: int, options: Options) -> None:
        options.refuse_those_of_environments(source)
        self.source, self._seed, self._batch = source, seed, options.batch
        self._from, _ = source_of(source, None)
        labels = getattr(source, "labels", None)
        states = _names(getattr(labels, "states", None), source.n_states)
        actions = _names(getattr(labels, "actions", None), source.n_actions)
        initial = None if source.initial is None else tuple(np.asarray(source.initial).tolist())
        known = source.gamma, source.reward_range, initial
        self.process = Process(states, actions, *known, allowed=mask_of(source))
        self.now = self.begin()

    @staticmethod
    def total(source: Any, samples: int | None, budget: int | None) -> int:
        """Return how many samples there will be: as many of every pair."""
        pairs = pairs_of(source)
        total = asked(pairs, samples, budget)
        if total < pairs:
            raise InvalidInput(f"collect: budget must allow one sample of each of the {pairs} pairs, got {budget}.")
        return total - total % pairs

    @property
    def unit(self) -> int:
        """Every pair once."""
        return pairs_of(self.source)

    @property
    def way(self) -> dict[str, Json]:
        """How many are asked for at a time, where that makes a difference."""
        return {"by": "counts"} | ({"batch": self._batch} if self._from is self.source else {})

    def begin(self) -> Stage:
        """Return the stage before the first step."""
        return Stage(Gathered.nothing(self.process), place={"next": 0})

    def advance(self, total: int, pause: Callable[[Stage], None]) -> None:
        """Draw all that is missing, or a batch of it."""
        now, part = self.now, int(self.now.place["next"])
        calls = (total - now.steps) // self.unit
        if self._from is self.source:
            calls = min(calls, max(1, self._batch // self.unit))
        drawn = draw_from(self._from, calls, sample_stream(derived_seed("collect", self._seed, part)))
        if drawn.squares is not None and self.source.known_rewards is None:
            raise InvalidInput(
                f"collect: {type(self.source).__name__} draws means of rewards, and the rewards are kept. Let draw "
                "return an outcome for every reward, and no squares."
            )
        seen = drawn.count > 0
        key = (drawn.row * self.source.n_states + drawn.next_state)[seen].astype(np.int64)
        gathered = now.gathered.counting(key, drawn.reward[seen], drawn.count[seen].astype(np.int64), add_up=False)
        self.now = replace(now, gathered=gathered, steps=now.steps + calls * self.unit, place={"next": part + 1})


def mask_of(source: Any) -> tuple[tuple[bool, ...], ...] | None:
    """Return which actions each state has, as a process says it; None where all have all."""
    mask = allowed_of(source)
    return None if mask is None else tuple(map(tuple, mask.tolist()))


def _names(given: Sequence[str] | None, many: int) -> tuple[Any, ...]:
    """Return names that tell all apart, or numbers."""
    return tuple(given) if given and len(set(given)) == many else tuple(range(many))


def _place_of(rng: np.random.Generator) -> dict[str, Any]:
    """Return all that determines what a generator will draw, and what it will spawn."""
    seeds: Any = rng.bit_generator.seed_seq
    return {"generator": rng.bit_generator.state, "spawned": seeds.n_children_spawned}


def _generator_at(seed: int, place: Any) -> np.random.Generator:
    """Return the generator of a seed at a place."""
    seeds: Any = sample_stream(seed).bit_generator.seed_seq
    grown = np.random.SeedSequence(seeds.entropy, spawn_key=seeds.spawn_key, n_children_spawned=int(place["spawned"]))
    rng = np.random.Generator(np.random.PCG64DXSM(grown))
    rng.bit_generator.state = place["generator"]
    return rng
