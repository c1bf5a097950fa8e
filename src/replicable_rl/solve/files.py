"""A run on disk: a directory with ``run.json`` and one file for every level, such as ``policy.npy``.

Version 1 wrote ``solution.json``, ``arrays.npz`` and ``model.npz``; such a directory is read as well.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.canonical import (
    Json,
    from_decimal,
    json_digest,
    json_text,
    parse_json,
    read_npz,
    record_digest,
    to_json,
)
from replicable_rl.data import Dataset
from replicable_rl.errors import InvalidFile, InvalidInput, shown
from replicable_rl.files import new_directory, read_file, write_csv
from replicable_rl.mdp import TabularMDP, load_mdp
from replicable_rl.records import COUNTS, LEVELS, OWN, Claim, Claims, ObjectSpec, Run, RunSpec, Status, level_of
from replicable_rl.records.claims import Kind

_FORMAT, _VERSION = "replicable-rl run", 3  # 2 had no digest
_FORMAT_1 = "replicable-rl solution"
_LARGEST = 1 << 28  # bytes of a record
_UNPROVED_1 = "version 1 recorded no proof"
MADE_WITH_1 = {"replicable-rl": "0.1.0", "schema": "1"}  # all that is known of what made a run of version 1


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

    Every output must have its fingerprint and ``run.json`` its digest. What older versions wrote has no digest; such a
    run is read, and its ``sealed`` is False.

    Parameters
    ----------
    directory : path
        What :func:`save_run` wrote, or an older version of this package. Nothing is unpickled.
    """
    try:
        folder = Path(directory)
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"load_run: directory must name a folder, got {shown(directory)}.") from None
    try:
        old = not (folder / "run.json").is_file()
        if old and not (folder / "solution.json").is_file():
            raise InvalidFile("holds no run.json.")
        with _as_no_run():
            record = parse_json(read_file(folder / ("solution.json" if old else "run.json"), _LARGEST))
        run, digest = _read_version_1(record, folder) if old else _read(record, folder)
        recorded = {name: one for name, one in record["fingerprints"].items() if one is not None}
    except InvalidInput as error:
        raise InvalidFile(f"{folder}: {error}") from None
    except Exception as error:  # whatever numpy and a level of somebody's own make of what they cannot read
        raise InvalidFile(f"{folder}: not a {_FORMAT} ({str(error) or type(error).__name__}).") from None
    if run.fingerprints != recorded:
        raise InvalidFile(
            f"{folder}: the outputs do not have the fingerprints recorded; they were changed after saving."
        )
    if digest != record.get("run"):
        raise InvalidFile(f"{folder}: the spec does not have the digest recorded; it was changed after saving.")
    return run


def _read(record: Any, folder: Path) -> tuple[Run, str | None]:
    """Return what a directory holds, and the digest of its spec."""
    sealed = _check_seal(record)
    files = {name: folder / _file_of(name) for name in {**LEVELS, **record["fingerprints"]}}
    for name in record["fingerprints"]:
        if not files[name].is_file():
            raise InvalidFile(f"holds no {files[name].name}.")
    with _as_no_run():
        outputs = {name: level_of(name).decode(read_file(path)) for name, path in files.items() if path.exists()}
    run = _built(record, outputs, Claims.from_json(record["claims"]))
    spec = None if record["spec"] is None else RunSpec.from_json(record["spec"])
    made_with = {str(name): str(version) for name, version in record["made_with"].items()}
    run = replace(run, spec=spec, made_with=made_with, sealed=sealed)
    return run, None if spec is None else spec.digest


@contextlib.contextmanager
def _as_no_run() -> Iterator[None]:
    """Say of bytes that cannot be read that they are no run."""
    try:
        yield
    except InvalidFile:
        raise
    except InvalidInput as error:
        raise InvalidFile(f"not a {_FORMAT} ({str(error).rstrip('.')}).") from None


def _check_seal(record: Any) -> bool:
    """Check the digest of a record, which one of version 2 does not have; return whether it has one."""
    older = isinstance(record, dict) and record.get("version") == 2
    _check_version(record, _FORMAT, 2 if older else _VERSION)
    if older and "digest" not in record:
        return False
    if record.get("digest") != record_digest({name: part for name, part in record.items() if name != "digest"}):
        raise InvalidFile(
            "run.json does not have the digest recorded; it was changed after saving. Make the run again."
        )
    return True


def _built(record: Mapping[str, Any], outputs: Mapping[str, Any], claims: Claims) -> Run:
    """Build the run of a record; what both versions have in common."""
    return Run.of(
        outputs,
        status=None if record["status"] is None else Status.from_json(record["status"]),
        claims=claims,
        samples=None if record["samples"] is None else from_decimal("samples", record["samples"]),
        history={name: np.array(column, dtype=np.float64) for name, column in record["history"].items()},
    )


def _check_version(record: Any, format: str, version: int) -> None:
    if not isinstance(record, dict) or record.get("format") != format:
        raise InvalidFile(f"not a {format}.")
    if record.get("version") != version:
        raise InvalidFile(f"format version {record.get('version')!r} is not {version}. Upgrade replicable-rl.")


def _file_of(name: str) -> str:
    return f"{name}{level_of(name).suffix}"


# --- what version 1 wrote ----------------------------------------------------------------------------


def _read_version_1(record: Any, folder: Path) -> tuple[Run, str | None]:
    """Return what a directory of version 1 holds, and the digest that its spec had."""
    _check_version(record, _FORMAT_1, 1)
    if not (folder / "arrays.npz").is_file():
        raise InvalidFile(f"not a {_FORMAT} (it holds no arrays.npz).")
    with _as_no_run():
        arrays = read_npz(io.BytesIO(read_file(folder / "arrays.npz")))
    outputs: dict[str, Any] = {"policy": arrays["policy"], "value": arrays["q"]}
    if (folder / "model.npz").exists():
        outputs["model"] = load_mdp(folder / "model.npz")
    run = replace(_built(record, outputs, claims_1(record["guarantee"])), made_with=MADE_WITH_1, sealed=False)
    if record["spec"] is None:
        return run, None
    old = {**record["spec"]}
    sampler = sampler_1(ObjectSpec.from_json(old.get("problem")))
    sample = {"kind": "drawn", "sampler": sampler, "seed": old.pop("sample_seed")}
    return replace(run, spec=RunSpec.from_json({**old, "sample": sample})), json_digest(to_json(record["spec"]))


def sampler_1(problem: ObjectSpec) -> str:
    """Return what drew the samples of a problem in version 1."""
    return OWN if problem.id == "simulator" or problem.id.startswith("episodes/") else COUNTS


def claims_1(guarantee: Json) -> Claims:
    """Return a guarantee of version 1 as claims: its numbers are what was proved."""
    if guarantee is None:
        return Claims()
    texts = kind, theorem, _ = [guarantee[name] for name in ("kind", "theorem", "sentence")]
    epsilon, delta, rho = numbers = [guarantee[name] for name in ("epsilon", "delta", "rho")]
    if not all(isinstance(x, str) for x in texts) or not all(x is None or type(x) in (int, float) for x in numbers):
        raise InvalidInput(f"a guarantee of version 1 was expected, got {shown(guarantee)}.")
    ground: Kind = "asymptotic" if kind == "asymptotic" else "proved"
    source = f"{theorem}, as recorded by version 1" if theorem else "as recorded by version 1"
    made, missing = [], {}
    if epsilon is None:
        missing["accuracy"] = _UNPROVED_1
    else:
        said = f"the error is at most {epsilon:g}, except with probability {delta or 0.0:g}"
        made.append(Claim("accuracy", ground, said, epsilon, source, delta or 0.0))
    if rho is None:
        missing["replicability"] = _UNPROVED_1
    else:
        said = f"two runs differ with probability at most {rho:g}"
        made.append(Claim("replicability", ground, said, rho, source))
    return Claims(tuple(made), missing)
