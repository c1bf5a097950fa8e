"""Daily use in a terminal: help, completion, --quiet, lists, and tables in narrow terminals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer

import replicable_rl as rr
from replicable_rl import progress
from replicable_rl.cli.main import app
from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.rules import SHIPPED
from replicable_rl.runs import LEVELS
from tests.commands import Result
from tests.test_cli import COMMAND, Run, environment, run  # noqa: F401  # run is a fixture

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
COMPLETING = "_REPLICABLE_RL_COMPLETE"
SOLVED = ("two-goals-v1", "plug-in-policy-v1", "--epsilon", "0.05", "--delta", "0.01", "--rho", "0.2")
SMALL = (*SOLVED, "--samples", "100")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with logs that the examples name."""
    monkeypatch.chdir(tmp_path)
    rows = "state,action,reward,next_state\na,left,0,b\na,right,1,a\nb,left,1,a\nb,right,0,b\n"
    for times, name in enumerate(("log", "monday", "tuesday"), start=20):
        (tmp_path / f"{name}.csv").write_text(rows + "".join(rows.splitlines(keepends=True)[1:]) * times)
    return tmp_path


# --- help --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is(name: str, run: Run) -> None:  # noqa: F811
    assert name in run.good("--help")
    assert run.good(name, "--help")
    for param in (one for one in COMMANDS[name].params if not one.hidden):
        assert param.help, param.name


def test_tab(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer's own completion gets through: what it prints, and the code that fish goes by."""
    monkeypatch.setenv(COMPLETING, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "replicable-rl plan chain-v1 rpvi-v1 --t")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert set(Run(capsys).good().split()) == {"--target", "--tolerance"}
    monkeypatch.setenv(COMPLETING, "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "replicable-rl diagnose x")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
    assert Run(capsys)().code == 1


# --- quiet -------------------------------------------------------------------------------------

AUDIT = ("audit", *SMALL, "--shared-seeds", "3")


class OnTerminal(Run):
    """Calls the command in this process, with streams that look like a terminal."""

    def __call__(self, *arguments: object) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            for stream in (sys.stdout, sys.stderr):
                patch.setattr(stream, "isatty", lambda: True)
            return super().__call__(*arguments)


@pytest.fixture
def shown(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> OnTerminal:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    return OnTerminal(capsys)


@pytest.mark.parametrize("option", ["--quiet", "-q"])
def test_quiet(option: str, shown: OnTerminal) -> None:
    loud = shown(*AUDIT)
    assert "runs" in loud.err
    assert "Time of all runs" in loud.out
    quiet = shown(option, *AUDIT)
    assert (quiet.code, quiet.err) == (0, "")
    assert loud.out.startswith(quiet.out)
    assert "agreement" in quiet.out
    assert "Time of all runs" not in quiet.out
    assert shown(*AUDIT).err, "and the next one is as loud as the first"


def test_quiet_leaves_errors_and_the_result(run: Run, folder: Path) -> None:  # noqa: F811
    assert run.refused("-q", "solve", "nowhere.npz", "x", "--shared-seed", "1")
    publishing = ("publish", *SMALL, "--sample-seed", "1")
    loud, quiet = run.good(*publishing), run.good("-q", *publishing)
    assert loud == f"{quiet}Nothing was written; --output cuts.npz keeps them.\n"
    run.good("-q", *AUDIT, "--store", "runs.sqlite")
    assert run.good("-q", "report", "runs.sqlite") == ""
    assert Path("runs.html").exists()


def test_quiet_is_quiet_about_warnings(run: Run) -> None:  # noqa: F811
    def warning() -> rr.TabularMDP:
        warnings.warn("old", stacklevel=1)
        return rr.make("chain-v1")

    rr.register("warning-v1", warning)
    plan = ("plan", "warning-v1", "rpvi-v1", "--epsilon", "0.1", "--delta", "0.001", "--rho", "0.2")
    with pytest.warns(UserWarning, match="old"):
        run(*plan)
    with warnings.catch_warnings(record=True) as heard:
        assert run.good("-q", *plan)
    assert heard == []


# --- lists -------------------------------------------------------------------------------------


def test_list_json(run: Run) -> None:  # noqa: F811
    rr.register("mine-v1", lambda size: rr.make("chain-v1", n_states=size))
    lists = json.loads(run.good("list", "--json"))
    tables: dict[str, Any] = {
        "problems": PROBLEMS,
        "algorithms": ALGORITHMS,
        "rules": SHIPPED,
        "levels": LEVELS,
    }
    assert {kind: {one["id"] for one in found} for kind, found in lists.items()} == {
        kind: set(table) for kind, table in tables.items()
    }
    known = {one["id"]: one for one in lists["problems"]}
    assert known["two-goals-v1"] == {
        "id": "two-goals-v1",
        "states": 8,
        "actions": 4,
        "gamma": 0.9,
        "parameters": {"slip": 0.3, "gamma": 0.9},
    }
    assert known["mine-v1"] == {
        "id": "mine-v1",
        "states": None,
        "actions": None,
        "gamma": None,
        "parameters": {"size": None},
    }
    assert {"id": "model", "implies": ["value", "policy"]} in lists["levels"]
    shown = run.good("list")
    assert all(one["id"] in shown for found in lists.values() for one in found)


# --- narrow terminals --------------------------------------------------------------------------

PROMISE = ("--epsilon", "0.1", "--delta", "0.001", "--rho", "0.2")
NARROW: dict[str, tuple[str, ...]] = {
    "list": ("list",),
    "plan of rPVI": ("plan", "two-goals-v1", "rpvi-v1", *PROMISE),
    "plan of a model": ("plan", "two-goals-v1", "replicable-approximate-mdp-v1", *PROMISE),
    "plan of R-max": ("plan", "riverswim-v1", "replicable-rmax-v1", *PROMISE, "--horizon", "20"),
    "plan of rules": ("plan", *SOLVED),
    "publish": ("publish", *SMALL, "--sample-seed", "1"),
    "audit": AUDIT,
    "audit of logs": ("audit", "log.csv", "monday.csv", *SOLVED[1:], "--gamma", "0.9", "--shared-seeds", "3"),
    "calibrate": ("calibrate", *SOLVED, "--start", "64", "--most", "64", "--shared-seeds", "40"),
    "compare": ("compare", "chain-v1", "--only", "greedy", "--only", "rpvi", "--most", "4", "--shared-seeds", "20"),
    "diagnose": ("diagnose", "log.csv", "--gamma", "0.9", "--resamples", "10"),
}


def numbers(text: str) -> set[str]:
    """Return the numbers of a text, without fingerprints, which are broken on purpose."""
    without = re.sub(r"[0-9a-f]{20,}\s*[0-9a-f]*", "", text)
    return set(re.findall(r"(?<![\w.+-])[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]*)?(?![\w])", without))


@pytest.mark.parametrize("what", NARROW)
def test_no_number_is_cut_at_60_columns(
    what: str, shown: OnTerminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, narrow = "", ""
    for width in (120, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        wide, narrow = narrow, re.sub(r"\x1b\[[0-9;]*m", "", shown("--quiet", *NARROW[what]).out)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 60
    assert numbers(narrow)
    assert numbers(narrow) <= numbers(wide)


# --- start -------------------------------------------------------------------------------------

HEAVY: tuple[str, ...] = (
    "dask",
    "duckdb",
    "gymnasium",
    "ibis",
    "jinja2",
    "joblib",
    "matplotlib",
    "numba",
    "pandas",
)
HEAVY += ("pyarrow", "ray", "rich", "scipy", "stable_baselines3", "torch")


@pytest.mark.parametrize("code", ["import replicable_rl", "from replicable_rl.cli import main; main(['--version'])"])
def test_nothing_heavy_is_loaded_at_the_start(code: str) -> None:
    """What takes the time is what is imported; the benchmarks measure the time. Typer before 0.19 imports rich."""
    before = "import sys, typer; before = set(sys.modules)"
    counted = f"{before}; {code}; sys.stderr.write(str(sorted(set({HEAVY}) & set(sys.modules) - before)))"
    command = [sys.executable, "-c", counted]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "[]")
