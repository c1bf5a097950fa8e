"""What is said of a run of R-max: how it ended, and what is promised about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from replicable_rl.algorithms.promise import number
from replicable_rl.records import Guarantee, Status, StatusCode

if TYPE_CHECKING:
    from replicable_rl.algorithms.model_rows import LearnedModel
    from replicable_rl.algorithms.rmax import Exploration
    from replicable_rl.theory import RMaxPlan

__all__ = ["guarantee_of", "status_of"]


def status_of(run: Exploration, plan: RMaxPlan, learned: LearnedModel) -> Status:
    """Say how a run ended."""
    history = run.history
    rounds, known, pairs = len(history["known"]), int(learned.known.sum()), plan.pairs
    sentence = {
        StatusCode.STOPPED_BY_RULE: f"after {rounds} rounds, with {known} of {pairs} pairs known, the policy visits "
        f"unknown pairs {history['unknown_rate'][-1]:.2g} times an episode, below {history['stop_below'][-1]:.2g}",
        StatusCode.ALL_KNOWN: f"all {pairs} pairs after {rounds} rounds",
        StatusCode.BUDGET_SPENT: f"{rounds} rounds, {known} of {pairs} pairs known; the last policy may still explore",
    }[run.ended]
    if learned.self_loops:
        sentence += f"; {learned.self_loops} rows were rounded to nothing and became self-loops"
    if run.cut_short:
        sentence += "; some episodes were cut short"
    return Status(run.ended, sentence)


def guarantee_of(plan: RMaxPlan, run: Exploration, replicates: bool, bounded: bool) -> Guarantee:
    """Say what is promised about a run, part by part.

    ``replicates`` tells whether both ingredients were switched on, ``bounded`` whether the conditions of the
    bound on the loss held in this run.
    """
    theorem = "thm:repmax-replicable" if plan.rho is not None else "lem:repmax-convergence"
    bounded = bounded and run.ended is not StatusCode.BUDGET_SPENT
    accurate = plan.loss_proved and bounded
    replicable = plan.replicability_proved and replicates
    if not bounded or plan.loss >= 1.0:
        parts = ["no bound on the loss of the policy"]
    else:
        short = "" if accurate else f" (epsilon={plan.epsilon:g} is not reached)"
        parts = [f"the policy is within {plan.loss:.2g} of optimal, except with probability {plan.delta:g}{short}"]
    if plan.rho is not None:
        causes = {"the known set": plan.rho_known, "stopping": plan.rho_stop, "the model's entries": plan.rho_queries}
        bounds = (f"{cause} {_bound(bound, replicates)}" for cause, bound in causes.items())
        parts.append(f"probability that two runs differ over {', over '.join(bounds)}")
    kind: Literal["proved", "measured"] = "proved" if accurate and (plan.rho is None or replicable) else "measured"
    label = f"proved ({theorem}, with the constants of docs/rmax.md)" if kind == "proved" else "measured only"
    if kind == "measured" and plan.episodes < plan.episodes_needed:
        label += f" (episodes={number(plan.episodes)} where the bounds need {number(plan.episodes_needed)})"
    return Guarantee(
        kind,
        theorem,
        f"{label}: {'; '.join(parts)}.",
        epsilon=plan.epsilon if accurate else None,
        delta=plan.delta if accurate or replicable else None,
        rho=plan.rho if replicable else None,
    )


def _bound(probability: float | None, holds: bool) -> str:
    if not holds or probability is None or probability >= 1.0:
        return "unbounded"
    return f"<= {probability:.2g}"
