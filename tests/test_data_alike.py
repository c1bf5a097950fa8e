"""One rule for every kind of source: names, orders, rewards, what is missing; and the row of what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import replicable_rl as rr
from replicable_rl.data import from_transitions
from tests.test_data_files import refused

pytestmark = pytest.mark.usefixtures("one_database")

NAN = float("nan")
Log = dict[str, list[Any]]
LOG: Log = {"state": ["a", "b"], "action": ["x", "y"], "reward": [1.0, 0.0], "next_state": ["b", "a"]}


def _csv(log: Log, folder: Path) -> Any:
    pd.DataFrame(log).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def _jsonl(log: Log, folder: Path) -> Any:
    rows = zip(*log.values(), strict=True)
    (folder / "log.jsonl").write_text("".join(json.dumps(dict(zip(log, row, strict=True))) + "\n" for row in rows))
    return folder / "log.jsonl"


def _parquet(log: Log, folder: Path) -> Any:
    pl.DataFrame(log).write_parquet(folder / "log.parquet")  # it keeps NaN, and pandas would not
    return folder / "log.parquet"


SOURCES: dict[str, Callable[[Log, Path], Any]] = {
    "dictionary": lambda log, _: log,
    "objects": lambda log, _: {name: np.array(values, dtype=object) for name, values in log.items()},
    "pandas": lambda log, _: pd.DataFrame(log),
    "Polars": lambda log, _: pl.DataFrame(log),
    "Arrow": lambda log, _: pa.table(log),
    "Parquet": _parquet,
    "CSV": _csv,
    "JSON lines": _jsonl,
}
TIMES = ["2024-01-31 09:59:00Z", "2024-01-31 09:59:00.5+00:00"]
UNSORTED = [  # texts that do not sort as what they stand for, and the row that is blamed
    (["9:59", "10:00"], 1),
    (["step_9", "step_10"], 1),
    (["Mon", "Tue"], 1),
    (["31.12.2023", "01.01.2024"], 1),
    (["12:01 AM", "01:00 AM"], 1),
    (["2024-1-5", "2024-1-10"], 1),
    (["2024-01-01 10:00+02:00", "2024-01-01 09:00+00:00"], 1),
    (["9 ms", "10 ms"], 1),
    (["b", "a"], 2),
]
every_source = pytest.mark.parametrize("source", SOURCES)


def row_of(source: str, row: int) -> str:
    """The place of a row, as messages name it."""
    return (
        f", line {row + 1}: " if source == "CSV" else f", line {row}: " if source == "JSON lines" else f", row {row}: "
    )


@every_source
def test_an_order_of_texts_is_one_of_numbers_or_of_times(source: str, tmp_path: Path) -> None:
    made = SOURCES[source]
    walk: dict[str, Any] = {"gamma": 0.9, "episode": "walk", "order": "step"}
    for steps, first in (
        (["9", "10"], "a"),
        (["10", "9"], "b"),
        (["10:00", "09:59"], "b"),
        (TIMES, "a"),
        (TIMES[::-1], "b"),
    ):
        data = from_transitions(made({**LOG, "walk": [1, 1], "step": steps}, tmp_path), **walk)
        assert data.starts is not None
        assert data.process.states[int(data.starts.argmax())] == first
    said = refused(made({**LOG, "walk": [1, 1], "step": ["9", "x"]}, tmp_path), episode="walk", order="step")
    assert f"{row_of(source, 2)}the order 'x' is no number, and others are." in said
    for steps, row in UNSORTED:
        said = refused(made({**LOG, "walk": [1, 1], "step": steps}, tmp_path), episode="walk", order="step")
        assert f"{row_of(source, row)}the order {steps[row - 1]!r} is no number." in said


@every_source
@pytest.mark.parametrize("use", ["state", "next_state"])
def test_what_is_no_number_is_missing(source: str, use: str, tmp_path: Path) -> None:
    numbers: Log = {**LOG, "state": [1.0, 2.0], "next_state": [2.0, 1.0]}
    said = refused(SOURCES[source]({**numbers, use: [1.0, NAN]}, tmp_path))
    assert f"{row_of(source, 2)}the {use.replace('_', ' ')} is missing. Mend the row or leave it out" in said


@every_source
def test_true_and_false_are_rewards(source: str, tmp_path: Path) -> None:
    plain = from_transitions(LOG, gamma=0.9)
    assert from_transitions(SOURCES[source]({**LOG, "reward": [True, False]}, tmp_path), gamma=0.9) == plain
    assert from_transitions(SOURCES[source]({**LOG, "reward": ["True", "false"]}, tmp_path), gamma=0.9) == plain
    said = refused(SOURCES[source]({**LOG, "reward": ["1", "yes"]}, tmp_path))
    assert f"{row_of(source, 2)}the reward must be a finite number, got 'yes'" in said


@every_source
def test_the_row_of_a_pair_that_is_not_allowed(source: str, tmp_path: Path) -> None:
    said = refused(SOURCES[source](LOG, tmp_path), allowed={"state": ["a", "b", "a"], "action": ["x", "x", "y"]})
    assert said.endswith(f"{row_of(source, 2)}the log has y in b, which is not allowed. Mend allowed or the log.")


def test_numbers_that_a_parquet_file_does_not_tell(tmp_path: Path) -> None:
    """Polars says how large numbers are without NaN, and DuckDB believes it of every row."""
    rooms: Log = {**LOG, "state": [1, 2], "next_state": [2.0, NAN], "over": [False, True]}
    assert from_transitions(_parquet(rooms, tmp_path), gamma=0.9, done="over").process.states == (1, 2, "(end)")
    warm: Log = {**LOG, "state": [1.5, NAN], "next_state": [2.5, 1.5]}
    assert "row 2: the state is missing" in refused(_parquet(warm, tmp_path), bins={"state": rr.Bins([2.0])})


# --- arguments and sources --------------------------------------------------------------------------------


def test_a_state_and_the_next_one_are_two_columns() -> None:
    assert "state and next_state must be two columns" in refused(LOG, next_state="state")
    fixed = {**LOG, "kind": [1, 1]}
    assert from_transitions(fixed, gamma=0.9, state=["state", "kind"], next_state=["next_state", "kind"]).n_states == 2


def test_sources_that_are_none() -> None:
    rows = [dict(zip(LOG, row, strict=True)) for row in zip(*LOG.values(), strict=True)]
    reader = pa.table(LOG).to_reader()  # which can be read only once
    for source in (rows, [], None, iter(rows), {1, 2}, 5, b"log.csv", np.zeros(3, dtype=[("state", int)]), reader):
        said = refused(source)
        assert said.startswith(
            "from_transitions: source must be a file, a folder, a data frame, an Arrow or Ibis table"
        )
        assert "Error" not in said
        assert "register" not in said
    assert from_transitions(reader.read_all(), gamma=0.9).rows == 2  # nothing was taken from it


# --- what a summary says ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["CSV", "JSON lines", "Parquet"])
def test_episodes_of_several_files_are_named(kind: str, tmp_path: Path) -> None:
    walk: Log = {**LOG, "next_state": ["b", ""], "walk": [1, 1], "over": [False, True]}
    ends: dict[str, Any] = {"gamma": 0.9, "episode": "walk", "done": "over"}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        SOURCES[kind](walk, tmp_path / name)
    both, one = from_transitions(tmp_path, **ends), from_transitions(tmp_path / "one", **ends)
    assert (both.joined, both.after, one.joined) == (1, 1, 0)
    assert both.starts is not None
    assert both.starts.sum() == 1
    assert "1 episode has rows in several files and is read as one: if the files" in str(both.summary())
    rr.save(both, tmp_path / "both.npz")
    assert rr.load(tmp_path / "both.npz").joined == 1
    going_on = SOURCES[kind]({**walk, "over": [False, False], "next_state": ["b", "a"]}, tmp_path / "one")
    assert going_on.exists()
    assert "several files" not in str(from_transitions(tmp_path, **ends).summary())
