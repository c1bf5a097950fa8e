"""Progress: a bar where a person looks, nothing elsewhere, and no trace of it afterwards."""

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
from typing import Any

import pytest

import replicable_rl as rr
from replicable_rl import progress
from replicable_rl.diagnose import calibrate
from replicable_rl.progress import announce, bar, listening, quiet, report, track, unheard, within

MDP = rr.make("chain-v1")
QUICK = rr.PhasedVI(0.25, 0.0625, calls=5, iterations=3)
PLUG_IN = rr.PlugInPolicy(0.25, 0.0625, 0.25, samples=5)
LOG = {"state": [0, 0, 1, 1] * 5, "action": [0, 1] * 10, "reward": [0.0, 1.0] * 10, "next_state": [1, 0] * 10}
VERBS: dict[str, Callable[[], Any]] = {
    "solve": lambda: rr.solve(MDP, QUICK, shared_seed=1, sample_seed=1),
    "audit": lambda: rr.audit(MDP, QUICK, shared_seeds=2),
    "audit_callable": lambda: rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=2),
    "calibrate": lambda: calibrate(MDP, PLUG_IN, start=4, most=8, shared_seeds=4),
    "compare": lambda: rr.compare(MDP, algorithms=[PLUG_IN], start=4, most=8, shared_seeds=4),
    "diagnose": lambda: rr.diagnose(rr.from_transitions(LOG, gamma=0.5, reward_range=(0.0, 1.0)), resamples=3),
}


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int, int]]]:
    """Let a person look: the last report of every bar, once it is closed."""
    last: list[tuple[str, int, int]] = []

    class Heard(progress._Bar):
        latest = ("", 0, 0)

        def hear(self, what: str, done: int, total: int) -> None:
            self.latest = what, done, total

        def close(self) -> None:
            last.append(self.latest)

    monkeypatch.setattr(progress, "_Bar", Heard)
    monkeypatch.setattr(progress, "_is_a_terminal", lambda: True)
    yield last
    assert progress._listener.get() is None


@pytest.mark.parametrize("name", VERBS)
def test_every_long_verb_shows_one_bar_and_tidies_up(name: str, bars: list[tuple[str, int, int]]) -> None:
    VERBS[name]()
    ((what, done, total),) = bars
    assert what
    assert done == total  # an announcement has neither


def test_another_thread_opens_no_second_bar(bars: list[tuple[str, int, int]]) -> None:
    @bar()
    def outer() -> None:
        thread = threading.Thread(target=VERBS["solve"])
        thread.start()
        thread.join()

    outer()
    assert len(bars) == 1
    VERBS["solve"]()  # and the next one is free again
    assert len(bars) == 2


def test_quiet_is_quiet(bars: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    with quiet():
        VERBS["audit"]()
        announce("nobody hears this")
    monkeypatch.setenv("REPLICABLE_RL_QUIET", "1")
    VERBS["audit"]()
    with bar():
        pass
    assert bars == []


def test_parts_say_of_what_they_are_a_part() -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *words: heard.append(words)), within("greedy"), within("samples=4"):
        report("runs", 1, 2)
        unheard().run(report, "iterations", 1, 2)
    assert heard == [("greedy, samples=4, runs", 1, 2)]


def test_track_reports_the_start_and_every_item() -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *words: heard.append(words)):
        assert list(track(iter("ab"), "items", total=2)) == ["a", "b"]
        announce("Compiling")
    assert heard == [("items", 0, 2), ("items", 1, 2), ("items", 2, 2), ("Compiling", 0, 0)]


def test_a_pipe_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    VERBS["audit"]()
    assert pipe.getvalue() == ""  # a minute has not passed
    monkeypatch.setattr(progress, "_MINUTE", 0.0)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    VERBS["audit"]()
    assert "runs 4/4" in pipe.getvalue().splitlines()[-1]
    assert "\x1b" not in pipe.getvalue()


@pytest.mark.parametrize("stream", ["closed", "none"])
def test_nothing_is_shown_where_nothing_can_be(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", {"closed": closed, "none": None}[stream])
    monkeypatch.setattr(progress, "_Bar", lambda: pytest.fail("nobody sees this"))
    VERBS["solve"]()


def test_a_notebook_gets_a_line_that_is_empty_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def note(data: dict[str, str], **_: bool) -> Any:
        seen.append(data["text/plain"])
        return types.SimpleNamespace(update=note)

    fake: Any = types.ModuleType("IPython.display")
    fake.display = note
    for name, module in {"IPython.display": fake, "ipykernel.kernelapp": fake}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with bar():
        for _ in track(range(2), "runs"):
            time.sleep(0.3)
    assert "runs 1/2" in " ".join(seen)
    assert seen[-1] == ""


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
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        start_new_session=True,
    )
    os.close(follower)
    written = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while chunk := os.read(leader, 4096):
            written += chunk
            if interrupt and b"/1000" in written:
                process.send_signal(signal.SIGINT)
                interrupt = False
    process.wait(timeout=60)
    os.close(leader)
    return written.decode(errors="replace")


def test_on_a_terminal_the_bar_vanishes_and_after_ctrl_c_too() -> None:
    whole = on_a_terminal(SCRIPT.format(seeds=12))
    assert "/24" in whole
    *_, after = whole.split("\x1b[?25h")  # the cursor is shown again, and the line is cleared
    assert after.rstrip().endswith("\x1b[2K12")
    broken = on_a_terminal(SCRIPT.format(seeds=500), interrupt=True)
    *_, after = broken.split("\x1b[?25h")
    assert after.rstrip().endswith("KeyboardInterrupt")
    assert "━" not in after


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    heavy = ["duckdb", "gymnasium", "matplotlib", "rich", "torch", "IPython", "pandas", "joblib"]
    code = f"import sys, replicable_rl as rr; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
