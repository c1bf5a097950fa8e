"""``replicable-rl audit module:function``: training code of somebody's own on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replicable_rl.cli.main import main

SCRIPT = '''
import numpy as np

if __name__ == "__main__":
    raise SystemExit("a script is not run when it is imported")


def train(shared_seed, sample_seed):
    """Four choices, each by a coin of the sample."""
    return np.random.default_rng(sample_seed).integers(2, size=4).tolist()


def steady(shared_seed, sample_seed):
    return [int(x) for x in np.random.default_rng(shared_seed).integers(2, size=5)] if sample_seed >= 0 else []


def thresholds(shared_seed, sample_seed):
    cut = np.random.default_rng(sample_seed).random()
    return lambda observation: int(observation > cut)


def slopes(shared_seed, sample_seed):
    slope = 1.0 + 0.001 * np.random.default_rng(sample_seed).random()
    return lambda observation: slope * observation


def weights(shared_seed, sample_seed):
    return {"w": np.random.default_rng(sample_seed).integers(2, size=3)}


def fails(shared_seed, sample_seed):
    return inside(sample_seed)


def inside(sample_seed):
    raise ArithmeticError("the learning rate exploded")


def earned(policy, seed):
    return float(sum(policy)) + np.random.default_rng(seed).normal(size=2)


def data(sample_seed):
    return b"always the same"


def one_seed(seed):
    return [0]


points = np.linspace(0.0, 1.0, 5)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, called otherwise in every test: Python keeps modules by their names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / f"script_{tmp_path.name.replace('-', '_')}.py").write_text(SCRIPT)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], folder: Path, arguments: str) -> tuple[int, str, str]:
    (script,) = folder.glob("script_*.py")
    code = main(["audit", *arguments.replace("S:", f"{script.name}:").replace("M:", f"{script.stem}:").split()])
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), err


def test_a_script_and_a_module_are_one_audit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--shared-seeds 20 --evaluate M:earned --uniform 0.5 --rho 0.5 --json"
    told = [run(capsys, folder, f"{name}train {options}") for name in ("S:", "M:")]
    assert told[0] == told[1]
    code, out, err = told[0]
    assert (code, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    assert data["algorithm"]["id"].endswith(":train")
    assert data["rho"] == 0.5
    assert data["returns"]["mean"]["low"] < data["returns"]["mean"]["estimate"]
    assert data["warnings"] == []
    assert all(int(seed) < 2**32 for seed in data["shared_seeds"])


def test_exit_codes_follow_what_is_required(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, folder, "S:train --shared-seeds 30 --require 0.9")[0] == 1
    assert run(capsys, folder, "S:steady --shared-seeds 60 --require 0.9")[0] == 0
    assert run(capsys, folder, "S:steady --shared-seeds 2 --require 0.9")[0] == 3
    code, out, _ = run(capsys, folder, "S:steady --shared-seeds 60 --require 0.9 --data S:data")
    assert code == 3  # nothing was sampled: nothing is shown
    assert out.startswith("Warning: Nothing was fresh, for two sample seeds gave the same data")
    code, out, _ = run(capsys, folder, "chain-v1 S:steady --shared-seeds 60 --require 0.9 --epsilon 0.01")
    assert code == 1  # they agree, and lose more
    assert "required 0.9 met, ε = 0.01 not met." in out


def test_functions_of_observations_weights_and_close_actions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("points.npy", np.linspace(0.0, 1.0, 5))
    by_name = run(capsys, folder, "S:thresholds --shared-seeds 5 --probe S:points")
    assert by_name == run(capsys, folder, "S:thresholds --shared-seeds 5 --probe points.npy")
    assert "of the 5 observations" in by_name[1]
    code, out, _ = run(capsys, folder, "S:slopes --shared-seeds 5 --probe points.npy --tolerance 0.01")
    assert code == 0
    assert "Actions at most 0.01 apart on every observation: 5 of 5 pairs" in out
    code, out, _ = run(capsys, folder, "S:weights --shared-seeds 5 --level bytes")
    assert code == 0
    assert "Same bytes in" in out


def test_a_store_asks_for_a_version_and_resumes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, folder, "S:train --store runs.sqlite")
    assert code == 2
    assert "is code of your own" in err
    assert "Pass --version 1, and change it whenever the code changes" in err
    first = run(capsys, folder, "S:train --shared-seeds 3 --store runs.sqlite --version 1 --evaluate S:earned")
    again = run(capsys, folder, "S:train --shared-seeds 3 --store runs.sqlite --version 1 --evaluate S:earned")
    assert first == again
    code = main(["audit", "--store", "runs.sqlite"])
    assert code == 0
    assert "Mean return" in capsys.readouterr().out


def test_the_traceback_of_a_failing_run_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, folder, "S:fails --shared-seeds 2")
    assert (code, out) == (2, "")
    assert err.startswith("Traceback (most recent call last):")
    assert ", in inside\n" in err
    assert err.splitlines()[-1].startswith("replicable-rl: audit: run 1 of 4 ")
    code, out, err = run(capsys, folder, "S:fails --shared-seeds 2 --on-error record")
    assert code == 0
    assert "4 of 4 runs failed" in out
    assert "The first failure of a run:\nTraceback" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("S:trian", "there is no 'trian' in it. Did you mean 'train'?"),
        ("S:one_seed", "one_seed must take two seeds, train(shared_seed, sample_seed)"),
        ("S:points", "train must be a function of (shared_seed, sample_seed)"),
        ("nowhere.py:train", "audit nowhere.py: there is no such file."),
        ("no_such_module:train", "audit no_such_module: cannot be imported (ModuleNotFoundError"),
        ("quits.py:train", "audit quits.py: cannot be imported (SystemExit: usage)"),
        ("json.py:train", "another module is called 'json'. Give the file another name."),
        ("S:train --horizon 3", "--horizon is for algorithms of this library"),
        ("a.csv b.csv S:train", "takes seeds, not logs"),
        ("S:train --state s", "--state"),
        ("S:thresholds", "Pass probe=... (--probe)"),
        ("S:train --uniform 0.5", "Pass evaluate=... (--evaluate), too."),
        ("S:train --epsilon 0.1", "PROBLEM before the function"),
        ("S:thresholds --probe none.npy", "--probe none.npy: No such file or directory."),
        ("S:thresholds --probe quits.npy", "--probe quits.npy: is no file of arrays"),
        ("S:train --evaluate Nothing-v0", "no environment is registered as 'Nothing-v0'"),
        ("chain-v1 phased-vi-v1 --evaluate M:earned", "--evaluate is for training code of your own"),
        ("chain-v1", "or module:function."),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "quits.py").write_text("raise SystemExit('usage')")
    (folder / "json.py").write_text("def train(a, b): return [0]")
    (folder / "quits.npy").write_text("no arrays")
    code, out, err = run(capsys, folder, f"{arguments} --shared-seeds 2")
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_workers_find_a_script_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "my-agent.py").write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-c", "import sys; from replicable_rl.cli.main import main; sys.exit(main())"]
    words = ["audit", "there/my-agent.py:train", "--shared-seeds", "3", "--jobs", "2", "--json"]
    done = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["algorithm"]["id"] == "my-agent:train"
