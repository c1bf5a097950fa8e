"""Text logs: every value as it is written, types by all names, and the line of whatever is wrong."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.data import from_transitions

pytestmark = pytest.mark.usefixtures("one_database")

HEADER = "state,action,reward,next_state\n"
LATE = 120_000  # rows before the one that matters: an engine that guesses types has looked by then


def written(folder: Path, text: str | bytes, name: str = "log.csv") -> Path:
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def read(folder: Path, rows: str, name: str = "log.csv", header: str = HEADER, **options: Any) -> rr.Dataset:
    return from_transitions(written(folder, header + rows, name), **{"gamma": 0.9, **options})


def refused(folder: Path, rows: str, name: str = "log.csv", header: str = HEADER, **options: Any) -> str:
    with pytest.raises(rr.InvalidInput) as refusal:
        read(folder, rows, name, header, **options)
    said = str(refusal.value)
    assert "\n" not in said
    assert len(said) < 400
    return said.removeprefix(f"{folder}/")


# --- what is late counts as what is early -----------------------------------------------------------


def test_late_fractions_are_not_rounded(tmp_path: Path) -> None:
    many, last = "1,0,1,2\n" * LATE, "2,0,0.25,1\n"
    data = read(tmp_path, many + last)
    assert sorted(data.reward.tolist()) == [0.25, 1.0]
    assert read(tmp_path, last + many) == data


def test_late_labels_are_not_merged(tmp_path: Path) -> None:
    said = refused(tmp_path, "1,0,1,2\n" * LATE + "01,0,0,1\n")
    assert said.startswith(f"log.csv, line {LATE + 2}: the state '01' is a text, and others are whole numbers.")
    assert "give states=[...] as texts to read all of them as texts" in said
    data = read(tmp_path, "1,0,1,2\n" * 10 + "01,0,0,1\n", states=["01", "1", "2"])
    assert data.process.states == ("01", "1", "2")


@pytest.mark.parametrize(
    ("labels", "states"),
    [
        (["1", "-2", "10"], (-2, 1, 10)),
        (["1.0", "2.0", "10"], (1, 2, 10)),
        (["true", "false"], ("false", "true")),
        (["2026-01-31", "2025-12-01"], ("2025-12-01", "2026-01-31")),
        (["01", "02"], ("01", "02")),
        (["12345678901234567890", "12345678901234567891"], (12345678901234567890, 12345678901234567891)),
        (["1" * 39, "2" * 39], ("1" * 39, "2" * 39)),
        (["it's {0}", 'a ""b""'], ('a ""b""', "it's {0}")),
    ],
)
def test_names_are_whole_numbers_if_all_are_and_else_texts(
    labels: list[str], states: tuple[Any, ...], tmp_path: Path
) -> None:
    rows = "".join(f"{label},go,0,{labels[0]}\n" for label in labels)
    found = read(tmp_path, rows).process.states
    assert found == states
    assert list(map(type, found)) == list(map(type, states))


@pytest.mark.parametrize(
    ("one", "two"),
    [("01", "1"), ("1.10", "1.1"), ("1e3", "1000"), ("0", "-0.0"), ("0", "-0"), ("a", "7"), ("0.5", "1"), (".5", "5.")],
)
def test_names_of_several_kinds_and_fractions_are_refused(one: str, two: str, tmp_path: Path) -> None:
    for rows in (f"{one},go,0,{two}\n", f"{two},go,0,{one}\n", f"{one},go,0,{one}\n{two},go,0,{two}\n"):
        assert refused(tmp_path, rows).startswith("log.csv, line ")
    actions = f"home,{one},0,home\nhome,{two},0,home\n"
    assert "give actions=[...] as texts" in refused(tmp_path, actions)
    data = read(tmp_path, f"{one},go,0,{two}\n", states=[one, two])
    assert data.process.states == (one, two)


def test_one_state_written_in_two_ways_is_counted_once(tmp_path: Path) -> None:
    data = read(tmp_path, "1,0,0,2\n1.0,0,0,2\n1,0,0,2.0\n2,0,1,1\n")
    assert data.count.tolist() == [3, 1]
    assert data == read(tmp_path, "1,0,0,2\n1,0,0,2\n1,0,0,2\n2,0,1,1\n")


def test_declared_whole_numbers_ask_for_whole_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, "1,0,0,2\n", states=[2.0, 1.0]).process.states == (2, 1)
    assert refused(tmp_path, "1,0,0,2\na,0,0,2\n", states=[1, 2]).startswith("log.csv, line 3: the state 'a' is a text")
    two = from_transitions(
        written(tmp_path, "x,y,a,r,x2,y2\n1,01,0,0,2,1\n"), gamma=0.9, state=["x", "y"], next_state=["x2", "y2"],
        action="a", reward="r", states=[(1, "01"), (2, "1")],
    )  # fmt: skip
    assert two.visits.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    "labels",
    [[1, 2, 30], [1.0, 2.0, 30.0], ["a", "b", "x y"]],
)
def test_every_source_has_one_digest(labels: list[Any], tmp_path: Path) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = {"state": labels, "action": labels, "reward": [0, 0.5, 1], "next_state": labels[::-1]}
    table = pa.table(log)
    pq.write_table(table, tmp_path / "log.parquet")
    rows = "".join(",".join(map(str, row)) + "\n" for row in zip(*log.values(), strict=True))
    lines = "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist())
    sources = [tmp_path / "log.parquet", written(tmp_path, HEADER + rows), log, table, pd.DataFrame(log)]
    sources += [written(tmp_path, lines, "log.jsonl"), written(tmp_path, HEADER + rows, "log.csv.gz")]
    assert len({from_transitions(source, gamma=0.9).sample.digest for source in sources}) == 1


def test_json_keeps_numbers_and_texts_apart(tmp_path: Path) -> None:
    line = '{"state": %s, "action": "go", "reward": 1, "next_state": %s}\n'
    said = refused(tmp_path, "\n" + line % ("1", "2") + line % ('"1"', "2"), "log.jsonl", "")
    assert said.startswith("log.jsonl, line 3: the state '\"1\"' is a text, and others are whole numbers.")
    assert read(tmp_path, line % ('"1"', '"2"'), "log.jsonl", "").process.states == ("1", "2")
    assert read(tmp_path, line % ('"NA"', '"t"'), "log.jsonl", "").process.states == ("NA", "t")
    assert read(tmp_path, line % ("1", "2"), "log.jsonl", "", states=["1", "2"]).process.states == ("1", "2")
    assert "line 2: the state is missing" in refused(tmp_path, line % (1, 2) + line % ("null", 2), "log.jsonl", "")
    assert "line 1: the state '[1]' is no text and no whole number" in refused(
        tmp_path, line % ("[1]", 2), "log.ndjson", ""
    )
    assert "line 1: the state 'true' is no text" in refused(tmp_path, line % ("true", "false"), "log.ndjson", "")
    assert "line 2: must be an object" in refused(tmp_path, line % (1, 2) + "{\n", "log.ndjson", "")
    assert "no column 'next_state'" in refused(tmp_path, '{"state": 1, "action": 1, "reward": 1}\n', "log.jsonl", "")
    torn = line % (1, 2) * 1200 + '{"state": 1, "act\n'
    assert "line 1201: must be an object" in refused(tmp_path, torn, "log.jsonl", "")
    wrong = (line % (1, 2)).replace('"reward": 1', '"reward": "much"')
    assert "line 2: the reward must be a finite number, got" in refused(tmp_path, line % (1, 2) + wrong, "a.jsonl", "")


# --- headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv"])
def test_the_delimiter_is_the_one_of_the_header(mark: str, name: str, tmp_path: Path) -> None:
    text = '\ufeff"index, of; all|rows",action,next_state,state,reward\n0,go,"a ""b"",;|",c,1\r\n'.replace("\r\n", "\n")
    quoted = text.replace(",action,next_state,state,reward", ",action,next_state,state,reward".replace(",", mark))
    head, body = quoted.split("\n")[:2]
    body = mark.join(["0", "go", '"a ""b"",;|"', "c", "1"])
    data = from_transitions(written(tmp_path, f"{head}\n{body}\n", name), gamma=0.9)
    assert data.process.states == ('a "b",;|', "c")


def test_headers_that_are_none(tmp_path: Path) -> None:
    twice = refused(tmp_path, "a,0,1,b,c\n", header="state,action,reward,next_state,state\n")
    assert twice == "log.csv, line 1: two columns are called 'state'. Rename one."
    assert refused(tmp_path, "a,0,1,b\n", header="\n" + HEADER).startswith("log.csv, line 1: is blank")
    unnamed = read(tmp_path, "0,a,0,1,b,,\n", header=",state,action,reward,next_state,,\n")
    assert unnamed.process.states == ("a", "b")
    capitals = refused(tmp_path, "a,0,1,b\n", header="state,action,reward,State\n", next_state="State")
    assert "differ by capitals only" in capitals


def test_files_of_a_folder_may_order_their_columns(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    written(folder, HEADER + "a,go,1,b\n", "1.csv")
    written(folder, "next_state;reward;action;state;more\nb;0;go;c;1\n\nb;x;go;c;1\n", "2.csv")
    with pytest.raises(rr.InvalidInput, match=r"parts/2\.csv, line 4: the reward must be a finite number, got 'x'"):
        from_transitions(folder, gamma=0.9)
    written(folder, "next_state;reward;action;state;more\nb;0;go;c;1\n", "2.csv")
    assert from_transitions(folder, gamma=0.9).process.states == ("a", "b", "c")
    written(folder, "next_state,reward,action\nb,0,go\n", "3.csv")
    with pytest.raises(rr.InvalidInput, match=r"parts/3\.csv: there is no column 'state' for the state"):
        from_transitions(folder, gamma=0.9)


# --- lines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv"])
@pytest.mark.parametrize(
    ("row", "options", "said"),
    [
        ("a,go,much,b", {}, "the reward must be a finite number, got 'much'"),
        (",go,1,b", {}, "the state is missing. Mend the row or leave it out."),
        ("a,go,1,  ", {}, "the next state is missing."),
        ("a,NA,1,b", {}, "the action is missing, got 'NA'"),
        ("nan,go,1,b", {}, "the state is missing, got 'nan'. Mend the row or leave it out, or name it in states="),
        ("a,go,1", {}, "has 3 fields, and the header has 4."),
        ("a,go,1,c", {"states": ["a", "b"]}, "states must name all that occur, and 'c' is not among the 2"),
        ("7,go,1,b", {}, "the state '7' is a whole number, and others are texts."),
    ],
)  # fmt: skip
def test_the_line_of_what_is_wrong(name: str, row: str, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    before = 'a,go,1,b\n\n"a",go,0.5,"b"\n'
    text = HEADER + before + row + "\na,go,1,b\n"
    header, _, rows = (text.replace(",", "\t") if name.endswith(".tsv") else text).partition("\n")
    found = refused(tmp_path, rows, name, header + "\n", **options)
    assert found.startswith(f"{name}, line 5: {said}"), found


def test_lines_inside_of_quotes_are_counted(tmp_path: Path) -> None:
    said = refused(tmp_path, 'a,go,1,b\na,go,1,b,"x\ny\nz"\na,go,much,b,c\n'.replace("1,b\n", "1,b,\n"),
                   header=HEADER.replace("\n", ",note\n"))  # fmt: skip
    assert said.startswith("log.csv, line 6: the reward must be a finite number")


def test_marks_of_missing_values_may_be_declared(tmp_path: Path) -> None:
    data = read(tmp_path, "NA,null,1,b\n", states=["NA", "b"], actions=["null"])
    assert data.process.states == ("NA", "b")


def test_numbers_with_underscores_are_none(tmp_path: Path) -> None:
    assert refused(tmp_path, "s,go,1,s\ns,go,1_0,s\n").startswith(
        "log.csv, line 3: the reward must be a finite number, got '1_0'"
    )
    header = HEADER.replace("\n", ",e,o\n")
    rows = "1,go,1,1_0,a,1\n1_0,go,1,1,a,1_0\n"
    said = refused(tmp_path, rows, header=header, bins={"state": rr.Bins([5.0])})
    assert "line 2: the next state must be a number, for it has bins, got '1_0'" in said
    said = refused(tmp_path, rows, header=header, states=["1", "1_0"], episode="e", order="o")
    assert "line 3: the order '1_0' is no number" in said


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.jsonl"])
def test_the_line_that_is_not_utf_8(name: str, tmp_path: Path) -> None:
    good, bad = [b"a,go,1,b\n"] * 100, "é,go,1,b\n".encode("latin-1")
    if name == "log.jsonl":
        row = {"state": "a", "action": "go", "reward": 0, "next_state": "a"}
        good = [json.dumps(row).encode() + b"\n"] * 101
        bad = good[0].replace(b'"a"', '"é"'.encode("latin-1"))
    path = written(tmp_path, b"".join([*([] if name == "log.jsonl" else [HEADER.encode()]), *good, bad, *good]), name)
    with pytest.raises(rr.InvalidInput, match=rf"^{path}, line 102: is not UTF-8\. Save the file as UTF-8\.$"):
        from_transitions(path, gamma=0.9)


# --- ends and orders ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "good"), [("true", True), ("False", True), ("1", True), ("0", True), ("1.0", True),
                                             ("2", False), ("0.5", False), ("", False), ("yes", False)])  # fmt: skip
def test_an_end_is_true_or_false(value: str, good: bool, tmp_path: Path) -> None:
    header, row = HEADER.replace("\n", ",done\n"), f"a,go,1,b,0\na,go,1,b,{value}\n"
    if good:
        assert read(tmp_path, row, header=header, done="done").rows == 2
    else:
        said = refused(tmp_path, row, header=header, done="done")
        assert said.startswith(f"log.csv, line 3: done must be true or false, or 1 or 0, got {value!r}")


@pytest.mark.parametrize("value", [2, 0.5, np.nan])
def test_an_end_in_a_frame_is_true_or_false(value: float) -> None:
    log = {"state": [0, 1], "action": [0, 0], "reward": [0, 1], "next_state": [1, 0], "done": [1, value]}
    with pytest.raises(rr.InvalidInput, match="row 2: done must be true or false, or 1 or 0"):
        from_transitions(log, gamma=0.9, done="done")


def test_the_name_of_the_end_is_taken(tmp_path: Path) -> None:
    rows, header = "a,go,1,(end),0\n(end),go,1,a,1\n", HEADER.replace("\n", ",done\n")
    assert 'a state is called "(end)"' in refused(tmp_path, rows, header=header, done="done")
    assert read(tmp_path, rows, header=header).process.states == ("(end)", "a")
    assert "reward_range must hold 0" in refused(
        tmp_path, "a,go,1,a,1\n", header=header, done="done", reward_range=(0.5, 1)
    )


def test_an_order_is_one_of_numbers(tmp_path: Path) -> None:
    header = HEADER.replace("\n", ",episode,step\n")
    rows = [f"s{i},go,1,s{i + 1},x,{i}\n" for i in range(12)]
    data = read(tmp_path, "".join(sorted(rows)), header=header, episode="episode", order="step")
    assert data.broken == 0
    assert data.starts is not None
    assert data.process.states[int(data.starts.argmax())] == "s0"
    said = refused(tmp_path, "".join(rows) + "a,go,1,b,x,soon\n", header=header, episode="episode", order="step")
    assert said.startswith("log.csv, line 14: the order 'soon' is no number, and others are")


def test_episodes_that_break_off_are_counted(tmp_path: Path) -> None:
    header = HEADER.replace("\n", ",done,episode\n")
    rows = "a,go,1,b,0,1\nb,go,1,a,1,1\na,go,1,b,0,2\na,go,1,a,1,3\n"
    data = read(tmp_path, rows, header=header, done="done", episode="episode")
    assert data.cut == 1
    assert "1 of 3 episodes breaks off: the last row is not done" in data.summary().warnings
    rr.save(data, tmp_path / "log.npz")
    assert rr.load(tmp_path / "log.npz").cut == 1
    assert read(tmp_path, rows, header=header, episode="episode").cut == 0  # nobody says what an end is
    once = str(read(tmp_path, "a,go,1,a\n").summary())
    assert once.startswith("1 row; 1 state, 1 action\n1 of 1 pair was tried: 1 time at least, 1 time in the middle")


def test_bins_of_texts_need_numbers(tmp_path: Path) -> None:
    bins = {"state": rr.Bins([10, 20])}
    assert read(tmp_path, "1,go,0,2.5\n", bins=bins).process.states == rr.Bins([10, 20]).labels
    said = refused(tmp_path, "1,go,0,2.5\n1,go,0,hot\n", bins=bins)
    assert said.startswith("log.csv, line 3: the next state must be a number, for it has bins, got 'hot'")
    one, two = read(tmp_path, "1,go,0,2\n", bins=bins), read(tmp_path, "1,go,0,25\n", bins=bins)
    assert one.process == two.process


# --- other sources ----------------------------------------------------------------------------------


def test_texts_for_rewards_in_a_database(tmp_path: Path) -> None:
    ibis = pytest.importorskip("ibis")
    with sqlite3.connect(tmp_path / "log.sqlite") as database:
        database.execute("CREATE TABLE log (state text, action text, reward text, next_state text)")
        database.execute("INSERT INTO log VALUES ('a', 'go', 'x', 'b')")
    database.close()
    backend = ibis.sqlite.connect(tmp_path / "log.sqlite")
    with pytest.raises(rr.InvalidInput, match="the reward must be a column of numbers, got string in 'reward'") as said:
        from_transitions(backend.table("log"), gamma=0.9)
    assert "SELECT" not in str(said.value)
    backend.disconnect()
