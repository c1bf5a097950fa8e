"""What a page says of the policies of an audit: which there are, where they differ, and two beside each other.

A page stays small however large the audit: long lists are cut and say so, and what would take a pass over very many
policies is measured under the first shared seeds.
"""

from collections.abc import Iterator
from dataclasses import replace

from replicable_rl.audit import AuditResult
from replicable_rl.errors import InvalidFile, InvalidInput
from replicable_rl.pages.audit_tables import actions_taken, state_name
from replicable_rl.pages.blocks import Cell, Code, DataTable, Heading, Plain, Text
from replicable_rl.pages.commands import solve_command
from replicable_rl.pages.log_texts import sample_of
from replicable_rl.pages.page import Block
from replicable_rl.pages.policy import picture_of, policy_run
from replicable_rl.runs import Run
from replicable_rl.wording import brief, share

_CLASSES = 8
_VALUED = 50  # distinct policies whose returns are computed
_POLICIES = 2_000  # distinct policies that are compared state by state
_ENTRIES = 20_000_000  # of all of them together
_STATES = 12
_ACTIONS = 5


def output_blocks(result: AuditResult, level: str) -> Iterator[Block]:
    """Yield the outputs there are at a level; of policies, also where they differ, and two beside each other."""
    try:
        yield Heading("Which policies there are" if level == "policy" else f"Which outputs there are: {level}")
        yield _classes(result, level)
        if "policy" in result.levels:
            yield from _states(result, len(result.classes("policy")))
            yield from _picture(result)
    except InvalidFile:
        raise
    except InvalidInput as error:  # runs of one name whose tables do not fit together
        yield Text([["The policies cannot be compared: ", Plain(brief(str(error), 300))]])


def _classes(result: AuditResult, level: str) -> DataTable:
    classes = result.classes(level)
    valued = level == "policy" and len(classes) <= _VALUED
    worth = {one.fingerprint: one for one in result.policies or ()} if valued else {}
    rows: list[list[Cell]] = []
    for one in classes[:_CLASSES]:
        value = worth.get(one.fingerprint)
        row: list[Cell] = [Code(one.fingerprint[:16]), one.runs, share(one.runs / len(result.runs)), one.shared_seeds]
        rows.append([*row, value.expected_return, value.loss] if value else row)
    columns = [level, "runs", "share of runs", "shared seeds"]
    caption = "The most common ones over all shared seeds, by the beginning of their fingerprints."
    if worth:
        columns += ["return", "loss"]
        caption += " The return is exact, and the loss is what it lacks to the best."
    more = len(classes) - _CLASSES
    return DataTable(columns, rows, caption, note=f"{more} more are not listed." if more > 0 else None)


def _states(result: AuditResult, distinct: int) -> Iterator[Block]:
    """Say where runs differ; of very many policies, under the first shared seeds."""
    some = _first_seeds(result, distinct)
    if some is None:
        yield Text(["There are too many policies, or too large ones, to compare them state by state here."])
        return
    states = some.states
    S, many = states.per_state.size, states.differing.size
    noun = "state" if result.mdp is not None or result.logs is not None else "state or observation"
    yield Heading("Where two runs differ")
    where = "" if some is result else f" (measured under the first {len(some.spec.seeds)} shared seeds)"
    if not many:
        yield Text([f"Two runs take the same action in every {noun} ({S}){where}."])
        return
    rows: list[list[Cell]] = [
        [brief(state_name(result, s), 60), share(states.per_state[s]), actions_taken(some, s, _ACTIONS)]
        for s in states.differing[:_STATES].tolist()
    ]
    caption = (
        f"Two runs act alike in {states.every_look} of {S} {noun}s{where}; they differ in {many}, least agreement "
        "first."
    )
    note = f"{many - _STATES} more are not listed." if many > _STATES else None
    yield DataTable([noun, "agreement", "actions taken"], rows, caption, note=note)


def _first_seeds(result: AuditResult, distinct: int) -> AuditResult | None:
    """Return the audit, or as many of its first shared seeds as have few enough policies."""
    size = next(run.policy for run in result.runs if "policy" in run.fingerprints).size
    most = min(_POLICIES, _ENTRIES // max(1, size))
    if distinct <= most:
        return result
    R, seen, taken = result.spec.runs_per_seed, set[str | None](), 0
    for i in range(0, len(result.runs), R):
        seen |= {run.fingerprints.policy for run in result.runs[i : i + R]}
        if len(seen) > most:
            break
        taken += 1
    if taken == 0:
        return None
    return replace(result, spec=result.spec.first(taken), runs=result.runs[: taken * R])


def _picture(result: AuditResult) -> Iterator[Block]:
    """Draw two runs with one shared seed: two that differ, if there are any."""
    pair = _pair(result)
    if pair is None or any(run.policy.ndim != 1 or run.policy.dtype.kind != "i" for run in pair):
        return  # what a function does on observations is no picture
    one, two = pair
    drawn = [
        policy_run(name, run.policy, run.outputs.get("value"))
        for name, run in (("First run", one), ("Second run", two))
    ]
    differ = one.fingerprints.policy != two.fingerprints.policy
    samples = f"sample seeds {one.sample_seed} and {two.sample_seed}"
    if result.logs is not None:
        samples = f"{sample_of(result, one)} and {sample_of(result, two)}"
    seeds = f"shared seed {one.shared_seed}; {samples}"
    yield Heading("Two runs beside each other")
    yield picture_of(
        result.labels,
        (drawn[0], drawn[1]),
        caption=["Two runs ", "that differ (" if differ else "with the same policy (", Plain(seeds), ")."],
        command=solve_command(one),
    )


def _pair(result: AuditResult) -> tuple[Run, Run] | None:
    R, same = result.spec.runs_per_seed, None
    for i in range(0, len(result.runs), R):
        done = [run for run in result.runs[i : i + R] if "policy" in run.fingerprints]
        for other in done[1:]:
            if other.fingerprints.policy != done[0].fingerprints.policy:
                return done[0], other
        if len(done) > 1 and same is None:
            same = done[0], done[1]
    return same
