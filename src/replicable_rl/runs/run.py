"""A run: outputs by level, how it ended, what is claimed about it, and what made it.

This is the one form of a run: what :func:`replicable_rl.solve` returns, what a file holds, what a store keeps. A run
that was read from a store knows its fingerprints, and fetches an output when it is asked for.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.canonical import Json, array_digest, decimal, from_decimal
from replicable_rl.display import Displayed, described
from replicable_rl.errors import InvalidInput, did_you_mean
from replicable_rl.files import Artifact, Parts
from replicable_rl.runs.algorithm import speaker
from replicable_rl.runs.claims import Claims
from replicable_rl.runs.levels import LEVELS, in_order, level_of
from replicable_rl.runs.specs import RunSpec
from replicable_rl.wording import brief, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.problem.table import TabularMDP


class StatusCode(Enum):
    """How a run ended."""

    COMPLETED = "completed"
    STOPPED_BY_RULE = "stopped by the rule"
    ALL_KNOWN = "every pair known"
    BUDGET_SPENT = "budget spent"
    FAILED = "failed"


@dataclass(frozen=True)
class Status(Displayed):
    """How a run ended, as a code for programs and a sentence for people."""

    code: StatusCode
    sentence: str

    def __repr__(self) -> str:
        code = self.code.value if isinstance(self.code, StatusCode) else self.code  # a test may spoil it
        return described(self, f"{code}: {self.sentence}")

    def __str__(self) -> str:
        return f"{self.code.value}: {self.sentence}"

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {"code": self.code.value, "sentence": self.sentence}

    @classmethod
    def from_json(cls, data: Json) -> Status:
        """Read the JSON form back."""
        codes = [code.value for code in StatusCode]
        if not isinstance(data, dict) or data.get("code") not in codes or not isinstance(data.get("sentence"), str):
            raise InvalidInput(f"Status: expected a code of {', '.join(codes)} and a sentence, got {data!r:.200}.")
        return cls(StatusCode(data["code"]), data["sentence"])


UNSAID = Status(StatusCode.COMPLETED, "the code that ran does not say how it ended")  # no run ends without a word


History = Mapping[str, "NDArray[np.float64]"]


class Fingerprints(dict[str, str]):
    """Digests of the exact bits, by level; also as attributes, None for a level that the run does not have.

    Equal fingerprints mean identical outputs, never merely close ones.

    >>> Fingerprints(policy="b7ec").policy, Fingerprints(policy="b7ec").model
    ('b7ec', None)
    """

    def __getattr__(self, level: str) -> str | None:
        if level in self or level in LEVELS:
            return self.get(level)
        raise AttributeError(f"there is no level {level!r}.{did_you_mean(level, LEVELS)}")


@functools.cache
def made_with() -> Mapping[str, str]:
    """Return the versions of what computes here, and the platform: part of a run, but not of its identity."""
    from importlib.metadata import version

    packages = {name: version(name) for name in ("replicable-rl", "numpy", "numba", "scipy")}
    machine = f"{platform.system()}-{platform.machine()}"
    return {**packages, "python": platform.python_version(), "platform": machine}


_NO_CLAIMS = Claims()
_HISTORY = "history/"  # the folder of its columns in a file
Fetch = Callable[[str, str], Any]  # (level, or "history", and digest) -> what is kept


class KeptOutputs(Mapping[str, Any]):
    """The outputs of a run that is kept elsewhere: each is fetched when it is asked for."""

    __slots__ = ("_fetch", "fingerprints")

    def __init__(self, fingerprints: Fingerprints, fetch: Fetch) -> None:
        self.fingerprints, self._fetch = fingerprints, fetch

    def __getitem__(self, level: str) -> Any:
        return self._fetch(level, self.fingerprints[level])

    def __contains__(self, level: object) -> bool:
        return level in self.fingerprints  # a mapping would fetch it

    def __iter__(self) -> Iterator[str]:
        return iter(self.fingerprints)

    def __len__(self) -> int:
        return len(self.fingerprints)


class KeptHistory(Mapping[str, "NDArray[np.float64]"]):
    """The history of a run that is kept elsewhere."""

    def __init__(self, digest: str, fetch: Fetch | None) -> None:
        self.digest, self._fetch = digest, fetch

    @functools.cached_property
    def _columns(self) -> History:
        columns: History = {} if self._fetch is None else self._fetch("history", self.digest)
        return columns

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


@dataclass(frozen=True, eq=False)
class Run(Artifact):
    """What one run yields; immutable.

    Algorithms build one with :meth:`of`; :func:`replicable_rl.solve` adds the identity and the versions.

    Attributes
    ----------
    outputs : mapping of levels to outputs
        What the algorithm stands for: ``policy``, ``value``, ``model``, or levels of its own.
    fingerprints : Fingerprints
        Their digests, to compare runs by.
    status, claims
        How it ended, and what is claimed about it.
    samples : int or None
        Transitions drawn; None where training code does not report it. On a log: its rows.
    history : mapping of names to arrays
        What happened round by round, for algorithms that explore; empty otherwise.
    spec : RunSpec or None
        The identity of the run.
    made_with : mapping
        Versions and platform.
    seconds : float
        The time that it took where it ran: the one thing that a repetition changes.
    error : str or None
        Why it failed; such a run has no outputs.
    traceback : str or None
        Where it failed, as Python prints it; of runs that were just made, for a store keeps the error alone.
    """

    saved_as: ClassVar[str] = "run"
    fingerprints: Fingerprints
    outputs: Mapping[str, Any] = field(repr=False)
    status: Status | None = None
    claims: Claims = field(default_factory=Claims)
    samples: int | None = None
    history: History = field(default_factory=dict, repr=False)
    spec: RunSpec | None = None
    made_with: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = 0.0
    error: str | None = None
    traceback: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        outputs: Mapping[str, Any],
        *,
        status: Status | None = None,
        claims: Claims | None = None,
        samples: int | None = None,
        history: History | None = None,
    ) -> Run:
        """Freeze the outputs, take their fingerprints and build a run.

        Parameters
        ----------
        outputs : mapping
            By level; at least one. A (S, A) table under ``"value"`` must fit the actions under ``"policy"``.
        status, claims, samples, history
            As the attributes.

        Examples
        --------
        >>> run = Run.of({"policy": [0, 1]}, status=Status(StatusCode.COMPLETED, "decided"), samples=20)
        >>> run.policy.tolist(), list(run.fingerprints)
        ([0, 1], ['policy'])
        """
        if not isinstance(outputs, Mapping) or not outputs:
            raise InvalidInput(f"Run: outputs must be a mapping of levels to outputs, got {outputs!r:.60}.")
        frozen = {name: level_of(name).freeze(name, outputs[name]) for name in in_order(outputs)}
        _check_fit(frozen)
        try:
            columns = {str(name): np.array(column, dtype=np.float64) for name, column in (history or {}).items()}
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"Run: history must hold columns of numbers ({error!s:.120}).") from None
        if any(column.ndim != 1 for column in columns.values()):
            raise InvalidInput("Run: history must hold columns of numbers, one for every round.")
        for column in columns.values():
            column.setflags(write=False)
        prints = Fingerprints({name: level_of(name).digest(name, output) for name, output in frozen.items()})
        said = _NO_CLAIMS if claims is None else claims
        return cls(prints, MappingProxyType(frozen), status, said, samples, MappingProxyType(columns))

    @classmethod
    def failed(cls, spec: RunSpec | None, error: str, seconds: float = 0.0, *, traceback: str | None = None) -> Run:
        """Return a run that raised; what no Unicode text can hold of its words is escaped."""
        error = error.encode("utf-8", "backslashreplace").decode()
        told: dict[str, Any] = {"seconds": seconds, "error": error, "traceback": traceback}
        return cls(Fingerprints(), {}, Status(StatusCode.FAILED, error), spec=spec, made_with=made_with(), **told)

    def completed(self, spec: RunSpec, **changes: Any) -> Run:
        """Return the same run with its identity, with what made it, and with ``changes``."""
        return self.but(spec=spec, made_with=made_with(), **changes)

    def kept(self, fetch: Fetch | None, history: str | None = None, **changes: Any) -> Run:
        """Return the same run without its arrays, which ``fetch`` brings when they are asked for, and with ``changes``.

        ``history`` is the digest of its history, where that is not here.
        """
        digest = history or self.history_digest
        return self.but(
            outputs={} if fetch is None else KeptOutputs(self.fingerprints, fetch),
            history={} if digest is None else KeptHistory(digest, fetch),
            **changes,
        )

    def but(self, **changes: Any) -> Run:
        """Return the same run with other parts; as `dataclasses.replace`, in a tenth of the time: there are many."""
        other = object.__new__(Run)  # also of a class of somebody's own, which may say anything of itself
        other.__dict__.update(self.__dict__, **changes)
        return other

    @property
    def history_digest(self) -> str | None:
        """The digest of the history; None where there is none."""
        if isinstance(self.history, KeptHistory):
            return self.history.digest
        return history_digest(self.history) if self.history else None

    # --- files ---------------------------------------------------------------------------------------

    def parts(self) -> Parts:
        """Return what a file holds of it: an array for every level, and for every column of its history."""
        if self.error is not None:
            raise InvalidInput(f"save: this run failed, and has nothing to save ({self.error.rstrip('.')}).")
        arrays = {level: level_of(level).encode(self.output(level)) for level in self.fingerprints}
        columns = {f"{_HISTORY}{i}": column for i, column in enumerate(self.history.values())}
        return Parts({**self.to_json(), "history": list(self.history)}, arrays | columns)

    @classmethod
    def from_parts(cls, parts: Parts) -> Run:
        """Make a run of what a file holds."""
        said, arrays = parts.values, parts.arrays
        spec = None if said["spec"] is None else RunSpec.from_json(said["spec"])
        run = Run.of(
            {name: level_of(name).decode(arrays[name]) for name in said["fingerprints"]},
            status=None if said["status"] is None else Status.from_json(said["status"]),
            claims=Claims.from_json(said["claims"], speaker(None if spec is None else spec.algorithm)),
            samples=None if said["samples"] is None else from_decimal("samples", said["samples"]),
            history={name: arrays[f"{_HISTORY}{i}"] for i, name in enumerate(said["history"])},
        )
        if run.fingerprints != said["fingerprints"]:
            raise InvalidInput("Run: the outputs do not have the fingerprints recorded.")
        return run.but(spec=spec, made_with=dict(said["made_with"]))

    # --- the usual levels by name ------------------------------------------------------------------

    def output(self, level: str) -> Any:
        """Return the output at a level, or say which levels there are."""
        if level in self.outputs:
            return self.outputs[level]
        level_of(level)
        has = ", ".join(self.fingerprints) or "nothing, for it failed"
        raise InvalidInput(f"Run: there is no {level}; this run stands for {has}.")

    @property
    def policy(self) -> NDArray[np.int64]:
        """The action chosen in each state, (S,)."""
        return self.output("policy")  # type: ignore[no-any-return]  # outputs have the type of their level

    @property
    def q(self) -> NDArray[np.float64]:
        """Action values, (S, A), in the units of the problem's rewards."""
        return self.output("value")  # type: ignore[no-any-return]

    @property
    def value(self) -> NDArray[np.float64]:
        """The value of each state under the best action, max_a q(s, a)."""
        return self.q.max(axis=1)  # type: ignore[no-any-return]

    @property
    def model(self) -> TabularMDP | None:
        """The learned model; None for algorithms that learn none."""
        return self.outputs.get("model")

    # --- its identity --------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The digest of its identity."""
        return self._spec.digest

    @property
    def shared_seed(self) -> int:
        """The shared seed."""
        return self._spec.shared_seed

    @property
    def sample_seed(self) -> int | None:
        """The seed of the sample; None where it was recorded."""
        return self._spec.sample_seed

    @property
    def _spec(self) -> RunSpec:
        if self.spec is None:
            raise InvalidInput("Run: this run has no identity yet; `solve` gives it one.")
        return self.spec

    def __repr__(self) -> str:
        spec = self.spec
        of = "" if spec is None else f"{brief(spec.problem.text, 120)}, {brief(spec.algorithm.text, 120)}: "
        known = [f"{level} {print[:8]}" for level, print in self.fingerprints.items()]
        known += [] if self.samples is None else [f"{number(self.samples)} samples"]
        known += [] if self.status is None else [str(self.status)]
        return described(self, of + ", ".join(known))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._what_repeats() == other._what_repeats()

    def __hash__(self) -> int:
        return hash((self.spec, *self.fingerprints.values()))

    def _what_repeats(self) -> tuple[Any, ...]:
        return self.spec, self.fingerprints, self.status, self.claims, self.samples, self.history_digest, self.error

    def to_json(self) -> dict[str, Json]:
        """Return everything but the outputs as JSON; ``samples`` is a string, for it may pass 2**53."""
        return {
            "spec": None if self.spec is None else self.spec.to_json(),
            "run": None if self.spec is None else self.spec.digest,
            "status": None if self.status is None else self.status.to_json(),
            "claims": self.claims.to_json(),
            "samples": decimal(self.samples),
            "fingerprints": dict(self.fingerprints),
            "history": {name: column.tolist() for name, column in self.history.items()},
            "made_with": dict(self.made_with),
        }


def history_digest(history: History) -> str:
    """Return the digest of a run's history; NaN, which marks rounds without an entry, counts by its bits."""
    columns = [np.asarray(column, dtype=np.float64).view(np.int64) for column in history.values()]
    return array_digest(f"history {' '.join(history)}", *columns)


def _check_fit(outputs: Mapping[str, Any]) -> None:
    """Refuse a policy that is not one of its table of values."""
    q, policy = outputs.get("value"), outputs.get("policy")
    if q is None or policy is None:
        return
    fits = policy.shape == q.shape[:1] and policy.dtype.kind == "i"
    if not fits or policy.view(np.uint64).max() >= q.shape[1]:  # -1 is 2**64 - 1
        raise InvalidInput(
            f"Run: values of shape {q.shape} go with one action in 0..{q.shape[1] - 1} for every state, got a policy "
            f"of shape {policy.shape} with {policy.dtype} from {policy.min()} to {policy.max()}."
        )
    if q.min() == -np.inf and not np.isfinite(q[np.arange(policy.size), policy]).all():
        raise InvalidInput("Run: the policy must take allowed actions, and takes one whose value is -inf.")
