"""Functions of somebody's own on the command line: ``module:function``, or ``train.py:function``."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from replicable_rl.audit.audits import refuse_nameless
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.cli.options import given_options
from replicable_rl.cli.problems import resolve_problem
from replicable_rl.errors import InvalidFile, InvalidInput, did_you_mean, shown
from replicable_rl.training import EpisodeReturns
from replicable_rl.training.callables import callable_spec
from replicable_rl.wording import sentence

_FUNCTION = re.compile(r"(?P<module>[^=]+):(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)")
OF_FUNCTIONS = ("evaluate", "uniform", "probe", "data", "version")  # options of `audit` about them alone
_PROMISES = ("rho", "epsilon", "delta", "tolerance")  # options of algorithms that are also about them
_ARRAYS = (".npy", ".npz")


def is_function(text: str) -> bool:
    """Whether a word names a function, and no problem or algorithm.

    >>> is_function("train.py:train"), is_function("mine.agents:dqn"), is_function("chain-v1:n_states=3")
    (True, True, False)
    """
    return _FUNCTION.fullmatch(text) is not None


def function_spec(asked: dict[str, Any], settings: dict[str, Any]) -> AuditSpec:
    """Return the audit of somebody's own function, with the problem that it solves, if that is said."""
    *solved, name = asked["names"]
    if len(solved) > 1:
        raise InvalidInput(f"audit: {name} takes seeds, not logs. Give it alone, or after one PROBLEM.")
    promises = {key: value for key, value in asked["given"].items() if key in _PROMISES}
    others = given_options({key: value for key, value in asked["given"].items() if key not in promises})
    if others:
        raise InvalidInput(f"audit: {', '.join(others.values())} is for algorithms of this library, not for {name}.")
    if asked["store"] is not None and asked["version"] is None:
        refuse_nameless("audit", name, "Pass --version 1")
    evaluate, probe, data = (asked[key] for key in ("evaluate", "probe", "data"))
    if evaluate is not None:
        evaluate = load_function("--evaluate", evaluate) if is_function(evaluate) else EpisodeReturns(evaluate)
    return callable_spec(
        load_function("audit", name),
        in_store=asked["store"] is not None,
        problem=resolve_problem(solved[0]) if solved else None,
        name=f"{Path(name.rpartition(':')[0]).stem}:{name.rpartition(':')[2]}",
        evaluate=evaluate,
        uniform=asked["uniform"],
        probe=None if probe is None else load_probe(probe),
        data=None if data is None else load_function("--data", data),
        version=asked["version"],
        **{key: value for key, value in promises.items() if value is not None},
        **settings,
    )


def load_function(option: str, text: str) -> Any:
    """Return what ``module:name`` or ``file.py:name`` names, in this folder or where Python finds modules."""
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{option} must be module:function or file.py:function, got {shown(text)}.")
    module = _module(option, found["module"])
    thing: Any = module
    for name in found["name"].split("."):
        if not hasattr(thing, name):
            known = [one for one, value in vars(thing).items() if callable(value) and not one.startswith("_")]
            raise InvalidInput(f"{option} {text}: there is no {name!r} in it.{did_you_mean(name, known)}")
        thing = getattr(thing, name)
    return thing


def load_probe(text: str) -> Any:
    """Return observations: the arrays of a .npy or .npz file, or what ``module:name`` is, or returns."""
    if not text.endswith(_ARRAYS):
        probe = load_function("--probe", text)
        return _called("--probe", text, probe) if callable(probe) else probe
    try:
        loaded = np.load(text, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    except OSError as error:
        raise InvalidFile(f"--probe {text}: {error.strerror or 'cannot be read'}.") from None
    except Exception as error:  # whatever numpy and zipfile say of bytes that they cannot read
        raise InvalidFile(f"--probe {text}: is no file of arrays ({sentence(error)}).") from None


def _called(option: str, text: str, function: Any) -> Any:
    try:
        return function()
    except (Exception, SystemExit) as error:  # whatever somebody's code raises, its own sentence says why
        raise InvalidInput(f"{option} {text}: failed ({type(error).__name__}: {sentence(error)}).") from error


def _module(option: str, name: str) -> Any:
    """Import a module, or a file as Python itself would run it: its folder comes first among those of modules."""
    is_file = name.endswith(".py") or "/" in name
    path = Path(name).resolve()
    if is_file and not path.is_file():
        raise InvalidFile(f"{option} {name}: there is no such file.")
    folder = str(path.parent) if is_file else ""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # the file may be new
    try:
        module = importlib.import_module(path.stem if is_file else name)
    except (Exception, SystemExit) as error:  # whatever somebody's module raises, its own sentence says why
        said = f"{type(error).__name__}: {sentence(error)}".removesuffix(": ")
        raise InvalidInput(f"{option} {name}: cannot be imported ({said}).") from error
    if is_file and path not in set(_files(module)):
        raise InvalidInput(f"{option} {name}: another module is called {path.stem!r}. Give the file another name.")
    return module


def _files(module: Any) -> Iterator[Path]:
    if getattr(module, "__file__", None):
        yield Path(module.__file__).resolve()
