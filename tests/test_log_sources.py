"""Files and frames are read as plain Python reads them, or refused in one sentence; databases have the same digests."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import replicable_rl as rr
from replicable_rl.logs import from_transitions, sources
from replicable_rl.logs.counting import STRETCHES
from tests.statistics import SEED

pytestmark = pytest.mark.usefixtures("one_database")
pytest.importorskip("ibis")

Rows = Counter[tuple[str, str, float, str]]
NAMES = ("state", "action", "reward", "next_state")
HEADER = ",".join(NAMES) + "\n"
ROWS = "ab,x,1,cd\ncd,y,0,ab\n"
LINE = '{"state": "ab", "action": "x", "reward": 1, "next_state": "cd"}\n'


def read(source: Any, **options: Any) -> Rows | None:
    """What a log says, as texts; None where it is refused, in one sentence."""
    try:
        data = from_transitions(source, gamma=0.9, **options)
    except rr.InvalidInput as refusal:
        said = str(refusal)
        assert "\n" not in said
        assert "Traceback" not in said
        return None
    s, a = list(map(str, data.process.states)), list(map(str, data.process.actions))
    found: Rows = Counter()
    for key, reward, count in zip(data.key.tolist(), data.reward.tolist(), data.count.tolist(), strict=True):
        found[s[key // len(s) // len(a)], a[key // len(s) % len(a)], reward, s[key % len(s)]] += count
    return found


def plain(file: Path) -> Rows | None:
    """What Python's own readers make of a file, where they accept it."""
    try:
        data = file.read_bytes().decode("utf-8-sig")
        if ".csv" in file.name:
            header, *rows = csv.reader(io.StringIO(data, newline=""), strict=True)
            kept = [dict(zip(header, row, strict=True)) for row in rows if row]
        else:
            kept = [json.loads(line) for line in data.split("\n") if line.strip()]
        return Counter((row["state"], row["action"], float(row["reward"]), row["next_state"]) for row in kept)
    except (ValueError, KeyError, TypeError, csv.Error):
        return None


def written(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# --- texts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_text_that_is_changed_anywhere_is_read_as_python_reads_it_or_refused(ending: str, tmp_path: Path) -> None:
    """Letters that matter to readers are put in, doubled and left out at random."""
    rng = np.random.default_rng(SEED)
    marks = [*',,,""""\n\n\r\0 \t;a|\v}]{\\', "\r\n", '""', ',""', '"\n"', ",,", "null"]
    good, many = LINE * 3 if ending == "jsonl" else HEADER + ROWS + 'ab,"x, ""y""",0,"c\nd"\n', 0
    for i in range(200):
        text = good.replace("\n", "\r\n") if i % 3 == 0 and ending != "jsonl" else good
        for _ in range(rng.integers(0, 3)):
            at = int(rng.integers(len(text) + 1))
            text = text[:at] + str(rng.choice(marks)) + text[at + int(rng.integers(2)) :]
        file = written(tmp_path / f"{i}.{ending}", text)
        found = read(file)
        assert found is None or found == plain(file), text
        many += found is not None
    assert many > 50  # a third is not changed at all


GZ = gzip.compress((HEADER + ROWS).encode(), mtime=0)
TEXTS: dict[str, tuple[str, str | bytes, bool]] = {  # the file, what it holds, and whether it can be read
    "one field more, and empty": ("a.csv", HEADER + ROWS + "ab,x,1,cd,\n", False),
    "a row that is shifted": ("a.csv", "t," + HEADER + "36,6,ab,x,1,cd\n37,ab,x,1,cd\n", False),
    "an unnamed column": ("a.csv", HEADER.replace("\n", ",\n") + "ab,x,1,cd,\n", True),
    "a line feed in the header": ("a.csv", HEADER.replace("\n", ',"no\nte"\n') + "ab,x,1,cd,k\n", False),
    "a line feed in a value": ("a.csv", HEADER + '"a\nb",x,1,"c\n\nd"\n' * 3, True),
    "a quote in a value": ("a.csv", HEADER + 'a"b,x,1,5"\n', True),
    "a letter after a quote": ("a.csv", HEADER + '"a"b,x,1,5\n', False),
    "one field less": ("a.csv", HEADER + ROWS + "ab,x,1\n", False),
    "an open quote": ("a.csv", HEADER + ROWS + '"ab,x,1,cd\n' + ROWS, False),
    "a byte 0": ("a.csv", HEADER + ROWS + "ab\0,x,1,cd\n", True),
    "latin letters": ("a.csv", (HEADER + ROWS + "é,x,1,cd\n").encode("latin-1"), False),
    "a mark of bytes in the beginning": ("a.csv", "\ufeff" + HEADER + ROWS, True),
    "carriage returns alone": ("a.csv", (HEADER + ROWS).replace("\n", "\r"), False),
    "lines that end in two ways": ("a.csv", HEADER + ROWS * 9 + ROWS.replace("\n", "\r\n"), False),
    "carriage returns and line feeds": ("a.csv", (HEADER + ROWS).replace("\n", "\r\n"), True),
    "no last line feed": ("a.csv", (HEADER + ROWS)[:-1], True),
    "blank lines": ("a.csv", HEADER + "\n\n" + ROWS + "\n\n", True),
    "numbers with a sign and without": ("a.csv", HEADER + "7,x,1,7\n+7,x,1,7\n", False),
    "numbers beyond floats": ("a.csv", HEADER + "9007199254740993,x,1,9007199254740992\n", True),
    "no finite reward": ("a.csv", HEADER + "ab,x,-inf,cd\n", False),
    "minus zero": ("a.csv", HEADER + "ab,x,-0.0,cd\nab,x,0,cd\n", True),
    "a late object with a comma": ("a.jsonl", LINE * 1500 + LINE.replace("}", ",}"), False),
    "a late name that is given twice": ("a.jsonl", LINE * 1500 + LINE.replace("{", '{"state": "q", '), False),
    "a late comma in a text": ("a.jsonl", LINE * 1500 + LINE.replace("ab", ',}\\"]'), True),
    "blank lines between objects": ("a.jsonl", f"\n{LINE} \r\n{LINE}", True),
    "latin letters of JSON": ("a.jsonl", LINE.replace("ab", "é").encode("latin-1"), False),
    "a packed file": ("a.csv.gz", GZ, False),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_is_read_as_python_reads_it_or_refused(name: str, tmp_path: Path) -> None:
    file, data, can_be_read = TEXTS[name]
    path = written(tmp_path / file, data)
    assert read(path) == (plain(path) if can_be_read else None)
    both = [written(tmp_path / "both" / f"{i}{file}", data) for i in range(2)]
    alone = plain(both[0]) or Counter()
    assert read(tmp_path / "both") == (alone + alone if can_be_read else None)


# --- folders --------------------------------------------------------------------------------------------

FRAME = pl.DataFrame({"state": ["ab", "cd"], "action": ["1", "2"], "reward": [1.0, 0.0], "next_state": ["cd", "ab"]})
FRAMES: Rows = Counter([("ab", "1", 1.0, "cd"), ("cd", "2", 0.0, "ab")])


def saved(frame: pl.DataFrame, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write = {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}[path.suffix]
    with path.open("wb") as stream:  # Polars too would take its name for a pattern
        write(stream)  # type: ignore[operator]
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("folder", [f"{name}=7" for name in ("action", "Action", "c0")] + ["x=1/action=7"])
def test_a_folder_does_not_replace_a_column(kind: str, folder: str, tmp_path: Path) -> None:
    paths = [saved(FRAME, tmp_path / folder / f"{name}.{kind}") for name in ("a", "b")]
    assert read(tmp_path / folder) == FRAMES + FRAMES
    assert read(paths[0]) == FRAMES
    assert read(saved(FRAME.drop("action"), tmp_path / "action=7" / f"c.{kind}")) is None


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("name", "other"), [("a[12]", "a1"), ("a[!1]", "a2"), ("a*", "ab"), ("**", "ab"), ("it's", "ab")]
)
def test_the_name_of_a_file_is_no_pattern(kind: str, name: str, other: str, tmp_path: Path) -> None:
    for file, state in ((name, "ab"), (other, "ef")):
        saved(FRAME.with_columns(state=pl.lit(state)), tmp_path / f"{file}.{kind}")
    one, two = read(tmp_path / f"{name}.{kind}"), read(tmp_path / f"{other}.{kind}")
    assert one is not None
    assert two is not None
    assert {row[0] for row in one} == {"ab"}
    assert read(tmp_path) == one + two


@pytest.mark.parametrize(
    ("files", "many"),
    [
        (["1.csv", "2.CSV", ".4.csv", "notes.md"], 2),
        (["1.csv", "day=1/3.csv"], 0),
        (["1.csv", "2.jsonl"], 0),
        (["1.csv", "2.csv.gz"], 0),
        (["1.csv", "2.csv -> 1.csv"], 0),
        (["1.csv", "2.csv -> nowhere"], 0),
        (["1.csv", "2.csv -> ../out/1.csv"], 2),
        (["1.csv", "2.csv = "], 0),
        (["1.csv", f"2.csv = {HEADER}"], 1),
        (["1.csv", "2.csv = next_state,reward,action,state\ncd,0,x,ab\n"], 0),
    ],
)
def test_every_file_of_a_folder_counts_once(files: list[str], many: int, tmp_path: Path) -> None:
    written(tmp_path / "out" / "1.csv", HEADER + ROWS)
    for name in files:
        path, _, link = name.partition(" -> ")
        path, is_given, given = path.partition(" = ")
        if link:
            (tmp_path / "log" / path).symlink_to(link)
        else:
            text = given if is_given else LINE if path.endswith("jsonl") else HEADER + ROWS
            written(tmp_path / "log" / path, text)
    found = read(tmp_path / "log")
    assert (0 if found is None else found.total()) == 2 * many


# --- frames and tables ----------------------------------------------------------------------------------

LOG: dict[str, list[Any]] = {
    "state": ["ab", "cd"],
    "action": ["x", "y"],
    "reward": [1.0, 0.0],
    "next_state": ["cd", "ab"],
}
ODD = np.array([0, 2, 255, 1], dtype=np.uint8).view(np.bool_)  # False, True, True, True
MANY = {name: values * 2 for name, values in LOG.items()}


@pytest.mark.parametrize("make", [lambda flags: flags, lambda flags: np.repeat(flags, 2)[::2], pd.Series])
def test_truth_values_are_more_than_the_bytes_0_and_1(make: Callable[[Any], Any]) -> None:
    flags, plain = make(ODD), [False, True, True, True]
    for frame in (dict, pd.DataFrame):
        assert read(frame({**MANY, "done": flags}), done="done") == read({**MANY, "done": plain}, done="done")
        assert read(frame({**MANY, "reward": flags})) == read({**MANY, "reward": [0.0, 1.0, 1.0, 1.0]})


STEPS, ORDERED = {**LOG, "e": [1, 1]}, {"episode": "e", "order": "o"}
LEVELS = pl.Enum(["b", "a"])
CATEGORIES = pd.Categorical(["ab", "cd"], categories=["cd", "ab", "zz"])
COLUMNS: dict[str, tuple[Callable[[], Any], dict[str, Any], Any]] = {  # a frame, its options, and what it says
    "categories": (lambda: pd.DataFrame({**LOG, "state": CATEGORIES}), {}, LOG),
    "an enumeration": (lambda: pl.DataFrame(LOG, schema_overrides={"state": pl.Enum(["cd", "ab"])}), {}, LOG),
    "a dictionary of Arrow": (lambda: pa.table({**LOG, "state": pa.array(LOG["state"]).dictionary_encode()}), {}, LOG),
    "a masked array": (lambda: {**LOG, "reward": np.ma.array([1.0, 0.0], mask=[False, True])}, {}, None),
    "columns by capitals": (lambda: pd.DataFrame({"State": [1, 2], **LOG}), {}, LOG),
    "small floats": (lambda: {**LOG, "action": np.array([2**24, 2**24 + 1], dtype=np.float32)}, {}, None),
    "large floats": (lambda: {**LOG, "action": np.array([2.0**53, 1.0])}, {}, None),
    "a column without rows": (lambda: {**LOG, "action": []}, {}, None),
    "levels in order": (lambda: pl.DataFrame({**STEPS, "o": pl.Series(["a", "b"], dtype=LEVELS)}), ORDERED, None),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_read_as_the_list_that_it_is_or_refused(name: str) -> None:
    made, options, expected = COLUMNS[name]
    rows = zip(*(map(float if one == "reward" else str, (expected or LOG)[one]) for one in NAMES), strict=True)
    assert read(made(), **options) == (None if expected is None else Counter(rows))


# --- what cannot be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("log.csv", GZ),
        ("log.parquet", GZ),
        ("log.csv", b"PAR1....PAR1"),
        ("log.csv", (HEADER + ROWS).encode("utf-16")),
        ("log.csv", b""),
        ("log.jsonl", b""),
        ("log.parquet", b"PAR1" + b"x" * 50 + b"PAR1"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_gets_a_sentence(name: str, data: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / name, data)
    with pytest.raises(rr.InvalidInput, match=f"^{path}"):
        from_transitions(path, gamma=0.9)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["log.csv", "log.tsv"])
def test_the_delimiter_is_the_one_of_the_header(mark: str, name: str, tmp_path: Path) -> None:
    header = mark.join(['"index, of; all|rows"', "action", "next_state", "state", "reward"])
    text = f"\ufeff{header}\n" + mark.join(["0", "go", '"a ""b"",;|"', "c", "1"]) + "\n"
    data = from_transitions(written(tmp_path / name, text), gamma=0.9)
    assert data.process.states == ('a "b",;|', "c")


def test_files_of_parquet_agree(tmp_path: Path) -> None:
    nested = FRAME.with_columns(more=pl.struct(reward=1.5))
    for i in (1, 2):
        nested.write_parquet(tmp_path / f"{i}.parquet")
    assert from_transitions(tmp_path, gamma=0.9).rows == 4
    for bad, said in (
        (nested.drop("reward"), "there is no column 'reward'"),
        (nested.with_columns(state=pl.Series([1, 2]), next_state=pl.Series([2, 1])), "'state' is of type BIGINT"),
        (nested.with_columns(reward=pl.Series([1.0, float("nan")])), "reward must be a finite number in row 2 of .*2"),
        (nested.with_columns(state=pl.Series(["ab", None])), "the state is missing in row 2 of .*2.parquet"),
    ):
        bad.write_parquet(tmp_path / "2.parquet")
        with pytest.raises(rr.InvalidInput, match=said):
            from_transitions(tmp_path, gamma=0.9)
    (tmp_path / "2.parquet").write_bytes((tmp_path / "1.parquet").read_bytes()[:-100])
    with pytest.raises(rr.InvalidInput, match=r"2\.parquet"):
        from_transitions(tmp_path, gamma=0.9)


def test_numbers_that_a_parquet_file_does_not_tell(tmp_path: Path) -> None:
    """Polars says how large numbers are without NaN, and DuckDB believes it of every row."""
    path = tmp_path / "log.parquet"
    rooms = {**LOG, "state": [1, 2], "next_state": [2.0, float("nan")], "over": [False, True]}
    pl.DataFrame(rooms).write_parquet(path)
    assert from_transitions(path, gamma=0.9, done="over").process.states == (1, 2, "(end)")
    for options in ({}, {"bins": {"state": rr.Bins([2.0])}}):
        pl.DataFrame({**LOG, "state": [1.0, float("nan")], "next_state": [2.0, 1.0]}).write_parquet(path)
        with pytest.raises(rr.InvalidInput, match=r"the state .* in row 2"):
            from_transitions(path, gamma=0.9, **options)  # type: ignore[arg-type]


def test_a_wrong_value_is_told_with_its_row(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", HEADER + ROWS)
    written(tmp_path / "2.csv", HEADER + '\n"ab",x,"1",cd\ncd,x,?,ab\n')
    with pytest.raises(rr.InvalidInput, match=r"the reward must be a finite number, got '\?' in row 2 of .*2\.csv"):
        from_transitions(tmp_path, gamma=0.9)


def test_sources_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "memory.csv").symlink_to("/proc/self/mem")  # which nobody can read from its beginning, root neither
    for name in ("nothing.csv", "pipe.csv", "log.xlsx", "folder.csv", "memory.csv", "nothing*"):
        with pytest.raises(rr.InvalidInput, match=name.replace("*", ".")):
            from_transitions(tmp_path / name, gamma=0.9)
    none: list[Any] = [[], None, {1, 2}, 5, b"log.csv", np.zeros(3, dtype=[("state", int)])]
    for source in none:
        with pytest.raises(rr.InvalidInput, match="from_transitions: source must be a file, a folder"):
            from_transitions(source, gamma=0.9)


# --- tables of Ibis ---------------------------------------------------------------------------------------------------

STEPS_IN_ALL = 3000


def a_log(seed: int = 0) -> dict[str, Any]:
    """Episodes of 30 steps; rewards of few values, of many, and decimal ones; a temperature that wants bins."""
    rng = np.random.default_rng(seed)
    rooms = np.array(["hall", "attic", "cellar", "Ängström's"])
    here = rng.integers(4, size=STEPS_IN_ALL + 1)
    warm = np.round(rng.normal(15.0, 10.0, size=STEPS_IN_ALL + 1), 3)
    return {
        "room": rooms[here[:-1]],
        "floor": here[:-1] // 2,
        "move": rng.integers(3, size=STEPS_IN_ALL),
        "pay": rng.integers(-2, 5, size=STEPS_IN_ALL) / 4,
        "noise": rng.normal(size=STEPS_IN_ALL) * 1e-3 + rng.random(STEPS_IN_ALL) ** 20 * 7.0,
        "price": [f"{cents // 100}.{cents % 100:02d}" for cents in rng.integers(0, 40_000, size=STEPS_IN_ALL)],
        "next_room": rooms[here[1:]],
        "next_floor": here[1:] // 2,
        "warm": warm[:-1],
        "next_warm": warm[1:],
        "over": np.arange(STEPS_IN_ALL) % 30 == 29,
        "game": np.arange(STEPS_IN_ALL) // 30,
        "step": np.arange(STEPS_IN_ALL) % 30,
    }


TYPES = {"room": "text", "next_room": "text", "price": "numeric(12, 2)", "over": "boolean"}
TYPES |= dict.fromkeys(("pay", "noise", "warm", "next_warm"), "double precision")
ROOM: dict[str, Any] = {"gamma": 0.9, "state": "room", "action": "move", "reward": "pay", "next_state": "next_room"}
BINS = {"warm": rr.Bins([0.0, 10.0, 12.345, 30.0])}
READINGS: dict[str, dict[str, Any]] = {
    "few rewards": {},
    "many rewards": {"reward": "noise"},
    "decimal rewards": {"reward": "price"},
    "ends": {"done": "over"},
    "episodes": {"done": "over", "episode": "game", "order": "step"},
    "composite states": {"state": ["room", "floor"], "next_state": ["next_room", "next_floor"]},
    "bins": {"state": "warm", "next_state": "next_warm", "bins": BINS},
    "bins in composites": {
        "state": ["floor", "warm"], "next_state": ["next_floor", "next_warm"], "bins": BINS, "episode": "game",
        "order": "step",
    },
    "the next row": {"next_state": None, "episode": "game", "order": "step"},
    "the next row, or the end": {"next_state": None, "episode": "game", "order": "step", "done": "over", "last": "end"},
}  # fmt: skip


def csv_text(log: dict[str, Any]) -> str:
    rows = zip(*(column if isinstance(column, list) else column.tolist() for column in log.values()), strict=True)
    return "".join(",".join(map(str, row)) + "\n" for row in [list(log), *rows])


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text(csv_text(a_log()), encoding="utf-8")
    return path


@contextlib.contextmanager
def ibis_table(log: dict[str, Any], kinds: dict[str, str] | None = None) -> Iterator[Any]:
    """Lend a log as a table of Ibis, in a DuckDB of its own, with rows in an order of its own."""
    import ibis

    backend = ibis.duckdb.connect()
    frame = {name: np.asarray(column) for name, column in log.items()}
    backend.con.register("frame", frame)
    columns = ", ".join(f'CAST("{name}" AS {(kinds or {}).get(name, "VARCHAR")}) AS "{name}"' if name in (kinds or {})
                        else f'"{name}"' for name in log)  # fmt: skip
    backend.con.execute(f"CREATE TABLE log AS SELECT {columns} FROM frame ORDER BY random()")
    try:
        yield backend.table("log")
    finally:
        backend.disconnect()


@pytest.mark.parametrize("reading", READINGS)
def test_a_table_has_the_digest_of_the_file(reading: str, csv_file: Path) -> None:
    options = ROOM | READINGS[reading]
    with ibis_table(a_log(), {"price": "DECIMAL(12, 2)"}) as table:
        found, read = (rr.from_transitions(source, **options) for source in (table, csv_file))
    assert found.process == read.process
    assert found.sample == read.sample
    assert found.flaws.broken == read.flaws.broken
    assert (found.width > 0.0) == (reading in ("many rewards", "decimal rewards"))
    assert found.early is None  # a table has no order but steps within episodes
    assert read.early is not None


def test_only_counts_leave_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    answer = sources.Warehouse._answer

    def watched(self: sources.Warehouse, query: str) -> Any:
        found = answer(self, query)
        fetched.append(found.num_rows)
        return found

    monkeypatch.setattr(sources.Warehouse, "_answer", watched)
    transitions = 4 * 3 * 4
    with ibis_table(a_log()) as table:
        rr.from_transitions(table, **ROOM | READINGS["many rewards"])
        assert max(fetched) <= transitions * STRETCHES  # thousands of rewards, and no more groups than stretches
        fetched.clear()
        rr.from_transitions(table, **ROOM | {"episode": "game", "order": "step"})
        assert max(fetched) <= transitions * 7  # seven rewards


def test_an_order_does_what_the_order_of_rows_does(csv_file: Path) -> None:
    log, shuffled = a_log(), np.random.default_rng(1).permutation(STEPS_IN_ALL)
    mixed = {name: np.asarray(column)[shuffled] for name, column in log.items()}
    in_order = rr.from_transitions(csv_file, **ROOM, episode="game")
    assert rr.from_transitions(mixed, **ROOM, episode="game", order="step") == in_order
    assert in_order.flaws.broken == 0
    assert rr.from_transitions(mixed, **ROOM, episode="game") != in_order  # so the order matters


@pytest.mark.parametrize(
    ("changes", "options", "told"),
    [
        ({"room": [None, *["hall"] * (STEPS_IN_ALL - 1)]}, {}, "state is missing"),
        ({"pay": ["1"] * STEPS_IN_ALL}, {}, "a column of numbers, got VARCHAR in 'pay'"),
        ({"step": ["1"] * STEPS_IN_ALL}, {"episode": "game", "order": "step"}, "order must be a column of numbers"),
        ({"over": ["maybe"] * STEPS_IN_ALL}, {"done": "over"}, "true or false"),
        ({"step": np.arange(STEPS_IN_ALL) % 30 // 2}, {"episode": "game", "order": "step"}, "must tell the rows"),
        ({}, {"episode": "game"}, "have no order, and first states need one"),
        ({}, {"next_state": "next_floor"}, "must be of one type"),
    ],
)
def test_tables_that_cannot_be_read_get_one_sentence(changes: dict[str, Any], options: Any, told: str) -> None:
    with ibis_table(a_log() | changes) as table, pytest.raises(rr.InvalidInput, match=told) as refusal:
        rr.from_transitions(table, **ROOM | options)
    assert "\n" not in str(refusal.value)
    with ibis_table(a_log()) as table:
        gone = table
    with pytest.raises(rr.InvalidInput, match="engine of the table refuses"):
        rr.from_transitions(gone, **ROOM)


# --- a server of PostgreSQL -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    """Lend a connection to a server that is started for these tests, on the loopback address."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("no PostgreSQL server is installed")
    psycopg = pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="replicable-rl-postgres-"))
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    if os.getuid() == 0:  # a server refuses to run as root
        shutil.chown(folder, "nobody")
        quiet["user"] = "nobody"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
    options = [word for setting in settings for word in ("-c", setting)]
    initdb = [str(programs[-1] / "initdb"), "-D", f"{folder}/data", "-U", "tester", "-A", "trust", "-E", "UTF8"]
    subprocess.run([*initdb, "--no-sync", "--locale=C"], check=True, timeout=60, **quiet)
    server = subprocess.Popen([str(programs[-1] / "postgres"), "-D", f"{folder}/data", *options], **quiet)
    try:
        for _ in range(100):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(f"host=127.0.0.1 port={port} user=tester dbname=postgres").close()
                break
            time.sleep(0.1)
        import ibis

        backend = ibis.postgres.connect(host="127.0.0.1", port=port, user="tester", database="postgres")
        columns = ", ".join(f"{name} {TYPES.get(name, 'integer')}" for name in a_log())
        with backend.con.cursor() as cursor:
            cursor.execute(f"CREATE TABLE log ({columns})")
            with cursor.copy("COPY log FROM STDIN WITH (FORMAT csv, HEADER)") as copy:
                copy.write(csv_text(a_log()))
        backend.con.commit()
        yield backend
        backend.disconnect()
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("reading", READINGS)
def test_postgresql_counts_to_the_same_digest(reading: str, postgres: Any, csv_file: Path) -> None:
    options = ROOM | READINGS[reading]
    found, read = (rr.from_transitions(source, **options) for source in (postgres.table("log"), csv_file))
    assert found == read
    assert found.flaws.broken == read.flaws.broken
