"""What an audit found: agreement at every level, classes, states, returns, and files."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.agreement import Agreement, measure
from replicable_rl.audit.plan import AuditPlan
from replicable_rl.audit.states import StateAgreement, measure_states
from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, check_in_open_interval, did_you_mean
from replicable_rl.files import replacing, write_csv
from replicable_rl.mdp import TabularMDP, evaluate_policy, optimal_values
from replicable_rl.records import LEVELS, Level, ObjectSpec, RunFamily, RunRecord
from replicable_rl.store import RunStore

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["AuditResult", "OutputClass", "PolicyValue"]


@dataclass(frozen=True)
class OutputClass:
    """Runs with identical outputs: the fingerprint, how many runs, under how many shared seeds."""

    fingerprint: str
    runs: int
    shared_seeds: int


@dataclass(frozen=True)
class PolicyValue:
    """What a distinct policy is worth, exactly, where the model is known.

    ``expected_return`` is from the problem's first states and ``loss`` what it lacks to the best;
    both are known to ``error``. ``worst_loss`` is the largest loss over first states, in values
    normalised to [0, 1], which is what a theorem's epsilon bounds; it is known to ``normalised_error``.
    """

    fingerprint: str
    runs: int
    expected_return: float
    loss: float
    worst_loss: float
    error: float
    normalised_error: float


@dataclass(frozen=True, eq=False)
class AuditResult:
    """The records of an audit, and what they say; immutable.

    Everything but ``seconds`` is the same bits whenever the same audit is made: serially or on many
    workers, in one go or killed and resumed.

    Attributes
    ----------
    problem, algorithm : ObjectSpec
        What was run.
    records : tuple of RunRecord
        One for every run, those of one shared seed together.
    rho : float or None
        What the algorithm promises, or was asked for.
    shared_randomness, fresh_randomness : str
        Which randomness two runs with one shared seed have in common, and which they do not.
    probe : array or None
        The observations on which functions were compared.
    """

    family: RunFamily
    plan: AuditPlan
    records: tuple[RunRecord, ...]
    store: RunStore
    mdp: TabularMDP | None
    rho: float | None
    shared_randomness: str
    fresh_randomness: str
    probe: NDArray[Any] | None = None

    @property
    def problem(self) -> ObjectSpec:
        """The problem."""
        return self.family.problem

    @property
    def algorithm(self) -> ObjectSpec:
        """The algorithm."""
        return self.family.algorithm

    @property
    def failures(self) -> tuple[RunRecord, ...]:
        """The runs that failed."""
        return tuple(record for record in self.records if record.error is not None)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels that the runs produced, of model, value, policy."""
        return tuple(level for level in LEVELS if any(record.fingerprint(level) for record in self.records))

    @cached_property
    def agreements(self) -> dict[Level, Agreement]:
        """The agreement at every level there is."""
        return {
            level: measure(level, self._outputs(level), self.plan.runs_per_seed, self.plan.confidence)
            for level in self.levels
        }

    def agreement(self, level: str = "policy") -> Agreement:
        """Return pairwise agreement, interval and shares at a level.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=20)
        >>> print(result.agreement("policy"))
        same policy in 20 of 20 pairs: agreement 1.000 (0.832–1.000)
        """
        return self.agreements[self._check_level(level)]

    def meets(self, required: float, level: str = "policy") -> bool | None:
        """Whether the agreement is at least ``required``: None where the interval holds both answers."""
        required = check_in_open_interval("meets", "required", required)
        found = self.agreement(level)
        return True if found.low >= required else False if found.high < required else None

    def classes(self, level: str = "policy") -> tuple[OutputClass, ...]:
        """Return the classes of identical outputs over all shared seeds, largest first."""
        outputs = self._outputs(self._check_level(level))
        seeds = defaultdict(set)
        for output, record in zip(outputs, self.records, strict=True):
            seeds[output].add(record.shared_seed)
        sizes = Counter(outputs)
        found = [OutputClass(name, size, len(seeds[name])) for name, size in sizes.items() if name is not None]
        return tuple(sorted(found, key=lambda one: (-one.runs, one.fingerprint)))

    def class_sizes(self, level: str = "policy") -> dict[int, tuple[int, ...]]:
        """Return, for every shared seed, the sizes of its classes, largest first; a failed run is its own class."""
        outputs, R = self._outputs(self._check_level(level)), self.plan.runs_per_seed
        sizes = {}
        for j, seed in enumerate(self.plan.shared_seeds):
            counted = Counter(outputs[j * R : (j + 1) * R])
            failed = counted.pop(None, 0)
            sizes[seed] = tuple(sorted([*counted.values(), *[1] * failed], reverse=True))
        return sizes

    @cached_property
    def states(self) -> StateAgreement:
        """Agreement of the action in every state (or observation of the probe set)."""
        return measure_states(self._policies, self._outputs("policy"), self.plan.runs_per_seed, self.plan.confidence)

    def actions(self, state: int) -> dict[Any, int]:
        """Return which actions the runs take in a state, and how many runs take each.

        >>> import replicable_rl as rr
        >>> result = rr.audit(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.001), shared_seeds=20)
        >>> sum(result.actions(0).values())
        40
        """
        seen: Counter[Any] = Counter()
        for fingerprint, runs in Counter(self._outputs("policy")).items():
            if fingerprint is not None:
                action = self._policies[fingerprint][state]
                seen[tuple(action.tolist()) if action.ndim else action.item()] += runs
        return dict(sorted(seen.items(), key=lambda pair: (-pair[1], pair[0])))

    @cached_property
    def policies(self) -> tuple[PolicyValue, ...] | None:
        """Return and loss of every distinct policy, most common first; None where the model is not known."""
        if self.mdp is None or "policy" not in self.levels:
            return None
        best = optimal_values(self.mdp)
        low, high = self.mdp.reward_range
        span = (high - low) / (1.0 - self.mdp.gamma) or 1.0
        found = []
        for one in self.classes("policy"):
            worth = evaluate_policy(self.mdp, self._policies[one.fingerprint])
            lacking = np.maximum(best.value - worth.value, 0.0)
            loss, worst = float(self.mdp.initial @ lacking), float(lacking.max()) / span
            error = best.error + worth.error
            worth_return = worth.expected_return
            found.append(PolicyValue(one.fingerprint, one.runs, worth_return, loss, worst, error, error / span))
        return tuple(found)

    @property
    def samples(self) -> int | None:
        """Samples drawn by all runs together; None where the training code does not report them."""
        drawn = [record.samples for record in self.records if record.error is None]
        return None if not drawn or None in drawn else sum(n for n in drawn if n is not None)

    @property
    def seconds(self) -> float:
        """Time of all runs together, where they ran; the one number that a repetition changes."""
        return sum(record.seconds for record in self.records)

    # --- out of here -----------------------------------------------------------------------------

    def table(self, level: str = "policy", *, require: float | None = None) -> str:
        """Return what was found as text, 80 columns wide."""
        from replicable_rl.audit.tables import result_table

        return result_table(self, self._check_level(level), require)

    def __str__(self) -> str:
        return self.table() if "policy" in self.levels else f"audit of {self.algorithm.text}: every run failed"

    def to_json(self, *, timing: bool = False) -> dict[str, Json]:
        """Return everything found as JSON; the time, which no repetition repeats, only when asked for."""
        from replicable_rl.audit.tables import result_json

        return result_json(self, timing)

    def rows(self, *, timing: bool = False) -> list[dict[str, Json]]:
        """Return one row for every run: seeds, fingerprints, samples, status, return and loss."""
        worth = {one.fingerprint: one for one in self.policies or ()}
        rows = []
        for record in self.records:
            row: dict[str, Json] = {"shared_seed": record.shared_seed, "sample_seed": record.sample_seed}
            row |= {level: record.fingerprint(level) for level in self.levels}
            row |= {"samples": record.samples, "status": None if record.status is None else record.status.code.value}
            if record.policy in worth:
                row |= {"return": worth[record.policy].expected_return, "loss": worth[record.policy].loss}
            elif worth:
                row |= {"return": None, "loss": None}
            row |= {"error": record.error, "run": record.key}
            rows.append(row | {"seconds": record.seconds} if timing else row)
        return rows

    def to_pandas(self, *, timing: bool = True) -> pd.DataFrame:
        """Return :meth:`rows` as a data frame (needs pandas)."""
        try:
            import pandas as pd
        except ImportError:
            raise InvalidInput("to_pandas: pandas is not installed. Run pip install pandas, or use to_csv.") from None
        frame = pd.DataFrame(self.rows(timing=timing))
        for seed in ("shared_seed", "sample_seed"):
            frame[seed] = frame[seed].astype("uint64")
        return frame

    def to_csv(self, path: str | os.PathLike[str], *, timing: bool = False) -> None:
        """Write :meth:`rows` to a file, whole or not at all."""
        write_csv(path, self.rows(timing=timing))

    def save_json(self, path: str | os.PathLike[str], *, timing: bool = False) -> None:
        """Write :meth:`to_json` to a file, whole or not at all."""
        with replacing(path) as stream:
            stream.write(json.dumps(self.to_json(timing=timing), indent=1, allow_nan=False).encode() + b"\n")

    # --- inside ----------------------------------------------------------------------------------

    def _outputs(self, level: Level) -> list[str | None]:
        return [record.fingerprint(level) for record in self.records]

    @cached_property
    def _policies(self) -> dict[str, NDArray[Any]]:
        return self.store.arrays(one.fingerprint for one in self.classes("policy"))

    def _check_level(self, level: str) -> Level:
        for known in self.levels:
            if known == level:
                return known
        if level in LEVELS:
            has = f"produces {', '.join(self.levels)}" if self.levels else "had no run that did not fail"
            raise InvalidInput(f"audit: there is no {level} to compare; {self.algorithm.id} {has}.")
        raise InvalidInput(
            f"audit: level must be one of {', '.join(LEVELS)}, got {level!r}.{did_you_mean(level, LEVELS)}"
        )
