"""Rules: how an estimate becomes a policy that another sample would have given too.

A rule is a small object with an id, and a pure function of (empirical model, shared numbers). ``rule=`` of
:class:`~replicable_rl.PlugInPolicy` takes one of these, or its id:

    greedy       the best action: the baseline, which ties make arbitrary
    rounded      every entry of Q to a bin of a shared grid, then the best action: the same Q twice
    gumbel       the best of Q plus shared noise
    tolerance    the first action that is nearly the best, nearly by a shared random tolerance
    affordable   the coarsest tolerance that the loss allows; the default
    published    tolerances that somebody published, one for each state
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.files import load_artifact
from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.greedy import Greedy
from replicable_rl.rules.gumbel import SharedGumbel
from replicable_rl.rules.model import EmpiricalModel
from replicable_rl.rules.published import Cuts, PublishedCuts
from replicable_rl.rules.rounded import RoundedQ
from replicable_rl.rules.rule import Decision, Margin, Rule, Tuning
from replicable_rl.rules.tolerance import RandomTolerance
from replicable_rl.runs import OURS, provider

__all__ = [
    "SHIPPED",
    "AffordableTolerance",
    "Cuts",
    "Decision",
    "EmpiricalModel",
    "Greedy",
    "Margin",
    "PublishedCuts",
    "RandomTolerance",
    "RoundedQ",
    "Rule",
    "SharedGumbel",
    "Tuning",
    "as_rule",
]

_ALL: tuple[Any, ...] = (AffordableTolerance, PublishedCuts, RandomTolerance, RoundedQ, SharedGumbel, Greedy)
SHIPPED: dict[str, Any] = {rule.id: rule for rule in _ALL}


def as_rule(value: Any) -> Rule:
    """Return a rule by its id, by an id with settings as identities say it, or one of your own as it is.

    A text that ends in ``.npz`` is a file of published cuts.

    >>> as_rule("affordable"), as_rule({"id": "tolerance", "tolerance": 0.01})
    (AffordableTolerance(order=None), RandomTolerance(tolerance=0.01, order=None))
    >>> as_rule("affordabel")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: rule: rule must be one of ..., got 'affordabel'. Did you mean 'affordable'?
    """
    if isinstance(value, Rule):
        if not value.id or (value.id in SHIPPED and provider(value) != OURS):
            raise InvalidInput(
                f"rule: a rule of your own must have an id of its own, got {value.id!r}. Choose another."
            )
        return value
    if isinstance(value, str) and value.endswith(".npz"):
        return PublishedCuts(load_artifact(value, Cuts))
    settings: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {"id": value}
    name = settings.pop("id", None)
    if not isinstance(name, str) or name not in SHIPPED:
        hint = did_you_mean(name, SHIPPED) if isinstance(name, str) else ""
        raise InvalidInput(f"rule: rule must be one of {', '.join(SHIPPED)}, or a Rule, got {shown(value)}.{hint}")
    names = [field.name for field in fields(SHIPPED[name])]
    if unknown := settings.keys() - set(names):
        raise InvalidInput(f"rule: {name} has no setting {min(unknown)}. It has: {', '.join(names) or 'none'}.")
    if name == PublishedCuts.id:
        settings.setdefault("cuts", None)  # refused: an id, or a digest, does not hold them
    rule: Rule = SHIPPED[name](**settings)
    return rule
