"""The checks of ``replicable-rl doctor``: each finds one thing, and says what to do where it does not work."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from replicable_rl.canonical import parse_json
from replicable_rl.cli.output import terminal_width
from replicable_rl.report.drawing import can_encode
from replicable_rl.wording import plural, sentence

Status = Literal["ok", "absent", "fails"]
_PACKAGE = "replicable-rl"
_HERE = Path(__file__).parent.parent
_OF_DEVELOPERS = ("bench", "dev", "docs")  # extras that a user does not need
_PATIENCE = 120.0  # seconds for a process that tries something
_REINSTALL = "Install it again: pip install -e . in the folder of the source."


@dataclass(frozen=True)
class Check:
    """What one check found; ``absent`` is what nobody needs to have."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def all_checks(folder: Path | None = None) -> Iterator[Check]:
    """Yield all checks; stores are tried in a folder of the user's, or in the temporary one."""
    yield Check("Python", "ok", f"{platform.python_version()} on {platform.system()}-{platform.machine()}")
    yield from _packages()
    yield _cores()
    yield from _compilation()
    yield _temporary()
    yield _store(folder)
    yield _terminal()
    yield from _extras()


class _Failed(Exception):
    """A process that tried something did not come back with an answer."""


def _tried(*arguments: str) -> Any:
    """Return what `replicable_rl.cli.probe` finds in a process of its own."""
    command = [sys.executable, "-m", "replicable_rl.cli.probe", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise _Failed(f"it did not end within {_PATIENCE:g} s") from None
    except OSError as error:
        raise _Failed(f"no process could be started ({error.strerror})") from None
    if done.returncode < 0:
        raise _Failed(f"the process was ended by {signal.Signals(-done.returncode).name}")
    try:
        return parse_json(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise _Failed(sentence(last, 200)) from None


def _packages() -> Iterator[Check]:
    """The package, and those that it cannot do without: there, new enough, and can be imported."""
    try:
        version = metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        yield Check(
            _PACKAGE, "fails", "it is imported, but not installed, so runs cannot say their version", _REINSTALL
        )
        return
    yield Check(_PACKAGE, "ok", f"{version} in {_HERE}")
    needed = _required()[""]
    try:
        broken = _tried("importing", *(one.name for one in needed))
    except _Failed as error:
        yield Check("packages", "fails", f"trying to import them failed: {error}", _REINSTALL)
        broken = {}
    for one in needed:
        found, right = _installed(one)
        if one.name in broken:
            found, right = f"{found} cannot be imported ({broken[one.name]})", False
        yield Check(one.name, "ok" if right else "fails", found, "" if right else f"Run pip install '{one}'.")


def _extras() -> Iterator[Check]:
    """What adds something, and may be missing."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for extra, parts in _required().items():
            if extra and extra not in _OF_DEVELOPERS:
                found = {one.name: _installed(one) for one in parts}
                there = all(right for _, right in found.values())
                remedy = "" if there else f"If you want it: pip install -e '.[{extra}]' in the folder of the source."
                said = ", ".join(f"{name} {text}" for name, (text, _) in found.items())
                yield Check(f"extra {extra}", "ok" if there else "absent", said, remedy)


def _required() -> dict[str, list[Any]]:
    """Return what is required, '' by the package itself and the rest by extras.

    A checkout says it in its pyproject.toml, which may be newer than what pip noted when it was installed.
    """
    from packaging.requirements import Requirement

    checkout = _HERE.parent.parent / "pyproject.toml"
    with contextlib.suppress(OSError, ValueError, KeyError):
        project = tomllib.loads(checkout.read_text(encoding="utf-8"))["project"]
        if project["name"] == _PACKAGE:
            listed = {"": project["dependencies"], **project["optional-dependencies"]}
            return {extra: list(map(Requirement, lines)) for extra, lines in listed.items()}
    found: dict[str, list[Any]] = {"": []}
    for line in metadata.requires(_PACKAGE) or []:  # ray>=2.40; extra == 'ray'
        one = Requirement(line)
        extra = str(one.marker).partition("extra == ")[2].strip("\"'") if one.marker else ""
        one.marker = None
        found.setdefault(extra, []).append(one)
    return found


def _installed(requirement: Any) -> tuple[str, bool]:
    """Say which version of a package is there, and whether it is what is required."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return "is not installed", False
    right = requirement.specifier.contains(version, prereleases=True)
    return version if right else f"{version}, which is not {requirement.specifier}", right


def _cores() -> Check:
    import joblib

    usable, there = int(joblib.cpu_count()), os.cpu_count() or 1
    why = "" if usable == there else f" of {there}; the others are not given to this process"
    return Check("cores", "ok", f"{plural(usable, 'core')}{why}")


def _compilation() -> Iterator[Check]:
    """Whether kernels can be compiled, and where they are kept."""
    try:
        found = _tried("compiling")
    except _Failed as error:
        yield Check(
            "compilation",
            "fails",
            f"a small function was not compiled: {error}",
            "Run pip install --force-reinstall numba.",
        )
        return
    if "off" in found:
        said = "it is switched off by NUMBA_DISABLE_JIT, so everything is far slower"
        yield Check("compilation", "fails", said, "Unset NUMBA_DISABLE_JIT.")
        return
    if not found["right"]:
        yield Check("compilation", "fails", "a small function was compiled to a wrong one", _REINSTALL)
        return
    yield Check("compilation", "ok", f"a small function was compiled in {found['seconds']:.2g} s")
    yield Check("threads", "ok", f"a run uses up to {found['threads']}")
    yield _cache(found["cache"])


def _cache(path: str | None) -> Check:
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    remedy = "Set NUMBA_CACHE_DIR to a folder that you can write to."
    if path is None:
        said = "there is nowhere to keep compiled code, so every process compiles again, which takes some seconds"
        return Check("compile cache", "fails", said, remedy)
    if wanted and not Path(path).is_relative_to(Path(wanted).absolute()):
        said = f"NUMBA_CACHE_DIR is {wanted}, which cannot be written; {path} is used instead"
        return Check("compile cache", "fails", said, remedy)
    return Check("compile cache", "ok", path)


def _temporary() -> Check:
    try:
        with tempfile.TemporaryFile():
            return Check("temporary folder", "ok", tempfile.gettempdir())
    except OSError as error:
        said = f"no file can be made in it ({error.strerror})"
        return Check("temporary folder", "fails", said, "Set TMPDIR to a folder that you can write to.")


def _store(folder: Path | None) -> Check:
    """Whether SQLite can write, and keeps a second process out while one writes."""
    remedy = "Keep stores on a local disk; network folders often cannot lock."
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".replicable-rl-doctor.") as name:
            path = str(Path(name) / "runs.sqlite")
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("CREATE TABLE t (x)")
                connection.execute("BEGIN IMMEDIATE")
                refused = _tried("locking", path)["refused"]
                connection.execute("ROLLBACK")
    except (OSError, sqlite3.Error, _Failed) as error:
        why = getattr(error, "strerror", None) or error
        return Check("store", "fails", f"nothing can be written to {folder or 'the temporary folder'} ({why})", remedy)
    place = folder or tempfile.gettempdir()
    if not refused:
        return Check("store", "fails", f"two processes can write to a store in {place} at once", remedy)
    return Check("store", "ok", f"SQLite {sqlite3.sqlite_version} locks files in {place}")


def _terminal() -> Check:
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    kind = f"{terminal_width()} columns" if sys.stdout.isatty() else "piped, 80 columns"
    plain = "" if can_encode("↑█┼ρ") else ", which has no arrows: grids are drawn with letters. PYTHONUTF8=1 changes it"
    return Check("terminal", "ok", f"{kind}, {encoding}{plain}")
