"""Rows are checked many at a time, and runs are built when they are asked for: nothing else may change."""

from __future__ import annotations

import copy
import io
import pickle
import sqlite3
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.records import LEVELS, Level
from replicable_rl.store import packed
from replicable_rl.store.contents import decode, deflated, inflated
from replicable_rl.store.reading import Reader
from replicable_rl.store.seals import DamagedRecord

SEEDS, ALONE, LAST = 60, 10, 120  # two runs each; the first ten rows are in no block


def trained(shared_seed: int, sample_seed: int) -> list[int]:
    return [shared_seed % 3, sample_seed % 2]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store: ten runs, and a block of all others."""
    path = tmp_path_factory.mktemp("reading") / "runs.sqlite"
    result = rr.audit_callable(trained, shared_seeds=SEEDS, version="1")
    contents: dict[str, bytes] = {}
    runs = [packed(run, contents) for run in result.runs]
    with rr.RunStore(path) as store:
        store.add(runs[:ALONE], contents)
        store.add(runs[ALONE:], {})
        store.add_audit(result.spec)
    return path


def changed(path: Path, folder: Path, change: str, *values: Any) -> Path:
    """Return a copy of a store in which rows were changed behind its back."""
    other = folder / "changed.sqlite"
    with sqlite3.connect(path) as source, sqlite3.connect(other) as connection:
        source.backup(connection)
        connection.execute("DROP TRIGGER finished_runs_never_change")
        connection.execute(change, values)
    return other


def families(store: rr.RunStore) -> list[Any]:
    return [family for family, _ in store.families()]


def test_a_run_read_with_others_is_the_run_read_alone(kept: Path) -> None:
    with rr.RunStore(kept) as store:
        (family,) = families(store)
        runs = store.runs(family)
        assert len(runs) == 2 * SEEDS
        for key in (*list(runs)[:3], *list(runs)[-3:]):
            alone, run = store.run(key), runs[key]
            assert run == alone
            assert (run.key, run.seconds, run.made_with, run.sealed) == (key, alone.seconds, alone.made_with, True)
            assert run.policy.tolist() == alone.policy.tolist() == trained(run.shared_seed, run.sample_seed or 0)


def test_a_run_that_was_not_looked_at_can_be_copied(kept: Path) -> None:
    with rr.RunStore(kept) as store:
        runs = list(store.runs(*families(store)).values())
        for run, twin in ((runs[0], pickle.loads(pickle.dumps(runs[0]))), (runs[1], copy.deepcopy(runs[1]))):  # noqa: S301
            assert twin == run
            assert twin.policy.tolist() == run.policy.tolist()
        assert runs[2].but(samples=7).samples == 7
        assert runs[2].samples is None


CHANGES = {
    "a result": "UPDATE runs SET digests = zeroblob(length(digests)) WHERE id = ?",
    "a shared seed": "UPDATE runs SET shared_seed = '1' WHERE id = ?",
    "a sample": "UPDATE runs SET sample = '1' WHERE id = ?",
    "the time": "UPDATE runs SET seconds = 3.5 WHERE id = ?",
    "no time": "UPDATE runs SET seconds = 'long' WHERE id = ?",
    "the samples": "UPDATE runs SET samples = '9' WHERE id = ?",
    "the claims": "UPDATE runs SET claims = made_with WHERE id = ?",
    "a document that is not there": "UPDATE runs SET status = 999 WHERE id = ?",
    "another seal": "UPDATE runs SET seal = zeroblob(32) WHERE id = ?",
    "no seal that it could be": "UPDATE runs SET seal = x'' WHERE id = ?",
    "another key": "UPDATE runs SET key = zeroblob(32) WHERE id = ?",
    "a seed that nobody writes so": "UPDATE runs SET shared_seed = '0' || shared_seed WHERE id = ?",
    "a sample that nobody writes so": "UPDATE runs SET sample = ' ' || sample WHERE id = ?",
    "a seed as bytes": "UPDATE runs SET shared_seed = CAST(shared_seed AS BLOB) WHERE id = ?",
    "fingerprints as text": "UPDATE runs SET digests = CAST(digests AS TEXT) WHERE id = ?",
    "samples as bytes": "UPDATE runs SET samples = x'39' WHERE id = ?",
    "a text that is none": "UPDATE runs SET sample = CAST(x'b1' || substr(sample, 2) AS TEXT) WHERE id = ?",
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("place", [1, ALONE + 1, LAST])
def test_of_many_rows_the_changed_one_is_left_out(kept: Path, tmp_path: Path, what: str, place: int) -> None:
    path = changed(kept, tmp_path, CHANGES[what], place)
    with rr.RunStore(kept) as store:
        (family,) = families(store)
        all_runs, all_counted = store.runs(family), store.summary()[0].runs
    with rr.RunStore(path) as store:
        with pytest.warns(DamagedRecord, match="1 record|a record"):
            runs = store.runs(family)
        assert len(store.damaged) == 1
        assert len(runs) == len(all_runs) - 1
        assert runs.items() <= all_runs.items()
        assert store.summary()[0].runs == all_counted - 1


def test_keys_that_were_computed_before_are_compared_all_the_same(kept: Path, tmp_path: Path) -> None:
    """A row with another shared seed has the key of what it was: the plan says which seed belongs to it."""
    path = changed(kept, tmp_path, CHANGES["a shared seed"], 5)
    with pytest.warns(DamagedRecord):
        result = rr.audit_callable(trained, shared_seeds=SEEDS, store=path, version="1")
    assert len(result.runs) == 2 * SEEDS
    with rr.RunStore(path) as store:
        assert store.summary()[0].runs == 2 * SEEDS  # it was made again


def test_rows_without_a_seal_are_read_among_others(kept: Path, tmp_path: Path) -> None:
    path = changed(kept, tmp_path, "UPDATE runs SET seal = NULL WHERE id % 2 = ?", 0)
    with rr.RunStore(path) as store:
        runs = store.runs(*families(store))
        assert [run.sealed for run in runs.values()] == [True, False] * SEEDS
        assert store.summary()[0].runs == 2 * SEEDS


# --- blocks -----------------------------------------------------------------------------------------------


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return where the keys are noted of all rows that are checked by their own seals."""
    checked: list[bytes] = []
    original = Reader._is_believed

    def noted(self: Reader, family: Any, row: Any) -> bool | None:
        checked.append(row[0])
        return original(self, family, row)

    monkeypatch.setattr(Reader, "_is_believed", noted)
    return checked


def test_rows_of_a_block_are_checked_at_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rr.RunStore(kept) as store:
        checked = one_by_one(monkeypatch)
        (family,) = families(store)
        assert len(checked) == ALONE
        runs = store.runs(family)
        assert checked[ALONE:] == [bytes.fromhex(key) for key in list(runs)[:ALONE]]
        assert all(run.sealed for run in runs.values())


IN_BLOCKS = {
    "none": "DELETE FROM blocks",
    "another seal": "UPDATE blocks SET seal = zeroblob(32)",
    "no seal": "UPDATE blocks SET seal = ''",
    "a larger one": "UPDATE blocks SET first = 1",
    "a later one": "UPDATE blocks SET first = 40",
    "a smaller one": "UPDATE blocks SET last = 70",
    "a longer one": "UPDATE blocks SET last = 10000",
    "one without an end": "UPDATE blocks SET last = 9223372036854775807",
    "one that ends before it begins": "UPDATE blocks SET last = -1",
    "an end that is none": "UPDATE blocks SET last = 'far'",
    "one below all ids": "UPDATE blocks SET first = -9223372036854775808, last = -9223372036854775807",
    "one inside of another": "INSERT INTO blocks SELECT 50, 60, problem, algorithm, sampler, seal FROM blocks",
    "two that overlap": "INSERT INTO blocks SELECT 5, 60, problem, algorithm, sampler, seal FROM blocks",
    "another family": "UPDATE blocks SET algorithm = problem",
    "a family that is not there": "UPDATE blocks SET problem = 999",
    "another sampler": "UPDATE blocks SET sampler = 'other'",
}


AS_BEFORE = ("one inside of another",)  # the block is as it was


@pytest.mark.parametrize("what", IN_BLOCKS)
def test_whatever_blocks_say_all_rows_are_read(
    kept: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = changed(kept, tmp_path, IN_BLOCKS[what])
    with rr.RunStore(kept) as sound, rr.RunStore(path) as store:
        (family,) = families(sound)
        expected, counted = sound.runs(family), sound.summary()
        checked = one_by_one(monkeypatch)
        assert store.runs(family) == expected
        assert len(checked) == (ALONE if what in AS_BEFORE else LAST)
        assert store.summary() == counted
        assert store.damaged == []


def test_documents_belong_to_a_block(kept: Path, tmp_path: Path) -> None:
    """A document that all rows name is changed, such as what made them."""
    path = changed(kept, tmp_path, "UPDATE documents SET json = replace(json, 'numpy', 'numpi')")
    with rr.RunStore(kept) as store:
        (family,) = families(store)
    with rr.RunStore(path) as store, pytest.warns(DamagedRecord, match=f"{LAST} records"):
        assert store.runs(family) == {}


def test_a_row_that_is_gone_takes_no_other_with_it(kept: Path, tmp_path: Path) -> None:
    path = tmp_path / "changed.sqlite"
    with sqlite3.connect(kept) as source, sqlite3.connect(path) as connection:
        source.backup(connection)
        connection.execute("DROP TRIGGER finished_runs_are_never_deleted")
        connection.execute("DELETE FROM runs WHERE id = 50")
    with rr.RunStore(path) as store:
        (family,) = families(store)
        assert len(store.runs(family)) == LAST - 1
        assert store.damaged == []
    again = rr.audit_callable(trained, shared_seeds=SEEDS, store=path, version="1")
    assert len(again.runs) == LAST


def test_families_in_one_batch_have_no_block_and_are_read(tmp_path: Path) -> None:
    runs, contents = [], dict[str, bytes]()
    for version in ("1", "2"):
        result = rr.audit_callable(trained, shared_seeds=SEEDS, version=version)
        runs += [packed(run, contents) for run in result.runs]
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        store.add(runs, contents)
        assert [len(store.runs(family)) for family in families(store)] == [LAST, LAST]
        store.add([run.but(seconds=1.0) for run in runs], contents)  # none of them is new
        assert [one.runs for one in store.summary()] == [LAST, LAST]
    with sqlite3.connect(tmp_path / "runs.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM blocks").fetchone() == (0,)


def test_a_block_hides_no_rows_of_another_family(tmp_path: Path) -> None:
    """Its last row is said to be a later one, of another family."""
    path, contents = tmp_path / "runs.sqlite", dict[str, bytes]()
    with rr.RunStore(path) as store:
        for version in ("1", "2"):
            result = rr.audit_callable(trained, shared_seeds=SEEDS, version=version)
            store.add([packed(run, contents) for run in result.runs], contents)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE blocks SET last = last + 9 WHERE first = 1")
    with rr.RunStore(path) as store:
        assert [one.runs for one in store.summary()] == [LAST, LAST]
        assert [len(store.runs(family)) for family in families(store)] == [LAST, LAST]
        assert store.damaged == []


def test_a_block_at_the_end_of_all_ids_is_none(kept: Path, tmp_path: Path) -> None:
    path = changed(kept, tmp_path, "UPDATE blocks SET first = 9223372036854775800, last = 9223372036854775807")
    with rr.RunStore(path) as store:
        assert store.summary()[0].runs == LAST


def test_rows_are_added_whatever_ids_there_are(kept: Path, tmp_path: Path) -> None:
    """SQLite says -1 for an id that it has not chosen yet."""
    path = changed(kept, tmp_path, "UPDATE runs SET id = -1 WHERE id = 100")
    result = rr.audit_callable(trained, shared_seeds=SEEDS + 40, store=path, version="1")
    assert len(result.runs) == 2 * (SEEDS + 40)
    with rr.RunStore(path) as store:
        assert store.summary()[0].runs == 2 * (SEEDS + 40)
        assert store.damaged == []


def test_a_store_that_takes_no_rows_says_so(kept: Path, tmp_path: Path) -> None:
    path = changed(kept, tmp_path, "CREATE TRIGGER other BEFORE INSERT ON runs BEGIN SELECT RAISE(IGNORE); END")
    with pytest.raises(rr.InvalidInput, match=r"the file is damaged \(it takes no more rows"):
        rr.audit_callable(trained, shared_seeds=SEEDS + 40, store=path, version="1")


@pytest.mark.parametrize("how", ["' ' || json", "CAST(CAST(json AS BLOB) || x'b1' AS TEXT)", "CAST(json AS BLOB)"])
def test_a_document_in_other_words_is_damaged(kept: Path, tmp_path: Path, how: str) -> None:
    """All of its runs are left out and made again, under the document that there should be."""
    path = changed(kept, tmp_path, f"UPDATE documents SET json = {how} WHERE json LIKE '%trained%'")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedRecord)
            result = rr.audit_callable(trained, shared_seeds=SEEDS, store=path, version="1")
        assert len(result.runs) == LAST
    with rr.RunStore(path) as store:
        assert [one.runs for one in store.summary()] == [LAST]


# --- contents ---------------------------------------------------------------------------------------------


ODD = [b"", b"x", bytes(2**16), bytes(2**16 + 1), bytes(range(256))]


MARKS = (b"\0z", b"\0b", b"\0r")


@pytest.mark.parametrize("data", [*ODD, *(mark + data for data in ODD for mark in MARKS)], ids=range(20))
def test_contents_are_what_they_were(data: bytes) -> None:
    assert inflated(deflated(data)) == data


@pytest.mark.parametrize("size", [2, 9, -1, None])
def test_what_is_not_deflated_is_left_as_it_is(size: int | None) -> None:
    data = deflated(bytes(range(64)) * 9)
    spoilt = data + b"x" if size is None else data[:size]
    assert inflated(spoilt) == spoilt


def test_a_content_does_not_grow_without_end() -> None:
    work = zlib.compressobj(9, zlib.DEFLATED, -12)
    bomb = b"\0z" + work.compress(bytes(2**24)) + work.flush()
    assert inflated(bomb) == bomb


FLOATS = {
    "a table": np.random.default_rng(1).normal(size=(8, 4)) + 9.0,
    "of columns": np.asfortranarray(np.random.default_rng(1).normal(size=(5, 3))),
    "one number": np.array(-0.0),
    "no numbers": np.empty((3, 0)),
    "infinite": np.array([[-np.inf, 1.0]]),
    "of 32 bits": np.ones(9, dtype=np.float32),
    "the other way round": np.arange(3.0).astype(">f8"),
    "as many as may be": np.arange(8176.0),
    "one more": np.arange(8177.0),
}


def saved(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_what_they_were(name: str) -> None:
    data = saved(FLOATS[name])
    assert inflated(deflated(data)) == data
    for size in (0, 7, 10, 40, len(data) - 1):
        assert inflated(deflated(data[:size])) == data[:size]


def test_floats_of_like_size_take_less_room_than_their_bytes() -> None:
    assert len(deflated(saved(FLOATS["a table"]))) < 8 * 32


def test_floats_whose_bytes_are_damaged_are_never_other_floats_without_a_word() -> None:
    level, rng = LEVELS["value"], np.random.default_rng(3)
    q = FLOATS["a table"]
    data, digest = deflated(level.encode(q)), level.digest("value", q)
    assert data[:2] == b"\0b"
    for _ in range(2000):
        spoilt = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 4)).tolist():
            spoilt[place] = int(rng.integers(256))
        if bytes(spoilt) != data:
            try:
                assert decode("here", "value", bytes(spoilt), digest).tolist() == q.tolist()
            except rr.InvalidInput as error:
                assert "is damaged" in str(error)  # noqa: PT017  # some change nothing that counts


@pytest.mark.parametrize("mark", MARKS)
def test_a_level_of_version_2_may_begin_as_it_likes(mark: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    level = Level(
        "odd",
        encode=lambda value: mark + bytes(value.tolist()),
        decode=lambda data: np.array(list(data.removeprefix(mark) if data.startswith(mark) else b"")),
    )
    monkeypatch.setitem(LEVELS, "odd", level)
    digest = level.digest("odd", np.array([1, 2]))
    for stored in (mark + b"\1\2", deflated(mark + b"\1\2")):
        assert decode("here", "odd", stored, digest).tolist() == [1, 2]
    with pytest.raises(rr.InvalidInput, match=r"here: odd [0-9a-f]{16}: is damaged"):
        decode("here", "odd", mark + b"\1\3", digest)


def test_a_history_does_not_grow_without_end() -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, np.frombuffer(b'["gap"]', dtype=np.uint8), np.zeros(2**25))
    with pytest.raises(rr.InvalidInput, match=r"is damaged .* would become"):
        decode("here", "history", stream.getvalue(), "ab" * 32)


def test_a_damaged_content_is_replaced_by_a_sound_one(kept: Path, tmp_path: Path) -> None:
    path = changed(kept, tmp_path, "UPDATE contents SET data = x'00'")
    result = rr.audit_callable(trained, shared_seeds=SEEDS, version="1")
    contents: dict[str, bytes] = {}
    runs = [packed(run, contents) for run in result.runs]
    with rr.RunStore(path) as store:
        (family,) = families(store)
        run = store.runs(family)[runs[-1].key]
        with pytest.raises(rr.InvalidInput, match="is damaged"):
            run.policy.tolist()
        assert store.add(runs, contents) == 0
        assert store.run(runs[-1].key).policy.tolist() == result.runs[-1].policy.tolist()


def test_contents_of_older_versions_are_as_their_levels_encoded_them() -> None:
    data = LEVELS["policy"].encode(np.array([0, 1, 2]))
    assert inflated(data) == data
    assert inflated(deflated(data)) == data
    assert len(deflated(data)) < len(data) / 3
