"""``replicable-rl report``: what the page of a store says, and one sentence for every bad input."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit.plan import plan_audit
from replicable_rl.canonical import array_digest
from replicable_rl.cli import main
from replicable_rl.records import ObjectSpec, RunFamily, RunRecord
from replicable_rl.report.audits import store_page
from replicable_rl.report.page import DataTable, Intervals, PolicyPicture, render
from replicable_rl.report.stored import StoredProblems, read_audit
from replicable_rl.store import RunStore
from replicable_rl.store.arrays import encode_array

GRID = rr.make("two-goals-v1")
RPVI = rr.ReplicablePhasedVI(0.1, 0.001, 0.2)
PLAIN = rr.PhasedVI(0.1, 0.001)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "runs.sqlite"
    rr.audit(GRID, RPVI, shared_seeds=30, store=path)
    rr.audit(GRID, PLAIN, shared_seeds=30, store=path)
    rr.audit(
        rr.make("riverswim-v1"), rr.ReplicableApproximateMDP(0.1, 0.01, 0.2, calls=1000), shared_seeds=5, store=path
    )
    return path


def planted(
    path: Path, problem: ObjectSpec, algorithm: ObjectSpec, outputs: Sequence[Sequence[int]], errors: Sequence[str] = ()
) -> None:
    """Write runs with these policies, two under every shared seed, and failures."""
    family = RunFamily(problem, algorithm)
    seeds = plan_audit("test", (len(outputs) + len(errors)) // 2, 2, 0, 0.95).seeds
    policies = [np.array(output) for output in outputs]
    digests = [array_digest("policy", policy) for policy in policies]
    records = [RunRecord(family.key(*seed), *seed, policy=d) for seed, d in zip(seeds, digests, strict=False)]
    records += [
        RunRecord(family.key(*seed), *seed, error=error)
        for seed, error in zip(seeds[len(records) :], errors, strict=True)
    ]
    with RunStore(path) as opened:
        opened.add(family, records, {d: encode_array(policy) for d, policy in zip(digests, policies, strict=True)})


def test_a_page_of_audits(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(store), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}: 3 audits, 130 runs. Open it in a browser.\n"
    text = page.read_text(encoding="utf-8")
    assert "Same policy in 30 of 30 pairs: agreement 1.000 (0.884–1.000), 1−ρ = 0.8 met." in text
    assert "replicable-rl audit two-goals-v1 phased-vi-v1:delta=0.001,epsilon=0.1 --shared-seeds 30 --runs 2" in text
    assert text.count("Two runs beside each other") == 3
    assert len(text) < 300_000
    assert main(["report", str(store), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == text  # the same bytes


def test_the_default_is_beside_the_store(store: Path) -> None:
    assert main(["report", str(store)]) == 0
    assert store.with_suffix(".html").is_file()


def test_a_store_read_back_is_the_audit_that_was_made(store: Path) -> None:
    made = rr.audit(GRID, PLAIN, shared_seeds=30, store=store)
    with RunStore(store) as opened:
        read = read_audit(opened, made.problem, made.algorithm, 0.95, StoredProblems())
    assert read.result is not None
    assert read.planned
    assert read.result.records == made.records
    assert read.result.mdp == made.mdp
    assert str(read.result.agreement()) == str(made.agreement())
    assert str(read.result.states.overall) == str(made.states.overall)


def test_two_runs_that_differ_are_shown_with_their_values(store: Path) -> None:
    page = store_page(store, algorithm="phased-vi-v1").page
    (picture,) = (block for block in page.sections[1].blocks if isinstance(block, PolicyPicture))
    assert picture.differing
    assert picture.layout == ("G.G", ".#.", ".S.")
    assert len(picture.data["states"][str(picture.first)]["rows"]) == 4


def test_what_to_show_can_be_chosen(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [store_page(store, problem="two-goals-v1").audits, store_page(store, algorithm="rpvi-v1").audits] == [2, 1]
    assert main(["report", str(store), "--problem", "two-goal-v1"]) == 2
    assert "Did you mean 'two-goals-v1'?" in capsys.readouterr().err


def test_an_interrupted_audit_is_reported_on_whole_seeds(tmp_path: Path) -> None:
    whole = rr.audit(rr.make("chain-v1"), PLAIN, shared_seeds=4, runs_per_seed=3, store=(path := tmp_path / "a.sqlite"))
    family, part = RunFamily(whole.problem, whole.algorithm), tmp_path / "b.sqlite"
    kept = [*whole.records[:6], *whole.records[6:8], whole.records[9]]  # 3, 3, 2 and 1 under four shared seeds
    arrays = {
        digest: encode_array(RunStore(path).array(digest)) for r in kept for digest in (r.policy, r.value) if digest
    }
    with RunStore(part) as opened:
        opened.add(family, kept, arrays)
        read = read_audit(opened, whole.problem, whole.algorithm, 0.95, StoredProblems())
    assert read.result is not None
    assert read.result.records == whole.records[:6]
    assert read.left_out == 3
    assert "<em>Left out:</em> 3 of 9 runs" in render(store_page(part).page)


def test_runs_without_a_pair_have_nothing_to_compare(tmp_path: Path) -> None:
    family = RunFamily(ObjectSpec("a"), ObjectSpec("b"))
    with RunStore(tmp_path / "a.sqlite") as opened:
        opened.add(family, [RunRecord(family.key(1, 1), 1, 1, policy="00" * 32)], {})
    assert "nothing to compare" in render(store_page(tmp_path / "a.sqlite").page)


def test_failures_are_counted_and_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    planted(path, ObjectSpec("mine"), ObjectSpec("train"), [[0, 1]] * 8, ["<b>out of memory</b>", "again"])
    text = render(store_page(path).page)
    assert "2 of 10 runs failed" in text
    assert "&lt;b&gt;out of memory&lt;/b&gt;" in text


def test_names_from_a_file_are_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>`*"
    path = tmp_path / "a.sqlite"
    params = {"rho": 0.2, evil: evil, "list": [evil], "nested": {evil: evil}}
    planted(path, ObjectSpec(evil, {evil: evil}), ObjectSpec(evil, params), [[0], [1]] * 3, [evil, evil])
    text = render(store_page(path, command=evil).page)
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert len(re.findall("<script", text)) == 2  # the data of one picture, and our own


def test_a_file_cannot_make_us_import_a_module_or_build_what_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    for id in ("gymnasium/trap:Env-v0", "trap:Env-v0", "gymnasium/CartPole-v1", "two-goals-v1", "gridworld-v1"):
        planted(path, ObjectSpec(id, {"gamma": "high"}), ObjectSpec("x"), [[0, 1], [1, 1]])
        planted(path, ObjectSpec(id), ObjectSpec("x"), [[0, 7], [1, 1]])
    sys.path.insert(0, str(tmp_path))
    try:
        assert store_page(path).audits == 10
    finally:
        sys.path.remove(str(tmp_path))
    assert "trap" not in sys.modules


def test_policies_that_do_not_fit_together_are_said_to(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    planted(path, ObjectSpec("mine"), ObjectSpec("train"), [[0, 1], [0, 1, 2]])
    assert "policies of several shapes" in render(store_page(path).page)


def test_a_large_store_makes_a_small_page_in_seconds(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.sqlite", np.random.default_rng(1)
    planted(path, ObjectSpec("mine"), ObjectSpec("train", {"rho": 0.5}), rng.integers(0, 9, (20_000, 50)).tolist())
    started = time.perf_counter()
    text = render(store_page(path).page)
    assert time.perf_counter() - started < 60
    assert len(text) < 200_000
    assert "measured under the first 1000 shared seeds" in text
    assert "19992 more policies are not listed" in text


def test_many_audits_make_a_small_page(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    for i in range(70):
        planted(path, ObjectSpec("mine"), ObjectSpec("train", {"i": i}), [[0, 1], [0, 2]])
    made = store_page(path)
    assert len(made.page.sections) == 61
    figure, table = made.page.sections[0].blocks
    assert isinstance(figure, Intervals)
    assert isinstance(table, DataTable)
    assert (len(figure.rows), len(table.rows)) == (40, 70)
    assert "The first 60 have a section below" in str(table.note)


@pytest.mark.parametrize("case", ["missing", "folder", "text", "empty file", "empty store", "other database"])
def test_what_is_no_store_is_refused_in_one_sentence(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sqlite"
    if case == "folder":
        path.mkdir()
    elif case == "text":
        path.write_text("no database at all, but long enough to be looked at")
    elif case == "empty file":
        path.touch()
    elif case == "empty store":
        RunStore(path).close()
    elif case == "other database":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE a (b)")
        connection.close()
    assert main(["report", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"replicable-rl: [^\n]+\.\n", said.err)
    assert path.exists() == (case != "missing")
    assert not path.with_suffix(".html").exists()


def test_an_output_that_cannot_be_is_refused(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.sqlite"
    RunStore(other).close()
    before = store.read_bytes()
    for output, reason in ((store, "database"), (other, "database"), (tmp_path / "no" / "a.html", "cannot be written")):
        assert main(["report", str(store), "-o", str(output)]) == 2
        assert reason in capsys.readouterr().err
    assert store.read_bytes() == before
    assert main(["report", str(store), "--confidence", "2"]) == 2
    assert "strictly between 0 and 1" in capsys.readouterr().err


def test_help_does_not_load_what_draws_pages() -> None:
    heavy = "{'jinja2', 'matplotlib'} & set(sys.modules)"
    code = f"import sys; from replicable_rl.cli import main; main(['--help']); print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


def test_what_is_no_store_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(rr.InvalidInput, match=r"none.sqlite: there is no such file. Make a store with"):
        store_page(tmp_path / "none.sqlite")
    with pytest.raises(rr.InvalidInput, match=r"empty.sqlite: is empty, and no run store"):
        store_page(tmp_path / "empty.sqlite")
