r"""How many samples are enough: a search over sizes that keeps its error probability.

    sizes      n_0 < n_1 < ... < n_G, about 2^(1/4) apart, fixed before anything runs
    up         n_0, n_4, n_8, ... until two in a row are met, or the last
    down       bisection between the first of them and the size before it
    at a size  pairs of runs are added, twice as many each time, until it is decided or there are as many as allowed

*Every interval of the search holds at once*, with probability at least the confidence 1 - alpha. At one size the runs
of the shared seeds 1, 2, 3, ... are independent, and :mod:`~replicable_rl.audit.intervals` holds at all their numbers
at once, with probability 1 - alpha/G': whether more are added may depend on what was seen. Each size has the same part
of alpha, whether it is tried or not, so which are tried may depend on everything too. That matters, for all sizes use
the same seeds and are not independent of each other.

*What is found* is the smallest size tried that is met and such that all larger sizes tried are met. Agreement can fall
as samples grow (where an algorithm has hardly looked at its data, it does the same twice), so a size that is met below
one that is not does not count; of sizes that were not tried nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from replicable_rl.audit.agreement import Estimate
from replicable_rl.canonical import Json, decimal
from replicable_rl.display import short_repr

Verdict = Literal["met", "not met", "undecided"]
OCTAVE = 4  # sizes up to twice a size
_FIRST = 32  # pairs of a first look


class Seen(NamedTuple):
    """What some pairs of runs at one size show; intervals hold at every look."""

    agreement: Estimate
    loss: Estimate | None = None
    largest_loss: float | None = None
    samples: int | None = None  # the most that a run drew
    sampled: bool = True  # whether anything was fresh


@dataclass(frozen=True)
class Question:
    """What is asked at every size.

    ``confidence`` is that of one interval; ``epsilon`` is None where losses are not asked about.
    """

    rho: float
    epsilon: float | None
    confidence: float
    most_pairs: int

    def verdict(self, seen: Seen) -> Verdict:
        """Say whether all that is asked is shown, or something of it is refuted."""
        parts = [_above(seen.agreement, 1.0 - self.rho) if seen.sampled else None]
        if self.epsilon is not None:
            loss = seen.loss
            parts.append(None if loss is None else _below(loss, self.epsilon))
        return "met" if all(parts) else "not met" if False in parts else "undecided"


@dataclass(frozen=True)
class Point:
    """What was found at one size.

    Attributes
    ----------
    size : int
        The value of the parameter.
    samples : int or None
        The most samples that a run drew, in all; None where runs do not say.
    pairs : int
        Pairs of runs.
    agreement : Estimate
        How often two runs agree.
    loss : Estimate or None
        The mean loss of a run, in values normalised to [0, 1]; None where the problem is no table.
    largest_loss : float or None
        The largest of a single run.
    verdict : {"met", "not met", "undecided"}
        Whether all that was asked is shown, or something of it refuted.
    """

    size: int
    samples: int | None
    pairs: int
    agreement: Estimate
    loss: Estimate | None
    largest_loss: float | None
    verdict: Verdict

    __repr__ = short_repr

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {
            "size": decimal(self.size),
            "samples": decimal(self.samples),
            "pairs": self.pairs,
            "agreement": self.agreement.to_json(),
            "loss": None if self.loss is None else self.loss.to_json(),
            "largest_loss": self.largest_loss,
            "verdict": self.verdict,
        }


def grid(start: int, most: int) -> list[int]:
    """Return the sizes that may be tried; the last is ``most``.

    >>> grid(10, 50)
    [10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 50]
    >>> grid(1, 9)  # small sizes coincide
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    sizes, i = [start], 1
    while sizes[-1] < most:
        octave, part = divmod(i, OCTAVE)
        size = min(most, round(start * 2**octave * 2.0 ** (part / OCTAVE)) if part else start * 2**octave)
        if size > sizes[-1]:
            sizes.append(size)
        i += 1
    return sizes


def look_at(size: int, question: Question, measure: Callable[[int], Seen]) -> Point:
    """Add pairs of runs at a size until it is decided, or there are as many as allowed."""
    pairs = min(_FIRST, question.most_pairs)
    while True:
        seen = measure(pairs)
        verdict = question.verdict(seen)
        if verdict != "undecided" or pairs >= question.most_pairs:
            return Point(size, seen.samples, pairs, seen.agreement, seen.loss, seen.largest_loss, verdict)
        pairs = min(2 * pairs, question.most_pairs)


def search(sizes: Sequence[int], look: Callable[[int], Point]) -> tuple[Point, ...]:
    """Return what was found at the sizes that were tried, by size."""
    found: dict[int, Point] = {}

    def met(i: int) -> bool:
        if i not in found:
            found[i] = look(sizes[i])
        return found[i].verdict == "met"

    up = _doublings(sizes)
    low = None  # the first of those that are met up to here
    for k, i in enumerate(up):
        if not met(i):
            low = None
        elif low is not None:
            break
        else:
            low = k
    if low is not None:
        above, below = up[low], up[low - 1] if low else up[0]
        while above - below > 1:
            middle = (above + below) // 2
            above, below = (middle, below) if met(middle) else (above, middle)
    return tuple(found[i] for i in sorted(found))


def smallest(points: Sequence[Point]) -> Point | None:
    """Return the smallest size that is met and such that all larger ones are met."""
    chosen = None
    for point in reversed(points):
        if point.verdict != "met":
            break
        chosen = point
    return chosen


def _doublings(sizes: Sequence[int]) -> list[int]:
    """Return where sizes have at least doubled; the last is among them."""
    chosen = [0]
    for i, size in enumerate(sizes):
        if size >= 2 * sizes[chosen[-1]] or (i == len(sizes) - 1 and i != chosen[-1]):
            chosen.append(i)
    return chosen


def _above(estimate: Estimate, least: float) -> bool | None:
    return True if estimate.low >= least else False if estimate.high < least else None


def _below(estimate: Estimate, most: float) -> bool | None:
    return True if estimate.high <= most else False if estimate.low > most else None
