"""``replicable-rl calibrate`` and ``compare``: tables, JSON, figures, exit codes, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replicable_rl.cli import main
from tests.test_cli import Run

PLUG_IN = ("two-goals-v1", "plug-in-policy-v1", "--epsilon", "0.05", "--delta", "0.01", "--rho", "0.2")
FEW = ("--start", "256", "--most", "512", "--shared-seeds", "200")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def test_calibrate_exits_by_what_was_found(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    printed = run.good("calibrate", *PLUG_IN, *FEW, "--store", store, "--figure", tmp_path / "a.png")
    assert max(map(len, printed.splitlines())) <= 80
    assert "Met from samples = " in printed
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(run.good("calibrate", *PLUG_IN, *FEW, "--store", store, "--json"))
    assert data["met"] is True
    refuted = run("calibrate", *PLUG_IN, "--rule", "greedy", "--start", "64", "--most", "64")
    assert refuted.code == 1
    assert "Not met: refuted at samples = 64, the largest size tried." in refuted.out
    unknown = run("calibrate", *PLUG_IN, "--start", "1e3", "--most", "1e3", "--shared-seeds", "4")
    assert unknown.code == 3
    assert "Cannot tell" in unknown.out


def test_calibrate_takes_the_options_of_a_plug_in_policy(run: Run) -> None:
    asked = (
        "--rule",
        "tolerance",
        "--over",
        "worst",
        "--start",
        "64",
        "--most",
        "64",
        "--shared-seeds",
        "32",
        "--json",
    )
    data = json.loads(run("calibrate", *PLUG_IN, *asked).out)
    assert data["algorithm"]["params"]["rule"] == "tolerance"
    assert data["asked"]["over"] == "worst"
    published = run("calibrate", *PLUG_IN, "--published", "--start", "64", "--most", "64", "--shared-seeds", "8")
    assert "publishes cuts" in published.out


def test_calibrate_asks_for_a_rho_that_the_algorithm_does_not_promise(run: Run) -> None:
    asked = ("--epsilon", "0.1", "--delta", "0.1", "--rho", "0.3", "--start", "8", "--most", "8", "--shared-seeds", "8")
    data = json.loads(run("calibrate", "chain-v1", "phased-vi-v1:iterations=2", *asked, "--json").out)
    assert data["asked"]["rho"] == 0.3
    assert "rho" not in data["algorithm"]["params"]


def test_compare_prints_a_table_and_recommends(run: Run, tmp_path: Path) -> None:
    only = ("--only", "greedy", "--only", "affordable")
    printed = run.good("compare", "chain-v1", *only, *FEW, "--figure", tmp_path / "a.svg")
    assert max(map(len, printed.splitlines())) <= 80
    assert "Use greedy" in printed
    data = json.loads(run.good("compare", "chain-v1", *only, *FEW, "--share", "0.3", "--json"))
    assert [row["name"] for row in data["rows"]] == ["greedy", "affordable"]
    never = run("compare", "two-goals-v1", "--only", "greedy", "--start", "64", "--most", "64")
    assert never.code == 1
    assert "Nothing here meets" in never.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("calibrate", *PLUG_IN, "--figure", "a.gif"), "figure: the name of a file must end in .png, .svg or .pdf"),
        (("calibrate", *PLUG_IN, "--figure", "/nowhere/a.png"), "/nowhere/a.png: cannot be written"),
        (("calibrate", *PLUG_IN, "--start", "many"), "--start must be a whole number"),
        (("calibrate", *PLUG_IN, "--size", "n"), "calibrate: PlugInPolicy has no parameter 'n'"),
        (("calibrate", *PLUG_IN, "--jobs", "0"), "calibrate: n_jobs (--jobs) must be the number of workers"),
        (("compare", "two-goal-v1"), "No problem or algorithm is called 'two-goal-v1'. Did you mean 'two-goals-v1'?"),
        (("compare", "chain-v1", "--seed", "-1"), "compare: seed must be an integer from 0 to"),
        (("compare", "chain-v1", "--share", "0.1", "--epsilon", "0.1"), "compare: epsilon and share both say how much"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    assert run.refused(*arguments).startswith(said)


def test_an_interrupted_search_says_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    store = tmp_path / "runs.sqlite"
    store.touch()
    for command, asked in (("calibrate", PLUG_IN), ("compare", PLUG_IN[:1])):
        monkeypatch.setattr(f"replicable_rl.cli.diagnose.{command}", interrupted)
        assert main([command, *asked, "--store", str(store)]) == 130
        assert f"Finished runs are kept in {store}; the same command resumes." in capsys.readouterr().err
