"""An audit as data: everything found, as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.document import process_sentence
from replicable_rl.audit.judging import suspicion, versions
from replicable_rl.canonical import Json, to_json

if TYPE_CHECKING:
    from replicable_rl.audit.result import AuditResult


def json_of(result: AuditResult, *, timing: bool) -> dict[str, Json]:
    """Return everything found, as JSON; seeds and samples are strings, for they may pass 2**53."""
    spec = result.spec
    data: dict[str, Json] = {
        "format": "replicable-rl audit",
        "version": 1,
        **_logs_json(result),
        "problem": result.problem.to_json(),
        "algorithm": result.algorithm.to_json(),
        "sampler": spec.evidence.drawn_by,
        "shared_seeds": [str(seed) for seed in spec.seeds],
        "runs_per_seed": spec.runs_per_seed,
        "runs": {"asked": result.runs_asked, "there": len(result.runs)},
        "seed": str(spec.seed),
        "confidence": spec.confidence,
        "rho": result.rho,
        "require": spec.require,
        "level": result.level,
        "randomness": {"shared": spec.evidence.shared, "fresh": result.fresh},
        **_training_json(result),
        "unsampled": result.unsampled or None,
        "suspicion": suspicion(result) or None,
        "made_with": [{"runs": runs, **by} for by, runs in versions(result.runs)],
        "samples": None if result.samples is None else str(result.samples),
        "claims": [claims.to_json() for claims in dict.fromkeys(run.claims for run in result.runs if not run.error)],
        "refuted": list(result.refuted),
        "levels": {level: _level_json(result, level) for level in result.levels},
        "failures": [
            {"shared_seed": str(run.shared_seed)}
            | {name: str(sample) for name, sample in result.evidence.sample_of(run).items()}
            | {"run": run.key, "error": run.error}
            for run in result.failures
        ],
    }
    if "policy" in result.levels:
        data |= _policy_json(result)
    return data | {"seconds": result.seconds} if timing else data


def _logs_json(result: AuditResult) -> dict[str, Json]:
    if result.logs is None:
        return {}
    process = {"differ": result.logs.differ, "sentence": process_sentence(result.logs), **to_json(result.logs)}
    return {"logs": process}


def _level_json(result: AuditResult, level: str) -> dict[str, Json]:
    agreement = result.agreement(level)
    return {
        "agreement": agreement.value.to_json(),
        "every_look": agreement.every_look.to_json(),
        "same": agreement.same,
        "pairs": agreement.pairs,
        "independent": agreement.independent,
        "modal_share": agreement.modal_share.to_json(),
        "unique_share": agreement.unique_share.to_json(),
        "classes": [asdict(one) for one in result.classes(level)],
        "class_sizes": {str(seed): list(sizes) for seed, sizes in result.class_sizes(level).items()},
    }


def _policy_json(result: AuditResult) -> dict[str, Json]:
    states = result.states
    differing: list[dict[str, Any]] = [
        {
            "state": int(s),
            "agreement": float(states.per_state[s]),
            "actions": [{"action": action, "runs": runs} for action, runs in result.actions(int(s)).items()],
        }
        for s in states.differing
    ]
    policies = None
    if result.policies is not None:
        policies = [
            {"fingerprint": p.fingerprint, "runs": p.runs, "return": p.expected_return, "loss": p.loss}
            | {"worst_loss": p.worst_loss, "error": p.error}
            for p in result.policies
        ]
    return {
        "actions": states.overall.to_json(),
        "actions_every_look": states.every_look.to_json(),
        "states": states.per_state.size,
        "differing": differing,
        "policies": policies,
    }


def _training_json(result: AuditResult) -> dict[str, Json]:
    """Return all of it for programs."""
    returns, accuracy = result.returns, result.accuracy
    data: dict[str, Json] = {"warnings": list(result.warnings), "returns": None, "accuracy": None}
    if returns is not None:
        per_run = [None if one is None else _estimate(one) for one in returns.per_run]
        uniform = None if returns.uniform is None else _estimate(returns.uniform)
        per_seed = [None if math.isnan(one) else one for one in returns.per_seed.tolist()]
        data["returns"] = {"mean": _estimate(returns.mean), "per_seed": per_seed, "per_run": per_run}
        data["returns"] |= {"episodes": returns.episodes, "uniform": uniform, "interval": "approximate: Student's t"}
    if accuracy is not None:
        data["accuracy"] = {"epsilon": accuracy.epsilon, "delta": accuracy.delta, "over": accuracy.over}
        data["accuracy"] |= {"kept": accuracy.kept, "runs": accuracy.runs, "share": accuracy.share.to_json()}
        data["accuracy"] |= {"met": accuracy.met}
    return data


def _estimate(estimate: Estimate) -> dict[str, Json]:
    """Return an estimate; ends that nobody knows are null."""
    return {name: end if math.isfinite(end) else None for name, end in estimate.to_json().items()}
