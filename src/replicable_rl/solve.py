"""The verbs: ``solve(problem, algorithm, shared_seed=..., sample_seed=...)`` -> ``Run``, ``plan`` and ``publish``.

This is the one place where a problem becomes something to sample from: counts are drawn of a table, everything else
samples itself. Algorithms get a source with ``draw`` or ``play`` and never ask what it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import numbers
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.algorithms.plan import Plan
from replicable_rl.canonical import Json, array_digest
from replicable_rl.data import Dataset
from replicable_rl.errors import InvalidInput, SampleSizeTooLarge, check_integer, shown
from replicable_rl.planning import gain
from replicable_rl.problem.environments import EpisodicEnv
from replicable_rl.problem.source import Episodic, Generative, Recorded, Source, as_source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress_bar import bar_where_it_is_seen
from replicable_rl.randomness import MAX_SEED, SharedRandomness, fresh_seed, sample_stream
from replicable_rl.rules import Cuts
from replicable_rl.runs import (
    COUNTS,
    OURS,
    OWN,
    SHIPPED,
    UNSAID,
    Algorithm,
    Claims,
    Drawn,
    ObjectSpec,
    Run,
    RunSpec,
    Sample,
    provider,
)
from replicable_rl.wording import number


def algorithm_spec(algorithm: object) -> ObjectSpec:
    """Return id and parameters of an algorithm; parameters left to the theorem are left out."""
    kind = type(algorithm)
    own = {**vars(kind), **getattr(algorithm, "__dict__", {})}  # an id that is inherited means another algorithm
    version = {"version": own["version"]} if "version" in own else {}
    params = {name: _written(value) for name, value in _given(algorithm).items()}
    id = own.get("id", _full_name(kind))
    if isinstance(id, str) and SHIPPED.get(id, kind) is not kind:
        belongs = f"the id {id!r} belongs to {SHIPPED[id].__name__}"
        raise InvalidInput(f"{kind.__name__}: {belongs}. Give your class its own id.")
    return ObjectSpec(id, params | version)


def settings_of(thing: object) -> dict[str, Any]:
    """Return the fields of a dataclass, and the attributes of an object, without its id and version."""
    kind: Any = type(thing)
    settings = {name: getattr(thing, name) for name in _defaults(kind)}
    if "__dataclass_fields__" not in vars(kind):
        state: Any = object.__getstate__(thing)  # with slots: a pair
        for held in state if isinstance(state, tuple) else [state]:
            settings |= held or {}
    return {
        name: value
        for name, value in settings.items()
        if name not in ("id", "version") and not isinstance(getattr(kind, name, None), functools.cached_property)
    }


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@functools.lru_cache(maxsize=256)
def _defaults(kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass with their defaults; of another class nothing."""
    return {field.name: field.default for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}


def is_ingredient(value: object) -> bool:
    """Whether a setting is an object with an id or with fields, which has settings itself."""
    return not isinstance(value, type) and (
        dataclasses.is_dataclass(value) or isinstance(getattr(value, "id", None), str)
    )


def said(value: Any) -> Json:
    """Return a setting as identities say it: an array by its digest, an ingredient by its id and its settings.

    >>> said({"layers": (2, 3)})
    {'layers': [2, 3]}
    """
    if value is None or isinstance(value, (str, int, numbers.Integral)):  # truth values are integers
        return value
    if isinstance(value, (float, numbers.Real)) and math.isfinite(value) and float(value) == value:
        return float(value)
    if isinstance(value, np.ndarray):
        return {"array": array_digest(str(value.dtype), value)}
    if isinstance(value, (list, tuple)):
        return [said(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: said(item) for key, item in value.items()}
    if isinstance(value, Cuts):
        return value.digest
    if is_ingredient(value):
        kind: Any = type(value)
        name = getattr(value, "id", _full_name(kind))
        left = {key for key, default in _defaults(kind).items() if default is None}  # None: as the plan says
        given = {key: item for key, item in settings_of(value).items() if item is not None or key not in left}
        settings = {key: said(item) for key, item in given.items()}
        return {"id": name, **settings} if settings else name
    raise InvalidInput(f"JSON cannot say {shown(value)} exactly.")


def unsaid(algorithm: object) -> str | None:
    """Return the name of a setting that JSON cannot say: no identity is exact without it."""
    for name, value in _given(algorithm).items():
        try:
            said(value)
        except InvalidInput:
            return name
    return None


def _given(algorithm: object) -> dict[str, Any]:
    """Return the settings that an identity says: of a dataclass those that are not left at their defaults."""
    kind: Any = type(algorithm)
    settings, defaults = settings_of(algorithm), _defaults(kind)
    if not dataclasses.is_dataclass(kind):
        return settings
    return {
        name: value
        for name, value in settings.items()
        if not _is_default(value, defaults.get(name, dataclasses.MISSING))
    }


def _written(value: Any) -> Any:
    """Return a setting as it stands in the spec; one that JSON cannot say, which no store takes, by its type."""
    try:
        return said(value)
    except InvalidInput:
        return type(value).__qualname__


def _is_default(value: object, default: object) -> bool:
    if value is default or value is None:
        return value is default
    plain = type(value) in (bool, int, float, str)  # most are, and numpy takes its time to say so
    return bool(value == default) if plain or np.ndim(value) == 0 else False  # type: ignore[arg-type]  # arrays have no truth


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
    source, sample = source_of(problem, algorithm), _sample(problem, sample_seed)
    return _made(problem, source, algorithm, RunSpec(problem.spec, algorithm_spec(algorithm), shared_seed, sample))


def refuse_other(owner: str, algorithm: object) -> None:
    """Refuse what is no algorithm."""
    if not isinstance(algorithm, Algorithm):
        raise InvalidInput(
            f"{owner}: algorithm must be one of this library, such as ReplicablePhasedVI(epsilon=0.1, delta=0.001, "
            f"rho=0.2), or of a class of your own that inherits from rr.Algorithm; got {shown(algorithm)}."
        )


def solve_as(spec: RunSpec, problem: Any, algorithm: Algorithm) -> Run:
    """Make the run that has this identity, which an audit has named already."""
    return _made(problem, source_of(problem, algorithm), algorithm, spec)


ALONE = threading.RLock()  # what samples itself may keep a state: within a process, its runs wait for each other
_DRAW_FROM_RNG = (TabularMDP, EpisodicEnv)  # no sample of these leaves the generator as it was


def _state(rng: np.random.Generator) -> tuple[object, ...]:
    seeds: Any = rng.bit_generator.seed_seq
    return rng.bit_generator.state, seeds.n_children_spawned


def _made(problem: Any, source: Any, algorithm: Algorithm, spec: RunSpec) -> Run:
    shared = SharedRandomness(spec.shared_seed)
    refuse_endless(source, algorithm)
    rng = sample_stream(spec.sample.seed if isinstance(spec.sample, Drawn) else 0)  # a recorded sample draws nothing
    unused = _state(rng)
    alone = not isinstance(source, TabularMDP | Recorded)
    with ALONE if alone else contextlib.nullcontext():
        run = algorithm.solve(source, shared, rng)
    _check_run(run, source, algorithm)
    if isinstance(source, _DRAW_FROM_RNG) and _state(rng) == unused:
        run = run.but(samples=0)  # nobody asked for a sample, whatever is reported
    claims = stated_unless_ours(run.claims, algorithm, spec).under(source.trust.conditions)
    if isinstance(problem, TabularMDP) and claims.accuracy is not None and claims.accuracy.on_policy:
        claims = claims.beside(gain(problem))
    claims = claims.about_an_estimate() if source.trust.estimated else claims
    return run.completed(spec, claims=claims, status=run.status or UNSAID)


def stated_unless_ours(claims: Claims, algorithm: object, spec: RunSpec) -> Claims:
    """Return the claims of a run: of other code than this library's they are stated by it, whatever they say."""
    if provider(algorithm) == OURS:
        return claims
    own = spec.algorithm.id
    return Claims.stated_by(claims, own if own not in SHIPPED else f"{own}, changed by {provider(algorithm)}")


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
    made = planned(problem, algorithm)
    if made is None:
        raise InvalidInput(f"plan: {algorithm_spec(algorithm).id} has no plan. Run it with solve or audit instead.")
    return made


def planned(problem: Any, algorithm: Algorithm) -> Plan[Any] | None:
    """Return the plan of a run; None where nobody can say."""
    made = algorithm.plan(_source_of(problem, algorithm))
    if not isinstance(made, Plan):
        return made  # type: ignore[no-any-return]  # somebody's own
    loses = isinstance(problem, TabularMDP) and algorithm.promised_loss is not None
    by = None if provider(algorithm) == OURS else algorithm_spec(algorithm).id
    return dataclasses.replace(made, gain=gain(problem) if loses else None, by=by)


def _source_of(problem: object, algorithm: Algorithm) -> Source:
    """Return what is sampled; a log is refused to algorithms that draw or play."""
    source = as_source(problem)
    if isinstance(source, Recorded) and not (isinstance(algorithm, PlugInPolicy) and algorithm.horizon is None):
        raise InvalidInput(
            f"{type(algorithm).__name__}: a log is one batch of samples, and no more can be drawn or played. Use "
            "PlugInPolicy without a horizon, which decides from one batch."
        )
    return source


def source_of(problem: object, algorithm: Algorithm) -> Source:
    """Return what an algorithm samples from; refuse a source of another type than it needs."""
    source, needs = _source_of(problem, algorithm), algorithm.needs
    if not isinstance(source, needs):
        raise InvalidInput(
            f"{type(algorithm).__name__}: needs a source that is {needs.__name__}, which {type(problem).__name__} is "
            f"not. {_REMEDIES.get(needs, '')}".rstrip()
        )
    return source


_REMEDIES: dict[type, str] = {
    Generative: "Give it a table or a Simulator, or use an algorithm that plays episodes, such as R-max.",
    Episodic: "Give it a table or an EpisodicEnv, or use an algorithm that draws successors, such as rPVI.",
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
    source = source_of(problem, algorithm)
    try:
        made = algorithm.plan(source)
    except InvalidInput:
        raise
    except Exception:  # in somebody's own code: the run says where, or never asks for a plan
        return
    _refuse_beyond_budget(source, algorithm, made)


def refuse_endless(source: Source, algorithm: Algorithm) -> None:
    """Refuse, before it starts, a run that steps more often than the problem can be stepped."""
    if source.budget is not None:
        _refuse_beyond_budget(source, algorithm, algorithm.plan(source))


def _refuse_beyond_budget(source: Source, algorithm: Algorithm, made: Plan[Any] | None) -> None:
    most = source.budget
    if most is None or made is None or source.affords(made.samples):
        return
    samples, settings = made.samples, settings_of(algorithm)
    size = next((one for one in ("calls", "samples", "episodes") if one in settings), "episodes")
    name = size if settings.get("budget") is None else "budget"
    affordable = _affordable(source, algorithm, name, most)
    remedy = f"With {name}={affordable} it would fit, and less would be claimed" if affordable else "It cannot fit"
    takes = f"{type(algorithm).__name__}: a run would take {number(samples, 3)}"
    raise SampleSizeTooLarge(
        f"{takes} steps of {source.owner}, more than its budget of {number(most, 3)}. {remedy}; budget=... of "
        "the problem allows more."
    )


def _affordable(source: Source, algorithm: Any, name: str, most: int) -> int:
    """Return about the most calls, samples or episodes with which a run fits; 0 if none does, or nobody can say."""
    asked = most
    while asked:
        try:
            samples = dataclasses.replace(algorithm, **{name: asked}).plan(source).samples
        except (TypeError, InvalidInput):  # no dataclass, no such parameter, or none beside the others
            return 0
        if source.affords(samples):
            break
        asked = min(most * asked // samples, asked - 1)
    return asked


def _check_run(run: object, source: Source, algorithm: Algorithm) -> None:
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
        source.support.refuse_others(name, policy)


@bar_where_it_is_seen()
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
    source = source_of(problem, algorithm)
    if isinstance(problem, Dataset) and sample_seed is not None:
        raise InvalidInput("publish: sample_seed is for samples that are drawn; these were recorded. Leave it out.")
    refuse_endless(source, algorithm)
    seed = fresh_seed() if sample_seed is None else sample_seed
    rng = sample_stream(check_integer("publish", "sample_seed", seed, low=0, high=MAX_SEED))
    cuts = algorithm.publish(source, rng)
    return replace(cuts, names=problem.labels) if isinstance(problem, Dataset) else cuts  # no id stands for a log
