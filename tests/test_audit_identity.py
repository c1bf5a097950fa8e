"""Whose runs a store gives to whom: the version tells somebody's own code apart, and another source is a warning."""

from __future__ import annotations

import copy
import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, AuditSpec, audit_spec, run_audits
from replicable_rl.audit.identity import ChangedSource, source_digest
from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, SampleSizeTooLarge
from replicable_rl.registry import ALGORITHMS
from replicable_rl.runs import ObjectSpec
from replicable_rl.runs.specs import algorithm_spec
from tests.statistics import Like

GRID = rr.make("two-goals-v1")
FEW = rr.PhasedVI(0.1, 0.01, calls=5, iterations=3)
NAMELESS = "is code of your own, which a store knows only by the version that you give it"


def audited(train: Callable[[int, int], Any], store: Any, **options: Any) -> AuditResult:
    return rr.audit_callable(train, shared_seeds=2, store=store, **{"name": "train", "version": "1", **options})


# --- a version, or nothing ---------------------------------------------------------------------------------


def test_a_store_takes_code_with_a_version_only(tmp_path: Path) -> None:
    store, made = tmp_path / "runs.sqlite", []

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        made.append(sample_seed)
        return [sample_seed % 2]

    for named in ({}, {"params": {"alpha": 0.1}}):
        with pytest.raises(InvalidInput, match=rf"train {NAMELESS}\. Pass version='1', and change it"):
            rr.audit_callable(train, shared_seeds=2, store=store, **named)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="version must be a text such as '1', got ''"):
        rr.audit_callable(train, shared_seeds=2, store=store, version="")
    assert not made
    assert not store.exists()
    assert rr.audit_callable(train, shared_seeds=2).algorithm == ObjectSpec("train")  # nothing to be mistaken for
    made.clear()
    one = rr.audit_callable(train, shared_seeds=2, store=store, version="1")
    again = rr.audit_callable(train, shared_seeds=2, store=store, version="1")
    assert one.algorithm == ObjectSpec("train", {"version": "1"})
    assert again.runs == one.runs
    assert len(made) == 4
    two = rr.audit_callable(train, shared_seeds=2, store=store, version="2", params={"alpha": 0.1})
    assert two.algorithm == ObjectSpec("train", {"alpha": 0.1, "version": "2"})
    assert len(made) == 8
    assert {run.key for run in two.runs}.isdisjoint(run.key for run in one.runs)
    with pytest.raises(InvalidInput, match="params must be a mapping"):
        rr.audit_callable(train, shared_seeds=2, params=[1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="the name 'probe' is taken"):
        rr.audit_callable(train, shared_seeds=2, params={"probe": 1})


def program(folder: Path, answer: int) -> Any:
    """Import training code from a file of its own."""
    (folder / f"program{answer}.py").write_text(f"def train(shared_seed, sample_seed):\n    return [{answer}]\n")
    spec = importlib.util.spec_from_file_location("program", folder / f"program{answer}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.train


def test_another_source_under_the_same_version_is_a_warning(tmp_path: Path) -> None:
    """The version is the promise: what was stored under it is what one gets."""
    store, one, two = tmp_path / "runs.sqlite", program(tmp_path, 1), program(tmp_path, 2)
    before = audited(one, store)
    assert audited(one, store).seconds == before.seconds
    with pytest.warns(ChangedSource, match=rf"The source of train.* in {store} were made\. .* another version"):
        again = audited(two, store)
    assert again.runs == before.runs
    assert [policy.tolist() for policy in audited(two, store, version="2").outputs().values()] == [[2]]
    with pytest.warns(ChangedSource):  # as long as the store holds runs of both
        audited(one, store)


def test_the_source_is_that_of_the_functions_and_classes_that_are_nobodys_but_yours() -> None:
    assert source_digest(weighs) == source_digest(functools.partial(weighs, layers=[1])) is not None
    assert source_digest(weighs) != source_digest(Plain(1)) == source_digest(Plain(2))
    assert source_digest(rr.PhasedVI(0.1, 0.01), GRID, max) is None
    assert audit_spec(GRID, FEW).code is None
    assert audit_spec(GRID, Versioned()).code == source_digest(Versioned)
    problem = simulator(0.1)
    assert audit_spec(problem, FEW).code == source_digest(problem.step)


def test_the_probe_set_is_part_of_the_name() -> None:
    names = [audited(lambda shared, sample: [0], None, probe=probe).algorithm for probe in ([0.0], [1.0], [0.0])]
    assert names[0] == names[2] != names[1]


def weighs(shared_seed: int, sample_seed: int, layers: Any = None) -> list[int]:
    return [int(np.sum(layers) > 1)]


@pytest.mark.parametrize(
    ("first", "second"),
    [([1], [2]), ({"a": 1}, {"a": 2}), (np.array([1]), np.array([2])), ((1,), (1, 1)), ("1", "2")],
    ids=["list", "mapping", "array", "tuple", "text"],
)
@pytest.mark.parametrize("placed", [False, True])
def test_whatever_json_can_say_of_a_partial_is_its_name(first: Any, second: Any, placed: bool) -> None:
    def given(layers: Any) -> Any:
        if placed:
            return functools.partial(lambda layers, shared, sample: [0], layers)
        return functools.partial(lambda shared, sample, layers: [0], layers=layers)

    store = rr.RunStore()
    one, two, again = (audited(given(layers), store) for layers in (first, second, first))
    assert one.algorithm != two.algorithm
    assert one.runs == again.runs
    assert set(one.algorithm.params) == {"argument 1" if placed else "layers", "version"}


def test_other_arguments_of_a_partial_must_be_said(tmp_path: Path) -> None:
    train = functools.partial(weighs, layers=len)
    with pytest.raises(InvalidInput, match=r"cannot tell layers=<built-in function len> .* params={'layers': \.\.\.}"):
        audited(train, tmp_path / "runs.sqlite")
    assert not (tmp_path / "runs.sqlite").exists()
    constant = functools.partial(lambda shared, sample, layers: [0], layers=len)
    assert audited(constant, None).algorithm.params == {"version": "1"}  # nothing to be mistaken for
    said = audited(constant, tmp_path / "runs.sqlite", params={"layers": "none"})
    assert said.algorithm.params == {"layers": "none", "version": "1"}
    two_ways = functools.partial(weighs, layers=[1])
    with pytest.raises(InvalidInput, match=r"'layers' is \[1\] in train and \[2\] in params"):
        audited(two_ways, None, params={"layers": [2]})
    assert audited(two_ways, None, params={"layers": (1,)}).algorithm.params["layers"] == [1]
    with pytest.raises(InvalidInput, match="the name 'version' is taken"):
        audited(functools.partial(lambda shared, sample, version: [0], version=2), None)


# --- algorithms ----------------------------------------------------------------------------------------------

INNER = rr.PhasedVI(0.1, 0.01, calls=7, iterations=5)


@dataclass(frozen=True)
class Nameless(rr.Algorithm):
    calls: int = 7

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.PhasedVI(0.1, 0.01, calls=self.calls, iterations=5).solve(source, shared, rng)


@dataclass(frozen=True)
class Versioned(Nameless):
    version: ClassVar[str] = "1"


@dataclass(frozen=True)
class Heir(Versioned):
    """Has its version from somebody else, whose code it is not."""


@dataclass(frozen=True)
class Plain(rr.Algorithm):
    """One setting, of any kind."""

    calls: Any
    version: ClassVar[str] = "1"

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.PhasedVI(0.1, 0.01, calls=7 if self.calls is None else 8, iterations=5).solve(source, shared, rng)


@pytest.mark.parametrize("algorithm", [Nameless(), Heir()], ids=["none", "inherited"])
def test_an_algorithm_without_a_version_of_its_own_is_refused(algorithm: Any, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    name = type(algorithm).__name__
    with pytest.raises(InvalidInput) as refused:
        rr.audit(GRID, algorithm, shared_seeds=2, store=store)
    assert str(refused.value) == (
        f"audit: {name} {NAMELESS}. Register it under an id, or give {name} a class attribute version = '1', and "
        "change it whenever the code changes; or leave the store out."
    )
    assert not store.exists()
    assert len(rr.audit(GRID, algorithm, shared_seeds=2).runs) == 4


def test_an_algorithm_with_a_version_is_taken_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "runs.sqlite"
    one = rr.audit(GRID, Versioned(), shared_seeds=2, store=store)
    assert one.algorithm == ObjectSpec(f"{__name__}.Versioned", {"version": "1"})
    assert rr.audit(GRID, Versioned(), shared_seeds=2, store=store).seconds == one.seconds
    other = rr.audit(GRID, Versioned(8), shared_seeds=2, store=store)
    assert other.algorithm.params == {"calls": 8, "version": "1"}
    monkeypatch.setattr(Versioned, "version", "2")
    two = rr.audit(GRID, Versioned(), shared_seeds=2, store=store)
    assert two.algorithm.params == {"version": "2"}
    assert {run.key for run in two.runs}.isdisjoint(run.key for run in one.runs)


@dataclass(frozen=True)
class Layered(Nameless):
    layers: tuple[int, ...] = (2, 3)
    rate: float = 0.5
    weights: Any = None


def test_what_is_left_at_its_default_is_not_said_and_what_is_given_as_a_list_or_an_array_is() -> None:
    given = algorithm_spec(Layered(layers=(2, 4), rate=0.5, weights=np.array([1.0, 2.0]))).params
    assert given == {"layers": [2, 4], "weights": {"array": array_digest("float64", np.array([1.0, 2.0]))}}
    assert algorithm_spec(Layered()).params == algorithm_spec(Layered(rate=0.5)).params == {}
    for rate, said in ((1, 1), (True, True), (np.float64(0.25), 0.25), (1.0, 1.0)):
        (found,) = algorithm_spec(Layered(rate=rate)).params.values()
        assert (found, type(found)) == (said, type(said))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Plain(None), Plain(1)),
        (Plain([1]), Plain([2])),
        (Plain(np.array([1])), Plain(np.array([2]))),
        (Plain({"a": (1, 2)}), Plain({"a": (1, 3)})),
        (Plain(rr.PhasedVI(0.1, 0.1)), Plain(rr.PhasedVI(0.2, 0.1))),
        (Plain([Versioned(1)]), Plain([Versioned(2)])),
    ],
    ids=["number", "list", "array", "mapping", "algorithm", "algorithms"],
)
def test_fields_are_the_settings_of_an_algorithm(first: Any, second: Any, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    one, two, same = (rr.audit(GRID, each, shared_seeds=2, store=store) for each in (first, second, copy.copy(first)))
    assert one.algorithm != two.algorithm
    assert one.runs == same.runs  # found by its version and settings, wherever it is in memory
    assert one.seconds == same.seconds


def test_settings_that_json_cannot_say_are_refused_by_a_store(tmp_path: Path) -> None:
    values: list[Any] = [len, {1: 2}, Fraction(1, 3), float("nan"), np.array(["a"])]
    for value in values:
        with pytest.raises(InvalidInput) as refused:
            rr.audit(GRID, Plain(value), shared_seeds=2, store=tmp_path / "runs.sqlite")
        assert str(refused.value) == (
            "audit: a store knows Plain by its settings, and JSON cannot say 'calls'. Use numbers, texts, lists, "
            "arrays, or objects with an id and such settings; or leave the store out."
        )
        assert len(rr.audit(GRID, Plain(value), shared_seeds=2).runs) == 4  # nothing can be mistaken
    assert not (tmp_path / "runs.sqlite").exists()


def test_an_empty_version_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plain, "version", "")
    with pytest.raises(InvalidInput, match=NAMELESS):
        rr.audit(GRID, Plain(1), shared_seeds=2, store=tmp_path / "runs.sqlite")


@pytest.fixture
def registered() -> Iterator[type[Nameless]]:
    @rr.register
    @dataclass(frozen=True)
    class Registered(Nameless):
        id: ClassVar[str] = "registered-in-a-test-v1"

    yield Registered
    del ALGORITHMS["registered-in-a-test-v1"]


def test_a_registered_algorithm_needs_no_version(registered: type[Nameless], tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    one = rr.audit(GRID, registered(8), shared_seeds=2, store=store)
    assert one.algorithm == ObjectSpec("registered-in-a-test-v1", {"calls": 8})
    (by_id,) = run_audits([AuditSpec(GRID.spec, one.algorithm, 3)], rr.RunStore(store))
    assert by_id.runs[:4] == one.runs
    assert by_id.spec.code == one.spec.code is not None
    assert rr.audit(GRID, registered(8), shared_seeds=3, store=store).runs == by_id.runs

    @dataclass(frozen=True)
    class Pretender(Nameless):
        id: ClassVar[str] = "registered-in-a-test-v1"

    with pytest.raises(InvalidInput, match=NAMELESS):
        rr.audit(GRID, Pretender(8), shared_seeds=2, store=store)


def simulator(share: float, **options: Any) -> rr.Simulator:
    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return int(rng.random() < share), float(state)

    return rr.Simulator(step, n_states=2, n_actions=1, gamma=0.5, reward_range=(0.0, 1.0), name="coin", **options)


def test_a_simulator_needs_a_version(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    with pytest.raises(InvalidInput, match=f"audit: Simulator {NAMELESS}. Give version='1'"):
        rr.audit(simulator(0.1), FEW, shared_seeds=2, store=store)
    assert not store.exists()
    rr.audit(simulator(0.1), FEW, shared_seeds=2)
    one, same = (rr.audit(simulator(0.1, version="1"), FEW, shared_seeds=2, store=store) for _ in range(2))
    assert one.problem.params["version"] == "1"
    assert one.seconds == same.seconds
    two = rr.audit(simulator(0.9, version="2"), FEW, shared_seeds=2, store=store)
    assert two.problem != one.problem
    assert two.classes("value") != one.classes("value")


class Coin(gymnasium.Env[int, int]):
    """Somebody's own environment: heads with probability p."""

    def __init__(self, p: float) -> None:
        self.p, self.face = p, 0
        self.observation_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.face = 0
        return self.face, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.face = int(self.np_random.random() < self.p)
        return self.face, float(self.face), False, False, {}


def coin(p: float, version: str | None = None) -> rr.EpisodicEnv:
    return rr.EpisodicEnv(Coin(p), gamma=0.5, reward_range=(0.0, 1.0), version=version)


def test_an_environment_of_ones_own_needs_a_version(tmp_path: Path) -> None:
    store, explorer = tmp_path / "runs.sqlite", rr.RMax(0.2, 0.1, 3, episodes=20)
    for p in (0.1, 0.9):
        with pytest.raises(InvalidInput, match=f"audit: EpisodicEnv {NAMELESS}. Give version='1'"):
            rr.audit(coin(p), explorer, shared_seeds=2, store=store)
    assert not store.exists()
    one, two = (rr.audit(coin(p, f"p = {p}"), explorer, shared_seeds=2, store=store) for p in (0.1, 0.9))
    assert one.problem != two.problem
    assert one.classes("value") != two.classes("value")
    lake = rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0))  # Gymnasium's own: its id says it all
    assert len(rr.audit(lake, explorer, shared_seeds=1, store=store).runs) == 2


@pytest.mark.parametrize("on_error", ["raise", "record"])
def test_what_cannot_be_afforded_is_refused_before_the_first_run(on_error: Any, tmp_path: Path) -> None:
    problem, store = simulator(0.5, budget=29, version="1"), tmp_path / "runs.sqlite"
    with pytest.raises(SampleSizeTooLarge) as alone:
        rr.solve(problem, FEW, shared_seed=1)
    with pytest.raises(SampleSizeTooLarge) as refused:
        rr.audit(problem, FEW, shared_seeds=2, store=store, on_error=on_error)
    assert str(refused.value) == str(alone.value)
    assert not store.exists()


class Source(Like):
    """Somebody's own source of samples."""

    version: str | None = None

    @property
    def spec(self) -> ObjectSpec:
        return ObjectSpec("source", {} if self.version is None else {"version": self.version})


def test_a_source_of_ones_own_names_its_version_in_its_spec(tmp_path: Path) -> None:
    source = Source(GRID)
    with pytest.raises(InvalidInput, match=f"audit: Source {NAMELESS}. Give version='1', which stands in its spec"):
        rr.audit(source, FEW, shared_seeds=2, store=tmp_path / "runs.sqlite")
    source.version = "1"
    result = rr.audit(source, FEW, shared_seeds=2, store=tmp_path / "runs.sqlite")
    assert result.problem == ObjectSpec("source", {"version": "1"})
    assert result.spec.sampler == "own"
