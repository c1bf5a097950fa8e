"""Which runs a verdict is about, and by which interval: those before the first that is missing, at every look."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.audit import AuditResult, read_audits
from replicable_rl.audit.accuracy import measure_accuracy
from replicable_rl.audit.agreement import measure
from replicable_rl.audit.evidence import AuditSpec, Training, audits_of
from replicable_rl.audit.logs import measure_logs
from replicable_rl.canonical import to_json
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Logs
from replicable_rl.runs import ObjectSpec, PromisedLoss, Run, RunSpec
from replicable_rl.store import packed
from tests.documents import store_text
from tests.test_cli import COMMAND, environment
from tests.test_cli import Run as Command

PROBLEM, ALGORITHM = ObjectSpec("mine"), ObjectSpec("coin", {"version": "1"})
DIGESTS = tuple(f"{i:064x}" for i in range(4))


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


def judged(store: rr.RunStore, tmp_path: Path, run: Command, require: float) -> tuple[list[int], set[int]]:
    """The seeds that are judged, and what every way of judging a store says, as exit codes."""
    (result,) = read_audits(store)
    seeds = [one.shared_seed for one in result.runs[:: result.spec.runs_per_seed]]
    code = {True: 0, False: 1, None: 3}
    codes = {run("audit", "--store", store.path, "--require", str(require)).code}
    if seeds:
        codes.add(code[result.meets(require)])
        assert result.agreement().independent in (len(seeds), 2)
    page = store_text(str(store.path))
    assert f"{len(result.runs)} of {result.runs_asked}" in page or len(result.runs) == result.runs_asked
    return seeds, codes


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


LOGS = Logs(("a", "b", "c", "d"), DIGESTS, (1, 1, 1, 1))
DESIGNS: list[dict[str, Any]] = [
    {},
    {"runs_per_seed": 3},
    {"seeds": tuple(range(30, 0, -1))},
    {"training": Training(), "sampler": "own"},
    {"logs": LOGS, "sampler": "own"},
]


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("how", ["interrupted", "deleted"])
@pytest.mark.parametrize("first", [0, 1, 7])
def test_only_what_comes_before_the_first_gap_is_judged(
    design: dict[str, Any], how: str, first: int, tmp_path: Path, run: Command
) -> None:
    """Every second seed differs. Those that agree are fast, or those that differ are deleted: all that is left agrees.

    A verdict at 0.6 from the ones that are left would be "met", where the truth is 0.5.
    """
    spec = spec_of(**design)
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        store.add_audit(to_json(spec))
        differ = [seed for i, seed in enumerate(spec.seeds) if i >= first and i % 2 == first % 2]
        alike = [seed for seed in spec.seeds if seed not in differ]
        keep(store, spec, alike[::-1])  # whatever the order in which they finish
        if how == "deleted":
            keep(store, spec, differ, differ)
            with store._session(write=True) as connection:
                for seed in differ:
                    connection.execute("DELETE FROM runs WHERE shared_seed = ?", (str(seed),))
        seeds, codes = judged(store, tmp_path, run, 0.6)
        assert seeds == list(spec.seeds[:first])
        assert codes == {3}
        keep(store, spec, differ[:1], differ)  # half of it refutes nothing, and shows nothing
        assert judged(store, tmp_path, run, 0.6)[0] == list(spec.seeds[: first + 2])
        keep(store, spec, differ, differ)
        seeds, codes = judged(store, tmp_path, run, 0.9)
        assert seeds == list(spec.seeds)
        unknown = spec.logs or spec.may_remember  # four logs are two comparisons; own code was never run again
        assert codes == ({3} if unknown else {1})


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_one_missing_run_ends_what_is_judged(missing: int, tmp_path: Path, run: Command) -> None:
    spec = spec_of(runs_per_seed=3)
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        store.add_audit(to_json(spec))
        keep(store, spec, spec.seeds)
        with store._session(write=True) as connection:
            connection.execute(
                "DELETE FROM runs WHERE key = ?", (bytes.fromhex(list(spec.keys_of(spec.seeds))[15 + missing]),)
            )
        assert judged(store, tmp_path, run, 0.6) == (list(spec.seeds[:5]), {3})


def test_an_audit_that_is_extended_is_judged_in_the_order_of_its_seeds(tmp_path: Path, run: Command) -> None:
    with rr.RunStore(tmp_path / "runs.sqlite") as store:
        small, large = spec_of(60), spec_of(100)
        for spec in (small, large):
            store.add_audit(to_json(spec))
        keep(store, large, [*small.seeds, *large.seeds[61:]])  # the 61st takes longest
        seeds, codes = judged(store, tmp_path, run, 0.9)
        assert seeds == list(small.seeds)
        assert codes == {0}


def test_seeds_cannot_be_picked_out_of_those_whose_runs_are_known(tmp_path: Path) -> None:
    made = []

    def train(shared_seed: int, sample_seed: int) -> list[int]:
        made.append(shared_seed)
        return [int(np.random.default_rng(sample_seed).integers(2))]

    def audit(*seeds: int) -> AuditResult:
        return rr.audit_callable(train, shared_seeds=seeds, store=tmp_path / "runs.sqlite", version="1")

    first = audit(*range(20))
    agree = np.flatnonzero(first.agreement().per_seed)
    made.clear()
    for picked in (agree, [*agree, 30, 31], [19], range(1, 20), range(19, -1, -1)):
        with pytest.raises(InvalidInput, match="shared_seeds"):
            audit(*map(int, picked))
    assert not made
    assert audit(*range(5)).agreement().pairs == 5  # the first of them
    assert audit(40, 41).agreement().pairs == 2  # nobody knew their runs
    assert audit(*range(20), 50).agreement().pairs == 21


# --- failures ------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 4), st.data())
def test_what_failed_counts_against_either_verdict(runs: int, data: st.DataObject) -> None:
    """Whatever the runs that failed would have found, the interval then lies within the one that is shown."""
    J = data.draw(st.integers(1, 4))
    size = J * runs
    outputs = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=size, max_size=size))
    gaps = [i for i, one in enumerate(outputs) if one is None][:4]
    kinds: list[Callable[[list[str | None]], rr.Agreement]] = [
        lambda outputs: measure("policy", outputs, runs, 0.9),
        lambda outputs: measure_logs("policy", outputs, runs, 0.9),
    ]
    for kind in kinds:
        found = kind(outputs).every_look
        for filled in itertools.product("abc", repeat=len(gaps)):
            other = list(outputs)
            for i, one in zip(gaps, filled, strict=True):
                other[i] = one
            inside = kind(other).every_look
            assert found.low <= inside.low + 1e-12
            assert found.high >= inside.high - 1e-12


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


# --- a real one ----------------------------------------------------------------------------------------------------

SLOW = """
import time
import numpy as np

def train(shared_seed, sample_seed):
    action = int(np.random.default_rng(sample_seed).integers(2))
    time.sleep(300 if action else 0.01)  # hard runs are slow
    return [action]
"""


def test_a_killed_audit_is_not_judged_by_what_happened_to_finish(tmp_path: Path, run: Command) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    store = tmp_path / "runs.sqlite"
    options = ["--shared-seeds", "30", "--store", str(store), "--version", "1", "--jobs", "60", "--backend", "threads"]
    command = [COMMAND, "audit", "slow.py:train", *options]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), start_new_session=True)
    try:
        deadline = time.monotonic() + 100
        specs: list[AuditSpec] = []
        finished = -1
        while not specs or finished != sum(map(_fast, specs[0].runs)):
            assert time.monotonic() < deadline
            time.sleep(0.2)
            if store.exists():
                with rr.RunStore(store) as opened:
                    specs, finished = audits_of(opened), sum(runs for _, runs in opened.families())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with rr.RunStore(store) as opened:
        whole = [all(map(_fast, specs[0].runs[i : i + 2])) for i in range(0, 60, 2)]
        assert sum(whole) > 5
        seeds, codes = judged(opened, tmp_path, run, 0.6)
        assert len(seeds) == whole.index(False)
        assert codes == {3}


def _fast(spec: RunSpec) -> bool:
    return not np.random.default_rng(spec.sample_seed).integers(2)
