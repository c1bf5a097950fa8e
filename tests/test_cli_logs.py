"""Logs and searches on the command line: options name what is in a log, and what is looked for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import replicable_rl as rr
from tests.commands import Run

POLICY = ("plug-in-policy-v1", "--epsilon", "0.05", "--delta", "0.05", "--rho", "0.2")
COLUMNS = ("--gamma", "0.9", "--done", "left", "--reward-range", "0", "1")
SEED = ("--shared-seed", "7")
RIGHT = {"home": "go", "road": "stay"}  # the better action, in every log
HEADER = "state,action,reward,next_state,left\n"
EACH = "home,go,1,road,false\nhome,stay,0,home,false\nroad,stay,1,road,false\nroad,go,0,home,false\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    for name, times in (("one", 20), ("two", 25)):
        Path(f"{name}.csv").write_text(HEADER + EACH * times + "road,stay,1,,true\n")
    return Run(capsys)


def test_a_log_is_solved_published_and_followed(run: Run) -> None:
    printed = run.good("solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--save", "run.npz")
    assert "one.csv, 81 rows" in printed
    assert "(end)" not in printed
    for state, action in RIGHT.items():
        assert re.search(rf"^{state} +{action}$", printed, re.MULTILINE)
    data = rr.from_transitions("one.csv", gamma=0.9, done="left", reward_range=(0, 1))
    solved = rr.solve(data, rr.PlugInPolicy(0.05, 0.05, 0.2), shared_seed=7)
    assert rr.load("run.npz").fingerprints == solved.fingerprints
    told = json.loads(run.good("solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--json"))
    assert RIGHT.items() <= told["policy"].items()
    run.good("publish", "one.csv", *POLICY, *COLUMNS, "-o", "cuts.npz")
    told = json.loads(run.good("solve", "two.csv", *POLICY, *COLUMNS, *SEED, "--rule", "cuts.npz", "--json"))
    assert RIGHT.items() <= told["policy"].items()
    assert "published cuts" in told["status"]["sentence"]


def test_folders_patterns_and_saved_samples_are_logs_too(run: Run) -> None:
    Path("logs").mkdir()
    for name in ("one.csv", "two.csv"):
        Path(name).rename(Path("logs") / name)
    every = rr.from_transitions("logs", gamma=0.9, done="left", reward_range=(0, 1))
    rr.save(every, "all.npz")
    logs: tuple[tuple[str, tuple[str, ...]], ...] = (("logs", COLUMNS), ("logs/*.csv", COLUMNS), ("all.npz", ()))
    answers = [json.loads(run.good("solve", log, *POLICY, *SEED, *columns, "--json")) for log, columns in logs]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["spec"]["sample"]["digest"] == every.sample.digest
    assert "--gamma" in run.refused("solve", "all.npz", *POLICY, *SEED, "--gamma", "0.9")
    assert "182 rows" in run.good("plan", "all.npz", *POLICY)


def test_columns_and_bins(run: Run) -> None:
    rows = "a,9.5,0,0,1\na,10,1,1,2\na,20.5,0,7,3\n"
    Path("warm.csv").write_text(f"who,warm,action,reward,day\n{rows}")
    words = ["diagnose", "warm.csv", "--gamma", "0.9", "--state", "warm", "--episode", "who", "--order", "day"]
    words += ["--resamples", "4"]
    printed = json.loads(run.good(*words, "--bins", "warm=10,20", "--json"))
    assert (printed["summary"]["states"], printed["summary"]["rows"]) == (3, 2)
    assert json.loads(run.good(*words, "--bins", "warm=10", "--last", "end", "--json"))["summary"]["rows"] == 3
    for wrong in ("warm", "warm=", "warm=10,x", "warm=20,10", "cold=1"):
        assert re.search("bins|cold", run.refused(*words, "--bins", wrong))
    Path("two_columns.csv").write_text("x,y,action,reward,x2,y2\na,1,go,0,b,2\nb,2,go,1,a,1\n")
    several = ("--gamma", "0.9", "--state", "x,y", "--next-state", "x2,y2")
    told = json.loads(run.good("solve", "two_columns.csv", *POLICY, *SEED, *several, "--json"))
    assert set(told["policy"]) == {"a, 1", "b, 2"}


def test_a_list_of_pairs_says_what_is_allowed(run: Run) -> None:
    Path("pairs.csv").write_text("state,action\nhome,go\nhome,stay\nroad,stay\nroad,go\nroad,swim\n")
    words = ("plan", "one.csv", *POLICY, *COLUMNS)
    plans = [json.loads(run.good(*words, *more, "--json")) for more in ((), ("--allowed", "pairs.csv"))]
    assert plans[0] != plans[1]  # one more action may be taken


def test_several_logs_are_audited(run: Run) -> None:
    out = run.good("audit", "one.csv", "two.csv", *POLICY, *COLUMNS, "--shared-seeds", "3")
    assert "one.csv" in out
    assert "Same policy" in out


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("compare", "one.csv"), "one.csv.*diagnose"),
        (("calibrate", "one.csv", *POLICY), "one.csv.*diagnose"),
        (("audit", "one.csv", *POLICY), "one.csv.*diagnose"),
        (("audit", "one.csv", "two.csv", *POLICY, *COLUMNS, "--runs", "3"), "--runs"),
        (("solve", "one.csv", *POLICY, *SEED), "--gamma"),
        (("solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--sample-seed", "1"), "--sample-seed"),
        (("plan", "one.csv", "rmax-v1:horizon=5,epsilon=0.1,delta=0.1", *COLUMNS), "PlugInPolicy"),
        (("solve", "gone.csv", *POLICY, *COLUMNS, *SEED), "gone.csv"),
        (("publish", "one.csv", "rpvi-v1", *POLICY[1:], *COLUMNS, "-o", "cuts.npz"), "PlugInPolicy"),
        (("diagnose", "one.csv", *COLUMNS, "--target", "2"), "--target.*2"),
        (("diagnose", "chain-v1"), "chain-v1"),
    ],
)
def test_bad_logs_are_one_line(run: Run, words: tuple[str, ...], names: str) -> None:
    refusal = run.refused(*words)
    assert re.search(names, refusal), refusal


# --- diagnose, compare, calibrate ------------------------------------------------------------------

PLUG_IN = ("two-goals-v1", "plug-in-policy-v1", "--epsilon", "0.05", "--delta", "0.01", "--rho", "0.2")
FEW = ("--start", "256", "--most", "512", "--shared-seeds", "200")


def test_a_diagnosis_is_printed_and_kept_as_a_page(run: Run) -> None:
    printed = run.good("diagnose", "one.csv", *COLUMNS, "--resamples", "4", "--report", "page.html")
    assert re.search(r"^ *home +go$", printed, re.MULTILINE)
    assert max(map(len, printed.splitlines())) <= 80
    assert "<html" in Path("page.html").read_text()
    data = rr.from_transitions("one.csv", gamma=0.9, done="left", reward_range=(0, 1))
    found = rr.diagnose(data, resamples=4)
    told = json.loads(run.good("diagnose", "one.csv", *COLUMNS, "--resamples", "4", "--json"))
    assert told["policy"] == json.loads(json.dumps(found.to_json()))["policy"]


def test_calibrate_exits_by_what_was_found(run: Run) -> None:
    printed = run.good("calibrate", *PLUG_IN, *FEW, "--store", "runs.sqlite", "--report", "a.html")
    assert max(map(len, printed.splitlines())) <= 80
    assert "<html" in Path("a.html").read_text()
    assert json.loads(run.good("calibrate", *PLUG_IN, *FEW, "--store", "runs.sqlite", "--json"))["met"] is True
    assert run("calibrate", *PLUG_IN, "--rule", "greedy", "--start", "64", "--most", "64").code == 1
    assert run("calibrate", *PLUG_IN, "--start", "1e3", "--most", "1e3", "--shared-seeds", "4").code == 3


def test_compare_prints_a_table_and_recommends(run: Run) -> None:
    only = ("--only", "greedy", "--only", "affordable")
    printed = run.good("compare", "chain-v1", *only, *FEW)
    assert max(map(len, printed.splitlines())) <= 80
    assert "Use greedy" in printed
    data = json.loads(run.good("compare", "chain-v1", *only, *FEW, "--json"))
    assert [row["name"] for row in data["rows"]] == ["greedy", "affordable"]
    assert run("compare", "two-goals-v1", "--only", "greedy", "--start", "64", "--most", "64").code == 1


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("calibrate", *PLUG_IN, "--report", "/nowhere/a.html"), "/nowhere/a.html"),
        (("calibrate", *PLUG_IN, "--start", "many"), "'--start'.*'many'"),
        (("calibrate", *PLUG_IN, "--jobs", "0"), "--jobs"),
        (("compare", "two-goal-v1"), "'two-goals-v1'"),
        (("compare", "chain-v1", "--seed", "-1"), "seed.*-1"),
    ],
)
def test_bad_searches_are_one_line(run: Run, words: tuple[str, ...], names: str) -> None:
    refusal = run.refused(*words)
    assert re.search(names, refusal), refusal
