"""The command: what it prints, where it draws, and one line with exit code 2 for every bad input."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl import theory
from replicable_rl.cli import main
from replicable_rl.problem import Labels, gridworld
from replicable_rl.registry import PROBLEMS
from tests.commands import Result, run_here

COMMAND = str(Path(sys.executable).parent / "replicable-rl")
QUICK = "phased-vi-v1:epsilon=0.2,delta=0.05,calls=100,iterations=3"
SEEDS = ("--shared-seed", "1", "--sample-seed", "2")
PROMISE = ("--epsilon", "0.1", "--delta", "0.001", "--rho", "0.2")
LATEST_TAXI = max(id for id in gymnasium.registry if id.startswith("Taxi-"))


class Run:
    """Calls the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Result:
        self.capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = self.capsys.readouterr()
        return Result(code, printed.out, printed.err)

    def good(self, *arguments: object) -> str:
        result = self(*arguments)
        assert (result.code, result.err) == (0, "")
        return result.out

    def refused(self, *arguments: object) -> str:
        """Return the one line of a refusal, without the command's name."""
        return one_line(self(*arguments))


def one_line(result: Result) -> str:
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.endswith("\n")
    assert len(result.err.splitlines()) == 1, result.err
    assert result.err.startswith("replicable-rl: ")
    assert "Traceback" not in result.err
    return result.err.removeprefix("replicable-rl: ").rstrip("\n")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def environment(**changes: str) -> dict[str, str]:
    """The environment of a plain terminal, whatever runs these tests."""
    colours = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if name not in colours}
    return {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **changes}


def piped(*arguments: object, stdout: Any = subprocess.PIPE, **env: str) -> Result:
    """Run the real command with its output piped."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=60,
    )
    return Result(done.returncode, done.stdout or "", done.stderr)


@contextlib.contextmanager
def terminal(columns: int = 80) -> Iterator[tuple[int, int]]:
    """Yield the two ends of a pseudo-terminal: ours, and the command's."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        with contextlib.suppress(OSError):  # closed already where the command had it alone
            os.close(theirs)


def read_all(descriptor: int) -> str:
    content = b""
    with contextlib.suppress(OSError):  # Linux reports a terminal without a user as an error
        while piece := os.read(descriptor, 65536):
            content += piece
    return content.decode("utf-8")


def on_terminal(*arguments: object, columns: int = 80, **env: str) -> str:
    """Run the real command on a terminal and return what it shows, without colours."""
    with terminal(columns) as (ours, theirs):
        process = subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            env=environment(**env),
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        os.close(theirs)
        shown = read_all(ours)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    return plain(shown)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r\n", "\n")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- solve -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("two-goals-v1", lambda: rr.make("two-goals-v1")),
        ("chain-v1:n_states=7,slip=0.1", lambda: rr.make("chain-v1", n_states=7, slip=0.1)),
        ("gridworld-v1:layout=S.G/.#./..G", lambda: gridworld(["S.G", ".#.", "..G"])),
        ("FrozenLake-v1", lambda: rr.from_gymnasium("FrozenLake-v1")),
        ("FrozenLake-v1:gamma=0.9,map_name=8x8", lambda: rr.from_gymnasium("FrozenLake-v1", gamma=0.9, map_name="8x8")),
        ("saved.npz", lambda: rr.make("garnet-v1", n_states=9)),
    ],
)
def test_solve_is_rr_solve(run: Run, text: str, problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rr.save(rr.make("garnet-v1", n_states=9), "saved.npz")
    algorithm = rr.ReplicablePhasedVI(0.2, 0.001, 0.2, calls=10**16, iterations=5)
    expected = rr.solve(problem(), algorithm, shared_seed=2**64 - 1, sample_seed=7)
    options = ("--epsilon", 0.2, "--delta", 0.001, "--rho", 0.2, "--calls", "1e16", "--iterations", 5)
    seeds = ("--shared-seed", 2**64 - 1, "--sample-seed", 7)
    record = json.loads(run.good("solve", text, "rpvi-v1", *options, *seeds, "--json"))
    assert record["fingerprints"] == json.loads(json.dumps(expected.to_json()["fingerprints"]))
    assert record["outputs"] == {"policy": expected.policy.tolist(), "value": expected.q.tolist()}
    assert record["claims"] == expected.claims.to_json()
    assert record["made_with"] == dict(expected.made_with)
    assert record["samples"] == str(expected.samples)
    by_id = text.partition(":")[0] in (*PROBLEMS, "FrozenLake-v1")
    assert record["spec"]["problem"]["id"].endswith(text.partition(":")[0] if by_id else "mdp")
    shown = run.good("solve", text, "rpvi-v1:epsilon=0.2,delta=0.001,rho=0.2,calls=1e16,iterations=5", *seeds)
    assert expected.fingerprints["policy"] in shown
    assert expected.fingerprints["value"] in shown
    assert f"shared seed {2**64 - 1}, sample seed 7\n" in shown


def test_every_option_reaches_the_algorithm(run: Run) -> None:
    options = ("--target", "value", "--calls", "13_000", "--iterations", "4", "--tolerance", "0.02", "--rho-sq", "0.3")
    record = json.loads(run.good("solve", "chain-v1", "rpvi-v1", *PROMISE, *options, *SEEDS, "--json"))
    params = {"target": "value", "calls": 13_000, "iterations": 4, "tolerance": 0.02, "rho_sq": 0.3}
    assert record["spec"]["algorithm"]["params"] == {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, **params}
    assert record["spec"]["shared_seed"] == "1"
    assert record["spec"]["sample"] == {"kind": "drawn", "sampler": "counts-v1", "seed": "2"}


def test_table_of_states(run: Run) -> None:
    expected = rr.solve(
        rr.make("chain-v1"), rr.PhasedVI(0.2, 0.05, calls=100, iterations=3), shared_seed=1, sample_seed=2
    )
    out = run.good("solve", "chain-v1", QUICK, *SEEDS)
    for s in range(5):
        action = ("forward", "back")[expected.policy[s]]
        numbers = [expected.value[s], *expected.q[s]]
        assert re.search(rf"^ s{s} +{action} +{' +'.join(f'{x:.4f}' for x in numbers)} *$", out, re.MULTILINE)
    assert re.search(r"^status +budget spent: ran 3 of the \d+ iterations", out, re.MULTILINE)
    assert re.search(r"^accuracy +nothing is proved: calls=100 where the proof", out, re.MULTILINE)
    assert re.search(r"^replicability +nothing is proved: this algorithm promises nothing about a", out, re.MULTILINE)
    assert re.search(r"^samples +3000 *$", out, re.MULTILINE)


def test_names_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    """No markup, no emoji, and no cell that is cut off."""
    states = ("[/x]", "[red]a", ":smile:", "größe", "a" * 100, "plain", "[link=x]y[/link]", "last")
    path = tmp_path / "named.npz"
    two_goals, labels = rr.make("two-goals-v1"), Labels(states, ("[bold]", "b", "c", ":d:"))
    rr.save(rr.TabularMDP(two_goals.rows, n_actions=4, gamma=two_goals.gamma, labels=labels), path)
    out = run.good("solve", path, QUICK, *SEEDS)
    for name in (*states[:4], *states[5:], "[bold]"):
        assert f" {name} " in out
    assert sum(line.count("a") for line in out.splitlines() if re.match(r" a{10,}", line)) == 100
    assert "…" not in out


def test_sample_seed_left_out_is_fresh_and_printed(run: Run) -> None:
    command = ("solve", "two-goals-v1", QUICK, "--shared-seed", 3)
    outs = [run.good(*command) for _ in range(2)]
    seeds = [re.findall(r"shared seed 3, sample seed (\d+)\n", out) for out in outs]
    assert all(len(found) == 1 for found in seeds)
    assert seeds[0] != seeds[1]
    for out, (seed,) in zip(outs, seeds, strict=True):
        assert run.good(*command, "--sample-seed", seed) == out


# --- --save ------------------------------------------------------------------------------------


def test_save_writes_what_was_printed(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "run.npz"
    printed = json.loads(run.good("solve", "chain-v1", QUICK, *SEEDS, "--json", "--save", target))
    saved = rr.load(target)
    assert {level: output.tolist() for level, output in saved.outputs.items()} == printed.pop("outputs")
    assert saved.to_json() == printed


@pytest.mark.parametrize("kind", ["folder", "under a file", "a name too long"])
def test_save_is_refused_before_the_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def solve(*arguments: Any, **options: Any) -> rr.Run:
        raise AssertionError("the run came first")

    monkeypatch.setattr(sys.modules["replicable_rl.solve"], "solve", solve)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine too")
    target, message = {
        "folder": (tmp_path / "full", "cannot be written (Is a directory)."),
        "under a file": (tmp_path / "file/run", "cannot be written"),
        "a name too long": (tmp_path / ("x" * 400), "File name too long"),
    }[kind]
    refusal = run.refused("solve", "chain-v1", QUICK, *SEEDS, "--save", target)
    assert refusal.startswith(f"{target}: ")
    assert message in refusal
    assert files(tmp_path) == {"file": b"mine too", "full/notes.txt": b"mine"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_bad_input_saves_nothing(run: Run, tmp_path: Path) -> None:
    run.refused("solve", "chain-v1", QUICK, "--shared-seed", -1, "--save", tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# --- plan --------------------------------------------------------------------------------------


def test_plan_json_is_exact(run: Run) -> None:
    policy, value = json.loads(run.good("plan", "two-goals-v1", "rpvi-v1", *PROMISE, "--json"))
    assert (policy["target"], value["target"]) == ("policy", "value")
    for record in (policy, value):
        plan = theory.phased_vi(32, 0.9, 0.1, 0.001, 0.2, target=record["target"])
        for name in ("calls", "calls_needed", "samples"):
            assert record[name] == str(getattr(plan, name))
        for name in ("pairs", "iterations", "tolerance", "rho_sq", "delta_sq", "width", "error_proved", "rho_proved"):
            assert record[name] == getattr(plan, name)
        assert record["claims"]["missing"] == {}
        assert record["problem"] == {"id": "two-goals-v1", "params": {}}
    (only,) = json.loads(
        run.good("plan", "two-goals-v1", "rpvi-v1", *PROMISE, "--json", "--calls", 2**70, "--target", "value")
    )
    assert only["calls"] == str(2**70)


# --- list --------------------------------------------------------------------------------------


# --- --plugin ----------------------------------------------------------------------------------

MINE = """
import dataclasses
import numpy as np
import replicable_rl as rr

rr.register("needs-luck-v1", lambda: 1 / 0)
rr.register(rr.Level("weights", implies=("policy",)))

@rr.register
@dataclasses.dataclass(frozen=True)
class Odd(rr.Algorithm):
    id = "odd-v1"
    version = "1"

    def solve(self, source, shared, rng):
        return rr.Run.of({"weights": np.array([1.0, np.inf])}, samples=1, history={"loss": [np.nan, 0.5]})
"""


def in_folder(folder: Path, *arguments: object) -> Result:
    return run_here([str(argument) for argument in arguments], folder)


def test_a_plugin_may_be_in_this_folder(tmp_path: Path) -> None:
    """Its ids are listed and used; a problem that cannot be built, and a run without a policy, are no obstacle."""
    (tmp_path / "mine.py").write_text(MINE)
    listed = in_folder(tmp_path, "--plugin", "mine", "list")
    assert (listed.code, listed.err) == (0, "")
    assert re.search(r"^ needs-luck-v1 +- +- +- +", listed.out, re.MULTILINE)
    assert re.search(r"^ odd-v1 ", listed.out, re.MULTILINE)
    assert re.search(r"^ weights +policy", listed.out, re.MULTILINE)
    shown = in_folder(tmp_path, "--plugin", "mine", "solve", "chain-v1", "odd-v1", *SEEDS)
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"^accuracy +nothing is claimed\.", shown.out, re.MULTILINE)
    assert re.search(r"^weights +[0-9a-f]{64}", shown.out, re.MULTILINE)
    assert "policy" not in shown.out
    printed = in_folder(tmp_path, "--plugin", "mine", "solve", "chain-v1", "odd-v1", *SEEDS, "--json")
    record = json.loads(printed.out, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert record["outputs"] == {"weights": [1.0, "inf"]}
    assert record["history"] == {"loss": [None, 0.5]}
    assert "'odd-v1'" in one_line(in_folder(tmp_path, "solve", "chain-v1", "odd-v1", *SEEDS))


@pytest.mark.parametrize(
    ("module", "text", "message"),
    [
        ("nowhere", "", "ModuleNotFoundError: No module named 'nowhere'"),
        ("mine", "raise RuntimeError('it\\nbroke.')", "RuntimeError: it broke"),
    ],
)
def test_a_plugin_that_cannot_be_imported(tmp_path: Path, module: str, text: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    refusal = one_line(in_folder(tmp_path, "--plugin", module, "list"))
    assert refusal == f"--plugin {module}: cannot be imported ({message})."


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("two-goal-v1", "Did you mean 'two-goals-v1'?"),
        ("FrozenLak-v1", "Did you mean 'FrozenLake-v1'?"),
        ("garnet-v1:n_state=3", "there is no parameter 'n_state'. Did you mean 'n_states'?"),
        ("gridworld-v1", "parameter 'layout' is needed"),
        ("chain-v1:slip=0,slip=1", "each once, and separated by commas"),
        ("chain-v1:gamma=nan", "gamma must be a discount in [0, 1), got nan"),
        ("FrozenLake-v1:colour=red", "colour"),
        ("CartPole-v1", "discrete observation_space"),
        (f"garnet-v1:n_actions={'9' * 5000}", "n_actions must be an integer from 1 to"),
    ],
)
def test_bad_problems(run: Run, problem: str, message: str) -> None:
    assert message in run.refused("solve", problem, QUICK, *SEEDS)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("rpvi", "Did you mean 'rpvi-v1'?"),
        ("sarsa", "No problem or algorithm is called 'sarsa'"),
        ("rpvi-v1:epsilon=0.1,delta=0.01", "parameter 'rho' is needed"),
        (f"{QUICK} --calls 5", "calls is also given as --calls"),
        ("phased-vi-v1 --delta 0.1 --epsilon nan", "epsilon must lie strictly between 0 and 1"),
        ("phased-vi-v1 --delta 0.1 --epsilon 0.1 --calls 1.5", "--calls must be a whole number"),
        ("phased-vi-v1 --delta 0.1 --epsilon 0.1 --calls 0", "calls must be an integer from 1"),
        ("phased-vi-v1 --delta 0.1 --epsilon 0.1 --calls 1e99", "calls must be an integer from 1"),
    ],
)
@pytest.mark.parametrize("command", ["solve", "plan"])
def test_bad_algorithms(run: Run, command: str, algorithm: str, message: str) -> None:
    seeds = SEEDS if command == "solve" else ()
    assert message in run.refused(command, "chain-v1", *shlex.split(algorithm), *seeds)


def test_more_calls_than_can_be_counted(run: Run) -> None:
    assert "calls=1e+19" in run.refused("solve", "chain-v1", "rpvi-v1", *PROMISE, "--calls", "1e19", *SEEDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("solv chain-v1", r"No such command 'solv'\..* Try `replicable-rl --help`\.$"),
        (f"solve chain-v1 {QUICK} --colour red", r"No such option: --colour.* Try `replicable-rl solve --help`\.$"),
        ("plan chain-v1 rpvi-v1 --delta", r"Option '--delta' requires an argument\."),
    ],
)
def test_bad_usage(run: Run, arguments: str, message: str) -> None:
    assert re.match(message, run.refused(*arguments.split()))


@pytest.mark.parametrize(("option", "seed"), [("--shared-seed", -1), ("--sample-seed", 2**64)])
def test_seeds_out_of_range(run: Run, option: str, seed: int) -> None:
    seeds = {"--shared-seed": 1, "--sample-seed": 1, option: seed}
    name = option.removeprefix("--").replace("-", "_")
    refusal = run.refused("solve", "chain-v1", QUICK, *(word for pair in seeds.items() for word in pair))
    assert refusal == f"solve: {name} must be an integer from 0 to {2**64 - 1}, got {seed}."


def test_a_missing_shared_seed(run: Run) -> None:
    """The published seed is never made up."""
    assert run.refused("solve", "chain-v1", QUICK).startswith("Missing option '--shared-seed'")


def test_no_command(run: Run) -> None:
    assert run.refused() == run.refused("--quiet") == "Missing command. Try `replicable-rl --help`."


def test_memory_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(text: str) -> rr.TabularMDP:
        raise MemoryError

    monkeypatch.setattr(sys.modules["replicable_rl.cli.problems"], "resolve_problem", exhausted)
    assert run.refused("solve", "chain-v1", QUICK, *SEEDS) == "Not enough memory for a problem of this size."


def test_bugs_are_not_called_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> rr.TabularMDP:
        raise ZeroDivisionError

    monkeypatch.setattr(sys.modules["replicable_rl.cli.problems"], "resolve_problem", broken)
    result = run("solve", "chain-v1", QUICK, *SEEDS)
    assert result.code not in (0, 1, 2, 3)  # done, refuted, bad input, cannot tell
    assert "ZeroDivisionError" in result.err


NASTY = st.sampled_from(
    [*"01-=,:²…[", "-1", "1e999", "1e-999", "nan", "-inf", "true", "", "0.5", "\n", "\0", "S.G", "{}"]
)
KEYS = st.sampled_from(["n_states", "n_actions", "slip", "gamma", "layout", "seed", "id", "env", "self", "goals", "x"])
PARAMETERS = st.lists(st.tuples(KEYS, NASTY).map("=".join) | NASTY, max_size=3).map(",".join)
TEXTS = st.tuples(st.sampled_from([*PROBLEMS, "FrozenLake-v1", "mdp", "gymnasium/x", ""]), PARAMETERS).map(":".join)


@settings(max_examples=120, deadline=None)
@given(TEXTS | st.text(max_size=10))
def test_no_text_of_a_problem_is_a_traceback(text: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["plan", "--epsilon", "0.3", "--delta", "0.1", "--iterations", "2", "--", text, "phased-vi-v1"])
    if code == 0:
        assert err.getvalue() == ""
    else:
        one_line(Result(code, out.getvalue(), err.getvalue()))


def test_a_missing_file(run: Run, tmp_path: Path) -> None:
    for name in ("nowhere.npz", "no/where.npz"):
        assert run.refused("solve", tmp_path / name, QUICK, *SEEDS) == f"{tmp_path / name}: no such file."
    assert run.refused("plan", tmp_path / "nowhere", QUICK).startswith(
        f"No problem or algorithm is called '{tmp_path}/nowhere'."
    )


# --- the real command: pipes -------------------------------------------------------------------


def test_same_command_same_output_in_every_process(run: Run) -> None:
    command = ("solve", "two-goals-v1", "rpvi-v1", *PROMISE, *SEEDS)
    one, two = piped(*command), piped(*command, PYTHONHASHSEED="7", COLUMNS="200")
    assert one == two
    assert one == Result(0, run.good(*command), "")
    assert "\x1b" not in one.out
    assert "┌" not in one.out, "a table when piped"
    assert re.search(r"^ state +action +value +q up", one.out, re.MULTILINE)


LONG = "rpvi-v1:epsilon=0.123456789,delta=0.00123456789,rho=0.2123456789,calls=123456789,iterations=3,tolerance=0.01234"


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("plan", "two-goals-v1", "rpvi-v1:epsilon=1e-9,delta=1e-12,rho=1e-6"),
        ("solve", "gridworld-v1:layout=" + "/".join(["S" + "." * 40 + "G"] * 2), LONG, *SEEDS),
        ("solve", LATEST_TAXI, LONG, *SEEDS),
        (
            "solve",
            "two-goals-v1",
            "rpvi-v1",
            *PROMISE,
            "--shared-seed",
            str(2**64 - 1),
            "--sample-seed",
            str(2**64 - 1),
        ),
        ("reproduce", "figure1", "--quick", "--jobs", "1"),
    ],
    ids=lambda command: " ".join(command[:2])[:40],
)
def test_no_line_is_longer_than_80(
    run: Run, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    out = run.good(*command)
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_head_is_no_error() -> None:
    command = shlex.join([COMMAND, "plan", "two-goals-v1", "rpvi-v1", *PROMISE])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -1"],
        capture_output=True,
        env=environment(),
        text=True,
        timeout=60,
    )
    assert done.stdout == "two-goals-v1: S=8, A=4, gamma=0.9, N=32 pairs; rewards known\n"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [("list",), ("plan", "two-goals-v1", "rpvi-v1", *PROMISE, "--json")],
    ids=["written at once", "written at the end"],
)
def test_a_reader_that_has_left(command: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert piped(*command, stdout=writing) == Result(0, "", "")
    finally:
        os.close(writing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_full_disk() -> None:
    with Path("/dev/full").open("w") as full:
        result = piped("list", stdout=full)
    assert one_line(result) == "The output cannot be written (No space left on device)."


def test_names_that_the_output_cannot_show(tmp_path: Path) -> None:
    states = ("größe", *"bcdefgh")
    two_goals = rr.make("two-goals-v1")
    named = rr.TabularMDP(two_goals.rows, n_actions=4, gamma=two_goals.gamma, labels=Labels(states))
    rr.save(named, tmp_path / "named.npz")
    result = piped("solve", tmp_path / "named.npz", QUICK, *SEEDS, PYTHONIOENCODING="ascii")
    assert (result.code, result.err) == (0, "")
    assert r" gr\xf6\xdfe " in result.out


# --- the real command: a terminal --------------------------------------------------------------

ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}
PLAIN_ARROWS = {"up": "^", "down": "v", "left": "<", "right": ">"}


def drawn(mdp: rr.TabularMDP, policy: list[int], arrows: Mapping[str, str], wall: str, ends: str) -> list[list[str]]:
    """What the cells of the picture must be; ``ends`` are the letters of cells where nothing is decided."""
    names = mdp.labels.actions or ()
    states = iter(policy)
    return [
        [
            wall if letter == "#" else f" {letter if letter in ends else arrows[names[action]]} "
            for letter in line
            for action in [next(states) if letter != "#" else 0]
        ]
        for line in mdp.labels.layout or ()
    ]


@pytest.mark.parametrize(
    ("problem", "mdp", "ends"),
    [
        ("two-goals-wide-v1", lambda: rr.make("two-goals-wide-v1"), "G"),
        ("two-goals-v1", lambda: rr.make("two-goals-v1"), "G"),
    ],
)
def test_a_grid_is_drawn_on_a_terminal(problem: str, mdp: Any, ends: str) -> None:
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=10**9, iterations=60, tolerance=0.001)
    options = ("--calls", "1e9", "--iterations", "60", "--tolerance", "0.001")
    solved = rr.solve(mdp(), algorithm, shared_seed=1, sample_seed=2)
    shown = on_terminal("solve", problem, "rpvi-v1", *PROMISE, *options, *SEEDS)
    cells = [line.strip()[1:-1].split("│") for line in shown.splitlines() if line.strip().startswith("│")]
    expected = drawn(mdp(), solved.policy.tolist(), ARROWS, "███", ends)
    assert cells == expected
    assert len({cell for row in cells for cell in row if cell.strip() in ARROWS.values()}) >= 3, (
        "a picture with content"
    )
    columns = len(expected[0])
    assert f"  ┌{'┬'.join(['───'] * columns)}┐\n" in shown
    assert f"  └{'┴'.join(['───'] * columns)}┘\n" in shown
    assert shown.count("┼") == (columns - 1) * (len(expected) - 1)
    assert solved.fingerprints["policy"] in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert " q up" not in shown


def test_a_grid_is_drawn_without_unicode() -> None:
    mdp = rr.make("two-goals-v1")
    expected = rr.solve(mdp, rr.PhasedVI(0.1, 0.001, calls=1000, iterations=40), shared_seed=1, sample_seed=2)
    options = ("--epsilon", "0.1", "--delta", "0.001", "--calls", "1000", "--iterations", "40")
    shown = on_terminal("solve", "two-goals-v1", "phased-vi-v1", *options, *SEEDS, PYTHONIOENCODING="ascii")
    cells = [line.strip()[1:-1].split("|") for line in shown.splitlines() if line.strip().startswith("|")]
    assert cells == drawn(mdp, expected.policy.tolist(), PLAIN_ARROWS, "###", "G")
    assert shown.isascii()
    assert shown.count("  +---+---+---+\n") == 4


def test_a_grid_wider_than_the_terminal_is_a_table() -> None:
    shown = on_terminal("solve", f"gridworld-v1:layout=S{'.' * 18}G", QUICK, *SEEDS, columns=80)
    assert "┌" not in shown
    assert re.search(r"^ \(0,19\) +up ", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 80


# --- interrupted -------------------------------------------------------------------------------

ENDLESS = (
    *("solve", "garnet-v1:n_states=20000", "phased-vi-v1", "--epsilon", "0.1", "--delta", "0.1"),
    *("--calls", "1000", "--iterations", "100000", *SEEDS),
)
INTERRUPTED = "replicable-rl: interrupted; nothing was half-written.\n"


def test_interrupted_when_piped(tmp_path: Path) -> None:
    """Exit 130 and one line; nothing is saved, and no progress bar was shown."""
    code = (
        "import sys, pathlib; from replicable_rl import progress; from replicable_rl.cli import main\n"
        "progress._Latest.note = lambda *_: pathlib.Path(sys.argv[1]).touch()\n"
        "sys.exit(main(sys.argv[2:]))"
    )
    started, place = tmp_path / "started", tmp_path / "place"
    place.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", code, started, *ENDLESS, "--save", place / "run"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not started.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.7)  # long enough for a progress bar to appear where there is one
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (130, "", INTERRUPTED)
    assert list(place.iterdir()) == []


def test_interrupted_on_a_terminal(tmp_path: Path) -> None:
    """There a progress bar is shown on standard error; it goes, and the same line comes."""
    with terminal() as (ours, theirs):
        process = subprocess.Popen(
            [COMMAND, *ENDLESS, "--save", tmp_path / "run"],
            env=environment(),
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        try:
            shown = b""
            while b"/100000" not in shown:
                shown += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            shown_after = read_all(ours)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, out) == (130, b"")
    assert b"iterations" in shown
    assert plain(shown_after).endswith(INTERRUPTED)
    assert "Traceback" not in shown_after
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_one_line_for_programs_and_wrapped_for_people() -> None:
    arguments = ("solve", "two-goals-v1", "rpvi-v1", "--epsilon", "0.1", "--delta", "1e-31", "--rho", "0.2", *SEEDS)
    line = one_line(piped(*arguments))
    with terminal() as (ours, theirs):
        done = subprocess.run([COMMAND, *arguments], env=environment(), stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        lines = plain(read_all(ours)).splitlines()
    assert done.returncode == 2
    assert len(lines) > 1
    assert all(len(one) <= 80 for one in lines), lines
    assert " ".join(lines) == f"replicable-rl: {line}"
    assert line.endswith("got 1e-31. Raise delta.")
