"""``replicable-rl doctor``: what works and what does not on this machine, and what to do about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from replicable_rl.cli import checks
from tests.test_checkout import as_anybody
from tests.test_cli import Run, environment, run  # noqa: F401  # run is a fixture

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
EXTRAS = {"dask", "ray", "sb3", "pandas", "ibis"}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers of processes that are not started: the tests change them."""
    answers: dict[str, Any] = {
        "importing": {},
        "compiling": {"right": True, "seconds": 0.5, "threads": 2, "cache": "/cache"},
        "locking": {"refused": True},
    }

    def answer(what: str, *_: str) -> Any:
        if isinstance(answers[what], Exception):
            raise answers[what]
        return answers[what]

    monkeypatch.setattr(checks, "_tried", answer)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    return answers


def found(run: Run, *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:  # noqa: F811
    result = run("doctor", "--json", *arguments)
    assert result.err == ""
    data = json.loads(result.out)
    assert data["works"] == (result.code == 0)
    return result.code, {one.pop("name"): one for one in data["checks"]}


def test_this_machine(run: Run) -> None:  # noqa: F811
    """Every word of it, with real processes."""
    code, told = found(run)
    assert code == 0, told
    for package in ("numpy", "scipy", "numba", "gymnasium", "duckdb"):
        assert told[package]["found"] == metadata.version(package)
    assert told["replicable-rl"]["found"].endswith(str(Path("src", "replicable_rl")))
    assert f"extra {min(EXTRAS)}" in told
    assert told["cores"]["found"].split()[0] == str(len(os.sched_getaffinity(0)))
    assert Path(told["compile cache"]["found"]).is_dir()
    assert "was compiled in" in told["compilation"]["found"]
    assert told["store"]["found"].endswith(f"locks files in {tempfile.gettempdir()}")
    assert {one["status"] for one in told.values()} <= {"ok", "absent"}


def test_for_people(run: Run, tried: dict[str, Any]) -> None:  # noqa: F811
    shown = run.good("doctor")
    assert shown.endswith("\nEverything works.\n")
    assert max(map(len, shown.splitlines())) <= 80
    assert run.good("doctor", "--quiet") == ""
    tried["compiling"]["cache"] = None
    result = run("doctor")
    assert (result.code, result.err) == (1, "")
    assert "checks failed: compile cache.\n" in result.out
    quiet = run("--quiet", "doctor")
    assert quiet.code == 1
    assert quiet.out.startswith("compile cache     FAILS: there is nowhere to keep compiled code")
    assert " ".join(quiet.out.split()).count("Set NUMBA_CACHE_DIR to a folder that you can write to.") == 1


@pytest.mark.parametrize(
    ("what", "answer", "name", "said"),
    [
        ("compiling", {"off": True}, "compilation", "switched off by NUMBA_DISABLE_JIT"),
        ("compiling", {"right": False}, "compilation", "compiled to a wrong one"),
        ("compiling", checks._Failed("it broke"), "compilation", "not compiled: it broke"),
        ("importing", {"duckdb": "ImportError: no"}, "duckdb", "cannot be imported (ImportError: no)"),
        ("importing", checks._Failed("it broke"), "packages", "it broke"),
        ("locking", {"refused": False}, "store", "two processes can write to a store"),
        ("locking", checks._Failed("it broke"), "store", "(it broke)"),
    ],
)
def test_what_does_not_work(
    what: str,
    answer: Any,
    name: str,
    said: str,
    run: Run,  # noqa: F811
    tried: dict[str, Any],
) -> None:
    tried[what] = answer
    code, told = found(run)
    assert code == 1
    assert [one for one, check in told.items() if check["status"] == "fails"] == [name]
    assert said in told[name]["found"]
    assert told[name]["remedy"].endswith(".")


def test_packages_that_are_missing_or_old(run: Run, tried: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    real = metadata.version

    def version(name: str) -> str:
        if name in ("ray", "scipy"):
            raise metadata.PackageNotFoundError(name)
        return "1.0" if name in ("numpy", "stable-baselines3") else real(name)

    monkeypatch.setattr(metadata, "version", version)
    code, told = found(run)
    assert code == 1
    assert told["numpy"] == {
        "status": "fails",
        "found": "1.0, which is not >=2.0",
        "remedy": "Run pip install 'numpy>=2.0'.",
    }
    assert told["scipy"]["found"] == "is not installed"
    assert told["extra ray"]["status"] == told["extra sb3"]["status"] == "absent"
    assert told["extra ray"]["found"] == "ray is not installed"
    assert "pip install -e '.[ray]'" in told["extra ray"]["remedy"]
    assert "which is not >=2.9" in told["extra sb3"]["found"]


def test_a_wheel_says_what_it_requires_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There is no pyproject.toml beside an installed package: what pip noted is read."""
    monkeypatch.setattr(checks, "_HERE", tmp_path / "site-packages" / "replicable_rl")
    lines = ["numpy>=2.0", "ray>=2.40; extra == 'ray'", 'dask[distributed]>=2024.8; extra == "dask"']
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    required = checks._required()
    assert {extra: [one.name for one in parts] for extra, parts in required.items()} == {
        "": ["numpy"],
        "ray": ["ray"],
        "dask": ["dask"],
    }


def test_a_checkout_that_is_not_installed(run: Run, tried: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    code, told = found(run)
    assert code == 1
    assert "pip install -e ." in told["replicable-rl"]["remedy"]


def test_folders(run: Run, tried: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    code, told = found(run, "--folder", str(tmp_path))
    assert (code, told["store"]["found"].endswith(f"locks files in {tmp_path}")) == (0, True)
    assert list(tmp_path.iterdir()) == []
    refusal = run.refused("doctor", "--folder", tmp_path / "nowhere")
    assert refusal == f"--folder: {tmp_path / 'nowhere'} is not a folder. Name the one where your stores are."


def test_a_temporary_folder_that_cannot_be_written(
    run: Run,  # noqa: F811
    tried: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    code, told = found(run)
    assert code == 1
    assert told["temporary folder"]["status"] == told["store"]["status"] == "fails"
    assert "TMPDIR" in told["temporary folder"]["remedy"]


# --- real processes ----------------------------------------------------------------------------


def test_a_database_that_is_free_is_not_refused(tmp_path: Path) -> None:
    assert checks._tried("locking", str(tmp_path / "free.sqlite")) == {"refused": False}


def test_a_process_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(checks._Failed, match="KeyError"):
        checks._tried("nothing of that kind")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(checks._Failed, match="no process could be started"):
        checks._tried("compiling")
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with pytest.raises(checks._Failed, match="it printed nothing"):
        checks._tried("compiling")


def test_a_cache_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    wanted = tmp_path / "file" / "cache"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(wanted))
    cache = list(checks._compilation())[-1]
    assert cache.status == "fails"
    assert cache.found.startswith(f"NUMBA_CACHE_DIR is {wanted}, which cannot be written")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "good"))
    assert checks._cache(str(tmp_path / "good" / "randomness_123")).status == "ok"


def test_a_read_only_installation_without_a_home(tmp_path: Path) -> None:
    """Everything still computes; the doctor says that it compiles anew in every process, and what to do."""
    package, home = tmp_path / "src", tmp_path / "home"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("*.nbi", "*.nbc"))
    home.mkdir()
    folders = [home, package, *(path for path in package.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    env = environment(PYTHONPATH=str(package), HOME=str(home), PYTHONDONTWRITEBYTECODE="1")
    env.pop("XDG_CACHE_HOME", None)
    env.pop("NUMBA_CACHE_DIR", None)
    code = "from replicable_rl.cli import checks; print([*checks._compilation()])"
    try:
        outcomes = []
        for changes in ({}, {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}):
            command = [*as_anybody(), sys.executable, "-c", code]
            done = subprocess.run(command, env=env | changes, capture_output=True, encoding="utf-8", timeout=120)
            assert done.returncode == 0, done.stderr
            outcomes.append(done.stdout)
    finally:
        for path in folders:  # pytest removes the folder
            path.chmod(0o755)
    nowhere, mended = outcomes
    assert "a small function was compiled" in nowhere
    assert "there is nowhere to keep compiled code" in nowhere
    assert "status='fails'" in nowhere
    assert "status='fails'" not in mended
    assert str(tmp_path / "cache") in mended
