"""Plans on the terminal: what a run takes, by the names that parameters have, and what may be claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from replicable_rl.canonical import Json
from replicable_rl.cli.show import console, title
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import OURS, provider
from replicable_rl.wording import number

if TYPE_CHECKING:
    from replicable_rl.algorithms.plan import Plan
    from replicable_rl.logs import Dataset

_ELSEWHERE = {  # in the title, in the promise, or in the claims
    *("n_states", "n_actions", "gamma", "known_rewards", "pairs", "allowed_pairs", "epsilon", "delta", "rho"),
    *("rising", "recorded", "sizes"),
}
_WORDS = {  # of numbers; what is needed for the proof is shown where it is another number
    "queries": "queries in all",
    "tolerance": "tolerance tau of a query",
    "delta_sq": "delta of a query",
    "rho_sq": "rho of a query",
    "width": "bin width beta",
    "calls": "calls m of a pair",
    "iterations": "iterations T",
    "form": "form of rSTAT",
    "horizon": "steps H of an episode",
    "support": "successors of a pair, at most",
    "rounds": "rounds T, at most",
    "episodes": "episodes m of a round",
    "known": "visits k of a known pair",
    "window": "window w of k",
    "per_pair": "samples n of a pair",
    "spent": "loss that the rule spends",
    "parameter": "parameter of the rule",
    "over": "loss from",
    "samples": "samples in all",
    "error_proved": "bound on the error",
    "rho_proved": "bound: two runs differ",
}


def plan_to_json(problem: TabularMDP | Dataset, plan: Plan[Any]) -> dict[str, Json]:
    """Return a plan as JSON, with the problem."""
    return {"problem": problem.spec.to_json(), **plan.to_json()}


def show_plans(mdp: TabularMDP | Dataset, plans: Sequence[Plan[Any]], name: str = "") -> None:
    """Print the problem, and of every plan the promise, the parameters and the claims."""
    out, first = console(), plans[0].numbers
    rewards = "known" if first.known_rewards else "learned from the samples"
    sizes = f"S={mdp.n_states}, A={mdp.n_actions}, gamma={mdp.gamma:g}, N={mdp.support.pairs} pairs"
    out.print(title(mdp, name, f"{sizes}; rewards {rewards}"))
    promise = f"epsilon={first.epsilon:g}, delta={first.delta:g}"
    out.print(promise if first.rho is None else f"{promise}, rho={first.rho:g}")
    for plan in plans:
        if provider(plan) != OURS:
            out.print(f"\nWhat this plan says is stated by {provider(plan)}, not by this library.")
        table = Table(box=None, padding=(0, 1), show_header=False)
        table.add_column("", overflow="fold")
        table.add_column("", justify="right", no_wrap=True)
        numbers = plan.numbers
        bounds = {"samples": plan.samples, "error_proved": numbers.error_proved, "rho_proved": numbers.rho_proved}
        cells = asdict(numbers) | bounds
        for field, cell in cells.items():
            what = field.removesuffix("_needed")
            if field in _ELSEWHERE or cell is None or (what != field and cell == cells[what]):
                continue
            label = _WORDS.get(what, what) + " for the proof" * (what != field)
            table.add_row(label, cell if isinstance(cell, str) else number(cell))
        out.print("", table, str(plan.claims()), sep="\n")
