"""Runs on disk: whole or not at all, read back bit for bit, refused when changed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.canonical import record_digest
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.problem.files import load_mdp
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import (
    LEVELS,
    Claims,
    Drawn,
    Level,
    LibraryClaim,
    ObjectSpec,
    Recorded,
    Run,
    RunSpec,
    Status,
    StatusCode,
    register_level,
)
from replicable_rl.solve import load_run, save_run
from replicable_rl.store import packed

PARAMS: dict[str, Any] = {"epsilon": 0.2, "delta": 0.001, "rho": 0.2, "calls": 10**16, "iterations": 5}
SPEC = RunSpec(ObjectSpec("chain-v1", {"n_states": 6}), ObjectSpec("rpvi-v1", PARAMS), 2**64 - 1, Drawn(3))
DONE = Status(StatusCode.COMPLETED, "ran all")
CLAIMS = Claims(
    (LibraryClaim("accuracy", "proved", "it is right", 0.2, "thm:rpvi", 0.001),), {"replicability": "by nobody"}
)
Q = np.linspace(0.1, 2.0, 12).reshape(6, 2) / 3


def made(outputs: dict[str, Any] | None = None, **options: Any) -> Run:
    """Return a run with values, or with other outputs."""
    tables = {"value": Q, "policy": Q.argmax(axis=1)} if outputs is None else outputs
    return Run.of(tables, status=DONE, claims=CLAIMS, samples=6 * 10**17, **options).completed(SPEC)


def model(p: float = 0.5) -> TabularMDP:
    P = np.zeros((6, 2, 6))
    P[:, :, 0], P[:, :, 5] = p, 1.0 - p
    return TabularMDP.from_dense(P, Q, gamma=0.9, initial=np.eye(6)[0])


@pytest.fixture(scope="module")
def run() -> Run:
    return made()


@pytest.fixture(scope="module")
def with_model() -> Run:
    return made({"value": Q, "policy": Q.argmax(axis=1), "model": model()})


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> Path:
    save_run(run, tmp_path / "run")
    return tmp_path / "run"


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the record of a saved run, and give it the digest of what it says now."""
    path = folder / "run.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["digest"]
    change(record)
    record["digest"] = record_digest(record)
    path.write_text(json.dumps(record), encoding="utf-8")


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- there and back ----------------------------------------------------------------------------


def test_round_trip(run: Run, saved: Path) -> None:
    read = load_run(saved)
    assert read.q.tobytes() == run.q.tobytes()
    assert read.policy.tobytes() == run.policy.tobytes()
    assert read.samples == run.samples == 10**16 * 12 * 5
    for name in ("status", "claims", "fingerprints", "spec", "made_with"):
        assert getattr(read, name) == getattr(run, name)
        assert getattr(read, name)
    assert read.model is None
    assert read == run
    assert read.to_json() == run.to_json()
    assert not read.q.flags.writeable
    assert not read.policy.flags.writeable


def test_what_is_on_disk(saved: Path, run: Run) -> None:
    assert set(everything(saved)) == {"run.json", "policy.npy", "value.npy"}
    assert [path.name for path in saved.parent.iterdir()] == ["run"], "nothing temporary is left beside it"
    record = json.loads((saved / "run.json").read_text(encoding="utf-8"))
    digest = record.pop("digest")
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))  # as the documentation has it
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    assert (record.pop("format"), record.pop("version")) == ("replicable-rl run", 1)
    assert record == run.to_json()
    assert record["samples"] == "600000000000000000"
    assert record["run"] == SPEC.digest
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o777 & ~umask
    assert np.load(saved / "value.npy", allow_pickle=False).tolist() == run.q.tolist()
    assert np.load(saved / "policy.npy", allow_pickle=False).tolist() == run.policy.tolist()


def test_round_trip_with_a_model(with_model: Run, tmp_path: Path) -> None:
    save_run(with_model, tmp_path / "run")
    assert set(everything(tmp_path / "run")) == {"run.json", "policy.npy", "value.npy", "model.npz"}
    read = load_run(tmp_path / "run")
    assert read.model == with_model.model == load_mdp(tmp_path / "run/model.npz")
    assert read == with_model
    assert read.fingerprints.model is not None


def test_round_trip_without_a_spec_and_with_what_is_not_known(run: Run, tmp_path: Path) -> None:
    bare = Run.of({"policy": [0, 1]})
    for name, one in (("one", dataclasses.replace(run, spec=None)), ("two", bare)):
        save_run(one, tmp_path / name)
        read = load_run(tmp_path / name)
        assert {claim.kind for claim in read.claims} <= {"stated"}  # nobody knows whose claims they are
        assert read.but(claims=one.claims) == one
        assert read.spec is None
    assert (bare.status, bare.samples, bare.made_with) == (None, None, {})


def test_round_trip_of_recorded_samples_and_any_history(tmp_path: Path) -> None:
    history = {"a b/c": np.array([np.nan, -0.0, 1e-320, np.inf, -np.inf]), "": np.array([0.1])}
    run = dataclasses.replace(made(history=history), spec=RunSpec(SPEC.problem, SPEC.algorithm, 1, Recorded("ab" * 32)))
    save_run(run, tmp_path / "run")
    read = load_run(tmp_path / "run")
    assert (read, read.spec) == (run, run.spec)
    assert [(k, v.tobytes()) for k, v in read.history.items()] == [(k, v.tobytes()) for k, v in history.items()]
    json.loads((tmp_path / "run/run.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_levels_of_ones_own(tmp_path: Path) -> None:
    register_level(Level("weights", implies=("policy",)))
    run = made({"weights": [0.25, 0.5], "policy": [0, 1]})
    save_run(run, tmp_path / "run")
    assert set(everything(tmp_path / "run")) == {"run.json", "policy.npy", "weights.npy"}
    assert load_run(tmp_path / "run") == run
    del LEVELS["weights"]
    with pytest.raises(
        InvalidFile,
        match=r"run: level must be one of model, value, bytes, policy, got 'weights'\.$",
    ):
        load_run(tmp_path / "run")


def test_runs_without_outputs_are_not_saved(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"save_run: this run failed, and has nothing to save \(out of luck\)\."):
        save_run(Run.failed(SPEC, "out of luck."), tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"there is no (policy|value)"):
        save_run(packed(run, {}), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_run_can_be_run_again(tmp_path: Path) -> None:
    algorithm = rr.ReplicablePhasedVI(**PARAMS)
    save_run(rr.solve(rr.make("chain-v1", n_states=6), algorithm, shared_seed=2**64 - 1), tmp_path / "run")
    read = load_run(tmp_path / "run")
    assert read.spec is not None
    again = rr.solve(
        rr.make(read.spec.problem.id, **read.spec.problem.params),
        rr.make_algorithm(read.spec.algorithm.id, **read.spec.algorithm.params),
        shared_seed=read.spec.shared_seed,
        sample_seed=read.spec.sample_seed,
    )
    assert again == read
    assert again.to_json() == read.to_json()


# --- changed after saving ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["policy", "value"])
def test_changed_arrays(saved: Path, name: str) -> None:
    array = np.load(saved / f"{name}.npy", allow_pickle=False)
    if name == "value":
        array[0, 0] = np.nextafter(array[0, 0], np.inf)  # one bit
    else:
        array[0] = 1 - array[0]
    np.save(saved / f"{name}.npy", array)
    with pytest.raises(InvalidFile, match=r"run: the outputs do not have the fingerprints recorded; they were changed"):
        load_run(saved)


@pytest.mark.parametrize(
    ("q", "policy", "message"),
    [
        (np.zeros((6, 2)), np.zeros(5, dtype=int), "policy of shape"),
        (np.zeros(6), np.zeros(6, dtype=int), "value must be a finite"),
        (np.full((6, 2), np.nan), np.zeros(6, dtype=int), "NaN"),
        (np.full((6, 2), "x"), np.zeros(6, dtype=int), "array: expected a .npy file of numbers"),
        (np.zeros((6, 2), dtype=np.float32), np.zeros(6, dtype=int), "float32"),
        (np.zeros((6, 2)), np.zeros(6, dtype=int), "the outputs do not have the fingerprints recorded"),
    ],
)
def test_arrays_of_another_kind(saved: Path, q: Any, policy: Any, message: str) -> None:
    np.save(saved / "value.npy", q)
    np.save(saved / "policy.npy", policy)
    with pytest.raises(InvalidFile, match=message):
        load_run(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["fingerprints"].update(value="0" * 64), "fingerprints recorded"),
        (lambda r: r["fingerprints"].update(model="0" * 64), r"model\.npz: no such file"),
        (lambda r: r.pop("fingerprints"), r"not a replicable-rl run \('fingerprints'\)"),
        (lambda r: r["fingerprints"].update({"../x": "0"}), r"level must be one of .*, got '../x'\.$"),
        (lambda r: r["spec"]["sample"].update(seed="-4"), "sample seed"),
        (lambda r: r["spec"].update(sample=None), "sample: .* got None"),
        (lambda r: r.update(samples=5), "samples .* got 5"),
        (lambda r: r["status"].update(code="won"), "Status: .*'won'"),
        (lambda r: r["claims"]["made"][0].update(bonus=1), "Claim: expected about"),
        (lambda r: r.update(history={"x": ["y"]}), r"not a replicable-rl run \(could not convert"),
        (lambda r: r.update(format="replicable-rl mdp"), r"run: not a replicable-rl run\.$"),
        (lambda r: r.update(version=2), r"run: format version 2 is not 1\. Upgrade replicable-rl\.$"),
    ],
)
def test_changed_records(saved: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    load_run(saved)
    edit(saved, change)
    with pytest.raises(InvalidFile, match=message) as refused:
        load_run(saved)
    assert str(refused.value).startswith(f"{saved}: ")


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["claims"]["made"][0].update(bound=1e-9),
        lambda r: r.update(samples="1"),
        lambda r: r["status"].update(sentence="it went well"),
        lambda r: r["spec"]["sample"].update(seed="4"),
        lambda r: r["made_with"].update(numpy="0"),
        lambda r: r.pop("digest"),
        lambda r: r.update(more=1),
    ],
)
def test_a_record_that_was_changed_is_refused(saved: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    record = json.loads((saved / "run.json").read_text())
    change(record)
    (saved / "run.json").write_text(json.dumps(record))
    with pytest.raises(InvalidFile, match=r"run: run.json does not have the digest recorded; it was changed"):
        load_run(saved)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"3", b"\xff\xfe{}", b"[" * 100_000])
def test_records_that_are_no_record(saved: Path, text: bytes) -> None:
    (saved / "run.json").write_bytes(text)
    with pytest.raises(InvalidFile, match=rf"^{saved}: (JSON|not a replicable-rl run)"):
        load_run(saved)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file", ""):
        with pytest.raises(InvalidFile, match=r": holds no run\.json\.$"):
            load_run(tmp_path / name)


# --- nothing is unpickled ----------------------------------------------------------------------


class Bomb:
    """What a pickle could do: here it leaves a file behind."""

    path = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


def test_pickles_are_refused_and_not_run(saved: Path, tmp_path: Path) -> None:
    bomb = Bomb()
    Bomb.path = str(tmp_path / "exploded")
    np.save(saved / "value.npy", np.array([bomb], dtype=object))
    with pytest.raises(InvalidFile, match=r"array: expected a .npy file of numbers, .*\|O"):
        load_run(saved)
    assert not (tmp_path / "exploded").exists()
    np.load(saved / "value.npy", allow_pickle=True)
    assert (tmp_path / "exploded").exists(), "the bomb is a real one"


@pytest.mark.parametrize("name", ["run.json", "policy.npy", "value.npy", "model.npz"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_spoiled_byte_is_refused_or_harmless(
    with_model: Run, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Whatever byte changes: an InvalidFile, or the same answer; never another exception or other numbers."""
    folder = tmp_path_factory.getbasetemp() / f"spoiled-{name}"
    if not folder.exists():
        save_run(with_model, folder)
    original = (folder / name).read_bytes()
    at = data.draw(st.integers(0, len(original) - 1))
    content = bytearray(original)
    content[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[at:]
    try:
        (folder / name).write_bytes(content)
        try:
            read = load_run(folder)
        except InvalidFile:
            return
        assert read.fingerprints == with_model.fingerprints
        assert read.spec == with_model.spec
        assert read.q.tobytes() == with_model.q.tobytes()
        assert read.model == with_model.model
    finally:
        (folder / name).write_bytes(original)


# --- whole or not at all -----------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("in the middle"), KeyboardInterrupt(), OSError(28, "No space left")])
@pytest.mark.parametrize("exists", [False, True])
def test_an_exception_in_the_middle_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exists: bool
) -> None:
    seen: list[str] = []
    if exists:
        (tmp_path / "run").mkdir()

    def fail(path: Path, content: bytes) -> None:
        seen.extend(file.name for file in path.parent.iterdir())
        path.write_text("half")
        raise error

    monkeypatch.setattr(Path, "write_bytes", fail)
    expected = InvalidFile if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        save_run(run, tmp_path / "run")
    assert seen == ["run.json"], "the failure came after something was written"
    assert [path.name for path in tmp_path.iterdir()] == (["run"] if exists else [])
    assert list(tmp_path.rglob("*")) == ([tmp_path / "run"] if exists else [])
    monkeypatch.undo()
    save_run(run, tmp_path / "run")  # and it can be saved there later
    assert load_run(tmp_path / "run").fingerprints == run.fingerprints


def test_an_existing_directory_is_not_touched(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    with pytest.raises(InvalidFile, match=rf"^{target}: exists and is not an empty directory\. Save elsewhere"):
        save_run(run, target)
    assert everything(tmp_path) == {"run/notes.txt": b"mine"}


def test_an_empty_directory_is_filled_and_parents_are_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    save_run(run, tmp_path / "empty")
    save_run(run, str(tmp_path / "a/b/c"))
    for name in ("empty", "a/b/c"):
        assert load_run(tmp_path / name).fingerprints == run.fingerprints


def test_a_place_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidFile, match=r"file/run: cannot be written \("):
        save_run(run, tmp_path / "file/run")
    assert everything(tmp_path) == {"file": b"mine"}
