"""A run on disk: a directory with ``run.json`` and one file for every level, such as ``policy.npy``.

Version 1 wrote ``solution.json``, ``arrays.npz`` and ``model.npz``; such a directory is read as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.canonical import Json, from_decimal, json_digest, json_text, parse_json, to_json
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.files import new_directory
from replicable_rl.mdp import load_mdp
from replicable_rl.records import COUNTS, LEVELS, OWN, Claim, Claims, ObjectSpec, Run, RunSpec, Status, level_of
from replicable_rl.records.claims import Kind

_FORMAT, _VERSION = "replicable-rl run", 2
_FORMAT_1 = "replicable-rl solution"
_UNPROVED_1 = "version 1 recorded no proof"
MADE_WITH_1 = {"replicable-rl": "0.1.0", "schema": "1"}  # all that is known of what made a run of version 1


def save_run(run: Run, directory: str | os.PathLike[str]) -> None:
    """Write a run into a new directory, whole or not at all.

    Parameters
    ----------
    run : Run
        What :func:`replicable_rl.solve` returned, or a store.
    directory : path
        It must not exist yet. It will hold ``run.json`` and one file for every level, such as ``policy.npy``.

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
    with new_directory(directory) as folder:
        text = json_text({"format": _FORMAT, "version": _VERSION, **run.to_json()}, indent=2)
        (folder / "run.json").write_text(text, encoding="utf-8")
        for name in run.fingerprints:
            (folder / _file_of(name)).write_bytes(level_of(name).encode(run.output(name)))


def load_run(directory: str | os.PathLike[str]) -> Run:
    """Read a run back, and check that its outputs still have their fingerprints.

    Parameters
    ----------
    directory : path
        What :func:`save_run` wrote, or version 1 of this package. Nothing is unpickled.
    """
    folder = Path(directory)
    old = not (folder / "run.json").is_file()
    if old and not (folder / "solution.json").is_file():
        raise InvalidFile(f"{folder}: holds no run.json.")
    try:
        record = parse_json((folder / ("solution.json" if old else "run.json")).read_text(encoding="utf-8"))
        run, digest = _read_version_1(record, folder) if old else _read(record, folder)
        recorded = {name: one for name, one in record["fingerprints"].items() if one is not None}
    except InvalidInput as error:
        raise InvalidFile(f"{folder}: {error}") from None
    except Exception as error:  # whatever numpy, zipfile and json make of bytes that they cannot read
        raise InvalidFile(f"{folder}: not a {_FORMAT} ({error}).") from None
    if run.fingerprints != recorded:
        raise InvalidFile(
            f"{folder}: the outputs do not have the fingerprints recorded; they were changed after saving."
        )
    if digest != record.get("run"):
        raise InvalidFile(f"{folder}: the spec does not have the digest recorded; it was changed after saving.")
    return run


def _read(record: Any, folder: Path) -> tuple[Run, str | None]:
    """Return what a directory holds, and the digest of its spec."""
    _check_version(record, _FORMAT, _VERSION)
    files = {name: folder / _file_of(name) for name in {**LEVELS, **record["fingerprints"]}}
    for name in record["fingerprints"]:
        if not files[name].is_file():
            raise InvalidFile(f"holds no {files[name].name}.")
    outputs = {name: level_of(name).decode(path.read_bytes()) for name, path in files.items() if path.exists()}
    run = _built(record, outputs, Claims.from_json(record["claims"]))
    spec = None if record["spec"] is None else RunSpec.from_json(record["spec"])
    made_with = {str(name): str(version) for name, version in record["made_with"].items()}
    return replace(run, spec=spec, made_with=made_with), None if spec is None else spec.digest


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
    # opened here, for numpy does not close a file that it fails to read
    with (folder / "arrays.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        outputs: dict[str, Any] = {"policy": arrays["policy"], "value": arrays["q"]}
    if (folder / "model.npz").exists():
        outputs["model"] = load_mdp(folder / "model.npz")
    run = replace(_built(record, outputs, claims_1(record["guarantee"])), made_with=MADE_WITH_1)
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
        raise InvalidInput(f"a guarantee of version 1 was expected, got {guarantee!r:.200}.")
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
