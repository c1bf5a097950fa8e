"""Which runs a verdict is about, and by which interval: those before the first that is missing, at every look."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.audit import AuditResult, AuditSpec, FreshSamples, SeveralLogs, TrainingCode, read_audits
from replicable_rl.audit.agreement import measure, measure_logs
from replicable_rl.audit.judging import measure_accuracy
from replicable_rl.canonical import to_json
from replicable_rl.errors import InvalidInput
from replicable_rl.logs.reading import Logs
from replicable_rl.runs import ObjectSpec, PromisedLoss, Run
from replicable_rl.store import packed

PROBLEM, ALGORITHM = ObjectSpec("mine"), ObjectSpec("coin", {"version": "1"})
LOGS = Logs(("a", "b", "c", "d"), tuple(f"{i:064x}" for i in range(4)), (1, 1, 1, 1))


def spec_of(seeds: Any = 30, **options: Any) -> AuditSpec:
    return AuditSpec(PROBLEM, ALGORITHM, seeds, **options)


def keep(store: rr.RunStore, spec: AuditSpec, seeds: Sequence[int], differ: Sequence[int] = ()) -> None:
    """Store the runs of some shared seeds, in this order; under those in ``differ`` no two agree."""
    contents: dict[str, bytes] = {}
    runs = []
    for seed in seeds:
        for i, sample in enumerate(spec.samples(seed)):
            run = Run.of({"policy": [i if seed in differ else 9]}).completed(spec.family.spec(seed, sample))
            runs.append(packed(run, contents))
    store.add(runs, contents)


def judged(store: rr.RunStore, required: float) -> tuple[list[int], bool | None]:
    """Return the seeds that are judged, and the verdict."""
    (result,) = read_audits(store)
    seeds = [run.shared_seed for run in result.runs[:: result.spec.runs_per_seed]]
    assert result.runs_asked == result.spec.runs_per_seed * 30 or len(result.runs) == result.runs_asked
    return seeds, result.meets(required) if seeds else None


def delete(store: rr.RunStore, spec: AuditSpec, seeds: Sequence[int]) -> None:
    with store._session(write=True) as connection:
        for key in spec.keys_of(seeds):
            connection.execute("DELETE FROM runs WHERE key = ?", (bytes.fromhex(key),))


@pytest.mark.parametrize(
    "design",
    [
        {},
        {"runs_per_seed": 3},
        {"seeds": tuple(range(30, 0, -1))},
        {"evidence": TrainingCode(), "foreign": True},
        {"evidence": SeveralLogs(logs=LOGS), "runs_per_seed": 4},
    ],
)
@pytest.mark.parametrize("how", ["interrupted", "deleted"])
@pytest.mark.parametrize("first", [0, 1, 7])
def test_only_what_comes_before_the_first_gap_is_judged(design: dict[str, Any], how: str, first: int) -> None:
    """Every second seed differs. Those that agree are fast, or those that differ are deleted: all that is left agrees.

    A verdict at 0.6 from the ones that are left would be "met", where the truth is 0.5.
    """
    spec = spec_of(**design)
    with rr.RunStore() as store:
        store.add_audit(to_json(spec))
        differ = [seed for i, seed in enumerate(spec.seeds) if i >= first and i % 2 == first % 2]
        alike = [seed for seed in spec.seeds if seed not in differ]
        keep(store, spec, alike[::-1])  # whatever the order in which they finish
        if how == "deleted":
            keep(store, spec, differ, differ)
            delete(store, spec, differ)
        assert judged(store, 0.6) == (list(spec.seeds[:first]), None)
        keep(store, spec, differ[:1], differ)  # half of it refutes nothing, and shows nothing
        assert judged(store, 0.6)[0] == list(spec.seeds[: first + 2])
        keep(store, spec, differ, differ)
        # Four logs are two comparisons; own code was never run again.
        known = isinstance(spec.evidence, FreshSamples)
        assert judged(store, 0.9) == (list(spec.seeds), False if known else None)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_one_missing_run_ends_what_is_judged(missing: int) -> None:
    spec = spec_of(runs_per_seed=3)
    with rr.RunStore() as store:
        store.add_audit(to_json(spec))
        keep(store, spec, spec.seeds)
        with store._session(write=True) as connection:
            key = list(spec.keys_of(spec.seeds))[15 + missing]
            connection.execute("DELETE FROM runs WHERE key = ?", (bytes.fromhex(key),))
        assert judged(store, 0.6) == (list(spec.seeds[:5]), None)


def test_an_audit_that_is_extended_is_judged_in_the_order_of_its_seeds() -> None:
    with rr.RunStore() as store:
        small, large = spec_of(15), spec_of(30)
        for spec in (small, large):
            store.add_audit(to_json(spec))
        keep(store, large, [*small.seeds, *large.seeds[16:]])  # the 16th takes longest
        assert judged(store, 0.7) == (list(small.seeds), True)


def test_seeds_cannot_be_picked_out_of_those_whose_runs_are_known(tmp_path: Path) -> None:
    trained = []

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        trained.append(shared_seed)
        return [int(np.random.default_rng(sample_seed).integers(2))]

    def audit(*seeds: int) -> AuditResult:
        return rr.audit_callable(train, shared_seeds=seeds, store=tmp_path / "runs.sqlite", version="1")

    agree = np.flatnonzero(audit(*range(20)).agreement().per_seed)
    trained.clear()
    for picked in (agree, [*agree, 30, 31], [19], range(1, 20), range(19, -1, -1)):
        with pytest.raises(InvalidInput, match="shared_seeds"):
            audit(*map(int, picked))
    assert not trained
    assert audit(*range(5)).agreement().pairs == 5  # the first of them
    assert audit(40, 41).agreement().pairs == 2  # nobody knew their runs
    assert audit(*range(20), 50).agreement().pairs == 21


# --- failures ------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 4), st.data())
def test_what_failed_counts_against_either_verdict(runs: int, data: st.DataObject) -> None:
    """Whatever the runs that failed would have returned, the interval then lies within the one that is shown."""
    size = data.draw(st.integers(1, 4)) * runs
    outputs = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=size, max_size=size))
    gaps = [i for i, output in enumerate(outputs) if output is None][:4]
    kinds: list[Callable[[list[str | None]], rr.Agreement]] = [
        lambda outputs: measure("policy", outputs, runs, 0.9),
        lambda outputs: measure_logs("policy", outputs, runs, 0.9),
    ]
    for kind in kinds:
        interval = kind(outputs).every_look
        for filled in itertools.product("abc", repeat=len(gaps)):
            other = list(outputs)
            for i, output in zip(gaps, filled, strict=True):
                other[i] = output
            inside = kind(other).every_look
            assert interval.low <= inside.low + 1e-12
            assert interval.high >= inside.high - 1e-12


@pytest.mark.parametrize("runs", [2, 3])
def test_failures_refute_nothing_and_show_nothing(runs: int) -> None:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        if shared_seed % 2:
            raise ArithmeticError("one half fails")
        return [1]

    result = rr.audit_callable(train, shared_seeds=60, runs_per_seed=runs, on_error="record")
    assert 10 < len(result.failures) < 60 * runs - 10
    assert result.meets(0.9) is result.meets(0.2) is None
    accuracy = measure_accuracy(PromisedLoss(0.1, 0.2, "worst"), [0.0, None] * 60, 2, 0.95)
    assert accuracy.share.low < 0.6
    assert accuracy.share.high > 0.9
