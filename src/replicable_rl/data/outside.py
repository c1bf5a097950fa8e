"""Rewards outside the declared range: what is known of them, and why nothing is decided on them.

The range is a promise: values are normalised by it, and accuracy, tolerances and what is at stake are in its units.
With a range that the log itself breaks they would all be wrong, and cutting rewards off would change the problem. So
such a log is read, compared, summarised and saved, and ``solve`` and ``diagnose`` refuse it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.wording import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Outside(NamedTuple):
    """How many rewards of a log are outside the declared range, the least and the largest of all, where the first is.

    ``where`` is "" if that is not known.
    """

    rows: int
    lowest: float
    highest: float
    where: str = ""

    def said(self, bounds: tuple[float, float], rows: int) -> str:
        """Return it in words.

        >>> Outside(2, 0.0, 7.0, "log.csv, line 3").said((0.0, 5.0), 10)
        '2 of 10 rewards are outside reward_range [0, 5]: they go from 0 to 7 (the first: log.csv, line 3)'
        """
        first = f" (the first: {self.where})" if self.where else ""
        are = "is" if self.rows == 1 else "are"
        return (
            f"{self.rows} of {plural(rows, 'reward')} {are} outside reward_range [{bounds[0]:g}, {bounds[1]:g}]: they "
            f"go from {self.lowest:g} to {self.highest:g}{first}"
        )

    def refuse(self, bounds: tuple[float, float], rows: int) -> None:
        """Refuse to decide."""
        raise InvalidInput(
            f"Dataset: {self.said(bounds, rows)}. Nothing is decided on a range that is not true: widen reward_range, "
            "or mend the log."
        )


def found_outside(
    reward: NDArray[np.float64],
    count: NDArray[np.int64],
    bounds: tuple[float, float],
    is_exact: bool,
    known: Outside | None,
) -> Outside | None:
    """Return what is outside of the range.

    Where ``reward`` holds means, ``is_exact`` is False, and what is ``known`` from the rows says more.
    """
    beyond = (reward < bounds[0]) | (reward > bounds[1])
    if known is not None and not is_exact:
        return known
    if not beyond.any():
        return None
    where = "" if known is None else known.where
    return Outside(int(count[beyond].sum()), float(reward.min()), float(reward.max()), where)


def outside_of_wider(known: Outside | None, bounds: tuple[float, float]) -> Outside | None:
    """Return what is outside of a wider range: nothing, where it holds all rewards that were seen."""
    held = known is not None and bounds[0] <= known.lowest and known.highest <= bounds[1]
    return None if held else known
