"""Files of processes: the same bits back, whole or not at all, and nothing that is wrong gets in."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import time
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.errors import InvalidFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

NAMES = ("indptr", "next_state", "probability", "reward", "initial", "metadata")


def example() -> rr.TabularMDP:
    stay, go = [(1.0, 0, -0.5)], [(0.1, 0, 0.0), (0.2, 1, 1.0), (0.7, 1, 2.0)]
    return rr.TabularMDP.from_outcomes(
        [[stay, go], [go, stay]],
        gamma=0.1 + 0.2,
        initial=[0.3, 0.7],
        reward_range=(-0.75, 1e300),
        labels=rr.Labels(states=("süd", "#1"), actions=('"', "\\n"), layout=("..", "##")),
    )


def arrays_of(mdp: rr.TabularMDP) -> list[NDArray[Any]]:
    return [*mdp.rows, mdp.initial]


# --- round trip ------------------------------------------------------------------------------


def test_a_saved_process_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    mdp, path = example(), tmp_path / "a.npz"
    mdp.save(path)
    back = rr.load_mdp(path)
    assert back.digest == mdp.digest
    assert back == mdp
    assert struct.pack("<d", back.gamma) == struct.pack("<d", mdp.gamma)
    assert back.reward_range == mdp.reward_range
    assert back.labels == mdp.labels
    assert (back.n_states, back.n_actions) == (2, 2)
    for saved, loaded in zip(arrays_of(mdp), arrays_of(back), strict=True):
        assert saved.dtype == loaded.dtype
        assert saved.tobytes() == loaded.tobytes()
        assert not loaded.flags.writeable


def test_an_estimated_table_comes_back_as_one(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    model = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.0)]]], gamma=0.0, estimated=True)
    model.save(path)
    assert rr.load_mdp(path).estimated
    assert rr.load_mdp(path).spec == model.spec


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.0, 1.0, exclude_max=True),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
def test_every_discount_reward_and_name_survives(
    tmp_path_factory: pytest.TempPathFactory, gamma: float, rewards: list[float], name: str
) -> None:
    path = tmp_path_factory.mktemp("mdp") / "a.npz"
    P = np.full((2, 2, 2), 0.5)
    mdp = rr.TabularMDP.from_dense(
        P, np.reshape(rewards, (2, 2)), gamma=gamma, layout="sas", labels=rr.Labels(actions=(name, "b"))
    )
    mdp.save(path)
    back = rr.load_mdp(path)
    assert struct.pack("<d", back.gamma) == struct.pack("<d", gamma + 0.0)
    assert back.digest == mdp.digest
    assert back.labels.actions == (name, "b")
    assert back.rows.reward.tobytes() == mdp.rows.reward.tobytes()


def test_the_bytes_of_a_file_depend_on_the_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example().save(tmp_path / "one.npz")
    later = time.time() + 1e8
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(later))
    example().save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert sorted(archive.namelist()) == sorted(f"{name}.npy" for name in NAMES)


# --- whole or not at all ---------------------------------------------------------------------


@pytest.mark.parametrize("failure", [RuntimeError("stop"), KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("there", [True, False])
def test_a_save_that_fails_in_the_middle_leaves_the_directory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, there: bool
) -> None:
    path = tmp_path / "a.npz"
    if there:
        example().save(path)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}

    def half(stream: io.BufferedWriter, **_: Any) -> None:
        stream.write(b"PK half a file")
        stream.flush()
        assert len(list(tmp_path.iterdir())) == len(before) + 1
        raise failure

    monkeypatch.setattr(np, "savez", half)
    changed = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.0)]]], gamma=0.5)
    expected = InvalidFile if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected) as caught:
        changed.save(path)
    if expected is InvalidFile:
        assert str(path) in str(caught.value)
        assert "No space left" in str(caught.value)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_the_permissions_are_those_of_an_ordinary_new_file(tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(b"")
    example().save(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").stat().st_mode == ordinary.stat().st_mode


# --- what is not a file of ours --------------------------------------------------------------


def saved(path: Path) -> bytes:
    example().save(path)
    return path.read_bytes()


def contents(path: Path) -> dict[str, NDArray[Any]]:
    example().save(path)
    with np.load(path) as archive:
        return dict(archive)


def with_arrays(path: Path, **changes: Any) -> None:
    arrays: dict[str, Any] = contents(path) | changes
    np.savez(path, **arrays)


def without_array(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        arrays: dict[str, Any] = contents(path)
        del arrays[name]
        np.savez(path, **arrays)

    return write


def with_metadata(path: Path, *drop: str, **changes: Any) -> None:
    metadata = json.loads(contents(path)["metadata"].tobytes()) | changes
    for name in drop:
        del metadata[name]
    with_text(path, json.dumps(metadata).encode())


def without_metadata(name: str) -> Callable[[Path], None]:
    return lambda path: with_metadata(path, name)


def with_text(path: Path, text: bytes) -> None:
    with_arrays(path, metadata=np.frombuffer(text, dtype=np.uint8))


def with_member(path: Path, name: str, data: bytes) -> None:
    saved(path)
    with zipfile.ZipFile(path) as archive:
        members = {entry: archive.read(entry) for entry in archive.namelist()} | {name: data}
    with zipfile.ZipFile(path, "w") as archive:
        for entry, body in members.items():
            archive.writestr(entry, body)


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def flipped(name: str, index: int, value: float) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        array = contents(path)[name].copy()
        array[index] = value
        with_arrays(path, **{name: array})

    return write


BAD_FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing there": (lambda path: None, "no such file"),
    "a directory": (lambda path: path.mkdir(), "directory"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"P": [1.0]})), ""),
    "a zip of something else": (lambda path: with_member(path, "reward.npy", b"hello"), ""),
    "truncated in the middle": (lambda path: path.write_bytes(saved(path)[:1500]), ""),
    **{f"no {name}": (without_array(name), name) for name in NAMES},
    "array larger than any memory": (
        lambda path: with_member(
            path, "reward.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }")
        ),
        "",
    ),
    "array shorter than its header says": (
        lambda path: with_member(
            path, "reward.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (8,), }", b"\0" * 8)
        ),
        "",
    ),
    "complex rewards": (lambda path: with_arrays(path, reward=np.zeros(8) * 1j), "reward"),
    "too few rewards": (lambda path: with_arrays(path, reward=np.zeros(7)), ""),
    "tampered probability": (flipped("probability", 0, 0.5), "sum"),
    "probability not a number": (flipped("probability", 0, float("nan")), "nan"),
    "tampered reward": (flipped("reward", 0, -0.25), "digest"),
    "successor out of range": (flipped("next_state", 0, 7), "0..1"),
    "other discount": (lambda path: with_metadata(path, gamma=0.25), "digest"),
    "other number of actions": (lambda path: with_metadata(path, n_actions=1, actions=None), ""),
    "other digest": (lambda path: with_metadata(path, digest="0" * 64), "digest"),
    "version of the future": (lambda path: with_metadata(path, version=2), "version 2"),
    "other format": (lambda path: with_metadata(path, format="something"), ""),
    "metadata not JSON": (lambda path: with_text(path, b"{'gamma': 0.9"), ""),
    "metadata nested without end": (lambda path: with_text(path, b"[" * 200_000), ""),
    **{
        f"no {name} in the metadata": (without_metadata(name), "")
        for name in ("format", "n_actions", "gamma", "states", "digest")
    },
    "discount as text": (lambda path: with_metadata(path, gamma="0.9"), "gamma"),
    "discount not a number": (lambda path: with_metadata(path, gamma=float("nan")), "gamma"),
    "actions as text": (lambda path: with_metadata(path, n_actions="two"), ""),
    "reward range of three": (lambda path: with_metadata(path, reward_range=[0, 1, 2]), ""),
    "wrong number of names": (lambda path: with_metadata(path, states=["one"]), "labels.states"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_not_a_process_is_refused_with_the_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / "given.npz"
    write, fragment = BAD_FILES[name]
    write(path)
    with pytest.raises(InvalidFile) as caught:
        rr.load_mdp(path)
    assert isinstance(caught.value, rr.InvalidInput)
    assert str(caught.value).startswith(f"{path}: ")
    assert fragment in str(caught.value), str(caught.value)


class Trap:
    """Unpickling this makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_pickles_inside_are_refused_and_never_run(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        path, sprung = tmp_path / f"{name}.npz", tmp_path / f"sprung {number}"
        trap = np.empty(1, dtype=object)
        trap[0] = Trap(sprung)
        with_arrays(path, **{name: trap})
        with pytest.raises(InvalidFile) as caught:
            rr.load_mdp(path)
        assert str(path) in str(caught.value)
        assert not sprung.exists()
        with np.load(path, allow_pickle=True) as archive:  # the trap is real
            assert archive[name] is not None
        assert sprung.exists()


# --- a million states ------------------------------------------------------------------------

WRITE = """
import sys
import numpy as np
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
mdp.save(sys.argv[1])
print(mdp.digest)
"""

READ = """
import resource, sys
import replicable_rl as rr

mdp = rr.load_mdp(sys.argv[1])
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


@pytest.mark.skipif(sys.platform == "win32", reason="measures memory as POSIX does")
def test_a_million_states_load_validate_and_digest_within_two_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    (written,) = run_python(WRITE, path)
    digest, peak, *sizes = run_python(READ, path)
    path.unlink()
    assert digest == written
    assert sizes == ["1000000", "4", "16000000"]
    content = 16_000_000 * (8 + 8 + 4)
    assert content < int(peak) < 2 * 10**9, f"{int(peak) / 1e9:.2f} GB"
