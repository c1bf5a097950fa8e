"""What the runs of an audit show: agreement at every level, classes, states, losses, returns and a verdict."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from replicable_rl.audit.agreement import (
    Agreement,
    OutputClass,
    StateAgreement,
    classes_of,
)
from replicable_rl.audit.document import document_of
from replicable_rl.audit.evidence import AuditSpec, Evidence, Repeat, SeveralLogs
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
from replicable_rl.audit.rows import json_of
from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, check_in_open_interval
from replicable_rl.files import write_csv
from replicable_rl.logs import Logs
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
    probe : array, mapping of arrays, or None
        The observations on which functions were compared.
    repeats : tuple of Repeat
        Runs that were made again, in a fresh process, and whether they came out the same; also of other audits.
    """

    spec: AuditSpec
    runs: tuple[Run, ...]
    store: RunStore
    runs_asked: int
    mdp: TabularMDP | None = None
    probe: Any = None
    repeats: tuple[Repeat, ...] = ()

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
    def logs(self) -> Logs | None:
        """The logs; None where samples were drawn."""
        return self.evidence.logs if isinstance(self.evidence, SeveralLogs) else None

    @property
    def labels(self) -> Labels:
        """The names of states and actions, as far as they are known."""
        return self.evidence.labels(self.mdp)

    @property
    def place(self) -> str:
        """Where policies act: in a "state", or on an "observation" of a probe set, which a store does not keep."""
        in_spec = self.evidence.drawn_by == OWN and "probe" in self.algorithm.params
        return "observation" if in_spec or self.probe is not None else "state"

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
        """Return pairwise agreement, intervals and shares at a level; None: the policy, or the last level there is.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=20)
        >>> print(result.agreement("policy"))
        same policy in 20 of 20 pairs: agreement 1.000 (0.796–1.000)
        """
        return self.agreements[self._check_level(level)]

    def meets(self, required: float, level: str | None = None) -> bool | None:
        """Whether the agreement is at least ``required``: None where the runs cannot tell.

        It goes by the interval that holds at every look, so an audit may be extended until it tells; and where
        nothing was sampled, no agreement is shown. Logs of different processes show nothing either way, and nor does
        code to which the same seeds give other results: the interval needs runs that depend on their seeds alone.
        """
        required = check_in_open_interval("meets", "required", required)
        agreement = self.agreement(level).every_look
        if self.evidence.differ or self.unrepeated:
            return None
        if agreement.low >= required:
            return None if self.unsampled else True
        return False if agreement.high < required else None

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
        if required is None or level not in self.levels:
            return False if self.refuted else None
        return self.judged(required, level)

    def required(self, level: str) -> float | None:
        """Return the agreement that is asked for at a level, or else promised; None where there is neither."""
        if self.spec.require is not None and level == self.level:
            return self.spec.require
        return None if self.rho is None else min(1.0 - self.rho, float(np.nextafter(1.0, 0.0)))

    def judged(self, required: float, level: str | None = None) -> bool | None:
        """Whether the agreement is at least ``required`` (:meth:`meets`), no loss is too large and no claim refuted."""
        if self.refuted:
            return False
        losses = self.accuracy.met if self.accuracy is not None else None if self.loss_not_judged else True
        both = self.meets(required, level), losses
        return False if False in both else None if None in both else True

    @property
    def loss_not_judged(self) -> bool:
        """Whether a loss was asked about that is not known here, such as in a store without the table."""
        return self.evidence.promised is not None and self.accuracy is None

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
        return (*filter(None, [self.unrepeated]), *self.refuted, *filter(None, [self.asks_for_nothing]), *doubts(self))

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

    def sample_text(self, run: Run) -> str:
        """Name the sample of a run, such as "sample_seed=7"."""
        return ", ".join(f"{name}={value}" for name, value in self.evidence.sample_of(run).items())

    def claim(self, level: str | None = None) -> Claim:
        """Return what was measured about a second run, as a claim.

        Its interval is the one that holds at every look.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=20)
        >>> print(result.claim("policy"))
        measured (audit): two runs have the same policy in 20 of 20 pairs, agreement 1.000 (0.796–1.000).
        """
        agreement = self.agreement(level)
        pairs, caveat = f"{agreement.same} of {agreement.pairs} pairs", self.unrepeated or self.unsampled
        text = f"two runs have the same {agreement.level} in {pairs}, agreement {agreement.every_look}"
        text += f" ({caveat.rstrip('.')})" if caveat else ""
        bound, conditions = 1.0 - agreement.every_look.low, self.evidence.conditions
        claim = LibraryClaim("replicability", "measured", text, bound, "audit", 0.0, agreement.level, conditions)
        return Claims((claim,)).told(estimated=self._estimated).made[0]

    @property
    def _estimated(self) -> bool:
        """Whether the problem was itself estimated from data."""
        by_job = self.spec.job is not None and self.spec.job.estimated
        by_table = self.mdp is not None and self.mdp.trust.estimated
        return by_job or by_table or self.problem.params.get("estimated") is True

    def classes(self, level: str | None = None) -> tuple[OutputClass, ...]:
        """Return the classes of identical outputs over all shared seeds, largest first."""
        key = "classes", self._check_level(level)
        if key not in self._cache:
            self._cache[key] = classes_of(self.prints(key[1]), self.spec.runs_per_seed)
        classes: tuple[OutputClass, ...] = self._cache[key]
        return classes

    @cached_property
    def states(self) -> StateAgreement:
        """Agreement of the action in every state (or observation of the probe set)."""
        R, confidence, policies = self.spec.runs_per_seed, self.spec.confidence, self.outputs("policy")
        if len({policy.shape for policy in policies.values()}) > 1:
            raise InvalidInput("audit: the runs returned policies of several shapes, so states cannot be compared.")
        return self.evidence.measure_states(policies, self.prints("policy"), R, confidence)

    def actions(self, state: int) -> dict[Any, int]:
        """Return which actions the runs take in a state, and how many runs take each.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.001), shared_seeds=20)
        >>> sum(result.actions(0).values())
        40
        """
        runs: Counter[Any] = Counter()
        for same in self.classes("policy"):
            action = self.outputs("policy")[same.fingerprint][state]
            runs[tuple(action.tolist()) if action.ndim else action.item()] += same.runs
        return dict(sorted(runs.items(), key=lambda pair: (-pair[1], pair[0])))

    @cached_property
    def policies(self) -> tuple[PolicyValue, ...] | None:
        """Return and loss of every distinct policy, most common first; None where the model is not known."""
        if self.mdp is None or "policy" not in self.levels:
            return None
        return policy_values(self.mdp, self.classes("policy"), self.outputs("policy"), self.span)

    @property
    def span(self) -> float:
        """How far values of the problem can be apart: what losses are divided by."""
        low, high = (0.0, 0.0) if self.mdp is None else self.mdp.reward_range
        return (high - low) / (1.0 - (0.0 if self.mdp is None else self.mdp.gamma)) or 1.0

    @property
    def samples(self) -> int | None:
        """Samples drawn by all runs together; None where the training code does not report them."""
        drawn = [run.samples for run in self.runs if run.error is None]
        return None if not drawn or None in drawn else sum(n for n in drawn if n is not None)

    @property
    def seconds(self) -> float:
        """Time of all runs together, where they ran; the one number that a repetition changes."""
        return sum(run.seconds for run in self.runs)

    # --- out of here -----------------------------------------------------------------------------

    def document(self) -> list[Block]:
        """Return the agreement, the verdict, the states that differ, and advice; what few readers need is a detail."""
        return document_of(self)

    def __repr__(self) -> str:
        size = f"{plural(self.spec.n_seeds, 'shared seed')} × {plural(self.spec.runs_per_seed, self.evidence.noun)}"
        levels = [f"same {level} {agreement.every_look}" for level, agreement in self.agreements.items()]
        nothing = "every run failed" if self.runs else "no run has finished"
        subject = brief(f"{self.problem.text}, {self.algorithm.text}", 200)
        return described(self, f"{subject}: {size}; {', '.join(levels) or nothing}")

    def to_json(self, *, timing: bool = False) -> dict[str, Json]:
        """Return everything found as JSON; the time, which no repetition repeats, only when asked for."""
        return json_of(self, timing=timing)

    def rows(self, *, timing: bool = False) -> list[dict[str, Json]]:
        """Return one row for every run: seeds, fingerprints, samples, status, return and loss.

        ``return`` and ``loss`` are exact, where the problem is known; ``measured_return`` and the ends of its interval
        are what ``evaluate`` saw.
        """
        values = {policy.fingerprint: policy for policy in self.policies or ()}
        rows = []
        for i, run in enumerate(self.runs):
            row: dict[str, Json] = {"shared_seed": run.shared_seed, **self.evidence.sample_of(run)}
            row |= {level: run.fingerprints.get(level) for level in self.levels}
            row |= {"samples": run.samples, "status": None if run.status is None else run.status.code.value}
            if values:
                policy = values.get(run.fingerprints.get("policy", ""))
                row |= {"return": policy and policy.expected_return, "loss": policy and policy.loss}
            if self.returns is not None:
                mean = self.returns.per_run[i]
                low, high = (None, None) if mean is None or not np.isfinite(mean.low) else (mean.low, mean.high)
                row |= {"measured_return": mean and mean.estimate, "measured_low": low, "measured_high": high}
            row |= {"error": run.error, "run": run.key}
            rows.append(row | {"seconds": run.seconds} if timing else row)
        return rows

    def to_csv(self, path: str | os.PathLike[str], *, timing: bool = False) -> None:
        """Write :meth:`rows` to a file, whole or not at all."""
        write_csv(path, self.rows(timing=timing))

    # --- inside ----------------------------------------------------------------------------------

    @cached_property
    def _cache(self) -> dict[tuple[str, str], Any]:  # of very many runs it takes long to compute it again
        return {}

    def outputs(self, level: str | None = None) -> dict[str, Any]:
        """Return every distinct output at a level by its fingerprint."""
        key = "outputs", self._check_level(level)
        if key not in self._cache:
            self._cache[key] = self.store.outputs(key[1], [same.fingerprint for same in self.classes(level)])
        outputs: dict[str, Any] = self._cache[key]
        return outputs

    def prints(self, level: str | None = None) -> list[str | None]:
        """Return the fingerprint of every run at a level; None where it failed."""
        key = "prints", self._check_level(level)
        if key not in self._cache:
            self._cache[key] = [run.fingerprints.get(key[1]) for run in self.runs]
        prints: list[str | None] = self._cache[key]
        return prints

    def _check_level(self, level: str | None) -> str:
        level = usual_level(self.levels) if level is None else level
        if isinstance(level, str) and level in self.levels:
            return level
        level_of(level)
        has = f"produces {', '.join(self.levels)}" if self.levels else "had no run that did not fail"
        raise InvalidInput(f"audit: there is no {level} to compare; {self.algorithm.id} {has}.")
