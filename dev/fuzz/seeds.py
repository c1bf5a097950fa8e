"""Sound files of every kind, and how each is read in full."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import replicable_rl as rr
from replicable_rl.audit.evidence import AuditSpec, audits_of
from replicable_rl.canonical import json_text, parse_json, to_json
from replicable_rl.runs import Claims, Drawn, Logged, ObjectSpec, RunFamily, RunSpec
from replicable_rl.store import RunStore


@dataclass(frozen=True)
class Kind:
    """A kind of file: how to write a sound one, how to read all of it, and whether it records runs.

    A record must never load changed. Everything else may be changed into another valid input.
    """

    name: str
    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    record: bool


def _write_problem(path: Path) -> None:
    rr.save(rr.make("two-goals-v1"), path)


def _read_problem(path: Path) -> str:
    return str(rr.load(path).digest)


def _write_run(path: Path) -> None:
    algorithm = rr.ReplicableRMax(0.2, 0.05, 0.3, horizon=5)
    rr.save(rr.solve(rr.make("chain-v1"), algorithm, shared_seed=1, sample_seed=1), path)


def _read_run(path: Path) -> str:
    run = rr.load(path)
    history = {name: values.tolist() for name, values in run.history.items()}
    return json.dumps([run.to_json(), history], sort_keys=True, default=str)


def _write_store(path: Path) -> None:
    rr.audit(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.01, calls=20, iterations=3), shared_seeds=28, store=path)


def _read_store(path: Path) -> set[str]:
    """Return every record of a store as text."""
    records: set[str] = set()
    with RunStore(path) as store:
        specs: list[AuditSpec] = audits_of(store)
        records |= {json.dumps(to_json(spec), sort_keys=True) for spec in specs}
        families: list[RunFamily] = [family for family, _ in store.families()]
        for family in families:
            for run in store.runs(family).values():
                records.add(json.dumps([run.to_json(), run.seconds, run.error], sort_keys=True, default=str))
                for level in run.outputs:
                    run.output(level)
    return records


def _write_plan(path: Path) -> None:
    """Write everything that says what is to be run and what is claimed of it, each as its own JSON."""
    problem, algorithm = ObjectSpec("chain-v1", {"n_states": 5}), ObjectSpec("rpvi-v1", {"calls": 10**20, "rho": 0.2})
    result = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01, calls=20, iterations=3), shared_seeds=3)
    proved = rr.plan(rr.make("chain-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2)).claims()
    plan = {
        "drawn": RunSpec(problem, algorithm, 7, Drawn(1)).to_json(),
        "recorded": RunSpec(problem, algorithm, 7, Logged("ab" * 32)).to_json(),
        "proved": proved.to_json(),
        "measured": Claims((result.claim(),)).to_json(),
    }
    path.write_text(json_text(plan))


def _read_plan(path: Path) -> str:
    """Return all parts as text; what was read must come back the same from its own JSON."""
    data = parse_json(path.read_bytes())
    readers: tuple[Any, ...] = (RunSpec, RunSpec, Claims, Claims)
    parts = data.values() if isinstance(data, dict) else ()
    read = [reader.from_json(part) for reader, part in zip(readers, parts, strict=False)]
    keys = [getattr(one, "digest", "") for one in read]
    again = [type(one).from_json(parse_json(json_text(one.to_json()))) for one in read]
    assert again == read
    return json.dumps([[one.to_json() for one in read], keys, list(map(str, read))])


def _write_cuts(path: Path) -> None:
    rr.save(rr.publish(rr.make("two-goals-v1"), rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000), sample_seed=1), path)


def _read_cuts(path: Path) -> str:
    return json.dumps(rr.load(path).to_json(), sort_keys=True)


_ROWS = "home,go,0.5,road,false\nroad,wait,1.0,home,false\nroad,go,0.25,road,true\n"
_LOG = "state,action,reward,next_state,done\n" + 4 * _ROWS


def _write_log(path: Path) -> None:
    path.mkdir()
    (path / "log.csv").write_text(_LOG)


def _read_log(path: Path) -> str:
    return rr.from_transitions(path, gamma=0.9, done="done").sample.digest


def _write_counts(path: Path) -> None:
    columns = list(zip(*(line.split(",") for line in _LOG.splitlines()), strict=True))
    log: dict[str, Any] = {name: list(column) for name, *column in columns}
    rr.save(rr.from_transitions(log | {"reward": [float(one) for one in log["reward"]]}, gamma=0.9, done="done"), path)


def _read_counts(path: Path) -> str:
    data = rr.load(path)
    return json.dumps([data.sample.digest, data.summary().to_json()])


KINDS = {
    kind.name: kind
    for kind in (
        Kind("problem", _write_problem, _read_problem, record=False),
        Kind("run", _write_run, _read_run, record=True),
        Kind("store", _write_store, _read_store, record=True),
        Kind("plan", _write_plan, _read_plan, record=False),
        Kind("cuts", _write_cuts, _read_cuts, record=True),
        Kind("log", _write_log, _read_log, record=False),
        Kind("dataset", _write_counts, _read_counts, record=True),
    )
}


def copied(source: Path, target: Path) -> None:
    """Put a fresh copy of a sound file or folder at a place."""
    for left in (target, Path(f"{target}-journal")):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
