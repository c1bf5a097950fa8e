"""Published cuts in an audit: of every pair, the first run publishes cuts and the second follows them on its own data.

What both runs of a pair share is then not a seed that was there before, but what the first of them found out. Each
pair publishes afresh, so that the agreement is that of a lab that publishes and a lab that reads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.audit import Job, audit_spec
from replicable_rl.audit.evidence import AuditSpec, derived_seed
from replicable_rl.problem.table import TabularMDP
from replicable_rl.rules import Cuts, PublishedCuts
from replicable_rl.runs import ObjectSpec, Run, RunSpec, Status, StatusCode
from replicable_rl.solve import publish, solve_as

ID = "published-afresh-v1"
_SHARED = "the cuts that the first run of a pair publishes"


class PublishJob(Job):
    """Make the runs of an audit of published cuts."""

    algorithm: PlugInPolicy

    def __init__(self, problem: Any, algorithm: PlugInPolicy, seed: int) -> None:
        self.problem, self.algorithm = problem, algorithm
        self.seed = seed  # of the audit: it says which run of a pair is the first
        self.mdp = problem if isinstance(problem, TabularMDP) else None
        self._kept: tuple[int, Cuts] | None = None

    def run(self, spec: RunSpec) -> Run:
        """Publish, or follow what the first run of the pair has published."""
        first = derived_seed("sample", self.seed, spec.shared_seed, 0)
        cuts = self._published(first)
        if spec.sample_seed != first:
            return solve_as(spec, self.problem, replace(self.algorithm, rule=PublishedCuts(cuts)))
        status = Status(StatusCode.COMPLETED, "published cuts, and followed them on the data that they were chosen on")
        samples = self.algorithm.plan(self.problem).samples
        return Run.of({"policy": cuts.policy}, status=status, samples=samples).completed(spec)

    def _published(self, first: int) -> Cuts:
        """Return the cuts of a pair; the last are kept, for its two runs are mostly made one after the other."""
        if self._kept is None or self._kept[0] != first:
            self._kept = first, publish(self.problem, self.algorithm, sample_seed=first)
        return self._kept[1]


def published_spec(problem: Any, algorithm: PlugInPolicy, *, in_store: bool, seed: int, **settings: Any) -> AuditSpec:
    """Describe an audit in which every pair publishes cuts afresh; its runs have an identity of their own."""
    usual = audit_spec(problem, algorithm, in_store=in_store, seed=seed, **settings)
    params = {name: value for name, value in usual.algorithm.params.items() if name != "rule"}
    order = algorithm.decider.order
    params |= {"seed": str(seed)} | ({} if order is None else {"order": list(order)})
    job = PublishJob(problem, algorithm, seed)
    return replace(usual, algorithm=ObjectSpec(ID, params), evidence=replace(usual.evidence, shared=_SHARED), job=job)
