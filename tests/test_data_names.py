"""Names are texts or whole numbers: the same in every kind of source, or refused in one sentence that says where."""

from __future__ import annotations

import datetime
import json
import sqlite3
import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import replicable_rl as rr
from replicable_rl.data import from_transitions

pytestmark = pytest.mark.usefixtures("one_database")

ROWS = 4000  # an engine that guesses types looks at a thousand of them
HEADER = "state,action,reward,next_state\n"
NAN = float("nan")


def log_of(names: Any, rewards: Any = None, **more: Any) -> dict[str, Any]:
    many = len(names)
    rewards = [0.0] * (many - 1) + [1.0] if rewards is None else rewards
    return {"state": names, "action": ["go"] * many, "reward": rewards, "next_state": names, **more}


def objects(names: Any) -> pd.DataFrame:
    """A frame whose columns hold Python's objects."""
    column = pd.Series(names, dtype=object)
    return pd.DataFrame(log_of(column, rewards=[0.0] * len(column)))


def states(source: Any, **options: Any) -> tuple[Any, ...]:
    return from_transitions(source, gamma=0.9, **options).process.states


def refused(source: Any, **options: Any) -> str:
    with pytest.raises(rr.InvalidInput) as refusal:
        from_transitions(source, **{"gamma": 0.9, **options})
    said = str(refusal.value)
    assert "\n" not in said
    assert len(said) < 400
    return said


def folder_of(folder: Path, *logs: dict[str, Any]) -> Path:
    folder.mkdir()
    for i, log in enumerate(logs, start=1):
        pq.write_table(pa.table(log), folder / f"{i}.parquet")
    return folder


# --- columns of one type ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [1, ROWS - 1])
@pytest.mark.parametrize(
    ("usual", "rare"),
    [([1, 2], "two"), (["1", "2"], 1), ([1, 2], True), ([1, 2], 2.5), (["a", "b"], b"a"), ([1, 2], (1, 2))],
)
def test_a_rare_value_of_another_type_is_refused_with_its_row(usual: list[Any], rare: Any, row: int) -> None:
    names = usual * (ROWS // 2)
    names[row] = rare
    for source in (log_of(names), objects(names)):
        said = refused(source)
        assert said.startswith(f"from_transitions, row {row + 1}: the state must be a text or a whole number")
        assert repr(rare) in said


@pytest.mark.parametrize(
    "names",
    [
        [True, False],
        [0.5, 1.0],
        [Decimal("1.10"), Decimal("2.5")],
        [datetime.date(2026, 1, 31), datetime.date(2026, 2, 1)],
        [datetime.datetime(2026, 1, 31), datetime.datetime(2026, 2, 1)],
        [datetime.timedelta(days=1), datetime.timedelta(days=2)],
        [uuid.UUID(int=1), uuid.UUID(int=2)],
        [b"a", b"b"],
        [(1, 2), (3, 4)],
        [{"a": 1}, {"a": 2}],
        [1j, 2j],
    ],
    ids=lambda names: type(names[0]).__name__,
)
def test_what_is_neither_text_nor_whole_number_is_refused(names: list[Any], tmp_path: Path) -> None:
    sources: list[Any] = [log_of(names), pd.DataFrame(log_of(names)), objects(names)]
    if not isinstance(names[0], (tuple, dict)):
        sources.append({name: np.array(column) for name, column in log_of(names).items()})
    if not isinstance(names[0], (uuid.UUID, complex, datetime.timedelta)):  # Parquet has no type for these
        column = list(map(list, names)) if isinstance(names[0], tuple) else names
        sources.append(pa.table(log_of(column)))
        pq.write_table(sources[-1], tmp_path / "log.parquet")
        sources.append(tmp_path / "log.parquet")
    for source in sources:
        said = refused(source)
        assert "a text or a whole number" in said
        assert "Cast" in said
    with pytest.raises(rr.InvalidInput, match=r"a name must be a text or a whole number.* Cast it to text"):
        from_transitions(log_of([1]), gamma=0.9, states=[[names[0]]] if isinstance(names[0], tuple) else names)


def test_columns_that_are_none() -> None:
    for column in ("ab", np.zeros((2, 2)), np.ma.masked_array([1, 2])):
        assert "column 'state' must be a list with one entry a row" in refused(
            {"state": column, "next_state": [0, 0], "action": [0, 0], "reward": [0.0, 1.0]}
        )


def test_types_of_frames_that_are_texts_or_whole_numbers() -> None:
    assert states(pd.DataFrame(log_of(pd.Categorical([1, 2, 1])))) == (1, 2)
    assert states(pd.DataFrame(log_of(pd.Categorical(["b", "a"])))) == ("a", "b")
    assert states(log_of([np.str_("a"), np.str_("b")])) == ("a", "b")
    assert states(log_of([np.int8(3), 2])) == (2, 3)
    assert states(pl.DataFrame(log_of(pl.Series([1, 2], dtype=pl.Int128)))) == (1, 2)
    assert states(pl.DataFrame(log_of(pl.Series(["b", "a"], dtype=pl.Categorical)))) == ("a", "b")
    assert states(log_of([0.0, -0.0, 1.0])) == (0, 1)


@pytest.mark.parametrize("first", [2**53, 2**62 + 1])
def test_large_numbers_are_kept_exactly_everywhere(first: int, tmp_path: Path) -> None:
    log = log_of([first, first + 1])
    rows = list(zip(*log.values(), strict=True))
    (tmp_path / "log.csv").write_text(HEADER + "".join(",".join(map(str, row)) + "\n" for row in rows))
    lines = (json.dumps(dict(zip(log, row, strict=True))) + "\n" for row in rows)
    (tmp_path / "log.jsonl").write_text("".join(lines))
    sources = [log, pd.DataFrame(log), tmp_path / "log.csv", tmp_path / "log.jsonl"]
    read = [from_transitions(source, gamma=0.9) for source in sources]
    assert [data.process.states for data in read] == [(first, first + 1)] * 4
    assert len({data.sample.digest for data in read}) == 1
    rr.save(read[0], tmp_path / "log.npz")
    assert rr.load(tmp_path / "log.npz").process == read[0].process


def test_other_columns_of_objects() -> None:
    log = log_of([1, 2] * 2000, rewards=pd.Series([1, 2] * 2000, dtype=object))
    log["reward"][7] = 2.5
    log["done"] = pd.Series([0] * 3999 + [True], dtype=object)
    log["walk"] = pd.Series([uuid.UUID(int=1)] * 2000 + [uuid.UUID(int=2)] * 2000, dtype=object)
    frame = pd.DataFrame(log)
    data = from_transitions(frame, gamma=0.9, done="done", episode="walk")
    assert sorted(set(data.reward.tolist())) == [1.0, 2.0, 2.5]
    assert data.process.ends
    assert data.starts is not None
    assert data.starts.sum() == 2
    frame.loc[11, "reward"] = "much"
    assert refused(frame).startswith("from_transitions, row 12: the reward must be a number, got 'much'.")
    frame.loc[11, "reward"] = np.nan
    assert refused(frame).startswith("from_transitions, row 12: the reward must be a finite number")


def test_an_order_of_objects_is_that_of_the_values() -> None:
    days = [datetime.timedelta(days=number) for number in (2, 10, 9)]  # as texts they would be in another order
    log = log_of(["a", "c", "b"], walk=[1, 1, 1], at=days)
    log["next_state"] = ["b", "c", "c"]
    data = from_transitions(log, gamma=0.9, episode="walk", order="at")
    assert data.broken == 0
    assert data.starts is not None
    assert data.starts.tolist() == [1, 0, 0]


# --- whole numbers that came as floats, because NaN stands where an episode ended ----------------------------------


STEPS = {"walk": [0, 0, 0, 1, 1], "step": [0, 1, 2, 0, 1], "state": [0, 1, 2, 1, 2], "action": [0, 1, 0, 1, 1]}
STEPS |= {"reward": [0, 1, 0, 0, 1], "done": [0, 0, 1, 0, 1]}
AFTER = [1, 2, None, 2, None]
NONE = [None if after is None else float(after) for after in AFTER]
FLOATS = [NAN if after is None else after for after in NONE]
READ: dict[str, Any] = {"gamma": 0.9, "done": "done", "episode": "walk", "order": "step"}


def frame(after: Any = FLOATS, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(STEPS | {"next_state": after} | columns)


def polars(after: list[Any]) -> Any:
    return pl.DataFrame(STEPS | {"next_state": pl.Series(after, dtype=pl.Float64, strict=False)})


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


SOURCES: dict[str, Callable[[Path], Any]] = {
    "pandas, NaN": lambda _: frame(),
    "pandas, Int64": lambda _: frame(pd.array(AFTER, dtype="Int64")),
    "pandas, float32": lambda _: frame(np.array(FLOATS, dtype=np.float32)),
    "pandas, whole objects and None": lambda _: frame(pd.Series(AFTER, dtype=object)),
    "pandas, objects and NA": lambda _: frame(
        pd.Series([pd.NA if one is None else one for one in AFTER], dtype=object)
    ),
    "pandas, all states are floats": lambda _: frame(state=np.array(STEPS["state"], dtype=np.float64)),
    "Polars, null": lambda _: polars(NONE),
    "Polars, NaN": lambda _: polars(FLOATS),
    "Arrow": lambda _: pa.table(STEPS | {"next_state": pa.array(NONE, pa.float64())}),
    "arrays": lambda _: {name: column.to_numpy() for name, column in frame().items()},
    "lists": lambda _: STEPS | {"next_state": FLOATS},
    "lists and None": lambda _: STEPS | {"next_state": AFTER},
    "Parquet": lambda folder: written(FLOATS, folder, "parquet"),
    "a folder": a_folder,
    "CSV": lambda folder: written(FLOATS, folder, "csv"),
    "JSON lines": lambda folder: written(FLOATS, folder, "jsonl"),
    "Ibis on DuckDB": lambda folder: table(FLOATS, folder),
    "Ibis on SQLite": lambda folder: in_sqlite(FLOATS, folder),
}


@pytest.mark.parametrize("source", SOURCES)
def test_floats_that_are_whole_are_whole_numbers(source: str, tmp_path: Path) -> None:
    data = rr.from_transitions(SOURCES[source](tmp_path), **READ)
    assert data.process.states == (0, 1, 2, "(end)")
    assert {type(name) for name in data.process.states[:3]} == {int}
    assert data == rr.from_transitions(STEPS | {"next_state": [1, 2, 0, 2, 0]}, **READ)
    assert (data.broken, data.cut, data.after) == (0, 0, 0)


@pytest.mark.parametrize("value", [2.5, np.inf, -(2.0**53)])
def test_what_is_not_whole_is_refused_with_its_row(value: float, tmp_path: Path) -> None:
    after = [1.0, value, NAN, 2.0, NAN]
    path = written(after, tmp_path, "parquet")
    for source, where in (
        (frame(after), "from_transitions, row 2"),
        (polars(after), "from_transitions, row 2"),
        (path, f"{path}, row 2"),
        (table(after, tmp_path), "from_transitions"),
    ):
        rule = "the next state must be a text or a whole number below 2**53"
        assert refused(source, **READ).startswith(f"{where}: {rule}, got {value!r}. Cast all to text")


def test_what_comes_after_the_end_need_not_be_a_name(tmp_path: Path) -> None:
    after = [1.0, 2.0, 0.5, 2.0, np.inf]
    for source in (frame(after), table(after, tmp_path), written(after, tmp_path, "parquet")):
        assert rr.from_transitions(source, **READ) == rr.from_transitions(frame(), **READ)
    assert "row 3: the next state is missing (2 rows are wrong)" in refused(frame())


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
    assert rr.from_transitions(log, **both, states=data.process.states[:-1]) == data
    assert "row 4: the next state must be" in refused(frame(next_walk=[0.0, 0.0, 7.5, 1.5, NAN]), **both)


# --- folders of Parquet ---------------------------------------------------------------------------------------


def test_files_of_a_folder_are_named_with_their_rows(tmp_path: Path) -> None:
    good = log_of(["a", "b"])
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (log_of(["a", "b"], [1.0, float("nan")]), {}, "2.parquet, row 2: the reward must be a finite number, got"),
        (log_of(["a", None]), {}, "2.parquet, row 2: the state is missing"),
        (log_of(["a", "c"]), {"states": ["a", "b"]}, "2.parquet, row 2: states must name all that occur, and 'c' is"),
        ({name: good[name] for name in ("state", "action", "next_state")}, {},
         "2.parquet: there is no column 'reward' for the reward. It has state, action and next_state."),
        (log_of([1, 2]), {}, "2.parquet: the state in 'state' is of type BIGINT, and in"),
        (good | {"State": ["x", "y"]}, {}, "2.parquet: the columns 'state' and 'State' differ by capitals only."),
    ]  # fmt: skip
    for i, (bad, options, said) in enumerate(cases):
        folder = folder_of(tmp_path / str(i), good, bad, good)
        assert refused(folder, **options).startswith(f"{folder}/{said}")


def test_a_file_of_a_folder_that_is_damaged_or_has_no_values(tmp_path: Path) -> None:
    last = log_of(["a", "b"]) | {"done": [0, 1]}
    folder = folder_of(tmp_path / "logs", last | {"next_state": pa.nulls(2), "done": [1, 1]}, last, last)
    assert states(folder, done="done") == ("a", "b", "(end)")
    assert refused(folder).startswith(f"{folder}/1.parquet, row 1: the next state is missing (2 rows are wrong)")
    whole = (folder / "3.parquet").read_bytes()
    for content in (b"no", b"PAR1" + b"x" * 50 + b"PAR1", whole[:-100]):
        (folder / "3.parquet").write_bytes(content)
        assert refused(folder).startswith(f"{folder}/3.parquet: ")


def test_parts_of_columns_are_no_columns(tmp_path: Path) -> None:
    nested = log_of(["a", "b"]) | {"more": [{"reward": 1, "list": [1]}] * 2, "last": [1, 2]}
    folder = folder_of(tmp_path / "nested", nested, nested)
    assert states(folder) == ("a", "b")
    nested.pop("reward")
    pq.write_table(pa.table(nested), folder / "2.parquet")
    assert refused(folder).startswith(f"{folder}/2.parquet: there is no column 'reward'")


def test_two_columns_of_one_name_are_refused() -> None:
    names = ["state", "state", "action", "reward", "next_state"]
    twice = pd.DataFrame([["a", "b", "go", 1.0, "a"]], columns=names)
    arrow = pa.table([pa.array(["a"])] * 5, names=names)
    for source in (twice, arrow):
        assert refused(source) == "from_transitions: two columns are called 'state'. Rename one."
    capitals = pd.DataFrame([["z", "b", "go", 1.0, "b"]], columns=["State", *names[1:]])
    for source in (capitals, pa.Table.from_pandas(capitals), pl.from_pandas(capitals)):
        assert states(source) == ("b",)
    assert "'State' and 'state' differ by capitals only" in refused(capitals, state="State", next_state="state")


@pytest.mark.parametrize("many", [2, 1200])
def test_huge_rewards_get_a_sentence_and_no_warning(many: int) -> None:
    rewards = (np.linspace(-1.0, 1.0, many) * 1e308).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = from_transitions(log_of([1, 2] * (many // 2), rewards), gamma=0.9)
        assert str(data.summary())
        one, two = data.split(2)
        assert one.rows + two.rows == many
        for ask in (lambda: rr.diagnose(data), lambda: rr.solve(data, rr.PlugInPolicy(0.1, 0.05, 0.2), shared_seed=1)):
            with pytest.raises(rr.InvalidInput, match=r"values beyond 64-bit numbers\. Divide the rewards"):
                ask()
