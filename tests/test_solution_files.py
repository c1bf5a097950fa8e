"""Solutions on disk: whole or not at all, read back bit for bit, refused when changed."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.errors import InvalidFile, InvalidInput


@pytest.fixture(scope="module")
def solution() -> rr.Solution:
    algorithm = rr.ReplicablePhasedVI(0.2, 0.001, 0.2, calls=10**16, iterations=5)
    return rr.solve(rr.make("chain-v1", n_states=6), algorithm, shared_seed=2**64 - 1, sample_seed=3)


@pytest.fixture
def saved(solution: rr.Solution, tmp_path: Path) -> Path:
    rr.save_solution(solution, tmp_path / "run")
    return tmp_path / "run"


def with_model(solution: rr.Solution) -> rr.Solution:
    model = rr.make("garnet-v1", n_states=6, n_actions=2)
    remade = rr.Solution.from_q(
        solution.q,
        solution.policy,
        samples=solution.samples,
        status=solution.status,
        guarantee=solution.guarantee,
        model=model,
    )
    assert solution.spec is not None
    return remade.with_spec(solution.spec)


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the record of a saved solution."""
    path = folder / "solution.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- there and back ----------------------------------------------------------------------------


def test_round_trip(solution: rr.Solution, saved: Path) -> None:
    read = rr.load_solution(saved)
    assert read.q.tobytes() == solution.q.tobytes()
    assert read.policy.tobytes() == solution.policy.tobytes()
    assert read.samples == solution.samples == 10**16 * 12 * 5
    for name in ("status", "guarantee", "fingerprints", "spec"):
        assert getattr(read, name) == getattr(solution, name)
        assert getattr(read, name) is not None
    assert read.model is None
    assert read.to_json() == solution.to_json()
    assert not read.q.flags.writeable
    assert not read.policy.flags.writeable


def test_what_is_on_disk(saved: Path, solution: rr.Solution) -> None:
    assert set(everything(saved)) == {"solution.json", "arrays.npz"}
    assert [path.name for path in saved.parent.iterdir()] == ["run"], "nothing temporary is left beside it"
    record = json.loads((saved / "solution.json").read_text(encoding="utf-8"))
    assert record["format"] == "replicable-rl solution"
    assert record["version"] == 1
    assert record["samples"] == str(solution.samples)
    assert solution.spec is not None
    assert record["run"] == solution.spec.digest
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o777 & ~umask
    with np.load(saved / "arrays.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"policy", "q"}


def test_round_trip_with_a_model(solution: rr.Solution, tmp_path: Path) -> None:
    full = with_model(solution)
    rr.save_solution(full, tmp_path / "run")
    read = rr.load_solution(tmp_path / "run")
    assert read.model == full.model
    assert read.fingerprints == full.fingerprints
    assert read.fingerprints.model is not None


def test_round_trip_without_a_spec(solution: rr.Solution, tmp_path: Path) -> None:
    rr.save_solution(dataclasses.replace(solution, spec=None), tmp_path / "run")
    assert rr.load_solution(tmp_path / "run").spec is None
    assert rr.load_solution(tmp_path / "run").fingerprints == solution.fingerprints


def test_a_saved_run_can_be_run_again(saved: Path) -> None:
    read = rr.load_solution(saved)
    assert read.spec is not None
    again = rr.solve(
        rr.make(read.spec.problem.id, **read.spec.problem.params),
        rr.make_algorithm(read.spec.algorithm.id, **read.spec.algorithm.params),
        shared_seed=read.spec.shared_seed,
        sample_seed=read.spec.sample_seed,
    )
    assert again.to_json() == read.to_json()


def test_saving_twice_writes_the_same_record(solution: rr.Solution, tmp_path: Path) -> None:
    for name in ("one", "two"):
        rr.save_solution(solution, tmp_path / name)
    assert (tmp_path / "one/solution.json").read_bytes() == (tmp_path / "two/solution.json").read_bytes()


# --- changed after saving ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["policy", "q"])
def test_changed_arrays(saved: Path, name: str) -> None:
    with np.load(saved / "arrays.npz", allow_pickle=False) as archive:
        arrays = dict(archive)
    if name == "q":
        arrays["q"][0, 0] = np.nextafter(arrays["q"][0, 0], np.inf)  # one bit
    else:
        arrays["policy"][0] = 1 - arrays["policy"][0]
    np.savez(saved / "arrays.npz", allow_pickle=False, **arrays)
    with pytest.raises(InvalidFile, match=r"run: the arrays do not have the fingerprints recorded; they were changed"):
        rr.load_solution(saved)


@pytest.mark.parametrize(
    ("q", "policy", "message"),
    [
        (np.zeros((6, 2)), np.zeros(5, dtype=int), r"q must be \(S, A\) and policy \(S,\), got \(6, 2\) and \(5,\)"),
        (np.zeros(6), np.zeros(6, dtype=int), r"q must be \(S, A\) and policy \(S,\), got \(6,\)"),
        (np.full((6, 2), np.nan), np.zeros(6, dtype=int), r"NaN has no fingerprint"),
        (np.full((6, 2), "x"), np.zeros(6, dtype=int), r"not a replicable-rl solution \(could not convert"),
        (np.zeros((6, 2)), np.zeros(6, dtype=int), r"the arrays do not have the fingerprints recorded"),
    ],
)
def test_arrays_of_another_kind(saved: Path, q: Any, policy: Any, message: str) -> None:
    np.savez(saved / "arrays.npz", allow_pickle=False, q=q, policy=policy)
    with pytest.raises(InvalidFile, match=message):
        rr.load_solution(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["fingerprints"].update(value="0" * 64), r"do not have the fingerprints recorded"),
        (lambda r: r["fingerprints"].update(model="0" * 64), r"do not have the fingerprints recorded"),
        (lambda r: r.pop("fingerprints"), r"do not have the fingerprints recorded"),
        (lambda r: r["spec"].update(sample_seed="4"), r"the spec does not have the digest recorded; it was changed"),
        (lambda r: r["spec"]["algorithm"]["params"].update(rho=0.3), r"the spec does not have the digest recorded"),
        (lambda r: r.update(spec=None), r"the spec does not have the digest recorded"),
        (lambda r: r.update(run=None), r"the spec does not have the digest recorded"),
        (lambda r: r.pop("run"), r"the spec does not have the digest recorded"),
        (lambda r: r["spec"].update(sample_seed=4), r"RunSpec: sample_seed must be a string of decimal digits, got 4"),
        (lambda r: r["spec"].update(sample_seed="-4"), r"sample_seed must be a string of decimal digits"),
        (lambda r: r["spec"].update(sample_seed=str(2**64)), r"RunSpec: sample_seed must be an integer from 0 to"),
        (lambda r: r["spec"].update(problem=3), r"ObjectSpec: expected an object with 'id' and 'params', got 3"),
        (lambda r: r.update(spec=[]), r"RunSpec: expected an object, got \[\]"),
        (lambda r: r.pop("spec"), r"not a replicable-rl solution \('spec'\)"),
        (lambda r: r.update(samples="-5"), r"samples must be a string of decimal digits, got '-5'"),
        (lambda r: r.update(samples=5), r"samples must be a string of decimal digits, got 5"),
        (lambda r: r.update(samples="many"), r"samples must be a string of decimal digits, got 'many'"),
        (lambda r: r.pop("samples"), r"not a replicable-rl solution \('samples'\)"),
        (lambda r: r["status"].update(code="won"), r"Status: expected a code of completed, .* got .*'won'"),
        (lambda r: r.update(status=None), r"Status: expected a code .*, got None"),
        (lambda r: r["guarantee"].update(kind="sworn"), r"a kind of proved, asymptotic, measured; got .*'sworn'"),
        (lambda r: r["guarantee"].update(bonus=1), r"Guarantee: expected kind, theorem, .* got .*'bonus': 1"),
        (lambda r: r.update(format="replicable-rl mdp"), r"run: not a replicable-rl solution\.$"),
        (lambda r: r.pop("format"), r"run: not a replicable-rl solution\.$"),
        (lambda r: r.update(version=2), r"run: format version 2 is not 1\. Upgrade replicable-rl\.$"),
        (lambda r: r.pop("version"), r"run: format version None is not 1\."),
    ],
)
def test_changed_records(saved: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    rr.load_solution(saved)
    edit(saved, change)
    with pytest.raises(InvalidFile, match=message) as refused:
        rr.load_solution(saved)
    assert str(refused.value).startswith(f"{saved}: ")
    assert str(refused.value).count(str(saved)) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"solution"', "\x00", "[" * 100_000, '{"format": NaN}'])
def test_records_that_are_no_record(saved: Path, text: str) -> None:
    (saved / "solution.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile, match=r"run: not a replicable-rl solution"):
        rr.load_solution(saved)


def test_a_record_that_is_no_text(saved: Path) -> None:
    (saved / "solution.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(InvalidFile, match=r"not a replicable-rl solution"):
        rr.load_solution(saved)


@pytest.mark.parametrize("name", ["solution.json", "arrays.npz"])
def test_missing_files(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(InvalidFile, match=rf"^{saved}: .*{name}"):
        rr.load_solution(saved)


def test_a_missing_or_foreign_model(solution: rr.Solution, tmp_path: Path) -> None:
    full, bare = tmp_path / "full", tmp_path / "bare"
    rr.save_solution(with_model(solution), full)
    rr.save_solution(solution, bare)
    (full / "model.npz").rename(bare / "model.npz")
    for folder in (full, bare):
        with pytest.raises(InvalidFile, match=r"do not have the fingerprints recorded"):
            rr.load_solution(folder)
    rr.make("garnet-v1", n_states=6, n_actions=2, seed=9).save(full / "model.npz")
    with pytest.raises(InvalidFile, match=r"do not have the fingerprints recorded"):
        rr.load_solution(full)
    (full / "model.npz").write_bytes(b"no model")
    with pytest.raises(InvalidFile, match=r"model\.npz: not a replicable-rl mdp file"):
        rr.load_solution(full)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file", ""):
        with pytest.raises(InvalidFile, match=r": holds no solution\.json\.$"):
            rr.load_solution(tmp_path / name)


# --- nothing is unpickled ----------------------------------------------------------------------


class Bomb:
    """What a pickle could do: here it leaves a file behind."""

    path = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("name", ["policy", "q"])
def test_pickles_are_refused_and_not_run(saved: Path, tmp_path: Path, name: str) -> None:
    bomb = Bomb()
    Bomb.path = str(tmp_path / "exploded")
    with np.load(saved / "arrays.npz", allow_pickle=False) as archive:
        arrays = dict(archive)
    arrays[name] = np.array([bomb], dtype=object)
    np.savez(saved / "arrays.npz", **arrays)
    with pytest.raises(InvalidFile, match=r"not a replicable-rl solution \(.*allow_pickle"):
        rr.load_solution(saved)
    assert not (tmp_path / "exploded").exists()
    with np.load(saved / "arrays.npz", allow_pickle=True) as archive:
        _ = archive[name]
    assert (tmp_path / "exploded").exists(), "the bomb is a real one"


def _bare_pickle(path: Path) -> None:
    np.array([{"a": 1}], dtype=object).dump(path)


def _npy(path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, np.zeros(3))


def _huge(path: Path) -> None:
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy.npy", header.ljust(127) + b"\n")


def _badly_compressed(path: Path) -> None:
    np.savez_compressed(path, policy=np.zeros(6, dtype=np.int64), q=np.zeros((6, 2)))
    content = bytearray(path.read_bytes())
    start = 30 + len("policy.npy") + 20  # after the local header and its 64-bit sizes
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)


def _encrypted(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(signature, at + 4)
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [_bare_pickle, _npy, _huge, _badly_compressed, _encrypted])
def test_archives_that_cannot_be_read(saved: Path, spoil: Callable[[Path], None]) -> None:
    spoil(saved / "arrays.npz")
    with pytest.raises(InvalidFile, match=rf"^{saved}: not a replicable-rl solution \("):
        rr.load_solution(saved)


@pytest.mark.parametrize("name", ["solution.json", "arrays.npz"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_spoiled_byte_is_refused_or_harmless(
    solution: rr.Solution, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Whatever byte changes: an InvalidFile, or the same answer; never another exception or other numbers."""
    folder = tmp_path_factory.getbasetemp() / f"spoiled-{name}"
    if not folder.exists():
        rr.save_solution(solution, folder)
    original = (folder / name).read_bytes()
    at = data.draw(st.integers(0, len(original) - 1))
    content = bytearray(original)
    content[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[at:]
    try:
        (folder / name).write_bytes(content)
        try:
            read = rr.load_solution(folder)
        except InvalidFile:
            return
        assert read.fingerprints == solution.fingerprints
        assert read.spec == solution.spec
        assert read.q.tobytes() == solution.q.tobytes()
    finally:
        (folder / name).write_bytes(original)


# --- whole or not at all -----------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("in the middle"), KeyboardInterrupt(), OSError(28, "No space left")])
@pytest.mark.parametrize("exists", [False, True])
def test_an_exception_in_the_middle_leaves_nothing(
    solution: rr.Solution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exists: bool
) -> None:
    seen: list[str] = []
    if exists:
        (tmp_path / "run").mkdir()

    def fail(path: Path, *args: Any, **arrays: Any) -> None:
        seen.extend(file.name for file in path.parent.iterdir())
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr(np, "savez", fail)
    expected = InvalidFile if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        rr.save_solution(solution, tmp_path / "run")
    assert seen == ["solution.json"], "the failure came after something was written"
    assert [path.name for path in tmp_path.iterdir()] == (["run"] if exists else [])
    assert list(tmp_path.rglob("*")) == ([tmp_path / "run"] if exists else [])
    monkeypatch.undo()
    rr.save_solution(solution, tmp_path / "run")  # and it can be saved there later
    assert rr.load_solution(tmp_path / "run").fingerprints == solution.fingerprints


def test_an_existing_directory_is_not_touched(solution: rr.Solution, tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    with pytest.raises(InvalidFile, match=rf"^{target}: exists and is not an empty directory\. Save elsewhere"):
        rr.save_solution(solution, target)
    assert everything(tmp_path) == {"run/notes.txt": b"mine"}


def test_a_saved_solution_is_not_overwritten(solution: rr.Solution, saved: Path) -> None:
    before = everything(saved)
    with pytest.raises(InvalidFile, match=r"exists and is not an empty directory"):
        rr.save_solution(solution, saved)
    assert everything(saved) == before


def test_an_existing_file_is_not_touched(solution: rr.Solution, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(InvalidFile, match=r"run: exists and is not an empty directory"):
        rr.save_solution(solution, tmp_path / "run")
    assert everything(tmp_path) == {"run": b"mine"}


def test_an_empty_directory_is_filled_and_parents_are_made(solution: rr.Solution, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    rr.save_solution(solution, tmp_path / "empty")
    rr.save_solution(solution, str(tmp_path / "a/b/c"))
    for name in ("empty", "a/b/c"):
        assert rr.load_solution(tmp_path / name).fingerprints == solution.fingerprints


def test_a_place_that_cannot_be_written(solution: rr.Solution, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidFile, match=r"file/run: cannot be written \("):
        rr.save_solution(solution, tmp_path / "file/run")
    assert everything(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(solution: rr.Solution, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(InvalidFile, match=r"cannot be written \(Permission denied\)"):
        rr.save_solution(solution, tmp_path / "closed/run")
    assert list((tmp_path / "closed").iterdir()) == []


def test_every_refusal_is_an_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        rr.load_solution(tmp_path)
