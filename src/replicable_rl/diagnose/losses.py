"""What a policy loses, exactly, where the problem is a table."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.intervals import mean_at_every_look
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.problem.table import TabularMDP
from replicable_rl.sampling import sums
from replicable_rl.theory import Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.audit import AuditResult

    Floats = NDArray[np.float64]

_TINY = 1e-12  # of a scale: where all policies are equally good


class Losses:
    """The losses of policies on a table, in values normalised to [0, 1]; each distinct policy is evaluated once.

    Parameters
    ----------
    mdp : TabularMDP
        The problem.
    over : {"initial", "worst"}
        Whether the loss is that from the initial distribution, or of the worst state.
    """

    def __init__(self, mdp: TabularMDP, over: str = "initial") -> None:
        self.mdp, self.over, self.units = mdp, over, Units.of(mdp)
        self._best = optimal_values(mdp)
        self._known: dict[str, float] = {}

    @cached_property
    def error(self) -> float:
        """How far off a loss may be: of planning, and of an evaluation that reaches its tolerance."""
        return 2.0 * self.units.share(self._best.error) + 1e-9

    @cached_property
    def largest(self) -> float:
        """The largest loss that any policy can have: that of the policy which is worst everywhere at once."""
        mdp = self.mdp
        rows, pairs = mdp.rows, mdp.n_states * mdp.n_actions
        row = np.repeat(np.arange(pairs), np.diff(rows.indptr))
        mean = sums(row, rows.probability * self.units.reward(rows.reward), pairs)
        missing = np.maximum(1.0 - mdp.gamma - mean, 0.0).reshape(mdp.n_states, mdp.n_actions)
        worst = optimal_values(mdp, rewards=missing)
        top = self.units.share(1.0) * (self._best.value - mdp.reward_range[0] / (1.0 - mdp.gamma))
        return min(1.0, max(self._over(top - (1.0 - worst.value)) + worst.error + self.error, _TINY))

    @cached_property
    def uniform(self) -> float:
        """What the uniform policy loses: the gain of the best policy over it."""
        return self.of(self.mdp.support.uniform())

    def of(self, policy: Any) -> float:
        """Return the loss of a policy: one action for each state, or (S, A) probabilities."""
        lost = self._best.value - evaluate_policy(self.mdp, policy).value
        return max(0.0, self.units.share(1.0) * self._over(lost))

    def of_runs(self, result: AuditResult) -> Floats | None:
        """Return the loss of every run, (J, R), a row for each shared seed; None where runs have no policy."""
        if "policy" not in result.levels:
            return None
        prints = [run.fingerprints.policy for run in result.runs]
        new = [one for one in dict.fromkeys(prints) if one is not None and one not in self._known]
        for fingerprint, policy in result.store.outputs("policy", new).items():
            self._known[fingerprint] = self.of(policy)
        found = [self.largest if one is None else self._known[one] for one in prints]  # a failed run gives nothing
        return np.array(found).reshape(-1, result.spec.runs_per_seed)

    def estimate(self, of_runs: Floats, confidence: float) -> Estimate:
        """Return the mean loss, with an interval that holds at every look.

        The runs of a shared seed are not independent, so each seed counts once, by its mean. Losses lie between 0 and
        the largest there can be, which is known: the interval is in its units.
        """
        scaled = np.clip(of_runs.mean(axis=1) / self.largest, 0.0, 1.0)
        low, high = mean_at_every_look(scaled, confidence)
        mean = float(of_runs.mean())
        low = max(0.0, min(mean, low * self.largest) - self.error)
        return Estimate(mean, low, min(1.0, max(mean, high * self.largest) + self.error))

    def _over(self, lost: Floats) -> float:
        return float(lost.max()) if self.over == "worst" else math.fsum(self.mdp.initial * lost)
