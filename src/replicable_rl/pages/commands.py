"""The commands that would make again what a page shows, and how the objects in them are written."""

import contextlib
import shlex
from dataclasses import fields
from decimal import Decimal

from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.runs import OURS, Drawn, ObjectSpec, Run, provider

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


def parse_object(text: str) -> ObjectSpec:
    """Read ``id:key=value,key=value``; values are numbers, true, false, or else text.

    >>> dict(parse_object("garnet-v1:n_states=5e1,gamma=0.95").params)
    {'n_states': 50, 'gamma': 0.95}
    """
    id, _, listed = text.partition(":")
    params: dict[str, Json] = {}
    for item in filter(None, listed.split(",")):
        key, equals, value = item.partition("=")
        if not (key.isidentifier() and equals) or key in params:
            rule = "parameters are written key=value, each once, and separated by commas"
            raise InvalidInput(f"{text}: {rule}, got {shown(item)}.")
        number = number_of(value)
        words = {"true": True, "false": False}
        params[key] = words.get(value.lower(), value) if number is None else number
    return ObjectSpec(id, params)


def number_of(text: str) -> int | float | None:
    """Read a number, and one such as 1.3e7 as the integer that it is; 1e+23 is how Python writes a float.

    >>> number_of("1e16"), number_of("13_000"), number_of("1e+23"), number_of("x")
    (10000000000000000, 13000, 1e+23, None)
    """
    with contextlib.suppress(ValueError):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    is_exact = "e" in text.lower() and "+" not in text and number.is_integer()
    return int(Decimal(text)) if is_exact else number
