"""The audit: estimates against their definitions, intervals against their coverage, theorems against ρ."""

from __future__ import annotations

import inspect
import itertools
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import replicable_rl as rr
from replicable_rl.audit import AuditResult, RunFailed, read_audits
from replicable_rl.audit.agreement import measure, measure_states
from replicable_rl.audit.evidence import derived_seed
from replicable_rl.errors import InvalidInput
from replicable_rl.registry import PROBLEMS
from replicable_rl.theory import MAX_CALLS
from tests.statistics import ALPHA, SEED

AUDITS = 400
TWO_GOALS = rr.make("two-goals-v1")
SOMETIMES = rr.ReplicablePhasedVI(0.1, 0.001, 0.2, calls=10**6, tolerance=0.02, iterations=20)  # agrees in most pairs


# --- tier 1: exact ---------------------------------------------------------------------------------


@given(st.integers(2, 6), st.data())
def test_estimates_are_what_their_definitions_say(runs: int, data: st.DataObject) -> None:
    outputs = data.draw(
        st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=runs, max_size=runs), min_size=1)
    )
    found = measure("policy", [out for group in outputs for out in group], runs, 0.95)
    pairs = [(x, y) for group in outputs for x, y in itertools.combinations(group, 2)]
    same = sum(x is not None and x == y for x, y in pairs)
    assert (found.same, found.pairs) == (same, len(pairs))
    assert found.estimate == pytest.approx(same / len(pairs))

    def groups(group: list[str | None]) -> list[int]:
        counted = Counter(group)
        failed = counted.pop(None, 0)
        return [*counted.values(), *[1] * failed]

    assert float(found.modal_share) == pytest.approx(np.mean([max(groups(g)) / runs for g in outputs]))
    assert float(found.unique_share) == pytest.approx(np.mean([len(groups(g)) / runs for g in outputs]))
    assert 0.0 <= found.low <= found.estimate + 1e-12
    assert found.estimate - 1e-12 <= found.high <= 1.0 + 1e-12


MANY = 1000
ALL_OTHERS_DIFFER = [*["a"] * 800, *map(str, range(200))]


@pytest.mark.parametrize(
    ("outputs", "runs", "agreement"),
    [
        (["a", "a"] * 60 + ["a", "b"] * 40, 2, 0.60),  # two runs a seed: always twice the share less one
        (ALL_OTHERS_DIFFER, MANY, 0.64),  # one seed, many runs: the least, 0.8 squared
        (["a"] * 800 + ["b"] * 200, MANY, 0.68),  # and the most, 0.2 squared more
        (ALL_OTHERS_DIFFER * 3, MANY, 0.64),  # a mean over seeds, many runs: the least
        (["a"] * MANY * 4 + list(map(str, range(MANY))), MANY, 0.80),  # the most: each seed always agrees, or never
    ],
)
def test_a_modal_share_of_four_fifths_is_another_agreement(outputs: list[str], runs: int, agreement: float) -> None:
    found = measure("value", outputs, runs, 0.95)
    assert float(found.modal_share) == pytest.approx(0.8, abs=2e-3 if runs == MANY else 1e-12)
    assert found.estimate == pytest.approx(agreement, abs=2e-3 if runs == MANY else 1e-12)


@given(st.integers(2, 5), st.integers(1, 4), st.data())
def test_states_are_compared_one_by_one(runs: int, seeds: int, data: st.DataObject) -> None:
    table = st.lists(st.integers(0, 2), min_size=4, max_size=4)
    policies = {f"p{i}": np.array(data.draw(table)) for i in range(3)}
    names = st.one_of(st.none(), st.sampled_from(sorted(policies)))
    outputs = data.draw(st.lists(names, min_size=runs * seeds, max_size=runs * seeds))
    found = measure_states(policies, outputs, runs)
    expected = np.zeros(4)
    for j in range(seeds):
        for x, y in itertools.combinations(outputs[j * runs : (j + 1) * runs], 2):
            if x is not None and y is not None:
                expected += policies[x] == policies[y]
    expected /= seeds * runs * (runs - 1) / 2
    assert found.per_state == pytest.approx(expected)
    assert sorted(found.differing) == [s for s in range(4) if expected[s] < 1.0 - 1e-12]


def test_actions_of_several_numbers_agree_only_whole() -> None:
    policies = {"a": np.array([[0.0, 1.0], [2.0, 3.0]]), "b": np.array([[0.0, 1.5], [2.0, 3.0]])}
    assert measure_states(policies, ["a", "b"], 2).per_state.tolist() == [0.0, 1.0]


def test_seeds_of_an_audit_never_change() -> None:
    assert derived_seed("shared", 0, 0) == 13084725234860710184
    assert derived_seed("sample", 0, 13084725234860710184, 0) == 12149578245199991844
    small = rr.audit(TWO_GOALS, SOMETIMES, shared_seeds=3)
    large = rr.audit(TWO_GOALS, SOMETIMES, shared_seeds=5, runs_per_seed=3)
    assert [large.runs[3 * j + i] for j in range(3) for i in range(2)] == list(small.runs)
    other = rr.audit(TWO_GOALS, SOMETIMES, shared_seeds=3, seed=1)
    assert not {run.sample_seed for run in other.runs} & {run.sample_seed for run in large.runs}
    assert not set(other.spec.seeds) & set(large.spec.seeds)
    assert len({run.sample_seed for run in large.runs}) == 15  # every run has data of its own


# --- tier 2: an algorithm whose agreement is known ---------------------------------------------------


def uniform(seed: int) -> float:
    return seed / 2.0**32  # seeds of an audit are digests


def synthetic(p: float, shared_seed: int, sample_seed: int) -> list[int]:
    """Give one of two answers, or of 1/p equal ones, so that two runs agree with probability p under every seed."""
    if p < 0.5:
        return [int(uniform(sample_seed) / p)]
    return [int(uniform(sample_seed) < (1.0 + np.sqrt(2.0 * p - 1.0)) / 2.0)]


def all_or_nothing(p: float, shared_seed: int, sample_seed: int) -> list[int]:
    """Agree always under a share p of the shared seeds, and never under the others."""
    return [0] if uniform(shared_seed) < p else [1 + sample_seed % 2**62]


LAWS = {"under every seed": synthetic, "all or nothing": all_or_nothing}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("runs", "p"), [(2, 0.05), (2, 0.5), (2, 0.95), (2, 1.0), (5, 0.5), (5, 0.95)])
def test_intervals_cover_what_they_estimate(runs: int, p: float, law: str) -> None:
    """95 % intervals cover p in at least 95 % of the audits, but for a false alarm of probability ALPHA."""
    rng = np.random.default_rng([SEED, int(100 * p), runs, len(law)])
    covered = 0
    for _ in range(AUDITS):
        seeds = rng.integers(0, 2**32, (20, 1 + runs), dtype=np.uint64).tolist()
        outputs = [str(LAWS[law](p, shared, sample)) for shared, *samples in seeds for sample in samples]
        found = measure("policy", outputs, runs, 0.95)
        covered += found.low <= p <= found.high
    assert stats.binom.cdf(covered, AUDITS, 0.95) > ALPHA, f"{covered} of {AUDITS} intervals cover {p}"


@pytest.mark.parametrize("p", [0.5, 0.95])
def test_coverage_of_whole_audits(p: float) -> None:
    """The same, through everything: seeds, runs, store and result."""
    covered = 0
    for audit in range(AUDITS // 4):
        result = rr.audit_callable(
            lambda shared, sample: synthetic(p, shared, sample), shared_seeds=20, seed=(SEED + audit) % 2**64
        )
        found = result.agreement("policy")
        covered += found.low <= p <= found.high
    assert stats.binom.cdf(covered, AUDITS // 4, 0.95) > ALPHA, covered


# --- tier 3: theorems, and that disagreement is seen ---------------------------------------------------


def _has_defaults(constructor: Any) -> bool:
    return all(p.default is not p.empty for p in inspect.signature(constructor).parameters.values())


@pytest.mark.parametrize("id", [id for id, constructor in PROBLEMS.items() if _has_defaults(constructor)])
def test_rpvi_keeps_its_promise_on_every_shipped_problem(id: str) -> None:
    """At the theorem's own m: the interval of agreement lies above 1 - rho, and every policy is within epsilon."""
    problem = rr.make(id)
    choices = (rr.ReplicablePhasedVI(0.1, 0.001, 0.2, target=target) for target in ("policy", "value"))
    algorithm = next(choice for choice in choices if choice.plan(problem).numbers.calls <= MAX_CALLS)
    result = rr.audit(problem, algorithm, shared_seeds=60)
    assert {claim.kind for run in result.runs for claim in run.claims} == {"proved"}
    assert all(run.claims.replicability and run.claims.replicability.bound == 0.2 for run in result.runs)
    for level in ("value", "policy"):
        assert result.agreement(level).every_look.low > 0.8
        assert result.meets(0.8, level) is True
    assert "it is at least 1 − ρ = 0.8" in " ".join(str(result).split())
    assert result.policies is not None
    if algorithm.target == "policy":
        assert max(one.worst_loss for one in result.policies) <= 0.1


def test_phased_q_learning_on_the_tied_grid_is_far_from_replicable() -> None:
    result = rr.audit(TWO_GOALS, rr.PhasedVI(0.1, 0.001), shared_seeds=60)
    assert result.agreement("policy").high < 0.6  # two states are fair coins: 1/4 expected
    assert result.agreement("value").high < 0.1
    assert result.meets(0.8) is False
    names = TWO_GOALS.labels.states or ()
    assert {names[s] for s in result.states.differing} == {"(0,1)", "(2,1)"}  # the two cells between the goals
    assert "1 − ρ" not in str(result)  # it promises nothing


def test_levels_that_an_algorithm_does_not_produce_are_absent() -> None:
    result = rr.audit(TWO_GOALS, SOMETIMES, shared_seeds=2)
    assert result.levels == ("value", "policy")
    assert "model" not in result.to_json()["levels"]
    with pytest.raises(InvalidInput, match="there is no model to compare; rpvi-v1 produces value, policy"):
        result.agreement("model")
    learned = rr.audit(rr.make("chain-v1"), rr.ReplicableApproximateMDP(0.3, 0.01, 0.2, calls=10**6), shared_seeds=2)
    assert learned.levels == ("model", "value", "policy")
    order = [learned.agreement(level).estimate for level in learned.levels]
    assert order == sorted(order)


# --- what a result holds -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return rr.audit(TWO_GOALS, rr.PhasedVI(0.1, 0.001), shared_seeds=12, runs_per_seed=3)


def test_classes_partition_the_runs(result: AuditResult) -> None:
    for level in result.levels:
        classes = result.classes(level)
        assert sum(classes.values()) == 36
        assert list(classes.values()) == sorted(classes.values(), reverse=True)


def test_policies_are_evaluated_exactly(result: AuditResult) -> None:
    best = rr.optimal_values(TWO_GOALS)
    assert result.policies is not None
    assert sum(one.runs for one in result.policies) == 36
    for one in result.policies:
        run = next(run for run in result.runs if run.fingerprints.policy == one.fingerprint)
        again = rr.solve(TWO_GOALS, rr.PhasedVI(0.1, 0.001), shared_seed=run.shared_seed, sample_seed=run.sample_seed)
        assert again == run
        worth = rr.evaluate_policy(TWO_GOALS, again.policy)
        assert one.expected_return == pytest.approx(worth.expected_return)
        assert one.loss == pytest.approx(float(TWO_GOALS.initial @ (best.value - worth.value)), abs=1e-8)


def test_a_bad_policy_has_its_loss() -> None:
    def lazy(shared_seed: int, sample_seed: int) -> list[int]:
        return [sample_seed % 2] * 5

    chain = rr.make("chain-v1")
    result = rr.audit_callable(lazy, shared_seeds=10, problem=chain)
    assert result.policies is not None
    assert len(result.policies) == 2
    span = (chain.reward_range[1] - chain.reward_range[0]) / (1 - chain.gamma)
    best = rr.optimal_values(chain).value
    for one in result.policies:
        run = next(run for run in result.runs if run.fingerprints.policy == one.fingerprint)
        assert run.sample_seed is not None
        action = run.sample_seed % 2
        worth = rr.evaluate_policy(chain, [action] * 5)
        assert one.worst_loss == pytest.approx(float((best - worth.value).max()) / span, abs=1e-9)
    assert max(one.worst_loss for one in result.policies) > 0.01


def test_json_says_what_was_found(result: AuditResult) -> None:
    data = json.loads(json.dumps(result.to_json()))
    found = result.agreement("policy")
    assert data["levels"]["policy"]["agreement"] == {"estimate": found.estimate, "low": found.low, "high": found.high}
    assert data["shared_seeds"] == [str(seed) for seed in result.spec.seeds]
    assert [state["state"] for state in data["states"]] == result.states.differing.tolist()
    assert data["policies"][0]["loss"] == result.policies[0].loss  # type: ignore[index]


@pytest.mark.parametrize("level", ["value", "policy"])
def test_a_measured_claim_says_what_was_measured(level: str, result: AuditResult) -> None:
    claim, found = result.claim(level), result.agreement(level)
    assert (claim.about, claim.kind, claim.level, claim.source) == ("replicability", "measured", level, "audit")
    assert claim.bound == 1.0 - found.every_look.low  # rho of which one can be confident
    assert claim.definition == "def:replicability"
    assert f"in {found.same} of 36 pairs, agreement {found.every_look}" in str(claim)
    with pytest.raises(InvalidInput, match="there is no model to compare"):
        result.claim("model")


@pytest.mark.parametrize("stored", [False, True])
def test_what_is_measured_on_an_estimated_table_is_said_of_the_table(tmp_path: Path, stored: bool) -> None:
    learned = rr.solve(TWO_GOALS, rr.ApproximateMDP(0.1, 0.01, calls=50), shared_seed=1, sample_seed=1).model
    assert learned is not None
    result = rr.audit(learned, SOMETIMES, shared_seeds=2, store=tmp_path / "runs.sqlite")
    if stored:
        (result,) = read_audits(rr.RunStore(tmp_path / "runs.sqlite"))
    assert str(result.claim()).endswith(", as a statement about the estimated table, not about the process behind it.")


# --- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs_per_seed": 1}, "audit: runs_per_seed must be an integer from 2 to 10000000, got 1"),
        ({"shared_seeds": 0}, "audit: shared_seeds must be an integer from 1 to"),
        ({"shared_seeds": []}, r"different seeds, got \(\)"),
        ({"shared_seeds": [1, 2, 1]}, r"different seeds, got \(1, 2, 1\)"),
        ({"shared_seeds": "60"}, "shared_seeds must be an integer from 1 to 10000000, got '60'"),
        ({"shared_seeds": [2**64]}, "a shared seed must be an integer from 0 to"),
        ({"shared_seeds": 10**7}, "are more than 10000000 runs"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
        ({"n_jobs": 0}, r"n_jobs must be the number of workers, or -1 for one on every core; got 0"),
        ({"on_error": "ignore"}, "on_error must be 'raise' or 'record', got 'ignore'"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rr.audit(TWO_GOALS, SOMETIMES, **options)


def test_bad_objects() -> None:
    with pytest.raises(
        InvalidInput, match=r"problem must be a TabularMDP or a source, got str. Use replicable_rl.make"
    ):
        rr.audit("two-goals-v1", SOMETIMES)
    with pytest.raises(InvalidInput, match=r"audit: algorithm must be .* goes through audit_callable"):
        rr.audit(TWO_GOALS, lambda shared, sample: [0])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="audit: algorithm must be"):
        rr.audit(TWO_GOALS, rr.PhasedVI)  # type: ignore[arg-type]
    with pytest.raises(RunFailed, match=r"run 1 of 120 .* failed: ReplicablePhasedVI: calls=.* more than the 2"):
        rr.audit(rr.make("inventory-v1"), rr.ReplicablePhasedVI(1e-6, 1e-3, 1e-6))
    result = rr.audit(TWO_GOALS, SOMETIMES, shared_seeds=2)
    with pytest.raises(
        InvalidInput,
        match=r"level must be one of model, value, .*policy, got 'polcy'\. Did you mean 'policy'",
    ):
        result.agreement("polcy")
    with pytest.raises(InvalidInput, match="required must lie strictly between"):
        result.meets(80)


@dataclass(frozen=True)
class Wrapped(rr.Algorithm):
    """Somebody's own algorithm: not in the registry, and with a parameter."""

    calls: int

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.PhasedVI(0.1, 0.01, calls=self.calls, iterations=5).solve(source, shared, rng)


def test_own_algorithms_and_own_problems_are_audited() -> None:
    problem = rr.TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]], [[(1.0, 1, 0.0)]]], gamma=0.9)
    result = rr.audit(problem, Wrapped(7), shared_seeds=4)
    assert result.problem.params["digest"] == problem.digest
    assert result.algorithm.params == {"calls": 7}

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return int(rng.random() < 0.5), float(state)

    simulator = rr.Simulator(step, n_states=2, n_actions=1, gamma=0.5, reward_range=(0.0, 1.0))
    result = rr.audit(simulator, Wrapped(7), shared_seeds=4)
    assert result.policies is None
    assert "evaluate= would" not in str(result)


@dataclass(frozen=True)
class Odd(rr.Algorithm):
    """An algorithm that breaks a rule."""

    how: str
    rho: Any = None

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        if self.how == "nothing":
            return None  # type: ignore[return-value]
        other = rr.make("chain-v1") if self.how == "other shape" else source
        return rr.PhasedVI(0.1, 0.01, calls=7, iterations=5).solve(other, shared, rng)


def test_algorithms_that_break_a_rule() -> None:
    with pytest.raises(RunFailed, match="Odd: solve must return a Run, got None"):
        rr.audit(TWO_GOALS, Odd("nothing"), shared_seeds=2)
    with pytest.raises(RunFailed, match=r"Odd: values must be a table \(8, 4\), got shape \(5, 2\)"):
        rr.audit(TWO_GOALS, Odd("other shape"), shared_seeds=2)
    for rho in (1.5, 1.0, 0.0, "auto", [0.1]):
        assert "1 − ρ" not in str(rr.audit(TWO_GOALS, Odd("well", rho), shared_seeds=2))
