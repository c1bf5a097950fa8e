"""What the lab measures: two runs, their agreement, the frontier, and what a log says; each with its command."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.audit import AuditResult, audit
from replicable_rl.data import from_transitions
from replicable_rl.diagnose import Comparison, Diagnosis, compare, diagnose
from replicable_rl.errors import InvalidInput, check_integer, shown
from replicable_rl.lab.setting import DELTA, Setting, said
from replicable_rl.records import Run
from replicable_rl.solve import solve
from replicable_rl.theory.plug_in_plan import PROBABILITIES

COMPARED = ("greedy", "affordable", "tolerance", "rounded", "gumbel", "published")
SIZES = 64, 2**16  # samples of a pair that a comparison tries
MOST_PAIRS_OF_RUNS = 2_000
MOST_SEED = 2**32 - 1
_USUAL: dict[str, object] = {"epsilon": 0.05, "rule": "affordable", "resamples": 200}  # of the command
LOG_KINDS = (".csv", ".parquet", ".jsonl")
MOST_MEGABYTES = 50
TARGET = 0.95
LOG_RULES = ("affordable", "tolerance", "rounded", "gumbel", "perturbed", "greedy")
COLUMNS = ("state", "action", "reward", "next_state", "done", "episode", "order")


@dataclass(frozen=True)
class TwoRuns:
    """Two runs with one shared seed on different samples, and the command that makes them."""

    setting: Setting
    runs: tuple[Run, Run]
    command: str

    @property
    def level(self) -> str:
        """What is compared: the policy, or the probabilities of actions where there is no policy."""
        return "policy" if "policy" in self.runs[0].outputs else PROBABILITIES

    @property
    def same(self) -> bool:
        """Whether both runs have the same policy, to the last bit."""
        one, two = (run.fingerprints[self.level] for run in self.runs)
        return one == two

    @property
    def policies(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The action of every state in both runs; the most likely one where actions have probabilities."""
        if self.level == "policy":
            return self.runs[0].policy, self.runs[1].policy
        one, two = (run.outputs[PROBABILITIES].argmax(axis=1) for run in self.runs)
        return one, two


def later_seeds(seeds: tuple[float, float]) -> tuple[int, int]:
    """Return two other sample seeds.

    >>> later_seeds((1, 2)), later_seeds((5.5, 0)), later_seeds((0, MOST_SEED))
    ((3, 4), (6, 7), (1, 2))
    """
    last = int(max(seeds))
    return (last + 1, last + 2) if last + 2 <= MOST_SEED else (1, 2)


def two_runs(setting: Setting, shared_seed: int, sample_seeds: tuple[int, int]) -> TwoRuns:
    """Run twice on fresh samples.

    >>> from replicable_rl.records import ObjectSpec
    >>> found = two_runs(Setting(ObjectSpec("two-goals-v1"), "affordable", 1000), 2023, (1, 2))
    >>> found.same, found.command.count("replicable-rl solve")
    (True, 2)
    """
    shared_seed = check_integer("lab", "the shared seed", shared_seed, low=0, high=MOST_SEED)
    runs, commands = [], []
    for seed in sample_seeds:
        sample_seed = check_integer("lab", "a sample seed", seed, low=0, high=MOST_SEED)  # none would be a random one
        runs.append(solve(setting.mdp, setting.algorithm, shared_seed=shared_seed, sample_seed=sample_seed))
        commands.append(setting.command("solve", "--shared-seed", shared_seed, "--sample-seed", sample_seed))
    return TwoRuns(setting, (runs[0], runs[1]), setting.commands(*commands))


@dataclass(frozen=True)
class Audited:
    """An audit, and the command that makes it."""

    result: AuditResult
    command: str

    @property
    def level(self) -> str:
        """The level that is shown: the policy, if the runs have one."""
        return self.result.level


def audited(setting: Setting, pairs: int) -> Audited:
    """Measure how often two runs agree, in so many pairs."""
    pairs = check_integer("lab", "pairs", pairs, low=1, high=MOST_PAIRS_OF_RUNS)
    result = audit(setting.mdp, setting.algorithm, shared_seeds=pairs)
    return Audited(result, setting.commands(setting.command("audit", "--shared-seeds", pairs)))


@dataclass(frozen=True)
class Compared:
    """A comparison of rules, and the command that makes its figure."""

    found: Comparison
    command: str


def compared(setting: Setting, pairs: int = 300, rules: tuple[str, ...] = COMPARED) -> Compared:
    """Find how many samples each rule needs for what is asked, within sizes that are quickly tried."""
    pairs = check_integer("lab", "pairs", pairs, low=1, high=MOST_PAIRS_OF_RUNS)
    start, most = SIZES
    found = compare(
        setting.mdp,
        setting.rho,
        setting.epsilon,
        delta=DELTA,
        algorithms=rules,
        start=start,
        most=most,
        shared_seeds=pairs,
    )
    asked = ["--rho", setting.rho, "--epsilon", setting.epsilon, "--delta", DELTA]
    only = [word for rule in rules for word in ("--only", rule)]
    size = ["--start", start, "--most", most, "--shared-seeds", pairs]
    return Compared(
        found, said(setting.problem, "compare", setting.problem.text, *asked, *only, *size, "--figure", "frontier.svg")
    )


@dataclass(frozen=True)
class Diagnosed:
    """The diagnosis of a log, its name, and the command that makes its page."""

    found: Diagnosis
    name: str
    command: str


def diagnosed(
    name: str,
    contents: bytes,
    gamma: float,
    columns: Mapping[str, str],
    *,
    epsilon: float = 0.05,
    rule: str = "affordable",
    resamples: int = 100,
) -> Diagnosed:
    r"""Say what a log decides, and what another one would; ``columns`` names those that are called otherwise.

    >>> log = b"state,action,reward,next_state\n" + b"0,0,0,1\n0,1,1,0\n1,0,0,0\n1,1,1,1\n" * 20
    >>> found = diagnosed("log.csv", log, 0.9, {}, resamples=10)
    >>> found.found.summary.rows, found.command
    (80, 'replicable-rl diagnose log.csv --gamma 0.9 --resamples 10 --report page.html')
    """
    kind = _kind(name, contents)
    if unknown := [column for column in columns if column not in COLUMNS]:
        raise InvalidInput(f"lab: a log has no {shown(unknown[0])}. It has: {', '.join(COLUMNS)}.")
    named = {column: _names(columns[column]) for column in COLUMNS if columns.get(column, "").strip()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"log{kind}"
        file.write_bytes(contents)
        try:
            data = from_transitions(file, gamma=gamma, **named)
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(str(file), name)) from None
    asked = {"epsilon": epsilon, "rule": rule, "resamples": resamples}
    found = diagnose(data, PlugInPolicy(epsilon, DELTA, 0.2, rule=rule), resamples=resamples)
    options: dict[str, object] = {"gamma": gamma}
    options |= {column: ",".join([one] if isinstance(one, str) else one) for column, one in named.items()}
    options |= {option: value for option, value in asked.items() if value != _USUAL[option]}
    words = [str(word) for option, value in options.items() for word in (f"--{option.replace('_', '-')}", value)]
    path = f"./{name}" if name.startswith("-") else name
    return Diagnosed(found, name, shlex.join(["replicable-rl", "diagnose", path, *words, "--report", "page.html"]))


def _kind(name: str, contents: bytes) -> str:
    """Return the ending of a log's name; refuse what cannot be read here."""
    kind = Path(name).suffix.lower()
    if kind not in LOG_KINDS:
        raise InvalidInput(f"lab: a log is a file that ends in {', '.join(LOG_KINDS)}, got {shown(name)}.")
    if len(contents) > MOST_MEGABYTES * 10**6:
        raise InvalidInput(
            f"lab: a log has at most {MOST_MEGABYTES} MB here, got {len(contents) / 1e6:.0f} MB. Use `replicable-rl "
            "diagnose`, which reads files of any size where they lie."
        )
    return kind


def _names(text: str) -> Any:
    """Return one column, or several that are separated by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return names[0] if len(names) == 1 else names


def example_log(rows: int = 3000) -> bytes:
    """Return a log to try: a walk on the grid of two goals, with actions by chance.

    >>> print(example_log(2).decode(), end="")
    episode,step,state,action,reward,next_state
    0,0,"(2,1)",left,0,"(2,0)"
    0,1,"(2,0)",down,0,"(2,0)"
    """
    from replicable_rl.registry import make

    mdp, rng = make("two-goals-v1"), np.random.default_rng(0)
    states, actions = mdp.labels.states or (), mdp.labels.actions or ()
    lines, state, episode, step = ["episode,step,state,action,reward,next_state"], 0, -1, 20
    for _ in range(rows):
        if step == 20:
            state, episode, step = int(rng.choice(mdp.n_states, p=mdp.initial)), episode + 1, 0
        action = int(rng.integers(mdp.n_actions))
        after, reward = _step(mdp, state, action, rng)
        lines.append(f'{episode},{step},"{states[state]}",{actions[action]},{reward:g},"{states[after]}"')
        state, step = after, step + 1
    return "\n".join([*lines, ""]).encode()


def _step(mdp: Any, state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    rows, pair = mdp.rows, state * mdp.n_actions + action
    outcomes = slice(rows.indptr[pair], rows.indptr[pair + 1])
    chosen = outcomes.start + int(rng.choice(outcomes.stop - outcomes.start, p=rows.probability[outcomes]))
    return int(rows.next_state[chosen]), float(rows.reward[chosen])
