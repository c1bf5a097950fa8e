"""Logs become counts: sources, digests, names, ends, and fifteen kinds of broken logs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.data import from_transitions, same_process
from replicable_rl.data.process import END

pytestmark = pytest.mark.usefixtures("one_database")

LOG: dict[str, Any] = {
    "state": ["home", "home", "road", "road", "home", "road"],
    "action": ["go", "wait", "go", "go", "go", "wait"],
    "reward": [0.0, 0.5, 1.0, 0.0, 0.0, 0.25],
    "next_state": ["road", "home", "home", "road", "road", "road"],
}


def csv_of(log: dict[str, Any], separator: str = ",") -> str:
    rows = [list(log), *zip(*log.values(), strict=True)]
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(csv_of(LOG))
    return path


def long_log(rows: int = 20_000, seed: int = 0, **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    state, action = rng.integers(5, size=rows), rng.integers(3, size=rows)
    shares = np.random.default_rng(1).dirichlet(np.ones(5), size=(5, 3))
    shares[0, 0] = changes.get("first_row", shares[0, 0])
    successor = (rng.random((rows, 1)) > shares[state, action].cumsum(axis=1)).sum(axis=1).clip(0, 4)
    return {"state": state, "action": action, "reward": rng.random(rows), "next_state": successor}


NAMES: dict[str, Any] = {"gamma": 0.9, "states": list(range(5)), "actions": list(range(3)), "reward_range": (0.0, 1.0)}


def test_counts_are_those_of_the_rows() -> None:
    data = from_transitions(LOG, gamma=0.9)
    assert data.process.states == ("home", "road")
    assert data.process.actions == ("go", "wait")
    assert data.visits.tolist() == [[2, 1], [2, 1]]
    assert data.rows == 6
    assert data.reward_range == (0.0, 1.0)
    counts = data.counts
    assert dict(zip(counts.key.tolist(), counts.count.tolist(), strict=True)) == {1: 2, 2: 1, 4: 1, 5: 1, 7: 1}
    assert counts.rewards_above(0.0).tolist() == [0.0, 0.5, 1.0, 0.25]


def test_every_kind_of_source_has_one_digest(tmp_path: Path, csv_file: Path) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(LOG)
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (tmp_path / "log.tsv").write_text(csv_of(LOG, "\t"))
    with gzip.open(tmp_path / "zipped.csv.gz", "wt") as stream:
        stream.write(csv_of(LOG))
    folder = tmp_path / "parts"
    folder.mkdir()
    half = {name: column[:3] for name, column in LOG.items()}
    rest = {name: column[3:] for name, column in LOG.items()}
    (folder / "1.csv").write_text(csv_of(half))
    (folder / "2.csv").write_text(csv_of(rest))
    files = ["log.parquet", "log.jsonl", "log.tsv", "zipped.csv.gz", "parts", "parts/*.csv"]
    sources = [LOG, pd.DataFrame(LOG), pl.DataFrame(LOG), table, csv_file, *(tmp_path / name for name in files)]
    digests = {from_transitions(source, gamma=0.9).sample.digest for source in sources}
    assert len(digests) == 1


@pytest.mark.parametrize("distinct", [3, 5000])
def test_the_digest_does_not_depend_on_order_or_threads(distinct: int, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    log = long_log(200_000)
    log["reward"] = np.round(log["reward"] * distinct) / distinct * 0.1  # no sums of these are exact in floats
    digests = set()
    for i in range(3):
        order = rng.permutation(200_000)
        pq.write_table(pa.table({name: column[order] for name, column in log.items()}), tmp_path / f"{i}.parquet")
        digests.add(from_transitions(tmp_path / f"{i}.parquet", **NAMES).sample.digest)
    assert len(digests) == 1
    data = from_transitions(log, **NAMES)
    pair = log["state"] * 3 + log["action"]
    assert np.allclose(
        data.counts.rewards_above(0.0), np.bincount(pair, weights=log["reward"], minlength=15), rtol=1e-12
    )
    changed = {**log, "reward": np.where(np.arange(200_000) == 7, 0.05, log["reward"])}
    assert from_transitions(changed, **NAMES).sample != data.sample


def test_two_logs_of_one_process_are_two_samples_of_one_problem() -> None:
    one, two = (from_transitions(long_log(seed=seed), **NAMES) for seed in (1, 2))
    assert one.spec == two.spec
    assert one.sample != two.sample
    assert one != two
    assert from_transitions(long_log(seed=1), **{**NAMES, "gamma": 0.8}).spec != one.spec


def test_a_state_may_be_several_columns() -> None:
    log = {
        "x": [0, 0, 1],
        "y": ["a", "b", "a"],
        "x2": [0, 1, 0],
        "y2": ["b", "a", "a"],
        "action": [0, 0, 1],
        "reward": [1, 2, 3],
    }
    data = from_transitions(log, gamma=0.9, state=["x", "y"], next_state=["x2", "y2"])
    assert data.process.states == ((0, "a"), (0, "b"), (1, "a"))
    assert data.process.state_names[0] == "0, a"


def test_the_end_is_a_state_of_its_own() -> None:
    log = {**LOG, "done": [False, False, True, False, False, True]}
    data = from_transitions(log, gamma=0.9, done="done")
    assert data.process.states == ("home", "road", END)
    assert data.visits.sum() == 6
    end = [key % 3 for key in data.key.tolist()]
    assert end.count(2) == 2
    missing = {**log, "next_state": ["road", "home", None, "road", "road", None]}
    assert from_transitions(missing, gamma=0.9, done="done") == data  # what comes after the end need not be named


def test_first_states_come_from_episodes() -> None:
    log = {**LOG, "episode": [1, 2, 1, 3, 2, 3]}
    data = from_transitions(log, gamma=0.9, episode="episode")
    assert data.starts is not None
    assert data.starts.tolist() == [2, 1]
    assert data.initial is not None
    assert data.initial.tolist() == [2 / 3, 1 / 3]
    torn = {**log, "state": ["home", "home", "home", "road", "home", "road"]}
    broken = from_transitions(torn, gamma=0.9, episode="episode")
    assert broken.broken == 1
    assert "1 step of episodes does not go on" in str(broken.summary())


def test_parts_add_up_to_the_whole(tmp_path: Path) -> None:
    data = from_transitions(long_log(), **NAMES)
    parts = data.split(3, seed=1)
    assert sum(part.rows for part in parts) == data.rows
    np.testing.assert_array_equal(parts[0].visits + parts[1].visits + parts[2].visits, data.visits)
    rr.save(data, tmp_path / "log.npz")
    assert rr.load(tmp_path / "log.npz") == data


def test_a_summary_says_what_is_missing() -> None:
    data = from_transitions(LOG, gamma=0.9, states=["home", "road", "sea"])
    summary = data.summary()
    assert (summary.rows, summary.states, summary.never_tried, summary.never_left) == (6, 3, 2, 1)
    assert "2 pairs never tried, such as go in sea" in str(summary)
    assert "1 state never left, such as sea" in str(summary)


def test_two_processes_are_told_apart_and_one_is_not() -> None:
    alarms = 0
    for seed in range(30):
        one, two = (from_transitions(long_log(5_000, seed=100 + 2 * seed + i), **NAMES) for i in (0, 1))
        found = same_process(one, two)
        assert found is not None
        alarms += found.p_value < 0.01
    assert alarms <= 4  # 0.3 are expected; more than 4 come with probability 1e-5
    shares = np.random.default_rng(1).dirichlet(np.ones(5), size=(5, 3))[0, 0]
    changed = shares + np.where(np.arange(5) == shares.argmax(), -0.1, 0.1 / 4)
    three = from_transitions(long_log(100_000, seed=7, first_row=changed), **NAMES)
    found = same_process(from_transitions(long_log(100_000, seed=8), **NAMES), three)
    assert found is not None
    assert found.p_value < 1e-6
    assert (found.state, found.action) == (0, 0)


BROKEN: dict[str, tuple[dict[str, Any] | str | bytes, dict[str, Any], str]] = {
    "missing column": ({name: LOG[name] for name in ("state", "action", "reward")}, {}, r"no column 'next_state'"),
    "unknown state": (LOG, {"states": ["home"]}, r"states must name all that occur, and 'road' is not among the 1"),
    "text in a number": (
        csv_of(LOG).replace("0.25", "much"),
        {},
        r"line 7: the reward must be a finite number, got 'much'",
    ),
    "NaN": ({**LOG, "reward": [0.0, float("nan"), 0, 0, 0, 0]}, {}, r"row 2: the reward must be a finite number"),
    "wrong separator": (csv_of(LOG, "&"), {}, r"no column 'state'|cannot"),
    "empty file": ("", {}, r"is blank"),
    "missing value": (csv_of(LOG).replace("road,go,1.0", ",go,1.0"), {}, r"line 4: the state is missing"),
    "mixed types": ({**LOG, "next_state": [1, 2, 1, 2, 1, 2]}, {}, r"must be of one type"),
    "negative gamma": (LOG, {"gamma": -0.5}, r"gamma must be a discount in \[0, 1\), got -0.5"),
    "nothing is earned after the end": (
        {**LOG, "done": [0] * 6, "reward": [1.0] * 6},
        {"reward_range": (1, 2), "done": "done"},
        r"reward_range must hold 0, which is earned after the end",
    ),
    "not UTF-8": (csv_of(LOG).encode().replace(b"home", b"h\xffme"), {}, r"log.csv.*(UTF-8|utf-8)"),
    "lengths": ({**LOG, "reward": [0.0]}, {}, r"must have one length"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_logs_get_one_sentence(kind: str, tmp_path: Path) -> None:
    content, options, said = BROKEN[kind]
    source: Any = content
    if isinstance(content, (str, bytes)):
        source = tmp_path / "log.csv"
        source.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(rr.InvalidInput, match=said) as refusal:
        from_transitions(source, **{"gamma": 0.9, **options})
    assert len(str(refusal.value)) < 400
    assert "\n" not in str(refusal.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    zipped = tmp_path / "log.csv.gz"
    zipped.write_bytes(gzip.compress(csv_of({name: column * 500 for name, column in LOG.items()}).encode())[:-200])
    with pytest.raises(rr.InvalidInput, match=r"log\.csv\.gz"):
        from_transitions(zipped, gamma=0.9)
    (tmp_path / "log.parquet").write_bytes(b"no parquet")
    with pytest.raises(rr.InvalidInput, match=r"log\.parquet"):
        from_transitions(tmp_path / "log.parquet", gamma=0.9)
    os.mkfifo(tmp_path / "pipe.csv")
    for name, said in (
        ("nothing.csv", "no such file"),
        ("pipe.csv", "not a regular file"),
        ("log.xlsx", "no such file"),
    ):
        with pytest.raises(rr.InvalidInput, match=said):
            from_transitions(tmp_path / name, gamma=0.9)
    (tmp_path / "log.xlsx").write_bytes(b"x")
    with pytest.raises(rr.InvalidInput, match=r"a log ends in \.csv"):
        from_transitions(tmp_path / "log.xlsx", gamma=0.9)
    with pytest.raises(rr.InvalidInput, match="source must be a file"):
        from_transitions(17, gamma=0.9)


def test_too_many_states_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicable_rl.data.numbering._MOST_STATES", 3)
    with pytest.raises(rr.InvalidInput, match="5 different states, more than 3"):
        from_transitions(long_log(), gamma=0.9)


# --- which actions are allowed, as a list of pairs ------------------------------------------------------------------


PAIRS = "state,action\nhome,go\nhome,wait\nroad,go\nroad,wait\nroad,swim\n"


def test_pairs_that_are_allowed_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "log.csv").write_text(csv_of(LOG), encoding="utf-8")
    table = {
        "states": ["home", "road"],
        "actions": ["go", "swim", "wait"],
        "allowed": [[True, False, True], [True, True, True]],
    }
    expected = rr.from_transitions(LOG, gamma=0.9, **table)  # type: ignore[arg-type]
    columns = {"state": ["home", "home", "road", "road", "road"], "action": ["go", "wait", "go", "wait", "swim"]}
    for allowed in (tmp_path / "pairs.csv", str(tmp_path / "pairs.csv"), columns):
        read = rr.from_transitions(tmp_path / "log.csv", gamma=0.9, allowed=allowed)
        assert read.process == expected.process
        assert read == expected
    ends = rr.from_transitions({**LOG, "done": [0] * 5 + [1]}, gamma=0.9, done="done", allowed=columns)
    assert ends.allowed.tolist() == [[True, False, True], [True] * 3, [True] * 3]


def test_pairs_of_numbers_are_no_table_of_truth_values() -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    log = {"state": [0, 1, 1], "action": [1, 1, 1], "reward": [0.0, 1.0, 0.0], "next_state": [1, 0, 1]}
    pairs = {"state": [0, 1], "action": [1, 1]}
    names: dict[str, Any] = {"states": [0, 1], "actions": [0, 1]}
    for allowed in (pairs, pd.DataFrame(pairs), pl.DataFrame(pairs), pa.table(pairs)):  # each reads as a table too
        read = rr.from_transitions(log, gamma=0.9, allowed=allowed, **names)
        assert read.allowed.tolist() == [[False, True], [False, True]]
    for wrong in ([(0, 1), (1, 1)], np.ones((2, 2)), [["home", "go"]], [[True], [True, False]], 1):
        with pytest.raises(rr.InvalidInput, match=r"allowed must be a file or columns of pairs"):
            rr.from_transitions(log, gamma=0.9, allowed=wrong, **names)
    with pytest.raises(rr.InvalidInput, match="there is no column 'state' for the state"):
        rr.from_transitions(log, gamma=0.9, allowed=pd.DataFrame([[True, False], [True, True]], columns=["x", "y"]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "state,action\nhome,go\nroad,go\n",
            "the list of allowed pairs does not name action 'wait', which the log has. Add",
        ),
        ("state,action\nhome,go\nroad,wait\nroad,go\n", "the log has wait in home, which is not allowed"),
        ("state,action\n", "lists no pairs. Name a state and an action in every row"),
        ("room,action\nhome,go\n", "there is no column 'state' for the state. It has room and action"),
        ("state,action\nhome,\n", "line 2: the action is missing"),
    ],
)
def test_wrong_lists_of_pairs(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(text, encoding="utf-8")
    with pytest.raises(rr.InvalidInput, match=said):
        rr.from_transitions(LOG, gamma=0.9, allowed=tmp_path / "pairs.csv")
