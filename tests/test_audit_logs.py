"""Audits over logs: every log decides, logs are the evidence, and logs of different processes show nothing."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditSpec, read_audits, run_audits
from replicable_rl.audit.agreement import measure, measure_logs
from replicable_rl.audit.evidence import SeveralLogs, SolveJob
from replicable_rl.canonical import from_record, parse_json, to_json
from replicable_rl.logs import Dataset, from_logs

pytestmark = pytest.mark.usefixtures("one_database")

DECIDE = rr.PlugInPolicy(0.02, 0.05, 0.2)


def log_of(seed: int, rows: int = 2000, up: float = 0.5) -> dict[str, Any]:
    """Return a log of five states, three actions and rewards in [0, 1]."""
    rng = np.random.default_rng(seed)
    state, action = rng.integers(5, size=rows), rng.integers(3, size=rows)
    following = np.where(rng.random(rows) < up, (state + action) % 5, 0)
    return {"state": state, "action": action, "reward": (following + action) / 6.0, "next_state": following}


def logs_of(*seeds: int) -> dict[str, Dataset]:
    return from_logs([log_of(seed) for seed in seeds], gamma=0.9, reward_range=(0.0, 1.0))


def test_every_log_decides_under_every_shared_seed() -> None:
    logs = logs_of(1, 2, 3)
    result = rr.audit(logs, DECIDE, shared_seeds=[5, 7])
    assert [(run.shared_seed, run.spec.sample) for run in result.runs if run.spec is not None] == [
        (seed, data.sample) for seed in (5, 7) for data in logs.values()
    ]
    assert result.runs[1] == rr.solve(logs["log 2"], DECIDE, shared_seed=5)
    assert (result.agreement().pairs, result.agreement().independent) == (6, 1)
    assert result.labels.states == ("0", "1", "2", "3", "4")
    assert [result.evidence.sample_of(run) for run in result.runs] == ["log 1", "log 2", "log 3"] * 2
    assert result.claim().conditions == ("the logs are independent samples of one process",)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert rr.audit(logs, DECIDE, shared_seeds=[5, 7]).runs == result.runs
    job = pickle.loads(pickle.dumps(result.spec.job))  # noqa: S301  # as it travels to another process
    assert job.run(result.runs[0].spec).fingerprints == result.runs[0].fingerprints


def test_logs_of_different_processes_are_not_judged() -> None:
    logs = {"spring": log_of(1), "autumn": log_of(2), "winter": log_of(3, up=0.9)}
    result = rr.audit(from_logs(logs, gamma=0.9), DECIDE, shared_seeds=5)
    assert isinstance(result.evidence, SeveralLogs)
    assert (result.evidence.differ, result.evidence.logs.compared, result.evidence.logs.differing) == (True, 3, 2)
    assert result.meets(0.01) is result.meets(0.999) is result.verdict() is None
    assert "which a test denies" in str(result.claim())
    assert "different processes" in str(result)


@pytest.mark.parametrize(("logs", "seeds"), [(2, 40), (8, 40), (9, 2)])
def test_intervals_hold_where_seeds_tell_nothing_about_logs(logs: int, seeds: int) -> None:
    """Logs are of two kinds, which no seed changes: two logs agree with probability 1/2."""
    rng, missed, naive = np.random.default_rng(7), 0, 0
    for _ in range(100):
        outputs = ["ab"[kind] for kind in rng.integers(2, size=logs)] * seeds
        agreement = measure_logs("policy", outputs, logs, 0.9)
        missed += not agreement.low <= 0.5 <= agreement.high
        plain = measure("policy", outputs, logs, 0.9)
        naive += not plain.low <= 0.5 <= plain.high
    assert missed <= 100 * 0.1 + 5 * np.sqrt(100 * 0.1 * 0.9)
    if logs == 8:
        assert naive > 50  # seeds as evidence would be far too sure: the test has power


def test_two_logs_are_one_comparison_however_many_seeds() -> None:
    few, many = (measure_logs("policy", ["a", "a"] * seeds, 2, 0.95) for seeds in (2, 2000))
    assert few.low == pytest.approx(many.low, abs=0.02)
    assert (many.low < 0.03, many.independent) == (True, 1)
    assert measure_logs("policy", ["a"] * 40 * 60, 40, 0.95).low > 0.75  # 20 pairs
    lucky = measure_logs("policy", ["a"] * 40, 40, 0.95)  # forty logs under one seed, which may be a lucky one
    assert (lucky.independent, lucky.low < 0.03) == (1, True)


def test_failed_runs_agree_with_nothing() -> None:
    agreement = measure_logs("policy", [None, None, "a", "a"], 2, 0.95)
    assert (agreement.same, agreement.pairs) == (1, 2)


def test_runs_on_logs_are_kept_resumed_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "runs.sqlite"
    result = rr.audit(logs_of(1, 2), DECIDE, shared_seeds=3, store=store)
    with monkeypatch.context() as patched:
        patched.setattr(SolveJob, "run", None)  # nothing is run again
        assert rr.audit(logs_of(1, 2), DECIDE, shared_seeds=3, store=store).runs == result.runs
    rr.audit(logs_of(1, 2), DECIDE, shared_seeds=4, store=store)
    rr.audit(logs_of(1, 2, 3), DECIDE, shared_seeds=4, store=store)
    with rr.RunStore(store) as opened:
        two, three = read_audits(opened)  # the audit that was extended is one
        assert (two.spec.shared_seeds, two.spec.runs_per_seed, three.spec.runs_per_seed) == (4, 2, 3)
        assert two.evidence == result.evidence
        assert sum(runs for _, runs in opened.families()) == 12  # those of two logs were made once
        with pytest.raises(rr.InvalidInput, match="does not hold what makes its runs"):
            next(iter(run_audits([two.spec], opened)))
    assert from_record(AuditSpec, parse_json(json.dumps(to_json(result.spec)))) == result.spec


def test_logs_that_cannot_be_audited_are_refused() -> None:
    with pytest.raises(rr.InvalidInput, match="runs_per_seed"):
        rr.audit(logs_of(1, 2), DECIDE, runs_per_seed=3)
    with pytest.raises(rr.InvalidInput, match="several logs as a list"):
        rr.audit(logs_of(1, 2)["log 1"], DECIDE)
    with pytest.raises(rr.InvalidInput, match="PlugInPolicy"):
        rr.audit(logs_of(1, 2), rr.PhasedVI(0.1, 0.01))
