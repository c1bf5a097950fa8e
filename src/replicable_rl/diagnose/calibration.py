"""What a calibration found: the curve over sizes, the size, and what the proof needs."""

from __future__ import annotations

import os
from dataclasses import dataclass

from replicable_rl.canonical import Json, decimal
from replicable_rl.diagnose.search import Point, smallest
from replicable_rl.display import Displayed
from replicable_rl.display import shown as displayed
from replicable_rl.errors import check_integer
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import number, percent


@dataclass(frozen=True)
class Calibration(Displayed):
    """How many samples an algorithm needs on a problem, measured; immutable.

    Attributes
    ----------
    problem, algorithm : ObjectSpec
        What was run; the algorithm without its size.
    size_name : str
        The parameter that was searched, such as ``"samples"`` (of every pair).
    points : tuple of Point
        The sizes that were tried, from the smallest on. All their intervals hold at once, with the confidence.
    rho, epsilon, confidence : float
        What was asked; ``epsilon`` is None where losses were not asked about.
    level : str
        What two runs must have in common.
    levels : tuple of str
        What else the runs have that could be compared.
    over : {"initial", "worst"}
        Which loss it is.
    theory : int or None
        Samples, in all, that the proof needs for the same promise; None where there is no such proof.
    pairs : int
        Pairs (s, a) of the problem.
    gain : float or None
        What the best policy gains over the uniform one, in values normalised to [0, 1].
    unit : float
        One normalised unit in the user's own.
    published : bool
        Whether the first run of every pair published cuts for the second.
    """

    problem: ObjectSpec
    algorithm: ObjectSpec
    size_name: str
    points: tuple[Point, ...]
    rho: float
    epsilon: float | None
    confidence: float
    level: str
    levels: tuple[str, ...]
    over: str
    theory: int | None
    pairs: int
    gain: float | None
    unit: float
    published: bool = False

    @property
    def point(self) -> Point | None:
        """The smallest size tried that is met and such that all larger sizes tried are met; None if there is none."""
        return smallest(self.points)

    @property
    def met(self) -> bool | None:
        """Whether such a size was found; False if the largest is refuted, None if it cannot be told there."""
        if self.point is not None:
            return True
        return False if self.points[-1].verdict == "not met" else None

    @property
    def size(self) -> int | None:
        """The size that was found."""
        return None if self.point is None else self.point.size

    @property
    def samples(self) -> int | None:
        """The samples, in all, that a run of this size draws at most."""
        return None if self.point is None else self.point.samples

    @property
    def per_pair(self) -> float | None:
        """The same for each pair (s, a), on average."""
        return None if self.samples is None else self.samples / self.pairs

    @property
    def chosen(self) -> ObjectSpec | None:
        """The algorithm with the size that was found."""
        return None if self.size is None else ObjectSpec(self.algorithm.id, self._params | {self.size_name: self.size})

    @property
    def _params(self) -> dict[str, Json]:
        return dict(self.algorithm.params)

    @property
    def asked(self) -> str:
        """What was asked, in words."""
        text = f"same {self.level} with probability at least {number(1.0 - self.rho, 6)}"
        return text if self.epsilon is None else f"{text}, mean loss at most {number(self.epsilon, 6)}"

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        found = f"{self.size_name}={number(self.size)}" if self.size is not None else _NOT_FOUND[self.met]
        tried = f"{len(self.points)} sizes tried"
        return f"Calibration({self.problem.text}, {self.algorithm.id}: {found}, {tried}, {percent(self.confidence)})"

    def table(self, *, width: int = 80) -> str:
        """Return the curve as text, 80 columns wide; where ``width`` is less, columns are left out."""
        width = check_integer("Calibration.table", "width", width, low=1, high=10**4)
        text: str = displayed("calibration table", self, width)
        return text

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw agreement and loss over samples, with intervals and what the proof needs, to a PNG, SVG or PDF file."""
        displayed("calibration figure", self, path)

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON; counts are strings, for they may pass 2**53."""
        return {
            "format": "replicable-rl calibration",
            "version": 1,
            "problem": self.problem.to_json(),
            "algorithm": self.algorithm.to_json(),
            "published": self.published,
            "asked": {"rho": self.rho, "epsilon": self.epsilon, "level": self.level, "over": self.over},
            "confidence": self.confidence,
            "met": self.met,
            "size": {"name": self.size_name, "value": decimal(self.size)},
            "samples": decimal(self.samples),
            "per_pair": self.per_pair,
            "theory": decimal(self.theory),
            "gain_over_uniform": self.gain,
            "unit": self.unit,
            "levels": list(self.levels),
            "points": [point.to_json() for point in self.points],
        }


_NOT_FOUND = {False: "not met", None: "undecided"}
