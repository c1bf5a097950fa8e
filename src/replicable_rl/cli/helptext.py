"""How the help of a command looks: whole sentences, no Python types, options in groups, and an example that runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand

_WHOLE, _PART = 54, 46  # letters of an example on one line, and of a line of many: both fit 60 columns


def example(*commands: str) -> str:
    r"""Return commands as the end of a help page; a long one goes on in the next line, as a shell reads it.

    >>> print(example("list --json").replace("\b\n", ""))
    Example:
      replicable-rl list --json
    """
    heading = "Example:" if len(commands) == 1 else "Examples:"
    lines = [line for command in commands for line in _lines(f"replicable-rl {command}")]
    return "\n".join(["\b", heading, *lines])  # \b: lines are left as they are


def _lines(command: str) -> Iterator[str]:
    pieces = command.replace(" --", "\0--").replace(" -o", "\0-o")  # an option stays with its value
    joined = [piece.replace(" ", "\1") if piece.startswith("-") else piece for piece in pieces.split("\0")]
    width = _WHOLE if len(command) <= _WHOLE else _PART
    lines = textwrap.wrap(" ".join(joined), width, break_long_words=False, break_on_hyphens=False)
    for i, line in enumerate(lines):
        end = " \\" if i < len(lines) - 1 else ""
        yield f"{'  ' if i == 0 else '      '}{line}{end}".replace("\1", " ")


class Command(TyperCommand):
    """A command whose help shows arguments by their names, and options in the groups that they say they are in."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # typer's own name
        """Write the arguments, the command's own options, and then those that it shares with others."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                argument = param.param_type_name == "argument"
                usual = "Arguments" if argument else "Options"
                group = getattr(param, "rich_help_panel", None) or usual
                groups.setdefault(group, []).append((_name(param), record[1]) if argument else record)
        first = ["Arguments", "Options"]
        for group in sorted(groups, key=lambda name: first.index(name) if name in first else len(first)):
            with formatter.section(group):
                formatter.write_dl(groups[group])

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # as above
        """Return what the first line says: PROBLEM must be given, [NAME]... need not."""
        pieces = [self.options_metavar or ""]
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                name = _name(param) if param.required else f"[{_name(param)}]"
                pieces.append(name if param.nargs == 1 else f"{name}...")
        return pieces


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())
