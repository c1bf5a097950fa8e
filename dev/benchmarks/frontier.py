"""The frontier in fine steps: samples for an agreement of 0.8 and the loss, every rule and rPVI, on twelve problems.

    .venv/bin/python -m dev.benchmarks.frontier            # part of make bench; some minutes; writes docs/frontier.md
    .venv/bin/python -m dev.benchmarks.frontier --quick    # small, and printed only

It is the experiment `frontier` of `make reproduce` with more pairs, all half-decades, and rPVI on every problem.
Runs are kept in results/frontier.sqlite: a command that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from replicable_rl import plotting
from replicable_rl.audit import AuditResult, run_audits
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import CONFIDENCE, Study
from replicable_rl.experiments.frontier.analysis import (
    AIMS,
    MET,
    MISSED,
    SMALL,
    UNCLEAR,
    aim_of,
    analyse,
    standing,
    verdicts,
)
from replicable_rl.experiments.frontier.curves import (
    BUDGET,
    COARSE,
    DEFAULT,
    FINE,
    PLAIN,
    PROBLEMS,
    PUBLISHED,
    RULES,
    TARGET,
    Extent,
    first,
    following,
)
from replicable_rl.experiments.frontier.figure import draw
from replicable_rl.store import RunStore
from replicable_rl.wording import percent

ROOT = Path(__file__).resolve().parents[2]
PAGE, PICTURE = ROOT / "docs" / "frontier.md", ROOT / "docs" / "frontier.svg"
STORE = ROOT / "results" / "frontier.sqlite"

HALVES = tuple(round(10 ** (k / 2)) for k in range(4, 13))  # 10^2 to 10^6
RULES_ALONE = tuple(rule for rule in RULES if rule not in (COARSE, FINE))
PARTS = (
    Extent(100, HALVES, HALVES, (), rules=RULES_ALONE, share=1.0),
    Extent(
        100,
        calls=tuple(round(10 ** (k / 2)) for k in range(6, 21)),
        problems=("two-goals",),
        rules=(COARSE, FINE),
        share=1.0,
    ),
    Extent(
        40,
        calls=tuple(10**k for k in range(4, 13, 2)),
        problems=tuple(one for one in PROBLEMS if one != "two-goals"),
        rules=(COARSE, FINE),
        without_rpvi=(),
        coarse=tuple(PROBLEMS),
        share=1.0,
    ),
)
NO_TIES = ("riverswim", "garnet", "machine-repair", "machine-repair-50", "Taxi")  # where the plain model may do
MANY, VERY_MANY = 400, 200_000  # pairs, where a comparison is close, and where an aim is in doubt
LOOKS = 5  # at aims in doubt, in the life of this page: with 100, 400, 10 000, 40 000 and 200 000 pairs
BESIDE = tuple(Extent(MANY, (n,), problems=NO_TIES, rules=(DEFAULT, PLAIN)) for n in (10**3, 10**4))


def run(extent: Extent, store: RunStore, *, once: bool = False) -> tuple[list[Study], list[AuditResult]]:
    """Make the audits of an extent, size by size, or the first size alone."""
    studies: list[Study] = []
    results: list[AuditResult] = []
    new = first(extent)
    while new:
        studies, results = [*studies, *new], [*results, *run_audits([one.audit for one in new], store, n_jobs=-1)]
        print(f"{len(studies)} audits", file=sys.stderr, flush=True)
        new = [] if once else following(extent, studies, results)
    return studies, results


class Found(NamedTuple):
    """The data of the frontier, of more pairs at aims that are in doubt, and of the comparison with the plain model."""

    frontier: Dataset
    at_aims: Dataset | None
    plain: Dataset


def in_doubt(frontier: Dataset) -> Iterator[Extent]:
    """Yield what to run where the pairs of the frontier do not tell whether an aim is met: more of them, at the aim."""
    for row in frontier.tables["needed"]:
        aim = aim_of(row)
        if aim is not None and standing(row, aim) == UNCLEAR:
            yield Extent(VERY_MANY, (aim,), problems=(row["problem"],), rules=(row["rule"],))


def measure(store: RunStore, parts: Sequence[Extent], beside: Sequence[Extent]) -> Found:
    """Make all runs, and return what was found."""
    made = [run(extent, store) for extent in parts]
    compared = [run(extent, store, once=True) for extent in beside]
    frontier = _in_order(_analysed(made))
    doubts = [run(extent, store, once=True) for extent in in_doubt(frontier)]
    return Found(frontier, _analysed(doubts) if doubts else None, _analysed(compared))


def _analysed(made: Sequence[tuple[list[Study], list[AuditResult]]]) -> Dataset:
    return analyse([one for studies, _ in made for one in studies], [one for _, results in made for one in results])


def _in_order(frontier: Dataset) -> Dataset:
    """Return the same with curves by problem and rule, not as they were run."""
    table, problems, rules = frontier.tables["needed"], list(PROBLEMS), list(RULES)
    rows = sorted(table.rows, key=lambda row: (problems.index(str(row[0])), rules.index(str(row[1]))))
    return replace(frontier, tables={**frontier.tables, "needed": replace(table, rows=tuple(rows))})


# --- the page ---------------------------------------------------------------------------------------------------

_HEAD = """\
# The same policy from fewer samples

`make bench` writes this page (`python -m dev.benchmarks.frontier` alone). `replicable-rl reproduce frontier` makes
a coarser version in seconds, with its figure and data.

How many samples of a state-action pair does it take until two runs have the same policy with probability
0.8 (ρ = 0.2), if the policy may lose {budget:.0%} of what the best policy gains over the uniform one? Sizes rise by
half-decades from 100 until an agreement of 0.8 is *shown*: {pairs} pairs of runs at every size, exact intervals of 95 %
over all sizes together. A cell says at how many samples the agreement is estimated to pass 0.8, and in
brackets the largest size that is shown to be too small and the smallest that is shown to be enough. *Not reached*
names the agreement at the largest size tried, 10<sup>6</sup>. Nothing here is proved; it is measured.

![Samples of a pair for an agreement of 0.8 against the loss](frontier.svg)

## The aims

The default rule should need at most 10<sup>4</sup> samples per pair where S ≤ {small} and 10<sup>6</sup> elsewhere;
published cuts 10<sup>3</sup> and 10<sup>5</sup>. *Met* is shown, *missed* is refuted. Losses are shares of the gain at
the size that is enough, mean and worst of all runs; *over* is how many runs lost more than {budget:.0%}. With published
cuts two labs use what a third one published from as many samples; *as the publisher* is how often a lab decided as the
publisher itself.

{aims}

{verdicts}

{doubts}

## Every rule

{rules}

The rule `softmax` is not in the table: its action probabilities are close in two runs and never identical.

Mean loss there, in per cent of the gain:

{losses}

## Where the plain model will do

Without near-ties the plain model, `greedy`, replicates by itself, and a rule should not spoil that. Agreement of {many}
pairs at the same size:

{plain}

## Against rPVI

Samples of a pair in all iterations together. *rPVI* has the tolerance that its proof needs for this loss; *τ = ε* is a
tolerance as large as the loss, for which nothing is proved. {rpvi_pairs} pairs at sizes a hundred times apart; on
two-goals {pairs} pairs at half-decades.

{rpvi}
"""


def page(found: Found) -> str:
    """Return the page as Markdown."""
    dataset, plain = found.frontier, found.plain
    needed = dataset.tables["needed"]
    return _HEAD.format(
        budget=BUDGET,
        small=SMALL,
        pairs=PARTS[0].pairs,
        rpvi_pairs=PARTS[-1].pairs,
        aims=_grid(
            ["problem", "S", "rule", "aim", "samples per pair", "", "mean loss", "worst", "over", "as the publisher"],
            [_aim(row) for rule in AIMS for row in needed.where(rule=rule)],
        ),
        verdicts="\n".join(f"- {one.claim}: **{one.verdict}** ({one.measured})." for one in verdicts(dataset)),
        doubts="" if found.at_aims is None else _doubts(found.at_aims),
        many=MANY,
        rules=_by_problem(dataset, RULES_ALONE, samples_text),
        losses=_by_problem(dataset, RULES_ALONE, lambda row: f"{100.0 * row['loss']:.1f}"),
        plain=_grid(["problem", "samples per pair", "affordable", "greedy"], list(_beside(plain))),
        rpvi=_grid(["problem", "affordable", FINE, "its loss", COARSE, "its loss"], list(_rpvi(dataset))),
    )


def _aim(row: dict[str, Any]) -> list[str]:
    aim = aim_of(row) or 0
    publisher = "" if row["publisher"] is None else f"{row['publisher']:.2f}"
    losses = [f"{100.0 * row[name]:.1f} %" for name in ("loss", "worst_loss")]
    over = f"{row['runs_over_budget']} of {2 * row['pairs']}"
    about = [row["problem"], str(row["states"]), row["rule"], power(aim), samples_text(row)]
    return [*about, standing(row, aim), *losses, over, publisher]


def samples_text(row: dict[str, Any]) -> str:
    """Write the samples of a curve with their interval."""
    if row["samples"] is None:
        return f"not reached ({row['agreement']:.2f})"
    low, high = (("–" if row[f"samples_{end}"] is None else power(row[f"samples_{end}"])) for end in ("low", "high"))
    return f"{'≤ ' * row['at_the_first_size']}{power(row['samples'])} ({low} to {high})"


def power(x: float) -> str:
    """Write a number of samples.

    >>> power(1000), power(316), power(4.2e9)
    ('10<sup>3</sup>', '3.2·10<sup>2</sup>', '4.2·10<sup>9</sup>')
    """
    mantissa, _, exponent = f"{x:.1e}".partition("e")
    return f"{'' if mantissa == '1.0' else f'{mantissa}·'}10<sup>{int(exponent)}</sup>"


def _by_problem(dataset: Dataset, rules: Sequence[str], text: Any) -> str:
    needed = dataset.tables["needed"]
    known = [rule for rule in rules if rule in needed.distinct("rule")]
    lines = []
    for problem in needed.distinct("problem"):
        rows = {row["rule"]: row for row in needed.where(problem=problem)}
        lines.append([f"{problem} (S={next(iter(rows.values()))['states']})"])
        lines[-1] += [text(rows[rule]) if rule in rows else "" for rule in known]
    return _grid(["problem", *known], lines)


def _doubts(at_aims: Dataset) -> str:
    """Say what more pairs show where the others could not tell; who looks again must be surer each time."""
    lines, confidence = [], 1.0 - (1.0 - CONFIDENCE) / LOOKS
    for row in at_aims.tables["points"]:
        low, high = clopper_pearson(row["same"], row["pairs"], confidence)
        shown = low >= TARGET and row["loss"] <= BUDGET
        stands = MET if shown else MISSED if high < TARGET or row["loss"] > BUDGET else UNCLEAR
        agreement = f"{row['agreement']:.3f} ({low:.3f}–{high:.3f})"
        lines.append([row["problem"], row["rule"], power(row["size"]), agreement, f"{100 * row['loss']:.1f} %", stands])
    head = (
        f"Where so many pairs cannot tell, {VERY_MANY} of them at the size of the aim do better (intervals of "
        f"{percent(confidence)}, because these aims have been looked at {LOOKS} times):"
    )
    return f"{head}\n\n{_grid(['problem', 'rule', 'samples per pair', 'agreement', 'mean loss', ''], lines)}"


def agreement_text(row: dict[str, Any]) -> str:
    """Write an agreement with its interval."""
    return f"{row['agreement']:.3f} ({row['agreement_low']:.3f}–{row['agreement_high']:.3f})"


def _beside(plain: Dataset) -> Iterator[list[str]]:
    points = plain.tables["points"]
    for ours in points.where(rule=DEFAULT):
        (theirs,) = points.where(rule=PLAIN, problem=ours["problem"], size=ours["size"])
        worse = " **worse**" if ours["agreement_high"] < theirs["agreement_low"] else ""
        yield [ours["problem"], power(ours["size"]), agreement_text(ours) + worse, agreement_text(theirs)]


def _rpvi(dataset: Dataset) -> Iterator[list[str]]:
    needed = dataset.tables["needed"]
    for problem in needed.distinct("problem"):
        rows = {row["rule"]: row for row in needed.where(problem=problem)}
        if DEFAULT in rows and (FINE in rows or COARSE in rows):
            cells = [problem, samples_text(rows[DEFAULT])]
            for rule in (FINE, COARSE):
                row = rows.get(rule)
                cells += ["", ""] if row is None else [samples_text(row), f"{100.0 * row['loss']:.1f} %"]
            yield cells


def _grid(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *lines])


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the page and its figure."""
    parser = argparse.ArgumentParser(prog="python -m dev.benchmarks.frontier", description="Samples against loss.")
    parser.add_argument("--quick", action="store_true", help="two problems and few pairs, printed only")
    quick = parser.parse_args(arguments).quick
    if quick:
        few = ("two-goals", "machine-repair")
        parts = [Extent(8, HALVES[2:7:4], (), (10**5, 10**9), few, (DEFAULT, PUBLISHED, PLAIN, FINE))]
        beside = [replace(BESIDE[0], pairs=8, problems=("machine-repair",))]
        print(page(measure(RunStore(), parts, beside)))
        return
    STORE.parent.mkdir(parents=True, exist_ok=True)
    with RunStore(STORE) as store:
        found = measure(store, PARTS, BESIDE)
    PAGE.write_text(page(found), encoding="utf-8")
    with plotting.styled():
        draw(found.frontier).savefig(PICTURE, format="svg", metadata={"Date": None, "Creator": None})
    print(f"Wrote {PAGE} and {PICTURE}.", file=sys.stderr)


if __name__ == "__main__":
    main()
