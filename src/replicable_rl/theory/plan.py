"""Plans: what a run takes and what may be claimed of it, before a sample is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from replicable_rl.canonical import Json, decimal
from replicable_rl.display import Displayed, described
from replicable_rl.errors import check_integer
from replicable_rl.paper import cited
from replicable_rl.runs import EMPTY, Claim, Claims, shortfall
from replicable_rl.wording import apart, number

MAX_CALLS = 2**63 - 1  # what 64 bits can count
SLACK = 1.0 + 1e-13  # a promise met up to the rounding of these formulas is met
SHARP_FORM = "the sharp form of "  # begins the source of a claim
RSTAT, PLAIN = "rstat", "plain"  # the ids of the estimates that the proofs know
_HERE = ("anywhere", "conditions", "gain", "by")  # what is known of one problem, and not of its sizes
_NOT_PROMISED = "this algorithm promises nothing about a second run"

Cell = float | str | None
Pairs = Mapping[str, tuple[float, float]]  # parameter -> what is used, what is needed


class PlanTable(NamedTuple):
    """A plan for people: the variants of an algorithm side by side."""

    heading: str
    labels: tuple[str, ...]
    columns: Mapping[str, list[Cell]]  # by the name of the variant, one cell for each label
    closing: str

    def __repr__(self) -> str:
        return described(self, f"{self.heading}: {', '.join(self.columns)}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Displayed):
    """What every plan says, whatever the algorithm. A plan of your own may, but need not, derive from it.

    Attributes
    ----------
    epsilon, delta, rho : float
        The promise; ``rho`` is None for a baseline, which promises nothing about a second run.
    known_rewards : bool
        Whether the reward is a known function of (s, a), or learned from the samples.
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

    epsilon: float
    delta: float
    rho: float | None
    known_rewards: bool
    estimated: bool = False
    anywhere: bool = False
    conditions: tuple[str, ...] = ()
    gain: float | None = None
    by: str | None = None

    _derived: ClassVar[tuple[str, ...]] = ()  # properties that the JSON form has beside the fields
    _counts: ClassVar[tuple[str, ...]] = ()  # what may pass the integers of JSON, and is written as text

    def __repr__(self) -> str:
        rho = "" if self.rho is None else f", rho={self.rho:g}"
        claims = self.claims()
        proved = [about for about in ("accuracy", "replicability") if getattr(claims, about) is not None]
        said = f"{' and '.join(proved)} claimed" if proved else "nothing claimed"
        promise = f"epsilon={self.epsilon:g}, delta={self.delta:g}{rho}"
        return described(self, f"{promise}: {number(self.samples)} samples, {said}")

    @property
    def samples(self) -> int:
        """Transitions that a run draws, at most."""
        raise NotImplementedError

    @property
    def rho_proved(self) -> float | None:
        """Bound on the probability that two runs differ; 1 when nothing is proved, None for a baseline."""
        raise NotImplementedError

    @property
    def accuracy_proved(self) -> bool:
        """Whether the promise about accuracy holds at these parameters."""
        raise NotImplementedError

    @property
    def replicability_proved(self) -> bool:
        """Whether two runs differ with probability at most rho at these parameters."""
        return self.rho is not None and self.rho_proved is not None and self.rho_proved <= self.rho * SLACK

    def claims(self) -> Claims:
        """Return what may be claimed of a run, about accuracy and about replicability apart."""
        raise NotImplementedError

    def _here(self, claims: Claims) -> Claims:
        """Return claims with what is known of the problem, of its source, and of whose algorithm this is."""
        claims = claims.under(self.conditions).beside(self.gain)
        claims = claims.about_an_estimate() if self.estimated else claims
        return claims if self.by is None else claims.stated_by(self.by)

    def _outside_the_proof(self, **needed: tuple[str, ...]) -> list[str]:
        """Say why no proof holds: ingredients that are none of those needed, of which the first is its own."""
        used = ((name, getattr(self, name), ids) for name, ids in needed.items())
        return [f"{name}={id} where the proof needs {ids[0]}" for name, id, ids in used if id not in ids]

    def table(self) -> PlanTable:
        """Return the plan for people."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON; counts of samples are strings."""
        names = [field.name for field in fields(self)]
        proved = ("rho_proved", "accuracy_proved", "replicability_proved") if self.by is None else ()
        names += ["samples", *proved, *self._derived]
        said = ((name, getattr(self, name)) for name in names)
        said = ((name, value) for name, value in said if name not in ("allowed_pairs", *_HERE) or value)
        numbers = {name: decimal(value) if name in ("samples", *self._counts) else value for name, value in said}
        return {**numbers, "claims": self.claims().to_json()}

    def _table(self, heading: str, variants: Mapping[str, Mapping[str, Cell]], run: str) -> PlanTable:
        """Return a table from the cells of every variant, by their labels; ``run`` names the size of a run."""
        labels = tuple(next(iter(variants.values())))
        columns = {name: list(cells.values()) for name, cells in variants.items()}
        estimate = " All of this is about the estimated table." * self.estimated
        closing = f"{self._empty}With {run}: {'; '.join(_said(self.claims(), self.rho_proved))}.{estimate}"
        return PlanTable(heading, labels, columns, closing)

    @property
    def _empty(self) -> str:
        """That epsilon asks for nothing, and which would ask for something; '' where it does, or nobody knows."""
        if self.gain is None or self.epsilon < self.gain:
            return ""
        gain = number(self.gain, 3)
        return f"epsilon={self.epsilon:g} {EMPTY}{gain}. An epsilon below {gain} would ask for something. "


def _said(claims: Claims, rho_proved: float | None) -> Iterator[str]:
    """Say what is claimed of a run, and of what there is no claim."""
    for about in ("accuracy", "replicability"):
        claim = claims.accuracy if about == "accuracy" else claims.replicability
        if claim is None:
            why = claims.missing[about]
            yield why if why == _NOT_PROMISED else cited(f"nothing is proved about {about} ({why})")
        elif about == "accuracy":
            yield f"accuracy is {claim.ground}{claim.proviso}"
        else:
            promised, reached = f"{claim.bound:g}", f"{rho_proved:.3g}"
            less = claim.kind == "proved" and float(reached) < float(promised)
            ground = f"{claim.ground}; the bound reached is {reached}" if less else claim.ground
            yield f"two runs differ with probability at most {promised} ({ground}){claim.proviso}"


def check_pairs(owner: str, allowed_pairs: int | None, n_states: int, n_actions: int) -> int | None:
    """Return the number of pairs that are allowed: at least one for each state; None where all are."""
    if allowed_pairs is None:
        return None
    most = n_states * n_actions
    pairs = check_integer(owner, "allowed_pairs", allowed_pairs, low=n_states, high=most)
    return None if pairs == most else pairs


def claims_of(accuracy: Claim | str, replicability: Claim | str | None) -> Claims:
    """Put together what is claimed and, where nothing is, the reason; None: replicability is not even promised."""
    both = {"accuracy": accuracy, "replicability": replicability or _NOT_PROMISED}
    made = tuple(part for part in both.values() if isinstance(part, Claim))
    return Claims(made, {about: part for about, part in both.items() if isinstance(part, str)})


def claim_if(
    holds: bool, claim: Claim, reached: float, *, at_least: Pairs, at_most: Pairs = MappingProxyType({}), of: str = ""
) -> Claim | str:
    """Return a claim that holds, or say why it does not.

    ``at_least`` and ``at_most`` name the parameters that may fall short, with what is used and what is needed;
    ``reached`` is the bound that holds instead, and ``of`` what needs them, if not the claim's own source.
    """
    if holds:
        return claim
    short = {name: pair for name, pair in at_least.items() if pair[0] < pair[1]}
    short |= {name: pair for name, pair in at_most.items() if pair[0] > pair[1]}
    why = [shortfall(of or claim.source, short)] if short else []
    if reached < 1.0:
        name = "rho" if claim.about == "replicability" else "epsilon/2" if claim.level == "value" else "epsilon"
        holding, promised = apart(reached, claim.bound)
        why.append(f"the bound at these parameters is {holding}, above {name}={promised}")
    return "; ".join(why) or "there is no bound at these parameters"
