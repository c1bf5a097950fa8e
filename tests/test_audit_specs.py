"""What an audit is: a spec that comes back from JSON and from a store, and runs that are made once, in order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import joblib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.audit import RunFailed, audit_spec, read_audits, run_audits
from replicable_rl.audit.evidence import AuditSpec, audits_of
from replicable_rl.audit.jobs import Solving
from replicable_rl.audit.reading import current
from replicable_rl.canonical import from_record, parse_json, to_json
from replicable_rl.errors import InvalidInput
from replicable_rl.randomness import MAX_SEED
from replicable_rl.runs import Drawn, ObjectSpec, RunFamily, RunSpec

CHAIN, FAST = rr.make("chain-v1"), rr.PhasedVI(0.2, 0.05, calls=10, iterations=1)

# --- specs as data -----------------------------------------------------------------------------------------------

seeds = st.integers(0, MAX_SEED)
shares = st.floats(1e-9, 1.0 - 1e-9)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(scalars | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5)
objects = st.builds(
    ObjectSpec, st.text(min_size=1, max_size=10), st.dictionaries(st.text(max_size=5), values, max_size=3)
)
audit_specs = st.builds(
    AuditSpec,
    objects,
    objects,
    shared_seeds=st.integers(1, 9) | st.lists(seeds, min_size=1, max_size=5, unique=True),
    runs_per_seed=st.integers(2, 5),
    seed=seeds,
    confidence=shares,
    sampler=st.text(min_size=1, max_size=10),
    rho=st.none() | shares,
    require=st.none() | shares,
    level=st.sampled_from(["policy", "value", "model", "mine"]),
    shared=st.text(max_size=9),
    fresh=st.text(max_size=9),
    code=st.none() | st.text(max_size=9),
)


@given(audit_specs)
def test_a_spec_comes_back_from_json_and_from_a_store(spec: AuditSpec) -> None:
    again = from_record(AuditSpec, parse_json(json.dumps(to_json(spec))))
    assert again == spec
    assert (again.seeds, again.runs, again.size) == (spec.seeds, spec.runs, len(spec.runs))
    store = rr.RunStore()
    for one in (spec, again):
        store.add_audit(to_json(one))
    assert audits_of(store) == [spec]


@given(audit_specs)
def test_runs_of_one_shared_seed_are_together_and_all_are_different(spec: AuditSpec) -> None:
    each = spec.runs_per_seed
    assert [run.shared_seed for run in spec.runs] == [seed for seed in spec.seeds for _ in range(each)]
    assert len({run.digest for run in spec.runs}) == spec.size == len(spec.seeds) * each
    assert all(RunSpec.from_json(run.to_json()).digest == run.digest for run in spec.runs)
    assert {run.sample for run in spec.runs} == {Drawn(run.sample_seed or 0, spec.sampler) for run in spec.runs}


@given(audit_specs, audit_specs)
def test_a_spec_contains_those_whose_runs_it_makes(one: AuditSpec, two: AuditSpec) -> None:
    other = replace(two, problem=one.problem, algorithm=one.algorithm, sampler=one.sampler, seed=one.seed)
    for spec in (two, other):
        if one.contains(spec):
            assert {run.digest for run in one.runs} >= {run.digest for run in spec.runs}
    assert one.contains(one)
    begins = one.seeds[: other.n_seeds] == other.seeds
    assert one.contains(other) == (begins and other.runs_per_seed <= one.runs_per_seed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "seed cannot be '0'"),
        ({"shared_seeds": [-1]}, "a shared seed must be"),
        ({"problem": "chain-v1"}, "ObjectSpec: expected"),
        ({"confidence": 2.0}, "confidence must lie strictly between 0 and 1"),
        ({"fresh": None}, "fresh cannot be None"),
        ({"code": 7}, "code cannot be 7"),
    ],
)
def test_json_that_is_no_spec_is_refused(change: dict[str, Any], message: str) -> None:
    good = to_json(AuditSpec(CHAIN.spec, ObjectSpec("phased-vi-v1")))
    with pytest.raises(InvalidInput, match=message):
        from_record(AuditSpec, good | change)
    wrong: list[Any] = [None, [], {}, {key: value for key, value in good.items() if key != "rho"}]
    for bad in wrong:
        with pytest.raises(InvalidInput, match="AuditSpec: expected"):
            from_record(AuditSpec, bad)


# --- what is made ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Watched(Solving):
    """Makes quick runs, and remembers which."""

    mdp: rr.TabularMDP = field(default_factory=lambda: CHAIN)
    threads: bool = True
    made: list[str] = field(default_factory=list)

    def run(self, spec: RunSpec) -> rr.Run:
        self.made.append(spec.digest)
        return rr.Run.of({"policy": [spec.shared_seed % 2] * 5})


class WatchedStore(rr.RunStore):
    """Remembers what it was asked for."""

    asked: Counter[RunFamily]
    kept: Counter[str]

    def runs(self, family: RunFamily) -> dict[str, rr.Run]:
        self.__dict__.setdefault("asked", Counter())[family] += 1
        return super().runs(family)

    def add(self, runs: Any, contents: Any) -> int:
        self.__dict__.setdefault("kept", Counter()).update(run.key for run in runs)
        return super().add(runs, contents)


def watched_spec(job: Watched, algorithm: str = "mine", **options: Any) -> AuditSpec:
    return AuditSpec(CHAIN.spec, ObjectSpec(algorithm, {"version": "1"}), **{"shared_seeds": 10, **options}, job=job)


def made_by(specs: Iterable[AuditSpec]) -> set[str]:
    return {run.digest for spec in specs for run in spec.runs}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_extended_audit_makes_only_the_missing_runs(n_jobs: int, tmp_path: Path) -> None:
    store, job = tmp_path / "runs.sqlite", Watched()
    with joblib.parallel_config("threading", n_jobs=n_jobs), rr.RunStore(store) as opened:
        (one,) = run_audits([watched_spec(job, shared_seeds=40)], opened)
        assert sorted(job.made) == sorted(made_by([one.spec]))
        job.made.clear()
        (two,) = run_audits([watched_spec(job, shared_seeds=60)], opened)
        assert sorted(job.made) == sorted(made_by([two.spec]) - made_by([one.spec]))
        assert len(job.made) == 40
        assert two.runs[:80] == one.runs
        job.made.clear()
        (wide,) = run_audits([watched_spec(job, shared_seeds=60, runs_per_seed=3)], opened)
        assert len(job.made) == 60
        (less,) = run_audits([watched_spec(job, shared_seeds=5)], opened)
        assert less.runs == one.runs[:10]
        assert len(job.made) == 60
        assert audits_of(opened) == [one.spec, two.spec, wide.spec, less.spec]
        assert [read.spec for read in read_audits(opened)] == [wide.spec]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_audits_that_share_runs_make_each_once(n_jobs: int) -> None:
    job = Watched()
    specs = [
        watched_spec(job, shared_seeds=10),
        watched_spec(job, shared_seeds=20),
        watched_spec(job, shared_seeds=5, runs_per_seed=4),
        watched_spec(job, shared_seeds=20, confidence=0.9),
        watched_spec(job, "another"),
    ]
    store = WatchedStore()
    with joblib.parallel_config("threading", n_jobs=n_jobs):
        results = list(run_audits(specs, store))
    assert sorted(job.made) == sorted(made_by(specs))  # each once
    assert set(store.kept.values()) == {1}
    assert store.asked == {specs[0].family: 1, specs[4].family: 1}
    assert [result.spec for result in results] == specs
    for result in results:
        assert [run.spec for run in result.runs] == result.spec.runs
    assert [len(result.runs) for result in results] == [20, 40, 20, 40, 20]


def test_nothing_is_made_twice_and_the_store_is_asked_once() -> None:
    job, store = Watched(), WatchedStore()
    first = watched_spec(job, shared_seeds=4)
    list(run_audits([first], store))
    store.asked.clear()
    job.made.clear()
    again = [first, watched_spec(job, shared_seeds=6), first]
    results = list(run_audits(again, store))
    assert store.asked == {first.family: 1}
    assert sorted(job.made) == sorted(made_by(again) - made_by([first]))
    assert results[0].runs == results[2].runs == results[1].runs[:8]
    assert len(audits_of(store)) == 2
    store.asked.clear()
    others = [watched_spec(job, shared_seeds=2, seed=seed) for seed in range(3)]
    list(run_audits(others, store))
    assert store.asked == {first.family: 1}
    store.asked.clear()
    assert len(read_audits(store)) == 3  # of seed 0, the larger one
    assert store.asked == {first.family: 1}


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
    assert set(job.made) == made_by(specs[1:2])
    assert next(results).spec == done
    assert next(results).spec == specs[3]
    assert set(job.made) == made_by([specs[1], specs[3]])
    results.close()  # type: ignore[attr-defined]  # nobody wants the third
    assert set(job.made) == made_by([specs[1], specs[3]])
    assert len(audits_of(store)) == 4


def test_a_failing_audit_keeps_what_came_before_it(tmp_path: Path) -> None:
    class Failing(Watched):
        def run(self, spec: RunSpec) -> rr.Run:
            if len(self.made) == 5:
                raise ArithmeticError("five are enough")
            return super().run(spec)

    store = rr.RunStore(tmp_path / "runs.sqlite")
    specs = [watched_spec(Watched(), "well"), watched_spec(Failing(), "ill"), watched_spec(Watched(), "never")]
    results = run_audits(specs, store)
    assert next(results).spec == specs[0]
    with pytest.raises(RunFailed, match=r"run 6 of 20 .* failed: ArithmeticError: five are enough"):
        next(results)
    assert [(family.algorithm.id, runs) for family, runs in store.families()] == [("well", 20), ("ill", 5)]
    recorded = list(run_audits(specs[1:2], store, on_error="record"))
    assert len(recorded[0].failures) == 15  # those that had finished are kept
    assert len(recorded[0].runs) == 20


def test_ids_are_enough_for_what_is_registered() -> None:
    spec = AuditSpec(CHAIN.spec, ObjectSpec("phased-vi-v1", {"epsilon": 0.2, "delta": 0.05, "calls": 10}), 3)
    (by_ids,) = run_audits([spec], rr.RunStore())
    by_objects = rr.audit(CHAIN, rr.PhasedVI(0.2, 0.05, calls=10), shared_seeds=3)
    assert by_ids.spec == by_objects.spec == audit_spec(CHAIN, rr.PhasedVI(0.2, 0.05, calls=10), shared_seeds=3)
    assert by_ids.runs == by_objects.runs
    assert by_ids.mdp == by_objects.mdp
    with pytest.raises(InvalidInput, match="is called 'mine'"):
        list(run_audits([AuditSpec(CHAIN.spec, ObjectSpec("mine"), 3)], rr.RunStore()))


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(2, 4), st.integers(1, 6), st.integers(2, 4))
def test_whatever_came_before_an_audit_finds_the_same(j: int, r: int, J: int, R: int) -> None:
    store = rr.RunStore()
    rr.audit(CHAIN, FAST, shared_seeds=j, runs_per_seed=r, store=store)
    after = rr.audit(CHAIN, FAST, shared_seeds=J, runs_per_seed=R, store=store)
    alone = rr.audit(CHAIN, FAST, shared_seeds=J, runs_per_seed=R)
    assert after.runs == alone.runs
    assert after.to_json() == alone.to_json()


def test_an_audit_that_asks_something_is_left_out_only_for_one_that_asks_the_same() -> None:
    """A larger audit holds the runs of a smaller one, but does not answer what the smaller one asked."""
    problem, algorithm = ObjectSpec("chain-v1"), ObjectSpec("phased-vi-v1", {"epsilon": 0.1, "delta": 0.01})
    small, large = (AuditSpec(problem, algorithm, seeds) for seeds in (10, 20))
    asking, asking_more = (AuditSpec(problem, algorithm, seeds, require=0.99) for seeds in (10, 20))
    elsewhere = AuditSpec(problem, algorithm, 20, require=0.99, level="value")
    assert current([small, large]) == current([large, small]) == [large]
    assert current([large, asking]) == [large, asking]
    assert current([asking, large]) == [asking, large]
    assert current([asking, asking_more]) == current([asking_more, asking]) == [asking_more]
    assert current([asking, elsewhere]) == [asking, elsewhere]
    one, two = (AuditSpec(problem, algorithm, 20, confidence=confidence) for confidence in (0.9, 0.95))
    assert current([one, two]) == [two]  # of equal runs the later counts
    assert current([two, one]) == [one]


def test_workers_begin_with_different_algorithms(tmp_path: Path) -> None:
    """They would otherwise all compile the same kernels at the same time."""
    from replicable_rl.audit.run import _opened, _Queue

    problem, promise = ObjectSpec("two-goals-v1"), {"epsilon": 0.1, "delta": 0.01}
    algorithms = [ObjectSpec("phased-vi-v1", promise | {"calls": calls}) for calls in (100, 200)]
    algorithms.append(ObjectSpec("plug-in-policy-v1", promise | {"rho": 0.2, "samples": 100}))
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        specs = [AuditSpec(problem, one, shared_seeds=tuple(range(5))) for one in algorithms]
        chunks = list(_Queue(_opened(specs, store, "raise"), store).chunks(workers=2))
    assert {number for number, *_ in chunks[:2]} == {0, 2}
    made = [run.digest for *_, chunk in chunks for run in chunk]
    assert sorted(made) == sorted(key for one in specs for key in one.keys_of(one.seeds))
