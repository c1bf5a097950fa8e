"""Logs in databases: tables of Ibis, in DuckDB and in a PostgreSQL server of their own, have the digest of the file."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.logs import counting
from replicable_rl.logs import sources as relation
from replicable_rl.logs.counting import STRETCHES

if importlib.util.find_spec("ibis") is None:  # what it loads takes long: not before it is needed
    pytest.skip("ibis is not installed", allow_module_level=True)

ROWS = 3000


def a_log(seed: int = 0) -> dict[str, Any]:
    """Episodes of 30 steps; rewards of few values, of many, and decimal ones; a temperature that wants bins."""
    rng = np.random.default_rng(seed)
    rooms = np.array(["hall", "attic", "cellar", "Ängström's"])
    here = rng.integers(4, size=ROWS + 1)
    warm = np.round(rng.normal(15.0, 10.0, size=ROWS + 1), 3)
    return {
        "room": rooms[here[:-1]],
        "floor": here[:-1] // 2,
        "move": rng.integers(3, size=ROWS),
        "pay": rng.integers(-2, 5, size=ROWS) / 4,
        "noise": rng.normal(size=ROWS) * 1e-3 + rng.random(ROWS) ** 20 * 7.0,
        "price": [f"{cents // 100}.{cents % 100:02d}" for cents in rng.integers(0, 40_000, size=ROWS)],
        "next_room": rooms[here[1:]],
        "next_floor": here[1:] // 2,
        "warm": warm[:-1],
        "next_warm": warm[1:],
        "over": np.arange(ROWS) % 30 == 29,
        "game": np.arange(ROWS) // 30,
        "step": np.arange(ROWS) % 30,
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


# --- tables of Ibis --------------------------------------------------------------------------------


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
    assert found.flaws.cut == read.flaws.cut
    assert found.added_up == (reading in ("many rewards", "decimal rewards"))
    assert found.early is None  # a table has no order but steps within episodes
    assert read.early is not None


def test_only_counts_leave_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    answer = relation.Warehouse._answer

    def watched(self: relation.Warehouse, query: str) -> Any:
        found = answer(self, query)
        fetched.append(found.num_rows)
        return found

    monkeypatch.setattr(relation.Warehouse, "_answer", watched)
    transitions = 4 * 3 * 4
    with ibis_table(a_log()) as table:
        rr.from_transitions(table, **ROOM | READINGS["many rewards"])
        assert max(fetched) <= transitions * STRETCHES  # thousands of rewards, and no more groups than stretches
        fetched.clear()
        rr.from_transitions(table, **ROOM | {"episode": "game", "order": "step"})
        assert max(fetched) <= transitions * 7  # seven rewards


@pytest.mark.parametrize("values", [counting.MANY_REWARDS, counting.MANY_REWARDS + 1])
def test_whether_rewards_are_many_is_no_guess(values: int) -> None:
    log: dict[str, Any] = {name: np.zeros(3 * values) for name in ("state", "action", "next_state")}
    log["reward"] = np.repeat(np.arange(values) / 7.0, 3)
    read = rr.from_transitions(log, gamma=0.9)
    assert read.added_up == (values > counting.MANY_REWARDS)
    with ibis_table(log) as table:
        assert rr.from_transitions(table, gamma=0.9) == read


def test_episodes_of_a_table_need_an_order() -> None:
    with (
        ibis_table(a_log()) as table,
        pytest.raises(rr.InvalidInput, match=r"have no order, and first states need one.*order=\"step\""),
    ):
        rr.from_transitions(table, **ROOM, episode="game")


@pytest.mark.parametrize("where", ["file", "table"])
def test_places_in_an_episode_are_told_apart(where: str) -> None:
    log = a_log() | {"step": np.arange(ROWS) % 30 // 2}
    with (
        ibis_table(log) as table,
        pytest.raises(rr.InvalidInput, match=r"'step' must tell the rows of an episode apart"),
    ):
        rr.from_transitions(log if where == "file" else table, **ROOM, episode="game", order="step")
    with pytest.raises(rr.InvalidInput, match="Name episode"):
        rr.from_transitions(log, **ROOM, order="step")


def test_an_order_does_what_the_order_of_rows_does(csv_file: Path) -> None:
    log, shuffled = a_log(), np.random.default_rng(1).permutation(ROWS)
    mixed = {name: np.asarray(column)[shuffled] for name, column in log.items()}
    in_order = rr.from_transitions(csv_file, **ROOM, episode="game")
    assert rr.from_transitions(mixed, **ROOM, episode="game", order="step") == in_order
    assert in_order.flaws.broken == 0
    assert rr.from_transitions(mixed, **ROOM, episode="game") != in_order  # so the order matters


MISSING = {name: list(column) for name, column in a_log().items()}
BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "missing columns": ({}, {"state": "rom", "reward": "play"}, r"no column 'rom' .* and no column 'play'"),
    "missing state": ({"room": [None, None, *map(str, MISSING["room"][2:])]}, {}, r"state is missing \(2 rows"),
    "NaN": ({"pay": [np.nan, *MISSING["pay"][1:]]}, {}, r"the reward must be a finite number"),
    "text": ({"pay": ["1", *map(str, MISSING["pay"][1:])]}, {}, r"a column of numbers, got VARCHAR in 'pay'"),
    "text in order": (
        {"step": list(map(str, MISSING["step"]))}, {"episode": "game", "order": "step"},
        r"order must be a column of numbers or times",
    ),
    "done is no truth": ({"over": ["maybe", *map(str, MISSING["over"][1:])]}, {"done": "over"}, r"true or false"),
    "missing episode": (
        {"game": [None, *map(str, MISSING["game"][1:])]}, {"episode": "game", "order": "step"}, r"episode is missing",
    ),
    "NaN in a bin": ({"warm": [np.nan, *MISSING["warm"][1:]]}, READINGS["bins"], r"state must be a finite number"),
    "no rows": ({name: [] for name in MISSING}, {}, r"has no rows"),
    "two types": ({}, {"next_state": "next_floor"}, r"must be of one type"),
    "bins of texts": ({}, {"bins": {"room": rr.Bins([1.0])}}, r"bins need a column of numbers, got VARCHAR"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_broken_tables_get_one_sentence(kind: str) -> None:
    changes, options, said = BROKEN[kind]
    log = {
        name: np.asarray(column, dtype=object if None in column else None)
        for name, column in (MISSING | changes).items()
    }
    with ibis_table(log) as table, pytest.raises(rr.InvalidInput, match=said) as refusal:
        rr.from_transitions(table, **ROOM | options)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_tables_that_are_none() -> None:
    import ibis

    unbound = ibis.table({"room": "string", "next_room": "string", "move": "int64", "pay": "float64"}, name="nowhere")
    with pytest.raises(rr.InvalidInput, match="engine of the table refuses"):
        rr.from_transitions(unbound, **ROOM)
    with ibis_table(a_log()) as table:
        gone = table
    with pytest.raises(rr.InvalidInput, match="engine of the table refuses"):
        rr.from_transitions(gone, **ROOM)
    loose = ibis.sqlite.connect()
    with pytest.raises(rr.InvalidInput, match=r"SQLite .* Read the table into a frame"):
        rr.from_transitions(loose.create_table("log", schema=unbound.schema()), **ROOM)
    loose.disconnect()


# --- a server of PostgreSQL ------------------------------------------------------------------------


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    """Lend a connection to a server that is started for these tests, on the loopback address."""
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed")
    psycopg = pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="replicable-rl-postgres-"))
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # a server refuses to run as root
        shutil.chown(folder, "nobody")
        user = {"user": "nobody"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = str(folder / "data")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    setup = [
        str(programs / "initdb"),
        "-D",
        data,
        "-U",
        "tester",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
        "--locale=C",
    ]
    settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
    command = [str(programs / "postgres"), "-D", data, *(word for one in settings for word in ("-c", one))]
    server = None
    try:
        subprocess.run(setup, check=True, timeout=60, **quiet, **user)
        server = subprocess.Popen(command, **quiet, **user)
        address = f"host=127.0.0.1 port={port} user=tester dbname=postgres"
        for _ in range(100):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(address).close()
                break
            time.sleep(0.1)
        import ibis

        backend = ibis.postgres.connect(host="127.0.0.1", port=port, user="tester", database="postgres")
        _fill(backend.con, "log", a_log(), TYPES)
        yield backend
        backend.disconnect()
    finally:
        if server is not None:
            server.terminate()
            server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _fill(connection: Any, name: str, log: dict[str, Any], types: dict[str, str]) -> None:
    columns = ", ".join(f"{column} {types.get(column, 'integer')}" for column in log)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        with cursor.copy(f"COPY {name} FROM STDIN WITH (FORMAT csv, HEADER)") as copy:
            copy.write(csv_text(log))
    connection.commit()


@pytest.mark.parametrize("reading", READINGS)
def test_postgresql_counts_to_the_same_digest(reading: str, postgres: Any, csv_file: Path) -> None:
    options = ROOM | READINGS[reading]
    found, read = (rr.from_transitions(source, **options) for source in (postgres.table("log"), csv_file))
    assert found.process == read.process
    assert found.sample == read.sample
    assert found.flaws.broken == read.flaws.broken


# --- files, large and small -------------------------------------------------------------------------


def test_the_halves_of_several_files_are_those_of_all_rows(tmp_path: Path) -> None:
    log = a_log()
    whole = rr.from_transitions(log, **ROOM, episode="game")
    ends = [0, 1000, 1001, 2500, ROWS]
    for number in range(4):
        part = {name: column[ends[number] : ends[number + 1]] for name, column in log.items()}
        frame = {name: np.asarray(column) for name, column in part.items()}
        with duckdb.connect() as connection:
            connection.register("part", frame)
            connection.execute(f"COPY (FROM part) TO '{tmp_path / f'{number}.parquet'}'")
    read = rr.from_transitions(tmp_path, **ROOM, episode="game")
    assert read == whole
    assert (read.flaws.broken, whole.flaws.broken) == (0, 0)
    assert read.early is not None
    assert whole.early is not None
    assert read.early.tolist() == whole.early.tolist()
    assert read.early.sum() == ROWS // 2


def test_rewards_as_small_as_they_get() -> None:
    log: dict[str, Any] = {name: np.zeros(3000) for name in ("state", "action", "next_state")}
    log["reward"] = np.arange(3000) * 5e-324
    data = rr.from_transitions(log, gamma=0.9)
    assert data.added_up
    assert np.isfinite(data.reward).all()
