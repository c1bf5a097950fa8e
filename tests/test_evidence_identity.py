"""Whose runs are shown: of this code, of this problem, on samples that were drawn, by workers that have a parent."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import joblib
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

import replicable_rl as rr
from replicable_rl.audit import read_audits
from replicable_rl.audit.sampled import ignores_sample_seed
from replicable_rl.cli import main
from replicable_rl.runs import ObjectSpec, made_with
from tests.documents import store_text

# --- workers end with their parent ----------------------------------------------------------------------------

ORPHANS = """
import os, pathlib, sys, time
import replicable_rl as rr

def train(shared_seed, sample_seed):
    (pathlib.Path(sys.argv[1]) / str(os.getpid())).touch()
    time.sleep(60)
    return [0]

rr.audit_callable(train, shared_seeds=20, n_jobs=2)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who is alive")
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = [sys.executable, "-W", "ignore", "-c", ORPHANS.replace("sys.argv[1]", repr(str(tmp_path)))]
    parent = subprocess.Popen(script, stderr=subprocess.DEVNULL)
    workers: list[int] = []
    try:
        until = time.monotonic() + 60
        while len(workers) < 2:
            assert parent.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
            workers = [int(file.name) for file in tmp_path.iterdir()]
        assert parent.pid not in workers
        parent.kill()
        until = time.monotonic() + 10
        while any(map(is_alive, workers)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not [pid for pid in workers if is_alive(pid)]
    finally:
        parent.kill()
        parent.wait()
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


# --- threads --------------------------------------------------------------------------------------------------

FEW = rr.PhasedVI(0.1, 0.01, calls=60, iterations=5)
EXPLORE = rr.RMax(0.2, 0.1, 10, episodes=20, rounds=4)
TWO: dict[str, Any] = {"n_states": 2, "n_actions": 2, "gamma": 0.5, "reward_range": (0.0, 1.0)}


class Stateful:
    """A step that leaves its answer in itself for a moment, and gives way to other threads meanwhile."""

    def __call__(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        self.drawn = rng.random()
        time.sleep(0.0)
        return int(self.drawn < 0.5), float(state)


def closing_over_state() -> Callable[..., tuple[int, float]]:
    held = [0.0]

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        held[0] = rng.random()
        time.sleep(0.0)
        return int(held[0] < 0.5), float(state)

    return step


class OwnSource(rr.Simulator):
    """Somebody's own source: what it asks for is kept in itself."""

    def draw(self, calls: int, rng: np.random.Generator) -> Any:
        self.calls = calls
        return super().draw(self.calls, rng)


def lake(**options: Any) -> rr.EpisodicEnv:
    return rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0), **options)


STEPPED: dict[str, tuple[Callable[[], Any], Any]] = {
    "environment": (lake, EXPLORE),
    "object": (lambda: rr.EpisodicEnv(gymnasium.make("FrozenLake-v1"), gamma=0.9, reward_range=(0.0, 1.0)), EXPLORE),
    "simulator": (lambda: rr.Simulator(Stateful(), **TWO), FEW),
    "closure": (lambda: rr.Simulator(closing_over_state(), **TWO), FEW),
    "source": (lambda: OwnSource(Stateful(), **TWO), FEW),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPPED)
def test_threads_find_what_one_thread_finds(name: str) -> None:
    make, algorithm = STEPPED[name]
    alone = rr.audit(make(), algorithm, shared_seeds=8)
    with joblib.parallel_config(backend="threading"):
        together = rr.audit(make(), algorithm, shared_seeds=8, n_jobs=4)
    assert len({run.fingerprints["value"] for run in alone.runs}) > 4  # there is something to tell apart
    assert together.runs == alone.runs


# --- nothing was sampled ----------------------------------------------------------------------------------------

CHAIN = rr.make("chain-v1")
NOTHING_DRAWN = "Nothing was fresh, for no run drew a sample: agreement says nothing about other samples here."
NOT_READ = "Nothing was fresh, for train does not read sample_seed: agreement says nothing about other samples here."


@dataclass(frozen=True)
class Lazy(rr.Algorithm):
    """Never asks for a sample, whatever it reports."""

    samples: int | None
    rho: float = 0.2

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.Run.of({"policy": [0] * source.n_states}, samples=self.samples)


class Busy(Lazy):
    """Draws, and makes nothing of it."""

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        source.play([0] * source.n_states, 5, 2, rng) if isinstance(source, rr.EpisodicEnv) else source.draw(5, rng)
        return super().solve(source, shared, rng)


class Spawning(Lazy):
    """Draws from children of its generator."""

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        source.draw(5, rng.spawn(1)[0])
        return super().solve(source, shared, rng)


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("samples", [None, 0, 1000])
@pytest.mark.parametrize("problem", [lambda: CHAIN, lake], ids=["table", "environment"])
def test_an_algorithm_that_never_draws_shows_nothing(problem: Callable[[], Any], samples: int | None) -> None:
    result = rr.audit(problem(), Lazy(samples), shared_seeds=60)
    assert {run.samples for run in result.runs} == {0}
    assert result.agreement().every_look.low > 0.9
    assert result.meets(0.8) is None
    assert "Not shown" in str(result)
    assert f"Warning: {NOTHING_DRAWN}" in flat(str(result))
    told = result.to_json()
    assert told["unsampled"] == NOTHING_DRAWN
    assert told["randomness"]["fresh"] == "nothing, for no run drew a sample"
    assert NOTHING_DRAWN.rstrip(".") in result.claim().statement


@pytest.mark.parametrize("algorithm", [Busy(10), Busy(None), Spawning(10)], ids=["draws", "silent", "spawns"])
def test_an_algorithm_that_draws_is_judged(algorithm: Lazy) -> None:
    result = rr.audit(CHAIN, algorithm, shared_seeds=60)
    assert {run.samples for run in result.runs} == {algorithm.samples}
    assert result.meets(0.8) is True
    assert "Met: it is at least 1 − ρ = 0.8." in flat(str(result))
    assert result.to_json()["unsampled"] is None
    assert result.to_json()["randomness"]["fresh"] == "every sample"


def test_a_store_remembers_that_nothing_was_sampled(tmp_path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [shared_seed % 2]

    made = rr.audit_callable(train, shared_seeds=60, rho=0.2, version="1", store=tmp_path / "runs.sqlite")
    (read,) = read_audits(rr.RunStore(tmp_path / "runs.sqlite"))
    for result in (made, read):
        assert result.meets(0.8) is None
        assert f"Warning: {NOT_READ}" in flat(str(result))
        assert result.to_json()["unsampled"] == NOT_READ
    page = store_text(tmp_path / "runs.sqlite")
    assert "Not shown" in page
    assert f"Warning: {NOT_READ}" in page
    assert "Met" not in page


class Trainers:
    def blind(self, shared_seed: int, sample_seed: int) -> list[int]:
        return [0]

    def seeing(self, shared_seed: int, sample_seed: int) -> list[int]:
        return [sample_seed % 2]

    def __call__(self, shared_seed: int, sample_seed: int, more: int = 0) -> list[int]:
        return [more]


def late(alpha: int, shared_seed: int, sample_seed: int) -> list[int]:
    return [alpha + shared_seed % 2]


def inner(shared_seed: int, sample_seed: int) -> list[int]:
    return [(lambda: sample_seed % 2)()]


def any_arguments(*seeds: int) -> list[int]:
    return [0]


IGNORES: dict[str, tuple[Any, bool]] = {
    "function": (lambda shared, sample: [0], True),
    "method": (Trainers().blind, True),
    "object": (Trainers(), True),
    "partial": (functools.partial(late, 1), True),
    "used": (lambda shared, sample: [sample], False),
    "used method": (Trainers().seeing, False),
    "used inside": (inner, False),
    "any arguments": (any_arguments, False),
}


@pytest.mark.parametrize("name", IGNORES)
def test_training_code_that_does_not_read_its_seed(name: str) -> None:
    train, ignores = IGNORES[name]
    assert ignores_sample_seed(train) is ignores


def test_runs_that_are_identical_to_the_last_bit_are_worth_a_look() -> None:
    warning = "All pairs are identical, value and all: check that train draws its data from sample_seed."

    def fixed(shared_seed: int, sample_seed: int) -> Any:
        return np.random.default_rng([shared_seed, 0 * sample_seed]).random((3, 2))

    def drawn(shared_seed: int, sample_seed: int) -> Any:
        return np.random.default_rng([shared_seed, sample_seed]).random((3, 2))

    same, differ = (rr.audit_callable(train, shared_seeds=60, rho=0.2) for train in (fixed, drawn))
    assert warning in flat(same.text(details=True))
    assert same.to_json()["suspicion"] == warning
    assert same.meets(0.8) is True  # as a rounding algorithm would; only its author knows
    assert warning not in flat(differ.text(details=True))
    actions = rr.audit_callable(lambda shared, sample: [0 * sample], shared_seeds=60)
    assert actions.to_json()["suspicion"] is None  # a policy may well be the same


# --- what made the runs ------------------------------------------------------------------------------------------


def test_a_resume_under_another_version_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, here = tmp_path / "runs.sqlite", dict(made_with())
    command = ["audit", "chain-v1", "phased-vi-v1", "--epsilon", "0.1", "--delta", "0.01", "--store", str(store)]
    assert main([*command, "--shared-seeds", "3"]) == 0
    assert "were made with" not in capsys.readouterr().out
    old = f"replicable-rl {here['replicable-rl']} (here 99.0), numpy {here['numpy']} (here 98.0)"
    other = here | {"replicable-rl": "99.0", "numpy": "98.0"}
    for module in ("runs.run", "audit.jobs", "audit.sampled"):
        monkeypatch.setattr(sys.modules[f"replicable_rl.{module}"], "made_with", lambda: other)
    why = "Two runs may differ because of that, and not because of their samples."
    assert main([*command, "--shared-seeds", "3"]) == 0  # nothing to make
    assert f"6 of 6 runs were made with {old}. {why}" in flat(capsys.readouterr().out)
    assert main([*command, "--shared-seeds", "5"]) == 0
    assert f"6 of 10 runs were made with {old}. {why}" in flat(capsys.readouterr().out)
    (read,) = read_audits(rr.RunStore(store))
    assert read.to_json()["made_with"] == [{"runs": 6, **here}, {"runs": 4, **other}]
    assert [run.made_with for run in read.runs] == [here] * 6 + [other] * 4


# --- problems that call themselves what they are not --------------------------------------------------------------

TABLE = rr.TabularMDP.from_dense([[[0.5, 0.5]] * 2] * 2, [[0.0, 1.0]] * 2, gamma=0.5, layout="sas")
SWEEP = rr.PhasedVI(0.1, 0.01, calls=5, iterations=3)
FALSE_NAMES = {
    "ours": ObjectSpec("chain-v1"),
    "with parameters": ObjectSpec("riverswim-v1", {"n_states": 4}),
    "with wrong parameters": ObjectSpec("chain-v1", {"colour": "red"}),
    "gymnasium": ObjectSpec("gymnasium/FrozenLake-v1", {"gamma": 0.9}),
    "digest": ObjectSpec("mdp", {"digest": "0" * 64}),
    "what nobody knows": ObjectSpec("of-my-own", {"p": 0.5}),
}


@pytest.mark.parametrize("name", FALSE_NAMES)
def test_a_table_under_the_name_of_another_problem_is_refused_by_a_store(name: str, tmp_path: Path) -> None:
    store, table = tmp_path / "runs.sqlite", TABLE.with_source(FALSE_NAMES[name])
    refusal = "the table calls itself .*, which is another problem. Leave its source out"
    with pytest.raises(rr.InvalidInput, match=f"^audit: {refusal}"):
        rr.audit(table, SWEEP, shared_seeds=2, store=store)
    with pytest.raises(rr.InvalidInput, match=f"^audit_callable: {refusal}"):
        rr.audit_callable(lambda shared, sample: [0, 0], problem=table, version="1", shared_seeds=2, store=store)
    assert not store.exists()
    assert len(rr.audit(table, SWEEP, shared_seeds=2).runs) == 4
    assert len(rr.audit(TABLE, SWEEP, shared_seeds=2, store=store).runs) == 4


def test_tables_under_their_own_names_are_kept(tmp_path: Path) -> None:
    for table in (CHAIN, TABLE, rr.from_gymnasium("FrozenLake-v1", gamma=0.9)):
        assert len(rr.audit(table, SWEEP, shared_seeds=2, store=tmp_path / "runs.sqlite").runs) == 4


class Stuck(FrozenLakeEnv):
    """A lake whose table somebody has edited: no step leads anywhere."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for state, actions in self.P.items():
            for action in actions:
                actions[action] = [(1.0, state, 0.0, False)]


def test_an_id_that_no_longer_stands_for_code_of_gymnasium_needs_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gymnasium.registry["FrozenLake-v1"], "entry_point", Stuck)
    with pytest.raises(rr.InvalidInput, match="Give version='1'"):
        rr.audit(lake(), EXPLORE, shared_seeds=2, store=tmp_path / "runs.sqlite")


@dataclass(frozen=True)
class Recalling(rr.Algorithm):
    """An algorithm that remembers, where it does not count as a setting."""

    calls: int
    version: ClassVar[str] = "1"

    @functools.cached_property
    def memo(self) -> dict[int, int]:
        return {}

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        self.memo[len(self.memo)] = self.calls
        return rr.PhasedVI(0.1, 0.01, calls=self.calls, iterations=3).solve(source, shared, rng)


def test_an_algorithm_may_remember(tmp_path: Path) -> None:
    algorithm, store = Recalling(5), tmp_path / "runs.sqlite"
    one = rr.audit(CHAIN, algorithm, shared_seeds=2, store=store)
    assert rr.audit(CHAIN, algorithm, shared_seeds=2, store=store).seconds == one.seconds
    assert rr.audit(CHAIN, algorithm, shared_seeds=3, store=store).runs[:4] == one.runs
    assert len(algorithm.memo) == 6
