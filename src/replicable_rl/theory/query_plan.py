"""What the plans of phased value iteration and of ApproximateMDP have in common: so many queries, so many samples each.

Of Q queries each gets rho_SQ = rho/Q and delta_SQ = delta/Q, by a union bound, and rSTAT's n; see `theory.rstat`.
Whatever runs, two runs differ at most as often as the mean distances of their means, summed over the queries, allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from replicable_rl.errors import InvalidInput
from replicable_rl.paper import cited
from replicable_rl.runs import FIXED_SEED, THIS_SEED, Claim, Claims, LibraryClaim
from replicable_rl.theory.plan import PLAIN, RSTAT, SHARP_FORM, SLACK, Pairs, Plan, claim_if, claims_of
from replicable_rl.theory.rstat import hoeffding_radius, hoeffding_samples, split_tolerance

_MOST_DOUBLINGS = 256  # of calls: more are never asked for


@dataclass(frozen=True, kw_only=True, repr=False)
class QueryPlan(Plan):
    """A plan of so many queries, each about means of ``calls`` samples.

    Attributes
    ----------
    queries, calls : int
        Queries in all, and the samples that a run draws for each: m, or n.
    tolerance, rho_sq, delta_sq, width : float
        Of one query; ``width`` is its beta, and 0 for a baseline, which does not round.
    tolerance_needed, calls_needed, calls_plain : float and int
        What the theorem needs; ``calls_plain`` is what accuracy alone needs.
    estimate : str
        The id of what answers the queries; of others than the theorem's nothing is proved.
    """

    queries: int
    tolerance: float
    tolerance_needed: float
    delta_sq: float
    rho_sq: float | None
    width: float
    calls: int
    calls_needed: int
    calls_plain: int
    estimate: str

    _counts: ClassVar[tuple[str, ...]] = ("calls", "calls_needed", "calls_plain")
    _level: ClassVar[str]  # at which two runs are the same
    _same: ClassVar[str]  # what two runs do

    @property
    def sampling_error(self) -> float:
        """Tau' at ``calls``: all means are this close to the truth, except with probability delta."""
        return hoeffding_radius(self.calls, self.delta_sq)

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs differ; 1 when nothing is proved, None for the baseline."""
        if self.rho is None:
            return None
        if self._outside_the_proof(estimate=(RSTAT,)):
            return 1.0
        return min(1.0, self._disagreement)

    @property
    def _disagreement(self) -> float:
        """Bound on the disagreement by the mean distance of two means, summed over the queries."""
        raise NotImplementedError

    @property
    def accuracy_proved(self) -> bool:
        """Whether the promise about accuracy holds at these parameters."""
        claim, reached, _ = self._accuracy()
        return not self._foreign and reached <= claim.bound * SLACK

    @property
    def _foreign(self) -> list[str]:
        """Why nothing is known of how well the queries are answered."""
        return self._outside_the_proof(estimate=(PLAIN,) if self.rho is None else (RSTAT, PLAIN))

    def _accuracy(self) -> tuple[Claim, float, Pairs]:
        """Return what is promised about accuracy, the bound that holds, and what else may fall short of the theorem."""
        raise NotImplementedError

    def claims(self, good_seed: bool = False) -> Claims:
        """Return what may be claimed of a run, about accuracy and about replicability apart.

        ``good_seed`` says that every mean of the run kept its distance from the edges of its bin, see `seed_claim`.
        """
        return self._here(self._claims_with_seed if good_seed else self._claims)

    @cached_property
    def _claims_with_seed(self) -> Claims:
        return self._claims.and_of_this_seed(self.seed_claim())

    @property
    def seed_log_term(self) -> float:
        """ln(3Q/delta), for what a run says of its shared seed (`theory.rstat.seed_margin`); 0 if it may say nothing.

        Nothing is known of other estimates than rSTAT.
        """
        if self.rho is None or self._outside_the_proof(estimate=(RSTAT,)):
            return 0.0
        return math.log(3.0 * self.queries / self.delta)

    def seed_claim(self) -> Claim:
        """Return what a run may say of its shared seed if every mean keeps its distance from the edges of its bin.

        Then a second run has the same answers, unless the two means of a query are further apart than the margins: for
        every shared seed, this is claimed and wrong with probability at most delta over both samples.
        """
        said = f"a second run with this shared seed would {self._same} (wrong with probability at most {self.delta:g})"
        source = "docs/proofs.md, a good shared seed"
        given: dict[str, Any] = {"level": self._level, "conditions": (FIXED_SEED,), "definition": THIS_SEED}
        return LibraryClaim("replicability", "proved", said, self.delta, source, **given)

    @cached_property
    def _claims(self) -> Claims:
        claim, reached, more = self._accuracy()
        at_least = {**self._calls_that("accuracy_proved"), **more}
        at_most = {"tolerance": (self.tolerance, self.tolerance_needed)}
        accuracy = "; ".join(self._foreign) or claim_if(
            self.accuracy_proved, claim, reached, at_least=at_least, at_most=at_most
        )
        if self.rho is None or self.rho_sq is None or self.rho_proved is None:
            return claims_of(accuracy, None)
        said = f"two runs {self._same}, except with probability {self.rho:g}"
        source = SHARP_FORM + claim.source.removeprefix(SHARP_FORM)
        seed = (FIXED_SEED,)
        claim = LibraryClaim("replicability", "proved", said, self.rho, source, level=self._level, conditions=seed)
        at_least = self._calls_that("replicability_proved")
        same = claim_if(self.replicability_proved, claim, self.rho_proved, at_least=at_least)
        return claims_of(accuracy, "; ".join(self._outside_the_proof(estimate=(RSTAT,))) or same)

    def _calls_that(self, prove: str) -> dict[str, tuple[float, float]]:
        """Return the calls of this plan beside the fewest, or hardly more, that prove a promise; nothing if none do."""
        if getattr(self, prove):
            return {}

        def enough(calls: int) -> bool:
            return bool(getattr(replace(self, calls=calls), prove))

        low, high = 0, 4
        while not enough(2**high):
            low, high = high, 2 * high
            if low >= _MOST_DOUBLINGS:
                return {}
        below, above = 2**low if low else 0, 2**high
        while above - below > max(1, below >> 20):
            middle = (below + above) // 2
            below, above = (below, middle) if enough(middle) else (middle, above)
        return {"calls": (self.calls, above)}


def query_parameters(
    owner: str,
    queries: int,
    tau_needed: float,
    delta: float,
    rho: float | None,
    *,
    calls: int | None,
    tolerance: float | None,
    rho_sq: float | None = None,
) -> dict[str, Any]:
    """Return what one of so many queries takes; what is not None overrides the theorem, and was checked."""
    tau = tau_needed if tolerance is None else tolerance
    delta_sq, width, sampling = delta / queries, 0.0, tau
    if rho is not None:
        rho_sq = rho / queries if rho_sq is None else rho_sq
        width, sampling = split_tolerance(tau, _gap(owner, rho_sq, delta_sq))
    needed = hoeffding_samples(sampling, delta_sq)
    return {
        "delta": delta,
        "rho": rho,
        "queries": queries,
        "tolerance": tau,
        "tolerance_needed": tau_needed,
        "delta_sq": delta_sq,
        "rho_sq": rho_sq,
        "width": width,
        "calls": needed if calls is None else calls,
        "calls_needed": needed,
        "calls_plain": hoeffding_samples(tau, delta_sq),
        "estimate": PLAIN if rho is None else RSTAT,
    }


def _gap(owner: str, rho_sq: float, delta_sq: float) -> float:
    """Return rho_SQ - 2 delta_SQ, which must be positive."""
    if not 2.0 * delta_sq < rho_sq:
        raise InvalidInput(
            f"{owner}: rho_sq must exceed 2*delta/(N*T) = {2.0 * delta_sq:.3g} {cited('(thm:rep-sq)')}, got "
            f"{rho_sq:g}. Raise rho_sq or lower delta."
        )
    return rho_sq - 2.0 * delta_sq
