"""The verb: ``solve(problem, algorithm, shared_seed=..., sample_seed=...)`` -> ``Solution``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from replicable_rl.errors import InvalidInput, check_integer
from replicable_rl.randomness import MAX_SEED, SharedRandomness, fresh_seed, sample_stream
from replicable_rl.records import ObjectSpec, RunSpec, Solution
from replicable_rl.sampling import EpisodicModel, GenerativeModel

if TYPE_CHECKING:
    from replicable_rl.mdp import TabularMDP
    from replicable_rl.theory import Plan

__all__ = ["Algorithm", "algorithm_spec", "plan", "solve"]


@runtime_checkable
class Algorithm(Protocol):
    """Anything that solves a problem from shared randomness and fresh samples."""

    def solve(self, problem: Any, shared: SharedRandomness, rng: np.random.Generator) -> Solution:
        """Return the solution; every use of ``shared`` is addressed, every sample comes from ``rng``."""
        ...


@runtime_checkable
class PlanningAlgorithm(Protocol):
    """An algorithm that can say beforehand what a run will do."""

    def plan(self, problem: Any) -> Plan:
        """Return the parameters of a run and what it may promise."""
        ...


def solve(
    problem: TabularMDP | GenerativeModel | EpisodicModel,
    algorithm: Algorithm,
    *,
    shared_seed: int,
    sample_seed: int | None = None,
) -> Solution:
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
        in ``solution.spec``, so that the run can be repeated.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> solution = rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1)
    >>> solution.policy.tolist(), str(solution.status)
    ([0, 0, 0, 0, 0], 'completed: ran all 240 iterations')
    """
    if not callable(getattr(algorithm, "solve", None)) or isinstance(algorithm, type):
        raise InvalidInput(
            "solve: algorithm must be an object with solve(problem, shared, rng), such as "
            f"ReplicablePhasedVI(epsilon=0.1, delta=0.001, rho=0.2); got {algorithm!r}."
        )
    if sample_seed is None:
        sample_seed = fresh_seed()
    shared_seed = check_integer("solve", "shared_seed", shared_seed, low=0, high=MAX_SEED)
    sample_seed = check_integer("solve", "sample_seed", sample_seed, low=0, high=MAX_SEED)
    solution = algorithm.solve(problem, SharedRandomness(shared_seed), sample_stream(sample_seed))
    if not isinstance(solution, Solution):
        raise InvalidInput(f"{type(algorithm).__name__}: solve must return a Solution, got {solution!r:.60}.")
    return solution.with_spec(RunSpec(problem.spec, algorithm_spec(algorithm), shared_seed, sample_seed))


def plan(problem: TabularMDP | GenerativeModel | EpisodicModel, algorithm: PlanningAlgorithm) -> Plan:
    """Return what a run would do and may promise, without drawing a sample.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or any GenerativeModel or EpisodicModel
        What would be solved; only its sizes, discount and kind of rewards are used.
    algorithm : algorithm
        With the promise, and with overrides where the theorem's parameters are not wanted.

    Returns
    -------
    Plan
        A `PhasedVIPlan`, `ApproximateMDPPlan` or `RMaxPlan` of :mod:`replicable_rl.theory`.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> planned = rr.plan(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2))
    >>> planned.iterations, planned.calls, planned.samples
    (100, 8187898146367124, 26201274068374796800)
    """
    if not isinstance(algorithm, PlanningAlgorithm) or isinstance(algorithm, type):
        raise InvalidInput(f"plan: algorithm must be an object with plan(problem), got {algorithm!r}.")
    return algorithm.plan(problem)


def algorithm_spec(algorithm: Algorithm) -> ObjectSpec:
    """Return id and parameters of an algorithm; parameters left to the theorem are left out."""
    kind = type(algorithm)
    own = {**vars(kind), **getattr(algorithm, "__dict__", {})}  # an id that is inherited means another algorithm
    name = algorithm.id if "id" in own else f"{kind.__module__}.{kind.__qualname__}"  # type: ignore[attr-defined]
    if not dataclasses.is_dataclass(algorithm):
        return ObjectSpec(name, {"repr": repr(algorithm)})
    values = ((field, getattr(algorithm, field.name)) for field in dataclasses.fields(algorithm))
    return ObjectSpec(name, {field.name: value for field, value in values if not _is_default(value, field.default)})


def _is_default(value: object, default: object) -> bool:
    return bool(value == default) if np.ndim(value) == 0 else False  # type: ignore[arg-type]  # arrays have no truth
