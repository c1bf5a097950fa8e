"""The page of a diagnosis: what a log decides, how likely another log decides alike, and where not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from replicable_rl.diagnose import Diagnosis
from replicable_rl.pages.blocks import (
    Callout,
    Cell,
    Code,
    DataTable,
    Facts,
    Heading,
    Interval,
    Intervals,
    Plain,
    Text,
    Tone,
)
from replicable_rl.pages.diagnosis_text import (
    data_sentence,
    how_sentence,
    one_line,
    replication_sentence,
    taken,
)
from replicable_rl.pages.page import Block, Page, Section
from replicable_rl.wording import brief, number, p_value, percent, plural

_STATES = 50  # fragile states in the table
_POLICY = 100  # states of the policy in the table

_BOOTSTRAP = (
    "The *bootstrap* draws pairs of new logs of about this size from the rows of this one, and counts how often both "
    "decide alike under one shared seed; what the noise of a log does to that is taken out. It is a forecast, not a "
    "measurement, and the interval tells how precise the resampling is, not how wrong the log may be."
)
_HALVES = (
    "The *halves* are disjoint parts of the log itself. Nothing is modelled, but each half is a log of half the size, "
    "and all splits are of one log."
)


def diagnosis_page(found: Diagnosis, target: float = 0.95, name: str = "a log", command: str | None = None) -> Page:
    """Return the page; ``name`` is what people call the log, and ``command`` what made the page."""
    sections = [
        Section("answer", "Would another log decide alike?", list(_answer(found, target, command))),
        Section("states", "Where another log may decide otherwise", list(_states(found))),
        Section("rules", "Other rules on this log", list(_rules(found, target))),
        Section("policy", "What the log decides", list(_policy(found))),
        Section("log", "What is in the log", list(_log(found))),
    ]
    lead = (
        "What ",
        Code(brief(name)),
        " decides, how likely another log of the same process decides alike, and where not.",
    )
    return Page("What another log would say", lead, sections, command)


def _answer(found: Diagnosis, target: float, command: str | None) -> Iterator[Block]:
    yield from (Callout([Plain(f"{warning}.")], "unsure") for warning in found.summary.warnings)
    tone: Tone = "good" if found.agreement.low >= target else "bad" if found.agreement.high < target else "unsure"
    yield Callout([Plain(replication_sentence(found))], tone)
    both = (("bootstrap: logs of this size", found.agreement), ("halves: logs of half the size", found.halves))
    rows = [Interval(label, float(one), one.low, one.high, target) for label, one in both]
    caption = (
        "The probability that two logs give the same policy, found in two ways, each with its interval "
        f"({percent(found.confidence)}, of the resampling alone). The dashed line is the agreement that is asked for, "
        f"{percent(target)}."
    )
    yield Intervals(rows, caption, command=command)
    yield Text([[Plain(how_sentence(found))], _BOOTSTRAP, _HALVES, [Plain(data_sentence(found, target))]])


def _states(found: Diagnosis) -> Iterator[Block]:
    if not found.states:
        yield Text([f"In {plural(found.resamples, 'pair')} of resampled logs, no state was decided in two ways."])
        return
    rows: list[list[Cell]] = [
        [
            *(Code(one_line(text, 60)) for text in (one.state, one.action, one.rival)),
            percent(round(one.share, 3)),
            number(one.gap, 2),
            number(one.at_stake, 2),
        ]
        for one in found.states[:_STATES]
    ]
    caption = (
        "The states in which resampled logs differ, the most fragile first: what this log takes, what others take most "
        "often instead, and in how many pairs of logs the two differ there. The *gap* is by how much both actions "
        "differ in value; *at stake* is what the other one costs from the first state on. Both are in values "
        "normalised to [0, 1]."
    )
    more = len(found.states) - _STATES
    note = f"{more} more are not listed." if more > 0 else None
    yield DataTable(["state", "this log", "others", "differ in", "gap", "at stake"], rows, caption, note=note)


def _rules(found: Diagnosis, target: float) -> Iterator[Block]:
    rows = [Interval(Code(name).text, float(one), one.low, one.high, target) for name, one in found.rules().items()]
    caption = (
        "What every rule would have as its agreement on logs like this one, by the bootstrap. Of the plain best action "
        "(`greedy`) never more is said than halves of the log show: an estimated model has no exact ties."
    )
    yield Intervals(rows, caption)


def _policy(found: Diagnosis) -> Iterator[Block]:
    process = found.data.process
    visits = found.data.visits[np.arange(found.policy.size), found.policy]
    fragile = {one.state for one in found.states}
    first, more = taken(found, _POLICY, 60)
    rows: list[list[Cell]] = [
        [*map(Code, names), int(visits[s]), "may differ" if process.state_names[s] in fragile else "–"]
        for s, names in enumerate(first)
    ]
    note = f"{more} more are not listed; the JSON of a diagnosis has them all." if more > 0 else None
    caption = "The action in every state, and how many rows of the log took it there."
    yield DataTable(["state", "action", "rows", "another log"], rows, caption, note=note)


def _log(found: Diagnosis) -> Iterator[Block]:
    summary = found.summary
    pairs = summary.states * summary.actions
    facts: list[tuple[str, Cell]] = [
        ("rows", summary.rows),
        ("states", summary.states),
        ("actions", summary.actions),
        ("pairs that were tried", f"{pairs - summary.never_tried} of {pairs}"),
        ("rows of a pair, least", summary.least),
        ("rows of a pair, median", summary.median),
        ("discount", found.data.gamma),
        ("rewards", " to ".join(number(end) for end in found.data.reward_range)),
    ]
    if summary.change is not None:
        facts.append(("one process over time", p_value(summary.change.p_value)))
    yield Facts(facts)
    yield Heading("How it was decided")
    rule: Any = found.algorithm.rule
    yield Facts(
        [
            ("rule", Code(rule.id)),
            ("loss allowed", found.algorithm.epsilon),
            ("pairs of resampled logs", found.resamples),
            ("digest", Code(found.data.sample.digest[:12])),
        ]
    )
