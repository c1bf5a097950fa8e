"""Rows are checked many at a time, and runs are built when they are asked for: nothing else may change."""

from __future__ import annotations

import copy
import pickle
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.records import LEVELS
from replicable_rl.store import packed
from replicable_rl.store.contents import deflated, inflated
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


AS_BEFORE = ("one inside of another", "a longer one")  # the block still has its rows and no others


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


# --- contents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"x", bytes(2**16), bytes(2**16 + 1), b"\0z", b"\0z" + bytes(9), bytes(range(256))]
)
def test_contents_are_what_they_were(data: bytes) -> None:
    assert inflated(deflated(data)) == data


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"\0z", lambda data: data[:9]]
)
def test_what_is_not_deflated_is_refused(spoil: Any) -> None:
    with pytest.raises((ValueError, zlib.error)):
        inflated(spoil(deflated(bytes(range(64)) * 9)))


def test_a_content_that_grows_without_end_is_refused() -> None:
    work = zlib.compressobj(9, zlib.DEFLATED, -12)
    bomb = b"\0z" + work.compress(bytes(2**24)) + work.flush()
    with pytest.raises(ValueError, match="not deflated as it should be"):
        inflated(bomb)


def test_contents_of_older_versions_are_as_their_levels_encoded_them() -> None:
    data = LEVELS["policy"].encode(np.array([0, 1, 2]))
    assert inflated(data) == data
    assert inflated(deflated(data)) == data
    assert len(deflated(data)) < len(data) / 3
