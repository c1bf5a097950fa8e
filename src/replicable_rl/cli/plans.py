"""Plans on the terminal: the variants of an algorithm side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from replicable_rl.algorithms import predicted_disagreement
from replicable_rl.canonical import Json
from replicable_rl.cli.show import console, number
from replicable_rl.sampling import MAX_CALLS
from replicable_rl.theory import ApproximateMDPPlan, PhasedVIPlan, RMaxPlan, rmax

if TYPE_CHECKING:
    from replicable_rl.mdp import TabularMDP
    from replicable_rl.theory import Plan

__all__ = ["plan_to_json", "show_plans"]

_MAY_BE_LARGE = (
    "calls",
    "calls_needed",
    "calls_printed",
    "calls_plain",
    "episodes",
    "episodes_needed",
    "rounds",
    "visits_needed",
)


def plan_to_json(mdp: TabularMDP, plan: Plan) -> dict[str, Json]:
    """Return a plan as JSON; integers that may pass 2**53 are strings."""
    numbers = asdict(plan)
    for name in _MAY_BE_LARGE:
        if numbers.get(name) is not None:
            numbers[name] = str(numbers[name])
    extra: dict[str, Json] = {}
    if isinstance(plan, PhasedVIPlan):
        extra = {
            "value_error": plan.value_error,
            "policy_loss": plan.policy_loss,
            "predicted_disagreement": predicted_disagreement(mdp, plan),
        }
    return {
        "problem": mdp.spec.to_json(),
        **numbers,
        "samples": str(plan.samples),
        "rho_proved": plan.rho_proved,
        "accuracy_proved": plan.accuracy_proved,
        "replicability_proved": plan.replicability_proved,
        **extra,
    }


def show_plans(mdp: TabularMDP, plans: Sequence[Plan]) -> None:
    """Print the problem, the promise, and the parameters and totals of every variant."""
    out = console()
    first = plans[0]
    rewards = "known" if first.known_rewards else "learned from the samples"
    pairs = mdp.n_states * mdp.n_actions
    out.print(
        f"{mdp.spec.text}: S={mdp.n_states}, A={mdp.n_actions}, gamma={mdp.gamma:g}, N={pairs} pairs; rewards {rewards}"
    )
    promise = f"epsilon={first.epsilon:g}, delta={first.delta:g}"
    out.print(promise if first.rho is None else f"{promise}, rho={first.rho:g}")
    for plan in plans:
        if isinstance(plan, PhasedVIPlan):
            heading, table, closing = _phased_vi(mdp, plan)
        elif isinstance(plan, ApproximateMDPPlan):
            heading, table, closing = _approximate_mdp(plan)
        else:
            heading, table, closing = _rmax(plan)
        out.print(f"\n{heading}")
        out.print(table)
        out.print(closing)


def _phased_vi(mdp: TabularMDP, plan: PhasedVIPlan) -> tuple[str, Table, str]:
    meaning = "the policy is within epsilon" if plan.target == "policy" else "Q is within epsilon/2"
    plain = ["Phased Q-learning", plan.iterations, plan.tolerance, None, plan.delta_sq, None]
    columns = [[*plain, *_totals(plan, plan.calls_plain)]]
    if plan.rho is not None:
        for name, calls in (("rPVI, tight", plan.calls_needed), ("rPVI, as printed", plan.calls_printed or 0)):
            query = [name, plan.iterations, plan.tolerance, plan.rho_sq, plan.delta_sq, plan.width]
            columns.append([*query, *_totals(plan, calls)])
    labels = (
        "iterations T",
        "tolerance tau of a query",
        "rho_SQ",
        "delta_SQ",
        "bin width beta",
        "calls m per iteration",
        "samples in all, N*T*m",
        "can be run (m < 2**63)",
    )
    closing = _closing(plan, f"m={number(plan.calls)}")
    if plan.rho is not None:
        differ = predicted_disagreement(mdp, plan)
        closing += f"\n Predicted (central limit theorem): two runs differ with probability {differ:.2g}."
    return f"target {plan.target}: {meaning} of optimal (values in [0, 1])", _side_by_side(labels, columns), closing


def _approximate_mdp(plan: ApproximateMDPPlan) -> tuple[str, Table, str]:
    columns: list[list[object]] = [
        ["ApproximateMDP", None, plan.tolerance, None, plan.delta_sq, None, *_totals(plan, plan.calls_plain)]
    ]
    if plan.rho is not None:
        query = [plan.queries, plan.tolerance, plan.rho_sq, plan.delta_sq, plan.width]
        columns.append(["replicable", *query, *_totals(plan, plan.calls_needed)])
    labels = (
        "queries",
        "tolerance tau of a query",
        "rho_SQ",
        "delta_SQ",
        "bin width beta",
        "successors n per pair",
        "samples in all, N*n",
        "can be run (n < 2**63)",
    )
    meaning = "entry is within epsilon" if plan.norm == "entry" else "row is within epsilon in l1"
    closing = _closing(plan, f"n={number(plan.calls)}")
    return f"norm {plan.norm}: every {meaning} of the truth", _side_by_side(labels, columns), closing


def _rmax(plan: RMaxPlan) -> tuple[str, Table, str]:
    variants = [plan]
    if plan.rho is not None:
        variants += [
            rmax(plan.n_states, plan.n_actions, plan.gamma, plan.epsilon, plan.delta, plan.rho, plan.horizon,
                 refined=refined, known_rewards=plan.known_rewards)
            for refined in (True, False)
        ]  # fmt: skip
    labels = (
        "rounds T, at most",
        "episodes m per round",
        "episodes that prove it",
        "known from k",
        "window w",
        "rho_K",
        "rho_SQ",
        "tolerance tau of a query",
        "bin width beta",
        "visits a query needs",
        "visits it has, k*m",
        "samples in all, T*m*H",
        "can be run (m < 2**63)",
        "bound: known set differs",
        "bound: stopping differs",
        "bound: entries differ",
        "bound: loss of the policy",
    )
    columns = [
        [
            v.kind,
            v.rounds,
            v.episodes,
            v.episodes_needed if v.kind == "practical" else None,
            v.known,
            v.window if v.rho is not None else None,
            v.rho_k,
            v.rho_sq,
            v.tolerance,
            v.width or None,
            v.visits_needed,
            v.visits,
            v.samples,
            "yes" if v.episodes <= MAX_CALLS else "no",
            *(_bound(b) for b in (v.rho_known, v.rho_stop, v.rho_queries, v.loss)),
        ]
        for v in variants
    ]
    heading = f"episodes of H={plan.horizon} steps (asymptotic, refined: every constant is 1)"
    return heading, _side_by_side(labels, columns), _closing(plan, f"m={number(plan.episodes)}")


def _totals(plan: PhasedVIPlan | ApproximateMDPPlan, calls: int) -> list[object]:
    return [calls, plan.total(calls), "yes" if calls <= MAX_CALLS else "no"]


def _side_by_side(labels: Sequence[str], columns: Sequence[Sequence[object]]) -> Table:
    """Return a table with a column for each variant; the first entry of a column is its name."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("", no_wrap=True)
    for name, *_ in columns:
        table.add_column(str(name), justify="right", no_wrap=True)
    for label, *cells in zip(labels, *(column[1:] for column in columns), strict=True):
        table.add_row(label, *(cell if isinstance(cell, str) else number(cell) for cell in cells))
    return table


def _closing(plan: Plan, run: str) -> str:
    """Say what the parameters as given prove."""
    accuracy = "proved" if plan.accuracy_proved else "not proved"
    if plan.rho is None:
        return f" with {run}: accuracy {accuracy}."
    proved = "nothing" if plan.rho_proved in (None, 1.0) else f"rho <= {plan.rho_proved:.3g}"
    return f" with {run}: accuracy {accuracy}; proved of a second run: {proved}."


def _bound(x: float | None) -> str:
    return "-" if x is None else "none" if x >= 1.0 else f"{x:.2g}"
