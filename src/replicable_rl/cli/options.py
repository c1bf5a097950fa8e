"""Options that several commands share, and the algorithm they describe."""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from replicable_rl.cli.objects import number_of, parse_object
from replicable_rl.errors import InvalidInput, shown, whole_number
from replicable_rl.registry import ALGORITHMS, build
from replicable_rl.runs import ObjectSpec

PROBLEM = typer.Argument(
    metavar="PROBLEM",
    help="An id (see `list`), id:key=value,..., a Gymnasium id, or a saved .npz file.",
)
ALGORITHM = typer.Argument(metavar="ALGORITHM", help="An id (see `list`), or id:key=value,...")
Problem = Annotated[str, PROBLEM]
AlgorithmId = Annotated[str, ALGORITHM]
Store = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep finished runs in this SQLite file; the same call resumes.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]

# What `build_algorithm` takes from the command line, beside the algorithm's own id:key=value.
_OPTIONS: dict[str, tuple[type, str]] = {
    "epsilon": (float, "Accuracy, in values normalised to [0, 1]."),
    "delta": (float, "Failure probability of the accuracy."),
    "rho": (float, "Probability that two runs may differ."),
    "horizon": (int, "Steps of an episode, for R-max and plug-in policies."),
    "target": (str, "What epsilon is about: policy or value."),
    "calls": (int, "Samples m of every pair, per iteration (1e6 is fine)."),
    "iterations": (int, "Iterations T of phased value iteration."),
    "episodes": (int, "Episodes m per round of R-max."),
    "budget": (int, "Samples in all, for a plug-in policy and for R-max."),
    "rounds": (int, "The most rounds T of R-max."),
    "tolerance": (float, "How far the answer of one query may be off."),
    "rho_sq": (float, "Probability that the answers of one query differ."),
    "rule": (
        str,
        "Rule of a plug-in policy: greedy, tolerance:tolerance=0.01, affordable:order=1,0 (which actions come first), "
        "or a .json file of cuts.",
    ),
    "samples": (int, "Samples of every pair, for a plug-in policy."),
    "over": (str, "Which loss of a plug-in policy: initial or worst."),
}
_KINDS: dict[type, tuple[Any, str]] = {float: (float | None, "X"), int: (str | None, "N"), str: (str | None, "NAME")}


def with_options(
    keyword: str, options: Mapping[str, tuple[Any, Any]]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let commands have options, (default, type) by name; a command gets them all in one dictionary, ``keyword``."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
        named = {name: (own.parameters[name].default, hints[name]) for name in own.parameters if name != keyword}
        named |= options

        @functools.wraps(command)
        def wrapped(**values: Any) -> int:
            return command(**{keyword: {name: values.pop(name) for name in options}}, **values)

        # What typer reads of a command:
        wrapped.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # functions may have one
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
                for name, (default, hint) in named.items()
            ]
        )
        wrapped.__annotations__ = {name: hint for name, (_, hint) in named.items()}
        return wrapped

    return decorate


def algorithm_options(*names: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a command have some of the options of algorithms; it gets what was given of them as ``given``, by name."""
    return with_options("given", {name: (None, _hint(name, *_OPTIONS[name])) for name in names})


def _hint(name: str, kind: type, help: str) -> Any:
    option = typer.Option(
        metavar=_KINDS[kind][1],
        help=help,
        rich_help_panel="Options of the algorithm",
    )
    return Annotated[_KINDS[kind][0], option]


with_algorithm_options = algorithm_options(*_OPTIONS)


def alternatives(text: str, given: dict[str, Any]) -> list[Any]:
    """Build the algorithm once for every target, or norm, that the user did not choose between."""
    spec = parse_object(text)
    for name, choices in (("target", ("policy", "value")), ("norm", ("entry", "l1"))):
        if name in _parameters(spec.id) and name not in spec.params and given.get(name) is None:
            joint = "," if ":" in text else ":"
            return [build_algorithm(f"{text}{joint}{name}={choice}", given) for choice in choices]
    return [build_algorithm(text, given)]


def build_algorithm(text: str, given: dict[str, Any]) -> Any:
    """Build an algorithm from ``id:key=value`` and the options of a command, by their names."""
    spec = parse_object(text)
    params = dict(spec.params)
    for name, option in given_options(given).items():
        if name in params:
            raise InvalidInput(f"{text}: {name} is also given as {option}. Give it once.")
        params[name] = whole(option, given[name]) if _OPTIONS[name][0] is int else given[name]
        if name == "rule" and ":" in given[name] and not given[name].endswith(".json"):
            params[name] = _rule(given[name])
    return build(ObjectSpec(spec.id, params))


def has_no_rho(algorithm: str) -> bool:
    """Whether a known algorithm, ``id:key=value``, promises no agreement.

    >>> has_no_rho("phased-vi-v1:epsilon=0.1"), has_no_rho("rpvi-v1")
    (True, False)
    """
    id = parse_object(algorithm).id
    return id in ALGORITHMS and "rho" not in _parameters(id)


def _parameters(id: str) -> Mapping[str, Any]:
    return inspect.signature(ALGORITHMS[id]).parameters if id in ALGORITHMS else {}


def _rule(text: str) -> dict[str, Any]:
    """Read a rule with settings; an order of actions is a list.

    >>> _rule("tolerance:tolerance=0.01,order=2,0,1")
    {'id': 'tolerance', 'order': [2, 0, 1], 'tolerance': 0.01}
    """
    id, _, listed = text.partition(":")
    settings = re.split(r",(?=[^,=]*=)", listed)
    orders = [one.partition("=")[2] for one in settings if one.startswith("order=")]
    rest = parse_object(f"{id}:{','.join(one for one in settings if not one.startswith('order='))}")
    if len(orders) > 1:
        raise InvalidInput(f"--rule: order is given twice in {shown(text)}. Give it once.")
    order = {"order": [_action(text, one) for one in orders[0].split(",")]} if orders else {}
    return {"id": rest.id, **order, **rest.params}


def _action(rule: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(
            f"--rule: order must list the numbers of all actions from 0 on, such as order=1,0, got {shown(rule)}."
        ) from None


def refuse_early(writing: contextlib.AbstractContextManager[Any]) -> None:
    """Refuse before a long run what would be refused after it: begin to write, and take it back."""

    class Enough(Exception):
        pass

    with contextlib.suppress(Enough), writing:
        raise Enough


def given_options(given: dict[str, Any]) -> dict[str, str]:
    """Return what was given, and by which option of the command line.

    >>> given_options({"rho_sq": 0.1, "rho": None})
    {'rho_sq': '--rho-sq'}
    """
    return {name: f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, [])}


def whole(option: str, text: str) -> int:
    """Read a whole number, also in the form 1e6."""
    number = whole_number(number_of(text))
    if number is None:
        raise InvalidInput(f"{option} must be a whole number such as 13000 or 1e6, got {shown(text)}.")
    return number
