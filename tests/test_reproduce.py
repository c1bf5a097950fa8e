"""``replicable-rl reproduce``: every file, the statements of Figure 2 on saved data, the same bytes again, a kill.

One quick reproduction serves most tests. Its 60 runs a point keep the statements about Figure 2 safe: the shared
seed and so the bins are fixed, and under it all of 150 runs of every curve agreed at the largest sample size. So the
likeliest value function has probability p > 0.95 there, except with probability 0.95^150 = 5e-4 a curve, and then
fewer than 48 of 60 runs agree with probability below 1e-5.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from replicable_rl import experiments as package
from replicable_rl import plotting
from replicable_rl.cli import main
from replicable_rl.experiments import figure1, levels
from replicable_rl.experiments.catalogue import experiments
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Finding
from replicable_rl.files import replacing
from replicable_rl.store import RunStore
from tests.commands import run_here
from tests.test_experiments import csv_equals_json

COMMAND = Path(sys.executable).parent / "replicable-rl"
OPTIONS = ("--quick", "--runs", "60")
ALONE = ("--jobs", "1")  # to start workers takes longer than to do without
NAMES = list(experiments())
FIGURES = [name for name, one in experiments().items() if one.draw]


@dataclass(frozen=True)
class Made:
    """A finished reproduction: what it printed, how it ended, and its folder."""

    folder: Path
    code: int
    out: str
    err: str

    def load(self, name: str) -> Dataset:
        return Dataset.load(self.folder / f"{name}.json")


def run_in_a_process(folder: Path, *arguments: str) -> Made:
    done = subprocess.run(
        [COMMAND, "reproduce", *arguments, "--output", folder.name],
        cwd=folder.parent,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"},
        timeout=300,
    )
    return Made(folder, done.returncode, done.stdout, done.stderr)


def run(folder: Path, *arguments: str) -> Made:
    done = run_here(["reproduce", *arguments, "--output", folder.name], folder.parent, {"COLUMNS": "200"})
    return Made(folder, done.code, done.out, done.err)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One quick reproduction for all processes of pytest-xdist: the first to come makes it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "reproduction"
    try:
        shared.mkdir()
    except FileExistsError:
        for _ in range(3000):
            if (shared / "made.json").exists():
                return Made(shared / "results", **json.loads((shared / "made.json").read_text(encoding="utf-8")))
            time.sleep(0.1)
        raise
    first = run_in_a_process(shared / "results", *OPTIONS, *ALONE)
    with replacing(shared / "made.json") as stream:
        stream.write(json.dumps({"code": first.code, "out": first.out, "err": first.err}).encode())
    return first


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two experiments with a small figure, for tests of what is around it."""

    def draw(dataset: Dataset) -> plotting.Figure:
        return plotting.panels((3, 2), 1, 1)[0]

    for module in (figure1, levels):
        monkeypatch.setattr(module, "EXPERIMENT", replace(module.EXPERIMENT, draw=draw))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the store (and its log): its bytes depend on the order in which workers finished."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("runs.sqlite")}


def stored_runs(store: Path) -> int:
    with RunStore(store) as opened:
        return sum(count for _, count in opened.families())


# --- files and words -----------------------------------------------------------------------------


def test_everything_is_made(made: Made) -> None:
    assert (made.code, made.err) == (0, "")
    expected = {"index.html", "runs.sqlite"}
    for name in NAMES:
        data = made.load(name)
        assert data.details["command"] == f"replicable-rl reproduce {name} --quick --runs 60"
        expected |= {f"{name}.json", *(f"{name}-{table}.csv" for table in data.tables)}
        expected |= {f"{name}.{kind}" for kind in ("png", "svg", "pdf") if name in FIGURES}
    assert {path.name for path in made.folder.iterdir()} == expected, "and nothing temporary"


def test_the_headline_comes_first(made: Made) -> None:
    lines = made.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Replicable Phased Value Iteration"
    assert lines.index("Phased Q-learning") > lines.index("Replicable Phased Value Iteration")
    assert made.out.count("  the same\n") == made.out.count("  different\n") == 2
    order = [line.partition(":")[0] for line in lines if re.match(r"[a-z0-9]+: ", line)]
    assert order == list(NAMES)
    assert "open " in lines[-1]
    assert "index.html in a browser." in " ".join(lines[-2:])


@pytest.mark.parametrize("name", NAMES)
def test_csv_says_what_json_says(made: Made, name: str) -> None:
    csv_equals_json(made.folder, name)


def test_the_page_shows_everything_and_needs_nothing(made: Made) -> None:
    page = (made.folder / "index.html").read_text(encoding="utf-8")
    for name in NAMES:
        assert f'id="{name}"' in page
        assert f"replicable-rl reproduce {name} --quick --runs 60" in page
    for path in re.findall(r'<a [^>]*href="([^"#]+)"', page):
        assert (made.folder / path).is_file(), path
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page), "nothing comes from the network"


def test_estimates_come_with_intervals(made: Made) -> None:
    estimates = 0
    for name in NAMES:
        for table in made.load(name).tables.values():
            for low in (column for column in table.columns if column.endswith("_low")):
                middle = low.removesuffix("_low")
                for row in table:
                    ends = [row[low], row[middle], row[f"{middle}_high"]]
                    assert [x for x in ends if x is not None] == sorted(x for x in ends if x is not None), (name, row)
                    estimates += 1
            for column in ("agreement", "modal_share", "unique_share", "disagreement"):
                assert column not in table.columns or f"{column}_low" in table.columns
    assert estimates > 150


# --- what the data says --------------------------------------------------------------------------


def test_figure1_two_goals_and_one_policy(made: Made) -> None:
    data = made.load("figure1")
    headline: Any = data.details["headline"]
    assert headline["holds"]
    assert headline["other_goal"]
    for row in data.tables["runs"]:
        assert row["left"] + row["right"] == pytest.approx(1.0, abs=1e-9)
    for grid in data.tables["runs"].distinct("problem"):
        plain, rpvi = (
            data.tables["runs"].where(problem=grid, algorithm=name)
            for name in ("Phased Q-learning", "Replicable Phased Value Iteration")
        )
        assert plain[0]["left"] > 0.5 > plain[1]["left"]
        assert rpvi[0]["value"] == rpvi[1]["value"]
        assert [run["sample_seed"] for run in plain] == [run["sample_seed"] for run in rpvi]


def test_figure2_more_data_brings_the_modal_share_past_the_threshold(made: Made) -> None:
    points = made.load("figure2").tables["points"]
    for grid in points.distinct("problem"):
        for rho_sq in points.distinct("rho_sq"):
            curve = points.where(problem=grid, rho_sq=rho_sq)
            assert [row["multiple"] for row in curve] == [1, 10, 100, 1000]
            assert curve[0]["modal_share"] < 0.8 < curve[-1]["modal_share"]
            assert curve[-1]["modal_share_low"] > curve[0]["modal_share"]
            assert curve[0]["agreement"] < curve[-1]["agreement"]


def test_figure2_the_unique_share_falls_quickly(made: Made) -> None:
    points = made.load("figure2").tables["points"]
    for grid in points.distinct("problem"):
        for rho_sq in points.distinct("rho_sq"):
            shares = [row["unique_share"] for row in points.where(problem=grid, rho_sq=rho_sq)]
            assert shares[1] <= max(shares[0] * 0.75, 0.15)
            assert shares[2] <= 0.2
            assert shares[3] <= 0.1


def test_figure2_rho_sq_has_little_influence_on_the_unique_share(made: Made) -> None:
    """On the grid of the paper's size; on the wide one it has some while samples are few."""
    points = made.load("figure2").tables["points"]
    for multiple in points.distinct("multiple"):
        shares = [row["unique_share"] for row in points.where(problem="two-goals-v1", multiple=multiple)]
        assert max(shares) - min(shares) <= 0.2
    wide = [row["unique_share"] for row in points.where(problem="two-goals-wide-v1", multiple=1000)]
    assert max(wide) - min(wide) <= 0.1


def test_rep_rmax_replicates_and_r_max_does_not(made: Made) -> None:
    table = made.load("exploration").tables["agreement"]
    ours, theirs = (table.where(part="grid", variant=name, level="model")[-1] for name in ("RepRMAX", "R-max"))
    assert ours["agreement_low"] > theirs["agreement_high"]
    fixed, random = (
        table.where(part="knife edge", variant=name, level="story")[-1]
        for name in ("fixed threshold, rSTAT", "RepRMAX")
    )
    assert random["agreement_low"] > fixed["agreement_high"]


def test_theorems_keep_their_promises(made: Made) -> None:
    rows = list(made.load("theorem").tables["theorems"])
    assert {row["claims"] for row in rows} == {"proved"}
    assert not any(row["refuted_rho"] for row in rows)
    assert all(row["kept_epsilon"] for row in rows if row["algorithm"] == "rpvi-v1")
    assert max(float(row["samples_a_run"]) for row in rows) > 1e15


def test_levels_agree_along_the_chain(made: Made) -> None:
    table = made.load("levels").tables["agreement"]
    for row in table:
        if row["level"] != "policy":
            above = table.where(**{name: row[name] for name in ("problem", "algorithm", "calls")}, level="policy")[0]
            assert row["same"] <= above["same"]


def test_claims_and_errata_are_complete(made: Made) -> None:
    data = made.load("claims")
    assert set(data.tables["claims"].column("verdict")) <= {"held", "not held", "cannot tell"}
    assert data.tables["errata"].column("number") == list(range(1, 12))
    for row in data.tables["errata"]:
        assert re.search(r"\d", row["evidence"]), "a number"
    verdicts: Any = data.details["verdicts"]
    assert sum(verdicts.values()) == len(data.tables["claims"])


# --- again, elsewhere, and after a kill ------------------------------------------------------------


@pytest.mark.slow
def test_again_from_the_store_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    """In a new folder that has the store alone: nothing is run, and every file is the same."""
    tmp_path = tmp_path / "results"
    tmp_path.mkdir()
    shutil.copy(made.folder / "runs.sqlite", tmp_path / "runs.sqlite")
    before = stored_runs(tmp_path / "runs.sqlite")
    names = ("figure1", "levels")
    again = run(tmp_path, *names, *OPTIONS, *ALONE)
    assert again.code == 0
    assert set(again.out.splitlines()) <= set(made.out.splitlines())
    files, before_them = contents(tmp_path), contents(made.folder)
    assert {name.partition(".")[0].partition("-")[0] for name in files} == {*names, "index"}
    assert all(files[name] == before_them[name] for name in files if name != "index.html")  # the page has them all
    assert stored_runs(tmp_path / "runs.sqlite") == before


def test_figures_know_no_clock(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure drawn a year later is the same; what the user has set up in matplotlib has no influence."""
    import matplotlib as mpl

    later = time.time() + 366 * 86400
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    with mpl.rc_context({"font.size": 30, "axes.grid": False, "svg.hashsalt": None, "savefig.dpi": 40}):
        for path in experiments()["cost"].save(made.load("cost"), tmp_path):
            assert path.read_bytes() == (made.folder / path.name).read_bytes(), path.name


def test_drawing_computes_nothing(made: Made, tmp_path: Path) -> None:
    """A figure needs its saved data alone: other data, other figure."""
    data = made.load("cost")
    slopes = data.tables["slopes"]
    changed = replace(slopes, rows=tuple((row[0], 9.87, *row[2:]) for row in slopes.rows))
    figure = experiments()["cost"].figure(replace(data, tables={**data.tables, "slopes": changed}))
    assert figure is not None
    texts = " ".join(text.get_text() for text in figure.axes[1].texts)
    assert "slope 9.87" in texts


@pytest.mark.slow
def test_killed_and_rerun_completes(tmp_path: Path) -> None:
    """SIGKILL in the middle of Figure 2; workers make what is missing, and end with the bytes of one go."""
    options = ("figure2", "--quick", "--runs", "12")
    whole = run(tmp_path / "whole", *options, *ALONE)
    assert whole.code == 0
    total = stored_runs(tmp_path / "whole/runs.sqlite")
    process = subprocess.Popen(
        [COMMAND, "reproduce", *options, *ALONE, "--output", tmp_path / "killed"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stored = wait_for_runs(tmp_path / "killed/runs.sqlite", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was still at work"
    assert not (tmp_path / "killed/figure2.json").exists()
    assert 0 < stored < total
    kept = stored_runs(tmp_path / "killed/runs.sqlite")
    assert stored <= kept < total
    again = run(tmp_path / "killed", *options, "--jobs", "2")
    assert again.code == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def wait_for_runs(store: Path, process: subprocess.Popen[bytes]) -> int:
    """Wait until a store holds its first runs."""
    for _ in range(6000):
        assert process.poll() is None, "it ended before it could be killed"
        if store.exists():
            try:
                with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
                    (runs,) = connection.execute("SELECT COUNT(*) FROM runs").fetchone()
                if runs:
                    return int(runs)
            except sqlite3.OperationalError:
                pass  # it is being made
        time.sleep(0.005)
    raise AssertionError("no run in half a minute")


# --- the command -----------------------------------------------------------------------------------


def test_one_experiment_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "figure1", "--quick", *ALONE, "--output", str(tmp_path / "a/b")]) == 0
    assert {path.name.partition(".")[0].partition("-")[0] for path in (tmp_path / "a/b").iterdir()} == {
        "figure1",
        "index",
        "runs",
    }
    assert capsys.readouterr().out.startswith("Replicable Phased Value Iteration\n")


@pytest.mark.usefixtures("sketched")
def test_what_is_in_the_folder_stays_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text("mine")
    for name in ("figure1", "levels"):
        assert main(["reproduce", name, "--quick", "--runs", "3", *ALONE, "--output", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'id="figure1"' in page
    assert 'id="levels"' in page
    assert (tmp_path / "other.json").read_text() == "mine"


@pytest.mark.parametrize("holds", [True, False])
def test_exit_code_says_whether_the_headline_holds(
    holds: bool, sketched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = experiments()["figure1"]
    rigged = replace(usual, finding=lambda dataset: Finding("So it is.", holds))
    monkeypatch.setattr(package.figure1, "EXPERIMENT", rigged)
    assert main(["reproduce", "figure1", "--quick", *ALONE, "--output", str(tmp_path)]) == (0 if holds else 1)
    assert "So it is." in (tmp_path / "index.html").read_text(encoding="utf-8")


NEW = """
from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.experiment import HELD, Experiment, FigureTable, Verdict, study
from replicable_rl.plotting import panels
from replicable_rl.runs import ObjectSpec


def design(scale):
    algorithm = ObjectSpec("phased-vi-v1", {"epsilon": 0.2, "delta": 0.05, "calls": 5, "iterations": 3})
    return [study({"size": 2}, "chain-v1", algorithm, scale.pairs)]


def analyse(studies, results):
    rows = [{**one.point, "runs": len(result.runs)} for one, result in zip(studies, results)]
    return Dataset({"rows": Table.of(rows)})


def draw(dataset):
    figure, axes = panels((3, 2), 1, 1)
    axes[0, 0].plot(dataset.tables["rows"].column("runs"), "o")
    return figure


EXPERIMENT = Experiment(
    "mine",
    65,
    title="A thing of its own",
    reading=["Read it *so*."],
    summary=lambda dataset: f"{dataset.tables['rows'].column('runs')[0]} runs",
    caption="A dot.",
    alternative="A dot.",
    tables=[FigureTable("rows", {"size": "how large", "runs": "how many"}, "All of it.")],
    design=design,
    analyse=analyse,
    draw=draw,
    verdicts=lambda dataset: [Verdict("It runs", "here", "it ran", HELD)],
)
"""


def test_a_new_folder_is_a_new_experiment(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found, made, drawn, summarised, judged and shown, and nothing else has changed."""
    (tmp_path / "rooms/mine").mkdir(parents=True)
    (tmp_path / "rooms/mine/__init__.py").write_text(NEW)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / "rooms")])
    try:
        assert list(experiments()) == [*NAMES[:-1], "mine", "claims"], "by its own number"
        output = tmp_path / "results"
        output.mkdir()
        shutil.copy(made.folder / "runs.sqlite", output)  # so that the others need no time
        command = ["reproduce", "mine", "claims", *OPTIONS, *ALONE, "--output", str(output)]
        assert main(command) == 0
        said = capsys.readouterr().out
        assert said.startswith("mine: 80 runs.\n")
        assert "\nclaims: " in said
    finally:
        sys.modules.pop("replicable_rl.experiments.mine", None)
    assert {path.name for path in output.glob("mine*")} == {
        *(f"mine.{kind}" for kind in ("json", "png", "svg", "pdf")),
        "mine-rows.csv",
    }
    page = (output / "index.html").read_text(encoding="utf-8")
    assert page.index('<section id="mine"') < page.index('<section id="claims"')
    for text in ("A thing of its own", "Read it <em>so</em>.", 'alt="A dot."', "how many", "mine-rows.csv"):
        assert text in page
    assert "It runs" in Dataset.load(output / "claims.json").tables["claims"].column("claim")


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["figur1"], "reproduce: no experiment is called 'figur1'. Did you mean 'figure1'?"),
        (["figure1", "nothing"], "reproduce: no experiment is called 'nothing'. Known: figure1, figure2, "),
        (["--runs", "1"], "reproduce: --runs must be an integer from 2 to 1000000, got 1."),
        (["--runs", "x"], "Invalid value for '--runs'"),
        (["--jobs", "0"], "reproduce: --jobs must be how many workers to use, or -1"),
    ],
)
def test_bad_input_is_one_sentence_and_makes_nothing(
    arguments: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments, "--output", str(tmp_path / "new")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"replicable-rl: {refusal}")
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_an_output_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/sub"):
        assert main(["reproduce", "figure1", "--output", str(tmp_path / place)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"replicable-rl: {tmp_path}/file")
        assert printed.err.count("\n") == 1


@pytest.mark.usefixtures("sketched")
def test_a_damaged_dataset_in_the_folder_is_said(tmp_path: Path) -> None:
    """On the page, in the place of its section: what was just made is not lost for it."""
    (tmp_path / "figure2.json").write_text(json.dumps({"format": "other"}))
    (tmp_path / "figure2.svg").write_text("<svg/>")
    assert main(["reproduce", "figure1", "--quick", *ALONE, "--output", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<code>figure2.json</code> is of another version, or was changed" in page
    assert 'id="figure1"' in page


@pytest.mark.usefixtures("sketched")
def test_data_without_its_figure_is_left_out_of_the_page(tmp_path: Path) -> None:
    """What a kill between the two can leave of an older version."""
    quick = ["--quick", "--runs", "3", *ALONE, "--output", str(tmp_path)]
    assert main(["reproduce", "figure1", *quick]) == 0
    (tmp_path / "figure1.svg").unlink()
    assert main(["reproduce", "levels", *quick]) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'id="levels"' in page
    assert 'id="figure1"' not in page
