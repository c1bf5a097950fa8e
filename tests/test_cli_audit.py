"""``replicable-rl audit``: what people and programs read, exit codes, plans, and one line for bad input."""

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

import replicable_rl as rr
from replicable_rl.audit.sweep import audit_plan, load_plan
from replicable_rl.cli import main, progress
from replicable_rl.progress import report
from tests.test_cli import COMMAND, Run, environment, on_terminal, piped, plain, read_all, terminal

GOOD = ("two-goals-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2,iterations=30")
BAD = ("two-goals-v1", "phased-vi-v1:epsilon=0.1,delta=0.001,iterations=30")
SMALL = ("--shared-seeds", "20")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


PLAN = """
shared_seeds = 4
runs_per_seed = 3

[[problem]]
id = "two-goals-v1"

[[problem]]
id = "riverswim-v1"
n_states = [6, 8]

[[algorithm]]
id = "phased-vi-v1"
epsilon = 0.2
delta = [0.1, 0.2]
calls = 1e6
iterations = 5

[[algorithm]]
id = "rpvi-v1"
epsilon = 0.2
delta = 0.01
rho = 0.2
iterations = 5
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


# --- one audit -------------------------------------------------------------------------------------------


def test_table_is_that_of_rr_audit(run: Run) -> None:
    printed = run.good("audit", *GOOD, *SMALL)
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=30)
    assert printed == rr.audit(rr.make("two-goals-v1"), algorithm, shared_seeds=20).table() + "\n"
    assert max(map(len, printed.splitlines())) == 80
    assert "Same policy in 20 of 20 pairs: agreement 1.000 (0.832–1.000), 1−ρ = 0.8 met." in printed


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
        (GOOD, ("--require", "0.9"), 1),  # 20 pairs cannot show it
        (BAD, ("--require", "0.8"), 1),
        (BAD, ("--require", "0.01", "--level", "value"), 1),
        (BAD, (), 0),
    ],
)
def test_exit_code_says_whether_the_requirement_is_met(
    run: Run, subject: tuple[str, str], options: tuple[str, ...], code: int
) -> None:
    result = run("audit", *subject, *SMALL, *options)
    assert (result.code, result.err) == (code, "")


def test_store_resumes_and_jobs_do_not_matter(run: Run, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "runs.sqlite")
    first = run.good("audit", *BAD, *SMALL, *store, "--jobs", "2")
    assert run.good("audit", *BAD, *SMALL, *store) == first == run.good("audit", *BAD, *SMALL)
    assert run.good("audit", *BAD, *SMALL, "--backend", "threads", "--jobs", "2") == first
    with rr.RunStore(tmp_path / "runs.sqlite") as opened:
        assert [runs for _, _, runs in opened.families()] == [40]


def test_a_store_alone_is_listed(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    run.good("audit", *GOOD, *SMALL, "--store", store)
    listed = run.good("audit", "--store", store)
    assert "1  two-goals-v1  rpvi-v1:" in listed
    text = " ".join(listed.split())
    assert "40 runs under 20 shared seeds: same value in 20 of 20 pairs, same policy in 20 of 20 pairs." in text
    assert max(map(len, listed.splitlines())) <= 80
    assert "give PROBLEM and ALGORITHM" in run.refused("audit", "--store", tmp_path / "other.sqlite")
    assert not (tmp_path / "other.sqlite").exists()


def test_csv_has_a_row_for_every_run(run: Run, tmp_path: Path) -> None:
    run.good("audit", *BAD, *SMALL, "--csv", tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 40
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
    assert len(real.read_text().splitlines()) == 41


def test_csv_may_go_to_a_pipe(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{COMMAND} audit {' '.join(BAD)} --shared-seeds 2 --csv >(cat >{tmp_path}/copy) >/dev/null; wait; sleep 0.5",
        shell=True,
        executable="/bin/bash",
        timeout=60,
    )
    assert done.returncode == 0
    assert len((tmp_path / "copy").read_text().splitlines()) == 5


@pytest.mark.parametrize("reader", ["true", "cat >/dev/null"])
@pytest.mark.parametrize("form", ["", "--json"])
def test_a_reader_who_leaves_does_not_change_the_exit_code(reader: str, form: str) -> None:
    command = (
        f"{COMMAND} audit {' '.join(BAD)} --shared-seeds 10 --require 0.9 {form} | {reader}; exit ${{PIPESTATUS[0]}}"
    )
    assert subprocess.run(command, shell=True, executable="/bin/bash", timeout=60).returncode == 1


def test_output_closed_and_output_in_ascii() -> None:
    command = f"{COMMAND} audit {' '.join(GOOD)} --shared-seeds 5 --require 0.9 >&-"
    closed = subprocess.run(command, shell=True, executable="/bin/bash", capture_output=True, timeout=60)
    assert (closed.returncode, closed.stderr) == (1, b"")
    shown = piped("audit", *GOOD, *SMALL, PYTHONIOENCODING="ascii").out
    assert "agreement 1.000 (0.832-1.000), 1-rho = 0.8 met." in shown
    assert max(map(len, shown.splitlines())) == 80


def test_time_is_shown_on_a_terminal_only(run: Run) -> None:
    assert "Time of all runs" not in run.good("audit", *GOOD, *SMALL)
    assert "Time of all runs: " in on_terminal("audit", *GOOD, *SMALL)


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
    assert "/s " in shown
    assert "0:00:" in shown


def test_one_line_a_minute_when_piped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with progress.progress_bar():
        for done in range(1, 1000):
            clock[0] += 0.25
            report("runs", done, 1000)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4  # 250 seconds
    assert lines[0] == "240 of 1000 runs, 4/s, 3 min 10 s left"


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
                finished = sum(runs for _, _, runs in opened.families())
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
        assert finished <= sum(runs for _, _, runs in opened.families()) < 1000


# --- plans -----------------------------------------------------------------------------------------------


def test_a_plan_makes_every_combination(run: Run, plan: Path, tmp_path: Path) -> None:
    printed = run.good("audit", "--plan", plan, "--store", tmp_path / "runs.sqlite")
    assert max(map(len, printed.splitlines())) <= 80
    assert [line.split()[0] for line in printed.splitlines() if not line.startswith(" ")] == [
        f"{i}/9" for i in range(1, 10)
    ]
    results = audit_plan(plan, store=tmp_path / "runs.sqlite")
    assert len(results) == 9
    assert {result.problem.text for result in results} == {"two-goals-v1", "riverswim-v1", "riverswim-v1:n_states=8"}
    assert {result.algorithm.params["delta"] for result in results} == {0.1, 0.2, 0.01}
    assert all(result.plan.runs_per_seed == 3 and len(result.plan.shared_seeds) == 4 for result in results)
    calls = {result.algorithm.params.get("calls") for result in results}
    assert calls == {10**6, None}
    assert json.loads(run.good("audit", "--plan", plan, "--json")) == [result.to_json() for result in results]
    smaller = json.loads(run.good("audit", "--plan", plan, "--json", "--shared-seeds", "2"))
    assert [len(one["shared_seeds"]) for one in smaller] == [2] * 9
    run.good("audit", "--plan", plan, "--csv", tmp_path / "all.csv")
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 1 + 9 * 12
    assert run("audit", "--plan", plan, "--require", "0.99").code == 1


def test_a_plan_may_name_files_gymnasium_and_lists_in_lists(tmp_path: Path) -> None:
    rr.make("chain-v1").save(tmp_path / "mine.npz")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[[problem]]\nfile = "mine.npz"\n[[problem]]\nid = "FrozenLake-v1"\ngamma = 0.9\n'
        '[[problem]]\nid = "gridworld-v1"\nlayout = [["S.G"], ["S..G"]]\n'
        '[[algorithm]]\nid = "phased-vi-v1"\nepsilon = 0.2\ndelta = 0.1\n'
    )
    problems = [problem.spec.text for problem in load_plan(plan).problems]
    assert problems[1:2] == ["gymnasium/FrozenLake-v1:gamma=0.9"]
    assert problems[0].startswith("mdp:digest=")
    assert len(problems) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shared_seeds = ", "not a plan in TOML"),
        ("", r"a plan needs one table [[problem]] or more"),
        ("problem = 3", r"a plan needs one table [[problem]] or more"),
        ('[[problem]]\nid = "chain-v1"', r"a plan needs one table [[algorithm]] or more"),
        ("[[problem]]\nn_states = 3\n[[algorithm]]", "every [[problem]] needs an id"),
        ("[[problems]]", "a plan has no entry 'problems'. Did you mean 'problem'?"),
        ('[[problem]]\nid = "chian-v1"\n[[algorithm]]', "No problem is called 'chian-v1'. Did you mean 'chain-v1'?"),
        ('[[problem]]\nfile = "no.npz"\n[[algorithm]]', "no.npz: no such file."),
        ('[[problem]]\nid = "chain-v1"\nstates = 3\n[[algorithm]]', "there is no parameter 'states'"),
        ('[[problem]]\nid = "chain-v1"\nn_states = []\n[[algorithm]]', "the list of 'n_states' of chain-v1 is empty"),
        ('[[problem]]\nid = "file"\n[[algorithm]]', "No problem is called 'file'"),
        ("[[problem]]\nfile = 3\n[[algorithm]]", "file must be the name of a saved problem, got 3"),
        ('[[problem]]\nfile = "a.npz"\ngamma = 0.5\n[[algorithm]]', "every [[problem]] needs an id"),
        (
            '[[problem]]\nid = "chain-v1"\n[[algorithm]]\nid = "rpvi-v1"\nepsilon = 2.0\ndelta = 0.1\nrho = 0.5',
            "epsilon must lie strictly between 0 and 1, got 2",
        ),
    ],
)
def test_bad_plans(run: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "plan.toml").write_text(text)
    refused = run.refused("audit", "--plan", tmp_path / "plan.toml")
    assert refused.startswith(str(tmp_path / "plan.toml"))
    assert message in refused


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give PROBLEM and ALGORITHM, or --plan FILE"),
        (("two-goals-v1",), "give PROBLEM and ALGORITHM, or --plan FILE"),
        ((*GOOD, "--runs", "1"), "runs_per_seed must be at least 2, got 1"),
        ((*GOOD, "--shared-seeds", "0"), "shared_seeds must be an integer from 1"),
        ((*GOOD, "--shared-seeds", "many"), "--shared-seeds must be a whole number"),
        (
            (*GOOD, "--shared-seeds", "2", "--shared-seed", "3"),
            "give --shared-seeds, how many, or --shared-seed, which",
        ),
        ((*GOOD, "--confidence", "95"), "confidence must lie strictly between 0 and 1"),
        ((*GOOD, "--require", "80"), "--require must lie strictly between 0 and 1"),
        (
            (*GOOD, *SMALL, "--require", "0.5", "--level", "model"),
            "there is no model to compare; rpvi-v1 produces value, policy",
        ),
        ((*GOOD, *SMALL, "--level", "polcy"), "got 'polcy'. Did you mean 'policy'?"),
        ((*GOOD, "--on-error", "ignore"), "on_error must be 'raise' or 'record', got 'ignore'"),
        ((*GOOD, "--jobs", "0"), "n_jobs must be the number of workers"),
        ((*GOOD, "--backend", "spark"), "backend must be one of processes, threads, dask, ray, got 'spark'"),
        ((*GOOD, "--scheduler", "tcp://here:1"), "say which kind with --backend dask or ray"),
        (
            (*GOOD, "--backend", "threads", "--scheduler", "tcp://here:1"),
            "a scheduler is for the backends dask and ray",
        ),
        ((*GOOD, "--plan", "plan.toml"), "problem, algorithm cannot be given beside --plan; write it into plan.toml"),
        (("--plan", "plan.toml", "--epsilon", "0.1"), "--epsilon cannot be given beside --plan"),
        (("--plan", "nowhere.toml"), "nowhere.toml: no such file."),
        ((*GOOD, "--store", "/"), "/: is a directory. Name a file for the store."),
        ((*GOOD, "--store", "/no/such/place.sqlite"), "there is no directory /no/such"),
        ((*GOOD, *SMALL, "--csv", "/no/such/place.csv"), "/no/such/place.csv: cannot be written"),
        (("inventory-v1", "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2"), "run 1 of 120 (shared_seed="),
    ],
)
def test_bad_usage(run: Run, arguments: tuple[object, ...], message: str) -> None:
    assert message in run.refused("audit", *arguments)


def test_recorded_failures_are_counted(run: Run) -> None:
    result = run(
        "audit",
        "inventory-v1",
        "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2",
        "--shared-seeds",
        "2",
        "--on-error",
        "record",
        "--json",
    )
    assert result.code == 0
    assert len(json.loads(result.out)["failures"]) == 4
    assert (
        main(
            [
                "audit",
                "inventory-v1",
                "rpvi-v1:epsilon=0.1,delta=0.001,rho=0.2",
                "--shared-seeds",
                "2",
                "--on-error",
                "record",
                "--require",
                "0.5",
                "--json",
            ]
        )
        == 1
    )
