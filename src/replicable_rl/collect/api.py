"""The verb: ``collect(source, samples=..., keep="samples.npz")`` -> ``Dataset``."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicable_rl.collect.draws import CountDraws, SimulatorDraws
from replicable_rl.collect.kept import Kept
from replicable_rl.collect.stage import Options, Walker, called
from replicable_rl.collect.stints import EnvStints
from replicable_rl.errors import InvalidFile, InvalidInput, check_integer, shown
from replicable_rl.files import locked
from replicable_rl.progress import report
from replicable_rl.progress_bar import bar_where_it_is_seen
from replicable_rl.randomness import MAX_SEED, fresh_seed
from replicable_rl.records import is_ours
from replicable_rl.sampling import kind_of
from replicable_rl.solve.run import ALONE, source_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from replicable_rl.collect.stage import Stage
    from replicable_rl.data import Dataset
    from replicable_rl.mdp import TabularMDP
    from replicable_rl.sampling import EpisodicEnv, GenerativeModel, Simulator

_BATCH = 1 << 14
_WAYS: dict[str, type[Walker]] = {"draws": SimulatorDraws, "stints": EnvStints}  # what is stepped says which


def collect(
    source: Simulator | EpisodicEnv | TabularMDP | GenerativeModel,
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
    give no policy. Ctrl-C loses no sample.

    Parameters
    ----------
    source : Simulator, EpisodicEnv, TabularMDP or any GenerativeModel
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
        How many steps are asked of a vectorised simulator, or of ``draw``, at a time: the most that can be lost.

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
    way = _way_of(source)
    path = None if keep is None else _check_keep(keep, source)
    seed = None if sample_seed is None else check_integer("collect", "sample_seed", sample_seed, low=0, high=MAX_SEED)
    batch = check_integer("collect", "batch", batch, low=1, high=1 << 30)
    if (samples is None) == (budget is None):
        raise InvalidInput("collect: give samples=... of every pair or budget=... in all, one of the two.")
    total = way.total(source, samples, budget)
    with ExitStack() as stack:
        kept = record = None
        if path is not None:
            stack.enter_context(locked(path))
            kept = Kept(path, source)
            record = kept.read()
        if seed is None:
            seed = fresh_seed() if record is None else record.seed
        walker = way(source, seed, Options(batch, horizon, policy))
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


def _way_of(source: Any) -> type[Walker]:
    """Return how a source is collected: as it says, or by its ``draw``."""
    sampled, _ = source_of(source, None)  # which refuses what is no problem
    if kind_of(sampled) == "recorded":
        raise InvalidInput(f"collect: samples of {called(source)} were recorded already. Save them with save(path).")
    way = _WAYS.get(str(getattr(source, "collected", "")), CountDraws)
    if way is CountDraws and not hasattr(sampled, "draw"):
        raise InvalidInput(
            f"collect: {called(source)} has no method draw(calls, rng), by which samples are counted. Add it, as "
            "GenerativeModel has it, or pass a Simulator or an EpisodicEnv, which are stepped."
        )
    return way


def _check_keep(keep: Any, source: Any) -> Path:
    """Return the path of the file, in a folder that exists; refuse code that nobody could tell from other code."""
    try:
        name = os.fsdecode(keep)
    except Exception:  # whatever somebody's object raises
        name = ""
    if not name.endswith(".npz") or "\0" in name:
        raise InvalidInput(f"collect: keep must name a .npz file, got {shown(keep)}.")
    if _is_nameless(source):
        remedy = "Give it version='1'" if hasattr(source, "identity") else "Name a version among the params of its spec"
        raise InvalidInput(
            f"collect: {called(source)} is code of your own, and samples are kept under its version. {remedy}, and "
            "change it whenever the code changes."
        )
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error}).") from None
    return path


def _is_nameless(source: Any) -> bool:
    """Whether nobody could tell the code of a source from other code; a table is known by its numbers."""
    if hasattr(source, "identity"):
        return source.identity is not None
    sampled, _ = source_of(source, None)
    return not is_ours(type(sampled)) and source.spec.params.get("version", "") == ""
