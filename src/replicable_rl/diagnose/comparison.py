"""``compare``: every rule and algorithm side by side on one problem, and which to use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from replicable_rl.algorithms import PlugInPolicy, ReplicableApproximateMDP, ReplicablePhasedVI, ReplicableRMax
from replicable_rl.audit.api import StoreLike, opened_store
from replicable_rl.canonical import Json, decimal
from replicable_rl.diagnose.calibration import Calibration, calibrate
from replicable_rl.diagnose.losses import Losses
from replicable_rl.display import shown as displayed
from replicable_rl.errors import InvalidInput, check_choice, check_flag, check_in_open_interval, did_you_mean, shown
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import ObjectSpec, in_order
from replicable_rl.sampling import Problem
from replicable_rl.solve import Algorithm
from replicable_rl.wording import listed, number, percent

PLAIN, PUBLISHED, SOFTMAX, DEFAULT = "greedy", "published", "softmax", "affordable"
_RULES = (PLAIN, DEFAULT, "tolerance", "rounded", "gumbel", "perturbed", PUBLISHED, SOFTMAX)
_PHASED, _MODEL, _RMAX = "rpvi", "model", "rmax"
_NAMES = (*_RULES, _PHASED, _MODEL, _RMAX)
_REPLICATES = {
    PLAIN: "nothing",
    DEFAULT: "policy",
    "tolerance": "policy",
    "rounded": "Q, policy",
    "gumbel": "policy",
    "perturbed": "policy",
    PUBLISHED: "policy, given cuts",
    SOFTMAX: "never identical",
    _PHASED: "Q, policy",
    _MODEL: "model, Q, policy",
    _RMAX: "model, Q, policy",
}
_EPSILON = 0.05
_CLOSE = 1.25  # sizes are found to a factor of about 1.2: nearer than this, they are as good as equal
_PLAIN_ENOUGH = 2.0  # the plain model may need so many times the samples of a rule, and is still the simplest answer
_LARGEST_MODEL_ERROR = 0.5


@dataclass(frozen=True)
class Compared:
    """One line of a comparison.

    Attributes
    ----------
    name : str
        Of the rule or the algorithm.
    replicates : str
        What it is made to have the same in two runs.
    calibration : Calibration or None
        What was measured; None for softmax, whose policies are never identical.
    """

    name: str
    replicates: str
    calibration: Calibration | None

    @property
    def met(self) -> bool | None:
        """Whether a size was found that meets all that is asked; None where that cannot be told."""
        return False if self.calibration is None else self.calibration.met

    @property
    def samples(self) -> int | None:
        """Samples in all, measured."""
        return None if self.calibration is None else self.calibration.samples

    @property
    def theory(self) -> int | None:
        """Samples in all that the proof needs; None where there is no proof."""
        return None if self.calibration is None else self.calibration.theory

    @property
    def loss(self) -> float | None:
        """The mean loss at this size, in values normalised to [0, 1]."""
        point = None if self.calibration is None else self.calibration.point
        return None if point is None or point.loss is None else float(point.loss)

    @property
    def loss_in_units(self) -> float | None:
        """The same in the user's units."""
        return None if self.loss is None or self.calibration is None else self.loss * self.calibration.unit

    @property
    def loss_share(self) -> float | None:
        """The same as a share of what the best policy gains over the uniform one; None where that is nothing."""
        gain = None if self.calibration is None else self.calibration.gain
        return None if self.loss is None or not gain or gain < 1e-9 else self.loss / gain

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "replicates": self.replicates,
            "met": self.met,
            "samples": decimal(self.samples),
            "theory": decimal(self.theory),
            "loss": self.loss,
            "loss_in_units": self.loss_in_units,
            "loss_share": self.loss_share,
            "calibration": None if self.calibration is None else self.calibration.to_json(),
        }


@dataclass(frozen=True)
class Comparison:
    """Rules and algorithms side by side on one problem; immutable.

    Attributes
    ----------
    problem : ObjectSpec
        What was solved.
    rows : tuple of Compared
        A line for each rule and algorithm. All intervals of all lines hold at once, with the confidence.
    rho, epsilon, delta, confidence : float
        What was asked.
    gain : float or None
        What the best policy gains over the uniform one, in values normalised to [0, 1]; None where the problem is no
        table.
    unit : float
        One normalised unit in the user's own.
    publish : bool
        Whether the first lab may publish something for the others.
    recommended : str or None
        The name of the line to use; None where none meets all that is asked.
    why : str
        The reason, in a sentence.
    """

    problem: ObjectSpec
    rows: tuple[Compared, ...]
    rho: float
    epsilon: float
    delta: float
    confidence: float
    gain: float | None
    unit: float
    publish: bool
    recommended: str | None
    why: str

    def __getitem__(self, name: str) -> Compared:
        for row in self.rows:
            if row.name == name:
                return row
        known = [row.name for row in self.rows]
        raise InvalidInput(f"Comparison: there is no {shown(name)}. It has: {', '.join(known)}.")

    @property
    def met(self) -> bool | None:
        """Whether anything meets all that is asked; None where that cannot be told of all."""
        verdicts = [row.met for row in self.rows]
        return True if True in verdicts else None if None in verdicts else False

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        found = f"{self.recommended} recommended" if self.recommended else "nothing recommended"
        return f"Comparison({self.problem.text}: {len(self.rows)} lines, {found}, {percent(self.confidence)})"

    def table(self) -> str:
        """Return the comparison as text, 80 columns wide."""
        text: str = displayed("comparison table", self)
        return text

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw measured and proved samples of every line to a PNG, SVG or PDF file."""
        displayed("comparison figure", self, path)

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON; counts are strings, for they may pass 2**53."""
        return {
            "format": "replicable-rl comparison",
            "version": 1,
            "problem": self.problem.to_json(),
            "asked": {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta, "publish": self.publish},
            "confidence": self.confidence,
            "gain_over_uniform": self.gain,
            "unit": self.unit,
            "recommended": self.recommended,
            "why": self.why,
            "rows": [row.to_json() for row in self.rows],
        }


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

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or any GenerativeModel or EpisodicModel
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
    if isinstance(problem, str) or not isinstance(problem, (TabularMDP, Problem)):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"{owner}: problem must be a TabularMDP or a sampler, got {shown(problem)}.{hint}")
    rho, delta = check_in_open_interval(owner, "rho", rho), check_in_open_interval(owner, "delta", delta)
    confidence, publish = check_in_open_interval(owner, "confidence", confidence), check_flag(owner, "publish", publish)
    over = check_choice(owner, "over", over, ("initial", "worst"))
    losses = Losses(problem, over) if isinstance(problem, TabularMDP) else None
    epsilon = _epsilon(epsilon, share, losses)
    chosen = _chosen(problem, algorithms, (epsilon, delta, rho), over, horizon)
    each = 1.0 - (1.0 - confidence) / len(chosen)
    rows = []
    with opened_store(store) as opened:
        for name, algorithm in chosen.items():
            found = None
            if name != SOFTMAX:
                found = calibrate(
                    problem,
                    algorithm,
                    rho,
                    epsilon,
                    confidence=each,
                    start=start,
                    most=most,
                    shared_seeds=shared_seeds,
                    published=name == PUBLISHED,
                    seed=seed,
                    store=None if store is None else opened,
                    n_jobs=n_jobs,
                )
            rows.append(Compared(name, _REPLICATES.get(name) or _levels(found), found))
    recommended, why = _recommended(rows, publish, measured_loss=losses is not None)
    gain, unit = (None, 1.0) if losses is None else (losses.uniform, losses.units.span)
    return Comparison(problem.spec, tuple(rows), rho, epsilon, delta, confidence, gain, unit, publish, recommended, why)


def _epsilon(epsilon: float | None, share: float | None, losses: Losses | None) -> float:
    if share is None:
        return check_in_open_interval("compare", "epsilon", _EPSILON if epsilon is None else epsilon)
    if epsilon is not None:
        raise InvalidInput("compare: epsilon and share both say how much may be lost. Give one of them.")
    share = check_in_open_interval("compare", "share", share)
    if losses is None:
        raise InvalidInput("compare: share needs a table, for nobody knows the gain of a simulator. Give epsilon.")
    if losses.uniform < 1e-9:
        raise InvalidInput(
            "compare: share is of the gain over the uniform policy, and here no policy gains anything. Give epsilon."
        )
    return min(share * losses.uniform, 1.0 - 1e-9)


def _chosen(
    problem: Any, asked: Iterable[Any] | None, promise: tuple[float, float, float], over: str, horizon: int | None
) -> dict[str, Any]:
    """Return the algorithms by their names."""
    draws = isinstance(problem, TabularMDP) or hasattr(problem, "draw")
    if asked is None:
        asked = [*_RULES, *((_PHASED, _MODEL) if draws else ()), *(() if horizon is None else (_RMAX,))]
    if isinstance(asked, str):
        asked = [asked]
    makers = _makers(problem, promise, over, None if draws else horizon, horizon)
    chosen: dict[str, Any] = {}
    for one in asked:
        if isinstance(one, str):
            if one not in makers:
                raise InvalidInput(
                    f"compare: nothing is called {shown(one)}.{did_you_mean(one, _NAMES)} Known: {', '.join(_NAMES)}."
                )
            name, algorithm = one, makers[one]()
        elif isinstance(one, Algorithm) and not isinstance(one, type):
            name, algorithm = str(getattr(one, "id", type(one).__name__)), one
        else:
            raise InvalidInput(f"compare: algorithms must be names or algorithms, got {shown(one)}.")
        while name in chosen:
            name += "'"
        chosen[name] = algorithm
    if not chosen:
        raise InvalidInput("compare: algorithms must name at least one, got an empty list.")
    return chosen


def _makers(
    problem: Any, promise: tuple[float, float, float], over: str, played: int | None, horizon: int | None
) -> dict[str, Callable[[], Any]]:
    epsilon, delta, rho = promise
    made: dict[str, Callable[[], Any]] = {}

    def plug_in(rule: str) -> Callable[[], Any]:
        usual: dict[str, Any] = {"over": over, "horizon": played}
        return lambda: PlugInPolicy(epsilon, delta, rho, rule=DEFAULT if rule == PUBLISHED else rule, **usual)

    for rule in _RULES:
        made[rule] = plug_in(rule)
    made[_PHASED] = lambda: ReplicablePhasedVI(epsilon, delta, rho)
    # Rows that are 2e off in l1 move values by e/(1 - gamma) each way, so this e keeps the loss below epsilon.
    gamma = max(problem.gamma, 1e-9)
    e = min(epsilon * (1.0 - gamma) / (2.0 * gamma), _LARGEST_MODEL_ERROR)
    made[_MODEL] = lambda: ReplicableApproximateMDP(e, delta, rho, norm="l1")
    made[_RMAX] = lambda: _rmax(promise, horizon)
    return made


def _rmax(promise: tuple[float, float, float], horizon: int | None) -> ReplicableRMax:
    if horizon is None:
        raise InvalidInput("compare: R-max plays episodes, so it needs their length, such as horizon=50.")
    return ReplicableRMax(*promise, horizon)


def _levels(found: Calibration | None) -> str:
    return "" if found is None else ", ".join(in_order(found.levels))


def _recommended(rows: list[Compared], publish: bool, *, measured_loss: bool) -> tuple[str | None, str]:
    """Choose a line, and say why in a sentence."""
    met = {row.name: row.samples for row in rows if row.met and row.samples is not None}
    usable = {name: samples for name, samples in met.items() if publish or name != PUBLISHED}
    both = "all that is asked" if measured_loss else "the agreement that is asked (losses are not known here)"
    if not usable:
        also = f" Published cuts do, from {number(met[PUBLISHED])} samples: ask with publish=True." if met else ""
        undecided = [row.name for row in rows if row.met is None]
        doubt = f" Of {listed(undecided)} it could not be told." if undecided else ""
        return None, f"Nothing here meets {both} at the sizes that were tried.{also}{doubt}"
    fewest = min(usable.values())
    cheapest = next(name for name in _by_preference(usable) if usable[name] <= _CLOSE * fewest)
    if PLAIN in usable and usable[PLAIN] <= _PLAIN_ENOUGH * fewest:
        said = (
            f"the plain model meets {both} from {number(usable[PLAIN])} samples; no rule needs less than half of that"
        )
        return PLAIN, f"Use {PLAIN}: {said}."
    plain = f"the plain model needs {number(met[PLAIN])}" if PLAIN in met else "the plain model does not"
    compared = f", and {plain}" if any(row.name == PLAIN for row in rows) else ""
    why = f"Use {cheapest}: it meets {both} from {number(usable[cheapest])} samples{compared}."
    if not publish and PUBLISHED in met and met[PUBLISHED] * _CLOSE < usable[cheapest]:
        why += f" Where the first lab may publish cuts, {PUBLISHED} needs {number(met[PUBLISHED])}."
    return cheapest, why


def _by_preference(names: Iterable[str]) -> list[str]:
    """Return names, the default rule first: of those that are as good as equal it is taken."""
    return sorted(names, key=lambda name: name != DEFAULT)
