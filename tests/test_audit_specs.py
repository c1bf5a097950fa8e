"""What an audit is: a spec that comes back from JSON and from a store, runs that are made once, code with a version."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.audit import (
    AuditSpec,
    FreshSamples,
    Job,
    RunFailed,
    SeveralLogs,
    TrainingCode,
    audit_spec,
    read_audits,
    run_audits,
)
from replicable_rl.audit.evidence import audits_of
from replicable_rl.canonical import from_record, parse_json, to_json
from replicable_rl.errors import InvalidInput
from replicable_rl.logs.reading import LogPair, Logs
from replicable_rl.randomness import MAX_SEED
from replicable_rl.runs import ObjectSpec, RunFamily, RunSpec

CHAIN, FAST = rr.make("chain-v1"), rr.PhasedVI(0.2, 0.05, calls=10, iterations=1)
LOGS = Logs(("a", "b"), ("0" * 64, "1" * 64), (5, 7), 1, 0, (LogPair(0, 1, 0.5, "s", "a"),))

# --- specs as data -----------------------------------------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)
shares = st.floats(1e-9, 1.0 - 1e-9)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(scalars | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5)
objects = st.builds(
    ObjectSpec, st.text(min_size=1, max_size=10), st.dictionaries(st.text(max_size=5), values, max_size=3)
)
evidence = st.one_of(
    st.builds(FreshSamples, fresh=st.text(max_size=9), sampler=st.text(min_size=1, max_size=10)),
    st.builds(TrainingCode, stale=st.text(max_size=9), uniform=st.none() | shares, epsilon=st.none() | shares),
)
audit_specs = st.builds(
    AuditSpec,
    objects,
    objects,
    shared_seeds=st.integers(1, 9) | st.lists(seeds, min_size=1, max_size=5, unique=True),
    runs_per_seed=st.integers(2, 5),
    seed=st.integers(0, MAX_SEED),
    confidence=shares,
    rho=st.none() | shares,
    require=st.none() | shares,
    level=st.sampled_from(["policy", "value", "model", "mine"]),
    foreign=st.booleans(),
    evidence=evidence,
)


@given(audit_specs)
def test_a_spec_comes_back_from_json_and_from_a_store(spec: AuditSpec) -> None:
    for original in (spec, replace(spec, evidence=SeveralLogs(logs=LOGS), runs_per_seed=2)):
        again = from_record(AuditSpec, parse_json(json.dumps(to_json(original))))
        assert again == original
        assert (again.seeds, again.runs, again.size) == (original.seeds, original.runs, len(original.runs))
        store = rr.RunStore()
        store.add_audit(to_json(original))
        store.add_audit(to_json(again))
        assert audits_of(store) == [original]


@given(audit_specs)
def test_runs_of_one_shared_seed_are_together_and_all_are_different(spec: AuditSpec) -> None:
    each = spec.runs_per_seed
    assert [run.shared_seed for run in spec.runs] == [seed for seed in spec.seeds for _ in range(each)]
    assert len({run.digest for run in spec.runs}) == spec.size == len(spec.seeds) * each
    assert all(RunSpec.from_json(run.to_json()).digest == run.digest for run in spec.runs)
    assert all(max(run.shared_seed, run.sample_seed or 0) < spec.evidence.seeds_end for run in spec.runs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "seed cannot be '0'"),
        ({"shared_seeds": [-1]}, "a shared seed must be"),
        ({"problem": "chain-v1"}, "ObjectSpec: expected"),
        ({"evidence": {"shared": "all"}}, "evidence cannot be"),
        ({"foreign": 7}, "foreign cannot be 7"),
    ],
)
def test_json_that_is_no_spec_is_refused(change: dict[str, Any], message: str) -> None:
    good = to_json(AuditSpec(CHAIN.spec, ObjectSpec("phased-vi-v1")))
    with pytest.raises(InvalidInput, match=message):
        from_record(AuditSpec, good | change)
    with pytest.raises(InvalidInput, match="AuditSpec: expected"):
        from_record(AuditSpec, {key: value for key, value in good.items() if key != "rho"})


def test_of_audits_with_the_same_samples_the_largest_is_read() -> None:
    store, plain = rr.RunStore(), AuditSpec(ObjectSpec("chain-v1"), ObjectSpec("mine"), 10)
    larger, elsewhere = replace(plain, shared_seeds=20), replace(plain, seed=1)
    later = replace(larger, confidence=0.9)
    for spec in (larger, plain, elsewhere, later):
        store.add_audit(to_json(spec))
    assert [result.spec for result in read_audits(store)] == [later, elsewhere]


# --- what is made ------------------------------------------------------------------------------------------------


class Watched(Job):
    """Makes quick runs, and remembers which."""

    mdp = CHAIN

    def __init__(self, most: int = 10**6) -> None:
        self.made: list[str] = []
        self.most = most

    def run(self, spec: RunSpec) -> rr.Run:
        if len(self.made) == self.most:
            raise ArithmeticError("that is enough")
        self.made.append(spec.digest)
        return rr.Run.of({"policy": [spec.shared_seed % 2] * 5})


class WatchedStore(rr.RunStore):
    """Remembers what it was asked for."""

    asked: Counter[RunFamily]

    def runs(self, family: RunFamily) -> dict[str, rr.Run]:
        self.__dict__.setdefault("asked", Counter())[family] += 1
        return super().runs(family)


def watched_spec(job: Watched, algorithm: str = "mine", **options: Any) -> AuditSpec:
    return AuditSpec(CHAIN.spec, ObjectSpec(algorithm, {"version": "1"}), **{"shared_seeds": 10, **options}, job=job)


def runs_of(specs: Iterable[AuditSpec]) -> set[str]:
    return {run.digest for spec in specs for run in spec.runs}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_extended_audit_makes_only_the_missing_runs(n_jobs: int, tmp_path: Path) -> None:
    job = Watched()
    with joblib.parallel_config("threading", n_jobs=n_jobs), rr.RunStore(tmp_path / "runs.sqlite") as opened:
        (small,) = run_audits([watched_spec(job, shared_seeds=40)], opened)
        assert sorted(job.made) == sorted(runs_of([small.spec]))
        job.made.clear()
        (large,) = run_audits([watched_spec(job, shared_seeds=60)], opened)
        assert sorted(job.made) == sorted(runs_of([large.spec]) - runs_of([small.spec]))
        assert large.runs[:80] == small.runs
        job.made.clear()
        (wide,) = run_audits([watched_spec(job, shared_seeds=60, runs_per_seed=3)], opened)
        assert len(job.made) == 60
        (fewer,) = run_audits([watched_spec(job, shared_seeds=5)], opened)
        assert fewer.runs == small.runs[:10]
        assert len(job.made) == 60
        assert audits_of(opened) == [small.spec, large.spec, wide.spec, fewer.spec]
        assert [result.spec for result in read_audits(opened)] == [wide.spec]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_audits_that_share_runs_make_each_once_and_ask_the_store_once(n_jobs: int) -> None:
    job, store = Watched(), WatchedStore()
    specs = [
        watched_spec(job, shared_seeds=10),
        watched_spec(job, shared_seeds=20),
        watched_spec(job, shared_seeds=5, runs_per_seed=4),
        watched_spec(job, shared_seeds=20, confidence=0.9),
        watched_spec(job, "another"),
    ]
    with joblib.parallel_config("threading", n_jobs=n_jobs):
        results = list(run_audits(specs, store))
    assert sorted(job.made) == sorted(runs_of(specs))
    assert store.asked == {specs[0].family: 1, specs[4].family: 1}
    assert [result.spec for result in results] == specs
    for result in results:
        assert [run.spec for run in result.runs] == result.spec.runs


def test_results_come_in_order_and_as_early_as_they_can() -> None:
    job, store = Watched(), rr.RunStore()
    done = watched_spec(job, "done", shared_seeds=3)
    list(run_audits([done], store))
    job.made.clear()
    specs = [done, watched_spec(job, "first"), done, watched_spec(job, "second"), watched_spec(job, "third")]
    results = run_audits(specs, store)
    assert next(results).spec == done
    assert not job.made  # what is there needs no run
    assert next(results).spec == specs[1]
    assert set(job.made) == runs_of(specs[1:2])
    assert [next(results).spec, next(results).spec] == [done, specs[3]]
    results.close()  # type: ignore[attr-defined]  # nobody wants the third
    assert set(job.made) == runs_of([specs[1], specs[3]])


def test_a_failing_audit_keeps_what_came_before_it(tmp_path: Path) -> None:
    store = rr.RunStore(tmp_path / "runs.sqlite")
    specs = [watched_spec(Watched(), "well"), watched_spec(Watched(5), "ill"), watched_spec(Watched(), "never")]
    results = run_audits(specs, store)
    assert next(results).spec == specs[0]
    with pytest.raises(RunFailed, match=r"run 6 of 20 .* failed: ArithmeticError: that is enough"):
        next(results)
    assert [(family.algorithm.id, runs) for family, runs in store.families()] == [("well", 20), ("ill", 5)]
    (recorded,) = run_audits(specs[1:2], store, on_error="record")
    assert (len(recorded.failures), len(recorded.runs)) == (15, 20)  # those that had finished are kept
    (again,) = run_audits([watched_spec(Watched(), "ill")], store)  # failures are tried again
    assert not again.failures


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(2, 4), st.integers(1, 6), st.integers(2, 4))
def test_whatever_came_before_an_audit_finds_the_same(j: int, r: int, J: int, R: int) -> None:
    store = rr.RunStore()
    rr.audit(CHAIN, FAST, shared_seeds=j, runs_per_seed=r, store=store)
    after = rr.audit(CHAIN, FAST, shared_seeds=J, runs_per_seed=R, store=store)
    alone = rr.audit(CHAIN, FAST, shared_seeds=J, runs_per_seed=R)
    assert (after.runs, after.to_json()) == (alone.runs, alone.to_json())


# --- somebody's own code: a version, or nothing -------------------------------------------------------------------


@dataclass(frozen=True)
class Nameless(rr.Algorithm):
    layers: Any = 1

    def solve(self, source: Any, shared: rr.SharedRandomness, rng: np.random.Generator) -> rr.Run:
        return rr.Run.of({"policy": np.zeros(source.n_states, dtype=int)})


@dataclass(frozen=True)
class Versioned(Nameless):
    version: ClassVar[str] = "1"


@dataclass(frozen=True)
class Heir(Versioned):
    """A version is not inherited."""


@dataclass(frozen=True)
class Unversioned(rr.rules.Rule):
    id: ClassVar[str] = "mine"

    def decide(self, model: Any, shared: Any, tuning: Any) -> rr.rules.Decision:
        return rr.rules.Decision({"policy": model.best.policy})


class OwnTable(rr.TabularMDP):
    """It may draw what it likes, and has the numbers of another table."""


def own_table() -> OwnTable:
    return OwnTable(CHAIN.rows, n_actions=CHAIN.n_actions, gamma=CHAIN.gamma)


def simulator(version: str = "") -> rr.Simulator:
    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return int(rng.random() < 0.5), float(state)

    return rr.Simulator(step, n_states=2, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0), version=version or None)


@pytest.mark.parametrize("algorithm", [Nameless(), Heir()], ids=["none", "inherited"])
def test_a_store_takes_code_with_a_version_only(algorithm: Any, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    with pytest.raises(InvalidInput, match="version = '1'"):
        rr.audit(CHAIN, algorithm, shared_seeds=2, store=store)
    with pytest.raises(InvalidInput, match="version"):
        rr.audit(simulator(), FAST, shared_seeds=2, store=store)
    with pytest.raises(InvalidInput, match="version='1'"):
        rr.audit_callable(lambda shared, sample: [0], shared_seeds=2, store=store)
    for layers in (object(), np.ma.array([1, 2], mask=[False, True])):
        with pytest.raises(InvalidInput, match="JSON cannot say"):
            rr.audit(CHAIN, Versioned(layers), shared_seeds=2, store=store)
    with pytest.raises(InvalidInput, match="'mine-v1'"):
        rr.audit(CHAIN, rr.PlugInPolicy(0.1, 0.05, 0.2, samples=9, rule=Unversioned()), shared_seeds=2, store=store)
    with pytest.raises(InvalidInput, match="version"):
        rr.audit(own_table(), FAST, shared_seeds=2, store=store)
    assert not store.exists()
    assert rr.audit(simulator("1"), Versioned(), shared_seeds=2, store=store).spec.foreign


def test_a_store_refuses_a_table_under_the_name_of_another_one() -> None:
    for name in (ObjectSpec("two-goals-v1"), ObjectSpec("nobody-v1"), ObjectSpec("mdp", {"digest": "0" * 64})):
        table = CHAIN.with_source(name)
        with pytest.raises(InvalidInput, match=name.id):
            rr.audit(table, FAST, shared_seeds=2, store=rr.RunStore())
        with pytest.raises(InvalidInput, match=name.id):
            rr.audit_callable(lambda r, s: [s % 2] * 5, problem=table, version="1", store=rr.RunStore())


def test_whose_code_makes_the_runs_is_known() -> None:
    assert not audit_spec(CHAIN, FAST).foreign
    assert audit_spec(CHAIN, Versioned()).foreign
    assert audit_spec(simulator(), FAST).foreign


def test_fields_are_the_settings_of_an_algorithm() -> None:
    def params(layers: Any) -> Any:
        return audit_spec(CHAIN, Versioned(layers)).algorithm.params

    assert params(1) == {"version": "1"}
    assert params([2, 3]) == params((2, 3)) != params([3, 2])
    assert params(np.array([1.0])) != params(np.array([2.0]))
