"""The verb: ``solve(problem, algorithm, shared_seed=..., sample_seed=...)`` -> ``Run``.

This is the one place where a problem becomes something to sample from: counts are drawn of a table, everything else
samples itself. Algorithms get a source with ``draw`` or ``play`` and never ask what it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from typing import Any, Protocol, runtime_checkable

import numpy as np

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.data import Dataset
from replicable_rl.errors import InvalidInput, SampleSizeTooLarge, check_integer, shown
from replicable_rl.planning import gain
from replicable_rl.problem.conditions import conditions
from replicable_rl.problem.episodes import EpisodicEnv
from replicable_rl.problem.sampler import Counts
from replicable_rl.problem.source import Problem, check_source
from replicable_rl.problem.support import allowed_of, check_policy_allowed
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress_bar import bar_where_it_is_seen
from replicable_rl.randomness import MAX_SEED, SharedRandomness, fresh_seed, sample_stream
from replicable_rl.records import COUNTS, OURS, OWN, UNSAID, Claims, Drawn, Run, RunSpec, Sample, provider
from replicable_rl.solve.naming import SHIPPED
from replicable_rl.solve.naming import algorithm_spec as algorithm_spec
from replicable_rl.theory import Plan
from replicable_rl.wording import number


@runtime_checkable
class Algorithm(Protocol):
    """Anything that solves a problem from shared randomness and fresh samples."""

    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Return the run; every use of ``shared`` is addressed, every sample comes from ``source`` and ``rng``."""
        ...


@runtime_checkable
class PlanningAlgorithm(Protocol):
    """An algorithm that can say beforehand what a run will do."""

    def plan(self, problem: Any) -> Plan:
        """Return the parameters of a run and what it may claim."""
        ...


@bar_where_it_is_seen()
def solve(
    problem: Any,
    algorithm: Algorithm,
    *,
    shared_seed: int,
    sample_seed: int | None = None,
) -> Run:
    """Run an algorithm on a problem once.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or any GenerativeModel or EpisodicModel
        What to solve.
    algorithm : Algorithm
        For example ``ReplicablePhasedVI(epsilon=0.1, delta=0.001, rho=0.2)``.
    shared_seed : int
        The published randomness r: two runs that should agree use the same.
    sample_seed : int, optional
        The fresh samples. None draws entropy from the operating system; the seed drawn is
        in ``run.spec``, so that the run can be repeated.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> run = rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1)
    >>> run.policy.tolist(), str(run.status)
    ([0, 0, 0, 0, 0], 'completed: ran all 240 iterations')
    """
    if not callable(getattr(algorithm, "solve", None)) or isinstance(algorithm, type):
        raise InvalidInput(
            "solve: algorithm must be an object with solve(source, shared, rng), such as "
            f"ReplicablePhasedVI(epsilon=0.1, delta=0.001, rho=0.2); got {shown(algorithm)}."
        )
    shared_seed = check_integer("solve", "shared_seed", shared_seed, low=0, high=MAX_SEED)
    source, sample = source_of(problem, algorithm), _sample(problem, sample_seed)
    return _made(problem, source, algorithm, RunSpec(problem.spec, algorithm_spec(algorithm), shared_seed, sample))


def solve_as(spec: RunSpec, problem: Any, algorithm: Algorithm) -> Run:
    """Make the run that has this identity, which an audit has named already."""
    return _made(problem, source_of(problem, algorithm), algorithm, spec)


ALONE = threading.RLock()  # what samples itself may keep a state: within a process, its runs wait for each other
_DRAW_FROM_RNG = (Counts, EpisodicEnv)  # no sample of these leaves the generator as it was


def _state(rng: np.random.Generator) -> tuple[object, ...]:
    seeds: Any = rng.bit_generator.seed_seq
    return rng.bit_generator.state, seeds.n_children_spawned


def _made(problem: Any, source: Any, algorithm: Algorithm, spec: RunSpec) -> Run:
    shared = SharedRandomness(spec.shared_seed)
    refuse_endless(source, algorithm)
    rng = sample_stream(spec.sample.seed if isinstance(spec.sample, Drawn) else 0)  # a recorded sample draws nothing
    unused = _state(rng)
    alone = source is problem and not isinstance(problem, Dataset)
    with ALONE if alone else contextlib.nullcontext():
        run = algorithm.solve(source, shared, rng)
    _check_run(run, source, algorithm)
    if type(source) in _DRAW_FROM_RNG and _state(rng) == unused:
        run = run.but(samples=0)  # nobody asked for a sample, whatever is reported
    estimated = getattr(problem, "estimated", False) or source.estimated
    claims = stated_unless_ours(run.claims, algorithm, spec).under(conditions(source))
    if isinstance(problem, TabularMDP) and claims.accuracy is not None and claims.accuracy.on_policy:
        claims = claims.beside(gain(problem))
    return run.completed(spec, claims=claims.about_an_estimate() if estimated else claims, status=run.status or UNSAID)


def stated_unless_ours(claims: Claims, algorithm: object, spec: RunSpec) -> Claims:
    """Return the claims of a run: of other code than this library's they are stated by it, whatever they say."""
    if provider(algorithm) == OURS:
        return claims
    own = spec.algorithm.id
    return Claims.stated_by(claims, own if own not in SHIPPED else f"{own}, changed by {provider(algorithm)}")


def plan(problem: Any, algorithm: PlanningAlgorithm) -> Plan:
    """Return what a run would do and may claim, without drawing a sample.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or any GenerativeModel or EpisodicModel
        What would be solved; only its sizes, discount and kind of rewards are used.
    algorithm : algorithm
        With the promise, and with overrides where the theorem's parameters are not wanted.

    Returns
    -------
    Plan
        With ``.samples``, ``.claims()`` and ``.table()``; which class it is depends on the algorithm.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> planned = rr.plan(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2))
    >>> planned.iterations, planned.calls, planned.samples
    (32, 96152887296, 50789574574080)
    """
    if not isinstance(algorithm, PlanningAlgorithm) or isinstance(algorithm, type):
        raise InvalidInput(f"plan: algorithm must be an object with plan(problem), got {shown(algorithm)}.")
    if not isinstance(problem, TabularMDP) and not _is_log(problem, algorithm):
        check_source(problem)
    planned = algorithm.plan(problem)
    if not isinstance(planned, Plan):
        return planned
    loses = isinstance(problem, TabularMDP) and getattr(algorithm, "loss_over", None) is not None
    by = None if provider(algorithm) == OURS else algorithm_spec(algorithm).id
    return dataclasses.replace(planned, gain=gain(problem) if loses else None, by=by)


def _is_log(problem: Any, algorithm: object) -> bool:
    """Whether a problem is a log, which is refused to algorithms that draw or play."""
    if not isinstance(problem, Dataset):
        return False
    if not isinstance(algorithm, PlugInPolicy) or algorithm.horizon is not None:
        raise InvalidInput(
            f"{type(algorithm).__name__}: a log is one batch of samples, and no more can be drawn or played. Use "
            "PlugInPolicy without a horizon, which decides from one batch."
        )
    return True


def source_of(problem: Any, algorithm: object) -> Any:
    """Return what an algorithm samples from: the one adaptation of a problem."""
    check_source_of(problem, algorithm)
    return Counts(problem) if isinstance(problem, TabularMDP) else problem


def check_source_of(problem: Any, algorithm: object) -> None:
    """Refuse what cannot be sampled from, and a problem without the methods that an algorithm needs."""
    if isinstance(problem, TabularMDP) or _is_log(problem, algorithm):
        return
    source, needs = check_source(problem), getattr(algorithm, "needs", None)
    if needs is not None and any(hasattr(needs, way) and not hasattr(source, way) for way in ("draw", "play")):
        raise InvalidInput(
            f"{type(algorithm).__name__}: needs the methods of {needs.__name__}, which {type(problem).__name__} has "
            f"not. {_REMEDIES.get(needs.__name__, '')}".rstrip()
        )


_REMEDIES = {
    "GenerativeModel": "Give it a table or a Simulator, or use an algorithm that plays episodes, such as R-max.",
    "EpisodicModel": "Give it a table or an EpisodicEnv, or use an algorithm that draws successors, such as rPVI.",
}


def _sample(problem: Any, sample_seed: int | None) -> Sample:
    """Return where the data comes from: what was recorded, or a seed."""
    if isinstance(problem, Dataset):
        if sample_seed is not None:
            raise InvalidInput("solve: sample_seed is for samples that are drawn; these were recorded. Leave it out.")
        return problem.sample
    seed = fresh_seed() if sample_seed is None else sample_seed
    return Drawn(check_integer("solve", "sample_seed", seed, low=0, high=MAX_SEED), sampler_of(problem))


def sampler_of(problem: Any) -> str:
    """Return who draws the samples of a problem."""
    return COUNTS if isinstance(problem, TabularMDP) else OWN


def refuse_unsampled(problem: Any, algorithm: Algorithm) -> None:
    """Refuse what every run would refuse before its first sample: what cannot be planned, and what cannot end."""
    check_source_of(problem, algorithm)
    if not isinstance(algorithm, PlanningAlgorithm):
        return
    try:
        planned = algorithm.plan(problem)
    except InvalidInput:
        raise
    except Exception:  # in somebody's own code: the run says where, or never asks for a plan
        return
    _refuse_beyond_budget(problem, algorithm, planned)


def refuse_endless(source: Any, algorithm: Algorithm) -> None:
    """Refuse, before it starts, a run that steps more often than the problem can be stepped."""
    if getattr(source, "most_samples", None) is not None and isinstance(algorithm, PlanningAlgorithm):
        _refuse_beyond_budget(source, algorithm, algorithm.plan(source))


def _refuse_beyond_budget(source: Any, algorithm: Algorithm, planned: Any) -> None:
    most, samples = getattr(source, "most_samples", None), getattr(planned, "samples", None)
    if most is None or samples is None or samples <= most:
        return
    name = next((one for one in ("calls", "samples", "episodes") if hasattr(algorithm, one)), "episodes")
    if getattr(algorithm, "budget", None) is not None:
        name = "budget"
    affordable = _affordable(source, algorithm, name, most)
    remedy = f"With {name}={affordable} it would fit, and less would be claimed" if affordable else "It cannot fit"
    takes = f"{type(algorithm).__name__}: a run would take {number(samples, 3)}"
    raise SampleSizeTooLarge(
        f"{takes} steps of {type(source).__name__}, more than its budget of {number(most, 3)}. {remedy}; budget=... of "
        "the problem allows more."
    )


def _affordable(source: Any, algorithm: Any, name: str, most: int) -> int:
    """Return about the most calls, samples or episodes with which a run fits; 0 if none does, or nobody can say."""
    asked = most
    while asked:
        try:
            samples = dataclasses.replace(algorithm, **{name: asked}).plan(source).samples
        except (TypeError, InvalidInput):  # no dataclass, no such parameter, or none beside the others
            return 0
        if samples <= most:
            break
        asked = min(most * asked // samples, asked - 1)
    return asked


def _check_run(run: object, source: Problem, algorithm: Algorithm) -> None:
    """Refuse what is no run of this problem."""
    name, S, A = type(algorithm).__name__, source.n_states, source.n_actions
    if not isinstance(run, Run):
        raise InvalidInput(f"{name}: solve must return a Run, got {shown(run)}.")
    if not isinstance(run.claims, Claims):
        raise InvalidInput(f"{name}: the claims of a run must be Claims, got {shown(run.claims)}.")
    for level, shape in (("policy", (S,)), ("value", (S, A))):
        if level in run.outputs and run.outputs[level].shape != shape:
            raise InvalidInput(
                f"{name}: the problem has {S} states and {A} actions, so a {level} has shape {shape}; got "
                f"{run.outputs[level].shape}."
            )
    policy = run.outputs.get("policy")  # below, -1 is 2**64 - 1
    if policy is not None and (policy.dtype.kind != "i" or policy.astype(np.uint64, copy=False).max() >= A):
        raise InvalidInput(f"{name}: the actions of a policy must be integers in 0..{A - 1}.")
    if policy is not None:
        check_policy_allowed(name, policy, allowed_of(source))
