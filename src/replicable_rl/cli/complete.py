"""What the Tab key offers: ids and names. Where nothing matches, the shell goes on with files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from replicable_rl.errors import InvalidInput

COMPLETING = "_REPLICABLE_RL_COMPLETE"  # in the environment of a process that a shell asks what may follow
Completer = Callable[[str], list[str]]


def names(*choices: str) -> Completer:
    """Complete one of a few words.

    >>> names("sharp", "tight", "printed")("p")
    ['printed']
    """
    return lambda incomplete: _matching(choices, incomplete)


def problems(incomplete: str) -> list[str]:
    """Complete ids of problems, and saved ones in this folder."""
    return _matching((*_registered("PROBLEMS"), *_files(".npz")), incomplete)


def algorithms(incomplete: str) -> list[str]:
    """Complete ids of algorithms."""
    return _matching(_registered("ALGORITHMS"), incomplete)


def samplers(incomplete: str) -> list[str]:
    """Complete ids of samplers."""
    return _matching(_registered("SAMPLERS"), incomplete)


def levels(incomplete: str) -> list[str]:
    """Complete names of levels."""
    return _matching(_registered("LEVELS"), incomplete)


def rules(incomplete: str) -> list[str]:
    """Complete rules of plug-in policies, and published cuts in this folder."""
    return _matching((*_rules(), *_files(".json")), incomplete)


def compared(incomplete: str) -> list[str]:
    """Complete what `compare` compares: rules and families of algorithms."""
    from replicable_rl.diagnose.candidates import REPLICATES

    return _matching(REPLICATES, incomplete)


def experiments(incomplete: str) -> list[str]:
    """Complete the experiments of `reproduce`."""
    from replicable_rl.cli.reproduce import NAMES

    return _matching(NAMES, incomplete)


def problem_then_algorithm(context: typer.Context, incomplete: str) -> list[str]:
    """Complete what is to be solved, and after it the algorithm; files are left to the shell."""
    return algorithms(incomplete) if context.params.get("names") else problems(incomplete)


def refuse_unknown_shell(arguments: Iterable[str]) -> None:
    """Refuse to install completion, or to show it, where nobody knows for which shell."""
    asked = {"--install-completion", "--show-completion"} & set(arguments)
    if not asked:
        return
    import shellingham

    with contextlib.suppress(shellingham.ShellDetectionFailure):
        if shellingham.detect_shell()[0] in ("bash", "zsh", "fish", "powershell", "pwsh"):
            return
    raise InvalidInput(
        f"{min(asked)}: it was not started from bash, zsh or fish. Start one of them first, or print the lines for it: "
        "_REPLICABLE_RL_COMPLETE=source_bash replicable-rl, and likewise source_zsh and source_fish."
    )


def _registered(table: str) -> Iterator[str]:
    """Yield the ids of one kind, those of installed plugins too; what a plugin raises is no reason to beep."""
    from replicable_rl import records, registry

    with contextlib.suppress(Exception):
        registry.load_plugins()
    found: dict[str, Any] = getattr(records if table == "LEVELS" else registry, table)
    yield from found


def _rules() -> Iterator[str]:
    from replicable_rl.queries.rules import SHIPPED

    yield from SHIPPED


def _files(ending: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from sorted(path.name for path in Path().iterdir() if path.name.endswith(ending))


def _matching(choices: Iterable[str], incomplete: str) -> list[str]:
    return [one for one in choices if one.startswith(incomplete)]
