"""Files as evidence: nothing that was changed is believed, nothing finished is lost, no file takes time or memory.

Somebody who changes a record and computes its digest again is not found out here.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit.reading import read_audits
from replicable_rl.canonical import canonical_json, parse_json, read_npz
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.files import read_file
from replicable_rl.records import AuditSpec, ObjectSpec, Run
from replicable_rl.report.audits import store_page
from replicable_rl.report.page import render
from replicable_rl.report.reproduction import write_page
from replicable_rl.solve.files import load_run, save_run
from replicable_rl.store import DamagedRecord, RunStore, packed

V2 = Path(__file__).parent / "vectors" / "v2"
ALGORITHM = rr.PhasedVI(0.1, 0.01, calls=20, iterations=3)  # few samples: runs differ
TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"


def audited(where: Path | RunStore, seeds: int = 10) -> Any:
    return rr.audit(rr.make("two-goals-v1"), ALGORITHM, shared_seeds=seeds, store=where)


def change(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for statement in statements for row in connection.execute(statement).fetchall()]


def tamper(path: Path, *statements: str) -> None:
    """Change rows, as somebody does who knows SQL."""
    triggers = [name for (name,) in change(path, TRIGGERS)]
    change(path, *(f"DROP TRIGGER {name}" for name in triggers), *statements)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    algorithm = rr.ReplicableRMax(0.2, 0.05, 0.3, horizon=5)
    save_run(rr.solve(rr.make("chain-v1"), algorithm, shared_seed=1, sample_seed=1), tmp_path / "run")
    return tmp_path / "run"


# --- saved runs --------------------------------------------------------------------------------------


def claim_proof(record: dict[str, Any]) -> None:
    (claim,) = [one for one in record["claims"]["made"] if one["definition"] == "def:replicability"]
    claim.update(bound=1e-9, kind="proved", measurement=None)


@pytest.mark.parametrize(
    "edit",
    [
        claim_proof,
        lambda r: r.update(samples="1"),
        lambda r: r["status"].update(sentence="it went well"),
        lambda r: next(iter(r["history"].values())).__setitem__(0, 7.5),
        lambda r: next(iter(r["history"].values())).__setitem__(0, -0.0),
        lambda r: r["made_with"].update(numpy="0"),
        lambda r: r.update(version=2),
        lambda r: r.pop("digest"),
        lambda r: r.update(digest=None),
        lambda r: r.update(more=1),
    ],
)
def test_a_changed_record_of_a_run_is_refused(saved: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    record = json.loads((saved / "run.json").read_text())
    next(iter(record["history"].values()))[0] = 0.0
    before = json.dumps(record, sort_keys=True)
    edit(record)
    assert json.dumps(record, sort_keys=True) != before
    (saved / "run.json").write_text(json.dumps(record))
    with pytest.raises(InvalidFile, match=r"run: run.json does not have the digest recorded; it was changed"):
        load_run(saved)


def test_the_form_of_the_text_is_no_change(saved: Path) -> None:
    run = load_run(saved)
    record = json.loads((saved / "run.json").read_text())
    (saved / "run.json").write_text(json.dumps(dict(reversed(record.items()))))
    assert load_run(saved) == run
    assert run.sealed


def test_a_run_of_version_2_is_read_and_marked() -> None:
    run = load_run(V2 / "run")
    assert (run.sealed, load_run(V2.parent / "v1" / "solution-rpvi").sealed) == (False, False)
    assert run == rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1)


# --- stores ------------------------------------------------------------------------------------------

ONE = "(SELECT digests FROM runs WHERE id = 1)"
EDITS = {
    "fingerprints": f"UPDATE runs SET digests = {ONE}",
    "samples": "UPDATE runs SET samples = '1'",
    "seconds": "UPDATE runs SET seconds = seconds + 1",
    "status": "UPDATE runs SET status = NULL",
    "history": "UPDATE runs SET history = x'00'",
    "shared seed": "UPDATE runs SET shared_seed = '5' WHERE id > 1",
    "sample": "UPDATE runs SET sample = '5' WHERE id > 1",
    "seal": "UPDATE runs SET seal = zeroblob(32)",
    "what cannot be read, without a seal": "UPDATE runs SET samples = 'abc', seal = NULL WHERE id > 1",
    "short fingerprints, without a seal": "UPDATE runs SET digests = x'00', seal = NULL WHERE id > 1",
    "a seed that is none, without a seal": "UPDATE runs SET shared_seed = 'abc', seal = NULL WHERE id > 1",
    "claims": "UPDATE documents SET json = replace(json, 'missing', 'misting')",
    "made with": "UPDATE documents SET json = replace(json, 'numpy', 'lumpy')",
    "status of all": "UPDATE documents SET json = replace(json, 'sentence', 'absence')",
}


@pytest.mark.parametrize("edit", EDITS)
def test_changed_rows_are_named_left_out_and_made_again(path: Path, edit: str) -> None:
    before = audited(path)
    agreement, runs = before.agreement("policy"), before.runs
    assert agreement.same < agreement.pairs  # or there is nothing to fake
    tamper(path, EDITS[edit])
    with (
        RunStore(path) as store,
        pytest.warns(DamagedRecord, match=rf"^{path}: .* damaged and left out \(run [0-9a-f]"),
    ):
        left = store.runs(before.spec.family)
    assert set(left) < {run.key for run in runs}
    assert all(run in runs for run in left.values())
    with pytest.warns(DamagedRecord):
        again = audited(path)
    assert again.runs == runs
    assert again.agreement("policy").per_seed.tolist() == agreement.per_seed.tolist()
    with RunStore(path) as store:  # what took the place of damaged rows is sound, and nothing warns
        assert {run.key for run in store.runs(before.spec.family).values() if run.sealed} >= {run.key for run in runs}
        assert store.summary()[0].same["policy"] == agreement.same
    assert len(change(path, TRIGGERS)) == 3


def test_a_key_of_a_seed_that_nobody_writes_so_is_another_key(path: Path) -> None:
    """Somebody writes the seed with a zero before it, computes the key again, and takes the seal away."""
    family = audited(path).spec.family
    (row,) = change(path, "SELECT shared_seed, sample FROM runs WHERE id = 1")
    digest = family._hash.copy()
    digest.update(f'{row[1]}"}},"shared_seed":"0{row[0]}"}}'.encode())
    tamper(path, f"UPDATE runs SET shared_seed = '0{row[0]}', key = x'{digest.hexdigest()}', seal = NULL WHERE id = 1")
    with RunStore(path) as store, pytest.warns(DamagedRecord, match="no seed is written '0"):
        assert store.summary()[0].runs == len(store.runs(family))


def test_summaries_count_no_changed_rows(path: Path) -> None:
    result = audited(path)
    tamper(path, f"UPDATE runs SET digests = {ONE} WHERE id > 2")
    with RunStore(path) as store, pytest.warns(DamagedRecord, match="records are damaged"):
        (summary,) = store.summary()
    kept = [run for run in result.runs if run.fingerprints == result.runs[0].fingerprints]
    assert summary.runs <= 2 + len(kept) < len(result.runs)


def test_summaries_count_no_rows_that_cannot_be_read(path: Path) -> None:
    audited(path)
    claims = "UPDATE documents SET json = '[]' WHERE id IN (SELECT claims FROM runs)"
    tamper(path, "UPDATE runs SET seal = NULL", claims)
    with RunStore(path) as store, pytest.warns(DamagedRecord, match="records are damaged"):
        assert (store.summary(), store.families()) == ([], [])


def test_a_changed_audit_is_left_out(path: Path) -> None:
    audited(path)
    tamper(path, "UPDATE audits SET json = replace(json, '\"confidence\":0.95', '\"confidence\":0.5')")
    with RunStore(path) as store, pytest.warns(DamagedRecord, match=r"\(audit 1: it does not have its seal"):
        assert store.audits() == []


def test_dropped_triggers_come_back_with_the_next_write(path: Path) -> None:
    audited(path)
    tamper(path, "CREATE TRIGGER finished_runs_never_change BEFORE UPDATE ON runs BEGIN SELECT 1; END")
    audited(path, seeds=11)
    assert len(change(path, TRIGGERS)) == 3
    for statement in ("UPDATE runs SET seconds = 0", "DELETE FROM runs"):
        with pytest.raises(sqlite3.IntegrityError, match="finished runs"):
            change(path, statement)


def test_rows_without_a_seal_are_read_marked_and_shown(path: Path) -> None:
    shutil.copyfile(V2 / "store-v2.sqlite", path)
    before = path.read_bytes()
    with RunStore(path) as store:
        (first, _), *_ = store.families()
        assert not any(run.sealed for run in store.runs(first).values())
    assert "have no digest" in render(store_page(path).page)
    assert path.read_bytes() == before
    audited(path)
    with RunStore(path) as store:
        assert [any(run.sealed for run in store.runs(family).values()) for family, _ in store.families()].count(
            True
        ) == 1
        assert not any(run.sealed for run in store.runs(first).values())


def test_a_page_says_what_was_left_out(path: Path) -> None:
    audited(path)
    tamper(path, "UPDATE runs SET samples = '1' WHERE id = 3")
    with pytest.warns(DamagedRecord):
        page = render(store_page(path).page)
    assert "a record was changed after it was written, and is left out" in page
    assert "have no digest" not in page


# --- nothing is lost ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_store_that_goes_is_noticed_at_the_next_commit(path: Path, how: str) -> None:
    with RunStore(path) as store:
        audited(store)
        path.unlink()
        if how == "replaced":
            path.touch()
        with pytest.raises(InvalidFile, match="the store is gone; it was moved or deleted"):
            store.add([], {})


def test_the_log_is_named_where_no_runs_are(path: Path) -> None:
    with RunStore(path) as store:
        audited(store)
        shutil.copy(path, path.with_name("copy.sqlite"))  # the runs are in runs.sqlite-wal
    with pytest.raises(InvalidInput, match=r"copy.sqlite: holds no .*copy.sqlite-wal.*both"):
        store_page(path.with_name("copy.sqlite"))


def test_words_that_no_text_can_hold_are_recorded(path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        raise RuntimeError("\ud800 out of luck")

    result = rr.audit_callable(train, shared_seeds=2, store=path, on_error="record", version="1")
    with RunStore(path) as store:
        read = store.runs(result.spec.family)
    assert [run.error for run in read.values()] == [run.error for run in result.runs]
    assert all("\\ud800 out of luck" in str(run.error) for run in read.values())


# --- time and memory ---------------------------------------------------------------------------------


def peak_of(code: str, *arguments: object) -> tuple[str, int]:
    """Run code in a process of its own; return what it printed, and the most memory that it had, in MiB."""
    # VmHWM, for ru_maxrss remembers the process that started this one.
    tail = "\nprint(next(int(x.split()[1]) // 1024 for x in open('/proc/self/status') if x.startswith('VmHWM')))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code + tail, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),  # rather fails than fills
    )
    *said, peak = done.stdout.splitlines()
    return "\n".join(said), int(peak)


LOAD = """
import sys, replicable_rl as rr
try: rr.load_mdp(sys.argv[1])
except rr.InvalidInput as error: print(error)
"""


def test_a_compressed_file_is_judged_before_it_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("reward.npy", "w") as member:
        for _ in range(1024):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 10_000_000
    said, peak = peak_of(LOAD, path)
    assert f"would become {1 << 30}" in said
    assert peak < 600


def spec_store(path: Path) -> None:
    """Write a store that names a large problem, with sound seals."""
    spec = AuditSpec(ObjectSpec("garnet-v1", {"n_states": 1_000_000, "n_actions": 4}), ObjectSpec("x-v1"), 2)
    with RunStore(path) as store:
        runs = [Run.of({"policy": [0] * 20}).completed(one) for one in spec.runs]
        contents: dict[str, bytes] = {}
        store.add([packed(run, contents) for run in runs], contents)
        store.add_audit(spec)


REPORT = """
import sys
from replicable_rl.report.audits import store_page
from replicable_rl.report.page import render
from replicable_rl.report.reproduction import write_page
print(len(render(store_page(sys.argv[1]).page)) > 1000)
"""


def test_a_report_builds_no_large_problem(path: Path) -> None:
    spec_store(path)
    said, peak = peak_of(REPORT, path)
    assert said == "True"
    assert peak < 600


def test_a_report_of_a_tiny_store_that_asks_for_two_million_runs(path: Path) -> None:
    family = AuditSpec(ObjectSpec("chain-v1"), ObjectSpec("x-v1"), 1_000_000)
    with RunStore(path) as store:
        store.add_audit(family)
        store.add_audit(AuditSpec(ObjectSpec("chain-v1"), ObjectSpec("x-v1"), 800_000))
        store.add([Run.of({"policy": [0] * 5}).completed(family.family.spec(1, 2))], {})
    said, peak = peak_of(REPORT, path)
    assert said == "True"
    assert peak < 200  # 66 without a byte for any run that is not there


@pytest.mark.parametrize("read", [rr.load_mdp, Dataset.load, read_file])
def test_pipes_sockets_and_devices_are_refused_before_they_are_opened(tmp_path: Path, read: Any) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket.npz"))
        for name in (tmp_path / "pipe.npz", tmp_path / "socket.npz", tmp_path):
            with pytest.raises(InvalidFile, match=r"is (not a regular file|a directory)\. Name another file"):
                read(str(name) if name != tmp_path else tmp_path)
    with pytest.raises(InvalidInput):
        read("/dev/zero")


def test_a_pipe_among_the_files_of_a_run(saved: Path) -> None:
    (saved / "policy.npy").unlink()
    os.mkfifo(saved / "policy.npy")
    with pytest.raises(InvalidFile, match=r"policy\.npy"):
        load_run(saved)
    (saved / "run.json").unlink()
    os.mkfifo(saved / "run.json")
    with pytest.raises(InvalidFile, match=r"holds no run\.json"):
        load_run(saved)


# --- one sentence ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 2, None, 1.5])
def test_numbers_are_no_files(number: Any) -> None:
    for read in (rr.load_mdp, rr.load_run, Dataset.load):
        with pytest.raises(InvalidInput, match=f"got {number}"):
            read(number)
    os.fstat(1)  # standard output is still open


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**5, "[" * 70 + "]" * 70, "", b"\xff", "9" * 5000, "{", 7])
def test_json_that_is_none_is_one_sentence(text: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^JSON: "):
        parse_json(text)
    assert parse_json("[" * 60 + "]" * 60)


def npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


HEADERS = {
    "no end": b"{'descr': '<f8', 'fortran_order': False, 'shape': (",
    "huge": b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n",
    "long": b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 400 + b",), }\n",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
    "code": b"{'descr': __import__('os').abort(), 'fortran_order': False, 'shape': (1,), }\n",
    "no type": b"{'descr': '<f1', 'fortran_order': False, 'shape': (1,), }\n",
    "empty": b"",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_arrays_are_read_without_evaluation(saved: Path, name: str) -> None:
    (saved / "policy.npy").write_bytes(npy(HEADERS[name], bytes(8)))
    with pytest.raises(InvalidFile, match=r"not a replicable-rl run \(array: "):
        load_run(saved)


@pytest.mark.parametrize("dtype", ["<f8", "<i8", "<i4", "|u1", ">f4"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 2), (0,), (0, 4)])
def test_arrays_are_read_as_numpy_wrote_them(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    stream = io.BytesIO()
    np.savez_compressed(stream, one=array, two=np.asfortranarray(array))
    stream.seek(0)
    for name, read in read_npz(stream).items():
        assert (name in ("one", "two"), read.dtype, read.tolist()) == (True, array.dtype, array.tolist())


def test_what_no_canonical_text_holds_is_one_sentence() -> None:
    deep: Any = []
    for _ in range(10**5):
        deep = [deep]
    for value in ("\ud800", deep):
        with pytest.raises(InvalidInput, match="canonical JSON"):
            canonical_json(value)


@pytest.mark.parametrize("blob", ["x''", "'[[[['", "NULL", "7", "x'ff'", f"'{'[' * 20_000}'"])
@pytest.mark.parametrize("place", ["documents SET json", "audits SET json", "contents SET data"])
def test_empty_and_deep_cells_of_a_store_are_one_sentence(path: Path, place: str, blob: str) -> None:
    result = audited(path, seeds=2)
    table, column = place.replace(" SET", "").split()
    change(path, f"CREATE TABLE copy AS SELECT * FROM {table}", f"DROP TABLE {table}")
    change(path, f"ALTER TABLE copy RENAME TO {table}", f"UPDATE {table} SET {column} = {blob}")
    with RunStore(path) as store, warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedRecord)
        for ask in (store.families, store.summary, store.audits, lambda: read_audits(store)):
            with contextlib.suppress(InvalidInput):
                ask()
        if table == "contents":
            with pytest.raises(InvalidFile, match="is damaged"):
                store.run(result.runs[0].key).policy  # noqa: B018
        elif blob != "NULL":  # a row that names no document at all cannot be found
            assert store.damaged


def test_a_promise_that_is_too_small_to_be_seen_is_judged(path: Path) -> None:
    algorithm = rr.ReplicablePhasedVI(0.1, 1e-18, 1e-17, calls=20, iterations=2)
    result = rr.audit(rr.make("chain-v1"), algorithm, shared_seeds=2, store=path)
    assert 1.0 - float(str(result.rho)) == 1.0
    assert "undecided" in render(store_page(path).page)
    assert str(result)


def test_numbers_beyond_floats_in_a_history_are_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="Run: history must hold columns of numbers"):
        Run.of({"policy": [0]}, history={"loss": [10**400]})  # type: ignore[dict-item]  # the refusal is the point


@pytest.mark.parametrize("damage", ['{"columns": ["a"], "rows": [[1]]}', "null", "7", "no JSON", "[" * 1000])
def test_older_data_in_a_folder_of_results_are_a_sentence_on_its_page(tmp_path: Path, damage: str) -> None:
    about = '"format": "replicable-rl dataset", "version": 1, "name": "figure1", "title": "", "details": {}'
    (tmp_path / "figure1.json").write_text(f'{{{about}, "tables": {{"runs": {damage}}}}}')
    (tmp_path / "figure1.svg").write_text("<svg/>")
    page = write_page(tmp_path, "replicable-rl reproduce").read_text()
    assert "is of another version, or was changed" in page
    assert "replicable-rl reproduce figure1" in page
