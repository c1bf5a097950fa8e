"""The command: what it prints, where it prints it, and one line with exit code 2 for every bad input."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

import replicable_rl as rr
from replicable_rl import theory
from replicable_rl.cli import app
from replicable_rl.cli.options import OF_ALGORITHMS, OPTIONS
from replicable_rl.problem import gridworld
from replicable_rl.problem.table import Labels
from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.rules import SHIPPED
from replicable_rl.runs import LEVELS
from tests.commands import COMMAND, Result, Run, environment, one_line, piped, read_all, run_here, terminal

QUICK = "phased-vi-v1:epsilon=0.2,delta=0.05,calls=100,iterations=3"
SEEDS = ("--shared-seed", "1", "--sample-seed", "2")
PROMISE = ("--epsilon", "0.1", "--delta", "0.001", "--rho", "0.2")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


# --- solve, plan, publish, list ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("two-goals-v1", lambda: rr.make("two-goals-v1")),
        ("chain-v1:n_states=7,slip=0.1", lambda: rr.make("chain-v1", n_states=7, slip=0.1)),
        ("gridworld-v1:layout=S.G/.#./..G", lambda: gridworld(["S.G", ".#.", "..G"])),
        ("FrozenLake-v1:gamma=0.9,map_name=8x8", lambda: rr.from_gymnasium("FrozenLake-v1", gamma=0.9, map_name="8x8")),
        ("saved.npz", lambda: rr.make("garnet-v1", n_states=9)),
    ],
)
def test_solve_is_rr_solve(run: Run, text: str, problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rr.save(rr.make("garnet-v1", n_states=9), "saved.npz")
    algorithm = rr.ReplicablePhasedVI(0.2, 0.001, 0.2, calls=10**16, iterations=5)
    expected = rr.solve(problem(), algorithm, shared_seed=2**64 - 1, sample_seed=7)
    words = ("rpvi-v1:iterations=5", "--epsilon", 0.2, "--delta", 0.001, "--rho", 0.2, "--calls", "1e16")
    seeds = ("--shared-seed", 2**64 - 1, "--sample-seed", 7)
    record = json.loads(run.good("solve", text, *words, *seeds, "--json", "--save", "run.npz"))
    assert record["fingerprints"] == dict(expected.fingerprints)
    assert record["outputs"] == {"policy": expected.policy.tolist(), "value": expected.q.tolist()}
    assert record["claims"] == expected.claims.to_json()
    assert record["samples"] == str(expected.samples)
    assert rr.load("run.npz").fingerprints == expected.fingerprints
    shown = run.good("solve", text, "rpvi-v1:epsilon=0.2,delta=0.001,rho=0.2,calls=1e16,iterations=5", *seeds)
    assert expected.fingerprints["policy"] in shown
    assert f"shared seed {2**64 - 1}, sample seed 7\n" in shown


def test_every_option_reaches_the_algorithm(run: Run) -> None:
    options = ("--target", "value", "--calls", "13_000")
    record = json.loads(run.good("solve", "chain-v1", "rpvi-v1:rho_sq=0.3", *PROMISE, *options, *SEEDS, "--json"))
    params = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "target": "value", "calls": 13_000, "rho_sq": 0.3}
    assert record["spec"]["algorithm"]["params"] == params
    assert record["spec"]["shared_seed"] == "1"
    fields = {name for kind in ALGORITHMS.values() for name in getattr(kind, "__dataclass_fields__", ())}
    assert set(OF_ALGORITHMS) <= fields, "an option is a field"


@pytest.mark.parametrize(
    ("problem", "words", "makes"),
    [
        ("chain-v1", ("approximate-mdp-v1", *PROMISE[:4]), rr.ApproximateMDP(0.1, 0.001)),
        ("two-goals-v1", ("rmax-v1", *PROMISE[:4], "--horizon", "60"), rr.RMax(0.1, 0.001, 60)),
        (
            "chain-v1",
            ("plug-in-policy-v1", *PROMISE, "--samples", "1e3"),
            rr.PlugInPolicy(0.1, 0.001, 0.2, samples=1000),
        ),
        (
            "two-goals-v1",
            ("plug-in-policy-v1:samples=9", *PROMISE, "--rule", "tolerance:tolerance=0.02"),
            rr.PlugInPolicy(0.1, 0.001, 0.2, samples=9, rule=rr.rules.RandomTolerance(0.02)),
        ),
    ],
)  # fmt: skip
def test_algorithms(run: Run, problem: str, words: tuple[str, ...], makes: Any) -> None:
    expected = rr.solve(rr.make(problem), makes, shared_seed=1, sample_seed=2)
    assert expected.fingerprints["policy"] in run.good("solve", problem, *words, *SEEDS)
    planned = json.loads(run.good("plan", problem, *words, "--json"))
    assert planned["samples"] == rr.plan(rr.make(problem), makes).samples


def test_the_policy_is_shown_as_a_map_or_by_names(run: Run) -> None:
    expected = rr.solve(
        rr.make("chain-v1"), rr.PhasedVI(0.2, 0.05, calls=100, iterations=3), shared_seed=1, sample_seed=2
    )
    out = run.good("solve", "chain-v1", QUICK, *SEEDS)
    for s, action in enumerate(expected.policy):
        assert re.search(rf"^ *{s} +{('forward', 'back')[action]}$", out, re.MULTILINE)
    assert re.search(r"^accuracy +nothing is proved: calls=100 where the proof", out, re.MULTILINE)
    assert re.search(r"^samples +3000$", out, re.MULTILINE)
    assert run.good("solve", "two-goals-v1", QUICK, *SEEDS).count("┼") == 4


def test_names_never_command_the_terminal(run: Run, tmp_path: Path) -> None:
    states = ("[/x]", "\x1b[31mred", ":smile:", "größe", "a" * 100, "plain", "[link=x]y[/link]", "\u202elast")
    two_goals, labels = rr.make("two-goals-v1"), Labels(states, ("[bold]", "b", "c", "\x07d"))
    rr.save(rr.TabularMDP(two_goals.rows, n_actions=4, gamma=two_goals.gamma, labels=labels), tmp_path / "named.npz")
    out = run.good("solve", tmp_path / "named.npz", QUICK, *SEEDS)
    for name in ("[/x]", r"\x1b[31mred", ":smile:", "größe", "plain", "[link=x]y[/link]", r"\u202elast"):
        assert name in out
    assert not set(out) & set("\x1b\x07\u202e")
    ascii_only = piped("solve", tmp_path / "named.npz", QUICK, *SEEDS, PYTHONIOENCODING="ascii")
    assert (ascii_only.code, ascii_only.err) == (0, "")
    assert r"gr\xf6\xdfe" in ascii_only.out


def test_plan_json_is_exact(run: Run) -> None:
    words = ("plan", "two-goals-v1", "rpvi-v1", *PROMISE, "--target", "value", "--json")
    record, plan = json.loads(run.good(*words)), theory.phased_vi(32, 0.9, 0.1, 0.001, 0.2, target="value")
    assert [record[name] for name in ("calls", "samples")] == [plan.calls, plan.samples]
    assert [record[name] for name in ("iterations", "tolerance")] == [plan.iterations, plan.tolerance]
    assert json.loads(run.good(*words, "--calls", 2**70))["calls"] == {"integer": str(2**70)}
    shown = run.good(*words[:-1])
    assert re.search(rf"^iterations +{plan.iterations}$", shown, re.MULTILINE)
    assert re.search(r"^replicability +proved", shown, re.MULTILINE)


def test_published_cuts_are_followed(run: Run, tmp_path: Path) -> None:
    words = ("two-goals-v1", "plug-in-policy-v1", "--epsilon", 0.05, "--delta", 0.01, "--rho", 0.2, "--samples", 1000)
    shown = run.good("publish", *words, "--sample-seed", 1, "-o", tmp_path / "cuts.npz")
    cuts = rr.load(tmp_path / "cuts.npz")
    assert repr(cuts).split("(")[0] in shown
    followed = json.loads(run.good("solve", *words, *SEEDS, "--rule", tmp_path / "cuts.npz", "--json"))
    assert followed["outputs"]["policy"] == cuts.policy.tolist()
    assert "--output" in run.refused("publish", *words, "-o", tmp_path / "cuts.json")


def test_list(run: Run) -> None:
    rr.register("mine-v1", lambda size: rr.make("chain-v1", n_states=size))
    shown = run.good("list")
    assert all(id in shown for id in ["mine-v1", *PROBLEMS, *ALGORITHMS, *SHIPPED, *LEVELS])


# --- --plugin ----------------------------------------------------------------------------------

MINE = """
import dataclasses, sys
import numpy as np
import replicable_rl as rr

rr.register("needs-luck-v1", lambda: 1 / 0)
rr.register(rr.Level("weights", implies=("policy",)))

@rr.register
@dataclasses.dataclass(frozen=True)
class Odd(rr.Algorithm):
    quits: bool = False
    id = "odd-v1"

    def plan(self, source):
        return sys.exit(0) if self.quits else None

    def solve(self, source, shared, rng):
        self.plan(source)
        return rr.Run.of({"weights": np.array([1.0, np.inf])}, samples=1, history={"loss": [np.nan, 0.5]})
"""


def in_folder(folder: Path, *words: str) -> Result:
    (folder / "mine.py").write_text(MINE)
    (folder / "broken.py").write_text("raise RuntimeError('it\\nbroke.')")
    return run_here(list(words), folder)


def test_a_plugin_may_be_in_this_folder(tmp_path: Path) -> None:
    listed = in_folder(tmp_path, "--plugin", "mine", "list")
    assert (listed.code, listed.err) == (0, "")
    assert {"needs-luck-v1", "odd-v1", "weights"} <= set(listed.out.split())
    shown = in_folder(tmp_path, "--plugin", "mine", "solve", "chain-v1", "odd-v1", *SEEDS)
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"^weights +[0-9a-f]{64}", shown.out, re.MULTILINE)
    printed = in_folder(tmp_path, "--plugin", "mine", "solve", "chain-v1", "odd-v1", *SEEDS, "--json")
    record = json.loads(printed.out, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert record["outputs"] == {"weights": [1.0, "inf"]}
    for module in ("nowhere", "broken"):
        refusal = one_line(in_folder(tmp_path, "--plugin", module, "list"))
        assert refusal.startswith(f"--plugin {module}: cannot be imported (")


@pytest.mark.parametrize("words", ["solve chain-v1 {} --shared-seed 1", "plan chain-v1 {}", "audit chain-v1 {}"])
def test_code_that_ends_the_program_meets_nothing(words: str, tmp_path: Path) -> None:
    result = in_folder(tmp_path, "--plugin", "mine", *words.format("odd-v1:quits=true").split())
    assert "SystemExit" in one_line(result)


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("solve two-goal-v1 {Q} {S}", "'two-goal-v1'.*'two-goals-v1'"),
        ("solve garnet-v1:n_state=3 {Q} {S}", "'n_state'.*'n_states'"),
        ("solve gridworld-v1 {Q} {S}", "'layout'"),
        ("solve chain-v1:slip=0,slip=1 {Q} {S}", "slip=1"),
        ("solve chain-v1:gamma=nan {Q} {S}", "gamma.*nan"),
        ("solve CartPole-v1 {Q} {S}", "observation_space"),
        ("solve nowhere.npz {Q} {S}", "nowhere.npz: no such file"),
        ("solve chain-v1 rpvi {S}", "'rpvi-v1'"),
        ("solve chain-v1 rpvi-v1:epsilon=0.1,delta=0.01 {S}", "'rho'"),
        ("solve chain-v1 {Q} --calls 5 {S}", "calls.*--calls"),
        ("solve chain-v1 phased-vi-v1 --delta 0.1 --epsilon nan {S}", "epsilon.*nan"),
        ("plan chain-v1 phased-vi-v1 --delta 0.1 --epsilon 0.1 --calls 1.5", "'--calls'.*1.5"),
        ("plan chain-v1 phased-vi-v1 --delta 0.1 --epsilon 0.1 --calls 0", "calls.*got 0"),
        ("plan chain-v1 rmax-v1:horizon=5,epsilon=0.1,delta=0.1 --calls 5", "'calls'"),
        ("solve chain-v1 {Q} --sample-seed 1", "--shared-seed"),
        ("solve chain-v1 {Q} --shared-seed -1", "--shared-seed.*-1"),
        ("solve chain-v1 {Q} --shared-seed 1 --sample-seed 18446744073709551616", "--sample-seed"),
        ("solve chain-v1 {Q} {S} --gamma 0.9", "--gamma.*'chain-v1'"),
        ("solv chain-v1", "'solv'.*replicable-rl --help"),
        ("solve chain-v1 {Q} --colour red", "--colour.*solve --help"),
        ("plan chain-v1 rpvi-v1 --delta", "'--delta'"),
        ("", "--help"),
        ("--quiet", "--help"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(run: Run, words: str, names: str) -> None:
    refusal = run.refused(*words.format(Q=QUICK, S=" ".join(SEEDS)).split())
    assert re.search(names, refusal), refusal


@pytest.mark.parametrize("place", ["full", "file/run"])
def test_save_is_refused_before_the_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(sys.modules["replicable_rl.cli.commands"], "solve", lambda *_, **__: pytest.fail("too late"))
    (tmp_path / "full").mkdir()
    (tmp_path / "file").write_text("mine")
    assert place in run.refused("solve", "chain-v1", QUICK, *SEEDS, "--save", tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]


@pytest.mark.parametrize(("error", "code"), [(MemoryError, 2), (ZeroDivisionError, 70), (KeyboardInterrupt, 130)])
def test_bugs_are_not_called_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch, error: Any, code: int) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(sys.modules["replicable_rl.cli.commands"], "problem_or_log", broken)
    result = run("solve", "chain-v1", QUICK, *SEEDS)
    assert (result.code, result.out) == (code, "")
    assert ("Traceback" in result.err) == (code == 70)


# --- help, quiet, completion -------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is(name: str, run: Run) -> None:
    assert name in run.good("--help")
    assert max(map(len, run.good(name, "--help").splitlines())) <= 80
    for param in (each for each in COMMANDS[name].params if not each.hidden):
        assert param.help, param.name


def test_no_option_of_the_table_is_unused() -> None:
    assert {param.name for command in COMMANDS.values() for param in command.params} >= set(OPTIONS)


def test_tab(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer's own completion gets through: what it prints, and the code that fish goes by."""
    monkeypatch.setenv("_REPLICABLE_RL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "replicable-rl plan chain-v1 rpvi-v1 --ta")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert run.good().split() == ["--target"]
    monkeypatch.setenv("_REPLICABLE_RL_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "replicable-rl diagnose x")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
    assert run().code == 1


def test_quiet_leaves_errors_and_the_result(run: Run, tmp_path: Path) -> None:
    words = (
        "publish",
        "two-goals-v1",
        "plug-in-policy-v1:samples=100",
        *PROMISE,
        "--sample-seed",
        1,
        "-o",
        tmp_path / "cuts.npz",
    )
    assert run.good(*words).startswith(run.good("-q", *words))
    assert "--rule" in run.good(*words)
    assert "--rule" not in run.good("-q", *words)
    assert run.refused("-q", "solve", "nowhere.npz", QUICK, *SEEDS)


# --- pipes and terminals -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("plan", "two-goals-v1", "rpvi-v1:epsilon=1e-9,delta=1e-12,rho=1e-6"),
        ("plan", "riverswim-v1", "replicable-rmax-v1", *PROMISE, "--horizon", "20"),
        ("solve", "gridworld-v1:layout=" + "/".join(["S" + "." * 40 + "G"] * 2), QUICK, *SEEDS),
        ("solve", "two-goals-v1", QUICK, "--shared-seed", str(2**64 - 1), "--sample-seed", str(2**64 - 1)),
    ],
)
@pytest.mark.parametrize("columns", [None, 60])
def test_no_line_is_too_long(
    run: Run, words: tuple[str, ...], columns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if columns is None:
        monkeypatch.setenv("COLUMNS", "200")  # which is not asked where output is piped
        out = run.good(*words)
    else:
        with terminal(columns) as (ours, theirs):
            process = subprocess.Popen([COMMAND, *words], env=environment(), stdin=theirs, stdout=theirs)
            os.close(theirs)
            out = read_all(ours)
            assert process.wait(timeout=60) == 0
    hashed = re.compile("[0-9a-f]{64}|layout=")  # words that are not broken
    assert max(len(line) for line in out.splitlines() if not hashed.search(line)) <= (columns or 80)
    assert "…" not in out


def test_same_command_same_output_in_every_process(run: Run) -> None:
    command = ("solve", "two-goals-v1", "rpvi-v1", *PROMISE, *SEEDS)
    one, two = piped(*command), piped(*command, PYTHONHASHSEED="7", COLUMNS="200")
    assert one == two == Result(0, run.good(*command), "")


@pytest.mark.parametrize("words", [("list",), ("plan", "two-goals-v1", "rpvi-v1", *PROMISE, "--json")])
def test_a_reader_that_has_left(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert piped(*words, stdout=writing) == Result(0, "", "")
    finally:
        os.close(writing)


def test_a_reader_who_leaves_does_not_change_the_exit_code() -> None:
    command = shlex.join([COMMAND, "audit", "two-goals-v1", QUICK, "--shared-seeds", "10", "--require", "0.9"])
    ended = subprocess.run(["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"], timeout=60)
    assert ended.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_full_disk() -> None:
    with Path("/dev/full").open("w") as full:
        assert "No space left on device" in one_line(piped("list", stdout=full))


@pytest.mark.parametrize("on_terminal", [False, True])
def test_interrupted(tmp_path: Path, on_terminal: bool) -> None:
    """Exit 130 and one line; nothing is saved, and the progress bar of a terminal goes."""
    endless = ("solve", "garnet-v1:n_states=20000", "phased-vi-v1:iterations=100000,calls=1000", *PROMISE[:4], *SEEDS)
    with terminal() as (ours, theirs):
        process = subprocess.Popen(
            [COMMAND, *endless, "--save", tmp_path / "run.npz"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=theirs if on_terminal else subprocess.PIPE,
            text=True,
        )
        os.close(theirs)
        try:
            shown = b""
            while on_terminal and b"/100000" not in shown:
                shown += os.read(ours, 65536)
            time.sleep(0.5 if on_terminal else 5.0)
            process.send_signal(signal.SIGINT)
            after = read_all(ours) if on_terminal else ""
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, out) == (130, "")
    assert "replicable-rl: interrupted" in (after or err)
    assert "Traceback" not in (after or err)
    assert list(tmp_path.iterdir()) == []


HEAVY = ("dask", "duckdb", "gymnasium", "ibis", "joblib", "matplotlib", "numba", "pandas", "pyarrow", "rich", "scipy")


@pytest.mark.parametrize("code", ["import replicable_rl", "from replicable_rl.cli import main; main(['--version'])"])
def test_nothing_heavy_is_loaded_at_the_start(code: str) -> None:
    """What takes the time is what is imported; the benchmarks measure the time. Typer before 0.19 imports rich."""
    before = "import sys, typer; before = set(sys.modules)"
    counted = f"{before}; {code}; sys.stderr.write(str(sorted(set({HEAVY}) & set(sys.modules) - before)))"
    done = subprocess.run(
        [sys.executable, "-c", counted], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "[]")
