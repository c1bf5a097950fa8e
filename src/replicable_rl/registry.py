"""Readable, versioned ids for problems and algorithms, and the objects they stand for.

An id is for ever: what ``two-goals-v1`` means never changes; a better one is ``-v2``.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from replicable_rl import algorithms, envs
from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput, UnknownId, did_you_mean
from replicable_rl.mdp import TabularMDP, load_mdp
from replicable_rl.records import ObjectSpec
from replicable_rl.solve import Algorithm

__all__ = [
    "ALGORITHMS",
    "PROBLEMS",
    "has_parameter",
    "make",
    "make_algorithm",
    "parse_object",
    "problem_from_spec",
    "resolve_problem",
    "whole_number",
]

PROBLEMS: Mapping[str, Callable[..., TabularMDP]] = {
    "two-goals-v1": envs.two_goals,
    "two-goals-wide-v1": envs.two_goals_wide,
    "gridworld-v1": envs.gridworld,
    "riverswim-v1": envs.riverswim,
    "chain-v1": envs.chain,
    "garnet-v1": envs.garnet,
    "inventory-v1": envs.inventory,
    "machine-repair-v1": envs.machine_repair,
}

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = {
    algorithm.id: algorithm
    for algorithm in (
        algorithms.PhasedVI,
        algorithms.ReplicablePhasedVI,
        algorithms.ApproximateMDP,
        algorithms.ReplicableApproximateMDP,
        algorithms.RMax,
        algorithms.ReplicableRMax,
    )
}

_GYMNASIUM = "gymnasium/"
_SCIENTIFIC = re.compile(r"(-?)([0-9]{0,40})(?:\.([0-9]{0,40}))?e\+?([0-9]{1,3})", re.IGNORECASE)


def make(id: str, /, **params: Any) -> TabularMDP:
    """Return the problem registered under an id.

    What an id means never changes. ``gymnasium/FrozenLake-v1`` and the like go to
    :func:`replicable_rl.from_gymnasium`.

    Parameters
    ----------
    id : str
        An id of ``replicable-rl list``.
    **params
        Parameters of the problem, which the list shows with their defaults.

    Examples
    --------
    >>> make("riverswim-v1", n_states=20)
    TabularMDP(S=20, A=2, outcomes=78, gamma=0.95)
    >>> make("two-goal-v1")
    Traceback (most recent call last):
    ...
    replicable_rl.errors.UnknownId: No problem is called 'two-goal-v1'. Did you mean 'two-goals-v1'?
    """
    if id.startswith(_GYMNASIUM):
        return _from_gymnasium(id.removeprefix(_GYMNASIUM), params)
    if id not in PROBLEMS:
        hint = did_you_mean(id, PROBLEMS) or f" Known: {', '.join(PROBLEMS)}."
        raise UnknownId(f"No problem is called {id!r}.{hint}")
    _check_names(id, PROBLEMS[id], params)
    problem = PROBLEMS[id](**params)  # first: it refuses values that cannot even be compared
    known = inspect.signature(PROBLEMS[id]).parameters
    given = {name: value for name, value in params.items() if value != known[name].default}
    return problem.with_source(ObjectSpec(id, given))


def make_algorithm(id: str, /, **params: Any) -> Algorithm:
    """Return the algorithm registered under an id.

    Parameters
    ----------
    id : str
        An id of ``replicable-rl list``, such as ``"rpvi-v1"``.
    **params
        What the constructor of the algorithm takes.

    Examples
    --------
    >>> make_algorithm("phased-vi-v1", epsilon=0.1, delta=0.01).epsilon
    0.1
    """
    if id not in ALGORITHMS:
        known = did_you_mean(id, ALGORITHMS) or f" Known: {', '.join(ALGORITHMS)}."
        raise UnknownId(f"No algorithm is called {id!r}.{known}")
    _check_names(id, ALGORITHMS[id], params)
    return ALGORITHMS[id](**params)


def has_parameter(id: str, name: str) -> bool:
    """Whether the algorithm registered under an id has a parameter of this name."""
    return id in ALGORITHMS and name in inspect.signature(ALGORITHMS[id]).parameters


def resolve_problem(text: str) -> TabularMDP:
    """Return the problem that a command line names.

    An id, ``id:key=value,key=value``, a Gymnasium id in the same two forms, or the path of a
    saved file.
    """
    if text.endswith(".npz") or os.path.isfile(text):  # noqa: PTH113  # Path's raises where a long map is no file name
        return load_mdp(text)
    return problem_from_spec(parse_object(text))


def problem_from_spec(spec: ObjectSpec) -> TabularMDP:
    """Return the problem with a registered id, or with a Gymnasium id."""
    if spec.id in PROBLEMS or spec.id.startswith(_GYMNASIUM):
        return make(spec.id, **spec.params)
    import gymnasium

    if spec.id in gymnasium.registry:
        return _from_gymnasium(spec.id, spec.params)
    known = did_you_mean(spec.id, [*PROBLEMS, *gymnasium.registry])
    raise UnknownId(
        f"No problem is called {spec.id!r}.{known} A problem is an id of `replicable-rl list`, a Gymnasium id, "
        "or a saved .npz file."
    )


def parse_object(text: str) -> ObjectSpec:
    """Read ``id:key=value,key=value``; values are numbers, true, false, or else text.

    >>> parse_object("garnet-v1:n_states=50,gamma=0.95").params["n_states"]
    50
    """
    id, _, listed = text.partition(":")
    params: dict[str, Json] = {}
    for item in filter(None, listed.split(",")):
        key, equals, value = item.partition("=")
        if not (key.isidentifier() and equals):
            raise InvalidInput(f"{text}: parameters are written key=value and separated by commas, got {item!r}.")
        if key in params:
            raise InvalidInput(f"{text}: parameter {key!r} is given twice.")
        params[key] = _scalar(value)
    return ObjectSpec(id, params)


def _scalar(text: str) -> Json:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number: float = whole_number(text)
        # 1e+23 is how Python writes a float, and that float is not 10**23
        return number if "e+" not in text or number == float(text) else float(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def whole_number(text: str) -> int:
    """Read an integer, also in the form 1.3e7.

    >>> whole_number("1e16"), whole_number("13_000")
    (10000000000000000, 13000)
    """
    try:
        return int(text)
    except ValueError:
        match = _SCIENTIFIC.fullmatch(text)
        if match is None:
            raise
        sign, whole, fraction, exponent = match.groups(default="")
        digits = fraction.rstrip("0")
        zeros = int(exponent) - len(digits)
        if not whole + fraction or zeros < 0:
            raise
        return int(f"{sign}0{whole}{digits}{'0' * zeros}")


def _from_gymnasium(id: str, params: Mapping[str, Any]) -> TabularMDP:
    if "env" in params:
        raise InvalidInput(f"{id}: there is no parameter 'env'; the id names the environment.")
    return envs.from_gymnasium(id, **params)


def _check_names(id: str, constructor: Callable[..., Any], params: Mapping[str, Any]) -> None:
    known = inspect.signature(constructor).parameters
    for name in params:
        if name not in known:
            hint = did_you_mean(name, known) or f" It has: {', '.join(known)}."
            raise InvalidInput(f"{id}: there is no parameter {name!r}.{hint}")
    missing = [name for name, p in known.items() if p.default is p.empty and name not in params]
    if missing:
        raise InvalidInput(f"{id}: parameter {missing[0]!r} is needed and was not given.")
