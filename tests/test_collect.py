"""Collections: every step counted once, kept as a data set, stopped anywhere, and gone on with exactly there."""

from __future__ import annotations

import errno
import itertools
import math
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from benchmarks import collecting
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.cli import main
from replicable_rl.collect import draws, kept
from replicable_rl.collect import gathered as gathered_module
from replicable_rl.collect.gathered import Gathered
from replicable_rl.data import Process
from replicable_rl.errors import InvalidFile, InvalidInput, SampleSizeTooLarge
from replicable_rl.files import locked
from replicable_rl.progress import listening
from replicable_rl.randomness import sample_stream
from replicable_rl.records import ObjectSpec
from replicable_rl.sampling import Counts, OutcomeCounts, Table, stints
from tests.mutants import plant
from tests.statistics import ALPHA, SEED, goodness_of_fit

LAKE: dict[str, Any] = {"gamma": 0.95, "reward_range": (0.0, 1.0)}
MODES = list(AutoresetMode)
Answer = tuple[Any, ...]


def few(state: int, action: int, rng: np.random.Generator) -> Answer:
    """Rewards of few values, and a varying number of random numbers a step."""
    return int(rng.integers(3)), float(rng.random() < 0.5) if action else 0.25


def noisy(state: int, action: int, rng: np.random.Generator) -> Answer:
    return int(rng.integers(3)), float(rng.random())


def ending(state: int, action: int, rng: np.random.Generator) -> Answer:
    return int(rng.integers(3)), float(rng.random()), bool(rng.random() < 0.3)


def many(states: Any, actions: Any, rng: np.random.Generator) -> Answer:
    return rng.integers(0, 3, size=states.size), rng.random(states.size)


class Plant:
    """A simulator that stops at some calls, and counts those that it answered."""

    def __init__(self, step: Callable[..., Answer], stops: Any = (), error: type[BaseException] = KeyboardInterrupt):
        self._step, self._stops, self._error = step, set(stops), error
        self.calls = self.answers = 0

    def __call__(self, state: Any, action: Any, rng: np.random.Generator) -> Answer:
        self.calls += 1
        if self.calls in self._stops:
            raise self._error
        answer = self._step(state, action, rng)
        self.answers += np.size(state)
        return answer


def simulator(step: Any, **options: Any) -> rr.Simulator:
    sizes: dict[str, Any] = {"n_states": 3, "n_actions": 2, "gamma": 0.9, "reward_range": (0.0, 1.0), "version": "1"}
    return rr.Simulator(step, name="plant", **{**sizes, **options})


def insist(source: Any, *arguments: Any, **options: Any) -> rr.Dataset:
    """Collect, and again whenever that is interrupted."""
    while True:
        try:
            return rr.collect(source, *arguments, **options)
        except KeyboardInterrupt:
            rr.load_dataset(options["keep"])


class Corridor(gymnasium.Env[Any, Any]):
    """States 0, 1, 2, ... without chance: action 1 goes on, and an episode ends, or is cut, after some steps."""

    def __init__(self, terminates: int = 99, truncates: int = 99, sleep: float = 0.0) -> None:
        self.observation_space, self.action_space = Discrete(6), Discrete(2)
        self._ends, self._sleep = (terminates, truncates), sleep
        self.steps = self.resets = self.at = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets, self.at = self.resets + 1, 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert not self.at >= min(self._ends), "stepped after the end"
        time.sleep(self._sleep * self.np_random.random())
        self.steps += 1
        self.at += int(action)
        return self.at, float(self.at == self._ends[0]), self.at == self._ends[0], self.at == self._ends[1], {}


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def transitions(data: rr.Dataset) -> dict[tuple[Any, Any, Any, float], int]:
    """Return (state, action, next state, reward) -> how often, by their names."""
    states, actions = data.process.states, data.process.actions
    found = {}
    for key, reward, count in zip(data.key.tolist(), data.reward.tolist(), data.count.tolist(), strict=True):
        pair, successor = divmod(key, data.n_states)
        state, action = divmod(pair, data.n_actions)
        found[states[state], actions[action], states[successor], reward] = count
    return found


# --- what is drawn --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "budget", "least"), [(50, None, 50), (None, 300, 50), (None, 304, 50)])
def test_every_pair_has_its_samples(samples: int | None, budget: int | None, least: int) -> None:
    plain = Plant(few)
    data = rr.collect(simulator(plain), samples, budget=budget, sample_seed=1)
    assert plain.answers == data.rows == (budget or 300)
    extra = np.arange(6).reshape(3, 2) < data.rows - 300  # the rest of a budget goes to the first pairs
    assert (data.visits == least + extra).all()
    assert {reward for (_, action, _, reward) in transitions(data) if action == 0} == {0.25}


@pytest.mark.parametrize("step", [few, noisy, ending])
def test_samples_are_those_of_the_steps(step: Any) -> None:
    """Against the steps themselves, made one after the other with the generator of the seed."""
    ends = step is ending
    data = rr.collect(simulator(step, ends=ends), 300, sample_seed=5)
    rng = sample_stream(5)
    seen: dict[tuple[int, int, Any], list[float]] = {}
    for t in range(1800):
        state, action = divmod(t % 6, 2)
        successor, reward, *done = step(state, action, rng)
        seen.setdefault((state, action, "(end)" if any(done) else successor), []).append(reward)
    by_hand = {key: (len(rewards), math.fsum(rewards) / len(rewards)) for key, rewards in seen.items()}
    found: dict[Any, tuple[int, float]] = {}
    for (s, a, t, reward), count in transitions(data).items():
        n, mean = found.get((s, a, t), (0, 0.0))
        found[s, a, t] = n + count, (n * mean + count * reward) / (n + count)
    assert found.keys() == by_hand.keys()
    for key, (count, mean) in by_hand.items():
        assert found[key][0] == count
        assert found[key][1] == pytest.approx(mean, rel=1e-12)
    assert data.added_up == (step is not few)
    assert data.process.ends == ends


def test_a_table_is_counted_at_once() -> None:
    mdp = rr.make("two-goals-v1")
    data = rr.collect(mdp, 10**9, sample_seed=1)
    assert (data.visits == 10**9).all()
    assert data.process.state_names == mdp.labels.states
    assert rr.collect(mdp, budget=100, sample_seed=1).rows == 96


def test_an_environment_has_the_law_of_its_table() -> None:
    table = rr.from_gymnasium("FrozenLake-v1", gamma=0.95)
    weights = np.tile([0.1, 0.4, 0.4, 0.1], (17, 1))
    for env in ("FrozenLake-v1", gymnasium.make_vec("FrozenLake-v1", 7, "sync")):
        data = rr.collect(rr.EpisodicEnv(env, **LAKE), budget=20_000, policy=weights, sample_seed=SEED)
        assert 20_000 - data.rows < 7
        seen = np.zeros((17 * 4, 17))
        np.add.at(seen.reshape(-1), data.key, data.count)
        for row in np.flatnonzero(seen.sum(axis=1) >= 50):
            expected = np.zeros(17)
            outcomes = table.rows.of_row(int(row))
            np.add.at(expected, table.rows.next_state[outcomes], table.rows.probability[outcomes])
            assert goodness_of_fit(seen[row], expected * seen[row].sum()) > ALPHA / 68
        assert data.starts is not None
        assert data.starts[0] == data.starts.sum()


def test_collected_samples_decide_and_are_diagnosed() -> None:
    data = rr.collect(rr.EpisodicEnv("FrozenLake-v1", **LAKE), budget=40_000, sample_seed=2)
    run = rr.solve(data, rr.PlugInPolicy(0.001, 0.05, 0.2), shared_seed=1)
    table = rr.from_gymnasium("FrozenLake-v1", gamma=0.95)
    best = rr.evaluate_policy(table, rr.optimal_values(table).policy).expected_return
    assert rr.evaluate_policy(table, run.policy).expected_return > 0.7 * best  # it found the goal
    found = rr.diagnose(data, resamples=20)
    assert found.summary.rows == 40_000
    assert 0.0 <= float(found.agreement) <= 1.0


# --- stopped and resumed ---------------------------------------------------------------------------------

WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "few rewards": (few, {}),
    "many rewards": (noisy, {}),
    "ends": (ending, {"ends": True}),
    "vectorized": (many, {"vectorized": True}),
}


@pytest.mark.parametrize("way", WAYS)
def test_interrupted_and_resumed_is_uninterrupted(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_OFTEN", 0.0)  # written after every piece
    step, options = WAYS[way]
    batch = 64
    whole = rr.collect(simulator(step, **options), 700, sample_seed=9, batch=batch)
    calls = 4200 // batch if way == "vectorized" else 4200
    stops = np.random.default_rng(SEED).integers(1, calls, size=8).tolist()
    machine = Plant(step, stops)
    data = insist(simulator(machine, **options), 700, sample_seed=9, batch=batch, keep=tmp_path / "kept.npz")
    assert data == whole == rr.load_dataset(tmp_path / "kept.npz")
    assert data.reward.tobytes() == whole.reward.tobytes()
    assert names(tmp_path) == {"kept.npz"}
    machine.calls = 0
    assert rr.collect(simulator(machine, **options), 700, batch=batch, keep=tmp_path / "kept.npz") == whole
    assert machine.calls == 0  # finished: not a single step


def test_expensive_samples_are_drawn_once(tmp_path: Path) -> None:
    """Every step takes longer than the place of a generator is left unnoted."""

    def slow(state: int, action: int, rng: np.random.Generator) -> Answer:
        time.sleep(2 * draws._MARK)
        return noisy(state, action, rng)

    machine = Plant(slow, (3, 20, 21, 100, 119), RuntimeError)
    for _ in range(5):
        before = machine.answers
        with pytest.raises(RuntimeError):
            rr.collect(simulator(machine), 20, sample_seed=1, keep=tmp_path / "kept.npz")
        assert rr.load_dataset(tmp_path / "kept.npz").rows == machine.answers >= before
    assert rr.collect(simulator(machine), 20, keep=tmp_path / "kept.npz") == rr.collect(
        simulator(noisy), 20, sample_seed=1
    )
    assert machine.answers == 120


def test_a_generator_that_spawned_never_spawns_the_same_again(tmp_path: Path) -> None:
    def spawning(state: int, action: int, rng: np.random.Generator) -> Answer:
        return 0, float(rng.spawn(1)[0].random())

    stopped = Plant(spawning, (40, 90))
    options: dict[str, Any] = {"sample_seed": 3, "keep": tmp_path / "kept.npz"}
    assert insist(simulator(stopped), 30, **options) == rr.collect(simulator(spawning), 30, sample_seed=3)


@pytest.mark.parametrize("step", [few, noisy])
def test_more_samples_go_on_from_those_there(step: Any, tmp_path: Path) -> None:
    machine = Plant(step)
    first = rr.collect(simulator(machine), 100, sample_seed=4, keep=tmp_path / "kept.npz")
    more = rr.collect(simulator(machine), 250, keep=tmp_path / "kept.npz")
    assert (first.rows, more.rows, machine.answers) == (600, 1500, 1500)
    assert more == rr.collect(simulator(step), 250, sample_seed=4)


def test_more_of_a_table_and_of_an_environment(tmp_path: Path) -> None:
    for source in (rr.make("chain-v1"), rr.EpisodicEnv("FrozenLake-v1", **LAKE)):
        path = tmp_path / f"{type(source).__name__}.npz"
        first, second = (rr.collect(source, budget=budget, sample_seed=4, keep=path) for budget in (1000, 5000))
        assert (first.rows, second.rows) == (1000, 5000)
        assert (second.visits >= first.visits).all()
        table = transitions(second)
        assert all(table[key] >= count for key, count in transitions(first).items())


def test_an_interrupted_environment_keeps_every_step(tmp_path: Path) -> None:
    """The stint ends where it was interrupted: its steps are kept, and the next one begins."""

    class Stopping(Corridor):
        stops: tuple[int, ...] = (10, 11, 57, 110)

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            if self.steps in self.stops:
                self.stops = tuple(one for one in self.stops if one != self.steps)
                raise KeyboardInterrupt
            return super().step(action)

    made = Stopping(terminates=3)
    env = rr.EpisodicEnv(made, version="1", **LAKE)
    data = insist(env, budget=150, horizon=20, policy=[1] * 7, sample_seed=1, keep=tmp_path / "kept.npz")
    assert made.steps == data.rows == 150
    assert not made.stops
    seen = Counter({key[:3]: count for key, count in transitions(data).items()})
    assert set(seen) == {(0, 1, 1), (1, 1, 2), (2, 1, "(end)")}
    assert seen[0, 1, 1] >= seen[1, 1, 2] >= seen[2, 1, "(end)"] >= seen[0, 1, 1] - 12  # stints that were cut


KILLED = """
import sys, time
import numpy as np
import replicable_rl as rr
from replicable_rl.collect import kept

kept._OFTEN = 0.0

def step(state, action, rng):
    time.sleep(1e-4)
    return int(rng.integers(3)), float(rng.random())

def source(kind):
    if kind == "simulator":
        return rr.Simulator(step, n_states=3, n_actions=2, gamma=0.9, reward_range=(0, 1), version="1")
    return rr.EpisodicEnv("FrozenLake-v1", gamma=0.95, reward_range=(0, 1))

if __name__ == "__main__":
    kept._SHARE = 0.0
    rr.collect(source(sys.argv[1]), budget=int(sys.argv[2]), sample_seed=7, keep=sys.argv[3])
"""


def started(script: Path, *arguments: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(script), *map(str, arguments)], cwd=script.parent)


def rows_of(path: Path) -> int:
    return rr.load_dataset(path).rows if path.exists() else 0


@pytest.mark.parametrize(("kind", "budget"), [("simulator", 3000), ("environment", 4000)])
def test_killed_and_resumed_is_uninterrupted(kind: str, budget: int, tmp_path: Path) -> None:
    """kill -9 after some new samples, at a random moment; whatever is there is whole, and never less than before."""
    script, path = tmp_path / "killed.py", tmp_path / "kept.npz"
    script.write_text(KILLED)
    rng, kills, rows = np.random.default_rng(SEED), 0, 0
    while kills < 2:
        process = started(script, kind, budget, path)
        while process.poll() is None and rows_of(path) <= rows:
            time.sleep(0.002)
        time.sleep(float(rng.random()) * 0.05)
        process.kill()
        if process.wait() == 0:
            break
        kills, before, rows = kills + 1, rows, rows_of(path)
        assert rows >= before
    assert kills >= 1
    space: dict[str, Any] = {"__name__": "killed"}
    exec(compile(KILLED, str(script), "exec"), space)
    whole = rr.collect(space["source"](kind), budget=budget, sample_seed=7)
    assert started(script, kind, budget, path).wait() == 0
    assert rr.load_dataset(path) == whole


def test_a_long_stint_is_written_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle, it ends with what was written; the next one begins, and no step is counted twice."""
    monkeypatch.setattr(kept, "_SELDOM", 0.0)
    monkeypatch.setattr(kept, "_SHARE", 0.0)
    monkeypatch.setattr(stints, "_PAUSE", 0.0)
    path, copy = tmp_path / "kept.npz", tmp_path / "copy.npz"

    class Copying(Corridor):
        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            if self.steps == 25:  # what a kill would leave behind
                copy.write_bytes(path.read_bytes())
            return super().step(action)

    options: dict[str, Any] = {"budget": 60, "horizon": 50, "policy": [1] * 7, "sample_seed": 1}
    env = rr.EpisodicEnv(Copying(terminates=3), version="1", **LAKE)
    whole = rr.collect(env, keep=path, **options)
    assert whole.rows == 60
    assert rr.load_dataset(copy).rows == 25
    again = Copying(terminates=3)
    data = rr.collect(rr.EpisodicEnv(again, version="1", **LAKE), keep=copy, **options)
    assert (data.rows, again.steps) == (60, 35)
    monkeypatch.undo()
    assert rr.collect(rr.EpisodicEnv(Copying(terminates=3), version="1", **LAKE), **options) == whole


def test_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    words = ["collect", "FrozenLake-v1", "--stepped", "--gamma", "0.95", "--reward-range", "0", "1", "--budget"]
    path = tmp_path / "lake.npz"
    run = [sys.executable, "-c", "import sys; from replicable_rl.cli import main; sys.exit(main())", *words]
    process = subprocess.Popen([*run, "1e9", "-o", str(path)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    while process.poll() is None and rows_of(path) == 0:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1].decode()
    assert process.returncode == 130
    assert said.splitlines()[0] == f"Samples are kept in {path}; the same command resumes."
    rows = rr.load_dataset(path).rows
    assert main([*words, str(rows + 10), "-o", str(path)]) == 0
    assert rr.load_dataset(path).rows == rows + 10


# --- full disks, two writers, strange files ----------------------------------------------------------------


def test_a_full_disk_loses_what_came_after_the_last_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_OFTEN", 0.0)
    monkeypatch.setattr(kept, "_SHARE", 0.0)
    writes, save = 0, np.savez

    def full(stream: Any, **arrays: Any) -> None:
        nonlocal writes
        writes += 1
        if writes in (3, 5):
            stream.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(stream, **arrays)

    monkeypatch.setattr("numpy.savez", full)
    path, source = tmp_path / "kept.npz", simulator(many, vectorized=True)
    for rows in (50, 100):
        with pytest.raises(
            InvalidFile, match=r"kept\.npz: cannot be written \(No space left on device\)\. What was"
        ) as e:
            rr.collect(source, 100, sample_seed=1, keep=path, batch=50)
        assert "\n" not in str(e.value)
        assert rr.load_dataset(path).rows == rows
        assert names(tmp_path) == {"kept.npz"}
    assert rr.collect(source, 100, keep=path, batch=50) == rr.collect(source, 100, sample_seed=1, batch=50)


def test_an_interruption_on_a_full_disk_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.npz"
    rr.collect(simulator(Plant(few)), 10, sample_seed=1, keep=path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.savez", full)
    with pytest.raises(KeyboardInterrupt) as stopped:
        rr.collect(simulator(Plant(few, [50])), 100, keep=path)
    assert "No space left on device" in stopped.value.__notes__[0]
    assert rr.load_dataset(path).rows == 60
    with pytest.raises(InvalidFile, match="No space left"):  # before a sample is drawn
        rr.collect(simulator(Plant(few, [1])), 10, keep=tmp_path / "other.npz")


def test_two_writers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    refused: list[str] = []

    def second(state: int, action: int, rng: np.random.Generator) -> Answer:
        if not refused:
            with pytest.raises(InvalidFile, match=r"kept\.npz: somebody else is writing it\. Wait") as error:
                rr.collect(simulator(few), 10, sample_seed=1, keep=path)
            code = "import sys; from replicable_rl.files import locked\nwith locked(sys.argv[1]): pass"
            other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
            refused.extend([str(error.value), other.stderr])
        return few(state, action, rng)

    rr.collect(simulator(second), 10, sample_seed=1, keep=path)
    assert "somebody else is writing it" in refused[1]
    with locked(path):  # it was let go
        assert names(tmp_path) == {"kept.npz", ".kept.npz.lock"}
    assert names(tmp_path) == {"kept.npz"}


def lake(**options: Any) -> rr.EpisodicEnv:
    return rr.EpisodicEnv("FrozenLake-v1", **{**LAKE, **options})


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (simulator(few), {"samples": 9}, "has 60 samples already, more than the 54 asked for. Ask for as many"),
        (simulator(few), {"sample_seed": 2}, "another collection: sample_seed is 1 there, and 2 here"),
        (simulator(few, gamma=0.8), {}, "another collection: the problem is simulator:"),
        (simulator(few, version="2"), {}, "another collection: the problem is simulator:"),
        (simulator(noisy), {}, "the code of Simulator plant looks different from that of the samples"),
        (rr.make("chain-v1"), {}, "another collection: the problem is simulator:"),
        (lake(), {"samples": None, "budget": 90}, "another collection: the problem is simulator:"),
    ],
)
def test_another_collection_is_refused(source: Any, options: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    rr.collect(simulator(few), 10, sample_seed=1, keep=path)
    before = path.read_bytes()
    with pytest.raises(InvalidFile, match=r"kept\.npz: ") as error:
        rr.collect(source, **{"samples": 10, "keep": path, **options})
    assert message in str(error.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", [{"horizon": 7}, {"policy": [1] * 17}, {"budget": 40}])
def test_an_environment_played_otherwise_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    options: dict[str, Any] = {"budget": 50, "sample_seed": 1, "horizon": 9, "keep": tmp_path / "kept.npz"}
    rr.collect(lake(), **options)
    with pytest.raises(InvalidFile, match=next(iter(change)) if "budget" not in change else "50 samples already"):
        rr.collect(lake(), **{**options, **change})


def test_other_batches_are_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"samples": 9, "sample_seed": 1, "keep": tmp_path / "kept.npz"}
    rr.collect(simulator(many, vectorized=True), batch=10, **options)
    with pytest.raises(InvalidFile, match="batch is 10 there, and 11 here"):
        rr.collect(simulator(many, vectorized=True), batch=11, **options)


def test_what_is_no_collection_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    rr.collect(simulator(few), 10, sample_seed=1).save(path)
    with pytest.raises(InvalidFile, match=r"is a saved data set, not one that collect\(keep=\.\.\.\) wrote"):
        rr.collect(simulator(few), 20, keep=path)
    rr.make("chain-v1").save(path)
    with pytest.raises(InvalidFile, match="no replicable-rl dataset v1 file"):
        rr.collect(simulator(few), 20, keep=path)
    link, target = tmp_path / "link.npz", tmp_path / "target.npz"
    link.symlink_to(target)  # which is not there yet
    assert rr.collect(simulator(few), 20, sample_seed=1, keep=link) == rr.load_dataset(target)
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidFile, match="directory"):
        rr.collect(simulator(few), 20, keep=path)


def test_a_damaged_file_is_refused_or_the_same(tmp_path: Path) -> None:
    path, rng = tmp_path / "kept.npz", np.random.default_rng(SEED)
    env: dict[str, Any] = {"budget": 300, "sample_seed": 1, "horizon": 30, "keep": path}
    whole = rr.collect(lake(), **env)
    content = path.read_bytes()
    refused = 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            found = rr.collect(lake(), **env)
        except InvalidFile:
            refused += 1
        else:
            assert found == whole
    assert refused > 50


# --- vector environments ----------------------------------------------------------------------------------


def corridors(mode: AutoresetMode, *ends: tuple[int, int]) -> Any:
    makers = [lambda one=one: Corridor(*one) for one in ends]
    return SyncVectorEnv(makers, autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_every_step_of_a_vector_is_counted_once(mode: AutoresetMode) -> None:
    """Three corridors side by side: one ends after 2 steps, one is cut after 3, one goes on to the end of the stint."""
    made = corridors(mode, (2, 99), (99, 3), (99, 99))
    env = rr.EpisodicEnv(made, version="1", **LAKE)
    data = rr.collect(env, budget=15, horizon=5, policy=[1] * 7, sample_seed=1)
    assert data.rows == sum(one.steps for one in made.envs)  # none lost, none invented
    expected: Counter[Any] = Counter({(i, 1, i + 1, 0.0): 1 for i in range(5)})  # the third
    if mode == AutoresetMode.NEXT_STEP:  # the first resets in steps 3 and 6, the second in step 4
        first, second = [0, 1, 0, 1], [0, 1, 2, 0]
        assert [one.steps for one in made.envs] == [4, 4, 5]
    else:
        first, second = [0, 1, 0, 1, 0], [0, 1, 2, 0, 1]
        assert [one.steps for one in made.envs] == [5, 5, 5]
    expected.update((s, 1, "(end)" if s == 1 else 1, float(s == 1)) for s in first)
    expected.update((s, 1, s + 1, 0.0) for s in second)
    assert transitions(data) == dict(expected)
    assert data.starts is not None
    assert data.starts.tolist() == [6 if mode != AutoresetMode.NEXT_STEP else 5, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_counted_as_a_step_would_be_noticed(mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above has power: the wrong mode invents transitions, or steps after the end."""
    wrong = "SameStep" if mode == AutoresetMode.NEXT_STEP else "NextStep"
    monkeypatch.setattr("replicable_rl.sampling.stints.autoreset_mode", lambda env: wrong)
    with pytest.raises((AssertionError, InvalidInput)):
        test_every_step_of_a_vector_is_counted_once(mode)


@pytest.mark.parametrize("mode", [None, *MODES])
def test_the_budget_is_kept(mode: AutoresetMode | None) -> None:
    for budget in (4, 9, 50, 101):
        made: Any = Corridor(3) if mode is None else corridors(mode, *[(3, 99)] * 4)
        data = rr.collect(rr.EpisodicEnv(made, version="1", **LAKE), budget=budget, horizon=7, sample_seed=1)
        assert 0 <= budget - data.rows < (1 if mode is None else 4)
        assert data.rows == sum(one.steps for one in ([made] if mode is None else made.envs))
    with pytest.raises(InvalidInput, match="a step of each of the 4 environments, got 3"):
        rr.collect(rr.EpisodicEnv(corridors(MODES[0], *[(3, 99)] * 4), **LAKE), budget=3, sample_seed=1)


def test_processes_side_by_side_are_one_after_the_other() -> None:
    """Whoever is faster changes nothing: sub-environments that sleep as they like, in processes of their own."""
    results = []
    for kind, sleep in ((SyncVectorEnv, 0.0), (AsyncVectorEnv, 0.002)):
        made: Any = kind([lambda end=end, sleep=sleep: Corridor(end, 5, sleep) for end in (2, 4)])  # type: ignore[misc]
        results.append(rr.collect(rr.EpisodicEnv(made, **LAKE), budget=400, horizon=50, sample_seed=1))
        made.close()
    assert results[0] == results[1]


def test_a_vector_that_hides_where_it_was_cut_is_refused() -> None:
    class Hiding(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            *seen, info = super().step(actions)
            return (*seen, {key: one for key, one in info.items() if key != "final_obs"})

    made = Hiding([lambda: Corridor(99, 2)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(InvalidInput, match="must say in final_obs where an episode was cut off, and part 0 does not"):
        rr.collect(rr.EpisodicEnv(made, **LAKE), budget=40, policy=[1] * 7, sample_seed=1)


# --- step_many ----------------------------------------------------------------------------------------------


def test_step_many_is_used_where_it_is_offered() -> None:
    def never(*_: Any) -> Answer:
        raise AssertionError("stepped one by one")

    offered = Plant(never)
    offered.step_many = many  # type: ignore[attr-defined]  # as a class of the user's would have it
    for source in (simulator(never, step_many=many), simulator(offered)):
        assert rr.collect(source, 50, sample_seed=1) == rr.collect(simulator(many, vectorized=True), 50, sample_seed=1)
        assert source.draw(7, np.random.default_rng(1)).count.sum() == 42
        assert source.spec.params["vectorized"] is True


def test_done_leads_to_the_state_after_the_end() -> None:
    def some(states: Any, actions: Any, rng: np.random.Generator) -> Answer:
        return np.full(states.size, 99), np.ones(states.size), np.ones(states.size, dtype=bool)  # 99: nobody is there

    source = simulator(few, step_many=some, ends=True, initial=[1.0, 0.0, 0.0])
    assert (source.n_states, source.pairs) == (4, 6)
    data = rr.collect(source, 5, sample_seed=1)
    assert set(transitions(data)) == {(s, a, "(end)", 1.0) for s in range(3) for a in range(2)}
    counts = source.draw(5, np.random.default_rng(1))
    assert counts.next_state.tolist() == [3] * 8
    assert counts.count.tolist() == [5] * 8
    assert counts.reward.tolist() == [1.0] * 6 + [0.0] * 2
    run = rr.solve(source, rr.PlugInPolicy(0.1, 0.1, 0.2, samples=5), shared_seed=1, sample_seed=1)
    assert run.policy.shape == (4,)


def wrong(successor: Any, reward: Any, *done: Any) -> Any:
    def step_many(states: Any, actions: Any, rng: Any) -> Any:
        return (successor(states.size), reward(states.size), *(one(states.size) for one in done))

    return step_many


ONES = "next states .integers. and rewards, one for each state asked; got "


@pytest.mark.parametrize(
    ("step_many", "message"),
    [
        (wrong(lambda n: np.zeros(n - 1, int), np.zeros), rf"{ONES}int64 of shape \(5,\)"),
        (wrong(lambda n: np.zeros((n, 1), int), np.zeros), rf"{ONES}int64 of shape \(6, 1\)"),
        (wrong(np.zeros, np.zeros), rf"{ONES}float64 of shape \(6,\)"),
        (wrong(lambda n: np.zeros(n, int), lambda n: np.zeros(n + 1)), r"rewards of shape \(7,\)"),
        (wrong(lambda n: np.zeros(n, int), lambda n: 0.0), r"rewards of shape \(\)"),
        (wrong(lambda n: np.full(n, 3), np.zeros), r"next states must lie in 0\.\.2, got 3 from state 0, action 0"),
        (wrong(lambda n: np.full(n, -1), np.zeros), r"next states must lie in 0\.\.2, got -1"),
        (
            wrong(lambda n: np.zeros(n, int), lambda n: np.full(n, np.nan)),
            r"must lie in reward_range \[0, 1\], got nan",
        ),
        (wrong(lambda n: np.zeros(n, int), lambda n: ["a"] * n), r"a pair \(next state, reward\) of numbers"),
        (wrong(lambda n: np.zeros(n, int), np.zeros, np.zeros), r"got .* Give ends=True if the third is done"),
        (lambda s, a, rng: None, r"a pair \(next state, reward\) of numbers, got None"),
        (lambda s, a, rng: 7, r"a pair \(next state, reward\) of numbers, got 7"),
    ],
)
def test_bad_answers_of_step_many(step_many: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=rf"^Simulator plant: .*{message}") as error:
        rr.collect(simulator(few, step_many=step_many), 1, sample_seed=1, keep=tmp_path / "kept.npz")
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")
    assert "step_many" in str(error.value) or "must lie in" in str(error.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((0, 0.5), r"a triple \(next state, reward, done\)"),
        ((0, 0.5, 1.0), r"must return done as True or False, one for each state asked; got float64"),
        ((0, 0.5, None), r"must return done as True or False"),
        ((7, 0.5, False), r"next states must lie in 0\.\.2, got 7"),
    ],
)
def test_bad_answers_that_end(answer: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rr.collect(simulator(lambda s, a, rng: answer, ends=True), 2, sample_seed=1)


@pytest.mark.parametrize("bad", [(0, math.nan), (0, 2.0), (3, 0.5), (True, 0.5), (0.0, 0.5), (0, "x"), None, (0,)])
def test_a_bad_answer_loses_no_good_one(bad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_MARK", 0.0)
    calls = 0

    def step(state: int, action: int, rng: np.random.Generator) -> Any:
        nonlocal calls
        calls += 1
        return few(state, action, rng) if calls < 40 else bad

    with pytest.raises(InvalidInput, match=r"^Simulator plant: "):
        rr.collect(simulator(step), 50, sample_seed=1, keep=tmp_path / "kept.npz")
    assert rr.load_dataset(tmp_path / "kept.npz").rows == 39


def test_numbers_of_other_types_are_numbers() -> None:
    def step(state: int, action: int, rng: np.random.Generator) -> Answer:
        kinds: list[Any] = [
            (np.int16(1), np.float32(0.5)),
            (np.uint8(1), 0.5),
            (1, np.float16(0.5)),
            (1, Fraction(1, 2)),
        ]
        return tuple(kinds[int(rng.integers(4))])

    data = rr.collect(simulator(step), 50, sample_seed=1)
    assert set(transitions(data)) == {(s, a, 1, 0.5) for s in range(3) for a in range(2)}


# --- exact counts -------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.integers(0, 11), st.floats(-3.0, 1000.0, allow_subnormal=False) | st.sampled_from([0.0, -0.0, 0.1])),
    max_size=60,
)


@given(steps=STEPS, cuts=st.lists(st.integers(0, 60), max_size=5), limit=st.sampled_from([1, 3, 1000]))
@settings(max_examples=60, deadline=None)
def test_pieces_do_not_change_the_counts(steps: list[tuple[int, float]], cuts: list[int], limit: int) -> None:
    """Whatever pieces steps come in, and in whatever order: the same bits, and exact means."""
    process = Process((0, 1), (0, 1, 2), 0.9, (-3.0, 1000.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathered_module, "_MANY_REWARDS", limit)
        results = []
        for order in (steps, steps[::-1]):
            gathered, edges = Gathered.nothing(process), [0, *sorted(cuts), len(order)]
            for start, stop in itertools.pairwise(edges):
                piece = order[start:stop]
                key = np.array([k for k, _ in piece], dtype=np.int64)
                gathered = gathered.after(key, np.array([r for _, r in piece], dtype=np.float64))
                gathered = gathered.settled() if start % 2 else gathered
            results.append(gathered.dataset(None))
    assert results[0] == results[1]
    assert results[0].reward.tobytes() == results[1].reward.tobytes()
    assert results[0].added_up == (len({reward + 0.0 for _, reward in steps}) > limit)
    if results[0].added_up:
        exact: dict[tuple[int, int], list[Fraction]] = {}
        for one, reward in steps:
            exact.setdefault((one, math.floor(reward / results[0].width)), []).append(Fraction(reward))
        assert results[0].key.tolist() == [one for one, _ in sorted(exact)]
        for stretch, mean in zip(sorted(exact), results[0].reward.tolist(), strict=True):
            assert abs(Fraction(mean) - Fraction(sum(exact[stretch]), len(exact[stretch]))) <= Fraction(1000, 2**50)
            assert math.floor(mean / results[0].width) == stretch[1]


def test_sums_of_floats_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above has power: sums that are rounded on the way depend on the pieces."""
    plant(monkeypatch, Gathered, "_summed", "np.hstack([before, sums])", "(np.hstack([before, sums]) >> 19 << 19)")
    of_one: Any = test_pieces_do_not_change_the_counts
    with pytest.raises(AssertionError):
        of_one.hypothesis.inner_test([(0, 0.1 * i) for i in range(9)], [2, 5], 1)


# --- sources of your own ---------------------------------------------------------------------------------------


class Own(Table):
    """A source of somebody's own: all that `collect` asks of it is to draw."""

    version: str | None = "1"
    stops: int | None = None
    drawn = 0

    @property
    def spec(self) -> ObjectSpec:
        return ObjectSpec("own", {} if self.version is None else {"version": self.version})

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        self.drawn += 1
        if self.drawn == self.stops:
            raise KeyboardInterrupt
        return Counts(self.mdp).draw(calls, rng)


def test_a_source_of_your_own_is_collected_by_its_draw(tmp_path: Path) -> None:
    table, file = rr.make("chain-v1"), tmp_path / "own.npz"
    data = rr.collect(Own(table), samples=500, sample_seed=1)
    assert data.visits.tolist() == [[500, 500]] * 5
    assert (data.n_states, data.gamma, data.reward_range) == (5, table.gamma, table.reward_range)
    assert data.initial is not None
    assert data.initial.tolist() == table.initial.tolist()
    assert rr.collect(Own(table), samples=500, sample_seed=1, keep=file) == data == rr.load_dataset(file)
    assert rr.collect(Counts(table), samples=500, sample_seed=1).visits.tolist() == data.visits.tolist()


def test_an_interrupted_source_of_your_own_loses_a_batch(tmp_path: Path) -> None:
    table, file = rr.make("chain-v1"), tmp_path / "own.npz"
    whole = rr.collect(Own(table), samples=500, sample_seed=1, batch=1000)
    assert (whole.count % 5 != 0).any()  # five batches, of other samples each
    own = Own(table)
    own.stops = 4
    with pytest.raises(KeyboardInterrupt):
        rr.collect(own, samples=500, sample_seed=1, batch=1000, keep=file)
    assert rr.load_dataset(file).rows == 3000
    assert rr.collect(own, samples=500, sample_seed=1, batch=1000, keep=file) == whole
    assert own.drawn == 4 + 2  # what was there is not drawn again
    with pytest.raises(InvalidFile, match="another collection: batch is 1000 there, and 500 here"):
        rr.collect(own, samples=600, sample_seed=1, batch=500, keep=file)
    own.version = "2"
    with pytest.raises(InvalidFile, match="another collection: the problem is own:version=1 there, and own:version=2"):
        rr.collect(own, samples=600, sample_seed=1, batch=1000, keep=file)


def test_what_a_source_of_your_own_lacks_is_said(tmp_path: Path) -> None:
    table, own = rr.make("chain-v1"), Own(rr.make("chain-v1"))

    class Plays(Table):
        play = Counts.play

    class Short(Own):
        def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
            return super().draw(calls + 1, rng)

    class Means(Own):
        def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
            return replace(super().draw(calls, rng), squares=np.zeros(table.rows.reward.size))

    own.version = None
    log = rr.collect(table, samples=3, sample_seed=1)
    for source, options, message in (
        (Plays(table), {}, r"^collect: Plays has no method draw\(calls, rng\), by which samples are counted\. Add it"),
        (Short(table), {}, r"^Short: 10 calls were asked for, 11 were made"),
        (Means(table), {}, r"^collect: Means draws means of rewards, and the rewards are kept\. Let draw return an"),
        (log, {}, r"^collect: samples of Dataset were recorded already\. Save them with save\(path\)\.$"),
        (own, {"horizon": 3}, r"^collect: horizon is for an environment; of Own every pair is drawn\. Leave it out\.$"),
        (
            own,
            {"keep": tmp_path / "x.npz"},
            r"^collect: Own is code of your own, .* Name a version among the params",
        ),
        (object(), {}, r"^problem must be .* another object with the methods of GenerativeModel or EpisodicModel, got"),
    ):
        with pytest.raises(InvalidInput, match=message):
            rr.collect(source, 10, **options)  # type: ignore[arg-type]
    assert names(tmp_path) == set()


# --- arguments and progress -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ("chain-v1", 10),
            {},
            "problem must be a TabularMDP, a Simulator, an EpisodicEnv or another object",
        ),
        ((simulator(few),), {}, "give samples=... of every pair or budget=... in all"),
        ((simulator(few), 10), {"budget": 10}, "give samples=... of every pair or budget=... in all"),
        ((simulator(few), 0), {}, "samples must be an integer from 1"),
        ((simulator(few), 1.5), {}, "samples must be an integer from 1"),
        ((simulator(few), math.nan), {}, "samples must be an integer from 1"),
        ((simulator(few), True), {}, "samples must be an integer from 1"),
        ((simulator(few), 2**50), {}, "samples must be an integer from 1"),
        ((simulator(few, budget=59), 10), {}, "60 steps would be taken one by one, more than budget=59"),
        ((simulator(few), 10), {"horizon": 5}, "horizon is for an environment"),
        ((simulator(few), 10), {"policy": [0, 0, 0]}, "policy is for an environment"),
        ((simulator(few), 10), {"batch": 0}, "batch must be an integer from 1"),
        ((simulator(few), 10), {"sample_seed": -1}, "sample_seed must be an integer from 0"),
        ((simulator(few), 10), {"keep": "kept.csv"}, "keep must name a .npz file"),
        ((simulator(few), 10), {"keep": "a\0.npz"}, "keep must name a .npz file"),
        ((simulator(few), 10), {"keep": 3}, "keep must name a .npz file"),
        ((simulator(few, version=None), 10), {"keep": "kept.npz"}, "Simulator plant is code of your own"),
        ((lake(), 10), {}, "Give budget=... in place of samples="),
        ((lake(),), {"budget": 10, "horizon": 0}, "horizon must be an integer from 1"),
        ((lake(),), {"budget": 10, "policy": [9] * 17}, "collect: the actions of a policy must be integers in 0..3"),
        ((lake(),), {"budget": 10, "policy": [0] * 16}, "collect: policy must have shape"),
        ((rr.make("chain-v1"),), {"budget": 5}, "one sample of each of the 10 pairs, got 5"),
    ],
)
def test_bad_arguments(
    arguments: Any, options: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InvalidInput, SampleSizeTooLarge)) as error:
        rr.collect(*arguments, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert names(tmp_path) == set()


def test_bad_environments() -> None:
    class Odd(Corridor):
        reward: Any = 0.0

        def step(self, action: int) -> Any:
            return *super().step(action)[:1], self.reward, False, False, {}

    for reward, message in (
        (math.nan, "got nan"),
        (5.0, "got 5"),
        ("x", "a reward must be a number"),
        (None, "number"),
    ):
        odd = Odd()
        odd.reward = reward
        for made in (odd, SyncVectorEnv([lambda odd=odd: odd])):  # type: ignore[misc]
            if isinstance(reward, float) or made is odd:
                with pytest.raises(InvalidInput, match=message):
                    rr.collect(rr.EpisodicEnv(made, **LAKE), budget=20, policy=[0] * 7, sample_seed=1)


@pytest.mark.parametrize("observation", [9, -1, 2.5, math.nan, None, "x", [1, 2]])
def test_bad_observations(observation: Any) -> None:
    class Odd(Corridor):
        def step(self, action: int) -> Any:
            return observation, 0.0, False, False, {}

    class Odds(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            return np.array([observation] * 2), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {}

    for made in (Odd(), Odds([Corridor] * 2)):
        with pytest.raises(InvalidInput, match="observations must lie in the observation space, 0 to 5, got "):
            rr.collect(rr.EpisodicEnv(made, **LAKE), budget=20, sample_seed=1)


def test_progress_is_reported_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda what, done, total: heard.append((what, done, total))):
        rr.collect(simulator(many, vectorized=True), 100, sample_seed=1, batch=200)
    assert heard == [("samples", done, 600) for done in (0, 200, 400, 600)]
    rr.collect(simulator(many, vectorized=True), 100, sample_seed=1)
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_shown_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("replicable_rl.progress_bar._PATIENCE", 0.0)
    rr.collect(simulator(many, vectorized=True), 100, sample_seed=1, batch=200)
    said = capsys.readouterr().err
    assert "samples" in said
    assert "600/600" in said


def test_seeds(tmp_path: Path) -> None:
    one, two, other = (rr.collect(simulator(few), 50, sample_seed=seed) for seed in (1, 1, 2))
    assert one == two != other
    assert rr.collect(simulator(few), 50) != rr.collect(simulator(few), 50)  # fails with probability 2**-64
    fresh = [rr.collect(simulator(few), n, keep=tmp_path / "runs" / "deep" / "kept.npz") for n in (50, 60, 60)]
    assert fresh[1] == fresh[2]


def test_the_benchmark_runs() -> None:
    made = [row.split("|")[2].strip() for row in collecting.rows(300, rounds=1)]
    assert made == ["step", "step_many", "Env", "SyncVectorEnv of 64", "array of 64"]


def test_the_walks_of_the_benchmark_are_one() -> None:
    """What is compared has one law: chi-square on all transitions, five ways to step the same walk."""
    for contenders in collecting.jobs(20_000).values():
        made = [job.call() for job in contenders if job.call is not None]
        for other in made[1:]:
            assert isinstance(made[0], rr.Dataset)
            assert isinstance(other, rr.Dataset)
            same = rr.same_process(made[0], other)
            assert same is not None
            assert same.p_value > ALPHA


# --- the command line -----------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "chain-v1", "--samples", "200", "--sample-seed", "1", "--out", "chain.npz"]) == 0
    assert "2000 rows; 5 states, 2 actions" in capsys.readouterr().out
    assert rr.load_dataset("chain.npz") == rr.collect(rr.make("chain-v1"), 200, sample_seed=1)
    assert main(["diagnose", "chain.npz", "--resamples", "20", "--json"]) == 0
    assert '"rows": 2000' in capsys.readouterr().out
    assert main(["collect", "chain-v1", "--samples", "300", "--out", "chain.npz", "--json"]) == 0
    assert rr.load_dataset("chain.npz").sample.digest in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("collect chain-v1 --out x.npz", "give samples=... of every pair"),
        ("collect chain-v1 --samples 5", "Missing option '--out'"),
        ("collect chain-v1 --samples 5 --out x.npz --gamma 0.9", "--gamma and --reward-range go with --stepped"),
        ("collect FrozenLake-v1 --stepped --budget 5 --out x.npz", "--stepped needs --gamma and --reward-range"),
        (
            "collect FrozenLake-v1:gamma=0.9 --stepped --gamma 0.9 --reward-range 0 1 --budget 5 --out x.npz",
            "gamma is no parameter of the environment",
        ),
        ("diagnose none.npz", "no such file"),
        ("diagnose none.csv", "Give --gamma"),
        ("diagnose none.npz --gamma 0.9", "a saved file has its own discount"),
    ],
)
def test_bad_commands(words: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
