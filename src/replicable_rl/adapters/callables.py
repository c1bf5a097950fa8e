"""``audit_callable``: the same question for any training code.

The code is a function ``train(shared_seed, sample_seed)``. What it draws from the first two runs
of a pair have in common, what it draws from the second they do not; code that has one seed only
uses the second and shares nothing. It returns a policy table, a table of action values, a
`Run`, or a function of observations, which is compared on a probe set.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.adapters.sb3 import StableBaselines3
from replicable_rl.audit import AuditResult, opened_store, run_audits
from replicable_rl.audit.api import StoreLike
from replicable_rl.audit.identity import content, refuse_misnamed, refuse_nameless, seen
from replicable_rl.audit.jobs import OnError
from replicable_rl.audit.sampled import DRAWN_BY_TRAIN, IGNORED_BY_TRAIN, ignores_sample_seed
from replicable_rl.canonical import Json, array_digest
from replicable_rl.errors import InvalidInput, check_in_open_interval, shown
from replicable_rl.mdp import TabularMDP, allowed_of, greedy
from replicable_rl.mdp.allowed import check_policy_allowed
from replicable_rl.progress_bar import bar_where_it_is_seen
from replicable_rl.records import OWN, AuditSpec, ObjectSpec, Run, RunSpec, Status, StatusCode
from replicable_rl.solve.naming import said

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_OWNER = "audit_callable"
_SHARED = "what train draws from shared_seed"
_RETURNED = "returned "


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
    probe: ArrayLike | None = None,
    problem: TabularMDP | None = None,
    name: str | None = None,
    version: str | None = None,
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
        * a `Run`; or
        * a function of one observation, evaluated on ``probe``.
    probe : array, optional
        Observations on which functions are compared: two runs have the same policy when they act alike
        on all of them, and ``result.states.overall`` says on how many they do.
    problem : TabularMDP, optional
        What is solved, where it is known: outputs are checked against its size, and ``result.policies``
        gives returns and losses.
    name, version, params
        What the code is called, its version and its settings. Runs in a store are found again by these and by nothing
        else, so a store asks for a ``version`` or for ``params``: change one of them whenever the code changes. Code
        that looks different under the same name is refused.
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
        raise InvalidInput(f"{_OWNER}: train must be a function of (shared_seed, sample_seed), got {shown(train)}.")
    if problem is not None and not isinstance(problem, TabularMDP):
        raise InvalidInput(f"{_OWNER}: problem must be a TabularMDP, got {type(problem).__name__}.")
    adapter = train if isinstance(train, StableBaselines3) else None
    if probe is None and adapter is not None:
        probe = adapter.probe()
    observations = None if probe is None else _check_probe(probe)
    name = str(name or _name(train))
    if store is not None and version is None and not params and (adapter is None or not adapter.is_exact):
        refuse_nameless(_OWNER, name, "Pass version='1' (or params={...} that say what matters)")
    if store is not None and problem is not None:
        refuse_misnamed(_OWNER, problem)
    spec = AuditSpec(
        ObjectSpec("callable") if problem is None else problem.spec,
        ObjectSpec(name, _settings(train, version, params, observations, in_store=store is not None)),
        shared_seeds=shared_seeds,  # type: ignore[arg-type]  # a list becomes a tuple
        runs_per_seed=runs_per_seed,
        seed=seed,
        confidence=confidence,
        sampler=OWN,
        rho=None if rho is None else check_in_open_interval(_OWNER, "rho", rho),
        shared=adapter.shared_randomness if adapter else _SHARED,
        fresh=adapter.fresh_randomness if adapter else _fresh(train),
        code=seen({"algorithm": [adapter.algorithm if adapter else train], "problem": content(problem)}),
        job=TrainJob(train, observations, problem),
    )
    with opened_store(store) as opened:
        (result,) = run_audits([spec], opened, n_jobs=n_jobs, on_error=on_error)
    return result


@dataclass(frozen=True, eq=False)
class TrainJob:
    """Call the training function and bring what it returns into one form."""

    train: Callable[[int, int], Any]
    probe: NDArray[Any] | None
    mdp: TabularMDP | None
    threads: bool = False

    def run(self, spec: RunSpec) -> Run:
        """Train once."""
        returned = self.train(spec.shared_seed, spec.sample_seed or 0)
        if isinstance(returned, Run):
            self._check(dict(returned.outputs))
            return returned
        tables = self._tables(returned)
        self._check(tables)
        return Run.of(tables, status=_status(*_shape(tables)))

    def shape_of(self, run: Run) -> str | None:
        """Say what a run returned: all must return tables of one shape."""
        said = "" if run.status is None else run.status.sentence
        return said.removeprefix(_RETURNED) if said.startswith(_RETURNED) else None

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
        seen = f"an array of {table.dtype} of shape {table.shape}" if table.ndim else f"{shown(returned)}"
        raise InvalidInput(
            "train: must return a policy (integers of shape (S,)), action values (floats of shape (S, A)), a "
            f"Run, or a function of observations; got {seen}."
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

    def _check(self, tables: Mapping[str, Any]) -> None:
        """Refuse tables that do not fit the problem, where it is known."""
        if self.mdp is None or "policy" not in tables:
            return
        S, A, policy = self.mdp.n_states, self.mdp.n_actions, tables["policy"]
        if policy.shape != (S,) or ("value" in tables and tables["value"].shape != (S, A)):
            raise InvalidInput(
                f"train: the problem has {S} states and {A} actions, so a policy has shape ({S},) and action "
                f"values ({S}, {A}); got {_words(*_shape(tables))}."
            )
        if policy.dtype.kind != "i":
            raise InvalidInput(f"train: actions must be integers in 0..{A - 1}, got {policy.dtype}.")
        wrong = policy[(policy < 0) | (policy >= A)]
        if wrong.size:
            raise InvalidInput(f"train: actions must lie in 0..{A - 1}, got {wrong[0]}.")
        check_policy_allowed("train", policy, allowed_of(self.mdp))


def _fresh(train: Callable[[int, int], Any]) -> str:
    return IGNORED_BY_TRAIN if ignores_sample_seed(train) else DRAWN_BY_TRAIN


def _name(train: Any) -> str:
    if isinstance(train, StableBaselines3):
        return train.name
    while isinstance(train, functools.partial):
        train = train.func
    return str(getattr(train, "__name__", type(train).__name__))


def _settings(
    train: Any, version: object, params: Mapping[str, Json] | None, probe: NDArray[Any] | None, *, in_store: bool
) -> dict[str, Json]:
    """Return what tells the code from other code of its name: its version and settings, and what it is asked."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidInput(f"{_OWNER}: params must be a mapping of names to values, got {shown(params)}.")
    if version is not None and not str(version):
        raise InvalidInput(f"{_OWNER}: version must be a text such as '1', got {shown(version)}.")
    settings = dict(params or {})
    for key, value in _arguments(train).items():
        try:
            exact = said(value)
        except InvalidInput:
            if in_store and key not in settings:
                raise InvalidInput(
                    f"{_OWNER}: a store cannot tell {key}={shown(value)} from other values. Say it in "
                    f"params={{{key!r}: ...}}."
                ) from None
            continue
        if said(settings.setdefault(key, exact)) != exact:
            raise InvalidInput(f"{_OWNER}: {key!r} is {shown(exact)} in train and {settings[key]!r:.60} in params.")
    for reserved in {"version", "probe"} & set(settings):
        raise InvalidInput(f"{_OWNER}: the name {reserved!r} is taken. Call that parameter something else.")
    if isinstance(train, StableBaselines3):
        settings = train.params | settings
    if version is not None:
        settings["version"] = str(version)
    if probe is not None:
        settings["probe"] = array_digest("probe", probe)[:16]
    return settings


def _arguments(train: Any) -> dict[str, Any]:
    """Return the arguments that a partial function was given: the first is called "argument 1"."""
    named: dict[str, Any] = {}
    placed: tuple[Any, ...] = ()
    while isinstance(train, functools.partial):
        named, placed, train = train.keywords | named, train.args + placed, train.func
    return {f"argument {i}": value for i, value in enumerate(placed, start=1)} | named


def _check_probe(probe: ArrayLike) -> NDArray[Any]:
    try:
        observations = np.asarray(probe)
    except ValueError:
        observations = np.asarray(None)
    if observations.dtype.kind not in "iufb" or not observations.ndim or not len(observations):
        raise InvalidInput(f"{_OWNER}: probe must be an array of one observation or more, got {shown(probe)}.")
    if observations.dtype.kind == "f" and np.isnan(observations).any():
        raise InvalidInput(f"{_OWNER}: probe must hold numbers, got NaN.")
    return observations


def _as_int64(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInput(f"train: actions must fit 64 bits with a sign, got {array.max()}.")
    return array.astype(np.int64)


def _shape(tables: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    level = "value" if "value" in tables else next(iter(tables))
    return level, tables[level].shape


def _words(level: str, shape: tuple[int, ...]) -> str:
    name = {"policy": "a policy", "value": "action values"}.get(level, level)
    return f"{name} of shape {shape}"


@functools.lru_cache(maxsize=64)
def _status(level: str, shape: tuple[int, ...]) -> Status:
    """Return how a run ended; nearly all runs of an audit have the same."""
    return Status(StatusCode.COMPLETED, f"{_RETURNED}{_words(level, shape)}")
