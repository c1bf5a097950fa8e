"""What was fresh in an audit, and what made its runs: two runs on nothing fresh agree for no other reason."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.runs import Run, made_with
from replicable_rl.wording import sentence

if TYPE_CHECKING:
    from replicable_rl.audit.result import AuditResult

DRAWN_BY_TRAIN = "what train draws from sample_seed"
IGNORED_BY_TRAIN = "nothing, for train does not read sample_seed"
SAME_DATA = "nothing, for two sample seeds gave the same data"
DIFFERENT_DATA = f"{DRAWN_BY_TRAIN} (two sample seeds gave different data)"
_NOTHING_DRAWN = "nothing, for no run drew a sample"
_UNSEEDED = "what has no seed, for train does not read sample_seed"
_DOUBTS = {
    "nothing": "Nothing was fresh, {}: agreement says nothing about other samples here.",
    "no data": "The data were not fresh, {}. Runs differ for another reason, so agreement says nothing about other "
    "samples here.",
    "what has no seed": "Runs differ although train does not read sample_seed: they draw from something that has no "
    "seed. Nobody can repeat this audit, or tell what was fresh.",
}


def ignores_sample_seed(train: Callable[..., Any]) -> bool:
    """Whether training code never reads its second argument; False also where that cannot be seen.

    >>> ignores_sample_seed(lambda shared_seed, sample_seed: [shared_seed % 2])
    True
    >>> ignores_sample_seed(lambda shared_seed, sample_seed: [sample_seed % 2])
    False
    """
    function: Any = train
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, (types.FunctionType, types.MethodType)):
        function = type(function).__call__
    function = getattr(function, "__func__", function)
    try:
        parameters = inspect.signature(train, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # compiled: it cannot be seen
        return False
    placed = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if not isinstance(function, types.FunctionType) or len(placed) < 2:
        return False
    return not _reads(function.__code__, placed[1])


def _reads(code: types.CodeType, name: str) -> bool:
    """Whether code may read one of its arguments."""
    steps = (step for step in dis.get_instructions(code) if "LOAD" in step.opname)  # also for a function inside it
    return any(name in (step.argval if isinstance(step.argval, tuple) else (step.argval,)) for step in steps)


def fresh(spec: AuditSpec, runs: Sequence[Run]) -> str:
    """Say what was fresh in every run: what the audit says, or nothing, where no run drew a sample."""
    drawn = next((run.samples for run in runs if run.error is None and run.samples != 0), 0)  # None: nobody knows
    said = _NOTHING_DRAWN if drawn == 0 and any(run.error is None for run in runs) else spec.fresh
    if not said.startswith("nothing, ") or not _differ(runs):
        return said
    return _UNSEEDED if said == IGNORED_BY_TRAIN else f"no data, {said.removeprefix('nothing, ')}"


def _differ(runs: Sequence[Run]) -> bool:
    """Whether two runs under one shared seed have different outputs."""
    first: dict[int, Mapping[str, str]] = {}
    whole = (run for run in runs if run.error is None)
    return any(dict(first.setdefault(run.shared_seed, run.fingerprints)) != dict(run.fingerprints) for run in whole)


def unsampled(spec: AuditSpec, runs: Sequence[Run]) -> str:
    """Say that nothing was fresh, so that no agreement is shown; '' where something was, or may have been."""
    what, comma, why = fresh(spec, runs).partition(", ")
    return _DOUBTS[what].format(why) if comma and what in _DOUBTS else ""


def unrepeated(result: AuditResult) -> str:
    """Say that a run came out otherwise when it was made again, or that none was; '' where they came out the same."""
    runs = {run.key: run for run in result.runs}
    for one in result.repeats:
        if one.same is False and one.run in runs:
            run = runs[one.run]
            sample = f"sample seed {run.sample_seed}" if result.logs is None else result.logs.name_of(run)
            said = one.why or f"shared seed {run.shared_seed}, {sample}"
            return (
                "The same seeds gave other results: a run was made again, in a fresh process and an empty folder, and "
                f"came out otherwise ({said}). The code keeps something from earlier calls, in memory or in files, or "
                "depends on what has no seed, such as threads, a GPU or the clock. So agreement is neither shown nor "
                "refuted."
            )
    if not result.spec.may_remember or not runs or any(one.run in runs for one in result.repeats):
        return ""
    return (
        "No run was made again in a fresh process, so nobody knows whether the code keeps something from earlier "
        "calls. The same audit does it when it has made all runs."
    )


def not_repeatable(result: AuditResult) -> str:
    """Say why no run could be made again; '' where one could, or none had to be."""
    keys = {run.key for run in result.runs}
    repeats = [one for one in result.repeats if one.run in keys]
    if not repeats or any(one.same is not None for one in repeats):
        return ""
    return (
        f"No run could be made again in a fresh process ({sentence(repeats[0].why)}), so nobody knows whether the code "
        "keeps something from earlier calls."
    )


def suspicion(result: AuditResult) -> str:
    """Say that runs of training code are identical in more than their actions; '' where they are not.

    Rounding does that, and so does a seed that is not used: nobody but the author can tell.
    """
    finer = [level for level in result.levels if level != "policy"]
    same = all(one.same == one.pairs for one in result.agreements.values())
    if result.spec.fresh != DRAWN_BY_TRAIN or not finer or not same or result.unsampled:
        return ""
    return f"All pairs are identical, {finer[0]} and all: check that train draws its data from sample_seed."


def other_versions(runs: Sequence[Run]) -> str:
    """Say how many runs were made by other versions, or on another platform, than are here; '' if none."""
    here, made = made_with(), versions(runs)
    others = [(count, _differences(by, here)) for by, count in made if by != here]
    if not others:
        return ""
    said = "; ".join(f"{count} of {len(runs)} runs were made with {differences}" for count, differences in others)
    return f"{said}. Two runs may differ because of that, and not because of their samples."


def versions(runs: Sequence[Run]) -> list[tuple[Mapping[str, str], int]]:
    """Return what the runs were made with, and how many with each, the most common first."""
    made = [run.made_with for run in runs]
    several = dict(zip(map(id, made), made, strict=True))  # nearly all have the same object
    counted: Counter[tuple[tuple[str, str], ...]] = Counter()
    for one, count in Counter(map(id, made)).items():
        counted[tuple(sorted(several[one].items()))] += count
    return [(dict(by), count) for by, count in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))]


def _differences(by: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Name what differs, such as "numpy 1.26.4 (here 2.1.0)"."""
    names = [name for name in (*here, *(name for name in by if name not in here)) if by.get(name) != here.get(name)]
    told = (f"{name} {by.get(name, 'that is not recorded')} (here {here.get(name, 'not installed')})" for name in names)
    return ", ".join(told)
