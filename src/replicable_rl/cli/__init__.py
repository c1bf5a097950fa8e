"""The command ``replicable-rl``: parse, call one function, print, exit code.

0 done, or what is required is met; 1 refuted; 2 bad input; 3 cannot tell.
"""

import io
import os
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

from replicable_rl import progress
from replicable_rl.cli import commands
from replicable_rl.cli.options import import_module, in_options
from replicable_rl.cli.output import drop_output, print_error
from replicable_rl.errors import InvalidInput

__all__ = ["main"]

_INTERRUPTED = 130  # what a shell says of Ctrl-C
_BUG = 70  # as the system's own programs say it; Python's 1 would read as "refuted"
# click's class of all bad usage, which typer keeps in a place of its own
_USAGE: type[Exception] = typer.BadParameter.__mro__[1]
_TYPER = ("typer", "click", "rich")

app = typer.Typer(
    name="replicable-rl",
    help="Reinforcement learning that gives the same policy twice, from fresh samples.",
    epilog="Exit codes: 0 done, or what is required is met; 1 refuted; 2 bad input; 3 cannot tell.",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no error
    try:
        code = app(arguments, prog_name="replicable-rl", standalone_mode=False)
        sys.stdout.flush()
        return _interrupted() if code == _INTERRUPTED else int(code or 0)
    except InvalidInput as error:
        return _fail(in_options(str(error)))
    except MemoryError:
        return _fail("Not enough memory for a problem of this size.")
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except SystemExit as end:  # typer ends so what a shell asked, and rich a pipe without a reader
        *_, (frame, _) = traceback.walk_tb(end.__traceback__)
        if frame.f_globals["__name__"].partition(".")[0] not in _TYPER:
            return _fail(f"The code that was run ended the program (SystemExit: {end.code}).")
        drop_output()
        return end.code if "_REPLICABLE_RL_COMPLETE" in os.environ and isinstance(end.code, int) else 0
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as error:
        drop_output()
        return _fail(f"{error.filename or 'The output cannot be written'}: {error.strerror}.")
    except _USAGE as error:
        return _fail_usage(error)
    except BaseException:
        traceback.print_exc()
        return _BUG


def _interrupted() -> int:
    print_error("replicable-rl: interrupted; nothing was half-written, and a store keeps the finished runs.")
    return _INTERRUPTED


def _fail_usage(error: Any) -> int:
    message = error.format_message()
    message += "." * (message[-1] not in ".?")
    return _fail(f"{message} Try `{error.ctx.command_path} --help`." if error.ctx else message)


def _fail(message: str) -> int:
    print_error(f"replicable-rl: {' '.join(message.split())}")
    return 2


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="Import your module first: it registers ids of your own.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result: no progress, no notes.")] = False,
) -> None:
    if quiet:
        context.with_resource(progress.quiet())
        context.with_resource(warnings.catch_warnings(action="ignore"))
    for module in plugin or []:
        import_module("--plugin", module)
    if version:
        from replicable_rl import __version__

        print(f"replicable-rl {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InvalidInput("Missing command. Try `replicable-rl --help`.")


for _command in (
    *(commands.solve_command, commands.plan_command, commands.publish_command),
    *(commands.audit_command, commands.report_command),
    *(commands.diagnose_command, commands.compare_command, commands.calibrate_command),
    *(commands.reproduce_command, commands.list_command),
):
    app.command(_command.__name__.removesuffix("_command"))(_command)
