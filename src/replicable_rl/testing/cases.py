"""What the checks stand on: the runs of one algorithm on one problem, and how runs are compared."""

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from replicable_rl.problem.source import Source
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.runs import Algorithm, Run
from replicable_rl.solve import source_of
from replicable_rl.testing.processes import Worker
from replicable_rl.training.lending import lent_generators, seed_generators
from replicable_rl.wording import brief, sentence

Seeds = tuple[int, int]  # shared, sample

SEEDS: Seeds = (2023, 1)
OTHER_SEEDS: Seeds = (2024, 2)
SAMPLE_SEEDS = range(101, 109)  # of runs with the shared seed of SEEDS and other samples


def with_seeds(seeds: Seeds = SEEDS) -> str:
    """Name the seeds of a run in a sentence."""
    return f"with shared seed {seeds[0]} and sample seed {seeds[1]}"


class Failed(Exception):
    """The algorithm breaks a rule; the message says what was seen and what to do."""


class DoesNotApply(Exception):
    """The check says nothing about this algorithm; the message says why."""


class Refused(Exception):
    """The algorithm does not take this problem."""


@dataclass(frozen=True)
class Case:
    """An algorithm on a problem, with the runs that several checks look at."""

    algorithm: Algorithm
    problem: Source
    neighbour: Source  # another problem, to be run in between
    level: str | None  # what a claimed rho is about; None: what the claim says
    worker: Worker = field(default_factory=Worker, compare=False)

    def solve(self, seeds: Seeds, rng: np.random.Generator | None = None) -> Run:
        """Run in the world as it is."""
        fresh = sample_stream(seeds[1]) if rng is None else rng
        return self.algorithm.solve(source_of(self.problem, self.algorithm), SharedRandomness(seeds[0]), fresh)

    def run(self, seeds: Seeds = SEEDS, *, world: int = 0) -> Run:
        """Run with the global generators seeded by ``world``, and leave those as they were."""
        with global_world(world):
            return self.solve(seeds)

    @cached_property
    def reference(self) -> Run:
        """The run that others are compared with."""
        return self.run()

    @cached_property
    def others(self) -> tuple[Run, ...]:
        """Runs with the shared seed of the reference and other samples."""
        return tuple(self.run((SEEDS[0], sample)) for sample in SAMPLE_SEEDS)


def differences(one: Run, two: Run) -> str:
    """Return the names of what differs between two runs, '' if nothing does."""
    return unlike(recorded(one), recorded(two))


def recorded(run: Run) -> dict[str, str]:
    """Return the parts of a run as texts, which differ if a bit does.

    Everything that is recorded counts, the history and the sentences too: a time of day in them would make
    two records of one run.
    """
    parts = run.to_json()
    names = ("samples", "status", "claims", "history")
    return dict(run.fingerprints) | {name: repr(parts[name]) for name in names}


def unlike(one: dict[str, str], two: dict[str, str]) -> str:
    """Return the names of the parts that differ, '' if none does."""
    return ", ".join(name for name in dict.fromkeys([*one, *two]) if one.get(name) != two.get(name))


def attributes(algorithm: object) -> dict[str, object]:
    """Return every attribute of an object in a form that shows later whether it changed.

    What cannot be pickled is known by where it is; a `functools.cached_property` may fill itself in.
    """
    names = set(getattr(algorithm, "__dict__", ()))
    for kind in type(algorithm).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else set(slots)
    return {
        name: _snapshot(getattr(algorithm, name))
        for name in names
        if hasattr(algorithm, name) and not isinstance(getattr(type(algorithm), name, None), cached_property)
    }


def _snapshot(value: object) -> object:
    try:
        return pickle.dumps(value)
    except Exception:  # whatever an object raises when it does not want to be pickled
        return id(value)


@contextmanager
def global_world(seed: int) -> Iterator[None]:
    """Seed the global generators of Python and numpy inside the block, and put them back after it."""
    with lent_generators():
        seed_generators(seed)
        yield


def global_states() -> dict[str, object]:
    """Return the states of the global generators, by their names."""
    return {"random": random.getstate(), "np.random": pickle.dumps(np.random.get_state())}  # noqa: NPY002


def short(error: object) -> str:
    """Return an exception, or a text, on one line of reasonable length that ends with a full stop."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    return f"{brief(sentence(text), 200)}."
