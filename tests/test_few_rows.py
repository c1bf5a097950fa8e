"""Pairs of a log with few rows: algorithms that draw take them for the worst, in all logs alike, and say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.data.few import largest_threshold, threshold
from replicable_rl.randomness import SharedRandomness, sample_stream

pytestmark = pytest.mark.usefixtures("one_database")
LEARN, ROUND = (
    rr.ApproximateMDP(0.1, 0.1, calls=60),
    rr.ReplicableApproximateMDP(0.3, 0.05, 0.2, calls=60, tolerance=0.2),
)
ITERATE = rr.PhasedVI(0.1, 0.1, calls=6, iterations=10)
ROUNDED = rr.ReplicablePhasedVI(0.1, 0.01, 0.2, calls=6, iterations=10, tolerance=0.1)
ALL: list[Any] = [LEARN, ROUND, ITERATE, ROUNDED]


def thin(rows: dict[tuple[int, int], int], samples: int = 100, seed: int = 1) -> rr.Dataset:
    """Return a log of RiverSwim in which some pairs have fewer rows than the others."""
    log = rr.make("riverswim-v1").to_transitions(samples=samples, seed=seed)
    kept = np.ones(log["state"].size, dtype=bool)
    for (s, a), many in rows.items():
        kept[np.flatnonzero((log["state"] == s) & (log["action"] == a))[many:]] = False
    log = {name: column[kept] for name, column in log.items()}
    return rr.from_transitions(log, gamma=0.9, reward_range=(0.0, 1.0), states=range(6), actions=range(2))


@pytest.mark.parametrize("algorithm", ALL, ids=lambda one: one.id)
def test_an_untried_pair_is_the_worst_and_the_status_says_where(algorithm: Any) -> None:
    run = rr.solve(thin({(5, 1): 0}), algorithm, shared_seed=1)
    assert run.status is not None
    assert "1 pair of 12 with fewer than 10 rows, taken for the worst: 1 in 5" in run.status.sentence
    q = run.outputs["value"]
    if "model" in run.outputs:  # to the last bit, also where answers are rounded
        row = run.outputs["model"].rows.of_row(11)
        table = run.outputs["model"].rows
        assert (table.next_state[row].tolist(), table.probability[row].tolist()) == ([5], [1.0])
        assert run.outputs["model"].known_rewards[5, 1] == 0.0
    assert run.policy[5] == 0 or q[5].max() == q[5].min()


def test_rounding_never_makes_the_untried_attractive() -> None:
    """A reward that is rounded up, earned for ever in a loop: this is what taking samples at their word gave."""
    for seed in range(20):
        for algorithm in (ROUND, ROUNDED):
            run = rr.solve(thin({(2, 0): 0}), algorithm, shared_seed=seed)
            q = run.outputs["value"]
            assert q[2, 0] <= 0.9 * q[2].max() + 1e-9 or np.ptp(q[2]) < 1e-9


@pytest.mark.parametrize("algorithm", ALL, ids=lambda one: one.id)
def test_pairs_that_are_well_tried_still_need_their_rows(algorithm: Any) -> None:
    data = thin({(0, 0): 0, (3, 1): 40})
    with pytest.raises(rr.InvalidInput, match=r"40 rows of the pair with fewest that counts, 1 in 3\. With calls="):
        rr.solve(data, algorithm, shared_seed=1)
    with pytest.raises(rr.InvalidInput, match="40 rows of the pair with fewest that counts, 1 in 3"):
        rr.diagnose(data, algorithm, resamples=4)
    with pytest.raises(rr.InvalidInput, match="40 rows of the pair with fewest that counts, 1 in 3"):
        rr.audit({"one": data, "two": thin({(3, 1): 40}, seed=2)}, algorithm, shared_seeds=2)


def test_whether_a_run_is_possible_does_not_depend_on_the_seed() -> None:
    """With 60 rows needed, all pairs with fewer than 10 are left out, whatever the threshold; with 1, it decides."""
    data = thin({(0, 0): 1, (1, 0): 4, (2, 0): 9})
    for seed in range(30):
        assert "3 pairs of 12 with fewer than 10 rows" in str(rr.solve(data, LEARN, shared_seed=seed).status)
    least = rr.ApproximateMDP(0.1, 0.1, calls=1)
    said = {str(rr.solve(data, least, shared_seed=seed).status).count(" in ") for seed in range(30)}
    assert {1, 2} <= said <= {1, 2, 3}  # by a random threshold, the same for all logs


def test_the_threshold_is_that_of_plug_in_policies() -> None:
    data = thin({(0, 0): 1, (1, 0): 4, (2, 0): 9})
    least, decide = rr.ApproximateMDP(0.1, 0.1, calls=1), rr.PlugInPolicy(0.05, 0.05, 0.2)
    for seed in range(20):
        said = [str(rr.solve(data, one, shared_seed=seed).status) for one in (least, decide)]
        few = [one.partition("taken for the worst")[2].partition(";")[0] for one in said]
        assert few[0] == few[1]


def test_the_threshold_stays_within_its_bounds() -> None:
    for middle in (1.0, 2.0, 7.0, 50.0, 1e6):
        visits = np.full(9, middle)
        most = largest_threshold(visits)
        assert 1.0 <= most <= max(1.0, middle / 2.0)
        drawn = [threshold(visits, SharedRandomness(seed)) for seed in range(50)]
        assert min(drawn) >= 1.0
        assert max(drawn) <= most == threshold(visits, None)


def test_two_logs_leave_out_the_same_pairs() -> None:
    """Of a pair that both saw a few times; a fixed cut at the number of calls would tell 5 rows from 6."""
    one, two = thin({(4, 0): 5}), thin({(4, 0): 7}, seed=2)
    algorithm = rr.ApproximateMDP(0.1, 0.1, calls=6)
    alike = 0
    for seed in range(100):
        pair = [rr.solve(data, algorithm, shared_seed=seed).status for data in (one, two)]
        alike += len({"taken for the worst" in str(status) for status in pair}) == 1
    assert 5 <= alike <= 40  # the threshold is above 7 with probability 1 - log 7/log 10 = 0.155


def test_rows_of_pairs_that_are_left_out_are_not_handed_out() -> None:
    data = thin({(0, 0): 3})
    source = data.replayed()
    source.leave_out_few(SharedRandomness(1), 50)
    counts = source.draw(50, sample_stream(1))
    row = slice(int(counts.indptr[0]), int(counts.indptr[1]))
    assert counts.count[row].tolist()[-1] == 50
    assert counts.count[row][:-1].sum() == 0
    assert (counts.next_state[row][-1], counts.reward[row][-1]) == (0, 0.0)
    assert counts._sum(np.ones(counts.count.size)).tolist() == [50.0] * 12
    with pytest.raises(rr.InvalidInput, match="1 of 12 pairs have fewer rows left: 0 in 0 has 3"):
        data.draw(50, sample_stream(1))  # nobody said what to do with them


def test_ends_and_actions_that_are_not_allowed_are_not_few() -> None:
    log = rr.make("riverswim-v1").to_transitions(samples=50, seed=1)
    kept = ~((log["state"] == 0) & (log["action"] == 1)) & ~((log["state"] == 1) & (log["action"] == 1))
    log = {name: column[kept] for name, column in log.items()}
    log["done"] = log["next_state"] == 5
    allowed = np.ones((6, 2), dtype=bool)
    allowed[0, 1] = False
    names: dict[str, Any] = {"states": range(6), "actions": range(2), "allowed": allowed, "done": "done"}
    run = rr.solve(rr.from_transitions(log, gamma=0.9, **names), LEARN.__class__(0.1, 0.1, calls=40), shared_seed=1)
    assert "1 pair of 11 with fewer than 10 rows, taken for the worst: 1 in 1" in str(run.status)
    assert run.policy[0] == 0


@pytest.mark.parametrize("algorithm", ALL, ids=lambda one: one.id)
def test_a_diagnosis_follows(algorithm: Any) -> None:
    data = thin({(5, 1): 0, (0, 0): 4})
    found = rr.diagnose(data, algorithm, resamples=10)
    assert found.policy.tolist() == rr.solve(data, algorithm, shared_seed=0).policy.tolist()
    assert found.halves is not None
    assert 0.0 <= float(found.agreement) <= 1.0


def test_an_audit_of_logs_follows() -> None:
    logs = {"one": thin({(5, 1): 0}), "two": thin({(5, 1): 2}, seed=2)}
    result = rr.audit(logs, ROUND, shared_seeds=3)
    assert all("taken for the worst: 1 in 5" in str(run.status) for run in result.runs)


@pytest.mark.parametrize("algorithm", ALL, ids=lambda one: one.id)
def test_a_run_says_how_many_rows_it_took(algorithm: Any) -> None:
    """A plan has 60 rows of all 12 pairs; those of a thin pair stay where they are, and nothing ends here."""
    assert rr.plan(thin({}), algorithm).samples == 12 * 60
    assert rr.solve(thin({}), algorithm, shared_seed=1).samples == 12 * 60
    assert rr.solve(thin({(5, 1): 0, (4, 0): 9}), algorithm, shared_seed=1).samples == 10 * 60
    audited = rr.audit({"one": thin({(5, 1): 2}), "two": thin({}, seed=2)}, algorithm, shared_seeds=1)
    assert {run.samples for run in audited.runs} == {11 * 60, 12 * 60}


def test_what_comes_after_the_end_takes_no_rows() -> None:
    log = {"state": [0] * 40, "action": [0, 1] * 20, "reward": [1.0] * 40, "next_state": [0] * 40}
    data = rr.from_transitions({**log, "done": [0, 0, 1, 1] * 10}, gamma=0.9, done="done")
    learn = rr.ApproximateMDP(0.1, 0.1, calls=15)
    assert rr.plan(data, learn).samples == 4 * 15  # two of the four pairs are after the end
    assert rr.solve(data, learn, shared_seed=1).samples == 2 * 15


def test_a_policy_from_the_whole_log_takes_all_rows() -> None:
    data = thin({(5, 1): 2})
    run = rr.solve(data, rr.PlugInPolicy(0.05, 0.05, 0.2), shared_seed=1)
    assert run.samples == data.rows == 1102


def test_somebody_elses_algorithm_gets_the_worst_too() -> None:
    class Draws:
        def solve(self, source: Any, shared: SharedRandomness, rng: np.random.Generator) -> rr.Run:
            counts = source.draw(20, rng)
            rewards = counts.mean(counts.reward).reshape(6, 2)
            return rr.Run.of({"policy": rewards.argmax(axis=1)}, samples=240, status=rr.records.Status(CODE, "drew"))

    CODE = rr.records.StatusCode.COMPLETED
    run = rr.solve(thin({(5, 1): 0}), Draws(), shared_seed=1)
    assert run.policy[5] == 0
    assert "drew; 1 pair of 12 with" in str(run.status)
    assert run.samples == 220  # whatever it says
