"""What an audit found: agreement at every level, classes, states, returns, and files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.accuracy import Accuracy, measure_accuracy, promised_loss, told_of_nothing
from replicable_rl.audit.agreement import Agreement, measure
from replicable_rl.audit.classes import OutputClass, PolicyValue, actions_of, classes_of, policy_values, sizes_of
from replicable_rl.audit.closeness import Closeness, measure_closeness
from replicable_rl.audit.document import document_of
from replicable_rl.audit.doubts import doubts
from replicable_rl.audit.evidence import AuditSpec, Repeat
from replicable_rl.audit.logs import measure_logs, measure_states_of_logs
from replicable_rl.audit.refuting import refutations
from replicable_rl.audit.returns import Returns, measure_returns
from replicable_rl.audit.rows import frame_of, in_one_line, json_of, measured_claim, rows_of
from replicable_rl.audit.sampled import unrepeated, unsampled
from replicable_rl.audit.states import StateAgreement, measure_states
from replicable_rl.canonical import Json, json_text
from replicable_rl.display import described
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_real
from replicable_rl.files import write_csv, write_text
from replicable_rl.logs import Logs
from replicable_rl.problem.table import Labels, TabularMDP
from replicable_rl.report import Block, Documented
from replicable_rl.runs import OWN, Claim, ObjectSpec, Run, in_order, level_of, usual_level
from replicable_rl.store import RunStore

if TYPE_CHECKING:
    import pandas as pd


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
    def logs(self) -> Logs | None:
        """The logs, and whether they look like one process; None where samples were drawn."""
        return self.spec.logs

    @property
    def labels(self) -> Labels:
        """The names of states and actions, as far as they are known."""
        if self.logs is not None:
            return Labels(self.logs.states, self.logs.actions)
        return Labels() if self.mdp is None else self.mdp.labels

    @property
    def place(self) -> str:
        """Where policies act: in a "state", or on an "observation" of a probe set, which a store does not keep."""
        told = self.spec.sampler == OWN and "probe" in self.algorithm.params
        return "observation" if told or self.probe is not None else "state"

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
        measured = measure if self.logs is None else measure_logs
        return {
            level: measured(level, self._prints[level], self.spec.runs_per_seed, self.spec.confidence)
            for level in self.levels
        }

    def agreement(self, level: str | None = None) -> Agreement:
        """Return pairwise agreement, intervals and shares at a level; None: the policy, or the last level there is.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=20)
        >>> print(result.agreement("policy"))
        same policy in 20 of 20 pairs: agreement 1.000 (0.796–1.000; at one look 0.832–1.000)
        """
        return self.agreements[self._check_level(level)]

    def meets(self, required: float, level: str | None = None) -> bool | None:
        """Whether the agreement is at least ``required``: None where the runs cannot tell.

        It goes by the interval that holds at every look, so an audit may be extended until it tells; and where
        nothing was sampled, no agreement is shown. Logs of different processes show nothing either way, and nor does
        code to which the same seeds give other results: the interval needs runs that depend on their seeds alone.
        """
        required = check_in_open_interval("meets", "required", required)
        found = self.agreement(level).every_look
        if (self.logs is not None and self.logs.differ) or self.unrepeated:
            return None
        if found.low >= required:
            return None if self.unsampled else True
        return False if found.high < required else None

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
        asked = self.spec.require if level == self.level else None
        if asked is None and self.rho is not None:
            asked = min(1.0 - self.rho, float(np.nextafter(1.0, 0.0)))
        if asked is None or level not in self.levels:
            return False if self.refuted else None
        return self.judged(asked, level)

    def judged(self, required: float, level: str | None = None) -> bool | None:
        """Whether the agreement is at least ``required`` (:meth:`meets`), no loss is too large and no claim refuted."""
        if self.refuted:
            return False
        unknown = None if self.loss_not_judged else True
        both = [self.meets(required, level), unknown if self.accuracy is None else self.accuracy.met]
        return False if False in both else None if None in both else True

    @property
    def loss_not_judged(self) -> bool:
        """Whether a loss was asked about that is not known here, such as in a store without the table."""
        return self.spec.training is not None and self.spec.training.epsilon is not None and self.accuracy is None

    @cached_property
    def accuracy(self) -> Accuracy | None:
        """How many runs lose at most epsilon; None where none is promised, or the problem is not known."""
        promised = promised_loss(self.spec)
        if promised is None or self.policies is None or self.logs is not None or self.mdp is None:
            return None
        worst = promised.over == "worst"
        lost = {one.fingerprint: one.worst_loss if worst else one.loss / self.span for one in self.policies}
        losses = [lost.get(one) if one is not None else None for one in self._prints["policy"]]
        return measure_accuracy(promised, losses, self.spec.runs_per_seed, self.spec.confidence)

    @cached_property
    def refuted(self) -> tuple[str, ...]:
        """A sentence for every claim of the runs that the runs refute, see :mod:`replicable_rl.audit.refuting`."""
        return tuple(refutations(self))

    @cached_property
    def asks_for_nothing(self) -> str:
        """That epsilon allows to lose all that the best policy gains; '' where it does not, or nobody knows."""
        return told_of_nothing(self.spec, self.mdp, self.runs)

    @cached_property
    def returns(self) -> Returns | None:
        """What the runs of training code earned, where ``evaluate`` measured it; None otherwise."""
        return measure_returns(self.runs, self.spec.runs_per_seed, self.spec.confidence, self.spec.training)

    @cached_property
    def closeness(self) -> Closeness | None:
        """How far actions are apart, by the tolerance that the audit was given; None where it was given none."""
        asked = self.spec.training
        if asked is None or asked.tolerance is None or "policy" not in self.levels:
            return None
        return self.within(asked.tolerance)

    def within(self, tolerance: float) -> Closeness:
        """Return how often the actions of two runs are no further apart than ``tolerance``, on every observation.

        It says nothing about identity, which :meth:`agreement` does, and suits actions that are numbers of a scale.

        >>> import replicable_rl as rr
        >>> def train(shared_seed, sample_seed):
        ...     gain = 1.0 + np.random.default_rng(sample_seed).normal(0.0, 0.01)
        ...     return lambda observation: gain * observation
        >>> result = rr.audit_callable(train, shared_seeds=20, probe=[-1.0, 0.5, 1.0])
        >>> result.agreement("policy").same, result.within(0.1).close
        (0, 20)
        """
        rule = "a number that is not negative"
        tolerance = check_real("within", "tolerance", tolerance, low=0.0, high=1e300, rule=rule)
        R, confidence = self.spec.runs_per_seed, self.spec.confidence
        return measure_closeness(self.outputs("policy"), self._prints["policy"], R, confidence, tolerance)

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
        return unsampled(self.spec, self.runs)

    def claim(self, level: str | None = None) -> Claim:
        """Return what was measured about a second run, as a claim.

        Its interval is the one that holds at every look.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=20)
        >>> print(result.claim("policy"))
        measured (audit): two runs have the same policy in 20 of 20 pairs, agreement 1.000 (0.796–1.000).
        """
        return measured_claim(self, level)

    def classes(self, level: str | None = None) -> tuple[OutputClass, ...]:
        """Return the classes of identical outputs over all shared seeds, largest first."""
        if (key := ("classes", self._check_level(level))) not in self._known:
            self._known[key] = classes_of(self._prints[key[1]], self.spec.runs_per_seed)
        found: tuple[OutputClass, ...] = self._known[key]
        return found

    def class_sizes(self, level: str | None = None) -> dict[int, tuple[int, ...]]:
        """Return, for every shared seed, the sizes of its classes, largest first; a failed run is its own class."""
        return sizes_of(self._prints[self._check_level(level)], self.spec)

    @cached_property
    def states(self) -> StateAgreement:
        """Agreement of the action in every state (or observation of the probe set)."""
        R, confidence = self.spec.runs_per_seed, self.spec.confidence
        measured = measure_states if self.logs is None else measure_states_of_logs
        return measured(self.outputs("policy"), self._prints["policy"], R, confidence)

    def actions(self, state: int) -> dict[Any, int]:
        """Return which actions the runs take in a state, and how many runs take each.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.001), shared_seeds=20)
        >>> sum(result.actions(0).values())
        40
        """
        return actions_of(self.outputs("policy"), self._prints["policy"], state)

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
        """Return the agreement, the verdict, the states that differ, what to do next, and details."""
        return document_of(self)

    def __repr__(self) -> str:
        return described(self, in_one_line(self))

    def to_json(self, *, timing: bool = False) -> dict[str, Json]:
        """Return everything found as JSON; the time, which no repetition repeats, only when asked for."""
        return json_of(self, timing=timing)

    def rows(self, *, timing: bool = False) -> list[dict[str, Json]]:
        """Return one row for every run: seeds, fingerprints, samples, status, return and loss.

        ``return`` and ``loss`` are exact, where the problem is known; ``measured_return`` and the ends of its interval
        are what ``evaluate`` saw.
        """
        return rows_of(self, timing=timing)

    def to_pandas(self, *, timing: bool = True) -> pd.DataFrame:
        """Return :meth:`rows` as a data frame (needs pandas)."""
        return frame_of(self.rows(timing=timing))

    def to_csv(self, path: str | os.PathLike[str], *, timing: bool = False) -> None:
        """Write :meth:`rows` to a file, whole or not at all."""
        write_csv(path, self.rows(timing=timing))

    def save_json(self, path: str | os.PathLike[str], *, timing: bool = False) -> None:
        """Write :meth:`to_json` to a file, whole or not at all."""
        write_text(path, json_text(self.to_json(timing=timing), indent=1))

    # --- inside ----------------------------------------------------------------------------------

    @cached_property
    def _known(self) -> dict[tuple[str, str], Any]:  # of very many runs it takes long to find it again
        return {}

    def outputs(self, level: str | None = None) -> dict[str, Any]:
        """Return every distinct output at a level by its fingerprint."""
        if (key := ("outputs", self._check_level(level))) not in self._known:
            self._known[key] = self.store.outputs(key[1], [one.fingerprint for one in self.classes(level)])
        found: dict[str, Any] = self._known[key]
        return found

    @cached_property
    def _prints(self) -> dict[str, list[str | None]]:
        return {level: [run.fingerprints.get(level) for run in self.runs] for level in self.levels}

    def _check_level(self, level: str | None) -> str:
        level = usual_level(self.levels) if level is None else level
        if isinstance(level, str) and level in self.levels:
            return level
        level_of(level)
        has = f"produces {', '.join(self.levels)}" if self.levels else "had no run that did not fail"
        raise InvalidInput(f"audit: there is no {level} to compare; {self.algorithm.id} {has}.")
