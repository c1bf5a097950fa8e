"""What lies in ``dev``: benchmarks run and find slopes, fuzzing tells outcomes apart, and soaking notices a loss.

Nothing is timed here.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dev.benchmarks import __main__ as command
from dev.benchmarks import peers, planning, rendering
from dev.benchmarks.fitting import fit, fit_curve
from dev.benchmarks.problems import table_of_400
from dev.benchmarks.records import Book
from dev.benchmarks.timing import OURS, Job, Measurement, in_turns
from dev.fuzz import engine
from dev.fuzz.engine import BAD, CHANGED, EQUAL, HANG, LESS, MEMORY, OTHER, OUTCOMES, REFUSED, TRACEBACK, fuzz
from dev.fuzz.mutations import mutate
from dev.fuzz.seeds import KINDS, Kind, copied
from dev.soak import __main__ as soak
from packaging.requirements import Requirement

from replicable_rl.errors import InvalidInput

# --- benchmarks: slopes and times ------------------------------------------------------------------


def planted(slope: float, *, rounds: int = 20, seed: int = 1) -> tuple[list[float], Any]:
    """Return sizes, and times that grow with a known slope, in rounds of which some are busy throughout."""
    rng = np.random.default_rng(seed)
    sizes = [10.0**e for e in range(4, 19)]
    busy = rng.exponential(2.0, size=rounds)  # as much as e^2 slower, a whole round long
    times = [np.exp(slope * math.log(m) + busy + 0.05 * rng.standard_normal(rounds)).tolist() for m in sizes]
    return sizes, times


@pytest.mark.parametrize("slope", [0.0, 0.01, 1.0, -1.0])
def test_slope_is_found_whatever_the_busy_rounds(slope: float) -> None:
    line = fit(*planted(slope))
    assert line.low <= slope <= line.high
    assert line.high - line.low < 0.005
    assert line.flat == (slope == 0.0), "0.01 is 2.3 % a decade, and is seen"


def test_interval_covers_as_often_as_it_says() -> None:
    covered = sum(fit(*planted(0.0, seed=seed)).flat for seed in range(1000))
    assert 910 <= covered <= 985  # 950 expected, the deviation is 7
    assert math.isnan(fit([1, 10], [[1.0], [1.0]]).low), "one round has no interval"


def test_turns_rotate_and_count() -> None:
    calls: list[str] = []
    jobs = [
        Job("a", lambda: calls.append("a"), factor=0.0),
        Job("b", lambda: calls.append("b")),
        Job("c", None, note="x"),
    ]
    a, b, c = in_turns("s", "job", jobs, rounds=3, warm=False)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert (len(a.values), len(b.values), len(c.values)) == (3, 3, 0)
    assert a.best == 0.0 < b.best
    assert math.isnan(c.best)
    assert c.note == "x"


# --- benchmarks: sections and their page ---------------------------------------------------------------


@pytest.mark.parametrize("name", command.MODULES)
def test_sections_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dev.benchmarks import audit

    monkeypatch.setattr(audit, "all_cores", lambda: 1)  # no worker processes in the tests
    module = command.MODULES[name]
    measured = tuple(module.measure(module.QUICK))
    assert {each.section for each in measured} == {name}
    assert all(each.values or each.note for each in measured)
    assert all(0.0 < value < 1e12 for each in measured for value in each.values)
    for curve in Book({}, measured).curves():
        assert math.isfinite(fit_curve(curve).estimate)
    assert "| ---" in rendering.section_tables(Book({}, measured), name)


@pytest.mark.parametrize("by", [by for by, package, _ in planning.CONTENDERS if peers.installed(package)])
def test_planners_agree(by: str) -> None:
    mdp = table_of_400(50)
    answers = [
        prepare(mdp.rows, mdp.n_actions, mdp.gamma)() for name, _, prepare in planning.CONTENDERS if name in (OURS, by)
    ]
    assert np.abs(answers[0] - answers[-1]).max() <= 2 * planning.TOLERANCE


@pytest.fixture
def book() -> Book:
    """A book with a curve, a ratio, an absent peer and a peak."""

    def made() -> Iterator[Measurement]:
        for e in (4, 11, 18):
            yield Measurement("sampler", "a draw", OURS, {"m": 10**e}, [1e-6, 1.1e-6], against="m")
        yield Measurement("sampler", "a row", OURS, {"m": 13_000}, [4e-8, 5e-8])
        yield Measurement("sampler", "a row", "numpy multinomial", {"m": 13_000}, [1.2e-7, 1e-7])
        for n, seconds in ((1000, 1e-3), (10_000, 1e-2)):
            yield Measurement("planning", "grid, γ = 0.99", OURS, {"S": n}, [seconds, 2 * seconds], against="S")
            yield Measurement("planning", "grid, γ = 0.99", "QuantEcon", {"S": n}, [3 * seconds], against="S")
            yield Measurement("planning", "grid, γ = 0.99", "mdpsolver", {"S": n}, against="S", note="Not here.")
        for stage, peak in (("imports", 100.0), ("planning", 450.0)):
            yield Measurement("planning", planning.MEMORY, OURS, {"S": 10**6, "until": stage}, [peak], "MB")

    return Book({"cores": "2"}, tuple(made()))


def test_the_page_shows_ratios_and_survives_json(book: Book, tmp_path: Path) -> None:
    book.save(tmp_path / "new" / "book.json")
    page = rendering.page(Book.load(tmp_path / "new" / "book.json"))
    assert page == rendering.page(book)
    assert "planning: QuantEcon | 3.0× in the geometric mean (3.0× to 3.0×)" in page
    assert "a draw, m from 10<sup>4</sup> to 10<sup>18</sup> | +0.00 % per tenfold m (+0.00 to +0.00)" in page
    tables = rendering.section_tables(book, "planning")
    assert "| grid, γ = 0.99 | 1 000 | 1.0 ms | 3.0× | –<sup>a</sup> |" in tables
    assert "<sup>a</sup> Not here." in tables


# --- fuzzing and soaking ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_mutants_of_every_kind() -> None:
    outcomes = fuzz(120 * len(KINDS), seed=2026)
    assert outcomes.bad == []
    assert {name: sum(counts.values()) for name, counts in outcomes.counts.items()} == dict.fromkeys(KINDS, 120)
    for name, counts in outcomes.counts.items():
        assert counts[REFUSED] > 15, name
        assert counts[EQUAL] > 0, name
    assert outcomes.counts["plan"][OTHER] > 0


def reading(outcome: str) -> Any:
    if outcome == TRACEBACK:
        raise KeyError("x")
    if outcome == MEMORY:
        return bytearray(3 << 30)
    if outcome == REFUSED:
        raise InvalidInput("no")
    while outcome == HANG:
        pass
    return {EQUAL: {"a", "b"}, LESS: {"a"}, CHANGED: {"a", "c"}, OTHER: {"c"}}[outcome]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    monkeypatch.setattr(engine, "_SECONDS", 1)
    (tmp_path / "sound").write_bytes(bytes(100))
    kind = Kind("own", Path.touch, lambda path: reading(outcome), record=outcome != OTHER)
    with engine._limited():
        seen, _, _ = engine._one(kind, tmp_path / "sound", tmp_path / "mutant", {"a", "b"}, random.Random(1))
    assert seen == outcome
    assert (outcome in BAD) == (outcome in (TRACEBACK, HANG, MEMORY, CHANGED))


@pytest.mark.parametrize("name", KINDS)
def test_the_same_seed_makes_the_same_mutant(tmp_path: Path, name: str) -> None:
    source, mutant, _ = engine._sound(KINDS[name], tmp_path)
    contents = []
    for _ in range(2):
        copied(source, mutant)
        mutate(mutant, random.Random(3))
        files = sorted(mutant.iterdir()) if mutant.is_dir() else [mutant]
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_soaking_counts_what_is_lost_or_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that vanishes between the kill and the end, and a file that changes."""
    few = tuple(word if word != "500" else "4" for word in soak.SCENARIOS[0].words)
    monkeypatch.setattr(soak, "SCENARIOS", (soak.Scenario("audit", few),))
    calls: Counter[str] = Counter()

    def finished(folder: Path) -> set[bytes]:
        calls["asked"] += 1
        return {b"a", b"b"} if calls["asked"] == 1 else {b"a"}

    def written(folder: Path) -> dict[str, bytes]:
        calls["written"] += 1
        return {"file": bytes(calls["written"])}

    monkeypatch.setattr(soak, "finished", finished)
    monkeypatch.setattr(soak, "written", written)
    ((_, counted),) = soak.soak(1, seed=5)
    assert (counted["runs lost"], counted["other output"]) == (1, 1)


# --- versions --------------------------------------------------------------------------------------------


BROKEN = {  # versions that were seen to fail
    "typer": ("0.15.0", "0.15.1", "0.15.2", "0.15.3"),  # --help ends with a TypeError
    "joblib": ("1.4.0", "1.4.2"),  # a process that was sent what cannot be written may never end
    "matplotlib": ("3.9.0", "3.10.6"),  # warn of pyparsing 3.3, and of themselves
    "pandas": ("2.2.0", "2.2.1"),  # do not know NumPy 2
    "polars": ("1.20.0", "1.24.0"),  # the benchmarks ask for its streaming engine by name
    "ruff": ("0.0.13",),  # cannot be built
}


def test_no_version_is_declared_that_is_known_to_fail() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    declared = [Requirement(one) for some in (project["dependencies"], *extras) for one in some]
    for one in declared:
        assert one.specifier or one.name == "replicable-rl", f"{one.name} has no floor"
        assert not [version for version in BROKEN.get(one.name, ()) if version in one.specifier]
