"""The benchmarks run, fit slopes that are there, and write their page from the numbers alone. Nothing is timed here."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from dev.benchmarks import __main__ as command
from dev.benchmarks import memory, peers, planning, rendering
from dev.benchmarks.fitting import fit, fit_curve
from dev.benchmarks.problems import Multinomial, table_of_400
from dev.benchmarks.records import Book
from dev.benchmarks.timing import OURS, Job, Measurement, in_turns

from replicable_rl.randomness import sample_stream
from replicable_rl.testing import PerSample

# --- slopes ------------------------------------------------------------------------------------


def planted(slope: float, *, rounds: int = 20, noise: float = 0.05, seed: int = 1) -> tuple[list[float], Any]:
    """Return sizes, and times that grow with a known slope, in rounds of which some are busy throughout."""
    rng = np.random.default_rng(seed)
    sizes = [10.0**e for e in range(4, 19)]
    busy = rng.exponential(2.0, size=rounds)  # as much as e^2 slower, a whole round long
    times = [np.exp(slope * math.log(m) + busy + noise * rng.standard_normal(rounds)).tolist() for m in sizes]
    return sizes, times


@pytest.mark.parametrize("slope", [0.0, 0.01, 1.0, -1.0])
def test_slope_is_found_whatever_the_busy_rounds(slope: float) -> None:
    found = fit(*planted(slope))
    assert found.low <= slope <= found.high
    assert found.high - found.low < 0.005
    assert found.flat == (slope == 0.0)


def test_planted_slope_is_caught() -> None:
    assert not fit(*planted(0.01)).flat  # 2.3 % a decade


def test_interval_covers_as_often_as_it_says() -> None:
    covered = sum(fit(*planted(0.0, seed=seed)).flat for seed in range(1000))
    assert 910 <= covered <= 985  # 950 expected, the deviation is 7


def test_slope_of_exact_powers() -> None:
    assert fit([1, 10, 100], [[2.0], [20.0], [200.0]]).estimate == pytest.approx(1.0)
    assert math.isnan(fit([1, 10], [[1.0], [1.0]]).low)  # one round has no interval
    assert fit([1, 2], [[1.0, 1.0, 9.0], [0.5, 0.5]]).estimate == pytest.approx(-1.0)  # only full rounds count


# --- timing ------------------------------------------------------------------------------------


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


def test_fresh_jobs_forget() -> None:
    made: list[list[int]] = []

    def make() -> Any:
        answers: list[int] = []
        made.append(answers)
        return lambda: answers.append(1)

    (found,) = in_turns("s", "job", [Job("a", make, fresh=True)], rounds=3)
    assert len(found.values) == 3
    assert all(answers == [1] for answers in made)


def test_turns_end_when_time_is_over() -> None:
    (found,) = in_turns("s", "job", [Job("a", lambda: None)], rounds=1000, seconds=0.0, at_least=2)
    assert len(found.values) == 2


STAGES = """
def stages(megabytes):
    yield "before"
    bytearray(b"x") * (megabytes * 2**20)
    yield "large"
    yield "after"
"""


def test_peak_memory_is_that_of_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "an_array.py").write_text(STAGES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    before, large, after = memory.in_fresh_process("an_array", "stages", 200)
    assert (before.name, large.name, after.name) == ("before", "large", "after")
    assert 150 < large.peak - before.peak < 300
    if Path("/proc/self/clear_refs").exists():
        assert after.peak - before.peak < 50


# --- sections ----------------------------------------------------------------------------------


def small(module: ModuleType) -> list[Measurement]:
    return list(module.measure(module.QUICK))


@pytest.mark.parametrize("name", sorted(set(command.MODULES) - {"audit"}))
def test_sections_run(name: str) -> None:
    found = small(command.MODULES[name])
    assert {each.section for each in found} == {name}
    assert all(each.values or each.note for each in found)
    assert all(0.0 < value < 1e12 for each in found for value in each.values)
    for curve in Book({}, tuple(found)).curves():
        assert math.isfinite(fit_curve(curve).estimate)
    assert "| ---" in rendering.section_tables(Book({}, tuple(found)), name)


def test_audit_section_runs_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    from dev.benchmarks import audit

    monkeypatch.setattr(audit, "all_cores", lambda: 1)  # no worker processes in the tests
    found = small(audit)
    assert {each.by for each in found} >= {audit.BARE, audit.IN_MEMORY, audit.IN_FILE, "all runs", "file"}
    assert all(each.values for each in found)


def test_numpy_multinomial_is_the_same_law() -> None:
    mdp, calls = table_of_400(20), 10**8
    draws = [sampler(mdp).draw(calls, sample_stream(1)).count for sampler in (Multinomial, lambda table: table)]
    for count in draws:
        assert np.abs(count / calls - mdp.rows.probability).max() < 6 * 0.5 / math.sqrt(calls)
    assert isinstance(Multinomial(mdp), PerSample)


@pytest.mark.parametrize("by", [by for by, package, _ in planning.CONTENDERS if peers.installed(package)])
def test_planners_agree(by: str) -> None:
    mdp = table_of_400(50)
    answers = [
        prepare(mdp.rows, mdp.n_actions, mdp.gamma)() for name, _, prepare in planning.CONTENDERS if name in (OURS, by)
    ]
    assert np.abs(answers[0] - answers[-1]).max() <= 2 * planning.TOLERANCE


def test_a_peer_that_is_wrong_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> Any:
        solve = planning._ours(*arguments)
        return lambda: solve() + 1e-3

    monkeypatch.setattr(planning, "CONTENDERS", (*planning.CONTENDERS[:1], ("wrong", "numpy", wrong)))
    mdp = table_of_400(20)
    ours, other = planning._side_by_side("Garnet", 20, mdp, set(), planning.QUICK)
    assert ours.note == ""
    assert other.note == "Off by 0.001, so not the same accuracy."
    ours, other = planning._side_by_side("Garnet", 20, mdp, {("Garnet", "wrong")}, planning.QUICK)
    assert (len(ours.values), len(other.values)) == (2, 0)
    assert other.note == f"Left out: fewer states took more than {planning.QUICK.patience:g} s."
    impatient = dataclasses.replace(planning.QUICK, patience=0.0)
    ours, other = planning._side_by_side("Garnet", 20, mdp, set(), impatient)
    assert (len(ours.values), len(other.values)) == (2, 1)


# --- the page ----------------------------------------------------------------------------------


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


def test_book_survives_json(book: Book, tmp_path: Path) -> None:
    book.save(tmp_path / "new" / "book.json")
    assert rendering.page(Book.load(tmp_path / "new" / "book.json")) == rendering.page(book)


def test_ratios_notes_and_headlines(book: Book) -> None:
    tables = "\n".join(rendering.section_tables(book, section) for section in ("sampler", "planning"))
    assert "| a row | 13 000 | 40 ns | 2.5× |" in tables
    assert "| grid, γ = 0.99 | 1 000 | 1.0 ms | 3.0× | –<sup>a</sup> |" in tables
    assert "<sup>a</sup> Not here." in tables
    page = rendering.page(book)
    assert "planning: QuantEcon | 3.0× in the geometric mean (3.0× to 3.0×)" in page
    assert "peak memory, the model's included | 350 MB, and 100 MB of Python and its libraries" in page
    assert "a draw, m from 10<sup>4</sup> to 10<sup>18</sup> | +0.00 % per tenfold m (+0.00 to +0.00)" in page


def test_quick_and_parts_leave_the_page_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    limits = command.MODULES["limits"]
    monkeypatch.setattr(limits, "FULL", limits.QUICK)
    command.main(["limits", "--quick"])
    assert not list(tmp_path.iterdir())
    command.main(["limits"])
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    assert "memory bandwidth" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="have not been measured"):
        command.main(["--render"])
