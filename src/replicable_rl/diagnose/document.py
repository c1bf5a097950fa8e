"""What diagnoses, calibrations and comparisons say, as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicable_rl.report import Block, Cell, Heading, Mark, Policy, Table, Text, Tone
from replicable_rl.rules import Greedy
from replicable_rl.wording import brief, number, percent, plural, short_loss

if TYPE_CHECKING:
    from replicable_rl.diagnose.diagnosis import Diagnosis
    from replicable_rl.diagnose.search import Calibration, Comparison, Point

_STATES = 10  # fragile states in the table
_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "unsure"}
_VERDICTS: dict[str, Tone] = {"met": "good", "not met": "bad", "undecided": "unsure"}


# --- diagnoses ----------------------------------------------------------------------------------------------------


def diagnosis_document(diagnosis: Diagnosis) -> list[Block]:
    """Return what a log decides, how likely another log of the same process decides alike, and where not."""
    process = diagnosis.data.process
    decided = slice(0, diagnosis.policy.size - int(process.ends))  # nothing is decided after the end
    actions = [process.action_names[a] for a in diagnosis.policy[decided].tolist()]
    status = "" if diagnosis.status is None else f": {diagnosis.status.sentence}"
    lost = f"{diagnosis.algorithm.epsilon:g} (values normalised to [0, 1])"
    return [
        Heading("What another log would say", 1),
        *(Text(f"Warning: {warning}.", "unsure") for warning in diagnosis.summary.warnings),
        Text(_replication(diagnosis)),
        Text(f"Two halves of this log give the same policy: {diagnosis.halves}."),
        *(Text(_needed(diagnosis, target, rows)) for target, rows in diagnosis.needed.items()),
        Heading("Where another log may decide otherwise"),
        _fragile(diagnosis),
        Heading("What the log decides"),
        Text(f"By the rule {diagnosis.algorithm.decider.id}, which may lose {lost}{status}."),
        Policy(process.state_names[decided], [("this log", actions)]),
    ]


def _replication(diagnosis: Diagnosis) -> str:
    """Say the forecast, with what it rests on; its interval is that of the resampling."""
    halves = "halves of the log, because the bootstrap says too much where actions tie;"
    rests = halves if diagnosis.agreement is diagnosis.halves else "bootstrap,"
    return (
        f"Another log of this size gives the same policy with probability {diagnosis.agreement} ({rests} "
        f"{plural(diagnosis.resamples, 'pair')} of logs, {percent(diagnosis.confidence)})."
    )


def _needed(diagnosis: Diagnosis, target: float, rows: int | None) -> str:
    """Say how much data an agreement takes."""
    if rows is not None:
        return f"For an agreement of {percent(target)} it takes about {number(rows)} rows like these."
    if isinstance(diagnosis.algorithm.rule, Greedy):
        return f"Exact ties stay ties, so how much data an agreement of {percent(target)} takes is not known."
    return f"For an agreement of {percent(target)} not even a hundred times as many rows like these are enough."


def _fragile(diagnosis: Diagnosis) -> Block:
    if not diagnosis.states:
        return Text("No resampled log decides any state otherwise.")
    rows: list[list[Cell]] = [
        [*map(brief, state[:3]), percent(round(state.share, 3)), *(float(f"{loss:.2g}") for loss in state[4:])]
        for state in diagnosis.states[:_STATES]
    ]
    columns = ["state", "this log", "others", "differ in", "gap", "at stake"]
    caption = (
        f"{plural(len(diagnosis.states), 'state')}, the most fragile first, at most {_STATES} of them: what this log "
        "takes, what others take most often instead, and in how many pairs of logs the two differ there. The gap is "
        "the difference in value of both actions; at stake is what the other one costs from the first state on, both "
        "in values normalised to [0, 1]."
    )
    return Table(columns, rows, caption)


# --- calibrations and comparisons ---------------------------------------------------------------------------------


def calibration_document(calibration: Calibration) -> list[Block]:
    """Return the curve, what was found, and what the proof needs."""
    columns = [calibration.size_name, "in all", "pairs", "agreement", "mean loss", "verdict"]
    rows: list[list[Cell]] = [
        [point.size, point.samples, point.pairs, str(point.agreement), _loss(point), _verdict(point.verdict)]
        for point in calibration.points
    ]
    needs = "No proof says how many samples are needed for it."
    if calibration.theory is not None:
        needs = f"The proof needs {number(calibration.theory)} samples in all."
    return [
        Heading(f"{brief(calibration.algorithm.text, 300)} on {brief(calibration.problem.text, 300)}", 1),
        Text(_asked(calibration, calibration.confidence)),
        Table(columns, rows),
        Text(f"{calibration_sentence(calibration)} {needs}", _TONES[calibration.met]),
        *_about_losses(calibration),
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


def comparison_document(comparison: Comparison) -> list[Block]:
    """Return the lines, what they mean, and which to use."""
    first = comparison.rows[0]
    rows: list[list[Cell]] = []
    for row in comparison.rows:
        samples: Cell = row.samples if row.met else _verdict("undecided" if row.met is None else "not met")
        rows.append([brief(row.name, 24), samples, None if row.point is None else _loss(row.point), row.theory])
    return [
        Heading(f"Rules and algorithms on {brief(first.problem.text, 300)}", 1),
        Text(_asked(first, comparison.confidence)),
        Table(["", "samples", "mean loss", "proof needs"], rows),
        Text(comparison.why, _TONES[comparison.met]),
        *_about_losses(first),
    ]


def _asked(calibration: Calibration, confidence: float) -> str:
    loss = "" if calibration.epsilon is None else f", mean loss at most {number(calibration.epsilon, 6)}"
    same = f"two runs agree with probability at least {number(1.0 - calibration.rho, 6)}"
    return f"Asked: {same}{loss}. All intervals hold at once, {percent(confidence)}."


def _about_losses(calibration: Calibration) -> list[Block]:
    """Say in what losses are told; warn of an epsilon that policies without any sense meet."""
    if calibration.gain is None:
        return [Text("Losses are not known: the problem is no table.")]
    gain = short_loss(calibration.gain)
    told = f"Losses are in values normalised to [0, 1], where the best policy gains {gain} over the uniform one."
    if calibration.epsilon is None or calibration.epsilon < calibration.gain:
        return [Text(told)]
    return [Text(f"{told} A loss of {number(calibration.epsilon, 3)} excludes little: ask for less.", "unsure")]


def _loss(point: Point) -> str | None:
    return None if point.loss is None else f"{short_loss(point.loss)} (≤ {short_loss(point.loss.high)})"


def _verdict(word: str) -> Mark:
    return Mark(word, _VERDICTS[word])
