r"""How many samples are enough: a search over sizes that keeps its error probability.

    sizes      n_0 < n_1 < ... < n_G, about 2^(1/4) apart, fixed before anything runs
    up         n_0, n_4, n_8, ... until two in a row are met, or the last
    down       bisection between the first of them and the size before it
    at a size  pairs of runs are added, twice as many each time, until it is decided or there are as many as allowed

*Every interval of the search holds at once*, with probability at least the confidence 1 - alpha. At one size the runs
of the shared seeds 1, 2, 3, ... are independent, and :mod:`~replicable_rl.audit.intervals` holds at all their numbers
at once, with probability 1 - alpha/G': whether more are added may depend on what was seen. Each size has the same part
of alpha, whether it is tried or not, so which are tried may depend on everything too. That matters, for all sizes use
the same seeds and are not independent of each other.

*What is found* is the smallest size tried that is met and such that all larger sizes tried are met. Agreement can fall
as samples grow (where an algorithm has hardly looked at its data, it does the same twice), so a size that is met below
one that is not does not count; of sizes that were not tried nothing is said.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.audit import AuditResult, Job, audit_spec
from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.evidence import AuditSpec, derived_seed
from replicable_rl.audit.intervals import mean_at_every_look
from replicable_rl.canonical import Json, decimal
from replicable_rl.errors import InvalidInput, check_integer, shown
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.problem.table import TabularMDP
from replicable_rl.rules import Cuts, PublishedCuts
from replicable_rl.runs import OURS, ObjectSpec, Run, RunSpec, Status, StatusCode, provider
from replicable_rl.sampling import sums
from replicable_rl.solve import plan, planned, publish, solve_as
from replicable_rl.theory import MAX_CALLS, Units
from replicable_rl.wording import short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Verdict = Literal["met", "not met", "undecided"]
_OCTAVE = 4  # sizes up to twice a size
_FIRST = 32  # pairs of a first look
_TINY = 1e-12  # of a scale: where all policies are equally good
_SIZES = ("samples", "calls", "episodes", "budget")  # what the parameter of a size is called here
_OF_THE_PROBLEM = ("horizon", "support")  # parameters that may be None and say something of the problem
_MOST_OF_A_TABLE, _MOST = 2**40, 2**20  # sizes that are tried by default: counts cost the same whatever their number
_UNPROVED = 2**200  # samples: where a plan says so many, it could not find enough


# --- the search ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """What was found at one size.

    Attributes
    ----------
    size : int
        The value of the parameter.
    samples : int or None
        The most samples that a run drew, in all; None where runs do not say.
    pairs : int
        Pairs of runs.
    agreement : Estimate
        How often two runs agree.
    loss : Estimate or None
        The mean loss of a run, in values normalised to [0, 1]; None where the problem is no table.
    largest_loss : float or None
        The largest of a single run.
    verdict : {"met", "not met", "undecided"}
        Whether all that was asked is shown, or something of it refuted.
    """

    size: int
    samples: int | None
    pairs: int
    agreement: Estimate
    loss: Estimate | None = None
    largest_loss: float | None = None
    verdict: Verdict = "undecided"

    __repr__ = short_repr

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        loss = None if self.loss is None else self.loss.to_json()
        counts = {"size": decimal(self.size), "samples": decimal(self.samples)}
        return vars(self) | counts | {"agreement": self.agreement.to_json(), "loss": loss}


class Question(NamedTuple):
    """What is asked at every size.

    ``confidence`` is that of one interval; ``epsilon`` is None where losses are not asked about.
    """

    rho: float
    epsilon: float | None
    confidence: float
    most_pairs: int

    def verdict(self, point: Point, sampled: bool = True) -> Verdict:
        """Say whether all that is asked is shown, or something of it is refuted; runs on nothing fresh show nothing."""
        required = 1.0 - self.rho
        shown, refuted = [sampled and point.agreement.low >= required], [sampled and point.agreement.high < required]
        if self.epsilon is not None:
            shown.append(point.loss is not None and point.loss.high <= self.epsilon)
            refuted.append(point.loss is not None and point.loss.low > self.epsilon)
        return "met" if all(shown) else "not met" if any(refuted) else "undecided"


def grid(start: int, most: int) -> list[int]:
    """Return the sizes that may be tried; the last is ``most``.

    >>> grid(10, 50)
    [10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 50]
    >>> grid(1, 9)  # small sizes coincide
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    sizes, i = [start], 1
    while sizes[-1] < most:
        octave, part = divmod(i, _OCTAVE)
        size = min(most, round(start * 2**octave * 2.0 ** (part / _OCTAVE)) if part else start * 2**octave)
        if size > sizes[-1]:
            sizes.append(size)
        i += 1
    return sizes


def look_at(size: int, question: Question, measure: Callable[[int, int], Point]) -> Point:
    """Add pairs of runs at a size until it is decided, or there are as many as allowed."""
    pairs = min(_FIRST, question.most_pairs)
    while True:
        point = measure(size, pairs)
        if point.verdict != "undecided" or pairs >= question.most_pairs:
            return point
        pairs = min(2 * pairs, question.most_pairs)


def search(sizes: Sequence[int], look: Callable[[int], Point]) -> tuple[Point, ...]:
    """Return what was found at the sizes that were tried, by size."""
    points: dict[int, Point] = {}

    def met(i: int) -> bool:
        if i not in points:
            points[i] = look(sizes[i])
        return points[i].verdict == "met"

    up = _doublings(sizes)
    low = None  # the first of those that are met up to here
    for k, i in enumerate(up):
        if not met(i):
            low = None
        elif low is not None:
            break
        else:
            low = k
    if low is not None:
        above, below = up[low], up[low - 1] if low else up[0]
        while above - below > 1:
            middle = (above + below) // 2
            above, below = (middle, below) if met(middle) else (above, middle)
    return tuple(points[i] for i in sorted(points))


def smallest(points: Sequence[Point]) -> Point | None:
    """Return the smallest size that is met and such that all larger ones are met."""
    chosen = None
    for point in reversed(points):
        if point.verdict != "met":
            break
        chosen = point
    return chosen


def _doublings(sizes: Sequence[int]) -> list[int]:
    """Return where sizes have at least doubled; the last is among them."""
    chosen = [0]
    for i, size in enumerate(sizes):
        if size >= 2 * sizes[chosen[-1]] or (i == len(sizes) - 1 and i != chosen[-1]):
            chosen.append(i)
    return chosen


# --- sizes of algorithms ------------------------------------------------------------------------------------------


class Sized:
    """An algorithm whose size is still open: the parameter that says how many samples it draws."""

    def __init__(self, problem: Any, algorithm: Any, name: str | None) -> None:
        """Find the parameter, or see that the one named is there."""
        if not dataclasses.is_dataclass(algorithm) or isinstance(algorithm, type):
            raise InvalidInput(
                "calibrate: algorithm must be a dataclass such as PlugInPolicy(0.05, 0.01, 0.2), whose size can be "
                f"replaced, got {shown(algorithm)}."
            )
        self.problem, self.algorithm = problem, algorithm
        fields: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(algorithm) if field.init}
        names = [size for size in _SIZES if size in fields] if name is None else [name]
        if not names or names[0] not in fields:
            what = f"no parameter {shown(name)}" if name is not None else f"none of {', '.join(_SIZES)}"
            raise InvalidInput(
                f"calibrate: {type(algorithm).__name__} has {what}. Name the one that says how many samples are drawn, "
                f"size=..., of {', '.join(fields)}."
            )
        self.others = dict.fromkeys(size for size in _SIZES if size in fields and fields[size] is None)
        names.sort(key=lambda name: vars(algorithm)[name] is None)  # the one that is used comes first
        for self.name in names:
            if self.first is not None:
                return
        self.name = names[0]

    def at(self, size: int) -> Any:
        """Return the algorithm with this size, and with no other."""
        return replace(self.algorithm, **{**self.others, self.name: size})

    @property
    def first(self) -> int | None:
        """The smallest power of two that can be planned: a budget must allow a sample for each pair."""
        sizes = (2**i for i in range(_MOST_OF_A_TABLE.bit_length()))
        return next((size for size in sizes if _or_none(lambda n: (self.planned(n),), size) is not None), None)

    def planned(self, size: int) -> Any:
        """Return the plan with this size; None where the algorithm makes none."""
        return planned(self.problem, self.at(size))

    def sizes(self, start: int | None, most: int | None) -> list[int]:
        """Return the sizes that may be tried, from the smallest that a run can have on."""
        first = self.first or 1
        if start is not None:
            first = check_integer("calibrate", "start", start, low=1, high=MAX_CALLS)
        last = _MOST_OF_A_TABLE if isinstance(self.problem, TabularMDP) else _MOST
        last = max(last, first) if most is None else check_integer("calibrate", "most", most, low=1, high=MAX_CALLS)
        self.planned(first)  # says what is wrong, if even this cannot be planned
        if last < first:
            raise InvalidInput(f"calibrate: most must be at least the smallest size, {first}, got {most}. Raise it.")
        sizes, budget = grid(first, last), self.problem.budget
        if most is not None or budget is None:
            return sizes
        plans = ((size, self.planned(size)) for size in sizes)
        return [n for n, plan in plans if plan is None or plan.samples <= budget] or sizes[:1]  # the run says what fits


def proved_samples(problem: Any, algorithm: Any, rho: float, epsilon: float | None) -> int | None:
    """Return how many samples, in all, the proof needs for this promise; None where this library has no such proof."""
    if provider(algorithm) != OURS:
        return None
    names = {field.name: field for field in dataclasses.fields(algorithm)}
    changes: dict[str, Any] = {
        name: None for name, field in names.items() if field.default is None and name not in _OF_THE_PROBLEM
    }
    changes |= {"rho": rho} if "rho" in names else {}
    changes |= {"epsilon": epsilon} if epsilon is not None and bounds_loss(algorithm) else {}
    promised = _or_none(lambda: plan(problem, replace(algorithm, **changes)))  # also where there is no plan
    if promised is None or not (promised.numbers.replicability_proved and promised.numbers.accuracy_proved):
        return None
    return int(promised.samples) if promised.samples < _UNPROVED else None


def bounds_loss(algorithm: Any) -> bool:
    """Whether the algorithm's own epsilon is the loss of its policy, and not the error of a model or of Q."""
    names = vars(algorithm)
    return "epsilon" in names and "norm" not in names and names.get("target", "policy") == "policy"


def _or_none(make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except InvalidInput:
        return None


# --- losses -------------------------------------------------------------------------------------------------------


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
        new = [mark for mark in dict.fromkeys(prints) if mark is not None and mark not in self._known]
        for fingerprint, policy in result.store.outputs("policy", new).items():
            self._known[fingerprint] = self.of(policy)
        losses = [self.largest if mark is None else self._known[mark] for mark in prints]  # a failed run gives nothing
        return np.array(losses).reshape(-1, result.spec.runs_per_seed)

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


# --- published cuts -----------------------------------------------------------------------------------------------


class PublishJob(Job):
    """Make the runs of an audit of published cuts: of every pair, the first run publishes, and the second follows.

    What both runs of a pair share is then not a seed that was there before, but what the first of them found out. Each
    pair publishes afresh, so that the agreement is that of a lab that publishes and a lab that reads it.
    """

    algorithm: PlugInPolicy

    def __init__(self, problem: Any, algorithm: PlugInPolicy, seed: int) -> None:
        self.problem, self.algorithm = problem, algorithm
        self.seed = seed  # of the audit: it says which run of a pair is the first
        self.mdp = problem if isinstance(problem, TabularMDP) else None
        self._kept: tuple[int, Cuts] | None = None  # of the last pair: its runs are mostly made one after the other

    def run(self, spec: RunSpec) -> Run:
        """Publish, or follow what the first run of the pair has published."""
        first = derived_seed("sample", self.seed, spec.shared_seed, 0)
        if self._kept is None or self._kept[0] != first:
            self._kept = first, publish(self.problem, self.algorithm, sample_seed=first)
        cuts = self._kept[1]
        if spec.sample_seed != first:
            return solve_as(spec, self.problem, replace(self.algorithm, rule=PublishedCuts(cuts)))
        status = Status(StatusCode.COMPLETED, "published cuts, and followed them on the data that they were chosen on")
        samples = self.algorithm.plan(self.problem).samples
        return Run.of({"policy": cuts.policy}, status=status, samples=samples).completed(spec)


def published_spec(problem: Any, algorithm: PlugInPolicy, *, in_store: bool, seed: int, **settings: Any) -> AuditSpec:
    """Describe an audit in which every pair publishes cuts afresh; its runs have an identity of their own."""
    usual = audit_spec(problem, algorithm, in_store=in_store, seed=seed, **settings)
    params = {name: value for name, value in usual.algorithm.params.items() if name != "rule"}
    order = algorithm.decider.order
    params |= {"seed": str(seed)} | ({} if order is None else {"order": list(order)})
    evidence = replace(usual.evidence, shared="the cuts that the first run of a pair publishes")
    job = PublishJob(problem, algorithm, seed)
    return replace(usual, algorithm=ObjectSpec("published-afresh-v1", params), evidence=evidence, job=job)
