"""An algorithm before it runs: a frozen promise whose parameters were checked, and on a problem a plan with its claims.

The numbers of a plan are those of :mod:`replicable_rl.theory`. What they prove is said here, and only here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from replicable_rl.canonical import Json, decimal
from replicable_rl.display import Displayed, described
from replicable_rl.errors import InvalidInput, SampleSizeTooLarge, speaking_as
from replicable_rl.paper import cited
from replicable_rl.problem.source import Source
from replicable_rl.runs import EMPTY, FIXED_SEED, THIS_SEED, Algorithm, Claim, Claims, LibraryClaim
from replicable_rl.theory import MAX_CALLS, Numbers, Units
from replicable_rl.theory.numbers import ACCURACY, REPLICABILITY
from replicable_rl.theory.rstat import QueryNumbers
from replicable_rl.wording import apart, number

SHARP_FORM = "the sharp form of "  # begins the theorem of a claim
_NOT_PROMISED = "this algorithm promises nothing about a second run"
_COUNTS = {  # may pass the integers of JSON, and are written as text
    *("samples", "calls", "calls_needed", "calls_plain", "rounds", "episodes", "episodes_needed"),
    *("per_pair", "per_pair_needed", "budget"),
}

N = TypeVar("N", bound=Numbers)
Cell = float | str | None
Columns = Mapping[str, Mapping[str, Cell]]  # variant -> label -> cell


class Shape(NamedTuple):
    """What the numbers of a plan depend on: the sizes of the problem, and how samples come from it."""

    n_states: int
    n_actions: int
    gamma: float
    known_rewards: bool
    allowed_pairs: int | None = None  # None: all are
    rows: int | None = None  # of a log
    played: bool = False  # in episodes only


class Statement(NamedTuple):
    """What is claimed where it is proved: a clause, its theorem, at which level, and under which conditions.

    ``to_settle`` are conditions that a run settles, and ``needing`` says what parameters fall short of.
    """

    clause: str
    theorem: str
    level: str
    conditions: tuple[str, ...] = ()
    to_settle: tuple[str, ...] = ()
    needing: str = "the proof"


class Statements(NamedTuple):
    """What an algorithm promises, and what a run may say of its shared seed; None where it says nothing.

    The clauses of ``replicability`` and of ``good_seed`` say what two runs do. The second may be wrong with probability
    ``wrong``; it is about another run with the ``published`` seed, or with something else.
    """

    accuracy: Statement
    replicability: Statement | None = None
    good_seed: Statement | None = None
    wrong: float = 1.0
    published: str = "this shared seed"
    definition: str = THIS_SEED


def same_answers(numbers: QueryNumbers, accuracy: Statement, same: str, theorem: str, level: str) -> Statements:
    """Return the statements of an algorithm whose queries two runs answer alike, so that they do the ``same``.

    If every mean keeps its distance from the edges of its bin, a second run has the same answers, unless the two means
    of a query are further apart than the margins: for every shared seed, this is claimed and wrong with probability at
    most delta over both samples.
    """
    replicability = Statement(same, theorem, level, (FIXED_SEED,), needing=theorem)
    good_seed = Statement(same, "docs/proofs.md, a good shared seed", level, (FIXED_SEED,))
    return Statements(accuracy, replicability, good_seed, wrong=numbers.delta)


class PlanTable(NamedTuple):
    """A plan for people: the variants of an algorithm side by side, with the same labels."""

    heading: str
    columns: Columns
    closing: str

    def __repr__(self) -> str:
        return described(self, f"{self.heading}: {', '.join(self.columns)}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Displayed, Generic[N]):
    """What a run will take and what may be claimed of it, before a sample is drawn.

    Attributes
    ----------
    algorithm : algorithm
        Whose plan it is.
    numbers : Numbers
        Of a run, with the bounds that are proved; each algorithm has its own kind of them in `theory`.
    estimated : bool
        Whether the problem was itself estimated from data.
    anywhere : bool
        Whether the first state may be any, all alike: no other distribution of it is given.
    conditions : tuple of str
        What must be true of the source.
    gain : float or None
        What the best policy gains over the uniform one, at most; None where that is not known.
    by : str or None
        Whose algorithm it is, if it is not this library's.
    """

    algorithm: Promise[N]
    numbers: N
    estimated: bool = False
    anywhere: bool = False
    conditions: tuple[str, ...] = ()
    gain: float | None = None
    by: str | None = None

    def __repr__(self) -> str:
        promise, claims = self.numbers, self.claims()
        rho = "" if promise.rho is None else f", rho={promise.rho:g}"
        made = {ACCURACY: claims.accuracy, REPLICABILITY: claims.replicability}
        proved = [about for about, claim in made.items() if claim is not None]
        claimed = f"{' and '.join(proved)} claimed" if proved else "nothing claimed"
        promised = f"epsilon={promise.epsilon:g}, delta={promise.delta:g}{rho}"
        return described(self, f"{promised}: {number(self.samples)} samples, {claimed}")

    @property
    def samples(self) -> int:
        """Transitions that a run draws, at most."""
        return self.numbers.samples

    def claims(self, *, good_seed: bool = False, broken: Sequence[str] | None = None) -> Claims:
        """Return what may be claimed, about accuracy and about replicability apart.

        Parameters
        ----------
        good_seed : bool
            Whether every number of the run kept such a distance from the edges of its bin that a second run with this
            shared seed is on the same side, except with a small probability over both samples.
        broken : sequence of str, optional
            After a run, the conditions that it did not meet. Before it, None, they are part of the claim.
        """
        said, accuracy = self._said, self._accuracy
        if broken is not None and isinstance(accuracy, Claim):
            accuracy = replace(accuracy, conditions=said.accuracy.conditions)
        if broken:
            accuracy = "; ".join([accuracy, *broken] if isinstance(accuracy, str) else broken)
        both = {ACCURACY: accuracy, REPLICABILITY: self._replicability}
        made = [part for part in both.values() if isinstance(part, Claim)]
        if good_seed and said.good_seed is not None:
            made.append(self._of_this_seed(said, said.good_seed))
        claims = Claims(tuple(made), {about: part for about, part in both.items() if isinstance(part, str)})
        claims = claims.under(self.conditions).beside(self.gain)
        claims = claims.about_an_estimate() if self.estimated else claims
        return claims if self.by is None else claims.stated_by(self.by)

    @cached_property
    def _said(self) -> Statements:
        return self.algorithm._statements(self)

    @cached_property
    def _accuracy(self) -> Claim | str:
        said, numbers = self._said.accuracy, self.numbers
        text = f"{said.clause}, except with probability {numbers.delta:g}"
        all_conditions = (*said.to_settle, *said.conditions)
        bound = numbers.error_promised
        claim = LibraryClaim(ACCURACY, "proved", text, bound, said.theorem, numbers.delta, said.level, all_conditions)
        name = "epsilon/2" if said.level == "value" else "epsilon"
        return self._if_proved(claim, said, f"{name}=", numbers.error_proved)

    @cached_property
    def _replicability(self) -> Claim | str:
        said, rho, reached = self._said.replicability, self.numbers.rho, self.numbers.rho_proved
        if said is None or rho is None or reached is None:
            return _NOT_PROMISED
        text = f"two runs {said.clause}, except with probability {rho:g}"
        claim = LibraryClaim(REPLICABILITY, "proved", text, rho, said.theorem, 0.0, said.level, said.conditions)
        return self._if_proved(claim, said, "rho=", reached)

    def _of_this_seed(self, said: Statements, seed: Statement) -> Claim:
        wrong = said.wrong
        text = f"a second run with {said.published} would {seed.clause} (wrong with probability at most {wrong:g})"
        conditions, definition = seed.conditions, said.definition
        return LibraryClaim(REPLICABILITY, "proved", text, wrong, seed.theorem, 0.0, seed.level, conditions, definition)

    def _if_proved(self, claim: Claim, said: Statement, promised: str, reached: float) -> Claim | str:
        """Return a claim that holds, or say why it does not; ``reached`` is the bound that holds instead."""
        if self.numbers.proves(claim.about):
            return claim
        if barred := self.algorithm._barred(self, claim.about):
            return "; ".join(barred)
        short = self.numbers.short(claim.about).items()
        texts = ((name, *apart(*pair)) for name, pair in short)
        why = [f"{name}={used} where {said.needing} needs {needed}" for name, used, needed in texts]
        if reached < 1.0:
            holding, bound = apart(reached, claim.bound)
            why.append(f"the bound at these parameters is {holding}, above {promised}{bound}")
        return "; ".join(why) or "there is no bound at these parameters"

    def table(self) -> PlanTable:
        """Return the plan for people."""
        heading, run, columns = self.algorithm._table(self)
        claims, empty = self.claims(), ""
        if self.gain is not None and self.numbers.epsilon >= self.gain:
            gain = number(self.gain, 3)
            empty = f"epsilon={self.numbers.epsilon:g} {EMPTY}{gain}. An epsilon below {gain} would ask for something. "
        estimate = " All of this is about the estimated table." * self.estimated
        closing = f"{empty}With {run}: {'; '.join(_said(claims, self.numbers.rho_proved))}.{estimate}"
        return PlanTable(heading, columns, closing)

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON; counts of samples are strings."""
        numbers = self.numbers
        proved: dict[str, Json] = {
            "error_proved": numbers.error_proved,
            "rho_proved": numbers.rho_proved,
            "accuracy_proved": numbers.accuracy_proved,
            "replicability_proved": numbers.replicability_proved,
        }
        here = {"anywhere": self.anywhere, "conditions": self.conditions, "gain": self.gain, "by": self.by}
        written = asdict(numbers) | (proved if self.by is None else {})
        written |= {"samples": self.samples, "estimated": self.estimated}
        written |= {name: value for name, value in here.items() if value}
        if written.get("allowed_pairs") is None:
            written.pop("allowed_pairs", None)
        written = {name: decimal(value) if name in _COUNTS else value for name, value in written.items()}
        return {**written, "claims": self.claims().to_json()}


def _said(claims: Claims, rho_proved: float | None) -> Iterator[str]:
    """Say what is claimed of a run, and of what there is no claim."""
    for about, claim in ((ACCURACY, claims.accuracy), (REPLICABILITY, claims.replicability)):
        if claim is None:
            why = claims.missing[about]
            yield why if why == _NOT_PROMISED else cited(f"nothing is proved about {about} ({why})")
        elif about == ACCURACY:
            yield f"accuracy is {claim.ground}{claim.proviso}"
        else:
            promised, reached = f"{claim.bound:g}", f"{rho_proved:.3g}"
            less = claim.kind == "proved" and float(reached) < float(promised)
            ground = f"{claim.ground}; the bound reached is {reached}" if less else claim.ground
            yield f"two runs differ with probability at most {promised} ({ground}){claim.proviso}"


class Promise(Algorithm, Generic[N]):
    """Base of the algorithms, which are dataclasses: first the promise, then overrides that default to None."""

    id: ClassVar[str]
    _check: ClassVar[Callable[..., dict[str, Any]]]  # returns parameters as they count, or refuses them

    def __post_init__(self) -> None:
        given = {field.name: field for field in fields(self)}  # type: ignore[arg-type]  # subclasses are dataclasses
        for name, field in given.items():
            if vars(self)[name] is None and field.default is MISSING:
                raise InvalidInput(f"{type(self).__name__}: {name} must be given, got None.")
        with speaking_as(type(self).__name__):
            checked = self._check(**self._parameters())  # now, not at the first run
        for name in checked.keys() & given.keys():
            object.__setattr__(self, name, checked[name])

    def plan(self, problem: Source) -> Plan[N]:
        """Return what a run on this problem will do, and what may be claimed of it."""
        initial, trust = problem.initial, problem.trust
        anywhere = problem.n_states > 1 and (initial is None or float(np.ptp(initial)) == 0.0)
        here = trust.estimated, anywhere, trust.conditions
        with speaking_as(type(self).__name__):
            Units.of(problem)  # refuses rewards that 64-bit numbers cannot carry
            shape = self._shape(problem)
            try:
                return _planned(self, shape, *here)
            except TypeError:  # an ingredient of somebody's own without a hash
                return _planned.__wrapped__(self, shape, *here)

    def _shape(self, problem: Source) -> Shape:
        """Return what the numbers depend on."""
        known, pairs = problem.known_rewards is not None, None if problem.support.whole else problem.support.pairs
        return Shape(problem.n_states, problem.n_actions, problem.gamma, known, pairs)

    @abstractmethod
    def _numbers(self, shape: Shape) -> N:
        """Return the numbers of a run on a problem of this shape."""

    @abstractmethod
    def _statements(self, plan: Plan[N]) -> Statements:
        """Return what is claimed where it is proved."""

    @abstractmethod
    def _table(self, plan: Plan[N]) -> tuple[str, str, Columns]:
        """Return the heading of the table of a plan, the size of the run in words, and the variants side by side."""

    def _barred(self, plan: Plan[N], about: str) -> list[str]:
        """Say what keeps a promise from being proved, whatever the size of the run."""
        outside = plan.numbers.outside(about).items()
        return [f"{name}={used} where the proof needs {needed}" for name, (used, needed) in outside]

    def _parameters(self) -> dict[str, Any]:
        """The parameters, named as in the function of `theory` that has the numbers of this algorithm."""
        return {field.name: vars(self)[field.name] for field in fields(self)}  # type: ignore[arg-type]  # as above

    def _refuse_beyond_64_bits(self, name: str, asked: int) -> None:
        if asked <= MAX_CALLS:
            return
        given = vars(self)[name] is not None
        promises = [field.name for field in fields(self) if field.name in ("epsilon", "rho")]  # type: ignore[arg-type]  # as above
        fewer = f"fewer {name}" if name.endswith("s") else f"a smaller {name}"
        less = f"{name}=... (the theorem then proves nothing), or raise {' or '.join(promises)}"
        raise SampleSizeTooLarge(
            f"{type(self).__name__}: {name}={asked:.3g} is asked for, more than the 2**63 - 1 that can be counted. "
            f"Pass {fewer if given else less}."
        )


@lru_cache(maxsize=64)
def _planned(
    algorithm: Promise[N], shape: Shape, estimated: bool, anywhere: bool, conditions: tuple[str, ...]
) -> Plan[N]:
    """Plan once for all runs of an audit."""
    numbers = algorithm._numbers(shape)
    return Plan(algorithm=algorithm, numbers=numbers, estimated=estimated, anywhere=anywhere, conditions=conditions)
