"""Rules and algorithms side by side: which is recommended and why, losses in three units, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import replicable_rl as rr
from replicable_rl.audit.agreement import Estimate
from replicable_rl.diagnose import Calibration, Compared, Comparison, Point
from replicable_rl.diagnose.advice import recommended
from replicable_rl.diagnose.search import Verdict
from tests.test_calibrate import Coin

FEW: dict[str, Any] = {"start": 256, "most": 512, "shared_seeds": 200}


@pytest.fixture(scope="module")
def grid() -> Comparison:
    return rr.compare(rr.make("two-goals-v1"), algorithms=["greedy", "affordable", "published"], **FEW)


def test_with_ties_the_default_rule_isrecommended(grid: Comparison) -> None:
    assert grid.recommended == "affordable"
    assert "the plain model does not" in grid.why
    assert grid["greedy"].met is False
    assert grid["affordable"].met is True
    assert grid.met is True
    assert grid["affordable"].theory is not None
    assert grid["published"].calibration is not None
    assert grid["published"].calibration.published


def test_without_ties_the_plain_model_isrecommended() -> None:
    found = rr.compare(rr.make("chain-v1"), algorithms=["greedy", "affordable"], **FEW)
    assert found.recommended == "greedy"
    assert found.why.startswith("Use greedy: the plain model meets all that is asked from")


def test_losses_are_given_in_three_units() -> None:
    found = rr.compare(rr.make("two-goals-v1"), algorithms=["greedy"], epsilon=0.3, start=8, most=8, shared_seeds=64)
    point = found["greedy"].calibration
    assert point is not None
    row = Compared("x", "policy", replace(point, points=(replace(point.points[0], verdict="met"),)))
    assert row.loss == float(point.points[0].loss or 0.0)
    assert row.loss is not None
    assert row.loss > 0.0
    units = rr.theory.Units(0.9, *rr.make("two-goals-v1").reward_range)
    assert row.loss_in_units == pytest.approx(row.loss * units.span)
    assert found.gain is not None
    assert row.loss_share == pytest.approx(row.loss / found.gain)


def test_a_share_of_the_gain_is_an_epsilon() -> None:
    found = rr.compare(rr.make("two-goals-v1"), share=0.2, algorithms=["affordable"], start=128, most=128)
    assert found.gain is not None
    assert found.epsilon == pytest.approx(0.2 * found.gain)
    assert "20 % of the gain over uniform" in found.table().replace("\n", " ")


def test_an_algorithm_of_your_own_and_all_confidences_together() -> None:
    mdp = rr.make("chain-v1", n_states=2)
    found = rr.compare(mdp, epsilon=0.9, algorithms=[Coin(odd=0.0), Coin(odd=1.0)], **FEW)
    assert [row.name for row in found.rows] == ["Coin", "Coin'"]
    assert found["Coin"].replicates == "policy"
    calibration = found["Coin"].calibration
    assert calibration is not None
    assert calibration.confidence == pytest.approx(0.975)


def test_r_max_needs_a_horizon() -> None:
    found = rr.compare(
        rr.make("chain-v1"), algorithms=["rmax", "rpvi", "model"], horizon=10, start=512, most=512, shared_seeds=32
    )
    assert [row.name for row in found.rows] == ["rmax", "rpvi", "model"]
    assert all(row.calibration is not None for row in found.rows)
    worst = rr.compare(rr.make("chain-v1"), over="worst", algorithms=["rpvi"], start=512, most=512, shared_seeds=4)
    assert worst["rpvi"].calibration is not None
    assert worst["rpvi"].calibration.over == "worst"
    with pytest.raises(rr.InvalidInput, match="R-max plays episodes, so it needs their length"):
        rr.compare(rr.make("chain-v1"), algorithms=["rmax"])


# --- which is recommended ---------------------------------------------------------------------------------


def row(template: Calibration, name: str, samples: int, verdict: Verdict = "met") -> Compared:
    point = Point(samples, samples, 100, Estimate(0.9, 0.8, 1.0), None, None, verdict)
    return Compared(name, "policy", replace(template, points=(point,)))


def test_the_recommendation_weighs_simplicity_samples_and_whether_one_may_publish(grid: Comparison) -> None:
    template = grid["affordable"].calibration
    assert template is not None

    def chosen(publish: bool = False, **samples: int) -> tuple[str | None, str]:
        rows = [row(template, name, n) for name, n in samples.items()]
        return recommended(rows, publish, measured_loss=True)

    assert chosen(greedy=150, affordable=100)[0] == "greedy"
    assert chosen(greedy=1000, affordable=100)[0] == "affordable"
    assert chosen(tolerance=90, affordable=100)[0] == "affordable"  # as good as equal
    assert chosen(tolerance=10, affordable=100)[0] == "tolerance"
    name, why = chosen(published=10, affordable=100)
    assert name == "affordable"
    assert why.endswith("Where the first lab may publish cuts, published needs 10.")
    assert chosen(True, published=10, affordable=100)[0] == "published"
    name, why = chosen(published=10)
    assert name is None
    assert "publish=True" in why
    rows = [row(template, "greedy", 10, "not met"), row(template, "affordable", 10, "undecided")]
    name, why = recommended(rows, False, measured_loss=False)
    assert name is None
    assert why.startswith("Nothing here is shown to meet")
    assert why.endswith("Of affordable it could not be told; more shared seeds would tell.")


# --- what people and programs read --------------------------------------------------------------------------


def test_the_table_fits_80_columns(grid: Comparison) -> None:
    table = grid.table()
    assert max(map(len, table.splitlines())) <= 80
    assert str(grid) == table
    assert grid.why.split(":")[0] in table
    assert len(repr(grid)) < 120
    with pytest.raises(rr.InvalidInput, match=r"Comparison: there is no 'rpvi'\. It has: greedy, affordable"):
        grid["rpvi"]


def test_json_and_figure_have_every_line(grid: Comparison, tmp_path: Path) -> None:
    data = json.loads(json.dumps(grid.to_json()))
    assert [one["name"] for one in data["rows"]] == ["greedy", "affordable", "published"]
    assert data["recommended"] == "affordable"
    grid.plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000


def test_the_same_again(grid: Comparison, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"algorithms": ["greedy", "affordable", "published"], **FEW}
    stored = rr.compare(rr.make("two-goals-v1"), store=tmp_path / "runs.sqlite", **asked)
    assert stored == grid
    assert rr.compare(rr.make("two-goals-v1"), store=tmp_path / "runs.sqlite", **asked) == grid


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rho": 1.0}, "compare: rho must"),
        ({"share": 0.1, "epsilon": 0.1}, "compare: epsilon and share both"),
        ({"share": 2}, "compare: share must"),
        ({"algorithms": ["affordabel"]}, "compare: nothing is called 'affordabel'. Did you mean 'affordable'?"),
        ({"algorithms": []}, "compare: algorithms must"),
        ({"algorithms": [7]}, "compare: algorithms must"),
        ({"over": "best"}, "compare: over must"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(rr.InvalidInput) as refusal:
        rr.compare(rr.make("chain-v1"), **asked)
    assert str(refusal.value).startswith(said)


def test_where_losses_are_not_known_epsilon_is_named() -> None:
    """It decides what the rules may spend, and so which of them agree."""

    def step(state: int, action: int, rng: Any) -> tuple[int, float]:
        return int(rng.random() < 0.5), float(action)

    problem = rr.Simulator(step, n_states=2, n_actions=2, gamma=0.5, reward_range=(0.0, 1.0), version="1")
    asked: dict[str, Any] = {"algorithms": ["greedy"], "start": 4, "most": 4, "shared_seeds": 5}
    found = rr.compare(problem, epsilon=0.025, **asked)
    assert "with epsilon=0.025" in " ".join(found.table().split())


def test_a_start_that_no_episode_fits_into_is_refused() -> None:
    lake = rr.EpisodicEnv("FrozenLake-v1", gamma=0.95, reward_range=(0, 1), version="1")
    with pytest.raises(rr.InvalidInput, match="245 steps, got 100"):
        rr.compare(lake, epsilon=1e-4, algorithms=["greedy"], most=2000, shared_seeds=30, start=100)


def test_problems_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(rr.InvalidInput, match="compare: problem must be a TabularMDP or a source, got 'chain-v1'"):
        rr.compare("chain-v1")
    flat = rr.TabularMDP.from_dense([[[1.0], [1.0]]], [[1.0, 1.0]], gamma=0.5)
    with pytest.raises(rr.InvalidInput, match="here no policy gains anything"):
        rr.compare(flat, share=0.1)
