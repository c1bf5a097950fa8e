"""``replicable-rl report``: what the page of a store says, and one sentence for every bad input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import replicable_rl as rr
from replicable_rl.audit import read_audits
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.canonical import to_json
from replicable_rl.cli import main
from replicable_rl.runs import Claims, ObjectSpec, Run, RunSpec
from replicable_rl.store import RunStore, packed
from tests.documents import store_text

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


def add(path: Path, runs: Sequence[Run], spec: AuditSpec | None) -> None:
    """Write runs with their outputs, and the audit that asks for them."""
    contents: dict[str, bytes] = {}
    with RunStore(path) as opened:
        opened.add([packed(run, contents) for run in runs], contents)
        if spec is not None:
            opened.add_audit(to_json(spec))


def made(spec: RunSpec, policy: Sequence[int], claims: Claims | None = None) -> Run:
    return Run.of({"policy": policy}, claims=claims).completed(spec)


def planted(
    path: Path, problem: ObjectSpec, algorithm: ObjectSpec, outputs: Sequence[Sequence[int]], errors: Sequence[str] = ()
) -> AuditSpec:
    """Write runs with these policies, two under every shared seed, and failures."""
    spec = AuditSpec(problem, algorithm, (len(outputs) + len(errors)) // 2, rho=algorithm.params.get("rho"))
    runs = [made(run, output) for run, output in zip(spec.runs, outputs, strict=False)]
    runs += [Run.failed(run, error) for run, error in zip(spec.runs[len(runs) :], errors, strict=True)]
    add(path, runs, spec)
    return spec


def test_a_page_of_audits(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(store), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}: 3 audits, 130 runs. Open it in a browser.\n"
    written = page.read_text(encoding="utf-8")
    assert "Same policy in 30 of 30 pairs: agreement 1.000 (0.859–1.000)" in written
    assert 'd="M85.89 5H100.00"' in written  # the bar is the one that gives the verdict
    assert len(written) < 300_000
    assert main(["report", str(store), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == written  # the same bytes


def test_an_interrupted_audit_is_reported_on_whole_seeds(tmp_path: Path) -> None:
    path, part = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    whole = rr.audit(rr.make("chain-v1"), PLAIN, shared_seeds=4, runs_per_seed=3, store=path)
    kept = [*whole.runs[:8], whole.runs[9]]  # 3, 3, 2 and 1 under four shared seeds
    with RunStore(path) as opened:
        add(part, [opened.run(run.key) for run in kept], whole.spec)
    assert "6 of 12 runs are judged" in store_text(part)
    with RunStore(part) as opened:
        (read,) = read_audits(opened)
    assert read.runs == whole.runs[:6]
    assert "missing runs" in str(read)


def test_what_is_required_decides_on_the_page(tmp_path: Path) -> None:
    for required, verdict in ((0.9, "Undecided: the interval contains"), (0.5, "Met: it is at least")):
        spec = AuditSpec(ObjectSpec("a"), ObjectSpec("b"), 10, require=required)
        add(tmp_path / f"{required}.sqlite", [made(run, [0]) for run in spec.runs], spec)
        assert f"{verdict} the required {required}." in store_text(tmp_path / f"{required}.sqlite")


def test_failures_are_counted_and_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    planted(path, ObjectSpec("mine"), ObjectSpec("train"), [[0, 1]] * 8, ["<b>out of memory</b>", "again"])
    written = store_text(path)
    assert "2 of 10 runs failed" in written
    assert "<b>out of memory</b>" in written


def test_names_from_a_file_are_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>`*"
    path = tmp_path / "a.sqlite"
    params = {"rho": 0.2, evil: evil, "list": [evil], "nested": {evil: evil}}
    planted(path, ObjectSpec(evil, {evil: evil}), ObjectSpec(evil, params), [[0], [1]] * 3, [evil, evil])
    assert main(["report", str(path)]) == 0
    page = path.with_suffix(".html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img src=x" not in page


def test_a_file_cannot_make_us_import_a_module_or_build_what_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    for id in ("gymnasium/trap:Env-v0", "trap:Env-v0", "gymnasium/CartPole-v1", "two-goals-v1", "gridworld-v1"):
        planted(path, ObjectSpec(id, {"gamma": "high"}), ObjectSpec("x"), [[0, 1], [1, 1]])
        planted(path, ObjectSpec(id), ObjectSpec("x"), [[0, 7], [1, 1]])
    sys.path.insert(0, str(tmp_path))
    try:
        store_text(path)
    finally:
        sys.path.remove(str(tmp_path))
    assert "trap" not in sys.modules


def test_an_output_that_cannot_be_is_refused(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.sqlite"
    RunStore(other).close()
    before = store.read_bytes()
    for output, reason in ((store, "database"), (other, "database"), (tmp_path / "no" / "a.html", "cannot be written")):
        assert main(["report", str(store), "-o", str(output)]) == 2
        assert reason in capsys.readouterr().err
    assert store.read_bytes() == before
