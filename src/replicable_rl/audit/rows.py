"""An audit as a table with one row for every run, and as a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.audit.agreement import Estimate
from replicable_rl.canonical import Json
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
