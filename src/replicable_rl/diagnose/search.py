r"""How many samples are enough: one search over (rule, samples) that keeps its error probability.

    sizes      n_0 < n_1 < ... < n_G, about 2^(1/4) apart, fixed before anything runs
    up         n_0, n_4, n_8, ... until two in a row are met, or the last
    down       bisection between the first of them and the size before it
    at a size  pairs of runs are added, twice as many each time, until it is decided or there are as many as allowed

`calibrate` searches the sizes of one rule or algorithm, and `compare` those of several: one calibration a line.

*Every interval of the search holds at once*, with probability at least the confidence 1 - alpha. At one size the runs
of the shared seeds 1, 2, 3, ... are independent, and :mod:`~replicable_rl.audit.agreement` holds at all their numbers
at once, with probability 1 - alpha/G': whether more are added may depend on what was seen. Each size has the same part
of alpha, whether it is tried or not, so which are tried may depend on everything too. That matters, for all sizes use
the same seeds and are not independent of each other. Lines of a comparison have equal parts of alpha.

*What is found* is the smallest size tried that is met and such that all larger sizes tried are met. Agreement can fall
as samples grow (where an algorithm has hardly looked at its data, it does the same twice), so a size that is met below
one that is not does not count; of sizes that were not tried nothing is said.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from replicable_rl.algorithms import PlugInPolicy, ReplicablePhasedVI
from replicable_rl.audit import AuditResult, audit_spec, opened_store, run_audits
from replicable_rl.audit.agreement import Estimate, mean_at_every_look
from replicable_rl.audit.audits import StoreLike
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.canonical import Json, decimal
from replicable_rl.diagnose.document import calibration_document, calibration_sentence, comparison_document
from replicable_rl.errors import (
    InvalidInput,
    check_in_open_interval,
    check_integer,
    shown,
    speaking_as,
)
from replicable_rl.logs import Dataset
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.problem.source import Generative, Source, as_source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import announce, bar, within
from replicable_rl.report import Block, Documented
from replicable_rl.rules import SHIPPED, PublishedCuts
from replicable_rl.runs import OURS, Algorithm, ObjectSpec, provider
from replicable_rl.solve import plan, planned
from replicable_rl.theory import MAX_CALLS, Units
from replicable_rl.wording import listed, number, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Verdict = Literal["met", "not met", "undecided"]
PLAIN, DEFAULT = "greedy", "affordable"
_RULES = tuple(name for name in SHIPPED if name != PublishedCuts.id)  # cuts are published for one problem
_SHIPPED = (*_RULES, "rpvi")
_OCTAVE = 4  # sizes up to twice a size
_FIRST = 32  # pairs of a first look
_MOST_PAIRS = 10**6
_TINY = 1e-12  # of a scale: where all policies are equally good
_SIZES = ("samples", "calls", "episodes", "budget")  # what the parameter of a size is called
_MOST_OF_A_TABLE, _MOST = 2**40, 2**20  # sizes that are tried by default: counts cost the same whatever their number
_UNPROVED = 2**200  # samples: where a plan says so many, it could not find enough
_CLOSE = 1.25  # sizes are found to a factor of about 1.2: nearer than this, they are as good as equal
_PLAIN_ENOUGH = 2.0  # the plain model may need so many times the samples of a rule, and is still the simplest answer


# --- results ------------------------------------------------------------------------------------------------------


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
    verdict : {"met", "not met", "undecided"}
        Whether all that was asked is shown, or something of it refuted.
    """

    size: int
    samples: int | None
    pairs: int
    agreement: Estimate
    loss: Estimate | None = None
    verdict: Verdict = "undecided"

    __repr__ = short_repr

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        loss = None if self.loss is None else self.loss.to_json()
        counts = {"size": decimal(self.size), "samples": decimal(self.samples)}
        return vars(self) | counts | {"agreement": self.agreement.to_json(), "loss": loss}


@dataclass(frozen=True)
class Calibration(Documented):
    """How many samples an algorithm needs on a problem, measured; immutable.

    Attributes
    ----------
    problem, algorithm : ObjectSpec
        What was run; the algorithm without its size.
    size_name : str
        The parameter that was searched, such as ``"samples"`` (of every pair).
    points : tuple of Point
        The sizes that were tried, from the smallest on. All their intervals hold at once, with the confidence.
    rho, epsilon, confidence : float
        What was asked; of losses nothing where ``epsilon`` is None.
    theory : int or None
        Samples, in all, that the proof needs for the same promise; None where there is no such proof.
    gain : float or None
        What the best policy gains over the uniform one, in values normalised to [0, 1]; None where the problem is no
        table.
    name : str
        What its line in a comparison is called.
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    size_name: str
    points: tuple[Point, ...]
    rho: float
    epsilon: float | None
    confidence: float
    theory: int | None
    gain: float | None
    name: str = ""

    __repr__ = short_repr

    @property
    def point(self) -> Point | None:
        """The smallest size tried that is met and such that all larger sizes tried are met; None if there is none."""
        return smallest(self.points)

    @property
    def met(self) -> bool | None:
        """Whether such a size was found; False if the largest is refuted, None if it cannot be told there."""
        return True if self.point is not None else False if self.points[-1].verdict == "not met" else None

    @property
    def size(self) -> int | None:
        """The size that was found."""
        return None if self.point is None else self.point.size

    @property
    def samples(self) -> int | None:
        """The samples, in all, that a run of this size draws at most."""
        return None if self.point is None else self.point.samples

    def document(self) -> list[Block]:
        """Return the curve, what was found, and what the proof needs."""
        return calibration_document(self)

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON; counts are strings, for they may pass 2**53."""
        specs = {"problem": self.problem.to_json(), "algorithm": self.algorithm.to_json()}
        counts = {"size": decimal(self.size), "samples": decimal(self.samples), "theory": decimal(self.theory)}
        points: list[Json] = [point.to_json() for point in self.points]
        named = {"format": "replicable-rl calibration", "version": 1, "met": self.met}
        return named | vars(self) | specs | counts | {"points": points}


@dataclass(frozen=True)
class Comparison(Documented):
    """Rules and algorithms side by side on one problem; immutable.

    Attributes
    ----------
    rows : tuple of Calibration
        A line for each rule and algorithm. All intervals of all lines hold at once, with the confidence.
    confidence : float
        Of all intervals together.
    recommended : str or None
        The name of the line to use; None where none meets all that is asked.
    why : str
        The reason, in a sentence.
    """

    rows: tuple[Calibration, ...]
    confidence: float
    recommended: str | None
    why: str

    __repr__ = short_repr

    def __getitem__(self, name: str) -> Calibration:
        rows = {row.name: row for row in self.rows}
        if name not in rows:
            raise InvalidInput(f"Comparison: there is no {shown(name)}. It has: {', '.join(rows)}.")
        return rows[name]

    @property
    def met(self) -> bool | None:
        """Whether anything meets all that is asked; None where that cannot be told of all."""
        verdicts = [row.met for row in self.rows]
        return True if True in verdicts else None if None in verdicts else False

    def document(self) -> list[Block]:
        """Return the lines, what they mean, and which to use."""
        return comparison_document(self)

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON."""
        rows: list[Json] = [row.to_json() for row in self.rows]
        return {"format": "replicable-rl comparison", "version": 1} | vars(self) | {"rows": rows}


# --- the verbs ----------------------------------------------------------------------------------------------------


@bar()
@speaking_as("calibrate", "audit")
def calibrate(
    problem: Any,
    algorithm: Algorithm,
    rho: float | None = None,
    epsilon: float | None = None,
    *,
    confidence: float = 0.95,
    start: int | None = None,
    most: int | None = None,
    shared_seeds: int = 600,
    seed: int = 0,
    store: StoreLike = None,
    n_jobs: int | None = None,
) -> Calibration:
    """Find the smallest sample size at which two runs agree often enough and the policy loses little enough.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or a source of your own
        What to solve. Losses are known, exactly, where it is a table.
    algorithm : Algorithm
        A dataclass with a parameter ``samples``, ``calls``, ``episodes`` or ``budget``; its value is replaced.
    rho : float, optional
        Two runs must agree with probability 1 - rho; None: what the algorithm promises.
    epsilon : float, optional
        The mean loss must be at most this, in values normalised to [0, 1]; None: what the algorithm promises of its
        policy.
    confidence : float
        Of all intervals of the search together.
    start, most : int, optional
        The smallest and the largest size that may be tried.
    shared_seeds : int
        The most shared seeds, each with a pair of runs, at one size. What they leave undecided counts as not met.
    seed, store, n_jobs
        As for :func:`replicable_rl.audit`; the same call with a store resumes.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> found = calibrate(rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2), start=100, shared_seeds=400)
    >>> found.met, found.size, found.samples
    (True, 100, 3200)
    """
    owner = "calibrate"
    confidence = check_in_open_interval(owner, "confidence", confidence)
    shared_seeds = check_integer(owner, "shared_seeds", shared_seeds, low=1, high=_MOST_PAIRS)
    _check_problem(owner, problem)
    sized = Sized(problem, algorithm)
    promised: dict[str, Any] = vars(algorithm)
    rho = check_in_open_interval(owner, "rho", promised.get("rho") if rho is None else rho)
    epsilon = promised["epsilon"] if epsilon is None and bounds_loss(algorithm) else epsilon
    epsilon = None if epsilon is None else check_in_open_interval(owner, "epsilon", epsilon)
    losses = Losses(problem, promised.get("over", "initial")) if isinstance(problem, TabularMDP) else None
    epsilon = None if losses is None else epsilon
    sizes = sized.sizes(start, most)
    each = 1.0 - (1.0 - confidence) / (len(sizes) * (1 if epsilon is None else 2))  # both at every size
    settings: dict[str, Any] = {"confidence": each, "rho": rho, "require": 1.0 - rho, "seed": seed}

    def spec(value: int, pairs: int) -> AuditSpec:
        return audit_spec(problem, sized.at(value), in_store=store is not None, shared_seeds=pairs, **settings)

    def measure(value: int, pairs: int) -> Point:
        with within(f"{sized.name}={number(value)}"):
            (result,) = run_audits([spec(value, pairs)], opened, n_jobs=n_jobs)
        drawn = [run.samples for run in result.runs if run.samples is not None]
        loss = None if losses is None else losses.estimate(result)
        samples = max(drawn) if len(drawn) == len(result.runs) else None
        point = Point(value, samples, pairs, result.agreement().every_look, loss)
        return replace(point, verdict=verdict_of(point, rho, epsilon, not result.unsampled))

    with opened_store(store) as opened:
        points = search(sizes, lambda value: look_at(value, shared_seeds, measure))
    identity = spec(sizes[0], 1)
    params = {name: value for name, value in identity.algorithm.params.items() if name != sized.name}
    return Calibration(
        problem=identity.problem,
        algorithm=ObjectSpec(identity.algorithm.id, params),
        size_name=sized.name,
        points=points,
        rho=rho,
        epsilon=epsilon,
        confidence=confidence,
        theory=proved_samples(sized, rho, epsilon),
        gain=None if losses is None else losses.uniform,
    )


@bar()
@speaking_as("compare", "audit", "calibrate")
def compare(
    problem: Any,
    rho: float = 0.2,
    epsilon: float = 0.05,
    *,
    delta: float = 0.01,
    confidence: float = 0.95,
    algorithms: Iterable[Any] | None = None,
    horizon: int | None = None,
    start: int | None = None,
    most: int | None = None,
    shared_seeds: int = 600,
    seed: int = 0,
    store: StoreLike = None,
    n_jobs: int | None = None,
) -> Comparison:
    """Measure how many samples each rule and algorithm needs on a problem, and say which to use.

    Every line is announced as soon as it is finished.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or a source of your own
        What to solve. Losses are known where it is a table.
    rho : float
        Two runs must have the same policy with probability 1 - rho.
    epsilon : float
        The policy may lose so much, in values normalised to [0, 1].
    delta : float
        Of the algorithms' own promises about accuracy.
    confidence : float
        Of all intervals of all lines together.
    algorithms : list, optional
        Which to compare: ids of rules, ``"rpvi"``, or algorithms; None: all rules, and rPVI where it can be run.
    horizon : int, optional
        Steps of an episode, for problems that can only be played.
    start, most, shared_seeds, seed, store, n_jobs
        As for :func:`calibrate`.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> chosen = rr.compare(rr.make("chain-v1"), algorithms=["greedy", "affordable"], start=64, shared_seeds=300)
    >>> chosen.recommended
    'greedy'
    """
    owner = "compare"
    _check_problem(owner, problem)
    rho, delta = check_in_open_interval(owner, "rho", rho), check_in_open_interval(owner, "delta", delta)
    confidence = check_in_open_interval(owner, "confidence", confidence)
    epsilon = check_in_open_interval(owner, "epsilon", epsilon)
    chosen = _candidates(problem, algorithms, (epsilon, delta, rho), horizon)
    asked: dict[str, Any] = {"start": start, "most": most, "shared_seeds": shared_seeds, "seed": seed}
    asked |= {"confidence": 1.0 - (1.0 - confidence) / len(chosen), "store": store, "n_jobs": n_jobs}
    rows: list[Calibration] = []
    for name, algorithm in chosen.items():
        with within(name):
            rows.append(replace(calibrate(problem, algorithm, rho, epsilon, **asked), name=name))
        announce(f"{name}: {calibration_sentence(rows[-1])}")
    recommended, why = _advice(rows)
    return Comparison(tuple(rows), confidence, recommended, why)


def _check_problem(owner: str, problem: Any) -> None:
    if isinstance(problem, Dataset):
        raise InvalidInput(f"{owner}: draws fresh samples, and a log has none. Use diagnose(data), and .data_needed().")
    if not isinstance(problem, Source):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"{owner}: problem must be a TabularMDP or a source, got {shown(problem)}.{hint}")


def _candidates(
    problem: Any, asked: Iterable[Any] | None, promise: tuple[float, float, float], horizon: int | None
) -> dict[str, Any]:
    """Return the algorithms by their names."""
    draws = isinstance(as_source(problem), Generative)
    if asked is None:
        asked = _SHIPPED if draws else _RULES
    if not isinstance(asked, (list, tuple)) or not asked:
        raise InvalidInput(f"compare: algorithms must be a list of names or algorithms, got {shown(asked)}.")
    chosen: dict[str, Any] = {}
    for algorithm in asked:
        if isinstance(algorithm, Algorithm):
            name = algorithm.id.rpartition(".")[2]
            while name in chosen or name in _SHIPPED:
                name += "'"
            chosen[name] = algorithm
        elif algorithm == "rpvi":
            chosen[algorithm] = ReplicablePhasedVI(*promise)
        elif algorithm in _RULES:
            chosen[algorithm] = PlugInPolicy(*promise, rule=algorithm, horizon=None if draws else horizon)
        else:
            names = f"must be algorithms or of {', '.join(_SHIPPED)}"
            raise InvalidInput(f"compare: algorithms {names}, got {shown(algorithm)}.")
    return chosen


def _advice(rows: list[Calibration]) -> tuple[str | None, str]:
    """Choose a line, and say why in a sentence or two."""
    met = {row.name: row.samples for row in rows if row.met and row.samples is not None}
    everything = (
        "the agreement that is asked (losses are not known here)" if rows[0].gain is None else "all that is asked"
    )
    unsure = [row.name for row in rows if row.met is None]
    doubt = f" Of {listed(unsure)} it cannot be told; more shared seeds would tell." if unsure else ""
    if not met:
        return None, f"Nothing is shown to meet {everything} at the sizes that were tried.{doubt}"
    fewest = min(met.values())
    if PLAIN in met and met[PLAIN] <= _PLAIN_ENOUGH * fewest:
        why = f"the plain model meets {everything} from {number(met[PLAIN])} samples, and is the simplest"
        return PLAIN, f"Use greedy: {why}.{doubt}"
    close = [name for name, samples in met.items() if samples <= _CLOSE * fewest]
    chosen = DEFAULT if DEFAULT in close else close[0]
    return chosen, f"Use {chosen}: it meets {everything} from {number(met[chosen])} samples.{doubt}"


# --- the search ---------------------------------------------------------------------------------------------------


def verdict_of(point: Point, rho: float, epsilon: float | None, sampled: bool = True) -> Verdict:
    """Say whether all that is asked is shown, or something of it is refuted; runs on nothing fresh show nothing."""
    yes, no = [sampled and point.agreement.low >= 1.0 - rho], [sampled and point.agreement.high < 1.0 - rho]
    if epsilon is not None:
        yes.append(point.loss is not None and point.loss.high <= epsilon)
        no.append(point.loss is not None and point.loss.low > epsilon)
    return "met" if all(yes) else "not met" if any(no) else "undecided"


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


def look_at(size: int, most_pairs: int, measure: Callable[[int, int], Point]) -> Point:
    """Add pairs of runs at a size until it is decided, or there are as many as allowed."""
    pairs = min(_FIRST, most_pairs)
    while True:
        point = measure(size, pairs)
        if point.verdict != "undecided" or pairs >= most_pairs:
            return point
        pairs = min(2 * pairs, most_pairs)


def search(sizes: Sequence[int], look: Callable[[int], Point]) -> tuple[Point, ...]:
    """Return what was found at the sizes that were tried, by size."""
    points: dict[int, Point] = {}

    def met(i: int) -> bool:
        if i not in points:
            points[i] = look(sizes[i])
        return points[i].verdict == "met"

    below, above = 0, None  # the first of those that are met up to here, and the size before it
    i = 0
    while True:
        if not met(i):
            below, above = i, None
        elif above is not None:
            break
        else:
            above = i
        if i == len(sizes) - 1:
            break
        i = next((k for k in range(i, len(sizes)) if sizes[k] >= 2 * sizes[i]), len(sizes) - 1)
    if above is not None:
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


# --- sizes of algorithms ------------------------------------------------------------------------------------------


class Sized:
    """An algorithm whose size is still open: the parameter that says how many samples it draws."""

    def __init__(self, problem: Any, algorithm: Any) -> None:
        """Find the parameter: the one that is given comes first."""
        fields: dict[str, Any] = {}
        if dataclasses.is_dataclass(algorithm) and not isinstance(algorithm, type):
            fields = {field.name: field.default for field in dataclasses.fields(algorithm)}
        names = [name for name in _SIZES if name in fields]
        if not names:
            rule = f"must be a dataclass with a parameter of {', '.join(_SIZES)}, such as PlugInPolicy(0.05, 0.01, 0.2)"
            raise InvalidInput(f"calibrate: algorithm {rule}, got {shown(algorithm)}.")
        self.problem, self.algorithm = problem, algorithm
        self.others = {name: None for name in names if fields[name] is None}
        names.sort(key=lambda name: vars(algorithm)[name] is None)
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
        for i in range(_MOST_OF_A_TABLE.bit_length()):
            with contextlib.suppress(InvalidInput):
                self.planned(1 << i)
                return 1 << i
        return None

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


def proved_samples(sized: Sized, rho: float, epsilon: float | None) -> int | None:
    """Return how many samples, in all, the proof needs for this promise; None where this library has no such proof."""
    if provider(sized.algorithm) != OURS:
        return None
    promise = {"rho": rho} if "rho" in vars(sized.algorithm) else {}
    promise |= {"epsilon": epsilon} if epsilon is not None and bounds_loss(sized.algorithm) else {}
    try:
        promised = plan(sized.problem, replace(sized.algorithm, **sized.others | promise))
    except InvalidInput:  # nothing can be planned for it
        return None
    if not (promised.numbers.replicability_proved and promised.numbers.accuracy_proved):
        return None
    return int(promised.samples) if promised.samples < _UNPROVED else None


def bounds_loss(algorithm: Any) -> bool:
    """Whether the algorithm's own epsilon is the loss of its policy, and not the error of a model or of Q."""
    names = vars(algorithm)
    return "epsilon" in names and "norm" not in names and names.get("target", "policy") == "policy"


# --- losses -------------------------------------------------------------------------------------------------------


class Losses:
    """The losses of policies on a table, in values normalised to [0, 1]; each distinct policy is evaluated once.

    They are from the initial distribution, or where ``over`` is "worst", of the worst state.
    """

    def __init__(self, mdp: TabularMDP, over: str = "initial") -> None:
        self.mdp, self.over = mdp, over
        self._scale = Units.of(mdp).share(1.0)
        self._best = optimal_values(mdp)
        self._known: dict[str, float] = {}
        self.error = 2.0 * self._scale * self._best.error + 1e-9  # of planning, and of the evaluation of a policy
        lowest = mdp.reward_range[0] / (1.0 - mdp.gamma)
        self.largest = min(1.0, max(self._of(self._best.value - lowest) + self.error, _TINY))  # no policy loses more
        self.uniform = self.of(mdp.support.uniform())

    def of(self, policy: Any) -> float:
        """Return the loss of a policy: one action for each state, or (S, A) probabilities."""
        return max(0.0, self._of(self._best.value - evaluate_policy(self.mdp, policy).value))

    def estimate(self, result: AuditResult) -> Estimate | None:
        """Return the mean loss of a run, with an interval that holds at every look; None where runs have no policy.

        The runs of a shared seed are not independent, so each seed counts once, by its mean.
        """
        if "policy" not in result.levels:
            return None
        prints = [run.fingerprints.policy for run in result.runs]
        new = [mark for mark in dict.fromkeys(prints) if mark is not None and mark not in self._known]
        for fingerprint, policy in result.store.outputs("policy", new).items():
            self._known[fingerprint] = self.of(policy)
        losses = np.array([self.largest if mark is None else self._known[mark] for mark in prints])  # failed: the worst
        scaled = np.clip(losses.reshape(-1, result.spec.runs_per_seed).mean(axis=1) / self.largest, 0.0, 1.0)
        low, high = mean_at_every_look(scaled, result.spec.confidence)
        mean = float(losses.mean())
        low = max(0.0, min(mean, low * self.largest) - self.error)
        return Estimate(mean, low, min(1.0, max(mean, high * self.largest) + self.error))

    def _of(self, lost: Floats) -> float:
        return self._scale * (float(lost.max()) if self.over == "worst" else math.fsum(self.mdp.initial * lost))
