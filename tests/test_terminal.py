"""Daily use in a terminal: help, completion, --quiet, lists, and tables in narrow terminals."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import shellingham
import typer

import replicable_rl as rr
from replicable_rl import progress_bar
from replicable_rl.cli.complete import COMPLETING
from replicable_rl.cli.main import app
from replicable_rl.queries.rules import SHIPPED
from replicable_rl.records import LEVELS
from replicable_rl.registry import ALGORITHMS, PROBLEMS, SAMPLERS
from tests.commands import Result
from tests.test_cli import COMMAND, Run, environment, one_line, run  # noqa: F401  # run is a fixture

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
WIDTHS = (60, 80, 120)
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_whole(name: str, width: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run.good(*([name] if name else []), "--help")
    assert "…" not in shown
    assert not re.search(r"<\w|\b(TEXT|INTEGER|FLOAT|PATH|BOOLEAN)\b", shown), "a type of Python, or of click"
    assert max(map(len, shown.splitlines())) <= width
    assert "{" not in shown
    if name:
        assert re.search(r"^  Examples?:\n    replicable-rl ", shown, re.MULTILINE)


@pytest.mark.parametrize("width", WIDTHS)
def test_summaries_are_whole_sentences(width: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("COLUMNS", str(width))
    shown = " ".join(run.good("--help").split())
    for name, command in COMMANDS.items():
        assert re.fullmatch(r"[A-Z][^.]+\.", command.short_help), name
        assert f" {name} {command.short_help} " in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is(name: str) -> None:
    for param in (one for one in COMMANDS[name].params if not one.hidden):
        assert param.help, param.name
        if param.param_type_name == "argument" or not param.is_flag:
            assert param.metavar, param.name


def examples(name: str) -> list[list[str]]:
    """Return the examples of a command's help, as a shell would read them."""
    _, _, text = (COMMANDS[name].epilog or "").partition(":\n")
    return [shlex.split(line)[1:] for line in text.replace("\\\n", "").splitlines()]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_can_be_read(name: str) -> None:
    assert examples(name)
    for first, *arguments in examples(name):
        assert first == name
        assert COMMANDS[name].make_context(name, list(arguments)).params


QUICK = ("solve", "plan", "publish", "list")


@pytest.mark.parametrize("name", QUICK)
def test_examples_run(name: str, run: Run, folder: Path) -> None:  # noqa: F811
    for example in examples(name):
        assert run.good(*example)


def test_the_example_of_diagnose_runs(run: Run, folder: Path) -> None:  # noqa: F811
    assert run.good(*examples("diagnose")[0], "--resamples", "20")
    assert Path("page.html").exists()


def test_the_examples_of_audit_and_report_run(run: Run, folder: Path) -> None:  # noqa: F811
    """One makes what the other reads; fewer runs than the example has are enough here."""
    for example in examples("audit"):
        result = run(*example, "--shared-seeds", "20")
        assert (result.code in (0, 2), result.err) == (True, "")  # 2: so few runs cannot tell
    assert run.good(*examples("report")[0]).startswith("page.html: 1 audit, 40 runs.")


# --- completion --------------------------------------------------------------------------------


def completed(shell: str, line: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Return what a shell is told when somebody presses Tab at the end of a line."""
    monkeypatch.setenv(COMPLETING, f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    capsys.readouterr()
    code = Run(capsys)()
    return code.code, code.out


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("", set(COMMANDS)),
        ("solve ", set(PROBLEMS) | {"mine.npz"}),
        ("solve two", {"two-goals-v1", "two-goals-wide-v1"}),
        ("solve mi", {"mine.npz"}),
        ("solve chain-v1 ", set(ALGORITHMS)),
        ("audit ", set(PROBLEMS) | {"mine.npz"}),
        ("audit chain-v1 ", set(ALGORITHMS)),
        ("audit monday.csv tue", set()),  # the shell goes on with files
        ("audit chain-v1 rpvi-v2 --sampler ", set(SAMPLERS)),
        ("audit chain-v1 rpvi-v2 --level ", set(LEVELS)),
        ("audit chain-v1 rpvi-v2 --backend ", {"processes", "threads", "dask", "ray"}),
        ("audit chain-v1 rpvi-v2 --store ", set()),
        ("solve chain-v1 plug-in-policy-v1 --rule ", set(SHIPPED) | {"cuts.json"}),
        ("diagnose log.csv --rule g", {"greedy", "gumbel"}),
        ("diagnose ", set()),
        ("plan chain-v1 rpvi-v2 --bound ", {"sharp", "tight", "printed"}),
        ("plan chain-v1 rpvi-v2 --t", {"--target", "--tolerance"}),
        ("compare chain-v1 --only r", {"rounded", "rpvi", "rmax"}),
        ("reproduce fig", {"figure1", "figure2"}),
        ("--quiet list --j", {"--json"}),
        ("report runs.sqlite --algorithm rpvi", {"rpvi-v1", "rpvi-v2"}),
    ],
)
def test_tab(line: str, offered: set[str], capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.npz", "cuts.json", "notes.txt"):
        (tmp_path / name).touch()
    code, out = completed("bash", f"replicable-rl {line}", capsys, monkeypatch)
    assert code == 0
    assert set(out.split()) == offered
    for shell in ("zsh", "fish"):
        code, out = completed(shell, f"replicable-rl {line}", capsys, monkeypatch)
        assert code == 0
        assert all(one in out for one in offered)
        assert offered or out.strip() in ("", "_files")


def test_fish_asks_whether_there_is_anything(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for line, expected in (("replicable-rl solve two", 0), ("replicable-rl diagnose x", 1)):
        monkeypatch.setenv(COMPLETING, "complete_fish")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
        assert Run(capsys)().code == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes(tmp_path: Path) -> None:
    """Installed from bash, read by another one, and asked as the Tab key asks."""
    path = f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"
    env = environment(HOME=str(tmp_path), PATH=path)
    installing = ["bash", "--norc", "-c", "replicable-rl --install-completion; exit $?"]
    done = subprocess.run(installing, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "bash completion installed in" in done.stdout
    pressing = (
        'tab() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _replicable_rl_completion "$1"; '
        'echo "${COMPREPLY[*]}"; }\n'
        f"source {tmp_path}/.bashrc; complete -p replicable-rl\n"
        "tab replicable-rl solve chain-v1 rp\n"
        "tab replicable-rl diagnose ''"
    )
    done = subprocess.run(["bash", "--norc", "-c", pressing], env=env, capture_output=True, text=True, timeout=60)
    files = "complete -o default -F _replicable_rl_completion replicable-rl"  # where nothing is offered, bash has files
    assert (done.stdout.splitlines(), done.stderr) == ([files, "rpvi-v1 rpvi-v2", ""], "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_lines_for_a_shell(shell: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPLETING, f"source_{shell}")
    script = Run(capsys)()
    assert (script.code, script.err) == (0, "")
    assert f"{COMPLETING}=complete_{shell}" in script.out
    if executable := shutil.which(shell):
        subprocess.run([executable, "-n"], input=script.out, text=True, check=True, timeout=60)


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_no_shell_to_complete_for(option: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def nothing() -> None:
        raise shellingham.ShellDetectionFailure

    monkeypatch.setattr(shellingham, "detect_shell", nothing)
    refusal = run.refused(option)
    assert refusal.startswith(f"{option}: it was not started from bash, zsh or fish.")
    assert f"{COMPLETING}=source_bash replicable-rl" in refusal
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("tcsh", "/bin/tcsh"))
    assert run.refused(option) == refusal


def test_a_home_that_cannot_be_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("bash", "/bin/bash"))
    assert "file" in run.refused("--install-completion")


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
    monkeypatch.setattr(progress_bar, "_PATIENCE", 0.0)
    return OnTerminal(capsys)


@pytest.mark.parametrize("arguments", [("--quiet", *AUDIT), ("-q", *AUDIT), (*AUDIT, "--quiet"), (*AUDIT, "-q")])
def test_quiet(arguments: tuple[str, ...], shown: OnTerminal) -> None:
    loud = shown(*AUDIT)
    assert "runs" in loud.err
    assert "Time of all runs" in loud.out
    quiet = shown(*arguments)
    assert (quiet.code, quiet.err) == (0, "")
    assert loud.out.startswith(quiet.out)
    assert "agreement" in quiet.out
    assert "Time of all runs" not in quiet.out
    assert shown(*AUDIT).err, "and the next one is as loud as the first"


def test_quiet_leaves_errors_and_the_result(run: Run, folder: Path) -> None:  # noqa: F811
    for refused in (("-q", "solve", "nowhere.npz", "x"), ("solve", "nowhere.npz", "x", "--shared-seed", "1", "-q")):
        assert one_line(run(*refused))
    publishing = ("publish", *SMALL, "--sample-seed", "1")
    loud, quiet = run.good(*publishing), run.good(*publishing, "-q")
    assert loud == f"{quiet}Nothing was written; --output cuts.json keeps them.\n"
    run.good("-q", *AUDIT, "--store", "runs.sqlite")
    assert run.good("report", "runs.sqlite", "-q") == ""
    assert Path("runs.html").exists()


def test_quiet_alone_is_no_command(run: Run) -> None:  # noqa: F811
    assert run.refused("--quiet") == "Missing command. Try `replicable-rl --help`."


def test_quiet_is_quiet_about_warnings(run: Run) -> None:  # noqa: F811
    def warning() -> rr.TabularMDP:
        warnings.warn("old", stacklevel=1)
        return rr.make("chain-v1")

    rr.register_problem("warning-v1", warning)
    plan = ("plan", "warning-v1", "rpvi-v2", "--epsilon", "0.1", "--delta", "0.001", "--rho", "0.2")
    with pytest.warns(UserWarning, match="old"):
        run(*plan)
    with warnings.catch_warnings(record=True) as heard:
        assert run.good("-q", *plan)
    assert heard == []


# --- lists -------------------------------------------------------------------------------------


def test_list_json(run: Run) -> None:  # noqa: F811
    rr.register_problem("mine-v1", lambda size: rr.make("chain-v1", n_states=size))
    lists = json.loads(run.good("list", "--json"))
    tables: dict[str, Any] = {
        "problems": PROBLEMS,
        "algorithms": ALGORITHMS,
        "rules": SHIPPED,
        "samplers": SAMPLERS,
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
    "plan of rPVI": ("plan", "two-goals-v1", "rpvi-v2", *PROMISE),
    "plan of a model": ("plan", "two-goals-v1", "replicable-approximate-mdp-v2", *PROMISE),
    "plan of R-max": ("plan", "riverswim-v1", "replicable-rmax-v2", *PROMISE, "--horizon", "20"),
    "plan of rules": ("plan", *SOLVED),
    "publish": ("publish", *SMALL, "--sample-seed", "1"),
    "softmax": ("solve", *SMALL, "--rule", "softmax", "--shared-seed", "1", "--sample-seed", "1"),
    "audit": (*AUDIT, "--sampler", "counts-v1"),
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


@pytest.mark.parametrize("columns", ["0", "1", "-5", "wide", "9" * 400])
def test_odd_numbers_of_columns(columns: str, shown: OnTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "1.003e+11" in shown.good(*NARROW["plan of rPVI"])


def test_a_number_that_is_cut_is_noticed() -> None:
    assert numbers("calls 1.003e+11 and 0.9") == {"1.003e+11", "0.9"}
    assert not numbers("calls 1.003e+\n11") <= numbers("calls 1.003e+11")
    assert not numbers("0.00\n5") <= numbers("0.005")


# --- start -------------------------------------------------------------------------------------

HEAVY: tuple[str, ...] = (
    "dask",
    "duckdb",
    "gymnasium",
    "ibis",
    "jinja2",
    "joblib",
    "marimo",
    "matplotlib",
    "numba",
    "pandas",
)
HEAVY += ("pyarrow", "ray", "rich", "scipy", "stable_baselines3", "torch")


@pytest.mark.parametrize(
    ("code", "completing"),
    [
        ("import replicable_rl", ""),
        ("from replicable_rl.cli import main; main(['--help'])", ""),
        ("from replicable_rl.cli import main; main(['audit', '--help'])", ""),
        ("from replicable_rl.cli import main; main([])", "complete_bash"),
    ],
    ids=["import", "--help", "audit --help", "the Tab key"],
)
def test_nothing_heavy_is_loaded_at_the_start(code: str, completing: str) -> None:
    """What takes the time is what is imported; the benchmarks measure the time."""
    counted = f"import sys; {code}; sys.stderr.write(str(sorted(set({HEAVY}) & set(sys.modules))))"
    env = environment(COMP_WORDS="replicable-rl solve ", COMP_CWORD="2")
    env |= {COMPLETING: completing} if completing else {}
    done = subprocess.run([sys.executable, "-c", counted], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "[]")
