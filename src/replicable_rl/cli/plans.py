"""Plans on the terminal: the variants of an algorithm side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rich.table import Table

from replicable_rl.canonical import Json
from replicable_rl.cli.show import console, title
from replicable_rl.problem.table import TabularMDP
from replicable_rl.runs import OURS, provider
from replicable_rl.wording import number

if TYPE_CHECKING:
    from replicable_rl.algorithms.plan import Plan, PlanTable
    from replicable_rl.data import Dataset


def plan_to_json(problem: TabularMDP | Dataset, plan: Plan[Any]) -> dict[str, Json]:
    """Return a plan as JSON, with the problem."""
    return {"problem": problem.spec.to_json(), **plan.to_json()}


def show_plans(mdp: TabularMDP | Dataset, plans: Sequence[Plan[Any]], name: str = "") -> None:
    """Print the problem, the promise, and the parameters and totals of every variant."""
    out, first = console(), plans[0].numbers
    rewards = "known" if first.known_rewards else "learned from the samples"
    sizes = f"S={mdp.n_states}, A={mdp.n_actions}, gamma={mdp.gamma:g}, N={mdp.support.pairs} pairs"
    out.print(title(mdp, name, f"{sizes}; rewards {rewards}"))
    promise = f"epsilon={first.epsilon:g}, delta={first.delta:g}"
    out.print(promise if first.rho is None else f"{promise}, rho={first.rho:g}")
    for plan in plans:
        if provider(plan) != OURS:
            out.print(f"\nWhat this plan says is stated by {provider(plan)}, not by this library.")
        table = plan.table()
        out.print(f"\n{table.heading}")
        for i, one in enumerate(_side_by_side(table, out.width)):
            out.print(*([""] if i else []), one, sep="\n")
        out.print(table.closing)


def _side_by_side(plan: PlanTable, width: int) -> Iterator[Table]:
    """Yield a table with a column for each variant; those that do not fit stand below, for no number is cut."""
    columns = {
        name: [cell if isinstance(cell, str) else number(cell) for cell in cells.values()]
        for name, cells in plan.columns.items()
    }
    widths = {name: max(map(len, (name, *cells))) + 2 for name, cells in columns.items()}  # and a space on either side
    labels = list(next(iter(plan.columns.values())))
    room = width - max(map(len, labels)) - 2
    while columns:
        ends = accumulate(widths[name] for name in columns)
        fitting = [name for name, end in zip(columns, ends, strict=True) if end <= room]
        yield _table(labels, {name: columns.pop(name) for name in fitting or [next(iter(columns))]})


def _table(labels: Sequence[str], columns: dict[str, list[str]]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in zip(labels, *columns.values(), strict=True):
        table.add_row(*row)
    return table
