"""Policies as text, and figures: what is drawn, on which axes, and one sentence for what cannot be drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult
from replicable_rl.diagnose import Calibration, Diagnosis, calibrate
from replicable_rl.logs import Dataset
from tests.test_display import log

GRID = rr.make("two-goals-v1")
CHAIN = rr.make("chain-v1")


@cache
def audited(rho: float) -> AuditResult:
    return rr.audit(GRID, rr.PhasedVI(0.1, 0.01), shared_seeds=3, rho=rho)


@cache
def calibrated() -> Calibration:
    return calibrate(GRID, rr.PlugInPolicy(0.05, 0.01, 0.2), start=100, shared_seeds=100)


@cache
def diagnosed() -> Diagnosis:
    return rr.diagnose(log(), rr.PlugInPolicy(0.05, 0.05, 0.2, rule="greedy"), resamples=20)


# --- policies as text --------------------------------------------------------------------------------


def test_a_drawing_is_a_text_that_shows_itself() -> None:
    drawing = rr.draw([0, 1, 0])
    assert [line.split() for line in repr(drawing).splitlines()] == [
        ["state", "action"],
        ["0", "0"],
        ["1", "1"],
        ["2", "0"],
    ]
    assert "<pre" in drawing._repr_html_()
    hostile: Dataset = log()
    assert "<script" not in rr.draw(np.zeros(4, dtype=int), problem=hostile)._repr_html_()


def test_drawings_of_two_mark_where_they_differ() -> None:
    drawing = rr.draw([0] * 8, [0, 1, *[0] * 6], problem=GRID)
    assert ["*" in line for line in drawing.splitlines()] == [False, True, *[False] * 5]
    assert "*↑" in drawing
    assert "*↓" in drawing
    run = rr.solve(GRID, rr.ApproximateMDP(0.1, 0.01, calls=10), shared_seed=1, sample_seed=1)
    assert rr.draw(run) == rr.draw(run.policy, problem=GRID), "the problem of a run is made again by its id"


@pytest.mark.parametrize(
    ("solution", "words"),
    [
        ("abc", "the solution must be an array of numbers"),
        ([], "one action for every state"),
        ([0.5], "one action for every state"),
        ([[0]], "one action for every state"),
        ([0, 0], "Give the problem that was solved"),
        ([9] * 8, "Give the problem that was solved"),
    ],
)
def test_what_cannot_be_drawn_is_refused(solution: Any, words: str) -> None:
    with pytest.raises(rr.InvalidInput, match=words):
        rr.draw(solution, problem=GRID)


# --- figures -----------------------------------------------------------------------------------------


@pytest.fixture
def plt() -> Iterator[Any]:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    yield pyplot
    pyplot.close("all")


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in [*axes.texts, *axes.get_yticklabels(), *axes.get_xticklabels()]]


def test_policies_are_drawn_with_arrows_and_differences_framed(plt: Any) -> None:
    before = dict(plt.rcParams)
    left, right = rr.plot.policy([0] * 8, [0, 3, *[0] * 6], problem=GRID)
    arrows = [patch for patch in left.patches if type(patch).__name__ == "FancyArrowPatch"]
    assert len(arrows) == 6  # open cells
    assert right.get_title("left") == "second: 1 state differs"
    assert len(left.patches) == len(rr.plot.policy([0] * 8, problem=GRID).patches) + 1  # the frame
    assert dict(plt.rcParams) == before
    large = rr.make("gridworld-v1", layout="/".join(["." * 29 + "G"] * 20))
    assert max(rr.plot.policy([0] * large.n_states, problem=large).figure.get_size_inches()) < 10


def test_agreement_is_drawn_with_intervals_and_the_promise(plt: Any) -> None:
    result, value = audited(0.25), audited(0.25).agreement("policy")
    assert {"value", "policy"} <= set(texts(rr.plot.agreement(result)))
    axes = rr.plot.agreement(result, result, names=["a", "$b$"])
    assert {"a", r"\$b\$"} <= set(texts(axes))
    assert [line.get_xdata()[0] for line in axes.lines][-1] == 0.75
    assert [value.low, value.high] in [list(line.get_xdata()) for line in axes.lines]


def test_the_other_figures_are_drawn_on_axes_of_the_caller(plt: Any) -> None:
    figures: list[tuple[Any, Any]] = [
        (rr.plot.curve, calibrated()),
        (rr.plot.fragile_states, diagnosed()),
        (rr.plot.agreement, audited(0.25)),
    ]
    for draw, thing in figures:
        _, axes = plt.subplots()
        assert draw(thing, ax=axes) is axes
        axes.figure.canvas.draw()  # names with dollars are no formulas
    states = diagnosed().states
    assert rr.plot.fragile_states(diagnosed(), limit=1).patches[0].get_width() == states[0].share


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rr.plot.policy([0]), "the problem must have a map"),
        (lambda: rr.plot.agreement(audited(0.5), ax=3), "ax must be Matplotlib axes, got 3"),
        (lambda: rr.plot.policy([0], [0, 1]), "both must decide in the same states, got 1 and 2"),
        (lambda: rr.plot.agreement(3), "a result must be of the class AuditResult, got 3"),  # type: ignore[arg-type]
        (lambda: rr.plot.agreement(audited(0.5), names=["a"]), "names must be a list of 2 texts"),
        (lambda: rr.plot.agreement(audited(0.5), level="model"), "there is no model to compare"),
        (lambda: rr.plot.curve(audited(0.5)), "calibration must be of the class Calibration"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_figure_is_refused_in_one_sentence(call: Any, words: str) -> None:
    with pytest.raises(rr.InvalidInput, match=re.escape(words)):
        call()
