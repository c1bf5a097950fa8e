"""What a run yields: the answer, how it ended, what is promised about it, and its fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from replicable_rl.canonical import Json, array_digest
from replicable_rl.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP
    from replicable_rl.records.spec import RunSpec

__all__ = ["Fingerprints", "Guarantee", "Solution", "Status", "StatusCode"]


_KINDS = ("proved", "asymptotic", "measured")


class StatusCode(Enum):
    """How a run ended."""

    COMPLETED = "completed"
    STOPPED_BY_RULE = "stopped by the rule"
    ALL_KNOWN = "every pair known"
    BUDGET_SPENT = "budget spent"


@dataclass(frozen=True)
class Status:
    """How a run ended, as a code for programs and a sentence for people."""

    code: StatusCode
    sentence: str

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
            raise InvalidInput(f"Status: expected a code of {', '.join(codes)} and a sentence, got {data!r}.")
        return cls(StatusCode(data["code"]), data["sentence"])


@dataclass(frozen=True)
class Guarantee:
    """What is promised about a run, of which kind, and by which theorem.

    ``kind`` is ``"proved"`` when every condition of the theorem holds with its
    constants, ``"asymptotic"`` when the theorem hides constants, and ``"measured"``
    when the run promises nothing beyond what repeated runs will show. The numbers are
    what is proved and ``None`` where nothing is: ``epsilon`` (in values normalised to
    [0, 1]) holds with probability 1 - ``delta``, and two runs on fresh samples with one
    shared seed differ with probability at most ``rho``.
    """

    kind: Literal["proved", "asymptotic", "measured"]
    theorem: str
    sentence: str
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Json) -> Guarantee:
        """Read the JSON form back."""
        names = [field.name for field in fields(cls)]
        if not isinstance(data, dict) or sorted(data) != sorted(names) or data["kind"] not in _KINDS:
            raise InvalidInput(
                f"Guarantee: expected {', '.join(names)}, and a kind of {', '.join(_KINDS)}; got {data!r}."
            )
        return cls(**data)


@dataclass(frozen=True)
class Fingerprints:
    """Digests of the exact bits at the three levels: model => value => policy.

    A level that the algorithm does not produce is ``None``. Equal fingerprints mean
    identical outputs, never merely close ones.

    Attributes
    ----------
    policy, value, model : str
        SHA-256 of the actions, of Q, and of the learned model, in hexadecimal.
    """

    policy: str
    value: str
    model: str | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of one run; immutable.

    Attributes
    ----------
    policy : (S,) integers
        The action chosen in each state.
    q, value : (S, A) and (S,) floats
        Action values and their maximum, in the units of the problem's rewards.
    samples : int
        Transitions drawn, over all pairs and iterations.
    status, guarantee, fingerprints
        How it ended, what is promised, and the digests to compare runs by.
    model : TabularMDP or None
        The learned model, for algorithms that learn one.
    spec : RunSpec or None
        The identity of the run; :func:`replicable_rl.solve` fills it in.
    history : mapping of names to arrays
        What happened round by round, for algorithms that explore; empty otherwise.
    """

    policy: NDArray[np.int64]
    q: NDArray[np.float64]
    samples: int
    status: Status
    guarantee: Guarantee
    fingerprints: Fingerprints
    model: TabularMDP | None = None
    spec: RunSpec | None = None
    history: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def from_q(
        cls,
        q: NDArray[np.float64],
        policy: NDArray[np.int64],
        *,
        samples: int,
        status: Status,
        guarantee: Guarantee,
        model: TabularMDP | None = None,
        history: Mapping[str, NDArray[np.float64]] | None = None,
    ) -> Solution:
        """Freeze the arrays, take their fingerprints and build the solution."""
        if q.ndim != 2 or policy.shape != q.shape[:1]:
            raise InvalidInput(f"Solution: q must be (S, A) and policy (S,), got {q.shape} and {policy.shape}.")
        if policy.dtype.kind not in "iu" or policy.min() < 0 or policy.max() >= q.shape[1]:
            raise InvalidInput(f"Solution: the policy must hold integers in 0..{q.shape[1] - 1}.")
        q = np.array(q, dtype=np.float64) + 0.0
        if np.isinf(q).any():
            raise InvalidInput("Solution: q must be finite.")
        policy = np.array(policy, dtype=np.int64)
        q.setflags(write=False)
        policy.setflags(write=False)
        fingerprints = Fingerprints(
            policy=array_digest("policy", policy),
            value=array_digest("value", q),
            model=None if model is None else model.digest,
        )
        columns = {name: np.array(column, dtype=np.float64) for name, column in (history or {}).items()}
        for column in columns.values():
            column.setflags(write=False)
        return cls(policy, q, samples, status, guarantee, fingerprints, model, history=MappingProxyType(columns))

    @property
    def value(self) -> NDArray[np.float64]:
        """The value of each state under the best action, max_a q(s, a)."""
        value: NDArray[np.float64] = self.q.max(axis=1)
        return value

    def with_spec(self, spec: RunSpec) -> Solution:
        """Return the same solution with the identity of its run."""
        return replace(self, spec=spec)

    def to_json(self) -> dict[str, Json]:
        """Return everything but the model as JSON; ``samples`` is a string, for it may pass 2**53."""
        return {
            "spec": None if self.spec is None else self.spec.to_json(),
            "run": None if self.spec is None else self.spec.digest,
            "status": self.status.to_json(),
            "guarantee": self.guarantee.to_json(),
            "samples": str(self.samples),
            "fingerprints": asdict(self.fingerprints),
            "history": {name: column.tolist() for name, column in self.history.items()},
            "policy": self.policy.tolist(),
            "value": self.value.tolist(),
            "q": self.q.tolist(),
        }
