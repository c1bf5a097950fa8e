"""Things of one's own in one file outside the package, examples/own.py: all works on them as on what ships."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import testing
from replicable_rl.audit import evidence, read_audits
from replicable_rl.registry import build
from replicable_rl.runs import Drawn, ObjectSpec, RunSpec
from replicable_rl.solve import solve_as
from tests.commands import Result, run_here

ROOT = Path(__file__).resolve().parent.parent
COMMAND = Path(sys.executable).parent / "replicable-rl"


@pytest.fixture
def own() -> Iterator[ModuleType]:
    """Import the file anew; what it registers is gone after the test."""
    sys.modules.pop("examples.own", None)
    yield importlib.import_module("examples.own")
    del sys.modules["examples.own"]


@pytest.fixture
def doors(own: ModuleType) -> rr.TabularMDP:
    return rr.make("two-doors-v1")


@pytest.fixture
def algorithm(own: ModuleType) -> Any:
    return build(ObjectSpec("good-enough-v1", {"epsilon": 0.05}))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[rr.Run]:
    """The runs that audits make in this process, as they make them."""
    runs: list[rr.Run] = []

    def counted(*arguments: Any, **options: Any) -> rr.Run:
        runs.append(solve_as(*arguments, **options))
        return runs[-1]

    monkeypatch.setattr(evidence, "solve_as", counted)
    return runs


# --- one run -----------------------------------------------------------------------------------


def test_solve(doors: rr.TabularMDP, algorithm: Any) -> None:
    run = rr.solve(doors, algorithm, shared_seed=2023, sample_seed=1)
    assert run == rr.solve(doors, algorithm, shared_seed=2023, sample_seed=1)
    assert run.policy.tolist() == [0, 0]  # the first of two doors that are equally good
    assert run.output("good-actions").tolist() == [[1, 1], [1, 1]]
    assert run.samples == 4 * 1000
    assert run.spec == RunSpec(
        ObjectSpec("two-doors-v1"), ObjectSpec("good-enough-v1", {"epsilon": 0.05}), 2023, Drawn(1)
    )
    assert set(run.claims.missing) == {"accuracy", "replicability"}
    assert build(run.spec.problem) == doors
    assert build(run.spec.algorithm) == algorithm


@pytest.mark.parametrize("kind", [testing.PerSample, None])
def test_a_source_is_given_in_place_of_its_table(own: ModuleType, kind: Any) -> None:
    """Chances of 1/4: so many successes of 4000 that every source has between 10 and 40 per cent."""
    source = (kind or own.NumpyCounts)(rr.make("two-doors-v1", p=0.25))
    counts = source.draw(1000, np.random.default_rng(1))
    assert counts.calls == 1000
    assert 0.1 < counts.mean(counts.reward)[:2].mean() < 0.4
    run = rr.solve(source, rr.PhasedVI(0.2, 0.1, calls=100, iterations=5), shared_seed=1, sample_seed=1)
    assert run.samples == 4 * 100 * 5
    assert run.spec is not None
    assert (run.spec.problem, run.spec.sample) == (source.spec, Drawn(1, "own"))


def test_it_conforms(own: ModuleType) -> None:
    report = rr.testing.check_algorithm(own.GoodEnough(0.05))
    assert "levels" in {finding.check for finding in report.passed if finding.problem == "two-goals-v1"}
    rr.testing.check_rule(own.MostTried(), problems=[rr.make("two-doors-v1")])
    rr.testing.check_source(own.NumpyCounts(rr.make("chain-v1")), table=rr.make("chain-v1"))


# --- audits ------------------------------------------------------------------------------------


def test_a_store_resumes_and_extends(
    own: ModuleType, doors: rr.TabularMDP, algorithm: Any, tmp_path: Path, made: list[rr.Run]
) -> None:
    path = tmp_path / "own.sqlite"
    first = rr.audit(doors, algorithm, shared_seeds=4, store=path)
    assert len(made) == 8
    again = rr.audit(doors, algorithm, shared_seeds=4, store=path)
    assert len(made) == 8  # nothing was made again
    assert again.runs == first.runs
    larger = rr.audit(doors, algorithm, shared_seeds=6, runs_per_seed=3, store=path)
    assert len(made) == 18
    assert {run.key for run in first.runs} < {run.key for run in larger.runs}
    rr.audit(own.NumpyCounts(doors), algorithm, shared_seeds=4, store=path)
    assert len(made) == 26  # other samples are other runs
    with rr.RunStore(path) as store:
        assert sorted((family.sampler, runs) for family, runs in store.families()) == [("counts-v1", 18), ("own", 8)]
        read = {result.spec.evidence.drawn_by: result for result in read_audits(store)}
        assert set(read) == {"counts-v1", "own"}
        assert read["counts-v1"].runs == larger.runs
        assert read["counts-v1"].levels == ("good-actions", "policy")
        assert read["counts-v1"].mdp == doors
        assert read["counts-v1"].to_json() == larger.to_json()
        one = store.run(first.runs[0].key)
        assert one.output("good-actions").tolist() == [[1, 1], [1, 1]]
    assert len(made) == 26


# --- the command line ------------------------------------------------------------------------------


def call(*arguments: object, plugin: bool = True) -> Result:
    options = ["--plugin", "examples.own"] if plugin else []
    return run_here([*options, *map(str, arguments)], ROOT, {"COLUMNS": "80", "NO_COLOR": "1"})


AUDIT = ("audit", "two-doors-v1", "good-enough-v1", "--epsilon", 0.05, "--shared-seeds", 4)


def test_the_command_line_audits_and_reports(doors: rr.TabularMDP, algorithm: Any, tmp_path: Path) -> None:
    path = tmp_path / "own.sqlite"
    audited = call(*AUDIT, "--store", path, "--json")
    assert (audited.code, audited.err) == (0, "")
    assert json.loads(audited.out) == rr.audit(doors, algorithm, shared_seeds=4).to_json()
    words = [str(COMMAND), "--plugin", "examples.own", *map(str, AUDIT), "--jobs", "2", "--json"]
    parallel = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)  # the real command, with workers
    assert json.loads(parallel.stdout) == json.loads(audited.out)
    judged = call("audit", "--store", path, "--level", "good-actions", "--require", 0.2)
    assert (judged.code, judged.err) == (0, "")
    assert "Same good-actions in 4 of 4 pairs" in judged.out
    assert call("audit", "--store", path, "--level", "good-actions", "--require", 0.99).code == 3  # undecided
    reported = call("report", path, "-o", tmp_path / "own.html")
    assert (reported.code, reported.err) == (0, "")
    page = (tmp_path / "own.html").read_text(encoding="utf-8")
    for name in ("two-doors-v1", "good-enough-v1", "good-actions"):
        assert name in page


# --- in the program itself, where no module can be imported -----------------------------------------

IN_MAIN = """
import dataclasses
import replicable_rl as rr

rr.register(rr.Level("weights", implies=("policy",)))

@rr.register
@dataclasses.dataclass(frozen=True)
class Weighing(rr.Algorithm):
    m: int = 10
    id = "weighing-v1"
    def solve(self, source, shared, rng):
        weights = source.draw(self.m, rng).count
        return rr.Run.of({"weights": weights, "policy": [0] * source.n_states})

if __name__ == "__main__":
    result = rr.audit(rr.make("chain-v1"), ALGORITHM, shared_seeds=4, n_jobs=2)
    print(result.levels[0], result.agreement("policy").pairs)
"""


@pytest.mark.parametrize(("algorithm", "level"), [("Weighing()", "weights"), ("rr.PhasedVI(0.2, 0.1)", "value")])
def test_workers_know_what_the_program_itself_registered(algorithm: str, level: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(IN_MAIN.replace("ALGORITHM", algorithm), encoding="utf-8")
    ended = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=False)
    assert ended.stdout == f"{level} 4\n", ended.stderr
