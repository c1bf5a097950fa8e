"""``replicable-rl audit`` and ``report``: what is made, what a store holds, exit codes, and code of one's own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import replicable_rl as rr
from replicable_rl.audit import audit_spec, read_audits, run_audits
from replicable_rl.audit.evidence import audits_of
from replicable_rl.cli.options import OPTIONS, option_of
from tests.commands import COMMAND, Run

GOOD = ("two-goals-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,iterations=30")
BAD = ("two-goals-v1", "phased-vi-v1:epsilon=0.1,delta=0.001,iterations=30")
FAILING = ("inventory-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,calls=1e20", "--shared-seeds", "2")
SMALL = ("--shared-seeds", "24")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


# --- one audit -------------------------------------------------------------------------------------------


def test_an_audit_is_rr_audit(run: Run) -> None:
    printed = run.good("audit", *GOOD, *SMALL)
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30)
    result = rr.audit(rr.make("two-goals-v1"), algorithm, shared_seeds=24)
    assert printed == f"{result}\n"
    assert "Same policy in 24 of 24 pairs" in printed
    detailed = run.good("audit", *GOOD, *SMALL, "--details")
    assert len(detailed) > len(printed)
    assert max(map(len, detailed.splitlines())) <= 80


def test_options_reach_the_audit(run: Run) -> None:
    words = ("--shared-seeds", "7,2023", "--runs", "3", "--seed", "5", "--confidence", "0.9", "--json")
    options: dict[str, Any] = {"shared_seeds": [7, 2023], "runs_per_seed": 3, "seed": 5, "confidence": 0.9}
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30)
    expected = rr.audit(rr.make("two-goals-v1"), algorithm, **options).to_json()
    assert json.loads(run.good("audit", *GOOD, *words)) == expected


@pytest.mark.parametrize(
    ("subject", "options", "code"),
    [
        (GOOD, ("--require", "0.8"), 0),
        (GOOD, ("--require", "0.8", "--level", "value"), 0),
        (GOOD, ("--require", "0.9"), 3),  # 24 pairs cannot show it, nor refute it
        (BAD, ("--require", "0.8"), 1),
        (BAD, ("--require", "0.01", "--level", "value"), 3),
        (BAD, (), 0),
    ],
)
def test_exit_codes(run: Run, subject: tuple[str, str], options: tuple[str, ...], code: int) -> None:
    result = run("audit", *subject, *SMALL, *options)
    assert (result.code, result.err) == (code, "")


def test_store_resumes_and_jobs_do_not_matter(run: Run, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "runs.sqlite")
    first = run.good("audit", *BAD, *SMALL, *store, "--jobs", "2")
    assert run.good("audit", *BAD, *SMALL, *store) == first == run.good("audit", *BAD, *SMALL)
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        assert [runs for _, runs in opened.families()] == [48]


def test_recorded_failures_are_counted(run: Run) -> None:
    result = run("audit", *FAILING, "--on-error", "record", "--json")
    assert (result.code, len(json.loads(result.out)["failures"])) == (0, 4)
    for form in ((), ("--json",)):  # nothing to compare
        assert run("audit", *FAILING, "--on-error", "record", "--require", "0.5", *form).code == 3


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), "--store"),
        (("two-goals-v1",), "ALGORITHM"),
        ((*GOOD, "--runs", "1"), "--runs.*got 1"),
        ((*GOOD, "--shared-seeds", "many"), "'--shared-seeds'.*'many'"),
        ((*GOOD, "--require", "80"), "require.*80"),
        ((BAD[0], "phased-vi-v1:epsilon=0.1,delta=0.1", "--rho", "0.2"), "'rho'"),
        ((*GOOD, "--on-error", "ignore"), "--on-error.*'ignore'"),
        ((*GOOD, "--jobs", "0"), "--jobs"),
        ((*GOOD, "--store", "/"), "/: is a directory"),
        ((*GOOD, *SMALL, "--level", "model"), "model"),
        ((*GOOD, "--gamma", "0.9"), "--gamma"),
        ((*GOOD, "--evaluate", "CartPole-v1"), "--evaluate"),
        (FAILING, "run 1 of 4 .*--on-error record"),
        (("one.csv", GOOD[1]), "two logs or more|one.csv"),
    ],
)
def test_bad_usage(run: Run, words: tuple[str, ...], names: str) -> None:
    refusal = run("audit", *words)
    assert (refusal.code, refusal.out) == (2, "")
    assert re.search(names, refusal.err.splitlines()[-1]), refusal.err


# --- what a store holds ----------------------------------------------------------------------------------


RPVI, PLAIN = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30), rr.PhasedVI(0.1, 0.001, iterations=30)
STORED = [
    audit_spec(rr.make("two-goals-v1"), RPVI, shared_seeds=20, confidence=0.9),
    audit_spec(rr.make("two-goals-v1"), PLAIN, shared_seeds=20, runs_per_seed=3, seed=5, require=0.9),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two audits: one that requires nothing, and one whose requirement is refuted."""
    path = tmp_path_factory.mktemp("stored") / "runs.sqlite"
    with rr.RunStore(path) as store:
        assert len(list(run_audits(STORED, store))) == 2
    return path


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        (("--require", "0.8"), (0, 1)),
        (("--require", "0.9"), (3, 1)),  # 0.828, at the confidence that this audit asked for
        (("--require", "0.9", "--confidence", "0.5"), (0, 1)),
        (("--require", "0.01"), (0, 0)),
        (("--require", "0.01", "--level", "value"), (0, 3)),
        (("--require", "0.5", "--level", "model"), (3, 3)),
        ((), (0, 1)),
    ],
)
def test_a_store_alone_is_judged(
    run: Run, stored: Path, tmp_path: Path, options: tuple[str, ...], codes: tuple[int, int]
) -> None:
    """Both audits together, and each of them alone."""
    before = stored.read_bytes()
    assert run("audit", "--store", stored, *options).code == (1 if 1 in codes else max(codes))
    for number, (spec, code) in enumerate(zip(STORED, codes, strict=True)):
        with rr.RunStore(tmp_path / f"{number}.sqlite") as alone:
            list(run_audits([spec], alone))
        assert run("audit", "--store", tmp_path / f"{number}.sqlite", *options).code == code
    assert stored.read_bytes() == before, "reading changes nothing"


def test_what_a_store_holds(run: Run, stored: Path) -> None:
    told = run("audit", "--store", stored)
    assert (told.code, told.err) == (1, "")
    assert max(map(len, told.out.splitlines())) <= 80
    assert re.search(r"Same policy in 20 of 20 pairs.*Same policy in \d+ of 60 pairs", " ".join(told.out.split()))
    with rr.RunStore(stored) as store:
        assert json.loads(run("audit", "--store", stored, "--json").out) == [r.to_json() for r in read_audits(store)]
    asked = json.loads(run("audit", "--store", stored, "--json", "--require", "0.5", "--level", "value").out)
    assert [(each["require"], each["level"]) for each in asked] == [(0.5, "value")] * 2


def test_the_requirement_is_stored_with_the_audit(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    for require, level, code in ((0.8, "policy", 0), (0.9, "value", 3)):
        assert run("audit", *GOOD, *SMALL, "--store", store, "--require", require, "--level", level).code == code
        with rr.RunStore(store) as opened:
            assert (audits_of(opened)[-1].require, audits_of(opened)[-1].level) == (require, level)
        told = run("audit", "--store", store)
        assert (told.code, f"Same {level} in 24 of 24 pairs" in told.out) == (code, True)


@pytest.mark.parametrize("name", ["seed", "shared_seeds", "gamma", "epsilon", "evaluate", "bins", "n_jobs", "on_error"])
def test_no_option_is_dropped_without_a_word(run: Run, stored: Path, name: str) -> None:
    assert name in OPTIONS
    value = "a=1" if name == "bins" else "0.5" if name in ("gamma", "epsilon") else "1"
    assert option_of(name) in run.refused("audit", "--store", stored, option_of(name), value)


def test_stores_without_audits(run: Run, tmp_path: Path) -> None:
    """None is made by looking for one."""
    for command in (("audit", "--store"), ("report",)):
        assert "missing.sqlite" in run.refused(*command, tmp_path / "missing.sqlite")
    assert list(tmp_path.iterdir()) == []
    with rr.RunStore(tmp_path / "runs.sqlite"):
        pass
    assert "runs.sqlite" in run.refused("audit", "--store", tmp_path / "runs.sqlite")
    (tmp_path / "notes.txt").write_text("mine")
    assert "no run store" in run.refused("audit", "--store", tmp_path / "notes.txt")


def test_a_report_is_one_page(run: Run, stored: Path, tmp_path: Path) -> None:
    said = run.good("report", stored, "-o", tmp_path / "page.html")
    assert "2 audits, 100 runs" in said
    page = (tmp_path / "page.html").read_text()
    assert page.count("two-goals-v1") >= 2
    assert run.good("-q", "report", stored, "-o", tmp_path / "page.html") == ""


# --- training code ---------------------------------------------------------------------------------------

SCRIPT = '''
import numpy as np

if __name__ == "__main__":
    raise SystemExit("a script is not run when it is imported")


def train(shared_seed, sample_seed):
    """Four choices, each by a coin of the sample."""
    return np.random.default_rng(sample_seed).integers(2, size=4).tolist()


def steady(shared_seed, sample_seed):
    return [int(x) for x in np.random.default_rng(shared_seed).integers(2, size=5)] if sample_seed >= 0 else []


def thresholds(shared_seed, sample_seed):
    cut = np.random.default_rng(sample_seed).random()
    return lambda observation: int(observation > cut)


def fails(shared_seed, sample_seed):
    return inside(sample_seed)


def inside(sample_seed):
    raise ArithmeticError("the learning rate exploded")


def earned(policy, seed):
    return float(sum(policy)) + np.random.default_rng(seed).normal(size=2)


def one_seed(seed):
    return [0]


points = np.linspace(0.0, 1.0, 5)
'''


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script in this folder, called otherwise in every test: Python keeps modules by their names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"script_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(SCRIPT)
    return name


def test_a_script_and_a_module_are_one_audit(run: Run, script: str) -> None:
    words = ("--shared-seeds", 20, "--evaluate", f"{script}:earned", "--rho", 0.5, "--json")
    told = [json.loads(run.good("audit", f"{name}:train", *words)) for name in (f"{script}.py", script)]
    assert told[0] == told[1]
    assert told[0]["algorithm"]["id"].endswith(":train")
    assert (told[0]["rho"], told[0]["warnings"]) == (0.5, [])
    assert told[0]["returns"]["mean"]["low"] < told[0]["returns"]["mean"]["estimate"]


@pytest.mark.parametrize(("name", "seeds", "code"), [("train", 30, 1), ("steady", 60, 0), ("steady", 2, 3)])
def test_exit_codes_of_training_code(run: Run, script: str, name: str, seeds: int, code: int) -> None:
    assert run("audit", f"{script}:{name}", "--shared-seeds", seeds, "--require", 0.9).code == code


def test_functions_of_observations(run: Run, script: str) -> None:
    out = run.good("audit", f"{script}:thresholds", "--shared-seeds", 5, "--probe", f"{script}:points")
    assert "observations" in out


def test_a_store_asks_for_a_version_and_resumes(run: Run, script: str) -> None:
    words = ("audit", f"{script}:train", "--shared-seeds", 3, "--store", "runs.sqlite")
    assert "--version" in run.refused(*words)
    assert run.good(*words, "--version", 1) == run.good(*words, "--version", 1)
    assert run("audit", "--store", "runs.sqlite").code == 0


def test_the_traceback_of_a_failing_run_is_shown(run: Run, script: str) -> None:
    result = run("audit", f"{script}:fails", "--shared-seeds", 2)
    assert (result.code, result.out) == (2, "")
    assert ", in inside\n" in result.err
    assert result.err.splitlines()[-1].startswith("replicable-rl: audit: run 1 of 4 ")
    assert "exploded" in run.good("audit", f"{script}:fails", "--shared-seeds", 2, "--on-error", "record")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("S:trian", "'trian'"),
        ("S:one_seed", "one_seed"),
        ("S:points", "train"),
        ("nowhere.py:train", "nowhere.py: there is no such file"),
        ("no_such_module:train", "ModuleNotFoundError"),
        ("quits.py:train", "SystemExit"),
        ("json.py:train", "'json'"),
        ("S:train --horizon 3", "--horizon"),
        ("a.csv b.csv S:train", "not logs"),
        ("S:train --state s", "--state"),
        ("S:thresholds", "--probe"),
        ("S:train --epsilon 0.1", "PROBLEM|problem"),
        ("S:train --evaluate Nothing-v0", "'Nothing-v0'"),
    ],
)
def test_bad_code_is_one_sentence(run: Run, script: str, words: str, names: str) -> None:
    Path("quits.py").write_text("raise SystemExit('usage')")
    Path("json.py").write_text("def train(a, b): return [0]")
    refusal = run.refused("audit", *words.replace("S:", f"{script}:").split(), "--shared-seeds", 2)
    assert re.search(names, refusal), refusal


def test_workers_find_a_script_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "my-agent.py").write_text(SCRIPT)
    words = ["audit", "there/my-agent.py:train", "--shared-seeds", "3", "--jobs", "2", "--json"]
    done = subprocess.run([COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["algorithm"]["id"] == "my-agent:train"
