"""What a reader of an audit must know before its numbers: reasons for which agreement may say nothing.

An agreement of 1 is worth nothing if no data were fresh, if every policy takes one action everywhere, or if the runs
have learned nothing. Each doubt is a plain sentence; they are shown before everything else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.audit.sampled import not_repeatable, suspicion
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.runs import implied
from replicable_rl.wording import number

if TYPE_CHECKING:
    from replicable_rl.audit.result import AuditResult

_MANY = 2_000  # distinct policies that are looked at one by one
_LARGE = 20_000  # states of a problem that is planned for its uniform policy


def doubts(result: AuditResult) -> Iterator[str]:
    """Yield what there is to doubt, the gravest first."""
    known = (
        not_repeatable(result),
        result.unsampled,
        suspicion(result),
        *_not_implied(result),
        _constant(result),
        _no_better(result),
    )
    yield from (said for said in known if said)


def _not_implied(result: AuditResult) -> Iterator[str]:
    """Say of a level that runs are the same at it and not at one that it implies."""
    found = result.agreements
    for level, other in itertools.permutations(found, 2):
        if other in implied(level) and found[level].same > found[other].same:
            yield (
                f"{found[level].same} pairs have the same {level} and {found[other].same} the same {other}, although "
                f"{level} implies {other}: one of the two is not what its level says."
            )


def _constant(result: AuditResult) -> str:
    """Say that every policy takes one action everywhere; where losses are known, they tell what that is worth."""
    if result.mdp is not None or result.logs is not None or "policy" not in result.levels:
        return ""
    if len(result.classes("policy")) > _MANY:
        return ""
    policies = list(result.outputs("policy").values())
    if any(len(policy) < 2 or not (policy == policy[:1]).all() for policy in policies):
        return ""
    places = f"{len(policies[0])} {result.place}s"
    different = len(policies) > 1
    actions = "one action, though not always the same one," if different else "one and the same action"
    agree = "agree everywhere or nowhere, and" if different else "agree although they"
    return f"Every run takes {actions} in all {places}: such policies {agree} may have learned nothing."


def _no_better(result: AuditResult) -> str:
    """Say that the runs earn no more than the uniform policy: exactly where the problem is known, or as measured."""
    found = result.returns
    if found is not None and found.uniform is not None and not found.beat_uniform:
        below = float(found.mean) <= float(found.uniform)
        how = "are no better than" if below else "are not shown to be better than"
        said = f"The returns {how} those of the uniform policy"
        return f"{said}: {number(float(found.mean))} against {number(float(found.uniform))}."
    if result.mdp is None or result.mdp.n_states > _LARGE or "policy" not in result.levels:
        return ""
    if len(result.classes("policy")) > _MANY:
        return ""
    earned = [(one.expected_return, one.runs, one.error) for one in result.policies or ()]
    if not earned:
        return ""
    uniform = evaluate_policy(result.mdp, result.mdp.support.uniform())
    best = float(result.mdp.initial @ optimal_values(result.mdp).value)
    mean = float(np.average([worth for worth, _, _ in earned], weights=[runs for _, runs, _ in earned]))
    off = uniform.error + max(error for _, _, error in earned)
    if mean > uniform.expected_return + off or best <= uniform.expected_return + 2.0 * off:
        return ""  # better, or there is nothing to be learned
    said = "The policies are no better than the uniform one: they return"
    return f"{said} {number(mean)} on average, and it returns {number(uniform.expected_return)}."
