"""A run on disk: a directory with ``run.json`` and one file for every level, such as ``policy.npy``."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.canonical import from_decimal, json_text, parse_json, record_digest
from replicable_rl.data import Dataset
from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.files import new_directory, read_file, write_csv
from replicable_rl.problem.table import TabularMDP
from replicable_rl.records import Claims, Run, RunSpec, Status, level_of
from replicable_rl.solve.naming import speaker

_FORMAT, _VERSION = "replicable-rl run", 1
_LARGEST = 1 << 28  # bytes of a record


def save_run(run: Run, directory: str | os.PathLike[str], problem: Any = None) -> None:
    """Write a run into a new directory, whole or not at all.

    Parameters
    ----------
    run : Run
        What :func:`replicable_rl.solve` returned, or a store.
    directory : path
        It must not exist yet. It will hold ``run.json`` and one file for every level, such as ``policy.npy``.
    problem : TabularMDP or Dataset, optional
        What was solved, if it has names: the policy is then written by them too, as ``policy.csv``, for people.

    Examples
    --------
    >>> import tempfile, replicable_rl as rr
    >>> run = rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rr.save_run(run, folder + "/run")
    ...     rr.load_run(folder + "/run") == run
    True
    """
    if run.error is not None:
        raise InvalidInput(f"save_run: this run failed, and has nothing to save ({run.error.rstrip('.')}).")
    named = [] if problem is None else _by_names(run, problem)
    with new_directory(directory) as folder:
        record = {"format": _FORMAT, "version": _VERSION, **run.to_json()}
        text = json_text({**record, "digest": record_digest(record)}, indent=2)
        (folder / "run.json").write_text(text, encoding="utf-8")
        for name in run.fingerprints:
            (folder / _file_of(name)).write_bytes(level_of(name).encode(run.output(name)))
        if named:
            write_csv(folder / "policy.csv", named)


def _by_names(run: Run, problem: Any) -> list[dict[str, str]]:
    """Return the state and the action of every row, by their names; nothing where there are none."""
    if not isinstance(problem, (TabularMDP, Dataset)):
        raise InvalidInput(f"save_run: problem must be a TabularMDP or a Dataset, got {shown(problem)}.")
    states, actions = problem.labels.states, problem.labels.actions
    if "policy" not in run.outputs or states is None or actions is None:
        return []
    if run.policy.size != len(states) or run.policy.max() >= len(actions):
        raise InvalidInput(
            f"save_run: the policy has {run.policy.size} states, the problem {len(states)} and {len(actions)} actions. "
            "Give the problem that was solved."
        )
    return [{"state": state, "action": actions[a]} for state, a in zip(states, run.policy.tolist(), strict=True)]


def load_run(directory: str | os.PathLike[str]) -> Run:
    """Read a run back, and check that all of it is as it was saved.

    Every output must have its fingerprint and ``run.json`` its digest.

    Parameters
    ----------
    directory : path
        What :func:`save_run` wrote. Nothing is unpickled.
    """
    try:
        folder = Path(directory)
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"load_run: directory must name a folder, got {shown(directory)}.") from None
    try:
        if not (folder / "run.json").is_file():
            raise InvalidFile("holds no run.json.")
        record = parse_json(read_file(folder / "run.json", _LARGEST))
        run = _read(record, folder)
    except InvalidInput as error:
        raise InvalidFile(f"{folder}: {error}") from None
    except Exception as error:  # whatever numpy and a level of somebody's own make of what they cannot read
        raise InvalidFile(f"{folder}: not a {_FORMAT} ({str(error) or type(error).__name__}).") from None
    if run.fingerprints != record["fingerprints"]:
        raise InvalidFile(
            f"{folder}: the outputs do not have the fingerprints recorded; they were changed after saving."
        )
    return run


def _read(record: Any, folder: Path) -> Run:
    """Return what a directory holds."""
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise InvalidFile(f"not a {_FORMAT}.")
    if record.get("version") != _VERSION:
        raise InvalidFile(f"format version {record.get('version')!r} is not {_VERSION}. Upgrade replicable-rl.")
    if record.get("digest") != record_digest({name: part for name, part in record.items() if name != "digest"}):
        raise InvalidFile(
            "run.json does not have the digest recorded; it was changed after saving. Make the run again."
        )
    spec = None if record["spec"] is None else RunSpec.from_json(record["spec"])
    run = Run.of(
        {name: level_of(name).decode(read_file(folder / _file_of(name))) for name in record["fingerprints"]},
        status=None if record["status"] is None else Status.from_json(record["status"]),
        claims=Claims.from_json(record["claims"], speaker(None if spec is None else spec.algorithm)),
        samples=None if record["samples"] is None else from_decimal("samples", record["samples"]),
        history={name: np.array(column, dtype=np.float64) for name, column in record["history"].items()},
    )
    return replace(run, spec=spec, made_with=dict(record["made_with"]))


def _file_of(name: str) -> str:
    return f"{name}{level_of(name).suffix}"
