"""Claims: what is said of a run or a plan, of which kind, on what ground, and under which conditions.

A claim is about accuracy *or* about replicability, never both, and of one kind:

* ``proved``: every condition of the theorem holds, with its constants;
* ``asymptotic``: the theorem hides constants;
* ``measured``: repeated runs showed it, and the claim carries what they showed;
* ``stated``: somebody else's code says so. This library knows no proof of it; audits judge it.

The first three are this library's alone (:class:`LibraryClaim`). Where nothing is proved, nothing is claimed, and
:attr:`Claims.missing` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import ClassVar, Literal

from replicable_rl.canonical import Json
from replicable_rl.display import Displayed, described, short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, check_real, shown
from replicable_rl.paper import cited
from replicable_rl.runs.provenance import OURS
from replicable_rl.runs.specs import put, record_of
from replicable_rl.wording import apart, listed
from replicable_rl.wording import number as short

About = Literal["accuracy", "replicability"]
Kind = Literal["proved", "asymptotic", "measured", "stated"]
_ABOUT = ("accuracy", "replicability")
_DEFINITION = "def:replicability"
THIS_SEED = "a second run with this shared seed, given the data of the first"
CERTIFICATE = "certificate replicability: a second run with what the first one published"
FIXED_SEED = "the shared seed was fixed before the data"
EMPTY = "asks for nothing here: the best policy gains "
Shortfalls = Mapping[str, tuple[float, float]]  # parameter -> what is used, what is needed


@dataclass(frozen=True)
class Measurement:
    """What repeated runs showed: an estimate, its interval, and of how many pairs of runs."""

    estimate: float
    low: float
    high: float
    confidence: float
    pairs: int

    def __post_init__(self) -> None:
        for name, share in (("low", self.low), ("estimate", self.estimate), ("high", self.high)):
            check_real("Measurement", name, share, low=0.0, high=1.0, rule="a share from 0 to 1")
        check_in_open_interval("Measurement", "confidence", self.confidence)
        check_integer("Measurement", "pairs", self.pairs, low=1, high=2**62)
        if not self.low <= self.estimate <= self.high:
            raise InvalidInput(
                f"Measurement: the estimate must lie in its interval, got {self.estimate:g} and {self.low:g} to "
                f"{self.high:g}."
            )

    @classmethod
    def from_json(cls, data: Json) -> Measurement:
        """Read the JSON form back."""
        return cls(**record_of(cls, data))


@dataclass(frozen=True)
class Claim:
    """One thing that is said, with its ground. Made outside this library it is stated, and of no other kind.

    Attributes
    ----------
    about : {"accuracy", "replicability"}
        What kind of thing is said.
    kind : {"stated"}, or of this library's own claims {"proved", "asymptotic", "measured"}
        On what ground.
    statement : str
        What holds, as a clause for people.
    bound : float
        epsilon (in values normalised to [0, 1], or of an entry of the model) or rho.
    source : str
        The theorem, by the paper's LaTeX label, or the audit. What is printed has the number of the PDF beside it.
    failure : float
        The probability with which it may not hold; for rho there is none beside ``bound``.
    level : str or None
        What is accurate, or identical in two runs.
    conditions : tuple of str
        What must be true of the run or of the problem.
    definition : str or None
        Which definition of replicability is meant; None for accuracy.
    measurement : Measurement or None
        What was seen; exactly the claims of kind ``"measured"`` have one.
    by : str or None
        Whose code states it; this is filled in by what runs that code.

    Examples
    --------
    >>> print(Claim("accuracy", "stated", "the policy is within 0.1 of optimal", 0.1, "my proof").stated_by("mine-v1"))
    stated by mine-v1, not by this library (my proof): the policy is within 0.1 of optimal.
    """

    about: About
    kind: Kind
    statement: str
    bound: float
    source: str
    failure: float = 0.0
    level: str | None = None
    conditions: tuple[str, ...] = ()
    definition: str | None = None
    measurement: Measurement | None = None
    by: str | None = None

    _kinds: ClassVar[tuple[str, ...]] = ("stated",)
    __repr__ = short_repr

    def __post_init__(self) -> None:
        if not isinstance(self.about, str) or self.about not in _ABOUT:
            raise InvalidInput(f"Claim: about must be one of {', '.join(_ABOUT)}, got {shown(self.about)}.")
        if not isinstance(self.kind, str) or self.kind not in self._kinds:
            raise InvalidInput(
                f"Claim: kind must be {' or '.join(map(repr, self._kinds))}, got {shown(self.kind)}. What others than "
                "this library claim is stated, whatever its ground: name that in source."
            )
        if (self.kind == "measured") != (self.measurement is not None):
            raise InvalidInput(
                "Claim: a claim of kind 'measured' must carry its measurement, and no other kind may. Give "
                "measurement=..., or another kind."
            )
        if not _is_text(self.source) or not _is_text(self.statement):
            raise InvalidInput("Claim: a claim says what holds and names its source; one of the two is empty.")
        for name, text in (("level", self.level), ("definition", self.definition), ("by", self.by)):
            if not isinstance(text, str | None):
                raise InvalidInput(f"Claim: {name} must be a text or None, got {shown(text)}.")
        if isinstance(self.conditions, str) or not all(map(_is_text, self.conditions)):
            raise InvalidInput(f"Claim: conditions must be a tuple of texts, got {shown(self.conditions)}.")
        high, usual = (1.0, _DEFINITION) if self.about == "replicability" else (math.inf, None)
        put(
            self,
            bound=check_real("Claim", "bound", self.bound, low=0.0, high=high, rule=f"a number from 0 to {high:g}"),
            failure=check_real("Claim", "failure", self.failure, low=0.0, high=1.0, rule="a number from 0 to 1"),
            statement=str(self.statement),
            source=str(self.source),
            conditions=tuple(self.conditions),
            definition=usual if self.definition is None else self.definition,
        )

    def __str__(self) -> str:
        ground = f"{self.ground} ({self.source})"
        return f"{ground if self.kind == 'stated' else cited(ground)}: {self.statement}{self.proviso}."

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
        return self.statement.startswith(EMPTY)

    @property
    def proviso(self) -> str:
        """The conditions as the end of a sentence."""
        return f", if {listed(list(self.conditions))}" if self.conditions else ""

    def stated_by(self, name: str) -> Claim:
        """Return the claim as one that somebody else's code states."""
        said = {one.name: vars(self)[one.name] for one in fields(Claim)}
        return Claim(**said | {"kind": "stated", "measurement": None, "by": name})

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return asdict(self) | {"conditions": list(self.conditions)}

    @classmethod
    def from_json(cls, data: Json) -> Claim:
        """Read the JSON form back."""
        read = record_of(Claim, data)
        seen, conditions = read["measurement"], read["conditions"]
        if not isinstance(conditions, list):
            raise InvalidInput(f"Claim: conditions must be a list of texts, got {shown(conditions)}.")
        return cls(**{**read, "measurement": None if seen is None else Measurement.from_json(seen)})


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "made", tuple(self.made))
        said = [(claim.about, claim.definition) for claim in self.made]
        for about, definition in said:
            if (many := said.count((about, definition))) > 1:
                raise InvalidInput(f"Claims: there must be at most one claim about {about}, got {many}.")
            if about in self.missing and definition in (None, _DEFINITION):
                raise InvalidInput(f"Claims: a claim about {about} is made and missing at once. Leave one out.")

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

    def and_of_this_seed(self, claim: Claim) -> Claims:
        """Return the claims with one about this shared seed."""
        return replace(self, made=(*self.made, claim))

    def __repr__(self) -> str:
        made = [f"{claim.about} {claim.ground}, bound {claim.bound:.6g}" for claim in self.made]
        return described(self, "; ".join([*made, *(f"nothing about {about}" for about in self.missing)]))

    def __str__(self) -> str:
        gaps = (f"Nothing is proved about {about}: {cited(why)}." for about, why in self.missing.items())
        return " ".join([*map(_capital, map(str, self.made)), *gaps]) or "Nothing is claimed."

    def about_an_estimate(self) -> Claims:
        """Return the claims of a run on a table that was estimated from data: they end at the table."""
        said = ", as a statement about the estimated table, not about the process behind it"
        made = (replace(claim, statement=claim.statement.removesuffix(said) + said) for claim in self.made)
        return replace(self, made=tuple(made))

    def under(self, conditions: tuple[str, ...]) -> Claims:
        """Return the claims under these conditions, too."""
        made = (
            replace(claim, conditions=tuple(dict.fromkeys((*claim.conditions, *conditions)))) for claim in self.made
        )
        return replace(self, made=tuple(made)) if conditions else self

    def beside(self, gain: float | None) -> Claims:
        """Say first of a claim about a policy that it asks for nothing, where it allows to lose all of the gain."""

        def said(claim: Claim) -> Claim:
            if gain is None or not claim.on_policy or claim.bound < gain or claim.empty:
                return claim
            return replace(claim, statement=f"{EMPTY}{short(gain, 3)}; {claim.statement}")

        return self if gain is None else replace(self, made=tuple(map(said, self.made)))

    def stated_by(self, name: str) -> Claims:
        """Return the claims as those of somebody else's code."""
        return Claims(tuple(Claim.stated_by(claim, name) for claim in self.made), dict(self.missing))

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {"made": [claim.to_json() for claim in self.made], "missing": dict(self.missing)}

    @classmethod
    def from_json(cls, data: Json, by: str = "whoever wrote it") -> Claims:
        """Read the JSON form back; what others than this library have claimed is stated ``by`` them."""
        if not isinstance(data, dict) or not isinstance(data.get("made"), list):
            raise InvalidInput(f"Claims: expected a list of claims, got {shown(data)}.")
        missing = data.get("missing")
        if not isinstance(missing, dict) or not all(isinstance(text, str) for text in missing.values()):
            raise InvalidInput(f"Claims: expected what is missing by name, got {shown(missing)}.")
        is_stated = [isinstance(one, dict) and one.get("kind") == "stated" for one in data["made"]]
        kinds = (Claim if stated else LibraryClaim for stated in is_stated)
        read = cls(tuple(kind.from_json(one) for kind, one in zip(kinds, data["made"], strict=True)), missing)
        return read if by == OURS or all(is_stated) else read.stated_by(by)


def shortfall(source: str, short: Shortfalls) -> str:
    """Say which parameters fall short of what a theorem needs.

    >>> shortfall("thm:rpvi", {"iterations": (1, 100)})
    'iterations=1 where thm:rpvi needs 100'
    """
    pairs = ((name, *apart(*numbers)) for name, numbers in short.items())
    return "; ".join(f"{name}={used} where {source} needs {needed}" for name, used, needed in pairs)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
