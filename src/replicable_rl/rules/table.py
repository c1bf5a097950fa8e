"""The rules by their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.files import load_artifact
from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.cuts import Cuts
from replicable_rl.rules.published import PublishedCuts
from replicable_rl.rules.rule import Decision
from replicable_rl.rules.simple import Greedy, RandomTolerance, RoundedQ, SharedGumbel

if TYPE_CHECKING:
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.rules.model import EmpiricalModel
    from replicable_rl.rules.rule import Margin, Tuning

SHIPPED: dict[str, Any] = {
    rule.id: rule
    for rule in (
        AffordableTolerance,
        PublishedCuts,
        RandomTolerance,
        RoundedQ,
        SharedGumbel,
        Greedy,
    )
}


def decided_by(
    rule: Any, model: EmpiricalModel, shared: SharedRandomness, tuning: Tuning, margin: Margin | None = None
) -> Decision:
    """Return what a rule decides; one of your own cannot say that it is sure, for nothing is proved of it."""
    decision: Decision = rule.decide(model, shared, tuning, margin)
    if rule.id in SHIPPED:
        return decision
    outputs = decision.outputs if isinstance(decision, Decision) else None
    if not isinstance(outputs, Mapping):
        given = decision if outputs is None else outputs
        raise InvalidInput(
            f"PlugInPolicy: decide of the rule {rule.id!r} must return rules.Decision({{'policy': actions}}), "
            f"got {shown(given)}."
        )
    if "policy" in outputs and model.support.actions("PlugInPolicy", outputs["policy"]) is None:
        raise InvalidInput(f"PlugInPolicy: the policy of the rule {rule.id!r} must be one action for every state.")
    return decision._replace(sure=False)


def as_rule(value: Any) -> Any:
    """Return a rule by its id, by an id with settings as identities say it, or one of your own as it is.

    A text that ends in ``.npz`` is a file of published cuts.

    >>> as_rule("affordable"), as_rule({"id": "tolerance", "tolerance": 0.01})
    (AffordableTolerance(order=None), RandomTolerance(tolerance=0.01, order=None))
    >>> as_rule("affordabel")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: rule: no rule is called 'affordabel'. Did you mean 'affordable'?
    """
    if isinstance(value, str) and value.endswith(".npz"):
        return PublishedCuts(load_artifact(value, Cuts))
    name, settings = value, {}
    if isinstance(value, Mapping) and "id" in value:
        settings = {str(key): one for key, one in value.items() if key != "id"}
        name = value["id"]
    if isinstance(name, str):
        if name not in SHIPPED:
            hint = did_you_mean(name, SHIPPED) or f" Known: {', '.join(SHIPPED)}."
            raise InvalidInput(f"rule: no rule is called {shown(name)}.{hint}")
        if name == PublishedCuts.id and not isinstance(settings.get("cuts"), Cuts):
            known = settings.get("cuts")
            why = f"only their digest is known, {shown(known)}" if isinstance(known, str) else "none are named"
            raise InvalidInput(
                f"rule: published cuts must be given, and {why}. Give rule=rules.PublishedCuts(cuts), or the .npz "
                "file that holds them."
            )
        try:
            return SHIPPED[name](**settings)
        except TypeError:
            known = [field.name for field in fields(SHIPPED[name])]
            others = ", ".join(key for key in settings if key not in known)
            has = f"It has: {', '.join(known)}." if known else "It has none."
            raise InvalidInput(f"rule: {name} has no setting {others}. {has}") from None
    if isinstance(value, Cuts):
        raise InvalidInput("rule: cuts are followed by a rule. Give rule=rules.PublishedCuts(cuts).")
    own = getattr(value, "id", None)
    if not isinstance(own, str) or not callable(getattr(value, "decide", None)) or isinstance(value, type):
        raise InvalidInput(
            f"rule: rule must be one of {', '.join(SHIPPED)}, or an object with an id and decide, got {shown(value)}."
        )
    if own in SHIPPED and type(value) is not SHIPPED[own]:
        raise InvalidInput(f"rule: a rule of your own must have an id of its own, got {own!r}. Choose another.")
    return value
