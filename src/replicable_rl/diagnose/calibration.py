"""``calibrate``: the smallest sample size at which two runs agree often enough, and lose little enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replicable_rl.audit import AuditResult, audit_spec, opened_store, run_audits
from replicable_rl.audit.api import StoreLike
from replicable_rl.canonical import Json, decimal
from replicable_rl.diagnose.losses import Losses
from replicable_rl.diagnose.published import published_spec
from replicable_rl.diagnose.search import Point, Question, Seen, look_at, search, smallest
from replicable_rl.diagnose.sizes import Sized, bounds_loss, is_plug_in, proved_samples
from replicable_rl.display import shown as displayed
from replicable_rl.errors import InvalidInput, check_choice, check_flag, check_in_open_interval, check_integer, shown
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import AuditSpec, ObjectSpec, check_level
from replicable_rl.sampling import Problem
from replicable_rl.solve import Algorithm
from replicable_rl.store import RunStore
from replicable_rl.wording import number, percent

_MOST_PAIRS = 10**6


@dataclass(frozen=True)
class Calibration:
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
        What the best policy gains over the uniform one, in values normalised to [0, 1].
    unit : float
        One normalised unit in the user's own.
    published : bool
        Whether the first run of every pair published cuts for the second.
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

    @property
    def point(self) -> Point | None:
        """The smallest size tried that is met and such that all larger sizes tried are met; None if there is none."""
        return smallest(self.points)

    @property
    def met(self) -> bool | None:
        """Whether such a size was found; False if the largest is refuted, None if it cannot be told there."""
        if self.point is not None:
            return True
        return False if self.points[-1].verdict == "not met" else None

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
        return None if self.size is None else ObjectSpec(self.algorithm.id, self._params | {self.size_name: self.size})

    @property
    def _params(self) -> dict[str, Json]:
        return dict(self.algorithm.params)

    @property
    def asked(self) -> str:
        """What was asked, in words."""
        text = f"same {self.level} with probability at least {1.0 - self.rho:.6g}"
        return text if self.epsilon is None else f"{text}, mean loss at most {self.epsilon:.6g}"

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        found = f"{self.size_name}={number(self.size)}" if self.size is not None else _NOT_FOUND[self.met]
        tried = f"{len(self.points)} sizes tried"
        return f"Calibration({self.problem.text}, {self.algorithm.id}: {found}, {tried}, {percent(self.confidence)})"

    def table(self) -> str:
        """Return the curve as text, 80 columns wide."""
        text: str = displayed("calibration table", self)
        return text

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw agreement and loss over samples, with intervals and what the proof needs, to a PNG, SVG or PDF file."""
        displayed("calibration figure", self, path)

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON; counts are strings, for they may pass 2**53."""
        return {
            "format": "replicable-rl calibration",
            "version": 1,
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
            "gain_over_uniform": self.gain,
            "unit": self.unit,
            "levels": list(self.levels),
            "points": [point.to_json() for point in self.points],
        }


_NOT_FOUND = {False: "not met", None: "undecided"}


def calibrate(
    problem: Any,
    algorithm: Algorithm,
    rho: float | None = None,
    epsilon: float | None = None,
    *,
    confidence: float = 0.95,
    level: str = "policy",
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
    problem : TabularMDP, Simulator, EpisodicEnv, or any GenerativeModel or EpisodicModel
        What to solve. Losses are known, exactly, where it is a table.
    algorithm : Algorithm
        A dataclass with a parameter that says how many samples are drawn; its value is replaced.
    rho : float, optional
        Two runs must agree with probability 1 - rho; None: what the algorithm promises.
    epsilon : float, optional
        The mean loss must be at most this, in values normalised to [0, 1]; None: what the algorithm promises of its
        policy. It is the loss of the worst state where the algorithm has ``over="worst"``.
    confidence : float
        Of all intervals of the search together.
    level : str
        What two runs must have in common.
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
    >>> found = rr.calibrate(rr.make("two-goals-v1"), rr.PlugInPolicy(0.05, 0.01, 0.2), start=100, shared_seeds=400)
    >>> found.met, found.size, found.samples
    (True, 100, 3200)
    """
    owner = "calibrate"
    confidence = check_in_open_interval(owner, "confidence", confidence)
    shared_seeds = check_integer(owner, "shared_seeds", shared_seeds, low=1, high=_MOST_PAIRS)
    published = check_flag(owner, "published", published)
    _check(problem, algorithm, level, published)
    rho = _asked(algorithm, "rho", rho, owner)
    if rho is None:
        raise InvalidInput(
            f"{owner}: {type(algorithm).__name__} promises no rho, so it must be given, such as rho=0.2."
        )
    epsilon = _asked(algorithm, "epsilon", epsilon, owner) if epsilon is not None or bounds_loss(algorithm) else None
    sized = Sized.of(problem, algorithm, size, owner)
    sizes = sized.sizes(problem, start, most, owner)
    losses = None
    if isinstance(problem, TabularMDP):
        losses = Losses(problem, check_choice(owner, "over", getattr(algorithm, "over", "initial"), _OVER))
    epsilon = None if losses is None else epsilon
    each = 1.0 - (1.0 - confidence) / (len(sizes) * (1 if epsilon is None else 2))
    question = Question(rho, epsilon, each, shared_seeds)
    settings: dict[str, Any] = {"confidence": each, "level": level, "rho": rho, "require": 1.0 - rho}
    make: Callable[..., AuditSpec] = published_spec if published else audit_spec

    def spec(value: int, pairs: int) -> AuditSpec:
        in_store = store is not None
        return make(problem, sized.at(value), in_store=in_store, shared_seeds=pairs, seed=seed, **settings)

    with opened_store(store) as opened:
        runs = _Runs(spec, opened, losses, n_jobs, level)
        points = search(sizes, lambda value: look_at(value, question, lambda pairs: runs.measure(value, pairs)))
    named = spec(sizes[0], 1)
    params = {name: value for name, value in named.algorithm.params.items() if name != sized.name}
    return Calibration(
        named.problem,
        ObjectSpec(named.algorithm.id, params),
        sized.name,
        points,
        rho,
        epsilon,
        confidence,
        level,
        runs.levels,
        "initial" if losses is None else losses.over,
        None if published else proved_samples(problem, algorithm, rho, epsilon),
        problem.n_states * problem.n_actions,
        None if losses is None else losses.uniform,
        1.0 if losses is None else losses.units.span,
        published,
    )


_OVER = ("initial", "worst")


class _Runs:
    """Makes the runs of a size, and says what they show."""

    def __init__(
        self,
        spec: Callable[[int, int], AuditSpec],
        store: RunStore,
        losses: Losses | None,
        n_jobs: int | None,
        level: str,
    ) -> None:
        self._spec, self._store, self._losses, self._n_jobs, self._level = spec, store, losses, n_jobs, level
        self.levels: tuple[str, ...] = ()

    def measure(self, size: int, pairs: int) -> Seen:
        """Make so many pairs of runs, those that the store lacks, and measure agreement and loss."""
        result: AuditResult
        (result,) = run_audits([self._spec(size, pairs)], self._store, n_jobs=self._n_jobs)
        self.levels = result.levels
        agreement = result.agreement(self._level).every_look
        drawn = [run.samples for run in result.runs if run.samples is not None]
        samples = max(drawn) if len(drawn) == len(result.runs) else None
        of_runs = None if self._losses is None else self._losses.of_runs(result)
        if self._losses is None or of_runs is None:
            return Seen(agreement, samples=samples, sampled=not result.unsampled)
        loss = self._losses.estimate(of_runs, result.spec.confidence)
        return Seen(agreement, loss, float(of_runs.max()), samples, not result.unsampled)


def _asked(algorithm: Any, name: str, given: float | None, owner: str) -> float | None:
    """Return what is asked, or else what the algorithm promises."""
    value = getattr(algorithm, name, None) if given is None else given
    return None if value is None else check_in_open_interval(owner, name, value)


def _check(problem: Any, algorithm: Any, level: str, published: bool) -> None:
    check_level("calibrate", level)
    if isinstance(problem, str) or not isinstance(problem, (TabularMDP, Problem)):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"calibrate: problem must be a TabularMDP or a sampler, got {shown(problem)}.{hint}")
    if published and not is_plug_in(algorithm):
        raise InvalidInput(
            f"calibrate: published=True is for PlugInPolicy, whose cuts can be published, got {shown(algorithm)}."
        )
