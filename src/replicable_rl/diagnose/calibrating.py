"""``calibrate``: the smallest sample size at which two runs agree often enough, and lose little enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.audit import AuditResult, audit_spec, opened_store, run_audits
from replicable_rl.audit.audits import StoreLike
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.diagnose.calibration import Calibration
from replicable_rl.diagnose.losses import Losses
from replicable_rl.diagnose.published import published_spec
from replicable_rl.diagnose.search import Question, Seen, look_at, search
from replicable_rl.diagnose.sizes import Sized, bounds_loss, proved_samples
from replicable_rl.errors import (
    InvalidInput,
    check_choice,
    check_flag,
    check_in_open_interval,
    check_integer,
    shown,
    speaking_as,
)
from replicable_rl.logs import Dataset
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar_where_it_is_seen, within
from replicable_rl.runs import Algorithm, ObjectSpec, check_level, usual_level
from replicable_rl.store import RunStore
from replicable_rl.wording import number

_MOST_PAIRS = 10**6


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
    published = check_flag(owner, "published", published)
    _check(problem, algorithm, level, published)
    rho, epsilon = _asked(algorithm, rho, epsilon)
    sized = Sized.of(problem, algorithm, size, owner)
    sizes = sized.sizes(problem, start, most, owner)
    losses = _losses(problem, algorithm, over)
    epsilon = None if losses is None else epsilon
    each = 1.0 - (1.0 - confidence) / (len(sizes) * (1 if epsilon is None else 2))  # both are asked at every size
    question = Question(rho, epsilon, each, shared_seeds)
    settings: dict[str, Any] = {"confidence": each, "rho": rho, "require": 1.0 - rho, "seed": seed}
    settings |= {} if level is None else {"level": level}
    make: Callable[..., AuditSpec] = published_spec if published else audit_spec

    def spec(value: int, pairs: int) -> AuditSpec:
        return make(problem, sized.at(value), in_store=store is not None, shared_seeds=pairs, **settings)

    with opened_store(store) as opened:
        runs = _Runs(spec, sized.name, level, opened, losses, n_jobs)
        points = search(sizes, lambda value: look_at(value, question, lambda pairs: runs.measure(value, pairs)))
    named = spec(sizes[0], 1)
    params = {name: value for name, value in named.algorithm.params.items() if name != sized.name}
    return Calibration(
        problem=named.problem,
        algorithm=ObjectSpec(named.algorithm.id, params),
        size_name=sized.name,
        points=points,
        rho=rho,
        epsilon=epsilon,
        confidence=confidence,
        level=usual_level(runs.levels) if level is None else level,
        levels=runs.levels,
        over="initial" if losses is None else losses.over,
        theory=None if published else proved_samples(problem, algorithm, rho, epsilon),
        pairs=problem.support.pairs,
        gain=None if losses is None else losses.uniform,
        unit=1.0 if losses is None else losses.units.span,
        published=published,
    )


class _Runs:
    """Makes the runs of a size, and says what they show."""

    def __init__(
        self,
        spec: Callable[[int, int], AuditSpec],
        size_name: str,
        level: str | None,
        store: RunStore,
        losses: Losses | None,
        n_jobs: int | None,
    ) -> None:
        self._spec, self._size_name, self._level = spec, size_name, level
        self._store, self._losses, self._n_jobs = store, losses, n_jobs
        self.levels: tuple[str, ...] = ()

    def measure(self, size: int, pairs: int) -> Seen:
        """Make so many pairs of runs, those that the store lacks, and measure agreement and loss."""
        result: AuditResult
        with within(f"{self._size_name}={number(size)}"):
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


def _asked(algorithm: Any, rho: float | None, epsilon: float | None) -> tuple[float, float | None]:
    """Return what is asked, or else what the algorithm promises."""
    rho = getattr(algorithm, "rho", None) if rho is None else rho
    if rho is None:
        raise InvalidInput(
            f"calibrate: {type(algorithm).__name__} promises no rho, so it must be given, such as rho=0.2."
        )
    if epsilon is None and bounds_loss(algorithm):
        epsilon = algorithm.epsilon
    rho = check_in_open_interval("calibrate", "rho", rho)
    return rho, None if epsilon is None else check_in_open_interval("calibrate", "epsilon", epsilon)


def _losses(problem: Any, algorithm: Any, over: str | None) -> Losses | None:
    """Return what policies lose, where that is known."""
    if not isinstance(problem, TabularMDP):
        return None
    over = getattr(algorithm, "over", "initial") if over is None else over
    return Losses(problem, check_choice("calibrate", "over", over, ("initial", "worst")))


def refuse_log(owner: str, problem: Any, what: str) -> None:
    """Refuse a log, which has no fresh samples, and say what to ask instead."""
    if isinstance(problem, Dataset):
        raise InvalidInput(f"{owner}: draws fresh samples, and a log has none. diagnose(data) says {what}.")


def _check(problem: Any, algorithm: Any, level: str | None, published: bool) -> None:
    if level is not None:
        check_level("calibrate", level)
    refuse_log("calibrate", problem, "how many rows like these it takes: .data_needed()")
    if not isinstance(problem, Source):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"calibrate: problem must be a TabularMDP or a source, got {shown(problem)}.{hint}")
    if published and not isinstance(algorithm, PlugInPolicy):
        raise InvalidInput(
            f"calibrate: published=True is for PlugInPolicy, whose cuts can be published, got {shown(algorithm)}."
        )
