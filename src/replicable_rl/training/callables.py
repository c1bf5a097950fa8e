"""``audit_callable``: the same question for any training code.

The code is a function ``train(shared_seed, sample_seed)``. What it draws from the first two runs
of a pair have in common, what it draws from the second they do not; code that has one seed only
uses the second and shares nothing. It returns a policy table, a table of action values, a
`Run`, weights, or a function of observations, which is compared on a probe set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import numpy as np

from replicable_rl.audit import AuditResult, opened_store, run_audits
from replicable_rl.audit.api import StoreLike
from replicable_rl.audit.evidence import AuditSpec, Repeat, Training
from replicable_rl.audit.identity import refuse_misnamed, refuse_nameless, source_digest
from replicable_rl.audit.jobs import OnError
from replicable_rl.audit.sampled import DIFFERENT_DATA, DRAWN_BY_TRAIN, IGNORED_BY_TRAIN, SAME_DATA, ignores_sample_seed
from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidFile, InvalidInput, check_in_open_interval, check_real, shown
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar_where_it_is_seen
from replicable_rl.runs import OWN, ObjectSpec
from replicable_rl.training.content import data_digest
from replicable_rl.training.jobs import TrainJob, returns_of, takes
from replicable_rl.training.naming import OWNER, name_of, settings_of
from replicable_rl.training.probes import check_probe
from replicable_rl.training.sb3 import StableBaselines3
from replicable_rl.wording import sentence

_SHARED = "what train draws from shared_seed"
_REMEMBERS: WeakSet[Any] = WeakSet()  # training code to which the same seeds gave other results


@bar_where_it_is_seen()
def audit_callable(
    train: Callable[[int, int], Any],
    *,
    shared_seeds: int | Sequence[int] = 60,
    runs_per_seed: int = 2,
    seed: int = 0,
    confidence: float = 0.95,
    store: StoreLike = None,
    n_jobs: int | None = None,
    on_error: OnError = "raise",
    probe: Any = None,
    evaluate: Callable[..., Any] | None = None,
    uniform: Any = None,
    data: Callable[[int], Any] | None = None,
    tolerance: float | None = None,
    problem: TabularMDP | None = None,
    name: str | None = None,
    version: str | None = None,
    params: Mapping[str, Json] | None = None,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.05,
) -> AuditResult:
    """Measure how replicable training code is.

    Parameters
    ----------
    train : callable
        ``train(shared_seed, sample_seed)``, both integers below 2**32. It returns

        * a policy: one integer action for every state, shape (S,);
        * action values, shape (S, A); the policy is then greedy, the lowest action first;
        * a `Run`;
        * a function of one observation, evaluated on ``probe``; or
        * weights: bytes, or a mapping of names to arrays such as a ``state_dict``, compared bit by bit.
    probe : array, dict of arrays, or list of dicts, optional
        Observations on which functions are compared: two runs have the same policy when they act alike
        on all of them, and ``result.states.overall`` says on how many they do. `visited_observations` collects some.
    evaluate : callable, optional
        Measures what a run earns: ``evaluate(returned)``, or ``evaluate(returned, seed)`` with a fresh seed for every
        run, gets what ``train`` returned and gives one return or a list of those of several episodes. `EpisodeReturns`
        plays them in a Gymnasium environment. ``result.returns`` has them all, with intervals.
    uniform : float or list of float, optional
        What the uniform policy earns, one number or the returns of several episodes. Where ``evaluate`` can tell
        (`EpisodeReturns` can), nothing needs to be given. Runs that earn no more are warned of.
    data : callable, optional
        ``data(sample_seed)`` returns the data that ``train`` draws, as bytes or arrays. If two sample seeds give the
        same, nothing was sampled, and the audit says so.
    tolerance : float, optional
        For actions that are numbers: how far two may be apart and still count as close. ``result.closeness`` says how
        often they are; the agreement stays about identical ones.
    problem : TabularMDP, optional
        What is solved, where it is known: outputs are checked against its size, and ``result.policies``
        gives returns and losses.
    name, version, params
        What the code is called, its version and its settings. Runs in a store are found again by these and by nothing
        else, so a store asks for a ``version``: change it whenever the code changes.
    rho : float, optional
        The disagreement that is claimed; the table then says whether 1 - rho is met.
    epsilon, delta : float
        The loss that is claimed, from the worst state in values normalised to [0, 1], and the probability with which it
        may be larger. Judged beside rho, by the exact losses on ``problem``.
    shared_seeds, runs_per_seed, seed, confidence, store, n_jobs, on_error
        As for :func:`audit`. Shared seeds that you list must be below 2**32.

    Examples
    --------
    >>> def train(shared_seed, sample_seed):  # takes the better of two arms, by ten noisy rewards each
    ...     rewards = np.random.default_rng(sample_seed).normal([0.5, 0.5], 1.0, (10, 2))
    ...     return [int(rewards.mean(axis=0).argmax())]
    >>> def evaluate(policy, seed):  # pulls the arm a hundred times
    ...     return np.random.default_rng(seed).normal(0.5, 1.0, 100)
    >>> result = audit_callable(train, shared_seeds=100, evaluate=evaluate)
    >>> result.agreement("policy").high < 0.8  # two equal arms: the samples decide
    True
    >>> print(result.returns.mean)
    0.500 (0.488–0.513)
    """
    spec = callable_spec(
        train,
        in_store=store is not None,
        probe=probe,
        evaluate=evaluate,
        uniform=uniform,
        data=data,
        tolerance=tolerance,
        problem=problem,
        name=name,
        version=version,
        params=params,
        epsilon=epsilon,
        delta=delta,
        shared_seeds=shared_seeds,
        runs_per_seed=runs_per_seed,
        seed=seed,
        confidence=confidence,
        rho=None if rho is None else check_in_open_interval(OWNER, "rho", rho),
    )
    with opened_store(store) as opened:
        (result,) = run_audits([spec], opened, n_jobs=n_jobs, on_error=on_error)
        return _as_known(train, result)


def _as_known(train: Any, result: AuditResult) -> AuditResult:
    """Return a result that says of code that remembers what an earlier audit saw: by now it may remember everything."""
    with contextlib.suppress(TypeError, InvalidFile):  # no weak reference to it; no writing
        if any(one.same is False for one in result.repeats):
            _REMEMBERS.add(train)
        elif train in _REMEMBERS:
            seen = Repeat(result.runs[-1].key, False, "in an earlier audit of this program")
            result = replace(result, repeats=(seen,))
            result.store.add_repeats([list(seen)])
    return result


def callable_spec(
    train: Callable[[int, int], Any],
    *,
    in_store: bool = False,
    probe: Any = None,
    evaluate: Callable[..., Any] | None = None,
    uniform: Any = None,
    data: Callable[[int], Any] | None = None,
    tolerance: float | None = None,
    problem: TabularMDP | None = None,
    name: str | None = None,
    version: str | None = None,
    params: Mapping[str, Json] | None = None,
    epsilon: float | None = None,
    delta: float = 0.05,
    **settings: Any,
) -> AuditSpec:
    """Describe an audit of training code, as :func:`audit_callable` makes it; ``settings`` are fields of `AuditSpec`.

    >>> callable_spec(lambda shared, sample: [sample % 2], shared_seeds=3).seeds[0] < 2**32
    True
    """
    _check_functions(train, evaluate, data)
    if problem is not None and not isinstance(problem, TabularMDP):
        raise InvalidInput(f"{OWNER}: problem must be a TabularMDP, got {type(problem).__name__}.")
    adapter = train if isinstance(train, StableBaselines3) else None
    if probe is None and adapter is not None:
        probe = adapter.probe()
    observations = None if probe is None else check_probe(OWNER, probe)
    name = str(name or name_of(train))
    if in_store and version is None:
        refuse_nameless(OWNER, name, "Pass version='1'")
    if in_store and problem is not None:
        refuse_misnamed(OWNER, problem)
    told = settings_of(train, version, params, observations, evaluate, in_store=in_store)
    spec = AuditSpec(
        ObjectSpec("callable") if problem is None else problem.spec,
        ObjectSpec(name, told),
        sampler=OWN,
        shared=adapter.shared_randomness if adapter else _SHARED,
        fresh=adapter.fresh_randomness if adapter else DRAWN_BY_TRAIN,
        training=_asked(evaluate, uniform, tolerance, epsilon, delta, problem),
        code=source_digest(*(adapter.code if adapter else (train,)), *([] if evaluate is None else [evaluate])),
        job=TrainJob(train, observations, problem, evaluate),
        **settings,
    )
    return _with_fresh(spec, train, data)


def _check_functions(train: Any, evaluate: Any, data: Any) -> None:
    if not callable(train) or isinstance(train, type):
        raise InvalidInput(f"{OWNER}: train must be a function of (shared_seed, sample_seed), got {shown(train)}.")
    if not takes(train, 2):
        raise InvalidInput(f"{OWNER}: {name_of(train)} must take two seeds, train(shared_seed, sample_seed).")
    if evaluate is not None and not (callable(evaluate) and (takes(evaluate, 1) or takes(evaluate, 2))):
        rule = "a function of what train returns, or of that and a seed"
        raise InvalidInput(f"{OWNER}: evaluate must be {rule}, got {shown(evaluate)}.")
    if data is not None and not (callable(data) and takes(data, 1)):
        raise InvalidInput(f"{OWNER}: data must be a function of a sample seed, got {shown(data)}.")


def _asked(
    evaluate: Any, uniform: Any, tolerance: Any, epsilon: Any, delta: Any, problem: TabularMDP | None
) -> Training:
    """Return what is asked of the code beside agreement."""
    asked: dict[str, Any] = {}
    if evaluate is not None:
        asked["evaluate"] = name_of(evaluate)
        uniform = evaluate.uniform() if uniform is None and callable(getattr(evaluate, "uniform", None)) else uniform
    if uniform is not None:
        if evaluate is None:
            raise InvalidInput(
                f"{OWNER}: uniform is compared with the returns of runs. Pass evaluate=... (--evaluate), too."
            )
        earned = returns_of(OWNER, "uniform", uniform)
        error = float(earned.std(ddof=1)) / np.sqrt(earned.size) if earned.size > 1 else 0.0
        asked |= {"uniform": float(earned.mean()), "uniform_error": float(error)}
    if tolerance is not None:
        rule = "a number that is not negative"
        asked["tolerance"] = check_real(OWNER, "tolerance", tolerance, low=0.0, high=1e300, rule=rule)
    delta = check_in_open_interval(OWNER, "delta", delta)
    if epsilon is not None:
        epsilon = check_in_open_interval(OWNER, "epsilon", epsilon)
        if problem is None:
            raise InvalidInput(
                f"{OWNER}: epsilon is judged by exact losses. Pass problem=..., a TabularMDP, too (on the command "
                "line: PROBLEM before the function)."
            )
        asked |= {"epsilon": epsilon, "delta": delta}
    return Training(**asked)


def _with_fresh(spec: AuditSpec, train: Any, data: Callable[[int], Any] | None) -> AuditSpec:
    """Return the audit with what is fresh in its runs: seen in the data of two sample seeds, where that can be."""
    if isinstance(train, StableBaselines3):
        repeats = train.repeats(*_two_samples(spec)) if data is None else ""
        spec = replace(spec, fresh=repeats or spec.fresh)
    elif ignores_sample_seed(train):
        return replace(spec, fresh=IGNORED_BY_TRAIN)
    if data is None:
        return spec
    digests = []
    for sample in _two_samples(spec):
        try:
            drawn = data(sample)
        except Exception as error:  # whatever somebody's code raises, its own sentence says why
            said = f"{type(error).__name__}: {sentence(error)}"
            raise InvalidInput(f"{OWNER}: data({sample}) failed ({said}).") from error
        digests.append(data_digest(drawn))
    same = digests[0] == digests[1]
    differ = DIFFERENT_DATA if spec.fresh == DRAWN_BY_TRAIN else spec.fresh
    return replace(spec, fresh=SAME_DATA if same else differ)


def _two_samples(spec: AuditSpec) -> tuple[int, int]:
    one, two, *_ = spec.samples(next(spec.each_seed()))
    return int(one), int(two)
