"""How results look in a notebook: small tables, every text escaped, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from replicable_rl.data import Dataset, Summary
from replicable_rl.diagnose import Diagnosis
from replicable_rl.display import shows
from replicable_rl.report.diagnosis_text import halves_sentence, one_line, replication_sentence
from replicable_rl.wording import number, percent, plural, visible

_STATES = 8
_LONGEST = 40


@shows("dataset notebook")
def dataset_html(data: Dataset) -> str:
    """Return what a log holds."""
    names = (_some("states", data.process.state_names), _some("actions", data.process.action_names))
    facts = [("discount", f"{data.gamma:g}"), ("rewards", f"{data.reward_range[0]:g} to {data.reward_range[1]:g}")]
    return _facts(f"Dataset: {plural(data.rows, 'row')}", [*names, *facts, ("sample", data.sample.digest[:16])])


@shows("summary notebook")
def summary_html(summary: Summary) -> str:
    """Return what a log holds, and what is wrong with it."""
    return _paragraphs(str(summary).splitlines())


@shows("diagnosis notebook")
def diagnosis_html(found: Diagnosis) -> str:
    """Return the forecast, and the most fragile states."""
    warnings = [f"Warning: {warning}." for warning in found.summary.warnings]
    said = _paragraphs([*warnings, replication_sentence(found), halves_sentence(found)])
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
    more = len(found.states) - len(rows)
    title = f"{plural(len(found.states), 'state')} may be decided otherwise"
    return said + _table(title, ["state", "this log", "others", "differ in", "gap", "at stake"], rows) + _more(more)


def _some(what: str, names: Sequence[str]) -> tuple[str, str]:
    some = ", ".join(one_line(name, _LONGEST) for name in names[:_STATES])
    return what, f"{len(names)}: {some}{', …' if len(names) > _STATES else ''}"


def _text(text: str) -> str:
    return escape(visible(text))


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p>{_text(line)}</p>" for line in lines)


def _facts(title: str, facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f'<tr><th scope="row">{_text(name)}</th><td>{_text(value)}</td></tr>' for name, value in facts)
    return f"<table><caption>{_text(title)}</caption><tbody>{rows}</tbody></table>"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{_text(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _more(count: int) -> str:
    return f"<p>{count} more are not listed.</p>" if count > 0 else ""
