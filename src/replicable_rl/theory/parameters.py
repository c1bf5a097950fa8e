"""What every parameter of a promise must be, whatever the problem: one rule for each name.

An algorithm asks for these when it is made, and the function of `theory` that plans it asks again, with the problem's
sizes in hand. So no plan is needed to refuse a bad parameter, and no size is invented for one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from replicable_rl.errors import check_choice, check_integer, check_real, check_share
from replicable_rl.theory.rstat import pieces_of

MOST = 2**200  # samples, calls or episodes that can be asked for
Check = Callable[[str, str, Any], Any]  # (owner, name, value) -> the value that counts


def _form(owner: str, name: str, value: Any) -> Any:
    pieces_of(value)
    return value


def _whole(most: int) -> Check:
    return partial(check_integer, low=1, high=most)


def _word(*choices: str) -> Check:
    return partial(check_choice, choices=choices)


_visits = partial(check_real, low=1e-30, high=1e30, rule="a positive number of visits (1e-30 to 1e30)")
_RULES: dict[str, Check] = {
    **dict.fromkeys(("epsilon", "delta", "rho", "tolerance", "rho_sq"), check_share),
    **dict.fromkeys(("calls", "samples", "episodes", "budget"), _whole(MOST)),
    **dict.fromkeys(("known", "window"), _visits),
    "iterations": _whole(2**53),
    "rounds": _whole(2**62),
    "horizon": _whole(2**31 - 1),
    "support": _whole(2**40),
    "target": _word("policy", "value"),
    "norm": _word("entry", "l1"),
    "over": _word("initial", "worst"),
    "form": _form,
}
_NEEDED = "epsilon", "delta", "horizon", "target", "norm", "over", "form"  # others may be left to the theorem


def check_parameters(owner: str, **given: Any) -> dict[str, Any]:
    """Return parameters as they count, or refuse the first that cannot be; what is None is left to the theorem.

    >>> check_parameters("PhasedVI", epsilon=0.1, delta=0.01, calls=1e6, iterations=None)
    {'epsilon': 0.1, 'delta': 0.01, 'calls': 1000000, 'iterations': None}
    >>> check_parameters("PhasedVI", target="Q")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: PhasedVI: target must be 'policy' or 'value', got 'Q'.
    """
    return {
        name: None if value is None and name not in _NEEDED else _RULES[name](owner, name, value)
        for name, value in given.items()
    }
