"""The run store: finished runs never change, nothing finished is lost, and a resumed audit is the same audit.

``python -m tests.test_store`` writes the golden files ``tests/vectors/store-v1.*`` anew. That is for a new
schema version, under its own name: what a release has written stays, and must open in every later one.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import jobs
from replicable_rl.audit import run as audit_run
from replicable_rl.records import ObjectSpec, RunFamily, RunRecord
from replicable_rl.solve import algorithm_spec
from replicable_rl.store import arrays as codec
from replicable_rl.store.schema import APPLICATION_ID

VECTORS = Path(__file__).parent / "vectors"
CHAIN = rr.make("chain-v1")
VALUES = rr.ReplicablePhasedVI(0.1, 0.01, 0.2, calls=100_000, iterations=5)
MODEL = rr.ApproximateMDP(0.2, 0.1, calls=1000)
HISTORY = rr.RMax(0.2, 0.05, horizon=5)
KINDS = [pytest.param(VALUES, id="values"), pytest.param(MODEL, id="model"), pytest.param(HISTORY, id="history")]
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


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The seeds of the runs that were really made; each is committed by itself."""
    seeds: list[tuple[int, int]] = []

    def solve(problem: Any, algorithm: Any, *, shared_seed: int, sample_seed: int) -> rr.Solution:
        seeds.append((shared_seed, sample_seed))
        return rr.solve(problem, algorithm, shared_seed=shared_seed, sample_seed=sample_seed)

    monkeypatch.setattr(jobs, "solve", solve)
    monkeypatch.setattr(audit_run, "_COMMIT_EVERY", 0.0)
    return seeds


def before_run(patch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Do something before a run, counted from 1, of those to come."""
    solve, calls = jobs.solve, Counter[str]()

    def acting(*args: Any, **seeds: int) -> rr.Solution:
        calls["runs"] += 1
        if calls["runs"] == number:
            act()
        return solve(*args, **seeds)

    patch.setattr(jobs, "solve", acting)


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
        ("INSERT OR REPLACE INTO runs SELECT id, key, 9, 9, 9, 9, NULL, 9, 9, 9, 9, 9, 9, 9 FROM runs", None),
        ("INSERT OR REPLACE INTO runs SELECT id, x'00', 9, 9, 9, 9, NULL, 9, 9, 9, 9, 9, 9, 9 FROM runs", None),
    ],
)
def test_finished_rows_never_change(path: Path, statement: str, complaint: str | None) -> None:
    rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    before = rows(path, "SELECT * FROM runs")
    if complaint is None:
        change(path, statement)
    else:
        with pytest.raises(sqlite3.IntegrityError, match=complaint):
            change(path, statement)
    assert rows(path, "SELECT * FROM runs") == before


def test_the_first_to_finish_a_run_keeps_it_and_add_counts_what_is_new() -> None:
    family, status = family_of(MODEL), rr.Status(rr.StatusCode.COMPLETED, "made once")
    one, two = (RunRecord(family.key(7, i), 7, i, policy="00", samples=0, status=status) for i in (1, 2))
    with rr.RunStore() as store:
        assert store.add(family, [one], {"00": codec.encode_array(np.array([1]))}) == 1  # the status is no run
        changed = one._replace(policy="ff", seconds=9.0, status=replace(status, sentence="made twice"))
        assert store.add(family, [changed, two], {"00": codec.encode_array(np.array([2]))}) == 1
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
    result = rr.audit(CHAIN, HISTORY, shared_seeds=6, store=path)
    again = rr.audit(CHAIN, HISTORY, shared_seeds=6, seed=1, store=path)
    records = result.records + again.records
    digests = {digest for r in records for digest in (r.policy, r.value, r.model, r.history)}
    assert len({r.policy for r in records}) < len(records)
    assert rows(path, "SELECT count(*), count(DISTINCT digest) FROM arrays") == [(len(digests), len(digests))]
    documents = {(r.status, None) for r in records} | {(None, r.guarantee) for r in records}
    assert rows(path, "SELECT count(*), count(DISTINCT json) FROM documents") == [(len(documents) + 2,) * 2]


# --- solutions come back whole, or not at all --------------------------------------------------------


@pytest.mark.parametrize("algorithm", KINDS)
def test_solution_is_the_one_that_solve_gives(path: Path, algorithm: Any) -> None:
    for record in rr.audit(CHAIN, algorithm, shared_seeds=2, store=path).records:
        with rr.RunStore(path) as store:
            kept = store.solution(record.key)
        solved = rr.solve(CHAIN, algorithm, shared_seed=record.shared_seed, sample_seed=record.sample_seed)
        assert json.dumps(kept.to_json(), sort_keys=True) == json.dumps(solved.to_json(), sort_keys=True)
        assert (kept.spec, kept.status, kept.guarantee) == (solved.spec, solved.status, solved.guarantee)
        assert (kept.fingerprints, kept.model) == (solved.fingerprints, solved.model)
        assert [column.tobytes() for column in kept.history.values()] == [h.tobytes() for h in solved.history.values()]
        assert (kept.q.tobytes(), kept.policy.tobytes()) == (solved.q.tobytes(), solved.policy.tobytes())
        assert not kept.q.flags.writeable
        assert not kept.policy.flags.writeable
        if kept.model is not None and solved.model is not None:
            assert kept.model.labels == solved.model.labels


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
    with rr.RunStore(path) as store, pytest.raises(rr.InvalidInput, match=rf"{digest[:16]}: is damaged \(") as caught:
        store.solution(record.key)
    assert str(path) in str(caught.value)


def test_changed_rows_and_documents_are_found_out(path: Path) -> None:
    record, _ = rr.audit(CHAIN, VALUES, shared_seeds=1, store=path).records
    change(path, "DROP TRIGGER finished_runs_never_change", "UPDATE runs SET sample_seed = '7'")
    with rr.RunStore(path) as store, pytest.raises(rr.InvalidInput, match="the file was changed"):
        store.solution(record.key)
    change(path, "UPDATE documents SET json = '{' || id")
    with rr.RunStore(path) as store, pytest.raises(rr.InvalidInput, match="is damaged"):
        store.solution(record.key)


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


# --- failures ----------------------------------------------------------------------------------------


def test_failures_are_kept_and_a_later_success_counts(
    path: Path, made: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("out of luck")

    family, whole = family_of(MODEL), found(rr.audit(CHAIN, MODEL, shared_seeds=3))
    with monkeypatch.context() as patch:
        before_run(patch, 4, fail)
        first = rr.audit(CHAIN, MODEL, shared_seeds=3, store=path, on_error="record")
    with rr.RunStore(path) as store:
        (failure,) = store.failures(family)
        assert failure == first.records[3]
        assert "out of luck" in str(failure.error)
        assert store.keys(family) == store.keys(family, failed=True) - {failure.key}
        assert [runs for *_, runs in store.families()] == [5]
    made.clear()
    assert found(rr.audit(CHAIN, MODEL, shared_seeds=3, store=path, on_error="record")) == found(first)
    assert made == []
    assert found(rr.audit(CHAIN, MODEL, shared_seeds=3, store=path)) == whole
    assert made == [first.plan.seeds[3]]


# --- the same call resumes, more seeds extend --------------------------------------------------------


def test_resuming_and_extending_make_only_what_is_missing(path: Path, made: list[tuple[int, int]]) -> None:
    def audit(seeds: int, runs: int, algorithm: Any = MODEL) -> tuple[int, str]:
        made.clear()
        result = rr.audit(CHAIN, algorithm, shared_seeds=seeds, runs_per_seed=runs, store=path)
        return len(made), found(result)

    small, (_, first) = audit(5, 2), audit(5, 2)
    assert small == (10, first)
    assert audit(10, 2) == (10, found(rr.audit(CHAIN, MODEL, shared_seeds=10)))
    assert audit(10, 3) == (10, found(rr.audit(CHAIN, MODEL, shared_seeds=10, runs_per_seed=3)))
    assert audit(2, 2, HISTORY)[0] == 4
    assert audit(2, 2, VALUES)[0] == 4
    assert audit(5, 2) == (0, first)  # among many others
    with rr.RunStore(path) as store:
        expected = [(CHAIN.spec, algorithm_spec(a), n) for a, n in ((MODEL, 30), (HISTORY, 4), (VALUES, 4))]
        assert store.families() == expected
        assert [len(store.runs(RunFamily(problem, algorithm))) for problem, algorithm, _ in expected] == [30, 4, 4]
        assert store.runs(family_of(replace(MODEL, calls=999))) == []


def test_interrupted_by_ctrl_c(path: Path, made: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_run, "_COMMIT_EVERY", 1e9)  # so that runs wait to be written when it comes
    with monkeypatch.context() as patch:
        before_run(patch, 8, interrupt)
        with pytest.raises(KeyboardInterrupt):
            rr.audit(CHAIN, HISTORY, shared_seeds=10, store=path)
    assert rows(path, "SELECT count(*) FROM runs") == [(7,)]
    made.clear()
    resumed = rr.audit(CHAIN, HISTORY, shared_seeds=10, store=path)
    assert len(made) == 13
    assert found(resumed) == found(rr.audit(CHAIN, HISTORY, shared_seeds=10))


@pytest.mark.parametrize("full_at", [1, 9])
def test_full_disk(path: Path, made: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, full_at: int) -> None:
    with rr.RunStore(path) as store:
        sql = store._connection.execute

        def fill() -> None:
            sql(f"PRAGMA max_page_count = {sql('PRAGMA page_count').fetchone()[0]}")

        with monkeypatch.context() as patch:
            before_run(patch, full_at, fill)
            with pytest.raises(rr.InvalidInput, match=f"{path}: database or disk is full.*resumes") as caught:
                rr.audit(CHAIN, HISTORY, shared_seeds=10, store=store)
        assert caught.value.__suppress_context__  # one clear sentence
        finished = len(store.runs(family_of(HISTORY)))
        assert full_at - 1 <= finished < 20
        sql("PRAGMA max_page_count = 1000000")
        made.clear()
        resumed = rr.audit(CHAIN, HISTORY, shared_seeds=10, store=store)  # with the very store that had failed
        assert len(made) == 20 - finished
        assert found(resumed) == found(rr.audit(CHAIN, HISTORY, shared_seeds=10))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_really_full_disk(small_disk: Path, made: list[tuple[int, int]]) -> None:
    path = small_disk / "runs.sqlite"
    for _ in range(2):  # a second time there is no room from the start
        with pytest.raises(rr.InvalidInput, match=rf"{path}: .*(full|I/O|unable).*resumes"):
            rr.audit(CHAIN, MODEL, shared_seeds=40, store=path)
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    ((finished,),) = rows(path, "SELECT count(*) FROM runs")
    assert 0 < finished < 80
    made.clear()
    resumed = rr.audit(CHAIN, MODEL, shared_seeds=40, store=path)
    assert len(made) == 80 - finished
    assert found(resumed) == found(rr.audit(CHAIN, MODEL, shared_seeds=40))


# --- other processes ---------------------------------------------------------------------------------


def processes(count: int, code: str, *arguments: object) -> list[str]:
    """Run code in several processes at once, and return what they print; none may complain."""
    command = [sys.executable, "-W", "error", "-c", f"from tests.test_store import *\n{code}", *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, cwd=VECTORS.parent.parent, **pipes) for _ in range(count)]
    ended = [(*process.communicate(timeout=100), process.returncode) for process in running]
    assert [(errors, code) for _, errors, code in ended] == [("", 0)] * count
    return [printed for printed, _, _ in ended]


def test_several_processes_may_create_one_file(tmp_path: Path) -> None:
    code = """
for i in range(60):
    while time.time() < float(sys.argv[2]) + i * 0.02: pass
    with rr.RunStore(f"{sys.argv[1]}/{i}.sqlite") as store: assert store.families() == []
"""
    processes(4, code, tmp_path, time.time() + 2)
    assert len(list(tmp_path.iterdir())) == 60


def test_two_processes_may_make_one_audit(path: Path) -> None:
    code = "print(found(rr.audit(CHAIN, HISTORY, shared_seeds=200, store=sys.argv[1])))"
    whole = found(rr.audit(CHAIN, HISTORY, shared_seeds=200))
    assert processes(2, code, path) == [whole + "\n"] * 2
    assert rows(path, "SELECT count(*) FROM runs") == [(400,)]


def test_killed_at_every_statement(tmp_path: Path) -> None:
    code = """
import signal
audit_run._COMMIT_EVERY = 0.0
connect, whole = sqlite3.connect, found(rr.audit(CHAIN, HISTORY, shared_seeds=3))

def die_at(statement):  # counted from the first that SQLite is given
    countdown = iter(range(statement, -1, -1))
    trace = lambda sql: next(countdown) or os.kill(os.getpid(), signal.SIGKILL)
    def traced(*args, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(trace)
        return connection
    sqlite3.connect = traced

finished = []
for statement in range(1000):
    path = f"{sys.argv[1]}/{statement}.sqlite"
    child = os.fork()
    if not child:
        die_at(statement)
        rr.audit(CHAIN, HISTORY, shared_seeds=3, store=path)
        os._exit(0)
    if not os.waitpid(child, 0)[1]: break
    with rr.RunStore(path) as store: finished.append(store.runs(family_of(HISTORY)))
    assert found(rr.audit(CHAIN, HISTORY, shared_seeds=3, store=path)) == whole
    with rr.RunStore(path) as store: assert store.runs(family_of(HISTORY))[:len(finished[-1])] == finished[-1]
print([len(runs) for runs in finished])
"""
    kept = json.loads(processes(1, code, tmp_path)[0])
    assert kept == sorted(kept)
    assert set(kept) == set(range(7))  # a kill was tried between any two commits


# --- what is no store of this release ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"problem,algorithm\n", "is not a run store"),
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
        if "PRAGMA user_version" in content[0]:
            rr.RunStore(path).close()
            assert rows(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
        change(path, *content)
    before = path.read_bytes()
    with pytest.raises(rr.InvalidInput, match=f"^{path}: .*{complaint}"):
        rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    assert path.read_bytes() == before


def test_names_that_are_no_file(tmp_path: Path) -> None:
    names = {tmp_path: "is a directory", tmp_path / "no" / "x": "Make it first", "": "is a directory"}
    names |= {tmp_path / ("x" * 300): "cannot be opened", "/proc/x": "unable to open", 5: "must name a file"}
    for name, complaint in names.items():
        with pytest.raises(rr.InvalidInput, match=complaint):
            rr.RunStore(name)  # type: ignore[arg-type]  # some are wrong on purpose


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_files_that_may_not_be_written_or_read(path: Path) -> None:
    rr.audit(CHAIN, MODEL, shared_seeds=2, store=path)
    for mode, complaint in ((0o444, "readonly"), (0o000, "cannot be opened")):
        path.chmod(mode)
        with pytest.raises(rr.InvalidInput, match=complaint):
            rr.audit(CHAIN, MODEL, shared_seeds=3, store=path)


def test_empty_files_become_stores_and_cut_ones_are_refused(path: Path) -> None:
    path.touch()
    rr.audit(CHAIN, MODEL, shared_seeds=10, store=path)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(rr.InvalidInput, match=f"{path}: .*malformed"):
        rr.audit(CHAIN, MODEL, shared_seeds=10, store=path)


# --- files of every release --------------------------------------------------------------------------


def golden_audits(store: rr.RunStore) -> list[rr.AuditResult]:
    """Make, or find again, what the golden store holds."""
    rmax = rr.ReplicableRMax(0.2, 0.05, 0.3, horizon=5)
    return [rr.audit(CHAIN, algorithm, shared_seeds=3, store=store) for algorithm in (VALUES, rmax)]


def described(store: rr.RunStore) -> list[Any]:
    """All that a store holds, as JSON."""
    content = []
    for problem, algorithm, _ in store.families():
        family = RunFamily(problem, algorithm)
        records = [r._replace(status=str(r.status), guarantee=str(r.guarantee)) for r in store.runs(family)]  # type: ignore[arg-type]
        solutions = [store.solution(record.key).to_json() for record in records if record.value]
        content.append([problem.to_json(), algorithm.to_json(), records, solutions, store.failures(family)])
    return content


def agreements(results: list[rr.AuditResult]) -> list[Any]:
    found = [(level, result.agreement(level)) for result in results for level in result.levels]
    return [[level, one.same, one.pairs, one.estimate, one.low, one.high] for level, one in found]


def test_stores_of_earlier_releases_open(path: Path, made: list[tuple[int, int]]) -> None:
    for golden in sorted(VECTORS.glob("store-v*.sqlite")):
        expected = json.loads(golden.with_suffix(".json").read_text())
        shutil.copy(golden, path)
        with rr.RunStore(path) as store:
            assert json.dumps(described(store)) == json.dumps(expected["content"])
            for kept, one in zip(expected["agreements"], agreements(golden_audits(store)), strict=True):
                assert one[:4] == kept[:4]
                assert one[4:] == pytest.approx(kept[4:], abs=1e-9)
            (failure,) = store.failures(RunFamily(*store.families()[-1][:2]))
            assert (failure.shared_seed, failure.error) == (LARGEST, "RuntimeError: out of luck")
    assert made == []


def write_golden(name: str) -> None:
    path = VECTORS / f"{name}.sqlite"
    assert not path.exists(), "a golden file is never written again"
    with rr.RunStore(path) as store:
        found = agreements(golden_audits(store))
        own = RunFamily(ObjectSpec("callable"), ObjectSpec("train", {"rate": 0.5, "steps": 10**20}))
        seeds = LARGEST, 2**63
        finished = RunRecord(own.key(*seeds), *seeds, policy="00", samples=2**70, seconds=0.25)
        failed = RunRecord(own.key(LARGEST, 1), LARGEST, 1, seconds=0.5, error="RuntimeError: out of luck")
        store.add(own, [finished, failed], {"00": codec.encode_array(np.array([0, 1]))})
        expected = {"content": described(store), "agreements": found}
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write_golden("store-v1")
