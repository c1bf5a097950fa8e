"""The run store: finished runs never change, nothing finished is lost, and what was interrupted resumes.

Runs are made here, without an algorithm, by :func:`made`: a function of their specs, as runs are.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replicable_rl import PhasedVI, make
from replicable_rl.audit.evidence import AuditSpec, FreshSamples, SolveJob, audits_of
from replicable_rl.canonical import to_json
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import (
    Claim,
    Claims,
    Fingerprints,
    Logged,
    ObjectSpec,
    Run,
    RunFamily,
    RunSpec,
    Status,
    StatusCode,
)
from replicable_rl.store import RunStore, packed

TESTS = Path(__file__).parent
CHAIN, RIVER = ObjectSpec("chain-v1"), ObjectSpec("riverswim-v1", {"n_states": 6})
VALUES, MODEL, HISTORY = (ObjectSpec(id, {"calls": 1000}) for id in ("values-v1", "model-v1", "history-v1"))
LARGEST = 2**64 - 1
DONE = Status(StatusCode.COMPLETED, "made")
CLAIMS = Claims(
    (Claim("accuracy", "stated", "it is right", 0.1, "thm:x", 0.01),), {"replicability": "nobody proved it"}
)


JOB = SolveJob(make("chain-v1"), PhasedVI(0.1, 0.01))


def audit_of(algorithm: ObjectSpec = MODEL, seeds: Any = 2, **options: Any) -> AuditSpec:
    return AuditSpec(CHAIN, algorithm, shared_seeds=seeds, **options)


FAMILY = audit_of().family


def made(spec: RunSpec) -> Run:
    """Make a run: values that the shared seed decides, but for a few; then a model and a history."""
    q = np.random.default_rng(spec.shared_seed).random((4, 2))
    q[3, 0] = np.random.default_rng(spec.sample_seed).integers(2)
    outputs: dict[str, Any] = {"value": q, "policy": q.argmax(axis=1)}
    history = None
    if spec.algorithm.id in ("model-v1", "history-v1"):
        P = np.full((4, 2, 4), 0.25) if spec.problem == CHAIN else np.eye(4)[:, None, :].repeat(2, axis=1)
        outputs["model"] = TabularMDP.from_dense(P, q, gamma=0.9, initial=[1.0, 0.0, 0.0, 0.0])
    if spec.algorithm.id == "history-v1":
        history = {"known": np.array([1.0, np.nan]), "rate": q[:, 0]}
    run = Run.of(outputs, status=DONE, claims=CLAIMS, samples=2**70, history=history)
    return run.completed(spec, seconds=0.5)


@dataclass
class Made:
    """The runs that were really made, and what to do before the first, second, ... of them."""

    specs: list[RunSpec] = field(default_factory=list)
    before: dict[int, Callable[[], object]] = field(default_factory=dict)

    def run(self, spec: RunSpec) -> Run:
        self.specs.append(spec)
        if len(self.specs) in self.before:
            self.before.pop(len(self.specs))()
        return made(spec)


def audit(spec: AuditSpec, where: Path | str | RunStore | None, make: Callable[[RunSpec], Run] = made) -> list[Run]:
    """Make the runs that a store lacks, each committed by itself, as an audit does; then keep its spec."""
    store = where if isinstance(where, RunStore) else RunStore(where)
    known = store.runs(spec.family)
    for one in spec.runs:
        if one.digest not in known or known[one.digest].error is not None:
            contents: dict[str, bytes] = {}
            run = packed(make(one), contents)
            store.add([run], contents)
    store.add_audit(to_json(spec))
    runs = store.runs(spec.family)
    if store is not where and store.path is not None:
        store.close()
    return [runs[one.digest] for one in spec.runs]


def found(runs: list[Run]) -> str:
    """Everything that runs are, but for the time."""
    bits = [[level, str(getattr(one, "digest", one))] for run in runs for level, one in run.outputs.items()]
    return json.dumps([[run.to_json() for run in runs], bits], sort_keys=True)


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def change(path: Path, *statements: str) -> None:
    """Write to a file without the store, as nobody should."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def counts(store: RunStore) -> list[int]:
    return [runs for _, runs in store.families()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


# --- a row for every finished run, which never changes -----------------------------------------------


def test_the_first_to_finish_a_run_keeps_it_and_add_counts_what_is_new() -> None:
    one, two = (Run.of({"policy": [0, 1]}, status=DONE).completed(spec) for spec in audit_of(seeds=1).runs)
    with RunStore() as store:
        assert store.add([one], {}) == 1
        changed = replace(Run.of({"policy": [1, 1]}, status=replace(DONE, sentence="made twice")), spec=one.spec)
        assert store.add([changed, two], {}) == 1  # a new status is no run
        assert list(store.runs(FAMILY).values()) == [one, two]
        assert store.run(one.key) == one != changed


# --- runs come back whole, or not at all -------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [VALUES, MODEL, HISTORY], ids=lambda algorithm: str(algorithm.id))
def test_runs_are_those_that_were_added(path: Path, algorithm: ObjectSpec) -> None:
    for run in audit(audit_of(algorithm), path):
        assert run.spec is not None
        expected = made(run.spec)
        assert (run, dict(run.made_with), run.seconds) == (expected, dict(expected.made_with), 0.5)
        assert list(run.outputs) == list(expected.outputs)
        assert (run.q.tobytes(), run.policy.tobytes()) == (expected.q.tobytes(), expected.policy.tobytes())
        assert run.model == expected.model
        assert {k: v.tobytes() for k, v in run.history.items()} == {k: v.tobytes() for k, v in expected.history.items()}
        assert not any(array.flags.writeable for array in (run.q, run.policy, *run.history.values()))


def test_packed_runs_travel_and_bring_each_output_once() -> None:
    runs = [made(spec) for spec in audit_of(HISTORY, 3).runs]
    contents: dict[str, bytes] = {}
    sent = pickled([packed(run, contents) for run in runs])
    assert sent == runs
    assert all(run.outputs == {} and run.made_with == runs[0].made_with for run in sent)
    assert set(contents) == {d for run in runs for d in (*run.fingerprints.values(), *run.columns.values())}
    with RunStore() as store:
        assert store.add(sent, contents) == 6
        assert found(list(store.runs(audit_of(HISTORY, 3).family).values())) == found(runs)
        assert store.add([packed(run, {}) for run in store.runs(audit_of(HISTORY, 3).family).values()], {}) == 0


@pytest.mark.parametrize("damage", ["substr(data, 1, length(data) - 8)", "x''", "'text'", "other", "flip"])
@pytest.mark.parametrize("kind", ["policy", "model", "rate"])
def test_damaged_contents_are_found_out(path: Path, kind: str, damage: str) -> None:
    run = audit(audit_of(HISTORY, 1), path)[0]
    other = audit(AuditSpec(RIVER, HISTORY, shared_seeds=2), path)[-1]
    digest, another = ({**one.fingerprints, **one.columns}[kind] for one in (run, other))
    assert digest != another
    if damage == "other":  # sound, but not what this fingerprint means
        damage = f"(SELECT data FROM contents WHERE digest = x'{another}')"
    if damage == "flip":
        ((data,),) = rows(path, f"SELECT data FROM contents WHERE digest = x'{digest}'")
        at = len(data) // 2 if kind == "model" else len(data) - 3
        damage = f"x'{(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]).hex()}'"
    change(path, f"UPDATE contents SET data = {damage} WHERE digest = x'{digest}'")
    kept = RunStore(path).run(run.key)
    with pytest.raises(InvalidFile, match=rf"{path}.*{kind} {digest[:16]}: is damaged \("):
        kept.history[kind] if kind == "rate" else kept.outputs[kind]


@pytest.mark.parametrize(
    "column",
    [
        *("sample = '7'", "shared_seed = '7'", "family = about", "about = 99", "key = x'00'", "error = 'x'"),
        *("seconds = 7.0", "samples = '9'", "digests = zeroblob(length(digests))"),
        *("digest = zeroblob(32)", "sample = CAST(x'b1' AS TEXT)"),
    ],
)
def test_a_row_that_was_changed_is_found_out(path: Path, column: str) -> None:
    audit(audit_of(VALUES, 1), path)
    change(path, f"UPDATE runs SET {column} WHERE id = 1")
    ((key,),) = rows(path, "SELECT hex(key) FROM runs WHERE id = 1")
    with RunStore(path) as store, pytest.raises(InvalidFile, match=rf"^{path}: .*the file is damaged \(.*Restore it"):
        store.run(key)


def test_what_is_not_there_is_said() -> None:
    run = replace(Run.of({"policy": [0]}), spec=FAMILY.spec(1, 2))
    with RunStore() as store:
        store.add([run], {})
        for ask, complaint in (
            (lambda: store.run("ab" * 32), "no run has the key abab"),
            (lambda: store.run("nonsense"), "hexadecimal digits, got 'nonsense'"),
            (lambda: store.output("policy", "ab" * 32), "holds nothing with the fingerprint abab"),
            (lambda: store.run(run.key).policy, "holds nothing with the fingerprint"),
            (lambda: store.add([Run.of({"policy": [0]})], {}), "has no identity yet"),
            (lambda: store.add([replace(run, fingerprints=Fingerprints(policy="00"))], {}), "64 hexadecimal digits"),
        ):
            with pytest.raises(InvalidInput, match=complaint):
                ask()
        assert len(store.runs(FAMILY)) == 1
    with pytest.raises(InvalidInput, match="closed"):
        store.families()


# --- levels are open, samples may be recorded, audits are kept ---------------------------------------


def test_recorded_samples_round_trip(path: Path) -> None:
    log = Logged("ab" * 32)
    runs = [Run.of({"policy": [0, i]}, status=DONE).completed(RunSpec(CHAIN, MODEL, i, log)) for i in range(2)]
    failed = Run.failed(RunSpec(CHAIN, MODEL, 2, log), "RuntimeError: out of luck", 0.5)
    with RunStore(path) as store:
        assert store.add([*runs, failed], {}) == 2
        audit(audit_of(), store)
    with RunStore(path) as store:
        assert [store.run(run.key) for run in (*runs, failed)] == [*runs, failed]
        kept = store.run(runs[1].key)
        assert kept.spec == runs[1].spec
        assert kept.spec is not None
        assert (kept.spec.sample, kept.sample_seed) == (log, None)
        # they are a family of their own: those of an audit over logs
        recorded = RunFamily(CHAIN, MODEL, None)
        assert store.families() == [(recorded, 2), (FAMILY, 4)]
        assert store.runs(recorded) == {run.key: run for run in (*runs, failed)}
        assert len(store.runs(FAMILY)) == 4


def test_audits_are_kept_once_in_their_order(path: Path) -> None:
    specs = [
        audit_of(seeds=5, rho=0.2, require=0.9, level="value"),
        audit_of(seeds=[LARGEST, 2**63, 0], runs_per_seed=3, seed=LARGEST, confidence=0.5),
        audit_of(HISTORY, evidence=FreshSamples(sampler="own")),
    ]
    with RunStore(path) as store:
        for spec in (*specs, specs[0], replace(specs[1], job=JOB)):
            store.add_audit(to_json(spec))
        assert audits_of(store) == specs
    with RunStore(path) as store:
        assert audits_of(store) == specs
        assert [spec.runs for spec in audits_of(store)] == [spec.runs for spec in specs]


# --- closed, copied, moved and deleted stores --------------------------------------------------------


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # its own


def test_closed_stores_open_for_as_long_as_they_are_used(path: Path) -> None:
    runs = audit(audit_of(HISTORY), path)
    closed = RunStore(path)
    closed.close()
    assert closed.run(runs[0].key).policy.tolist() == runs[0].policy.tolist()
    assert closed._opened is None
    with pytest.raises(InvalidInput, match="in memory cannot be copied"):
        pickled(RunStore())


def test_stores_that_are_gone_are_not_made_again(path: Path) -> None:
    runs, store = audit(audit_of(), path), RunStore(path)
    store.close()
    path.unlink()
    for use in (lambda: runs[0].policy, store.families, lambda: store.add([], {})):
        with pytest.raises(InvalidFile, match=f"^{path}: the store is gone; it was moved or deleted"):
            use()
    assert not path.exists()


# --- the same call resumes, more seeds extend --------------------------------------------------------


def fail(error: BaseException) -> None:
    raise error


def test_failures_are_kept_and_a_later_success_counts(path: Path) -> None:
    spec = audit_of(seeds=3)
    runs = [made(one) for one in spec.runs]
    failed = Run.failed(spec.runs[3], "RuntimeError: out of luck", 0.25)
    with RunStore(path) as store:
        assert store.add([*runs[:3], failed, *runs[4:]], {}) == 5
        kept = store.runs(FAMILY)
        assert list(kept.values()) == [*runs[:3], *runs[4:], failed]
        assert store.run(failed.key) == kept[failed.key] == failed
        assert (kept[failed.key].seconds, kept[failed.key].made_with) == (0.25, failed.made_with)
        assert counts(store) == [5]
        again = replace(failed, error="RuntimeError: again", status=replace(DONE, code=StatusCode.FAILED))
        store.add([again], {})
        assert store.run(failed.key).error == "RuntimeError: again"
        assert store.add([runs[3]], {}) == 1
        assert store.run(failed.key) == store.runs(FAMILY)[failed.key] == runs[3]
        assert [store.runs(FAMILY)[one.digest] for one in spec.runs] == runs


def test_resuming_and_extending_make_only_what_is_missing(path: Path) -> None:
    def numbers(seeds: int, runs: int, algorithm: ObjectSpec = MODEL) -> tuple[int, str]:
        watch, spec = Made(), audit_of(algorithm, seeds, runs_per_seed=runs)
        runs_made = audit(spec, path, watch.run)
        return len(watch.specs), found(runs_made)

    small = numbers(5, 2)
    assert small == (10, found(audit(audit_of(seeds=5), None)))
    assert numbers(10, 2) == (10, found(audit(audit_of(seeds=10), None)))
    assert numbers(10, 3) == (10, found(audit(audit_of(seeds=10, runs_per_seed=3), None)))
    assert [numbers(2, 2, HISTORY)[0], numbers(2, 2, VALUES)[0]] == [4, 4]
    assert numbers(5, 2) == (0, small[1])  # among many others
    with RunStore(path) as store:
        expected = [(audit_of(algorithm).family, n) for algorithm, n in ((MODEL, 30), (HISTORY, 4), (VALUES, 4))]
        assert store.families() == expected
        assert [len(store.runs(family)) for family, _ in expected] == [30, 4, 4]
        assert store.runs(RunFamily(CHAIN, ObjectSpec("model-v1", {"calls": 999}))) == {}


def resumes(store: Path | RunStore, algorithm: ObjectSpec, *, finished: int) -> None:
    """Check that ten seeds come out as if uninterrupted, and that only what had not finished is made."""
    spec, watch = audit_of(algorithm, 10), Made()
    assert found(audit(spec, store, watch.run)) == found(audit(spec, None))
    assert watch.specs == spec.runs[finished:]


def test_interrupted_by_ctrl_c(path: Path) -> None:
    watch = Made(before={8: lambda: fail(KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        audit(audit_of(HISTORY, 10), path, watch.run)
    assert rows(path, "SELECT count(*) FROM runs") == [(7,)]
    resumes(path, HISTORY, finished=7)


# --- other processes ---------------------------------------------------------------------------------


def processes(count: int, code: str, *arguments: object) -> list[str]:
    """Run code in several processes, which start together, and return what they print; none may complain."""
    code = f"from tests.test_store import *\nstart = float(sys.argv[1])\nwhile time.time() < start: pass\n{code}"
    command = [sys.executable, "-W", "error", "-c", code, str(time.time() + 2 * (count > 1)), *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, cwd=TESTS.parent, **pipes) for _ in range(count)]
    ended = [(*process.communicate(timeout=100), process.returncode) for process in running]
    assert [(errors, code) for _, errors, code in ended] == [("", 0)] * count
    return [printed for printed, _, _ in ended]


def test_two_processes_may_make_one_audit(path: Path) -> None:
    code = "print(found(audit(audit_of(seeds=100), sys.argv[2])))"
    assert processes(2, code, path) == [found(audit(audit_of(seeds=100), None)) + "\n"] * 2
    assert rows(path, "SELECT count(*) FROM runs") == [(200,)]
    assert rows(path, "SELECT count(*) FROM audits") == [(1,)]


DIE = """
import signal
connect = sqlite3.connect

def die_at(statement):  # counted from the first that SQLite is given
    countdown = iter(range(statement, -1, -1))
    def traced(*args, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(lambda sql: next(countdown) or os.kill(os.getpid(), signal.SIGKILL))
        return connection
    sqlite3.connect = traced

def killed(statement, work):
    child = os.fork()
    if not child:
        die_at(statement)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0
"""


@pytest.mark.slow
def test_killed_at_every_statement(tmp_path: Path) -> None:
    code = f"""{DIE}
kept, spec = [], audit_of()
whole = found(audit(spec, None))
for statement in range(1000):
    path = f"{{sys.argv[2]}}/{{statement}}.sqlite"
    if not killed(statement, lambda: audit(spec, path)): break
    with RunStore(path) as store:
        finished = list(store.runs(FAMILY).values())
        found(finished)  # whole, with all contents
    assert found(audit(spec, path)) == whole
    with RunStore(path) as store: assert list(store.runs(FAMILY).values())[:len(finished)] == finished
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
        (b"problem,algorithm\n", "is no run store"),
        (b"problem,algorithm\n" * 1000, "is no run store"),
        (["CREATE TABLE notes (x)"], "of another program or of another"),
        (["PRAGMA application_id = 1", "PRAGMA user_version = 1"], "of another program or of another"),
        (["PRAGMA user_version = 2"], "no run store of schema 1"),
    ],
)
def test_other_files_are_refused_and_left_alone(path: Path, content: bytes | list[str], complaint: str) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        if content == ["PRAGMA user_version = 2"]:
            RunStore(path).close()
        change(path, *content)
    before = path.read_bytes()
    with pytest.raises(InvalidFile, match=f"^{path}: .*{complaint}"):
        audit(audit_of(), path)
    assert path.read_bytes() == before
