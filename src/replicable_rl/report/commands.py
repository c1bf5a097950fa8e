"""Names short enough for a page, and the commands that would make again what it shows."""

from __future__ import annotations

import shlex

from replicable_rl.audit import AuditResult
from replicable_rl.errors import InvalidInput
from replicable_rl.records import ObjectSpec, RunRecord
from replicable_rl.registry import ALGORITHMS, PROBLEMS, parse_object
from replicable_rl.report.stored import StoredAudit

__all__ = ["audit_command", "brief", "solve_command"]

_LONGEST = 160  # characters of a name or a value


def brief(text: str, longest: int = _LONGEST) -> str:
    """Cut what is too long for a page.

    >>> brief("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def audit_command(audit: StoredAudit, store: str) -> str | None:
    """Return the command that makes the same audit, where there is one."""
    names = _on_command_line(audit.family.problem, audit.family.algorithm)
    if audit.result is None or not audit.planned or names is None:
        return None
    plan = audit.result.plan
    size = ["--shared-seeds", str(len(plan.shared_seeds)), "--runs", str(plan.runs_per_seed)]
    return shlex.join(["replicable-rl", "audit", *names, *size, "--store", store])


def solve_command(result: AuditResult, run: RunRecord) -> str | None:
    """Return the command that makes the same run, where there is one."""
    names = _on_command_line(result.problem, result.algorithm)
    seeds = ["--shared-seed", str(run.shared_seed), "--sample-seed", str(run.sample_seed)]
    return None if names is None else shlex.join(["replicable-rl", "solve", *names, *seeds])


def _on_command_line(problem: ObjectSpec, algorithm: ObjectSpec) -> list[str] | None:
    """Return both as one types them, None where that cannot be done."""
    known = (problem.id in PROBLEMS or problem.id.startswith("gymnasium/")) and algorithm.id in ALGORITHMS
    for spec in (problem, algorithm):
        if not known or len(spec.text) > _LONGEST:
            return None
        try:
            if parse_object(spec.text) != spec:
                return None
        except InvalidInput:
            return None
    return [problem.text, algorithm.text]
