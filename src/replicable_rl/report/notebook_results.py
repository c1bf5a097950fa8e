"""How runs, audits, calibrations and comparisons look in a notebook."""

from __future__ import annotations

from replicable_rl.audit import Agreement, AuditResult, Estimate
from replicable_rl.diagnose import Calibration, Comparison
from replicable_rl.display import shows_in_notebooks
from replicable_rl.errors import InvalidInput
from replicable_rl.records import AuditSpec, Claims, Run, Status, in_order, usual_level
from replicable_rl.report.audit_tables import actions_taken, headline, state_name, unfinished, worth_text
from replicable_rl.report.diagnose_tables import asked_of, found_sentence, loss_of, proof_sentence
from replicable_rl.report.diagnosis_text import one_line
from replicable_rl.report.drawing import draw
from replicable_rl.report.html import facts, more, paragraphs, table
from replicable_rl.report.log_texts import first_of_all
from replicable_rl.report.training_texts import closeness_text, returns_text, warnings_text
from replicable_rl.store import RunStore
from replicable_rl.wording import brief, interval, number, percent, plural, share, short_loss

_ROWS = 8
_DRAWN = 400  # states of a policy that is drawn
_LONGEST = 40
_SPEC = 200


@shows_in_notebooks(Run)
def run_html(run: Run) -> str:
    """Return what a run decided, how it ended, what is claimed of it, and its fingerprints."""
    known: list[tuple[str, str]] = []
    if run.spec is not None:
        sample = f"seed {run.sample_seed}" if run.sample_seed is not None else "recorded"
        known += [("algorithm", brief(run.spec.algorithm.text, _SPEC)), ("shared seed", str(run.shared_seed))]
        known.append(("sample", sample))
    known += [] if run.status is None else [("status", str(run.status))]
    known += [(claim.about, str(claim)) for claim in run.claims]
    known += [(about, f"nothing is proved: {why}") for about, why in run.claims.missing.items()]
    known += [] if run.samples is None else [("samples", number(run.samples))]
    known += [(level, run.fingerprints[level][:16]) for level in reversed(in_order(run.fingerprints))]
    of = "" if run.spec is None else f" on {brief(run.spec.problem.text, _SPEC)}"
    return facts(f"Run{of}", known) + _drawn(run)


def _drawn(run: Run) -> str:
    try:
        small = "policy" in run.outputs and run.policy.ndim == 1 and run.policy.size <= _DRAWN
        return draw(run)._repr_html_() if small else ""
    except InvalidInput:  # actions of another kind, or a file that is gone
        return ""


@shows_in_notebooks(Status)
def status_html(status: Status) -> str:
    """Return how a run ended."""
    return paragraphs([str(status)])


@shows_in_notebooks(Claims)
def claims_html(claims: Claims) -> str:
    """Return what is claimed, on what ground, and why nothing is."""
    rows = [[one.about, one.kind, number(one.bound), one.statement, one.source] for one in claims]
    rows += [[about, "nothing", "", why, ""] for about, why in claims.missing.items()]
    return (
        table("Claims", ["about", "kind", "bound", "statement", "source"], rows) if rows else paragraphs([str(claims)])
    )


@shows_in_notebooks(Estimate)
def estimate_html(estimate: Estimate) -> str:
    """Return a number with its interval."""
    return paragraphs([str(estimate)])


@shows_in_notebooks(Agreement)
def agreement_html(found: Agreement) -> str:
    """Return the agreement at one level, with both intervals, and the shares of the paper's figure."""
    return _levels(f"Agreement of the {found.level}", [found])


@shows_in_notebooks(AuditResult)
def audit_html(result: AuditResult) -> str:
    """Return what to doubt, the agreement at every level, the verdict, what was learned, and where runs differ."""
    of = f"{brief(result.problem.text, _SPEC)}, {brief(result.algorithm.text, _SPEC)}"
    title = f"Audit of {of}: {_size(result.spec)}, {percent(result.spec.confidence)} intervals"
    if not result.levels:
        none = "Every run failed, or none has finished."
        return paragraphs([*warnings_text(result), title, none, unfinished(result)])
    level = usual_level(result.levels)
    failed = f"{len(result.failures)} of {plural(len(result.runs), 'run')} failed." if result.failures else ""
    first = [first_of_all(result), *warnings_text(result)]
    learned = [closeness_text(result), worth_text(result, level), returns_text(result)]
    said = [headline(result, level), *learned, unfinished(result), failed]
    return paragraphs(first) + _levels(title, list(result.agreements.values())) + paragraphs(said) + _where(result)


def _levels(title: str, found: list[Agreement]) -> str:
    rows = [
        [
            one.level,
            f"{one.same} of {one.pairs}",
            share(one.estimate),
            *(interval(look.low, look.high) for look in (one.value, one.every_look)),
            *map(share, (one.modal_share, one.unique_share)),
        ]
        for one in found
    ]
    columns = ["level", "pairs the same", "agreement", "one look", "every look", "modal share", "unique share"]
    return table(title, columns, rows)


def _where(result: AuditResult) -> str:
    try:
        differing = result.states.differing.tolist() if "policy" in result.levels else []
        rows = [[one_line(state_name(result, s), _LONGEST), actions_taken(result, s, 4)] for s in differing[:_ROWS]]
    except InvalidInput:  # policies that do not fit together
        return ""
    title = f"Runs differ in {plural(len(differing), result.place)}"
    return table(title, [result.place, "actions"], rows) + more(len(differing) - len(rows)) if rows else ""


@shows_in_notebooks(AuditSpec)
def audit_spec_html(spec: AuditSpec) -> str:
    """Return what an audit runs, and what is asked of it."""
    known = [
        ("problem", brief(spec.problem.text, _SPEC)),
        ("algorithm", brief(spec.algorithm.text, _SPEC)),
        ("runs", _size(spec)),
        ("seed", str(spec.seed)),
        ("confidence", percent(spec.confidence)),
        ("level", spec.level),
        ("rho", number(spec.rho)),
        ("required", number(spec.require)),
        ("shared by the runs of a pair", brief(spec.shared, _SPEC)),
        ("fresh", brief(spec.fresh, _SPEC)),
    ]
    return facts("AuditSpec", known)


def _size(spec: AuditSpec) -> str:
    return f"{plural(spec.n_seeds, 'shared seed')} × {plural(spec.runs_per_seed, 'run')}"


@shows_in_notebooks(Calibration)
def calibration_html(found: Calibration) -> str:
    """Return the curve, what was found, and what the proof needs."""
    rows = [
        [
            number(point.size),
            number(point.samples),
            str(point.pairs),
            str(point.agreement),
            loss_of(point),
            point.verdict,
        ]
        for point in found.points
    ]
    of = f"{brief(found.problem.text, _SPEC)}, {brief(found.algorithm.text, _SPEC)}"
    columns = [found.size_name, "samples in all", "pairs", "agreement", "mean loss", "verdict"]
    asked = f"Asked: {found.asked}. All intervals hold at once, {percent(found.confidence)}."
    said = [asked, f"{found_sentence(found)} {proof_sentence(found)}"]
    return table(f"Calibration of {of}", columns, rows) + paragraphs(said)


@shows_in_notebooks(Comparison)
def comparison_html(found: Comparison) -> str:
    """Return a line for each rule and algorithm, and which to use."""
    rows = [
        [
            brief(row.name, _LONGEST),
            {True: number(row.samples), False: "not met", None: "undecided"}[row.met],
            number(row.theory, 3) if row.theory is not None else "no proof",
            short_loss(row.loss),
            row.replicates,
        ]
        for row in found.rows
    ]
    columns = ["", "samples, measured", "samples, proved", "loss", "made to repeat"]
    return table(f"{brief(found.problem.text, _SPEC)}: {asked_of(found)}", columns, rows) + paragraphs([found.why])


@shows_in_notebooks(RunStore)
def store_html(store: RunStore) -> str:
    """Return what a store holds: every family of runs, and how often its pairs agree."""
    found = store.summary()
    rows = [
        [
            brief(one.family.problem.text, _SPEC),
            brief(one.family.algorithm.text, _SPEC),
            str(one.runs),
            str(one.shared_seeds),
            ", ".join(f"{level} {same} of {one.pairs}" for level, same in one.same.items()),
        ]
        for one in found[:_ROWS]
    ]
    columns = ["problem", "algorithm", "runs", "shared seeds", "pairs the same"]
    return table(f"Runs in {store.path or 'memory'}", columns, rows) + more(len(found) - len(rows))
