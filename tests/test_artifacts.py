"""Files: the same bits back, whole or not at all; nothing wrong gets in, and nothing in a file is run."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.canonical import parse_json, read_npy
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.files import Artifact, Parts, write_artifact
from replicable_rl.problem import Labels
from replicable_rl.runs import LEVELS, Drawn, Logged, ObjectSpec, RunSpec

SPEC = RunSpec(ObjectSpec("chain-v1", {"n_states": 6}), ObjectSpec("x-v1", {"calls": 10**16}), 2**64 - 1, Drawn(3))
CLAIMS = rr.Claims((rr.Claim("accuracy", "stated", "it is right", 0.2, "somebody", 0.001),), {"replicability": "why"})
Q = np.linspace(0.1, 2.0, 12).reshape(6, 2) / 3
LOG = {"state": ["a", "b", "a"], "action": [1, 2, 1], "reward": [0.5, 1.0, 0.1], "next_state": ["b", "a", "a"]}


def table() -> rr.TabularMDP:
    stay, go = [(1.0, 0, -0.5)], [(0.1, 0, 0.0), (0.2, 1, 1.0), (0.7, 1, 2.0)]
    return rr.TabularMDP.from_outcomes(
        [[stay, go], [go, stay]],
        gamma=0.1 + 0.2,
        initial=[0.3, 0.7],
        reward_range=(-0.75, 1e300),
        labels=Labels(states=("süd", "#1"), actions=('"', "\\n"), layout=("..", "##")),
    )


def run(outputs: dict[str, Any] | None = None, **options: Any) -> rr.Run:
    tables = {"value": Q, "policy": Q.argmax(axis=1)} if outputs is None else outputs
    return rr.Run.of(tables, claims=CLAIMS, samples=6 * 10**17, **options).completed(SPEC, status=None)


def run_with_model() -> rr.Run:
    P = np.zeros((6, 2, 6))
    P[:, :, 0], P[:, :, 5] = 0.5, 0.5
    return run({"value": Q, "policy": Q.argmax(axis=1), "model": rr.TabularMDP.from_dense(P, Q, gamma=0.9)})


THINGS: dict[str, Callable[[], Artifact]] = {
    "table": table,
    "data set": lambda: rr.from_transitions(LOG, gamma=0.9),
    "run": run_with_model,
    "cuts": lambda: rr.publish(rr.make("chain-v1"), rr.PlugInPolicy(0.05, 0.05, 0.2, samples=100), sample_seed=1),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.npz"


def there_and_back(thing: Artifact, path: Path) -> Any:
    rr.save(thing, path)
    return rr.load(path)


@pytest.mark.parametrize("name", THINGS)
def test_every_kind_comes_back_and_is_written_alike_at_any_time(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = THINGS[name]()
    back = there_and_back(thing, path)
    assert (type(back), back) == (type(thing), thing)
    later = time.time() + 1e8
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(later))
    rr.save(back, path.with_name("two.npz"))
    assert path.read_bytes() == path.with_name("two.npz").read_bytes()


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.0, 1.0, exclude_max=True),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
def test_every_bit_of_a_table_survives(
    tmp_path_factory: pytest.TempPathFactory, gamma: float, rewards: list[float], name: str
) -> None:
    labels, R = Labels(actions=(name, "b")), np.reshape(rewards, (2, 2))
    mdp = rr.TabularMDP.from_dense(np.full((2, 2, 2), 0.5), R, gamma=gamma, layout="sas", labels=labels)
    back = there_and_back(mdp, tmp_path_factory.mktemp("mdp") / "a.npz")
    assert struct.pack("<d", back.gamma) == struct.pack("<d", gamma + 0.0)
    assert (back.digest, back.labels.actions) == (mdp.digest, (name, "b"))
    assert back.rows.reward.tobytes() == mdp.rows.reward.tobytes()
    assert not back.rows.reward.flags.writeable


def test_a_run_comes_back_with_all_that_is_said_of_it(path: Path) -> None:
    history = {"a b/c": np.array([np.nan, -0.0, 1e-320, np.inf, -np.inf]), "": np.array([0.1])}
    logged = RunSpec(SPEC.problem, SPEC.algorithm, 1, Logged("ab" * 32))
    for saved in (run(), dataclasses.replace(run(history=history), spec=logged)):
        read = there_and_back(saved, path)
        assert (read, dict(read.made_with)) == (saved, dict(saved.made_with))
        assert {k: v.tobytes() for k, v in read.history.items()} == {k: v.tobytes() for k, v in saved.history.items()}
        assert not read.q.flags.writeable
    with np.load(path) as arrays:  # NumPy reads it too
        assert arrays["policy"].tolist() == run().policy.tolist()


def test_a_level_of_ones_own_comes_back_where_it_is_registered(path: Path) -> None:
    rr.register(rr.Level("weights", implies=("policy",)))
    saved = run({"weights": [0.25, 0.5], "policy": [0, 1], "bytes": b"any"})
    assert there_and_back(saved, path) == saved
    del LEVELS["weights"]
    with pytest.raises(InvalidFile, match="weights"):
        rr.load(path)


def test_what_cannot_be_saved_leaves_no_file(path: Path) -> None:
    for thing, word in ((rr.Run.failed(SPEC, "out of luck."), "out of luck"), ({"policy": [0]}, "thing must be")):
        with pytest.raises(InvalidInput, match=word):
            rr.save(thing, path)  # type: ignore[arg-type]  # the refusal is the point
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("failure", [RuntimeError("stop"), KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("there", [True, False])
def test_a_save_that_fails_in_the_middle_leaves_the_folder_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, there: bool
) -> None:
    if there:
        rr.save(table(), path)
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}

    def fail(*_: Any, **__: Any) -> None:
        assert len(list(path.parent.iterdir())) == len(before) + 1
        raise failure

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(InvalidFile if isinstance(failure, OSError) else type(failure)):
        rr.save(run(), path)
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir()} == before


# --- what is not a file of ours -----------------------------------------------------------------------------------


class Changed(Artifact):
    """A file with a right digest and wrong parts."""

    def __init__(self, thing: Artifact, **changes: Any) -> None:
        self.saved_as = thing.saved_as  # type: ignore[misc]  # of the class, elsewhere
        values, arrays = thing.parts()
        self.changed = Parts(
            {name: changes.get(name, value) for name, value in values.items()},
            {name: np.asarray(changes.get(name, array)) for name, array in arrays.items()},
        )

    def parts(self) -> Parts:
        return self.changed

    @classmethod
    def from_parts(cls, parts: Parts) -> Changed:
        raise NotImplementedError


def members() -> dict[str, bytes]:
    stream = io.BytesIO()
    write_artifact(table(), stream)
    with zipfile.ZipFile(stream) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def with_member(name: str, body: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in (members() | {name: body}).items():
                archive.writestr(member, content)

    return write


def with_header(**changes: Any) -> Callable[[Path], None]:
    return with_member("header.json", json.dumps(json.loads(members()["header.json"]) | changes).encode())


def larger_unpacked(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", members()["header.json"])
        archive.writestr("reward.npy", bytes(10**8))


def changed(thing: Callable[[], Artifact], **changes: Any) -> Callable[[Path], None]:
    return lambda path: rr.save(Changed(thing(), **changes), path)


BAD_FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing there": (lambda path: None, "no such file"),
    "a directory": (lambda path: path.mkdir(), "directory"),
    "a pipe": (os.mkfifo, "regular file"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"P": [1.0]})), "no file of this library"),
    "a bomb": (larger_unpacked, "larger unpacked"),
    "other bits": (with_member("reward.npy", members()["probability.npy"]), "digest"),
    "another digest": (with_header(digest="0" * 64), "digest"),
    "a kind of the future": (with_header(kind="pool"), "pool"),
    "a schema of the future": (with_header(schema=2), "schema"),
    "nested without end": (with_member("header.json", b"[" * 200_000), "Recursion"),
    "another probability": (changed(table, probability=np.full(8, 0.5)), "sum"),
    "a level that is not there": (changed(run, fingerprints={"model": "0" * 64}), "model"),
    "a sample of no kind": (changed(run, spec=SPEC.to_json() | {"sample": None}), "sample"),
    "another status": (changed(run, status={"code": "won", "sentence": ""}), "won"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_not_right_is_refused_with_the_path(path: Path, name: str) -> None:
    write, word = BAD_FILES[name]
    write(path)
    tracemalloc.start()
    with pytest.raises(InvalidFile, match=word) as caught:
        rr.load(path)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")


class Trap:
    """Unpickling this makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_pickles_inside_are_refused_and_never_run(path: Path) -> None:
    sprung = path.with_name("sprung")
    trap, stream = np.empty(1, dtype=object), io.BytesIO()
    trap[0] = Trap(sprung)
    np.save(stream, trap)
    with_member("reward.npy", stream.getvalue())(path)
    with pytest.raises(InvalidFile):
        rr.load(path)
    with pytest.raises(ValueError, match="Object arrays"):
        read_npy(stream.getvalue())
    assert not sprung.exists()
    with np.load(path, allow_pickle=True) as archive:  # the trap is real
        assert archive["reward"] is not None
    assert sprung.exists()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_spoiled_byte_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path, saved = tmp_path_factory.getbasetemp() / "spoiled.npz", run_with_model()
    rr.save(saved, path)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[at:]
    path.write_bytes(content)
    try:
        read = rr.load(path)
    except InvalidFile:
        return
    assert (read, read.spec, read.model, read.q.tobytes()) == (saved, saved.spec, saved.model, saved.q.tobytes())


# --- texts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["[" * 10**6, "", b"\xff", "9" * 5000, '{"integer": "many"}'])
def test_a_text_that_is_no_json_is_one_sentence(text: str | bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^JSON: "):
        parse_json(text)
