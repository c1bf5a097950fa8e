"""A run store read back as audits, without the program that made them.

A store keeps runs, not plans. So the plan is found again from the seeds: runs with one shared seed belong
together, and an audit has the same number R of them under every seed. Where the numbers differ (an audit that was
interrupted, or extended), R is the most common one of at least two; seeds with fewer runs are left out, and so is
what a seed has beyond R. What is left out depends on seeds and counts alone, never on an outcome.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from replicable_rl.audit import AuditResult
from replicable_rl.audit.plan import AuditPlan, derived_seed
from replicable_rl.canonical import canonical_json
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import ObjectSpec, RunFamily, RunRecord
from replicable_rl.registry import PROBLEMS, make
from replicable_rl.store import RunStore

__all__ = ["StoredAudit", "StoredProblems", "read_audit"]

_SEED = 0  # what the seeds of an audit follow from unless it is told otherwise
_MOST_STATES = 20_000  # of a problem that is built again for its names and returns
_GYMNASIUM = "gymnasium/"


@dataclass(frozen=True, eq=False)
class StoredAudit:
    """The runs of one algorithm on one problem.

    Attributes
    ----------
    result : AuditResult or None
        What they say; None where no two runs have one shared seed.
    runs : int
        How many there are, failed ones included.
    planned : bool
        Whether the seeds are those that ``replicable-rl audit`` would use by itself, so that the same
        command makes the same runs.
    """

    family: RunFamily
    result: AuditResult | None
    runs: int
    planned: bool

    @property
    def left_out(self) -> int:
        """How many runs are not among those compared."""
        return self.runs - (0 if self.result is None else len(self.result.records))


class StoredProblems:
    """The problems of a store, built again where an id says how; each once.

    A file may name anything, so only what is known to be harmless is built: our own problems, and the tables that
    come with Gymnasium. Its other ids could name a module to import.
    """

    def __init__(self) -> None:
        self._build = functools.lru_cache(maxsize=8)(self._built)
        self._specs: dict[str, ObjectSpec] = {}

    def get(self, spec: ObjectSpec, n_states: int) -> TabularMDP | None:
        """Return the problem if it can be built and has as many states as the policies of its runs."""
        if n_states > _MOST_STATES:
            return None
        name = canonical_json(spec.to_json()).decode()
        self._specs[name] = spec
        mdp = self._build(name)
        return mdp if mdp is not None and mdp.n_states == n_states else None

    def _built(self, name: str) -> TabularMDP | None:
        spec = self._specs[name]
        if spec.id not in PROBLEMS and not _is_toy(spec.id):
            return None
        with contextlib.suppress(InvalidInput, TypeError, ValueError, MemoryError):
            return make(spec.id, **spec.params)
        return None


def _is_toy(id: str) -> bool:
    """Whether an id names one of Gymnasium's own problems with a table."""
    import gymnasium

    found = gymnasium.registry.get(id.removeprefix(_GYMNASIUM)) if id.startswith(_GYMNASIUM) else None
    return found is not None and str(found.entry_point).startswith("gymnasium.envs.toy_text")


def read_audit(
    store: RunStore, problem: ObjectSpec, algorithm: ObjectSpec, confidence: float, problems: StoredProblems
) -> StoredAudit:
    """Read the runs of one algorithm on one problem.

    >>> import replicable_rl as rr
    >>> store = RunStore()
    >>> made = rr.audit(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    >>> read = read_audit(store, made.problem, made.algorithm, 0.95, StoredProblems())
    >>> read.planned, read.result.records == made.records, read.result.mdp == made.mdp
    (True, True, True)
    """
    family = RunFamily(problem, algorithm)
    found = {record.key: record for record in store.failures(family)}
    found |= {record.key: record for record in store.runs(family)}
    groups: dict[int, list[RunRecord]] = defaultdict(list)
    for record in found.values():
        groups[record.shared_seed].append(record)
    sizes = Counter(len(group) for group in groups.values() if len(group) >= 2)
    if not sizes:
        return StoredAudit(family, None, len(found), False)
    R = max(sizes, key=lambda size: (sizes[size], size))
    planned = {derived_seed("shared", _SEED, j): j for j in range(len(groups))}
    seeds = sorted((s for s in groups if len(groups[s]) >= R), key=lambda s: (planned.get(s, len(planned)), s))
    records = [record for seed in seeds for record in _in_order(seed, groups[seed])[:R]]
    plan = AuditPlan(tuple(seeds), R, _SEED, confidence)
    in_order = seeds == list(planned)[: len(seeds)]
    is_planned = in_order and [(record.shared_seed, record.sample_seed) for record in records] == plan.seeds
    result = AuditResult(
        family, plan, tuple(records), store, _problem(store, problem, records, problems), _promise(algorithm), "", ""
    )
    return StoredAudit(family, result, len(found), is_planned)


def _in_order(seed: int, group: list[RunRecord]) -> list[RunRecord]:
    """Put the runs under a shared seed into the order in which an audit asks for them."""
    planned = {derived_seed("sample", _SEED, seed, i): i for i in range(len(group))}
    return sorted(group, key=lambda record: (planned.get(record.sample_seed, len(planned)), record.key))


def _problem(
    store: RunStore, spec: ObjectSpec, records: Sequence[RunRecord], problems: StoredProblems
) -> TabularMDP | None:
    """Build the problem again where a policy of its runs fits."""
    policy = next((record.policy for record in records if record.policy is not None), None)
    if policy is None:
        return None
    actions = store.array(policy)
    if actions.ndim != 1 or actions.dtype.kind != "i":
        return None
    mdp = problems.get(spec, actions.size)
    return mdp if mdp is not None and actions.min() >= 0 and actions.max() < mdp.n_actions else None


def _promise(algorithm: ObjectSpec) -> float | None:
    """Return the parameter rho, which is what an algorithm promises, if it has one that can be judged."""
    rho = algorithm.params.get("rho")
    return float(rho) if isinstance(rho, (int, float)) and 0.0 < rho < 1.0 else None
