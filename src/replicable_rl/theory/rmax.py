r"""R-max and RepRMAX: parameters, and what they guarantee part by part.

The paper (Lemma 4.2, ``lem:repmax-convergence``, and Theorem 4.2, ``thm:repmax-replicable``) gives orders of growth
without constants; see `theory.paper`. :func:`rmax` chooses parameters with explicit bounds, by the mean distance of two
runs. They are in `theory.rmax_bounds`, and proved in ``docs/proofs-rmax.md``:

- *queries*, *known set*, *stopping*: the three ways in which two runs can part;
- *progress*. A round that does not stop adds at least epsilon/4 to the counts of unknown pairs. If it learns
  none, they all stay below k + w, so fewer than 4N(k + w)/epsilon rounds neither stop nor learn; at most N learn;
- *accuracy*: the loss of the policy from the initial distribution, for a run that does not spend its budget of rounds.
  R_max must be the top of the reward range, and every episode must be H steps long.

The bounds on samples fail with probability delta/2 in the queries, delta/2 in the counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from replicable_rl.errors import InvalidInput, check_flag, check_integer, check_real
from replicable_rl.runs import FIXED_SEED, Claim, Claims, LibraryClaim
from replicable_rl.theory.parameters import MOST, check_parameters
from replicable_rl.theory.plan import (
    MAX_CALLS,
    PLAIN,
    RSTAT,
    SLACK,
    Cell,
    Plan,
    PlanTable,
    check_pairs,
    claim_if,
    claims_of,
)
from replicable_rl.theory.rmax_bounds import PLANNING as PLANNING
from replicable_rl.theory.rmax_bounds import Choice, Task, bounds_of, decisions, rounds_needed
from replicable_rl.theory.rmax_search import Given, Size, is_enough, practical, proved, search
from replicable_rl.theory.rstat import Form
from replicable_rl.wording import bound, number, plural

_OWNER = "theory.rmax"
_RANDOMISED, _FIXED = "randomised", "fixed"  # the ids of the thresholds that the proofs know
_IN_THE_WAY = {
    "epsilon": "epsilon={used:g} is finer than planning in 64 bits can promise, {needed:g} would do",
    "horizon": "horizon={used} is too short for any number of episodes, {needed} would do",
    "tolerance": "tolerance={used:g} is too coarse for any number of episodes, {needed:g} would do",
    "rounds": "rounds={used} are too few for any number of episodes, {needed} would do",
    "episodes": "no number of episodes below {needed:.2g} is enough",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class RMaxPlan(Plan):
    """Parameters of a run of R-max, and explicit bounds on what it guarantees.

    Attributes
    ----------
    rounds, episodes, known, window : T, m, k, w
        Of a run.
    episodes_needed : int or None
        An m with which, all else given alike, every promise is proved; None where no m does.
    obstacles : tuple of (parameter, value)
        Then it says which parameters are in the way, and a value of each that would do.
    allowed_pairs : int or None
        How many pairs there are where some actions are not allowed in every state; None: S*A.
    support : int
        Most successors a pair is promised to have; S when nothing is promised.
    tolerance, width : float
        Of one query.
    entry_error, loss : float
        Bounds with probability 1 - delta on an entry of the model, and on the loss of the policy of a
        run that does not spend its budget of rounds.
    rho_queries, rho_known, rho_stop : float or None
        Bounds on the probability that two runs part ways in each of the three ways; None for R-max.
    threshold, estimate : str
        The ids of the two ingredients; without the theorem's, two runs part ways with no bound.
    """

    n_states: int
    n_actions: int
    gamma: float
    horizon: int
    support: int
    form: Form
    rounds: int
    episodes: int
    episodes_needed: int | None
    known: float
    window: float
    tolerance: float
    width: float
    obstacles: tuple[tuple[str, float], ...] = ()
    allowed_pairs: int | None = None
    threshold: str = _RANDOMISED
    estimate: str = RSTAT
    entry_error: float = field(init=False)
    loss: float = field(init=False)
    rho_queries: float | None = field(init=False)
    rho_known: float | None = field(init=False)
    rho_stop: float | None = field(init=False)

    _counts: ClassVar[tuple[str, ...]] = ("rounds", "episodes", "episodes_needed")

    def __post_init__(self) -> None:
        reached = bounds_of(self._task, self._choice)
        parting = {name: min(1.0, value) for name, value in reached._asdict().items() if name.startswith("rho")}
        bounds: dict[str, float | None] = {**reached._asdict(), **parting}
        if self.rho is None:
            bounds["rho_queries"] = bounds["rho_known"] = bounds["rho_stop"] = None
        else:
            if self.threshold != _RANDOMISED:
                bounds["rho_known"] = bounds["rho_stop"] = 1.0
            if self.estimate != RSTAT:
                bounds["rho_queries"] = 1.0
        if self._foreign:
            bounds["entry_error"] = bounds["loss"] = 1.0
        for name, value in bounds.items():
            object.__setattr__(self, name, value)

    @property
    def _task(self) -> Task:
        return Task(*(getattr(self, name) for name in Task._fields))

    @property
    def _choice(self) -> Choice:
        return Choice(*(getattr(self, name) for name in Choice._fields))

    @property
    def pairs(self) -> int:
        """N = S*A, or as many as are allowed."""
        return self._task.pairs

    @property
    def rounds_needed(self) -> int:
        """Rounds after which a run has certainly stopped or knows every pair."""
        return rounds_needed(self._task, self._choice.edge)

    @property
    def decisions(self) -> int:
        """Decisions about the known set: one for every unknown pair in every round."""
        return decisions(self._task, self._choice)

    @property
    def queries(self) -> int:
        """Queries that can come out different: the successors of every pair, and its reward if learned."""
        return self._task.queries

    @property
    def visits(self) -> int:
        """The fewest visits of a known pair, k*m."""
        return self._choice.visits

    @property
    def samples(self) -> int:
        """Transitions that a run draws if it uses all its rounds."""
        return self.episodes * self.horizon * self.rounds

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs learn different models; 1 when nothing is proved."""
        if self.rho_queries is None or self.rho_known is None or self.rho_stop is None:
            return None
        return min(1.0, self.rho_queries + self.rho_known + self.rho_stop)

    @property
    def loss_proved(self) -> bool:
        """Whether the policy of a run that ends before its budget does is within epsilon of optimal."""
        return self.loss <= self.epsilon * SLACK

    @property
    def accuracy_proved(self) -> bool:
        """Whether the policy is within epsilon of optimal from the initial distribution, whatever happens."""
        return self.loss_proved and self.rounds >= self.rounds_needed

    def claims(self, broken: Sequence[str] | None = None) -> Claims:
        """Return what may be claimed, about accuracy and about replicability apart.

        Some conditions only a run can settle: before it, they are part of the claim. After it, ``broken`` says which
        of them the run did not meet.
        """
        theorem = "lem:repmax-convergence" if self.rho is None else "thm:repmax-replicable"
        source = f"{theorem}, with the constants of docs/proofs-rmax.md"
        few = f"no pair has more than {plural(self.support, 'successor')}"
        support = (few,) if self.support < self.n_states else ()
        support = (*support, FIXED_SEED)  # on which all policies depend, and with them the data
        conditions = (*self._to_settle, *support) if broken is None else support
        said = f"the policy is within {self.epsilon:g} of optimal from the initial distribution (values in [0, 1])"
        said += f", except with probability {self.delta:g}"
        claim = LibraryClaim("accuracy", "proved", said, self.epsilon, source, self.delta, "policy", conditions)
        accuracy = "; ".join(self._foreign) or self._claim_if(self.loss_proved, claim, self.loss)
        if broken:
            accuracy = "; ".join([accuracy, *broken] if isinstance(accuracy, str) else broken)
        if self.rho is None or self.rho_proved is None:
            return self._here(claims_of(accuracy, None))
        said = f"two runs learn the same model, except with probability {self.rho:g}"
        claim = LibraryClaim("replicability", "proved", said, self.rho, source, level="model", conditions=support)
        same = self._claim_if(self.replicability_proved, claim, self.rho_proved)
        ablated = self._outside_the_proof(threshold=(_RANDOMISED,), estimate=(RSTAT,))
        return self._here(claims_of(accuracy, "; ".join(ablated) or same))

    def _claim_if(self, holds: bool, claim: Claim, reached: float) -> Claim | str:
        """Return a claim that holds, or what is in its way, or how many episodes it needs."""
        needed = self.episodes if self.episodes_needed is None else self.episodes_needed
        made = claim_if(holds, claim, reached, at_least={"episodes": (self.episodes, needed)}, of="the proof")
        barred = self._in_the_way if claim.about == "accuracy" else []
        return made if isinstance(made, Claim) else "; ".join([*barred, made])

    @property
    def _in_the_way(self) -> list[str]:
        return [_IN_THE_WAY[name].format(used=getattr(self, name), needed=value) for name, value in self.obstacles]

    @property
    def _to_settle(self) -> tuple[str, ...]:
        """What the bound on the loss needs, and only a run can tell."""
        ends = () if self.rounds >= self.rounds_needed else ("the run ends before its budget of rounds does",)
        return *ends, f"every episode has {self.horizon} steps", "r_max is the top of the reward range"

    @property
    def _foreign(self) -> list[str]:
        """The ingredients of which nothing is known."""
        if self.rho is None:
            return self._outside_the_proof(threshold=(_FIXED, _RANDOMISED), estimate=(PLAIN,))
        return self._outside_the_proof(threshold=(_RANDOMISED, _FIXED), estimate=(RSTAT, PLAIN))

    def table(self) -> PlanTable:
        """Return this plan for people."""
        columns = {"R-max" if self.rho is None else "RepRMAX": self._column}
        return self._table(f"episodes of H={self.horizon} steps", columns, f"m={number(self.episodes)}")

    @property
    def _column(self) -> dict[str, Cell]:
        return {
            "rounds T, at most": self.rounds,
            "episodes m per round": self.episodes,
            "episodes that prove it": self.episodes_needed or "none",
            "known from k": self.known,
            "window w": None if self.rho is None else self.window,
            "tolerance tau of a query": self.tolerance,
            "bin width beta": self.width or None,
            "visits of a known pair, k*m": self.visits,
            "samples in all, T*m*H": self.samples,
            "can be run (m < 2**63)": "yes" if self.episodes <= MAX_CALLS else "no",
            "bound: known set differs": bound(self.rho_known),
            "bound: stopping differs": bound(self.rho_stop),
            "bound: entries differ": bound(self.rho_queries),
            "bound: loss of the policy": bound(self.loss),
        }


def rmax(
    n_states: int,
    n_actions: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float | None,
    horizon: int,
    *,
    known_rewards: bool = True,
    support: int | None = None,
    form: Form = "zero-preserving",
    episodes: int | None = None,
    budget: int | None = None,
    rounds: int | None = None,
    known: float | None = None,
    window: float | None = None,
    tolerance: float | None = None,
    allowed_pairs: int | None = None,
) -> RMaxPlan:
    """Return parameters that can be run; ``rho=None`` plans the baseline R-max.

    m is given (``episodes``, or a total ``budget`` of transitions), or the one with which everything that can be proved
    is proved, at most 2**63 - 1. k, w and tau are then those with the fewest transitions T*m*H in all.

    Where m is too small to prove anything, k = w = epsilon/8, and tau is as fine as replicability allows at k*m
    visits, but not coarser than 0.01; where k*m then falls short of the sample size of the queries, k grows until it
    covers it, up to 10 epsilon; and where that is not enough either, k*m covers accuracy alone.

    ``known_rewards`` says whether the reward is a known function of (s, a), and ``allowed_pairs`` is N where some
    actions are not allowed in every state. What is None is left to the proof. All else is as in `ReplicableRMax`.

    Examples
    --------
    >>> plan = rmax(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, support=3)
    >>> plan.rounds, f"{plan.episodes:.3g}", plan.replicability_proved, plan.accuracy_proved
    (64, '1.39e+13', True, True)
    >>> rmax(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, episodes=10**9).accuracy_proved
    False
    >>> rmax(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=20).obstacles  # gamma**20 is more than epsilon
    (('horizon', 36),)
    """
    sizes = n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards
    task = checked(Task(*sizes, n_states if support is None else support, form, allowed_pairs))
    own: dict[str, Any] = {"rounds": rounds, "known": known, "window": window, "tolerance": tolerance}
    run = check_rmax(horizon=task.horizon, episodes=episodes, budget=budget, **own)
    given = Given(**{name: run[name] for name in own})
    found = search(task, given)
    if not found.choices:  # perhaps the largest m of all is enough with another k
        last = practical(task, given, Size(MOST, None, task.horizon))[0]
        found = found._replace(choices=(last,) if is_enough(task, last, found.goal) else ())
    size = Size(run["episodes"], run["budget"], task.horizon)
    choice, tau = proved(task, given, found, size) or practical(task, given, size)
    needed = found.choices[0].episodes if found.choices and not found.obstacles else None
    obstacles = found.obstacles
    if not found.choices and "epsilon" not in dict(obstacles):
        obstacles = (*obstacles, ("episodes", float(MOST)))
    return RMaxPlan(
        **task._asdict(),
        **choice._asdict(),
        episodes_needed=needed,
        obstacles=obstacles,
        tolerance=bounds_of(task, choice).entry_error if tau is None else tau,
        threshold=_FIXED if rho is None else _RANDOMISED,
        estimate=PLAIN if rho is None else RSTAT,
    )


def checked(task: Task) -> Task:
    """Return a task whose numbers are in their ranges."""
    n_states = check_integer(_OWNER, "n_states", task.n_states, low=1, high=2**40)
    n_actions = check_integer(_OWNER, "n_actions", task.n_actions, low=1, high=2**40)
    gamma = check_real(_OWNER, "gamma", task.gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")
    promise = ("epsilon", "delta", "rho", "horizon", "form")
    given = check_parameters(_OWNER, **{name: getattr(task, name) for name in promise})
    support = check_integer(_OWNER, "support", task.support, low=1, high=n_states)
    known_rewards = check_flag(_OWNER, "known_rewards", task.known_rewards)
    pairs = check_pairs(_OWNER, task.allowed_pairs, n_states, n_actions)
    return Task(n_states, n_actions, gamma, known_rewards=known_rewards, support=support, allowed_pairs=pairs, **given)


def check_rmax(**given: Any) -> dict[str, Any]:
    """Return the parameters of `rmax` that no problem has a say in, as they count."""
    found = check_parameters(_OWNER, **given)
    if found["episodes"] is not None and found["budget"] is not None:
        raise InvalidInput(f"{_OWNER}: give episodes (m) or budget (transitions in all), not both.")
    if found["budget"] is not None:
        check_integer(_OWNER, "budget", found["budget"], low=found["horizon"], high=MOST)
    return found
