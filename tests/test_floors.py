"""What the lowest declared versions do otherwise, asked for with today's: `make floors` has the versions themselves."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement

import replicable_rl as rr

LOG: dict[str, Any] = {"state": ["a", "b"], "action": ["x", "y"], "reward": [1.0, 0.0], "next_state": ["b", "a"]}


@pytest.mark.parametrize("mask", [None, [[True, True], [True, False]]])
def test_what_is_saved_can_be_loaded(mask: Any, tmp_path: Path) -> None:
    P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])
    mdp = rr.TabularMDP.from_dense(P, np.eye(2), gamma=0.5, layout="sas", allowed=mask)
    rr.save(mdp, tmp_path / "mdp.npz")
    assert rr.load(tmp_path / "mdp.npz") == mdp
    for more in ({}, {"initial": [0.5, 0.5]}, {"episode": "walk", "order": "step"}):
        data = rr.from_transitions({**LOG, "walk": [1, 1], "step": [1, 2]}, gamma=0.9, **more)
        rr.save(data, tmp_path / "log.npz")
        assert rr.load(tmp_path / "log.npz") == data
    run = rr.solve(mdp, rr.ReplicableApproximateMDP(0.1, 0.01, 0.2), shared_seed=1, sample_seed=1)
    rr.save(run, tmp_path / "run")
    assert rr.load(tmp_path / "run") == run
    again: dict[str, Any] = {"shared_seeds": 2, "store": tmp_path / "runs.sqlite"}
    audits = [rr.audit(mdp, rr.ReplicableApproximateMDP(0.1, 0.01, 0.2), **again) for _ in range(2)]
    assert [run.model for run in audits[0].runs] == [run.model for run in audits[1].runs]


def test_json_lines_are_read(tmp_path: Path) -> None:
    rows = [dict(zip(LOG, row, strict=True)) for row in zip(*LOG.values(), strict=True)]
    for name in ("log.jsonl", "log.ndjson"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert rr.from_transitions(tmp_path / name, gamma=0.9) == rr.from_transitions(LOG, gamma=0.9)
    assert rr.from_transitions(str(tmp_path / "*.jsonl"), gamma=0.9).rows == 2


def test_a_file_without_a_value_has_no_type_of_its_own(tmp_path: Path) -> None:
    ends: dict[str, Any] = {"action": [0, 0], "reward": [0.0, 1.0]}
    for names in (["a", "b"], [1, 2]):
        log, nothing = ends | {"state": names, "next_state": names, "over": [0, 1]}, {"next_state": pa.nulls(2)}
        pq.write_table(pa.table(log | nothing | {"over": [1, 1]}), tmp_path / "1.parquet")
        pq.write_table(pa.table(log), tmp_path / "2.parquet")
        data = rr.from_transitions(tmp_path, gamma=0.9, done="over")
        assert (data.rows, data.process.states) == (4, (*names, "(end)"))


BROKEN = {  # versions that were seen to fail
    "typer": ("0.15.0", "0.15.1", "0.15.2", "0.15.3"),  # --help ends with a TypeError
    "joblib": ("1.4.0", "1.4.2"),  # a process that was sent what cannot be written may never end
    "matplotlib": ("3.9.0", "3.10.6"),  # warn of pyparsing 3.3, and of themselves
    "pandas": ("2.2.0", "2.2.1"),  # do not know NumPy 2
    "polars": ("1.20.0", "1.24.0"),  # the benchmarks ask for its streaming engine by name
    "ruff": ("0.0.13",),  # cannot be built
}


def test_no_version_is_declared_that_is_known_to_fail() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    declared = [Requirement(one) for some in (project["dependencies"], *extras) for one in some]
    for one in declared:
        assert one.specifier or one.name == "replicable-rl", f"{one.name} has no floor"
        assert not [version for version in BROKEN.get(one.name, ()) if version in one.specifier]
