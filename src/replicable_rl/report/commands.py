"""The commands that would make again what a page shows."""

import shlex
from dataclasses import fields

from replicable_rl.errors import InvalidInput
from replicable_rl.registry import ALGORITHMS, PROBLEMS, parse_object
from replicable_rl.runs import OURS, AuditSpec, Drawn, ObjectSpec, Run, provider

_LONGEST = 160  # characters of a problem or an algorithm
_SEEDS = 8  # shared seeds that are listed one by one
_OPTIONS = {one.name: one.default for one in fields(AuditSpec)}  # and what they are when nobody says anything


def audit_command(spec: AuditSpec, store: str) -> str | None:
    """Return the command that makes the same audit, where there is one.

    >>> spec = AuditSpec(ObjectSpec("chain-v1"), ObjectSpec("phased-vi-v1", {"epsilon": 0.1, "delta": 0.01}), seed=7)
    >>> audit_command(spec, "runs.sqlite")[65:]
    '--shared-seeds 60 --runs 2 --seed 7 --store runs.sqlite'
    """
    names, seeds = _on_command_line(spec.problem, spec.algorithm), spec.shared_seeds
    if names is None or (isinstance(seeds, tuple) and len(seeds) > _SEEDS):
        return None
    size = ["--shared-seeds", seeds] if isinstance(seeds, int) else [w for s in seeds for w in ("--shared-seed", s)]
    size += ["--runs", spec.runs_per_seed]
    for name in ("seed", "confidence", "require", "level"):
        value = getattr(spec, name)
        size += [f"--{name}", value] if value != _OPTIONS[name] else []
    return shlex.join([*program(spec.problem, spec.algorithm), "audit", *names, *map(str, size), "--store", store])


def solve_command(run: Run) -> str | None:
    """Return the command that makes the same run, where there is one."""
    spec = run.spec
    names = None if spec is None else _on_command_line(spec.problem, spec.algorithm)
    if spec is None or names is None or not isinstance(spec.sample, Drawn):
        return None
    seeds = ["--shared-seed", str(spec.shared_seed), "--sample-seed", str(spec.sample.seed)]
    return shlex.join([*program(spec.problem, spec.algorithm), "solve", *names, *seeds])


def program(*specs: ObjectSpec) -> list[str]:
    """Return the program, with the modules that register ids of somebody's own."""
    made_by = (PROBLEMS.get(spec.id) or ALGORITHMS.get(spec.id) for spec in specs)
    modules = dict.fromkeys(one.__module__ for one in made_by if one is not None and provider(one) != OURS)
    return ["replicable-rl", *(word for module in modules for word in ("--plugin", module))]


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
