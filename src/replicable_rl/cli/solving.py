"""The commands ``solve``, ``plan``, ``publish`` and ``list``."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from replicable_rl.canonical import Json
from replicable_rl.cli.options import (
    OF_ALGORITHMS,
    OF_LOGS,
    AlgorithmWord,
    AsJson,
    ProblemWord,
    algorithm_of,
    problem_or_log,
    refuse_early,
    taking,
)
from replicable_rl.cli.output import print_blocks, print_json, print_note
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Dataset
from replicable_rl.paper import cited
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import bar
from replicable_rl.registry import ALGORITHMS, PROBLEMS, save
from replicable_rl.report import Block, Cell, Facts, Heading, Policy, Table, Text
from replicable_rl.rules import SHIPPED
from replicable_rl.runs import LEVELS, Claims, Run, algorithm_spec, implied, in_order
from replicable_rl.solve import plan, publish, solve
from replicable_rl.wording import number, plural

_STATES = 40  # in a table
_IN_HEADING = {"n_states", "n_actions", "gamma", "known_rewards", "pairs", "epsilon", "delta", "rho"}


@taking(seeds=("shared_seed", "sample_seed"), given=OF_ALGORITHMS, log=OF_LOGS)
def solve_command(
    problem: ProblemWord,
    algorithm: AlgorithmWord,
    save_to: Annotated[Path | None, Option("--save", metavar="FILE", help="Save the run, such as run.npz.")] = None,
    as_json: AsJson = False,
    *,
    seeds: dict[str, Any],
    given: dict[str, Any],
    log: dict[str, Any],
) -> int:
    """Solve PROBLEM with ALGORITHM once, and show the policy and its fingerprints.

    PROBLEM may be a log: it is the sample, and --gamma, --state and so on say what its columns are.
    """
    if "shared_seed" not in seeds:
        raise InvalidInput("solve: --shared-seed is missing: the published randomness, which runs that agree share.")
    chosen = algorithm_of(algorithm, given)
    refuse_early(save_to)
    with bar():
        solved = problem_or_log("solve", problem, log)
        run = solve(solved, chosen, **seeds)
    if save_to is not None:
        save(run, save_to)
    if as_json:
        print_json(_run_to_json(solved, run))
    else:
        print_blocks(list(_run_blocks(solved, run, problem)))
    return 0


@taking(given=OF_ALGORITHMS, log=OF_LOGS)
def plan_command(
    problem: ProblemWord,
    algorithm: AlgorithmWord,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
    log: dict[str, Any],
) -> int:
    """Say what a run of ALGORITHM on PROBLEM takes, before drawing a sample.

    PROBLEM may be a log; --gamma, --state and so on say what its columns are.
    """
    chosen = algorithm_of(algorithm, given)
    with bar():
        solved = problem_or_log("plan", problem, log)
        planned = plan(solved, chosen)
    if as_json:
        print_json({"problem": solved.spec.to_json(), **planned.to_json()})
        return 0
    rewards = "known" if planned.numbers.known_rewards else "learned from the samples"
    sizes = f"{solved.n_states} states, {solved.n_actions} actions, {solved.support.pairs} pairs, gamma"
    facts: list[tuple[str, Cell]] = [("algorithm", algorithm_spec(chosen).text)]
    facts += [("sizes", f"{sizes} {solved.gamma:g}"), ("rewards", rewards), ("samples in all", planned.samples)]
    numbers = asdict(planned.numbers)
    for name, value in numbers.items():
        met = name.endswith("_needed") and value == numbers.get(name.removesuffix("_needed"))
        if type(value) in (int, float, str) and name not in _IN_HEADING and not met:
            facts.append((name.replace("_", " "), value))
    print_blocks([Heading(_title(solved, problem), 1), Facts([*facts, *_claims(planned.claims())])])
    return 0


@taking(seeds=("sample_seed",), given=OF_ALGORITHMS, log=OF_LOGS)
def publish_command(
    problem: ProblemWord,
    algorithm: AlgorithmWord,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Where the cuts go, such as cuts.npz.")
    ] = None,
    as_json: AsJson = False,
    *,
    seeds: dict[str, Any],
    given: dict[str, Any],
    log: dict[str, Any],
) -> int:
    """Choose one tolerance for each state on fresh samples, or on a log, for others to use on theirs.

    They give the file as the rule: `replicable-rl solve PROBLEM ALGORITHM --rule cuts.npz`.
    """
    chosen = algorithm_of(algorithm, given)
    if output is not None and output.suffix != ".npz":
        raise InvalidInput(f"publish: --output must end in .npz, by which --rule knows cuts, got {output}.")
    refuse_early(output)
    with bar():
        solved = problem_or_log("publish", problem, log)
        cuts = publish(solved, chosen, **seeds)
    if output is not None:
        save(cuts, output)
    if as_json:
        print_json(cuts.to_json())
        return 0
    states, actions = _names(solved)
    rows = [
        [states[s], actions[cuts.policy[s]], cuts.tolerances[s], number(cuts.margins[s], 3)]
        for s in range(min(len(states), _STATES))
    ]
    more = len(states) - _STATES
    caption = f"{plural(more, 'more state')}: --json lists all." if more > 0 else ""
    table = Table(["state", "action", "tolerance", "margin"], rows, caption)
    print_blocks([Heading(_title(solved, problem), 1), table, Text(repr(cuts))])
    if output is None:
        print_note("Nothing was written; --output cuts.npz keeps the cuts.")
    else:
        print_note(f"{output}: others use it by --rule {shlex.quote(str(output))}.")
    return 0


def list_command(as_json: AsJson = False) -> int:
    """List problems, algorithms, rules and levels, yours too."""
    lists: dict[str, Any] = {
        "problems": [_problem(id, make) for id, make in PROBLEMS.items()],
        "algorithms": list(_described(ALGORITHMS)),
        "rules": list(_described(SHIPPED)),
        "levels": [{"id": name, "implies": list(in_order(implied(name)))} for name in in_order(LEVELS)],
    }
    if as_json:
        print_json(lists)
        return 0
    problems = [
        [each["id"], each["states"], each["actions"], each["gamma"], _written(each["parameters"])]
        for each in lists["problems"]
    ]
    known = "Also a Gymnasium id with a known transition table, as FrozenLake-v1:gamma=0.95, and what rr.save wrote."
    blocks: list[Block] = [Table(["problem", "S", "A", "gamma", "parameters"], problems, known)]
    for kind in ("algorithms", "rules"):
        described = [(each["id"], f"{each['summary']} ({_written(each['parameters'])})") for each in lists[kind]]
        blocks += [Heading(kind.capitalize()), Facts([(id, words.replace(" ()", "")) for id, words in described])]
    implies = [[each["id"], ", ".join(each["implies"])] for each in lists["levels"]]
    blocks.append(Table(["level", "two runs that agree on it also agree on"], implies))
    print_blocks(blocks)
    return 0


# --- what is shown ------------------------------------------------------------------------------------------------


def _title(problem: TabularMDP | Dataset, name: str) -> str:
    return problem.spec.text if isinstance(problem, TabularMDP) else f"{name}, {plural(problem.rows, 'row')}"


def _names(problem: TabularMDP | Dataset) -> tuple[list[str], list[str]]:
    """Return the names of states and actions; what comes after the end of a log's episodes decides nothing."""
    last = problem.n_states - (isinstance(problem, Dataset) and problem.process.ends)
    states = problem.labels.states or map(str, range(last))
    return list(states)[:last], list(problem.labels.actions or map(str, range(problem.n_actions)))


def _run_blocks(problem: TabularMDP | Dataset, run: Run, name: str) -> Iterator[Block]:
    """Yield what was solved, the policy, how the run ended, what is claimed, and the fingerprints."""
    yield Heading(_title(problem, name), 1)
    if run.spec is not None:
        recorded = f"the {plural(problem.rows, 'row')} of the log" if isinstance(problem, Dataset) else None
        yield Text(run.spec.algorithm.text)
        yield Text(f"shared seed {run.shared_seed}, sample {recorded or f'seed {run.sample_seed}'}")
    if "policy" in run.outputs:
        states, actions = _names(problem)
        taken = [actions[a] for a in run.policy[: len(states)]]
        yield Policy(states, [("action", taken)], problem.labels.layout)
    prints = ((level, run.fingerprints[level]) for level in reversed(in_order(run.fingerprints)))
    yield Facts([("status", str(run.status)), *_claims(run.claims), ("samples", run.samples), *prints])


def _claims(claims: Claims) -> Iterator[tuple[str, Cell]]:
    """Yield what is claimed about accuracy and about replicability, or why nothing is, and about the shared seed."""
    for about, claim in (("accuracy", claims.accuracy), ("replicability", claims.replicability)):
        missing = claims.missing.get(about)
        yield about, str(claim or (f"nothing is proved: {cited(missing)}." if missing else "nothing is claimed."))
    if claims.of_this_seed is not None:
        yield "shared seed", str(claims.of_this_seed)


def _run_to_json(problem: TabularMDP | Dataset, run: Run) -> dict[str, Json]:
    """Return a run with its arrays; that of a log with the names of states and actions, and the policy by them."""
    arrays = {level: run.outputs[level].tolist() for level in run.outputs if level not in ("model", "bytes")}
    told: dict[str, Json] = {**run.to_json(), "outputs": arrays}
    if isinstance(problem, Dataset):
        states, actions = problem.process.state_names, problem.process.action_names
        told["names"] = {"states": list(states), "actions": list(actions)}
        if "policy" in run.outputs:
            told["policy"] = {state: actions[a] for state, a in zip(states, run.policy.tolist(), strict=True)}
    return told


def _problem(id: str, constructor: Any) -> dict[str, Any]:
    """Return what there is to say of a problem; sizes are null where it needs input or cannot be built."""
    sizes: dict[str, Any] = {"states": None, "actions": None, "gamma": None}
    try:
        mdp = constructor()
        sizes = {"states": mdp.n_states, "actions": mdp.n_actions, "gamma": mdp.gamma}
    except Exception:  # whatever somebody's own raises, `solve` says
        pass
    return {"id": id, **sizes, "parameters": _parameters(constructor)}


def _described(kinds: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for id, kind in kinds.items():
        summary = inspect.cleandoc(kind.__doc__ or "-").splitlines()[0]  # not that of its base
        yield {"id": id, "summary": summary, "parameters": _parameters(kind)}


def _parameters(constructor: Any) -> dict[str, Any]:
    """Return the names of parameters, each with its default where that is a number or a text."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(constructor).parameters.items()}
    simple = (int, float, str)
    return {name: value if type(value) in simple else None for name, value in defaults.items()}


def _written(parameters: Mapping[str, Json]) -> str:
    return ", ".join(name if default is None else f"{name}={default}" for name, default in parameters.items())
