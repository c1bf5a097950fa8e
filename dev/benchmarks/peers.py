"""The peers: who is installed, and how they are called. What is not installed is '-' in the tables.

    python -m dev.benchmarks.peers        # install them one by one; one that fails is left out

QuantEcon, mdpsolver, pandas and Polars are the extra ``bench``. rlberry-scool needs an older Gymnasium than this
package does, so it lives in an environment of its own, inside this one.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from replicable_rl.problem.table import TabularMDP

__all__ = ["absence", "installed", "mbqvi_seconds", "scool_python", "versions"]

_ROOT = Path(__file__).resolve().parents[2]
_SCOOL = Path(sys.prefix) / "peers" / "rlberry-scool"


def installed(package: str) -> bool:
    """Say whether a peer can be imported here."""
    return importlib.util.find_spec(package) is not None


def absence(name: str) -> str:
    """Return the footnote of a peer that is not there."""
    return f"{name} is not installed here."


def versions() -> dict[str, str]:
    """Return the versions of the peers that are there."""
    found = {
        name: importlib.metadata.version(name)
        for name in ("quantecon", "mdpsolver", "pandas", "polars")
        if installed(name)
    }
    python = scool_python()
    if python is not None:
        code = "import importlib.metadata as m; print(m.version('rlberry-scool'))"
        found["rlberry-scool"] = subprocess.check_output([python, "-c", code], encoding="utf-8").strip()
    return found


def scool_python() -> Path | None:
    """Return the interpreter that has rlberry-scool."""
    python = _SCOOL / "bin" / "python"
    return python if (_SCOOL / ".installed").exists() and python.exists() else None


def mbqvi_seconds(python: Path, mdp: TabularMDP, samples: tuple[int, ...], rounds: int) -> list[list[float]]:
    """Return the times of MBQVI with so many samples a pair: a list for each, a number a round."""
    row = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.rows.indptr))
    P = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    P[row, mdp.rows.next_state] = mdp.rows.probability
    P /= P.sum(axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        np.savez(
            problem,
            P=P.reshape(mdp.n_states, mdp.n_actions, mdp.n_states),
            R=mdp.rows.reward[mdp.rows.indptr[:-1]].reshape(mdp.n_states, mdp.n_actions),
            gamma=mdp.gamma,
        )
        command = [python, Path(__file__).with_name("mbqvi.py"), problem, json.dumps(samples), str(rounds)]
        done = subprocess.run(
            list(map(str, command)), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
        )
    times: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return times


def install() -> None:
    """Install what can be installed."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["optional-dependencies"]["bench"]:
        _pip(Path(sys.executable), requirement)
    if scool_python() is None:
        venv.create(_SCOOL, with_pip=True, clear=True)
        if _pip(_SCOOL / "bin" / "python", "rlberry-scool"):
            (_SCOOL / ".installed").touch()


def _pip(python: Path, requirement: str) -> bool:
    quietly = ["--quiet", "--disable-pip-version-check"]
    done = subprocess.run([str(python), "-m", "pip", "install", *quietly, requirement], stderr=subprocess.PIPE)
    if done.returncode != 0:
        print(f"{requirement} cannot be installed; the benchmarks go without it.", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    install()
