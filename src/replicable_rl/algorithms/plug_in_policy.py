r"""Plug-in policies: the same decisions from a thousand times fewer samples.

    draw n successors of every pair, once
    P^, r^ = their empirical model;  Q^ = exact planning on it
    policy = rule(Q^, shared numbers)

rPVI makes every number of every iteration the same; people act on the policy alone. Which decisions two runs share is
the rule's business, see :mod:`replicable_rl.rules`. A problem that is played in episodes is explored first, in
any way, for only the last decision must agree.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np

from replicable_rl.algorithms.exploring import Ignored, collect, hardly_reached, left_at_default
from replicable_rl.algorithms.plan import Plan, Promise, Promises, Shape, accurate, replicable, sure_of
from replicable_rl.data.few import taken_all_the_same, taken_for_the_worst, threshold
from replicable_rl.errors import InvalidInput, speaking_as
from replicable_rl.problem.source import Episodic, Generative, Recorded, Source
from replicable_rl.rules import AffordableTolerance, Decision, EmpiricalModel, Margin, Rule, Tuning, as_rule
from replicable_rl.rules.rule import decided_by
from replicable_rl.runs import (
    CERTIFICATE,
    FIXED_SEED,
    THIS_SEED,
    Claims,
    PromisedLoss,
    Run,
    Status,
    StatusCode,
    asks_for_nothing,
)
from replicable_rl.theory import PlugInNumbers, Units, decisions, plug_in_policy
from replicable_rl.theory.decisions import EXACT, PROVED, SPENT, check_plug_in
from replicable_rl.theory.numbers import ACCURACY, MOST, REPLICABILITY
from replicable_rl.wording import number, plural, short_loss

if TYPE_CHECKING:
    from replicable_rl.randomness import SharedRandomness

_AFFORDABLE = AffordableTolerance()
_PROOFS = "docs/proofs-decisions.md"
_PARAMETERS = {decisions.ROUNDED: "beta", decisions.GUMBEL: "lambda", decisions.TOLERANCE: "x"}
_PARAMETERS |= {decisions.PUBLISHED: "doubt"}


class Decided(NamedTuple):
    """What a rule decided, on which model, and which states were ignored."""

    decision: Decision
    model: EmpiricalModel
    ignored: Ignored | None


@dataclass(frozen=True)
class PlugInPolicy(Promise[PlugInNumbers]):
    """The policy of the empirical model, by a rule that makes two runs decide alike: a policy and no Q.

    Parameters
    ----------
    epsilon, delta : float
        The policy loses at most ``epsilon`` (values normalised to [0, 1]), except with probability ``delta``.
    rho : float
        Two runs on fresh samples with one shared seed have different policies with probability at most ``rho``.
    rule : Rule or str
        One of :mod:`replicable_rl.rules`, by object or id.
    samples, budget : int, optional
        Samples of every pair, or in all; both None: what the proof needs. A problem that is played in episodes needs
        a budget of steps.
    over : {"initial", "worst"}
        Whether the loss is that from the initial distribution, or of the worst state.
    horizon : int, optional
        Steps of an episode. Given, the problem is explored in episodes even if every pair could be drawn.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("two-goals-v1"), PlugInPolicy(0.02, 0.01, 0.2, samples=1000)
    >>> one, two = (rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=seed) for seed in (1, 2))
    >>> one.fingerprints.policy == two.fingerprints.policy, one.samples
    (True, 32000)
    >>> list(one.fingerprints)
    ['policy']
    """

    epsilon: float
    delta: float
    rho: float
    _: KW_ONLY
    rule: Rule | str = _AFFORDABLE
    samples: int | None = None
    budget: int | None = None
    over: str = "initial"
    horizon: int | None = None

    id: ClassVar[str] = "plug-in-policy-v1"
    _check = staticmethod(check_plug_in)

    def __post_init__(self) -> None:
        with speaking_as(type(self).__name__):
            object.__setattr__(self, "rule", as_rule(self.rule))
        super().__post_init__()

    @property
    def decider(self) -> Rule:
        """The rule, which may have been given by its id."""
        return cast("Rule", self.rule)

    @property
    def promised_loss(self) -> PromisedLoss:
        """The loss of the policy from the "initial" distribution, or the "worst" state."""
        return PromisedLoss(self.epsilon, self.delta, self.over)

    @property
    def needs(self) -> type:  # type: ignore[override]  # it depends on the horizon
        """What a problem must be: one that is played, where a horizon is given; else any."""
        return Source if self.horizon is None else Episodic

    def plan(self, source: Source) -> Plan[PlugInNumbers]:
        """Return what a run on this source will do, and what may be claimed of it."""
        self.decider.check_problem(source)  # refused before a sample is drawn
        return super().plan(source)

    def _shape(self, source: Source) -> Shape:
        shape = super()._shape(source)
        if self.horizon is None and isinstance(source, Recorded):
            return replace(shape, known_rewards=False, rows=source.counts.steps)
        if self.horizon is None and (isinstance(source, Generative) or not isinstance(source, Episodic)):
            return shape
        return replace(shape, known_rewards=False, played=True)

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"rule": self.decider.id, "parameter": self.decider.parameter}

    def _numbers(self, shape: Shape) -> PlugInNumbers:
        given = self._parameters()
        horizon, budget = given.pop("horizon"), self.budget
        given |= {"known_rewards": shape.known_rewards, "allowed_pairs": shape.pairs}
        given |= {"n_states": shape.n_states, "n_actions": shape.n_actions, "gamma": shape.gamma}
        if shape.rows is None and not shape.played:
            return plug_in_policy(**given)
        if shape.rows is not None:
            if self.samples is not None or budget is not None:
                raise InvalidInput(
                    "PlugInPolicy: the samples of a log are drawn already. Leave out samples and budget; split the "
                    "log to use less."
                )
            budget = shape.rows
        else:
            horizon = horizon or math.ceil(math.log(1.0 / (self.epsilon * (1.0 - shape.gamma))) / (1.0 - shape.gamma))
            self._check_episodes(horizon)
        assert budget is not None
        given["budget"] = max(budget, shape.n_states * shape.n_actions)  # it need not try every pair
        numbers = plug_in_policy(**given)
        kind: dict[str, Any] = {"horizon": horizon, "recorded": shape.rows is not None}
        return replace(numbers, budget=budget, spent=SPENT * self.epsilon, **kind)

    def _check_episodes(self, horizon: int) -> None:
        if self.budget is None:
            raise InvalidInput(
                "PlugInPolicy: a problem that is played in episodes needs a budget of steps, for no proof says how "
                "many. Give budget=... such as 10**6."
            )
        if self.budget < horizon:
            shorter = "give a horizon, the steps of an episode" if self.horizon is None else "lower horizon"
            raise InvalidInput(
                f"PlugInPolicy: budget must allow one episode of {horizon} steps, got {self.budget}. Raise budget or "
                f"{shorter}."
            )

    def _promises(self, shape: Shape, numbers: PlugInNumbers) -> Promises:
        clause = f"the policy is within {numbers.epsilon:g} of optimal {_where(shape, numbers)} (values in [0, 1])"
        # Shared noise is bad with probability delta/2: who chooses the seed may choose a bad one.
        drawn = ("the shared seed was drawn and not chosen",) if numbers.rule == decisions.GUMBEL else ()
        accuracy = accurate(numbers, clause, _PROOFS, "policy", drawn)
        level, same = ("value", "Q") if numbers.rule == decisions.ROUNDED else ("policy", "policy")
        second = replicable(self.rho, f"have the same {same}", _PROOFS, level)
        cuts, wrong, sure = numbers.rule == decisions.PUBLISHED, 2.0 * numbers.delta, None
        if numbers.is_known and wrong < 1.0:
            enough = ("it has as many samples of every pair", *(() if cuts else (FIXED_SEED,)))
            published = ("these cuts", CERTIFICATE) if cuts else ("this shared seed", THIS_SEED)
            sure = sure_of(f"have the same {level}", wrong, f"{_PROOFS}, given the data", level, enough, *published)
        return Promises(accuracy, None if numbers.rule == decisions.GREEDY and not numbers.explores else second, sure)

    def _barred(self, numbers: PlugInNumbers, about: str) -> list[str]:
        if numbers.recorded:
            return ["how many samples a pair has is the log's, and may depend on what was seen"]
        if numbers.explores:
            return ["samples were collected by exploring, so how many there are depends on them"]
        if numbers.rule not in PROVED:
            return [f"rule={numbers.rule} is unknown to the proofs"]
        if numbers.rule == decisions.PUBLISHED and about == REPLICABILITY:
            return ["published cuts come from the first run's sample; see docs/decisions.md"]
        if numbers.per_pair_needed < MOST:
            return []
        name = _PARAMETERS.get(numbers.rule)
        by = f" with {name}={number(numbers.parameter, 3)}" if name else ""
        return [f"no number of samples proves a loss of {numbers.epsilon:g} for rule={numbers.rule}{by}"]

    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r and one batch of fresh samples from ``rng``."""
        plan = self.plan(source)
        model, samples = self.estimate(source, plan, rng)
        decision, model, ignored = self.decide(model, plan, shared)
        outputs = dict(decision.outputs)
        if "value" in outputs:
            outputs["value"] = Units.of(source).value_to_user(outputs["value"])
        status = _status(source, model, plan.numbers, decision, samples, ignored)
        claims = self._claims(plan, model.off, good_seed=decision.sure)
        if source.trust.conditions:  # no table says what can be gained
            claims = claims.beside(model.gain)
            if model.best.value.any() and model.gain <= self.epsilon and plan.numbers.spent > 0.0:
                claims = replace(claims, gain=model.gain)
        return Run.of(outputs, status=status, claims=claims, samples=samples)

    def _claims(self, plan: Plan[PlugInNumbers], off: float, *, good_seed: bool) -> Claims:
        """Return what is claimed of a run whose planning is off by so much, in values normalised to [0, 1]."""
        if off <= EXACT:
            return plan.claims(good_seed=good_seed)
        gamma = plan.numbers.gamma  # so near to 1 that too few digits are left for a proof
        why = f"with gamma={gamma!r} planning is off by up to {off:.1g}, and proofs allow 1e-10: lower gamma"
        return Claims(missing={ACCURACY: why, REPLICABILITY: why})

    def estimate(self, source: Any, plan: Plan[PlugInNumbers], rng: np.random.Generator) -> tuple[EmpiricalModel, int]:
        """Return the empirical model of one batch of fresh samples, and how many they are."""
        numbers = plan.numbers
        if numbers.recorded:
            return EmpiricalModel(source, source.counts), plan.samples
        if numbers.horizon is None:
            self._refuse_beyond_64_bits("samples", numbers.per_pair)
            return EmpiricalModel(source, source.draw(numbers.per_pair, rng)), plan.samples
        self._refuse_beyond_64_bits("budget", plan.samples)
        seen = collect(source, plan.samples, numbers.horizon, rng)
        return EmpiricalModel(source, seen), seen.steps

    def decide(self, model: EmpiricalModel, plan: Plan[PlugInNumbers], shared: SharedRandomness) -> Decided:
        """Return what the rule decides on a model; a pure function of the model and the shared numbers.

        In a log, pairs with fewer samples than a shared random threshold are left out of the model.
        """
        numbers, rule = plan.numbers, self.decider
        if numbers.recorded:  # who published a rule could not know a later seed
            model = model.at_least(fewest_samples(model, None if rule.published else shared))
        tuning, ignored = self.tuning(plan), None
        if numbers.explores and not rule.published:
            ignored = hardly_reached(model, tuning, shared, rule.preferred(model.n_actions))
        if ignored is not None:
            decision = decided_by(rule, model, shared, tuning._replace(ignored=ignored.states))
            left = left_at_default(decision, ignored, model, tuning, shared)
            if left is not None:
                return Decided(left, model, ignored)
        decision = decided_by(rule, model, shared, tuning)
        if not numbers.explores and rule.id in PROVED and _may_be_sure(numbers, model, decision):
            decision = decided_by(rule, model, shared, tuning._replace(margin=Margin.of(model, self.delta)))
        return Decided(decision, model, None)

    def tuning(self, plan: Plan[PlugInNumbers]) -> Tuning:
        """Return what the plan tells the rule."""
        return Tuning(plan.numbers.spent, plan.numbers.parameter, self.over)


def fewest_samples(model: EmpiricalModel, shared: SharedRandomness | None) -> float:
    """Return how many samples a pair of a log needs to count, see :mod:`replicable_rl.data.few`."""
    return threshold(model.visits, shared)


def _may_be_sure(numbers: PlugInNumbers, model: EmpiricalModel, decision: Decision) -> bool:
    """Whether margins are worth looking at: they are at least what the noisiest pair asks for in a second run."""
    log_term, n = math.log(6.0 * numbers.sizes.pairs / numbers.delta), float(numbers.per_pair)

    def may(largest: float) -> bool:
        spread = largest - (0.0 if numbers.known_rewards else (1.0 - numbers.gamma) / 2.0)
        least = min(numbers.sizes.kappa * math.sqrt(log_term / (2.0 * n)), spread * math.sqrt(2.0 * log_term / n))
        return decision.nearest > 2.0 * max(least, 0.0) * numbers.sizes.horizon

    if 2.0 * numbers.delta >= 1.0 or model.off > EXACT:
        return False
    # A few pairs may be noisy enough already; only if not, all are looked at.
    return (
        may(model.spread_of_some()) and _loss_may_be_sure(numbers, model, decision) and may(float(model.spread.max()))
    )


def _loss_may_be_sure(numbers: PlugInNumbers, model: EmpiricalModel, decision: Decision) -> bool:
    """Whether a rule that looks at losses can tell what it accepts from what it does not, whatever the error of Q^."""
    if decision.loss is None:
        return True
    largest = float(model.gap_of(decision.outputs["policy"]).max())
    return Margin.without_values(model, numbers.delta).loss(largest) < numbers.spent


def _status(
    source: Any,
    model: EmpiricalModel,
    numbers: PlugInNumbers,
    decision: Decision,
    samples: int,
    ignored: Ignored | None,
) -> Status:
    """Say what was decided on what data, what the data did not reach, and whether anything was asked."""
    policy = decision.outputs.get("policy")
    said = [f"decided from {number(samples)} samples"]
    said += [decision.said] if decision.said else []
    at_stake = (
        model.gain if source.trust.conditions else model.most_to_lose(numbers.over)
    )  # of a table, audits know the gain
    if not model.best.value.any():
        said.append("no sample had a reward above the lowest that there may be, so that all policies look alike")
    elif at_stake <= numbers.epsilon and numbers.spent > 0.0:
        said.append(f"epsilon={numbers.epsilon:g} {asks_for_nothing(model.gain)} on the empirical model: lower it")
    if model.never_tried.size:
        pairs, named = model.never_tried.tolist(), source.pair_names if isinstance(source, Recorded) else None
        said.append(taken_for_the_worst(pairs, source.support.pairs, model.fewest_counted, named))
        if named is not None and policy is not None:
            taken = np.intersect1d(pairs, np.arange(model.n_states) * model.n_actions + policy)
            said += taken_all_the_same(taken.tolist(), named)
    if ignored is not None and policy is not None:
        many, first = plural(int(ignored.states.sum()), "state"), "the first allowed action"
        first = f"action {ignored.actions[0]}" if source.support.whole else first
        lost = f"{short_loss(model.loss(policy, numbers.over))} on the empirical model"
        said.append(f"{many} hardly ever reached and left at {first}, with which the whole policy loses {lost}")
    return Status(StatusCode.COMPLETED, "; ".join(said))


def _where(shape: Shape, numbers: PlugInNumbers) -> str:
    """Say where the policy loses no more than epsilon."""
    if numbers.over == "initial" and numbers.rule in (decisions.AFFORDABLE, decisions.PUBLISHED):
        return "on average over all states" if shape.anywhere else "from the first state on"
    return "in every state"
