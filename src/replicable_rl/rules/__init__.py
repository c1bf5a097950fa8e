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

from replicable_rl.rules.affordable import AffordableTolerance
from replicable_rl.rules.choosing import choose_cuts
from replicable_rl.rules.cuts import Cuts
from replicable_rl.rules.published import PublishedCuts
from replicable_rl.rules.rule import Decision, Margin, Rule, Tuning
from replicable_rl.rules.simple import Greedy, RandomTolerance, RoundedQ, SharedGumbel
from replicable_rl.rules.table import SHIPPED, as_rule

__all__ = [
    "SHIPPED",
    "AffordableTolerance",
    "Cuts",
    "Decision",
    "Greedy",
    "Margin",
    "PublishedCuts",
    "RandomTolerance",
    "RoundedQ",
    "Rule",
    "SharedGumbel",
    "Tuning",
    "as_rule",
    "choose_cuts",
]
