"""What diagnoses, calibrations and comparisons say, as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicable_rl.report import Block, Cell, Facts, Heading, Interval, Intervals, Mark, Policy, Table, Text, Tone
from replicable_rl.rules import Greedy
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import brief, number, p_value, percent, plural, short_loss

if TYPE_CHECKING:
    from replicable_rl.diagnose.compare import Calibration, Comparison
    from replicable_rl.diagnose.diagnosis import Diagnosis
    from replicable_rl.diagnose.search import Point

_STATES = 10  # fragile states in the table; a detail has the others
_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "unsure"}
_VERDICTS: dict[str, Tone] = {"met": "good", "not met": "bad", "undecided": "unsure"}


# --- diagnoses ----------------------------------------------------------------------------------------------------


def diagnosis_document(diagnosis: Diagnosis) -> list[Block]:
    """Return what a log decides, how likely another log of the same process decides alike, and where not."""
    target = max(diagnosis.needed, default=None)
    low, high = diagnosis.agreement.low, diagnosis.agreement.high
    verdict = None if target is None else True if low >= target else False if high < target else None
    estimates = (
        ("bootstrap: logs of this size", diagnosis.agreement),
        ("halves: logs of half the size", diagnosis.halves),
    )
    rows = [Interval(label, float(one), one.low, one.high, target) for label, one in estimates]
    rules = [Interval(name, float(one), one.low, one.high, target) for name, one in diagnosis.by_rule.items()]
    process = diagnosis.data.process
    decided = slice(0, diagnosis.policy.size - int(process.ends))  # nothing is decided after the end
    actions = [process.action_names[a] for a in diagnosis.policy[decided].tolist()]
    blocks: list[Block] = [
        Heading("What another log would say", 1),
        *(Text(f"Warning: {warning}.", "unsure") for warning in diagnosis.summary.warnings),
        Text(_replication(diagnosis), "plain" if target is None else _TONES[verdict]),
        Text(f"Two halves of this log give the same policy: {diagnosis.halves}."),
        *(Text(_needed(diagnosis, target, rows)) for target, rows in diagnosis.needed.items()),
        Intervals(rows, "The probability that two logs give the same policy, found in two ways.", detail=True),
        Text(_ABOUT, detail=True),
        Heading("Where another log may decide otherwise"),
        *_fragile(diagnosis),
        *([Heading("Other rules on this log"), Intervals(rules, _ABOUT_RULES)] if rules else []),
        Heading("What the log decides"),
        Text(_how(diagnosis)),
        Policy(process.state_names[decided], [("this log", actions)]),
        Heading("What is in the log"),
        Facts(_facts(diagnosis)),
    ]
    return blocks


_ABOUT = (
    "The bootstrap draws pairs of new logs of about this size from the rows of this one, and counts how often both "
    "decide alike under one shared seed; what the noise of a log does to that is taken out. It is a forecast: the "
    "interval tells how precise the resampling is, not how wrong the log may be. The halves are disjoint parts of the "
    "log itself: nothing is modelled, but each half is a log of half the size."
)
_ABOUT_RULES = (
    "The agreement that every rule would have on logs like this one, by the bootstrap; of greedy, never more than "
    "halves of the log show, for an estimated model has no exact ties."
)


def _replication(diagnosis: Diagnosis) -> str:
    """Say the forecast, with what it rests on."""
    halves = "halves of the log, because the bootstrap says too much where actions tie;"
    rests = halves if diagnosis.agreement is diagnosis.halves else "bootstrap,"
    return (
        f"Another log of this size gives the same policy with probability {diagnosis.agreement} ({rests} "
        f"{plural(diagnosis.resamples, 'pair')} of logs, {percent(diagnosis.confidence)})."
    )


def _how(diagnosis: Diagnosis) -> str:
    """Say by what the log decides, and what the run said of it."""
    status = "" if diagnosis.status is None else f": {diagnosis.status.sentence}"
    lost = f"{diagnosis.algorithm.epsilon:g} (values normalised to [0, 1])"
    return f"By the rule {diagnosis.algorithm.decider.id}, which may lose {lost}{status}."


def _needed(diagnosis: Diagnosis, target: float, rows: int | None) -> str:
    """Say how much data an agreement takes."""
    if rows is None and isinstance(diagnosis.algorithm.rule, Greedy):
        return f"Exact ties stay ties, so how much data an agreement of {percent(target)} takes is not known."
    if rows is None:
        return f"For an agreement of {percent(target)} no number of rows like these that was tried is enough."
    sentence = f"For an agreement of {percent(target)} it takes about {number(rows)} rows like these."
    if not diagnosis.summary.never_left or rows == diagnosis.data.rows:
        return sentence
    lost = plural(diagnosis.summary.never_left, "state")
    return f"{sentence} It takes more if larger logs leave the {lost} that this one never left."


def _fragile(diagnosis: Diagnosis) -> list[Block]:
    if not diagnosis.states:
        return [Text("No resampled log decides any state otherwise.")]
    rows: list[list[Cell]] = [
        [
            *map(brief, state[:3]),
            percent(round(state.share, 3)),
            float(f"{state.gap:.2g}"),
            float(f"{state.at_stake:.2g}"),
        ]
        for state in diagnosis.states
    ]
    columns = ["state", "this log", "others", "differ in", "gap", "at stake"]
    caption = (
        f"{plural(len(rows), 'state')}, the most fragile first: what this log takes, what others take most often "
        "instead, and in how many pairs of logs the two differ there. The gap is the difference in value of both "
        "actions; at stake is what the other one costs from the first state on, both in values normalised to [0, 1]."
    )
    more = [Table(columns, rows[_STATES:], "The other states.", detail=True)] if len(rows) > _STATES else []
    return [Table(columns, rows[:_STATES], caption), *more]


def _facts(diagnosis: Diagnosis) -> list[tuple[str, Cell]]:
    summary = diagnosis.summary
    change = "unknown" if summary.change is None else p_value(summary.change.p_value)
    return [
        ("rows", summary.rows),
        ("states", summary.states),
        ("actions", summary.actions),
        ("pairs that were tried", f"{summary.pairs - summary.never_tried} of {summary.pairs}"),
        ("rows of a pair", f"{summary.least} at least, {summary.median} in the middle"),
        ("one process over time", change),
        ("discount", diagnosis.data.gamma),
        ("rewards", " to ".join(number(end) for end in diagnosis.data.reward_range)),
        ("digest", diagnosis.data.sample.digest[:12]),
    ]


# --- calibrations -------------------------------------------------------------------------------------------------


def calibration_document(calibration: Calibration) -> list[Block]:
    """Return the curve, what was found, and what the proof needs."""
    cuts = "; every first run publishes cuts, and the second follows them" if calibration.published else ""
    asked = f"same {calibration.level} with probability at least {number(1.0 - calibration.rho, 6)}"
    asked += "" if calibration.epsilon is None else f", mean loss at most {number(calibration.epsilon, 6)}"
    columns = [calibration.size_name, "in all", "pairs", "agreement", "mean loss", "verdict"]
    rows: list[list[Cell]] = [
        [point.size, point.samples, point.pairs, str(point.agreement), _loss(point), _verdict(point.verdict)]
        for point in calibration.points
    ]
    return [
        Heading(f"{_named(calibration.algorithm)} on {_named(calibration.problem)}{cuts}", 1),
        Text(f"Asked: {asked}. All intervals hold at once, {percent(calibration.confidence)}."),
        Table(columns, rows),
        Text(f"{calibration_sentence(calibration)} {_proof(calibration)}", _TONES[calibration.met]),
        Text(_losses(calibration)),
        Text(
            "Found is the smallest size tried that is met and such that all larger sizes tried are met; nothing is "
            "said of sizes that were not tried.",
            detail=True,
        ),
    ]


def calibration_sentence(calibration: Calibration) -> str:
    """Say at which size what was asked is met."""
    point, last = calibration.point, calibration.points[-1]
    if point is not None:
        total = "" if point.samples is None else f": {number(point.samples)} samples in all"
        return f"Met from {calibration.size_name} = {number(point.size)} on{total}."
    at = f"{calibration.size_name} = {number(last.size)}, the largest size tried"
    if last.verdict == "not met":
        return f"Not met: refuted at {at}."
    return f"Cannot tell: {plural(last.pairs, 'pair')} left it undecided at {at}. More shared seeds would tell."


def _proof(calibration: Calibration) -> str:
    if calibration.theory is None:
        return "No proof says how many samples are needed for it."
    text = f"The proof needs {number(calibration.theory)} samples in all"
    return (
        f"{text}, {number(calibration.theory / calibration.samples, 2)} times as many."
        if calibration.samples
        else f"{text}."
    )


def _losses(calibration: Calibration) -> str:
    if all(point.loss is None for point in calibration.points):
        return "Losses are not known: the problem is no table, or its runs have no policy."
    where = "from the initial distribution" if calibration.over == "initial" else "in the worst state"
    met = [
        point.largest_loss for point in calibration.points if point.largest_loss is not None and point.verdict == "met"
    ]
    largest = f" The largest loss of a single run where it is met is {short_loss(max(met))}." if met else ""
    asked = (
        "Nothing was asked about them."
        if calibration.epsilon is None
        else _excludes_little(calibration.epsilon, calibration.gain)
    )
    return f"Losses are {where}, in values normalised to [0, 1].{largest} {asked}".rstrip()


def _excludes_little(epsilon: float, gain: float | None) -> str:
    """Warn of an epsilon that policies without any sense meet: in normalised values they may lose very little."""
    if gain is None or epsilon < gain:
        return ""
    lost, asked = short_loss(gain), number(epsilon, 3)
    return f"Even the uniform policy loses only {lost}: a loss of {asked} excludes little. Ask for less."


def _loss(point: Point) -> str | None:
    return None if point.loss is None else f"{short_loss(point.loss)} (≤ {short_loss(point.loss.high)})"


def _verdict(word: str) -> Mark:
    return Mark(word, _VERDICTS[word])


def _named(spec: ObjectSpec) -> str:
    text = ObjectSpec(spec.id, dict(sorted(spec.params.items()))).text
    return brief(text.replace(",", ", ").replace(",  ", ", "), 300)


# --- comparisons --------------------------------------------------------------------------------------------------


def comparison_document(comparison: Comparison) -> list[Block]:
    """Return the lines, what they mean, and which to use."""
    asked = f"same policy with probability at least {number(1.0 - comparison.rho, 6)}"
    asked += (
        f", with epsilon={number(comparison.epsilon)}"
        if comparison.gain is None
        else f", mean loss at most {number(comparison.epsilon)}"
    )
    share = (
        ""
        if not comparison.gain
        else f", {percent(round(comparison.epsilon / comparison.gain, 4))} of the gain over uniform"
    )
    columns = ["", "samples", "proof", "loss", "in units", "of gain", "made to repeat"]
    rows: list[list[Cell]] = []
    for row in comparison.rows:
        samples: Cell = row.samples if row.met else _verdict("undecided" if row.met is None else "not met")
        of_gain = None if row.loss_share is None else f"{short_loss(100.0 * row.loss_share)} %"
        losses = [None if loss is None else short_loss(loss) for loss in (row.loss, row.loss_in_units)]
        rows.append([brief(row.name, 24), samples, row.theory, *losses, of_gain, row.replicates])
    return [
        Heading(f"Rules and algorithms on {_named(comparison.problem)}", 1),
        Text(f"Asked: {asked}{share}. All intervals of all lines hold at once, {percent(comparison.confidence)}."),
        Table(columns, rows),
        Text(
            f"{comparison.why} {_excludes_little(comparison.epsilon, comparison.gain)}".rstrip(), _TONES[comparison.met]
        ),
        Text(_ABOUT_SAMPLES + (_UNKNOWN_LOSSES if comparison.gain is None else _KNOWN_LOSSES), detail=True),
    ]


_ABOUT_SAMPLES = (
    "Samples, in all, are measured: the fewest at which two runs have the same policy often enough and lose little "
    "enough. Those of the proof are proved to be enough for any problem of this size. "
)
_KNOWN_LOSSES = (
    "Losses are means, in values normalised to [0, 1], in the units of your rewards, and by what the best policy gains "
    "over the uniform one."
)
_UNKNOWN_LOSSES = (
    "What a policy loses is not known where the problem is no table; epsilon is what the rules may spend, by their own "
    "data."
)
