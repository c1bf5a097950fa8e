"""Bars: shown where a person looks, on a terminal and in a notebook, one at a time, gone afterwards, and cheap."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import compiled, progress
from replicable_rl.audit import run_audits
from replicable_rl.cli import progress as cli_progress
from replicable_rl.diagnose import calibrate
from replicable_rl.logs import Dataset
from replicable_rl.progress import announce, is_heard, listening, quiet, report, track, unheard, within

MDP = rr.make("chain-v1")
QUICK = rr.PhasedVI(0.25, 0.0625, calls=5, iterations=3)
PLUG_IN = rr.PlugInPolicy(0.25, 0.0625, 0.25, samples=5)
LOG = {"state": [0, 0, 1, 1] * 5, "action": [0, 1] * 10, "reward": [0.0, 1.0] * 10, "next_state": [1, 0] * 10}


def train(shared_seed: int, sample_seed: int) -> Any:
    return [sample_seed % 2]


def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.integers(2)), 0.5


VERBS: dict[str, Callable[[], Any]] = {
    "solve": lambda: rr.solve(MDP, QUICK, shared_seed=1, sample_seed=1),
    "audit": lambda: rr.audit(MDP, QUICK, shared_seeds=2),
    "audit, of logs": lambda: rr.audit(
        [_log(), _log([0.0, 0.5] * 10)], rr.PlugInPolicy(0.25, 0.1, 0.25), shared_seeds=2
    ),
    "audit_callable": lambda: rr.audit_callable(train, shared_seeds=2),
    "run_audits": lambda: list(run_audits([rr.audit(MDP, QUICK, shared_seeds=2).spec], rr.RunStore())),
    "calibrate": lambda: calibrate(MDP, PLUG_IN, start=4, most=8, shared_seeds=4),
    "compare": lambda: rr.compare(MDP, algorithms=[PLUG_IN], start=4, most=8, shared_seeds=4),
    "diagnose": lambda: rr.diagnose(_log(), resamples=3),
    "Diagnosis.rules": lambda: rr.diagnose(_log(), resamples=3).rules(),
}


def _log(reward: list[float] | None = None) -> Dataset:
    return rr.from_transitions(LOG if reward is None else LOG | {"reward": reward}, gamma=0.5, reward_range=(0.0, 1.0))


class View:
    """Somebody who looks: what was shown and said, and how often it was opened and closed."""

    opened: ClassVar[list[View]] = []

    def __init__(self) -> None:
        self.shown: list[tuple[str, int, int]] = []
        self.said: list[str] = []
        self.closed = 0
        View.opened.append(self)

    def show(self, pace: progress.Pace) -> None:
        self.shown.append((pace.what, pace.done, pace.total))

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[View]]:
    """Let somebody look, without patience."""
    View.opened = []
    monkeypatch.setattr(progress, "_view", View)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    yield View.opened
    assert all(view.closed == 1 for view in View.opened)


@pytest.mark.parametrize("name", VERBS)
def test_every_long_verb_shows_its_progress_and_tidies_up(name: str, views: list[View]) -> None:
    VERBS[name]()
    shown = [one for view in views for one in view.shown]
    assert shown
    assert shown[-1][1] == shown[-1][2]
    assert not is_heard()


def test_verbs_inside_verbs_open_no_second_bar(views: list[View]) -> None:
    VERBS["compare"]()
    assert len(views) == 1
    assert any(what == "plug-in-policy-v1, samples=4, runs" for what, _, _ in views[0].shown), views[0].shown[:3]


def test_training_code_that_solves_opens_no_second_bar(views: list[View]) -> None:
    rr.audit_callable(lambda shared, sample: rr.solve(MDP, QUICK, shared_seed=1).policy, shared_seeds=2)
    assert len(views) == 1
    assert {what for what, _, _ in views[0].shown} == {"runs"}


def test_another_thread_opens_no_second_bar(views: list[View]) -> None:
    @progress.bar_where_it_is_seen()
    def outer() -> None:
        thread = threading.Thread(target=VERBS["solve"])
        thread.start()
        thread.join()

    outer()
    assert len(views) == 1
    VERBS["solve"]()  # and the next one is free again
    assert len(views) == 2


def test_a_result_of_many_is_handed_out_without_a_bar(views: list[View]) -> None:
    spec = rr.audit(MDP, QUICK, shared_seeds=2).spec
    before = len(views)
    for _ in run_audits([spec, spec], rr.RunStore()):
        assert not is_heard()
    assert len(views) > before


def test_what_fails_leaves_no_bar(views: list[View]) -> None:
    def fails(shared_seed: int, sample_seed: int) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rr.audit_callable(fails, shared_seeds=2)
    assert not is_heard()
    VERBS["solve"]()
    assert len(views) == 2


def test_quiet_shows_and_says_nothing(views: list[View], monkeypatch: pytest.MonkeyPatch) -> None:
    with quiet():
        VERBS["audit"]()
        announce("nobody hears this")
    assert views == []
    assert not is_heard()


@pytest.mark.parametrize(("value", "silent"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_the_environment_may_ask_for_silence(value: str, silent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICABLE_RL_QUIET", value)
    monkeypatch.setattr(progress, "_in_a_notebook", lambda: True)
    assert (progress._view() is None) is silent


def test_the_environment_silences_the_command_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICABLE_RL_QUIET", "1")
    with cli_progress.progress_bar():
        assert not is_heard()
    monkeypatch.setenv("REPLICABLE_RL_QUIET", "0")
    with cli_progress.progress_bar():
        assert is_heard()


def test_compilation_announces_itself_where_the_bar_is(views: list[View]) -> None:
    announcer = compiled._Announcer()

    @progress.bar_where_it_is_seen()
    def work() -> None:
        announcer.on_start(None)
        announcer.on_start(None)

    work()
    assert views[0].said == ["Compiling, once on this machine: this takes some seconds."]


def test_the_bar_appears_while_the_first_item_takes_long(views: list[View], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.05)

    @progress.bar_where_it_is_seen()
    def work() -> list[tuple[str, int, int]]:
        for _ in track(range(1), "runs"):
            time.sleep(0.5)
            return list(views[0].shown)
        return []

    assert work() == [("runs", 0, 1)]


def test_short_work_shows_nothing(views: list[View], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 60.0)
    VERBS["audit"]()
    assert views[0].shown == []


def test_a_report_costs_nothing_to_speak_of() -> None:
    listener = progress._Listener(View())  # type: ignore[arg-type]  # it looks as well
    shows = 0
    with listening(listener.note):
        for _ in track(range(20_000), "items"):
            pass
    listener.close()
    shows = len(View.opened[-1].shown)
    assert shows < 200  # ten a second, however many items there are


def test_parts_say_of_what_they_are_a_part() -> None:
    heard: list[str] = []
    with listening(lambda what, done, total: heard.append(what)), within("greedy"), within("samples=4"):
        report("runs", 1, 2)
        unheard().run(report, "iterations", 1, 2)
    assert unheard().run(is_heard)  # so that a part, on a worker too, shows no bar of its own
    assert heard == ["greedy, samples=4, runs"]


# --- the pace ------------------------------------------------------------------------------------


def test_the_pace_counts_from_the_first_report(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pace = progress.Pace()
    pace.note("runs", 50, 100)
    assert (pace.rate, pace.left) == ("", "")
    now[0] += 10.0
    pace.note("runs", 60, 100)
    assert (pace.rate, pace.left) == ("1/s", "40 s left")
    now[0] += 15.0
    assert pace.left == "25 s left"
    now[0] += 100.0
    assert pace.left == "0 s left"
    pace.note("other", 0, 10)
    assert pace.left == ""


@pytest.mark.parametrize(("done", "text"), [(1, "6/min"), (20, "2/s"), (50_000, "5 k/s"), (10**8, "10 M/s")])
def test_rates_read_well(done: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pace = progress.Pace()
    pace.note("runs", 0, done)
    now[0] = 10.0
    pace.note("runs", done, done)
    assert pace.rate == text


# --- where it is seen ------------------------------------------------------------------------------


def test_nothing_is_shown_when_piped(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    VERBS["audit"]()
    assert capfd.readouterr() == ("", "")


def test_a_process_without_standard_error_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert progress._view() is None


class Handle:
    """What a notebook's `display` returns."""

    def __init__(self, seen: list[dict[str, str]]) -> None:
        self.seen = seen

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.seen.append(data)


def test_in_a_notebook_the_bar_is_a_line_that_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        seen.append(data)
        return Handle(seen)

    shell = types.SimpleNamespace(kernel=object())
    fake = types.ModuleType("IPython")
    fake.get_ipython = lambda: shell  # type: ignore[attr-defined]
    fake_display = types.ModuleType("IPython.display")
    fake_display.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake_display)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    with progress.bar_where_it_is_seen():
        announce("Compiling <b>once</b>")
        for _ in track(range(2), "<runs>"):
            pass
    assert seen[0]["text/plain"] == "Compiling <b>once</b>"
    assert "<b>" not in seen[0]["text/html"]
    assert any('<progress value="1" max="2">' in one["text/html"] for one in seen)
    assert all("<runs>" not in one["text/html"] for one in seen)
    assert seen[-1] == {"text/html": "", "text/plain": ""}
    shell.kernel = None  # IPython on a terminal
    assert progress._view() is None


SCRIPT = """
import time
import replicable_rl as rr
def train(shared_seed, sample_seed):
    time.sleep(0.06)
    return [sample_seed % 2]
print(rr.audit_callable(train, shared_seeds={seeds}).agreement("policy").pairs)
"""


def on_a_terminal(script: str, interrupt: bool = False) -> str:
    """Return what a script writes on a terminal of its own."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "60", "NO_COLOR": "1"},
        start_new_session=True,
    )
    os.close(follower)
    written = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while chunk := os.read(leader, 4096):
            written += chunk
            if interrupt and b"left" in written:
                process.send_signal(signal.SIGINT)
                interrupt = False
    process.wait(timeout=60)
    os.close(leader)
    return written.decode(errors="replace")


PRINTS = """
import time
import replicable_rl as rr
def train(shared_seed, sample_seed):
    time.sleep(0.15)
    print("trained")
    return [sample_seed % 2]
rr.audit_callable(train, shared_seeds=4)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no such terminals here")
def test_what_training_prints_goes_to_its_file_while_a_bar_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    seen = on_a_terminal(f"import sys; sys.stdout = open({str(log)!r}, 'w')\n{PRINTS}")
    assert " left" in seen
    assert "trained" not in seen
    assert log.read_text() == "trained\n" * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no such terminals here")
def test_on_a_terminal_the_bar_vanishes_and_after_ctrl_c_too() -> None:
    whole = on_a_terminal(SCRIPT.format(seeds=12))
    assert "runs" in whole
    assert "/24" in whole
    assert " left" in whole
    *_, after = whole.split("\x1b[?25h")  # the cursor is shown again, and the line is cleared
    assert after.rstrip().endswith("\x1b[2K12")
    broken = on_a_terminal(SCRIPT.format(seeds=500), interrupt=True)
    *_, after = broken.split("\x1b[?25h")
    assert after.rstrip().endswith("KeyboardInterrupt")
    assert "━" not in after


def test_nothing_heavy_is_imported_for_a_bar_that_nobody_sees() -> None:
    heavy = ["duckdb", "gymnasium", "matplotlib", "rich", "torch", "marimo", "IPython", "pandas"]
    code = f"import sys, replicable_rl as rr; rr.plot.policy; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_says_the_time_left_once_a_minute(a_minute: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from replicable_rl.cli import progress as of_commands

    monkeypatch.setattr(of_commands, "_MINUTE", a_minute)
    now, errors = [0.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", errors)
    with of_commands.progress_bar():
        for _ in track(range(4), "runs"):
            now[0] += 45.0
    assert errors.getvalue() == "2 of 4 runs, 1.33/min, 1 min 30 s left\n4 of 4 runs, 1.33/min, 0 s left\n"
    assert progress.is_heard() is False


@pytest.mark.parametrize("quiet", ["", "1"])
@pytest.mark.parametrize("stream", ["closed", "broken", "none", "bare"])
def test_no_bar_and_no_trouble_where_nobody_can_tell_a_terminal(
    quiet: str, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.StringIO):
        def isatty(self) -> bool:
            raise OSError("gone")

    closed = io.StringIO()
    closed.close()
    streams: dict[str, Any] = {"closed": closed, "broken": Broken(), "none": None, "bare": object()}
    monkeypatch.setenv("REPLICABLE_RL_QUIET", quiet)
    monkeypatch.setattr(sys, "stderr", streams[stream])
    assert rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1).samples
