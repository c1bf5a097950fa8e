"""An audit as a document: one interval, one verdict, the states that differ, and what to do next; the rest is detail.

A store with several audits is a document with an overview and a section for each of them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replicable_rl.audit.agreement import Estimate
from replicable_rl.audit.evidence import TrainingCode
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.paper import cited
from replicable_rl.report import Block, Cell, Facts, Heading, Interval, Intervals, Mark, Policy, Table, Text
from replicable_rl.runs import usual_level
from replicable_rl.wording import brief, interval, number, number_range, percent, plural, share

if TYPE_CHECKING:
    from replicable_rl.audit.result import AuditResult

_STATES = 6  # states in the table
_ROWS = 8  # claims in their table
_ACTIONS = 4  # actions of a state
_NAME = 40  # letters of a name
_ADVICE = {
    "met": "publish the algorithm, its parameters and a shared seed.",
    "refuted": "do not rely on the refuted claim.",
    "not judged": "audit logs of one process; same_process says where two logs differ.",
    "not shown": "let what a run draws and computes follow from its two seeds alone.",
    "not met": "compare rules and algorithms to see which one agrees often enough, and from how many samples.",
    "undecided": "raise shared_seeds to four times as many; a store keeps the finished runs.",
}


def document_of(result: AuditResult) -> list[Block]:
    """Return everything there is to say of an audit."""
    level = judged_level(result)
    outputs = [] if level is None else _outputs(result, level)
    details = [] if level is None else [_levels(result)]
    advice = Text(f"Next: {_advice(result, verdict_mark(result, level)[0].text)}")
    return [*summary_of(result), *outputs, advice, *details, *_claims(result), _origin(result)]


def summary_of(result: AuditResult) -> list[Block]:
    """Return the title, what to doubt, the agreement with its interval, and the verdict."""
    level, blocks = judged_level(result), list[Block]([Heading(title_of(result), 1), Text(_size(result))])
    if result.evidence.process:
        blocks.append(Text(result.evidence.process, "bad" if result.evidence.differ else "plain"))
    blocks += [Text(f"Warning: {warning}", "bad") for warning in result.warnings]
    if level is not None:
        agreement, (verdict, reason) = result.agreement(level), verdict_mark(result, level)
        sentence = (
            f"Same {level} in {agreement.same} of {agreement.pairs} {result.evidence.pairs}: agreement "
            f"{agreement.every_look}, {percent(result.spec.confidence)} at every look. {reason}"
        )
        blocks.append(Text(sentence, verdict.tone))
    elif result.runs:
        blocks.append(Text("Every run failed.", "bad"))
    else:
        nothing = "The first shared seed does not have all of its runs yet, so there is nothing to compare."
        blocks.append(Text(nothing, "unsure"))
    absent = "" if level in (None, result.level) else f"No run has a {result.level}."
    sentences = (absent, _returns(result), _unfinished(result), _failed(result))
    return [*blocks, *(Text(sentence) for sentence in sentences if sentence)]


def store_document(results: Sequence[AuditResult]) -> list[Block]:
    """Return the page of several audits: an overview, and a section for every audit."""
    bars, sections = list[Interval](), list[Block]()
    for result in results:
        title, level = title_of(result), judged_level(result)
        sections += [Heading(title), *document_of(result)[1:]]
        if level is not None:
            value, tone = result.agreement(level), verdict_mark(result, level)[0].tone
            name = brief(f"{title}{'' if level == 'policy' else f', {level}'}", 90)
            bars.append(Interval(name, value.estimate, value.low, value.high, result.required(level), tone))
    caption = (
        "How often two runs with one shared seed and fresh samples give the same result, with the interval that holds "
        "at every look. The dashed line is the agreement that is required, 1 − ρ unless the audit says otherwise."
    )
    return [Heading("Overview"), Intervals(bars, caption), *sections]


# --- names and sizes ---------------------------------------------------------------------------------


def title_of(result: AuditResult) -> str:
    """Return what was audited: the algorithm and the problem by their names."""
    subject = result.evidence.subject or result.problem.text
    if result.problem.id == "mdp" and not result.evidence.subject:
        subject = "a table" if result.mdp is None else f"a table of {plural(result.mdp.n_states, 'state')}"
    on = "" if result.problem.id == "callable" else f" on {subject}"  # training code says what it trains on
    return brief(result.algorithm.text + on, 300)


def _size(result: AuditResult) -> str:
    samples = {run.samples for run in result.runs if run.samples is not None}
    of = f" of {number_range(min(samples), max(samples))} samples" if samples else ""
    return f"{plural(result.spec.n_seeds, 'shared seed')} × {result.spec.runs_per_seed} {result.evidence.noun}s{of}"


def _state_name(result: AuditResult, state: int) -> str:
    names = result.labels.states
    return str(state) if names is None or state >= len(names) else names[state]


def _action_name(result: AuditResult, action: object) -> str:
    names = result.labels.actions or ()
    if isinstance(action, float):
        return number(action)
    return names[action] if isinstance(action, int) and 0 <= action < len(names) else f"action {action}"


# --- verdicts ----------------------------------------------------------------------------------------


def judged_level(result: AuditResult) -> str | None:
    """Return the level that the verdict is about; None where no run has an output."""
    return result.level if result.level in result.levels else usual_level(result.levels) if result.levels else None


def verdict_mark(result: AuditResult, level: str | None) -> tuple[Mark, str]:
    """Judge the agreement at a level, the losses, and the claims of the runs: one verdict, and its reason."""
    requirement = None if level is None else result.required(level)
    if result.refuted:
        return Mark("refuted", "bad"), "A claim of the runs is refuted."
    if requirement is None:
        return Mark("–", "plain"), "No agreement is required."
    if result.evidence.differ:
        return Mark("not judged", "unsure"), "Not judged: the logs come from different processes."
    of = "1 − ρ =" if result.spec.require is None or level != result.level else "the required"
    need, loss = f"{of} {number(requirement, 6)}", _loss(result)
    verdict, met = result.verdict(level), result.meets(requirement, level)
    if verdict is True and result.asks_for_nothing:
        return Mark("met, but ε asks for nothing", "unsure"), f"Met, but ε asks for nothing: it is at least {need}."
    if verdict is True:
        return Mark("met", "good"), f"Met: it is at least {need}. {loss}"
    if verdict is False:
        return Mark("not met", "bad"), f"Not met: it is below {need}." if met is False else f"Not met: {loss}"
    if result.unrepeated or result.unsampled:
        return Mark("not shown", "unsure"), f"Not shown: that it is at least {need}."
    return Mark("undecided", "unsure"), f"Undecided: {loss if met is True else f'the interval contains {need}.'}"


def _advice(result: AuditResult, verdict: str) -> str:
    """Say what to do after a verdict, for the kind of evidence that this audit has."""
    if verdict != "met" and _unfinished(result):
        return "the same call makes the missing runs."
    if verdict != "met" and result.failures:
        return "mend the runs that fail, for each counts as different from every other."
    if verdict == "not met" and result.accuracy is not None and result.accuracy.met is False:
        return "draw more samples, or allow a larger loss."
    usual = _ADVICE.get(verdict, "judge by the agreement that you need, with meets(0.9) or --require 0.9.")
    return result.evidence.advice.get(verdict, usual)


def _loss(result: AuditResult) -> str:
    """Say whether runs lose no more than is promised; '' where nothing is."""
    accuracy = result.accuracy
    if accuracy is None:
        return "losses are not known here." if result.evidence.promised else ""
    if accuracy.kept == accuracy.runs:
        return f"Every run loses at most ε = {accuracy.epsilon:g}."
    words = {True: "no more often", False: "more often", None: "undecided whether more often"}
    losing = f"{accuracy.runs - accuracy.kept} of {accuracy.runs} runs lose more than ε = {accuracy.epsilon:g}"
    return f"{losing}, {words[accuracy.met]} than δ allows."


# --- sentences about the runs ------------------------------------------------------------------------


def _returns(result: AuditResult) -> str:
    if result.returns is None:
        return ""
    means = [mean for mean in result.returns.per_run if mean is not None]
    uniform = result.returns.uniform
    than = "" if uniform is None else f"; the uniform policy earns {_mean(uniform)}"
    return (
        f"Mean return {_mean(result.returns.mean)} over {plural(len(means), 'run')}, from {number(min(means))} to "
        f"{number(max(means))}{than}. Intervals of returns are approximate (Student's t)."
    )


def _mean(mean: Estimate) -> str:
    """Write a mean on no known scale with its interval, where it has one."""
    is_known = math.isfinite(mean.low) and mean.low < mean.high
    return number(float(mean)) + (f" ({number(mean.low)} to {number(mean.high)})" if is_known else "")


def _unfinished(result: AuditResult) -> str:
    if len(result.runs) >= result.runs_asked:
        return ""
    return f"{len(result.runs)} of {result.runs_asked} runs are judged: those before the first seed that lacks a run."


def _failed(result: AuditResult) -> str:
    if not result.failures:
        return ""
    run = result.failures[0]
    return (
        f"{len(result.failures)} of {len(result.runs)} runs failed and count as different from every other. The first, "
        f"shared_seed={run.shared_seed}, {result.evidence.sample_of(run)}: {brief(run.error or '', 300)}"
    )


def _worth(result: AuditResult) -> str:
    """Say how many policies there are, and what they are worth."""
    count = len(result.classes("policy"))
    policies = "One policy in all" if count == 1 else f"{count} different policies"
    if result.policies is None:
        unknown = result.returns is None and isinstance(result.evidence, TrainingCode)
        return f"{policies}; evaluate= would measure what they earn." if unknown else f"{policies}."
    returns = [value.expected_return for value in result.policies]
    loss = max(value.loss + value.error for value in result.policies)  # certified, so that "at most" is true
    return f"{policies}: return {number_range(min(returns), max(returns))}, loss at most {number(loss, 3)}."


# --- tables and pictures -----------------------------------------------------------------------------


def _outputs(result: AuditResult, level: str) -> Iterator[Block]:
    """Yield where the policies differ, what they are worth, and two of them side by side."""
    if "policy" not in result.levels:
        yield Text(f"{plural(len(result.classes(level)), 'different result')} over all shared seeds.")
        return
    try:
        yield from _states(result)
        yield Text(_worth(result))
        yield from _pair(result)
    except InvalidFile:
        raise
    except InvalidInput as error:  # runs of one name whose tables do not fit together
        yield Text(f"The policies cannot be compared: {brief(str(error), 300)}", "unsure")


def _states(result: AuditResult) -> Iterator[Block]:
    states, place = result.states, result.place
    count, differing = states.per_state.size, states.differing.tolist()
    if not differing:
        yield Text(f"Two runs take the same action in every {place} ({count}).")
        return
    listed = differing[:_STATES]
    first = f"; the first {_STATES}" if len(differing) > len(listed) else ""
    yield Text(f"Two runs differ in {len(differing)} of {plural(count, place)}{first}:")
    rows = [[brief(_state_name(result, s), _NAME), share(states.per_state[s]), _taken(result, s)] for s in listed]
    yield Table([place, "agreement", "actions"], rows)


def _taken(result: AuditResult, state: int) -> str:
    """Say which actions the runs take in a state, the common ones first."""
    counts = list(result.actions(state).items())
    named = [f"{brief(_action_name(result, action), _NAME)} in {runs}" for action, runs in counts[:_ACTIONS]]
    return ", ".join([*named, f"{len(counts) - _ACTIONS} others"] if len(counts) > _ACTIONS else named)


def _pair(result: AuditResult) -> Iterator[Block]:
    """Yield two runs with one shared seed, which differ if any two do."""
    decided = [run for run in result.runs if "policy" in run.fingerprints]
    pairs = [pair for pair in itertools.pairwise(decided) if pair[0].shared_seed == pair[1].shared_seed]
    differing = (pair for pair in pairs if pair[0].fingerprints.policy != pair[1].fingerprints.policy)
    chosen = next(differing, pairs[0] if pairs else None)
    if chosen is None or any(run.policy.ndim != 1 or run.policy.dtype.kind != "i" for run in chosen):
        return  # actions on observations make no picture
    names = [_state_name(result, s) for s in range(chosen[0].policy.size)]
    actions = ([_action_name(result, a) for a in run.policy.tolist()] for run in chosen)
    runs = list(zip(("First run", "Second run"), actions, strict=True))
    samples = " and ".join(result.evidence.sample_of(run) for run in chosen)
    caption = f"Two runs with the shared seed {chosen[0].shared_seed}: {samples}."
    yield Policy(names, runs, result.labels.layout, caption, detail=True)


def _levels(result: AuditResult) -> Table:
    rows: list[list[Cell]] = [
        [
            *(name, f"{agreement.same} of {agreement.pairs}", share(agreement.estimate)),
            interval(agreement.low, agreement.high),
            *(share(agreement.modal_share), share(agreement.unique_share), len(result.classes(name))),
        ]
        for name, agreement in result.agreements.items()
    ]
    values = next(iter(result.agreements.values())).independent
    caption = (
        f"All levels. The intervals rest on {plural(values, 'independent value')}, and hold however often more are "
        "added. Under one shared seed, the modal share is the largest class of identical runs divided by all runs, and "
        "the unique share is the number of classes divided by all runs; both are means over shared seeds."
    )
    columns = ["level", "same", "agreement", "at every look", "modal", "unique", "classes"]
    return Table(columns, rows, caption, detail=True)


def _claims(result: AuditResult) -> Iterator[Block]:
    """Yield what the algorithm claims before any measurement, and why nothing is claimed where nothing is."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for run in result.runs:
        for claim in run.claims:
            statement = "; if ".join((claim.statement, *claim.conditions))
            source = claim.source if claim.kind == "stated" else cited(claim.source)
            counts[claim.about, statement, claim.ground, source] += 1
        for about, reason in run.claims.missing.items():
            counts[about, f"Nothing is proved: {cited(reason)}", "none", "–"] += 1
    if counts:
        order = sorted(counts.items(), key=lambda item: (item[0][0], -item[1]))[:_ROWS]
        rows: list[list[Cell]] = [[*(brief(text, 600) for text in texts), runs] for texts, runs in order]
        caption = "What the algorithm claims."
        yield Table(["about", "statement", "kind", "source", "runs"], rows, caption, detail=True)


def _origin(result: AuditResult) -> Facts:
    """Return what a pair of runs shares, what is fresh, and the seed of the audit."""
    shared, fresh = result.evidence.shared, result.fresh
    pairs: list[tuple[str, Cell]] = [("shared by a pair of runs", shared), ("fresh in every run", fresh)]
    return Facts([*pairs, ("seed of the audit", str(result.spec.seed))], detail=True)
