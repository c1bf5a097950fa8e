"""Code that keeps something from one call to the next: an audit makes a few runs again, and says so first."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, read_audits, run_audits, workers
from replicable_rl.training.callables import callable_spec

pytestmark = pytest.mark.again
SENTENCE = "The same seeds gave other results"
Train = Callable[[int, int], list[int]]


def draw(sample: int) -> list[int]:
    return [int(np.random.default_rng(sample).integers(1009))]


def in_global() -> Train:
    memory: dict[str, list[int]] = {}
    return lambda shared_seed, sample_seed: memory.setdefault("policy", draw(sample_seed))


def by_shared_seed() -> Train:
    memory: dict[int, list[int]] = {}
    return lambda shared_seed, sample_seed: memory.setdefault(shared_seed, draw(sample_seed))


def in_default() -> Train:
    def train(shared_seed: int, sample_seed: int, memory: list[Any] = []) -> list[int]:  # noqa: B006
        memory.append(draw(sample_seed))
        return memory[0]  # type: ignore[no-any-return]

    return train


class Kept:
    policy: list[int] | None = None

    def __call__(self, shared_seed: int, sample_seed: int) -> list[int]:
        self.policy = self.policy or draw(sample_seed)
        return self.policy


def in_cache() -> Train:
    samples: list[int] = []

    @functools.lru_cache(maxsize=1)
    def loaded() -> list[int]:
        return draw(samples[-1])

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        samples.append(sample_seed)
        return loaded()

    return train


def from_a_stream() -> Train:
    stream = itertools.count()
    return lambda shared_seed, sample_seed: [next(stream) % 1009 + sample_seed % 1]


REMEMBER: dict[str, Callable[[], Train]] = {
    "global": in_global,
    "shared seed": by_shared_seed,
    "default": in_default,
    "object": Kept,
    "method": lambda: Kept().__call__,
    "cache": in_cache,
    "stream": from_a_stream,
    "numpy": lambda: lambda shared, sample: [int(np.random.randint(1009)) + sample % 1],  # noqa: NPY002
    "no seed": lambda: lambda shared, sample: [int(np.random.default_rng().integers(2**60)) + sample % 1],
    "process": lambda: lambda shared, sample: [os.getpid() + sample % 1],
}


def is_found(result: AuditResult) -> None:
    assert result.warnings[0].startswith(SENTENCE)
    assert SENTENCE in str(result)
    assert result.verdict() is result.meets(0.05) is result.meets(0.95) is None
    assert SENTENCE in str(result.claim())
    assert result.to_json()["warnings"][0].startswith(SENTENCE)


@pytest.mark.parametrize("name", REMEMBER)
def test_code_that_remembers_is_found(name: str, tmp_path: Path) -> None:
    """In a store, again in the same program, and when the store is read."""
    train = REMEMBER[name]()
    options: dict[str, Any] = {"shared_seeds": 40, "rho": 0.2, "name": "train"}
    is_found(rr.audit_callable(train, store=tmp_path / "runs.sqlite", version="1", **options))
    is_found(rr.audit_callable(train, **options))
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        (result,) = read_audits(opened)
        is_found(result)


def kept_by_worker(shared_seed: int, sample_seed: int, memory: dict[int, int] = {}) -> list[int]:  # noqa: B006
    return [memory.setdefault(0, sample_seed % 1009)]


def test_two_processes_that_remember_are_found() -> None:
    for n_jobs in (2, None):
        is_found(rr.audit_callable(kept_by_worker, shared_seeds=60, rho=0.2, n_jobs=n_jobs))


@dataclass(frozen=True)
class Cached(rr.Algorithm):
    """An algorithm that keeps its first answer."""

    version: ClassVar[str] = "1"
    first: ClassVar[list[rr.Run]] = []

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        self.first.append(rr.Run.of({"policy": rng.integers(2, size=source.n_states)}))
        return self.first[0]


def test_algorithms_and_simulators_of_ones_own_are_made_again_and_ours_are_not() -> None:
    chain = rr.make("chain-v1")
    is_found(rr.audit(chain, Cached(), shared_seeds=20))
    hidden = [0]

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        hidden[0] += 1
        return int(rng.integers(2)), float(hidden[0] > 100)

    world = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0), version="1")
    is_found(rr.audit(world, rr.PhasedVI(0.3, 0.1, calls=30, iterations=2), shared_seeds=20))
    assert rr.audit(chain, rr.PhasedVI(0.1, 0.01), shared_seeds=20).repeats == ()


# --- what is no memory ---------------------------------------------------------------------------------------------


@functools.lru_cache
def remembered(sample_seed: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(sample_seed).integers(1, size=3).tolist())


def locked(shared_seed: int, sample_seed: int, lock: Any = threading.Lock()) -> list[int]:  # noqa: B008
    with lock:
        return [1 + sample_seed % 1]


def seeded(shared_seed: int, sample_seed: int) -> Any:
    np.random.seed(sample_seed)  # noqa: NPY002
    print("trained")
    return (np.random.random(3) > 2).astype(int)  # noqa: NPY002


HONEST: dict[str, Callable[[int, int], Any]] = {
    "cache by seed": lambda shared_seed, sample_seed: list(remembered(sample_seed)),
    "lock": locked,
    "seeded generator": seeded,
    "partial": functools.partial(locked, lock=threading.Lock()),
}


@pytest.mark.parametrize("name", HONEST)
def test_code_that_does_not_is_left_alone(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    result = rr.audit_callable(HONEST[name], shared_seeds=40)
    assert all(repeat.same for repeat in result.repeats)
    assert 3 <= len(result.repeats) <= 12
    assert result.meets(0.8) is True
    assert capfd.readouterr().out in ("", "trained\n" * 80)  # and nothing is printed twice


def test_every_one_of_several_audits_is_made_again() -> None:
    trains: list[Train] = [locked, seeded, Kept()]
    specs = [callable_spec(train, shared_seeds=20, name=str(i)) for i, train in enumerate(trains)]
    results = list(run_audits(specs, rr.RunStore()))
    assert [{repeat.same for repeat in result.repeats} for result in results[:2]] == [{True}, {True}]
    is_found(results[2])


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()  # nobody has asked how it ended
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_repeats_are_few_each_in_a_process_of_its_own_and_leave_none(tmp_path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        (tmp_path / f"{os.getpid()} {time.monotonic_ns()}").touch()
        return [sample_seed % 1]

    rr.audit_callable(train, shared_seeds=5)
    pids = [int(path.name.partition(" ")[0]) for path in tmp_path.iterdir()]
    again = [pid for pid in pids if pid != os.getpid()]
    assert 0 < len(again) == len(set(again)) <= len(pids) / 2 - 1
    assert not any(map(is_running, again))


@pytest.mark.parametrize(
    ("elsewhere", "reason"),
    [
        (lambda: os._exit(0), "the process ended"),
        (lambda: time.sleep(1000.0), "it did not end"),
        (lambda: dict[str, int]()["GPU"], "KeyError"),
    ],
)
def test_runs_that_cannot_be_made_again_are_a_doubt(
    elsewhere: Callable[[], Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_REPEAT", 1.0)
    here = os.getpid()

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        if os.getpid() != here:
            elsewhere()
        return [sample_seed % 1]

    result = rr.audit_callable(train, shared_seeds=40, rho=0.2)
    assert reason in result.warnings[0]
    assert "No run could be made again" in result.warnings[0]
    assert [repeat.same for repeat in result.repeats] == [None]
    assert result.verdict() is True
