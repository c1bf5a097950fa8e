r"""Phased value iteration: parameters that make its promises true (Theorem 4.1, ``thm:rpvi``).

Values are normalised to [0, 1]; N = S*A pairs, T iterations, one query per pair and
iteration. If every query is within tau of its mean, then for the paper's listing

    |Q_T - Q*| <= e = gamma tau/(1-gamma) + gamma^T       and the greedy policy loses <= 2e/(1-gamma).

    target    tau                T                                   promise (probability 1-delta)
    value     (1-gamma)  eps/2   ceil(ln(2/((1-gamma)^2 eps))/(1-gamma))   |Q_T - Q*| <= eps/2
    policy    (1-gamma)^2 eps/2  ceil(ln(2/((1-gamma)^3 eps))/(1-gamma))   V* - V^pi  <= eps

The paper states the second promise and proves the first; see ``docs/errata.md``. Its listing has one m and one width
for all iterations. It runs where any of its parameters is given; those that are not are the paper's: a union bound
over the NT queries gives rho_SQ = rho/(NT), delta_SQ = delta/(NT) and

    m = ceil( (1 + gap)^2 / (2 tau^2 gap^2) * ln(2NT/delta) ),   gap = rho_SQ - 2 delta_SQ

Otherwise our own schedule runs, which keeps the same promises with far fewer samples: see `theory.schedule`.

Rewards that are not a known function of (s, a) go into the query, which then estimates
r~ + gamma V~(s') as one mean. Its error is not damped by gamma, so tau is multiplied by
max(gamma, 1/2), which restores both promises.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cached_property
from typing import Any, ClassVar, Literal

from replicable_rl.errors import InvalidInput, check_flag, check_integer, check_real
from replicable_rl.runs import FIXED_SEED, LibraryClaim
from replicable_rl.theory.parameters import check_parameters
from replicable_rl.theory.plan import MAX_CALLS, RSTAT, SHARP_FORM, SLACK, Cell, Pairs, PlanTable
from replicable_rl.theory.query_plan import QueryPlan, query_parameters
from replicable_rl.theory.rstat import few_bits, mean_distance
from replicable_rl.theory.schedule import Schedule, rising_schedule
from replicable_rl.wording import bound as bound_text
from replicable_rl.wording import number

_OWNER = "theory.phased_vi"
Target = Literal["policy", "value"]
_SEVEN_DIGITS = Context(prec=7, rounding=ROUND_CEILING)
_POWER = {"value": 1, "policy": 2}  # of 1 - gamma in tau


@dataclass(frozen=True, kw_only=True, repr=False)
class PhasedVIPlan(QueryPlan):
    """Everything a run of (replicable) phased value iteration needs, and what it may promise.

    Attributes
    ----------
    pairs, iterations, calls : int
        N, T and the calls m per iteration that a run makes, of our schedule in its last iteration, where they are
        most; ``iterations_needed`` is the theorem's T.
    width, tolerance : float
        Of a query, of our schedule in the last iteration.
    rising : bool
        Whether our schedule runs, or the paper's listing.
    calls_needed, calls_plain : int
        m of the listing by its formula, or of our schedule; and Phased Q-learning's, which promises accuracy alone.
    """

    target: Target
    gamma: float
    pairs: int
    iterations: int
    iterations_needed: int
    rising: bool

    _derived: ClassVar[tuple[str, ...]] = ("value_error", "policy_loss")
    _level: ClassVar[str] = "value"
    _same: ClassVar[str] = "have the same Q"

    @cached_property
    def schedule(self) -> Schedule:
        """What a run does in each iteration."""
        if self.rising and self.rho is not None:
            return rising_schedule(
                self.pairs, self.gamma, self.epsilon, self.delta, self.rho, known_rewards=self.known_rewards
            )
        return Schedule.constant(self.iterations, self.calls, self.width)

    @property
    def value_error(self) -> float:
        """Bound on |Q_T - Q*| that holds with probability 1 - delta."""
        if self.rising:  # to few bits, for it is part of the Q that is reported
            return float(few_bits(self.schedule.loss(self.gamma, self.known_rewards) / 2.0))
        step = (self.gamma if self.known_rewards else 1.0) * (self.sampling_error + self.width / 2.0)
        return step / (1.0 - self.gamma) + self.gamma**self.iterations

    @property
    def policy_loss(self) -> float:
        """Bound on V* - V^pi that holds with probability 1 - delta."""
        if self.rising:
            return self.schedule.loss(self.gamma, self.known_rewards)
        return 2.0 * self.value_error / (1.0 - self.gamma)

    @property
    def _disagreement(self) -> float:
        if self.rising:
            return self.schedule.disagreement(self.pairs)
        return self.queries * mean_distance(self.calls) / self.width

    @property
    def samples(self) -> int:
        """Transitions that a run draws; of our schedule at most."""
        return self.pairs * self.schedule.total

    def _accuracy(self) -> tuple[LibraryClaim, float, Pairs]:
        what, bound, reached = "the policy", self.epsilon, self.policy_loss
        if self.target == "value":
            what, bound, reached = "Q", self.epsilon / 2.0, self.value_error
            if self.rising and self.policy_loss <= self.epsilon * SLACK:  # half of it, but for the rounding
                bound = max(bound, float(_SEVEN_DIGITS.create_decimal_from_float(reached)))
        said = f"{what} is within {bound:.7g} of optimal (values in [0, 1]), except with probability {self.delta:g}"
        # Later queries are about what was answered before, by bins of the shared grid.
        seed = () if self.rho is None else (FIXED_SEED,)
        claim = LibraryClaim("accuracy", "proved", said, bound, self._source, self.delta, self.target, seed)
        return claim, reached, {"iterations": (self.iterations, self.iterations_needed)}

    @property
    def _source(self) -> str:
        if self.rho is None:
            return "lem:phasedvi-convergence"
        return f"{SHARP_FORM * self.rising}thm:rpvi"

    def table(self) -> PlanTable:
        """Return Phased Q-learning, or a run of the paper's listing, beside rPVI."""
        meaning = "the policy is within epsilon" if self.target == "policy" else "Q is within epsilon/2"
        heading = f"target {self.target}: {meaning} of optimal (values in [0, 1])"
        run = f"m {'up to ' if self.rising else '= '}{number(self.calls)}"
        return self._table(heading, {name: plan._column for name, plan in self._forms().items()}, run)

    def _forms(self) -> dict[str, PhasedVIPlan]:
        if self.rho is None:
            return {"Phased Q-learning": self}
        promise = self.pairs, self.gamma, self.epsilon, self.delta
        other = self if not self.rising else phased_vi(*promise, target=self.target, known_rewards=self.known_rewards)
        forms = {"Q-learning" if self.rising else "this run": other}
        with contextlib.suppress(InvalidInput):  # our schedule cannot be had where gamma is too near to 1
            ours = self if self.rising else phased_vi(*promise, self.rho, known_rewards=self.known_rewards)
            forms["rPVI"] = ours
        return forms

    @property
    def _column(self) -> dict[str, Cell]:
        return {
            "iterations T": self.iterations,
            "tolerance of a query": self.tolerance,
            "rho_SQ": self.rho_sq,
            "delta_SQ": self.delta_sq,
            "bin width beta": None if self.rho is None else self.width,
            "calls m an iteration": self.calls,
            "first iteration's m": int(self.schedule.calls[0]),
            "samples in all": self.samples,
            "bound: runs differ": bound_text(self.rho_proved),
            "bound: loss": bound_text(self.policy_loss),
            "can be run (m<2**63)": "yes" if self.calls <= MAX_CALLS else "no",
        }


def phased_vi(
    pairs: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float | None = None,
    *,
    target: Target = "policy",
    known_rewards: bool = True,
    calls: int | None = None,
    iterations: int | None = None,
    tolerance: float | None = None,
    rho_sq: float | None = None,
) -> PhasedVIPlan:
    """Return the plan of Theorem 4.1 (``thm:rpvi``), or of Phased Q-learning when ``rho`` is None.

    Each keyword from ``calls`` on overrides what the theorem says of the paper's listing, which then runs and requires
    2*delta < rho; the promises of the plan are recomputed from what is left.

    ``pairs`` is N, S*A or as many as are allowed, and ``known_rewards`` says whether the reward is a known function of
    (s, a), or learned from the samples. All else is as in `ReplicablePhasedVI`.

    Examples
    --------
    >>> plan = phased_vi(pairs=32, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2)
    >>> plan.iterations, f"{plan.samples:.2e}", plan.accuracy_proved and plan.replicability_proved
    (32, '5.08e+13', True)
    >>> phased_vi(32, 0.9, 0.02, 0.001, 0.2, calls=104_000, tolerance=0.02).replicability_proved
    False
    """
    gamma = check_real(_OWNER, "gamma", gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")
    pairs = check_integer(_OWNER, "pairs", pairs, low=1, high=2**62)
    known_rewards = check_flag(_OWNER, "known_rewards", known_rewards)
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "target": target}
    given |= {"calls": calls, "iterations": iterations, "tolerance": tolerance, "rho_sq": rho_sq}
    epsilon, delta, rho, target, calls, iterations, tolerance, rho_sq = check_phased_vi(**given).values()
    promise = {"epsilon": epsilon, "known_rewards": known_rewards, "target": target, "gamma": gamma, "pairs": pairs}
    if rho is not None and all(one is None for one in (calls, iterations, tolerance, rho_sq)):
        parameters = _sharp_parameters(pairs, gamma, epsilon, delta, rho, known_rewards)
        return PhasedVIPlan(**promise, rising=True, **parameters)  # type: ignore[arg-type]  # a mapping has one type
    needed = iterations_needed(gamma, epsilon, target)
    T = needed if iterations is None else iterations
    tau = _theorem_tolerance(gamma, epsilon, target, known_rewards)
    queries = query_parameters(_OWNER, pairs * T, tau, delta, rho, calls=calls, tolerance=tolerance, rho_sq=rho_sq)
    sizes = {"iterations": T, "iterations_needed": needed}
    return PhasedVIPlan(**promise, rising=False, **sizes, **queries)  # type: ignore[arg-type]  # as above


def check_phased_vi(**given: Any) -> dict[str, Any]:
    """Return the parameters of `phased_vi` that no problem has a say in, as they count."""
    found = check_parameters(_OWNER, **given)
    rho, delta, listing = found.get("rho"), found["delta"], ("calls", "iterations", "tolerance", "rho_sq")
    if rho is not None and 2.0 * delta >= rho and any(found[name] is not None for name in listing):
        raise InvalidInput(
            f"{_OWNER}: calls, iterations, tolerance and rho_sq belong to the paper's listing, which needs "
            f"2*delta < rho, got delta={delta:g}, rho={rho:g}. Leave them out, or lower delta below {rho / 2.0:g}."
        )
    return found


def _sharp_parameters(
    pairs: int, gamma: float, epsilon: float, delta: float, rho: float, known_rewards: bool
) -> dict[str, object]:
    """Return what the plan says of the last iteration of the rising schedule."""
    schedule = rising_schedule(pairs, gamma, epsilon, delta, rho, known_rewards=known_rewards)
    T, calls, width = schedule.iterations, int(schedule.calls[-1]), float(schedule.widths[-1])
    tau, reach = float(schedule.lowered[-1]), float(schedule.reach[-1])
    return {
        "delta": delta,
        "rho": rho,
        "queries": pairs * T,
        "iterations": T,
        "iterations_needed": T,
        "tolerance": tau,
        "tolerance_needed": tau,
        "delta_sq": delta / (pairs * T),
        "rho_sq": reach * mean_distance(calls) / width,
        "width": width,
        "calls": calls,
        "calls_needed": calls,
        "calls_plain": phased_vi(pairs, gamma, epsilon, delta, known_rewards=known_rewards).calls,
        "estimate": RSTAT,
    }


def iterations_needed(gamma: float, epsilon: float, target: Target) -> int:
    """Return T of the table above; at least 1."""
    horizon = 1.0 - gamma
    return max(1, math.ceil(math.log(2.0 / (horizon ** (_POWER[target] + 1) * epsilon)) / horizon))


def _theorem_tolerance(gamma: float, epsilon: float, target: Target, known_rewards: bool) -> float:
    tau = (1.0 - gamma) ** _POWER[target] * epsilon / 2.0
    return tau if known_rewards else max(gamma, 0.5) * tau
