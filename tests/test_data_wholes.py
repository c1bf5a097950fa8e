"""Whole numbers that came as floats, because NaN stands where an episode ended: every source has the same names."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import replicable_rl as rr

pytestmark = pytest.mark.usefixtures("one_database")

NAN = float("nan")
STEPS = {"walk": [0, 0, 0, 1, 1], "step": [0, 1, 2, 0, 1], "state": [0, 1, 2, 1, 2], "action": [0, 1, 0, 1, 1]}
STEPS |= {"reward": [0, 1, 0, 0, 1], "done": [0, 0, 1, 0, 1]}
AFTER = [1, 2, None, 2, None]
FLOATS = [NAN if after is None else float(after) for after in AFTER]
READ: dict[str, Any] = {"gamma": 0.9, "done": "done", "episode": "walk", "order": "step"}


def frame(after: Any = FLOATS, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(STEPS | {"next_state": after} | columns)


def expected() -> rr.Dataset:
    """The log with a column of whole numbers, some of them missing."""
    data = rr.from_transitions(frame(pd.array(AFTER, dtype="Int64")), **READ)
    assert data.process.states == (0, 1, 2, "(end)")
    assert data.broken == data.cut == 0
    return data


def objects(values: list[Any]) -> pd.DataFrame:
    return frame(pd.Series(values, dtype=object))


def polars(after: list[Any]) -> Any:
    import polars as pl

    return pl.DataFrame(STEPS | {"next_state": pl.Series(after, dtype=pl.Float64, strict=False)})


def arrow(after: list[Any]) -> Any:
    import pyarrow as pa

    return pa.table(STEPS | {"next_state": pa.array(after, pa.float64())})


def table(after: list[Any], folder: Path) -> Any:
    """Return the log as a table of Ibis, on DuckDB."""
    ibis = pytest.importorskip("ibis")
    path = folder / "log.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("here", frame(after))
        connection.execute("CREATE TABLE log AS FROM here")
    return ibis.duckdb.connect(path, read_only=True).table("log")


def in_sqlite(after: list[Any], folder: Path) -> Any:
    ibis = pytest.importorskip("ibis")
    connection = sqlite3.connect(folder / "log.sqlite")
    frame(after).to_sql("log", connection, index=False)
    connection.close()
    return ibis.sqlite.connect(folder / "log.sqlite").table("log")


def written(after: list[Any], folder: Path, ending: str) -> Path:
    """Return a file as pandas writes it."""
    path, log = folder / f"log.{ending}", frame(after)
    writers: dict[str, Callable[[], None]] = {
        "parquet": lambda: log.to_parquet(path),
        "csv": lambda: log.to_csv(path, index=False),
        "jsonl": lambda: log.to_json(path, orient="records", lines=True),
    }
    writers[ending]()
    return path


def a_folder(folder: Path) -> Path:
    """The first file holds no end, so its next states are whole numbers."""
    log, parts = frame(), folder / "parts"
    parts.mkdir()
    log[:2].astype({"next_state": int}).to_parquet(parts / "1.parquet")
    log[2:].to_parquet(parts / "2.parquet")
    return parts


NONE = [None if after is None else float(after) for after in AFTER]
SOURCES: dict[str, Callable[[Path], Any]] = {
    "pandas, NaN": lambda _: frame(),
    "pandas, Float64": lambda _: frame(pd.array(NONE, dtype="Float64")),
    "pandas, float32": lambda _: frame(np.array(FLOATS, dtype=np.float32)),
    "pandas, whole objects and None": lambda _: objects(AFTER),
    "pandas, floats and None": lambda _: objects(NONE),
    "pandas, objects and NA": lambda _: objects([pd.NA if after is None else after for after in AFTER]),
    "pandas, both columns nullable": lambda _: frame(state=pd.array(STEPS["state"], dtype="Int64")),
    "pandas, large integers": lambda _: frame(state=np.array(STEPS["state"], dtype=np.uint64)),
    "Polars, null": lambda _: polars(NONE),
    "Polars, NaN": lambda _: polars(FLOATS),
    "Arrow": lambda _: arrow(NONE),
    "arrays": lambda _: {name: column.to_numpy() for name, column in frame().items()},
    "lists": lambda _: STEPS | {"next_state": [NAN if after is None else after for after in AFTER]},
    "states are floats": lambda _: frame(
        pd.array(AFTER, dtype="Int64"), state=np.array(STEPS["state"], dtype=np.float64)
    ),
    "Parquet": lambda folder: written(FLOATS, folder, "parquet"),
    "a folder": a_folder,
    "CSV": lambda folder: written(FLOATS, folder, "csv"),
    "JSON lines": lambda folder: written(FLOATS, folder, "jsonl"),
    "Ibis on DuckDB": lambda folder: table(FLOATS, folder),
    "Ibis on SQLite": lambda folder: in_sqlite(FLOATS, folder),
}


@pytest.mark.parametrize("source", SOURCES)
def test_floats_beside_whole_numbers_are_whole_numbers(source: str, tmp_path: Path) -> None:
    data = rr.from_transitions(SOURCES[source](tmp_path), **READ)
    assert data == expected()
    assert data.sample == expected().sample
    assert (data.broken, data.cut, data.after) == (0, 0, 0)


@pytest.mark.parametrize("value", [2.5, np.inf, -(2.0**53), 1e300])
def test_what_is_not_whole_is_refused_with_its_row(value: float, tmp_path: Path) -> None:
    after = [1.0, value, NAN, 2.0, NAN]
    rule = f"the next state must be a whole number, as others are, and below 2**53 in size, got {value!r}. Mend"
    path = written(after, tmp_path, "parquet")
    arrays = {name: column.to_numpy() for name, column in frame(after).items()}
    for source, where in (
        (frame(after), "from_transitions, row 2"),
        (polars(after), "from_transitions, row 2"),
        (arrow(after), "from_transitions, row 2"),
        (arrays, "from_transitions, row 2"),
        (path, f"{path}, row 2"),
        (table(after, tmp_path), "from_transitions"),
    ):
        with pytest.raises(rr.InvalidInput) as refusal:
            rr.from_transitions(source, **READ)
        assert str(refusal.value).startswith(f"{where}: {rule}")
        assert "\n" not in str(refusal.value)


def test_what_comes_after_the_end_need_not_be_whole(tmp_path: Path) -> None:
    after = [1.0, 2.0, 0.5, 2.0, np.inf]
    for source in (frame(after), table(after, tmp_path), written(after, tmp_path, "parquet")):
        assert rr.from_transitions(source, **READ) == expected()


def test_where_no_end_is_named_a_missing_next_state_is_missing() -> None:
    with pytest.raises(rr.InvalidInput, match=r"row 3: the next state is missing \(2 rows are wrong\).*done="):
        rr.from_transitions(frame(), gamma=0.9)


@pytest.mark.parametrize("source", ["pandas", "lists", "Parquet", "CSV", "Ibis on DuckDB"])
def test_declared_whole_numbers_make_whole_numbers(source: str, tmp_path: Path) -> None:
    log = frame(state=[float(state) for state in STEPS["state"]], action=[float(action) for action in STEPS["action"]])
    sources: dict[str, Callable[[], Any]] = {
        "pandas": lambda: log,
        "lists": lambda: {name: list(map(float, column)) for name, column in log.items()},
        "Parquet": lambda: [log.to_parquet(tmp_path / "log.parquet"), tmp_path / "log.parquet"][1],
        "CSV": lambda: [log.to_csv(tmp_path / "log.csv", index=False), tmp_path / "log.csv"][1],
        "Ibis on DuckDB": lambda: pytest.importorskip("ibis").memtable(log),
    }
    data = rr.from_transitions(sources[source](), **READ, states=[0, 1, 2], actions=[0, 1])
    assert data == expected()
    plain = rr.from_transitions(sources[source](), **READ)
    assert plain.process.states == (0.0, 1.0, 2.0, "(end)")
    assert {type(name) for name in plain.process.states[:3] + plain.process.actions} == {float}


def test_declared_floats_stay_floats() -> None:
    names = STEPS | {"state": [0.0, 1.0, 2.0, 1.0, 2.0], "next_state": [1, 2, None, 2, None]}
    data = rr.from_transitions(names, **READ, states=[0.0, 1.0, 2.0])
    assert {type(name) for name in data.process.states[:3]} == {float}


def test_fractions_in_lists_are_numbers() -> None:
    data = rr.from_transitions(STEPS | {"next_state": [1, 2.5, None, 2, None]}, **READ)
    assert data.process.states == (0.0, 1.0, 2.0, 2.5, "(end)")


def test_parts_of_states_are_whole_numbers_too(tmp_path: Path) -> None:
    both: dict[str, Any] = {
        "state": ["state", "walk"],
        "next_state": ["next_state", "next_walk"],
        "gamma": 0.9,
        "done": "done",
    }
    log = frame(next_walk=[0.0, 0.0, NAN, 1.0, NAN])
    data = rr.from_transitions(log, **both)
    assert data.process.states == ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), "(end)")
    log.to_csv(tmp_path / "log.csv", index=False)
    assert rr.from_transitions(tmp_path / "log.csv", **both) == data
    declared = rr.from_transitions(log.astype({"state": float}), **both, states=data.process.states[:-1])
    assert declared == data
    with pytest.raises(rr.InvalidInput, match=r"row 4: the next state must be a whole number, .* got 1\.5\. Mend"):
        rr.from_transitions(frame(next_walk=[0.0, 0.0, 7.5, 1.5, NAN]), **both)


def test_one_state_written_in_two_ways_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("state,action,reward,next_state\n1,0,0,2\n1.0,0,0,2\n1,0,0,2.0\n2,0,1,1\n")
    data = rr.from_transitions(path, gamma=0.9)
    assert data.count.tolist() == [3, 1]
    assert data == rr.from_transitions(
        {"state": [1, 1, 1, 2], "action": [0] * 4, "reward": [0, 0, 0, 1], "next_state": [2, 2, 2, 1]}, gamma=0.9
    )
