"""The first lab: publish tie-breaks that others use on their own data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.algorithms.ignoring import hardly_reached
from replicable_rl.algorithms.plug_in_policy import fewest_samples
from replicable_rl.data import Dataset
from replicable_rl.errors import InvalidInput, check_integer, shown
from replicable_rl.progress_bar import bar_where_it_is_seen
from replicable_rl.randomness import MAX_SEED, fresh_seed, sample_stream
from replicable_rl.rules.choosing import choose_cuts
from replicable_rl.rules.cuts import Cuts
from replicable_rl.rules.rule import action_order
from replicable_rl.solve.run import refuse_endless, source_of
from replicable_rl.theory.plug_in import SPENT


@bar_where_it_is_seen()
def publish(problem: Any, algorithm: PlugInPolicy, *, sample_seed: int | None = None) -> Cuts:
    """Choose one tolerance for each state on fresh data, for others to use on theirs.

    Parameters
    ----------
    problem : TabularMDP, Simulator, EpisodicEnv, Dataset, or any GenerativeModel or EpisodicModel
        What is solved. The cuts of a log also hold the names of its states and actions.
    algorithm : PlugInPolicy
        Says how many samples are drawn and how much loss is allowed; its rule does not matter but for its order, and
        for what its bound asks for where neither samples nor a budget are given.
    sample_seed : int, optional
        The fresh samples; None draws entropy from the operating system. A log has its own, and no seed.

    Returns
    -------
    Cuts
        For ``PlugInPolicy(..., rule=rr.rules.PublishedCuts(cuts))``, in any lab; ``cuts.save(path)`` writes them.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("two-goals-v1"), rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000)
    >>> cuts = publish(mdp, algorithm, sample_seed=1)
    >>> theirs = rr.PlugInPolicy(0.02, 0.01, 0.2, samples=1000, rule=rr.rules.PublishedCuts(cuts))
    >>> rr.solve(mdp, theirs, shared_seed=0, sample_seed=2).policy.tolist() == cuts.policy.tolist()
    True
    """
    if not isinstance(algorithm, PlugInPolicy):
        raise InvalidInput(f"publish: algorithm must be a PlugInPolicy, got {shown(algorithm)}.")
    source = source_of(problem, algorithm)
    if isinstance(problem, Dataset) and sample_seed is not None:
        raise InvalidInput("publish: sample_seed is for samples that are drawn; these were recorded. Leave it out.")
    refuse_endless(source, algorithm)
    seed = fresh_seed() if sample_seed is None else sample_seed
    rng = sample_stream(check_integer("publish", "sample_seed", seed, low=0, high=MAX_SEED))
    plan = algorithm.plan(source)
    model, _ = algorithm.estimate(source, plan, rng)
    if plan.recorded:
        model = model.at_least(fewest_samples(model, None))  # as everybody does who uses the cuts
    tuning = algorithm.tuning(plan)._replace(spent=SPENT * algorithm.epsilon)  # whatever the rule itself would spend
    order = getattr(algorithm.rule, "order", None)
    if plan.explores:
        few = hardly_reached(model, tuning, None, action_order(order, model.n_actions))
        tuning = tuning._replace(ignored=None if few is None else few.states)
    cuts = choose_cuts(model, tuning, order)
    return replace(cuts, names=problem.labels) if isinstance(problem, Dataset) else cuts  # no id stands for a log
