"""Record what runs return, bit by bit: ``python -m tests.recorded`` writes ``recorded.json`` beside this file.

A case is a thunk that returns fingerprints and numbers of samples. Every parameter of a case is named, so that a later
default changes none. ``tests/test_recorded.py`` compares. Nothing here looks at digests of specs, files or logs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import replicable_rl as rr
from replicable_rl.logs import from_logs
from replicable_rl.problem import gridworld

Record = dict[str, Any]
Case = Callable[[], Record]
FILE = Path(__file__).with_name("recorded.json")
SHARED, SAMPLE = 2023, 7


# Problems ---------------------------------------------------------------------------------------------------------


def uniform(label: str, *shape: int) -> Any:
    """Return numbers that a label stands for, on every machine."""
    return rr.SharedRandomness(11).uniform(f"recorded/{label}", shape=shape)


def masked(name: str, states: int, actions: int, gamma: float, *, learned: bool) -> rr.TabularMDP:
    """Return a random table in which about a third of the pairs are not allowed."""
    reward, split = uniform(f"{name}/reward", states, actions, 2), uniform(f"{name}/split", states, actions)
    allowed = uniform(f"{name}/allowed", states, actions) < 0.67
    allowed[np.arange(states), np.arange(states) % actions] = True
    outcomes = [
        [
            [
                (0.25 + split[s, a] / 2.0, (s + a + 1) % states, reward[s, a, 0]),
                (0.75 - split[s, a] / 2.0, (s * 2 + a) % states, reward[s, a, int(learned)]),
            ]
            if allowed[s, a]
            else None
            for a in range(actions)
        ]
        for s in range(states)
    ]
    start = np.arange(states) < 2
    return rr.TabularMDP.from_outcomes(outcomes, gamma=gamma, initial=start / 2.0, reward_range=(0.0, 1.0))


def tables() -> dict[str, rr.TabularMDP]:
    """Return the tables without masks: every shipped problem, and one with learned rewards for each kind."""
    dense = uniform("dense", 6, 3, 6)
    return {
        "two-goals": rr.make("two-goals-v1", slip=0.3, gamma=0.9),
        "wide": rr.make("two-goals-wide-v1", slip=0.3, gamma=0.9),
        "grid": gridworld(["S..", ".#G", "..."], slip=0.2, gamma=0.8, goals={"G": 1.0}),
        "riverswim": rr.make("riverswim-v1", n_states=6, gamma=0.95, small_reward=0.005),
        "chain": rr.make("chain-v1", n_states=5, slip=0.2, gamma=0.95, small_reward=0.2),
        "garnet": rr.make("garnet-v1", n_states=12, n_actions=3, branching=3, gamma=0.8, seed=3),
        "repair": rr.make("machine-repair-v1", n_states=8, wear=0.4, breakdown=0.05, repair_cost=1.0, gamma=0.9),
        "admission": rr.make(
            "admission-v1", capacity=12, arrival=0.45, service=0.5, reward=4.0, waiting_cost=0.1, gamma=0.9
        ),
        "dense": rr.TabularMDP.from_dense(
            dense / dense.sum(axis=2, keepdims=True),
            uniform("dense/reward", 6, 3, 6),
            gamma=0.7,
            layout="sas",
            initial=np.full(6, 1.0 / 6.0),
            reward_range=(0.0, 1.0),
        ),
    }


def masked_tables() -> dict[str, rr.TabularMDP]:
    """Return tables in which some actions are not allowed, with known and with learned rewards."""
    return {
        "masked": masked("masked", 9, 4, 0.8, learned=False),
        "masked-learned": masked("masked-learned", 7, 3, 0.7, learned=True),
        "inventory": rr.make(
            "inventory-v1",
            capacity=5,
            demand=2.0,
            price=2.0,
            unit_cost=1.0,
            order_cost=1.0,
            holding_cost=0.1,
            gamma=0.8,
        ),
    }


def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    """Move up or down a line of five states; the reward is learned."""
    u = rng.random()
    to = min(state + 1, 4) if (u < 0.7) == (action == 0) else max(state - 1, 0)
    return to, 1.0 if to == 4 and u < 0.5 else 0.1 * action


def ending(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, bool]:
    """As :func:`step`, and the top may be the end."""
    to, reward = step(state, action, rng)
    return to, reward, to == 4 and reward > 0.5


def steps(states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """As :func:`step`, many at once."""
    u = rng.random(states.size)
    up = (u < 0.7) == (actions == 0)
    to = np.where(up, np.minimum(states + 1, 4), np.maximum(states - 1, 0))
    return to, np.where((to == 4) & (u < 0.5), 1.0, 0.1 * actions)


def simulators() -> dict[str, rr.Simulator]:
    """Return simulators: one step at a time, with an end, many at once, and with a mask."""
    sizes: Record = {"n_states": 5, "n_actions": 2, "gamma": 0.6, "reward_range": (0.0, 1.0)}
    sizes |= {"initial": [1.0, 0.0, 0.0, 0.0, 0.0], "budget": 10**9}
    mask = [[True, True], [True, False], [True, True], [False, True], [True, True]]
    return {
        "simulator": rr.Simulator(step, **sizes),
        "simulator-ends": rr.Simulator(ending, ends=True, **sizes),
        "simulator-many": rr.Simulator(step, step_many=steps, **sizes),
        "simulator-masked": rr.Simulator(step, step_many=steps, allowed=mask, **sizes),
    }


def environments() -> dict[str, Any]:
    """Return what is played in episodes by Gymnasium."""
    lake: Record = {"map_name": "4x4", "is_slippery": True}
    cliff: Record = {"budget": 10**9, "reward_range": (-100.0, 0.0)}
    return {
        "frozen-lake": rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0), budget=10**9, **lake),
        "cliff": rr.EpisodicEnv("CliffWalking-v1", gamma=0.9, **cliff),
    }


# Logs -------------------------------------------------------------------------------------------------------------


def rows(name: str, many: int, *, numbers: bool = False) -> dict[str, list[Any]]:
    """Return a log of episodes of ten steps on a line of five states, in columns."""
    u, chosen = uniform(f"{name}/u", many), uniform(f"{name}/action", many)
    columns: dict[str, list[Any]] = {
        key: [] for key in ("episode", "day", "state", "action", "reward", "next_state", "done", "level", "next_level")
    }
    at = 0
    for i in range(many):
        day = i % 10
        at = i // 10 % 3 if day == 0 else at
        action = int(chosen[i] < 0.4)
        to = min(at + 1, 4) if (u[i] < 0.7) == (action == 0) else max(at - 1, 0)
        reward = (1.0 if to == 4 else 0.0) + 0.25 * action
        values = (i // 10, day, at, action, reward, to, int(day == 9), 10.0 * at + 10.0 * u[i], 10.0 * to + 9.5)
        for key, value in zip(columns, values, strict=True):
            columns[key].append(value)
        at = to
    if not numbers:
        for key in ("state", "next_state"):
            columns[key] = [f"room {'abcde'[s]}" for s in columns[key]]
        columns["action"] = [("stay", "move")[a] for a in columns["action"]]
    return columns


def written(folder: Path) -> dict[str, tuple[Any, Record]]:
    """Return logs of every kind of source that stays, with the options that they are read with."""
    import ibis
    import pandas as pd
    import polars as pl

    text, whole, large = rows("text", 600), rows("whole", 600, numbers=True), rows("large", 4000)
    plain = {key: text[key] for key in ("state", "action", "reward", "next_state")}
    frame = pl.DataFrame(text)
    frame.write_csv(folder / "log.csv")
    frame.write_csv(folder / "log.tsv", separator="\t")
    frame.write_ndjson(folder / "log.jsonl")
    frame.write_parquet(folder / "log.parquet")
    pl.DataFrame(large).write_parquet(folder / "large.parquet")
    (folder / "parts").mkdir()
    for i in range(3):
        frame[i * 200 : (i + 1) * 200].write_csv(folder / "parts" / f"{i}.csv")
    ends: Record = {"done": "done", "episode": "episode", "order": "day"}
    ranged: Record = {"reward_range": (0.0, 1.25)}
    rooms = [f"room {letter}" for letter in "abcdef"]
    mask = [[True, True]] * 5 + [[True, False]]
    table = ibis.duckdb.connect().read_parquet(folder / "log.parquet")
    two = dict(plain) | {
        "floor": [name[-1] for name in text["state"]],
        "next_floor": [n[-1] for n in text["next_state"]],
    }
    return {
        "csv": (folder / "log.csv", {}),
        "csv-ends": (folder / "log.csv", {**ends, **ranged}),
        "csv-episodes": (folder / "log.csv", {"episode": "episode", "order": "day", **ranged}),
        "csv-gz": (folder / "log.csv", ranged),
        "tsv": (folder / "log.tsv", ranged),
        "folder": (folder / "parts", ends),
        "jsonl": (folder / "log.jsonl", ends),
        "jsonl-gz": (folder / "log.jsonl", {}),
        "parquet": (folder / "log.parquet", ends),
        "parquet-large": (folder / "large.parquet", {**ends, **ranged}),
        "columns": (plain, ranged),
        "arrays": ({key: np.array(value) for key, value in whole.items()}, ends),
        "polars": (frame, {"done": "done", **ranged}),
        "polars-whole": (pl.DataFrame(whole), ends),
        "pandas": (pd.DataFrame(text), ends),
        "pandas-whole": (pd.DataFrame(whole), {"done": "done", **ranged}),
        "arrow": (frame.to_arrow(), ends),
        "ibis": (table, {**ends, **ranged}),
        "bins": (
            frame,
            {"bins": {"level": rr.Bins([10, 20, 30, 40])}, "state": "level", "next_state": "next_level", **ranged},
        ),
        "several": (two, {"state": ["state", "floor"], "next_state": ["next_state", "next_floor"], **ranged}),
        "declared": (plain, {"states": rooms, "actions": ["stay", "move"], "initial": {"room a": 1.0}, **ranged}),
        "allowed": (plain, {"states": rooms, "actions": ["stay", "move"], "allowed": mask, **ranged}),
    }


# Cases ------------------------------------------------------------------------------------------------------------


def solved(problem: Any, algorithm: Any, *, drawn: bool = True, shared: int = SHARED) -> Record:
    """Return what a run returned, or that it was refused."""
    try:
        run = rr.solve(problem, algorithm, shared_seed=shared, sample_seed=SAMPLE if drawn else None)
    except rr.InvalidInput:
        return {"refused": True}
    return {**{level: digest[:24] for level, digest in run.fingerprints.items()}, "samples": run.samples}


def rules(actions: int) -> dict[str, Any]:
    """Return every rule that stays, with its order named."""
    order = tuple(range(actions))
    return {
        "affordable": rr.rules.AffordableTolerance(order=order),
        "affordable-back": rr.rules.AffordableTolerance(order=order[::-1]),
        "tolerance": rr.rules.RandomTolerance(tolerance=0.01, order=order),
        "tolerance-theorem": rr.rules.RandomTolerance(tolerance=None, order=order),
        "rounded": rr.rules.RoundedQ(width=None),
        "rounded-wide": rr.rules.RoundedQ(width=0.05),
        "gumbel": rr.rules.SharedGumbel(rate=None),
        "greedy": rr.rules.Greedy(),
    }


def drawn_algorithms() -> dict[str, Any]:
    """Return the algorithms of the paper that draw successors."""
    of: Record = {"epsilon": 0.2, "delta": 0.01, "rho": 0.2}
    plain: Record = {"epsilon": 0.2, "delta": 0.01}
    listed: Record = {"calls": 10**9, "iterations": 20, "tolerance": 0.02, "rho_sq": 0.001}
    return {
        "phased": rr.PhasedVI(**plain, target="policy", calls=None, iterations=None),
        "phased-value": rr.PhasedVI(**plain, target="value", calls=None, iterations=None),
        "phased-calls": rr.PhasedVI(**plain, target="policy", calls=500, iterations=12),
        "rpvi": rr.ReplicablePhasedVI(**of, target="policy"),
        "rpvi-value": rr.ReplicablePhasedVI(**of, target="value"),
        "rpvi-listing": rr.ReplicablePhasedVI(**of, target="policy", **listed),
        "model": rr.ApproximateMDP(epsilon=0.1, delta=0.01, norm="entry", calls=None),
        "model-l1": rr.ApproximateMDP(epsilon=0.3, delta=0.01, norm="l1", calls=None),
        "replicable-model": rr.ReplicableApproximateMDP(
            epsilon=0.1, delta=0.01, rho=0.2, norm="entry", form="zero-preserving", calls=None, tolerance=None
        ),
        "replicable-model-l1": rr.ReplicableApproximateMDP(
            epsilon=0.3, delta=0.01, rho=0.2, norm="l1", form="midpoint", calls=10**8, tolerance=0.02
        ),
    }


def played_algorithms() -> dict[str, Any]:
    """Return the algorithms of the paper that play episodes."""
    of: Record = {"epsilon": 0.1, "delta": 0.01, "horizon": 30}
    spent: Record = {"rounds": 12, "known": 20.0, "tolerance": 0.05}
    return {
        "rmax": rr.RMax(**of, support=None),
        "rmax-spent": rr.RMax(**of, episodes=300, **spent, support=None),
        "replicable-rmax": rr.ReplicableRMax(
            **of, rho=0.2, threshold="randomised", estimate="rstat", form="zero-preserving", support=None
        ),
        "replicable-rmax-spent": rr.ReplicableRMax(
            **of, rho=0.2, episodes=300, **spent, window=2.0, threshold="fixed", estimate="rstat", form="midpoint"
        ),
    }


def table_cases() -> Iterator[tuple[str, Case]]:
    """Yield every algorithm on every shipped problem."""
    for name, mdp in tables().items():
        for called, algorithm in {**drawn_algorithms(), **played_algorithms()}.items():
            yield f"{name}/{called}", partial(solved, mdp, algorithm)
        for called, rule in rules(mdp.n_actions).items():
            over = "worst" if called == "affordable-back" else "initial"
            decide = rr.PlugInPolicy(0.05, 0.01, 0.2, rule=rule, samples=300, budget=None, over=over, horizon=None)
            yield f"{name}/plug-in/{called}", partial(solved, mdp, decide)


def theorem_cases() -> Iterator[tuple[str, Case]]:
    """Yield the decisions with the samples of their theorem, without masks, and with a budget."""
    for name in ("two-goals", "riverswim", "garnet", "chain"):
        mdp = tables()[name]
        for called in ("affordable", "tolerance-theorem", "rounded", "gumbel"):
            rule = rules(mdp.n_actions)[called]
            sizes: Record = {"samples": None, "budget": None, "over": "initial", "horizon": None}
            decide = rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule, **sizes)
            yield f"{name}/{called}", partial(solved, mdp, decide)
            spent = rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule, **(sizes | {"budget": 10**6, "over": "worst"}))
            yield f"{name}/{called}/budget", partial(solved, mdp, spent)


def masked_cases() -> Iterator[tuple[str, Case]]:
    """Yield problems with masks; rules with a theorem far from the theorem's number of samples."""
    for name, mdp in masked_tables().items():
        for called, algorithm in {**drawn_algorithms(), **played_algorithms()}.items():
            yield f"{name}/{called}", partial(solved, mdp, algorithm)
        for called, rule in rules(mdp.n_actions).items():
            for samples in (100, 1000, 10**15):
                decide = rr.PlugInPolicy(
                    0.3, 0.05, 0.4, rule=rule, samples=samples, budget=None, over="initial", horizon=None
                )
                yield f"{name}/plug-in/{called}/{samples}", partial(solved, mdp, decide)


def simulator_cases() -> Iterator[tuple[str, Case]]:
    """Yield runs on code that is stepped."""
    for name, simulator in simulators().items():
        algorithms: Record = {
            "phased": rr.PhasedVI(0.3, 0.05, target="policy", calls=300, iterations=6),
            "rpvi": rr.ReplicablePhasedVI(
                0.3, 0.05, 0.4, target="policy", calls=1000, iterations=5, tolerance=0.1, rho_sq=0.01
            ),
            "model": rr.ApproximateMDP(0.2, 0.05, norm="entry", calls=400),
            "replicable-model": rr.ReplicableApproximateMDP(
                0.2, 0.05, 0.4, norm="entry", form="zero-preserving", calls=2000, tolerance=0.1
            ),
        }
        for called in ("affordable", "rounded", "greedy"):
            algorithms[called] = rr.PlugInPolicy(
                0.1, 0.05, 0.4, rule=rules(2)[called], samples=200, budget=None, over="initial", horizon=None
            )
        for called, algorithm in algorithms.items():
            yield f"{name}/{called}", partial(solved, simulator, algorithm)


def episode_cases() -> Iterator[tuple[str, Case]]:
    """Yield runs that play episodes: environments of Gymnasium, and tables that are explored."""
    spent: Record = {"episodes": 200, "rounds": 4, "known": 5.0, "tolerance": 0.2, "support": None}
    for name in environments():
        algorithms: Record = {
            "rmax": rr.RMax(0.2, 0.05, 20, **spent),
            "replicable-rmax": rr.ReplicableRMax(
                0.2, 0.05, 0.4, 20, **spent, window=2.0, threshold="randomised", estimate="rstat"
            ),
        }
        for called in ("affordable", "greedy", "tolerance"):
            algorithms[called] = rr.PlugInPolicy(
                0.1, 0.05, 0.4, rule=rules(4)[called], samples=None, budget=20_000, over="initial", horizon=25
            )
        for called, algorithm in algorithms.items():
            yield f"{name}/{called}", partial(in_environment, name, algorithm)
    for name, mdp in {**tables(), **masked_tables()}.items():
        for called in ("affordable", "greedy"):
            decide = rr.PlugInPolicy(
                0.1,
                0.05,
                0.4,
                rule=rules(mdp.n_actions)[called],
                samples=None,
                budget=50_000,
                over="initial",
                horizon=20,
            )
            yield f"{name}/{called}", partial(solved, mdp, decide)


def in_environment(name: str, algorithm: Any) -> Record:
    """Return what a run returned in an environment that was just made."""
    return solved(environments()[name], algorithm)


def log_rules() -> dict[str, Any]:
    """Return algorithms for logs."""
    return {
        name: rr.PlugInPolicy(0.05, 0.05, 0.2, rule=rule, samples=None, budget=None, over="initial", horizon=None)
        for name, rule in rules(2).items()
        if name in ("affordable", "affordable-back", "greedy", "rounded", "tolerance")
    }


def log_cases(folder: Path) -> Iterator[tuple[str, Case]]:
    """Yield decisions on logs of every source, what is diagnosed, and what is published."""
    sources, affordable = written(folder), log_rules()["affordable"]
    logs = {name: rr.from_transitions(source, gamma=0.9, **options) for name, (source, options) in sources.items()}
    for name, data in logs.items():
        algorithms = log_rules()
        for called, algorithm in algorithms.items():
            yield f"{name}/{called}", partial(solved, data, algorithm, drawn=False)
    for name in ("csv", "csv-ends", "parquet-large", "pandas-whole", "bins", "allowed"):
        for called in ("affordable", "greedy"):
            yield f"diagnosed/{name}/{called}", partial(diagnosed, logs[name], log_rules()[called])
    for name in ("csv", "parquet-large", "several", "declared", "allowed"):
        yield f"published/{name}", partial(published, logs[name], logs[name], affordable, drawn=False)
    pair = from_logs([rows("one", 800), rows("two", 800)], gamma=0.9, done="done", reward_range=(0.0, 1.25))
    one, two = pair.values()
    yield "published/another", partial(published, one, two, affordable, drawn=False)
    for called, algorithm in log_rules().items():
        yield f"aligned/{called}", partial(solved, two, algorithm, drawn=False)


def published(first: Any, second: Any, algorithm: Any, *, drawn: bool = True) -> Record:
    """Return what a second lab decides with the cuts of a first."""
    cuts = rr.publish(first, algorithm, sample_seed=SAMPLE + 1 if drawn else None)
    follow = dataclasses.replace(algorithm, rule=rr.rules.PublishedCuts(cuts))
    digests = {
        name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:24]
        for name, array in (("tolerances", cuts.tolerances), ("cuts", cuts.policy))
    }
    return digests | solved(second, follow, drawn=drawn)


def published_cases() -> Iterator[tuple[str, Case]]:
    """Yield published cuts on tables and simulators, with and without masks."""
    problems: dict[str, Any] = {**tables(), **masked_tables(), **simulators()}
    for name, problem in problems.items():
        order = tuple(range(problem.n_actions))
        decide = rr.PlugInPolicy(
            0.05,
            0.05,
            0.4,
            rule=rr.rules.AffordableTolerance(order=order),
            samples=400,
            budget=None,
            over="initial",
            horizon=None,
        )
        yield name, partial(published, problem, problem, decide)


def diagnosed(data: Any, algorithm: Any) -> Record:
    """Return what is forecast of other logs, and the fragile states."""
    found = rr.diagnose(data, algorithm, shared_seed=SHARED, resamples=40, confidence=0.95, seed=3)
    return {
        "policy": found.policy.tolist(),
        "agreement": round(float(found.agreement), 9),
        "halves": None if found.halves is None else round(float(found.halves), 9),
        "fragile": [[state.state, state.action, state.rival, round(state.share, 9)] for state in found.states],
    }


def kinds(folder: Path) -> dict[str, Callable[[], Iterator[tuple[str, Case]]]]:
    """Return the cases by kind; ``folder`` is an empty one for the logs."""
    return {
        "tables": table_cases,
        "theorems": theorem_cases,
        "masks": masked_cases,
        "simulators": simulator_cases,
        "episodes": episode_cases,
        "published": published_cases,
        "logs": partial(log_cases, folder),
    }


def main() -> None:
    """Run all cases and write what they returned."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = {f"{kind}: {name}": case() for kind, named in kinds(Path(folder)).items() for name, case in named()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(record)}" for name, record in recorded.items())
    FILE.write_text("{\n" + lines + "\n}\n")
    refused = sum("refused" in record for record in recorded.values())
    sys.stderr.write(f"{len(recorded)} cases, {refused} of them refused, are in {FILE}\n")


if __name__ == "__main__":
    main()
