r"""Decisions on an empirical model: what is proved of their loss and of how often two runs decide alike, and the n.

From n samples of every pair comes the empirical model, and by exact planning Q^ on it (values in [0, 1]). Let
kappa = gamma where rewards are known and 1 where they are learned, N the number of allowed pairs, h = 1/(1-gamma). Then

    e = kappa h sqrt(ln(2N/delta)/(2n))            |Q^ - Q*| <= e everywhere, except with probability delta
    l = kappa h (sqrt(L) + sqrt(S ln A + L))/sqrt(2n), L = ln(2S/delta)
                                                   the loss of every deterministic policy is at most l above that on
                                                   the model, except with probability delta
    d = kappa sqrt(h (1+gamma)/(2n)) (1 + ...)     root of E (Q^_1 - Q^_2)^2, for one entry and two runs
    m = kappa h sqrt(ln(2N)/n) (1 + ...)           E |Q^_1 - Q^_2|, the largest entry, of two runs
    R = sqrt(2 (S ln 2 + ln(N/delta))/n)           |P^ - P|_1 <= R for every row, except with probability delta
    D = sqrt(2(S-1)/n) + 2 sqrt(ln(N)/n)           E |P^_1 - P^_2|_1 <= D, the largest row, of two runs

where ``...`` vanishes as n grows. A rule turns Q^ and shared numbers into a policy. Shared numbers are independent of
both samples, so that a threshold spread over a length x falls between two numbers with probability (their distance)/x,
and the mean distance counts. Of the A comparisons of a state the last decides nothing: if no other action was taken, it
is. The bounds below follow; ``docs/proofs.md`` has the proofs. f is the smaller of 2 e h and l.

    rule          parameter from the loss eps'             two runs differ with probability at most   loss at most
    greedy        -                                        -                                          f
    rounded       beta = eps'/h                            N d/beta                                   f + beta h
    gumbel        lambda = ln(2(N-S)/delta) h/eps'         S lambda min(sqrt(A) d, m)/2 + N 2^-23     f + eps'
    tolerance     x = eps'/(2h)                            2 (N-S) d/x                                f + 2 x h
    affordable    eps'                                     `affordable_disagreement`                  `estimated_loss`
    published     2 deviations of doubt                    -                                          `estimated_loss`

Of the loss epsilon the rule spends a part, eps', and the error of the samples takes the rest. Without ``samples`` or
``budget`` the part is chosen so that fewest samples are enough; with fewer than these it is 0.9. The paper has no such
theorem: these are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.theory.numbers import MOST, Numbers, check_parameters
from replicable_rl.theory.rstat import few_bits

ROUNDING = 1e-9  # of values and losses in [0, 1]: more than planning and evaluation may be off
EXACT = ROUNDING / 4.0  # what planning and evaluation must be certified to for a claim
GRAIN = 2.0**-23  # of shared noise, whose logarithms have 24 bits: two runs, and what a number's last bit may decide
COARSE = 2.0**-17  # of a difference of two shared Gumbel numbers: what their last bits may add
SOFTENING = 0.05  # of the policy by which states are weighed: (1 + SOFTENING gap/eps')**-POWER
POWER = 4
FLOOR = 1.0 / 16.0  # of a weight's square, beside the share of its state: (FLOOR + S o(s))/(FLOOR + 1)
LIGHTEST = math.sqrt(FLOOR / (1.0 + FLOOR))  # the weight of a state that is never reached
DOUBT = 2.0  # standard deviations by which a lab's data must speak against published cuts
LEAST = 0.8  # of the loss that may be spent: where the window of the threshold begins
SPENT = 0.9  # of epsilon, by the rule, where the sample size is given
_PARTS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)  # of epsilon that a rule may spend, to choose from
_MOST_LOG = math.log2(MOST)
_OWNER = "theory.plug_in_policy"
GREEDY, ROUNDED, GUMBEL, TOLERANCE = "greedy", "rounded", "gumbel", "tolerance"
AFFORDABLE, PUBLISHED = "affordable", "published"
PROVED = (AFFORDABLE, PUBLISHED, TOLERANCE, ROUNDED, GUMBEL, GREEDY)  # the ids of the rules that the proofs know


@dataclass(frozen=True)
class Sizes:
    """What the bounds know of a problem."""

    n_states: int
    n_actions: int
    gamma: float
    known_rewards: bool
    weighed: bool = True  # by the affordable rule, whose losses are those from the first state on
    allowed_pairs: int | None = None  # where some actions are not allowed everywhere

    @property
    def pairs(self) -> int:
        """N, the number of pairs."""
        return self.n_states * self.n_actions if self.allowed_pairs is None else self.allowed_pairs

    @property
    def comparisons(self) -> int:
        """N - S: the comparisons that decide something."""
        return self.pairs - self.n_states

    @property
    def kappa(self) -> float:
        """By how much a mean of values, with its reward, is damped."""
        return self.gamma if self.known_rewards else 1.0

    @property
    def horizon(self) -> float:
        """1/(1 - gamma)."""
        return 1.0 / (1.0 - self.gamma)

    @property
    def lightest(self) -> float:
        """What a policy that accepts weighted gaps up to r loses at most is r h/lightest; 1 where nothing is weighed.

        No state weighs less than LIGHTEST, and the first one, whose share is at least 1 - gamma, more than that.
        """
        if not self.weighed:
            return 1.0
        initial = min(1.0 / LIGHTEST, math.sqrt((1.0 + FLOOR) * self.horizon))
        return 1.0 / ((1.0 - self.gamma) * initial + self.gamma / LIGHTEST)

    def value_error(self, n: float, delta: float) -> float:
        """Return e."""
        off = self.kappa * self.horizon * math.sqrt(math.log(2.0 * self.pairs / delta) / (2.0 * n))
        return min(1.0, off + ROUNDING)

    def policy_error(self, n: float, delta: float) -> float:
        """Return l."""
        log_term = math.log(2.0 * self.n_states / delta)
        policies = math.sqrt(log_term) + math.sqrt(self.n_states * math.log(self.n_actions) + log_term)
        return min(1.0, self.kappa * self.horizon * policies / math.sqrt(2.0 * n))

    def any_policy(self, n: float, delta: float) -> float:
        """Return what |V^ - V| of no deterministic policy exceeds in a state, except with probability delta."""
        policies = self.n_states * math.log(self.n_actions) + math.log(2.0 * self.n_states / delta)
        return min(1.0, self.kappa * self.horizon * math.sqrt(policies / (2.0 * n)))

    def loss_deviation(self, n: float) -> float:
        """Return what the estimated standard deviation of an estimated loss never exceeds."""
        return self.kappa * self.horizon / math.sqrt(2.0 * n)

    def value_distance(self, n: float) -> float:
        """Return d."""
        log_term, rate = math.log(2.0 * self.pairs), math.sqrt(math.log(2.0 * self.pairs) / (2.0 * n))
        steps = self.gamma * self.horizon
        moved = 8.0 * steps * rate + 4.0 * steps / n + 2.0 * rate + (log_term + 1.0) / (2.0 * n)  # the model itself
        variance = min(1.0, (1.0 + self.gamma) / (4.0 * self.horizon) + moved)
        return min(1.0, self.kappa * self.horizon * math.sqrt(2.0 * variance / n) + ROUNDING)

    def worst_distance(self, n: float) -> float:
        """Return m."""
        log_term, pairs = math.log(2.0 * self.pairs), math.log(self.pairs)
        rows = math.sqrt((self.n_states - 1.0) / n) + math.sqrt(2.0 * (pairs + 1.0) / n)
        joint = 2.0 * self.gamma * self.horizon * math.sqrt((log_term + 1.0) / (2.0 * n)) * rows
        off = min(math.sqrt(2.0 * log_term / n), math.sqrt(log_term / n) + (joint if self.n_states > 1 else 0.0))
        return min(1.0, self.kappa * self.horizon * off + ROUNDING)

    def row_error(self, n: float, delta: float) -> float:
        """Return R."""
        if self.n_states == 1:
            return 0.0
        return min(2.0, math.sqrt(2.0 * (self.n_states * math.log(2.0) + math.log(self.pairs / delta)) / n))

    def row_distance(self, n: float) -> float:
        """Return D."""
        if self.n_states == 1:
            return 0.0
        return min(2.0, math.sqrt(2.0 * (self.n_states - 1.0) / n) + 2.0 * math.sqrt(math.log(self.pairs) / n))

    def sampling_loss(self, n: float, delta: float) -> float:
        """Return f: by how much a policy loses more than what it gives away on the model, at most."""
        steps = 2.0 * self.value_error(n, delta) * self.horizon
        return min(steps, self.policy_error(n, delta) + 2.0 * ROUNDING * self.horizon)

    def gumbel_log(self, delta: float) -> float:
        """Return lambda times the gap that no state gives away, except with probability delta/2."""
        return math.log(max(self.comparisons, 1) / (delta / 2.0)) + COARSE


def estimated_loss(sizes: Sizes, n: float, spent: float, delta: float) -> float:
    """Bound the loss of a policy whose loss on the empirical model is at most ``spent``, whatever the policy."""
    rows = sizes.gamma * sizes.horizon * sizes.row_error(n, delta / 2.0) / 2.0
    steps = sizes.horizon * (2.0 * sizes.value_error(n, delta / 2.0) + rows)
    return spent + ROUNDING + min(steps, sizes.policy_error(n, delta))


def tolerances(sizes: Sizes, spent: float) -> list[float]:
    """Return the tolerances 1, 1/2, 1/4, ... that the affordable rule may try: the last is always affordable."""
    last = math.ceil(math.log2(2.0 * sizes.horizon / (sizes.lightest * LEAST * spent)))
    return [2.0**-j for j in range(max(last, 0) + 1)]


def affordable_disagreement(sizes: Sizes, n: float, spent: float) -> float:
    """Bound the probability that two runs of the affordable rule differ.

    A decision differs at some tolerance, by the values or by the weights of the states, or at some tolerance the
    estimated losses of one policy lie on two sides of a threshold that is spread over eps'/5.
    """
    if not sizes.comparisons:
        return 0.0
    worst, rows, tried = sizes.worst_distance(n), sizes.row_distance(n), tolerances(sizes, spent)
    discount = sizes.gamma * sizes.horizon
    shares = discount * (POWER * SOFTENING / spent * worst + rows) if sizes.weighed else 0.0  # o_1 - o_2, in l1
    # All weight may lie on the few states that have a choice: their squares sum to S, with masks too.
    compared = sizes.n_states * (sizes.n_actions - 1) if sizes.weighed else sizes.comparisons
    gaps = math.sqrt(compared * sizes.comparisons) * 2.0 * sizes.value_distance(n)
    decisions = gaps / tried[-1] + compared * shares / FLOOR
    any_policy = worst + 2.0 * sizes.any_policy(n, 1.0)  # with delta = 1 it is the mean
    lightest, losses = LIGHTEST if sizes.weighed else 1.0, 0.0
    for x in tried:
        largest_gap = min(1.0, 2.0 * x / lightest)
        by_gaps = sizes.horizon * (2.0 * worst + largest_gap / 2.0 * discount * rows)
        losses += min(by_gaps, any_policy) + 2.0 * ROUNDING
    return decisions + losses / ((1.0 - LEAST) * spent)


def usual_parameter(rule: str, sizes: Sizes, spent: float, delta: float) -> float:
    """Return the parameter with which a rule spends eps', in few bits; 0 for rules without."""
    width, doubt = spent / sizes.horizon, DOUBT if rule == PUBLISHED else 0.0
    if rule == GUMBEL:
        return float(few_bits(max(1.0, sizes.gumbel_log(delta)) * sizes.horizon / spent))
    return float(few_bits({ROUNDED: width, TOLERANCE: width / 2.0}.get(rule, doubt)))


def disagreement_bound(rule: str, sizes: Sizes, n: float, parameter: float, spent: float) -> float:
    """Bound the probability that two runs differ; infinite where nothing is proved."""
    if rule == AFFORDABLE:
        return affordable_disagreement(sizes, n, spent)
    if rule == ROUNDED:
        return sizes.pairs * sizes.value_distance(n) / parameter
    if rule == TOLERANCE:
        return 2.0 * sizes.comparisons * sizes.value_distance(n) / parameter
    if rule != GUMBEL:
        return math.inf
    if not sizes.comparisons:
        return 0.0
    distance = min(math.sqrt(sizes.n_actions) * sizes.value_distance(n), sizes.worst_distance(n))
    return sizes.n_states * parameter * distance / 2.0 + sizes.pairs * GRAIN


def loss_bound(rule: str, sizes: Sizes, n: float, parameter: float, spent: float, delta: float) -> float:
    """Bound the loss of the policy, except with probability delta."""
    if rule == AFFORDABLE:
        return estimated_loss(sizes, n, spent, delta)
    if rule == PUBLISHED:
        return estimated_loss(sizes, n, spent + parameter * sizes.loss_deviation(n), delta)
    if rule == GUMBEL:  # half of delta is for the shared noise
        return sizes.sampling_loss(n, delta / 2.0) + sizes.gumbel_log(delta) / parameter * sizes.horizon
    lost = sizes.sampling_loss(n, delta)
    if rule == ROUNDED:
        return lost + parameter * sizes.horizon
    return lost + 2.0 * parameter * sizes.horizon if rule == TOLERANCE else lost


@dataclass(frozen=True, kw_only=True)
class PlugInNumbers(Numbers):
    """What a run of a plug-in policy takes, and what is proved of it."""

    sizes: Sizes  # what the bounds know of the problem
    rule: str  # its id; of a rule of your own nothing is proved
    per_pair: int  # n
    per_pair_needed: int  # the n that the proof needs
    spent: float  # eps', the loss that the rule may spend
    parameter: float  # of the rule: its width, rate, tolerance or doubt; 0 for rules without
    over: str  # whether losses are those from the "initial" distribution or of the "worst" state
    horizon: int | None = None  # steps of an episode, where the problem is explored in episodes
    budget: int | None = None  # transitions in all, where the problem is explored, or recorded
    recorded: bool = False  # whether the samples are those of a log

    @property
    def samples(self) -> int:
        """Transitions that a run draws, at most."""
        return self.per_pair * self.sizes.pairs if self.budget is None else self.budget

    @property
    def explores(self) -> bool:
        """Whether samples are collected in episodes, or were: pairs then have as many as came."""
        return self.horizon is not None or self.recorded

    @property
    def is_known(self) -> bool:
        """Whether the proofs are about such a run: they know the rule, and every pair has n samples."""
        return self.rule in PROVED and not self.explores

    @cached_property
    def rho_proved(self) -> float | None:  # asked in every run of an audit
        """Bound on the probability that two runs differ; 1 when nothing is proved."""
        if not self.is_known:
            return 1.0
        return min(1.0, disagreement_bound(self.rule, self.sizes, self.per_pair, self.parameter, self.spent))

    @property
    def error_proved(self) -> float:
        """Bound on the loss of the policy that holds with probability 1 - delta; 1 when nothing is proved."""
        if not self.is_known:
            return 1.0
        return min(1.0, loss_bound(self.rule, self.sizes, self.per_pair, self.parameter, self.spent, self.delta))

    def short(self, about: str) -> dict[str, tuple[float, float]]:
        """Return the samples of a pair, where more of them would do."""
        used, needed = float(self.per_pair), float(self.per_pair_needed)
        return {"samples": (used, needed)} if used < needed else {}


def plug_in_policy(
    n_states: int,
    n_actions: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float,
    *,
    rule: str = AFFORDABLE,
    known_rewards: bool = True,
    over: str = "initial",
    samples: int | None = None,
    budget: int | None = None,
    parameter: float | None = None,
    allowed_pairs: int | None = None,
) -> PlugInNumbers:
    """Return the numbers of a plug-in policy: n from (epsilon, delta, rho), or what a given n is proved to give.

    ``rule`` is the id of a rule, and ``parameter`` its own, instead of what epsilon allows. ``known_rewards`` says
    whether the reward is a known function of (s, a), and ``allowed_pairs`` is N where some actions are not allowed in
    every state. All else is as in `PlugInPolicy`.

    Examples
    --------
    >>> numbers = plug_in_policy(8, 4, 0.9, epsilon=0.1, delta=0.001, rho=0.2, rule="rounded")
    >>> f"{numbers.per_pair:.3g}", f"{numbers.samples:.3g}", numbers.replicability_proved
    ('2.15e+09', '6.89e+10', True)
    >>> plug_in_policy(8, 4, 0.9, 0.1, 0.001, 0.2, samples=1000).replicability_proved
    False
    """
    given = check_plug_in(**locals())
    names = "n_states", "n_actions", "gamma", "known_rewards", "allowed_pairs"
    sizes = Sizes(**{name: given[name] for name in names}, weighed=over == "initial")
    epsilon, delta, rho = given["epsilon"], given["delta"], given["rho"]
    samples, budget, parameter = given["samples"], given["budget"], given["parameter"]
    if budget is not None:
        if budget < sizes.pairs:
            raise InvalidInput(
                f"{_OWNER}: budget must allow one sample for each of the {sizes.pairs} pairs, got {budget}. Raise it."
            )
        samples = budget // sizes.pairs
    needed, spent, tuned = samples or 0, SPENT * epsilon, 0.0
    if rule in PROVED:
        needed, part, tuned = _fewest(sizes, rule, epsilon, delta, rho, parameter)
        if samples is None or samples >= needed:
            spent = part
        else:
            spent = 0.0 if rule == GREEDY else spent
            tuned = parameter or usual_parameter(rule, sizes, spent, delta)
    promise: dict[str, Any] = {name: given[name] for name in ("epsilon", "delta", "rho", "known_rewards", "over")}
    sized: dict[str, Any] = {"per_pair": samples or needed, "per_pair_needed": needed}
    return PlugInNumbers(sizes=sizes, rule=rule, **promise, **sized, spent=spent, parameter=tuned)


def check_plug_in(*, rule: str, **parameters: Any) -> dict[str, Any]:
    """Return the parameters of `plug_in_policy`, or those of them that do not depend on a problem, as they count."""
    checked = check_parameters(_OWNER, **parameters)
    if checked["samples"] is not None and checked["budget"] is not None:
        raise InvalidInput(f"{_OWNER}: samples is n of every pair and budget the samples in all. Give one of them.")
    if rule not in PROVED and checked["samples"] is None and checked["budget"] is None:
        raise InvalidInput(f"{_OWNER}: of rule={shown(rule)} nothing is proved, so samples or budget must be given.")
    return checked


@lru_cache(maxsize=256)  # cuts are new in every run of a calibration, and the plan is the same
def _fewest(
    sizes: Sizes, rule: str, epsilon: float, delta: float, rho: float, parameter: float | None
) -> tuple[int, float, float]:
    """Return the fewest samples of a pair that keep both promises, what the rule spends, and its parameter."""
    enough_for: list[tuple[int, float, float]] = []
    second_run = rule not in (GREEDY, PUBLISHED)
    only = {GREEDY: (0.0,), PUBLISHED: (SPENT,)}  # who publishes spends as much, at every size
    for part in only.get(rule, _PARTS):
        spent = part * epsilon
        tuned = parameter or usual_parameter(rule, sizes, spent, delta)

        def enough(log_n: float, spent: float = spent, tuned: float = tuned) -> bool:
            loses = loss_bound(rule, sizes, 2.0**log_n, tuned, spent, delta)
            differ = disagreement_bound(rule, sizes, 2.0**log_n, tuned, spent) if second_run else 0.0
            return loses <= epsilon and differ <= rho

        below, above = 0.0, 4.0
        while above < _MOST_LOG and not enough(above):
            below, above = above, min(2.0 * above, _MOST_LOG)
        if not enough(above):
            continue
        while above - below > 2.0**-10:
            middle = (below + above) / 2.0
            below, above = (below, middle) if enough(middle) else (middle, above)
        enough_for.append((math.ceil(float(few_bits(2.0**above))), spent, tuned))
    spent = SPENT * epsilon
    return min(enough_for, default=(MOST, spent, parameter or usual_parameter(rule, sizes, spent, delta)))
