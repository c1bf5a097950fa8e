"""What an algorithm is, the algorithms by their ids, and who is believed to have made a claim."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from replicable_rl.runs.specs import OURS, ObjectSpec, Setting

if TYPE_CHECKING:
    import numpy as np

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.runs.run import Run


class PromisedLoss(NamedTuple):
    """The loss that is promised: at most ``epsilon``, except with probability ``delta``.

    ``over`` says whether it is that from the "initial" distribution, or from the "worst" state.
    """

    epsilon: float
    delta: float
    over: str


class Algorithm(Setting):
    """Anything that solves a problem from shared randomness and fresh samples: a frozen dataclass.

    Its fields, its ``id`` and its ``version`` are part of the identity of a run. A class that says no ``id`` is known
    by its full name; neither is inherited. ``needs`` is the type of source that it takes.

    Examples
    --------
    >>> import dataclasses, replicable_rl as rr
    >>> @dataclasses.dataclass(frozen=True)
    ... class Always(rr.Algorithm):
    ...     action: int
    ...     def solve(self, source, shared, rng):
    ...         return rr.Run.of({"policy": [self.action] * source.n_states})
    >>> rr.solve(rr.make("chain-v1"), Always(1), shared_seed=1).policy.tolist()
    [1, 1, 1, 1, 1]
    """

    needs: ClassVar[type] = object
    id: ClassVar[str]
    version: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.id = vars(cls).get("id", f"{cls.__module__}.{cls.__qualname__}")
        cls.version = vars(cls).get("version", "")

    @abstractmethod
    def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Return the run; every use of ``shared`` is addressed, every sample comes from ``source`` and ``rng``."""

    def plan(self, source: Any) -> Any:
        """Return what a run on a source will do, and what may be claimed of it; None where nobody can say."""
        return None

    def compiled_rows(self, source: Any) -> int:
        """Return how many rows a run over a table draws in compiled loops alone: audits choose threads by it."""
        return 0

    @property
    def promised_loss(self) -> PromisedLoss | None:
        """The loss of the policy that is promised; None where there is no such promise."""
        return None


SHIPPED: dict[str, Any] = {}  # the algorithms of this library, by id
ALGORITHMS: dict[str, Callable[..., Any]] = {}  # these, and those that were registered


def speaker(spec: ObjectSpec | None) -> str:
    """Return who is believed to have made the claims of a run that was read: this library, for what it ships."""
    return "code without a name" if spec is None else OURS if spec.id in SHIPPED else spec.id
