"""Readable, versioned ids for problems and algorithms, and the objects they stand for.

An id is for ever: what ``two-goals-v1`` means never changes; a better one is ``-v2``. Ids of your own are added with
:func:`register`, from your program or from a package that names its module under the entry points
``replicable_rl.plugins``. They then work in `make`, in stored specs and on the command line. A file, too, stands for an
object: :func:`save` and :func:`load`.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar, overload

from replicable_rl import problem as problems
from replicable_rl.canonical import Json
from replicable_rl.data import Dataset
from replicable_rl.errors import InvalidInput, UnknownId, did_you_mean, shown
from replicable_rl.files import Artifact, Name, load_artifact, replacing, write_artifact
from replicable_rl.problem.table import TabularMDP
from replicable_rl.rules import Cuts
from replicable_rl.runs import ALGORITHMS as ALGORITHMS
from replicable_rl.runs import LEVELS, Algorithm, Level, ObjectSpec, Run, add_level, is_reloaded
from replicable_rl.runs import load_plugins as load_plugins

_GYMNASIUM = "gymnasium/"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*-v[0-9]+")
_SCIENTIFIC = re.compile(r"-?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})e\+?[0-9]{1,3}", re.IGNORECASE)
Kind = TypeVar("Kind")

PROBLEMS: dict[str, Callable[..., TabularMDP]] = {
    "two-goals-v1": problems.two_goals,
    "two-goals-wide-v1": problems.two_goals_wide,
    "gridworld-v1": problems.gridworld,
    "riverswim-v1": problems.riverswim,
    "chain-v1": problems.chain,
    "garnet-v1": problems.garnet,
    "inventory-v1": problems.inventory,
    "machine-repair-v1": problems.machine_repair,
    "admission-v1": problems.admission,
}

_SHIPPED_LEVELS = frozenset(LEVELS)


@overload
def register(thing: Level) -> Level: ...
@overload
def register(thing: type[Kind]) -> type[Kind]: ...
@overload
def register(thing: str, constructor: Callable[..., TabularMDP]) -> None: ...
def register(thing: Any, constructor: Any = None) -> Any:
    """Give a problem, an algorithm or a level a name of its own, for good.

    Parameters
    ----------
    thing : str, type or Level
        The id of a problem: readable, and with a version, ``"my-queue-v1"``. Or the class of an algorithm, a frozen
        dataclass with ``solve(source, shared, rng)`` and a class attribute such as ``id = "mine-v1"``: this makes a
        decorator of it. Or a level; what it implies must be registered before it.
    constructor : callable, of problems only
        Returns a `TabularMDP` from keywords that JSON can say.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> rr.register("two-states-v1", lambda p=0.5: rr.TabularMDP.from_dense(
    ...     [[[1 - p, p]], [[0.0, 1.0]]], [[0.0], [1.0]], gamma=0.9))
    >>> rr.make("two-states-v1", p=0.25).spec.text
    'two-states-v1:p=0.25'
    """
    if isinstance(thing, Level):
        return add_level(thing)
    if isinstance(thing, type):
        _register(ALGORITHMS, "algorithm", vars(thing).get("id"), thing)
        return thing
    _register(PROBLEMS, "problem", thing, constructor)
    return None


def _register(table: dict[str, Any], kind: str, id: object, made_by: object) -> None:
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise InvalidInput(
            f"register: the id of {'an' if kind == 'algorithm' else 'a'} {kind} is lower-case and ends in its version, "
            f"such as 'my-{kind}-v1'; got {shown(id)}."
        )
    if not callable(made_by):
        raise InvalidInput(f"register: {id} must be made by something callable, got {shown(made_by)}.")
    for taken in (PROBLEMS, ALGORITHMS):
        if id in taken and not (taken is table and is_reloaded(taken[id], made_by)):
            raise InvalidInput(f"register: {id!r} is taken, and an id never changes its meaning. Use '-v2'.")
    table[id] = made_by


def save(thing: Artifact, path: Name) -> None:
    """Write a table, a data set, a run or published cuts to a file, whole or not at all.

    Parameters
    ----------
    thing : TabularMDP, Dataset, Run or Cuts
        The same thing is always the same bytes.
    path : path
        Of an ``.npz`` file: NumPy reads its arrays, and ``header.json`` in it has the rest.

    Examples
    --------
    >>> import tempfile, replicable_rl as rr
    >>> run = rr.solve(rr.make("chain-v1"), rr.PhasedVI(0.1, 0.01), shared_seed=1, sample_seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rr.save(run, folder + "/run.npz")
    ...     rr.load(folder + "/run.npz") == run
    True
    """
    if not isinstance(thing, Artifact):
        raise InvalidInput(f"save: thing must be a table, a data set, a run or cuts, got {shown(thing)}.")
    with replacing(path) as stream:
        write_artifact(thing, stream)


def load(path: Name) -> Any:
    """Read what `save` wrote, and check its digest: a file that was changed is refused, and nothing is unpickled.

    Parameters
    ----------
    path : path
        Of the file.
    """
    return load_artifact(path, TabularMDP, Dataset, Run, Cuts)


def unshipped_levels() -> dict[str, Level]:
    """Return the levels that this package does not ship: another process must be told of them.

    Problems and algorithms need not be told: what no id rebuilds everywhere travels as it is.
    """
    return {name: level for name, level in LEVELS.items() if name not in _SHIPPED_LEVELS}


def _known(table: Mapping[str, Any], kind: str, id: str) -> Any:
    """Return what makes an id, or say which ids there are."""
    if not isinstance(id, str):
        raise UnknownId(f"A {kind} has a text for an id, got {shown(id)}.")
    if id not in table:
        load_plugins()
    if id not in table:
        hint = did_you_mean(id, table) or f" Known: {', '.join(table)}."
        raise UnknownId(f"No {kind} is called {shown(id)}.{hint}")
    return table[id]


def build(spec: ObjectSpec) -> Any:
    """Return the problem or the algorithm that a spec stands for.

    Parameters
    ----------
    spec : ObjectSpec
        An id of ``replicable-rl list`` or a Gymnasium id, and parameters.

    Examples
    --------
    >>> build(ObjectSpec("riverswim-v1", {"n_states": 20}))
    TabularMDP(S=20, A=2, outcomes=78, gamma=0.95)
    >>> build(ObjectSpec("phased-vi-v1", {"epsilon": 0.1, "delta": 0.01})).epsilon
    0.1
    """
    if not isinstance(spec, ObjectSpec):
        raise InvalidInput(f"build: spec must be an ObjectSpec, got {shown(spec)}.")
    if spec.id not in ALGORITHMS and spec.id not in PROBLEMS:
        load_plugins()
    if spec.id in ALGORITHMS:
        return make_algorithm(spec.id, **spec.params)
    if spec.id in PROBLEMS or spec.id.startswith(_GYMNASIUM):
        return make(spec.id, **spec.params)
    import gymnasium

    if spec.id in gymnasium.registry:
        return _from_gymnasium(spec.id, spec.params)
    known = did_you_mean(spec.id, [*PROBLEMS, *gymnasium.registry])
    raise UnknownId(
        f"No problem is called {shown(spec.id, 200)}.{known} A problem is an id of `replicable-rl list`, "
        "a Gymnasium id, or a saved .npz file."
    )


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
    if isinstance(id, str) and id.startswith(_GYMNASIUM):
        return _from_gymnasium(id.removeprefix(_GYMNASIUM), params)
    constructor = _known(PROBLEMS, "problem", id)
    _check_names(id, constructor, params)
    problem = constructor(**params)  # first: it refuses values that cannot even be compared
    if not isinstance(problem, TabularMDP):
        raise InvalidInput(f"{id}: must make a TabularMDP, got {type(problem).__name__}.")
    known = inspect.signature(constructor).parameters
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
    constructor = _known(ALGORITHMS, "algorithm", id)
    _check_names(id, constructor, params)
    algorithm: Algorithm = constructor(**params)
    return algorithm


def has_parameter(id: str, name: str) -> bool:
    """Whether the algorithm registered under an id has a parameter of this name."""
    if id not in ALGORITHMS:
        load_plugins()
    return id in ALGORITHMS and name in inspect.signature(ALGORITHMS[id]).parameters


def resolve_problem(text: str) -> TabularMDP:
    """Return the problem that a command line names.

    An id, ``id:key=value,key=value``, a Gymnasium id in the same two forms, or the path of a
    saved file.
    """
    if text.endswith(".npz") or os.path.isfile(text):  # noqa: PTH113  # Path's raises where a long map is no file name
        return load_artifact(text, TabularMDP)
    spec = parse_object(text)
    if spec.id in ALGORITHMS:
        raise UnknownId(f"{spec.id} is an algorithm. Name a problem first; `replicable-rl list` shows both.")
    problem: TabularMDP = build(spec)
    return problem


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
            raise InvalidInput(f"{text}: parameters are written key=value and separated by commas, got {shown(item)}.")
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
        if not _SCIENTIFIC.fullmatch(text) or (number := Decimal(text)) != number.to_integral_value():
            raise
        return int(number)


def _from_gymnasium(id: str, params: Mapping[str, Any]) -> TabularMDP:
    if "env" in params:
        raise InvalidInput(f"{id}: there is no parameter 'env'; the id names the environment.")
    return problems.from_gymnasium(id, **params)


def _check_names(id: str, constructor: Callable[..., Any], params: Mapping[str, Any]) -> None:
    known = inspect.signature(constructor).parameters
    for name in params:
        if name not in known:
            hint = did_you_mean(name, known) or f" It has: {', '.join(known)}."
            raise InvalidInput(f"{id}: there is no parameter {name!r}.{hint}")
    missing = [name for name, p in known.items() if p.default is p.empty and name not in params]
    if missing:
        raise InvalidInput(f"{id}: parameter {missing[0]!r} is needed and was not given.")
