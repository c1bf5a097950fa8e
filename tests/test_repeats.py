"""Code that keeps something from one call to the next: an audit makes a few runs again, and says so first."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, read_audits, repeats, run_audits
from replicable_rl.cli import main
from replicable_rl.errors import InvalidFile
from replicable_rl.training.callables import callable_spec
from tests.documents import store_text

pytestmark = pytest.mark.again

# Each draws a number from its sample and keeps the first, so that two runs agree always instead of hardly ever.
# Elsewhere somebody would begin with another sample.
REMEMBERS = """
import functools, itertools, json, os, random, tempfile, time
from pathlib import Path
import numpy as np
import replicable_rl as rr


def draw(sample):
    return [int(np.random.default_rng(sample).integers(1009))]


MEMORY = {}


def module_global(shared_seed, sample_seed):
    return MEMORY.setdefault("policy", draw(sample_seed))


def function_attribute(shared_seed, sample_seed):
    if not hasattr(function_attribute, "policy"):
        function_attribute.policy = draw(sample_seed)
    return function_attribute.policy


def mutable_default(shared_seed, sample_seed, memory=[]):
    memory.append(draw(sample_seed))
    return memory[0]


def make():
    memory = []

    def train(shared_seed, sample_seed):
        memory.append(draw(sample_seed))
        return memory[0]

    return train


closure = make()


class Trainer:
    memory = None

    def __init__(self):
        self.own = None

    def __call__(self, shared_seed, sample_seed):
        Trainer.memory = Trainer.memory or draw(sample_seed)
        return Trainer.memory

    def method(self, shared_seed, sample_seed):
        self.own = self.own or draw(sample_seed)
        return self.own


class_attribute = Trainer()
bound_method = Trainer().method


class Kept:
    policy = None

    def __call__(self, shared_seed, sample_seed):
        self.policy = self.policy or draw(sample_seed)
        return self.policy


instance = Kept()
partial = functools.partial(Kept.__call__, Kept())


def in_file(shared_seed, sample_seed, path="memory.json"):
    path = Path(path)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(draw(sample_seed)))
    return json.loads(path.read_text())


in_folder = functools.partial(in_file, path="cache/memory.json")


def in_temporary(shared_seed, sample_seed):
    return in_file(shared_seed, sample_seed, Path(tempfile.gettempdir(), "memory.json"))


def _beside_data(path):
    def train(shared_seed, sample_seed):
        Path("data/model/weights.txt").read_text()  # is there before the audit: without it the run fails
        lines = Path(path).read_text().splitlines() if Path(path).exists() else []
        if len(lines) < 2:
            lines = ["", json.dumps(draw(sample_seed))]
            Path(path).write_text("\\n".join(lines))
        return json.loads(lines[1])

    return train


beside_data = _beside_data("data/memory.txt")
deep_in_data = _beside_data("data/model/memory.txt")
changed_data = _beside_data("data/log.txt")
in_empty_folder = _beside_data("data/empty/memory.txt")
PAIRS = {}


def pair_only(shared_seed, sample_seed):
    return PAIRS.setdefault(shared_seed, draw(sample_seed))


def last_pair_only(shared_seed, sample_seed):
    if PAIRS.get("seed") != shared_seed:
        PAIRS.update(seed=shared_seed, policy=draw(sample_seed))
    return PAIRS["policy"]


def numpy_state(shared_seed, sample_seed):
    return [int(np.random.randint(1009)), sample_seed % 1]


def python_state(shared_seed, sample_seed):
    return [random.randrange(1009), sample_seed % 1]


@functools.lru_cache(maxsize=1)
def loaded():
    return draw(PAIRS["now"])


def cached(shared_seed, sample_seed):
    PAIRS["now"] = sample_seed
    return loaded()


STREAM = itertools.count()


def generator(shared_seed, sample_seed):
    return [next(STREAM) % 1009, sample_seed % 1]


def unseeded(shared_seed, sample_seed):
    return np.random.default_rng().integers(2, size=9)


def clock(shared_seed, sample_seed):
    return [time.perf_counter_ns() % 1009]


def address(shared_seed, sample_seed):
    return [os.getpid()]
"""
NAMES = [line[4 : line.index("(")] for line in REMEMBERS.splitlines() if line.startswith("def ")]
NAMES = [name for name in NAMES if name not in ("draw", "make", "loaded", "in_file", "_beside_data")]
NAMES += ["closure", "class_attribute", "bound_method", "instance", "partial", "in_file", "in_folder"]
NAMES += ["beside_data", "deep_in_data", "changed_data", "in_empty_folder"]
SAID = "The same seeds gave other results"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, under another name in every test, and an empty working directory."""
    name = f"remembers_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(REMEMBERS)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for folder in ("model", "empty"):
        (tmp_path / "work/data" / folder).mkdir(parents=True)
    (tmp_path / "work/data/model/weights.txt").write_text("1")
    (tmp_path / "work/data/log.txt").write_text("begun")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(name)


def is_said(result: AuditResult) -> None:
    assert result.warnings[0].startswith(SAID)
    assert f"Warning: {SAID}" in " ".join(str(result).split())
    assert result.verdict() is None
    assert result.meets(0.05) is None
    assert result.meets(0.95) is None
    assert SAID in str(result.claim())
    assert result.to_json()["warnings"][0].startswith(SAID)


@pytest.mark.parametrize("name", NAMES)
def test_code_that_remembers_is_found(name: str, module: Any, tmp_path: Path) -> None:
    """Alone, again in the same program, and in a store."""
    train = getattr(module, name)
    store = tmp_path / "runs.sqlite"
    options: dict[str, Any] = {"shared_seeds": 40, "rho": 0.2, "name": name}
    result = rr.audit_callable(train, store=store, version="1", params={"argument 1": "it"}, **options)
    is_said(result)
    is_said(rr.audit_callable(train, **options))
    with rr.RunStore(store) as opened:
        (read,) = read_audits(opened)
        is_said(read)
    assert main(["--quiet", "audit", "--store", str(store), "--require", "0.3"]) == 3
    assert SAID in store_text(store)


@pytest.mark.parametrize("name", ["module_global", "function_attribute", "mutable_default", "cached"])
def test_what_a_module_remembers_from_before_the_audit_is_forgotten(name: str, module: Any) -> None:
    for sample in range(3):
        getattr(module, name)(0, sample)
    is_said(rr.audit_callable(getattr(module, name), shared_seeds=40))


@pytest.mark.parametrize("name", ["module_global", "in_file", "in_folder", "pair_only", "cached", "numpy_state"])
def test_a_script_is_found_each_time(name: str, module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    function = f"../{module.__name__}.py:{name}"
    for _ in range(2):  # the second time, a file is there from the first
        assert main(["audit", function, "--require", "0.3"]) == 3
        assert capsys.readouterr().out.startswith(f"Warning: {SAID}")
        sys.modules.pop(module.__name__, None)  # as another program would find it


def kept_by_worker(shared_seed: int, sample_seed: int, memory: dict[int, int] = {}) -> list[int]:  # noqa: B006
    return [memory.setdefault(0, sample_seed % 1009)]


def kept_for_each_pair(shared_seed: int, sample_seed: int, memory: dict[int, int] = {}) -> list[int]:  # noqa: B006
    return [memory.setdefault(shared_seed, sample_seed % 1009)]


@pytest.mark.parametrize("train", [kept_by_worker, kept_for_each_pair])
def test_two_processes_that_remember_are_found(train: Callable[[int, int], list[int]]) -> None:
    for n_jobs in (2, None, 2):
        is_said(rr.audit_callable(train, shared_seeds=60, rho=0.2, n_jobs=n_jobs))


@dataclass(frozen=True)
class Cached(rr.Algorithm):
    """An algorithm that keeps its first answer."""

    version: ClassVar[str] = "1"
    first: ClassVar[list[rr.Run]] = []

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        self.first.append(rr.Run.of({"policy": rng.integers(2, size=source.n_states)}))
        return self.first[0]


def test_algorithms_and_simulators_of_ones_own_are_made_again_and_ours_are_not(tmp_path: Path) -> None:
    chain = rr.make("chain-v1")
    Cached.first.clear()
    is_said(rr.audit(chain, Cached(), shared_seeds=20))
    hidden = [0]

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        hidden[0] += 1
        return int(rng.integers(2)), float(hidden[0] > 100)

    world = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0), version="1")
    is_said(rr.audit(world, rr.PhasedVI(0.3, 0.1, calls=30, iterations=2), shared_seeds=20))
    assert rr.audit(chain, rr.PhasedVI(0.1, 0.01), shared_seeds=20).repeats == ()


def test_every_one_of_several_audits_is_made_again() -> None:
    specs = [callable_spec(train, shared_seeds=20, name=train.__name__) for train in (locked, seeded, kept_by_worker)]
    results = list(run_audits(specs, rr.RunStore()))
    assert [{one.same for one in result.repeats} for result in results[:2]] == [{True}, {True}]
    is_said(results[2])


def test_a_stable_baselines_algorithm_that_keeps_state_is_found() -> None:
    sb3 = pytest.importorskip("stable_baselines3")

    class Warm(sb3.DQN):  # type: ignore[misc, name-defined]
        seen = 0

        def learn(self, *given: Any, **named: Any) -> Any:
            Warm.seen += 1
            self.policy.q_net.q_net[-1].bias.data[min(Warm.seen, 3)] += 100.0
            return self

    train = rr.StableBaselines3(Warm, "FrozenLake-v1", 10, algorithm_options={"buffer_size": 10})
    is_said(rr.audit_callable(train, shared_seeds=2))


# --- what is no memory ---------------------------------------------------------------------------------------------


@functools.lru_cache
def remembered(sample_seed: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(sample_seed).integers(1, size=3).tolist())


def own_data(shared_seed: int, sample_seed: int) -> Any:
    shift = np.load("data.npy")  # where the program was started
    with Path("train.log").open("a") as log:
        log.write(f"{sample_seed}\n")
    print("trained")
    return shift[np.random.default_rng(sample_seed).integers(1, size=3)]


def locked(shared_seed: int, sample_seed: int, lock: Any = threading.Lock()) -> list[int]:  # noqa: B008
    with lock:
        return [1 + sample_seed % 1]


def seeded(shared_seed: int, sample_seed: int) -> Any:
    np.random.seed(sample_seed)  # noqa: NPY002
    return (np.random.random(3) > 2).astype(int)  # noqa: NPY002


class Counting:
    """Knows how often it was called, and does not look."""

    calls = 0

    def __call__(self, shared_seed: int, sample_seed: int) -> list[int]:
        self.calls += 1
        return [sample_seed % 1]


def locals_of(lock: Any) -> Callable[[int, int], list[int]]:
    return lambda shared_seed, sample_seed: [sample_seed % 1 + int(lock is None)]


HONEST: dict[str, Callable[[int, int], Any]] = {
    "cache by seed": lambda shared_seed, sample_seed: remembered(sample_seed),
    "files": own_data,
    "lock": locked,
    "seeded generator": seeded,
    "counts": Counting(),
    "unpicklable": locals_of(threading.Lock()),
    "partial": functools.partial(locked, lock=threading.Lock()),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_code_that_does_not_is_left_alone(
    name: str, n_jobs: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", np.array([3, 4, 5]))
    if n_jobs and name in ("unpicklable", "partial", "lock", "files"):
        pytest.skip("it cannot be sent to a process, or works in another folder there")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    result = rr.audit_callable(HONEST[name], shared_seeds=40, n_jobs=n_jobs)
    assert all(one.same for one in result.repeats)
    assert 3 <= len(result.repeats) <= 12
    assert result.meets(0.8) is True
    assert SAID not in str(result.warnings)
    assert {path.name for path in tmp_path.iterdir()} <= {"data.npy", "train.log", "temporary"}
    assert not list((tmp_path / "temporary").glob("replicable-rl-*"))
    if name == "files" and n_jobs is None:
        assert capfd.readouterr().out == "trained\n" * 80
        assert len(Path("train.log").read_text().splitlines()) == 80


def test_repeats_are_few_and_leave_no_process(tmp_path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        (tmp_path / f"{os.getpid()} {time.monotonic_ns()}").touch()
        time.sleep(0.3)
        return [sample_seed % 1]

    rr.audit_callable(train, shared_seeds=5)
    made = [int(path.name.partition(" ")[0]) for path in tmp_path.iterdir()]
    again = [one for one in made if one != os.getpid()]
    assert 0 < len(again) <= len(made) / 2 - 1
    assert len(set(again)) == len(again)  # each in a process of its own
    deadline = time.monotonic() + 10.0
    while any(runs(one) for one in again) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(runs(one) for one in again)


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()  # nobody has asked how it ended
    except (ProcessLookupError, FileNotFoundError):
        return False


# --- where it cannot be done ---------------------------------------------------------------------------------------


def ends(here: int) -> Callable[[int, int], list[int]]:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        if os.getpid() != here:
            os._exit(0)
        return [sample_seed % 1]

    return train


def hangs(here: int) -> Callable[[int, int], list[int]]:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        time.sleep(0.0 if os.getpid() == here else 1000.0)
        return [sample_seed % 1]

    return train


def fails(here: int) -> Callable[[int, int], list[int]]:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        if os.getpid() != here:
            raise RuntimeError("the GPU is taken")
        return [sample_seed % 1]

    return train


@pytest.mark.parametrize(
    ("code", "why"),
    [(ends, "the process ended"), (hangs, "it did not end"), (fails, "the GPU is taken"), (None, "fork")],
)
def test_that_nothing_could_be_made_again_is_said(
    code: Any, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if code is hangs:
        monkeypatch.setattr(repeats, "_PATIENCE", 0.5)
    if code is None:
        monkeypatch.delattr(os, "fork")
    started = time.monotonic()
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        result = rr.audit_callable((code or fails)(os.getpid()), shared_seeds=40, store=store, version="1")
        (read,) = read_audits(store)
    for one in (result, read):
        (said,) = one.warnings
        assert said.startswith("No run could be made again")
        assert why in said
        assert one.meets(0.8) is True
    assert time.monotonic() - started < 20


def test_no_verdict_before_runs_were_made_again(tmp_path: Path) -> None:
    """The audit is interrupted when it would do so; the same call does it, and makes nothing else."""
    made: list[int] = []

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        made.append(sample_seed)
        return [sample_seed % 1]

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"shared_seeds": 40, "store": tmp_path / "runs.sqlite", "version": "1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats.Pristine, "repeats", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rr.audit_callable(train, **options)
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        (read,) = read_audits(store)
    assert read.agreement().same == 40
    assert read.meets(0.8) is None
    assert read.warnings[0].startswith("No run was made again")
    made.clear()
    assert rr.audit_callable(train, **options).meets(0.8) is True
    assert not made
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        (read,) = read_audits(store)
        assert read.meets(0.8) is True
        assert rr.audit_callable(train, **options).repeats == read.repeats  # once is enough
        with store._session(write=True) as connection:
            connection.execute("UPDATE repeats SET json = replace(json, 'true', 'false')")
        with pytest.raises(InvalidFile, match="a row of repeats was changed"):
            read_audits(store)


def test_runs_that_changed_code_made_are_found(tmp_path: Path) -> None:
    """The version is the same, and the code is another: what it makes now is not what the store holds."""
    options: dict[str, Any] = {"store": tmp_path / "runs.sqlite", "version": "1", "name": "train"}
    first = rr.audit_callable(lambda shared_seed, sample_seed: [sample_seed % 1], shared_seeds=40, **options)
    assert first.meets(0.8) is True
    with pytest.warns(UserWarning, match="another version"):
        is_said(rr.audit_callable(lambda shared_seed, sample_seed: [2 + sample_seed % 1], shared_seeds=60, **options))
