"""How many samples it takes: ``calibrate`` one algorithm on a problem, or ``compare`` all rules and algorithms.

Both are one search, over (rule, samples). A comparison is a list of calibrations whose intervals all hold at once, and
the advice which of them to use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from replicable_rl.algorithms import PlugInPolicy, ReplicableApproximateMDP, ReplicablePhasedVI, ReplicableRMax
from replicable_rl.audit import audit_spec, opened_store, run_audits
from replicable_rl.audit.audits import StoreLike
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.canonical import Json, decimal
from replicable_rl.diagnose.document import calibration_document, calibration_sentence, comparison_document
from replicable_rl.diagnose.search import (
    Losses,
    Point,
    Question,
    Sized,
    bounds_loss,
    look_at,
    proved_samples,
    published_spec,
    search,
    smallest,
)
from replicable_rl.errors import (
    InvalidInput,
    check_choice,
    check_flag,
    check_in_open_interval,
    check_integer,
    did_you_mean,
    shown,
    speaking_as,
)
from replicable_rl.logs import Dataset
from replicable_rl.problem.source import Generative, Source, as_source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import announce, bar_where_it_is_seen, within
from replicable_rl.report import Block, Documented
from replicable_rl.runs import Algorithm, ObjectSpec, check_level, in_order, usual_level
from replicable_rl.store import RunStore
from replicable_rl.wording import listed, number, percent

PLAIN, PUBLISHED, DEFAULT = "greedy", "published", "affordable"
_RULES = {
    PLAIN: "nothing",
    DEFAULT: "policy",
    "tolerance": "policy",
    "rounded": "Q, policy",
    "gumbel": "policy",
    PUBLISHED: "policy, given cuts",
}
_REPLICATES = _RULES | {"rpvi": "Q, policy", "model": "model, Q, policy", "rmax": "model, Q, policy"}
_EPSILON = 0.05
_LARGEST_MODEL_ERROR = 0.5
_MOST_PAIRS = 10**6
_CLOSE = 1.25  # sizes are found to a factor of about 1.2: nearer than this, they are as good as equal
_PLAIN_ENOUGH = 2.0  # the plain model may need so many times the samples of a rule, and is still the simplest answer


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
        What was asked; ``epsilon`` is None where losses were not asked about.
    level : str
        What two runs must have in common.
    levels : tuple of str
        What else the runs have that could be compared.
    over : {"initial", "worst"}
        Which loss it is.
    theory : int or None
        Samples, in all, that the proof needs for the same promise; None where there is no such proof.
    pairs : int
        Pairs (s, a) of the problem.
    gain : float or None
        What the best policy gains over the uniform one, in values normalised to [0, 1]; None where the problem is no
        table.
    unit : float
        One normalised unit in the user's own.
    published : bool
        Whether the first run of every pair published cuts for the second.
    name, replicates : str
        In a comparison: what its line is called, and what the rule or the algorithm is made to have the same twice.
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    size_name: str
    points: tuple[Point, ...]
    rho: float
    epsilon: float | None
    confidence: float
    level: str
    levels: tuple[str, ...]
    over: str
    theory: int | None
    pairs: int
    gain: float | None
    unit: float
    published: bool = False
    name: str = ""
    replicates: str = ""

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

    @property
    def per_pair(self) -> float | None:
        """The same for each pair (s, a), on average."""
        return None if self.samples is None else self.samples / self.pairs

    @property
    def chosen(self) -> ObjectSpec | None:
        """The algorithm with the size that was found."""
        params = dict(self.algorithm.params) | {self.size_name: self.size}
        return None if self.size is None else ObjectSpec(self.algorithm.id, params)

    @property
    def loss(self) -> float | None:
        """The mean loss at this size, in values normalised to [0, 1]."""
        return None if self.point is None or self.point.loss is None else float(self.point.loss)

    @property
    def loss_in_units(self) -> float | None:
        """The same in the user's units."""
        return None if self.loss is None else self.loss * self.unit

    @property
    def loss_share(self) -> float | None:
        """The same as a share of what the best policy gains over the uniform one; None where that is nothing."""
        return None if self.loss is None or not self.gain or self.gain < 1e-9 else self.loss / self.gain

    def document(self) -> list[Block]:
        """Return the curve, what was found, and what the proof needs."""
        return calibration_document(self)

    def __repr__(self) -> str:
        verdict = {True: f"{self.size_name}={number(self.size)}", False: "not met", None: "undecided"}[self.met]
        tried = f"{len(self.points)} sizes tried"
        return f"Calibration({self.problem.text}, {self.algorithm.id}: {verdict}, {tried}, {percent(self.confidence)})"

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON; counts are strings, for they may pass 2**53."""
        return {
            "format": "replicable-rl calibration",
            "version": 1,
            "name": self.name,
            "replicates": self.replicates,
            "problem": self.problem.to_json(),
            "algorithm": self.algorithm.to_json(),
            "published": self.published,
            "asked": {"rho": self.rho, "epsilon": self.epsilon, "level": self.level, "over": self.over},
            "confidence": self.confidence,
            "met": self.met,
            "size": {"name": self.size_name, "value": decimal(self.size)},
            "samples": decimal(self.samples),
            "per_pair": self.per_pair,
            "theory": decimal(self.theory),
            "loss": {"normalised": self.loss, "in_units": self.loss_in_units, "share_of_gain": self.loss_share},
            "gain_over_uniform": self.gain,
            "unit": self.unit,
            "levels": list(self.levels),
            "points": [point.to_json() for point in self.points],
        }


@dataclass(frozen=True)
class Comparison(Documented):
    """Rules and algorithms side by side on one problem; immutable.

    Attributes
    ----------
    problem : ObjectSpec
        What was solved.
    rows : tuple of Calibration
        A line for each rule and algorithm. All intervals of all lines hold at once, with the confidence.
    rho, epsilon, delta, confidence : float
        What was asked.
    gain : float or None
        What the best policy gains over the uniform one, in values normalised to [0, 1]; None where the problem is no
        table.
    publish : bool
        Whether the first lab may publish something for the others.
    recommended : str or None
        The name of the line to use; None where none meets all that is asked.
    why : str
        The reason, in a sentence.
    """

    problem: ObjectSpec
    rows: tuple[Calibration, ...]
    rho: float
    epsilon: float
    delta: float
    confidence: float
    gain: float | None
    publish: bool
    recommended: str | None
    why: str

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

    def __repr__(self) -> str:
        advice = f"{self.recommended} recommended" if self.recommended else "nothing recommended"
        return f"Comparison({self.problem.text}: {len(self.rows)} lines, {advice}, {percent(self.confidence)})"

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON."""
        return {
            "format": "replicable-rl comparison",
            "version": 1,
            "problem": self.problem.to_json(),
            "asked": {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta, "publish": self.publish},
            "confidence": self.confidence,
            "gain_over_uniform": self.gain,
            "recommended": self.recommended,
            "why": self.why,
            "rows": [row.to_json() for row in self.rows],
        }


@bar_where_it_is_seen()
@speaking_as("calibrate", "audit")
def calibrate(
    problem: Any,
    algorithm: Algorithm,
    rho: float | None = None,
    epsilon: float | None = None,
    *,
    confidence: float = 0.95,
    level: str | None = None,
    over: str | None = None,
    size: str | None = None,
    start: int | None = None,
    most: int | None = None,
    shared_seeds: int = 600,
    published: bool = False,
    seed: int = 0,
    store: StoreLike = None,
    n_jobs: int | None = None,
) -> Calibration:
    """Find the smallest sample size at which two runs agree often enough and the policy loses little enough.

    Sizes are doubled until two in a row are met, then bisected to a factor of about 1.2. What is returned is the
    smallest size tried that is met and such that all larger sizes tried are met.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or a source of your own
        What to solve. Losses are known, exactly, where it is a table.
    algorithm : Algorithm
        A dataclass with a parameter that says how many samples are drawn; its value is replaced.
    rho : float, optional
        Two runs must agree with probability 1 - rho; None: what the algorithm promises.
    epsilon : float, optional
        The mean loss must be at most this, in values normalised to [0, 1]; None: what the algorithm promises of its
        policy.
    confidence : float
        Of all intervals of the search together.
    level : str, optional
        What two runs must have in common; None: the policy, or else the last level that runs have.
    over : {"initial", "worst"}, optional
        Whether the loss is that from the initial distribution, or of the worst state; None: what the algorithm has.
    size : str, optional
        The parameter; None: ``samples``, ``calls``, ``episodes`` or ``budget``, whichever there is.
    start, most : int, optional
        The smallest and the largest size that may be tried.
    shared_seeds : int
        The most shared seeds, each with a pair of runs, at one size. What they leave undecided counts as not met.
    published : bool
        Of every pair the first run publishes cuts, and the second follows them on its own data; for `PlugInPolicy`.
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
    _check_problem(owner, problem, "how many rows like these it takes: .data_needed()")
    if level is not None:
        check_level(owner, level)
    if check_flag(owner, "published", published) and not isinstance(algorithm, PlugInPolicy):
        rule = "published=True is for PlugInPolicy, whose cuts can be published"
        raise InvalidInput(f"{owner}: {rule}, got {shown(algorithm)}.")
    sized = Sized(problem, algorithm, size)
    promised: dict[str, Any] = vars(algorithm)
    rho = promised.get("rho") if rho is None else rho
    if rho is None:
        rule = f"{type(algorithm).__name__} promises no rho, so it must be given, such as rho=0.2"
        raise InvalidInput(f"{owner}: {rule}.")
    rho = check_in_open_interval(owner, "rho", rho)
    over = check_choice(owner, "over", promised.get("over", "initial") if over is None else over, ("initial", "worst"))
    epsilon = promised["epsilon"] if epsilon is None and bounds_loss(algorithm) else epsilon
    epsilon = None if epsilon is None else check_in_open_interval(owner, "epsilon", epsilon)
    losses = Losses(problem, over) if isinstance(problem, TabularMDP) else None
    question = Question(rho, None if losses is None else epsilon, confidence, shared_seeds)
    sizes = sized.sizes(start, most)
    each = 1.0 - (1.0 - confidence) / (len(sizes) * (1 if question.epsilon is None else 2))  # both at every size
    settings: dict[str, Any] = {"confidence": each, "rho": rho, "require": 1.0 - rho, "seed": seed}
    settings |= {} if level is None else {"level": level}
    make: Callable[..., AuditSpec] = published_spec if published else audit_spec

    def spec(value: int, pairs: int) -> AuditSpec:
        return make(problem, sized.at(value), in_store=store is not None, shared_seeds=pairs, **settings)

    with opened_store(store) as opened:
        runs = _Runs(spec, question, sized.name, level, opened, losses, n_jobs)
        points = search(sizes, lambda value: look_at(value, question, runs.measure))
    identity = spec(sizes[0], 1)
    params = {name: value for name, value in identity.algorithm.params.items() if name != sized.name}
    return Calibration(
        problem=identity.problem,
        algorithm=ObjectSpec(identity.algorithm.id, params),
        size_name=sized.name,
        points=points,
        rho=rho,
        epsilon=question.epsilon,
        confidence=confidence,
        level=usual_level(runs.levels) if level is None else level,
        levels=runs.levels,
        over="initial" if losses is None else over,
        theory=None if published else proved_samples(problem, algorithm, rho, question.epsilon),
        pairs=problem.support.pairs,
        gain=None if losses is None else losses.uniform,
        unit=1.0 if losses is None else losses.units.span,
        published=published,
    )


@dataclass
class _Runs:
    """Makes the runs of a size, and says what they show."""

    spec: Callable[[int, int], AuditSpec]
    question: Question
    size_name: str
    level: str | None
    store: RunStore
    losses: Losses | None
    n_jobs: int | None
    levels: tuple[str, ...] = ()

    def measure(self, size: int, pairs: int) -> Point:
        """Make so many pairs of runs, those that the store lacks, and measure agreement and loss."""
        with within(f"{self.size_name}={number(size)}"):
            (result,) = run_audits([self.spec(size, pairs)], self.store, n_jobs=self.n_jobs)
        self.levels = result.levels
        drawn = [run.samples for run in result.runs if run.samples is not None]
        samples = max(drawn) if len(drawn) == len(result.runs) else None
        point = Point(size, samples, pairs, result.agreement(self.level).every_look)
        of_runs = None if self.losses is None else self.losses.of_runs(result)
        if self.losses is not None and of_runs is not None:
            loss = self.losses.estimate(of_runs, result.spec.confidence)
            point = replace(point, loss=loss, largest_loss=float(of_runs.max()))
        return replace(point, verdict=self.question.verdict(point, not result.unsampled))


@bar_where_it_is_seen()
@speaking_as("compare", "audit", "calibrate")
def compare(
    problem: Any,
    rho: float = 0.2,
    epsilon: float | None = None,
    *,
    share: float | None = None,
    delta: float = 0.01,
    confidence: float = 0.95,
    algorithms: Iterable[Any] | None = None,
    over: str = "initial",
    horizon: int | None = None,
    publish: bool = False,
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
    epsilon : float, optional
        The policy may lose so much, in values normalised to [0, 1]; 0.05, unless ``share`` is given.
    share : float, optional
        The same as a share of what the best policy gains over the uniform one.
    delta : float
        Of the algorithms' own promises about accuracy.
    confidence : float
        Of all intervals of all lines together.
    algorithms : list, optional
        Which to compare: ids of rules, ``"rpvi"``, ``"model"``, ``"rmax"``, or algorithms of your own; None: all of
        them, R-max if a horizon is given.
    over : {"initial", "worst"}
        Whether the loss is that from the initial distribution, or of the worst state.
    horizon : int, optional
        Steps of an episode, for R-max and for problems that can only be played.
    publish : bool
        Whether the first lab may publish tie-breaks for the others; published cuts are recommended only then.
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
    _check_problem(owner, problem, "what every rule would do with it: .rules()")
    rho, delta = check_in_open_interval(owner, "rho", rho), check_in_open_interval(owner, "delta", delta)
    confidence, publish = check_in_open_interval(owner, "confidence", confidence), check_flag(owner, "publish", publish)
    over = check_choice(owner, "over", over, ("initial", "worst"))
    gain = Losses(problem, over).uniform if isinstance(problem, TabularMDP) else None
    epsilon = _allowed_loss(epsilon, share, gain)
    chosen = _candidates(problem, algorithms, (epsilon, delta, rho), over, horizon)
    asked: dict[str, Any] = {"over": over, "start": start, "most": most, "shared_seeds": shared_seeds, "seed": seed}
    asked |= {"confidence": 1.0 - (1.0 - confidence) / len(chosen), "n_jobs": n_jobs}
    rows: list[Calibration] = []
    with opened_store(store) as opened:
        asked["store"] = None if store is None else opened
        for name, algorithm in chosen.items():
            with within(name):
                row = calibrate(problem, algorithm, rho, epsilon, published=name == PUBLISHED, **asked)
            replicates = _REPLICATES.get(name) or ", ".join(in_order(row.levels))
            rows.append(replace(row, name=name, replicates=replicates))
            announce(f"{name}: {calibration_sentence(rows[-1])}")
    recommended, why = _advice(rows, publish)
    return Comparison(problem.spec, tuple(rows), rho, epsilon, delta, confidence, gain, publish, recommended, why)


def _check_problem(owner: str, problem: Any, what: str) -> None:
    if isinstance(problem, Dataset):
        raise InvalidInput(f"{owner}: draws fresh samples, and a log has none. diagnose(data) says {what}.")
    if not isinstance(problem, Source):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"{owner}: problem must be a TabularMDP or a source, got {shown(problem)}.{hint}")


def _allowed_loss(epsilon: float | None, share: float | None, gain: float | None) -> float:
    if share is None:
        return check_in_open_interval("compare", "epsilon", _EPSILON if epsilon is None else epsilon)
    if epsilon is not None:
        raise InvalidInput("compare: epsilon and share both say how much may be lost. Give one of them.")
    share = check_in_open_interval("compare", "share", share)
    if gain is None or gain < 1e-9:
        why = "it is known of tables alone" if gain is None else "here no policy gains anything"
        raise InvalidInput(f"compare: share is of the gain over the uniform policy, and {why}. Give epsilon.")
    return min(share * gain, 1.0 - 1e-9)


# --- what is compared ---------------------------------------------------------------------------------------------


def _candidates(
    problem: Any, asked: Iterable[Any] | None, promise: tuple[float, float, float], over: str, horizon: int | None
) -> dict[str, Any]:
    """Return the algorithms by their names."""
    draws = isinstance(as_source(problem), Generative)
    if asked is None:
        asked = [*_RULES, *(("rpvi", "model") if draws else ()), *(() if horizon is None else ("rmax",))]
    if not isinstance(asked, (str, list, tuple)) or not asked:
        raise InvalidInput(f"compare: algorithms must be a list of names or algorithms, got {shown(asked)}.")
    chosen: dict[str, Any] = {}
    for algorithm in [asked] if isinstance(asked, str) else asked:
        if isinstance(algorithm, str):
            chosen[algorithm] = _made(algorithm, problem, promise, over, None if draws else horizon, horizon)
        elif isinstance(algorithm, Algorithm):
            name = algorithm.id.rpartition(".")[2]
            while name in chosen or name in _REPLICATES:
                name += "'"
            chosen[name] = algorithm
        else:
            raise InvalidInput(f"compare: algorithms must be names or algorithms, got {shown(algorithm)}.")
    return chosen


def _made(
    name: str, problem: Any, promise: tuple[float, float, float], over: str, played: int | None, horizon: int | None
) -> Algorithm:
    """Return a rule or an algorithm by its name."""
    epsilon, delta, rho = promise
    if name in _RULES:
        rule = DEFAULT if name == PUBLISHED else name
        return PlugInPolicy(epsilon, delta, rho, rule=rule, over=over, horizon=played)
    if name == "rpvi":
        return ReplicablePhasedVI(epsilon, delta, rho)
    if name == "model":
        # Rows that are 2e off in l1 move values by e/(1 - gamma) each way, so this e keeps the loss below epsilon.
        gamma = max(problem.gamma, 1e-9)
        e = min(epsilon * (1.0 - gamma) / (2.0 * gamma), _LARGEST_MODEL_ERROR)
        return ReplicableApproximateMDP(e, delta, rho, norm="l1")
    if name != "rmax":
        known = ", ".join(_REPLICATES)
        raise InvalidInput(
            f"compare: nothing is called {shown(name)}.{did_you_mean(name, _REPLICATES)} Known: {known}."
        )
    if horizon is None:
        raise InvalidInput("compare: R-max plays episodes, so it needs their length, such as horizon=50.")
    return ReplicableRMax(epsilon, delta, rho, horizon)


# --- which to use -------------------------------------------------------------------------------------------------


def _advice(rows: list[Calibration], publish: bool) -> tuple[str | None, str]:
    """Choose a line, and say why in a sentence or two."""
    met = {row.name: row.samples for row in rows if row.met and row.samples is not None}
    usable = {name: samples for name, samples in met.items() if publish or name != PUBLISHED}
    both = "the agreement that is asked (losses are not known here)" if rows[0].gain is None else "all that is asked"
    open_lines = [row.name for row in rows if row.met is None]
    doubt = f" Of {listed(open_lines)} it cannot be told; more shared seeds would tell." if open_lines else ""
    if not usable:
        also = f" Published cuts do, from {number(met[PUBLISHED])} samples: ask with publish=True." if met else ""
        return None, f"Nothing is shown to meet {both} at the sizes that were tried.{also}{doubt}"
    fewest = min(usable.values())
    if PLAIN in usable and usable[PLAIN] <= _PLAIN_ENOUGH * fewest:
        chosen = PLAIN
        why = f"the plain model meets {both} from {number(usable[PLAIN])} samples"
        why += "; no rule that may be used is shown to need less than half of that" if len(rows) > 1 else ""
    else:
        close = [name for name in usable if usable[name] <= _CLOSE * fewest]
        chosen = DEFAULT if DEFAULT in close else close[0]
        why = f"it meets {both} from {number(usable[chosen])} samples"
        plain = next((row for row in rows if row.name == PLAIN and row.met is not None), None)
        if plain is not None:
            needs = f"needs {number(plain.samples)}" if plain.samples is not None else "does not"
            why += f", and the plain model {needs}"
    why = f"Use {chosen}: {why}."
    if not publish and PUBLISHED in met and met[PUBLISHED] * _CLOSE < usable[chosen]:
        why += f" Where the first lab may publish cuts, {PUBLISHED} needs {number(met[PUBLISHED])}."
    return chosen, why + doubt
