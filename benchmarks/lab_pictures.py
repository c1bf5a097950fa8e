"""The pictures of docs/lab.md: the lab itself, started by its command and photographed in a headless browser.

python -m benchmarks.lab_pictures              # writes docs/pictures/lab-*.png; needs chromium and chromedriver
python -m benchmarks.lab_pictures FOLDER       # elsewhere
"""

from __future__ import annotations

import base64
import io
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from tests.test_lab import Lab, control, screen, until, until_command
from tests.test_report_browser import chromium, run

from replicable_rl.lab.measuring import example_log

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def main(folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        lab = Lab(Path(temporary))
        try:
            (Path(temporary) / "profile").mkdir()
            with chromium(Path(temporary) / "profile") as page:
                _photograph(page, lab.url, folder, Path(temporary))
        finally:
            lab.process.send_signal(signal.SIGINT)
            lab.process.wait(60)


def _photograph(page: Chrome, url: str, folder: Path, temporary: Path) -> None:
    from selenium.webdriver import Keys
    from selenium.webdriver.support.ui import Select

    screen(page, 1200, 2000)
    page.get(url)
    until_command(page, "--samples 1000 ")
    Select(control(page, "marimo-dropdown", "Problem", "select")).select_by_visible_text("draw a grid")
    until_command(page, "layout=")
    drawing = control(page, "marimo-text-area", "as text", "textarea")
    drawing.clear()
    drawing.send_keys("G...G\n.###.\n..S..", Keys.TAB)
    until_command(page, "layout=G...G/.###./..S..,")
    Select(control(page, "marimo-dropdown", "affordable", "select")).select_by_visible_text("greedy")
    until_command(page, "--rule greedy")
    slider = control(page, "marimo-slider", "Samples m", "[role=slider]")
    slider.send_keys(Keys.ARROW_LEFT)
    until_command(page, "--samples 500 ")
    run(page, "document.activeElement.blur()")
    until(page, "document.body.innerText.includes('Same policy in')")
    for width, height in ((1200, 2000), (390, 1900)):
        for dark in (False, True):
            screen(page, width, height, dark=dark)
            until(page, "document.body.classList.contains(arguments[0])", "dark" if dark else "light")
            _save(page, folder / f"lab-{width}-{'dark' if dark else 'light'}.png")
    screen(page, 1200, 6000)
    (temporary / "walk.csv").write_bytes(example_log())
    control(page, "marimo-file", "Drop a log", "input[type=file]").send_keys(str(temporary / "walk.csv"))
    until(page, "document.body.innerText.includes('What is in the log')", seconds=600)
    control(page, "marimo-button", "Measure it", "button").click()
    until(page, "document.querySelector('.picture img')", seconds=600)
    top = "[...document.querySelectorAll('h2')].find(one => one.innerText.startsWith(arguments[0]))"
    for name, heading, height in (("frontier", "The frontier", 1200), ("log", "What would another log", 930)):
        y = run(page, f"{top}.getBoundingClientRect().top", heading)
        _save(page, folder / f"lab-{name}.png", {"x": 0, "y": y - 20, "width": 1200, "height": height, "scale": 1})


def _save(page: Chrome, file: Path, clip: dict[str, float] | None = None) -> None:
    run(page, "new Promise(done => setTimeout(() => requestAnimationFrame(done), 300))")
    asked = {"format": "png"} | ({} if clip is None else {"clip": clip})
    taken = base64.b64decode(page.execute_cdp_cmd("Page.captureScreenshot", asked)["data"])
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(64).save(file, optimize=True)  # a third of the size
    print(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _PICTURES)
