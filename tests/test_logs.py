"""Logs become counts: names, ends, episodes, bins, several logs, and what is refused, alike in every kind of source."""

from __future__ import annotations

import datetime
import json
import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import replicable_rl as rr
from replicable_rl.logs import counting, from_transitions
from replicable_rl.logs.dataset import END

pytestmark = pytest.mark.usefixtures("one_database")

NAN = float("nan")
Log = dict[str, Any]
LOG: Log = {
    "state": ["home", "home", "road", "road", "home", "road"],
    "action": ["go", "wait", "go", "go", "go", "wait"],
    "reward": [0.0, 0.5, 1.0, 0.0, 0.0, 0.25],
    "next_state": ["road", "home", "home", "road", "road", "road"],
}
TWO: Log = {"state": ["a", "b"], "action": ["x", "y"], "reward": [1.0, 0.0], "next_state": ["b", "a"]}


def text_of(log: Log) -> str:
    rows = [list(log), *zip(*log.values(), strict=True)]
    return "".join(",".join("" if one is None else str(one) for one in row) + "\n" for row in rows)


def refused(source: Any, **options: Any) -> str:
    with pytest.raises(rr.InvalidInput) as refusal:
        from_transitions(source, **{"gamma": 0.9, **options})
    message = str(refusal.value)
    assert "\n" not in message
    assert len(message) < 700
    return message


def _csv(log: Log, folder: Path) -> Any:
    pd.DataFrame(log).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def _jsonl(log: Log, folder: Path) -> Any:
    rows = zip(*(pd.Series(column).tolist() for column in log.values()), strict=True)
    (folder / "log.jsonl").write_text("".join(json.dumps(dict(zip(log, row, strict=True))) + "\n" for row in rows))
    return folder / "log.jsonl"


def _parquet(log: Log, folder: Path) -> Any:
    pl.DataFrame(log, strict=False).write_parquet(folder / "log.parquet")  # it keeps NaN, and pandas would not
    return folder / "log.parquet"


def _parts(log: Log, folder: Path) -> Any:
    """Two files of Parquet."""
    (folder / "parts").mkdir(exist_ok=True)
    for i, part in enumerate((slice(0, 1), slice(1, None))):
        pl.DataFrame(log, strict=False)[part].write_parquet(folder / "parts" / f"{i}.parquet")
    return folder / "parts"


def _table(log: Log, folder: Path) -> Any:
    ibis = pytest.importorskip("ibis")
    return ibis.duckdb.connect().read_parquet(_parquet(log, folder))


SOURCES: dict[str, Callable[[Log, Path], Any]] = {
    "dictionary": lambda log, _: log,
    "objects": lambda log, _: {name: np.array(list(values), dtype=object) for name, values in log.items()},
    "pandas": lambda log, _: pd.DataFrame(log),
    "Polars": lambda log, _: pl.DataFrame(log, strict=False),
    "Arrow": lambda log, _: pa.table(log),
    "Parquet": _parquet,
    "folder": _parts,
    "CSV": _csv,
    "JSON lines": _jsonl,
    "Ibis": _table,
}
every_source = pytest.mark.parametrize("source", SOURCES)
with_places = pytest.mark.parametrize("source", [source for source in SOURCES if source != "Ibis"])


def row_of(source: str, row: int) -> str:
    """The place of a row, as messages name it."""
    return f" in row {row - (row > 1)} of " if source == "folder" else f" in row {row}"


def long_log(rows: int = 20_000, seed: int = 0, **changes: Any) -> Log:
    rng = np.random.default_rng(seed)
    state, action = rng.integers(5, size=rows), rng.integers(3, size=rows)
    shares = np.random.default_rng(1).dirichlet(np.ones(5), size=(5, 3))
    shares[0, 0] = changes.get("first_row", shares[0, 0])
    successor = (rng.random((rows, 1)) > shares[state, action].cumsum(axis=1)).sum(axis=1).clip(0, 4)
    return {"state": state, "action": action, "reward": rng.random(rows), "next_state": successor}


NAMES: Log = {"gamma": 0.9, "states": list(range(5)), "actions": list(range(3)), "reward_range": (0.0, 1.0)}


# --- counts ---------------------------------------------------------------------------------------------------------


def test_counts_are_those_of_the_rows() -> None:
    data = from_transitions(LOG, gamma=0.9)
    assert (data.process.states, data.process.actions) == (("home", "road"), ("go", "wait"))
    assert data.visits.tolist() == [[2, 1], [2, 1]]
    assert (data.rows, data.reward_range) == (6, (0.0, 1.0))
    counts = data.counts
    assert dict(zip(counts.key.tolist(), counts.count.tolist(), strict=True)) == {1: 2, 2: 1, 4: 1, 5: 1, 7: 1}
    assert counts.rewards_above(0.0).tolist() == [0.0, 0.5, 1.0, 0.25]


@pytest.mark.parametrize("distinct", [3, 5000])
def test_the_digest_does_not_depend_on_order_or_threads(distinct: int, tmp_path: Path) -> None:
    rng, log = np.random.default_rng(3), long_log(200_000)
    log["reward"] = np.round(log["reward"] * distinct) / distinct * 0.1  # no sums of these are exact in floats
    digests = set()
    for _ in range(3):
        order = rng.permutation(200_000)
        path = _parquet({name: column[order] for name, column in log.items()}, tmp_path)
        digests.add(from_transitions(path, **NAMES).sample.digest)
    assert len(digests) == 1
    data, pair = from_transitions(log, **NAMES), log["state"] * 3 + log["action"]
    by_hand = np.bincount(pair, weights=log["reward"], minlength=15)
    assert np.allclose(data.counts.rewards_above(0.0), by_hand, rtol=1e-12)
    changed = {**log, "reward": np.where(np.arange(200_000) == 7, 0.05, log["reward"])}
    assert from_transitions(changed, **NAMES).sample != data.sample


def test_two_logs_of_one_process_are_two_samples_of_one_problem(tmp_path: Path) -> None:
    one, two = (from_transitions(long_log(seed=seed), **NAMES) for seed in (1, 2))
    assert one.spec == two.spec
    assert one.sample != two.sample
    assert one != two
    assert from_transitions(long_log(seed=1), **{**NAMES, "gamma": 0.8}).spec != one.spec
    rr.save(one, tmp_path / "log.npz")
    assert rr.load(tmp_path / "log.npz") == one


@pytest.mark.parametrize("many", [2, 1200])
def test_huge_rewards_get_a_sentence_and_no_warning(many: int) -> None:
    log = {name: [1, 2] * (many // 2) for name in ("state", "action", "next_state")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = from_transitions(log | {"reward": np.linspace(-1.0, 1.0, many) * 1e308}, gamma=0.9)
        assert str(data.summary())
        with pytest.raises(rr.InvalidInput, match="values beyond 64-bit numbers"):
            rr.solve(data, rr.PlugInPolicy(0.1, 0.05, 0.2), shared_seed=1)
    tiny: Log = {name: np.zeros(3000) for name in ("state", "action", "next_state")}
    assert np.isfinite(from_transitions(tiny | {"reward": np.arange(3000) * 5e-324}, gamma=0.9).reward).all()


# --- names ----------------------------------------------------------------------------------------------------------


@every_source
@pytest.mark.parametrize("names", [["b", "a", "x, y"], [3, -2, 10, 2**53 + 1], [1.0, 2.0, -3.0, 0.0]])
def test_names_are_texts_or_whole_numbers_everywhere(source: str, names: list[Any], tmp_path: Path) -> None:
    log = {"state": names, "action": names, "reward": [i / 4 for i in range(len(names))], "next_state": names[::-1]}
    data = from_transitions(SOURCES[source](log, tmp_path), gamma=0.9)
    assert data.process.states == tuple(sorted(map(int, names) if "a" not in names else names))
    assert {type(name) for name in data.process.states} <= {str, int}
    assert data == from_transitions(log, gamma=0.9)


STEPS: Log = {"walk": [0, 0, 0, 1, 1], "step": [0, 1, 2, 0, 1], "state": [0, 1, 2, 1, 2], "action": [0, 1, 0, 1, 1]}
STEPS |= {"reward": [0, 1, 0, 0, 1], "done": [0, 0, 1, 0, 1], "next_state": [1, 2, NAN, 2, NAN]}
READ: Log = {"gamma": 0.9, "done": "done", "episode": "walk", "order": "step"}


@every_source
def test_floats_that_are_whole_are_whole_numbers(source: str, tmp_path: Path) -> None:
    """NaN stands where an episode ended."""
    data = from_transitions(SOURCES[source](STEPS, tmp_path), **READ)
    assert data.process.states == (0, 1, 2, "(end)")
    assert data == from_transitions(STEPS | {"next_state": [1, 2, 0, 2, 0]}, **READ)
    odd = from_transitions(SOURCES[source](STEPS | {"next_state": [1.0, 2.0, 0.5, 2.0, math.inf]}, tmp_path), **READ)
    assert odd == data  # what comes after the end need not be a name
    assert "the next state is missing" in refused(SOURCES[source](STEPS, tmp_path))


def test_other_columns_of_frames() -> None:
    after: list[Any] = [1, 2, None, 2, None]
    data = from_transitions(STEPS, **READ)
    missing = pd.Series([pd.NA if one is None else one for one in after], dtype=object)
    for column in (pd.array(after, dtype="Int64"), np.array(STEPS["next_state"], dtype=np.float32), missing):
        assert from_transitions(pd.DataFrame(STEPS | {"next_state": column}), **READ) == data
    assert from_transitions(STEPS | {"next_state": after}, **READ) == data
    texts = STEPS | {"state": list("abcba"), "next_state": [NAN] * 5, "done": [True] * 5}  # a bandit
    assert from_transitions(pd.DataFrame(texts), **READ).n_states == 4
    times = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (10, 9)]  # as texts in another order
    data = from_transitions(TWO | {"walk": ["p", "p"], "at": times}, gamma=0.9, episode="walk", order="at")
    assert data.starts is not None
    assert data.starts.tolist() == [0, 1]
    assert from_transitions(TWO | {"reward": [Decimal("1.5"), 1]}, gamma=0.9).reward_range == (1.0, 1.5)


@pytest.mark.parametrize(
    "names",
    [
        [True, False], [0.5, 1.0], [Decimal("1.10"), Decimal("2.5")], [datetime.date(2026, 1, 31)] * 2, [b"a", b"b"],
        [datetime.datetime(2026, 1, 31)] * 2, [(1, 2), (3, 4)], [2**64, 1], [2.0**53, 1.0], [1, "1"], ["1", b"1"],
    ],
    ids=str,
)  # fmt: skip
def test_what_is_neither_text_nor_whole_number_is_refused(names: list[Any], tmp_path: Path) -> None:
    log = TWO | {"state": names, "next_state": names}
    sources: list[Any] = [log, pd.DataFrame(log)]
    if len({type(name) for name in names}) == 1 and not isinstance(names[0], (tuple, int)):
        sources += [SOURCES[kind](log, tmp_path) for kind in ("Polars", "Arrow", "Parquet")]
    for source in sources:
        message = refused(source)
        assert "a text or a whole number" in message
        assert "ast" in message  # it to text


@pytest.mark.parametrize(("usual", "rare"), [([1, 2], "two"), (["1", "2"], 1), ([1, 2], True), ([1, 2], (1, 2))])
def test_a_rare_value_of_another_type_is_refused(usual: list[Any], rare: Any) -> None:
    names = usual * 2000
    names[3999] = rare
    log = {"state": names, "action": names, "reward": [0.0] * 4000, "next_state": names}
    for source in (log, pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in log.items()})):
        assert "the state must be a text or a whole number" in refused(source)


@pytest.mark.parametrize(
    ("labels", "states"),
    [
        (["1", "-2", "10"], (-2, 1, 10)),
        (["1.0", "2.0", "10"], (1, 2, 10)),
        (["true", "2026-01-31"], ("2026-01-31", "true")),
        (["01", "02"], ("01", "02")),
        (["12345678901234567890", "12345678901234567891"], (12345678901234567890, 12345678901234567891)),
    ],
)
def test_names_of_text_files_are_whole_numbers_if_all_are(
    labels: list[str], states: tuple[Any, ...], tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text_of({"state": labels, "action": labels, "reward": [0] * len(labels), "next_state": labels}))
    assert repr(from_transitions(path, gamma=0.9).process.states) == repr(states)


@pytest.mark.parametrize(
    ("one", "two"),
    [("01", "1"), ("1.10", "1.1"), ("1e3", "1000"), ("0", "-0.0"), ("0", "-0"), ("a", "7"), ("0.5", "1"), (".5", "5.")],
)
def test_names_of_several_kinds_and_fractions_are_refused(one: str, two: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for names in ([one, two], [two, one]):
        path.write_text(text_of(TWO | {"state": names, "next_state": names}))
        message = refused(path)
        assert message.startswith(f"{path}: ")
        assert "declare all names as texts (states=..., actions=...)" in message
    assert from_transitions(path, gamma=0.9, states=[one, two]).process.states == (one, two)


def test_marks_of_missing_values_are_names_where_they_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("state,action,reward,next_state\n1,0,0,2\n1.0,0,0,2\n1,0,0,2.0\n2,0,1,1\nNA,0,1,1\n")
    assert from_transitions(path, gamma=0.9, states=["1", "1.0", "2", "2.0", "NA"]).n_states == 5
    assert "the state is a mark of missing values, got 'NA' in row 5" in refused(path)


def test_a_state_may_be_several_columns(tmp_path: Path) -> None:
    log = {"x": [0, 0, 1], "y": ["a", "b", "a"], "x2": [0.0, 1.0, NAN], "y2": ["b", "a", None]}
    log |= {"action": [0, 0, 1], "reward": [1, 2, 3], "done": [0, 0, 1]}
    both: Log = {"gamma": 0.9, "state": ["x", "y"], "next_state": ["x2", "y2"], "done": "done"}
    for source in ("dictionary", "CSV", "Parquet"):
        data = from_transitions(SOURCES[source](log, tmp_path), **both)
        assert data.process.states == ((0, "a"), (0, "b"), (1, "a"), END)
        assert data.process.state_names[0] == "0, a"
        assert from_transitions(SOURCES[source](log, tmp_path), **both, states=data.process.states[:-1]) == data


# --- ends and episodes ----------------------------------------------------------------------------------------------


def test_the_end_is_a_state_of_its_own() -> None:
    log = {**LOG, "done": [False, False, True, False, False, True]}
    data = from_transitions(log, gamma=0.9, done="done")
    assert data.process.states == ("home", "road", END)
    assert data.visits.sum() == 6
    assert [key % 3 for key in data.key.tolist()].count(2) == 2
    assert 'a state is called "(end)"' in refused({**log, "state": [END] * 6}, done="done")
    assert "reward_range must hold 0" in refused({**log, "reward": [1.5] * 6}, done="done", reward_range=(1, 2))


@with_places
def test_ends_and_rewards_are_true_or_false_too(source: str, tmp_path: Path) -> None:
    plain = from_transitions(TWO, gamma=0.9)
    if source != "CSV":
        assert from_transitions(SOURCES[source]({**TWO, "reward": [True, False]}, tmp_path), gamma=0.9) == plain
    for bad in ("yes", "1_0", "nan", "inf"):
        message = refused(SOURCES[source]({**TWO, "reward": ["1", bad]}, tmp_path))
        assert f"the reward must be a finite number, got '{bad}'{row_of(source, 2)}" in message
    for value in ("true", "0", "1.0"):
        assert from_transitions(
            SOURCES[source](TWO | {"done": ["False", value]}, tmp_path), gamma=0.9, done="done"
        ).rows
    message = refused(SOURCES[source](TWO | {"done": ["False", "yes"]}, tmp_path), done="done")
    assert f"done must be true or false, or 1 or 0, got 'yes'{row_of(source, 2)}" in message


@with_places
def test_an_order_of_texts_is_one_of_numbers_or_of_times(source: str, tmp_path: Path) -> None:
    times = ["2024-01-31 09:59:00Z", "2024-01-31 09:59:00.5+00:00"]
    zones = ["2024-01-01 10:00+02:00", "2024-01-01 09:00Z"]
    for steps, first in ((["9", "10"], "a"), (["10", "9"], "b"), (times, "a"), (times[::-1], "b"), (zones, "a")):
        log = SOURCES[source]({**TWO, "walk": [1, 1], "step": steps}, tmp_path)
        data = from_transitions(log, gamma=0.9, episode="walk", order="step")
        assert data.starts is not None
        assert data.process.states[int(data.starts.argmax())] == first
    for steps in (["9", "x"], ["step_9", "step_10"], ["31.12.2023", "01.01.2024"], ["1_0", "9"], ["2024-01-31", "9"]):
        log = SOURCES[source]({**TWO, "walk": [1, 1], "step": steps}, tmp_path)
        assert "the order must be a number in all rows, or in all a time" in refused(log, episode="walk", order="step")


@every_source
def test_steps_that_do_not_go_on_are_counted(source: str, tmp_path: Path) -> None:
    """Four walks: one goes on after its end, and one does not begin a step where the step before ended."""
    log = {
        "state": ["a", "b", "c", "d", "a", "b", "d", "d"], "action": [0] * 8, "reward": [0.0] * 8,
        "next_state": ["b", "b", "d", "d", "b", "c", "b", "b"], "done": [0, 1, 0, 1, 0, 1, 0, 1],
        "game": [1, 1, 1, 1, 2, 3, 4, 4], "step": [0, 1, 2, 3, 0, 0, 0, 1],
    }  # fmt: skip
    data = from_transitions(SOURCES[source](log, tmp_path), gamma=0.9, done="done", episode="game", order="step")
    assert data.flaws.broken == 1
    assert data.starts is not None
    assert data.starts.tolist() == [2, 1, 0, 1, 0]
    rr.save(data, tmp_path / "log.npz")
    assert "1 time a step of an episode does not begin" in str(rr.load(tmp_path / "log.npz").summary())


PATIENTS: Log = {
    "patient": ["p", "p", "q", "p", "q", "r"], "day": [1, 3, 1, 2, 2, 1],
    "state": ["ill", "well", "ill", "ill", "ill", "well"], "action": ["wait", "go", "treat", "treat", "wait", "go"],
    "reward": [0.0, 1.0, 0.0, 0.25, 0.5, 1.0],
}  # fmt: skip
FOLLOW: Log = {"episode": "patient", "order": "day"}


@every_source
def test_the_next_state_is_that_of_the_next_row(source: str, tmp_path: Path) -> None:
    """Of six rows three are the last ones of their episodes."""
    follow = FOLLOW | {"gamma": 0.9}
    data = from_transitions(SOURCES[source](PATIENTS, tmp_path), **follow)
    rows = {"state": ["ill"] * 3, "action": ["wait", "treat", "treat"], "reward": [0.0, 0.25, 0.0]}
    steps = rows | {"next_state": ["ill", "well", "ill"], "patient": ["p", "p", "q"], "day": [1, 2, 1]}
    assert data == from_transitions(steps, **follow, reward_range=data.reward_range, states=data.process.states)
    assert (data.rows, data.flaws.dropped, data.flaws.broken) == (3, 3, 0)
    assert "3 last rows of episodes left out" in str(data.summary())
    ends = from_transitions(SOURCES[source](PATIENTS, tmp_path), **follow, last="end")
    named = PATIENTS | {"next_state": ["ill", "", "ill", "well", "", ""], "done": [0, 1, 0, 0, 1, 1]}
    assert ends == from_transitions(named, **follow, done="done")
    assert (ends.rows, ends.flaws.dropped) == (6, 0)
    done = PATIENTS | {"done": [0, 1, 0, 0, 0, 1]}  # which says of p and r that they ended, and of q that it did not
    wins = from_transitions(SOURCES[source](done, tmp_path), **follow, done="done")
    assert (wins.rows, wins.flaws.dropped, wins.n_states) == (5, 1, 3)
    assert from_transitions(SOURCES[source](done, tmp_path), **follow, done="done", last="end") == ends


def test_what_is_told_of_next_rows(tmp_path: Path) -> None:
    assert "there is no column 'next_state' for the next state" in refused(PATIENTS, episode="patient")
    assert "must tell the rows of an episode apart, and 3 rows" in refused(PATIENTS | {"day": [1] * 5 + [2]}, **FOLLOW)
    assert "last must be 'drop' or 'end', got 'keep'" in refused(PATIENTS, **FOLLOW, last="keep")
    assert "last='end' is for logs without" in refused(PATIENTS | {"next_state": ["ill"] * 6}, **FOLLOW, last="end")
    bad = _csv(PATIENTS | {"state": ["ill", "well", None, "ill", "ill", "well"]}, tmp_path)
    assert refused(bad, **FOLLOW).startswith(f"{bad}: the state is missing in row 3. ")
    bad = _csv(PATIENTS | {"state": ["ill", None, "ill", "ill", "ill", "well"]}, tmp_path)
    assert refused(bad, **FOLLOW).startswith(f"{bad}: the next state is missing in row 4. ")
    binned = {**PATIENTS, "state": [39.5, 36.5, 38.0, 38.5, 40.0, 36.0]}
    data = from_transitions(binned, gamma=0.9, **FOLLOW, bins={"state": rr.Bins([37.0])})
    assert (data.process.states, data.flaws.dropped) == (("below 37", "37 or more"), 3)


# --- bins -----------------------------------------------------------------------------------------------------------

WARM: Log = {
    "warm": [9.999, 10.0, 19.5, 20.0, -1e300, 1e9], "action": [0, 1, 0, 1, 0, 1],
    "reward": [0.0, 0.25, 0.5, 0.75, 1.0, 0.0], "next_warm": [10.0, 20.0, 5.0, 15.0, 25.0, -1e9],
}  # fmt: skip
OF_WARM: Log = {"gamma": 0.9, "state": "warm", "next_state": "next_warm"}
BINS = rr.Bins([10, 20])


def test_names_of_bins_are_readable_and_tell_them_apart() -> None:
    assert rr.Bins([-1, 1e-3, 1e20]).labels == ("below -1", "[-1, 0.001)", "[0.001, 1e+20)", "1e+20 or more")
    assert rr.Bins([-0.0]) == rr.Bins([0])
    for edges in ([], [2, 1], [1, 1], [NAN], [math.inf], "10,20", None, [[1, 2]], ["1"], list(range(1001))):
        with pytest.raises(rr.InvalidInput, match=r"^Bins: edges must"):
            rr.Bins(edges)  # type: ignore[arg-type]


@every_source
def test_bins_are_those_of_numpy(source: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    bins = rr.Bins(np.unique(np.round(rng.normal(size=40), 2)).tolist())
    beside = [np.nextafter(bins.edges, side) for side in (9, -9)]
    values = np.concatenate([rng.normal(size=300), bins.edges, *beside])
    log = {"warm": values, "action": values, "reward": np.zeros(values.size), "next_warm": values[::-1]}
    made = SOURCES[source](log, tmp_path)
    data = from_transitions(made, **OF_WARM, bins={"warm": bins, "action": rr.Bins([0.0])})
    assert data.process.states == bins.labels
    expected = np.bincount(np.digitize(values, bins.edges), minlength=len(bins.labels))
    assert data.visits.sum(axis=1).tolist() == expected.tolist()
    assert data.process.actions == ("below 0", "0 or more")


def test_other_edges_are_another_problem(tmp_path: Path) -> None:
    one = from_transitions(WARM, **OF_WARM, bins={"warm": BINS})
    named = from_transitions({**WARM, "t": WARM["warm"]}, **OF_WARM | {"state": "t"}, bins={"t": BINS})
    assert named == one  # what a file calls its columns is no part of the problem
    rr.save(one, tmp_path / "log.npz")
    assert rr.load(tmp_path / "log.npz").process == one.process
    further = {**WARM, "warm": [10.0] * 6, "next_warm": [15.0] * 6}
    two, three = (from_transitions(further, **OF_WARM, bins={"warm": rr.Bins(x)}) for x in ([10, 20], [10, 20, 30]))
    assert two.process.states == BINS.labels  # also those that were not seen
    with pytest.raises(rr.InvalidInput, match="two declared processes"):
        rr.logs.same_process(two, three)
    for changes, bins, told in (
        ({}, {"warm": "quantiles"}, "bins must say the edges of a column"),
        ({}, [10, 20], "bins must say the edges of a column"),
        ({}, {"next_warm": BINS}, "Next states have the bins of their states"),
        ({"warm": ["hot"] * 6}, {"warm": BINS}, "bins need a column of numbers, got VARCHAR in 'warm'"),
        (
            {"warm": [1.0, NAN, 1, 1, 1, math.inf]},
            {"warm": BINS},
            "the state must be a finite number, for it has bins in row 2 (2 rows are wrong)",
        ),
    ):
        assert told in refused({**WARM, **changes}, **OF_WARM, bins=bins)


# --- what is refused ------------------------------------------------------------------------------------------------


@with_places
def test_all_that_is_wrong_is_told_at_once(source: str, tmp_path: Path) -> None:
    log = {
        "state": ["a", None, "a", "b", "a", None], "action": ["x", "x", "y", None, "x", "x"],
        "reward": [1.0, 0.0, NAN, 0.0, 7.0, 0.0], "next_state": ["b", "a", "a", "c", "b", "a"],
        "done": [0, 0, 0, 0, 2, 0],
    }  # fmt: skip
    options: Log = {"done": "done", "states": ["a", "b"], "actions": ["x", "y"], "reward_range": (0, 1)}
    message = refused(SOURCES[source](log, tmp_path), **options)
    for row, what in (
        (3, "the reward must be a finite number"), (5, "the reward is outside reward_range [0, 1]"),
        (2, "the state is missing"), (4, "the action is missing"), (4, "the next state is not among the 2 states"),
        (5, "done must be true or false, or 1 or 0"),
    ):  # fmt: skip
        rule = next(rule for rule in message.split("; ") if rule.split(": ")[-1].startswith(what))
        assert row_of(source, row) in rule
    assert "(2 rows are wrong)" in message


def test_all_that_is_not_given_is_told_at_once(tmp_path: Path) -> None:
    source = _csv({"page": ["a"], "offer": ["b"], "reward": [0.5], "next_page": ["c"]}, tmp_path)
    message = refused(source, gamma=None)
    for word in ("'state'", "'action'", "'next_state'", "page, offer, reward and next_page", "gamma=..., the discount"):
        assert word in message
    assert "give gamma" in refused(LOG, gamma=None)
    assert "gamma must be a discount" in refused(LOG, gamma=1.0)


BROKEN: dict[str, tuple[Any, Log, str]] = {
    "missing column": (LOG, {"reward": "rewrd"}, "no column 'rewrd' for the reward. Did you mean 'reward'"),
    "unknown state": (LOG, {"states": ["home"]}, "the state is not among the 1 states"),
    "mixed types": ({**LOG, "next_state": [1, 2, 1, 2, 1, 2]}, {}, "must be of one type"),
    "lengths": ({**LOG, "reward": [0.0]}, {}, "must have one length"),
    "one column twice": (LOG, {"next_state": "state"}, "state and next_state must be two columns"),
    "an order alone": (LOG, {"order": "reward"}, "Name episode"),
    "a text": ({**LOG, "state": "ababab"}, {}, "column 'state' must be a list with one entry a row"),
    "a table": ({**LOG, "state": np.zeros((6, 2))}, {}, "column 'state' must be a list with one entry a row"),
    "initial": (LOG, {"initial": {"hom": 1.0}}, "initial=... names 'hom', which is no state. Did you mean 'home'"),
    "twice": (pd.DataFrame([[1] * 5], columns=["state", *LOG]), {}, "two columns are called 'state'. Rename one"),
    "too many": ({**LOG, "state": [*"abcdef"]}, {}, "8 different states, more than 7"),
    "a mask without names": (LOG, {"allowed": [[True, True]] * 2}, "Give states=... and actions=... beside it"),
    "a mask of numbers": (LOG, {"allowed": [(0, 1), (1, 1)]}, "allowed must be a file or columns of pairs"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_logs_get_one_sentence(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_MOST_STATES", 7)
    content, options, told = BROKEN[kind]
    assert told in refused(content, **options)


def test_without_duckdb_a_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert "pip install 'replicable-rl[logs]'" in refused(TWO)


def test_pairs_that_are_allowed_come_from_a_file_or_a_frame(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("state,action\nhome,go\nhome,wait\nroad,go\nroad,wait\nroad,swim\n")
    mask = [[True, False, True], [True, True, True]]
    table = {"states": ["home", "road"], "actions": ["go", "swim", "wait"], "allowed": mask}
    expected = from_transitions(LOG, gamma=0.9, **table)  # type: ignore[arg-type]
    columns = {"state": ["home", "home", "road", "road", "road"], "action": ["go", "wait", "go", "wait", "swim"]}
    for allowed in (pairs, columns, pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert from_transitions(_csv(LOG, tmp_path), gamma=0.9, allowed=allowed) == expected
    ends = from_transitions({**LOG, "done": [0] * 5 + [1]}, gamma=0.9, done="done", allowed=columns)
    assert ends.support.mask.tolist() == [*mask, [True] * 3]
    for text, told in (
        ("state,action\nhome,go\nroad,go\n", "the action is not among the 1 actions"),
        ("state,action\nhome,go\nroad,wait\nroad,go\n", "the pair is not allowed, got ('home', 'wait') in row 2"),
        ("state,action\n", "has no rows"),
        ("room,action\nhome,go\n", "there is no column 'state' for the state. It has room and action"),
        ("state,action\nhome,\n", "the action is missing in row 1"),
    ):
        pairs.write_text(text)
        assert told in refused(_csv(LOG, tmp_path), allowed=pairs)


def test_a_summary_tells_what_is_missing() -> None:
    summary = from_transitions(LOG, gamma=0.9, states=["home", "road", "sea"]).summary()
    assert (summary.rows, summary.states, summary.never_tried, summary.never_left) == (6, 3, 2, 1)
    assert "2 pairs never tried, such as go in sea" in str(summary)
    assert "1 state never left, such as sea" in str(summary)
    assert json.loads(json.dumps(summary.to_json()))["rows"] == 6
