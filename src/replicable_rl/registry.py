"""Readable, versioned ids for problems and algorithms, and the objects they stand for.

An id is for ever: what ``two-goals-v1`` means never changes; a better one is ``-v2``. Ids of your own are added with
:func:`register`. They then work in `make` and in stored specs, and on the command line, which is told of the module by
``--plugin``. A file, too, stands for an object: :func:`save` and :func:`load`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.files import Artifact, Name, load_artifact, replacing, write_artifact
from replicable_rl.logs import Dataset
from replicable_rl.problem import shipped as problems
from replicable_rl.problem.environments import from_gymnasium, registered_envs
from replicable_rl.problem.table import TabularMDP
from replicable_rl.rules import Cuts
from replicable_rl.runs import ALGORITHMS as ALGORITHMS
from replicable_rl.runs import LEVELS, Level, ObjectSpec, Run, add_level, is_reloaded

_GYMNASIUM = "gymnasium/"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*-v[0-9]+")

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


def _register(table: dict[str, Any], kind: str, id: Any, made_by: object) -> None:
    if not is_id(id):
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


def is_id(id: object) -> bool:
    """Whether a text is an id: readable, and with a version at its end."""
    return isinstance(id, str) and _ID.fullmatch(id) is not None


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
    constructor = PROBLEMS.get(spec.id) or ALGORITHMS.get(spec.id)
    if constructor is None:
        return _from_gymnasium(spec)
    parameters = inspect.signature(constructor).parameters
    for name in spec.params:
        if name not in parameters:
            hint = did_you_mean(name, parameters) or f" It has: {', '.join(parameters)}."
            raise InvalidInput(f"{spec.id}: there is no parameter {name!r}.{hint}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in spec.params:
            raise InvalidInput(f"{spec.id}: parameter {name!r} is needed.")
    problem = constructor(**spec.params)
    if spec.id in ALGORITHMS:
        return problem
    if not isinstance(problem, TabularMDP):
        raise InvalidInput(f"{spec.id}: must make a TabularMDP, got {type(problem).__name__}.")
    params = {name: value for name, value in spec.params.items() if value != parameters[name].default}
    return problem.with_source(ObjectSpec(spec.id, params))


def _from_gymnasium(spec: ObjectSpec) -> TabularMDP:
    env = spec.id.removeprefix(_GYMNASIUM)
    registered = registered_envs()
    if env == spec.id and env not in registered:
        hint = did_you_mean(env, [*PROBLEMS, *ALGORITHMS, *registered])
        raise InvalidInput(
            f"No problem or algorithm is called {shown(env, 200)}.{hint} Name an id of `replicable-rl list`, a "
            "Gymnasium id, or a saved .npz file."
        )
    if "env" in spec.params:
        raise InvalidInput(f"{env}: there is no parameter 'env'; the id names the environment.")
    return from_gymnasium(env, **spec.params)


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
    >>> make("chain-v1", n_state=3)
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: chain-v1: there is no parameter 'n_state'. Did you mean 'n_states'?
    """
    problem = build(ObjectSpec(id, params))
    if not isinstance(problem, TabularMDP):
        raise InvalidInput(f"{id} is an algorithm, and no problem. `replicable-rl list` shows both.")
    return problem
