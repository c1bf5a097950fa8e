"""An audit as data: a row for every run, a claim, a line, and JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.document import process_sentence
from replicable_rl.audit.sampled import fresh, suspicion, versions
from replicable_rl.canonical import Json, to_json
from replicable_rl.errors import InvalidInput
from replicable_rl.problem.source import Source
from replicable_rl.runs import Claim, Claims, LibraryClaim
from replicable_rl.wording import brief, number, plural

if TYPE_CHECKING:
    import pandas as pd

    from replicable_rl.audit.result import AuditResult


def rows_of(result: AuditResult, *, timing: bool) -> list[dict[str, Json]]:
    """Return seeds, fingerprints, samples, status, return and loss of every run."""
    worth = {one.fingerprint: one for one in result.policies or ()}
    rows = []
    measured = None if result.returns is None else result.returns.per_run
    for i, run in enumerate(result.runs):
        row: dict[str, Json] = {"shared_seed": run.shared_seed}
        row |= {"sample_seed": run.sample_seed} if result.logs is None else {"log": result.logs.name_of(run)}
        row |= {level: run.fingerprints.get(level) for level in result.levels}
        row |= {"samples": run.samples, "status": None if run.status is None else run.status.code.value}
        one = worth.get(run.fingerprints.get("policy", ""))
        if worth:
            row |= {"return": one and one.expected_return, "loss": one and one.loss}
        row |= {} if measured is None else _measured(measured[i])
        row |= {"error": run.error, "run": run.key}
        rows.append(row | {"seconds": run.seconds} if timing else row)
    return rows


def _measured(found: Estimate | None) -> dict[str, Json]:
    """Return the measured return of a run and its interval; None for what nobody knows."""
    low, high = (None, None) if found is None or not np.isfinite(found.low) else (found.low, found.high)
    return {"measured_return": None if found is None else float(found), "measured_low": low, "measured_high": high}


def frame_of(rows: list[dict[str, Json]]) -> pd.DataFrame:
    """Return rows as a data frame; seeds are whole numbers of 64 bits."""
    try:
        import pandas as pd
    except ImportError:
        raise InvalidInput("to_pandas: pandas is not installed. Run pip install pandas, or use to_csv.") from None
    frame = pd.DataFrame(rows)
    for seed in {"shared_seed", "sample_seed"} & set(frame):
        frame[seed] = frame[seed].astype("uint64")
    return frame


def measured_claim(result: AuditResult, level: str | None) -> Claim:
    """Return what was measured about a second run; of an estimated problem, about the estimate alone."""
    found = result.agreement(level)
    said = f"two runs have the same {found.level} in {found.same} of {found.pairs} pairs, agreement {found.every_look}"
    nothing_shown = result.unrepeated or result.unsampled
    said += f" ({nothing_shown.rstrip('.')})" if nothing_shown else ""
    logs = "the logs are independent samples of one process"
    logs += ", which a test denies" if result.logs is not None and result.logs.differ else ""
    conditions = () if result.logs is None else (logs,)
    claim = LibraryClaim(
        "replicability", "measured", said, 1.0 - found.every_look.low, "audit", 0.0, found.level, conditions
    )
    return Claims((claim,)).about_an_estimate().made[0] if _is_estimated(result) else claim


def _is_estimated(result: AuditResult) -> bool:
    """Whether the problem was itself estimated from data."""
    known = result.mdp if result.mdp is not None else getattr(result.spec.job, "problem", None)
    return (isinstance(known, Source) and known.trust.estimated) or result.problem.params.get("estimated") is True


def in_one_line(result: AuditResult) -> str:
    """Return what was audited and what was found, for a prompt."""
    size = f"{plural(result.spec.n_seeds, 'shared seed')} × {plural(result.spec.runs_per_seed, 'run')}"
    said = ", ".join(f"same {level} {found.every_look}" for level, found in result.agreements.items())
    of = f"{result.problem.text}, {result.algorithm.text}"
    said += "" if result.returns is None or not said else f"; mean return {number(float(result.returns.mean))}"
    none = "every run failed" if result.runs else "no run has finished"
    return f"{brief(of, 200)}: {size}; {said or none}"


def json_of(result: AuditResult, *, timing: bool) -> dict[str, Json]:
    """Return everything found, as JSON; seeds and samples are strings, for they may pass 2**53."""
    spec = result.spec
    data: dict[str, Json] = {
        "format": "replicable-rl audit",
        "version": 1,
        **_logs_json(result),
        "problem": result.problem.to_json(),
        "algorithm": result.algorithm.to_json(),
        "sampler": spec.sampler,
        "shared_seeds": [str(seed) for seed in spec.seeds],
        "runs_per_seed": spec.runs_per_seed,
        "runs": {"asked": result.runs_asked, "there": len(result.runs)},
        "seed": str(spec.seed),
        "confidence": spec.confidence,
        "rho": result.rho,
        "require": spec.require,
        "level": result.level,
        "randomness": {"shared": spec.shared, "fresh": fresh(spec, result.runs)},
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
            | ({"sample_seed": str(run.sample_seed)} if result.logs is None else {"log": result.logs.name_of(run)})
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
    told = {"differ": result.logs.differ, "sentence": process_sentence(result.logs), **to_json(result.logs)}
    return {"logs": told}


def _level_json(result: AuditResult, level: str) -> dict[str, Json]:
    found = result.agreement(level)
    return {
        "agreement": found.value.to_json(),
        "every_look": found.every_look.to_json(),
        "same": found.same,
        "pairs": found.pairs,
        "independent": found.independent,
        "modal_share": found.modal_share.to_json(),
        "unique_share": found.unique_share.to_json(),
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
    returns, accuracy, close = result.returns, result.accuracy, result.closeness
    data: dict[str, Json] = {"warnings": list(result.warnings), "returns": None, "accuracy": None, "closeness": None}
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
    if close is not None:
        mean = None if math.isnan(close.mean_distance) else close.mean_distance
        data["closeness"] = {"tolerance": close.tolerance, "close": close.close, "pairs": close.pairs}
        data["closeness"] |= {"value": close.value.to_json(), "every_look": close.every_look.to_json()}
        data["closeness"] |= {"observations": close.observations.to_json(), "mean_distance": mean}
        data["closeness"] |= {"largest_distance": close.largest_distance}
    return data


def _estimate(found: Estimate) -> dict[str, Json]:
    """Return an estimate; ends that nobody knows are null."""
    return {name: one if math.isfinite(one) else None for name, one in found.to_json().items()}
