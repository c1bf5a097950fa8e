"""R-max and RepRMAX: optimal policies, identical models, statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.errors import SampleSizeTooLarge
from replicable_rl.problem import gridworld
from replicable_rl.runs import FIXED_SEED
from replicable_rl.runs.specs import algorithm_spec
from replicable_rl.sampling import EpisodeCounts
from tests.statistics import SEED, Like

PROBLEMS: dict[str, tuple[Callable[[], rr.TabularMDP], rr.ReplicableRMax]] = {
    # epsilon is in normalised units; FrozenLake pays 1 once, so its values end at 1 - gamma.
    "two-goals-wide": (
        lambda: rr.make("two-goals-wide-v1"),
        rr.ReplicableRMax(epsilon=0.05, delta=0.001, rho=0.2, horizon=60),
    ),
    "riverswim-20": (
        lambda: rr.make("riverswim-v1", n_states=20),
        rr.ReplicableRMax(epsilon=0.01, delta=0.001, rho=0.2, horizon=150),
    ),
    "frozen-lake-8x8": (
        lambda: rr.from_gymnasium("FrozenLake-v1", map_name="8x8", gamma=0.95),
        rr.ReplicableRMax(epsilon=0.001, delta=0.001, rho=0.2, horizon=100),
    ),
}


def loss(mdp: rr.TabularMDP, policy: np.ndarray) -> float:
    """Normalised loss of a policy from the initial distribution."""
    best = rr.optimal_values(mdp).policy
    span = rr.theory.Units(mdp.gamma, *mdp.reward_range).span
    gap = rr.evaluate_policy(mdp, best).expected_return - rr.evaluate_policy(mdp, policy).expected_return
    return gap / span


def code(run: rr.Run) -> rr.StatusCode:
    assert run.status is not None
    return run.status.code


def baseline(algorithm: rr.ReplicableRMax, **changes: Any) -> rr.RMax:
    return rr.RMax(algorithm.epsilon, algorithm.delta, algorithm.horizon, **changes)


# --- the must-shows ------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_default_plan_finds_a_good_policy_and_one_model(name: str) -> None:
    """20 sample seeds under one shared seed; every bound on disagreement is far below 1e-6 by the normal law."""
    make, algorithm = PROBLEMS[name]
    mdp = make()
    runs = [rr.solve(mdp, algorithm, shared_seed=7, sample_seed=SEED + i) for i in range(20)]
    assert len({run.fingerprints.model for run in runs}) == 1
    assert len({run.fingerprints.policy for run in runs}) == 1
    assert loss(mdp, runs[0].policy) <= algorithm.epsilon
    assert code(runs[0]) in (rr.StatusCode.STOPPED_BY_RULE, rr.StatusCode.ALL_KNOWN)
    plain = [rr.solve(mdp, baseline(algorithm), shared_seed=7, sample_seed=SEED + i) for i in range(5)]
    assert len({run.fingerprints.model for run in plain}) == 5
    assert loss(mdp, plain[0].policy) <= algorithm.epsilon


@pytest.mark.parametrize("name", PROBLEMS)
def test_default_plan_replicates_over_40_shared_seeds(name: str) -> None:
    make, algorithm = PROBLEMS[name]
    mdp = make()
    same = 0
    for seed in range(40):
        one, two = (rr.solve(mdp, algorithm, shared_seed=seed, sample_seed=SEED + 2 * seed + i) for i in (0, 1))
        same += one.fingerprints.model == two.fingerprints.model
        if seed < 5:
            assert loss(mdp, one.policy) <= algorithm.epsilon
        if seed < 10:  # and R-max's models never are, at the default m and at 1e9
            for m in (None, 10**9):
                plain = [
                    rr.solve(mdp, baseline(algorithm, episodes=m), shared_seed=seed, sample_seed=SEED + 2 * seed + i)
                    for i in (0, 1)
                ]
                assert plain[0].fingerprints.model != plain[1].fingerprints.model
    assert same >= 32  # 1 - rho; measured 100 of 100 on all three


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_thousand_million_episodes(name: str) -> None:
    """Runs, and finds a good policy; the model need not replicate at this size, and for R-max it never does."""
    make, algorithm = PROBLEMS[name]
    mdp = make()
    few = rr.ReplicableRMax(algorithm.epsilon, 0.001, 0.2, algorithm.horizon, episodes=10**9)
    assert loss(mdp, rr.solve(mdp, few, shared_seed=1, sample_seed=1).policy) <= algorithm.epsilon


def test_small_m_disagrees_so_the_tests_above_have_power() -> None:
    mdp = rr.make("two-goals-wide-v1")
    few = rr.ReplicableRMax(0.05, 0.001, 0.2, 60, episodes=10**6)
    runs = {rr.solve(mdp, few, shared_seed=1, sample_seed=SEED + i).fingerprints.model for i in range(6)}
    assert len(runs) > 1


def test_replicability_is_proved_where_the_plan_says_so() -> None:
    mdp = rr.make("two-goals-v1")
    algorithm = rr.ReplicableRMax(0.1, 0.001, 0.2, 60, support=3)
    one, two = (rr.solve(mdp, algorithm, shared_seed=3, sample_seed=i) for i in (1, 2))
    accuracy, replicability = one.claims
    assert (accuracy.kind, accuracy.bound, accuracy.failure, accuracy.level) == ("proved", 0.1, 0.001, "policy")
    assert (replicability.kind, replicability.bound, replicability.level) == ("proved", 0.2, "model")
    assert one.fingerprints == two.fingerprints
    assert loss(mdp, one.policy) <= 0.1


def test_stepping_and_count_propagation_land_on_the_same_policy() -> None:
    """No table behind the environment: the same shared seed, the same policy, at a size that can be stepped.

    At this size 59 of 60 runs on the table have one policy, so a rotating seed would raise false alarms far more
    often than ALPHA: the seeds here are fixed.
    """
    sizes: dict[str, Any] = {"episodes": 2000, "rounds": 20}
    algorithm = rr.ReplicableRMax(0.01, 0.001, 0.2, 30, known=2.0, window=2.0, tolerance=0.2, **sizes)
    options: dict[str, Any] = {"map_name": "4x4", "is_slippery": True}
    table = rr.from_gymnasium("FrozenLake-v1", gamma=0.9, **options)
    stepped = rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0), budget=10**11, **options)
    runs = [rr.solve(table, algorithm, shared_seed=11, sample_seed=i).policy.tolist() for i in range(10)]
    assert all(policy == runs[0] for policy in runs)
    assert rr.solve(stepped, algorithm, shared_seed=11, sample_seed=1).policy.tolist() == runs[0]


# --- addresses -------------------------------------------------------------------------------------


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


# --- the loop against a slow reference ---------------------------------------------------------------


def reference_rmax(
    mdp: rr.TabularMDP, algorithm: rr.ReplicableRMax, shared_seed: int, sample_seed: int
) -> tuple[list[int], list[int], str]:
    """RepUpdateK and the stopping rule by the letter: (known pairs by round, policy, how it ended)."""
    from replicable_rl.randomness import sample_stream

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


SMALL = rr.ReplicableRMax(0.3, 0.001, 0.2, 12, episodes=3000, known=0.4, window=0.6, tolerance=0.2, rounds=40)


def test_the_loop_is_the_listing() -> None:
    for problem in ("two-goals-v1", "riverswim-v1", "machine-repair-v1"):
        mdp = rr.make(problem)
        for seed in range(4):
            run = rr.solve(mdp, SMALL, shared_seed=seed, sample_seed=50 + seed)
            known, policy, _ = reference_rmax(mdp, SMALL, seed, 50 + seed)
            assert run.history["known"].tolist()[: len(known)] == known
            assert run.policy.tolist() == policy


# --- statuses and corner cases -------------------------------------------------------------------------


def solve(mdp: rr.TabularMDP, **options: Any) -> rr.Run:
    parameters: dict[str, Any] = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "horizon": 20, **options}
    return rr.solve(mdp, rr.ReplicableRMax(**parameters), shared_seed=1, sample_seed=1)


def test_unreachable_states_stop_by_the_rule() -> None:
    P = np.zeros((3, 2, 3))
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 0] = P[2, :, 2] = 1.0  # nothing leads to state 2
    mdp = rr.TabularMDP.from_dense(P, [[0.1, 0.0], [1.0, 1.0], [0.0, 0.0]], gamma=0.9, initial=[1.0, 0.0, 0.0])
    run = solve(mdp)
    assert code(run) is rr.StatusCode.STOPPED_BY_RULE
    assert run.history["known"][-1] == 4
    assert "4 of 6 pairs known" in str(run.status)
    assert loss(mdp, run.policy) < 1e-9


def test_horizon_one_sees_first_states_only() -> None:
    mdp = rr.make("riverswim-v1")
    run = solve(mdp, horizon=1)
    assert code(run) is rr.StatusCode.STOPPED_BY_RULE
    assert run.history["known"][-1] == 2  # both actions of the first state
    assert run.samples == len(run.history["known"]) * rr.ReplicableRMax(0.1, 0.001, 0.2, 1).plan(mdp).numbers.episodes


def test_one_state_one_action() -> None:
    mdp = rr.TabularMDP.from_dense(np.ones((1, 1, 1)), np.ones((1, 1)), gamma=0.9)
    run = solve(mdp)
    assert str(run.status) == "every pair known: all 1 pairs after 1 rounds"
    assert run.policy.tolist() == [0]


def test_deterministic_transitions_are_learned_exactly() -> None:
    mdp = gridworld("S..G", slip=0.0)
    run = solve(mdp, horizon=60)
    assert run.model is not None
    known = np.flatnonzero(run.model.rows.reward == mdp.rows.reward)
    for row in known:
        assert run.model.rows.next_state[run.model.rows.of_row(int(row))].size == 1
    assert loss(mdp, run.policy) < 1e-9


def test_stochastic_rewards_are_rounded_on_a_shared_grid() -> None:
    mdp = rr.make("chain-v1")
    runs = [
        rr.solve(mdp, rr.ReplicableRMax(0.05, 0.001, 0.2, 60), shared_seed=2, sample_seed=SEED + i) for i in range(10)
    ]
    assert len({run.fingerprints.model for run in runs}) == 1
    assert runs[0].model is not None
    learned = runs[0].model.known_rewards
    assert learned is not None
    expected = np.array([[0.8 * (s == 4) + 0.2 * 0.2, 0.2 * (s == 4) + 0.8 * 0.2] for s in range(5)])
    assert np.abs(learned - expected).max() <= 0.01
    assert len({float(x) for x in learned.reshape(-1)}) > 2
    assert runs[0].policy.tolist() == rr.optimal_values(mdp).policy.tolist()


def test_budget_spent() -> None:
    run = solve(rr.make("two-goals-v1"), horizon=60, support=3, rounds=2)
    assert code(run) is rr.StatusCode.BUDGET_SPENT
    assert [claim.about for claim in run.claims] == ["replicability"]  # which two rounds do not endanger
    assert run.claims.missing == {"accuracy": "the run spent its budget of rounds"}


def test_rows_rounded_to_nothing_are_reported() -> None:
    mdp = rr.make("garnet-v1", n_states=30, n_actions=1, branching=20)
    run = solve(mdp, tolerance=0.9, horizon=100)
    assert "rounded to nothing and became self-loops" in str(run.status)


def test_r_max() -> None:
    mdp = rr.make("riverswim-v1")
    run = solve(mdp, r_max=5.0, rounds=1)
    assert run.model is not None
    assert run.model.reward_range[1] == 5.0
    assert (run.model.rows.reward == 5.0).any()
    low = solve(rr.make("two-goals-v1"), horizon=60, support=3, r_max=0.5)
    assert low.claims.missing == {"accuracy": "r_max=0.5 is not the top of the reward range, 1"}


FULL = rr.ReplicableRMax(0.1, 0.001, 0.2, 60)
TO_SETTLE = ("every episode has 60 steps", "r_max is the top of the reward range")


def test_a_plan_says_what_only_a_run_can_settle_and_a_run_settles_it() -> None:
    mdp = rr.make("two-goals-v1")
    enough = rr.ReplicableRMax(0.1, 0.001, 0.2, 60, support=3)
    before, after = rr.plan(mdp, enough).claims(), rr.solve(mdp, enough, shared_seed=1, sample_seed=1).claims
    promised = "no pair has more than 3 successors"  # by the user: no run can tell
    by_the_user = (promised, FIXED_SEED)
    assert [claim.conditions for claim in before] == [(*TO_SETTLE, *by_the_user), by_the_user]
    assert [claim.conditions for claim in after] == [by_the_user, by_the_user]
    assert [claim.statement for claim in before] == [claim.statement for claim in after]
    assert [claim.kind for claim in before] == [claim.kind for claim in after] == ["proved", "proved"]
    short = rr.plan(mdp, rr.ReplicableRMax(0.1, 0.001, 0.2, 60, support=3, rounds=5)).claims().accuracy
    assert short is not None
    assert short.conditions[0] == "the run ends before its budget of rounds does"
    plain = rr.plan(mdp, rr.RMax(0.1, 0.001, 60)).claims()
    assert plain.accuracy is not None
    assert plain.accuracy.conditions == (*TO_SETTLE, FIXED_SEED)
    assert plain.missing == {"replicability": "this algorithm promises nothing about a second run"}


def test_the_loss_is_bounded_only_for_full_episodes_and_the_right_r_max() -> None:
    mdp = rr.make("two-goals-v1")
    high = solve(mdp, horizon=60, support=3, r_max=2.0).claims
    assert high.missing == {"accuracy": "r_max=2 is not the top of the reward range, 1"}
    assert high.replicability is not None

    class Cut(Like):
        def play(self, policy: Any, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
            return super().play(policy, episodes, horizon - 1, rng)

    algorithm = rr.ReplicableRMax(0.1, 0.001, 0.2, 60, support=3)
    run = rr.solve(Cut(mdp), algorithm, shared_seed=1, sample_seed=1)
    assert run.claims.missing == {"accuracy": "some episodes were cut short"}
    assert "some episodes were cut short" in str(run.status)


def test_a_false_promise_of_support_is_refused() -> None:
    with pytest.raises(rr.InvalidInput, match="support must be at least 3, got 2"):
        solve(rr.make("two-goals-v1"), support=2)


def test_history_is_immutable() -> None:
    run = solve(rr.make("chain-v1"))
    with pytest.raises(ValueError, match="read-only"):
        run.history["known"][0] = 99.0
    with pytest.raises(TypeError):
        run.history["known"] = np.zeros(1)  # type: ignore[index]


def test_what_is_missing_says_what_it_would_take() -> None:
    def missing(name: str, **given: Any) -> dict[str, str]:
        return dict(rr.plan(rr.make(name), rr.ReplicableRMax(0.1, 0.001, 0.2, **given)).claims().missing)

    few = missing("two-goals-v1", horizon=60, episodes=10**9)
    assert len(few) == 2
    assert all(why.startswith("episodes=1e+09 where the proof needs ") for why in few.values())
    assert missing("riverswim-v1", horizon=50)["accuracy"].startswith("horizon=50 where the proof needs 72; the bound")
    assert missing("riverswim-v1", horizon=72) == {}


def test_history_tells_the_story() -> None:
    mdp = rr.make("two-goals-v1")
    algorithm = rr.ReplicableRMax(0.1, 0.001, 0.2, 60)
    plan = algorithm.plan(mdp).numbers
    run = rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1)
    known, threshold = run.history["known"], run.history["threshold"]
    assert (np.diff(known) >= 0).all()
    assert ((threshold >= plan.known) & (threshold <= plan.known + plan.window)).all()
    assert len(set(threshold.tolist())) == threshold.size  # a fresh one every round
    assert len(set(run.history["stop_below"].tolist())) == 1  # and one theta for all
    assert run.samples == plan.episodes * plan.horizon * known.size
    assert run.history["samples"][-1] == pytest.approx(run.samples)


@pytest.mark.parametrize("threshold", ["randomised", "fixed"])
@pytest.mark.parametrize("estimate", ["rstat", "plain"])
def test_four_combinations(threshold: Any, estimate: Any) -> None:
    mdp = rr.make("two-goals-v1")
    algorithm = rr.ReplicableRMax(0.1, 0.001, 0.2, 60, threshold=threshold, estimate=estimate, support=3)
    runs = [rr.solve(mdp, algorithm, shared_seed=1, sample_seed=i) for i in (1, 2)]
    assert loss(mdp, runs[0].policy) <= 0.1
    assert (runs[0].fingerprints.model == runs[1].fingerprints.model) == (estimate == "rstat")
    replicable = threshold == "randomised" and estimate == "rstat"
    assert (runs[0].claims.replicability is not None) == algorithm.plan(mdp).numbers.replicability_proved == replicable
    assert runs[0].claims.accuracy is not None  # which neither ingredient endangers
    if not replicable:
        why = runs[0].claims.missing["replicability"]
        assert ("threshold=fixed where the proof needs randomised" in why) == (threshold == "fixed")
        assert ("estimate=plain where the proof needs rstat" in why) == (estimate == "plain")
    fixed = len(set(runs[0].history["threshold"].tolist())) == 1
    assert fixed == (threshold == "fixed")


def test_ingredients_are_known_by_their_ids() -> None:
    ablated = rr.ReplicableRMax(0.1, 0.001, 0.2, 60, threshold="fixed", estimate="plain")
    assert algorithm_spec(ablated).params == {**algorithm_spec(FULL).params, "threshold": "fixed", "estimate": "plain"}
    assert "threshold" not in algorithm_spec(FULL).params


def test_fixed_and_plain_is_r_max() -> None:
    mdp = rr.make("two-goals-v1")
    ablated = rr.ReplicableRMax(0.1, 0.001, 0.2, 60, episodes=10**6, known=0.05, threshold="fixed", estimate="plain")
    plain = rr.RMax(0.1, 0.001, 60, episodes=10**6, known=0.05)
    one, two = (rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1) for algorithm in (ablated, plain))
    assert one.fingerprints == two.fingerprints


def test_too_many_episodes_are_planned_but_not_run() -> None:
    mdp = rr.make("two-goals-v1")
    algorithm = rr.ReplicableRMax(0.1, 0.001, 0.2, 60, episodes=10**20)
    assert algorithm.plan(mdp).numbers.episodes == 10**20
    with pytest.raises(SampleSizeTooLarge, match=r"ReplicableRMax: episodes=1e\+20 is asked for"):
        rr.solve(mdp, algorithm, shared_seed=1, sample_seed=1)


def test_an_environment_that_is_stepped_needs_a_small_m() -> None:
    lake = rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 1.0))
    with pytest.raises(SampleSizeTooLarge, match=r"^ReplicableRMax: .* more than its budget of 1e\+09\."):
        rr.solve(lake, rr.ReplicableRMax(0.1, 0.001, 0.2, 60), shared_seed=1, sample_seed=1)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"threshold": "random"}, "threshold"),
    ({"threshold": None}, "threshold"),
    ({"estimate": "mean"}, "estimate"),
]


@pytest.mark.parametrize(("change", "name"), BAD)
def test_bad_parameters(change: dict[str, Any], name: str) -> None:
    """`test_parameters` has those that no other depends on."""
    parameters: dict[str, Any] = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "horizon": 20, **change}
    with pytest.raises(rr.InvalidInput, match=rf"^ReplicableRMax: .*{name}"):
        rr.ReplicableRMax(**parameters)


def test_theta_is_random_and_shared() -> None:
    """theta is uniform between eps/4 and eps/2, the same in every round, another for every shared seed."""
    mdp = rr.make("chain-v1")
    thetas = [
        rr.solve(mdp, rr.ReplicableRMax(0.1, 0.001, 0.2, 5), shared_seed=j, sample_seed=1).history["stop_below"][0]
        for j in range(30)
    ]
    assert len(set(thetas)) == 30
    assert min(thetas) >= 0.025
    assert max(thetas) <= 0.05
    assert max(thetas) - min(thetas) > 0.015  # fails for uniform thetas with probability < 30 * 0.6**29


def test_episodes_are_fresh_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[bytes] = []
    original = rr.TabularMDP.play

    def spy(self: rr.TabularMDP, *arguments: Any) -> EpisodeCounts:
        seen = original(self, *arguments)
        played.append(seen.count.tobytes())
        return seen

    monkeypatch.setattr(rr.TabularMDP, "play", spy)
    run = rr.solve(rr.make("riverswim-v1"), SMALL, shared_seed=1, sample_seed=1)
    assert len(set(played)) == len(played) == run.history["known"].size


def test_history_tells_known_sets_apart() -> None:
    run = rr.solve(rr.make("two-goals-v1"), rr.ReplicableRMax(0.1, 0.001, 0.2, 20), shared_seed=1, sample_seed=1)
    known, sets = run.history["known"], run.history["known_set"]
    assert len(known) == len(sets)
    assert all((a == b) == (p == q) for a, b, p, q in zip(known, known[1:], sets, sets[1:], strict=False))
    assert known[0] > 0  # the pairs that became known in a round are in its line
    assert (sets < 2**48).all()
    assert (sets == np.floor(sets)).all()
