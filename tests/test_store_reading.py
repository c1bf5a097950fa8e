"""Rows are checked many at a time, and runs are built when they are asked for: nothing else may change."""

from __future__ import annotations

import copy
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import replicable_rl as rr
from replicable_rl.store.reading import _AT_ONCE
from replicable_rl.store.seals import DamagedRecord

SEEDS = _AT_ONCE // 2 + 5  # two runs each: more rows than are looked at together


def trained(shared_seed: int, sample_seed: int) -> list[int]:
    return [shared_seed % 3, sample_seed % 2]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reading") / "runs.sqlite"
    rr.audit_callable(trained, shared_seeds=SEEDS, store=path, version="1")
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
    "another key": "UPDATE runs SET key = zeroblob(32) WHERE id = ?",
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("place", [1, _AT_ONCE + 3])
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
