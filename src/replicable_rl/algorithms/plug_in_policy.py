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
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np

from replicable_rl.algorithms.plan import Plan, Promise, Promises, Shape, accurate, replicable, sure_of
from replicable_rl.errors import InvalidInput, speaking_as
from replicable_rl.planning import optimal_values
from replicable_rl.problem.source import Episodic, Generative, Recorded, Source
from replicable_rl.progress import track
from replicable_rl.rules import AffordableTolerance, Cuts, Decision, EmpiricalModel, Margin, Rule, Tuning, as_rule
from replicable_rl.rules.model import threshold
from replicable_rl.rules.published import choose_cuts
from replicable_rl.rules.rule import decided_by
from replicable_rl.runs import CERTIFICATE, FIXED_SEED, THIS_SEED, Claims, PromisedLoss, Run, Status, StatusCode, put
from replicable_rl.theory import PlugInNumbers, Units, decisions, plug_in_policy
from replicable_rl.theory.decisions import EXACT, LEAST, PROVED, SPENT, check_plug_in
from replicable_rl.theory.numbers import ACCURACY, MOST, REPLICABILITY
from replicable_rl.wording import number, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.sampling import EpisodeCounts

_AFFORDABLE = AffordableTolerance()
_PROOFS = "docs/proofs.md"

_ROUNDS, _MOST_ROUNDS = 32, 128  # of exploration: episodes that end early leave steps for some more
_PRECISION = 1e-6  # of its plans, in values normalised to [0, 1]: where rewards are rare, values are small
_HALVES = 20  # of the threshold, before no state is ignored


class Ignored(NamedTuple):
    """Which states are ignored, (S,), and the action that a state gets if it is."""

    states: NDArray[np.bool_]
    actions: NDArray[np.int64]


class Conclusion(NamedTuple):
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
            put(self, rule=as_rule(self.rule))
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

    def _shape(self, source: Source) -> Shape:
        self.decider.check_problem(source)  # refused before a sample is drawn
        shape = super()._shape(source)
        if self.horizon is None and isinstance(source, Recorded):
            return replace(shape, known_rewards=False, rows=source.counts.steps)
        if self.horizon is None and (isinstance(source, Generative) or not isinstance(source, Episodic)):
            return shape
        return replace(shape, known_rewards=False, played=True)

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"rule": self.decider.id, "parameter": self.decider.parameter}

    def _numbers(self, shape: Shape) -> PlugInNumbers:
        sizes = {"n_states": shape.n_states, "n_actions": shape.n_actions, "gamma": shape.gamma}
        sizes |= {"known_rewards": shape.known_rewards, "allowed_pairs": shape.pairs}
        parameters, rows = self._parameters() | sizes, shape.rows
        horizon, budget = parameters.pop("horizon"), parameters.pop("budget")
        if rows is not None:
            if self.samples is not None or budget is not None:
                raise InvalidInput(
                    "PlugInPolicy: the samples of a log are drawn already. Leave out samples and budget; split the "
                    "log to use less."
                )
            budget = rows
        elif shape.played:
            horizon = horizon or math.ceil(math.log(1.0 / (self.epsilon * (1.0 - shape.gamma))) / (1.0 - shape.gamma))
            if budget is None or budget < horizon:
                raise InvalidInput(
                    "PlugInPolicy: budget must be given for a problem that is played in episodes, and allow one of "
                    f"{horizon} steps, got {budget}. Raise budget, or lower horizon, the steps of an episode."
                )
        else:
            return plug_in_policy(**parameters, budget=budget)
        samples = max(budget, shape.n_states * shape.n_actions)  # it need not try every pair
        numbers = plug_in_policy(**parameters, budget=samples)
        return replace(numbers, budget=budget, spent=SPENT * self.epsilon, horizon=horizon, recorded=rows is not None)

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
        if numbers.explores:
            return ["how many samples a pair has may depend on what was seen"]
        if numbers.rule not in PROVED:
            return [f"rule={numbers.rule} is unknown to the proofs"]
        if numbers.rule == decisions.PUBLISHED and about == REPLICABILITY:
            return ["published cuts come from the first run's sample; see docs/logs.md"]
        if numbers.per_pair_needed < MOST:
            return []
        return [f"no number of samples proves a loss of {numbers.epsilon:g} for rule={numbers.rule}"]

    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r and one batch of fresh samples from ``rng``."""
        plan = self.plan(source)
        model, samples = self.estimate(source, plan, rng)
        decided = self.decide(model, plan, shared)
        decision, model, _ = decided
        sure = self._is_sure(decided, plan.numbers)
        outputs = dict(decision.outputs)
        if "value" in outputs:
            outputs["value"] = Units.of(source).value_to_user(outputs["value"])
        claims = plan.claims(good_seed=sure)
        if model.off > EXACT:  # gamma is so near to 1 that too few digits are left for a proof
            reason = f"with gamma={model.gamma!r} planning is off by up to {model.off:.1g}, and proofs allow 1e-10"
            claims = Claims(missing=dict.fromkeys((ACCURACY, REPLICABILITY), f"{reason}: lower gamma"))
        if source.trust.conditions:  # no table says what can be gained
            claims = claims.told(gain=model.gain)
            if model.best.value.any() and model.gain <= self.epsilon and plan.numbers.spent > 0.0:
                claims = replace(claims, gain=model.gain)
        sentence = "; ".join(_sentences(source, decided, samples))
        return Run.of(outputs, status=Status(StatusCode.COMPLETED, sentence), claims=claims, samples=samples)

    def estimate(self, source: Any, plan: Plan[PlugInNumbers], rng: np.random.Generator) -> tuple[EmpiricalModel, int]:
        """Return the empirical model of one batch of fresh samples, and how many they are."""
        numbers = plan.numbers
        if numbers.recorded:
            return EmpiricalModel(source, source.counts), plan.samples
        if numbers.horizon is None:
            self._refuse_beyond_64_bits("samples", numbers.per_pair)
            return EmpiricalModel(source, source.draw(numbers.per_pair, rng)), plan.samples
        self._refuse_beyond_64_bits("budget", plan.samples)
        seen = _collect(source, plan.samples, numbers.horizon, rng)
        return EmpiricalModel(source, seen), seen.steps

    def decide(self, model: EmpiricalModel, plan: Plan[PlugInNumbers], shared: SharedRandomness) -> Conclusion:
        """Return what the rule decides on a model; a pure function of the model and the shared numbers.

        In a log, pairs with fewer samples than a shared random threshold are left out of the model.
        """
        numbers, rule = plan.numbers, self.decider
        if numbers.recorded:  # who published a rule could not know a later seed
            model = model.at_least(threshold(model.visits, None if rule.published else shared))
        tuning = Tuning(numbers.spent, numbers.parameter, self.over)
        if numbers.explores and not rule.published:
            ignored = _hardly_reached(model, tuning, shared, rule.preferred(model.n_actions))
            if ignored is not None:
                decision = decided_by(rule, model, shared, tuning._replace(ignored=ignored.states))
                complete = _left_at_default(decision, ignored, model, tuning, shared)
                if complete is not None:
                    return Conclusion(complete, model, ignored)
        return Conclusion(decided_by(rule, model, shared, tuning), model, None)

    def _is_sure(self, decided: Conclusion, numbers: PlugInNumbers) -> bool:
        """Whether a second run would decide alike, as far as these data can tell."""
        if not numbers.is_known or self.delta >= 0.5:
            return False
        return all(map(decided.decision.sure, Margin.rising(decided.model, self.delta)))

    def publish(self, source: Any, rng: np.random.Generator) -> Cuts:
        """Return the cuts of one batch of fresh samples; of the rule only the order of actions matters."""
        plan, order = self.plan(source), self.decider.order
        model, _ = self.estimate(source, plan, rng)
        tuning = Tuning(SPENT * self.epsilon, 0.0, self.over)  # whatever the rule itself would spend
        if plan.numbers.recorded:
            model = model.at_least(threshold(model.visits, None))  # as everybody does who uses the cuts
        if plan.numbers.explores:
            ignored = _hardly_reached(model, tuning, None, AffordableTolerance(order).preferred(model.n_actions))
            tuning = tuning._replace(ignored=None if ignored is None else ignored.states)
        return choose_cuts(model, tuning, order)


def _sentences(source: Any, decided: Conclusion, samples: int) -> Iterator[str]:
    """Say what was decided on what data, what the data did not reach, and whether anything was asked."""
    decision, model, ignored = decided
    yield f"decided from {number(samples)} samples"
    if decision.said:
        yield decision.said
    if not model.best.value.any():
        yield "no sample had a reward above the lowest that there may be, so that all policies look alike"
    if (pairs := model.never_tried).size:
        worst = f"{plural(pairs.size, 'pair')} of {source.support.pairs}"
        few = f"with fewer than {number(model.fewest_counted, 3)} rows" if model.fewest_counted > 1.0 else "never tried"
        yield f"{worst} {few}, taken for the worst"
        policy = decision.outputs.get("policy")
        taken = 0 if policy is None else int((policy[pairs // model.n_actions] == pairs % model.n_actions).sum())
        if taken:
            yield f"{taken} of them taken all the same"
    if ignored is not None:
        yield f"{plural(int(ignored.states.sum()), 'state')} hardly ever reached and left at the first allowed action"


def _where(shape: Shape, numbers: PlugInNumbers) -> str:
    """Say where the policy loses no more than epsilon."""
    if numbers.over == "initial" and numbers.rule in (decisions.AFFORDABLE, decisions.PUBLISHED):
        return "on average over all states" if shape.anywhere else "from the first state on"
    return "in every state"


def _collect(source: Episodic, budget: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
    """Return what episodes of ``horizon`` steps saw, of at most ``budget`` steps in all.

    Only the last decision must agree, so exploration need not be replicable. In every round a policy is planned on what
    was seen so far, with a bonus for every pair, and what was never tried is taken for the best there is:

        every third round    the bonus 1/(2 sqrt(n)) alone: go where little is known
        the rounds between   rewards and 2 sd/sqrt(n) + span/n: go where it may be good

    sd is the standard deviation of r + gamma V^ after the pair, and span the largest difference of two values V^: a
    bonus on the scale of all possible values would be larger than any value of a problem with rare rewards.
    """
    policy: NDArray[np.float64] | NDArray[np.int64] = source.support.uniform()
    seen = source.play(policy, max(1, budget // (_ROUNDS * horizon)), horizon, rng)
    for i in track(range(1, _MOST_ROUNDS), "rounds of exploration"):
        affordable = (budget - seen.steps) // horizon
        if affordable < 1:
            break
        policy = _curious(EmpiricalModel(source, seen), rewarded=i % 3 != 0)
        seen = seen + source.play(policy, max(1, affordable // max(1, _ROUNDS - i)), horizon, rng)
    return seen


def _curious(model: EmpiricalModel, *, rewarded: bool) -> NDArray[np.int64]:
    largest, n = 1.0 - model.gamma, model.visits.reshape(model.n_states, model.n_actions)
    visits, value = np.maximum(n, 1.0), model.best.value
    if rewarded:
        bonus = 2.0 * model.spread_between / np.sqrt(visits) + (value.max() - value.min()) / visits
        promised = model.means(model.table.rows.reward) + np.minimum(largest, bonus)
    else:
        promised = np.minimum(largest, 0.5 / np.sqrt(visits))
    return optimal_values(model.table, rewards=np.where(n > 0.0, promised, 2.0 * largest), tolerance=_PRECISION).policy


def _hardly_reached(
    model: EmpiricalModel, tuning: Tuning, shared: SharedRandomness | None, order: NDArray[np.int64]
) -> Ignored | None:
    """Return states that are hardly ever reached, if there are any: two runs need not agree on what is decided there.

    Their share is below a shared random threshold, and all of them together cost the best policy, on the model, at most
    half of what the rule may spend; else the threshold is halved. Who publishes cuts has no shared numbers, and takes
    the middle of the windows.
    """
    u, w = (0.5, 0.5) if shared is None else shared.uniform("decide/ignored", shape=2).tolist()
    threshold = tuning.spent * (1.0 - model.gamma) * (1.0 + u) / (2.0 * model.n_states)
    share, actions, last_count = model.state_shares(tuning.spent), model.support.first(order), -1
    for _ in range(_HALVES):
        states = share < threshold
        if (count := int(states.sum())) == 0:
            break
        if count != last_count:
            policy = np.where(states, actions, model.best.policy)
            if model.loses_at_most(policy, tuning.spent * (1.0 + w) / 4.0)[0]:
                return Ignored(states, actions)
        threshold, last_count = threshold / 2.0, count
    return None


def _left_at_default(
    decision: Decision, ignored: Ignored, model: EmpiricalModel, tuning: Tuning, shared: SharedRandomness
) -> Decision | None:
    """Return the decision with the first action in the ignored states; None, if the whole policy loses too much."""
    outputs = dict(decision.outputs)
    if "policy" not in outputs:
        return None
    policy = np.where(ignored.states, ignored.actions, outputs["policy"])
    if decision.loss is None or not np.array_equal(policy, outputs["policy"]):  # else the rule has seen to it
        limit = tuning.spent * (LEAST + (1.0 - LEAST) * float(shared.uniform("decide/ignored", shape=3)[2]))
        if not model.loses_at_most(policy, limit, tuning.over)[0]:
            return None
    outputs["policy"] = policy
    if "value" in outputs:  # the same value implies the same policy: the least one, of which the first action is best
        outputs["value"] = model.support.settle(np.where(ignored.states[:, None], 0.0, outputs["value"]))
    return decision._replace(outputs=outputs)
