"""The first check: ``solve`` returns a `Run` that holds what it says."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.canonical import canonical_json, to_json
from replicable_rl.errors import InvalidInput
from replicable_rl.problem.source import Source, Support
from replicable_rl.runs import Claims, Fingerprints, Run, Status, StatusCode, level_of
from replicable_rl.testing.cases import Case, Failed, Refused, short, with_seeds

_BUILD = "Build it with Run.of"


def interface(case: Case) -> None:
    """A run has parts of the right types, shapes, ranges and fingerprints."""
    try:
        first = case.reference
    except InvalidInput as error:
        raise Refused(f"the algorithm refuses the problem: {short(error)}") from error
    except Exception as error:
        raise Failed(
            f"solve raises {short(error)} It gets a source of samples: draw(calls, rng) or play(policy, episodes, "
            "horizon, rng)."
        ) from error
    try:
        _check_run(first, case.problem)
    except Failed as seen:
        raise Failed(f"of a run {with_seeds()}: {seen}") from seen.__cause__


def _check_run(run: object, problem: Source) -> None:
    if not isinstance(run, Run):
        raise Failed(f"solve returns {type(run).__name__}, not a Run. {_BUILD}.")
    _check_outputs(run, problem)
    if not isinstance(run.samples, int) or isinstance(run.samples, bool) or run.samples < 0:
        raise Failed(f"samples must be an int >= 0, got {run.samples!r}. Convert it with int().")
    status = run.status
    if not isinstance(status, Status) or not isinstance(status.code, StatusCode):
        raise Failed(f"status must be a Status with a StatusCode, got {status!r}.")
    if not isinstance(status.sentence, str) or not status.sentence.strip():
        raise Failed("the sentence of the status is empty. Say how the run ended.")
    if not isinstance(run.claims, Claims):
        raise Failed(f"claims must be Claims, got {run.claims!r:.60}. Claim nothing with Claims().")
    _check_record(run)


def recompute_fingerprints(run: Run) -> Fingerprints:
    """Return the fingerprints of what a run holds now."""
    levels = ((level_of(name), output) for name, output in run.outputs.items())
    return Fingerprints({level.name: level.digest(level.name, level.freeze(level.name, one)) for level, one in levels})


def _check_outputs(run: Run, problem: Source) -> None:
    n_states, n_actions, support = problem.n_states, problem.n_actions, problem.support
    if not run.outputs:
        raise Failed(f"the run has no output at any level. {_BUILD}, with a policy for example.")
    for name, shape, kinds in (("policy", (n_states,), "iu"), ("value", (n_states, n_actions), "f")):
        if name not in run.outputs:
            continue
        array = run.outputs[name]
        if not isinstance(array, np.ndarray):
            raise Failed(f"the {name} must be an array, got {type(array).__name__}. {_BUILD}.")
        if array.shape != shape or array.dtype.kind not in kinds:
            what = "integers" if name == "policy" else "floats"
            raise Failed(f"the {name} must hold {what} of shape {shape}, got {array.dtype} of shape {array.shape}.")
        needed = array if name == "policy" else array[support.mask]
        if not np.isfinite(needed).all():
            raise Failed(f"the {name} must be finite. Find where the computation produced inf or NaN.")
    policy = run.outputs.get("policy")
    if policy is not None and (policy.min() < 0 or policy.max() >= n_actions):
        raise Failed(f"the policy must hold actions 0 to {n_actions - 1}, got {policy.min()} to {policy.max()}.")
    if policy is not None:
        _check_allowed(policy, support)


def _check_allowed(policy: NDArray[Any], support: Support) -> None:
    try:
        support.refuse_others("the run", policy)
    except InvalidInput as error:
        raise Failed(f"{str(error).partition(': ')[2]} See problem.support.") from None


def _check_record(run: Run) -> None:
    try:
        again = recompute_fingerprints(run)
    except Exception as error:
        raise Failed(f"the outputs have no fingerprints: {short(error)} {_BUILD}.") from error
    if again != run.fingerprints:
        raise Failed(f"the fingerprints are not those of the outputs. {_BUILD}.")
    try:
        canonical_json(to_json(run.to_json()))
    except Exception as error:
        raise Failed(f"the run cannot be saved: {short(error)} Keep the history to finite numbers.") from error
