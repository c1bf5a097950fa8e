"""The command ``replicable-rl collect``."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from replicable_rl.cli.options import AsJson, Problem, whole
from replicable_rl.cli.output import print_json, print_lines, print_note, saying_what_is_kept
from replicable_rl.cli.problems import refuse_log
from replicable_rl.cli.progress import progress_bar
from replicable_rl.collect import collect
from replicable_rl.errors import InvalidInput
from replicable_rl.registry import parse_object, resolve_problem
from replicable_rl.sampling import EpisodicEnv


def collect_command(
    problem: Problem,
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="Where the samples are kept, a .npz file.")],
    samples: Annotated[str | None, Option(metavar="N", help="Samples of every pair.")] = None,
    budget: Annotated[str | None, Option(metavar="N", help="Samples in all.")] = None,
    sample_seed: Annotated[
        str | None, Option(metavar="SEED", help="The fresh samples.  [default: that of FILE, or new entropy]")
    ] = None,
    stepped: Annotated[
        bool, Option("--stepped", help="Step the Gymnasium environment PROBLEM; its table is not used.")
    ] = False,
    gamma: Annotated[float | None, Option(metavar="X", help="Discount in [0, 1), with --stepped.")] = None,
    reward_range: Annotated[
        tuple[float, float] | None, Option(metavar="LOW HIGH", help="Bounds of the rewards, with --stepped.")
    ] = None,
    horizon: Annotated[str | None, Option(metavar="N", help="Steps before a reset, with --stepped.")] = None,
    as_json: AsJson = False,
) -> int:
    """Draw samples of PROBLEM and keep them in FILE; the same command goes on where it was stopped.

    `replicable-rl diagnose FILE` says what they decide, and what other samples would have decided.
    """
    refuse_log("collect", problem, {}, "what it decides")
    source = _source(problem, stepped, gamma, reward_range)
    with progress_bar(), saying_what_is_kept(out, "Samples"):
        data = collect(
            source,
            None if samples is None else whole("--samples", samples),
            budget=None if budget is None else whole("--budget", budget),
            horizon=None if horizon is None else whole("--horizon", horizon),
            sample_seed=None if sample_seed is None else whole("--sample-seed", sample_seed),
            keep=out,
        )
    if as_json:
        print_json({"file": str(out), "digest": data.sample.digest, "summary": data.summary().to_json()})
        return 0
    print_lines(str(data.summary()))
    print_note(f"{out}: replicable-rl diagnose {shlex.quote(str(out))} says what these samples decide.")
    return 0


def _source(problem: str, stepped: bool, gamma: float | None, reward_range: tuple[float, float] | None) -> Any:
    if not stepped:
        if gamma is not None or reward_range is not None:
            raise InvalidInput("collect: --gamma and --reward-range go with --stepped; a table has its own.")
        return resolve_problem(problem)
    if gamma is None or reward_range is None:
        raise InvalidInput("collect: --stepped needs --gamma and --reward-range: an environment does not say them.")
    spec = parse_object(problem)
    params: dict[str, Any] = dict(spec.params)
    if own := {"gamma", "reward_range", "version", "budget", "env"} & set(params):
        raise InvalidInput(f"{problem}: {min(own)} is no parameter of the environment. Give it as an option.")
    return EpisodicEnv(spec.id, gamma=gamma, reward_range=reward_range, **params)
