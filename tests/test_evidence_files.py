"""Files of strangers: none takes time or memory, nothing in one is evaluated, and what is wrong is one sentence."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.canonical import canonical_json, parse_json, read_npy
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.runs import Run
from replicable_rl.store import RunStore
from tests.documents import store_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


def test_words_that_no_text_can_hold_are_recorded(path: Path) -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        raise RuntimeError("\ud800 out of luck")

    result = rr.audit_callable(train, shared_seeds=2, store=path, on_error="record", version="1")
    with RunStore(path) as store:
        read = store.runs(result.spec.family)
    assert [run.error for run in read.values()] == [run.error for run in result.runs]
    assert all("\\ud800 out of luck" in str(run.error) for run in read.values())


# --- time and memory ---------------------------------------------------------------------------------


def test_pipes_and_devices_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    for name in (tmp_path / "pipe.npz", "/dev/zero"):
        with pytest.raises(InvalidFile, match=r"is not a regular file"):
            rr.load(name)


# --- one sentence ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, None, 1.5])
def test_numbers_are_no_files(number: Any) -> None:
    with pytest.raises(InvalidInput, match=f"got {number}"):
        rr.load(number)


@pytest.mark.parametrize("text", ["[" * 10**6, "[" * 70 + "]" * 70, "", b"\xff", "9" * 5000, "{", 7])
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
def test_headers_of_arrays_are_read_without_evaluation(name: str) -> None:
    with pytest.raises(InvalidInput, match="array: "):
        read_npy(npy(HEADERS[name], bytes(8)))


@pytest.mark.parametrize("dtype", ["<f8", "<i8", "<i4", "|u1", ">f4"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 2), (0,), (0, 4)])
def test_arrays_are_read_as_numpy_wrote_them(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for one in (array, np.asfortranarray(array)):
        stream = io.BytesIO()
        np.save(stream, one)
        read = read_npy(stream.getvalue())
        assert (read.dtype, read.tolist()) == (array.dtype, array.tolist())


@pytest.mark.parametrize("members", [1, 4])
def test_bombs_are_refused_before_they_are_unpacked(members: int, tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, *(np.zeros(10**7 // members, np.uint8) for _ in range(members)))
    tracemalloc.start()
    with pytest.raises(InvalidFile, match="larger unpacked"):
        rr.load(path)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_what_no_canonical_text_holds_is_one_sentence() -> None:
    deep: Any = []
    for _ in range(10**5):
        deep = [deep]
    for value in ("\ud800", deep):
        with pytest.raises(InvalidInput, match="canonical JSON"):
            canonical_json(value)


def test_a_promise_that_is_too_small_to_be_seen_is_judged(path: Path) -> None:
    algorithm = rr.ReplicablePhasedVI(0.1, 1e-18, 1e-17, calls=20, iterations=2)
    result = rr.audit(rr.make("chain-v1"), algorithm, shared_seeds=2, store=path)
    assert 1.0 - float(str(result.rho)) == 1.0
    assert "Not met" in store_text(path)
    assert str(result)


def test_numbers_beyond_floats_in_a_history_are_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="Run: history must hold columns of numbers"):
        Run.of({"policy": [0]}, history={"loss": [10**400]})  # type: ignore[dict-item]  # the refusal is the point
