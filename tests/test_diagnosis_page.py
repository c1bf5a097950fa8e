"""A diagnosis as a page, as text of any width, as JSON, and in a notebook; hostile names everywhere."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.diagnose import Diagnosis
from replicable_rl.diagnose.forecast import Forecast, corrected
from replicable_rl.pages.diagnosis import diagnosis_page
from replicable_rl.pages.page import render
from tests.commands import Run
from tests.test_logs import long_log
from tests.test_report import Elements

pytestmark = pytest.mark.usefixtures("one_database")

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\n=cmd|' /C calc'!A1"


def log_of(rows: int = 400, **names: Any) -> dict[str, Any]:
    """A log with a rare pair, whose names may be anybody's."""
    log = long_log(rows, seed=3)
    log["reward"] = (log["next_state"] + log["action"]) / 6.0
    for column in ("state", "next_state"):
        log[column] = [f"{names.get('state', 'state')} {s}" for s in log[column]]
    log["action"] = [f"{names.get('action', 'action')} {a}" for a in log["action"]]
    return log


def diagnosis(**names: Any) -> Diagnosis:
    data = rr.from_transitions(log_of(**names), gamma=0.9)
    return rr.diagnose(data, rr.PlugInPolicy(0.02, 0.05, 0.2, rule="greedy"), resamples=20)


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return diagnosis()


@pytest.fixture(scope="module")
def hostile() -> Diagnosis:
    return diagnosis(state=EVIL, action=EVIL)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def test_the_page_says_what_was_found(found: Diagnosis) -> None:
    text = render(diagnosis_page(found, 0.9, "shop.csv", "replicable-rl diagnose shop.csv"))
    read = Elements()
    read.feed(text)
    assert str(found.agreement) in read.text
    for estimate in (found.halves, *found.rules().values()):
        assert f"{float(estimate):.3f} ({estimate.low:.3f}–{estimate.high:.3f})" in read.text
    assert found.states
    for one in found.states:
        assert f"{one.state}" in read.text
        assert f"{one.at_stake:.2g}" in read.text
    assert "how much data an agreement of 90 % takes is not known" in read.text
    assert "replicable-rl diagnose shop.csv" in read.text
    assert "action 2" in read.text  # the policy
    assert text == render(diagnosis_page(found, 0.9, "shop.csv", "replicable-rl diagnose shop.csv"))


def test_planted_html_is_shown_and_never_run(hostile: Diagnosis, tmp_path: Path) -> None:
    hostile.save_page(tmp_path / "page.html", name=EVIL)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    read = Elements()
    read.feed(text)
    assert [attributes for tag, attributes in read.tags if tag == "script"] == [{}]  # our own
    assert not any(tag == "img" for tag, _ in read.tags)
    assert "\x1b" not in text
    assert "<script>alert(1)</script>" in read.text
    with pytest.raises(rr.InvalidInput, match="cannot be written"):
        hostile.save_page(tmp_path / "nowhere" / "page.html")
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_long_lists_are_cut_and_say_so() -> None:
    states = np.arange(300)
    log = {"state": np.repeat(states, 4), "action": np.tile([0, 1], 600), "reward": np.tile([0, 1, 1, 0], 300)}
    log["next_state"] = np.roll(log["state"], 1)
    made = rr.diagnose(
        rr.from_transitions(log, gamma=0.5), rr.PlugInPolicy(0.02, 0.05, 0.2, rule="greedy"), resamples=5
    )
    text = render(diagnosis_page(made))
    assert len(made.states) > 50
    assert f"{len(made.states) - 50} more are not listed" in text
    assert "200 more are not listed" in text
    assert f"and {len(made.states) - 10} more" in str(made)


@pytest.mark.parametrize("width", [30, 60, 80, 100])
def test_text_fits_its_width(found: Diagnosis, hostile: Diagnosis, width: int) -> None:
    for one in (found, hostile):
        lines = one.text(width=width, target=0.9, rules=True).splitlines()
        assert max(map(len, lines)) <= width
        assert "\x1b" not in "".join(lines)
    assert "  affordable " in found.text(width=width, rules=True)
    assert str(found) == found.text(width=80)


def test_what_takes_long_is_found_once(found: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    needed, rules = found.data_needed(0.9), found.rules()
    monkeypatch.setattr(sys.modules[Diagnosis.__module__], "Forecast", None)
    assert found.data_needed(0.9) == needed
    assert found.rules() == rules
    with pytest.raises(rr.InvalidInput, match="target"):
        found.data_needed([0.9])  # type: ignore[arg-type]
    with pytest.raises(rr.InvalidInput, match="width"):
        found.text(width=0)


def test_rules_and_the_search_find_what_single_forecasts_find(found: Diagnosis) -> None:
    assert found.rules()["greedy"] == found.agreement  # the same pairs of logs decide
    assert str(found.rules()["greedy"]) == str(found.agreement)
    forecast = Forecast(found.data, found.algorithm, 60, 1)
    for scale in (4.0, 64.0, 1024.0):
        agreed = float(np.mean([corrected(policies) for policies in forecast.policies("logs", scale)]))
        clear = [target for target in (0.1, 0.3, 0.5, 0.7, 0.9) if abs(target - agreed) > 0.3]
        assert clear
        assert [forecast.reaches(target, scale) for target in clear] == [agreed >= target for target in clear]
        assert forecast.reaches(agreed, scale)


def test_a_search_draws_no_more_than_tells(found: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[int] = []
    decide = Forecast.decide

    def noted(*given: Any) -> Any:
        decided.append(1)
        return decide(*given)

    monkeypatch.setattr(Forecast, "decide", noted)
    forecast = Forecast(found.data, found.algorithm, 200, 1)
    assert not forecast.reaches(0.999999, 0.01)
    assert 4 * 20 <= len(decided) < 4 * 200


def test_json_is_whole(found: Diagnosis) -> None:
    short = json.loads(json.dumps(found.to_json()))
    assert "rules" not in short
    assert "rows_needed" not in short
    data = json.loads(json.dumps(found.to_json(target=0.9, rules=True)))
    assert data["rows_needed"] == found.data_needed(0.9)
    assert set(data["rules"]["greedy"]) == {"estimate", "low", "high"}
    assert data["sample"]["digest"] == found.data.sample.digest
    assert data["algorithm"]["id"] == "plug-in-policy-v1"
    assert list(data["policy"]) == [f"state {s}" for s in range(5)]


def test_the_command_makes_a_page(run: Run, tmp_path: Path) -> None:
    path, page = tmp_path / "log.csv", tmp_path / "page.html"
    log = log_of(300)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(log), *zip(*log.values(), strict=True)])
    asked = ("diagnose", path, "--gamma", "0.9", "--resamples", "10", "--reward-range", "0", "1")
    printed = run.good(*asked, "--report", page)
    assert printed.splitlines()[-1] == f"{page}: open it in a browser."
    assert f"replicable-rl diagnose {path} --gamma 0.9 --reward-range 0 1 --resamples 10" in page.read_text()
    data = json.loads(run.good(*asked, "--json", "--report", page))
    assert data["rules"]["affordable"]["low"] <= data["agreement"]["estimate"]
    assert "cannot be written" in run.refused(*asked, "--report", tmp_path / "nowhere" / "page.html")
    for problem in ("chain-v1", "riverswim-v1:n_states=8"):
        refusal = run.refused("diagnose", problem)
        assert refusal.startswith(f"diagnose: '{problem}' is a problem, and no log: a log is a file that ends in .csv")
    assert "--target" in run.refused(*asked, "--target", "1.5")
