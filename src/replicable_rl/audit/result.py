"""What the runs of an audit show: agreement at every level, classes, states, losses, returns and a verdict."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from replicable_rl.audit.agreement import Agreement, StateAgreement, measure_states
from replicable_rl.audit.document import document_of
from replicable_rl.audit.evidence import AuditSpec, Evidence, Repeat
from replicable_rl.audit.judging import (
    Accuracy,
    PolicyValue,
    Returns,
    doubts,
    empty_promise,
    measure_accuracy,
    measure_returns,
    nothing_fresh,
    policy_values,
    promised_loss,
    refutations,
    unrepeated,
    unsampled,
)
from replicable_rl.canonical import Json, to_json
from replicable_rl.errors import InvalidInput, check_in_open_interval
from replicable_rl.problem.table import Labels, TabularMDP
from replicable_rl.report import Block, Documented
from replicable_rl.runs import OWN, Claim, Claims, LibraryClaim, ObjectSpec, Run, in_order, level_of, usual_level
from replicable_rl.store import RunStore
from replicable_rl.wording import brief, described, plural


@dataclass(frozen=True, eq=False)
class AuditResult(Documented):
    """The runs of an audit, and what they say; immutable.

    Everything but ``seconds`` is the same bits whenever the same audit is made: serially or on many
    workers, in one go or killed and resumed.

    Attributes
    ----------
    spec : AuditSpec
        What was run, and what is asked of it.
    runs : tuple of Run
        All of them, those of one shared seed together.
    store : RunStore
        Where their outputs are.
    runs_asked : int
        How many runs the audit asks for; a store that it was read from may lack some of them.
    mdp : TabularMDP or None
        The problem, where it is known as a table.
    repeats : tuple of Repeat
        Runs that were made again, in a fresh process, and whether they came out the same; also of other audits.
    """

    spec: AuditSpec
    runs: tuple[Run, ...]
    store: RunStore
    runs_asked: int
    mdp: TabularMDP | None = None
    repeats: tuple[Repeat, ...] = ()
    _outputs: dict[str, dict[str, Any]] = field(default_factory=dict, init=False, repr=False)  # by level

    @property
    def problem(self) -> ObjectSpec:
        """The problem."""
        return self.spec.problem

    @property
    def algorithm(self) -> ObjectSpec:
        """The algorithm."""
        return self.spec.algorithm

    @property
    def rho(self) -> float | None:
        """What the algorithm promises, or was asked for."""
        return self.spec.rho

    @property
    def evidence(self) -> Evidence:
        """Where samples come from: fresh ones, logs, or training code."""
        return self.spec.evidence

    @property
    def labels(self) -> Labels:
        """The names of states and actions, as far as they are known."""
        return self.evidence.labels(self.mdp)

    @property
    def place(self) -> str:
        """Where policies act: in a "state", or on an "observation" of a probe set, which a store does not keep."""
        return "observation" if self.evidence.drawn_by == OWN and "probe" in self.algorithm.params else "state"

    @property
    def failures(self) -> tuple[Run, ...]:
        """The runs that failed."""
        return tuple(run for run in self.runs if run.error is not None)

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The levels that the runs have, each before what it implies."""
        return in_order(set().union(*(run.fingerprints for run in self.runs)))

    @property
    def level(self) -> str:
        """The level in question: the one that the spec names, or, of runs without a policy, the last that they have."""
        return usual_level(self.levels) if self.spec.level == "policy" else self.spec.level

    @cached_property
    def agreements(self) -> dict[str, Agreement]:
        """The agreement at every level there is."""
        R, confidence = self.spec.runs_per_seed, self.spec.confidence
        return {level: self.evidence.measure(level, self.prints(level), R, confidence) for level in self.levels}

    def agreement(self, level: str | None = None) -> Agreement:
        """Return pairwise agreement, its interval and shares at a level; None: the policy, or the last level there is.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=20)
        >>> print(result.agreement("policy"))
        same policy in 20 of 20 pairs: agreement 1.000 (0.796–1.000)
        """
        return self.agreements[self._check_level(level)]

    def meets(self, required: float, level: str | None = None) -> bool | None:
        """Whether the agreement is at least ``required``: None where the runs cannot tell.

        The interval holds at every look, so an audit may be extended until it tells. Where
        nothing was sampled, no agreement is shown. Logs of different processes show nothing either way, and nor does
        code to which the same seeds give other results: the interval needs runs that depend on their seeds alone.
        """
        required = check_in_open_interval("meets", "required", required)
        agreement = self.agreement(level)
        if self.evidence.differ or self.unrepeated:
            return None
        if agreement.low >= required:
            return None if self.unsampled else True
        return False if agreement.high < required else None

    def required(self, level: str) -> float | None:
        """Return the agreement that is asked for at a level, or else promised, 1 − ρ; None where there is neither."""
        if self.spec.require is not None and level == self.level:
            return self.spec.require
        return None if self.rho is None else min(1.0 - self.rho, math.nextafter(1.0, 0.0))

    def verdict(self, level: str | None = None) -> bool | None:
        """Whether what was required, or else promised, is shown: agreement, and losses where they are known.

        True, False, or None where the runs cannot tell or nothing is asked. A promise of epsilon counts where the
        problem is known, so that losses are exact: runs that agree and lose more than epsilon do not meet it.

        >>> import replicable_rl as rr
        >>> few = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, iterations=1, calls=10**6)  # learns next to nothing
        >>> result = rr.audit(rr.make("two-goals-v1"), few, shared_seeds=20)
        >>> result.meets(0.7), result.accuracy.kept, result.verdict()
        (True, 0, False)
        """
        level = self.level if level is None else level
        required = self.required(level)
        if self.refuted:
            return False
        if required is None or level not in self.levels:
            return None
        losses = self.accuracy.met if self.accuracy is not None else None if self.evidence.promised else True
        both = self.meets(required, level), losses
        return False if False in both else None if None in both else True

    @cached_property
    def accuracy(self) -> Accuracy | None:
        """How many runs lose at most epsilon; None where none is promised, or the problem is not known."""
        promised = promised_loss(self.spec)
        if promised is None or self.policies is None:
            return None
        worst = promised.over == "worst"
        losses = {
            policy.fingerprint: policy.worst_loss if worst else policy.loss / self.span for policy in self.policies
        }
        by_run = [None if output is None else losses[output] for output in self.prints("policy")]
        return measure_accuracy(promised, by_run, self.spec.runs_per_seed, self.spec.confidence)

    @cached_property
    def refuted(self) -> tuple[str, ...]:
        """A sentence for every claim of the runs that the runs refute, see :mod:`replicable_rl.audit.judging`."""
        return tuple(refutations(self))

    @cached_property
    def asks_for_nothing(self) -> str:
        """That epsilon allows to lose all that the best policy gains; '' where it does not, or nobody knows."""
        return empty_promise(self)

    @cached_property
    def returns(self) -> Returns | None:
        """What the runs of training code earned, where ``evaluate`` measured it; None otherwise."""
        return measure_returns(self.runs, self.spec)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Which claims are refuted or empty, and why the numbers may say nothing: nothing was sampled or learned."""
        return tuple(filter(None, (self.unrepeated, *self.refuted, self.asks_for_nothing, *doubts(self))))

    @cached_property
    def unrepeated(self) -> str:
        """That the same seeds gave other results, or that nobody has looked; '' where they gave the same."""
        return unrepeated(self)

    @cached_property
    def unsampled(self) -> str:
        """That nothing was fresh in any run, so that agreement shows nothing, and why; '' where that is not known."""
        return unsampled(self)

    @property
    def fresh(self) -> str:
        """What was fresh in every run, as far as that is known."""
        why = nothing_fresh(self)
        return f"nothing, for {why}" if why else self.evidence.fresh

    def claim(self, level: str | None = None) -> Claim:
        """Return what was measured about a second run, as a claim.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=20)
        >>> print(result.claim("policy"))
        measured (audit): two runs have the same policy in 20 of 20 pairs, agreement 1.000 (0.796–1.000).
        """
        agreement = self.agreement(level)
        pairs, caveat = f"{agreement.same} of {agreement.pairs} pairs", self.unrepeated or self.unsampled
        text = f"two runs have the same {agreement.level} in {pairs}, agreement {agreement.every_look}"
        text += f" ({caveat.rstrip('.')})" if caveat else ""
        bound, conditions = 1.0 - agreement.low, self.evidence.conditions
        claim = LibraryClaim("replicability", "measured", text, bound, "audit", 0.0, agreement.level, conditions)
        by_job = self.spec.job is not None and self.spec.job.estimated
        by_table = self.mdp is not None and self.mdp.trust.estimated
        estimated = by_job or by_table or self.problem.params.get("estimated") is True
        return Claims((claim,)).told(estimated=estimated).made[0]

    def classes(self, level: str | None = None) -> dict[str, int]:
        """Return the fingerprints of different outputs with the number of their runs, most common first."""
        return self._classes[self._check_level(level)]

    @cached_property
    def _classes(self) -> dict[str, dict[str, int]]:
        runs = {level: Counter(filter(None, self.prints(level))) for level in self.levels}
        return {level: dict(sorted(runs[level].items(), key=lambda pair: (-pair[1], pair[0]))) for level in runs}

    @cached_property
    def states(self) -> StateAgreement:
        """Agreement of the action in every state (or observation of the probe set)."""
        policies = self.outputs("policy")
        if len({policy.shape for policy in policies.values()}) > 1:
            raise InvalidInput("audit: the runs returned policies of several shapes, so states cannot be compared.")
        return measure_states(policies, self.prints("policy"), self.spec.runs_per_seed)

    def actions(self, state: int) -> dict[Any, int]:
        """Return which actions the runs take in a state, and how many runs take each.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.001), shared_seeds=20)
        >>> sum(result.actions(0).values())
        40
        """
        numbers: Counter[Any] = Counter()
        for fingerprint, runs in self.classes("policy").items():
            action = self.outputs("policy")[fingerprint][state]
            numbers[tuple(action.tolist()) if action.ndim else action.item()] += runs
        return dict(sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0])))

    @cached_property
    def policies(self) -> tuple[PolicyValue, ...] | None:
        """Return and loss of every distinct policy, most common first; None where the model is not known."""
        if self.mdp is None or "policy" not in self.levels:
            return None
        return policy_values(self.mdp, self.classes("policy"), self.outputs("policy"), self.span)

    @property
    def span(self) -> float:
        """How far values of the problem can be apart: what losses are divided by."""
        if self.mdp is None:
            return 1.0
        low, high = self.mdp.reward_range
        return (high - low) / (1.0 - self.mdp.gamma) or 1.0

    @property
    def seconds(self) -> float:
        """Time of all runs together, where they ran; the one number that a repetition changes."""
        return sum(run.seconds for run in self.runs)

    def document(self) -> list[Block]:
        """Return the agreement, the verdict, the states that differ, and advice; what few readers need is a detail."""
        return document_of(self)

    def __repr__(self) -> str:
        size = f"{plural(self.spec.n_seeds, 'shared seed')} × {plural(self.spec.runs_per_seed, self.evidence.noun)}"
        levels = [f"same {level} {agreement.every_look}" for level, agreement in self.agreements.items()]
        nothing = "every run failed" if self.runs else "no run has finished"
        subject = brief(f"{self.problem.text}, {self.algorithm.text}", 200)
        return described(self, f"{subject}: {size}; {', '.join(levels) or nothing}")

    def to_json(self) -> dict[str, Json]:
        """Return what the audit found as JSON; seeds are texts, for they may pass 2**53."""
        data: dict[str, Json] = {
            "format": "replicable-rl audit",
            "version": 1,
            **to_json(self.spec),
            "shared_seeds": [str(seed) for seed in self.spec.seeds],
            "runs": {"asked": self.runs_asked, "there": len(self.runs)},
            "level": self.level,
            "verdict": self.verdict(),
            "warnings": list(self.warnings),
            "returns": None if self.returns is None else self.returns.to_json(),
            "accuracy": None if self.accuracy is None else to_json(self.accuracy) | {"met": self.accuracy.met},
            "levels": {level: self._level_json(level) for level in self.levels},
            "failures": [
                {"run": run.key, "shared_seed": str(run.shared_seed), "sample": self.evidence.sample_of(run)}
                | {"error": run.error}
                for run in self.failures
            ],
        }
        if "policy" in self.levels:
            states = self.states.differing.tolist()
            data["states"] = [
                {"state": state, "agreement": float(self.states.per_state[state])}
                | {"actions": [[action, runs] for action, runs in self.actions(state).items()]}
                for state in states
            ]
            data["policies"] = None if self.policies is None else [asdict(policy) for policy in self.policies]
        return data

    def _level_json(self, level: str) -> dict[str, Json]:
        agreement = self.agreement(level)
        names = ("same", "pairs", "modal_share", "unique_share", "independent")
        numbers = {name: vars(agreement)[name] for name in names}
        return {"agreement": agreement.every_look.to_json(), **numbers, "classes": self.classes(level)}

    def outputs(self, level: str | None = None) -> dict[str, Any]:
        """Return every distinct output at a level by its fingerprint."""
        level = self._check_level(level)
        if level not in self._outputs:
            self._outputs[level] = self.store.outputs(level, list(self.classes(level)))
        return self._outputs[level]

    def prints(self, level: str | None = None) -> list[str | None]:
        """Return the fingerprint of every run at a level; None where it failed."""
        level = self._check_level(level)
        return [run.fingerprints.get(level) for run in self.runs]

    def _check_level(self, level: str | None) -> str:
        level = usual_level(self.levels) if level is None else level
        if isinstance(level, str) and level in self.levels:
            return level
        level_of(level)
        has = f"produces {', '.join(self.levels)}" if self.levels else "had no run that did not fail"
        raise InvalidInput(f"audit: there is no {level} to compare; {self.algorithm.id} {has}.")
