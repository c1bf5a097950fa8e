"""One state in words and digits: what two runs choose there, and how close the decision was.

Numbers are written with as many digits as it takes to see that they differ: two values that print
alike *are* alike, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.wording import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.report.policy import PolicyRun

_DIGITS = 4  # after the point, where two numbers are the same or differ early
_MOST_ACTIONS = 12  # told of one state


def state_words(state: int, name: str, actions: Sequence[str], runs: Sequence[PolicyRun]) -> dict[str, Any]:
    """Return what the page says of a state: a sentence, a row for every action, and remarks."""
    chosen = [int(run.policy[state]) for run in runs]
    told = [actions[action] for action in chosen]
    same = chosen[0] == chosen[1]
    first, second = (run.name for run in runs)
    sentence = f"Both choose {told[0]}." if same else f"{first}: {told[0]}; {second}: {told[1]}."
    words: dict[str, Any] = {"name": name, "same": same, "says": sentence, "rows": [], "remarks": []}
    tables = [run.q for run in runs]
    if tables[0] is None or tables[1] is None:
        return words
    one, two = tables[0][state], tables[1][state]
    told_of = _listed(one, two, chosen)
    words["rows"] = [[actions[a], *pair_of_numbers(one[a], two[a]), [int(c == a) for c in chosen]] for a in told_of]
    if len(told_of) < one.size:
        words["remarks"].append(f"{one.size - len(told_of)} more actions have smaller values.")
    remarks = [_lead(q, action, actions) for q, action in zip((one, two), chosen, strict=True)]
    if remarks[0] == remarks[1]:
        words["remarks"].append(f"In both: {remarks[0]}.")
    else:
        words["remarks"] += [f"{run.name}: {remark}." for run, remark in zip(runs, remarks, strict=True)]
    if np.array_equal(one, two):
        words["remarks"].append("All values are the same to the last bit.")
    return words


def pair_of_numbers(one: float, two: float) -> tuple[str, str, str]:
    """Write two numbers with digits enough to tell them apart, and their difference.

    >>> pair_of_numbers(6.26941, 6.26941)
    ('6.2694', '6.2694', '=')
    >>> pair_of_numbers(6.26941, 6.26938)
    ('6.26941', '6.26938', '−3e−05')
    >>> pair_of_numbers(1.0, 1.0 + 2**-52)
    ('1.0000000000000000', '1.0000000000000002', '+2.2e−16')
    """
    largest = max(abs(one), abs(two))
    form = "f" if largest == 0.0 or 1e-3 <= largest < 1e7 else "e"  # digits after the point, which stand under another
    for digits in range(_DIGITS, 18):
        texts = _number(one, digits, form), _number(two, digits, form)
        if one == two or texts[0] != texts[1]:
            break
    if one == two:
        return *texts, "="
    gap = float(two) - float(one)
    return *texts, _minus(f"{gap:+.2g}") if math.isfinite(gap) else "≠"


def _number(x: float, digits: int, form: str) -> str:
    return _minus(f"{float(x) + 0.0:.{digits}{form}}")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _listed(one: NDArray[np.float64], two: NDArray[np.float64], chosen: Sequence[int]) -> list[int]:
    """The actions to tell of: all of few; of many, the best and the chosen."""
    if one.size <= _MOST_ACTIONS:
        return list(range(one.size))
    best = np.argsort(-np.maximum(one, two), kind="stable")[: _MOST_ACTIONS - 2].tolist()
    return sorted({*best, *chosen})


def _lead(q: NDArray[np.float64], chosen: int, actions: Sequence[str]) -> str:
    """Say how close the decision was."""
    top = np.flatnonzero(q == q.max()).tolist()
    if len(top) == q.size:
        return "all actions tie exactly" if q.size > 1 else "there is one action"
    if len(top) > 1:
        return f"{listed([actions[a] for a in top[:4]])} tie exactly"
    (best,) = top
    rest = np.delete(np.arange(q.size), best)
    rival = int(rest[np.argmax(q[rest])])
    said = f"{actions[best]} leads {actions[rival]} by {_minus(f'{float(q[best] - q[rival]):.2g}')}"
    return said if best == chosen else f"{said}, yet {actions[chosen]} is chosen"
