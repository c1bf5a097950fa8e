"""``audit_callable``: the same question for any training code.

The code is a function ``train(shared_seed, sample_seed)``. What it draws from the first two runs
of a pair have in common, what it draws from the second they do not; code that has one seed only
uses the second and shares nothing. It returns a policy table, a table of action values, a
`Solution`, or a function of observations, which is compared on a probe set.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.api import run_audit, tasks_of
from replicable_rl.audit.identity import code_digest
from replicable_rl.audit.jobs import OnError, Output, output_of
from replicable_rl.audit.plan import AuditPlan, plan_audit
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.run import finish
from replicable_rl.audit.sb3 import StableBaselines3
from replicable_rl.canonical import Json, array_digest
from replicable_rl.errors import InvalidInput, check_in_open_interval
from replicable_rl.mdp import TabularMDP, greedy
from replicable_rl.records import ObjectSpec, RunFamily, Solution
from replicable_rl.store import RunStore
from replicable_rl.store.arrays import encode_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["audit_callable"]

_SHARED = "what train draws from shared_seed"
_FRESH = "what train draws from sample_seed"


def audit_callable(
    train: Callable[[int, int], Any],
    *,
    shared_seeds: int | Sequence[int] = 60,
    runs_per_seed: int = 2,
    seed: int = 0,
    confidence: float = 0.95,
    store: str | os.PathLike[str] | RunStore | None = None,
    n_jobs: int | None = None,
    on_error: OnError = "raise",
    probe: ArrayLike | None = None,
    problem: TabularMDP | None = None,
    name: str | None = None,
    params: Mapping[str, Json] | None = None,
    rho: float | None = None,
) -> AuditResult:
    """Measure how replicable training code is.

    Parameters
    ----------
    train : callable
        ``train(shared_seed, sample_seed)``, both integers below 2**64. It returns

        * a policy: one integer action for every state, shape (S,);
        * action values, shape (S, A); the policy is then greedy, the lowest action first;
        * a `Solution`; or
        * a function of one observation, evaluated on ``probe``.
    probe : array, optional
        Observations on which functions are compared: two runs have the same policy when they act alike
        on all of them, and ``result.states.overall`` says on how many they do.
    problem : TabularMDP, optional
        What is solved, where it is known: outputs are checked against its size, and ``result.policies``
        gives returns and losses.
    name, params
        What the run records call the code and its settings. Runs in a store are found again by these and
        by what the function does (:mod:`replicable_rl.audit.identity`); what else it reads, such as files
        and libraries, should be named in ``params``, or a change of it goes unnoticed.
    rho : float, optional
        The disagreement that is claimed; the table then says whether 1 - rho is met.
    shared_seeds, runs_per_seed, seed, confidence, store, n_jobs, on_error
        As for :func:`audit`.

    Examples
    --------
    >>> def train(shared_seed, sample_seed):  # takes the better of two arms, by ten noisy rewards each
    ...     rewards = np.random.default_rng(sample_seed).normal([0.5, 0.5], 1.0, (10, 2))
    ...     return [int(rewards.mean(axis=0).argmax())]
    >>> result = audit_callable(train, shared_seeds=100)
    >>> result.agreement("policy").high < 0.8  # two equal arms: the samples decide
    True
    """
    if not callable(train) or isinstance(train, type):
        raise InvalidInput(f"audit_callable: train must be a function of (shared_seed, sample_seed), got {train!r}.")
    if problem is not None and not isinstance(problem, TabularMDP):
        raise InvalidInput(f"audit_callable: problem must be a TabularMDP, got {type(problem).__name__}.")
    if rho is not None:
        rho = check_in_open_interval("audit_callable", "rho", rho)
    if probe is None and isinstance(train, StableBaselines3):
        probe = train.probe()
    observations = None if probe is None else _check_probe(probe)
    family = RunFamily(
        ObjectSpec("callable") if problem is None else problem.spec,
        _identity(train, name, params, observations, in_store=store is not None),
    )
    plan = plan_audit("audit_callable", shared_seeds, runs_per_seed, seed, confidence)
    job = TrainJob(train, observations, None if problem is None else (problem.n_states, problem.n_actions))
    opened = store if isinstance(store, RunStore) else RunStore(store)
    try:
        if problem is None:
            job = replace(job, like=_first_shapes(job, family, plan, opened, n_jobs, on_error))
        return run_audit(
            job,
            family,
            plan,
            store=opened,
            n_jobs=n_jobs,
            on_error=on_error,
            mdp=problem,
            rho=rho,
            randomness=(train.shared_randomness, train.fresh_randomness)
            if isinstance(train, StableBaselines3)
            else (_SHARED, _FRESH),
            probe=observations,
        )
    finally:
        if opened is not store and opened.path is not None:
            opened.close()


@dataclass(frozen=True, eq=False)
class TrainJob:
    """Call the training function and bring what it returns into one form."""

    train: Callable[[int, int], Any]
    probe: NDArray[Any] | None
    size: tuple[int, int] | None
    like: dict[str, tuple[int, ...]] | None = None

    def run(self, shared_seed: int, sample_seed: int) -> Output:
        """Train once."""
        returned = self.train(shared_seed, sample_seed)
        if isinstance(returned, Solution):
            self._check({"policy": returned.policy, "value": returned.q})
            return output_of(returned)
        tables = self._tables(returned)
        self._check(tables)
        fields = {level: array_digest(level, table) for level, table in tables.items()}
        arrays = {fields[level]: functools.partial(encode_array, table) for level, table in tables.items()}
        return Output(dict(fields), dict(arrays))

    def _tables(self, returned: Any) -> dict[str, NDArray[Any]]:
        if callable(returned) and not isinstance(returned, np.ndarray):
            return {"policy": self._actions(returned)}
        try:
            table = np.asarray(returned)
        except ValueError:
            table = np.asarray(None)
        if table.dtype.kind in "iu" and table.ndim == 1 and table.size:
            return {"policy": _as_int64(table)}
        if table.dtype.kind == "f" and table.ndim == 2 and table.size:
            if np.isnan(table).any():
                s, a = np.argwhere(np.isnan(table))[0]
                raise InvalidInput(f"train: action values must be numbers, got NaN in state {s}, action {a}.")
            q = table.astype(np.float64) + 0.0
            return {"policy": greedy(q), "value": q}
        seen = f"an array of {table.dtype} of shape {table.shape}" if table.ndim else f"{returned!r:.60}"
        raise InvalidInput(
            "train: must return a policy (integers of shape (S,)), action values (floats of shape (S, A)), a "
            f"Solution, or a function of observations; got {seen}."
        )

    def _actions(self, policy: Callable[[Any], Any]) -> NDArray[Any]:
        """Evaluate a function on the probe set, one observation at a time unless it says it is vectorized."""
        if self.probe is None:
            raise InvalidInput(
                "train: returned a function of observations. Pass probe=..., observations to compare on."
            )
        observations = self.probe.copy()  # a policy may change what it is given
        try:
            whole = getattr(policy, "vectorized", False)
            actions = np.asarray(policy(observations) if whole else [policy(one) for one in observations])
        except ValueError as error:
            if "inhomogeneous" not in str(error):
                raise
            raise InvalidInput("train: the function's actions on the probe set have several shapes.") from None
        if actions.dtype.kind not in "iufb" or not actions.ndim or len(actions) != len(self.probe):
            raise InvalidInput(
                f"train: the function must return one action for each of the {len(self.probe)} observations, "
                f"got {actions.dtype} of shape {actions.shape}."
            )
        if actions.dtype.kind == "f":
            if np.isnan(actions).any():
                raise InvalidInput("train: the function's actions must be numbers, got NaN.")
            actions = actions.astype(np.float64) + 0.0
            if not (actions == np.rint(actions)).all() or np.abs(actions).max() >= 2.0**53:
                return actions
        return _as_int64(actions)  # 1.0 and 1 are the same action

    def _check(self, tables: Mapping[str, NDArray[Any]]) -> None:
        shapes = {level: table.shape for level, table in tables.items()}
        if self.size is not None:
            S, A = self.size
            if shapes["policy"] != (S,) or shapes.get("value", (S, A)) != (S, A):
                raise InvalidInput(
                    f"train: the problem has {S} states and {A} actions, so a policy has shape ({S},) and action "
                    f"values ({S}, {A}); got {_words(shapes)}."
                )
            if tables["policy"].dtype.kind != "i":
                raise InvalidInput(f"train: actions must be integers in 0..{A - 1}, got {tables['policy'].dtype}.")
            wrong = tables["policy"][(tables["policy"] < 0) | (tables["policy"] >= A)]
            if wrong.size:
                raise InvalidInput(f"train: actions must lie in 0..{A - 1}, got {wrong[0]}.")
        if self.like is not None and shapes != self.like:
            raise InvalidInput(f"train: the first run returned {_words(self.like)}, this one {_words(shapes)}.")


def _first_shapes(
    job: TrainJob, family: RunFamily, plan: AuditPlan, store: RunStore, n_jobs: int | None, on_error: OnError
) -> dict[str, tuple[int, ...]] | None:
    """Make runs until one succeeds, and return the shapes that all others must have."""
    tasks, at_most = tasks_of(family, plan), 1
    while True:
        finished = store.keys(family)
        for task in tasks:
            if task.key in finished:
                record = store.run(task.key)
                levels = (("policy", record.policy), ("value", record.value))
                return {level: store.array(digest).shape for level, digest in levels if digest is not None}
        if not finish(job, family, tasks, store, n_jobs=n_jobs, on_error=on_error, at_most=at_most):
            return None
        at_most *= 2  # all have failed so far


def _identity(
    train: Any, name: str | None, params: Mapping[str, Json] | None, probe: NDArray[Any] | None, *, in_store: bool
) -> ObjectSpec:
    """Name the code: what it is called, its settings, what it does, and what it is asked."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidInput(f"audit_callable: params must be a mapping of names to values, got {params!r:.60}.")
    function, settings = train, dict(params or {})
    while isinstance(function, functools.partial):
        settings = {key: value for key, value in function.keywords.items() if _is_short(value)} | settings
        function = function.func
    adapter = isinstance(train, StableBaselines3)
    if adapter:
        settings = train.params | settings
    for reserved in {"code", "probe"} & set(settings):
        raise InvalidInput(f"audit_callable: the name {reserved!r} is taken. Call that parameter something else.")
    if not adapter:
        settings["code"], unsayable = code_digest(train)
        if unsayable and in_store and params is None:
            raise InvalidInput(
                f"audit_callable: train uses {', '.join(unsayable)}, whose content has no exact form, so nothing would "
                "tell its runs in a store from those of other code. Say what matters of it in params={...}."
            )
    if probe is not None:
        settings["probe"] = array_digest("probe", probe)[:16]
    known = name or (train.name if adapter else getattr(function, "__name__", type(function).__name__))
    return ObjectSpec(str(known), settings)


def _is_short(value: object) -> bool:
    return isinstance(value, (bool, int, float, str))


def _check_probe(probe: ArrayLike) -> NDArray[Any]:
    try:
        observations = np.asarray(probe)
    except ValueError:
        observations = np.asarray(None)
    if observations.dtype.kind not in "iufb" or not observations.ndim or not len(observations):
        raise InvalidInput(f"audit_callable: probe must be an array of one observation or more, got {probe!r:.60}.")
    if observations.dtype.kind == "f" and np.isnan(observations).any():
        raise InvalidInput("audit_callable: probe must hold numbers, got NaN.")
    return observations


def _as_int64(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInput(f"train: actions must fit 64 bits with a sign, got {array.max()}.")
    return array.astype(np.int64)


def _words(shapes: Mapping[str, tuple[int, ...]]) -> str:
    names = {"policy": "a policy", "value": "action values"}
    level = "value" if "value" in shapes else "policy"
    return f"{names[level]} of shape {shapes[level]}"
