"""Files of every version are read: what they held is what they hold.

``tests/vectors/v1`` was written by version 1, ``v2`` by ``tests/vectors/store_v2.py``, also later, when rows had seals,
and ``v3`` by ``tests/vectors/store_v3.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.canonical import json_digest
from replicable_rl.errors import InvalidFile, UnknownId
from replicable_rl.records import AuditSpec, ObjectSpec, Run, RunFamily, derived_seed
from replicable_rl.solve.files import load_run, save_run
from replicable_rl.store import RunStore, upgrade
from tests.test_store import DIE, Made, audit, change, everything, found, processes, rows
from tests.vectors import store_v2

V1, V2 = (Path(__file__).parent / "vectors" / name for name in ("v1", "v2"))
FOLDERS: dict[str, Any] = json.loads((V1 / "solutions.json").read_text())
CHAIN = ObjectSpec("chain-v1")
RPVI = ObjectSpec("rpvi-v1", {"calls": 100_000, "delta": 0.01, "epsilon": 0.1, "iterations": 5, "rho": 0.2})
RMAX = ObjectSpec("replicable-rmax-v1", {"delta": 0.05, "epsilon": 0.2, "horizon": 5, "rho": 0.3})
TRAIN = ObjectSpec("train", {"rate": 0.5, "steps": 10**20})
FAMILIES = [RunFamily(CHAIN, RPVI), RunFamily(CHAIN, RMAX), RunFamily(ObjectSpec("callable"), TRAIN)]
AUDITS = [AuditSpec(CHAIN, RPVI, shared_seeds=3, rho=0.2), AuditSpec(CHAIN, RMAX, shared_seeds=3, rho=0.3)]
OTHER = AuditSpec(ObjectSpec("other"), ObjectSpec("other"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A copy of the golden store of version 1."""
    shutil.copyfile(V1 / "store-v1.sqlite", tmp_path / "runs.sqlite")
    return tmp_path / "runs.sqlite"


def version(path: Path) -> int:
    ((number,),) = rows(path, "PRAGMA user_version")
    return int(number)


def old_key(family: RunFamily, shared: int, sample: int) -> str:
    specs = {"problem": family.problem.to_json(), "algorithm": family.algorithm.to_json()}
    return json_digest({**specs, "shared_seed": str(shared), "sample_seed": str(sample)})


def extend(path: Path, family: RunFamily, seeds: list[tuple[int, int]]) -> None:
    """Add runs to a store of version 1, as version 1 did."""
    problem, algorithm = (f"'{json.dumps(spec.to_json())}'" for spec in (family.problem, family.algorithm))
    for document in (problem, algorithm):
        change(path, f"INSERT OR IGNORE INTO documents (json) VALUES (json({document}))")
    ids = ", ".join(f"(SELECT id FROM documents WHERE json = json({one}))" for one in (problem, algorithm))
    change(
        path,
        *(
            "INSERT INTO runs (key, problem, algorithm, shared_seed, sample_seed, policy, seconds) VALUES "
            f"(x'{old_key(family, shared, sample)}', {ids}, '{shared}', '{sample}', x'{sample:064x}', 0)"
            for shared, sample in seeds
        ),
    )


# --- stores of version 1 -----------------------------------------------------------------------------


def check_content(path: Path) -> None:
    """Check that a store holds what the golden one held."""
    expected = json.loads((V1 / "store-v1.json").read_text())
    with RunStore(path) as store:
        assert store.families() == list(zip(FAMILIES, [6, 6, 1], strict=True))
        for family, (problem, algorithm, records, solutions, failures) in zip(
            FAMILIES, expected["content"], strict=True
        ):
            assert [family.problem.to_json(), family.algorithm.to_json()] == [problem, algorithm]
            runs = store.runs(family)
            described = {one["run"]: one for one in solutions}
            for run, record in zip(runs.values(), records + failures, strict=True):
                check_run(run, record, described.get(record[0]))
                assert run.key == family.key(*record[1:3])
                assert store.run(run.key) == run
        same = [[level, n, one.pairs] for one in store.summary()[:2] for level, n in one.same.items()]
        assert same == [line[:3] for line in expected["agreements"]]
        assert store.audits()[:2] == AUDITS
        assert [[store.finished([run.digest]) for run in spec.runs] for spec in AUDITS] == [
            [{run.digest} for run in spec.runs] for spec in AUDITS
        ]


def check_run(run: Run, record: list[Any], described: dict[str, Any] | None) -> None:
    key, shared, sample, policy, value, model, history, samples, seconds, _, _, error = record
    assert key == old_key(RunFamily(run.spec.problem, run.spec.algorithm), shared, sample)  # type: ignore[union-attr]
    assert (run.shared_seed, run.sample_seed, run.samples) == (shared, sample, samples)
    assert (run.seconds, run.error, run.history_digest) == (seconds, error, history)
    prints = {"policy": policy, "value": value, "model": model}
    assert run.fingerprints == {name: one.ljust(64, "0") for name, one in prints.items() if one is not None}
    assert run.made_with == {"replicable-rl": "0.1.0", "schema": "1"}
    if described is None:
        assert len(run.claims) == 0
        return
    assert run.status is not None
    assert run.status.to_json() == described["status"]
    assert (run.policy.tolist(), run.q.tolist()) == (described["policy"], described["q"])
    assert {name: column.tolist() for name, column in run.history.items()} == described["history"]
    check_claims(run, described["guarantee"])


def check_claims(run: Run, guarantee: dict[str, Any]) -> None:
    """What was proved is said in words of its own: the old sentence spoke of what was proved and of what was not."""
    epsilon, delta, rho = (guarantee[name] for name in ("epsilon", "delta", "rho"))
    for about, bound, failure, said in (
        ("accuracy", epsilon, delta, f"the error is at most {epsilon}, except with probability {delta}"),
        ("replicability", rho, 0.0, f"two runs differ with probability at most {rho}"),
    ):
        claim = getattr(run.claims, about)
        if bound is None:
            assert claim is None
            assert run.claims.missing[about] == "version 1 recorded no proof"
            continue
        source = f"{guarantee['theorem']}, as recorded by version 1"
        assert (claim.kind, claim.source, claim.statement) == ("proved", source, said)
        assert (claim.bound, claim.failure) == (bound, failure)
    assert "measured" not in str(run.claims)
    assert run.model is None or run.model.estimated


def test_stores_of_version_1_are_read_and_stay_as_they_are(path: Path) -> None:
    before = path.read_bytes()
    check_content(path)
    store = RunStore(path)
    store.close()
    assert len(store.runs(FAMILIES[0])) == 6  # a store that was closed
    for spec in AUDITS:
        store.add_audit(spec)  # it is there already
    told = rr.audit(rr.make("chain-v1"), rr.make_algorithm(RPVI.id, **RPVI.params), shared_seeds=3, store=path)
    said = "runs were made with versions that were not recorded. Two runs may differ because of that"
    assert told.runs
    assert said in " ".join(told.table().split())
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("closed", [False, True])
def test_the_first_write_makes_it_a_store_of_today(path: Path, closed: bool) -> None:
    with RunStore(path) as store:
        kept = found([run for family in FAMILIES[:2] for run in store.runs(family).values()])
        if closed:
            store.close()
        store.add_audit(OTHER)
        assert version(path) == 3
        assert store.audits() == [*AUDITS, OTHER]
        assert found([run for family in FAMILIES[:2] for run in store.runs(family).values()]) == kept
    check_content(path)
    tables = rows(path, "SELECT name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    RunStore(path.with_name("new.sqlite")).close()
    assert tables == rows(
        path.with_name("new.sqlite"), "SELECT name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
    )
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_audit_of_version_1_is_resumed_and_extended(path: Path) -> None:
    watch, spec = Made(), AuditSpec(CHAIN, RPVI, shared_seeds=4, rho=0.2)
    audit(spec, path, watch.run)
    assert watch.specs == spec.runs[6:]
    assert version(path) == 3
    with RunStore(path) as store:
        assert [runs for _, runs in store.families()] == [8, 6, 1]
        assert store.audits() == [*AUDITS, spec]
    result = rr.audit(rr.make("chain-v1"), rr.make_algorithm(RPVI.id, **RPVI.params), shared_seeds=5, store=path)
    assert [run.made_with.get("schema") for run in result.runs] == ["1"] * 6 + [None] * 4
    assert result.agreement("policy").pairs == 5


@pytest.mark.parametrize("closed", [False, True])
def test_stores_of_version_1_that_cannot_be_written(path: Path, closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    monkeypatch.setattr(os, "access", lambda asked, mode: mode != os.W_OK)
    check_content(path)
    with RunStore(path) as store:
        if closed:
            store.close()
        for _ in range(2):
            with pytest.raises(InvalidFile, match=rf"^{path}: the file cannot be written .*copy it"):
                store.add_audit(OTHER)
            assert [runs for _, runs in store.families()] == [6, 6, 1]
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == [path]


def test_killed_at_every_statement_of_the_upgrade(path: Path) -> None:
    code = f"""{DIE}
from tests.test_old_files import *
versions, golden = [], Path(sys.argv[2])
for statement in range(0, 1000, 8):
    path = golden.with_name(f"{{statement}}.sqlite")
    shutil.copyfile(golden, path)
    closed = pickled(RunStore(path))
    if not killed(statement, lambda: closed.add([], {{}})): break
    versions.append(version(path))
    check_content(path)
    closed.add([], {{}})
    assert version(path) == 3
    assert len(closed.runs(FAMILIES[1])) == 6
print(versions)
"""
    versions = json.loads(processes(1, code, path)[0])
    assert versions == sorted(versions)
    assert set(versions) == {1, 3}
    assert len(versions) > 8


def test_two_processes_may_upgrade_one_file(path: Path) -> None:
    code = """
from tests.test_old_files import *
with RunStore(sys.argv[2]) as store:
    audit(AuditSpec(CHAIN, RPVI, shared_seeds=20, rho=0.2), store)
    print(len(store.runs(FAMILIES[0])), len(store.audits()))
"""
    assert processes(2, code, path) == ["40 3\n"] * 2
    assert version(path) == 3
    change(path, "DELETE FROM audits WHERE id > 2")
    with RunStore(path) as store:
        assert [runs for _, runs in store.families()] == [40, 6, 1]


def test_what_is_damaged_in_version_1_is_one_sentence(path: Path) -> None:
    sound, said = path.read_bytes(), set()
    rng = np.random.default_rng(1)
    for start in range(0, len(sound), 2039):
        damaged = bytearray(sound)
        damaged[start : start + 40] = rng.bytes(len(damaged[start : start + 40]))
        path.write_bytes(damaged)
        try:
            everything(path)
        except rr.InvalidInput as error:
            said.add(str(error))
        assert path.read_bytes() == damaged
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert any("the file is damaged" in sentence for sentence in said)
    assert not [sentence for sentence in said if "Finished runs are kept" in sentence or "gone" in sentence]


@pytest.mark.parametrize(
    "statement",
    [
        *("UPDATE runs SET sample_seed = '7' WHERE id = 1", "UPDATE runs SET algorithm = 5 WHERE id = 1"),
        *("UPDATE runs SET guarantee = 3 WHERE id = 1", "UPDATE runs SET guarantee = 99 WHERE id = 1"),
        *("UPDATE failures SET sample_seed = '7'", "UPDATE runs SET policy = 'text' WHERE id = 1"),
        *("DROP TABLE arrays", "UPDATE documents SET json = '{' WHERE id = 2"),
    ],
)
def test_rows_of_version_1_that_were_changed_are_found_out(path: Path, statement: str) -> None:
    change(path, "DROP TRIGGER finished_runs_never_change", statement)
    change(path, "CREATE TRIGGER finished_runs_never_change BEFORE UPDATE ON runs BEGIN SELECT 1; END")
    with pytest.raises(InvalidFile, match=rf"^{path}: the file is damaged \("):
        RunStore(path)
    assert version(path) == 1


def test_damaged_arrays_of_version_1_are_found_by_who_reads_them(path: Path) -> None:
    change(path, "UPDATE arrays SET data = x'0102' WHERE id = 2", "UPDATE arrays SET dtype = '|O' WHERE id = 3")
    change(path, "UPDATE arrays SET shape = 'x' WHERE id = 4", "UPDATE arrays SET data = 'text' WHERE id = 5")
    with RunStore(path) as store:
        first, *others = store.runs(FAMILIES[0]).values()
        for run in (first, *others[:3]):
            assert run.policy.size == 5
            with pytest.raises(InvalidFile, match="is damaged"):
                run.q  # noqa: B018
        assert others[-1].q.shape == (5, 2)


# --- the audits that made the runs of version 1 ------------------------------------------------------


def seeds_of(spec: AuditSpec) -> list[tuple[int, int]]:
    return [(run.shared_seed, run.sample_seed or 0) for run in spec.runs]


def own(id: str = "own-v1", problem: str = "chain-v1", **options: Any) -> AuditSpec:
    return AuditSpec(ObjectSpec(problem), ObjectSpec(id), **options)


def audits_of(path: Path, *specs: AuditSpec, without: int = 0) -> list[AuditSpec]:
    """Make the runs of audits in a store of version 1, and return the audits that are found there."""
    for spec in specs:
        extend(path, RunFamily(spec.problem, spec.algorithm), seeds_of(spec)[: spec.size - without])
    with RunStore(path) as store:
        found = store.audits()
    assert found[:2] == AUDITS
    return found[2:]


@pytest.mark.parametrize(
    "spec",
    [
        own(shared_seeds=4),
        own(shared_seeds=2, runs_per_seed=5),
        own(shared_seeds=3, seed=2023),
        own(shared_seeds=3, seed=54_321),
        own(shared_seeds=(7, 2**64 - 1, 1)),
        own(shared_seeds=(5, 9), seed=3),
        own(shared_seeds=(5, 9), seed=77_777, runs_per_seed=3),
        own(shared_seeds=3, problem="simulator", sampler="own"),
        own(shared_seeds=3, problem="episodes/x", sampler="own"),
    ],
)
def test_audits_of_version_1_are_found_again(path: Path, spec: AuditSpec) -> None:
    assert audits_of(path, spec) == [spec]
    with RunStore(path) as store:
        assert list(store.runs(spec.family)) == [run.digest for run in spec.runs]


def test_interrupted_and_extended_audits_of_version_1(path: Path) -> None:
    assert audits_of(path, own("cut", shared_seeds=5), without=1) == [own("cut", shared_seeds=4)]
    triples = [own("triples", shared_seeds=seeds, runs_per_seed=3) for seeds in (4, 3)]
    assert audits_of(path, triples[0], without=1)[1:] == triples[1:]  # the last seed has two runs
    wide = own("wide", shared_seeds=5)
    deep = own("wide", shared_seeds=1, runs_per_seed=4)
    new = [pair for pair in seeds_of(deep) if pair not in seeds_of(wide)]
    extend(path, wide.family, seeds_of(wide) + new)
    mixed = [own("mixed", shared_seeds=2), own("mixed", shared_seeds=3, seed=1)]
    gap = own("gap", shared_seeds=4)
    extend(path, gap.family, seeds_of(gap)[2:])
    single = own("single", shared_seeds=2)
    extend(path, single.family, seeds_of(single)[::2])
    strange = own("strange", shared_seeds=2)
    extend(path, strange.family, [(7, 1), (7, 2), (8, 1), (8, 2)])
    expected = [wide, own("gap", shared_seeds=gap.seeds[1:]), *mixed]
    assert audits_of(path, *mixed)[2:] == expected


def test_seeds_that_cannot_be_found_hide_no_others_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "_SEEDS", 100)
    beyond, listed = own(shared_seeds=30, seed=2**40), own(shared_seeds=(5, 9), seed=3)
    later, ours = own("later", shared_seeds=3, seed=7), own("zero", shared_seeds=3)
    both = [own("both", shared_seeds=(5, 9), seed=seed) for seed in (3, 4)]
    assert audits_of(path, beyond, listed, later, ours, *both) == [listed, later, ours, *both]


def test_every_run_of_an_audit_that_is_found_is_in_the_store(path: Path) -> None:
    for seed in (0, 5):
        shared = [derived_seed("shared", seed, j) for j in (0, 3, 4, 9)]
        extend(path, own().family, [(s, derived_seed("sample", seed, s, i)) for s in shared for i in range(3)])
    found = audits_of(path)
    assert len(found) == 2
    with RunStore(path) as store:
        for spec in found:
            assert set(store.runs(spec.family)) >= {run.digest for run in spec.runs}
            assert spec.size == 12


# --- directories and problems of version 1 -----------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_directories_of_version_1_are_read(name: str, tmp_path: Path) -> None:
    run, held = load_run(V1 / f"solution-{name}"), FOLDERS[name]
    assert run.spec is not None
    assert run.status is not None
    assert run.status.to_json() == held["status"]
    assert run.fingerprints == {level: one for level, one in held["fingerprints"].items() if one is not None}
    assert (run.policy.tolist(), run.q.tolist(), run.value.tolist()) == (held["policy"], held["q"], held["value"])
    assert {column: array.tolist() for column, array in run.history.items()} == held["history"]
    assert str(run.samples) == held["samples"]
    assert (str(run.shared_seed), str(run.sample_seed)) == (held["spec"]["shared_seed"], held["spec"]["sample_seed"])
    assert run.made_with == {"replicable-rl": "0.1.0", "schema": "1"}
    check_claims(run, held["guarantee"])
    save_run(run, tmp_path / "run")  # as version 2
    assert load_run(tmp_path / "run") == run


@pytest.mark.parametrize("name", FOLDERS)
def test_what_version_1_computed_is_computed_again_bit_for_bit(name: str) -> None:
    run = load_run(V1 / f"solution-{name}")
    assert run.spec is not None
    if name == "rmax":  # it can be read and shown, and that is all
        with pytest.raises(UnknownId, match=r"^replicable-rmax-v1 is retired: .* Use replicable-rmax-v2\.$"):
            rr.make_algorithm(run.spec.algorithm.id, **run.spec.algorithm.params)
        return
    problem, algorithm = (
        rr.make(run.spec.problem.id),
        rr.make_algorithm(run.spec.algorithm.id, **run.spec.algorithm.params),
    )
    again = rr.solve(problem, algorithm, shared_seed=run.shared_seed, sample_seed=run.sample_seed)
    assert (again.spec, again.fingerprints, again.samples) == (run.spec, run.fingerprints, run.samples)
    assert again.history_digest == run.history_digest


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()  # and not a copy of the folder, which may not be writable
    for file in (V1 / "solution-rmax").iterdir():
        shutil.copyfile(file, tmp_path / "run" / file.name)
    return tmp_path / "run"


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    record = json.loads((folder / "solution.json").read_text(encoding="utf-8"))
    change(record)
    (folder / "solution.json").write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda r: r["fingerprints"].update(value="0" * 64),
            r"do not have the fingerprints recorded; they were changed",
        ),
        (lambda r: r["fingerprints"].update(model=None), r"do not have the fingerprints recorded"),
        (lambda r: r["spec"].update(sample_seed="4"), r"the spec does not have the digest recorded; it was changed"),
        (lambda r: r["spec"]["algorithm"]["params"].update(rho=0.3001), r"the spec does not have the digest recorded"),
        (lambda r: r.update(spec=None), r"the spec does not have the digest recorded"),
        (lambda r: r["spec"].update(sample_seed=4), r"must be a string of decimal digits, got 4"),
        (lambda r: r["spec"].update(problem=3), r"expected an object with 'id' and 'params', got 3"),
        (lambda r: r.update(samples=5), r"samples must be a string of decimal digits, got 5"),
        (lambda r: r["guarantee"].update(rho="small"), r"a guarantee of version 1 was expected, got"),
        (lambda r: r["guarantee"].update(sentence=None), r"a guarantee of version 1 was expected, got"),
        (lambda r: r["guarantee"].pop("kind"), r"not a replicable-rl run \('kind'\)"),
        (lambda r: r.update(format="replicable-rl run"), r"run: not a replicable-rl solution\.$"),
        (lambda r: r.update(version=2), r"run: format version 2 is not 1\."),
    ],
)
def test_directories_of_version_1_that_were_changed(
    old: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    load_run(old)
    edit(old, change)
    with pytest.raises(InvalidFile, match=message) as refused:
        load_run(old)
    assert str(refused.value).startswith(f"{old}: ")


def _changed(path: Path) -> None:
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    arrays["q"][0, 0] = np.nextafter(arrays["q"][0, 0], np.inf)
    np.savez(path, **arrays)


def _pickled(path: Path) -> None:
    np.savez(path, policy=np.array([{"a": 1}], dtype=object), q=np.zeros((5, 2)))


def _encrypted(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(signature, at + 4)
    path.write_bytes(content)


def _badly_compressed(path: Path) -> None:
    np.savez_compressed(path, policy=np.zeros(5, dtype=np.int64), q=np.zeros((5, 2)))
    content = bytearray(path.read_bytes())
    start = 30 + len("policy.npy") + 20  # after the local header and its 64-bit sizes
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)


def _huge(path: Path) -> None:
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy.npy", header.ljust(127) + b"\n")


@pytest.mark.parametrize("spoil", [_changed, _pickled, _encrypted, _badly_compressed, _huge, Path.unlink])
def test_arrays_of_version_1_that_cannot_be_read(old: Path, spoil: Callable[[Path], None]) -> None:
    spoil(old / "arrays.npz")
    with pytest.raises(InvalidFile, match=rf"^{old}: (not a replicable-rl run \(|the outputs do not have)"):
        load_run(old)


def test_models_of_version_1_that_are_others(old: Path) -> None:
    (old / "model.npz").write_bytes(b"no model")
    with pytest.raises(InvalidFile, match=r"model\.npz: not a replicable-rl mdp file"):
        load_run(old)
    shutil.copyfile(V1 / "solution-model/model.npz", old / "model.npz")
    with pytest.raises(InvalidFile, match="do not have the fingerprints recorded"):
        load_run(old)
    (old / "model.npz").unlink()
    with pytest.raises(InvalidFile, match="do not have the fingerprints recorded"):
        load_run(old)


def test_problems_of_version_1_are_read(tmp_path: Path) -> None:
    assert rr.load_mdp(V1 / "two-goals.npz") == rr.make("two-goals-v1")
    own = rr.load_mdp(V1 / "own.npz")
    assert own.digest == "3aff47caabe88c1e3f0dbcb5cef66673defb8e0cdfd42333cfe621bb49912620"
    assert (own.labels.states, own.labels.actions, own.gamma) == (("on", "off"), ("wait", "act"), 0.9)
    for name in ("two-goals.npz", "own.npz"):
        mdp = rr.load_mdp(V1 / name)
        assert not mdp.estimated
        mdp.save(tmp_path / name)
        again = rr.load_mdp(tmp_path / name)
        assert (again, again.digest, again.labels) == (mdp, mdp.digest, mdp.labels)


# --- stores of versions 2 and 3 -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v2/store-v2", "v2/store-v2-sealed", "v3/store-v3"])
def test_stores_of_later_versions_are_read(tmp_path: Path, name: str) -> None:
    path, golden = tmp_path / "runs.sqlite", V2.parent / f"{name}.sqlite"
    said = json.loads(golden.with_suffix(".json").read_text())
    shutil.copyfile(golden, path)
    with RunStore(path) as store:
        assert store_v2.described(store) == said
        runs, watch = sum(n for _, n in store.families()), Made()
        for spec in store.audits():
            audit(spec, store, watch.run)
        assert watch.specs == []
        assert sum(n for _, n in store.families()) == runs
        assert version(path) == int(name[1])  # nothing was written
        store.add_audit(OTHER)
        assert version(path) == 3
    change(path, "DELETE FROM audits WHERE json LIKE '%other%'")
    with closing(RunStore(path)) as store:
        assert store_v2.described(store) == said
        sealed = {run.sealed for spec in store.audits() for run in store.runs(spec.family).values()}
        assert sealed == {name != "v2/store-v2"}
