"""Calibrations and comparisons as text for people, 80 columns wide or narrower."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from replicable_rl.diagnose import Calibration, Compared, Comparison, Point
from replicable_rl.display import shows
from replicable_rl.pages.layout import NARROWEST, Column, laid_out, left_out
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import brief, number, percent, plural, short_loss

_WIDTH = 80
_UNPROVED = "no proof"
_HONEST = (
    "Found is the smallest size tried that is met and such that all larger sizes tried are met; nothing is said of "
    "sizes that were not tried."
)


@shows("calibration table")
def calibration_table(found: Calibration, width: int = _WIDTH) -> str:
    """Return the curve, what was found, and what the proof needs."""
    width = max(width, NARROWEST)
    table, missing = laid_out(_curve(found.size_name, found.points), width)
    lines = [
        *_wrapped(_named(found), width),
        *_wrapped(f"Asked: {found.asked}. All intervals hold at once, {percent(found.confidence)}.", width),
        "",
        *table,
        "",
        *_wrapped(f"{found_sentence(found)} {proof_sentence(found)}", width),
        *_wrapped(_HONEST if found.met else "", width),
        *_wrapped(_about_losses(found), width),
        *_wrapped(left_out(missing), width),
    ]
    return "\n".join(lines)


def _curve(size: str, points: Sequence[Point]) -> list[Column]:
    agreements = [str(point.agreement) for point in points]
    return [
        Column(size, [number(point.size) for point in points], 13),
        Column("in all", [number(point.samples) for point in points], 11, rank=1),
        Column("pairs", [str(point.pairs) for point in points], 6, rank=2),
        Column("agreement", agreements, 21, "<", gap=2),
        Column("mean loss", [_loss(point) for point in points], 18, "<"),
        Column("verdict", [point.verdict for point in points], 0, "<"),
    ]


def _loss(point: Point) -> str:
    loss = loss_of(point)
    return loss if len(loss) < 18 else loss.replace("≤ ", "≤")  # the column has no more room


def loss_of(point: Point) -> str:
    """Write the mean loss at a size, and what it is at most."""
    return "-" if point.loss is None else f"{short_loss(point.loss)} (≤ {short_loss(point.loss.high)})"


def _named(found: Calibration) -> str:
    cuts = "; every first run publishes cuts, and the second follows them" if found.published else ""
    return f"{_text(found.problem)}  {_text(found.algorithm)}".replace(",", ", ").replace(",  ", ", ") + cuts


def _text(spec: ObjectSpec) -> str:
    return brief(ObjectSpec(spec.id, dict(sorted(spec.params.items()))).text, 300)


def found_sentence(found: Calibration) -> str:
    """Say at which size what was asked is met."""
    point, last = found.point, found.points[-1]
    if point is not None:
        total = "" if point.samples is None else f": {number(point.samples)} samples in all"
        return f"Met from {found.size_name} = {number(point.size)} on{total}."
    at = f"{found.size_name} = {number(last.size)}, the largest size tried"
    if last.verdict == "not met":
        return f"Not met: refuted at {at}."
    return f"Cannot tell: {plural(last.pairs, 'pair')} left it undecided at {at}. More shared seeds would tell."


def proof_sentence(found: Calibration) -> str:
    """Say how many samples the proof needs."""
    if found.theory is None:
        return "No proof says how many samples are needed for it."
    text = f"The proof needs {number(found.theory)} samples in all"
    return f"{text}, {number(found.theory / found.samples, 2)} times as many." if found.samples else f"{text}."


def _about_losses(found: Calibration) -> str:
    if all(point.loss is None for point in found.points):
        return "Losses are not known: the problem is no table, or its runs have no policy."
    where = "from the initial distribution" if found.over == "initial" else "in the worst state"
    seen = [point.largest_loss for point in found.points if point.largest_loss is not None and point.verdict == "met"]
    largest = f" The largest loss of a single run where it is met is {short_loss(max(seen))}." if seen else ""
    asked = (
        _excludes_little(found.epsilon, found.gain) if found.epsilon is not None else "Nothing was asked about them."
    )
    return f"Losses are {where}, in values normalised to [0, 1].{largest} {asked}".rstrip()


def _excludes_little(epsilon: float, gain: float | None) -> str:
    """Warn of an epsilon that policies without any sense meet: in normalised values they may lose very little."""
    if gain is None or epsilon < gain:
        return ""
    lost, asked = short_loss(gain), number(epsilon, 3)
    return f"Even the uniform policy loses only {lost}: a loss of {asked} excludes little. Ask for less."


def asked_of(found: Comparison) -> str:
    """Say what was asked of every line; where losses are not known, epsilon says what the rules may spend."""
    asked, epsilon = f"same policy with probability at least {number(1.0 - found.rho, 6)}", number(found.epsilon)
    return f"{asked}, with epsilon={epsilon}" if found.gain is None else f"{asked}, mean loss at most {epsilon}"


_KNOWN_LOSSES = (
    "Samples, in all, are measured: the fewest at which two runs have the same policy often enough and lose little "
    "enough. The proof's are what is proved to be enough for any problem of this size. Losses are means, in values "
    "normalised to [0, 1], in the units of your rewards, and by what the best policy gains over the uniform one."
)
_UNKNOWN_LOSSES = (
    "Samples, in all, are measured: the fewest at which two runs have the same policy often enough. What a policy "
    "loses is not known where the problem is no table; epsilon is what the rules may spend, by their own data. The "
    "proof's are what is proved to be enough for any problem of this size."
)


@shows("comparison table")
def comparison_table(found: Comparison, width: int = _WIDTH) -> str:
    """Return the lines, what they mean, and which to use."""
    width = max(width, NARROWEST)
    table, missing = laid_out(_compared(found.rows), width)
    share = "" if not found.gain else f", {percent(round(found.epsilon / found.gain, 4))} of the gain over uniform"
    lines = [
        *_wrapped(_text(found.problem), width),
        *_wrapped(
            f"Asked: {asked_of(found)}{share}. All intervals of all lines hold at once, {percent(found.confidence)}.",
            width,
        ),
        "",
        *table,
        "",
        *_wrapped(f"{found.why} {_excludes_little(found.epsilon, found.gain)}".rstrip(), width),
        *_wrapped(_UNKNOWN_LOSSES if found.gain is None else _KNOWN_LOSSES, width),
        *_wrapped(left_out(missing), width),
    ]
    return "\n".join(lines)


def _compared(rows: Sequence[Compared]) -> list[Column]:
    names = [brief(row.name, 24) for row in rows]
    return [
        Column("", names, max(12, *(len(name) + 2 for name in names)), "<"),
        Column("samples", [_measured(row) for row in rows], 10),
        Column("proof", [_proved(row) for row in rows], 10),
        Column("loss", [short_loss(row.loss) for row in rows], 9),
        Column("in units", [short_loss(row.loss_in_units) for row in rows], 10, rank=3),
        Column("of gain", [_percent(row.loss_share) for row in rows], 9, rank=2),
        Column("made to repeat", [row.replicates for row in rows], 0, "<", gap=2, rank=1),
    ]


def _measured(row: Compared) -> str:
    return {True: number(row.samples), False: "not met", None: "undecided"}[row.met]


def _proved(row: Compared) -> str:
    return _UNPROVED if row.theory is None else number(row.theory, 3)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{short_loss(100.0 * share)} %"


def _wrapped(text: str, width: int) -> list[str]:
    together = text.replace(" %", "\0%")  # a number and its unit stay on one line
    return [line.replace("\0", " ") for line in textwrap.wrap(together, width, break_on_hyphens=False)]
