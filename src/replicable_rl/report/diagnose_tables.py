"""Calibrations and comparisons as text for people, 80 columns wide."""

from __future__ import annotations

import textwrap

from replicable_rl.diagnose import Calibration, Compared, Comparison, Point
from replicable_rl.display import shows
from replicable_rl.records import ObjectSpec
from replicable_rl.wording import brief, number, percent, plural

_WIDTH = 80
_UNPROVED = "no proof"
_HONEST = (
    "Found is the smallest size tried that is met and such that all larger sizes tried are met; nothing is said of "
    "sizes that were not tried."
)


@shows("calibration table")
def calibration_table(found: Calibration) -> str:
    """Return the curve, what was found, and what the proof needs."""
    lines = [
        *_wrapped(_named(found)),
        *_wrapped(f"Asked: {found.asked}. All intervals hold at once, {percent(found.confidence)}."),
        "",
        f"{found.size_name:>13}{'in all':>11}{'pairs':>6}  {'agreement':<21}{'mean loss':<18}verdict",
        *(_line(point) for point in found.points),
        "",
        *_wrapped(f"{found_sentence(found)} {proof_sentence(found)}"),
        *_wrapped(_HONEST if found.met else ""),
        *_wrapped(_about_losses(found)),
    ]
    return "\n".join(lines)


def _line(point: Point) -> str:
    low, high = point.agreement.low, point.agreement.high
    agreement = f"{float(point.agreement):.3f} ({low:.3f}–{high:.3f})"
    loss = "-" if point.loss is None else f"{short_loss(float(point.loss))} (≤ {short_loss(point.loss.high)})"
    loss = loss if len(loss) < 18 else loss.replace("≤ ", "≤")  # the column has no more room
    agreement, loss = f"{agreement:<21}", f"{loss:<18}"
    size, samples = number(point.size), number(point.samples)
    return f"{size:>13}{samples:>11}{point.pairs:>6}  {agreement}{loss}{point.verdict}"


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
    return (
        f"Even the uniform policy loses only {short_loss(gain)}: a loss of {epsilon:.3g} excludes little. Ask for less."
    )


@shows("comparison table")
def comparison_table(found: Comparison) -> str:
    """Return the lines, what they mean, and which to use."""
    width = max(12, *(len(brief(row.name, 24)) + 2 for row in found.rows))
    share = "" if not found.gain else f", {percent(round(found.epsilon / found.gain, 4))} of the gain over uniform"
    asked = f"same policy with probability at least {1.0 - found.rho:.6g}, mean loss at most {found.epsilon:.4g}{share}"
    heading = f"{'':<{width}}{'samples':>10}{'proof':>10}{'loss':>9}{'in units':>10}{'of gain':>9}  made to repeat"
    lines = [
        *_wrapped(_text(found.problem)),
        *_wrapped(f"Asked: {asked}. All intervals of all lines hold at once, {percent(found.confidence)}."),
        "",
        heading,
        *(_compared(row, width) for row in found.rows),
        "",
        *_wrapped(f"{found.why} {_excludes_little(found.epsilon, found.gain)}".rstrip()),
        *_wrapped(
            "Samples, in all, are measured: the fewest at which two runs have the same policy often enough and lose "
            "little enough. The proof's are what is proved to be enough for any problem of this size. Losses are "
            "means, in values normalised to [0, 1], in the units of your rewards, and by what the best policy gains "
            "over the uniform one."
        ),
    ]
    return "\n".join(lines)


def _compared(row: Compared, width: int) -> str:
    samples = {True: number(row.samples), False: "not met", None: "undecided"}[row.met]
    samples = "never" if row.calibration is None else samples
    proof = number(row.theory, 3) if row.theory is not None else _UNPROVED
    proof = "-" if row.calibration is None else proof
    share = "-" if row.loss_share is None else f"{short_loss(100.0 * row.loss_share)} %"
    cells = f"{_or_dash(row.loss):>9}{_or_dash(row.loss_in_units):>10}{share:>9}"
    return f"{brief(row.name, 24):<{width}}{samples:>10}{proof:>10}{cells}  {row.replicates}"


def _or_dash(x: float | None) -> str:
    return "-" if x is None else short_loss(x)


def short_loss(x: float) -> str:
    """Write a loss in a few letters; what is below the rounding of planning is 0.

    >>> short_loss(0.0), short_loss(4e-9), short_loss(0.01234), short_loss(3.21e-5)
    ('0', '0', '0.012', '3.2e-05')
    """
    return "0" if abs(x) < 1e-7 else f"{x:.2g}"


def _wrapped(text: str) -> list[str]:
    together = text.replace(" %", "\0%")  # a number and its unit stay on one line
    return [line.replace("\0", " ") for line in textwrap.wrap(together, _WIDTH, break_on_hyphens=False)]
