"""Claims: what is said of a run or a plan, of which kind, on what ground, and under which conditions.

A claim is about accuracy *or* about replicability, never both, and of one kind.
Replicability is Definition 2.3, Pr[A(S1; r) = A(S2; r)] >= 1 - rho over two samples and the shared randomness r, unless
a claim names another definition. Kinds:

* ``proved``: every condition of the theorem holds, with its constants;
* ``asymptotic``: the theorem hides constants;
* ``measured``: repeated runs showed it;
* ``stated``: somebody else's code says so. This library knows no proof of it; audits judge it.

The first three are this library's alone (:class:`LibraryClaim`). Where nothing is proved, nothing is claimed, and
:attr:`Claims.missing` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

from replicable_rl.canonical import Json, from_record, to_json
from replicable_rl.display import Displayed, short_repr
from replicable_rl.errors import InvalidInput, check_choice, check_real, shown
from replicable_rl.paper import cited
from replicable_rl.runs.specs import OURS, put
from replicable_rl.wording import listed, number

_DEFINITION = "def:replicability"
THIS_SEED = "a second run with this shared seed, given the data of the first"
CERTIFICATE = "certificate replicability: a second run with what the first one published"
FIXED_SEED = "the shared seed was fixed before the data"
_ESTIMATE = ", as a statement about the estimated table, not about the process behind it"


def asks_for_nothing(gain: float) -> str:
    """Say that a loss is allowed that is as large as all that can be gained."""
    return f"asks for nothing here: the best policy gains {number(gain, 3)}"


@dataclass(frozen=True)
class Claim:
    """One thing that is said, with its ground. Made outside this library it is stated, and of no other kind.

    >>> print(Claim("accuracy", "stated", "the policy is within 0.1 of optimal", 0.1, "my proof").stated_by("mine-v1"))
    stated by mine-v1, not by this library (my proof): the policy is within 0.1 of optimal.
    """

    about: str  # "accuracy" or "replicability"
    kind: str  # "stated"; of this library's own claims "proved", "asymptotic" or "measured"
    statement: str  # what holds, as a clause for people
    bound: float  # epsilon (in values normalised to [0, 1], or of an entry of the model) or rho
    source: str  # the theorem, by the paper's LaTeX label (people are shown the PDF's number too), or the audit
    failure: float = 0.0  # the probability with which it may not hold; for rho there is none beside ``bound``
    level: str | None = None  # what is accurate, or identical in two runs
    conditions: tuple[str, ...] = ()  # what must be true of the run or of the problem
    definition: str | None = None  # of replicability; None for accuracy
    by: str | None = None  # whose code states it, filled in by what runs that code
    gain: float | None = None  # what the best policy gains, where the claim allows to lose as much; None elsewhere

    _kinds: ClassVar[tuple[str, ...]] = ("stated",)
    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_choice("Claim", "about", self.about, ("accuracy", "replicability"))
        if self.kind not in self._kinds:
            raise InvalidInput(
                f"Claim: kind must be {' or '.join(map(repr, self._kinds))}, got {shown(self.kind)}. What others than "
                "this library claim is stated, whatever its ground: name that in source."
            )
        if not _is_text(self.source) or not _is_text(self.statement):
            raise InvalidInput("Claim: a claim says what holds and names its source; one of the two is empty.")
        if not isinstance(self.level, str | None):
            raise InvalidInput(f"Claim: level must be a text or None, got {shown(self.level)}.")
        if isinstance(self.conditions, str) or not all(map(_is_text, self.conditions)):
            raise InvalidInput(f"Claim: conditions must be a tuple of texts, got {shown(self.conditions)}.")
        high, usual = (1.0, _DEFINITION) if self.about == "replicability" else (math.inf, None)
        highest = {"bound": high, "failure": 1.0} | ({} if self.gain is None else {"gain": math.inf})
        for name, most in highest.items():
            rule = f"a number from 0 to {most:g}"
            put(self, **{name: check_real("Claim", name, vars(self)[name], low=0.0, high=most, rule=rule)})
        put(self, conditions=tuple(self.conditions), definition=self.definition or usual)

    def __str__(self) -> str:
        ground = f"{self.ground} ({self.source})"
        empty = "" if self.gain is None else f"{asks_for_nothing(self.gain)}; "
        proviso = f", if {listed(list(self.conditions))}" if self.conditions else ""
        return f"{ground if self.kind == 'stated' else cited(ground)}: {empty}{self.statement}{proviso}."

    @property
    def ground(self) -> str:
        """The kind, and of what is stated, by whom."""
        return self.kind if self.by is None else f"stated by {self.by}, not by this library"

    @property
    def on_policy(self) -> bool:
        """Whether it is about what a policy loses."""
        return self.about == "accuracy" and self.level in ("policy", None)

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing: nearly every policy is as accurate."""
        return self.gain is not None

    def beside(self, gain: float) -> Claim:
        """Return the claim, which asks for nothing if it allows a policy to lose all of the gain."""
        return replace(self, gain=gain) if self.on_policy and self.bound >= gain else self

    def stated_by(self, name: str) -> Claim:
        """Return the claim as one that somebody else's code states."""
        return Claim(**{one.name: vars(self)[one.name] for one in fields(Claim)} | {"kind": "stated", "by": name})


class LibraryClaim(Claim):
    """A claim of this library: it alone says that something is proved, asymptotic or measured."""

    _kinds = ("proved", "asymptotic", "measured")


@dataclass(frozen=True)
class Claims(Displayed):
    """What is claimed, and a sentence for everything that is not.

    >>> print(Claims(missing={"accuracy": "iterations=1 where thm:rpvi needs 100"}))
    Nothing is proved about accuracy: iterations=1 where Theorem 4.1 (thm:rpvi) needs 100.
    """

    made: tuple[Claim, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)  # what a claim would be about -> why there is none
    gain: float | None = None  # of the best policy, where a loss that is as large is allowed

    __repr__ = short_repr

    def __post_init__(self) -> None:
        put(self, made=tuple(self.made))
        made = [(claim.about, claim.definition) for claim in self.made]
        for about, definition in made:
            if (many := made.count((about, definition))) > 1:
                raise InvalidInput(f"Claims: there must be at most one claim about {about}, got {many}.")

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)

    def __hash__(self) -> int:
        return hash((self.made, frozenset(self.missing.items())))

    @property
    def accuracy(self) -> Claim | None:
        """What is claimed about accuracy; None if nothing is."""
        return next((claim for claim in self.made if claim.about == "accuracy"), None)

    @property
    def replicability(self) -> Claim | None:
        """What is claimed about a second run, whatever the shared seed; None if nothing is."""
        return next((claim for claim in self.made if claim.definition == _DEFINITION), None)

    @property
    def of_this_seed(self) -> Claim | None:
        """What this run's data say of a second run with this shared seed, or these cuts; None if not enough."""
        return next((claim for claim in self.made if claim.definition in (THIS_SEED, CERTIFICATE)), None)

    def __str__(self) -> str:
        made = [f"{text[:1].upper()}{text[1:]}" for text in map(str, self.made)]
        gaps = [f"Nothing is proved about {about}: {cited(why)}." for about, why in self.missing.items()]
        return " ".join([*made, *gaps]) or "Nothing is claimed."

    def about_an_estimate(self) -> Claims:
        """Return the claims of a run on a table that was estimated from data: they end at the table."""
        return self._each(lambda one: replace(one, statement=one.statement.removesuffix(_ESTIMATE) + _ESTIMATE))

    def under(self, conditions: tuple[str, ...]) -> Claims:
        """Return the claims under these conditions, too."""
        if not conditions:
            return self
        return self._each(lambda one: replace(one, conditions=tuple(dict.fromkeys((*one.conditions, *conditions)))))

    def beside(self, gain: float | None) -> Claims:
        """Return the claims beside what the best policy gains: who allows to lose as much asks for nothing."""
        if gain is None or not any(one.on_policy and one.bound >= gain for one in self):
            return self
        return replace(self._each(lambda one: one.beside(gain)), gain=gain)

    def _each(self, change: Callable[[Claim], Claim]) -> Claims:
        return replace(self, made=tuple(map(change, self.made)))

    def stated_by(self, name: str) -> Claims:
        """Return the claims as those of somebody else's code."""
        return Claims(tuple(Claim.stated_by(claim, name) for claim in self.made), dict(self.missing), self.gain)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        record: dict[str, Json] = to_json(self)
        return record

    @classmethod
    def from_json(cls, data: Json, by: str = "whoever wrote it") -> Claims:
        """Read the JSON form back; what others than this library have claimed is stated ``by`` them."""
        if not isinstance(data, dict) or not isinstance(data.get("made"), list):
            raise InvalidInput(f"Claims: expected a list of claims, got {shown(data)}.")
        is_stated = [isinstance(one, dict) and one.get("kind") == "stated" for one in data["made"]]
        kinds = (Claim if stated else LibraryClaim for stated in is_stated)
        made = tuple(from_record(kind, one) for kind, one in zip(kinds, data["made"], strict=True))
        claims = replace(from_record(cls, data | {"made": []}), made=made)
        if not all(isinstance(text, str) for text in claims.missing.values()):
            raise InvalidInput(f"Claims: expected what is missing by name, got {shown(claims.missing)}.")
        return claims if by == OURS or all(is_stated) else claims.stated_by(by)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
