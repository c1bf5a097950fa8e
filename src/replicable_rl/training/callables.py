"""``audit_callable``: the same question for any training code.

The code is a function ``train(shared_seed, sample_seed)``. What it draws from the first two runs
of a pair have in common, what it draws from the second they do not; code that has one seed only
uses the second and shares nothing. It returns a policy table, a table of action values, a
`Run`, weights, or a function of observations, which is compared on a probe set.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from replicable_rl.audit import AuditResult, AuditSpec, Job, TrainingCode, opened_store, run_audits
from replicable_rl.audit.audits import StoreLike, refuse_misnamed, refuse_nameless
from replicable_rl.audit.evidence import Repeat, derived_seed
from replicable_rl.audit.judging import RETURNS
from replicable_rl.audit.workers import OnError
from replicable_rl.canonical import Json, array_digest
from replicable_rl.errors import InvalidFile, InvalidInput, check_in_open_interval, shown
from replicable_rl.planning import gain
from replicable_rl.problem.source import greedy
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar
from replicable_rl.runs import UNSAID, ObjectSpec, Run, RunSpec, Status, StatusCode, exact_json
from replicable_rl.solve import other_author
from replicable_rl.training.playing import EpisodeReturns, check_probe
from replicable_rl.training.sb3 import StableBaselines3, TrainedPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

OWNER = "audit_callable"
_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType)
_RESERVED = {"version", "probe", "evaluate"}
_REMEMBERS: WeakSet[Any] = WeakSet()  # training code to which the same seeds gave other results


@bar()
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
    problem: TabularMDP | None = None,
    name: str | None = None,
    version: str | None = None,
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
    probe : array, optional
        Observations on which functions are compared: two runs have the same policy when they act alike
        on all of them, and ``result.states`` says on which they differ. `visited_observations` collects some.
    evaluate : callable, optional
        Measures what a run earns: ``evaluate(returned, seed)`` gets what ``train`` returned and a fresh seed, and gives
        one return or a list of those of several episodes. `EpisodeReturns` plays them in a Gymnasium environment, also
        for the uniform policy: runs that earn no more are warned of. ``result.returns`` has them all, with intervals.
    problem : TabularMDP, optional
        What is solved, where it is known: outputs are checked against its size, and ``result.policies``
        gives returns and losses.
    name, version
        What the code is called, and its version. Runs in a store are found again by these, and by the arguments that
        ``functools.partial`` gave, so a store asks for a ``version``: change it whenever the code changes.
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
        problem=problem,
        name=name,
        version=version,
        epsilon=epsilon,
        delta=delta,
        shared_seeds=shared_seeds,
        runs_per_seed=runs_per_seed,
        seed=seed,
        confidence=confidence,
        rho=rho,
    )
    with opened_store(store) as opened:
        (result,) = run_audits([spec], opened, n_jobs=n_jobs, on_error=on_error)
        return _as_known(train, result)


def _as_known(train: Any, result: AuditResult) -> AuditResult:
    """Return a result that says of code that remembers what an earlier audit saw: by now it may remember everything."""
    with contextlib.suppress(TypeError, InvalidFile):  # no weak reference to it; no writing
        if any(repeat.same is False for repeat in result.repeats):
            _REMEMBERS.add(train)
        elif train in _REMEMBERS:
            repeat = Repeat(result.runs[-1].key, False, "in an earlier audit of this program")
            result = replace(result, repeats=(repeat,))
            result.store.add_repeats([list(repeat)])
    return result


def callable_spec(
    train: Callable[[int, int], Any],
    *,
    in_store: bool = False,
    probe: Any = None,
    evaluate: Callable[..., Any] | None = None,
    problem: TabularMDP | None = None,
    name: str | None = None,
    version: str | None = None,
    epsilon: float | None = None,
    delta: float = 0.05,
    **settings: Any,
) -> AuditSpec:
    """Describe an audit of training code, as :func:`audit_callable` makes it; ``settings`` are fields of `AuditSpec`.

    >>> callable_spec(lambda shared, sample: [sample % 2], shared_seeds=3).seeds[0] < 2**32
    True
    """
    if not _takes_two(train):
        rule = "a function of two seeds, train(shared_seed, sample_seed)"
        raise InvalidInput(f"{OWNER}: train must be {rule}, got {shown(train)}.")
    if evaluate is not None and not _takes_two(evaluate):
        rule = "a function of what train returns and of a seed"
        raise InvalidInput(f"{OWNER}: evaluate must be {rule}, got {shown(evaluate)}.")
    if problem is not None and not isinstance(problem, TabularMDP):
        raise InvalidInput(f"{OWNER}: problem must be a TabularMDP, got {type(problem).__name__}.")
    if problem is None and epsilon is not None:
        raise InvalidInput(
            f"{OWNER}: epsilon is judged by exact losses. Pass problem=..., a TabularMDP, too (on the command "
            "line: PROBLEM before the function)."
        )
    name = str(name or name_of(train))
    if in_store and version is None:
        refuse_nameless(OWNER, name, "Pass version='1'")
    if in_store and problem is not None:
        refuse_misnamed(OWNER, problem)
    if probe is None and isinstance(train, StableBaselines3):
        probe = train.probe()
    observations = None if probe is None else check_probe(OWNER, probe)
    evidence = TrainingCode(
        stale="train does not read sample_seed" if ignores_sample_seed(train) else "",
        epsilon=None if epsilon is None else check_in_open_interval(OWNER, "epsilon", epsilon),
        delta=check_in_open_interval(OWNER, "delta", delta),
        evaluate=None if evaluate is None else name_of(evaluate),
    )
    if isinstance(evaluate, EpisodeReturns):
        uniform = evaluate.uniform()
        error = float(uniform.std(ddof=1)) / math.sqrt(uniform.size)
        evidence = replace(evidence, uniform=float(uniform.mean()), uniform_error=error)
    if isinstance(train, StableBaselines3):
        evidence = replace(evidence, shared=train.shared_randomness, fresh=train.fresh_randomness)
    return AuditSpec(
        ObjectSpec("callable") if problem is None else problem.spec,
        ObjectSpec(name, _settings_of(train, version, observations, evaluate, in_store=in_store)),
        evidence=evidence,
        foreign=True,
        job=TrainJob(train, observations, problem, evaluate),
        **settings,
    )


def _takes_two(function: Any) -> bool:
    """Whether something can be called with two arguments; True also where that cannot be seen."""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        inspect.signature(function, follow_wrapped=False).bind(0, 0)
    except ValueError:  # compiled: it cannot be seen
        return True
    except TypeError:
        return False
    return True


def ignores_sample_seed(train: Callable[..., Any]) -> bool:
    """Whether a function never reads its second argument; False also where that cannot be seen.

    >>> ignores_sample_seed(lambda shared_seed, sample_seed: [shared_seed % 2])
    True
    >>> ignores_sample_seed(lambda shared_seed, sample_seed: [sample_seed % 2])
    False
    """
    if not isinstance(train, FunctionType) or train.__code__.co_argcount < 2:
        return False
    name = train.__code__.co_varnames[1]
    steps = (step.argval for step in dis.get_instructions(train) if "LOAD" in step.opname)
    return not any(name in (read if isinstance(read, tuple) else (read,)) for read in steps)


# --- the identity -------------------------------------------------------------------------------------------------


def name_of(function: Any) -> str:
    """Return the name of a function, of what a partial function calls, or of a class of callable objects."""
    if isinstance(function, StableBaselines3):
        return function.name
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(function.__name__ if isinstance(function, _FUNCTIONS) else type(function).__name__)


def _settings_of(
    train: Any, version: object, probe: NDArray[Any] | None, evaluate: Any, *, in_store: bool
) -> dict[str, Json]:
    """Return what tells the code from other code of its name: its version and arguments, and what it is asked."""
    settings: dict[str, Json] = train.params if isinstance(train, StableBaselines3) else {}
    if isinstance(train, functools.partial):
        arguments = {f"argument {i}": value for i, value in enumerate(train.args, start=1)} | train.keywords
        if taken := _RESERVED & set(arguments):
            raise InvalidInput(f"{OWNER}: the name {min(taken)!r} is taken. Call that parameter something else.")
        for key, value in arguments.items():
            try:
                settings[key] = exact_json(value)
            except InvalidInput:
                if in_store:
                    rule = "a store cannot tell it from other values. Pass numbers, texts, lists or arrays"
                    raise InvalidInput(f"{OWNER}: got {key}={shown(value)}, and {rule}.") from None
    if version is not None:
        settings["version"] = str(version)
    if probe is not None:
        settings["probe"] = array_digest("probe", probe)[:16]
    if evaluate is not None:
        settings["evaluate"] = evaluate.exact_json() if isinstance(evaluate, EpisodeReturns) else name_of(evaluate)
    return settings


# --- a run --------------------------------------------------------------------------------------------------------


class TrainJob(Job):
    """Call the training function and bring what it returns into one form."""

    def __init__(
        self,
        train: Callable[[int, int], Any],
        observations: NDArray[Any] | None,
        mdp: TabularMDP | None,
        evaluate: Callable[..., Any] | None = None,
    ) -> None:
        self.train, self.observations, self.mdp, self.evaluate = train, observations, mdp, evaluate

    def run(self, spec: RunSpec) -> Run:
        """Train once, and measure what that earns where something does."""
        returned = self.train(spec.shared_seed, spec.sample_seed or 0)
        run = returned if isinstance(returned, Run) else Run.of(self._outputs(returned))
        if self.mdp is not None and "policy" in run.outputs:
            _check_fit(run, self.mdp)
        gained = gain(self.mdp) if self.mdp is not None and len(run.claims) else None
        claims = run.claims.told(gain=gained, by=other_author(self.train, spec))
        run = run.but(claims=claims, status=run.status or (UNSAID if isinstance(returned, Run) else _STATUS))
        if self.evaluate is None:
            return run
        seed = derived_seed("evaluate", spec.shared_seed, spec.sample_seed or 0) % 2**32
        return run.but(history={**run.history, RETURNS: _returns_of(self.evaluate(returned, seed))})

    def _outputs(self, returned: Any) -> dict[str, Any]:
        if callable(returned):
            return {"policy": self._actions(returned)}
        if isinstance(returned, (bytes, bytearray, memoryview, Mapping)):
            return {"bytes": returned}
        try:
            table = np.asarray(returned)
        except ValueError:
            table = np.asarray(None)
        if table.dtype.kind in "iu" and table.ndim == 1 and table.size:
            return {"policy": table}
        if table.dtype.kind == "f" and table.ndim == 2 and table.size:
            q = table.astype(np.float64) + 0.0
            return {"policy": greedy(q), "value": q}
        seen = f"an array of {table.dtype} of shape {table.shape}" if table.ndim else f"{shown(returned)}"
        raise InvalidInput(
            "train: must return a policy (integers of shape (S,)), action values (floats of shape (S, A)), a "
            f"Run, a function of observations, or weights (bytes, or a mapping of names to arrays); got {seen}."
        )

    def _actions(self, policy: Callable[[Any], Any]) -> NDArray[Any]:
        """Evaluate a function on the probe set, one observation at a time."""
        if self.observations is None:
            raise InvalidInput(
                "train: returned a function of observations. Pass probe=..., observations to compare on."
            )
        n, copied = len(self.observations), self.observations.copy()  # a policy may change what it is given
        actions = np.asarray(policy(copied) if isinstance(policy, TrainedPolicy) else list(map(policy, copied)))
        if actions.dtype.kind not in "iufb" or not actions.ndim or len(actions) != n or not np.isfinite(actions).all():
            raise InvalidInput(
                f"train: the function must return one action, a number, for each of the {n} observations, "
                f"got {actions.dtype} of shape {actions.shape}."
            )
        is_whole = (actions == np.rint(actions)).all()
        return actions.astype(np.int64) if is_whole else actions  # 1.0 and 1 are the same action


_STATUS = Status(StatusCode.COMPLETED, "the training code returned")


def _check_fit(run: Run, mdp: TabularMDP) -> None:
    """Refuse outputs that do not fit the problem, where it is known."""
    S, A, policy, q = mdp.n_states, mdp.n_actions, run.policy, run.outputs.get("value")
    if policy.shape != (S,) or policy.dtype.kind != "i" or (q is not None and q.shape != (S, A)):
        shapes = f"{policy.dtype} of shape {policy.shape}" + ("" if q is None else f" and values of shape {q.shape}")
        raise InvalidInput(
            f"train: the problem has {S} states and {A} actions, so a policy is integers of shape ({S},) and action "
            f"values have shape ({S}, {A}); got {shapes}."
        )
    wrong = policy[(policy < 0) | (policy >= A)]
    if wrong.size:
        raise InvalidInput(f"train: actions must lie in 0..{A - 1}, got {wrong[0]}.")
    mdp.support.refuse_others("train", policy)


def _returns_of(returns: Any) -> NDArray[np.float64]:
    """Return the returns of one episode or more as an array; refuse what is none."""
    array = np.atleast_1d(np.asarray(returns))
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not array.size or not np.isfinite(array).all():
        rule = "one return, or a list of those of several episodes, as finite numbers"
        raise InvalidInput(f"evaluate: must return {rule}, got {shown(returns)}.")
    return array.astype(np.float64)
