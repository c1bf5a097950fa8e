"""From a log to a policy on the command line: solve, plan and publish take logs, and options name what is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import replicable_rl as rr
from tests.commands import Result, run_here

POLICY = ["plug-in-policy-v1", "--epsilon", "0.05", "--delta", "0.05", "--rho", "0.2"]
COLUMNS = ["--gamma", "0.9", "--done", "left", "--reward-range", "0", "1"]
SEED = ["--shared-seed", "7"]
RIGHT = {"home": "go", "road": "stay"}  # the better action, in every log
HEADER = "state,action,reward,next_state,left\n"


def rows(times: int, first: str = "home") -> str:
    """A log in which going from home and staying on the road pays; ``first`` is what home is called."""
    each = f"{first},go,1,road,false\n{first},stay,0,{first},false\nroad,stay,1,road,false\nroad,go,0,{first},false\n"
    return HEADER + each * times + "road,stay,1,,true\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.csv").write_text(rows(20))
    (tmp_path / "two.csv").write_text(rows(25))
    return tmp_path


def good(words: list[str], folder: Path) -> str:
    found = run_here(words, folder)
    assert (found.code, found.err) == (0, "")
    assert max(map(len, found.out.splitlines())) <= 80 or "--json" in words
    return found.out


def refused(words: list[str], folder: Path) -> str:
    found: Result = run_here(words, folder)
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    return found.err.removeprefix("replicable-rl: ").strip()


def test_a_log_is_solved_published_and_followed(folder: Path) -> None:
    printed = good(["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--save", "run.npz"], folder)
    assert "one.csv: 81 rows" in printed
    assert "recorded sample" in printed
    assert "(end)" not in printed
    assert [line.split() for line in printed.splitlines()[4:6]] == [list(pair) for pair in RIGHT.items()]
    data = rr.from_transitions(folder / "one.csv", gamma=0.9, done="left", reward_range=(0, 1))
    run = rr.solve(data, rr.PlugInPolicy(0.05, 0.05, 0.2), shared_seed=7)
    assert rr.load(folder / "run.npz") == run
    told = json.loads(good(["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--json"], folder))
    assert told["fingerprints"] == dict(run.fingerprints)
    assert RIGHT.items() <= told["policy"].items()
    assert told["names"] == {"states": ["home", "road", "(end)"], "actions": ["go", "stay"]}

    printed = good(["publish", "one.csv", *POLICY, *COLUMNS, "-o", "cuts.npz"], folder)
    assert "one.csv: 81 rows\n" in printed
    assert "on their own logs" in printed
    assert rr.load(folder / "cuts.npz").names.states == ("home", "road", "(end)")
    told = json.loads(good(["solve", "two.csv", *POLICY, *COLUMNS, *SEED, "--rule", "cuts.npz", "--json"], folder))
    assert RIGHT.items() <= told["policy"].items()
    assert "published cuts" in told["status"]["sentence"]


def test_folders_patterns_and_saved_samples_are_logs_too(folder: Path) -> None:
    (folder / "logs").mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.csv").rename(folder / "logs" / f"{name}.csv")
    every = rr.from_transitions(folder / "logs", gamma=0.9, done="left", reward_range=(0, 1))
    rr.save(every, folder / "all.npz")
    answers = [
        json.loads(good(["solve", log, *POLICY, *SEED, *columns, "--json"], folder))
        for log, columns in (("logs", COLUMNS), ("logs/*.csv", COLUMNS), ("all.npz", []))
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["spec"]["sample"]["digest"] == every.sample.digest
    assert "all.npz: 182 rows" in good(["publish", "all.npz", *POLICY], folder)
    assert "all.npz: 182 rows, S=3, A=2" in good(["plan", "all.npz", *POLICY], folder)
    rr.save(rr.make("chain-v1"), folder / "table.npz")
    assert "sample seed 1" in good(["solve", "table.npz", *POLICY, *SEED, "--sample-seed", "1"], folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "one.csv"], "compare: draws fresh samples, and one.csv is a log"),
        (["calibrate", "one.csv", *POLICY], "`replicable-rl diagnose` says how many rows"),
        (["audit", "one.csv", *POLICY], "audit: one.csv is one log"),
        (["solve", "one.csv", *POLICY, *SEED], "one.csv: give --gamma, the discount"),
        (["solve", "chain-v1", *POLICY, *SEED, "--gamma", "0.9"], "--gamma is for logs, and 'chain-v1' is none"),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--sample-seed", "1"], "--sample-seed is for samples that are"),
        (["plan", "one.csv", "rmax-v1:horizon=5", "--epsilon", "0.1", "--delta", "0.1", *COLUMNS], "Use PlugInPolicy"),
        (["publish", "one.csv", *POLICY, *COLUMNS, "--sample-seed", "1"], "publish: --sample-seed is for samples"),
        (["solve", "gone.csv", *POLICY, *COLUMNS, *SEED], "gone.csv: no such file."),
        (["plan", "gone*", *POLICY, *COLUMNS], "gone*: no file fits this pattern."),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--states", "home"], "is not among the 1 states that"),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--states", "1,2"], "is a text, and others are whole numbers"),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--states", '"home,road'], "every quote closed"),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--states", "gone.txt"], "gone.txt: no such file."),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--actions", "go,go"], "solve: --actions must name each"),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--initial", "hom=1"], "--initial names 'hom'"),
        (["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--initial", "home=nan"], "--initial must hold 3"),
        (["solve", "one.csv", *POLICY, "--gamma", "0.9", "--reward-range", "0", "0.5", *SEED], "blank|missing"),
        (["publish", "one.csv", "rpvi-v1", *POLICY[1:], *COLUMNS], "publish: algorithm must be a PlugInPolicy"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(words: list[str], said: str, folder: Path) -> None:
    found = refused(words, folder)
    assert any(part in found for part in said.split("|"))
    assert "=..." not in found
    assert "[...]" not in found
    assert sorted(path.name for path in folder.iterdir()) == ["one.csv", "two.csv"]


def test_names_and_first_states_are_declared(folder: Path) -> None:
    (folder / "states.txt").write_text("road\n\nhome\nshop, large\n", encoding="utf-8-sig")
    declared = ["--states", "states.txt", "--actions", "stay, go,fly", "--initial", "home=0.75,road=0.25"]
    solved = ["solve", "one.csv", *POLICY, *COLUMNS, *SEED, *declared, "--json"]
    data = rr.from_transitions(
        folder / "one.csv", gamma=0.9, done="left", reward_range=(0, 1), states=["road", "home", "shop, large"],
        actions=["stay", "go", "fly"], initial={"home": 0.75, "road": 0.25},
    )  # fmt: skip
    assert data.process.initial == (0.25, 0.75, 0.0, 0.0)
    assert json.loads(good(solved, folder))["spec"]["sample"]["digest"] == data.sample.digest
    assert "shop, large" in good(["diagnose", "one.csv", *COLUMNS, *declared, "--resamples", "4"], folder)


def test_typed_names_have_the_type_of_their_column(folder: Path) -> None:
    both = {"state": [1, 2], "action": ["go", "stay"], "reward": [0.0, 1.0], "next_state": [2, 1]}
    text = "".join(f"{','.join(map(str, row))}\n" for row in (both, *zip(*both.values(), strict=True)))
    (folder / "numbers.csv").write_text(text)
    for name, kind in (("texts", "VARCHAR"), ("numbers", "BIGINT"), ("large", "UBIGINT"), ("small", "TINYINT")):
        cast = f"SELECT * REPLACE (CAST(state AS {kind}) AS state, CAST(next_state AS {kind}) AS next_state)"
        duckdb.sql(f"COPY ({cast} FROM '{folder}/numbers.csv') TO '{folder}/{name}.parquet'")
    typed = ["--states", "1,2,3", "--actions", "go,stay", "--initial", "2=1", "--gamma", "0.9"]
    whole: list[tuple[str, list[Any]]] = [
        (log, [1, 2, 3]) for log in ("numbers.csv", "numbers.parquet", "large.parquet", "small.parquet")
    ]
    for log, names in whole:
        told = json.loads(good(["solve", log, *POLICY, *SEED, *typed, "--json"], folder))
        first = {names[1]: 1.0}
        data = rr.from_transitions(folder / log, gamma=0.9, states=names, actions=["go", "stay"], initial=first)
        assert told["spec"]["sample"]["digest"] == data.sample.digest
    for log in ("numbers.parquet", "texts.parquet"):
        wrong = ["solve", log, *POLICY, *SEED, "--gamma", "0.9", "--states", "1,x"]
        assert "is not among the 2 states that are declared (--states" in refused(wrong, folder)


def test_bins_rewards_and_next_rows(folder: Path) -> None:
    (folder / "warm.csv").write_text("who,warm,action,reward,day\na,9.5,0,0,1\na,10,1,1,2\na,20.5,0,7,3\n")
    asked = ["diagnose", "warm.csv", "--gamma", "0.9", "--state", "warm", "--episode", "who", "--order", "day"]
    asked += ["--resamples", "4"]
    printed = json.loads(good([*asked, "--bins", "warm=10,20", "--json"], folder))
    assert (printed["summary"]["states"], printed["summary"]["rows"]) == (3, 2)
    assert json.loads(good([*asked, "--bins", "warm=10", "--last", "end", "--json"], folder))["summary"]["rows"] == 3
    for wrong in ("warm", "warm=", "=10", "warm=10,x", "warm=20,10", "cold=1"):
        refused([*asked, "--bins", wrong], folder)
    assert "once" in refused([*asked, "--bins", "warm=1", "--bins", "warm=2"], folder)
    said = refused([*asked, "--bins", "warm=1", "--reward-range", "0", "0.5"], folder)
    assert "warm.csv, line 3: the reward is outside --reward-range [0, 0.5]" in said


def test_a_list_of_pairs_says_what_is_allowed(folder: Path) -> None:
    (folder / "pairs.csv").write_text("state,action\nhome,go\nhome,stay\nroad,stay\nroad,go\nroad,swim\n")
    allowed = ["solve", "one.csv", *POLICY, *COLUMNS, *SEED, "--allowed", "pairs.csv", "--json"]
    assert json.loads(good(allowed, folder))["names"]["actions"] == ["go", "stay", "swim"]


def test_states_of_several_columns_are_lines_of_a_file(folder: Path) -> None:
    (folder / "pairs.csv").write_text('x,y,action,reward,x2,y2\na,1,go,0,"b, c",2\n"b, c",2,go,1,a,1\n')
    (folder / "states.txt").write_text('a,1\n"b, c",2\nd,3\n')
    asked = ["solve", "pairs.csv", *POLICY, *SEED, "--gamma", "0.9", "--state", "x,y", "--next-state", "x2,y2"]
    told = json.loads(good([*asked, "--states", "states.txt", "--json"], folder))
    assert list(told["policy"]) == ["a, 1", '"b, c", 2', "d, 3"]
    assert "a name has 2 parts here, so name a .txt file" in refused([*asked, "--states", "a,d"], folder)
    assert "a name has 2 parts with commas between" in refused([*asked, "--initial", "a=1"], folder)


def test_cuts_of_another_process_say_what_differs(folder: Path) -> None:
    good(["publish", "one.csv", *POLICY, *COLUMNS, "-o", "cuts.npz"], folder)
    (folder / "three.csv").write_text(rows(20, first="house"))
    (folder / "four.csv").write_text(HEADER + "home,go,1,home,false\nhome,stay,0,home,false\n")
    follow = [*POLICY, "--rule", "cuts.npz", *SEED]
    for words, said in (
        (
            ["three.csv", *COLUMNS],
            "names differ in the process of the cuts. Read the log with the same --states and --actions",
        ),
        (["four.csv", *COLUMNS], "are for 3 states and 2 actions, the problem has 2 and 2. Use cuts of this problem"),
        (["two.csv", *COLUMNS[:-1], "2"], "Read the log with the same --reward-range"),
        (["two.csv", *COLUMNS, "--initial", "home=1"], "Read the log with the same --initial"),
    ):
        assert said in refused(["solve", *words, *follow], folder)
    good(["solve", "four.csv", *COLUMNS, *follow, "--states", "home,road", "--actions", "go,stay"], folder)


def test_a_diagnosis_prints_the_policy(folder: Path) -> None:
    printed = good(["diagnose", "one.csv", *COLUMNS, "--resamples", "4"], folder)
    assert "This log decides:\n  home  go\n  road  stay\nBy the rule affordable, which may lose 0.05" in printed
    many = {"state": list(range(50)), "action": [0, 1] * 25, "reward": [0.0, 1.0] * 25}
    found = rr.diagnose(rr.from_transitions(many | {"next_state": [0] * 50}, gamma=0.5), resamples=4)
    assert "  9  1\n  and 40 more states, which the JSON form lists\n" in str(found)
    assert max(map(len, found.text(width=30).splitlines())) <= 30


def test_names_of_several_parts_are_told_apart_everywhere() -> None:
    log: dict[str, list[Any]] = {
        "x": ["p", "p, q", "p"] * 40,
        "y": ["q, r", "r", "s"] * 40,
        "action": ["a", "b"] * 60,
        "reward": [0, 1, 1] * 40,
    }
    log |= {"x2": [*log["x"][1:], "p"], "y2": [*log["y"][1:], "q, r"]}
    data = rr.from_transitions(log, gamma=0.5, state=["x", "y"], next_state=["x2", "y2"])
    names = data.process.state_names
    assert set(names) == {'p, "q, r"', '"p, q", r', "p, s"}
    found = rr.diagnose(data, resamples=40)
    told = json.loads(json.dumps(found.to_json()))
    assert set(told["policy"]) == set(names)
    assert {one["state"] for one in told["states"]} <= set(names)
    assert len(told["states"]) == len(found.states)
    assert data.pair_names(0) == f"{data.process.action_names[0]} in {names[0]}"


def test_cuts_keep_names(folder: Path) -> None:
    data = rr.from_transitions(folder / "one.csv", gamma=0.9, done="left", reward_range=(0, 1))
    cuts = rr.publish(data, rr.PlugInPolicy(0.05, 0.05, 0.2))
    assert cuts.names is not None
    assert cuts.names.states is not None
    assert cuts.names.states[:2] == ("home", "road")
    rr.save(cuts, folder / "cuts.npz")
    again = rr.load(folder / "cuts.npz")
    assert again == cuts
    assert again.names == cuts.names
    with pytest.raises(rr.InvalidInput, match="sample_seed is for samples that are drawn"):
        rr.publish(data, rr.PlugInPolicy(0.05, 0.05, 0.2), sample_seed=1)
