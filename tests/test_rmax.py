"""R-max and RepRMAX: optimal policies, identical models, the listing by the letter, statuses and claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.randomness import sample_stream
from replicable_rl.runs import FIXED_SEED
from replicable_rl.sampling import EpisodeCounts
from tests.statistics import SEED, Like

GRID = rr.make("two-goals-v1")
USUAL: dict[str, Any] = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "horizon": 60}
PROVED = rr.ReplicableRMax(**USUAL, support=3)
SMALL = rr.ReplicableRMax(0.3, 0.001, 0.2, 12, episodes=3000, known=0.4, window=0.6, tolerance=0.2, rounds=40)
PROBLEMS: dict[str, tuple[rr.TabularMDP, rr.ReplicableRMax]] = {
    # epsilon is in normalised units; FrozenLake pays 1 once, so its values end at 1 - gamma.
    "two-goals-wide": (rr.make("two-goals-wide-v1"), rr.ReplicableRMax(0.05, 0.001, 0.2, horizon=60)),
    "riverswim-20": (rr.make("riverswim-v1", n_states=20), rr.ReplicableRMax(0.01, 0.001, 0.2, horizon=150)),
    "frozen-lake-8x8": (
        rr.from_gymnasium("FrozenLake-v1", map_name="8x8", gamma=0.95),
        rr.ReplicableRMax(0.001, 0.001, 0.2, horizon=100),
    ),
}


def loss(mdp: rr.TabularMDP, policy: np.ndarray) -> float:
    """Normalised loss of a policy from the initial distribution."""
    best = rr.optimal_values(mdp).policy
    span = rr.theory.Units(mdp.gamma, *mdp.reward_range).span
    gap = rr.evaluate_policy(mdp, best).expected_return - rr.evaluate_policy(mdp, policy).expected_return
    return gap / span


def solve(mdp: Any, seed: int = 1, **changes: Any) -> rr.Run:
    return rr.solve(mdp, rr.ReplicableRMax(**(USUAL | changes)), shared_seed=1, sample_seed=seed)


def code(run: rr.Run) -> rr.StatusCode:
    assert run.status is not None
    return run.status.code


# --- what is promised ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_default_plans_find_good_policies_and_one_model(name: str) -> None:
    """Every bound on disagreement is far below 1e-6 by the normal law; R-max never learns a model twice."""
    mdp, algorithm = PROBLEMS[name]
    same, promise = 0, (algorithm.epsilon, algorithm.delta, algorithm.horizon)
    for seed in range(40):
        one, two = (rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=SEED + 2 * seed + i) for i in (0, 1))
        same += one.fingerprints.model == two.fingerprints.model
        if seed >= 5:
            continue
        assert loss(mdp, one.policy) <= algorithm.epsilon
        assert code(one) in (rr.StatusCode.STOPPED_BY_RULE, rr.StatusCode.ALL_KNOWN)
        for m in (None, 10**9):
            plain = [rr.solve(mdp, rr.RMax(*promise, episodes=m), shared_seed=seed, sample_seed=i) for i in (0, 1)]
            assert plain[0].fingerprints.model != plain[1].fingerprints.model
            assert loss(mdp, plain[0].policy) <= algorithm.epsilon
    assert same >= 32  # 1 - rho; measured 100 of 100 on all three


def test_small_m_disagrees_so_the_test_above_has_power() -> None:
    few = rr.ReplicableRMax(0.05, 0.001, 0.2, 60, episodes=10**6)
    mdp = PROBLEMS["two-goals-wide"][0]
    assert len({rr.solve(mdp, few, shared_seed=1, sample_seed=i).fingerprints.model for i in range(6)}) > 1


def test_replicability_is_proved_where_the_plan_says_so() -> None:
    one, two = (rr.solve(GRID, PROVED, shared_seed=3, sample_seed=i) for i in (1, 2))
    accuracy, replicability = one.claims
    assert (accuracy.kind, accuracy.bound, accuracy.failure, accuracy.level) == ("proved", 0.1, 0.001, "policy")
    assert (replicability.kind, replicability.bound, replicability.level) == ("proved", 0.2, "model")
    assert one.fingerprints == two.fingerprints
    assert loss(GRID, one.policy) <= 0.1


# --- the listing -----------------------------------------------------------------------------------------------------


def test_rows_do_not_depend_on_the_round() -> None:
    """Two runs that learn pairs in different rounds (other k, hence other histories) round them alike."""
    mdp = rr.make("riverswim-v1")
    rows: list[dict[int, bytes]] = []
    rounds_seen = []
    for known in (0.02, 30.0):
        algorithm = rr.ReplicableRMax(0.05, 0.001, 0.2, 40, episodes=10**16, known=known, tolerance=0.02, support=3)
        run = rr.solve(mdp, algorithm, shared_seed=5, sample_seed=SEED)
        assert run.model is not None
        assert code(run) is rr.StatusCode.ALL_KNOWN
        r = run.model.rows
        rows.append({i: r.probability[r.of_row(i)].tobytes() + r.next_state[r.of_row(i)].tobytes() for i in range(12)})
        rounds_seen.append(run.history["known"].tolist())
    assert rounds_seen[0] != rounds_seen[1]
    assert rows[0] == rows[1]


def reference_rmax(
    mdp: rr.TabularMDP, algorithm: rr.ReplicableRMax, shared_seed: int, sample_seed: int
) -> tuple[list[int], list[int], str]:
    """RepUpdateK and the stopping rule by the letter: (known pairs by round, policy, how it ended)."""
    plan = algorithm.plan(mdp).numbers
    shared, rng = rr.SharedRandomness(shared_seed), sample_stream(sample_seed)
    S, A, m = mdp.n_states, mdp.n_actions, plan.episodes
    table = mdp
    policy = [int(u * A) for u in shared.uniform("rmax/first-policy", shape=S)]
    theta = plan.epsilon / 4 + plan.epsilon / 4 * shared.uniform("rmax/stop", shape=1)[0]
    n = [0.0] * (S * A)
    K: dict[int, dict[int, float]] = {}
    total: dict[int, float] = {}
    known_by_round: list[int] = []
    for i in range(plan.rounds):
        seen = table.play(policy, m, plan.horizon, rng)
        for key, count in zip(seen.key.tolist(), seen.count.tolist(), strict=True):
            total[key] = total.get(key, 0.0) + count
        visits = seen.visits / m
        if sum(visits[p] for p in range(S * A) if p not in K) < theta:
            return known_by_round, policy, "stopped"
        threshold = plan.known + plan.window * shared.uniform("rmax/threshold", i, shape=1)[0]
        for p in range(S * A):
            if p in K:
                continue
            n[p] += visits[p]
            if n[p] < threshold:
                continue
            successors = {s: total[p * S + s] for s in range(S) if total.get(p * S + s, 0.0) > 0.0}
            everything = sum(successors.values())
            row = {}
            for s, count in successors.items():
                word = int(shared.words("rmax/offset", count=p * S + s + 1)[p * S + s])
                off = plan.width * ((word >> 11) * 2.0**-53)
                k = np.floor((count / everything - off) / plan.width)
                low, high = max(0.0, off + k * plan.width), min(1.0, off + (k + 1) * plan.width)
                if low > 0.0:
                    row[s] = (low + high) / 2
            K[p] = {s: x / sum(row.values()) for s, x in row.items()} or {p // A: 1.0}
        known_by_round.append(len(K))
        R = mdp.known_rewards
        assert R is not None
        P = np.zeros((S, A, S))
        rewards = np.full((S, A), mdp.reward_range[1])
        for p in range(S * A):
            for s, x in K.get(p, {p // A: 1.0}).items():
                P[p // A, p % A, s] = x
            if p in K:
                rewards[p // A, p % A] = R[p // A, p % A]
        model = rr.TabularMDP.from_dense(P, rewards, gamma=mdp.gamma, layout="sas", reward_range=mdp.reward_range)
        policy = rr.optimal_values(model).policy.tolist()
        if len(K) == S * A:
            return known_by_round, policy, "all known"
    return known_by_round, policy, "budget"


def test_the_loop_is_the_listing() -> None:
    for problem in ("two-goals-v1", "riverswim-v1", "machine-repair-v1"):
        mdp = rr.make(problem)
        for seed in range(4):
            run = rr.solve(mdp, SMALL, shared_seed=seed, sample_seed=50 + seed)
            known, policy, _ = reference_rmax(mdp, SMALL, seed, 50 + seed)
            assert run.history["known"].tolist()[: len(known)] == known
            assert run.policy.tolist() == policy


@pytest.mark.parametrize("threshold", ["randomised", "fixed"])
@pytest.mark.parametrize("estimate", ["rstat", "plain"])
def test_four_combinations(threshold: Any, estimate: Any) -> None:
    algorithm = rr.ReplicableRMax(**USUAL, threshold=threshold, estimate=estimate, support=3)
    runs = [rr.solve(GRID, algorithm, shared_seed=1, sample_seed=i) for i in (1, 2)]
    assert loss(GRID, runs[0].policy) <= 0.1
    assert (runs[0].fingerprints.model == runs[1].fingerprints.model) == (estimate == "rstat")
    replicable = threshold == "randomised" and estimate == "rstat"
    assert (runs[0].claims.replicability is not None) == replicable
    assert runs[0].claims.accuracy is not None  # which neither ingredient endangers
    assert (len(set(runs[0].history["threshold"].tolist())) == 1) == (threshold == "fixed")


def test_fixed_and_plain_is_r_max() -> None:
    sizes: dict[str, Any] = {"episodes": 10**6, "known": 0.05}
    plain = rr.solve(GRID, rr.RMax(0.1, 0.001, 60, **sizes), shared_seed=1, sample_seed=1)
    assert solve(GRID, threshold="fixed", estimate="plain", **sizes).fingerprints == plain.fingerprints


# --- corner cases ----------------------------------------------------------------------------------------------------


def test_unreachable_states_stop_by_the_rule() -> None:
    P = np.zeros((3, 2, 3))
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 0] = P[2, :, 2] = 1.0  # nothing leads to state 2
    mdp = rr.TabularMDP.from_dense(P, [[0.1, 0.0], [1.0, 1.0], [0.0, 0.0]], gamma=0.9, initial=[1.0, 0.0, 0.0])
    run = solve(mdp, horizon=20)
    assert code(run) is rr.StatusCode.STOPPED_BY_RULE
    assert run.history["known"][-1] == 4
    assert "4 of 6 pairs known" in str(run.status)
    assert loss(mdp, run.policy) < 1e-9


# --- claims and refusals ---------------------------------------------------------------------------------------------


def test_a_plan_says_what_only_a_run_can_settle_and_a_run_settles_it() -> None:
    before, after = rr.plan(GRID, PROVED).claims(), rr.solve(GRID, PROVED, shared_seed=1, sample_seed=1).claims
    by_the_user = ("no pair has more than 3 successors", FIXED_SEED)  # no run can tell
    assert [claim.conditions for claim in before] == [("every episode has 60 steps", *by_the_user), by_the_user]
    assert [claim.conditions for claim in after] == [by_the_user, by_the_user]
    assert [(claim.statement, claim.kind) for claim in before] == [(claim.statement, claim.kind) for claim in after]
    short = rr.plan(GRID, rr.ReplicableRMax(**USUAL, support=3, rounds=5)).claims().accuracy
    assert short is not None
    assert short.conditions[0] == "the run ends before its budget of rounds does"
    plain = rr.plan(GRID, rr.RMax(0.1, 0.001, 60)).claims()
    assert plain.accuracy is not None
    assert plain.accuracy.conditions == ("every episode has 60 steps", FIXED_SEED)
    assert set(plain.missing) == {"replicability"}


def test_the_loss_is_bounded_only_for_full_episodes_and_runs_that_end() -> None:
    class Cut(Like):
        def play(self, policy: Any, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
            return super().play(policy, episodes, horizon - 1, rng)

    spent = solve(GRID, support=3, rounds=2)
    assert code(spent) is rr.StatusCode.BUDGET_SPENT
    for run, why in ((spent, "budget of rounds"), (solve(Cut(GRID), support=3), "cut short")):
        assert [claim.about for claim in run.claims] == ["replicability"]  # which neither endangers
        assert why in run.claims.missing["accuracy"]


def test_what_is_missing_says_what_it_would_take() -> None:
    few = rr.plan(GRID, rr.ReplicableRMax(**USUAL, episodes=10**9)).claims().missing
    assert [why.startswith("episodes=1e+09 where the proof needs ") for why in few.values()] == [True, True]
    river = rr.make("riverswim-v1")
    short, enough = (rr.plan(river, rr.ReplicableRMax(**USUAL | {"horizon": H})).claims().missing for H in (50, 72))
    assert short["accuracy"].startswith("horizon=50 where the proof needs 72; the bound")
    assert enough == {}


def test_refusals() -> None:
    with pytest.raises(rr.InvalidInput, match="support must be at least 3, got 2"):
        solve(GRID, support=2)
    assert rr.plan(GRID, rr.ReplicableRMax(**USUAL, episodes=10**20)).numbers.episodes == 10**20
    with pytest.raises(InvalidInput, match=r"ReplicableRMax: episodes=1e\+20"):
        solve(GRID, episodes=10**20)
    lake = rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0))
    with pytest.raises(InvalidInput, match=r"^ReplicableRMax: .* budget of 1e\+09"):
        solve(lake)
