"""Audits read back from a store, without the program that made them.

A store holds the specs of its audits. Where runs are missing, because an audit was interrupted or rows were deleted,
only the shared seeds before the first that lacks a run are compared. Which other runs have finished may depend on what
they found: hard problems take long. How many seeds come before the first gap may depend on that, too, so a verdict goes
by the interval that holds at every look. The result says how many runs were asked for.
"""

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from replicable_rl.audit.evidence import AuditSpec, Training, audits_of, repeats_of
from replicable_rl.audit.result import AuditResult
from replicable_rl.errors import InvalidInput
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import PROBLEMS, make
from replicable_rl.runs import ObjectSpec, Run, RunFamily
from replicable_rl.store import RunStore

_MOST_STATES = 20_000  # of a problem that is built again for its names and returns
_GYMNASIUM = "gymnasium/"
_AT_ONCE = 1000  # shared seeds whose runs are looked up: a file may ask for very many, and hold few


def read_audits(
    store: RunStore, *, confidence: float | None = None, wanted: Callable[[AuditSpec], bool] = lambda spec: True
) -> list[AuditResult]:
    """Return the audits that a store holds, as far as their runs have finished.

    Parameters
    ----------
    store : RunStore
        What audits were kept in.
    confidence : float, optional
        Of every interval; None means what each audit asked for.
    wanted : callable, optional
        Which specs to read.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> store = rr.RunStore()
    >>> made = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    >>> (read,) = read_audits(store)
    >>> read.runs == made.runs, read.mdp == made.mdp, read.runs_asked
    (True, True, 6)
    """
    chosen = [spec for spec in current(audits_of(store)) if wanted(spec)]
    families = {family: store.runs(family) for family in {spec.family for spec in chosen}}
    asked = chosen if confidence is None else [replace(spec, confidence=confidence) for spec in chosen]
    return [_read(store, spec, families[spec.family]) for spec in asked]


def current(specs: Sequence[AuditSpec]) -> list[AuditSpec]:
    """Leave out audits that a later or larger one answers: it contains their runs, and asks what they ask."""

    def answers(other: AuditSpec, spec: AuditSpec) -> bool:
        asks = spec.require is None or (spec.require, spec.level) == (other.require, other.level)
        asks = asks and spec.training in (None, Training(), other.training)
        return asks and other.contains(spec)

    families: dict[RunFamily, list[tuple[int, AuditSpec]]] = defaultdict(list)
    for i, spec in enumerate(specs):
        families[spec.family].append((i, spec))
    return [
        spec
        for i, spec in enumerate(specs)
        if not any(
            answers(other, spec) and (j > i or not answers(spec, other)) for j, other in families[spec.family] if j != i
        )
    ]


def _read(store: RunStore, spec: AuditSpec, found: Mapping[str, Run]) -> AuditResult:
    """Return what the runs before the first that is missing show."""
    asked, each, runs, whole = spec.size, spec.runs_per_seed, list[Run](), True
    order = spec.each_seed()
    while whole and (seeds := list(itertools.islice(order, _AT_ONCE))):
        there = list(itertools.takewhile(found.__contains__, spec.keys_of(seeds)))
        runs += [found[key] for key in there[: len(there) - len(there) % each]]
        whole = len(there) == len(seeds) * each
    if 0 < len(runs) < asked:
        spec = spec.first(len(runs) // each)
    repeats = tuple(repeats_of(store)) if spec.may_remember else ()
    return AuditResult(spec, tuple(runs), store, asked, _problem(spec.problem, runs), repeats=repeats)


def _problem(spec: ObjectSpec, runs: Sequence[Run]) -> TabularMDP | None:
    """Build the problem again where an id says how and a policy of its runs fits."""
    policy = next((run.policy for run in runs if "policy" in run.fingerprints), None)
    return None if policy is None else problem_of(spec, policy)


def problem_of(spec: ObjectSpec, policy: NDArray[Any]) -> TabularMDP | None:
    """Build the problem that a policy is for, where an id says how, it is not too large, and the policy fits."""
    if policy.ndim != 1 or policy.dtype.kind != "i" or policy.size > _MOST_STATES:
        return None
    if spec.id not in PROBLEMS and not _is_toy(spec.id):
        return None  # a file may name anything: other ids could name a module to import
    with contextlib.suppress(InvalidInput, TypeError, ValueError, MemoryError):
        mdp = make(spec.id, **spec.params)
        if mdp.n_states == policy.size and policy.max() < mdp.n_actions:
            mdp.support.refuse_others("audit", policy)
            return mdp
    return None


def _is_toy(id: str) -> bool:
    """Whether an id names one of Gymnasium's own problems with a table."""
    import gymnasium

    found = gymnasium.registry.get(id.removeprefix(_GYMNASIUM)) if id.startswith(_GYMNASIUM) else None
    return found is not None and str(found.entry_point).startswith("gymnasium.envs.toy_text")
