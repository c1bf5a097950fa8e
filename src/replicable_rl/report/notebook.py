"""How problems, data and plans look in a notebook; `notebook_results` has what was run and measured."""

from __future__ import annotations

from collections.abc import Sequence

from replicable_rl.data import Dataset, Summary
from replicable_rl.diagnose import Diagnosis
from replicable_rl.display import shows_in_notebooks
from replicable_rl.mdp import TabularMDP, pairs_of
from replicable_rl.queries.rules import Cuts
from replicable_rl.report.decided import decided
from replicable_rl.report.diagnosis_text import halves_sentence, how_sentence, one_line, replication_sentence, taken
from replicable_rl.report.html import facts, more, paragraphs, table
from replicable_rl.sampling.problem import Stepped
from replicable_rl.theory import Plan
from replicable_rl.wording import brief, number, percent, plural

_STATES = 8
_LONGEST = 40


@shows_in_notebooks(TabularMDP)
def problem_html(mdp: TabularMDP) -> str:
    """Return the sizes of a problem, its discount and its rewards."""
    labels, outcomes = mdp.labels, mdp.rows.probability.size
    known = [
        _some("states", mdp.n_states, labels.states),
        _some("actions", mdp.n_actions, labels.actions),
        ("pairs and outcomes", f"{pairs_of(mdp)} and {outcomes}"),
        ("discount", f"{mdp.gamma:g}"),
        ("rewards", f"{mdp.reward_range[0]:g} to {mdp.reward_range[1]:g}"),
        ("estimated from data", "yes" if mdp.estimated else "no"),
    ]
    return facts(f"Problem {brief(mdp.spec.text, 200)}", known)


@shows_in_notebooks(Stepped)
def stepped_html(source: Stepped) -> str:
    """Return the sizes of a simulator or an environment."""
    known = [
        ("states", str(source.n_states)),
        ("actions", str(source.n_actions)),
        ("discount", f"{source.gamma:g}"),
        ("rewards", f"{source.reward_range[0]:g} to {source.reward_range[1]:g}"),
    ]
    return facts(str(source), known)


@shows_in_notebooks(Dataset)
def dataset_html(data: Dataset) -> str:
    """Return what a log holds."""
    process = data.process
    known = [
        _some("states", data.n_states, process.state_names),
        _some("actions", data.n_actions, process.action_names),
        ("discount", f"{data.gamma:g}"),
        ("rewards", f"{data.reward_range[0]:g} to {data.reward_range[1]:g}"),
        ("sample", data.sample.digest[:16]),
    ]
    return facts(f"Dataset: {plural(data.rows, 'row')}", known)


@shows_in_notebooks(Summary)
def summary_html(summary: Summary) -> str:
    """Return what a log holds, and what is wrong with it."""
    return paragraphs(str(summary).splitlines())


@shows_in_notebooks(Diagnosis)
def diagnosis_html(found: Diagnosis) -> str:
    """Return the policy, the forecast, and the most fragile states."""
    warnings = [f"Warning: {warning}." for warning in found.summary.warnings]
    first, hidden = taken(found, _STATES, _LONGEST)
    policy = table("This log decides", ["state", "action"], [list(one) for one in first]) + more(hidden)
    sentences = (how_sentence(found), replication_sentence(found), halves_sentence(found))
    said = paragraphs(warnings) + policy + paragraphs(sentences)
    if not found.states:
        return said
    rows = [
        [
            *(one_line(text, _LONGEST) for text in (one.state, one.action, one.rival)),
            percent(round(one.share, 3)),
            number(one.gap, 2),
            number(one.at_stake, 2),
        ]
        for one in found.states[:_STATES]
    ]
    title = f"{plural(len(found.states), 'state')} may be decided otherwise"
    columns = ["state", "this log", "others", "differ in", "gap", "at stake"]
    return said + table(title, columns, rows) + more(len(found.states) - len(rows))


@shows_in_notebooks(Plan)
def plan_html(plan: Plan) -> str:
    """Return the variants of an algorithm side by side, and what is claimed of a run."""
    made = plan.table()
    cells = zip(made.labels, *made.columns.values(), strict=True)
    rows = [[label, *(one if isinstance(one, str) else number(one) for one in line)] for label, *line in cells]
    return table(made.heading, ["", *made.columns], rows) + paragraphs([made.closing])


@shows_in_notebooks(Cuts)
def cuts_html(cuts: Cuts) -> str:
    """Return the states whose decisions are nearest to their thresholds."""
    named = decided("Cuts", cuts)
    nearest = cuts.margins.argsort(kind="stable")[:_STATES].tolist()
    rows = [
        [
            one_line(named.state(s), _LONGEST),
            one_line(named.action(int(cuts.policy[s])), _LONGEST),
            number(cuts.tolerances[s]),
            number(cuts.margins[s], 3),
        ]
        for s in nearest
    ]
    drawn = f"{brief(cuts.problem.text, 200)}, at least {number(cuts.samples)} samples of every pair"
    of = "a log" if cuts.names is not None else drawn
    title = (
        f"Cuts for {of}, epsilon {cuts.epsilon:g}: the states with the least margins, in standard deviations of a gap"
    )
    made = table(title, ["state", "action", "tolerance", "margin"], rows) + more(cuts.policy.size - len(rows))
    return made + paragraphs([cuts.about_margins])


def _some(what: str, count: int, names: Sequence[str] | None) -> tuple[str, str]:
    some = ", ".join(one_line(name, _LONGEST) for name in (names or ())[:_STATES])
    return what, f"{count}{': ' if some else ''}{some}{', …' if some and count > _STATES else ''}"
