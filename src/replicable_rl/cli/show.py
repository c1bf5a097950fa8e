"""Solutions and lists on the terminal: a drawn grid where there is one, a table otherwise."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from replicable_rl.cli.output import can_encode
from replicable_rl.mdp.tabular import OPEN_CELLS
from replicable_rl.registry import ALGORITHMS, PROBLEMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.mdp import TabularMDP
    from replicable_rl.records import Solution

__all__ = ["console", "draw_policy", "number", "show_lists", "show_solution"]

_ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}
_PLAIN_ARROWS = {"up": "^", "down": "v", "left": "<", "right": ">"}
_MAX_ROWS = 40  # states shown in a table
_MAX_COLUMNS = 6  # action values shown beside a state


def console() -> Console:
    """Return a console on standard output: the terminal's width, or 80 columns when piped."""
    width = None if sys.stdout.isatty() else 80
    return Console(highlight=False, markup=False, emoji=False, width=width)  # names are shown as they are


def number(x: float | None) -> str:
    """Write a number for a person: whole up to nine digits, else four significant ones.

    >>> number(12967), number(8187898146367124), number(0.0005), number(None)
    ('12967', '8.188e+15', '0.0005', '-')
    """
    if x is None:
        return "-"
    return str(x) if isinstance(x, int) and abs(x) < 10**9 else f"{x:.4g}"


def show_solution(mdp: TabularMDP, solution: Solution, seconds: float) -> None:
    """Print the policy, how the run ended, what is promised, and the fingerprints."""
    out = console()
    spec = solution.spec
    if spec is not None:
        out.print(f"{spec.problem.text}  {spec.algorithm.text}")
        out.print(f"shared seed {spec.shared_seed}, sample seed {spec.sample_seed}\n")
    if out.is_terminal and mdp.labels.layout and 4 * len(mdp.labels.layout[0]) + 3 <= out.width:
        out.print(draw_policy(mdp, solution.policy))
    else:
        out.print(policy_table(mdp, solution, out.width))
    facts = Table.grid(padding=(0, 2))
    facts.add_row("status", str(solution.status))
    facts.add_row("guarantee", str(solution.guarantee))
    facts.add_row("samples", number(solution.samples))
    facts.add_row("policy", solution.fingerprints.policy)
    facts.add_row("value", solution.fingerprints.value)
    if solution.fingerprints.model is not None:
        facts.add_row("model", solution.fingerprints.model)
    if out.is_terminal:
        facts.add_row("time", f"{seconds:.3g} s")
    out.print()
    out.print(facts)


def draw_policy(mdp: TabularMDP, policy: NDArray[np.int64], marked: NDArray[np.bool_] | None = None) -> Text:
    """Return a picture of the grid: an arrow in open cells, else the map's own letter."""
    layout = mdp.labels.layout or ()
    unicode = can_encode("↑█┼")
    arrows = _ARROWS if unicode else _PLAIN_ARROWS
    wall, bar, cross, dash = ("███", "│", "┼", "───") if unicode else ("###", "|", "+", "---")
    names = mdp.labels.actions or tuple(map(str, range(mdp.n_actions)))
    width = max((len(line) for line in layout), default=0)
    rule = cross.join([dash] * width)
    picture = Text()
    state = 0
    for i, line in enumerate(layout):
        picture.append(f"  {_edge(rule, i == 0, unicode)}\n")
        picture.append(f"  {bar}")
        for letter in line:
            if letter == "#":
                picture.append(wall, style="dim")
            elif letter in OPEN_CELLS:
                action = names[policy[state]]
                is_marked = marked is not None and bool(marked[state])
                cell = arrows.get(action, action[:1])
                picture.append(f"*{cell} " if is_marked else f" {cell} ", style="bold yellow" if is_marked else "cyan")
            else:
                picture.append(f" {letter} ", style="bold green")
            state += letter != "#"
            picture.append(bar)
        picture.append("\n")
    picture.append(f"  {_edge(rule, False, unicode, last=True)}")
    return picture


def policy_table(mdp: TabularMDP, solution: Solution, width: int) -> Table:
    """Return states, actions and values as a table; a long one is cut, and says so.

    Action values stand beside a state where they are few and fit into the width.
    """
    names = mdp.labels.actions or tuple(map(str, range(mdp.n_actions)))
    shown = names if len(names) <= _MAX_COLUMNS else ()
    states = mdp.labels.states or tuple(map(str, range(min(mdp.n_states, _MAX_ROWS))))
    lines = [["state", "action", "value", *(f"q {name}" for name in shown)]]
    value = solution.value
    for s in range(min(mdp.n_states, _MAX_ROWS)):
        q = (f"{solution.q[s, a]:.4f}" for a in range(len(shown)))
        lines.append([states[s], names[solution.policy[s]], f"{value[s]:.4f}", *q])
    if sum(max(map(cell_len, column)) + 2 for column in zip(*lines, strict=True)) > width:
        lines = [line[:3] for line in lines]
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for i, column in enumerate(lines[0]):
        table.add_column(column, justify="left" if i < 2 else "right", overflow="fold", no_wrap=i >= 2)
    for line in lines[1:]:
        table.add_row(*line)
    if mdp.n_states > _MAX_ROWS:
        table.caption = f"{mdp.n_states - _MAX_ROWS} more states: --json or --save shows all."
    return table


def show_lists() -> None:
    """Print the registered problems with their sizes, and the algorithms with their parameters."""
    out = console()
    problems = Table(box=None, padding=(0, 1), header_style="bold")
    for column, right in (("problem", False), ("S", True), ("A", True), ("gamma", True), ("parameters", False)):
        problems.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=column == "problem")
    for id, constructor in PROBLEMS.items():
        needs_input = any(p.default is p.empty for p in inspect.signature(constructor).parameters.values())
        mdp = None if needs_input else constructor()
        sizes = ("-", "-", "-") if mdp is None else (str(mdp.n_states), str(mdp.n_actions), f"{mdp.gamma:g}")
        problems.add_row(id, *sizes, _parameters(constructor))
    out.print(problems)
    out.print("Also a Gymnasium id with a known transition table, as FrozenLake-v1:gamma=0.95,")
    out.print("and any file that TabularMDP.save wrote.\n")
    algorithms = Table(box=None, padding=(0, 1), header_style="bold")
    for column in ("algorithm", "what it is", "parameters"):
        algorithms.add_column(column, overflow="fold", no_wrap=column == "algorithm")
    for id, algorithm in ALGORITHMS.items():
        summary = (inspect.getdoc(algorithm) or "").splitlines()[0]
        algorithms.add_row(id, summary, _parameters(algorithm))
    out.print(algorithms)


def _parameters(constructor: Any) -> str:
    shown = []
    for name, parameter in inspect.signature(constructor).parameters.items():
        simple = isinstance(parameter.default, (int, float, str)) and not isinstance(parameter.default, bool)
        shown.append(f"{name}={parameter.default}" if simple else name)
    return ", ".join(shown)


def _edge(rule: str, first: bool, unicode: bool, last: bool = False) -> str:
    if not unicode:
        return f"+{rule}+"
    left, middle, right = ("┌", "┬", "┐") if first else ("└", "┴", "┘") if last else ("├", "┼", "┤")
    return left + rule.replace("┼", middle) + right
