"""``replicable-rl reproduce``: every file, the page, what the data must show, the same bytes again from the store."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from html import escape
from pathlib import Path
from typing import Any

import pytest

from replicable_rl.cli import main
from replicable_rl.experiments.estimates import where
from replicable_rl.experiments.reproduction import experiments
from replicable_rl.plot import FORMATS

QUICK = ("--quick", "--jobs", "1")  # to start workers takes longer than to do without
NAMES = list(experiments())


def tables(folder: Path, name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["tables"]
    return data


def test_a_quick_reproduction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a/b"
    assert main(["reproduce", *QUICK, "--output", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Figure 1:")
    assert printed.index("Phased Q-learning") < printed.index("Replicable Phased Value Iteration")
    check_files(folder)
    check_page((folder / "index.html").read_text(encoding="utf-8"))
    check_claims(folder)
    check_again(folder, tmp_path / "again")


def check_files(folder: Path) -> None:
    """A figure in three formats, and its data."""
    made = {f"{name}.{kind}" for name in NAMES for kind in (*FORMATS, "json")}
    assert {path.name for path in folder.iterdir()} == made | {"index.html", "runs.sqlite"}


def check_page(page: str) -> None:
    """What held comes first, then how often we looked, then a section for every experiment."""
    titles = [escape(experiment.paragraphs[0]) for experiment in experiments().values()]
    parts = ["Of 33 claims:", "<table>", "looked at", *(f">{title}</h2>" for title in titles)]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert page.count("<img ") == len(NAMES)
    assert "http-equiv" in page
    assert "replicable-rl reproduce --quick" in page


def check_claims(folder: Path) -> None:
    """What the data must show whatever else it shows; a seed is fixed, so these do not depend on chance."""
    for run in tables(folder, "figure1")["runs"]:
        assert run["left"] + run["right"] == pytest.approx(1.0, abs=1e-9)
    points = tables(folder, "figure2")["points"]
    for first in where(points, multiple=1):
        last = where(points, problem=first["problem"], rho_sq=first["rho_sq"], multiple=1000)[0]
        assert first["modal_share"] < 0.8 < last["modal_share"]
        assert first["unique_share"] > last["unique_share"]
        assert first["agreement"] < last["agreement"]
    theorems = tables(folder, "theorem")["theorems"]
    assert all(row["disagreement_low"] <= 0.2 and row["worst_error"] <= row["bound"] for row in theorems)
    chain = tables(folder, "levels")["agreement"]
    for value in where(chain, level="value"):
        about = {name: value[name] for name in ("problem", "algorithm", "calls")}
        assert value["same"] <= where(chain, level="policy", **about)[0]["same"]


def check_again(folder: Path, again: Path) -> None:
    """In a new folder that has the store alone: nothing is run, and every file is the same; nor does a clock matter."""
    again.mkdir()
    shutil.copy(folder / "runs.sqlite", again)
    before = stored_runs(again)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda now=time.time: now() + 366 * 86400)
        assert main(["reproduce", "figure1", "cost", *QUICK, "--output", str(again)]) == 0
    assert stored_runs(again) == before
    made = {path.name: path.read_bytes() for path in again.iterdir() if path.suffix != ".sqlite"}
    del made["figure1-cost.html"]
    assert {name for name in made if name.endswith(".json")} == {"figure1.json", "cost.json"}
    assert all(content == (folder / name).read_bytes() for name, content in made.items())


def stored_runs(folder: Path) -> int:
    with sqlite3.connect(folder / "runs.sqlite") as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM runs").fetchone()
    return int(count)


def test_a_headline_that_does_not_hold_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No likeliest output has a probability of 1.5."""
    from replicable_rl.experiments.catalogue import figure1

    monkeypatch.setattr(figure1, "SURE", 1.5)
    assert main(["reproduce", "figure1", *QUICK, "--output", str(tmp_path)]) == 1


NEW = '''
from replicable_rl.experiments.experiment import Data, Experiment, Study, Verdict
from replicable_rl.plot import panels
from replicable_rl.runs import ObjectSpec


class Mine(Experiment):
    """A thing of its own.

    Read <it>.
    """

    order, caption = 65, "A dot."

    def design(self, scale):
        algorithm = ObjectSpec("phased-vi-v1", {"epsilon": 0.2, "delta": 0.05, "calls": 5, "iterations": 3})
        return [Study.of({"size": 2}, "chain-v1", algorithm, scale.pairs)]

    def analyse(self, studies, results):
        return Data({"rows": [{**study.point, "runs": len(result.runs)} for study, result in zip(studies, results)]})

    def verdicts(self, data):
        return [Verdict("It runs", "here", "it ran", yes=True)]

    def draw(self, data):
        figure, axes = panels((3, 2), 1, 1)
        axes[0, 0].plot([row["runs"] for row in data.tables["rows"]], "o")
        return figure


EXPERIMENT = Mine()
'''


def test_a_new_module_is_a_new_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found, made, drawn, judged and shown, and nothing else has changed."""
    from replicable_rl.experiments import catalogue

    (tmp_path / "mine.py").write_text(NEW)
    monkeypatch.setattr(catalogue, "__path__", [*catalogue.__path__, str(tmp_path)])
    assert list(experiments()) == [*NAMES, "mine"], "by its own number"
    assert main(["reproduce", "mine", *QUICK, "--output", str(tmp_path / "results")]) == 0
    assert "Of 1 claims: 1 held, 0 not held, 0 cannot tell." in capsys.readouterr().out
    page = (tmp_path / "results/mine.html").read_text(encoding="utf-8")
    for text in ("A thing of its own", "Read &lt;it&gt;.", 'alt="A thing of its own"', "It runs", "mine.json"):
        assert text in page


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["figur1"], "'figur1'"),
        (["figure1", "nothing"], "'nothing'"),
    ],
)
def test_bad_input_is_one_sentence_and_makes_nothing(
    arguments: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments, "--output", str(tmp_path / "new")]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert refusal in printed.err
    assert not (tmp_path / "new").exists()


def test_an_output_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["reproduce", "figure1", "--output", str(tmp_path / "file/sub")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err
