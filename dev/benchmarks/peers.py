"""The peers: who is installed. What is not installed is '-' in the tables.

    python -m dev.benchmarks.peers        # install them one by one; one that fails is left out

QuantEcon, mdpsolver, pandas and Polars are the extra ``bench``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

__all__ = ["absence", "installed", "versions"]

_ROOT = Path(__file__).resolve().parents[2]


def installed(package: str) -> bool:
    """Say whether a peer can be imported here."""
    return importlib.util.find_spec(package) is not None


def absence(name: str) -> str:
    """Return the footnote of a peer that is not there."""
    return f"{name} is not installed here."


def versions() -> dict[str, str]:
    """Return the versions of the peers that are there."""
    names = filter(installed, ("quantecon", "mdpsolver", "pandas", "polars"))
    return {name: importlib.metadata.version(name) for name in names}


def install() -> None:
    """Install what can be installed."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for requirement in project["optional-dependencies"]["bench"]:
        if subprocess.run([*pip, requirement], stderr=subprocess.PIPE).returncode != 0:
            print(f"{requirement} cannot be installed; the benchmarks go without it.", file=sys.stderr)


if __name__ == "__main__":
    install()
