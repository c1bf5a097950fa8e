"""A checkout that is not writable: its tests run, and leave nothing in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = (
    "tests/test_registry.py::test_whole_exactly_when_the_fraction_is",  # hypothesis keeps a database
    "tests/test_old_files.py::test_the_first_write_makes_it_a_store_of_today",  # copies are changed
    "tests/test_old_files.py::test_directories_of_version_1_that_were_changed",
    "src/replicable_rl/randomness/streams.py",  # compiled, and kept by numba
)
NO_OVERRIDE = "-dac_override,-dac_read_search"


def as_anybody() -> list[str]:
    """Return what to start a command with, so that it cannot write where modes forbid it: root can."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere, and there is no setpriv")
    return ["setpriv", f"--bounding-set={NO_OVERRIDE}", f"--inh-caps={NO_OVERRIDE}"]


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_the_tests_of_a_checkout_that_cannot_be_written(tmp_path: Path) -> None:
    checkout, unwanted = tmp_path / "checkout", shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, checkout / name, ignore=unwanted)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copyfile(ROOT / name, checkout / name)
    before = files(checkout)
    for path in (checkout, *before):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        tested = subprocess.run(
            [*as_anybody(), sys.executable, "-m", "pytest", "-p", "no:xdist", *TESTS],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout / "src"), "XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
        assert tested.returncode == 0, tested.stdout[-3000:] + tested.stderr[-3000:]
        assert " passed" in tested.stdout
        assert files(checkout) == before
    finally:
        for path in (checkout, *before):  # pytest removes the folder
            path.chmod(0o755 if path.is_dir() else 0o644)
