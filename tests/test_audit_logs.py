"""Audits over logs: one process or several, what is refused, honest intervals, stores, pages and the command line."""

from __future__ import annotations

import csv
import json
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditSpec, read_audits, run_audits
from replicable_rl.audit.agreement import measure
from replicable_rl.audit.document import process_sentence
from replicable_rl.audit.logs import LogsJob, measure_logs, measure_states_of_logs
from replicable_rl.canonical import from_record, parse_json, to_json
from replicable_rl.logs import Dataset, align, compare_logs, from_logs, same_process
from tests.test_cli import Run
from tests.test_logs import long_log

pytestmark = pytest.mark.usefixtures("one_database")

DECIDE = rr.PlugInPolicy(0.02, 0.05, 0.2)
OTHER = [0.96, 0.01, 0.01, 0.01, 0.01]  # where action 0 leads from state 0, in another process
COLUMNS = ("--gamma", "0.9", "--reward-range", "0", "1")
PLUG_IN = ("plug-in-policy-v1", "--epsilon", "0.02", "--delta", "0.05", "--rho", "0.2")


def log_of(seed: int, rows: int = 2000, **changes: Any) -> dict[str, Any]:
    log = long_log(rows, seed=seed, **changes)
    log["reward"] = (log["next_state"] + log["action"]) / 6.0
    return log


def logs_of(*seeds: int, **changes: Any) -> dict[str, Dataset]:
    return from_logs([log_of(seed, **changes) for seed in seeds], gamma=0.9, reward_range=(0.0, 1.0))


def write(path: Path, log: dict[str, Any]) -> str:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(log)
        rows.writerows(zip(*log.values(), strict=True))
    return str(path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


@pytest.fixture(scope="module")
def apart() -> dict[str, Dataset]:
    """Two logs of one process, and one of another."""
    return from_logs({"spring": log_of(1), "autumn": log_of(2), "winter": log_of(3, first_row=OTHER)}, gamma=0.9)


# --- one process for several logs ---------------------------------------------------------------------


def test_logs_get_the_names_and_the_range_of_all() -> None:
    one = {"state": ["b", "a"], "action": ["x", "x"], "reward": [1, 0], "next_state": ["a", "b"], "end": [0, 1]}
    two = {"state": ["c", "a"], "action": ["y", "x"], "reward": [-2, 5], "next_state": ["a", "c"], "end": [0, 0]}
    first, second = from_logs([one, two], gamma=0.5, done="end").values()
    assert first.process == second.process
    assert first.process.states == ("a", "b", "c", "(end)")
    assert first.process.actions == ("x", "y")
    assert first.reward_range == (-2.0, 5.0)
    assert (first.rows, second.rows) == (2, 2)
    assert first.visits.tolist() == [[1, 0], [1, 0], [0, 0], [0, 0]]
    assert second.visits.tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]
    alone = rr.from_transitions(
        one, gamma=0.5, done="end", states=["a", "b", "c"], actions=["x", "y"], reward_range=(-2, 5)
    )
    assert alone == first  # the very data that one gets by declaring everything
    (again, _) = align([first, second]).values()
    assert again is first
    assert from_logs([two, one], gamma=0.5, done="end")["log 2"] == first  # whatever the order of the logs


@pytest.mark.parametrize(
    ("logs", "said"),
    [
        ([log_of(1)], "needs two logs or more, got 1"),
        (7, "needs a list of logs"),
        (["a.csv", "a.csv"], "'a.csv' is given twice, which is no evidence"),
        ([log_of(1), {**log_of(2), "state": ["x"] * 2000}], "one type"),
        (
            [log_of(1), {**log_of(2), "state": ["x"] * 2000, "next_state": ["x"] * 2000}],
            "name states alike, got a whole number such as 0 in log 1 and a text such as 'x' in log 2",
        ),
    ],
)
def test_logs_that_do_not_fit_are_refused(logs: Any, said: str) -> None:
    with pytest.raises(rr.InvalidInput, match=said.replace("(", r"\(")):
        from_logs(logs, gamma=0.9)


def test_what_is_no_sample_of_one_process_is_refused() -> None:
    one, two = rr.from_transitions(log_of(1), gamma=0.9), rr.from_transitions(log_of(2), gamma=0.8)
    with pytest.raises(rr.InvalidInput, match=r"have one discount, got 0\.9 in log 1 and 0\.8 in log 2"):
        rr.audit([one, two], DECIDE)
    with pytest.raises(rr.InvalidInput, match="log 2 must be a Dataset"):
        rr.audit([one, 5], DECIDE)
    with pytest.raises(rr.InvalidInput, match="log 1 and log 2 hold the same data, which is no evidence"):
        rr.audit([one, rr.from_transitions(log_of(1), gamma=0.9)], DECIDE)
    with pytest.raises(rr.InvalidInput, match="Give several logs as a list, or use diagnose"):
        rr.audit(one, DECIDE)
    with pytest.raises(rr.InvalidInput, match="each of the 2 logs is one run under every shared seed"):
        rr.audit(list(logs_of(1, 2).values()), DECIDE, runs_per_seed=5)


# --- do they come from one process? ---------------------------------------------------------------------


def test_logs_of_one_process_are_seldom_said_to_differ() -> None:
    log = rr.from_transitions(log_of(1, rows=4000), gamma=0.9)
    alarms = sum(compare_logs(log.split(4, seed=seed)).differ for seed in range(100))
    assert alarms <= 4  # each with probability 0.001: five come once in 10^7


def test_another_process_is_found_and_named(apart: dict[str, Dataset]) -> None:
    found = compare_logs(apart)
    assert found.differ
    assert (found.compared, found.differing) == (3, 2)
    assert {apart_pair.two for apart_pair in found.pairs[:2]} == {2}
    assert found.pairs[0].state == found.pairs[0].action == "0"
    assert process_sentence(found).startswith("THE LOGS COME FROM DIFFERENT PROCESSES: ")
    assert "2 of 3 pairs of logs differ" in process_sentence(found)
    # corrected for the number of pairs
    first, data = found.pairs[0], list(apart.values())
    alone = same_process(data[first.one], data[first.two])
    assert alone is not None
    assert 0.0 < first.p_value == 3 * alone.p_value
    assert not compare_logs({name: apart[name] for name in ("spring", "autumn")}).differ


def test_it_is_said_first_and_nothing_is_judged(apart: dict[str, Dataset]) -> None:
    result = rr.audit(apart, DECIDE, shared_seeds=5)
    assert result.logs is not None
    assert result.logs.differ
    assert str(result).startswith("THE LOGS COME FROM DIFFERENT PROCESSES: ")
    assert max(map(len, str(result).splitlines())) <= 80
    assert result.meets(0.01) is None
    assert result.meets(0.999) is None
    assert "which a test denies" in str(result.claim())
    assert result.to_json()["logs"]["differ"] is True


# --- the audit ------------------------------------------------------------------------------------------


def test_every_log_decides_under_every_shared_seed() -> None:
    logs = logs_of(1, 2, 3)
    result = rr.audit(logs, DECIDE, shared_seeds=[5, 7])
    assert [(run.shared_seed, run.spec.sample) for run in result.runs if run.spec is not None] == [
        (seed, data.sample) for seed in (5, 7) for data in logs.values()
    ]
    assert result.runs[1] == rr.solve(logs["log 2"], DECIDE, shared_seed=5)
    assert (result.agreement().pairs, result.agreement().independent) == (6, 1)
    assert result.labels.states == ("0", "1", "2", "3", "4")
    assert [row["log"] for row in result.rows()] == ["log 1", "log 2", "log 3"] * 2
    assert result.to_pandas()["shared_seed"].tolist() == [5, 5, 5, 7, 7, 7]
    assert "3 logs make 1 independent comparison of two logs" in str(result).replace("\n", " ")
    assert result.claim().conditions == ("the logs are independent samples of one process",)


def test_workers_find_the_same() -> None:
    alone = rr.audit(logs_of(1, 2), DECIDE, shared_seeds=4)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert rr.audit(logs_of(1, 2), DECIDE, shared_seeds=4).runs == alone.runs
    job = pickle.loads(pickle.dumps(alone.spec.job))  # noqa: S301  # as it travels to another process
    assert job.run(alone.runs[0].spec).fingerprints == alone.runs[0].fingerprints


# --- the interval: logs are the evidence ------------------------------------------------------------------


def types(rng: np.random.Generator, logs: int, seeds: int) -> list[str]:
    """Outputs of logs of two kinds, which no seed changes: two logs agree with probability 1/2."""
    return ["ab"[kind] for kind in rng.integers(2, size=logs)] * seeds


@pytest.mark.parametrize(("logs", "seeds"), [(2, 40), (8, 40), (9, 2)])
def test_intervals_hold_where_seeds_tell_nothing_about_logs(logs: int, seeds: int) -> None:
    rng, missed, naive = np.random.default_rng(7), np.zeros(2), 0
    for _ in range(100):
        outputs = types(rng, logs, seeds)
        found = measure_logs("policy", outputs, logs, 0.9)
        missed += [not one.low <= 0.5 <= one.high for one in (found.value, found.every_look)]
        plain = measure("policy", outputs, logs, 0.9).value
        naive += not plain.low <= 0.5 <= plain.high
    assert missed.max() <= 100 * 0.1 + 5 * np.sqrt(100 * 0.1 * 0.9)
    if logs == 8:
        assert naive > 50  # seeds as evidence would be far too sure: the test has power


def test_two_logs_are_one_comparison_however_many_seeds() -> None:
    few, many = (measure_logs("policy", ["a", "a"] * seeds, 2, 0.95) for seeds in (2, 2000))
    assert few.low == pytest.approx(many.low, abs=0.02)
    assert many.low < 0.03
    assert many.independent == 1
    assert measure_logs("policy", ["a"] * 40 * 60, 40, 0.95).low > 0.8  # 20 pairs
    lucky = measure_logs("policy", ["a"] * 40, 40, 0.95)  # forty logs under one seed, which may be a lucky one
    assert (lucky.independent, lucky.low < 0.03) == (1, True)


def test_failed_runs_agree_with_nothing() -> None:
    found = measure_logs("policy", [None, None, "a", "a"], 2, 0.95)
    assert (found.same, found.pairs) == (1, 2)
    states = measure_states_of_logs({"a": np.array([0, 1])}, [None, None, "a", "a"], 2, 0.95)
    assert states.overall.low <= float(states.overall) == 0.5 <= states.overall.high


# --- stores ---------------------------------------------------------------------------------------------


def test_runs_on_logs_are_kept_resumed_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "runs.sqlite"
    made = rr.audit(logs_of(1, 2), DECIDE, shared_seeds=3, store=store)
    with monkeypatch.context() as patched:
        patched.setattr(LogsJob, "run", None)  # nothing is run again
        again = rr.audit(logs_of(1, 2), DECIDE, shared_seeds=3, store=store)
    assert again.runs == made.runs
    rr.audit(logs_of(1, 2), DECIDE, shared_seeds=4, store=store)
    rr.audit(logs_of(1, 2, 3), DECIDE, shared_seeds=4, store=store)
    with rr.RunStore(store) as opened:
        two, three = read_audits(opened)  # the audit that was extended is one
        assert (two.spec.shared_seeds, two.spec.runs_per_seed, three.spec.runs_per_seed) == (4, 2, 3)
        assert two.logs == made.logs
        assert [family.sampler for family, _ in opened.families()] == [None]
        assert sum(runs for _, runs in opened.families()) == 12  # those of two logs were made once
        with pytest.raises(rr.InvalidInput, match=r"does not hold the logs\. Give them"):
            next(iter(run_audits([two.spec], opened)))


def test_a_spec_with_logs_round_trips() -> None:
    spec = rr.audit(logs_of(1, 2), DECIDE, shared_seeds=2).spec
    assert from_record(AuditSpec, parse_json(json.dumps(to_json(spec)))) == spec
    plain = AuditSpec(spec.problem, spec.algorithm)
    assert not spec.contains(plain)
    assert not plain.contains(spec)


# --- the command line and the page ------------------------------------------------------------------------


def test_the_command_says_it_first_and_exits_like_other_audits(run: Run, tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.csv", log_of(i)) for i in range(2)]
    other = write(tmp_path / "other.csv", log_of(3, first_row=OTHER))
    store, page = tmp_path / "runs.sqlite", tmp_path / "page.html"
    audit = ("audit", *files, *PLUG_IN, *COLUMNS, "--shared-seeds", "4", "--store", store)
    printed = run.good(*audit)
    assert printed.startswith("No difference between the logs was found (1 pair of logs compared")
    assert max(map(len, printed.splitlines())) <= 80
    data = json.loads(run.good(*audit, "--json", "--csv", tmp_path / "runs.csv"))
    assert data["logs"]["differ"] is False
    assert data["logs"]["names"] == ["0.csv", "1.csv"]
    assert data["levels"]["policy"]["independent"] == 1
    assert "other.csv" not in (tmp_path / "runs.csv").read_text()
    assert run(*audit, "--require", "0.5").code == 3  # two logs cannot tell
    mixed = run("audit", *files, other, *PLUG_IN, *COLUMNS, "--shared-seeds", "4", "--store", store, "--require", "0.1")
    assert mixed.code == 3
    assert mixed.out.startswith("THE LOGS COME FROM DIFFERENT PROCESSES: ")
    assert "THE LOGS COME FROM DIFFERENT PROCESSES" in run("audit", "--store", store).out
    run.good("report", store, "-o", page)
    text = page.read_text()
    first = text.index("THE LOGS COME FROM DIFFERENT PROCESSES")
    assert first < text.index("How often two runs with one shared seed")  # before any figure
    assert text.count("THE LOGS COME FROM DIFFERENT PROCESSES") == 2  # the overview, and the audit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("a.csv", *PLUG_IN, "--gamma", "0.9"),
            "a.csv is one log, and others are needed to compare it with. Give two logs or more",
        ),
        (("a.csv", "b.csv", *PLUG_IN, *COLUMNS, "--runs", "3"), "Leave --runs out"),
        (("a.csv", "b.csv", "c.csv", *COLUMNS), "c.csv is a log too. Name an algorithm after the logs"),
    ],
)
def test_bad_usage(
    run: Run, arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in run.refused("audit", *arguments)


def test_saved_samples_are_audited_like_logs(run: Run, tmp_path: Path) -> None:
    saved = []
    for name, data in logs_of(1, 2).items():
        saved.append(str(tmp_path / f"{name}.npz"))
        rr.save(data, saved[-1])
    data = json.loads(run.good("audit", *saved, *PLUG_IN, "--shared-seeds", "3", "--json"))
    assert data["logs"]["names"] == ["log 1.npz", "log 2.npz"]
    assert data["levels"]["policy"]["independent"] == 1
    log = write(tmp_path / "log.csv", log_of(3))
    mixed = run("audit", saved[0], log, *PLUG_IN, *COLUMNS)
    assert mixed.code == 2
    assert "give logs or saved samples, not both" in " ".join(mixed.err.split())
    asked = run("audit", *saved, *PLUG_IN, "--gamma", "0.9")
    assert asked.code == 2
    assert "Leave out --gamma" in " ".join(asked.err.split())


def test_what_is_allowed_and_bins_stay_in_the_common_process() -> None:
    declared: dict[str, Any] = {"states": [0, 1, 2, 3, 4], "actions": [0, 1, 2]}
    mask = np.ones((5, 3), dtype=bool)
    mask[0, 2] = False
    rows = [{name: np.asarray(column)[keep] for name, column in log.items()} for log, keep in _kept(mask)]
    rows[1]["reward"] = np.where(np.arange(rows[1]["reward"].size) == 0, 2.0, rows[1]["reward"])  # another range
    logs = from_logs(rows, gamma=0.9, allowed=mask, **declared)
    assert {data.reward_range for data in logs.values()} == {(0.0, 2.0)}
    assert all(not data.allowed[0, 2] for data in logs.values())
    assert all(rr.solve(data, DECIDE, shared_seed=1).policy[0] != 2 for data in logs.values())
    one, two = (rr.from_transitions(log, gamma=0.9, **declared) for log in rows)
    masked = rr.from_transitions(rows[0], gamma=0.9, allowed=mask, **declared)
    with pytest.raises(rr.InvalidInput, match="the same actions that are allowed"):
        align([masked, two])
    assert align([one, two])["log 1"].support.whole
    numbers = {name: np.asarray(column, dtype=float) for name, column in log_of(1).items()}
    binned = rr.from_transitions(numbers, gamma=0.9, bins={"state": rr.Bins([2.0, 3.0])})
    assert align(binned.split(2))["log 1"].process.bins == binned.process.bins


def _kept(mask: np.ndarray[Any, Any]) -> list[tuple[dict[str, Any], Any]]:
    logs = [log_of(seed) for seed in (1, 2)]
    return [(log, mask[np.asarray(log["state"]), np.asarray(log["action"])]) for log in logs]
