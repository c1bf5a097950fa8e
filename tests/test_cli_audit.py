"""``replicable-rl audit``: what people and programs read, exit codes, stores, and one line for bad input."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import typer

import replicable_rl as rr
from replicable_rl.audit import audit_spec, read_audits, run_audits
from replicable_rl.audit.evidence import audits_of
from replicable_rl.canonical import to_json
from replicable_rl.cli.main import app
from tests.commands import run_here
from tests.test_cli import COMMAND, Run, environment, plain, read_all, terminal

GOOD = ("two-goals-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,iterations=30")
BAD = ("two-goals-v1", "phased-vi-v1:epsilon=0.1,delta=0.001,iterations=30")
SMALL = ("--shared-seeds", "24")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


# --- one audit -------------------------------------------------------------------------------------------


def test_table_is_that_of_rr_audit(run: Run) -> None:
    printed = run.good("audit", *GOOD, *SMALL)
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30)
    assert printed == rr.audit(rr.make("two-goals-v1"), algorithm, shared_seeds=24).text() + "\n"
    assert max(map(len, printed.splitlines())) <= 80
    assert "Same policy in 24 of 24 pairs: agreement 1.000 (0.827–1.000)" in printed


def test_options_reach_the_audit(run: Run) -> None:
    data = json.loads(
        run.good(
            "audit",
            *GOOD,
            "--shared-seed",
            "7",
            "--shared-seed",
            "2023",
            "--runs",
            "3",
            "--seed",
            "5",
            "--confidence",
            "0.9",
            "--json",
        )
    )
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30)
    options: dict[str, Any] = {"shared_seeds": [7, 2023], "runs_per_seed": 3, "seed": 5, "confidence": 0.9}
    assert data == rr.audit(rr.make("two-goals-v1"), algorithm, **options).to_json()


@pytest.mark.parametrize(
    ("subject", "options", "code"),
    [
        (GOOD, ("--require", "0.8"), 0),
        (GOOD, ("--require", "0.8", "--level", "value"), 0),
        (GOOD, ("--require", "0.9"), 3),  # 24 pairs cannot show it, nor refute it
        (BAD, ("--require", "0.8"), 1),
        (BAD, ("--require", "0.2", "--level", "value"), 1),
        (BAD, ("--require", "0.01", "--level", "value"), 3),
        (BAD, (), 0),
    ],
)
def test_exit_code_says_whether_the_requirement_is_met(
    run: Run, subject: tuple[str, str], options: tuple[str, ...], code: int
) -> None:
    result = run("audit", *subject, *SMALL, *options)
    assert (result.code, result.err) == (code, "")


QUITS = """
import dataclasses, sys, replicable_rl as rr

@rr.register
@dataclasses.dataclass(frozen=True)
class Quits(rr.Algorithm):
    how: object
    id = "quits-v1"

    def plan(self, problem):
        sys.exit({"none": None, "text": "usage"}.get(self.how, self.how))

    solve = lambda self, *given: self.plan(None)
"""


@pytest.mark.parametrize("how", ["0", "1", "3", "none", "text"])
@pytest.mark.parametrize("words", ["solve --shared-seed 1", "plan", "audit --shared-seeds 2 --require 0.9"])
def test_code_that_ends_the_program_meets_and_refutes_nothing(how: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "quits.py").write_text(QUITS)
    command, *options = words.split()
    result = run_here(["--plugin", "quits", command, "two-goals-v1", f"quits-v1:how={how}", *options], tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "SystemExit" in result.err


def test_store_resumes_and_jobs_do_not_matter(run: Run, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "runs.sqlite")
    first = run.good("audit", *BAD, *SMALL, *store, "--jobs", "2")
    assert run.good("audit", *BAD, *SMALL, *store) == first == run.good("audit", *BAD, *SMALL)
    assert run.good("audit", *BAD, *SMALL, "--backend", "threads", "--jobs", "2") == first
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        assert [runs for _, runs in opened.families()] == [48]


def test_a_level_that_there_is_not_is_refused_in_every_form(run: Run) -> None:
    for form in ((), ("--json",), ("--require", "0.5")):
        refusal = run.refused("audit", *GOOD, "--shared-seeds", "2", "--level", "model", *form)
        assert refusal == "audit: there is no model to compare; rpvi-v1 produces value, policy."


def test_csv_has_a_row_for_every_run(run: Run, tmp_path: Path) -> None:
    run.good("audit", *BAD, *SMALL, "--csv", tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 48
    assert rows[0]["problem"] == "two-goals-v1"
    one = rr.solve(
        rr.make("two-goals-v1"),
        rr.PhasedVI(0.1, 0.001, iterations=30),
        shared_seed=int(rows[0]["shared_seed"]),
        sample_seed=int(rows[0]["sample_seed"]),
    )
    assert one.spec is not None
    assert (rows[0]["policy"], rows[0]["run"]) == (one.fingerprints.policy, one.spec.digest)


def test_files_of_runs_are_not_replaced(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    run.good("audit", *BAD, *SMALL, "--store", store)
    message = f"{store}: is a database, perhaps of finished runs. Name another file."
    assert run.refused("audit", *BAD, *SMALL, "--csv", store) == message
    assert "--csv" not in message
    assert run.refused("audit", *BAD, *SMALL, "--store", store, "--csv", store) == message
    link, real = tmp_path / "link.csv", tmp_path / "real.csv"
    real.write_text("old")
    link.symlink_to(real)
    run.good("audit", *BAD, *SMALL, "--csv", link)
    assert link.is_symlink()
    assert len(real.read_text().splitlines()) == 49


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_reader_who_leaves_does_not_change_the_exit_code(form: str) -> None:
    command = f"{COMMAND} audit {' '.join(BAD)} --shared-seeds 10 --require 0.9 {form} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(command, shell=True, executable="/bin/bash", timeout=60).returncode == 1


# --- progress --------------------------------------------------------------------------------------------


def test_bar_with_rate_and_time_left_on_a_terminal() -> None:
    with terminal(100) as (ours, theirs):
        process = subprocess.Popen(
            [COMMAND, "audit", "two-goals-wide-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2", "--shared-seeds", "400"],
            env=environment(),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
        )
        os.close(theirs)
        shown = plain(read_all(ours))
        process.wait(timeout=120)
    assert process.returncode == 0
    assert "runs ━" in shown
    assert "/800 " in shown


def test_ctrl_c_keeps_what_has_finished(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    arguments = ["audit", "two-goals-wide-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2", "--shared-seeds", "500"]
    process = subprocess.Popen(
        [COMMAND, *arguments, "--store", str(store)], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    finished = 0
    for _ in range(600):
        time.sleep(0.1)
        if store.exists() and store.stat().st_size:
            with rr.RunStore(store) as opened:
                finished = sum(runs for _, runs in opened.families())
        if finished >= 10:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines() == [
        f"Finished runs are kept in {store}; the same command resumes.",
        "replicable-rl: interrupted; nothing was half-written.",
    ]
    with rr.RunStore(store) as opened:
        assert finished <= sum(runs for _, runs in opened.families()) < 1000
    mdp, algorithm = rr.make("two-goals-wide-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2)
    resumed, fresh = (rr.audit(mdp, algorithm, shared_seeds=finished, store=where) for where in (store, None))
    assert resumed.runs == fresh.runs
    assert resumed.to_json() == fresh.to_json()


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give PROBLEM and ALGORITHM, or --store FILE"),
        (("two-goals-v1",), "give PROBLEM and ALGORITHM, or --store FILE"),
        ((*GOOD, "--runs", "1"), "runs_per_seed must be an integer from 2 to 10000000, got 1"),
        ((*GOOD, "--shared-seeds", "many"), "--shared-seeds must be a whole number"),
        (
            (*GOOD, "--shared-seeds", "2", "--shared-seed", "3"),
            "--shared-seeds says how many, and --shared-seed which ones",
        ),
        ((*GOOD, "--require", "80"), "--require must lie strictly between 0 and 1"),
        (
            ("two-goals-v1", "phased-vi-v1", "--epsilon", "0.1", "--delta", "0.1", "--rho", "0.2"),
            "audit: phased-vi-v1 has no rho, for it promises no agreement. Give --require 0.8 to say which agreement",
        ),
        ((*GOOD, "--on-error", "ignore"), "on_error must be 'raise' or 'record', got 'ignore'"),
        ((*GOOD, "--jobs", "0"), "n_jobs (--jobs) must be the number of workers"),
        ((*GOOD, "--backend", "spark"), "--backend must be 'processes' or 'threads', got 'spark'"),
        ((*GOOD, "--store", "/"), "/: is a directory. Name another file."),
        ((*GOOD, *SMALL, "--csv", "/no/such/place.csv"), "/no/such/place.csv: cannot be written"),
        (("inventory-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,calls=1e20"), "run 1 of 120 (shared_seed="),
        (
            ("inventory-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,calls=1e20"),
            ". Use --on-error record to count failures and ",
        ),
    ],
)
def test_bad_usage(run: Run, arguments: tuple[object, ...], message: str) -> None:
    assert message in run.refused("audit", *arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("budget=20", "PlugInPolicy: budget must allow one sample for each of the 32 pairs, got 20. Raise it."),
        ("samples=20", "AffordableTolerance: order must name each of the actions 0..3 once, such as (1, 0)"),
    ],
)
def test_what_no_run_can_do_is_refused_before_there_is_a_store(
    run: Run, tmp_path: Path, settings: str, message: str
) -> None:
    where = ("--store", tmp_path / "runs.sqlite", "--on-error", "record")
    order = ("--rule", "affordable:order=1,0") if "samples" in settings else ()
    algorithm = f"plug-in-policy-v1:epsilon=0.02,delta=0.01,rho=0.2,{settings}"
    assert run.refused("audit", "two-goals-v1", algorithm, *order, *where).startswith(message)
    assert not (tmp_path / "runs.sqlite").exists()


def test_recorded_failures_are_counted(run: Run) -> None:
    failing = ("audit", "inventory-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,calls=1e20", "--on-error", "record")
    result = run(*failing, "--shared-seeds", "2", "--json")
    assert result.code == 0
    assert len(json.loads(result.out)["failures"]) == 4
    assert json.loads(result.out)["runs"] == {"asked": 4, "there": 4}
    said = " ".join(run.good(*failing, "--shared-seeds", "2").split())
    assert "4 of 4 runs failed" in said
    assert "calls=1e+20 is asked for" in said
    for form in ((), ("--json",)):  # nothing to compare
        result = run(*failing, "--shared-seeds", "2", "--require", "0.5", *form)
        assert (result.code, result.err) == (3, "")


# --- what a store holds ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two audits: one that requires nothing, and one whose requirement is refuted."""
    path = tmp_path_factory.mktemp("stored") / "runs.sqlite"
    good, bad = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30), rr.PhasedVI(0.1, 0.001, iterations=30)
    specs = [
        audit_spec(rr.make("two-goals-v1"), good, shared_seeds=20, confidence=0.9),
        audit_spec(rr.make("two-goals-v1"), bad, shared_seeds=20, runs_per_seed=3, seed=5, require=0.9),
    ]
    with rr.RunStore(path) as store:
        assert len(list(run_audits(specs, store))) == 2
    return path


def test_a_store_alone_is_judged_by_what_its_audits_require(run: Run, stored: Path) -> None:
    before = stored.read_bytes()
    told = run("audit", "--store", stored)
    assert (told.code, told.err) == (1, "")
    assert max(map(len, told.out.splitlines())) <= 80
    first, second = told.out.split("\n\nphased-vi-v1")
    assert first.startswith("rpvi-v1")
    assert "Met: it is at least 1 − ρ = 0.8." in " ".join(first.split())
    assert "Not met: it is below the required 0.9." in " ".join(second.split())
    assert stored.read_bytes() == before, "reading changes nothing"


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        (("--require", "0.8"), (0, 1)),
        (("--require", "0.99"), (3, 1)),
        (("--require", "0.9"), (3, 1)),  # 0.828, at the confidence that this audit asked for
        (("--require", "0.9", "--confidence", "0.5"), (0, 1)),
        (("--require", "0.01"), (0, 0)),
        (("--require", "0.01", "--level", "value"), (0, 3)),
        (("--require", "0.5", "--level", "value"), (0, 1)),
        (("--require", "0.5", "--level", "model"), (3, 3)),
        (("--level", "value"), (0, 1)),
        ((), (0, 1)),
    ],
)
def test_a_store_alone_is_judged_by_what_is_required_now(
    run: Run, stored: Path, tmp_path: Path, options: tuple[str, ...], codes: tuple[int, int]
) -> None:
    """Both audits together, and each of them alone."""
    both = 1 if 1 in codes else max(codes)
    assert run("audit", "--store", stored, *options).code == both
    with rr.RunStore(stored) as store:
        results = read_audits(store)
    for number, (result, code) in enumerate(zip(results, codes, strict=True)):
        with rr.RunStore(tmp_path / f"{number}.sqlite") as alone:
            list(run_audits([result.spec], alone))
        assert run("audit", "--store", tmp_path / f"{number}.sqlite", *options).code == code


def test_what_a_store_holds_as_json_and_csv(run: Run, stored: Path, tmp_path: Path) -> None:
    printed = run("audit", "--store", stored, "--json", "--csv", tmp_path / "runs.csv")
    data = json.loads(printed.out)
    assert (printed.code, printed.err) == (1, "")
    with rr.RunStore(stored) as store:
        results = read_audits(store)
        assert data == [result.to_json() for result in results]
    assert [(one["runs_per_seed"], one["seed"], one["confidence"], one["require"]) for one in data] == [
        (2, "0", 0.9, None),
        (3, "5", 0.95, 0.9),
    ]
    with (tmp_path / "runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["run"] for row in rows] == [one.key for result in results for one in result.runs]
    asked = json.loads(run("audit", "--store", stored, "--json", "--require", "0.5", "--level", "value").out)
    assert [(one["require"], one["level"]) for one in asked] == [(0.5, "value")] * 2


def test_the_requirement_is_stored_with_the_audit(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    for require, level, code in ((0.8, "policy", 0), (0.9, "value", 3)):
        options = (*SMALL, "--store", store, "--require", require, "--level", level)
        assert run("audit", *GOOD, *options).code == code
        with rr.RunStore(store) as opened:
            assert (audits_of(opened)[-1].require, audits_of(opened)[-1].level) == (require, level)
        told = run("audit", "--store", store)
        assert told.code == code
        assert f"Same {level} in 24 of 24 pairs" in told.out
    assert "Undecided: the interval contains the required 0.9" in " ".join(told.out.split())


_USED = {"store", "csv_file", "as_json", "details", "require", "level", "confidence"}  # with a store alone
_OPTIONS = {one.name: one for one in typer.main.get_command(app).commands["audit"].params if one.opts[0][:2] == "--"}  # type: ignore[attr-defined]


def test_no_option_is_dropped_without_a_word(run: Run, stored: Path) -> None:
    for name in sorted(set(_OPTIONS) - _USED):
        words = {"reward_range": ("0", "1"), "uniform": (".1",), "bins": ("a=1",)}.get(name, ("1",))
        refusal = run.refused("audit", "--store", stored, _OPTIONS[name].opts[0], *words)
        assert _OPTIONS[name].opts[0] in refusal


def test_stores_without_audits(run: Run, tmp_path: Path) -> None:
    """None is made by looking for one."""
    missing = tmp_path / "missing.sqlite"
    refusal = f"{missing}: no such file; name a problem and an algorithm to make it."
    assert run.refused("audit", "--store", missing) == refusal
    assert list(tmp_path.iterdir()) == []
    store = tmp_path / "runs.sqlite"
    with rr.RunStore(store) as opened:
        assert audits_of(opened) == []
    refusal = run.refused("audit", "--store", store)
    assert refusal == f"{store}: holds no runs and no audits; name a problem and an algorithm to make one."
    (tmp_path / "notes.txt").write_text("mine")
    assert "no run store" in run.refused("audit", "--store", tmp_path / "notes.txt")
    assert "is a directory" in run.refused("audit", "--store", tmp_path)


def test_an_interrupted_audit_says_how_many_runs_have_finished(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30)
    begun = audit_spec(rr.make("two-goals-v1"), algorithm, shared_seeds=50, require=0.9)
    rr.audit(rr.make("two-goals-v1"), algorithm, shared_seeds=7, store=store)
    with rr.RunStore(store) as opened:
        opened.add_audit(to_json(begun))
    told = run("audit", "--store", store)
    assert (told.code, told.err) == (3, "")
    said = " ".join(told.out.split())
    assert "Same policy in 7 of 7 pairs" in said
    assert "14 of 100 runs are judged" in said
    (begun_one,) = [one["runs"] for one in json.loads(run("audit", "--store", store, "--json").out)]
    assert begun_one == {"asked": 100, "there": 14}, "a program sees it too"
    with rr.RunStore(tmp_path / "none.sqlite") as opened:
        opened.add_audit(to_json(begun))
    told = run("audit", "--store", tmp_path / "none.sqlite")
    assert (told.code, told.err) == (3, "")
    said = " ".join(told.out.split())
    assert "there is nothing to compare. 0 of 100 runs are judged" in said
