"""Names of every type: kept by type and value in every kind of source, or refused in one sentence that says where."""

from __future__ import annotations

import datetime
import gzip
import json
import uuid
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

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
UTC = datetime.UTC


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
        from_transitions(source, gamma=0.9, **options)
    said = str(refusal.value)
    assert "\n" not in said
    assert len(said) < 400
    return said


def folder_of(folder: Path, *logs: dict[str, Any]) -> Path:
    folder.mkdir()
    for i, log in enumerate(logs, start=1):
        pq.write_table(pa.table(log), folder / f"{i}.parquet")
    return folder


# --- objects in a frame: nothing is guessed from the first of them ----------------------------------------


@pytest.mark.parametrize("row", [0, 7, ROWS - 1])
def test_a_rare_value_stays_what_it_is(row: int) -> None:
    names: list[Any] = [1, 2] * (ROWS // 2)
    names[row] = 2.5
    assert states(objects(names)) == states(log_of(names)) == (1.0, 2.0, 2.5)
    names[row] = 2**70
    assert states(objects(names)) == (1, 2, 2**70)


@pytest.mark.parametrize("row", [0, 7, ROWS - 1])
@pytest.mark.parametrize(
    ("usual", "rare", "said"),
    [
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], datetime.datetime(2020, 1, 1, 5),
         "datetime.datetime(2020, 1, 1, 5, 0) is a time, and others are dates, such as datetime.date(2020, 1, 1)"),
        ([True, False], 0, "0 is a whole number, and others are truth values, such as False"),
        ([1, 2], True, "True is a truth value, and others are whole numbers, such as 1"),
        ([1, 2], "two", "'two' is a text, and others are whole numbers, such as 1"),
        (["1", "2"], 1, "1 is a whole number, and others are texts, such as '1'"),
        (["a", "b"], b"a", "b'a' is bytes, and others are texts, such as 'a'"),
        ([0.5, 1.5], 2**60 + 1, "1152921504606846977 is too large for a float, and others are floats, such as 0.5"),
        ([(1, "a"), (2, "a")], (True, "a"), "(True, 'a') has a truth value in place 1, and others have whole numbers"),
        ([(1, "a"), (2, "a")], (1, 1), "(1, 1) has a whole number in place 2, and others have texts there, such as"),
    ],
)  # fmt: skip
def test_names_of_several_types_are_refused(usual: list[Any], rare: Any, said: str, row: int) -> None:
    names = usual * (ROWS // 2)
    names[row] = rare
    found = refused(objects(names))
    assert found.startswith(f"from_transitions, row {row + 1}: the state {said}")
    assert found.endswith("Convert all of them to one type, such as texts.")
    assert refused(log_of(names)) == found
    alone = usual[:1] * (ROWS - 1)  # as many names of each kind: rows decide which is rare
    alone.insert(row, rare)
    assert refused(log_of(alone)).startswith(f"from_transitions, row {row + 1}: the state ")


def test_small_logs_of_several_types_are_refused() -> None:
    for source in (log_of(["1", 1, 2]), pd.DataFrame(log_of(["1", 1, 2]))):
        assert refused(source).startswith("from_transitions, row 1: the state '1' is a text, and others are whole")
    actions = log_of([0, 0, 0]) | {"action": [1, "go", 2]}
    assert refused(actions).startswith("from_transitions, row 2: the action 'go' is a text")
    mixed = pl.DataFrame(log_of([0, 1]) | {"state": pl.Series([1, "a"], dtype=pl.Object)})
    assert refused(mixed).startswith("from_transitions, row 2: the state 'a' is a text")


def test_the_digest_of_objects_does_not_depend_on_their_order() -> None:
    names: list[Any] = [0.5, 1, np.float64(2.0), np.int64(7), -0.0, Decimal("0.25"), 3]
    found = {from_transitions(objects(np.roll(names, i)), gamma=0.9).sample.digest for i in range(len(names))}
    assert len(found) == 1
    assert states(objects(names)) == (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 7.0)


def test_other_columns_of_objects_are_read_by_value() -> None:
    log = log_of([1, 2] * 2000, rewards=pd.Series([1, 2] * 2000, dtype=object))
    log["reward"][7] = 2.5
    log["done"] = pd.Series([0] * 3999 + [True], dtype=object)
    log["walk"] = pd.Series([1] * 2000 + ["b"] * 2000, dtype=object)
    frame = pd.DataFrame(log)
    data = from_transitions(frame, gamma=0.9, done="done")
    assert sorted(set(data.reward.tolist())) == [1.0, 2.0, 2.5]
    assert data.process.ends
    assert refused(frame, episode="walk").startswith("from_transitions, row 2001: the episode 'b' is a text")
    for value, shown in (("much", "'much'"), ("1_0", "'1_0'"), (np.float64("nan"), "nan")):
        frame.loc[11, "reward"] = value
        assert refused(frame).startswith(f"from_transitions, row 12: the reward must be a finite number, got {shown}.")
    frame.loc[11, "reward"] = "1.5"  # as in a file
    assert 1.5 in from_transitions(frame, gamma=0.9).reward
    frame.loc[20, "done"] = "maybe"
    assert "row 21: done must be true or false, or 1 or 0, got 'maybe'" in refused(frame, done="done")


def test_one_column_may_be_several_things() -> None:
    log = {"state": [0, 1, 0, 1], "action": [0] * 4, "next_state": [1, 0, "over", None], "done": [0, 0, 1, True]}
    data = from_transitions(log, gamma=0.9, reward="done", done="done")
    assert data.process.states == (0, 1, "(end)")  # what comes after the end need not be a name
    assert data.reward_range == (0.0, 1.0)
    same = from_transitions({**log, "next_state": [1, 0, 0, 0]}, gamma=0.9, reward="done", done="done")
    assert data == same


def test_an_order_of_objects_is_that_of_the_values() -> None:
    days = [datetime.timedelta(days=number) for number in (2, 10, 9)]  # as texts they would be in another order
    log = log_of(["a", "c", "b"], walk=[1, 1, 1], at=days)
    log["next_state"] = ["b", "c", "c"]
    data = from_transitions(log, gamma=0.9, episode="walk", order="at")
    assert data.broken == 0
    assert data.starts is not None
    assert data.starts.tolist() == [1, 0, 0]


# --- types of names ------------------------------------------------------------------------------------------


KEPT: dict[str, tuple[list[Any], tuple[Any, ...]]] = {
    "bytes": ([b"b", "é".encode()], ("b", "é")),
    "decimals": ([Decimal("1.10"), Decimal("2.5")], (1.1, 2.5)),
    "whole decimals": ([Decimal(1), Decimal(20)], (1, 20)),
    "UUIDs": ([uuid.UUID(int=5), uuid.UUID(int=2)], (str(uuid.UUID(int=2)), str(uuid.UUID(int=5)))),
    "durations": (
        [datetime.timedelta(days=10), datetime.timedelta(hours=-2), datetime.timedelta(milliseconds=1)],
        ("-1 days +22:00:00", "0 days 00:00:00.001000", "10 days 00:00:00"),
    ),
    "zoned": (
        [datetime.datetime(2020, 1, 1, 5, 0, 0, 500_000, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
         datetime.datetime(2020, 1, 1, tzinfo=UTC)],
        ("2020-01-01 00:00:00+00:00", "2020-01-01 03:00:00.5+00:00"),
    ),
    "hours": ([datetime.time(3), datetime.time(1, 2, 3)], (datetime.time(1, 2, 3), datetime.time(3))),
    "tuples": ([(1, 2), (0, 7, 5)], ((0, 7, 5), (1, 2))),
    "large": ([2**60 + 1, 2**60, 2**53], (2**53, 2**60, 2**60 + 1)),
    "zeros": ([0.0, -0.0, 1.0], (0.0, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEPT)
def test_every_source_keeps_names_in_one_form(kind: str, tmp_path: Path) -> None:
    names, kept = KEPT[kind]
    table = pa.table(log_of([list(name) for name in names] if kind == "tuples" else names))
    polars = pl.DataFrame(log_of(names)) if kind == "UUIDs" else pl.from_arrow(table)  # it makes bytes of Arrow's
    sources: list[Any] = [log_of(names), pd.DataFrame(log_of(names)), polars, table]
    if kind != "durations":  # Parquet has no type for them
        pq.write_table(table, tmp_path / "log.parquet")
        sources.append(tmp_path / "log.parquet")
    read = [from_transitions(source, gamma=0.9) for source in sources]
    assert {data.process.states for data in read} == {kept}
    assert {tuple(map(type, data.process.states)) for data in read} == {tuple(map(type, kept))}
    assert len({data.sample.digest for data in read}) == 1
    read[0].save(tmp_path / "log.npz")
    loaded = rr.load_dataset(tmp_path / "log.npz")
    assert loaded == read[0]
    assert loaded.process == read[0].process
    assert from_transitions(log_of(names), gamma=0.9, states=sorted(set(names))).visits.sum() == len(names)


def test_names_of_every_type_are_solved_and_written() -> None:
    names = [uuid.UUID(int=1), uuid.UUID(int=2)] * 20
    data = from_transitions(log_of(names) | {"action": [2**60, 2**60 + 1, 2**60 + 1, 2**60] * 10}, gamma=0.9)
    found = rr.diagnose(data, rr.PlugInPolicy(0.1, 0.05, 0.2), resamples=5)
    assert json.loads(json.dumps(found.to_json()))["policy"][str(uuid.UUID(int=1))] in (str(2**60), str(2**60 + 1))


def test_types_of_pandas_are_names() -> None:
    cut = pd.cut([1, 2, 3], [0, 1, 3])
    assert states(pd.DataFrame(log_of(cut))) == states(log_of(cut)) == ("(0, 1]", "(1, 3]")
    assert states(pd.DataFrame(log_of(pd.period_range("2020-01", periods=2, freq="M")))) == ("2020-01", "2020-02")
    assert states(pd.DataFrame(log_of(pd.Categorical([1, 2, 1])))) == (1, 2)
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    assert states(pd.DataFrame(log_of(pd.Categorical(days)))) == tuple(days)
    assert refused(pd.DataFrame(log_of(pd.Categorical([1, "a"])))).startswith("from_transitions, row 2: the state 'a'")
    stamps = pd.Series([pd.Timestamp(2020, 1, 1), pd.Timestamp(2020, 1, 2)], dtype=object)
    assert list(map(type, states(pd.DataFrame(log_of(stamps))))) == [datetime.datetime] * 2
    assert states(pl.DataFrame(log_of(pl.Series([1, 2**70], dtype=pl.Int128)))) == (1, 2**70)
    assert states(log_of(np.array([b"a", b"b"]))) == ("a", "b")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([b"\xff", b"a"], "row 1: a name must be a text, or bytes that are one in UTF-8, got b'\\xff'"),
        ([frozenset([1]), 2], "row 1: a name must be a text, a number, a truth value, a date, a time, a duration, a"),
        ([{"a": 1}, {"a": 2}], "row 1: a name must be a text, a number"),
        ([1j, 2j], "row 1: a name must be a text, a number"),
        ([0.5, Fraction(1, 3)], "row 2: a name must be a number that 64 bits hold exactly, got Fraction(1, 3)"),
        ([Decimal("0.1234567890123456789"), 1], "row 1: a name must be a decimal that 64 bits hold, got Decimal"),
        ([10**38, 1], "row 1: a name must be a whole number of at most 38 digits, got 100000"),
        ([(1, None), (1, 2)], "row 1: a name must be a tuple without missing parts, got (1, None)"),
        (["a", "\ud800"], "row 2: a name must be a text of Unicode letters, got '\\ud800'"),
        ([pd.Timestamp("2020-01-01 00:00:00.000000001")] * 2, "row 1: a name must be a time in whole microseconds"),
        ([datetime.time(1, tzinfo=UTC)] * 2, "row 1: a name must be a time of day without a time zone"),
    ],
)  # fmt: skip
def test_what_has_no_written_form_is_refused(names: list[Any], said: str) -> None:
    for source in (log_of(names), objects(names)):
        assert refused(source).startswith(f"from_transitions, {said}")
    with pytest.raises(rr.InvalidInput, match=r"a name must be|must name each of them once"):
        from_transitions(log_of([1]), gamma=0.9, states=names)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (np.array([1j, 2]), "column 'state' must hold texts, numbers, truth values, dates or times, got complex128"),
        (np.array([1, 2], "M8[ns]"), "column 'state' must hold times in whole microseconds"),
        (np.array([1, 2], "m8[ns]"), "column 'state' must hold times in whole microseconds"),
        (pa.array([b"\xff", b"a"]), "the column 'state' holds bytes that are no text in UTF-8, such as"),
        (pa.array([{"a": 1}, {"a": 2}]), "the column 'state' holds STRUCT(a BIGINT), which is no name of a state"),
        (pa.array([1, 2], pa.timestamp("ns")), "the column 'state' holds times finer than a microsecond, such as"),
        (pa.array([Decimal("0.12345678901234567891"), Decimal(1)]), "the column 'state' holds decimals of more digits"),
        ("ab", "column 'state' must be a list with one entry a row, got 'ab'"),
        (np.zeros((2, 2)), "column 'state' must be a list with one entry a row, got array"),
    ],
)  # fmt: skip
def test_columns_that_are_no_names(column: Any, said: str) -> None:
    log = {"state": column, "next_state": column, "action": [0, 0], "reward": [0.0, 1.0]}
    source = pa.table(log) if isinstance(column, pa.Array) else log
    assert refused(source).startswith(f"from_transitions: {said}")


# --- large numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [2**53, 2**62 + 1, 2**64, 2**100])
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
    read[0].save(tmp_path / "log.npz")
    assert rr.load_dataset(tmp_path / "log.npz").process == read[0].process
    (tmp_path / "mixed.csv").write_text(f"{HEADER}{first + 1},go,1,0.5\n")
    assert f"the state '{first + 1}' is too large for a float, and others are floats" in refused(tmp_path / "mixed.csv")
    with pytest.raises(rr.InvalidInput, match="too large a whole number for the floats of another log"):
        rr.from_logs([log_of([2**53 + 1]), log_of([0.5])], gamma=0.9)


@pytest.mark.parametrize("top", [2**53, 2**62, 1e17, 1.2345678901234567e300])
def test_large_ranges_are_saved(top: float, tmp_path: Path) -> None:
    bins = {"state": rr.Bins([0.0, float(top)])}
    data = from_transitions(log_of([1, 2]), gamma=0.9, reward_range=(-top, top), bins=bins)
    data.save(tmp_path / "log.npz")
    assert rr.load_dataset(tmp_path / "log.npz").process == data.process


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
    outside = folder_of(tmp_path / "outside", good, log_of(["a", "b"], [0.0, 5.0]), good)
    found = from_transitions(outside, gamma=0.9, reward_range=(0, 1)).outside
    assert found is not None
    assert found.where == f"{outside}/2.parquet, row 2"


def test_a_file_of_a_folder_that_is_damaged_or_has_no_values(tmp_path: Path) -> None:
    last = log_of(["a", "b"]) | {"done": [0, 1]}
    folder = folder_of(tmp_path / "logs", last | {"next_state": pa.nulls(2), "done": [1, 1]}, last, last)
    assert states(folder, done="done") == ("a", "b", "(end)")
    assert refused(folder).startswith(f"{folder}/1.parquet, row 1: the next state is missing (2 rows are wrong)")
    whole = (folder / "3.parquet").read_bytes()
    for content in (b"no", b"PAR1" + b"x" * 50 + b"PAR1", whole[:-100]):
        (folder / "3.parquet").write_bytes(content)
        assert refused(folder).startswith(f"{folder}/3.parquet: ")


def test_numbers_of_a_folder_may_be_whole_in_some_files(tmp_path: Path) -> None:
    assert states(folder_of(tmp_path / "few", log_of([1, 2]), log_of([0.5, 1.0]))) == (0.5, 1.0, 2.0)
    assert states(folder_of(tmp_path / "wide", log_of([1]), log_of(pa.array([2], pa.uint64())))) == (1, 2)
    large = folder_of(tmp_path / "large", log_of([1, 2**53 + 1]), log_of([0.5, 1.0]))
    assert refused(large).startswith(f"{large}/1.parquet: the state in 'state' is a whole number that is too large for")


def test_parts_of_columns_are_no_columns(tmp_path: Path) -> None:
    nested = log_of(["a", "b"]) | {"more": [{"reward": 1, "list": [1]}] * 2, "last": [1, 2]}
    folder = folder_of(tmp_path / "nested", nested, nested)
    assert states(folder) == ("a", "b")
    nested.pop("reward")
    pq.write_table(pa.table(nested), folder / "2.parquet")
    assert refused(folder).startswith(f"{folder}/2.parquet: there is no column 'reward'")


def test_zero_is_one_name_in_any_order(tmp_path: Path) -> None:
    names = [0.0, -0.0, 1.0, -0.0]
    digests = set()
    for i in range(4):
        log = log_of(np.roll(names, i), [1.0] * 4, walk=[1, 2, 3, 4])
        folder = folder_of(tmp_path / str(i), log)
        data = from_transitions(folder, gamma=0.9, episode="walk")
        assert data.starts is not None
        assert data.starts.tolist() == [3, 1]
        digests.add(data.sample.digest)
        digests.add(from_transitions(log, gamma=0.9, episode="walk").sample.digest)
    assert len(digests) == 1


# --- headers, letters, blanks -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.jsonl", "logs"])
def test_the_line_that_is_not_utf_8(name: str, tmp_path: Path) -> None:
    good, bad = [b"a,go,1,b\n"] * 100, "é,go,1,b\n".encode("latin-1")
    path = tmp_path / name
    if name == "log.jsonl":
        good = [json.dumps(log_of("a")).encode() + b"\n"] * 101
        bad = good[0].replace(b'"a"', '"é"'.encode("latin-1"))
    data = b"".join([*([] if name == "log.jsonl" else [HEADER.encode()]), *good, bad, *good])
    if name == "logs":
        path.mkdir()
        (path / "1.csv").write_bytes(HEADER.encode() + good[0])
        path = path / "2.csv"
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    source = tmp_path / name
    assert refused(source) == f"{path}, line 102: is not UTF-8. Save the file as UTF-8."


def test_numbers_with_underscores_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "s,go,1,s\ns,go,1_0,s\n")
    assert refused(path).startswith(f"{path}, line 3: the reward must be a finite number, got '1_0'")
    path.write_text(HEADER.replace("\n", ",e,o\n") + "1,go,1,1_0,a,1\n1_0,go,1,1,a,1_0\n")
    assert "line 3: the state must be a number, for it has bins, got '1_0'" in refused(
        path, bins={"state": rr.Bins([5.0])}
    )
    assert "line 2: the next state '1_0' is not a number" in refused(path, states=[1.0, 10.0])
    assert "line 3: the order '1_0' is no number" in refused(path, states=["1", "1_0"], episode="e", order="o")


def test_blank_names_may_be_declared(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + ",go,1,s\ns,go,0,\n")
    data = from_transitions(path, gamma=0.9, states=["", "s"])
    assert data.process.states == ("", "s")
    assert data.visits.tolist() == [[1], [1]]
    assert data == from_transitions({**log_of(["", "s"], [1, 0]), "next_state": ["s", ""]}, gamma=0.9)
    assert "line 2: the state is missing" in refused(path, states=["s"])
    path.write_text(HEADER + " ,go,1,s\ns,go,0, \n")
    assert states(path, states=[" ", "s"]) == (" ", "s")
    assert "line 2: the state is missing" in refused(path, states=["", "s"])


# --- rewards near the largest float -------------------------------------------------------------------------------


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
        assert rr.Bins([-1e308, 1e308]).edges == (-1e308, 1e308)
