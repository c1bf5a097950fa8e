"""A solution on disk: a directory with ``solution.json``, ``arrays.npz`` and, if there is one, ``model.npz``."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.files import new_directory
from replicable_rl.mdp import load_mdp
from replicable_rl.records import Guarantee, RunSpec, Solution, Status

__all__ = ["load_solution", "save_solution"]

_FORMAT, _VERSION = "replicable-rl solution", 1
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, MemoryError)
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, *_BROKEN_ZIP)


def save_solution(solution: Solution, directory: str | os.PathLike[str]) -> None:
    """Write a solution into a new directory, whole or not at all.

    Parameters
    ----------
    solution : Solution
        What :func:`replicable_rl.solve` returned.
    directory : path
        It must not exist yet. It will hold ``solution.json``, ``arrays.npz`` and, where one was learned, ``model.npz``.

    Examples
    --------
    >>> import tempfile, replicable_rl as rr
    >>> solution = rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rr.save_solution(solution, folder + "/run")
    ...     rr.load_solution(folder + "/run").fingerprints == solution.fingerprints
    True
    """
    record = solution.to_json()
    for bulky in ("policy", "value", "q"):
        del record[bulky]
    with new_directory(directory) as folder:
        text = json.dumps({"format": _FORMAT, "version": _VERSION, **record}, indent=2, allow_nan=False)
        (folder / "solution.json").write_text(text + "\n", encoding="utf-8")
        np.savez(folder / "arrays.npz", allow_pickle=False, policy=solution.policy, q=solution.q)
        if solution.model is not None:
            solution.model.save(folder / "model.npz")


def load_solution(directory: str | os.PathLike[str]) -> Solution:
    """Read a solution back, and check that its arrays still have their fingerprints.

    Parameters
    ----------
    directory : path
        What :func:`save_solution` wrote. Nothing is unpickled.
    """
    folder = Path(directory)
    if not (folder / "solution.json").is_file():
        raise InvalidFile(f"{folder}: holds no solution.json.")
    try:
        record = json.loads((folder / "solution.json").read_text(encoding="utf-8"))
        _check_version(record)
        # opened here, for numpy does not close a file that it fails to read
        with (folder / "arrays.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            solution = _from_record(record, arrays["policy"], arrays["q"], folder / "model.npz")
        again = solution.to_json()
    except InvalidInput as error:
        raise InvalidFile(f"{folder}: {error}") from None
    except _UNREADABLE as error:
        raise InvalidFile(f"{folder}: not a {_FORMAT} ({error}).") from None
    if again["fingerprints"] != record.get("fingerprints"):
        raise InvalidFile(
            f"{folder}: the arrays do not have the fingerprints recorded; they were changed after saving."
        )
    if again["run"] != record.get("run"):
        raise InvalidFile(f"{folder}: the spec does not have the digest recorded; it was changed after saving.")
    return solution


def _check_version(record: Any) -> None:
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise InvalidFile(f"not a {_FORMAT}.")
    if record.get("version") != _VERSION:
        raise InvalidFile(f"format version {record.get('version')!r} is not {_VERSION}. Upgrade replicable-rl.")


def _from_record(record: dict[str, Any], policy: Any, q: Any, model_path: Path) -> Solution:
    samples = record["samples"]
    if not (isinstance(samples, str) and samples.isdecimal() and samples.isascii()):
        raise InvalidFile(f"samples must be a string of decimal digits, got {samples!r}.")
    solution = Solution.from_q(
        q,
        policy,
        samples=int(samples),
        status=Status.from_json(record["status"]),
        guarantee=Guarantee.from_json(record["guarantee"]),
        model=load_mdp(model_path) if model_path.exists() else None,
        history={name: np.array(column, dtype=np.float64) for name, column in record["history"].items()},
    )
    return solution if record["spec"] is None else solution.with_spec(RunSpec.from_json(record["spec"]))
