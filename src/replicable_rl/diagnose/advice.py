"""Which line of a comparison to use, and why."""

from __future__ import annotations

from collections.abc import Iterable

from replicable_rl.diagnose.candidates import DEFAULT, PLAIN, PUBLISHED
from replicable_rl.diagnose.comparison import Compared
from replicable_rl.wording import listed, number

_CLOSE = 1.25  # sizes are found to a factor of about 1.2: nearer than this, they are as good as equal
_PLAIN_ENOUGH = 2.0  # the plain model may need so many times the samples of a rule, and is still the simplest answer


def recommended(rows: list[Compared], publish: bool, *, measured_loss: bool) -> tuple[str | None, str]:
    """Choose a line, and say why in a sentence."""
    met = {row.name: row.samples for row in rows if row.met and row.samples is not None}
    usable = {name: samples for name, samples in met.items() if publish or name != PUBLISHED}
    both = "all that is asked" if measured_loss else "the agreement that is asked (losses are not known here)"
    if not usable:
        also = f" Published cuts do, from {number(met[PUBLISHED])} samples: ask with publish=True." if met else ""
        undecided = [row.name for row in rows if row.met is None]
        doubt = f" Of {listed(undecided)} it could not be told." if undecided else ""
        return None, f"Nothing here meets {both} at the sizes that were tried.{also}{doubt}"
    fewest = min(usable.values())
    cheapest = next(name for name in _by_preference(usable) if usable[name] <= _CLOSE * fewest)
    if PLAIN in usable and usable[PLAIN] <= _PLAIN_ENOUGH * fewest:
        said = (
            f"the plain model meets {both} from {number(usable[PLAIN])} samples; no rule needs less than half of that"
        )
        return PLAIN, f"Use {PLAIN}: {said}."
    plain = f"the plain model needs {number(met[PLAIN])}" if PLAIN in met else "the plain model does not"
    compared = f", and {plain}" if any(row.name == PLAIN for row in rows) else ""
    why = f"Use {cheapest}: it meets {both} from {number(usable[cheapest])} samples{compared}."
    if not publish and PUBLISHED in met and met[PUBLISHED] * _CLOSE < usable[cheapest]:
        why += f" Where the first lab may publish cuts, {PUBLISHED} needs {number(met[PUBLISHED])}."
    return cheapest, why


def _by_preference(names: Iterable[str]) -> list[str]:
    """Return names, the default rule first: of those that are as good as equal it is taken."""
    return sorted(names, key=lambda name: name != DEFAULT)
