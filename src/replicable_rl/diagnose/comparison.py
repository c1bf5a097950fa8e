"""What a comparison found: a line for each rule and algorithm, and which to use."""

from __future__ import annotations

import os
from dataclasses import dataclass

from replicable_rl.canonical import Json, decimal
from replicable_rl.diagnose.calibration import Calibration
from replicable_rl.display import Displayed, short_repr
from replicable_rl.display import shown as displayed
from replicable_rl.errors import InvalidInput, check_integer, shown
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import percent


@dataclass(frozen=True)
class Compared:
    """One line of a comparison.

    Attributes
    ----------
    name : str
        Of the rule or the algorithm.
    replicates : str
        What it is made to have the same in two runs.
    calibration : Calibration
        What was measured.
    """

    name: str
    replicates: str
    calibration: Calibration

    __repr__ = short_repr

    @property
    def met(self) -> bool | None:
        """Whether a size was found that meets all that is asked; None where that cannot be told."""
        return self.calibration.met

    @property
    def samples(self) -> int | None:
        """Samples in all, measured."""
        return self.calibration.samples

    @property
    def theory(self) -> int | None:
        """Samples in all that the proof needs; None where there is no proof."""
        return self.calibration.theory

    @property
    def loss(self) -> float | None:
        """The mean loss at this size, in values normalised to [0, 1]."""
        point = self.calibration.point
        return None if point is None or point.loss is None else float(point.loss)

    @property
    def loss_in_units(self) -> float | None:
        """The same in the user's units."""
        return None if self.loss is None else self.loss * self.calibration.unit

    @property
    def loss_share(self) -> float | None:
        """The same as a share of what the best policy gains over the uniform one; None where that is nothing."""
        gain = self.calibration.gain
        return None if self.loss is None or not gain or gain < 1e-9 else self.loss / gain

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "replicates": self.replicates,
            "met": self.met,
            "samples": decimal(self.samples),
            "theory": decimal(self.theory),
            "loss": self.loss,
            "loss_in_units": self.loss_in_units,
            "loss_share": self.loss_share,
            "calibration": self.calibration.to_json(),
        }


@dataclass(frozen=True)
class Comparison(Displayed):
    """Rules and algorithms side by side on one problem; immutable.

    Attributes
    ----------
    problem : ObjectSpec
        What was solved.
    rows : tuple of Compared
        A line for each rule and algorithm. All intervals of all lines hold at once, with the confidence.
    rho, epsilon, delta, confidence : float
        What was asked.
    gain : float or None
        What the best policy gains over the uniform one, in values normalised to [0, 1]; None where the problem is no
        table.
    unit : float
        One normalised unit in the user's own.
    publish : bool
        Whether the first lab may publish something for the others.
    recommended : str or None
        The name of the line to use; None where none meets all that is asked.
    why : str
        The reason, in a sentence.
    """

    problem: ObjectSpec
    rows: tuple[Compared, ...]
    rho: float
    epsilon: float
    delta: float
    confidence: float
    gain: float | None
    unit: float
    publish: bool
    recommended: str | None
    why: str

    def __getitem__(self, name: str) -> Compared:
        for row in self.rows:
            if row.name == name:
                return row
        known = [row.name for row in self.rows]
        raise InvalidInput(f"Comparison: there is no {shown(name)}. It has: {', '.join(known)}.")

    @property
    def met(self) -> bool | None:
        """Whether anything meets all that is asked; None where that cannot be told of all."""
        verdicts = [row.met for row in self.rows]
        return True if True in verdicts else None if None in verdicts else False

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        found = f"{self.recommended} recommended" if self.recommended else "nothing recommended"
        return f"Comparison({self.problem.text}: {len(self.rows)} lines, {found}, {percent(self.confidence)})"

    def table(self, *, width: int = 80) -> str:
        """Return the comparison as text, 80 columns wide; where ``width`` is less, columns are left out."""
        width = check_integer("Comparison.table", "width", width, low=1, high=10**4)
        text: str = displayed("comparison table", self, width)
        return text

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw measured and proved samples of every line to a PNG, SVG or PDF file."""
        displayed("comparison figure", self, path)

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON; counts are strings, for they may pass 2**53."""
        return {
            "format": "replicable-rl comparison",
            "version": 1,
            "problem": self.problem.to_json(),
            "asked": {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta, "publish": self.publish},
            "confidence": self.confidence,
            "gain_over_uniform": self.gain,
            "unit": self.unit,
            "recommended": self.recommended,
            "why": self.why,
            "rows": [row.to_json() for row in self.rows],
        }
