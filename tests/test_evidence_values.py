"""Wrong values are refused in one sentence, planning ends, and no text of a stranger commands anything."""

from __future__ import annotations

import csv
import json
import math
import unicodedata
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl import errors
from replicable_rl.cli.main import main
from replicable_rl.cli.output import print_json
from replicable_rl.files import write_csv
from replicable_rl.pages.blocks import Code, DataTable
from replicable_rl.pages.page import Page, Section, write
from replicable_rl.planning import _sweeps
from replicable_rl.problem import Labels

MDP = rr.TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]], [[(1.0, 0, 0.25)]]], gamma=0.5)
P, R = np.array([[[0.5, 0.5]], [[1.0, 0.0]]]), np.array([[0.5], [0.25]])

# --- one number, one run -----------------------------------------------------------------------


def test_a_number_of_numpy_is_the_float_that_it_equals() -> None:
    one = rr.ReplicablePhasedVI(np.float32(0.25), np.float64(0.0625), np.float16(0.3125))  # type: ignore[arg-type]
    two = rr.ReplicablePhasedVI(0.25, 0.0625, 0.3125)
    assert one == two
    assert {type(one.epsilon), type(one.delta), type(one.rho)} == {float}
    runs = [rr.solve(MDP, each, shared_seed=1, sample_seed=2) for each in (one, two)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("value", [Decimal("0.25"), "0.25", True, math.nan, 0.25j, [0.25], 10**400])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="PhasedVI: epsilon must lie strictly between 0 and 1, got"):
        rr.PhasedVI(value, 0.0625)


@pytest.mark.parametrize(
    "rewards",
    [
        np.array([["2020-01-01"], ["2020-01-02"]], dtype="datetime64[D]"),
        [["0.5"], ["0.25"]],
        [[0.5j], [0.25]],
        [[None], [0.25]],
        np.ma.array(R, mask=R > 0.3),
    ],
    ids=["dates", "texts", "complex", "nothing", "masked"],
)
def test_what_is_no_number_is_no_reward(rewards: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^TabularMDP: R must be an array of numbers, got "):
        rr.TabularMDP.from_dense(P, rewards, gamma=0.5)


# --- planning ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("power", [4, 5, 9, 12])
def test_planning_ends_where_gamma_is_very_near_one(power: int) -> None:
    """Two states that swap: values by hand, in rational numbers."""
    mdp = rr.TabularMDP.from_outcomes([[[(1.0, 1, 0.0)]], [[(1.0, 0, 1.0)]]], gamma=1.0 - 10.0**-power)
    gamma = Fraction(mdp.gamma)
    exact = [gamma / (1 - gamma**2), 1 / (1 - gamma**2)]
    best, value = rr.optimal_values(mdp), rr.evaluate_policy(mdp, [0, 0])
    for found, error in ((best.value, best.error), (value.value, value.error)):
        assert max(abs(Fraction(float(one)) - two) for one, two in zip(found, exact, strict=True)) <= Fraction(error)
        assert error <= 1e-14 / (1.0 - mdp.gamma) ** 2 or power > 5
    assert best.sweeps <= 20_000_000


def test_planning_ends_with_what_it_can_certify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sweeps, "_ROUNDS", 3)
    mdp = rr.TabularMDP.from_outcomes([[[(1.0, 1, 0.0)]], [[(1.0, 0, 1.0)]]], gamma=1.0 - 1e-6)
    best = rr.optimal_values(mdp)
    assert not best.converged
    assert best.sweeps <= 4 * 1001
    assert abs(best.value[0] - 499999.75) <= best.error


# --- a stranger's text -------------------------------------------------------------------------

COMMANDS = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_no_text_commands_the_terminal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    labels = Labels(states=(COMMANDS, "b"), actions=(f"go{COMMANDS}",))
    mdp = rr.TabularMDP.from_dense(P, R, gamma=0.5, labels=labels)
    path = tmp_path / f"a{COMMANDS}.npz"
    rr.save(mdp, path)
    promise = ["phased-vi-v1", "--epsilon", "0.25", "--delta", "0.01", "--calls", "5", "--iterations", "2"]
    seeds = ["--shared-seed", "1", "--sample-seed", "2"]
    assert main(["solve", str(path), *promise, *seeds]) == 0
    for wrong_call in (
        ["solve", f"{path}x", *promise, *seeds],
        ["solve", COMMANDS, *promise, *seeds],
        ["solve", "chain-v1", COMMANDS, *seeds],
        [COMMANDS],
        ["list", COMMANDS],
        ["--plugin", COMMANDS, "list"],
        ["report", f"{path}.sqlite"],
    ):
        assert main(wrong_call) == 2, wrong_call
    said = "".join(capfd.readouterr())
    assert "\\x1b" in said  # shown
    assert not [letter for letter in said if not letter.isprintable() and letter != "\n"]


def test_json_on_the_terminal_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = {f"{COMMANDS}\x7f\r": ["\x7f\u2028", 1]}
    print_json(data)
    said = capsys.readouterr().out
    assert json.loads(said) == data
    assert said.removesuffix("\n").isprintable()


def test_a_page_holds_no_commands_and_can_be_written(tmp_path: Path) -> None:
    text = f"{COMMANDS}\ud800<b>"
    page = Page(text, [Code(text)], [Section("a", text, [DataTable(["a"], [[text]], text)])])
    write(page, tmp_path / "a.html")
    html = (tmp_path / "a.html").read_text()
    assert "\\x1b" in html
    assert not [
        letter for letter in html if unicodedata.category(letter) in ("Cc", "Cf", "Cs") and letter not in "\n\t"
    ]


def test_a_text_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    texts = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "a=1", "-0.5", "-inf", "1e5", "\x1b"]
    write_csv(path, [{"=name": text, "number": -0.5} for text in texts] + [{"number": 3}])
    with path.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["'=name", "number"]
    assert [row[0] for row in rows] == [*(f"'{text}" for text in texts[:5]), *texts[5:-1], "\\x1b", ""]
    assert {row[1] for row in rows} == {"-0.5", "3"}


def test_a_file_that_is_no_archive_gets_a_sentence_of_our_own(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for content in (b"", b"text", b"\x80\x04K\x01.", b"PK\x03\x04 and more", b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        with pytest.raises(rr.InvalidInput) as caught:
            rr.load(path)
        assert "pickle" not in str(caught.value)
        assert "is no file of this library" in str(caught.value)


def test_refusals_are_short_and_printable() -> None:
    for text in ("x" * 10**6, COMMANDS * 10**4):
        for call in (lambda t: rr.make(t), lambda t: rr.PhasedVI(t, 0.1), lambda t: rr.load(t), errors.InvalidFile):
            try:
                refusal: Any = call(text)
            except rr.InvalidInput as error:
                refusal = error
            assert len(str(refusal)) <= 1000
            assert str(refusal).isprintable()
    with pytest.raises(
        rr.InvalidInput, match=r"^PhasedVI: epsilon must .*, got 'x{39}\.\.\. \(1000002 characters\)\.$"
    ):
        rr.PhasedVI("x" * 10**6, 0.1)  # type: ignore[arg-type]  # the refusal is the point
