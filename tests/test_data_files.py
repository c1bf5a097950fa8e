"""Files that logs are in: packed, damaged, hidden, unreadable, or something else than their names say."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import replicable_rl as rr
from replicable_rl.data import from_transitions

pytestmark = pytest.mark.usefixtures("one_database")

HEADER = "state,action,reward,next_state\n"
ROWS = "a,x,1,b\nb,y,0,a\n"
LINES = "".join(
    json.dumps({"state": s, "action": a, "reward": r, "next_state": t}) + "\n"
    for s, a, r, t in (("a", "x", 1, "b"), ("b", "y", 0, "a"))
)
PACKED = gzip.compress(b"x", mtime=0)  # without the time: the name of a test must not depend on it
TEXTS = {"csv": HEADER + ROWS, "tsv": (HEADER + ROWS).replace(",", "\t"), "jsonl": LINES, "ndjson": LINES}


def written(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def refused(source: Any, **options: Any) -> str:
    with pytest.raises(rr.InvalidInput) as refusal:
        from_transitions(source, **{"gamma": 0.9, **options})
    said = str(refusal.value)
    assert "\n" not in said
    return said


# --- packed files -----------------------------------------------------------------------------------


def long_text(kind: str, rng: random.Random, rows: int = 400) -> str:
    """A log of many different lines, so that a wrong bit of the packed file is a wrong value and no broken line."""
    found = [
        (f"s{rng.randrange(5)}", f"a{rng.randrange(3)}", rng.random(), f"s{rng.randrange(5)}") for _ in range(rows)
    ]
    if kind == "jsonl":
        return "".join(json.dumps(dict(zip(HEADER.strip().split(","), row, strict=True))) + "\n" for row in found)
    return HEADER + "".join(",".join(map(str, row)) + "\n" for row in found)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_one_wrong_bit_of_a_packed_file_is_seen(kind: str, tmp_path: Path) -> None:
    rng = random.Random(1)
    packed = gzip.compress(long_text(kind, rng).encode(), mtime=0)
    path = written(tmp_path / f"log.{kind}.gz", packed)
    from_transitions(path, gamma=0.9)
    for _ in range(20):
        damaged = bytearray(packed)
        damaged[rng.randrange(200, len(packed) - 8)] ^= 1 << rng.randrange(8)
        written(path, bytes(damaged))
        assert refused(path, reward_range=(0, 1)) == f"{path}: cannot be unpacked: it is damaged or breaks off."


@pytest.mark.parametrize("kind", list(TEXTS))
def test_every_text_may_be_packed_in_several_parts(kind: str, tmp_path: Path) -> None:
    plain = from_transitions(written(tmp_path / f"log.{kind}", TEXTS[kind]), gamma=0.9)
    begin, rest = TEXTS[kind][:50].encode(), TEXTS[kind][50:].encode()
    parts = gzip.compress(begin) + gzip.compress(b"") + gzip.compress(rest)
    path = written(tmp_path / f"log.{kind}.gz", parts)
    assert from_transitions(path, gamma=0.9) == plain
    written(path, parts[:-3])
    assert "cannot be unpacked" in refused(path)


def test_damage_is_what_is_said_of_a_damaged_file(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress((HEADER + ROWS).encode(), compresslevel=0))
    packed[packed.index(b"a,x,1") + 4] = ord("q")  # a reward that is no number, in a file that was never written so
    path = written(tmp_path / "log.csv.gz", bytes(packed))
    assert "is damaged" in refused(path)
    assert "is damaged" in refused({"state": ["a"], "action": ["x"], "reward": [0], "next_state": ["a"]}, allowed=path)
    whole = written(tmp_path / "log.csv.gz", gzip.compress((HEADER + ROWS).replace("1", "q").encode()))
    assert "line 2: the reward must be a finite number, got 'q'" in refused(whole)


# --- what files hold ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("log.csv", PACKED, "is packed with gzip. Rename it to {}.gz."),
        ("log.jsonl", PACKED, "is packed with gzip. Rename it to {}.gz."),
        ("log.parquet", PACKED, "is packed with gzip. Unpack it."),
        ("log.csv", b"PAR1....PAR1", "is a Parquet file. Rename it to {:.-4}.parquet."),
        ("log.csv.gz", b"PAR1....PAR1", "is a Parquet file. Rename it to {:.-7}.parquet."),
        ("log.csv.gz", HEADER.encode(), "is not packed with gzip. Rename it to {:.-3}, or pack it."),
        (
            "log.csv",
            b"PK\x03\x04 ",
            "is a zip archive, or what is kept in one, such as .xlsx and .npz. Write it as CSV or Parquet.",
        ),
        ("log.csv", (HEADER + ROWS).encode("utf-16"), "is UTF-16. Save the file as UTF-8."),
        ("log.csv", b"SQLite format 3\x00", "is a database of SQLite. Read its table with Ibis."),
        ("log.csv", b"", "is empty."),
        ("log.parquet", b"abc", "is no Parquet file, or breaks off."),
    ],
)
def test_what_a_file_is_if_not_what_its_name_says(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    path = str(written(tmp_path / name, data))
    for cut in (3, 4, 7):
        said = said.replace(f"{{:.-{cut}}}", path[:-cut])
    assert refused(path) == f"{path}: {said.replace('{}', path)}"


def test_a_column_may_have_a_name_that_files_begin_with(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", (HEADER + ROWS).replace("state", "PAR1", 1))
    assert from_transitions(path, gamma=0.9, state="PAR1").rows == 2


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.csv"])
def test_a_byte_order_mark_is_not_part_of_the_log(name: str, tmp_path: Path) -> None:
    text = HEADER + ROWS if name == "log.csv" else LINES + '\n{"state": "b \\"é\\"", "action": "x", "reward": 1.50}'
    text = text.replace("1.50", '1.50, "next_state": "a"')
    plain = from_transitions(written(tmp_path / name.removesuffix(".gz"), text), gamma=0.9)
    data = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    path = written(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    assert from_transitions(path, gamma=0.9) == plain
    both = written(tmp_path / "both" / "1.jsonl", LINES).parent
    written(both / "2.jsonl", b"\xef\xbb\xbf" + LINES.encode())
    assert from_transitions(both, gamma=0.9).rows == 4


def test_lines_with_a_mark_are_refused_as_others(tmp_path: Path) -> None:
    for number, mark in enumerate((b"", b"\xef\xbb\xbf")):
        twice = written(
            tmp_path / f"twice{number}.jsonl", mark + LINES.encode() * 600 + b'{"state": "a", "state": "b"}\n'
        )
        assert refused(twice) == f"{twice}, line 1201: has 'state' twice. Leave out one of them."
        broken = written(tmp_path / f"broken{number}.jsonl", mark + LINES.encode() * 600 + b'{"state": "a", \n')
        assert refused(broken).startswith(f"{broken}, line 1201: must be an object of JSON")
        missing = written(
            tmp_path / f"missing{number}.jsonl", mark + LINES.encode() + b'{"action": "x", "reward": 0}\n'
        )
        assert refused(missing).startswith(f"{missing}, line 3: the state is missing")


def test_the_line_that_ends_another_way(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", HEADER + 'a,x,1,"b\r\nc"\n' + "b,y,0,a\r\n")
    assert refused(path) == (
        f"{path}, line 4: ends with CRLF, and line 1 with LF. Save the file with one kind of line ends."
    )


def test_who_stops_a_query_is_not_told_of_an_error() -> None:
    from replicable_rl.data import engine

    with engine.engine() as duck, pytest.raises(KeyboardInterrupt), duck.in_one_sentence():
        raise RuntimeError("Query interrupted")  # what DuckDB makes of Ctrl-C
    with engine.engine() as duck, pytest.raises(RuntimeError, match="else"), duck.in_one_sentence():
        raise RuntimeError("something else")


# --- folders -----------------------------------------------------------------------------------------


def test_hidden_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "_logs"  # what is asked for is read, whatever it is called
    for name in ("1.csv", "date=2024/2.csv", ".3.csv", "_4.csv", "_temporary/5.csv", ".cache/day=1/6.csv"):
        written(folder / name, HEADER + ROWS)
    written(folder / "_SUCCESS", "")
    assert from_transitions(folder, gamma=0.9).rows == 4
    patterns = {"*.csv": 2, "**/*.csv": 4, "_*.csv": 2, ".*.csv": 2, "_temporary/*.csv": 2}
    assert {one: from_transitions(f"{folder}/{one}", gamma=0.9).rows for one in patterns} == patterns
    assert from_transitions(folder / "_4.csv", gamma=0.9).rows == 2
    alone = written(tmp_path / "alone" / "_1.csv", HEADER + ROWS).parent
    assert "begins with . or _, which are left out." in refused(alone)


# --- what cannot be read -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.jsonl", "log.parquet"])
def test_what_the_system_does_not_let_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.symlink_to("/proc/self/mem")  # which nobody can read from its beginning, root neither
    assert refused(path) == f"{path}: cannot be read (Input/output error)."
    assert refused(f"{tmp_path}/*") == f"{path}: cannot be read (Input/output error)."


def test_a_folder_that_cannot_be_read_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "1.csv", HEADER + ROWS)
    closed = written(tmp_path / "closed" / "2.csv", HEADER + ROWS).parent
    scan = os.scandir

    def scandir(where: Any) -> Any:
        if str(where) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return scan(where)

    monkeypatch.setattr(os, "scandir", scandir)
    assert refused(tmp_path) == f"{closed}: cannot be read (Permission denied)."


def test_a_folder_called_as_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "x.csv"
    folder.mkdir()
    assert refused(folder).startswith(f"{folder}: has no file that ends in .csv,")
    assert refused(f"{tmp_path}/*.csv") == f"{folder}: is a directory. Name another file."
    written(folder / "1.csv", HEADER + ROWS)
    assert from_transitions(folder, gamma=0.9).rows == 2
