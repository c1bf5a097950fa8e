"""What every algorithm here is: a frozen promise with overrides, which plans a run before it makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from replicable_rl.errors import InvalidInput, SampleSizeTooLarge, plain_number, speaking_as, whole_number
from replicable_rl.problem.conditions import conditions
from replicable_rl.problem.source import Problem
from replicable_rl.problem.support import allowed_of
from replicable_rl.sampling import MAX_CALLS
from replicable_rl.theory import Plan, Units

P = TypeVar("P", bound=Plan, covariant=True)


class Promise(Generic[P]):
    """Base of the algorithms, which are dataclasses: first the promise, then overrides that default to None."""

    id: ClassVar[str]
    needs: ClassVar[type]  # what a problem must be able to do
    _check: ClassVar[Callable[..., object]]  # refuses bad parameters, whatever the problem

    @property
    def loss_over(self) -> str | None:
        """What epsilon bounds: the loss of the policy from the "initial" distribution or the "worst" state, or none."""
        return None

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            if value is None and field.default is MISSING:
                raise InvalidInput(f"{type(self).__name__}: {field.name} must be given, got None.")
            if (plain := _plain(value, is_whole="int" in str(field.type).split(" | "))) is not None:
                object.__setattr__(self, field.name, plain)  # numbers of other types count otherwise, equal or not
        with speaking_as(type(self).__name__):
            self._check(**self._parameters())  # now, not at the first run

    def plan(self, problem: Problem) -> P:
        """Return what a run on this problem will do, and what may be claimed of it."""
        initial = problem.initial
        anywhere = problem.n_states > 1 and (initial is None or float(np.ptp(initial)) == 0.0)
        here = bool(problem.estimated), anywhere, conditions(problem)
        sizes = (
            problem.n_states,
            problem.n_actions,
            problem.gamma,
            problem.known_rewards is not None,
            allowed_pairs(problem),
        )
        with speaking_as(type(self).__name__):
            Units.of(problem)  # refuses rewards that 64-bit numbers cannot carry
            try:
                planned: P = _planned(self, *sizes, *here)
            except TypeError:  # an ingredient of somebody's own without a hash
                planned = _planned.__wrapped__(self, *sizes, *here)
        return planned

    def _plan(self, n_states: int, n_actions: int, *, gamma: float, known_rewards: bool, pairs: int | None = None) -> P:
        """Plan for a problem of these sizes; ``pairs`` is the number of those allowed, None where all are."""
        raise NotImplementedError

    def _parameters(self) -> dict[str, Any]:
        """The parameters, named as in the function of `theory` that plans this algorithm."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # as above

    def _refuse_beyond_64_bits(self, name: str, asked: int) -> None:
        if asked <= MAX_CALLS:
            return
        given = getattr(self, name) is not None
        promises = [field.name for field in fields(self) if field.name in ("epsilon", "rho")]  # type: ignore[arg-type]  # as above
        fewer = f"fewer {name}" if name.endswith("s") else f"a smaller {name}"
        less = f"{name}=... (the theorem then proves nothing), or raise {' or '.join(promises)}"
        raise SampleSizeTooLarge(
            f"{type(self).__name__}: {name}={asked:.3g} is asked for, more than the 2**63 - 1 that can be counted. "
            f"Pass {fewer if given else less}."
        )


def _plain(value: object, *, is_whole: bool) -> str | int | float | None:
    """Return a text or a number in Python's own types, 1e6 as the integer where one is asked for; None for the rest."""
    if isinstance(value, str):
        return str(value)
    whole = whole_number(value) if is_whole else None
    return plain_number(value) if whole is None else whole


def allowed_pairs(problem: Problem) -> int | None:
    """Return how many pairs are allowed; None where all are."""
    allowed = allowed_of(problem)
    return None if allowed is None else int(allowed.sum())


@lru_cache(maxsize=64)
def _planned(
    algorithm: Promise[P],
    n_states: int,
    n_actions: int,
    gamma: float,
    known_rewards: bool,
    pairs: int | None,
    estimated: bool,
    anywhere: bool,
    conditions: tuple[str, ...],
) -> P:
    """Plan once for all runs of an audit."""
    planned = algorithm._plan(n_states, n_actions, gamma=gamma, known_rewards=known_rewards, pairs=pairs)
    return replace(planned, estimated=estimated, anywhere=anywhere, conditions=conditions)
