"""An audit's result as text for people, 80 columns wide, and as JSON for programs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from replicable_rl.canonical import Json
from replicable_rl.records import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicable_rl.audit.agreement import Agreement
    from replicable_rl.audit.result import AuditResult
    from replicable_rl.records import ObjectSpec
    from replicable_rl.store import FamilySummary

__all__ = ["listing", "result_json", "result_table", "summary_lines"]

_WIDTH = 80
_SHOWN = 6  # states listed by name
_LONGEST = 3  # lines about what was run


def short(x: float | None) -> str:
    """Write a number for a person: whole up to nine digits, else four significant ones."""
    if x is None:
        return "-"
    return str(x) if isinstance(x, int) and abs(x) < 10**9 else f"{x:.4g}"


def headline(result: AuditResult, level: Level, require: float | None = None) -> str:
    """Return the one sentence that answers the question of an audit."""
    found = result.agreement(level)
    text = f"Same {level} in {found.same} of {found.pairs} pairs: agreement {found.value}"
    promised = None if result.rho is None else 1.0 - result.rho
    if promised is not None:
        text += f", 1−ρ = {promised:.6g} {_VERDICT[result.meets(promised, level)]}"
    if require is not None and (promised is None or abs(require - promised) > 1e-12):
        text += f", required {require:.6g} {_VERDICT[result.meets(require, level)]}"
    return text + "."


_VERDICT = {True: "met", False: "not met", None: "undecided (more shared seeds would tell)"}


def summary_lines(number: str, result: AuditResult, level: str, require: float | None = None) -> list[str]:
    """Return an audit of a sweep in a few lines: what was run, and the headline."""
    known = next((one for one in result.levels if one == level), None)
    verdict = headline(result, known, require) if known else f"No run of it has a {level}."
    indent = " " * (len(number) + 2)
    said = [f"{indent}{line}" for text in (verdict, _failed(result)) for line in _wrapped(text, _WIDTH - len(indent))]
    return [*_specs(result.problem, result.algorithm, f"{number}  ", indent), *said]


def listing(families: Sequence[FamilySummary]) -> list[str]:
    """Return what a store holds, in a few lines for every algorithm on every problem."""
    lines = []
    for i, family in enumerate(families, start=1):
        first, indent = f"{i}  ", " " * (len(str(i)) + 2)
        agree = ", ".join(f"same {level} in {same} of {family.pairs} pairs" for level, same in family.same.items())
        said = f"{family.runs} runs under {family.shared_seeds} shared seeds: {agree}."
        lines += _specs(family.problem, family.algorithm, first, indent)
        lines += [f"{indent}{line}" for line in _wrapped(said, _WIDTH - len(indent))]
    return lines


def result_table(result: AuditResult, level: Level, require: float | None = None) -> str:
    """Return the table, the headline, and where and by how much runs differ."""
    plan, found = result.plan, result.agreements
    J, R = len(plan.shared_seeds), plan.runs_per_seed
    samples = {record.samples for record in result.records if record.samples is not None}
    drawn = "" if not samples else f", {_range(min(samples), max(samples))} samples each"
    lines = [
        *_specs(result.problem, result.algorithm),
        f"{J} shared seed{'s' * (J > 1)} × {R} runs{drawn}; {100 * plan.confidence:.10g} % intervals",
        "",
        f"{'level':<7}{'pairs the same':>22}{'agreement':>11}{'interval':>15}{'modal share':>12}{'unique share':>13}",
        *(_row(one) for one in found.values()),
        "Of the runs under one shared seed, the modal share is in the largest group of",
        "identical ones; the unique share is the number of groups. Both are means.",
        "",
        *_wrapped(headline(result, level, require)),
        *_where(result),
        *_wrapped(_worth(result)),
        *_wrapped(_failed(result)),
        *_wrapped(f"Shared by the runs of a pair: {result.shared_randomness}. Fresh: {result.fresh_randomness}."),
    ]
    return "\n".join(lines)


def _row(one: Agreement) -> str:
    pairs = f"{one.same} of {one.pairs}"
    pairs = pairs if len(pairs) <= 22 else f"{one.same:.4g} of {one.pairs:.4g}"
    interval = f"{one.low:.3f}–{one.high:.3f}"
    shares = f"{float(one.modal_share):>12.3f}{float(one.unique_share):>13.3f}"
    return f"{one.level:<7}{pairs:>22}{one.estimate:>11.3f}{interval:>15}{shares}"


def _where(result: AuditResult) -> list[str]:
    """Say in which states runs differ, and what they do there."""
    states = result.states
    S = states.per_state.size
    noun = "state" if result.probe is None else "observation"
    if not states.differing.size:
        return [f"Two runs take the same action in every {noun} ({S})."]
    many = states.differing.size
    said = f"Two runs act alike in {states.overall} of the {S} {noun}s. They differ in {many}:"
    lines = [*_wrapped(said), *(_state(result, noun, int(s)) for s in states.differing[:_SHOWN])]
    return lines if many <= _SHOWN else [*lines, f"  and {many - _SHOWN} more"]


def _state(result: AuditResult, noun: str, state: int) -> str:
    """Say which actions the runs take in a state, in one line."""
    labels = None if result.mdp is None else result.mdp.labels
    name = labels.states[state] if labels and labels.states else str(state)
    if result.probe is not None and result.probe.ndim == 1:
        name = str(result.probe[state])
    actions = labels.actions if labels else None
    seen = [(actions[action] if actions else action, runs) for action, runs in result.actions(state).items()]
    taken = ", ".join(f"{'' if actions else 'action '}{action} in {runs} runs" for action, runs in seen)
    return "  " + textwrap.shorten(f"{noun} {name}: {taken}", _WIDTH - 2, placeholder=" ...")


def _worth(result: AuditResult) -> str:
    """Say how many policies there are and what they are worth."""
    n = len(result.classes("policy"))
    count = "One policy in all" if n == 1 else f"{n} distinct policies over all shared seeds"
    if result.policies is None:
        return f"{count}; the model is not known, so neither are their returns."
    returns = [one.expected_return for one in result.policies]
    loss = max(one.loss + one.error for one in result.policies)  # certified, so that "at most" is true
    worst = max(one.worst_loss + one.normalised_error for one in result.policies)
    return (
        f"{count}: return {_range(min(returns), max(returns))}, loss against the optimum at most {loss:.3g} "
        f"(from the worst state, in values normalised to [0, 1]: {worst:.3g})."
    )


def _failed(result: AuditResult) -> str:
    failed = result.failures
    if not failed:
        return ""
    first = failed[0]
    return (
        f"{len(failed)} of {len(result.records)} runs failed and count as different from every other. The first: "
        f"shared seed {first.shared_seed}, sample seed {first.sample_seed}: {first.error}"
    )


def _range(low: float, high: float) -> str:
    return short(low) if short(low) == short(high) else f"{short(low)} to {short(high)}"


def _wrapped(text: str, width: int = _WIDTH) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) if text else []


def _specs(problem: ObjectSpec, algorithm: ObjectSpec, first: str = "", indent: str = "") -> list[str]:
    """Problem and algorithm; what is too long for a line is broken after a comma."""
    text = f"{first}{problem.text}  {algorithm.text}".replace(",", ", ")
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    if len(lines) > _LONGEST:  # JSON has it whole
        lines = [*lines[: _LONGEST - 1], f"{lines[_LONGEST - 1][: _WIDTH - 3]}..."]
    return [line.replace(", ", ",") for line in lines]


def result_json(result: AuditResult, timing: bool) -> dict[str, Json]:
    """Return everything found, as JSON; seeds and samples are strings, for they may pass 2**53."""
    plan = result.plan
    data: dict[str, Json] = {
        "format": "replicable-rl audit",
        "version": 1,
        "problem": result.problem.to_json(),
        "algorithm": result.algorithm.to_json(),
        "shared_seeds": [str(seed) for seed in plan.shared_seeds],
        "runs_per_seed": plan.runs_per_seed,
        "seed": str(plan.seed),
        "confidence": plan.confidence,
        "rho": result.rho,
        "randomness": {"shared": result.shared_randomness, "fresh": result.fresh_randomness},
        "samples": None if result.samples is None else str(result.samples),
        "guarantees": sorted({str(record.guarantee) for record in result.records if record.guarantee is not None}),
        "levels": {level: _level_json(result, level) for level in result.levels},
        "failures": [
            {"shared_seed": str(r.shared_seed), "sample_seed": str(r.sample_seed), "run": r.key, "error": r.error}
            for r in result.failures
        ],
    }
    if "policy" in result.levels:
        data |= _policy_json(result)
    return data | {"seconds": result.seconds} if timing else data


def _level_json(result: AuditResult, level: Level) -> dict[str, Json]:
    found = result.agreement(level)
    classes = [
        {"fingerprint": one.fingerprint, "runs": one.runs, "shared_seeds": one.shared_seeds}
        for one in result.classes(level)
    ]
    return {
        "agreement": found.value.to_json(),
        "same": found.same,
        "pairs": found.pairs,
        "modal_share": found.modal_share.to_json(),
        "unique_share": found.unique_share.to_json(),
        "classes": classes,
        "class_sizes": {str(seed): list(sizes) for seed, sizes in result.class_sizes(level).items()},
    }


def _policy_json(result: AuditResult) -> dict[str, Json]:
    states = result.states
    differing: list[dict[str, Any]] = [
        {
            "state": int(s),
            "agreement": float(states.per_state[s]),
            "actions": [{"action": action, "runs": runs} for action, runs in result.actions(int(s)).items()],
        }
        for s in states.differing
    ]
    policies = None
    if result.policies is not None:
        policies = [
            {"fingerprint": p.fingerprint, "runs": p.runs, "return": p.expected_return, "loss": p.loss}
            | {"worst_loss": p.worst_loss, "error": p.error}
            for p in result.policies
        ]
    return {
        "actions": states.overall.to_json(),
        "states": states.per_state.size,
        "differing": differing,
        "policies": policies,
    }
