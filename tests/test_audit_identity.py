"""Whose runs a store gives to whom: a version is what tells code apart, and code that looks different is refused."""

from __future__ import annotations

import copy
import functools
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import joblib.externals.loky.backend.reduction
import numba
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import audit_spec
from replicable_rl.audit.identity import changed_parts, code_digest
from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, SampleSizeTooLarge
from replicable_rl.records import LEVELS
from replicable_rl.records.levels import freeze_array
from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.sampling import Counts
from replicable_rl.solve import algorithm_spec

GRID = rr.make("two-goals-v1")
FEW = rr.PhasedVI(0.1, 0.01, calls=5, iterations=3)
NAMELESS = "is code of your own, which a store knows only by the version that you give it"
CHANGED = "has changed since its runs in .* were made. Give the changed code another version"


def audited(train: Callable[[int, int], Any], store: Any, **options: Any) -> rr.AuditResult:
    return rr.audit_callable(train, shared_seeds=2, store=store, **{"name": "train", "version": "1", **options})


# --- a version, or nothing ---------------------------------------------------------------------------------


def test_a_store_takes_code_with_a_version_only(tmp_path: Path) -> None:
    store, made = tmp_path / "runs.sqlite", []

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        made.append(sample_seed)
        return [sample_seed % 2]

    with pytest.raises(InvalidInput) as refused:
        rr.audit_callable(train, shared_seeds=2, store=store)
    assert str(refused.value) == (
        f"audit_callable: train {NAMELESS}. Pass version='1' (or params={{...}} that say what matters), and change it "
        "whenever the code changes; or leave the store out."
    )
    assert not made
    assert not store.exists()
    with pytest.raises(InvalidInput, match=NAMELESS):
        rr.audit_callable(train, shared_seeds=2, store=rr.RunStore())
    assert rr.audit_callable(train, shared_seeds=2).algorithm == rr.ObjectSpec("train")  # nothing to be mistaken for
    made.clear()
    one = rr.audit_callable(train, shared_seeds=2, store=store, version="1")
    again = rr.audit_callable(train, shared_seeds=2, store=store, version="1")
    assert one.algorithm == rr.ObjectSpec("train", {"version": "1"})
    assert again.runs == one.runs
    assert len(made) == 4
    two = rr.audit_callable(train, shared_seeds=2, store=store, version="2")
    assert len(made) == 8
    assert {run.key for run in two.runs}.isdisjoint(run.key for run in one.runs)


def test_parameters_name_code_as_well_as_a_version(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [0]

    one = rr.audit_callable(train, shared_seeds=2, store=store, params={"alpha": 0.1})
    two = rr.audit_callable(train, shared_seeds=2, store=store, params={"alpha": 0.1}, version=1)  # type: ignore[arg-type]
    three = rr.audit_callable(train, shared_seeds=2, store=store, params={"alpha": 0.2}, name="other")
    assert one.algorithm == rr.ObjectSpec("train", {"alpha": 0.1})
    assert two.algorithm == rr.ObjectSpec("train", {"alpha": 0.1, "version": "1"})
    assert three.algorithm == rr.ObjectSpec("other", {"alpha": 0.2})
    with rr.RunStore(store) as opened:
        assert [runs for _, runs in opened.families()] == [4, 4, 4]
    with pytest.raises(InvalidInput, match="params must be a mapping"):
        rr.audit_callable(train, shared_seeds=2, params=[1])  # type: ignore[arg-type]
    for taken in ("version", "probe"):
        with pytest.raises(InvalidInput, match=f"the name '{taken}' is taken"):
            rr.audit_callable(train, shared_seeds=2, params={taken: 1})


def test_the_probe_set_is_part_of_the_name() -> None:
    names = [audited(lambda shared, sample: [0], None, probe=probe).algorithm for probe in ([0.0], [1.0], [0.0])]
    assert names[0] == names[2] != names[1]


def test_arguments_of_a_partial_are_settings(tmp_path: Path) -> None:
    def train(shared_seed: int, sample_seed: int, *, alpha: float) -> list[int]:
        return [int(alpha > 0.15)]

    store = tmp_path / "runs.sqlite"
    with pytest.raises(InvalidInput, match=NAMELESS):
        rr.audit_callable(functools.partial(train, alpha=0.1), shared_seeds=2, store=store)
    one, two = (audited(functools.partial(train, alpha=alpha), store) for alpha in (0.1, 0.2))
    assert [each.algorithm.params["alpha"] for each in (one, two)] == [0.1, 0.2]
    assert one.classes() != two.classes()
    assert rr.audit_callable(functools.partial(train, alpha=0.1), shared_seeds=1).algorithm.id == "train"


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
    train = functools.partial(weighs, layers=Mode.ZERO)
    with pytest.raises(InvalidInput) as refused:
        audited(train, tmp_path / "runs.sqlite")
    assert str(refused.value) == (
        "audit_callable: a store cannot tell layers=<Mode.ZERO: 0> from other values. Say it in params={'layers': ...}."
    )
    assert not (tmp_path / "runs.sqlite").exists()
    constant = functools.partial(lambda shared, sample, layers: [0], layers=Mode.ZERO)
    assert audited(constant, None).algorithm.params == {"version": "1"}  # nothing to be mistaken for
    said = audited(constant, tmp_path / "runs.sqlite", params={"layers": "none"})
    assert said.algorithm.params == {"layers": "none", "version": "1"}
    two_ways = functools.partial(weighs, layers=[1])
    with pytest.raises(InvalidInput, match=r"'layers' is \[1\] in train and \[2\] in params"):
        audited(two_ways, None, params={"layers": [2]})
    assert audited(two_ways, None, params={"layers": (1,)}).algorithm.params["layers"] == [1]
    with pytest.raises(InvalidInput, match="the name 'version' is taken"):
        audited(functools.partial(lambda shared, sample, version: [0], version=2), None)


@pytest.mark.parametrize("named", [{"version": ""}, {"params": {}}, {"params": {}, "version": ""}])
def test_nothing_is_no_name(named: dict[str, Any], tmp_path: Path) -> None:
    message = "version must be a text such as '1', got ''" if "version" in named else NAMELESS
    with pytest.raises(InvalidInput, match=message):
        rr.audit_callable(weighs, shared_seeds=2, store=tmp_path / "runs.sqlite", **named)


# --- code in several modules --------------------------------------------------------------------------------

TRAIN = """
import helpers
import package.inner
from helpers import also

def train(shared_seed, sample_seed):
    CALLS.append(sample_seed)
    return [helpers.answer() + also() + package.inner.third()]

CALLS = []
"""
HELPERS = "def answer():\n    return {}\n\ndef also():\n    return {}\n\ndef another():\n    return 5\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Import ``training.train`` of a project with these files instead of the usual ones, in a folder of its own."""
    usual = {
        "training.py": TRAIN,
        "helpers.py": HELPERS.format(0, 0),
        "package/__init__.py": "",
        "package/inner.py": "def third():\n    return 0\n",
    }
    names = ("training", "helpers", "package", "package.inner")

    def forget() -> None:
        for name in names:
            sys.modules.pop(name, None)

    def imported(**files: str) -> Any:
        forget()
        folder = tmp_path / f"project {len(list(tmp_path.iterdir()))}"
        for name, text in {**usual, **{key.replace("__", "/") + ".py": text for key, text in files.items()}}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        return importlib.import_module("training")

    yield imported
    forget()


@pytest.mark.parametrize(
    "change",
    [
        {"helpers": HELPERS.format(1, 0)},  # called as helpers.answer()
        {"helpers": HELPERS.format(0, 1)},  # imported by its name
        {"package__inner": "def third():\n    return 1\n"},
        {"package__inner": "def third():\n    return fourth()\n\ndef fourth():\n    return 1\n"},
    ],
    ids=["module", "name", "package", "further"],
)
def test_a_changed_helper_in_another_module_needs_another_version(
    change: dict[str, str], project: Callable[..., Any], tmp_path: Path
) -> None:
    store = tmp_path / "runs.sqlite"
    before = project()
    one = audited(before.train, store)
    assert len(before.CALLS) == 4
    same = project()  # the same text in another folder
    assert audited(same.train, store).runs == one.runs
    assert not same.CALLS
    after = project(**change)
    with pytest.raises(InvalidInput, match=f"audit: the code of train on callable {CHANGED}"):
        audited(after.train, store)
    assert not after.CALLS
    two = audited(after.train, store, version="2")
    assert len(after.CALLS) == 4
    assert one.outputs()[one.classes()[0].fingerprint].tolist() == [0]
    assert two.outputs()[two.classes()[0].fingerprint].tolist() == [1]
    assert audited(project().train, store).runs == one.runs  # and the first version is still there


@pytest.mark.parametrize(
    "change",
    [
        {"helpers": '"""Words."""\n# and more\n\n\n' + HELPERS.format(0, 0)},
        {"helpers": HELPERS.format(0, 0).replace("return 5", "return 6")},  # which train does not call
        {"training": TRAIN.replace("    CALLS", '    """Train.\n\n    At length.\n    """\n    # slowly\n\n    CALLS')},
        {"package__inner": 'def third():\n    "Three."\n    return 0  # it is\n'},
    ],
    ids=["moved", "unrelated", "docstring", "comment"],
)
def test_words_and_unrelated_code_may_change(
    change: dict[str, str], project: Callable[..., Any], tmp_path: Path
) -> None:
    store = tmp_path / "runs.sqlite"
    one = audited(project().train, store)
    after = project(**change)
    assert audited(after.train, store).runs == one.runs
    assert not after.CALLS


# --- code of every kind: what is seen ------------------------------------------------------------------------


def run_text(text: str, **names: Any) -> Any:
    """Return the ``train`` that a text defines, as a notebook would."""
    scope: dict[str, Any] = {"__name__": "somewhere", **names}
    exec(text, scope)
    return scope["train"]


def closing_over(value: Any) -> Any:
    return lambda shared_seed, sample_seed: [int(value)]


class Trainer:
    def __init__(self, value: int, label: str = "") -> None:
        self.value, self.label, self.trained, self.memo = value, label, 0, {}  # type: ignore[var-annotated]

    def __call__(self, shared_seed: int, sample_seed: int) -> list[int]:
        self.trained += 1
        self.memo[sample_seed] = shared_seed
        return [self.value]

    def method(self, shared_seed: int, sample_seed: int) -> list[int]:
        self.count()
        return [self.value]

    def count(self) -> None:
        self.trained += 1


@dataclass(frozen=True)
class Settings:
    value: int

    def train(self, shared_seed: int, sample_seed: int) -> list[int]:
        return [self.value]


class Mode(Enum):
    ZERO = 0
    ONE = 1


def in_mode(mode: Mode) -> Any:
    return lambda shared_seed, sample_seed: [mode.value]


def decorated(value: int) -> Any:
    @functools.wraps(closing_over)
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [value]

    return train


def with_defaults(value: int, other: int) -> Any:
    def train(shared_seed: int, sample_seed: int, a: int = 0, b: int = 1, c: int = value, *, d: int = other) -> Any:
        return [c + d]

    return train


def takes(first: int, second: int, shared_seed: int, sample_seed: int) -> list[int]:
    return [second]


def cached(value: int) -> Any:
    @functools.lru_cache
    def answer() -> int:
        return value

    return lambda shared_seed, sample_seed: [answer()]


def compiled(value: int) -> Any:
    @numba.njit
    def train(shared_seed: int, sample_seed: int) -> Any:
        return np.array([value])

    return train


def calling_compiled(value: int) -> Any:
    @numba.njit
    def kernel() -> int:
        return value

    return lambda shared_seed, sample_seed: [kernel()]  # type: ignore[call-arg]  # numba's types know no decorator


def with_class(value: int) -> Any:
    class Base:
        @property
        def answer(self) -> int:
            return value

    class Inner(Base):
        pass

    return lambda shared_seed, sample_seed: [Inner().answer]


NAMED_IN_A_SET = "def train(shared_seed, sample_seed):\n    return [int('b' in {'a', 'c', 'd', '%s'})]\n"
HELPED = "def helper():\n    return {}\n\ndef train(shared_seed, sample_seed):\n    return [helper()]\n"
ALIASED = """
zero, one = min, max
chosen = {}

def train(shared_seed, sample_seed):
    return [chosen(zero(0, 1), one(0, 1))]
"""

PAIRS_OF_PROGRAMS: dict[str, tuple[Any, Any]] = {
    "cached": (cached(0), cached(1)),
    "closure": (closing_over(0), closing_over(1)),
    "number of numpy": (closing_over(np.int64(0)), closing_over(np.int64(1))),
    "member of an enumeration": (in_mode(Mode.ZERO), in_mode(Mode.ONE)),
    "object": (Trainer(0), Trainer(1)),
    "method": (Trainer(0).method, Trainer(1).method),
    "method of a dataclass": (Settings(0).train, Settings(1).train),
    "decorator": (decorated(0), decorated(1)),
    "default": (with_defaults(0, 0), with_defaults(1, 0)),
    "default by name": (with_defaults(0, 0), with_defaults(0, 1)),
    "lambdas on one line": (lambda shared, sample: [0], lambda shared, sample: [1]),
    "partial of an object": (functools.partial(Trainer(0)), functools.partial(Trainer(1))),
    "compiled": (compiled(0), compiled(1)),
    "calls compiled": (calling_compiled(0), calling_compiled(1)),
    "property of a base class": (with_class(0), with_class(1)),
    "helper": (run_text(HELPED.format(0)), run_text(HELPED.format(1))),
    "text in a generator": (
        run_text("def train(shared_seed, sample_seed):\n    return [int('b' == next('a' for _ in [0]))]\n"),
        run_text("def train(shared_seed, sample_seed):\n    return [int('b' == next('b' for _ in [0]))]\n"),
    ),
    "constant in a set": (run_text(NAMED_IN_A_SET % "e"), run_text(NAMED_IN_A_SET % "b")),
    "another of two known functions": (run_text(ALIASED.format("zero")), run_text(ALIASED.format("one"))),
}


@pytest.mark.parametrize("name", PAIRS_OF_PROGRAMS)
def test_a_store_never_gives_one_program_the_runs_of_another(name: str, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    first, second = PAIRS_OF_PROGRAMS[name]
    one = audited(first, store)
    with pytest.raises(InvalidInput, match=CHANGED):
        audited(second, store)
    two = audited(second, store, version="2")
    assert one.classes() != two.classes()
    with rr.RunStore(store) as opened:
        assert len(opened.audits()) == 2
        assert [runs for _, runs in opened.families()] == [4, 4]
    assert [run.seconds for run in audited(first, store).runs] == [run.seconds for run in one.runs]  # not run again


def test_what_a_program_changes_while_it_runs_does_not_matter(tmp_path: Path) -> None:
    memo: dict[int, int] = {}

    def remembers(shared_seed: int, sample_seed: int) -> list[int]:
        return [memo.setdefault(sample_seed, len(memo))]

    trainer = Trainer(0, "mine")
    programs: list[Callable[[int, int], Any]] = [remembers, trainer, trainer.method]
    for i, train in enumerate(programs):
        store = tmp_path / f"{i}.sqlite"
        one = audited(train, store)
        more = rr.audit_callable(train, shared_seeds=3, store=store, name="train", version="1")
        assert more.runs[:4] == one.runs
    assert len(memo) == 6
    assert trainer.trained == 12
    assert len(trainer.memo) == 6


def test_copies_and_pickles_leave_no_trace() -> None:
    @dataclass(frozen=True)
    class Fresh(Nameless):
        pass

    before = code_digest(Fresh())
    copy.copy(Fresh())
    joblib.externals.loky.backend.reduction.dumps(Fresh())
    assert code_digest(Fresh()) == before


def test_classes_inside_functions_may_have_other_words() -> None:
    text = "def train(shared_seed, sample_seed):\n    class Answer:\n        {}\n        x = 0\n    return [Answer.x]\n"
    one, two, moved = (run_text(text.format(words)) for words in ("'One.'", "'Two.'", "'''Three\n\n'''"))
    assert code_digest(one) == code_digest(two) == code_digest(moved)
    assert code_digest(run_text(text.format("'One.'").replace("x = 0", "x = 1"))) != code_digest(one)


def test_the_same_code_looks_the_same_in_every_process(tmp_path: Path) -> None:
    """Sets of texts have another order in every process."""
    names = ", ".join(repr(f"name {i}") for i in range(20))
    text = (
        "from replicable_rl.audit.identity import code_digest\n"
        f"KNOWN = frozenset([{names}])\n"
        f"def train(shared_seed, sample_seed):\n    return [int('x' in {{{names}}}), len(KNOWN)]\n"
        "print(code_digest(train))\n"
    )
    (tmp_path / "script.py").write_text(text)
    found = {
        subprocess.check_output([sys.executable, tmp_path / "script.py"], env={"PYTHONHASHSEED": str(seed)}, text=True)
        for seed in range(1, 5)
    }
    assert len(found) == 1


def test_objects_that_answer_to_every_name_are_harmless() -> None:
    from unittest.mock import MagicMock

    class Anything:
        def __getattr__(self, name: str) -> Any:
            return Anything()

    assert code_digest(closing_over(Anything()), MagicMock()).startswith(str(sys.implementation.cache_tag))


def test_another_python_compiles_the_same_code_differently(tmp_path: Path) -> None:
    assert not changed_parts([None], code_digest(closing_over(0)))
    store = rr.RunStore(tmp_path / "runs.sqlite")
    train = closing_over(0)
    digest = code_digest(train)
    one = audited(train, store)
    assert one.spec.code == digest.replace("-" + digest[-16:], "-algorithm:" + digest[-16:])
    old = rr.AuditSpec.from_json(one.spec.to_json() | {"code": "cpython-27-algorithm:0"})
    elsewhere = rr.RunStore(tmp_path / "other.sqlite")
    elsewhere.add_audit(old)
    assert audited(train, elsewhere).agreement().estimate == 1.0


# --- algorithms ----------------------------------------------------------------------------------------------

INNER = rr.PhasedVI(0.1, 0.01, calls=7, iterations=5)


@dataclass(frozen=True)
class Nameless:
    calls: int = 7

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.PhasedVI(0.1, 0.01, calls=self.calls, iterations=5).solve(source, shared, rng)


@dataclass(frozen=True)
class Versioned(Nameless):
    version: ClassVar[str] = "1"


@dataclass(frozen=True)
class Heir(Versioned):
    """Has its version from somebody else, whose code it is not."""


class Plain:
    """No dataclass: its settings are its attributes."""

    version = "1"

    def __init__(self, calls: Any) -> None:
        self.calls = calls

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
    assert one.algorithm == rr.ObjectSpec(f"{__name__}.Versioned", {"version": "1"})
    assert rr.audit(GRID, Versioned(), shared_seeds=2, store=store).seconds == one.seconds
    other = rr.audit(GRID, Versioned(8), shared_seeds=2, store=store)
    assert other.algorithm.params == {"calls": 8, "version": "1"}
    monkeypatch.setattr(Versioned, "solve", lambda self, source, shared, rng: INNER.solve(source, shared, rng))
    with pytest.raises(InvalidInput, match=f"the code of {__name__}.Versioned on two-goals-v1 {CHANGED}"):
        rr.audit(GRID, Versioned(), shared_seeds=2, store=store)
    monkeypatch.setattr(Versioned, "version", "2")
    two = rr.audit(GRID, Versioned(), shared_seeds=2, store=store)
    assert two.algorithm.params == {"version": "2"}
    assert {run.key for run in two.runs}.isdisjoint(run.key for run in one.runs)


class Slotted(Plain):
    __slots__ = ("inner",)
    version = "1"

    def __init__(self, inner: Any) -> None:
        super().__init__(None)
        self.inner = inner


class Grown(Versioned):
    """Not all of its settings are fields."""

    version = "1"

    def __init__(self, more: Any) -> None:
        super().__init__()
        object.__setattr__(self, "more", more)


@dataclass(frozen=True)
class Layered:
    layers: tuple[int, ...] = (2, 3)
    rate: float = 0.5
    weights: Any = None


def test_what_is_left_at_its_default_is_not_said_and_what_is_given_as_a_list_or_an_array_is() -> None:
    given = algorithm_spec(Layered(layers=tuple(range(2, 4)), rate=0.5, weights=np.array([1.0, 2.0]))).params
    assert given == {"layers": [2, 3], "weights": {"array": array_digest("float64", np.array([1.0, 2.0]))}}
    assert algorithm_spec(Layered()).params == algorithm_spec(Layered(rate=0.5)).params == {}
    for rate, said in ((1, 1), (True, True), (np.float64(0.25), 0.25), (1.0, 1.0)):
        (found,) = algorithm_spec(Layered(rate=rate)).params.values()
        assert (found, type(found)) == (said, type(said))


def test_specs_that_are_kept_for_many_runs_are_never_those_of_another_algorithm() -> None:
    """A spec of plain values is made once; all that it says must be what it is known by."""

    @dataclass
    class Tuned:
        rate: float = 0.5
        more: Any = None

    def said(algorithm: Any) -> str:
        return json.dumps(algorithm_spec(algorithm).to_json())

    assert algorithm_spec(Tuned(0.1)) is algorithm_spec(Tuned(0.1))  # it is kept
    assert len({said(Tuned(rate)) for rate in (1, 1.0, True)}) == 3  # equal, and not the same
    tuned = Tuned(0.1, "a")
    before = said(tuned)
    tuned.rate = 0.2
    assert said(tuned) == said(Tuned(0.2, "a")) != before
    tuned.more = [1]
    one = said(tuned)
    tuned.more.append(2)
    assert said(tuned) != one  # what can change is looked at every time
    for name, value in (("id", "tuned-v1"), ("version", "2"), ("id", "tuned-v2")):
        unnamed = said(Tuned(0.1))
        setattr(Tuned, name, value)
        assert said(Tuned(0.1)) != unnamed

    class Heir(Tuned):
        pass

    assert said(Heir(0.1)) != said(Tuned(0.1))
    other = Tuned.__new__(Tuned)
    other.more, other.rate = 0.1, 0.2  # in another order
    assert said(other) == said(Tuned(0.2, 0.1)) != said(Tuned(0.1, 0.2))
    other.id = "mine-v1"  # type: ignore[attr-defined]
    assert algorithm_spec(other).id == "mine-v1"
    assert said(Slotted(1)) != said(Slotted(2))
    assert [algorithm_spec(Layered(rate=zero)).text for zero in (-0.0, 0.0)] == [
        f"{Layered.__module__}.Layered:rate={zero}" for zero in ("-0.0", "0.0")
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Grown([1]), Grown([2])),
        (Plain(None), Plain(1)),
        (Plain([1]), Plain([2])),
        (Plain(np.array([1])), Plain(np.array([2]))),
        (Plain({"a": (1, 2)}), Plain({"a": (1, 3)})),
        (Plain(rr.PhasedVI(0.1, 0.1)), Plain(rr.PhasedVI(0.2, 0.1))),
        (Slotted(1), Slotted(2)),
        (Slotted([Versioned(1)]), Slotted([Versioned(2)])),
    ],
    ids=["heir", "number", "list", "array", "mapping", "algorithm", "slot", "algorithms"],
)
def test_attributes_are_the_settings_of_an_algorithm_that_is_no_dataclass(
    first: Any, second: Any, tmp_path: Path
) -> None:
    store = tmp_path / "runs.sqlite"
    one, two, same = (rr.audit(GRID, each, shared_seeds=2, store=store) for each in (first, second, copy.copy(first)))
    assert one.algorithm != two.algorithm
    assert one.runs == same.runs  # found by its version and settings, wherever it is in memory
    assert one.seconds == same.seconds


def test_settings_that_json_cannot_say_are_refused_by_a_store(tmp_path: Path) -> None:
    values: list[Any] = [iter([]), len, {1: 2}, Fraction(1, 3), float("nan"), np.array(["a"]), [object()]]
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


@dataclass(frozen=True)
class Share:
    """A threshold of one's own, with a setting."""

    x: Any
    id: ClassVar[str] = "mine"

    def share(self, shared: rr.SharedRandomness, label: str, *address: int, fixed: float) -> float:
        return float(self.x)


class ByHand:
    id = "mine"

    def __init__(self, x: float) -> None:
        self.x = x

    def share(self, shared: rr.SharedRandomness, label: str, *address: int, fixed: float) -> float:
        return self.x


def explorer(threshold: Any) -> rr.ReplicableRMax:
    return rr.ReplicableRMax(0.1, 0.01, 0.2, 10, episodes=20, rounds=2, threshold=threshold)


@pytest.mark.parametrize("kind", [Share, ByHand])
def test_ingredients_are_known_by_their_settings(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "runs.sqlite"
    one, two = (rr.audit(GRID, explorer(kind(x)), shared_seeds=2, store=store) for x in (0.1, 0.9))
    assert one.algorithm.params["threshold"] == {"id": "mine", "x": 0.1}
    assert one.runs[0].history["threshold"][0] != two.runs[0].history["threshold"][0]
    assert rr.audit(GRID, explorer(kind(0.1)), shared_seeds=2, store=store).seconds == one.seconds
    monkeypatch.setattr(kind, "share", lambda self, shared, label, *address, fixed: 0.5)
    with pytest.raises(InvalidInput, match=f"the code of the threshold of {one.algorithm.id} {CHANGED}"):
        rr.audit(GRID, explorer(kind(0.1)), shared_seeds=2, store=store)


def test_ingredients_without_settings_are_known_by_their_ids(tmp_path: Path) -> None:
    ours = rr.audit(GRID, explorer("fixed"), shared_seeds=1, store=tmp_path / "runs.sqlite")
    assert ours.algorithm.params["threshold"] == "fixed"
    assert ours.spec.code is None
    with pytest.raises(InvalidInput, match="JSON cannot say 'threshold'"):
        rr.audit(GRID, explorer(Share(Fraction(1, 3))), shared_seeds=1, store=tmp_path / "runs.sqlite")
    assert rr.audit(GRID, explorer(Share(Fraction(1, 3))), shared_seeds=1).algorithm.params["threshold"] == "mine"


@pytest.fixture
def registered() -> Iterator[type[Nameless]]:
    @rr.register_algorithm
    @dataclass(frozen=True)
    class Registered(Nameless):
        id: ClassVar[str] = "registered-in-a-test-v1"

    yield Registered
    del ALGORITHMS["registered-in-a-test-v1"]


def test_a_registered_algorithm_needs_no_version(registered: type[Nameless], tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    one = rr.audit(GRID, registered(8), shared_seeds=2, store=store)
    assert one.algorithm == rr.ObjectSpec("registered-in-a-test-v1", {"calls": 8})
    (by_id,) = rr.run_audits([rr.AuditSpec(GRID.spec, one.algorithm, 3)], rr.RunStore(store))
    assert by_id.runs[:4] == one.runs
    assert by_id.spec.code == one.spec.code is not None
    assert rr.audit(GRID, registered(8), shared_seeds=3, store=store).runs == by_id.runs

    @dataclass(frozen=True)
    class Pretender(Nameless):
        id: ClassVar[str] = "registered-in-a-test-v1"

    with pytest.raises(InvalidInput, match=NAMELESS):
        rr.audit(GRID, Pretender(8), shared_seeds=2, store=store)


def test_ids_stand_for_the_code_of_today(
    registered: type[Nameless], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, store = rr.AuditSpec(GRID.spec, rr.ObjectSpec(registered.id, {"calls": 8}), 2), rr.RunStore(tmp_path / "r")  # type: ignore[attr-defined]  # a class attribute
    (one,) = rr.run_audits([spec], store)
    for again in (spec, store.audits()[0]):  # whoever writes it, and as it was stored
        (same,) = rr.run_audits([again], store)
        assert same.seconds == one.seconds
    monkeypatch.setattr(registered, "solve", lambda self, source, shared, rng: INNER.solve(source, shared, rng))
    for again in (spec, store.audits()[0]):
        with pytest.raises(InvalidInput, match=f"the code of registered-in-a-test-v1 on two-goals-v1 {CHANGED}"):
            list(rr.run_audits([again], store))


def test_two_programs_of_one_name_are_refused_in_one_call_too(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [audit_spec(GRID, Plain(None), shared_seeds=2)]
    monkeypatch.setattr(Plain, "solve", lambda self, source, shared, rng: INNER.solve(source, shared, rng))
    specs.append(audit_spec(GRID, Plain(None), shared_seeds=2))
    store = rr.RunStore()
    with pytest.raises(InvalidInput, match=CHANGED):
        list(rr.run_audits(specs, store))
    assert not store.audits()


# --- levels --------------------------------------------------------------------------------------------------


@pytest.fixture
def level(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Register a level of one's own with other functions than before, as an edited file would."""

    def register(name: str = "my-words", **functions: Any) -> None:
        monkeypatch.setitem(LEVELS, name, rr.Level(name, **functions))

    return register


@dataclass(frozen=True)
class Wordy:
    """Always says the same."""

    id: ClassVar[str] = "wordy"
    version: ClassVar[str] = "1"

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.Run.of({"my-words": [1, 2]}, samples=0)


def wordy_training(shared_seed: int, sample_seed: int) -> rr.Run:
    return rr.Run.of({"my-words": [1, 2]})


def doubled(name: str, output: Any) -> Any:
    return freeze_array(name, np.asarray(output) * 2)


def longer(name: str, output: Any) -> str:
    return array_digest(f"my {name}", output)


@pytest.mark.parametrize("change", [{"freeze": doubled}, {"digest": longer}], ids=["freeze", "digest"])
@pytest.mark.parametrize("way", ["audit", "audit_callable"])
def test_a_store_never_mixes_runs_of_two_levels_of_one_name(way: str, change: Any, level: Any, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"

    def made(seeds: int) -> rr.AuditResult:
        if way == "audit_callable":
            return rr.audit_callable(wordy_training, shared_seeds=seeds, store=store, version="1")
        return rr.audit(GRID, Wordy(), shared_seeds=seeds, store=store)

    level()
    assert made(2).seconds == made(2).seconds
    level(**change)
    id = "wordy_training" if way == "audit_callable" else "wordy"
    with pytest.raises(InvalidInput) as refused:
        made(3)
    assert str(refused.value) == (
        f"audit: the code of the level my-words has changed since its runs in {store} were made. Give {id} another id "
        "or version."
    )
    level()
    assert made(3).agreement().estimate == 1.0


def test_a_level_that_the_runs_do_not_have_may_change(level: Any, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    one = rr.audit(GRID, FEW, shared_seeds=2, store=store)  # before there is a level
    for change in ({}, {"freeze": doubled}, {"digest": longer}):
        level(**change)
        assert rr.audit(GRID, FEW, shared_seeds=2, store=store).seconds == one.seconds


def test_a_level_that_no_run_could_be_made_with_may_be_mended(level: Any, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    level(freeze=lambda name, output: 1 / 0)
    with pytest.raises(rr.RunFailed, match="division by zero"):
        rr.audit(GRID, Wordy(), shared_seeds=2, store=store)
    level()
    assert len({rr.audit(GRID, Wordy(), shared_seeds=2, store=store).seconds for _ in range(2)}) == 1


def test_stores_of_before_levels_were_looked_at_are_extended(level: Any) -> None:
    level()
    store, spec = rr.RunStore(), audit_spec(GRID, Wordy(), shared_seeds=2)
    older = (spec.code or "").partition("+level ")[0]
    assert older != spec.code
    (before,) = rr.run_audits([replace(spec, code=older)], store)
    assert rr.audit(GRID, Wordy(), shared_seeds=3, store=store).runs[:4] == before.runs


# --- problems ------------------------------------------------------------------------------------------------


def simulator(share: float, **options: Any) -> rr.Simulator:
    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return int(rng.random() < share), float(state)

    return rr.Simulator(step, n_states=2, n_actions=1, gamma=0.5, reward_range=(0.0, 1.0), name="coin", **options)


def test_a_simulator_needs_a_version(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    with pytest.raises(
        InvalidInput, match=r"audit: Simulator coin: a store knows .* by its version only. Give version"
    ):
        rr.audit(simulator(0.1), FEW, shared_seeds=2, store=store)
    assert not store.exists()
    rr.audit(simulator(0.1), FEW, shared_seeds=2)
    one, same = (rr.audit(simulator(0.1, version="1"), FEW, shared_seeds=2, store=store) for _ in range(2))
    assert one.problem.params["version"] == "1"
    assert one.seconds == same.seconds
    with pytest.raises(InvalidInput, match=f"audit: the code of simulator coin {CHANGED}"):
        rr.audit(simulator(0.9, version="1"), FEW, shared_seeds=2, store=store)
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
        with pytest.raises(InvalidInput, match=r"audit: EpisodicEnv .*Coin.* by its version only. Give version='1'"):
            rr.audit(coin(p), explorer, shared_seeds=2, store=store)
    assert not store.exists()
    one, two = (rr.audit(coin(p, f"p = {p}"), explorer, shared_seeds=2, store=store) for p in (0.1, 0.9))
    assert one.problem != two.problem
    assert one.classes("value") != two.classes("value")
    lake = rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0))  # Gymnasium's own: its id says it all
    assert len(rr.audit(lake, explorer, shared_seeds=1, store=store).runs) == 2


class Less(gymnasium.RewardWrapper[int, int]):
    """Somebody's own wrapper."""

    def __init__(self, env: Any, factor: float) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return self.factor * float(reward)


ENVIRONMENTS: dict[str, Callable[[float], Any]] = {
    "object": Coin,
    "factory": lambda p: lambda: Coin(p),
    "partial": lambda p: functools.partial(Coin, p),
    "wrapped": lambda p: gymnasium.wrappers.TimeLimit(Coin(p), 3),
    "own wrapper": lambda p: Less(Coin(0.5), p),
    "time limit": lambda p: gymnasium.wrappers.TimeLimit(Coin(0.5), int(10 * p)),
    "function of a wrapper": lambda p: gymnasium.wrappers.TransformReward(Coin(0.5), lambda reward: p * float(reward)),
    "vector": lambda p: gymnasium.vector.SyncVectorEnv([lambda: Coin(p)] * 2),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_another_environment_of_the_same_version_is_refused(name: str, tmp_path: Path) -> None:
    store, explorer = tmp_path / "runs.sqlite", rr.RMax(0.2, 0.1, 3, episodes=20)

    def problem(p: float) -> rr.EpisodicEnv:
        return rr.EpisodicEnv(ENVIRONMENTS[name](p), gamma=0.5, reward_range=(0.0, 1.0), version="1")

    first = problem(0.1)
    one = rr.audit(first, explorer, shared_seeds=2, store=store)
    assert rr.audit(first, explorer, shared_seeds=2, store=store).seconds == one.seconds  # though it has been played
    assert rr.audit(problem(0.1), explorer, shared_seeds=2, store=store).seconds == one.seconds
    with pytest.raises(InvalidInput, match=f"audit: the code of episodes/(Coin|SyncVectorEnv) {CHANGED}"):
        rr.audit(problem(0.9), explorer, shared_seeds=2, store=store)


def test_a_simulator_that_is_a_partial_is_looked_into(tmp_path: Path) -> None:
    def step(state: int, action: int, rng: np.random.Generator, chances: Any) -> tuple[int, float]:
        return int(rng.random() < chances["heads"][0]), float(state)

    sizes: dict[str, Any] = {"n_states": 2, "n_actions": 1, "gamma": 0.5, "reward_range": (0.0, 1.0), "version": "1"}
    for kind in (list, np.array):
        store = rr.RunStore(tmp_path / kind.__name__)
        one, two = (rr.Simulator(functools.partial(step, chances={"heads": kind([p])}), **sizes) for p in (0.1, 0.9))
        rr.audit(one, FEW, shared_seeds=2, store=store)
        with pytest.raises(InvalidInput, match=CHANGED):
            rr.audit(two, FEW, shared_seeds=2, store=store)


@pytest.mark.parametrize("by_ids", [False, True])
def test_a_registered_problem_must_stay_what_it_was(
    by_ids: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = rr.RunStore(tmp_path / "runs.sqlite")

    def made(prize: float) -> rr.AuditResult:
        table = rr.TabularMDP.from_outcomes([[[(1.0, 0, 1.0 - prize)], [(1.0, 0, prize)]]], gamma=0.5)
        monkeypatch.setitem(PROBLEMS, "changing-v1", lambda: table)
        if not by_ids:
            return rr.audit(rr.make("changing-v1"), FEW, shared_seeds=2, store=store)
        (result,) = rr.run_audits([rr.AuditSpec(rr.ObjectSpec("changing-v1"), algorithm_spec(FEW), 2)], store)
        return result

    one = made(1.0)
    assert made(1.0).seconds == one.seconds
    with pytest.raises(InvalidInput, match=f"audit: the code of changing-v1 {CHANGED}"):
        made(0.0)


@pytest.mark.parametrize("on_error", ["raise", "record"])
def test_what_cannot_be_afforded_is_refused_before_the_first_run(on_error: Any, tmp_path: Path) -> None:
    problem, store = simulator(0.5, budget=29, version="1"), tmp_path / "runs.sqlite"
    with pytest.raises(SampleSizeTooLarge) as alone:
        rr.solve(problem, FEW, shared_seed=1)
    with pytest.raises(SampleSizeTooLarge) as refused:
        rr.audit(problem, FEW, shared_seeds=2, store=store, on_error=on_error)
    assert str(refused.value) == str(alone.value)
    assert not store.exists()


class Source(Counts):
    """Somebody's own source of samples."""

    version: str | None = None

    @property
    def spec(self) -> rr.ObjectSpec:
        return rr.ObjectSpec("source", {} if self.version is None else {"version": self.version})


def test_a_source_of_ones_own_names_its_version_in_its_spec(tmp_path: Path) -> None:
    source = Source(GRID)
    with pytest.raises(
        InvalidInput, match=f"audit: Source {NAMELESS}. Name a version among the parameters of the spec"
    ):
        rr.audit(source, FEW, shared_seeds=2, store=tmp_path / "runs.sqlite")
    source.version = "1"
    result = rr.audit(source, FEW, shared_seeds=2, store=tmp_path / "runs.sqlite")
    assert result.problem == rr.ObjectSpec("source", {"version": "1"})
    assert result.spec.sampler == "own"
