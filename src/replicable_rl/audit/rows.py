"""An audit as JSON: everything found, for programs."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.document import process_sentence
from replicable_rl.audit.judging import versions
from replicable_rl.canonical import Json, to_json

if TYPE_CHECKING:
    from replicable_rl.audit.result import AuditResult


def json_of(result: AuditResult, *, timing: bool) -> dict[str, Json]:
    """Return an audit as JSON; seeds and samples are strings, for they may pass 2**53."""
    spec, returns, accuracy, logs = result.spec, result.returns, result.accuracy, result.logs
    data: dict[str, Json] = {
        "format": "replicable-rl audit",
        "version": 1,
        "problem": result.problem.to_json(),
        "algorithm": result.algorithm.to_json(),
        "sampler": spec.evidence.drawn_by,
        "shared_seeds": [str(seed) for seed in spec.seeds],
        "runs_per_seed": spec.runs_per_seed,
        "runs": {"asked": result.runs_asked, "there": len(result.runs)},
        "seed": str(spec.seed),
        **{name: vars(spec)[name] for name in ("confidence", "rho", "require")},
        "level": result.level,
        "randomness": {"shared": spec.evidence.shared, "fresh": result.fresh},
        "warnings": list(result.warnings),
        "unsampled": result.unsampled or None,
        "refuted": list(result.refuted),
        "returns": None,
        "accuracy": None if accuracy is None else {**to_json(accuracy), "share": accuracy.share.to_json()},
        "made_with": [{"runs": runs, **by} for by, runs in versions(result.runs)],
        "samples": None if result.samples is None else str(result.samples),
        "claims": [claims.to_json() for claims in dict.fromkeys(run.claims for run in result.runs if not run.error)],
        "levels": {level: _level(result, level) for level in result.levels},
        "failures": [
            {"shared_seed": str(run.shared_seed), "run": run.key, "error": run.error}
            | {name: str(sample) for name, sample in result.evidence.sample_of(run).items()}
            for run in result.failures
        ],
    }
    if logs is not None:
        data["logs"] = {"differ": logs.differ, "sentence": process_sentence(logs), **to_json(logs)}
    if returns is not None:
        per_run = [None if mean is None else _finite(mean) for mean in returns.per_run]
        uniform = None if returns.uniform is None else _finite(returns.uniform)
        data["returns"] = {"mean": _finite(returns.mean), "per_run": per_run, "uniform": uniform}
    if "policy" in result.levels:
        data |= _policies(result)
    return data | {"seconds": result.seconds} if timing else data


def _level(result: AuditResult, level: str) -> dict[str, Json]:
    agreement = result.agreement(level)
    names = ("every_look", "modal_share", "unique_share")
    return {
        "agreement": agreement.value.to_json(),
        **{name: vars(agreement)[name].to_json() for name in names},
        **{name: vars(agreement)[name] for name in ("same", "pairs", "independent")},
        "classes": [asdict(same) for same in result.classes(level)],
    }


def _policies(result: AuditResult) -> dict[str, Json]:
    states = result.states
    differing: list[dict[str, Any]] = [
        {
            "state": state,
            "agreement": float(states.per_state[state]),
            "actions": [{"action": action, "runs": runs} for action, runs in result.actions(state).items()],
        }
        for state in states.differing.tolist()
    ]
    policies = None if result.policies is None else [asdict(policy) for policy in result.policies]
    looks = {"actions": states.overall.to_json(), "actions_every_look": states.every_look.to_json()}
    return looks | {"states": states.per_state.size, "differing": differing, "policies": policies}


def _finite(mean: Estimate) -> dict[str, Json]:
    """Return an estimate; ends that nobody knows are null."""
    return {name: value if math.isfinite(value) else None for name, value in mean.to_json().items()}
