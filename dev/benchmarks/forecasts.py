"""Forecasts of `diagnose`: what one log says about another, against what other logs do say.

    .venv/bin/python -m dev.benchmarks.forecasts            # part of make bench; half an hour
    .venv/bin/python -m dev.benchmarks.forecasts --quick    # small

Logs are played by the uniform policy in episodes of 100 steps. What is finished is kept in results/forecasts.json: a
command that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import replicable_rl as rr
from replicable_rl.audit.evidence import derived_seed
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.experiments.frontier.curves import stakes
from replicable_rl.files import write_text
from replicable_rl.logs import Dataset, Process, same_process
from replicable_rl.logs.samples import ALARM
from replicable_rl.randomness import sample_stream
from replicable_rl.wording import number

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "results"
PROCESSES = (
    *("two-goals", "two-goals-wide", "riverswim", "garnet"),
    *("machine-repair", "inventory", "FrozenLake 4×4", "admission"),
)
STEPS = 100  # of an episode
DEFAULT, PLAIN = "affordable", "greedy"
ERROR, AGREED, TARGET = 0.05, 0.9, 0.95  # the aims: of the mean error, and of pairs of logs at the sizes named
CHANGED, ROWS, MOVED = "garnet", 10**6, 0.1


class Extent(NamedTuple):
    """How much is measured."""

    sizes: Sequence[int] = (100, 1000, 10_000)  # rows for every pair, on average
    logs: int = 200  # that forecast, for every process and size
    plain_logs: int = 30  # for the plain best action
    resamples: int = 100
    pairs: int = 1000  # of fresh logs
    starts: int = 5  # logs that say how many rows it takes
    at_size: int = 40  # pairs of fresh logs for each of them
    changes: int = 200
    alarms: int = 5000
    processes: Sequence[str] = PROCESSES


QUICK = Extent((100, 1000), 6, 4, 20, 40, 1, 20, 10, 100, ("two-goals", "machine-repair"))


def log_of(mdp: rr.TabularMDP, rows: int, seed: int) -> Dataset:
    """Return a fresh log of about so many rows: episodes of the uniform policy."""
    uniform = np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)
    seen = mdp.play(uniform, max(1, round(rows / STEPS)), STEPS, sample_stream(seed))
    some = seen.count > 0
    count, pair = seen.count[some].astype(np.int64), seen.row[some]
    # Where a transition has one reward, its sum has rounding in it, and its mean must not.
    reward = np.clip(np.round(seen.low + seen.excess[some] / count, 9), *mdp.reward_range)
    states, actions = tuple(range(mdp.n_states)), tuple(range(mdp.n_actions))
    process = Process(states, actions, mdp.gamma, mdp.reward_range, tuple(mdp.initial.tolist()))
    return Dataset(process, pair // mdp.n_actions, pair % mdp.n_actions, seen.next_state[some], reward, count)


def seeded(name: str, i: int) -> int:
    """Return the i-th seed of a name; seeds have names in ASCII."""
    return derived_seed(name.replace("×", "x"), 1, i)


def agree(mdp: rr.TabularMDP, algorithm: rr.PlugInPolicy, rows: int, name: str, pairs: int) -> int:
    """Return how many pairs of fresh logs, each pair with a shared seed of its own, give one policy."""
    same = 0
    for i in range(pairs):
        logs = (log_of(mdp, rows, seeded(f"forecasts/{name}/{j}", i)) for j in range(2))
        one, two = (rr.solve(log, algorithm, shared_seed=i).policy for log in logs)
        same += np.array_equal(one, two)
    return same


def cell(extent: Extent, process: str, size: int, rule: str) -> dict[str, Any]:
    """Return what logs of one process and size forecast, and what other logs did."""
    mdp, _, epsilon = stakes(process)
    algorithm = rr.PlugInPolicy(epsilon, 0.05, 0.2, rule=rule)
    rows, name = size * mdp.n_states * mdp.n_actions, f"{process}/{size}/{rule}"
    same = agree(mdp, algorithm, rows, name, extent.pairs)
    found = [
        rr.diagnose(
            log_of(mdp, rows, seeded(f"forecasts/{name}/log", i)),
            algorithm,
            resamples=extent.resamples,
            seed=i,
        )
        for i in range(extent.logs if rule == DEFAULT else extent.plain_logs)
    ]
    return {
        "rows": rows,
        "same": same,
        "pairs": extent.pairs,
        "forecasts": [float(one.agreement) for one in found],
        "halves": [float(one.halves) for one in found if one.halves is not None],
    }


def needed(extent: Extent, process: str) -> dict[str, Any]:
    """Return how often fresh logs agree at the sizes that some logs of 1000 rows a pair name."""
    mdp, _, epsilon = stakes(process)
    algorithm = rr.PlugInPolicy(epsilon, 0.05, 0.2)
    asked, same = list[int | None](), list[int]()
    for i in range(extent.starts):
        log = log_of(mdp, 1000 * mdp.n_states * mdp.n_actions, seeded(f"needed/{process}", i))
        rows = rr.diagnose(log, algorithm, resamples=extent.resamples, seed=i).data_needed(TARGET)
        asked.append(rows)
        if rows is not None:
            same.append(agree(mdp, algorithm, rows, f"needed/{process}/{i}", extent.at_size))
    return {"asked": asked, "same": sum(same), "pairs": extent.at_size * len(same), "least": min(same, default=0)}


def changed(extent: Extent) -> dict[str, Any]:
    """Return how often a row that is off by 0.1 is found in 10^6 rows, and how often one that is not."""
    mdp = stakes(CHANGED)[0]
    visits = log_of(mdp, ROWS, 1).visits
    pair = int(np.argsort(visits, axis=None)[visits.size // 2])  # neither tried most nor least
    other = _moved(mdp, pair)
    found = false = 0
    for i in range(extent.alarms):
        one, two = (log_of(mdp, ROWS, seeded(f"changed/{j}", i)) for j in range(2))
        false += _p_value(one, two) < ALARM
        if i < extent.changes:
            found += _p_value(one, log_of(other, ROWS, seeded("changed/other", i))) < ALARM
    return {"found": found, "changes": extent.changes, "false": false, "alarms": extent.alarms}


def _p_value(one: Dataset, two: Dataset) -> float:
    found = same_process(one, two)
    return 1.0 if found is None else found.p_value


def _moved(mdp: rr.TabularMDP, pair: int) -> rr.TabularMDP:
    """Return a process in which 0.1 of one row's probability goes from its likeliest outcome to another."""
    P, R = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states)), np.zeros((mdp.n_states, mdp.n_actions))
    rows = mdp.rows
    row = np.repeat(np.arange(len(P)), np.diff(rows.indptr))
    np.add.at(P, (row, rows.next_state), rows.probability)
    np.add.at(R.reshape(-1), row, rows.probability * rows.reward)
    likely = np.argsort(-P[pair])
    P[pair, likely[0]] -= MOVED
    P[pair, likely[1]] += MOVED
    shape = (mdp.n_states, mdp.n_actions, mdp.n_states)
    return rr.TabularMDP.from_dense(
        P.reshape(shape), R, gamma=mdp.gamma, layout="sas", initial=mdp.initial, reward_range=mdp.reward_range
    )


# --- the page ---------------------------------------------------------------------------------------------------

_TEXT = """\
# How well one log forecasts what other logs say

Logs are played by the uniform
policy in episodes of {steps} steps, on eight processes. The loss allowed is 5 % of what the best policy gains over the
uniform one. Size is the number of rows for every pair of a state and an action, on average: some pairs have far fewer.

## The default rule

*True* is how many of {pairs} pairs of fresh logs gave the same policy under one shared seed. *Forecast* is the mean of
what {logs} other logs said, one by one, each from {resamples} pairs of resampled logs; *error* is forecast less true.
*One log* is how far a single log's forecast is off, on average. *Halves* is the mean of what disjoint halves said: it
is about logs of half the size.

{default}

Two numbers, and they say different things:

- **The mean forecast is off by {error:.3f}**, on average over the {cells} cells: of each cell, the forecasts of {logs}
  logs are averaged first, then compared with the truth. It says how biased forecasts are. The aim is at most {aim:g},
  and it is about this number: {verdict}.
- **A single log's forecast is off by {single:.3f}**, on average over the same cells. This is what you have: one log,
  and its noise on top of the bias. {single_verdict} So take the forecast of one log for a rough number; the column
  *one log* says how rough.

What a log cannot know: pairs that it hardly saw. Where a process has states that are rarely reached, another log may
see other pairs, and the forecast is too high{worst}.

## The plain best action

The bootstrap is too high where two actions are exactly as good. `diagnose` never says more than the halves do for this
rule, and those are right on average for half the size. The
proof of that is for rows that are drawn independently, their number by Poisson's law. The logs here are played in
episodes, so it does not cover them: their rows follow each other, and two halves by rows share the paths of their
episodes. What the halves are worth on such logs is measured, not proved. {plain_logs} logs each:

{plain}

The mean of the errors is {plain_error:+.3f}; the largest is {plain_most:+.3f}.

## The sizes that `data_needed` names

{starts} logs of 1000 rows a pair each say how many rows an agreement of {target:g} takes; at each of these sizes
{at_size} pairs of fresh logs decide. The aim is at least {agreed:g} of all pairs. A log that never reached some state
knows nothing of it, and may name a size that is too small: *worst log* is how often pairs agreed at the size of the
log that did worst.

{needed}

## A changed process

Two logs of {rows} rows of `{changed}`. In the second process {moved:g} of one row's probability goes to another next
state. `same_process` says that they differ where p < {alarm:g}.

| | found | of | share |
|---|---:|---:|---:|
| changed | {found} | {changes} | {found_share} |
| not changed: false alarms | {false} | {alarms} | {false_share} |
"""


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _share(some: int, of: int) -> str:
    low, high = clopper_pearson(some, of, 0.95)
    return f"{some / of:.3f} ({low:.3f}–{high:.3f})"


def errors(cells: dict[str, Any], rule: str) -> dict[str, float]:
    """Return the mean forecast less the truth, for every cell of a rule."""
    mine = {name: one for name, one in cells.items() if name.endswith(f"/{rule}")}
    return {name: float(np.mean(one["forecasts"])) - one["same"] / one["pairs"] for name, one in mine.items()}


def _cells(cells: dict[str, Any], rule: str) -> str:
    lines = [
        _row("process", "size", "true", "forecast", "error", "one log", "halves"),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, error in errors(cells, rule).items():
        (process, size, _), one = name.split("/"), cells[name]
        true, said = one["same"] / one["pairs"], np.array(one["forecasts"])
        off, halves = float(np.abs(said - true).mean()), float(np.mean(one["halves"]))
        lines.append(
            _row(
                process,
                size,
                _share(one["same"], one["pairs"]),
                f"{said.mean():.3f}",
                f"{error:+.3f}",
                f"{off:.3f}",
                f"{halves:.3f}",
            )
        )
    return "\n".join(lines)


def _needed(extent: Extent, found: dict[str, Any]) -> str:
    lines = [_row("process", "rows, middle", "pairs", "agreed", "worst log", ""), "|---|---:|---:|---:|---:|---|"]
    same = pairs = 0
    for process, one in found.items():
        sizes = [rows for rows in one["asked"] if rows is not None]
        worst = f"{one['least'] / extent.at_size:.3f}" if sizes else "-"
        middle = number(int(np.median(sizes)), 3) if sizes else "none"
        agreed = _share(one["same"], one["pairs"]) if one["pairs"] else "-"
        met = one["pairs"] and one["same"] / one["pairs"] >= AGREED
        lines.append(_row(process, middle, one["pairs"], agreed, worst, "" if met else "below the aim"))
        same, pairs = same + one["same"], pairs + one["pairs"]
    return "\n".join([*lines, _row("all", "", pairs, _share(same, pairs), "", "")])


def page(extent: Extent, kept: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    cells = kept["cells"]
    mine, plain = errors(cells, DEFAULT), errors(cells, PLAIN)
    error = float(np.mean(np.abs(list(mine.values()))))
    single = [
        float(np.abs(np.array(cells[name]["forecasts"]) - cells[name]["same"] / cells[name]["pairs"]).mean())
        for name in mine
    ]
    most = max(mine, key=lambda name: mine[name])
    process, size, _ = most.split("/")
    change = kept["changed"]
    return _TEXT.format(
        steps=STEPS,
        pairs=extent.pairs,
        logs=extent.logs,
        resamples=extent.resamples,
        default=_cells(cells, DEFAULT),
        error=error,
        cells=len(mine),
        aim=ERROR,
        verdict="met" if error <= ERROR else "not met",
        single=float(np.mean(single)),
        single_verdict=f"It {'is within' if float(np.mean(single)) <= ERROR else 'misses'} {ERROR:g}.",
        worst=f" (by {mine[most]:.3f} for {process} at size {size}, the most)" if mine[most] > 0.0 else "",
        plain_logs=extent.plain_logs,
        plain=_cells(cells, PLAIN),
        plain_error=float(np.mean(list(plain.values()))),
        plain_most=max(plain.values()),
        starts=extent.starts,
        target=TARGET,
        at_size=extent.at_size,
        agreed=AGREED,
        needed=_needed(extent, kept["needed"]),
        rows=number(ROWS),
        changed=CHANGED,
        moved=MOVED,
        alarm=ALARM,
        **change,
        found_share=_share(change["found"], change["changes"]),
        false_share=_share(change["false"], change["alarms"]),
    )


def measured(extent: Extent, keep: Path | None) -> dict[str, Any]:
    """Measure what is not kept yet."""
    kept: dict[str, Any] = {"extent": list(extent), "cells": {}, "needed": {}, "changed": None}
    if keep is not None and keep.exists():
        before = json.loads(keep.read_text())
        if before["extent"] == json.loads(json.dumps(list(extent))):
            kept = before
    tasks: list[tuple[str, str, Callable[[], Any]]] = [
        ("cells", f"{process}/{size}/{rule}", partial(cell, extent, process, size, rule))
        for rule in (DEFAULT, PLAIN)
        for process in extent.processes
        for size in extent.sizes
    ]
    tasks += [("needed", process, partial(needed, extent, process)) for process in extent.processes]
    tasks = [task for task in tasks if task[1] not in kept[task[0]]]
    done = Parallel(n_jobs=-1, return_as="generator")(delayed(_named)(*task) for task in tasks)
    for kind, name, found in done:
        kept[kind][name] = found
        if keep is not None:
            write_text(keep, json.dumps(kept))
    kept["changed"] = kept["changed"] or changed(extent)
    if keep is not None:
        write_text(keep, json.dumps(kept))
    return kept


def _named(kind: str, name: str, task: Callable[[], Any]) -> tuple[str, str, Any]:
    return kind, name, task()


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m dev.benchmarks.forecasts", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small")
    options = parser.parse_args(arguments)
    extent = QUICK if options.quick else Extent()
    KEPT.mkdir(exist_ok=True)
    kept = measured(extent, None if options.quick else KEPT / "forecasts.json")
    print(page(extent, kept))


if __name__ == "__main__":
    main()
