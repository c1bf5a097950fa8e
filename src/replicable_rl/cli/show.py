"""Runs and lists on the terminal: a drawn grid where there is one, a table otherwise."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from replicable_rl.canonical import Json
from replicable_rl.cli.output import terminal_width
from replicable_rl.logs import Dataset
from replicable_rl.pages.decided import Decided
from replicable_rl.pages.drawing import can_encode, grid
from replicable_rl.pages.layout import NARROWEST
from replicable_rl.paper import cited
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import is_quiet
from replicable_rl.rules import Cuts
from replicable_rl.runs import Claims, Run, in_order
from replicable_rl.theory import PlugInNumbers
from replicable_rl.wording import number, plural, visible

_MAX_ROWS = 40  # states shown in a table
_MAX_COLUMNS = 6  # action values shown beside a state
_NONE = "-"  # of an action that is not allowed
_DIGITS = 12  # of a digest


class _SafeConsole(Console):
    """A console of rich that shows the control characters of a text instead of obeying them."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Make them visible before anything is laid out."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Also those of a `Text` that somebody has made."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def console() -> Console:
    """Return a console on standard output: the terminal's width, or 80 columns when piped."""
    width = max(NARROWEST, terminal_width())
    return _SafeConsole(highlight=False, markup=False, emoji=False, width=width)  # names are shown as they are


def show_run(mdp: TabularMDP | Dataset, run: Run, seconds: float, name: str) -> None:
    """Print the policy, how the run ended, what is claimed, and the fingerprints; ``name`` is what a log is called."""
    out = console()
    if run.spec is not None:
        out.print(f"{title(mdp, name)}  {run.spec.algorithm.text}")
        recorded = f"recorded sample {mdp.sample.digest[:_DIGITS]}" if isinstance(mdp, Dataset) else None
        sample = recorded or f"sample seed {run.sample_seed}"
        out.print(f"shared seed {run.shared_seed}, {sample}\n")
    if "policy" in run.outputs:
        if out.is_terminal and mdp.labels.layout and 4 * len(mdp.labels.layout[0]) + 3 <= out.width:
            out.print(draw_policy(mdp, run.policy))
        else:
            out.print(policy_table(mdp, run, out.width))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("status", str(run.status))
    for about, said in _claims(run.claims):
        facts.add_row(about, said)
    facts.add_row("samples", number(run.samples))
    for level in reversed(in_order(run.fingerprints)):
        facts.add_row(level, run.fingerprints[level])
    if out.is_terminal and not is_quiet():
        facts.add_row("time", f"{number(seconds, 3)} s")
    out.print()
    out.print(facts)


def title(problem: TabularMDP | Dataset, name: str, more: str = "") -> str:
    """Return what a problem is called, and more: its id, or the name of a log, for its process has only digests."""
    named, mark = (problem.spec.text, ": ") if isinstance(problem, TabularMDP) else (_of_log(problem, name), ", ")
    return f"{named}{mark}{more}" if more else named


def _of_log(log: Dataset, name: str) -> str:
    return f"{name}: {plural(log.rows, 'row')}"


def _last(problem: TabularMDP | Dataset) -> int:
    """Return how many states are decided; what comes after the end of a log's episodes is not."""
    return problem.n_states - (isinstance(problem, Dataset) and problem.process.ends)


def run_to_json(problem: TabularMDP | Dataset, run: Run) -> dict[str, Json]:
    """Return a run with its outputs; that of a log with the names of states and actions, and the policy by them."""
    told = run.to_json() | {"outputs": arrays(run)}
    if isinstance(problem, Dataset):
        states, actions = problem.process.state_names, problem.process.action_names
        told["names"] = {"states": list(states), "actions": list(actions)}
        if "policy" in run.outputs:
            told["policy"] = {state: actions[a] for state, a in zip(states, run.policy.tolist(), strict=True)}
    return told


def _claims(claims: Claims) -> Iterator[tuple[str, str]]:
    """Yield what is claimed about accuracy and about replicability, or why nothing is, and about the shared seed."""
    for about, claim in (("accuracy", claims.accuracy), ("replicability", claims.replicability)):
        why = (
            f"nothing is proved: {cited(claims.missing[about])}." if about in claims.missing else "nothing is claimed."
        )
        yield about, str(claim or why)
    if claims.of_this_seed is not None:
        yield "shared seed", str(claims.of_this_seed)


def arrays(run: Run) -> dict[str, Json]:
    """Return the outputs of a run that are arrays, as lists; a learned model is kept by --save."""
    return {level: output.tolist() for level, output in run.outputs.items() if hasattr(output, "tolist")}


def draw_policy(mdp: TabularMDP | Dataset, policy: NDArray[np.int64], marked: NDArray[np.bool_] | None = None) -> Text:
    """Return a picture of the grid, coloured, as `rr.draw` has it without colours."""
    pieces = grid(Decided(policy, mdp.labels), marked, can_encode("↑█┼"))
    return Text("  ") + Text("\n  ").join(Text.assemble(*pieces).split("\n"))


def policy_table(mdp: TabularMDP | Dataset, run: Run, width: int) -> Table:
    """Return states and actions, and values where the run has them, as a table; a long one is cut, and says so.

    Action values stand beside a state where they are few and fit into the width.
    """
    names = mdp.labels.actions or tuple(map(str, range(mdp.n_actions)))
    last = _last(mdp)
    states = mdp.labels.states or tuple(map(str, range(min(last, _MAX_ROWS))))
    lines = [["state", "action"]] + [[states[s], names[run.policy[s]]] for s in range(min(last, _MAX_ROWS))]
    if "value" in run.outputs:
        q, shown, allowed = run.q, names if len(names) <= _MAX_COLUMNS else (), mdp.support.given
        lines[0] += ["value", *(f"q {name}" for name in shown)]
        for s, line in enumerate(lines[1:]):
            values = (f"{q[s, a]:.4f}" if allowed is None or allowed[s, a] else _NONE for a in range(len(shown)))
            line += [f"{q[s].max():.4f}", *values]
    if sum(max(map(cell_len, column)) + 2 for column in zip(*lines, strict=True)) > width:
        lines = [line[:3] for line in lines]
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for i, column in enumerate(lines[0]):
        table.add_column(column, justify="left" if i < 2 else "right", overflow="fold", no_wrap=i >= 2)
    for line in lines[1:]:
        table.add_row(*line)
    if last > _MAX_ROWS:
        table.caption = f"{last - _MAX_ROWS} more states: --json or --save shows all."
    return table


def show_cuts(mdp: TabularMDP | Dataset, cuts: Cuts, numbers: PlugInNumbers, name: str) -> None:
    """Print the tolerance, action and margin of every state, and what the cuts come from."""
    out = console()
    names = mdp.labels.actions or tuple(map(str, range(mdp.n_actions)))
    last = _last(mdp)
    states = mdp.labels.states or tuple(map(str, range(min(last, _MAX_ROWS))))
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for column in ("state", "action", "tolerance", "margin"):
        number_column = column in ("tolerance", "margin")
        table.add_column(column, justify="right" if number_column else "left", overflow="fold", no_wrap=number_column)
    for s in range(min(last, _MAX_ROWS)):
        cells = number(cuts.tolerances[s]), number(cuts.margins[s], 3)
        table.add_row(states[s], names[cuts.policy[s]], *cells)
    if last > _MAX_ROWS:
        table.caption = f"{last - _MAX_ROWS} more states: --json or --output shows all."
    drawn = f"{number(numbers.samples)} steps" if numbers.explores else f"{number(cuts.samples)} samples of every pair"
    out.print(title(mdp, name, drawn * isinstance(mdp, TabularMDP)))
    out.print(table)
    out.print(repr(cuts))
