"""The first check: ``solve`` returns a `Solution` that holds what it says."""

from __future__ import annotations

import json
import math

import numpy as np

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP
from replicable_rl.records import Fingerprints, Guarantee, Solution, Status, StatusCode
from replicable_rl.testing.cases import Case, Failed, Refused, short, with_seeds
from replicable_rl.testing.counting import AnyProblem

__all__ = ["interface", "recompute_fingerprints"]

_KINDS = ("proved", "asymptotic", "measured")


def interface(case: Case) -> None:
    """A run returns a solution whose parts have their types, shapes, ranges and fingerprints."""
    try:
        first = case.reference
    except InvalidInput as error:
        raise Refused(f"the algorithm refuses the problem: {short(error)}") from error
    except Exception as error:
        raise Failed(
            f"solve raises {short(error)} A problem may be a TabularMDP: as_generative and as_episodic of "
            "replicable_rl.sampling make something to draw from of it."
        ) from error
    try:
        _check_solution(first, case.problem)
    except Failed as seen:
        raise Failed(f"of a run {with_seeds()}: {seen}") from seen.__cause__


def _check_solution(solution: object, problem: AnyProblem) -> None:
    if not isinstance(solution, Solution):
        raise Failed(f"solve returns {type(solution).__name__}, not a Solution. Build one with Solution.from_q.")
    _check_arrays(solution, problem.n_states, problem.n_actions)
    _check_samples(solution.samples)
    _check_status(solution.status)
    _check_guarantee(solution.guarantee)
    _check_record(solution)


def recompute_fingerprints(solution: Solution) -> Fingerprints:
    """Return the fingerprints of what a solution holds now."""
    return Fingerprints(
        policy=array_digest("policy", solution.policy),
        value=array_digest("value", solution.q),
        model=None if solution.model is None else solution.model.digest,
    )


def _check_arrays(solution: Solution, n_states: int, n_actions: int) -> None:
    policy, q, model = solution.policy, solution.q, solution.model
    shapes = (("policy", policy, (n_states,), "iu"), ("q", q, (n_states, n_actions), "f"))
    for name, array, shape, kinds in shapes:
        if not isinstance(array, np.ndarray):
            raise Failed(f"{name} must be an array, got {type(array).__name__}. Build it with Solution.from_q.")
        if array.shape != shape or array.dtype.kind not in kinds:
            what = "integers" if name == "policy" else "floats"
            raise Failed(f"{name} must hold {what} of shape {shape}, got {array.dtype} of shape {array.shape}.")
    if policy.min() < 0 or policy.max() >= n_actions:
        raise Failed(f"the policy must hold actions 0 to {n_actions - 1}, got {policy.min()} to {policy.max()}.")
    if not np.isfinite(q).all():
        raise Failed("q must be finite. Find where the computation produced inf or NaN.")
    if model is not None and not isinstance(model, TabularMDP):
        raise Failed(f"the model must be a TabularMDP or None, got {type(model).__name__}.")


def _check_status(status: object) -> None:
    if not isinstance(status, Status) or not isinstance(status.code, StatusCode):
        raise Failed(f"status must be a Status with a StatusCode, got {status!r}.")
    if not isinstance(status.sentence, str) or not status.sentence.strip():
        raise Failed("the sentence of the status is empty. Say how the run ended.")


def _check_guarantee(guarantee: object) -> None:
    if not isinstance(guarantee, Guarantee) or guarantee.kind not in _KINDS:
        raise Failed(f"guarantee must be a Guarantee of a kind among {', '.join(_KINDS)}, got {guarantee!r}.")
    if not isinstance(guarantee.sentence, str) or not guarantee.sentence.strip():
        raise Failed("the sentence of the guarantee is empty. Say what is promised, or that nothing is.")
    if guarantee.kind != "measured" and not guarantee.theorem:
        raise Failed(f"a guarantee of kind {guarantee.kind!r} must name its theorem. Name it, or claim 'measured'.")
    for name, top in (("epsilon", math.inf), ("delta", 1.0), ("rho", 1.0)):
        claim = getattr(guarantee, name)
        if claim is not None and not (isinstance(claim, (int, float)) and 0.0 <= claim <= top):
            raise Failed(f"{name} of the guarantee must be None or a number from 0 to {top:g}, got {claim!r}.")


def _check_samples(samples: object) -> None:
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0:
        raise Failed(f"samples must be an int >= 0, got {samples!r}. Convert it with int().")


def _check_record(solution: Solution) -> None:
    if recompute_fingerprints(solution) != solution.fingerprints:
        raise Failed("the fingerprints are not those of policy, q and model. Build the solution with Solution.from_q.")
    try:
        json.dumps(solution.to_json(), allow_nan=False)
    except Exception as error:
        raise Failed(f"the solution cannot be saved: {short(error)} Keep the history to finite numbers.") from error
