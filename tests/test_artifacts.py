"""Files of tables, data sets, runs and cuts: the same bits back, whole or not at all, and nothing wrong gets in."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.canonical import record_text
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.files import Artifact, Parts, write_artifact
from replicable_rl.problem import Labels
from replicable_rl.registry import build
from replicable_rl.runs import (
    LEVELS,
    Claims,
    Drawn,
    Level,
    LibraryClaim,
    Logged,
    ObjectSpec,
    Run,
    RunSpec,
    Status,
    StatusCode,
)
from replicable_rl.store import packed

PARAMS: dict[str, Any] = {"epsilon": 0.2, "delta": 0.001, "rho": 0.2, "calls": 10**16, "iterations": 5}
SPEC = RunSpec(ObjectSpec("chain-v1", {"n_states": 6}), ObjectSpec("rpvi-v1", PARAMS), 2**64 - 1, Drawn(3))
CLAIMS = Claims(
    (LibraryClaim("accuracy", "proved", "it is right", 0.2, "thm:rpvi", 0.001),), {"replicability": "by nobody"}
)
Q = np.linspace(0.1, 2.0, 12).reshape(6, 2) / 3


def table() -> rr.TabularMDP:
    stay, go = [(1.0, 0, -0.5)], [(0.1, 0, 0.0), (0.2, 1, 1.0), (0.7, 1, 2.0)]
    return rr.TabularMDP.from_outcomes(
        [[stay, go], [go, stay]],
        gamma=0.1 + 0.2,
        initial=[0.3, 0.7],
        reward_range=(-0.75, 1e300),
        labels=Labels(states=("süd", "#1"), actions=('"', "\\n"), layout=("..", "##")),
    )


def made(outputs: dict[str, Any] | None = None, **options: Any) -> Run:
    """Return a run with values, or with other outputs."""
    tables = {"value": Q, "policy": Q.argmax(axis=1)} if outputs is None else outputs
    done = Status(StatusCode.COMPLETED, "ran all")
    return Run.of(tables, status=done, claims=CLAIMS, samples=6 * 10**17, **options).completed(SPEC)


def with_model() -> Run:
    P = np.zeros((6, 2, 6))
    P[:, :, 0], P[:, :, 5] = 0.5, 0.5
    return made({"value": Q, "policy": Q.argmax(axis=1), "model": rr.TabularMDP.from_dense(P, Q, gamma=0.9)})


LOG = {"state": ["a", "b", "a"], "action": [1, 2, 1], "reward": [0.5, 1.0, 0.1], "next_state": ["b", "a", "a"]}
THINGS: dict[str, Callable[[], Artifact]] = {
    "table": table,
    "data set": lambda: rr.from_transitions(LOG, gamma=0.9),
    "run": with_model,
    "cuts": lambda: rr.publish(rr.make("chain-v1"), rr.PlugInPolicy(0.05, 0.05, 0.2, samples=100), sample_seed=1),
}


@pytest.fixture(params=THINGS)
def thing(request: pytest.FixtureRequest) -> Artifact:
    return THINGS[request.param]()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.npz"


def there_and_back(thing: Artifact, path: Path) -> Any:
    rr.save(thing, path)
    return rr.load(path)


# --- there and back ----------------------------------------------------------------------------


def test_every_kind_comes_back_and_is_written_alike_at_any_time(
    thing: Artifact, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = there_and_back(thing, path)
    assert (type(back), back) == (type(thing), thing)
    later = time.time() + 1e8
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(later))
    rr.save(back, path.with_name("two.npz"))
    assert path.read_bytes() == path.with_name("two.npz").read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        header = json.loads(archive.read("header.json"))
        assert archive.read("header.json") == record_text(header)
    assert (header["kind"], header["schema"], set(header)) == (
        thing.saved_as,
        1,
        {"kind", "schema", "digest", "values"},
    )


def test_a_table_comes_back_to_the_last_bit(path: Path) -> None:
    mdp = table()
    back = there_and_back(mdp, path)
    assert (back.digest, back.labels, back.reward_range) == (mdp.digest, mdp.labels, mdp.reward_range)
    assert struct.pack("<d", back.gamma) == struct.pack("<d", mdp.gamma)
    pairs: Any = zip([*mdp.rows, mdp.initial], [*back.rows, back.initial], strict=True)
    for saved, loaded in pairs:
        assert (saved.dtype, saved.tobytes(), loaded.flags.writeable) == (loaded.dtype, loaded.tobytes(), False)
    model = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.0)]]], gamma=0.0, estimated=True)
    assert there_and_back(model, path).spec == model.spec


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.0, 1.0, exclude_max=True),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
def test_every_discount_reward_and_name_survives(
    tmp_path_factory: pytest.TempPathFactory, gamma: float, rewards: list[float], name: str
) -> None:
    labels, R = Labels(actions=(name, "b")), np.reshape(rewards, (2, 2))
    mdp = rr.TabularMDP.from_dense(np.full((2, 2, 2), 0.5), R, gamma=gamma, layout="sas", labels=labels)
    back = there_and_back(mdp, tmp_path_factory.mktemp("mdp") / "a.npz")
    assert struct.pack("<d", back.gamma) == struct.pack("<d", gamma + 0.0)
    assert (back.digest, back.labels.actions) == (mdp.digest, (name, "b"))
    assert back.rows.reward.tobytes() == mdp.rows.reward.tobytes()


def test_a_run_comes_back_with_all_that_is_said_of_it(path: Path) -> None:
    history = {"a b/c": np.array([np.nan, -0.0, 1e-320, np.inf, -np.inf]), "": np.array([0.1])}
    recorded = RunSpec(SPEC.problem, SPEC.algorithm, 1, Logged("ab" * 32))
    for run in (made(), dataclasses.replace(made(history=history), spec=recorded)):
        read = there_and_back(run, path)
        assert read == run
        assert read.to_json() | {"history": 0} == run.to_json() | {"history": 0}
        assert [(k, v.tobytes()) for k, v in read.history.items()] == [(k, v.tobytes()) for k, v in run.history.items()]
        assert not read.q.flags.writeable
    with np.load(path) as arrays:
        assert arrays["policy"].tolist() == run.policy.tolist()
        assert arrays["value"].tolist() == run.q.tolist()
    bare = Run.of({"policy": [0, 1]})
    for run in (bare, dataclasses.replace(made(), spec=None)):
        read = there_and_back(run, path)
        assert {claim.kind for claim in read.claims} <= {"stated"}  # nobody knows whose claims they are
        assert (read.but(claims=run.claims), read.spec) == (run, None)


def test_levels_of_ones_own(path: Path) -> None:
    rr.register(Level("weights", implies=("policy",)))
    run = made({"weights": [0.25, 0.5], "policy": [0, 1], "bytes": b"any"})
    assert there_and_back(run, path) == run
    del LEVELS["weights"]
    with pytest.raises(InvalidFile, match=r"level must be one of .*, got 'weights'"):
        rr.load(path)


def test_what_cannot_be_saved_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"this run failed, and has nothing to save \(out of luck\)\."):
        rr.save(Run.failed(SPEC, "out of luck."), path)
    with pytest.raises(InvalidInput, match=r"there is no (policy|value)"):
        rr.save(packed(made(), {}), path)
    with pytest.raises(InvalidInput, match="save: thing must be"):
        rr.save({"policy": [0]}, path)  # type: ignore[arg-type]  # the refusal is the point
    assert list(path.parent.iterdir()) == []


def test_a_saved_run_can_be_run_again(path: Path) -> None:
    algorithm = rr.ReplicablePhasedVI(**PARAMS)
    read = there_and_back(rr.solve(rr.make("chain-v1", n_states=6), algorithm, shared_seed=2**64 - 1), path)
    problem, algorithm = build(read.spec.problem), build(read.spec.algorithm)
    assert rr.solve(problem, algorithm, shared_seed=read.shared_seed, sample_seed=read.sample_seed) == read


# --- whole or not at all -----------------------------------------------------------------------


@pytest.mark.parametrize("failure", [RuntimeError("stop"), KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("there", [True, False])
def test_a_save_that_fails_in_the_middle_leaves_the_directory_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, there: bool
) -> None:
    if there:
        rr.save(table(), path)
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}

    def fail(*_: Any, **__: Any) -> None:
        assert len(list(path.parent.iterdir())) == len(before) + 1
        raise failure

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(InvalidFile if isinstance(failure, OSError) else type(failure)) as caught:
        rr.save(made(), path)
    assert (f"{path}: " in str(caught.value)) == isinstance(failure, OSError)
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir()} == before


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_the_permissions_are_those_of_an_ordinary_new_file(path: Path) -> None:
    ordinary = path.with_name("ordinary")
    ordinary.write_bytes(b"")
    rr.save(table(), path)
    assert path.stat().st_mode == ordinary.stat().st_mode


# --- what is not a file of ours ----------------------------------------------------------------


class Changed(Artifact):
    """A file with a right digest and wrong parts."""

    def __init__(self, thing: Artifact, **changes: Any) -> None:
        self.saved_as = thing.saved_as  # type: ignore[misc]  # of the class, elsewhere
        values, arrays = thing.parts()
        self.changed = Parts(
            {name: changes.get(name, value) for name, value in values.items() if changes.get(name, 0) != "gone"},
            {name: np.asarray(changes.get(name, array)) for name, array in arrays.items()},
        )

    def parts(self) -> Parts:
        return self.changed

    @classmethod
    def from_parts(cls, parts: Parts) -> Changed:
        raise NotImplementedError


def members(thing: Artifact) -> dict[str, bytes]:
    stream = io.BytesIO()
    write_artifact(thing, stream)
    with zipfile.ZipFile(stream) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def with_member(name: str, body: bytes) -> Callable[[Path], None]:
    return lambda path: written(path, members(table()) | {name: body})


def with_header(**changes: Any) -> Callable[[Path], None]:
    header = json.loads(members(table())["header.json"]) | changes
    return with_member("header.json", json.dumps(header).encode())


def changed(**changes: Any) -> Callable[[Path], None]:
    return lambda path: rr.save(Changed(table(), **changes), path)


def run_changed(**changes: Any) -> Callable[[Path], None]:
    return lambda path: rr.save(Changed(made(), **changes), path)


BAD_FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing there": (lambda path: None, "no such file"),
    "a directory": (lambda path: path.mkdir(), "directory"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"P": [1.0]})), "is no file of this library"),
    "no array": (with_member("reward.npy", b"hello"), "array: "),
    "larger than any memory": (
        with_member("reward.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }")),
        "array: ",
    ),
    "shorter than it says": (
        with_member("reward.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (8,), }", b"\0" * 8)),
        "array: ",
    ),
    "one more array": (with_member("more.npy", members(table())["reward.npy"]), "digest"),
    "other bits": (with_member("reward.npy", members(table())["probability.npy"]), "digest"),
    "another digest": (with_header(digest="0" * 64), "digest"),
    "another kind": (with_header(kind="cuts"), "digest"),
    "a kind of the future": (with_header(kind="pool"), "holds a pool"),
    "a schema of the future": (with_header(schema=2), "schema is 2"),
    "one more entry": (with_header(more=1), "digest"),
    "no JSON": (with_member("header.json", b"{'gamma': 0.9"), "."),
    "nested without end": (with_member("header.json", b"[" * 200_000), "."),
    "complex rewards": (
        with_member("reward.npy", npy("{'descr': '<c16', 'fortran_order': False, 'shape': (0,), }")),
        "array: ",
    ),
    "too few rewards": (changed(reward=np.zeros(7)), "."),
    "another probability": (changed(probability=np.full(8, 0.5)), "sum"),
    "no number": (changed(probability=np.full(8, np.nan)), "nan"),
    "successor out of range": (changed(next_state=np.full(8, 7, dtype=np.int32)), "0..1"),
    "discount as text": (changed(gamma="0.9"), "gamma"),
    "actions as text": (changed(n_actions="two"), "."),
    "no discount": (changed(gamma="gone"), "gamma"),
    "reward range of three": (changed(reward_range=[0, 1, 2]), "."),
    "wrong number of names": (changed(states=["one"]), "labels.states"),
    "another policy": (run_changed(policy=np.zeros(6, dtype=np.int64)), "fingerprints"),
    "a policy of another size": (run_changed(policy=np.zeros(5, dtype=np.int64)), "a policy"),
    "a level that is not there": (run_changed(fingerprints={"model": "0" * 64}), "model"),
    "a level that is none": (run_changed(fingerprints={"../x": "0"}), "level must be one of"),
    "a sample of no kind": (run_changed(spec=SPEC.to_json() | {"sample": None}), "a sample"),
    "samples as a number": (run_changed(samples=5), "samples .* got 5"),
    "another status": (run_changed(status={"code": "won", "sentence": ""}), "'won'"),
    "a claim with more": (run_changed(claims={"made": [{"bonus": 1}], "missing": {}}), "Claim: expected about"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_not_right_is_refused_with_the_path(path: Path, name: str) -> None:
    write, fragment = BAD_FILES[name]
    write(path)
    with pytest.raises(InvalidFile, match=fragment) as caught:
        rr.load(path)
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
    with pytest.raises(InvalidFile, match="array: "):
        rr.load(path)
    assert not sprung.exists()
    with np.load(path, allow_pickle=True) as archive:  # the trap is real
        assert archive["reward"] is not None
    assert sprung.exists()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_spoiled_byte_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever byte changes: an InvalidFile, or the same answer; never another exception or other numbers."""
    path, run = tmp_path_factory.getbasetemp() / "spoiled.npz", with_model()
    rr.save(run, path)
    original = path.read_bytes()
    at = data.draw(st.integers(0, len(original) - 1))
    content = bytearray(original)
    content[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[at:]
    path.write_bytes(content)
    try:
        read = rr.load(path)
    except InvalidFile:
        return
    assert (read, read.spec, read.model, read.q.tobytes()) == (run, run.spec, run.model, run.q.tobytes())


# --- a million states ------------------------------------------------------------------------

WRITE = """
import sys
import numpy as np
import replicable_rl as rr
from replicable_rl.problem import Rows, TabularMDP

S, A, K = 1_000_000, 4, 4
rng = np.random.default_rng(7)
weight = rng.integers(1, 100, size=(S * A, K)).astype(np.float64)
first = rng.integers(0, S - K, size=S * A, dtype=np.int32)
rows = Rows(
    indptr=np.arange(0, S * A * K + 1, K),
    next_state=(first[:, None] + np.arange(K, dtype=np.int32)).reshape(-1),
    probability=(weight / weight.sum(axis=1, keepdims=True)).reshape(-1),
    reward=rng.random(S * A * K),
)
del weight, first
mdp = TabularMDP(rows, n_actions=A, gamma=0.99)
rr.save(mdp, sys.argv[1])
print(mdp.digest)
"""

READ = """
import resource, sys
import replicable_rl as rr

mdp = rr.load(sys.argv[1])
try:  # ru_maxrss remembers the process that started this one; VmHWM does not
    with open("/proc/self/status") as lines:
        peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(mdp.digest, peak, mdp.n_states, mdp.n_actions, mdp.rows.probability.size)
"""


def run_python(program: str, *arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="measures memory as POSIX does")
def test_a_million_states_load_validate_and_digest_within_two_gigabytes(path: Path) -> None:
    (written,) = run_python(WRITE, path)
    digest, peak, *sizes = run_python(READ, path)
    path.unlink()
    assert digest == written
    assert sizes == ["1000000", "4", "16000000"]
    content = 16_000_000 * (8 + 8 + 4)
    assert content < int(peak) < 2 * 10**9, f"{int(peak) / 1e9:.2f} GB"
