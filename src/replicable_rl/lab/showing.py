"""What the lab found, as HTML: the blocks of a report, without a page around them.

Every function returns HTML that is whole and escaped. Whatever is wrong with an input becomes one sentence in it.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator

import numpy as np

from replicable_rl.errors import InvalidInput
from replicable_rl.lab.measuring import TARGET, Audited, Compared, Diagnosed, TwoRuns
from replicable_rl.plotting import save_figure, styled
from replicable_rl.report.audit_blocks import agreement_bar, verdict
from replicable_rl.report.audit_tables import headline
from replicable_rl.report.blocks import (
    Callout,
    Cell,
    Code,
    DataTable,
    Facts,
    Figure,
    Heading,
    Intervals,
    Mark,
    Plain,
    Tone,
)
from replicable_rl.report.diagnose_figures import draw_comparison
from replicable_rl.report.diagnosis import diagnosis_page
from replicable_rl.report.page import Block, fragment, render
from replicable_rl.report.policy import picture_of, policy_run
from replicable_rl.wording import brief, number, percent, plural

_VERDICTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("met", "good"),
    False: ("not met", "bad"),
    None: ("undecided", "unsure"),
}
_MEMORY = "Not enough memory for a problem of this size. Choose a smaller one."


def tried(show: Callable[[], str]) -> str:
    """Return what is shown, or the sentence that says what is wrong with the input.

    >>> def fails() -> str:
    ...     raise InvalidInput("lab: m must be <whole>.")
    >>> "lab: m must be &lt;whole&gt;." in tried(fails)
    True
    """
    try:
        return show()
    except InvalidInput as error:
        return problem(str(error))
    except MemoryError:
        return problem(_MEMORY)
    except Exception as error:  # of a plugin, or our own mistake: who started the lab sees where it happened
        logging.getLogger(__name__).exception("The lab could not show something.")
        return problem(f"Something went wrong, {type(error).__name__}: {brief(str(error), 300)}")


def problem(sentence: str) -> str:
    """Return a sentence about what is wrong."""
    return fragment([Callout([Plain(sentence)], "bad")])


def two_runs_html(found: TwoRuns) -> str:
    """Draw both policies beside each other, with the states in which they differ."""
    return fragment(list(_two_runs(found)))


def _two_runs(found: TwoRuns) -> Iterator[Block]:
    one, two = found.policies
    many, states = int(np.count_nonzero(one != two)), one.size
    if found.runs[0].sample_seed == found.runs[1].sample_seed:
        yield Callout("Both runs had the same samples, so this shows nothing. Choose two sample seeds.", "unsure")
    elif found.same:
        yield Callout("Both runs have the same policy, to the last bit.", "good")
    elif many:
        yield Callout(f"The runs differ in {many} of {plural(states, 'state')}.", "bad")
    else:
        yield Callout(
            "The most likely actions are the same, the probabilities are not: two runs are close, never identical.",
            "bad",
        )
    values = [run.outputs.get("value") for run in found.runs]
    seeds = [run.sample_seed for run in found.runs]
    drawn = [
        policy_run(f"{which} run, sample seed {seed}", policy, q)
        for which, seed, policy, q in zip(("First", "Second"), seeds, (one, two), values, strict=True)
    ]
    shared = found.runs[0].shared_seed
    caption = f"What two runs decide: shared seed {shared}, {number(found.runs[0].samples)} samples in each run."
    yield picture_of(
        found.setting.mdp.labels, (drawn[0], drawn[1]), caption=caption, command=found.command, panel=False
    )
    prints = [Code(run.fingerprints[found.level][:16]) for run in found.runs]
    yield Facts([("fingerprint, first run", prints[0]), ("fingerprint, second run", prints[1])])


def agreement_html(found: Audited) -> str:
    """Draw the agreement with its interval, beside what was asked for, and say what the policies are worth."""
    result, level = found.result, found.level
    mark = verdict(result, level)
    sure = percent(result.spec.confidence)
    caption = (
        f"How often two runs with one shared seed and fresh samples are identical: {sure} intervals that hold however "
        "often you look. The dashed line is 1 − ρ: met where the whole bar lies right of it."
    )
    rows = [agreement_bar(result, one) for one in result.levels]
    blocks: list[Block] = [
        Callout([Plain(headline(result, level))], "plain" if mark is None else mark.tone),
        Intervals(rows, caption, command=found.command),
    ]
    if worth := result.policies:
        span = np.array([[one.runs, one.loss] for one in worth])
        mean = float(np.average(span[:, 1], weights=span[:, 0]))
        blocks.append(
            Facts(
                [
                    ("different policies", len(worth)),
                    ("most common one", Code(worth[0].fingerprint[:16])),
                    ("mean loss, in units of the rewards", _loss(mean)),
                ]
            )
        )
    return fragment(blocks)


def frontier_html(found: Compared) -> str:
    """Draw how many samples each rule needs, and say which to use."""
    one = found.found
    caption = (
        f"Samples in all at which two runs have the same policy with probability {1.0 - one.rho:g} and lose at most "
        f"{one.epsilon:g} on average, within the sizes that were tried; and those of the proof, where there is one."
    )
    rows: list[list[Cell]] = [
        [row.name, row.samples, row.theory, _loss(row.loss), Mark(*_VERDICTS[row.met])] for row in one.rows
    ]
    alternative = "Samples that each rule needs, measured and proved, on a logarithmic axis."
    return fragment(
        [
            Callout([Plain(one.why)], "good" if one.recommended else "unsure"),
            Figure(frontier_svg(found), alternative, caption, found.command),
            DataTable(["rule", "samples", "proof", "mean loss", "verdict"], rows, "The same in numbers."),
        ]
    )


def _loss(x: float | None) -> str | None:
    """Write a loss; what is below the rounding of planning is 0."""
    return None if x is None else "0" if x < 1e-7 else number(x, 3)


def frontier_svg(found: Compared) -> bytes:
    """Return the figure, the same bytes that the command writes."""
    with styled():
        stream = io.BytesIO()
        save_figure(draw_comparison(found.found), stream, "svg")
    return stream.getvalue()


def diagnosis_html(found: Diagnosed) -> str:
    """Say what a log decides and what another one would: all sections of its page."""
    page = diagnosis_page(found.found, TARGET, found.name, found.command)
    blocks: list[Block] = []
    for section in page.sections:
        blocks += [Heading(section.title), *section.blocks]
    return fragment(blocks)


def diagnosis_file(found: Diagnosed) -> str:
    """Return the page of a diagnosis, to keep: one file that needs nothing else."""
    return render(diagnosis_page(found.found, TARGET, found.name, found.command))
