"""An algorithm before it runs: parameters that were checked, and on a problem a plan with its claims.

The numbers of a plan are those of :mod:`replicable_rl.theory`. What they prove is said here, and only here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, speaking_as
from replicable_rl.problem.source import Source
from replicable_rl.runs import FIXED_SEED, THIS_SEED, Algorithm, Claim, Claims, LibraryClaim, put
from replicable_rl.theory import MAX_CALLS, Numbers, Units
from replicable_rl.theory.numbers import ACCURACY, REPLICABILITY
from replicable_rl.wording import Displayed, apart, described, number

SHARP_FORM = "the sharp form of "  # begins the theorem of a claim
N = TypeVar("N", bound=Numbers)


@dataclass(frozen=True)
class Shape:
    """What a plan depends on: the sizes of the problem, how samples come from it, and what is known of them."""

    n_states: int
    n_actions: int
    gamma: float
    known_rewards: bool
    pairs: int
    anywhere: bool  # whether the first state may be any, all alike
    estimated: bool  # whether the problem was itself estimated from data
    conditions: tuple[str, ...]  # what must be true of the source
    rows: int | None = None  # of a log
    played: bool = False  # in episodes only


class Promises(NamedTuple):
    """What an algorithm claims where its numbers prove it; None where it promises nothing.

    ``good_seed`` is the claim of a run whose numbers all kept their distance from the edges of their bins, and
    ``to_settle`` are conditions of its accuracy that a run settles.
    """

    accuracy: Claim
    replicability: Claim | None = None
    good_seed: Claim | None = None
    to_settle: tuple[str, ...] = ()


def accurate(numbers: Numbers, clause: str, theorem: str, level: str, conditions: tuple[str, ...] = ()) -> Claim:
    """Claim what the clause says, except with probability delta."""
    text = f"{clause}, except with probability {numbers.delta:g}"
    return LibraryClaim(ACCURACY, "proved", text, numbers.error_promised, theorem, numbers.delta, level, conditions)


def replicable(rho: float, same: str, theorem: str, level: str, conditions: tuple[str, ...] = (FIXED_SEED,)) -> Claim:
    """Claim that two runs do the ``same``, except with probability rho."""
    text = f"two runs {same}, except with probability {rho:g}"
    return LibraryClaim(REPLICABILITY, "proved", text, rho, theorem, 0.0, level, conditions)


def sure_of(
    same: str,
    wrong: float,
    theorem: str,
    level: str,
    conditions: tuple[str, ...] = (FIXED_SEED,),
    published: str = "this shared seed",
    definition: str = THIS_SEED,
) -> Claim:
    """Claim that a second run with what the first one published would do the ``same``.

    For every shared seed, this is claimed and wrong with probability at most ``wrong`` over both samples.
    """
    text = f"a second run with {published} would {same} (wrong with probability at most {wrong:g})"
    return LibraryClaim(REPLICABILITY, "proved", text, wrong, theorem, 0.0, level, conditions, definition)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Displayed, Generic[N]):
    """What a run will take and what may be claimed of it, before a sample is drawn."""

    algorithm: Promise[N]
    shape: Shape
    numbers: N  # of a run, with the bounds that are proved; each algorithm has its own kind of them in `theory`
    gain: float | None = None  # of the best policy over the uniform one, at most; None where that is not known
    by: str | None = None  # whose algorithm it is, if it is not this library's

    def __repr__(self) -> str:
        claimed = " and ".join(claim.about for claim in self.claims()) or "nothing"
        return described(self, f"{self.algorithm!r}: {number(self.samples)} samples, {claimed} claimed")

    @property
    def samples(self) -> int:
        """Transitions that a run draws, at most."""
        return self.numbers.samples

    def claims(self, *, good_seed: bool = False, broken: Sequence[str] | None = None) -> Claims:
        """Return what may be claimed, about accuracy and about replicability apart.

        After a run, ``good_seed`` says whether all its means kept their distance from the edges of their bins, and
        ``broken`` which of the conditions that a run settles it did not meet; before it they are part of the claim.
        """
        accuracy, replicability, of_this_seed, to_settle = self._promises
        missing = dict(self._missing)
        if broken is None and to_settle:
            accuracy = replace(accuracy, conditions=(*to_settle, *accuracy.conditions))
        elif broken:
            missing[ACCURACY] = "; ".join([*filter(None, [missing.get(ACCURACY)]), *broken])
        of_this_seed = of_this_seed if good_seed else None
        made = (accuracy, replicability, of_this_seed)
        proved = [claim for claim in made if claim and (claim is of_this_seed or claim.about not in missing)]
        return Claims(tuple(proved), missing).told(self.shape.conditions, self.gain, self.shape.estimated, self.by)

    @cached_property
    def _promises(self) -> Promises:
        return self.algorithm._promises(self.shape, self.numbers)

    @cached_property
    def _missing(self) -> dict[str, str]:
        """Why nothing is claimed about accuracy, or about replicability."""
        promised = [claim for claim in self._promises[:2] if claim is not None]
        proved = {ACCURACY: self.numbers.accuracy_proved, REPLICABILITY: self.numbers.replicability_proved}
        missing = {claim.about: self._why_not(claim) for claim in promised if not proved[claim.about]}
        if len(promised) < 2:
            missing[REPLICABILITY] = "this algorithm promises nothing about a second run"
        return missing

    def _why_not(self, claim: Claim) -> str:
        """Say why a claim does not hold."""
        numbers, about = self.numbers, claim.about
        if barred := self.algorithm._barred(numbers, about):
            return "; ".join(barred)
        short = {name: apart(*pair) for name, pair in numbers.short(about).items()}
        reasons = [f"{name}={used} where the proof needs {needed}" for name, (used, needed) in short.items()]
        reached = numbers.error_proved if about == ACCURACY else numbers.rho_proved
        if reached is not None and reached < 1.0:
            reasons.append("the bound at these parameters is {}, above {}".format(*apart(reached, claim.bound)))
        return "; ".join(reasons) or "there is no bound at these parameters"

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON."""
        numbers, shape = self.numbers, self.shape
        written: dict[str, Json] = asdict(numbers) | {"samples": self.samples}
        if self.by is None:
            written |= {"error_proved": numbers.error_proved, "rho_proved": numbers.rho_proved}
        written |= {"estimated": shape.estimated, "conditions": list(shape.conditions), "gain": self.gain}
        return written | {"by": self.by, "claims": self.claims().to_json()}


class Promise(Algorithm, Generic[N]):
    """Base of the algorithms, which are dataclasses: first the promise, then overrides that default to None."""

    id: ClassVar[str]
    epsilon: float
    delta: float
    _check: ClassVar[Callable[..., dict[str, Any]]]  # returns parameters as they count, or refuses them

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            if vars(self)[field.name] is None and field.default is MISSING:
                raise InvalidInput(f"{type(self).__name__}: {field.name} must be given, got None.")
        with speaking_as(type(self).__name__):
            checked = self._check(**self._parameters())  # now, not at the first run
        put(self, **{name: checked[name] for name in checked.keys() & vars(self).keys()})

    def plan(self, source: Source) -> Plan[N]:
        """Return what a run on this source will do, and what may be claimed of it."""
        with speaking_as(type(self).__name__):
            Units.of(source)  # refuses rewards that 64-bit numbers cannot carry
            shape = self._shape(source)
            try:
                return _planned(self, shape)
            except TypeError:  # an ingredient of somebody's own without a hash
                return _planned.__wrapped__(self, shape)

    def _shape(self, source: Source) -> Shape:
        """Return what a plan depends on."""
        initial = source.initial
        anywhere = source.n_states > 1 and (initial is None or bool((initial == initial[0]).all()))
        sizes = source.n_states, source.n_actions, source.gamma, source.known_rewards is not None
        return Shape(*sizes, source.support.pairs, anywhere, source.trust.estimated, source.trust.conditions)

    @abstractmethod
    def _numbers(self, shape: Shape) -> N:
        """Return the numbers of a run on a problem of this shape."""

    @abstractmethod
    def _promises(self, shape: Shape, numbers: N) -> Promises:
        """Return what is claimed where it is proved."""

    def _barred(self, numbers: N, about: str) -> list[str]:
        """Say what keeps a promise from being proved, whatever the size of the run."""
        return []

    def _parameters(self) -> dict[str, Any]:
        """The parameters, named as in the function of `theory` that has the numbers of this algorithm."""
        return {field.name: vars(self)[field.name] for field in fields(self)}  # type: ignore[arg-type]  # as above

    def _refuse_beyond_64_bits(self, name: str, size: int) -> None:
        if size > MAX_CALLS:
            raise InvalidInput(
                f"{type(self).__name__}: {name}={size:.3g} is asked for, more than the 2**63 - 1 that can be counted. "
                f"Pass {name}=... (the theorem then proves nothing), or raise what is promised."
            )


@lru_cache(maxsize=64)  # once for all runs of an audit
def _planned(algorithm: Promise[N], shape: Shape) -> Plan[N]:
    return Plan(algorithm=algorithm, shape=shape, numbers=algorithm._numbers(shape))
