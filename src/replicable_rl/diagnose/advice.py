"""Which line of a comparison to use, and why."""

from __future__ import annotations

from collections.abc import Iterable

from replicable_rl.diagnose.candidates import DEFAULT, PLAIN, PUBLISHED
from replicable_rl.diagnose.comparison import Compared
from replicable_rl.wording import listed, number

_CLOSE = 1.25  # sizes are found to a factor of about 1.2: nearer than this, they are as good as equal
_PLAIN_ENOUGH = 2.0  # the plain model may need so many times the samples of a rule, and is still the simplest answer


def recommended(rows: list[Compared], publish: bool, *, measured_loss: bool) -> tuple[str | None, str]:
    """Choose a line, and say why in a sentence or two."""
    met = {row.name: row.samples for row in rows if row.met and row.samples is not None}
    usable = {name: samples for name, samples in met.items() if publish or name != PUBLISHED}
    both = "all that is asked" if measured_loss else "the agreement that is asked (losses are not known here)"
    if not usable:
        also = f" Published cuts do, from {number(met[PUBLISHED])} samples: ask with publish=True." if met else ""
        meets = "is shown to meet" if any(row.met is None for row in rows) else "meets"
        return None, f"Nothing here {meets} {both} at the sizes that were tried.{also}{_doubt(rows)}"
    fewest = min(usable.values())
    if PLAIN in usable and usable[PLAIN] <= _PLAIN_ENOUGH * fewest:
        chosen = PLAIN
        why = f"the plain model meets {both} from {number(usable[PLAIN])} samples{_others(rows, usable, met)}"
    else:
        chosen = next(name for name in _by_preference(usable) if usable[name] <= _CLOSE * fewest)
        why = f"it meets {both} from {number(usable[chosen])} samples{_plain(rows)}"
    why = f"Use {chosen}: {why}."
    if not publish and PUBLISHED in met and met[PUBLISHED] * _CLOSE < usable[chosen]:
        why += f" Where the first lab may publish cuts, {PUBLISHED} needs {number(met[PUBLISHED])}."
    return chosen, why + _doubt(rows)


def _others(rows: list[Compared], usable: dict[str, int], met: dict[str, int]) -> str:
    """Say that no rule is much better than the plain model."""
    others = [row for row in rows if row.name != PLAIN]
    if not others:
        return ""
    needs = "is shown to need" if any(row.met is None for row in others) else "needs"
    barred = PUBLISHED in met and PUBLISHED not in usable and met[PUBLISHED] * _PLAIN_ENOUGH < usable[PLAIN]
    apart = f" but {PUBLISHED}" if barred else ""
    return f"; no rule{apart} {needs} less than half of that"


def _plain(rows: list[Compared]) -> str:
    """Say what the plain model does, where another one is better."""
    plain = next((row for row in rows if row.name == PLAIN), None)
    if plain is None or plain.met is None:  # what is in doubt is said elsewhere
        return ""
    return f", and the plain model {f'needs {number(plain.samples)}' if plain.samples is not None else 'does not'}"


def _doubt(rows: list[Compared]) -> str:
    """Say of which lines nothing could be told."""
    names = [row.name for row in rows if row.met is None]
    return f" Of {listed(names)} it could not be told; more shared seeds would tell." if names else ""


def _by_preference(names: Iterable[str]) -> list[str]:
    """Return names, the default rule first: of those that are as good as equal it is taken."""
    return sorted(names, key=lambda name: name != DEFAULT)
