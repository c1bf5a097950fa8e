"""An audit's result as text for people, 80 columns wide or narrower, and as JSON for programs."""

import math
import textwrap
from dataclasses import asdict
from typing import Any

from replicable_rl.audit import Agreement, AuditResult
from replicable_rl.audit.sampled import fresh, other_versions, suspicion, versions
from replicable_rl.canonical import Json, to_json
from replicable_rl.display import shows
from replicable_rl.pages.layout import NARROWEST, Column, laid_out, left_out
from replicable_rl.pages.log_texts import (
    about_looks,
    compared,
    first_of_all,
    process_text,
    sample_of,
    size,
    subject,
    undecided,
)
from replicable_rl.pages.training_texts import (
    closeness_text,
    loss_text,
    loss_verdict,
    returns_text,
    training_json,
    unknown_returns,
    warnings_text,
)
from replicable_rl.runs import ObjectSpec, in_order
from replicable_rl.wording import brief, interval, number, number_range, percent, plural, share

_WIDTH = 80
_SHOWN = 6  # states listed by name
_LONGEST = 3  # lines about what was run
_LEVEL = 13  # letters of a level in the table
_LEFT = 28  # columns of the level and its pairs
NOTHING_YET = "The first shared seed does not have all of its runs yet, so there is nothing to compare."
_SHARES = (
    "Under one shared seed, the modal share is the largest group of identical runs divided by all runs, and the unique "
    "share is the number of groups divided by all runs. Both are means over shared seeds."
)


def promise(result: AuditResult) -> float | None:
    """Return the agreement that is promised, 1 - rho: below 1, also where rho is too small to be seen in it."""
    return None if result.rho is None else min(1.0 - result.rho, math.nextafter(1.0, 0.0))


def headline(result: AuditResult, level: str, require: float | None = None) -> str:
    """Return the sentence that answers the question of an audit; further verdicts have sentences of their own."""
    found = result.agreement(level)
    text = f"Same {level} in {found.same} of {found.pairs} {compared(result)}: agreement {found.every_look}"
    promised, more = promise(result), ""
    if require is None and level == result.level:
        require = result.spec.require
    if promised is not None:
        text += f", 1−ρ = {number(promised, 6)} {_verdict(result, promised, level)}"
        more = _finest(result, promised, level)
    if require is not None and promised is None:
        text += f", required {number(require, 6)} {_verdict(result, require, level)}"
    elif require is not None and promised is not None and abs(require - promised) > 1e-12:
        more += f" Required {number(require, 6)}: {_verdict(result, require, level)}."
    asked = promised is not None or require is not None
    claims = "; a claim of the runs is refuted" if result.refuted else ""
    return f"{text}{loss_verdict(result) if asked else ''}{claims}.{more}"


def _finest(result: AuditResult, promised: float, level: str) -> str:
    """Say what becomes of 1 - rho at the finest level, where a promise is about it and the verdict is another one."""
    finest = in_order(result.levels)[0]
    if result.meets(promised, finest) == result.meets(promised, level):
        return ""
    found = result.agreement(finest)
    return f" For the {finest}, the same in {found.same} of {found.pairs}: {_verdict(result, promised, finest)}."


def _verdict(result: AuditResult, asked: float, level: str) -> str:
    met = result.meets(asked, level)
    if met is not None:
        return "met" if met else "not met"
    return "not shown" if result.unrepeated or result.unsampled else undecided(result)


def summary_lines(number: str, result: AuditResult, width: int = _WIDTH, level: str | None = None) -> list[str]:
    """Return one audit of many in a few lines: what was run, the headline, and what is missing."""
    level, indent = level or result.level, " " * (len(number) + 2)
    lacking = f"No run of it has a {level}." if result.runs else NOTHING_YET
    found = headline(result, level) if level in result.levels else lacking
    texts = (
        first_of_all(result),
        *warnings_text(result),
        found,
        unfinished(result),
        _failed(result),
        other_versions(result.runs),
        closeness_text(result),
        returns_text(result),
    )
    lines = [f"{indent}{line}" for text in texts for line in _wrapped(text, width - len(indent))]
    return [*_specs(result, f"{number}  ", indent, width), *lines]


@shows("audit table")
def result_table(result: AuditResult, level: str, require: float | None = None, width: int = _WIDTH) -> str:
    """Return the table, the headline, and where and by how much runs differ."""
    spec, width = result.spec, max(width, NARROWEST)
    samples = {run.samples for run in result.runs if run.samples is not None}
    drawn = "" if not samples else f", {number_range(min(samples), max(samples))} samples each"
    first = [text for text in (first_of_all(result), *warnings_text(result)) if text]
    table, missing = laid_out(_columns(list(result.agreements.values())), width)
    shares = left_out(missing) if missing else _SHARES
    lines = [
        *([*(line for text in first for line in _wrapped(text, width)), ""] if first else []),
        *_specs(result, width=width),
        *_wrapped(f"{size(result)}{drawn}; {percent(spec.confidence)} intervals", width),
        "",
        *table,
        *_wrapped(f"{about_looks(result)} {shares}", width),
        "",
        *_wrapped(headline(result, level, require), width),
        *(_where(result, width) if "policy" in result.levels else ()),
        *_wrapped(closeness_text(result), width),
        *_wrapped(worth_text(result, level), width),
        *_wrapped(returns_text(result), width),
        *_wrapped(unfinished(result), width),
        *_wrapped(_failed(result), width),
        *_wrapped(other_versions(result.runs), width),
        *_wrapped(f"Shared by the runs of a pair: {spec.shared}. Fresh: {fresh(spec, result.runs)}.", width),
    ]
    return "\n".join(lines)


def _columns(found: list[Agreement]) -> list[Column]:
    """Return the table of all levels; in a narrow terminal, the shares go first and the interval of one look next."""
    levels = [brief(one.level, _LEVEL) for one in found]
    width = max(7, *(1 + len(level) for level in levels))
    pairs = [f"{one.same} of {one.pairs}" for one in found]
    short = [f"{one.same:.4g} of {one.pairs:.4g}" for one in found]
    fitting = [long if len(long) <= _LEFT - width else few for long, few in zip(pairs, short, strict=True)]
    looks = [[interval(x.low, x.high) for x in (one.value, one.every_look)] for one in found]
    return [
        Column("level", levels, width, "<"),
        Column("pairs the same", fitting, _LEFT - width),
        Column("agreement", [share(one.estimate) for one in found], 11),
        Column("one look", [one for one, _ in looks], 13, rank=1),
        Column("every look", [every for _, every in looks], 13),
        Column("modal", [share(one.modal_share) for one in found], 7, rank=3),
        Column("unique", [share(one.unique_share) for one in found], 8, rank=3),
    ]


def _where(result: AuditResult, width: int) -> list[str]:
    """Say in which states runs differ, and what they do there."""
    states = result.states
    S, many = states.per_state.size, states.differing.size
    noun = result.place
    if not many:
        return [f"Two runs take the same action in every {noun} ({S})."]
    said = f"Two runs act alike in {states.every_look} of the {plural(S, noun)}. They differ in {many}:"
    told = (f"{noun} {state_name(result, s)}: {actions_taken(result, s)}" for s in states.differing[:_SHOWN].tolist())
    lines = [*_wrapped(said, width), *("  " + textwrap.shorten(text, width - 2, placeholder=" ...") for text in told)]
    return lines if many <= _SHOWN else [*lines, f"  and {many - _SHOWN} more"]


def state_name(result: AuditResult, state: int) -> str:
    """Return the name of a state, or the observation, or the number where it has none."""
    if getattr(result.probe, "ndim", None) == 1:
        return str(result.probe[state])
    names = result.labels.states
    return str(state) if names is None or state >= len(names) else names[state]


def actions_taken(result: AuditResult, state: int, most: int | None = None) -> str:
    """Say which actions the runs take in a state, or the ``most`` common of them."""
    names = dict(enumerate(result.labels.actions or ()))
    taken = list(result.actions(state).items())
    said = [f"{names.get(action, f'action {action}')} in {plural(runs, 'run')}" for action, runs in taken[:most]]
    return ", ".join([*said, f"{len(taken) - len(said)} others"] if len(taken) > len(said) else said)


def worth_text(result: AuditResult, level: str) -> str:
    """Say how many different results there are, and what policies are worth."""
    if "policy" not in result.levels:
        kind = f"distinct {level.removesuffix('s')}" if level.endswith("s") else f"distinct {level}"
        return f"{plural(len(result.classes(level)), kind)} over all shared seeds."
    n = len(result.classes("policy"))
    count = "One policy in all" if n == 1 else f"{n} distinct policies over all shared seeds"
    if result.policies is None:
        return f"{count}{unknown_returns(result)}"
    returns = [one.expected_return for one in result.policies]
    loss = max(one.loss + one.error for one in result.policies)  # certified, so that "at most" is true
    worst = max(one.worst_loss + one.normalised_error for one in result.policies)
    return (
        f"{count}: return {number_range(min(returns), max(returns))}, loss against the optimum at most "
        f"{number(loss, 3)} (from the worst state, in values normalised to [0, 1]: {number(worst, 3)}). "
        f"{loss_text(result)}"
    )


def unfinished(result: AuditResult) -> str:
    """Say how many runs of an audit are judged, '' if all."""
    there, asked = len(result.runs), result.runs_asked
    said = (
        f"{there} of {asked} runs are judged: those before the first shared seed that lacks a run, for what finishes "
    )
    said += "first need not be like the rest. The same audit makes the others."
    return said if there < asked else ""


def _failed(result: AuditResult) -> str:
    failed = result.failures
    if not failed:
        return ""
    return (
        f"{len(failed)} of {len(result.runs)} runs failed and count as different from every other. The first: "
        f"shared seed {failed[0].shared_seed}, {sample_of(result, failed[0])}: {failed[0].error}"
    )


def _wrapped(text: str, width: int = _WIDTH) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) if text else []


def _specs(result: AuditResult, first: str = "", indent: str = "", width: int = _WIDTH) -> list[str]:
    """Problem and algorithm; what is too long for a line is broken after a comma."""
    algorithm = ObjectSpec(result.algorithm.id, dict(sorted(result.algorithm.params.items()))).text
    if result.logs is not None:
        return [*_wrapped(f"{first}{subject(result)}", width), *_fitted(f"{indent}{algorithm}", indent, width)]
    return _fitted(f"{first}{subject(result)}  {algorithm}", indent, width)


def _fitted(text: str, indent: str, width: int) -> list[str]:
    lines = textwrap.wrap(text.replace(",", ", "), width, subsequent_indent=indent, break_on_hyphens=False)
    if len(lines) > _LONGEST:  # JSON has it whole
        lines = [*lines[: _LONGEST - 1], f"{lines[_LONGEST - 1].rpartition(' ')[0]} ..."]
    return [line.replace(", ", ",") for line in lines]


@shows("audit JSON")
def result_json(result: AuditResult, timing: bool) -> dict[str, Json]:
    """Return everything found, as JSON; seeds and samples are strings, for they may pass 2**53."""
    spec = result.spec
    data: dict[str, Json] = {
        "format": "replicable-rl audit",
        "version": 1,
        **_logs_json(result),
        "problem": result.problem.to_json(),
        "algorithm": result.algorithm.to_json(),
        "sampler": spec.sampler,
        "shared_seeds": [str(seed) for seed in spec.seeds],
        "runs_per_seed": spec.runs_per_seed,
        "runs": {"asked": result.runs_asked, "there": len(result.runs)},
        "seed": str(spec.seed),
        "confidence": spec.confidence,
        "rho": result.rho,
        "require": spec.require,
        "level": result.level,
        "randomness": {"shared": spec.shared, "fresh": fresh(spec, result.runs)},
        **training_json(result),
        "unsampled": result.unsampled or None,
        "suspicion": suspicion(result) or None,
        "made_with": [{"runs": runs, **by} for by, runs in versions(result.runs)],
        "samples": None if result.samples is None else str(result.samples),
        "claims": [claims.to_json() for claims in dict.fromkeys(run.claims for run in result.runs if not run.error)],
        "refuted": list(result.refuted),
        "levels": {level: _level_json(result, level) for level in result.levels},
        "failures": [
            {"shared_seed": str(run.shared_seed)}
            | ({"sample_seed": str(run.sample_seed)} if result.logs is None else {"log": result.logs.name_of(run)})
            | {"run": run.key, "error": run.error}
            for run in result.failures
        ],
    }
    if "policy" in result.levels:
        data |= _policy_json(result)
    return data | {"seconds": result.seconds} if timing else data


def _logs_json(result: AuditResult) -> dict[str, Json]:
    logs = result.logs
    return {} if logs is None else {"logs": {"differ": logs.differ, "sentence": process_text(logs), **to_json(logs)}}


def _level_json(result: AuditResult, level: str) -> dict[str, Json]:
    found = result.agreement(level)
    return {
        "agreement": found.value.to_json(),
        "every_look": found.every_look.to_json(),
        "same": found.same,
        "pairs": found.pairs,
        "independent": found.independent,
        "modal_share": found.modal_share.to_json(),
        "unique_share": found.unique_share.to_json(),
        "classes": [asdict(one) for one in result.classes(level)],
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
        "actions_every_look": states.every_look.to_json(),
        "states": states.per_state.size,
        "differing": differing,
        "policies": policies,
    }
