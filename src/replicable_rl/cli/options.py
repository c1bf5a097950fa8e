"""What commands take: one table from an option to the parameter that it is, and the objects that words stand for.

``--rho-sq`` is the parameter ``rho_sq``: the name, its type and its help stand once, in `OPTIONS`. A command names the
options that it takes, group by group, and gets those that were given as dictionaries, ready to be passed on.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, shown, whole_number
from replicable_rl.files import kind_in_file, load_artifact
from replicable_rl.logs import Bins, Dataset, from_transitions
from replicable_rl.logs.sources import ENDINGS
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import PROBLEMS, build, make
from replicable_rl.runs import ObjectSpec
from replicable_rl.wording import sentence


def whole(text: str) -> int:
    """Read a whole number, also in the form 1e6.

    >>> whole("13_000"), whole("1e16")
    (13000, 10000000000000000)
    """
    number = whole_number(number_of(text))
    if number is None:
        raise typer.BadParameter(f"must be a whole number such as 13000 or 1e6, got {shown(text)}.")
    return number


def seeds(text: str) -> int | list[int]:
    """Read how many seeds, or the seeds themselves, with commas between."""
    return [whole(part) for part in text.split(",") if part] if "," in text else whole(text)


def one_or_several(text: str) -> str | list[str]:
    """Read one column, or several with commas between."""
    parts = text.split(",")
    return parts[0] if len(parts) == 1 else parts


_WHOLE: dict[str, Any] = {"parser": whole, "metavar": "N"}
_X: dict[str, Any] = {"metavar": "X"}
_FILE: dict[str, Any] = {"metavar": "FILE"}

# The type of an option, its help, and how it is read and shown.
OPTIONS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    # of algorithms
    "epsilon": (float, "Accuracy, or loss, in values normalised to [0, 1].", _X),
    "delta": (float, "Failure probability of the accuracy.", _X),
    "rho": (float, "Probability that two runs may differ.", _X),
    "target": (str, "What epsilon is about: policy or value.", {}),
    "over": (str, "Which loss: initial or worst.", {}),
    "rule": (str, "How a plug-in policy decides (see `list`): an id, id:key=value, or a file of cuts.", {}),
    "horizon": (int, "Steps of an episode.", _WHOLE),
    "calls": (int, "Samples of every pair in one iteration.", _WHOLE),
    "samples": (int, "Samples of every pair, for a plug-in policy.", _WHOLE),
    "budget": (int, "Samples in all.", _WHOLE),
    # of logs
    "gamma": (float, "Discount, in [0, 1).", _X),
    "state": (str, "The column of the state, or several: room,hour.", {"parser": one_or_several}),
    "action": (str, "The column of the action, or several.", {"parser": one_or_several}),
    "reward": (str, "The column of the reward.", {}),
    "next_state": (str, "The column of the next state, or several.", {"parser": one_or_several}),
    "done": (str, "The column that says where episodes end.", {}),
    "episode": (str, "The column that names episodes.", {}),
    "order": (str, "The column that orders the rows of an episode.", {}),
    "last": (str, "Without next states: what the last row of an episode is, drop or end.  [default: drop]", {}),
    "bins": (list[str], "Bins of a column of numbers: temperature=10,20,30.", {"metavar": "NAME=EDGES"}),
    "reward_range": (tuple[float, float], "Bounds of the rewards.  [default: those seen]", {"metavar": "LOW HIGH"}),
    "allowed": (Path, "A log with a row for every state and action that is allowed.  [default: all]", _FILE),
    # of training functions
    "evaluate": (str, "What measures the return of a run: module:function, or a Gymnasium id.", {}),
    "probe": (str, "Observations to compare policies on: module:name.", {}),
    "version": (str, "The version of the function, which a --store asks for.", {}),
    # of audits and searches
    "shared_seeds": (str, "How many shared seeds, or the seeds: 7,2023.", {"parser": seeds, "metavar": "N"}),
    "runs_per_seed": (int, "Runs on fresh samples under each shared seed.  [default: 2]", {**_WHOLE, "name": "--runs"}),
    "seed": (int, "What all other seeds follow from.  [default: 0]", _WHOLE),
    "confidence": (float, "How sure the intervals are.  [default: 0.95]", _X),
    "require": (float, "The agreement that two runs must have; see the exit codes.", _X),
    "level": (str, "What must agree (see `list`).  [default: policy, if there is one]", {}),
    "store": (Path, "Keep finished runs in this SQLite file; the same call resumes.", _FILE),
    "n_jobs": (int, "Workers; -1 for all cores.", {**_WHOLE, "name": "--jobs"}),
    "on_error": (str, "raise, or record failures and go on.  [default: raise]", {}),
    "algorithms": (list[str], "A rule, or rpvi; may be repeated.", {"name": "--only"}),
    "start": (int, "The smallest size to try.", _WHOLE),
    "most": (int, "The largest size to try.", _WHOLE),
    "resamples": (int, "Pairs of new logs, and splits into halves.  [default: 200; 50 for huge logs]", _WHOLE),
    "shared_seed": (int, "The published randomness: runs that should agree share it.", _WHOLE),
    "sample_seed": (int, "The fresh samples.  [default: new entropy]", _WHOLE),
}

OF_ALGORITHMS = ("epsilon", "delta", "rho", "target", "over", "rule", "horizon", "calls", "samples", "budget")
OF_LOGS = tuple(OPTIONS)[list(OPTIONS).index("gamma") : list(OPTIONS).index("allowed") + 1]
_PANELS = {"given": "Options of the algorithm", "log": "Columns of a log", "function": "Options of a function"}

Asked = dict[str, dict[str, Any]]  # what was given of the options of every group, by parameter


def option_of(name: str) -> str:
    """Return the option of a parameter.

    >>> option_of("reward_range"), option_of("n_jobs")
    ('--reward-range', '--jobs')
    """
    return str(OPTIONS[name][2].get("name", f"--{name.replace('_', '-')}"))


def taking(**groups: Iterable[str]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a command take options, group by group: those that were given come as ``asked``."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
        own = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items() if name != "asked"]
        options = [_parameter(name, _PANELS.get(group)) for group, taken in groups.items() for name in taken]

        @functools.wraps(command)
        def wrapped(**values: Any) -> int:
            asked = {group: {name: values.pop(name) for name in taken} for group, taken in groups.items()}
            given = {group: {k: v for k, v in named.items() if v not in (None, [])} for group, named in asked.items()}
            return command(**values, asked=given)

        # What typer reads of a command:
        wrapped.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]  # it may have one
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *options)}
        return wrapped

    return decorate


def _parameter(name: str, panel: str | None) -> inspect.Parameter:
    kind, help, how = OPTIONS[name]
    how = {"metavar": "NAME", **how}
    option = typer.Option(option_of(name), help=help, rich_help_panel=panel, **{k: how[k] for k in how if k != "name"})
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_OF_TWO_WORDS = "|".join(name for name in OPTIONS if "_" in name)  # no other word of a sentence looks like these
_IN_PYTHON = re.compile(
    rf"(?<![\w'-])(?:({'|'.join(OPTIONS)})=(?:\[\.\.\.\]|\.\.\.|'([^']*)')|({_OF_TWO_WORDS})\b(?!['=]))"
)


def in_options(message: str) -> str:
    """Return a message about arguments of Python as one about options.

    >>> in_options("Pass version='1'.")
    'Pass --version 1.'
    >>> in_options("solve: shared_seed must be an integer, got -1.")
    'solve: --shared-seed must be an integer, got -1.'
    """
    return _IN_PYTHON.sub(lambda match: " ".join(filter(None, (option_of(match[1] or match[3]), match[2]))), message)


def refuse(owner: str, given: dict[str, Any], why: str) -> None:
    """Refuse options that were given and have no meaning here."""
    if given:
        raise InvalidInput(f"{owner}: {', '.join(map(option_of, given))} {why}")


def refuse_early(path: Path | None) -> None:
    """Refuse before long work a file that could not be written after it."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise InvalidInput(f"{path}: cannot be written. Name a file in a folder that there is.")


# --- objects ------------------------------------------------------------------------------------------------------


def parse_object(text: str) -> ObjectSpec:
    """Read ``id:key=value,key=value``; values are numbers, true, false, or else text.

    >>> dict(parse_object("garnet-v1:n_states=5e1,gamma=0.95").params)
    {'n_states': 50.0, 'gamma': 0.95}
    """
    id, _, listed = text.partition(":")
    params: dict[str, Json] = {}
    for item in filter(None, listed.split(",")):
        key, equals, value = item.partition("=")
        if not (key.isidentifier() and equals) or key in params:
            rule = "parameters are written key=value, each once, and separated by commas"
            raise InvalidInput(f"{text}: {rule}, got {shown(item)}.")
        number = number_of(value)
        words = {"true": True, "false": False}
        params[key] = words.get(value.lower(), value) if number is None else number
    return ObjectSpec(id, params)


def number_of(text: str) -> int | float | None:
    """Read a number.

    >>> number_of("1e16"), number_of("13_000"), number_of("x")
    (1e+16, 13000, None)
    """
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        return float(text)
    return None


def algorithm_named(text: str, given: dict[str, Any]) -> Any:
    """Build an algorithm from ``id:key=value`` and from options."""
    spec = parse_object(text)
    for name in given:
        if name in spec.params:
            raise InvalidInput(f"{text}: {name} is also given as {option_of(name)}. Give it once.")
    params = {**spec.params, **given}
    if ":" in given.get("rule", "") and not given["rule"].endswith(".npz"):
        rule = parse_object(given["rule"])
        params["rule"] = {"id": rule.id, **rule.params}
    return build(ObjectSpec(spec.id, params))


def is_log(text: str) -> bool:
    """Whether a word names a log: files, a folder or a pattern of them, or what was counted and saved.

    >>> is_log("monday.csv"), is_log("logs/2026-*"), is_log("chain-v1"), is_log("chain-v1:n_states=6")
    (True, True, False, False)
    """
    if text.endswith(".npz"):
        return kind_in_file(text) == Dataset.saved_as
    id = text.partition(":")[0]
    patterned = any(letter in id for letter in "*?[")
    return text.lower().endswith(ENDINGS) or patterned or (id not in PROBLEMS and os.path.isdir(text))  # noqa: PTH112


def problem_named(owner: str, text: str) -> TabularMDP:
    """Return the problem that a word names: a saved file, or an id, perhaps with ``:key=value,...``."""
    if is_log(text):
        raise InvalidInput(f"{owner}: needs fresh samples, and {text} is a log. `replicable-rl diagnose` takes a log.")
    if text.endswith(".npz") or os.path.isfile(text):  # noqa: PTH113  # Path's raises where a map is no file name
        return load_artifact(text, TabularMDP)
    spec = parse_object(text)
    return make(spec.id, **spec.params)


def problem_or_log(owner: str, text: str, log: dict[str, Any]) -> TabularMDP | Dataset:
    """Return the problem that a word names, or the log in its place, read with the options of ``log``."""
    if is_log(text):
        return log_named(text, log)
    refuse(owner, log, f"is for logs, and {shown(text)} is none: a log ends in {', '.join(ENDINGS)}, or is a folder.")
    return problem_named(owner, text)


def log_named(path: str, log: dict[str, Any]) -> Dataset:
    """Count the rows of a log, or load what was counted and saved."""
    if path.endswith(".npz"):
        refuse(path, log, "cannot change what was counted and saved. Leave it out.")
        return load_artifact(path, Dataset)
    return from_transitions(path, **log_settings(log))


def log_settings(log: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `from_transitions` that options say."""
    bins: dict[str, Bins] = {}
    for text in log.get("bins", ()):
        column, _, edges = text.rpartition("=")
        try:
            bins[column] = Bins([float(edge) for edge in edges.split(",")])
        except ValueError:
            rule = "must be a column and its edges, such as temperature=10,20,30"
            raise InvalidInput(f"--bins: {rule}, got {shown(text)}.") from None
    return {**log, "bins": bins} if bins else log


# --- code of others -----------------------------------------------------------------------------------------------

_FUNCTION = re.compile(r"(?P<module>[^=]+):(?P<name>[^\W\d]\w*)")


def is_function(text: str) -> bool:
    """Whether a word names a function, and no problem or algorithm.

    >>> is_function("train.py:train"), is_function("mine.agents:dqn"), is_function("chain-v1:n_states=3")
    (True, True, False)
    """
    return _FUNCTION.fullmatch(text) is not None


def function_named(owner: str, text: str) -> Any:
    """Return what ``module:name`` or ``file.py:name`` names, in this folder or where Python finds modules."""
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{owner} must be module:function or file.py:function, got {shown(text)}.")
    module, name = import_module(owner, found["module"]), found["name"]
    if name not in vars(module):
        raise InvalidInput(f"{owner} {text}: there is no {name!r} in it.")
    return vars(module)[name]


def import_module(owner: str, name: str) -> Any:
    """Import a module, or a file as Python itself would run it: its folder comes first among those of modules."""
    path = Path(name).resolve()
    is_file = name.endswith(".py")
    if is_file and not path.is_file():
        raise InvalidInput(f"{owner} {name}: there is no such file.")
    folder = str(path.parent) if is_file else ""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # the file may be new
    try:
        module = importlib.import_module(path.stem if is_file else name)
    except (Exception, SystemExit) as error:  # whatever somebody's module raises, its own sentence says why
        reason = f"{type(error).__name__}: {sentence(error)}".removesuffix(": ")
        raise InvalidInput(f"{owner} {name}: cannot be imported ({reason}).") from error
    if is_file and Path(module.__file__ or "").resolve() != path:
        raise InvalidInput(f"{owner} {name}: another module is called {path.stem!r}. Give the file another name.")
    return module
