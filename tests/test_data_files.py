"""Files that logs are in: packed, damaged, hidden, unreadable, or something else than their names say."""

from __future__ import annotations

import gzip
import json
import os
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


@pytest.mark.parametrize("kind", list(TEXTS))
def test_every_text_may_be_packed_in_several_parts(kind: str, tmp_path: Path) -> None:
    plain = from_transitions(written(tmp_path / f"log.{kind}", TEXTS[kind]), gamma=0.9)
    begin, rest = TEXTS[kind][:50].encode(), TEXTS[kind][50:].encode()
    parts = gzip.compress(begin) + gzip.compress(b"") + gzip.compress(rest)
    path = written(tmp_path / f"log.{kind}.gz", parts)
    assert from_transitions(path, gamma=0.9) == plain
    written(path, parts[:-3])
    assert "cannot be unpacked" in refused(path)


# --- what files hold ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("log.csv", PACKED),
        ("log.parquet", PACKED),
        ("log.csv", b"PAR1....PAR1"),
        ("log.csv.gz", HEADER.encode()),
        ("log.csv", b"PK\x03\x04 "),
        ("log.csv", (HEADER + ROWS).encode("utf-16")),
        ("log.csv", b""),
        ("log.jsonl", b""),
        ("log.parquet", b""),
        ("log.parquet", b"abc"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_gets_a_sentence(name: str, data: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / name, data)
    assert refused(path).startswith(str(path))


def test_a_byte_order_mark_is_not_part_of_the_log(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + (HEADER + ROWS).replace("\n", "\r\n").encode()
    plain = from_transitions(written(tmp_path / "plain.csv", HEADER + ROWS), gamma=0.9)
    assert from_transitions(written(tmp_path / "log.csv", data), gamma=0.9) == plain


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
    patterns = {"*.csv": 2, "**/*.csv": 4}
    assert {one: from_transitions(f"{folder}/{one}", gamma=0.9).rows for one in patterns} == patterns
    assert from_transitions(folder / "_4.csv", gamma=0.9).rows == 2
    alone = written(tmp_path / "alone" / "_1.csv", HEADER + ROWS).parent
    assert "begins with . or _, which are left out." in refused(alone)


# --- what cannot be read -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.jsonl"])
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
