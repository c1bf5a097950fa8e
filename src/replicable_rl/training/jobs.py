"""One run of somebody's training code: train, bring what it returns into one form, measure what it earns."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.evidence import derived_seed
from replicable_rl.audit.returns import RETURNS
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.planning import gain
from replicable_rl.problem.source import greedy
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import Run, RunSpec, Status, StatusCode
from replicable_rl.runs.run import UNSAID
from replicable_rl.solve import stated_unless_ours
from replicable_rl.training import probes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.training.probes import Observations

_RETURNED = "returned "


@dataclass(frozen=True, eq=False)
class TrainJob:
    """Call the training function and bring what it returns into one form."""

    train: Callable[[int, int], Any]
    probe: Observations | None
    mdp: TabularMDP | None
    evaluate: Callable[..., Any] | None = None
    threads: bool = False

    def run(self, spec: RunSpec) -> Run:
        """Train once, and measure what that earns where something does."""
        returned = self.train(spec.shared_seed, spec.sample_seed or 0)
        run = self._run(returned)
        claims = stated_unless_ours(run.claims, self.train, spec)
        run = run.but(claims=claims if self.mdp is None or not len(claims) else claims.beside(gain(self.mdp)))
        if self.evaluate is None:
            return run
        seed = derived_seed("evaluate", spec.shared_seed, spec.sample_seed or 0) % 2**32
        earned = self.evaluate(returned, seed) if takes(self.evaluate, 2) else self.evaluate(returned)
        return run.but(history={**run.history, RETURNS: returns_of("evaluate", "what it returns", earned)})

    def _run(self, returned: Any) -> Run:
        if isinstance(returned, Run):
            self._check(dict(returned.outputs))
            return returned if returned.status else returned.but(status=UNSAID)
        tables = self._tables(returned)
        self._check(tables)
        return Run.of(tables, status=_status(_words(tables)))

    @property
    def observations(self) -> Observations | None:
        """What functions are compared on."""
        return self.probe

    def anew(self) -> TrainJob:
        """Return the job with the function that its module has under its name, since it was imported again."""
        if not isinstance(self.train, FunctionType):
            return self
        found: Any = importlib.import_module(self.train.__module__)
        for name in self.train.__qualname__.split("."):
            found = getattr(found, name, self.train)  # what is defined in a function has no name
        return replace(self, train=found)

    def shape_of(self, run: Run) -> str | None:
        """Say what a run returned: all must return tables of one shape."""
        said = "" if run.status is None else run.status.sentence
        return said.removeprefix(_RETURNED) if said.startswith(_RETURNED) else None

    def _tables(self, returned: Any) -> dict[str, Any]:
        if callable(returned) and not isinstance(returned, np.ndarray):
            return {"policy": self._actions(returned)}
        if isinstance(returned, (bytes, bytearray, memoryview, Mapping)):
            return {"bytes": returned}
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
            f"Run, a function of observations, or weights (bytes, or a mapping of names to arrays); got {seen}."
        )

    def _actions(self, policy: Callable[[Any], Any]) -> NDArray[Any]:
        """Evaluate a function on the probe set, one observation at a time unless it says it is vectorized."""
        if self.probe is None:
            raise InvalidInput(
                "train: returned a function of observations. Pass probe=... (--probe), observations to compare on."
            )
        observations, n = probes.copied(self.probe), probes.length(self.probe)  # a policy may change what it is given
        try:
            whole = getattr(policy, "vectorized", False)
            actions = np.asarray(policy(observations) if whole else [policy(one) for one in probes.each(observations)])
        except ValueError as error:
            if "inhomogeneous" not in str(error):
                raise
            raise InvalidInput("train: the function's actions on the probe set have several shapes.") from None
        if actions.dtype.kind not in "iufb" or not actions.ndim or len(actions) != n:
            raise InvalidInput(
                f"train: the function must return one action for each of the {n} observations, "
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
                f"values ({S}, {A}); got {_words(tables)}."
            )
        if policy.dtype.kind != "i":
            raise InvalidInput(f"train: actions must be integers in 0..{A - 1}, got {policy.dtype}.")
        wrong = policy[(policy < 0) | (policy >= A)]
        if wrong.size:
            raise InvalidInput(f"train: actions must lie in 0..{A - 1}, got {wrong[0]}.")
        self.mdp.support.refuse_others("train", policy)


def takes(function: Callable[..., Any], arguments: int) -> bool:
    """Whether a function can be called with so many arguments; True also where that cannot be seen.

    >>> takes(lambda policy: 0.0, 1), takes(lambda policy: 0.0, 2)
    (True, False)
    """
    try:
        inspect.signature(function, follow_wrapped=False).bind(*range(arguments))
    except ValueError:  # compiled: it cannot be seen
        return True
    except TypeError:
        return False
    return True


def returns_of(owner: str, name: str, earned: Any) -> NDArray[np.float64]:
    """Return the returns of one episode or more as an array; refuse what is none.

    >>> returns_of("evaluate", "what it returns", 3).tolist()
    [3.0]
    """
    try:
        array = np.atleast_1d(np.asarray(earned))
    except Exception:  # rows of several lengths, and whatever somebody's object raises
        array = np.asarray(None)
    masked = isinstance(earned, np.ma.MaskedArray) or earned is np.ma.masked
    if masked or array.dtype.kind not in "iuf" or array.ndim != 1 or not array.size or not np.isfinite(array).all():
        rule = "one return, or a list of those of several episodes, as finite numbers"
        raise InvalidInput(f"{owner}: {name} must be {rule}, got {shown(earned)}.")
    return array.astype(np.float64)


def _as_int64(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInput(f"train: actions must fit 64 bits with a sign, got {array.max()}.")
    return array.astype(np.int64)


def _words(tables: Mapping[str, Any]) -> str:
    """Say what was returned; of weights not how long they are, for that may differ."""
    level = "value" if "value" in tables else next(iter(tables))
    name = {"policy": "a policy", "value": "action values", "bytes": "weights"}.get(level, level)
    return name if level == "bytes" else f"{name} of shape {tables[level].shape}"


@functools.lru_cache(maxsize=64)
def _status(returned: str) -> Status:
    """Return how a run ended; nearly all runs of an audit have the same."""
    return Status(StatusCode.COMPLETED, f"{_RETURNED}{returned}")
