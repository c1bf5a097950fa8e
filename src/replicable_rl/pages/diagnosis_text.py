"""A diagnosis as text for people, in lines of 80 columns or of a narrower terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from typing import Any

from replicable_rl.diagnose import Diagnosis, FragileState
from replicable_rl.display import shows
from replicable_rl.rules import Greedy
from replicable_rl.wording import brief, number, percent, plural, visible

_SHOWN = 10  # states that are listed
_LONGEST = 40  # letters of a name
_NARROWEST = 30


def one_line(name: str, longest: int = _LONGEST) -> str:
    r"""Return a name on one line: it comes from a log, and may hold anything.

    >>> print(one_line("a\nb\x1b[31m"))
    a b\x1b[31m
    """
    return brief(visible(" ".join(name.split())), longest)


@shows("diagnosis text")
def diagnosis_text(found: Diagnosis, width: int = 80, target: float | None = None, rules: bool = False) -> str:
    """Return what a log says, and what another one would have said; what takes long only where it is asked for."""
    lines = [
        *str(found.summary).splitlines(),
        *_policy(found, width),
        how_sentence(found),
        replication_sentence(found),
        halves_sentence(found),
        *_states(found),
    ]
    if target is not None:
        lines.append(data_sentence(found, target))
    if rules:
        lines.append("Agreement of all rules on this log (bootstrap):")
        lines += [f"  {name:<11}{agreement}" for name, agreement in found.rules().items()]
    return "\n".join(line for text in lines for line in _wrapped(text, max(width, _NARROWEST)))


@shows("diagnosis page")
def save_diagnosis(
    found: Diagnosis,
    path: str | os.PathLike[str],
    target: float = 0.95,
    name: str = "a log",
    command: str | None = None,
) -> None:
    """Write the page of a diagnosis to a file, whole or not at all."""
    from replicable_rl.pages.diagnosis import diagnosis_page  # which loads what makes HTML
    from replicable_rl.pages.page import write

    write(diagnosis_page(found, target, name, command), path)


def replication_sentence(found: Diagnosis) -> str:
    """Return the forecast, with what it rests on."""
    why = "halves of the log, because the bootstrap says too much where actions tie;"
    rests = why if found.agreement is found.halves else "bootstrap,"
    return (
        f"Another log of this size gives the same policy with probability {found.agreement} ({rests} "
        f"{plural(found.resamples, 'pair')} of logs, {percent(found.confidence)})."
    )


def how_sentence(found: Diagnosis) -> str:
    """Say by what the log decides, and what the run said of it."""
    rule: Any = found.algorithm.rule
    lost = f"{found.algorithm.epsilon:g} (values normalised to [0, 1])"
    said = "" if found.status is None else f": {visible(' '.join(found.status.sentence.split()))}"
    return f"By the rule {rule.id}, which may lose {lost}{said}."


def halves_sentence(found: Diagnosis) -> str:
    """Return how often halves of the log agree."""
    return f"Two halves of this log give the same policy: {found.halves}."


def data_sentence(found: Diagnosis, target: float) -> str:
    """Say how much data an agreement takes."""
    needed = found.data_needed(target)
    if needed is None and found.algorithm.rule == Greedy():
        return f"Exact ties stay ties, so how much data an agreement of {percent(target)} takes is not known."
    if needed is None:
        return f"For an agreement of {percent(target)} no number of rows like these that was tried is enough."
    rows = f"For an agreement of {percent(target)} it takes about {number(needed)} rows like these."
    if not found.summary.never_left or needed == found.data.rows:
        return rows
    lost = plural(found.summary.never_left, "state")
    return f"{rows} It takes more if larger logs leave the {lost} that this one never left."


def taken(found: Diagnosis, most: int = _SHOWN, longest: int = _LONGEST) -> tuple[list[tuple[str, str]], int]:
    """Return the first states with the action that the log takes, by their names, and how many more there are."""
    process = found.data.process
    last = found.policy.size - int(process.ends)  # nothing is decided after the end
    states, actions = process.state_names, process.action_names
    first = enumerate(found.policy[: min(last, most)].tolist())
    named = [(one_line(states[s], longest), one_line(actions[a], longest)) for s, a in first]
    return named, max(0, last - most)


def _policy(found: Diagnosis, width: int) -> Iterator[str]:
    """Yield what the log decides, as a table of two columns."""
    first, more = taken(found)
    wide = min(max(len(state) for state, _ in first), max(width, _NARROWEST) // 2) + 2
    yield "This log decides:"
    yield from (f"  {state:<{wide}}{action}" for state, action in first)
    if more:
        yield f"  and {plural(more, 'more state')}, which the JSON form lists"


def _states(found: Diagnosis) -> Iterator[str]:
    if not found.states:
        yield "No resampled log decides any state otherwise."
        return
    yield f"{plural(len(found.states), 'state')} may be decided otherwise:"
    yield from (f"  {_state(one)}" for one in found.states[:_SHOWN])
    if len(found.states) > _SHOWN:
        yield f"  and {len(found.states) - _SHOWN} more"


def _state(one: FragileState) -> str:
    state, action, rival = map(one_line, (one.state, one.action, one.rival))
    differ = f"{percent(round(one.share, 3))} of pairs differ"
    return f"{state}: {action}, or {rival}; {differ}; gap {number(one.gap, 2)}, at stake {number(one.at_stake, 2)}"


def _wrapped(text: str, width: int) -> list[str]:
    """Break a line; what goes on is indented, and a number stays with its unit."""
    indent = " " * (len(text) - len(text.lstrip()))
    together = text.replace(" %", "\0%")
    lines = textwrap.wrap(together, width, subsequent_indent=f"{indent}  " if indent else "", break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]
