"""Pages in a real browser: Debian's chromium, headless, from a file.

The tests are skipped where there is no chromium (``apt-get install chromium chromium-driver``) or no selenium.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import replicable_rl as rr
from replicable_rl.cli import main
from replicable_rl.pages.blocks import Code, Figure, Text
from replicable_rl.pages.page import Block, Page, Section, write

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="there is no chromium here: apt-get install chromium chromium-driver"
)

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-quic", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
EVIL = "</script><script>document.title='caught'</script><img src=x onerror=\"document.title='caught'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two audits: one agrees, and one does not; made by the command."""
    folder = tmp_path_factory.mktemp("page")
    store = folder / "runs.sqlite"
    for algorithm in (rr.PhasedVI(0.1, 0.001), rr.ReplicablePhasedVI(0.1, 0.001, 0.2)):
        rr.audit(rr.make("two-goals-v1"), algorithm, shared_seeds=20, store=store)
    assert main(["report", str(store), "-o", str(folder / "page.html")]) == 0
    return folder / "page.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """Start a browser that keeps what it must in a folder, and end it."""
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def look(browser: Chrome, page: Path, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
    """Open a page on a screen of this size, in this scheme."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    browser.get("about:blank")
    for name in ("browser", "performance"):
        log(browser, name)
    browser.get(page.as_uri())


def run(browser: Chrome, script: str, *given: Any) -> Any:
    return browser.execute_script(f"return {script}", *given)


def log(browser: Any, name: str) -> list[dict[str, Any]]:
    """What was logged since this was asked for last."""
    return list(browser.get_log(name))


def find(browser: Chrome, selector: str) -> list[WebElement]:
    return browser.find_elements("css selector", selector)


def requests(browser: Chrome) -> list[str]:
    """The addresses that the page asked for since it was opened."""
    messages = [json.loads(entry["message"])["message"] for entry in log(browser, "performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def states(browser: Chrome) -> tuple[WebElement, WebElement, WebElement, WebElement]:
    """The picture of the audit whose runs differ: a state, the same in the other run, its neighbour, and the panel."""
    (figure,) = (f for f in find(browser, "figure.policy") if f.find_elements("css selector", ".differs"))
    boards = figure.find_elements("css selector", ".board")
    one, two = (board.find_element("css selector", '[data-state="0"]') for board in boards)
    return (
        one,
        two,
        boards[0].find_element("css selector", '[data-state="1"]'),
        figure.find_element("class name", "panel"),
    )


def test_the_page_opens_from_a_file_without_errors_or_requests(browser: Chrome, page: Path) -> None:
    look(browser, page)
    assert find(browser, "figure.policy .panel h4")  # the script has run
    assert [entry for entry in log(browser, "browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    asked = requests(browser)
    assert asked[0] == page.as_uri()
    assert all(url.startswith("data:") for url in asked[1:])


def test_pointing_clicking_and_keys_show_the_values_of_both_runs(browser: Chrome, page: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    look(browser, page)
    one, two, right_of_it, panel = states(browser)
    assert "First run" in panel.text  # a state is shown before anybody chose one
    run(browser, "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", one)
    ActionChains(browser).move_to_element(one).perform()
    assert panel.text.startswith("State (0,0)")
    table = panel.find_elements("css selector", "tbody tr")
    assert [row.text.split()[0] for row in table] == ["up", "down", "left", "right"]
    assert all(len(row.find_elements("css selector", "td.number")) == 3 for row in table)
    assert {element.get_attribute("class") for element in (one, two)} == {"state letter chosen"}
    right_of_it.click()
    assert panel.text.startswith("State (0,1)")
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert panel.text.startswith("State (0,0)")
    assert browser.switch_to.active_element == one
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert panel.text.startswith("State (1,0)")
    tab_stops = one.find_elements("xpath", "../*[@tabindex='0']")
    assert len(tab_stops) == 1  # one stop of the Tab key for a picture


def test_states_where_the_runs_differ_are_marked_in_words(browser: Chrome, page: Path) -> None:
    look(browser, page)
    marked = find(browser, ".state.differs")
    assert marked
    assert all("the runs differ" in (state.get_attribute("aria-label") or "") for state in marked)
    assert all("≠" in (state.get_attribute("textContent") or "") for state in marked)
    *_, panel = states(browser)
    assert panel.find_elements("css selector", ".says.differs")


def test_the_contents_lead_to_their_sections(browser: Chrome, page: Path) -> None:
    look(browser, page)
    links = find(browser, ".toc a")
    assert len(links) == 3
    run(browser, "document.documentElement.style.scrollBehavior = 'auto'")
    for link in links:
        link.click()
        target = (link.get_attribute("href") or "").rpartition("#")[2]
        top = run(browser, "document.getElementById(arguments[0]).getBoundingClientRect().top", target)
        bottom = run(browser, "innerHeight + scrollY >= document.documentElement.scrollHeight - 2")
        assert bottom or 0 <= top < 120
    look(browser, page, width=390, height=844)
    contents = find(browser, ".toc")[0]
    assert contents.get_attribute("open") is None  # folded on a phone
    find(browser, ".toc summary")[0].click()
    find(browser, ".toc a")[1].click()
    assert contents.get_attribute("open") is None


def test_light_and_dark(browser: Chrome, page: Path) -> None:
    def brightness() -> int:
        colour = run(browser, "getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(part) for part in colour.strip("rgb()").split(","))

    for dark in (False, True):
        look(browser, page, dark=dark)
        assert (brightness() < 3 * 128) is dark
        find(browser, "#theme")[0].click()
        assert (brightness() < 3 * 128) is not dark
        find(browser, "#theme")[0].click()
        assert (brightness() < 3 * 128) is dark


@pytest.mark.parametrize(("width", "height"), [(320, 640), (768, 1024), (1920, 1080)])
def test_nothing_overflows(browser: Chrome, page: Path, width: int, height: int) -> None:
    for dark in (False, True):
        look(browser, page, width=width, height=height, dark=dark)
        assert run(browser, "[document.documentElement.scrollWidth, innerWidth]") == [width, width]


def test_planted_scripts_do_not_run(browser: Chrome, tmp_path: Path) -> None:
    hostile = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
    blocks: list[Block] = [Text([[Code(EVIL)], EVIL]), Figure(hostile, EVIL, EVIL, EVIL)]
    write(Page(f"safe {EVIL}", EVIL, [Section("a", EVIL, blocks)]), tmp_path / "page.html")
    look(browser, tmp_path / "page.html")
    assert browser.title == f"safe {EVIL}"
    assert [entry for entry in log(browser, "browser") if entry["level"] == "SEVERE"] == []
    # And where something slipped through, the browser would not run it:
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "holed.html").write_text(text.replace("<main", EVIL + "<main"), encoding="utf-8")
    look(browser, tmp_path / "holed.html")
    assert browser.title == f"safe {EVIL}"
    assert any("Content Security Policy" in entry["message"] for entry in log(browser, "browser"))
