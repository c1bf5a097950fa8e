"""Wrote ``v2/store-v2.sqlite`` and ``v2/store-v2.json``, what it holds: ``python -m tests.vectors.store_v2``.

A new schema version gets files of its own name; what a release has written stays, and must open in every later one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import replicable_rl as rr
from replicable_rl.records import LEVELS, Drawn, Level, ObjectSpec, Recorded, Run, RunSpec, register_level
from replicable_rl.store import RunStore, packed

AUDITED = (
    rr.ReplicablePhasedVI(0.1, 0.01, 0.2, calls=100_000, iterations=5),
    rr.ReplicableRMax(0.2, 0.05, 0.3, horizon=5),
)
LARGEST = 2**64 - 1
TRAIN = ObjectSpec("train", {"rate": 0.5, "steps": 10**20})
DRAWN, FAILED = (RunSpec(ObjectSpec("callable"), TRAIN, LARGEST, Drawn(seed, "own")) for seed in (2**63, 1))
RECORDED = RunSpec(ObjectSpec("chain-v1"), ObjectSpec("rule-v1"), 7, Recorded("ab" * 32))


def described(store: RunStore) -> dict[str, Any]:
    """Return all that a store holds as JSON; outputs of the levels that are always there, models by digest."""
    summaries = [one for one in store.summary() if one.family.sampler is not None]  # the recorded run is added below
    families = [[one.family.problem.to_json(), one.family.algorithm.to_json(), one.family.sampler] for one in summaries]
    runs = [run for one in summaries for run in store.runs(one.family).values()]
    return {
        "audits": [spec.to_json() for spec in store.audits()],
        "families": [[*family, *one[1:]] for family, one in zip(families, summaries, strict=True)],
        "runs": [_described(run) for run in (*runs, store.run(RECORDED.digest))],
    }


def _described(run: Run) -> dict[str, Any]:
    outputs = {name: run.outputs[name] for name in run.outputs if name in ("policy", "value", "model")}
    content = {name: one.digest if name == "model" else one.tolist() for name, one in outputs.items()}
    more = {"outputs": content, "history_digest": run.history_digest, "seconds": run.seconds, "error": run.error}
    return {**run.to_json(), **more}


def write(path: Path) -> None:
    """Write the golden store: two audits, training code that ended once and failed once, and a recorded sample."""
    if path.exists():
        raise SystemExit(f"{path}: a golden file is never written again.")
    register_level(Level("weights", implies=("policy",)))
    runs = [
        Run.of({"weights": [0.25, -1.5], "policy": [0, 1]}, samples=2**70).completed(DRAWN, seconds=0.25),
        Run.of({"policy": [1, 0]}).completed(RECORDED, seconds=0.5),
    ]
    contents: dict[str, bytes] = {}
    with RunStore(path) as store:
        for algorithm in AUDITED:
            rr.audit(rr.make("chain-v1"), algorithm, shared_seeds=3, store=store)
        kept = [packed(run, contents) for run in runs]
        store.add([*kept, Run.failed(FAILED, "RuntimeError: out of luck", 0.5)], contents)
        del LEVELS["weights"]
        path.with_suffix(".json").write_text(json.dumps(described(store), indent=1) + "\n")


if __name__ == "__main__":
    write(Path(__file__).parent / "v2" / "store-v2.sqlite")
