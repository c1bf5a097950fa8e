"""The verb: ``collect(source, samples=..., keep="samples.npz")`` -> ``Dataset``."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicable_rl.collect.draws import SimulatorDraws, TableDraws
from replicable_rl.collect.gathered import MOST_STEPS
from replicable_rl.collect.kept import Kept
from replicable_rl.collect.stints import EnvStints
from replicable_rl.errors import InvalidFile, InvalidInput, check_integer, shown
from replicable_rl.files import locked
from replicable_rl.mdp import TabularMDP, pairs_of
from replicable_rl.progress import report
from replicable_rl.progress_bar import bar_where_it_is_seen
from replicable_rl.randomness import MAX_SEED, fresh_seed
from replicable_rl.sampling import EpisodicEnv, Simulator
from replicable_rl.solve.run import ALONE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from replicable_rl.collect.stage import Stage, Walker
    from replicable_rl.data import Dataset

_BATCH = 1 << 14
_LOSS = 0.05  # what may happen after the horizon is worth less, in values normalised to [0, 1]


def collect(
    source: Simulator | EpisodicEnv | TabularMDP,
    samples: int | None = None,
    *,
    budget: int | None = None,
    horizon: int | None = None,
    policy: ArrayLike | None = None,
    sample_seed: int | None = None,
    keep: str | os.PathLike[str] | None = None,
    batch: int = _BATCH,
) -> Dataset:
    """Draw samples and return them as a data set; in a file they are kept, and the same call goes on from there.

    Samples of a simulator or a table are drawn of every pair in turn. An environment is stepped, and explored where you
    give no policy. Ctrl-C loses no sample; docs/collect.md says exactly what happens when.

    Parameters
    ----------
    source : Simulator, EpisodicEnv or TabularMDP
        What is sampled. Code of your own needs a ``version`` before its samples are kept.
    samples : int, optional
        Samples of every pair.
    budget : int, optional
        Samples in all. Give one of the two; an environment takes a budget.
    horizon : int, optional
        For an environment: the steps of a stint, after which it is reset; what is discounted to a loss of 0.05 by
        default.
    policy : (S,) integers or (S, A) floats, optional
        For an environment: what to do. The last state is the one after the end.
    sample_seed : int, optional
        What the samples follow from. None draws fresh entropy, or takes the seed that the file has.
    keep : path, optional
        A ``.npz`` file. `load_dataset` reads it at any time, also while samples are drawn.
    batch : int
        How many steps are asked of a vectorised simulator at a time: the most that can be lost.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> def step(state, action, rng):
    ...     return int(rng.integers(2)), float(state == action)
    >>> coin = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.9, reward_range=(0, 1))
    >>> data = rr.collect(coin, samples=100, sample_seed=1)
    >>> data, data.visits.tolist()
    (Dataset(400 rows, S=2, A=2, gamma=0.9), [[100, 100], [100, 100]])
    >>> rr.solve(data, rr.PlugInPolicy(0.05, 0.05, 0.2), shared_seed=1).policy.tolist()
    [0, 1]
    """
    path = None if keep is None else _check_keep(keep, source)
    seed = None if sample_seed is None else check_integer("collect", "sample_seed", sample_seed, low=0, high=MAX_SEED)
    batch = check_integer("collect", "batch", batch, low=1, high=1 << 30)
    total = _total(source, samples, budget)
    with ExitStack() as stack:
        kept = record = None
        if path is not None:
            stack.enter_context(locked(path))
            kept = Kept(path, source)
            record = kept.read()
        if seed is None:
            seed = fresh_seed() if record is None else record.seed
        walker = _walker(source, seed, batch, horizon, policy)
        if isinstance(source, EpisodicEnv) and total < source.width:
            raise InvalidInput(
                f"collect: budget must allow a step of each of the {source.width} environments, got {budget}."
            )
        if kept is not None and record is not None:
            walker.now = kept.stage(record, walker, seed, total)
        elif kept is not None:
            kept.write(walker, seed)  # what cannot be written is refused before a sample is drawn
        stack.enter_context(ALONE)  # what is stepped may have a state
        stack.enter_context(bar_where_it_is_seen())
        return _walked(walker, seed, total, kept)


def _walked(walker: Walker, seed: int, total: int, kept: Kept | None) -> Dataset:
    """Go on until there are as many samples as asked for, and keep them on the way."""

    def pause(stage: Stage) -> None:
        report("samples", stage.steps, total)
        if kept is not None:
            kept.write_if_due(walker, seed, stage)

    began = walker.now
    try:
        while total - walker.now.steps >= walker.unit:
            report("samples", walker.now.steps, total)
            walker.advance(total, pause)
            if kept is not None:
                kept.write_if_due(walker, seed)
        report("samples", total, total)
    except BaseException as error:
        if kept is not None:
            kept.write_after(error, walker, seed)
        raise
    if kept is not None and walker.now is not began:
        return kept.write(walker, seed)
    return walker.now.dataset()


def _total(source: Any, samples: int | None, budget: int | None) -> int:
    """Return how many samples there will be, of all pairs together."""
    if not isinstance(source, (Simulator, EpisodicEnv, TabularMDP)):
        raise InvalidInput(f"collect: source must be a Simulator, an EpisodicEnv or a TabularMDP, got {shown(source)}.")
    if (samples is None) == (budget is None):
        raise InvalidInput("collect: give samples=... of every pair or budget=... in all, one of the two.")
    if isinstance(source, EpisodicEnv):
        if budget is None:
            raise InvalidInput(
                "collect: nobody chooses the pairs that an environment visits. Give budget=... in place of samples=...."
            )
        pairs = 1
    else:
        pairs = source.pairs if isinstance(source, Simulator) else pairs_of(source)
    if samples is not None:
        total = pairs * check_integer("collect", "samples", samples, low=1, high=MOST_STEPS // pairs)
    else:
        total = check_integer("collect", "budget", budget, low=1, high=MOST_STEPS)
    if isinstance(source, TabularMDP):
        if total < pairs:
            raise InvalidInput(f"collect: budget must allow one sample of each of the {pairs} pairs, got {budget}.")
        return total - total % pairs
    source.refuse_beyond_budget(total, "Ask for fewer, or raise the budget of the problem.")
    return total


def _walker(source: Any, seed: int, batch: int, horizon: int | None, policy: ArrayLike | None) -> Walker:
    if isinstance(source, EpisodicEnv):
        far = math.ceil(math.log(1.0 / (_LOSS * (1.0 - source.gamma))) / (1.0 - source.gamma))
        steps = far if horizon is None else check_integer("collect", "horizon", horizon, low=1, high=2**31 - 1)
        return EnvStints(source, seed, min(steps, 2**31 - 1), policy)
    for name, given in (("horizon", horizon), ("policy", policy)):
        if given is not None:
            raise InvalidInput(f"collect: {name} is for an environment; of {source} every pair is drawn. Leave it out.")
    return TableDraws(source, seed) if isinstance(source, TabularMDP) else SimulatorDraws(source, seed, batch)


def _check_keep(keep: Any, source: Any) -> Path:
    """Return the path of the file, in a folder that exists; refuse code that nobody could tell from other code."""
    try:
        name = os.fsdecode(keep)
    except Exception:  # whatever somebody's object raises
        name = ""
    if not name.endswith(".npz") or "\0" in name:
        raise InvalidInput(f"collect: keep must name a .npz file, got {shown(keep)}.")
    if isinstance(source, (Simulator, EpisodicEnv)) and source.identity is not None:
        raise InvalidInput(
            f"collect: {source} is code of your own, and samples are kept under its version. Give it version='1', and "
            "change it whenever the code changes."
        )
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error}).") from None
    return path
