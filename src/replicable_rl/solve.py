"""The verbs: ``solve(problem, algorithm, shared_seed=..., sample_seed=...)`` -> ``Run``, ``plan`` and ``publish``.

This is the one place where a problem becomes something to sample from: counts are drawn of a table, everything else
samples itself. Algorithms get a source with ``draw`` or ``play`` and never ask what it is.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import Any

import numpy as np

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.algorithms.plan import Plan
from replicable_rl.errors import InvalidInput, check_integer, shown
from replicable_rl.logs import Dataset
from replicable_rl.planning import gain
from replicable_rl.problem.environments import EpisodicEnv
from replicable_rl.problem.source import Episodic, Generative, Recorded, Source, as_source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar
from replicable_rl.randomness import MAX_SEED, SharedRandomness, fresh_seed, sample_stream
from replicable_rl.rules import Cuts
from replicable_rl.runs import (
    COUNTS,
    OURS,
    OWN,
    SHIPPED,
    UNSAID,
    Algorithm,
    Drawn,
    Run,
    RunSpec,
    Sample,
    algorithm_spec,
    is_frozen,
    provider,
)
from replicable_rl.wording import number

ALONE = threading.RLock()  # what samples itself may keep a state: within a process, its runs wait for each other
_REMEDIES: dict[type, str] = {
    Generative: " Give it a table or a Simulator, or use an algorithm that plays episodes, such as R-max.",
    Episodic: " Give it a table or an EpisodicEnv, or use an algorithm that draws successors, such as rPVI.",
}


@bar()
def solve(problem: Any, algorithm: Algorithm, *, shared_seed: int, sample_seed: int | None = None) -> Run:
    """Run an algorithm on a problem once.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or a source of your own
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
    refuse_other("solve", algorithm)
    shared_seed = check_integer("solve", "shared_seed", shared_seed, low=0, high=MAX_SEED)
    source, sample = source_of(problem, algorithm), _sample("solve", problem, sample_seed)
    return _run(RunSpec(problem.spec, algorithm_spec(algorithm), shared_seed, sample), problem, source, algorithm)


def solve_as(spec: RunSpec, problem: Any, algorithm: Algorithm) -> Run:
    """Make the run that has this identity, which an audit has named already."""
    return _run(spec, problem, source_of(problem, algorithm), algorithm)


def refuse_other(owner: str, algorithm: object) -> None:
    """Refuse what is no algorithm, and what has the id of another one."""
    kind: Any = type(algorithm)
    if not isinstance(algorithm, Algorithm) or not is_frozen(kind):
        raise InvalidInput(
            f"{owner}: algorithm must be one of this library, such as ReplicablePhasedVI(epsilon=0.1, delta=0.001, "
            f"rho=0.2), or a frozen dataclass of your own that inherits from rr.Algorithm; got {shown(algorithm)}. "
            "Training code goes through audit_callable."
        )
    if SHIPPED.get(kind.id, kind) is not kind:
        belongs = f"the id {kind.id!r} belongs to {SHIPPED[kind.id].__name__}"
        raise InvalidInput(f"{kind.__name__}: {belongs}. Give your class its own id.")


def _run(spec: RunSpec, problem: Any, source: Source, algorithm: Algorithm) -> Run:
    _refuse_endless(source, algorithm)
    stateless = isinstance(source, TabularMDP | Recorded)
    stream = _stream(spec.sample)
    untouched = _state(stream)
    with contextlib.nullcontext() if stateless else ALONE:
        run = algorithm.solve(source, SharedRandomness(spec.shared_seed), stream)
    _check_run(run, source, type(algorithm).__name__)
    if isinstance(source, TabularMDP | EpisodicEnv) and _state(stream) == untouched:  # these draw from the stream alone
        run = run.but(samples=0)  # whatever the code that ran reports
    accuracy = run.claims.accuracy
    gained = gain(problem) if isinstance(problem, TabularMDP) and accuracy is not None and accuracy.on_policy else None
    trust = source.trust
    claims = run.claims.told(trust.conditions, gained, trust.estimated, other_author(algorithm, spec))
    return run.completed(spec, claims=claims, status=run.status or UNSAID)


def _state(stream: np.random.Generator) -> tuple[object, ...]:
    seeds: Any = stream.bit_generator.seed_seq
    return stream.bit_generator.state, seeds.n_children_spawned


def _check_run(run: object, source: Source, name: str) -> None:
    """Refuse what is no run of this problem."""
    if not isinstance(run, Run):
        raise InvalidInput(f"{name}: solve must return a Run, got {shown(run)}.")
    q, policy, n_actions = run.outputs.get("value"), run.outputs.get("policy"), source.n_actions
    if q is not None and q.shape != (source.n_states, n_actions):
        raise InvalidInput(f"{name}: values must be a table ({source.n_states}, {n_actions}), got shape {q.shape}.")
    if policy is not None:
        whole = policy.dtype.kind == "i" and policy.shape == (source.n_states,)
        if not whole or policy.view(np.uint64).max() >= n_actions:  # -1 is 2**64 - 1
            rule = f"{source.n_states} integers in 0..{n_actions - 1}"
            raise InvalidInput(f"{name}: a policy must be {rule}, got {shown(policy)}.")
        source.support.refuse_others(name, policy)


def other_author(algorithm: object, spec: RunSpec) -> str | None:
    """Return who states the claims of a run, whatever the run says; None where this library makes them."""
    whose, id = provider(algorithm), spec.algorithm.id
    return None if whose == OURS else f"{id}, changed by {whose}" if id in SHIPPED else id


def source_of(problem: object, algorithm: Algorithm) -> Source:
    """Return what an algorithm samples from; refuse a source of another type than it needs."""
    source, needs = _planned_on(problem, algorithm), algorithm.needs
    if not isinstance(source, needs):
        which = f"a source that is {needs.__name__}, which {type(problem).__name__} is not"
        raise InvalidInput(f"{type(algorithm).__name__}: needs {which}.{_REMEDIES.get(needs, '')}")
    return source


def _planned_on(problem: object, algorithm: Algorithm) -> Source:
    """Return what an algorithm is planned on; refuse a log to algorithms that draw or play."""
    source = as_source(problem)
    if isinstance(source, Recorded) and not (isinstance(algorithm, PlugInPolicy) and algorithm.horizon is None):
        raise InvalidInput(
            f"{type(algorithm).__name__}: a log is one batch of samples, and no more can be drawn or played. Use "
            "PlugInPolicy without a horizon, which decides from one batch."
        )
    return source


def _sample(owner: str, problem: object, seed: int | None) -> Sample:
    """Return where the data comes from: what was recorded, or a seed."""
    if isinstance(problem, Dataset):
        if seed is not None:
            raise InvalidInput(
                f"{owner}: sample_seed is for samples that are drawn; these were recorded. Leave it out."
            )
        return problem.sample
    seed = fresh_seed() if seed is None else check_integer(owner, "sample_seed", seed, low=0, high=MAX_SEED)
    return Drawn(seed, sampler_of(problem))


def sampler_of(problem: object) -> str:
    """Return who draws the samples of a problem."""
    return COUNTS if isinstance(problem, TabularMDP) else OWN


def _stream(sample: Sample) -> np.random.Generator:
    return sample_stream(sample.seed if isinstance(sample, Drawn) else 0)  # of what was recorded, nothing is drawn


def refuse_unsampled(problem: object, algorithm: Algorithm) -> None:
    """Refuse what every run would refuse before its first sample: what cannot be planned, and what cannot end."""
    source = source_of(problem, algorithm)
    algorithm.plan(source)
    _refuse_endless(source, algorithm)


def _refuse_endless(source: Source, algorithm: Algorithm) -> None:
    """Refuse, before it starts, a run that steps more often than the problem can be stepped."""
    planned: Plan[Any] | None = None if source.budget is None else algorithm.plan(source)
    if source.budget is None or planned is None or source.affords(planned.samples):
        return
    raise InvalidInput(
        f"{type(algorithm).__name__}: a run would take {number(planned.samples, 3)} steps of {source.owner}, more than "
        f"its budget of {number(source.budget, 3)}. Ask for fewer samples, or raise budget= of the problem."
    )


def plan(problem: Any, algorithm: Algorithm) -> Plan[Any]:
    """Return what a run would do and may claim, without drawing a sample.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, or a source of your own
        What would be solved; only its sizes, discount and kind of rewards are used.
    algorithm : algorithm
        With the promise, and with overrides where the theorem's parameters are not wanted.

    Returns
    -------
    Plan
        With ``.samples``, ``.claims()`` and the algorithm's own ``.numbers``.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> planned = rr.plan(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2))
    >>> planned.numbers.iterations, planned.numbers.calls, planned.samples
    (32, 96152887296, 50789574574080)
    """
    refuse_other("plan", algorithm)
    answer = planned(problem, algorithm)
    if answer is None:
        raise InvalidInput(f"plan: {algorithm.id} has no plan. Run it with solve or audit instead.")
    return answer


def planned(problem: Any, algorithm: Algorithm) -> Plan[Any] | None:
    """Return the plan of a run; None where nobody can say."""
    answer: Plan[Any] | None = algorithm.plan(_planned_on(problem, algorithm))
    if answer is None:
        return None
    loses = isinstance(problem, TabularMDP) and algorithm.promised_loss is not None
    by = None if provider(algorithm) == OURS else algorithm.id
    return replace(answer, gain=gain(problem) if loses else None, by=by)


@bar()
def publish(problem: Any, algorithm: PlugInPolicy, *, sample_seed: int | None = None) -> Cuts:
    """Choose one tolerance for each state on fresh data, for others to use on theirs.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, Dataset, or a source of your own
        What is solved. The cuts of a log also hold the names of its states and actions.
    algorithm : PlugInPolicy
        Says how many samples are drawn and how much loss is allowed; its rule does not matter but for its order, and
        for what its bound asks for where neither samples nor a budget are given.
    sample_seed : int, optional
        The fresh samples; None draws entropy from the operating system. A log has its own, and no seed.

    Returns
    -------
    Cuts
        For ``PlugInPolicy(..., rule=rr.rules.PublishedCuts(cuts))``, in any lab; ``rr.save(cuts, path)`` writes them.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000)
    >>> cuts = publish(mdp, algorithm, sample_seed=1)
    >>> theirs = rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000, rule=rr.rules.PublishedCuts(cuts))
    >>> rr.solve(mdp, theirs, shared_seed=0, sample_seed=2).policy.tolist() == cuts.policy.tolist()
    True
    """
    if not isinstance(algorithm, PlugInPolicy):
        raise InvalidInput(f"publish: algorithm must be a PlugInPolicy, got {shown(algorithm)}.")
    source, sample = source_of(problem, algorithm), _sample("publish", problem, sample_seed)
    _refuse_endless(source, algorithm)
    cuts = algorithm.publish(source, _stream(sample))
    return replace(cuts, names=problem.labels) if isinstance(problem, Dataset) else cuts  # no id stands for a log
