"""``compare``: every rule and algorithm side by side on one problem, and which to use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replicable_rl.audit.audits import StoreLike, opened_store
from replicable_rl.diagnose.advice import recommended
from replicable_rl.diagnose.calibrating import calibrate, refuse_log
from replicable_rl.diagnose.candidates import PUBLISHED, REPLICATES, candidates
from replicable_rl.diagnose.comparison import Compared, Comparison
from replicable_rl.diagnose.losses import Losses
from replicable_rl.errors import InvalidInput, check_choice, check_flag, check_in_open_interval, shown, speaking_as
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar_where_it_is_seen, within
from replicable_rl.runs import in_order

_EPSILON = 0.05


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
    refuse_log(owner, problem, "what every rule would do with it: .rules()")
    if not isinstance(problem, Source):
        hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
        raise InvalidInput(f"{owner}: problem must be a TabularMDP or a source, got {shown(problem)}.{hint}")
    rho, delta = check_in_open_interval(owner, "rho", rho), check_in_open_interval(owner, "delta", delta)
    confidence, publish = check_in_open_interval(owner, "confidence", confidence), check_flag(owner, "publish", publish)
    over = check_choice(owner, "over", over, ("initial", "worst"))
    losses = Losses(problem, over) if isinstance(problem, TabularMDP) else None
    epsilon = _epsilon(epsilon, share, losses)
    chosen = candidates(problem, algorithms, (epsilon, delta, rho), over, horizon)
    each = 1.0 - (1.0 - confidence) / len(chosen)
    rows = []
    with opened_store(store) as opened:
        for label, algorithm in chosen.items():
            with within(label):
                found = calibrate(
                    problem,
                    algorithm,
                    rho,
                    epsilon,
                    confidence=each,
                    over=over,
                    start=start,
                    most=most,
                    shared_seeds=shared_seeds,
                    published=label == PUBLISHED,
                    seed=seed,
                    store=None if store is None else opened,
                    n_jobs=n_jobs,
                )
            rows.append(Compared(label, REPLICATES.get(label) or ", ".join(in_order(found.levels)), found))
    name, why = recommended(rows, publish, measured_loss=losses is not None)
    gain, unit = (None, 1.0) if losses is None else (losses.uniform, losses.units.span)
    return Comparison(
        problem=problem.spec,
        rows=tuple(rows),
        rho=rho,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        gain=gain,
        unit=unit,
        publish=publish,
        recommended=name,
        why=why,
    )


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
