"""What a page says of the policies of an audit: which there are, where they differ, and two beside each other.

A page stays small however large the audit: long lists are cut and say so, and what would take a pass over very
many policies is measured under the first shared seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from replicable_rl.audit import AuditResult
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.records import RunRecord
from replicable_rl.report.commands import brief, solve_command
from replicable_rl.report.page import Block, Cell, Code, DataTable, Heading, Plain, Text, picture_of, policy_run

__all__ = ["policy_blocks"]

_CLASSES = 8
_VALUED = 50  # distinct policies whose returns are computed
_POLICIES = 2_000  # distinct policies that are compared state by state
_ENTRIES = 20_000_000  # of all of them together
_STATES = 12
_ACTIONS = 5


def policy_blocks(result: AuditResult) -> Iterator[Block]:
    """Yield the policies there are, the states in which they differ, and two of them beside each other."""
    try:
        yield Heading("Which policies there are")
        yield _classes(result)
        yield from _states(result, len(result.classes("policy")))
        yield from _picture(result)
    except InvalidFile:
        raise
    except InvalidInput as error:  # runs of one name whose tables do not fit together
        yield Text([["The policies cannot be compared: ", Plain(brief(str(error), 300))]])


def _classes(result: AuditResult) -> DataTable:
    classes = result.classes("policy")
    worth = {}
    if len(classes) <= _VALUED:
        worth = {one.fingerprint: one for one in result.policies or ()}
    rows: list[list[Cell]] = []
    for one in classes[:_CLASSES]:
        value = worth.get(one.fingerprint)
        row: list[Cell] = [
            Code(one.fingerprint[:16]),
            one.runs,
            f"{one.runs / len(result.records):.3f}",
            one.shared_seeds,
        ]
        rows.append([*row, value.expected_return, value.loss] if value else row)
    columns = ["policy", "runs", "share of runs", "shared seeds"]
    caption = "The most common policies over all shared seeds, by the beginning of their fingerprints."
    if worth:
        columns += ["return", "loss"]
        caption += " The return is exact, and the loss is what it lacks to the best."
    more = len(classes) - _CLASSES
    note = f"{more} more {'policies are' if more > 1 else 'policy is'} not listed." if more > 0 else None
    return DataTable(columns, rows, caption, note=note)


def _states(result: AuditResult, distinct: int) -> Iterator[Block]:
    """Say where runs differ; of very many policies, under the first shared seeds."""
    some = _first_seeds(result, distinct)
    if some is None:
        yield Text(["There are too many policies, or too large ones, to compare them state by state here."])
        return
    states = some.states
    S, many = states.per_state.size, states.differing.size
    noun = "state" if result.mdp is not None else "state or observation"
    yield Heading("Where two runs differ")
    limited = some is not result
    where = f" (measured under the first {len(some.plan.shared_seeds)} shared seeds)" if limited else ""
    if not many:
        yield Text([f"Two runs take the same action in every {noun} ({S}){where}."])
        return
    labels = None if result.mdp is None else result.mdp.labels
    rows: list[list[Cell]] = []
    for s in states.differing[:_STATES].tolist():
        name = labels.states[s] if labels and labels.states else str(s)
        rows.append([brief(name, 60), f"{states.per_state[s]:.3f}", _actions(some, s)])
    caption = (
        f"Two runs act alike in {states.overall} of {S} {noun}s{where}; they differ in {many}, least agreement first."
    )
    note = f"{many - _STATES} more are not listed." if many > _STATES else None
    yield DataTable([noun, "agreement", "actions taken"], rows, caption, note=note)


def _first_seeds(result: AuditResult, distinct: int) -> AuditResult | None:
    first = next(record.policy for record in result.records if record.policy is not None)
    size = result.store.array(first).size
    most = min(_POLICIES, _ENTRIES // max(1, size))
    if distinct <= most:
        return result
    R, seen, taken = result.plan.runs_per_seed, set[str | None](), 0
    for i in range(0, len(result.records), R):
        seen |= {record.policy for record in result.records[i : i + R]}
        if len(seen) > most:
            break
        taken += 1
    if taken == 0:
        return None
    plan = replace(result.plan, shared_seeds=result.plan.shared_seeds[:taken])
    return replace(result, plan=plan, records=result.records[: taken * R])


def _actions(result: AuditResult, state: int) -> str:
    names = None if result.mdp is None else result.mdp.labels.actions
    taken = list(result.actions(state).items())
    said = [f"{_name(names, action)} in {runs} run{'s' * (runs > 1)}" for action, runs in taken[:_ACTIONS]]
    return ", ".join([*said, f"{len(taken) - _ACTIONS} others"] if len(taken) > _ACTIONS else said)


def _name(names: Sequence[str] | None, action: Any) -> str:
    return names[action] if names and isinstance(action, int) and 0 <= action < len(names) else f"action {action}"


def _picture(result: AuditResult) -> Iterator[Block]:
    """Draw two runs with one shared seed: two that differ, if there are any."""
    one, two = _pair(result)
    if one is None or two is None:
        return
    store = result.store
    runs = []
    for name, record in (("First run", one), ("Second run", two)):
        policy = store.array(record.policy or "")
        if policy.ndim != 1 or policy.dtype.kind != "i":
            return  # what a function does on observations is no picture
        runs.append(policy_run(name, policy, None if record.value is None else store.array(record.value)))
    differ = one.policy != two.policy
    seeds = f"shared seed {one.shared_seed}; sample seeds {one.sample_seed} and {two.sample_seed}"
    first = "Two runs that differ" if differ else "Two runs, which give the same policy"
    yield Heading("Two runs beside each other")
    yield picture_of(
        None if result.mdp is None else result.mdp.labels,
        (runs[0], runs[1]),
        caption=f"{first} ({seeds}).",
        command=solve_command(result, one),
    )


def _pair(result: AuditResult) -> tuple[RunRecord | None, RunRecord | None]:
    R, same = result.plan.runs_per_seed, (None, None)
    for i in range(0, len(result.records), R):
        done = [record for record in result.records[i : i + R] if record.policy is not None]
        for other in done[1:]:
            if other.policy != done[0].policy:
                return done[0], other
        if len(done) > 1 and same == (None, None):
            same = done[0], done[1]  # type: ignore[assignment]  # two records now
    return same
