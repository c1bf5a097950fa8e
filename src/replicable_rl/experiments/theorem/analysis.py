"""Both algorithms in all their forms on every problem that has a size of its own, with no parameter but the promise."""

import inspect
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replicable_rl.audit import AuditResult, Estimate
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import CONFIDENCE, Scale, Study, Verdict, judged, shown, study
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import PROBLEMS, build, make
from replicable_rl.runs import OURS, ObjectSpec, provider
from replicable_rl.theory import MAX_CALLS, paper_phased_vi, phased_vi

DELTA, RHO = 0.001, 0.2
EPSILONS = (0.1, 0.5)  # the larger one where m would pass 2**63 - 1, the most that can be counted
FEWER_PAIRS = {"inventory-v1": 4}  # where a run of rPVI takes a hundred times as long
ENTRY_EPSILON = 0.05
RPVI, MODEL = "rpvi-v1", "replicable-approximate-mdp-v1"
LEVELS = {RPVI: "value", MODEL: "model"}  # what each theorem is about
FORMS = {RPVI: ("sharp", "tight", "printed"), MODEL: ("sharp",)}


def design(scale: Scale) -> list[Study]:
    """Return both algorithms on every shipped problem, in all their forms."""
    studies = []
    for problem in filter(_is_shipped, PROBLEMS):
        if scale.quick and problem in FEWER_PAIRS:
            continue
        for algorithm, level in LEVELS.items():
            pairs = max(2, scale.pairs // (FEWER_PAIRS.get(problem, 1) if level == "value" else 1))
            for form in FORMS[algorithm]:
                promise = _promise(problem, form) if level == "value" else {"epsilon": ENTRY_EPSILON}
                if promise is None:
                    continue
                run = ObjectSpec(algorithm, {"delta": DELTA, "rho": RHO, **promise})
                point = {"problem": problem, "algorithm": algorithm, "form": form, "epsilon": promise["epsilon"]}
                studies.append(study(point, problem, run, pairs))
    return studies


def _promise(id: str, form: str) -> dict[str, Any] | None:
    """Return the smallest epsilon at which a form of rPVI can be run, with the paper's parameters for its listing."""
    mdp = make(id)
    sizes, known = (mdp.support.pairs, mdp.gamma), mdp.known_rewards is not None
    for epsilon in EPSILONS:
        promise, paper = (*sizes, epsilon, DELTA, RHO), {}
        if form != "sharp":
            paper = paper_phased_vi(*promise, known_rewards=known, printed=form == "printed")
        if phased_vi(*promise, known_rewards=known, **paper).calls <= MAX_CALLS:
            return {"epsilon": epsilon, **paper}
    return None


def _is_shipped(id: str) -> bool:
    """Whether a problem comes with the library and needs no input."""
    given = inspect.signature(PROBLEMS[id]).parameters.values()
    return provider(PROBLEMS[id]) == OURS and all(one.default is not one.empty for one in given)


def analyse(studies: Sequence[Study], results: Sequence[AuditResult]) -> Dataset:
    """Return a row for every theorem on every problem."""
    rows = [_row(one, result) for one, result in zip(studies, results, strict=True)]
    return Dataset({"theorems": Table.of(rows)}, {"delta": DELTA, "rho": RHO, "confidence": CONFIDENCE})


def _row(one: Study, result: AuditResult) -> dict[str, Any]:
    problem, algorithm = build(one.audit.problem), build(one.audit.algorithm)
    level, epsilon = LEVELS[one.point["algorithm"]], float(one.point["epsilon"])
    is_policy = level == "value"
    found, planned = result.agreement(level), algorithm.plan(problem)
    differ = Estimate(1.0 - found.estimate, 1.0 - found.high, 1.0 - found.low)
    off = _worst_loss(result) if is_policy else _worst_entry(problem, result)
    drawn = max(run.samples or 0 for run in result.runs)
    return (
        {**one.point, "states": problem.n_states, "actions": problem.n_actions, "rho": RHO, "level": level}
        | {"calls": str(planned.numbers.calls), "samples_planned": str(planned.samples)}
        | {"samples_a_run": str(drawn), "samples": str(result.samples)}
        | {"pairs": found.pairs, "differ": found.pairs - found.same}
        | estimate_columns("disagreement", differ)
        | {"error_is": "loss of the policy" if is_policy else "error of an entry, divided row", "worst_error": off}
        | {"kept_epsilon": off <= epsilon, "refuted_rho": differ.low > RHO}
        | {"refuted_epsilon": is_policy and _too_many_lose(result, epsilon)}
        | {"claims": "proved" if _all_proved(result) else "not proved"}
        | {"median_seconds_a_run": statistics.median(run.seconds for run in result.runs)}
    )


def _all_proved(result: AuditResult) -> bool:
    """Whether accuracy and replicability of every run are proved."""
    made = (claim for run in result.runs for claim in (run.claims.accuracy, run.claims.replicability))
    return all(claim is not None and claim.kind == "proved" for claim in made)


def _worst_loss(result: AuditResult) -> float:
    """The largest loss of any policy from any state, in values normalised to [0, 1]; certified from above."""
    return max(one.worst_loss + one.normalised_error for one in result.policies or ())


def _too_many_lose(result: AuditResult, epsilon: float) -> bool:
    """Whether more runs than a share delta must have lost more than epsilon; one or two may."""
    lost = {one.fingerprint for one in result.policies or () if one.worst_loss - one.normalised_error > epsilon}
    losers = sum(run.fingerprints.policy in lost for run in result.runs)
    low, _ = clopper_pearson(losers, len(result.runs), CONFIDENCE)
    return low > DELTA


def _worst_entry(problem: TabularMDP, result: AuditResult) -> float:
    """The largest error of a transition probability of any learned model, after its rows were divided by their sums."""
    truth = dense(problem)
    return max(float(np.abs(dense(model) - truth).max()) for model in result.outputs("model").values())


def dense(mdp: TabularMDP) -> NDArray[np.float64]:
    """Return the (S*A, S) table of transition probabilities."""
    rows = mdp.rows
    table = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    np.add.at(table, (np.repeat(np.arange(len(table)), np.diff(rows.indptr)), rows.next_state), rows.probability)
    return table


_THEOREMS = {
    RPVI: ("rPVI", "thm:rpvi"),
    MODEL: ("The replicable ApproximateMDP", "obs:rep-mdp"),
}


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Judge rho and epsilon for both algorithms, over all problems."""
    found = []
    for algorithm, (name, where) in _THEOREMS.items():
        for form in FORMS[algorithm]:
            rows = dataset.tables["theorems"].where(algorithm=algorithm, form=form)
            called = f"{name}, {'as ' * (form == 'printed')}{form},"
            found += [_rho(called, where, rows), _epsilon(called, where, rows, is_policy=algorithm == RPVI)]
    return found


def _rho(name: str, where: str, rows: list[dict[str, Any]]) -> Verdict:
    worst = max(rows, key=lambda row: float(row["disagreement_high"]))
    differ, pairs = sum(row["differ"] for row in rows), sum(row["pairs"] for row in rows)
    return Verdict(
        f"{name} at its theorem's m: two runs differ with probability at most rho",
        where,
        f"{differ} of {pairs} pairs on {len(rows)} problems; least certain: {worst['problem']}, "
        f"{shown(worst, 'disagreement')} against rho = {worst['rho']:g}",
        judged(all(row["disagreement_high"] <= row["rho"] for row in rows), any(row["refuted_rho"] for row in rows)),
    )


def _epsilon(name: str, where: str, rows: list[dict[str, Any]], is_policy: bool) -> Verdict:
    off = max(rows, key=lambda row: float(row["worst_error"] / row["epsilon"]))
    what = "policies lose at most epsilon" if is_policy else "entries of the model are within epsilon"
    beyond = "" if is_policy else ", after rows were divided by their sums, which is not promised"
    return Verdict(
        f"{name} at its theorem's m: {what}",
        where,
        f"worst of {2 * sum(row['pairs'] for row in rows)} runs: {off['worst_error']:.3g} against epsilon = "
        f"{off['epsilon']:g} ({off['problem']}){beyond}",
        judged(all(row["kept_epsilon"] for row in rows), is_policy and any(row["refuted_epsilon"] for row in rows)),
    )
