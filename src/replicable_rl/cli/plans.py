"""Plans of phased value iteration on the terminal: the variants side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from replicable_rl.algorithms.prediction import predicted_disagreement
from replicable_rl.canonical import Json
from replicable_rl.cli.show import console, number
from replicable_rl.sampling import MAX_CALLS

if TYPE_CHECKING:
    from replicable_rl.mdp import TabularMDP
    from replicable_rl.theory import PhasedVIPlan

__all__ = ["plan_to_json", "show_plans"]


def plan_to_json(mdp: TabularMDP, plan: PhasedVIPlan) -> dict[str, Json]:
    """Return a plan as JSON; integers that may pass 2**53 are strings."""
    numbers = asdict(plan)
    for name in ("calls", "calls_needed", "calls_printed", "calls_plain"):
        numbers[name] = None if numbers[name] is None else str(numbers[name])
    return {
        "problem": mdp.spec.to_json(),
        **numbers,
        "samples": str(plan.samples),
        "accuracy_proved": plan.accuracy_proved,
        "replicability_proved": plan.replicability_proved,
        "predicted_disagreement": predicted_disagreement(mdp, plan),
    }


def show_plans(mdp: TabularMDP, plans: Sequence[PhasedVIPlan]) -> None:
    """Print, for each target, the parameters and totals of every variant."""
    out = console()
    first = plans[0]
    rewards = "known" if first.known_rewards else "learned from the samples"
    out.print(
        f"{mdp.spec.text}: S={mdp.n_states}, A={mdp.n_actions}, gamma={mdp.gamma:g}, N={first.pairs} pairs; "
        f"rewards {rewards}"
    )
    promise = f"epsilon={first.epsilon:g}, delta={first.delta:g}"
    out.print(promise if first.rho is None else f"{promise}, rho={first.rho:g}")
    for plan in plans:
        meaning = "the policy is within epsilon" if plan.target == "policy" else "Q is within epsilon/2"
        out.print(f"\ntarget {plan.target}: {meaning} of optimal (values in [0, 1])")
        out.print(_variants(plan))
        out.print(_this_run(mdp, plan))


def _variants(plan: PhasedVIPlan) -> Table:
    # name, calls per iteration, whether the variant rounds
    variants: list[tuple[str, int, bool]] = [("Phased Q-learning", plan.calls_plain, False)]
    if plan.rho is not None:
        variants.append(("rPVI, tight", plan.calls_needed, True))
        variants.append(("rPVI, as printed", plan.calls_printed or 0, True))
    rows: list[tuple[str, Callable[[int, bool], float | None]]] = [
        ("iterations T", lambda m, rounds: plan.iterations),
        ("tolerance tau of a query", lambda m, rounds: plan.tolerance),
        ("rho_SQ", lambda m, rounds: plan.rho_sq if rounds else None),
        ("delta_SQ", lambda m, rounds: plan.delta_sq),
        ("bin width beta", lambda m, rounds: plan.width if rounds else None),
        ("calls m per iteration", lambda m, rounds: m),
        ("samples in all, N*T*m", lambda m, rounds: plan.total(m)),
    ]
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("", no_wrap=True)
    for name, _, _ in variants:
        table.add_column(name, justify="right", no_wrap=True)
    for label, value in rows:
        table.add_row(label, *(number(value(m, rounds)) for _, m, rounds in variants))
    table.add_row("can be run (m < 2**63)", *("yes" if m <= MAX_CALLS else "no" for _, m, _ in variants))
    return table


def _this_run(mdp: TabularMDP, plan: PhasedVIPlan) -> str:
    """Say what the parameters as given prove, and what the central limit theorem predicts."""
    if plan.rho is None:
        return f" with m={number(plan.calls)}: accuracy {'proved' if plan.accuracy_proved else 'not proved'}."
    proved = "nothing" if plan.rho_proved == 1.0 or plan.rho_proved is None else f"rho <= {plan.rho_proved:.3g}"
    accuracy = "proved" if plan.accuracy_proved else "not proved"
    return (
        f" with m={number(plan.calls)}: accuracy {accuracy}; proved of a second run: {proved};\n"
        f" predicted (central limit theorem): same Q with probability {1.0 - predicted_disagreement(mdp, plan):.3g}."
    )
