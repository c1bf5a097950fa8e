"""The command ``replicable-rl diagnose``: what a log decides, and what another one would have decided."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from replicable_rl.cli.columns import in_options, naming_options, read_log, with_column_options
from replicable_rl.cli.options import AsJson, algorithm_options, build_algorithm, given_options, refuse_early, whole
from replicable_rl.cli.output import print_all, print_json, print_note, terminal_width
from replicable_rl.cli.problems import refuse_problem
from replicable_rl.diagnose import diagnose
from replicable_rl.errors import check_in_open_interval
from replicable_rl.files import replacing
from replicable_rl.pages.diagnosis_text import save_diagnosis
from replicable_rl.progress import bar as progress_bar

_WIDEST = 100  # columns of text that reads well
_USUAL: dict[str, Any] = {"epsilon": 0.05, "delta": 0.05, "rho": 0.2}


@with_column_options
@algorithm_options("epsilon", "delta", "rho", "rule", "over")
def diagnose_command(
    log: Annotated[
        Path,
        Argument(
            metavar="LOG", help="A .csv, .parquet or .jsonl file, a folder of them, or a saved .npz file of samples."
        ),
    ],
    shared_seed: Annotated[str, Option(metavar="SEED", help="The shared randomness with which the log decides.")] = "0",
    resamples: Annotated[
        str | None,
        Option(metavar="N", help="Pairs of new logs, and splits into halves.  [default: 200; 50 for huge logs]"),
    ] = None,
    target: Annotated[float, Option(metavar="X", help="Agreement to find the data for.")] = 0.95,
    seed: Annotated[str, Option(metavar="SEED", help="What the resampling follows from.")] = "0",
    report: Annotated[Path | None, Option(metavar="FILE", help="Also make a page, such as page.html.")] = None,
    as_json: AsJson = False,
    *,
    given: dict[str, Any],
    columns: dict[str, Any],
) -> int:
    """Say what LOG decides, and how likely another log decides alike.

    Also say in which states it does not, and how much data it would take.
    """
    refuse_problem("diagnose", str(log))
    asked_of = {name: _USUAL.get(name) if value is None else value for name, value in given.items()}
    chosen = build_algorithm("plug-in-policy-v1", asked_of)
    told = {"shared_seed": shared_seed, "resamples": resamples, "target": target, "seed": seed}
    command = _command(log, columns | given | told)
    if report is not None and (report.is_file() or not report.exists()):  # a pipe is opened once only
        refuse_early(replacing(report))
    target = check_in_open_interval("diagnose", "--target", target)
    numbers = {"shared_seed": shared_seed, "seed": seed} | ({} if resamples is None else {"resamples": resamples})
    with progress_bar(), naming_options():
        data = read_log("diagnose", log, columns)
        asked = {name: whole(f"--{name.replace('_', '-')}", text) for name, text in numbers.items()}
        found = diagnose(data, chosen, **asked)
        found.data_needed(target)  # it takes long, and is known from now on
        found.rules()
    if report is not None:
        save_diagnosis(found, report, target, str(log), command)
    if as_json:
        print_json(found.to_json(target=target, rules=True))
        return 0
    print_all(in_options(found.text(width=min(terminal_width(), _WIDEST), target=target, rules=True)))
    if report is not None:
        print_note(f"{report}: open it in a browser.")
    return 0


def _command(log: Path, given: dict[str, Any]) -> str:
    """Return the command that finds the same; what is as usual is left out."""
    usual = {"shared_seed": "0", "target": 0.95, "seed": "0"}
    told = {name: value for name, value in given.items() if value != usual.get(name)}
    words = [word for name, option in given_options(told).items() for word in _words(option, told[name])]
    exact = (_exactly(word) if isinstance(word, float) else word for word in words)
    return shlex.join(["replicable-rl", "diagnose", str(log), *exact])


def _exactly(x: float) -> str:
    """Return a number as short as it can be without becoming another one.

    >>> _exactly(110.0), _exactly(0.9999999)
    ('110', '0.9999999')
    """
    short = f"{x:g}"
    return short if float(short) == x else repr(x)


def _words(option: str, value: Any) -> list[Any]:
    """Return an option with its value: numbers that belong together once, texts of which there may be many each."""
    if isinstance(value, list):
        return [word for one in value for word in (option, one)]
    return [option, *value] if isinstance(value, tuple) else [option, value]
