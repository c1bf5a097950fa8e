r"""Plug-in policies: one batch of samples, exact planning, one rule; how many samples make its promises true.

The bounds are those of :mod:`replicable_rl.theory.decisions`. Of the loss epsilon the rule spends a part, eps', and the
error of the samples takes the rest. Without ``samples`` or ``budget`` the part is chosen so that fewest samples are
enough; with fewer than these it is 0.9, and the plan says what is proved at this size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from replicable_rl.errors import (
    InvalidInput,
    check_flag,
    check_in_open_interval,
    check_integer,
    check_real,
    check_share,
    shown,
)
from replicable_rl.theory import decisions
from replicable_rl.theory.decisions import PROMISES, Promises, Sizes
from replicable_rl.theory.parameters import MOST, check_parameters
from replicable_rl.theory.plan import check_pairs
from replicable_rl.theory.plug_in_plan import PlugInPlan
from replicable_rl.theory.rstat import few_bits

_OWNER = "theory.plug_in_policy"
SPENT = 0.9  # of epsilon, by the rule, where the sample size is given
_PARTS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)  # of epsilon that a rule may spend, to choose from


def plug_in_policy(
    n_states: int,
    n_actions: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float,
    *,
    rule: str = decisions.AFFORDABLE,
    known_rewards: bool = True,
    over: str = "initial",
    samples: int | None = None,
    budget: int | None = None,
    parameter: float | None = None,
    allowed_pairs: int | None = None,
) -> PlugInPlan:
    """Return the plan of a plug-in policy: n from (epsilon, delta, rho), or what a given n is proved to give.

    ``rule`` is the id of a rule, and ``parameter`` its own, instead of what epsilon allows. ``known_rewards`` says
    whether the reward is a known function of (s, a), and ``allowed_pairs`` is N where some actions are not allowed in
    every state. All else is as in `PlugInPolicy`.

    Examples
    --------
    >>> plan = plug_in_policy(8, 4, 0.9, epsilon=0.1, delta=0.001, rho=0.2, rule="rounded")
    >>> f"{plan.per_pair:.3g}", f"{plan.samples:.3g}", plan.replicability_proved
    ('2.15e+09', '6.89e+10', True)
    >>> plug_in_policy(8, 4, 0.9, 0.1, 0.001, 0.2, samples=1000).replicability_proved
    False
    """
    sizes = Sizes(
        check_integer(_OWNER, "n_states", n_states, low=1, high=2**40),
        check_integer(_OWNER, "n_actions", n_actions, low=1, high=2**40),
        check_real(_OWNER, "gamma", gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)"),
        check_flag(_OWNER, "known_rewards", known_rewards),
    )
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "over": over}
    asked = check_plug_in(rule=rule, parameter=parameter, samples=samples, budget=budget, **asked)
    rule, parameter, over = asked["rule"], asked["parameter"], asked["over"]
    epsilon, delta, rho = asked["epsilon"], asked["delta"], asked["rho"]
    promise: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "known_rewards": sizes.known_rewards}
    problem: dict[str, Any] = {name: getattr(sizes, name) for name in ("n_states", "n_actions", "gamma")}
    problem |= {"rule": rule, "allowed_pairs": check_pairs(_OWNER, allowed_pairs, n_states, n_actions)}
    sizes = replace(sizes, weighed=over == "initial", allowed_pairs=problem["allowed_pairs"])
    given = _given(sizes, asked["samples"], asked["budget"])
    rules = PROMISES.get(rule)
    if rules is None:
        sized: dict[str, Any] = {
            "per_pair": given,
            "per_pair_needed": given,
            "spent": SPENT * epsilon,
            "parameter": 0.0,
        }
        return PlugInPlan(**promise, **problem, **sized, over=over)
    needed, spent, tuned = _fewest(sizes, rules, epsilon, delta, rho, rule, parameter)
    if given is not None and given < needed:
        spent = 0.0 if rule == decisions.GREEDY else SPENT * epsilon
        tuned = _tuned(sizes, rules, spent, delta, parameter)
    sized = {"per_pair": given or needed, "per_pair_needed": needed, "spent": spent, "parameter": tuned}
    return PlugInPlan(**promise, **problem, **sized, over=over)


def check_plug_in(
    *, rule: str, parameter: float | None = None, horizon: int | None = None, **given: Any
) -> dict[str, Any]:
    """Return the parameters of `plug_in_policy` that no problem has a say in, as they count."""
    found = check_parameters(_OWNER, **given | ({} if horizon is None else {"horizon": horizon}))
    check_share(_OWNER, "rho", found["rho"])
    if not isinstance(rule, str):
        raise InvalidInput(f"{_OWNER}: rule must be the id of a rule, such as 'affordable', got {shown(rule)}.")
    if parameter is not None:
        if rule == decisions.PUBLISHED:  # 0: no doubts
            parameter = check_real(_OWNER, "parameter", parameter, low=0.0, high=math.inf, rule="a number >= 0")
        else:
            parameter = check_in_open_interval(_OWNER, "parameter", parameter, 0.0, math.inf)
    if found["samples"] is not None and found["budget"] is not None:
        raise InvalidInput(f"{_OWNER}: samples is n of every pair and budget the samples in all. Give one of them.")
    if rule not in PROMISES and found["samples"] is None and found["budget"] is None:
        raise InvalidInput(f"{_OWNER}: of rule={shown(rule)} nothing is proved, so samples or budget must be given.")
    return found | {"rule": str(rule), "parameter": parameter}


def _given(sizes: Sizes, samples: int | None, budget: int | None) -> int | None:
    """Return n where it is given, by itself or by the samples in all."""
    if budget is not None and budget < sizes.pairs:
        raise InvalidInput(
            f"{_OWNER}: budget must allow one sample for each of the {sizes.pairs} pairs, got {budget}. Raise it."
        )
    return samples if budget is None else budget // sizes.pairs


def _tuned(sizes: Sizes, rules: Promises, spent: float, delta: float, parameter: float | None) -> float:
    if parameter is not None:
        return parameter
    return float(few_bits(rules.parameter(sizes, spent, delta)))


@lru_cache(maxsize=256)  # cuts are new in every run of a calibration, and the plan is the same
def _fewest(
    sizes: Sizes, rules: Promises, epsilon: float, delta: float, rho: float, rule: str, parameter: float | None
) -> tuple[int, float, float]:
    """Return the fewest samples of a pair that keep both promises, what the rule spends, and its parameter."""
    found: list[tuple[int, float, float]] = []
    second_run = rule not in (decisions.GREEDY, decisions.PUBLISHED)
    only = {decisions.GREEDY: (0.0,), decisions.PUBLISHED: (SPENT,)}  # who publishes spends as much, at every size
    for part in only.get(rule, _PARTS):
        spent = part * epsilon
        tuned = _tuned(sizes, rules, spent, delta, parameter)

        def enough(n: float, spent: float = spent, tuned: float = tuned) -> bool:
            loses = rules.loss(sizes, n, tuned, spent, delta)
            differ = rules.differ(sizes, n, tuned, spent) if second_run else 0.0
            return loses <= epsilon and differ <= rho

        low, high = 0, 4
        while high < 256 and not enough(2.0**high):
            low, high = high, 2 * high
        if not enough(2.0 ** min(high, 200)):
            continue
        below, above = float(low), float(min(high, 200))
        while above - below > 2.0**-10:
            middle = (below + above) / 2.0
            below, above = (below, middle) if enough(2.0**middle) else (middle, above)
        found.append((math.ceil(float(few_bits(2.0**above))), spent, tuned))
    if not found:
        return MOST, SPENT * epsilon, _tuned(sizes, rules, SPENT * epsilon, delta, parameter)
    return min(found)
