"""The command ``replicable-rl diagnose``: what a log decides, and what another one would have decided."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.cli.options import AsJson, whole
from replicable_rl.cli.output import print_json
from replicable_rl.cli.progress import progress_bar
from replicable_rl.cli.show import console
from replicable_rl.data import Bins, Dataset, from_transitions, load_dataset
from replicable_rl.diagnose import diagnose
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.wording import number, percent

Column = Annotated[str, Option(metavar="NAMES", help="Its column, or several, separated by commas.")]


def diagnose_command(
    log: Annotated[
        Path,
        Argument(
            metavar="LOG", help="A .csv, .parquet or .jsonl file, a folder of them, or a saved .npz file of samples."
        ),
    ],
    gamma: Annotated[float | None, Option(metavar="X", help="Discount in [0, 1); a saved file has its own.")] = None,
    state: Column = "state",
    action: Column = "action",
    reward: Annotated[str, Option(metavar="NAME", help="Its column.")] = "reward",
    next_state: Column = "next_state",
    done: Annotated[str | None, Option(metavar="NAME", help="The column that says where episodes end.")] = None,
    episode: Annotated[str | None, Option(metavar="NAME", help="The column that names episodes.")] = None,
    order: Annotated[str | None, Option(metavar="NAME", help="The column that orders an episode's rows.")] = None,
    bins: Annotated[
        list[str] | None,
        Option(metavar="NAME=EDGES", help="Bin a column of numbers: temperature=10,20,30. Repeatable."),
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None, Option(metavar="LOW HIGH", help="Bounds of the rewards [default: those seen].")
    ] = None,
    epsilon: Annotated[float, Option(metavar="X", help="Loss allowed, in values normalised to [0, 1].")] = 0.05,
    rule: Annotated[str, Option(metavar="NAME", help="A rule (see `list`).")] = "affordable",
    shared_seed: Annotated[str, Option(metavar="SEED", help="With which the log decides.")] = "0",
    resamples: Annotated[str, Option(metavar="N", help="Pairs of new logs, and splits into halves.")] = "200",
    target: Annotated[float, Option(metavar="X", help="Agreement to find the data for.")] = 0.95,
    seed: Annotated[str, Option(metavar="SEED", help="What the resampling follows from.")] = "0",
    as_json: AsJson = False,
) -> int:
    """Say what LOG decides, how likely another log decides alike, where not, and how much data it would take."""
    read: dict[str, Any] = {"state": _columns(state), "action": _columns(action), "next_state": _columns(next_state)}
    read |= {"reward": reward, "done": done, "episode": episode, "order": order, "bins": _bins(bins or [])}
    read |= {"reward_range": reward_range}
    data = _saved(log, gamma, reward_range) if log.suffix == ".npz" else _logged(log, gamma, read)
    algorithm = PlugInPolicy(epsilon, 0.05, 0.2, rule=rule)
    with progress_bar():
        found = diagnose(
            data,
            algorithm,
            shared_seed=whole("--shared-seed", shared_seed),
            resamples=whole("--resamples", resamples),
            seed=whole("--seed", seed),
        )
        needed, rules = found.data_needed(target), found.rules()
    if as_json:
        stable: dict[str, Any] = {name: float(agreement) for name, agreement in rules.items()}
        print_json({**found.to_json(), "target": target, "rows_needed": needed, "rules": stable})
        return 0
    out = console()
    out.print(str(found), markup=False, highlight=False)
    enough = "more than can be said" if needed is None else f"about {number(needed)} rows like these"
    out.print(f"For an agreement of {percent(target)} it takes {enough}.", highlight=False)
    out.print("Agreement of other rules on this log (bootstrap):", highlight=False)
    for name, agreement in rules.items():
        out.print(f"  {name:<11}{agreement}", highlight=False)
    return 0


def _logged(log: Path, gamma: float | None, read: dict[str, Any]) -> Dataset:
    if gamma is None:
        raise InvalidInput("diagnose: a log does not say its discount. Give --gamma, such as 0.95.")
    return from_transitions(log, gamma=gamma, **read)


def _saved(log: Path, gamma: float | None, reward_range: tuple[float, float] | None) -> Dataset:
    if gamma is not None or reward_range is not None:
        raise InvalidInput(
            f"{log}: a saved file has its own discount and reward range. Leave out --gamma and the like."
        )
    return load_dataset(log)


def _bins(texts: list[str]) -> dict[str, Bins]:
    """Read which column has which edges."""
    found: dict[str, Bins] = {}
    for text in texts:
        column, _, edges = text.rpartition("=")
        try:
            numbers = [float(edge) for edge in edges.split(",")]
        except ValueError:
            numbers = []
        if not column or not numbers:
            raise InvalidInput(f"--bins must be a column and its edges, temperature=10,20,30, got {shown(text)}.")
        if column in found:
            raise InvalidInput(f"--bins must name a column once, got {shown(column)} twice.")
        found[column] = Bins(numbers)
    return found


def _columns(text: str) -> str | list[str]:
    """Read one column, or several."""
    names = text.split(",")
    return names[0] if len(names) == 1 else names
