"""How results look: short at a prompt, tables in a notebook, drawings and figures; and numbers as people write them."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import Agreement, AuditResult, AuditSpec, Estimate
from replicable_rl.display import Displayed
from replicable_rl.logs import Dataset, compare_logs
from replicable_rl.plotting import logarithmic, readable
from replicable_rl.problem import Labels, Rows
from replicable_rl.runs import Drawn, ObjectSpec
from replicable_rl.training import EpisodeReturns

HOSTILE = "<script>alert(1)</script>&\x1b[2J $x$"
MDP = rr.make("two-goals-v1")
LONGEST = 600


def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.integers(2)), 0.5


@cache
def log(rows: int = 60) -> Dataset:
    rng = np.random.default_rng(1)
    state, action = rng.integers(4, size=rows), rng.integers(2, size=rows)
    names = np.array([f"{HOSTILE} {s}" for s in range(4)])
    columns = {
        "state": names[state],
        "action": action,
        "reward": rng.random(rows),
        "next_state": names[(state + 1) % 4],
    }
    return rr.from_transitions(columns, gamma=0.5, reward_range=(0.0, 1.0))


def audit_of(runs: int, seeds: int) -> AuditResult:
    """Return an audit of very many runs, without making them: policies of one state, by the sample seed."""
    return rr.audit_callable(lambda shared, sample: [sample % 2], shared_seeds=seeds, runs_per_seed=runs, name=HOSTILE)


def learned_by(shared_seeds: int) -> AuditResult:
    def train(shared_seed: int, sample_seed: int) -> list[int]:
        return [sample_seed % 2] * 3

    given: Any = {"evaluate": lambda policy: 2.5, "uniform": 3.0, "tolerance": 0.5}
    return rr.audit_callable(train, shared_seeds=shared_seeds, **given)


@cache
def things() -> dict[str, Any]:
    """Return one of everything that people hold in their hands, many of them large."""
    big = 200_000
    chain = np.arange(big)
    rows = Rows(np.arange(big + 1), chain.astype(np.int32), np.ones(big), np.zeros(big))
    large = rr.TabularMDP(rows, n_actions=1, gamma=0.9, labels=Labels(states=tuple(map(str, chain))))
    plug_in = rr.PlugInPolicy(0.02, 0.01, 0.2, samples=100)
    cuts = rr.publish(MDP, plug_in, sample_seed=1)
    run = rr.solve(MDP, rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seed=1, sample_seed=2)
    large_run = rr.Run.of({"policy": np.zeros(big, dtype=np.int64)})
    audit = audit_of(4, 250)
    store = rr.RunStore()
    short_audit = rr.audit(MDP, rr.PhasedVI(0.1, 0.01), shared_seeds=3, store=store)
    compared = rr.compare(MDP, algorithms=["greedy", "affordable"], start=64, most=128, shared_seeds=40)
    found = rr.diagnose(log(), resamples=10)
    algorithms: dict[str, Any] = {
        "phased": rr.ReplicablePhasedVI(0.1, 0.001, 0.2),
        "baseline": rr.PhasedVI(0.1, 0.001),
        "model": rr.ReplicableApproximateMDP(0.1, 0.001, 0.2),
        "rmax": rr.ReplicableRMax(0.1, 0.001, 0.2, horizon=10),
        "plug-in": plug_in,
    }
    return {
        **algorithms,
        **{f"plan of {name}": rr.plan(MDP, one) for name, one in algorithms.items()},
        "rstat": rr.theory.rstat(rho=0.25, delta=0.0625, tolerance=0.25),
        "schedule": rr.theory.Schedule.constant(1000, 3, 0.25),
        "problem": MDP,
        "large problem": large,
        "rows": large.rows,
        "labels": large.labels,
        "simulator": rr.Simulator(step, n_states=2, n_actions=2, gamma=0.9, reward_range=(0, 1), name=HOSTILE),
        "environment": rr.EpisodicEnv("FrozenLake-v1", gamma=0.9, reward_range=(0, 1)),
        "run": run,
        "large run": large_run,
        "failed run": rr.Run.failed(None, HOSTILE * 100),
        "run spec": run.spec,
        "family": audit.spec.family,
        "status": run.status,
        "claims": run.claims,
        "claim": run.claims.accuracy,
        "no claims": rr.Claims(missing={"accuracy": HOSTILE * 100}),
        "fingerprints": run.fingerprints,
        "object spec": ObjectSpec("a", {"b": list(range(1000)), "c": HOSTILE * 100}),
        "audit": audit,
        "short audit": short_audit,
        "audit spec": audit.spec,
        "audit spec of many seeds": AuditSpec(ObjectSpec("a"), ObjectSpec("b"), tuple(range(10_000))),
        "agreement": audit.agreement("policy"),
        "estimate": audit.agreement("policy").value,
        "states": audit.states,
        "class": audit.classes()[0],
        "worth": (short_audit.policies or ())[0],
        "store": store,
        "cuts": cuts,
        "rule": rr.rules.PublishedCuts(cuts),
        "comparison": compared,
        "compared": compared.rows[0],
        "calibration": compared.rows[0].calibration,
        "point": (compared.rows[0].calibration or compared).points[0],  # type: ignore[union-attr]
        "data": log(),
        "process": log().process,
        "summary": log().summary(),
        "diagnosis": found,
        "logs": compare_logs([log(), log(80)]),
        "optimum": rr.optimal_values(large),
        "worth of a policy": rr.evaluate_policy(large, np.zeros(big, dtype=np.int64)),
        "bins": rr.Bins(np.linspace(0, 1, 1000).tolist()),
        "shared": rr.SharedRandomness(3),
        "sample": Drawn(3),
        "recorded": log().sample,
        "level": rr.Level("own"),
        "drawing": rr.draw(run),
        "episodes": EpisodeReturns("FrozenLake-v1", env_options={"map_name": "4x4"}),
        "returns": learned_by(1000).returns,
        "accuracy": short_audit.accuracy,
    }


def test_every_result_is_short_at_a_prompt() -> None:
    for name, thing in things().items():
        said = repr(thing)
        assert len(said) <= LONGEST, f"{name}: {len(said)} characters"
        assert " at 0x" not in said, name
        assert "\x1b" not in said, name


def test_notebooks_show_what_print_does() -> None:
    for name, thing in things().items():
        if isinstance(thing, Displayed):
            html = thing._repr_html_()
            assert html.startswith(("<pre", "<div")), name
            assert "<script" not in html, name
            assert "\x1b" not in html, name
    shown = things()["short audit"]._repr_html_()
    assert "Same policy in" in shown


def test_warnings_come_first() -> None:
    result = learned_by(5)
    assert str(result).split("\n")[3].startswith("Warning: Every run takes one action")
    assert repr(result).endswith("; mean return 2.5)")


def test_reprs_say_what_people_want_to_know() -> None:
    known = things()
    assert repr(known["agreement"]).startswith("Agreement(policy: 0.")
    assert "250 shared seeds × 4 runs; same policy 0." in repr(known["audit"])
    assert repr(known["object spec"]).startswith("ObjectSpec('a', {'b': [0, 1, 2, 3, 4, 5, … 1000 in all]")
    assert "accuracy and replicability claimed" in repr(known["plan of phased"])
    assert repr(known["store"]) == "RunStore(in memory)"
    assert repr(known["returns"]) == "Returns(mean 2.5 (2.5 to 2.5), 2000 runs, 2000 episodes; uniform policy 3)"


# --- drawings ----------------------------------------------------------------------------------------


def test_a_drawing_is_a_text_that_shows_itself() -> None:
    drawn = rr.draw([0, 1, 0])
    assert repr(drawn) == str(drawn) == "state  action\n0      0\n1      1\n2      0"
    assert "<pre" in drawn._repr_html_()
    assert "<script" not in rr.draw(np.zeros(4, dtype=int), problem=log())._repr_html_()


def test_drawings_of_two_mark_where_they_differ() -> None:
    assert rr.draw([0, 1], [0, 0]).splitlines() == ["state  action  other", "1      *1      *0", "0      0       0"]
    drawn = rr.draw([0] * 8, [0, 1, *[0] * 6], problem=MDP)
    assert drawn.count("*") == 2
    assert "*↑" in drawn
    assert "*↓" in drawn


def test_a_long_policy_is_cut_and_says_so() -> None:
    assert rr.draw([0] * 1000).splitlines()[-1] == "960 more states are not shown."


def test_the_command_line_draws_the_same() -> None:
    from replicable_rl.cli.show import draw_policy

    drawn = draw_policy(MDP, np.array([3] * 8)).plain
    plain = rr.draw([3] * 8, problem=MDP)
    assert [line.removeprefix("  ") for line in drawn.splitlines()] == plain.splitlines()


@pytest.mark.parametrize(
    ("solution", "words"),
    [
        ("abc", "the solution must be an array of numbers"),
        ([], "one action for every state"),
        ([0.5], "one action for every state"),
        ([-1], "one action for every state"),
        ([[0]], "one action for every state"),
        (None, "draw: "),
        ([0, 0], "Give the problem that was solved"),
        ([9] * 8, "Give the problem that was solved"),
    ],
)
def test_what_cannot_be_drawn_is_refused(solution: Any, words: str) -> None:
    with pytest.raises(rr.InvalidInput, match=re.escape(words)):
        rr.draw(solution, problem=MDP)


def test_a_run_without_a_policy_says_what_it_has() -> None:
    run = rr.solve(MDP, rr.ApproximateMDP(0.1, 0.01, calls=10), shared_seed=1, sample_seed=1)
    assert rr.draw(run.but(outputs={"policy": run.policy})) == rr.draw(run)
    with pytest.raises(rr.InvalidInput, match="Run: there is no policy; this run stands for"):
        rr.draw(run.but(outputs={}))


# --- figures -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def plt() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in [*axes.texts, *axes.get_yticklabels(), *axes.get_xticklabels()]]


def test_policies_are_drawn_with_arrows_and_differences_framed(plt: Any) -> None:
    one = [0] * 8
    left, right = rr.plot.policy(one, [0, 3, *[0] * 6], problem=MDP)
    arrows = [patch for patch in left.patches if type(patch).__name__ == "FancyArrowPatch"]
    assert len(arrows) == 6  # open cells
    assert right.get_title("left") == "second: 1 state differs"
    assert len(left.patches) == len(rr.plot.policy(one, problem=MDP).patches) + 1  # the frame
    figure, mine = plt.subplots()
    assert rr.plot.policy(one, [1] * 8, problem=MDP, ax=mine) is mine
    assert mine.figure is figure


def test_a_large_map_has_small_cells(plt: Any) -> None:
    large = rr.make("gridworld-v1", layout="/".join(["." * 29 + "G"] * 20))
    width, height = rr.plot.policy([0] * large.n_states, problem=large).figure.get_size_inches()
    assert max(width, height) < 10


def test_policies_without_a_map_are_a_strip(plt: Any) -> None:
    chain = rr.make("riverswim-v1")
    run = rr.solve(chain, rr.PhasedVI(0.1, 0.01, calls=50), shared_seed=1, sample_seed=1)
    axes = rr.plot.policy(run)
    assert "right" in texts(axes)
    assert axes.lines[0].get_ydata().tolist() == run.policy.tolist()
    assert axes.images[0].get_array().shape == (2, chain.n_states)
    assert "400 of 200000" in rr.plot.policy(things()["large run"]).get_xlabel()


def test_agreement_is_drawn_with_intervals_and_the_promise(plt: Any) -> None:
    result = things()["short audit"]
    axes = rr.plot.agreement(result)
    assert {"value", "policy"} <= set(texts(axes))
    promised = rr.audit(MDP, rr.PhasedVI(0.1, 0.01), shared_seeds=3, rho=0.25)
    axes = rr.plot.agreement(promised, promised, names=["a", "$b$"])
    assert [line.get_xdata()[0] for line in axes.lines][-1] == 0.75
    assert {"a", r"\$b\$"} <= set(texts(axes))
    found = promised.agreement("policy")
    assert [found.low, found.high] in [list(line.get_xdata()) for line in axes.lines]
    axes.figure.canvas.draw()


def test_a_promise_is_drawn_only_beside_those_who_made_it(plt: Any) -> None:
    one, two = (rr.audit(MDP, rr.PhasedVI(0.1, 0.01), shared_seeds=3, rho=rho) for rho in (0.25, 0.5))
    axes = rr.plot.agreement(one.agreement("policy"), two)  # an agreement by itself was promised nothing
    promised = [line for line in axes.lines if list(line.get_xdata()) == [0.5, 0.5]]
    assert [list(line.get_ydata()) for line in promised] == [[0.7, 1.3]]
    assert texts(rr.plot.agreement(one, two)).count("1 − ρ") == 2  # the green lines say what they are


def test_no_two_lines_of_a_frontier_look_the_same(plt: Any) -> None:
    found = things()["comparison"]
    many = dataclasses.replace(found, rows=found.rows[:1] * 20)
    handles, _ = rr.plot.frontier(many).get_legend_handles_labels()
    assert len({(line.get_color(), line.get_marker()) for line in handles}) == 20


@pytest.mark.parametrize(("low", "high"), [(640, 9000), (2048, 8192), (2432, 2912), (100, 10**6)])
def test_an_axis_of_samples_has_numbers(low: int, high: int, plt: Any) -> None:
    _, axes = plt.subplots()
    axes.plot([low, high], [0, 1])
    logarithmic(axes)
    readable(axes)
    axes.figure.canvas.draw()
    left, right = axes.get_xlim()
    shown = [tick for tick in axes.get_xticks() if left <= tick <= right]
    assert 2 <= len(shown) <= 8


def test_the_curve_of_a_loss_says_what_its_marks_are(plt: Any) -> None:
    axes = rr.plot.curve(things()["calibration"], "loss")
    assert axes.get_title("left")
    assert axes.get_legend() is not None


def test_the_other_figures_are_drawn_on_axes_of_ones_own(plt: Any) -> None:
    known = things()
    for draw, thing in (
        (rr.plot.curve, "calibration"),
        (rr.plot.frontier, "comparison"),
        (rr.plot.fragile_states, "diagnosis"),
        (rr.plot.agreement, "agreement"),
    ):
        _, mine = plt.subplots()
        assert draw(known[thing], ax=mine) is mine
        mine.figure.canvas.draw()  # names with dollars are no formulas
    found = known["diagnosis"]
    axes = rr.plot.fragile_states(found, most=1)
    assert len(axes.patches) == 1
    assert axes.patches[0].get_width() == found.states[0].share
    assert rr.plot.curve(known["calibration"], "loss").get_ylabel().startswith("mean loss")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rr.plot.policy([0], ax=3), "plot.policy: ax must be Matplotlib axes, got 3"),
        (lambda: rr.plot.policy([0], [0, 1]), "both must decide in the same states, got 1 and 2"),
        (lambda: rr.plot.agreement(), "needs one result of an audit or more"),
        (lambda: rr.plot.agreement(3), "a result must be an AuditResult, got 3"),  # type: ignore[arg-type]
        (lambda: rr.plot.agreement(things()["audit"], names=["a", "b"]), "names must be a list of 1 text"),
        (lambda: rr.plot.agreement(things()["audit"], level="value"), "there is no value to compare"),
        (lambda: rr.plot.curve(things()["audit"]), "plot.curve: found must be a Calibration"),
        (lambda: rr.plot.frontier(None), "plot.frontier: found must be a Comparison"),  # type: ignore[arg-type]
        (lambda: rr.plot.fragile_states(things()["diagnosis"], 1.5), "most must be an integer"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_figure_is_refused_in_one_sentence(call: Any, words: str) -> None:
    with pytest.raises(rr.InvalidInput, match=re.escape(words)):
        call()


def test_the_style_of_the_user_stays_his_own(plt: Any) -> None:
    before = dict(plt.rcParams)
    rr.plot.policy([0, 1])
    assert dict(plt.rcParams) == before


# --- numbers -----------------------------------------------------------------------------------------


def test_estimates_and_agreements_are_alike() -> None:
    agreement = things()["agreement"]
    for one in (agreement, agreement.value, agreement.every_look, things()["diagnosis"].agreement):
        assert isinstance(one, (Agreement, Estimate))
        assert type(one.estimate) is float
        assert one.low <= one.estimate <= one.high


def test_a_whole_number_may_be_written_as_a_float() -> None:
    for other in (16.0, np.float32(16.0)):
        assert rr.PhasedVI(0.1, 0.01, calls=other) == rr.PhasedVI(0.1, 0.01, calls=16)  # type: ignore[arg-type]
    with pytest.raises(rr.InvalidInput, match="calls must be an integer"):
        rr.PhasedVI(0.1, 0.01, calls=1.5)  # type: ignore[arg-type]


def test_the_identity_of_1e6_is_that_of_a_million() -> None:
    written: list[tuple[Any, Any]] = [(1e6, 3.0), (10**6, 3)]
    runs = [
        rr.solve(MDP, rr.PhasedVI(0.1, 0.01, calls=calls), shared_seed=seed, sample_seed=seed)
        for calls, seed in written
    ]
    one, two = (run.spec for run in runs)
    assert one is not None
    assert two is not None
    assert one.digest == two.digest
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())
    assert runs[0] == runs[1]


def test_an_audit_is_judged_by_the_rho_that_is_asked_for() -> None:
    algorithm = rr.ReplicablePhasedVI(0.1, 0.001, 0.2)
    promised, asked = rr.audit(MDP, algorithm, shared_seeds=30), rr.audit(MDP, algorithm, shared_seeds=30, rho=0.01)
    assert (promised.rho, asked.rho) == (0.2, 0.01)
    assert "Met: it is at least 1 − ρ = 0.8" in " ".join(str(promised).split())
    assert "Undecided" in str(asked)
    assert asked.meets(0.99) is None  # 30 pairs cannot tell
    assert [run.key for run in promised.runs] == [run.key for run in asked.runs]  # the same runs, another question
    assert rr.audit(MDP, rr.PhasedVI(0.1, 0.01), shared_seeds=2).rho is None
    with pytest.raises(rr.InvalidInput, match="rho must lie strictly between 0 and 1, got 1"):
        rr.audit(MDP, algorithm, rho=1)
