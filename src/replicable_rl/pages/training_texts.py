"""What is said of an audit beside agreement: warnings first, then what runs earn, lose, and how close they are."""

from __future__ import annotations

import math

from replicable_rl.audit import Accuracy, AuditResult, Estimate
from replicable_rl.canonical import Json
from replicable_rl.runs import OWN
from replicable_rl.wording import number, plural

_UNMEASURED = "the model is not known, so neither are their returns."
_MEASURE = " Pass evaluate=... (--evaluate) to measure them."

LOSES_TOO_MUCH = " Runs that agree and lose more than the ε that is promised do not meet what is asked for."


def warnings_text(result: AuditResult) -> list[str]:
    """Return the warnings of an audit, each a sentence that says what it is."""
    return [f"Warning: {said}" for said in result.warnings]


def with_interval(found: Estimate) -> str:
    """Write a mean on no known scale with its interval; one value has none, nor has an exact one.

    >>> with_interval(Estimate(12.5, 10.0, 15.0)), with_interval(Estimate(3.0, -math.inf, math.inf))
    ('12.5 (10 to 15)', '3')
    """
    mean = number(float(found))
    known = math.isfinite(found.low) and found.low < found.high
    return f"{mean} ({number(found.low)} to {number(found.high)})" if known else mean


def returns_text(result: AuditResult) -> str:
    """Say what the runs earned, or that nobody knows."""
    found = result.returns
    if found is None:
        return ""
    runs = sum(one is not None for one in found.per_run)
    each = found.episodes / runs
    episodes = f", {number(each)} episodes each" if each > 1 else ""
    seed = " under this one shared seed" if result.spec.n_seeds == 1 else ""
    said = f"Mean return {with_interval(found.mean)} over {plural(runs, 'run')}{seed}{episodes}"
    said += "" if runs == 1 else f"; the runs earn {number(found.lowest)} to {number(found.highest)}"
    said += "" if found.uniform is None else f", the uniform policy {with_interval(found.uniform)}"
    return f"{said}. Intervals of returns are approximate (Student's t)."


def unknown_returns(result: AuditResult) -> str:
    """Say, after how many policies there are, that their returns are not known; '' where they were measured."""
    if result.returns is not None:
        return "."
    is_training = result.spec.sampler == OWN and result.logs is None
    return f"; {_UNMEASURED}{_MEASURE if is_training else ''}"  # others have nothing to evaluate


def loss_text(result: AuditResult) -> str:
    """Say whether runs lose no more than was promised; '' where nothing was, or losses are not known."""
    found = result.accuracy
    if found is None:
        return ""
    if found.kept == found.runs:
        return f"Every run loses at most ε = {found.epsilon:g}."
    return f"{_broken(found)}: {_VERDICTS[found.met]}."


def loss_verdict(result: AuditResult) -> str:
    """Say, beside the verdict about agreement, that losses speak against it, or that ε is no demand; '' otherwise."""
    found, asked = result.accuracy, result.spec.training
    if result.loss_not_judged and asked is not None:
        return f", ε = {asked.epsilon:g} not judged (losses are not known here)"
    if result.asks_for_nothing and (found is None or found.met is True):
        return ", ε asks for nothing"
    if found is None or found.met is True:
        return ""
    return f", ε = {found.epsilon:g} {'not met' if found.met is False else 'undecided'}"


def closeness_text(result: AuditResult) -> str:
    """Say how far actions are apart, where a tolerance was given."""
    found = result.closeness
    if found is None:
        return ""
    return (
        f"Actions at most {found.tolerance:g} apart on every observation: {found.close} of {found.pairs} pairs, "
        f"{found.every_look}; on {found.observations} of the observations. They are "
        f"{number(found.mean_distance, 3)} apart on average, and {number(found.largest_distance, 3)} at most."
    )


def training_json(result: AuditResult) -> dict[str, Json]:
    """Return all of it for programs."""
    returns, accuracy, close = result.returns, result.accuracy, result.closeness
    data: dict[str, Json] = {"warnings": list(result.warnings), "returns": None, "accuracy": None, "closeness": None}
    if returns is not None:
        per_run = [None if one is None else _estimate(one) for one in returns.per_run]
        uniform = None if returns.uniform is None else _estimate(returns.uniform)
        per_seed = [None if math.isnan(one) else one for one in returns.per_seed.tolist()]
        data["returns"] = {"mean": _estimate(returns.mean), "per_seed": per_seed, "per_run": per_run}
        data["returns"] |= {"episodes": returns.episodes, "uniform": uniform, "interval": "approximate: Student's t"}
    if accuracy is not None:
        data["accuracy"] = {"epsilon": accuracy.epsilon, "delta": accuracy.delta, "over": accuracy.over}
        data["accuracy"] |= {"kept": accuracy.kept, "runs": accuracy.runs, "share": accuracy.share.to_json()}
        data["accuracy"] |= {"met": accuracy.met}
    if close is not None:
        mean = None if math.isnan(close.mean_distance) else close.mean_distance
        data["closeness"] = {"tolerance": close.tolerance, "close": close.close, "pairs": close.pairs}
        data["closeness"] |= {"value": close.value.to_json(), "every_look": close.every_look.to_json()}
        data["closeness"] |= {"observations": close.observations.to_json(), "mean_distance": mean}
        data["closeness"] |= {"largest_distance": close.largest_distance}
    return data


def _estimate(found: Estimate) -> dict[str, Json]:
    """Return an estimate; ends that nobody knows are null."""
    return {name: one if math.isfinite(one) else None for name, one in found.to_json().items()}


def _broken(found: Accuracy) -> str:
    return f"{found.runs - found.kept} of {found.runs} runs lose more than ε = {found.epsilon:g}"


_VERDICTS = {
    True: "no more often than the δ that is allowed",
    False: "more often than the δ that is allowed, so ε is not met",
    None: "more runs would tell whether that is more often than δ allows",
}
