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
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.algorithms.exploring import collect
from replicable_rl.algorithms.ignoring import Ignored, hardly_reached, left_at_default
from replicable_rl.algorithms.promise import Promise, allowed_pairs
from replicable_rl.data.few import taken_all_the_same, taken_for_the_worst, threshold
from replicable_rl.errors import InvalidInput, speaking_as
from replicable_rl.problem.conditions import conditions
from replicable_rl.problem.foreign import draw_from
from replicable_rl.problem.source import EpisodicModel, kind_of
from replicable_rl.problem.support import allowed_of, pairs_of
from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.rules.rule import Decision, Margin, Rule, Tuning, preferred_first
from replicable_rl.rules.table import SHIPPED, as_rule, decided_by
from replicable_rl.runs import EMPTY, Run, Status, StatusCode
from replicable_rl.theory import PlugInPlan, Units, plug_in_policy
from replicable_rl.theory.decisions import EXACT
from replicable_rl.theory.plug_in import SPENT, check_plug_in
from replicable_rl.wording import number, plural, short_loss

if TYPE_CHECKING:
    from replicable_rl.problem.source import Problem
    from replicable_rl.randomness import SharedRandomness

_SETTINGS = ("width", "rate", "tolerance", "doubt")  # the parameter of a rule, by whatever name
_AFFORDABLE = AffordableTolerance()


class Decided(NamedTuple):
    """What a rule decided, on which model, and which states were ignored."""

    decision: Decision
    model: EmpiricalModel
    ignored: Ignored | None


@dataclass(frozen=True)
class PlugInPolicy(Promise[PlugInPlan]):
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
    def loss_over(self) -> str | None:
        """What epsilon bounds: the loss of the policy from the "initial" distribution or the "worst" state."""
        return self.over

    @property
    def needs(self) -> type | None:  # type: ignore[override]  # it depends on the horizon
        """What a problem must be able to do: play, where a horizon is given; else either will do."""
        return None if self.horizon is None else EpisodicModel

    def plan(self, problem: Problem) -> PlugInPlan:
        """Return what a run on this problem will do, and what may be claimed of it."""
        fits = getattr(self.rule, "check_problem", None)
        if fits is not None:
            fits(problem)  # refused before a sample is drawn
        kind = "played" if self.horizon is not None else kind_of(problem)
        plan = {"played": self._exploring, "recorded": self._recorded, "drawn": super().plan}[kind]
        return plan(problem)

    def _plan(
        self, n_states: int, n_actions: int, *, gamma: float, known_rewards: bool, pairs: int | None = None
    ) -> PlugInPlan:
        given = self._parameters() | {"known_rewards": known_rewards, "allowed_pairs": pairs}
        del given["horizon"]
        return plug_in_policy(n_states, n_actions, gamma, **given)

    def _parameters(self) -> dict[str, Any]:
        rule: Any = self.rule
        setting = next((value for name in _SETTINGS if (value := getattr(rule, name, None)) is not None), None)
        return super()._parameters() | {"rule": rule.id, "parameter": setting}

    def _exploring(self, problem: Problem) -> PlugInPlan:
        horizon = self.horizon or math.ceil(
            math.log(1.0 / (self.epsilon * (1.0 - problem.gamma))) / (1.0 - problem.gamma)
        )
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
        sizes = problem.n_states, problem.n_actions
        enough = replace(self, budget=max(self.budget, sizes[0] * sizes[1]))  # it need not try every pair
        plan = enough._plan(*sizes, gamma=problem.gamma, known_rewards=False, pairs=allowed_pairs(problem))
        spent = SPENT * self.epsilon
        return replace(plan, horizon=horizon, budget=self.budget, spent=spent, estimated=problem.estimated)

    def _recorded(self, problem: Any) -> PlugInPlan:
        if self.samples is not None or self.budget is not None:
            raise InvalidInput(
                "PlugInPolicy: the samples of a log are drawn already. Leave out samples and budget; split the log to "
                "use less."
            )
        rows = problem.counts.steps
        sizes, pairs = (problem.n_states, problem.n_actions), allowed_pairs(problem)
        plan = replace(self, budget=max(rows, sizes[0] * sizes[1]))._plan(
            *sizes, gamma=problem.gamma, known_rewards=False, pairs=pairs
        )
        return replace(plan, budget=rows, spent=SPENT * self.epsilon, recorded=True)

    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r and one batch of fresh samples from ``rng``."""
        plan = self.plan(source)
        model, samples = self.estimate(source, plan, rng)
        decision, model, ignored = self.decide(model, plan, shared)
        outputs = dict(decision.outputs)
        if "value" in outputs:
            outputs["value"] = Units.of(source).value_to_user(outputs["value"])
        status = _status(source, model, plan, decision, samples, ignored)
        claims = plan.claims(sure=decision.sure, off=model.off)
        if plan.conditions and claims.accuracy is not None:  # of other sources no table is known
            claims = claims.beside(model.gain)
        return Run.of(outputs, status=status, claims=claims, samples=samples)

    def estimate(self, source: Any, plan: PlugInPlan, rng: np.random.Generator) -> tuple[EmpiricalModel, int]:
        """Return the empirical model of one batch of fresh samples, and how many they are."""
        if plan.recorded:
            return EmpiricalModel(source, source.counts), plan.samples
        if plan.horizon is None:
            self._refuse_beyond_64_bits("samples", plan.per_pair)
            return EmpiricalModel(source, draw_from(source, plan.per_pair, rng)), plan.samples
        self._refuse_beyond_64_bits("budget", plan.samples)
        seen = collect(source, plan.samples, plan.horizon, rng)
        return EmpiricalModel(source, seen), seen.steps

    def decide(self, model: EmpiricalModel, plan: PlugInPlan, shared: SharedRandomness) -> Decided:
        """Return what the rule decides on a model; a pure function of the model and the shared numbers.

        In a log, pairs with fewer samples than a shared random threshold are left out of the model.
        """
        rule: Any = self.rule
        published = getattr(rule, "published", False)  # who published it could not know a later seed
        if plan.recorded:
            model = model.at_least(fewest_samples(model, None if published else shared))
        tuning, ignored = self.tuning(plan), None
        if plan.explores and not published:
            ignored = hardly_reached(model, tuning, shared, preferred_first(rule, model.n_actions))
        if ignored is not None:
            decision = decided_by(rule, model, shared, tuning._replace(ignored=ignored.states))
            left = left_at_default(decision, ignored, model, tuning, shared)
            if left is not None:
                return Decided(left, model, ignored)
        decision = decided_by(rule, model, shared, tuning)
        if not plan.explores and rule.id in SHIPPED and _may_be_sure(plan, model, decision):
            decision = decided_by(rule, model, shared, tuning, Margin.of(model, self.delta))
        return Decided(decision, model, None)

    def tuning(self, plan: PlugInPlan) -> Tuning:
        """Return what the plan tells the rule."""
        return Tuning(plan.spent, plan.parameter, self.over)


def fewest_samples(model: EmpiricalModel, shared: SharedRandomness | None) -> float:
    """Return how many samples a pair of a log needs to count, see :mod:`replicable_rl.data.few`."""
    return threshold(model.visits, shared)


def _may_be_sure(plan: PlugInPlan, model: EmpiricalModel, decision: Decision) -> bool:
    """Whether margins are worth looking at: they are at least what the noisiest pair asks for in a second run."""
    log_term, n = math.log(6.0 * plan.sizes.pairs / plan.delta), float(plan.per_pair)

    def may(largest: float) -> bool:
        spread = largest - (0.0 if plan.known_rewards else (1.0 - plan.gamma) / 2.0)
        least = min(plan.sizes.kappa * math.sqrt(log_term / (2.0 * n)), spread * math.sqrt(2.0 * log_term / n))
        return decision.nearest > 2.0 * max(least, 0.0) * plan.sizes.horizon

    if 2.0 * plan.delta >= 1.0 or model.off > EXACT:
        return False
    # A few pairs may be noisy enough already; only if not, all are looked at.
    return may(model.spread_of_some()) and _loss_may_be_sure(plan, model, decision) and may(float(model.spread.max()))


def _loss_may_be_sure(plan: PlugInPlan, model: EmpiricalModel, decision: Decision) -> bool:
    """Whether a rule that looks at losses can tell what it accepts from what it does not, whatever the error of Q^."""
    if decision.loss is None:
        return True
    largest = float(model.gap_of(decision.outputs["policy"]).max())
    return Margin.without_values(model, plan.delta).loss(largest) < plan.spent


def _status(
    source: Any,
    model: EmpiricalModel,
    plan: PlugInPlan,
    decision: Decision,
    samples: int,
    ignored: Ignored | None,
) -> Status:
    """Say what was decided on what data, what the data did not reach, and whether anything was asked."""
    policy = decision.outputs.get("policy")
    said = [f"decided from {number(samples)} samples"]
    said += [decision.said] if decision.said else []
    at_stake = model.gain if conditions(source) else model.most_to_lose(plan.over)  # of a table, audits know the gain
    if not model.best.value.any():
        said.append("no sample had a reward above the lowest that there may be, so that all policies look alike")
    elif at_stake <= plan.epsilon and plan.spent > 0.0:
        said.append(f"epsilon={plan.epsilon:g} {EMPTY}{number(model.gain, 3)} on the empirical model: lower it")
    if model.never_tried.size:
        pairs, named = model.never_tried.tolist(), getattr(source, "pair_names", None)
        said.append(taken_for_the_worst(pairs, pairs_of(source), model.fewest_counted, named))
        if named is not None and policy is not None:
            taken = np.intersect1d(pairs, np.arange(model.n_states) * model.n_actions + policy)
            said += taken_all_the_same(taken.tolist(), named)
    if ignored is not None and policy is not None:
        many, first = plural(int(ignored.states.sum()), "state"), "the first allowed action"
        first = f"action {ignored.actions[0]}" if allowed_of(source) is None else first
        lost = f"{short_loss(model.loss(policy, plan.over))} on the empirical model"
        said.append(f"{many} hardly ever reached and left at {first}, with which the whole policy loses {lost}")
    return Status(StatusCode.COMPLETED, "; ".join(said))
