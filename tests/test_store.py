"""The run store: finished runs never change, nothing finished is lost, and a resumed audit is the same audit.

``tests/vectors/store_v1.py`` wrote the golden store, which every later release must open.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import jobs
from replicable_rl.audit import run as audit_run
from replicable_rl.errors import InvalidFile
from replicable_rl.records import RunFamily, RunRecord
from replicable_rl.solve import algorithm_spec
from replicable_rl.store import arrays as codec
from tests.vectors import store_v1

VECTORS = Path(__file__).parent / "vectors"
CHAIN = rr.make("chain-v1")
VALUES = rr.ReplicablePhasedVI(0.1, 0.01, 0.2, calls=1000, iterations=5)
MODEL = rr.ApproximateMDP(0.2, 0.1, calls=1000)
HISTORY = rr.RMax(0.2, 0.05, horizon=5)  # and a model
LARGEST = 2**64 - 1


def family_of(algorithm: Any) -> RunFamily:
    return RunFamily(CHAIN.spec, algorithm_spec(algorithm))


def found(result: rr.AuditResult) -> str:
    """Everything that an audit found, but for the time."""
    return json.dumps([result.to_json(), result.rows()])


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def change(path: Path, *statements: str) -> None:
    """Write to a file without the store, as nobody should."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


@dataclass
class Made:
    """The seeds of the runs that were really made, and what to do before the first, second, ... of them."""

    seeds: list[tuple[int, int]] = field(default_factory=list)
    before: dict[int, Callable[[], object]] = field(default_factory=dict)

    def solve(self, problem: Any, algorithm: Any, *, shared_seed: int, sample_seed: int) -> rr.Solution:
        self.seeds.append((shared_seed, sample_seed))
        if len(self.seeds) in self.before:
            self.before.pop(len(self.seeds))()
        return rr.solve(problem, algorithm, shared_seed=shared_seed, sample_seed=sample_seed)

    def fail(self, error: BaseException) -> None:
        raise error


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Watch the runs of audits in this process, each of which is committed by itself."""
    watch = Made()
    monkeypatch.setattr(jobs, "solve", watch.solve)
    monkeypatch.setattr(audit_run, "_COMMIT_EVERY", 0.0)
    return watch


# --- a row for every finished run, which never changes -----------------------------------------------


def test_file_is_wal_with_one_row_for_every_run_under_the_digest_of_its_spec(path: Path) -> None:
    result = rr.audit(CHAIN, VALUES, shared_seeds=[0, 2**63, LARGEST], store=path)
    specs = [rr.RunSpec(CHAIN.spec, algorithm_spec(VALUES), *seeds) for seeds in result.plan.seeds]
    assert [record.key for record in result.records] == [spec.digest for spec in specs]
    kept = rows(path, "SELECT lower(hex(key)), shared_seed, sample_seed FROM runs ORDER BY id")
    assert kept == [(spec.digest, str(spec.shared_seed), str(spec.sample_seed)) for spec in specs]
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
    assert sorted(path.parent.iterdir()) == [path]  # closed: the log has gone into the file


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("UPDATE runs SET seconds = 0", "finished runs never change"),
        ("UPDATE OR REPLACE runs SET key = x'00' WHERE id = 1", "finished runs never change"),
        ("DELETE FROM runs WHERE id = 2", "finished runs are never deleted"),
        ("INSERT OR REPLACE INTO runs SELECT id, key, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9 FROM runs", None),
        ("INSERT OR REPLACE INTO runs SELECT NULL, key, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9 FROM runs", None),
        ("INSERT OR REPLACE INTO runs SELECT id, x'00', 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9 FROM runs", None),
    ],
)
def test_finished_rows_never_change(path: Path, statement: str, complaint: str | None) -> None:
    rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    before = rows(path, "SELECT * FROM runs")
    if complaint is None:  # ignored
        change(path, statement)
    else:
        with pytest.raises(sqlite3.IntegrityError, match=complaint):
            change(path, statement)
    assert rows(path, "SELECT * FROM runs") == before


def test_the_first_to_finish_a_run_keeps_it_and_add_counts_what_is_new() -> None:
    family, status = family_of(MODEL), rr.Status(rr.StatusCode.COMPLETED, "made once")
    one, two = (RunRecord(family.key(7, i), 7, i, policy="00", samples=0, status=status) for i in (1, 2))
    with rr.RunStore() as store:
        assert store.add(family, [one], {}) == 1
        changed = one._replace(policy="ff", seconds=9.0, status=replace(status, sentence="made twice"))
        assert store.add(family, [changed, two], {}) == 1  # a new status is no run
        assert store.runs(family) == [one, two]
        assert store.run(one.key) == one
        assert store.finished([one.key, "ab"]) == {one.key}


def test_large_numbers_survive(path: Path) -> None:
    family, many = family_of(MODEL), rr.PhasedVI(0.1, 0.01, calls=10**18, iterations=1)
    record = RunRecord(family.key(LARGEST, LARGEST - 1), LARGEST, LARGEST - 1, policy="00", samples=2**200 + 1)
    with rr.RunStore(path) as store:
        store.add(family, [record], {})
    with rr.RunStore(path) as store:
        assert store.runs(family) == [record]
        first, *_ = rr.audit(CHAIN, many, shared_seeds=[LARGEST], store=store).records
        assert first.samples == store.solution(first.key).samples == 10**19 > 2**63


def test_arrays_and_documents_are_kept_once(path: Path) -> None:
    records = [r for seed in (0, 1) for r in rr.audit(CHAIN, HISTORY, shared_seeds=6, seed=seed, store=path).records]
    digests = {digest for r in records for digest in (r.policy, r.value, r.model, r.history)}
    assert len({r.policy for r in records}) < len(records)
    assert rows(path, "SELECT count(*), count(DISTINCT digest) FROM arrays") == [(len(digests),) * 2]
    documents = {*(r.status for r in records), *(r.guarantee for r in records), "problem", "algorithm"}
    assert rows(path, "SELECT count(*), count(DISTINCT json) FROM documents") == [(len(documents),) * 2]


# --- solutions come back whole, or not at all --------------------------------------------------------


@pytest.mark.parametrize("algorithm", [VALUES, MODEL, HISTORY], ids=lambda algorithm: str(algorithm.id))
def test_solution_is_the_one_that_solve_gives(path: Path, algorithm: Any) -> None:
    for record in rr.audit(CHAIN, algorithm, shared_seeds=2, store=path).records:
        with rr.RunStore(path) as store:
            kept = store.solution(record.key)
        solved = rr.solve(CHAIN, algorithm, shared_seed=record.shared_seed, sample_seed=record.sample_seed)
        for name in ("spec", "status", "guarantee", "samples", "fingerprints", "model"):
            assert getattr(kept, name) == getattr(solved, name)
        assert (kept.q.tobytes(), kept.policy.tobytes()) == (solved.q.tobytes(), solved.policy.tobytes())
        assert [(k, v.tobytes()) for k, v in kept.history.items()] == [
            (k, v.tobytes()) for k, v in solved.history.items()
        ]
        assert json.dumps(kept.to_json(), sort_keys=True) == json.dumps(solved.to_json(), sort_keys=True)
        assert getattr(kept.model, "labels", None) == getattr(solved.model, "labels", None)
        assert not any(array.flags.writeable for array in (kept.q, kept.policy, *kept.history.values()))


def test_histories_of_any_names_and_bits() -> None:
    names = ("file", "allow_pickle", "a b/c", "", "ρ", "names", "arr_0")
    history = {name: np.array([np.nan, -0.0, i, np.inf]) for i, name in enumerate(names)}
    digest = codec.history_digest(history)
    kept = codec.decode_history("history", codec.encode_history(history), digest)
    assert {name: column.tobytes() for name, column in kept.items()} == {k: v.tobytes() for k, v in history.items()}
    assert codec.history_digest({**history, "": np.array([np.nan, 0.0, 3, np.inf])}) != digest


@pytest.mark.parametrize("damage", ["substr(data, 1, length(data) - 8)", "x''", "'text'", "other", "flip"])
@pytest.mark.parametrize("kind", ["policy", "value", "model", "history"])
def test_damaged_arrays_are_found_out(path: Path, kind: str, damage: str) -> None:
    record = rr.audit(CHAIN, HISTORY, shared_seeds=1, store=path).records[0]
    other = rr.audit(rr.make("riverswim-v1"), HISTORY, shared_seeds=1, store=path).records[0]
    digest = getattr(record, kind)
    if damage == "other":  # sound, but not what this fingerprint means
        damage = f"(SELECT data FROM arrays WHERE digest = x'{getattr(other, kind)}')"
    if damage == "flip":
        ((data,),) = rows(path, f"SELECT data FROM arrays WHERE digest = x'{digest}'")
        middle = len(data) // 2
        damage = f"x'{(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]).hex()}'"
    change(path, f"UPDATE arrays SET data = {damage} WHERE digest = x'{digest}'")
    with rr.RunStore(path) as store, pytest.raises(rr.InvalidInput, match=rf"{path}.*{digest[:16]}: is damaged \("):
        store.solution(record.key)


def test_changed_rows_and_documents_are_found_out(path: Path) -> None:
    record, _ = rr.audit(CHAIN, VALUES, shared_seeds=1, store=path).records
    change(path, "DROP TRIGGER finished_runs_never_change", "UPDATE runs SET sample_seed = '7'")
    with rr.RunStore(path) as store, pytest.raises(rr.InvalidInput, match="the file was changed"):
        store.solution(record.key)
    change(path, "UPDATE documents SET json = '{' || id")
    with rr.RunStore(path) as store, pytest.raises(rr.InvalidInput, match="is damaged"):
        store.solution(record.key)


def test_results_read_their_file_wherever_the_process_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    result = rr.audit(CHAIN, MODEL, shared_seeds=2, store=":memory:")  # a name like any other
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert found(result) == found(rr.audit(CHAIN, MODEL, shared_seeds=2))
    assert sorted(path.name for path in tmp_path.rglob("*")) == [":memory:", "elsewhere"]


def test_what_is_not_there_is_said() -> None:
    with rr.RunStore() as store:
        store.add(family_of(MODEL), [RunRecord("00", 1, 2, policy="11")], {})
        for ask, complaint in (
            (lambda: store.solution("ab" * 32), "no finished run has the key abab"),
            (lambda: store.run("nonsense"), "hexadecimal digits, got 'nonsense'"),
            (lambda: store.array("ab" * 32), "holds no array with the fingerprint abab"),
            (lambda: store.solution("00"), "no action values"),
        ):
            with pytest.raises(rr.InvalidInput, match=complaint):
                ask()
    with pytest.raises(rr.InvalidInput, match="closed"):
        store.families()
    with pytest.raises(rr.InvalidInput, match="closed"), store:
        pass


# --- closed, copied, moved and deleted stores --------------------------------------------------------


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # its own


def open_files(folder: Path) -> list[str]:
    """The files in a folder that this process has open."""
    links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return [link for link in links if link.startswith(f"{folder.resolve()}/")]


def test_closed_stores_open_for_as_long_as_they_are_used(path: Path) -> None:
    result = rr.audit(CHAIN, HISTORY, shared_seeds=2, store=path)
    for use in (
        lambda: result.store.families(),
        lambda: result.store.runs(result.family),
        lambda: result.store.failures(result.family),
        lambda: result.store.keys(result.family, failed=True),
        lambda: result.store.solution(result.records[0].key),
        lambda: result.table(),
        lambda: result.store.add(result.family, result.records, {}),
    ):
        assert use() is not None
        assert sorted(path.parent.iterdir()) == [path]
        if Path("/proc/self/fd").exists():
            assert open_files(path.parent) == []
    with result.store as store:
        assert store is result.store
        assert len(list(path.parent.iterdir())) > 1  # open, with its log, until the end of the block
        assert found(rr.audit(CHAIN, HISTORY, shared_seeds=2, store=store)) == found(result)
        assert len(list(path.parent.iterdir())) > 1
    assert sorted(path.parent.iterdir()) == [path]


def test_closed_stores_do_not_mistake_the_documents_of_a_file_in_their_place(path: Path) -> None:
    result = rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    path.unlink()
    rr.audit(rr.make("riverswim-v1"), VALUES, shared_seeds=1, store=path)
    result.store.add(result.family, result.records, {})
    with rr.RunStore(path) as store:
        assert store.families()[1:] == [(result.problem, result.algorithm, 4)]
        assert store.runs(result.family) == list(result.records)


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize("used", [True, False])
def test_copies_of_results_say_the_same(path: Path, in_file: bool, used: bool) -> None:
    result = rr.audit(CHAIN, HISTORY, shared_seeds=3, store=path if in_file else None)
    if used:  # then what was read is copied too
        found(result)
    for duplicate in (pickled(result), copy.deepcopy(result)):
        assert (duplicate.table(), duplicate.to_json()) == (result.table(), result.to_json())
        assert found(duplicate) == found(result)
        assert duplicate.store.families() == result.store.families()
        assert duplicate.family.key(7, 1) == result.family.key(7, 1)
        more = rr.audit(CHAIN, HISTORY, shared_seeds=5, store=duplicate.store)
        assert found(more) == found(rr.audit(CHAIN, HISTORY, shared_seeds=5))
        assert [runs for *_, runs in result.store.families()] == [10 if in_file else 6]


def test_results_of_callables_are_copied() -> None:
    result = rr.audit_callable(lambda shared, fresh: np.array([shared % 2, 0]), shared_seeds=3)
    assert found(pickled(result)) == found(copy.deepcopy(result)) == found(result)


def test_copies_of_stores(path: Path) -> None:
    with rr.RunStore(path) as store, rr.RunStore() as memory:
        assert pickled(store).path == copy.deepcopy(store).path == str(path)
        assert copy.deepcopy(memory).families() == []
        store.close()
        path.unlink()
        duplicate = pickled(store)
    with pytest.raises(rr.InvalidInput, match=f"^{path}: the store is gone"):
        duplicate.families()
    with pytest.raises(rr.InvalidInput, match="closed"):
        pickle.dumps(memory)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("how", ["moved", "deleted", "folder moved", "emptied"])
def test_stores_that_are_gone_are_not_made_again(tmp_path: Path, how: str) -> None:
    path = tmp_path / "folder" / "runs.sqlite"
    path.parent.mkdir()
    result = rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    if how == "moved":
        path.rename(tmp_path / "elsewhere.sqlite")
    elif how == "deleted":
        path.unlink()
    elif how == "emptied":
        path.write_bytes(b"")
    else:
        path.parent.rename(tmp_path / "elsewhere")
    complaint = f"^{path}: {'is empty' if how == 'emptied' else 'the store is gone; it was moved or deleted'}"
    before = sorted(tmp_path.rglob("*"))
    for use in (result.table, result.store.families, lambda: result.store.add(result.family, [], {})):
        with pytest.raises(InvalidFile, match=complaint) as caught:
            use()
        assert caught.value.__cause__ is None
    with pytest.raises(InvalidFile, match=complaint), result.store:
        pass
    assert sorted(tmp_path.rglob("*")) == before
    if how == "moved":
        (tmp_path / "elsewhere.sqlite").rename(path)
        assert found(result) == found(rr.audit(CHAIN, MODEL, shared_seeds=2))


def test_names_with_signs_that_mean_something_in_addresses(tmp_path: Path) -> None:
    names = ["a?mode=memory", "b#c", "%41 %", "file:d", "é&immutable=1"]
    for name in names:
        result = rr.audit(CHAIN, MODEL, shared_seeds=1, store=tmp_path / name)
        assert [runs for *_, runs in result.store.families()] == [2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


# --- the same call resumes, more seeds extend --------------------------------------------------------


def test_failures_are_kept_and_a_later_success_counts(path: Path, made: Made) -> None:
    family, whole = family_of(MODEL), found(rr.audit(CHAIN, MODEL, shared_seeds=3))
    made.seeds.clear()
    made.before[4] = lambda: made.fail(RuntimeError("out of luck"))
    first = rr.audit(CHAIN, MODEL, shared_seeds=3, store=path, on_error="record")
    with rr.RunStore(path) as store:
        (failure,) = store.failures(family)
        assert failure == first.records[3]
        assert "out of luck" in str(failure.error)
        assert store.keys(family) == store.keys(family, failed=True) - {failure.key}
        assert [runs for *_, runs in store.families()] == [5]
    made.seeds.clear()
    assert found(rr.audit(CHAIN, MODEL, shared_seeds=3, store=path, on_error="record")) == found(first)
    assert made.seeds == []
    assert found(rr.audit(CHAIN, MODEL, shared_seeds=3, store=path)) == whole
    assert made.seeds == [first.plan.seeds[3]]


def test_resuming_and_extending_make_only_what_is_missing(path: Path, made: Made) -> None:
    def audit(seeds: int, runs: int, algorithm: Any = MODEL) -> tuple[int, str]:
        made.seeds.clear()
        result = rr.audit(CHAIN, algorithm, shared_seeds=seeds, runs_per_seed=runs, store=path)
        return len(made.seeds), found(result)

    small = audit(5, 2)
    assert small == (10, found(rr.audit(CHAIN, MODEL, shared_seeds=5)))
    assert audit(10, 2) == (10, found(rr.audit(CHAIN, MODEL, shared_seeds=10)))
    assert audit(10, 3) == (10, found(rr.audit(CHAIN, MODEL, shared_seeds=10, runs_per_seed=3)))
    assert [audit(2, 2, HISTORY)[0], audit(2, 2, VALUES)[0]] == [4, 4]
    assert audit(5, 2) == (0, small[1])  # among many others
    with rr.RunStore(path) as store:
        expected = [(CHAIN.spec, algorithm_spec(a), n) for a, n in ((MODEL, 30), (HISTORY, 4), (VALUES, 4))]
        assert store.families() == expected
        assert [len(store.runs(RunFamily(problem, algorithm))) for problem, algorithm, _ in expected] == [30, 4, 4]
        assert store.runs(family_of(replace(MODEL, calls=999))) == []


def resumes(store: Path | rr.RunStore, made: Made, algorithm: Any, *, finished: int) -> None:
    """Check that ten seeds come out as if uninterrupted, and that only what had not finished is made."""
    whole = rr.audit(CHAIN, algorithm, shared_seeds=10)
    made.seeds.clear()
    assert found(rr.audit(CHAIN, algorithm, shared_seeds=10, store=store)) == found(whole)
    assert len(made.seeds) == 20 - finished


def test_interrupted_by_ctrl_c(path: Path, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_run, "_COMMIT_EVERY", 1e9)  # so that runs wait to be written when it comes
    made.before[8] = lambda: made.fail(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rr.audit(CHAIN, HISTORY, shared_seeds=10, store=path)
    assert rows(path, "SELECT count(*) FROM runs") == [(7,)]
    resumes(path, made, HISTORY, finished=7)


@pytest.mark.parametrize("full_at", [1, 9])
def test_full_disk(path: Path, made: Made, full_at: int) -> None:
    with rr.RunStore(path) as store:
        sql = store._connection.execute
        made.before[full_at] = lambda: sql(f"PRAGMA max_page_count = {sql('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(rr.InvalidInput, match=f"{path}: database or disk is full.*resumes") as caught:
            rr.audit(CHAIN, HISTORY, shared_seeds=10, store=store)
        assert caught.value.__suppress_context__  # one clear sentence
        finished = len(store.runs(family_of(HISTORY)))
        assert full_at - 1 <= finished < 20
        sql("PRAGMA max_page_count = 1000000")
        resumes(store, made, HISTORY, finished=finished)  # with the very store that had failed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_really_full_disk(small_disk: Path, made: Made) -> None:
    path = small_disk / "runs.sqlite"
    for _ in range(2):  # the second time there is no room from the start
        with pytest.raises(rr.InvalidInput, match=rf"{path}: .*(full|I/O|unable).*resumes"):
            rr.audit(CHAIN, MODEL, shared_seeds=10, store=path)
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    ((finished,),) = rows(path, "SELECT count(*) FROM runs")
    assert 0 < finished < 20
    resumes(path, made, MODEL, finished=finished)


# --- other processes ---------------------------------------------------------------------------------


def processes(count: int, code: str, *arguments: object) -> list[str]:
    """Run code in several processes, which start together, and return what they print; none may complain."""
    code = f"from tests.test_store import *\nstart = float(sys.argv[1])\nwhile time.time() < start: pass\n{code}"
    command = [sys.executable, "-W", "error", "-c", code, str(time.time() + 2 * (count > 1)), *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, cwd=VECTORS.parent.parent, **pipes) for _ in range(count)]
    ended = [(*process.communicate(timeout=100), process.returncode) for process in running]
    assert [(errors, code) for _, errors, code in ended] == [("", 0)] * count
    return [printed for printed, _, _ in ended]


def test_several_processes_may_create_one_file(tmp_path: Path) -> None:
    code = """
for i in range(60):
    while time.time() < start + i * 0.02: pass
    with rr.RunStore(f"{sys.argv[2]}/{i}.sqlite") as store: assert store.families() == []
"""
    processes(4, code, tmp_path)
    assert len(list(tmp_path.glob("*.sqlite"))) == 60


def test_two_processes_may_make_one_audit(path: Path) -> None:
    code = "print(found(rr.audit(CHAIN, MODEL, shared_seeds=200, store=sys.argv[2])))"
    assert processes(2, code, path) == [found(rr.audit(CHAIN, MODEL, shared_seeds=200)) + "\n"] * 2
    assert rows(path, "SELECT count(*) FROM runs") == [(400,)]


def test_a_second_store_in_a_process_does_not_take_the_locks_of_the_first(path: Path) -> None:
    with rr.RunStore(path) as store:
        result = rr.audit(CHAIN, MODEL, shared_seeds=2, store=store)
        assert len(copy.deepcopy(store).runs(result.family)) == 4
        with rr.RunStore(path) as second:
            assert len(second.runs(result.family)) == 4
        processes(1, "with rr.RunStore(sys.argv[2]) as store: store.families()", path)
        assert Path(f"{path}-wal").exists()  # the other process knows that it was not the last to close the file


def test_killed_at_every_statement(tmp_path: Path) -> None:
    code = """
import signal
audit_run._COMMIT_EVERY = 0.0
connect, whole = sqlite3.connect, found(rr.audit(CHAIN, MODEL, shared_seeds=2))

def die_at(statement):  # counted from the first that SQLite is given
    countdown = iter(range(statement, -1, -1))
    def traced(*args, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(lambda sql: next(countdown) or os.kill(os.getpid(), signal.SIGKILL))
        return connection
    sqlite3.connect = traced

kept = []
for statement in range(1000):
    path = f"{sys.argv[2]}/{statement}.sqlite"
    child = os.fork()
    if not child:
        die_at(statement)
        rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
        os._exit(0)
    if not os.waitpid(child, 0)[1]: break
    with rr.RunStore(path) as store:
        finished = store.runs(family_of(MODEL))
        for record in finished: store.solution(record.key)  # whole, with all arrays
    assert found(rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)) == whole
    with rr.RunStore(path) as store: assert store.runs(family_of(MODEL))[:len(finished)] == finished
    kept.append(len(finished))
print(kept)
"""
    kept = json.loads(processes(1, code, tmp_path)[0])
    assert kept == sorted(kept)
    assert set(kept) == set(range(5))  # kills came before the first commit, between any two, and after the last


# --- what is no store of this release ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"problem,algorithm\n", "is not a run store"),
        (b"x", "is not a run store"),
        (b"SQLite format 3", "is not a run store"),
        (bytes(5000), "is not a run store"),
        (b"problem,algorithm\n" * 1000, "is not a run store"),
        (["CREATE TABLE notes (x)"], "of another program"),
        (["CREATE TABLE runs (key)", "PRAGMA user_version = 1"], "of another program"),
        (["PRAGMA application_id = 1", "PRAGMA user_version = 1"], "of another program"),
        (["PRAGMA user_version = 2"], "schema version 2; this release reads version 1. Upgrade replicable-rl"),
        (["PRAGMA user_version = 0"], "schema version 0; .* Use the release that wrote it"),
    ],
)
def test_other_files_are_refused_and_left_alone(path: Path, content: bytes | list[str], complaint: str) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        if "schema version" in complaint:
            rr.RunStore(path).close()
        change(path, *content)
    before = path.read_bytes()
    with pytest.raises(rr.InvalidInput, match=f"^{path}: .*{complaint}"):
        rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    assert path.read_bytes() == before


def test_names_that_are_no_file(tmp_path: Path) -> None:
    names: dict[Any, str] = {tmp_path: "is a directory", tmp_path / "no" / "x": "Make it first", "": "is a directory"}
    names |= {
        tmp_path / ("x" * 300): "cannot be opened",
        "/proc/x": "unable to open|Make it first|cannot be made",
        5: "must name",
    }
    names |= {"a\0b": "must name a file.*a.x00b", b"a\0b": "must name a file", "a\ud800": "must name a file"}
    for name, complaint in names.items():
        with pytest.raises(rr.InvalidInput, match=complaint):
            rr.RunStore(name)


def test_devices_and_pipes_are_refused_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/null", "/dev/full", str(tmp_path / "pipe")):
        before = sorted(Path(name).parent.iterdir())
        with pytest.raises(InvalidFile, match=f"^{name}: is not a regular file"):
            rr.RunStore(name)
        assert sorted(Path(name).parent.iterdir()) == before


# --- files that can only be read ---------------------------------------------------------------------


def reads_and_does_not_write(path: Path) -> None:
    """Check that two seeds, which the file has, are found, and a third is refused."""
    before = sorted((one, one.read_bytes()) for one in path.parent.iterdir())
    result = rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    assert found(result) == found(rr.audit(CHAIN, MODEL, shared_seeds=2))
    assert [runs for *_, runs in result.store.families()] == [4]
    for _ in range(2):
        with pytest.raises(InvalidFile, match=rf"^{path}: the file cannot be written .*copy it"):
            rr.audit(CHAIN, MODEL, shared_seeds=3, store=path)
    assert sorted((one, one.read_bytes()) for one in path.parent.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_files_that_may_not_be_written_or_read(path: Path) -> None:
    rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    path.chmod(0o444)
    reads_and_does_not_write(path)
    path.chmod(0o644)
    path.parent.chmod(0o555)
    reads_and_does_not_write(path)
    with pytest.raises(rr.InvalidInput, match="cannot be made"):
        rr.RunStore(path.with_name("new"))
    path.parent.chmod(0o755)
    path.chmod(0o000)
    with pytest.raises(rr.InvalidInput, match="cannot be opened"):
        rr.audit(CHAIN, MODEL, shared_seeds=3, store=path)


@pytest.mark.parametrize("refused", ["file", "folder"])
def test_files_that_the_system_says_cannot_be_written(
    path: Path, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    no = path if refused == "file" else path.parent
    monkeypatch.setattr(os, "access", lambda asked, mode: mode != os.W_OK or Path(asked) != no)
    reads_and_does_not_write(path)
    if refused == "folder":
        with pytest.raises(InvalidFile, match="cannot be made, for its directory cannot be written"):
            rr.RunStore(path.with_name("new"))
        assert sorted(path.parent.iterdir()) == [path]
    path.write_bytes(b"")
    with pytest.raises(InvalidFile, match="is empty"):
        rr.RunStore(path)


def test_read_only_disk(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    path, logged, lost, idle = (small_disk / name / "runs.sqlite" for name in ("whole", "logged", "lost", "idle"))
    for one in (path, logged, lost, idle):
        one.parent.mkdir()
    rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    shutil.copy(path, idle)
    Path(f"{idle}-wal").touch()
    with rr.RunStore(small_disk / "open.sqlite") as store:  # as a killed process leaves it: the runs are in the log
        rr.audit(CHAIN, MODEL, shared_seeds=2, store=store)
        for ending in ("", "-wal", "-shm"):
            shutil.copy(f"{store.path}{ending}", f"{logged}{ending}")
        for ending in ("", "-wal"):
            shutil.copy(f"{store.path}{ending}", f"{lost}{ending}")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for one in (path, logged, idle):
        reads_and_does_not_write(one)
    with pytest.raises(InvalidFile, match=r"its last runs are in runs.sqlite-wal.*Copy both"):
        rr.RunStore(lost)
    with pytest.raises(InvalidFile, match="cannot be made"):
        rr.RunStore(path.with_name("new"))


# --- damaged files -----------------------------------------------------------------------------------


def test_empty_files_become_stores_and_cut_ones_are_refused(path: Path) -> None:
    path.touch()
    rr.audit(CHAIN, MODEL, shared_seeds=10, store=path)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(
        rr.InvalidInput, match=rf"^{path}: the file is damaged \(.*malformed\). Restore it from a copy.$"
    ):
        rr.audit(CHAIN, MODEL, shared_seeds=10, store=path)


def test_bytes_changed_anywhere_are_one_sentence_at_most(path: Path) -> None:
    rr.audit(CHAIN, HISTORY, shared_seeds=3, store=path)
    sound, said = path.read_bytes(), set()
    rng = np.random.default_rng(1)
    for start in range(0, len(sound), 509):
        damaged = bytearray(sound)
        damaged[start : start + 40] = rng.bytes(len(damaged[start : start + 40]))
        path.write_bytes(damaged)
        try:
            with rr.RunStore(path) as store:
                for problem, algorithm, _ in store.families():
                    store.failures(RunFamily(problem, algorithm))
                    for record in store.runs(RunFamily(problem, algorithm)):
                        store.solution(record.key)
        except rr.InvalidInput as error:
            said.add(str(error))
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert any("the file is damaged" in sentence for sentence in said)
    assert not [sentence for sentence in said if "Finished runs are kept" in sentence or "gone" in sentence]


@pytest.mark.parametrize(
    "column", ["key = 7", "shared_seed = 'x'", "policy = 'text'", "samples = '1.5'", "status = 99"]
)
def test_damaged_rows(path: Path, column: str) -> None:
    result = rr.audit(CHAIN, MODEL, shared_seeds=1, store=path)
    change(path, "DROP TRIGGER finished_runs_never_change", f"UPDATE runs SET {column} WHERE id = 1")
    with pytest.raises(InvalidFile, match=rf"^{path}: the file is damaged \(.*Restore it from a copy"):
        result.store.runs(result.family)


def test_damaged_text_and_failures(path: Path) -> None:
    record = RunRecord("00", 1, 2, error="out of luck")
    with rr.RunStore(path) as store:
        store.add(family_of(MODEL), [record], {})
        change(path, "UPDATE failures SET key = 7")
        for ask in (store.failures, lambda family: store.keys(family, failed=True)):
            with pytest.raises(InvalidFile, match="the file is damaged"):
                ask(family_of(MODEL))
        change(path, "UPDATE failures SET error = CAST(x'ff' AS TEXT)")
        with pytest.raises(InvalidFile, match="the file is damaged"):
            store.failures(family_of(MODEL))


# --- files of every release --------------------------------------------------------------------------


def test_stores_of_earlier_releases_open(path: Path, made: Made) -> None:
    expected = json.loads((VECTORS / "store-v1.json").read_text())
    shutil.copy(VECTORS / "store-v1.sqlite", path)
    with rr.RunStore(path) as store:
        assert json.dumps(store_v1.described(store)) == json.dumps(expected["content"])
        assert [runs for *_, runs in store.families()] == [6, 6, 1]
        for kept, one in zip(expected["agreements"], store_v1.agreements(store_v1.audits(store)), strict=True):
            assert one[:4] == kept[:4]
            assert one[4:] == pytest.approx(kept[4:], abs=1e-9)
    assert made.seeds == []


def test_summary_counts_what_an_audit_finds(tmp_path: Path) -> None:
    """Several families in one file, unequal numbers of runs under a seed, levels that are absent."""
    store = tmp_path / "runs.sqlite"
    problem = rr.make("two-goals-v1")
    algorithms = (rr.PhasedVI(0.1, 0.01, calls=1000, iterations=5), rr.ApproximateMDP(0.3, 0.1, calls=50))
    results = [rr.audit(problem, algorithm, shared_seeds=6, runs_per_seed=3, store=store) for algorithm in algorithms]
    with rr.RunStore(store) as opened:
        summaries = opened.summary()
    for result, summary in zip(results, summaries, strict=True):
        assert (summary.problem, summary.algorithm) == (result.problem, result.algorithm)
        assert (summary.runs, summary.shared_seeds, summary.pairs) == (18, 6, 18)
        assert summary.same == {level: result.agreement(level).same for level in result.levels}
    rr.audit(problem, algorithms[0], shared_seeds=1, runs_per_seed=5, store=store)
    with rr.RunStore(store) as opened:
        assert opened.summary()[0][2:5] == (20, 6, 5 * 3 + 10)
    assert rr.RunStore().summary() == []
