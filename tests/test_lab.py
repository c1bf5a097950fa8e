"""The lab: what it computes, the commands it names, how it is served, and its page in a real browser."""

from __future__ import annotations

import http.cookiejar
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicable_rl.canonical import json_text
from replicable_rl.cli import main
from replicable_rl.errors import InvalidInput
from replicable_rl.lab import grids, server, setting
from replicable_rl.lab.measuring import (
    LOG_RULES,
    audited,
    compared,
    diagnosed,
    two_runs,
)
from replicable_rl.lab.setting import RULES, Setting, drawn_problem, picked_problem
from replicable_rl.lab.showing import (
    agreement_html,
    diagnosis_file,
    diagnosis_html,
    frontier_html,
    frontier_svg,
    tried,
    two_runs_html,
)
from replicable_rl.queries.rules import SHIPPED
from replicable_rl.records import ObjectSpec
from tests.test_report_browser import CHROMIUM, DRIVER, browser, find, log, requests, run

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

__all__ = ["browser"]  # a fixture
in_a_browser = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="there is no chromium here")
if importlib.util.find_spec("marimo") is None:  # what it loads takes long: not before it is needed
    pytest.skip("marimo is not installed: pip install marimo", allow_module_level=True)
_ROWS = ("0,0,0,1", "0,1,1,0", "1,0,0,0", "1,1,1,1") * 20
LOG = "\n".join(
    ["episode,step,state,action,reward,next_state", *(f"0,{i},{row}" for i, row in enumerate(_ROWS))]
).encode()
TWO_GOALS = ObjectSpec("two-goals-v1")
DRAWN = drawn_problem("G.G\n.#.\n.S.", 0.3, 0.9)


# --- what it computes ---------------------------------------------------------------------------


def ran(command: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Run the commands that stand under a picture, as JSON, and return what they print."""
    printed = []
    for one in command.split(" &&\n"):
        program, *words = shlex.split(one)
        assert program == "replicable-rl"
        assert main([*words, "--json"]) in (0, 1, 2)
        told = capsys.readouterr()
        assert told.err == ""
        printed.append(json.loads(told.out))
    return printed


def same_run(told: dict[str, Any]) -> Any:
    """Return the identity of a run and what came out: all that the clock does not say."""
    return json.loads(json_text({name: told[name] for name in ("spec", "fingerprints", "samples")}))


@pytest.mark.parametrize("rule", RULES)
def test_the_commands_under_the_pictures_make_them_again(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = Setting(DRAWN, rule, 150, epsilon=0.1, rho=0.3)
    found = two_runs(asked, 7, (1, 2))
    *_, one, two = ran(found.command, capsys)
    for told, run_ in zip((one, two), found.runs, strict=True):
        assert same_run(told) == same_run(run_.to_json())
    html = two_runs_html(found)
    assert all(run.fingerprints[found.level][:16] in html for run in found.runs)
    measured = audited(asked, 10)
    assert ran(measured.command, capsys)[-1] == json.loads(json_text(measured.result.to_json()))
    agreement = measured.result.agreement(measured.level)
    assert f"{agreement.estimate:.3f} <span>({agreement.every_look.low:.3f}" in agreement_html(measured)


def test_the_frontier_is_the_figure_that_its_command_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("replicable_rl.lab.measuring.SIZES", (64, 64))
    found = compared(Setting(TWO_GOALS), 20, ("affordable", "softmax"))
    (told,) = ran(found.command, capsys)
    assert told == found.found.to_json()
    assert Path("frontier.svg").read_bytes() == frontier_svg(found)
    assert "affordable" in frontier_html(found)


@pytest.mark.parametrize("columns", [{}, {"episode": "episode", "order": "step", "next_state": " next_state "}])
def test_the_page_of_a_log_is_the_one_that_its_command_writes(
    columns: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-a log.csv").write_bytes(LOG)
    found = diagnosed("-a log.csv", LOG, 0.8, columns, epsilon=0.1, rule="greedy", resamples=10)
    (told,) = ran(found.command, capsys)
    assert told["agreement"]["estimate"] == float(found.found.agreement)
    said_by = re.compile(r"<code[^>]*>replicable-rl .*?</code>|<code>[^<]*-a log.csv</code>")  # it names --report, too
    pages = Path("page.html").read_text(encoding="utf-8"), diagnosis_file(found)
    assert said_by.sub("", pages[0]) == said_by.sub("", pages[1])
    assert "What is in the log" in diagnosis_html(found)


def test_every_rule_can_be_chosen_and_every_problem_picked() -> None:
    assert set(RULES) == {*SHIPPED, setting.RPVI}
    assert set(LOG_RULES) < set(SHIPPED)
    for choice in setting.choices()[1:]:
        assert two_runs(Setting(picked_problem(choice)), 1, (1, 2)).runs


def test_two_runs_that_differ_are_marked() -> None:
    differ = next(
        html
        for seed in range(20)
        if "differs" in (html := two_runs_html(two_runs(Setting(DRAWN, "greedy", 50), 7, (seed, seed + 100))))
    )
    assert "The runs differ in" in differ
    assert "≠" in differ
    same = two_runs_html(two_runs(Setting(DRAWN, "affordable", 10**6), 7, (1, 2)))
    assert "same policy, to the last bit" in same
    assert "≠" not in same
    assert "<script" not in differ + same
    assert "this shows nothing" in two_runs_html(two_runs(Setting(DRAWN, "greedy", 50), 7, (1, 1)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Setting(drawn_problem("...\n.S.", 0.3, 0.9)), "the grid has no goal"),
        (lambda: Setting(drawn_problem("", 0.3, 0.9)), "the map is empty"),
        (lambda: Setting(drawn_problem("G<b>", 0.3, 0.9)), "is not one of"),
        (lambda: Setting(drawn_problem("G" * 200, 0.3, 0.9)), "at most 144 cells"),
        (lambda: Setting(drawn_problem("G#", 0.3, 0.9)), "needs a cell to start from"),
        (lambda: Setting(picked_problem("garnet-v1", "n_states=10000")), "at most 5000 state-action pairs"),
        (lambda: Setting(picked_problem("chain-v1", "n_states")), "key=value"),
        (lambda: Setting(picked_problem("chain-v1", "colour=red")), "no parameter"),
        (lambda: Setting(picked_problem("/etc/passwd")), "no problem is called"),
        (lambda: Setting(TWO_GOALS, "best"), "rule"),
        (lambda: Setting(TWO_GOALS, samples=0), "samples"),
        (lambda: Setting(TWO_GOALS, rho=float("nan")), "rho"),
        (lambda: Setting("two-goals-v1"), "ObjectSpec"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_with_an_input_is_one_sentence_in_the_page(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(says)):
        two_runs(make(), 1, (1, 2))
    html = tried(lambda: two_runs_html(two_runs(make(), 1, (1, 2))))
    assert 'class="callout bad"' in html
    assert "Traceback" not in html
    assert "<b>" not in html


@pytest.mark.parametrize(("shared", "samples"), [(None, (1, 2)), (7, (None, 2)), (7, (1, None)), (0.5, (1, 2))])
def test_a_seed_that_was_emptied_is_one_sentence_and_no_run(shared: Any, samples: Any) -> None:
    with pytest.raises(InvalidInput, match=r"seed must be an integer from 0 to 4294967295, got"):
        two_runs(Setting(TWO_GOALS), shared, samples)  # with a random seed, the command would make another picture


@pytest.mark.parametrize(
    ("name", "contents", "says"),
    [
        ("log.csv", b"a,b\n1,2\n", "log.csv: there is no column 'state'"),
        ("log.csv", b"", "log.csv"),
        ("log.parquet", b"PAR1", "log.parquet"),
        ("log.jsonl", b"{", "log.jsonl"),
        ("log.pickle", b"", "ends in .csv, .parquet, .jsonl"),
        ("", b"", "ends in"),
        ("log.csv", bytes(50_000_001), "at most 50 MB"),
    ],
)
def test_a_log_that_cannot_be_read_is_one_sentence(name: str, contents: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(says)) as caught:
        diagnosed(name, contents, 0.9, {})
    assert "/tmp" not in str(caught.value)


def test_a_plugin_that_fails_is_a_sentence_too(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> str:
        raise RuntimeError("<b>boom</b>")

    assert "RuntimeError: &lt;b&gt;boom" in tried(fails)
    assert "boom" in caplog.text


def test_a_drawing_keeps_its_shape() -> None:
    text = grids.START
    for change in grids.CHANGES:
        text = grids.resized(text, change)
    assert text == grids.START
    large = "\n".join(["." * 12] * 12)
    assert grids.resized(large, "a row more") == large
    assert grids.squares(f"{large}\n.") == []
    with pytest.raises(InvalidInput, match="row"):
        grids.painted(text, 3, 0, "wall")


# --- how it is served ---------------------------------------------------------------------------


class Lab:
    """A lab that was started by the command."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "output.txt"
        environment = os.environ | {"XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "HOME": str(folder)}
        starting = "import sys; from replicable_rl.cli import main; sys.exit(main(sys.argv[1:]))"
        with self.output.open("w") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-c", starting, "lab", "--no-browser"],
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
            )
        self.url = self._found(r"http://\S+")

    def _found(self, pattern: str) -> str:
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            if found := re.search(pattern, self.output.read_text()):
                return found[0]
            time.sleep(0.05)
        raise AssertionError(self.output.read_text())

    def get(self, url: str, **headers: str) -> tuple[int, dict[str, str], str]:
        """Ask for a page, with a memory for cookies."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        try:
            with opener.open(urllib.request.Request(url, headers=headers), timeout=30) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read().decode()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("lab"))
    try:
        yield started
    finally:
        started.process.send_signal(signal.SIGINT)
        try:
            code = started.process.wait(60)
        except subprocess.TimeoutExpired:
            started.process.kill()
            raise
    # Ctrl-C ends it with a sentence, and nothing went wrong in all the time before.
    first, second, *last = started.output.read_text().splitlines()
    assert first.startswith("The lab is open at http://127.0.0.1:")
    assert second == "It answers this machine only. Ctrl-C ends it."
    assert last == ["The lab is closed."]
    assert code == 0


def test_the_page_names_no_other_address_and_may_ask_none(lab: Lab) -> None:
    code, headers, html = lab.get(lab.url)
    assert code == 200
    assert "<title>Replicability lab</title>" in html
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//[^"'\s>]*|url\(["']?https?:[^)]*""", html) == []
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert "two_runs_html" not in html  # the notebook's code is not sent


def test_nobody_else_gets_in(lab: Lab) -> None:
    base = lab.url.partition("?")[0]
    _, _, login = lab.get(base)
    assert "Replicability lab" not in login
    assert "Replicability lab" not in lab.get(f"{base}?access_token=guess")[2]
    for foreign in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        assert lab.get(lab.url, **foreign)[0] == 403
    with server._bound(None) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_lab_that_is_killed_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    started = Lab(tmp_path)
    assert list(folder.glob("replicable-rl-lab-*"))
    started.process.terminate()
    started.process.wait(60)
    assert list(folder.iterdir()) == []


def test_a_port_that_is_taken_is_one_sentence(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    port = lab.url.split(":")[2].partition("/")[0]
    assert main(["lab", "--port", port, "--no-browser"]) == 2
    assert f"port {port} cannot be used (Address already in use)" in capsys.readouterr().err
    for wrong in ("0", "65536", "-1", "x", "1.5"):
        assert main(["lab", "--port", wrong, "--no-browser"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_without_marimo_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    assert main(["lab"]) == 2
    assert "pip install marimo" in capsys.readouterr().err


def test_the_lab_is_an_extra_that_nothing_else_loads() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not any("marimo" in one for one in project["dependencies"])
    assert any(one.startswith("marimo>=") for one in project["optional-dependencies"]["lab"])
    script = (
        "import sys, replicable_rl.cli.main; print({'marimo', 'starlette', 'uvicorn', 'webbrowser'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "set()"


# --- in a browser -------------------------------------------------------------------------------


def until(page: Chrome, script: str, *given: Any, seconds: float = 120) -> Any:
    """Wait until a script returns something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := run(page, script, *given):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{script}: not in {seconds} s; the page says {run(page, 'document.body.innerText')!r:.2000}")


def screen(page: Chrome, width: int, height: int, *, dark: bool = False) -> None:
    """Look at the page on a screen of this size, in this scheme."""
    sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})


@pytest.fixture(scope="module")
def page(browser: Chrome, lab: Lab) -> Chrome:
    """The lab in the browser, opened once: that is what takes the time."""
    screen(browser, 1200, 1200)
    browser.get("about:blank")
    for name in ("browser", "performance"):
        log(browser, name)
    browser.get(lab.url)
    until(browser, "document.querySelector('.replicable .intervals')")
    return browser


def control(page: Chrome, tag: str, label: str, inside: str) -> Any:
    """Return what one clicks or types into, of the control with this label; marimo's controls have their own trees."""
    script = """[...document.querySelectorAll(arguments[0])].map(one => one.shadowRoot || one)
        .filter(root => root.textContent.includes(arguments[1])).map(root => root.querySelector(arguments[2]))[0]"""
    return until(page, script, tag, label, inside)


def until_command(page: Chrome, text: str) -> None:
    """Wait until the command under the two runs says something."""
    until(page, "document.querySelector('figure.policy .command')?.textContent.includes(arguments[0])", text)


@in_a_browser
def test_a_slider_and_a_click_change_the_pictures(page: Chrome) -> None:
    from selenium.webdriver import Keys
    from selenium.webdriver.support.ui import Select

    until_command(page, "--samples 1000 ")
    control(page, "marimo-slider", "Samples m", "[role=slider]").send_keys(Keys.ARROW_LEFT)
    until_command(page, "--samples 500 ")
    Select(control(page, "marimo-dropdown", "Problem", "select")).select_by_visible_text(setting.DRAWN)
    until_command(page, "layout=G.G/.#./.S.")
    assert len(find(page, "figure.policy .board:first-child .wall")) == 1
    control(page, "marimo-button", "·", "button").click()  # the first free cell becomes a wall
    until_command(page, "layout=G#G/.#./.S.")
    assert len(find(page, "figure.policy .board:first-child .wall")) == 2
    drawing = control(page, "marimo-text-area", "as text", "textarea")
    until(page, "arguments[0].value == 'G#G\\n.#.\\n.S.'", drawing)
    drawing.clear()
    drawing.send_keys("...", Keys.TAB)
    until(page, "document.body.innerText.includes('the grid has no goal')")
    assert "Traceback" not in run(page, "document.body.innerText")


@in_a_browser
def test_a_log_that_is_dropped_in_is_diagnosed_or_refused(page: Chrome, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "good.csv").write_bytes(LOG)
    file = "marimo-file", "Drop a log", "input[type=file]"
    control(page, *file).send_keys(str(tmp_path / "bad.csv"))
    until(page, "document.body.innerText.includes(\"bad.csv: there is no column 'state'\")")
    control(page, *file).send_keys(str(tmp_path / "good.csv"))
    until(page, "document.body.innerText.includes('What is in the log')")
    shown = run(page, "[...document.querySelectorAll('.command')].map(one => one.textContent)")
    assert shown[-1] == "replicable-rl diagnose good.csv --gamma 0.9 --resamples 100 --report page.html"


@in_a_browser
def test_nothing_overflows_on_a_phone_and_dark_is_readable(page: Chrome) -> None:
    for dark in (False, True):
        screen(page, 390, 844, dark=dark)
        until(page, "innerWidth == 390 && document.body.classList.contains(arguments[0])", "dark" if dark else "light")
        wide = """[...document.querySelectorAll('*')].filter(one => one.scrollWidth > one.clientWidth + 1
            && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX)
            && !one.matches('.scroll')).map(one => one.className)"""
        assert run(page, wide) == []
        assert run(page, "document.documentElement.scrollWidth") == 390
        style = "getComputedStyle(document.querySelector('.replicable .callout'))"
        text, ground = (brightness(run(page, f"{style}.{what}")) for what in ("color", "backgroundColor"))
        assert (text - ground if dark else ground - text) > 120


def brightness(colour: str) -> float:
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3


@in_a_browser
def test_the_browser_finds_no_fault_and_asks_nobody_else(page: Chrome, lab: Lab) -> None:
    assert [entry["message"] for entry in log(page, "browser") if entry["level"] == "SEVERE"] == []
    asked = [url for url in requests(page) if not url.startswith(("chrome:", "data:", "blob:", "about:"))]
    assert asked
    assert all(url.startswith(lab.url.partition("?")[0]) for url in asked)
